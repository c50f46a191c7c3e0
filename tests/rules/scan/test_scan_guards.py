"""Which disks may be scanned, and when: a scan must not break an array."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from iowarden.collectors.block.block_devices import Device, Md, topology
from iowarden.collectors.block.hwmon import Temperature
from iowarden.collectors.block.udev import BlockSignature
from iowarden.collectors.filesystem.mountinfo import Mounts, parse_mountinfo
from iowarden.collectors.md.mdstat import ArrayMember, MdArray
from iowarden.collectors.smart.drive import (
    AccessMethod,
    Disk,
    Disks,
    Drive,
    PollResult,
    Protocol,
    ReadStatus,
)
from iowarden.rules import calendar
from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.scan import guards, schedule
from iowarden.rules.scan.guards import ScanDisk, scan_disks
from iowarden.rules.scan.plan import SEGMENTS, Scan, begun
from iowarden.rules.selftest_schedule import ScheduleGroup
from iowarden.rules.snapshot import Snapshot

TB = 10**12
MOUNTED = "36 1 8:1 / /srv rw shared:1 - ext4 /dev/sda1 rw\n"


def device(name: str, **changes: object) -> Device:
    """A SATA disk with one partition at its own port."""
    number = ord(name[-1]) - ord("a")
    return replace(
        Device(
            name=name,
            device_number=f"8:{16 * number}",
            slaves=(),
            holders=(),
            partitions=(f"{name}1",),
            leaf=True,
            size_bytes=TB,
            rotational=True,
            model="HDD",
            vendor="ACME",
            serial=f"S{name}",
            wwn=None,
            timeout_seconds=30.0,
            host=f"host{number}",
            dm_name=None,
            md=None,
        ),
        **changes,
    )


def drive(**changes: object) -> Drive:
    """A drive with error recovery control."""
    return replace(
        Drive(Protocol.ATA, rotation_rpm=7200, temperature_celsius=30.0, read_recovery_seconds=7.0),
        **changes,
    )


def disk(name: str = "sda", status: ReadStatus = ReadStatus.READ, **changes: object) -> Disk:
    """A polled disk."""
    target = AccessMethod(f"/dev/{name}", device=name)
    polled = PollResult(target, status, tried_seconds=0.0, drive=drive(**changes))
    return Disk(f"S{name}", polled, device=name)


def machine(*devices: Device, mounts: str = MOUNTED, **values: object) -> Snapshot:
    """A machine with these disks, the first one mounted."""
    found = topology({each.name: each for each in devices}, {"8:1": "sda1"})
    disks = {f"S{each.name}": disk(each.name) for each in devices if each.leaf}
    known: dict[str, Any] = {
        "block": found,
        "smart": Disks(disks),
        "mounts": Mounts(tuple(parse_mountinfo(mounts)), None),
        **values,
    }
    return Snapshot(**known)


def only(last: Snapshot, *alerts: Alert, self_tests: frozenset[str] = frozenset()) -> ScanDisk:
    """Disk sda."""
    return next(each for each in scan_disks(last, alerts, self_tests) if each.disk == "Ssda")


def test_a_disk_with_error_recovery_control_may_be_scanned_in_use() -> None:
    """It gives a bad sector up after 7 s; the kernel waits for 30."""
    found = only(machine(device("sda")))
    assert (found.refused, found.hold) == ("", "")
    assert (found.number, found.serial, found.size_bytes) == ("8:0", "Ssda", TB)
    assert found.shares == {"adapter host0"}
    assert found.rests


@pytest.mark.parametrize("limit", [None, 12.0])
def test_a_disk_in_use_without_it_is_refused_with_the_command_that_sets_it(
    limit: float | None,
) -> None:
    """Two minutes over one sector: the kernel resets the adapter after 30 s."""
    disks = Disks({"Ssda": disk(read_recovery_seconds=limit)})
    last = machine(device("sda"), smart=disks)
    got = "no limit" if limit is None else "12 s"
    assert only(last).refused == (
        "disk Ssda (sda): expected that the drive gives a bad sector up within 7 s, or that the"
        f" kernel waits 3 min, got {got} and 30 s: the kernel would reset the drive and its"
        " adapter, with /srv on it. Set it (until the next boot): smartctl -l scterc,70,70"
        " /dev/sda; if the drive refuses that: echo 180 > /sys/block/sda/device/timeout"
    )
    assert only(replace(last, mounts=Mounts((), None))).refused == ""  # nothing stands on it
    patient = machine(device("sda", timeout_seconds=180.0), smart=disks)
    assert only(patient).refused == ""


def test_no_disk_is_scanned_while_it_is_not_known_what_is_mounted() -> None:
    """Unknown is not unused."""
    last = machine(device("sda"), smart=Disks({"Ssda": disk(read_recovery_seconds=None)}))
    (found,) = scan_disks(replace(last, mounts=None), (), ())
    assert found.hold == "it is not known yet what is mounted"


def test_of_an_nvme_drive_the_timeout_is_set_in_milliseconds() -> None:
    """It has no SCT error recovery control."""
    nvme = device("nvme0n1", device_number="259:0", partitions=("nvme0n1p1",), host=None)
    found = topology({"nvme0n1": nvme}, {"8:1": "nvme0n1p1"})
    known = replace(disk("nvme0n1", read_recovery_seconds=None), key="Ssda")
    last = replace(machine(device("sda")), block=found, smart=Disks({"Ssda": known}))
    assert only(last).refused.endswith(
        "with /srv on it. Set it (until the next boot): echo 180000 >"
        " /sys/block/nvme0n1/queue/io_timeout"
    )


@pytest.mark.parametrize(
    ("changes", "status", "text"),
    [
        ({"leaf": False}, ReadStatus.READ, "expected a physical disk, got a virtual disk"),
        (
            {"leaf": False, "slaves": ("nvme0c0n1",)},
            ReadStatus.READ,
            "got an NVMe drive that supports several paths",
        ),
        ({"removable": True}, ReadStatus.READ, "got a virtual disk or removable medium"),
        ({}, ReadStatus.NO_SMART, "got a virtual disk or removable medium"),
        ({}, ReadStatus.LUN, "got a LUN"),
        ({"serial": None}, ReadStatus.READ, "expected its serial number and size"),
    ],
)
def test_what_is_no_physical_disk_is_refused(
    changes: dict[str, Any], status: ReadStatus, text: str
) -> None:
    """A hypervisor or storage array reads its own disks; without an identity none is safe."""
    last = machine(device("sda", **changes), smart=Disks({"Ssda": disk(status=status)}))
    assert text in only(last).refused


def test_a_path_of_a_multipath_map_is_refused() -> None:
    """What is below belongs to another machine."""
    path = device("sda", holders=("dm-0",))
    above = device("dm-a", leaf=False, slaves=("sda",), dm_uuid="mpath-3600", device_number="253:0")
    last = machine(path, replace(above, name="dm-0"), smart=Disks({"Ssda": disk()}))
    assert "got a path of a multipath device" in only(last).refused


def test_disks_behind_a_raid_controller_are_left_to_it() -> None:
    """Whether the controller hides the disks, or the device is its volume."""
    last = machine(device("sda"), smart=Disks({"Ssda": disk()}, volumes=("sda",)))
    assert "got one behind a RAID controller: start its verify" in only(last).refused
    hidden = replace(disk(), device="")
    assert "behind a RAID controller" in only(replace(last, smart=Disks({"Ssda": hidden}))).refused


def test_a_schedule_for_all_disks_does_not_mean_what_something_else_reads() -> None:
    """A virtual disk and a member of an array are refused only where they are named."""
    every = ScheduleGroup(("*", "rotational"), {"start": calendar.parse("daily")})
    named = ScheduleGroup(("Ssda",), {"start": calendar.parse("daily")})
    virtual = only(machine(device("sda", leaf=False), smart=Disks({"Ssda": disk()})))
    assert schedule.group_of((every,), virtual) is None
    assert schedule.group_of((every, named), virtual) is named
    unlimited = Disks({"Ssda": disk(read_recovery_seconds=None)})
    refused = only(machine(device("sda"), smart=unlimited))
    assert refused.refused
    assert schedule.group_of((every,), refused) is every


def test_members_of_md_zfs_and_btrfs_are_left_to_their_check_or_scrub() -> None:
    """Each with its command; raid0 has no check, so its members may be scanned."""
    member = device("sda", holders=("md0",), uses=(("sda1", "md0"),))
    array = device("md0", leaf=False, slaves=("sda",), md=Md("raid1", 2, 0, 2, None), host=None)
    smart = Disks({"Ssda": disk()})
    last = machine(member, array, smart=smart, mounts="")
    assert only(last).refused == (
        "disk Ssda (sda): it is in md array md0, whose check reads it: echo check >"
        " /sys/block/md0/md/sync_action"
    )
    striped = replace(array, md=Md("raid0", 2, 0, None, 65536))
    assert only(machine(member, striped, smart=smart, mounts="")).refused == ""
    for kind, group, text in (
        ("zfs_member", "tank", "sda1 belongs to ZFS, which reads it itself: zpool scrub tank"),
        ("btrfs", "", "sda1 belongs to btrfs, which reads it itself: btrfs scrub start"),
        ("linux_raid_member", "", "sda1 belongs to md, which reads it itself"),
    ):
        signed = machine(device("sda"), smart=smart, mounts="")
        assert signed.block is not None
        block = replace(signed.block, signatures={"sda1": BlockSignature(kind, group)})
        assert text in only(replace(signed, block=block)).refused


def alert(name: str, state: AlertState = AlertState.FIRING, **labels: str) -> Alert:
    """An alert of a rule."""
    found = tuple(sorted({"alertname": name, **labels}.items()))
    return Alert(name, found, state, 1.0, (), 0.0, 0.0)


@pytest.mark.parametrize(
    ("alerts", "hold"),
    [
        ((alert("WriteStall", severity="warning"),), "WriteStall fires: the host stalls"),
        (
            (alert("DeviceHang", device="sdq", severity="critical"),),
            "DeviceHang fires: the host stalls",
        ),
        ((alert("Freeze", device="sdq", severity="warning"),), "Freeze fires: the host stalls"),
        ((alert("Freeze", device="sdq", severity="notice"),), ""),
        ((alert("DiskSlow", disk="Ssda"),), "DiskSlow fires for it"),
        ((alert("DiskSlow", disk="Ssdb"),), ""),
        ((alert("WriteStall", AlertState.PENDING),), ""),
    ],
)
def test_a_host_that_stalls_and_a_slow_disk_are_left_alone(
    alerts: tuple[Alert, ...], hold: str
) -> None:
    """Until these alerts are over."""
    assert only(machine(device("sda")), *alerts).hold == hold


def test_a_self_test_sleep_and_heat_postpone_a_scan() -> None:
    """The drive's own sensor is read more often by the kernel: the higher value counts."""
    last = machine(device("sda"))

    def hold(known: Disk, **values: object) -> str:
        return only(replace(last, smart=Disks({"Ssda": known}), **values)).hold

    assert "self-test runs" in hold(disk(self_test_remaining_ratio=0.9))
    assert "self-test runs" in only(last, self_tests=frozenset({"Ssda"})).hold
    assert "asleep" in hold(disk(status=ReadStatus.ASLEEP))
    assert "hangs" in hold(disk(status=ReadStatus.HUNG))
    assert hold(disk(temperature_celsius=54.0)) == ""
    assert hold(disk(temperature_celsius=56.0)) == "it has 56 C, too near to its limit"
    warm = disk(temperature_celsius=40.0, temperature_limit_celsius=60.0)
    assert hold(warm) == ""
    sensor = Temperature("drivetemp", "temp1", "hwmon1", "", "sda", 55.0, None, None)
    assert hold(warm, hwmon=(sensor,)) == "it has 55 C, too near to its limit"
    assert hold(warm, hwmon=(replace(sensor, device="sdb"),)) == ""


