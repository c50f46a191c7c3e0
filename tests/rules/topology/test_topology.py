"""The storage stack under all of its names, now and until lately."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.machine import disk
from support.memory import Files, Memory

from iowarden.collectors import registry
from iowarden.collectors.block import block_devices
from iowarden.collectors.block.block_devices import Topology, lv_names
from iowarden.collectors.filesystem.btrfs_owner import FileSystem
from iowarden.collectors.filesystem.mountinfo import Mount, parse_mountinfo
from iowarden.collectors.model import Outcome, Reading
from iowarden.rules.engine.engine import Engine
from iowarden.rules.topology.alert_subject import subject
from iowarden.rules.topology.device_changes import Devices
from iowarden.rules.topology.device_identity import identity, with_sources
from iowarden.rules.topology.stack import DeviceStack, unseen_uses
from iowarden.rules.topology.topology import (
    MAX_RETAINED,
    NO_DEPENDENTS,
    Dependent,
    Dependents,
    StoredDependents,
    dependents_of,
    recalled,
    remember,
    restacked,
    to_stored,
    without_old,
)

SDA = replace(
    disk("sda", serial="A", holders=("md0",)), partitions=("sda1", "sda2"), uses=(("sda1", "md0"),)
)
MD0 = disk("md0", slaves=("sda",), holders=("dm-0",), leaf=False)
LV = replace(disk("dm-0", slaves=("md0",), leaf=False), dm_name="vg--1-data", device_number="253:0")
LOOP = replace(disk("loop0", leaf=False), device_number="7:0", backing_file="/srv/images/a.img")
MACHINE = block_devices.topology(
    {each.name: each for each in (SDA, MD0, LV, LOOP)}, {"8:1": "sda1", "8:2": "sda2"}
)
ON_LV = "30 1 253:0 / /srv rw - ext4 {} rw\n"


def mounts(text: str) -> tuple[Mount, ...]:
    """Return the mounts of '/proc/1/mountinfo'."""
    return parse_mountinfo(text)


def carries(standing: Dependents, lower: str, upper: str, now: float) -> bool:
    """Whether one object carries another, or did in the last 300 s; by their keys."""
    return upper in standing.above(now).get(lower, ())


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
    """mountinfo has '/dev/mapper/NAME', sysfs 'dm-0': both have the same number."""
    mounted = mounts(ON_LV.format(source))
    named = with_sources(MACHINE, mounted)
    on = DeviceStack(named, mounted).on("sda")
    assert [(each.shown, each.on) for each in on] == [
        ("md0", "sda1"),
        ("vg--1-data", "md0"),
        ("loop0", "/srv"),
        ("/srv", "dm-0"),
    ]
    labels = (("alertname", "FilesystemReadOnly"), ("device", source), ("mountpoint", "/srv"))
    own = subject(named, Devices(), labels, dependents=remember(NO_DEPENDENTS, named, mounted, 1.0))
    assert own.key == "file system at - device dm-0"
    assert own.object == "/srv (ext4 on vg--1-data)"


def test_a_partition_is_mounted_by_its_number() -> None:
    """'/dev/root' is what the kernel calls what 'root=' named: here sda2."""
    mounted = mounts("25 1 8:2 / / rw - ext4 /dev/root rw\n")
    named = with_sources(MACHINE, mounted)
    assert identity(named, "/dev/root").key == identity(named, "sda").key
    assert "/" in DeviceStack(named, mounted).shown_on("sda")


def test_btrfs_has_a_number_of_its_own_and_is_known_by_its_source() -> None:
    """0:45 is no device: what mountinfo names is."""
    mounted = mounts("40 1 0:45 /@ /data rw - btrfs /dev/mapper/vg--1-data rw\n")
    assert "/data" in DeviceStack(MACHINE, mounted).shown_on("sda")


def test_every_device_of_a_btrfs_carries_it() -> None:
    """The mount names sdb, and sdc has the other copy."""
    pair = block_devices.topology(
        {"sdb": disk("sdb"), "sdc": replace(disk("sdc"), partitions=("sdc1",))}
    )
    pair = replace(pair, btrfs=dict.fromkeys(("sdb", "sdc1"), FileSystem("77b7", ("sdb", "sdc1"))))
    mounted = mounts("40 1 0:45 / /data rw - btrfs /dev/sdb rw\n")
    for name, on in (("sdb", "sdb"), ("sdc", "sdc1")):
        (only,) = DeviceStack(pair, mounted).on(name)
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
    before = remember(NO_DEPENDENTS, MACHINE, mounted, 0.0)
    left = block_devices.topology({"md0": replace(MD0, slaves=()), "dm-0": LV})
    after = remember(before, left, mounted, 10.0)
    key, md0 = identity(MACHINE, "sda").key, identity(MACHINE, "md0").key
    dm0 = identity(MACHINE, "dm-0").key
    assert after.above(310.0)[key] >= {md0, dm0}
    assert md0 not in after.above(311.0)[key]
    assert dm0 in after.above(9999.0)[md0], "it still stands on the array"
    assert remember(after, left, mounted, 400.0).until == {}


def test_a_disk_that_is_back_carries_what_it_carried_and_nothing_twice() -> None:
    """It was missing in one reading only."""
    before = remember(NO_DEPENDENTS, MACHINE, (), 0.0)
    gone = remember(before, block_devices.topology({}), (), 10.0)
    back = remember(gone, MACHINE, (), 20.0)
    key = identity(MACHINE, "sda").key
    assert dependents_of(back, key, 20.0) == dependents_of(before, key, 0.0)


def test_an_adapter_carries_its_disks_and_what_they_carry() -> None:
    """Eight hung disks: the reader must know that they share one adapter."""
    standing = remember(NO_DEPENDENTS, MACHINE, (), 0.0)
    own = identity(MACHINE, "sda")
    assert dependents_of(standing, "adapter host0", 0.0)[0] == Dependent(
        own.key, "sda", own.object, "host0"
    )
    assert identity(MACHINE, "md0").key in standing.above(0.0)["adapter host0"]


def test_names_of_a_machine_without_device_numbers_are_themselves() -> None:
    """A recording of an older iowarden has no '/dev' files of partitions."""
    bare = Topology({"sda": SDA}, ("sda",))
    assert (bare.kernel_name("/dev/sda1"), bare.whole("/dev/sda1")) == ("sda1", SDA)
    assert bare.kernel_name("cciss!c0d0") == "cciss/c0d0"
    assert bare.whole("sdz") is None


# --- what sysfs does not link

SWAPS = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"


def block_device(name: str, number: str, *parts: str, **more: str) -> Files:
    """Return a device of '/sys/block' with partitions, which count on from its number."""
    base, (major, minor) = f"/sys/block/{name}", number.split(":")
    files: Files = {f"{base}/dev": f"{number}\n", f"{base}/size": "1000\n"}
    files |= {f"{base}/{path.replace('__', '/')}": text for path, text in more.items()}
    for at, part in enumerate(parts, int(minor) + 1):
        files[f"{base}/{part}/partition"] = f"{at}\n"
        files[f"{base}/{part}/dev"] = f"{major}:{at}\n"
    return files


def udev(number: str, kind: str, **more: str) -> Files:
    """Return a file of udev's database."""
    rest = "".join(f"E:{key}={text}\n" for key, text in more.items())
    return {f"/run/udev/data/b{number}": f"I:1200\nE:ID_FS_TYPE={kind}\n{rest}"}


