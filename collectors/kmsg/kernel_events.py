r"""What a line of the kernel's log tells of storage: its class, device and range.

Lines are told apart by their shape, in every form since Linux 2.4, never by the kernel's version:
distributions carry changes back. One line is one event; what the kernel prints over several lines
is carried on, so that the line with the additional sense and the one with the command block have
the sense key, and the command block has the range. Consequences of an error stay events of
their own, and KINDS says so.

Not told, because they say nothing of a disk that is in use: floppy, CD and ram devices (of loop,
nbd and zram devices rules/events/event_correlation.py takes those that carry something); no medium
in a card reader; the sense of commands that only ask (smartctl); the flush that fails on a device
that was taken away, and DID_NO_CONNECT after it; 'SATA link down' of a port where nothing was
wrong; whatever a program wrote to '/dev/kmsg'.
*Limits:* the kernel limits the rate of most of these lines, so that numbers are lower bounds; the
words come with the line (Event.text), numbers of additional sense only for the common ones.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.event import Event
from iowarden.collectors.kmsg import kernel_drivers, sense
from iowarden.collectors.kmsg.kernel_patterns import LEAD, LEADS, Fields, Found, number, shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.collectors.kmsg.kernel_line import Line

KINDS = {
    # block layer
    "block_io_error": "a request failed, for a reason that the block layer does not tell",
    "block_medium_error": "the drive could not read or write sectors of this request",
    "block_target_error": "the drive refused the request",
    "block_timeout": "the request was given up because the device did not answer",
    "block_transport_error": "the way to the device failed",
    "block_protection_error": "the data do not match their protection information",
    "block_space_error": "a thin device has no space for a write",
    "block_readonly": "a write to a device that is read-only",
    "partition_table": "a partition table does not fit the device, or a copy of it is damaged",
    "block_reservation_error": "another host holds the device",
    "block_offline": "a request to a device that is offline; a consequence",
    "block_discard_error": "a discard or write-zeroes was refused; no data are lost",
    "block_beyond_end": "a request behind the end: the device shrank, went away or holds bad data",
    "buffer_io_error": "a page could not be read or written; a consequence of an earlier error",
    "swap_read_error": "memory that was swapped out cannot be read back: programs are killed",
    "swap_write_error": "memory could not be swapped out",
    "lost_write": "data that a program had written are lost",
    "callbacks_suppressed": "the kernel printed fewer lines of a sort than there were errors",
    "log_gap": "lines of the kernel are lost; told by the reader of the log, not by a line",
    # SCSI
    "scsi_result": "a command failed, and its sense follows; a consequence of the sense",
    "scsi_no_connect": "a command found no device",
    "scsi_timeout": "a command took too long",
    "scsi_host_error": "the adapter ended a command without an answer of the device",
    "scsi_recovered_error": "the drive corrected an error by itself",
    "scsi_not_ready": "the device is there and not ready",
    "scsi_medium_error": "the drive could not read or write sectors",
    "scsi_hardware_error": "the drive found a fault of its own",
    "scsi_illegal_request": "the device does not know or allow a command",
    "scsi_unit_attention": "the device tells that its state changed",
    "scsi_data_protect": "the device does not allow reading or writing there",
    "scsi_aborted_command": "the device gave up a command, often for errors on the way",
    "scsi_sense": "the device gave another sense",
    "scsi_additional_sense": "what the sense key before means; evidence for it",
    "scsi_failure_predicted": "the drive predicts its failure",
    "scsi_warning": "the drive warns: temperature, self-test, background scan",
    "scsi_link_error": "data were damaged on the way to the device: cable, backplane, expander",
    "scsi_cdb": "the command of the sense before, with its range; evidence for it",
    "scsi_abort": "the kernel aborts a command that took too long",
    "scsi_reset": "the kernel resets a device, target, bus or host",
    "scsi_reset_failed": "aborting or resetting failed; the next stronger step follows",
    "scsi_reset_notice": "a device was reset or switched on; also when it is found",
    "scsi_offlined": "the kernel gave up a device",
    "scsi_rejected": "a request to a device that was given up; a consequence",
    "scsi_space_low": "a thin device has passed the threshold that was set for its space",
    # ATA
    "ata_exception": "error handling begins; what is wrong follows",
    "ata_failed_command": "the command that failed; evidence for the exception before",
    "ata_command": "its registers, with the range; evidence",
    "ata_result": "the drive's registers afterwards; evidence",
    "ata_media_error": "the drive's registers: a sector it cannot read or write",
    "ata_timeout": "the drive did not answer",
    "ata_bus_error": "the drive's or the adapter's registers: an error of the link",
    "ata_status": "the drive's status; evidence",
    "ata_medium_error": "the drive could not read a sector (UNC), or found none (IDNF, AMNF)",
    "ata_interface_error": "a checksum of the link was wrong (ICRC): cable, backplane, power",
    "ata_abort": "the drive aborted a command, often because it does not know it",
    "ata_serror": "the link's own error register: cable, backplane, power",
    "ata_reset": "the kernel resets a link",
    "ata_reset_failed": "resetting a link failed, or the drive does not come back from it",
    "ata_slow": "a drive takes long after a reset",
    "ata_link_down": "a link with an error is down: the drive is gone",
    "ata_link_up": "a link that was down is up again",
    "ata_speed_limited": "a link became slower after errors: cable or drive",
    "ata_ncq_disabled": "command queueing was switched off after errors",
    "ata_gone": "the kernel gave up a drive",
    "ide_error": "an error of an IDE drive (Linux 2.4, 2.6), with the sector where it is told",
    # NVMe
    "nvme_timeout": "a command took too long and is aborted or polled for",
    "nvme_abort": "the answer to aborting a command; a consequence",
    "nvme_reset": "a command took too long and the controller is reset",
    "nvme_down": "the controller failed, or does not wake or answer on the bus",
    "nvme_dead": "the kernel gave up a controller",
    "nvme_medium_error": "the drive could not read or write blocks of its own",
    "nvme_status": "a command on blocks failed, not because of the medium",
    "nvme_admin_status": "an administrative command failed, often one that the drive does not know",
    # tasks
    "hung_task": "a program waits longer than the kernel holds for right",
    # adapters
    "hba_aen": "an event of a RAID controller, with its code and severity",
    "hba_log_info": "a code of an LSI adapter's firmware; also provoked by asking it",
    "hba_error": "an adapter or its driver tells an error",
    "hba_abort": "an adapter's driver aborts a command that took too long",
    "hba_reset": "an adapter's driver resets a device, a bus or the adapter",
    "hba_dead": "an adapter does not answer",
    "hba_device_removed": "an adapter lost a device",
    "hba_link_down": "a link or port of an adapter is down",
    "hba_link_up": "a link or port of an adapter is up",
    "driver_message": "a driver reports what is no known fault; evidence",
    # file systems
    "fs_error": "a file system met an error, of the disk or of its own structures",
    "fs_checksum_error": "data or structures on the disk do not match their checksum",
    "fs_errors_remembered": "a file system holds errors from earlier",
    "fs_readonly": "a file system does not take writes any more",
    "fs_writable": "a file system takes writes again",
    "fs_shutdown": "a file system was shut down after an error",
    "fs_read_corrected": "a file system read bad data and repaired them from another copy",
    "fs_no_space": "data that a program had written are lost: no space or quota was left for them",
    "fs_device_errors": "what a file system counted of errors of a device since it was made",
    "fs_warning": "a file system reports something that does not stop it",
    # arrays and mapped devices
    "md_disk_failure": "an array gave up a member",
    "md_members": "how many members an array has left; a consequence",
    "md_read_corrected": "a member could not read; the sectors were written anew from the others",
    "md_read_uncorrectable": "a read failed and no copy helped, or rewriting failed",
    "md_reschedule": "a read that failed is tried on another member; a consequence",
    "md_super_error": "a member's superblock could not be written",
    "md_failed": "an array has too few members to run",
    "md_degraded": "an array was started with members missing",
    "md_kicked": "a member was left out when the array was put together",
    "md_mismatch": "a check found copies that differ",
    "md_sync_started": "a rebuild, resync, check or reshape began",
    "md_sync_done": "a rebuild, resync, check or reshape is done",
    "md_sync_interrupted": "a rebuild, resync, check or reshape stopped before its end",
    "dm_path_failed": "a path of a multipath device failed",
    "dm_path_reinstated": "a path of a multipath device is used again",
    "dm_pool_low": "a thin pool has little space left",
    "dm_pool_full": "a thin pool has no space left, or went read-only",
    "dm_snapshot_invalid": "a snapshot is lost",
    "dm_error": "a mapped device tells an error",
    "dm_checksum_error": "data of a mapped device do not match their checksum",
    "dm_metadata_error": "a mapped device cannot read or write its metadata",
    "bcache_error": "a cache's device failed",
    "connection_error": "a connection to storage (NVMe-oF, iSCSI, FC) failed; it is retried",
    "connection_restored": "a connection to storage works again",
    "connection_lost": "a connection to storage was given up",
    "network_block_error": "a request over the network failed (nbd, rbd, rnbd, drbd, Xen)",
    "network_block_failed": "a network block device cannot go on, or has no good copy",
    "nfs_not_responding": "an NFS server does not respond, and programs wait for it",
    "nfs_timed_out": "an NFS server does not respond, and programs got an error (soft mount)",
    "nfs_responding": "an NFS server responds again",
    "smb_not_responding": "an SMB (CIFS) server does not respond",
    "nfs_error": "an NFS server or client lost state: locks, open files",
    "mmc_error": "an SD or MMC card, or its host, failed a request",
    "target_error": "what this machine serves to others (iSCSI, FC target) met an error",
}
"""Every class of event and what it means, in one line; what weighs how much says the table."""

_TEXT_CHARACTERS = 1024
_NO_DEVICE = re.compile(r"(?:fd|sr|scd|ram)[0-9]", re.ASCII)
_BY_LEVEL = frozenset({"driver_message", "fs_warning"})
"""What only the level tells from a driver's ordinary messages."""
_WARNING = 4
"""Source: include/linux/kern_levels.h."""
_SEEN = 16
_PORTS = 256
_NEXT_OF_FULL = "This should not happen!!"
"""Begins the line after that of an error code. Source: fs/ext4/inode.c, mpage_map_and_submit_extent
(Linux 3.11 to 6.12)."""
_SAME_PRINT_SECONDS = 1.0
"""Lines of one message are printed within microseconds, over a serial line within a second."""
_SECTORS_PER_SEGMENT = 8
"""A segment is a page of 4 KiB or more."""
_RAHEAD = 0x80000
"""REQ_RAHEAD of a request's flags (Linux 4.10 and later, which print them only from 5.0 on)."""
_BLOCK_FACTORS = (1, 8)
"""Sectors in a logical block."""


