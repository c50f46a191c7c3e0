"""Page-cache and paging counters of '/proc/vmstat'."""

from __future__ import annotations

import re
from collections.abc import Mapping  # noqa: TC003 - describe() evaluates the annotations
from dataclasses import field, replace
from typing import TYPE_CHECKING, Annotated
from weakref import WeakKeyDictionary

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import KIB, Metric, ParseError, Sample, describe, parse_count
from iowarden.collectors.procfs.oom_counters import OomKills, read_oom_kills
from iowarden.collectors.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.machine import Machine

PATH = "/proc/vmstat"


@dataclass(frozen=True, slots=True)
class Vmstat:
    """Values of '/proc/vmstat', in bytes if the kernel counts pages.

    Source: kernel, mm/vmstat.c (vmstat_text); pgpgin and pgpgout are KiB submitted, not completed.
    None: this kernel prints no such line (each has the first version, if known). Limits: the
    thresholds are those of the reading task: do not read with a real-time priority.
    """

    dirty_bytes: Annotated[int, Metric("gauge", "Dirty data: waiting to be written to disk.")]
    writeback_bytes: Annotated[
        int, Metric("gauge", "Data under write-back: being written to disk.")
    ]
    unstable_bytes: Annotated[
        int | None,
        Metric("gauge", "Data sent to an NFS server and not yet committed (0 from 5.8 on)."),
    ]
    dirtied_bytes_total: Annotated[int | None, Metric("counter", "Data made dirty.")]
    written_bytes_total: Annotated[
        int | None, Metric("counter", "Dirty data submitted for writing.")
    ]
    dirty_threshold_bytes: Annotated[
        int | None, Metric("gauge", "Dirty data at which the kernel throttles writers.")
    ]
    dirty_background_threshold_bytes: Annotated[
        int | None, Metric("gauge", "Dirty data at which the kernel starts background write-back.")
    ]
    pgpgin_bytes_total: Annotated[int, Metric("counter", "Submitted reads of block devices.")]
    pgpgout_bytes_total: Annotated[int, Metric("counter", "Submitted writes to block devices.")]
    swapped_in_bytes_total: Annotated[int | None, Metric("counter", "Data swapped in.")]
    swapped_out_bytes_total: Annotated[int | None, Metric("counter", "Data swapped out.")]
    major_faults_total: Annotated[
        int | None, Metric("counter", "Page faults that needed a read from disk (major faults).")
    ]
    refaulted_file_pages_total: Annotated[
        int | None,
        Metric("counter", "Refaults: file pages read again soon after they were evicted (3.15+)."),
    ]
    direct_reclaims_total: Annotated[
        int | None,
        Metric(
            "counter",
            "Direct reclaims: allocations that had to reclaim memory themselves (allocstall).",
        ),
    ]
    direct_scanned_pages_total: Annotated[
        int | None, Metric("counter", "Pages scanned by direct reclaim.")
    ]
    compaction_stalls_total: Annotated[
        int | None, Metric("counter", "Allocations that had to compact memory themselves.")
    ]
    zone_reclaims_total: Annotated[
        int | None,
        Metric(
            "counter",
            "Zone reclaims that freed enough memory of the NUMA node (zone_reclaim_success).",
        ),
    ]
    zone_reclaims_failed_total: Annotated[
        int | None,
        Metric("counter", "Zone reclaims that freed too little memory (zone_reclaim_failed)."),
    ]
    ballooned_pages_total: Annotated[
        int | None, Metric("counter", "Pages the balloon gave back to the hypervisor.")
    ]
    page_cache_drops_total: Annotated[
        int | None, Metric("counter", "How often the page cache was emptied through drop_caches.")
    ]
    oom_kills_total: Annotated[
        int | None, Metric("counter", "Tasks killed by the out-of-memory killer (4.13+).")
    ]
    oom_kills: OomKills | None
    """Where they were killed; None: nowhere since boot."""
    raw: Mapping[str, str] = field(repr=False)
    """Every line as the kernel prints it: pages, KiB or events."""


_ZONES = ("", "_dma", "_dma32", "_normal", "_high", "_movable", "_device")
"""allocstall is one counter up to 4.9, then one per zone; pgscan_direct was per zone up to 4.7."""
_ALLOCATION_STALLS = tuple("allocstall" + zone for zone in _ZONES)
_DIRECT_SCANS = tuple("pgscan_direct" + zone for zone in _ZONES)
_NODE_NAMES = lazy_pattern(r"(oom_kill|pgpg|pswp|pg\w*fault)\w*", re.ASCII)
"""Source: node_exporter, default of --collector.vmstat.fields."""

