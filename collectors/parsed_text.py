"""Result of parsing a tool's output: the program, the parsed data, the unparsed parts."""

from __future__ import annotations

import enum
import re
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.device_mapper.target_status import TARGETS
from iowarden.collectors.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.event import StorageEvent
    from iowarden.collectors.md import mdstat
    from iowarden.collectors.raid.controller import ComponentHealth, Controller
    from iowarden.collectors.smart import smartctl_refusal
    from iowarden.collectors.smart.drive import Drive

MAX_OUTPUTS = 200
"""Maximum of one text; further ones are ignored, which is reported."""


class Tool(enum.StrEnum):
    """The program that printed a text."""

    STORCLI = "storcli"
    """Also perccli, storcli2, perccli2."""
    MEGACLI = "megacli"
    ARCCONF = "arcconf"
    SSACLI = "ssacli"
    """Also hpssacli, hpacucli."""
    CCISS = "cciss_vol_status"
    """cciss_vol_status."""
    CLI64 = "cli64"
    """Also cli32, areca-cli."""
    TW_CLI = "tw_cli"
    SAS2IRCU = "sas2ircu"
    """Also sas3ircu."""
    MPT_STATUS = "mpt-status"
    MVCLI = "mvcli"
    """Also mnv_cli: boot cards for M.2 drives."""
    SMARTCTL = "smartctl"
    MDSTAT = "mdstat"
    """/proc/mdstat."""
    MDADM = "mdadm"
    """mdadm --detail and --examine."""
    ZPOOL = "zpool"
    """zpool status, list and events."""
    MULTIPATH = "multipath"
    """multipath -ll, multipathd show paths and show maps status."""
    DMSETUP = "dmsetup"
    """dmsetup status."""
    LVS = "lvs"
    """Also vgs and pvs."""
    MEMINFO = "meminfo"
    """/proc/meminfo."""
    VMSTAT = "vmstat"
    """The program vmstat, and /proc/vmstat."""
    DUMPE2FS = "dumpe2fs"
    """dumpe2fs -b and -h, and tune2fs -l."""
    NVME = "nvme"
    """nvme smart-log, error-log and list-subsys."""
    BTRFS = "btrfs"
    """btrfs device stats, scrub status, check, balance status, filesystem show and usage."""
    DF = "df"
    """df, also with -h, -T and -i."""
    LSSCSI = "lsscsi"
    """lsscsi -l."""
    SENSORS = "sensors"
    """sensors of lm-sensors."""
    IPMITOOL = "ipmitool"
    """ipmitool sel list and elist, sdr, sdr elist and type."""
    SERVICES = "services"
    """Lines of smartd, multipathd, mdadm --monitor, ZED, dmeventd, iscsid and systemd in syslog."""
    KERNEL = "kernel"
    """dmesg, the journal, syslog, '/dev/kmsg'."""


@dataclass(frozen=True, slots=True)
class UnparsedLine:
    """An unparsed part of a text. `line` counts from 1; None: it is about all of it.

    `fault`: as far as it can be parsed it indicates a fault, or the text contradicts itself;
    `missing`: it is no line of the text, but a part of the report that is not in it.
    """

    reason: str
    text: str = ""
    line: int | None = None
    fault: bool = False
    missing: bool = False


@dataclass(frozen=True, slots=True)
class LocatedEvent:
    """An event and its line, None if not known."""

    event: StorageEvent
    line: int | None = None


