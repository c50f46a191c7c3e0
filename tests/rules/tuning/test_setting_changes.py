"""After a setting changed: whether the signal moved, and nothing is claimed without enough data."""

from __future__ import annotations

import pytest

from iowarden.daemon.metric_labels import LABELS
from iowarden.rules.tuning import setting_changes
from iowarden.rules.tuning.setting_changes import SettingChanges
from iowarden.rules.tuning.tunings import SETTINGS, SIGNALS

AHEAD = "iowarden_device_read_ahead_bytes"
CAPPED = "iowarden_device_read_ahead_capped_seconds"
DEPTH = "iowarden_device_queue_depth"
STARVED = "iowarden_scsi_host_starved_seconds"


class Host:
    """A host whose settings and signals a test sets, second by second."""

    def __init__(self) -> None:
        self.changes = SettingChanges()
        self.now = 0.0
        self.values: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}

    def set(self, metric: str, value: float, **labels: str) -> None:
        """Set a metric from now on."""
        self.values[metric, tuple(sorted(labels.items()))] = value

    def passes(self, hours: float) -> None:
        """Let time pass."""
        for _ in range(int(hours * 3600 / setting_changes.STEP_SECONDS)):
            assert self.changes.due(self.now)
            names = dict.fromkeys(name for name, _ in self.values)
            families = [
                (name, [(n, labels, v) for (n, labels), v in self.values.items() if n == name])
                for name in names
            ]
            self.changes.step(self.now, families)
            assert not self.changes.due(self.now)
            self.now += setting_changes.STEP_SECONDS

    def verdicts(self) -> list[tuple[str, str, str, str]]:
        """Setting, device, signal's labels and verdict of each effect."""
        return [
            (
                change.setting.name.split(",")[0],
                dict(change.labels).get("device", ""),
                " ".join(value for _, value in effect.labels),
                effect.verdict,
            )
            for change in self.changes.changes
            for effect in self.changes.effects(change, self.now)
        ]


def test_a_larger_read_ahead_that_helps_is_seen_as_such() -> None:
    """Incident R4: the readers were capped before, and are not since. Each device by itself."""
    host = Host()
    for device in ("md0", "md1"):
        host.set(AHEAD, 131072, device=device)
        host.set(CAPPED, 400, device=device)
    host.passes(2)
    host.set(AHEAD, 4194304, device="md0")
    host.set(CAPPED, 0, device="md0")
    host.passes(2)
    assert host.verdicts() == [("queue/read_ahead_kb", "md0", "md0", "lower")]
    (change,) = host.changes.changes
    (effect,) = host.changes.effects(change, host.now)
    assert (change.old, change.new) == ("131072", "4194304")
    assert (effect.before.mean, effect.before.seconds) == (400.0, 7200.0)
    assert (effect.after.mean, effect.after.maximum, effect.after.above_zero_ratio) == (0, 0, 0)


@pytest.mark.parametrize(
    ("hours_before", "hours_after", "value", "verdict"),
    [
        (0.5, 2, 0, "not enough data: 30 min before, expected at least 60"),
        (2, 0.25, 0, "not enough data: 15 min since, expected at least 60"),
        (2, 2, 380, "unchanged"),
        (2, 2, 600, "higher"),
    ],
)
def test_no_more_is_concluded_than_was_observed(
    hours_before: float, hours_after: float, value: float, verdict: str
) -> None:
    """A quarter of an hour without load proves nothing; a tenth less is noise."""
    host = Host()
    host.set(AHEAD, 131072, device="md0")
    host.set(CAPPED, 400, device="md0")
    host.passes(hours_before)
    host.set(AHEAD, 4194304, device="md0")
    host.set(CAPPED, value, device="md0")
    host.passes(hours_after)
    assert [each[-1] for each in host.verdicts()] == [verdict]


def test_each_of_two_changes_has_its_own_time() -> None:
    """The second change ends the time of the first one, whose effect stays as it was."""
    host = Host()
    host.set("iowarden_vm_dirty_bytes", 0)
    host.set("iowarden_writeback_full_drain_seconds", 60, devices="sda")
    host.passes(2)
    host.set("iowarden_vm_dirty_bytes", 1e9)
    host.set("iowarden_writeback_full_drain_seconds", 10, devices="sda")
    host.passes(2)
    host.set("iowarden_vm_dirty_bytes", 8e9)
    host.set("iowarden_writeback_full_drain_seconds", 80, devices="sda")
    host.passes(2)
    assert [each[-1] for each in host.verdicts()] == ["lower", "higher"]


def test_the_queue_depth_of_a_disk_concerns_its_adapter_only() -> None:
    """Of two adapters only that of the disk is compared; a scheduler is a label, not a number."""
    host = Host()
    for number, device in enumerate(("sda", "sdb")):
        host.set("iowarden_device_scsi_info", 1, device=device, host=f"host{number}")
        host.set(DEPTH, 254, device=device)
        host.set(STARVED, 90, host=f"host{number}")
    host.set("iowarden_device_scheduler", 1, device="sda", scheduler="bfq")
    host.passes(2)
    host.set(DEPTH, 32, device="sda")
    del host.values["iowarden_device_scheduler", (("device", "sda"), ("scheduler", "bfq"))]
    host.set("iowarden_device_scheduler", 1, device="sda", scheduler="none")
    host.passes(2)
    assert host.verdicts() == [("device/queue_depth", "sda", "host0", "unchanged")]
    assert [(c.old, c.new) for c in host.changes.changes] == [("254", "32"), ("bfq", "none")]


def test_another_disk_under_an_old_name_changed_no_setting() -> None:
    """sdb was removed; the next sdb has a driver with another queue depth."""
    host = Host()
    host.set(DEPTH, 32, device="sda")
    host.set(DEPTH, 32, device="sdb")
    host.passes(0.1)
    del host.values[DEPTH, (("device", "sdb"),)]
    host.passes(0.1)
    host.set(DEPTH, 254, device="sdb")
    host.passes(0.1)
    assert [*host.changes.changes] == []


def test_a_thousand_devices_need_bounded_memory() -> None:
    """What is never above 0 is not stored, and of the rest as much as fits."""
    host = Host()
    for number in range(300):
        host.set(CAPPED, float(number % 2), device=f"md{number}")
    host.passes(0.1)
    assert len(host.changes._pieces) == setting_changes.MAX_SERIES


def test_every_setting_and_signal_is_a_metric() -> None:
    """A renamed metric would silently never change."""
    assert {*SETTINGS, *SIGNALS, setting_changes.HOSTS} - LABELS.keys() == set()
