"""Whether a disk is slow over a wait of seconds, and a busy one is not."""

from __future__ import annotations

import pytest
from support.machine import disk, topology

from iowarden.collectors.block.diskstats import BlockIo
from iowarden.rules.signals.waits.device_facts import (
    holding_requests,
    is_untouched,
    slow_between,
)
from iowarden.rules.signals.waits.load import Moved

SECONDS = 12.0
ZERO = BlockIo("sda", 8, 0, (0,) * 17)


def after(per_second: float, size: int, milliseconds: float, busy: float) -> BlockIo:
    """Return the counters after 12 s of writes, of so many bytes and milliseconds each."""
    count = int(per_second * SECONDS)
    sectors, waited = count * size // 512, int(count * milliseconds)
    counters = (0, 0, 0, 0, count, 0, sectors, waited, 9, int(busy * SECONDS * 1000), waited)
    return BlockIo("sda", 8, 0, (*counters, 0, 0, 0, 0, 0, 0))


FLYING = BlockIo("sda", 8, 0, (*[0] * 8, 1, *[0] * 8))
CALM = after(40, 8192, 8, 0.3)
FULL = after(90, 1 << 20, 350, 1.0)
"""A copy at the speed of the disk, behind a deep queue."""


@pytest.mark.parametrize(
    ("sentence", "first", "second", "expected"),
    [
        ("2 requests a second of 3 s each", after(2, 32_768, 3_300, 1.0), CALM, {"sda"}),
        ("the same, and its neighbour is idle", after(2, 32_768, 3_300, 1.0), ZERO, {"sda"}),
        ("15 small ones a second, its neighbour has 40", after(15, 8192, 900, 1.0), CALM, {"sda"}),
        ("random writes behind a queue of 150", after(150, 8192, 1_000, 1.0), CALM, set()),
        ("a copy behind a queue, beside random writes", FULL, CALM, set()),
        ("5 requests a second of a disk with nothing to do", after(5, 4096, 8, 0.04), CALM, set()),
        ("a stick that writes 2 MB/s", after(16, 131_072, 2_000, 1.0), FULL, set()),
        ("nothing completed: it hangs and is not slow", ZERO, CALM, set()),
    ],
)
def test_a_slow_disk_is_told_from_a_busy_one(
    sentence: str, first: BlockIo, second: BlockIo, expected: set[str]
) -> None:
    """Each row: what sda and sdb did while programs waited for sda."""
    disks = topology(disk("sda"), disk("sdb"))
    before = Moved(0.0, {"sda": ZERO, "sdb": ZERO})
    found = slow_between(before, Moved(SECONDS, {"sda": first, "sdb": second}), {"sda"}, disks)
    assert found == expected, sentence


@pytest.mark.parametrize(
    ("sentence", "later", "expected"),
    [
        ("a commit that never reaches it", ZERO, True),
        ("small writes", CALM, False),
        (
            "one in flight that does not return: it hangs",
            BlockIo("sda", 8, 0, (*[0] * 8, 1, *[0] * 8)),
            False,
        ),
    ],
)
def test_a_disk_that_nothing_reached_during_a_wait_is_not_why(
    sentence: str, later: BlockIo, *, expected: bool
) -> None:
    """Over 12 s; what is in flight may be so at one moment only."""
    before, began = Moved(0.0, {"sda": FULL}), Moved(3.0, {"sda": ZERO})
    middle, after_wait = Moved(7.0, {"sda": later}), Moved(SECONDS, {"sda": later})
    assert is_untouched(before, (before, began, middle, after_wait), {"sda"}) is expected, sentence


STANDS, WORKS, IDLE = (1, 0), (1, 40), (0, 0)
"""Requests in flight, and how many complete each second."""


@pytest.mark.parametrize(
    ("sentence", "volume", "crypt", "sda", "expected"),
    [
        ("encryption has the requests, the disk none", STANDS, STANDS, IDLE, ("dm-0",)),
        ("the target of the volume itself has them", STANDS, IDLE, IDLE, ("dm-1",)),
        ("the disk has them: it hangs", STANDS, STANDS, STANDS, ()),
        ("the disk completes those of others", STANDS, STANDS, WORKS, ()),
        ("the volume completes others", WORKS, IDLE, IDLE, ()),
        ("nobody has any: a journal, or a lock", IDLE, IDLE, IDLE, ()),
    ],
)
def test_what_holds_requests_is_the_lowest_device_above_idle_disks(
    sentence: str,
    volume: tuple[int, int],
    crypt: tuple[int, int],
    sda: tuple[int, int],
    expected: tuple[str, ...],
) -> None:
    """A volume on an encrypted disk."""
    stack = topology(
        disk("sda", holders=("dm-0",)),
        disk("dm-0", leaf=False, slaves=("sda",), holders=("dm-1",)),
        disk("dm-1", leaf=False, slaves=("dm-0",)),
    )
    devices = {"sda": sda, "dm-0": crypt, "dm-1": volume}
    moved = tuple(
        Moved(
            float(at),
            {
                name: BlockIo(name, 8, 0, (*[0] * 4, done * at, *[0] * 3, flying, *[0] * 8))
                for name, (flying, done) in devices.items()
            },
        )
        for at in range(0, 13, 2)
    )
    assert holding_requests(devices.keys(), moved[0], moved, stack) == expected, sentence
