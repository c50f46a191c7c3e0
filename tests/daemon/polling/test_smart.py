"""Drives of a recorded machine: no thread, no probe, and the same result at each replay."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.attached import Files, disk, host, probe_answer, scan

from iowarden.collectors.machine import probe_path
from iowarden.collectors.model import AbsentError
from iowarden.collectors.smart import smartctl_runner
from iowarden.collectors.smart.discovery import Discovered
from iowarden.collectors.smart.drive import AccessMethod, Disk, Disks, ReadStatus
from iowarden.collectors.smart.options import Options
from iowarden.daemon.polling import smart, smart_discovery

if TYPE_CHECKING:
    from conftest import MachineMaker

    from iowarden.collectors.machine import Machine

BEHIND_RAID = AccessMethod("/dev/bus/0", "megaraid,4", "", "host0", "megaraid_sas", origin="scan")
SDA = AccessMethod("/dev/sda", "sat", "sda", "host0", "ahci")
NAME = probe_path("run", smartctl_runner.command(SDA, "full"))


def output(serial: str = "WD-WCC130123456", temperature: int = 30, status: int = 0) -> str:
    """Return the probe's answer for a healthy drive."""
    text = json.dumps(
        {
            "json_format_version": [1, 0],
            "smartctl": {"version": [7, 3], "exit_status": status},
            "device": {"name": "/dev/sda", "type": "sat", "protocol": "ATA"},
            "model_name": "ACME HDD 4000",
            "serial_number": serial,
            "smart_status": {"passed": True},
            "temperature": {"current": temperature},
        }
    )
    return json.dumps({"status": status, "signal": None, "stdout": text, "stderr": ""})


class Played:
    """A recorded machine, its poller, and a clock."""

    def __init__(self, machine: MachineMaker, options: Options | None = None) -> None:
        """Start with one disk without a poll result."""
        self._machine = machine
        self.now = 100.0
        self.targets: tuple[AccessMethod, ...] = (SDA,)
        self.root: Machine = machine({"/sys/block/sda/diskseq": "9\n", "/.probe": None})
        self.poller = smart.SmartPoller(
            options or Options(), lambda: self.now, lambda *_: Discovered(self.targets)
        )

    def later(self, seconds: float, files: dict[str, str | None] | None = None) -> Disks:
        """Advance the clock, and replace the recorded output."""
        self.now += seconds
        self._machine(files or {})
        return self.poller.read(self.root)


def only(disks: Disks) -> Disk:
    """Return the only disk."""
    (disk,) = disks.by_key.values()
    return disk


def temperature(disks: Disks) -> float | None:
    """Return the temperature of the only disk."""
    drive = only(disks).polled.drive
    return None if drive is None else drive.temperature_celsius


def test_a_recording_without_smartctl_has_no_drives(machine: MachineMaker) -> None:
    """A recording older than this collector: not a machine whose drives are all unreadable."""
    played = Played(machine)
    with pytest.raises(AbsentError, match="not in the recording"):
        played.later(0.0)


def test_another_answer_is_received_when_it_comes(machine: MachineMaker) -> None:
    """The recorded machine polled its disk at 100 s and at 1500 s; so does the replay."""
    played = Played(machine)
    disks = played.later(0.0, {NAME: output()})
    assert (temperature(disks), only(disks).polled.read_seconds) == (30, 100.0)
    assert played.later(15.0) is disks
    disks = played.later(1385.0, {NAME: output(temperature=41)})
    assert (temperature(disks), only(disks).polled.read_seconds) == (41, 1500.0)


def test_the_same_answer_is_a_new_one_when_its_period_is_over(machine: MachineMaker) -> None:
    """A recording made by hand has one text for a day: the disk's output is the same all day."""
    played = Played(machine)
    for _ in range(96):
        disks = played.later(900.0, {NAME: output()})
    assert temperature(disks) == 30
    assert only(disks).polled.runs_total in range(48, 50)


def test_what_never_came_is_played_as_well(machine: MachineMaker) -> None:
    """It hung: the disk keeps its name and its SMART data, and shows why there is nothing new."""
    played = Played(machine)
    played.later(0.0, {NAME: output()})
    disk = only(
        played.later(900.0, {NAME: json.dumps({"read_status": "hung", "reason": "it hangs"})})
    )
    assert (disk.key, disk.polled.status, disk.polled.reason) == (
        *("WD-WCC130123456", ReadStatus.HUNG, "it hangs"),
    )
    assert disk.polled.drive is not None


def test_another_disk_by_the_same_name_is_another_disk(machine: MachineMaker) -> None:
    """It was replaced by another one: no data of the first is attributed to the second."""
    played = Played(machine)
    played.later(0.0, {NAME: output()})
    disks = played.later(15.0, {"/sys/block/sda/diskseq": "10\n", NAME: output("WD-WCC139999999")})
    assert set(disks.by_key) == {"WD-WCC139999999"}
    assert only(disks).polled.runs_total == 1


def test_a_recording_by_a_stranger_is_an_outcome(machine: MachineMaker) -> None:
    """Whatever the recording contains: no exception, and no reading of what cannot be read."""
    played = Played(machine)
    for text in (
        "",
        "[]",
        "1",
        "[" * 100_000,
        '{"read_status": "fine", "reason": ""}',
        '{"read_status": 1}',
    ):
        disk = only(played.later(15.0, {NAME: text}))
        assert disk.polled.status is ReadStatus.UNPARSED
        assert disk.polled.reason


def test_what_is_written_of_a_drive_is_what_is_asked() -> None:
    """Options of each profile, and the type only if it is known."""
    usb = AccessMethod("/dev/sdb")
    assert " ".join(smartctl_runner.command(usb, "basic")) == (
        "smartctl --json=co -a -n standby,3 /dev/sdb"
    )
    assert " ".join(smartctl_runner.command(SDA, "minimal", wake=True)) == (
        "smartctl --json=co -i -H -A -n never -d sat /dev/sda"
    )


def test_a_controller_that_is_busy_for_once_keeps_its_disks(machine: MachineMaker) -> None:
    """The scan fails at the second discovery: disks behind the controller are not gone for it."""
    raid: Files = host("host0", "megaraid_sas", "0000:02:00.0")
    raid |= disk("0:2:0:0", "sda", "LSI", "MR9260") | {"/sys/block/sda/diskseq": "9\n"}
    name = probe_path("run", smartctl_runner.command(BEHIND_RAID, "full"))
    root = machine(raid | scan(("/dev/bus/0", "megaraid,4")) | {name: output()})
    now = 100.0
    poller = smart.SmartPoller(Options(), lambda: now)
    assert set(poller.read(root).by_key) == {"WD-WCC130123456"}
    machine(probe_answer("smartctl", "--json=c", "--scan", stdout="", stderr="busy", status=1))
    now += smart_discovery.FIND_SECONDS
    disks = poller.read(root)
    assert set(disks.by_key) == {"WD-WCC130123456"}
    assert "'smartctl --scan'" in disks.problems[0]
