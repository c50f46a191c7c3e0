"""'zpool status' in a text: its pools and devices, and what is wrong with them."""

from __future__ import annotations

import re

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.redundancy import NONE_LEFT
from iowarden.collectors.tool_output.parsed import Finding, Parsed, TextObject, Tool, UnparsedLine
from iowarden.collectors.zfs.zpool_status import (
    NO_ERRORS,
    PoolStatus,
    VirtualDevice,
    parse_status,
    redundancy_groups,
)

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
_ALL_HEALTHY = lazy_pattern(r"^[ \t]*all pools are healthy\s*\Z", re.MULTILINE)
_EXPECTED = "zpool: expected 'pool: <name>' and 'state: <state>', got neither"


def parse_zpool(text: str) -> Parsed:
    """Parse the pools in a text; a line of a configuration that is no row is reported."""
    objects: list[TextObject] = []
    findings: list[Finding] = []
    unread: list[UnparsedLine] = []
    for pool in parse_status(text):
        unread += (
            UnparsedLine("zpool: no row of a device that is known", line, number)
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
    if not objects and not unread and _ALL_HEALTHY.search(text):  # 'zpool status -x'
        return Parsed(Tool.ZPOOL, outputs=("zpool status -x",))
    return Parsed(
        Tool.ZPOOL,
        objects=tuple(objects),
        findings=tuple(findings),
        outputs=("zpool status",) if objects else (),
        unparsed=tuple(unread) or (() if objects else (UnparsedLine(_EXPECTED),)),
    )


def _pool_object(pool: PoolStatus) -> TextObject:
    details = {"scan": pool.scan_text} if pool.scan_text else {}
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
    errors = pool.errors_text or NO_ERRORS
    if not errors.startswith((NO_ERRORS, _ERRORS_UNKNOWN)):
        rows.append(("critical", "ZfsDataErrors", f"has data errors: {_files(errors)}", _RESTORE))
    scan = pool.scan
    if scan is not None and scan.kind == "resilver" and scan.state == "running":
        done = "" if scan.done_ratio is None else f", {scan.done_ratio:.0%} done"
        rows.append(("notice", "ZfsResilver", f"is being resilvered{done}", ""))
    if scan is not None and scan.errors:
        text = f"had {scan.errors} errors in its last scan"
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
