"""Drives filled with helium: below the first value for a day, half lost, at the threshold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.rack import DAY, HOUR, Rack, ata, attribute

from iowarden.rules.signals.smart import helium

if TYPE_CHECKING:
    from iowarden.collectors.smart.drive import Drive

TB = 10**12


def filled(value: int, *, number: int = 22, name: str = "Helium_Level", **fields: object) -> Drive:
    """Return a drive with this value of helium."""
    threshold = fields.pop("threshold", 25)
    row = attribute(
        number, value, value=value, worst=value, threshold=threshold, name=name, prefail=True
    )
    return ata("A", attributes=(row,), **{"capacity_bytes": 12 * TB, **fields})


@pytest.fixture
def rack() -> Rack:
    """Return a machine with disks."""
    return Rack()


def levels(rack: Rack) -> set[str]:
    """Return the severities of the alerts on the disk; none but about helium."""
    assert {name for name, _ in rack.firing()} <= {"DiskHeliumLow"}
    return {severity for _, severity in rack.firing()}


@pytest.mark.parametrize(
    ("value", "severities"),
    [
        (100, set()),
        (98, set()),
        (97, {"notice"}),
        (63, {"notice"}),
        (62, {"notice", "warning"}),
        (60, {"notice", "warning"}),
        (26, {"notice", "warning"}),
        (25, {"notice", "warning", "critical"}),
        (1, {"notice", "warning", "critical"}),
    ],
)
def test_what_was_lost_before_the_first_poll(rack: Rack, value: int, severities: set[str]) -> None:
    """The factory value is 100: a drive that is seen at 60 leaks, whatever its health status."""
    rack.poll(filled(value), times=2)
    assert levels(rack) == severities


def test_a_leak_is_reported_after_a_day_of_lower_values(rack: Rack) -> None:
    """99 once is the rounding of a temperature; 99 at all polls of a day is lost."""
    rack.poll(filled(100), times=3)
    rack.poll(filled(99), times=4)
    rack.poll(filled(100))
    rack.poll(filled(99), times=23, every=HOUR)
    assert levels(rack) == set()
    rack.poll(filled(99), times=3, every=HOUR)
    assert levels(rack) == {"notice"}
    rack.restart()
    rack.poll(filled(99), times=2)
    assert levels(rack) == {"notice"}


def test_one_corrupted_value_is_no_leak(rack: Rack) -> None:
    """A cable garbles one answer: the next one is as before."""
    rack.poll(filled(100), times=2)
    rack.poll(filled(0))
    rack.poll(filled(100), times=2)
    assert rack.fired == set()


def test_half_of_the_helium_does_not_wait_for_a_day(rack: Rack) -> None:
    """Two polls that agree are enough."""
    rack.poll(filled(100), times=2)
    rack.poll(filled(50), times=2)
    assert levels(rack) == {"notice", "warning"}


@pytest.mark.parametrize(
    ("number", "name", "fields", "severities"),
    [
        # Toshiba: halfway from 100 to 75.
        (23, "Helium_Condition_Lower", {"threshold": 75}, {"notice", "warning"}),
        (24, "Helium_Condition_Upper", {"threshold": 75}, {"notice", "warning"}),
        (24, "Unknown_Attribute", {"model": "TOSHIBA MG10", "threshold": 1}, {"notice"}),
        (22, "Unknown_Attribute", {"model": "WDC WD140EDFZ-11A0VA0"}, {"notice"}),
        (200, "Pressure_Limit", {"family": "Seagate Exos X16", "threshold": 1}, {"notice"}),
        # Not about helium: air-filled drives, solid-state drives, other vendors' 22 and 200.
        (200, "Pressure_Limit", {"family": "Seagate BarraCuda", "capacity_bytes": TB}, set()),
        (200, "Multi_Zone_Error_Rate", {"model": "WDC WD40EFRX"}, set()),
        (22, "Unknown_Attribute", {"model": "ACME 22"}, set()),
        (22, "Helium_Level", {"rotation_rpm": 0}, set()),
        (23, "Power_Loss_Cap_Test", {"model": "TOSHIBA MG08ACA16TE"}, set()),
    ],
)  # fmt: skip
def test_each_vendors_attribute_of_helium(
    rack: Rack, number: int, name: str, fields: dict[str, object], severities: set[str]
) -> None:
    """By name, or by number and model where an older drive database has no name."""
    rack.poll(filled(87, number=number, name=name, **fields), times=2)
    assert levels(rack) == severities


@pytest.mark.parametrize("value", [100, 200, 253])
def test_a_sealed_drive_is_silent(rack: Rack, value: int) -> None:
    """The value of each vendor's scale."""
    rack.poll(filled(value), times=2, every=2 * DAY)
    assert rack.fired == set()


@pytest.mark.parametrize(
    ("raw", "value", "severities"),
    [
        (6_553_700, 100, set()),
        (60 << 16 | 60, 60, {"notice", "warning"}),
        (110, 90, set()),
        (100, 20, {"notice", "warning", "critical"}),
        (None, 60, {"notice", "warning"}),
    ],
)
def test_a_level_that_its_raw_value_contradicts_counts_only_at_the_threshold(
    rack: Rack, raw: int | None, value: int, severities: set[str]
) -> None:
    """Western Digital has the level in both; a corrupted answer must not hide a drive's end."""
    row = attribute(22, raw, value=value, threshold=25, name="Helium_Level", prefail=True)
    rack.poll(ata("A", attributes=(row,)), times=2)
    assert levels(rack) == severities


def test_a_value_that_the_drive_does_not_report_is_no_leak(rack: Rack) -> None:
    """'---' instead of a number, and no threshold."""
    row = attribute(22, 0, value=100, name="Helium_Level")
    drive = ata("A", attributes=(replace(row, value=None, threshold=None),))
    rack.poll(drive, times=2)
    assert rack.fired == set()


def test_what_is_stored_is_what_is_read_again() -> None:
    """Over a restart."""
    seen = helium.observe(helium.observe(None, 100, 1.0), 90, 2.0)
    assert helium.from_pairs(helium.pairs(seen)) == seen
    assert helium.from_pairs(None) is None