@pytest.mark.parametrize(
    ("host", "degraded", "action", "hold"),
    [
        ("host0", 1, "idle", "md array md0 at the same adapter is degraded"),
        ("host0", 0, "recover", "md array md0 at the same adapter is in recover"),
        ("host0", 0, "check", "md array md0 at the same adapter is in check"),
        ("host0", 0, "idle", ""),
        ("host1", 1, "idle", ""),
    ],
)
def test_an_adapter_with_a_weak_array_is_not_put_at_risk(
    host: str, degraded: int, action: str, hold: str
) -> None:
    """A bad sector of this disk may reset the adapter, and md loses another member."""
    array = MdArray(
        "md0", "raid1", "clean", 2, degraded, action, None, None, 0, None, TB,
        (ArrayMember("sdb1", 0, ("in_sync",)),),
    )  # fmt: skip
    member = device("sdb", host=host)
    smart = Disks({"Ssda": disk()})
    assert only(machine(device("sda"), member, md={"md0": array}, smart=smart)).hold == hold


@pytest.mark.parametrize(
    ("host", "state", "hold"),
    [
        ("host0", "DEGRADED", "ZFS pool tank at the same adapter is DEGRADED"),
        ("host0", "ONLINE", ""),
        ("host0", "", ""),
        ("host1", "DEGRADED", ""),
    ],
)
def test_an_adapter_with_a_degraded_pool_is_not_put_at_risk(
    host: str, state: str, hold: str
) -> None:
    """ZFS takes the members that a reset made fail out of the pool, as md does."""
    member = device("sdb", host=host)
    last = machine(device("sda"), member, smart=Disks({"Ssda": disk()}))
    assert last.block is not None
    signatures = {"sdb1": BlockSignature("zfs_member", "tank")}
    block = replace(last.block, signatures=signatures, pools={"tank": state})
    assert only(replace(last, block=block)).hold == hold


