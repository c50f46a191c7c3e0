"""Issued and completed requests: what is measured, and what is counted and not measured."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tracing import BOOKWORM, SDA, Page, complete, issue, requeue

from iowarden.daemon.trace import requests
from iowarden.daemon.trace.pages import LOST, TraceEvent
from iowarden.daemon.trace.protocol import ALL_SIZES, DiskTrace, LatencyLine
from iowarden.daemon.trace.requests import Requests, operation, size_class, step, upper_ns

if TYPE_CHECKING:
    from collections.abc import Iterable

START_NS = 1_000_000
NO_SECTOR = 2**64 - 1


def events(*entries: tuple[int, bytes]) -> list[TraceEvent]:
    """Events at times in microseconds after the start."""
    found: list[TraceEvent] = []
    page = Page(stamp=START_NS)
    for (before, _), (at, data) in itertools.pairwise([(0, b""), *entries]):
        page.later((at - before) * 1000).put(data, 0)
    BOOKWORM.decoder().decode(page.bytes(), found.append)
    assert len(found) == len(entries)
    return found


def traced(found: Iterable[TraceEvent], end_us: int = 100_000) -> DiskTrace:
    """What a trace of sda reports of these events."""
    own = Requests({SDA: "8:0"})
    own.take(found)
    (disk,) = own.result(START_NS + end_us * 1000, 0)
    return disk


def total(disk: DiskTrace, name: str) -> LatencyLine:
    """The line of an operation."""
    return next(e for e in disk.latencies if (e.operation, e.size) == (name, ALL_SIZES))


def test_a_request_takes_from_its_issue_to_its_completion() -> None:
    """With who issued it, when, and where."""
    disk = traced(
        events((10, issue(2048, b"RA", sectors=256)), (1210, complete(2048, sectors=256)))
    )
    line = total(disk, "read_ahead")
    assert (line.requests, line.bytes, line.p50_seconds, line.max_seconds) == (
        *(1, 131_072),
        *(0.0012, 0.0012),
    )
    assert line.histogram == ((0.002048, 1),)
    assert disk.latencies[1].size == "<= 256 KiB"
    (slow,) = disk.slowest
    assert (slow.program, slow.pid, slow.rwbs, slow.sector, slow.bytes, slow.at_seconds) == (
        *("postgres", 812, "RA"),
        *(2048, 131_072, 0.00101),
    )
    assert (disk.requests, disk.in_flight, disk.unmatched) == (1, 0, 0)


def test_the_share_of_read_ahead_is_of_reads_alone() -> None:
    """By requests and by bytes; without a read there is no share, not 0."""
    found = events(
        (1, issue(0, b"RA", sectors=24)),
        (2, issue(100, b"R", sectors=8)),
        (3, issue(200, b"WS", sectors=800)),
        (4, complete(0, b"RA", sectors=24)),
        (5, complete(100, b"R", sectors=8)),
        (6, complete(200, b"WS", sectors=800)),
    )
    disk = traced(found)
    assert (disk.read_ahead_requests_ratio, disk.read_ahead_bytes_ratio) == (0.5, 0.75)
    disk = traced([e for e in found if e[3] == 200])
    assert (disk.requests, disk.read_ahead_requests_ratio) == (1, None)


@pytest.mark.parametrize(
    ("letters", "name"),
    [
        (b"R", "read"),
        (b"RM", "read"),
        (b"RSM", "read"),
        (b"RA", "read_ahead"),
        (b"W", "write"),
        (b"WM", "write"),
        (b"WS", "sync_write"),
        (b"WFS", "fua_write"),
        (b"FWFSM", "fua_write"),
        (b"FWS", "sync_write"),
        (b"FF", "flush"),
        (b"F", "flush"),
        (b"FFS", "flush"),
        (b"D", "discard"),
        (b"DS", "discard"),
        (b"DE", "discard"),
        (b"ZA", "write"),
        (b"ZAS", "sync_write"),
        (b"ZR", "other"),
        (b"WZS", "other"),
        (b"N", "other"),
        (b"FN", "other"),
        (b"", "other"),
    ],
)
def test_letters_of_the_kernel_are_an_operation(letters: bytes, name: str) -> None:
    """As blk_fill_rwbs writes them, in kernels up to 6.18."""
    assert operation(letters) == name


@pytest.mark.parametrize(
    ("size_bytes", "name"),
    [
        (0, "none"),
        (512, "<= 4 KiB"),
        (4096, "<= 4 KiB"),
        (4097, "<= 16 KiB"),
        (65_536, "<= 64 KiB"),
        (262_145, "<= 1 MiB"),
        (1 << 20, "<= 1 MiB"),
        ((1 << 20) + 512, "> 1 MiB"),
        (0xFFFF_FE00, "> 1 MiB"),
    ],
)
def test_a_size_belongs_to_one_class(size_bytes: int, name: str) -> None:
    """A discard may have 4 GiB."""
    assert size_class(size_bytes) == name


def test_a_flush_is_matched_although_its_completion_has_another_sector() -> None:
    """Issued with sector 0, completed with the sector that it never had; so are commands."""
    disk = traced(
        events(
            (1, issue(0, b"FF", sectors=0)),
            (2, issue(0, b"R")),
            (3, complete(0, b"R")),
            (9001, complete(NO_SECTOR, b"FF", sectors=0)),
        )
    )
    assert total(disk, "flush").max_seconds == 0.009
    assert [line.size for line in disk.latencies if line.operation == "flush"] == ["all", "none"]
    assert (total(disk, "read").requests, disk.unmatched) == (1, 0)


def test_a_request_that_completes_in_parts_is_one_request() -> None:
    """A medium error in the middle: the rest completes from a later sector on."""
    disk = traced(
        events(
            (0, issue(1000, sectors=64)),
            (100, complete(1000, sectors=16)),
            (30_000, complete(1016, sectors=48, error=-5)),
        )
    )
    line = total(disk, "read")
    assert (line.requests, line.bytes, line.max_seconds) == (1, 32_768, 0.03)
    assert (disk.errors, disk.slowest[0].sector, disk.in_flight) == (1, 1000, 0)


def test_a_returned_request_counts_from_its_last_issue() -> None:
    """The queue of the host was full: that time is not the disk's."""
    disk = traced(events((0, issue(8)), (10, requeue(8)), (5000, issue(8)), (5100, complete(8))))
    assert (disk.requeued, total(disk, "read").max_seconds, disk.unmatched) == (1, 0.0001, 0)
    disk = traced(events((10, requeue(8))))
    assert disk.requeued == 0  # returned before it was issued


