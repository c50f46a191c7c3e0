"""What root may run: complete command lines, of programs that only root can have installed."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import stat
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.daemon.probe import allowed
from iowarden.daemon.probe.programs import NotInstalledError, Programs, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ALLOWED = """
smartctl -V
smartctl --scan --json=c
smartctl --scan-open --json=co
smartctl --json=c -d sat --scan-open
smartctl --json=co -x -n standby,3 /dev/sda
smartctl --json=co -x -f old -l error -l selftest -n standby,3 -d sat /dev/sda
smartctl -A -f hex,id -f brief /dev/sda
smartctl -j -i -H -A -c -l error -l xselftest,5,selftest -l scterc -l devstat,1 -d sat /dev/sdaa
smartctl --json=c -a -d nvme,0xffffffff -T permissive /dev/nvme0
smartctl -a -d scsi /dev/nvme0n1
smartctl -x -d usbjmicron,p,1 /dev/sdb
smartctl -x -d sntrealtek /dev/sdb
smartctl -d areca,1 -x /dev/sg2
smartctl --json=c -x -d areca,12/3 /dev/sg2
smartctl -x -d 3ware,7 /dev/twa0
smartctl -x -d megaraid,7 /dev/bus/0
smartctl -x -d sat+megaraid,7 /dev/sda
smartctl -x -d cciss,0 /dev/sg1
smartctl -x -d cciss,0 /dev/cciss/c0d0
smartctl -x -d aacraid,1,0,4 /dev/sdb
smartctl -x -d sssraid,0,3 /dev/bsg/sssraid0
smartctl -x -d hpt,1/2/3 /dev/sda
smartctl --json=c -d sat -t short /dev/sda
smartctl -t long /dev/nvme0
smartctl -d areca,1 -t conveyance /dev/sg2
smartctl -d megaraid,7 -X --json=c /dev/bus/0
mdadm --detail /dev/md0
mdadm --detail --export --test /dev/md_d1
dumpe2fs -b /dev/sda1
btrfs inspect-internal dump-super /dev/sdb1
btrfs inspect-internal dump-tree --noscan -t chunk /dev/sdc /dev/dm-0 /dev/sdb1
btrfs inspect-internal logical-resolve -P 13631488 /srv
btrfs inspect-internal logical-resolve -P -o 13631488 /srv
btrfs filesystem show --raw /srv
btrfs scrub status -d /srv
tw_cli info
tw_cli info c0 unitstatus
tw_cli show ver
tw_cli /c0 show all
tw_cli /c0 show alarms reverse
tw_cli /c0/e1 show alarms
tw_cli /c0/u1 show serial
tw_cli /c0/p3 show smart
tw_cli /c0/bbu show all
cli64 event info
cli64 ctrl=2 disk info
areca-cli disk smart drv=4
cli32 rsf info
cli64 vsf info
cli64 hw info
cli64 sys info
storcli64 show ctrlcount J
storcli64 /call show all J nolog
storcli /c0/eall/sall show all J nolog
storcli /c0/e252/s1 show smart
perccli64 /c0/vall show all J
perccli2 /c0 show nolog
storcli2 /c0/cv show all J
storcli64 /c0 show events type=latest=100 filter=warning,critical,fatal nolog
MegaCli64 -AdpAllInfo -aALL -NoLog
MegaCli64 -LDInfo -LALL -aALL -NoLog
MegaCli64 -AdpGetPciInfo -aALL -NoLog
MegaCli64 -LdPdInfo -a0 -NoLog
MegaCli64 -PDList -a0 -NoLog
MegaCli64 -AdpBbuCmd -GetBbuStatus -a0 -NoLog
MegaCli -PDInfo -PhysDrv [252:3] -a0 -NoLog
MegaCli -PDRbld -ShowProg -PhysDrv [:3] -a0 -NoLog
MegaCli64 -AdpEventLog -GetEventLogInfo -a0 -NoLog
MegaCli64 -AdpEventLog -GetLatest 512 -f /dev/stdout -a0 -NoLog
MegaCli64 -AdpEventLog -GetLatest 100 -warning -critical -f /dev/stdout -a0 -NoLog
ssacli version
ssacli ctrl all show config detail
ssacli ctrl slot=0b show status
hpssacli ctrl slot=1 pd all show detail
hpacucli ctrl slot=1 physicaldrive 1I:1:4 show
ssacli ctrl slot=1 ld 2 show detail
cciss_vol_status -V /dev/sg0
arcconf GETCONFIG 1 AL nologs
arcconf getconfig 1
arcconf GETLOGS 1 DEVICE tabular
arcconf getversion
arcconf GETSMARTSTATS 1
sas2ircu LIST
sas3ircu 0 DISPLAY
mpt-status -n -s
sas2ircu 1 STATUS
mpt-status -i 0
mpt-status -u 1 -p
mpt-status -n -u 1 -i 4
zpool status -pLPs tank
zpool status -pLPs "my pool"
zpool list -Hpo size,allocated,free,fragmentation tank
dmsetup status --noflush --target thin-pool vg-pool-tpool
dmsetup status --noflush --target multipath mpatha 3600508b4:x
"""
INNER = """
dmsetup table -j 253 -m 0
dmsetup table
debugfs -c -R 'icheck 45156 7' /dev/sda1
debugfs -R 'ncheck 19' /dev/dm-0
debugfs -c -R 'stats -h' /dev/nvme0n1p2
debugfs -c -R 'stat <19>' /dev/md127p1
debugfs -R 'testb 45156 32' /dev/sda1
xfs_io -r -c 'fsmap -d -m 45156 45163' /srv
find /srv -xdev -inum 131 -printf '%y:%s:%p\\0' -quit
btrfs inspect-internal subvolid-resolve 257 /srv
btrfs inspect-internal inode-resolve 257 /srv/data
"""
LINES = [tuple(shlex.split(line)) for line in ALLOWED.strip().splitlines()]
INNER_LINES = [tuple(shlex.split(line)) for line in INNER.strip().splitlines()]
"""Those that verbs of the probe run, and nobody else."""

REFUSED = {
    "another program": "sh -c id",
    "a program by its path": "/usr/sbin/smartctl -a /dev/sda",
    "a program below another directory": "../sbin/smartctl -a /dev/sda",
    "a smart disk switched off": "smartctl -s off /dev/sda",
    "an option smuggled behind a type": "smartctl -d sat -s off /dev/sda",
    "a setting": "smartctl --json=c --set=wcache,off /dev/sda",
    "a shortened option": "smartctl --jso=c -a /dev/sda",
    "a shortened option that sets": "smartctl --smar=off /dev/sda",
    "options glued together": "smartctl -ax /dev/sda",
    "a value glued to its option": "smartctl -dsat -a /dev/sda",
    "a long spelling nobody needs": "smartctl --device=sat -a /dev/sda",
    "an end of options": "smartctl -a -- /dev/sda",
    "a type that writes": "smartctl -a -d jmb39x,0 /dev/sda",
    "a type that writes, glued": "smartctl -a -djmb39x-q,0 /dev/sda",
    "a type in another's clothes": "smartctl -a -d sat+jmb39x,0 /dev/sda",
    "any operation code": "smartctl -a -d usbcypress,0x24 /dev/sda",
    "two types": "smartctl -a -d sat -d areca,1 /dev/sg2",
    "a type and a device that do not go together": "smartctl -a -d areca,1 /dev/sda",
    "a host without the type that asks it": "smartctl -a /dev/bus/0",
    "a time limit set": "smartctl -l scterc,70,70 /dev/sda",
    "counters reset": "smartctl -l sataphy,reset /dev/sda",
    "phy counters reset": "smartctl -l sasphy,reset /dev/sda",
    "a temperature interval set": "smartctl -l scttempint,5,p /dev/sda",
    "a captive test": "smartctl -C -t short /dev/sda",
    "a test of a range": "smartctl -t select,0-max /dev/sda",
    "a vendor's command": "smartctl -t vendor,0x90 /dev/sda",
    "a drive database of somebody's": "smartctl -a -B +/tmp/db /dev/sda",
    "an option where a device is expected": "smartctl -a -x",
    "the standard input as a device": "smartctl -r ataioctl,2 -a -",
    "a path through another": "smartctl -a /dev/../etc/shadow",
    "a path with a dot": "smartctl -a /dev/./sda",
    "a path below shared memory": "smartctl -a /dev/shm/sda",
    "two devices": "smartctl -a /dev/sda /dev/sdb",
    "a partition": "smartctl -a /dev/sda1",
    "unicode digits": "smartctl -a /dev/nvme\u0661",
    "more digits than there are": "smartctl -a /dev/sg99999",
    "members examined": "mdadm --examine /dev/sda1",
    "an array stopped": "mdadm --detail --stop /dev/md0",
    "a configuration of somebody's": "mdadm --detail --config=/tmp/c /dev/md0",
    "a link that udev made": "mdadm --detail /dev/md/root",
    "a file system opened for writing": "debugfs -w -R 'icheck 1' /dev/sda1",
    "commands of a file": "debugfs -f /tmp/commands /dev/sda1",
    "a file dumped": "debugfs -c -R 'dump /etc/shadow /tmp/x' /dev/sda1",
    "a request within a request": "debugfs -c -R 'icheck 1;quit' /dev/sda1",
    "a file by its name": "debugfs -c -R 'stat /etc/shadow' /dev/sda1",
    "a file system shown with an option": "dumpe2fs -b -f /dev/sda1",
    "another superblock": "dumpe2fs -o superblock=32768 /dev/sda1",
    "an undo file": "debugfs -z /tmp/undo -R 'icheck 1' /dev/sda1",
    "an image": "debugfs -c -R 'icheck 1' /tmp/image",
    "a file system for writing": "xfs_io -c 'fsmap -d 1 2' /srv",
    "another command": "xfs_io -r -c 'pwrite 0 1' /srv",
    "commands after a command": "xfs_io -r -c 'fsmap -d 1 2' -c 'truncate 0' /srv",
    "a file found and removed": "find /srv -xdev -inum 131 -delete",
    "a file found by its name": "find /srv -xdev -name shadow -print -quit",
    "a list of files": "find /srv -xdev -inum 131 -fprint /tmp/x",
    "a program for each file": "find /srv -xdev -inum 131 -exec id ; -quit",
    "another format": "find /srv -xdev -inum 131 -printf '%l' -quit",
    "a superblock that is none": "btrfs inspect-internal dump-super -F /dev/sdb1",
    "a tree with names of files": "btrfs inspect-internal dump-tree --noscan -t 256 /dev/sdb1",
    "every disk": "btrfs inspect-internal dump-tree -t chunk /dev/sdb1",
    "a tree of no device": "btrfs inspect-internal dump-tree --noscan -t chunk",
    "a tree of an image": "btrfs inspect-internal dump-tree --noscan -t chunk /tmp/image",
    "names of what is no number": "btrfs inspect-internal inode-resolve -v /srv",
    "a repair": "btrfs check --repair /dev/sdb1",
    "a scrub": "btrfs scrub start /srv",
    "counts set to zero": "btrfs device stats --reset /srv",
    "a snapshot deleted": "btrfs subvolume delete /srv/data",
    "all file systems": "btrfs filesystem show --raw",
    "a file system made smaller": "btrfs filesystem resize 1g /srv",
    "a log thrown away": "btrfs rescue zero-log /dev/sdb1",
    "the key of an encryption": "dmsetup table --showkeys -j 253 -m 0",
    "a mapping removed": "dmsetup remove -j 253 -m 0",
    "the metadata of a pool written": "dmsetup status --target thin-pool vg-pool-tpool",
    "the metadata of all pools written": "dmsetup status",
    "what hangs with any pool": "dmsetup status --noflush",
    "what hangs with any pool as well": "dmsetup status --noflush --target raid",
    "a list that is a status": "dmsetup ls --target thin-pool",
    "the keys of all mappings": "dmsetup table --showkeys",
    "a mapping that waits": "dmsetup wait --noflush vg-pool-tpool",
    "an option in place of a device": "dmsetup status --noflush --target raid --exec",
    "a path in place of a device": "dmsetup status --noflush --target raid /etc/passwd",
    "a table that is loaded": "dmsetup load vg-pool-tpool",
    "a message to a pool": "dmsetup message vg-pool-tpool 0 release_metadata_snap",
    "all pools": "zpool status -pLPs",
    "properties that users set": "zpool list -Hpo all tank",
    "the space of all pools": "zpool list -Hpo size,allocated,free,fragmentation",
    "an option in place of a pool": "zpool status -pLPs -v",
    "the damaged files of a pool": "zpool status -v tank",
    "a program for each device of a pool": "zpool status -c media tank",
    "the errors of a pool cleared": "zpool clear tank",
    "a device taken from a pool": "zpool offline tank sda",
    "a block freed": "debugfs -R 'freeb 45156 1' /dev/sda1",
    "a unit deleted": "tw_cli /c0/u0 del",
    "a setting of 3ware": "tw_cli /c0 set rebuild=1",
    "another machine": "tw_cli //elvis/c0 show",
    "a script": "tw_cli -f /tmp/script",
    "the event log cleared": "cli64 event clear",
    "a password": "cli64 set password=0000",
    "the current controller": "cli64 set curctrl=2",
    "a raid set deleted": "cli64 rsf delete raid=1",
    "a drive set offline": "storcli /c0/e252/s1 set offline",
    "events written to a file": "storcli /c0 show events file=/etc/cron.d/x",
    "the events deleted": "storcli /c0 delete events",
    "a report to a file": "MegaCli64 -AdpEventLog -GetEvents -f /etc/cron.d/x -a0 -NoLog",
    "an adapter's defaults": "MegaCli64 -AdpFacDefSet -a0 -NoLog",
    "a log cleared": "MegaCli64 -AdpEventLog -Clear -a0 -NoLog",
    "a battery learn cycle": "MegaCli64 -AdpBbuCmd -BbuLearn -a0 -NoLog",
    "a rebuild begun": "MegaCli64 -PDRbld -Start -PhysDrv [252:3] -a0 -NoLog",
    "a rebuild of several disks": "MegaCli64 -PDRbld -ShowProg -PhysDrv [252:3,252:4] -a0 -NoLog",
    "a log that is left behind": "MegaCli64 -AdpAllInfo -aALL",
    "a drive erased": "ssacli ctrl slot=0 pd 1I:1:1 modify erase",
    "a diagnosis to a file": "ssacli ctrl slot=0 diag file=/etc/cron.d/x",
    "a device log cleared": "arcconf GETLOGS 1 DEVICE clear",
    "an array made": "arcconf CREATE 1 LOGICALDRIVE MAX VOLUME 0 0",
    "an array deleted": "sas2ircu 0 DELETE",
    "a log written": "sas2ircu 0 LOGIR UPLOAD",
    "a module loaded": "mpt-status --autoload",
    "a program without arguments": "smartctl",
}


@pytest.mark.parametrize("arguments", LINES, ids=" ".join)
def test_what_iowarden_requests_is_allowed(arguments: tuple[str, ...]) -> None:
    """Every command line that iowarden uses is on the allowlist."""
    assert allowed.match(arguments).program is allowed.PROGRAMS[arguments[0]]


@pytest.mark.parametrize("arguments", INNER_LINES, ids=" ".join)
def test_what_prints_names_or_attributes_of_files_is_for_the_probes_verbs_alone(
    arguments: tuple[str, ...],
) -> None:
    """'debugfs stat' has values of attributes and targets of links; others have any file's name."""
    assert allowed.match(arguments, inner=True).program is allowed.PROGRAMS[arguments[0]]
    with pytest.raises(ValueError, match=r"expected .*; not run"):
        allowed.match(arguments)


