"""Record the machines in tests/fixtures again: `python tests/vm/record_fixtures.py [NAME ...]`.

Each recording is made by iowarden's own recorder in one boot of the guest, and each function below
is one of them: what it does to the machine is its docstring, when it did so ends up in README.md.
"""

from __future__ import annotations

import argparse
import io
import tarfile
import time
from typing import TYPE_CHECKING

import record_day
from harness import MEBIBYTE, REPOSITORY, VM, Command, Disk, turn

if TYPE_CHECKING:
    from collections.abc import Callable

FIXTURES = REPOSITORY / "tests" / "fixtures"
DISKS = (
    Disk("slow", 4096 * MEBIBYTE, 5400),
    Disk("copy", 6144 * MEBIBYTE, 7200),
    Disk("sick", 2048 * MEBIBYTE, 7200),
    Disk("fast", 2048 * MEBIBYTE, 1),
)
MEMORY_MEBIBYTES = 2048
BOOTED_SECONDS = 140.0
"""No recording begins earlier: the rules make allowance for the first two minutes after boot."""


class Session:
    """One recording under way: its clock starts with its first frame."""

    def __init__(self, vm: VM, name: str) -> None:
        """Record nothing yet."""
        self.vm = vm
        self.directory = f"/run/recordings/{name}"
        self.name = name
        self.events: list[str] = []

    def record(self, frames: int, note: str) -> None:
        """Start the recorder; it writes to memory, so that no disk under test holds it up."""
        time.sleep(max(0.0, BOOTED_SECONDS - self.vm.uptime_seconds()))
        self.recorder = self.vm.start(
            f"cd /run && PYTHONPATH=/run exec python3 recorder.py"
            f" {self.directory} --frames {frames} --note '{note}'"
        )
        self.frames = frames
        self.began_seconds = time.monotonic()
        self.mark("recorder starts")

    def at(self, seconds: float) -> None:
        """Wait for a second of the recording."""
        time.sleep(max(0.0, self.began_seconds + seconds - time.monotonic()))

    def mark(self, event: str) -> None:
        """Note what happens now, by the guest's clock."""
        self.events.append(f"{self.vm.uptime_seconds():.1f} {event}")
        print(f"{self.name}: {self.events[-1]}", flush=True)

    def stop(self) -> None:
        """End the recorder; a frame under way is left out."""
        self.vm.run("pkill --full '[r]ecorder.py'")
        self.recorder.wait(60)
        self.vm.run(
            f"for frame in {self.directory}/[0-9]*; do [ -e $frame/clock ] || rm -r $frame; done"
        )

    def end(self, command: Command, event: str) -> None:
        """Wait for a command to end well and note it."""
        result = command.wait(self.frames + 120)
        if result.status != 0:
            raise RuntimeError(f"'{command.text}': expected status 0, got {result}")
        self.mark(event)


def write_stall(session: Session) -> None:
    """A unit copies 1500 MiB to a disk that takes 2 MiB/s; the dirty ratios are 40 and 10.

    Later a second program wants its 16 KiB on that disk with fsync, a third writes 100 MiB to a
    healthy disk, a fourth calls sync. Near the end the disk is made fast again.
    """
    vm = session.vm
    format_disks(vm, "slow", "fast")
    vm.run("sysctl -w vm.dirty_ratio=40 vm.dirty_background_ratio=10")
    # Small requests: larger ones wait for longer than the SCSI timeout of 30 s.
    vm.throttle("slow", write=2 * MEBIBYTE, request_bytes=128 * 1024)
    session.record(140, "write stall: 1500 MiB to a disk that takes 2 MiB/s; healed near the end")
    session.at(12)
    session.mark("dd of 1500 MiB to slow starts, in bulk-copy.service")
    dd = "dd if=/dev/zero of=/mnt/slow/big bs=1M count=1500"
    big = vm.start(f"systemd-run --wait --quiet --unit=bulk-copy {dd}")
    session.at(27)
    session.mark("dd of 16 KiB with fsync to slow starts")
    small = vm.start("dd if=/dev/zero of=/mnt/slow/small bs=4k count=4 conv=fsync")
    session.at(32)
    session.mark("dd of 100 MiB to fast starts")
    session.end(vm.start("dd if=/dev/zero of=/mnt/fast/file bs=1M count=100"), "dd to fast ended")
    session.at(37)
    session.mark("sync starts")
    sync = vm.start("sync")
    session.at(105)
    vm.throttle("slow")
    session.mark("slow is fast again")
    session.end(small, "dd with fsync ended")
    session.end(big, "dd of 1500 MiB ended")
    session.end(sync, "sync ended")
    session.end(session.recorder, "recorder ended")


