"""Replies of the control socket: status and alerts of the main loop as documents. Pure.

Times of the program's clock are converted to Unix time here.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Outcome
from iowarden.collectors.smart import smart_series
from iowarden.collectors.smart.drive import ReadStatus
from iowarden.daemon.control import documents
from iowarden.daemon.views import waiting_answers
from iowarden.daemon.views.headline import headline
from iowarden.daemon.views.unnotified import Unnotified
from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.faults import Fault
from iowarden.rules.incidents import fault_records, silences
from iowarden.rules.notices.course_of_events import why_cleared
from iowarden.rules.severity import Severity
from iowarden.rules.topology import inventory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iowarden.collectors.model import Labels
    from iowarden.daemon.probe.protocol import Stuck
    from iowarden.rules import selftest_schedule
    from iowarden.rules.engine.engine import Engine
    from iowarden.rules.incidents.causes import Key
    from iowarden.rules.incidents.model import DueNotice, Incident
    from iowarden.rules.notice import Notice
    from iowarden.rules.promql.evaluator import Sample
    from iowarden.rules.scan.last_read import FullReads
    from iowarden.rules.topology.inventory import InventoryDisk


_MAX_DRIVERS = 5
"""Drivers that the line about unrecognized kernel lines names."""


@dataclass(frozen=True, slots=True)
class ViewInputs:
    """The loop's state at `now`; `realtime` converts the program's clock to Unix time."""

    version: str
    host: str
    now: float
    realtime: Callable[[float], float]
    started_seconds: float
    ready: bool
    engine: Engine
    incidents: Mapping[str, Incident]
    silences: silences.Silences
    mail: documents.MailLine
    probe: documents.ProbeLine
    refused_reload: documents.RefusedReload | None
    troubles: tuple[str, ...]
    alerts: tuple[Alert, ...]
    """Alerts of the rules and of events."""
    notice: Callable[[DueNotice], Notice]
    """Renders an incident as a notice, as for a mail."""
    self_tests: selftest_schedule.Runs = field(default_factory=dict)
    full_reads: FullReads = field(default_factory=dict)
    receivers: tuple[documents.MailLine, ...] = ()
    """Those other than mail."""
    unnotified: Unnotified = field(default_factory=Unnotified)
    configuration: str = ""
    """The configuration file in use."""
    show_programs: bool = False
    """Whether names of programs, units and files may be shown."""

    def moment(self, at: float | None) -> float | None:
        """Return a time of the program's clock as Unix time, None for None."""
        return None if at is None else self.realtime(at)


def answer(known: ViewInputs) -> documents.Status:
    """Return the document of 'iowarden status', the most severe first."""
    silenced_by = _silenced_by(known)
    incidents = open_incidents(known)
    alerts = _alerts(known, _shown(known, silenced_by), silenced_by)
    statuses = known.engine.sources.values()
    return documents.Status(
        version=known.version,
        host=known.host,
        now_seconds=known.realtime(known.now),
        started_seconds=known.realtime(known.started_seconds),
        configuration=known.configuration,
        ready=known.ready,
        summary=headline(incidents, alerts),
        incidents=incidents,
        alerts=alerts,
        collectors=tuple(
            documents.SourceLine(
                s.source.name,
                "not read yet" if s.reading is None else s.reading.outcome.value,
                known.moment(s.good_seconds),
                "" if s.reading is None else s.reading.error,
            )
            for s in statuses
            if s.is_silent
        ),
        collectors_ok=sum(s.outcome() is Outcome.OK for s in statuses),
        notifications=known.mail,
        receivers=known.receivers,
        unnotified=known.unnotified.sentence,
        probe=known.probe,
        disks=disks(known.engine),
        kernel_lines=kernel_lines(known.engine),
        silences=in_force(known.silences, known.now, known.realtime),
        failed_reload=known.refused_reload,
        problems=known.troubles,
        waiting=waiting_answers.waiting(known),
    )


def kernel_lines(engine: Engine) -> str:
    """Return a line about the kernel's error lines since the start that no pattern takes."""
    log = engine.last.kernel_log
    counts = {} if log is None else log.unrecognized
    count_by_driver: Counter[str] = Counter()
    for (driver, _), count in counts.items():
        count_by_driver[driver] += count
    if not (total := count_by_driver.total()):
        return ""
    drivers = [f"{driver} {count}" for driver, count in count_by_driver.most_common(_MAX_DRIVERS)]
    drivers += ["others"] if len(count_by_driver) > _MAX_DRIVERS else []
    lines = "1 error line of storage was" if total == 1 else f"{total} error lines of storage were"
    return f"kernel log: {lines} not recognized ({', '.join(drivers)}): iowarden unparsed list"


