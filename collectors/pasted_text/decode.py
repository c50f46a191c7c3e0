"""Decode bytes to a tool's text output: encoding, colours, prompts, a mail's quotes and breaks.

A mail program breaks a line before the first word that does not fit. So a line and the first word
of the next are together longer than the widest line of the text; and that next line is not
indented. A terminal cuts a line at its width, within a word. Limits: `MAX_BYTES`; only lines whose
beginning is known as one that goes on are joined: of a log, of smartd's mails, rows and
sentences of smartctl, mdstat, zpool, storcli, ssacli and tw_cli. A row without its last columns is
joined at any width. The lines keep their numbers: where one was taken away, an empty one is left.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError
from iowarden.collectors.parsed_text import SIGNS, Tool
from iowarden.collectors.pasted_text.journal_forms import one_line_entries
from iowarden.collectors.pasted_text.markup import signs, without_markup, without_prefix

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_BYTES = 32 * 1024 * 1024
"""Maximum of one text; a ring of the kernel log has 1 MiB, a journal of a week 10."""


_BOMS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"\xef\xbb\xbf", "utf-8"))
_CONTROLS = lazy_pattern(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\ufffd]")
_ESCAPE = lazy_pattern(r"\x1b(?:\[[0-9;?]{0,20}[A-Za-z]|[()][0-9A-Za-z])")
"""Escape sequences that colour a text or move the cursor."""
_BLANKS = {0xA0: " ", 0x2007: " "}
"""Blanks of web pages and word processors, which keep columns aligned there."""
_AROUND = lazy_pattern(
    r"^(?:```\w{0,20}|\[sudo\] [^\n]*|\[?[\w.-]{1,32}@[^\n#$]{1,80}[#$](?: [^\n]*)?|\$ [^\n]*"
    r"|[\w.-]{1,32}:[~/][^\s#$]{0,80}[#$] [^\n]*|Last login: [^\n]*"
    r"|multipathd> ?[^\n]*|=> (?:set|rescan|ctrl|controller|version|exit|quit|help)\b[^\n]*)"
    r"[ \t]*$",
    re.MULTILINE,
)
"""Decorations by a shell or a forum around an output; '# 1' begins a line of smartctl's."""
_MIN_QUOTED = 0.6
"""Minimum ratio of marked lines; the others are the rests of broken ones."""
_PACKED: Mapping[bytes, str] = {
    b"\x1f\x8b": "unpack it: zcat FILE | iowarden explain; a recording: iowarden replay FILE",
    b"\xfd7zXZ\0": "unpack it: xzcat FILE | iowarden explain; a recording: iowarden replay FILE",
    b"\x28\xb5\x2f\xfd": "unpack it: zstdcat FILE | iowarden explain",
    b"BZh": "unpack it: bzcat FILE | iowarden explain",
    b"PK\x03\x04": "unpack it: unzip -p FILE | iowarden explain",
    b"LPKSHHRH": "a journal: journalctl --file FILE | iowarden explain",
}
"""What makes text of a file that begins like this.

Source: gzip.5, 'The .xz File Format', RFC 8878, bzip2.1, APPNOTE.TXT 4.3.7, systemd's Journal File
Format.
"""
_MAX_CONTROLS = 0.05
"""Maximum ratio of control characters; serial numbers of faulty disks have some."""


def decoded(content: bytes) -> str:
    """Decode an output, without the commands and decorations around it. Errors: as `session`."""
    return without_commands(session(content))


def session(content: bytes) -> str:
    """Decode a text with its commands: UTF-8, or UTF-16 as other systems save it.

    Invalid bytes are escaped. Errors: ParseError: it is binary, or too long.
    """
    if len(content) > MAX_BYTES:
        raise ParseError(
            f"expected at most {MAX_BYTES} bytes, got more; pass only the relevant part"
        )
    for mark, encoding in _BOMS:
        if content.startswith(mark):
            text = content.removeprefix(mark).decode(encoding, errors="replace")
            break
    else:
        text = content.decode(errors="backslashreplace")
        damaged = len(content) - len(content.decode(errors="ignore").encode())
        if damaged > _MAX_CONTROLS * len(content):
            raise _binary(content)
    if len(_CONTROLS.findall(text)) > _MAX_CONTROLS * len(text):
        raise _binary(content)
    text = re.sub(r"\r+\n?", "\n", _ESCAPE.sub("", text))
    if not text.strip():
        raise ParseError(
            "expected what a tool or the kernel printed, got nothing; many tools print only as"
            " root: sudo smartctl -x /dev/DISK | iowarden explain"
        )
    text = _fenced(_dedented(_unquoted(without_markup(text).translate(_BLANKS))))
    text = without_prefix(text)
    return rejoined(one_line_entries(text))


