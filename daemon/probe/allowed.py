"""The allowlist: the command lines that root may run for the daemon, and nothing else. Pure.

A program has forms; a form is a sequence of parts; a part is repeated between `min_count` and
`max_count` times, each time by the first alternative that fits. An alternative is written as its
arguments, separated by spaces; each argument must match completely, and `<name>` stands for a
pattern of `_ARGUMENTS`. So no option may be abbreviated or joined to its value, although
getopt_long(3) accepts both.

All command lines only read, except smartctl's self-tests. Deliberately missing is everything that
clears a log, writes a file, sets a value or loads a module; and smartctl's types that write to the
disk.

Source: smartctl(8) 7.3, mdadm(8) 4.2, debugfs(8) and dumpe2fs(8) 1.47, xfs_io(8) 6.1, find(1) 4.9
and btrfs(8) 6.2, each tried; dmsetup(8) 1.02.185, by its manual; the vendors' programs were not
tried: their command lines are those of guides and of public monitoring scripts.
"""

from __future__ import annotations

import re

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.probe.capabilities import Capability
from iowarden.daemon.sanitize import one_line

MAX_ARGUMENTS = 64
MAX_CHARACTERS = 1024
_MAX_OPTIONS = 24
_MAX_EXPECTED = 12


@dataclass(frozen=True, slots=True)
class Part:
    """Some arguments of a command line."""

    alternatives: tuple[str, ...]
    min_count: int
    max_count: int


Form = tuple[Part, ...]

READ_ALL = frozenset({Capability.DAC_READ_SEARCH})
"""Directories that are closed to others, and devices that were given to another user."""
ADMIN = READ_ALL | {Capability.SYS_ADMIN}
"""Requests to the kernel, such as fs/xfs/xfs_fsmap.c, fs/btrfs/ioctl.c, drivers/md/dm-ioctl.c."""
HARDWARE = ADMIN | {Capability.SYS_RAWIO, Capability.MKNOD}
"""Commands to drives and controllers, and the device nodes that their programs make."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that root may run.

    Fields: `directories` are its vendor's own, searched before the usual ones; `drivers` are those
    of the hosts that it may access, whichever is named, `vendor` stands for them if there is none.
    `idle`: it may read a file system for minutes, and runs with idle I/O priority. `inner` forms
    are only for verbs of the probe, which return less than the program prints (`owners`).
    `capabilities`: what it needs of root's; of those that the probe has, it gets no others.
    `needs_root`: also the user, for files and devices that root alone may open or write to.
    """

    forms: tuple[Form, ...]
    directories: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    vendor: str = ""
    idle: bool = False
    inner: tuple[Form, ...] = ()
    capabilities: frozenset[Capability] = HARDWARE
    needs_root: bool = True


@dataclass(frozen=True, slots=True)
class Matched:
    """What an allowed command line names; '' if it names none.

    Fields: `device` is a path below '/dev'; `raid_type` is smartctl's '-d' for a disk behind a RAID
    controller; `mount_point` should be one of a mounted file system; `scan`: it searches for disks
    itself.
    """

    program: Program
    device: str = ""
    raid_type: str = ""
    mount_point: str = ""
    file_system: str = ""
    scan: bool = False


