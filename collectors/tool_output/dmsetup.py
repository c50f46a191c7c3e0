"""'dmsetup status': the targets of device-mapper and what their status fields report.

Source: kernel, admin-guide/device-mapper: dm-raid, thin-provisioning, cache, snapshot, verity,
writecache, vdo; drivers/md/dm-raid1.c for 'mirror', dm-stripe.c for 'striped', dm-mpath.c.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.tool_output.parsed import (
    TARGETS,
    Finding,
    Parsed,
    TextObject,
    Tool,
    UnparsedLine,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LINE = lazy_pattern(
    r"(?P<name>\S{1,200}): (?P<start>\d{1,20}) (?P<length>\d{1,20}) (?P<target>\S{1,40})"
    r"(?: (?P<status>.*))?",
    re.ASCII,
)
_FULL_RATIO = 0.8
"""Used space of a pool from which it is reported: then its volumes still work."""
_Verdict = tuple[str, str] | None
"""Severity and text of a fault; None: in order."""


def parse_dmsetup(text: str) -> Parsed:
    """Parse the lines of devices; a target or status that is not known is reported."""
    objects: list[TextObject] = []
    findings: list[Finding] = []
    unread: list[UnparsedLine] = []
    for number, line in enumerate(text.split("\n"), 1):
        words = " ".join(line.split())
        if not words or words == "No devices found":
            continue
        row = _LINE.fullmatch(words)
        if row is None or row["target"] not in TARGETS:
            unread.append(UnparsedLine("dmsetup: no status of a known target", line, number))
            continue
        name, target, status = row["name"], row["target"], row["status"] or ""
        try:
            verdict = _READERS[target](status.split()) if target in _READERS else None
        except (IndexError, ValueError, ZeroDivisionError):
            unread.append(UnparsedLine(f"dmsetup: not the status of a {target}", line, number))
            continue
        health = ComponentHealth.OK
        if verdict is not None:
            severity, fault = verdict
            critical = severity == "critical"
            health = ComponentHealth.FAILED if critical else ComponentHealth.ATTENTION
            findings.append(
                Finding(severity, "DeviceMapperFault", name, f"{name} ({target}): {fault}")
            )
        objects.append(TextObject("device", name, "", health, status[:80], {"target": target}))
    return Parsed(
        Tool.DMSETUP,
        objects=tuple(objects),
        findings=tuple(findings),
        outputs=("dmsetup status",) if objects else (),
        unparsed=tuple(unread),
    )


def _letters(letters: str, good: str, what: str) -> _Verdict:
    bad = sum(letter not in good for letter in letters)
    if not letters:
        raise ValueError
    lost = f"{bad} of {len(letters)} {what} failed ({letters})"
    return ("critical" if bad == len(letters) else "warning", lost) if bad else None


def _striped(fields: list[str]) -> _Verdict:
    """'<devices> <device>... <groups> <letters>': 'A' alive, 'D' dead; it has no redundancy."""
    count = int(fields[0])
    verdict = _letters(fields[count + 2], "A", "devices")
    return verdict and ("critical", verdict[1])


def _mirror(fields: list[str]) -> _Verdict:
    """'<devices> <device>... <synced>/<total> 1 <letters>': 'A' alive, 'D' write error ..."""
    count = int(fields[0])
    return _letters(fields[count + 3], "A", "copies")


def _raid(fields: list[str]) -> _Verdict:
    """'<type> <devices> <letters> <ratio> <action> <mismatches> ...': 'A' in sync, 'a' not yet."""
    verdict = _letters(fields[2].replace("-", ""), "Aa", "devices")
    mismatches = fields[5] if len(fields) > 5 else "0"
    if verdict is None and mismatches.isdecimal() and int(mismatches):
        return "warning", f"{mismatches} mismatches"
    return verdict


def _full(used: str, what: str) -> _Verdict:
    part, _, whole = used.partition("/")
    ratio = int(part) / int(whole)
    if ratio < _FULL_RATIO:
        return None
    severity = "critical" if ratio >= 0.95 else "warning"
    return severity, f"{what} is {ratio:.0%} full; I/O fails or hangs when it is full"


def _failed(fields: list[str]) -> _Verdict:
    word = " ".join(fields[:1])
    if word in {"Fail", "Error", "Invalid", "Overflow", "Merge", "Unknown"}:
        return "critical", f"it reports '{' '.join(fields)}': its data are not available"
    return None


def _modes(fields: list[str]) -> _Verdict:
    for word, fault in (
        ("needs_check", "its metadata need a check (thin_check, cache_check) while it is off"),
        ("out_of_data_space", "it has no free data blocks: writes hang or fail"),
        ("ro", "it is read-only after an error of its metadata"),
    ):
        if word in fields:
            return "critical", fault
    return None


def _thin_pool(fields: list[str]) -> _Verdict:
    if verdict := _failed(fields):
        return verdict
    full = _full(fields[2], "data"), _full(fields[1], "metadata")
    return _modes(fields[4:]) or next(filter(None, full), None)


def _cache(fields: list[str]) -> _Verdict:
    if verdict := _failed(fields):
        return verdict
    int(fields[1].partition("/")[0])
    return _modes(fields[6:])


def _snapshot(fields: list[str]) -> _Verdict:
    if verdict := _failed(fields):
        return verdict
    return _full(fields[0], "the snapshot")


def _verity(fields: list[str]) -> _Verdict:
    return ("critical", "a block does not match its checksum") if fields[0] == "C" else None


def _writecache(fields: list[str]) -> _Verdict:
    return ("critical", f"error {fields[0]}") if int(fields[0]) else None


def _vdo(fields: list[str]) -> _Verdict:
    return None if fields[1] == "normal" else ("critical", f"it is in mode '{fields[1]}'")


def _multipath(fields: list[str]) -> _Verdict:
    """Paths have 'A' or 'F' behind their numbers, '8:16 A 0'."""
    pairs = itertools.pairwise(fields)
    letters = [after for word, after in pairs if re.fullmatch(r"\d+:\d+", word)]
    if not letters:
        return "critical", "it has no path"
    return _letters("".join(letters), "A", "paths")


_READERS: Mapping[str, Callable[[list[str]], _Verdict]] = {
    "striped": _striped,
    "mirror": _mirror,
    "raid": _raid,
    "thin-pool": _thin_pool,
    "thin": _failed,
    "cache": _cache,
    "snapshot": _snapshot,
    "snapshot-merge": _snapshot,
    "verity": _verity,
    "writecache": _writecache,
    "vdo": _vdo,
    "multipath": _multipath,
    "era": _failed,
    "clone": _failed,
    "error": lambda _: ("critical", "every request to it fails"),
}
