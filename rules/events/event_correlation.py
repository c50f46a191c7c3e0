"""Event correlation: group events of all data sources into bursts, each at its disk. Pure.

Events of one kind on one object are a burst. Its meaning is in the event table, its location is
found by the slot map and the topology. Events are deduplicated: one that is in the kernel log and
in a controller's log counts once.
Events of the first read are the baseline: those of the last day are in the initial report, older
ones are only stored.
Units: seconds of the program's clock; times of events are by their data source's clock, or Unix.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.event import StorageEvent
from iowarden.collectors.kmsg import kernel_btrfs
from iowarden.collectors.kmsg.kernel_kinds import UNRECOGNIZED
from iowarden.rules import faults
from iowarden.rules.conditions.condition import Condition
from iowarden.rules.events import btrfs_repairs, controller_clock, event_table, hung
from iowarden.rules.events.controller_clock import ControllerClock, estimated
from iowarden.rules.events.event_counters import MAX_DISKS, MEDIUM
from iowarden.rules.events.event_state import (
    AMID_SECONDS,
    DAY_SECONDS,
    GAPS,
    KICKED,
    OWN,
    CorrelationState,
    EventBatch,
    EventGroup,
    EventUpdate,
    line_shape,
)
from iowarden.rules.events.event_table import BLAME_SECONDS, WINDOW_SECONDS
from iowarden.rules.faults import Fault, Layer
from iowarden.rules.severity import Severity
from iowarden.rules.topology.device_identity import ADAPTER, Identity
from iowarden.rules.topology.event_location import place, remember, smartctl_command
from iowarden.rules.topology.slot_map import DeviceMap, EventPlace
from iowarden.rules.topology.stack import FILE_SYSTEM
from iowarden.rules.topology.topology import dependents_of, file_system, paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iowarden.rules.events.event_table import EventRule, EventTable
    from iowarden.rules.topology.topology import Dependents

ZONE_SECONDS = 14 * 3600.0
"""Largest offset from UTC of a controller's clock that has not been compared yet."""
ERRORS_SECONDS = DAY_SECONDS + ZONE_SECONDS
"""Older errors of the kernel log are not compared with a controller's."""
SHARED_SECONDS = 60.0
"""Within this time of a fault of the controller, its errors of disks are that fault."""
MAX_GROUPS = 400
MAX_RECENT = 100
ALL_PATHS_SECONDS = 10.0
"""Requests that fail on all paths of a map within this time are lost, or wait."""
_FAILED_REQUESTS = frozenset({"block_io_error", "block_transport_error", "buffer_io_error"})
MAX_PLACES = 16
MAX_TIMES = controller_clock.MAX_TIMES
STORED_EVENTS = 10
"""So many events of a burst are stored each; after that, each power of ten."""
NAMELESS = frozenset({"dm_pool_full", "dm_snapshot_invalid", "md_super_error"})
"""Events whose lines may name no device. Source: Linux 6.1, drivers/md/md.c, super_written;
drivers/md/dm-snap.c, __invalidate_snapshot;
drivers/md/persistent-data/dm-space-map-metadata.c, sm_metadata_new_block.
"""
FULL = frozenset({"fs_no_space", "fs_stopped_full"})
"""Events of a full file system, not of the disk below it."""
OF_DEVICE = frozenset({"buffer_io_error", "swap_read_error", "swap_write_error"})
"""Events of a device, whatever is on it: swap, or a program that reads it."""
NEIGHBOUR_SECONDS = 1.0
"""How long such a line waits for the next line, which names array and member."""
SAME_LINE_SECONDS = 60.0
"""Within this time the same unrecognized line of another object is one event with it."""
_OTHERS = " and others"
AT_BOOT_SECONDS = 1800.0
"""A controller starts minutes before the kernel, and its log is polled minutes later."""
_PATH_CONDITIONS = frozenset({Condition.COMMAND_TIMEOUT, Condition.DEVICE_UNAVAILABLE})
_PATH_KINDS = frozenset(
    (
        "block_io_error",
        "block_transport_error",
        "buffer_io_error",
        "connection_error",
        "hba_abort",
        "scsi_aborted_command",
        "scsi_link_error",
    )
)
"""Events of a failed connection to a disk, or of a disk that does not respond; with them all rows
of the conditions command_timeout and device_unavailable. A multipath map sends the request over
another path if it has one, and its rules alert on the paths that are left."""
_BACKED = re.compile(r"(?:loop|nbd|zram)[0-9]", re.ASCII)
"""Devices backed by a file, a network or memory: they matter only if something is on them."""
KINDS = {
    "controller_clock_moved": "a controller's clock was set, or changed for daylight saving time",
    hung.OWN_EVENT: "a line of the kernel log about a hung task of iowarden itself",
    **btrfs_repairs.KINDS,
}
"""Events that are derived here."""


