"""The verb 'scan': reads some pieces of one disk, past the page cache, and times each read.

It never writes: the disk is opened O_RDONLY, so that udev does not read it again afterwards.
Whatever is requested, it reads only whole physical disks, with at most one request in flight, for
at most half of the time.

A disk that its driver has given up fails all reads as a bad sector does: that is no bad sector.

Source: open(2), O_DIRECT; kernel, block/stat.rst, block/queue-sysfs.rst (zoned);
drivers/scsi/scsi_sysfs.c (sdev_states), drivers/nvme/host/sysfs.c (nvme_sysfs_show_state).
"""

from __future__ import annotations

import dataclasses
import errno
import mmap
import os
import re
import stat
import time
from typing import TYPE_CHECKING, Any

from iowarden.collectors.block import surface
from iowarden.collectors.block.disk_identity import read_identity
from iowarden.collectors.block.surface import PieceRead, ScanRequest
from iowarden.collectors.machine import Machine
from iowarden.daemon.probe import children

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ARGUMENTS = ("NUMBER", "SERIAL", "SIZE", "PIECE", "STEP", "GAP", "REST", "OTHERS", "OFFSETS")
_NUMBER = re.compile(r"\d{1,4}:\d{1,7}", re.ASCII)
_DISK = re.compile(r"sd[a-z]{1,4}|nvme\d{1,4}n\d{1,4}", re.ASCII)
"""Disks of SCSI, SATA, SAS, USB and NVMe, whole ones."""
_RUNNING = frozenset({"running", "live"})
"""State of a SCSI disk, or of an NVMe controller, that executes commands."""
_LUN = re.compile(r"/(?:rport-|session)\d")
"""In the path of a disk behind Fibre Channel or iSCSI. Source: kernel, scsi_transport_fc.c,
scsi_transport_iscsi.c (names of their devices)."""


def refusal(arguments: tuple[str, ...]) -> str:
    """Return '', or why a request is not even tried. Pure: nothing is accessed."""
    if not _NUMBER.fullmatch(arguments[0]):
        return f"'scan': expected a device number such as '8:0', got {arguments[0]!r:.80}"
    try:
        surface.parse_arguments(arguments)
    except ValueError as error:
        return f"'scan': {error}"
    return ""


