"""The verb 'scan': which disks it reads, how much of the time, and what it reports of faults."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support.loops import loops
from support.probe import DEADLINE_SECONDS
from support.surface import SurfaceDisk

from iowarden.collectors.block import surface
from iowarden.collectors.block.surface import PieceRead, ScanReply, ScanRequest
from iowarden.collectors.machine import Machine
from iowarden.daemon.probe import scan, verbs
from iowarden.daemon.probe_client.client import Client
from iowarden.daemon.probe_client.connect import spawn

PIECE = surface.MAX_PIECE_BYTES
SIZE = 8 * PIECE + 4096
REQUEST = ScanRequest("8:0", "SERIAL1", SIZE, PIECE, PIECE, 0.0, 1, 10, (0, 2 * PIECE, 8 * PIECE))


@pytest.fixture
def disk(tmp_path: Path) -> SurfaceDisk:
    """A healthy disk of eight pieces and a block."""
    return SurfaceDisk(tmp_path, SIZE)


def read(disk: SurfaceDisk, request: ScanRequest = REQUEST) -> ScanReply:
    """The reply to a request, through the verb and the parser."""
    return surface.read_pieces(Machine(probe=disk.probe), request)


def test_pieces_are_read_where_they_are_and_the_last_one_is_short(disk: SurfaceDisk) -> None:
    """Each in one read; the disk rests for as long as each read took."""
    reply = read(disk)
    assert disk.reads == [(0, PIECE), (2 * PIECE, PIECE), (8 * PIECE, 4096)]
    assert [each.error for each in reply.reads] == [0, 0, 0]
    assert disk.now == pytest.approx(6 * disk.read_seconds)
    assert reply.others.requests == 0


def test_a_failed_read_ends_the_batch_with_the_place_and_the_kernels_error(
    disk: SurfaceDisk,
) -> None:
    """In steps of 128 KiB the third one fails; what follows is not read."""
    disk.spoil(2 * PIECE + 300_000, error=errno.ENODATA)
    reply = read(disk, replace(REQUEST, step_bytes=PIECE // 4))
    assert [(each.offset, each.error, each.bad_offset) for each in reply.reads] == [
        (0, 0, None),
        (2 * PIECE, errno.ENODATA, 2 * PIECE + PIECE // 2),
    ]
    assert reply.reads[1].seconds == pytest.approx(7.02)


def test_a_slow_read_ends_the_batch(disk: SurfaceDisk) -> None:
    """Two seconds are the sign of retries: no more is read at once."""
    disk.read_seconds = 2.5
    assert [each.offset for each in read(disk).reads] == [0]
    assert disk.now == pytest.approx(2.5)


def test_others_end_the_batch_of_a_quiet_disk_before_the_next_read(disk: SurfaceDisk) -> None:
    """10 requests are allowed; with 1,000 a second the batch ends after its first piece."""
    disk.others = 1000.0
    reply = read(disk)
    assert len(reply.reads) == 1
    assert reply.others.requests == 20
    assert reply.others.milliseconds == pytest.approx(200, abs=10)
    assert len(read(disk, replace(REQUEST, others=None)).reads) == 3


def test_beside_others_our_request_is_in_flight_for_less_than_one_percent(
    disk: SurfaceDisk,
) -> None:
    """The binding limit: 0.8 % of the time."""
    before = disk.now
    reply = read(disk, replace(REQUEST, rest=124, others=None, offsets=(0,)))
    assert sum(each.seconds for each in reply.reads) / (disk.now - before) <= 0.008


def test_a_batch_ends_after_two_seconds(disk: SurfaceDisk) -> None:
    """However many pieces were requested."""
    disk.read_seconds = 0.3
    offsets = tuple(range(0, 8 * PIECE, PIECE))
    assert len(read(disk, replace(REQUEST, offsets=offsets)).reads) == 4


@pytest.mark.parametrize(
    ("state", "error"),
    [("running", errno.EIO), ("offline", errno.ENXIO), ("deleting (no IO)", errno.ENXIO)],
)
def test_a_read_that_fails_because_the_disk_is_offline_is_no_bad_sector(
    disk: SurfaceDisk, state: str, error: int
) -> None:
    """The kernel fails its reads at once, with the error of a bad sector."""
    (disk.directory / "device").mkdir()
    (disk.directory / "device/state").write_text(f"{state}\n")
    disk.spoil(2 * PIECE, error=errno.EIO)
    assert [each.error for each in read(disk).reads] == [0, error]


def test_a_disk_that_was_removed_is_an_error_and_no_other_device(disk: SurfaceDisk) -> None:
    """A scan that is refused ends; one of a disk that was pulled out goes on when it is back."""
    (disk.root / "sys/dev/block/8:0").unlink()
    with pytest.raises(OSError, match="the disk was removed"):
        read(disk)


def test_a_disk_that_vanished_reads_nothing(disk: SurfaceDisk) -> None:
    """The kernel ends reads of it early: that is no bad sector."""
    disk.gone = True
    assert read(disk).reads == (PieceRead(0, 0.0, errno.ENXIO, 0),)
    assert errno.ENXIO not in surface.SECTOR_ERRORS


def test_our_own_reads_are_not_others_even_if_the_kernel_splits_them() -> None:
    """One read of 512 KiB was four requests; a read of 4 KiB beside it is one of others'."""
    before = surface.block_io("100 0 8000 50 0 0 0 0 0 0 0")
    split = surface.block_io("104 0 9024 60 0 0 0 0 0 0 0")
    assert surface.other_io(before, split, 1.0, 1, PIECE, 0.01).requests == 0
    beside = surface.block_io("105 0 9032 64 0 0 0 0 0 0 0")
    others = surface.other_io(before, beside, 1.0, 1, PIECE, 0.01)
    assert (others.requests, others.milliseconds) == (1, 4.0)
    back = surface.block_io("0 0 0 0 0 0 0 0 0 0 0")
    assert surface.other_io(beside, back, 1.0).requests == 0


