"""The status page of a machine that a recording or a test describes: documents, HTML, a server."""

from __future__ import annotations

import dataclasses
import json
import queue
from typing import TYPE_CHECKING

from support import drives, machine
from support.attached import probe_answer
from support.kmsg import BOOT_ID
from support.lives import _events, _Frames, _Log, _rules
from support.recordings import steps

from iowarden.collectors.procfs.process_io import ProcessIo, Sweep
from iowarden.collectors.procfs.process_io import to_json as sweep_json
from iowarden.collectors.procfs.tasks import BlockedTask, BlockedTasks
from iowarden.collectors.procfs.tasks import to_json as tasks_json
from iowarden.collectors.recording.player import RecordedMachine
from iowarden.collectors.smart import smartctl_runner
from iowarden.collectors.smart.drive import AccessMethod
from iowarden.daemon.clock import PlayedClock
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.http import page_access
from iowarden.daemon.http.exposition import Exposition
from iowarden.daemon.http.http_server import App, HttpServer
from iowarden.daemon.http.page_access import PageAccess
from iowarden.daemon.page import style
from iowarden.daemon.page.pages import Rendered, StatusPages
from iowarden.daemon.polling import pollers
from iowarden.daemon.polling.scheduler import SourceScheduler
from iowarden.daemon.replay.replay import MemoryStateDatabase, _Sender
from iowarden.daemon.service.service import Dependencies, Service
from iowarden.rules.engine.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from iowarden.collectors.recording.recording import RecordingStep
    from iowarden.daemon.config.schema import Address
    from iowarden.daemon.page.builder import PageRequest

PAGE_SIZE_BYTES = 4096
STEP_SECONDS = 4
HOST = "db1.example.com"


class PlayedService:
    """The whole service after a recording; its loop stands still, and answers for the page."""

    def __init__(
        self,
        steps: Sequence[RecordingStep],
        directory: Path,
        *,
        full: bool,
        settings: str = "",
        state: type[MemoryStateDatabase] = MemoryStateDatabase,
    ) -> None:
        """Play the steps to their end; `directory` is where history.db would be."""
        config = parse_config(
            f"host: {HOST}\nstate_directory: {directory}\n"
            f"mail: {{to: root@mail.example.com}}\n{settings}",
            "test",
        )
        self.clock, root = PlayedClock(), RecordedMachine(PAGE_SIZE_BYTES)
        events: queue.SimpleQueue[object] = queue.SimpleQueue()
        asked = pollers.make(config.smart, self.clock)
        sources = [dataclasses.replace(s, may_hang=False) for s in asked.sources()]
        readers = SourceScheduler(
            sources, config.interval_seconds, lambda: root, self.clock.now, events.put
        )
        self.engine = Engine(_rules(), readers.sources, self.clock.now())
        self.log: list[str] = []
        self.exposition = Exposition(self.log.append)
        self.service = Service(
            Dependencies(
                config=config,
                clock=self.clock,
                engine=self.engine,
                readers=readers,
                events=events,
                log=_Log(self.log),
                state=state(events.put),
                sender=_Sender(lambda: 0.0, events.put),
                exposition=self.exposition,
                notify=lambda _: None,
                player=_Frames(steps, root, readers, events.put),
                pollers=asked,
                table=_events(),
                make_usage_machine=root.another,
                version="1.2.3",
            )
        )
        self.service.run(None)
        self.service.loop.stopping = None
        self.pages = StatusPages(
            self.answer, str(directory / "history.db"), HOST, "1.2.3", full=full
        )

    def answer(self, request: PageRequest) -> None:
        """Answer as the loop does."""
        self.service._handle(request, self.clock.now())

    def get(self, path: str = "/") -> Rendered:
        """Return a page."""
        found = self.pages.get(path)
        assert found is not None
        return found

    def incidents(self) -> list[str]:
        """Return the identifiers of the incidents."""
        return [i.identifier for i in self.service._tracker.incidents.by_key.values()]

    def server(self, address: Address = ("127.0.0.1", 0)) -> HttpServer:
        """Return a server of the page that is not started."""
        config = parse_config("", "none").http
        return HttpServer((address,), self.app(), config, self.log.append)

    def app(self) -> App:
        """Return what answers the requests of a browser."""

        def get(path: str) -> tuple[int, bytes] | None:
            found = self.pages.get(path)
            return None if found is None else (found.status, found.html)

        access = PageAccess(get, style.POLICY, page_access.names(HOST))
        return App("1.2.3", self.exposition.render, str, str, str, pages=access)


