"""How many more disks may fail: one table for every technology, and what is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.everything import array

from iowarden.collectors.block.block_devices import Md, copies
from iowarden.collectors.device_mapper.target_status import Leg, TargetStatus
from iowarden.collectors.filesystem.btrfs import BtrfsDevice
from iowarden.collectors.md.mdstat import ArrayMember, from_mdstat, parse_mdstat
from iowarden.collectors.raid import controller
from iowarden.collectors.raid.controller import ComponentHealth, ComponentState
from iowarden.collectors.zfs.vdevs import PoolDevices
from iowarden.collectors.zfs.zpool_status import parse_status
from iowarden.rules.topology import survival

NEAR_2, NEAR_3, FAR_2, NEAR_2_FAR_2, OFFSET_2 = 0x102, 0x103, 0x201, 0x202, 0x10201


@pytest.mark.parametrize(
    ("level", "layout", "disks", "lost", "left", "complete"),
    [
        ("raid0", None, 2, (), 0, 0),
        ("linear", None, 2, (), 0, 0),
        ("raid1", None, 2, (), 1, 1),
        ("raid1", None, 2, (1,), 0, 1),
        ("raid1", None, 3, (1,), 1, 2),
        ("raid1", None, 3, (0, 1), 0, 2),
        ("raid4", None, 3, (), 1, 1),
        ("raid5", 2, 4, (), 1, 1),
        ("raid5", 2, 4, (3,), 0, 1),
        ("raid5", 2, 4, (2, 3), 0, 1),
        ("raid6", 2, 24, (), 2, 2),
        ("raid6", 2, 24, (16,), 1, 2),
        ("raid6", 2, 24, (3, 16), 0, 2),
        ("raid10", NEAR_2, 4, (), 1, 1),
        ("raid10", NEAR_2, 4, (1,), 0, 1),
        ("raid10", NEAR_2, 3, (1,), 0, 1),
        ("raid10", NEAR_3, 6, (1,), 1, 2),
        ("raid10", NEAR_3, 6, (1, 4), 1, 2),
        ("raid10", NEAR_3, 6, (1, 2), 0, 2),
        ("raid10", FAR_2, 4, (), 1, 1),
        ("raid10", FAR_2, 4, (1,), 0, 1),
        ("raid10", OFFSET_2, 4, (1,), 0, 1),
        ("raid10", NEAR_2_FAR_2, 4, (1,), 2, 3),
        ("raid10", None, 4, (), None, None),
        ("faulty", None, 2, (), None, None),
    ],
)
def test_an_array_by_level_layout_and_the_slots_that_are_empty(
    level: str,
    layout: int | None,
    disks: int,
    lost: tuple[int, ...],
    left: int | None,
    complete: int | None,
) -> None:
    """By sysfs. Spares and members that are being rebuilt change nothing until they are in sync."""
    members = [
        ArrayMember(f"sd{slot}1", slot, ("in_sync",)) for slot in range(disks) if slot not in lost
    ]
    filling = [ArrayMember(f"new{slot}", slot, ("spare",)) for slot in lost]
    spare = ArrayMember("spare1", None, ("spare",))
    degraded = None if level in {"raid0", "linear"} else len(lost)
    made = replace(
        array("md9", level, (), disks), members=(*members, *filling, spare), degraded=degraded
    )
    device = Md(level, disks, layout, copies(level, disks, layout), None)
    own = replace(made, layout=device.layout)
    (found,) = survival.of_md({"md9": own}, None)
    assert (found.survives, found.complete) == (left, complete)


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("raid1 sdb1[1] sda1[0]\n      100 blocks super 1.2 [2/2] [UU]", 1),
        ("raid1 sdb1[1](F) sda1[0]\n      100 blocks super 1.2 [2/1] [U_]", 0),
        ("raid1 sdc1[2](S) sda1[0]\n      100 blocks super 1.2 [2/1] [U_]", 0),
        (
            (
                "raid6 sdd1[4] sdc1[2] sdb1[1] sda1[0]\n      100 blocks level 6, 64k chunk,"
                " algorithm 2 [4/3] [UUU_]\n      [=>...] recovery = 8.5% (9/100) finish=9min"
                " speed=100K/sec"
            ),
            1,
        ),
        ("raid10 sda1[0] sdc1[2]\n      100 blocks 64K chunks 2 near-copies [4/2] [U_U_]", 0),
        ("raid10 sda1[0] sdb1[1]\n      100 blocks 64K chunks 2 far-copies [2/2] [UU]", 1),
        ("raid10 sda1[0] sdb1[1]\n      100 blocks 64K chunks 2 offset-copies [2/2] [UU]", 1),
        ("raid0 sda1[0] sdb1[1]\n      100 blocks 64k chunks", 0),
    ],
)
def test_an_array_of_which_only_mdstat_is_there(line: str, left: int) -> None:
    """A recording without sysfs: the counts, and the copies of a raid10 in its second line."""
    text = f"Personalities : [raid1]\nmd0 : active {line}\n\nunused devices: <none>\n"
    arrays = {name: from_mdstat(stat) for name, stat in parse_mdstat(text).items()}
    (found,) = survival.of_md(arrays, None)
    assert found.survives == left


def test_an_array_that_is_not_assembled_has_no_number() -> None:
    """Inactive: its members are not known. Broken: nothing is left. Missing count: not known."""
    own = array("md9", "raid5", ["sda1", "sdb1", "sdc1"])
    assert list(survival.of_md({"md9": replace(own, state="inactive")}, None)) == []
    (unknown,) = survival.of_md({"md9": replace(own, degraded=None)}, None)
    assert (unknown.survives, unknown.text) == (None, "redundancy unknown")
    (broken,) = survival.of_md({"md9": replace(own, state="broken", degraded=2)}, None)
    assert broken.text == "no redundancy left"


@pytest.mark.parametrize(
    ("profiles", "missing", "left", "complete"),
    [
        ("data raid1, metadata raid1, system raid1", (False, False), 1, 1),
        ("data raid1, metadata raid1, system raid1", (False, True), 0, 1),
        ("data raid1, metadata raid1c3", (False, False, False), 1, 1),
        ("data raid1c3, metadata raid1c4", (False, True, False), 1, 2),
        ("data raid6, metadata raid1c3", (True, True, False), 0, 2),
        ("data raid5, metadata raid1", (False, False, False), 1, 1),
        ("data raid10, metadata raid10", (False,) * 4, 1, 1),
        ("data raid0, metadata raid1", (False, False), 0, 0),
        ("data single, metadata dup", (False,), 0, 0),
        # a balance that was cancelled: one block group is still on one disk
        ("data raid1, data single, metadata raid1", (False, False), 0, 0),
        ("data raid1, metadata raid1", (False, None), None, 1),
        ("data raid7, metadata raid1", (False, False), None, None),
        ("", (False, False), None, None),
    ],
)
def test_a_btrfs_by_its_weakest_profile(
    profiles: str, missing: tuple[bool | None, ...], left: int | None, complete: int | None
) -> None:
    """A profile of a later kernel, or a kernel before 5.6, gives no number instead of a guess."""
    kinds = tuple(filter(None, profiles.split(", ")))
    devices = [
        BtrfsDevice("u-u-i-d", "", number, kinds, state, *(None,) * 5)
        for number, state in enumerate(missing, 1)
    ]
    found = [(each.survives, each.complete) for each in survival.of_btrfs(devices)]
    assert found == ([] if profiles.startswith("data raid7") else [(left, complete)])


POOL = """\
  pool: tank
 state: DEGRADED
