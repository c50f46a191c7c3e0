"""Rules whose series did not change are not evaluated again, and no alert differs because of it."""

from __future__ import annotations

import math
import random
from array import array
from typing import TYPE_CHECKING

import pytest
from support.host import Host, shipped_rules
from support.recordings import fixture, recorded

from iowarden.collectors.registry import SOURCES
from iowarden.rules.engine.engine import Engine
from iowarden.rules.promql.evaluator import compile_expression
from iowarden.rules.promql.history import packed
from iowarden.rules.rulefile.rulefile import SHIPPED, parse_rule_file

if TYPE_CHECKING:
    from iowarden.collectors.model import Sample
    from iowarden.rules.alerting.alerts import Transition

START = 1_800_000_000.0
NAMES = "abc"
EXPRESSIONS = (
    "a > 1",
    "a == b",
    "a > on(x) b or c",
    "a unless on(x) b",
    "absent(a)",
    "absent(b{x='2'})",
    "sum(a) > 2",
    "count by (x) (b) > 1",
    "-a < -1 and on() c",
    "scalar(c) > bool 0 == vector(1)",
    "b{x=~'1|3'} > 0",
    "label_replace(a, 'y', '$1', 'x', '(.)') > 0",
    "a offset 5s > 1",
    "a @ 1800000030 > 1",
    "max_over_time(a[20s]) > 1",
    "count_over_time(c[30s:5s]) > 2",
    "time() - timestamp(a) > 3",
    "a > 1 and on() (minute() % 2 == 0)",
    "{__name__=~'a|b', x='1'} > 1",
    "recorded > 1",
    "ALERTS{alertname='A0', alertstate='firing'}",
    "1 / a < 0",
    "a > 1 and on(x) b > 1 unless on(x) c",
    "b and on(x) (a > 1)",
    "(a > 1 or b > 1) and on(x) (c > 0 unless on(x) a)",
    "c unless on() (a > 1 or b > 1)",
    "a > 1 or b < 1 or c == 2",
    "b > scalar(a{x='1',w='u'}) and on(x) c",
    "-(a > 1) * on(w, x) b",
    "(c or a > 1) and on(x) b",
    "(c unless on(x) a > 1) and on(x) b",
    "sometimes == 2",
)
TEXT = (
    "groups:\n- name: g\n  interval: 1s\n  rules:\n  - {record: recorded, expr: a + 1}\n"
    "  - {record: sometimes, expr: a > 1 and on(x) c}\n"
    + "".join(
        f'  - {{alert: A{n}, expr: "{text}", for: {n % 3}s, labels: {{severity: warning}}}}\n'
        for n, text in enumerate(EXPRESSIONS)
    )
)


def evaluated(engine: Engine, now: float, *, anew: bool) -> list[Transition]:
    """Evaluate the rules; `anew`: each of them, also those whose series did not change."""
    for group in engine.rules.groups() if anew else ():
        for rule in group.rules:
            rule.empty_version = None
    return engine.rules.evaluate(now)


def same(first: Engine, second: Engine, now: float) -> int:
    """Evaluate both engines, of which only the second evaluates everything, and compare."""
    changes = evaluated(first, now, anew=False)
    assert repr(changes) == repr(evaluated(second, now, anew=True))  # NaN is not equal to itself
    assert repr(first.rules.alerts()) == repr(second.rules.alerts())
    assert first.rules.problems == second.rules.problems
    return len(changes)


class Writer:
    """Writes some series whose values are often the same as before, and which come and go."""

    def __init__(self, name: str, luck: random.Random) -> None:
        self._luck = luck
        self._keys = [
            (each, (("w", name), ("x", str(number)))) for each in NAMES for number in (1, 2, 3)
        ]
        self._samples: list[Sample] = []

    def samples(self) -> list[Sample]:
        """Return what it writes now: mostly the same list, or equal samples in another one."""
        what = self._luck.random()
        if what < 0.5:
            return self._samples
        if what < 0.6:
            self._samples = []
        elif what < 0.8:
            values = (0.0, -0.0, 1.0, 2.0, math.nan)
            self._samples = [
                (*key, self._luck.choice(values)) for key in self._keys if self._luck.random() < 0.4
            ]
        return list(self._samples)


@pytest.mark.parametrize("file", ["own.yaml", f"{SHIPPED}device.yaml"])
@pytest.mark.parametrize("seed", range(3))
def test_skipped_evaluations_change_no_alert(seed: int, file: str) -> None:
    """Whatever series do, the alerts are those of an engine that evaluates every rule each time.

    Of the shipped ones a rule is skipped as well while one of its operands is still empty, from
    which the same follows, whatever its others do. They change, stay, end, return after the
    look-back window, and are restored after a start.
    """
    luck = random.Random(seed)
    writers = [Writer(name, luck) for name in "uv"]
    rules = parse_rule_file(TEXT, file)
    first, second = (Engine(rules, (), START, 1.0) for _ in range(2))
    now, changes = START, 0
    for _ in range(100):
        now += luck.choice((1.0, 4.0, 299.0, 300.0, 301.0)) if luck.random() < 0.1 else 1.0
        for number, writer in enumerate(writers):
            if luck.random() < 0.6:
                samples = writer.samples()
                for engine in (first, second):
                    engine.hub.feed(f"w{number}", samples, now)
        if luck.random() < 0.02:
            rows = first.hub.store.samples_between(0.0, now)
            first, second = (Engine(rules, (), now, 1.0) for _ in range(2))
            for engine in (first, second):
                engine.hub.restore_samples(packed([rows]), None, now)
        changes += same(first, second, now)
    assert changes > 30


