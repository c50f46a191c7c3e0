"""NUMA nodes of machines with one, several and unusual ones."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.kernel.numa import NumaNode, emit, parse_node, read_numa
from iowarden.collectors.model import AbsentError, ParseError

if TYPE_CHECKING:
    from conftest import MachineMaker

NODE = (
    "Node 0 MemTotal:       65843620 kB\nNode 0 MemFree:          812344 kB\nNode 0 Dirty: 4 kB\n"
)
DIRECTORY = "/sys/devices/system/node"


def test_two_sockets_are_two_nodes(machine: MachineMaker) -> None:
    """Sizes are KiB in the kernel's text, bytes here; other entries are no nodes."""
    files = {f"{DIRECTORY}/node{n}/meminfo": NODE.replace("Node 0", f"Node {n}") for n in (0, 1)}
    files |= {f"{DIRECTORY}/possible": "0-1\n", f"{DIRECTORY}/power": None}
    value = read_numa(machine(files))
    assert value == (
        NumaNode(0, 65_843_620 * 1024, 812_344 * 1024),
        NumaNode(1, 65_843_620 * 1024, 812_344 * 1024),
    )
    assert ("iowarden_numa_free_bytes", (("node", "1"),), 812_344 * 1024) in emit(value)


def test_node_10_comes_after_node_9(machine: MachineMaker) -> None:
    """Nodes are in the order of their numbers, not of their names."""
    files = {f"{DIRECTORY}/node{n}/meminfo": NODE for n in (9, 10)}
    assert [node.node for node in read_numa(machine(files))] == [9, 10]


def test_a_node_without_memory_is_there(machine: MachineMaker) -> None:
    """It has CPUs only: 0 bytes is the kernel's value, not an unknown one."""
    text = NODE.replace("65843620", "0").replace("812344", "0")
    assert read_numa(machine({f"{DIRECTORY}/node0/meminfo": text})) == (NumaNode(0, 0, 0),)


def test_a_node_that_is_taken_out_while_it_is_read_is_left_out(machine: MachineMaker) -> None:
    """It was listed, and its file was removed."""
    files = {f"{DIRECTORY}/node0/meminfo": NODE, f"{DIRECTORY}/node1": None}
    assert [node.node for node in read_numa(machine(files))] == [0]


def test_a_kernel_without_numa_is_absent(machine: MachineMaker) -> None:
    """No directory, or no node in it."""
    with pytest.raises(AbsentError, match="/sys/devices/system/node"):
        read_numa(machine({f"{DIRECTORY}/possible": "0\n"}))


@pytest.mark.parametrize(
    "text", ["", "garbage", NODE.replace("MemFree", "Free"), "Node 0 MemFree:"]
)
def test_a_node_that_reports_nothing_is_refused(text: str) -> None:
    """The message names the file and the missing line."""
    with pytest.raises(ParseError, match=r"node3/meminfo': expected a line 'Node 3 Mem.*, got"):
        parse_node(text, 3)


@given(st.text() | st.text().map(lambda noise: NODE + noise))
def test_any_text_is_a_node_or_a_parse_error(text: str) -> None:
    """Any text gives a value or a ParseError."""
    with contextlib.suppress(ParseError):
        assert parse_node(text, 0).total_bytes >= 0
