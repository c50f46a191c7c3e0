"""'zpool status' and 'zpool list' in a text: pools and devices, and what is wrong with them.

Source: OpenZFS, zpool-status(8), zpool-list(8), cmd/zpool/zpool_main.c.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.parsed_text import Finding, Parsed, TextObject, Tool, UnparsedLine
from iowarden.collectors.quantity import percentage
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.redundancy import NONE_LEFT
from iowarden.collectors.services import service_messages
from iowarden.collectors.services.service_message import ENDS
from iowarden.collectors.tool_output.space import AMPLE_BYTES, size_bytes
from iowarden.collectors.tool_output.zpool_events import parse_events
from iowarden.collectors.zfs.zpool_status import (
    NO_ERRORS,
    PoolStatus,
    VirtualDevice,
    parse_status,
    redundancy_groups,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEALTH = {
    "ONLINE": ComponentHealth.OK,
    "AVAIL": ComponentHealth.OK,
    "INUSE": ComponentHealth.OK,
    "DEGRADED": ComponentHealth.DEGRADED,
    "OFFLINE": ComponentHealth.ATTENTION,
    "SPLIT": ComponentHealth.ATTENTION,
    "FAULTED": ComponentHealth.FAILED,
    "REMOVED": ComponentHealth.FAILED,
    "UNAVAIL": ComponentHealth.FAILED,
    "SUSPENDED": ComponentHealth.FAILED,
}
MAX_ERRORS = 400
"""Maximum length of the list of damaged files in a summary."""
_ERRORS_UNKNOWN = "List of errors unavailable"
"""For a user who may not query them. Source: lib/libzfs/libzfs_pool.c, zpool_get_errlog."""
_CLEAR = (
    "Check the device, its cable and its power first. 'zpool clear' only resets the counts; run"
    " 'zpool scrub' after the repair, and keep a second copy until it ends without errors."
)
_SUSPENDED = (
    "Bring its devices back: power, cables, host adapter. Then 'zpool clear' lets the I/O go on. Do"
    " not force an import on another host meanwhile."
)
_FAULTED = "Find the missing devices with 'zpool import' and 'lsblk' before you replace anything."
_DEGRADED = (
    "Replace the failed device with 'zpool replace'. Until the resilver ends one more failure may"
    " lose data: back up first what matters."
)
_RESTORE = "Restore the files that 'zpool status -v' lists from a backup."
_DAMAGED = lazy_pattern(r"\bdata corruption\b|\bdata is corrupt\b")
"""What a pool with damaged files has for a status, above the list of them that a paste leaves out.
Source: cmd/zpool/zpool_main.c, print_status_reason, ZPOOL_STATUS_CORRUPT_DATA; before 0.8 as well.
"""
_ALL_HEALTHY = lazy_pattern(r"^[ \t]*all pools are healthy\s*(?:zfs-\S+\s*)*\Z", re.MULTILINE)
_EXPECTED = "zpool: expected 'pool: <name>' and 'state: <state>', got neither"


def parse_zpool(text: str) -> Parsed:
    """Parse the pools and the events in a text; a line that is no row of theirs is reported."""
    events = parse_events(text)
    if events is None:
        return _parse_pools(text)
    pools = Parsed(Tool.ZPOOL)
    if _POOL.search(events.rest) or _TABLE.search(events.rest):
        pools = _parse_pools(events.rest)
    unparsed = (*pools.unparsed, *events.unparsed)
    if not events.count and not unparsed and not pools.objects:
        unparsed = (UnparsedLine("'zpool events' lists no event: nothing was judged"),)
    return replace(
        pools,
        findings=(*pools.findings, *events.findings),
        outputs=(*pools.outputs, "zpool events"),
        unparsed=unparsed,
    )


def _parse_pools(text: str) -> Parsed:
    objects: list[TextObject] = []
    findings: list[Finding] = []
    unread: list[UnparsedLine] = []
    text, told = _without_mail(text)
    above = _missing_head(text)
    for pool in parse_status(above + text):
        unread += (
            UnparsedLine(
                "zpool: no row of a device that is known", line, number - above.count("\n")
            )
            for number, line in pool.unparsed
        )
        if pool.state not in _HEALTH:
            unread.append(
                UnparsedLine(
                    f"zpool: pool {pool.name!r}: expected a state, got {pool.state[:40]!r}"
                )
            )
            continue
        objects.append(_pool_object(pool))
        findings += _of_pool(pool)
        if pool.errors_text.startswith(_ERRORS_UNKNOWN):
            unread.append(UnparsedLine(f"zpool: pool {pool.name!r}: {pool.errors_text[:120]}"))
        for device in pool.devices:
            if device.parent:
                objects.append(_device_object(device))
                findings += _of_device(pool, device)
        if not pool.devices:
            unread.append(
                UnparsedLine(f"zpool: pool {pool.name!r}: expected its devices, got none")
            )
    findings += told
    if told and not objects:
        # The mail names what happened to a device; the state of the pool is not in it.
        mailed = (TextObject("pool", told[0].object, "", ComponentHealth.ATTENTION),)
        return Parsed(
            Tool.ZPOOL,
            objects=mailed,
            findings=tuple(told),
            outputs=("mail of ZED",),
            unparsed=tuple(unread),
        )
    listed = _parse_list(text)
    if listed is not None and not objects:
        return listed
    if not objects and not unread and _ALL_HEALTHY.search(text):  # 'zpool status -x'
        return Parsed(Tool.ZPOOL, outputs=("zpool status -x",))
    return Parsed(
        Tool.ZPOOL,
        objects=tuple(objects),
        findings=tuple(findings),
        outputs=("zpool status",) if objects else (),
        unparsed=tuple(unread) or (() if objects else (UnparsedLine(_EXPECTED),)),
    )


def _without_mail(text: str) -> tuple[str, list[Finding]]:
    """Return a text without the head of ZED's mail, and what that head reports.

    Source: OpenZFS, cmd/zed/zed.d/statechange-notify.sh, scrub_finish-notify.sh, data-notify.sh.
    """
    lines = text.split("\n")
    at = next((n for n, line in enumerate(lines) if _EVENT.fullmatch(line)), None)
    if at is None:
        return text, []
    begin = end = at
    while begin and lines[begin - 1].strip():
        begin -= 1
    while end < len(lines) and lines[end].strip():
        end += 1
    pairs = (_MAIL_FIELD.match(line) for line in lines[begin:end])
    fields: dict[str, str] = {pair[1]: pair[2] for pair in pairs if pair is not None}
    pool = fields.get("pool", "").partition(" (")[0]
    vdev = fields.get("devid") or fields.get("vpath", "")
    words = (
        f"eid={fields.get('eid', '')} class={fields.get('class', '')} pool='{pool}'"
        f" vdev={vdev.rpartition('/')[2]} vdev_state={fields.get('state', '')}"
    )
    reports = service_messages.messages("zed", words) or ()
    told = [
        Finding(each.severity, each.fault, pool or each.object, each.text, each.advice)
        for each in reports
        if each.severity != ENDS
    ]
    above = ["" if _ABOVE_EVENT.fullmatch(line) else line for line in lines[:begin]]
    return "\n".join((*above, *[""] * (end - begin), *lines[end:])), told


_ABOVE_EVENT = lazy_pattern(
    r"(?:Subject|From|To|Date): .*|ZFS has .*|The number of (?:I/O|checksum) errors .*"
    r"|acceptable levels\..*|marked (?:as )?\w+\..*"
)
_EVENT = lazy_pattern(r"[ \t]*eid: \d{1,20}[ \t]*", re.ASCII)
_MAIL_FIELD = lazy_pattern(r"[ \t]*(\w{2,12}):[ \t]+(\S.*?)[ \t]*$")


def _missing_head(text: str) -> str:
    """Return what stands above the table of devices, where a paste left that out; else ''."""
    table = _TABLE.search(text)
    if table is None or _POOL.search(text):
        return ""
    return f"  pool: {table['pool']}\n state: {table['state']}\nconfig:\n\n"


_POOL = lazy_pattern(r"^[ \t]*pool: \S", re.MULTILINE)
_TABLE = lazy_pattern(
    r"^[ \t]*NAME[ \t]+STATE[ \t]+READ[ \t]+WRITE[ \t]+CKSUM[ \t]*\n"
    r"[ \t]*(?P<pool>\S{1,255})[ \t]+(?P<state>[A-Z]{1,20})\b",
    re.MULTILINE,
)

# --- zpool list

_LIST_HEADING = lazy_pattern(r"[ \t]*NAME[ \t]+SIZE[ \t]+ALLOC[ \t]+FREE[ \t]+.*")
_PERCENT = lazy_pattern(r"(?P<percent>\d{1,3})%", re.ASCII)
FULL, FULL_BUT_AMPLE = (90, 80), (96, 90)
"""Percent used above which a pool is critical, and a warning; as in rules/zfs.yaml."""
_SPACE_ADVICE = (
    "What uses the space: zfs list -o space -r POOL. Snapshots keep what was deleted: zfs list -t"
    " snapshot -r -s used POOL"
)


def _parse_list(text: str) -> Parsed | None:
    """Parse the table of 'zpool list'; None: there is none. With '-v', devices are below a pool."""
    columns: list[str] = []
    objects: list[TextObject] = []
    findings: list[Finding] = []
    unread: list[UnparsedLine] = []
    for number, line in enumerate(text.split("\n"), 1):
        if _LIST_HEADING.fullmatch(line):
            columns = line.split()
            continue
        words = line.split()
        if not columns or not words or line[0].isspace():
            continue  # a row of a device: its state is in that of the pool
        row = dict(zip(columns, words, strict=False))
        if row.get("HEALTH") not in _HEALTH:
            if row.get("HEALTH", "-") != "-" or len(words) < len(columns) - 1:
                reason = "zpool list: expected a row with a state in HEALTH"
                unread.append(UnparsedLine(reason, line, number))
            continue  # '-': a group of devices, 'logs' or 'mirror-0'
        objects.append(
            TextObject("pool", row["NAME"], "", _HEALTH[row["HEALTH"]], row["HEALTH"], _used(row))
        )
        findings += _of_row(row)
    if not columns:
        return None
    if not objects:
        unread.append(UnparsedLine("zpool list: expected a row of a pool, got none"))
    return Parsed(
        Tool.ZPOOL,
        objects=tuple(objects),
        findings=tuple(findings),
        outputs=("zpool list",) if objects else (),
        unparsed=tuple(unread),
    )


def _used(row: Mapping[str, str]) -> dict[str, str | float]:
    return {"used": row["CAP"]} if _PERCENT.fullmatch(row.get("CAP", "")) else {}


def _of_row(row: Mapping[str, str]) -> list[Finding]:
    pool, state = row["NAME"], row["HEALTH"]
    findings = []
    if _HEALTH[state] is ComponentHealth.FAILED:
        advice = _SUSPENDED if state == "SUSPENDED" else _FAULTED
        text = f"pool {pool} is {state}: its data are not available"
        findings.append(Finding("critical", "ZfsPoolFailed", pool, text, advice))
    elif state != "ONLINE":
        text = f"pool {pool} is {state}; which device: zpool status {pool}"
        findings.append(Finding("warning", "ZfsPoolDegraded", pool, text, _DEGRADED))
    percent = _PERCENT.fullmatch(row.get("CAP", ""))
    used = int(percent["percent"]) if percent is not None else 0
    is_ample = (size_bytes(row.get("FREE", "")) or 0.0) >= AMPLE_BYTES
    critical, warning = FULL_BUT_AMPLE if is_ample else FULL
    if percent is not None and used > warning:
        severity = "critical" if used > critical else "warning"
        text = f"pool {pool} is {percent[0]} full: writes become slow, then fail"
        advice = _SPACE_ADVICE.replace("POOL", pool)
        findings.append(Finding(severity, "ZfsPoolFull", pool, text, advice))
    return findings


def _pool_object(pool: PoolStatus) -> TextObject:
    details = {"scan": "; ".join(pool.scan_texts)} if pool.scan_texts else {}
    return TextObject("pool", pool.name, "", _HEALTH[pool.state], pool.state, details)


def _device_object(device: VirtualDevice) -> TextObject:
    health = _HEALTH[device.state]
    if health is ComponentHealth.OK and any(device.errors.values()):
        health = ComponentHealth.ATTENTION
    details = {"note": device.note} if device.note else {}
    counts = {kind: float(count) for kind, count in device.errors.items()}
    return TextObject("device", device.name, device.parent, health, device.state, details, counts)


def _of_pool(pool: PoolStatus) -> list[Finding]:
    rows: list[tuple[str, str, str, str]] = []
    if pool.state == "SUSPENDED" or "IO failures" in pool.status:
        rows.append(("critical", "ZfsPoolSuspended", "is suspended: all its I/O hangs", _SUSPENDED))
    elif _HEALTH[pool.state] is ComponentHealth.FAILED:
        text = f"is {pool.state}: its data are not available"
        rows.append(("critical", "ZfsPoolFailed", text, _FAULTED))
    elif pool.state == "DEGRADED":
        rows.append(("warning", "ZfsPoolDegraded", "is degraded", _DEGRADED))
    if any(group.is_exhausted for group in redundancy_groups(pool)):
        rows.append(("critical", "ZfsPoolNoRedundancy", f"has {NONE_LEFT}", _DEGRADED))
    errors = pool.errors_text
    if errors and not errors.startswith((*NO_ERRORS, _ERRORS_UNKNOWN)):
        rows.append(("critical", "ZfsDataErrors", f"has data errors: {_files(errors)}", _RESTORE))
    elif not errors and _DAMAGED.search(pool.status):
        text = "has data errors; the list of them is not in the text: zpool status -v"
        rows.append(("critical", "ZfsDataErrors", text, _RESTORE))
    scan = pool.scan
    if scan is not None and scan.kind == "resilver" and scan.state == "running":
        done = "" if scan.done_ratio is None else f", {percentage(scan.done_ratio)} done"
        rows.append(("notice", "ZfsResilver", f"is being resilvered{done}", ""))
    if errors_left := sum(each.errors or 0 for each in pool.scans):
        text = f"had {errors_left} errors in its last scan"
        rows.append(("warning", "ZfsScrubErrors", text, _CLEAR))
    return [
        Finding(severity, name, pool.name, f"pool {pool.name} {text}", advice)
        for severity, name, text, advice in rows
    ]


def _files(errors: str) -> str:
    """Return zpool's list of damaged files, as many as fit, each whole."""
    if len(errors) <= MAX_ERRORS:
        return errors
    return f"{errors[:MAX_ERRORS].rpartition(' ')[0]} ...; all of them: zpool status -v"


def _of_device(pool: PoolStatus, device: VirtualDevice) -> list[Finding]:
    place = f"{device.name} of {device.parent}"
    if device.parent != pool.name:
        place += f" of {pool.name}"
    findings = []
    errors = [f"{count} {kind} errors" for kind, count in device.errors.items() if count]
    if device.state == "DEGRADED":  # it is used on; 'zpool clear' resets its counts, not the note
        errors.append(f"DEGRADED{f' ({device.note})' if device.note else ''}")
    if errors and not device.group:
        findings.append(
            Finding("warning", "ZfsDeviceErrors", place, f"{place}: {', '.join(errors)}", _CLEAR)
        )
    if _HEALTH[device.state] is ComponentHealth.FAILED or device.state == "OFFLINE":
        note = f": {device.note}" if device.note else ""
        severity = "notice" if device.state == "OFFLINE" else "warning"
        findings.append(
            Finding(severity, "ZfsDeviceFailed", place, f"{place} is {device.state}{note}")
        )
    return findings
