"""`iowarden metrics`: what each metric is, and its values or why it has none here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.memory import write_tree

from iowarden.collectors.machine import Machine
from iowarden.collectors.model import Outcome, Reading
from iowarden.collectors.registry import SOURCES
from iowarden.collectors.source import collect
from iowarden.daemon.control.documents import MetricLine, ResultSample
from iowarden.daemon.views import metric_answers
from iowarden.rules.engine.engine import Engine

if TYPE_CHECKING:
    from pathlib import Path

START = 1_800_000_000.0
MEMINFO = "".join(
    f"{name}: 1000 kB\n"
    for name in ("MemTotal", "MemFree", "Buffers", "Cached", "Dirty", "Writeback")
)


def engine(directory: Path) -> Engine:
    """Return an engine that has read the memory once, and whose pressure cannot be read."""
    write_tree(directory, {"/proc/meminfo": MEMINFO})
    sources = [each for each in SOURCES if each.name in {"meminfo", "pressure", "md"}]
    found = Engine((), sources, START)
    meminfo = next(each for each in sources if each.name == "meminfo")
    readings = [
        collect(meminfo, Machine(str(directory)), lambda: START),
        Reading("pressure", Outcome.ABSENT, START, 0.0, None, "no /proc/pressure"),
    ]
    found.observe(readings, START, 1000.0)
    return found


def test_a_metric_is_shown_with_its_unit_labels_and_value(tmp_path: Path) -> None:
    """The part of a name is enough."""
    (line,) = metric_answers.found(engine(tmp_path), "N_MEMORY_DIRTY_by").metrics
    assert line == MetricLine(
        name="iowarden_memory_dirty_bytes",
        type="gauge",
        unit="bytes",
        help=line.help,
        collectors=("meminfo",),
        series=1,
        samples=(ResultSample({"__name__": "iowarden_memory_dirty_bytes"}, "1024000"),),
    )
    assert line.help


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("iowarden_pressure_*", "collector 'pressure' is absent: no /proc/pressure"),
        ("iowarden_md_*", "collector 'md' has not been polled yet"),
        ("iowarden_device_hang_seconds", "is not in use"),
        ("iowarden_memory_unstable_bytes", "this host has no such object, or none in this state"),
    ],
)
def test_a_metric_without_values_has_a_reason(tmp_path: Path, pattern: str, reason: str) -> None:
    """An absent metric is not 0, and the reason is that of its collector."""
    found = metric_answers.found(engine(tmp_path), pattern).metrics
    assert found
    for line in found:
        assert (line.series, line.samples) == (0, ())
        assert reason in line.reason


def test_metrics_of_other_exporters_are_found(tmp_path: Path) -> None:
    """Rules can use them, whether they are exposed or not."""
    (line,) = metric_answers.found(engine(tmp_path), "node_memory_Dirty_bytes").metrics
    assert (line.type, line.collectors, line.series) == ("unknown", ("meminfo",), 1)


def test_a_pattern_that_matches_nothing_has_names_like_it(tmp_path: Path) -> None:
    """A misspelt name is hinted at."""
    with pytest.raises(ValueError, match=r"got '.*near: iowarden_memory_dirty"):
        metric_answers.found(engine(tmp_path), "iowarden_memry_dirty")


def test_many_metrics_are_counted_only(tmp_path: Path) -> None:
    """A list of all of them has no values: a thousand disks have 100,000."""
    found = metric_answers.found(engine(tmp_path), "").metrics
    assert len(found) > 200
    assert not any(line.samples for line in found)
    assert any(line.series for line in found)
