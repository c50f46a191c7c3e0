"""Unit tests of rules in promtool's format: parse them, run them on our own evaluator. Pure.

Source: Prometheus 3, 'Unit testing for rules'; failures are shown as by promtool.
Limits: no histograms; 1,000,000 evaluations a test.
Units: seconds since the start of a test.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import yaml

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.alerting import alerts as life
from iowarden.rules.alerting import results
from iowarden.rules.promql import notation
from iowarden.rules.promql.errors import EvaluationError, PromqlError
from iowarden.rules.promql.evaluator import Sample, compile_expression
from iowarden.rules.promql.format import quoted, shortest
from iowarden.rules.promql.store import SeriesStore
from iowarden.rules.rulefile.rulefile import RecordingRule, Rule
from iowarden.rules.yaml_nodes import Nodes, compose, start

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iowarden.rules.promql.evaluator import Expression
    from iowarden.rules.promql.store import Labels
    from iowarden.rules.rulefile.rulefile import RuleGroup

DEFAULT_INTERVAL_SECONDS = 60.0
MAX_EVALUATIONS = 1_000_000
FOREVER_SECONDS = 1e12
"""A test retains all samples: any expression may use them."""

LabelsAndAnnotations = tuple["Labels", tuple[tuple[str, str], ...]]
"""Labels and annotations of an alert."""
Element = tuple["Labels", float]
"""Labels, with the name as `__name__`, and value."""


@dataclass(frozen=True, slots=True)
class AlertTest:
    """Expected firing alerts of a name at a time."""

    at_seconds: float
    name: str
    expected: tuple[LabelsAndAnnotations, ...]


@dataclass(frozen=True, slots=True)
class ExpressionTest:
    """Expected result of an expression at a time."""

    at_seconds: float
    text: str
    expected: tuple[Element, ...]


@dataclass(frozen=True, slots=True)
class InputSeries:
    """The samples of one input series, one each interval."""

    name: str
    labels: Labels
    values: tuple[notation.SeriesValue, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A test: input series, and the expected alerts and results."""

    name: str
    interval_seconds: float
    start_seconds: float
    """Unix time at which the series begin."""
    series: tuple[InputSeries, ...]
    alerts: tuple[AlertTest, ...]
    expressions: tuple[ExpressionTest, ...]
    external_labels: tuple[tuple[str, str], ...]
    external_url: str

    @property
    def end_seconds(self) -> float:
        """Return the time of the last check."""
        asked = [one.at_seconds for one in self.alerts]
        asked += [one.at_seconds for one in self.expressions]
        return max(asked, default=0.0)


@dataclass(frozen=True, slots=True)
class UnitTests:
    """A file of unit tests; `rule_files` are patterns relative to it."""

    rule_files: tuple[str, ...]
    interval_seconds: float
    group_order: tuple[str, ...]
    fuzzy: bool
    tests: tuple[Case, ...]


# --- reading

_FILE_KEYS = ("rule_files", "evaluation_interval", "group_eval_order", "fuzzy_compare", "tests")
_TEST_KEYS = (
    "name",
    "interval",
    "start_timestamp",
    "input_series",
    "alert_rule_test",
    "promql_expr_test",
    "external_labels",
    "external_url",
)
_EXPECTED_KEYS = ("exp_labels", "exp_annotations")
_Fields = dict[str, tuple[yaml.Node, yaml.Node]]
_NOTHING = UnitTests((), DEFAULT_INTERVAL_SECONDS, (), fuzzy=False, tests=())


def parse_unit_tests(text: str, file: str) -> UnitTests:
    """Return the tests of a file; `file` is its name, for messages.

    Errors: RuleFileError with all faults.
    """
    root = compose(text, file)
    nodes = Nodes(text, file)
    found = _TestFileReader(nodes).file(root) if root is not None else _NOTHING
    nodes.finish()
    return found


