"""What happened: events of every source, each at its disk, as alerts for the incidents. Pure.

Events of one kind on one object are a burst; while it lasts, it is an alert that fires. What a
burst means is in the table of events, where it happened in the map of places. Whatever is told
twice (the kernel's log and a controller's) counts once.
First sight is baseline: of the last day, and told with the arrival mail; what is older is kept in
the store of events, silently.
Units: seconds of the program's clock; those of events are their sources' own, or Unix time.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.event import Event
from iowarden.collectors.md import md_events
from iowarden.collectors.model import Family
from iowarden.rules import faults
from iowarden.rules.advice.advice import PART
from iowarden.rules.alerting.alerts import Alert, State, Transition
from iowarden.rules.events import controller_clock, event_table, hung
from iowarden.rules.events.controller_clock import Offset, Way
from iowarden.rules.events.event_table import BLAME_SECONDS, WINDOW_SECONDS, Burst
from iowarden.rules.faults import Layer
from iowarden.rules.incidents.incidents import FIRST_SIGHT
from iowarden.rules.notice import Evidence
from iowarden.rules.severity import Severity
from iowarden.rules.topology.device_identity import ADAPTER, Identity
from iowarden.rules.topology.event_location import Map, Place, Slotted, place, remember, smart_way
from iowarden.rules.topology.topology import carried, paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iowarden.collectors.kmsg.kernel_log import KernelLog
    from iowarden.collectors.model import Sample
    from iowarden.collectors.raid.controller import Controllers
    from iowarden.rules.events.event_table import Row, Table
    from iowarden.rules.topology.topology import Standing

DAY_SECONDS = 86_400.0
ZONE_SECONDS = 14 * 3600.0
"""So far may the clock of a controller be from UTC that nobody has compared yet."""
LOGGED_SECONDS = 360.0
"""By then a controller's log was read again."""
MATCH_SECONDS = 120.0
"""An error that both the kernel and a controller tell is told within that."""
ERRORS_SECONDS = DAY_SECONDS + ZONE_SECONDS
"""Of older errors of the kernel none is compared with a controller's."""
SHARED_SECONDS = 60.0
"""So near a fault of the controller itself, what it says of disks is that fault."""
MOST_HAPPENINGS = 400
MOST_DISKS = 2000
MOST_RECENT = 100
MOST_PLACES = 16
MOST_TIMES = controller_clock.MOST_TIMES
MOST_SHOWN = 4
"""Lesser bursts that are evidence in a mail."""
STORED_EVENTS = 10
"""So many of a burst are stored each; beyond, each power of ten."""
MEDIUM = frozenset(
    (
        "block_medium_error",
        "scsi_medium_error",
        "ata_medium_error",
        "nvme_medium_error",
        "areca_reading_error",
        "areca_ata_ecc_error",
        "3ware_drive_ecc_error_reported",
        "megaraid_medium_error",
        "megaraid_medium_error_uncorrectable",
        "megaraid_rebuild_medium_error",
    )
)
"""Sectors that could not be read: a drive that counts none of them does not tell the truth."""
NAMELESS = frozenset({"dm_pool_full", "dm_snapshot_invalid", "md_super_error"})
"""Lines that may name no device. Source: Linux 6.1, drivers/md/md.c, super_written;
drivers/md/dm-snap.c, __invalidate_snapshot;
drivers/md/persistent-data/dm-space-map-metadata.c, sm_metadata_new_block.
"""
FULL = frozenset({"fs_no_space"})
"""What is the matter of a file system that is full, and not of the disk below."""
AMID_SECONDS = 5.0
SET_SECONDS = 2.0
"""The wall clock was set where a stamp of it and the program's clock part by so much."""
KICKED = "md_kicked"
"""A line that names the member and not the array, whose own line follows when it runs.
Source: Linux 6.12, drivers/md: md.c, md_analyze_sbs; raid1.c, raid5.c, raid10.c, 'active with'.
"""
NEIGHBOUR_SECONDS = 1.0
"""So long such a line waits for the one behind it, which names array and member."""
_NO_ERROR = frozenset(md_events.KINDS) | {
    "md_disk_failure",
    "md_members",
    "md_degraded",
    "md_failed",
    "md_kicked",
    "md_sync_started",
    "md_sync_done",
    "md_sync_interrupted",
}
"""What happens to an array when a person fails its members one after the other, and rebuilds it."""
_PATH_CONDITIONS = frozenset({"B5", "M7"})
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
"""What says that the way to a disk failed, or nothing answered there; also rows of conditions B5
and M7. Of a map that has another path the request is sent by that one, and its rules say how many
are left."""
_UNPLACED = re.compile(
    rf"device (?:ata|nvme)[0-9.]+$|device [0-9]+:|{ADAPTER}(?!host[0-9])", re.ASCII
)
"""Keys of ports and adapters of which nobody knows whether the member hangs on them."""
_BACKED = re.compile(r"(?:loop|nbd|zram)[0-9]", re.ASCII)
"""Devices made of a file, a network or memory: only what stands on them can be lost."""
OWN = ("kernel", "md")
"""Sources that tell Unix time."""
GAPS = "controller"
"""Source of what we say ourselves of a controller's log."""
SMART = (
    'iowarden_smart_attribute_raw{id=~"5|187|197|198"}'
    ' iowarden_smart_attribute_value{id=~"5|187|197|198"}'
    " iowarden_smart_passed iowarden_smart_scsi_grown_defects"
    " iowarden_smart_nvme_media_errors_total iowarden_smart_doubt"
)
"""What a mail about an event shows of the disk's own data."""

