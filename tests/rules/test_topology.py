"""What stands on what under all of its names, now and until lately."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.machine import disk

from iowarden.collectors import block
from iowarden.collectors.block import Topology, lv_names
from iowarden.collectors.mounts import Mount, parse_mountinfo
from iowarden.rules.devices import Devices, identity, subject, with_sources
from iowarden.rules.stack import Stack
from iowarden.rules.topology import NOTHING, Above, carried, remember

SDA = replace(
    disk("sda", serial="A", holders=("md0",)), partitions=("sda1", "sda2"), uses=(("sda1", "md0"),)
)
MD0 = disk("md0", slaves=("sda",), holders=("dm-0",), leaf=False)
LV = replace(disk("dm-0", slaves=("md0",), leaf=False), dm_name="vg--1-data", device_number="253:0")
LOOP = replace(disk("loop0", leaf=False), device_number="7:0", backing_file="/srv/images/a.img")
MACHINE = block.topology(
    {each.name: each for each in (SDA, MD0, LV, LOOP)}, {"8:1": "sda1", "8:2": "sda2"}
)
ON_LV = "30 1 253:0 / /srv rw - ext4 {} rw\n"


def mounts(text: str) -> tuple[Mount, ...]:
    """Return the mounts of '/proc/1/mountinfo'."""
    return parse_mountinfo(text)


@pytest.mark.parametrize(
    "source",
    [
        "/dev/mapper/vg--1-data",
        "/dev/vg-1/data",
        "/dev/dm-0",
        "/dev/disk/by-uuid/77b7",
        "/dev/root",
    ],
)
def test_a_mount_is_on_its_device_whatever_name_it_was_given(source: str) -> None:
    """mountinfo says '/dev/mapper/NAME', sysfs 'dm-0': the number is that of both."""
    mounted = mounts(ON_LV.format(source))
    named = with_sources(MACHINE, mounted)
    on = Stack(named, mounted).on(named.devices["sda"])
    assert [(each.shown, each.on) for each in on] == [
        ("md0", "sda1"),
        ("vg--1-data", "md0"),
        ("loop0", "/srv"),
        ("/srv", "dm-0"),
    ]
    labels = (("alertname", "FileSystemReadOnly"), ("device", source), ("mountpoint", "/srv"))
    assert subject(named, Devices(), labels) == identity(named, "dm-0")


def test_a_partition_is_mounted_by_its_number() -> None:
    """'/dev/root' is what the kernel calls what 'root=' named: here sda2."""
    mounted = mounts("25 1 8:2 / / rw - ext4 /dev/root rw\n")
    named = with_sources(MACHINE, mounted)
    assert identity(named, "/dev/root").key == identity(named, "sda").key
    assert "/" in Stack(named, mounted).shown_on("sda")


def test_btrfs_has_a_number_of_its_own_and_is_known_by_its_source() -> None:
    """0:45 is no device: what mountinfo names is."""
    mounted = mounts("40 1 0:45 /@ /data rw - btrfs /dev/mapper/vg--1-data rw\n")
    assert "/data" in Stack(MACHINE, mounted).shown_on("sda")


def test_every_device_of_a_btrfs_carries_it() -> None:
    """The mount names sdb, and sdc has the other copy."""
    pair = block.topology({"sdb": disk("sdb"), "sdc": replace(disk("sdc"), partitions=("sdc1",))})
    pair = replace(pair, btrfs=dict.fromkeys(("sdb", "sdc1"), ("sdb", "sdc1")))
    mounted = mounts("40 1 0:45 / /data rw - btrfs /dev/sdb rw\n")
    for name, on in (("sdb", "sdb"), ("sdc", "sdc1")):
        (only,) = Stack(pair, mounted).on(pair.devices[name])
        assert (only.shown, only.on) == ("/data", on)


@pytest.mark.parametrize(
    ("dm_name", "parts"),
    [
        ("vg-data", ("vg", "data")),
        ("my--vg-my--data", ("my-vg", "my-data")),
        ("vg---data", ("vg-", "data")),
        ("vg-data-real", None),
        ("luks-0f3a-77", None),
        ("mpatha", None),
        ("-data", None),
        ("vg-", None),
    ],
)
def test_an_lv_is_named_by_its_group(dm_name: str, parts: tuple[str, str] | None) -> None:
    """LVM doubles the '-' of a name: 'my--vg-data' is 'data' of 'my-vg'."""
    assert lv_names(dm_name) == parts


def test_what_stood_on_a_disk_is_remembered_for_300_s() -> None:
    """sda vanished and with it every link of sysfs; md0 and the file system fail a moment later."""
    mounted = mounts(ON_LV.format("/dev/mapper/vg--1-data"))
    before = remember(NOTHING, MACHINE, mounted, 0.0)
    left = block.topology({"md0": replace(MD0, slaves=()), "dm-0": LV})
    after = remember(before, left, mounted, 10.0)
    key, md0 = identity(MACHINE, "sda").key, identity(MACHINE, "md0").key
    dm0 = identity(MACHINE, "dm-0").key
    assert after.above(310.0)[key] >= {md0, dm0}
    assert md0 not in after.above(311.0)[key]
    assert dm0 in after.above(9999.0)[md0], "it still stands on the array"
    assert remember(after, left, mounted, 400.0).until == {}


def test_a_disk_that_is_back_carries_what_it_carried_and_nothing_twice() -> None:
    """It was gone for a look only."""
    before = remember(NOTHING, MACHINE, (), 0.0)
    gone = remember(before, block.topology({}), (), 10.0)
    back = remember(gone, MACHINE, (), 20.0)
    key = identity(MACHINE, "sda").key
    assert carried(back, key, 20.0) == carried(before, key, 0.0)


def test_an_adapter_carries_its_disks_and_what_they_carry() -> None:
    """Whoever sees eight disks stand still must know that they hang on one adapter."""
    standing = remember(NOTHING, MACHINE, (), 0.0)
    own = identity(MACHINE, "sda")
    assert carried(standing, "adapter host0", 0.0)[0] == Above(own.key, "sda", own.object, "host0")
    assert identity(MACHINE, "md0").key in standing.above(0.0)["adapter host0"]


def test_names_of_a_machine_without_device_numbers_are_themselves() -> None:
    """A recording of an older iowarden has no '/dev' files of partitions."""
    bare = Topology({"sda": SDA}, ("sda",))
    assert (bare.kernel_name("/dev/sda1"), bare.whole("/dev/sda1")) == ("sda1", SDA)
    assert bare.kernel_name("cciss!c0d0") == "cciss/c0d0"
    assert bare.whole("sdz") is None
