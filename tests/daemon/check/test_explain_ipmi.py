"""'iowarden explain' of what a BMC logs of drives, by ipmitool."""

from __future__ import annotations

import pytest
from support.explained import read

DAY = "05/12/2024 | 03:44:1"


def row(number: int, event: str, edge: str = "Asserted", sensor: str = "HDD3 Status") -> str:
    """Return a row of 'sel elist'; 'sel list' has the sensor's number in place of its name."""
    return f"{number:4x} | {DAY}{number % 10} | Drive Slot / Bay {sensor} | {event} | {edge}\n"


@pytest.mark.parametrize(
    ("event", "alert", "severity"),
    [
        ("Drive Fault", "ControllerDiskFailed", "critical"),
        ("Predictive Failure", "ControllerDiskFailing", "critical"),
        ("In Critical Array", "ControllerArrayDegraded", "critical"),
        ("In Failed Array", "ControllerArrayFailed", "critical"),
        ("Rebuild Aborted", "ControllerArrayDegraded", "warning"),
        ("Rebuild In Progress", "ControllerDiskRebuilding", "notice"),
    ],
)
@pytest.mark.parametrize("sensor", ["HDD3 Status", "#0xa0"])
def test_an_event_of_a_drive_holds_until_it_is_deasserted(
    event: str, alert: str, severity: str, sensor: str
) -> None:
    """By IPMI's table of drive slots."""
    one = row(1, "Drive Present", sensor=sensor) + row(2, event, sensor=sensor)
    told = read(one)
    assert [(a.alert, a.severity, a.object) for a in told.alerts] == [(alert, severity, sensor)]
    assert told.status == 1
    over = read(one + row(3, event, "Deasserted", sensor))
    assert (over.status, over.alerts, over.unparsed) == (0, (), ())
    again = read(one + row(3, event, "Deasserted", sensor) + row(4, event, sensor=sensor))
    assert again.alerts == told.alerts


@pytest.mark.parametrize("event", ["Drive Present", "Hot Spare", "Parity Check In Progress"])
def test_what_is_no_fault_of_a_drive_is_none(event: str) -> None:
    """A drive that is there, waits, or is checked."""
    told = read(row(1, event))
    assert (told.status, told.alerts, told.unparsed) == (0, (), ())


def test_a_drive_that_was_removed_is_missing() -> None:
    """It is not present any more."""
    told = read(row(1, "Drive Present") + row(2, "Drive Present", "Deasserted"))
    assert [each.alert for each in told.alerts] == ["ControllerDiskMissing"]


def test_a_fault_of_another_sensor_is_named_and_not_judged() -> None:
    """A power supply is no storage; one that works again needs no word."""
    supply = "   2 | 02/20/2024 | 04:11:02 | Power Supply PS2 Status | Failure detected | {}\n"
    told = read(row(1, "Drive Present") + supply.format("Asserted"))
    assert told.status == 2
    assert "'Failure detected' of 'Power Supply PS2 Status'" in told.unparsed[0].reason
    over = read(supply.format("Asserted") + supply.format("Deasserted"))
    assert over.unparsed == ()


def test_an_event_of_a_drive_that_is_not_known_is_no_health() -> None:
    """A later release of IPMI may have more."""
    told = read(row(1, "Drive On Fire"))
    assert told.status == 2
    assert "is not known" in told.unparsed[0].reason


SENSORS = """\
CPU Temp         | 01h | ok  |  3.1 | 45 degrees C
Drive 0          | F0h | ok  |  7.1 | Drive Present
Drive 3          | F3h | ok  |  7.1 | Drive Present, Drive Fault
FAN 2            | 1Dh | nc  | 29.2 | 250 RPM
"""


def test_sensors_show_what_holds_now() -> None:
    """A temperature within its limits is no part of it, a fan outside is named."""
    told = read(f"# ipmitool sdr elist\n{SENSORS}")
    assert [(each.object, each.alert) for each in told.alerts] == [
        ("Drive 3", "ControllerDiskFailed")
    ]
    assert {each.name for each in told.objects} == {"Drive 0", "Drive 3"}
    assert ["FAN 2" in each.text for each in told.unparsed] == [True]


def test_an_empty_log_is_one() -> None:
    """It was cleared, or nothing happened."""
    assert read("SEL has no entries\n").outputs == ("ipmitool sel list",)


def test_a_journal_without_an_entry_is_no_proof_of_health() -> None:
    """With the prompt above it and without."""
    told = read("root@pve:~# journalctl -k -p err -b\n-- No entries --\n")
    assert told.status == 2
    assert "printed no entry" in told.unparsed[0].reason


SHORT = "FAN1         | 5600 RPM          | {}\nCPU Temp     | 51 degrees C      | ok\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SHORT.format("cr"), "'5600 RPM' of 'FAN1' (cr) is no state of a drive"),
        (SHORT.format("ok"), "'ipmitool sdr' lists no event or state of a drive"),
        (SHORT.format("ok") + "HDD3 Status  | 0x01  | ok\n", "'sdr' has no state of 'HDD3"),
        ("12V | 12.06 Volts | nc\nPS1 Status | 0x01 | ok\n", "'12.06 Volts' of '12V' (nc)"),
    ],
)
def test_the_short_table_of_sensors_has_no_state_of_a_drive(text: str, reason: str) -> None:
    """Of a discrete sensor it has only a number; what is out of its limits is named."""
    told = read(text)
    assert (told.kind, told.status, told.outputs) == ("ipmitool", 2, ("ipmitool sdr",))
    assert [reason in each.reason for each in told.unparsed] == [True]
