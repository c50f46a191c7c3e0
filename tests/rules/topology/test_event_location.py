"""Where events happened: from what the kernel and controllers call a thing to the thing."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.machine import disk as block_device
from support.machine import topology
from support.polled_disks import disks, drive
from support.recordings import corpus

from iowarden.collectors.block.block_devices import Md
from iowarden.collectors.event import StorageEvent
from iowarden.collectors.filesystem.btrfs_owner import FileSystem
from iowarden.collectors.filesystem.mountinfo import Mount
from iowarden.collectors.kmsg.kernel_classifier import Classifier
from iowarden.collectors.kmsg.kernel_events import classify, finish
from iowarden.collectors.kmsg.kernel_line import parse_text
from iowarden.collectors.md import mdstat
from iowarden.collectors.raid.areca import event_info
from iowarden.collectors.raid.controller import (
    Battery,
    ComponentHealth,
    ComponentState,
    Controller,
    ControllerArray,
    PhysicalDisk,
    Sensor,
)
from iowarden.collectors.smart import members
from iowarden.collectors.smart.drive import AccessMethod, Disk, PollResult, ReadStatus
from iowarden.daemon.service import persisted_state
from iowarden.rules.events.event_state import CorrelationState
from iowarden.rules.topology import (
    alert_subject,
    device_changes,
    device_identity,
    event_location,
    inventory,
)
from iowarden.rules.topology.device_changes import Devices
from iowarden.rules.topology.event_location import place, remember
from iowarden.rules.topology.slot_map import DeviceMap, SlotContent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.block.block_devices import Device
    from iowarden.rules.topology.slot_map import EventPlace

MODEL = "ACME DISK-9"
OK = ComponentState(ComponentHealth.OK, "Normal")
FAILED = ComponentState(ComponentHealth.FAILED, "Failed")


def kernel(device: str = "", **fields: Any) -> StorageEvent:  # noqa: ANN401 - as Event takes them
    """A line of the kernel's log."""
    return StorageEvent("kernel", "block_medium_error", "a line", device=device, **fields)


def told(controller: str, where: str = "", kind: str = "areca_reading_error") -> StorageEvent:
    """An entry of a controller's log."""
    source = "areca" if controller.startswith("areca") else "3ware"
    return StorageEvent(source, kind, "an entry", controller=controller, place=where)


def sd(name: str, address: str, serial: str | None = None, **fields: Any) -> Device:  # noqa: ANN401 - as Device takes them
    """A SCSI disk, or a volume of a controller."""
    device = block_device(name, serial=serial, model="DISK-9", vendor="ACME")
    host = f"host{address.partition(':')[0]}"
    return dataclasses.replace(device, address=address, host=host, **fields)


def channel(number: int, serial: str = "", **fields: Any) -> PhysicalDisk:  # noqa: ANN401 - as PhysicalDisk takes them
    """A disk behind an Areca."""
    told = {"state": OK, "model": MODEL, "kind": f"areca,{number}", **fields}
    return PhysicalDisk(f"channel {number}", serial=serial, **told)


def areca(*disks: PhysicalDisk, **fields: Any) -> Controller:  # noqa: ANN401 - as Controller takes them
    """An Areca controller, the only one of its vendor."""
    told = {"model": "ARC-1210", "host": "host2", **fields}
    return Controller("areca 1", "areca", disks=disks, **told)


def read(number: int, serial: str, **fields: Any) -> Disk:  # noqa: ANN401 - as PollResult takes them
    """A disk behind an Areca at host2, read by smartctl."""
    target = AccessMethod(
        "/dev/sg3", f"areca,{number}", "", "host2", "arcmsr", f"channel {number}", "controller"
    )
    found = {"status": ReadStatus.READ, "drive": drive(serial), "read_seconds": 1.0, **fields}
    return Disk(serial or str(target), PollResult(target, **found))


def key(known: DeviceMap, device: str) -> str:
    """The key of an alert with this label 'device'."""
    return alert_subject.subject(known.topology, known.devices, (("device", device),)).key


# What the kernel names


def test_an_error_of_a_disk_joins_the_alerts_of_that_disk() -> None:
    """sdb, its partition, an array, a volume: each has the key that alerts about it have."""
    disk = dataclasses.replace(sd("sdb", "2:0:1:0", "S2"), partitions=("sdb1",), holders=("md0",))
    array = block_device("md0", leaf=False, slaves=("sdb",), md=Md("raid1", 2, 0, 2, None))
    volume = dataclasses.replace(block_device("dm-0", leaf=False), dm_name="vg-data")
    known = DeviceMap(topology(disk, array, volume))
    for name in ("sdb", "sdb1", "md0", "dm-0", "sdz"):
        assert place(kernel(name), known).identity.key == key(known, name)
    assert place(kernel("sdb1"), known).device == "sdb"
    assert place(kernel("sdb1"), known).around == ("md0",)
    assert place(kernel("md0"), known).identity.object == "md0 (raid1)"
    assert place(kernel("dm-0"), known).identity.object == "vg-data (dm-0)"
    assert place(kernel("mapper/vg-data"), known).identity.key == key(known, "dm-0")
    assert place(kernel("/dev/sdb1"), known).device == "sdb"
    old = DeviceMap(topology(block_device("cciss/c0d0")))
    assert place(kernel("cciss!c0d0"), old).identity.key == key(old, "cciss/c0d0")


def test_a_disk_that_smart_knows_bears_the_label_of_its_series() -> None:
    """The series of sdb are by its serial number, and so is what its mail shows."""
    machine = topology(sd("sda", "2:0:0:0", "S1"), sd("sdb", "2:0:1:0", "S2"))
    direct = AccessMethod("/dev/sdb", "sat", "sdb", "host2", slot="slot 4 of enclosure 2:0:9:0")
    asked = Disk("S2", PollResult(direct, ReadStatus.READ, drive=drive("S2")), "sdb")
    known = DeviceMap(machine, disks=inventory.inventory(disks(asked), machine))
    found = place(kernel("sdb"), known)
    assert (found.disk, found.device) == ("S2", "sdb")
    assert found.identity.key == known.disks["S2"].identity.key
    assert found.identity.object == ("sdb (ACME DISK-9, serial S2, slot 4 of enclosure 2:0:9:0)")


