"""'multipath -ll', 'multipathd show paths' and 'show maps status': maps and their paths' states.

Source: multipath-tools, libmultipath/print.c and print.h (PRINT_PATH_CHECKER, PRINT_MAP_STATUS). Of
a path the states of device-mapper ('active',
'failed'), of the path checker ('ready', 'faulty', 'shaky', 'ghost', 'i/o pending', 'i/o timeout',
'delayed') and of the SCSI device ('running', 'offline', 'blocked').
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.parsed_text import Finding, Parsed, TextObject, Tool, UnparsedLine
from iowarden.collectors.raid.controller import ComponentHealth

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Sequence

_MAP = lazy_pattern(
    r"(?:(?:create|reload|switchpg|rename|resize|reject)?: )?"
    r"(?P<name>[^\s|`]\S{0,200}(?: [^\s(]\S{0,99})??)"
    r"(?: \((?P<wwid>[^()]{1,200})\))? (?P<dm>dm-\d{1,6})(?: (?P<model>.*))?"
)
_FEATURES = lazy_pattern(r"size=\S+ features='?(?P<features>[^'=]{0,200}?)'? hwhandler=.*")
_GROUP = lazy_pattern(r"[|` ]{0,9}[|`]-(?:[-+]- .*status=\w{1,20}| \S{1,40} \d+ .*\w)")
_OLD = str.maketrans("[]", "  ")
"""Up to 0.4.8 (RHEL 5) states have brackets, and none is that of the SCSI device."""
_PATH = lazy_pattern(
    r"[|` ]{0,9}[|`]- (?P<hctl>\S{1,40}) (?P<device>\S{1,40}) (?P<number>\S{1,20})"
    r" (?P<dm>active|failed|undef|\S{1,12})"
    r" (?P<check>ready|faulty|shaky|ghost|i/o pending|i/o timeout|delayed|down|undef|\S{1,12})"
    r"(?: (?P<state>\S{1,20})(?: .*)?)?"
)
_VERBOSE = lazy_pattern(
    r"(?:\w{3} \d{1,2} [\d:]{8} \| )?(?:\*word = \S{1,64}, len = \d+|(?:params|status) = .*"
    r"|process \d+ forking to exec '.*|forked \d+|={3,} paths list ={3,}"
    r"|uuid hcil dev dev_t pri .*|\w{1,32}: (?:\w+ = .*|blacklisted"
    r"|h:b:t:l = .*|path checker = .*|checker timeout = .*|tgt_node_name = .*)"
    r"|\S{0,64} ?\d+:\d+:\d+:\d+ \w{1,32} \d+:\d+ -?\d+ (?:undef|active) ready .*)"
)
"""What '-v3' adds, but for a path that is not ready. Source: libmultipath/print.c, dmparser.c."""
_NO_PATH = "##,##"
"""Vendor and product of a map without paths. Source: print.c, snprint_multipath_vp."""
_WORKING = frozenset({"ready", "ghost", "shaky", "delayed", "i/o pending", "undef"})
"""'undef': no checker ran, as without multipathd; then the state of device-mapper counts."""
_GONE = frozenset({"offline", "transport-offline", "cancel", "del", "blocked"})
"""States of a SCSI device that takes no requests."""


_PATHS_HEAD = lazy_pattern(r"hcil dev dev_t pri dm_st chk_st dev_st\b.*")
_PATH_ROW = lazy_pattern(
    r"(?P<hctl>\S{1,64}) (?P<device>\S{1,40}) (?P<number>(?:\d{1,6}:\d{1,7}|\S{1,20})) -?\d{1,9}"
    r" (?P<dm>\S{1,12}) (?P<check>i/o pending|i/o timeout|\S{1,12})"
    r" (?P<state>\S{1,20})(?: (?P<next>.*))?"
)
_ORPHAN = "orphan"
"""In the place of the next check: a disk that belongs to no map."""
_STATUS_HEAD = lazy_pattern(r"name failback queueing paths dm-st\b.*")
_STATUS_ROW = lazy_pattern(
    r"(?P<name>\S{1,128}) \S{1,20} (?P<queueing>-|on|off|\d{1,9} (?:sec|chk)) (?P<paths>\d{1,5})"
    r" (?P<state>\S{1,20})(?: (?:rw|ro|undef))?"
)
_TYPED = lazy_pattern(r".{0,80}\bmultipathd? ?-?\w* ?.*\bshow\b.*|ok")
"""The command, and how 'multipathd -k' ends."""


def parse_multipath(text: str) -> Parsed:
    """Parse the maps and the tables in a text; a line of none of its formats is reported."""
    lines = text.split("\n")
    tables, rest = _tables(lines)
    if tables is None:
        return _parse_maps(text)
    if not "".join(rest).strip():
        return tables
    maps = _parse_maps("\n".join(rest))
    return replace(
        maps,
        objects=(*maps.objects, *tables.objects),
        findings=(*maps.findings, *tables.findings),
        outputs=(*maps.outputs, *tables.outputs),
        unparsed=(*maps.unparsed, *tables.unparsed),
    )


def _tables(lines: Sequence[str]) -> tuple[Parsed | None, list[str]]:
    """Return what the tables of multipathd have, and the other lines; None: there is no table."""
    kind = ""
    rest: list[str] = []
    paths: list[re.Match[str]] = []
    maps: list[re.Match[str]] = []
    unread: list[UnparsedLine] = []
    outputs: dict[str, None] = {}
    for number, line in enumerate(lines, 1):
        words = " ".join(line.split())
        if _PATHS_HEAD.fullmatch(words) or _STATUS_HEAD.fullmatch(words):
            kind = "show paths" if words.startswith("hcil") else "show maps status"
            outputs[f"multipathd {kind}"] = None
        elif not words or not kind or _MAP.fullmatch(words) or _FEATURES.fullmatch(words):
            kind = kind if not words else ""
            rest.append("" if not words or _TYPED.fullmatch(words) else line)
            continue
        elif kind == "show paths" and (row := _PATH_ROW.fullmatch(words)):
            paths.append(row)
        elif kind == "show maps status" and (row := _STATUS_ROW.fullmatch(words)):
            maps.append(row)
        elif not _TYPED.fullmatch(words):
            unread.append(
                UnparsedLine(f"multipathd: no row of '{kind}' that is known", line, number)
            )
        rest.append("")
    if not outputs:
        return None, rest
    if not paths and not maps and not unread:
        unread.append(UnparsedLine("multipathd: the table has no row: nothing was judged"))
    objects = [*_listed_paths(paths), *_listed_maps(maps)]
    if paths and not objects:
        unread.append(UnparsedLine("multipathd: no path of it belongs to a map"))
    findings = (*_path_faults(paths), *_map_faults(maps))
    return Parsed(
        Tool.MULTIPATH,
        objects=tuple(objects),
        findings=findings,
        outputs=tuple(outputs),
        unparsed=tuple(unread),
    ), rest


def _states(row: re.Match[str]) -> tuple[str, str, str, str]:
    return row["device"], row["dm"], row["check"], row["state"]


def _is_orphan(row: re.Match[str]) -> bool:
    return _ORPHAN in (row["next"] or "")


def _listed_paths(rows: Sequence[re.Match[str]]) -> Iterator[TextObject]:
    for row in rows:
        if not _is_orphan(row):
            well = ComponentHealth.OK if _works(_states(row)) else ComponentHealth.FAILED
            yield TextObject("path", row["device"], "", well, " ".join(_states(row)[1:]))


def _path_faults(rows: Sequence[re.Match[str]]) -> Iterator[Finding]:
    """Yield the paths that fail: the table has no map, so whether one has lost all is unknown."""
    paths = [_states(row) for row in rows if not _is_orphan(row)]
    failed = [path[0] for path in paths if not _works(path)]
    if failed and len(failed) == len(paths):
        yield _finding("multipath", "", 0, len(paths))
    elif failed:
        text = (
            f"{len(paths) - len(failed)} of {len(paths)} paths work; failed: {', '.join(failed)}."
            " Whether a map has lost all of its paths: multipath -ll"
        )
        yield Finding("warning", "MultipathPathsFailed", "multipath", text, _PATHS_ADVICE)


def _listed_maps(rows: Sequence[re.Match[str]]) -> Iterator[TextObject]:
    for row in rows:
        health = ComponentHealth.OK if row["state"] == "active" else ComponentHealth.ATTENTION
        health = health if int(row["paths"]) else ComponentHealth.FAILED
        details = {"working": int(row["paths"])}
        yield TextObject("map", row["name"], "", health, row["state"], details)


def _map_faults(rows: Sequence[re.Match[str]]) -> Iterator[Finding]:
    for row in rows:
        name = row["name"]
        if not int(row["paths"]):
            queues = "queue_if_no_path" if row["queueing"] not in {"off", "-"} else ""
            yield _finding(name, queues, 0, 0)
        elif row["state"] != "active":
            text = f"{name}: device-mapper's state is {row['state']}: its I/O waits"
            advice = f"Resume it, unless a program is just changing it: dmsetup resume {name}"
            yield Finding("warning", "DeviceMapperSuspended", name, text, advice)


def _parse_maps(text: str) -> Parsed:
    """Parse the maps of 'multipath -ll'."""
    maps: dict[str, tuple[str, list[tuple[str, str, str, str]]]] = {}
    pathless: set[str] = set()
    name = ""
    unread: list[UnparsedLine] = []
    for number, line in enumerate(text.split("\n"), 1):
        words = " ".join(line.translate(_OLD).replace("\\_", "|-").split())
        if not words:
            continue
        if path := _PATH.fullmatch(words):
            if not name:
                unread.append(UnparsedLine("multipath: expected a map before it", line, number))
            else:
                maps[name][1].append(
                    (path["device"], path["dm"], path["check"], path["state"] or "")
                )
        elif header := _MAP.fullmatch(words):
            name = header["name"]
            maps[name] = ("", [])
            if header["model"] == _NO_PATH:
                pathless.add(name)
        elif (features := _FEATURES.fullmatch(words)) and name:
            maps[name] = (features["features"], maps[name][1])
        elif not _GROUP.fullmatch(words) and not _VERBOSE.fullmatch(words):
            unread.append(UnparsedLine("multipath: no line of a map that is known", line, number))
    objects: list[TextObject] = []
    findings: list[Finding] = []
    for map_name, (flags, paths) in maps.items():
        is_pathless = map_name in pathless and not paths
        objects += _objects(map_name, paths, is_pathless=is_pathless)
        working = sum(map(_works, paths))
        if working < len(paths) or is_pathless:
            findings.append(_finding(map_name, flags, working, len(paths)))
        elif not paths:
            expected = f"multipath: map {map_name!r}: expected its paths, got none"
            unread.append(UnparsedLine(expected))
    return Parsed(
        Tool.MULTIPATH,
        objects=tuple(objects),
        findings=tuple(findings),
        outputs=("multipath -ll",) if maps else (),
        unparsed=tuple(unread) or (() if maps else (UnparsedLine(_EXPECTED),)),
    )


_EXPECTED = "multipath: expected '<map> (<wwid>) dm-<n> <vendor>', got no map"


def _objects(
    name: str, paths: list[tuple[str, str, str, str]], *, is_pathless: bool
) -> Iterator[TextObject]:
    working = sum(map(_works, paths))
    health = ComponentHealth.OK
    if working < len(paths) or is_pathless:
        health = ComponentHealth.DEGRADED if working else ComponentHealth.FAILED
    yield TextObject("map", name, "", health, "", {"paths": len(paths), "working": working})
    for path in paths:
        well = ComponentHealth.OK if _works(path) else ComponentHealth.FAILED
        yield TextObject("path", path[0], name, well, " ".join(path[1:]))


def _works(path: tuple[str, str, str, str]) -> bool:
    _, dm, check, state = path
    return dm != "failed" and check in _WORKING and state not in _GONE


_PATHS_ADVICE = (
    "Check cables, switch ports and the storage system's controllers of the failed ones."
)


def _finding(name: str, features: str, working: int, paths: int) -> Finding:
    if working:
        return Finding(
            "warning",
            "MultipathPathsFailed",
            name,
            f"{name}: {working} of {paths} paths work",
            _PATHS_ADVICE,
        )
    failed = f" ({paths} failed)" if paths else ""
    queues = "queue_if_no_path" in features
    waits = "its I/O hangs until one is back" if queues else "its I/O fails"
    return Finding(
        "critical",
        "MultipathNoPath",
        name,
        f"{name} has no working path{failed}: {waits}",
        "Check the storage system, its zoning and the links of this host; file systems on it may be"
        " read-only afterwards. Do not restart the host to clear it: unwritten data would be lost.",
    )
