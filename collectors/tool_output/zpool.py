"""'zpool status': the pools of OpenZFS, their devices and error counts.

Source: zpool-status(8); OpenZFS, cmd/zpool/zpool_main.c, print_status_config; zpool_state_to_name.
Limits: where blanks were stripped, a device belongs to the last group above it, by its name.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.tool_output.parsed import Finding, Parsed, TextObject, Tool, UnparsedLine

_STATES = {
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
_FIELD = lazy_pattern(
    r"(pool|id|state|status|action|see|scan|scrub|remove|checkpoint|dedup|config|errors|comment):"
    r"\s*(.*)"
)
_COUNT = r"\d{1,20}(?:\.\d{1,3})?[KMGTPE]?"
_ROW = lazy_pattern(
    rf"(?P<name>\S{{1,255}}) (?P<state>{'|'.join(_STATES)})"
    rf"(?: (?P<read>{_COUNT}) (?P<write>{_COUNT}) (?P<cksum>{_COUNT}))?(?: (?P<note>.*))?"
)
_HEADER = lazy_pattern(r"NAME STATE READ WRITE CKSUM.*")
_CLASS = lazy_pattern(r"(?:logs|cache|spares|special|dedup)(?: .*)?")
_GROUP = lazy_pattern(r"(?:mirror|raidz[123]?|draid\d?|spare|replacing|indirect)(?:-?\d.*|:.*)?")
_UNITS = {unit: 1000**power for power, unit in enumerate("KMGTPE", 1)}
_NO_ERRORS = "No known data errors"
_CLEAR = (
    "Check the device, its cable and its power first. 'zpool clear' only resets the counts; run"
    " 'zpool scrub' after the repair, and keep a second copy until it ends without errors."
)


class _Row(NamedTuple):
    name: str
    parent: str
    state: str
    counts: dict[str, float]
    note: str


def parse_zpool(text: str) -> Parsed:
    """Parse the pools in a text; a line of a configuration that is no row is reported."""
    objects: list[TextObject] = []
    findings: list[Finding] = []
    unread: list[UnparsedLine] = []
    for fields, rows, odd in _pools(text):
        unread += odd
        pool = fields.get("pool", "")
        word = fields.get("state", rows[0].state if rows else "")
        state, *_ = word.split() or [""]
        if state not in _STATES:
            unread.append(
                UnparsedLine(f"zpool: pool {pool!r}: expected a state, got {word[:40]!r}")
            )
            continue
        details = {"scan": fields["scan"]} if fields.get("scan") else {}
        objects.append(TextObject("pool", pool, "", _STATES[state], word, details))
        findings += _of_pool(pool, state, fields)
        for row in rows:
            if row.name == pool and not row.parent:
                continue
            health = _STATES[row.state]
            if health is ComponentHealth.OK and any(row.counts.values()):
                health = ComponentHealth.ATTENTION
            objects.append(
                TextObject(
                    "device",
                    row.name,
                    row.parent or pool,
                    health,
                    row.state,
                    {"note": row.note} if row.note else {},
                    row.counts,
                )
            )
            findings += _of_row(pool, row)
        if not rows:
            unread.append(UnparsedLine(f"zpool: pool {pool!r}: expected its devices, got none"))
    if not objects and not unread and _ALL_HEALTHY.search(text):  # 'zpool status -x'
        return Parsed(Tool.ZPOOL, outputs=("zpool status -x",))
    return Parsed(
        Tool.ZPOOL,
        objects=tuple(objects),
        findings=tuple(findings),
        outputs=("zpool status",) if objects else (),
        unparsed=tuple(unread) or (() if objects else (UnparsedLine(_EXPECTED),)),
    )


_ALL_HEALTHY = lazy_pattern(r"^[ \t]*all pools are healthy\s*\Z", re.MULTILINE)
_EXPECTED = "zpool: expected 'pool: <name>' and 'state: <state>', got neither"


def _pools(text: str) -> list[tuple[dict[str, str], list[_Row], list[UnparsedLine]]]:
    pools: list[tuple[dict[str, str], list[_Row], list[UnparsedLine]]] = []
    key, group, section = "", "", ""
    for number, line in enumerate(text.split("\n"), 1):
        words = " ".join(line.split())
        field = _FIELD.fullmatch(words)
        if field is not None and field[1] == "pool":
            pools.append(({}, [], []))
        if not pools or not words:
            continue
        fields, rows, odd = pools[-1]
        if field is not None:
            key, group, section = field[1], "", ""
            fields[key] = field[2]
            continue
        if key != "config":
            fields[key] = f"{fields.get(key, '')} {words}".strip()
        elif _CLASS.fullmatch(words):
            group = section = words.split()[0]
        elif found := _ROW.fullmatch(words):
            name = found["name"]
            if not rows:
                parent = ""
            elif _GROUP.fullmatch(name):
                parent = section or rows[0].name
                group = name
            else:
                parent = group or rows[0].name
            counts = {
                what: _number(found[what]) for what in ("read", "write", "cksum") if found[what]
            }
            rows.append(_Row(name, parent, found["state"], counts, found["note"] or ""))
        elif not _HEADER.fullmatch(words):
            odd.append(UnparsedLine("zpool: no row of a device that is known", line, number))
    return pools


def _number(text: str) -> float:
    unit = float(_UNITS.get(text[-1], 1))
    return float(text.rstrip("KMGTPE")) * unit


def _of_pool(pool: str, state: str, fields: dict[str, str]) -> list[Finding]:
    told: list[tuple[str, str, str, str]] = []
    if state == "SUSPENDED" or "IO failures" in fields.get("status", ""):
        told.append(("critical", "ZfsPoolSuspended", "is suspended: all its I/O hangs", _SUSPENDED))
    elif _STATES[state] is ComponentHealth.FAILED:
        text = f"is {state}: its data are not available"
        told.append(("critical", "ZfsPoolFaulted", text, _FAULTED))
    elif state == "DEGRADED":
        told.append(("warning", "ZfsPoolDegraded", "is degraded", _DEGRADED))
    errors = fields.get("errors", "") or _NO_ERRORS
    if not errors.startswith(_NO_ERRORS):
        told.append(("critical", "ZfsDataErrors", f"has data errors: {errors[:120]}", _RESTORE))
    scan = re.search(r"with (\d{1,20}) errors", fields.get("scan", ""))
    if scan is not None and int(scan[1]):
        told.append(("warning", "ZfsScrubErrors", f"had {scan[1]} errors in its last scan", _CLEAR))
    return [
        Finding(severity, name, pool, f"pool {pool} {text}", advice)
        for severity, name, text, advice in told
    ]


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


def _of_row(pool: str, row: _Row) -> list[Finding]:
    place = f"{row.name} of {row.parent or pool}"
    if row.parent not in {"", pool}:
        place += f" of {pool}"
    findings = []
    counted = [
        f"{row.counts[key]:g} {name} errors"
        for key, name in (("read", "read"), ("write", "write"), ("cksum", "checksum"))
        if row.counts.get(key)
    ]
    if counted and not _GROUP.fullmatch(row.name):
        findings.append(
            Finding("warning", "ZfsDeviceErrors", place, f"{place}: {', '.join(counted)}", _CLEAR)
        )
    health = _STATES[row.state]
    if health is ComponentHealth.FAILED or row.state == "OFFLINE":
        note = f": {row.note}" if row.note else ""
        severity = "notice" if row.state == "OFFLINE" else "warning"
        findings.append(
            Finding(severity, "ZfsDeviceFailed", place, f"{place} is {row.state}{note}")
        )
    return findings
