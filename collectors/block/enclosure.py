"""Slots of storage enclosures, from '/sys/class/enclosure'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.collectors.source import Source
from iowarden.collectors.sysfs import Attributes, attributes, device_name, printable_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.model import Labels

DIRECTORY = "/sys/class/enclosure"
_NO_SLOT = frozenset({"device", "power", "subsystem"})
_NOT_REPORTED = frozenset({None, "unsupported", "not installed", "unknown", "unavailable"})
"""State of a slot whose flags are zeros without meaning."""
_OK = {"OK": 1.0, "critical": 0.0, "non-critical": 0.0, "unrecoverable": 0.0}
"""Other states ('unsupported', 'not installed', 'unknown', 'unavailable') are neither."""


@dataclass(frozen=True, slots=True)
class EnclosureSlot:
    """One slot. None: not reported by the enclosure. Source: kernel, drivers/misc/enclosure.c."""

    enclosure: str
    slot: str
    status: str | None
    """'OK', 'critical', 'non-critical', 'unrecoverable', 'not installed' ..."""
    fault: bool | None
    active: bool | None
    locate: bool | None
    device: str | None
    """The block device in it."""
    read_error: str = ""
    """The first attribute that exists and could not be read, and why."""


def place(slot: str, of: str) -> str:
    """Return where a disk is, for sentences: 'slot 3 of enclosure 0:0:8:0', 'slot 3 of megaraid 0'.

    `slot` is its name there, by the shelf ('Slot 02', or a number) or by the controller.
    """
    return f"slot {slot} of {of}" if slot[:1].isdecimal() else f"{slot} of {of}"


FAMILIES = (
    Family("iowarden_enclosure_slot_state", "gauge", "1; state and block device of a slot."),
    Family(
        "iowarden_enclosure_slot_ok",
        "gauge",
        "1 when a slot's state is OK, 0 when it is critical, non-critical or unrecoverable.",
    ),
    Family(
        "iowarden_enclosure_slot_fault",
        "gauge",
        "1 when a slot has a fault, or its fault LED is on.",
    ),
    Family("iowarden_enclosure_slot_active", "gauge", "1 when a slot is in use."),
    Family("iowarden_enclosure_slot_locate_on", "gauge", "1 when the locate LED of a slot is on."),
)


def emit(value: Iterable[EnclosureSlot]) -> list[Sample]:
    """Return the samples of FAMILIES; 'device' is empty if a slot has no block device."""
    samples: list[Sample] = []
    for slot in value:
        enclosure, name = ("enclosure", slot.enclosure), ("slot", slot.slot)
        device = ("device", slot.device or "")
        labels: Labels = (device, enclosure, name, ("status", slot.status or ""))
        samples.append(("iowarden_enclosure_slot_state", labels, 1.0))
        samples += [
            (metric, (device, enclosure, name), float(number))
            for metric, number in (
                ("iowarden_enclosure_slot_ok", _OK.get(slot.status or "")),
                ("iowarden_enclosure_slot_fault", slot.fault),
                ("iowarden_enclosure_slot_active", slot.active),
                ("iowarden_enclosure_slot_locate_on", slot.locate),
            )
            if number is not None
        ]
    return samples


def unreadable(value: Iterable[EnclosureSlot]) -> Iterator[tuple[Labels, str]]:
    """Yield the slots with an unreadable attribute, and why."""
    for slot in value:
        if slot.read_error:
            yield (("enclosure", slot.enclosure), ("slot", slot.slot)), slot.read_error


def read_enclosure(root: Machine) -> tuple[EnclosureSlot, ...]:
    """Read all slots of all enclosures; what vanishes meanwhile is left out.

    Limits: the kernel queries the enclosure's processor for each attribute, so it may hang on a
    faulty one. Errors: AbsentError, ReadError (of '/sys/class/enclosure'), ParseError.
    """
    slots = []
    for name in root.names(DIRECTORY):
        enclosure = attributes(root, f"{DIRECTORY}/{name}")
        for entry in enclosure.entries if enclosure is not None else ():
            found = None if entry in _NO_SLOT else attributes(root, f"{DIRECTORY}/{name}/{entry}")
            if found is None or "status" not in found.entries:
                continue
            slot = _slot(printable_name(name), printable_name(entry), found)
            if not found.vanished():
                slots.append(slot)
    return tuple(slots)


def _slot(enclosure: str, name: str, found: Attributes) -> EnclosureSlot:
    status = found.text("status")
    block = found.below("device/block")
    fault = _flag(found, "fault")
    # The kernel prints this for a state without a name.
    status = None if status == "(null)" else status
    return EnclosureSlot(
        enclosure=enclosure,
        slot=name,
        status=status,
        fault=fault if fault or status not in _NOT_REPORTED else None,
        active=_flag(found, "active"),
        locate=_flag(found, "locate"),
        device=device_name(block.entries[0]) if block is not None and block.entries else None,
        read_error=found.read_error,
    )


def _flag(found: Attributes, name: str) -> bool | None:
    # A fault is 4 if the enclosure detected it, 2 if the LED was requested, 6 for both
    # (drivers/scsi/ses.c, ses_get_fault); -1: not queried yet.
    number = found.signed(name)
    return None if number is None or number < 0 else number != 0


SOURCE: Source[tuple[EnclosureSlot, ...]] = Source(
    name="enclosure",
    period_seconds=60,
    period_help="How often slots of enclosures are read.",
    may_hang=True,
    read=read_enclosure,
    families=FAMILIES,
    emit=emit,
    objects=("device",),
    unreadable=unreadable,
)
