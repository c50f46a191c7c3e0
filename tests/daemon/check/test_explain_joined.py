"""'iowarden explain' of the outputs of two commands in one paste, in either order, either cut."""

from __future__ import annotations

import pytest
from support.explained import read

MEMINFO = """\
MemTotal:       32768012 kB
MemFree:         9123412 kB
MemAvailable:   24112340 kB
Buffers:          812332 kB
Cached:         14123310 kB
SwapCached:            0 kB
Active:          8123312 kB
Inactive:       12331200 kB
SwapTotal:       8388604 kB
SwapFree:        8388604 kB
Dirty:              1220 kB
Writeback:             0 kB
AnonPages:       5123312 kB
Mapped:           812330 kB
"""
VMSTAT = """\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 1  0      0 9123412 812332 14935642    0    0    12    41  212  401  2  1 97  0  0
 0  0      0 9122980 812332 14935650    0    0     0    88  310  622  1  1 98  0  0
"""


@pytest.mark.parametrize("lines", range(12, 15))
@pytest.mark.parametrize("is_first", [True, False])
def test_memory_that_is_cut_stands_beside_vmstat(lines: int, is_first: bool) -> None:
    """A cut row of memory has no sign of its own beside it but its form."""
    cut = "\n".join(MEMINFO.split("\n")[:lines])
    told = read(f"{cut}\n{VMSTAT}" if is_first else f"{VMSTAT}{cut}")
    outputs = ["/proc/meminfo", "vmstat"]
    assert [*told.outputs] == (outputs if is_first else outputs[::-1])
    assert (told.status, told.unparsed) == (0, ())


def test_memory_that_is_cut_within_a_row_says_which() -> None:
    """What stands above the cut is read: Dirty and Writeback are."""
    told = read(f"{VMSTAT}{MEMINFO.rstrip()[:-3]}")
    assert told.status == 2
    assert [each.text for each in told.unparsed] == ["Mapped: 812330"]
