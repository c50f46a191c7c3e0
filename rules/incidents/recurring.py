"""Recurring alerts: at the same hour on several days, not longer or more severe. Pure.

A backup or a scrub makes the same disk stall each night. On the third of seven days a mail reports
that; from then on it is in the weekly digest only, until it lasts longer than 1.5 times its longest
duration, or is more severe. A threat to data is never usual: only blocked programs are, and data
that cannot be read for a while.
Units: seconds of the program's clock. `local` turns these into seconds of the local wall clock:
Unix time plus the offset of the time zone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.quantity import duration
from iowarden.rules.alerting.alerts import Alert, AlertState, Transition
from iowarden.rules.faults import SYMPTOMS, Fault
from iowarden.rules.incidents import causes, members
from iowarden.rules.severity import Severity
from iowarden.rules.topology.device_identity import ITSELF
from iowarden.rules.topology.graph import HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iowarden.rules.incidents.model import Incident

DAY_SECONDS = 86_400.0
NEAR_SECONDS = 3600.0
"""Up to this distance it is the same hour of another day, or the same occurrence continued."""
DAYS, OF_DAYS = 3, 7
ESCALATION_RATIO = 1.5
MAX_HABITS, MAX_OCCURRENCES = 500, 20
USUAL = SYMPTOMS - {Fault.SUPERBLOCK} | {Fault.HANGS, Fault.SUSPENDED}
"""Faults that may be usual."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One occurrence, with breaks shorter than an hour."""

    began_seconds: float
    spell_seconds: float
    """When its present spell without a break began."""
    until_seconds: float
    """When it was last active."""
    lasted_seconds: float
    """How long it was active before this spell."""
    severity: Severity

    @property
    def total_seconds(self) -> float:
        """Return how long it was active, without the breaks."""
        return self.lasted_seconds + self.until_seconds - self.spell_seconds

    def going_on(self, began: float, until: float, severity: Severity) -> Occurrence:
        """Return it extended by what is active now, or was until lately."""
        worst = max(self.severity, severity)
        if began <= self.until_seconds:
            if until <= self.until_seconds and worst is self.severity:
                return self
            return replace(self, until_seconds=max(self.until_seconds, until), severity=worst)
        return Occurrence(self.began_seconds, began, until, self.total_seconds, worst)


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The last occurrences of one fault of one object, the oldest first."""

    occurrences: tuple[Occurrence, ...]
    notified: bool = False
    """Whether a mail has reported that it is usual."""


Recurrences = dict[str, Recurrence]


def next_recurrences(
    habits: Mapping[str, Recurrence],
    alerts: Iterable[Alert],
    now: float,
    local: Callable[[float], float],
) -> Recurrences:
    """Return the habits, extended by the alerts that are active now."""
    found = dict(habits)
    for alert in alerts:
        key = _key(alert)
        if alert.state is not AlertState.FIRING or alert.severity < Severity.WARNING or not key:
            continue
        began, until = members.began(alert, now), alert.absent_seconds or now
        if alert.count:
            until = alert.last_seconds or until
        habit = found.pop(key, Recurrence(()))
        last = habit.occurrences[-1:]
        if last and began - last[0].until_seconds <= NEAR_SECONDS:
            after = last[0].going_on(began, until, alert.severity)
            if after is not last[0]:
                habit = replace(habit, occurrences=(*habit.occurrences[:-1], after))
        else:
            new = Occurrence(began, began, until, 0.0, alert.severity)
            times = tuple(
                o for o in habit.occurrences if began - o.began_seconds < _RETENTION_SECONDS
            )
            habit = replace(habit, occurrences=(*times, new)[-MAX_OCCURRENCES:])
        unchanged = not habit.notified or _like(habit, local)
        found[key] = habit if unchanged else replace(habit, notified=False)
    return dict(list(found.items())[-MAX_HABITS:])


_RETENTION_SECONDS = OF_DAYS * DAY_SECONDS


def usual(
    habits: Mapping[str, Recurrence], alert: Alert, now: float, local: Callable[[float], float]
) -> str:
    """Return a phrase if an alert is as usual and a mail has reported that, else ''."""
    habit = habits.get(_key(alert))
    if (
        habit is None
        or not habit.notified
        or now - habit.occurrences[-1].until_seconds > NEAR_SECONDS
    ):
        return ""
    like = _like(habit, local)
    return f"as on {len(like)} of the last {OF_DAYS} days {_hour(habit, local)}" if like else ""


def sentences(
    habits: Mapping[str, Recurrence],
    incident: Incident,
    now: float,
    local: Callable[[float], float],
) -> tuple[tuple[str, ...], Recurrences]:
    """Return the sentences of a mail about what recurs, and the habits marked as reported."""
    said: list[str] = []
    after = dict(habits)
    for member in incident.members:
        key = _name(member.subject, member.what.fault)
        habit = after.get(key)
        if (
            habit is None
            or habit.notified
            or now - habit.occurrences[-1].until_seconds > NEAR_SECONDS
        ):
            continue
        like = _like(habit, local)
        if like:
            worst = max(each.total_seconds for each in like[:-1])
            said.append(
                f"This recurs {_hour(habit, local)}, on {len(like)} of the last {OF_DAYS} days"
                f" ({member.name}), not longer than usual: it lasted {duration(worst)} at most."
                " From now on only the weekly digest reports it; it is mailed again if it lasts"
                f" longer than {duration(ESCALATION_RATIO * worst)}, is more severe,"
                " or threatens data."
            )
            after[key] = replace(habit, notified=True)
    return tuple(said), after


def below_warning(change: Transition, text: str) -> Transition:
    """Return a change of a usual alert with severity notice, for the weekly digest."""
    alert = change.alert
    labels = tuple((n, "notice" if n == "severity" else v) for n, v in alert.labels)
    words = tuple(
        (n, f"{v.strip()} ({text})" if n == "summary" and text else v) for n, v in alert.annotations
    )
    return replace(change, alert=replace(alert, labels=labels, annotations=words))


def _key(alert: Alert) -> str:
    return _name(alert.subject, causes.meaning(alert).fault)


def _name(subject: str, fault: Fault) -> str:
    return "" if subject == ITSELF or fault not in USUAL else f"{fault}: {subject or HOST}"


def _like(habit: Recurrence, local: Callable[[float], float]) -> list[Occurrence]:
    """Return the last occurrence and similar ones of other days, if it is usual; else []."""
    *before, last = habit.occurrences
    at = local(last.began_seconds)
    by_day: dict[int, Occurrence] = {}
    for each in before:
        ago = at - local(each.began_seconds)
        day = round(ago / DAY_SECONDS)
        if 1 <= day < OF_DAYS and abs(ago - day * DAY_SECONDS) <= NEAR_SECONDS:
            by_day[day] = max(each, by_day.get(day, each), key=lambda o: o.total_seconds)
    like = list(by_day.values())
    if len(like) + 1 < DAYS or last.severity > max(each.severity for each in like):
        return []
    worst = max(each.total_seconds for each in like)
    return [*like, last] if last.total_seconds <= ESCALATION_RATIO * worst else []


def _hour(habit: Recurrence, local: Callable[[float], float]) -> str:
    """Return the time of day of the last occurrence, to a quarter of an hour."""
    minutes = round(local(habit.occurrences[-1].began_seconds) % DAY_SECONDS / 900) * 15 % 1440
    return f"at about {minutes // 60:02}:{minutes % 60:02}"