def alerts(known: ViewInputs, wanted: Callable[[Alert], bool]) -> tuple[documents.AlertLine, ...]:
    """Return the wanted alerts that are pending, firing or unknown."""
    silenced_by = _silenced_by(known)
    return _alerts(known, filter(wanted, _shown(known, silenced_by)), silenced_by)


def shown_alerts(
    known: ViewInputs, wanted: Callable[[Alert], bool]
) -> list[tuple[Alert, documents.AlertLine]]:
    """Return the wanted alerts with their lines, the most severe first."""
    silenced_by = _silenced_by(known)
    found = [*filter(wanted, _shown(known, silenced_by))]
    return list(zip(found, _alerts(known, found, silenced_by), strict=True))


def notices(known: ViewInputs) -> list[Alert]:
    """Return the alerts without events below warning: those are no present fault."""
    return [a for a in known.alerts if not a.count or a.severity >= Severity.WARNING]


def _shown(known: ViewInputs, silenced_by: Mapping[Key, str]) -> list[Alert]:
    """Return the alerts to show, the most severe first.

    Of an alert and object with several severities, such as a warning and a critical limit, only the
    most severe one that is active.
    """
    shown = (AlertState.PENDING, AlertState.FIRING, AlertState.UNKNOWN)
    found = sorted(  # silenced alerts must not displace others
        (a for a in notices(known) if a.state in shown),
        key=lambda a: (
            a.state is AlertState.PENDING,
            a.key in silenced_by,
            a.absent_seconds is not None,
            -a.severity,
        ),
    )
    facts: dict[tuple[str, str, Labels], Alert] = {}
    for each in found:
        labels = tuple(pair for pair in each.labels if pair[0] != "severity")
        facts.setdefault((each.name, each.subject, labels), each)
    return sorted(
        facts.values(),
        key=lambda a: (
            a.state is AlertState.PENDING,
            a.key in silenced_by,
            -a.severity,
            a.name,
            a.labels,
        ),
    )


def _alerts(
    known: ViewInputs, found: Iterable[Alert], silenced_by: Mapping[Key, str]
) -> tuple[documents.AlertLine, ...]:
    homes = {m.key: i.identifier for i in _open(known) for m in i.members}
    return tuple(
        _alert(known, each, homes.get(each.key, ""), silenced_by.get(each.key)) for each in found
    )


def _open(known: ViewInputs) -> list[Incident]:
    """Return the open incidents, the most severe first."""
    found = [i for i in known.incidents.values() if i.closed_seconds is None]
    return sorted(found, key=lambda i: (not i.firing, -i.severity, i.opened_seconds))


def open_incidents(known: ViewInputs) -> tuple[documents.IncidentLine, ...]:
    """Return the open incidents, the most severe first."""
    silenced_by = _silenced_by(known)
    return tuple(_incident(known, each, silenced_by) for each in _open(known))


def incident(known: ViewInputs, identifier: str) -> documents.IncidentLine:
    """Return an incident as a line; of a deleted one only its identifier."""
    for found in known.incidents.values():
        if found.identifier == identifier:
            return _incident(known, found, _silenced_by(known))
    return documents.IncidentLine(identifier)


def _incident(
    known: ViewInputs, found: Incident, silenced_by: Mapping[Key, str]
) -> documents.IncidentLine:
    active = [m for m in found.members if m.cleared_seconds is None]
    ended = [
        m.absent_seconds if m.cleared_seconds is None else m.cleared_seconds
        for m in active or found.members
    ]
    cleared = None if None in ended else max(filter(None, ended), default=None)
    worst = max(
        active or found.members,
        key=lambda m: (
            m.key not in silenced_by,
            m.severity,
            m.what.fault is Fault.STOPPED,
            m.what.threatens,
        ),
        default=None,
    )
    # One member without silence is enough for mails: then no silence suppresses them.
    quiet = all(m.silenced or m.key in silenced_by for m in active)
    holding = [silenced_by[m.key] for m in active if quiet and m.key in silenced_by]
    said = known.silences.by_incident().get(found.identifier)
    return documents.IncidentLine(
        identifier=found.identifier,
        severity=max([found.severity, *(m.severity for m in active)]).name.lower(),
        object=found.object,
        opened_seconds=known.realtime(found.opened_seconds),
        firing=found.firing,
        summary="" if worst is None else worst.summary,
        notifications=found.mails,
        notified_seconds=known.moment(found.last_mail.seconds if found.last_mail else None),
        acknowledged=None
        if said is None
        else documents.AcknowledgementLine(
            said.who, known.realtime(said.created_seconds), said.reason
        ),
        silences=tuple(dict.fromkeys(holding)),
        closed_seconds=known.moment(found.closed_seconds),
        last_notification_reason=found.last_mail.reason if found.last_mail else "",
        recurrences=found.recurrences,
        cleared_seconds=known.moment(cleared),
        cleared_because="" if cleared is None else why_cleared(found.members),
        stays=cleared is not None and any(map(fault_records.stays, found.members)),
        unnotified=known.unnotified.by_incident.get(found.identifier, ""),
    )


