"""Plays a run of the world through the product's incidents: the only module that knows both.

The world's facts become the alerts that the product would have of them: by the names, delays,
severities and subjects of the shipped rules and events. The topology is given to the product whole
and right: what fails is what it concludes. Event-driven: it is called when an alert changes and at
the times at which a mail may become due. Units: seconds of the world's clock, in what is returned.
"""

from __future__ import annotations

import heapq
import math
import re
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from support.machine import disk, topology
from support.world.behaviour import By, Fact, Kind
from support.world.injection import layer_of
from support.world.machine import Layer
from support.world.mails import GOOD, Ack, Mail

from iowarden.daemon.notify import message
from iowarden.rules.alerting.alerts import REDUNDANCY, Alert, AlertState
from iowarden.rules.incidents import incidents, mailing
from iowarden.rules.incidents.due import LONGER
from iowarden.rules.incidents.model import (
    BASELINE,
    IncidentChangeKind,
    Incidents,
    InitialReport,
    NotificationPolicy,
)
from iowarden.rules.incidents.silences import Silences, acknowledge, drop_acknowledgement
from iowarden.rules.notices import digest, report
from iowarden.rules.topology.graph import StorageGraph

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from support.world.injection import Life, Run
    from support.world.machine import Machine

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.rules.incidents.model import DueNotice, Incident, IncidentMember
    from iowarden.rules.notice import Notice

BASE = 1_000_000.0
"""The product's clock when the world's begins: long after boot."""
EPOCH = 1_800_000_000.0
INSTALL = "world"
REPORT_SECONDS = 60.0
LATE = (2, 5, 61)
"""So many seconds after each change a mail may be due: what comes together, settled, grouped."""
QUIET = (61, 301, 601)
"""So long after an end, and after the last change, an end is reported."""
INTERVALS, ANOTHER_OBJECT = (30, 60, 120, 240, 480, 960), 240
"""The intervals between mails, by how many there were since a quiet hour; news that waits for one
is due then, of what befalls another object after the last at most."""
FIRST_POLL_SECONDS = 20.0
"""So soon after its start iowarden has polled everything once."""
EVENT_SECONDS = 600.0
MANY, MANY_SECONDS = 5, 600.0
"""So many medium errors within that time are critical."""


@dataclass(frozen=True)
class Row:
    """How the product shows a fact: a rule's alert, or an event if it has a condition.

    Fields: `after` is how long it must hold, `keep` how long the alert outlasts it, `poll` how
    often it is read, `timed`: its value is for how many seconds it has been so,
    `pending`: since when is known of it (`for` of a rule).
    """

    name: str
    severity: str
    after: float = 1.0
    keep: float = 0.0
    poll: float = 0.0
    timed: bool = False
    pending: bool = False
    condition: str = ""


