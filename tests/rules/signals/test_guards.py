"""Guards: which facts there are, that only one module has them, and what each permits."""

from __future__ import annotations

import importlib.resources
import re

from iowarden.rules.rulefile.rulefile import SHIPPED, RecordingRule, Rule, parse_rule_file
from iowarden.rules.signals.device import device
from iowarden.rules.signals.device.hang_thresholds import HangThresholds, WatchedKinds
from iowarden.rules.signals.guards import MEANINGS, Guard, min_seconds

_OWN_TESTS = re.compile(
    r"removable|virtual|discard|laptop_mode|spin|threshold_drop_ratio|blocked_not_writing"
    r"|clock_monotonic_seconds\s*<"
)
_SETTINGS = frozenset({"DirtyWritebackDisabled", "DirtyExpireTooLong"})
"""Alerts about the settings that laptop mode consists of."""


def name(rule: Rule | RecordingRule) -> str:
    """Return what a rule is called."""
    return rule.alert if isinstance(rule, Rule) else rule.record


def test_no_rule_tests_a_guard_by_itself() -> None:
    """A rule compares what a guard permits, or reads the one family of all guards."""
    directory = importlib.resources.files("iowarden.rules")
    found = [
        (entry.name, name(rule))
        for entry in directory.iterdir()
        if entry.name.endswith(".yaml")
        for group in parse_rule_file(entry.read_text(), SHIPPED + entry.name)
        for rule in group.rules
        if name(rule) not in _SETTINGS
        and _OWN_TESTS.search(re.sub(r"iowarden_guard_active\{[^}]*\}", "", rule.expression.text))
    ]
    assert found == []


def test_every_guard_has_its_reason() -> None:
    """'iowarden disk show' prints it."""
    assert list(MEANINGS) == list(Guard)
    assert all(meaning.reason for meaning in MEANINGS.values())


def test_the_guard_that_permits_most_counts() -> None:
    """A virtual disk on a host that was just resumed; without any nothing is permitted."""
    assert min_seconds({Guard.VIRTUAL, Guard.SUSPENDED_MACHINE}) == 30
    assert min_seconds({Guard.IN_FLIGHT_LEAKED}) == 0
    assert min_seconds(()) == 0


def test_a_path_stalls_from_the_time_on_that_its_map_permits() -> None:
    """Its requests fail over meanwhile: by itself it never hangs, and its writes may stall."""
    kinds = WatchedKinds({"sda": HangThresholds(None, None, 10.0)}, {"dm-0": ("sda",)}, {})
    state = device.DeviceState({"sda": device.DeviceProgress(1)}, kinds=kinds)
    assert device.threshold_seconds(state, "sda") == 45
    assert device.threshold_seconds(state, "sdb") == 10, "a disk that is not known yet"
