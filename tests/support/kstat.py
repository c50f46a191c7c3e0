"""Statistics of the ZFS module as it prints them.

Source: OpenZFS 2.3, module/os/linux/spl/spl-kstat.c: kstat_seq_show_headers, kstat_seq_show_named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_UNSIGNED = 4
"""KSTAT_DATA_UINT64. Source: OpenZFS, include/os/linux/spl/sys/kstat.h."""


NOW_NANOSECONDS = 9_125_000_000_000
"""Time of the texts, by the module's clock."""


def named(numbers: Mapping[str, float], taken_nanoseconds: int = NOW_NANOSECONDS) -> str:
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


def txgs(
    syncing_seconds: float | None = None,
    now_nanoseconds: int = NOW_NANOSECONDS,
    last_seconds: float = 1.5,
) -> str:
    """Return 'txgs' of a pool: three that were written, the last of 300 MB, and an open one.

    Between them is one that has been syncing for so long; None: none. Source: OpenZFS 2.3,
    module/zfs/spa_stats.c: spa_txg_history_show_header, spa_txg_history_show.
    """
    second = 1_000_000_000
    rows = [(number, 0, "C", 300_000_000, 5 * second, 0, 0, 1.5 * second) for number in (1, 2)]
    rows.append((3, 0, "C", 300_000_000, 5 * second, 0, 0, last_seconds * second))
    if syncing_seconds is not None:
        born = now_nanoseconds - (5.2 + syncing_seconds) * second
        rows.append((4, born, "S", 0, 5 * second, 0.1 * second, 0.1 * second, 0))
    rows.append((5, now_nanoseconds - 3 * second, "O", 0, 0, 0, 0, 0))
    titles = ("ndirty", "nread", "nwritten", "reads", "writes", "otime", "qtime", "wtime", "stime")
    widths = (12, 12, 12, 8, 8, 12, 12, 12, 12)
    lines = [f"{'txg':<8} {'birth':<16} {'state':<5} " + _padded(titles, widths)]
    for number, born, state, dirty, *times in rows:
        words = (f"{dirty:.0f}", "0", f"{dirty:.0f}", "0", "90", *(f"{time:.0f}" for time in times))
        lines.append(f"{number:<8} {born:<16.0f} {state:<5} " + _padded(words, widths))
    return "\n".join(lines) + "\n"


def _padded(words: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join(f"{word:<{width}}" for word, width in zip(words, widths, strict=True))
