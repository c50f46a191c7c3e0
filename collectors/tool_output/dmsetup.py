"""'dmsetup status' and LVM's tables in a text: what is wrong with devices of device-mapper."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

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
from iowarden.collectors.redundancy import NONE_LEFT, redundancy_text

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
            yield severity, _full(usage.area, usage.ratio, is_snapshot=status.target == "snapshot")
    if status.legs:
        yield from _of_legs(status)
    if status.mismatches:
        yield "warning", f"{status.mismatches} mismatches"
    if status.target == "multipath":
        yield from _of_paths(status)
    if status.target == "error":
        yield "critical", "every request to it fails"


def _full(area: str, ratio: float, *, is_snapshot: bool) -> str:
    """Return the text of a fault: a full snapshot is dropped, and writes to its origin go on."""
    harm = "the snapshot is lost" if is_snapshot else "I/O fails or waits"
    return f"{area} is {percentage(ratio)} full; {harm} when it is full"


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
    "m": ("warning", "its copies or its parity have mismatches"),
    "F": ("critical", "the pool failed: no access to its data"),
    "D": ("critical", "it has no free data blocks: writes wait or fail"),
    "M": ("critical", "its metadata are read-only after an error"),
    "E": ("critical", "it could not write to its cache"),
}
_REDUNDANT = frozenset("rRmM")
_PARTIAL = frozenset("pr")
"""Health of a volume that runs without one of its devices: it is missing, or the kernel failed it.
"""
_LEG = lazy_pattern(r"(?P<volume>.+)_(?P<kind>r|m)(?:image|meta)_\d{1,3}")
_LEG_IN_DEVICES = lazy_pattern(r"_[rm]image_(\d{1,3})\(")
_SEGMENT_TYPE = lazy_pattern(r"(?P<level>raid(?:10|[01456])|mirror)(?:_\w{1,20})?")
_PARITY_LEGS = {"raid0": 0, "raid4": 1, "raid5": 1, "raid6": 2}
_LVM_ADVICE = "See which devices it is on, and which are missing: lvs -a -o +segtype,devices; pvs"


class _LvmRow(NamedTuple):
    """A row of lvs, vgs or pvs; `words` are all of its words, `at` is the place of Attr in them."""

    kind: str
    number: int
    line: str
    words: Sequence[str]
    at: int

    @property
    def attributes(self) -> str:
        return self.words[self.at]

    @property
    def name(self) -> str:
        if self.kind != "LV":
            return self.words[0]
        return "/".join((*self.words[1 : self.at], self.words[0].strip("[]")))


def parse_lvm(text: str) -> Parsed:
    """Parse the tables of lvs, vgs and pvs by their attributes.

    Source: LVM2, man/lvs.8_end, vgs.8_end, pvs.8_end. Limits: of other columns only the
    percentages, Type and Devices are used.
    """
    unread: list[UnparsedLine] = []
    rows: list[_LvmRow] = []
    lost: list[tuple[str, str]] = []
    kind = ""
    for number, line in enumerate(text.split("\n"), 1):
        if (head := _LVM_HEAD.fullmatch(line)) is not None:
            kind = head["kind"]
        elif (missing := _MISSING.fullmatch(line)) is not None:
            if missing["vg"]:
                lost.append((missing["vg"], line.strip().removeprefix("WARNING: ")))
        elif kind and line.strip():
            row = _lvm_row(kind, number, line)
            if row is None:
                unread.append(UnparsedLine(f"{kind.lower()}s: expected attributes", line, number))
            else:
                rows.append(row)
    # Where no volume is shown the missing device may hold the only copy of its data.
    severity = "warning" if any(row.kind == "LV" for row in rows) else "critical"
    findings = [
        Finding(severity, "LvmDeviceMissing", group, fault, _LVM_ADVICE) for group, fault in lost
    ]
    objects: list[TextObject] = []
    legs = _legs(rows)
    for row in rows:
        faults = [*_lvm_faults(row, legs, severity)]
        if row.kind == "LV" and (unknown := _unknown(row.name, row.attributes)):
            unread.append(UnparsedLine(unknown, row.line, row.number))
            if not faults:
                continue
        findings += [
            Finding(level, "LvmFault", row.name, f"{row.name}: {fault}", _LVM_ADVICE)
            for level, fault in faults
        ]
        health = ComponentHealth.ATTENTION if faults else ComponentHealth.OK
        objects.append(TextObject("volume" if row.kind == "LV" else row.kind, row.name, "", health))
    if not rows:
        unread.append(UnparsedLine("lvs: expected a row below 'LV VG Attr', got none"))
    return Parsed(
        Tool.LVS,
        objects=tuple(objects),
        findings=tuple(findings),
        outputs=("lvs",) if rows else (),
        unparsed=tuple(unread),
    )


def _lvm_row(kind: str, number: int, line: str) -> _LvmRow | None:
    """Return a row; None: it has no attributes."""
    pattern = {"LV": _LV_ATTR, "VG": _VG_ATTR, "PV": _PV_ATTR}[kind]
    words = line.split()
    at = next((n for n, word in enumerate(words) if n and pattern.fullmatch(word)), None)
    return None if at is None else _LvmRow(kind, number, line, words, at)


def _lvm_faults(row: _LvmRow, legs: Mapping[str, Sequence[str]], severity: str) -> Iterator[_Fault]:
    """Yield what is wrong with a row; of a missing device itself with this severity."""
    if row.kind == "VG" and row.attributes[3] == "p":
        yield severity, "a physical volume of it is missing"
    elif row.kind == "PV" and row.attributes[2] == "m":
        yield severity, "it is missing"
    elif row.kind == "LV":
        yield from _of_volume(row, legs)


def _legs(rows: Sequence[_LvmRow]) -> dict[str, list[str]]:
    """Return by RAID volume the health of each leg: of their rows ('lvs -a'), or of its Devices.

    A leg that only the volume's own row names has the health '?': one of them is missing.
    """
    legs: dict[str, list[str]] = {
        row.name: ["?"] * len(set(_LEG_IN_DEVICES.findall(row.line)))
        for row in rows
        if row.kind == "LV" and row.attributes[0] in _REDUNDANT
    }
    shown: dict[str, list[str]] = {}
    for row in rows:
        leg = _LEG.fullmatch(row.name) if row.kind == "LV" else None
        if leg is not None and "image_" in row.name and leg["volume"] in legs:
            shown.setdefault(leg["volume"], []).append(row.attributes[8])
    return legs | shown


def _less_redundancy(row: _LvmRow, legs: Sequence[str]) -> _Fault:
    """Return the fault of a RAID volume that runs without one of its legs, or more."""
    what = "a device of it is missing: it runs without that"
    if row.attributes[8] == "r":
        what = "a member failed or came back: it needs a refresh (lvchange --refresh)"
    left = _legs_left(row, legs)
    if left is None:
        return "critical", f"{what}; the text does not show whether redundancy is left"
    if left < 0:
        return "critical", f"{what}; more are missing than its redundancy covers"
    return "warning" if left else "critical", f"{what}; {redundancy_text(left, 1, 'device')}"


def _legs_left(row: _LvmRow, legs: Sequence[str]) -> int | None:
    """Return how many more legs a RAID volume may lose; None: its level is not in the text."""
    types = (_SEGMENT_TYPE.fullmatch(word) for word in row.words[1:])
    level = next((each["level"] for each in types if each is not None), "")
    missing = max(sum(leg in _PARTIAL for leg in legs), 1)
    if level in _PARITY_LEGS:
        return _PARITY_LEGS[level] - missing
    if level == "raid10":  # two copies, and which legs hold the same is not shown
        return max(1 - missing, 0)
    if level in {"raid1", "mirror"} and legs:
        return len(legs) - 1 - missing
    # Two legs: LVM makes no other level of them that has redundancy.
    return 1 - missing if len(legs) == 2 else None


def _unknown(name: str, attributes: str) -> str:
    """Return what the row of a logical volume does not show; '': its state is in it."""
    if attributes[0] == "t" and attributes[4] == "-":
        return (
            f"lvs: the pool {name} is not active: how full it is, and whether its metadata are"
            f" sound, is not in it; why it is not, or so it becomes: lvchange -ay {name}"
        )
    if "X" in (attributes[4], attributes[8]):
        return f"lvs: the state of {name} is unknown to LVM itself (X)"
    return ""


def _of_volume(row: _LvmRow, legs: Mapping[str, Sequence[str]]) -> Iterator[_Fault]:
    """Yield what is wrong with a logical volume."""
    attributes = row.attributes
    kind, state, health = attributes[0], attributes[4], attributes[8]
    leg = _LEG.fullmatch(row.name)
    if state in _STATES:
        yield _STATES[state]
    if leg is not None and leg["volume"] in legs:
        return  # its volume, whose row is in the text as well, has the fault
    if health in _PARTIAL and (kind in _REDUNDANT or leg is not None):
        yield _less_redundancy(row, legs.get(row.name, ()))
    elif health == "p":
        yield "critical", "a device of it is missing: part of its data is not available"
    elif health in _HEALTHS and not (health == "m" and kind not in _REDUNDANT):
        yield _HEALTHS[health]
    if kind not in "tds" or state in "IS":  # how full a lost snapshot was no longer matters
        return
    rest = row.words[row.at + 1 :]
    used = [float(word.replace(",", ".")) / 100 for word in rest if _PERCENT.fullmatch(word)]
    warning, critical = _FULL["snapshot"] if kind == "s" else _FULL_BY_DEFAULT
    for area, ratio in zip(("data", "metadata"), used, strict=False):
        if ratio > warning:
            severity = "critical" if ratio > critical else "warning"
            yield severity, _full(area, ratio, is_snapshot=kind == "s")