@pytest.mark.parametrize("line", REFUSED.values(), ids=list(REFUSED))
def test_what_would_do_more_is_refused(line: str) -> None:
    """A compromised daemon requests this, and gets nothing; a mistake in a verb as little."""
    for inner in (False, True):
        with pytest.raises(ValueError, match="; not run"):
            allowed.match(tuple(shlex.split(line)), inner=inner)


@pytest.mark.parametrize(
    "bad", ["\0", "\n", "\r", "\x7f", "\x1b[2J", "\u00e9", "\udcff", "x" * 1100, ""]
)
def test_an_argument_with_something_hidden_is_refused(bad: str) -> None:
    """A device with an invisible or endless tail, an empty argument: each is refused as such."""
    device = ("smartctl", "-a", "/dev/sda" + bad if bad else "")
    for arguments in (device, ("smartctl" + bad + "x", "-V")):
        with pytest.raises(ValueError, match="expected"):
            allowed.match(arguments)


def test_a_command_line_of_many_arguments_is_refused() -> None:
    """A request may have 64 arguments, and a program 24 options at one place."""
    with pytest.raises(ValueError, match="1 to 64 arguments"):
        allowed.match(("smartctl", *["-a"] * 64, "/dev/sda"))
    with pytest.raises(ValueError, match="; not run"):
        allowed.match(("smartctl", *["-a"] * 60, "/dev/sda"))


