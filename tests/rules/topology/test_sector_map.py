"""Ranges of sectors: where they meet, and what they leave."""

from __future__ import annotations

from iowarden.rules.topology import sector_map


def test_ranges_meet_and_leave_gaps() -> None:
    """Sectors outside of every volume are reported as such."""
    assert sector_map.overlap(0, 10, 10, 5) is None
    assert sector_map.overlap(0, 10, 9, 5) == (9, 1)
    assert sector_map.gaps(0, 10, [(2, 3), (4, 2)]) == [(0, 2), (6, 4)]
    assert sector_map.gaps(0, 10, [(0, 10)]) == []
    assert sector_map.gaps(5, 5, []) == [(5, 5)]
    assert sector_map.gaps(5, 5, [(0, 7), (8, 20)]) == [(7, 1)]


# --- only the arithmetic; the layout is inferred, so no mail would name a file
