"""What a rule still proves while a data source of it is silent."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.host import shipped_rules
from support.rack import SMART
from support.simulation import START, UPTIME
from support.sources import SOURCES
from support.unparse import unparse

from iowarden.collectors.block import hwmon
from iowarden.collectors.model import Outcome, Reading
from iowarden.collectors.smart.drive import (
    AccessMethod,
    Disk,
    Disks,
    Drive,
    NvmeHealth,
    PollResult,
    Protocol,
    ReadStatus,
)
from iowarden.rules.engine.certain_part import certain_part, possible_part
from iowarden.rules.engine.engine import Engine
from iowarden.rules.promql.evaluator import compile_node
from iowarden.rules.promql.parser import parse
from iowarden.rules.promql.store import SeriesStore
from iowarden.rules.rulefile.rulefile import Rule, parse_rule_file

if TYPE_CHECKING:
    from iowarden.rules.engine.visibility import Visibility

SILENT = (Outcome.FAILED, Outcome.STUCK, Outcome.UNPARSED, Outcome.ABSENT, None)
"""None: not polled yet."""
READ = hwmon.Temperature("nvme", "temp1", "hwmon0", "Composite", "nvme0n1", 40.0, 80.0, 85.0)


class Machine:
    """A machine of which SMART and the temperatures of hwmon are read."""

    def __init__(self) -> None:
        """Start the program."""
        self.engine = Engine(shipped_rules(), [SMART, hwmon.SOURCE], START)
        self.now = START

    def run(self, byte: int, outcome: Outcome | None, celsius: float = 40.0) -> dict[str, str]:
        """Let a minute pass; return severity and state of the NVMe drive's warnings."""
        self.now += 60.0
        health = NvmeHealth(byte, 1.0, 0.1, 0.03, 0, 12_000, 57)
        drive = Drive(
            Protocol.NVME,
            model="ACME FLASH",
            serial="N1",
            passed=not byte,
            temperature_celsius=celsius,
            critical_temperature_celsius=85.0,
            nvme=health,
        )
        polled = PollResult(
            AccessMethod("/dev/nvme0", "nvme", origin="kernel"),
            ReadStatus.READ,
            drive=drive,
            read_seconds=self.now,
        )
        disks = Disks({"N1": Disk("N1", polled)})
        readings: list[Reading] = [Reading("smart", Outcome.OK, self.now, 0.0, disks)]
        if outcome is not None:
            value = (READ,) if outcome is Outcome.OK else None
            readings.append(Reading("hwmon", outcome, self.now, 0.0, value, "no data"))
        self.engine.observe(readings, self.now, self.now - START + UPTIME)
        self.engine.rules.evaluate(self.now)
        return {
            alert.label("severity"): alert.state.value
            for alert in self.engine.rules.alerts()
            if alert.name == "NvmeCriticalWarning"
        }


@pytest.mark.parametrize("outcome", SILENT)
@pytest.mark.parametrize("bit", [0x01, 0x04, 0x08, 0x10, 0x40, 0x80])
def test_a_failed_nvme_drive_is_critical_whatever_hwmon_says(
    bit: int, outcome: Outcome | None
) -> None:
    """Its temperature has nothing to do with these bits."""
    machine = Machine()
    machine.run(0, outcome)
    assert machine.run(bit, outcome) == {"critical": "firing"}


@pytest.mark.parametrize("outcome", SILENT)
@pytest.mark.parametrize(("celsius", "critical"), [(84.0, False), (85.0, True)])
def test_an_nvme_drive_at_its_critical_temperature_by_smart_needs_no_hwmon(
    celsius: float, critical: bool, outcome: Outcome | None
) -> None:
    """The drive and the kernel are two witnesses: one is enough."""
    machine = Machine()
    machine.run(0, outcome)
    states = machine.run(0x02, outcome, celsius)
    assert states == {"warning": "firing", **({"critical": "firing"} if critical else {})}


def test_an_alert_that_no_temperature_could_keep_ends_though_hwmon_is_silent() -> None:
    """The drive says that nothing is wrong; whatever hwmon would say changes nothing."""
    machine = Machine()
    machine.run(0, Outcome.OK)
    assert machine.run(0x08, Outcome.STUCK) == {"critical": "firing"}
    for _ in range(400):
        machine.run(0, Outcome.STUCK)
    assert machine.run(0, Outcome.STUCK) == {"critical": "resolved"}
    assert machine.run(0x08, Outcome.STUCK) == {"critical": "firing"}


