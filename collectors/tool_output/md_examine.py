"""'mdadm --examine' in a text: members that an array went on without, and slots without a member."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.md.md_examine import parse_examine
from iowarden.collectors.model import ParseError
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.redundancy import NONE_LEFT
from iowarden.collectors.tool_output.parsed import Finding, Parsed, TextObject, Tool, UnparsedLine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.md.md_examine import ExaminedArray, Superblock

_KEEP = (
    "Do not create the array again, and do not add the member before the array runs: both overwrite"
    " what may be needed.\n"
)
_CHECK = _KEEP + "See whether the array runs, and why the member fell out: cat /proc/mdstat; dmesg"


def parse_superblocks(text: str) -> Parsed:
    """Parse the superblocks in a text; one that is too old or damaged is a fault."""
    try:
        arrays = parse_examine(text)
    except ParseError as error:
        return Parsed(Tool.MDADM, unparsed=(UnparsedLine(str(error)),))
    return Parsed(
        Tool.MDADM,
        objects=tuple(row for array in arrays for row in _objects(array)),
        findings=tuple(fault for array in arrays for fault in _findings(array)),
        outputs=("mdadm --examine",),
    )


def _objects(array: ExaminedArray) -> Iterator[TextObject]:
    newest = array.newest
    health = ComponentHealth.DEGRADED if newest.missing else ComponentHealth.OK
    details: dict[str, str | float] = {"level": newest.level} if newest.level else {}
    yield TextObject("array", array.name, "", health, newest.slots, details)
    for member in array.members:
        seen: dict[str, str | float] = {"updated": member.updated, "role": member.role}
        yield TextObject(
            "member",
            member.device,
            array.name,
            _health(array, member),
            member.slots,
            {name: text for name, text in seen.items() if text},
            {} if member.events is None else {"events": float(member.events)},
        )


def _health(array: ExaminedArray, member: Superblock) -> ComponentHealth:
    if array.is_stale(member):
        return ComponentHealth.FAILED
    is_damaged = member.has_bad_checksum or member.has_bad_blocks
    return ComponentHealth.ATTENTION if is_damaged else ComponentHealth.OK


def _findings(array: ExaminedArray) -> Iterator[Finding]:
    newest = array.newest
    if newest.missing:
        yield _degraded(array)
    for member in array.members:
        device = member.device
        if array.is_stale(member):
            since = f" on {member.updated}" if member.updated else ""
            text = (
                f"{device} fell out of its array{since}: its event count is {member.events},"
                f" the newest {newest.events}"
            )
            yield Finding("warning", "MdMemberStale", device, text, _CHECK)
        if member.has_bad_checksum:
            text = f"the checksum of the superblock on {device} is wrong"
            yield Finding("warning", "MdSuperblockDamaged", device, text, _KEEP)
        if member.has_bad_blocks:
            text = f"{device} has blocks that could be neither read nor rewritten"
            yield Finding("critical", "MdMemberBadBlocks", device, text, _KEEP)


def _degraded(array: ExaminedArray) -> Finding:
    missing, tolerated = array.newest.missing, array.tolerated
    slots = f"{missing} of {len(array.newest.slots)} slots"
    text = f"{array.name} has no member in {slots} ({array.newest.slots})"
    severity = "critical"
    if tolerated is None:
        severity, text = "warning", f"{text}; whether redundancy is left: its level is not in it"
    elif missing > tolerated and array.newest.level != "raid10":
        text = f"{text}: too few to run"
    elif missing >= tolerated:
        text = f"{text}; {NONE_LEFT}"
    else:
        severity = "warning"
    return Finding(severity, "MdDegraded", array.name, text, _CHECK)
