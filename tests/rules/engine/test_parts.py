"""The parts of the engine in isolation: samples, loaded rules, reasons for unknown alerts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.machine import block

from iowarden.collectors.block import bdi, diskstats
from iowarden.collectors.model import Family, Outcome, Reading
from iowarden.collectors.procfs import meminfo, vmstat
from iowarden.rules.engine import loaded_rules
from iowarden.rules.engine.queries import Queries
from iowarden.rules.engine.sample_hub import REFRESH_SECONDS, SampleHub
from iowarden.rules.engine.signal_groups import SignalGroups
from iowarden.rules.engine.source_status import VALID_PERIODS, SourceStatus
from iowarden.rules.engine.visibility import Visibility
from iowarden.rules.promql.errors import EvaluationError
from iowarden.rules.rulefile.rulefile import parse_rule_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.block.diskstats import BlockIo
    from iowarden.collectors.model import Sample
    from iowarden.rules.engine.loaded_rules import LoadedRule

START = 1_800_000_000.0
FAMILIES = (Family("heat", "gauge", "Simulated."), Family("noise", "gauge", "Simulated."))
SAMPLES = [("heat", (("device", "a"),), 1.0), ("noise", (), 2.0)]
RULES = """groups:
- name: g
  rules:
  - {record: "mean:heat", expr: "avg_over_time(heat[10m])"}
  - {record: "peak:heat", expr: "max_over_time(mean:heat[1h])"}
  - {alert: Hot, expr: "peak:heat > 5"}
  - {alert: Cold, expr: "min_over_time(heat[30m]) < 1"}
"""
MEMORY = """groups:
- name: g
  rules:
  - {record: "dirty", expr: "iowarden_memory_dirty_bytes"}
  - {alert: Dirty, expr: "dirty > 5"}
