"""Whether a member may be taken out of its array, and what a device is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.everything import ARRAYS, array, devices, everything
from support.machine import disk, topology

from iowarden.collectors.block import block_devices
from iowarden.collectors.filesystem.mountinfo import parse_mountinfo
from iowarden.rules.advice import facts
from iowarden.rules.advice.advice import filled
from iowarden.rules.advice.facts import AdviceInputs, DeviceKind, Facts
from iowarden.rules.advice.step import AdviceSubject
from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.signals.device import hang_thresholds
from iowarden.rules.signals.guards import MEANINGS, Guard
from iowarden.rules.topology.slot_map import DeviceMap


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sda", DeviceKind.ATA),
        ("sda1", DeviceKind.ATA),
        ("sdc", DeviceKind.SCSI),
        ("sdk", DeviceKind.PATH),
        ("sdm", DeviceKind.VOLUME),
        ("vda", DeviceKind.VIRTUAL),
        ("nvme0n1", DeviceKind.NVME),
        ("md0", DeviceKind.MD),
        ("/dev/mapper/mpatha", DeviceKind.MAP),
        ("dm-1", DeviceKind.LV),
        ("mapper/secret", DeviceKind.CRYPT),
        ("loop0", DeviceKind.LOOP),
    ],
)
def test_a_device_is_what_the_kernel_reports(name: str, kind: DeviceKind) -> None:
    """By transport, by the creator of a mapped device, by the controller of a volume."""
    known = everything()
    device = known.device(name)
    assert device is not None
    assert known.kind(device) is kind


def test_a_map_of_a_recording_without_its_uuid_is_one_by_its_paths() -> None:
    """Two paths of one serial number below one mapped device."""
    there = [replace(each, dm_uuid=None) for each in devices()]
    known = Facts(AdviceInputs(DeviceMap(topology=topology(*there))))
    kinds = [
        known.kind(device) for name in ("dm-0", "dm-1", "sdk") if (device := known.device(name))
    ]
    assert kinds == [DeviceKind.MAP, DeviceKind.MAPPED, DeviceKind.PATH]


REFUSALS = [
    ((), (), {}, "sdc", ""),
    (("sdc",), (), {}, "sdc", ""),
    (("sdc", "sdd"), (), {}, "sdc", "2 members of md1"),
    (("sdc", "sdd", "sde"), (), {}, "sdc", "3 members of md1"),
    (("sdc",), ("host4",), {}, "sdc", "its adapter (host4)"),
    (("sda", "sdb"), (), {}, "sda", "2 members of md0"),
    ((), (), {"md0": replace(ARRAYS["md0"], degraded=1)}, "sda", "no redundancy left"),
    ((), (), {"md0": replace(ARRAYS["md0"], state="inactive")}, "sda", "does not run"),
    ((), (), {"md0": replace(ARRAYS["md0"], degraded=None)}, "sda", "is not known"),
    ((), (), {"md0": array("md0", "raid0", ("sda1", "sdb1"))}, "sda", "no redundancy left"),
]


@pytest.mark.parametrize(("troubled", "adapters", "arrays", "name", "refusal"), REFUSALS)
def test_a_member_is_taken_out_only_where_that_harms_nothing(
    troubled: tuple[str, ...],
    adapters: tuple[str, ...],
    arrays: dict[str, object],
    name: str,
    refusal: str,
) -> None:
    """Not with its adapter, nor while another member is in trouble, too."""
    known = everything(troubled=troubled, adapters=adapters, arrays={**ARRAYS, **arrays})
    (own,) = known.memberships(name)
    assert (refusal in own.refusal) if refusal else own.refusal == ""


def test_a_member_whose_disk_is_gone_counts_as_one_in_trouble() -> None:
    """The other half of a mirror was pulled a moment ago, and md has not noticed yet."""
    (own,) = everything(troubled=("sda",), without=("sdb",)).memberships("sda")
    assert "2 members of md0" in own.refusal


@pytest.mark.parametrize(
    ("troubled", "counts", "refused"),
    [
        ((), {}, False),
        (("sdk",), {}, True),
        (("sdk",), {"unknown": 2}, True),
        (("sdk",), {"working": 2}, False),
        ((), {"unknown": 1, "lost": 1}, True),
        ((), {"working": 1, "waiting": 1}, False),
        (("sdk", "sdl"), {"working": 2}, True),
    ],
)
def test_a_map_that_lost_a_path_is_in_trouble_unless_another_path_is_known_to_work(
    troubled: tuple[str, ...], counts: dict[str, int], *, refused: bool
) -> None:
    """A mirror on a map and a disk: the disk is not taken out while the map may have no path."""
    known = everything(troubled=troubled, arrays={"md3": array("md3", "raid1", ("dm-0", "sda1"))})
    (own,) = Facts(replace(known.of, paths={"dm-0": counts})).memberships("sda")
    assert ("2 members of md3" in own.refusal) is refused


def alert(device: str, name: str = "DeviceHang", severity: str = "warning") -> Alert:
    """Return an alert of a shipped rule about a device, which fires."""
    labels = (("device", device), ("severity", severity))
    return Alert(name, labels, AlertState.FIRING, 1.0, (), 0.0, subject=f"device {device}")


@pytest.mark.parametrize(
    ("name", "is_full", "is_snapshot"),
    [
        ("ThinPoolFull", True, False),
        ("ThinPoolOutOfSpace", True, False),
        ("dm_pool_full", True, False),
        ("SnapshotFull", False, True),
        ("SnapshotInvalid", False, True),
        ("dm_snapshot_invalid", False, True),
        ("DmRaidDegraded", False, False),
    ],
)
def test_a_full_pool_and_a_lost_snapshot_are_told_apart(
    name: str, *, is_full: bool, is_snapshot: bool
) -> None:
    """One is extended while it is in use, the other is gone."""
    of_event = replace(alert("dm-1", name), count=int(name.islower()))
    inputs = facts.advice_inputs(everything().of.map, (), [of_event])
    assert ("dm-1" in inputs.full, "dm-1" in inputs.snapshots) == (is_full, is_snapshot)


def test_three_disks_of_an_adapter_are_its_trouble() -> None:
    """Eight disks of one adapter hang: none of them is at fault."""
    where = everything().of.map
    known = facts.advice_inputs(where, (), [alert(f"sd{letter}") for letter in "cde"])
    assert known.adapters == {"host4"}
    assert facts.advice_inputs(where, (), [alert("sdc"), alert("sdd")]).adapters == frozenset()


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("DeviceHang", "info"),
        ("SchedulerUnsuitable", "warning"),
        ("DiskNotMonitored", "warning"),
        ("ReadAheadTooSmall", "warning"),
        ("DiskTemperatureHigh", "warning"),
        ("DiskInterfaceCrcErrors", "warning"),
        ("FilesystemErrors", "critical"),
    ],
)
def test_what_reports_nothing_against_a_disk_is_no_trouble(name: str, severity: str) -> None:
    """A scheduler, SMART that cannot be read, a torn file system: the disk is as good as before."""
    where = everything().of.map
    assert facts.advice_inputs(where, (), [alert("sda", name, severity)]).in_trouble == frozenset()
    assert facts.advice_inputs(where, (), [alert("sda", "DiskErrorsIncreased")]).in_trouble == {
        "sda"
    }


# --- where it is mounted

SDA = replace(disk("sda", holders=("dm-0",)), partitions=("sda1", "sda2"), uses=(("sda1", "dm-0"),))
LV = replace(disk("dm-0", slaves=("sda",), leaf=False), device_number="253:0", dm_name="vg-data")
LOOP = replace(disk("loop0", leaf=False), device_number="7:0", backing_file="/srv/a.img")
MOUNTED = """\
30 1 253:0 / /srv rw - ext4 /dev/disk/by-uuid/77b7 rw
31 1 253:0 /www /var/www rw - ext4 /dev/disk/by-uuid/77b7 rw
32 1 8:2 / / rw - xfs /dev/root rw
33 1 7:0 / /image rw - ext4 /dev/loop0 rw
34 1 0:45 /@ /data rw - btrfs /dev/sda2 rw
"""


def test_what_is_mounted_is_known_by_its_number_and_not_by_the_word_in_its_place() -> None:
    """systemd mounts by UUID, the kernel its root: no name of '/dev' is the device's."""
    machine = block_devices.topology(
        {each.name: each for each in (SDA, LV, LOOP)}, {"8:1": "sda1", "8:2": "sda2"}
    )
    known = Facts(AdviceInputs(DeviceMap(topology=machine), parse_mountinfo(MOUNTED)))
    for name in ("dm-0", "mapper/vg-data", "vg/data", "/dev/mapper/vg-data"):
        assert [each.mount_point for each in known.mounts_of(name)] == ["/srv", "/var/www"]
    assert [each.mount_point for each in known.mounts_of("sda2")] == ["/", "/data"]
    # A loop device writes to a file, whose file system is limited as well.
    assert [each.name for each in known.mounted_on(SDA)] == ["sda", "dm-0"]
    text = filled("{fsck}", AdviceSubject({"device": "dm-0"}), known)
    assert "umount /srv" in text
    assert "e2fsck -fn /dev/mapper/vg-data" in text


@pytest.mark.parametrize("name", ["vda", "xvdb"])
def test_a_virtual_disk_is_one_to_advice_and_to_stalls_alike(name: str) -> None:
    """By the name that its driver gives it; the two tables differed before."""
    own = disk(name)
    assert Facts(AdviceInputs(DeviceMap(topology=topology(own)))).kind(own) is DeviceKind.VIRTUAL
    limits = hang_thresholds.kinds(topology(own)).limits[name]
    assert limits.warning_seconds == MEANINGS[Guard.VIRTUAL].min_seconds