def test_the_refusal_reports_where_what_was_expected_and_what_came() -> None:
    """The log shows the argument, and why jmb39x is not an allowed type."""
    with pytest.raises(
        ValueError, match="argument 2: expected '<array_report>', '<md>', got '/dev/sda'"
    ):
        allowed.match(("mdadm", "--detail", "/dev/sda"))
    with pytest.raises(ValueError, match="'jmb39x,0', which writes to sector 33"):
        allowed.match(("smartctl", "-d", "jmb39x,0", "-a", "/dev/sda"))


# An independent check, which removes the numbers from each argument and has a list of the words
# that only read.
NUMBER = re.compile("[0-9]+")
SMARTCTL = set(
    """-V -j -a -x -i -H -A -c -f -l -n -T -d -t -X --scan --scan-open short long conveyance
    error xerror xerror,# xerror,error xerror,#,error selftest xselftest xselftest,#
    xselftest,selftest xselftest,#,selftest selective background directory directory,g directory,s
    scttemp scttempsts scttemphist scterc devstat devstat,# defects defects,# ssd sataphy sasphy
    envrep farm genstats auto ata scsi nvme sat sat,auto sat,# sat,auto,# usbcypress usbjmicron
    usbjmicron,p usbjmicron,# usbjmicron,p,# usbprolific usbsunplus sntasmedia sntrealtek sntjmicron
    sntasmedia/sat sntrealtek/sat sntjmicron/sat areca,# areca,#/# #ware,# megaraid,#
    sat+megaraid,# cciss,# sat+cciss,# scsi+cciss,# aacraid,#,#,# sat+aacraid,#,#,#
    scsi+aacraid,#,#,# sssraid,#,# hpt,#/# hpt,#/#/# never sleep standby idle normal conservative
    permissive verypermissive old brief hex hex,id hex,val
    /dev/sg# /dev/nvme# /dev/nvme#n# /dev/bus/# /dev/cciss/c#d#
    /dev/bsg/sssraid# /dev/twe# /dev/twa# /dev/twl#""".split()
)
SMARTCTL_SHAPES = (
    "/dev/sd[a-z]+|--json(=[a-z]+)?|(never|sleep|standby|idle)(,#){0,2}"
    "|(nvme|sntjmicron|sntjmicron/sat),[#a-fx]+"
)
MEGACLI = set(
    """-adpallinfo -pdlist -ldpdinfo -encinfo -cfgdsply -adpbbucmd -getbbustatus -adpgettime
    -showsummary -adppr -info -adpeventlog -geteventloginfo -ldinfo -ldgetprop -cache -pdinfo
    -physdrv -pdrbld -showprog -adpgetpciinfo -adpcount -getevents -getlatest -getsincereboot
    -getsinceshutdown -warning -critical -fatal -f /dev/stdout -nolog -lall -l# -aall -a# #
    [#:#] [:#]""".split()
)
ARCCONF = set(
    """getconfig getstatus getversion list getlogs getsmartstats phyerrorlog al ad ld pd ar cn
    device dead event tabular nologs #""".split()
)