def correlate(
    state: CorrelationState, batch: EventBatch, known: DeviceMap, table: EventTable
) -> tuple[CorrelationState, tuple[EventUpdate, ...]]:
    """Return the state after a batch of events, and the updates to report.

    Events are in the order of their data source.
    """
    slots = remember(state.slots, known.controllers, known.topology)
    return _Correlation(state, batch, replace(known, slots=slots), table).run()


def update_slots(state: CorrelationState, known: DeviceMap, now: float) -> CorrelationState:
    """Return the state with the controllers' present slots, without bursts older than a day."""
    slots = remember(state.slots, known.controllers, known.topology)
    live = tuple(h for h in state.groups if now - h.received_seconds <= DAY_SECONDS)
    if slots is state.slots and len(live) == len(state.groups):
        return state
    return replace(state, slots=dict(slots), groups=live)


class _Correlation:
    """One correlation step and its working state."""

    def __init__(
        self, state: CorrelationState, batch: EventBatch, known: DeviceMap, table: EventTable
    ) -> None:
        self.batch, self.known, self.table = batch, known, table
        self.before = state
        self.groups = {(h.source, h.burst.kind, h.subject): h for h in state.groups}
        self.recent = list(state.recent)
        since = batch.realtime_seconds - ERRORS_SECONDS
        self.errors = {host: [t for t in ts if t >= since] for host, ts in state.errors.items()}
        self.clocks = dict(state.clocks)
        self.media = Counter(state.media)
        self.updates: list[EventUpdate] = []
        self.concluded: list[StorageEvent] = []
        self.places: dict[tuple[str | int, ...], EventPlace] = {}
        self.hosts = {each.name: each.host for each in known.controllers if each.host}
        self.reached: Mapping[str, Mapping[str, frozenset[str]]] | None = None
        """As topology.paths; None: not needed so far."""
        self.failing: frozenset[str] | None = None
        """Devices with failed requests; None: not needed so far."""

        self.latest: dict[str, float] = {}
        for event in (*batch.baseline, *batch.events):
            if event.clock_seconds is not None:
                self.latest[event.controller] = event.clock_seconds

    def run(self) -> tuple[CorrelationState, tuple[EventUpdate, ...]]:
        batch = self.batch
        self._compare()
        told = event_table.twins(
            (*self.recent, *batch.baseline, *batch.events), self.table, self.hosts
        )
        twin = {each.key for first, *more in told for each in more if each.key != first.key}
        once: set[str] = {event.key for event in self.before.recent}
        repairs = btrfs_repairs.repairs((*self.before.recent, *batch.baseline, *batch.events))
        shared = self._shared()
        for event, baseline in (
            *((event, True) for event in batch.baseline),
            *((event, False) for event in (*_named_first(batch.events), *self.concluded)),
        ):
            if event.key in once:
                continue  # read twice: from the ring buffer and the journal, or again after a kill
            once.add(event.key)
            twice = event.key in twin or event.key in batch.late or self._in_log(event)
            settled = self._dated(btrfs_repairs.settled(event, repairs))
            self._take(settled, shared, baseline=baseline, twin=twice)
        for (kind, device), count in batch.left_out.items():
            self._count(kind, device, count)
        live = sorted(self.groups.values(), key=lambda h: h.received_seconds)
        after = replace(
            self.before,
            groups=tuple(live[-MAX_GROUPS:]),
            recent=_recent(self.recent, batch.realtime_seconds),
            errors={host: tuple(ts[-MAX_TIMES:]) for host, ts in self.errors.items() if ts},
            clocks=self.clocks,
            slots=dict(self.known.slots),
            media=dict(list(self.media.items())[-MAX_DISKS:]),
        )
        return after, tuple(self.updates)

    # --- clocks

    def _compare(self) -> None:
        """Compare the clocks of controllers that reported events."""
        told = (*self.batch.baseline, *self.batch.events)
        serials = {each.name: each.serial for each in self.known.controllers}
        names = dict.fromkeys(event.controller for event in told if event.clock_seconds is not None)
        for name in names:
            own = [e for e in told if e.controller == name and e.source not in (*OWN, GAPS)]
            if not own:
                continue
            serial = serials.get(name, "")
            clock = self.clocks.get(name)
            if clock is None or (serial and clock.serial and serial != clock.serial):
                clock = ControllerClock()
            dated = (e for e in own if e.clock_seconds is not None)
            times = [e.clock_seconds or 0.0 for e in dated if self._is_error(e)]
            starts = [e.clock_seconds for e in own if e.kind.endswith("powered_on")]
            clock = replace(
                clock,
                serial=serial or clock.serial,
                errors=_of_a_day((*clock.errors, *times)[-MAX_TIMES:]),
                power_on=starts[-1] if starts else clock.power_on,
            )
            self.clocks[name] = after = self._estimated(name, clock)
            if said := controller_clock.moved(clock.current(), after.current()):
                self.concluded.append(
                    StorageEvent(
                        GAPS,
                        "controller_clock_moved",
                        f"{name}: {said}",
                        controller=name,
                        clock_seconds=self.batch.realtime_seconds,
                        realtime_seconds=self.batch.realtime_seconds,
                    )
                )

    def _estimated(self, name: str, clock: ControllerClock) -> ControllerClock:
        ahead = (c.clock_offset_seconds for c in self.known.controllers if c.name == name)
        asked = next(ahead, None)
        host, booted = self.hosts.get(name, ""), self.batch.booted_seconds
        kernel = [
            at
            for own, times in self.errors.items()
            if own in (host, "") or not host
            for at in times
        ]
        return estimated(clock, kernel, booted, asked)

    def _in_log(self, event: StorageEvent) -> bool:
        """Whether a kernel line is also in the controller's log, which names the disk.

        The line does not name the card: each card must have a readable log.
        Source: drivers/scsi/megaraid, megasas_aen_polling: it prints what is logged.
        """
        cards = [each.name for each in self.known.controllers if each.vendor == "megaraid"]
        logged = bool(cards) and all(name in self.clocks for name in cards)
        return logged and event.kind == "hba_aen" and event.text.startswith("megaraid_sas")

    def _is_error(self, event: StorageEvent) -> bool:
        """Whether both logs report such an event: a disk failed to read, write or respond."""
        row = self.table.find(event)
        severity = row.severity_of(event)
        return bool(event.place) and severity is not None and severity >= Severity.WARNING

    def _dated(self, event: StorageEvent) -> StorageEvent:
        """Return an event with its Unix time, if that can be determined."""
        if event.realtime_seconds is not None or event.clock_seconds is None:
            return event
        offset = controller_clock.current_offset(self.clocks, event.controller)
        at = controller_clock.utc(event.clock_seconds, offset)
        if at is None:
            return event
        return replace(event, realtime_seconds=min(at, self.batch.realtime_seconds))

    # --- events

    def _shared(self) -> dict[str, list[float]]:
        """Return when each controller itself had a fault, by its clock: then its disks are healthy.

        It had one if it reports that, or if it reports errors of several disks in one second.
        """
        found: dict[str, list[float]] = {}
        seconds: dict[tuple[str, float], set[str]] = {}
        for event in self.batch.events:
            at = event.clock_seconds
            if event.source in OWN or at is None or not event.controller:
                continue
            row = self.table.find(event)
            if row.controller:
                found.setdefault(event.controller, []).append(at)
            elif self._is_error(event) and (slot := self._place(event).slot):
                # A failed disk and the array that it degrades are reported in the same second.
                seconds.setdefault((event.controller, at), set()).add(slot)
        for (controller, at), disks in seconds.items():
            if len(disks) > 1:
                found.setdefault(controller, []).append(at)
        for happening in self.groups.values():
            if happening.source not in OWN and self.table.row(happening.burst.kind).controller:
                times = found.setdefault(happening.controller, [])
                last = happening.burst.last
                times += [] if last.clock_seconds is None else [last.clock_seconds]
        return found

    def _take(
        self, event: StorageEvent, shared: Mapping[str, list[float]], *, baseline: bool, twin: bool
    ) -> None:
        row = self.table.find(event)
        severity = row.alert_severity(event)
        if severity is None and not row.ends:
            return
        at = self._at(event)
        event, where = self._where(event, row, at)
        if where is None:
            return
        if severity is None:
            self._end_kinds(event, row, where.identity.key, at)
            return
        is_error = (row.severity_of(event) or Severity.INFO) >= Severity.WARNING
        if (is_error or severity >= Severity.WARNING) and self._has_other_path(row, where):
            severity, is_error = min(severity, Severity.NOTICE), False
            row = replace(row, severity_here=severity)
        own = where.identity
        if event.source == "kernel" or event.source not in OWN:
            self.recent.append(event)
        if event.source == "kernel" and is_error and not row.consequence:
            self.errors.setdefault(own.adapter, []).append(event.realtime_seconds or at)
        if where.disk and row.kind in MEDIUM:
            self.media[where.disk] += 1
        note = ""
        if event.source not in OWN and _near(event.clock_seconds, shared.get(event.controller, ())):
            if event.place and not row.controller:
                note = f"whether {own.object} is at fault: its controller had a fault at that time"
            home = self._place(replace(event, place="", device="")).identity
            own = home if home.key else own
        if twin or self._old(event, baseline=baseline):
            self.updates.append(
                EventUpdate(event, row, None, severity, own.object, where.disk, not baseline, twin)
            )
            return
        key = event.source, row.kind, own.key
        if event.kind in UNRECOGNIZED and key not in self.groups:
            key = self._same_line(event, at) or key
        before = self.groups.get(key)
        burst = event_table.extended(
            before.burst if before else None, row, event, at_boot=self._at_boot(at)
        )
        same = before is not None and burst.count > 1
        now = self.batch.now_seconds
        if not same or before is None:
            happening = EventGroup(
                source=event.source,
                burst=burst,
                subject=own.key,
                object=own.object,
                adapter=own.adapter,
                disk=where.disk,
                device=where.device,
                controller=where.controller or event.controller,
                slot=where.slot,
                volumes=where.volumes,
                began_seconds=at,
                last_seconds=at,
                received_seconds=now,
                baseline=baseline,
                note=note,
                smart=smartctl_command(where, self.known),
                places=(event.place,),
            )
        else:
            happening = replace(
                before,
                burst=burst,
                last_seconds=at,
                received_seconds=now,
                object=_object(before, own),
                volumes=where.volumes or before.volumes,
                baseline=before.baseline and baseline,
                ended_seconds=None,
                places=(*_without(before.places, event.place), event.place)[-MAX_PLACES:],
            )
        self.groups[key] = happening
        self._end_kinds(event, row, own.key, at)
        worse = same and before is not None and happening.severity > before.severity
        news = EventUpdate(
            event,
            row,
            happening,
            happening.severity,
            own.object,
            where.disk,
            not same or worse or _is_power_of_ten(happening.count),
        )
        self.updates.append(news)

    def _same_line(self, line: StorageEvent, at: float) -> tuple[str, str, str] | None:
        """Return the group of another object of which the kernel printed the same line just now.

        What an unrecognized line means is the same for each of 32 adapters: that is one mail.
        """
        wanted = line_shape(line)
        for key, group in self.groups.items():
            same = group.burst.kind == line.kind and line_shape(group.burst.first) == wanted
            if same and at - group.last_seconds <= SAME_LINE_SECONDS:
                return key
        return None

    def _end_kinds(self, event: StorageEvent, row: EventRule, key: str, at: float) -> None:
        for kind in (*row.ends, *row.ends_early):
            self._end((event.source, kind, key), event.place, at)

    def _end(self, key: tuple[str, str, str], place: str, at: float) -> None:
        """End a burst at a place; if that was its last place, the burst has ended.

        A line without a place was about one of the others: it has no end of its own.
        """
        h = self.groups.get(key)
        if h is None or place not in h.places or h.last_seconds > at:
            return
        left = _without(_without(h.places, place), "")
        h = replace(h, places=left)
        if not left:
            h = replace(h, ended_seconds=at, received_seconds=self.batch.now_seconds)
        self.groups[key] = h

    def _place(self, event: StorageEvent) -> EventPlace:
        """Return the location of an event; in a storm each is determined once."""
        own = event.controller, event.place
        at = (event.source, event.kind, event.boot_id, event.device, *own, self._era(event))
        if at not in self.places:
            self.places[at] = place(event, self.known)
        return self.places[at]

    def _era(self, event: StorageEvent) -> int:
        """Return how many device names a different disk had taken over before an event."""
        at, ahead = event.realtime_seconds, self.known.ahead_seconds
        taken = (each.taken_seconds for each in self.known.devices.gone.values())
        return sum(at is None or each + ahead <= at for each in taken if each is not None)

    def _has_other_path(self, row: EventRule, where: EventPlace) -> bool:
        """Whether a path failed and others are left, for all maps that use a failed adapter.

        For a lost connection the multipath rules set the severity, also if it was the last path.
        """
        if row.condition not in _PATH_CONDITIONS and row.kind not in _PATH_KINDS:
            return False
        known, now, key = self.known, self.batch.now_seconds, where.identity.key
        if self.reached is None:
            self.reached = paths(known.dependents, known.topology, now)
        reached, keys = self.reached, {key}
        if key.startswith(ADAPTER):
            adapter = key.removeprefix(ADAPTER)
            keys = {a.key for a in dependents_of(known.dependents, key, now) if a.on == adapter}
        return bool(keys) and all(
            each in reached and all(self._is_redundant(row, own) for own in reached[each].values())
            for each in keys
        )

    def _is_redundant(self, row: EventRule, own: frozenset[str]) -> bool:
        """Whether a map with these paths has another one, or its rules alert that it has none."""
        lost = faults.meaning(row.kind, row.condition, event=True).layer is Layer.PATH
        return lost or (len(own) > 1 and not own <= self._failing())

    def _failing(self) -> frozenset[str]:
        """Return the devices whose requests failed within the last seconds.

        If these are all paths of a map, none is left that the requests could have gone over.
        """
        if self.failing is None:
            events = (*self.before.recent, *self.batch.baseline, *self.batch.events)
            since = (
                max((e.realtime_seconds or 0.0 for e in events), default=0.0) - ALL_PATHS_SECONDS
            )
            self.failing = frozenset(
                event.device
                for event in events
                if event.kind in _FAILED_REQUESTS and (event.realtime_seconds or 0.0) >= since
            )
        return self.failing

    def _is_unused(self, event: StorageEvent, where: EventPlace) -> bool:
        """Whether nothing is on a device of `_BACKED`, so that no data are lost with it.

        A btrfs that is not mounted is named by a device that may be gone, or another one's by now.
        """
        topology, named = self.known.topology, kernel_btrfs.file_system(event.place)
        name = named or where.device
        if topology is None or not _BACKED.match(name):
            return False
        if named and topology.kernel_name(named) in topology.btrfs:
            return False
        device = self._place(replace(event, device=name, place="")) if named else where
        keys = {where.identity.key, device.identity.key}
        now = self.batch.now_seconds
        return not any(dependents_of(self.known.dependents, each, now) for each in keys)

    def _amid(self, at: float) -> EventPlace | None:
        """Return the disk of a line without a disk name: the only one with errors at that time."""
        near = {
            h.subject: h
            for h in self.groups.values()
            if h.source == "kernel"
            and h.severity >= Severity.WARNING
            and h.device
            and not h.subject.startswith(FILE_SYSTEM)
            and abs(h.last_seconds - at) <= AMID_SECONDS
        }
        # The next line may report the array on the disk as well.
        on = {key for own in near for key in self.known.dependents.above(at).get(own, ())}
        bottom = [h for key, h in near.items() if key not in on]
        if len(bottom) != 1:
            return None
        (h,) = bottom
        return EventPlace(Identity(h.subject, h.object, h.adapter), h.disk, h.device)

    def _where(
        self, event: StorageEvent, row: EventRule, at: float
    ) -> tuple[StorageEvent, EventPlace | None]:
        """Return an event with the array that it means, and its location.

        None: a device that nothing is on, so that no data are lost with it.
        """
        if row.kind == KICKED:
            event = event if event.place else self._kicked(event)
            array = replace(event, device=event.place or event.device, place="")
            return event, self._place(array)
        where = self._place(event)
        if self._is_unused(event, where):
            return event, None
        if not where.identity.key and row.kind in NAMELESS:
            where = self._amid(at) or where
        if row.kind in FULL:
            where = self._mounted(where, event)
        elif row.kind not in OF_DEVICE:
            where = self._file_system(where, event, row)
        return event, where

    def _kicked(self, event: StorageEvent) -> StorageEvent:
        """Return the event of a left-out member with its array: the next degraded one."""
        short = [
            (after, each.device)
            for each in (*self.before.recent, *self.batch.baseline, *self.batch.events)
            if each.kind == "md_degraded" and each.boot_id == event.boot_id
            if (after := (event_table.moment(each) or 0.0) - (event_table.moment(event) or 0.0))
            >= 0.0
        ]
        after, array = min(short, default=(math.inf, ""))
        return replace(event, place=array) if after <= NEIGHBOUR_SECONDS else event

    def _mounted(self, where: EventPlace, event: StorageEvent) -> EventPlace:
        """Return the mounted file system of a device, named as in its rules."""
        known, key = self.known, where.identity.key
        for each in dependents_of(known.dependents, key, self.batch.now_seconds):
            if each.mount and each.on == event.device:
                return replace(
                    where, identity=Identity(f"file system {each.name}", each.name), disk=""
                )
        return where

    def _file_system(self, where: EventPlace, event: StorageEvent, row: EventRule) -> EventPlace:
        """Return the file system of a line about one, as its rules name it, else the location.

        What was not written is lost from a file system if one is mounted there.
        """
        what = faults.meaning(row.kind, row.condition, event=True)
        named = kernel_btrfs.file_system(event.place)  # and with a device that is the one at fault
        unrecognized = row.condition == Condition.KERNEL_LINE_UNRECOGNIZED
        is_about = (what.of_file_system or unrecognized) and not (named and event.device)
        known, name = self.known, named or event.device
        if not (is_about and name and where.device):
            return where
        own = file_system(known.dependents, known.topology, name, where.identity)
        above = known.dependents.now.get(where.identity.key, ())
        mounts = [each.shown for each in above if each.mount and each.key == own.key]
        if unrecognized and not any(shown.endswith(f" ({event.code})") for shown in mounts):
            return where
        if what.fault is Fault.LOST and not mounts:
            return where
        return replace(where, identity=own, disk="")

    def _old(self, event: StorageEvent, *, baseline: bool) -> bool:
        """Whether a baseline event is older than a day."""
        if not baseline:
            return False
        at, most = event.realtime_seconds, DAY_SECONDS
        if at is None:
            at, most = event.clock_seconds, DAY_SECONDS + ZONE_SECONDS
        return at is not None and self.batch.realtime_seconds - at > most

    def _at(self, event: StorageEvent) -> float:
        """Return the time of an event by the program's clock; now if unknown."""
        now, at = self.batch.now_seconds, event.realtime_seconds
        if at is not None:
            return min(now, now - (self.batch.realtime_seconds - at))
        last = self.latest.get(event.controller)
        if event.clock_seconds is None or last is None:
            return now
        # The clock was not compared, but the time between its entries is known.
        return now - min(max(last - event.clock_seconds, 0.0), DAY_SECONDS)

    def _at_boot(self, at: float) -> bool:
        """Whether the host booted at a time, or just before it was reported; True if unknown."""
        booted = self.batch.booted_seconds
        if booted is None:
            return True
        ahead = self.batch.realtime_seconds - self.batch.now_seconds
        up_seconds = self.batch.realtime_seconds - booted
        return up_seconds < AT_BOOT_SECONDS or abs(at + ahead - booted) < AT_BOOT_SECONDS

    def _count(self, kind: str, device: str, count: int) -> None:
        """Add events that were only counted, not passed on."""
        event = StorageEvent("kernel", kind, "", device=device)
        row = self.table.find(event)
        key = "kernel", row.kind, self._place(event).identity.key
        happening = self.groups.get(key)
        if happening is not None:
            self.groups[key] = replace(happening, repeats=happening.repeats + count)


