"""Parse lines of the kernel log about SCSI commands, over several lines each, and about IDE disks.

Source: kernel, drivers/scsi/scsi_logging.c, sd.c, scsi_error.c, constants.c.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.kmsg import kernel_drivers, sense
from iowarden.collectors.kmsg.kernel_classifier import (
    NO_DEVICE,
    TEXT_CHARACTERS,
    Classifier,
    ScsiCommand,
    Taken,
    added,
    continues,
    shaped,
)
from iowarden.collectors.kmsg.kernel_patterns import (
    EXEMPT,
    Fields,
    KindAndFields,
    number,
    shape,
)
from iowarden.collectors.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from iowarden.collectors.kmsg.kernel_line import KernelLine

_ADDRESS = lazy_pattern(
    r"\w+ (?P<address>[0-9]+:[0-9]+:[0-9]+:[0-9]+):(?: \[(?P<device>\w+)\])?"
    r"(?: (?P<tag>tag#[0-9]+))? *(?P<rest>.*)",
    re.ASCII | re.DOTALL,
)
_OLD_SENSE = lazy_pattern(
    r"(?:(?P<device>\w+): )?(?:Info fld=0x(?P<block>[0-9a-f]{1,16})[^,]*, )?"
    r"(?:Current|Deferred)(?: \[descriptor\])?:? (?:(?P<other>\w[\w:]*): )?sense key(?:=|:? )"
    r"(?P<key>[^,]+)",
    re.ASCII | re.IGNORECASE,
)
"""To 2.6.24, scsi_print_sense_hdr; 'sense key=0x3' without CONFIG_SCSI_CONSTANTS."""
_SENSE = lazy_pattern(r"Sense Key : (?P<key>[^\[]+)", re.ASCII)
_ADDITIONAL = lazy_pattern(r"(?:Add\. Sense|Additional sense): (?P<words>.+)", re.ASCII)
_CODES = lazy_pattern(
    r"ASC=(?:0x)?([0-9a-f]{1,2}),? *(?:<<vendor>> )?ASCQ=(?:0x)?([0-9a-f]{1,2})",
    re.IGNORECASE | re.ASCII,
)
_INFO = lazy_pattern(r"Info fld=0x([0-9a-f]{1,16})", re.ASCII | re.IGNORECASE)
_COMMAND = lazy_pattern(
    r"(?:CDB: .*?|[A-Z]\w+\([0-9]{1,2}\):? *)\b(?P<bytes>(?:[0-9a-f]{2} ){2,31}[0-9a-f]{2})\b",
    re.ASCII,
)
_RESULT = lazy_pattern(r"Result: hostbyte=(\w+)", re.ASCII)
_RETURN_CODE = lazy_pattern(r"return code = (?:0x)?([0-9a-f]{1,8})", re.ASCII)
_OLD_ERROR = lazy_pattern(r"SCSI error ?: <([0-9]+) ([0-9]+) ([0-9]+) ([0-9]+)>", re.ASCII)
"""2.6.0 to 2.6.17: host, channel, id, lun."""
_HEX = lazy_pattern(r"(?:[0-9a-f]{2} ){0,31}[0-9a-f]{2}", re.ASCII)
_HOST_BYTES = {
    "DID_OK": "scsi_result",
    "DID_NO_CONNECT": "scsi_no_connect",
    "DID_BAD_TARGET": "scsi_no_connect",
    "DID_TIME_OUT": "scsi_timeout",
    "DID_NEXUS_FAILURE": "block_reservation_error",
}
_HOST_NUMBERS = {
    0: "DID_OK",
    1: "DID_NO_CONNECT",
    3: "DID_TIME_OUT",
    4: "DID_BAD_TARGET",
    17: "DID_NEXUS_FAILURE",
}
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
EXPLAINING = frozenset({"scsi_additional_sense", *_ADDITIONAL_KINDS.values()})
"""How the line after a sense continues it."""
_OF_ANY_COMMAND = frozenset({"scsi_failure_predicted", "scsi_warning"})
"""Messages of a device that no command caused."""
WAITING = frozenset({"scsi_result", *_SENSE_KINDS.values()}) | EXPLAINING
_PASSED_THROUGH = (0x00, 0x1D)
_NO_MEDIUM = 0x3A
_FLUSHES = ("Synchronize Cache", "Start/Stop Unit", "Stop Unit")
_SCSI_SHAPES = (
    ("reservation conflict", "block_reservation_error"),
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
    ("..not responding...", "scsi_not_ready"),  # sd.c, sd_spinup_disk: after its dots
    ("uas_eh_abort_handler", "scsi_abort"),
    ("sas: RESET", "scsi_reset"),
    ("attempting task abort", "scsi_abort"),
    ("attempting", "scsi_reset"),
    ("uas_eh_device_reset_handler start", "scsi_reset"),
)
_SCSI_GOING = "Synchronizing SCSI cache"
_SCSI_COMING = "Attached SCSI disk"


def scsi_line(state: Classifier, line: KernelLine, text: str) -> Taken:
    """Parse 'sd 0:0:1:0: [sdb] ...'."""
    found = _ADDRESS.match(text)
    if found is None:
        return shaped(state, line, text)
    address, rest = found["address"], found["rest"]
    device = found["device"] or address
    if text.startswith("sr ") or NO_DEVICE.match(device):
        return state, EXEMPT
    place = address if found["device"] else ""
    scsi = state.scsi
    tag = found["tag"] or ""
    if (scsi.device, scsi.tag) != (device, tag) or not continues(scsi, line):
        state = state._replace(scsi=ScsiCommand(device, place, tag, line.monotonic_seconds))
    if not rest:  # to 2.6.24: 'command: Read (10): 28 00 ...' is the next line
        return state, EXEMPT
    return _scsi(state, line, rest)


def scsi_command(state: Classifier, line: KernelLine, text: str) -> Taken:
    """Parse 'command: Read (10): 28 00 ...' (to 2.6.24, scsi_print_command)."""
    words = text.removeprefix("command: ")
    if words == text or not continues(state.scsi, line):
        return state, None
    return _scsi(state, line, words)


def scsi_rest(state: Classifier, line: KernelLine, text: str) -> Taken:
    """Parse a line that continues one that named the device."""
    if (old := _OLD_ERROR.match(text)) is not None:
        device = ":".join(old.groups())
        state = state._replace(scsi=ScsiCommand(device, monotonic_seconds=line.monotonic_seconds))
    scsi = state.scsi
    if scsi.device and not continues(scsi, line):
        return state, None
    return _scsi(state, line, text)


def _scsi(state: Classifier, line: KernelLine, text: str) -> Taken:
    scsi = state.scsi
    if "ense" in text:
        if (found := _SENSE.match(text) or _OLD_SENSE.match(text)) is not None:
            return _sense_key(state, line, found["key"])
        if (found := _ADDITIONAL.match(text)) is not None:
            return _additional(state, found["words"])
        if text.startswith("Descriptor sense data"):
            return state._replace(scsi=scsi._replace(dump=b"")), EXEMPT
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


def _scsi_device(state: Classifier, text: str) -> Taken:
    scsi = state.scsi
    if (found := _INFO.match(text)) is not None:
        block = number(found[1], 16) or None  # 0 is the value of drives that report none
        return state._replace(scsi=scsi._replace(block=block)), EXEMPT
    if text.startswith("Unit Not Ready"):
        return state._replace(scsi=scsi._replace(spinning_up=True)), EXEMPT
    if text.startswith(_SCSI_GOING):
        return state._replace(removed=added(state.removed, scsi.device)), EXEMPT
    if text.startswith(_SCSI_COMING):
        return state._replace(removed=state.removed - {scsi.device}), EXEMPT
    for words, kind in _SCSI_SHAPES:
        if words in text:
            return state, (kind, {"device": scsi.device, "place": scsi.place})
    driver_kind = kernel_drivers.kind_of("disk", text) if scsi.device else None
    place = {"device": scsi.device, "place": scsi.place}
    return state, None if driver_kind is None else (driver_kind, place)


def _sense_key(state: Classifier, line: KernelLine, text: str) -> tuple[Classifier, KindAndFields]:
    word = text.strip().lower()
    if word in sense.KEYS:
        key: int | None = sense.KEYS.index(word)
    else:
        key = number(word.removeprefix("0x"), 16) if re.fullmatch("(0x)?[0-9a-f]", word) else None
    scsi = state.scsi
    spinning_up = scsi.spinning_up
    scsi = ScsiCommand(scsi.device, scsi.place, scsi.tag, line.monotonic_seconds, sense_key=key)
    fields: Fields = {
        "device": scsi.device,
        "place": scsi.place,
        "sense_key": key,
        "code": word if key is None else sense.KEYS[key],
    }
    kind = "scsi_sense" if key is None else _SENSE_KINDS.get(key, "scsi_sense")
    if spinning_up:  # no data are affected: the kernel checks whether there is a disk at all
        kind = "scsi_not_ready"
    return state._replace(scsi=scsi), (kind, fields)


def _additional(state: Classifier, text: str) -> Taken:
    codes = sense.ADDITIONAL.get(text.strip().lower())
    if (found := _CODES.search(text)) is not None:
        codes = int(found[1], 16), int(found[2], 16)
    asc, ascq = codes or (None, None)
    scsi = state.scsi._replace(asc=asc, ascq=ascq, dump=None)
    state = state._replace(scsi=scsi)
    if codes == _PASSED_THROUGH or asc == _NO_MEDIUM:
        return _dropped(state), EXEMPT
    kind = None if asc is None else _ADDITIONAL_KINDS.get(asc)
    fields: Fields = {
        "device": scsi.device,
        "place": scsi.place,
        "block": scsi.block,
        "sense_key": scsi.sense_key,
        "asc": asc,
        "ascq": ascq,
        "code": text.strip() if asc is None else f"0x{asc:02x}/0x{ascq:02x}",
    }
    return state, (kind or "scsi_additional_sense", fields)


def _cdb(state: Classifier, command: bytes) -> Taken:
    if sense.is_query_command(command):
        return _dropped(state), EXEMPT
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
    """Return the state without the sense of the command of the last line."""
    if state.pending_command != (state.scsi.device, state.scsi.tag):
        return state
    return state._replace(
        pending_sense=tuple(e for e in state.pending_sense if e.kind in _OF_ANY_COMMAND)
    )


def _result(state: Classifier, text: str, host: str) -> Taken:
    scsi = state.scsi
    if host.startswith("0x"):
        host = _HOST_NUMBERS.get(int(host, 16), host) if re.fullmatch("0x[0-9a-f]+", host) else host
    kind = _HOST_BYTES.get(host, "scsi_host_error")
    if kind == "scsi_no_connect" and (text.startswith(_FLUSHES) or scsi.device in state.removed):
        return state, EXEMPT
    scsi = ScsiCommand(scsi.device, scsi.place, scsi.tag, scsi.monotonic_seconds)
    fields: Fields = {"device": scsi.device, "place": scsi.place, "code": host}
    return state._replace(scsi=scsi), (kind, fields)


def dumped(state: Classifier, line: KernelLine, text: str) -> Taken:
    """Parse the bytes of a sense that the kernel did not decode."""
    scsi = state.scsi
    if _HEX.fullmatch(text) is None or not continues(scsi, line) or scsi.dump is None:
        return state._replace(scsi=scsi._replace(dump=None)), None
    dump = scsi.dump + bytes.fromhex(text)
    block = sense.information(dump)
    open_dump = dump if block is None and len(dump) < TEXT_CHARACTERS else None
    return state._replace(scsi=scsi._replace(dump=open_dump, block=block)), EXEMPT


_IDE = lazy_pattern(
    r"(?P<device>hd[a-z]): (?:(?:\w+|(?:status|irq|dma) (?:timeout|error)(?: error)?):"
    r" (?:status|error)=0x[0-9a-f]+"
    r"|(?P<timeout>dma_timer_expiry|DMA timeout|timeout waiting for DMA|lost interrupt"
    r"|DMA interrupt recovery|drive not ready for command|no DRQ after issuing))",
    re.ASCII,
)
"""Source: drivers/ide of 2.6.18 and 2.6.32, ide-io.c, ide-iops.c, ide-dma.c, ide-taskfile.c."""
_IDE_SECTOR = lazy_pattern(r"LBA ?sect=([0-9]{1,20})", re.ASCII)


def disk_line(state: Classifier, line: KernelLine, text: str) -> Taken:
    """Parse a line that begins with a disk's name."""
    if (ide := _IDE.match(text)) is not None and ide["timeout"]:
        return state, ("ata_timeout", {"device": ide["device"], "code": ide["timeout"]})
    if ide is not None:
        at = _IDE_SECTOR.search(text)
        sector = None if at is None else number(at[1])
        fields: Fields = {"device": ide["device"], "sector": sector}
        if sector is not None:
            fields["sectors"] = 1  # an IDE drive reports the bad sector itself
        return state, ("ide_error", fields)
    found = _OLD_SENSE.match(text)
    if found is not None and found["device"]:
        scsi = ScsiCommand(found["device"], monotonic_seconds=line.monotonic_seconds)
        return _sense_key(state._replace(scsi=scsi), line, found["key"])
    return state, shape(text)


def old_sense(state: Classifier, line: KernelLine, text: str) -> Taken:
    """Parse 'Current sdb: sense key Medium Error' (2.6.0 to 2.6.11), also after 'Info fld=...'."""
    found = _OLD_SENSE.match(text)
    if found is None or not found["other"]:
        return scsi_rest(state, line, text)
    state = state._replace(
        scsi=ScsiCommand(found["other"], monotonic_seconds=line.monotonic_seconds)
    )
    state, told = _sense_key(state, line, found["key"])
    block = number(found["block"], 16) or None
    return state._replace(scsi=state.scsi._replace(block=block)), told
