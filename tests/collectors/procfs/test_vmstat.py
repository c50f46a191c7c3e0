"""Page-cache counters of old and new kernels, and of texts that are no '/proc/vmstat'."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.model import ParseError
from iowarden.collectors.procfs.vmstat import Vmstat, emit, node_samples, parse_vmstat

PAGE = 4096
KERNEL_6_1 = """\
nr_free_pages 472305
nr_dirty 10
nr_writeback 20
nr_dirtied 717
nr_written 700
nr_dirty_threshold 185402
nr_dirty_background_threshold 46294
pgpgin 47931
pgpgout 2884
pswpin 0
pswpout 3
allocstall_dma32 1
allocstall_normal 2
allocstall_movable 4
pgscan_direct 100
pgscan_direct_throttle 7
pgfault 34092
pgmajfault 271
drop_pagecache 1
oom_kill 0
nr_unstable 0
"""
KERNEL_2_6_18 = (
    "nr_dirty 1660\nnr_writeback 807698\nnr_unstable 5\npgpgin 9\npgpgout 8\nallocstall 6\n"
)
LINES = st.sampled_from(KERNEL_6_1.splitlines())
JUNK = st.text(max_size=40) | st.sampled_from(
    ["nr_dirty", "nr_dirty x", "nr_dirty 1 2", "pgpgin -"]
)


def test_pages_and_kibibytes_become_bytes() -> None:
    """Thresholds are in pages, pgpgin and pgpgout in KiB."""
    value = parse_vmstat(KERNEL_6_1, PAGE)
    assert value.dirty_threshold_bytes == 185_402 * PAGE
    assert (value.dirty_bytes, value.writeback_bytes) == (10 * PAGE, 20 * PAGE)
    assert value.pgpgin_bytes_total == 47_931 * 1024
    assert value.swapped_out_bytes_total == 3 * PAGE


def test_what_empties_the_page_cache_without_a_fault_is_counted() -> None:
    """A balloon and a NUMA machine that reclaims by node; a machine without them has no zeros."""
    text = KERNEL_6_1 + "zone_reclaim_success 5\nzone_reclaim_failed 6\nballoon_inflate 7\n"
    value = parse_vmstat(text, PAGE)
    assert (value.zone_reclaims_total, value.zone_reclaims_failed_total) == (5, 6)
    assert value.ballooned_pages_total == 7
    value = parse_vmstat(KERNEL_6_1, PAGE)
    assert (value.zone_reclaims_total, value.ballooned_pages_total) == (None, None)


def test_a_machine_with_pages_of_64_kib_is_counted_with_its_own() -> None:
    """The page size is the recorded machine's: a recording of arm64 or ppc64 plays on a PC."""
    value = parse_vmstat(KERNEL_6_1, 65_536)
    assert (value.dirty_bytes, value.writeback_bytes) == (10 * 65_536, 20 * 65_536)
    assert value.dirty_background_threshold_bytes == 46_294 * 65_536


def test_a_kernel_before_2_6_37_reports_no_threshold() -> None:
    """2.6.18 has one allocstall, real nr_unstable and no nr_dirty_threshold."""
    value = parse_vmstat(KERNEL_2_6_18, PAGE)
    assert value.dirty_threshold_bytes is None
    assert value.unstable_bytes == 5 * PAGE
    assert value.direct_reclaims_total == 6
    assert value.oom_kills_total is None
    assert "iowarden_vmstat_dirty_threshold_bytes" not in {name for name, _, _ in emit(value, ())}


def test_reclaim_counters_of_the_zones_are_added_up() -> None:
    """One allocstall per zone from 4.10 on; pgscan_direct_throttle is a different counter."""
    value = parse_vmstat(KERNEL_6_1, PAGE)
    assert value.direct_reclaims_total == 7
    assert value.direct_scanned_pages_total == 100


def test_node_exporters_selection_is_its_default() -> None:
    """oom_kill, pgpg*, pswp* and pg*fault; nothing else."""
    names = {name for name, _, _ in node_samples(parse_vmstat(KERNEL_6_1, PAGE))}
    assert names == {
        "node_vmstat_oom_kill",
        "node_vmstat_pgfault",
        "node_vmstat_pgmajfault",
        "node_vmstat_pgpgin",
        "node_vmstat_pgpgout",
        "node_vmstat_pswpin",
        "node_vmstat_pswpout",
    }


@pytest.mark.parametrize(
    "bad", ["nr_dirty", "nr_dirty x", "nr_dirty 1 2", "nr_dirty -3", "nr_dirty 1e9"]
)
def test_a_known_line_that_does_not_parse_is_named(bad: str) -> None:
    """The message names the line."""
    with pytest.raises(ParseError, match=r"'/proc/vmstat' line 'nr_dirty': expected .*, got"):
        parse_vmstat(KERNEL_6_1.replace("nr_dirty 10", bad), PAGE)


@pytest.mark.parametrize("text", ["", "\0", KERNEL_6_1[:40]])
def test_a_truncated_text_is_refused(text: str) -> None:
    """A truncated file must not look like a machine without dirty data."""
    with pytest.raises(ParseError, match=r"expected a line 'nr_\w+ <n>', got none"):
        parse_vmstat(text, PAGE)


@given(st.lists(LINES | JUNK, max_size=30).map("\n".join) | st.text())
def test_any_text_is_counters_or_a_parse_error(text: str) -> None:
    """Any text gives a value or a ParseError."""
    try:
        value = parse_vmstat(text, PAGE)
    except ParseError:
        return
    assert isinstance(value, Vmstat)
    assert all(float(number) >= 0 for _, _, number in [*emit(value, ()), *node_samples(value)])