def _loop(disk: SurfaceDisk) -> None:
    _renamed(disk, "loop0")


def _md(disk: SurfaceDisk) -> None:
    _renamed(disk, "md0")


def _partition(disk: SurfaceDisk) -> None:
    _renamed(disk, "sda1")


def _renamed(disk: SurfaceDisk, name: str) -> None:
    other = disk.directory.with_name(name)
    disk.directory.rename(other)
    link = disk.root / "sys/dev/block/8:0"
    link.unlink()
    link.symlink_to(other)


def _virtual(disk: SurfaceDisk) -> None:
    other = disk.root / "sys/devices/virtual/nvme-subsystem/nvme0n1"
    other.parent.mkdir(parents=True)
    disk.directory.rename(other)
    link = disk.root / "sys/dev/block/8:0"
    link.unlink()
    link.symlink_to(other)


def _fibre_channel(disk: SurfaceDisk) -> None:
    other = disk.root / "sys/devices/pci0/host7/rport-7:0-1/target7:0:1/7:0:1:0/block/sda"
    other.parent.mkdir(parents=True)
    disk.directory.rename(other)
    link = disk.root / "sys/dev/block/8:0"
    link.unlink()
    link.symlink_to(other)


def _multipath(disk: SurfaceDisk) -> None:
    (disk.directory / "holders/dm-3").mkdir()
    uuid = disk.root / "sys/block/dm-3/dm/uuid"
    uuid.parent.mkdir(parents=True)
    uuid.write_text("mpath-35000c500a1b2c3d4\n")


def _zoned(disk: SurfaceDisk) -> None:
    (disk.directory / "queue/zoned").write_text("host-managed\n")


def _replaced(disk: SurfaceDisk) -> None:
    (disk.directory / "serial").write_text("SERIAL2\n")