def test_an_ata_port_is_the_disk_that_hangs_there() -> None:
    """libata reports 'ata3.00' and never 'sda'; behind a port multiplier ata4 has two disks."""
    machine = topology(
        sd("sda", "2:0:0:0", "S1", port="ata3"),
        sd("sdb", "3:0:0:0", "S2", port="ata4"),
        sd("sdc", "3:1:0:0", "S3", port="ata4"),
    )
    known = DeviceMap(machine)
    for name in ("ata3", "ata3.00"):
        assert place(kernel(name), known).device == "sda"
    assert place(kernel("ata4.00"), known).device == "sdb"
    assert place(kernel("ata4.01"), known).identity.key == key(known, "sdc")
    for name in ("ata4", "ata4.15", "ata7", "ata3.01"):
        assert place(kernel(name), known).identity.key == f"device {name}"
    assert place(kernel("ata4"), known).identity.adapter == "host3"
    assert "(port multiplier of host3)" in place(kernel("ata4.15"), known).identity.object


def test_a_port_whose_link_never_came_up_is_one_object_of_its_adapter() -> None:
    """Its lines, those of the device that it expects and of its SCSI address are about the same."""
    machine = topology(sd("sda", "2:0:0:0", "S1", port="ata3"))
    known = DeviceMap(machine, hosts={"ata3": "host2", "ata5": "host4", "ahci": ""})
    for name in ("ata5", "ata5.00", "4:0:0:0"):
        found = place(kernel(name), known).identity
        assert found.key == "device ata5"
        assert (found.object, found.adapter) == ("ata5 (ATA port of host4 without a disk)", "host4")
    assert place(kernel("4:0:1:0"), known).identity.key == "device ata5.01"


def test_what_the_kernel_says_of_a_removed_disk_is_about_that_disk() -> None:
    """By the address of a SAS disk, by the port of a disk without a serial number; two gone: none.

    Errors of requests that were in flight follow the removal, and a reset of the empty port.
    """
    ports = {"ata3": "host2", "ata4": "host3", "mpt3sas_cm0": "host0"}
    before = topology(
        sd("sda", "0:0:5:0", "SAS5"),
        sd("sdb", "2:0:0:0", "", port="ata3"),
        sd("sdc", "3:0:0:0", "", port="ata4"),
        sd("sdd", "3:1:0:0", "", port="ata4"),
    )
    state = device_changes.next_devices(Devices(), [], before, 1.0)
    events = device_changes.changes(before, topology())
    known = DeviceMap(
        topology(), device_changes.next_devices(state, events, topology(), 2.0), hosts=ports
    )
    was = DeviceMap(before)
    assert place(kernel("0:0:5:0"), known).identity.key == key(was, "sda")
    for name in ("2:0:0:0", "ata3", "ata3.00"):
        assert place(kernel(name), known).identity.key == key(was, "sdb")
    assert place(kernel("ata4.01"), known).identity.key == key(was, "sdd")
    assert place(kernel("ata4"), known).identity.key == "device ata4"
    another = topology(sd("sda", "0:0:5:0", "SAS6"), sd("sdx", "2:0:0:0", "S9", port="ata3"))
    taken = dataclasses.replace(known, topology=another)
    assert place(kernel("0:0:5:0"), taken).identity.key == key(taken, "sda")
    assert place(kernel("ata3.00"), taken).identity.key == key(taken, "sdx")


def test_after_a_boot_an_address_may_be_another_disks() -> None:
    """Host numbers follow the order in which drivers were loaded."""
    before = topology(sd("sda", "0:0:5:0", "SAS5"))
    events = device_changes.changes(before, topology())
    state = device_changes.next_devices(Devices(), events, topology(), 100.0)
    for booted, expected in ((50.0, key(DeviceMap(before), "sda")), (150.0, "device 0:0:5:0")):
        known = DeviceMap(topology(), device_changes.without_addresses(state, booted))
        assert place(kernel("0:0:5:0"), known).identity.key == expected


def test_an_ata_disk_that_the_kernel_gave_up_is_still_that_disk() -> None:
    """'ata3.00: disabled', and sda is removed a moment later: the disk of the port is stored."""
    before = topology(sd("sda", "2:0:0:0", "S1", port="ata3"))
    slots = remember({}, (), before)
    state = device_changes.next_devices(Devices(), [], before, 1.0)
    names = device_changes.next_devices(
        state, device_changes.changes(before, topology()), topology(), 2.0
    )
    for known in (DeviceMap(topology(), names, slots=slots), DeviceMap(topology(), slots=slots)):
        found = place(kernel("ata3.00"), known)
        assert found.identity.key == key(DeviceMap(before), "sda")
        assert "serial S1" in found.identity.object
        assert place(kernel("ata3"), known).identity.key == found.identity.key


def test_a_disk_that_was_replugged_is_not_at_its_old_port() -> None:
    """It is at ata5 now: what happens at ata3 is not its matter."""
    slots = remember({}, (), topology(sd("sda", "2:0:0:0", "S1", port="ata3")))
    machine = topology(sd("sdb", "4:0:0:0", "S1", port="ata5"))
    slots = remember(slots, (), machine)
    assert list(slots) == ["ata5.00"]
    assert place(kernel("ata3.00"), DeviceMap(machine, slots=slots)).identity.key == "device ata3"
    old = {"ata3.00": SlotContent("S1", "ACME DISK-9")}
    assert place(kernel("ata3.00"), DeviceMap(machine, slots=old)).identity.key == "device ata3"


def test_an_nvme_controller_is_its_drive() -> None:
    """'nvme nvme1: I/O timeout' is of nvme1n1, or of a path; names of subsystems may differ."""
    first = block_device("nvme0n1", serial="N0")
    path = block_device("nvme0c1n1", serial="N1")
    known = DeviceMap(topology(first, path))
    assert place(kernel("nvme0"), known).identity.key == key(known, "nvme0n1")
    assert place(kernel("nvme1"), known).identity.key == key(known, "nvme0c1n1")
    crossed = topology(block_device("nvme0n1", serial="A"), block_device("nvme1n1", serial="B"))
    asked = Disk(
        "B", PollResult(AccessMethod("/dev/nvme0", "nvme", "nvme1n1"), ReadStatus.READ), "nvme1n1"
    )
    known = DeviceMap(crossed, disks=inventory.inventory(disks(asked), crossed))
    assert place(kernel("nvme0"), known).device == "nvme1n1"


def test_an_nvme_drive_that_is_gone_is_still_that_drive() -> None:
    """'Removing after probe failure': its namespaces went with it."""
    before = topology(block_device("nvme1n1", serial="N1"))
    state = device_changes.next_devices(Devices(), [], before, 1.0)
    gone = device_changes.next_devices(
        state, device_changes.changes(before, topology()), topology(), 2.0
    )
    found = place(kernel("nvme1"), DeviceMap(topology(), gone))
    assert found.identity.key == key(DeviceMap(before), "nvme1n1")
    assert place(kernel("nvme1"), DeviceMap()).identity.key == "device nvme1"


