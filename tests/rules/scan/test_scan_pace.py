"""The pace of a scan, by what others do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.block.surface import OtherIo, PieceRead
from iowarden.rules.scan import pace
from iowarden.rules.scan.plan import PIECE_BYTES

if TYPE_CHECKING:
    from iowarden.rules.scan.pace import Pace

NOTHING = OtherIo(0, 0.0, 1.0)


def measured(*, rotational: bool, rate: float) -> Pace:
    """A disk whose speed is known from a batch."""
    known = pace.new_pace(rotational=rotational)
    batch = pace.next_pace(known, 0.0, PIECE_BYTES)
    reads = (PieceRead(0, PIECE_BYTES / rate),)
    return pace.after_batch(known, batch, reads, PIECE_BYTES)


@pytest.mark.parametrize(("rotational", "start"), [(True, 8e6), (False, 64e6)])
def test_a_quiet_disk_is_read_ever_faster_up_to_half_of_what_it_can(
    *, rotational: bool, start: float
) -> None:
    """A quarter more every three seconds."""
    known = measured(rotational=rotational, rate=4 * start)
    rates = []
    for second in range(30):
        known = pace.observe(known, NOTHING, float(second))
        rates.append(known.rate)
    assert rates[:4] == [start * 1.25] * 3 + [start * 1.25**2]
    assert rates[-1] == pytest.approx(2 * start)


def test_others_halve_the_rate_each_second_down_to_half_a_megabyte() -> None:
    """More than 5 requests in a second."""
    known = measured(rotational=True, rate=200e6)
    assert pace.observe(known, OtherIo(5, 50.0, 1.0), 0.0).rate == known.rate
    for second in range(10):
        known = pace.observe(known, OtherIo(6, 60.0, 1.0), float(second))
    assert known.rate == 0.5e6


def test_a_single_request_of_others_ends_the_fast_pace_for_three_seconds() -> None:
    """A commit now and then would otherwise meet a read of the scan every second time."""
    known = pace.observe(measured(rotational=True, rate=200e6), OtherIo(1, 10.0, 1.0), 50.0)
    assert not pace.is_alone(known, 52.9)
    assert pace.is_alone(known, 53.0)


def test_few_requests_that_take_longer_than_usual_slow_the_rate_down() -> None:
    """Their mean against the median of ten minutes: 1.5 times is too much."""
    known = measured(rotational=True, rate=200e6)
    for second in range(100):
        known = pace.observe(known, OtherIo(2, 20.0, 1.0), float(second))
    assert pace.observe(known, OtherIo(2, 20.0, 1.0), 100.0).rate == known.rate
    assert pace.observe(known, OtherIo(2, 32.0, 1.0), 100.0).rate == known.rate / 2
    later = pace.observe(known, OtherIo(2, 32.0, 1.0), 100.0 + pace.MEDIAN_SECONDS)
    assert later.rate == known.rate


def test_beside_others_a_request_is_in_flight_for_at_most_one_part_in_125() -> None:
    """On a solid-state disk in reads of 128 KiB, on a rotating one in whole pieces."""
    for rotational, step in ((True, PIECE_BYTES), (False, 128 * 1024)):
        known = pace.observe(pace.new_pace(rotational=rotational), OtherIo(100, 100.0, 1.0), 10.0)
        batch = pace.next_pace(known, 10.0, PIECE_BYTES)
        assert (batch.rest, batch.step_bytes, batch.others) == (124, step, None)
        assert 1 / (1 + batch.rest) <= 0.008
        quiet = pace.next_pace(known, 13.0, PIECE_BYTES)
        assert (quiet.rest, quiet.step_bytes, quiet.others) == (1, PIECE_BYTES, 0)


def test_a_batch_lasts_two_seconds_at_the_rate() -> None:
    """30 pieces of 512 KiB are 2 s at 8 MB/s; their starts are that far apart."""
    batch = pace.next_pace(pace.new_pace(rotational=True), 0.0, PIECE_BYTES)
    assert batch.pieces == 30
    assert batch.gap_seconds == pytest.approx(PIECE_BYTES / 8e6)


def test_after_a_long_read_beside_others_the_rest_goes_on_after_the_batch() -> None:
    """The probe rests for two seconds: a read of 50 ms needs 6.2."""
    known = pace.observe(pace.new_pace(rotational=True), OtherIo(100, 100.0, 1.0), 10.0)
    batch = pace.next_pace(known, 10.0, PIECE_BYTES)
    rested = pace.rested(known, batch, (PieceRead(0, 0.05),), 12.0)
    assert rested.ready_seconds == pytest.approx(12.0 + 4.2)


def test_failed_reads_and_those_beside_others_say_nothing_of_the_speed() -> None:
    """A drive retries for seconds: that is not its throughput."""
    known = pace.new_pace(rotational=True)
    alone = pace.next_pace(known, 0.0, PIECE_BYTES)
    failed = (PieceRead(0, 7.0, 5, 0),)
    assert pace.after_batch(known, alone, failed, PIECE_BYTES).measured is None
    loud = pace.observe(known, OtherIo(100, 1.0, 1.0), 0.0)
    shared = pace.next_pace(loud, 0.0, PIECE_BYTES)
    assert pace.after_batch(loud, shared, (PieceRead(0, 0.1),), PIECE_BYTES).measured is None