def healthy_copy(session: Session) -> None:
    """Two programs write five times the dirty threshold to a healthy disk, a third reads from it.

    The disk's speed is such that it would write the threshold itself in 40 s; vm.dirty_ratio is 40,
    the background ratio 10. The kernel throttles the writers most of the time, no other program.
    """
    vm = session.vm
    format_disks(vm, "copy")
    vm.run("sysctl -w vm.dirty_ratio=40 vm.dirty_background_ratio=10")
    vm.run("dd if=/dev/urandom of=/mnt/copy/old bs=1M count=64 && sync")
    vm.run("echo 3 > /proc/sys/vm/drop_caches")
    pages = int(vm.run("awk '/^nr_dirty_threshold/ { print $2 }' /proc/vmstat"))
    threshold = pages * 4096
    speed = threshold // 40
    vm.throttle("copy", total=speed, request_bytes=512 * 1024)
    session.record(240, "healthy copy: two writers and a reader, five times the dirty threshold")
    session.at(12)
    session.mark(
        f"two dd start, together {5 * threshold // MEBIBYTE} MiB to copy,"
        f" which takes {speed / MEBIBYTE:.1f} MiB/s; the threshold is {threshold // MEBIBYTE} MiB"
    )
    half = 5 * threshold // MEBIBYTE // 2
    writers = [
        vm.start(f"dd if=/dev/zero of=/mnt/copy/new-{number} bs=1M count={half}")
        for number in range(2)
    ]
    session.mark("dd reads from copy, 64 KiB at a time, past the cache, until the end")
    vm.start(
        "timeout 220 sh -c 'while :; do"
        " dd if=/mnt/copy/old of=/dev/null bs=64k count=16 iflag=direct; sleep 0.5; done'"
    )
    for writer in writers:
        session.end(writer, "one dd of the two ended")
    session.end(session.recorder, "recorder ended")


def idle(session: Session) -> None:
    """A machine without load."""
    session.record(120, "idle")
    session.end(session.recorder, "recorder ended")


def hung_disk(session: Session) -> None:
    """A disk with ordinary traffic hangs for a minute: it completes nothing and gives no error.

    Two programs write to it, one with fsync; another disk is written to and stays well.
    """
    vm = session.vm
    format_disks(vm, "sick", "fast")
    vm.run("sysctl -w vm.dirty_ratio=20 vm.dirty_background_ratio=10")
    session.record(125, "a disk hangs for a minute, others go on")
    session.at(5)
    session.mark("writers on sick and on fast start")
    vm.start(writing("sick/synced", "conv=fsync"))
    vm.start(writing("sick/direct", "oflag=direct"))
    vm.start(writing("fast/synced", "conv=fsync"))
    session.at(35)
    vm.throttle("sick", total=1)
    session.mark("sick hangs")
    session.at(95)
    vm.throttle("sick")
    session.mark("sick answers again")
    session.at(110)
    vm.run("rm /run/writing")
    session.mark("writers stop")
    session.end(session.recorder, "recorder ended")


Recordings = dict[str, "Callable[[Session], None]"]
SICK_DISKS: Recordings = {
    "write-stall": write_stall,
    "healthy-copy": healthy_copy,
    "idle": idle,
    "hung-disk": hung_disk,
}
BUSY_DAY: Recordings = {"busy-day": record_day.busy_day}
RECORDINGS: Recordings = SICK_DISKS | BUSY_DAY