def in_force(
    known: silences.Silences, now: float, realtime: Callable[[float], float]
) -> tuple[documents.SilenceLine, ...]:
    """Return the active silences, the one that ends first at the top."""
    held = sorted(known.active(now), key=lambda s: s.ends_seconds)
    return tuple(silence(each, realtime) for each in held)


def silence(found: silences.Silence, realtime: Callable[[float], float]) -> documents.SilenceLine:
    """Return a silence as a line."""
    return documents.SilenceLine(
        found.identifier,
        found.matchers,
        realtime(found.created_seconds),
        realtime(found.ends_seconds),
        found.reason,
        found.who,
    )


def result(found: list[Sample] | float, realtime_seconds: float) -> documents.Result:
    """Return the result of an expression as a document."""
    if not isinstance(found, list):
        return documents.Result(
            realtime_seconds, "scalar", (documents.ResultSample({}, _number(found)),)
        )
    return documents.Result(
        realtime_seconds,
        "vector",
        tuple(
            documents.ResultSample(
                {**({"__name__": s.name} if s.name else {}), **dict(s.labels)}, _number(s.value)
            )
            for s in found
        ),
    )


def inventory_disks(engine: Engine) -> dict[str, InventoryDisk]:
    """Return all disks with their present state, by their label."""
    smart, last, reason = engine.status(smart_series.SOURCE), engine.last, ""
    if last.smart is None:
        error = "" if smart is None or smart.reading is None else smart.reading.error
        reason = error or ("disks are not polled" if smart is None else "")
    found = inventory.inventory(
        last.smart,
        last.block,
        last.enclosure or (),
        engine.signals.inventory().seen,
        engine.signals.inventory().implausible,
        reason,
    )
    return {**inventory.vanished(engine.devices.devices.gone), **found}


def disks(engine: Engine) -> str:
    """Return a summary of all disks in one line; '' while the disks are not known."""
    return "" if engine.last.block is None else inventory.summary(inventory_disks(engine).values())


def never_polled(engine: Engine) -> bool:
    """Whether a disk has not been polled yet for the first time."""
    smart = engine.status(smart_series.SOURCE)
    if smart is None or smart.reading is None:
        return smart is not None
    disks = engine.last.smart
    return disks is not None and any(
        disk.polled.status is ReadStatus.NOT_POLLED_YET for disk in disks.by_key.values()
    )


def stuck(found: Iterable[Stuck]) -> tuple[documents.StuckLine, ...]:
    """Return the programs that are still running after SIGKILL."""
    return tuple(
        documents.StuckLine(s.pid, " ".join(s.arguments), s.devices, s.controllers, s.since_seconds)
        for s in found
    )


def _silenced_by(known: ViewInputs) -> dict[Key, str]:
    """Return the active silence of each alert that matches one."""
    found: dict[Key, str] = {}
    find = silences.finder(known.silences)
    for alert in known.alerts if known.silences.silences else ():
        held = find(alert, known.now)
        if held is not None:
            found[alert.key] = held.identifier
    return found


def _alert(
    known: ViewInputs, alert: Alert, incident: str, silence: str | None
) -> documents.AlertLine:
    since = alert.unknown_seconds if alert.state is AlertState.UNKNOWN else alert.active_seconds
    return documents.AlertLine(
        name=alert.name,
        severity=alert.severity.name.lower(),
        state=alert.state.value,
        object=alert.object or alert.label("device") or alert.label("disk") or "host",
        since_seconds=known.realtime(alert.active_seconds if since is None else since),
        summary=alert.annotation("summary"),
        value=_number(alert.value),
        labels=dict(alert.labels),
        unknown_reason=alert.unknown_reason,
        incident=incident,
        silences=() if silence is None else (silence,),
        cleared_seconds=known.moment(alert.absent_seconds),
    )


def _number(value: float) -> str:
    """Return a number in Prometheus's notation."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
