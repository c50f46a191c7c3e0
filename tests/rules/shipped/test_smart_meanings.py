"""Attributes of drives with an unusual meaning, or without a valid first reading."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from support.rack import DAY, Rack, ata, attribute

from iowarden.collectors.smart.drive import AccessMethod, SelfTest
from iowarden.rules.signals.smart import smart_counts

JBOD = AccessMethod("/dev/sda", "sat", device="sda", driver="megaraid_sas")


@pytest.fixture
def rack() -> Rack:
    """A machine that has just met its drives."""
    return Rack()


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (198, "Host_Reads_GiB"),
        (199, "Host_Writes_GiB"),
        (198, "Read_Sectors_Tot_Ct"),
        (199, "Write_Sectors_Tot_Ct"),
        (187, "Unknown_JMF_Attribute"),
        (197, "ECC_Error_Count"),
        (10, "Not_In_Use"),
    ],
)
def test_what_the_drive_database_calls_otherwise_is_no_error(
    number: int, name: str, rack: Rack
) -> None:
    """Barefoot SSDs (OCZ) count what hosts read and wrote where others count bad sectors."""
    for step in range(4):
        drive = ata("A", attributes=(attribute(number, 900 + 40 * step, 50, name=name),))
        rack.poll(drive, times=2)
    assert rack.fired == set()


def test_an_old_database_that_knows_no_name_hides_no_error(rack: Rack) -> None:
    """smartctl 5.40 called 188 'Unknown_Attribute' on Samsung's disks; the number identifies it.

    So does a count that a vendor's SSD has under its own name.
    """
    for name in ("Unknown_Attribute", "Uncorrectable_Error_Cnt", "Total_Unc_NAND_Reads"):
        for raw in (0, 3):
            rack.poll(ata(name, attributes=(attribute(187, raw, name=name),)), times=3)
        assert ("DiskErrorsIncreased", "critical", name) in rack.fired


@pytest.mark.parametrize("raw", [2**32 - 1, 2**48 - 1, 2**64 - 1])
def test_all_bits_set_is_no_count(raw: int, rack: Rack) -> None:
    """Firmware sets all bits for an unknown value."""
    rack.poll(ata("A"), times=2)
    rack.poll(ata("A", {5: raw, 187: raw, 197: raw, 198: raw, 199: raw}), times=4)
    assert rack.fired == set()


def test_errors_are_not_what_was_read_meanwhile(rack: Rack) -> None:
    """SandForce (Kingston SV300): 198 is '0/153929168', errors and sectors in one raw value."""
    for errors, sectors in ((0, 9_000), (0, 50_000), (2, 60_000)):
        assert rack.fired == set()
        one = attribute(198, sectors, raw_text=f"{errors}/{sectors}")
        rack.poll(ata("A", attributes=(one,)), times=3)
    assert rack.firing() == {("DiskErrorsIncreased", "critical")}


def test_sectors_of_a_whole_life_do_not_wait_for_anything(rack: Rack) -> None:
    """Samsung T166 ('197,increasing'): the count never falls, so old ones must not be for ever."""

    def samsung(raw: int) -> list[str]:
        table = (attribute(197, raw, name="Total_Pending_Sectors"),)
        return rack.poll(ata("A", attributes=table), times=3)

    samsung(100)
    assert rack.firing() == {("DiskErrorsInBaseline", "notice")}
    samsung(101)
    assert rack.firing() == {("DiskErrorsIncreased", "critical")}
    rack.wait(8 * DAY)
    assert rack.firing() == set()


def test_toshibas_value_of_spin_retries_wanders_without_one(rack: Rack) -> None:
    """It rises from 100 with each start and begins again; the raw value stays 0."""
    for value in (100, 132, 101):
        rack.poll(ata("A", attributes=(attribute(10, 0, value),)), times=3)
    assert rack.fired == set()
    rack.poll(ata("A", attributes=(attribute(10, 2, 101),)), times=3)
    assert ("DiskErrorsIncreased", "critical") in rack.firing()


def test_a_first_poll_that_brought_only_the_verdict_is_no_first_sight(rack: Rack) -> None:
    """The first answer had no attributes: what the second one shows is as old as it is."""
    rack.poll(ata("A", attributes=()), times=2)
    rack.poll(ata("A", {187: 300, 199: 500}), times=4)
    assert rack.firing() == {
        ("DiskErrorsInBaseline", "warning"),
        ("DiskInterfaceCrcErrorsInBaseline", "info"),
    }


def test_a_self_test_that_failed_within_this_hour_is_not_seven_years_old(rack: Rack) -> None:
    """The log rounds up where the hours are cut off: it ended 'in an hour'."""
    failed = SelfTest("extended", "Completed: read failure", passed=False, hours=20_001)
    rack.poll(ata("A", self_tests=(failed,)), times=2)
    assert rack.firing() == {("DiskSelfTestFailed", "critical")}


def test_hours_that_begin_anew_do_not_silence_a_disk_for_years(rack: Rack) -> None:
    """A firmware update reset them; the next polls count on from there."""
    rack.poll(ata("A", power_on_hours=40_000), times=2, target=JBOD)
    rack.poll(ata("A", power_on_hours=3), target=JBOD)
    assert rack.firing() == {("SmartImplausible", "notice")}
    for day in range(1, 10):
        rack.poll(ata("A", power_on_hours=24 * day), every=DAY, target=JBOD)
    assert rack.firing() == set()
    rack.poll(ata("A", {187: 4}, power_on_hours=300), times=3, target=JBOD)
    assert rack.firing() == {("DiskErrorsIncreased", "critical")}


def test_every_number_has_a_name_under_which_it_is_believed() -> None:
    """smartmontools' own names are none of those that mean something else."""
    names = {
        5: "Reallocated_Sector_Ct",
        10: "Spin_Retry_Count",
        187: "Reported_Uncorrect",
        188: "Command_Timeout",
        196: "Reallocated_Event_Count",
        197: "Current_Pending_Sector",
        198: "Offline_Uncorrectable",
        199: "UDMA_CRC_Error_Count",
    }
    assert set(names) == set(smart_counts.COUNTED)
    for number, name in names.items():
        one = attribute(number, 3, name=name)
        assert not smart_counts.another(one)
        assert not smart_counts.lifetime(one)


