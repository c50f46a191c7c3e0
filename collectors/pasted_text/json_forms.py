"""JSON of 'zpool status -j' and 'list -j', 'btrfs device stats', LVM's reports, as their text.

The parsers of the text judge it then: what a field means is known there. Source: OpenZFS 2.3,
cmd/zpool/zpool_main.c, vdev_stats_nvlist, print_scan_status; btrfs-progs, common/format-output.c,
cmds/device.c; LVM2, man/lvmreport.7_main. Limits: the share of a scrub that runs, the files with
errors and the notes on a device that is replaced are not taken over.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from iowarden.collectors import json_text
from iowarden.collectors.model import ParseError
from iowarden.collectors.parsed_text import Tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Tree = dict[str, Any]


def as_text(text: str, kind: Tool) -> str:
    """Return the JSON of a tool as its text; a text without JSON as it is.

    Errors: ParseError: the JSON is cut, or that of a command that is not read.
    """
    if not text.lstrip().startswith("{"):
        return text
    rows = _FORMS.get(kind)
    try:
        if rows is None or json_text.is_deep(text):
            raise ValueError
        pieces = json_text.split_objects(text)
        lines = [row for piece in pieces for row in rows(json.loads(piece, strict=False))]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        lines = []
    if not lines:
        raise ParseError(
            f"JSON of {kind}: it is cut, or of a command whose JSON is not read; use the text form"
        )
    return "\n".join(lines) + "\n"


def _pools(answer: Tree) -> Iterator[str]:
    is_list = answer.get("output_version", {}).get("command") == "zpool list"
    if is_list:
        yield "NAME SIZE ALLOC FREE CAP HEALTH"
    for name, pool in answer["pools"].items():
        if is_list:
            yield " ".join((name, *(_property(pool, key) for key in _LISTED), pool["state"]))
            continue
        yield f"  pool: {name}"
        yield f" state: {pool['state']}"
        yield f"status: {_one_line(pool.get('status', ''))}"
        if scan := pool.get("scan_stats"):
            yield f"  scan: {_scan(scan)}"
        yield from ("config:", "", "\tNAME STATE READ WRITE CKSUM")
        yield from _devices(pool["vdevs"], 0)
        for key, heading in _HEADINGS.items():
            if devices := pool.get(key):
                yield f"\t{heading}"
                yield from _devices(devices, 1)
        errors = int(pool["error_count"])
        summary = f"{errors} data errors, use '-v' for a list" if errors else "No known data errors"
        yield f"errors: {summary}"


_LISTED = ("size", "allocated", "free", "capacity")


def _property(pool: Tree, name: str) -> str:
    return str(pool.get("properties", {}).get(name, {}).get("value", "-"))


_HEADINGS = {
    "dedup": "dedup",
    "special": "special",
    "logs": "logs",
    "l2cache": "cache",
    "spares": "spares",
}


def _devices(devices: Mapping[str, Tree], depth: int) -> Iterator[str]:
    for name, device in devices.items():
        counts = [device.get(f"{kind}_errors") for kind in ("read", "write", "checksum")]
        shown = " ".join(map(str, counts)) if None not in counts else ""
        note = f"was {device['was']}" if "was" in device else _one_line(device.get("aux", ""))
        yield f"\t{'  ' * depth}{name} {device['state']} {shown} {note}".rstrip()
        yield from _devices(device.get("vdevs", {}), depth + 1)


def _scan(scan: Tree) -> str:
    kind = str(scan["function"]).lower()
    if scan["state"] == "FINISHED":
        done = "scrub repaired" if kind == "scrub" else f"{kind}ed"
        size, errors = scan.get("processed", "0B"), scan.get("errors", "0")
        return f"{done} {size} in - with {errors} errors on {scan.get('end_time', '-')}"
    word = "canceled on" if scan["state"] == "CANCELED" else "in progress since"
    return f"{kind} {word} {scan.get('start_time', '-')}"


def _one_line(text: object) -> str:
    return " ".join(str(text).split())


def _statistics(answer: Tree) -> Iterator[str]:
    for device in answer["device-stats"]:
        for kind, count in device.items():
            if kind.endswith("_errs"):
                yield f"[{device['device']}].{kind} {count}"


def _volumes(answer: Tree) -> Iterator[str]:
    for part in answer["report"]:
        for kind, rows in part.items():
            columns = _COLUMNS[kind]
            yield f"  {kind.upper()} Attr"
            for row in rows:
                yield " ".join(["", *(row[name] for name in columns), *_shares(row)])


_COLUMNS = {
    "lv": ("lv_name", "vg_name", "lv_attr"),
    "vg": ("vg_name", "vg_attr"),
    "pv": ("pv_name", "pv_attr"),
}


def _shares(row: Tree) -> list[str]:
    return [row[key] for key in ("data_percent", "metadata_percent") if row.get(key)]


_FORMS: Mapping[Tool, Callable[[Tree], Iterator[str]]] = {
    Tool.ZPOOL: _pools,
    Tool.BTRFS: _statistics,
    Tool.LVS: _volumes,
}
