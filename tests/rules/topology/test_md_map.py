"""Sectors of md arrays: every layout, and what is refused.

The pictures follow the kernel's description of its layouts (md.rst, raid5.c, raid10.c): a row is a
stripe, a column a member, a number a chunk of the array.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recordings import corpus
from support.sectors import Position, forward, parity

from iowarden.collectors.md.md_layout import Geometry, MemberPlace
from iowarden.rules.topology import md_levels, md_map
from iowarden.rules.topology.sector_map import LayoutError, SectorRun, Use

CHUNK = 8
RAID5 = (0, 1, 2, 3, 4, 5)
RAID6 = (0, 1, 2, 3, 4, 5, 8, 9, 10, 16, 17, 18, 19, 20)


def geometry(
    level: str,
    disks: int,
    number: int = 0,
    chunk: int = CHUNK,
    rows: int = 12,
    offset: int = 2048,
    sizes: tuple[int, ...] = (),
    sectors: int | None = None,
) -> Geometry:
    """Return an array of members with `rows` chunks each, or of so many sectors."""
    own = sizes or (rows * chunk,) * disks
    if sectors is None:
        data = {"raid1": 1, "raid0": disks, "raid4": disks - 1, "raid5": disks - 1}
        whole = data.get(level, disks - 2) * min(own)
        if level in {"raid0", "linear"}:
            whole = sum(size // chunk * chunk for size in own) if level == "raid0" else sum(own)
        if level == "raid10":
            near, far = number & 255 or 1, number >> 8 & 255 or 1
            whole = rows // far * disks // near * chunk
        sectors = whole
    members = tuple(
        MemberPlace(
            f"sd{chr(97 + slot)}1", slot, str(slot), offset + slot, offset + slot, own[slot]
        )
        for slot in range(disks)
    )
    uses_chunks = level not in {"raid1", "linear"}
    return Geometry(
        name="md0",
        level=level,
        state="clean",
        raid_disks=disks,
        layout=number,
        chunk_sectors=chunk if uses_chunks else 0,
        component_sectors=min(own),
        sectors=sectors,
        degraded=0,
        metadata="1.2",
        reshaping=False,
        members=members,
    )


def picture(known: md_levels.ArrayLayout, rows: int) -> list[str]:
    """Draw the first rows of an array: which chunk of it each member has."""
    drawn = []
    for row in range(rows):
        cells = []
        for slot in range(known.disks):
            start = known.offsets[slot] + row * known.chunk
            (piece,) = md_map.reverse(known, slot, start, known.chunk)
            if piece.use is Use.PARITY:
                kinds = parity(known, row * known.chunk * md_levels.data_disks(known))
                cells.append("PQ"[[each.slot for each in kinds].index(slot)])
            elif piece.above is None:
                cells.append("-")
            else:
                cells.append(str(piece.above // known.chunk))
        drawn.append(" ".join(cells))
    return drawn


PICTURES = [
    ("raid4", 4, 0, "0 1 2 P|3 4 5 P"),
    ("raid5", 4, 0, "0 1 2 P|3 4 P 5|6 P 7 8|P 9 10 11|12 13 14 P"),  # left-asymmetric
    ("raid5", 4, 1, "P 0 1 2|3 P 4 5|6 7 P 8|9 10 11 P|P 12 13 14"),  # right-asymmetric
    ("raid5", 4, 2, "0 1 2 P|4 5 P 3|8 P 6 7|P 9 10 11|12 13 14 P"),  # left-symmetric, usual
    ("raid5", 4, 3, "P 0 1 2|5 P 3 4|7 8 P 6|9 10 11 P|P 12 13 14"),  # right-symmetric
    ("raid5", 4, 4, "P 0 1 2|P 3 4 5"),
    ("raid5", 4, 5, "0 1 2 P|3 4 5 P"),
    ("raid6", 5, 0, "Q 0 1 2 P|3 4 5 P Q|6 7 P Q 8|9 P Q 10 11|P Q 12 13 14|Q 15 16 17 P"),
    ("raid6", 5, 1, "P Q 0 1 2|3 P Q 4 5|6 7 P Q 8|9 10 11 P Q|Q 12 13 14 P|P Q 15 16 17"),
    ("raid6", 5, 2, "Q 0 1 2 P|3 4 5 P Q|7 8 P Q 6|11 P Q 9 10|P Q 12 13 14"),
    ("raid6", 5, 3, "P Q 0 1 2|5 P Q 3 4|7 8 P Q 6|9 10 11 P Q|Q 12 13 14 P"),
    ("raid6", 5, 4, "P Q 0 1 2|P Q 3 4 5"),
    ("raid6", 5, 5, "0 1 2 P Q|3 4 5 P Q"),
    ("raid6", 5, 8, "P Q 0 1 2|3 P Q 4 5|6 7 P Q 8|9 10 11 P Q|Q 12 13 14 P"),
    ("raid6", 5, 9, "0 1 2 P Q|3 4 P Q 5|6 P Q 7 8|P Q 9 10 11|Q 12 13 14 P|15 16 17 P Q"),
    ("raid6", 5, 10, "0 1 2 Q P|4 5 Q P 3|8 Q P 6 7|Q P 9 10 11|P 12 13 14 Q"),
    ("raid6", 5, 16, "0 1 2 P Q|3 4 P 5 Q|6 P 7 8 Q|P 9 10 11 Q|12 13 14 P Q"),
    ("raid6", 5, 17, "P 0 1 2 Q|3 P 4 5 Q|6 7 P 8 Q|9 10 11 P Q"),
    ("raid6", 5, 18, "0 1 2 P Q|4 5 P 3 Q|8 P 6 7 Q|P 9 10 11 Q"),
    ("raid6", 5, 19, "P 0 1 2 Q|5 P 3 4 Q|7 8 P 6 Q|9 10 11 P Q"),
    ("raid6", 5, 20, "P 0 1 2 Q|P 3 4 5 Q"),
    ("raid10", 4, 0x102, "0 0 1 1|2 2 3 3"),  # near 2
    ("raid10", 3, 0x102, "0 0 1|1 2 2|3 3 4|4 5 5"),  # near 2 of an odd number
    ("raid10", 4, 0x10201, "0 1 2 3|3 0 1 2|4 5 6 7|7 4 5 6"),  # offset 2
    ("raid10", 3, 0x10201, "0 1 2|2 0 1|3 4 5|5 3 4"),
    ("raid10", 5, 0x50201, "0 1 2 3 4|1 0 4 2 3|5 6 7 8 9|6 5 9 7 8"),  # offset 2, in sets of two
    ("raid0", 3, 0, "0 1 2|3 4 5"),
]


@pytest.mark.parametrize(("level", "disks", "number", "rows"), PICTURES)
def test_each_member_has_the_chunks_that_the_kernel_puts_there(
    level: str, disks: int, number: int, rows: str
) -> None:
    """Data, P and Q of each layout, row by row."""
    known = md_map.array(geometry(level, disks, number))
    assert picture(known, rows.count("|") + 1) == rows.split("|")


def test_the_far_copies_of_a_raid10_lie_in_the_second_half_of_its_members() -> None:
    """Layout far 2 of four members with four chunks each: the copy is on the next one."""
    known = md_map.array(geometry("raid10", 4, 0x201, rows=4))
    assert picture(known, 4) == ["0 1 2 3", "4 5 6 7", "3 0 1 2", "7 4 5 6"]
    in_sets = md_map.array(geometry("raid10", 4, 0x20201, rows=4))
    assert picture(in_sets, 4) == ["0 1 2 3", "4 5 6 7", "1 0 3 2", "5 4 7 6"]


def test_a_raid0_of_unequal_members_goes_on_without_the_smallest() -> None:
    """Members of 2, 4 and 3 chunks: three zones; since Linux 3.14 each begins with its first."""
    sizes = (2 * CHUNK, 4 * CHUNK, 3 * CHUNK + 5)
    since = md_map.array(geometry("raid0", 3, 2, sizes=sizes))
    assert picture(since, 4) == ["0 1 2", "3 4 5", "- 6 7", "- 8 -"]
    # Before, chunk 6 went to the member that 6 mod 2 names, and 7 to the other: here the same.
    before = md_map.array(geometry("raid0", 3, 1, sizes=sizes))
    assert picture(before, 4) == ["0 1 2", "3 4 5", "- 6 7", "- 8 -"]
    # With an odd number of chunks ahead of the zone they part: 3 mod 2 is the second member.
    sizes = (CHUNK, 2 * CHUNK, 2 * CHUNK)
    assert picture(md_map.array(geometry("raid0", 3, 2, sizes=sizes)), 2) == ["0 1 2", "- 3 4"]
    assert picture(md_map.array(geometry("raid0", 3, 1, sizes=sizes)), 2) == ["0 1 2", "- 4 3"]


@st.composite
def arrays(draw: st.DrawFn) -> md_levels.ArrayLayout:
    """Any array that md can run, of at most a few hundred sectors a member."""
    level = draw(st.sampled_from("raid0 raid1 raid4 raid5 raid6 raid10 linear".split()))
    disks = draw(st.integers(4 if level == "raid6" else 2, 9))
    chunk = draw(st.sampled_from((8, 24, 128) if level == "raid0" else (8, 128)))
    rows = draw(st.integers(1, 14))
    number, sizes = 0, ()
    if level == "raid5":
        number = draw(st.sampled_from(RAID5))
    elif level == "raid6":
        number = draw(st.sampled_from(RAID6))
    elif level == "raid10":
        near = draw(st.integers(1, min(disks, 3)))
        far = draw(st.integers(1, disks // near))
        # In sets the kernel wants one near copy: with more, it does not find its own copies again.
        sets = draw(st.integers(0, 2)) if near == 1 else 0
        # Adjacent copies that wrap meet the far ones of their row: refused, see below.
        offset = draw(st.integers(0, 1)) if disks % near == 0 else 0
        number = near | far << 8 | offset << 16 | sets << 17
        rows = max(rows, far)
    elif level in {"raid0", "linear"}:
        number = draw(st.sampled_from((1, 2)))
        several = st.integers(chunk, chunk * 14)
        sizes = tuple(draw(st.lists(several, min_size=disks, max_size=disks)))
    return md_map.array(geometry(level, disks, number, chunk, rows, sizes=sizes))


@given(arrays(), st.data())
def test_a_sector_of_an_array_is_found_from_each_of_its_copies(
    known: md_levels.ArrayLayout, data: st.DataObject
) -> None:
    """Down to the members and up again, for every level and layout."""
    sector = data.draw(st.integers(0, known.sectors - 1))
    for position in forward(known, sector):
        assert md_map.reverse(known, position.slot, position.sector, 1) == [
            SectorRun(position.sector, 1, Use.DATA, sector)
        ]


@given(arrays())
def test_a_whole_member_is_reported_without_gap_and_no_sector_twice(
    known: md_levels.ArrayLayout,
) -> None:
    """Each sector of the array is on as many members as it has copies, and on no other."""
    copies: dict[int, int] = {}
    for slot in range(known.disks):
        length = known.offsets[slot] + known.sizes[slot] + 40
        pieces = md_map.reverse(known, slot, 0, length)
        assert [piece.start for piece in pieces] == [0, *(piece.end for piece in pieces[:-1])]
        assert pieces[-1].end == length
        assert pieces[0] == SectorRun(0, known.offsets[slot], Use.RESERVED)
        assert all(one.use is not two.use or one.use is Use.DATA for one, two in pairwise(pieces))
        for piece in pieces:
            for step in range(piece.count if piece.above is not None else 0):
                assert piece.above is not None
                copies[piece.above + step] = copies.get(piece.above + step, 0) + 1
    wanted = len(forward(known, 0))
    assert copies == dict.fromkeys(range(known.sectors), wanted)


def test_copies_that_meet_in_one_place_are_refused() -> None:
    """Two near and two offset copies on five members: what the kernel wrote there is unknown."""
    known = md_map.array(geometry("raid10", 5, 0x10202))
    with pytest.raises(LayoutError, match="do not lead to each other"):
        md_map.reverse(known, 0, known.offsets[0], 200)


@given(arrays(), st.data())
def test_parity_is_where_no_data_of_the_stripe_are(
    known: md_levels.ArrayLayout, data: st.DataObject
) -> None:
    """P, and Q of a raid6, are on members of their own, and known as parity from there."""
    sector = data.draw(st.integers(0, known.sectors - 1))
    found = parity(known, sector)
    count = {"raid4": 1, "raid5": 1, "raid6": 2}.get(known.level, 0)
    assert len({each.slot for each in found}) == count
    for position in found:
        assert position.slot not in {each.slot for each in forward(known, sector)}
        (piece,) = md_map.reverse(known, position.slot, position.sector, 1)
        assert piece.use is Use.PARITY


def test_a_range_across_superblock_data_and_parity_stays_three_ranges() -> None:
    """Member 3 of four, left-symmetric: its first chunk is parity, its second chunk 3."""
    known = md_map.array(geometry("raid5", 4, 2))
    begin = known.offsets[3]
    assert md_map.reverse(known, 3, begin - 2, 2 + CHUNK + 3) == [
        SectorRun(begin - 2, 2, Use.RESERVED),
        SectorRun(begin, CHUNK, Use.PARITY),
        SectorRun(begin + CHUNK, 3, Use.DATA, 3 * CHUNK),
    ]
    assert md_map.reverse(known, 3, begin - 1, 1) == [SectorRun(begin - 1, 1, Use.RESERVED)]


def test_the_end_of_a_larger_mirror_is_nobodys() -> None:
    """A member that is larger than the array, and whatever lies behind."""
    known = md_map.array(geometry("raid1", 2, sizes=(100, 160), sectors=100))
    assert md_map.reverse(known, 1, 2049 + 90, 30) == [
        SectorRun(2139, 10, Use.DATA, 90),
        SectorRun(2149, 20, Use.UNUSED),
    ]


def test_a_replacement_has_the_slot_of_the_member_and_an_offset_of_its_own() -> None:
    """'mdadm --replace': both are read until the copy is done."""
    mirror = geometry("raid1", 2, rows=10)
    mirror = replace(
        mirror,
        members=(
            *mirror.members,
            MemberPlace("sdx1", 1, "1", 512, 512, 4000, ("replacement",)),
            MemberPlace("sdy1", None, "none", 2048, 2048, 4000, ("spare",)),
        ),
    )
    known, slot = md_map.of_member(mirror, "sdx1")
    assert md_map.reverse(known, slot, 512 + 7, 1) == [SectorRun(519, 1, Use.DATA, 7)]
    known, slot = md_map.of_member(mirror, "sdb1")
    assert md_map.reverse(known, slot, 2049 + 7, 1) == [SectorRun(2056, 1, Use.DATA, 7)]
    with pytest.raises(LayoutError, match="sdy1 is no part of the data of md0: its slot is 'none'"):
        md_map.of_member(mirror, "sdy1")
    with pytest.raises(LayoutError, match="md0 does not list sdz1"):
        md_map.of_member(mirror, "sdz1")


WHOLE = geometry("raid5", 4, 2)
UNKNOWN = {
    "a reshape": (replace(WHOLE, reshaping=True), "being reshaped"),
    "foreign metadata": (replace(WHOLE, metadata="external:imsm"), "'external:imsm'"),
    "no metadata told": (replace(WHOLE, metadata=""), "metadata 'unknown'"),
    "a layout not told": (replace(WHOLE, layout=None), "does not report its layout"),
    "a layout unheard of": (replace(WHOLE, layout=7), "layout 7 of raid5 is not known"),
    "a layout of raid6": (replace(WHOLE, layout=18), "layout 18 of raid5 is not known"),
    "no chunk": (replace(WHOLE, chunk_sectors=None), "chunk size"),
    "no size": (replace(WHOLE, sectors=None), "does not report its size"),
    "no members told": (replace(WHOLE, raid_disks=None), "got None"),
    "an array that stands still": (replace(WHOLE, state="inactive"), "is 'inactive'"),
    "an array that broke": (replace(WHOLE, state="broken"), "is 'broken'"),
    "a level unheard of": (replace(WHOLE, level="raid7"), "level 'raid7'"),
    "an attribute that failed": (replace(WHOLE, read_error="'x': EIO"), "'x': EIO"),
    "data that move": (
        replace(WHOLE, members=(replace(WHOLE.members[0], new_offset_sectors=4096),)),
        "are being moved",
    ),
    "an offset not told": (
        replace(WHOLE, members=(replace(WHOLE.members[0], offset_sectors=None),)),
        "where the data on sda1 begin",
    ),
    "two in one place": (
        replace(WHOLE, members=(*WHOLE.members, replace(WHOLE.members[0], device="sdx1"))),
        "two members are in slot 0",
    ),
    "a slot there is not": (
        replace(WHOLE, members=(replace(WHOLE.members[0], slot=4),)),
        "slot 4 of 4",
    ),
    "a stripe without a member": (
        replace(geometry("raid0", 3), members=geometry("raid0", 3).members[:2]),
        "slot 2 has no member",
    ),
    "unequal stripes before Linux 5.4": (
        geometry("raid0", 2, 0, sizes=(80, 160)),
        "before Linux 3.14 or the one since",
    ),
    "members smaller than the array": (
        geometry("linear", 2, sizes=(80, 160), sectors=241),
        "expected 241 sectors, got members for 240",
    ),
    "no copies": (geometry("raid10", 4, 0, rows=4), "layout 0 of raid10"),
    "more copies than members": (
        geometry("raid10", 2, 0x203, rows=4, sectors=8),
        "layout 515 of raid10",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_the_kernel_does_not_report_is_never_guessed(name: str) -> None:
    """No file is named by a layout that is inferred: the reason is."""
    given_geometry, reason = UNKNOWN[name]
    with pytest.raises(LayoutError) as caught:
        md_map.array(given_geometry)
    assert reason in str(caught.value)


def test_an_array_whose_kernel_does_not_find_its_own_copies_is_refused() -> None:
    """raid10 of two near copies and sets with a remainder: forward and backward disagree there."""
    known = md_map.array(geometry("raid10", 5, 0x20202, rows=8))
    with pytest.raises(LayoutError, match="do not lead to each other"):
        [md_map.reverse(known, slot, known.offsets[slot], 8 * CHUNK) for slot in range(5)]


def test_a_sector_behind_the_end_of_an_array_is_refused() -> None:
    """It has no place, and a slot that there is not has no sector."""
    known = md_map.array(WHOLE)
    with pytest.raises(LayoutError, match="expected a sector below 288, got 288"):
        forward(known, 288)
    with pytest.raises(LayoutError, match="expected a slot below 4, got 4"):
        md_map.reverse(known, 4, 0, 1)


@pytest.mark.parametrize(
    ("level", "disks", "lost", "can"),
    [
        ("raid1", 2, 0, True),
        ("raid1", 2, 1, False),
        ("raid1", 3, 1, True),
        ("raid5", 4, 0, True),
        ("raid5", 4, 1, False),
        ("raid6", 4, 1, True),
        ("raid6", 4, 2, False),
        ("raid10", 4, 1, False),
        ("raid0", 4, 0, None),
        ("raid5", 4, None, False),
    ],
)
def test_an_array_reports_what_was_lost_while_enough_members_are_there(
    level: str, disks: int, lost: int | None, can: bool | None
) -> None:
    """The number of missing members is unknown: not called redundant."""
    assert md_map.redundant(replace(geometry(level, disks), degraded=lost)) is can


# --- device-mapper


DATABASE_RAID0 = geometry("raid0", 3, chunk=16, offset=0, sizes=(80_000_000,) * 3)
DATABASE_RAID0 = replace(
    DATABASE_RAID0,
    members=tuple(
        replace(m, offset_sectors=0, new_offset_sectors=0) for m in DATABASE_RAID0.members
    ),
)
START = 63
SECTORS_PER_BLOCK = 8


@pytest.mark.parametrize(
    ("sector", "block"),
    [
        (34426127, 12909778),
        (34426151, 12909785),
        (34428623, 12910714),
        (34444831, 12916792),
        (34453631, 12920092),
        (34426095, 12909766),
        (34453535, 12920056),
    ],
)
def test_the_failed_sectors_of_a_database_server_are_those_blocks_of_its_file_system(
    sector: int, block: int
) -> None:
    """Partition from 63 on, third of three members of a raid0 in chunks of 8 KiB, 4 KiB blocks."""
    known = md_map.array(DATABASE_RAID0)
    (piece,) = md_map.reverse(known, 2, sector - START, 1)
    assert piece.above is not None
    assert piece.above // SECTORS_PER_BLOCK == block
    assert forward(known, piece.above) == (Position(2, sector - START),)


def test_five_of_its_seven_failed_sectors_are_on_the_list_of_bad_blocks() -> None:
    """The other two are not: a request begins ahead of the block that is bad."""
    golden = json.loads(corpus("reference/golden.json").read_text())["K"]
    log = corpus("reference/kernel-2.6-e2fsck-read-errors.log").read_text()
    sectors = dict.fromkeys(int(line.rpartition(" ")[2]) for line in log.splitlines())
    known = md_map.array(DATABASE_RAID0)
    found = {}
    for sector in sectors:
        (piece,) = md_map.reverse(known, 2, sector - START, 1)
        found[str(sector)] = (piece.above or 0) // SECTORS_PER_BLOCK
    assert found == golden["expect"] | golden["not_listed"]
    assert set(found.values()) & set(golden["bad_blocks_md0"]) == set(golden["expect"].values())
