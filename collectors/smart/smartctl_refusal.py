"""Why smartctl read no health data of a drive: exit status, messages, type of device.

Source: smartctl(8), EXIT STATUS; smartmontools 7.5: smartctl.cpp, os_linux.cpp, ataprint.cpp,
scsiprint.cpp.
"""

from __future__ import annotations

import enum
import re

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.smart.drive import Drive, Protocol, ReadStatus
from iowarden.collectors.smart.smartctl_report import clean


class ExitStatus(enum.IntFlag):
    """The bits of smartctl's exit status. Source: smartctl(8), EXIT STATUS.

    The first three are about reading, the others about the drive, which was read then. With '-n
    standby,3' a drive in standby has status 3 as well: smartctl's message decides.
    """

    COMMAND_LINE = 1 << 0
    OPEN = 1 << 1
    COMMAND = 1 << 2
    FAILING = 1 << 3
    PREFAIL = 1 << 4
    PAST = 1 << 5
    ERRORS = 1 << 6
    SELF_TEST = 1 << 7


_FINDINGS = {
    ExitStatus.COMMAND_LINE: "smartctl could not parse its command line",
    ExitStatus.OPEN: "the device could not be opened, did not identify itself, or is in standby",
    ExitStatus.COMMAND: "a command to the drive failed, or a checksum in its answer is wrong",
    ExitStatus.FAILING: "the drive reports that it is failing",
    ExitStatus.PREFAIL: "a pre-fail attribute is at or below its threshold",
    ExitStatus.PAST: "an attribute is or was at or below its threshold, the drive passes",
    ExitStatus.ERRORS: "its error log has entries",
    ExitStatus.SELF_TEST: "its self-test log has failures",
}


def exit_findings(status: int) -> tuple[str, ...]:
    """Return the meaning of each bit of smartctl's exit status, lowest first."""
    return tuple(text for bit, text in _FINDINGS.items() if status & bit)


@dataclass(frozen=True, slots=True)
class SmartRefusal:
    """smartctl was run, and read no health data of a drive.

    Fields: `status` is the kind of reason, `reason` is for users, in smartctl's words if it has
    any; `drive` is the identity that was reported even so (model, serial number), if any; `device`
    is its path, where the query does not include it.
    """

    status: ReadStatus
    reason: str
    drive: Drive | None = None
    device: str = ""

    @property
    def name(self) -> str:
        """Return its serial number, model or path; '': neither is known."""
        known = self.drive and (self.drive.serial or self.drive.model)
        named = _DEVICE.search(self.reason)
        return known or self.device or (named[0] if named else "")


_DEVICE = lazy_pattern(r"/dev/[\w/.-]{1,80}", re.ASCII)


_Reason = tuple[ReadStatus, str]

