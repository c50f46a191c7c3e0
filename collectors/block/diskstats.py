"""I/O of every block device, from '/proc/diskstats'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import SECTOR_BYTES, AbsentError, Family, ParseError, Sample
from iowarden.collectors.source import Source, of_whole_devices

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.collectors.machine import Machine

PATH = "/proc/diskstats"
_READS, _READ_SECTORS, _WRITES, _WRITTEN_SECTORS, _IN_FLIGHT = 0, 2, 4, 6, 8
_DISCARDS, _DISCARDED_SECTORS, _FLUSHES = 11, 13, 15
_READ_TIME, _WRITE_TIME, _DISCARD_TIME, _FLUSH_TIME = 3, 7, 14, 16
_MAX_IN_FLIGHT = (1 << 31) - 1
"""A larger value is a negative number printed as unsigned: 4294967295 is -1.

Source: kernel, block/genhd.c, diskstats_show ('%u').
"""


@dataclass(frozen=True, slots=True)
class BlockIo:
    """One line of '/proc/diskstats'; properties give bytes and seconds.

    Source: kernel admin-guide/iostats.rst; a sector is 512 bytes on any drive (block/stat.rst).
    Fields: 14, from 4.18 on 18 (discards), from 5.5 on 20 (flushes); later ones are ignored.
    Limits: millisecond fields may be 32-bit: they wrap after 49.7 days.
    """

    device: str
    major: int
    minor: int
    counters: tuple[int, ...]
    """The 11, 15 or 17 numbers as the kernel prints them: requests, sectors, milliseconds."""

    @property
    def reads_completed_total(self) -> int:
        """Reads completed."""
        return self.counters[_READS]

    @property
    def writes_completed_total(self) -> int:
        """Writes completed."""
        return self.counters[_WRITES]

    @property
    def completed_total(self) -> int:
        """Requests of any kind completed: reads, writes, discards, flushes."""
        counters = self.counters
        total = counters[_READS] + counters[_WRITES]
        if len(counters) > _FLUSHES:
            return total + counters[_DISCARDS] + counters[_FLUSHES]
        return total + counters[_DISCARDS] if len(counters) > _DISCARDS else total

    @property
    def read_bytes_total(self) -> int:
        """Bytes of completed reads."""
        return self.counters[_READ_SECTORS] * SECTOR_BYTES

    @property
    def written_bytes_total(self) -> int:
        """Bytes of completed writes."""
        return self.counters[_WRITTEN_SECTORS] * SECTOR_BYTES

    @property
    def discards_completed_total(self) -> int:
        """Discards completed; 0 before 4.18."""
        return self.counters[_DISCARDS] if len(self.counters) > _DISCARDS else 0

    @property
    def discarded_bytes_total(self) -> int | None:
        """Bytes discarded; None before 4.18."""
        counters = self.counters
        return counters[_DISCARDED_SECTORS] * SECTOR_BYTES if len(counters) > _DISCARDS else None

    @property
    def in_flight(self) -> int:
        """Requests issued and not completed; 0 if the kernel's own number is negative."""
        number = self.counters[_IN_FLIGHT]
        return number if number <= _MAX_IN_FLIGHT else 0

    @property
    def discard_milliseconds_total(self) -> int:
        """Total time of all discards that completed; 0 before 4.18."""
        return self.counters[_DISCARD_TIME] if len(self.counters) > _DISCARD_TIME else 0

    @property
    def milliseconds_total(self) -> int:
        """Total time of all requests that completed."""
        counters = self.counters
        total = counters[_READ_TIME] + counters[_WRITE_TIME]
        if len(counters) > _FLUSH_TIME:
            return total + counters[_DISCARD_TIME] + counters[_FLUSH_TIME]
        return total + counters[_DISCARD_TIME] if len(counters) > _DISCARD_TIME else total


# In the order of the line; the help text is the description.
_NAMES = (
    ("reads_completed_total", "Reads completed."),
    ("reads_merged_total", "Reads merged with another before issue."),
    ("read_bytes_total", "Bytes read."),
    ("read_seconds_total", "Total time of all reads."),
    ("writes_completed_total", "Writes completed."),
    ("writes_merged_total", "Writes merged with another before issue."),
    ("written_bytes_total", "Bytes written."),
    ("write_seconds_total", "Total time of all writes."),
    ("requests_in_flight", "Requests in flight: issued and not completed."),
    ("io_time_seconds_total", "Time with a request in flight."),
    (
        "io_time_weighted_seconds_total",
        "Total time of all requests; since 5.0 a hung request does not count.",
    ),
    ("discards_completed_total", "Discards completed."),
    ("discards_merged_total", "Discards merged with another before issue."),
    ("discarded_bytes_total", "Bytes discarded."),
    ("discard_seconds_total", "Total time of all discards."),
    ("flushes_completed_total", "Cache flushes completed."),
    ("flush_seconds_total", "Total time of all cache flushes."),
)
_NODE_NAMES = (
    "reads_completed_total",
    "reads_merged_total",
    "read_bytes_total",
    "read_time_seconds_total",
    "writes_completed_total",
    "writes_merged_total",
    "written_bytes_total",
    "write_time_seconds_total",
    "io_now",
    "io_time_seconds_total",
    "io_time_weighted_seconds_total",
    "discards_completed_total",
    "discards_merged_total",
    "discarded_sectors_total",
    "discard_time_seconds_total",
    "flush_requests_total",
    "flush_requests_time_seconds_total",
)
_TICK = 0.001
"""Seconds in a millisecond: multiplying gives exactly node_exporter's floats."""
_UNITS: tuple[float, ...] = (1, 1, SECTOR_BYTES, _TICK, 1, 1, SECTOR_BYTES, _TICK, 1, _TICK, _TICK)
_UNITS += (1, 1, SECTOR_BYTES, _TICK, 1, _TICK)
_NODE_UNITS = (*_UNITS[:_DISCARDED_SECTORS], 1, *_UNITS[_DISCARDED_SECTORS + 1 :])