FAMILIES, emit = describe(Vmstat, "iowarden_vmstat_")


def parse_vmstat(text: str, page_size_bytes: int) -> Vmstat:
    """Parse '/proc/vmstat' as bytes and events; unknown lines stay text."""
    words = text.split()
    raw = dict(zip(words[::2], words[1::2], strict=False))  # 190 lines each second: half the time
    if len(words) != 2 * text.count("\n"):  # a line that is none of the kernel's
        raw = {key: number for key, _, number in (x.partition(" ") for x in text.split("\n"))}

    def maybe(key: str, unit: int = 1) -> int | None:
        number = raw.get(key)
        if number is None:
            return None
        try:
            return parse_count(number) * unit
        except ValueError:
            raise ParseError(
                f"'{PATH}' line '{key}': expected '{key} <n>', got {number[:80]!r}"
            ) from None

    def need(key: str, unit: int) -> int:
        number = maybe(key, unit)
        if number is None:
            raise ParseError(
                f"'{PATH}': expected a line '{key} <n>', got none in {len(text)} characters"
            )
        return number

    def total(keys: tuple[str, ...]) -> int | None:
        numbers = [number for key in keys if (number := maybe(key)) is not None]
        return sum(numbers) if numbers else None

    refaults = maybe("workingset_refault_file")
    return Vmstat(
        dirty_bytes=need("nr_dirty", page_size_bytes),
        writeback_bytes=need("nr_writeback", page_size_bytes),
        unstable_bytes=maybe("nr_unstable", page_size_bytes),
        dirtied_bytes_total=maybe("nr_dirtied", page_size_bytes),
        written_bytes_total=maybe("nr_written", page_size_bytes),
        dirty_threshold_bytes=maybe("nr_dirty_threshold", page_size_bytes),
        dirty_background_threshold_bytes=maybe("nr_dirty_background_threshold", page_size_bytes),
        pgpgin_bytes_total=need("pgpgin", KIB),
        pgpgout_bytes_total=need("pgpgout", KIB),
        swapped_in_bytes_total=maybe("pswpin", page_size_bytes),
        swapped_out_bytes_total=maybe("pswpout", page_size_bytes),
        major_faults_total=maybe("pgmajfault"),
        refaulted_file_pages_total=maybe("workingset_refault") if refaults is None else refaults,
        direct_reclaims_total=total(_ALLOCATION_STALLS),
        direct_scanned_pages_total=total(_DIRECT_SCANS),
        compaction_stalls_total=maybe("compact_stall"),
        zone_reclaims_total=maybe("zone_reclaim_success"),
        zone_reclaims_failed_total=maybe("zone_reclaim_failed"),
        ballooned_pages_total=maybe("balloon_inflate"),
        page_cache_drops_total=maybe("drop_pagecache"),
        oom_kills_total=maybe("oom_kill"),
        oom_kills=None,
        raw=raw,
    )


def node_samples(value: Vmstat) -> Iterator[Sample]:
    """Yield node_exporter's node_vmstat_* (its default selection)."""
    for key, number in value.raw.items():
        if _NODE_NAMES.fullmatch(key):
            try:
                yield "node_vmstat_" + key, (), parse_count(number)
            except ValueError:
                continue  # an invalid line; those that we use are checked


_kills: WeakKeyDictionary[Machine, tuple[int, OomKills]] = WeakKeyDictionary()
"""By machine, the number of kills and where they were: read again when that number has changed."""


def read_vmstat(root: Machine) -> Vmstat:
    """Read and parse '/proc/vmstat'. Errors: AbsentError, ReadError, ParseError."""
    value = parse_vmstat(root.read_cached_open(PATH), root.page_size_bytes)
    total = value.oom_kills_total
    if not total:
        return value
    last, kills = _kills.get(root, (0, None))
    if kills is None or total != last:
        kills = read_oom_kills(root)
        _kills[root] = total, kills
    return replace(value, oom_kills=kills)


SOURCE: Source[Vmstat] = Source(
    name="vmstat",
    period_seconds=1,
    period_help="How often '/proc/vmstat' is read.",
    paced=True,
    may_hang=False,
    read=read_vmstat,
    families=FAMILIES,
    emit=emit,
    node=node_samples,
    node_prefixes=("node_vmstat_",),
)
