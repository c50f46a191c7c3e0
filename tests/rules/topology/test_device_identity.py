"""Disks that come, go, change their names or are replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.machine import disk, topology
from support.simulation import Simulation

from iowarden.collectors.filesystem.mountinfo import Mount
from iowarden.rules.notice import Reason
from iowarden.rules.notices import report
from iowarden.rules.severity import Severity
from iowarden.rules.topology import alert_subject, device_changes, device_identity
from iowarden.rules.topology.device_changes import DeviceChangeKind, Devices
from iowarden.rules.topology.device_identity import Identity, identity

if TYPE_CHECKING:
    from iowarden.collectors.block.block_devices import Device
    from iowarden.collectors.model import Labels

HUNG = {"sda": 3}


def numbered(device: Device, diskseq: int) -> Device:
    """A disk that was the n-th one added since boot."""
    return replace(device, diskseq=diskseq)


def mounted(source: str, mount_point: str) -> Mount:
    """A mount."""
    return Mount("8:1", source, "/", mount_point, "ext4", ("rw",), ("rw",))


def test_a_disk_that_came_and_one_that_went_are_events() -> None:
    """sda stays, sdb is removed, sdc is added: each is reported by its serial number."""
    before = topology(disk("sda", serial="A"), disk("sdb", serial="B"))
    after = topology(disk("sda", serial="A"), disk("sdc", serial="C"))
    events = device_changes.changes(before, after)
    assert [(e.change, e.name, e.identity.object) for e in events] == [
        (DeviceChangeKind.REMOVED, "sdb", "sdb (serial B)"),
        (DeviceChangeKind.ADDED, "sdc", "sdc (serial C)"),
    ]


def test_a_disk_under_another_name_is_renamed() -> None:
    """A cable was replugged: the same serial number comes up as sdc."""
    before = topology(disk("sda", serial="A"), disk("sdb", serial="B"))
    after = topology(disk("sda", serial="A"), disk("sdc", serial="B"))
    (event,) = device_changes.changes(before, after)
    assert (event.change, event.name, event.was) == (DeviceChangeKind.RENAMED, "sdc", "sdb")


def test_another_disk_under_the_same_name_is_a_replacement() -> None:
    """sdb was replaced: the report has what was on the old one, and the disk with its name now."""
    before = topology(
        disk("sdb", serial="B", holders=("md0",)), disk("md0", slaves=("sdb",), leaf=False)
    )
    after = topology(disk("sdb", serial="X"))
    (event,) = device_changes.changes(
        before, after, [mounted("/dev/md0", "/srv"), mounted("/dev/sda1", "/")]
    )
    assert (event.change, event.identity.object, event.was) == (
        DeviceChangeKind.REPLACED,
        "sdb (serial B)",
        "sdb (serial X)",
    )
    assert event.carried == ("md0", "/srv")


def test_diskseq_reports_a_disk_without_serial_number_from_the_next_of_its_name() -> None:
    """Two sticks without a number in one slot: the second is reported as another device."""
    before = topology(numbered(disk("sdb"), 7))
    assert device_changes.changes(before, topology(numbered(disk("sdb"), 7))) == []
    events = device_changes.changes(before, topology(numbered(disk("sdb"), 9)))
    assert [event.change for event in events] == [DeviceChangeKind.REMOVED, DeviceChangeKind.ADDED]


def test_a_serial_number_that_cannot_be_read_for_once_is_no_other_disk() -> None:
    """A sick disk does not answer for its VPD page: it is still the same disk."""
    before = topology(disk("sda", serial="A"))
    assert device_changes.changes(before, topology(disk("sda"))) == []


def test_two_names_of_a_disk_may_be_swapped() -> None:
    """sda and sdb have swapped names after a boot: both are renamed, none is missing."""
    before = topology(numbered(disk("sda", serial="A"), 1), numbered(disk("sdb", serial="B"), 2))
    after = topology(numbered(disk("sda", serial="B"), 3), numbered(disk("sdb", serial="A"), 4))
    events = device_changes.changes(before, after)
    assert [(e.change, e.was, e.name) for e in events] == [
        (DeviceChangeKind.RENAMED, "sda", "sdb"),
        (DeviceChangeKind.RENAMED, "sdb", "sda"),
    ]
    state = device_changes.next_devices(Devices(), events, after, 10.0)
    assert state.gone == {}


def test_a_partition_is_its_disk() -> None:
    """An error on sda1 belongs to the incident of sda."""
    whole = replace(disk("sda", serial="A"), partitions=("sda1",))
    assert identity(topology(whole), "sda1") == identity(topology(whole), "sda")


@pytest.mark.parametrize(("name", "part"), [("sdb", "sdb1"), ("nvme0n1", "nvme0n1p2")])
def test_a_partition_of_a_disk_that_is_gone_is_that_disk(name: str, part: str) -> None:
    """The file system on it goes on failing after the disk went: one incident, not two."""
    state = device_changes.next_devices(Devices(), [], topology(disk(name, serial="B")), 10.0)
    for label in (name, part):
        assert alert_subject.subject(topology(), state, (("device", label),)).key == "disk   B"
    assert alert_subject.subject(topology(), state, (("device", "sdc1"),)).key == "device sdc1"


def test_a_member_that_its_array_gave_up_is_its_disk_and_not_the_array() -> None:
    """A spare may have taken its place: the array is whole, and the disk is still listed."""
    whole = replace(disk("sda", serial="A"), partitions=("sda1",))
    labels = (("alertname", "MdMemberFaulty"), ("device", "md0"), ("member", "sda1"))
    own = alert_subject.subject(topology(whole), Devices(), labels)
    assert own == identity(topology(whole), "sda")


def test_what_a_raid_controller_reports_is_its_matter_or_that_of_a_disk_that_is_known() -> None:
    """Its settings are not the host's; a slot with an unknown disk belongs to the controller."""

    def known(labels: Labels) -> Identity | None:
        return Identity("disk ACME S1", "slot") if ("slot", "channel 2") in labels else None

    def key(*labels: tuple[str, str]) -> str:
        return alert_subject.subject(None, Devices(), labels, controller=known).key

    areca = ("controller", "areca 1")
    assert key(areca, ("slot", "channel 2")) == "disk ACME S1"
    assert key(areca, ("slot", "channel 3")) == "adapter areca 1"
    assert (
        key(areca, ("condition", "controller_write_cache"), ("host", "host2")) == "adapter areca 1"
    )
    assert key(("controller", ""), ("host", "host2")) == "adapter host2"
    alone = alert_subject.subject(None, Devices(), (("controller", "c0"),))
    assert (alone.key, alone.object) == ("adapter c0", "c0 (controller)")