TOTAL = Family(
    "iowarden_events_total",
    "counter",
    "Events since iowarden started that are no noise, by source and severity.",
)
DISK_TOTAL = Family(
    "iowarden_disk_events_total",
    "counter",
    "Events since iowarden started that are about a disk, by class: sectors that could not be read"
    " (medium), commands without an answer (timeout), a disk that is given up (lost), others.",
)
CLASSES = ("medium", "timeout", "lost", "other")
_OF_CONDITIONS = {"B5": "timeout", "M7": "lost"}
CLOCK = Family(
    "iowarden_controller_clock_offset_seconds",
    "gauge",
    "A controller's clock, read as if it were UTC, less UTC, where that is verified.",
)
CLOCK_DRIFT = Family(
    "iowarden_controller_clock_drift_seconds",
    "gauge",
    "How far a controller's clock is beside a quarter of an hour from UTC: no zone explains that.",
)
FAMILIES = (TOTAL, DISK_TOTAL, CLOCK, CLOCK_DRIFT)
KINDS = {"controller_clock_moved": "a controller's clock was set, or follows daylight saving"}
"""Events that are concluded here."""


@dataclass(frozen=True, slots=True)
class Happening:
    """A burst and where it happened.

    Fields: `subject` and `object` are those of its incident; `disk` is the label of the disk's
    series; `volumes` are the keys of what a controller makes of the disk; it was so from
    `began_seconds` to `last_seconds`, and at `heard_seconds` iowarden heard of it; `baseline`: it
    was so at first sight.
    """

    source: str
    burst: Burst
    subject: str
    object: str
    adapter: str
    disk: str
    device: str
    controller: str
    slot: str
    volumes: tuple[str, ...]
    began_seconds: float
    last_seconds: float
    heard_seconds: float
    baseline: bool = False
    note: str = ""
    """What is not known of it, for people."""
    smart: str = ""
    """How the disk itself is asked by SMART, where the controller makes up what `device` says."""
    ended_seconds: float | None = None
    """When events told its end, at each place."""
    places: tuple[str, ...] = ()
    """Where it has not ended: the last `MOST_PLACES`."""
    repeats: int = 0
    """Events that are not among those of `burst`: the kernel's log told too many in one look."""

    @property
    def count(self) -> int:
        """How many events it is."""
        return self.burst.count + self.repeats

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return Severity.INFO if self.burst.severity is None else self.burst.severity


@dataclass(frozen=True, slots=True)
class Clock:
    """What is known of a controller's clock.

    Fields: `serial` is the controller's; `errors` are the times of its latest errors, by its clock,
    `power_on` of its latest start; `way` to `reason` are those of the offset that is in force.
    """

    serial: str = ""
    errors: tuple[float, ...] = ()
    power_on: float | None = None
    offset: float | None = None
    way: Way = Way.NONE
    drift: float = 0.0
    matches: int = 0
    told: int = 0
    reason: str = ""

    def known(self) -> Offset:
        """Return the offset in force."""
        return Offset(
            self.offset, self.way, self.drift, self.matches, self.told, reason=self.reason
        )


@dataclass(frozen=True, slots=True)
class Happened:
    """What is known of what happened. Kept over restarts."""

    happenings: tuple[Happening, ...] = ()
    recent: tuple[Event, ...] = ()
    """Of the kernel's log and of controllers: for twins, and for who failed a member by hand."""
    errors: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Unix times of the kernel's latest disk errors, by host adapter."""
    clocks: dict[str, Clock] = field(default_factory=dict)
    """By controller; who is in it has been seen before."""
    slots: dict[str, Slotted] = field(default_factory=dict)
    media: dict[str, int] = field(default_factory=dict)
    """Medium errors by disk: what SMART says is held against them."""


@dataclass(frozen=True, slots=True)
class News:
    """An event to be told.

    Fields: `happening` is the burst it belongs to, as it is with it, None where it is older than
    first sight; `announced`: it is worth a line in the journal, which is not so of each of many;
    `twin`: another source told it before.
    """

    event: Event
    row: Row
    happening: Happening | None
    severity: Severity
    object: str
    disk: str
    announced: bool = True
    twin: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """What the sources told since the last time.

    Fields: `baseline` was so at first sight; `left_out` counts further events, by kind and device;
    `now_seconds` is the program's clock at `realtime_seconds`; `booted_seconds` is Unix time.
    """

    now_seconds: float
    realtime_seconds: float
    events: tuple[Event, ...] = ()
    baseline: tuple[Event, ...] = ()
    left_out: Mapping[tuple[str, str], int] = field(default_factory=dict)
    booted_seconds: float | None = None


