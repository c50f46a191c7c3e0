"""What other signals, and the counters during a wait, show of the devices that programs wait for.

Other signals show that a disk is slow, or that another fills the queue of its adapter, only after
their windows; a mail about a freeze leaves after 12 s. So both are also judged over the wait
itself, by the limits of those signals: slow.py, queue_depth.py.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING

from iowarden.collectors.block.block_devices import ZFS
from iowarden.collectors.model import SECTOR_BYTES
from iowarden.collectors.zfs.pool_state import POOL
from iowarden.rules.signals import guards
from iowarden.rules.signals.activity import members
from iowarden.rules.signals.device import device, multipath, slow, slow_windows, suspended
from iowarden.rules.signals.guards import HOST, NO_GUARD, Guard
from iowarden.rules.signals.queue import at_limit, queue_depth
from iowarden.rules.signals.waits import load
from iowarden.rules.signals.waits.freeze_cause import (
    SYNC_SECONDS,
    DeviceFacts,
    FreezeCause,
    reached_write_limits,
)
from iowarden.rules.signals.waits.freezes import NO_PERMIT, Permit
from iowarden.rules.signals.writeback import writeback

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.rules.signals.device.slow_windows import Window
    from iowarden.rules.signals.signal import View
    from iowarden.rules.signals.waits.load import Moved
    from iowarden.rules.signals.waits.waits import Wait

SUSPENDED_SECONDS = 10.0
"""A device may be suspended for so long before that is read: two polls."""
HANG_SECONDS = 5.0
MIN_SECONDS = 8.0
"""Shorter a wait shows nothing about its disk."""
WELL_BYTES_PER_SECOND = 10_000_000.0
"""What a disk writes at least when it works well: so much of a program's own bytes explains that
it waits for a faulty one."""
PEERS_RATIO, MIN_SERVICE_SECONDS = 5.0, 0.05
"""So much of a busy disk's time its mean request takes, and so many times that of its peers. The
time between issue and completion shows the load instead: a deep queue makes that long."""
_HANG, _SLOW = "iowarden_device_hang_seconds", "iowarden_device_slow_seconds"
_SYNCHRONIZING = "iowarden_md_sync_running_ratio"
_UTILIZATION = "iowarden_device_utilization_ratio"
BUSY_RATIO, IDLE_RATIO = 0.8, 0.1
"""A device in use so much is slow for all, whatever a control group is allowed; one that is hardly
in use delays no program."""
WAITING_RATIO = 0.5
"""Disks of a pool that are in use so much less than another one wait for it."""
MEMORY_LEFT_RATIO = 0.1
"""A host with so much of its memory available does not swap for want of it."""
IDLE_SECONDS = 4.0
"""Over so much of a wait at least."""
STUCK_MIN_REQUESTS, STUCK_RATIO = 100, 0.5
"""So many others a disk completed meanwhile; and of the mean in flight, what these explain."""
STUCK_SLACK_SECONDS = 5.0
"""A request may be in flight for so long before a task is seen that waits for it."""
_MILLISECOND, _BUSY_MILLISECONDS = 0.001, 9
"""Position of the time in use among the counters of a device."""
_HOLDING = re.compile(r"dm-|md|bcache")
_BANDWIDTH = "iowarden_writeback_bandwidth_bytes_per_second"
_BLOCKED_TASKS = "iowarden_device_blocked_tasks"
_GROUPS = (
    *("device", "slow", "bandwidth", "activity", "md_state", queue_depth.STARVED_GROUP.name),
    "waiters",
)
_METRICS = frozenset(
    {
        *(_HANG, _SLOW, _SYNCHRONIZING, _UTILIZATION, _BANDWIDTH, _BLOCKED_TASKS),
        *(queue_depth.STARVED, queue_depth.DOMINANT),
    }
)


def leaves(name: str, topology: Topology) -> frozenset[str]:
    """Return the leaf devices below one; all of the host where it is not known."""
    return leaves_of(stack_of(name, topology), topology)


def leaves_of(stack: Collection[str], topology: Topology) -> frozenset[str]:
    """Return the leaf devices of a stack; all of the host where none is known."""
    return frozenset(topology.leaves).intersection(stack) or frozenset(topology.leaves)


def stack_of(name: str, topology: Topology) -> frozenset[str]:
    """Return a device and all below it; a pool ('pool tank') is on what udev found a label of."""
    if not name.startswith(POOL):
        return frozenset({name, *members(topology, name)})
    parts = (
        part
        for part, signature in topology.signatures.items()
        if signature.kind == ZFS and POOL + signature.group == name
    )
    wholes = {whole.name for part in parts if (whole := topology.whole(part)) is not None}
    return frozenset({name}).union(*(members(topology, whole) for whole in wholes))


def device_facts(
    name: str, stack: frozenset[str], waits: Sequence[Wait], moved: tuple[Moved, ...], view: View
) -> DeviceFacts:
    """Return the facts of a device and of its `stack`, since the oldest of its waits began."""
    began_seconds = min(wait.not_before_seconds for wait in waits)
    assert view.derived is not None  # noqa: S101 - the caller returned
    topology = view.derived.topology
    is_known = name in topology.devices or len(stack) > 1
    below = {name, *(leaves_of(stack, topology) if is_known else ())}
    unwritten = writeback.seen(view)
    values = {
        (metric, dict(labels).get("device", "")): value
        for group in _GROUPS
        for metric, labels, value in view.earlier.get(group, ())
        if metric in _METRICS
    }
    before = load.since(moved, began_seconds)
    starved, dominant = _starved(before, moved, values, view)
    starved &= below
    slow_disks = {one for one in below if values.get((_SLOW, one), 0.0) > 0}
    if before is not None and moved[-1].at_seconds - before.at_seconds >= MIN_SECONDS:
        slow_disks |= slow_between(before, moved[-1], below & {*topology.leaves}, topology)
    hanging = _named(one for one in below if values.get((_HANG, one), 0.0) >= HANG_SECONDS)
    in_use = [values.get((_UTILIZATION, one), 0.0) for one in below]
    if before is not None and moved[-1].at_seconds - before.at_seconds >= IDLE_SECONDS:
        in_use = [_utilization_ratio(before, moved[-1], one) for one in below]
    is_busy = max(in_use, default=0.0) >= BUSY_RATIO
    return DeviceFacts(
        unreachable=multipath.unreachable(below, topology, view.inputs.snapshot.scsi),
        hanging=hanging,
        hanging_elsewhere=_named(
            one
            for (metric, one), seconds in values.items()
            if metric == _HANG
            and seconds >= HANG_SECONDS
            and one not in below
            # Who writes to it is paused as well; what a server is slow to write is not for it.
            and is_known
            and values.get((_BLOCKED_TASKS, one), 0.0) > 0
        ),
        stuck=_named(one for one in below if _is_stuck(one, began_seconds, before, moved, view)),
        slow=_named(slow_disks - starved),
        starved=_named(starved),
        dominant=_by_queue(dominant, moved),
        synchronizing=_synchronizing(values, below, topology) if is_busy else (),
        holding=holding_requests(stack, before, moved, topology),
        is_suspended=_is_pool_suspended(name, view)
        or not stack.isdisjoint(suspended.names(suspended.GROUP.state(view.states))),
        may_be_suspended=name == HOST and _is_one_suspended(began_seconds, before, moved, view),
        discarding=_named(
            one
            for one in below.intersection(topology.leaves)
            if _is_discarding(one, view, is_hanging=one in hanging)
            and not _discards_overtake(one, before, moved)
        ),
        is_discard_overdue=any(
            values.get((_HANG, one), 0.0) >= device.DISCARD_CRITICAL_SECONDS for one in below
        ),
        is_at_limit=is_at_limit(name, view),
        is_busy=is_busy,
        is_idle=is_known and _is_idle(before, moved, below),
        write_limits=reached_write_limits(wait.task for wait in waits),
        is_another_used=is_any_used(before, moved, frozenset(topology.leaves) - below),
        is_untouched=is_known and is_untouched(before, moved, below),
        is_pool_syncing=_is_pool_syncing(name, view),
        busiest=_busiest(before, moved, below.intersection(topology.leaves)),
        has_memory_left=_has_memory_left(view),
        rates={
            of_stack.device_number: _rates(before, moved, one)
            for one in stack
            if (of_stack := topology.devices.get(one)) and of_stack.device_number
        },
        queued_bytes=0.0 if unwritten is None else unwritten.queued_bytes,
        pausing_bytes=None if unwritten is None else unwritten.freerun_bytes,
        write_bytes_per_second=values.get((_BANDWIDTH, ""), _speed(before, moved, stack, view)),
    )


def carries_swap(disks: Collection[str], view: View, topology: Topology) -> bool:
    """Whether a swap area is on one of these disks, or a swap file on a file system of one."""
    mounts = view.inputs.snapshot.mounts
    points = {} if mounts is None else {each.mount_point: each for each in mounts.mounts}
    for swap in topology.swaps:
        names: tuple[str, ...] = (swap.path,)
        if not swap.block:
            path = swap.path
            while path not in points and path != "/":
                path = path.rpartition("/")[0] or "/"
            mount = points.get(path)
            names = () if mount is None else (mount.device_number, mount.source)
        for carrier in map(topology.whole, names):
            if carrier is not None and not leaves(carrier.name, topology).isdisjoint(disks):
                return True
    return False


def _is_pool_suspended(name: str, view: View) -> bool:
    pools = view.inputs.snapshot.zfs or {}
    pool = pools.get(name.removeprefix(POOL)) if name.startswith(POOL) else None
    return pool is not None and pool.state == "SUSPENDED"


def _is_one_suspended(
    began_seconds: float, before: Moved | None, moved: tuple[Moved, ...], view: View
) -> bool:
    """Whether devices were suspended when a wait began, and no disk has had anything in flight."""
    since = suspended.since_seconds(suspended.GROUP.state(view.states))
    if not since or began_seconds < min(since.values()) - SUSPENDED_SECONDS:
        return False
    if before is None or moved[-1].at_seconds - before.at_seconds < MIN_SECONDS:
        return False
    assert view.derived is not None  # noqa: S101 - the caller returned
    disks = view.derived.topology.leaves
    return not any(is_used(one, disks) for one in _lately(moved))


def _is_pool_syncing(name: str, view: View) -> bool:
    writes = view.inputs.snapshot.zfs_txgs
    if writes is None or not name.startswith(POOL):
        return False
    pool = writes.pools.get(name.removeprefix(POOL))
    return pool is not None and (pool.sync_seconds or 0.0) >= SYNC_SECONDS


def _busiest(
    before: Moved | None, moved: tuple[Moved, ...], disks: Collection[str]
) -> tuple[str, ...]:
    """Return the one disk that is in use while the others wait for it; () if there is none."""
    if before is None or moved[-1].at_seconds - before.at_seconds < MIN_SECONDS:
        return ()
    in_use = sorted((_utilization_ratio(before, moved[-1], name), name) for name in disks)
    if len(in_use) < 2 or in_use[-1][0] < BUSY_RATIO:
        return ()
    return (in_use[-1][1],) if in_use[-2][0] <= WAITING_RATIO * in_use[-1][0] else ()


def _has_memory_left(view: View) -> bool:
    """Whether programs can get memory without swapping; False if it is not known."""
    meminfo, available = view.inputs.snapshot.meminfo, view.inputs.snapshot.available_bytes
    if meminfo is None or available is None:
        return False
    return available >= MEMORY_LEFT_RATIO * meminfo.total_bytes


def _rates(before: Moved | None, moved: tuple[Moved, ...], name: str) -> dict[str, float]:
    """Return what a device did a second since a wait began, as limits count it; {}: not known yet.

    A limit counts each request of a program, also those that the kernel merges into one.
    """
    if before is None or moved[-1].at_seconds - before.at_seconds < IDLE_SECONDS:
        return {}
    first, last = before.blocks.get(name), moved[-1].blocks.get(name)
    if first is None or last is None:
        return {}
    elapsed = moved[-1].at_seconds - before.at_seconds
    grown = [later - earlier for earlier, later in zip(first.counters, last.counters, strict=True)]
    reads, merged_reads, read_sectors, _, writes, merged_writes, written_sectors, *_ = grown
    done = {
        "rbps": read_sectors * SECTOR_BYTES,
        "wbps": written_sectors * SECTOR_BYTES,
        "riops": reads + merged_reads,
        "wiops": writes + merged_writes,
    }
    return {rate: number / elapsed for rate, number in done.items()}


def _is_stuck(
    name: str, began_seconds: float, before: Moved | None, moved: tuple[Moved, ...], view: View
) -> bool:
    """Whether a disk answers others at once, and some requests not at all since a wait began.

    By Little's law those that completed explain few of those in flight. What was in flight before
    the wait began is another's: a queue that is always full, or a counter that leaked.
    """
    history = device.GROUP.state(view.states).leaves.snapshots
    leaf = history[-1].leaves.get(name) if history else None
    if before is None or leaf is None or not leaf.in_flight:  # without what has leaked
        return False
    overtakes = _discards_overtake(name, before, moved)
    busy_since = history[-1].at_seconds - leaf.busy_seconds
    if busy_since < began_seconds - STUCK_SLACK_SECONDS and not overtakes:
        return False
    elapsed = moved[-1].at_seconds - before.at_seconds
    first, last = before.blocks.get(name), moved[-1].blocks.get(name)
    if elapsed < MIN_SECONDS or first is None or last is None:
        return False
    during = [
        one.blocks[name]
        for one in moved
        if one.at_seconds >= before.at_seconds and name in one.blocks
    ]
    fewest = min(block.in_flight for block in during)
    completed = last.completed_total - first.completed_total
    took = (last.milliseconds_total - first.milliseconds_total) * _MILLISECOND
    is_enough = completed >= STUCK_MIN_REQUESTS or overtakes
    is_alive = is_enough and 0 < took <= STUCK_RATIO * fewest * elapsed
    return fewest > 0 and is_alive


def _discards_overtake(name: str, before: Moved | None, moved: tuple[Moved, ...]) -> bool:
    """Whether so many discards completed since a wait began that it is for none of them."""
    if before is None:
        return False
    during = [
        one.blocks[name]
        for one in moved
        if one.at_seconds >= before.at_seconds and name in one.blocks
    ]
    if len(during) < 2:
        return False
    most = max(block.in_flight for block in during)
    return guards.discards_overtake(during[0], during[-1], most)


def _is_discarding(name: str, view: View, *, is_hanging: bool) -> bool:
    """Whether a discard holds up what waits for a disk."""
    watch = device.GROUP.state(view.states)
    # Small discards all the time ('-o discard') hold nobody up: it is a long one, or a hang.
    has_guard = is_hanging and Guard.DISCARDING in watch.guards.get(name, ())
    return has_guard or name in watch.tasks.discards


def _starved(
    before: Moved | None,
    moved: tuple[Moved, ...],
    values: Mapping[tuple[str, str], float],
    view: View,
) -> tuple[set[str], set[str]]:
    """Return the disks that starve, and those that fill the queues of their adapters."""
    starved = {name for metric, name in values if metric == queue_depth.STARVED and name}
    dominant = {name for metric, name in values if metric == queue_depth.DOMINANT and name}
    if before is not None and moved[-1].at_seconds - before.at_seconds >= MIN_SECONDS:
        lately = queue_depth.starved_between(
            queue_depth.STARVED_GROUP.state(view.states),
            (before.at_seconds, before.blocks),
            (moved[-1].at_seconds, moved[-1].blocks),
        )
        starved, dominant = starved | lately[0], dominant | lately[1]
    return starved, dominant


def _synchronizing(
    values: Mapping[tuple[str, str], float], disks: Collection[str], topology: Topology
) -> tuple[str, ...]:
    """Return the arrays on these disks that are checked, rebuilt or reshaped."""
    arrays = [name for metric, name in values if metric == _SYNCHRONIZING]
    return _named(
        name
        for name in arrays
        if name in topology.devices and not leaves(name, topology).isdisjoint(disks)
    )


def _by_queue(disks: Iterable[str], moved: tuple[Moved, ...]) -> tuple[str, ...]:
    """Return disks by their requests in flight, the most first: a queue has one owner."""
    blocks = moved[-1].blocks if moved else {}
    in_flight = {name: blocks[name].in_flight if name in blocks else 0 for name in disks}
    return tuple(sorted(in_flight, key=lambda name: (-in_flight[name], name)))


def _utilization_ratio(before: Moved, after: Moved, name: str) -> float:
    """Return the share of the time between two moments in which a disk was in use."""
    first, last = before.blocks.get(name), after.blocks.get(name)
    if first is None or last is None:
        return 0.0
    busy = last.counters[_BUSY_MILLISECONDS] - first.counters[_BUSY_MILLISECONDS]
    return max(busy * _MILLISECOND / (after.at_seconds - before.at_seconds), 0.0)


def _is_idle(before: Moved | None, moved: tuple[Moved, ...], disks: Collection[str]) -> bool:
    """Whether these disks were hardly in use since a wait began, with nothing in flight.

    They wrote something: a limit above them lets a little through each second.
    """
    if before is None or moved[-1].at_seconds - before.at_seconds < IDLE_SECONDS:
        return False
    in_use = [_utilization_ratio(before, moved[-1], name) for name in disks]
    return (
        load.difference(before, moved[-1], disks)[1] > 0
        and 0.0 < max(in_use, default=0.0) < IDLE_RATIO  # 0: it is not counted
        and not is_any_used(before, moved, disks)
    )


def is_any_used(before: Moved | None, moved: tuple[Moved, ...], disks: Collection[str]) -> bool:
    """Whether one of these disks has had requests in flight since a wait began."""
    return before is not None and any(
        is_used(one, disks) for one in moved if one.at_seconds >= before.at_seconds
    )


def is_used(moment: Moved, disks: Collection[str]) -> bool:
    """Whether one of these disks had requests in flight at a moment."""
    return any(moment.blocks[name].in_flight for name in disks if name in moment.blocks)


def is_untouched(before: Moved | None, moved: tuple[Moved, ...], disks: Collection[str]) -> bool:
    """Whether these disks completed nothing lately, with nothing in flight, while tasks wait.

    Over the last part of the wait alone: it may have begun later than it is counted from.
    """
    if before is None or moved[-1].at_seconds - before.at_seconds < MIN_SECONDS:
        return False
    during = _lately(moved)
    counted = [[one.blocks[name] for one in during if name in one.blocks] for name in sorted(disks)]
    return any(counted) and not any(
        one.in_flight or one.completed_total != blocks[0].completed_total
        for blocks in counted
        for one in blocks
    )


def _lately(moved: tuple[Moved, ...]) -> list[Moved]:
    """Return the moments of the last MIN_SECONDS, which have to be there."""
    earlier = [one for one in moved if moved[-1].at_seconds - one.at_seconds >= MIN_SECONDS]
    return [one for one in moved if one.at_seconds >= earlier[-1].at_seconds]


def holding_requests(
    stack: Collection[str], before: Moved | None, moved: tuple[Moved, ...], topology: Topology
) -> tuple[str, ...]:
    """Return the lowest stacked devices that have requests in flight and pass none of them on.

    An encryption whose threads get no processor, a thin pool that is full, a cache or an array
    that waits for its metadata: nothing reaches the disks below. What is mirrored over the network
    (DRBD) may wait for its peer instead.
    """
    if before is None or moved[-1].at_seconds - before.at_seconds < MIN_SECONDS:
        return ()
    lately = _lately(moved)
    holding = set()
    for name in filter(_HOLDING.match, {*stack}.difference(topology.leaves)):
        blocks = [one.blocks[name] for one in lately if name in one.blocks]
        stands = bool(blocks) and all(
            block.in_flight and block.completed_total == blocks[0].completed_total
            for block in blocks
        )
        if stands and is_untouched(before, moved, leaves(name, topology)):
            holding.add(name)
    return _named(name for name in holding if holding.isdisjoint(members(topology, name) - {name}))


def is_at_limit(name: str, view: View) -> bool:
    """Whether a device, or one below it, is virtual and at its limit.

    A saturated disk in a steady copy has a steady rate as well; only one that a hypervisor
    provides is known to have a limit.
    """
    if view.derived is None or name not in view.derived.topology.devices:
        return False
    active = device.GROUP.state(view.states).guards
    limited = {
        value for _, labels, _ in view.earlier.get(at_limit.GROUP.name, ()) for _, value in labels
    }
    below = leaves(name, view.derived.topology)
    return any(Guard.VIRTUAL in active.get(one, ()) for one in below & limited)


def of_host_and_cause(cause: FreezeCause | None, view: View) -> frozenset[Guard]:
    """Return the guards of the host, and those that follow from why programs wait."""
    is_frozen = cause in {FreezeCause.FROZEN, FreezeCause.SUSPENDED}
    is_resumed = device.GROUP.state(view.states).device.is_resumed
    pairs = (Guard.FROZEN, is_frozen), (Guard.SUSPENDED_MACHINE, is_resumed)
    return guards.of_host(view.inputs).union(guard for guard, holds in pairs if holds)


LatestGuards = Mapping[tuple[str, Guard], float]
"""By object and guard: when a poll last found it, of guards that end with what they explain."""
_ENDING = (Guard.SPINNING_UP, Guard.WRITER_ONLY)
_PAUSING = frozenset({Guard.SPINNING_UP, Guard.REMOVABLE})
"""These permit the same pause to all programs."""


def next_guards(
    latest: LatestGuards, causes: Mapping[str, FreezeCause], oldest_seconds: float, view: View
) -> LatestGuards:
    """Return the guards that hold for the waits that began under them, the oldest at that time.

    `causes`: why programs wait now, by the device of the freeze.
    """
    now, active = view.inputs.now_seconds, device.GROUP.state(view.states).guards
    kept = {key: at for key, at in latest.items() if at > oldest_seconds}
    kept |= {(name, one): now for name, own in active.items() for one in _ENDING if one in own}
    for name, cause in causes.items():
        if Guard.FROZEN in of_host_and_cause(cause, view):
            kept[name, Guard.FROZEN] = now
    # An open has no device that is known: it may be for the only one that completes nothing.
    alone = device.stalled_alone(device.GROUP.state(view.states).device)
    if alone and all(active.get(name, NO_GUARD) & _PAUSING for name in alone):
        kept[HOST, Guard.SPINNING_UP] = now
    return kept


def earlier_permit(
    name: str,
    stack: frozenset[str],
    disks: tuple[str, ...],
    latest: LatestGuards,
    *,
    is_writer_alone: bool,
) -> Permit:
    """Return what guards that may have ended permit those who began to wait under them.

    `stack`: the device and what is below it; `disks`: those of them that are the cause.
    """
    own = [one for one in disks if one in stack]
    at_fault = own or stack
    of_disks = (Guard.SPINNING_UP, *((Guard.WRITER_ONLY,) if is_writer_alone else ()))
    until = [max(latest.get((one, guard), -math.inf) for guard in of_disks) for one in at_fault]
    # Of several disks that are the cause the one that is permitted least counts.
    at_disks = min(until) if own else max(until)
    at = max(at_disks, latest.get((name, Guard.FROZEN), -math.inf))
    return Permit(guards.MEANINGS[Guard.FROZEN].min_seconds, at) if at > -math.inf else NO_PERMIT


def guarded_seconds(
    stack: frozenset[str],
    cause: FreezeCause | None,
    disks: tuple[str, ...],
    view: View,
    *,
    is_writer_alone: bool = False,
) -> float:
    """Return the threshold of the guards of a device, 0 for an ordinary disk.

    `stack`: the device and what is below it; `disks`: those of them that are the cause. The guards
    of another one explain nothing then, and of several disks the one that is permitted least
    counts. `is_writer_alone`: only programs wait that are the cause themselves.
    """
    of_host = of_host_and_cause(cause, view)
    if Guard.BOOTING in of_host:
        return math.inf  # sixty services that start at once wait for each other's reads
    watch = device.GROUP.state(view.states)
    # Who waits behind a discard, or behind a writer, is harmed: the mail names it.
    behind = {Guard.DISCARDING, *(() if is_writer_alone else (Guard.WRITER_ONLY,))}
    active = {one: own - behind for one, own in watch.guards.items()}
    own_seconds = [guards.min_seconds(active.get(one, of_host)) for one in disks if one in stack]
    assert view.derived is not None  # noqa: S101 - the caller returned
    maps = stack.difference(view.derived.topology.leaves) if own_seconds else stack
    above = {guard for one in maps for guard in active.get(one, ())}
    return max(guards.min_seconds(of_host | above), min(own_seconds, default=0.0))


def _speed(
    before: Moved | None, moved: tuple[Moved, ...], stack: Collection[str], view: View
) -> float | None:
    """Return the bytes a second that a device has written since, without redundancy."""
    if before is None or view.derived is None:
        return None
    amplification = view.derived.amplification
    written = sum(
        load.difference(before, moved[-1], (leaf,))[1] / amplification.get(leaf, 1.0)
        for leaf in leaves_of(stack, view.derived.topology)
    )
    return written / (moved[-1].at_seconds - before.at_seconds)


def _named(disks: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(disks))


def slow_between(
    before: Moved, after: Moved, disks: Collection[str], topology: Topology
) -> set[str]:
    """Return the disks that were slow between two moments, completing something.

    Busy all the time with few bytes, and with few requests as well, or with such that take it five
    times as long as those of the same size take the other disks of its kind.
    """
    windows: dict[str, Window] = {}
    seconds = after.at_seconds - before.at_seconds
    for name in topology.leaves:
        earlier, later = before.blocks.get(name), after.blocks.get(name)
        if earlier is not None and later is not None and earlier.counters != later.counters:
            window = slow_windows.window(earlier, later, seconds)
            if window is not None and not window.discarding:
                windows[name] = window
    return {
        name
        for name in disks
        if (window := windows.get(name)) is not None
        and window.busy_ratio >= slow.IN_FLIGHT_RATIO
        and window.bytes <= slow.MAX_BYTES_PER_SECOND * seconds
        and (
            window.requests <= slow.MAX_REQUESTS_PER_SECOND * seconds
            or _is_slower_than_peers(name, windows, seconds, topology)
        )
    }


def _is_slower_than_peers(
    name: str, windows: dict[str, Window], seconds: float, topology: Topology
) -> bool:
    window, kind = windows[name], topology.devices[name].rotational
    size = window.bytes / window.requests
    peers = [
        _service_seconds(peer, seconds)
        for other, peer in windows.items()
        if other != name
        and topology.devices[other].rotational is kind
        and peer.requests >= slow_windows.MIN_REQUESTS
        and size <= slow_windows.SIZE_FACTOR * peer.bytes / peer.requests
    ]
    if not peers:
        return False
    longest = max(MIN_SERVICE_SECONDS, PEERS_RATIO * statistics.median(peers))
    return _service_seconds(window, seconds) >= longest


def _service_seconds(window: Window, seconds: float) -> float:
    """Return how much of its time a disk needs for a request, by the utilization law."""
    return window.busy_ratio * seconds / window.requests
