"""New entries of a log, with and without numbers: a ring of lines, polled at intervals."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.tiers import examples

from iowarden.collectors.raid.log_alignment import (
    MAX_ENTRIES,
    LogCursor,
    align,
    align_numbered,
    recalled,
)

if TYPE_CHECKING:
    from iowarden.collectors.raid.log_alignment import Entry, NumberedEntries


def known(*lines: str, at: float = 0.0) -> NumberedEntries:
    """Return a listing of lines, one second apart."""
    return align(None, entries(*lines, at=at)).known


def entries(*lines: str, at: float = 0.0) -> list[Entry]:
    """Return entries, one second apart."""
    return [(at + second, line) for second, line in enumerate(lines)]


def test_what_a_log_has_at_first_sight_is_not_new() -> None:
    """Years of a controller's log are a baseline."""
    found = align(None, entries("Reading Error", "Raid Powered On"))
    assert (found.new, found.gap, len(found.known)) == (0, "", 2)


def test_equal_lines_of_one_second_are_each_an_event() -> None:
    """A controller with failing memory writes the same line several times a second."""
    before = align(None, [(1.0, "Raid Powered On"), (5.0, "DRAM Fatal Error")]).known
    now: list[Entry] = [(1.0, "Raid Powered On"), *([(5.0, "DRAM Fatal Error")] * 3)]
    found = align(before, now)
    assert (found.new, found.gap) == (2, "")
    assert [number for *_, number in found.known] == [0, 0, 1, 2]


def test_the_oldest_that_fall_out_of_the_ring_do_not_matter() -> None:
    """The ring wrapped by two."""
    found = align(known("a", "b", "c", "d"), [*entries("a", "b", "c", "d", "e", "f")[2:]])
    assert (found.new, found.gap) == (2, "")
    assert [text for _, text, _ in found.known] == ["c", "d", "e", "f"]


def test_more_events_than_the_ring_holds_are_a_gap() -> None:
    """No former entry is left: all are new, and more may have been lost."""
    found = align(known("a", "b"), entries("x", "y", at=100))
    assert found.new == 2
    assert "cleared or overwritten" in found.gap


def test_a_cleared_log_is_a_gap_once() -> None:
    """Empty is not 'no problem'; a second empty listing is not reported again."""
    found = align(known("a", "b"), [])
    assert (found.new, found.known) == (0, ())
    assert "cleared" in found.gap
    assert align(found.known, []).gap == ""


def test_a_log_cleared_between_two_looks_is_a_gap() -> None:
    """Its first new entries are reported; the entries before the clearing are unknown."""
    found = align(known("a", "b", "c"), entries("d", at=50))
    assert found.new == 1
    assert "cleared" in found.gap


def test_a_listing_cut_short_forgets_nothing() -> None:
    """The complete listing afterwards has only the new ones."""
    before = known("a", "b", "c")
    cut = align(before, entries("a", "b"))
    assert (cut.new, cut.known) == (0, before)
    assert "it was truncated" in cut.gap
    assert align(cut.known, entries("a", "b", "c", "d")).new == 1


def test_a_clock_set_back_changes_nothing() -> None:
    """A board without a battery restarts in the year 2000; the order of the lines counts."""
    before: list[Entry] = [(1e9, "Raid Powered On"), (1e9 + 5, "Reading Error")]
    found = align(align(None, before).known, [*before, (946_684_800.0, "Raid Powered On")])
    assert (found.new, found.gap) == (1, "")


def test_each_boot_of_a_board_without_a_clock_has_a_number_of_its_own() -> None:
    """Equal lines remain separate, also when the first ones have left the ring."""
    boot: Entry = (946_684_805.0, "Raid Powered On")
    first = align(None, [boot, (1e9, "a"), boot, (1e9 + 9, "b")])
    second = align(first.known, [(1e9, "a"), boot, (1e9 + 9, "b"), boot])
    assert (second.new, second.gap) == (1, "")
    assert second.known[-1] == (*boot, 2)


