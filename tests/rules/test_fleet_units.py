"""The unit tests of the shipped rules with three hosts in one Prometheus: only the sick one alerts.

In promtool of Prometheus 2 and 3, and in iowarden's own engine, which reads `instance` and `job` as
any other label.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from support.fleet import of_three_hosts

from iowarden.daemon.config.rule_files import load_files
from iowarden.rules.alerting.unit_tests import parse_unit_tests, run

RULES = Path(__file__).parents[2] / "rules"
UNITS = Path(__file__).parent / "units"
each_file = pytest.mark.parametrize("rules", sorted(RULES.glob("*.yaml")), ids=lambda p: p.stem)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the generated tests of each rule file, by the name of the file."""
    folder = tmp_path_factory.mktemp("fleet")
    found = {}
    for rules in sorted(RULES.glob("*.yaml")):
        text = (UNITS / f"{rules.stem}_test.yaml").read_text()
        tests = of_three_hosts(text, load_files([rules]), str(rules))
        found[rules.stem] = folder / f"{rules.stem}.json"
        found[rules.stem].write_text(json.dumps(tests))
    return found


@pytest.mark.system
@pytest.mark.parametrize("program", ["promtool", "promtool-3"])
@each_file
def test_in_prometheus_only_the_sick_host_of_three_has_the_alert(
    generated: dict[str, Path], rules: Path, program: str
) -> None:
    """Same texts as alone; the others are healthy under another job, and just booted."""
    promtool = shutil.which(program)
    if promtool is None:
        pytest.skip(f"{program} is not installed: make build/tools/{program}")
    tested = subprocess.run(
        [promtool, "test", "rules", str(generated[rules.stem])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "no file match" not in tested.stdout + tested.stderr


@pytest.mark.system
@each_file
def test_the_daemons_own_engine_finds_the_same_of_three_hosts(
    generated: dict[str, Path], rules: Path
) -> None:
    """Matching by instance and job is Prometheus's."""
    tests = parse_unit_tests(generated[rules.stem].read_text(), rules.stem)
    assert tests.tests
    assert run(tests, load_files([rules])) == []