def match(arguments: tuple[str, ...], *, inner: bool = False) -> Matched:
    """Return what a command line names; its first argument is the program's name.

    `inner`: a verb of the probe runs it. Errors: ValueError, with the argument that is not allowed
    and those that would be.
    """
    if not 0 < len(arguments) <= MAX_ARGUMENTS:
        raise ValueError(f"expected 1 to {MAX_ARGUMENTS} arguments, got {len(arguments)}")
    for number, argument in enumerate(arguments):
        if not re.fullmatch(rf"[ -~]{{1,{MAX_CHARACTERS}}}", argument):
            raise ValueError(
                f"argument {number}: expected 1 to {MAX_CHARACTERS} printable ASCII characters,"
                f" got '{one_line(argument, 80)}'; not run"
            )
    program = PROGRAMS.get(arguments[0])
    forms = () if program is None else program.forms + (program.inner if inner else ())
    if program is None or not forms:
        raise ValueError(
            f"expected a program that root may run, got '{one_line(arguments[0], 80)}'; not run"
        )
    if arguments[0] == "smartctl":
        _refuse_writing_types(arguments)
    farthest = 0
    expected: list[str] = []
    for form in forms:
        words: list[tuple[str, str]] = []
        at, wanted = _fit(form, arguments, words)
        if at == len(arguments) and not wanted:
            found = dict(words)
            return Matched(
                program,
                next((found[word] for word in _DEVICES if word in found), ""),
                next((found[word] for word in _TYPES if word in found), ""),
                next((found[word] for word in _MOUNT_POINTS if word in found), ""),
                next((kind for word, kind in _MOUNT_POINTS.items() if word in found), ""),
                "scan" in found,
            )
        if at > farthest:
            farthest, expected = at, []
        if at == farthest:
            expected = list(dict.fromkeys([*expected, *wanted]))
    got = f"'{one_line(arguments[farthest], 80)}'" if farthest < len(arguments) else "no more"
    choices = ", ".join(f"'{text}'" for text in expected[:_MAX_EXPECTED]) or "no more"
    raise ValueError(
        f"'{arguments[0]}': argument {farthest}: expected {choices}"
        f"{' ...' if len(expected) > _MAX_EXPECTED else ''}, got {got}; not run"
    )


def _fit(
    form: Form, arguments: tuple[str, ...], placeholders: list[tuple[str, str]]
) -> tuple[int, list[str]]:
    """Return how far a form matches, what it expects there; nothing, and all: a full match."""
    at = 1
    wanted: list[str] = []
    for part in form:
        times = 0
        while times < part.max_count and (taken := _taken(part, arguments[at:], placeholders)):
            at += taken
            times += 1
        wanted = [] if times else wanted  # parts omitted before would still match here
        if times < part.max_count:
            wanted += part.alternatives
        if times < part.min_count:
            return at, wanted
    return at, wanted if at < len(arguments) else []


def _taken(part: Part, rest: tuple[str, ...], placeholders: list[tuple[str, str]]) -> int:
    for alternative in part.alternatives:
        pieces = alternative.split(" ")
        if len(pieces) <= len(rest) and all(map(_is, pieces, rest)):
            placeholders += [
                (piece[1:-1], argument)
                for piece, argument in zip(pieces, rest, strict=False)
                if piece[0] == "<" and piece[-1] == ">"
            ]
            return len(pieces)
    return 0


def _is(piece: str, argument: str) -> bool:
    return re.fullmatch(_expanded(piece), argument, re.ASCII) is not None


def _expanded(piece: str) -> str:
    return re.sub(r"<(\w+)>", lambda found: f"(?:{_expanded(_ARGUMENTS[found[1]])})", piece)


def _refuse_writing_types(arguments: tuple[str, ...]) -> None:
    for argument in arguments:
        for name, harm in _WRITING_TYPES.items():
            if re.match(rf"(-d|--device=?)?\s*{name}", argument):
                raise ValueError(
                    f"'smartctl': expected a device type that does not change the disk, got"
                    f" '{one_line(argument, 80)}', which {harm}; not run"
                )


def _one(*alternatives: str) -> Part:
    return Part(alternatives, 1, 1)


def _maybe(*alternatives: str) -> Part:
    return Part(alternatives, 0, 1)


def _some(*alternatives: str) -> Part:
    return Part(alternatives, 0, _MAX_OPTIONS)


_WRITING_TYPES = {
    "jmb39x": "writes to sector 33 of the disk to reach the bridge",
    "jms56x": "writes to sector 33 of the disk to reach the bridge",
    "intelliprop": "selects a disk by writing to one of its logs",
    "usbcypress,": "may send any command to the disk",
}
"""Source: smartctl(8), '-d'."""

_TYPES = {
    "areca": ("sg", r"areca,\d{1,3}(/[1-8])?"),
    "threeware": ("tw", r"3ware,\d{1,3}"),
    "megaraid": ("raid_disk", r"(sat\+)?megaraid,\d{1,3}"),
    "aacraid": ("sd_or_sg", r"((sat|scsi)\+)?aacraid,\d{1,3},\d{1,3},\d{1,3}"),
    "cciss": ("cciss_disk", r"((sat|scsi)\+)?cciss,\d{1,3}"),
    "sssraid": ("bsg", r"sssraid,\d{1,3},\d{1,3}"),
    "hpt": ("sd", r"hpt,[1-4]/\d{1,3}(/[1-4])?"),
}
"""What '-d' accepts for a disk behind a RAID controller, and the device that goes with it."""