def harmless(arguments: tuple[str, ...]) -> bool:
    """Whether a command line only reads, or runs a self-test; decided without the table."""
    name, *rest = arguments
    plain = [NUMBER.sub("#", argument) for argument in rest]
    lower = {word.lower() for word in plain}
    match name:
        case "smartctl":
            return all(word in SMARTCTL or re.fullmatch(SMARTCTL_SHAPES, word) for word in plain)
        case "mdadm":
            known = {"--export", "--test", "--verbose", "/dev/md#", "/dev/md_d#"}
            return plain[0] == "--detail" and set(plain[1:]) <= known
        case "debugfs":
            *options, request, device = (re.sub("( #)+", " #", word) for word in plain)
            asked = {"icheck #", "ncheck #", "stats -h", "stat <#>", "testb #"}
            at_home = re.fullmatch("/dev/[a-z]+[-a-z#]*(/c#d#)?(p#)?|/dev/md_d#(p#)?", device)
            return set(options) <= {"-c", "-R"} and request in asked and at_home is not None
        case "xfs_io":
            return plain[:2] == ["-r", "-c"] and len(plain) == 4 and plain[2].startswith("fsmap -")
        case "find":
            return plain[1:] == ["-xdev", "-inum", "#", "-printf", "%y:%s:%p\\#", "-quit"]
        case "zpool" | "dmsetup" | "dumpe2fs":
            line = " ".join(plain)
            shown = re.fullmatch(
                r"-b /dev/[-a-z#/_]+|(status -pLPs|list -Hpo [a-z,]+) [A-Za-z][\w .:#-]*", line
            )
            listed = plain in (["table"], ["table", "-j", "#", "-m", "#"])
            return listed or shown is not None or harmless_status(plain)
        case "cciss_vol_status":
            return lower <= {"-v", "/dev/sg#", "/dev/cciss/c#d#"} or rest[-1].startswith("/dev/sd")
        case "arcconf":
            return lower <= ARCCONF
        case "sas2ircu" | "sas3ircu" | "mpt-status":
            return lower <= {"list", "display", "status", "#", "-n", "-s", "-p", "-i", "-u"}
    return harmless_by_verb(name.rstrip("0123456789"), rest, lower)


def harmless_status(plain: list[str]) -> bool:
    """Whether dmsetup shows the status of some devices, without a write of their metadata."""
    names = plain[4:]
    return (
        plain[:3] == ["status", "--noflush", "--target"]
        and bool(names)
        and not any(word.startswith("-") or "/" in word for word in names)
    )


def reveals(arguments: tuple[str, ...]) -> bool:
    """Whether a command line prints names or attributes of files, or keys."""
    return (
        arguments[0] in {"debugfs", "xfs_io", "find"}
        or arguments[:2] == ("dmsetup", "table")
        or bool({"subvolid-resolve", "inode-resolve"} & {*arguments})
    )


def harmless_btrfs(plain: list[str]) -> bool:
    """Whether btrfs is used to look up numbers and names, of the given file, and nothing else."""
    if plain[:2] == ["inspect-internal", "dump-tree"]:
        devices = plain[5:]
        return plain[2:5] == ["--noscan", "-t", "chunk"] and all(
            word.startswith("/dev/") for word in devices
        )
    if plain[:3] == ["scrub", "status", "-d"]:
        return len(plain) == 4 and plain[3].startswith("/")
    known = {"dump-super", "logical-resolve", "-P", "-o", "subvolid-resolve", "inode-resolve", "#"}
    if plain[0] == "inspect-internal":
        return set(plain[1:-1]) <= known and plain[-1].startswith("/")
    return plain[:3] == ["filesystem", "show", "--raw"] and len(plain) == 4


def harmless_by_verb(vendor: str, rest: list[str], lower: set[str]) -> bool:
    """Whether a vendor's program only shows something."""
    if vendor == "btrfs":
        return harmless_btrfs([NUMBER.sub("#", word) for word in rest])
    verb = next((word for word in rest if not word.startswith(("/", "ctrl="))), "")
    match vendor:
        case "tw_cli":
            return verb in {"show", "info"} and not lower & {"set", "diag", "-f"}
        case "cli" | "areca-cli":
            return verb in {"event", "disk", "rsf", "vsf", "hw", "sys"} and bool(
                {"info", "smart"} & {*rest[1:3]}
            )
        case "storcli" | "perccli":
            return verb == "show" and not any("file" in word for word in rest)
        case "MegaCli" | "megacli":
            return lower <= MEGACLI and ("-f" in lower) == ("/dev/stdout" in lower)
        case "ssacli" | "hpssacli" | "hpacucli":
            after = rest[rest.index("show") + 1 :] if "show" in rest else rest
            return set(after) <= {"status", "detail", "config", "version"}
    return False