def test_a_scsi_address_is_the_device_there() -> None:
    """'scsi 2:0:1:0: rejecting I/O' names no disk; what is not there is at its host."""
    known = DeviceMap(topology(sd("sdb", "2:0:1:0", "S2")))
    assert place(kernel("2:0:1:0"), known).identity.key == key(known, "sdb")
    gone = place(kernel("2:0:7:0"), known).identity
    assert (gone.key, gone.adapter) == ("device 2:0:7:0", "host2")


def test_a_device_number_is_the_device_of_that_number() -> None:
    """Hung tasks and device-mapper report '8:16'; a missing map is not the host's fault."""
    disk = dataclasses.replace(sd("sdb", "2:0:1:0", "S2"), device_number="8:16")
    known = DeviceMap(topology(disk))
    for where in ("8:16", "block 8:16"):
        assert place(kernel(place=where), known).device == "sdb"
    assert place(kernel(place="253:9"), known).identity.key == "device 253:9"
    assert place(kernel(place="block 253:9"), known).identity.key == ""


def test_a_snapshot_that_is_lost_is_the_only_one_that_there_is() -> None:
    """The line names none. With two of them it may be either: then it is no device's."""

    def snapshot(number: int) -> list[Device]:
        name, space = f"dm-{number}", f"dm-{number + 1}"
        own = block_device(name, leaf=False, slaves=(space,))
        below = block_device(space, leaf=False, holders=(name,))
        return [
            dataclasses.replace(own, dm_name=f"vg-s{number}", dm_uuid=f"LVM-{number}"),
            dataclasses.replace(below, dm_uuid=f"LVM-{number}-cow"),
        ]

    line = kernel()
    lost = dataclasses.replace(line, kind="dm_snapshot_invalid")
    known = DeviceMap(topology(*snapshot(0)))
    assert place(lost, known).identity.key == key(known, "dm-0")
    assert place(line, known).identity.key == ""
    two = DeviceMap(topology(*snapshot(0), *snapshot(4)))
    assert place(lost, two).identity.key == ""
    assert place(lost, DeviceMap()).identity.key == ""


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        ({}, "control group /shop.slice"),
        ({"/mail.slice": "sdb", "/shop.slicer/x.service": ""}, "control group /shop.slice"),
        ({"/shop.slice/php.service": "sdb"}, "device sdb"),
        ({"shop.slice": "sdb"}, "device sdb"),
        ({"/shop.slice/php.service": "sdb", "/shop.slice": ""}, ""),
    ],
)
def test_a_kill_at_a_limit_is_where_the_programs_of_its_group_wait(
    waiting: dict[str, str], expected: str
) -> None:
    """By group, or by unit where version 1 has other groups; for memory rather than for a disk."""
    known = DeviceMap(topology(block_device("sdb")), waiting_groups=waiting)
    line = kernel(place="control group /shop.slice at memory.max of 204800 kB")
    found = place(dataclasses.replace(line, kind="oom_kill_group"), known)
    assert (found.identity.key, found.device, found.disk) == (expected, "", "")


POD = "pod0f3ad1c2{0}77ab{0}4c1e{0}9d55{0}2a6b8c9d0e1f"
SYSTEMD_POD = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-{POD.format('_')}.slice"


@pytest.mark.parametrize(
    ("pod", "container"),
    [
        (SYSTEMD_POD, "cri-containerd-{}.scope"),
        (f"/kubepods/burstable/{POD.format('-')}", "{}"),
        (f"/kubelet{SYSTEMD_POD}", "crio-{}.scope/init"),
    ],
)
def test_a_container_that_is_killed_again_and_again_is_its_pod(pod: str, container: str) -> None:
    """Each start of it has a new name: it is one incident, and so are those of the pod itself."""
    keys = {
        place(
            kernel(place=f"control group {group} at memory.max of 9 kB"), DeviceMap()
        ).identity.key
        for group in (pod, *(f"{pod}/{container.format(64 * digit)}" for digit in "ab"))
    }
    assert keys == {f"control group {pod}"}


def test_an_event_of_a_member_is_its_disks_and_that_of_an_array_the_arrays() -> None:
    """sdb1 failed in md0: with the disk's own errors. md0 is degraded: with the array's alerts."""
    disk = dataclasses.replace(sd("sdb", "2:0:1:0", "S2"), partitions=("sdb1",))
    machine = topology(disk, block_device("md0", leaf=False))
    array = mdstat.MdArray("md0", "raid1", "clean", 2, 1, "idle", *(None,) * 5, ())
    known = DeviceMap(machine, arrays={"md0": array})
    failed = StorageEvent("md", "md_member_failed", "sdb1 failed", device="sdb1", place="md0")
    found = place(failed, known)
    assert (found.identity.key, found.around) == (key(known, "sdb"), ("md0",))
    degraded = StorageEvent("md", "md_array_degraded", "md0 misses 1", device="md0")
    assert place(degraded, known).identity.key == key(known, "md0")
    assert place(degraded, DeviceMap(arrays={"md0": array})).identity.object == "md0 (raid1)"
    assert place(kernel(place="md0"), known).identity.key == key(known, "md0")


BTRFS = "0f3a5b1e-1111-2222-3333-444455556666"


@pytest.mark.parametrize(
    ("devices", "count", "expected"),
    [
        (("sda", "sdb"), 2, f"file system {BTRFS}"),
        (("sda",), 2, f"file system {BTRFS}"),
        (("sda",), None, f"file system {BTRFS}"),
        (("sda",), 1, "disk ACME DISK-9 A"),
        (("sdb",), 1, "file system btrfs (device sda)"),
    ],
    ids=[
        "a mirror",
        "one that lost a disk: this is the last copy",
        "before Linux 5.6",
        "only this disk",
        "not of this file system any more",
    ],
)
def test_a_line_of_btrfs_is_about_the_file_system_and_its_first_device_only_if_it_is_its_only(
    devices: tuple[str, ...], count: int | None, expected: str
) -> None:
    """'(device sda)' is the name from when it was mounted: sda may be good, or may have left it."""
    pair = topology(sd("sda", "0:0:0:0", "A"), sd("sdb", "1:0:0:0", "B"))
    system = FileSystem(BTRFS, devices, count)
    known = DeviceMap(
        topology=dataclasses.replace(pair, btrfs=dict.fromkeys(devices, system)),
        boot_id="now",
    )
    line = kernel(place="btrfs (device sda)", boot_id="now")
    found = place(line, known)
    assert found.identity.key == expected
    assert (found.device != "") == (expected == "disk ACME DISK-9 A")
    earlier = place(dataclasses.replace(line, boot_id="before"), known)
    assert earlier.identity.key == "file system btrfs (device sda)"
    labels = (("alertname", "FilesystemReadOnly"), ("device", "sda"), ("mountpoint", "/pool"))
    disk = place(dataclasses.replace(line, device="sdb"), known)
    assert (disk.identity.key, disk.volumes) == ("disk ACME DISK-9 B", (expected,))
    subject = alert_subject.subject(known.topology, Devices(), labels)
    assert (subject.key == f"file system {BTRFS}") == ("sda" in devices)


