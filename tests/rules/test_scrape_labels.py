"""Rules of users with `{job="node"}` and `on(instance)` match here as well."""

from __future__ import annotations

import pytest

from iowarden.collectors import registry
from iowarden.collectors.model import Outcome, Reading
from iowarden.collectors.procfs.meminfo import parse_meminfo
from iowarden.rules.alerting import alerts as life
from iowarden.rules.engine.engine import Engine
from iowarden.rules.rulefile.rulefile import parse_rule_file

START = 1_800_000_000.0
TARGETS = {"node": (("instance", "db1"), ("job", "node")), "smartctl": (("job", "smartctl"),)}
RULES = """
groups:
  - name: of-others
    interval: 1s
    rules:
      - alert: HostOutOfMemory
        expr: node_memory_MemFree_bytes{job="node"} / on(instance) node_memory_MemTotal_bytes < 0.5
        annotations: {summary: "out of memory (instance {{ $labels.instance }})"}
      - alert: Joined
        expr: node_memory_MemFree_bytes * on(instance, job) group_left() up{job=~"node|other"}
      - {alert: Down, expr: 'up == 0 or absent(up{job="node"})'}
      - {alert: Ours, expr: 'iowarden_memory_free_bytes{instance=""}'}
      - {alert: Elsewhere, expr: 'node_memory_MemFree_bytes{instance="db2"}'}
"""
MEMINFO = next(source for source in registry.SOURCES if source.name == "meminfo")
VALUE = parse_meminfo(
    "MemTotal: 100 kB\nMemFree: 10 kB\nMemAvailable: 20 kB\nBuffers: 0 kB\nCached: 0 kB\n"
    "Dirty: 0 kB\nWriteback: 0 kB\n"
)


def engine(expose: tuple[str, ...] = ()) -> Engine:
    """A host after one reading, short of memory."""
    rules = parse_rule_file(RULES, "test")
    made = Engine(rules, [MEMINFO], START, expose=expose, targets=TARGETS)
    made.observe([Reading("meminfo", Outcome.OK, START, 0.0, VALUE)], START, 1000.0)
    made.rules.evaluate(START)
    return made


def test_rules_of_others_find_the_host_and_the_job_they_name() -> None:
    """The alert has both labels, as it has in Prometheus; what names another host finds nothing."""
    alerts = {alert.name: alert for alert in engine().rules.alerts()}
    assert sorted(alerts) == ["HostOutOfMemory", "Joined", "Ours"]
    assert alerts["HostOutOfMemory"].annotation("summary") == "out of memory (instance db1)"
    assert alerts["Joined"].labels == (
        ("alertname", "Joined"),
        ("instance", "db1"),
        ("job", "node"),
    )
    assert alerts["Ours"].labels == (("alertname", "Ours"),)


@pytest.mark.parametrize("expose", [(), ("node_",)])
def test_nobody_who_scrapes_us_meets_labels_of_his_own(expose: tuple[str, ...]) -> None:
    """Prometheus would rename them to 'exported_job'; queries here have them, exposed or not."""
    made = engine(expose)
    shown = [
        sample for chunk in made.hub.chunks() for _, samples in chunk.families for sample in samples
    ]
    assert ("iowarden_alerts", "HostOutOfMemory") in {
        (name, dict(labels).get("alertname")) for name, labels, _ in shown
    }
    assert not [labels for _, labels, _ in shown if {"job", "instance"} & dict(labels).keys()]
    assert any(name.startswith("node_") for name, _, _ in shown) is bool(expose)
    for text in ("node_memory_MemAvailable_bytes", "node_memory_MemTotal_bytes", 'up{job="node"}'):
        (found,) = made.queries.query_all(text, made.rules.alerts(), START)  # type: ignore[misc]  # a vector
        assert found.labels == TARGETS["node"]
    everything = made.queries.query_all('{job="node"}', made.rules.alerts(), START)
    assert isinstance(everything, list)
    assert {"up", "node_memory_MemTotal_bytes"} <= {one.name for one in everything}


def test_an_exporter_that_is_not_read_is_no_exporter_that_is_down() -> None:
    """A failed data source has a rule of its own; 'up' does not show it."""
    made = engine()
    for second in range(1, 120):
        failed = Reading("meminfo", Outcome.FAILED, START + second, 0.0, None, "hangs")
        made.observe([failed], START + second, 1000.0 + second)
        made.rules.evaluate(START + second)
    states = {alert.name: alert.state for alert in made.rules.alerts()}
    assert states["HostOutOfMemory"] is life.AlertState.UNKNOWN
    assert "Down" not in states
