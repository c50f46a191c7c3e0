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
_HOST = (
    "is not about storage; of the disks: smartctl -x /dev/DISK; of memory and writeback:"
    " cat /proc/meminfo /proc/vmstat"
)
_SETTINGS = "shows settings, not whether the disk is well; see: smartctl -x /dev/DISK"
_STARTED = "starts something, and shows no result of it; later: smartctl -x /dev/DISK"
_OF_MEMORY = "is about memory (ECC), not about storage; see: ras-mc-ctl --errors"
_TASKS = (
    "shows which tasks wait, not for what; 'iowarden top' shows it on the host itself; what the"
    " kernel reported: journalctl -k"
)
_MD_FILES = (
    "is not read: 'degraded' above 0 is the number of missing members, 'array_state' of 'inactive'"
    " or 'broken' an array that does not run; paste: cat /proc/mdstat; mdadm --detail /dev/MD"
)
_MISMATCHES = (
    "is not read: a count above 0 after a check is a fault on RAID 4, 5 and 6, and on RAID 1 and 10"
    " often swap or files that changed meanwhile; paste: cat /proc/mdstat; journalctl -k"
)
_BAY_FILES = (
    "is not read: a status other than 'OK' and 'not installed', and a 'fault' of 1, are faults of"
    " that bay; which disk is in it: ls BAY/device/block; then: smartctl -x /dev/DISK"
)
_SCSI_FILES = (
    "is not read: a state other than 'running' is a fault ('offline': all I/O to it fails); paste:"
    " journalctl -k; smartctl -x /dev/DISK"
)
_DEPTHS = (
    "is not read: a queue depth is a setting, and whether one disk can starve the others depends on"
    " 'can_queue' of the adapter and on the kernel: before 5.0 (without blk-mq) set less for each"
    " disk than can_queue divided by the disks; that host: iowarden check; faults: journalctl -k"
)
_FS_FILES = (
    "is not read: a count above 0 is a fault; paste: dumpe2fs -h /dev/DISK, or: btrfs device stats"
    " MOUNTPOINT"
)
_PORT_FILES = (
    "is not read: a port_state other than 'Online' is a link that is down; paste: multipath -ll;"
    " journalctl -k"
)
_BLOCK_FILES = "is not read; of a disk: smartctl -x /dev/DISK; of load and latency: iowarden top"
_SERVER = (
    "is not read: 'Critical', 'Non-Critical', 'Failed', 'Lost' and 'Absent' in it may be faults of"
    " the server; of its drives: smartctl -x /dev/DISK; of the RAID controller: perccli /call show"
    " all, or ssacli ctrl all show config detail; of its sensors: ipmitool sdr elist"
)
_IPMI = "is not read; paste: ipmitool sdr elist; ipmitool sel elist"
_MAPS = "shows how maps are made, and is not read; paste: multipath -ll"
_READ_ONLY = (
    "is not judged: 'ro' where you mounted 'rw' is a file system that stopped after an error; see:"
    " journalctl -k"
)
_BAD_BLOCKS = "is not read: each row is a part that this member could not read; see: smartctl -x"
_FIRMWARE = (
    "shows firmware, not whether disks are well; paste: sas2ircu 0 DISPLAY; smartctl -x /dev/DISK"
)
_SAS_LINKS = (
    "is not read; of links and disks: smartctl -x /dev/DISK (SAS: the phy error counts at its end);"
    " journalctl -k"
)
_RESCUE = (
    "is not read: an errsize above 0, or 'Input/output error', is data that could not be read; of"
    " the disk: smartctl -x /dev/DISK"
)
_UNITS = "shows services, not disks; paste: journalctl -k; smartctl -x /dev/DISK"
_EXPORTED = (
    "is of another monitor, and is not read; paste what it read: cat /proc/mdstat; smartctl -x"
    " /dev/DISK; iowarden reads rules of Prometheus with: iowarden rules check FILE"
)
_POOLS = "is not read; paste what its program shows as state, and of its disks: smartctl -x"
_CLUSTERED = "is about a cluster, and is not read; of this host's disks: smartctl -x /dev/DISK"
_SHARES = "shows shares, not disks; paste: journalctl -k; on the server: smartctl -x /dev/DISK"
_FABRIC = (
    "is not read: of paths: multipath -ll; of the host: journalctl -k; 'Linkdown' is a port"
    " without a link"
)
_SUBSYSTEMS = "shows paths and drives, not whether they are well; paste: nvme smart-log /dev/nvmeN"
_NO_STORAGE_FILE = "is a file of settings, and shows no state; paste: cat /proc/mdstat; mount"
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

