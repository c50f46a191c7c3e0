"""What each layer does when a layer below it fails: facts with delays, from the kernel's sources.

Beside each behaviour stands where the kernel does it. 'checked' was read there; 'unchecked' was
not: such a delay is an assumption. Units: seconds of the world's clock.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from support.world.machine import Layer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    from support.world.machine import Machine, Node

FOREVER = math.inf
COMMAND_SECONDS = 30.0
"""Time-out of a command of a disk. drivers/scsi/sd.h, SD_TIMEOUT: checked."""
SETTLE_SECONDS = 10.0
"""After a reset of bus or host. drivers/scsi/scsi_error.c, HOST_RESET_SETTLE_TIME: checked."""
HUNG_SECONDS = 120.0
"""kernel/hung_task.c, watchdog: it looks once per time-out, so that a task is reported when it has
waited for one to two of them: checked. The default of 120 s is lib/Kconfig.debug's: unchecked."""
COMMIT_SECONDS = 5.0
"""include/linux/jbd2.h, JBD2_DEFAULT_MAX_COMMIT_AGE: checked."""
HALF_NOTICED_SECONDS = 6.0
"""By then half of the faults of adapters are noticed."""
EXPIRE_SECONDS = 35.0
"""mm/page-writeback.c: dirty_expire_interval and dirty_writeback_interval, 30 and 5 s: checked."""
GIVE_UP_SECONDS = {"iscsi": 120.0, "fc": 60.0}
"""open-iscsi's replacement_timeout; scsi_transport_fc.c, dev_loss_tmo: unchecked."""


class Kind(enum.StrEnum):
    """What is wrong with an object, or what else shows because of it."""

    GONE = "gone"
    FAILED = "failed"
    HANGS = "hangs"
    SLOW = "slow"
    STOPPED = "stopped"
    EXHAUSTED = "no redundancy left"
    DEGRADED = "degraded"
    ERRORS = "errors"
    LOST = "data lost"
    READ_ONLY = "read-only"
    FULL = "full"
    SUSPENDED = "suspended"
    DROPPED = "session lost"
    MARKED = "marked faulty"
    UNPROTECTED = "unprotected"
    RESETS = "resets"
    STALL = "write stall"
    HUNG = "hung tasks"
    UNREADABLE = "SMART not readable"
    LESSER = "notice"


SYMPTOMS = frozenset((Kind.RESETS, Kind.STALL, Kind.HUNG, Kind.UNREADABLE))
SPREADS = frozenset((Kind.GONE, Kind.FAILED, Kind.HANGS))
"""Three disks with one of these have their parent in common."""
TOGETHER_SECONDS = 60.0
"""If they began within that time."""


class By(enum.StrEnum):
    """How a fact becomes visible: at once, or when something is polled."""

    LINE = "line"
    STATE = "state"
    COUNTER = "counter"
    POLL = "poll"


@dataclass(frozen=True)
class Fact:
    """One thing that is wrong, for as long as it is.

    Fields: `of` are the numbers of the injected faults that brought it; a line is only a moment,
    but what it says lasts until `until`; `value` is how many members or errors.
    """

    at: float
    until: float
    object: str
    kind: Kind
    by: By
    of: frozenset[int]
    value: float = 1.0


def together(facts: Iterable[Fact], disks: Iterable[str]) -> list[str]:
    """Return the disks that began to fail within a minute of each other."""
    able = set(disks)
    began: dict[str, float] = {}
    for fact in facts:
        if fact.object in able and fact.kind in SPREADS:
            began[fact.object] = min(began.get(fact.object, math.inf), fact.at)
    groups = [
        [name for name, at in began.items() if first <= at <= first + TOGETHER_SECONDS]
        for first in began.values()
    ]
    return max(groups, key=len, default=[])


@dataclass(frozen=True)
class Loss:
    """An object that answers no request, or refuses each, from `at` until it is back.

    `is_listed`: the kernel goes on to show it, so that its array lists it as faulty.
    """

    object: str
    at: float
    back: float
    of: frozenset[int]
    is_listed: bool = False


