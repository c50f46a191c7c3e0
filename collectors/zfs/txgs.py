"""How ZFS pools write: their transaction groups, and the writes that ZFS delays.

What programs write to a pool is collected in a transaction group, which is written as a whole
(synced) while the next one collects; a program that has to wait for either is blocked. From
'/proc/spl/kstat/zfs/<pool>/txgs' and '/proc/spl/kstat/zfs/dmu_tx', which wait for no disk
(OpenZFS 2.3, module/zfs/spa_stats.c: spa_txg_history_show; module/zfs/dmu_tx.c). *Limits:* OpenZFS
0.8 and later; of writes that ZFS delays it shows only how many there were on the host.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - to be evaluated
from dataclasses import field
from typing import TYPE_CHECKING, Annotated

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import Family, Metric, ParseError, Sample, describe
from iowarden.collectors.source import Source
from iowarden.collectors.sysfs import printable_name
from iowarden.collectors.zfs.kstat import parse_named, taken_nanoseconds
from iowarden.collectors.zfs.pool_state import DIRECTORY, pool_directories

if TYPE_CHECKING:
    from iowarden.collectors.machine import Machine

PATH = f"{DIRECTORY}/dmu_tx"
_COUNTERS = {"delayed_total": "dmu_tx_dirty_delay", "blocked_total": "dmu_tx_dirty_over_max"}
_TITLES = "txg birth state ndirty nread nwritten reads writes otime qtime wtime stime".split()
_ROW = lazy_pattern(r"\d{1,20} +\d{1,20} +[BOQWSC?](?: +\d{1,20}){9} *")
_SYNCING, _COMMITTED = "S", "C"
_NANOSECOND = 1e-9


@dataclass(frozen=True, slots=True)
class PoolTxgs:
    """The transaction groups of one pool. None: the module keeps no history of them.

    `sync_seconds` is how long one is being written, 0 while none is; `last_...` are about the last
    one that was written.
    """

    sync_seconds: float | None = None
    last_sync_seconds: float | None = None
    last_dirty_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ZfsWrites:
    """The pools by name, and how many writes of the host had to wait. None: not counted.

    A pool whose transaction groups cannot be read, as that of a module before 0.8, is left out.
    """

    delayed_total: Annotated[
        int | None,
        Metric("counter", "Writes that ZFS delayed, because much unwritten data was queued."),
    ]
    blocked_total: Annotated[
        int | None,
        Metric("counter", "Writes that ZFS held up until the queue was below zfs_dirty_data_max."),
    ]
    pools: Mapping[str, PoolTxgs] = field(default_factory=dict)


_FAMILIES, _emit = describe(ZfsWrites, "iowarden_zfs_writes_")
FAMILIES = (
    *_FAMILIES,
    Family(
        "iowarden_zfs_pool_txg_sync_seconds",
        "gauge",
        "Seconds for which a ZFS pool has been writing its present transaction group; 0 while it"
        " writes none.",
    ),
    Family(
        "iowarden_zfs_pool_last_txg_sync_seconds",
        "gauge",
        "Seconds that a ZFS pool took to write its last transaction group.",
    ),
    Family(
        "iowarden_zfs_pool_last_txg_dirty_bytes",
        "gauge",
        "Data that the last transaction group of a ZFS pool held, before compression and parity.",
    ),
)


def parse_txgs(text: str, now_nanoseconds: int) -> PoolTxgs:
    """Return the transaction groups of a pool; the time is the module's. Errors: ParseError.

    Only the last rows are read: those that are not written yet, and the last that is. Before 0.8 a
    line of numbers comes first, as in other statistics.
    """
    lines = text.split("\n")
    if lines[0].split() != _TITLES:
        lines = lines[1:] or lines
    if lines[0].split() != _TITLES:
        raise ParseError(
            f"'txgs': expected the titles '{' '.join(_TITLES)}', got {lines[0][:80]!r}"
        )
    sync_seconds = 0.0
    rows = [line for line in lines[1:] if line.strip()]
    for line in reversed(rows):
        if not _ROW.fullmatch(line):
            raise ParseError(f"'txgs': expected {len(_TITLES)} values, got {line[:120]!r}")
        row = dict(zip(_TITLES, line.split(), strict=True))
        if row["state"] == _SYNCING:
            began = sum(int(row[name]) for name in ("birth", "otime", "qtime", "wtime"))
            sync_seconds = max(now_nanoseconds - began, 0) * _NANOSECOND
        if row["state"] == _COMMITTED:
            return PoolTxgs(sync_seconds, int(row["stime"]) * _NANOSECOND, int(row["ndirty"]))
    return PoolTxgs(sync_seconds if rows else None)


def read_zfs_writes(root: Machine) -> ZfsWrites:
    """Read the transaction groups of all imported pools.

    Errors: AbsentError (no module), ReadError, ParseError.
    """
    texts = {
        printable_name(entry): root.try_read(f"{DIRECTORY}/{entry}/txgs")
        for entry in pool_directories(root)
    }
    text = root.read_cached_open(PATH)
    now = taken_nanoseconds(text, PATH)
    counters = parse_named(text, PATH, _COUNTERS.values(), ())
    return ZfsWrites(
        pools={name: parse_txgs(own, now) for name, own in texts.items() if own},
        **{key: counters.get(name) for key, name in _COUNTERS.items()},
    )


def emit(value: ZfsWrites) -> list[Sample]:
    """Return the samples of FAMILIES."""
    samples = _emit(value)
    for name, pool in value.pools.items():
        numbers = (pool.sync_seconds, pool.last_sync_seconds, pool.last_dirty_bytes)
        for family, number in zip(FAMILIES[len(_FAMILIES) :], numbers, strict=True):
            if number is not None:
                samples.append((family.name, (("pool", name),), number))
    return samples


SOURCE: Source[ZfsWrites] = Source(
    name="zfs_txgs",
    period_seconds=2,
    period_help="How often the transaction groups of ZFS pools are read.",
    may_hang=False,
    read=read_zfs_writes,
    families=FAMILIES,
    emit=emit,
)