class _Scsi(NamedTuple):
    """What the last lines said of a command that failed."""

    device: str = ""
    place: str = ""
    tag: str = ""
    monotonic_seconds: float | None = None
    spinning_up: bool = False
    sense_key: int | None = None
    asc: int | None = None
    ascq: int | None = None
    block: int | None = None
    command: tuple[int, int] | None = None
    dump: bytes | None = None


class Classifier(NamedTuple):
    """What lines already read mean for the next ones; begin with Classifier().

    A named tuple: a storm replaces it with each line, which takes a dataclass 5 times as long.
    """

    scsi: _Scsi = _Scsi()
    ata_device: str = ""
    ata_troubled: frozenset[str] = frozenset()
    """Ports under error handling."""
    ata_down: frozenset[str] = frozenset()
    """Links that are down, after an error."""
    removed: frozenset[str] = frozenset()
    """Devices that the kernel is told to let go."""
    held: tuple[Event, ...] = ()
    """The sense of a command, until its last line tells which command it was."""
    held_of: tuple[str, str] = ("", "")
    """Device and tag of that command."""
    moment: float | None = None
    seen: tuple[tuple[str, int], ...] = ()
    """Events of this moment, so that equal ones are told apart."""
    full: tuple[str, float | None] = ("", None)
    """The file system that told last that it has no space, and when."""