def of_kernel(value: KernelLog, now: float, realtime: float) -> Batch:
    """Return what the kernel's log told."""
    return Batch(now, realtime, value.events, value.baseline, value.left_out)


def of_controllers(value: Controllers, now: float, realtime: float, booted: float | None) -> Batch:
    """Return what controllers told, and where their logs have a gap."""
    gaps = (
        Event(
            GAPS,
            "log_gap",
            f"{gap.controller}: {gap.reason}",
            controller=gap.controller,
            clock_seconds=realtime,
            realtime_seconds=realtime,
        )
        for gap in value.gaps
    )
    told = (*value.events, *gaps)
    return Batch(now, realtime, told, value.baseline, booted_seconds=booted)


def step(
    state: Happened, batch: Batch, known: Map, table: Table
) -> tuple[Happened, tuple[News, ...]]:
    """Return what is known with what was told now, and what there is to tell of it.

    Events come in the order of their source.
    """
    slots = remember(state.slots, known.controllers, known.topology)
    return _Work(state, batch, replace(known, slots=slots), table).run()


def learn(state: Happened, known: Map, now: float) -> Happened:
    """Return what is known with what the controllers say of their disks now, long bursts over."""
    slots = remember(state.slots, known.controllers, known.topology)
    live = tuple(h for h in state.happenings if now - h.heard_seconds <= DAY_SECONDS)
    if slots is state.slots and len(live) == len(state.happenings):
        return state
    return replace(state, slots=dict(slots), happenings=live)


