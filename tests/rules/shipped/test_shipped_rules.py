"""The shipped rules on whole hosts: which alerts they raise, and above all when none."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from support.host import Host, played, shipped_rules
from support.recordings import STALL, corpus, fixture, stall
from support.simulation import START, UPTIME, Simulation

from iowarden.collectors.model import Outcome, Reading
from iowarden.rules.rulefile.rulefile import Rule, parse_rule_file
from iowarden.rules.yaml_nodes import RuleFileError

RULES = Path(__file__).parents[3] / "rules"


@pytest.fixture
def machine() -> Simulation:
    """A host with two disks, sda written at 100 MB/s for 20 s, long after boot."""
    simulation = Simulation(follow=[STALLED])
    simulation.add_disk("sda", "S1")
    simulation.add_disk("sdb", "S2")
    simulation.run(20, writes={"sda": 100_000_000}, in_flight={"sda": 4})
    return simulation


QUEUED = 875_000_000
FORECAST = "iowarden_writeback_drain_seconds"
ABOVE = "iowarden_writeback_above_freerun_seconds"
LULL = "iowarden_writeback_no_progress_seconds"
STALLED = "iowarden_device_hang_seconds"


def test_a_writer_held_at_the_limit_is_information(machine: Simulation) -> None:
    """20/10, 87.5 % of the threshold for a minute, the writer itself blocked: no mail."""
    machine.run(60, queued=QUEUED, blocked=1, writes={"sda": 100_000_000}, in_flight={"sda": 32})
    assert machine.host.names() == {"WriteThrottle"}
    machine.run(120)
    assert machine.host.mails == []


def test_the_same_with_a_lull_and_twenty_seconds_to_drain_is_a_warning(
    machine: Simulation,
) -> None:
    """In addition a trickle of 0.9 MB/s instead of 100 MB/s, and tasks wait."""
    machine.run(20, queued=QUEUED, blocked=1, writes={"sda": 900_000}, in_flight={"sda": 32})
    assert ("WriteStall", "warning") in {(name, level) for _, name, level in machine.host.fired}
    assert machine.host.names("critical") == set()
    machine.run(60)
    assert machine.host.reasons() == ["opened"]


def test_below_freerun_nothing_is_reported(machine: Simulation) -> None:
    """74.9 % of the threshold, whatever the disks do."""
    machine.run(90, queued=749_000_000, blocked=2, writes={"sda": 100_000_000})
    assert machine.host.fired == []


def test_the_dip_of_four_seconds_after_the_cure_is_silent(machine: Simulation) -> None:
    """Limits lowered; four slow seconds, then normal again."""
    for _ in range(5):
        machine.run(4, queued=QUEUED, blocked=3, writes={"sda": 2_000_000}, in_flight={"sda": 9})
        machine.run(12, queued=QUEUED, blocked=1, writes={"sda": 62_000_000}, in_flight={"sda": 9})
    assert machine.host.names() <= {"WriteThrottle", "DirtyLimitTooLarge"}
    assert machine.host.mails == []


def test_two_minutes_to_drain_and_three_tasks_waiting_is_a_stall(machine: Simulation) -> None:
    """A slow disk writes 2 MB/s steadily: progress, but 7 minutes of backlog and others wait."""
    machine.run(60, queued=QUEUED, blocked=3, writes={"sda": 2_000_000}, in_flight={"sda": 9})
    assert "WriteStall" in machine.host.names("warning")


def test_two_tasks_waiting_is_still_only_the_writers_own_business(machine: Simulation) -> None:
    """It becomes a warning when other programs are affected."""
    machine.run(90, queued=QUEUED, blocked=2, writes={"sda": 2_000_000}, in_flight={"sda": 9})
    assert machine.host.names("warning") == set()


def test_half_a_minute_at_the_threshold_is_a_stall(machine: Simulation) -> None:
    """There the kernel stops writers instead of pausing them; which ones is unknown."""
    machine.run(
        40, queued=1_000_100_000, blocked=1, writes={"sda": 100_000_000}, in_flight={"sda": 9}
    )
    assert "WriteStall" in machine.host.names("warning")


def test_a_threshold_that_came_down_to_the_level_is_no_stall(machine: Simulation) -> None:
    """Programs allocated memory: the limit fell by half in the minute, without more writes."""
    machine.run(5, queued=600_000_000, threshold=1_000_000_000, writes={"sda": 10**8})
    machine.run(
        45, queued=600_000_000, threshold=590_000_000, background=295_000_000, writes={"sda": 10**8}
    )
    assert machine.host.names("warning") == set()


def test_the_first_two_minutes_after_boot_are_not_judged_by_a_lull() -> None:
    """Services start, caches are cold: only two minutes of backlog with waiting tasks count."""
    simulation = Simulation(uptime=10.0)
    simulation.add_disk("sda")
    simulation.run(20, writes={"sda": 10**8}, in_flight={"sda": 4})
    simulation.run(20, queued=QUEUED, blocked=1, writes={"sda": 900_000}, in_flight={"sda": 9})
    assert "WriteStall" not in simulation.host.names()


@pytest.mark.parametrize(("idle", "is_stall"), [(30, False), (0, True)])
def test_in_laptop_mode_only_a_disk_that_was_idle_may_take_long(
    idle: int, *, is_stall: bool
) -> None:
    """It spins up for 20 s, with what was gathered meanwhile; one that works is not asleep."""
    simulation = Simulation(laptop_mode=5)
    simulation.add_disk("sda")
    simulation.run(20, writes={"sda": 10**8}, in_flight={"sda": 4})
    simulation.run(idle, queued=QUEUED)
    simulation.run(20, queued=QUEUED, blocked=1, in_flight={"sda": 9})
    assert ("WriteStall" in simulation.host.names()) is is_stall


def test_in_laptop_mode_a_disk_that_writes_next_to_nothing_stalls_like_any_other() -> None:
    """It completes a little in each second: it does not spin up."""
    simulation = Simulation(laptop_mode=5)
    simulation.add_disk("sda")
    simulation.run(20, writes={"sda": 10**8}, in_flight={"sda": 4})
    simulation.run(20, queued=QUEUED, blocked=1, writes={"sda": 900_000}, in_flight={"sda": 9})
    assert "WriteStall" in simulation.host.names()


def test_a_stall_of_a_minute_while_the_disk_hangs_is_critical_and_one_thread(
    machine: Simulation,
) -> None:
    """write_stall belongs to the hung disk; the host gets no thread."""
    machine.run(90, queued=QUEUED, blocked=5, in_flight={"sda": 32})
    assert {"DeviceHang", "WriteStall"} <= machine.host.names("critical")
    assert {mail.due.incident.key for mail in machine.host.mails} == {"disk  SIMULATED HDD S1"}
    assert len({mail.due.incident.identifier for mail in machine.host.mails}) == 1
    assert machine.host.reasons()[0] == "opened"
    assert machine.host.mails[0].due.incident.object == "sda (SIMULATED HDD, serial S1)"


def test_the_incidents_rows_fire_at_the_tenth() -> None:
    """22 seconds of a frozen server as completed writes of one disk."""
    simulation = Simulation(follow=[LULL])
    simulation.add_disk("sda")
    kilobytes_of = {"queued": 3_237_432, "threshold": 3_269_816, "background": 817_454}
    level = {name: value * 1024 for name, value in kilobytes_of.items()}
    simulation.run(12, blocked=5, writes={"sda": 65_500 * 1024}, in_flight={"sda": 4}, **level)
    assert "WriteStall" not in simulation.host.names()
    began = simulation.second
    rows = [(0, 4)] * 19 + [(8, 3), (0, 4), (1928, 5)]
    for kilobytes, blocked in rows:
        simulation.run(
            1, blocked=blocked, writes={"sda": kilobytes * 1024}, in_flight={"sda": 4}, **level
        )
    values = [max(signals.values()) for _, signals in simulation.host.history[began:]]
    assert values[9] == 10.0
    assert max(values) == 21.0
    assert "WriteStall" in simulation.host.names("warning")


def test_a_frozen_file_system_is_a_hung_device_after_ten_seconds(machine: Simulation) -> None:
    """96 requests in flight, none completed, 50 MB of write-back, hardly any pressure."""
    began = machine.second
    machine.run(13, queued=50_000_000, blocked=2, in_flight={"sda": 96})
    stalled = [signals[STALLED + '{device="sda"}'] for _, signals in machine.host.history[began:]]
    assert stalled[9] == 10.0
    assert machine.host.names("warning") == {"DeviceHang"}
    machine.run(25, queued=50_000_000, blocked=2, in_flight={"sda": 96})
    assert machine.host.names("critical") == {"DeviceHang"}
    assert machine.host.reasons() == ["opened", "escalated"]


def test_a_device_that_vanishes_in_a_stall_is_not_well(machine: Simulation) -> None:
    """Pulled while it hung: the incident stays open with its data unavailable."""
    machine.run(45, in_flight={"sda": 9})
    del machine.disks["sda"]
    machine.memory.remove("/sys/block/sda")
    machine.run(1200, step=4)
    assert machine.host.reasons() == ["opened", "escalated", "data unavailable"]


def test_nobody_vouches_for_a_disk_that_is_gone_or_a_source_that_is_silent(
    machine: Simulation,
) -> None:
    """An alert counts as resolved only while it could be seen to fire."""
    engine = machine.host.engine
    assert engine is not None
    alert = (("alertname", "DeviceHang"), ("device", "sda"), ("severity", "warning"))
    assert engine.rules.is_observable(alert, "")
    del machine.disks["sda"]
    machine.run(1)
    assert not engine.rules.is_observable(alert, "")
    assert engine.rules.is_observable((("alertname", "DeviceHang"), ("device", "sdb")), "")
    broken = Reading("diskstats", Outcome.FAILED, 0.0, 0.0, None, "cable pulled")
    engine.observe([broken], START + machine.second, UPTIME)
    assert not engine.rules.is_observable((("alertname", "DeviceHang"), ("device", "sdb")), "")


def test_a_lull_nobody_can_tell_after_a_restart_is_unknown_and_not_over() -> None:
    """Restarted in a stall without stored state: the alert waits for valid data."""
    simulation = Simulation()
    simulation.add_disk("sda")
    waiting = {"queued": QUEUED, "blocked": 2, "in_flight": {"sda": 4}}
    simulation.run(20, writes={"sda": 10**8}, in_flight={"sda": 4})
    simulation.run(15, **waiting)
    first = simulation.host.engine
    assert first is not None
    stalls = [a for a in first.rules.alerts() if a.name == "WriteStall" and a.active]
    assert stalls
    simulation.host.engine = None
    simulation.run(1, **waiting)
    again = simulation.host.engine
    assert again is not None
    again.rules.restore(stalls)
    simulation.run(60, **waiting)
    states = {a.labels: a.state.value for a in again.rules.alerts() if a.name == "WriteStall"}
    assert {states[a.labels] for a in stalls} == {"unknown"}


def test_the_recorded_stall_forecasts_its_drain_and_is_one_thread() -> None:
    """A recorded stall: 300 to 400 s from ten seconds after it begins until uptime 96 s."""
    host = Host(follow=[ABOVE, FORECAST])
    host.play(stall(corpus(STALL)), idle=700)
    began = next(u for u, s in host.history if s.get(ABOVE))
    drains = [
        signals.get(FORECAST) for uptime, signals in host.history if began + 10 <= uptime <= 96.5
    ]
    assert len(drains) > 60
    assert all(drain is not None and 300 <= drain <= 400 for drain in drains)
    assert host.reasons() == ["opened", "resolved"]
    assert host.names("warning") == {"WriteStall"}


def test_our_own_recorded_stall_is_one_thread_that_ends() -> None:
    """A disk throttled to 2 MB/s in a test machine: detected, forecast, resolved."""
    host = played(fixture("write-stall"), idle=700)
    assert "WriteStall" in host.names("warning")
    assert len({mail.due.incident.identifier for mail in host.mails}) == 1
    assert host.reasons()[0] == "opened"
    assert host.reasons()[-1] == "resolved"


@pytest.mark.parametrize("name", ["healthy-copy", "idle"])
def test_a_healthy_machine_sends_no_mail(name: str) -> None:
    """Two copies of five times the threshold and a reader; and an idle host."""
    host = played(fixture(name), idle=700)
    assert host.mails == []
    assert host.names() <= {"WriteThrottle", "DirtyLimitTooLarge", "DirtyRatioTooLarge"}
    if name == "healthy-copy":
        assert "WriteThrottle" in host.names()


def test_our_own_hung_disk_is_its_own_incident() -> None:
    """Recorded: traffic, then nothing completes for a minute, then it heals."""
    host = played(fixture("hung-disk"), idle=700)
    assert "DeviceHang" in host.names("critical")
    assert len({mail.due.incident.identifier for mail in host.mails}) == 1
    assert host.reasons()[-1] == "resolved"


SHIPPED = sorted(RULES.glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.name)
def test_prometheus_itself_loads_the_shipped_rules(path: Path) -> None:
    """The same file serves a Prometheus that scrapes iowarden."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (package prometheus)")
    checked = subprocess.run(
        [promtool, "check", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.name)
def test_each_template_of_the_shipped_rules_is_valid(path: Path) -> None:
    """The service does not check them at its start, which takes a third of the time for that."""
    text = path.read_text()
    assert any(group.rules for group in parse_rule_file(text, path.name))
    broken = text.replace("{{ $labels.", "{{ $labels .", 1)
    if broken != text:
        with pytest.raises(RuleFileError):
            parse_rule_file(broken, path.name)


def test_every_shipped_alert_tells_a_tired_person_what_to_do() -> None:
    """Summary, source and condition always; advice and severity wherever a mail may come of it."""
    for group in shipped_rules():
        for rule in group.rules:
            labels = dict(getattr(rule, "labels", ()))
            if not hasattr(rule, "alert"):
                continue
            annotations = dict(rule.annotations)
            assert {"summary", "source"} <= annotations.keys(), rule.alert
            assert {"severity", "condition"} <= labels.keys(), rule.alert
            if labels["severity"].render({}, 0.0, None) in {"warning", "critical"}:
                assert {"advice", "unknown", "description"} <= annotations.keys(), rule.alert


def test_advice_under_the_same_condition_is_the_same_in_every_rule() -> None:
    """YAML cannot declare a part of a text once: how to limit ZFS's cache stands in three rules."""
    begin = re.compile(r"^(?=\{\{- with query )", re.MULTILINE)
    parts: dict[str, dict[str, str]] = {}
    for group in shipped_rules():
        for rule in group.rules:
            advice = dict(getattr(rule, "annotations", ())).get("advice")
            for part in begin.split(advice.text if advice else "")[1:]:
                condition, _, rest = part.partition("\n")
                text = rest.partition("\n{{- end }}")[0]
                parts.setdefault(condition, {})[text] = f"{rule.file}:{rule.line}"
    assert any("zfs_arc_evictable" in condition for condition in parts)
    assert [places for places in parts.values() if len(places) > 1] == []


def test_no_advice_is_broken_within_a_sentence() -> None:
    """A mail wraps each line by itself: a line end in a sentence is a ragged paragraph."""
    for group in shipped_rules():
        for rule in group.rules:
            advice = dict(getattr(rule, "annotations", ())).get("advice")
            lines = advice.text.splitlines() if advice else []
            for line, after in pairwise(lines):
                prose = line.strip() and not line.startswith(" ") and after.strip()
                if prose and not after.startswith((" ", "{{")):
                    assert line.rstrip().endswith((".", ":", ";", "}}")), line


def test_the_reference_incident_is_in_our_fixture_numbers() -> None:
    """The rows are those of the incident's own vmstat, where that is available."""
    golden = json.loads(corpus("reference/golden.json").read_text())["B"]
    written = [row[9] for row in golden["unhealthy"]]
    assert written == [0] * 19 + [8, 0, 1928]
    assert sum(w <= 655 for w in written) == golden["expect"]["lull_rows_bo_le_1pct"]


def test_the_overview_names_every_shipped_alert() -> None:
    """Each alert is in the table, and each alert in the table exists."""
    text = (RULES.parent / "packaging/doc/alert-overview.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([A-Z][A-Za-z]+)`", row)}
    shipped = {r.alert for g in shipped_rules() for r in g.rules if isinstance(r, Rule)}
    assert shipped - named == set()
    assert named - shipped == set()