NASTY = [
    *"-s off -w --set=x clear del delete set file=/x -f /etc/shadow - -- .. /dev/sda/../x".split(),
    *"-d jmb39x,0 -C scterc,70,70 add J nolog /dev/sdb /c0 show -t short -l -B +/tmp/x".split(),
    *("rescan", "/dev/sda\n", "\0"),
]
WORDS = st.one_of(
    st.sampled_from(NASTY),
    st.sampled_from(sorted({word for line in (*LINES, *INNER_LINES) for word in line})),
    st.text(max_size=8),
    st.from_regex(r"\A[-a-z0-9,/=]{1,10}\Z"),
)


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, ...]:
    """An allowed command line after one to three random changes."""
    words = list(draw(st.sampled_from([*LINES, *INNER_LINES])))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(words)))
        match draw(st.sampled_from(["insert", "replace", "delete", "append", "swap"])):
            case "insert":
                words.insert(at, draw(WORDS))
            case "replace":
                words[at : at + 1] = [draw(WORDS)]
            case "delete":
                del words[at : at + 1]
            case "append" if at < len(words):
                words[at] += draw(WORDS)
            case _:
                words[at : at + 2] = reversed(words[at : at + 2])
    return tuple(words)


def test_each_allowed_line_is_harmless_by_the_independent_check() -> None:
    """Else the random test below would find it on some days only."""
    assert [line for line in (*LINES, *INNER_LINES) if not harmless(line)] == []


@given(mutated())
def test_no_accident_makes_a_harmful_command_line_of_an_allowed_one(
    arguments: tuple[str, ...],
) -> None:
    """Whatever is inserted, omitted or appended: refused, or harmless by the independent check."""
    try:
        allowed.match(arguments, inner=True)
    except ValueError:
        return
    assert harmless(arguments)
    with contextlib.suppress(ValueError):
        allowed.match(arguments)
        assert not reveals(arguments)


@given(st.lists(st.text(max_size=20), max_size=80))
def test_any_garbage_is_refused_with_a_reason(arguments: list[str]) -> None:
    """Nothing that is sent makes the match itself fail."""
    with pytest.raises(ValueError, match="expected"):
        allowed.match(tuple(arguments))


class FakeMachine:
    """A directory with programs, devices and kernel files, owned by the user who runs the tests."""

    def __init__(self, root: Path) -> None:
        """Start with an empty one."""
        self.root = root

    def at(self, path: str) -> Path:
        """Return where a path of the machine is, its directories made as root would make them."""
        found = self.root / path.lstrip("/")
        for parent in reversed(found.parents):
            if self.root in parent.parents and not parent.exists():
                parent.mkdir()
                parent.chmod(0o755)
        return found

    def program(self, path: str, mode: int = 0o755, text: str = "#!/bin/sh\n") -> None:
        """Install a program there."""
        self.at(path).write_text(text)
        self.at(path).chmod(mode)

    def files(self, texts: dict[str, str]) -> None:
        """Write files of '/proc' and '/sys'; a path that ends in '/' is a directory."""
        for path, text in texts.items():
            if path.endswith("/"):
                self.at(path + "x")
            else:
                self.at(path).write_text(text)

    def devices(self, *paths: str) -> None:
        """Make nodes; any user may make character device 0:0 (mknod(2), overlayfs whiteouts)."""
        for path in paths:
            os.mknod(self.at(path), stat.S_IFCHR | 0o600, os.makedev(0, 0))

    def host(self, number: int, driver: str) -> None:
        """Add a SCSI host."""
        self.files({f"/sys/class/scsi_host/host{number}/proc_name": driver + "\n"})

    def disk(self, name: str, address: str = "") -> None:
        """Add a disk, at an address H:C:T:L if it is a SCSI one."""
        self.files({f"/sys/block/{name}/slaves/": ""})
        if address:
            self.files({f"/sys/block/{name}/device/scsi_device/{address}/": ""})
        self.devices(f"/dev/{name}")

    def generic(self, name: str, address: str, disk: str = "") -> None:
        """Add the SCSI generic device of a disk or a controller."""
        path = f"/sys/class/scsi_generic/{name}/device"
        self.files({f"{path}/scsi_device/{address}/": ""})
        if disk:
            self.files({f"{path}/block/{disk}/": ""})
        self.devices(f"/dev/{name}")

    def programs(self) -> Programs:
        """Find programs."""
        return Programs(str(self.root), os.getuid())

    def controllers(self, line: str) -> set[str]:
        """Return what a command line would access."""
        return set(self.programs().resolve(line.split()).controllers)


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    """A machine with a few programs in their usual places."""
    made = FakeMachine(tmp_path)
    tmp_path.chmod(0o755)
    for name in ("smartctl", "mdadm", "debugfs", "xfs_io", "cli64", "tw_cli"):
        made.program(f"/usr/sbin/{name}")
    made.program("/opt/MegaRAID/storcli/storcli64")
    made.files({"/sys/class/scsi_host/": "", "/sys/block/": "", "/proc/1/comm": "systemd\n"})
    return made


def test_programs_are_found_at_their_places_and_started_as_asked(machine: FakeMachine) -> None:
    """'storcli64' is where its vendor installs it; the command has its path and all arguments."""
    programs = machine.programs()
    assert programs.installed()["storcli64"] == "/opt/MegaRAID/storcli/storcli64"
    assert "ssacli" not in programs.installed()
    assert programs.problems() == {}
    machine.disk("sda", "0:0:0:0")
    command = programs.resolve(["smartctl", "--json=c", "-a", "/dev/sda"])
    assert command.path == str(machine.root / "usr/sbin/smartctl")
    assert command.arguments == ("smartctl", "--json=c", "-a", "/dev/sda")
    assert (command.controllers, command.devices) == (frozenset({"sda"}), ("sda",))


