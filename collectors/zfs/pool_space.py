"""Space of a ZFS pool, from 'zpool list -Hpo size,allocated,free,fragmentation <pool>'.

The fields are separated by tabs, in bytes and percent without a unit (zpool-list(8), -H and -p;
OpenZFS 2.1 and 2.3, lib/libzfs/libzfs_pool.c, zpool_get_prop). *Limits:* of raidz the parity is
counted as space; about 3 % are reserved (spa_misc.c, spa_slop_shift), so that programs get 'No
space left on device' before the pool shows 100 %; a quota of a dataset is not seen here.
"""

from __future__ import annotations

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError

PROPERTIES = "size,allocated,free,fragmentation"
MAX_RESERVED_BYTES = 128 << 30
"""Source: OpenZFS 2.1, spa_misc.c, spa_max_slop; without a limit before."""
_LINE = lazy_pattern(r"(\d{1,20})\t(\d{1,20})\t(\d{1,20})\t(?:(\d{1,3})%?|-)")
"""A pool that cannot be opened has '-' everywhere; one without the feature spacemap_histogram has
it for the fragmentation. OpenZFS 0.7 prints '%' there in spite of -p."""


@dataclass(frozen=True, slots=True)
class PoolSpace:
    """Space of a pool in bytes, and how fragmented the free space is; None: not known."""

    size_bytes: int
    allocated_bytes: int
    free_bytes: int
    fragmentation_ratio: float | None

    @property
    def unreserved_bytes(self) -> int:
        """Free space that datasets can use, with parity: a part is reserved for the pool itself."""
        return max(self.free_bytes - min(self.size_bytes // 32, MAX_RESERVED_BYTES), 0)


def parse_space(text: str) -> PoolSpace:
    """Return the space of one pool. Errors: ParseError."""
    match = _LINE.fullmatch(text.strip("\n"))
    is_empty = match is None or not int(match[1]) or not int(match[2]) + int(match[3])
    if match is None or is_empty or int(match[2]) > int(match[1]):
        raise ParseError(
            "'zpool list': expected size, allocated and free bytes and the fragmentation in"
            f" percent, separated by tabs, got {text[:120]!r}"
        )
    size, allocated, free = (int(match[number]) for number in (1, 2, 3))
    fragmentation = None if match[4] is None else int(match[4]) / 100
    return PoolSpace(size, allocated, free, fragmentation)