def classify(state: Classifier, line: Line) -> tuple[Classifier, tuple[Event, ...]]:
    """Return what is known after a line, and the events it tells. Nothing fails."""
    if line.facility:
        return state, ()
    text = line.text
    if "\n" not in text:
        return _classify(state, line, text.strip())
    events: tuple[Event, ...] = ()
    for part in text.split("\n"):
        state, more = _classify(state, line, _LEVEL.sub("", part.strip()))
        events += more
    return state, events


def of_storage(text: str) -> bool:
    """Return whether a line begins as those do that are about storage, whatever it says."""
    return _taker(text) is not None


def finish(state: Classifier) -> tuple[Event, ...]:
    """Return what waits for a next line that does not come: at the end of a text."""
    return state.held


def _classify(state: Classifier, line: Line, text: str) -> tuple[Classifier, tuple[Event, ...]]:
    take = _taker(text)
    if take is None and state.scsi.dump is None:
        return state, ()
    after, found = (_dumped if take is None else take)(state, line, text[:_TEXT_CHARACTERS])
    if found is None:
        return after, ()
    kind, fields = found
    if _NO_DEVICE.match(fields.get("device", "")) and not kind.startswith("md_"):
        return after, ()
    if kind in _BY_LEVEL and (line.priority is None or line.priority > _WARNING):
        return after, ()
    after, event = _event(after, line, text, kind, fields)
    held = after.held
    if kind not in _WAITING:
        return (after._replace(held=()) if held else after), (*held, event)
    own = after.scsi.device, after.scsi.tag
    # A second sense, or result, is that of the next command.
    begins = kind not in _EXPLAINING and any(each.kind != "scsi_result" for each in held)
    if own == after.held_of and not begins:
        return after._replace(held=(*held, event)), ()
    return after._replace(held=(event,), held_of=own), held


def _taker(text: str) -> Callable[[Classifier, Line, str], tuple[Classifier, Found | None]] | None:
    """Return who reads a line; most lines are nobody's, and this is all they cost."""
    if " error, dev " in text:
        return _block
    if " tag error at " in text or "writeback error on inode" in text or ": zone " in text:
        return _device_first
    if " beyond EOD" in text:
        return _device_first
    if " on swap-device" in text or " on dio swapfile" in text:  # else 'Read' begins a CDB
        return _shaped
    lead = LEAD.match(text)
    if lead is not None:
        word = lead[0]
        taker = _TAKERS.get(word)
        if taker is not None:
            return taker
        if word[:2] in _DISKS:
            return _disk
    if text.endswith("callbacks suppressed") or "limit=" in text:
        return _shaped
    return None


def _event(
    state: Classifier, line: Line, text: str, kind: str, fields: Fields
) -> tuple[Classifier, Event]:
    text = text[:_TEXT_CHARACTERS]
    if not text.isprintable():
        text = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
    moment = line.monotonic_seconds
    if moment is None:
        count = line.sequence
    elif moment == state.moment:
        counts = dict(state.seen)
        count = counts.get(text, -1) + 1
        counts[text] = count
        state = state._replace(seen=tuple(counts.items())[-_SEEN:])
    else:
        count = 0
        state = state._replace(moment=moment, seen=((text, 0),))
    return state, Event(
        source="kernel",
        kind=kind,
        text=text,
        priority=line.priority,
        boot_id=line.boot_id,
        monotonic_seconds=moment,
        realtime_seconds=line.realtime_seconds,
        sequence=count,
        **fields,
    )


# --- block layer ---