@pytest.fixture
def machine() -> Simulation:
    """A host with two disks; a file system of sda is mounted."""
    simulation = Simulation()
    simulation.add_disk("sda", "S1")
    simulation.add_disk("sdb", "S2")
    simulation.memory.write(
        {
            "/sys/block/sda/sda1/partition": "1\n",
            "/proc/1/mountinfo": "25 1 8:1 / /srv rw,noatime - ext4 /dev/sda1 rw\n",
        },
    )
    simulation.run(20, writes={"sda": 1_000_000})
    return simulation


def test_a_disk_that_vanishes_with_a_file_system_on_it_is_critical(machine: Simulation) -> None:
    """It is reported at once with what was on it; it is resolved when the disk is back as sdc."""
    machine.pull_disk("sda")
    machine.run(5)
    (mail,) = machine.host.mails
    assert (mail.due.reason, mail.due.incident.severity) == (Reason.OPENED, Severity.CRITICAL)
    assert mail.due.incident.object == "sda (SIMULATED HDD, serial S1)"
    assert "/srv" in mail.due.incident.members[0].summary
    machine.run(600, step=4)
    assert len(machine.host.mails) == 1
    machine.add_disk("sdc", "S1")
    machine.host.announced()
    machine.run(610, step=2)
    assert machine.host.reasons() == ["opened", "resolved"]


BACKUP = "26 1 8:16 / /backup rw - ext4 /dev/sdb rw\n"
ROOT = "25 1 8:1 / / rw - ext4 /dev/sdz1 rw\n"


@pytest.mark.parametrize(
    ("fstab", "told"), [("", False), ("defaults,noauto", False), ("defaults,nofail", True)]
)
def test_a_backup_disk_may_be_unmounted_and_switched_off_at_once(
    machine: Simulation, fstab: str, *, told: bool
) -> None:
    """Of a failing disk, systemd unmounts what '/etc/fstab' mounts at boot: that is reported."""
    line = f"/dev/sdb /backup ext4 {fstab} 0 0\n" if fstab else ""
    machine.memory.write({"/proc/1/mountinfo": ROOT + BACKUP, "/etc/fstab": line})
    machine.run(30)
    machine.memory.write({"/proc/1/mountinfo": ROOT})
    machine.pull_disk("sdb")
    machine.run(60)
    assert ("DeviceRemoved" in machine.host.names()) is told


def test_what_systemd_unmounts_is_missed_although_the_disks_are_looked_at_later(
    machine: Simulation,
) -> None:
    """The mount table is read at once, '/sys/block' takes its time on a sick adapter."""
    line = "/dev/sdb /backup ext4 defaults 0 0\n"
    machine.memory.write({"/proc/1/mountinfo": ROOT + BACKUP, "/etc/fstab": line})
    machine.run(70)
    machine.memory.write({"/proc/1/mountinfo": ROOT})
    machine.run(20)
    machine.pull_disk("sdb")
    machine.run(2)
    assert "DeviceRemoved" in machine.host.names()