class _Work:
    """One step, while it is made."""

    def __init__(self, state: Happened, batch: Batch, known: Map, table: Table) -> None:
        self.batch, self.known, self.table = batch, known, table
        self.before = state
        self.happenings = {_key(h.source, h.burst.kind, h.subject): h for h in state.happenings}
        self.recent = list(state.recent)
        since = batch.realtime_seconds - ERRORS_SECONDS
        self.errors = {host: [t for t in ts if t >= since] for host, ts in state.errors.items()}
        self.clocks = dict(state.clocks)
        self.media = Counter(state.media)
        self.news: list[News] = []
        self.concluded: list[Event] = []
        self.places: dict[tuple[str | int, ...], Place] = {}
        self.hosts = {each.name: each.host for each in known.controllers if each.host}
        self.reached: Mapping[str, Mapping[str, frozenset[str]]] | None = None
        """As topology.paths; None: nothing asked for it by now."""

        self.latest: dict[str, float] = {}
        for event in (*batch.baseline, *batch.events):
            if event.clock_seconds is not None:
                self.latest[event.controller] = event.clock_seconds

    def run(self) -> tuple[Happened, tuple[News, ...]]:
        batch = self.batch
        self._compare()
        told = event_table.twins(
            (*self.recent, *batch.baseline, *batch.events), self.table, self.hosts
        )
        twin = {each.key for first, *more in told for each in more if each.key != first.key}
        once: set[str] = {event.key for event in self.before.recent}
        shared = self._shared()
        for event, baseline in (
            *((event, True) for event in batch.baseline),
            *((event, False) for event in (*_named_first(batch.events), *self.concluded)),
        ):
            if event.key in once:
                continue  # it was read twice: a ring and a journal, a start after a kill
            once.add(event.key)
            twice = event.key in twin or self._in_log(event)
            self._take(self._dated(event), shared, baseline=baseline, twin=twice)
        for (kind, device), count in batch.left_out.items():
            self._count(kind, device, count)
        live = sorted(self.happenings.values(), key=lambda h: h.heard_seconds)
        after = replace(
            self.before,
            happenings=tuple(live[-MOST_HAPPENINGS:]),
            recent=_recent(self.recent, batch.realtime_seconds),
            errors={host: tuple(ts[-MOST_TIMES:]) for host, ts in self.errors.items() if ts},
            clocks=self.clocks,
            slots=dict(self.known.slots),
            media=dict(list(self.media.items())[-MOST_DISKS:]),
        )
        return after, tuple(self.news)

    # --- clocks

    def _compare(self) -> None:
        """Compare the clocks of controllers that told something."""
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
                clock = Clock()
            dated = (e for e in own if e.clock_seconds is not None)
            times = [e.clock_seconds or 0.0 for e in dated if self._is_error(e)]
            starts = [e.clock_seconds for e in own if e.kind.endswith("powered_on")]
            clock = replace(
                clock,
                serial=serial or clock.serial,
                errors=_of_a_day((*clock.errors, *times)[-MOST_TIMES:]),
                power_on=starts[-1] if starts else clock.power_on,
            )
            self.clocks[name] = after = self._estimated(name, clock)
            if said := controller_clock.moved(clock.known(), after.known()):
                self.concluded.append(
                    Event(
                        GAPS,
                        "controller_clock_moved",
                        f"{name}: {said}",
                        controller=name,
                        clock_seconds=self.batch.realtime_seconds,
                        realtime_seconds=self.batch.realtime_seconds,
                    )
                )

    def _estimated(self, name: str, clock: Clock) -> Clock:
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

    def _in_log(self, event: Event) -> bool:
        """Whether the kernel's line is in the controller's log as well, which names the disk.

        Which card it is of is not asked: each must have one that could be read.
        Source: drivers/scsi/megaraid, megasas_aen_polling: it prints what the log gets.
        """
        cards = [each.name for each in self.known.controllers if each.vendor == "megaraid"]
        logged = bool(cards) and all(name in self.clocks for name in cards)
        return logged and event.kind == "hba_aen" and event.text.startswith("megaraid_sas")

    def _is_error(self, event: Event) -> bool:
        """Whether it is what both sides tell: a disk could not read, write or answer."""
        row = self.table.find(event)
        severity = row.severity_of(event)
        return bool(event.place) and severity is not None and severity >= Severity.WARNING

    def _dated(self, event: Event) -> Event:
        """Return an event with its Unix time as far as it can be known."""
        if event.realtime_seconds is not None or event.clock_seconds is None:
            return event
        clock = self.clocks.get(event.controller)
        offset = controller_clock.UNKNOWN if clock is None else clock.known()
        if offset.seconds is None:
            return event
        at = event.clock_seconds - offset.seconds
        return replace(event, realtime_seconds=min(at, self.batch.realtime_seconds))

    # --- events

    def _shared(self) -> dict[str, list[float]]:
        """Return when each controller itself was in trouble, by its clock: then its disks are not.

        That is so when it says so, or when it tells of several disks in one second.
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
                # An array that a failed disk degrades is told in the same second.
                seconds.setdefault((event.controller, at), set()).add(slot)
        for (controller, at), disks in seconds.items():
            if len(disks) > 1:
                found.setdefault(controller, []).append(at)
        for happening in self.happenings.values():
            if happening.source not in OWN and self.table.row(happening.burst.kind).controller:
                times = found.setdefault(happening.controller, [])
                last = happening.burst.last
                times += [] if last.clock_seconds is None else [last.clock_seconds]
        return found

    def _take(
        self, event: Event, shared: Mapping[str, list[float]], *, baseline: bool, twin: bool
    ) -> None:
        row = self.table.find(event)
        severity = row.severity_of(event)
        if severity is None:
            return
        at = self._at(event)
        event, where = self._where(event, row, at)
        if where is None:
            return
        if severity >= Severity.WARNING and self._has_other_path(row, where):
            severity = Severity.NOTICE
            row = replace(row, severity=severity, storm=None)
        own = where.identity
        if event.source == "kernel" or event.source not in OWN:
            self.recent.append(event)
        if event.source == "kernel" and severity >= Severity.WARNING and not row.consequence:
            self.errors.setdefault(own.adapter, []).append(event.realtime_seconds or at)
        if where.disk and row.kind in MEDIUM:
            self.media[where.disk] += 1
        note = ""
        if event.source not in OWN and _near(event.clock_seconds, shared.get(event.controller, ())):
            if event.place and not row.controller:
                note = f"whether {own.object} is at fault: its controller was in trouble, too"
            home = self._place(replace(event, place="", device="")).identity
            own = home if home.key else own
        if twin or self._old(event, baseline=baseline):
            self.news.append(
                News(event, row, None, severity, own.object, where.disk, not baseline, twin)
            )
            return
        key = _key(event.source, row.kind, own.key)
        before = self.happenings.get(key)
        burst = event_table.grown(before.burst if before else None, row, event)
        same = before is not None and burst.count > 1
        now = self.batch.now_seconds
        if not same or before is None:
            happening = Happening(
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
                heard_seconds=now,
                baseline=baseline,
                note=note,
                smart=smart_way(where, self.known),
                places=(event.place,),
            )
        else:
            happening = replace(
                before,
                burst=burst,
                last_seconds=at,
                heard_seconds=now,
                object=own.object,
                volumes=where.volumes or before.volumes,
                baseline=before.baseline and baseline,
                ended_seconds=None,
                places=(*_without(before.places, event.place), event.place)[-MOST_PLACES:],
            )
        self.happenings[key] = happening
        for kind in row.ends:
            self._end(_key(event.source, kind, own.key), event.place, at)
        worse = same and before is not None and happening.severity > before.severity
        news = News(
            event,
            row,
            happening,
            happening.severity,
            own.object,
            where.disk,
            not same or worse or _is_power_of_ten(happening.count),
        )
        self.news.append(news)

    def _end(self, key: tuple[str, str, str], place: str, at: float) -> None:
        """Take note that something is over at a place; where that was the last one, it is over."""
        h = self.happenings.get(key)
        if h is None or place not in h.places or h.last_seconds > at:
            return
        left = _without(h.places, place)
        h = replace(h, places=left)
        if not left:
            h = replace(h, ended_seconds=at, heard_seconds=self.batch.now_seconds)
        self.happenings[key] = h

    def _place(self, event: Event) -> Place:
        """Return where an event happened; of a storm each place is looked up once."""
        own = event.controller, event.place
        at = (event.source, event.kind, event.boot_id, event.device, *own, self._era(event))
        if at not in self.places:
            self.places[at] = place(event, self.known)
        return self.places[at]

    def _era(self, event: Event) -> int:
        """Return how many names had been taken over by another disk before an event."""
        at, ahead = event.realtime_seconds, self.known.ahead_seconds
        taken = (each.taken_seconds for each in self.known.devices.gone.values())
        return sum(at is None or each + ahead <= at for each in taken if each is not None)

    def _has_other_path(self, row: Row, where: Place) -> bool:
        """Whether what failed is one of several paths, or all that hangs on an adapter is.

        Of a connection that is lost the map's rules say how bad it is, also of the last one.
        """
        if row.condition not in _PATH_CONDITIONS and row.kind not in _PATH_KINDS:
            return False
        known, now, key = self.known, self.batch.now_seconds, where.identity.key
        if self.reached is None:
            self.reached = paths(known.standing, known.topology, now)
        reached, keys = self.reached, {key}
        if key.startswith(ADAPTER):
            adapter = key.removeprefix(ADAPTER)
            keys = {a.key for a in carried(known.standing, key, now) if a.on == adapter}
        return bool(keys) and all(
            each in reached and all(_is_redundant(row, own) for own in reached[each].values())
            for each in keys
        )

    def _unused(self, key: str) -> bool:
        """Whether nothing stands on a device, so that no data are lost with it."""
        known, now = self.known, self.batch.now_seconds
        return known.topology is not None and not carried(known.standing, key, now)

    def _amid(self, at: float) -> Place | None:
        """Return the one disk of whose errors a line is that names none."""
        near = {
            h.subject: h
            for h in self.happenings.values()
            if h.source == "kernel"
            and h.severity >= Severity.WARNING
            and h.device
            and abs(h.last_seconds - at) <= AMID_SECONDS
        }
        # The array that stands on it is told by the next line as well.
        on = {key for own in near for key in self.known.standing.above(at).get(own, ())}
        bottom = [h for key, h in near.items() if key not in on]
        if len(bottom) != 1:
            return None
        (h,) = bottom
        return Place(Identity(h.subject, h.object, h.adapter), h.disk, h.device)

    def _where(self, event: Event, row: Row, at: float) -> tuple[Event, Place | None]:
        """Return an event with the array that it means, and what its incident is about.

        None: a device that nothing stands on, so that nothing is lost with it.
        """
        if row.kind == KICKED:
            event = event if event.place else self._kicked(event)
            array = replace(event, device=event.place or event.device, place="")
            return event, self._place(array)
        where = self._place(event)
        if _BACKED.match(where.device) and self._unused(where.identity.key):
            return event, None
        if not where.identity.key and row.kind in NAMELESS:
            where = self._amid(at) or where
        return event, self._mounted(where, event) if row.kind in FULL else where

    def _kicked(self, event: Event) -> Event:
        """Return that a member was left out with its array: the next that is short of members."""
        short = [
            (after, each.device)
            for each in (*self.before.recent, *self.batch.baseline, *self.batch.events)
            if each.kind == "md_degraded" and each.boot_id == event.boot_id
            if (after := (event_table.moment(each) or 0.0) - (event_table.moment(event) or 0.0))
            >= 0.0
        ]
        after, array = min(short, default=(math.inf, ""))
        return replace(event, place=array) if after <= NEIGHBOUR_SECONDS else event

    def _mounted(self, where: Place, event: Event) -> Place:
        """Return the file system of a device, as its rules call it, if that is mounted."""
        known, key = self.known, where.identity.key
        for each in carried(known.standing, key, self.batch.now_seconds):
            if each.mount and each.on == event.device:
                return replace(
                    where, identity=Identity(f"file system {each.name}", each.name), disk=""
                )
        return where

    def _old(self, event: Event, *, baseline: bool) -> bool:
        """Whether an event at first sight is older than a day."""
        if not baseline:
            return False
        at, most = event.realtime_seconds, DAY_SECONDS
        if at is None:
            at, most = event.clock_seconds, DAY_SECONDS + ZONE_SECONDS
        return at is not None and self.batch.realtime_seconds - at > most

    def _at(self, event: Event) -> float:
        """Return when an event was, by the program's clock; what is not known is now."""
        now, at = self.batch.now_seconds, event.realtime_seconds
        if at is not None:
            return min(now, now - (self.batch.realtime_seconds - at))
        last = self.latest.get(event.controller)
        if event.clock_seconds is None or last is None:
            return now
        # Of a clock that nobody compared: what lies between its entries is known all the same.
        return now - min(max(last - event.clock_seconds, 0.0), DAY_SECONDS)

    def _count(self, kind: str, device: str, count: int) -> None:
        """Add events that were not told each."""
        event = Event("kernel", kind, "", device=device)
        row = self.table.find(event)
        key = _key("kernel", row.kind, self._place(event).identity.key)
        happening = self.happenings.get(key)
        if happening is not None:
            self.happenings[key] = replace(happening, repeats=happening.repeats + count)


