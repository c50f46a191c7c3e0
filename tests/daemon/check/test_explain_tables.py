"""`iowarden explain` with what administrators paste: df, lsscsi, sensors, btrfs, zpool list."""

from __future__ import annotations

import re

import pytest
from support.explained import read, rules

from iowarden.collectors.model import ParseError
from iowarden.collectors.tool_output import space, zpool
from iowarden.rules.rulefile.rulefile import Rule

# --- btrfs-progs

KINDS = ("write_io", "read_io", "flush_io", "corruption", "generation")
STATS = """\
[/dev/sdb].write_io_errs    0
[/dev/sdb].read_io_errs     0
[/dev/sdb].flush_io_errs    0
[/dev/sdb].corruption_errs  0
[/dev/sdb].generation_errs  0
[devid:2].write_io_errs    0
[devid:2].read_io_errs     0
[devid:2].flush_io_errs    0
[devid:2].corruption_errs  0
[devid:2].generation_errs  0
"""


@pytest.mark.parametrize("device", ["/dev/sdb", "devid:2"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_count_of_a_btrfs_device_is_told_with_the_device(kind: str, device: str) -> None:
    """The neighbour's counts are 0, and stay well; all of them 0 is well."""
    row = next(line for line in STATS.split("\n") if line.startswith(f"[{device}].{kind}_errs"))
    explained = read(STATS.replace(row, f"{row[:-1]}17"))
    (alert,) = explained.alerts
    assert (alert.severity, alert.object) == ("warning", device)
    assert alert.text.startswith(f"{device}: 17 ")
    assert [each.state for each in explained.objects].count("ok") == 1
    assert read(STATS).status == 0


def test_a_count_that_a_later_btrfs_adds_or_a_cut_text_lacks_is_not_well() -> None:
    """Neither is there a verdict on what was not read."""
    assert read(f"{STATS}[/dev/sdb].dedupe_errs   3\n").status == 2
    assert read("".join(STATS.splitlines(keepends=True)[:3])).status == 2


SCRUB = """\
UUID:             7d7e1b0c-5a3c-4a0e-9d3e-0a1b2c3d4e5f
Scrub started:    Sun Nov  1 03:00:07 2026
Status:           {state}
Duration:         0:10:13
Total to scrub:   1.09TiB
Rate:             1.82GiB/s
Error summary:    {errors}
"""
OLD_SCRUB = """\
scrub status for 7d7e1b0c-5a3c-4a0e-9d3e-0a1b2c3d4e5f
\tscrub started at Sun Nov  1 03:00:07 2020 and {state} after 00:10:13
\ttotal bytes scrubbed: 1.09TiB with {errors} errors
"""
UNREPAIRED = "csum=5\n  Corrected:      3\n  Uncorrectable:  2\n  Unverified:     0"


@pytest.mark.parametrize(
    ("text", "severity", "told"),
    [
        (SCRUB.format(state="finished", errors="no errors found"), "", ""),
        (SCRUB.format(state="running", errors="no errors found"), "", ""),
        (SCRUB.format(state="aborted", errors="no errors found"), "notice", "ended before"),
        (SCRUB.format(state="finished", errors=UNREPAIRED), "critical", "not repair 2 blocks"),
        (
            SCRUB.format(state="finished", errors=UNREPAIRED.replace("le:  2", "le:  0")),
            "warning",
            "found errors",
        ),
        (OLD_SCRUB.format(state="finished", errors=0), "", ""),
        (OLD_SCRUB.format(state="was aborted", errors=0), "notice", "ended before"),
        (
            OLD_SCRUB.format(state="finished", errors=5) + "\terror details: csum=5\n\tcorrected"
            " errors: 3, uncorrectable errors: 2, unverified errors: 0\n",
            "critical",
            "not repair 2 blocks",
        ),
    ],
)
def test_a_btrfs_scrub_is_explained(text: str, severity: str, told: str) -> None:
    """In the words of today's and of older versions."""
    explained = read(text)
    assert not explained.unparsed
    assert explained.status == (1 if severity else 0)
    assert [each.severity for each in explained.alerts] == ([severity] if severity else [])
    assert all(told in each.text for each in explained.alerts)


SHOWN = """\
Label: 'data'  uuid: 7d7e1b0c-5a3c-4a0e-9d3e-0a1b2c3d4e5f
\tTotal devices 2 FS bytes used 1.20TiB
\tdevid    1 size 3.64TiB used 1.25TiB path /dev/sdb
\t{second}

"""


@pytest.mark.parametrize(
    ("second", "status"),
    [
        ("devid    2 size 3.64TiB used 1.25TiB path /dev/sdc", 0),
        ("devid    2 size 0 used 0 path <missing disk> MISSING", 1),
        ("devid    2 size 0 used 0 path  MISSING", 1),
        ("*** Some devices missing", 1),
        ("### pondering", 2),
    ],
)
def test_a_btrfs_that_misses_a_device_is_told(second: str, status: int) -> None:
    """By its label; advice never removes the others."""
    explained = read(SHOWN.format(second=second))
    assert explained.status == status
    assert [each.object for each in explained.alerts] == (["data"] if status == 1 else [])
    assert all("remove" not in each.advice for each in explained.alerts)


USAGE = """\
Overall:
    Device size:\t\t   7.28TiB
    Device allocated:\t\t   7.27TiB
    Device unallocated:\t\t   {unallocated}
    Device missing:\t\t     {missing}
    Used:\t\t\t   6.10TiB
    Free (estimated):\t\t 500.00GiB\t(min: 500.00GiB)

Data,RAID1: Size:3.63TiB, Used:3.00TiB (82.64%)
   /dev/sdb\t   3.63TiB
   /dev/sdc\t   3.63TiB

Metadata,RAID1: Size:5.00GiB, Used:{metadata}GiB (50.00%)
   /dev/sdb\t   5.00GiB

Unallocated:
   /dev/sdb\t   1.02MiB
"""


@pytest.mark.parametrize(
    ("unallocated", "missing", "metadata", "alert"),
    [
        ("12.00GiB", "0.00B", "2.50", ""),
        ("2.00MiB", "0.00B", "2.50", ""),
        ("2.00MiB", "0.00B", "4.80", "BtrfsNoRoom"),
        ("12.00GiB", "0.00B", "4.80", ""),
        ("12.00GiB", "3.64TiB", "2.50", "BtrfsDeviceMissing"),
    ],
)
def test_a_btrfs_whose_metadata_get_no_room_is_told_before_writes_fail(
    unallocated: str, missing: str, metadata: str, alert: str
) -> None:
    """Full metadata may grow while space is unallocated; unallocated space alone is no fault."""
    text = USAGE.format(unallocated=unallocated, missing=missing, metadata=metadata)
    explained = read(text)
    assert not explained.unparsed
    assert [each.alert for each in explained.alerts] == ([alert] if alert else [])


# --- df

DF = """\
Filesystem      Size  Used Avail Use% Mounted on
udev            7.8G     0  7.8G   0% /dev
tmpfs           1.6G  1.6G     0 100% /run
/dev/loop3       64M   64M     0 100% /snap/core20/2182
/dev/sr0        3.7G  3.7G     0 100% /media/cdrom0
/dev/mapper/vg-root
                219G  {used}  {left} {share} {point}
"""


@pytest.mark.parametrize(
    ("used", "left", "share", "severity"),
    [
        ("100G", "119G", "46%", ""),
        ("175G", "44G", "80%", ""),
        ("180G", "28G", "87%", "warning"),
        ("208G", "0", "100%", "critical"),
        ("9,1T", "1,2T", "89%", ""),
    ],
)
@pytest.mark.parametrize("point", ["/", "/srv/with blank"])
def test_a_full_file_system_is_told_and_a_full_image_is_not(
    used: str, left: str, share: str, severity: str, point: str
) -> None:
    """As the rules do: not while 100 GB are left. Memory, images and discs are not full."""
    explained = read(DF.format(used=used, left=left, share=share, point=point))
    assert not explained.unparsed
    assert [(each.severity, each.object) for each in explained.alerts] == (
        [(severity, point)] if severity else []
    )


def test_blocks_inodes_and_types_of_df_are_read() -> None:
    """'df' counts blocks of 1 KiB; 'df -i' inodes; 'df -T' has a column more."""
    blocks = """\
Filesystem     1K-blocks     Used Available Use% Mounted on
/dev/sda2      229620300 208620300    900000  97% /
/dev/sdb1     9229620300 8208620300 900000000  91% /srv
"""
    assert [each.object for each in read(blocks).alerts] == ["/"]
    inodes = """\
Filesystem      Inodes   IUsed   IFree IUse% Mounted on
/dev/sda2     14655488 14655400      88  100% /
/dev/sdb1            0       0       0     - /boot/efi
"""
    assert [each.alert for each in read(inodes).alerts] == ["FilesystemInodesLow"]
    types = """\
Filesystem     Type      Size  Used Avail Use% Mounted on
tmpfs          tmpfs     1.6G  1.8M  1.6G   1% /run
/dev/nvme0n1p2 ext4      219G  208G  2.1G  99% /
/dev/loop0     squashfs   64M   64M     0 100% /snap/x/1
"""
    assert [each.object for each in read(types).alerts] == ["/"]


def test_a_mount_that_df_could_not_read_is_a_fault() -> None:
    """'Input/output error' and a stale NFS handle."""
    text = "df: /mnt/nfs: Stale file handle\n" + DF.format(
        used="100G", left="119G", share="46%", point="/"
    )
    explained = read(text)
    assert explained.status == 1
    assert [each.text for each in explained.unparsed] == ["df: /mnt/nfs: Stale file handle"]


# --- lsscsi, sensors

LSSCSI = """\
[0:0:0:0]    disk    ATA      ST4000NM0035-1V4 TN05  /dev/sda
  state=running queue_depth=32 scsi_level=6 type=0 device_blocked=0 timeout=30
[0:2:1:0]    disk    LSI      MR9271-8i        3.46  {node}
  state={state} queue_depth=256 scsi_level=6 type=0 device_blocked=0 timeout=30
"""


@pytest.mark.parametrize(
    ("state", "severity"),
    [
        ("running", ""),
        ("created", ""),
        ("offline", "critical"),
        ("transport-offline", "critical"),
        ("blocked", "warning"),
        ("quiesce", "notice"),
        ("created-blocked", "notice"),
        ("cancel", "warning"),
        ("deleted", "warning"),
    ],
)
@pytest.mark.parametrize(("node", "name"), [("/dev/sdb", "sdb"), ("-", "0:2:1:0")])
def test_a_scsi_device_that_takes_no_requests_is_told(
    state: str, severity: str, node: str, name: str
) -> None:
    """Each state of drivers/scsi/scsi_sysfs.c; of a device without a node its place is the name."""
    explained = read(LSSCSI.format(state=state, node=node))
    assert explained.status == (1 if severity else 0)
    assert [(each.severity, each.object) for each in explained.alerts] == (
        [(severity, name)] if severity else []
    )


def test_a_list_of_scsi_devices_without_states_is_no_verdict() -> None:
    """'lsscsi' alone; and a state that a later kernel has."""
    plain = [line for line in LSSCSI.split("\n") if "state=" not in line]
    explained = read("\n".join(plain).format(node="/dev/sdb"))
    assert explained.status == 2
    assert "lsscsi -l" in explained.unparsed[0].reason
    assert read(LSSCSI.format(state="pondering", node="/dev/sdb")).status == 2


SENSORS = """\
coretemp-isa-0000
Adapter: ISA adapter
Package id 0:  +99.0°C  (high = +80.0°C, crit = +100.0°C)

drivetemp-scsi-0-0
Adapter: SCSI adapter
temp1:        {disk}  (low  =  +0.0°C, high = +55.0°C)
                       (crit low = -40.0°C, crit = +70.0°C)
                       (lowest = +21.0°C, highest = +71.0°C)

nvme-pci-0100
Adapter: PCI adapter
Composite:    +{nvme}°C  (low  = -273.1°C, high = +81.8°C)
                       (crit = +84.8°C)
Sensor 1:     +84.8°C  (low  = -273.1°C, high = +65261.8°C)
"""


@pytest.mark.parametrize(
    ("disk", "nvme", "told"),
    [
        ("+40.0°C", "41.8", []),
        ("+55.0°C", "41.8", [("warning", "drivetemp-scsi-0-0 temp1")]),
        ("+40.0°C", "84.8", [("critical", "nvme-pci-0100 Composite")]),
        (
            "+70.0°C",
            "82.0",
            [("critical", "drivetemp-scsi-0-0 temp1"), ("warning", "nvme-pci-0100 Composite")],
        ),
    ],
)
def test_a_drive_at_its_own_limit_is_told_and_a_processor_is_not(
    disk: str, nvme: str, told: list[tuple[str, str]]
) -> None:
    """The highest temperature ever, and a limit that no drive has, are none."""
    explained = read(SENSORS.format(disk=disk, nvme=nvme))
    assert [(each.severity, each.object) for each in explained.alerts] == told
    assert not explained.unparsed


def test_sensors_without_a_drive_or_its_value_are_no_verdict() -> None:
    """The module drivetemp is not loaded; the drive sleeps."""
    explained = read("\n".join(SENSORS.split("\n")[:3]))
    assert explained.status == 2
    assert "modprobe drivetemp" in explained.unparsed[0].reason
    assert read(SENSORS.format(disk="N/A", nvme="41.8")).status == 2


# --- nvme error-log, zpool list

ENTRY = """\
 Entry[ {number}]
.................
error_count\t: {count}
sqid\t\t: 2
status_field\t: {status}
phase_tag\t: 0
lba\t\t: 0x1234
nsid\t\t: 0x1
.................
"""
ERRORS = "Error Log Entries for device:nvme0n1 entries:64\n.................\n{entries}"


@pytest.mark.parametrize(
    ("status", "exit_status", "alert"),
    [
        ("0x4004(INVALID_FIELD: A reserved coded value or an unsupported value)", 0, ""),
        ("0x2002(Invalid Field in Command: A reserved coded value)", 0, ""),
        ("0x6004(INVALID_OPCODE: The associated command opcode field is not valid)", 0, ""),
        ("0x281(UNRECOVERED_READ: The read data could not be recovered)", 1, "NvmeMediaErrors"),
        ("0x281(Unrecovered Read Error: The read data could not be)", 1, "NvmeMediaErrors"),
        ("0x280(WRITE_FAULT: The write data could not be committed)", 1, "NvmeMediaErrors"),
        ("0x6(INTERNAL: The command was not completed successfully)", 1, "NvmeErrorLog"),
        ("0x77(PONDERING: The drive is not sure)", 2, ""),
    ],
)
def test_an_error_of_the_drive_is_told_and_one_of_the_host_is_not(
    status: str, exit_status: int, alert: str
) -> None:
    """A drive logs each command that it does not know; an entry that was never used counts 0."""
    unused = ENTRY.format(number=1, count=0, status="0(SUCCESS: The command completed)")
    text = ERRORS.format(entries=ENTRY.format(number=0, count=3, status=status) + unused)
    explained = read(text)
    assert explained.status == exit_status
    assert [(each.alert, each.object) for each in explained.alerts] == (
        [(alert, "nvme0n1")] if alert else []
    )


def test_a_health_log_above_an_error_log_is_read_as_well() -> None:
    """Both are one paste; the drive's spare is used up."""
    health = """\
Smart Log for NVME device:nvme0n1 namespace-id:ffffffff
critical_warning : 0x1
temperature : 41 C
available_spare : 3%
available_spare_threshold : 10%
percentage_used : 60%
media_errors : 0
"""
    unused = ENTRY.format(number=0, count=0, status="0(SUCCESS: The command completed)")
    explained = read(health + ERRORS.format(entries=unused))
    assert explained.outputs == ("nvme smart-log", "nvme error-log")
    assert "critical" in {each.severity for each in explained.alerts}


POOLS = """\
NAME    SIZE  ALLOC   FREE  CKPOINT  EXPANDSZ   FRAG    CAP  DEDUP    HEALTH  ALTROOT
rpool   928G   112G   816G        -         -     8%    12%  1.00x    ONLINE  -
tank   {size}  {alloc} {free}     -         -    61%    {cap}  1.00x  {health}  -
  mirror-0  10.9T  5T  5.9T     -         -    61%  46%      -    ONLINE
    sda         -      -      -        -         -      -      -      -    ONLINE
"""


@pytest.mark.parametrize(
    ("free", "cap", "health", "told"),
    [
        ("20.0T", "46%", "ONLINE", []),
        ("7.0T", "84%", "ONLINE", []),
        ("70G", "84%", "ONLINE", [("warning", "ZfsPoolFull")]),
        ("4.0T", "91%", "ONLINE", [("warning", "ZfsPoolFull")]),
        ("70G", "91%", "ONLINE", [("critical", "ZfsPoolFull")]),
        ("1.2T", "97%", "ONLINE", [("critical", "ZfsPoolFull")]),
        ("20.0T", "46%", "DEGRADED", [("warning", "ZfsPoolDegraded")]),
        ("-", "-", "FAULTED", [("critical", "ZfsPoolFailed")]),
        ("20.0T", "46%", "SUSPENDED", [("critical", "ZfsPoolFailed")]),
    ],
)
def test_a_list_of_pools_is_explained(
    free: str, cap: str, health: str, told: list[tuple[str, str]]
) -> None:
    """By state and by what is used, as the rules do; rows of devices below a pool are in it."""
    text = POOLS.format(size="43.6T", alloc="20T", free=free, cap=cap, health=health)
    explained = read(text)
    assert not explained.unparsed
    assert [(each.severity, each.alert) for each in explained.alerts] == told
    assert {each.object for each in explained.alerts} <= {"tank"}


def test_a_pool_in_a_state_of_a_later_version_is_never_well() -> None:
    """Nor is a table without rows."""
    text = POOLS.format(size="43.6T", alloc="20T", free="20T", cap="46%", health="PONDERING")
    assert read(text).status == 2
    assert read(POOLS.split("\n", maxsplit=1)[0]).status == 2


# --- programs that show no health


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (
            "lsblk",
            "NAME   MAJ:MIN RM   SIZE RO TYPE MOUNTPOINTS\nsda      8:0    0 2.5T  0 disk\n",
        ),
        ("blkid", '/dev/sda1: UUID="5C1A-1B2C" TYPE="vfat" PARTUUID="7e1b"\n'),
        ("fdisk", "Disk /dev/sda: 3.64 TiB, 4000787030016 bytes, 7814037168 sectors\n"),
        (
            "iostat",
            "Linux 6.1.0 (db1)\n\nDevice        r/s     rkB/s   rrqm/s\nsda  1.0  16.0 0\n",
        ),
        ("hdparm", "/dev/sda:\n Timing cached reads:   20000 MB in  2.00 seconds\n"),
        ("nvme list", "Node                  SN                   Model\n/dev/nvme0n1 S4 X\n"),
        ("lspci", "01:00.0 RAID bus controller: LSI MegaRAID SAS 2208 (rev 05)\n"),
        ("mount", "/dev/sda1 on / type ext4 (rw,relatime)\n"),
        ("findmnt", "TARGET  SOURCE    FSTYPE OPTIONS\n/  /dev/sda1 ext4 rw\n"),
        ("/proc/partitions", "major minor  #blocks  name\n\n   8        0  976762584 sda\n"),
        ("/proc/swaps", "Filename    Type   Size  Used  Priority\n/dev/sda2 partition 1 0 -2\n"),
        ("zpool iostat", "              capacity     operations     bandwidth\npool  alloc free\n"),
        ("dd", "1024+0 records in\n1024+0 records out\n"),
        ("/proc/pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"),
        ("nvme id-ctrl", "NVME Identify Controller:\nvid : 0x144d\n"),
        ("lsusb", "Bus 002 Device 003: ID 152d:0578 JMicron Technology Corp.\n"),
        ("smartctl --scan", "/dev/sda -d scsi # /dev/sda, SCSI device\n"),
        ("dmsetup ls", "vg0-root\t(254:0)\n"),
        ("lvdisplay", "  --- Logical volume ---\n  LV Path   /dev/vg0/root\n"),
        ("mdadm --scan", "ARRAY /dev/md0 metadata=1.2 UUID=6c1f\n"),
        ("zfs list", "NAME   USED  AVAIL  REFER  MOUNTPOINT\ntank  1T 2T 96K /tank\n"),
        ("zpool history", "History for 'tank':\n2024-01-01.10:00:00 zpool create tank sda\n"),
        ("fsck", "e2fsck 1.47.0 (5-Feb-2023)\nPass 1: Checking inodes, blocks, and sizes\n"),
        ("xfs_repair", "Phase 1 - find and verify superblock...\n"),
        ("badblocks", "Checking blocks 0 to 976762583\n35404672\n"),
        ("ceph", "  cluster:\n    id:     a7f6\n    health: HEALTH_WARN\n"),
        ("drbd", "r0 role:Primary\n  disk:UpToDate\n"),
        ("iscsiadm", "tcp: [1] 10.0.0.5:3260,1 iqn.2003-01.org:x (non-flash)\n"),
        ("hddtemp", "/dev/sda: WDC WD40EFRX-68N32N0: 34 °C\n"),
        ("omreport", "List of Physical Disks on Controller PERC H730\n\nID : 0:1:0\n"),
        ("free", "               total        used        free      shared  buff/cache\n"),
    ],
)
def test_a_program_that_shows_no_health_is_named_with_what_does(program: str, text: str) -> None:
    """Never 'nothing wrong', and not 'add --as' of programs that it is none of."""
    with pytest.raises(ParseError, match=f"^'{program}' ") as refused:
        read(text)
    assert "--as" not in str(refused.value)


@pytest.mark.parametrize(
    ("alert", "levels"),
    [
        ("FilesystemFull", {space.NEARLY_FULL_RATIO, space.FULL_RATIO}),
        ("ZfsPoolFull", {percent / 100 for percent in (*zpool.FULL, *zpool.FULL_BUT_AMPLE)}),
    ],
)
def test_what_is_full_in_a_text_is_what_the_rules_call_full(alert: str, levels: set[float]) -> None:
    """The rules are not read for a text; a changed threshold is changed in both."""
    groups, _ = rules()
    texts = [
        rule.expression.text
        for group in groups
        for rule in group.rules
        if isinstance(rule, Rule) and rule.alert == alert
    ]
    ratios = {float(n) for text in texts for n in re.findall(r"used_ratio > ([\d.]+)", text)}
    assert ratios == levels
    assert all(f">= {space.AMPLE_BYTES:.0e}".replace("+", "") in text for text in texts)