SDB = block_device("sdb", "8:16", "sdb1", "sdb9")
TANK = SDB | udev("8:17", "zfs_member", ID_FS_LABEL="tank", ID_FS_LABEL_ENC="tank")
IMPORTED: Files = {
    "/proc/spl/kstat/zfs/tank/state": "DEGRADED\n",
    "/proc/spl/kstat/zfs/arcstats": "13 1 0x01\n",
}
DATASET = "60 1 0:51 / /tank/db rw - zfs tank/db rw,xattr\n"
ON_ZVOL = "61 1 230:0 / /vm rw - ext4 /dev/zd0 rw\n"
BTRFS = "0f3a5b1e-1111-2222-3333-444455556666"
DM = block_device("dm-1", "253:1", dm__name="vg-swap\n")
HELD: Files = {"/sys/block/sdb/sdb1/holders/dm-1": None, "/sys/block/dm-1/slaves/sdb1": None}
CACHED = block_device("bcache0", "252:0") | {
    "/sys/block/sdb/sdb1/holders/bcache0": None,
    "/sys/block/bcache0/slaves/sdb1": None,
}


@pytest.mark.parametrize(
    ("files", "mounted", "expected"),
    [
        pytest.param(
            TANK | IMPORTED,
            DATASET,
            [("pool tank (ZFS, DEGRADED)", "sdb1"), ("/tank/db", "pool tank")],
            id="a member of an imported pool",
        ),
        pytest.param(
            TANK | {"/proc/spl/kstat/zfs/arcstats": "13 1\n"},
            "",
            [("pool tank (ZFS, not imported)", "sdb1")],
            id="a member of a pool that is exported",
        ),
        pytest.param(
            TANK,
            DATASET,
            [("pool tank (ZFS)", "sdb1"), ("/tank/db", "pool tank")],
            id="a mount shows that a pool is imported, where '/proc/spl' cannot be read",
        ),
        pytest.param(
            TANK
            | IMPORTED
            | block_device("zd0", "230:0")
            | {"/run/udev/data/b230:0": "S:zvol/tank/vm1\n"},
            ON_ZVOL,
            [
                ("pool tank (ZFS, DEGRADED)", "sdb1"),
                ("tank/vm1 (zd0)", "pool tank"),
                ("/vm", "zd0"),
            ],
            id="a volume of a pool",
        ),
        pytest.param(
            SDB | udev("8:17", "zfs_member"),
            "",
            [("a pool of ZFS (a cache, log or spare device of it)", "sdb1")],
            id="a cache device, whose label names no pool",
        ),
        pytest.param(
            SDB | {"/proc/swaps": f"{SWAPS}/dev/sdb1 partition\t9\t0\t-2\n"},
            "",
            [("swap (0 B used)", "sdb1")],
            id="swap on a partition",
        ),
        pytest.param(
            SDB | DM | HELD | {"/proc/swaps": f"{SWAPS}/dev/mapper/vg-swap partition 9 4 -2\n"},
            "",
            [("vg-swap", "sdb1"), ("swap (4 KiB used)", "dm-1")],
            id="swap on a logical volume",
        ),
        pytest.param(
            SDB | {"/proc/swaps": f"{SWAPS}/srv/swapfile file 9 2097152 -2\n"},
            "25 1 8:17 / /srv rw - ext4 /dev/sdb1 rw\n",
            [("/srv", "sdb1"), ("swap (2 GiB used)", "/srv")],
            id="swap in a file",
        ),
        pytest.param(
            SDB
            | block_device("zram0", "252:0", backing_dev="/dev/sdb1\n")
            | {"/proc/swaps": f"{SWAPS}/dev/zram0 partition 9 1 100\n"},
            "",
            [("zram0", "sdb1"), ("swap (1 KiB used)", "zram0")],
            id="compressed memory that is written back to a partition",
        ),
        pytest.param(
            SDB | block_device("loop0", "7:0", loop__backing_file="/dev/sdb1\n"),
            "25 1 7:0 / /mnt rw - ext4 /dev/loop0 rw\n",
            [("loop0", "sdb1"), ("/mnt", "loop0")],
            id="a loop device on a partition",
        ),
        pytest.param(
            SDB | CACHED,
            "25 1 252:0 / /srv rw - xfs /dev/bcache0 rw\n",
            [("bcache0", "sdb1"), ("/srv", "bcache0")],
            id="bcache, whose kernel links backing and cache device alike",
        ),
        pytest.param(
            SDB | udev("8:17", "LVM2_member", LVM_VG_NAME_COMPLETE="vg0"),
            "",
            [("vg0 (volume group without an active volume)", "sdb1")],
            id="a volume group without an active volume",
        ),
        pytest.param(
            SDB | udev("8:17", "crypto_LUKS"),
            "",
            [("data of sdb1 (LUKS volume, not open)", "sdb1")],
            id="a LUKS volume that is not open",
        ),
        pytest.param(
            SDB | udev("8:17", "drbd"),
            "",
            [("data of sdb1 (DRBD)", "sdb1")],
            id="the backing device of DRBD, which sets no link",
        ),
        pytest.param(
            SDB | udev("8:17", "linux_raid_member", ID_FS_LABEL_ENC="nas:my\\x20data"),
            "",
            [("nas:my data (md array, which does not use it)", "sdb1")],
            id="a member that was taken out",
        ),
        pytest.param(
            SDB | {f"/sys/fs/btrfs/{BTRFS}/devices/sdb1": None},
            "",
            [(f"btrfs {BTRFS}", "sdb1")],
            id="a btrfs that is mounted where it is not seen",
        ),
        pytest.param(
            SDB,
            "40 1 0:45 / /data rw - bcachefs /dev/sda1:/dev/sdb1 rw\n",
            [("/data", "sdb1")],
            id="bcachefs, whose mount names all of its devices",
        ),
        pytest.param(
            SDB,
            "40 1 8:1 / /data rw - xfs /dev/sda1 rw,attr2,logdev=/dev/sdb1,noquota\n",
            [("/data", "sdb1")],
            id="the log of an XFS that is elsewhere",
        ),
        pytest.param(SDB | udev("8:17", "ext4"), "", [], id="a file system that is not mounted"),
    ],
)
def test_what_stands_on_a_disk_is_found_where_sysfs_has_no_link(
    files: Files, mounted: str, expected: list[tuple[str, str]]
) -> None:
    """From udev's database, '/proc/swaps', the mount table and the state of ZFS."""
    root = Memory(files | block_device("sda", "8:0", "sda1"))
    found = block_devices.read_block(root)
    on = DeviceStack(found, mounts(mounted)).on("sdb")
    assert [(each.shown, each.on) for each in on] == expected