ASLEEP = lazy_pattern(r"Device is in .{1,40} mode, exit\(\d+\)")
_HINTS = (
    (
        ReadStatus.NO_SMARTCTL,
        lazy_pattern(r"UNRECOGNIZED OPTION: j(?:son)?\b|INVALID ARGUMENT TO -json"),
    ),
    (ReadStatus.PERMISSION, lazy_pattern(r"Permission denied|Operation not permitted")),
    (
        ReadStatus.NO_PASS_THROUGH,
        lazy_pattern(r"please try adding '-d |(?:Unknown|Unsupported) USB bridge"),
    ),
    (ReadStatus.NO_PASS_THROUGH, lazy_pattern(r"Probable ATA device behind a SAT layer")),
    (
        ReadStatus.NO_PASS_THROUGH,
        lazy_pattern(r"Read Device Identity failed: .*(?:badly formed|[Uu]nsupported|[Ii]nvalid)"),
    ),
)
_DISABLED = lazy_pattern(r"SMART Disabled|SMART support is: +Disabled")
_FAILURES = (
    (ReadStatus.NO_SMART, lazy_pattern(r"NO MEDIUM present")),
    (ReadStatus.UNREADABLE, lazy_pattern(r"lacks SMART capability|Unable to detect device type")),
    (ReadStatus.UNREADABLE, lazy_pattern(r"bad response to IEC mode page")),
    (ReadStatus.UNREADABLE, lazy_pattern(r"INQUIRY response, skip product id|INQUIRY failed")),
    (ReadStatus.UNREADABLE, _DISABLED),
    (
        ReadStatus.UNPARSED,
        lazy_pattern(r"Unknown device type|INVALID ARGUMENT|UNRECOGNIZED OPTION"),
    ),
    (
        ReadStatus.UNREADABLE,
        lazy_pattern(r"Test Unit Ready +\[|NOT READY|becoming ready|No such device"),
    ),
    (ReadStatus.UNREADABLE, lazy_pattern(r"(?<!SMART command )[Ff]ailed(?:: | \[)")),
    (ReadStatus.UNREADABLE, lazy_pattern(r"[Aa] mandatory SMART command failed")),
)
"""Messages of smartctl if it could not read anything, the more exact first. Source: smartctl.cpp,
os_linux.cpp, ataprint.cpp and scsiprint.cpp.
"""
_LUN = lazy_pattern(
    r"NETAPP|DGC|EMC|SYMMETRIX|OPEN-|3PARdata|PURE|HUAWEI|COMPELNT|Nimble|LIO-ORG|IET|SCST|Tegile"
    r"|XtremIO|IBM 21|IBM 2810XIV|NUTANIX|HP HSV|MSA|DELL MD|DELL ME|SYNOLOGY|FreeNAS|TrueNAS"
)
_VOLUME = lazy_pattern(
    r"PERC|MegaRAID|\bMR[ 9]|AVAGO|BROADCOM|LOGICAL VOLUME|Logical (?:Drive|Disk|Volume)|RAID|Raid"
    r"|Areca|ARC-\d|Adaptec|ASR|AMCC|3ware|Intel RS|SmartIOC|VIRTUAL DISK|Virtual Drive|BOSS VD"
)
VIRTUAL_MODELS = (
    r"QEMU|VMware|VBOX|Msft|MSFT|Virtual|[Vv]irt[Ii][Oo]|Xen|XENSRC|BHYVE|Parallels|VDISK"
    r"|Google|PersistentDisk|EphemeralDisk|nvme_card|Amazon Elastic|Alibaba Cloud Elastic|BlockVol"
    r"|(?:DO|HC|Linode) Volume"
)
"""Vendors and models of disks that a hypervisor or a cloud makes, as a pattern.

Also by NVMe: Google's persistent disks and local SSDs are 'nvme_card-pd' and 'nvme_card0', those of
Azure 'MSFT NVMe Accelerator v1.0'. An SSD that is passed through to the guest ('Microsoft NVMe
Direct Disk', 'Amazon EC2 NVMe Instance Storage') is none.
"""
_VIRTUAL = lazy_pattern(f"{VIRTUAL_MODELS}|Amazon|Microsoft NVMe")


def _first(reasons: tuple[tuple[ReadStatus, re.Pattern[str]], ...], text: str) -> _Reason | None:
    for cover, pattern in reasons:
        if found := pattern.search(text):
            begin = text.rfind("\n", 0, found.start()) + 1
            end = text.find("\n", found.end())
            return cover, clean(text[begin : end if end >= 0 else None])
    return None


def refusal(drive: Drive, text: str, kind: str) -> SmartRefusal:
    """Return why there is no health data: from the output, the type of device, the exit status.

    `text` is the output and the messages of smartctl, `kind` the '-d' of the query.
    """
    cover, reason = (
        _first(_HINTS, text)
        or of_no_disk(drive, kind)
        or _first(_FAILURES, text)
        or _by_status(drive)
    )
    if cover is ReadStatus.UNREADABLE and _VIRTUAL.search(drive.model):
        cover = ReadStatus.NO_SMART
    return SmartRefusal(cover, reason, identity(drive))


