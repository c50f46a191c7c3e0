"""Statistics of the ZFS module as it prints them.

Source: OpenZFS 2.3, module/os/linux/spl/spl-kstat.c: kstat_seq_show_headers, kstat_seq_show_named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNSIGNED = 4
"""KSTAT_DATA_UINT64. Source: OpenZFS, include/os/linux/spl/sys/kstat.h."""


def named(numbers: Mapping[str, float], taken_nanoseconds: int = 9_125_000_000_000) -> str:
    """Return a text with a line for each number, taken at this time of the module's clock."""
    rows = "".join(f"{name:<31} {_UNSIGNED:<4} {value:.0f}\n" for name, value in numbers.items())
    header = f"5 1 0x01 {len(numbers)} {len(numbers) * 272} 34103260832 {taken_nanoseconds}\n"
    return f"{header}{'name':<31} {'type':<4} data\n{rows}"


def arcstats(clean_ratio: float = 0.9, **numbers: float) -> str:
    """Return 'arcstats' of a cache of which so much is clean, in two lists of two kinds."""
    clean = numbers["size"] * clean_ratio
    return named(
        {
            "hits": 987_654_321,
            "misses": 1_234_567,
            "evict_l2_eligible_mru": 0,
            **numbers,
            "mru_size": numbers["size"] / 2,
            "mru_evictable_data": clean / 4,
            "mru_evictable_metadata": clean / 4,
            "mfu_evictable_data": clean / 4,
            "mfu_evictable_metadata": clean / 4,
            "memory_throttle_count": 3,
        }
    )