@pytest.mark.parametrize("name", ["nbd0", "rbd0", "drbd0"])
def test_what_is_on_a_device_of_the_network_stands_on_it(name: str) -> None:
    """With a mount, and with swap: there is no disk below that this machine has."""
    areas = f"{SWAPS}/dev/{name}p2 partition 9 1 -2\n"
    files = block_device(name, "43:0", f"{name}p1", f"{name}p2") | {"/proc/swaps": areas}
    found = block_devices.read_block(Memory(files))
    on = DeviceStack(found, mounts(f"25 1 43:1 / /net rw - ext4 /dev/{name}p1 rw\n")).used_on(name)
    assert on == ("/net", "swap (1 KiB used)")


def test_only_what_is_in_use_is_lost_with_a_disk() -> None:
    """A backup disk is locked or exported before it is unplugged: that is no alarm."""
    mounted = mounts(DATASET)
    for files, used in ((TANK | IMPORTED, True), (TANK, False)):
        found = block_devices.read_block(Memory(files))
        assert bool(DeviceStack(found).used_on("sdb")) is used
    found = block_devices.read_block(Memory(TANK))
    assert DeviceStack(found, mounted).used_on("sdb") == ("pool tank (ZFS)", "/tank/db")
    locked = block_devices.read_block(Memory(SDB | udev("8:17", "crypto_LUKS")))
    assert DeviceStack(locked).used_on("sdb") == ()