def test_a_sector_that_is_used_again_is_a_new_request() -> None:
    """One after the other, each has its own time."""
    disk = traced(
        events((0, issue(8)), (10, complete(8)), (20, issue(8, b"R")), (520, complete(8)))
    )
    assert [each.seconds for each in disk.slowest] == [0.0005, 0.00001]


def test_of_two_requests_at_one_sector_at_one_time_none_is_measured() -> None:
    """The events do not show which of them completed; a write there is another request."""
    disk = traced(
        events(
            (0, issue(8)),
            (1, issue(8)),
            (2, issue(8, b"WS")),
            (10, complete(8)),
            (500, complete(8)),
            (600, complete(8, b"WS")),
        )
    )
    assert [line.operation for line in disk.latencies] == ["sync_write", "sync_write"]
    assert (disk.unmatched, disk.issued_before, disk.in_flight) == (2, 0, 0)


def test_the_rest_of_a_request_may_meet_another_one_at_its_sector() -> None:
    """As any two at one sector: both are counted, none is measured."""
    disk = traced(
        events(
            (0, issue(8, sectors=16)),
            (1, issue(16)),
            (10, complete(8, sectors=8)),
            (20, complete(16)),
            (30, complete(16)),
        )
    )
    assert (disk.requests, disk.unmatched, disk.issued_before, disk.in_flight) == (0, 2, 0, 0)


def test_two_that_still_share_a_sector_at_the_end_are_in_flight() -> None:
    """Both; how long each waits is not known."""
    disk = traced(events((0, issue(8)), (1, issue(8)), (2, issue(8)), (3, complete(8))))
    assert (disk.in_flight, disk.waiting, disk.unmatched) == (2, (), 1)


def test_what_completes_without_an_issue_was_issued_before_the_trace() -> None:
    """Counted, and not measured."""
    disk = traced(events((5, complete(8)), (6, complete(NO_SECTOR, b"FF", sectors=0))))
    assert (disk.requests, disk.issued_before, disk.unmatched) == (0, 2, 0)


def test_a_disk_that_hangs_shows_who_waits() -> None:
    """Nothing completes; the oldest comes first, with its time until the end of the trace."""
    found = events(*((at, issue(8 * at, b"WS")) for at in range(1, 31)))
    disk = traced(found, end_us=3_000_000)
    assert (disk.requests, disk.in_flight, len(disk.waiting)) == (0, 30, requests.SLOWEST)
    assert disk.waiting[0].seconds == 2.999999
    assert (disk.waiting[0].sector, disk.waiting[0].operation) == (8, "sync_write")


def test_after_lost_events_nothing_is_reported_as_in_flight() -> None:
    """A completion may be among the lost: its sector, used again, would seem to take for ever."""
    before = events((0, issue(8)), (1, issue(16)), (2, issue(16)))
    after = events((2_000_000, complete(8)), (2_000_001, issue(24)), (2_000_100, complete(24)))
    disk = traced([*before, (START_NS + 50_000, LOST), *after, *events((3_000_000, issue(32)))])
    assert [each.seconds for each in disk.slowest] == [0.000099]
    assert (disk.unmatched, disk.issued_before) == (4, 0)
    assert (disk.in_flight, disk.waiting) == (None, ())