_RULES: dict[tuple[Kind, By], dict[Layer, tuple[Row, ...]]] = {
    (Kind.GONE, By.STATE): {Layer.DISK: (Row("DeviceRemoved", "critical"),)},
    (Kind.FAILED, By.STATE): {Layer.DISK: (Row("DiskOffline", "critical"),)},
    (Kind.MARKED, By.STATE): {Layer.DISK: (Row("MdMemberFaulty", "warning"),)},
    (Kind.FAILED, By.POLL): {Layer.DISK: (Row("ControllerDiskFailed", "critical", poll=300.0),)},
    (Kind.HANGS, By.COUNTER): {
        Layer.DISK: (
            Row("DeviceHang", "warning", 10.0, 60.0, timed=True),
            Row("DeviceHang", "critical", 30.0, 60.0, timed=True),
        ),
        Layer.VOLUME: (
            Row("DeviceHang", "warning", 45.0, 60.0, timed=True),
            Row("DeviceHang", "critical", 135.0, 60.0, timed=True),
        ),
    },
    (Kind.SLOW, By.COUNTER): {Layer.DISK: (Row("DiskSlow", "warning", 60.0, 300.0, timed=True),)},
    (Kind.LESSER, By.COUNTER): {
        Layer.DISK: (Row("DiskSlow", "notice", 60.0, 300.0, timed=True),),
        Layer.VOLUME: (Row("DiskSlow", "notice", 60.0, 300.0, timed=True),),
    },
    (Kind.STOPPED, By.STATE): {
        Layer.ARRAY: (Row("MdBroken", "critical"),),
        Layer.VOLUME: (Row("MultipathAllPathsLost", "critical"),),
    },
    (Kind.STOPPED, By.POLL): {
        Layer.VOLUME: (Row("ControllerArrayFailed", "critical", poll=300.0),)
    },
    (Kind.DEGRADED, By.STATE): {
        Layer.ARRAY: (Row("MdDegraded", "critical"),),
        Layer.VOLUME: (Row("MultipathPathLost", "warning", 30.0, pending=True),),
    },
    (Kind.DEGRADED, By.POLL): {
        Layer.VOLUME: (Row("ControllerArrayDegraded", "critical", poll=300.0),)
    },
    (Kind.ERRORS, By.POLL): {Layer.DISK: (Row("DiskPendingSectors", "warning", poll=1800.0),)},
    (Kind.ERRORS, By.STATE): {Layer.FILE_SYSTEM: (Row("BtrfsErrors", "critical"),)},
    (Kind.UNPROTECTED, By.POLL): {
        Layer.ADAPTER: (Row("ControllerBatteryFault", "warning", poll=300.0),)
    },
    (Kind.FULL, By.STATE): {Layer.FILE_SYSTEM: (Row("FilesystemFull", "warning", 60.0, 600.0),)},
    (Kind.READ_ONLY, By.STATE): {Layer.FILE_SYSTEM: (Row("FilesystemReadOnly", "critical"),)},
    (Kind.SUSPENDED, By.STATE): {
        Layer.MAPPED: (Row("DeviceSuspended", "warning", 30.0, 60.0, timed=True),)
    },
    (Kind.STALL, By.COUNTER): {
        Layer.HOST: (
            Row("WriteStall", "warning", 12.0, 60.0),
            Row("WriteStall", "critical", 72.0, 60.0),
        )
    },
}
_LINES: dict[tuple[Kind, Layer], Row] = {
    (Kind.RESETS, Layer.DISK): Row("scsi_abort", "warning", condition="command_timeout"),
    (Kind.RESETS, Layer.ADAPTER): Row("hba_reset", "warning", condition="command_timeout"),
    (Kind.FAILED, Layer.DISK): Row("scsi_offlined", "critical", condition="device_unavailable"),
    (Kind.FAILED, Layer.ADAPTER): Row("hba_dead", "critical", condition="command_timeout"),
    (Kind.FAILED, Layer.FILE_SYSTEM): Row("fs_error", "critical", condition="filesystem_error"),
    (Kind.ERRORS, Layer.DISK): Row("block_medium_error", "warning", condition="io_error"),
    (Kind.ERRORS, Layer.FILE_SYSTEM): Row(
        "fs_checksum_corrected", "warning", condition="filesystem_error"
    ),
    (Kind.MARKED, Layer.DISK): Row("md_disk_failure", "warning", condition="raid_array"),
    (Kind.LOST, Layer.FILE_SYSTEM): Row("lost_write", "critical", condition="io_error"),
    (Kind.DROPPED, Layer.ADAPTER): Row("connection_lost", "critical", condition="io_error"),
    (Kind.HUNG, Layer.HOST): Row("hung_task", "critical", condition="hung_task"),
    (Kind.HANGS, Layer.NETWORK): Row(
        "nfs_not_responding", "critical", condition="device_unavailable"
    ),
}
_MULTIPLE = {"raid1", "raid5", "raid6", "raid10", "volume"}


def subject_of(machine: Machine, fact: Fact) -> tuple[str, str]:
    """Return the key and the name of the object that the product gives the alert of a fact."""
    name = fact.object
    layer = layer_of(machine, name)
    if layer is Layer.HOST:
        return "", ""
    if layer is Layer.NETWORK:  # the line names the server
        server = machine.nodes[name].carriers[0]
        return f"device {server}", server
    if fact.kind is not Kind.FULL:
        return _failing_key(machine, name), name
    return key_of(machine, name), name