class _TestFileReader:
    """Reads the YAML nodes of a test file."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def file(self, root: yaml.Node) -> UnitTests:
        fields = self._nodes.mapping(root, "file", _FILE_KEYS)
        interval = self._interval(fields, "evaluation_interval", DEFAULT_INTERVAL_SECONDS)
        order: list[str] = []
        for node in self._list(fields, "group_eval_order", ""):
            name = self._nodes.string(node, "group_eval_order")
            if name in order:
                message = f"group name repeated in evaluation order: {name!r}; keep one"
                self._nodes.wrong(start(node), message)
            order.append(name)
        fuzzy = self._text(fields, "fuzzy_compare", "").lower()
        if fuzzy not in {"", "true", "false"}:
            message = f"fuzzy_compare: expected true or false, got {fuzzy!r}"
            self._nodes.wrong(start(fields["fuzzy_compare"][1]), message)
        return UnitTests(
            tuple(
                self._nodes.string(node, "rule_files")
                for node in self._list(fields, "rule_files", "")
            ),
            interval,
            tuple(order),
            fuzzy == "true",
            tuple(
                self._test(node, f"test {number}", interval)
                for number, node in enumerate(self._list(fields, "tests", ""), start=1)
            ),
        )

    def _test(self, node: yaml.Node, what: str, default_seconds: float) -> Case:
        fields = self._nodes.mapping(node, what, _TEST_KEYS)
        name = self._text(fields, "name", what)
        what = f"{what} {name!r}" if name else what
        alerts = [
            self._alert_test(one, f"{what}: alert_rule_test")
            for one in self._list(fields, "alert_rule_test", what)
        ]
        expressions = [
            self._expression_test(one, f"{what}: promql_expr_test")
            for one in self._list(fields, "promql_expr_test", what)
        ]
        return Case(
            name=name,
            interval_seconds=self._interval(fields, "interval", default_seconds),
            start_seconds=self._start(fields, what),
            series=tuple(
                found
                for one in self._list(fields, "input_series", what)
                if (found := self._series(one, f"{what}: input_series")) is not None
            ),
            alerts=tuple(alerts),
            expressions=tuple(expressions),
            external_labels=self._pairs(fields, "external_labels", what),
            external_url=self._text(fields, "external_url", what),
        )

    def _start(self, fields: _Fields, what: str) -> float:
        text = self._text(fields, "start_timestamp", what)
        if not text or re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", text, re.ASCII):
            return float(text or 0)
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            message = (
                f"{what}: start_timestamp: expected seconds since 1970 or a time such as"
                f" 2021-01-01T00:00:00Z, got {text!r}"
            )
            self._nodes.wrong(start(fields["start_timestamp"][1]), message)
            return 0.0
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()

    def _series(self, node: yaml.Node, what: str) -> InputSeries | None:
        fields = self._nodes.mapping(node, what, ("series", "values"))
        try:
            name, labels = notation.series(self._text(fields, "series", what))
            values = notation.values(self._text(fields, "values", what))
        except PromqlError as error:
            self._nodes.wrong(start(node), f"{what}: {error.message}, in column {error.column}")
            return None
        return InputSeries(name, labels, tuple(values))

    def _alert_test(self, node: yaml.Node, what: str) -> AlertTest:
        fields = self._nodes.mapping(node, what, ("eval_time", "alertname", "exp_alerts"))
        name = self._text(fields, "alertname", what)
        if not name:
            self._nodes.wrong(start(node), f"{what}: expected the alert's name; add 'alertname:'")
        expected = []
        for one in self._list(fields, "exp_alerts", what):
            own = self._nodes.mapping(one, f"{what}: exp_alerts", _EXPECTED_KEYS)
            labels = dict(self._pairs(own, "exp_labels", what))
            labels["alertname"] = name
            told = (tuple(sorted(labels.items())), self._pairs(own, "exp_annotations", what))
            expected.append(told)
        return AlertTest(self._at(fields, what), name, tuple(sorted(expected)))

    def _expression_test(self, node: yaml.Node, what: str) -> ExpressionTest:
        fields = self._nodes.mapping(node, what, ("expr", "eval_time", "exp_samples"))
        expected = []
        for one in self._list(fields, "exp_samples", what):
            own = self._nodes.mapping(one, f"{what}: exp_samples", ("labels", "value"))
            try:
                name, labels = notation.series(self._text(own, "labels", what) or "{}")
            except PromqlError as error:
                self._nodes.wrong(start(one), f"{what}: labels: {error.message}")
                continue
            text = self._text(own, "value", what) or "0"
            try:
                value = float(text.replace(".inf", "inf").replace(".nan", "nan"))
            except ValueError:
                message = f"{what}: value: expected a number, got {text!r}"
                self._nodes.wrong(start(own["value"][1]), message)
                continue
            expected.append((_named(name, labels), value))
        text = self._text(fields, "expr", what)
        return ExpressionTest(self._at(fields, what), text, tuple(expected))

    def _at(self, fields: _Fields, what: str) -> float:
        if "eval_time" not in fields:
            return 0.0
        return self._nodes.duration(fields["eval_time"][1], f"{what}: eval_time")

    def _interval(self, fields: _Fields, key: str, default_seconds: float) -> float:
        seconds = self._nodes.duration(fields[key][1], key) if key in fields else 0.0
        return seconds or default_seconds

    def _text(self, fields: _Fields, key: str, what: str) -> str:
        return self._nodes.string(fields[key][1], f"{what}: {key}") if key in fields else ""

    def _list(self, fields: _Fields, key: str, what: str) -> list[yaml.Node]:
        what = f"{what}: {key}" if what else key
        return self._nodes.sequence(fields[key][1], what) if key in fields else []

    def _pairs(self, fields: _Fields, key: str, what: str) -> tuple[tuple[str, str], ...]:
        if key not in fields:
            return ()
        pairs = self._nodes.mapping(fields[key][1], f"{what}: {key}", None)
        texts = ((k, self._nodes.string(v, f"{what}: {key}: {k}")) for k, (_, v) in pairs.items())
        return tuple(sorted(texts))


# --- running


def run(tests: UnitTests, groups: Sequence[RuleGroup]) -> list[str]:
    """Run the tests; return the failures in promtool's format."""
    places = {name: number for number, name in enumerate(tests.group_order)}
    ordered = sorted(groups, key=lambda group: places.get(group.name, 0))
    failures: list[str] = []
    for test in tests.tests:
        failures += _Machine(tests, test, ordered).run()
    return failures


