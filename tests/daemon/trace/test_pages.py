"""Pages of the kernel's trace buffer, of several kernels, and broken ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tracing import (
    BOOKWORM,
    NARROW,
    NEWER,
    PAGE_BYTES,
    SDA,
    TRIXIE,
    Kernel,
    Page,
    complete,
    issue,
    requeue,
)

from iowarden.collectors.model import ParseError
from iowarden.daemon.trace.formats import parse_event, parse_page_header
from iowarden.daemon.trace.pages import COMPLETE, ISSUE, LOST, REQUEUE, TraceEvent


def decoded(page: bytes, kernel: Kernel = BOOKWORM) -> tuple[list[TraceEvent], int]:
    """The events of a page, letters without what follows their end, and the number of lost ones."""
    events: list[TraceEvent] = []
    lost = kernel.decoder().decode(page, events.append)
    return [
        tuple(e.partition(b"\0")[0] if isinstance(e, bytes) else e for e in event)
        for event in events
    ], lost


@pytest.mark.parametrize("kernel", [BOOKWORM, TRIXIE, NEWER, NARROW])
def test_each_kernel_lays_out_its_events_in_its_own_way(kernel: Kernel) -> None:
    """The offsets come from the format files; old memory after the letters is not read."""
    page = Page(kernel, stamp=5_000_000)
    page.put(issue(2048, b"RA", kernel=kernel)).put(requeue(2048, b"RA", kernel=kernel), 500)
    page.put(complete(2048, b"RA", error=-5, kernel=kernel), 250)
    assert decoded(page.bytes(), kernel) == (
        [
            (5_001_000, ISSUE, SDA, 2048, 8, 4096, b"RA", 812, b"postgres"),
            (5_001_500, REQUEUE, SDA, 2048, b"RA"),
            (5_001_750, COMPLETE, SDA, 2048, 8, -5, b"RA"),
        ],
        0,
    )


def test_a_field_that_comes_earlier_in_another_kernel_is_still_the_same_field() -> None:
    """The order of fields is the kernel's, that of our events is ours."""
    text = (
        "name: block_rq_requeue\nID: 7\nformat:\n"
        "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
        "\tfield:char rwbs[4];\toffset:2;\tsize:4;\tsigned:0;\n"
        "\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n"
        "\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n"
    )
    read = parse_event(text, "block_rq_requeue").reader(("sector", "rwbs"))
    data = b"\x07\x00FWS\x00".ljust(16, b"\xff") + (2048).to_bytes(8, "little")
    assert read(b"----" + data, 4) == (2048, b"FWS\0")


def test_time_goes_on_over_pauses_discarded_events_and_absolute_times() -> None:
    """A pause over 0.13 s needs an entry of its own; a discarded event has taken its time."""
    page = Page(stamp=10).later(3_000_000_000).put(issue(8), 5).discarded(100).put(complete(8), 1)
    page.at(1 << 50).put(issue(16), 2)
    events, _ = decoded(page.bytes())
    assert [event[0] for event in events] == [3_000_000_015, 3_000_000_116, (1 << 50) + 2]


def test_the_upper_bits_of_an_absolute_time_are_those_of_the_page() -> None:
    """59 bits are 18 years: a clock beyond them does not go back."""
    page = Page(stamp=3 << 59).at((3 << 59) + 1000).put(issue(8), 1)
    assert decoded(page.bytes())[0][0][0] == (3 << 59) + 1001


def test_a_long_event_has_its_length_in_a_word_of_its_own() -> None:
    """As events over 112 bytes have, and any may."""
    events, _ = decoded(Page().put(issue(8), long=True).put(complete(8)).bytes())
    assert [event[1] for event in events] == [ISSUE, COMPLETE]


def test_nothing_is_read_beyond_the_committed_bytes_or_the_final_padding() -> None:
    """What follows belongs to an earlier use of the page."""
    page = Page().put(issue(8)).entry(29, 0, (8).to_bytes(4, "little") + bytes(4)).put(issue(16))
    assert len(decoded(page.bytes())[0]) == 1
    page = Page().put(issue(8))
    tail = bytes(Page().put(issue(16)).data)
    raw = page.bytes()
    end = 16 + len(page.data)
    assert len(decoded(raw[:end] + tail + raw[end + len(tail) :])[0]) == 1


@pytest.mark.parametrize(("lost", "least"), [(17, 17), (None, 1)])
def test_lost_events_are_counted_and_stand_in_their_place(lost: int | None, least: int) -> None:
    """A full page has no room for their number: then at least one was lost."""
    assert decoded(Page(stamp=70).put(issue(8), 0).bytes(lost)) == (
        [(70, LOST), (70, ISSUE, SDA, 8, 8, 4096, b"R", 812, b"postgres")],
        least,
    )
    page = Page(NARROW, stamp=70).put(issue(8, kernel=NARROW))
    assert decoded(page.bytes(lost), NARROW)[1] == least


def test_an_event_of_another_kind_is_passed_over() -> None:
    """Such as one that an administrator enabled in this instance."""
    strange = bytearray(issue(8))
    strange[:2] = (77).to_bytes(2, "little")
    events, _ = decoded(Page().put(bytes(strange)).put(complete(8)).bytes())
    assert [event[1] for event in events] == [COMPLETE]


@pytest.mark.parametrize(
    ("page", "error"),
    [
        (b"", "page of the trace buffer"),
        ((0).to_bytes(8, "little") + (5000).to_bytes(8, "little") + bytes(100), "got 5016"),
        (Page().entry(0, 1, b"\x02\0\0\0" + bytes(20)).bytes(), "expected an event, got 2 bytes"),
        (Page().entry(28, 1, bytes(8)).bytes(), "an event ends at"),
    ],
)
def test_a_page_that_breaks_the_grammar_is_an_error(page: bytes, error: str) -> None:
    """Never a guess: the numbers of a trace would be wrong."""
    with pytest.raises(ParseError, match=error):
        decoded(page)


@given(st.binary(max_size=200))
def test_whatever_a_page_holds_reading_it_ends(data: bytes) -> None:
    """With events, or with the one error."""
    page = (0).to_bytes(8, "little") + len(data).to_bytes(8, "little") + data
    try:
        decoded(page.ljust(PAGE_BYTES, b"\0"))
    except ParseError as error:
        assert "page of the trace buffer" in str(error)  # noqa: PT017 - some data has no error


def test_a_format_without_a_field_that_is_needed_is_named() -> None:
    """A kernel that renames 'sector' is not supported, which the error names."""
    text = BOOKWORM.format(COMPLETE, 9).replace("sector_t sector", "sector_t place")
    with pytest.raises(ParseError, match="block_rq_complete: expected field 'sector'"):
        parse_event(text, "block_rq_complete").reader(("dev", "sector"))
    with pytest.raises(ParseError, match="expected an integer, got 'sector'"):
        parse_event(
            BOOKWORM.format(COMPLETE, 9).replace("size:8;", "size:16;"), "block_rq_complete"
        ).reader(("dev", "sector"))
    with pytest.raises(ParseError, match="'ID: <number>'"):
        parse_event("name: x\n", "x")
    with pytest.raises(ParseError, match="header_page: expected a field 'commit'"):
        parse_page_header(BOOKWORM.header().replace("commit", "committed"))
    with pytest.raises(ParseError, match="expected timestamp, commit and data"):
        parse_page_header(BOOKWORM.header().replace("offset:8;", "offset:12;"))
