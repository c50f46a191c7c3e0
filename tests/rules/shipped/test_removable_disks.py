"""Which disks at USB the host needs, and which only who plugged them in: by what stands on them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.machine import disk, topology

from iowarden.collectors.block.block_devices import Md
from iowarden.collectors.block.scsi import ScsiHost, ScsiTopology
from iowarden.collectors.block.udev import BlockSignature
from iowarden.collectors.filesystem.mountinfo import Mount, Mounts
from iowarden.collectors.procfs.swaps import Swap
from iowarden.rules.signals.device import hang_thresholds
from iowarden.rules.signals.guards import Guard

if TYPE_CHECKING:
    from iowarden.collectors.block.block_devices import Device, Topology

AT_USB = ScsiTopology({"host0": ScsiHost("host0", None, 64, 3, None, usb=True)}, {}, None)
USB = replace(disk("sda"), partitions=("sda1",))
LUKS = replace(disk("dm-0", slaves=("sda",), leaf=False), dm_uuid="CRYPT-LUKS2-1-luks-1")
VOLUME = replace(LUKS, dm_uuid="LVM-1")
ARRAY = disk("md0", slaves=("sda",), leaf=False, md=Md("raid1", 2, None, 2, None))
SWAP = Swap("/dev/sda1", block=True, size_bytes=1 << 32, used_bytes=0)
POOLED = {"sda1": BlockSignature("zfs_member", "tank")}
OF_CEPH = {"sda": BlockSignature("ceph_bluestore", "")}


def below(*stacked: Device) -> Topology:
    """Return a USB disk with these stacked on it."""
    holders = tuple(own.name for own in stacked)
    return topology(replace(USB, holders=holders), *stacked)


def guards_on(machine: Topology, *points: str, source: str = "/dev/sda1") -> frozenset[Guard]:
    """Return the guards of the USB disk, with this mounted there, and nothing in '/etc/fstab'."""
    own = [Mount("8:17", source, "/", point, "ext4", ("rw",), ("rw",)) for point in points]
    return hang_thresholds.kinds(machine, AT_USB, Mounts(tuple(own), {})).limits["sda"].guards


@pytest.mark.parametrize("point", ["/srv/nas", "/var/lib/mysql", "/backup", "/data/disk1"])
def test_a_disk_at_usb_that_a_unit_of_systemd_mounts_is_one_of_the_host(point: str) -> None:
    """'/etc/fstab' has no line for it, and is empty; nor does a user mount a stick there."""
    assert guards_on(topology(USB), point) == frozenset()
    assert guards_on(topology(USB), f"/media/u{point}") == {Guard.REMOVABLE}


@pytest.mark.parametrize(
    "machine",
    [
        replace(topology(USB), swaps=(SWAP,)),
        replace(topology(USB), signatures=POOLED, pools={"tank": "ONLINE"}),
        replace(topology(USB), signatures=OF_CEPH),
        below(ARRAY),
        below(VOLUME),
    ],
    ids=["swap", "pool", "Ceph", "array", "volume of a guest"],
)
def test_a_disk_at_usb_that_the_host_runs_something_on_is_a_disk(machine: Topology) -> None:
    """Nothing of it is mounted: swap, a pool, a cluster, an array, or a guest's volume is on it."""
    assert guards_on(machine) == frozenset()


@pytest.mark.parametrize(
    "machine",
    [
        topology(USB),
        replace(topology(USB), signatures=POOLED),
        replace(topology(USB), signatures={"sda1": BlockSignature("LVM2_member", "vg")}),
        below(LUKS),
    ],
    ids=["nothing", "a pool that is not imported", "a group without a volume", "an open LUKS"],
)
def test_a_disk_at_usb_that_was_only_plugged_in_is_removable(machine: Topology) -> None:
    """A desktop opens it when its user asks for it."""
    assert guards_on(machine) == {Guard.REMOVABLE}


def test_a_volume_at_usb_that_a_user_mounts_is_as_removable_as_its_disk() -> None:
    """lvm2 activates it when the disk is plugged in; what is mounted of it shows whose it is."""
    source = "/dev/dm-0"
    assert guards_on(below(VOLUME), "/run/media/u/x", source=source) == {Guard.REMOVABLE}
    assert guards_on(below(VOLUME), "/srv/nas", source=source) == frozenset()
    assert guards_on(below(LUKS), "/srv/nas", source=source) == frozenset()
