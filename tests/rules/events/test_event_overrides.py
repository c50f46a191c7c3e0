"""What an administrator changes of a class of events in the configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.machine import disk, topology

from iowarden.collectors.event import StorageEvent
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_events, load_rules
from iowarden.rules.events import event_alerts, event_correlation
from iowarden.rules.events.event_state import CorrelationState, EventBatch
from iowarden.rules.severity import Severity
from iowarden.rules.topology.slot_map import DeviceMap
from iowarden.rules.topology.topology import NO_DEPENDENTS, remember
from iowarden.rules.yaml_nodes import RuleFileError

if TYPE_CHECKING:
    from iowarden.rules.events.event_table import EventTable

START = 1_800_000_000.0
SHIPPED = load_events()
DISK = DeviceMap(topology=topology(replace(disk("sda", serial="S-A"), host="host2")))


def table(overrides: str) -> EventTable:
    """Return the shipped classes as a configuration changes them."""
    return load_events(parse_config(f"overrides:\n  {overrides}\n", "c.yaml").overrides)


def medium_error(sector: int) -> StorageEvent:
    """Return a kernel line about a sector of sda."""
    return StorageEvent(
        "kernel",
        "block_medium_error",
        f"critical medium error, dev sda, sector {sector}",
        device="sda",
        sector=sector,
        boot_id="boot",
        monotonic_seconds=float(sector),
        realtime_seconds=START,
    )


def correlated(classes: EventTable, *events: StorageEvent) -> CorrelationState:
    """Return the state after events that were new to a service with these classes."""
    batch = EventBatch(START, START, events)
    return event_correlation.correlate(CorrelationState(), batch, DISK, classes)[0]


def severities(state: CorrelationState, classes: EventTable) -> list[str]:
    """Return the severities of the alerts of a state."""
    return [each.severity.name.lower() for each in event_alerts.alerts(state, classes, START)]


@pytest.mark.parametrize(
    ("overrides", "count", "expected"),
    [
        ("{}", 1, ["warning"]),
        ("{}", 5, ["critical"]),
        ("block_medium_error: {severity: critical}", 1, ["critical"]),
        ("block_medium_error: {severity: warning}", 5, ["warning"]),
        ("block_medium_error: {severity: notice}", 5, []),
        ("block_medium_error: {enabled: false}", 5, []),
        ("block_io_error: {enabled: false}", 1, ["warning"]),
    ],
)
def test_all_events_of_a_class_have_the_severity_of_the_configuration(
    overrides: str, count: int, expected: list[str]
) -> None:
    """However many come; below warning, or disabled, they are no alert."""
    classes = SHIPPED if overrides == "{}" else table(overrides)
    assert severities(correlated(classes, *map(medium_error, range(count))), classes) == expected


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ("block_medium_error: {severity: warning}", ["warning"]),
        ("block_medium_error: {severity: info}", []),
        ("block_medium_error: {enabled: false}", []),
        ("block_io_error: {severity: critical}", ["critical"]),
    ],
)
def test_a_lower_severity_holds_for_what_has_already_happened(
    overrides: str, expected: list[str]
) -> None:
    """A reload, or a restart, while five errors of the last minutes are a critical alert."""
    state = correlated(SHIPPED, *map(medium_error, range(5)))
    assert severities(state, SHIPPED) == ["critical"]
    assert severities(state, table(overrides)) == expected


@pytest.mark.parametrize("severity", ["", "warning", "critical", "info"])
def test_an_error_of_one_path_of_two_stays_below_warning(severity: str) -> None:
    """Raising or lowering the class does not make an alert of what has lost nothing."""
    classes = table(f"block_io_error: {{severity: {severity}}}") if severity else SHIPPED
    paths = topology(
        *(
            replace(disk(name, serial="LUN-1", holders=("dm-0",)), host=host, device_number=number)
            for name, host, number in (("sda", "host2", "8:0"), ("sdb", "host3", "8:16"))
        ),
        replace(
            disk("dm-0", slaves=("sda", "sdb"), leaf=False), dm_name="a", dm_uuid="mpath-3600a"
        ),
    )
    known = DeviceMap(topology=paths, dependents=remember(NO_DEPENDENTS, paths, (), START))
    error = replace(medium_error(1), kind="block_io_error", text="I/O error, dev sda, sector 1")
    batch = EventBatch(START, START, (error,))
    state, news = event_correlation.correlate(CorrelationState(), batch, known, classes)
    assert severities(state, classes) == []
    assert [each.severity for each in news] == [
        Severity.INFO if severity == "info" else Severity.NOTICE
    ]


def test_what_a_controller_sends_gives_way_to_the_configuration() -> None:
    """A class whose severity its controller sends, and one that is not recorded at all."""
    sent = next(row for row in SHIPPED.rows.values() if row.sent)
    fatal = StorageEvent("megaraid", sent.kind, "x", word="FATAL")
    assert sent.alert_severity(fatal) is Severity.CRITICAL
    row = table(f"{sent.kind}: {{severity: info}}").find(fatal)
    assert (row.alert_severity(fatal), row.severity_of(fatal)) == (Severity.INFO, Severity.CRITICAL)
    noise = next(row for row in SHIPPED.rows.values() if row.severity is None)
    event = StorageEvent("kernel", noise.kind, "x")
    assert noise.alert_severity(event) is None
    row = table(f"{noise.kind}: {{severity: warning}}").find(event)
    assert row.alert_severity(event) is Severity.WARNING


@pytest.mark.parametrize("change", ["severity: info", "enabled: false"])
def test_an_error_without_an_alert_is_still_an_error(change: str) -> None:
    """A mail about the controller must not say that the kernel logged no error."""
    classes = table(f"block_medium_error: {{{change}}}")
    state = correlated(classes, medium_error(1))
    assert state.errors == correlated(SHIPPED, medium_error(1)).errors != {}
    assert [group.count for group in state.groups] == [1]


def test_a_disabled_class_is_in_no_digest() -> None:
    """Events below warning are listed there, once a week."""
    ready = StorageEvent("kernel", "ata_link_up", "ata1: SATA link up", device="sda")
    assert SHIPPED.find(ready).severity is Severity.INFO
    for classes, count in ((SHIPPED, 2), (table("ata_link_up: {enabled: false}"), 0)):
        batch = EventBatch(START, START, (ready,))
        state, news = event_correlation.correlate(CorrelationState(), batch, DISK, classes)
        assert len(event_alerts.below_warning(state, news)) == count


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "block_io_error: {for: 5m, severity: info}",
            "block_io_error: expected 'severity' or 'enabled', which an event has, got 'for',",
        ),
        ("block_io_eror: {enabled: false}", "did you mean 'block_io_error'"),
        ("block_io_error/warning: {enabled: false}", "did you mean 'block_io_error'"),
    ],
)
def test_what_cannot_be_changed_of_an_event_is_refused(text: str, expected: str) -> None:
    """With the line in the file, as of a rule."""
    settings = parse_config(f"shipped_rules: true\noverrides:\n  {text}\n", "c.yaml")
    with pytest.raises(RuleFileError) as caught:
        load_rules(settings)
    (error,) = caught.value.errors
    assert error.startswith("'c.yaml':3: overrides: ")
    assert expected in error


def test_no_name_means_both_a_rule_and_a_class_of_events() -> None:
    """Otherwise an override of one would change the other."""
    rules = load_rules(parse_config("", "defaults"))
    names = {getattr(rule, "alert", "") or rule.record for group in rules for rule in group.rules}
    assert names.isdisjoint(SHIPPED.rows)