@pytest.mark.parametrize(
    "polls",
    [
        [{"temperature_celsius": 56.0}] * 3 + [{"temperature_celsius": 54.0}] * 3,
        [{"raws": {187: 1}}] * 2 + [{"raws": {187: 0}}] * 2,
    ],
    ids=["temperature at its limit", "count that is garbled"],
)
def test_what_comes_and_goes_all_day_is_one_incident(
    polls: list[dict[str, Any]], rack: Rack
) -> None:
    """A mail each hour, reopened and resolved in turn, would not be read."""
    rack.poll(ata("A"), times=2)
    for _ in range(12):
        for fields in polls:
            rack.poll(ata("A", **fields))
    assert [reason for reason, _, _ in rack.mails] == ["opened"]
    assert rack.poll(ata("A"), times=10)[-1:] == ["resolved"]


def test_commands_to_copy_bear_any_serial_number(rack: Rack) -> None:
    """A name may have blanks ('wwn 5000...'), and a drive may report 'S1;reboot'."""
    serial = "S1;reboot"
    rack.poll(ata(serial), times=2)
    rack.poll(ata(serial, {5: 20, 187: 4, 197: 1, 199: 7}, passed=False), times=3)
    advice = "\n".join(alert.annotation("advice") for alert in rack.engine.rules.alerts())
    commands = [line for line in advice.splitlines() if line.startswith("  iowarden ")]
    assert len(commands) > 4
    assert all(serial in shlex.split(command) for command in commands)