class _Machine:
    """The state of one test: its samples and alerts."""

    def __init__(self, tests: UnitTests, test: Case, groups: Sequence[RuleGroup]) -> None:
        self._tests = tests
        self._test = test
        self._rules = [rule for group in groups for rule in group.rules]
        self._limits = [group.limit for group in groups for _ in group.rules]
        self._store = SeriesStore(any_retention_seconds=FOREVER_SECONDS)
        self._loaded = 0
        self._alerts: dict[int, life.Alerts] = {index: {} for index in range(len(self._rules))}
        self._queries: dict[str, Expression] = {}

    def run(self) -> list[str]:
        step = self._tests.interval_seconds
        failures: list[str] = []
        rounds = math.floor(self._test.end_seconds / step) + 1
        if rounds > MAX_EVALUATIONS:
            message = (
                f"    test {self._test.name!r}: expected at most {MAX_EVALUATIONS} evaluations,"
                f" got {rounds}; use a longer evaluation_interval or a shorter eval_time"
            )
            return [message]
        waiting = sorted(self._test.alerts, key=lambda one: one.at_seconds)
        for number in range(rounds):
            at = number * step
            self._load(at)
            if errors := self._evaluate(at):
                return failures + errors
            while waiting and waiting[0].at_seconds < at + step:
                failures += self._failures(waiting.pop(0))
        for expression in self._test.expressions:
            failures += self._compared(expression)
        return failures

    def _load(self, until: float) -> None:
        """Store the samples up to a time."""
        interval, begin = self._test.interval_seconds, self._test.start_seconds
        end = math.floor(until / interval) + 1
        for number in range(self._loaded, end):
            at = begin + number * interval
            for one in self._test.series:
                value = one.values[number] if number < len(one.values) else None
                if value == "stale":
                    self._store.mark_stale(one.name, one.labels, at)
                elif value is not None:
                    self._store.append(one.name, one.labels, at, value)
        self._loaded = end

    def _evaluate(self, since_start: float) -> list[str]:
        """Evaluate all rules in order, each with the results of those before; return the errors."""
        errors = []
        at = self._test.start_seconds + since_start
        for index, rule in enumerate(self._rules):
            try:
                told = self._series_of(index, rule, at)
            except (EvaluationError, life.DuplicateAlertError) as error:
                name = rule.alert if isinstance(rule, Rule) else rule.record
                errors.append(f"    rule: {name}, time: {_go_duration(since_start)}, err: {error}")
                told = []
            self._store.write(f"rule_{index}", at, told)
        return errors

    def _series_of(
        self, index: int, rule: Rule | RecordingRule, at: float
    ) -> list[tuple[str, Labels, float]]:
        """Return the series of one rule's result."""
        samples = self._result(rule.expression, at)
        limit = self._limits[index]
        if isinstance(rule, RecordingRule):
            results.within(limit, len(samples), "series")
            return results.recorded(rule, samples)
        found = life.matched(
            rule,
            samples,
            lambda text: self._query(text, at),
            dict(self._test.external_labels),
            self._test.external_url,
        )
        self._alerts[index], _ = life.next_alerts(rule, self._alerts[index], found, at)
        told = life.series(self._alerts[index].values())
        results.within(limit, sum(name == "ALERTS" for name, _, _ in told), "alerts")
        return told

    def _result(self, expression: Expression, at: float) -> list[Sample]:
        step = self._tests.interval_seconds
        return results.vector(expression.evaluate(self._store, at, step_seconds=step))

    def _query(self, text: str, at: float) -> list[Sample]:
        """Return the result of an expression. Errors: PromqlError, EvaluationError."""
        if text not in self._queries:
            self._queries[text] = compile_expression(text)
        return self._result(self._queries[text], at)

    def _failures(self, test: AlertTest) -> list[str]:
        """Return the failures of an alert test."""
        got: list[LabelsAndAnnotations] = sorted(
            (alert.labels, tuple(sorted(alert.annotations)))
            for index, rule in enumerate(self._rules)
            if isinstance(rule, Rule) and rule.alert == test.name
            for alert in self._alerts[index].values()
            if alert.state is life.AlertState.FIRING
        )
        if got == list(test.expected):
            return []
        name = f"    name: {self._test.name},\n" if self._test.name else ""
        head = f"{name}    alertname: {test.name}, time: {_duration(test.at_seconds)},"
        return [f"{head} \n        exp:{_shown(test.expected)}, \n        got:{_shown(got)}"]

    def _compared(self, test: ExpressionTest) -> list[str]:
        """Return the failures of an expression test."""
        head = f"    expr: {quoted(test.text)}, time: {_duration(test.at_seconds)},"
        try:
            samples = self._query(test.text, self._test.start_seconds + test.at_seconds)
        except (PromqlError, EvaluationError) as error:
            return [f"{head} err: {error}"]
        got = sorted(((_named(s.name, s.labels), s.value) for s in samples), key=_labels)
        expected = sorted(test.expected, key=_labels)
        same = _nearly if self._tests.fuzzy else _equal
        if len(got) == len(expected) and all(
            one[0] == other[0] and same(one[1], other[1])
            for one, other in zip(expected, got, strict=True)
        ):
            return []
        return [f"{head}\n        exp: {_listed(expected)}\n        got: {_listed(got)}"]