def test_one_of_two_disks_of_one_serial_number_is_missed(machine: Simulation) -> None:
    """A vendor gave both the same; the one with a file system is removed, and returns as sde."""
    machine.add_disk("sdc", "0001")
    machine.add_disk("sdd", "0001")
    mount = "26 1 8:16 / /data rw - ext4 /dev/sdc rw\n"
    machine.memory.write({"/proc/1/mountinfo": ROOT + mount})
    machine.run(70)
    machine.pull_disk("sdc")
    machine.run(600, step=4)
    assert machine.host.reasons() == ["opened"]
    machine.memory.write({"/proc/1/mountinfo": ROOT})
    machine.add_disk("sde", "0001")
    machine.host.announced()
    machine.run(620, step=4)
    assert machine.host.reasons() == ["opened", "resolved"]


def test_a_path_that_is_lost_is_no_disk_that_is_lost(machine: Simulation) -> None:
    """sdc and sdd are paths of one LUN under multipath: one is lost, dm-0 uses the other."""
    for name in ("sdc", "sdd"):
        machine.add_disk(name, "LUN7")
        machine.memory.write({f"/sys/block/{name}/holders/dm-0": None})
        machine.memory.write({f"/sys/block/dm-0/slaves/{name}": None})
    machine.run(70)
    machine.pull_disk("sdc")
    machine.run(70)
    assert machine.host.mails == []


@pytest.mark.parametrize("serial", ["S8", ""])
def test_a_disk_that_was_missed_for_a_week_is_not_well(machine: Simulation, serial: str) -> None:
    """It was not added again: it is no longer reported as missing, and not as resolved."""
    machine.add_disk("sdc", serial)
    mount = "26 1 8:32 / /data rw - ext4 /dev/sdc rw\n"
    machine.memory.write({"/proc/1/mountinfo": ROOT + mount})
    machine.run(70)
    machine.pull_disk("sdc")
    machine.run(60)
    assert machine.host.reasons() == ["opened"]
    machine.second += 7 * 86_400 - 120
    machine.run(800, step=4)
    assert not any("device_gone" in name for name in machine.host.signals())
    assert "resolved" not in machine.host.reasons()


def test_a_disk_that_carried_nothing_may_be_pulled(machine: Simulation) -> None:
    """A spare disk goes: an event, no mail."""
    machine.pull_disk("sdb")
    machine.run(70)
    assert machine.host.mails == []
    assert machine.host.signals()['iowarden_device_events_total{event="removed"}'] == 1


def test_a_disk_that_vanishes_while_it_hangs_is_not_well(machine: Simulation) -> None:
    """The hung disk was removed and another one has its name: the old one is not resolved."""
    machine.run(20, in_flight=HUNG)
    machine.run(60, in_flight=HUNG)
    assert machine.host.reasons() == ["opened", "escalated"]
    machine.pull_disk("sda")
    machine.add_disk("sda", "S9")
    machine.run(700, step=4)
    assert "resolved" not in machine.host.reasons()
    stalls = [a for a in machine.host.engine.rules.alerts() if a.name == "DeviceHang" and a.active]
    assert {(a.state.value, a.object) for a in stalls} == {
        ("unknown", "sda (SIMULATED HDD, serial S1)")
    }


def test_a_disk_that_comes_back_after_another_took_its_name_is_well(machine: Simulation) -> None:
    """S1 hung and was pulled, S9 got its name; S1 returns as sdc, and is reported as resolved."""
    machine.run(80, in_flight=HUNG)
    machine.pull_disk("sda")
    machine.add_disk("sda", "S9")
    machine.run(20)
    machine.add_disk("sdc", "S1")
    machine.host.announced()
    machine.run(5)
    engine = machine.host.engine
    assert engine is not None
    assert [a for a in engine.rules.alerts() if a.name == "DeviceHang" and a.active] == []
    machine.run(640, step=4)
    assert machine.host.reasons()[-1] == "resolved"


def test_a_disk_that_comes_back_under_another_name_is_well(machine: Simulation) -> None:
    """S1 hung as sda, was pulled and returns as sdc: the incident continues until resolved."""
    machine.run(80, in_flight=HUNG)
    machine.pull_disk("sda")
    machine.run(20)
    machine.add_disk("sdc", "S1")
    machine.host.announced()
    machine.run(640, step=4)
    assert machine.host.reasons()[-1] == "resolved"
    assert len({mail.due.incident.identifier for mail in machine.host.mails}) == 1