def next_step(refused: SmartRefusal) -> str:
    """Return what may show the health of a drive that was refused; '': nothing is known."""
    device = _DEVICE.search(refused.reason)
    path = refused.device or (device[0] if device else "DEVICE")
    if (bridge := _BRIDGE.search(refused.reason)) is not None:
        kinds = _BRIDGES.get(bridge["vendor"], "sat; of an NVMe drive: sntjmicron, sntasmedia")
        return f"try 'smartctl -a -d TYPE {path}', TYPE: {kinds}"
    return next((step.format(path) for sign, step in _STEPS if sign.search(refused.reason)), "")


_BRIDGE = lazy_pattern(r"USB bridge \[0x(?P<vendor>[0-9a-f]{4}):0x[0-9a-f]{4}")
_BRIDGES = {
    "152d": "sat; of an NVMe drive: sntjmicron",
    "174c": "sat; of an NVMe drive: sntasmedia",
    "0bda": "sntrealtek for an NVMe drive; else sat",
    "067b": "sat, or usbprolific for an old one",
    "04b4": "usbcypress",
    "04fc": "sat, or usbsunplus for an old one",
}
"""By USB vendor: JMicron, ASMedia, Realtek, Prolific, Cypress, Sunplus. Source: smartctl(8), '-d';
smartmontools, drivedb.h, its entries 'USB: ...'. Never usbjmicron (',x' may disconnect the drive)
nor jmb39x (it writes to a sector)."""
_GONE = (
    "{0} is gone or has another name: see 'lsblk' and the kernel's log (journalctl -k); its"
    " health is not known"
)
_STEPS = (
    (lazy_pattern(r"No such (?:device|file)"), _GONE),
    (
        lazy_pattern(r"INQUIRY|mandatory SMART command failed"),
        "{0} does not answer: see the kernel's log (journalctl -k), its cable and its power",
    ),
    (lazy_pattern(r"Permission denied|Operation not permitted"), "run it as root"),
    (lazy_pattern(r"SMART is disabled|SMART Disabled"), "enable it: smartctl -s on {0}"),
)
"""Reason and step; {0} is the path."""


def identity(drive: Drive) -> Drive | None:
    """Return a drive that reports an identity, None for another."""
    return drive if drive.model or drive.serial or drive.wwn else None


def of_no_disk(drive: Drive, kind: str) -> _Reason | None:
    """Return what a SCSI device without health data is, from the model it reports."""
    if drive.protocol is not Protocol.SCSI or "," in kind:
        return None
    name = drive.model
    if drive.transport.startswith(("Fibre channel", "iSCSI")) or _LUN.match(name):
        over = f" over {drive.transport}" if drive.transport else ""
        return ReadStatus.LUN, f"'{name}'{over} is a logical unit of a storage array"
    if _VIRTUAL.search(name):
        return ReadStatus.NO_SMART, f"'{name}' is a virtual disk"
    if _VOLUME.search(name):
        return ReadStatus.NO_PASS_THROUGH, f"'{name}' is a volume of a RAID controller"
    return None


def _by_status(drive: Drive) -> _Reason:
    status = drive.exit_status
    said = "; ".join(exit_findings(status))
    if drive.smart_available is False:
        return ReadStatus.UNREADABLE, f"'{drive.model}' lacks SMART capability"
    if drive.smart_enabled is False:
        return ReadStatus.UNREADABLE, f"'{drive.model}': SMART is disabled"
    if status & ExitStatus.COMMAND_LINE:
        return ReadStatus.UNPARSED, said
    if status & ExitStatus.COMMAND and drive.model:
        return (
            ReadStatus.UNREADABLE,
            f"'{drive.model}' reports its identity, but no health data: {said}",
        )
    if status & (ExitStatus.OPEN | ExitStatus.COMMAND):
        return ReadStatus.UNREADABLE, said
    return (
        ReadStatus.UNPARSED,
        "smartctl's report has no health data; run smartctl with '-x' or '-a'",
    )