def test_a_rule_is_not_evaluated_again_before_a_series_that_it_reads_changes() -> None:
    """Equal values are not evaluated again; a new value is found with the next evaluation."""
    engine = loaded("a > 1")
    (rule,) = engine.rules.groups()[0].rules
    versions = []
    for second, value in enumerate((0.0, 0.0, 0.5, 0.5, 2.0)):
        engine.hub.feed("w", [("a", (), value), ("b", (), float(second))], START + second)
        engine.rules.evaluate(START + second)
        versions.append(rule.empty_version)
    assert versions[0] == versions[1] != versions[2] == versions[3] is not None
    assert [alert.value for alert in engine.rules.alerts()] == [2.0]


def loaded(*texts: str) -> Engine:
    """Return an engine with a rule for each expression, evaluated each second."""
    alerts = ", ".join(f"{{alert: A{n}, expr: '{text}', for: 1h}}" for n, text in enumerate(texts))
    rules = f"groups: [{{name: g, interval: 1s, rules: [{alerts}]}}]"
    return Engine(parse_rule_file(rules, "t"), (), START, 1.0)


def found(engine: Engine, now: float) -> int:
    """Evaluate the rules, and return how many alerts they have."""
    engine.rules.evaluate(now)
    return sum(alert.state.value != "resolved" for alert in engine.rules.alerts())


def test_a_series_that_leaves_the_look_back_window_and_returns_is_a_change_each_time() -> None:
    """Without a new sample for 5 minutes a series is absent; an equal sample brings it back."""
    absent, present = loaded("absent(a)"), loaded("a")
    samples = [("a", (), 7.0)]
    for engine in (absent, present):
        engine.hub.feed("w", samples, START)
    for seconds, counts in ((2, (0, 1)), (299, (0, 1)), (300, (1, 0)), (301, (1, 0))):
        assert (found(absent, START + seconds), found(present, START + seconds)) == counts
    for engine in (absent, present):
        engine.hub.feed("w", samples, START + 302)
    assert (found(absent, START + 302), found(present, START + 302)) == (0, 1)


def test_history_that_is_restored_late_is_a_change() -> None:
    """The samples of before a restart may arrive after the first evaluation."""
    engine = loaded("a > 1", "max_over_time(a[1m]) > 9")  # the second one needs the history
    assert found(engine, START) == 0
    row = ("a", (), array("d", [START - 1]), array("d", [2.0]))
    engine.hub.restore_samples(packed([[row]]), None, START)
    assert found(engine, START + 1) == 1


def test_a_rule_that_reads_alerts_is_evaluated_with_those_of_the_rule_before_it() -> None:
    """In the same second: they are stored before it is known whether they changed."""
    engine = loaded("a > 1", 'ALERTS{alertname="A0"}')
    for second, (value, alerts) in enumerate(((0.0, 0), (0.0, 0), (2.0, 2))):
        engine.hub.feed("w", [("a", (), value)], START + second)
        assert found(engine, START + second) == alerts


def test_zero_and_minus_zero_are_different_values() -> None:
    """They are equal, but a quotient is not."""
    engine = loaded("1 / a < 0")
    for second, (value, alerts) in enumerate(((0.0, 0), (-0.0, 1), (-0.0, 1), (0.0, 0))):
        engine.hub.feed("w", [("a", (), value)], START + second)
        assert found(engine, START + second) == alerts


@pytest.mark.parametrize(
    ("text", "steady"),
    [
        ("a > 1", True),
        ("absent(a) or vector(1)", True),
        ("a - time() > 1", False),
        ("hour() > 8 and on() a", False),
        ("timestamp(a) > 1", False),
        ("a offset 1m", False),
        ("a @ 5", False),
        ("a @ end()", False),
        ("rate(a[1m])", False),
        ("sum(max_over_time(a[1h:1m]))", False),
        ("{x='1'}", False),
    ],
)
def test_what_depends_on_time_is_not_steady(text: str, steady: bool) -> None:
    """An expression that reads the time, or older samples, may change although no series does."""
    assert compile_expression(text).is_steady is steady


def test_the_recorded_machines_run_the_rules_as_the_service_does() -> None:
    """A user's rule is skipped less often than a shipped one, and takes turns with the others."""
    assert all(group.is_shipped for group in shipped_rules())


class Pair(Host):
    """A host with a second engine that evaluates every rule each time."""

    def __init__(self) -> None:
        super().__init__()
        self.second: Engine | None = None
        self.changes = 0

    def tick(self, uptime: float, now: float) -> None:
        """Give both engines the same readings, and compare their alerts."""
        if self.engine is None or self.second is None:
            self.engine, self.second = (Engine(shipped_rules(), SOURCES, now) for _ in range(2))
        readings = []
        for source in SOURCES:
            if now >= self._due.get(source.name, now) - 0.05:
                self._due[source.name] = now + source.period_seconds
                readings.append(self.read(source, now))
        for engine in (self.engine, self.second):
            engine.observe(readings, now, uptime)
        self.changes += same(self.engine, self.second, now)


@pytest.mark.system  # Two engines over minutes of each recorded machine: a second of CPU each.
@pytest.mark.parametrize("name", ["hung-disk", "idle", "write-stall"])
def test_recorded_machines_have_the_same_alerts_at_the_same_times(name: str) -> None:
    """A recorded machine has the alerts of an engine that evaluates all shipped rules each time."""
    host = Pair()
    host.play(recorded(fixture(name)))
    assert host.changes > 0 or name == "idle"