def _failing_key(machine: Machine, name: str) -> str:
    """Return the product's key of an object that fails: that it is full is another matter."""
    below = machine.nodes[name].carriers
    if machine.nodes[name].layer is Layer.FILE_SYSTEM and len(below) == 1:
        return f"file system on {key_of(machine, below[0])}"
    return key_of(machine, name)


def key_of(machine: Machine, name: str) -> str:
    """Return the product's key of an object."""
    node = machine.nodes[name]
    if node.layer is Layer.ADAPTER:
        return f"adapter {name}"
    if node.role == "map":
        return f"device dm-{name}"
    if node.layer in {Layer.ARRAY, Layer.MAPPED}:
        return f"device {name}"
    return f"file system {name}" if node.layer is Layer.FILE_SYSTEM else f"disk {name}"


def graph_of(machine: Machine, seen: Mapping[str, float] | None = None) -> StorageGraph:
    """Return the whole graph, as the product would have it of this machine.

    `seen` is when disks that are missing were last seen.
    """
    above = {
        key_of(machine, node.name): frozenset(
            _failing_key(machine, name)
            for name in machine.carried(node.name)
            if Layer.ADAPTER <= machine.nodes[name].layer <= Layer.FILE_SYSTEM
        )
        for node in machine.nodes.values()
        if Layer.ADAPTER <= node.layer < Layer.FILE_SYSTEM
    }
    parents = {
        key_of(machine, parent): frozenset(
            key_of(machine, name)
            for name in machine.disks_of(parent)
            if machine.nodes[name].role != "behind"
        )
        for parent in machine.of_role("hba", "ahci port", "expander")
    }
    maps = {
        f"disk lun {name}": frozenset({key_of(machine, name)}) for name in machine.of_role("map")
    }
    names = {key_of(machine, name): name for name in machine.of_role("expander")}
    return StorageGraph(above, parents, names, seen or {}, maps)


def _last_seen(run: Run) -> dict[str, float]:
    """Return when disks that left while iowarden did not run were last seen."""
    return {
        key_of(run.machine, fact.object): BASE + before.stop
        for before, after in pairwise(run.lives)
        for fact in run.facts
        if fact.kind is Kind.GONE and before.stop <= fact.at < after.start
    }


@dataclass
class Spell:
    """An alert of the product over time.

    Fields: it fires from `start` until `end`, its condition is false from `absent` on; `began` is
    what the product takes for its beginning; `times` are the events, `levels` when how much
    redundancy was left.
    """

    row: Row
    fact: Fact
    subject: str
    object: str
    adapter: str
    began: float
    start: float
    absent: float
    end: float
    times: tuple[float, ...] = ()
    levels: tuple[tuple[float, str], ...] = ()
    is_baseline: bool = False
    """Whether its lines were in the log when iowarden was first started."""
    _phase: tuple[object, ...] = ()
    _alert: Alert | None = None

    def changes(self) -> Iterator[float]:
        """Yield when the alert changes; also just before it ends: it was active until then."""
        yield from (self.start, self.absent, self.end - 1.0, self.end)
        yield from self.times
        yield from (at for at, _ in self.levels)

    def begins(self) -> Iterator[float]:
        """Yield when something is there that may be due later: not when it ends."""
        yield self.start
        yield from self.times
        yield from (at for at, _ in self.levels)

    def at(self, now: float) -> Alert:
        """Return the alert as it is at a time within the spell."""
        redundancy = next((text for at, text in reversed(self.levels) if at <= now), "")
        count = sum(at <= now for at in self.times)
        over = self.absent <= now and not self.times
        severity = self.row.severity
        recent = [at for at in self.times if now - MANY_SECONDS < at <= now]
        if self.fact.kind is Kind.ERRORS and len(recent) >= MANY:
            severity = "critical"
        phase = (over, redundancy, count, severity, now if self.row.timed and not over else 0.0)
        if phase != self._phase or self._alert is None:
            self._phase, self._alert = phase, self._alert_at(now, over, redundancy, count, severity)
        return self._alert

    def _alert_at(
        self, now: float, over: bool, redundancy: str, count: int, severity: str
    ) -> Alert:
        member = self.fact.object if self.row.name == "MdMemberFaulty" else ""
        labels = {
            "alertname": self.row.name,
            "member": member,
            "condition": self.row.condition,
            "device": self.object,
            "severity": severity,
        }
        kind = Kind.EXHAUSTED if redundancy == "none" else self.fact.kind
        until = min(now, self.absent)
        active = self.began if self.row.pending else self.start
        texts = {
            "summary": f"{kind}: {self.fact.object}",
            REDUNDANCY: redundancy,
            BASELINE: "true" if self.is_baseline else "",
        }
        return Alert(
            self.row.name,
            tuple(sorted((name, text) for name, text in labels.items() if text)),
            AlertState.FIRING,
            until - self.began if self.row.timed else float(count or self.fact.value),
            tuple((name, text) for name, text in texts.items() if text),
            BASE + (self.times[0] if self.times else active),
            BASE + (self.times[0] if self.times else self.start),
            absent_seconds=BASE + self.absent if over else None,
            subject=self.subject,
            object=self.object,
            adapter=self.adapter,
            count=count,
            last_seconds=BASE + max((at for at in self.times if at <= now), default=0.0)
            if self.times
            else None,
        )