FAMILIES = tuple(
    Family("iowarden_device_" + name, "gauge" if name == "requests_in_flight" else "counter", text)
    for name, text in _NAMES
)
_OURS = tuple(zip((family.name for family in FAMILIES), _UNITS, strict=True))
_NODE = tuple(zip(("node_disk_" + name for name in _NODE_NAMES), _NODE_UNITS, strict=True))
NODE_IGNORED = lazy_pattern(r"(z?ram|loop|fd|(h|s|v|xv)d[a-z]|nvme\d+n\d+p)\d+")
"""Source: node_exporter, default of --collector.diskstats.device-exclude."""

_OLD_PARTITION = 7
_COUNTS = (14, 18, 20)
_UNLIKELY = 1 << 70
"""Counters are 64-bit: a larger sum is not one of counters."""


def parse_diskstats(text: str) -> dict[str, BlockIo]:
    """Return the lines of '/proc/diskstats' by device name.

    Partition lines of kernels before 2.6.25 (7 fields: no times, nothing in flight) are left out.
    Half a line could be mistaken for a complete one of another kernel: a text must end with its
    last line.
    """
    if text and not text.endswith("\n"):
        raise ParseError(f"'{PATH}': expected whole lines, got {text[-80:]!r} at the end")
    result: dict[str, BlockIo] = {}
    least, discards, all_fields = _COUNTS
    lines = text.split("\n")
    for number, words in enumerate(map(str.split, lines)):
        count = len(words)
        if count < least and count in {0, _OLD_PARTITION}:
            continue
        end = all_fields if count >= all_fields else discards if count >= discards else least
        try:
            counters = tuple(map(int, words[3:end]))
            if count < least or not 0 <= sum(counters) < _UNLIKELY:
                raise ValueError  # one message for every invalid line
            name = words[2]
            result[name] = BlockIo(name, int(words[0]), int(words[1]), counters)
        except ValueError:
            raise ParseError(
                f"'{PATH}' line {number + 1}: expected '<major> <minor> <name>' and 11, 15 or 17"
                f" numbers, got {lines[number][:120]!r}"
            ) from None
    return result


def emit(value: Mapping[str, BlockIo]) -> list[Sample]:
    """Return the samples of FAMILIES."""
    samples: list[Sample] = []
    for name, block in value.items():
        labels = (("device", name),)
        samples += [
            (metric, labels, counter * unit)
            for (metric, unit), counter in zip(_OURS, block.counters, strict=False)
        ]
    return samples


def node_samples(value: Mapping[str, BlockIo]) -> Iterator[Sample]:
    """Yield node_exporter's node_disk_* of the devices that it does not ignore by default.

    Its series from the udev database are in collectors/block/udev.py.
    """
    for name, block in value.items():
        if not NODE_IGNORED.fullmatch(name):
            labels = (("device", name),)
            for (metric, unit), counter in zip(_NODE, block.counters, strict=False):
                yield metric, labels, counter * unit


def read_diskstats(root: Machine) -> dict[str, BlockIo]:
    """Read and parse '/proc/diskstats'. Errors: AbsentError, ReadError, ParseError."""
    text = root.read_cached_open(PATH)
    if not text.strip():
        raise AbsentError(f"'{PATH}': no block device")
    return parse_diskstats(text)


SOURCE: Source[Mapping[str, BlockIo]] = Source(
    name="diskstats",
    period_seconds=1,
    period_help="How often '/proc/diskstats' is read.",
    paced=True,
    may_hang=False,
    read=read_diskstats,
    families=FAMILIES,
    emit=emit,
    restrict=of_whole_devices,
    objects=("device",),
    lists=("device", lambda value: value),
    node=node_samples,
    node_prefixes=(
        "node_disk_discard",
        "node_disk_flush_",
        "node_disk_io_",
        "node_disk_read",
        "node_disk_writ",
    ),
)