def format_disks(vm: VM, *names: str) -> None:
    """Make an empty file system on each and mount it below '/mnt'."""
    for name in names:
        vm.run(
            f"! mountpoint -q /mnt/{name} || umount /mnt/{name}; mkdir -p /mnt/{name};"
            " mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0"
            f" /dev/{vm.device(name)} && mount /dev/{vm.device(name)} /mnt/{name}"
        )
    vm.run("touch /run/writing && sync")


def writing(name: str, how: str) -> str:
    """Return a command that writes a megabyte time and again, until '/run/writing' is gone."""
    dd = f"dd if=/dev/zero of=/mnt/{name} bs=64k count=16 {how}"
    return f"while [ -e /run/writing ]; do {dd}; sleep 0.1; done"


def archive(session: Session) -> None:
    """Keep a recording and its events as 'tests/fixtures/NAME.tar.xz'."""
    path = FIXTURES / f"{session.name}.tar.xz"
    pulled = io.BytesIO(session.vm.pull(session.directory))
    with tarfile.open(fileobj=pulled) as source, tarfile.open(path, "w:xz", preset=9) as target:
        for member in sorted(source, key=lambda member: member.name):
            kept = tarfile.TarInfo(member.name.replace(".", session.name, 1))
            kept.type, kept.mode, kept.size = member.type, member.mode, member.size
            target.addfile(kept, source.extractfile(member) if member.isfile() else None)
        text = "".join(f"{event}\n" for event in session.events).encode()
        events = tarfile.TarInfo(f"{session.name}/events")
        events.size = len(text)
        target.addfile(events, io.BytesIO(text))


def describe() -> str:
    """Return README.md: what each recording holds and what happened when."""
    lines = [
        "# Recorded machines",
        "",
        "Each archive is a recording (format: 'collectors/recording/recording.py') of our own test",
        f"machine: Debian 12 with {MEMORY_MEBIBYTES} MiB in an emulated PC (QEMU), which slows",
        "down or hangs its emulated SCSI disks. To record them again, and to generate this text:",
        "",
        "    SUITE=bookworm .venv/bin/python tests/vm/record_fixtures.py [NAME ...]",
        "",
        "Disks are named by their serial number; times are seconds since boot, which is the",
        "recording's monotonic clock. 'events' in each archive holds the same lines.",
    ]
    for name, function in RECORDINGS.items():
        path = FIXTURES / f"{name}.tar.xz"
        if not path.exists():
            continue
        with tarfile.open(path) as source:
            member = source.extractfile(f"{name}/events")
            events = member.read().decode().splitlines() if member else []
        text = (function.__doc__ or "").strip().splitlines()
        lines += ["", f"## {name}", "", *(line.strip() for line in text), ""]
        lines += [f"- {event}" for event in events]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Record what is named on the command line, or all."""
    parser = argparse.ArgumentParser(description="Record the machines in tests/fixtures again.")
    parser.add_argument("names", nargs="*", choices=[*RECORDINGS, []], metavar="NAME")
    names = parser.parse_args().names or list(RECORDINGS)
    FIXTURES.mkdir(exist_ok=True)
    for disks, recordings in ((DISKS, SICK_DISKS), (record_day.DISKS, BUSY_DAY)):
        wanted = [name for name in names if name in recordings]
        if not wanted:
            continue
        with turn(), VM(disks, MEMORY_MEBIBYTES) as vm:
            for name in ("collectors", "daemon", "rules"):
                vm.push("/run/iowarden", [(REPOSITORY / name, name)])
            vm.push("/run", [(REPOSITORY / "tests/support/recorder.py", "recorder.py")])
            for name in wanted:
                session = Session(vm, name)
                recordings[name](session)
                archive(session)
                vm.run(f"sync; rm -r {session.directory} /mnt/*/* || true")
                (FIXTURES / "README.md").write_text(describe())


if __name__ == "__main__":
    main()