def test_requests_of_other_disks_are_left_out() -> None:
    """Of two disks that are traced, each has its own."""
    found = events(
        (0, issue(8)),
        (1, issue(8, device=SDA + 16)),
        (2, issue(8, device=SDA + 32)),
        (30, complete(8, device=SDA + 16)),
        (40, complete(8)),
        (50, complete(8, device=SDA + 32)),
    )
    own = Requests({SDA: "8:0", SDA + 16: "8:16"})
    own.take(found)
    first, second = own.result(START_NS, 0, gone=["8:16"])
    assert [each.slowest[0].seconds for each in (first, second)] == [0.00004, 0.000029]
    assert [each.vanished for each in (first, second)] == [False, True]


def test_the_name_of_a_program_may_have_any_bytes() -> None:
    """prctl(PR_SET_NAME) takes what it gets; 15 bytes may also end within a letter."""
    odd = "böse\n".encode() + b"\x1b[31m\xff"
    disk = traced(events((0, issue(8, comm=odd)), (5, complete(8))))
    assert disk.slowest[0].program == "böse\n\x1b[31m\\xff"


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """More requests in flight than that are counted, not held."""
    monkeypatch.setattr(requests, "MAX_IN_FLIGHT", 2)
    disk = traced(
        events((0, issue(8)), (1, issue(16)), (2, issue(24)), (3, complete(8)), (4, complete(16)))
    )
    assert (disk.requests, disk.unmatched, disk.in_flight) == (2, 1, 0)


def test_only_the_ten_slowest_are_named() -> None:
    """In order, whenever they came."""
    pairs = [
        entry
        for n, wait in enumerate([5, 900, 20, 3, 700, 44, 31, 8, 60, 71, 12, 2, 90])
        for entry in ((n * 1000, issue(8 * n)), (n * 1000 + wait, complete(8 * n)))
    ]
    shown = [round(each.seconds * 1e6) for each in traced(events(*pairs)).slowest]
    assert shown == [900, 700, 90, 71, 60, 44, 31, 20, 12, 8]


@pytest.mark.parametrize(("reads", "shown"), [(2, 2), (8, 5)])
def test_of_the_slowest_some_are_reads_also_where_writeback_is_slower(
    reads: int, shown: int
) -> None:
    """A program waits for each read, and for none of the hundred writes in the queue."""
    pairs = [
        entry
        for n in range(20 + reads)
        for kind, wait in [(b"W", 900 - n) if n < 20 else (b"RA", n)]
        for entry in (
            (n * 1000, issue(8 * n, kind)),
            (n * 1000 + wait, complete(8 * n, kind)),
        )
    ]
    slowest = traced(events(*pairs)).slowest
    assert [each.operation for each in slowest] == ["write"] * (10 - shown) + ["read_ahead"] * shown
    assert [each.seconds for each in slowest] == sorted(
        (each.seconds for each in slowest), reverse=True
    )
    assert slowest[-shown].seconds == round((20 + reads - 1) * 1e-6, 9)


@given(st.integers(0, 10**11))
def test_a_step_of_the_histogram_holds_its_latency_within_3_percent(latency_ns: int) -> None:
    """And steps rise with the latency."""
    number = step(latency_ns)
    assert latency_ns < upper_ns(number) <= max(latency_ns * 33 / 32 + 125, 125)
    assert step(upper_ns(number)) == number + 1


@given(st.lists(st.integers(0, 10**10), min_size=1, max_size=60))
def test_percentiles_are_those_of_the_latencies(latencies: list[int]) -> None:
    """Within 3 %, never above the slowest; the histogram counts each once, at its doubling."""
    own = Requests({SDA: "8:0"})
    for n, wait in enumerate(latencies):
        own.take([(0, 1, SDA, n, 8, 4096, b"R\0", 1, b"a\0"), (wait, 2, SDA, n, 8, 0, b"R\0")])
    (disk,) = own.result(0, 0)
    line = total(disk, "read")
    ranked = sorted(latencies)
    for ratio, shown in ((50, line.p50_seconds), (90, line.p90_seconds), (99, line.p99_seconds)):
        true = ranked[-(-ratio * len(ranked) // 100) - 1] / 1e9
        assert true - 1e-12 <= shown <= true * 33 / 32 + 125e-9
    assert line.max_seconds == ranked[-1] / 1e9
    for limit, count in line.histogram:
        least = limit / 2 if limit > 1e-6 else -1
        assert count == sum(least <= each / 1e9 < limit for each in latencies)