def test_an_alert_that_a_temperature_could_keep_is_unknown_while_hwmon_is_silent() -> None:
    """The drive warns of its temperature still, and only hwmon knows whether it is critical."""
    machine = Machine()
    machine.run(0, Outcome.OK)
    assert machine.run(0x02, Outcome.OK, 90.0)["critical"] == "firing"
    for _ in range(30):
        states = machine.run(0x02, Outcome.STUCK)
    assert states["critical"] == "unknown"


# --- all shipped rules


def certain_without(silent: str) -> set[tuple[str, str]]:
    """Return the alerts that a part of their rules proves without a data source."""
    engine = Engine(shipped_rules(), SOURCES, START)
    visibility: Visibility = engine.rules.visibility
    status = engine.sources[silent]
    return {
        (rule.name, rule.severity or "")
        for group in engine.rules.groups()
        for rule in group.rules
        if isinstance(rule.rule, Rule)
        and status in visibility.silent(rule)
        and visibility.certain(rule, [status], frozenset()) is not None
    }


@pytest.mark.parametrize(
    ("silent", "alerts"),
    [
        ("hwmon", {("NvmeCriticalWarning", "critical")}),
        ("smart", {("DiskSlow", "warning")}),
        ("tasks", {("DeviceSuspended", "warning")}),
        ("dm", set()),
        ("pressure", {("DirectReclaim", "info")}),
    ],
)
def test_shipped_alerts_that_one_witness_is_enough_for(
    silent: str, alerts: set[tuple[str, str]]
) -> None:
    """The privileged probe may hang on the very disk that everything waits for."""
    assert certain_without(silent) == alerts


# --- the grammar

METRICS = ("a", "b", "c", "lost", "gone")
MATCHING = ("", "on (x) ", "on (x, y) ", "ignoring (y) ", "on () ")
LEAVES = st.sampled_from(METRICS).flatmap(lambda n: st.sampled_from((n, f"{n} > 1")))
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        lambda left, operator, matching, right: f"({left}) {operator} {matching}({right})",
        inner,
        st.sampled_from(("or", "and", "unless")),
        st.sampled_from(MATCHING),
        inner,
    ),
    max_leaves=8,
)
SERIES = st.dictionaries(
    st.tuples(st.sampled_from(METRICS), st.sampled_from("12"), st.sampled_from("12")),
    st.sampled_from((1.0, 2.0)),
    max_size=12,
)


def elements(text: str, samples: dict[tuple[str, str, str], float], missing: set[str]) -> set[str]:
    """Return the labels of what the certain part of an expression has; all if none is missing."""
    node = certain_part(parse(text), missing)
    if node is None:
        return set()
    store = SeriesStore()
    for name in METRICS:
        store.write(
            name,
            START,
            [(n, (("x", x), ("y", y)), value) for (n, x, y), value in samples.items() if n == name],
        )
    found = compile_node(node, unparse(node)).evaluate(store, START)
    assert isinstance(found, list)
    return {str(sample.labels) for sample in found}


@given(EXPRESSIONS, SERIES)
def test_what_is_certain_is_true_whatever_the_missing_metrics_are(
    text: str, samples: dict[tuple[str, str, str], float]
) -> None:
    """It neither reads them nor has an element that the whole expression lacks."""
    missing = {"lost", "gone"}
    stale = {key: value for key, value in samples.items() if key[0] not in missing}
    certain = elements(text, stale, missing)
    assert certain == elements(text, samples, missing)
    assert certain <= elements(text, samples, set())


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a or lost", "a"),
        ("lost or a or gone", "a"),
        ("a or on (x) lost", None),
        ("a or ignoring (y) lost", None),
        ("a and on (x) (b or lost)", "a and on(x) b"),
        ("a and on (x) (b or on (x, y) lost)", "a and on(x) b"),
        ("a and on (x, y) (b or on (x) lost)", None),
        ("a and lost", None),
        ("a unless lost", None),
        ("(a or lost) unless b", "a unless b"),
        ("b unless (a or lost)", None),
        ("sum(a or lost)", None),
        ("(a or lost) > 1", None),
        ("partial", "partial"),
        ("partial and a", "partial and a"),
        ("a unless partial", None),
        ("partial > 1", None),
        ('a or {job="x"}', "a"),
    ],
)
def test_the_part_without_what_is_lost(text: str, part: str | None) -> None:
    """Of `partial`, each series is certain: it may have more."""
    node = certain_part(parse(text), {"lost", "gone"}, {"partial"})
    assert (None if node is None else unparse(node)) == (
        None if part is None else unparse(parse(part))
    )


