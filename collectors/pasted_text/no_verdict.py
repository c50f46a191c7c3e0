"""Programs whose output shows no state of health: a text of theirs is refused with the reason.

A user who pastes the output of lsblk wants to know whether the disks are well: the reason names
what shows that. Some programs do show faults, and have no parser: that is the reason, for a disk
must not be called well for want of one. Source: the manual page of each program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    import re

_LAYOUT = "shows how disks are divided, not whether they are well; see: smartctl -x /dev/DISK"
_LOAD = (
    "shows load and latency, not health; 'iowarden top' and 'iowarden trace DISK' judge it on the"
    " host itself"
)
_IDENTITY = "shows which drives there are, not whether they are well; see: smartctl -x /dev/DISK"
_HOST = "is not about storage"
_ARRAYS = "shows which arrays there are, not their state; see: cat /proc/mdstat"
_VOLUMES = "is not read; see: lvs -a -o +devices,lv_health_status; vgs; pvs"
_DATASETS = "shows space and settings, not whether a pool is well; see: zpool status -v; zpool list"
_NO_POOL = "shows no imported pool: nothing was judged; pools that can be imported: zpool import"
_NO_DEVICE = "shows no mapped device: nothing was judged"
_CHECKED = (
    "is not read: what it found, and whether it repaired it, is in its last lines; what the kernel"
    " reported of the file system: journalctl -k"
)
_SECTORS = "is not read: each number is a block that could not be read; see: smartctl -x /dev/DISK"
_CLUSTER = "is not read: its state is in its first lines; of the disks below it: smartctl -x"
_CEPH = (
    "is not read: what is wrong with the cluster: ceph health detail; of the disks of an OSD: ceph"
    " osd metadata ID, then smartctl -x /dev/DISK on its host"
)
_PAGES = "is not read; the same data of the drive: smartctl -x /dev/DISK"
_ENCLOSURE = (
    "is not read: 'Critical', 'Noncritical' and 'Unrecoverable' in it are faults of the enclosure;"
    " of a drive itself: smartctl -x /dev/DISK"
)
_LIGHTS = (
    "shows which lights of the bays are on, and not why: one may have been set by hand; of the"
    " drive: smartctl -x /dev/DISK; of its array: cat /proc/mdstat"
)
_PATH_COUNTS = "shows counts or names, not which paths work; see: multipath -ll"
_VENDOR = "is not read; what the drives report themselves: smartctl -x /dev/DISK"
_PERC = "is not read; of the controller itself: perccli /call show all"
_MEGARAID = (
    "is not read; of the controller itself: storcli /call show all, or MegaCli -LdPdInfo -aALL"
)
_SERVERAID = "is not read; 'Critical', 'Offline' and 'Defunct' in it are faults"
_OLD_CARD = (
    "is not read: a 'fail', 'missing' or 'degraded' in it, and a '!' between offset and size of"
    " a container's part, are faults; what the kernel reported: journalctl -k"
)
_SESSIONS = "shows sessions, not whether they work, and is not read; see: journalctl -k -u iscsid"

_SIGN_OF_CEPH = (
    r"cluster:[ \t]*$|(?:health:? )?HEALTH_(?:OK|WARN|ERR)|ID +(?:CLASS +)?WEI"
    r"|\[(?:WRN|ERR)\] [A-Z_]+:"
    r"|OSD_STAT +USED|POOL_NAME +USED|--- RAW STORAGE ---|\d{1,6} osds?: \d{1,6} up"
)
_SIGN_OF_HDSENTINEL = r"Hard Disk Sentinel|HDD Device +\d{1,3}: |HDD Model ID *:"
_SIGN_OF_LEDCTL = (
    r"/(?:sys/devices|dev)/\S{1,200}: (?:NORMAL|LOCATE|LOCATE_OFF|FAULT|FAILED_DRIVE|FAILURE"
    r"|REBUILD|PFA|HOTSPARE|ICA|IFA|UNKNOWN|(?i:normal|locate|failure|rebuild|fault))[ \t]*$"
    r"|slot: .{1,80} led state: "
)
_SIGN_OF_OMREPORT = (
    r"List of (?:Physical Disks|Virtual Disks|Batteries|Controllers|Connectors|Enclosures)\b"
    r"|Controllers? +PERC .{1,60} \("
)
_PROGRAMS: tuple[tuple[str, re.Pattern[str], str], ...] = tuple(
    (name, lazy_pattern(rf"^[ \t]*(?:{sign})"), reason)
    for name, sign, reason in (
        ("zfs list", r"NAME[ \t]+(?:USED|AVAIL)[ \t]", _DATASETS),
        ("lsblk", r"NAME[ \t]+(?:[A-Z:-]+[ \t]+){2,}(?:MOUNTPOINTS?|FSTYPE|SIZE|TYPE)\b", _LAYOUT),
        ("blkid", r"/dev/\S{1,60}: (?:[A-Z_]+=\"[^\"\n]*\" ?){1,}", _LAYOUT),
        ("fdisk", r"Disk /dev/\S{1,60}: [\d.]+ ?[KMGTP]i?B\b", _LAYOUT),
        ("parted", r"Model: .{1,80} \(\w{1,20}\)[ \t]*$", _LAYOUT),
        ("mount", r"\S{1,200} on /\S{0,200} type \w{1,20} \(", _LAYOUT),
        ("findmnt", r"TARGET[ \t]+SOURCE[ \t]+FSTYPE", _LAYOUT),
        ("/proc/partitions", r"major minor  #blocks  name", _LAYOUT),
        ("/proc/swaps", r"Filename[ \t]+Type[ \t]+Size[ \t]+Used", _LAYOUT),
        ("zpool iostat", r"(?:pool[ \t]+alloc[ \t]+free|capacity[ \t]+operations)\b", _LOAD),
        ("iostat", r"(?:Device:?|avg-cpu:)[ \t]+\S*(?:r/s|tps|rrqm|%user)", _LOAD),
        ("iotop", r"Total DISK READ[ \t]*:", _LOAD),
        ("top", r"top - \d\d:\d\d:\d\d up ", _LOAD),
        ("sar", r"\d\d:\d\d:\d\d(?: [AP]M)?[ \t]+DEV[ \t]+tps", _LOAD),
        ("pidstat", r"\d\d:\d\d:\d\d(?: [AP]M)?[ \t]+UID[ \t]+PID[ \t]", _LOAD),
        ("dstat", r"-{2,}total-cpu-usage-{2,}|-{2,}dsk/total", _LOAD),
        ("dd", r"\d{1,20}(?: bytes .{1,60} copied, |\+\d{1,9} records in)", _LOAD),
        ("ioping", r"\d{1,9} [KMG]?i?B (?:<<<|>>>|from) ", _LOAD),
        ("/proc/pressure/io", r"(?:some|full) avg10=\d", _LOAD),
        ("/proc/diskstats", r"\d{1,5}[ \t]+\d{1,7} \w{1,32}(?: \d{1,20}){11,}[ \t]*$", _LOAD),
        ("fio", r"fio-\d|[ \t]*(?:read|write): IOPS=", _LOAD),
        ("hdparm", r"Timing (?:cached|buffered|O_DIRECT) ", _LOAD),
        ("hdparm -I", r"ATA device, with non-removable media", _IDENTITY),
        ("nvme list", r"Node[ \t]+(?:Generic[ \t]+)?SN[ \t]+Model\b", _IDENTITY),
        ("nvme list", r"\{?[ \t]*\"Devices\"[ \t]*:[ \t]*\[", _IDENTITY),
        ("nvme id-ctrl", r"NVME Identify (?:Controller:|Namespace )", _IDENTITY),
        ("lspci", r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d [A-Z]", _IDENTITY),
        ("lsusb", r"Bus \d{3} Device \d{3}: ID ", _IDENTITY),
        ("lshw", r"\*-(?:disk|storage|nvme|raid|sata|scsi)(?::\d+)?[ \t]*$", _IDENTITY),
        ("/proc/scsi/scsi", r"Attached devices:[ \t]*$", _IDENTITY),
        ("smartctl --scan", r"/dev/\S{1,60} -d \S{1,40} # /dev/", _IDENTITY),
        ("ls", r"l[rwx]{9}\S? .* -> (?:\.\./){1,4}(?:sd|nvme|dm-|md)\w", _IDENTITY),
        ("dmsetup ls", r"\S{1,200}[ \t]+\(\d{1,4}:\d{1,7}\)[ \t]*$", _VOLUMES),
        ("dmsetup info", r"Name[ \t]+Maj Min Stat Open|State: +(?:ACTIVE|SUSPENDED)", _VOLUMES),
        ("lvdisplay", r"--- (?:(?:Logical|Physical) volume|Volume group) ---", _VOLUMES),
        ("mdadm --scan", r"ARRAY /dev/\S{1,60} ", _ARRAYS),
        ("zpool get", r"NAME[ \t]+PROPERTY[ \t]+VALUE[ \t]+SOURCE", _DATASETS),
        ("zpool", r"no pools available[ \t]*$", _NO_POOL),
        ("dmsetup", r"No devices found[ \t]*$", _NO_DEVICE),
        ("zpool history", r"History for '.{1,255}':", _DATASETS),
        ("btrfs subvolume list", r"ID \d{1,20} gen \d{1,20} (?:top level|parent) ", _LAYOUT),
        ("fsck", r"fsck (?:from util-linux|\d)|e2fsck \d|Pass 1: Checking inodes", _CHECKED),
        ("xfs_repair", r"Phase 1 - find and verify superblock", _CHECKED),
        ("badblocks", r"Checking (?:for bad )?blocks|Pass completed, \d{1,20} bad", _SECTORS),
        ("ceph", _SIGN_OF_CEPH, _CEPH),
        ("drbd", r"version: \d\S* \(api:|\S{1,60} role:(?:Primary|Secondary)", _CLUSTER),
        ("gluster", r"Status of volume: |Volume Name: ", _CLUSTER),
        ("nfsstat", r"(?:Client|Server) (?:rpc|nfs)\b", _LOAD),
        ("iscsiadm", r"(?:tcp|iser): \[\d{1,9}\] |Target: iqn\.", _SESSIONS),
        ("hddtemp", r"/dev/\S{1,60}: .{1,80}: (?:\d{1,3} ?°|drive is sleeping)", _VENDOR),
        ("openSeaChest", r"openSeaChest|SeaChest_", _VENDOR),
        ("intelmas", r"- (?:Intel|Solidigm) .{0,60}SSD|Intel\(R\) (?:SSD|MAS)", _VENDOR),
        ("sg_ses", r"Enclosure [Ss]tatus diagnostic page:|.{1,60}Element type: \w", _ENCLOSURE),
        ("sg_logs", r"[A-Z][\w /()-]{2,60} page +(?:\(.{1,40}\) +)?\[0x[0-9a-f]", _PAGES),
        ("sg_logs", r"Supported log pages .{0,40}:|log_page=0x[0-9a-f]", _PAGES),
        ("ledctl", _SIGN_OF_LEDCTL, _LIGHTS),
        ("multipathd show", r"name[ \t]+(?:sysfs[ \t]+uuid|path_faults)\b", _PATH_COUNTS),
        ("hdsentinel", _SIGN_OF_HDSENTINEL, _VENDOR),
        ("megaclisas-status", r"-- Controller information --[ \t]*$", _MEGARAID),
        ("ipssend", r"Found \d{1,2} IBM ServeRAID controller", _SERVERAID),
        ("omreport", _SIGN_OF_OMREPORT, _PERC),
        ("racadm", r"(?:Disk|RAID|AHCI|NonRAID|BOSS)\.[\w.:-]{3,120}[ \t]*$", _PERC),
        ("free", r"total[ \t]+used[ \t]+free[ \t]+shared", _HOST),
        ("gdth", r"Disk Array Controller Information:|Driver Parameters:[ \t]*$", _OLD_CARD),
        ("afacli", r"AFA\d{1,2}> |Executing: container list|Num +Total +Oth +Stripe", _OLD_CARD),
        ("ip", r"\d{1,4}: \w{1,15}: <[A-Z,_]{1,80}> mtu ", _HOST),
    )
)
MAX_LINES = 20
"""Of a text, from its beginning: its head has the sign."""
_REFUSED = lazy_pattern(
    r"(?:\S{1,60}: ){0,3}(?:Error|ERROR|error|cannot open|command not found|\[?sudo\]?)\b.{0,200}"
    r"|\S{1,60}: .{0,160}(?:command not found|No such file or directory|Permission denied"
    r"|Operation not permitted|must be root|No such device(?: or address)?)\.?"
    r"|mdadm: .{0,100}(?:does not appear to be an md device|No md superblock detected|is not an md"
    r"|not enough to start|cannot open).*|Invaild Data Returned\.?"
)
"""What a program prints that failed."""
_NO_ENTRIES = lazy_pattern(r"-- No entries --[ \t]*$")
_EMPTY_JOURNAL = (
    "'journalctl' printed no entry: nothing of that kind was logged in that time, or this user may"
    " not read the journal; that is no proof of health. All of the boot: journalctl -k -b"
)


def no_verdict(text: str) -> str:
    """Return which program printed a text, and why it holds no verdict; '': none of these."""
    lines = [line for line in text.split("\n") if line.strip()][:MAX_LINES]
    if any(_NO_ENTRIES.match(line) for line in lines):
        return _EMPTY_JOURNAL
    for program, sign, reason in _PROGRAMS:
        if any(sign.match(line) for line in lines):
            return f"'{program}' {reason}"
    if lines and _REFUSED.fullmatch(lines[0].strip()):
        shown = " ".join(lines[0].split())[:120]
        return (
            f"the command itself failed ('{shown}'): nothing was judged. Run it as root, while no"
            " other one runs, on the host that has the device, and paste what it prints then"
        )
    return ""