def test_a_disk_that_is_gone_is_known_by_its_last_name() -> None:
    """Its file system goes on failing: sdb1 is still the disk that was sdb."""
    before = topology(sd("sdb", "2:0:1:0", "S2"))
    state = device_changes.next_devices(Devices(), [], before, 1.0)
    gone = device_changes.next_devices(
        state, device_changes.changes(before, topology()), topology(), 2.0
    )
    for known in (DeviceMap(topology(), gone), DeviceMap(None, gone)):
        for name in ("sdb", "sdb1"):
            assert place(kernel(name), known).identity.key == key(DeviceMap(before), "sdb")


def test_an_adapter_is_the_same_for_its_driver_and_its_controller() -> None:
    """'arcmsr2: bus reset' and a fan of areca 1: one adapter, that of its disks' incidents."""
    known = DeviceMap(controllers=(areca(sensors=(Sensor("Fan#1 Speed"),)),))
    for event in (
        kernel(controller="host2"),
        kernel(controller="arcmsr"),
        kernel(controller="scsi host2"),
        told("areca 1"),
        told("areca 1", "Fan#1 Speed", "areca_fan_failed"),
    ):
        found = place(event, known).identity
        assert (found.key, found.object) == ("adapter host2", "areca 1 (ARC-1210, host2)")
    assert place(kernel(controller="host5"), known).identity.object == "host5 (SCSI host adapter)"
    assert place(kernel(controller="mpt2sas_cm0"), known).identity.key == "adapter mpt2sas_cm0"
    assert place(told("areca 1"), DeviceMap()).identity.key == "adapter areca 1"


def test_a_driver_that_names_target_and_unit_means_a_device() -> None:
    """'arcmsr2: abort device command of scsi id = 0 lun = 1' is about the volume there."""
    known = DeviceMap(topology(sd("sdc", "2:0:0:1", "V")), controllers=(areca(),))
    assert place(kernel(controller="host2", place="id 0 lun 1"), known).device == "sdc"
    other = place(kernel(controller="host2", place="id 3 lun 0"), known)
    assert other.identity.key == "adapter host2"


def test_what_names_nothing_is_the_hosts() -> None:
    """A program that hangs, lines that are lost."""
    assert place(kernel(), DeviceMap()).identity.key == ""
    assert place(StorageEvent("md", "md_array_disappeared", "?"), DeviceMap()).identity.key == ""


# Disks behind controllers


def test_the_jbod_disk_of_an_arc_1210_is_one_disk_for_all_that_report_of_it() -> None:
    """Its channel 2 is sdb: the controller's log, the kernel's and SMART concern one disk.

    Neither reports a serial number to the kernel there, and target 1 is channel 2.
    """
    machine = topology(sd("sdc", "1:0:1:0"), sd("sda", "2:0:0:0"), sd("sdb", "2:0:1:0"))
    card = areca(channel(1, "W1", usage="JBOD"), channel(2, "W2", usage="JBOD"))
    covered = inventory.inventory(disks(read(1, "W1"), read(2, "W2")), machine)
    known = DeviceMap(machine, disks=covered, controllers=(card,))
    found = place(told("areca 1", "channel 2"), known)
    assert found == place(kernel("sdb"), known)
    assert found.identity.key == covered["W2"].identity.key
    assert found.identity.object == "sdb (ACME DISK-9, serial W2, channel 2 of areca 1)"
    assert found.identity.adapter == "host2"
    assert (found.disk, found.device, found.slot) == ("W2", "sdb", "channel 2")
    assert found.volumes == (key(known, "sdb"),)
    assert place(kernel("sdc"), known).controller == ""


def test_a_disk_that_is_passed_through_is_found_by_its_serial_number() -> None:
    """Then neither an address is needed nor the host, which is unknown for two of a vendor."""
    machine = topology(sd("sdb", "2:0:7:3", "W2"), sd("sdc", "4:0:7:3", "W9"))
    first = areca(channel(2, "W2", usage="Pass Through"), host="")
    second = dataclasses.replace(
        areca(channel(2, "W9", usage="Pass Through"), host=""), name="areca 2"
    )
    known = DeviceMap(machine, controllers=(first, second))
    assert place(told("areca 1", "channel 2"), known).device == "sdb"
    assert place(told("areca 2", "channel 2"), known).device == "sdc"
    found = place(kernel("sdc"), known)
    assert (found.controller, found.identity.key) == ("areca 2", key(known, "sdc"))
    assert place(told("areca 2"), known).identity.key == "adapter host4"


def test_an_address_that_may_be_two_disks_is_none() -> None:
    """0:1:0 is drive 9 by the tool's count, 2 by the target: both pass through, so neither."""
    machine = topology(sd("sdb", "2:0:1:0"))
    both = areca(channel(2, "W2", usage="JBOD"), channel(9, "W9", usage="JBOD"))
    assert place(kernel("sdb"), DeviceMap(machine, controllers=(both,))).slot == ""
    units = topology(sd("sdb", "2:0:1:0"), sd("sda", "2:0:0:1"))
    found = place(kernel("sdb"), DeviceMap(units, controllers=(both,)))
    assert found.slot == "channel 9"  # a unit but 0 is in use, so that units count
    other = areca(channel(2, "W2", usage="JBOD", model="OTHER 1"))
    assert place(kernel("sdb"), DeviceMap(machine, controllers=(other,))).slot == ""


def test_a_volume_at_the_address_of_a_disk_is_no_disk() -> None:
    """The first volume is at 0:0:0, where channel 1 would be, which passes through elsewhere."""
    raid_set = ControllerArray(
        "raid set 1", OK, label="Raid Set # 00", slots=("channel 2", "channel 3")
    )
    volume = ControllerArray("volume 1", OK, label="data", parent="raid set 1", address="0:0:0")
    card = areca(channel(1, "W1", usage="JBOD"), channel(2), arrays=(raid_set, volume))
    known = DeviceMap(topology(sd("sda", "2:0:0:0", holders=("md0",))), controllers=(card,))
    found = place(kernel("sda"), known)
    assert (found.slot, found.controller) == ("", "areca 1")
    assert found.identity.object == "sda (ACME DISK-9, volume 1 (data) of areca 1)"
    assert found.identity.key == key(known, "sda")
    assert place(told("areca 1", "channel 1"), known).device == ""