@dataclass(frozen=True, slots=True)
class TextObject:
    """An object that no collector of the service has a model for: a pool, a map, a counter.

    Fields: `word` is the tool's term for its state; `parent` is the object that contains it.
    """

    type: str
    name: str
    parent: str
    health: ComponentHealth
    word: str = ""
    details: Mapping[str, str | float] = field(default_factory=dict)
    counts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault in such a text. `severity` is 'critical', 'warning', 'notice' or 'info'."""

    severity: str
    name: str
    object: str
    text: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Parsed:
    """Parsed content of a text.

    Fields: `outputs` are the recognized commands; `refusals` are drives for which smartctl had no
    health data; `lines` is the number of lines of the kernel log, `others` the number of those that
    are no event of storage and are not noted as unparsed.
    """

    kind: Tool
    controllers: tuple[Controller, ...] = ()
    arrays: Mapping[str, mdstat.MdArray] = field(default_factory=dict)
    drives: tuple[Drive, ...] = ()
    refusals: tuple[smartctl_refusal.SmartRefusal, ...] = ()
    events: tuple[LocatedEvent, ...] = ()
    objects: tuple[TextObject, ...] = ()
    findings: tuple[Finding, ...] = ()
    outputs: tuple[str, ...] = ()
    unparsed: tuple[UnparsedLine, ...] = ()
    lines: int = 0
    others: int = 0
    ruled_out: frozenset[tuple[str, str]] = frozenset()
    """Alerts that do not hold of an object, with its name: they conclude from what a host has not,
    or from no change since the last poll. A text is a part of a host, and one poll of it; its log
    of errors shows their time, which no sample does."""


# --- the program that printed it

SMARTCTL_HEADINGS = (
    r"=== START OF (?:INFORMATION|READ SMART DATA|SMART DATA) SECTION ==="
    r"|SMART Attributes Data Structure revision number:"
    r"|Vendor Specific SMART Attributes with Thresholds:|ID# ATTRIBUTE_NAME[ \t]"
    r"|SMART/Health Information \(NVMe Log|SMART overall-health self-assessment test result:"
    r"|SMART Health Status:|SMART (?:Extended )?Self-test [Ll]og |SMART Error Log Version"
    r"|SMART Extended Comprehensive Error Log|Num[ \t]+Test_Description|Error counter log:"
    r"|General SMART Values:|Device Statistics \(GP Log"
)
"""Headings of its sections. Source: smartmontools, ataprint.cpp, scsiprint.cpp, nvmeprint.cpp."""
DF_HEADINGS = (
    r"Filesystem|File system|Dateisystem|Sys\. de fichiers|S\.ficheros|Sist\. Arq\.|Bestandssysteem"
    r"|System plików|Файл\.система"
)
"""The first column of df, as GNU coreutils translates it."""
MEMINFO_ROWS = (
    r"Mem(?:Total|Free|Available)|Buffers|(?:Swap)?Cached|(?:Ina|A)ctive(?:\((?:anon|file)\))?"
    r"|Unevictable|Mlocked|(?:High|Low)(?:Total|Free)|Swap(?:Total|Free)|Zswap(?:ped)?|Dirty"
    r"|Writeback(?:Tmp)?|AnonPages|Mapped|Shmem|KReclaimable|Slab|SReclaimable|SUnreclaim"
    r"|KernelStack|PageTables|SecPageTables|NFS_Unstable|Bounce|CommitLimit|Committed_AS"
    r"|Vmalloc(?:Total|Used|Chunk)|Percpu|HardwareCorrupted|(?:Anon|Shmem|File)HugePages"
    r"|(?:Shmem|File)PmdMapped|Cma(?:Total|Free)|Unaccepted|Balloon|Hugetlb|DirectMap\w{1,4}"
)
"""Source: kernel, fs/proc/meminfo.c, meminfo_proc_show; arch/x86/mm/pat/set_memory.c."""
KERNEL_LEADS = (
    r"(?:BTRFS|EXT[234]-fs|F2FS-fs)[ :]|XFS \(|JBD2?: |md(?:/raid\w{1,6}:md\w{1,6})?: \S"
    r"|ata\d{1,3}(?:\.\d\d)?: \S|(?:sd|sr|scsi|ses) \d{1,5}:\d{1,5}:\d{1,5}:\d{1,10}: "
    r"|scsi host\d{1,4}: |nvme nvme\d{1,4}: |(?:blk_update_request|print_req_error|end_request): "
    r"|(?:I/O|critical \w{1,20}) error, dev |Buffer I/O error on dev|Aborting journal on device "
    r"|INFO: task \S.{0,40} blocked for more |device-mapper: \w|usb \d{1,3}-[\d.]{1,20}: "
    r"|(?:mpt[23]sas|mpi3mr)(?:_cm)?\d{1,3}: |(?:megaraid_sas|hpsa|smartpqi|aacraid) \S{1,20}: "
)
"""How lines of the kernel begin that 'dmesg -t' or 'journalctl -o cat' printed, without a time."""
SIGNS: Mapping[Tool, re.Pattern[str]] = {
    kind: lazy_pattern(pattern, re.MULTILINE | re.ASCII)
    for kind, pattern in {
        Tool.STORCLI: r'"Controllers"\s*:|^[ \t]*(?:CLI Version = |Controller = |seqNum *: 0x'
        r"|EID:Slo?t[ \t]+[DP]ID[ \t]|DG/VD[ \t]+TYPE[ \t]|DG[ \t]+Arr[ \t]+Row[ \t]+EID:"
        r"|Drive /c\d{1,3}(?:/e\d{1,5})?/s\d{1,4} (?:State|Device attributes|Policies/Settings) :)",
        Tool.MEGACLI: r"^(?:Virtual Drive: \d{1,3} \(|Battery State[ \t]*: )"
        r"|^Slot Number: \d{1,4}[ \t]*\n(?:[^\n]{0,200}\n){0,8}?Firmware state: "
        r"|^[ \t]*(?:Adapter #\d|Adapter \d{1,3} -- |Enclosure Device ID: "
        r"|Exit Code: 0x|BBU status for Adapter: |PCI information for Controller )",
        Tool.ARCCONF: r"^Controllers [Ff]ound: \d"
        r"|^[ \t]*(?:Logical [Dd]evice|Physical Device) information|^Logical [Dd]evice number \d"
        r"|^[ \t]*Device #\d{1,4}[ \t]*\n[ \t]*Device is an? "
        r"|^Controller information[ \t]*\n-{10,}[ \t]*\n[ \t]*Controller Status[ \t]*:",
        Tool.SSACLI: r"^\S.* in (?:Slot \w|Chassis Slot)|^ {2,}(?:logicaldrive|physicaldrive) "
        r"|^ {2,}(?:Battery/Capacitor (?:Count|Status)|Cache Board Present): ",
        Tool.CCISS: r"^/dev/\S+: \(.*\) (?:RAID|Volume|Enclosure)|^Controller: (?:Smart|HP|P)",
        Tool.CLI64: r"GuiErrMsg<0x|^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  \S"
        r"|^[ \t]*(?:Areca CLI, Version|CLI> |ErrMsg: |(?:#|Num)[ \t]+Name[ \t]+Disks[ \t])"
        r"|^[ \t]*(?:Date-Time[ \t]+Device[ \t]+Event[ \t]|(?:The )?Hardware Monitor Information\b)"
        r"|^[ \t]*\d{1,3}[ \t]+[A-Z][^:\n]{3,60}(?:[ \t]{1,20}\d{1,3}){3}[ \t]{1,20}\d{1,20}"
        r"[ \t]{1,20}OK"
        r"|^[ \t]*S\.?M\.?A\.?R\.?T\.? Information For Drive"
        r"|^[ \t]*#[ \t]+(?:Ch#[ \t]+|Enc#[ \t]+Slot#[ \t]+)?ModelName[ \t]"
        r"|^[ \t]*#[ \t]+Name[ \t]+Raid(?: Name|#)[ \t]"
        r"|^\d{4}-\d\d?-\d\d? \d\d?:\d\d:\d\d {1,4}(?:H/W MONITOR|IDE Channel|Proxy Or Inband|Enc#"
        r"|ARC-\d)",
        Tool.TW_CLI: r"^[ \t]*(?:Unit\s+UnitType\s+Status|V?Port\s+Status\s+Unit"
        r"|Ctl\s+Model\s+\(?V?\)?Ports\s+Drives|Ctl\s+Date\s|Name\s+OnlineState\s+BBUReady"
        r"|Encl\s+Status|/c\d{1,3} \w.* = )",
        Tool.SAS2IRCU: r"SAS[23] IR Configuration Utility|^SAS[23]IRCU: |^IR [Vv]olume \d"
        r"|^Device is a (?:Hard disk|Enclosure)|^IR Volume information",
        Tool.MPT_STATUS: r"^ioc\d{1,3} (?:vol_id|phy|phys_id) |^(?:vol|log|phys)_id[: ]\d"
        r"|^Found SCSI id=\d",
        Tool.MVCLI: r"^[ \t]*(?:Total # of [VP]D:|(?:VD|Adapter) ID:[ \t]|SMART STATUS RETURN:)"
        r"|^(?:Virtual|Physical) Disk Information[ \t]*$|^SG driver version \d",
        Tool.SMARTCTL: r'^smartctl (?:version )?\d{1,2}\.\d|"smartctl"\s*:\s*\{'
        rf"|^[ \t]*(?:{SMARTCTL_HEADINGS})"
        r"|^[ \t]*\d{1,3} [A-Za-z][\w-]{2,40}[ \t]{1,40}0x[0-9a-f]{4}[ \t]{1,9}\d{3}[ \t]",
        Tool.MDSTAT: r"^Personalities :|^md\S{1,30} : (?:in)?active ",
        Tool.MDADM: r"^[ \t]*Number[ \t]+Major[ \t]+Minor[ \t]+RaidDevice[ \t]"
        r"|^/dev/md\S{1,60}:\s*$|^[ \t]*(?:Magic : a92b4efc|Array State : [AUuR._])",
        Tool.ZPOOL: r"^[ \t]*pool: \S|^all pools are healthy$|^TIME[ \t]+CLASS[ \t]*$"
        r"|^[A-Z][a-z]{2} [ \d]\d \d{4} \d\d:\d\d:\d\d\.\d{1,9}[ \t]+\w+\.fs\.zfs\."
        r"|^[ \t]*NAME[ \t]+(?:SIZE[ \t]+ALLOC[ \t]+FREE|STATE[ \t]+READ[ \t]+WRITE)[ \t]"
        r'|"command" ?: ?"zpool ',
        Tool.MULTIPATH: r"^[ \t]*size=\S{1,20} features='.*\bwp="
        r"|^[ |`]{0,9}[|`]-[-+]- (?:policy=|\d{1,4}:\d)"
        r"|^[ \t]*\[size=\S{1,20}\]\[features="
        r"|^[ \t]*(?:hcil[ \t]+dev[ \t]+dev_t|name[ \t]+failback[ \t]+queueing)[ \t]",
        Tool.DMSETUP: rf"^(?:\S.{{0,200}}: )?\d{{1,20}} \d{{1,20}} (?:{'|'.join(TARGETS)})\b",
        Tool.LVS: r"^[ \t]*(?:LV|VG|PV)[ \t](?:.*[ \t])?Attr[ \t]"
        r'|^[ \t]*\{\s*"report" ?: ?\[',
        # Each row: a paste may begin anywhere in it, and another output may follow.
        Tool.MEMINFO: rf"^(?:{MEMINFO_ROWS}):[ \t]+\d{{1,20}} kB",
        Tool.VMSTAT: r"^[ \t]*r[ \t]+b[ \t]+swpd[ \t]+free[ \t]"
        r"|^(?:nr_free_pages|nr_dirty|nr_writeback) \d",
        Tool.DUMPE2FS: r"^(?:dumpe2fs|tune2fs) \d|^Bad blocks: \d|\A(?:\d{1,20}[ \t]*\n){3,}\s*\Z"
        r"|^Filesystem (?:magic number|state):[ \t]",
        # smartctl has these names as well, within its own text.
        Tool.NVME: r"^Smart Log for NVME device:|^critical_warning[ \t]*:"
        r"|^Error Log Entries for device:|^[ \t]*Entry\[ *\d{1,5}\]"
        r"|\A\s*\{\s*\"critical_warning\"|^nvme-subsys\d{1,5} - NQN="
        r"|\A\s*(?:\[\s*)?\{\s*\"(?:HostNQN|Subsystems)\" ?:",
        Tool.BTRFS: r"^\[[^\]\n]{1,200}\]\.\w{1,40}_errs[ \t]"
        r"|^[ \t]*scrub (?:status|done|canceled) for [0-9a-f-]{36}"
        r"|^UUID:[ \t]+[0-9a-f-]{36}[ \t]*\n(?:[ \t]*no stats|Scrub )|^Label: .{1,256} uuid: "
        r"|^Opening filesystem to check\.|^Checking filesystem on /"
        r"|^Balance on '.{1,200}' is (?:running|paused)"
        r"|^(?:Data|Metadata|System|GlobalReserve), \w{1,20}: total=\S"
        r"|^Overall:[ \t]*\n[ \t]+Device size:|^Id[ \t]+Path[ \t]+Write errors[ \t]"
        r'|^[ \t]*"device-stats" ?: ?\[',
        Tool.DF: rf"^(?:{DF_HEADINGS})[ \t].{{0,80}}(?:%|Capacity)[ \t]+\S.*$",
        Tool.LSSCSI: r"^\[\w{1,6}(?::\w{1,10}){2,3}\][ \t]+(?:disk|process|enclosu|storage|tape"
        r"|cd/dvd|mediumx|zbc)[ \t]",
        Tool.SENSORS: r"^(?:drivetemp-scsi|nvme-pci)-\S{1,20}[ \t]*$|^Adapter: \S.{0,80}$",
        Tool.IPMITOOL: r"^[ \t]*[0-9a-f]{1,5} \| (?:\d\d/\d\d/\d{2,4}|Pre-Init)[ \t]*\|"
        r"|^SEL has no entries|^[^|\n]{1,40}\|[ \t]*[0-9A-F]{2}h[ \t]*\|[ \t]*\w\w[ \t]*\|[ \t]*\d"
        r"|^[^|\n]{1,40}\|[ \t]*(?:-?\d[\d.]{0,12} [A-Za-z][\w ]{0,24}|0x[0-9a-f]{2}|no reading)"
        r"[ \t]*\|[ \t]*(?:ok|ns|nr|nc|cr|us)[ \t]*$",
        Tool.SERVICES: r"(?:^|[\s/])(?:(?:smartd|multipathd|zed|dmeventd|iscsid|systemd-fsck)"
        r"(?:\[\d{1,10}\])?|(?:mdadm|lvm)\[\d{1,10}\]): +\S|^[ \t]*Device: /dev/[^,\n]{1,80}, \S"
        r"|^TEST EMAIL from smartd for device: "
        r"|\w event (?:ha[ds] been )?detected on md device "
        r'|"SYSLOG_IDENTIFIER" ?: ?"(?:smartd|multipathd|zed|dmeventd|iscsid|mdadm)"'
        r"|(?:systemd\[\d{1,10}\]: |^\[ ?(?:TIME|FAILED|DEPEND) ?\] )(?:Timed out (?:waiting for"
        r" device (?:dev-|/dev/)(?!tty)|mounting )|Failed to (?:mount|activate swap|start File)"
        r"|Dependency failed for /)",
        Tool.KERNEL: r"^(?:<\d{1,3}>)?\[ {0,5}[+\d]\d{0,10}\.\d{1,6}\] |^\S.{0,40} kernel: "
        r"|^(?:[\w.:-]{1,80}: )?kern: +\w{3,7}: +\[\d"
        r'|^\x1e?\{ ?(?:"[^\n]*)?"MESSAGE" ?:'
        r"|^\[[^\]\n]{0,40}\d:\d\d[^\]\n]{0,20}\] |^\d{1,5},\d{1,20},\d{1,20},[^;\n]{0,60};"
        rf"|^(?:{KERNEL_LEADS})",
    }.items()
}


MORE = UnparsedLine(f"expected at most {MAX_OUTPUTS} outputs, got more: the others were ignored")
