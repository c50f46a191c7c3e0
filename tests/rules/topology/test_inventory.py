"""Which disks are read, which are not and why, and which are not there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.machine import disk as block_device
from support.machine import topology
from support.polled_disks import MODEL, FakeMachine, device, direct, disks, drive, hidden
from support.simulation import START

from iowarden.collectors.block.enclosure import EnclosureSlot
from iowarden.collectors.smart.drive import (
    AccessMethod,
    Attribute,
    Disk,
    Disks,
    ErrorCounter,
    Protocol,
    ReadStatus,
    ScsiHealth,
)
from iowarden.daemon.views import answers
from iowarden.rules.topology import inventory
from iowarden.rules.topology.inventory import Verdict

HOUR = 3600.0
DAY = 24 * HOUR


def failed(disk: Disk, cover: ReadStatus, reason: str, *, held: bool = False) -> Disk:
    """The same disk after a failed poll; `held`: its last data are still valid."""
    polled = disk.polled
    own = polled.drive if held else None
    return replace(disk, polled=replace(polled, status=cover, reason=reason, drive=own))


def at(machine: FakeMachine, *found: Disk) -> Disks:
    """Return these disks; those whose SMART data are readable were polled just now."""
    return disks(
        *(
            replace(d, polled=replace(d.polled, read_seconds=machine.now))
            if d.polled.status is ReadStatus.READ
            else d
            for d in found
        )
    )


def test_a_machine_whose_disks_are_read_is_silent() -> None:
    """Two disks of the kernel, two behind a controller: a day without an alert."""
    machine = FakeMachine(device("sda", "S1"), device("sdb", "S2"))
    found = (direct("sda", "S1"), direct("sdb", "S2"), hidden(1, "H1"), hidden(2, "H2"))
    for _ in range(48):
        machine.disks = at(machine, *found)
        machine.look(HOUR / 2, 300.0)
    assert machine.firing() == set()
    assert machine.samples("iowarden_disks")["monitored"] == 4.0
    assert max(machine.samples("iowarden_disk_last_poll_age_seconds").values()) <= HOUR / 2


def test_who_says_that_a_disk_exists_is_known() -> None:
    """Kernel, controller, configuration and enclosure; an NVMe drive of two name spaces is one."""
    written = replace(hidden(3, "H3"), polled=hidden(3, "H3").polled)
    written = replace(
        written,
        polled=replace(
            written.polled, target=replace(written.polled.target, origin="configuration")
        ),
    )
    devices = (
        device("sda", "S1"),
        block_device("nvme0n1", serial="N1", model="FAST"),
        block_device("nvme0n2", serial="N1", model="FAST"),
        block_device("nvme1c2n1", serial="N2", model="FAST"),
    )
    slot = EnclosureSlot("0:0:8:0", "Slot 02", "OK", None, None, None, "sda")
    fast = drive("N1", protocol=Protocol.NVME)
    found = inventory.inventory(
        disks(
            direct("sda", "S1"),
            hidden(2, "H2"),
            written,
            direct("nvme0", "N1", drive=fast),
            direct("nvme2", "X", status=ReadStatus.UNREADABLE, drive=None),
        ),
        topology(*devices),
        (slot,),
    )
    assert {key: c.expected_by for key, c in found.items()} == {
        "S1": ("kernel", "enclosure"),
        "N1": ("kernel",),
        "X": ("kernel",),
        "H2": ("controller",),
        "H3": ("configuration",),
    }
    assert list(found) == ["S1", "N1", "X", "H2", "H3"]
    assert found["N1"].leaves == ("nvme0n1", "nvme0n2")
    assert found["X"].leaves == ("nvme1c2n1",)
    assert found["S1"].slot == "Slot 02 of enclosure 0:0:8:0"
    assert inventory.summary(found.values()) == "SMART: 4 of 5 disks readable (1 read error)"
    assert inventory.verdict(found.values()) is Verdict.WARNING


def test_a_disk_of_the_kernel_that_nobody_queries_is_not_left_out() -> None:
    """What the poller does not list is still there; virtual and removable ones are expected so."""
    stick = replace(block_device("sdc", serial="STICK"), removable=True)
    reader = replace(block_device("sdd"), removable=True, size_bytes=0)
    machine = topology(device("sdb", "S2"), block_device("vda"), stick, reader)
    before = inventory.inventory(Disks({}), machine)
    assert {c.device: c.status for c in before.values()} == {
        "sdb": ReadStatus.NOT_POLLED_YET,
        "vda": ReadStatus.NO_SMART,
        "sdc": ReadStatus.NO_SMART,
    }
    after = inventory.inventory(disks(), machine)
    assert after["S2"].status is ReadStatus.UNREADABLE
    assert inventory.summary(after.values()) == (
        "SMART: 0 of 1 disk readable (1 read error); plus 2 virtual or removable"
    )
    assert inventory.verdict(after.values()) is Verdict.UNKNOWN


def test_nothing_to_read_is_no_good_reading() -> None:
    """A virtual machine has no disk to read: that is no OK."""
    found = inventory.inventory(disks(), topology(block_device("vda")))
    assert inventory.verdict(found.values()) is Verdict.UNKNOWN
    assert inventory.summary(found.values()) == (
        "SMART: no physical disk; plus 1 virtual or removable"
    )


def test_disks_that_cannot_be_read_have_not_failed() -> None:
    """Four disks and a smartctl that fails: SMART could not be read, with the reason."""
    names = {"sda": "S1", "sdb": "S2", "sdc": "S3", "sdd": "S4"}
    known = topology(*(device(name, serial) for name, serial in names.items()))
    four = [direct(name, serial) for name, serial in names.items()]

    def line(*covers: ReadStatus) -> str:
        polled = [
            replace(disk, polled=replace(disk.polled, status=cover))
            for disk, cover in zip(four, covers, strict=True)
        ]
        return inventory.summary(inventory.inventory(disks(*polled), known).values())

    read, error = ReadStatus.READ, ReadStatus.UNREADABLE
    assert line(error, error, error, error) == "SMART: 0 of 4 disks readable (4 read errors)"
    assert line(read, read, read, read) == "SMART: 4 of 4 disks readable"
    assert line(read, read, ReadStatus.ASLEEP, error) == (
        "SMART: 3 of 4 disks readable (1 asleep, 1 read error)"
    )


@pytest.mark.parametrize("cover", [ReadStatus.UNREADABLE, ReadStatus.NO_PASS_THROUGH])
def test_a_removable_medium_has_nothing_to_read(cover: ReadStatus) -> None:
    """A stick that was polled, and a disk with the same reply."""
    stick = replace(device("sdb", "S2"), removable=True)
    asked = [
        failed(direct(name, serial), cover, "no") for name, serial in (("sda", "S1"), ("sdb", "S2"))
    ]
    found = inventory.inventory(disks(*asked), topology(device("sda", "S1"), stick))
    assert [(c.status, c.physical) for c in found.values()] == [
        (cover, True),
        (ReadStatus.NO_SMART, False),
    ]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    "cover", [ReadStatus.UNREADABLE, ReadStatus.NO_SMART, ReadStatus.NO_PASS_THROUGH]
)
def test_a_disk_that_was_read_and_reports_nothing_any_more_is_reported(
    cover: ReadStatus, *, restarts: bool
) -> None:
    """'SMART Disabled', or only its name: like a failed reading, its alerts are not resolved."""
    machine = FakeMachine(device("sda", "S1"), device("sdb", "S2"))
    failing = direct("sdb", "S2", drive=drive("S2", passed=False))
    machine.disks = at(machine, direct("sda", "S1"), failing)
    machine.look(300.0)
    assert ("DiskFailing", "S2") in machine.firing()
    silent = failed(failing, cover, "SMART is disabled")
    if restarts:
        silent = replace(silent, polled=replace(silent.polled, read_seconds=None))
        machine.restart()
    machine.disks = disks(direct("sda", "S1"), silent)
    for _ in range(8):
        machine.disks = at(machine, direct("sda", "S1"), silent)
        machine.look(HOUR / 2, 300.0)
    assert machine.firing() == {("DiskFailing", "S2"), ("DiskNotMonitored", "S2")}
    (alert,) = machine.alerts("DiskNotMonitored")
    assert alert.annotation("summary").endswith("SMART is disabled")
    assert [a.state.value for a in machine.alerts("DiskFailing")] == ["unknown"]


def test_two_paths_are_one_disk_and_two_disks_of_one_serial_number_are_two() -> None:
    """A multipath disk has two names; a vendor that gives all the same number has two disks."""
    both = topology(device("sda", "S1"), device("sdb", "S1"))
    (one,) = inventory.inventory(disks(direct("sda", "S1")), both).values()
    assert one.leaves == ("sda", "sdb")
    first = replace(direct("sda", "S1"), key="S1 a", duplicate="another disk has this number")
    second = replace(direct("sdb", "S1"), key="S1 b", duplicate="another disk has this number")
    found = inventory.inventory(disks(first, second), both)
    assert {key: c.leaves for key, c in found.items()} == {"S1 a": ("sda",), "S1 b": ("sdb",)}


def test_a_disk_that_a_controller_shows_and_hides_is_found_by_its_number() -> None:
    """A disk polled through its controller is the sda of the kernel: one incident for both."""
    by_number = hidden(1, "S1")
    by_name = hidden(2, "", drive=drive("other", wwn="5000c500a1b2c3d4"))
    known = topology(
        device("sda", "S1"), replace(device("sdb", ""), wwn="0x5000c500a1b2c3d4", serial=None)
    )
    found = inventory.inventory(disks(by_number, by_name), known)
    assert [c.device for c in found.values()] == ["sda", "sdb"]
    assert found["S1"].identity.object == f"sda ({MODEL}, serial S1)"
    silent = failed(hidden(1, "S1"), ReadStatus.NO_SMART, "lacks SMART")
    found = inventory.inventory(disks(silent), known)
    assert {key: c.device for key, c in found.items()} == {"S1": "sda", "0x5000c500a1b2c3d4": "sdb"}


def test_a_machine_on_which_nothing_can_be_read_reports_that_once() -> None:
    """Smartctl was taken away: one warning about all disks, after a quarter of an hour."""
    machine = FakeMachine(device("sda", "S1"), device("sdb", "S2"))
    found = (direct("sda", "S1"), direct("sdb", "S2"))
    machine.disks = at(machine, *found)
    machine.look(HOUR, 300.0)
    reason = "smartctl is not installed"
    gone = [failed(d, ReadStatus.NO_SMARTCTL, reason) for d in machine.disks.by_key.values()]
    machine.disks = disks(*gone)
    machine.look(14 * 60.0)
    assert machine.firing() == set()
    machine.look(DAY, 300.0)
    assert machine.firing() == {("NoDiskMonitored", "")}
    (mail,) = machine.mails
    assert mail.summary.endswith(f": {reason}")
    assert mail.object == "iowarden itself"
    machine.disks = at(machine, *found)
    machine.look(HOUR, 300.0)
    assert machine.firing() == set()
    assert [m.reason.value for m in machine.mails] == ["opened", "resolved"]


def test_a_poller_that_cannot_be_read_reads_nothing() -> None:
    """The data source 'smart' itself fails: reported for its collector, and as no disk read."""
    machine = FakeMachine(device("sda", "S1"))
    machine.disks = None
    machine.look(HOUR, 300.0)
    assert {"NoDiskMonitored", "CollectorStale"} <= {name for name, _ in machine.firing()}


def test_one_try_that_fails_is_not_reported() -> None:
    """A disk times out once, on a host with one disk: its last data are still valid."""
    machine = FakeMachine(device("sda", "S1"))
    machine.disks = at(machine, direct("sda", "S1"))
    machine.look(HOUR / 2, 300.0)
    (own,) = machine.disks.by_key.values()
    machine.disks = disks(failed(own, ReadStatus.TIMEOUT, "no answer in 60 s", held=True))
    machine.look(HOUR / 2, 300.0)
    machine.disks = at(machine, direct("sda", "S1"))
    machine.look(HOUR / 2, 300.0)
    assert machine.engine.rules.alerts() == []


def test_a_disk_that_is_no_longer_read_is_reported_and_so_is_that_it_is_again() -> None:
    """Three polls without a reply: a warning for this disk; read again: resolved."""
    machine = FakeMachine(device("sda", "S1"), device("sdb", "S2"))
    first, second = direct("sda", "S1"), direct("sdb", "S2")
    machine.disks = at(machine, first, second)
    machine.look(HOUR)
    lost = failed(machine.disks.by_key["S2"], ReadStatus.HUNG, "smartctl hangs in the kernel")
    machine.disks = at(machine, first, lost)
    machine.look(25 * 60.0)
    assert machine.firing() == set()
    machine.look(10 * 60.0)
    assert machine.firing() == {("DiskNotMonitored", "S2")}
    (mail,) = machine.mails
    assert mail.object == f"sdb ({MODEL}, serial S2)"
    assert "smartctl hangs in the kernel" in mail.summary
    machine.disks = at(machine, first, second)
    machine.look(HOUR, 300.0)
    assert machine.firing() == set()
    assert [m.reason.value for m in machine.mails] == ["opened", "resolved"]


def test_a_sleeping_disk_is_not_lost() -> None:
    """It sleeps for a week: its last data are valid, and there is no alert."""
    machine = FakeMachine(device("sda", "S1"), device("sdb", "S2"))
    machine.disks = at(machine, direct("sda", "S1"), direct("sdb", "S2"))
    machine.look(HOUR, 300.0)
    asleep = [
        failed(d, ReadStatus.ASLEEP, "it sleeps", held=True) for d in machine.disks.by_key.values()
    ]
    machine.disks = disks(*asleep)
    machine.look(7 * DAY, 3600.0)
    assert machine.firing() == set()
    machine.restart()
    machine.disks = disks(*(failed(d, ReadStatus.ASLEEP, "it sleeps") for d in asleep))
    machine.look(HOUR, 300.0)
    assert machine.firing() == set()


def test_a_disk_that_slept_from_the_start_is_no_notice() -> None:
    """It must not be woken up to be read; its monitoring state shows that it is unknown."""
    machine = FakeMachine(device("sda", "S1"), device("sdb", "S2"))
    asleep = direct("sdb", "S2", status=ReadStatus.ASLEEP, drive=None, read_seconds=None)
    for _ in range(4):
        machine.disks = at(machine, direct("sda", "S1"), asleep)
        machine.look(HOUR / 2, 300.0)
    assert machine.firing() == set()
    found = machine.engine.signals.inventory().disks
    assert inventory.verdict(found.values()) is Verdict.WARNING


def test_a_try_that_fails_after_a_long_stop_is_not_reported() -> None:
    """The service was stopped for a week: the first failure may pass, three periods of them not."""
    machine = FakeMachine(device("sda", "S1"), device("sdb", "S2"))
    machine.disks = at(machine, direct("sda", "S1"), direct("sdb", "S2"))
    machine.look(HOUR, 300.0)
    machine.now += 7 * DAY
    machine.restart()
    lost = direct("sdb", "S2", status=ReadStatus.TIMEOUT, drive=None, read_seconds=None)
    machine.disks = at(machine, direct("sda", "S1"), lost)
    machine.look(80 * 60.0)
    assert machine.firing() == set()
    machine.look(20 * 60.0)
    assert machine.firing() == {("DiskNotMonitored", "S2")}


def test_a_disk_that_gets_a_longer_name_is_the_same_disk() -> None:
    """Another disk of its serial number was added: neither is missing by the short name."""
    machine = FakeMachine(device("sda", "S1"))
    machine.disks = at(machine, direct("sda", "S1"))
    machine.look(HOUR, 300.0)
    machine.restart()
    longer = replace(direct("sda", "S1"), key="S1 5000c500a1b2c3d4")
    machine.disks = at(machine, longer)
    machine.look(HOUR, 300.0)
    assert machine.firing() == set()


def test_a_disk_that_was_never_read_is_a_notice() -> None:
    """A USB bridge that passes nothing through: in the digest, no mail."""
    machine = FakeMachine(device("sda", "S1"), device("sdb", "S2"))
    bridge = failed(direct("sdb", "S2"), ReadStatus.NO_PASS_THROUGH, "an unknown USB bridge")
    bridge = replace(bridge, polled=replace(bridge.polled, read_seconds=None))
    for _ in range(4):
        machine.disks = at(machine, direct("sda", "S1"), bridge)
        machine.look(HOUR / 2, 300.0)
    assert machine.firing() == {("DiskNeverMonitored", "S2")}
    (alert,) = machine.alerts("DiskNeverMonitored")
    assert alert.annotation("summary").endswith("an unknown USB bridge")
    assert alert.object == f"sdb ({MODEL}, serial S2)"
    assert machine.mails == []


@pytest.mark.parametrize("cover", [ReadStatus.NO_SMART, ReadStatus.LUN])
def test_what_has_no_smart_is_not_missed(cover: ReadStatus) -> None:
    """Volumes of a storage array and virtual disks are none of the disks that count."""
    machine = FakeMachine(device("sda", "S1"), device("sdb", "S2"))
    volume = failed(direct("sdb", "S2"), cover, "a volume")
    volume = replace(volume, polled=replace(volume.polled, read_seconds=None))
    for _ in range(6):
        machine.disks = at(machine, direct("sda", "S1"), volume)
        machine.look(HOUR, 300.0)
    assert machine.firing() == set()
    machine.disks = disks(volume)
    machine.topology = topology(device("sdb", "S2"))
    machine.look(DAY, 600.0)
    assert "NoDiskMonitored" not in {name for name, _ in machine.firing()}


def test_a_disk_that_is_not_there_after_a_restart_is_missed_until_it_is_back() -> None:
    """The host was off and a disk did not return: a warning; added again, resolved."""
    machine = FakeMachine(device("sda", "S1"), device("sdb", "S2"))
    machine.disks = at(machine, direct("sda", "S1"), direct("sdb", "S2"))
    machine.look(HOUR, 300.0)
    machine.topology = topology(device("sda", "S1"))
    machine.restart()
    machine.disks = at(machine, direct("sda", "S1"))
    machine.look(4 * 60.0)
    assert machine.firing() == set()
    machine.look(HOUR, 300.0)
    assert machine.firing() == {("DiskMissing", "S2")}
    (mail,) = machine.mails
    assert (mail.severity.name, mail.object) == ("WARNING", f"sdb ({MODEL}, serial S2)")
    assert mail.summary == f"sdb ({MODEL}, serial S2) is missing"
    assert any("iowarden disk forget 'S2'" in text for text in mail.advice)
    machine.topology = topology(device("sda", "S1"), device("sdc", "S2"))
    machine.disks = at(machine, direct("sda", "S1"), direct("sdc", "S2"))
    machine.look(HOUR, 300.0)
    assert machine.firing() == set()
    assert [m.reason.value for m in machine.mails] == ["opened", "resolved"]


def test_a_missing_disk_is_forgotten_after_a_week() -> None:
    """It was not reported as removed; it is missing for seven days, over restarts."""
    machine = FakeMachine(device("sda", "S1"), device("sdb", "S2"))
    machine.disks = at(machine, direct("sda", "S1"), direct("sdb", "S2"))
    machine.look(HOUR, 300.0)
    machine.topology = topology(device("sda", "S1"))
    for _ in range(2):
        machine.restart()
        for _ in range(6):
            machine.disks = at(machine, direct("sda", "S1"))
            machine.look(DAY / 2, 1800.0)
        assert machine.firing() == {("DiskMissing", "S2")}
    for _ in range(4):
        machine.disks = at(machine, direct("sda", "S1"))
        machine.look(DAY / 2, 300.0)
    assert machine.firing() == set()
    assert [m.reason.value for m in machine.mails] == ["opened"]


def test_a_disk_that_vanishes_while_we_watch_is_reported_by_the_kernels_side_alone() -> None:
    """What was on it: DeviceRemoved reports it; an unplugged backup disk had nothing: no alert."""
    machine = FakeMachine(device("sda", "S1"), device("sdb", "S2"))
    machine.disks = at(machine, direct("sda", "S1"), direct("sdb", "S2"))
    machine.look(HOUR, 300.0)
    machine.topology = topology(device("sda", "S1"))
    machine.look(60.0)  # the poller still has it
    machine.disks = at(machine, direct("sda", "S1"))
    machine.look(HOUR, 300.0)
    assert set(answers.inventory_disks(machine.engine)) == {"S1"}
    machine.restart()
    machine.disks = at(machine, direct("sda", "S1"))
    machine.look(HOUR, 300.0)
    assert machine.firing() == set()


def test_a_disk_behind_a_controller_that_its_controller_lost_is_missed() -> None:
    """No block device disappeared with it, so no other alert does; unless listing disks failed."""
    machine = FakeMachine()
    machine.disks = at(machine, hidden(1, "H1"), hidden(2, "H2"))
    machine.look(HOUR, 300.0)
    machine.disks = replace(at(machine, hidden(1, "H1")), problems=("smartctl --scan failed",))
    machine.look(HOUR, 300.0)
    assert machine.firing() == set()
    machine.disks = at(machine, hidden(1, "H1"))
    machine.look(10 * 60.0)
    assert machine.firing() == {("DiskMissing", "H2")}
    assert machine.mails[0].object == f"{MODEL}, serial H2, areca,2 at /dev/sg3 (slot 2)"
    machine.disks = at(machine, hidden(1, "H1"), hidden(2, "H2"))
    machine.look(HOUR, 300.0)
    assert [mail.reason.value for mail in machine.mails] == ["opened", "resolved"]


def test_a_disk_that_shares_its_serial_number_is_not_missed_under_its_short_name() -> None:
    """After each start the first of two behind a controller is read before the second."""
    machine = FakeMachine()
    machine.disks = disks(hidden(1, "S1"))
    machine.look(600.0)
    twins = [
        replace(hidden(n, "S1"), key=f"S1 wwn{n}", duplicate="1 more with serial number 'S1'")
        for n in (1, 2)
    ]
    machine.disks = disks(*twins)
    machine.look(3600.0)
    assert machine.alerts("DiskMissing") == []
    assert machine.mails == []


def test_disks_that_one_controller_hides_are_lost_together() -> None:
    """An adapter stops passing commands through: one incident, not one for each of its disks."""
    machine = FakeMachine(device("sda", "S1"))
    members = [hidden(number, f"H{number}") for number in range(1, 5)]
    machine.disks = at(machine, direct("sda", "S1"), *members)
    machine.look(HOUR, 300.0)
    read = machine.disks.by_key
    refused = [failed(read[each.key], ReadStatus.NO_PASS_THROUGH, "refused") for each in members]
    for _ in range(5):
        machine.disks = at(machine, direct("sda", "S1"), *refused)
        machine.look(HOUR, 300.0)
    assert machine.firing() == {("DiskNotMonitored", f"H{number}") for number in range(1, 5)}
    (mail,) = machine.mails
    assert mail.object == "host2 (SCSI host adapter)"
    assert mail.summary.startswith("4 disks: ")


def test_a_mail_about_a_disk_names_what_stands_on_it() -> None:
    """What a disk carries is found by the disk itself, because its label is no name of a device."""
    sdb = device("sdb", "S2", holders=("md0",))
    md0 = block_device("md0", leaf=False, slaves=("sdb",))
    machine = FakeMachine(device("sda", "S1"), sdb, md0)
    machine.disks = at(machine, direct("sda", "S1"), direct("sdb", "S2"))
    machine.look(HOUR, 300.0)
    lost = failed(machine.disks.by_key["S2"], ReadStatus.UNREADABLE, "no answer")
    machine.disks = at(machine, direct("sda", "S1"), lost)
    machine.look(HOUR, 300.0)
    (mail,) = machine.mails
    assert mail.affected == ("md0 is built on sdb",)


def test_a_disk_that_gets_another_name_keeps_its_alert() -> None:
    """Sdb is sdc after a cable was moved: the same alert goes on, about the same disk."""
    machine = FakeMachine(device("sda", "S1"), device("sdb", "S2"))
    machine.disks = at(machine, direct("sda", "S1"), direct("sdb", "S2"))
    machine.look(HOUR, 300.0)
    lost = failed(machine.disks.by_key["S2"], ReadStatus.HUNG, "it hangs")
    machine.disks = at(machine, direct("sda", "S1"), lost)
    machine.look(HOUR, 300.0)
    machine.topology = topology(device("sda", "S1"), device("sdc", "S2"))
    moved = replace(lost, device="sdc")
    machine.disks = at(machine, direct("sda", "S1"), moved)
    machine.look(HOUR, 300.0)
    assert [a.state.value for a in machine.alerts("DiskNotMonitored")] == ["firing"]
    assert [m.reason.value for m in machine.mails] == ["opened"]


def test_a_disk_that_was_taken_out_is_missed_no_more_once_that_is_reported() -> None:
    """'iowarden disk forget' ends the alert, over a restart too; it is not called resolved."""
    machine = FakeMachine(device("sda", "S1"), device("sdb", "S2"))
    machine.disks = at(machine, direct("sda", "S1"), direct("sdb", "S2"))
    machine.look(HOUR, 300.0)
    machine.topology = topology(device("sda", "S1"))
    machine.restart()
    machine.disks = at(machine, direct("sda", "S1"))
    machine.look(HOUR, 300.0)
    assert machine.firing() == {("DiskMissing", "S2")}
    machine.engine.devices.forget_disk("S2")
    machine.look(HOUR, 300.0)
    machine.restart()
    machine.disks = at(machine, direct("sda", "S1"))
    machine.look(HOUR, 300.0)
    assert machine.firing() == set()
    assert [m.reason.value for m in machine.mails] == ["opened"]


def test_a_vanished_disk_is_missed_no_more_once_somebody_has_it() -> None:
    """It disappeared with an array on it, which is reported; then a user confirms the removal."""
    machine = FakeMachine(device("sda", "S1"), device("sdb", "S2", holders=("md0",)))
    machine.disks = at(machine, direct("sda", "S1"), direct("sdb", "S2"))
    machine.look(HOUR, 300.0)
    machine.topology = topology(device("sda", "S1"))
    machine.disks = at(machine, direct("sda", "S1"))
    machine.look(HOUR / 2, 300.0)
    assert machine.firing() == {("DeviceRemoved", "")}
    found = answers.inventory_disks(machine.engine)
    assert inventory.find(found, "S2").reason == "it vanished; on it: md0"
    assert inventory.summary(found.values()) == "SMART: 1 of 2 disks readable (1 missing)"
    machine.engine.devices.forget_disk("S2")
    machine.look(HOUR / 2, 300.0)
    assert machine.firing() == set()


@pytest.mark.parametrize("name", ["sdb", "sdc"])
def test_a_failing_disk_that_was_replaced_and_forgotten_is_no_open_alert(name: str) -> None:
    """It reported a failure, another took its place or its bay: nothing is unknown for a day."""
    machine = FakeMachine(device("sda", "S1"), device("sdb", "S2", holders=("md0",)))
    failing = direct("sdb", "S2", drive=drive("S2", passed=False))
    machine.disks = at(machine, direct("sda", "S1"), failing)
    machine.look(HOUR / 2, 300.0)
    assert machine.firing() == {("DiskFailing", "S2")}
    machine.topology = topology(device("sda", "S1"), device(name, "S3"))
    machine.disks = at(machine, direct("sda", "S1"), direct(name, "S3"))
    machine.look(HOUR / 2, 300.0)
    unknown = {a.name for a in machine.engine.rules.alerts() if a.state.value == "unknown"}
    assert "DiskFailing" in unknown
    machine.engine.devices.forget_disk("S2")
    machine.look(HOUR / 2, 300.0)
    assert [a.name for a in machine.engine.rules.alerts() if a.active] == []


def test_a_configured_disk_that_is_missing_is_critical() -> None:
    """It is in the configuration: five minutes after the start it is reported."""
    machine = FakeMachine(device("sda", "S1"))
    target = AccessMethod("", "", "", "", "", "", "configuration")
    wanted = replace(
        hidden(9, "H9"),
        polled=replace(
            hidden(9, "H9").polled,
            target=target,
            status=ReadStatus.MISSING,
            drive=None,
            read_seconds=None,
        ),
    )
    machine.disks = at(machine, direct("sda", "S1"), wanted)
    machine.look(6 * 60.0)
    assert machine.firing() == {("DiskMissing", "H9")}
    assert [m.severity.name for m in machine.mails] == ["CRITICAL"]


def test_a_volume_whose_disks_are_queried_is_no_disk() -> None:
    """Behind a RAID controller: its disks are read, and the volume needs no reading of its own."""
    machine = FakeMachine(device("sda", "VOLUME"), device("sdb", "S2"))
    for _ in range(4):
        found = at(machine, hidden(1, "H1"), direct("sdb", "S2"))
        machine.disks = replace(found, volumes=("sda",))
        machine.look(HOUR / 2, 300.0)
    assert machine.firing() == set()
    assert {k: v for k, v in machine.samples("iowarden_disks").items() if v} == {"monitored": 2.0}
    machine.disks = replace(machine.disks, volumes=())
    machine.look(2 * HOUR, 300.0)
    assert machine.firing() == {("DiskNeverMonitored", "VOLUME")}


def test_many_configured_disks_that_are_missing_are_one_incident() -> None:
    """A shelf that is off, or names that changed: one mail that lists them, not sixty."""
    machine = FakeMachine(device("sda", "S1"))
    wanted = []
    for number in range(60):
        disk = hidden(number, f"H{number}")
        target = AccessMethod(f"/dev/sd{number}", "sat", origin="configuration")
        polled = replace(disk.polled, target=target, status=ReadStatus.MISSING, drive=None)
        wanted.append(replace(disk, polled=replace(polled, read_seconds=None)))
    machine.disks = at(machine, direct("sda", "S1"), *wanted)
    machine.look(10 * 60.0)
    assert len(machine.firing()) == 60
    (mail,) = machine.mails
    assert mail.object == "what the configuration names"


def test_what_a_drive_does_not_report_is_named() -> None:
    """Monitored does not mean complete: hidden raw values, refused self-tests, no counters."""
    plain = Attribute(197, "Current_Pending_Sector", 193, 193, 0, None, "", prefail=False)
    assert inventory.not_read(drive("S1", attributes=(plain,), self_test_kinds=())) == (
        "raw values hidden",
        "no error log",
        "no self-tests",
    )
    lacks = ("Self-tests not supported", "Selective Self-tests/Logging not supported", "No SCT")
    sas = drive("S2", protocol=Protocol.SCSI, scsi=ScsiHealth(), refused=lacks)
    assert inventory.not_read(sas) == (
        "no error counters",
        "no grown defects",
        "Self-tests not supported",
    )
    counted = ScsiHealth({"read": ErrorCounter(0, 0, 1.0)}, grown_defects=0)
    assert inventory.not_read(replace(sas, scsi=counted, refused=())) == ()
    bare = drive("S3", protocol=Protocol.NVME, passed=None, temperature_celsius=None)
    assert inventory.not_read(bare) == ("no overall health", "no temperature", "no health log")


def test_every_cover_has_words() -> None:
    """Every result of a poll has a text."""
    assert set(inventory.STATUS_TEXTS) == set(ReadStatus)
    told = {
        ReadStatus.READ,
        ReadStatus.ASLEEP,
        ReadStatus.NOT_POLLED_YET,
        ReadStatus.NO_SMART,
        ReadStatus.LUN,
    }
    assert set(inventory.REMEDIES) == set(ReadStatus) - told


def test_when_was_it_last_read_outlives_a_restart() -> None:
    """A disk that cannot be read since a restart was read before it: lost, not never read."""
    machine = FakeMachine(device("sda", "S1"), device("sdb", "S2"))
    machine.disks = at(machine, direct("sda", "S1"), direct("sdb", "S2"))
    machine.look(HOUR, 300.0)
    machine.restart()
    lost = failed(direct("sdb", "S2"), ReadStatus.PERMISSION, "not permitted")
    lost = replace(lost, polled=replace(lost.polled, read_seconds=None))
    for _ in range(4):
        machine.disks = at(machine, direct("sda", "S1"), lost)
        machine.look(HOUR / 2, 300.0)
    assert machine.firing() == {("DiskNotMonitored", "S2")}
    assert machine.samples("iowarden_disk_last_poll_age_seconds")["S2"] == machine.now - START
