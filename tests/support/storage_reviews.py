"""Further incidents of storage, made for a second review: what happens, and what is wanted.

What is wanted was written down before any of them was played. Kernel lines are in
the wording of Linux 6.1: drivers/{ata,scsi,nvme,md,usb}, fs/ext4, mm/page_io.c.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from support.attached import probe_answer
from support.storage_incidents import (
    FAIL_MEMBER,
    MD,
    NO_ERASE,
    SILENCE,
    FakeMachine,
    Wanted,
    ata,
    medium,
    nvme,
)

if TYPE_CHECKING:
    from support.live import Files, Watched
    from support.storage_incidents import Incident, Scenario


# --- md


def _raid(m: FakeMachine, level: str, count: int, mounted: str = "/srv") -> list[str]:
    names = [f"sd{letter}" for letter in "abcdefgh"[:count]]
    m.sata(*names)
    m.array("md0", level, *(f"{name}1" for name in names))
    m.mount(mounted, "md0")
    return names


def _action(m: FakeMachine, action: str, done: float | None = None, mismatches: int = 0) -> None:
    base = "/sys/block/md0/md"
    at = "none\n" if done is None else f"{int(done * 1_000_000)} / 1000000\n"
    stat = m._mdstat()
    if done is not None:
        stat = stat.replace(
            "\n\nunused",
            f"\n      [>....................]  {action} = {done * 100:.1f}% "
            f"({int(done * 976762496)}/976762496) finish=90.0min speed=100000K/sec\n\nunused",
        )
    files: Files = {
        f"{base}/sync_action": f"{action}\n",
        f"{base}/sync_completed": at,
        f"{base}/mismatch_cnt": f"{mismatches}\n",
        "/proc/mdstat": stat,
    }
    m.has(files)
    m.change(files)


def check_meets_a_bad_sector(m: FakeMachine) -> Incident:
    """The monthly check of a raid6 reads a sector that a member cannot; md writes it anew."""
    _raid(m, "raid6", 4)
    yield 20
    m.says("md: data-check of RAID array md0", priority=6)
    _action(m, "check", 0.30)
    yield 20
    m.fault()
    m.says(*medium("3:0:0:0", "sdc", 409_608))
    m.says("md/raid:md0: read error corrected (8 sectors at 407560 on sdc1)", priority=6)
    yield 60
    _action(m, "idle")
    m.says("md: md0: data-check done.", priority=6)
    yield 60


def check_finds_what_swap_left(m: FakeMachine) -> Incident:
    """The monthly check of a mirror that swap is on: 384 sectors differ, which is harmless."""
    _raid(m, "raid1", 2, "/")
    m.has(
        {"/proc/swaps": "Filename\tType\tSize\tUsed\tPriority\n/dev/md0 file 8388604 3145728 -2\n"}
    )
    yield 20
    m.fault()
    m.says("md: data-check of RAID array md0", priority=6)
    for done in (0.2, 0.5, 0.8):
        _action(m, "check", done, int(480 * done))
        yield 60
    m.says("md: md0: data-check done.", priority=6)
    _action(m, "idle", mismatches=384)
    yield 120


def rebuild_meets_a_bad_sector(m: FakeMachine) -> Incident:
    """A raid5 is filled anew onto sdd; another member cannot read a sector: that stripe is lost.

    It is written into the bad block lists of both, and the rebuild goes on.
    """
    m.sata("sda", "sdb", "sdc", "sdd")
    own = m.array("md0", "raid5", "sda1", "sdb1", "sdd1")
    own.recover, own.done = "sdd1", 0.4
    m.has(m._md("md0"))
    m.mount("/srv", "md0")
    m.fault()
    yield 100
    m.says(*medium("2:0:0:0", "sdb", 409_608))
    m.says("md/raid:md0: read error not correctable (sector 407560 on sdb1).", priority=4)
    bad: Files = {
        f"/sys/block/md0/md/dev-{name}/bad_blocks": "407560 8\n" for name in ("sdb1", "sdd1")
    }
    m.has(bad)
    m.change(bad)
    yield 150


def two_members_grow_pending_sectors(m: FakeMachine) -> Incident:
    """Two disks of one raid6 have sectors that they cannot read, and more from look to look."""
    for name in _raid(m, "raid6", 4):
        m.has(m.answers(name, ata(name)))
    yield 130
    m.fault()
    for count in (8, 24, 40, 80):
        m.smart("sdb", ata("sdb", n197=count))
        m.smart("sdd", ata("sdd", n197=count))
        yield 60
    yield 60


# --- single disks and enclosures


def sleeping_disk_is_woken(m: FakeMachine) -> Incident:
    """A disk was put to sleep by hdparm -Y; somebody reads: the link is reset, 11 s pass."""
    m.sata("sda", "sdb")
    m.mount("/", "sda1")
    m.mount("/archive", "sdb1")
    m.idle("sdb")
    yield 420
    m.fault()
    m._idle.clear()
    m.stands("sdb", in_flight=1)
    m.says(
        "ata2.00: exception Emask 0x0 SAct 0x0 SErr 0x0 action 0x6 frozen",
        "ata2: hard resetting link",
        priority=3,
    )
    m.says("ata2: link is slow to respond, please be patient (ready=0)", priority=4)
    yield 8
    m.says(
        "ata2: SATA link up 6.0 Gbps (SStatus 133 SControl 300)",
        "ata2.00: configured for UDMA/133",
        "ata2: EH complete",
        priority=6,
    )
    m.goes_on("sdb")
    yield 150


def nvme_protects_itself_from_writes(m: FakeMachine) -> Incident:
    """A worn NVMe drive places all its media in read-only mode: critical warning 8, writes fail."""
    m.disk("nvme0n1", rotational=False, serial="NV9")
    m.mount("/db", "nvme0n1p1", "xfs")
    m.has(m.answers("nvme0n1", nvme("NV9")))
    yield 60
    m.fault()
    m.says(
        "nvme0n1: I/O Cmd(0x1) @ LBA 409600, 8 blocks, I/O Error (sct 0x1 / sc 0x82) DNR ",
        "critical medium error, dev nvme0n1, sector 409600 op 0x1:(WRITE) flags 0x8800 phys_seg 1"
        " prio class 2",
        "XFS (nvme0n1p1): log I/O error -61",
        "XFS (nvme0n1p1): Filesystem has been shut down due to log error (0x2).",
        "XFS (nvme0n1p1): Please unmount the filesystem and rectify the problem(s).",
    )
    m.smart("nvme0n1", nvme("NV9", critical_warning=8, percentage_used=104))
    yield 150


def encrypted_disk_dies(m: FakeMachine) -> Incident:
    """A disk below LUKS reads worse and worse; ext4 is on it, and its metadata are hit."""
    m.sata("sda", "sdb")
    m.mount("/", "sda1")
    m.volume("dm-0", "luks-home", "CRYPT-LUKS2-0123-luks-home", "sdb1")
    m.mount("/home", "dm-0")
    yield 20
    m.fault()
    for number in range(4):
        sector = 2_101_248 + 4096 * number
        m.says(*medium("2:0:0:0", "sdb", sector, number))
        m.says(f"Buffer I/O error on dev dm-0, logical block {sector // 8 - 4352}, async page read")
        yield 8
    m.says(
        "EXT4-fs error (device dm-0): __ext4_find_entry:1682: inode #131073: comm bash: reading"
        " directory lblock 0",
        priority=2,
    )
    yield 150


def storm_of_another_driver(m: FakeMachine) -> Incident:
    """A wireless card floods the log with 10,000 lines; one sector of a disk is among them."""
    m.sata("sda", "sdb")
    m.mount("/", "sda1")
    m.mount("/data", "sdb1")
    yield 20
    noise = tuple(
        f"iwlwifi 0000:03:00.0: Error sending STATISTICS_CMD: time out after {n}ms."
        for n in range(1000)
    )
    for number in range(10):
        if number == 6:
            m.fault()
            m.says(*noise[:500], *medium("2:0:0:0", "sdb", 409_608), *noise[500:])
        else:
            m.says(*noise)
    yield 120


def sector_below_swap_and_root(m: FakeMachine) -> Incident:
    """A sector that LVM has for swap cannot be read while memory is short; root is on that disk."""
    m.sata("sda", "sdb")
    m.volume("dm-0", "vg-root", "LVM-aaaa", "sda1")
    m.volume("dm-1", "vg-swap", "LVM-bbbb", "sda1")
    m.mount("/", "dm-0")
    swaps = "Filename\tType\tSize\tUsed\tPriority\n/dev/dm-1 partition 8388604 3145728 -2\n"
    m.has({"/proc/swaps": swaps})
    yield 80
    m.fault()
    m.says(*medium("1:0:0:0", "sda", 40_960_008))
    m.says("Read-error on swap-device (253:1:4096)", priority=1)
    yield 120


# --- adapters and controllers


def firmware_crashes_twice_a_day(m: FakeMachine) -> Incident:
    """The firmware of an adapter faults and is reset within 14 s, and again after six hours."""
    m.sas(0, "mpt3sas", "sda", "sdb", "sdc", "sdd", rotational=False)
    m.mount("/a", "sda1")
    m.mount("/b", "sdb1")
    yield 30
    m.fault()

    def hours(host: Watched) -> None:
        host.live.wait(6 * 3600, 60.0)

    for again in (False, True):
        if again:
            yield hours
        m.stands("sda", "sdb", "sdc", "sdd")
        m.says("mpt3sas_cm0: fault_state(0x5854)!", "mpt3sas_cm0: sending diag reset !!")
        yield 12
        m.says("mpt3sas_cm0: diag reset: SUCCESS", priority=6)
        m.goes_on("sda", "sdb", "sdc", "sdd")
        yield 150


def threeware_rebuilds_after_a_timeout(m: FakeMachine) -> Incident:
    """A disk of a 3ware mirror times out, the unit is degraded, rebuilds, and is done. Log only."""
    m.adapter(6, "3w-9xxx")
    m.disk("sda", "6:0:0:0", vendor="AMCC", model="9650SE-2LP DISK", serial="3W0")
    m.mount("/srv", "sda1")
    yield 30
    m.fault()
    m.says("3w-9xxx: scsi6: AEN: ERROR (0x04:0x0009): Drive timeout detected:port=1.", priority=4)
    yield 4
    m.says("3w-9xxx: scsi6: AEN: ERROR (0x04:0x0002): Degraded unit:unit=0, port=1.", priority=4)
    yield 30
    m.says(
        "3w-9xxx: scsi6: AEN: INFO (0x04:0x000B): Rebuild started:unit=0, subunit=1.", priority=4
    )
    yield 120
    m.says(
        "3w-9xxx: scsi6: AEN: INFO (0x04:0x0005): Rebuild completed:unit=0, subunit=1.", priority=4
    )
    yield 120


def smart_array_loses_its_battery(m: FakeMachine) -> Incident:
    """The capacitor of a Smart Array fails: its cache is off for good, all writes are slow."""
    m.adapter(0, "hpsa")
    m.disk("sda", "0:1:0:0", vendor="HP", model="LOGICAL VOLUME", serial="600508B1001CAAAA")
    m.mount("/srv", "sda1")
    m.has({"/sys/bus/pci/drivers/hpsa/0000:5c:00.0/host0": None})
    m.has(_smart_array("OK", "OK", "Enabled"))
    yield 60
    m.fault()
    files = _smart_array(
        "Permanently Disabled", "Failed (Replace Batteries/Capacitors)", "Disabled"
    )
    m.has(files)
    m.change(files)
    yield 120


def _smart_array(cache: str, battery: str, caching: str) -> Files:
    """Return what ssacli prints of a card with a mirror of two disks."""
    disks = "".join(
        f"      physicaldrive 1I:1:{n}\n         Port: 1I\n         Box: 1\n         Bay: {n}\n"
        "         Status: OK\n         Drive Type: Data Drive\n         Interface Type: SAS\n"
        f"         Size: 600 GB\n         Serial Number: HS{n}\n         Model: HP      EG0600\n\n"
        for n in (1, 2)
    )
    rows = "".join(
        f"      physicaldrive 1I:1:{n} (port 1I:box 1:bay {n}, SAS HDD, 600 GB, OK)\n"
        for n in (1, 2)
    )
    head = "\nSmart Array P420i in Slot 0 (Embedded)\n"
    status = (
        f"{head}   Controller Status: OK\n   Cache Status: {cache}\n"
        f"   Battery/Capacitor Status: {battery}\n\n"
    )
    config = (
        "\nSmart Array P420i in Slot 0 (Embedded)    (sn: PDKR1)\n\n"
        "   array A (SAS, Unused Space: 0  MB)\n\n\n"
        f"      logicaldrive 1 (558.9 GB, RAID 1, OK)\n\n{rows}\n"
    )
    detail = (
        f"{head}   Bus Interface: PCI\n   Slot: 0\n   Serial Number: PDKR1\n"
        "   Controller Status: OK\n   Firmware Version: 8.32\n"
        f"   Cache Status: {cache}\n   Total Cache Size: 1024 MB\n"
        f"   Battery/Capacitor Count: 1\n   Battery/Capacitor Status: {battery}\n"
        "   PCI Address (Domain:Bus:Device.Function): 0000:5C:00.0\n\n"
        "   Array: A\n      Interface Type: SAS\n      Status: OK\n\n"
        "      Logical Drive: 1\n         Size: 558.9 GB\n         Fault Tolerance: 1\n"
        f"         Status: OK\n         Caching:  {caching}\n"
        "         Unique Identifier: 600508B1001CAAAA\n         Disk Name: /dev/sda\n\n"
        f"{disks}"
    )
    files: Files = {}
    for words, text in (
        ("ctrl all show status", status),
        ("ctrl slot=0 show config", config),
        ("ctrl slot=0 show config detail", detail),
    ):
        files |= probe_answer("ssacli", *words.split(), stdout=text)
    return files


# --- volumes and file systems


def snapshot_overflows(m: FakeMachine) -> Incident:
    """The snapshot from which a backup is made is full: the kernel drops it, its origin is well."""
    m.sata("sda", "sdb")
    m.volume("dm-0", "vg-data-real", "LVM-datareal", "sdb1")
    m.volume("dm-1", "vg-snap-cow", "LVM-snapcow", "sdb1")
    m.volume("dm-2", "vg-data", "LVM-data", "dm-0")
    m.volume("dm-3", "vg-snap", "LVM-snap", "dm-0", "dm-1")
    m.mount("/data", "dm-2")
    m.mount("/mnt/snap", "dm-3")
    yield 20
    m.fault()
    m.says("device-mapper: snapshots: Invalidating snapshot: Unable to allocate exception.")
    m.says(
        "Buffer I/O error on dev dm-3, logical block 1573120, async page read",
        "EXT4-fs error (device dm-3): __ext4_find_entry:1682: inode #2: comm tar: reading directory"
        " lblock 0",
    )
    yield 120


def ext4_goes_on_after_errors(m: FakeMachine) -> Incident:
    """errors=continue: ext4 finds a damaged directory and stays writable; no disk says anything."""
    m.sata("sda", "sdb")
    m.mount("/", "sda1")
    m.mount("/srv", "sdb1")
    m.has(
        {
            "/sys/fs/ext4/sdb1/errors_count": "0\n",
            "/sys/fs/ext4/sdb1/warning_count": "0\n",
        }
    )
    yield 70
    m.fault()
    m.says(
        "EXT4-fs error (device sdb1): ext4_lookup:1858: inode #131074: comm ls: deleted inode"
        " referenced: 131090",
        priority=2,
    )
    now = round(m.wall)
    errors: Files = {
        "/sys/fs/ext4/sdb1/errors_count": "1\n",
        "/sys/fs/ext4/sdb1/first_error_time": f"{now}\n",
        "/sys/fs/ext4/sdb1/last_error_time": f"{now}\n",
        "/sys/fs/ext4/sdb1/last_error_func": "ext4_lookup\n",
        "/sys/fs/ext4/sdb1/last_error_line": "1858\n",
    }
    m.has(errors)
    m.change(errors)
    yield 120


def integrity_fails_below_a_file_system(m: FakeMachine) -> Incident:
    """dm-integrity finds that a disk returned other data than were written; no mirror above it."""
    m.sata("sda", "sdb")
    m.mount("/", "sda1")
    m.volume("dm-0", "checked", "CRYPT-INTEGRITY-checked", "sdb1")
    m.mount("/vault", "dm-0")
    yield 20
    m.fault()
    m.says(
        "device-mapper: integrity: dm-0: Checksum failed at sector 0x1a2b8",
        "Buffer I/O error on dev dm-0, logical block 13399, async page read",
    )
    yield 120


def compressed_swap_takes_no_more(m: FakeMachine) -> Incident:
    """All swap is zram, and its mem_limit is reached: pages cannot be written out and stay."""
    m.sata("sda")
    m.mount("/", "sda1")
    m._numbers["zram0"] = "252:0"
    m._done["zram0"] = 1000
    m.has(
        {
            "/sys/block/zram0/size": "16000000\n",
            "/sys/block/zram0/dev": "252:0\n",
            "/sys/block/zram0/ro": "0\n",
            "/sys/block/zram0/holders": None,
            "/sys/block/zram0/slaves": None,
            "/proc/swaps": (
                "Filename\tType\tSize\tUsed\tPriority\n/dev/zram0 partition 8000000 7990000 100\n"
            ),
        }
    )
    yield 20
    m.fault()
    m.says(
        *(f"Write-error on swap-device (252:0:{sector})" for sector in range(8, 80, 8)), priority=1
    )
    yield 150


REVIEWS: dict[str, tuple[Scenario, Wanted]] = {
    each.__name__: (each, wanted)
    for each, wanted in (
        (
            check_meets_a_bad_sector,
            Wanted(
                severity="WARNING",
                subject=("sdc",),
                within=64,
                most=1,
                says=("md0", "S-sdc"),
                never=("CRITICAL", *FAIL_MEMBER, *NO_ERASE),
            ),
        ),
        (check_finds_what_swap_left, SILENCE),
        (
            rebuild_meets_a_bad_sector,
            # The first mail is that an array without redundancy is rebuilt, before the sector.
            Wanted(
                subject=("md0: 1 member missing", "sdb1 holds"),
                within=6,
                most=3,
                says=("md0", "sdd1", "S-sdb", "a read failed and no copy was readable"),
                never=(*FAIL_MEMBER, "--add", "--re-add", "not there", *NO_ERASE),
            ),
        ),
        (
            two_members_grow_pending_sectors,
            Wanted(
                threads=2,
                subject=("sdb", "sdd"),
                within=130,
                most=6,
                says=("S-sdb", "S-sdd", "md0"),
                never=(*FAIL_MEMBER, *NO_ERASE),
            ),
        ),
        (sleeping_disk_is_woken, SILENCE),
        (
            nvme_protects_itself_from_writes,
            Wanted(
                subject=("nvme0n1",),
                within=6,
                most=3,
                says=("NV9", "/db", "read-only"),
                never=(*MD, "scterc", "device/timeout", "xfs_repair -L /", *NO_ERASE),
            ),
        ),
        (
            encrypted_disk_dies,
            Wanted(
                subject=("sdb",),
                within=64,
                most=3,
                says=("S-sdb", "/home"),
                never=(*MD, "smartctl -a /dev/dm", "smartctl -x /dev/dm", *NO_ERASE),
            ),
        ),
        (
            storm_of_another_driver,
            Wanted(
                severity="WARNING",
                subject=("sdb",),
                within=70,
                most=1,
                says=("409608", "/data"),
                never=("iwlwifi", *MD),
                over=None,
            ),
        ),
        (
            sector_below_swap_and_root,
            Wanted(
                subject=("sda",),
                within=6,
                most=2,
                says=("swapped out", "S-sda"),
                never=(*MD, "mkswap", *NO_ERASE),
            ),
        ),
        (
            firmware_crashes_twice_a_day,
            Wanted(
                threads=1,
                subject=(
                    "host0: a host adapter",
                    "host0: was: a host adapter",
                    "REOPENED: a host adapter",
                ),
                within=14,
                most=3,
                says=("mpt3sas", "/a", "/b"),
                never=(*MD, "--fail", "scterc"),
                over=None,
            ),
        ),
        (
            threeware_rebuilds_after_a_timeout,
            Wanted(
                subject=("host6",),
                within=6,
                most=3,
                says=("/srv", "port=1"),
                never=(*MD, "hdparm -", *NO_ERASE),
                over=None,
            ),
        ),
        (
            smart_array_loses_its_battery,
            Wanted(
                severity="WARNING",
                subject=("hp slot 0",),
                within=960,
                most=2,
                says=("/srv", "slow", "ssacli"),
                never=(*MD, "nobatterywritecache=enable", "forcedwritecache", *NO_ERASE),
            ),
        ),
        (
            snapshot_overflows,
            Wanted(
                subject=("snapshot",),
                within=64,
                most=2,
                says=("/mnt/snap", "lvs"),
                never=(*MD, "smartctl", "e2fsck -f /dev/mapper/vg-data ", *NO_ERASE),
            ),
        ),
        (
            ext4_goes_on_after_errors,
            Wanted(
                subject=("/srv",),
                within=15,
                most=2,
                says=("/srv", "e2fsck -f"),
                never=(*MD, "read-only since", *NO_ERASE),
            ),
        ),
        (
            integrity_fails_below_a_file_system,
            Wanted(
                severity="CRITICAL",
                subject=("checked",),
                within=64,
                most=2,
                says=("/vault", "S-sdb", "checksum"),
                never=(*MD, "smartctl -a /dev/dm", "smartctl -x /dev/dm", *NO_ERASE),
            ),
        ),
        (
            compressed_swap_takes_no_more,
            Wanted(
                severity="WARNING",
                subject=("zram0",),
                within=64,
                most=2,
                says=("swap",),
                never=(*MD, "smartctl", "eplace the disk", "cannot be read back", *NO_ERASE),
                over=None,
            ),
        ),
    )
}

REVIEWS_WITHOUT_LOG: dict[str, Wanted] = {
    "check_meets_a_bad_sector": SILENCE,
    # The bad blocks of both members tell of it, after a minute: that is how long md may need.
    # That a member lists bad blocks that no other one has is as bad as the log's own line.
    "rebuild_meets_a_bad_sector": replace(
        REVIEWS["rebuild_meets_a_bad_sector"][1],
        says=("sdb1", "sdd1", "bad_blocks"),
    ),
    "nvme_protects_itself_from_writes": replace(
        REVIEWS["nvme_protects_itself_from_writes"][1], within=70
    ),
    "ext4_goes_on_after_errors": replace(
        REVIEWS["ext4_goes_on_after_errors"][1], subject=("sdb1",), within=70
    ),
    "sleeping_disk_is_woken": SILENCE,
}
"""The same where the kernel's log cannot be read."""