config:

\ttank          DEGRADED     0     0     0
\t  mirror-0    DEGRADED     0     0     0
\t    /dev/sda1 ONLINE       0     0     0
\t    /dev/sdb1 REMOVED      0     0     0
\t  raidz2-1    ONLINE       0     0     0
\t    /dev/sdc1 ONLINE       0     0     0
\t    /dev/sdd1 ONLINE       0     0     0
\t    /dev/sde1 ONLINE       0     0     0
\t    /dev/sdf1 ONLINE       0     0     0
special
\t  mirror-2    ONLINE       0     0     0
\t    /dev/sdg1 ONLINE       0     0     0
\t    /dev/sdh1 ONLINE       0     0     0
logs
\t  /dev/sdi1   FAULTED      0     0     0

errors: No known data errors
"""


def test_a_pool_is_as_weak_as_its_weakest_vdev_and_each_is_named() -> None:
    """A special vdev counts, a log does not; the vdev that has nothing left is in the object."""
    pools = {"tank": PoolDevices(parse_status(POOL)[0]), "lost": PoolDevices(reason="stuck")}
    found = {each.object: each.survives for each in survival.of_zfs(pools)}
    assert found == {
        "tank": 0,
        "tank mirror-0": 0,
        "tank raidz2-1": 2,
        "tank mirror-2": 1,
        "lost": None,
    }


OK, FAILED = ComponentHealth.OK, ComponentHealth.FAILED
DEGRADED, REBUILDING = ComponentHealth.DEGRADED, ComponentHealth.REBUILDING


@pytest.mark.parametrize(
    ("level", "state", "disks", "left"),
    [
        ("RAID1", (OK, "Optl"), (OK, OK), 1),
        ("RAID1", (DEGRADED, "Dgrd"), (OK,), 0),
        ("RAID-50", (DEGRADED, "DEGRADED"), (), 0),
        ("RAID5", (REBUILDING, "REBUILDING"), (OK, OK, REBUILDING), 0),
        ("RAID6", (ComponentHealth.BUSY, "VERIFYING"), (OK,) * 8, 2),
        ("RAID6", (DEGRADED, "Pdgd"), (OK,) * 7, 1),
        ("6 (ADG)", (DEGRADED, "Interim Recovery"), (OK,) * 6 + (FAILED, FAILED), 0),
        # One failed disk is listed: another one that is missing may not be.
        ("RAID6", (DEGRADED, "DEGRADED"), (OK,) * 7 + (FAILED,), None),
        ("RAID6", (FAILED, "FAILED"), (), 0),
        ("RAID0", (OK, "Optl"), (OK, OK), 0),
        ("RAID1", (ComponentHealth.ATTENTION, "Sparkling"), (OK, OK), None),
        ("CacheCade", (OK, "Optl"), (), None),
    ],
)
def test_a_volume_of_a_controller_by_level_state_and_listed_disks(
    level: str,
    state: tuple[ComponentHealth, str],
    disks: tuple[ComponentHealth, ...],
    left: int | None,
) -> None:
    """What the controller's words do not prove stays unknown."""
    listed = tuple(
        controller.PhysicalDisk(f"slot {number}", ComponentState(health), array="u0")
        for number, health in enumerate(disks)
    )
    volume = controller.ControllerArray("u0", ComponentState(*state), level)
    cards = controller.Controllers(
        (controller.Controller("c0", "x", arrays=(volume,), disks=listed),)
    )
    (found,) = survival.of_controllers(cards)
    assert (found.object, found.survives) == ("c0 u0", left)


