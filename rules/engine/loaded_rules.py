"""The loaded rules: the metrics that each reads, its windows, when it is due, its alerts. Pure."""

from __future__ import annotations

import itertools
import math
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.promql.evaluator import SUBQUERY_STEP_SECONDS
from iowarden.rules.promql.evidence import STEADY, Drift, drift
from iowarden.rules.promql.parser import parse
from iowarden.rules.promql.store import LOOKBACK_SECONDS
from iowarden.rules.rulefile.rulefile import RecordingRule, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from iowarden.rules.alerting.alerts import Alert, Alerts
    from iowarden.rules.promql.evaluator import Expression
    from iowarden.rules.rulefile.rulefile import RuleGroup

GRACE_SECONDS = 0.5
"""A rule group is due half a second early rather than a whole tick late."""
RECENT = "iowarden_alert_recent_firings"


@dataclass(slots=True, eq=False)
class LoadedRule:
    """A rule and its state.

    Fields: `key` is unique among all rules; `metrics` are those it reads, also through recording
    rules, without ALERTS; `windows` is the range it needs, by selector; `needs_history`:
    it could be true only because history is still incomplete; `is_shipped`: it comes with iowarden;
    `left_until`: it was too expensive and is not evaluated until then; `empty_version`: the version
    of the store at which it had no result, None: not known, or the result may change with time;
    `empty_by`: the metrics from which that followed; `certain`: the part of the expression that is
    true without the metrics in front of it (rules/engine/visibility.py), None: not computed yet.
    """

    rule: Rule | RecordingRule
    key: str
    step_seconds: float
    limit: int
    metrics: frozenset[str]
    windows: dict[str, float]
    needs_history: bool
    is_shipped: bool = True
    alerts: Alerts = field(default_factory=dict)
    left_until: float = -math.inf
    empty_version: int | None = None
    empty_by: frozenset[str] = frozenset()
    certain: tuple[frozenset[str], Expression | None] | None = None

    def found(self, samples: Sequence[object], version: int, empty_by: frozenset[str]) -> None:
        """Note what it found at a version of the store: nothing, and why, or something.

        A user's rule is evaluated as Prometheus does, which reports errors of every part of it.
        """
        expression = self.rule.expression
        if not samples and expression.is_steady:
            self.empty_version = version
            self.empty_by = empty_by if self.is_shipped else expression.names

    @property
    def name(self) -> str:
        """Return its name, which several rules may share."""
        return self.rule.alert if isinstance(self.rule, Rule) else self.rule.record

    @property
    def severity(self) -> str | None:
        """Return the severity of its alerts; None: it comes from their series, or there is none."""
        if isinstance(self.rule, RecordingRule):
            return None
        template = next((t for name, t in self.rule.labels if name == "severity"), None)
        return None if template is None else template.render({}, 0.0, None)

    @property
    def condition(self) -> str | None:
        """Return the condition of its alerts, '' if they have none; None: it is made per alert."""
        if isinstance(self.rule, RecordingRule):
            return ""
        text = next((t.text for name, t in self.rule.labels if name == "condition"), "")
        return None if "{{" in text else text

    def owns(self, alert: Alert) -> bool:
        """Whether an alert belongs to this rule: rules of one name differ in severity."""
        return (
            isinstance(self.rule, Rule)
            and self.rule.alert == alert.name
            and self.severity in (None, alert.label("severity"))
        )


@dataclass(slots=True)
class LoadedGroup:
    """Rules that are evaluated together, in order, and when they are due.

    Fields: `file`: the rule file; `position`: the next rule of an evaluation that did not end in
    its tick; `last_seconds`: when one of its rules was evaluated last; `waiting_seconds`: since
    when it is due and not evaluated to its end; `late_seconds`: how long that took the last time.
    """

    name: str
    interval_seconds: float
    rules: tuple[LoadedRule, ...]
    due_seconds: float
    is_shipped: bool = True
    file: str = ""
    position: int = 0
    last_seconds: float = -math.inf
    waiting_seconds: float | None = None
    late_seconds: float = 0.0

    def is_due(self, now: float) -> bool:
        """Whether it is to be evaluated, or the rest of it."""
        return self.position > 0 or now >= self.due_seconds - GRACE_SECONDS

    def wait(self, now: float) -> None:
        """Note that it is due; a host that was suspended does not make it late."""
        if self.waiting_seconds is None:
            self.waiting_seconds = now

    def delay_seconds(self, now: float) -> float:
        """Return how much later than possible its last rules are evaluated, or were the last time.

        Rules that take two minutes are late all the time, not only at the end of each evaluation.
        """
        waited = 0.0 if self.waiting_seconds is None else now - self.waiting_seconds
        return max(self.late_seconds, waited)

    def ended(self, now: float) -> None:
        """Set when it is due again, all its rules having been evaluated."""
        self.position = 0
        self.late_seconds = 0.0 if self.waiting_seconds is None else now - self.waiting_seconds
        self.waiting_seconds = None
        interval = self.interval_seconds
        self.due_seconds = max(self.due_seconds + interval, now + interval / 2)


def load(
    groups: Sequence[RuleGroup], now: float, default_interval_seconds: float
) -> list[LoadedGroup]:
    """Return the groups to evaluate; all are due at once."""
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
            needs_history=bool(windows) and drift_of(rule.expression).vanishes,
            is_shipped=group.is_shipped,
        )

    return [
        LoadedGroup(
            group.name,
            group.interval_seconds or default_interval_seconds,
            tuple(loaded(rule, group) for rule in group.rules),
            now,
            group.is_shipped,
            group.file,
        )
        for group in groups
    ]


def delays_by_file(groups: Iterable[LoadedGroup], now: float) -> dict[str, float]:
    """Return how late the rules of each file of the user are: those that are latest."""
    delays: dict[str, float] = {}
    for group in groups:
        if not group.is_shipped:
            delays[group.file] = max(delays.get(group.file, 0.0), group.delay_seconds(now))
    return delays


def _drifts(records: Sequence[RecordingRule]) -> Callable[[Expression], Drift]:
    """Return how more history could change a result, including recording rules that it reads."""
    known: dict[str, Drift] = {}

    def recorded(name: str) -> Drift:
        if name not in known:
            known[name] = STEADY  # a recursion adds nothing
            for rule in records:
                if rule.record == name:
                    known[name] |= of(rule.expression)
        return known[name]

    def of(expression: Expression) -> Drift:
        return drift(parse(expression.text), recorded)

    return of


def _behind(expression: Expression, records: Sequence[RecordingRule]) -> Iterator[Expression]:
    """Yield an expression and those of the recording rules that it reads."""
    todo, seen = [expression], set[str]()
    while todo:
        one = todo.pop()
        yield one
        todo += [rule.expression for rule in records if rule.record in one.names - seen]
        seen |= one.names


def _metrics(expression: Expression, records: Sequence[RecordingRule]) -> frozenset[str]:
    """Return the metrics that an expression reads, also through recording rules, without ALERTS."""
    names = frozenset[str]().union(*(each.names for each in _behind(expression, records)))
    return names - {RECENT, *(rule.record for rule in records)}


def _windows(expression: Expression, records: Sequence[RecordingRule]) -> dict[str, float]:
    """Return the range that an expression needs by selector, also through recording rules."""
    windows: dict[str, float] = {}
    for one in _behind(expression, records):
        for window in one.windows:
            known = windows.get(window.selector, 0.0)
            windows[window.selector] = max(window.seconds - LOOKBACK_SECONDS, known)
    return windows