def test_the_next_disk_of_a_name_has_an_incident_of_its_own(machine: Simulation) -> None:
    """The new sda hangs as well: a second disk is a second incident, the first stays open."""
    machine.run(60, in_flight=HUNG)
    machine.pull_disk("sda")
    machine.add_disk("sda", "S9")
    machine.run(20, writes={"sda": 1_000_000})
    machine.run(60, in_flight=HUNG)
    objects = {i.object for i in machine.host.incidents.by_key.values() if i.firing}
    assert objects == {"sda (SIMULATED HDD, serial S1)", "sda (SIMULATED HDD, serial S9)"}


ON_DISK = {"device": "/dev/sda1", "mountpoint": "/srv"}


@pytest.mark.parametrize(
    ("labels", "key"),
    [
        ({}, ""),
        ({"device": "sda1"}, "disk   A"),
        ({**ON_DISK, "alertname": "FilesystemReadOnly"}, "file system at 1 disk   A"),
        ({**ON_DISK, "alertname": "FilesystemFull"}, "file system /srv"),
        ({**ON_DISK, "alertname": "Mine", "condition": "filesystem_read_only"}, "file system /srv"),
        ({"host": "host2"}, "adapter host2"),
        ({"fsid": "0b1c", "label": "data"}, "file system 0b1c"),
        ({"alertname": "ZoneReclaimEnabled"}, "setting ZoneReclaimEnabled"),
        ({"alertname": "Mine", "condition": "Low-space"}, ""),
        ({"alertname": "CollectorStale", "collector": "vmstat"}, "iowarden"),
        ({"alertname": "Mine", "condition": "collector_stale"}, ""),
        ({"device": "md0"}, "device md0"),
    ],
)
def test_what_an_alert_is_about_follows_from_its_labels(labels: dict[str, str], key: str) -> None:
    """A file system is another object than its disk, and failed or full; a setting hides no stall.

    A user's label 'condition' does not matter.
    """
    whole = replace(disk("sda", serial="A"), partitions=("sda1",))
    known = topology(whole, disk("md0", slaves=("sda",), leaf=False))
    assert alert_subject.subject(known, Devices(), tuple(sorted(labels.items()))).key == key


def test_a_host_adapter_that_fails_is_one_mail_that_names_its_disks() -> None:
    """Six disks hang, five of them on one adapter; the other disk is an incident of its own."""
    simulation = Simulation()
    for number, name in enumerate(("sda", "sdb", "sdc", "sdd", "sde", "sdf")):
        simulation.add_disk(name, f"S{number}")
        address = f"{int(name == 'sdf')}:0:{number}:0"
        simulation.memory.write({f"/sys/block/{name}/device/scsi_device/{address}": None})
    simulation.run(20)
    simulation.run(120, in_flight=dict.fromkeys(simulation.disks, 3))
    objects = [mail.due.incident.object for mail in simulation.host.mails]
    assert sorted(objects) == ["host0 (SCSI host adapter)", "sdf (SIMULATED HDD, serial S5)"]
    due = next(m.due for m in simulation.host.mails if m.due.incident.key == "adapter host0")
    notice = report.notice(
        due, report.Sources(lambda at: at, due.incident.opened_seconds, (), None)
    )
    assert any(
        line.startswith("5 disks (sda, sdb, sdc, sdd, sde): critical DeviceHang")
        for line in notice.sentences
    )
    assert notice.summary.startswith("5 disks: no request completed for")
    assert len(notice.advice) == 1


@pytest.mark.parametrize(
    ("serial", "name", "expected"),
    [
        ("S1", "sdb", "sdb"),
        ("S1", "sda", "sdb"),
        ("S1", "sda1", "sdb1"),
        ("S1", "/dev/sda1", "sdb1"),
        ("S2", "sdb2", "nvme0n1p2"),
        ("S9", "sda", ""),
        ("S9", "sdx", "sdx"),
        ("S1", "sdx", "sdb"),
        ("S1", "sdx1", "sdb1"),
        ("S2", "sdx", "nvme0n1"),
        ("S2", "nvme7n1p2", "nvme0n1p2"),
        ("S1", "mpathx", "mpathx"),
        ("S1", "dm-0", "dm-0"),
    ],
)
def test_after_a_reboot_a_disk_is_found_under_the_name_of_today(
    serial: str, name: str, expected: str
) -> None:
    """sda of yesterday is sdb: what is advised for it must not hit the disk that is sda now.

    So is sdx that came back as sdb at another port, with no other sdx since.
    """
    machine = topology(
        replace(disk("sda", serial="S3"), partitions=("sda1",)),
        replace(disk("sdb", serial="S1", holders=("dm-0",)), partitions=("sdb1", "sdb2")),
        replace(disk("nvme0n1", serial="S2"), partitions=("nvme0n1p2",)),
        disk("dm-0", slaves=("sdb",), leaf=False),
    )
    key = identity(topology(disk("sda", serial=serial)), "sda").key
    assert device_identity.named_now(machine, key, name) == expected
