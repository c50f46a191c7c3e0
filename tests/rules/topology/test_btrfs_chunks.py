"""Where btrfs has an address: chunks of every profile, there and back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sectors import btrfs_forward

from iowarden.collectors.filesystem.btrfs_owner import BtrfsChunk, Stripe
from iowarden.rules.topology import btrfs_chunks
from iowarden.rules.topology.btrfs_chunks import fixed, redundant, reverse
from iowarden.rules.topology.sector_map import LayoutError, Use

KIB = 1024
STRIPE = 64 * KIB
START = 1 << 30
COUNTS = {"single": 1, "DUP": 2, "RAID1": 2, "RAID1C3": 3, "RAID1C4": 4}


def chunk(profile: str, count: int = 1, rows: int = 4, devices: int = 0) -> BtrfsChunk:
    """Return a chunk of so many stripes on as many devices; DUP has one."""
    count = COUNTS.get(profile, count)
    copies = 2 if profile == "RAID10" else 1
    parity = {"RAID5": 1, "RAID6": 2}.get(profile, 0)
    side_by_side = 1 if profile in COUNTS else count // copies - parity
    devices = 1 if profile == "DUP" else devices or count
    stripes = tuple(
        Stripe(number % devices + 1, (16 + 64 * number) * STRIPE) for number in range(count)
    )
    length = rows * STRIPE * side_by_side
    return BtrfsChunk(START, length, STRIPE, frozenset({"DATA"}), profile, copies, stripes)


CHUNKS = st.one_of(
    st.builds(chunk, st.sampled_from(sorted(COUNTS)), rows=st.integers(1, 9)),
    st.builds(chunk, st.just("RAID0"), st.integers(1, 7), st.integers(1, 9)),
    st.builds(chunk, st.just("RAID10"), st.sampled_from((2, 4, 6, 8)), st.integers(1, 9)),
    st.builds(chunk, st.just("RAID5"), st.integers(2, 6), st.integers(1, 9)),
    st.builds(chunk, st.just("RAID6"), st.integers(3, 7), st.integers(1, 9)),
)


@given(CHUNKS, st.data())
def test_each_place_of_an_address_leads_back_to_it(made: BtrfsChunk, data: st.DataObject) -> None:
    """Every copy of every byte, on whichever device."""
    address = START + data.draw(st.integers(0, made.length - 1))
    places = btrfs_forward(made, address)
    assert len(places) == {"DUP": 2, "RAID1": 2, "RAID1C3": 3, "RAID1C4": 4, "RAID10": 2}.get(
        made.profile, 1
    )
    for stripe, at in places:
        (piece,) = reverse([made], stripe.device, at, 1)
        assert piece.address == address
        assert made.stripes[piece.stripe] == stripe


@given(CHUNKS)
def test_the_bytes_of_a_stripe_are_data_or_parity_and_all_of_the_chunk(made: BtrfsChunk) -> None:
    """Nothing is left out, nothing counted twice; as much parity as the profile has."""
    seen: dict[int, int] = {}
    parity = 0
    for device in {stripe.device for stripe in made.stripes}:
        for piece in reverse([made], device, 0, 1 << 40):
            if piece.address is None:
                parity += piece.count
                continue
            for at in range(0, piece.count, STRIPE):
                seen[piece.address + at] = seen.get(piece.address + at, 0) + 1
    assert sorted(seen) == list(range(START, START + made.length, STRIPE))
    assert set(seen.values()) == {len(btrfs_forward(made, START))}
    rows = btrfs_chunks.stripe_length(made) // STRIPE
    assert parity == rows * STRIPE * {"RAID5": 1, "RAID6": 2}.get(made.profile, 0)


# From the kernel's documentation: on three devices a row is 'data data parity', rotated by one each
# row.
RAID5_ROWS = ((0, 1, None), (None, 2, 3), (5, None, 4), (6, 7, None))


def test_parity_of_raid5_goes_round() -> None:
    """The picture, number by number: which piece of data each device has in each row."""
    made = chunk("RAID5", 3)
    for row, pieces in enumerate(RAID5_ROWS):
        for number, expected in enumerate(pieces):
            stripe = made.stripes[number]
            (piece,) = reverse([made], stripe.device, stripe.offset + row * STRIPE, STRIPE)
            address = None if expected is None else START + expected * STRIPE
            assert (piece.start, piece.count) == (stripe.offset + row * STRIPE, STRIPE)
            assert piece.address == address


def test_a_range_across_stripes_and_a_gap_is_reported_in_pieces() -> None:
    """Sectors ahead of the chunk, two pieces of it, and what lies behind are not mixed up."""
    made = chunk("RAID0", 2, rows=2)
    offset = made.stripes[1].offset
    pieces = reverse([made], 2, offset - 512, 4 * STRIPE)
    assert [(piece.start, piece.count, piece.address) for piece in pieces] == [
        (offset, STRIPE, START + STRIPE),
        (offset + STRIPE, STRIPE, START + 3 * STRIPE),
    ]
    assert reverse([made], 7, 0, 1 << 40) == []


@pytest.mark.parametrize(
    "made",
    [
        replace(chunk("RAID5", 3), length=STRIPE + 512),
        replace(chunk("RAID0", 2), stripe_bytes=0),
        replace(chunk("RAID1"), stripes=(Stripe(1, 0),)),
        replace(chunk("RAID10", 4), copies=3),
        replace(chunk("RAID10", 4), copies=0),
        replace(chunk("RAID6", 3), stripes=(Stripe(1, 0), Stripe(2, 0))),
    ],
    ids=lambda made: made.profile,
)
def test_a_chunk_that_cannot_be_is_no_map(made: BtrfsChunk) -> None:
    """A length that is no row, a lost stripe, copies that do not come out even."""
    with pytest.raises(LayoutError, match="a damaged tree"):
        reverse([made], 1, 0, 1 << 40)


def test_two_chunks_at_one_place_name_nobody() -> None:
    """One of them must be wrong, and which one is unknown."""
    one = chunk("single")
    with pytest.raises(LayoutError, match="two chunks lie at byte"):
        reverse([one, replace(one, start=2 * START)], 1, 0, 1 << 40)


@pytest.mark.parametrize(
    ("profile", "count", "gone", "whole"),
    [
        ("single", 1, (), False),
        ("RAID0", 3, (), False),
        ("DUP", 2, (), True),
        ("RAID1", 2, (), True),
        ("RAID1", 2, (2,), False),
        ("RAID1C3", 3, (2,), True),
        ("RAID1C3", 3, (2, 3), False),
        ("RAID10", 4, (3, 4), True),
        ("RAID10", 4, (2,), False),
        ("RAID5", 3, (), True),
        ("RAID5", 3, (2,), False),
        ("RAID6", 4, (2,), True),
        ("RAID6", 4, (2, 3), False),
    ],
)
def test_what_is_elsewhere_as_well_can_be_made_again(
    profile: str, count: int, gone: tuple[int, ...], whole: bool
) -> None:
    """Of the first stripe, which is on device 1, while other devices are missing."""
    made = chunk(profile, count)
    present = {stripe.device for stripe in made.stripes}.difference(gone)
    assert redundant(made, 0, present) is whole


def test_the_superblocks_and_the_first_mebibyte_are_no_chunks() -> None:
    """64 KiB, 64 MiB and 256 GiB, as far as the device has them; what is behind its end is free."""
    size = 1 << 39
    told = fixed(0, 2 << 20, size)
    assert [(start, count, use) for start, count, use, _ in told] == [
        (0, STRIPE, Use.RESERVED),
        (STRIPE, 4096, Use.DATA),
        (STRIPE + 4096, (1 << 20) - STRIPE - 4096, Use.RESERVED),
    ]
    assert told[1][3] == "the first superblock of btrfs"
    assert fixed((1 << 26) - 512, 1024, 1 << 27) == [
        (1 << 26, 512, Use.DATA, "the second superblock of btrfs")
    ]
    assert fixed(1 << 38, 4096, 1 << 38) == [
        (1 << 38, 4096, Use.UNUSED, "after the end of the file system")
    ]
    assert fixed(1 << 30, 4096, size) == []