def _without(places: Iterable[str], place: str) -> tuple[str, ...]:
    return tuple(each for each in places if each != place)


def carries(
    state: CorrelationState, dependents: Dependents, now: float, behind: Iterable[EventPlace] = ()
) -> dict[str, frozenset[str]]:
    """Return the objects on top of each object, by its key; with RAID volumes of controllers.

    `behind` are disks of controllers that have a fault.
    """
    above = dependents.above(now)
    late = (h for h in state.groups if now - h.received_seconds <= WINDOW_SECONDS)
    made = [(h.subject, h.volumes) for h in late]
    made += [(each.identity.key, each.volumes) for each in behind]
    for subject, volumes in made:
        if subject and volumes:
            further = (above.get(each, frozenset()) for each in volumes)
            found = above.get(subject, frozenset()).union(volumes, *further)
            above[subject] = found - {subject}
    return above


def to_be_stored(updates: EventUpdate) -> bool:
    """Whether an event is stored for 'iowarden events': of a storm the first ones, then a few."""
    return updates.announced or updates.group is None or updates.group.count <= STORED_EVENTS


def is_nameless(event: StorageEvent) -> bool:
    """Whether an event's line names no object, so that it waits for the next line."""
    if event.kind == KICKED:
        return not event.place
    return event.kind in NAMELESS and not (event.device or event.place)


