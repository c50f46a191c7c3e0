"""Which device or mount each task waits for, also where its call names none. Pure.

An open, a rename or a stat has no descriptor; another task that waits at the same time shows the
device. Units: none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.zfs.pool_state import POOL, pool_of
from iowarden.rules.signals.activity import members, stack_below
from iowarden.rules.signals.device import device, suspended
from iowarden.rules.signals.discards import Discarder, is_discard, placed
from iowarden.rules.signals.storage_call import (
    is_server,
    waits_for_server,
    waits_for_thaw,
    waits_in,
)
from iowarden.rules.signals.waits import device_facts, many_waits
from iowarden.rules.signals.waits.freeze_cause import (
    SYNC_SECONDS,
    FreezeCause,
    is_fault,
    waits_for_pool,
    waits_for_swap,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.procfs.tasks import BlockedTask
    from iowarden.rules.signals.signal import View
    from iowarden.rules.signals.waits.group import HarmState
    from iowarden.rules.signals.waits.load import Moved
    from iowarden.rules.signals.waits.waits import Wait

HOST = ""
"""The device of a wait whose file is on no device that is known."""
_ZFS = "zfs"
_FILE_SYSTEMS = {
    "bch2_": ("bcachefs",),
    "btrfs_": ("btrfs",),
    "ext2_": ("ext2",),
    "ext3_": ("ext3",),
    "ext4_": ("ext2", "ext3", "ext4"),  # one driver for all. Source: kernel, fs/ext4/super.c
    "f2fs_": ("f2fs",),
    "jfs_": ("jfs",),
    "nilfs_": ("nilfs2",),
    "reiserfs_": ("reiserfs",),
    "wait_current_trans": ("btrfs",),  # fs/btrfs/transaction.c
    "xfs_": ("xfs",),
    "xlog_": ("xfs",),
}
"""Types of file systems by prefixes of their functions, those that are on block devices."""
_PREFIXES = tuple(_FILE_SYSTEMS)
_BTRFS = ("btrfs_",)
_NO_DEVICE = "0:"
"""The major number of file systems without a device. Source: kernel, fs/super.c, get_anon_bdev."""


def waits_by_device(
    waits: Iterable[Wait], tasks: Iterable[BlockedTask], state: HarmState, view: View
) -> dict[str, list[Wait]]:
    """Return the waits of each device.

    An open or a rename waits without a file that is known; where tasks wait for one device only,
    it waits for that one: the holder of the lock behind it waits for the device itself. So does a
    thread of nfsd, which has no descriptor, if one journal or flusher waits: theirs is known. Else
    its stack may show the type of its file system, and one device may have all of that type.
    """
    assert view.derived is not None  # noqa: S101 - `_step` returned
    topology = view.derived.topology
    every = list(waits)
    sources = _sources(view) if any(_is_placeless(wait.task) for wait in every) else {}
    by_device: dict[str, list[Wait]] = {}
    for wait in every:
        name = device_of(_with_source(wait.task, sources), topology)
        by_device.setdefault(name, []).append(wait)
    placeless = by_device.pop(HOST, [])
    on_servers = [wait for wait in placeless if waits_for_server(wait.task)]
    if on_servers:
        by_device.setdefault(_only_server(by_device, state, view), []).extend(on_servers)
        placeless = [wait for wait in placeless if not waits_for_server(wait.task)]
    of_pools = [wait for wait in placeless if waits_for_pool(wait.task)]
    if of_pools and (pool := _only_pool(by_device, topology, view)):
        by_device.setdefault(pool, []).extend(of_pools)
        placeless = [wait for wait in placeless if wait not in of_pools]
    discards_at = device.GROUP.state(view.states).tasks.discards_at
    tasks = placed(tasks, topology, discards_at)
    for wait in placeless if discards_at else ():
        if is_discard(wait.task):
            by_device.setdefault(discards_at, []).append(wait)
    if discards_at:
        placeless = [wait for wait in placeless if not is_discard(wait.task)]
    of_memory = [wait for wait in placeless if _is_for_memory(wait, state, view)]
    if of_memory:
        by_device.setdefault(_swap_device(by_device, view, topology), []).extend(of_memory)
        placeless = [wait for wait in placeless if wait not in of_memory]
    for is_frozen in (False, True):
        waits_alike = [w for w in placeless if waits_for_thaw(w.task) is is_frozen]
        if waits_alike:
            name = _only_device(by_device, tasks, state, topology, is_frozen=is_frozen)
            for wait in waits_alike:
                where = (
                    name
                    or _suspended_device(wait, state.moved, view, topology)
                    or _only_of_type(wait.task, view, topology)
                )
                by_device.setdefault(where, []).append(wait)
    return by_device


def _only_pool(by_device: Iterable[str], topology: Topology, view: View) -> str:
    """Return the one pool that a call without a file can be for; '' if it is not certain.

    The only one that others wait for, else the only one that has been writing a transaction group
    for long, else the only one of the host.
    """
    txgs = view.inputs.snapshot.zfs_txgs
    syncing = [
        name
        for name, pool in ({} if txgs is None else txgs.pools).items()
        if (pool.sync_seconds or 0.0) >= SYNC_SECONDS
    ]
    for candidates in (
        [name for name in by_device if name.startswith(POOL)],
        [POOL + name for name in syncing],
        [POOL + name for name in topology.pools],
    ):
        if candidates:
            return candidates[0] if len(candidates) == 1 else ""
    return ""


def stacks(by_device: Mapping[str, list[Wait]], view: View) -> dict[str, frozenset[str]]:
    """Return for each device that tasks wait for what is below it, and itself.

    A file of btrfs is on all of its devices, and the mount table names one. Where the kernel lists
    them nowhere (before 3.14), the one on which btrfs discards is one of them, if nothing else is
    known to be. Source: kernel, fs/btrfs/sysfs.c, btrfs_sysfs_add_device.
    """
    assert view.derived is not None  # noqa: S101 - the caller returned
    topology = view.derived.topology
    discarders = device.GROUP.state(view.states).tasks.discards
    of_btrfs = {name for name, what in discarders.items() if what is Discarder.BTRFS}
    is_named = not any(_is_placeless(w.task) for waits in by_device.values() for w in waits)
    sources = {} if is_named else _sources(view)
    found = {}
    for name, waits in by_device.items():
        targets = {_with_source(wait.task, sources).waits_at for wait in waits}
        below = (stack_below(topology, each) for each in targets if each)
        own = device_facts.stack_of(name, topology).union(*below)
        is_disk = name in topology.devices and not topology.btrfs
        if is_disk and any(waits_in(wait.task, _BTRFS) for wait in waits):
            own |= of_btrfs
        found[name] = own
    return found


def _with_source(task: BlockedTask, sources: Mapping[str, str]) -> BlockedTask:
    """Return a task with what its file system is mounted from, where only the mount shows that."""
    if not _is_placeless(task):
        return task
    source = sources.get(task.mount) or sources.get(task.waits_at, "")
    return replace(task, waits_at=source) if source else task


def _is_for_memory(wait: Wait, state: HarmState, view: View) -> bool:
    """Whether a page fault waits for swapped memory, which comes and goes meanwhile.

    If nothing is swapped in or out, it may be the disk that does not answer.
    """
    if not (is_fault(wait.task) and waits_for_swap(wait.task)):
        return False
    swapped = many_waits.swapped_bytes(view.inputs.snapshot.vmstat)
    return many_waits.is_swapping(state.many, view.inputs.now_seconds, swapped)


def _swap_device(by_device: Iterable[str], view: View, topology: Topology) -> str:
    """Return the one device that others wait for and that swap is on, else HOST.

    They wait because of the storm as well: it is one freeze.
    """
    found = [
        name
        for name in by_device
        if name in topology.devices
        and device_facts.carries_swap(device_facts.leaves(name, topology), view, topology)
    ]
    return found[0] if len(found) == 1 else HOST


def _suspended_device(wait: Wait, moved: tuple[Moved, ...], view: View, topology: Topology) -> str:
    """Return the one device of device-mapper that was suspended when a wait began, else HOST.

    Nothing is in flight on any disk then, and no other device is known that it could be for: a
    disk that has requests may be what it waits for, also the one below, of which another volume is
    in use. Several of one stack are one: the origin of a snapshot and what is below it, the volumes
    above a pvmove. Who waits for a page waits for memory.
    """
    since = suspended.since_seconds(suspended.GROUP.state(view.states))
    if not since or is_fault(wait.task):
        return HOST
    # What was in flight before was completed by the suspend.
    both = max(wait.not_before_seconds, min(since.values()))
    during = (one for one in moved if one.at_seconds >= both)
    if any(device_facts.is_used(one, topology.leaves) for one in during):
        return HOST
    below = {name: members(topology, name) | {name} for name in sorted(since)}
    above_all = [name for name in below if below[name] >= since.keys()]
    below_all = [name for name in below if all(name in each for each in below.values())]
    name = next(iter([*above_all, *below_all]), HOST)
    began = min(since.values()) - device_facts.SUSPENDED_SECONDS
    return name if wait.not_before_seconds >= began else HOST


def _only_of_type(task: BlockedTask, view: View, topology: Topology) -> str:
    """Return the one device with a file system of the type that a task waits in, else HOST.

    An open or a rename that waits for the journal has functions of the file system in its stack,
    and no file that is known. Limits: what only a container has mounted is not counted.
    """
    mounts = view.inputs.snapshot.mounts
    function = next((name for name in task.stack if name.startswith(_PREFIXES)), "")
    if mounts is None or not function:
        return HOST
    kinds = next(_FILE_SYSTEMS[prefix] for prefix in _PREFIXES if function.startswith(prefix))
    found = set()
    for mount in mounts.mounts:
        if mount.kind in kinds:
            # btrfs has a number that belongs to no device.
            has_device = not mount.device_number.startswith(_NO_DEVICE)
            whole = topology.whole(mount.device_number if has_device else mount.source)
            found.add(HOST if whole is None else whole.name)
    return found.pop() if len(found) == 1 else HOST


def _only_server(by_device: Iterable[str], state: HarmState, view: View) -> str:
    """Return the one mount of a server that a stat or an open can wait for; HOST if not certain.

    Where others wait for several mounts of one server, it is one of them. If none waits yet, it is
    the one of the last freezes, or the only one of the host.
    """
    frozen = (name for name, freezes in state.devices.items() if freezes.series)
    for candidates in (by_device, frozen, _sources(view).values()):
        mounts = sorted({name for name in candidates if is_server(name)})
        servers = {name.rpartition(":")[0] or name.split("/")[2] for name in mounts}
        if mounts:
            return mounts[0] if len(servers) == 1 else HOST
    return HOST


def _only_device(
    by_device: Mapping[str, list[Wait]],
    tasks: Iterable[BlockedTask],
    state: HarmState,
    topology: Topology,
    *,
    is_frozen: bool,
) -> str:
    """Return the one device that waits without a file can be for; HOST if it is not certain.

    Who waits for a thaw waits for no disk: only for the file system that others wait to be thawed.
    """
    known = {
        name
        for name, waits in by_device.items()
        if name != HOST and (not is_frozen or any(waits_for_thaw(wait.task) for wait in waits))
    }
    known = {name for name in known if not is_server(name)} or known
    if not known and not is_frozen:
        known = {device_of(task, topology) for task in tasks if task.kernel} - {HOST}
    if not known:
        known = {
            name
            for name, freezes in state.devices.items()
            if name and freezes.series
            if not is_frozen or state.causes.get(name) is FreezeCause.FROZEN
        }
    return known.pop() if len(known) == 1 else HOST


def _sources(view: View) -> dict[str, str]:
    """Return from where file systems are mounted ('nas:/home'), by mount point and by number.

    A network mount, and btrfs, have a number that belongs to no device ('0:52'). What is mounted
    from a ZFS pool is the pool: all of its datasets wait for the same transaction group.
    """
    mounts = view.inputs.snapshot.mounts
    known = () if mounts is None else mounts.mounts
    sources = {
        mount: pool_of(mount.source) if mount.kind == _ZFS else mount.source
        for mount in known
        if mount.kind == _ZFS or "/" in mount.source
    }
    numbers = {mount.device_number: source for mount, source in sources.items()}
    return numbers | {mount.mount_point: source for mount, source in sources.items()}


def _is_placeless(task: BlockedTask) -> bool:
    """Whether only the mount shows what a task waits for."""
    has_mount = bool(task.mount) and not task.waits_at
    return has_mount or task.waits_at.startswith(_NO_DEVICE)


def device_of(task: BlockedTask, topology: Topology) -> str:
    """Return the whole device of a task's file, its pool, the server of a mount, or HOST."""
    if not task.waits_at:
        return HOST
    whole = topology.whole(task.waits_at)
    if whole is None:
        return task.waits_at
    volume = topology.zvols.get(whole.name)
    return whole.name if volume is None else pool_of(volume)
