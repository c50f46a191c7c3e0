"""What comes at the same hour on several days and is no worse than usual. Pure.

A backup or a scrub makes the same disk stall each night. On the third of seven days a mail says so;
from then on it is in the weekly digest only, until it lasts longer than 1.5 times its worst, or is
more severe. What threatens data is never usual: only that programs wait, or something cannot be
read for a while.
Units: seconds of the program's clock. `local` turns these into seconds of the wall clock that
people go by: Unix time and what their zone is ahead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from iowarden.rules.alerting.alerts import Alert, State, Transition
from iowarden.rules.faults import SYMPTOMS, Fault
from iowarden.rules.incidents import causes, members
from iowarden.rules.quantity import duration
from iowarden.rules.severity import Severity
from iowarden.rules.topology.device_identity import ITSELF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iowarden.rules.incidents.model import Incident

DAY_SECONDS = 86_400.0
NEAR_SECONDS = 3600.0
"""So far from the hour of another day it is the same hour; so soon after its end it is the same."""
DAYS, OF_DAYS = 3, 7
WORSE_RATIO = 1.5
MOST_HABITS, MOST_OCCURRENCES = 500, 20
USUAL = SYMPTOMS - {Fault.SUPERBLOCK} | {Fault.HANGS, Fault.SUSPENDED}
"""Faults that may be usual."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """What was one time, with breaks shorter than an hour."""

    began_seconds: float
    spell_seconds: float
    """When it began to hold without a break."""
    until_seconds: float
    """When it last held."""
    lasted_seconds: float
    """How long it held before that."""
    severity: Severity

    @property
    def total_seconds(self) -> float:
        """Return how long it held, without the breaks."""
        return self.lasted_seconds + self.until_seconds - self.spell_seconds

    def going_on(self, began: float, until: float, severity: Severity) -> Occurrence:
        """Return it with what holds now, or did until lately."""
        worst = max(self.severity, severity)
        if began <= self.until_seconds:
            return replace(self, until_seconds=max(self.until_seconds, until), severity=worst)
        return Occurrence(self.began_seconds, began, until, self.total_seconds, worst)


@dataclass(frozen=True, slots=True)
class Habit:
    """The last times of one kind of fault of one object, the oldest first."""

    occurrences: tuple[Occurrence, ...]
    told: bool = False
    """Whether a mail has said that it is usual."""


Habits = dict[str, Habit]


def step(
    habits: Mapping[str, Habit],
    alerts: Iterable[Alert],
    now: float,
    local: Callable[[float], float],
) -> Habits:
    """Return what is known of what recurs, with what holds now."""
    found = dict(habits)
    for alert in alerts:
        key = _key(alert)
        if alert.state is not State.FIRING or alert.severity < Severity.WARNING or not key:
            continue
        began, until = members.began(alert, now), alert.missed_seconds or now
        if alert.count:
            until = alert.last_seconds or until
        habit = found.pop(key, Habit(()))
        last = habit.occurrences[-1:]
        if last and began - last[0].until_seconds <= NEAR_SECONDS:
            times = (*habit.occurrences[:-1], last[0].going_on(began, until, alert.severity))
            habit = replace(habit, occurrences=times)
        else:
            new = Occurrence(began, began, until, 0.0, alert.severity)
            times = tuple(o for o in habit.occurrences if began - o.began_seconds < _KEPT_SECONDS)
            habit = replace(habit, occurrences=(*times, new)[-MOST_OCCURRENCES:])
        found[key] = habit if _like(habit, local) else replace(habit, told=False)
    return dict(list(found.items())[-MOST_HABITS:])


_KEPT_SECONDS = OF_DAYS * DAY_SECONDS


def usual(
    habits: Mapping[str, Habit], alert: Alert, now: float, local: Callable[[float], float]
) -> str:
    """Return in words that an alert is as usual and a mail has said so, else ''."""
    habit = habits.get(_key(alert))
    if habit is None or not habit.told or now - habit.occurrences[-1].until_seconds > NEAR_SECONDS:
        return ""
    like = _like(habit, local)
    return f"as on {len(like)} of the last {OF_DAYS} days {_hour(habit, local)}" if like else ""


def sentences(
    habits: Mapping[str, Habit], incident: Incident, now: float, local: Callable[[float], float]
) -> tuple[tuple[str, ...], Habits]:
    """Return what a mail about an incident says of what recurs, and that it was said."""
    said: list[str] = []
    after = dict(habits)
    for member in incident.members:
        key = _name(member.subject, member.what.fault)
        habit = after.get(key)
        if habit is None or habit.told or now - habit.occurrences[-1].until_seconds > NEAR_SECONDS:
            continue
        like = _like(habit, local)
        if like:
            worst = max(each.total_seconds for each in like[:-1])
            said.append(
                f"This comes {_hour(habit, local)}, on {len(like)} of the last {OF_DAYS} days"
                f" ({member.name}), as bad as usual: it lasted {duration(worst)} at most. From now"
                " on the weekly digest has it; it is mailed again when it lasts longer than"
                f" {duration(WORSE_RATIO * worst)}, is more severe, or threatens data."
            )
            after[key] = replace(habit, told=True)
    return tuple(said), after


def lesser(change: Transition, text: str) -> Transition:
    """Return a change of what is usual, or was until now, as one that the weekly digest has."""
    alert = change.alert
    labels = tuple((n, "notice" if n == "severity" else v) for n, v in alert.labels)
    words = tuple(
        (n, f"{v.strip()} ({text})" if n == "summary" and text else v) for n, v in alert.annotations
    )
    return replace(change, alert=replace(alert, labels=labels, annotations=words))


def _key(alert: Alert) -> str:
    return _name(alert.subject, causes.meaning(alert).fault)


def _name(subject: str, fault: Fault) -> str:
    return "" if subject == ITSELF or fault not in USUAL else f"{fault}: {subject or causes.HOST}"


def _like(habit: Habit, local: Callable[[float], float]) -> list[Occurrence]:
    """Return the last time and those like it, of different days, if it is usual; else []."""
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
    return [*like, last] if last.total_seconds <= WORSE_RATIO * worst else []


def _hour(habit: Habit, local: Callable[[float], float]) -> str:
    """Return about when it is, to a quarter of an hour."""
    minutes = round(local(habit.occurrences[-1].began_seconds) % DAY_SECONDS / 900) * 15 % 1440
    return f"at about {minutes // 60:02}:{minutes % 60:02}"