_BLOCK = re.compile(
    r"(?P<device>[^\s,]+)(?: \((?P<name>\w+)\))?, (?:sector|logical block) (?P<sector>[0-9]{1,20})"
    r"(?: op 0x[0-9a-f]+:\((?P<operation>\w+)\))?"
    r"(?: flags (?:0x)?(?P<flags>[0-9a-f]{1,16}))?(?: phys_seg (?P<segments>[0-9]{1,10}))?",
    re.ASCII,
)
_NUMBERS = re.compile(r"([0-9a-f]{1,4}):([0-9a-f]{1,8})", re.ASCII)
_BLOCK_KINDS = {
    "I/O": "block_io_error",
    "critical medium": "block_medium_error",
    "critical target": "block_target_error",
    "timeout": "block_timeout",
    "recoverable transport": "block_transport_error",
    "protection": "block_protection_error",
    "critical space allocation": "block_space_error",
    "critical nexus": "block_reservation_error",
    "reservation conflict": "block_reservation_error",
    "device offline": "block_offline",
    "device offline or changed": "block_offline",
}
"""Source: kernel, block/blk-core.c, blk_errors; any other is 'block_io_error' with its word."""
_NO_DATA = frozenset({"DISCARD", "SECURE_ERASE", "WRITE_ZEROES"})


def _block(state: Classifier, line: Line, text: str) -> tuple[Classifier, Found | None]:
    head, _, rest = text.partition(" error, dev ")
    found = _BLOCK.match(rest)
    if found is None:
        return state, None
    word = re.split(r"[:|] ", head)[-1].strip()
    device = _numbered(found["device"], found["name"])
    sector = number(found["sector"])
    kind = _BLOCK_KINDS.get(word, "block_io_error")
    if found["operation"] in _NO_DATA and kind in {"block_target_error", "block_io_error"}:
        kind = "block_discard_error"
    fields: Fields = {
        "device": device,
        "sector": sector,
        "code": word,
        "read_ahead": bool(int(found["flags"] or "0", 16) & _RAHEAD),
    }
    segments = number(found["segments"])
    if segments:
        fields["sectors"] = segments * _SECTORS_PER_SEGMENT
    scsi = state.scsi
    if scsi.device == device and sector is not None and _together(scsi, line):
        rest_sectors = _rest(scsi.command, sector)
        if rest_sectors is not None:
            fields["sectors"] = rest_sectors
            fields |= {"sense_key": scsi.sense_key, "asc": scsi.asc, "ascq": scsi.ascq}
            state = state._replace(scsi=_Scsi())
    return state, (kind, fields)


_FIRST = re.compile(
    r"(?P<device>[a-z][\w!.-]*): .*?(?:\b(?:sector|location) (?P<sector>[0-9]{1,20})|$)", re.ASCII
)


def _device_first(state: Classifier, _line: Line, text: str) -> tuple[Classifier, Found | None]:
    """Read 'dm-3: writeback error on inode 9, offset 0, sector 8': any name may stand first."""
    found = _FIRST.match(text)
    kind = kernel_drivers.kind_of("block", text)
    if found is None or not kind:
        return state, None
    return state, (kind, {"device": found["device"], "sector": number(found["sector"])})


def _rest(command: tuple[int, int] | None, sector: int) -> int | None:
    """Return the sectors from this one to the end of the command; None: it is another command's."""
    if command is not None:
        first, blocks = command
        for factor in _BLOCK_FACTORS:
            if first * factor <= sector < (first + blocks) * factor:
                return (first + blocks) * factor - sector
    return None


def _numbered(device: str, name: str | None) -> str:
    """Return the device of Linux 2.4's '16:41 (hdd)': hexadecimal major and minor, and the disk."""
    found = _NUMBERS.fullmatch(device)
    if found is None or not name:
        return device
    partition = int(found[2], 16) & (0x3F if name.startswith("hd") else 0x0F)
    return f"{name}{partition or ''}"


# --- SCSI ---

