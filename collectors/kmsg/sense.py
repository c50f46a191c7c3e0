"""SCSI sense data: sense keys, additional sense codes, command blocks."""

from __future__ import annotations

KEYS = (
    "no sense",
    "recovered error",
    "not ready",
    "medium error",
    "hardware error",
    "illegal request",
    "unit attention",
    "data protect",
    "blank check",
    "vendor specific",
    "copy aborted",
    "aborted command",
    "equal",
    "volume overflow",
    "miscompare",
    "completed",
)
"""Source: SPC-4, table 28 (sense key descriptions), by number."""

ADDITIONAL = {
    "no additional sense information": (0x00, 0x00),
    "i/o process terminated": (0x00, 0x06),
    "ata pass through information available": (0x00, 0x1D),
    "ata pass-through information available": (0x00, 0x1D),
    "peripheral device write fault": (0x03, 0x00),
    "write fault": (0x03, 0x00),
    "logical unit not ready, cause not reportable": (0x04, 0x00),
    "logical unit is in process of becoming ready": (0x04, 0x01),
    "logical unit not ready, initializing command required": (0x04, 0x02),
    "logical unit not ready, manual intervention required": (0x04, 0x03),
    "logical unit not ready, format in progress": (0x04, 0x04),
    "logical unit not ready, hard reset required": (0x04, 0x21),
    "logical unit communication failure": (0x08, 0x00),
    "logical unit communication time-out": (0x08, 0x01),
    "logical unit communication crc error (ultra-dma/32)": (0x08, 0x03),
    "warning": (0x0B, 0x00),
    "warning - specified temperature exceeded": (0x0B, 0x01),
    "warning - enclosure degraded": (0x0B, 0x02),
    "warning - background self-test failed": (0x0B, 0x03),
    "warning - background pre-scan detected medium error": (0x0B, 0x04),
    "warning - background medium scan detected medium error": (0x0B, 0x05),
    "write error": (0x0C, 0x00),
    "write error - recovered with auto reallocation": (0x0C, 0x01),
    "write error - auto reallocation failed": (0x0C, 0x02),
    "write error - recommend reassignment": (0x0C, 0x03),
    "logical block guard check failed": (0x10, 0x01),
    "logical block application tag check failed": (0x10, 0x02),
    "logical block reference tag check failed": (0x10, 0x03),
    "unrecovered read error": (0x11, 0x00),
    "read retries exhausted": (0x11, 0x01),
    "error too long to correct": (0x11, 0x02),
    "multiple read errors": (0x11, 0x03),
    "unrecovered read error - auto reallocate failed": (0x11, 0x04),
    "unrecovered read error - recommend reassignment": (0x11, 0x0B),
    "unrecovered read error - recommend rewrite the data": (0x11, 0x0C),
    "read error - failed retransmission request": (0x11, 0x13),
    "read error - lba marked bad by application client": (0x11, 0x14),
    "address mark not found for data field": (0x13, 0x00),
    "recorded entity not found": (0x14, 0x00),
    "record not found": (0x14, 0x01),
    "random positioning error": (0x15, 0x00),
    "mechanical positioning error": (0x15, 0x01),
    "recovered data with no error correction applied": (0x17, 0x00),
    "recovered data with retries": (0x17, 0x01),
    "recovered data with error correction applied": (0x18, 0x00),
    "defect list error": (0x19, 0x00),
    "miscompare during verify operation": (0x1D, 0x00),
    "invalid command operation code": (0x20, 0x00),
    "logical block address out of range": (0x21, 0x00),
    "unaligned write command": (0x21, 0x04),
    "invalid field in cdb": (0x24, 0x00),
    "logical unit not supported": (0x25, 0x00),
    "invalid field in parameter list": (0x26, 0x00),
    "write protected": (0x27, 0x00),
    "not ready to ready change, medium may have changed": (0x28, 0x00),
    "power on, reset, or bus device reset occurred": (0x29, 0x00),
    "power on occurred": (0x29, 0x01),
    "scsi bus reset occurred": (0x29, 0x02),
    "bus device reset function occurred": (0x29, 0x03),
    "mode parameters changed": (0x2A, 0x01),
    "capacity data has changed": (0x2A, 0x09),
    "no defect spare location available": (0x32, 0x00),
    "medium not present": (0x3A, 0x00),
    "medium not present - tray closed": (0x3A, 0x01),
    "medium not present - tray open": (0x3A, 0x02),
    "logical unit has not self-configured yet": (0x3E, 0x00),
    "logical unit failure": (0x3E, 0x01),
    "timeout on logical unit": (0x3E, 0x02),
    "logical unit failed self-test": (0x3E, 0x03),
    "reported luns data has changed": (0x3F, 0x0E),
    "message error": (0x43, 0x00),
    "internal target failure": (0x44, 0x00),
    "ata device failed set features": (0x44, 0x71),
    "scsi parity error": (0x47, 0x00),
    "data phase crc error detected": (0x47, 0x01),
    "scsi parity error detected during st data phase": (0x47, 0x02),
    "information unit iucrc error detected": (0x47, 0x03),
    "protocol service crc error": (0x47, 0x05),
    "phy test function in progress": (0x47, 0x06),
    "initiator detected error message received": (0x48, 0x00),
    "data phase error": (0x4B, 0x00),
    "too much write data": (0x4B, 0x02),
    "ack/nak timeout": (0x4B, 0x03),
    "nak received": (0x4B, 0x04),
    "data offset error": (0x4B, 0x05),
    "initiator response timeout": (0x4B, 0x06),
    "connection lost": (0x4B, 0x07),
    "logical unit failed self-configuration": (0x4C, 0x00),
    "failure prediction threshold exceeded": (0x5D, 0x00),
    "media failure prediction threshold exceeded": (0x5D, 0x01),
    "logical unit failure prediction threshold exceeded": (0x5D, 0x02),
    "spare area exhaustion prediction threshold exceeded": (0x5D, 0x03),
    "failure prediction threshold exceeded (false)": (0x5D, 0xFF),
    "set target port groups command failed": (0x67, 0x0A),
}
"""The kernel's text for a code and qualifier, in lower case; any other has its text only.

Source: T10, 'SCSI additional sense codes'. A kernel without CONFIG_SCSI_CONSTANTS prints numbers.
"""