def estimated(
    clock: Clock,
    kernel_errors: Sequence[float],
    booted: float | None,
    asked: float | None = None,
) -> Clock:
    """Return a controller's clock with the offset that is known best now.

    `booted` is when the kernel started, `asked` what the controller's clock is ahead if it told.
    """
    found = [controller_clock.from_errors(clock.errors, kernel_errors)]
    if asked is not None:
        found.append(controller_clock.asked(asked, 0.0))
    if clock.power_on is not None and booted is not None:
        found.append(controller_clock.from_power_on(clock.power_on, booted))
    best = controller_clock.surest(*found)
    if best.seconds is None and clock.offset is not None:
        return clock  # it was known before, and nothing says otherwise
    if not best.verified and clock.known().verified:
        return clock
    return replace(
        clock,
        offset=best.seconds,
        way=best.way,
        drift=best.drift_seconds,
        matches=best.matches,
        told=best.told,
        reason=best.reason,
    )


def alerts(
    state: Happened, table: Table, now: float, for_seconds: float = WINDOW_SECONDS
) -> list[Alert]:
    """Return every burst that is worth a mail as an alert that fires for so long after its last.

    So long an incident must be quiet as well, before it may be called over. What has an event for
    its end fires until that comes, for a day at most.
    """
    lasting = table.lasting

    def fires(h: Happening) -> bool:
        lasts = h.burst.kind in lasting and h.ended_seconds is None
        return now - h.heard_seconds <= (DAY_SECONDS if lasts else for_seconds)

    return [
        _alert(state, h, table.row(h.burst.kind), now)
        for h in state.happenings
        if h.severity >= Severity.WARNING and fires(h)
    ]