def _shrunk(disk: SurfaceDisk) -> None:
    os.truncate(disk.root / "dev/sda", SIZE - PIECE)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (_loop, "got another device"),
        (_md, "got another device"),
        (_partition, "got another device"),
        (_virtual, "got another device"),
        (_fibre_channel, "got a LUN of a storage array"),
        (_multipath, "got a path of a multipath device"),
        (_zoned, "got a zoned disk (host-managed)"),
        (_replaced, "expected this serial number, got 'SERIAL2': it is another disk now"),
        (_shrunk, f"expected {SIZE} bytes, got {SIZE - PIECE}"),
    ],
)
def test_only_the_physical_disk_that_was_meant_is_read(
    disk: SurfaceDisk, change: object, text: str
) -> None:
    """Everything else is refused, with what was expected and what it is."""
    assert callable(change)
    change(disk)
    reply = read(disk)
    assert text in reply.refused
    assert disk.reads == []


@pytest.mark.parametrize(
    ("number", "word"),
    [
        (0, "../../sda"),
        (0, "8:0\n"),
        (1, ""),
        (2, "-1"),
        (2, "1e9"),
        (3, str(2 * PIECE)),
        (3, "4095"),
        (4, "512"),
        (5, "70000"),
        (6, "0"),
        (7, "many"),
        (8, ""),
        (8, "512"),
        (8, str(SIZE + 4096 - SIZE % 4096)),
        (8, ",".join(["0"] * 513)),
    ],
)
def test_requests_beyond_the_limits_of_the_probe_are_not_tried(number: int, word: str) -> None:
    """Whoever asks: at most half of the time, pieces of whole blocks, on the disk."""
    words = list(REQUEST.arguments())
    assert verbs.refusal("scan", tuple(words)) == ""
    words[number] = word
    assert verbs.refusal("scan", tuple(words)).startswith("'scan': ")


def test_the_disk_is_opened_for_reading_past_the_page_cache(tmp_path: Path) -> None:
    """What is no block device with this number is closed again."""
    path = tmp_path / "sda"
    path.touch()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises((ValueError, OSError), match=r"expected block device 8:0|Invalid argument"):
        scan._open(str(path), "8:0")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_real_block_device_is_read_past_the_page_cache_and_our_reads_are_not_others(
    tmp_path: Path,
) -> None:
    """A loop device: O_DIRECT into our buffer, a short last piece, the counters of the kernel."""
    with loops(tmp_path, 1, 4) as ((name, _image),):
        size = 4 << 20
        disk = SurfaceDisk(tmp_path / "machine", size)
        number = Path(f"/sys/block/{name}/dev").read_text().strip()
        (disk.directory / "stat").unlink()
        (disk.directory / "stat").symlink_to(f"/sys/block/{name}/stat")

        def opened(_path: str, _number: str) -> int:
            descriptor = scan._open(f"/dev/{name}", number)
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
            # Closed after it was open for writing, udev would read the disk again.
            assert (flags & os.O_ACCMODE, flags & os.O_DIRECT) == (os.O_RDONLY, os.O_DIRECT)
            return descriptor

        request = replace(REQUEST, size_bytes=size, others=0, offsets=(0, 4096, size - 4096))
        found = scan.scan(
            request.arguments(),
            root=str(disk.root),
            open_disk=opened,
            sleep=lambda _: None,
        )
    reply = surface.from_json(json.dumps(found), request)
    assert [read.error for read in reply.reads] == [0, 0, 0]
    assert found["bytes"] == 2 * PIECE + 4096
    assert reply.others.requests == 0


def test_a_loop_device_is_refused_by_the_real_probe(tmp_path: Path) -> None:
    """Through client, server and child: what is no disk is not opened."""
    with loops(tmp_path, 1, 4) as ((name, _image),):
        number = Path(f"/sys/block/{name}/dev").read_text().strip()
        client = Client(spawn(str(tmp_path / "run"), "--unprivileged"), time.monotonic)
        try:
            machine = Machine(probe=client.request)
            reply = surface.read_pieces(machine, replace(REQUEST, number=number))
        finally:
            assert client.close(DEADLINE_SECONDS)
    assert reply.refused == (
        f"disk SERIAL1, {number} ({name}): expected a whole physical disk, got another device"
    )


def test_the_request_reaches_the_verb_unchanged() -> None:
    """Each field, also without a limit for others."""
    for request in (REQUEST, replace(REQUEST, others=None, gap_seconds=0.125)):
        assert surface.parse_arguments(request.arguments()) == request