_ADDRESS = re.compile(
    r"\w+ (?P<address>[0-9]+:[0-9]+:[0-9]+:[0-9]+):(?: \[(?P<device>\w+)\])?"
    r"(?: (?P<tag>tag#[0-9]+))? *(?P<rest>.*)",
    re.ASCII | re.DOTALL,
)
_OLD_SENSE = re.compile(
    r"(?:(?P<device>\w+): )?(?:Info fld=0x(?P<block>[0-9a-f]{1,16})[^,]*, )?"
    r"(?:Current|Deferred):? (?:(?P<other>\w[\w:]*): )?sense key:? (?P<key>[^,]+)",
    re.ASCII | re.IGNORECASE,
)
_SENSE = re.compile(r"Sense Key : (?P<key>[^\[]+)", re.ASCII)
_ADDITIONAL = re.compile(r"(?:Add\. Sense|Additional sense): (?P<words>.+)", re.ASCII)
_CODES = re.compile(
    r"ASC=(?:0x)?([0-9a-f]{1,2}),? *ASCQ=(?:0x)?([0-9a-f]{1,2})", re.IGNORECASE | re.ASCII
)
_INFO = re.compile(r"Info fld=0x([0-9a-f]{1,16})", re.ASCII | re.IGNORECASE)
_COMMAND = re.compile(
    r"(?:CDB: .*?|[A-Z]\w+\([0-9]{1,2}\):? *)\b(?P<bytes>(?:[0-9a-f]{2} ){2,31}[0-9a-f]{2})\b",
    re.ASCII,
)
_RESULT = re.compile(r"Result: hostbyte=(\w+)", re.ASCII)
_RETURN_CODE = re.compile(r"return code = (?:0x)?([0-9a-f]{1,8})", re.ASCII)
_OLD_ERROR = re.compile(r"SCSI error ?: <([0-9]+) ([0-9]+) ([0-9]+) ([0-9]+)>", re.ASCII)
"""2.6.0 to 2.6.17: host, channel, id, lun."""
_HEX = re.compile(r"(?:[0-9a-f]{2} ){0,31}[0-9a-f]{2}", re.ASCII)
_HOST_BYTES = {
    "DID_OK": "scsi_result",
    "DID_NO_CONNECT": "scsi_no_connect",
    "DID_BAD_TARGET": "scsi_no_connect",
    "DID_TIME_OUT": "scsi_timeout",
}
_HOST_NUMBERS = {0: "DID_OK", 1: "DID_NO_CONNECT", 3: "DID_TIME_OUT", 4: "DID_BAD_TARGET"}
"""Source: kernel, include/scsi/scsi_status.h, which kernels print without CONFIG_SCSI_CONSTANTS."""
_SENSE_KINDS = {
    0x0: "scsi_sense",
    0x1: "scsi_recovered_error",
    0x2: "scsi_not_ready",
    0x3: "scsi_medium_error",
    0x4: "scsi_hardware_error",
    0x5: "scsi_illegal_request",
    0x6: "scsi_unit_attention",
    0x7: "scsi_data_protect",
    0xB: "scsi_aborted_command",
}
_ADDITIONAL_KINDS = {
    0x0B: "scsi_warning",
    0x47: "scsi_link_error",
    0x4B: "scsi_link_error",
    0x5D: "scsi_failure_predicted",
}
_EXPLAINING = frozenset({"scsi_additional_sense", *_ADDITIONAL_KINDS.values()})
"""What the line after a sense makes of it."""
_OF_ANY_COMMAND = frozenset({"scsi_failure_predicted", "scsi_warning"})
"""What a device says of itself, whatever it was asked."""
_WAITING = frozenset({"scsi_result", *_SENSE_KINDS.values()}) | _EXPLAINING
_PASSED_THROUGH = (0x00, 0x1D)
_NO_MEDIUM = 0x3A
_FLUSHES = ("Synchronize Cache", "Start/Stop Unit", "Stop Unit")
_SCSI_SHAPES = (
    ("timing out command, waited", "scsi_timeout"),
    ("Device offlined", "scsi_offlined"),
    ("Offlining disk", "scsi_offlined"),
    ("Medium access timeout failure", "scsi_offlined"),
    ("rejecting I/O to", "scsi_rejected"),
    ("Power-on or device reset occurred", "scsi_reset_notice"),
    ("FAILED scmd", "scsi_reset_failed"),
    (": FAILED", "scsi_reset_failed"),
    ("abort FAILED", "scsi_reset_failed"),
    ("reset FAILED", "scsi_reset_failed"),
    ("reset failed", "scsi_reset_failed"),
    ("uas_eh_abort_handler", "scsi_abort"),
    ("sas: RESET", "scsi_reset"),
    ("attempting task abort", "scsi_abort"),
    ("attempting", "scsi_reset"),
    ("uas_eh_device_reset_handler start", "scsi_reset"),
)
_SCSI_GOING = "Synchronizing SCSI cache"
_SCSI_COMING = "Attached SCSI disk"


def _scsi_line(state: Classifier, line: Line, text: str) -> tuple[Classifier, Found | None]:
    """Read 'sd 0:0:1:0: [sdb] ...'."""
    found = _ADDRESS.match(text)
    if found is None:
        return _shaped(state, line, text)
    address, rest = found["address"], found["rest"]
    device = found["device"] or address
    if text.startswith("sr ") or _NO_DEVICE.match(device):
        return state, None
    place = address if found["device"] else ""
    scsi = state.scsi
    tag = found["tag"] or ""
    if (scsi.device, scsi.tag) != (device, tag) or not _together(scsi, line):
        state = state._replace(scsi=_Scsi(device, place, tag, line.monotonic_seconds))
    return _scsi(state, line, rest)


def _scsi_rest(state: Classifier, line: Line, text: str) -> tuple[Classifier, Found | None]:
    """Read a line that goes on where another one named the device."""
    if (old := _OLD_ERROR.match(text)) is not None:
        device = ":".join(old.groups())
        state = state._replace(scsi=_Scsi(device, monotonic_seconds=line.monotonic_seconds))
    scsi = state.scsi
    if scsi.device and not _together(scsi, line):
        return state, None
    return _scsi(state, line, text)


def _together(scsi: _Scsi, line: Line) -> bool:
    """Whether a line can belong to what was printed before."""
    if scsi.monotonic_seconds is None or line.monotonic_seconds is None:
        return True
    return abs(line.monotonic_seconds - scsi.monotonic_seconds) <= _SAME_PRINT_SECONDS