def spells(run: Run) -> list[Spell]:
    """Return the alerts that the product would have during a run."""
    result: list[Spell] = []
    lines: dict[tuple[str, Kind], list[Fact]] = {}
    states: dict[tuple[str, Kind, By], list[Fact]] = {}
    for fact in run.facts:
        if fact.by is By.LINE:
            lines.setdefault((fact.object, fact.kind), []).append(fact)
        else:
            # That no redundancy is left is an annotation of the alert about missing members.
            kind = Kind.DEGRADED if fact.kind is Kind.EXHAUSTED else fact.kind
            states.setdefault((fact.object, kind, fact.by), []).append(fact)
    for (_, kind, by), facts in states.items():
        layer = layer_of(run.machine, facts[0].object)
        for row in _RULES.get((kind, by), {}).get(layer, ()):
            for joined in _adjacent(facts):
                result += _of_rule(run, row, joined)
    for (_, kind), facts in lines.items():
        row = _LINES[kind, layer_of(run.machine, facts[0].object)]
        if facts[0].object in run.machine.of_role("behind"):
            row = Row("megaraid_pd_failed", "critical", condition="raid_array")
        result += _of_lines(run, row, facts)
    return result


def _adjacent(facts: list[Fact]) -> Iterator[list[Fact]]:
    """Yield facts that follow each other without a gap: one alert."""
    joined: list[Fact] = []
    for fact in facts:
        if joined and fact.at > max(spell.until for spell in joined) + 0.5:
            yield joined
            joined = []
        joined.append(fact)
    if joined:
        yield joined


def _of_rule(run: Run, row: Row, facts: list[Fact]) -> Iterator[Spell]:
    """Yield the alert of a rule; what was firing continues over a restart."""
    first, off = facts[0], max(fact.until for fact in facts)
    if first.kind is Kind.GONE and first.at < run.lives[0].start:
        return  # it never knew this disk
    subject, name = subject_of(run.machine, first)
    levels: tuple[tuple[float, str], ...] = ()
    if run.machine.nodes.get(first.object) and run.machine.nodes[first.object].role in _MULTIPLE:
        levels = tuple(
            (fact.at, "none" if fact.kind is Kind.EXHAUSTED else "left")
            for fact in facts
            if fact.kind in {Kind.EXHAUSTED, Kind.DEGRADED}
        )
    stored = 0.0
    for life in run.lives:
        begins = max(first.at, life.start)
        if first.kind is Kind.SUSPENDED and begins < life.stop:  # since when is remembered
            stored = begins = stored or begins
        start = max(begins + row.after, life.start)
        if row.poll:
            first_poll = life.start + FIRST_POLL_SECONDS
            start = first_poll if begins <= first_poll else _polled(begins, row.poll)
        if start < min(off, life.stop):
            absent = _running(run, _polled(off, row.poll) if row.poll else off)
            end = _running(run, absent + row.keep + 1.0)
            adapter, shown = _adapter(run, name), run.name_at(name, first.at)
            yield Spell(
                row, first, subject, shown, adapter, begins, start, absent, end, levels=levels
            )
            return


