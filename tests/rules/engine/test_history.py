"""History: rules over ranges use the data of the last minutes or hours."""

from __future__ import annotations

import dataclasses
import math
from array import array
from typing import TYPE_CHECKING

import pytest
from support.memory import write_tree

from iowarden.collectors.machine import Machine
from iowarden.collectors.model import Outcome, Reading
from iowarden.collectors.registry import SOURCES
from iowarden.collectors.source import collect
from iowarden.rules.engine.engine import Engine
from iowarden.rules.promql.errors import EvaluationError
from iowarden.rules.promql.history import packed
from iowarden.rules.rulefile.rulefile import SHIPPED, RuleGroup, parse_rule_file

if TYPE_CHECKING:
    from pathlib import Path

START = 1_800_000_000.0
MEMINFO = next(source for source in SOURCES if source.name == "meminfo")
MEMINFO_LINES = ("MemTotal", "MemFree", "Buffers", "Cached", "Dirty", "Writeback")
KIB = 1024


def rules(*expressions: str, interval: str = "1s") -> tuple[RuleGroup, ...]:
    """Return a group with an alert for each expression, and a recording of the dirty memory."""
    alerts = ", ".join(
        f"{{alert: A{number}, expr: '{text}', labels: {{severity: warning}}}}"
        for number, text in enumerate(expressions)
    )
    return parse_rule_file(f"groups: [{{name: g, interval: {interval}, rules: [{alerts}]}}]", "t")