@pytest.mark.parametrize(
    ("level", "health", "left"),
    [
        ("raid1", "AA", 1),
        ("raid1", "AD", 0),
        ("raid1", "Aa", 0),
        ("raid5_ls", "AAA", 1),
        ("raid5_ls", "AAD", 0),
        ("raid6_zr", "AAAAD", 1),
        ("raid10", "AAAA", 1),
        ("raid10_near", "AADA", 0),
        ("raid1", "", None),
        ("raid7", "AA", None),
    ],
)
def test_a_raid_volume_of_lvm_by_its_health_characters(
    level: str, health: str, left: int | None
) -> None:
    """A device that is not in sync yet does not count, as with md."""
    assert _volume(level, health, "idle").survives == left


def test_while_a_volume_of_lvm_is_resynchronized_no_leg_is_missing() -> None:
    """The kernel has 'a' for every leg then; for a recovered one alone it does not count."""
    assert _volume("raid1", "aa", "resync").survives == 1
    assert _volume("raid1", "aD", "resync").survives == 0
    assert _volume("raid1", "Aa", "recover").survives == 0
    assert _volume("raid1", "AA", "idle").survives == 1


def _volume(level: str, health: str, action: str) -> survival.Redundancy:
    legs = tuple(Leg(str(at), letter) for at, letter in enumerate(health))
    status = TargetStatus(name="vg-r", target="raid", legs=legs, raid_type=level, action=action)
    (volume,) = survival.of_targets((status,))
    return volume


@pytest.mark.parametrize(
    ("paths", "text"),
    [
        ({"working": 4}, "survives 3 more paths"),
        ({"working": 2, "failed": 2}, "survives 1 more path"),
        ({"working": 1, "lost": 1}, "no redundancy left"),
        ({"working": 1, "unknown": 1}, "redundancy unknown"),
        ({"working": 1}, "no redundancy"),
        ({}, "redundancy unknown"),
    ],
)
def test_a_map_by_its_working_paths(paths: dict[str, float], text: str) -> None:
    """The SCSI state 'running' proves no working path: the number is unknown, never too high."""
    assert survival.of_map("mpatha", paths).text == text