def _polled(at: float, period: float) -> float:
    return math.ceil(at / period) * period if at < math.inf else at


def _adapter(run: Run, name: str) -> str:
    """Return the adapter of the object that an alert has: its disk's, if it is one."""
    is_disk = layer_of(run.machine, name) in {Layer.DISK, Layer.VOLUME}
    return run.machine.adapter_of(name) if is_disk and name in run.machine.nodes else ""


def _running(run: Run, at: float) -> float:
    """Return a time, or when iowarden runs again and has read what it reads."""
    for before, after in pairwise(run.lives):
        if before.stop <= at < after.start + 2.0:
            return after.start + 2.0
    return at


def _of_lines(run: Run, row: Row, facts: list[Fact]) -> Iterator[Spell]:
    """Yield bursts of events; lines that came while iowarden did not run are read at its start."""
    first = run.lives[0].start
    times = sorted(fact.at for fact in facts)
    bursts: list[list[float]] = []
    for at in times:
        if bursts and at - bursts[-1][-1] <= EVENT_SECONDS:
            bursts[-1].append(at)
        else:
            bursts.append([at])
    subject, name = subject_of(run.machine, facts[0])
    for burst in bursts:
        before = burst[-1] < first
        received = first + 1.0 if before else _running(run, burst[-1])
        start = max(_running(run, burst[0] + 0.5), first + 1.0)
        end = _running(run, received + EVENT_SECONDS)
        adapter, shown = _adapter(run, name), run.name_at(name, burst[-1])
        if start < end:
            yield Spell(
                row, facts[0], subject, shown, adapter, burst[0], start, end, end, tuple(burst),
                is_baseline=before,
            )  # fmt: skip