def scan(
    arguments: tuple[str, ...],
    root: str = "",
    open_disk: Callable[[str, str], int] | None = None,
    read: Callable[[int, Sequence[memoryview], int], int] = os.preadv,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> dict[str, Any]:
    """Read the pieces until one fails or is slow, the time is up, or others use the disk.

    `root`: another machine's '/'. Limits: a read that hangs hangs this process.
    Errors: OSError, ValueError.
    """
    request = surface.parse_arguments(arguments)
    machine = Machine(root)
    link = f"{root}/sys/dev/block/{request.number}"
    if not os.path.exists(link):
        raise FileNotFoundError(errno.ENODEV, "the disk was removed", link)
    directory = os.path.realpath(link).removeprefix(root)
    if refused := _refused(machine, directory, request):
        return {"refused": refused}
    children.be_idle()
    path = f"{root}/dev/{os.path.basename(directory)}"
    descriptor = (open_disk or _open)(path, request.number)
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        if size != request.size_bytes:
            return {"refused": f"{path}: expected {request.size_bytes} bytes, got {size}"}
        reader = _Reader(descriptor, request, read, clock, sleep)
        return reader.run(
            lambda: machine.read(f"{directory}/stat"),
            lambda: (machine.try_read(f"{directory}/device/state") or "live").strip() in _RUNNING,
        )
    finally:
        os.close(descriptor)


def _refused(machine: Machine, directory: str, request: ScanRequest) -> str:
    """Return why this disk is not read, or ''."""
    name = os.path.basename(directory)
    expected = f"disk {request.serial}, {request.number} ({name}): expected"
    zoned = (machine.try_read(f"{directory}/queue/zoned") or "none").strip()
    holders = machine.try_names(f"{directory}/holders") or ()
    uuids = [machine.try_read(f"/sys/block/{each}/dm/uuid") or "" for each in holders]
    got = ""
    if not _DISK.fullmatch(name) or "/devices/virtual/" in directory:
        got = "another device"
    elif _LUN.search(directory):
        got = "a LUN of a storage array, which reads its own disks"
    elif any(uuid.startswith("mpath-") for uuid in uuids):
        got = "a path of a multipath device"
    elif zoned != "none":
        got = f"a zoned disk ({zoned}), whose zones cannot be read beyond their write pointers"
    if got:
        return f"{expected} a whole physical disk, got {got}"
    serial = read_identity(machine, directory)
    if serial != request.serial:
        return f"{expected} this serial number, got '{serial}': it is another disk now"
    return ""


def _open(path: str, number: str) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    own = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    if not stat.S_ISBLK(status.st_mode) or own != number:
        os.close(descriptor)
        raise ValueError(f"'{path}': expected block device {number}, got {own}")
    return descriptor


class _Reader:
    """One batch on an open disk."""

    def __init__(
        self,
        descriptor: int,
        request: ScanRequest,
        read: Callable[[int, Sequence[memoryview], int], int],
        clock: Callable[[], float],
        sleep: Callable[[float], object],
    ) -> None:
        self._descriptor = descriptor
        self._request = request
        self._read = read
        self._clock = clock
        self._sleep = sleep
        # Anonymous memory begins at a page, as O_DIRECT needs it.
        self._buffer = memoryview(mmap.mmap(-1, request.step_bytes))
        self._reads: list[PieceRead] = []
        self._bytes = 0

    def run(self, counters: Callable[[], str], runs: Callable[[], bool]) -> dict[str, Any]:
        """Read the pieces. `counters` reads the disk's counters, `runs` whether it is in use."""
        request, begun = self._request, self._clock()
        before = now = counters()
        for offset in request.offsets:
            start = self._clock()
            if start - begun >= surface.BATCH_SECONDS or self._others(before, now):
                break
            self._reads.append(self._piece(offset))
            now = counters()
            if self._reads[-1].error and not runs():
                self._reads[-1] = dataclasses.replace(self._reads[-1], error=errno.ENXIO)
            if self._reads[-1].error or self._reads[-1].seconds > surface.SLOW_SECONDS:
                break
            self._pause(start + request.gap_seconds - self._clock())
        return {
            "refused": "",
            "reads": [dataclasses.asdict(each) for each in self._reads],
            "bytes": self._bytes,
            "before": before,
            "after": counters(),
            "seconds": self._clock() - begun,
        }

    def _others(self, before: str, now: str) -> bool:
        """Whether others have used the disk since the batch began."""
        if self._request.others is None:
            return False
        first, last = surface.block_io(before), surface.block_io(now)
        others = surface.other_io(first, last, 0.0, len(self._reads), self._bytes)
        return others.requests > self._request.others

    def _piece(self, offset: int) -> PieceRead:
        request, at, spent = self._request, offset, 0.0
        end = min(offset + request.piece_bytes, request.size_bytes)
        while at < end:
            start = self._clock()
            try:
                size = self._read(
                    self._descriptor, [self._buffer[: min(request.step_bytes, end - at)]], at
                )
                error = 0 if size else errno.ENXIO  # shorter than it was: it is gone
            except OSError as failed:
                size, error = 0, failed.errno or errno.EIO
            took = self._clock() - start
            spent += took
            self._bytes += size
            if error:
                return PieceRead(offset, spent, error, at)
            at += size
            if took <= surface.SLOW_SECONDS:
                self._pause(request.rest * took)
        return PieceRead(offset, spent)

    def _pause(self, seconds: float) -> None:
        if seconds > 0:
            self._sleep(min(seconds, surface.BATCH_SECONDS))