def test_entries_that_all_equal_each_other_are_not_counted_with_certainty() -> None:
    """Three in a ring of three: one is new, or all are."""
    line: Entry = (7.0, "DRAM Fatal Error")
    before: list[Entry] = [(6.0, "a"), line, line]
    assert "the number of new ones is uncertain" in align(align(None, before).known, [line] * 3).gap
    assert align(align(None, before).known, [*before, line], capacity=256).gap == ""


def test_a_log_of_ten_megabytes_is_compared_by_its_end() -> None:
    """The newest lines are enough, and are fast to compare."""
    lines = entries(*(f"line {n % 7}" for n in range(150_000)))
    before = align(None, lines)
    assert len(before.known) == MAX_ENTRIES
    found = align(before.known, [*lines, *entries("x", "y", at=1e6)])
    assert (found.new, found.gap) == (2, "")


def test_what_is_stored_as_json_compares_as_before() -> None:
    """The listing survives a restart."""
    cursor = LogCursor(known("a", "b"), "X1")
    found = recalled(json.loads(json.dumps([cursor.listing, cursor.serial])))
    assert found == cursor
    assert align(found.listing, entries("a", "b")).new == 0


@pytest.mark.parametrize("listing", [None, 5, ["a"], [[1, "a"]], [["x", "a", 0]], [[1, "a", None]]])
def test_what_is_no_listing_is_refused(listing: object) -> None:
    """A damaged file is not an empty log."""
    with pytest.raises(ValueError, match="expected"):
        recalled([listing, ""])
    with pytest.raises(ValueError, match="expected"):
        recalled(listing)


STREAMS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.booleans(), st.integers(0, 30)),
    max_size=60,
)


@settings(max_examples=examples(200))
@given(STREAMS, st.integers(1, 9), st.booleans())
@example([(1, "a", True, 9), (0, "a", False, 9), (0, "a", True, 9)], 3, False)
def test_nothing_new_is_lost_or_doubled_unless_a_gap_is_reported(
    stream: list[tuple[int, str, bool, int]], size: int, size_is_known: bool
) -> None:
    """Any events, any ring, any polling, now and then a cleared log.

    Excluded is what cannot be detected: a ring refilled with its former content, and a log that is
    cleared and filled with the same within one second.
    """
    ring: list[tuple[int, Entry]] = []
    before: NumberedEntries | None = None
    second, told = 0, 0
    seen: list[tuple[int, Entry]] = []
    for number, (later, text, poll, clear) in enumerate(stream):
        if clear == 0:
            ring.clear()
            second += 1
        second += later
        ring = [*ring, (number, (float(second), text))][-size:]
        if not poll:
            continue
        listing = [entry for _, entry in ring]
        found = align(before, listing, size if size_is_known else None)
        expected = [each for each in ring if each[0] >= told]
        hidden = [entry for _, entry in seen] == listing and seen != ring
        if before is not None and not found.gap and not hidden:
            assert expected[0][0] == told if expected else True
            assert len(ring) - found.new == len(ring) - len(expected)
        assert 0 <= found.new <= len(listing)
        assert [(moment, line) for moment, line, _ in found.known] == listing or found.gap
        assert len(set(found.known)) == len(found.known)
        before, told, seen = found.known, number + 1, list(ring)


def numbered(*numbers: int, at: float = 0.0) -> NumberedEntries:
    """Return a listing of entries with these numbers, one second apart."""
    return tuple((at + second, f"event {n}", n) for second, n in enumerate(numbers))


def test_what_a_numbered_log_has_at_first_sight_is_not_new() -> None:
    """Years of a controller's log are a baseline; an empty one is, too."""
    assert (align_numbered(None, numbered(7, 8)).new, align_numbered(None, ()).gap) == (0, "")
    assert align_numbered((), numbered(0, 1)).new == 2


def test_entries_with_higher_numbers_are_new_however_long_the_listing_is() -> None:
    """A listing of the newest few, and a longer one that reaches further back."""
    before = align_numbered(None, numbered(5, 6, 7)).known
    for listing in (numbered(7, 8, 9, at=2), numbered(3, 4, 5, 6, 7, 8, 9, at=-2)):
        found = align_numbered(before, listing)
        assert (found.new, found.gap) == (2, "")
    # Those that follow at once need no entry in common.
    assert align_numbered(before, numbered(8, 9, at=3)).gap == ""