_DEVICES = {
    "sd": r"/dev/sd[a-z]{1,3}",
    "sg": r"/dev/sg\d{1,4}",
    "disk": r"<sd>|<sg>|/dev/nvme\d{1,4}(n\d{1,4})?",
    "tw": r"/dev/tw[ael]\d{1,2}",
    "bsg": r"/dev/bsg/sssraid\d{1,3}",
    "sd_or_sg": r"<sd>|<sg>",
    "raid_disk": r"<sd>|/dev/bus/\d{1,3}",
    "cciss_disk": r"<sd>|<sg>|/dev/cciss/c\d{1,2}d\d{1,3}",
    "md": r"/dev/md(\d{1,4}|_d\d{1,3})",
    "block": r"<sd>\d{0,3}|<md>(p\d{1,3})?|/dev/dm-\d{1,4}|/dev/(x?vd)[a-z]{1,3}\d{0,3}"
    r"|/dev/(nvme\d{1,4}n\d{1,4}|mmcblk\d{1,3}|loop\d{1,4}|cciss/c\d{1,2}d\d{1,3})(p\d{1,3})?",
}
"""Only the kernel's own names: '/dev/mapper' and '/dev/md' hold symbolic links."""

_MOUNT_POINTS = {"mount_point": "xfs", "btrfs_mount_point": "btrfs"}
"""File system type that a mount point must have."""

_ARGUMENTS = {
    "json": r"--json(=[cgiosv]{1,6})?|-j",
    "scan": r"--scan(-open)?",
    "direct": r"auto|ata|scsi|nvme(,0x[0-9a-f]{1,8})?|sat(,auto)?(,1[26])?"
    r"|usbcypress|usbjmicron(,p)?(,[01])?|usbprolific|usbsunplus"
    r"|snt(asmedia|realtek)(/sat)?|sntjmicron(/sat)?(,0x[0-9a-f]{1,8})?",
    # Without those that set or reset ('scterc,N', 'sasphy,reset') or clear data once it was read.
    # 7.3 does not know 'farm' and 'genstats'.
    "log": r"error|xerror(,\d{1,3})?(,error)?|selftest|xselftest(,\d{1,3})?(,selftest)?"
    r"|selective|background|directory(,[gs])?|scttemp(sts|hist)?|scterc|devstat(,\d{1,3})?|defects(,\d{1,5})?|ssd"
    r"|sataphy|sasphy|envrep|farm|genstats",
    "format": "old|brief|hex(,(id|val))?",
    "power": r"(never|sleep|standby|idle)(,\d{1,3}){0,2}",
    "self_test": "short|long|conveyance|offline",
    "tolerance": "normal|conservative|permissive|verypermissive",
    **{name: expression for name, (_, expression) in _TYPES.items()},
    "array_report": "--export|--test|--verbose",
    "request": r"icheck(\x20\d{1,15}){1,60}|ncheck(\x20\d{1,15}){1,60}|stats\x20-h"
    r"|stat\x20\x3c\d{1,15}\x3e|testb\x20\d{1,15}\x20\d{1,6}",
    "fsmap": r"fsmap\x20-[dlr](\x20-[mv])?(\x20-n\x20\d{1,6})?\x20\d{1,15}\x20\d{1,15}",
    **dict.fromkeys(_MOUNT_POINTS, r"/[!-~]{0,255}"),
    # find: type, size and path of one inode on one file system, each path followed by a NUL.
    "inode": r"\d{1,20}",
    "found": r"%y:%s:%p\\0",
    "device_number": r"\d{1,7}",
    # Not 'crypt', nor any other target without a state.
    "dm_target": "thin-pool|thin|snapshot|snapshot-merge|raid|mirror|striped|multipath|cache"
    "|writecache|clone|integrity|verity|vdo",
    "dm_name": r"[!-,.0-~][!-.0-~]{0,126}",
    # Source: OpenZFS, module/zcommon/zfs_namecheck.c, pool_namecheck
    "pool": r"[A-Za-z][\w .:-]{0,255}",
    # tw_cli
    "what": "all|unitstatus|drivestatus|bbustatus|status|serial|model|firmware|driver|bios|achip"
    "|numdrives|numports|numunits|pcb|monitor|rebuild|verify|selftest|media|phy|ctlbus"
    "|rebuildstatus|verifystatus|initializestatus|cache|wrcache|rdcache|name|volumes|rebuildmode"
    "|rebuildrate|verifyrate|autoverify|identify|capacity|smart|ncq|lspeed|pohrs|temperature|rpm"
    "|health|cap|temp|volt|lasttest|bootloader|controllers|slots|fans|psus|enclosures",
    # storcli
    "object": r"/c(\d{1,2}|all)((/e(\d{1,5}|all))?/s(\d{1,4}|all)|/e(\d{1,5}|all)|/v(\d{1,4}|all)"
    r"|/d(\d{1,4}|all)|/p(\d{1,3}|all)|/f(\d{1,3}|all)|/bbu|/cv)?",
    "subject": "all|status|cc|patrolread|time|health|rebuild|initialization|copyback|smart|bgi"
    "|migrate|expansion|bbm|badblocks|properties|temperature|ctrlcount|phyerrorcounters|autorebuild"
    "|eventloginfo|rebuildrate|personality|preservedcache|writeverify|pdfailevents",
    "period": r"type=(latest=\d{1,5}|sinceshutdown|sincereboot|ccincon)",
    "severities": "filter=(info|warning|critical|fatal)(,(info|warning|critical|fatal)){0,3}",
    # MegaCli
    "adapter": r"-a(ALL|\d{1,2})",
    "megacli_drive": r"\[\d{0,5}:\d{1,4}\]",
    # ssacli
    "slot": r"slot=\d{1,3}[a-z]?",
    "drive": r"all|\d{1,2}[A-Z]?:\d{1,3}(:\d{1,3})?",
    # arcconf
    "number": r"\d{1,4}",
    **_DEVICES,
}