def test_a_member_of_an_array_reports_what_stands_on_it() -> None:
    """Channel 2 hides in raid set 1: the mail names the volume and the file system on it."""
    raid_set = ControllerArray("raid set 1", OK, slots=("channel 1", "channel 2"))
    volume = ControllerArray("volume 1", OK, parent="raid set 1", address="0:0:0")
    card = areca(
        channel(1, "W1", array="raid set 1"),
        channel(2, "W2", array="raid set 1"),
        arrays=(raid_set, volume),
    )
    disk = dataclasses.replace(sd("sda", "2:0:0:0", "VOL1"), holders=("dm-0",))
    upper = dataclasses.replace(block_device("dm-0", leaf=False), dm_name="vg-data")
    machine = topology(disk, upper)
    covered = inventory.inventory(disks(read(1, "W1"), read(2, "W2")), machine)
    known = DeviceMap(machine, disks=covered, controllers=(card,))
    found = place(told("areca 1", "channel 2"), known)
    assert found.identity.key == covered["W2"].identity.key
    assert found.identity.object == "ACME DISK-9, serial W2, channel 2 of areca 1"
    arrays = ("array areca 1 raid set 1", "array areca 1 volume 1")
    assert found.volumes == (key(known, "sda"), *arrays)
    assert (found.device, found.disk) == ("", "W2")
    assert found.around == ("raid set 1 of areca 1", "sda", "vg-data")
    mount = Mount("253:0", "/dev/mapper/vg-data", "/", "/srv", "xfs", ("rw",), ("rw",))
    assert event_location.carried(found, known, [mount]) == (*found.around, "/srv")


def test_a_volume_of_one_disk_is_reported_with_it() -> None:
    """A raid0 of one disk: sdb is made of channel 4 alone."""
    raid_set = ControllerArray("raid set 2", OK, slots=("channel 4",))
    volume = ControllerArray("volume 2", OK, parent="raid set 2", address="0:0:1")
    card = areca(channel(4, "W4", array="raid set 2"), arrays=(raid_set, volume))
    known = DeviceMap(topology(sd("sdb", "2:0:0:1", "V2")), controllers=(card,))
    found = place(told("areca 1", "channel 4"), known)
    assert found.identity.object == "sdb (ACME DISK-9, serial W4, channel 4 of areca 1)"
    arrays = ("array areca 1 raid set 2", "array areca 1 volume 2")
    assert (found.device, found.volumes) == ("sdb", (key(known, "sdb"), *arrays))
    assert place(kernel("sdb"), known).identity.key == key(known, "sdb")


def test_a_disk_that_is_read_later_has_the_key_it_will_have_then() -> None:
    """Before its first reading a disk is named by its access method; its incident is not."""
    card = areca(channel(2, "W2"))
    later = inventory.inventory(disks(read(2, "W2")), topology())
    early = inventory.inventory(
        disks(read(2, "", drive=None, status=ReadStatus.NOT_POLLED_YET)), topology()
    )
    for covered in ({}, early, later):
        known = DeviceMap(topology(), disks=covered, controllers=(card,))
        found = place(told("areca 1", "channel 2"), known)
        assert (found.identity.key, found.disk) == (later["W2"].identity.key, "W2")


def test_a_jbod_disk_has_the_key_it_will_have_once_it_is_read() -> None:
    """As sdb it has another; alerts about sdb are joined by `volumes`."""
    machine = topology(sd("sdb", "2:0:1:0"))
    card = areca(channel(2, "W2", usage="JBOD"))
    later = inventory.inventory(disks(read(2, "W2")), machine)
    early = inventory.inventory(
        disks(read(2, "", drive=None, status=ReadStatus.NOT_POLLED_YET)), machine
    )
    for covered in (early, later):
        found = place(kernel("sdb"), DeviceMap(machine, disks=covered, controllers=(card,)))
        assert (found.identity.key, found.disk) == (later["W2"].identity.key, "W2")
    unasked = DeviceMap(machine, controllers=(card,))
    assert place(kernel("sdb"), unasked).identity.key == key(unasked, "sdb")


def test_where_a_serial_number_is_of_two_disks_the_slot_decides() -> None:
    """SMART reads one of them behind the controller, and one that is no disk of it."""
    machine = topology(sd("sda", "0:0:0:0", "W2"))
    clone = Disk(
        "W2 sda",
        PollResult(AccessMethod("/dev/sda", "sat", "sda", "host0"), ReadStatus.READ),
        "sda",
        (),
        "two",
    )
    clone = dataclasses.replace(clone, polled=dataclasses.replace(clone.polled, drive=drive("W2")))
    own = dataclasses.replace(read(2, "W2"), key="W2 areca,2", duplicate="two")
    covered = inventory.inventory(disks(clone, own), machine)
    known = DeviceMap(machine, disks=covered, controllers=(areca(channel(2, "W2")),))
    assert place(told("areca 1", "channel 2"), known).disk == "W2 areca,2"
    assert place(kernel("sda"), known).disk == "W2 sda"


def test_two_block_devices_that_report_one_serial_number_are_no_disk_in_a_slot() -> None:
    """Which of them it would be is unknown."""
    machine = topology(
        sd("sda", "0:0:0:0", "W2", model="FIRST"), sd("sdb", "1:0:0:0", "W2", model="OTHER")
    )
    known = DeviceMap(machine, controllers=(areca(channel(2, "W2")),))
    assert place(told("areca 1", "channel 2"), known).identity.key == f"disk {MODEL} W2"


def test_the_host_of_a_controller_is_that_at_which_smart_finds_its_disks() -> None:
    """The tool does not distinguish two of a vendor; smartctl's arguments were configured."""
    card = areca(channel(2, "W2"), host="")
    covered = inventory.inventory(disks(read(2, "W2"), read(3, "OTHER")), topology())
    known = DeviceMap(topology(), disks=covered, controllers=(card,))
    assert place(told("areca 1"), known).identity.key == "adapter host2"


def test_what_is_remembered_has_a_bound() -> None:
    """A program that lists another slot each time fills no memory."""
    slots: Mapping[str, SlotContent] = {
        f"areca 1 channel {n}": SlotContent(f"S{n}") for n in range(9999)
    }
    slots = remember(slots, (areca(channel(2, "NEW"), channel(10_001, "MORE")),))
    assert len(slots) == event_location.MAX_SLOTS
    assert slots["areca 1 channel 10001"].serial == "MORE"


def test_a_controller_that_reports_no_serial_numbers_is_helped_by_smart() -> None:
    """The host and the slot are those at which smartctl found the disk."""
    covered = inventory.inventory(disks(read(2, "W2"), read(3, "W3")), topology())
    known = DeviceMap(topology(), disks=covered, controllers=(areca(channel(2)),))
    found = place(told("areca 1", "channel 2"), known)
    assert (found.identity.key, found.disk) == (covered["W2"].identity.key, "W2")
    assert found.identity.object == "ACME DISK-9, serial W2, channel 2 of areca 1"


