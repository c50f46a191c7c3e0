"""The current state without what anonymous readers of the status page may not see. Pure.

They may see what /metrics shows: states, names of devices and mount points, serial numbers,
figures. They may not see kernel lines, file names, names of programs and units, command lines, mail
addresses, receivers, and what users wrote. The inputs of a page are reduced before its documents
are made, so that a text which is not known to be harmless is not shown.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.control import documents
from iowarden.daemon.storage.event_rows import OWN
from iowarden.daemon.views import waiting_answers
from iowarden.rules.advice import advice
from iowarden.rules.events import hung
from iowarden.rules.incidents import silences
from iowarden.rules.notices import report
from iowarden.rules.notices.measurements import Measured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iowarden.collectors.model import Labels
    from iowarden.daemon.views.answers import ViewInputs
    from iowarden.rules.advice.facts import Facts
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.events.event_table import EventRule
    from iowarden.rules.incidents.causes import Key
    from iowarden.rules.incidents.model import DueNotice, Incident, IncidentMember
    from iowarden.rules.notice import Notice

HIDDEN = "not shown without authentication"
USER = "a user"
LABELS = frozenset(
    "action against alertname alertstate array attribute battery cause collector condition"
    " controller counter devid device devices disk driver fsid fstype host id instance job kind"
    " member mountpoint partition recommended rule scheduler sensor serial severity slot source"
    " state used_by vendor warning window".split()
)
"""Labels of an alert whose texts are shown: names of devices and figures. An alert with another
label, such as 'program' or 'directory', is shown by its name only."""
_EVENT_ANNOTATIONS = frozenset({advice.PART, "evidence"})


def public(
    known: ViewInputs, rows: Mapping[str, EventRule], facts: Callable[[], Facts]
) -> ViewInputs:
    """Return the state for anonymous readers.

    `rows` are the classes of storage events: their meaning is shown in place of an event's text.
    `facts` are those that advice is based on.
    """
    reduced = _Reduced(rows, {each.key: each for each in known.engine.rules.alerts()})
    alerts = tuple(map(reduced.alert, known.alerts))
    return replace(
        known,
        silences=silences.Silences(
            tuple(replace(s, reason="", who=USER) for s in known.silences.silences),
            tuple(replace(a, reason="", who=USER) for a in known.silences.acknowledgements),
        ),
        mail=_receiver(known.mail, ""),
        receivers=tuple(
            _receiver(each, f"receiver {number}") for number, each in enumerate(known.receivers, 1)
        ),
        unnotified=replace(
            known.unnotified,
            reasons=(),
            by_incident=dict.fromkeys(known.unnotified.by_incident, HIDDEN),
        ),
        probe=documents.ProbeLine(connected=known.probe.connected),
        refused_reload=None
        if known.refused_reload is None
        else replace(known.refused_reload, problems=(HIDDEN,)),
        troubles=(f"{len(known.troubles)} of the service itself ({HIDDEN})",)
        if known.troubles
        else (),
        alerts=alerts,
        incidents={key: reduced.incident(each) for key, each in known.incidents.items()},
        notice=lambda due: _notice(known, due, alerts, facts),
    )


def scraped(alert: Alert, rows: Mapping[str, EventRule]) -> Alert:
    """Return an alert, which names no programs, without texts that are not public."""
    if alert.count:
        return _Reduced(rows, {}).alert(alert)
    return alert if _is_public(alert.labels) else replace(alert, annotations=_named(alert))


def _receiver(line: documents.MailLine, name: str) -> documents.MailLine:
    return replace(line, receiver=name, error=HIDDEN if line.error else "")


def status(found: documents.Status) -> documents.Status:
    """Return a status of public inputs without errors of collectors and what silences match."""
    return replace(
        found,
        configuration="",
        collectors=tuple(replace(c, error="") for c in found.collectors),
        silences=tuple(replace(s, matchers=()) for s in found.silences),
        waiting=tuple(waiting_answers.nameless(found.waiting)),
    )


def disks(found: documents.DiskList) -> documents.DiskList:
    """Return a list of disks without the texts of programs."""
    hidden = (f"{len(found.problems)} of disk discovery ({HIDDEN})",)
    return replace(
        found,
        problems=hidden if found.problems else (),
        disks=tuple(map(disk, found.disks)),
    )


def disk(found: documents.DiskLine) -> documents.DiskLine:
    """Return a disk without the texts of programs."""
    return replace(found, reason="", remedy="", unavailable=())


def detail(found: documents.DiskDetail) -> documents.DiskDetail:
    """Return the details of a disk without the texts of programs."""
    facts = tuple(each for each in found.facts if each[0] != "smartctl")
    return replace(found, line=disk(found.line), facts=facts, messages=())


def events(
    found: Iterable[documents.EventLine], rows: Mapping[str, EventRule]
) -> tuple[documents.EventLine, ...]:
    """Return storage events with the meaning of their class as text, and none of the service."""
    return tuple(
        replace(e, text=rows[e.kind].meaning if e.kind in rows else e.kind)
        for e in found
        if e.source != OWN
    )


def _named(alert: Alert) -> Labels:
    """Return a summary without labels, which an alert without one would have."""
    return (("summary", alert.name),)


def _is_public(labels: Labels) -> bool:
    return all(name in LABELS for name, _ in labels)


@dataclass(frozen=True, slots=True)
class _Reduced:
    rows: Mapping[str, EventRule]
    own: Mapping[Key, Alert]
    """The alerts of rules, without names of programs."""

    def alert(self, alert: Alert) -> Alert:
        if alert.count:
            row = self.rows.get(alert.name)
            texts = tuple(p for p in alert.annotations if p[0] in _EVENT_ANNOTATIONS)
            if row is None:
                texts = (*texts, *_named(alert))
            else:
                times = "" if alert.count == 1 else f" ({alert.count} times)"
                row = row.on(alert.label("device"))
                known = (("description", row.effect), ("advice", row.advice))
                texts = (*texts, ("summary", f"{row.meaning}{times}"), *known)
            return replace(alert, annotations=texts, unknown_reason="")
        plain = self.own.get(alert.key, alert)
        if alert.name in hung.NAMES and plain is alert:
            return replace(alert, annotations=_named(alert), unknown_reason="")
        if not _is_public(alert.labels):
            return replace(plain, annotations=_named(alert), unknown_reason="", object="")
        return replace(plain, unknown_reason="")

    def incident(self, found: Incident) -> Incident:
        shown = any(m.count or _is_public(m.labels) for m in found.members)
        return replace(
            found,
            members=tuple(map(self.member, found.members)),
            object=found.object if shown else "host",
        )

    def member(self, member: IncidentMember) -> IncidentMember:
        summary, own_advice = member.summary, member.advice
        row = self.rows.get(member.name)
        if member.count:
            summary, own_advice = ("", "") if row is None else (row.meaning, row.advice)
        elif (alert := self.own.get(member.key)) is not None and _is_public(member.labels):
            summary = alert.summary
        elif member.name in hung.NAMES or not _is_public(member.labels):
            summary = own_advice = ""
        return replace(member, summary=summary, advice=own_advice, unknown="", evidence=())


def _notice(
    known: ViewInputs, due: DueNotice, alerts: Iterable[Alert], facts: Callable[[], Facts]
) -> Notice:
    """Return the notice of a public incident: of metrics and of the storage stack alone."""
    keys = {m.key for m in due.incident.members}
    own = [a for a in alerts if a.key in keys]
    engine = known.engine
    measured = dict.fromkeys(
        sample
        for alert in own
        if not alert.count and alert.annotations != _named(alert)
        for sample in engine.rules.current(alert)
        if _is_public(sample[1])
    )
    found = report.notice(
        due,
        report.Sources(
            known.realtime,
            known.now,
            (),
            engine.last.block,
            engine.devices.dependents,
            text_of=advice.text_of_member(own, facts),
            measured=Measured(tuple(measured), engine.hub.last),
        ),
    )
    return replace(found, advice=advice.combined(found.advice))
