"""Alerts about iowarden itself, so that none of its own failures goes unnoticed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.host import shipped_rules

from iowarden.collectors import registry
from iowarden.collectors.model import Family, Outcome, Reading
from iowarden.rules.engine.engine import Engine

if TYPE_CHECKING:
    from iowarden.collectors.model import Labels
    from iowarden.collectors.source import Source
    from iowarden.rules.alerting.alerts import Alert

START = 1_800_000_000.0
RULE = (("rule", "MyRule"),)
MY_FILE = (("file", "/etc/iowarden/rules.d/mine.yaml"),)
MAIL = (("receiver", "mail"),)
UNREAD = (("document", "incidents"), ("reason", "unreadable"))
CASES: tuple[tuple[str, Labels, float, float, str, str], ...] = (
    ("iowarden_state_unwritten_seconds", (), 59, 60, "StateNotDurable", "warning"),
    ("iowarden_state_blocked_seconds", (), 59, 60, "StateNotDurable", "warning"),
    (
        "iowarden_notifications_oldest_unsent_seconds",
        MAIL,
        3599,
        3600,
        "NotificationUnsent",
        "critical",
    ),
    ("iowarden_notifications_refused", MAIL, 0, 1, "NotificationRefused", "warning"),
    ("iowarden_state_unreadable", UNREAD, 0, 1, "StateUnreadable", "warning"),
    ("iowarden_rule_evaluation_failing", RULE, 0, 1, "RuleEvaluationFailing", "warning"),
    ("iowarden_config_last_reload_successful", (), 1, 0, "ConfigReloadFailed", "warning"),
    ("iowarden_rule_file_problems", MY_FILE, 0, 1, "RuleFileRefused", "warning"),
    ("iowarden_log_messages_lost_total", (), 0, 1, "LogMessagesLost", "info"),
    ("iowarden_uevents_lost_total", (), 0, 1, "UeventsLost", "notice"),
)
CONDITIONS = {
    "StateNotDurable": "state_storage",
    "NotificationUnsent": "notification_unsent",
    "NotificationRefused": "notification_refused",
    "StateUnreadable": "state_storage",
    "RuleEvaluationFailing": "rule_evaluation_failing",
    "RuleEvaluationLate": "rule_evaluation_late",
    "ConfigReloadFailed": "config_reload_failed",
    "RuleFileRefused": "rule_file_refused",
    "LogMessagesLost": "log_messages_lost",
    "UeventsLost": "uevents_lost",
}


class Program:
    """The shipped rules over the program's own metrics."""

    def __init__(self, *sources: Source) -> None:
        self.now = START
        self.engine = Engine(shipped_rules(), sources, self.now)

    def say(self, metric: str, labels: Labels, value: float) -> dict[str, Alert]:
        """Publish one series, let the rules be due, and return the alerts by name."""
        family = Family(metric, "gauge", "Said in a test.")
        self.engine.hub.publish("program", (family,), [(metric, labels, value)], self.now)
        return self.wait(15.0)

    def wait(self, seconds: float) -> dict[str, Alert]:
        """Evaluate what is due now, and return the active alerts by name."""
        self.now += seconds
        self.engine.rules.evaluate(self.now)
        return {alert.name: alert for alert in self.engine.rules.alerts() if alert.active}


@pytest.mark.parametrize(
    ("metric", "labels", "well", "ill", "name", "severity"), CASES, ids=lambda case: str(case)[:40]
)
def test_what_goes_wrong_in_the_program_is_an_alert_until_it_is_over(
    metric: str, labels: Labels, well: float, ill: float, name: str, severity: str
) -> None:
    """Each of its own troubles, a step below the threshold, at it, and over."""
    program = Program()
    assert program.say(metric, labels, well) == {}
    alerts = program.say(metric, labels, ill)
    assert {alert.name: alert.label("severity") for alert in alerts.values()} == {name: severity}
    assert alerts[name].label("condition") == CONDITIONS[name]
    assert "{{" not in alerts[name].annotation("summary") + alerts[name].annotation("advice")
    assert program.say(metric, labels, well) == {}


def test_a_collector_that_falls_silent_is_reported_with_what_became_of_it() -> None:
    """meminfo cannot be read from the start: reported a minute after three of its periods."""
    meminfo = next(source for source in registry.SOURCES if source.name == "meminfo")
    program = Program(meminfo)
    told = []
    for second in range(70):
        failed = Reading("meminfo", Outcome.FAILED, program.now, 0.0, None, "I/O error")
        program.engine.observe([failed], program.now, 1000.0 + second)
        told.append(program.wait(1.0))
    assert told[60] == {}
    alert = told[-1]["CollectorStale"]
    assert (alert.label("collector"), alert.label("severity")) == ("meminfo", "warning")
    summary = alert.annotation("summary")
    assert summary.startswith("collector 'meminfo' is stale: no data for ")
    assert summary.endswith(" (failed)")
