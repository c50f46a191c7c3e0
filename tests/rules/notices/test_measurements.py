"""The values in a mail: in words, each once, against their thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iowarden.rules.notice import Evidence
from iowarden.rules.notices.measurements import (
    Measured,
    RuleThreshold,
    measurements,
    numbers,
    stored,
)
from iowarden.rules.notices.metric_titles import COURSES, THRESHOLDS, title, value_text
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iowarden.collectors.model import Sample
    from iowarden.rules.notice import Measurement

MIB = 1024.0 * 1024.0
SDA, SDB = (("device", "sda"),), (("device", "sdb"),)


def told(
    samples: Sequence[Sample],
    begun: Iterable[Evidence] = (),
    *,
    of: str = "host",
    last: Iterable[Sample] = (),
    limits: Mapping[str, RuleThreshold] | None = None,
) -> tuple[list[Measurement], list[Evidence]]:
    """Return the measurements of a critical mail, and the other lines."""
    known = list(last)
    measured = Measured(
        samples, lambda name: [s for s in known if s[0] == name], limits or {}, lambda *_: None
    )
    return measurements(measured, list(begun), of, Severity.CRITICAL, 1000.0)


def test_the_backlog_is_reported_against_what_the_kernel_allows() -> None:
    """The threshold is no line of its own."""
    queued = ("iowarden_writeback_queued_bytes", (), 592.6 * MIB)
    allowed = ("iowarden_writeback_threshold_bytes", (), 710.1 * MIB)
    begun = stored([("iowarden_writeback_queued_bytes", (), 634.2 * MIB), allowed], 900.0)
    (line,), others = told([queued, allowed], begun, last=[allowed])
    assert line.text == "unwritten data queued: 593 MiB of 710 MiB allowed"
    assert line.source == "iowarden_writeback_queued_bytes"
    assert line.before == Evidence(900.0, "iowarden_writeback_queued_bytes", "634 MiB")
    assert others == []


def test_what_was_measured_of_a_slow_disk_is_in_words() -> None:
    """Whether of reads or of writes, and over which time: neither as a label."""
    slow = (*SDA, ("against", "array"), ("operation", "write"))
    samples = [
        ("iowarden_device_slow_latency_seconds", slow, 0.3),
        ("iowarden_device_slow_latency_seconds", (*SDB, ("operation", "all")), 0.2),
        ("iowarden_device_write_latency_seconds", (*SDA, ("window", "10s")), 0.3),
    ]
    lines, _ = told(samples, stored(samples, 1000.0), of="sda (HDD)")
    assert [line.text for line in lines] == [
        "mean time of a request, writes: 300 ms",
        "mean time of a request, sdb: 200 ms",
        "mean time of a write, over 10 s: 300 ms",
    ]


def test_a_value_that_is_still_the_same_is_given_once() -> None:
    """No 'at 14:00:02' with the value of now."""
    blocked = ("iowarden_tasks_blocked", (), 4.0)
    (line,), _ = told([blocked], stored([blocked], 900.0))
    assert (line.text, line.before) == ("tasks blocked: 4", None)


def test_programs_that_are_no_longer_blocked_were_not_blocked_for_at_least_0_s() -> None:
    """A lower bound of nothing is no measurement; that they were blocked is one."""
    blocked = ("iowarden_freeze_seconds", SDA, 0.0)
    (line,), _ = told([blocked], stored([("iowarden_freeze_seconds", SDA, 24.0)], 900.0), of="sda")
    assert line.text == "programs blocked for at least: none now"
    assert line.before == Evidence(900.0, "iowarden_freeze_seconds", "24 s")
    assert told([blocked], of="sda") == ([], [])


def test_programs_that_wait_in_another_call_each_time_are_not_blocked_for_at_least_0_s() -> None:
    """In a swap storm, or at a volume's cap, the bound is 0 from the alert's beginning on."""
    blocked = ("iowarden_freeze_seconds", SDA, 0.0)
    waiting = ("iowarden_freeze_victims", SDA, 11.0)
    begun = stored([blocked, waiting], 900.0)
    (line,), others = told([blocked, waiting], begun, of="sda")
    assert (line.text, others) == ("tasks blocked that are not the cause: 11", [])
    assert told([], stored([blocked], 900.0), of="sda") == ([], [])
    (line,), _ = told([("iowarden_freeze_seconds", SDA, 24.0)], begun[:1], of="sda")
    assert (line.text, line.before) == ("programs blocked for at least: 24 s", None)


def test_the_threshold_is_that_of_the_mails_severity() -> None:
    """A hang is a warning after 10 s and critical after 30 s."""
    hang = "iowarden_device_hang_seconds"
    limits = [
        ("iowarden_device_hang_threshold_seconds", (*SDA, ("severity", "warning")), 10.0),
        ("iowarden_device_hang_threshold_seconds", (*SDB, ("severity", "critical")), 40.0),
        ("iowarden_device_hang_threshold_seconds", (*SDA, ("severity", "critical")), 30.0),
    ]
    (line,), _ = told([(hang, SDA, 34.0)], of="sda (ACME HDD, serial S1)", last=limits)
    assert line.text == "no request completed for: 34 s, threshold 30 s"


def test_a_users_rule_has_its_own_threshold() -> None:
    """What an expression compares a metric with is the threshold, if it is one number."""
    assert numbers("node_load1 > 20") == {"node_load1": RuleThreshold(20.0, is_above=True)}
    assert numbers("a_b >= 5 and on () (c_d < 0.25 or e_f > bool 7)") == {
        "a_b": RuleThreshold(5.0, is_above=True),
        "c_d": RuleThreshold(0.25, is_above=False, is_alternative=True),
        "e_f": RuleThreshold(7.0, is_above=True, is_alternative=True),
    }
    assert numbers("a_b > 2 unless c_d > 5").keys() == {"a_b"}
    assert numbers("a_b > 5 or a_b > 9") == {}
    assert numbers("a_b > 0") == {}
    assert numbers("") == {}
    (line,), _ = told([("node_load1", (), 23.5)], limits=numbers("node_load1 > 20"))
    assert line.text == "node_load1: 23.5, threshold 20"


def test_a_threshold_of_another_criterion_is_not_given() -> None:
    """A volume that is suspended for 35 s while its programs wait: 2 minutes are without these."""
    metric = "iowarden_device_mapper_suspended_seconds"
    limits = numbers(f"waited_for_seconds or ({metric} >= 120 and on () blocked >= 8)")
    for seconds, text in ((35.0, "35 s"), (130.0, "2 min 10 s, threshold 2 min")):
        (line,), _ = told([(metric, SDA, seconds)], of="sda", limits=limits)
        assert line.text == f"mapper suspended: {text}"


def test_devices_with_the_same_value_share_a_line() -> None:
    """Six disks behind an expander that resets: two lines, not twelve."""
    disks = [(("device", f"sd{c}"),) for c in "ghijklmn"]
    hangs = [("iowarden_device_hang_seconds", own, 16.0) for own in disks]
    inflight = [("iowarden_device_requests_in_flight", own, 4.0) for own in disks[:2]]
    lines, _ = told([*hangs, *inflight])
    assert [line.text for line in lines] == [
        "no request completed for: 16 s (sdg, sdh, sdi, sdj, sdk, sdl and 2 more)",
        "requests in flight: 4 (sdg, sdh)",
    ]


def test_a_state_is_a_word() -> None:
    """'state in_sync: 1' is how Prometheus needs it; only the present state is shown."""
    states = [
        ("iowarden_md_member_state", (("device", "md0"), ("member", m), ("state", s)), float(on))
        for m in ("sda1", "sdc1")
        for s, on in (("in_sync", 1), ("faulty", 0))
    ]
    (line,), _ = told(states)
    assert line.text == "state, md0: in_sync (sda1, sdc1)"


def test_the_object_of_the_mail_is_not_named_again() -> None:
    """The first line has it; a number of an attribute stands beside its name."""
    pending = (("attribute", "Current_Pending_Sector"), ("disk", "S1"), ("id", "197"))
    (line,), _ = told([("iowarden_smart_attribute_raw", pending, 8.0)], of="sda (HDD, serial S1)")
    assert line.text == "raw value, 197 Current_Pending_Sector: 8"


def test_numbers_by_state_are_those_of_the_states_that_occur() -> None:
    """14 states of disks are known; one line names what is there."""
    counts = [
        ("iowarden_disks", (("state", s),), n)
        for s, n in (("monitored", 0.0), ("no_smartctl", 42.0), ("hung", 0.0))
    ]
    lines, _ = told(counts)
    assert [line.text for line in lines] == ["disks, no_smartctl: 42"]


def test_what_changed_is_shown_where_another_value_is_the_same_now() -> None:
    """20 pending sectors are gone: 0 now, as the other attributes always were."""
    raw = "iowarden_smart_attribute_raw"
    pending, other, third = ((("attribute", name), ("disk", "S1")) for name in "PQR")
    begun = stored([(raw, pending, 20.0), (raw, other, 0.0)], 900.0)
    lines, _ = told([(raw, each, 0.0) for each in (other, pending, third)], begun)
    assert [(line.text, line.before and line.before.text) for line in lines] == [
        ("raw value, S1: 0 (Q, R)", None),
        ("raw value, P, S1: 0", "20"),
    ]


def test_a_controller_is_named_once() -> None:
    """Its name has two words, and its own word for a state stands beside ours."""
    state = (
        ("controller", "megaraid c0"),
        ("slot", "enclosure 252 slot 1"),
        ("state", "failed"),
        ("vendor_state", "Failed"),
    )
    errors = (("controller", "megaraid c1"), ("counted", "media error"))
    lines, _ = told(
        [
            ("iowarden_controller_disk_state", state, 1.0),
            ("iowarden_controller_disk_errors_total", errors, 9.0),
        ],
        of="megaraid c0 (ACME 9361, host0)",
    )
    assert [line.text for line in lines] == [
        "disk state, enclosure 252 slot 1, Failed: failed",
        "disk errors, megaraid c1, media error: 9",
    ]


def test_what_can_no_longer_be_measured_has_the_time_when_it_was() -> None:
    """A disk that vanished in a hang: its last value is not the present one."""
    hang = ("iowarden_device_hang_seconds", SDA, 32.0)
    log = Evidence(901.0, "kernel", "sd 0:0:0:0: [sda] Synchronizing SCSI cache")
    lines, others = told([], [*stored([hang], 900.0), log], of="sda (HDD)")
    assert lines == []
    assert others == [log, Evidence(900.0, "measured", "no request completed for: 32 s")]


@pytest.mark.parametrize(
    ("metric", "value", "expected"),
    [
        ("iowarden_disk_temperature_celsius", 61.0, "61 \u00b0C"),
        ("iowarden_vm_dirty_ratio_percent", 40.0, "40 %"),
        ("iowarden_device_reads_per_second", 1234.5, "1234/s"),
        ("iowarden_device_write_bandwidth_bytes_per_second", 2.0 * MIB, "2 MiB/s"),
        ("iowarden_smart_passed", 0.0, "no"),
        ("iowarden_md_not_running", 1.0, "yes"),
        ("iowarden_writeback_drain_seconds", float("inf"), "for ever"),
        ("iowarden_controller_fan_rpm", 4200.0, "4200 rpm"),
    ],
)
def test_a_value_has_its_unit(metric: str, value: float, expected: str) -> None:
    """As people write it."""
    assert value_text(metric, value) == expected


def test_every_metric_has_a_name_without_underscores() -> None:
    """One of a user's exporter keeps the name that he searches for."""
    for metric in COURSES | THRESHOLDS.keys() | {each for each, _ in THRESHOLDS.values()}:
        assert "_" not in title(metric)
        assert "iowarden" not in title(metric)
    assert title("iowarden_smart_nvme_media_errors_total") == "NVMe media errors"
    assert title("iowarden_filesystem_files_free") == "inodes free"
    assert title("node_md_disks") == "node_md_disks"


def test_a_reason_is_the_value_and_not_a_label_of_the_number_1() -> None:
    """'not monitored, unreadable, reason ...: 1' says one thing in two places."""
    labels = (("disk", "S1"), ("reason", "SMART is disabled"), ("state", "unreadable"))
    now = Measured(samples=[("iowarden_disk_not_monitored", labels, 1.0)])
    (line,), _ = measurements(now, (), "sda (serial S1)", Severity.WARNING, 9.0)
    assert line.text == "not monitored, unreadable: SMART is disabled"


def test_a_value_of_then_is_yes_or_no_as_well() -> None:
    """It was in order when the alert began; of one that is gone, what it was."""
    name = "iowarden_controller_battery_ok"
    then = stored([(name, (("battery", "bbu"),), 1.0)], 5.0)
    now = Measured(samples=[(name, (("battery", "bbu"),), 0.0)])
    (line,), _ = measurements(now, then, "c0", Severity.WARNING, 9.0)
    assert (line.text, line.before and line.before.text) == ("battery in order, bbu: no", "yes")
    _, (gone,) = measurements(Measured(), then, "c0", Severity.WARNING, 9.0)
    assert gone.text == "battery in order, bbu: yes"