@dataclass
class World:
    """A machine during one run: what was lost when, and what shows of it."""

    machine: Machine
    random: Random
    facts: list[Fact] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)

    def show(
        self,
        name: str,
        kind: Kind,
        by: By,
        span: tuple[float, float],
        of: frozenset[int],
        value: float = 1.0,
    ) -> None:
        """Add a fact."""
        if span[1] > span[0]:
            self.facts.append(Fact(*span, name, kind, by, of, value))

    def lose(
        self, name: str, at: float, back: float, of: frozenset[int], *, is_listed: bool = False
    ) -> None:
        """Let an object be lost for what stands on it."""
        self.losses.append(Loss(name, at, back, of, is_listed))

    def between(self, low: float, high: float) -> float:
        """Return a random time."""
        return self.random.uniform(low, high)


# Disks


def hang(world: World, name: str, at: float, length: float, of: frozenset[int]) -> None:
    """A disk stops answering: its requests stand.

    After the time-out of a command the driver aborts it, and from then on the whole SCSI host
    waits. drivers/scsi/scsi_error.c: scsi_eh_scmd_add sets SHOST_RECOVERY and
    scsi_block_when_processing_errors waits for its end: checked. mpt3sas_scsih.c, scsih_abort:
    unchecked.
    """
    world.show(name, Kind.HANGS, By.COUNTER, (at, at + length), of)
    waits(world, (at, at + length), of)
    if length > COMMAND_SECONDS and world.machine.adapter_of(name):
        world.show(name, Kind.RESETS, By.LINE, (at + COMMAND_SECONDS, at + length), of)
        handled = min(length - COMMAND_SECONDS, world.between(SETTLE_SECONDS, 60.0))
        _neighbours(world, name, at + COMMAND_SECONDS, handled, of)


def _neighbours(world: World, name: str, at: float, length: float, of: frozenset[int]) -> None:
    """The disks of the same SCSI host wait while it handles an error."""
    host = world.machine.adapter_of(name)
    for other in world.machine.disks_of(host) if host else ():
        busy = world.machine.nodes[other].visible and world.random.random() < 0.7
        if other != name and busy:
            start = world.between(0.0, 2.0)
            world.show(other, Kind.HANGS, By.COUNTER, (at + start, at + length), of)


def offlined(world: World, name: str, at: float, back: float, of: frozenset[int]) -> None:
    """A disk hangs, its error handling fails, it is set offline: each request fails from then on.

    drivers/scsi/scsi_error.c, scsi_eh_offline_sdevs, after abort, device, target, bus and host
    reset: order unchecked.
    """
    until = at + COMMAND_SECONDS + world.between(2 * SETTLE_SECONDS, 90.0)
    hang(world, name, at, until - at, of)
    world.show(name, Kind.FAILED, By.LINE, (until, back), of)
    world.show(name, Kind.FAILED, By.STATE, (until, back), of)
    world.lose(name, until, back, of, is_listed=True)


def refused(world: World, name: str, at: float, back: float, of: frozenset[int]) -> None:
    """A member refuses a write: its array gives it up, and nothing else shows of the disk.

    drivers/md/raid1.c, raid1_end_write_request; raid5.c, raid5_end_write_request: unchecked. So
    does 'mdadm --fail'.
    """
    world.lose(name, at, back, of, is_listed=True)


def pulled(world: World, name: str, at: float, back: float, of: frozenset[int]) -> None:
    """A disk disappears at once: from /sys too.

    drivers/scsi/mpt3sas/mpt3sas_scsih.c, _scsih_device_remove_by_handle ('removing handle'):
    unchecked.
    """
    world.show(name, Kind.GONE, By.STATE, (at, back), of)
    world.lose(name, at, back, of)


def link(world: World, name: str, at: float, back: float, of: frozenset[int]) -> None:
    """A SATA link is lost: resets for some time, then the disk is disabled and detached.

    drivers/ata/libata-eh.c, ata_eh_reset_timeouts: 10, 10, 35 and 5 s: checked.
    """
    end = at + world.between(15.0, 60.0)
    world.show(name, Kind.HANGS, By.COUNTER, (at, end), of)
    world.show(name, Kind.RESETS, By.LINE, (at + world.between(0.0, 5.0), end), of)
    pulled(world, name, end, back, of)