def _scsi(state: Classifier, line: Line, text: str) -> tuple[Classifier, Found | None]:
    scsi = state.scsi
    if "ense" in text:
        if (found := _SENSE.match(text) or _OLD_SENSE.match(text)) is not None:
            return _sense_key(state, line, found["key"])
        if (found := _ADDITIONAL.match(text)) is not None:
            return _additional(state, found["words"])
        if text.startswith("Descriptor sense data"):
            return state._replace(scsi=scsi._replace(dump=b"")), None
    if (found := _RESULT.search(text)) is not None:
        return _result(state, text, found[1])
    if "ASC" in text and _CODES.search(text) is not None:
        return _additional(state, text)
    if (found := _COMMAND.match(text)) is not None:
        return _cdb(state, bytes.fromhex(found["bytes"]))
    if (found := _RETURN_CODE.search(text)) is not None:
        host = int(found[1], 16) >> 16 & 0xFF
        return _result(state, text, _HOST_NUMBERS.get(host, hex(host)))
    return _scsi_device(state, text)


def _scsi_device(state: Classifier, text: str) -> tuple[Classifier, Found | None]:
    scsi = state.scsi
    if (found := _INFO.match(text)) is not None:
        block = number(found[1], 16) or None  # 0 is what drives say that tell none
        return state._replace(scsi=scsi._replace(block=block)), None
    if text.startswith("Unit Not Ready"):
        return state._replace(scsi=scsi._replace(spinning_up=True)), None
    if text.startswith(_SCSI_GOING):
        return state._replace(removed=_with(state.removed, scsi.device)), None
    if text.startswith(_SCSI_COMING):
        return state._replace(removed=state.removed - {scsi.device}), None
    for words, kind in _SCSI_SHAPES:
        if words in text:
            return state, (kind, {"device": scsi.device, "place": scsi.place})
    if scsi.device and (kind := kernel_drivers.kind_of("disk", text)):
        return state, (kind, {"device": scsi.device, "place": scsi.place})
    return state, None


def _sense_key(state: Classifier, line: Line, words: str) -> tuple[Classifier, Found]:
    word = words.strip().lower()
    if word in sense.KEYS:
        key: int | None = sense.KEYS.index(word)
    else:
        key = number(word.removeprefix("0x"), 16) if re.fullmatch("(0x)?[0-9a-f]", word) else None
    scsi = state.scsi
    spinning_up = scsi.spinning_up
    scsi = _Scsi(scsi.device, scsi.place, scsi.tag, line.monotonic_seconds, sense_key=key)
    fields: Fields = {
        "device": scsi.device,
        "place": scsi.place,
        "sense_key": key,
        "code": word if key is None else sense.KEYS[key],
    }
    kind = "scsi_sense" if key is None else _SENSE_KINDS.get(key, "scsi_sense")
    if spinning_up:  # nobody's data: the kernel looks whether there is a disk at all
        kind = "scsi_not_ready"
    return state._replace(scsi=scsi), (kind, fields)


def _additional(state: Classifier, words: str) -> tuple[Classifier, Found | None]:
    codes = sense.ADDITIONAL.get(words.strip().lower())
    if (found := _CODES.search(words)) is not None:
        codes = int(found[1], 16), int(found[2], 16)
    asc, ascq = codes or (None, None)
    scsi = state.scsi._replace(asc=asc, ascq=ascq, dump=None)
    state = state._replace(scsi=scsi)
    if codes == _PASSED_THROUGH or asc == _NO_MEDIUM:
        return _dropped(state), None
    kind = None if asc is None else _ADDITIONAL_KINDS.get(asc)
    fields: Fields = {
        "device": scsi.device,
        "place": scsi.place,
        "block": scsi.block,
        "sense_key": scsi.sense_key,
        "asc": asc,
        "ascq": ascq,
        "code": words.strip() if asc is None else f"0x{asc:02x}/0x{ascq:02x}",
    }
    return state, (kind or "scsi_additional_sense", fields)


def _cdb(state: Classifier, command: bytes) -> tuple[Classifier, Found | None]:
    if sense.only_asks(command):
        return _dropped(state), None
    scsi = state.scsi
    asked = sense.command_range(command)
    block, blocks = (None, None) if asked is None else asked
    fields: Fields = {
        "device": scsi.device,
        "place": scsi.place,
        "block": block,
        "blocks": blocks,
        "sense_key": scsi.sense_key,
        "asc": scsi.asc,
        "ascq": scsi.ascq,
        "code": f"0x{command[0]:02x}",
    }
    return state._replace(scsi=scsi._replace(command=asked, dump=None)), ("scsi_cdb", fields)


def _dropped(state: Classifier) -> Classifier:
    """Return the state without the sense of the command that the last line was of."""
    if state.held_of != (state.scsi.device, state.scsi.tag):
        return state
    return state._replace(held=tuple(e for e in state.held if e.kind in _OF_ANY_COMMAND))


def _result(state: Classifier, text: str, host: str) -> tuple[Classifier, Found | None]:
    scsi = state.scsi
    if host.startswith("0x"):
        host = _HOST_NUMBERS.get(int(host, 16), host) if re.fullmatch("0x[0-9a-f]+", host) else host
    kind = _HOST_BYTES.get(host, "scsi_host_error")
    if kind == "scsi_no_connect" and (text.startswith(_FLUSHES) or scsi.device in state.removed):
        return state, None
    scsi = _Scsi(scsi.device, scsi.place, scsi.tag, scsi.monotonic_seconds)
    fields: Fields = {"device": scsi.device, "place": scsi.place, "code": host}
    return state._replace(scsi=scsi), (kind, fields)


