"""'multipath -ll': the maps of dm-multipath and the state of their paths.

Source: multipath-tools, libmultipath/print.c: of a path the states of device-mapper ('active',
'failed'), of the path checker ('ready', 'faulty', 'shaky', 'ghost', 'i/o pending', 'i/o timeout',
'delayed') and of the SCSI device ('running', 'offline', 'blocked').
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.parsed_text import Finding, Parsed, TextObject, Tool, UnparsedLine
from iowarden.collectors.raid.controller import ComponentHealth

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def parse_multipath(text: str) -> Parsed:
    """Parse the maps in a text; a line of none of its formats is reported."""
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


def _finding(name: str, features: str, working: int, paths: int) -> Finding:
    if working:
        return Finding(
            "warning",
            "MultipathPathsFailed",
            name,
            f"{name}: {working} of {paths} paths work",
            "Check cables, switch ports and the storage system's controllers of the failed ones.",
        )
    queues = "queue_if_no_path" in features
    waits = "its I/O hangs until one is back" if queues else "its I/O fails"
    return Finding(
        "critical",
        "MultipathNoPath",
        name,
        f"{name} has no working path ({paths} failed): {waits}",
        "Check the storage system, its zoning and the links of this host; file systems on it may be"
        " read-only afterwards. Do not restart the host to clear it: unwritten data would be lost.",
    )
