"""packaging/prometheus: the Grafana dashboards. They were never opened in Grafana."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.lives import Life
from support.recordings import fixture, recorded

from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.metric_labels import LABELS
from iowarden.rules.promql import parser
from iowarden.rules.rulefile.unmatched_selectors import selectors

if TYPE_CHECKING:
    from support.golden import Golden

FOLDER = Path(__file__).parents[1] / "packaging/prometheus"
DASHBOARDS = ("iowarden-fleet", "iowarden-host")
UNITS = {"short", "s", "bytes", "Bps", "percentunit", "celsius"}
"""Of Grafana; ratios are from 0 to 1, times are in seconds."""
UNIT_OF = {"_seconds": "s", "_bytes": "bytes", "_per_second": "Bps", "_ratio": "percentunit",
           "_celsius": "celsius"}  # fmt: skip
NOT_RECORDED = {
    # No drive of the recorded machines has SMART data.
    "iowarden_disk_info",
    "iowarden_disk_temperature_celsius",
    "iowarden_smart_increase_since_baseline",
}


def dashboard(name: str) -> dict[str, Any]:
    """Return a dashboard."""
    found = json.loads((FOLDER / f"{name}.json").read_text())
    assert isinstance(found, dict)
    return found


def queries(name: str) -> list[tuple[str, str]]:
    """Return the unit and expression of each query, with the variables as Grafana replaces them."""
    return [
        (
            panel["fieldConfig"]["defaults"]["unit"],
            target["expr"].replace("$job", ".*").replace("$instance", ".*"),
        )
        for panel in dashboard(name)["panels"]
        for target in panel["targets"]
    ]


def test_the_dashboards_are_those_that_the_list_of_panels_makes(
    tmp_path: Path, golden: Golden
) -> None:
    """Change the list, not the JSON."""
    subprocess.run([sys.executable, FOLDER / "make-dashboards", tmp_path], check=True)
    for name in DASHBOARDS:
        golden(FOLDER / f"{name}.json", (tmp_path / f"{name}.json").read_text())


@pytest.mark.parametrize("name", DASHBOARDS)
def test_grafana_can_import_it_anywhere(name: str) -> None:
    """No id of one installation, and the data source is chosen."""
    found = dashboard(name)
    assert "id" not in found
    assert found["schemaVersion"] == 39
    assert [each["name"] for each in found["templating"]["list"]] == [
        "datasource",
        "job",
        "instance",
    ]
    assert {panel["datasource"]["uid"] for panel in found["panels"]} == {"${datasource}"}


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_expression_reads_metrics_that_exist_in_their_unit(name: str) -> None:
    """Of the chosen jobs and hosts only."""
    for unit, text in queries(name):
        assert unit in UNITS
        for selector in selectors(parser.parse(text)):
            assert selector.name == "up" or selector.name in LABELS, text
            assert {"job", "instance"} <= {one.label for one in selector.matchers}, text
            expected = [own for end, own in UNIT_OF.items() if selector.name.endswith(end)]
            assert unit == (expected[-1] if expected else "short"), text


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the series that recorded machines had in an incident."""
    found: list[str] = []
    for host in ("write-stall", "hung-disk", "healthy-copy", "busy-day"):
        directory = tmp_path_factory.mktemp(host)
        config = parse_config(f"state_directory: {directory}\n", "test")
        life = Life(config, [])
        frames = list(itertools.islice(recorded(fixture(host)), 300))
        life.play(frames[: int(len(frames) * 0.6)])
        for line in life.exposition.render().decode().splitlines():
            series, _, value = line.rpartition(" ")
            if not line.startswith("#"):
                name, _, labels = series.partition("{")
                target = f'instance="{host}:9748",job="iowarden"'
                found.append(f"{name}{{{target},{labels or '}'} {value}")
        found.append(f'up{{instance="{host}:9748",job="iowarden"}} {int(host == "hung-disk")}')
    return found


@pytest.mark.system
@pytest.mark.parametrize("name", DASHBOARDS)
def test_prometheus_finds_data_for_every_expression(
    name: str, scraped: list[str], tmp_path: Path
) -> None:
    """On recorded machines in an incident; in its own engine."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (package prometheus)")
    named = {one.name for _, text in queries(name) for one in selectors(parser.parse(text))}
    series = [line.rpartition(" ") for line in scraped if re.split("[{ ]", line)[0] in named]
    asked = [
        f"count({text.replace(' > 0', ' >= 0')}) > bool 0"  # nothing hangs or waits on most hosts
        for _, text in queries(name)
        if not {one.name for one in selectors(parser.parse(text))} & NOT_RECORDED
    ]
    assert len(asked) > len(queries(name)) / 2
    tests = {
        "interval": "30s",
        "input_series": [{"series": one, "values": f"{value}x9"} for one, _, value in series],
        "promql_expr_test": [
            {"expr": text, "eval_time": "2m", "exp_samples": [{"labels": "{}", "value": 1}]}
            for text in asked
        ],
    }
    path = tmp_path / "tests.json"
    path.write_text(json.dumps({"evaluation_interval": "30s", "tests": [tests]}))
    done = subprocess.run(
        [promtool, "test", "rules", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
