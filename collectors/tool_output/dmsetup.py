"""'dmsetup status' and LVM's tables in a text: what is wrong with devices of device-mapper."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.device_mapper.target_status import (
    FAILURES,
    TargetStatus,
    parse_line,
    redundancy_groups,
)
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.parsed_text import Finding, Parsed, TextObject, Tool, UnparsedLine
from iowarden.collectors.quantity import percentage
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.redundancy import NONE_LEFT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
            full = f"{usage.area} is {percentage(usage.ratio)} full"
            text = f"{full}; I/O fails or waits when it is full"
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


# --- lvs, vgs and pvs

_LVM_HEAD = lazy_pattern(r"[ \t]*(?P<kind>LV|VG|PV)[ \t]+(?:.*[ \t])?Attr(?:[ \t].*)?")
_LV_ATTR = lazy_pattern(r"[-A-Za-z][-wrR][-a-zA-Z][-m][-A-Za-z][-oX][-A-Za-z][-zX][-A-Za-z][-kX]?")
_VG_ATTR = lazy_pattern(r"[wr][-z][-x][-p][a-zA-Z-][-cs]")
_PV_ATTR = lazy_pattern(r"[-adu][-x][-m]")
_PERCENT = lazy_pattern(r"\d{1,3}[.,]\d\d", re.ASCII)
_MISSING = lazy_pattern(
    r"[ \t]*(?:WARNING: )?(?:VG (?P<vg>\S+) is missing PV .*"
    r"|(?:Couldn't find device|Device for PV|Device \S+ not found).*)"
)
_STATES: Mapping[str, _Fault] = {
    **dict.fromkeys("IS", ("warning", "the snapshot is lost, its origin is not")),
    **dict.fromkeys("mM", ("warning", "the merge of its snapshot failed")),
    **dict.fromkeys("cC", ("critical", "its metadata need a check (thin_check) while it is off")),
    "s": ("warning", "it is suspended: its I/O waits"),
    "d": ("warning", "its device has no table: all I/O to it fails"),
    "i": ("warning", "its device has only a table that is not in use: its I/O waits"),
}
_HEALTHS: Mapping[str, _Fault] = {
    "r": ("warning", "a member failed or came back: it needs a refresh (lvchange --refresh)"),
    "m": ("warning", "its copies or its parity have mismatches"),
    "F": ("critical", "the pool failed: no access to its data"),
    "D": ("critical", "it has no free data blocks: writes wait or fail"),
    "M": ("critical", "its metadata are read-only after an error"),
    "E": ("critical", "it could not write to its cache"),
}
_REDUNDANT = frozenset("rRmM")
_LVM_ADVICE = "See which devices it is on, and which are missing: lvs -a -o +devices; pvs"


def parse_lvm(text: str) -> Parsed:
    """Parse the tables of lvs, vgs and pvs by their attributes.

    Source: LVM2, man/lvs.8_end, vgs.8_end, pvs.8_end. Limits: other columns than Attr and the
    percentages are ignored; how many more members a RAID volume may lose is not in it.
    """
    objects: list[TextObject] = []
    findings: list[Finding] = []
    unread: list[UnparsedLine] = []
    outputs: dict[str, None] = {}
    kind = ""
    for number, line in enumerate(text.split("\n"), 1):
        if (head := _LVM_HEAD.fullmatch(line)) is not None:
            kind = head["kind"]
        elif (missing := _MISSING.fullmatch(line)) is not None:
            if missing["vg"]:
                fault = line.strip().removeprefix("WARNING: ")
                findings.append(
                    Finding("warning", "LvmDeviceMissing", missing["vg"], fault, _LVM_ADVICE)
                )
        elif kind and line.strip():
            row = _lvm_row(kind, line.split())
            if row is None:
                unread.append(UnparsedLine(f"{kind.lower()}s: expected attributes", line, number))
                continue
            name, faults = row
            if kind == "LV" and (unknown := _unknown(name, line.split())):
                unread.append(UnparsedLine(unknown, line, number))
                outputs["lvs"] = None
                if not faults:
                    continue
            findings += [
                Finding(severity, "LvmFault", name, f"{name}: {fault}", _LVM_ADVICE)
                for severity, fault in faults
            ]
            health = ComponentHealth.ATTENTION if faults else ComponentHealth.OK
            objects.append(TextObject("volume" if kind == "LV" else kind, name, "", health))
    if objects:
        outputs["lvs"] = None
    if not outputs:
        unread.append(UnparsedLine("lvs: expected a row below 'LV VG Attr', got none"))
    return Parsed(
        Tool.LVS,
        objects=tuple(objects),
        findings=tuple(findings),
        outputs=tuple(outputs),
        unparsed=tuple(unread),
    )


def _lvm_row(kind: str, words: Sequence[str]) -> tuple[str, list[_Fault]] | None:
    """Return the name and the faults of a row; None: it has no attributes."""
    pattern = {"LV": _LV_ATTR, "VG": _VG_ATTR, "PV": _PV_ATTR}[kind]
    at = next((n for n, word in enumerate(words) if n and pattern.fullmatch(word)), None)
    if at is None:
        return None
    attributes = words[at]
    if kind == "LV":
        name = "/".join((*words[1:at], words[0].strip("[]")))
        return name, list(_of_volume(attributes, words[at + 1 :]))
    is_ill = attributes[3] == "p" if kind == "VG" else attributes[2] == "m"
    text = "a physical volume of it is missing" if kind == "VG" else "it is missing"
    return words[0], [("warning", text)] if is_ill else []


def _unknown(name: str, words: Sequence[str]) -> str:
    """Return what the row of a logical volume does not show; '': its state is in it."""
    attributes = next(word for word in words[1:] if _LV_ATTR.fullmatch(word))
    if attributes[0] == "t" and attributes[4] == "-":
        return (
            f"lvs: the pool {name} is not active: how full it is, and whether its metadata are"
            f" sound, is not in it; why it is not, or so it becomes: lvchange -ay {name}"
        )
    if "X" in (attributes[4], attributes[8]):
        return f"lvs: the state of {name} is unknown to LVM itself (X)"
    return ""


def _of_volume(attributes: str, rest: Sequence[str]) -> Iterator[_Fault]:
    """Yield what is wrong with a logical volume."""
    kind, state, health = attributes[0], attributes[4], attributes[8]
    if state in _STATES:
        yield _STATES[state]
    if health == "p" and kind in _REDUNDANT:
        yield "warning", "a device of it is missing: it runs without that, with less redundancy"
    elif health == "p":
        yield "critical", "a device of it is missing: part of its data is not available"
    elif health in _HEALTHS and not (health == "m" and kind not in _REDUNDANT):
        yield _HEALTHS[health]
    used = [float(word.replace(",", ".")) / 100 for word in rest if _PERCENT.fullmatch(word)]
    if kind not in "tds":
        return
    warning, critical = _FULL["snapshot"] if kind == "s" else _FULL_BY_DEFAULT
    for area, ratio in zip(("data", "metadata"), used, strict=False):
        if ratio > warning:
            severity = "critical" if ratio > critical else "warning"
            yield (
                severity,
                f"{area} is {percentage(ratio)} full; I/O fails or waits when it is full",
            )
