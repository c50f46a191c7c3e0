"""Adjacent answers: when two are merged into one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iowarden.rules.topology.file_location import ContentKind, SectorContent, merged, narrowed

FIRST = SectorContent(
    8, 8, ContentKind.FILE, "", path="/srv/a", other_paths=("/srv/b",), offset_bytes=0, bytes=4096
)
NEXT = replace(FIRST, start=16, offset_bytes=4096)


def test_what_goes_on_in_the_same_file_is_one_answer() -> None:
    """The next sectors, and the next bytes."""
    assert merged([NEXT, FIRST]) == [replace(FIRST, count=16, bytes=8192)]


@pytest.mark.parametrize(
    "changed",
    [
        {"path": "/srv/c"},
        {"other_paths": ()},
        {"other_paths": ("/srv/b", "/srv/clone")},
        {"copies": "RAID1"},
        {"array": "md0"},
        {"degraded": "md0"},
        {"text": "behind the end of its content"},
        {"kind": ContentKind.METADATA},
        {"start": 24},
        {"offset_bytes": 12_288},
    ],
    ids=str,
)
def test_what_differs_is_distinguished(changed: dict[str, object]) -> None:
    """A clone of a part of a file is hit by that part alone; a chunk may have no copy."""
    other = replace(NEXT, **changed)  # type: ignore[arg-type]
    assert merged([FIRST, other]) == [FIRST, other]


def test_a_part_of_an_answer_is_reported_with_its_own_bytes() -> None:
    """As far as the file goes; of a compressed extent each sector is of all that it holds."""
    answer = replace(FIRST, count=16, offset_bytes=4096, bytes=6000)
    (part,) = narrowed([answer, replace(NEXT, start=24)], 13, 24)
    assert (part.start, part.count, part.offset_bytes, part.bytes) == (13, 11, 6656, 3440)
    (behind,) = narrowed([answer], 21, 22)
    assert (behind.offset_bytes, behind.bytes) == (10_752, 0)
    assert [(each.start, each.count) for each in narrowed([FIRST, NEXT], 0, 99)] == [
        (8, 8),
        (16, 8),
    ]
    packed = replace(FIRST, bytes=131_072)
    assert narrowed([packed], 10, 12) == [replace(packed, start=10, count=2)]
    unknown = SectorContent(8, 8, ContentKind.UNKNOWN, "why")
    assert narrowed([unknown], 10, 12) == [replace(unknown, start=10, count=2)]