_NO_CONTROLLER = (
    "found no controller: none of this vendor is in the host, or it is of another generation"
    " (storcli2, perccli, MegaCli), or it was not run as root; which there are: lspci; of disks"
    " without a RAID controller: smartctl -x /dev/DISK"
)
_UNIT = r"(?:service|socket|device|mount|automount|swap|target|path|timer|slice|scope)"
_SIGN_OF_REQUESTS = (
    r"\S{3,60} \S+ \S+ \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:|\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[\w+\] \d+#"
)
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
_SIGN_OF_LSBLK = (
    r"NAME[ \t]+(?:[A-Z:%-]+[ \t]+){0,20}"
    r"(?:MAJ:MIN|HCTL|ROTA|RA|RO|MODEL|SERIAL|VENDOR|TRAN|WWN|STATE|SCHED|PHY-SEC|LOG-SEC|UUID)\b"
)
_SIGN_OF_HDPARM = (
    r"(?:multcount|readonly|readahead|write-caching|look-ahead|IO_support|APM_level|geometry"
    r"|using_dma|acoustic|drive state is|wdidle3|DCO Revision|max sectors)[ \t]*[=:]"
)
_SIGN_OF_CHASSIS = (
    r"(?:Power Supplies|Fan Probes?|Temperature Probes?|Memory|Voltage Probes?|Batteries"
    r"|Hardware Log|Intrusion|Processors?) Information[ \t]*$|SEVERITY : COMPONENT"
    r"|Power Supply Redundancy|Individual Power Supply Elements|Main System Chassis"
)
_SIGN_OF_OMREPORT = (
    r"List of (?:Physical Disks|Virtual Disks|Batteries|Controllers|Connectors|Enclosures)\b"
    r"|Controllers? +PERC .{1,60} \("
)
_FILES = (
    r"(?:\S{0,60}[#$%>][ \t]*)?(?:(?:sudo|watch|cat|grep|head|tail|more|cd|ls|for)\b.{0,200}?)?"
    r"/sys/"
)
"""A file of the kernel, by its path: in a command, or before its value as grep prints it."""
_BLOCK = r"(?:block|devices/virtual/block)/"
_CLOCK = r"\d\d:\d\d:\d\d(?: [AP]M)?[ \t]+"
_PROGRAMS: tuple[tuple[str, re.Pattern[str], str], ...] = tuple(
    (name, lazy_pattern(rf"^[ \t]*+(?:{sign})"), reason)
    for name, sign, reason in (
        ("/sys/block/*/md/mismatch_cnt", rf"{_FILES}{_BLOCK}.{{0,80}}/mismatch_cnt", _MISMATCHES),
        ("/sys/block/*/md", rf"{_FILES}{_BLOCK}.{{0,40}}/md(?:/|[ \t;]|$)", _MD_FILES),
        ("/sys/class/enclosure", rf"{_FILES}class/enclosure\b", _BAY_FILES),
        ("/sys/class/enclosure", r"Slot ?\d{1,3}/(?:status|fault|active|locate):", _BAY_FILES),
        (
            "/sys/block/*/device/queue_depth",
            rf"{_FILES}{_BLOCK}[^/\n]{{1,40}}/device/queue_depth\b",
            _DEPTHS,
        ),
        (
            "/sys/class/scsi_host",
            rf"{_FILES}class/scsi_host/.{{0,80}}\b(?:can_queue|cmd_per_lun)\b",
            _DEPTHS,
        ),
        ("/sys/block/*/device", rf"{_FILES}{_BLOCK}[^/\n]{{1,40}}/device/", _SCSI_FILES),
        ("/sys/block", rf"{_FILES}{_BLOCK}", _BLOCK_FILES),
        ("/sys/fs", rf"{_FILES}fs/(?:ext4|btrfs|xfs)/", _FS_FILES),
        (
            "/sys/class/fc_host",
            rf"{_FILES}class/(?:fc_host|fc_remote_ports|iscsi_\w+)",
            _PORT_FILES,
        ),
        ("/sys/devices/system/edac", rf"{_FILES}devices/system/edac", _OF_MEMORY),
        ("zfs list", r"NAME[ \t]+(?:USED|AVAIL)[ \t]", _DATASETS),
        ("lsblk", r"NAME[ \t]+(?:[A-Z:-]+[ \t]+){2,}(?:MOUNTPOINTS?|FSTYPE|SIZE|TYPE)\b", _LAYOUT),
        ("lsblk", _SIGN_OF_LSBLK, _LAYOUT),
        ("swapon", r"NAME[ \t]+TYPE[ \t]+SIZE[ \t]+USED[ \t]+PRIO", _HOST),
        ("wipefs", r"DEVICE[ \t]+OFFSET[ \t]+TYPE", _LAYOUT),
        ("blockdev", r"RO[ \t]+RA[ \t]+SSZ[ \t]+BSZ", _LAYOUT),
        ("gdisk", r"GPT fdisk \(gdisk\) version|Disk /dev/\S{1,60}: \d{1,20} sectors", _LAYOUT),
        ("sfdisk", r"label: (?:gpt|dos)[ \t]*$", _LAYOUT),
        ("xfs_info", r"meta-data=\S{1,200}[ \t]+isize=", _LAYOUT),
        ("du", r"\d[\d.,]{0,20}[KMGTP]?\t(?:/|\./)", _LAYOUT),
        ("fstab", r"(?:UUID|LABEL)=\S{1,80}[ \t]+/\S{0,80}[ \t]+\w{1,10}[ \t]", _NO_STORAGE_FILE),
        ("/proc/mounts", r"\S{1,80} /\S{0,200} \w{1,20} r[ow](?:,\S{0,300})? \d \d", _READ_ONLY),
        ("blkid", r"/dev/\S{1,60}: (?:[A-Z_]+=\"[^\"\n]*\" ?){1,}", _LAYOUT),
        ("fdisk", r"Disk /dev/\S{1,60}: [\d.]+ ?[KMGTP]i?B\b", _LAYOUT),
        ("parted", r"Model: .{1,80} \(\w{1,20}\)[ \t]*$", _LAYOUT),
        ("mount", r"\S{1,200} on /\S{0,200} type \w{1,20} \(", _READ_ONLY),
        ("findmnt", r"TARGET[ \t]+SOURCE[ \t]+FSTYPE", _READ_ONLY),
        ("/proc/partitions", r"major minor  #blocks  name", _LAYOUT),
        ("/proc/swaps", r"Filename[ \t]+Type[ \t]+Size[ \t]+Used", _LAYOUT),
        ("zpool iostat", r"(?:pool[ \t]+alloc[ \t]+free|capacity[ \t]+operations)\b", _LOAD),
        ("iostat", r"(?:Device:?|avg-cpu:)[ \t]+\S*(?:r/s|tps|rrqm|%user)", _LOAD),
        ("iotop", r"Total DISK READ[ \t]*:", _LOAD),
        ("top", r"top - \d\d:\d\d:\d\d up ", _LOAD),
        (
            "sar",
            rf"{_CLOCK}(?:CPU[ \t]+%|kb(?:mem|swp)|pgpgin|tps[ \t]+rtps|runq-sz|proc/s)",
            _LOAD,
        ),
        ("vmstat -d", r"disk-? -{2,}reads-{2,}", _LOAD),
        ("uptime", r"\d\d:\d\d:\d\d up .{1,80} load average:", _LOAD),
        ("/proc/loadavg", r"\d{1,4}\.\d\d \d{1,4}\.\d\d \d{1,4}\.\d\d \d{1,5}/\d{1,7} \d", _LOAD),
        ("htop", r"\d{1,3}\[\|*[ \t]{0,40}\d", _LOAD),
        ("ps", r"(?:USER|UID|F S|PID)[ \t]+(?:.{0,80}[ \t])?(?:STAT|WCHAN|CMD)\b", _TASKS),
        ("/proc/PID/stack", r"\[<[0-9a-f]{1,16}>\] \w", _TASKS),
        ("lsof", r"COMMAND[ \t]+PID[ \t]", _TASKS),
        ("arcstat", r"time[ \t]+read[ \t]+(?:ddread|miss)\b", _LOAD),
        ("arc_summary", r"ZFS Subsystem Report[ \t]", _LOAD),
        ("/proc/interrupts", r"CPU0(?:[ \t]+CPU\d+)*[ \t]*$", _HOST),
        ("sar", r"\d\d:\d\d:\d\d(?: [AP]M)?[ \t]+DEV[ \t]+tps", _LOAD),
        ("pidstat", r"\d\d:\d\d:\d\d(?: [AP]M)?[ \t]+UID[ \t]+PID[ \t]", _LOAD),
        ("dstat", r"-{2,}total-cpu-usage-{2,}|-{2,}dsk/total", _LOAD),
        ("dd", r"\d{1,20}(?: bytes .{1,60} copied, |\+\d{1,9} records in)", _LOAD),
        ("ioping", r"\d{1,9} [KMG]?i?B (?:<<<|>>>|from) ", _LOAD),
        ("/proc/pressure/io", r"(?:some|full) avg10=\d", _LOAD),
        ("/proc/diskstats", r"\d{1,5}[ \t]+\d{1,7} \w{1,32}(?: \d{1,20}){11,}[ \t]*$", _LOAD),
        ("fio", r"fio-\d|(?:read|write): IOPS=", _LOAD),
        ("hdparm", r"Timing (?:cached|buffered|O_DIRECT) ", _LOAD),
        ("hdparm", _SIGN_OF_HDPARM, _SETTINGS),
        ("sdparm", r".{1,60} mode page:[ \t]*$|/dev/\S{1,60}: \S+ {2,}\S", _SETTINGS),
        ("smartctl -t", r"=== START OF OFFLINE IMMEDIATE AND SELF-TEST SECTION", _STARTED),
        ("hdparm -I", r"ATA device, with non-removable media", _IDENTITY),
        ("nvme list", r"Node[ \t]+(?:Generic[ \t]+)?SN[ \t]+Model\b", _IDENTITY),
        ("nvme list", r"\{?[ \t]*\"Devices\"[ \t]*:[ \t]*\[", _IDENTITY),
        ("nvme list-subsys", r"nvme-subsys\d{1,4} - NQN=", _SUBSYSTEMS),
        ("nvme", r"(?:Firmware Log|Device Self Test Log) for (?:device|NVME)", _PAGES),
        ("nvme ocp", r"SMART Cloud Health Log\b|.{0,40}C0 SMART", _PAGES),
        ("nvme id-ctrl", r"NVME Identify (?:Controller:|Namespace )", _IDENTITY),
        ("lspci", r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d [A-Z]", _IDENTITY),
        ("lspci", r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d [0-9a-f]{4}: ", _IDENTITY),
        ("lshw", r"H/W path[ \t]+Device[ \t]+Class", _IDENTITY),
        ("inxi", r"Drives:[ \t]+(?:Local Storage|HDD Total)", _IDENTITY),
        ("udevadm info", r"P: /devices/", _IDENTITY),
        ("sg_inq", r"standard INQUIRY:|(?:Supported )?VPD pages? ?(?:VPD page)?:", _IDENTITY),
        ("dmidecode", r"# dmidecode \d|SMBIOS \d|Handle 0x[0-9A-F]{4}, DMI type", _HOST),
        ("lsusb", r"Bus \d{3} Device \d{3}: ID ", _IDENTITY),
        ("lshw", r"\*-(?:disk|storage|nvme|raid|sata|scsi)(?::\d+)?[ \t]*$", _IDENTITY),
        ("/proc/scsi/scsi", r"Attached devices:[ \t]*$", _IDENTITY),
        ("smartctl --scan", r"/dev/\S{1,60} -d \S{1,40} # /dev/", _IDENTITY),
        ("ls", r"l[rwx]{9}\S? .* -> (?:\.\./){1,4}(?:sd|nvme|dm-|md)\w", _IDENTITY),
        ("dmsetup ls", r"\S{1,200}[ \t]+\(\d{1,4}:\d{1,7}\)[ \t]*$", _VOLUMES),
        ("dmsetup info", r"Name[ \t]+Maj Min Stat Open|State: +(?:ACTIVE|SUSPENDED)", _VOLUMES),
        ("lvdisplay", r"--- (?:(?:Logical|Physical) volume|Volume group) ---", _VOLUMES),
        ("mdadm --scan", r"ARRAY /dev/\S{1,60} ", _ARRAYS),
        ("mdadm --examine-bitmap", r"Filename : /dev/\S{1,60}[ \t]*$", _ARRAYS),
        ("mdadm --examine-badblocks", r"Bad-blocks (?:list is empty in|on) /dev/", _BAD_BLOCKS),
        ("lvscan", r"(?:ACTIVE|inactive)[ \t]+(?:Original |Snapshot )?'/dev/", _VOLUMES),
        ("pvscan", r"PV /dev/\S{1,60}[ \t]+(?:VG \S{1,60}[ \t]+)?lvm2 \[", _VOLUMES),
        ("vgck", r"(?:WARNING: )?VG \S{1,60} is missing PV ", _VOLUMES),
        ("vgscan", r"Found volume group \"", _VOLUMES),
        ("cryptsetup", r"/dev/mapper/\S{1,60} is (?:in)?active\b", _LAYOUT),
        ("vdostats", r"Device[ \t]+(?:1K-blocks|Size)[ \t]+Used[ \t]+Available[ \t]", _POOLS),
        ("stratis", r"(?:Pool )?Name[ \t]+Total /", _POOLS),
        ("vxprint", r"Disk group: \S|TY[ \t]+NAME[ \t]+ASSOC", _POOLS),
        ("bcache-super-show", r"sb\.magic[ \t]", _POOLS),
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
        ("pcs", r"Cluster name: |Cluster Summary:", _CLUSTERED),
        ("exportfs", r"Export list for ", _SHARES),
        ("smbstatus", r"Samba version ", _SHARES),
        ("gluster", r"Status of volume: |Volume Name: ", _CLUSTER),
        ("nfsstat", r"(?:Client|Server) (?:rpc|nfs)\b", _LOAD),
        ("iscsiadm", r"(?:tcp|iser): \[\d{1,9}\] |Target: iqn\.", _SESSIONS),
        ("systool", r"Class = \"", _FABRIC),
        ("ddrescue", r"GNU ddrescue \d|.{0,40}\berrsize: ", _RESCUE),
        ("dd", r"dd: error (?:reading|writing) ", _RESCUE),
        ("ipmctl", r"DimmID[ \t]*\|", _OF_MEMORY),
        ("storcli", r"Number of Controllers = 0\b", _NO_CONTROLLER),
        ("a web server's log", _SIGN_OF_REQUESTS, _HOST),
        (
            "systemctl",
            rf"(?:● )?\S{{1,60}}\.{_UNIT} - .|UNIT[ \t]+LOAD[ \t]+ACTIVE[ \t]+SUB",
            _UNITS,
        ),
        ("a metrics page", r"# (?:HELP|TYPE) [a-z]\w{2,80} |[a-z]\w{2,80}\{\w{1,40}=\"", _EXPORTED),
        ("check_raid", r"(?:OK|WARNING|CRITICAL|UNKNOWN)(?:: | - )", _EXPORTED),
        ("snmpwalk", r"(?:SNMPv2-SMI|iso|\.1\.3\.6)\S{0,200} = ", _EXPORTED),
        ("smp_discover", r"phy +\d{1,3}:[A-Z]:", _SAS_LINKS),
        ("sas2flash", r".{0,40}SAS[23] Flash Utility", _FIRMWARE),
        ("sg3_utils", r"test unit ready:|READ CAPACITY \(\d\d\)|Fixed format, current", _PAGES),
        ("multipath -v3", r"={3,} paths list|(?:[A-Z][a-z]{2} [ \d]\d )?\d\d:\d\d:\d\d \| ", _MAPS),
        ("hddtemp", r"/dev/\S{1,60}: .{1,80}: (?:\d{1,3} ?°|drive is sleeping)", _VENDOR),
        ("openSeaChest", r"openSeaChest|SeaChest_", _VENDOR),
        ("intelmas", r"- (?:Intel|Solidigm) .{0,60}SSD|Intel\(R\) (?:SSD|MAS)", _VENDOR),
        ("sg_ses", r"Enclosure [Ss]tatus diagnostic page:|.{1,60}Element type: \w", _ENCLOSURE),
        ("sg_logs", r"[A-Z][\w /()-]{2,60} page +(?:\(.{1,40}\) +)?\[0x[0-9a-f]", _PAGES),
        ("sg_logs", r"Supported log pages .{0,40}:|log_page=0x[0-9a-f]", _PAGES),
        ("ledctl", _SIGN_OF_LEDCTL, _LIGHTS),
        ("multipathd show", r"name[ \t]+(?:sysfs[ \t]+uuid|path_faults)\b", _PATH_COUNTS),
        ("hdsentinel", _SIGN_OF_HDSENTINEL, _VENDOR),
        ("MegaCli -ShowSummary", r"Operating System:[ \t]+Linux version ", _MEGARAID),
        ("megaclisas-status", r"-- Controller information --[ \t]*$", _MEGARAID),
        ("ipssend", r"Found \d{1,2} IBM ServeRAID controller", _SERVERAID),
        ("omreport", _SIGN_OF_OMREPORT, _PERC),
        ("omreport", _SIGN_OF_CHASSIS, _SERVER),
        ("racadm", r"Sensor Type : |Record: +\d|Date/Time: +\d", _SERVER),
        (
            "hpasmcli",
            r"(?:hpasmcli> )?(?:show |Power supply #\d)|ID +TYPE +LOCATION +STATUS",
            _SERVER,
        ),
        ("Redfish", r"\{\"@odata", _SERVER),
        ("ipmitool fru", r"FRU Device Description :", _IPMI),
        ("ipmitool chassis", r"(?:System Power|Drive Fault|Main Power Fault) +: ", _IPMI),
        ("ipmitool mc", r"Device ID +: \d+[ \t]*$", _IPMI),
        ("ipmi-sensors", r"ID[ \t]*\| (?:Name|Date) +\|", _IPMI),
        ("ipmitool sensor", r"[^|\n]{1,20}\| [\w.]{1,12} *\| [\w ]{1,20}\| \w{2,6} *\| ", _IPMI),
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
_NOT_FOUND = (
    "Install the program, or run it as root with its whole path: /usr/sbin is not in each user's"
    " PATH; a device that is named must exist: lsblk. Paste what it prints then"
)
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
        if "command not found" in shown or "No such file or directory" in shown:
            return f"the command itself failed ('{shown}'): nothing was judged. {_NOT_FOUND}"
        return (
            f"the command itself failed ('{shown}'): nothing was judged. Run it as root, while no"
            " other one runs, on the host that has the device, and paste what it prints then"
        )
    return ""