@pytest.mark.parametrize(
    ("kind", "used"),
    [
        ("ceph_bluestore", True),
        ("drbd", True),
        ("jbd", True),
        ("oracleasm", True),
        ("crypto_LUKS", False),
        ("LVM2_member", False),
        ("linux_raid_member", False),
        ("stratis", False),
    ],
)
def test_what_opens_a_device_without_a_holder_in_sysfs_uses_it(kind: str, *, used: bool) -> None:
    """An OSD, ASM, DRBD or the journal of another device; the others have a holder when in use."""
    found = block_devices.read_block(Memory(SDB | udev("8:17", kind)))
    stack = DeviceStack(found)
    assert bool(stack.used_on("sdb")) is used
    assert stack.shown_on("sdb") != ()


def said(files: Files, mounted: str = "") -> str:
    """Return what is known of sdb, on which no use is seen."""
    found = block_devices.read_block(Memory(files))
    stack = DeviceStack(found, mounts(mounted))
    assert stack.shown_on("sdb") == ()
    return " ".join(unseen_uses(found, "sdb", stack.pools()))


@pytest.mark.parametrize(
    ("files", "mounted"),
    [
        pytest.param(SDB | IMPORTED, "", id="by the kernel"),
        pytest.param(SDB | IMPORTED | udev("8:17", "ext4"), "", id="udev's data may be outdated"),
        pytest.param(SDB, DATASET, id="by a mount, where '/proc/spl' cannot be read"),
        pytest.param(
            SDB | block_device("zd0", "230:0") | {"/run/udev/data/b230:0": "S:zvol/tank/vm1\n"},
            "",
            id="by a volume",
        ),
    ],
)
def test_a_disk_may_be_a_member_of_any_imported_pool(files: Files, mounted: str) -> None:
    """Neither sysfs nor '/proc/spl' lists the members, and udev may not have read the disk."""
    text = said(files, mounted)
    assert "It may be a member of a ZFS pool: the kernel does not list the members of tank" in text
    assert "check that before you remove it" in text


