"""Alert states, with rules as users write them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iowarden.collectors import registry
from iowarden.collectors.model import Family, Outcome, Reading, Sample
from iowarden.collectors.procfs.meminfo import parse_meminfo
from iowarden.collectors.source import Source
from iowarden.rules.alerting.alerts import Alert, AlertState, Transition
from iowarden.rules.engine.engine import Engine
from iowarden.rules.rulefile.rulefile import parse_rule_file

START = 1_800_000_000.0

RULES = """
groups:
  - name: test
    interval: 1s
    rules:
      - alert: Hot
        expr: temperature > 50
        for: 3s
        keep_firing_for: 2s
        labels: {severity: warning}
        annotations: {summary: "{{ $labels.device }} has {{ $value }}"}
"""

THERMOMETER = Source(
    name="thermometer",
    period_seconds=1.0,
    may_hang=False,
    read=lambda _: None,
    families=(Family("temperature", "gauge", "A simulated temperature."),),
    emit=lambda value: value,
)


class FakeMachine:
    """A machine with one thermometer per device, and rules about them."""

    def __init__(self, rules: str = RULES) -> None:
        self.now = START
        self.engine = Engine(parse_rule_file(rules, "test.yaml"), [THERMOMETER], self.now)

    def second(
        self,
        temperatures: dict[str, float] | None,
        outcome: Outcome = Outcome.OK,
    ) -> list[Transition]:
        """Let a second pass; None: the thermometer is unreadable."""
        samples: list[Sample] | None = None
        if temperatures is not None:
            samples = [
                ("temperature", (("device", device),), value)
                for device, value in temperatures.items()
            ]
        reading = Reading("thermometer", outcome, self.now, 0.0, samples, "cable pulled")
        self.engine.observe([reading], self.now, self.now - START + 1000)
        changes = self.engine.rules.evaluate(self.now)
        self.now += 1.0
        return changes

    def seconds(self, count: int, temperatures: dict[str, float] | None) -> list[str]:
        """Let some seconds pass; return the new states."""
        outcome = Outcome.FAILED if temperatures is None else Outcome.OK
        return [
            change.alert.state.value
            for _ in range(count)
            for change in self.second(temperatures, outcome)
        ]

    def only(self) -> Alert:
        """Return the only alert."""
        (alert,) = self.engine.rules.alerts()
        return alert


def test_an_alert_waits_for_its_time_and_then_fires() -> None:
    """`for: 3s`: pending when first true, firing three seconds later, with the current value."""
    host = FakeMachine()
    assert host.seconds(3, {"a": 60.0}) == ["pending"]
    assert host.seconds(1, {"a": 61.0}) == ["firing"]
    assert host.only().annotation("summary") == "a has 61"


def test_a_condition_that_ends_before_its_time_was_nothing() -> None:
    """A pending alert disappears without a notification."""
    host = FakeMachine()
    host.seconds(3, {"a": 60.0})
    assert host.seconds(1, {"a": 40.0}) == []
    assert host.engine.rules.alerts() == []


def test_a_firing_alert_is_kept_for_its_time_and_then_resolves() -> None:
    """`keep_firing_for: 2s`: a short dip below the threshold does not resolve it."""
    host = FakeMachine()
    host.seconds(5, {"a": 60.0})
    assert host.seconds(1, {"a": 40.0}) == []
    assert host.seconds(1, {"a": 60.0}) == []
    assert host.seconds(2, {"a": 40.0}) == []
    assert host.seconds(1, {"a": 40.0}) == ["resolved"]


def test_each_device_is_an_alert_of_its_own() -> None:
    """Two hot disks are two alerts; one that cools down resolves alone."""
    host = FakeMachine()
    host.seconds(5, {"a": 60.0, "b": 70.0})
    host.seconds(4, {"a": 60.0, "b": 40.0})
    states = {alert.label("device"): alert.state for alert in host.engine.rules.alerts()}
    assert states == {"a": AlertState.FIRING, "b": AlertState.RESOLVED}


def test_a_source_that_falls_silent_resolves_nothing() -> None:
    """Valid for three periods, then unknown, until valid data arrive."""
    host = FakeMachine()
    host.seconds(5, {"a": 60.0})
    assert host.seconds(3, None) == []
    assert host.seconds(1, None) == ["unknown"]
    assert host.only().unknown_reason == "thermometer failed: cable pulled"
    assert host.seconds(3600, None) == []
    assert host.only().state is AlertState.UNKNOWN
    assert host.seconds(1, {"a": 60.0}) == ["firing"]


def test_a_source_that_comes_back_with_good_data_resolves_what_is_over() -> None:
    """Unknown, then below the threshold: resolved, after keep_firing_for."""
    host = FakeMachine()
    host.seconds(5, {"a": 60.0})
    host.seconds(10, None)
    assert host.seconds(4, {"a": 40.0}) == ["firing", "resolved"]


def test_nothing_fires_anew_on_a_source_that_is_silent() -> None:
    """Pending when the cable was pulled: its time does not count without data."""
    host = FakeMachine()
    host.seconds(2, {"a": 60.0})
    assert host.seconds(60, None) == []


def test_a_broken_source_is_not_a_source_without_series() -> None:
    """A pressure file that never existed is absent; its rule has no series."""
    host = FakeMachine()
    for _ in range(10):
        assert host.second(None, Outcome.ABSENT) == []
    assert host.engine.rules.alerts() == []


def test_a_device_label_that_is_no_block_device_is_the_rules_own_business() -> None:
    """A user's rule labels a pool as device: it need not be in the kernel's list of disks."""
    rules = RULES.replace("severity: warning", "severity: warning, device: tank")
    host = FakeMachine(rules)
    assert host.seconds(8, {"": 60.0}) == ["pending", "firing"]


def test_firings_of_two_hours_are_counted() -> None:
    """Three warnings in two hours escalate; older ones are dropped."""
    host = FakeMachine()
    for _ in range(3):
        host.seconds(5, {"a": 60.0})
        host.seconds(5, {"a": 40.0})
    assert len(host.only().recent_firings) == 3
    host.now += 7200
    host.seconds(1, {"a": 40.0})
    assert host.engine.rules.alerts() == [] or host.only().recent_firings == ()


def test_a_restart_keeps_what_was_firing() -> None:
    """The alert continues with its own start time, and does not fire a second time."""
    host = FakeMachine()
    host.seconds(5, {"a": 60.0})
    kept = host.engine.rules.alerts()
    again = FakeMachine()
    again.now = host.now
    assert again.engine.rules.restore(kept) == []
    assert again.seconds(2, {"a": 60.0}) == []
    assert again.only().active_seconds == kept[0].active_seconds


def test_what_cleared_during_a_restart_resolves_after_it() -> None:
    """A minute without observation loses nothing."""
    host = FakeMachine()
    host.seconds(5, {"a": 60.0})
    again = FakeMachine()
    again.now = host.now + 60
    again.engine.rules.restore(host.engine.rules.alerts())
    assert again.seconds(4, {"a": 40.0}) == ["resolved"]


def test_an_alert_whose_rule_is_gone_is_handed_back() -> None:
    """A reload without the rule: the caller must end its alerts."""
    host = FakeMachine()
    host.seconds(5, {"a": 60.0})
    other = FakeMachine(RULES.replace("Hot", "Cold"))
    assert [a.name for a in other.engine.rules.restore(host.engine.rules.alerts())] == ["Hot"]


def test_two_results_with_the_same_labels_are_an_error_that_is_reported() -> None:
    """As in Prometheus; the rule is named, and no partial result fires."""
    host = FakeMachine(RULES.replace("severity: warning", "severity: warning, device: one"))
    host.seconds(5, {"a": 60.0, "b": 60.0})
    ((rule, text),) = host.engine.rules.problems.items()
    assert rule == "Hot"
    assert "expected results with different labels" in text


@pytest.mark.parametrize("failing", ["severity: warning", "severity: critical"])
def test_a_rule_in_error_is_reported_while_another_one_of_its_name_is_well(failing: str) -> None:
    """Many disks have a warning and a critical alert of one name: either can fail alone."""
    _, rule = RULES.split("rules:\n")
    rules = RULES + rule.replace("severity: warning", "severity: critical")
    host = FakeMachine(rules.replace(failing, f"{failing}, device: one"))
    for temperature in (60.0, 60.0, 61.0):
        host.seconds(1, {"a": temperature, "b": temperature})
        assert [*host.engine.rules.problems] == ["Hot"]
        (group,) = host.engine.rules.groups()
        assert sum(map(host.engine.rules.is_failing, group.rules)) == 1
    host.seconds(1, {"a": 61.0})
    assert host.engine.rules.problems == {}


def test_one_second_of_a_rule_in_error_is_counted_for_metrics() -> None:
    """`iowarden_rule_evaluation_failures_total` exists at 0 and rises."""
    host = FakeMachine(RULES.replace("severity: warning", "severity: warning, device: one"))

    def failures() -> float:
        return next(
            sample[2]
            for chunk in host.engine.hub.chunks()
            for family, samples in chunk.families
            for sample in samples
            if family.name == "iowarden_rule_evaluation_failures_total"
        )

    host.seconds(1, {"a": 1.0})
    assert failures() == 0.0
    host.seconds(2, {"a": 60.0, "b": 60.0})
    assert failures() == 2.0


@pytest.mark.parametrize("name", ["node_memory_Dirty_bytes", "iowarden_memory_dirty_bytes"])
def test_rules_read_both_our_names_and_those_of_node_exporter(name: str) -> None:
    """A user's rule for node_exporter works unchanged."""
    rules = RULES.replace("temperature > 50", f"{name} > 1024").replace("for: 3s", "for: 0s")
    source = next(s for s in registry.SOURCES if s.name == "meminfo")
    engine = Engine(parse_rule_file(rules, "test.yaml"), [source], START)
    text = "MemTotal: 9 kB\nMemFree: 1 kB\nBuffers: 0 kB\nCached: 0 kB\n"
    text += "Dirty: 2 kB\nWriteback: 0 kB\n"
    reading = Reading("meminfo", Outcome.OK, START, 0.0, parse_meminfo(text))
    engine.observe([reading], START, 1000.0)
    assert [change.alert.state for change in engine.rules.evaluate(START)] == [AlertState.FIRING]