"""


def rules(text: str) -> list[LoadedRule]:
    """Rules in force."""
    (group,) = loaded_rules.load(parse_rule_file(text, "test"), START, 15.0)
    return list(group.rules)


def hub_for(text: str) -> SampleHub:
    """Samples of a host without data sources, for the rules of a file."""
    hub = SampleHub({}, START)
    hub.load([each.rule.expression for each in rules(text)], START)
    return hub


def test_a_rule_reads_and_looks_back_through_the_recording_rules_behind_it() -> None:
    """The mean of a short time may be too high, and is not used; a minimum can only fall."""
    mean, peak, hot, cold = rules(RULES)
    assert [each.metrics for each in (mean, peak, hot, cold)] == [frozenset({"heat"})] * 4
    assert hot.windows == {"mean:heat": 3600.0, "heat": 600.0}
    assert cold.windows == {"heat": 1800.0}
    assert [each.needs_history for each in (hot, cold)] == [True, False]


def test_what_is_shown_has_a_new_version_only_when_it_changed() -> None:
    """A scrape does not render unchanged data again."""
    hub = hub_for(RULES)
    versions = []
    for samples in (SAMPLES, SAMPLES, list(SAMPLES), SAMPLES[:1]):
        hub.publish("room", FAMILIES, samples, START)
        (chunk,) = hub.chunks()
        versions.append((chunk.version, hub.version))
    assert versions == [(1, 1), (1, 1), (1, 1), (2, 2)]


def test_what_is_equal_to_what_is_shown_is_compared_once() -> None:
    """A signal of each ten seconds gives the same list for the seconds between."""
    compared = []

    class Samples(list):  # type: ignore[type-arg]
        __hash__ = None  # type: ignore[assignment]  # as a list

        def __eq__(self, other: object) -> bool:
            compared.append(other)
            return list.__eq__(self, other)

    hub, same, other = hub_for(RULES), Samples(SAMPLES), SAMPLES[:1]
    for samples in (SAMPLES, same, same, other, same, SAMPLES, SAMPLES):
        hub.publish("room", FAMILIES, samples, START)
    assert compared == [SAMPLES, other, SAMPLES]
    (chunk,) = hub.chunks()
    assert chunk.version == 3


def test_only_what_a_rule_reads_is_stored_and_ends_when_it_is_gone() -> None:
    """The rest is exposed, and queries of it use the last samples."""
    hub = hub_for(RULES)
    hub.publish("room", FAMILIES, SAMPLES, START)
    assert hub.store.names() == {"heat"}
    queries = Queries(hub, {})
    assert [s.value for s in queries.query("heat", START)] == [1.0]
    assert [s.value for s in queries.query("noise", START)] == [2.0]
    with pytest.raises(
        EvaluationError, match="history is stored only as long as a loaded rule needs it"
    ):
        queries.query("max_over_time(noise[1h])", START)
    hub.publish("room", FAMILIES, SAMPLES[1:], START + 1)
    assert queries.query("heat", START + 1) == []


def test_what_holds_is_written_anew_as_a_scrape_would() -> None:
    """Neither sooner nor later: a sample counts for five minutes."""
    hub = hub_for(RULES)
    written = []
    for second in range(int(2 * REFRESH_SECONDS) + 1):
        hub.refresh([("room", SAMPLES)], START + second)
        (series,) = hub.store.series("heat") or (None,)
        written.append(None if series is None else series.timestamp_seconds - START)
    assert sorted({each for each in written if each is not None}) == [15.0, 30.0]


def test_data_that_are_read_again_and_equal_keep_the_samples_that_were_made_of_them() -> None:
    """Settings are read each minute and mostly the same; another value is shown at once."""
    status = SourceStatus(bdi.SOURCE)
    shown = []
    for second, limit in enumerate((80, 80, 5)):
        value = {"8:0": bdi.Bdi("8:0", 131072, 0, limit, None, None)}
        status.take(Reading("bdi", Outcome.OK, START + second, 0.0, value), START + second)
        status.show(status.value, None)
        shown.append(status.samples())
    assert shown[0] is shown[1]
    assert ("iowarden_bdi_max_ratio_percent", (("bdi", "8:0"),), 5.0) in shown[2]


def test_a_disk_that_becomes_known_during_a_scrape_is_in_the_next_one() -> None:
    """No disk works, so the counters stay the same: only the list of disks has changed."""
    counters = {name: block(name) for name in ("sda", "sdb")}

    def emit(value: Mapping[str, BlockIo]) -> list[Sample]:
        status.show(counters, frozenset(counters))  # The loop reads '/sys/block' at this moment.
        return diskstats.emit(value)

    status = SourceStatus(replace(diskstats.SOURCE, emit=emit))
    status.show(counters, frozenset({"sda"}))
    shown = [
        {labels[0][1] for name, labels, _ in status.samples() if name.endswith("in_flight")}
        for _ in range(2)
    ]
    assert shown == [{"sda"}, {"sda", "sdb"}]


def test_settings_that_are_read_again_and_equal_are_in_memory_once() -> None:
    """A host with a thousand disks reads all their settings each minute: they rarely change."""
    status = SourceStatus(bdi.SOURCE)
    for second in range(3):
        value = {"8:0": bdi.Bdi("8:0", 131072, 0, 80, None, None)}
        status.take(Reading("bdi", Outcome.OK, START + second, 0.0, value), START + second)
        assert status.reading is not None
        assert status.reading.value is status.value
        assert status.reading.monotonic_seconds == START + second


def test_a_rule_cannot_be_judged_while_a_source_behind_it_is_silent() -> None:
    """Its last data are valid for three of its periods; a data source it does not need may fail."""
    source, other = SourceStatus(meminfo.SOURCE), SourceStatus(vmstat.SOURCE)
    sources: dict[str, SourceStatus[Any]] = {"meminfo": source, "vmstat": other}
    signals = SignalGroups(sources, START)
    visibility = Visibility(sources, signals, SampleHub(sources, START), START)
    _, dirty = loaded = rules(MEMORY)
    visibility.load(loaded)
    assert visibility.silent(dirty) == [source]  # nothing was polled yet
    for status in (source, other):
        status.since_seconds = START
        status.take(Reading(status.source.name, Outcome.FAILED, START, 0.0, None, "EIO"), START)
    assert visibility.silent(dirty) == [source]
    until = START + VALID_PERIODS * meminfo.SOURCE.period_seconds
    assert visibility.lost([source], frozenset(), until) == []
    assert visibility.lost([source], frozenset(), until + 1) == ["meminfo failed: EIO"]
