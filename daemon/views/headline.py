"""The first line of 'iowarden status' and of the page: the worst in words, then how many others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.daemon.control.tense import is_present, tensed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iowarden.daemon.control.documents import AlertLine, IncidentLine

_RANKS = {"critical": 3, "warning": 2, "notice": 1, "info": 0}
_WARNING = _RANKS["warning"]


def headline(incidents: Sequence[IncidentLine], alerts: Sequence[AlertLine]) -> str:
    """Return 'critical: sda: no request completed for 20 s; 2 more open incidents'.

    `incidents` are open. What fires comes before what has cleared, then the most severe, and what
    is mailed before what is silenced or acknowledged; notices and the like are only counted.
    """
    firing = [alert for alert in alerts if alert.state == "firing"]
    worst = max((_RANKS.get(alert.severity, 0) for alert in firing), default=0)
    word = next(name for name, rank in _RANKS.items() if rank == worst)
    parts = _worst(incidents, firing)
    if not parts and firing:
        parts = [f"no open incident; {_counted(len(firing), 'alert')} below warning"]
    unknown = [alert for alert in alerts if alert.state == "unknown"]
    if unknown:
        parts.append(f"{_counted(len(unknown), 'alert')} unknown")
    if silenced := sum(bool(alert.silences) for alert in firing):
        parts.append(f"{_counted(silenced, 'alert')} silenced")
    if worst < _WARNING:  # what cannot be read is not OK
        unrepaired = [line for line in incidents if line.stays and not line.silences]
        is_unknown = any(map(_is_major, unknown)) or any(map(_is_major, unrepaired))
        word = "unknown" if is_unknown else "ok"
    return f"{word}: {'; '.join(parts) or 'no alert fires'}"


def _worst(incidents: Sequence[IncidentLine], firing: Sequence[AlertLine]) -> list[str]:
    """Return what is worst, and how many others there are; [] if nothing is."""
    alone = [alert for alert in firing if not alert.incident and _is_major(alert)]
    ranked = [(_rank(line), _title(line)) for line in incidents]
    ranked += [
        (
            (is_present(alert), _RANKS[alert.severity], not alert.silences),
            tensed(titled(alert.object, alert.summary or alert.name), alert),
        )
        for alert in alone
    ]
    if not ranked:
        return []
    _, text = max(ranked, key=lambda one: one[0])
    others = len(ranked) - 1
    if not others:
        return [text]
    return [text, f"{others} more" if alone else _counted(others, "more open incident")]


def _is_major(line: AlertLine | IncidentLine) -> bool:
    return _RANKS.get(line.severity, 0) >= _WARNING


def _rank(line: IncidentLine) -> tuple[bool, int, bool]:
    is_quiet = bool(line.silences) or line.acknowledged is not None
    return is_present(line), _RANKS.get(line.severity, 0), not is_quiet


def _title(line: IncidentLine) -> str:
    return tensed(titled(line.object, line.summary), line)


def titled(name: str, summary: str) -> str:
    """Return a summary that names its object, as the subject of a mail does."""
    short = name.partition(" (")[0]
    if not summary:  # a reader without authentication may not see it
        return f"an incident of {short or 'this host'}"
    return summary if short in {"", "host"} or short in summary else f"{short}: {summary}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s'[: number != 1]}"