_ADDRESS_BYTES = {  # offsets of the address and the number of blocks. Source: SBC-3, clause 5
    **dict.fromkeys((0x08, 0x0A), (1, 4, 4, 5)),  # (6): read, write
    **dict.fromkeys((0x28, 0x2A, 0x2E, 0x2F, 0x41), (2, 6, 7, 9)),  # (10): read, write, verify
    **dict.fromkeys((0xA8, 0xAA, 0xAE, 0xAF), (2, 6, 6, 10)),  # (12)
    **dict.fromkeys((0x88, 0x8A, 0x8E, 0x8F, 0x93), (2, 10, 10, 14)),  # (16)
}
_SIX = 0x08, 0x0A
_SIX_ADDRESS = 0x1FFFFF
_SIX_ALL = 256
"""A command of 6 bytes has 21 bits of address, and 0 blocks mean 256."""
_DESCRIPTOR_AT = 8
_INFORMATION_BYTES = 12
_INFORMATION = 0x00
_VALID = 0x80
_PASS_THROUGH = {0x85: 14, 0xA1: 9}
"""Offset of the ATA command. Source: SAT-3, ATA PASS-THROUGH (16), (12)."""
_QUERY_OPCODES = frozenset(
    {
        *(0x03, 0x12, 0x1A, 0x5A, 0x4D),  # REQUEST SENSE, INQUIRY, MODE SENSE, LOG SENSE
        *(0x1C, 0x1D, 0x37, 0xB7),  # RECEIVE and SEND DIAGNOSTIC, READ DEFECT DATA
        *(0xA0, 0xA2, 0xA3),  # REPORT LUNS, SECURITY PROTOCOL IN, MAINTENANCE IN
    }
)
"""Commands of smartctl and similar programs. Source: SPC-4, clause 6; smartmontools 7.3,
scsicmds.cpp.
"""
_ATA_DATA = frozenset(
    {
        *(0x20, 0x21, 0x24, 0x25, 0x26, 0x29, 0x2A, 0x2B, 0x40, 0x42, 0x60, 0xC4, 0xC8),  # read
        *(0x30, 0x31, 0x34, 0x35, 0x39, 0x3A, 0x3D, 0x45, 0x61, 0xC5, 0xCA, 0xCE),  # write
    }
)
"""ATA commands for sectors. Source: ACS-3, clause 7."""


def is_query_command(command: bytes) -> bool:
    """Whether a command block queries a device's state, not data, as smartctl does.

    An error in response is no error of the device: mostly it does not support the query. An ATA
    command that is unknown, because the block is truncated, counts as a query.
    """
    if not command:
        return False
    at = _PASS_THROUGH.get(command[0])
    if at is None:
        return command[0] in _QUERY_OPCODES
    return len(command) <= at or command[at] not in _ATA_DATA


def command_range(command: bytes) -> tuple[int, int] | None:
    """Return the logical block address and the number of blocks of a command block.

    None: it has no address, or is truncated.
    """
    where = _ADDRESS_BYTES.get(command[0]) if command else None
    if where is None or len(command) < where[3]:
        return None
    address = int.from_bytes(command[where[0] : where[1]], "big")
    blocks = int.from_bytes(command[where[2] : where[3]], "big")
    if command[0] in _SIX:
        return address & _SIX_ADDRESS, blocks or _SIX_ALL
    return address, blocks


def information(sense: bytes) -> int | None:
    """Return the block in a descriptor-format sense (SPC-4, 4.5.2.2); None: not yet complete.

    The kernel prints these bytes in lines of 16; all are available once the descriptor is.
    """
    descriptor = sense[_DESCRIPTOR_AT:][:_INFORMATION_BYTES]
    if len(descriptor) < _INFORMATION_BYTES or descriptor[0] != _INFORMATION:
        return None
    return int.from_bytes(descriptor[4:], "big") if descriptor[2] & _VALID else None