@given(EXPRESSIONS, SERIES)
def test_what_is_not_possible_is_false_whatever_the_missing_metrics_are(
    text: str, samples: dict[tuple[str, str, str], float]
) -> None:
    """It does not read them, and has every element that the whole expression may have."""
    missing = {"lost", "gone"}
    node = possible_part(parse(text), missing)
    if node is not None:
        possible = elements(unparse(node), samples, set())
        stale = {key: value for key, value in samples.items() if key[0] not in missing}
        assert possible == elements(unparse(node), stale, set())
        assert possible >= elements(text, samples, set())


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a and lost", "a"),
        ("a or b and on (x) lost", "a or b"),
        ("a unless lost", "a"),
        ("(a and lost) unless b", "a unless b"),
        ("a or lost", None),
        ("lost and a", None),
        ("a or on (x) (b and lost)", None),
        ("sum(a and lost)", None),
        ("(a and lost) > 1", None),
        ('a and {job="x"}', "a"),
    ],
)
def test_the_part_that_has_all_that_is_possible(text: str, part: str | None) -> None:
    """Without it an alert is over: a disk that the kernel's counters no longer show as slow."""
    node = possible_part(parse(text), {"lost", "gone"})
    assert (None if node is None else unparse(node)) == (
        None if part is None else unparse(parse(part))
    )


def test_a_recording_rule_that_reads_itself_proves_nothing() -> None:
    """Its own last result would prove it for ever."""
    rules = """groups:
- name: g
  rules:
  - {record: "hot", expr: "hot or iowarden_disk_info"}
  - {record: "hot", expr: "iowarden_temperature_celsius > 90"}
  - {alert: Hot, expr: "hot or iowarden_disk_info"}
"""
    engine = Engine(parse_rule_file(rules, "test"), [SMART, hwmon.SOURCE], START)
    status = engine.sources["hwmon"]
    (group,) = engine.rules.groups()
    parts = [engine.rules.visibility.certain(rule, [status], frozenset()) for rule in group.rules]
    assert [part and part.names for part in parts] == [
        {"iowarden_disk_info"},
        None,
        {"iowarden_disk_info"},
    ]


def test_what_the_kernel_shows_ends_by_the_kernel_though_smart_cannot_be_read() -> None:
    """SMART would only let a weaker finding count; the weaker one alone is unknown without it."""
    rules = """groups:
- name: g
  rules:
  - alert: Warm
    expr: |
      iowarden_temperature_celsius > 60
      or iowarden_temperature_celsius > 50 and on (device) iowarden_smart_increase > 0
"""
    engine = Engine(parse_rule_file(rules, "test"), [SMART, hwmon.SOURCE], START)
    states = []
    for minute, celsius in enumerate((70.0, 70.0, 55.0, 40.0), 1):
        now = START + 60.0 * minute
        polled = PollResult(
            AccessMethod("/dev/sda", "sat", origin="kernel"), ReadStatus.NO_SMARTCTL
        )
        warm = (dataclasses.replace(READ, device="sda", celsius=celsius),)
        readings: list[Reading] = [
            Reading("smart", Outcome.OK, now, 0.0, Disks({"N1": Disk("N1", polled)})),
            Reading("hwmon", Outcome.OK, now, 0.0, warm),
        ]
        engine.observe(readings, now, now - START + UPTIME)
        engine.rules.evaluate(now)
        states.append([alert.state.value for alert in engine.rules.alerts()])
    assert states == [["firing"], ["firing"], ["unknown"], ["resolved"]]
