"""Reads of a disk's surface by the probe: what is requested, and what came back.

Source: the probe's answer to 'scan' (daemon/probe/scan.py); the counters in it are those of
'/sys/dev/block/MAJOR:MINOR/stat' (kernel, block/stat.rst), the same as in '/proc/diskstats'.
"""

from __future__ import annotations

import errno
import json
from typing import TYPE_CHECKING, Any

from iowarden.collectors.block.diskstats import BlockIo
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import ParseError
from iowarden.collectors.probe_reply import field, number, optional

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iowarden.collectors.machine import Machine

KINDS = {
    "scan_bad_range": "a surface scan could not read a range of a disk",
    "scan_gave_up": "a surface scan ended because too much of the disk cannot be read",
    "scan_read_error": "a line of the kernel log about a read of a surface scan",
}
"""Event kinds: what a scan reports, and what lines of the kernel log become that belong to it."""
POWER = "/sys/class/power_supply"
BLOCK_BYTES = 4096
"""Smallest and unit of all reads: the physical block of today's disks."""
MAX_PIECE_BYTES = 512 * 1024
MAX_PIECES = 512
BATCH_SECONDS = 2.0
"""How long the probe begins reads of one request: a batch ends soon after."""
DEADLINE_SECONDS = 240.0
"""For one batch: a disk without error recovery control may need minutes for one sector, where the
kernel waits for so long."""
SLOW_SECONDS = 2.0
"""A read that took longer ends the batch."""
SECTOR_ERRORS = frozenset(
    {errno.EIO, errno.ENODATA, errno.EILSEQ, errno.EREMOTEIO, errno.ETIMEDOUT}
)
"""What the kernel returns where a sector cannot be read; others are of the disk or its path.

Source: kernel, block/blk-core.c, blk_errors: I/O, critical medium, protection, critical target,
timeout.
"""


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """One batch of reads of one disk.

    Fields: `number` is the device number, `serial` that of sysfs; `step_bytes` is the most that is
    read at once; two reads begin at least `gap_seconds` apart, and after each one the disk rests
    for `rest` times its duration; after `others` requests of others the batch ends, None: never.
    """

    number: str
    serial: str
    size_bytes: int
    piece_bytes: int
    step_bytes: int
    gap_seconds: float
    rest: int
    others: int | None
    offsets: tuple[int, ...]

    def arguments(self) -> tuple[str, ...]:
        """Return the arguments of the probe's verb."""
        return (
            self.number,
            self.serial,
            str(self.size_bytes),
            str(self.piece_bytes),
            str(self.step_bytes),
            str(round(self.gap_seconds * 1000)),
            str(self.rest),
            "" if self.others is None else str(self.others),
            ",".join(map(str, self.offsets)),
        )


@dataclass(frozen=True, slots=True)
class PieceRead:
    """A piece that was read, or tried. Fields: `error` 0, or the kernel's errno.

    `seconds` is the time with our request in flight, `bad_offset` where the failed read began.
    """

    offset: int
    seconds: float
    error: int = 0
    bad_offset: int | None = None


@dataclass(frozen=True, slots=True)
class OtherIo:
    """I/O of others on a disk in a span of time: completions, and their total duration."""

    requests: int
    milliseconds: float
    seconds: float


@dataclass(frozen=True, slots=True)
class ScanReply:
    """The pieces read, in the order of the request, up to where the batch ended.

    `refused`: why the probe reads nothing of this disk, or ''.
    """

    reads: tuple[PieceRead, ...]
    others: OtherIo
    refused: str = ""


def read_pieces(root: Machine, request: ScanRequest) -> ScanReply:
    """Read a batch, and wait for it.

    Errors: AbsentError (no probe), StuckError, DeadlineError, ReadError, ParseError.
    """
    text = root.query_probe("scan", *request.arguments(), deadline_seconds=DEADLINE_SECONDS)
    return from_json(text, request)


