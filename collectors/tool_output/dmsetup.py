"""'dmsetup status' in a text: the targets of device-mapper, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.device_mapper.target_status import (
    FAILURES,
    TargetStatus,
    parse_line,
    redundancy_groups,
)
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.redundancy import NONE_LEFT
from iowarden.collectors.tool_output.parsed import Finding, Parsed, TextObject, Tool, UnparsedLine

if TYPE_CHECKING:
    from collections.abc import Iterator

_FULL = {"snapshot": (0.8, 0.95)}
_FULL_BY_DEFAULT = (0.8, 0.9)
"""Used share from which an area is a warning, and critical; as in rules/device_mapper.yaml."""
_ILL = {
    "ro": "it is read-only after an error of its metadata",
    "needs_check": "its metadata need a check (thin_check, cache_check) while it is off",
    "out_of_data_space": "it has no free data blocks: writes wait or fail",
    "read-only": "it is read-only after an error",
    "error": "it could not write to its cache",
    "C": "a block does not match its checksum",
}
"""Words of a target that failed."""
_LOST = frozenset(("Invalid", "Overflow"))
"""A snapshot that is lost; its origin is not."""
_Fault = tuple[str, str]
"""Severity and text."""


def parse_dmsetup(text: str) -> Parsed:
    """Parse the lines of devices; a target or status that is not known is reported."""
    objects: list[TextObject] = []
    findings: list[Finding] = []
    unread: list[UnparsedLine] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.strip() == "No devices found":
            continue
        status = parse_line(line)
        if status is None or status.unparsed:
            reason = "no status of a known target" if status is None else status.unparsed
            unread.append(UnparsedLine(f"dmsetup: {reason}", line, number))
            continue
        faults = list(_faults(status))
        name = status.name or "device"
        place = f"{name} ({status.target})"
        findings += [
            Finding(severity, "DeviceMapperFault", name, f"{place}: {fault}")
            for severity, fault in faults
        ]
        health = ComponentHealth.ATTENTION if faults else ComponentHealth.OK
        if any(severity == "critical" for severity, _ in faults):
            health = ComponentHealth.FAILED
        word = " ".join(status.states)
        details = {"target": status.target}
        objects.append(TextObject("device", name, "", health, word, details))
    return Parsed(
        Tool.DMSETUP,
        objects=tuple(objects),
        findings=tuple(findings),
        outputs=("dmsetup status",) if objects else (),
        unparsed=tuple(unread),
    )


def _faults(status: TargetStatus) -> Iterator[_Fault]:
    """Yield what is wrong with a target."""
    for state in status.states:
        if state in _LOST:
            yield "warning", f"it reports '{state}': the snapshot is lost, its origin is not"
        elif state in FAILURES:
            yield "critical", f"it reports '{state}': its data are not available"
        elif state in _ILL:
            yield "critical", _ILL[state]
    for usage in status.usages:
        warning, critical = _FULL.get(status.target, _FULL_BY_DEFAULT)
        if usage.ratio > warning and status.target != "snapshot-merge":
            severity = "critical" if usage.ratio > critical else "warning"
            text = f"{usage.area} is {usage.ratio:.0%} full; I/O fails or waits when it is full"
            yield severity, text
    if status.legs:
        yield from _of_legs(status)
    if status.mismatches:
        yield "warning", f"{status.mismatches} mismatches"
    if status.target == "multipath":
        yield from _of_paths(status)
    if status.target == "error":
        yield "critical", "every request to it fails"


def _of_legs(status: TargetStatus) -> Iterator[_Fault]:
    letters = "".join(leg.state for leg in status.legs if leg.position.isdecimal())
    if failed := status.failed_legs:
        what = "had I/O errors" if status.target == "striped" else "failed"
        text = f"{len(failed)} of {len(letters)} devices {what} ({letters})"
        is_exhausted = any(group.is_exhausted for group in redundancy_groups(status))
        if is_exhausted and not status.is_failed:
            text = f"{text}: {NONE_LEFT}"
        yield "critical" if status.is_failed or is_exhausted else "warning", text
    for leg in status.legs:
        if not leg.position.isdecimal() and leg.state not in {"A", "a"}:
            yield "warning", f"its {leg.position} failed ({leg.state})"


def _of_paths(status: TargetStatus) -> Iterator[_Fault]:
    working = sum(path.working for path in status.paths)
    if not working:
        yield "critical", f"no working path ({len(status.paths)} failed)"
    elif working < len(status.paths):
        failed = [path.device for path in status.paths if not path.working]
        text = f"{working} of {len(status.paths)} paths work; failed: {', '.join(failed)}"
        yield "warning", text