HYSTERESIS = """
groups:
  - name: test
    interval: 1s
    rules:
      - alert: Hot
        expr: >-
          temperature > 55 or (temperature > 50
          and on (device) ALERTS{alertname="Hot", alertstate="firing"})
      - alert: HotForLong
        expr: (time() - ALERTS_FOR_STATE{alertname="Hot"}) >= 3
"""


def test_a_rule_may_read_what_fires() -> None:
    """Hysteresis as Prometheus users write it: on above 55, off at 50, and the duration."""
    host = FakeMachine(HYSTERESIS)
    assert host.seconds(2, {"a": 53.0}) == []
    assert host.seconds(2, {"a": 56.0}) == ["firing"]
    assert host.seconds(1, {"a": 53.0}) == []
    assert host.seconds(1, {"a": 53.0}) == ["firing"]
    names = {alert.name: alert.state for alert in host.engine.rules.alerts()}
    assert names == {"Hot": AlertState.FIRING, "HotForLong": AlertState.FIRING}
    assert "resolved" in host.seconds(2, {"a": 50.0})


def test_what_fires_is_not_shown_under_prometheus_own_names() -> None:
    """A second ALERTS of a host would break the rules of a fleet; a query includes it."""
    host = FakeMachine()
    host.seconds(5, {"a": 60.0})
    shown = {family.name for chunk in host.engine.hub.chunks() for family, _ in chunk.families}
    assert "iowarden_alerts" in shown
    assert not shown & {"ALERTS", "ALERTS_FOR_STATE"}
    found = host.engine.queries.query_all(
        'ALERTS{alertstate="firing"}', host.engine.rules.alerts(), host.now
    )
    assert isinstance(found, list)
    assert [dict(sample.labels)["device"] for sample in found] == ["a"]