def from_json(text: str, request: ScanRequest) -> ScanReply:
    """Parse the probe's answer to 'scan'. Errors: ParseError."""
    try:
        found = json.loads(text)
        if refused := field(str, found, "refused"):
            return ScanReply((), OtherIo(0, 0.0, 0.0), refused)
        reads = tuple(_read(each) for each in field(list, found, "reads"))
        if tuple(read.offset for read in reads) != request.offsets[: len(reads)]:
            raise ValueError("the pieces are not those requested")
        before, after = (_counters(found, name) for name in ("before", "after"))
        own = sum(read.seconds for read in reads)
        size = field(int, found, "bytes")
        others = other_io(before, after, number(found, "seconds"), len(reads), size, own)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ParseError(
            f"probe 'scan': expected reads as JSON, got {text[:80]!r}:"
            f" {type(error).__name__}: {error}"
        ) from None
    return ScanReply(reads, others)


def on_battery(root: Machine) -> bool:
    """Whether the machine runs on a battery.

    Source: kernel, ABI/testing/sysfs-class-power: 'online' of the supplies that are no battery. A
    machine without one of these (a server without such a driver) does not.
    """
    names = root.try_names(POWER) or ()
    online = [(root.try_read(f"{POWER}/{name}/online") or "").strip() for name in names]
    return "0" in online and not {"1", "2"} & set(online)


def _read(found: Any) -> PieceRead:  # noqa: ANN401 - whatever the probe sent
    offset, bad = field(int, found, "offset"), optional(int, found, "bad_offset")
    if bad is not None and not offset <= bad < offset + MAX_PIECE_BYTES:
        raise ValueError(f"'bad_offset': expected one of the piece at {offset}, got {bad}")
    return PieceRead(offset, number(found, "seconds"), field(int, found, "error"), bad)


def _counters(found: Any, name: str) -> BlockIo:  # noqa: ANN401 - whatever the probe sent
    return block_io(field(str, found, name))


def block_io(text: str) -> BlockIo:
    """Parse '/sys/block/DISK/stat'. Errors: ValueError."""
    words = text.split()
    if len(words) < 11:
        raise ValueError(f"expected at least 11 numbers, got {text[:80]!r}")
    return BlockIo("", 0, 0, tuple(map(int, words)))


def other_io(
    before: BlockIo,
    after: BlockIo,
    seconds: float,
    own_reads: int = 0,
    own_bytes: int = 0,
    own_seconds: float = 0.0,
) -> OtherIo:
    """Return what others had completed between two readings of the counters.

    The kernel may split our reads: of the reads beyond ours at most as many are others' as their
    bytes have blocks. Counters that went back count as nothing.
    """
    reads = after.reads_completed_total - before.reads_completed_total
    rest = after.completed_total - before.completed_total - reads
    size = after.read_bytes_total - before.read_bytes_total - own_bytes
    reads = min(max(reads - own_reads, 0), max(-(-size // BLOCK_BYTES), 0))
    spent = after.milliseconds_total - before.milliseconds_total - 1000 * own_seconds
    requests = reads + max(rest, 0)
    return OtherIo(requests, max(spent, 0.0) if requests else 0.0, seconds)


def parse_arguments(words: Sequence[str]) -> ScanRequest:
    """Return the request that the probe was sent, within its limits. Errors: ValueError."""
    disk, serial, size, piece, step, gap, rest, others, offsets = words
    request = ScanRequest(
        disk,
        serial,
        _count("size", size, 1, 1 << 60),
        _count("piece", piece, BLOCK_BYTES, MAX_PIECE_BYTES, BLOCK_BYTES),
        _count("step", step, BLOCK_BYTES, MAX_PIECE_BYTES, BLOCK_BYTES),
        _count("gap", gap, 0, 60_000) / 1000,
        _count("rest", rest, 1, 1000),
        _count("others", others, 0, 1 << 20) if others else None,
        tuple(
            _count("offset", each, 0, 1 << 60, BLOCK_BYTES)
            for each in offsets.split(",", MAX_PIECES)
        ),
    )
    if len(request.offsets) > MAX_PIECES or max(request.offsets) >= request.size_bytes:
        raise ValueError(f"expected up to {MAX_PIECES} offsets on the disk, got {offsets!r:.80}")
    if not serial:
        raise ValueError("expected the disk's serial number, got none")
    return request


def _count(what: str, text: str, minimum: int, maximum: int, unit: int = 1) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ValueError(f"{what}: expected a number, got {text!r:.80}")
    if not minimum <= int(text) <= maximum or int(text) % unit:
        raise ValueError(
            f"{what}: expected {minimum} to {maximum}, in units of {unit} bytes, got {text}"
        )
    return int(text)
