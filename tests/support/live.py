"""A machine that goes on, frame by frame, as a test says, and the program that watches it."""

from __future__ import annotations

import contextlib
import email
import email.policy
import queue
import re
from email.message import EmailMessage
from typing import TYPE_CHECKING

import pytest
from support.first_screen import missing
from support.program import Feed, Played, Program
from support.recordings import BOOTED_SECONDS
from support.smtp import smtp_server

from iowarden.collectors.recording.recording import Frame, RecordingStep

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from support.smtp import Answers

STEP_SECONDS = 4.0
"""Between two looks further apart than 5 s nobody looked."""
MAX_POLLS = 1000
"""Far above anything counted: it ends a wait that would not."""
Files = dict[str, str | bytes | None]
RULE = """\
groups:
  - name: mine
    interval: 5s
    rules:
      - alert: LaptopMode
        expr: iowarden_vm_laptop_mode > 0
        labels: {severity: SEVERITY, condition: X1}
        annotations:
          summary: the disk is kept asleep
          description: Writes wait in memory until it is woken.
          advice: Set it to 0.
"""
"""A user's rule file; a notice unless a test says otherwise."""
NOTE = RULE.replace("SEVERITY", "notice")


class Live(Feed):
    """A machine with two disks and an array of them; the clocks go as a test says."""

    def __init__(
        self, tmp_path: Path, *, uptime: float = 10_000.0, wall: float | None = None
    ) -> None:
        """Write the first frame; `wall` is the wall clock then, in Unix time."""
        self._parent = tmp_path
        self._starts = 0
        self._monotonic = uptime
        self.wall = BOOTED_SECONDS + uptime if wall is None else wall
        self._busy = {"sda": 0, "sdb": 0}
        self._files: Files = {}
        for path, text in {
            "vm/dirty_ratio": "20",
            "vm/dirty_background_ratio": "10",
            "vm/dirty_bytes": "0",
            "vm/dirty_background_bytes": "0",
            "vm/dirty_expire_centisecs": "3000",
            "vm/dirty_writeback_centisecs": "500",
            "vm/laptop_mode": "0",
            "vm/zone_reclaim_mode": "0",
            "kernel/osrelease": "6.1.0-28-amd64",
        }.items():
            self._files[f"/proc/sys/{path}"] = f"{text}\n"
        for name in self._busy:
            self._files |= {
                f"/sys/block/{name}/slaves": None,
                f"/sys/block/{name}/holders/md0": None,
                f"/sys/block/{name}/size": "1953525168\n",
                f"/sys/block/{name}/device/timeout": "30\n",
                f"/sys/block/{name}/device/model": "SIMULATED HDD\n",
                f"/sys/block/{name}/device/vpd_pg80": b"\0\x80\0\5S-" + name.encode(),
                f"/sys/block/md0/md/dev-{name}/state": "in_sync\n",
                f"/sys/block/md0/md/dev-{name}/slot": f"{int(name == 'sdb')}\n",
                f"/sys/block/md0/md/dev-{name}/errors": "0\n",
            }
        self._files |= {
            "/proc/mdstat": "Personalities : [raid1]\nunused devices: <none>\n",
            "/sys/block/md0/size": "1953525168\n",
            "/sys/block/md0/slaves/sda": None,
            "/sys/block/md0/slaves/sdb": None,
            "/sys/block/md0/md/array_state": "clean\n",
            "/sys/block/md0/md/level": "raid1\n",
            "/sys/block/md0/md/raid_disks": "2\n",
            "/sys/block/md0/md/degraded": "0\n",
            "/sys/block/md0/md/sync_action": "idle\n",
            "/proc/vmstat": (
                "nr_dirty 0\nnr_writeback 0\nnr_dirtied 0\nnr_written 0\n"
                "nr_dirty_threshold 100000\nnr_dirty_background_threshold 50000\n"
                "pgpgin 0\npgpgout 0\n"
            ),
            "/proc/meminfo": (
                "MemTotal: 8000000 kB\nMemFree: 500000 kB\nBuffers: 1 kB\nCached: 1 kB\n"
                "Dirty: 0 kB\nWriteback: 0 kB\n"
            ),
            "/proc/stat": (
                "cpu  1 0 1 1 1 0 0 0 0 0\nintr 0\nctxt 0\nbtime 1799999000\nprocesses 1\n"
                "procs_running 1\nprocs_blocked 0\n"
            ),
            "/proc/diskstats": self._diskstats(),
        }
        self.restarted()

    def restarted(self, after_seconds: float = 0.0) -> None:
        """Begin another recording, for another start of the program: all files, in its frame 0."""
        self._starts += 1
        self._monotonic += after_seconds
        self.wall += after_seconds
        super().__init__((), self._parent / f"live{self._starts}")
        self._look(self._files)

    def boot(self, *, wall: float) -> None:
        """Boot anew, with the wall clock at some time."""
        self._monotonic, self.wall = 10.0, wall

    def wait(self, seconds: float, step: float = STEP_SECONDS) -> None:
        """Let the machine go on."""
        left = seconds
        while left > 0:
            by = min(step, left)
            left -= by
            self.leap(by, by)

    def leap(
        self, monotonic: float, wall: float, files: Mapping[str, str | bytes | None] = {}
    ) -> None:
        """Let each clock go so far until the next look: asleep, set, or stopped."""
        self._monotonic += monotonic
        self.wall += wall
        self._look(files)

    def change(self, files: Mapping[str, str | bytes | None]) -> None:
        """Change files, a second later."""
        self._files |= files
        self.leap(1.0, 1.0, files)

    def degrade(self, missing: int = 1) -> None:
        """Let the array lose a disk, or have it back."""
        self.change({"/sys/block/md0/md/degraded": f"{missing}\n"})

    def hang(self, name: str, in_flight: int = 1) -> None:
        """Let a disk stop answering, or answer again."""
        self._busy[name] = in_flight
        self.change({"/proc/diskstats": self._diskstats()})

    def unplug(self, name: str) -> None:
        """Take a disk away, and the array's member with it."""
        del self._busy[name]
        gone = [path for path in self._files if name in path.split("/") or f"dev-{name}" in path]
        self._files = {path: text for path, text in self._files.items() if path not in gone}
        changed: Files = {"/sys/block/md0/md/degraded": "1\n", "/proc/diskstats": self._diskstats()}
        self._files |= changed
        self._monotonic, self.wall = self._monotonic + 1.0, self.wall + 1.0
        self._look(changed, (*gone, f"/sys/block/{name}", f"/sys/block/md0/md/dev-{name}"))

    def plug(self, name: str, serial: str = "") -> None:
        """Plug another disk in, seen with the next look at '/sys/block'."""
        self._busy[name] = 0
        base = f"/sys/block/{name}"
        self.change(
            {
                f"{base}/slaves": None,
                f"{base}/holders": None,
                f"{base}/size": "1953525168\n",
                f"{base}/device/timeout": "30\n",
                f"{base}/device/model": "SIMULATED HDD\n",
                f"{base}/device/vpd_pg80": b"\0\x80\0\5" + (serial or f"S-{name}").encode(),
                "/proc/diskstats": self._diskstats(),
            }
        )

    def uptime(self) -> float:
        """Return the machine's uptime in the last frame."""
        return self._monotonic

    def _diskstats(self) -> str:
        return "".join(
            f"8 {number * 16} {name} 0 0 0 0 9 0 9 0 {in_flight} 0 0 0 0 0 0 0 0\n"
            for number, (name, in_flight) in enumerate({**self._busy, "md0": 0}.items())
        )

    def _look(
        self, files: Mapping[str, str | bytes | None], vanished: tuple[str, ...] = ()
    ) -> None:
        frame = Frame(len(self.steps), self._monotonic, self.wall)
        contents = {
            path: text.encode() if isinstance(text, str) else text for path, text in files.items()
        }
        self.steps.append(RecordingStep(frame, contents, vanished))
        self.give(1)


