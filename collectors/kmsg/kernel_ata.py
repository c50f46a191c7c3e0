"""Parse lines of the kernel log about ATA ports, links and commands.

Source: kernel, drivers/ata/libata-eh.c, ata_eh_report, ata_eh_link_report.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.kmsg import kernel_drivers
from iowarden.collectors.kmsg.kernel_classifier import Classifier, Taken, added
from iowarden.collectors.kmsg.kernel_patterns import EXEMPT
from iowarden.collectors.kmsg.storage_drivers import CRITICAL
from iowarden.collectors.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from iowarden.collectors.kmsg.kernel_line import KernelLine
    from iowarden.collectors.kmsg.kernel_patterns import Fields

_ATA = lazy_pattern(r"(?P<device>(?P<port>ata[0-9]+)(?:\.[0-9]+)?): (?P<rest>.*)", re.DOTALL)
_REGISTERS = lazy_pattern(
    r"(?:cmd|res) (?P<command>[0-9a-f]{2})/(?P<registers>[0-9a-f]{2}(?::[0-9a-f]{2}){4})"
    r"/(?P<high>[0-9a-f]{2}(?::[0-9a-f]{2}){4})/(?P<drive>[0-9a-f]{2})"
    r"(?:.*Emask 0x[0-9a-f]+ \((?P<mask>[^)]*)\))?",
    re.ASCII,
)
_OF_AN_EMPTY_PORT = ("SATA link down", "NODEV after polling", "failed to resume link")
"""Also printed at boot, for each port without a device."""
_QUEUED = frozenset({0x60, 0x61})
_LONG = frozenset({0x24, 0x25, 0x29, 0x34, 0x35, 0x39, 0x3D, 0x42, 0xCE})
_SHORT = frozenset({0x20, 0x21, 0x30, 0x31, 0x40, 0xC4, 0xC5, 0xC8, 0xCA})
"""Commands with 48-bit and 28-bit addresses. Source: ACS-3, clause 7."""
_ATA_MASKS = {
    "media error": "ata_media_error",
    "timeout": "ata_timeout",
    "ATA bus error": "ata_bus_error",
    "host bus error": "ata_bus_error",
}
_ATA_SHAPES = tuple(
    (lazy_pattern(pattern), kind)
    for pattern, kind in (
        (r"exception Emask", "ata_exception"),
        # drivers/ata/libahci.c, ahci_error_intr, below the exception's first line
        (r"irq_stat 0x[0-9a-f]+, .*(?:interface fatal|host bus) error", "ata_bus_error"),
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
        # to 2.6.20
        *(
            (rf"tag \d{{1,3}} cmd 0x[0-9a-f]+ Emask .*\((?P<code>{mask})\)", kind)
            for mask, kind in (*_ATA_MASKS.items(), ("[^()]*", "ata_result"))
        ),
        # to 2.6.32: below them are the registers
        (r"(?:translated ATA stat/err|no sense translation for) (?P<code>.+)", "ata_status"),
        (r"(?:port|device) failed to respond", "ata_reset_failed"),
        (r"(?:classification failed|follow-up softreset required)", "ata_reset_failed"),
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
        (r"(?:NODEV after polling detection|disabled?\b|detaching )", "ata_disabled"),
    )
)


_OF_REGISTERS = ("irq_stat 0x", "edma_err_cause=", "port_status 0x")
"""Source: drivers/ata/libahci.c, sata_mv.c, sata_sil24.c: what they add to an exception."""


def ata_line(state: Classifier, line: KernelLine, text: str) -> Taken:
    """Parse 'ata3.00: ...', about a port, link or drive."""
    found = _ATA.match(text)
    if found is None:
        return state, None
    device, port, rest = found["device"], found["port"], found["rest"]
    if rest.startswith("cmd "):
        return registers(state._replace(ata_device=device), line, rest)
    if rest.startswith("Entering standby power mode"):  # the drive is being detached
        return state._replace(removed=added(state.removed, device)), EXEMPT
    if rest.startswith("disable device") and device in state.removed:
        return state._replace(removed=state.removed - {device}), EXEMPT
    if rest.startswith(_OF_AN_EMPTY_PORT) and port not in state.ata_troubled:
        return state, EXEMPT
    if rest.startswith(("SATA link down", "SATA link up")):
        return _ata_link(state, device, rest)
    if rest.startswith("EH complete"):
        return state._replace(ata_troubled=state.ata_troubled - {port}), EXEMPT
    for pattern, kind in _ATA_SHAPES:
        if (shape := pattern.match(rest)) is not None:
            if kind in {"ata_exception", "ata_reset"}:
                troubled = added(state.ata_troubled, port)
                state = state._replace(ata_device=device, ata_troubled=troubled)
            if kind == "ata_slow":  # until its link is up
                state = state._replace(ata_down=added(state.ata_down, device))
            return state, (kind, {"device": device, **shape.groupdict()})
    driver_kind = kernel_drivers.kind_of("ata", rest)
    if driver_kind is None or rest.startswith(_OF_REGISTERS):
        # Under error handling it is a detail of the exception: 'irq_stat 0x40000001'.
        is_worse = line.priority is not None and line.priority <= CRITICAL
        return state, EXEMPT if port in state.ata_troubled and not is_worse else None
    return state, (driver_kind, {"device": device})


def _ata_link(state: Classifier, device: str, rest: str) -> Taken:
    """Parse that a link is down, or up again: at boot each link in use comes up."""
    down = state.ata_down
    if rest.startswith("SATA link down"):
        return state._replace(ata_down=added(down, device)), ("ata_link_down", {"device": device})
    if device not in down:
        return state, EXEMPT
    return state._replace(ata_down=down - {device}), ("ata_link_up", {"device": device})


def registers(state: Classifier, _line: KernelLine, text: str) -> Taken:
    """Parse 'cmd 60/08:00:68:cb:66/00:00:1f:00:00/40 ...', and the drive's answer, 'res ...'."""
    found = _REGISTERS.match(text)
    if found is None:
        return state, None
    low = bytes.fromhex(found["registers"].replace(":", ""))
    high = bytes.fromhex(found["high"].replace(":", ""))
    address = int.from_bytes((low[2], low[3], low[4], high[2], high[3], high[4]), "little")
    fields: Fields = {"device": state.ata_device, "code": found["mask"] or ""}
    if text.startswith("res "):
        kind = _ATA_MASKS.get(found["mask"] or "", "ata_result")
        if kind == "ata_media_error":  # in any other answer the address is a leftover
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