@dataclass
class Play:
    """One run, played."""

    run: Run
    mails: list[Mail] = field(default_factory=list)
    steps: int = 0
    each_second: range = range(0)
    """Then it is called each second, as the product is: to compare."""
    acks: dict[str, Ack] = field(default_factory=dict)
    """The acknowledgements, by incident."""
    _silences: Silences = field(default_factory=Silences)
    _state: Incidents = field(default_factory=Incidents)
    _digest: digest.Digest = field(default_factory=digest.Digest)
    _acked: bool = False
    _graph: StorageGraph = field(default_factory=StorageGraph)
    _times: list[int] = field(default_factory=list)

    def play(self) -> list[Mail]:
        """Return the mails of the run."""
        self._graph = graph_of(self.run.machine, _last_seen(self.run))
        spells_ = sorted(spells(self.run), key=lambda spell: spell.start)
        previous: Life | None = None
        for life in self.run.lives:
            if previous is not None and life.start - previous.stop > incidents.UNWATCHED_SECONDS:
                by_key = incidents.unwatched(self._state.by_key, BASE + life.start)
                self._state = replace(self._state, by_key=by_key)
            self._live(
                life,
                [spell for spell in spells_ if spell.start < life.stop and life.start < spell.end],
            )
            previous = life
        return self.mails

    def _live(self, life: Life, alive: list[Spell]) -> None:
        seen: set[int] = set()
        later: list[int] = []
        mailed = [spell for spell in alive if spell.row.severity != "notice"]
        changes = sorted(
            {
                math.ceil(at)
                for spell in mailed
                for at in spell.changes()
                if life.start - QUIET[-1] <= at < life.stop
            }
            | {math.ceil(life.start)}
        )
        begins = {math.ceil(at) for spell in mailed for at in (life.start, *spell.begins())}
        for at in changes:
            self._push(at, (0, *LATE) if at in begins else (0,))
        for at, following in zip(changes, (*changes[1:], math.inf), strict=True):
            self._push(at, [offset for offset in QUIET if at + offset < following + 1])
        for spell in mailed:
            if spell.absent < life.stop:
                self._push(math.ceil(spell.absent), QUIET)
        self._push(changes[-1], range(86_400, 90_000, 3600))
        if not self._digest.arrived:
            self._push(math.ceil(life.start + REPORT_SECONDS), (0,))
        self._push(0, self.each_second)
        if self.run.acknowledged is not None:
            self._push(math.ceil(self.run.acknowledged), (0,))
        while self._times:
            now = heapq.heappop(self._times)
            if now >= life.stop:  # what waits for an interval is due in the next life
                later.append(now)
            if now in seen or not life.start <= now < min(life.stop, self.run.seconds):
                continue
            seen.add(now)
            mails, before = len(self.mails), self._state.by_key
            self._step(
                float(now),
                life,
                [spell.at(now) for spell in alive if spell.start <= now < spell.end],
            )
            if len(self.mails) > mails:
                self._push_intervals(now, self.mails[mails:])
            self._push_longer(before, now)
        self._times = sorted(set(later))

    def _push_intervals(self, now: int, mails: Iterable[Mail]) -> None:
        """Note when news about what was mailed now, that waits for the next mail, is due."""
        if any(mail.reason in GOOD for mail in mails):  # of these there are two an hour at most
            self._push(now, (3600,))
        for incident in self._state.by_key.values():
            mail = incident.last_mail
            if mail is not None and mail.seconds == BASE + now:
                number = min(incident.burst, len(INTERVALS)) - 1
                self._push(now, {INTERVALS[number], min(INTERVALS[number], ANOTHER_OBJECT)})

    def _push_longer(self, before: Mapping[str, Incident], now: int) -> None:
        """Note when what is there again will have lasted longer than what was mailed."""
        for key, incident in self._state.by_key.items():
            if incident is before.get(key):
                continue
            for record in incident.faults:
                is_again = record.reported is not None and record.count > record.reported.count
                if is_again and record.until_seconds is None:
                    longest = LONGER * record.reported.longest_seconds
                    longer = math.floor(record.since_seconds - BASE + longest)
                    if longer >= now:
                        self._push(longer, (1, 2))

    def _push(self, at: int, offsets: Iterable[int]) -> None:
        for offset in offsets:
            heapq.heappush(self._times, at + offset)

    def _step(self, now: float, life: Life, alerts: list[Alert]) -> None:
        self.steps += 1
        if self.run.acknowledged is not None and now >= self.run.acknowledged and not self._acked:
            self._acknowledge(now)
        initial = InitialReport(
            digest.initial_report_identifier(INSTALL),
            self._digest.arrived_seconds,
            lists=lambda alert: digest.entry_key(alert) in self._digest.advised,
        )
        self._state, dues, changes = incidents.next_incidents(
            self._state,
            alerts,
            BASE + now,
            incidents.Surroundings(
                install=INSTALL,
                policy=_POLICY,
                observe=lambda _: (),
                is_observable=lambda _labels, _subject: True,
                initial_report=initial,
                graph=self._graph,
                acknowledged=self._silences.by_incident(),
                started_seconds=BASE + life.start,
            ),
        )
        for change in changes:
            if change.change is IncidentChangeKind.ACK_EXPIRED:
                self._silences = drop_acknowledgement(self._silences, change.incident.identifier)
        for due in dues:
            self._mail(due, now)
        if not self._digest.arrived and now - life.start >= REPORT_SECONDS:
            self._report(now, alerts, initial)

    def _report(self, now: float, alerts: list[Alert], initial: InitialReport) -> None:
        """Make the initial report, and count what it contains as mailed by it."""
        by_key = dict(self._state.by_key)
        contained = {key: i for key, i in by_key.items() if mailing.in_report(i)}
        separate = [i for key, i in by_key.items() if i.firing and key not in contained]
        self._digest, notice = digest.initial_report(
            self._digest,
            digest.InitialContent([*contained.values()], separate, alerts, ()),
            install=INSTALL,
            now=BASE + now,
            realtime_seconds=EPOCH + now,
        )
        for key, incident in contained.items():
            by_key[key] = mailing.counted_by_report(incident, initial, BASE + now)
        self._state = replace(self._state, by_key=by_key)
        text = " ".join(notice.sentences)
        # Of many objects with one finding a few are listed and the others counted.
        reported = [*alerts, *(m for i in contained.values() for m in i.members)]
        names = {member.name for member in reported if member.summary in text}
        self._add(notice, now, frozenset(m.summary for m in reported if m.name in names))

    def _acknowledge(self, now: float) -> None:
        """Acknowledge every incident that is open and was mailed."""
        self._acked = True
        open_now = [i for i in self._state.by_key.values() if i.firing and i.mails]
        for incident in open_now:
            self._silences, _ = acknowledge(
                self._silences, open_now, incident.identifier, now=BASE + now, reason="", who="root"
            )
            active = (member for member in incident.members if member.cleared_seconds is None)
            content = frozenset(member.summary for member in active)
            self.acks[incident.identifier] = Ack(now, content)

    def _mail(self, due: DueNotice, now: float) -> None:
        sources = report.Sources(lambda at: EPOCH - BASE + at, BASE + now, (), self._topology(now))
        notice = report.notice(due, sources)
        others = [member for incident in due.companions for member in incident.members]
        members = [*due.incident.members, *others]

        def reported(members: Iterable[IncidentMember]) -> frozenset[str]:
            # What lines reported is no longer recent when nothing says that it is over.
            return frozenset(
                m.summary
                for m in members
                if m.cleared_seconds is None or (m.count and m.fact in due.updates)
            )

        # A mail lists what ended since the one before as well.
        start = due.incident.started_seconds
        start = start if due.previous is None else min(start, due.previous.seconds)
        ended = frozenset(m.summary for m in members if (m.cleared_seconds or 0.0) >= start)
        self._add(notice, now, reported(members), ended, reported(others))

    def _topology(self, now: float) -> Topology | None:
        """Return the disks that have another name than at first: nothing else asks for it."""
        renamings = [each for each in self.run.renamings if each.at <= now]
        disks = (replace(disk(each.name), wwn=each.disk) for each in renamings)
        return topology(*disks) if renamings else None

    def _add(
        self,
        notice: Notice,
        now: float,
        content: frozenset[str],
        ended: frozenset[str] = frozenset(),
        others: frozenset[str] = frozenset(),
    ) -> None:
        before = _OWN.match(notice.summary)  # the fault of the mail's object, then what is on it
        title = None if before else _TITLE.search(notice.summary)
        tag = message.subject(notice, "db1").partition("]")[0].removeprefix("[")
        self.mails.append(
            Mail(
                now,
                notice.incident,
                notice.reason.value,
                tag,
                notice.object,
                _kind_of(before["words"]) if before else title["kind"] if title else "",
                notice.object if before else title["object"] if title else "",
                content,
                ended,
                others,
            )
        )