class Watched:
    """The program on a live machine, and the mails of it that a real server took."""

    def __init__(self, program: Played | Program, live: Live, answers: Answers, port: int) -> None:
        self.program = program
        self.live = live
        self.answers = answers
        self.port = port

    def wait(self, seconds: float, step: float = STEP_SECONDS) -> list[EmailMessage]:
        """Let the machine go on, and return the mails that came meanwhile."""
        self.live.wait(seconds, step)
        return self.mails()

    def wait_only(self, seconds: float) -> None:
        """Let the machine go on, whatever becomes of mails."""
        self.live.wait(seconds)
        self.program.caught_up()

    def mails(self) -> list[EmailMessage]:
        """Return the mails that came, once nothing is left to be judged or sent."""
        self.program.caught_up()
        for _ in range(MAX_POLLS):
            # What threads have read, and the outbox, come to the loop with the next look.
            self.live.leap(1.0, 1.0)
            self.program.caught_up()
            if self.program.sent():
                break
        else:
            pytest.fail(f"mails wait for ever:\n{self.program.text()}")
        found = []
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(parsed(self.answers.mails.get_nowait().data))
        for mail in found:
            told = mail["Subject"]
            if mail["X-Iowarden-Incident"] and not re.search("INITIAL REPORT|DIGEST", told):
                assert missing(mail.as_bytes(), "") == [], told
        return found

    def restart(self) -> None:
        """End the program and start it anew, on the machine as it is now."""
        assert self.program.end() == 0
        self.start_again()

    def start_again(self) -> None:
        """Start it on the machine as it is now."""
        self.live.restarted()
        self.program.start()


@contextlib.contextmanager
def watched(
    tmp_path: Path,
    live: Live,
    *,
    initial_report: bool = False,
    settings: str = "",
    environment: dict[str, str] | None = None,
    own_process: bool = False,
) -> Iterator[Watched]:
    """Run the program on a live machine beside a mail server."""
    live.restarted()
    with smtp_server() as (port, answers):
        program = (Program if own_process else Played)(
            tmp_path,
            live,
            smtp_port=port,
            initial_report=initial_report,
            settings=settings,
            environment=environment,
        )
        program.start()
        try:
            yield Watched(program, live, answers, port)
        finally:
            program.close()


def parsed(data: bytes) -> EmailMessage:
    """Return a mail as its reader sees it."""
    return email.message_from_bytes(data, EmailMessage, policy=email.policy.default)


def text(mail: EmailMessage) -> str:
    """Return the text that a reader sees, without line ends."""
    body = mail.get_body(("plain",))
    assert body is not None
    return " ".join(str(body.get_content()).split())
