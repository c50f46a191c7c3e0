"""One line for Nagios, Icinga and Checkmk about the state of the running service. Pure.

Sources: Monitoring Plugins Development Guidelines ('Plugin Output', 'Performance data', 'Plugin
Return Codes': a service that does not run is critical, what cannot be determined is unknown);
Checkmk, 'Local checks'. The pipe ends the text there, so that none is in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.control.tense import tensed
from iowarden.daemon.sanitize import one_line, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.daemon.control.documents import AlertLine, IncidentLine, Status

OK, WARNING, CRITICAL, UNKNOWN = range(4)
"""Exit statuses."""
STATES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
SERVICE = "iowarden"
MAX_LISTED = 3
"""Problems with a text of their own; the others are counted. NRPE 2 carries 1 KiB."""
MAX_CHARACTERS = 200
"""Of the text of one problem."""
_STATUS = {"critical": CRITICAL, "warning": WARNING}
_WORST_FIRST = (CRITICAL, WARNING, UNKNOWN)
_FORBIDDEN = str.maketrans({"|": "/", "\\": "/"})


@dataclass(frozen=True, slots=True)
class Metric:
    """A number of the line; `warning` and `critical`: from this number on."""

    name: str
    value: int
    warning: int | None = None
    critical: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What a plugin reports."""

    status: int
    text: str
    metrics: tuple[Metric, ...] = ()


@dataclass(frozen=True, slots=True)
class _Problem:
    """An incident, or an alert that is in none."""

    status: int
    text: str


def result_of(status: Status) -> Result:
    """Return the worst of what fires and is not silenced, of warning or higher.

    Silenced alerts only count in the numbers; an acknowledged incident is still a fault of the
    host. An alert whose data are unavailable is unknown, and so is a service without all data, and
    lost data or a failed file system of which no line came lately: no line is no repair.
    """
    problems = sorted(_problems(status), key=lambda each: _WORST_FIRST.index(each.status))
    unknown = [each for each in _relevant(status) if each.state == "unknown"]
    worst = problems[0].status if problems else OK
    if worst == OK and not status.ready:
        worst = UNKNOWN
    texts = [each.text for each in problems[:MAX_LISTED]]
    if (more := len(problems) - MAX_LISTED) > 0:
        texts.append(f"{more} more: iowarden status")
    if not status.ready:
        texts.append("not all data has been read yet")
    count = [each.status for each in problems].count
    metrics = (
        Metric("critical", count(CRITICAL), critical=1),
        Metric("warning", count(WARNING), warning=1),
        Metric("unknown", len(unknown) + len(_unrepaired(status))),
        Metric("silenced", sum(_is_silenced(status, each) for each in _severe(status))),
        Metric("notifications_waiting", status.notifications.waiting),
    )
    return Result(worst, "; ".join(texts) or f"no problems; {status.disks}".rstrip("; "), metrics)


def _severe(status: Status) -> Iterator[AlertLine]:
    """Yield the alerts that fire, or may, of warning or higher."""
    for alert in status.alerts:
        if alert.severity in _STATUS and alert.state in {"firing", "unknown"}:
            yield alert


def _relevant(status: Status) -> list[AlertLine]:
    return [each for each in _severe(status) if not _is_silenced(status, each)]


def _is_silenced(status: Status, alert: AlertLine) -> bool:
    of = (each.silences for each in status.incidents if each.identifier == alert.incident)
    return bool(alert.silences) or (bool(alert.incident) and any(of))


def _problems(status: Status) -> Iterator[_Problem]:
    """Yield the incidents that such alerts are in, and the alerts that are in none."""
    incidents = {each.identifier: each for each in status.incidents}
    found: dict[str, list[AlertLine]] = {}
    for alert in _relevant(status):
        own = alert.incident if alert.incident in incidents else f"{alert.name} {alert.object}"
        found.setdefault(f"{own} {alert.state == 'unknown'}", []).append(alert)
    for alerts in found.values():
        first = min(alerts, key=lambda each: _WORST_FIRST.index(_STATUS[each.severity]))
        incident = incidents.get(first.incident)
        if first.state == "unknown":
            reason = f" ({first.unknown_reason})" if first.unknown_reason else ""
            yield _Problem(UNKNOWN, _short(f"{first.object}: {first.name} unknown{reason}"))
        elif incident is None:
            text = tensed(first.summary, first)
            yield _Problem(_STATUS[first.severity], _short(f"{first.object}: {text}"))
        else:
            known = ", acknowledged" if incident.acknowledged else ""
            summary = incident.summary or first.summary
            summary = tensed(summary, incident)
            text = _short(f"{incident.object}: {summary}")
            about = f"{text} (incident {incident.identifier}{known})"
            yield _Problem(_STATUS[first.severity], about)
    for each in _unrepaired(status):
        text = _short(f"{each.object}: {tensed(each.summary, each)}; {each.cleared_because}")
        yield _Problem(UNKNOWN, f"{text} (incident {each.identifier})")


def _unrepaired(status: Status) -> list[IncidentLine]:
    """Return the open incidents whose lines have ceased, and what they reported need not have."""
    return [
        each
        for each in status.incidents
        if each.stays and each.severity in _STATUS and not each.silences
    ]


def _short(text: str) -> str:
    return shorten(one_line(text), MAX_CHARACTERS)


def nagios_line(result: Result) -> str:
    """Return 'IOWARDEN CRITICAL: text | critical=1;;0;0 ...'. A range '0' means: alert above 0."""
    text = f"{SERVICE.upper()} {STATES[result.status]}: {_plain(result.text)}"
    numbers = " ".join(
        f"{each.name}={each.value};{_range(each.warning)};{_range(each.critical)};0"
        for each in result.metrics
    )
    return f"{text} | {numbers}" if numbers else text


def checkmk_line(result: Result) -> str:
    """Return '2 "iowarden" critical=1;;1;0|... text'; '-' without numbers."""
    numbers = "|".join(
        f"{each.name}={each.value};{_level(each.warning)};{_level(each.critical)};0"
        for each in result.metrics
    )
    return f'{result.status} "{SERVICE}" {numbers or "-"} {_plain(result.text)}'


def _plain(text: str) -> str:
    return one_line(text, MAX_CHARACTERS * (MAX_LISTED + 2)).translate(_FORBIDDEN)


def _range(level: int | None) -> str:
    return "" if level is None else str(level - 1)


def _level(level: int | None) -> str:
    return "" if level is None else str(level)