def _dumped(state: Classifier, line: Line, text: str) -> tuple[Classifier, Found | None]:
    """Read the bytes of a sense that the kernel did not put into words."""
    scsi = state.scsi
    if _HEX.fullmatch(text) is None or not _together(scsi, line) or scsi.dump is None:
        return state._replace(scsi=scsi._replace(dump=None)), None
    dump = scsi.dump + bytes.fromhex(text)
    block = sense.information(dump)
    open_dump = dump if block is None and len(dump) < _TEXT_CHARACTERS else None
    return state._replace(scsi=scsi._replace(dump=open_dump, block=block)), None


_IDE = re.compile(r"(?P<device>hd[a-z]): \w+: (?:status|error)=0x[0-9a-f]+", re.ASCII)
_IDE_SECTOR = re.compile(r"LBA ?sect=([0-9]{1,20})", re.ASCII)


def _disk(state: Classifier, line: Line, text: str) -> tuple[Classifier, Found | None]:
    """Read a line that begins with a disk's name."""
    if (ide := _IDE.match(text)) is not None:
        at = _IDE_SECTOR.search(text)
        sector = None if at is None else number(at[1])
        fields: Fields = {"device": ide["device"], "sector": sector}
        if sector is not None:
            fields["sectors"] = 1  # an IDE drive names the bad sector itself
        return state, ("ide_error", fields)
    found = _OLD_SENSE.match(text)
    if found is not None and found["device"]:
        scsi = _Scsi(found["device"], monotonic_seconds=line.monotonic_seconds)
        return _sense_key(state._replace(scsi=scsi), line, found["key"])
    return state, shape(text)


def _old_sense(state: Classifier, line: Line, text: str) -> tuple[Classifier, Found | None]:
    """Read 'Current sdb: sense key Medium Error' (2.6.0 to 2.6.11), also behind 'Info fld=...'."""
    found = _OLD_SENSE.match(text)
    if found is None or not found["other"]:
        return _scsi_rest(state, line, text)
    state = state._replace(scsi=_Scsi(found["other"], monotonic_seconds=line.monotonic_seconds))
    state, told = _sense_key(state, line, found["key"])
    block = number(found["block"], 16) or None
    return state._replace(scsi=state.scsi._replace(block=block)), told


# --- libata ---

_ATA = re.compile(r"(?P<device>(?P<port>ata[0-9]+)(?:\.[0-9]+)?): (?P<rest>.*)", re.DOTALL)
_REGISTERS = re.compile(
    r"(?:cmd|res) (?P<command>[0-9a-f]{2})/(?P<registers>[0-9a-f]{2}(?::[0-9a-f]{2}){4})"
    r"/(?P<high>[0-9a-f]{2}(?::[0-9a-f]{2}){4})/(?P<drive>[0-9a-f]{2})"
    r"(?:.*Emask 0x[0-9a-f]+ \((?P<mask>[^)]*)\))?",
    re.ASCII,
)
_OF_AN_EMPTY_PORT = ("SATA link down", "NODEV after polling", "failed to resume link")
"""Also printed at boot, of each port that nothing is on."""
_QUEUED = frozenset({0x60, 0x61})
_LONG = frozenset({0x24, 0x25, 0x29, 0x34, 0x35, 0x39, 0x3D, 0x42, 0xCE})
_SHORT = frozenset({0x20, 0x21, 0x30, 0x31, 0x40, 0xC4, 0xC5, 0xC8, 0xCA})
"""Commands with an address of 48 and of 28 bits. Source: ACS-3, clause 7."""
_ATA_MASKS = {
    "media error": "ata_media_error",
    "timeout": "ata_timeout",
    "ATA bus error": "ata_bus_error",
    "host bus error": "ata_bus_error",
}
_ATA_SHAPES = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"exception Emask", "ata_exception"),
        (r"failed command: (?P<code>.+)", "ata_failed_command"),
        (r"status: \{ *(?P<code>.*?) *\}", "ata_status"),
        (r"error: \{ *(?P<code>.*\bICRC\b.*?) *\}", "ata_interface_error"),
        (r"error: \{ *(?P<code>.*\b(?:UNC|IDNF|AMNF)\b.*?) *\}", "ata_medium_error"),
        (r"error: \{ *(?P<code>.*?) *\}", "ata_abort"),
        (r"SError: \{ *(?P<code>.*?) *\}", "ata_serror"),
        (r"(?P<code>(?:soft|hard) resetting) (?:port|link)", "ata_reset"),
        (r".*\b(?:COMRESET|SRST|(?:soft|hard|link )reset) failed", "ata_reset_failed"),
        (r"(?:device not ready .*forcing hardreset|reset failed)", "ata_reset_failed"),
        (r"(?:revalidation failed|failed to (?:IDENTIFY|set xfermode|enable))", "ata_reset_failed"),
        (r"EH pending after [0-9]+ tries, giving up", "ata_reset_failed"),
        (r"(?:port|link) is slow to respond", "ata_slow"),
        (r"(?:qc timeout|lost interrupt|command 0x[0-9a-f]+ timeout)", "ata_timeout"),
        # to 2.6.17
        (r"status=0x[0-9a-f]+ \{ *(?P<code>.*?) *\}", "ata_status"),
        (r"error=0x[0-9a-f]+ \{ *(?P<code>.*\bBadCRC\b.*?) *\}", "ata_interface_error"),
        (
            r"error=0x[0-9a-f]+ \{ *(?P<code>.*(?:Uncorrectable|IdNotFound|MarkNotFound).*?) *\}",
            "ata_medium_error",
        ),
        (r"error=0x[0-9a-f]+ \{ *(?P<code>.*?) *\}", "ata_abort"),
        (r"limiting (?:SATA link )?speed to (?P<code>.+)", "ata_speed_limited"),
        (r"NCQ disabled due to excessive errors", "ata_ncq_disabled"),
        (r"(?:NODEV after polling detection|disabled?\b|detaching )", "ata_gone"),
    )
)