_TITLE = re.compile(rf"(?P<kind>{'|'.join(sorted(Kind, key=len, reverse=True))}): (?P<object>.+)")
_WORDS = {
    "has errors": Kind.ERRORS,
    "had errors": Kind.ERRORS,
    "has no redundancy left": Kind.EXHAUSTED,
    "hang": Kind.HANGS,
    "have errors": Kind.ERRORS,
    "have no redundancy left": Kind.EXHAUSTED,
    "had no redundancy left": Kind.EXHAUSTED,
    "hung": Kind.HANGS,
    "lost data": Kind.LOST,
}
_OWN = re.compile(
    r"(?:\d+ (?:of \d+ )?(?:disks|multipath maps) )?"
    rf"(?P<words>(?:(?:was|were) )?(?:{'|'.join(Kind)})|{'|'.join(_WORDS)}) and "
)
_POLICY = NotificationPolicy()


def _kind_of(words: str) -> str:
    return _WORDS.get(words) or words.removeprefix("was ").removeprefix("were ")


def visible(run: Run) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Return from when until when the product had an alert of each object and kind."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for spell in spells(run):
        if spell.row.severity in {"warning", "critical"}:
            kinds = [(spell.start, spell.fact.kind.value)]
            kinds += [
                (max(at, spell.start), Kind.EXHAUSTED.value)
                for at, left in spell.levels
                if left == "none" and at < spell.end
            ]
            for at, kind in kinds:
                found.setdefault((spell.fact.object, kind), []).append((at, spell.end))
    return found