def test_a_slot_of_which_nothing_is_known_is_its_own_place() -> None:
    """The log was read, the list of disks was not."""
    found = place(told("areca 1", "enclosure 2 slot 7"), DeviceMap())
    assert found.identity.key == "disk areca 1 enclosure 2 slot 7"
    assert found.identity.object == "enclosure 2 slot 7 of areca 1"
    assert found.identity.adapter == "areca 1"
    assert (found.controller, found.slot, found.disk) == ("areca 1", "enclosure 2 slot 7", "")


def test_a_disk_that_failed_and_is_listed_no_more_is_still_known() -> None:
    """The contents of the slot are stored, over a restart as well, until another disk is there."""
    slots = remember({}, (areca(channel(2, "W2", array="raid set 1"), channel(3, "W3")),))
    failed = channel(2, state=FAILED, model="", usage="Failed")
    slots = remember(slots, (areca(failed, channel(3, "W3")),))
    slots = remember(slots, (areca(channel(3, "W3")),))
    assert slots["areca 1 channel 2"] == SlotContent("W2", MODEL, "raid set 1")
    texts = persisted_state.documents(
        persisted_state.PersistedState(correlation=CorrelationState(slots=dict(slots)))
    )
    slots = persisted_state.read(texts, 0.0)[0].correlation.slots
    known = DeviceMap(topology(), controllers=(areca(channel(3, "W3")),), slots=slots)
    found = place(told("areca 1", "channel 2"), known)
    assert found.identity.key == f"disk {MODEL} W2"
    slots = remember(slots, (areca(channel(2, "NEW"), channel(3, "W3")),))
    assert slots["areca 1 channel 2"] == SlotContent("NEW", MODEL)


def test_nothing_new_is_the_same_object() -> None:
    """The state is written only when it changed."""
    machine = topology(sd("sda", "2:0:0:0", "S1", port="ata3"))
    slots = remember({}, (areca(channel(2, "W2")),), machine)
    assert remember(slots, (areca(channel(2, "W2")),), machine) is slots
    assert remember(slots, ()) is slots
    assert remember(slots, (areca(channel(2, "W3")),)) is not slots


def test_a_disk_that_was_moved_is_not_blamed_for_its_old_slot() -> None:
    """W2 was put into channel 5: what happens at channel 2 is not its matter."""
    slots = remember({}, (areca(channel(2, "W2")),))
    card = areca(channel(5, "W2"))
    slots = remember(slots, (card,))
    known = DeviceMap(controllers=(card,), slots=slots)
    found = place(told("areca 1", "channel 2"), known)
    assert found.identity.key == "disk areca 1 channel 2"


def test_the_same_slot_of_two_controllers_is_two_disks() -> None:
    """Two ARC-1210 with a channel 2 each."""
    first, second = areca(channel(2, "A"), host=""), areca(channel(2, "B"), host="")
    second = dataclasses.replace(second, name="areca 2")
    known = DeviceMap(topology(), controllers=(first, second))
    found = [place(told(name, "channel 2"), known) for name in ("areca 1", "areca 2")]
    assert [f.identity.key for f in found] == [f"disk {MODEL} A", f"disk {MODEL} B"]
    assert [f.identity.adapter for f in found] == ["areca 1", "areca 2"]


def test_disks_that_all_report_one_serial_number_are_distinguished_by_slot() -> None:
    """A vendor gave both the same: neither is taken for the other."""
    card = areca(channel(1, "0000"), channel(2, "0000"))
    covered = inventory.inventory(
        disks(
            dataclasses.replace(read(1, "0000"), key="0000 areca,1", duplicate="another says so"),
            dataclasses.replace(read(2, "0000"), key="0000 areca,2", duplicate="another says so"),
        ),
        topology(),
    )
    known = DeviceMap(topology(), controllers=(card,))
    first, second = (place(told("areca 1", f"channel {n}"), known) for n in (1, 2))
    assert first.identity.key != second.identity.key
    known = DeviceMap(topology(), disks=covered, controllers=(card,))
    assert [place(told("areca 1", f"channel {n}"), known).disk for n in (1, 2)] == [
        "0000 areca,1",
        "0000 areca,2",
    ]


def test_in_the_recorded_case_the_log_of_the_controller_and_the_kernels_are_one_disk() -> None:
    """An ARC-1210 with all disks JBOD: 'IDE Channel #02 Reading Error', and sdb's medium errors."""
    log = corpus("reference/areca-cli-event-info-1.txt").read_text()
    lines = corpus("reference/kernel-2.6-medium-error.log").read_text()
    errors = [e for e in event_info.parse_events(log, "areca 1").events if e.place]
    state, seen = Classifier(), []
    for line in parse_text(lines):
        state, more = classify(state, line)
        seen += more
    card = areca(*(channel(n, f"W{n}", usage="JBOD") for n in (1, 2, 3, 4)), host="host0")
    machine = topology(*(sd(f"sd{c}", f"0:0:{n}:0") for n, c in enumerate("abcd")))
    known = DeviceMap(machine, controllers=(card,))
    found = {place(event, known) for event in (*errors, *finish(state), *seen)}
    assert len(errors) == 5
    assert len(seen) > 5
    assert [(p.device, p.slot, p.disk) for p in found] == [("sdb", "channel 2", "W2")]


# Arrays of controllers


def test_an_event_of_an_array_is_that_of_the_block_device_made_of_it() -> None:
    """RaidSet Degraded, by the name a person gave it, with blanks; alerts of sda join it."""
    raid_set = ControllerArray("raid set 1", OK, label="my data", slots=("channel 1",))
    volume = ControllerArray("volume 1", OK, label="my data", parent="raid set 1", address="0:0:0")
    card = areca(channel(1, "W1"), channel(2), arrays=(raid_set, volume))
    known = DeviceMap(topology(sd("sda", "2:0:0:0", "VOL")), controllers=(card,))
    degraded = place(told("areca 1", "my data", "areca_raidset_degraded"), known)
    assert degraded.identity.key == key(known, "sda")
    assert degraded.identity.object == (
        "sda (ACME DISK-9, serial VOL, raid set 1 (my data) of areca 1)"
    )
    failed = place(told("areca 1", "my data", "areca_volume_failed"), known)
    assert "volume 1" in failed.identity.object
    assert (failed.device, failed.volumes) == ("sda", (key(known, "sda"),))