def nvme(world: World, name: str, at: float, back: float, of: frozenset[int]) -> None:
    """Commands of an NVMe disk time out, its controller is reset, which fails: it is removed.

    drivers/nvme/host/core.c, nvme_io_timeout, 30 s: checked. pci.c, nvme_timeout and
    nvme_reset_work: unchecked.
    """
    timeout = at + COMMAND_SECONDS
    dead = timeout + world.between(5.0, 60.0)
    world.show(name, Kind.HANGS, By.COUNTER, (at, dead), of)
    world.show(name, Kind.RESETS, By.LINE, (timeout, dead), of)
    world.show(name, Kind.FAILED, By.LINE, (dead, back), of)
    pulled(world, name, dead + 1.0, back, of)


def medium(world: World, name: str, at: float, length: float, of: frozenset[int]) -> None:
    """Sectors cannot be read: lines of the kernel, later a count by SMART; it never ends.

    A member of md is read elsewhere and the sector is rewritten: drivers/md/raid1.c,
    fix_read_error; raid5.c, raid5_end_read_request: unchecked.
    """
    when = at
    while when <= at + length:
        world.show(name, Kind.ERRORS, By.LINE, (when, FOREVER), of)
        when += world.between(1.0, 1200.0)
    world.show(name, Kind.ERRORS, By.POLL, (at, FOREVER), of, 1 + world.random.randint(0, 40))


def slow(world: World, name: str, at: float, length: float, of: frozenset[int]) -> None:
    """A disk answers ten times as late as its neighbours."""
    world.show(name, Kind.SLOW, By.COUNTER, (at, at + length), of)


def waits(world: World, span: tuple[float, float], of: frozenset[int]) -> None:
    """Programs wait: a write stall, and hung tasks after one to two time-outs of that check."""
    start, end = span
    if end - start > 10.0 and world.random.random() < 0.4:
        world.show("host", Kind.STALL, By.COUNTER, (start, end), of)
    reported = start + world.between(HUNG_SECONDS, 2 * HUNG_SECONDS)
    if reported < end:
        world.show("host", Kind.HUNG, By.LINE, (reported, end), of)


# What many disks share


def adapter_faults(world: World, host: str, span: tuple[float, float], of: frozenset[int]) -> None:
    """The firmware of an adapter stops: all disks wait; it is reset and goes on, or they leave.

    drivers/scsi/mpt3sas/mpt3sas_base.c, FAULT_POLLING_INTERVAL, once a second: checked. That it
    faulted is printed before it is reset, 'fault_state': checked.
    _base_fault_reset_work, mpt3sas_base_hard_reset_handler; if that fails the disks are removed:
    unchecked.
    """
    at, back = span
    disks = [name for name in world.machine.disks_of(host) if world.machine.nodes[name].visible]
    noticed = at + world.between(0.5, 12.0)
    reset = noticed + world.between(5.0, 60.0)
    for disk in disks:
        if world.random.random() < 0.9:
            world.show(disk, Kind.HANGS, By.COUNTER, (at + world.between(0.0, 1.0), reset), of)
    waits(world, (at, reset), of)
    if world.random.random() < 0.5:
        if noticed - at < HALF_NOTICED_SECONDS:  # by that work, not by commands that time out
            world.show(host, Kind.FAILED, By.LINE, (noticed, reset), of)
        world.show(host, Kind.RESETS, By.LINE, (noticed, reset), of)
        return
    world.show(host, Kind.FAILED, By.LINE, (noticed, back), of)
    for disk in disks:
        pulled(world, disk, reset + world.between(0.0, 2.0), back, of)


def shelf_leaves(world: World, name: str, span: tuple[float, float], of: frozenset[int]) -> None:
    """A shelf or its expander leaves: all disks within a second, or one after the other.

    drivers/scsi/mpt3sas/mpt3sas_scsih.c, _scsih_expander_node_remove; the driver first waits for
    each to come back: unchecked.
    """
    at, back = span
    disks = world.machine.disks_of(name)
    world.random.shuffle(disks)
    when, step = at, 0.0 if world.random.random() < 0.5 else world.between(1.0, 15.0)
    for disk in disks:
        pulled(world, disk, when + world.between(0.0, 0.9), back, of)
        when += step