_READ = (
    *("<json>", *"-a -x -i -H -A -c".split()),
    *("-l <log>", "-f <format>", "-n <power>", "-T <tolerance>"),
)


def _smartctl(device: str, *types: str) -> tuple[Form, Form]:
    """Reading a disk, and its self-tests. `types`: values of '-d'; none: it is optional."""
    given = (_one if types else _maybe)(*(f"-d <{name}>" for name in types or ("direct",)))
    last = _one(f"<{device}>")
    json = _some("<json>")
    return (
        (_some(*_READ), given, _some(*_READ), last),
        (json, given, json, _one("-t <self_test>", "-X"), json, last),
    )


_STORCLI: tuple[Form, ...] = (
    (_maybe("<object>"), _one("show"), _maybe("<subject>"), _some("J", "nolog")),
    (
        *(_one("<object>"), _one("show"), _one("events"), _some("<period>", "<severities>")),
        _some("J", "nolog"),
    ),
)
_MEGACLI_DRIVES = ("-PDInfo", "-PDRbld -ShowProg")
_MEGACLI: tuple[Form, ...] = (
    (
        _one(
            *(
                f"{text} <adapter>"
                for text in (
                    *("-AdpAllInfo", "-PDList", "-LdPdInfo", "-EncInfo", "-CfgDsply"),
                    *("-AdpBbuCmd", "-AdpBbuCmd -GetBbuStatus", "-AdpGetTime", "-ShowSummary"),
                    *("-AdpPR -Info", "-AdpEventLog -GetEventLogInfo"),
                    *(r"-LDInfo -L(ALL|all|\d{1,3})", r"-LDGetProp -Cache -L(ALL|all|\d{1,3})"),
                    *(f"{text} -PhysDrv <megacli_drive>" for text in _MEGACLI_DRIVES),
                    "-AdpGetPciInfo",
                )
            ),
            "-AdpCount",
        ),
        _one("-NoLog"),
    ),
    (
        _one("-AdpEventLog"),
        _one("-GetEvents", r"-GetLatest \d{1,5}", "-GetSinceReboot", "-GetSinceShutdown"),
        _some("-info", "-warning", "-critical", "-fatal"),
        *(_one("-f /dev/stdout"), _one("<adapter>"), _one("-NoLog")),
    ),
)
"""Always with '-NoLog': without it MegaCli writes 'MegaSAS.log' to its current directory."""
_SSACLI: tuple[Form, ...] = (
    (_one("version"),),
    (_one("ctrl"), _one("all", "<slot>"), _one("show"), _maybe("status", "detail")),
    (_one("ctrl"), _one("all", "<slot>"), _one("show"), _one("config"), _maybe("detail")),
    (
        *(_one("ctrl"), _one("<slot>")),
        _one(
            *("(pd|physicaldrive) <drive>", r"(ld|logicaldrive) (all|\d{1,3})"),
            *("array (all|[A-Z]{1,2})", "enclosure all"),
        ),
        *(_one("show"), _maybe("status", "detail")),
    ),
)
_ARCCONF: tuple[Form, ...] = (
    (
        _one(
            r"(?i:getconfig) \d{1,2} (?i:al|ad|ld|pd|ar|cn)",
            *(r"(?i:getconfig|getstatus|getversion|list|phyerrorlog) \d{1,2}",),
            r"(?i:getlogs) \d{1,2} (?i:device|dead|event)",
            *(r"(?i:getsmartstats) \d{1,2}", "(?i:getversion|list)"),
        ),
        *(_maybe("(?i:tabular)"), _maybe("(?i:nologs)")),
    ),
)
_TW_CLI: tuple[Form, ...] = (
    (_one("show", "info"), _maybe("ver")),
    (_one("info"), _one(r"c\d{1,2}"), _maybe("unitstatus|drivestatus|bbustatus|diskinfo")),
    (
        _one(r"/c\d{1,2}(/(u|p|e|phy)\d{1,3}|/bbu)?"),
        *(_one("show"), _maybe("<what>")),
    ),
    (
        _one(r"/c\d{1,2}(/e\d{1,3})?"),
        *(_one("show"), _one("alarms|AENs|aens|events"), _maybe("reverse")),
    ),
)
_ARECA: tuple[Form, ...] = (
    (
        # Not 'set curctrl=N': some scripts use it in a separate call, so it outlives the call.
        _maybe(r"ctrl=\d{1,2}"),
        _one(
            *("event info", "hw info", "sys info", r"disk smart drv=\d{1,3}"),
            *(r"disk info drv=\d{1,3}", r"rsf info raid=\d{1,3}", r"vsf info vol=\d{1,3}"),
            *("disk info", "rsf info", "vsf info"),
        ),
    ),
)
_BTRFS: tuple[Form, ...] = (
    (_one("inspect-internal"), _one("dump-super"), _one("<block>")),
    (
        # Never without '--noscan': it would open every disk of the machine.
        *map(_one, ("inspect-internal", "dump-tree", "--noscan", "-t chunk")),
        Part(("<block>",), 1, 32),
    ),
    (
        *map(_one, ("inspect-internal", "logical-resolve", "-P")),
        *(_maybe("-o"), _one("<inode>"), _one("<btrfs_mount_point>")),
    ),
    (*map(_one, ("filesystem", "show", "--raw")), _one("<btrfs_mount_point>")),
    (*map(_one, ("scrub", "status", "-d")), _one("<btrfs_mount_point>")),
)
_BTRFS_NAMES: tuple[Form, ...] = (
    (
        *map(_one, ("inspect-internal", "subvolid-resolve|inode-resolve", "<inode>")),
        _one("<btrfs_mount_point>"),
    ),
)
_IRCU: tuple[Form, ...] = ((_one("(?i:list)", r"\d{1,2} (?i:display)", r"\d{1,2} (?i:status)"),),)