class Memory:
    """A machine of which only the memory is watched, and an engine."""

    def __init__(self, directory: Path, *expressions: str, interval: str = "1s") -> None:
        self.directory = directory
        self.root = Machine(str(directory))
        self.now = START
        self.engine = Engine(rules(*expressions, interval=interval), [MEMINFO], START)

    def second(self, dirty_bytes: int | None) -> None:
        """Let a second pass, after which so much is dirty; None: unknown."""
        self.now += 1.0
        if dirty_bytes is None:
            reading = Reading(MEMINFO.name, Outcome.FAILED, self.now, 0.0, None, "EIO")
        else:
            lines = dict.fromkeys(MEMINFO_LINES, 1000) | {"Dirty": dirty_bytes // KIB}
            text = "".join(f"{name}: {value} kB\n" for name, value in lines.items())
            write_tree(self.directory, {"/proc/meminfo": text})
            reading = collect(MEMINFO, self.root, lambda: self.now)
        self.engine.observe([reading], self.now, 1000.0)
        self.engine.rules.evaluate(self.now)

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire."""
        return {a.name for a in self.engine.rules.alerts() if a.state.value == "firing"}

    def look(self, text: str) -> float | None:
        """Return what the query command would show now."""
        result = self.engine.queries.query_all(text, self.engine.rules.alerts(), self.now)
        assert isinstance(result, list)
        return result[0].value if result else None


def test_a_range_sees_every_second_of_a_fast_source(tmp_path: Path) -> None:
    """`[1m]` over a data source read each second has sixty samples, and a trend is computed."""
    machine = Memory(
        tmp_path,
        "count_over_time(iowarden_memory_dirty_bytes[1m]) == 60",
        "deriv(iowarden_memory_dirty_bytes[1m]) > 1e6",
    )
    for number in range(61):
        machine.second(number * 2 * KIB * KIB)
    assert machine.firing() == {"A0", "A1"}
    for number in range(61, 120):
        machine.second(number * 2 * KIB * KIB)
    assert machine.firing() == {"A0", "A1"}
    assert machine.look("count_over_time(iowarden_memory_dirty_bytes[1m])") == 60


def test_expensive_rules_do_not_keep_the_loop_from_watching(tmp_path: Path) -> None:
    """The cost of one second is limited; the others follow in the next ones, in their order."""
    expensive = "count_over_time(vector(1)[100000s:1s]) > {}"
    texts = [expensive.format(number) for number in range(6)]
    machine = Memory(tmp_path, *texts, "iowarden_memory_dirty_bytes > 0")
    for number in range(6):
        machine.second(KIB)
        assert len(machine.firing()) == number + 1
        assert machine.look("iowarden_rule_evaluation_delay_seconds") == number
    machine.second(KIB)
    assert machine.firing() == {f"A{number}" for number in range(7)}
    assert machine.look("iowarden_rule_evaluation_delay_seconds") == 6
    assert machine.engine.rules.problems == {}


def test_what_a_rule_costs_beyond_a_second_s_share_is_taken_from_the_next(tmp_path: Path) -> None:
    """Four times the share each: one in four or five seconds, however late the others are."""
    machine = Memory(tmp_path, *["count_over_time(vector(1)[390000s:1s]) > 0"] * 2)
    counts = []
    for _ in range(10):
        machine.second(KIB)
        counts.append(len(machine.firing()))
    assert counts == [1, 1, 1, 1, 2, 2, 2, 2, 2, 2]


def test_rules_that_take_longer_than_their_interval_are_late_all_the_time(tmp_path: Path) -> None:
    """Also when the next evaluation of all of them has just begun; a file is named."""
    machine = Memory(tmp_path, *[EXPENSIVE] * 4)
    for _ in range(5):
        machine.second(KIB)
    named = 'iowarden_rule_evaluation_delay_seconds{file="t"}'
    delays = []
    for _ in range(6):
        machine.second(KIB)
        delays.append(machine.look(named))
    assert set(delays) == {3.0}


def test_a_host_that_was_suspended_makes_no_rule_late(tmp_path: Path) -> None:
    """They were due for hours; nobody could evaluate them."""
    machine = Memory(tmp_path, "iowarden_memory_dirty_bytes > 0")
    machine.second(KIB)
    machine.now += 30_000.0
    machine.second(KIB)
    assert machine.look("iowarden_rule_evaluation_delay_seconds") == 0


EXPENSIVE = "count_over_time(vector(1)[100000s:1s]) > 0"


def group(alert: str, *expressions: str, file: str = "mine.yaml") -> RuleGroup:
    """Return a group of rules of one name."""
    (found,) = rules(*expressions)
    named = tuple(dataclasses.replace(rule, alert=alert) for rule in found.rules)
    return dataclasses.replace(found, rules=named, file=file)


def test_a_short_group_does_not_wait_for_all_of_a_long_one(tmp_path: Path) -> None:
    """Who has waited longest is next."""
    machine = Memory(tmp_path)
    both = group("Long", *[EXPENSIVE] * 50), group("Short", "iowarden_memory_dirty_bytes > 0")
    machine.engine.rules.load(both, machine.now, 1.0)
    machine.second(KIB)
    assert machine.firing() == {"Long"}
    machine.second(KIB)
    assert machine.firing() == {"Long", "Short"}


def test_a_group_that_was_not_even_begun_counts_as_late(tmp_path: Path) -> None:
    """Four groups of one expensive rule each: the last has its first turn in the fourth second."""
    machine = Memory(tmp_path)
    groups = [group(f"Each{number}", EXPENSIVE) for number in range(4)]
    machine.engine.rules.load(groups, machine.now, 1.0)
    for number in range(4):
        machine.second(KIB)
        assert machine.look("iowarden_rule_evaluation_delay_seconds") == number


def test_shipped_rules_do_not_wait_for_a_user_s(tmp_path: Path) -> None:
    """They are evaluated first, each time they are due, whatever the others cost."""
    machine = Memory(tmp_path)
    shipped = group("Shipped", "iowarden_memory_dirty_bytes > 2000", file=f"{SHIPPED}own.yaml")
    machine.engine.rules.load((group("Long", *[EXPENSIVE] * 5), shipped), machine.now, 1.0)
    for dirty in (KIB, 2 * KIB, KIB, 4 * KIB):
        machine.second(dirty)
        assert ("Shipped" in machine.firing()) == (dirty > 2000)


def test_a_rule_with_five_thousand_alerts_is_refused_before_they_are_made(tmp_path: Path) -> None:
    """A label that has another value in each series."""
    machine = Memory(tmp_path, "many > 0", "iowarden_memory_dirty_bytes > 0")
    many = [("many", (("number", str(number)),), 1.0) for number in range(5_001)]
    machine.engine.hub.store.write("many", machine.now, many)
    machine.second(KIB)
    machine.second(KIB)
    assert machine.firing() == {"A1"}
    assert "5,001 alerts, and a rule may have 5,000" in machine.engine.rules.problems["A0"]


def test_an_error_of_our_own_fails_its_rule_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is raised: it is reported with its place, and the round goes on."""

    def broken(number: float) -> float:
        raise OverflowError(number)

    monkeypatch.setattr(math, "floor", broken)
    machine = Memory(tmp_path, "floor(vector(1.5)) > 0", "vector(1) > 0")
    machine.second(KIB)
    assert machine.firing() == {"A1"}
    assert machine.engine.rules.problems["A0"].startswith("bug: OverflowError")


def test_a_rule_that_is_too_expensive_is_tried_again_only_later(tmp_path: Path) -> None:
    """It is failing all the time, but does not cost the others a second each second."""
    machine = Memory(tmp_path, "count_over_time(vector(1)[90d:1s]) > 0")
    for _ in range(302):
        machine.second(KIB)
        assert [*machine.engine.rules.problems] == ["A0"]
    assert machine.look("iowarden_rule_evaluation_failures_total") == 2


def test_an_alert_about_alerts_has_one_state(tmp_path: Path) -> None:
    """A rule on ALERTS brings a label 'alertstate'; twice in a line, it would spoil the scrape."""
    machine = Memory(tmp_path, "iowarden_memory_dirty_bytes > 0", 'ALERTS{alertname="A0"}')
    for _ in range(3):
        machine.second(KIB)
    shown = {
        dict(labels)["alertname"]: [text for name, text in labels if name == "alertstate"]
        for chunk in machine.engine.hub.chunks()
        for _, samples in chunk.families
        for name, labels, _ in samples
        if name == "iowarden_alerts"
    }
    assert shown == {"A0": ["firing"], "A1": ["firing"]}
    assert machine.look('count(ALERTS{alertstate="firing"})') == 2


HYSTERESIS = (
    "iowarden_memory_dirty_bytes > 1e9 or (iowarden_memory_dirty_bytes > 1e6 and on()"
    ' ALERTS{alertname="A0",alertstate="firing"})'
)
"""The usual recipe: it begins at one value and ends at another."""


def test_a_rule_sees_what_became_of_the_one_before_it_in_the_same_second(tmp_path: Path) -> None:
    """`B if A fires` fires with A and ends with A, not a round later: as in Prometheus."""
    machine = Memory(tmp_path, HYSTERESIS, 'ALERTS{alertname="A0",alertstate="firing"}')
    machine.second(2_000_000 * KIB)
    assert machine.firing() == {"A0", "A1"}
    machine.second(KIB)
    assert machine.firing() == set()


@pytest.mark.parametrize("reload", [True, False], ids=["reload", "restart"])
def test_hysteresis_goes_on_where_it_was(tmp_path: Path, *, reload: bool) -> None:
    """Between the two values the alert stays, although the program was restarted."""
    machine = Memory(tmp_path, HYSTERESIS)
    machine.second(2_000_000 * KIB)
    if reload:
        machine.engine.rules.load(rules(HYSTERESIS), machine.now, 15.0)
    else:
        before = machine.engine.rules.alerts()
        machine.engine = Engine(rules(HYSTERESIS), [MEMINFO], machine.now)
        machine.engine.rules.restore(before)
    machine.second(20_000 * KIB)
    assert machine.firing() == {"A0"}
    machine.second(KIB)
    assert machine.firing() == set()


def test_what_was_lost_is_no_sample(tmp_path: Path) -> None:
    """A failed data source is valid for three periods; what follows is counted from there."""
    machine = Memory(tmp_path, "count_over_time(iowarden_memory_dirty_bytes[1m]) > 1e6")
    for _ in range(10):
        machine.second(KIB)
    for _ in range(20):
        machine.second(None)
    assert machine.look("iowarden_memory_dirty_bytes") is None
    counted = machine.look("count_over_time(iowarden_memory_dirty_bytes[1m])")
    assert counted is not None
    assert 10 <= counted <= 13


def test_a_subquery_without_a_step_takes_the_interval_of_its_group(tmp_path: Path) -> None:
    """`[1m:]` in a group of 5 s has twelve steps, in one without an interval a single one."""
    text = "count_over_time(iowarden_memory_dirty_bytes[1m:]) == 12"
    machine = Memory(tmp_path, text, interval="5s")
    for _ in range(70):
        machine.second(KIB)
    assert machine.firing() == {"A0"}


def test_other_rules_find_the_history_of_those_before(tmp_path: Path) -> None:
    """A reload in the middle of a stall does not make the last minute unknown."""
    text = "count_over_time(iowarden_memory_dirty_bytes[1m]) == 60"
    machine = Memory(tmp_path, text)
    for _ in range(70):
        machine.second(KIB)
    assert machine.firing() == {"A0"}
    machine.engine.rules.load(rules(text, "iowarden_memory_dirty_bytes > 1e12"), machine.now, 15.0)
    machine.second(KIB)
    assert machine.firing() == {"A0"}


LONG = "count_over_time(iowarden_memory_dirty_bytes[2m]) >= 100"
RECORDED = (
    "groups: [{name: g, interval: 1s, rules: [{record: seen,"
    " expr: 'count_over_time(iowarden_memory_dirty_bytes[2m])'}, {alert: A0, expr: 'seen >= 100',"
    " labels: {severity: warning}}]}]"
)


@pytest.mark.parametrize("groups", [rules(LONG), parse_rule_file(RECORDED, "t")])
def test_a_restart_resolves_nothing_that_it_cannot_see(
    groups: tuple[RuleGroup, ...], tmp_path: Path
) -> None:
    """A rule over two minutes finds nothing after one: its alert stays, is unknown, fires again."""
    machine = Memory(tmp_path)
    machine.engine.rules.load(groups, machine.now, 15.0)
    for _ in range(150):
        machine.second(KIB)
    assert machine.firing() == {"A0"}
    before = machine.engine.rules.alerts()
    machine.engine = Engine(groups, [MEMINFO], machine.now)
    machine.engine.rules.restore(before)
    states = []
    for _ in range(110):
        machine.second(KIB)
        states += [
            alert.state.value for alert in machine.engine.rules.alerts() if alert.name == "A0"
        ]
    assert list(dict.fromkeys(states)) == ["firing", "unknown"]
    assert states.index("unknown") == 46
    assert states.count("unknown") == 99 - 46
    assert machine.firing() == {"A0"}


def test_what_cleared_while_nobody_looked_resolves_once_all_is_seen(tmp_path: Path) -> None:
    """The alert is unknown for the two minutes of its rule's range, and resolved after them."""
    text = "max_over_time(iowarden_memory_dirty_bytes[2m]) > 1e9"
    machine = Memory(tmp_path, text)
    machine.second(2_000_000 * KIB)
    assert machine.firing() == {"A0"}
    before = machine.engine.rules.alerts()
    machine.now += 60.0
    machine.engine = Engine(rules(text), [MEMINFO], machine.now)
    machine.engine.rules.restore(before)
    for _ in range(120):
        machine.second(KIB)
    (alert,) = machine.engine.rules.alerts()
    assert alert.state.value == "unknown"
    assert (
        "its rule needs 2 min of history, and 'iowarden_memory_dirty_bytes'" in alert.unknown_reason
    )
    machine.second(KIB)
    assert [alert.state.value for alert in machine.engine.rules.alerts()] == ["resolved"]


def test_what_began_since_the_start_ends_as_soon_as_it_is_over(tmp_path: Path) -> None:
    """Short history does not prevent a resolution if the alert began with less of it."""
    machine = Memory(tmp_path, "idelta(iowarden_memory_dirty_bytes[1h]) > 1e6")
    machine.second(KIB)
    machine.second(2_000_000 * KIB)
    assert machine.firing() == {"A0"}
    for _ in range(60):
        machine.second(KIB)
    assert [alert.state.value for alert in machine.engine.rules.alerts()] == ["resolved"]


def test_a_longer_range_begins_with_what_the_shorter_one_kept(tmp_path: Path) -> None:
    """A minute and the look-back are stored when a rule is changed to twenty minutes."""
    machine = Memory(tmp_path, "count_over_time(iowarden_memory_dirty_bytes[1m]) >= 60")
    for _ in range(1000):
        machine.second(KIB)
    assert machine.firing() == {"A0"}
    longer = "count_over_time(iowarden_memory_dirty_bytes[20m]) > 600"
    machine.engine.rules.load(rules(longer), machine.now, 15.0)
    machine.second(KIB)
    (alert,) = machine.engine.rules.alerts()
    assert alert.unknown_reason == (
        "its rule needs 20 min of history, and 'iowarden_memory_dirty_bytes' was recorded for"
        " 6 min 1 s"
    )
    for _ in range(240):
        machine.second(KIB)
    assert machine.firing() == {"A0"}


def test_what_a_reloaded_rule_recorded_ends_with_it(tmp_path: Path) -> None:
    """A removed recording rule leaves no series behind with a constant value."""
    recording = parse_rule_file(
        "groups: [{name: g, interval: 1s, rules: [{record: dirty:bytes,"
        " expr: iowarden_memory_dirty_bytes}, {alert: A, expr: 'dirty:bytes >= 0'}]}]",
        "t",
    )
    machine = Memory(tmp_path)
    machine.engine.rules.load(recording, machine.now, 15.0)
    for _ in range(3):
        machine.second(KIB)
    assert machine.firing() == {"A"}
    machine.engine.rules.load(rules("dirty:bytes >= 0"), machine.now, 15.0)
    machine.second(KIB)
    assert machine.firing() == set()


@pytest.mark.parametrize(
    "text",
    [
        "max_over_time(iowarden_memory_dirty_bytes[1h])",
        "iowarden_memory_dirty_bytes offset 1h",
        "rate(iowarden_memory_free_bytes[1m])",
        'max_over_time({__name__="iowarden_memory_free_bytes"}[1m])',
    ],
)
def test_a_template_beyond_the_history_is_refused(text: str, tmp_path: Path) -> None:
    """A result from a minute would look like one from an hour."""
    machine = Memory(tmp_path, "rate(iowarden_memory_dirty_bytes[1m]) > 1e12")
    machine.second(KIB)
    for _ in range(2):
        with pytest.raises(EvaluationError, match=r"expected [\w ]+ of history .* stored only"):
            machine.engine.queries.query(text, machine.now)


def test_a_query_over_a_range_is_answered_when_it_is_repeated(tmp_path: Path) -> None:
    """What no rule reads is recorded from the first query on, and it says how much there is."""
    machine = Memory(tmp_path, "rate(iowarden_memory_dirty_bytes[1m]) > 1e12")
    text = "count_over_time(iowarden_memory_free_bytes[1m])"
    machine.second(KIB)
    with pytest.raises(EvaluationError, match=r"no history of 'iowarden_memory_free_bytes' yet"):
        machine.look(text)
    for _ in range(30):
        machine.second(KIB)
    queries = machine.engine.queries
    assert machine.look(text) == 31
    assert queries.incomplete(text, machine.now) == (
        "incomplete: 'iowarden_memory_free_bytes' is recorded for 30 s, less than the range"
    )
    machine.engine.rules.load(rules("iowarden_memory_dirty_bytes > 1e12"), machine.now, 15.0)
    for _ in range(30):
        machine.second(KIB)
    assert (machine.look(text), queries.incomplete(text, machine.now)) == (60, "")
    with pytest.raises(EvaluationError, match="expected a metric name before the braces"):
        machine.look('max_over_time({__name__=~"iowarden.*"}[1m])')


def test_what_a_query_requested_ends_after_a_day(tmp_path: Path) -> None:
    """Only rules are recorded for good; another query starts anew."""
    machine = Memory(tmp_path, "iowarden_memory_dirty_bytes > 1e12")
    machine.second(KIB)
    text = "count_over_time(iowarden_memory_free_bytes[1m])"
    for passed in (0.0, 86_500.0):
        machine.now += passed
        for _ in range(20):
            machine.second(KIB)
        with pytest.raises(EvaluationError, match="recorded from now on, for 1 d"):
            machine.look(text)
        machine.second(KIB)
        assert machine.look(text) == 2


def test_what_a_data_source_showed_ends_each_time_that_it_fails(tmp_path: Path) -> None:
    """On '/metrics' as well, and not only the first time."""
    machine = Memory(tmp_path, "iowarden_memory_dirty_bytes > 1e12")
    hub, name = machine.engine.hub, "iowarden_memory_dirty_bytes"
    for _ in range(3):
        machine.second(KIB)
        assert [sample[2] for sample in hub.last(name)] == [KIB]
        for _ in range(5):
            machine.second(None)
        assert hub.last(name) == []


def test_a_name_that_nothing_has_is_hinted_at(tmp_path: Path) -> None:
    """A misspelt metric has no series, as one without problems has none."""
    queries = Memory(tmp_path).engine.queries
    known = {"iowarden_memory_dirty_bytes", "iowarden_load1"}
    assert queries.near("rate(iowarden_memory_dirt_byte[1m]) or up or ALERTS", known) == (
        "no metric is named 'iowarden_memory_dirt_byte'; near: iowarden_memory_dirty_bytes"
    )
    assert queries.near("iowarden_load1 > 3", known) == ""


def test_a_question_may_mix_what_has_history_and_what_has_none(tmp_path: Path) -> None:
    """The history that a rule needs, next to the newest value of what no rule reads."""
    machine = Memory(tmp_path, "rate(iowarden_memory_dirty_bytes[1m]) > 1e12")
    for _ in range(30):
        machine.second(3 * KIB)
    text = "sum_over_time(iowarden_memory_dirty_bytes[10s]) / iowarden_memory_free_bytes"
    assert machine.look(text) == 30 / 1000
    assert machine.engine.queries.query(text, machine.now)[0].value == 30 / 1000
    assert machine.look('count({__name__=~"iowarden_memory_(dirty|free)_bytes"})') == 2


def states(machine: Memory) -> list[str]:
    """Return the states of the first rule's alerts."""
    return [alert.state.value for alert in machine.engine.rules.alerts() if alert.name == "A0"]


DOUBTFUL = (
    'absent_over_time(iowarden_memory_dirty_bytes{never="there"}[2m])',
    "min_over_time(iowarden_memory_dirty_bytes[2m]) >= 0",
    "rate(iowarden_memory_dirty_bytes[20s]) / rate(iowarden_memory_dirty_bytes[2m]) > 2",
)


@pytest.mark.parametrize("text", DOUBTFUL)
def test_nothing_fires_because_nobody_watched_before(text: str, tmp_path: Path) -> None:
    """Seconds after the first start: pending until two minutes were watched, if it stays so."""
    machine = Memory(tmp_path, text)
    for number in range(2, 122):
        machine.second(number * number * KIB * KIB)
        assert machine.firing() == set()
    assert states(machine) in (["pending"], [])  # the ratio is no longer exceeded
    machine.second(KIB)
    assert states(machine) == ([] if "rate" in text else ["firing"])


def test_what_is_certain_fires_at_once(tmp_path: Path) -> None:
    """A counter that grew in the last hour grew, however little of the hour was watched."""
    machine = Memory(tmp_path, "increase(iowarden_memory_dirty_bytes[1h]) > 0")
    machine.second(KIB)
    machine.second(2 * KIB)
    assert machine.firing() == {"A0"}


def test_a_doubtful_recording_makes_its_alert_wait(tmp_path: Path) -> None:
    """The window is behind a recording rule: the alert on it is no better founded."""
    text = (
        "groups: [{name: g, interval: 1s, rules: [{record: lowest,"
        " expr: 'min_over_time(iowarden_memory_dirty_bytes[1m])'}, {alert: A0, expr: 'lowest > 0',"
        " labels: {severity: warning}}]}]"
    )
    machine = Memory(tmp_path)
    machine.engine = Engine(parse_rule_file(text, "t"), [MEMINFO], START)
    for _ in range(60):
        machine.second(KIB)
    assert states(machine) == ["pending"]
    machine.second(KIB)
    assert states(machine) == ["firing"]


def test_a_doubtful_alert_that_fired_before_goes_on(tmp_path: Path) -> None:
    """After a restart without any history it fires again: neither resolved nor notified again."""
    text = "min_over_time(iowarden_memory_dirty_bytes[1m]) > 0"
    machine = Memory(tmp_path, text)
    for _ in range(62):
        machine.second(KIB)
    before = machine.engine.rules.alerts()
    machine.engine = Engine(rules(text), [MEMINFO], machine.now)
    machine.engine.rules.restore(before)
    machine.second(KIB)
    assert states(machine) == ["firing"]


def restarted(machine: Memory, *expressions: str, after: float) -> None:
    """Restart the program after some seconds, with its alerts and the tail of its history."""
    old = machine.engine
    rows, watched = old.hub.store.samples_between(float("-inf"), machine.now), old.hub.watched()
    machine.now += after
    machine.engine = Engine(rules(*expressions), [MEMINFO], machine.now)
    machine.engine.rules.restore(old.rules.alerts())
    machine.engine.hub.restore_samples(packed([rows]), watched, machine.now + 1.0)


def test_the_window_goes_on_after_a_short_stop(tmp_path: Path) -> None:
    """A window that was full before a restart of seven seconds has the same result after it."""
    counted = "count_over_time(iowarden_memory_dirty_bytes[5m])"
    texts = (f"{counted} < 200", f"{counted} >= 290")
    machine = Memory(tmp_path, *texts)
    for _ in range(302):
        machine.second(KIB)
    assert machine.firing() == {"A1"}
    restarted(machine, *texts, after=6.0)
    for _ in range(400):
        machine.second(KIB)
        assert machine.firing() == {"A1"}
    assert machine.look(counted) == 300


def test_the_time_of_a_long_stop_was_not_watched(tmp_path: Path) -> None:
    """Half an hour down: the counts are not used until a window was observed again."""
    text = "count_over_time(iowarden_memory_dirty_bytes[10m]) < 590"
    machine = Memory(tmp_path, text)
    for _ in range(700):
        machine.second(KIB)
    assert machine.firing() == set()
    restarted(machine, text, after=1800.0)
    for _ in range(580):
        machine.second(KIB)
    assert states(machine) == ["pending"]
    for _ in range(30):
        machine.second(KIB)
    assert states(machine) == []


def test_a_break_of_a_minute_is_much_of_a_short_window(tmp_path: Path) -> None:
    """Half of two minutes was not observed: the alert waits until the gap has nearly passed."""
    text = "count_over_time(iowarden_memory_dirty_bytes[2m]) < 100"
    machine = Memory(tmp_path, text)
    for _ in range(130):
        machine.second(KIB)
    restarted(machine, text, after=60.0)
    machine.second(KIB)
    assert states(machine) == ["pending"]
    for _ in range(100):
        machine.second(KIB)
        assert machine.firing() == set()
    assert states(machine) == []


def test_what_fired_before_a_stop_ends_by_what_is_known_of_the_time_before(tmp_path: Path) -> None:
    """A peak ten minutes ago is still in the window, and leaves it when its time has passed."""
    text = "max_over_time(iowarden_memory_dirty_bytes[20m]) > 1e9"
    machine = Memory(tmp_path, text)
    machine.second(2_000_000 * KIB)
    for _ in range(600):
        machine.second(KIB)
    restarted(machine, text, after=10.0)
    for _ in range(588):
        machine.second(KIB)
        assert machine.firing() == {"A0"}
    for _ in range(3):
        machine.second(KIB)
    assert states(machine) == ["resolved"]


def test_a_series_that_did_not_come_back_ends(tmp_path: Path) -> None:
    """A disk was pulled while the program was down: its last sample is not taken as new."""
    text = "max_over_time(gone[5m]) > 0 or iowarden_memory_dirty_bytes > 1e15"
    machine = Memory(tmp_path, text)
    machine.second(KIB)
    rows = [("gone", (), array("d", [machine.now]), array("d", [1.0]))]
    machine.engine = Engine(rules(text), [MEMINFO], machine.now)
    machine.engine.hub.restore_samples(packed([rows]), None, machine.now)
    machine.second(KIB)
    assert machine.look("gone") == 1.0  # as in Prometheus after a restart: it may come yet
    for _ in range(62):
        machine.second(KIB)
    assert machine.look("gone") is None
    assert machine.look("max_over_time(gone[5m])") == 1.0


def test_what_was_kept_for_an_hour_was_not_watched_for_a_day(tmp_path: Path) -> None:
    """A rule is edited between a stop and a start: its longer window is not full at once."""
    short = "count_over_time(iowarden_memory_dirty_bytes[1m]) < 1"
    longer = "count_over_time(iowarden_memory_dirty_bytes[20m]) < 600"
    machine = Memory(tmp_path, short)
    for _ in range(1300):
        machine.second(KIB)
    restarted(machine, longer, after=5.0)
    for _ in range(10):
        machine.second(KIB)
    assert states(machine) == ["pending"]
