"""The histogram of waits on /metrics, as Prometheus takes it: over a freeze, a gap, a restart."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families
from support.pages import PlayedService, frozen, unpolled

from iowarden.rules.signals.waits import freeze_series, group

if TYPE_CHECKING:
    from pathlib import Path

NAME = "iowarden_storage_wait_seconds"


def histogram(service: PlayedService) -> dict[str, float]:
    """Return its samples: the buckets by upper limit, 'count' and 'sum'."""
    text = service.exposition.render().decode()
    (family,) = [f for f in text_string_to_metric_families(text) if f.name == NAME]
    assert family.type == "histogram"
    samples = {
        sample.labels.get("le") or sample.name.removeprefix(f"{NAME}_"): sample.value
        for sample in family.samples
    }
    limits = [limit for limit in samples if limit not in {"count", "sum"}]
    assert [float(limit) for limit in limits] == sorted(map(float, limits))
    counts = [samples[limit] for limit in limits]
    assert counts == sorted(counts), "cumulative"
    assert limits[-1] == "+Inf"
    assert samples["count"] == samples["+Inf"]
    return samples


def test_a_histogram_has_the_waits_of_the_victims_that_ended(tmp_path: Path) -> None:
    """Two tasks that were seen to wait for 36 s; while they wait it counts nothing."""
    assert histogram(PlayedService(frozen(60), tmp_path, full=True))["count"] == 0
    samples = histogram(PlayedService(frozen(60, until=48), tmp_path, full=True))
    assert (samples["30"], samples["60"], samples["sum"]) == (0, 2, 72)


def test_counts_stay_while_nobody_can_be_polled(tmp_path: Path) -> None:
    """The probe is away: what was counted is not forgotten, and no counter vanishes."""
    steps = unpolled(frozen(100, until=48), 64)
    assert histogram(PlayedService(steps, tmp_path, full=True))["count"] == 2


def test_a_restart_begins_at_zero(tmp_path: Path) -> None:
    """As each counter of a process: Prometheus takes it as a reset, and never as a step back."""
    before = PlayedService(frozen(60, until=48), tmp_path, full=True)
    assert histogram(before)["count"] == 2
    state = group.recall(group.NOTHING, group.remember(before.engine.signals.harm()))
    assert state.devices, "the series goes on"
    assert {
        value for name, _, value in freeze_series.samples(state, 0.0) if name.startswith(NAME)
    } == {0.0}


def test_promtool_finds_nothing_to_complain_about(tmp_path: Path) -> None:
    """Where it is installed."""
    promtool = shutil.which("promtool")
    text = PlayedService(frozen(60, until=48), tmp_path, full=True).exposition.render()
    if promtool is not None:
        done = subprocess.run(
            [promtool, "check", "metrics"], input=text, check=False, capture_output=True
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