def rack(
    disks: int,
    seconds: int = 60,
    events: Mapping[int, Mapping[str, str | bytes | None]] = {},
    smart: Callable[[str], str] | None = None,
) -> list[RecordingStep]:
    """Return a recording of a machine with so many disks, each with SMART data.

    `events` are files that change at a second; `smart` returns smartctl's output by device.
    """
    found: dict[str, str | bytes | None] = {**machine.files(disks)}
    names = [machine.disk_name(number) for number in range(disks)]
    smart = smart or (lambda name: drives.ata(f"S-{name}", 40_000 * names.index(name)))
    for name in names:
        found[f"/sys/block/{name}/device/vpd_pg80"] = serial_page(f"S-{name}")
        for kind in ("scsi", "sat", ""):
            method = AccessMethod(f"/dev/{name}", kind)
            found |= probe_answer(*smartctl_runner.command(method, "full"), stdout=smart(name))
    found |= {"/proc/sys/kernel/random/boot_id": f"{BOOT_ID}\n", "/.kmsg": ""}
    frames = [(10_000.0, found)]
    for second in range(STEP_SECONDS, seconds + 1, STEP_SECONDS):
        changed = {**machine.counters(disks, second)}
        for at, files in events.items():
            changed |= files if second - STEP_SECONDS < at <= second else {}
        frames.append((10_000.0 + second, changed))
    return list(steps(frames))


def serial_page(serial: str) -> bytes:
    """Return the SCSI page with a serial number."""
    return b"\0\x80\0" + bytes([len(serial.encode())]) + serial.encode()


def printed(*lines: str, second: int = 20) -> dict[str, str | bytes | None]:
    """Return the kernel's log with lines of a second of the recording."""
    at = round((10_000.0 + second - 0.5) * 1e6)
    records = [f"3,{number},{at + number},-;{line}\n" for number, line in enumerate(lines, 1)]
    return {"/.kmsg": "".join(records)}


def frozen(seconds: int, until: int | None = None) -> list[RecordingStep]:
    """Return a recording of a machine whose database waits from second 8 on, beside a restore.

    It ends after so many seconds; `until`: then the database goes on.
    """
    events: dict[int, dict[str, str | bytes | None]] = {}
    for second in range(STEP_SECONDS, seconds + 1, STEP_SECONDS):
        uptime = 10_000.0 + second
        waits = second >= 8 and (until is None or second < until)
        tasks = [_backend(pid) for pid in (812, 813)] if waits else []
        writer = ProcessIo(400, 1_000, 1, "pg_restore", "load.service", 0, second * 80_000_000, 0)
        blocked = BlockedTasks(tuple(tasks), len(tasks), boot_seconds=uptime)
        text = machine.counters(2, second)["/proc/diskstats"].replace(
            f" {700 + second * 10} ",
            f" {700 + second * 700} ",  # they are busy with the restore
        )
        events[second] = {
            "/.probe/tasks": json.dumps(tasks_json(blocked)),
            "/.probe/io_sweep": json.dumps(sweep_json(Sweep(uptime, (writer,)))),
            "/proc/stat": machine.STAT.format(blocked=len(tasks), ticks=1000 + second * 100),
            "/proc/diskstats": text,
        }
    return rack(2, seconds, events)


def unpolled(steps: Sequence[RecordingStep], second: int) -> list[RecordingStep]:
    """Return a recording with the probe gone from a second on, while tasks are blocked."""
    found = list(steps)
    at = second // STEP_SECONDS
    for index in range(at, len(found)):
        stat = machine.STAT.format(blocked=2, ticks=10_000 + index).encode()
        files = {**found[index].files, "/proc/stat": stat}
        files.pop("/.probe/tasks", None)
        found[index] = dataclasses.replace(found[index], files=files)
    found[at] = dataclasses.replace(found[at], gone=("/.probe/tasks",))
    return found


def _backend(pid: int) -> BlockedTask:
    return BlockedTask(
        pid=pid,
        start_ticks=4_000,
        command="postgres",
        wait_channel="jbd2_log_wait_commit",
        stack=("jbd2_log_wait_commit", "ext4_sync_file", "do_fsync", "__x64_sys_fsync"),
        read_bytes=0,
        write_bytes=65_536,
        waits_at="sda",
        system_call="74 0x5 0x0 0x0 0x0 0x0 0x0 0x7ffc1e30 0x7f0ac5b0",
        counters=(0, 65_536, 10, 10, 0, 65_536),
        voluntary_switches=700,
        cpu_ticks=30,
        file="/srv/db/pg_wal/000000010000000000000001",
        mount="/srv/db",
        unit="postgresql.service",
    )