def session_lost(world: World, host: str, span: tuple[float, float], of: frozenset[int]) -> None:
    """A session to a storage server is lost, and given up after its time.

    drivers/scsi/scsi_transport_iscsi.c, session_recovery_timedout; scsi_transport_fc.c,
    fc_timeout_deleted_rport: unchecked. Each path fails for its map at the first request that is
    refused: drivers/md/dm-mpath.c, fail_path: unchecked.
    """
    at, back = span
    role = world.machine.nodes[host].role
    given_up = at + GIVE_UP_SECONDS[role]
    if given_up < back:
        world.show(host, Kind.DROPPED, By.LINE, (given_up, back), of)
    for path in world.machine.direct(host):
        world.lose(path, at + world.between(5.0, 20.0), back, of)


def fabric_lost(world: World, role: str, span: tuple[float, float], of: frozenset[int]) -> None:
    """All sessions of a storage network are lost within a second."""
    for host in world.machine.of_role(role):
        session_lost(world, host, span, of)


# What stands on them


def climb(world: World) -> None:
    """Let what was lost take its effect on what stands on it, layer by layer."""
    order = sorted(world.machine.nodes.values(), key=lambda node: (node.layer, node.name))
    for node in order:
        if node.layer >= Layer.VOLUME and node.carriers:
            _suffer(world, node)


def _suffer(world: World, node: Node) -> None:
    losses = [loss for loss in world.losses if loss.object in node.carriers]
    if not losses:
        return
    if node.role in {"raid1", "raid5", "raid6", "raid10", "volume", "map"}:
        _lose_members(world, node, losses)
    elif node.layer is Layer.MAPPED:
        for loss in losses:
            world.lose(node.name, loss.at, loss.back, loss.of)
    elif node.layer is Layer.FILE_SYSTEM:
        _file_system(world, node, losses)


def _noticed(world: World, node: Node, loss: Loss) -> float:
    """Return when an array notices a lost member: with the next request to it.

    drivers/md/md.c, super_written and md_error; raid5.c, raid5_error: the latter checked. A
    controller and a map know it at once.
    """
    return loss.at + (world.between(0.1, 5.0) if node.layer is Layer.ARRAY else 0.1)


def _added(world: World, node: Node, loss: Loss) -> float:
    """Return when a member that was lost is in the array again: paths at once; else by hand."""
    if loss.back == FOREVER or node.role == "map":
        return loss.back + (world.between(1.0, 10.0) if node.role == "map" else 0.0)
    return loss.back + world.between(300.0, 3600.0)


@dataclass(frozen=True)
class _Gap:
    """A place of an array that holds no data: of which lost disk, from when until when.

    Of a disk that is `listed` until then the array shows that it is faulty.
    """

    place: str
    disk: str
    start: float
    end: float
    listed: float
    of: frozenset[int]


def _gaps(world: World, node: Node, losses: list[Loss]) -> list[_Gap]:
    """Return the places of an array that held no data.

    A spare takes the place of a member at once: drivers/md/md.c, remove_and_add_spares: unchecked.
    """
    holders = {name: name for name in node.places}
    idle = list(node.idle)
    gaps = []
    for loss in sorted(losses, key=lambda loss: loss.at) if node.idle else losses:
        place = next((place for place, disk in holders.items() if disk == loss.object), "")
        start, added = _noticed(world, node, loss), _added(world, node, loss)
        is_at_once = added == FOREVER or node.role == "map"
        end = added if is_at_once else added + world.between(1800.0, 14400.0)
        idle = [name for name in idle if name != loss.object]
        if place and idle:
            holders[place] = idle.pop(0)
            end = min(end, start + node.rebuild_seconds)
        if place:
            listed = added if loss.is_listed else start
            gaps.append(_Gap(place, loss.object, start, end, listed, loss.of))
    return gaps