def _binary(content: bytes) -> ParseError:
    """Return the error about bytes that are no text, and the command that makes text of them."""
    texts = (text for magic, text in _PACKED.items() if content.startswith(magic))
    then = next(texts, "pass what a tool prints: smartctl -x /dev/DISK | iowarden explain")
    return ParseError(f"expected text, got binary data, beginning {content[:16]!r}; {then}")


def _unquoted(text: str) -> str:
    """Return a text without a mail's marks of quotation, and the quoted lines that it broke.

    A mail that is quoted in a mail has two marks, and the words between both have one.
    """
    for _ in range(MAX_QUOTATIONS):
        lines = text.split("\n")
        filled = [line for line in lines if line.strip()]
        marked = sum(line.startswith(">") for line in filled)
        if not marked or marked < _MIN_QUOTED * len(filled):
            break
        first = next(at for at, line in enumerate(lines) if line.startswith(">"))
        head = "\n".join(lines[:first]).strip()
        if head and not _ATTRIBUTION.fullmatch(head) and _has_output(lines):
            break
        lines[:first] = [""] * first
        _join_rests(lines)
        text = _QUOTED.sub("", "\n".join(lines))
    return text


def _has_output(lines: Sequence[str]) -> bool:
    """Whether a tool's output stands outside of the quoted lines, which is not only words then."""
    outside = "\n".join(line for line in lines if not line.startswith(">"))
    return any(sign.search(outside) for sign in SIGNS.values())


def _dedented(text: str) -> str:
    """Return a text without the blanks that all of its lines begin with, as Markdown's listings.

    They stay where a program's output has them itself.
    """
    lines = text.split("\n")
    indents = [line[: len(line) - len(line.lstrip(" \t"))] for line in lines if line.strip()]
    indent = min(indents, key=len, default="")
    if not indent or not all(each.startswith(indent) for each in indents):
        return text
    bare = "\n".join(line.removeprefix(indent) for line in lines)
    return bare if indent == _LISTING or signs(bare) >= signs(text) else text


_LISTING = "    "


def _fenced(text: str) -> str:
    """Return only what is between fences of Markdown, where nothing else is a tool's output."""
    lines = text.split("\n")
    fences = [at for at, line in enumerate(lines) if _FENCE.fullmatch(line)]
    if not fences or len(fences) % 2:
        return text
    inside = set[int]()
    for begin, end in zip(fences[::2], fences[1::2], strict=True):
        inside.update(range(begin + 1, end))
    outside = ["" if at in inside or at in fences else line for at, line in enumerate(lines)]
    if any(sign.search("\n".join(outside)) for sign in SIGNS.values()):
        return text
    return "\n".join(line if at in inside else "" for at, line in enumerate(lines))


_FENCE = lazy_pattern(r"[ \t]{0,3}(?:`{3,}|~{3,})[ \t]*[\w-]{0,20}[ \t]*")


def _join_rests(lines: list[str]) -> None:
    """Join the rests of quoted lines that were too long: they are below it, without a mark."""
    quoted = rests = 0
    for at, line in enumerate(lines):
        if line.startswith(">"):
            quoted, rests = at, 0
        elif line.strip() and rests < MAX_RESTS and lines[quoted].strip("> "):
            lines[quoted], lines[at] = f"{lines[quoted]} {line.strip()}", ""
            rests += 1
        elif not line.strip():  # below it somebody writes on
            rests = MAX_RESTS


MAX_QUOTATIONS = 8
"""Of a mail in a mail."""
_QUOTED = lazy_pattern(r"^> ?", re.MULTILINE)
_ATTRIBUTION = lazy_pattern(r"[^\n]{1,200}(?:\n[^\n]{1,200}){0,2}:")
"""'On Monday, NAME wrote:' in any language, up to three lines."""


def without_commands(text: str) -> str:
    """Return a text whose lines with a command, a prompt or a decoration are empty."""
    return _COMMAND.sub("", _AROUND.sub("", text))


