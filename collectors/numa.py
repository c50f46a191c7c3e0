"""Memory nodes, from '/sys/devices/system/node'."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """One node. Source: kernel, drivers/base/node.c."""

    node: int
    total_bytes: int
    free_bytes: int
