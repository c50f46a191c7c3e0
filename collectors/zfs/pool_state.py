"""State of each imported ZFS pool, from '/proc/spl/kstat/zfs/<pool>/state'.

Reading takes no lock of the pool and sends no request to a disk: it answers while the pool's own
commands hang (OpenZFS 2.3, module/zfs/spa_stats.c, spa_state_data). *Limits:* OpenZFS 0.8 and
later. A pool is ONLINE with failed log, cache and spare devices, and with checksum errors. In 2.1
a pool whose property 'failmode' is 'continue' is not SUSPENDED here, only in the kernel's log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.collectors.source import Source
from iowarden.collectors.sysfs import printable_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.model import Labels

DIRECTORY = "/proc/spl/kstat/zfs"
"""Statistics of the module, and a directory for each imported pool."""
POOL = "pool "
"""Prefix of a pool's name in the key of its incidents, and where devices are named as well."""
STATES = (
    "ONLINE",
    "DEGRADED",
    "FAULTED",
    "REMOVED",
    "UNAVAIL",
    "SUSPENDED",
    "SPLIT",
)
"""Source: OpenZFS 2.3, module/zfs/spa_misc.c, spa_state_to_name. No pool is taken offline: the
module calls it so while its root is closed, which each scrub, 'zpool online' and 'zpool clear' does
(module/zfs/dsl_scan.c, dsl_scan; vdev_reopen)."""
_UNDECIDED = {
    "OFFLINE": "is closed for a moment: a scrub that begins reopens all of its devices",
    "TRANSITIONING": "is being imported or exported",
    "UNKNOWN": "has a state that its module has no name for",
}
_STATISTICS = frozenset(
    (
        "abdstats",
        "arcstats",
        "brtstats",
        "chksum_bench",
        "dbgmsg",
        "dbufs",
        "dbufstats",
        "ddt_stats",
        "dmu_tx",
        "dnodestats",
        "fletcher_4_bench",
        "fm",
        "import_progress",
        "metaslab_stats",
        "qat",
        "vdev_cache_stats",
        "vdev_mirror_stats",
        "vdev_raidz_bench",
        "xuio_stats",
        "zfetchstats",
        "zil",
        "zstd",
    )
)
"""Files next to the pools' directories, which are no directories: not tried each second.
Source: OpenZFS 0.8 to 2.3, the callers of kstat_create with module "zfs"."""
_NODE_STATES = ("online", "degraded", "faulted", "offline", "removed", "unavail", "suspended")
"""Source: node_exporter, collector/zfs_linux.go."""


@dataclass(frozen=True, slots=True)
class PoolState:
    """One imported pool. `state` is one of STATES, or '' with the reason in `undecided`."""

    name: str
    state: str
    undecided: str = ""


FAMILIES = (
    Family("iowarden_zfs_pool_state", "gauge", "1 for the state that an imported ZFS pool is in."),
)


def emit(value: Mapping[str, PoolState]) -> list[Sample]:
    """Return the samples of FAMILIES: every state, so that one that ends is 0."""
    return [
        (
            "iowarden_zfs_pool_state",
            (("pool", pool.name), ("state", state)),
            float(state == pool.state),
        )
        for pool in value.values()
        if pool.state
        for state in STATES
    ]


def pool_of(dataset: str) -> str:
    """Return the pool of a dataset, volume or snapshot: 'pool tank' of 'tank/home@monday'."""
    return POOL + dataset.partition("/")[0].partition("@")[0].partition("#")[0]


def node_samples(value: Mapping[str, PoolState]) -> Iterator[Sample]:
    """Yield node_exporter's node_zfs_zpool_state."""
    for pool in value.values():
        for state in _NODE_STATES if pool.state else ():
            labels = (("state", state), ("zpool", pool.name))
            yield "node_zfs_zpool_state", labels, float(state == pool.state.lower())


def unreadable(value: Mapping[str, PoolState]) -> Iterator[tuple[Labels, str]]:
    """Yield the pools whose state is not known, and why."""
    for pool in value.values():
        if pool.undecided:
            yield (("pool", pool.name),), pool.undecided


def pool_directories(root: Machine) -> list[str]:
    """Return the directories of the imported pools; with statistics that are not known here.

    Errors: AbsentError (no module), ReadError.
    """
    return [entry for entry in root.names(DIRECTORY) if entry not in _STATISTICS]


def read_pool_states(root: Machine) -> dict[str, PoolState]:
    """Read the state of all imported pools, by name; none on a machine that has the module alone.

    A pool that is exported meanwhile is left out. Errors: AbsentError (no module), ReadError.
    """
    pools = {}
    for entry in pool_directories(root):
        name = printable_name(entry)
        word = (root.try_read(f"{DIRECTORY}/{entry}/state") or "").strip()
        if word in STATES:
            pools[name] = PoolState(name, word)
        elif word:
            reason = _UNDECIDED.get(word) or f"expected a state of OpenZFS, got {word[:40]!r}"
            pools[name] = PoolState(name, "", reason)
        elif (files := root.try_names(f"{DIRECTORY}/{entry}")) is None:
            continue
        elif "state" in files:
            pools[name] = PoolState(name, "", "its state cannot be read")
        else:
            pools[name] = PoolState(name, "", "OpenZFS before 0.8 does not show its state")
    return pools


SOURCE: Source[Mapping[str, PoolState]] = Source(
    name="zfs",
    period_seconds=1,
    period_help="How often the states of ZFS pools are read.",
    may_hang=False,
    read=read_pool_states,
    families=FAMILIES,
    emit=emit,
    node=node_samples,
    node_prefixes=("node_zfs_zpool_state",),
    node_names=frozenset({"node_zfs_zpool_state"}),
    lists=("pool", lambda value: value),
    unreadable=unreadable,
)