def test_a_listing_that_does_not_reach_back_is_a_gap() -> None:
    """More were added than are listed: all listed ones are reported, and some are lost."""
    found = align_numbered(numbered(5, 6, 7), numbered(90, 91, at=80))
    assert found.new == 2
    assert "after 7 are missing" in found.gap


def test_numbers_that_go_back_are_a_log_that_was_cleared() -> None:
    """All its entries are new, once."""
    found = align_numbered(numbered(700, 701), numbered(0, 1, at=50))
    assert found.new == 2
    assert "its numbering restarted" in found.gap
    again = align_numbered(found.known, numbered(0, 1, at=50))
    assert (again.new, again.gap) == (0, "")


def test_numbers_that_stand_at_other_entries_are_a_log_that_was_cleared() -> None:
    """It was cleared, and has more entries now than before."""
    found = align_numbered(numbered(0, 1, 2), numbered(0, 1, 2, 3, at=50))
    assert found.new == 4
    assert "its numbering restarted" in found.gap


def test_a_listing_that_lacks_its_newest_entries_forgets_nothing() -> None:
    """It was truncated; the next one has only the new ones."""
    before = numbered(5, 6, 7)
    found = align_numbered(before, numbered(5, 6))
    assert (found.new, found.known) == (0, before)
    assert "no longer listed" in found.gap
    assert align_numbered(found.known, numbered(5, 6, 7, 8)).new == 1


def test_a_numbered_log_that_is_empty_is_a_gap_once() -> None:
    """Empty is not 'no problem'."""
    found = align_numbered(numbered(5, 6), ())
    assert (found.new, found.known) == (0, ())
    assert "empty" in found.gap
    assert align_numbered(found.known, ()).gap == ""


def test_numbers_go_on_behind_the_last_one_there_is() -> None:
    """They have 32 bits."""
    last = 2**32 - 1
    found = align_numbered(numbered(last - 1, last), numbered(last, 0, 1, at=1))
    assert (found.new, found.gap) == (2, "")
    assert align_numbered(numbered(last - 1, last), numbered(0, 1, at=2)).gap == ""


def test_entries_without_a_time_are_reported_by_their_numbers() -> None:
    """Until the host has set the clock; a text that another version rephrases is no new entry."""
    before = ((None, "Battery Present", 5), (None, "started", 6))
    now = ((None, "Battery present", 5), (None, "started", 6), (9.0, "a", 7))
    found = align_numbered(before, now)
    assert (found.new, found.gap) == (1, "")


NUMBERED = st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.integers(0, 20)), max_size=60)


@settings(max_examples=examples(100))
@given(NUMBERED, st.integers(1, 9), st.integers(0, 2**32 - 1))
@example([(1, True, 9), (0, True, 0), (3, True, 9)], 9, 2**32 - 2)
def test_no_numbered_entry_is_lost_or_doubled_unless_a_gap_is_reported(
    stream: list[tuple[int, bool, int]], size: int, first: int
) -> None:
    """Any events, any listing, any polling, now and then a log that is cleared.

    Excluded is what cannot be detected: a cleared log whose numbers pass the former ones before the
    next poll.
    """
    log: list[tuple[float, str, int]] = []
    number, second = first, 0.0
    before: NumberedEntries | None = None
    told: list[str] = []
    happened: list[str] = []
    cleared = False
    for come, poll, clear in stream:
        if clear == 0:
            log, number, cleared = [], 0, True
        for _ in range(come):
            second += 1
            text = f"event {second}"
            log.append((second, text, number))
            happened.append(text)
            number = (number + 1) % 2**32
        if not poll:
            continue
        found = align_numbered(before, tuple(log[-size:]))
        new = [text for _, text, _ in found.known[len(found.known) - found.new :]]
        if before is None:
            told = list(happened)  # the baseline
        assert not set(new) & set(told)
        hidden = cleared and before is not None and (not before or number > before[-1][2])
        if before is not None and not found.gap and not hidden:
            assert set(happened) == {*told, *new}
        told, before, cleared = list(happened), found.known, False
