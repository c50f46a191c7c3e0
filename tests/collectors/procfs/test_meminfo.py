"""Memory of old and new kernels, and of texts that are no '/proc/meminfo'."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.model import KIB, ParseError
from iowarden.collectors.procfs.meminfo import Meminfo, emit, node_samples, parse_meminfo

STALLED_2_6_18 = """\
MemTotal: 8174540 kB
MemFree: 62076 kB
Buffers: 21724 kB
Cached: 6158912 kB
Active: 1126936 kB
Inactive: 6101688 kB
Dirty: 6640 kB
Writeback: 3230792 kB
AnonPages: 1047724 kB
Mapped: 65736 kB
NFS_Unstable: 0 kB
HugePages_Total: 0
"""
LINES = st.sampled_from(STALLED_2_6_18.splitlines())
JUNK = st.text(max_size=40) | st.sampled_from(["Dirty: -1 kB", "Dirty: 1_0 kB", "Dirty: 9 MB", ""])


def test_the_stalled_server_of_2_6_18_has_three_gigabytes_in_writeback() -> None:
    """A kernel without MemAvailable and Shmem, its backlog in Writeback."""
    value = parse_meminfo(STALLED_2_6_18)
    assert value.dirty_bytes + value.writeback_bytes == 3_237_432 * KIB
    assert (value.total_bytes, value.mapped_bytes) == (8_174_540 * KIB, 65_736 * KIB)
    assert value.available_bytes is None
    assert value.shmem_bytes is None
    assert value.active_file_bytes is None


def test_what_a_kernel_does_not_report_gives_no_sample() -> None:
    """Missing is not zero: 2.6.18 has no MemAvailable, and no series of it."""
    metrics = {name: value for name, _, value in emit(parse_meminfo(STALLED_2_6_18), ())}
    assert metrics["iowarden_memory_writeback_bytes"] == 3_230_792 * KIB
    assert "iowarden_memory_available_bytes" not in metrics


def test_node_exporters_names_keep_the_kernels_spelling() -> None:
    """Parentheses become an underscore, counts of pages have no '_bytes'."""
    text = STALLED_2_6_18 + "Active(anon): 128 kB\nHugePages_Free: 7\n"
    samples = {name: value for name, _, value in node_samples(parse_meminfo(text))}
    assert samples["node_memory_Active_anon_bytes"] == 128 * KIB
    assert samples["node_memory_HugePages_Free"] == 7
    assert samples["node_memory_MemTotal_bytes"] == 8_174_540 * KIB


@pytest.mark.parametrize(
    "line", ["Dirty: many kB", "Dirty: 6640", "Dirty:", "Dirty: 1 MB", "Dirty: -1 kB"]
)
def test_a_known_line_that_does_not_parse_is_named(line: str) -> None:
    """The message has the path, the line number, the expected and the found value."""
    text = STALLED_2_6_18.replace("Dirty: 6640 kB", line)
    with pytest.raises(
        ParseError, match=r"'/proc/meminfo'.*(line 7: )?expected .*'Dirty: <n> kB', got"
    ):
        parse_meminfo(text)


@pytest.mark.parametrize("text", ["", "\0\0\0", STALLED_2_6_18[:150], "MemTotal: 1 kB"])
def test_a_truncated_text_is_refused(text: str) -> None:
    """A truncated file must not look like a machine without dirty data."""
    with pytest.raises(ParseError, match=r"'/proc/meminfo'.*expected .*'\w+: <n> kB', got"):
        parse_meminfo(text)


def test_lines_of_a_later_kernel_are_tolerated() -> None:
    """A new field of a later kernel is ignored."""
    value = parse_meminfo("Novelty: full\nGlitter: 3 sparks\n" + STALLED_2_6_18)
    assert value.free_bytes == 62_076 * KIB


@given(st.lists(LINES | JUNK, max_size=20).map("\n".join) | st.text())
def test_any_text_is_memory_or_a_parse_error(text: str) -> None:
    """Any text gives a value or a ParseError."""
    try:
        value = parse_meminfo(text)
    except ParseError:
        return
    assert isinstance(value, Meminfo)
    assert all(float(number) >= 0 for _, _, number in [*emit(value, ()), *node_samples(value)])