def _lose_members(world: World, node: Node, losses: list[Loss]) -> None:
    gaps = _gaps(world, node, losses)
    polled = By.POLL if node.role == "volume" else By.STATE
    times = sorted({at for gap in gaps for at in (gap.start, gap.end)})
    for at, until in zip(times, (*times[1:], FOREVER), strict=True):
        there = [gap for gap in gaps if gap.start <= at < gap.end]
        out = {gap.place for gap in there}
        of = frozenset[int]().union(*(gap.of for gap in there))
        if at == FOREVER or not out:
            continue
        if node.role in {"raid1", "raid5", "raid6", "raid10"}:
            _mark(world, [gap for gap in there if gap.start == at])
        if _stops(node, out):
            _stop(world, node, at, until, of)
            if node.role == "map":
                continue
            return
        is_left = node.spare > len(out) or node.role == "map"
        kind = Kind.DEGRADED if is_left else Kind.EXHAUSTED
        world.show(node.name, kind, polled, (at, until), of, len(out))


def _mark(world: World, gaps: list[_Gap]) -> None:
    """An array gives up a member: a line, and its state until somebody removes it.

    drivers/md/raid5.c, raid5_error, 'Disk failure on %pg': checked; md.c, state_show, 'faulty':
    unchecked. Of a disk that is removed from the host udev removes it from the array as well: mdadm
    --incremental --fail: unchecked.
    """
    for gap in gaps:
        # Once the disk is no member any more, or one again, its line is as old as its state.
        end = gap.listed if gap.listed > gap.start else gap.end
        world.show(gap.disk, Kind.MARKED, By.LINE, (gap.start, end), gap.of)
        world.show(gap.disk, Kind.MARKED, By.STATE, (gap.start, gap.listed), gap.of)


def _stops(node: Node, out: set[str]) -> bool:
    if node.paired:
        pairs = zip(node.places[::2], node.places[1::2], strict=True)
        return any({one, other} <= out for one, other in pairs)
    return len(out) > node.spare


def _stop(world: World, node: Node, at: float, back: float, of: frozenset[int]) -> None:
    """Too many members: MD_BROKEN, 'Cannot continue operation'. raid5.c, raid5_error: checked.

    A map without paths queues or refuses: dm-mpath.c, must_push_back_bio: unchecked. An array does
    not come back by itself.
    """
    end = back if node.role == "map" else FOREVER
    by = By.POLL if node.role == "volume" else By.STATE
    world.show(node.name, Kind.STOPPED, by, (at, end), of)
    if node.role != "map":
        world.show(node.name, Kind.EXHAUSTED, by, (at, end), of)
    if node.role == "map" and world.random.random() < 0.5:
        world.show(node.name, Kind.HANGS, By.COUNTER, (at, end), of)
        waits(world, (at, end), of)
        return
    world.lose(node.name, at, end, of)


def _file_system(world: World, node: Node, losses: list[Loss]) -> None:
    """Its device refuses requests: the journal is aborted with the next commit.

    fs/jbd2/journal.c, jbd2_journal_abort; fs/ext4/super.c, ext4_handle_error: since 6.12 a flag,
    /proc/mounts still says rw; fs/xfs, xfs_do_force_shutdown: unchecked. What was not written is
    lost: fs/buffer.c, buffer_io_error 'lost async page write': unchecked.
    """
    lost = {loss.object for loss in losses}
    first = min(losses, key=lambda loss: loss.at)
    of = frozenset[int]().union(*(loss.of for loss in losses))
    if node.spare and len(lost) <= node.spare:  # btrfs raid1 goes on with the other copy
        at = first.at + world.between(0.5, EXPIRE_SECONDS)
        world.show(node.name, Kind.ERRORS, By.STATE, (at, FOREVER), of)
        return
    start = max(first.at, min(loss.at for loss in losses))
    if node.spare:
        start = sorted(loss.at for loss in losses)[node.spare]
    at = start + world.between(0.2, COMMIT_SECONDS + 1.0)
    world.show(node.name, Kind.FAILED, By.LINE, (at, FOREVER), of)
    if node.role == "ext4" and world.random.random() < 0.3:
        world.show(node.name, Kind.READ_ONLY, By.STATE, (at + 1.0, FOREVER), of)
    if world.random.random() < 0.5:
        late = start + world.between(1.0, EXPIRE_SECONDS)
        world.show(node.name, Kind.LOST, By.LINE, (late, FOREVER), of)