def test_a_group_with_a_limit_fails_beyond_it_and_ends_no_alert() -> None:
    """Two hot disks are one too many: the rule is in error, and its alert is not resolved."""
    host = FakeMachine(RULES.replace("    interval: 1s", "    interval: 1s\n    limit: 1"))
    assert host.seconds(4, {"a": 60.0})[-1:] == ["firing"]
    assert host.seconds(5, {"a": 60.0, "b": 60.0}) == []
    assert [*host.engine.rules.problems.values()] == ["exceeded limit of 1 with 2 alerts"]
    assert host.only().state is AlertState.FIRING
    host.seconds(1, {"a": 60.0})
    assert host.engine.rules.problems == {}


def test_a_scalar_is_a_sample_without_labels() -> None:
    """'expr: scalar(...)' of a user fires and records, as in Prometheus."""
    rules = """
groups:
  - name: test
    interval: 1s
    rules:
      - record: warmest
        expr: scalar(temperature)
      - alert: Known
        expr: warmest == 60
      - alert: Always
        expr: "1"
"""
    host = FakeMachine(rules)
    host.seconds(2, {"a": 60.0})
    assert {a.name: a.value for a in host.engine.rules.alerts()} == {"Known": 60.0, "Always": 1.0}


@pytest.mark.parametrize(
    ("labels", "annotations", "expected"),
    [
        ({"device": "sda", "mode": "idle"}, {"summary": " slow\n"}, "slow"),
        ({"device": "sda", "instance": "a:9100", "job": "node", "severity": "warning"}, {}, "Slow"),
        ({"device": "sda1", "mountpoint": "/srv"}, {}, "Slow (device sda1, mountpoint /srv)"),
        ({"a": "1", "b": "2", "c": "3", "d": "4"}, {}, "Slow (a 1, b 2, c 3, ...)"),
        ({"mode": "idle"}, {"summary": " "}, "Slow (mode idle)"),
    ],
)
def test_an_alert_without_a_summary_is_reported_by_what_makes_it_one(
    labels: dict[str, str], annotations: dict[str, str], expected: str
) -> None:
    """Many rules have none: the mail's subject is the alert with its own labels."""
    pairs = tuple(sorted({"alertname": "Slow", **labels}.items()))
    alert = Alert("Slow", pairs, AlertState.FIRING, 1.0, tuple(annotations.items()), 0.0)
    assert replace(alert, object="sda (ACME, serial S1)").summary == expected
