"""The status page of a machine that a recording or a test describes: documents, HTML, a server."""

from __future__ import annotations

import dataclasses
import queue
from typing import TYPE_CHECKING

from support import drives, machine
from support.attached import probe_answer
from support.kmsg import BOOT_ID
from support.lives import _events, _Frames, _Log, _rules
from support.recordings import steps

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
from iowarden.daemon.replay.replay import _NullStateDatabase, _Sender
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
        state: type[_NullStateDatabase] = _NullStateDatabase,
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