_MEGARAID = ("megaraid_sas", "megaraid", "mpt3sas", "mpt2sas", "mpi3mr")
_HP = ("hpsa", "smartpqi", "cciss")
_CLI64 = Program(_ARECA, (), ("arcmsr",), "areca")

PROGRAMS = {
    "smartctl": Program(
        (
            *_smartctl("disk"),
            *(form for name, (device, _) in _TYPES.items() for form in _smartctl(device, name)),
            (_some("<json>", "-d <direct>"), _one("<scan>"), _some("<json>", "-d <direct>")),
            (_some("<json>"), _one("-V"), _some("<json>")),
        )
    ),
    "mdadm": Program(
        ((_one("--detail"), _some("<array_report>"), _one("<md>")),), capabilities=ADMIN
    ),
    # Never '-w'; without it debugfs(8) opens the file system read-only.
    "debugfs": Program(
        (),
        idle=True,
        inner=((_maybe("-c"), _one("-R <request>"), _one("<block>")),),
        capabilities=READ_ALL,
    ),
    "dumpe2fs": Program(
        ((_one("-b"), _one("<block>")),), idle=True, capabilities=READ_ALL, needs_root=False
    ),
    "xfs_io": Program(
        (),
        idle=True,
        inner=((_one("-r"), _one("-c <fsmap>"), _one("<mount_point>")),),
        capabilities=ADMIN,
    ),
    "find": Program(
        (),
        idle=True,
        inner=(
            (
                _one("<mount_point>"),
                *map(_one, "-xdev|-inum <inode>|-printf <found>|-quit".split("|")),
            ),
        ),
        capabilities=READ_ALL,
    ),
    "btrfs": Program(_BTRFS, idle=True, inner=_BTRFS_NAMES, capabilities=ADMIN),
    # Never '--showkeys'; without it the encryption key is not printed.
    # Never 'status' without '--noflush', which commits the metadata of pools, nor for all devices:
    # one that hangs would hang it. 'ls --target' is such a status.
    "dmsetup": Program(
        (
            (
                *map(_one, ("status", "--noflush", "--target <dm_target>")),
                Part(("<dm_name>",), 1, 50),
            ),
        ),
        inner=(
            (_one("table"), _one("-j <device_number>"), _one("-m <device_number>")),
            (_one("table"),),
        ),
        capabilities=ADMIN,
    ),
    # Never '-v', which reads the list of damaged files from the pool. /dev/zfs is open to all
    # (OpenZFS, udev/rules.d/90-zfs.rules), and the request needs no capability (zfs_ioctl.c,
    # zfs_secpolicy_read).
    "zpool": Program(
        (
            (_one("status"), _one("-pLPs"), _one("<pool>")),
            (
                _one("list"),
                _one("-Hpo"),
                _one("size,allocated,free,fragmentation"),
                _one("<pool>"),
            ),
        ),
        capabilities=frozenset(),
        needs_root=False,
    ),
    "tw_cli": Program(
        _TW_CLI,
        ("/opt/3ware/CLI", "/opt/AMCC/CLI"),
        ("3w-9xxx", "3w-sas", "3w-xxxx"),
        "3ware",
    ),
    "cli64": _CLI64,
    "cli32": _CLI64,
    "areca-cli": _CLI64,
    **{
        name: Program(_STORCLI, (f"/opt/MegaRAID/{directory}",), _MEGARAID, "megaraid")
        for name, directory in (
            *(("storcli", "storcli"), ("storcli64", "storcli"), ("storcli2", "storcli2")),
            *(("perccli", "perccli"), ("perccli64", "perccli"), ("perccli2", "perccli2")),
        )
    },
    **{
        name: Program(_MEGACLI, ("/opt/MegaRAID/MegaCli",), _MEGARAID, "megaraid")
        for name in ("MegaCli", "MegaCli64", "megacli")
    },
    "ssacli": Program(_SSACLI, ("/opt/smartstorageadmin/ssacli/bin",), _HP, "hp"),
    "hpssacli": Program(_SSACLI, ("/opt/hp/hpssacli/bld",), _HP, "hp"),
    "hpacucli": Program(_SSACLI, ("/opt/compaq/hpacucli/bld",), _HP, "hp"),
    "cciss_vol_status": Program(((_maybe("-V"), _one("<cciss_disk>")),), (), _HP, "hp"),
    "arcconf": Program(
        _ARCCONF, ("/usr/Arcconf", "/usr/StorMan"), ("aacraid", "smartpqi"), "adaptec"
    ),
    "sas2ircu": Program(_IRCU, (), ("mpt2sas", "mpt3sas"), "mpt"),
    "sas3ircu": Program(_IRCU, (), ("mpt3sas",), "mpt"),
    "mpt-status": Program(
        ((_some("-n", "-s", "-p", "-i <number>", "-u <number>"),),),
        (),
        ("mptsas", "mptspi", "mptfc"),
        "mpt",
    ),
}
