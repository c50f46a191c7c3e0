"""Devices and space of each imported ZFS pool, from 'zpool status' and 'zpool list'.

The programs are run for one pool at a time, so that a pool that hangs hides no other one, and never
for a suspended one. Never with '-v': reading the list of damaged files is what hangs.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import AbsentError, Family, ParseError, ReadError, Sample
from iowarden.collectors.program import run_program
from iowarden.collectors.source import Source
from iowarden.collectors.sysfs import printable_name
from iowarden.collectors.zfs.pool_space import PROPERTIES, PoolSpace, parse_space
from iowarden.collectors.zfs.pool_state import read_pool_states
from iowarden.collectors.zfs.zpool_status import PoolStatus, Scan, parse_status

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.model import Labels

DEADLINE_SECONDS = 30.0
_SUSPENDED = "it is suspended: 'zpool status' is not run, because it could hang"

FAMILIES = (
    Family(
        "iowarden_zfs_vdev_state",
        "gauge",
        "1 for the state of each device of a ZFS pool.",
    ),
    Family(
        "iowarden_zfs_vdev_errors_total",
        "counter",
        "Read, write and checksum errors of a device of a ZFS pool, since 'zpool clear' or import.",
    ),
    Family(
        "iowarden_zfs_vdev_slow_requests_total",
        "counter",
        "Requests for which a device of a ZFS pool took longer than 30 s (zio_slow_io_ms).",
    ),
    Family(
        "iowarden_zfs_pool_data_errors",
        "gauge",
        "Files and objects of a ZFS pool that are damaged.",
    ),
    Family(
        "iowarden_zfs_pool_scan_ratio",
        "gauge",
        "How much of a running scrub or resilver of a ZFS pool is done.",
    ),
    Family(
        "iowarden_zfs_pool_scan_state",
        "gauge",
        "1 for the state of the last scrub or resilver of a ZFS pool: finished, canceled, running,"
        " paused.",
    ),
    Family(
        "iowarden_zfs_pool_size_bytes",
        "gauge",
        "Size of a ZFS pool, as 'zpool list' shows it: of raidz with parity.",
    ),
    Family(
        "iowarden_zfs_pool_free_bytes",
        "gauge",
        "Space of a ZFS pool that is not allocated; about 3 % of its size are reserved.",
    ),
    Family(
        "iowarden_zfs_pool_fragmentation_ratio",
        "gauge",
        "How fragmented the free space of a ZFS pool is; not the data in it.",
    ),
)


@dataclass(frozen=True, slots=True)
class PoolDevices:
    """What 'zpool status' shows of a pool; `reason`: why that is not known. `space`: None likewise.

    Without its space the datasets of a pool are judged one by one. `scrubbed_seconds` is the Unix
    time at which the scrub ended that 'zpool status' shows; a later resilver takes its place there.
    """

    status: PoolStatus = field(default_factory=lambda: PoolStatus("", "", ()))
    reason: str = ""
    space: PoolSpace | None = None
    scrubbed_seconds: float | None = None


def parse_pool(name: str, text: str) -> PoolStatus:
    """Return the status of one pool. Errors: ParseError."""
    pools = [pool for pool in parse_status(text) if pool.name == name]
    if len(pools) != 1 or not pools[0].devices:
        raise ParseError(
            f"'zpool status': expected 'pool: {name}' and its devices, got {text[:120]!r}"
        )
    if not pools[0].errors_text and pools[0].state in {"ONLINE", "DEGRADED"}:
        raise ParseError(
            f"'zpool status': expected the line 'errors:' at the end, got a text of {len(text)}"
            " characters: it ends within the devices"
        )
    if pools[0].unparsed:
        number, line = pools[0].unparsed[0]
        raise ParseError(
            f"'zpool status', line {number}: expected a device with a state that OpenZFS 2.4"
            f" knows, got {line[:120]!r}"
        )
    return pools[0]


def read_pool_devices(
    root: Machine, enter: Callable[[Hashable], str] = lambda _: ""
) -> dict[str, PoolDevices]:
    """Read the devices of all imported pools, by the pool's name.

    `enter` is called for each before it is read; it returns '', or why it is skipped. Errors:
    AbsentError (no pool, no probe, no program), ReadError (of the kernel's list of pools).
    """
    pools = {}
    for pool in read_pool_states(root).values():
        reason = _SUSPENDED if pool.state == "SUSPENDED" else enter(pool.name)
        try:
            if not reason:
                text = run_program(root, DEADLINE_SECONDS, "zpool", "status", "-pLPs", pool.name)
                status = parse_pool(pool.name, text)
                pools[pool.name] = PoolDevices(
                    status,
                    space=_read_space(root, pool.name),
                    scrubbed_seconds=_scrub_end_seconds(status.scrub),
                )
                continue
        except (ReadError, ParseError) as error:
            reason = str(error)
        pools[pool.name] = PoolDevices(reason=reason)
    if not pools:
        raise AbsentError("'/proc/spl/kstat/zfs': no pool is imported")
    return pools


def _scrub_end_seconds(scan: Scan | None) -> float | None:
    """Return when the whole pool was last read; its time is local, in this machine's zone."""
    if scan is None or scan.kind != "scrub" or scan.state != "finished" or scan.at is None:
        return None
    return scan.at.timestamp()


def _read_space(root: Machine, name: str) -> PoolSpace | None:
    command = ("zpool", "list", "-Hpo", PROPERTIES, name)
    try:
        return parse_space(run_program(root, DEADLINE_SECONDS, *command))
    except (AbsentError, ReadError, ParseError):
        return None


def emit(value: Mapping[str, PoolDevices]) -> list[Sample]:
    """Return the samples of FAMILIES."""
    return [
        sample
        for name, pool in value.items()
        if not pool.reason
        for sample in (*_samples(pool.status), *_space_samples(name, pool.space))
    ]


def _space_samples(name: str, space: PoolSpace | None) -> Iterator[Sample]:
    if space is None:
        return
    labels = (("pool", name),)
    yield "iowarden_zfs_pool_size_bytes", labels, float(space.size_bytes)
    yield "iowarden_zfs_pool_free_bytes", labels, float(space.free_bytes)
    if space.fragmentation_ratio is not None:
        yield "iowarden_zfs_pool_fragmentation_ratio", labels, space.fragmentation_ratio


def _samples(pool: PoolStatus) -> Iterator[Sample]:
    for device in pool.leaves():
        labels = (
            ("pool", pool.name),
            ("role", device.role),
            ("vdev", printable_name(device.name.removeprefix("/dev/"))),
        )
        group = ("group", device.parent)
        yield (
            "iowarden_zfs_vdev_state",
            (group, *labels[:2], ("state", device.state), labels[2]),
            1.0,
        )
        for kind, count in device.errors.items():
            yield "iowarden_zfs_vdev_errors_total", (group, ("kind", kind), *labels), float(count)
        if device.slow_requests is not None:
            yield "iowarden_zfs_vdev_slow_requests_total", (group, *labels), device.slow_requests
    name = (("pool", pool.name),)
    if pool.data_errors is not None:
        yield "iowarden_zfs_pool_data_errors", name, float(pool.data_errors)
    # Of several vdevs that are resilvered at a time the one that has most to do.
    for scan in {each.kind: each for each in sorted(pool.scans, key=_left)}.values():
        state = (("action", scan.kind), *name, ("state", scan.state))
        yield "iowarden_zfs_pool_scan_state", state, 1.0
        if scan.done_ratio is not None:
            yield "iowarden_zfs_pool_scan_ratio", (("action", scan.kind), *name), scan.done_ratio


def _left(scan: Scan) -> float:
    """Return how much of a scan is left, as a ratio."""
    return 0.0 if scan.done_ratio is None else 1.0 - scan.done_ratio


def unreadable(value: Mapping[str, PoolDevices]) -> Iterator[tuple[Labels, str]]:
    """Yield the pools whose devices are not known, and why."""
    for name, each in value.items():
        if each.reason:
            yield (("pool", name),), each.reason


SOURCE: Source[Mapping[str, PoolDevices]] = Source(
    name="zfs_vdevs",
    period_seconds=300,
    period_help=(
        "How often 'zpool status' and 'zpool list' are run for each ZFS pool; also when the state"
        " of a pool changes."
    ),
    may_hang=True,
    read=read_pool_devices,
    families=FAMILIES,
    emit=emit,
    unreadable=unreadable,
    parts=read_pool_devices,
)
