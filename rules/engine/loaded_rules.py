"""Rules in force: what each reads, how far it looks back, when it is due, its alerts. Pure."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iowarden.rules.promql.evaluator import SUBQUERY_STEP_SECONDS
from iowarden.rules.promql.evidence import STEADY, Drift, drift
from iowarden.rules.promql.parser import parse
from iowarden.rules.promql.store import LOOKBACK_SECONDS
from iowarden.rules.rulefile.rulefile import RecordingRule, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iowarden.rules.alerting.alerts import Alert, Alerts
    from iowarden.rules.promql.evaluator import Expression
    from iowarden.rules.rulefile.rulefile import RuleGroup

RECENT = "iowarden_alert_recent_firings"


@dataclass(slots=True, eq=False)
class LoadedRule:
    """A rule and what is known of it.

    Fields: `key` is its own among all rules; `metrics` are those it reads, behind recording rules,
    without the alerts' own; `windows` is how far it looks back, by metric ('' is any); `doubtful`:
    it could be true only because nobody watched for long enough; `left_until`: it was too
    expensive, and is left alone until then.
    """

    rule: Rule | RecordingRule
    key: str
    step_seconds: float
    limit: int
    metrics: frozenset[str]
    windows: dict[str, float]
    doubtful: bool
    alerts: Alerts = field(default_factory=dict)
    left_until: float = -math.inf

    @property
    def name(self) -> str:
        """Return what it is called: others may be called so, too."""
        return self.rule.alert if isinstance(self.rule, Rule) else self.rule.record

    @property
    def severity(self) -> str | None:
        """Return the severity it gives its alerts; None: their series bring one, or none."""
        if isinstance(self.rule, RecordingRule):
            return None
        template = next((t for name, t in self.rule.labels if name == "severity"), None)
        return None if template is None else template.render({}, 0.0, None)

    def owns(self, alert: Alert) -> bool:
        """Whether an alert belongs to it: severities tell rules of one name apart."""
        return (
            isinstance(self.rule, Rule)
            and self.rule.alert == alert.name
            and self.severity in (None, alert.label("severity"))
        )


@dataclass(slots=True)
class LoadedGroup:
    """Rules that are evaluated together, in order, and when they are due."""

    name: str
    interval_seconds: float
    rules: tuple[LoadedRule, ...]
    due_seconds: float


def load(
    groups: Sequence[RuleGroup], now: float, default_interval_seconds: float
) -> list[LoadedGroup]:
    """Return what is to be evaluated; all groups are due at once."""
    records = [r for group in groups for r in group.rules if isinstance(r, RecordingRule)]
    drift_of = _drifts(records)
    number = itertools.count()

    def loaded(rule: Rule | RecordingRule, group: RuleGroup) -> LoadedRule:
        windows = _windows(rule.expression, records)
        return LoadedRule(
            rule=rule,
            key=f"rule_{next(number)}",
            step_seconds=group.interval_seconds or SUBQUERY_STEP_SECONDS,
            limit=group.limit,
            metrics=_metrics(rule.expression, records),
            windows=windows,
            doubtful=bool(windows) and drift_of(rule.expression).vanishes,
        )

    return [
        LoadedGroup(
            group.name,
            group.interval_seconds or default_interval_seconds,
            tuple(loaded(rule, group) for rule in group.rules),
            now,
        )
        for group in groups
    ]


def _drifts(records: Sequence[RecordingRule]) -> Callable[[Expression], Drift]:
    """Return what tells what more history could do to a result, behind recording rules."""
    known: dict[str, Drift] = {}

    def recorded(name: str) -> Drift:
        if name not in known:
            known[name] = STEADY  # what reads itself is told by the rest of it
            for rule in records:
                if rule.record == name:
                    known[name] |= of(rule.expression)
        return known[name]

    def of(expression: Expression) -> Drift:
        return drift(parse(expression.text), recorded)

    return of


def _behind(expression: Expression, records: Sequence[RecordingRule]) -> Iterator[Expression]:
    """Give an expression and those of the recording rules that it reads."""
    todo, seen = [expression], set[str]()
    while todo:
        one = todo.pop()
        yield one
        todo += [rule.expression for rule in records if rule.record in one.names - seen]
        seen |= one.names


def _metrics(expression: Expression, records: Sequence[RecordingRule]) -> frozenset[str]:
    """Return the metrics an expression reads, behind recording rules, without alerts'."""
    names = frozenset[str]().union(*(each.names for each in _behind(expression, records)))
    return names - {RECENT, *(rule.record for rule in records)}


def _windows(expression: Expression, records: Sequence[RecordingRule]) -> dict[str, float]:
    """Return how far an expression looks back, behind recording rules, by metric."""
    windows: dict[str, float] = {}
    for one in _behind(expression, records):
        for name, seconds in (*one.retention_seconds.items(), ("", one.any_retention_seconds)):
            if seconds:
                windows[name] = max(seconds - LOOKBACK_SECONDS, windows.get(name, 0.0))
    return windows