def _without(places: Iterable[str], place: str) -> tuple[str, ...]:
    return tuple(each for each in places if each != place)


def lesser(state: Happened, news: Iterable[News]) -> list[Transition]:
    """Return what began that is no reason for a mail: it is told once a week."""
    found = []
    for each in news:
        h = each.happening
        if h is None or h.count > 1 or h.baseline or each.row.consequence:
            continue
        if each.severity < Severity.WARNING:
            alert = _alert(state, h, each.row, h.heard_seconds)
            over = replace(alert, state=State.RESOLVED)
            found += [Transition(alert, State.INACTIVE), Transition(over, State.FIRING)]
    return found


def carries(
    state: Happened, standing: Standing, now: float, behind: Iterable[Place] = ()
) -> dict[str, frozenset[str]]:
    """Return what stands on each object, by its key; also what a controller makes of a disk.

    `behind` are disks of controllers that are not in order.
    """
    above = standing.above(now)
    late = (h for h in state.happenings if now - h.heard_seconds <= WINDOW_SECONDS)
    made = [(h.subject, h.volumes) for h in late]
    made += [(each.identity.key, each.volumes) for each in behind]
    for subject, volumes in made:
        if subject and volumes:
            further = (above.get(each, frozenset()) for each in volumes)
            found = above.get(subject, frozenset()).union(volumes, *further)
            above[subject] = found - {subject}
    return above


def evidence(
    state: Happened,
    subjects: Iterable[str],
    since: float,
    realtime: float,
    ahead: float | None = None,
) -> tuple[Evidence, ...]:
    """Return a line for the first and the last event of each burst about these, in order of time.

    Events that are lesser than a warning are among them. `since` is by the program's clock;
    `realtime` is for what has no time. `ahead` is by how much the wall clock is ahead of the
    program's: what was stamped before somebody set it is told by the clock of now, as all else is.
    """
    wanted = frozenset(subjects)
    bursts = [h for h in state.happenings if h.subject in wanted and h.heard_seconds >= since]
    bursts.sort(key=lambda h: (-h.severity, h.began_seconds))
    lesser = [h for h in bursts if h.severity < Severity.WARNING][:MOST_SHOWN]
    lines = [
        line
        for h in (*(h for h in bursts if h.severity >= Severity.WARNING), *lesser)
        for line in _lines(state, h, realtime, ahead)
    ]
    lines += [
        Evidence(
            realtime,
            "SMART",
            f"what /dev/{h.device} says is synthesised by its controller, and no sign of health or"
            f" failure; the disk itself: {h.smart}",
        )
        for h in bursts
        if h.smart and h.device
    ]
    return tuple(sorted(dict.fromkeys(lines), key=lambda line: line.realtime_seconds))


def samples(
    state: Happened,
    totals: Mapping[tuple[str, str], int],
    of_disks: Mapping[tuple[str, str], int],
    disks: Iterable[str],
) -> list[Sample]:
    """Return the samples of FAMILIES.

    `totals` are by source and severity, `of_disks` by disk and class; `disks` are those that are
    there: their counters exist from the start.
    """
    found: list[Sample] = []
    for name, clock in state.clocks.items():
        offset = clock.known()
        if offset.verified and offset.seconds is not None:
            own = (("controller", name),)
            found.append((CLOCK.name, own, offset.seconds))
            found.append((CLOCK_DRIFT.name, own, offset.drift_seconds))
    return [
        *found,
        *(
            (TOTAL.name, (("severity", severity), ("source", source)), float(count))
            for (source, severity), count in totals.items()
        ),
        *(
            (
                DISK_TOTAL.name,
                (("class", name), ("disk", disk)),
                float(of_disks.get((disk, name), 0)),
            )
            for disk in dict.fromkeys((*disks, *(disk for disk, _ in of_disks)))
            for name in CLASSES
        ),
    ]