def test_a_program_that_is_not_installed_is_missing_and_not_forbidden(machine: FakeMachine) -> None:
    """The daemon treats a missing ssacli as absent; the text has the searched paths."""
    with pytest.raises(
        NotInstalledError, match=r"'ssacli': not found at /opt/smartstorageadmin/.*install"
    ):
        machine.programs().resolve(["ssacli", "version"])


def test_a_missing_program_of_the_distribution_is_named_with_its_package(tmp_path: Path) -> None:
    """'locate' needs debugfs, which is in no package of that name."""
    command = ["debugfs", "-R", "icheck 5", "/dev/sda"]
    with pytest.raises(NotInstalledError, match=r"install the package 'e2fsprogs'$"):
        Programs(str(tmp_path)).resolve(command, inner=True)


def test_a_program_that_is_not_on_the_list_is_refused_though_it_is_there(
    machine: FakeMachine,
) -> None:
    """A shell next to smartctl is not run."""
    machine.program("/usr/sbin/sh")
    with pytest.raises(RefusedError, match="expected a program that root may run, got 'sh'"):
        machine.programs().resolve(["sh", "-c", "id"])


def test_the_environment_decides_nothing(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PATH with another mdadm in front is ignored."""
    machine.program("/tmp/mdadm")
    monkeypatch.setenv("PATH", str(machine.root / "tmp"))
    assert machine.programs().installed()["mdadm"] == "/usr/sbin/mdadm"


def writable_by_group(machine: FakeMachine) -> None:
    """The program's group may change it."""
    (machine.root / "usr/sbin/smartctl").chmod(0o775)


def in_an_open_directory(machine: FakeMachine) -> None:
    """Any user may replace the program."""
    (machine.root / "usr/sbin").chmod(0o757)


def in_an_open_root(machine: FakeMachine) -> None:
    """Any user may replace '/usr'."""
    machine.root.chmod(0o777)


def below_an_open_directory(machine: FakeMachine) -> None:
    """Any user may rename its directory, sticky bit or not."""
    (machine.root / "usr").chmod(0o1777)


def a_link_into_an_open_directory(machine: FakeMachine) -> None:
    """The link's target is where any user may change it."""
    (machine.root / "usr/sbin/smartctl").unlink()
    machine.program("/tmp/x/smartctl")
    (machine.root / "tmp").chmod(0o777)
    (machine.root / "usr/sbin/smartctl").symlink_to("/tmp/x/smartctl")


def a_link_through_an_open_directory(machine: FakeMachine) -> None:
    """The target is safe, but the link to it is not."""
    machine.program("/opt/real/smartctl")
    (machine.root / "usr/sbin/smartctl").unlink()
    machine.at("/srv/hop/x").parent.chmod(0o777)
    (machine.root / "srv/hop/smartctl").symlink_to("../../opt/real/smartctl")
    (machine.root / "usr/sbin/smartctl").symlink_to("../../srv/hop/smartctl")


def not_a_program(machine: FakeMachine) -> None:
    """A text file with that name."""
    (machine.root / "usr/sbin/smartctl").chmod(0o644)


def a_pipe(machine: FakeMachine) -> None:
    """Something that would block a process that opens it."""
    (machine.root / "usr/sbin/smartctl").unlink()
    os.mkfifo(machine.root / "usr/sbin/smartctl", 0o755)


def a_circle(machine: FakeMachine) -> None:
    """A link to itself."""
    (machine.root / "usr/sbin/smartctl").unlink()
    (machine.root / "usr/sbin/smartctl").symlink_to("smartctl")


UNSAFE: list[Callable[[FakeMachine], None]] = [
    *(writable_by_group, in_an_open_directory, in_an_open_root, below_an_open_directory),
    *(not_a_program, a_pipe),
    *(a_link_into_an_open_directory, a_link_through_an_open_directory, a_circle),
]


@pytest.mark.parametrize("spoil", UNSAFE, ids=lambda spoil: spoil.__name__)
def test_a_program_that_others_may_change_is_refused(
    machine: FakeMachine, spoil: Callable[[FakeMachine], None]
) -> None:
    """Before iowarden starts or while it runs: the reason is stored, and reported once."""
    programs = machine.programs()
    spoil(machine)
    for _ in range(2):
        with pytest.raises(RefusedError, match="'/usr/sbin/smartctl' is not used: ") as refusal:
            programs.resolve(["smartctl", "-V"])
        assert not isinstance(refusal.value, NotInstalledError)
    assert len(programs.changes()) == 1
    assert programs.changes() == []
    assert "smartctl" not in programs.installed()
    again = machine.programs()
    assert "smartctl" in again.problems()
    assert again.changes() == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_a_program_of_somebody_else_is_refused(machine: FakeMachine) -> None:
    """Its owner may change it at any moment, whatever its mode is."""
    os.chown(machine.root / "usr/sbin/smartctl", 1, 0)
    with pytest.raises(RefusedError, match="got owner 1 and mode 0755"):
        machine.programs().resolve(["smartctl", "-V"])


def test_a_safe_program_behind_an_unsafe_one_is_taken(machine: FakeMachine) -> None:
    """The vendor's directory is writable by all, the packaged program is not: that one is run."""
    (machine.root / "opt/MegaRAID").chmod(0o777)
    machine.program("/usr/local/sbin/storcli64")
    programs = machine.programs()
    assert programs.installed()["storcli64"] == "/usr/local/sbin/storcli64"
    assert "'/opt/MegaRAID'" in programs.problems()["storcli64"]


def test_an_updated_program_is_taken_and_reported_once(machine: FakeMachine) -> None:
    """A package installs a new smartctl while iowarden runs; then one comes as a link."""
    programs = machine.programs()
    programs.resolve(["smartctl", "-V"])
    assert programs.changes() == []
    machine.program("/usr/sbin/smartctl.new", text="#!/bin/sh\necho new\n")
    (machine.root / "usr/sbin/smartctl.new").rename(machine.root / "usr/sbin/smartctl")
    for _ in range(2):
        programs.resolve(["smartctl", "-V"])
    assert programs.changes() == [
        "'smartctl' was replaced: '/usr/sbin/smartctl' is used from now on"
    ]
    machine.program("/opt/smart/smartctl-8")
    (machine.root / "usr/sbin/smartctl").unlink()
    (machine.root / "usr/sbin/smartctl").symlink_to("../../opt/smart/smartctl-8")
    assert programs.resolve(["smartctl", "-V"]).path == str(machine.root / "opt/smart/smartctl-8")


def test_a_program_that_is_installed_later_is_found(machine: FakeMachine) -> None:
    """The user is told that ssacli is missing, installs it, and needs no restart."""
    programs = machine.programs()
    machine.program("/usr/sbin/ssacli")
    assert programs.resolve(["ssacli", "version"]).path.endswith("/usr/sbin/ssacli")


def test_a_device_that_is_none_is_refused(machine: FakeMachine) -> None:
    """A link to the passwords, a file, a directory, nothing at all: none of it is a disk."""
    machine.at("/etc/shadow").write_text("root:*")
    machine.at("/dev/sda").symlink_to("/etc/shadow")
    machine.at("/dev/sdb").write_text("")
    machine.at("/dev/sdc").mkdir()
    machine.at("/dev/bus/0").mkdir()
    machine.devices("/dev/bus/1")
    programs = machine.programs()
    for device, got in (
        ("-a /dev/sda", "a symbolic link"),
        ("-a /dev/sdb", "a file"),
        ("-a /dev/sdc", "a file"),
        ("-a /dev/sdd", "'No such file or directory'"),
        ("-a -d megaraid,1 /dev/bus/0", "a file"),
        ("-a -d megaraid,1 /dev/bus/1", "a file"),
    ):
        with pytest.raises(RefusedError, match=f"expected a device, got {got}.*; not run"):
            programs.resolve(["smartctl", *device.split()])


def test_disks_of_a_simple_adapter_go_on_beside_each_other(machine: FakeMachine) -> None:
    """Each disk is its own controller, by whichever of its names it is given."""
    machine.host(0, "ahci")
    machine.disk("sda", "0:0:0:0")
    machine.disk("nvme0n1")
    machine.devices("/dev/nvme0")
    machine.generic("sg0", "0:0:0:0", "sda")
    machine.generic("sg1", "0:0:1:0")
    assert machine.controllers("smartctl -a /dev/sda") == {"sda"}
    assert machine.controllers("smartctl -a -d sat /dev/sg0") == {"sda"}
    assert machine.controllers("smartctl -a /dev/sg1") == {"sg1"}
    assert machine.controllers("smartctl -a /dev/nvme0") == {"nvme0"}
    assert machine.controllers("smartctl -t short /dev/nvme0n1") == {"nvme0"}
    programs = machine.programs()
    assert programs.resolve("smartctl -a /dev/sg0".split()).devices == ("sda",)
    assert programs.resolve("smartctl -a /dev/nvme0".split()).devices == ("nvme0n1",)


def test_two_areca_cards_are_queried_beside_each_other_and_the_vendors_program_waits_for_both(
    machine: FakeMachine,
) -> None:
    """smartctl names a controller by its generic device; cli64 may access any, so it runs alone."""
    machine.host(4, "arcmsr")
    machine.host(5, "(null)")
    machine.at("/sys/class/scsi_host/host5/device").mkdir()
    machine.at("/sys/class/scsi_host/host5/driver").symlink_to("/sys/bus/pci/drivers/arcmsr")
    machine.generic("sg2", "4:0:16:0")
    machine.generic("sg3", "5:0:16:0")
    machine.disk("sdc", "4:0:0:0")
    assert machine.controllers("smartctl -a -d areca,1 /dev/sg2") == {"host4"}
    assert machine.controllers("smartctl -a -d areca,1/2 /dev/sg3") == {"host5"}
    assert machine.controllers("smartctl -a /dev/sdc") == {"host4"}
    assert machine.controllers("cli64 event info") == {"host4", "host5"}
    programs = machine.programs()
    assert programs.resolve("smartctl -a -d areca,1 /dev/sg2".split()).devices == ()


def test_a_vendors_program_without_its_adapter_has_a_name_to_wait_for(machine: FakeMachine) -> None:
    """Two cli64 on a machine whose driver shows no host still do not run at the same time."""
    assert machine.controllers("cli64 event info") == {"areca"}
    assert machine.controllers("tw_cli info") == {"3ware"}


def test_disks_behind_a_raid_controller_share_it(machine: FakeMachine) -> None:
    """MegaRAID, 3ware and Adaptec: whichever device names the controller, it is the one locked."""
    for number, driver in enumerate(("megaraid_sas", "3w-9xxx", "3w-9xxx", "aacraid", "hpsa")):
        machine.host(number, driver)
    machine.disk("sda", "0:2:0:0")
    machine.disk("sdb", "3:0:0:0")
    machine.generic("sg4", "4:3:0:0")
    assert machine.controllers("smartctl -a -d megaraid,7 /dev/bus/0") == {"host0"}
    assert machine.controllers("smartctl -a -d sat+megaraid,7 /dev/sda") == {"host0"}
    assert machine.controllers("storcli64 /c0 show J") == {"host0"}
    volume = machine.programs().resolve("smartctl -a -d megaraid,7 /dev/sda".split())
    assert volume.devices == ()
    assert machine.controllers("smartctl -a -d 3ware,1 /dev/twa1") == {"host2"}
    assert machine.controllers("smartctl -a -d aacraid,3,0,1 /dev/sdb") == {"host3"}
    assert machine.controllers("smartctl -a -d aacraid,9,0,1 /dev/sdb") == {"host3", "host9"}
    assert machine.controllers("smartctl -a -d cciss,0 /dev/sg4") == {"host4"}
    assert machine.controllers("smartctl --scan-open --json=c") == {"scan", "host0"}
    assert machine.controllers("smartctl -V") == set()


def test_an_array_waits_for_all_its_disks(machine: FakeMachine) -> None:
    """mdadm and debugfs read the members: if one of them hangs, only that one counts as hung."""
    machine.host(0, "ahci")
    machine.host(1, "megaraid_sas")
    machine.disk("sda", "0:0:0:0")
    machine.disk("sdb", "1:2:0:0")
    machine.disk("md0")
    machine.disk("dm-0")
    machine.devices("/dev/sda2")
    machine.files(
        {
            "/sys/block/sda/sda2/partition": "2\n",
            "/sys/block/md0/slaves/sda2/": "",
            "/sys/block/md0/slaves/sdb/": "",
            "/sys/block/dm-0/slaves/md0/": "",
        }
    )
    programs = machine.programs()
    command = programs.resolve("mdadm --detail /dev/md0".split())
    assert (set(command.controllers), command.devices) == ({"md0", "sda", "host1"}, ("md0",))
    command = programs.resolve(["debugfs", "-c", "-R", "icheck 5", "/dev/dm-0"], inner=True)
    assert (set(command.controllers), command.devices) == ({"sda", "host1"}, ("dm-0",))
    command = programs.resolve(["debugfs", "-c", "-R", "icheck 5", "/dev/sda2"], inner=True)
    assert (set(command.controllers), command.devices) == ({"sda"}, ("sda",))


def test_xfs_is_queried_at_its_mount_point_and_nowhere_else(machine: FakeMachine) -> None:
    """A directory of root's, a bound file, ext4: root opens nothing but a mounted XFS."""
    machine.disk("sda", "0:0:0:0")
    machine.program("/usr/bin/find")
    machine.files(
        {
            "/sys/block/sda/sda1/partition": "1\n",
            "/proc/1/mountinfo": "21 1 8:1 / /srv/my\\040data rw - xfs /dev/sda1 rw\n"
            "22 1 8:2 / /home rw - ext4 /dev/sda2 rw\n"
            "23 1 8:1 /file /bound rw shared:1 - xfs /dev/sda1 rw\n",
        }
    )
    machine.at("/sys/dev/block/8:1").symlink_to("../../devices/x/block/sda/sda1")
    programs = machine.programs()
    line = ["xfs_io", "-r", "-c", "fsmap -d -m 10 20"]
    machine.files(
        {
            "/proc/1/mountinfo": (machine.root / "proc/1/mountinfo").read_text()
            + "24 1 8:1 / /srv rw - xfs /dev/sda1 rw\n"
        }
    )
    command = programs.resolve([*line, "/srv"], inner=True)
    assert (set(command.controllers), command.devices) == ({"sda"}, ("sda",))
    for path in ("/home", "/bound", "/srv/", "/srv/..", "/dev/watchdog", "/srv/my\\040data"):
        with pytest.raises(RefusedError, match="expected the mount point of an XFS"):
            programs.resolve([*line, path], inner=True)
        with pytest.raises(RefusedError, match="expected the mount point of an XFS"):
            programs.resolve(
                ["find", path, *"-xdev -inum 9 -printf %y:%s:%p\\0 -quit".split()], inner=True
            )


def test_btrfs_is_queried_where_any_of_its_subvolumes_is_mounted(machine: FakeMachine) -> None:
    """Its number is no device's: the disk in the mount table is the one that may hang."""
    machine.disk("sda", "0:0:0:0")
    machine.program("/usr/bin/btrfs")
    machine.devices("/dev/sda1", "/dev/dm-0")
    machine.files(
        {
            "/sys/block/sda/sda1/partition": "1\n",
            "/sys/block/dm-0/slaves/sda1/": "",
            "/proc/1/mountinfo": "21 1 0:39 /@home /home rw - btrfs /dev/sda1 rw,subvolid=256\n"
            "22 1 0:40 / /srv rw - btrfs /dev/mapper/rack-srv rw,subvolid=5\n"
            "23 1 8:1 / /xfs rw shared:1 - xfs /dev/sda2 rw\n",
        }
    )
    machine.at("/dev/mapper").mkdir()
    machine.at("/dev/mapper/rack-srv").symlink_to("../dm-0")
    programs = machine.programs()
    line = "btrfs inspect-internal inode-resolve 257".split()
    command = programs.resolve([*line, "/home"], inner=True)
    assert (set(command.controllers), command.devices) == ({"sda"}, ("sda",))
    command = programs.resolve([*line, "/srv"], inner=True)
    assert (set(command.controllers), command.devices) == ({"sda"}, ("dm-0",))
    for path in ("/xfs", "/home/", "/home/data", "/etc"):
        with pytest.raises(RefusedError, match="expected the mount point of a btrfs"):
            programs.resolve([*line, path], inner=True)
    with pytest.raises(RefusedError, match="expected the mount point of an XFS"):
        programs.resolve(["xfs_io", "-r", "-c", "fsmap -d -m 10 20", "/srv"], inner=True)
    tree = "btrfs inspect-internal dump-tree --noscan -t chunk /dev/sda1 /dev/dm-0".split()
    assert programs.resolve(tree).devices == ("dm-0",)


def test_no_areca_is_queried_while_smartd_runs(machine: FakeMachine) -> None:
    """The controller has one buffer for answers; other disks are polled all the same."""
    machine.host(4, "arcmsr")
    machine.generic("sg2", "4:0:16:0")
    machine.disk("sda", "0:0:0:0")
    machine.disk("sdc", "4:0:0:0")
    programs = machine.programs()
    areca = ["cli64 event info", "smartctl -a -d areca,1 /dev/sg2", "smartctl -a /dev/sdc"]
    for line in areca:
        assert programs.resolve(line.split())
    machine.files({"/proc/811/comm": "smartd-helper\n"})
    assert programs.resolve(areca[0].split())
    machine.files({"/proc/812/comm": "smartd\n"})
    for line in areca:
        with pytest.raises(
            RefusedError, match="stop smartd with 'systemctl disable --now smart"
        ) as no:
            programs.resolve(line.split())
        assert "'smartd' (process 812)" in str(no.value)
    assert programs.resolve("smartctl -a /dev/sda".split()).devices == ("sda",)
    assert programs.resolve("tw_cli info".split())
    (machine.root / "sys/class/scsi_host/host4/proc_name").write_text("(null)\n")
    with pytest.raises(RefusedError, match="'smartd'"):
        programs.resolve("cli64 event info".split())
