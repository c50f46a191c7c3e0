"""'/proc/meminfo', '/proc/vmstat' and vmstat(8): unwritten data against the kernel's limits.

Source: kernel, mm/page-writeback.c, global_dirtyable_memory, domain_dirty_limits; admin-guide
sysctl/vm.rst; vmstat(8). The limits are ratios of free memory plus the page cache of files; writers
are slowed from the middle between both limits on, and blocked at the higher one.
Limits: of 'sysctl vm.dirty_ratio' and 'uname -r' what stands above the rows is used. Else defaults
of dirty_background_ratio and dirty_ratio are assumed: 10 and 20 (from 2.6.30 on; before 10 and 40).
Kernels before 2.6.22 take the ratios of all memory, and at most half of what is not mapped.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError
from iowarden.collectors.parsed_text import Finding, Parsed, TextObject, Tool, UnparsedLine
from iowarden.collectors.procfs.meminfo import Meminfo, parse_meminfo
from iowarden.collectors.quantity import percentage, size
from iowarden.collectors.raid.controller import ComponentHealth

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_BACKGROUND_RATIO = 0.10
_RATIO = 0.20
_OLD_RATIO = 0.40
_FLOOR = 0.05
_DIRTYABLE_KERNEL = (2, 6, 22)
"""The first kernel whose ratios refer to dirtyable memory."""
_SETTING = lazy_pattern(
    r"^(?:vm\.|\S{0,40}/proc/sys/vm/)?(dirty_(?:background_)?(?:ratio|bytes))[ \t]*[:=]?[ \t]*"
    r"(\d{1,18})[ \t]*$",
    re.MULTILINE | re.ASCII,
)
_SETTING_FILE = lazy_pattern(r"vm[/.](dirty_(?:background_)?(?:ratio|bytes))\b", re.ASCII)
_NUMBER = lazy_pattern(r"^(\d{1,18})[ \t]*$", re.MULTILINE | re.ASCII)
_RELEASE = lazy_pattern(
    r"^(?:Linux \S{1,64} )?(?P<release>[2-9]\.\d{1,3}(?:\.\d{1,3})?)(?![.\d])",
    re.MULTILINE | re.ASCII,
)
_NEAR = 0.95
_PAGE_BYTES = 4096
_PAIR = lazy_pattern(r"^(nr_\w{1,40}) (\d{1,20})$", re.MULTILINE | re.ASCII)
_ROW = lazy_pattern(r"HugePages_\w{1,9}: \d{1,20}|[\w()]{2,40}: \d{1,20} kB", re.ASCII)
_HEADER = lazy_pattern(r"r b (?:w )?swpd free .*\bbi bo\b.*")
_TITLE = lazy_pattern(r"procs .*memory.*|-{2,}.*")
_NUMBERS = lazy_pattern(
    r"\d{1,20}(?: \d{1,20}){10,24}(?: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d)?", re.ASCII
)
_STALLED_SECONDS = 3
"""Samples in a row in which tasks wait for I/O and no block moves: a single one may be a pause."""
_ADVICE = (
    "Compare with the real limits: 'sysctl vm.dirty_bytes vm.dirty_ratio', and 'grep nr_dirty"
    " /proc/vmstat'. Limits as bytes, such as a few seconds of what the disks write, keep the queue"
    " short."
)


class _Settings(NamedTuple):
    """What a text shows of the limits: their sysctls by name, and the kernel; () without one."""

    values: Mapping[str, int]
    kernel: tuple[int, ...]

    def ratio(self, name: str, default: float) -> float:
        """Return a ratio of 1; 0 and nothing are its default."""
        return self.values.get(name, 0) / 100 or default


def _settings(text: str, commands: Iterable[str]) -> _Settings:
    """Return the settings in the lines above the rows: with their names, or as 'cat' shows them."""
    values = {name: int(value) for name, value in _SETTING.findall(text)}
    files = _SETTING_FILE.findall("\n".join((text, *commands)))
    numbers = [int(number) for number in _NUMBER.findall(text)]
    if not values and len(files) == len(numbers):
        values |= dict(zip(files, numbers, strict=True))
    release = _RELEASE.search(text)
    kernel = () if release is None else tuple(map(int, release["release"].split(".")))
    return _Settings(values, kernel)


def parse_memory(text: str, commands: Mapping[int, str] | None = None) -> Parsed:
    """Parse '/proc/meminfo', with the commands of the text by line."""
    # Web forms and mails strip or add blanks; the file has one number in each line.
    lines = "".join(f"{' '.join(line.split())}\n" for line in text.rstrip().split("\n"))
    *_, last = lines.splitlines()
    unread: tuple[UnparsedLine, ...] = ()
    if not _ROW.fullmatch(last):
        lines = lines.removesuffix(f"{last}\n")
        unread = (UnparsedLine("'/proc/meminfo': its last row is cut", last),)
    try:
        info = parse_meminfo(lines)
    except ParseError as error:
        return Parsed(Tool.MEMINFO, unparsed=(*unread, UnparsedLine(str(error))))
    settings = _settings(text, (commands or {}).values())
    is_old = () < settings.kernel < _DIRTYABLE_KERNEL
    base = info.total_bytes if is_old else _dirtyable_bytes(info)
    background = settings.ratio("dirty_background_ratio", _BACKGROUND_RATIO)
    ratio = settings.ratio("dirty_ratio", _OLD_RATIO if is_old else _RATIO)
    is_default = not settings.values.keys() & {"dirty_background_ratio", "dirty_ratio"}
    memory = "free memory and cache"
    if is_old:
        mapped = (info.mapped_bytes or 0) + (info.anon_bytes or 0)
        unmapped = 100 - 100 * mapped // info.total_bytes
        ratio = max(_FLOOR, min(ratio, unmapped // 2 / 100))
        memory = f"memory, as Linux {'.'.join(map(str, settings.kernel))} counts it"
    shown = f"{percentage(background)} and {percentage(ratio)} of {size(base)} {memory}"
    limits = (
        settings.values.get("dirty_background_bytes") or base * background,
        settings.values.get("dirty_bytes") or base * ratio,
    )
    if settings.values.get("dirty_bytes"):
        told_limits = "by vm.dirty_bytes in the text"
    else:
        told_limits = f"with the {'default ' * is_default}ratios of {shown}"
    unwritten = info.dirty_bytes + info.writeback_bytes + (info.unstable_bytes or 0)
    told = _compared(
        Tool.MEMINFO,
        "/proc/meminfo",
        unwritten,
        limits,
        told_limits,
    )
    return replace(told, unparsed=unread)


def _dirtyable_bytes(info: Meminfo) -> float:
    """Return the memory that the ratios refer to; old kernels do not count pages of files alone."""
    if info.active_file_bytes is not None and info.inactive_file_bytes is not None:
        return info.free_bytes + info.active_file_bytes + info.inactive_file_bytes
    return info.free_bytes + info.buffers_bytes + info.cached_bytes


def _compared(
    kind: Tool, output: str, unwritten: float, limits: tuple[float, float], base: str
) -> Parsed:
    background, limit = limits
    used = unwritten / limit if limit else 0.0
    details = {
        "unwritten": size(unwritten),
        "written in the background from": size(background),
        "writers blocked at": size(limit),
    }
    findings: tuple[Finding, ...] = ()
    health = ComponentHealth.OK
    if limit and used >= _NEAR:
        health = ComponentHealth.ATTENTION
        told = (
            f"{size(unwritten)} are not written to disk yet, {percentage(used)} of the limit at"
            f" which the kernel blocks all writers ({size(limit)}, {base})"
        )
        # Below the limit one writer alone may be slowed down, and the text is of one moment.
        severity = "warning" if used >= 1 else "notice"
        findings = (Finding(severity, "DirtyLimitReached", "page cache", told, _ADVICE),)
    return Parsed(
        kind,
        objects=(TextObject("memory", "page cache", "", health, "", details),),
        findings=findings,
        outputs=(output,),
    )


def parse_vmstat(text: str) -> Parsed:
    """Parse the program vmstat, or '/proc/vmstat'."""
    counts = {name: int(number) for name, number in _PAIR.findall(text)}
    if counts:
        return _parse_proc_vmstat(counts)
    rows: list[dict[str, int]] = []
    columns: list[str] = []
    unread: list[UnparsedLine] = []
    for number, line in enumerate(text.split("\n"), 1):
        words = " ".join(line.split())
        if not words or _TITLE.fullmatch(words):
            continue
        if _HEADER.fullmatch(words):
            columns = words.split()
        elif columns and _NUMBERS.fullmatch(words):
            rows.append(dict(zip(columns, map(_integer, words.split()), strict=False)))
        else:
            unread.append(UnparsedLine("vmstat: no row that is known", line, number))
    if not rows:
        unread.append(UnparsedLine("vmstat: expected rows of numbers, got none"))
        return Parsed(Tool.VMSTAT, unparsed=tuple(unread))
    findings = (*_stalls(rows), *_swapping(rows))
    if not findings and _swaps_at_times(rows):
        unread.append(UnparsedLine(_SWAP_UNKNOWN))
    health = ComponentHealth.ATTENTION if findings else ComponentHealth.OK
    details = {
        "rows": len(rows),
        "most tasks that wait for I/O (b)": max(row.get("b", 0) for row in rows),
        "most blocks read and written (bi+bo)": max(_blocks(row) for row in rows),
    }
    return Parsed(
        Tool.VMSTAT,
        objects=(TextObject("host", "vmstat", "", health, "", details),),
        findings=findings,
        outputs=("vmstat",),
        unparsed=tuple(unread),
    )


def _integer(word: str) -> int:
    return int(word) if word.isdecimal() else 0


def _stalls(rows: Sequence[dict[str, int]]) -> tuple[Finding, ...]:
    """Return the longest stall: tasks wait for I/O, the CPU waits, and (nearly) no block moves."""
    longest = run = waiting = 0
    few = max(_blocks(row) for row in rows) * _NEARLY_NONE
    for row in rows:
        tasks, blocks = row.get("b", 0), _blocks(row)
        stalled = tasks > 0 if not blocks else tasks > 1 and blocks <= few
        run = run + 1 if stalled and row.get("wa", 1) > 0 else 0
        longest = max(longest, run)
        waiting = max(waiting, row.get("b", 0) if run else 0)
    if longest < _STALLED_SECONDS:
        return ()
    text = (
        f"up to {waiting} tasks wait for I/O (b) in {longest} rows in a row while next to no block"
        " is read or written (bi, bo): a device answers nothing, or its controller writes out its"
        " cache"
    )
    advice = (
        "Find the device while it happens: 'iostat -x 1' (requests in flight, none completed), and"
        " the kernel's log. See who waits: 'iowarden top'."
    )
    return (Finding("warning", "IoStalled", "vmstat", text, advice),)


def _blocks(row: Mapping[str, int]) -> int:
    return row.get("bi", 0) + row.get("bo", 0)


def _swapping(rows: Sequence[dict[str, int]]) -> tuple[Finding, ...]:
    """Return that memory is short: each row writes to swap and reads back, and tasks wait.

    The first row is an average since boot. Swap that is compressed in memory makes no task wait.
    """
    measured = rows[1:]
    busy = [row for row in measured if row.get("so", 0) and row.get("si", 0) and row.get("b", 0)]
    if len(measured) < _STALLED_SECONDS or len(busy) < len(measured):
        return ()
    out, back = (max(row[name] for row in busy) for name in ("so", "si"))
    text = (
        f"in each of {len(busy)} rows memory is written to swap (so, up to {out}) and read back"
        f" (si, up to {back}), while up to {max(row['b'] for row in busy)} tasks wait for I/O (b):"
        " the programs need more memory than the host has"
    )
    return (Finding("warning", "Swapping", "vmstat", text, _SWAP_ADVICE),)


def _swaps_at_times(rows: Sequence[dict[str, int]]) -> bool:
    """Whether some rows write to swap, or most read from it; of a single row a high average."""
    if len(rows) == 1:
        return rows[0].get("so", 0) >= _HIGH_AVERAGE
    measured = rows[1:]
    back = sum(row.get("si", 0) > 0 for row in measured)
    return any(row.get("so", 0) for row in measured) or 2 * back > len(measured)


_NEARLY_NONE = 0.01
"""Ratio to the most blocks of a row at which next to nothing moves."""
_HIGH_AVERAGE = 100
_SWAP_ADVICE = (
    "See which programs use most memory: ps -eo pid,rss,comm --sort=-rss | head; whether it lasts:"
    " vmstat 10 60; which swap is on a disk: swapon --show"
)
_SWAP_UNKNOWN = (
    "vmstat: memory is written to swap or read back (so, si) in some rows, which is a fault only if"
    " it lasts for ten minutes: vmstat 10 60; which swap is on a disk: swapon --show"
)


def _parse_proc_vmstat(counts: dict[str, int]) -> Parsed:
    needed = ("nr_dirty", "nr_writeback", "nr_dirty_threshold", "nr_dirty_background_threshold")
    missing = [name for name in needed if name not in counts]
    if missing:
        told = f"'/proc/vmstat': expected {', '.join(missing)}, got none: it is truncated, or old"
        return Parsed(Tool.VMSTAT, unparsed=(UnparsedLine(told),))
    unwritten = counts["nr_dirty"] + counts["nr_writeback"] + counts.get("nr_unstable", 0)
    limits = counts["nr_dirty_background_threshold"], counts["nr_dirty_threshold"]
    return _compared(
        Tool.VMSTAT,
        "/proc/vmstat",
        unwritten * _PAGE_BYTES,
        (limits[0] * _PAGE_BYTES, limits[1] * _PAGE_BYTES),
        "the kernel's own limit",
    )
