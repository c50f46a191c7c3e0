"""The cache of ZFS (ARC), from '/proc/spl/kstat/zfs/arcstats'.

The kernel counts it neither as page cache nor in MemAvailable, although programs get most of it
when they need memory. *Limits:* ZFS frees it in the background: a program that needs much at once
may swap, or be killed, before it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Metric, describe
from iowarden.collectors.source import Source
from iowarden.collectors.zfs.kstat import parse_named

if TYPE_CHECKING:
    from iowarden.collectors.machine import Machine

PATH = "/proc/spl/kstat/zfs/arcstats"
_CLEAN = (
    *("mru_evictable_data", "mru_evictable_metadata"),
    *("mfu_evictable_data", "mfu_evictable_metadata"),
)
"""OpenZFS 0.7 and later."""
_REQUIRED = ("size", "c", "c_min", "c_max")
_THROTTLES = "memory_throttle_count"


@dataclass(frozen=True, slots=True)
class ArcStats:
    """Values of 'arcstats', in bytes. None: this version has no such line."""

    size_bytes: Annotated[int, Metric("gauge", "Memory that the cache of ZFS (ARC) holds.")]
    target_bytes: Annotated[
        int, Metric("gauge", "Size that ZFS wants its cache (ARC) to have at present.")
    ]
    min_bytes: Annotated[
        int, Metric("gauge", "Size that the cache of ZFS (ARC) keeps when memory is short.")
    ]
    max_bytes: Annotated[int, Metric("gauge", "Largest size of the cache of ZFS (zfs_arc_max).")]
    evictable_bytes: Annotated[
        int, Metric("gauge", "Part of the cache of ZFS (ARC) that programs get when they need it.")
    ]
    memory_throttles_total: Annotated[
        int | None, Metric("counter", "Times that ZFS delayed writes because memory was short.")
    ]


FAMILIES, emit = describe(ArcStats, "iowarden_zfs_arc_")


def parse_arcstats(text: str) -> ArcStats:
    """Return the values of 'arcstats'. Errors: ParseError."""
    names = (*_REQUIRED, *_CLEAN, _THROTTLES)
    values = parse_named(text, PATH, names, _REQUIRED)
    size, least = values["size"], values["c_min"]
    clean = sum(values[name] for name in _CLEAN) if values.keys() >= {*_CLEAN} else size
    # Source: OpenZFS 2.3, arc_os.c, arc_evictable_memory; zfs_arc_pc_percent is 0 by default.
    evictable = clean if size - clean >= least else max(size - least, 0)
    return ArcStats(
        size_bytes=size,
        target_bytes=values["c"],
        min_bytes=least,
        max_bytes=values["c_max"],
        evictable_bytes=min(evictable, size),
        memory_throttles_total=values.get(_THROTTLES),
    )


def read_arcstats(root: Machine) -> ArcStats:
    """Read and parse 'arcstats'. Errors: AbsentError (no module), ReadError, ParseError."""
    return parse_arcstats(root.read_cached_open(PATH))


SOURCE: Source[ArcStats] = Source(
    name="zfs_arc",
    period_seconds=2,
    period_help=f"How often '{PATH}' is read, on hosts with ZFS.",
    may_hang=False,
    read=read_arcstats,
    families=FAMILIES,
    emit=emit,
)
