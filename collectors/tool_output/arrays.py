"""'/proc/mdstat', 'mdadm --detail' and '--examine': the arrays of Linux md and their members."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.md import md_detail, md_examine, mdstat
from iowarden.collectors.model import ParseError
from iowarden.collectors.parsed_text import Finding, Parsed, TextObject, Tool, UnparsedLine
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.redundancy import NONE_LEFT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iowarden.collectors.md.md_examine import ExaminedArray, Superblock

MAX_BAD_ROWS = 20
"""Maximum invalid rows that are skipped to parse the others; with more it is another text."""


def parse_mdstat(text: str) -> Parsed:
    """Parse '/proc/mdstat'; an array that cannot be parsed is left out and reported."""
    # Web forms strip the blanks at the begin of the further lines of an array.
    lines = [f" {line}" if _BELOW.match(line) else line for line in text.split("\n")]
    unread: list[UnparsedLine] = []
    if not _MDSTAT_END.search(text):
        expected = "expected a line 'unused devices:' at its end, got none: it may be truncated"
        unread.append(UnparsedLine(f"'/proc/mdstat': {expected}"))
        lines.append("unused devices: <none>")
    around = _around(lines)
    begin = "" if _MDSTAT_BEGIN.search(text) else "Personalities :\n"
    for _ in range(MAX_BAD_ROWS):
        try:
            stats = mdstat.parse_mdstat(begin + "\n".join(lines))
        except ParseError as error:
            at = _bad_line(str(error), lines, len(begin.splitlines()))
            if at is None:
                return Parsed(Tool.MDSTAT, unparsed=(*unread, UnparsedLine(str(error))))
            end = at + 1
            while end < len(lines) and lines[end][:1] in {" ", "\t"}:  # its further lines
                end += 1
            known = _PROMPT.match(lines[at]) or _MAIL.fullmatch(lines[at]) or at in around
            if not known:
                fault = _MDSTAT_FAULT.search("\n".join(lines[at:end])) is not None
                unread.append(UnparsedLine(str(error), lines[at], at + 1, fault))
            lines[at:end] = [""] * (end - at)
            continue
        arrays = {name: mdstat.from_mdstat(stat) for name, stat in stats.items()}
        outputs = ("/proc/mdstat",) if arrays or not begin else ()
        return Parsed(
            Tool.MDSTAT,
            arrays=arrays,
            outputs=outputs,
            unparsed=tuple(unread),
        )
    return Parsed(Tool.MDSTAT, unparsed=tuple(unread))


def _around(lines: Sequence[str]) -> frozenset[int]:
    """Return the lines above and below a whole '/proc/mdstat': what its user writes about it."""
    begin = next((at for at, line in enumerate(lines) if _MDSTAT_BEGIN.match(line)), None)
    ends = [at for at, line in enumerate(lines) if _MDSTAT_END.match(line)]
    if begin is None or not ends:
        return frozenset()
    return frozenset((*range(begin), *range(ends[-1] + 1, len(lines))))


def _bad_line(error: str, lines: Sequence[str], shift: int) -> int | None:
    """Return the line for which '/proc/mdstat' is refused: itself, or its array's."""
    named = re.match(r"'/proc/mdstat'(?: line (\d{1,9})|: (\S{1,99})): ", error)
    if named is None:
        return None
    if named[1]:
        return int(named[1]) - 1 - shift
    own = (at for at, line in enumerate(lines) if line.startswith(f"{named[2]} : "))
    return next(own, None)


