"""NUMA nodes, from '/sys/devices/system/node'."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import (
    KIB,
    AbsentError,
    Metric,
    ParseError,
    Sample,
    describe,
    parse_count,
)
from iowarden.collectors.source import Source

if TYPE_CHECKING:
    from iowarden.collectors.machine import Machine

DIRECTORY = "/sys/devices/system/node"
_NAME = lazy_pattern(r"node(\d{1,6})", re.ASCII)


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One node. Source: kernel, drivers/base/node.c ('kB' there means 1024 bytes)."""

    node: int
    total_bytes: Annotated[int, Metric("gauge", "Memory of a NUMA node; 0: it has CPUs only.")]
    free_bytes: Annotated[int, Metric("gauge", "Unused memory of a NUMA node.")]


FAMILIES, _emit = describe(NumaNode, "iowarden_numa_")


def parse_node(text: str, node: int) -> NumaNode:
    """Parse a node's 'meminfo', lines 'Node <n> <key>: <n> kB'."""
    found: dict[str, int] = {}
    for line in text.split("\n"):
        match line.split():
            case ["Node", _, ("MemTotal:" | "MemFree:") as key, digits, "kB"]:
                try:
                    found[key] = parse_count(digits) * KIB
                except ValueError:
                    continue  # reported below as a missing line
    missing = [key for key in ("MemTotal:", "MemFree:") if key not in found]
    if missing:
        raise ParseError(
            f"'{DIRECTORY}/node{node}/meminfo': expected a line 'Node {node} {missing[0]} <n> kB',"
            f" got {text[:80]!r}"
        )
    return NumaNode(node, found["MemTotal:"], found["MemFree:"])


def emit(value: tuple[NumaNode, ...]) -> list[Sample]:
    """Return the samples of FAMILIES, labelled by node."""
    return [sample for node in value for sample in _emit(node, (("node", str(node.node)),))]


def read_numa(root: Machine) -> tuple[NumaNode, ...]:
    """Read all nodes, by number; one that is removed meanwhile is left out.

    Errors: AbsentError (a kernel without NUMA), ReadError, ParseError.
    """
    numbers = [int(found[1]) for name in root.names(DIRECTORY) if (found := _NAME.fullmatch(name))]
    nodes: list[NumaNode] = []
    for number in sorted(numbers):
        try:
            text = root.read(f"{DIRECTORY}/node{number}/meminfo")
        except AbsentError:
            continue
        nodes.append(parse_node(text, number))
    if not nodes:
        raise AbsentError(f"'{DIRECTORY}': no memory node")
    return tuple(nodes)


SOURCE: Source[tuple[NumaNode, ...]] = Source(
    name="numa",
    period_seconds=15,
    period_help="How often the memory of NUMA nodes is read.",
    may_hang=False,
    read=read_numa,
    families=FAMILIES,
    emit=emit,
)
