"""The cache of ZFS, as 'arcstats' shows it."""

from __future__ import annotations

import pytest
from support.kstat import arcstats, named

from iowarden.collectors.model import ParseError
from iowarden.collectors.procfs.meminfo import parse_meminfo
from iowarden.collectors.zfs.arc import parse_arcstats
from iowarden.rules.snapshot import Snapshot

GIB = 1 << 30


@pytest.mark.parametrize(
    ("size", "clean_ratio", "least", "evictable"),
    [
        (40, 0.95, 4, 36),
        (40, 0.5, 4, 20),
        (3, 1.0, 4, 0),
        (40, 0.0, 4, 0),
    ],
    ids=["clean", "dirty-or-pinned", "at-its-least-size", "nothing-clean"],
)
def test_programs_get_what_is_clean_and_above_the_least_size(
    size: int, clean_ratio: float, least: int, evictable: int
) -> None:
    """As the module itself answers the kernel: what is dirty or pinned makes up the least size."""
    text = arcstats(clean_ratio, size=size * GIB, c=size * GIB, c_min=least * GIB, c_max=64 * GIB)
    assert parse_arcstats(text).evictable_bytes == evictable * GIB


def test_a_version_without_lists_of_clean_data_has_all_above_the_least_size() -> None:
    """OpenZFS before 0.7; it also lacks the number of delayed writes here."""
    cache = parse_arcstats(named({"size": 9 * GIB, "c": 8, "c_min": GIB, "c_max": 10 * GIB}))
    assert (cache.evictable_bytes, cache.memory_throttles_total) == (8 * GIB, None)


def test_a_name_is_not_found_within_another() -> None:
    """'c' is the end of no other name, 'size' no part of 'mru_size'."""
    text = named({"mru_size": 1, "arc_c": 2, "size": 9, "c": 8, "c_min": 1, "c_max": 10})
    cache = parse_arcstats(text)
    assert (cache.size_bytes, cache.target_bytes, cache.max_bytes) == (9, 8, 10)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected a line of seven numbers"),
        ("size 4 9\n", "expected a line of seven numbers"),
        (named({"size": 9, "c": 8, "c_min": 1}), "expected a line 'c_max <type> <number>'"),
        (
            named({"size": 9, "c": 8, "c_min": 1, "c_max": 3}).replace(" 9\n", " -9\n"),
            "expected 'size <type> <number>'",
        ),
    ],
)
def test_what_is_no_arcstats_is_an_error(text: str, expected: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ParseError, match=expected):
        parse_arcstats(text)


def test_available_memory_counts_the_cache_of_zfs() -> None:
    """A Proxmox host: 64 GiB, of which the kernel calls 2 available and the ARC holds 40."""
    meminfo = parse_meminfo(
        "MemTotal: 67108864 kB\nMemFree: 1048576 kB\nMemAvailable: 2097152 kB\nBuffers: 0 kB\n"
        "Cached: 1048576 kB\nDirty: 0 kB\nWriteback: 0 kB\n"
    )
    cache = parse_arcstats(arcstats(size=40 * GIB, c=40 * GIB, c_min=2 * GIB, c_max=40 * GIB))
    assert Snapshot(meminfo=meminfo).available_bytes == 2 * GIB
    assert Snapshot(meminfo=meminfo, zfs_arc=cache).available_bytes == 38 * GIB
    assert Snapshot(zfs_arc=cache).available_bytes is None