def test_a_raid_set_of_two_volumes_is_none_of_them() -> None:
    """It is its own place, with both volumes; nothing is known of one that is not listed."""
    arrays = (
        ControllerArray("raid set 1", OK, label="Raid Set # 00"),
        ControllerArray("volume 1", OK, parent="raid set 1", address="0:0:0"),
        ControllerArray("volume 2", OK, parent="raid set 1", address="0:0:1"),
    )
    machine = topology(sd("sda", "2:0:0:0", "V1"), sd("sdb", "2:0:0:1", "V2"))
    known = DeviceMap(machine, controllers=(areca(arrays=arrays),))
    found = place(told("areca 1", "Raid Set # 00", "areca_raidset_degraded"), known)
    assert found.identity.key == "array areca 1 raid set 1"
    assert found.identity.adapter == "host2"
    assert found.volumes == (key(known, "sda"), key(known, "sdb"))
    assert found.around == ("sda", "sdb")
    unlisted = place(told("areca 1", "backup", "areca_volume_degraded"), DeviceMap())
    assert unlisted.identity.key == "array areca 1 backup"
    assert unlisted.identity.object == "backup of areca 1"


def escalade(*disks: PhysicalDisk, **fields: Any) -> Controller:  # noqa: ANN401 - as Controller takes them
    """A 3ware controller."""
    return Controller(
        **{"name": "c0", "vendor": "3ware", "host": "host6", "disks": disks, **fields}
    )


def port(number: int, serial: str, array: str = "u0") -> PhysicalDisk:
    """A disk at a port of a 3ware controller."""
    return PhysicalDisk(
        f"port {number}", OK, serial=serial, array=array, kind=f"3ware,{number}", model=MODEL
    )


def test_a_unit_of_a_3ware_is_found_by_its_serial_number_else_its_target() -> None:
    """Some firmware counts units as logical units: the serial number is what both have."""
    arrays = (
        ControllerArray("u0", OK, address="0:0:0", serial="U0", slots=("port 1",)),
        ControllerArray("u1", OK, address="0:1:0", slots=("port 2",)),
        ControllerArray("u2", OK, address="0:2:0", serial="U2"),
    )
    machine = topology(
        sd("sda", "6:0:0:5", "U0"), sd("sdb", "6:0:1:0"), sd("sdc", "6:0:2:0", "OTHER")
    )
    known = DeviceMap(machine, controllers=(escalade(port(1, "P1"), arrays=arrays),))
    units = [place(told("c0", f"unit {n}", "3ware_degraded_unit"), known) for n in range(4)]
    assert [found.device for found in units] == ["sda", "sdb", "", ""]
    assert [found.identity.key for found in units[2:]] == ["array c0 u2", "array c0 u3"]
    assert place(told("c0", "port 1"), known).volumes == (key(known, "sda"), "array c0 u0")


def test_the_alarm_and_the_kernels_line_of_a_port_are_one_disk() -> None:
    """tw_cli reports 'port=3', the driver of scsi6 'unit=0, port=3'; newer cards list slots."""
    slot = dataclasses.replace(port(3, "P3"), slot="enclosure 0 slot 2")
    for disk in (port(3, "P3"), slot):
        known = DeviceMap(topology(), controllers=(escalade(disk),))
        alarm = place(told("c0", "port 3", "3ware_drive_timeout_detected"), known)
        line = place(kernel(controller="host6", place="unit 0 port 3"), known)
        assert alarm == line
        assert (alarm.slot, alarm.identity.key) == (disk.slot, f"disk {MODEL} P3")


def test_two_controllers_of_a_maker_are_distinguished_by_serial_numbers_of_units() -> None:
    """The host of c1 is not reported; the volume that the kernel lists has the unit's number."""
    first = escalade(port(1, "A"), host="", arrays=(ControllerArray("u0", OK, serial="U0"),))
    second = escalade(
        port(1, "B"), name="c1", host="", arrays=(ControllerArray("u0", OK, serial="U9"),)
    )
    machine = topology(sd("sda", "6:0:0:0", "U0"), sd("sdb", "7:0:0:0", "U9"))
    known = DeviceMap(machine, controllers=(first, second))
    assert place(told("c1"), known).identity.key == "adapter host7"
    assert place(kernel(controller="host7", place="port 1"), known).disk == "B"
    assert place(kernel(controller="host8", place="port 1"), known).identity.key == (
        "disk host8 port 1"
    )


def test_a_battery_is_the_adapters_matter() -> None:
    """A place that is no disk and no array is a part of the controller."""
    battery = Battery("bbu", ComponentState(ComponentHealth.FAILED, "Fault"), ready=False)
    known = DeviceMap(controllers=(escalade(batteries=(battery,)),))
    assert place(told("c0", "bbu", "3ware_battery_is_weak"), known).identity.key == "adapter host6"


def test_a_slot_or_an_array_of_an_alert_is_found_like_that_of_an_event() -> None:
    """Alerts about the state of a controller name the same things by labels."""
    card = areca(channel(2, "W2"), arrays=(ControllerArray("raid set 1", OK),))
    known = DeviceMap(topology(), controllers=(card,))
    for where in ("channel 2", "raid set 1", ""):
        assert event_location.at_controller("areca 1", where, known) == place(
            told("areca 1", where), known
        )


@pytest.mark.parametrize(
    "slot", ["channel 0 device 3", "port 1I box 2 bay 3", "slot 3", "phy 1", "device 8"]
)
def test_slots_of_all_makers_are_known_as_slots(slot: str) -> None:
    """Also before anything is listed."""
    assert place(told("c0", slot), DeviceMap()).identity.key == f"disk c0 {slot}"


def test_slots_are_called_as_the_list_of_members_calls_them() -> None:
    """smartctl's targets and the locations of events use the same names."""
    output = (
        "VPort Status Unit Size Type Phy Encl-Slot Model\n"
        "p3 OK u0 1.00 TB SATA 3 /c0/e0/slt2 ACME DISK-9\n"
    )
    (member,) = members.parse_threeware_disks(output)
    known = DeviceMap(controllers=(escalade(dataclasses.replace(port(3, "P3"), slot=member.slot)),))
    assert place(told("c0", "enclosure 0 slot 2"), known).disk == "P3"
    assert place(kernel(controller="host6", place="encl 0 slot 2"), known).disk == "P3"


WORDS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["sda", "sdb1", "ata1", "ata1.00", "nvme0", "2:0:1:0", "8:0", "channel 2", "unit 0", "md0"]
    ),
)


@given(st.sampled_from(["kernel", "md", "areca", "3ware"]), WORDS, WORDS, WORDS, WORDS)
def test_no_event_is_too_odd_for_a_place(
    source: str, kind: str, device: str, controller: str, where: str
) -> None:
    """Any event has a location; without other data it is its own text."""
    event = StorageEvent(source, kind, "", device=device, controller=controller, place=where)
    card = areca(channel(2, "W2"), arrays=(ControllerArray("raid set 1", OK, label=where),))
    machine = topology(sd("sda", "2:0:1:0", "W2", port="ata1"))
    for known in (DeviceMap(), _full(card, machine)):
        found: EventPlace = place(event, known)
        assert isinstance(found.identity.key, str)