def test_a_disk_without_a_known_use_is_never_said_to_be_free() -> None:
    """A program, a virtual machine or a network target may have opened it."""
    assert said(SDB) == (
        "Nothing that iowarden reads shows a use of it. Programs, virtual machines and network"
        " targets may use it all the same: check that before you remove it or write to it."
    )
    of_kind = said(SDB | udev("8:17", "bcachefs", ID_FS_LABEL_ENC="media"))
    assert of_kind.startswith("sdb1 carries bcachefs 'media', which is not seen to be in use. N")
    assert said(SDB | udev("8:17", "VMFS_volume_member")).startswith("sdb1 carries VMFS_volume_mem")


def test_the_imported_pools_are_known_also_after_a_restart() -> None:
    """They are not stored: they are read again."""
    found = block_devices.read_block(Memory(SDB | IMPORTED))
    known = remember(NO_DEPENDENTS, found, (), 100.0)
    assert known.pools == {"tank"}
    assert recalled(known, to_stored(known, 90.0), 1.0, 101.0).pools == {"tank"}
    exported = block_devices.read_block(Memory(SDB))
    assert remember(known, exported, (), 160.0).pools == frozenset()


def test_a_pool_and_a_btrfs_go_by_what_alerts_about_them_have() -> None:
    """The incident of a disk explains those of the file systems on it."""
    found = block_devices.read_block(Memory(TANK | {f"/sys/fs/btrfs/{BTRFS}/devices/sdb9": None}))
    standing = remember(
        NO_DEPENDENTS, found, mounts(DATASET + "62 1 0:9 / /b rw - btrfs /dev/sdb9 rw\n"), 0.0
    )
    keys = standing.above(0.0)[identity(found, "sdb").key]
    labels = (
        ("alertname", "FilesystemReadOnly"),
        ("device", "tank/db"),
        ("mountpoint", "/tank/db"),
    )
    errors = (("alertname", "BtrfsErrors"), ("fsid", BTRFS))
    assert {subject(found, Devices(), each).key for each in (labels, errors)} <= keys


# --- over a restart of the program


def test_what_stood_on_a_disk_is_known_after_a_restart_for_300_s() -> None:
    """sda disappeared at 10; iowarden restarted at 60, and md0 stops at 100."""
    mounted = mounts(ON_LV.format("/dev/mapper/vg--1-data"))
    left = block_devices.topology({"md0": replace(MD0, slaves=()), "dm-0": LV})
    before = remember(remember(NO_DEPENDENTS, MACHINE, mounted, 0.0), left, mounted, 10.0)
    after = remember(
        recalled(NO_DEPENDENTS, to_stored(before, 10.0), -900.0, 60.0), left, mounted, 61.0
    )
    sda, md0 = identity(MACHINE, "sda").key, identity(MACHINE, "md0").key
    assert dependents_of(after, sda, 100.0) == dependents_of(before, sda, 100.0)
    assert carries(after, sda, md0, 310.0)
    assert not carries(after, sda, md0, 311.0)
    assert carries(after, md0, identity(MACHINE, "dm-0").key, 9999.0)


def test_a_disk_that_went_while_the_program_was_down_carried_what_it_did() -> None:
    """Not observed: it counts for 300 s from the first reading on; also if that came first."""
    stood = to_stored(remember(NO_DEPENDENTS, MACHINE, (), 0.0), 0.0)
    left = block_devices.topology({"md0": replace(MD0, slaves=())})
    sda, md0 = identity(MACHINE, "sda").key, identity(MACHINE, "md0").key
    early = remember(recalled(NO_DEPENDENTS, stood, -900.0, 60.0), left, (), 61.0)
    late = recalled(remember(NO_DEPENDENTS, left, (), 61.0), stood, -900.0, 61.0)
    for each in (early, late):
        assert (carries(each, sda, md0, 361.0), carries(each, sda, md0, 362.0)) == (True, False)


def test_what_stood_there_in_an_earlier_boot_does_not_count() -> None:
    """The host was booted without the disk: the members of its arrays are read again."""
    stood = to_stored(remember(NO_DEPENDENTS, MACHINE, (), 0.0), 0.0)
    assert recalled(NO_DEPENDENTS, stood, 5.0, 60.0) is NO_DEPENDENTS


def test_what_is_kept_is_bounded_and_what_ended_comes_first() -> None:
    """A host of containers has thousands of mounts."""
    points = (f"/c/{n}" for n in range(MAX_RETAINED))
    many = mounts(
        "".join(f"{n} 1 8:2 / {p} rw - ext4 /dev/sda2 rw\n" for n, p in enumerate(points))
    )
    standing = remember(NO_DEPENDENTS, MACHINE, many[:5], 0.0)
    standing = remember(standing, MACHINE, many[5:], 10.0)
    stood = to_stored(standing, 10.0)
    assert sum(map(len, stood.now.values())) + sum(map(len, stood.until.values())) == MAX_RETAINED
    assert [len(each) for each in stood.until.values()] == [5]
    assert not any(key.startswith("adapter ") for key in (*stood.now, *stood.until))


