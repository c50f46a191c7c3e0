"""Where a sector of a device lies in a volume of device-mapper, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.block.dm_table import DmTarget
from iowarden.rules.topology import dm_map
from iowarden.rules.topology.sector_map import LayoutError, SectorRun, Use


def target(line: str) -> DmTarget:
    """Return a line of a table."""
    start, sectors, kind, *words = line.split()
    return DmTarget(int(start), int(sectors), kind, tuple(words))


def test_a_volume_of_two_segments_is_found_from_either() -> None:
    """LVM: 'lvextend' put the second segment on another place of the same disk."""
    table = [target("0 1000 linear 8:17 2048"), target("1000 500 linear 8:17 10240")]
    assert dm_map.through_table(table, "8:17", 2040, 20) == ([SectorRun(2048, 12, Use.DATA, 0)], [])
    assert dm_map.through_table(table, "8:17", 10250, 1) == (
        [SectorRun(10250, 1, Use.DATA, 1010)],
        [],
    )
    assert dm_map.through_table(table, "8:1", 2048, 1) == ([], [])
    assert dm_map.through_table(table, "8:17", 3047, 2) == ([SectorRun(3047, 1, Use.DATA, 999)], [])


def test_an_open_encryption_begins_behind_its_header() -> None:
    """LUKS2: 16 MiB."""
    zeros = "0" * 128
    table = [target(f"0 9000 crypt aes-xts-plain64 {zeros} 0 8:33 32768 1 allow_discards")]
    pieces, unknown = dm_map.through_table(table, "8:33", 32760, 16)
    assert (pieces, unknown) == ([SectorRun(32768, 8, Use.DATA, 0)], [])


def test_a_path_is_the_device_that_it_leads_to() -> None:
    """dm-multipath: of two paths each has every sector where the device has it."""
    words = "0 0 1 1 service-time 0 2 2 8:16 1 1 8:32 1 1"
    table = [target(f"0 5000 multipath {words}")]
    for number in ("8:16", "8:32"):
        pieces, unknown = dm_map.through_table(table, number, 4990, 20)
        assert (pieces, unknown) == ([SectorRun(4990, 10, Use.DATA, 4990)], [])
    with pytest.raises(LayoutError):
        dm_map.through_table([target(f"8 5000 multipath {words}")], "8:16", 0, 8)


@given(
    st.integers(1, 6),
    st.sampled_from((8, 24, 128)),
    st.integers(1, 9),
    st.integers(0, 5),
    st.data(),
)
def test_a_striped_volume_is_found_from_each_disk(
    stripes: int, chunk: int, rows: int, first: int, data: st.DataObject
) -> None:
    """Source: dm-stripe.c: chunk by chunk around the stripes, each from its own start on."""
    sectors = stripes * chunk * rows
    words = " ".join(f"8:{16 * number} {2048 + number}" for number in range(stripes))
    table = [target(f"{first} {sectors} striped {stripes} {chunk} {words}")]
    at = data.draw(st.integers(0, sectors - 1))
    number, inside = divmod(at, chunk)
    row, stripe = divmod(number, stripes)
    own = 2048 + stripe + row * chunk + inside
    found, _ = dm_map.through_table(table, f"8:{16 * stripe}", own, 1)
    assert found == [SectorRun(own, 1, Use.DATA, first + at)]
    covered = 0
    for each in range(stripes):
        pieces, _ = dm_map.through_table(table, f"8:{16 * each}", 0, 2048 + sectors)
        covered += sum(piece.count for piece in pieces)
    assert covered == sectors


def test_what_is_not_followed_is_named() -> None:
    """Thin pools and caches have maps of their own, which no table shows."""
    table = [target("0 1000 thin-pool 253:1 253:2 128 0"), target("1000 8 linear 253:2 0")]
    assert dm_map.through_table(table, "253:2", 0, 4) == (
        [SectorRun(0, 4, Use.DATA, 1000)],
        ["thin-pool"],
    )


@pytest.mark.parametrize(
    "line",
    [
        "0 1000 linear 8:1",
        "0 1000 linear 8:1 -1",
        "0 1000 striped 3 8 8:1 0 8:17 0",
        "0 1000 striped 0 8 8:1 0",
        "0 1000 striped 2 0 8:1 0 8:17 0",
        "0 1001 striped 2 8 8:1 0 8:17 0",
        "0 1000 crypt aes-xts-plain64 00 0 8:1",
    ],
)
def test_a_table_that_contradicts_itself_is_refused(line: str) -> None:
    """In any case no sector is mapped by it, and no key is shown."""
    with pytest.raises(LayoutError, match="do not match the kernel's documentation") as caught:
        dm_map.through_table([target(line)], "8:1", 0, 8)
    assert "00" not in str(caught.value).replace("1000", "").replace("1001", "")
