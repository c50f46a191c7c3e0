"""Table columns for incidents, alerts and silences of the control socket. Pure.

A table of `daemon.terminal.console` shows all of them, or those that it names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.quantity import lower_bound
from iowarden.daemon.terminal.times import at_text, since_text, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iowarden.daemon.control.documents import AlertLine, IncidentLine, SilenceLine
    from iowarden.daemon.control.waiting_document import WaitingLine
    from iowarden.daemon.terminal.console import Columns
    from iowarden.rules.matcher import Matcher


def of_incidents(now: float) -> Columns[IncidentLine]:
    """Return the columns of incidents, open or closed."""
    return {
        "severity": lambda i: i.severity,
        "incident": lambda i: i.identifier,
        "object": lambda i: i.object,
        "since": lambda i: since_text(i.opened_seconds, now),
        "closed": lambda i: since_text(i.closed_seconds, now),
        "notifications": lambda i: mails_text(i, now),
        "summary": lambda i: _incident(i, now),
    }


def state_of(alert: AlertLine) -> str:
    """Return the state of an alert: it still fires for a while after its expression is false."""
    return alert.state if alert.cleared_seconds is None else "cleared"


def of_alerts(now: float) -> Columns[AlertLine]:
    """Return the columns of alerts."""
    return {
        "severity": lambda a: a.severity,
        "state": state_of,
        "alert": lambda a: a.name,
        "object": lambda a: a.object,
        "since": lambda a: since_text(a.since_seconds, now),
        "summary": lambda a: _alert(a, now),
    }


def of_silences(now: float) -> Columns[SilenceLine]:
    """Return the columns of active silences."""
    return {
        "silence": lambda s: s.identifier,
        "alerts": lambda s: matchers_text(s.matchers),
        "ends": lambda s: f"{at_text(s.ends_seconds)} ({span(s.ends_seconds - now)} left)",
        "by": lambda s: s.who,
        "reason": lambda s: s.reason,
    }


def of_waiting(now: float) -> Columns[WaitingLine]:
    """Return the columns of programs that wait for storage."""
    return {
        "device": lambda w: w.device or "not known",
        "program": lambda w: w.program or "a program",
        "unit": lambda w: w.unit,
        "tasks": lambda w: str(w.tasks),
        "call": lambda w: w.call,
        "file": lambda w: w.file,
        "at least": lambda w: lower_bound(w.seconds),
        "when": lambda w: "now" if w.waits_now else since_text(w.seen_seconds, now),
        "because of": lambda w: w.because or w.cause,
    }


def mails_text(incident: IncidentLine, now: float) -> str:
    """Return the number of notifications of an incident, and reason and time of the last one.

    Where no receiver accepted one, why.
    """
    if not incident.notifications:
        return "none yet"
    if incident.unnotified:
        return f"none accepted of {incident.notifications}: {incident.unnotified}"
    reason = f": {incident.last_notification_reason}" if incident.last_notification_reason else ""
    at = incident.notified_seconds
    when = "" if at is None else f" at {since_text(at, now)}"
    return f"{incident.notifications}, last{reason}{when}"


def matchers_text(matchers: Sequence[Matcher]) -> str:
    """Return matchers as they are typed on the command line."""
    return " ".join(f"{m.label}{m.operator}{quoted(m.text)}" for m in matchers)


def quoted(text: str) -> str:
    """Return a label's value, quoted and escaped as in PromQL."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _incident(incident: IncidentLine, now: float) -> str:
    """Return the summary of an incident; in brackets acknowledgement and silences."""
    marks = [] if incident.firing else ["not resolved yet"]
    if (known := incident.acknowledged) is not None:
        reason = f": {known.reason}" if known.reason else ""
        marks.append(f"acknowledged by {known.who}{reason}")
    marks += _silenced(incident.silences)
    is_notified = incident.notifications and not incident.unnotified
    marks += [] if is_notified else ["not notified yet"]
    why = incident.cleared_because
    return _marked(incident.summary, incident.cleared_seconds, now, marks, why)


def _alert(alert: AlertLine, now: float) -> str:
    """Return the summary of an alert, of a cleared one the last; in brackets its silences."""
    marks = [alert.unknown_reason] if alert.unknown_reason else []
    marks += _silenced(alert.silences)
    return _marked(alert.summary or alert.value, alert.cleared_seconds, now, marks)


def _silenced(silences: Sequence[str]) -> list[str]:
    return [f"silenced by {', '.join(silences)}"] if silences else []


def _marked(
    summary: str, cleared_seconds: float | None, now: float, marks: Sequence[str], why: str = ""
) -> str:
    if cleared_seconds is not None:
        reason = f" ({why})" if why else ""
        summary = f"cleared {span(now - cleared_seconds)} ago{reason}; was: {summary}"
    return summary + "".join(f" [{mark}]" for mark in marks)
