"""The order of a surface scan, its bad ranges and its limits; whole scans of small disks."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.block.surface import BLOCK_BYTES, PieceRead
from iowarden.rules.scan import plan
from iowarden.rules.scan.plan import DAY, HOUR, PIECE_BYTES, SEGMENTS, Scan, ScanState

MIB = 1 << 20


def size_of(pieces: int, rest: int = 0) -> int:
    """A disk of so many pieces, and of some blocks beyond."""
    return pieces * PIECE_BYTES + rest * BLOCK_BYTES


class SimulatedDisk:
    """A disk with unreadable blocks, which takes its time over them; the clock of a scan."""

    def __init__(self, size_bytes: int, bad: set[int], bad_seconds: float = 0.5) -> None:
        self.size_bytes = size_bytes
        self.bad = bad
        self.bad_seconds = bad_seconds
        self.now = 0.0
        self.read: list[tuple[int, int]] = []
        self.failed = 0

    def answer(self, batch: plan.ScanBatch) -> list[PieceRead]:
        """Read until the first failure, as the probe does."""
        found = []
        for offset in batch.offsets:
            end = min(offset + batch.length, self.size_bytes)
            blocks = range(offset // BLOCK_BYTES, -(-end // BLOCK_BYTES))
            bad = [block for block in blocks if block in self.bad]
            if bad:
                self.failed += 1
                found.append(PieceRead(offset, self.bad_seconds, errno.EIO, offset))
                break
            self.read.append((offset, end))
            found.append(PieceRead(offset, 0.01))
        return found

    def scanned(self, scan: Scan, most: int = 7, batches: int = 10_000) -> Scan:
        """Go on with a scan; where it must wait, time passes."""
        for _ in range(batches):
            if held := plan.paused_until(scan, self.now):
                self.now = held[0]
                continue
            batch = plan.next_batch(scan, self.now, most)
            if batch is None:
                return plan.completed(scan, self.now)
            self.now += 1.0
            scan = plan.after_reads(scan, batch, self.answer(batch), self.now, alone=True)
            if text := plan.verdict(scan):
                return plan.ended(scan, ScanState.FAILED, text, self.now)
        return scan


def started(size_bytes: int) -> Scan:
    """A scan that begins."""
    return plan.begun(None, size_bytes, 0.0, "")


@given(st.integers(1, 300), st.integers(0, 127), st.integers(1, 40), st.integers(0, 120))
def test_each_piece_is_read_once_also_after_a_kill_at_any_point(
    pieces: int, rest: int, most: int, killed: int
) -> None:
    """What is read before and after a restart is the disk, without overlap."""
    disk = SimulatedDisk(size_of(pieces, rest), set())
    before = disk.scanned(started(disk.size_bytes), most, batches=killed)
    after = before if before.state is ScanState.COMPLETE else disk.scanned(before, most)
    assert after.state is ScanState.COMPLETE
    ends = [0, *(end for _, end in sorted(disk.read))]
    assert [start for start, _ in sorted(disk.read)] == ends[:-1]
    assert ends[-1] == disk.size_bytes
    assert after.bytes_total == disk.size_bytes
    assert plan.progress_ratio(after) == 1.0


def test_a_cluster_is_met_in_the_first_hundredth_of_a_scan() -> None:
    """The first round visits each 128th part of the disk, in its order."""
    size = size_of(128 * 1000)
    first = [plan.offset_at(each, size) for each in range(SEGMENTS + 1)]
    assert first[:3] == [0, 1000 * PIECE_BYTES, 2000 * PIECE_BYTES]
    assert first[SEGMENTS] == PIECE_BYTES
    assert plan.zone_of(size - 1, size) == SEGMENTS - 1


@given(st.sets(st.integers(0, 40 * 128 - 1), max_size=4), st.integers(1, 9))
def test_bad_blocks_are_found_to_the_block_and_only_these(bad: set[int], most: int) -> None:
    """Adjacent ones are one range; all else was read."""
    disk = SimulatedDisk(size_of(40), bad)
    after = disk.scanned(started(disk.size_bytes), most)
    found = {
        at // BLOCK_BYTES
        for start, length in after.bad
        for at in range(start, start + length, BLOCK_BYTES)
    }
    assert after.state is ScanState.COMPLETE
    assert found == bad
    assert len(after.bad) == len(bad) - sum(each + 1 in bad for each in bad)
    assert after.bytes_total == disk.size_bytes - len(bad) * BLOCK_BYTES


def test_one_bad_block_costs_four_failed_reads() -> None:
    """The piece, an eighth of it, an eighth of that, the block: each is retried for seconds."""
    disk = SimulatedDisk(size_of(3), {200})
    after = disk.scanned(started(disk.size_bytes))
    assert disk.failed == 4
    assert len(after.tries_seconds) == 8 + 8 + 2


def test_a_dying_disk_is_not_hammered() -> None:
    """Many bad blocks: at most 64 parts are read in an hour, and 30 s go into failed reads."""
    disk = SimulatedDisk(size_of(2000), set(range(0, 90 * 128 * 20, 128 * 20)), bad_seconds=7.0)
    scan, hours = started(disk.size_bytes), []
    while disk.now < 8 * HOUR and scan.state is ScanState.RUNNING:
        before = disk.failed
        until = disk.now + HOUR
        while disk.now < until and plan.paused_until(scan, disk.now) is None:
            batch = plan.next_batch(scan, disk.now, 8)
            assert batch is not None
            disk.now += 7.0
            scan = plan.after_reads(scan, batch, disk.answer(batch), disk.now, alone=True)
        hours.append(disk.failed - before)
        disk.now = until
    assert max(hours) <= 5  # of 7 s each: the last one may go beyond 30 s
    assert sum(hours) * 7.0 <= 120 + 7  # a day's share
    held = plan.paused_until(scan, disk.now)
    assert held is not None
    assert held[1].startswith("2 min 6 s of the last day went into failed and slow reads")


def test_tries_in_an_hour_are_bounded() -> None:
    """A disk that fails fast: 64 parts, then the scan waits."""
    disk = SimulatedDisk(size_of(40), set(range(0, 40 * 128, 128)), bad_seconds=0.01)
    scan = started(disk.size_bytes)
    while plan.paused_until(scan, disk.now) is None:
        batch = plan.next_batch(scan, disk.now, 8)
        assert batch is not None
        scan = plan.after_reads(scan, batch, disk.answer(batch), disk.now, alone=True)
    held = plan.paused_until(scan, disk.now)
    assert len(scan.tries_seconds) == plan.MAX_TRIES
    assert held == (HOUR, "64 reads of bad areas in the last hour")


def test_eight_ranges_within_ten_megabytes_end_a_scan() -> None:
    """The disk is to be copied and replaced; seven, or eight further apart, do not end it."""
    near = tuple((each * MIB, BLOCK_BYTES) for each in range(8))
    far = tuple((each * 2 * MIB, BLOCK_BYTES) for each in range(8))
    scan = started(size_of(1000))
    assert "copy the data and replace" in plan.verdict(replace(scan, bad=near))
    assert plan.verdict(replace(scan, bad=near[:7])) == ""
    assert plan.verdict(replace(scan, bad=far)) == ""
    many = tuple((each * 20 * MIB, BLOCK_BYTES) for each in range(100))
    assert plan.verdict(replace(scan, bad=many)) == "100 ranges cannot be read: replace the disk"


def test_a_smaller_disk_than_before_is_an_error_that_says_what_to_do() -> None:
    """A disk that was resized, or another one: its old positions mean nothing."""
    scan = started(size_of(10))
    assert plan.check_size(scan, "S1", size_of(10)) == ""
    assert plan.check_size(scan, "S1", size_of(9)) == (
        "disk S1: expected 5242880 bytes, as at the start of the scan, got 4718592: it was resized,"
        " or is another disk; start a new scan: iowarden scan start --restart S1"
    )


def test_a_read_that_hangs_is_found_by_reading_piece_by_piece() -> None:
    """Of a batch it is not known which piece hung; the next ones are read alone, then it is bad."""
    scan = started(size_of(200))
    batch = plan.next_batch(scan, 0.0, 4)
    assert batch is not None
    scan = plan.after_hang(scan, batch, 30.0, 10.0)
    assert (scan.next, scan.bad) == (0, ())
    scan = replace(scan, trouble_seconds=(), troubles=())
    batch = plan.next_batch(scan, 20.0, 4)
    assert batch is not None
    assert len(batch.offsets) == 1
    scan = plan.after_hang(scan, batch, 30.0, 30.0)
    assert scan.bad == ((0, PIECE_BYTES),)
    assert scan.next == 1


def test_an_error_of_the_path_is_no_bad_sector() -> None:
    """A disk that vanished (ENXIO) has read nothing: the piece is read again later."""
    scan = started(size_of(200))
    batch = plan.next_batch(scan, 0.0, 4)
    assert batch is not None
    gone = [PieceRead(0, 0.1, errno.ENXIO, 0)]
    assert plan.after_reads(scan, batch, gone, 1.0, alone=True) == scan


def test_a_scan_that_would_take_more_than_35_days_is_known_after_one_day() -> None:
    """At a tenth in two days it takes 20, at a twentieth 40; the first day says nothing yet."""
    scan = replace(started(size_of(SEGMENTS * 20)), next=2 * SEGMENTS)
    assert not plan.is_too_slow(scan, 2 * DAY)
    assert plan.is_too_slow(replace(scan, next=SEGMENTS), 2 * DAY)
    assert plan.is_too_slow(replace(scan, next=0), 2 * DAY)
    assert not plan.is_too_slow(replace(scan, next=0), DAY / 2)
    assert plan.remaining_seconds(scan, 2 * DAY) == pytest.approx(18 * DAY)


def test_a_zone_that_fell_by_30_percent_is_evidence() -> None:
    """Measured only while nobody else used the disk; a zone with too few reads says nothing."""
    size = size_of(SEGMENTS * 32)
    disk = SimulatedDisk(size, set())
    first = disk.scanned(started(size))
    assert min(first.zones) == pytest.approx(PIECE_BYTES / 0.01)
    second = plan.begun(first, size, 0.0, "")
    assert second.zones == first.zones
    assert plan.slower_zones(second, first.zones) == ()
    slow = [0.0] * SEGMENTS
    sizes = [0] * SEGMENTS
    for zone, seconds in ((3, 0.016), (4, 0.011)):
        sizes[zone], slow[zone] = 32 * PIECE_BYTES, 32 * seconds
    sizes[5], slow[5] = PIECE_BYTES, 1.0
    second = replace(second, zone_bytes=tuple(sizes), zone_seconds=tuple(slow))
    ((zone, ratio),) = plan.slower_zones(second, first.zones)
    assert (zone, round(ratio, 3)) == (3, 0.625)