def _full(card: Controller, machine: Any) -> DeviceMap:  # noqa: ANN401 - a topology
    slots: Mapping[str, SlotContent] = remember({}, (card,), machine)
    return DeviceMap(
        machine, Devices(), inventory.inventory(disks(read(2, "W2")), machine), (card,), slots
    )


@pytest.mark.parametrize("device", ["sdg", "sdg1", "1:0:6:0"])
def test_an_error_of_an_earlier_boot_is_of_the_disk_that_had_the_name_then(device: str) -> None:
    """The kernel gives names in the order in which disks answer: sdg may be another one now."""
    then = topology(sd("sdg", "1:0:6:0", "S-SICK"), sd("sdf", "1:0:5:0", "S-WELL"))
    other = sd("sdg", "1:0:6:0", "S-WELL", partitions=("sdg1",))
    now = topology(sd("sdf", "1:0:5:0", "S-SICK"), other)
    names = {name: device_identity.identity(then, name) for name in then.devices}
    known = DeviceMap(topology=now, boot_id="this", before=names)
    well, sick = (device_identity.identity(now, name).key for name in ("sdg", "sdf"))
    assert place(kernel(device, boot_id="this"), known).identity.key == well
    earlier = place(kernel(device, boot_id="that"), known)
    assert earlier.identity.key == ("device 1:0:6:0" if device == "1:0:6:0" else sick)
    assert earlier.device in ("sdf", "")
    gone = dataclasses.replace(known, topology=topology(other))
    assert place(kernel(device, boot_id="that"), gone).identity.key == earlier.identity.key


@pytest.mark.parametrize(("at", "name"), [(29.0, "sdc"), (29.0, "sdc1"), (31.0, "sdc")])
def test_what_a_file_system_reports_after_its_disk_vanished_is_not_about_the_next_disk(
    at: float, name: str
) -> None:
    """sdc was pulled out and another one plugged in: what was mounted of the first one fails on."""
    pulled = topology(sd("sdc", "0:0:2:0", "COLD", partitions=("sdc1",)))
    other = topology(sd("sdc", "0:0:2:0", "FRESH", partitions=("sdc1",)))
    mount = Mount("8:33", "/dev/sdc1", "/", "/mnt/cold", "ext4", ("rw",), ("rw",))
    state = device_changes.next_devices(Devices(), (), pulled, 0.0)
    for now, before, after in ((20.0, pulled, topology()), (30.0, topology(), other)):
        state = device_changes.next_devices(
            state, device_changes.changes(before, after, (mount,)), after, now
        )
    known = DeviceMap(topology=other, devices=state, ahead_seconds=1e9)
    found = place(kernel(name, realtime_seconds=1e9 + at), known)
    assert ("COLD" in found.identity.key) == (at < 30.0)
    assert found.around == (("/mnt/cold",) if at < 30.0 else ())
    assert found.device == ("" if at < 30.0 else "sdc")


def test_an_adapter_is_its_host_by_whatever_name_its_driver_gives_it() -> None:
    """Eight disks of host6 hang and 'mpt3sas_cm0' reports why: one object, not two incidents."""
    names = {
        "mpt3sas_cm0": "host6",
        "0000:03:00.0": "host6",
        "0000:04:00.0": "host7",
        "megaraid_sas": "host7",
        "ahci": "",
    }
    known = DeviceMap(topology(sd("sdb", "6:0:1:0", "S2")), hosts=names)

    def at(controller: str) -> tuple[str, str]:
        own = place(kernel(controller=controller), known).identity
        return own.key, own.object

    six = "host6 (SCSI host adapter, mpt3sas_cm0)"
    assert at("mpt3sas_cm0") == ("adapter host6", six)
    assert at("host6") == ("adapter host6", "host6 (SCSI host adapter)")
    assert at("0000:04:00.0")[0] == at("megaraid_sas")[0] == "adapter host7"
    assert at("0000:04:00.0")[1] == "host7 (SCSI host adapter, megaraid_sas 0000:04:00.0)"
    assert at("qla2xxx [0000:03:00.0]-8006:6")[0] == "adapter host6"
    assert at("ahci") == ("adapter ahci", "ahci (controller)")
    assert at("mpt3sas_cm1") == ("adapter mpt3sas_cm1", "mpt3sas_cm1 (controller)")


@pytest.mark.parametrize(
    ("text", "hosts", "expected"),
    [
        ("Reset successful for scsi5.", {}, "adapter host5"),
        ("Controller is not OPERATIONAL,SCSI host:5", {}, "adapter host5"),
        ("FW in FAULT state!!", {"megaraid_sas": "host7"}, "adapter host7"),
        (
            "FW in FAULT state!!",
            {"megaraid_sas": "host7", "0000:04:00.0": "host7"},
            "adapter 0000:03:00.0",
        ),
        ("FW in FAULT state!!", {"megaraid_sas": ""}, "adapter 0000:03:00.0"),
    ],
)
def test_an_adapter_whose_address_is_not_known_is_its_host_by_what_the_line_says(
    text: str, hosts: dict[str, str], expected: str
) -> None:
    """The host that it names, else the only one of its driver, unless that has another address."""
    (line,) = parse_text(f"megaraid_sas 0000:03:00.0: {text}")
    _, (event,) = classify(Classifier(), line)
    assert place(event, DeviceMap(topology(), hosts=hosts)).identity.key == expected


def test_a_remote_port_and_a_session_are_of_their_host() -> None:
    """Fibre Channel names the host in its port, iSCSI the session in its connection."""
    known = DeviceMap(topology(), hosts={"session7": "host9"})

    def at(text: str) -> str:
        (line,) = parse_text(text)
        _, (event,) = classify(Classifier(), line)
        return place(event, known).identity.key

    lost = "blocked FC remote port time out: removing target and saving binding"
    assert at(f"rport-2:0-1: {lost}") == "adapter host2"
    assert at(" connection7:0: detected conn error (1020)") == "adapter host9"
    assert at(" session7: session recovery timed out after 120 secs") == "adapter host9"
    assert at(" session8: session recovery timed out after 120 secs") == "adapter session8"


def test_a_line_of_the_kernels_log_joins_the_host_that_its_driver_means() -> None:
    """From the text of a line to the key of what eight hanging disks have in common."""
    (line,) = parse_text("mpt3sas_cm0: SAS host is non-operational !!!!")
    _, events = classify(Classifier(), line)
    (event,) = events
    known = DeviceMap(topology(), hosts={"mpt3sas_cm0": "host6"})
    assert place(event, known).identity.key == "adapter host6"