def test_at_an_adapter_one_disk_is_scanned_at_a_time() -> None:
    """The scan that runs longest goes on; when it waits, the next one does."""
    disks = [
        ScanDisk(name, name, "8:0", "", name, TB, rotational=False, shares=frozenset({share}))
        for name, share in (("A", "adapter host0"), ("B", "adapter host0"), ("C", "adapter host1"))
    ]
    scans = {name: begun(None, TB, float(at), "") for at, name in enumerate("BAC")}
    waits = {turn.disk.disk: turn.waits for turn in schedule.turns(disks, scans, 10.0)}
    assert waits == {"B": "", "A": "disk B of adapter host0 is being scanned", "C": ""}
    disks[1] = replace(disks[1], hold="it is asleep")
    waits = {turn.disk.disk: turn.waits for turn in schedule.turns(disks, scans, 10.0)}
    assert waits == {"B": "it is asleep", "A": "", "C": ""}


def test_of_many_adapters_eight_disks_are_scanned_at_a_time() -> None:
    """The probe has other work, too."""
    disks = [
        ScanDisk(name, name, "8:0", "", name, TB, rotational=False, shares=frozenset({name}))
        for name in "ABCDEFGHIJ"
    ]
    scans = {disk.disk: begun(None, TB, 0.0, "") for disk in disks}
    waits = [turn.waits for turn in schedule.turns(disks, scans, 10.0)]
    assert waits == [""] * 8 + ["8 other disks are being scanned"] * 2


def test_a_disk_that_may_have_shingled_tracks_rests_for_half_an_hour_after_two() -> None:
    """SAS disks and solid-state ones do not."""
    own = ScanDisk("A", "sda", "8:0", "", "A", TB, rotational=True, rests=True)
    scans = {"A": begun(None, TB, 0.0, "")}
    waits = [schedule.turns([own], scans, 1800.0 * each)[0].waits for each in range(6)]
    assert waits == [""] * 4 + ["the disk rests for half an hour"] + [""]
    assert schedule.turns([replace(own, rests=False)], scans, 7300.0)[0].waits == ""


def test_the_names_of_alerts_are_those_of_shipped_rules() -> None:
    """A renamed alert would no longer stop a scan."""
    stalls = {n for n, m in guards.faults.RULES.items() if m.fault in guards._STALLS}
    assert {"DeviceHang", "WriteStall", "ReclaimStall"} <= stalls
    assert len(Scan(0.0).zones) in (0, SEGMENTS)
