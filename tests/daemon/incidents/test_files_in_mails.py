"""The file that was hit, in a mail: the loop with its threads, a file system, a mail server.

The machine's sysfs and its kernel's log are written, its disk is an image that debugfs reads.
"""

from __future__ import annotations

import contextlib
import queue
import random
import threading
import time
from typing import TYPE_CHECKING

from support import images
from support.images import SECTOR, Imaged
from support.live import parsed
from support.memory import write_tree
from support.smtp import DEADLINE_SECONDS, smtp_server

from iowarden.collectors.block.uevents import Uevent, UeventBatch
from iowarden.daemon import journal
from iowarden.daemon.clock import SystemClock
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_events
from iowarden.daemon.http.exposition import Exposition
from iowarden.daemon.notify import smtp
from iowarden.daemon.notify.sender import mail_sender
from iowarden.daemon.polling import pollers
from iowarden.daemon.polling.scheduler import SourceScheduler
from iowarden.daemon.service.messages import Stop
from iowarden.daemon.service.service import Dependencies, Service
from iowarden.daemon.storage.state_db import StateDatabase
from iowarden.rules.engine.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.smtp import Answers

    from iowarden.collectors.machine import Machine
    from iowarden.daemon.config.schema import Config

START = 2048
SOURCES = frozenset({"block", "kernel_log", "mounts", "stat"})
BOOT_ID = "11111111-2222-3333-4444-555555555555"


@contextlib.contextmanager
def watched(
    tmp_path: Path, root: Callable[[], Machine]
) -> Iterator[tuple[Callable[[], str], queue.SimpleQueue[object]]]:
    """Watch a machine; give what returns the text of the next mail, and what the loop takes."""
    with smtp_server() as (port, answers):
        settings = parse_config(
            f"host: db1\nstate_directory: {tmp_path}/state\nwarning_group_wait: 2s\n"
            "intervals: {block: 10s, mounts: 6s}\n"
            f"mail: {{server: 127.0.0.1, port: {port}, to: ops@example.com,"
            " initial_report: false}\n",
            "iowarden.yaml",
        )
        (tmp_path / "state").mkdir(exist_ok=True)
        service, events, state = made(settings, root, port)
        thread = threading.Thread(target=service.run, args=(None,), daemon=True)
        thread.start()
        until(lambda: not service.health.ready(), "its first round")
        try:
            yield lambda: text_of(answers), events
        finally:
            events.put(Stop("the end of the test"))
            thread.join(DEADLINE_SECONDS)
            assert state.close(DEADLINE_SECONDS)
        assert not thread.is_alive()


def made(
    settings: Config, root: Callable[[], Machine], port: int
) -> tuple[Service, queue.SimpleQueue[object], StateDatabase]:
    """Make the loop as the command line does, with some of the sources."""
    events: queue.SimpleQueue[object] = queue.SimpleQueue()
    clock = SystemClock()
    asked = pollers.make(settings.smart, clock)
    sources = [source for source in asked.sources() if source.name in SOURCES]
    readers = SourceScheduler(sources, settings.interval_seconds, root, clock.now, events.put)
    server = smtp.MailSettings(
        *("127.0.0.1", port, "opportunistic", None, None, "iowarden@db1", DEADLINE_SECONDS, "db1")
    )
    state = StateDatabase(f"{settings.state_directory}/state.db", events.put)
    parts = Dependencies(
        config=settings,
        clock=clock,
        engine=Engine([], readers.sources, clock.now()),
        readers=readers,
        events=events,
        log=journal.Log(level="error"),
        state=state,
        sender=mail_sender(events.put, server),
        exposition=Exposition(lambda _: None),
        notify=lambda _: None,
        table=load_events(),
        pollers=asked,
        make_locate_machine=root,
    )
    return Service(parts), events, state