def _ata(state: Classifier, line: Line, text: str) -> tuple[Classifier, Found | None]:
    found = _ATA.match(text)
    if found is None:
        return state, None
    device, port, rest = found["device"], found["port"], found["rest"]
    if rest.startswith("cmd "):
        return _registers(state._replace(ata_device=device), line, rest)
    if rest.startswith("Entering standby power mode"):  # somebody lets the drive go
        return state._replace(removed=_with(state.removed, device)), None
    if rest.startswith("disable device") and device in state.removed:
        return state._replace(removed=state.removed - {device}), None
    if rest.startswith(_OF_AN_EMPTY_PORT) and port not in state.ata_troubled:
        return state, None
    if rest.startswith(("SATA link down", "SATA link up")):
        return _ata_link(state, device, rest)
    if rest.startswith("EH complete"):
        return state._replace(ata_troubled=state.ata_troubled - {port}), None
    for pattern, kind in _ATA_SHAPES:
        if (shape := pattern.match(rest)) is not None:
            if kind in {"ata_exception", "ata_reset"}:
                troubled = _with(state.ata_troubled, port)
                state = state._replace(ata_device=device, ata_troubled=troubled)
            return state, (kind, {"device": device, **shape.groupdict()})
    if kind := kernel_drivers.kind_of("ata", rest):
        return state, (kind, {"device": device})
    return state, None


def _ata_link(state: Classifier, device: str, rest: str) -> tuple[Classifier, Found | None]:
    """Read that a link is down, or up again: at boot each link that is in use is up."""
    down = state.ata_down
    if rest.startswith("SATA link down"):
        return state._replace(ata_down=_with(down, device)), ("ata_link_down", {"device": device})
    if device not in down:
        return state, None
    return state._replace(ata_down=down - {device}), ("ata_link_up", {"device": device})


def _with(names: frozenset[str], name: str) -> frozenset[str]:
    return names | {name} if len(names) < _PORTS else frozenset({name})


def _registers(state: Classifier, _line: Line, text: str) -> tuple[Classifier, Found | None]:
    """Read 'cmd 60/08:00:68:cb:66/00:00:1f:00:00/40 ...', and the drive's answer, 'res ...'."""
    found = _REGISTERS.match(text)
    if found is None:
        return state, None
    low = bytes.fromhex(found["registers"].replace(":", ""))
    high = bytes.fromhex(found["high"].replace(":", ""))
    address = int.from_bytes((low[2], low[3], low[4], high[2], high[3], high[4]), "little")
    fields: Fields = {"device": state.ata_device, "code": found["mask"] or ""}
    if text.startswith("res "):
        kind = _ATA_MASKS.get(found["mask"] or "", "ata_result")
        if kind == "ata_media_error":  # in any other answer the address is left over
            fields["block"] = address
        return state, (kind, fields)
    command = int(found["command"], 16)
    fields["code"] = f"0x{command:02x}"
    if command in _QUEUED:
        fields |= {"block": address, "blocks": (low[0] | high[0] << 8) or 0x10000}
    elif command in _LONG:
        fields |= {"block": address, "blocks": (low[1] | high[1] << 8) or 0x10000}
    elif command in _SHORT:
        drive = int(found["drive"], 16)
        fields |= {"block": address & 0xFFFFFF | (drive & 0x0F) << 24, "blocks": low[1] or 0x100}
    return state, ("ata_command", fields)


# --- the rest: one line, one shape ---


def _shaped(state: Classifier, line: Line, text: str) -> tuple[Classifier, Found | None]:
    found = shape(text)
    if found is None:
        return state, None
    kind, fields = found
    device, moment = fields.get("device", ""), line.monotonic_seconds
    if kind == "fs_no_space":
        return state._replace(full=(device, moment)), found
    if kind == "lost_write" and _NEXT_OF_FULL in text and state.full[0] == device != "":
        last = state.full[1]
        if last is None or moment is None or moment - last <= _SAME_PRINT_SECONDS:
            return state, ("fs_no_space", fields)
    return state, found


_LEVEL = re.compile(r"<[0-9]>")
_DISKS = frozenset({"sd", "hd"})
_TAKERS: dict[str, Callable[[Classifier, Line, str], tuple[Classifier, Found | None]]] = {
    **dict.fromkeys(LEADS, _shaped),
    **dict.fromkeys(("sd", "scsi", "st", "ses", "sr", "osst"), _scsi_line),
    **dict.fromkeys(
        ("Sense", "Add", "Additional", "Result", "CDB", "Descriptor", "ASC"), _scsi_rest
    ),
    **dict.fromkeys(("Read", "Write", "Verify", "SCSI"), _scsi_rest),
    **dict.fromkeys(("Info", "Current", "Deferred"), _old_sense),
    "ata": _ata,
    "res": _registers,
}