def counted(
    totals: Mapping[tuple[str, str], int], news: Iterable[News]
) -> dict[tuple[str, str], int]:
    """Return the totals with what was told now."""
    after = Counter(totals)
    for each in news:
        if each.happening is not None and not each.happening.baseline:
            after[each.event.source, each.severity.name.lower()] += 1
    return dict(after)


def counted_disks(
    totals: Mapping[tuple[str, str], int], news: Iterable[News]
) -> dict[tuple[str, str], int]:
    """Return the totals of disks with what was told now; what two logs tell counts once."""
    after = Counter(totals)
    for each in news:
        if each.disk and not each.twin and each.happening and not each.happening.baseline:
            key = each.disk, _class(each.row)
            if key in after or len(after) < MOST_DISKS:
                after[key] += 1
    return dict(after)


def _class(row: Row) -> str:
    return "medium" if row.kind in MEDIUM else _OF_CONDITIONS.get(row.condition, "other")


def no_totals(sources: Iterable[str]) -> dict[tuple[str, str], int]:
    """Return totals that are 0, for counters exist from the start."""
    return {(source, each.name.lower()): 0 for source in sources for each in Severity}


def to_be_stored(news: News) -> bool:
    """Whether an event is kept for people to look at: of a storm the first ones, then a few."""
    return news.announced or news.happening is None or news.happening.count <= STORED_EVENTS


def _alert(state: Happened, h: Happening, row: Row, now: float) -> Alert:
    times = "" if h.count == 1 else f" ({h.count} times)"
    labels = {
        "alertname": row.kind,
        "condition": row.condition,
        "controller": h.controller,
        "device": h.device,
        "disk": h.disk,
        "severity": h.severity.name.lower(),
        "slot": h.slot,
        "source": h.source,
    }
    doubts = h.note, _failed_by_hand(state, h), _unseen(state, h), _unlogged(state, h, now)
    unknown = "; ".join(filter(None, doubts))
    meaning, task = hung.summary(h.burst.last.text) or (_told(h.burst.last) or row.meaning, "")
    annotations = {
        "summary": f"{meaning}{times}",
        "advice": row.advice,
        hung.TASK: task,
        "evidence": SMART if h.disk else "",
        "unknown": unknown,
        PART: h.burst.last.device.removeprefix("/dev/"),
        FIRST_SIGHT: "true" if h.baseline else "",
    }
    return Alert(
        name=row.kind,
        labels=tuple(sorted((name, text) for name, text in labels.items() if text)),
        state=State.FIRING,
        value=float(h.count),
        annotations=tuple((name, text) for name, text in annotations.items() if text),
        active_seconds=h.began_seconds,
        fired_seconds=h.began_seconds,
        subject=h.subject,
        object=h.object,
        adapter=h.adapter,
        count=h.count,
        last_seconds=h.last_seconds,
        missed_seconds=h.ended_seconds,
    )


_SENT = re.compile(r".*?(?:/\w+\) - |\(0x\w+:0x\w+\): ?)(?P<words>\S.*)", re.ASCII)
"""What an adapter's driver prints of an event of its firmware: megaraid_sas, 3w-9xxx and 3w-sas."""


def _told(event: Event) -> str:
    """Return what an event itself tells better than its row, else ''.

    That is what a controller says that its driver only passes on, and which array is meant.
    """
    if event.kind == "md_disk_failure" and event.device and event.place:
        return f"array {event.place} gave up its member {event.device}"
    if event.kind == KICKED and event.device and event.place:
        return f"array {event.place} was put together without its member {event.device}"
    found = _SENT.fullmatch(event.text) if event.kind == "hba_aen" else None
    return "" if found is None else found["words"]


def _failed_by_hand(state: Happened, h: Happening) -> str:
    """Return a sentence when nothing was wrong with a member that an array gave up, else ''.

    A person's 'mdadm --fail' looks the same in the kernel's log; what it has not is an error before
    it: of the member, its adapter or its array, or one that names nothing. That lines were lost, or
    are of a port or an adapter that is not known by now, is no proof.
    """
    if h.burst.kind != "md_disk_failure":
        return ""
    own = {"", h.subject, f"device {h.burst.last.place}", f"{ADAPTER}{h.adapter}"}
    first, last = h.began_seconds - BLAME_SECONDS, h.last_seconds + AMID_SECONDS
    for each in state.happenings:
        about = each.subject in own or _UNPLACED.match(each.subject)
        near = first <= each.last_seconds and each.began_seconds <= last
        if about and near and each.burst.kind not in _NO_ERROR:
            return ""
    member = h.burst.last.device or "that member"
    return (
        f"Nothing in the kernel's log tells of an error of {member} in the"
        f" {BLAME_SECONDS / 60:.0f} minutes before: somebody may have failed it by command"
        " (mdadm --fail)."
    )