def until(true: Callable[[], object], what: str) -> None:
    """Wait for something with a deadline far above what it takes."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not true():
        assert time.monotonic() < end, f"waited for {what}"
        time.sleep(0.02)  # between two looks at another thread, which no event tells of


def text_of(answers: Answers) -> str:
    """Return the text of the next mail, each line as a reader sees it."""
    body = parsed(answers.next().data).get_body(("plain",))
    assert body is not None
    return str(body.get_content())


def joined(text: str) -> str:
    """Return a text without its line ends."""
    return " ".join(text.split())


def commands(text: str, begin: str) -> list[str]:
    """Return the lines of a mail that are such a command."""
    return [line.strip() for line in text.splitlines() if line.strip().startswith(begin)]


def test_a_mail_names_the_file_its_bytes_and_what_restores_it(tmp_path: Path) -> None:
    """One medium error on a disk with a partition and ext4, read ahead over other files first."""
    made_of = random.Random(5)
    names = [f"base/1/{number}" for number in range(8)]
    content = {name: made_of.randbytes(30_000) for name in names}
    for name, text in content.items():
        (tmp_path / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "files" / name).write_bytes(text)
    image = tmp_path / "image"
    images.make_ext4(image, tmp_path / "files", "-b", "4096")
    sectors = image.stat().st_size // SECTOR
    machine = tmp_path / "machine"
    write_tree(
        machine,
        {
            **images.disk("sdb", START + sectors, "8:16"),
            **images.partition("sdb", 1, START, sectors),
            "/sys/block/sdb/device/model": "SIMULATED HDD\n",
            "/sys/block/sdb/device/vpd_pg80": "\0\x80\0\5S-sdb",
            "/proc/1/mountinfo": "31 22 8:1 / /srv rw - ext4 /dev/sdb1 rw\n",
            "/proc/stat": "cpu  1 0 1 1 1 0 0 0 0 0\nbtime 1799999000\n",
            "/proc/sys/kernel/random/boot_id": f"{BOOT_ID}\n",
            "/.kmsg": "",
        },
    )
    files = images.where_is(image.read_bytes(), content["base/1/5"])
    sector = START + next(at for at, offset in files.items() if offset == 8192)
    root = Imaged(str(machine), {"/dev/sdb1": str(image)})
    kernel = Kernel(machine)
    with watched(tmp_path, lambda: root) as (next_mail, _):
        kernel.says((sector - 64, "flags 0x80700 phys_seg 28"), (sector, "flags 0x0 phys_seg 1"))
        text = next_mail()
        if "/srv/base" not in text:  # debugfs took longer than the mail waited
            text = next_mail()
    named = {name for name in names if f"/srv/{name}" in text}
    assert named == {"base/1/5"}
    whole = joined(text)
    assert f"sectors {sector} to {sector + 7} (4 KiB): file /srv/base/1/5, bytes 8192" in whole
    assert "restore /srv/base/1/5 from a backup" in whole
    (anew,) = commands(text, 'dd if="$BACKUP"')
    assert "of=/srv/base/1/5 skip=2 bs=4096 seek=2 count=1" in anew
    (zeros,) = commands(text, "dd if=/dev/zero")
    assert "of=/srv/base/1/5 bs=4096 seek=2 count=1" in zeros
    assert "destroys: bytes 8192 to 12287 of the file, permanently" in whole
    questions = len(root.asked)
    with watched(tmp_path, lambda: root) as (next_mail, events):
        # What was found survives a restart: the mail about a storm names it, nobody asks anew.
        kernel.says(*((sector + number, "flags 0x0 phys_seg 1") for number in range(1, 8)))
        text = next_mail()
        assert "CRITICAL" in text
        assert "file /srv/base/1/5, bytes 8192 to 12287" in joined(text)
        assert len(root.asked) == questions
        events.put(UeventBatch((Uevent("add", "sdc", None),), ""))
        kernel.says((sector + 1, "flags 0x0 phys_seg 1"))
        until(lambda: len(root.asked) == 2 * questions, "a look at the machine as it is now")


class Kernel:
    """What the kernel of a machine prints."""

    def __init__(self, machine: Path) -> None:
        """Print nothing yet."""
        self._machine = machine
        self._lines: list[str] = []

    def says(self, *errors: tuple[int, str]) -> None:
        """Let it tell of some sectors."""
        now = round(time.monotonic() * 1e6)
        for sector, more in errors:
            number = len(self._lines) + 1
            self._lines.append(
                f"3,{number},{now + number},-;critical medium error, dev sdb, sector {sector}"
                f" op 0x0:(READ) {more} prio class 2\n"
            )
        draft = self._machine.with_name("kmsg")
        draft.write_text("".join(self._lines))
        draft.replace(self._machine / ".kmsg")
