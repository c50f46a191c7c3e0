"""Space of pools as 'zpool list' prints it for programs."""

from __future__ import annotations

import pytest

from iowarden.collectors.model import ParseError
from iowarden.collectors.zfs.pool_space import PoolSpace, parse_space


@pytest.mark.parametrize(
    ("fragmentation", "ratio"), [("31", 0.31), ("31%", 0.31), ("0", 0.0), ("-", None)]
)
def test_space_is_in_bytes_and_fragmentation_a_share(
    fragmentation: str, ratio: float | None
) -> None:
    """'%' of OpenZFS 0.7; '-' of a pool without the feature."""
    space = parse_space(f"1000\t900\t100\t{fragmentation}\n")
    assert space == PoolSpace(1000, 900, 100, ratio)


@pytest.mark.parametrize(
    ("size", "free", "unreserved"),
    [
        (32 << 30, 8 << 30, 7 << 30),
        (32 << 30, 1 << 29, 0),
        (1 << 50, 1 << 49, (1 << 49) - (1 << 37)),
    ],
)
def test_a_part_of_the_free_space_is_no_dataset_s(size: int, free: int, unreserved: int) -> None:
    """A 32nd, at most 128 GiB."""
    assert PoolSpace(size, size - free, free, None).unreserved_bytes == unreserved


@pytest.mark.parametrize(
    "text",
    [
        "-\t-\t-\t-\n",
        "",
        "0\t0\t0\t-\n",
        "1000\t0\t0\t0\n",
        "0\t0\t5\t0\n",
        "1000\t1100\t0\t0\n",
        "186G\t150G\t36G\t31%\n",
        "1000\t900\t100\t31\n2000\t900\t1100\t2\n",
        "cannot open 'tank': no such pool\n",
    ],
)
def test_what_is_no_answer_about_one_pool_is_an_error(text: str) -> None:
    """A pool that cannot be opened, none, another form, two pools: nothing is guessed."""
    with pytest.raises(ParseError, match="'zpool list': expected size"):
        parse_space(text)