_NO_PROGRAMS = frozenset({Tool.KERNEL, Tool.MDADM, Tool.SERVICES})
_PROGRAMS: Mapping[str, Tool] = {
    **{tool.value: tool for tool in Tool if tool not in _NO_PROGRAMS},
    **dict.fromkeys(("storcli64", "storcli2", "perccli", "perccli64", "perccli2"), Tool.STORCLI),
    **dict.fromkeys(("megacli64", "megacli"), Tool.MEGACLI),
    **dict.fromkeys(("hpssacli", "hpacucli"), Tool.SSACLI),
    **dict.fromkeys(("cli32", "areca-cli", "areca"), Tool.CLI64),
    **dict.fromkeys(("sas3ircu",), Tool.SAS2IRCU),
    **dict.fromkeys(("dmesg", "journalctl"), Tool.KERNEL),
    **dict.fromkeys(("vgs", "pvs"), Tool.LVS),
    "mdadm": Tool.MDADM,
    "tune2fs": Tool.DUMPE2FS,
}
"""Programs and files of '/proc', in lower case."""
_NAMES = "|".join(map(re.escape, _PROGRAMS))
_COMMAND = lazy_pattern(
    r"^(?!BTRFS )(?:[^\n#$%>\u276f➜]{0,60}[#$%>\u276f➜][ \t]{1,4}(?:[\w~./-]{1,40}[ \t]{1,4}){0,2}?"
    r"(?:sudo (?:-\w+ )?)?"
    rf"(?:cat )?(?:/[\w./-]{{0,80}}/)?(?:{_NAMES})(?![\w-])[^\n]*"
    rf"|(?:sudo (?:-\w+ )?)?(?:cat /proc/\w+|(?:/[\w./-]{{0,80}}/)?(?:{_NAMES})"
    r"(?: (?:-|/c\d|\||\d{1,5}(?: \d{1,9})?$"
    r"|(?:status|smart-log|info|show|display|getconfig|ctrl|rsf|vsf|disk|sys|hw|event)\b)[^\n]*)?))$",
    re.MULTILINE | re.IGNORECASE,
)
"""A command with any prompt before it, or none; without one only as it is typed: 'nvme nvme0: ...'
and 'BTRFS info ...' are lines of the kernel, 'smartctl 7.3 ...' one of smartctl.
"""


_NAMED = lazy_pattern(
    rf"(?:^|[\s/|;&])(?P<program>{_NAMES})(?![\w-])", re.MULTILINE | re.IGNORECASE | re.ASCII
)


def typed_tool(command: str) -> Tool | None:
    """Return the program that a command runs, or whose file of '/proc' it shows; None: another."""
    match = _NAMED.search(command)
    return None if match is None else _PROGRAMS[match["program"].casefold()]


# --- lines that a mail program broke

MAX_WIDTH = 80
"""A text with a longer line was not broken. Source: RFC 5322, 2.1.1."""
MAX_RESTS = 8
"""Maximum of lines that one was broken into, less the first."""
_MIN_LENGTH = 40
_TIME = (
    r"(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d |\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d"
    r"|\[ {0,5}\d{1,10}\.\d{1,6}\] )"
)
_ATTRIBUTE = r"[ \t]*\d{1,3} [A-Za-z][\w/-]{2,40}[ \t]+(?:0x[0-9a-f]{4}|[A-Z-]{6,7})[ \t]"
_TEST = r"# ?\d{1,2}[ \t]"
_COUNTERS = r"(?:read|write|verify):[ \t]"
_ROW = rf"{_ATTRIBUTE}|{_TEST}|{_COUNTERS}"
_LABELS = (
    "pool|state|status|action|see|scan|scrub|remove|expand|checkpoint|dedup|comment|config|errors"
)
"""Of zpool status."""
_BEGIN = lazy_pattern(
    rf"{_TIME}|Device: /dev/|[ \t]+(?:physicaldrive|logicaldrive) "
    r"|[ \t]*(?:\d{0,5}:\d{1,4} +\d{1,5} +\w{2,8} |\d{1,3}/\d{1,4} +RAID\d|EID:Slo?t |DG/VD )"
    r"|Unit +UnitType +Status |[ \t]+\S{1,99} +(?:FAULTED|UNAVAIL|REMOVED|DEGRADED|ONLINE) "
    r"|smartctl (?:version )?\d|ID#[ \t]+ATTRIBUTE_NAME[ \t]|Num[ \t]+Test_Description[ \t]"
    rf"|{_ROW}|(?:ATA|Device) Error Count:|Error \d{{1,10}}(?: \[\d{{1,5}}\])? occurred at "
    r"|[ \t]+(?:[0-9a-f]{2}|--) (?:[0-9a-f]{2}|--) |0x[0-9a-f]{2}[ \t]+0x[0-9a-f]{3}[ \t]"
    r"|\d{1,3} of \d{1,3} failed self-tests"
    r"|Personalities :|md\S{1,30} : |\t\S| {6,}(?:\d{1,20} blocks |\[[=>.]{5}|bitmap: )"
    rf"|[ \t]*(?:{_LABELS}): ",
    re.ASCII,
)
_TIMED = lazy_pattern(_TIME, re.ASCII)
_ROWS = lazy_pattern(_ROW, re.ASCII)
"""Rows whose last column shows whether they are whole, however wide the text is."""
_NEXT = lazy_pattern(
    r"[^\n]{0,80}[#$%>\u276f➜](?: |$)|`{3,}|~{3,}|-{3,}|={3,}|Personalities|unused devices"
    rf"|md\S{{1,30}} : |Copyright |SMART |(?:{_LABELS}):"
)
"""A line that begins something else: a prompt, a rule, an array."""