def _unseen(state: Happened, h: Happening) -> str:
    """Return what the kernel did not see of a disk's error, and how sure the time is."""
    if h.source in OWN:
        return ""
    clock = state.clocks.get(h.controller)
    offset = controller_clock.UNKNOWN if clock is None else clock.known()
    if not offset.verified:
        when = f"when exactly it was: of {h.controller}, {controller_clock.told(offset)}"
        return f"{when}; {_unread('at all')}" if h.slot and not any(state.errors.values()) else when
    at = h.burst.last.realtime_seconds
    if not h.slot or at is None:
        return ""
    if any(abs(at - each) <= MATCH_SECONDS for times in state.errors.values() for each in times):
        return ""
    return _unread(f"within {MATCH_SECONDS:.0f} s")


def _unread(when: str) -> str:
    return (
        f"whether data are lost: the kernel saw no error {when}, so the controller recovered from"
        " it, or masks it"
    )


def _unlogged(state: Happened, h: Happening, now: float) -> str:
    """Return that a controller whose log is read does not tell of a disk's error (J4)."""
    if h.source != "kernel" or h.controller not in state.clocks:
        return ""
    told = any(
        each.source not in OWN
        and each.controller == h.controller
        and now - each.heard_seconds <= WINDOW_SECONDS
        for each in state.happenings
    )
    if told or now - h.began_seconds < LOGGED_SECONDS:
        return ""
    return f"why the log of {h.controller} has no error of these minutes; compare its clock"


def _lines(state: Happened, h: Happening, realtime: float, ahead: float | None) -> list[Evidence]:
    first, last = (
        _by_clock(event, at, ahead)
        for event, at in ((h.burst.first, h.began_seconds), (h.burst.last, h.last_seconds))
    )
    lines = [_line(state, h, first, realtime, first=True)]
    if h.count > 1:
        if h.count > 2:
            at = lines[0].realtime_seconds
            more = f"... {h.count - 2} more of these"
            lines.append(Evidence(at, lines[0].source, more))
        lines.append(_line(state, h, last, realtime))
    return lines


def _by_clock(event: Event, at: float, ahead: float | None) -> Event:
    """Return an event with its time by the wall clock as it is now, if that was set since."""
    stamp = event.realtime_seconds
    if ahead is None or stamp is None or event.source not in OWN:
        return event
    moved = abs(at + ahead - stamp) > SET_SECONDS
    return replace(event, realtime_seconds=at + ahead) if moved else event


def _line(
    state: Happened, h: Happening, event: Event, realtime: float, *, first: bool = False
) -> Evidence:
    source = event.controller if h.source not in OWN and event.controller else h.source
    at, text = event.realtime_seconds, event.text
    if h.source not in OWN:
        clock = state.clocks.get(h.controller)
        offset = controller_clock.UNKNOWN if clock is None else clock.known()
        told = "" if not first else f" ({controller_clock.told(offset)})"
        text += told if offset.verified else " (time unverified)"
    return Evidence(realtime if at is None else at, source, text)


def _is_redundant(row: Row, own: frozenset[str]) -> bool:
    """Whether a map with these paths has another one, or its rules tell that it has none."""
    lost = faults.meaning(row.kind, row.condition, event=True).layer is Layer.PATH
    return lost or len(own) > 1


def is_nameless(event: Event) -> bool:
    """Whether an event is of a line without a name, and waits for its neighbour."""
    if event.kind == KICKED:
        return not event.place
    return event.kind in NAMELESS and not (event.device or event.place)


def _named_first(events: Sequence[Event]) -> list[Event]:
    """Return events with those that name nothing behind the lines that do."""
    return sorted(events, key=is_nameless)


def _key(source: str, kind: str, subject: str) -> tuple[str, str, str]:
    return source, kind, subject


def _of_a_day(times: Sequence[float]) -> tuple[float, ...]:
    """Return the times of the day of the last one: over a change of the clock they tell nothing."""
    return tuple(each for each in times if abs(times[-1] - each) <= DAY_SECONDS)


def _near(at: float | None, times: Iterable[float]) -> bool:
    return at is not None and any(abs(at - each) <= SHARED_SECONDS for each in times)


def _is_power_of_ten(count: int) -> bool:
    return count >= 10 and str(count).strip("0") == "1"


def _recent(kept: Sequence[Event], realtime: float) -> tuple[Event, ...]:
    """Return the events that later ones are compared with."""

    def age(event: Event) -> float:
        at = event.realtime_seconds
        return 0.0 if at is None else realtime - at

    twice = [
        e for e in kept if (e.kind == "hba_aen" or e.source == "3ware") and age(e) <= DAY_SECONDS
    ]
    blamed = [e for e in kept if e.source == "kernel" and age(e) <= 2 * BLAME_SECONDS]
    chosen = {e.key for e in (*twice[-MOST_RECENT:], *blamed[-MOST_RECENT:])}
    return tuple(e for e in kept if e.key in chosen)
