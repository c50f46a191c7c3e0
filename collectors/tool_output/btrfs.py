"""btrfs-progs in a text: 'btrfs device stats', 'scrub status', 'check', 'filesystem usage' etc.

Source: btrfs-progs, cmds/device.c (cmd_device_stats), cmds/scrub.c (print_scrub_summary,
print_scrub_full), cmds/filesystem.c (print_one_uuid, print_devices), cmds/filesystem-usage.c
(print_filesystem_usage_overall), cmds/balance.c (cmd_balance_status), check/main.c (cmd_check). The
counts of 'device stats' are those since they were last set to 0: the text has no time of them.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.parsed_text import Finding, Parsed, TextObject, Tool, UnparsedLine
from iowarden.collectors.quantity import percentage
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.redundancy import redundancy_text
from iowarden.collectors.tool_output.space import size_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

_KINDS: Mapping[str, str] = {
    "write_io": "failed writes",
    "read_io": "failed reads",
    "flush_io": "failed flushes",
    "corruption": "blocks with a wrong checksum",
    "generation": "blocks of an old generation: lost writes",
}
_STAT = lazy_pattern(
    r"\[(?P<device>[^\]\n]{1,200})\]\.(?P<kind>\w{1,40})_errs[ \t]+(?P<count>\d{1,20})[ \t]*",
    re.ASCII,
)
_STATS_ADVICE = (
    "The counts have no time: compare them with the kernel's log, and test the disk (smartctl -x)"
    " and its cable. 'btrfs scrub start -B MOUNTPOINT' shows whether copies are intact; only then"
    " 'btrfs device stats --reset MOUNTPOINT'."
)
_SCRUB_HEADING = lazy_pattern(
    r"(?:UUID:[ \t]+|scrub (?:status|done|canceled) for )(?P<uuid>[0-9a-f-]{36})"
)
"""'done' and 'canceled': what 'scrub start -B' prints at its end."""
_SCRUB_STATE = lazy_pattern(
    r"Status:[ \t]+(?P<state>\w+)|[ \t]*scrub (?:started|resumed) at .{1,60} and (?:was )?"
    r"(?P<old>finished|aborted|interrupted|running)\b.*|[ \t]*(?P<never>no stats available)"
)
_SCRUB_ERRORS = lazy_pattern(
    r"[ \t]*(?P<kind>[Cc]orrected|[Uu]ncorrectable|[Uu]nverified)(?: errors)?:[ \t]+"
    r"(?P<count>\d{1,20})(?:,|[ \t]*$)",
    re.MULTILINE,
)
_SCRUB_SUMMARY = lazy_pattern(
    r"Error summary:[ \t]+(?P<now>\S.*)"
    r"|[ \t]*total bytes scrubbed: .* with (?P<old>\d{1,20}) errors"
)
_SCRUB_OTHERS = lazy_pattern(
    r"[ \t]*(?:Starting scrub on devid|Scrub (?:started|resumed|device)|Duration"
    r"|Time left|ETA|Total to scrub|Rate"
    r"|Bytes scrubbed|error details|scrub (?:started|resumed|device)|data_extents_scrubbed"
    r"|tree_extents_scrubbed|\w+_(?:scrubbed|errors|discards)|last_physical)\b.*"
)
_SCRUB_VERDICT = lazy_pattern(
    r"[ \t]*(?:WARNING: (?P<corrected>errors detected during scrubbing).*"
    r"|ERROR: there are \d+ (?:uncorrectable errors|device\(s\) with uncorrectable errors).*)"
)
"""The last line with '-B', which a count of devices, not of blocks, is in."""
_REPAIR_ADVICE = (
    "The kernel's log names the files ('checksum error at logical ..., path: ...'). Restore those"
    " that could not be repaired from a backup; then test the disk (smartctl -x) and its cable."
)
_SHOW_HEADING = lazy_pattern(
    r"Label: (?P<label>none|'[^'\n]{0,255}')[ \t]+uuid: (?P<uuid>[0-9a-f-]{36})"
)
_SHOW_DEVICE = lazy_pattern(
    r"[ \t]*devid[ \t]+(?P<devid>\d{1,20}) size (?P<size>\S+) used \S+ path[ \t]+(?P<path>\S.*)"
)
_LOST = lazy_pattern(r"warning, device \d{1,20} is missing[ \t]*")
"""Above the heading of its file system. Source: btrfs-progs, kernel-shared/volumes.c."""
_SHOW_TOTAL = lazy_pattern(r"[ \t]*Total devices (?P<total>\d{1,6}) .*")
_SHOW_OTHERS = lazy_pattern(r"[Bb]trfs(?:-progs)? v\d.*|warning, .*")
_MISSING = "Some devices missing"
_MISSING_ADVICE = (
    "Find it: lsblk, the kernel's log, cable and power. If it is lost for good, replace it while"
    " the others are intact: btrfs replace start DEVID NEW-DEVICE MOUNTPOINT. Back up first what"
    " matters."
)
_LOST_DEVICES = {"RAID1C4": 3, "RAID1C3": 2, "RAID6": 2, "RAID1": 1, "RAID10": 1, "RAID5": 1}
"""By profile how many devices may be lost. Others have one device for each block, as DUP has.
Source: kernel, fs/btrfs/volumes.c, btrfs_raid_array, tolerated_failures."""
_PROFILE_NAME = lazy_pattern(r"\b(?:RAID\d\w{0,2}|DUP|single)\b", re.IGNORECASE)
_USAGE_ROW = lazy_pattern(r"[ \t]+(?P<name>[A-Z][\w (),]{2,40}):[ \t]+(?P<value>\S+)(?:[ \t]+.*)?")
_PROFILE = lazy_pattern(
    r"(?P<kind>Data|Metadata|System)[,+\w]{0,40}: Size:(?P<size>\S+), Used:(?P<used>\S+)(?: .*)?"
)
_USAGE_DEVICE = lazy_pattern(
    r"[ \t]+(?:/|\S*missing\S*).*|Unallocated:[ \t]*|Overall:[ \t]*"
    r"|[ \t]+(?:Data|Metadata|System)[ \t][ \tA-Za-z]*|Id[ \t]+Path[ \t].*|-{2}[ \t-]+"
    r"|[ \t]*\d{1,20}[ \t]+(?:/|<?missing).*|[ \t]+(?:Total|Used)[ \t].*"
)
"""Rows of a device; from the second line on of '-T', _cmd_filesystem_usage_tabular."""
_MISSING_ROW = lazy_pattern(r"[ \t]*(?:\d{1,20}[ \t]+)?<?missing\b")
_NO_ROOM_BYTES = 1 << 30
"""Unallocated bytes below which btrfs may not get another block group; one has up to 1 GiB."""
_METADATA_FULL_RATIO = 0.9
_NO_ROOM_ADVICE = (
    "Writes fail with 'No space left on device' although df shows some. Give room back: btrfs"
    " balance start -dusage=10 MOUNTPOINT, then with 25 and 50; delete old snapshots."
)


@dataclass(slots=True)
class _Report:
    """The result of parsing a text so far."""

    objects: list[TextObject] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    unparsed: list[UnparsedLine] = field(default_factory=list)
    outputs: dict[str, None] = field(default_factory=dict)

    def add(self, output: str, thing: TextObject, *faults: tuple[str, str, str, str]) -> None:
        """Take an object and what is wrong with it: severity, alert, text, advice."""
        self.outputs[output] = None
        self.objects.append(thing)
        self.findings += (
            Finding(severity, alert, thing.name, f"{thing.name}: {text}", advice)
            for severity, alert, text, advice in faults
        )


_Lines = list[tuple[int, str]]


def parse_btrfs(text: str) -> Parsed:
    """Parse the outputs of btrfs-progs in a text; a line that is of none of them is reported."""
    report = _Report()
    for command, lines in _outputs(text).items():
        _PARTS[command](report, lines)
    if not report.objects and not report.unparsed:
        expected = f"one of {', '.join(map(repr, _PARTS))}"
        report.unparsed.append(UnparsedLine(f"btrfs: expected {expected}, got none of them"))
    return Parsed(
        Tool.BTRFS,
        objects=tuple(report.objects),
        findings=tuple(report.findings),
        outputs=tuple(report.outputs),
        unparsed=tuple(report.unparsed),
    )


def _outputs(text: str) -> dict[str, _Lines]:
    """Return the numbered lines of each command: its first line is known by its form."""
    outputs: dict[str, _Lines] = {}
    current = above = ""
    for number, line in enumerate(text.split("\n"), 1):
        begins = {
            "device stats": _STAT.fullmatch(line) or _TABULAR.fullmatch(line.strip()),
            "scrub status": _SCRUB_HEADING.fullmatch(line.strip()),
            "filesystem show": _SHOW_HEADING.fullmatch(line.strip()) or _LOST.fullmatch(line),
            "filesystem usage": line.strip() == "Overall:" or None,
            "filesystem df": _ALLOCATED.fullmatch(line.strip()),
            "check": _CHECK_HEADING.fullmatch(line.strip()),
            "balance status": _BALANCE.fullmatch(line.strip()),
        }
        # The file system's UUID stands below the heading of its check as well.
        if not (begins["scrub status"] and _CHECK_HEADING.fullmatch(above.strip())):
            current = next((name for name, sign in begins.items() if sign), current)
        above = line
        if _HARMLESS.fullmatch(line.strip()):
            continue
        if line.strip():
            outputs.setdefault(current, []).append((number, line))
    first = outputs.pop("", [])  # of the first command, whose form is known below
    for command in [*outputs][:1] or ["device stats"] * bool(first):
        outputs[command] = [*first, *outputs.get(command, [])]
    return outputs


_HARMLESS = lazy_pattern(r"No balance found on '.*'|WARNING: Multiple block group profiles.*")


# --- btrfs device stats


_TABULAR = lazy_pattern(
    r"Id[ \t]+Path[ \t]+Write errors[ \t]+Read errors[ \t]+Flush errors[ \t]+"
    r"Corruption errors[ \t]+Generation errors"
)
_TABULAR_ROW = lazy_pattern(
    # A device ends before a blank: else each of many blanks would be tried as its end.
    r"[ \t]*\d{1,20}[ \t]+(?P<device>\S(?:.*?\S)??)(?P<counts>(?:[ \t]+\d{1,20}){5})[ \t]*",
    re.ASCII,
)


def _stats(report: _Report, lines: _Lines) -> None:
    counts: dict[str, dict[str, float]] = {}
    for number, line in lines:
        if _TABULAR.fullmatch(line.strip()) or not line.strip("- \t"):
            continue
        if (tabular := _TABULAR_ROW.fullmatch(line)) is not None:
            numbers = map(float, tabular["counts"].split())
            counts[tabular["device"]] = dict(zip(_KINDS, numbers, strict=True))
            continue
        match = _STAT.fullmatch(line)
        if match is None or match["kind"] not in _KINDS:
            reason = "btrfs device stats: expected '[DEVICE].write_io_errs 0' or alike"
            report.unparsed.append(UnparsedLine(reason, line, number))
            continue
        counts.setdefault(match["device"], {})[match["kind"]] = float(match["count"])
    for device, own in counts.items():
        wrong = [f"{count:.0f} {_KINDS[kind]}" for kind, count in own.items() if count]
        health = ComponentHealth.ATTENTION if wrong else ComponentHealth.OK
        text = f"{', '.join(wrong)} since its counts were last reset"
        fault = ("warning", "BtrfsErrors", text, _STATS_ADVICE)
        thing = TextObject("device", device, "", health, counts=own)
        report.add("btrfs device stats", thing, *([fault] if wrong else []))
        if missing := _KINDS.keys() - own.keys():
            reason = f"btrfs device stats: {device}: no count of {', '.join(sorted(missing))}"
            report.unparsed.append(UnparsedLine(reason))


# --- btrfs scrub status


def _scrubs(report: _Report, lines: _Lines) -> None:
    begins = [at for at, (_, line) in enumerate(lines) if _SCRUB_HEADING.fullmatch(line.strip())]
    for begin, end in zip(begins, [*begins[1:], len(lines)], strict=True):
        _scrub(report, lines[begin:end])


def _scrub(report: _Report, lines: _Lines) -> None:
    heading = _SCRUB_HEADING.fullmatch(lines[0][1].strip())
    uuid = heading["uuid"] if heading is not None else ""
    states: list[str] = []
    summaries: list[str] = []
    verdicts: list[str] = []
    counts: dict[str, float] = {}
    for number, whole in lines[1:]:
        line = whole.strip()  # a paste may be indented as a whole
        state, summary = _SCRUB_STATE.fullmatch(line), _SCRUB_SUMMARY.fullmatch(line)
        errors = [*_SCRUB_ERRORS.finditer(line)]
        if state is not None:
            states.append(state["state"] or state["old"] or "never run")
        elif summary is not None:
            summaries.append(summary["now"] or f"{summary['old']} errors")
        elif errors:
            for each in errors:
                kind = each["kind"].casefold()
                counts[kind] = counts.get(kind, 0.0) + float(each["count"])
        elif (verdict := _SCRUB_VERDICT.fullmatch(line)) is not None:
            verdicts.append(verdict["corrected"] or "")
        elif not _SCRUB_OTHERS.fullmatch(line):
            report.unparsed.append(UnparsedLine("btrfs scrub status: unknown line", whole, number))
    if not states:
        report.unparsed.append(UnparsedLine(f"btrfs scrub status: {uuid}: expected 'Status:'"))
    if not summaries:
        summaries = [each for each in verdicts if each]
    has_errors = any(not each.startswith(("no errors", "0 errors")) for each in summaries)
    faults: list[tuple[str, str, str, str]] = []
    if (lost := counts.get("uncorrectable")) or "" in verdicts:
        blocks = f"{lost:.0f}" if lost else "some"
        text = f"the scrub could not repair {blocks} blocks: their files are"
        faults.append(("critical", "BtrfsScrubErrors", f"{text} damaged", _REPAIR_ADVICE))
    elif has_errors:
        text = f"the scrub found errors ({'; '.join(summaries)}), and repaired what it could"
        faults.append(("warning", "BtrfsScrubErrors", text, _REPAIR_ADVICE))
    if any(state in {"aborted", "interrupted"} for state in states):
        text = "its last scrub was ended before it had read everything"
        faults.append(("notice", "BtrfsScrubIncomplete", text, "btrfs scrub resume MOUNTPOINT"))
    health = ComponentHealth.ATTENTION if faults else ComponentHealth.OK
    thing = TextObject("file system", uuid, "", health, ", ".join(dict.fromkeys(states)))
    report.add("btrfs scrub status", thing, *faults)


# --- btrfs filesystem show


def _shown(report: _Report, lines: _Lines) -> None:
    name = ""
    totals: dict[str, int] = {}
    devices: dict[str, list[str]] = {}
    lost: dict[str, list[str]] = {}
    partial: set[str] = set()
    for number, line in lines:
        heading, device = _SHOW_HEADING.fullmatch(line.strip()), _SHOW_DEVICE.fullmatch(line)
        if heading is not None:
            name = heading["uuid"] if heading["label"] == "none" else heading["label"].strip("'")
            devices[name], lost[name] = [], []
        elif device is not None:
            is_lost = "MISSING" in device["path"] or "missing" in device["path"]
            (lost if is_lost else devices)[name].append(f"devid {device['devid']}")
        elif (total := _SHOW_TOTAL.fullmatch(line)) is not None:
            totals[name] = int(total["total"])
        elif _MISSING in line:
            partial.add(name)
        elif not _SHOW_OTHERS.fullmatch(line):
            report.unparsed.append(
                UnparsedLine("btrfs filesystem show: unknown line", line, number)
            )
    for name, present in devices.items():
        count = len(lost[name]) or (max(totals.get(name, 0) - len(present), 1) * (name in partial))
        health = ComponentHealth.DEGRADED if count else ComponentHealth.OK
        thing = TextObject("file system", name, "", health, details={"devices": len(present)})
        fault = _missing(lost[name], count, totals.get(name), None)
        report.add("btrfs filesystem show", thing, *([fault] if count else []))
        if not present and not count:
            report.unparsed.append(
                UnparsedLine(f"btrfs filesystem show: {name}: expected its devices, got none")
            )


def _missing(
    names: list[str], count: int, total: int | None, tolerated: int | None
) -> tuple[str, str, str, str]:
    """Return the fault of a file system without some of its devices, by what its profiles allow.

    The profile that allows the fewest decides; without it the last copy may be in use.
    """
    devices = f"{count} of {total} devices" if total else f"{count} device{'s'[: count != 1]}"
    text = f"{devices} missing{': ' * bool(names)}{', '.join(names)}"
    left = None if tolerated is None else tolerated - count
    if left is None:
        text += "; whether its profiles survive another: btrfs filesystem usage MOUNTPOINT"
    elif left < 0:
        text += "; a profile of it does not survive that: data are lost while it is missing"
    else:
        text += f"; {redundancy_text(left, 1, 'device')}"
    severity = "warning" if left and left > 0 else "critical"
    return severity, "BtrfsDeviceMissing", text, _MISSING_ADVICE


# --- btrfs filesystem usage


def _usage(report: _Report, lines: _Lines) -> None:
    sizes: dict[str, float | None] = {}
    areas: dict[str, tuple[float | None, float | None]] = {}
    for number, line in lines:
        row, area = _USAGE_ROW.fullmatch(line), _PROFILE.fullmatch(line)
        if area is not None:
            areas[area["kind"]] = (size_bytes(area["size"]), size_bytes(area["used"]))
        elif row is not None:
            sizes[row["name"]] = size_bytes(row["value"])
        elif not _USAGE_DEVICE.fullmatch(line):
            reason = "btrfs filesystem usage: unknown line"
            report.unparsed.append(UnparsedLine(reason, line, number))
    wanted = ("Device size", "Device unallocated", "Device missing")
    if unknown := [name for name in wanted if sizes.get(name) is None]:
        reason = f"btrfs filesystem usage: expected {', '.join(unknown)}"
        report.unparsed.append(UnparsedLine(reason))
    faults: list[tuple[str, str, str, str]] = []
    if sizes.get("Device missing"):
        faults.append(_missing([], _missing_rows(lines), None, _tolerated(lines)))
    size, used = areas.get("Metadata", (None, None))
    unallocated = sizes.get("Device unallocated")
    is_tight = unallocated is not None and unallocated < _NO_ROOM_BYTES
    if is_tight and size and used is not None and used > _METADATA_FULL_RATIO * size:
        text = (
            f"its metadata are {percentage(used / size)} full, and no space is unallocated for more"
        )
        faults.append(("critical", "BtrfsNoRoom", text, _NO_ROOM_ADVICE))
    health = ComponentHealth.ATTENTION if faults else ComponentHealth.OK
    thing = TextObject("file system", "btrfs", "", health)
    report.add("btrfs filesystem usage", thing, *faults)


def _missing_rows(lines: _Lines) -> int:
    """Return how many devices are missing: each has a row in each area that it has a part of."""
    most = rows = 0
    for _, line in lines:
        if not line.startswith((" ", "\t")):  # the heading of an area
            rows = 0
        rows += bool(_MISSING_ROW.match(line))
        most = max(most, rows)
    return max(most, 1)


def _tolerated(lines: _Lines) -> int | None:
    """Return how many devices the weakest profile may lose; None: no profile is in the text."""
    profiles: list[str] = []
    for _, line in lines:
        if _PROFILE.fullmatch(line):
            profiles.append(line.partition(":")[0].partition(",")[2])
        elif line.split()[:2] == ["Id", "Path"]:
            profiles += _PROFILE_NAME.findall(line)
    return min((_LOST_DEVICES.get(each.upper(), 0) for each in profiles), default=None)


# --- btrfs filesystem df

_ALLOCATED = lazy_pattern(
    r"(?:Data|Metadata|System|GlobalReserve|Data\+Metadata), \w+: total=\S+, used=\S+"
)


def _allocated(report: _Report, lines: _Lines) -> None:
    for number, line in lines:
        if not _ALLOCATED.fullmatch(line.strip()):
            reason = "btrfs filesystem df: unknown line"
            report.unparsed.append(UnparsedLine(reason, line, number))
    reason = (
        "btrfs filesystem df: shows what is allocated, not whether space is left for more; see:"
        " btrfs filesystem usage MOUNTPOINT"
    )
    report.unparsed.append(UnparsedLine(reason, lines[0][1], lines[0][0]))


# --- btrfs balance status

_BALANCE = lazy_pattern(
    r"Balance on '(?P<path>[^'\n]{1,200})' is (?P<state>running|paused)(?:, .*)?"
)
_BALANCE_DONE = lazy_pattern(r"[ \t]*\d{1,20} out of about \d{1,20} chunks balanced .*left")


def _balance(report: _Report, lines: _Lines) -> None:
    done = next((line.strip() for _, line in lines if _BALANCE_DONE.fullmatch(line)), "")
    for number, line in lines:
        if (balance := _BALANCE.fullmatch(line.strip())) is not None:
            details = {"done": done} if done else {}
            state = balance["state"]
            report.add(
                "btrfs balance status",
                TextObject("balance", balance["path"], "", ComponentHealth.BUSY, state, details),
            )
        elif not _BALANCE_DONE.fullmatch(line):
            reason = "btrfs balance status: unknown line"
            report.unparsed.append(UnparsedLine(reason, line, number))


# --- btrfs check

_CHECK_HEADING = lazy_pattern(
    r"Opening filesystem to check\.\.\.|Checking filesystem on (?P<device>\S.{0,200})"
)
_CHECK_END = lazy_pattern(
    r"found \d{1,20} bytes used,? (?:(?P<well>no error found|err is 0)|error\(s\) found|err is .*)"
)
_CHECK_ERROR = lazy_pattern(
    r"ERROR: .*|checksum verify failed .*|parent transid verify failed .*|bad tree block .*"
    r"|bytenr mismatch, .*"
)
_CHECK_ADVICE = (
    "Do not run 'btrfs check --repair' first: it can make the damage worse. Copy what can be read:"
    " mount -o ro,rescue=all DEVICE MOUNTPOINT, or btrfs restore. Test memory and disk, and send"
    " the developers this text."
)


def _checks(report: _Report, lines: _Lines) -> None:
    named = [at for at, (_, line) in enumerate(lines) if line.startswith("Checking filesystem on")]
    begins = [0, *named[1:]]
    for begin, end in zip(begins, [*begins[1:], len(lines)], strict=True):
        _checked(report, lines[begin:end])


def _checked(report: _Report, lines: _Lines) -> None:
    device, ends, errors = "btrfs", list[bool](), list[str]()
    for _, line in lines:
        words = line.strip()
        if (heading := _CHECK_HEADING.fullmatch(words)) is not None:
            device = heading["device"] or device
        elif (end := _CHECK_END.fullmatch(words)) is not None:
            ends.append(end["well"] is not None)
        elif _CHECK_ERROR.fullmatch(words):
            errors.append(words)
    if not ends:
        reason = f"btrfs check: {device}: expected 'found ... bytes used' at its end, got none"
        report.unparsed.append(UnparsedLine(reason, lines[-1][1], lines[-1][0], bool(errors)))
    first = f": {errors[0][:200]}" if errors else ""
    faults: list[tuple[str, str, str, str]] = []
    if not all(ends) or (errors and not ends):
        text = f"the check found errors in its structures{first}"
        faults.append(("critical", "BtrfsStructureErrors", text, _CHECK_ADVICE))
    elif errors:
        text = f"the check ended without an error, but {len(errors)} blocks were wrong{first}"
        faults.append(("warning", "BtrfsStructureErrors", text, _CHECK_ADVICE))
    health = ComponentHealth.FAILED if faults else ComponentHealth.OK
    if ends or errors:
        report.add("btrfs check", TextObject("file system", device, "", health), *faults)


_PARTS = {
    "filesystem df": _allocated,
    "balance status": _balance,
    "check": _checks,
    "device stats": _stats,
    "scrub status": _scrubs,
    "filesystem show": _shown,
    "filesystem usage": _usage,
}