_PARTIAL = lazy_pattern(
    r"ID#(?!.*RAW_VALUE)|Num[ \t]+Test_Description(?!.*(?:LBA_of_first_error|\[SK ASC ASQ\]))"
    rf"|{_ATTRIBUTE}"
    r"(?:(?!.*[ \t](?:-|FAILING_NOW|In_the_past|NOW|Past)[ \t]+[^\s(])|.*\([^)]*$)"
    rf"|{_TEST}(?!.*%[ \t]+\d{{1,10}}[ \t]+[-\d]|.*\][ \t]*$)"
    rf"|{_COUNTERS}(?![ \t]*[\d.]{{1,20}}(?:[ \t]+[\d.]{{1,20}}){{6}}[ \t]*$)"
    r"|[ \t]+\S{1,99} +(?:FAULTED|UNAVAIL|REMOVED|DEGRADED|ONLINE)"
    r"(?: +\d[\d.KMGT]{0,8}){0,2}[ \t]*$"
    r"|[ \t]*(?:\d{0,5}:\d{1,4} +\d{1,5} +\w{2,8} |EID:Slo?t )"
    r"(?!.* [UD] +\S+[ \t]*$|.*Type[ \t]*$)",
    re.ASCII,
)
"""A row or head of a table without its last columns: of attributes, self-tests, devices, disks."""


def rejoined(text: str) -> str:
    """Return a text with its broken lines joined; each other line as it is."""
    lines = text.split("\n")
    # A rule has no blank to be broken at: it may be wider than the rows.
    width = max((len(line) for line in lines if line.strip("-")), default=0)
    if width <= MAX_WIDTH and _is_cut(lines, width):
        return "\n".join(_uncut(lines, width))
    at = 0
    while at + 1 < len(lines):
        begin = at
        at += 1
        if not _BEGIN.match(lines[begin]):
            continue
        last = lines[begin]
        end = min(at + MAX_RESTS, len(lines))
        is_row = _ROWS.match(lines[begin]) is not None
        while at < end and (_is_rest(lines[at]) or (is_row and _LAST_COLUMNS.match(lines[at]))):
            is_long = not is_row and _is_too_long(last, lines[at], width)
            if not is_long and not _PARTIAL.match(lines[begin]):
                break
            last = lines[at]
            lines[begin] += "" if _HALF.search(f"{lines[begin]}\n{last}") else " "
            lines[begin] += last
            lines[at] = ""
            at += 1
    return "\n".join(lines)


_LAST_COLUMNS = lazy_pattern(
    r"[ \t]+(?:(?:Always|Offline)[ \t]+)?(?:-|FAILING_NOW|In_the_past)[ \t]+\d"
)
"""Of a row of attributes that a terminal cut between two columns."""
_HALF = lazy_pattern(
    r"(?:\b(?:P|Pr|Pre|Pre-|Pre-f|Pre-fa|Pre-fai|O|Ol|Old|Old_|Old_a|Old_ag|A|Al|Alw|Alwa|Alway|Of|Off"
    r"|Offl|Offli|Offlin))\n[a-z_-]"
)
"""A word of the table of attributes that a terminal cut at its width."""


def _is_cut(lines: Sequence[str], width: int) -> bool:
    """Whether a terminal cut each line of a log at its width, within words: none is shorter."""
    cut = [
        len(line)
        for line, below in itertools.pairwise(lines)
        if line.strip() and below.strip() and not _BEGIN.match(below) and not _NEXT.match(below)
    ]
    return len(cut) >= _MIN_CUT and set(cut) == {width} and _TIMED.match(lines[0]) is not None


def _uncut(lines: Sequence[str], width: int) -> list[str]:
    """Return the lines with the rest of each that was cut, which leaves an empty line."""
    whole = [*lines]
    begin = 0
    for at in range(1, len(lines)):
        if len(lines[at - 1]) == width and not _BEGIN.match(lines[at]):
            whole[begin] += lines[at]
            whole[at] = ""
        else:
            begin = at
    return whole


_MIN_CUT = 2
"""Lines that end at the width: a single one may be so long."""


def _is_too_long(line: str, below: str, width: int) -> bool:
    """Whether a line and the first word of the next are too long for a broken text's width."""
    whole = len(line) + 1 + len(below.split(maxsplit=1)[0])
    return len(line) >= _MIN_LENGTH and width < whole and width <= MAX_WIDTH


def _is_rest(below: str) -> bool:
    """Whether a line may be the rest of the one above it: it begins nothing else."""
    if not below or below[0].isspace() or _BEGIN.match(below) or _NEXT.match(below):
        return False
    return not any(sign.match(below) for tool, sign in SIGNS.items() if tool is not Tool.DUMPE2FS)
