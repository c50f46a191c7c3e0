"""A disk to be scanned: a sparse file, its directory in sysfs, its faults and its own clock."""

from __future__ import annotations

import errno
import functools
import json
import os
import time
from typing import TYPE_CHECKING

from iowarden.daemon.probe import scan, verbs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DIRECTORY = "sys/devices/pci0000:00/ata1/host0/target0:0:0/0:0:0:0/block/sda"


class SurfaceDisk:
    """Disk 'sda' of a machine below `root`; reads take `read_seconds` of its clock.

    `bad` are byte offsets that cannot be read, which takes `bad_seconds`; `others` is how many
    requests of others complete in each second.
    """

    def __init__(self, root: Path, size_bytes: int, number: str = "8:0") -> None:
        self.root = root
        self.size_bytes = size_bytes
        self.directory = root / DIRECTORY
        self.now = 0.0
        self.read_seconds, self.bad_seconds = 0.01, 7.0
        self.bad: dict[int, int] = {}
        """Errno by the offset that has it."""
        self.others = 0.0
        self.reads: list[tuple[int, int]] = []
        self.failed = 0
        self.gone = False
        self._io = [0] * 17
        for name in ("queue", "holders", "slaves"):
            (self.directory / name).mkdir(parents=True)
        (self.directory / "queue/zoned").write_text("none\n")
        (self.directory / "serial").write_text("SERIAL1\n")
        (root / "sys/dev/block").mkdir(parents=True)
        (root / f"sys/dev/block/{number}").symlink_to(self.directory)
        (root / "dev").mkdir()
        with (root / "dev/sda").open("wb") as file:
            file.truncate(size_bytes)
        self.pass_time(0.0)

    def probe(self, verb: str, arguments: Sequence[str], _deadline_seconds: float) -> str:
        """Answer as the probe does, by its own verb."""
        assert verbs.refusal(verb, tuple(arguments)) == ""
        return json.dumps(self.scan(tuple(arguments)))

    @functools.cached_property
    def scan(self) -> functools.partial[dict[str, object]]:
        """The verb, on this disk."""
        return functools.partial(
            scan.scan,
            root=str(self.root),
            open_disk=lambda path, _number: os.open(path, os.O_RDONLY | os.O_CLOEXEC),
            read=self._read,
            clock=lambda: self.now,
            sleep=self.pass_time,
        )

    def pass_time(self, seconds: float) -> None:
        """Let time pass, in which others use the disk."""
        before, self.now = self.now, self.now + seconds
        others = int(self.others * self.now) - int(self.others * before)
        self._count(4, others, others * 8, 10 * others)  # writes of 4 KiB, 10 ms each

    def _count(self, field: int, requests: int, sectors: int, milliseconds: int) -> None:
        for place, number in ((field, requests), (field + 2, sectors), (field + 3, milliseconds)):
            self._io[place] += number
        (self.directory / "stat").write_text(" ".join(map(str, self._io)) + "\n")

    def _read(self, descriptor: int, buffers: Sequence[memoryview], offset: int) -> int:
        if self.gone:
            return 0
        size = os.preadv(descriptor, buffers, offset)
        bad = [self.bad[at] for at in self.bad if offset <= at < offset + size]
        self.pass_time(self.bad_seconds if bad else self.read_seconds)
        self._count(0, 1, 0 if bad else size // 512, 1)
        if bad:
            self.failed += 1
            raise OSError(bad[0], os.strerror(bad[0]))
        self.reads.append((offset, size))
        return size

    def spoil(self, *offsets: int, error: int = errno.EIO) -> None:
        """Make bytes unreadable."""
        self.bad |= dict.fromkeys(offsets, error)


def wait_until(true: object, seconds: float = 60.0) -> None:
    """Wait for what a thread does; the limit ends a test that would hang."""
    assert callable(true)
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)