def _equal(expected: float, got: float) -> bool:
    return expected == got  # As promtool: not even NaN equals NaN.


def _nearly(expected: float, got: float) -> bool:
    """Whether two numbers differ by at most their last bit."""
    neighbours = (math.nextafter(expected, math.inf), math.nextafter(expected, -math.inf))
    return expected == got or got in neighbours


def _labels(element: Element) -> Labels:
    return element[0]


def _named(name: str, labels: Labels) -> Labels:
    return tuple(sorted((("__name__", name), *labels))) if name else labels


# --- showing


def _shown(alerts: Iterable[LabelsAndAnnotations]) -> str:
    """Return alerts in promtool's format."""
    lines = []
    for number, (labels, texts) in enumerate(alerts):
        lines += [f"{number}:", f"  Labels:{_braced(labels)}", f"  Annotations:{_braced(texts)},"]
    if not lines:
        return "[]"
    indent = "\n" + " " * 12
    return f"[{indent}{indent.join(lines).removesuffix(',')}{indent}]"


def _braced(pairs: Iterable[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{name}={quoted(value)}" for name, value in pairs) + "}"


def _listed(elements: Iterable[Element]) -> str:
    return ", ".join(f"{_braced(labels)} {_exponent(v)}" for labels, v in elements) or "nil"


def _exponent(value: float) -> str:
    """Return a number formatted as by Go's FormatFloat(value, 'E', -1, 64)."""
    if not math.isfinite(value):
        return shortest(value)
    mantissa, _, exponent = f"{Decimal(repr(value)).normalize():E}".partition("E")
    return f"{mantissa}E{exponent[0]}{exponent[1:]:0>2}"


def _duration(seconds: float) -> str:
    """Return a duration in Prometheus's notation: 1h30m."""
    left, parts = round(seconds * 1000), []
    for unit, size in _UNITS:
        # Years and weeks only where nothing is left: 8d, not 1w1d.
        if left >= size and (unit not in "yw" or left % size == 0):
            parts.append(f"{left // size}{unit}")
            left %= size
    return "".join(parts) or "0s"


_UNITS = (
    ("y", 31_536_000_000),
    ("w", 604_800_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
)


def _go_duration(seconds: float) -> str:
    """Return a duration in Go's notation: 1h30m0s."""
    milliseconds = round(seconds * 1000)
    if 0 < milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{head}{shortest(rest / 1000)}s"