def test_a_damaged_document_costs_only_what_it_names() -> None:
    """A number that stands for nothing is nothing."""
    above = Dependent("device md0", "md0", "md0", "sda1")
    stood = StoredDependents(10.0, {"0": above}, {"disk a": ("0", "7")}, {"disk b": {"8": 5.0}})
    standing = recalled(NO_DEPENDENTS, stood, 0.0, 20.0)
    assert (dependents_of(standing, "disk a", 20.0), dependents_of(standing, "disk b", 20.0)) == (
        (above,),
        (),
    )


def test_an_unchanged_machine_is_not_put_together_anew() -> None:
    """A thousand disks are listed each minute: that costs a comparison while nothing changes."""
    sources = [source for source in registry.SOURCES if source.name == "block"]
    engine = Engine([], sources, 0.0)

    def look(devices: Topology, now: float) -> Dependents:
        engine.observe([Reading("block", Outcome.OK, now, 0.0, devices)], now, 1000.0 + now)
        return engine.devices.dependents

    standing = look(MACHINE, 0.0)
    assert look(replace(MACHINE, devices=dict(MACHINE.devices)), 60.0) is standing
    left = block_devices.topology({"md0": replace(MD0, slaves=()), "dm-0": LV})
    gone = look(left, 120.0)
    assert [each.name for each in engine.devices.events()] == ["sda"]
    assert look(replace(left), 180.0) is gone
    assert (gone.until != {}, look(replace(left), 421.0).until) == (True, {})


def test_mounts_that_come_and_go_are_not_written_each_time() -> None:
    """Containers mount all day; an array that is put together or stopped is written at once."""
    before = remember(NO_DEPENDENTS, MACHINE, (), 0.0)
    bind = mounts("90 1 253:0 /v /pods/1 rw - ext4 /dev/dm-0 rw\n")
    mounted = remember(before, MACHINE, bind, 60.0)
    assert mounted != before
    assert not restacked(before, mounted)
    alone = block_devices.topology({"sda": replace(SDA, holders=(), uses=())}, {"8:1": "sda1"})
    assert restacked(mounted, remember(mounted, alone, (), 120.0))


def test_what_ended_is_forgotten_in_time() -> None:
    """The same object until something is too old."""
    standing = remember(NO_DEPENDENTS, MACHINE, (), 0.0)
    assert without_old(standing, 1e6) is standing
    gone = remember(standing, block_devices.topology({}), (), 10.0)
    assert without_old(gone, 310.0) is gone
    assert without_old(gone, 311.0).until == {}


@pytest.mark.parametrize(
    ("kind", "source", "server"),
    [
        ("nfs4", "nas1:/export", "nas1"),
        ("nfs", "[2001:db8::1]:/export", "2001:db8::1"),
        ("cifs", "//nas1/share", "nas1"),
    ],
)
def test_what_is_mounted_from_a_server_stands_on_it(kind: str, source: str, server: str) -> None:
    """The kernel reports that 'nas1' does not respond; its mount is known to depend on it."""
    mounted = mounts(f"30 1 0:45 / /mnt/nas rw - {kind} {source} rw\n")
    standing = remember(NO_DEPENDENTS, MACHINE, mounted, 0.0)
    (above,) = dependents_of(standing, f"device {server}", 0.0)
    assert above.shown == f"/mnt/nas ({kind})"
    assert above.on == server


def test_what_waits_for_a_network_mount_is_about_the_mount_and_its_server() -> None:
    """One object with the server that the kernel's log names; of two mounts the server alone."""
    home = "30 1 0:52 / /home rw - nfs4 nas1:/export/home rw\n"
    mail = "31 1 0:53 / /var/mail rw - nfs4 nas1:/export/mail rw\n"
    labels = (("alertname", "Freeze"), ("device", "nas1:/export/home"))
    for text, shown in ((home, "/home (nfs4) on nas1"), (home + mail, "nas1")):
        standing = remember(NO_DEPENDENTS, MACHINE, mounts(text), 0.0)
        found = subject(MACHINE, Devices(), labels, dependents=standing)
        assert (found.key, found.object) == ("device nas1", shown)
    unmounted = subject(MACHINE, Devices(), labels)
    assert unmounted.key == "device nas1:/export/home"