_MDSTAT_BEGIN = lazy_pattern(r"^Personalities :", re.MULTILINE)
_MDSTAT_END = lazy_pattern(r"^unused devices:", re.MULTILINE)
"""Source: kernel, drivers/md/md.c, md_seq_show: the last line."""
_MDSTAT_FAULT = lazy_pattern(
    r"\([EF]\)|\[U*[_E][U_E]*\]|\[([0-9]{1,9})/(?!\1\])[0-9]{1,9}\]|\b(?:inactive|broken|recover\w*)\b"
)
"""In the text of an array: a member failed, a slot has none, or it is inactive."""
_BELOW = lazy_pattern(
    r"[0-9]{1,20} blocks\b|\[[0-9]{1,4}/[0-9]{1,4}\] \[|\[[=>.]{5,40}\]|bitmap: "
    r"|(?:resync|recovery|reshape|check) {0,9}="
)
_MAIL = lazy_pattern(
    r"Faithfully yours, etc\.|P\.S\. The /proc/mdstat file currently contains the following:"
    r"|It could be related to component device \S+|An? \w+ event ha[ds] been detected on md .*"
    r"|This is an automatically generated mail message from mdadm|running on \S+"
)
"""Lines of mdadm's mails. Source: mdadm 4.4, Monitor.c, send_event_email."""
_PROMPT = lazy_pattern(r"\S{0,80}[#$>%](?: |$)")


def parse_mdadm(text: str) -> Parsed:
    """Parse the arrays in 'mdadm --detail' and the superblocks in 'mdadm --examine'."""
    detail, examine = _by_command(text)
    if not detail.strip():
        return parse_superblocks(examine)
    if not examine.strip():
        return _parse_details(detail)
    told, also = _parse_details(detail), parse_superblocks(examine)
    return replace(
        told,
        objects=also.objects,
        findings=also.findings,
        outputs=(*told.outputs, *also.outputs),
        unparsed=(*told.unparsed, *also.unparsed),
    )


def _by_command(text: str) -> tuple[str, str]:
    """Return the lines of '--detail' and those of '--examine', the others of each empty."""
    lines = text.split("\n")
    begins = [at for at, line in enumerate(lines) if _DEVICE_LINE.fullmatch(line)]
    details, examined = [""] * len(lines), [""] * len(lines)
    for begin, end in itertools.pairwise([0, *begins, len(lines)]):
        block = lines[begin:end]
        is_examined = md_examine.IS_EXAMINE.search("\n".join(block)) is not None
        (examined if is_examined else details)[begin:end] = block
    return "\n".join(details), "\n".join(examined)


_DEVICE_LINE = lazy_pattern(r"/dev/\S{1,60}:[ \t]*")


def _parse_details(text: str) -> Parsed:
    contradictions: list[str] = []
    if _DETAIL_ROWS.search(text) and not _DETAIL_HEAD.search(text):
        text = f"/dev/md:\n{text}"  # a paste that begins below the name
    try:
        details = md_detail.parse_detail(text, contradictions)
    except ParseError as error:
        return Parsed(Tool.MDADM, unparsed=(UnparsedLine(str(error)),))
    return Parsed(
        Tool.MDADM,
        arrays={each.name: md_detail.as_array(each) for each in details.arrays},
        outputs=("mdadm --detail",),
        unparsed=(
            *(UnparsedLine(each) for each in details.complaints if _COMPLAINT.search(each)),
            *(
                UnparsedLine(wrong, fault=not wrong.endswith(md_detail.TRUNCATED))
                for wrong in contradictions
            ),
        ),
    )


_COMPLAINT = lazy_pattern(
    r"(?i)mdadm|/dev/|\b(?:errors?|fail\w*|cannot|can't|not|no|denied|missing|lost|bad|degraded|broken)\b"
)
"""A message of mdadm, or words about a fault: what else is around the output is its user's."""
_DETAIL_ROWS = lazy_pattern(r"^[ \t]*Number[ \t]+Major[ \t]+Minor[ \t]", re.MULTILINE)
_DETAIL_HEAD = lazy_pattern(r"^/dev/\S{1,60}:", re.MULTILINE)


# --- superblocks

_KEEP = (
    "Do not create the array again, and do not add the member before the array runs: both overwrite"
    " what may be needed.\n"
)
_CHECK = _KEEP + "See whether the array runs, and why the member fell out: cat /proc/mdstat; dmesg"


def parse_superblocks(text: str) -> Parsed:
    """Parse the superblocks in a text; one that is too old or damaged is a fault."""
    try:
        arrays = md_examine.parse_examine(text)
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