def patience_seconds(event: StorageEvent) -> float:
    """Return how long an event waits for lines that follow: its name, or its repair; 0: not."""
    if btrfs_repairs.awaits_repair(event):
        return btrfs_repairs.REPAIR_SECONDS
    return NEIGHBOUR_SECONDS if is_nameless(event) else 0.0


def _named_first(events: Sequence[StorageEvent]) -> list[StorageEvent]:
    """Return events with those that name no object after those that do."""
    return sorted(events, key=is_nameless)


def _of_a_day(times: Sequence[float]) -> tuple[float, ...]:
    """Return the times within a day of the last one: a change of the clock spoils older ones."""
    return tuple(each for each in times if abs(times[-1] - each) <= DAY_SECONDS)


def _near(at: float | None, times: Iterable[float]) -> bool:
    return at is not None and any(abs(at - each) <= SHARED_SECONDS for each in times)


def _is_power_of_ten(count: int) -> bool:
    return count >= 10 and str(count).strip("0") == "1"


def _recent(stored: Sequence[StorageEvent], realtime: float) -> tuple[StorageEvent, ...]:
    """Return the events that later events are compared with."""

    def age(event: StorageEvent) -> float:
        at = event.realtime_seconds
        return 0.0 if at is None else realtime - at

    twice = [
        e for e in stored if (e.kind == "hba_aen" or e.source == "3ware") and age(e) <= DAY_SECONDS
    ]
    blamed = [e for e in stored if e.source == "kernel" and age(e) <= 2 * BLAME_SECONDS]
    chosen = {e.key for e in (*twice[-MAX_RECENT:], *blamed[-MAX_RECENT:])}
    return tuple(e for e in stored if e.key in chosen)


def _object(group: EventGroup, latest: Identity) -> str:
    """Return the object of a group whose latest event is about another one, perhaps."""
    if latest.key == group.subject and not group.object.endswith(_OTHERS):
        return latest.object
    return f"{group.object.removesuffix(_OTHERS)}{_OTHERS}"
