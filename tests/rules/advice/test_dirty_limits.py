"""The advice about the dirty limits: numbers that agree with each other, and only for a backlog."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iowarden.collectors.model import Chunk, Family
from iowarden.rules.advice.advice import filled
from iowarden.rules.advice.dirty_limits import Backlog, backlog
from iowarden.rules.advice.facts import AdviceInputs, Facts
from iowarden.rules.advice.step import AdviceSubject

MIB = 1 << 20
OF_HOST = Backlog(host_speed=78e6)


def said(found: Backlog, device: str = "") -> str:
    """Return what is advised about a device, or about the host."""
    labels = {"device": device} if device else {}
    return filled("{dirty_limits}", AdviceSubject(labels), Facts(AdviceInputs(backlog=found)))


@pytest.mark.parametrize(
    ("speed", "background", "limit", "lasts"),
    [
        (78e6, 144, 368, "4.95 s"),
        (2 * MIB, 16, 32, "16 s"),
        (4 * MIB, 16, 32, "8 s"),
        (1e9, 1904, 4768, "5 s"),
    ],
)
def test_the_limits_are_seconds_of_the_speed_and_what_they_take_is_said(
    speed: float, background: int, limit: int, lasts: str
) -> None:
    """2 and 5 s, in steps of 16 MiB, not less than 16 and 32."""
    text = said(Backlog(host_speed=speed))
    assert f"vm.dirty_background_bytes={background * MIB} vm.dirty_bytes={limit * MIB}" in text
    assert f"at most {lasts} to write." in text


def test_a_disk_of_half_a_mebibyte_a_second_is_not_what_limits_are_made_for() -> None:
    """Nor is one whose speed is not known."""
    assert said(Backlog(host_speed=500_000.0)) == ""
    assert said(Backlog()) == ""


def test_a_kernel_without_limits_in_bytes_gets_ratios() -> None:
    """Before 2.6.29."""
    text = said(replace(OF_HOST, has_bytes=False))
    assert "vm.dirty_background_ratio=5 vm.dirty_ratio=10" in text
    assert "dirty_bytes" not in text


@pytest.mark.parametrize(("threshold_mib", "is_low"), [(32, True), (64, True), (300, False)])
def test_limits_that_are_low_already_are_not_raised(threshold_mib: int, is_low: bool) -> None:
    """A disk of 14 MB/s, for which 64 MiB would be advised: then the writer is what is left."""
    text = said(Backlog(host_speed=14e6, threshold_bytes=threshold_mib * MIB))
    assert ("sysctl" not in text) is is_low
    assert ("IOWriteBandwidthMax" in text) is is_low


@pytest.mark.parametrize(
    ("cause", "is_advised"),
    [("backlog", True), ("own limit", False), ("neighbour", False), ("journal", False)],
)
def test_programs_that_wait_for_another_reason_are_no_reason_to_limit_the_host(
    cause: str, is_advised: bool
) -> None:
    """A write stall of the host is about its limits, whatever a single device does."""
    found = replace(OF_HOST, causes={"sdb": cause}, device_speeds={"sdb": 4e6})
    assert bool(said(found, "sdb")) is is_advised
    assert said(found)


def test_what_the_device_writes_counts_and_not_what_all_disks_write() -> None:
    """The samples of a freeze, and those of the host."""
    samples = [
        ("iowarden_freeze_cause", (("cause", "backlog"), ("device", "sdb"), ("disk", "")), 1.0),
        ("iowarden_freeze_write_bytes_per_second", (("device", "sdb"),), 8e6),
        ("iowarden_writeback_bandwidth_bytes_per_second", (), 78e6),
        ("iowarden_writeback_threshold_bytes", (), 3e9),
        ("iowarden_vm_dirty_ratio_percent", (), 20.0),
    ]
    chunk = Chunk(
        "x", 1, tuple((Family(n, "gauge", ""), [(n, pairs, v)]) for n, pairs, v in samples)
    )
    found = backlog([chunk])
    assert found == Backlog(
        {"sdb": "backlog"},
        {"sdb": 8e6},
        78e6,
        has_bytes=False,
        disks={"sdb": ""},
        threshold_bytes=3e9,
    )
