"""Storage events in history.db: stored for years, found again, and never blocking anything."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from iowarden.daemon.clock import PLAUSIBLE_SECONDS
from iowarden.daemon.control.documents import EventLine, EventQuery
from iowarden.daemon.storage import event_rows, history_db, sqlite
from iowarden.daemon.storage.event_rows import EventFilter
from iowarden.daemon.storage.history_db import History, Written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEADLINE_SECONDS = 20.0
START = 1_800_000_000.0
YEAR = 366 * 86_400.0
MANY = 1_000_000


def wanted(last: int = MANY, **asked: Any) -> EventFilter:  # noqa: ANN401 - as EventQuery takes them
    """Return a filter for events: without a limit, unless a test sets one."""
    return EventFilter(EventQuery(last, **asked))


ALL = wanted()


def row(number: int = 0, **changed: object) -> EventLine:
    """Return a kernel event of a disk, one second after the previous one."""
    made = EventLine(
        START + number, "warning", f"I/O error, dev sda, sector {number}",
        "sda (ACME DISK-9, serial WD-1)", "3f2a9c01de", "kernel", "block_io_error", "sda", "WD-1",
        key=f"k{number}",
    )  # fmt: skip
    return replace(made, **changed)  # type: ignore[arg-type]  # any field


@contextlib.contextmanager
def opened(path: Path, **options: float) -> Iterator[tuple[History, queue.Queue[object]]]:
    """Run the thread that stores; events queued before its end are stored."""
    answers: queue.Queue[object] = queue.Queue()
    kept = History(str(path), answers.put, **options)  # type: ignore[arg-type]
    try:
        yield kept, answers
    finally:
        kept.close(DEADLINE_SECONDS)


def keep(path: Path, *rows: EventLine, **options: float) -> None:
    """Store events, and end."""
    with opened(path, **options) as (kept, _):
        kept.store_events(rows)


def found(path: Path, wanted: EventFilter = ALL) -> list[EventLine]:
    """Return the stored events."""
    return event_rows.read(str(path), wanted)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a history may be stored; the directory does not exist yet."""
    return tmp_path / "state" / "history.db"


def test_what_the_kernel_reported_is_there_after_a_restart_the_newest_last(path: Path) -> None:
    """Stored in any order, read in order of time."""
    rows = [row(2, source="areca", text="Channel 2: Reading Error", count=7), row(0), row(1)]
    keep(path, *rows)
    assert found(path) == [rows[1], rows[2], rows[0]]
    assert found(path, wanted(last=2)) == [rows[2], rows[0]]


def test_an_event_that_is_reported_again_after_a_kill_is_the_same_row(path: Path) -> None:
    """By its key: the later text and count win, in one batch and over two."""
    keep(path, row(), row(count=10))
    assert found(path) == [row(count=10)]
    keep(path, row(count=100), row(1))
    assert found(path) == [row(count=100), row(1)]


def test_events_are_found_by_what_somebody_asks_for(path: Path) -> None:
    """By time, incident or its beginning, source, and minimum severity."""
    rows = [
        row(0, severity="info"),
        row(1, severity="notice", source="md", incident=""),
        row(2, incident="3f99999999"),
        row(3, severity="critical", source="areca", incident="aa"),
    ]
    keep(path, *rows)

    def numbers(**asked: object) -> list[int]:
        return [rows.index(each) for each in found(path, wanted(**asked))]

    assert numbers(since_seconds=START + 1, until_seconds=START + 2) == [1, 2]
    assert numbers(incident="3f2a9c01de") == [0]
    assert numbers(incident="3f") == [0, 2]
    assert numbers(incident="b") == []
    assert numbers(source="md") == [1]
    assert numbers(severity="warning") == [2, 3]
    assert numbers(severity="notice") == [1, 2, 3]
    assert numbers(severity="critical", incident="3f") == []
    assert numbers(last=1, severity="notice", until_seconds=START + 2) == [2]


def test_an_event_with_a_word_that_nobody_knows_is_never_left_out(path: Path) -> None:
    """A severity of a later version, or none at all, needs attention, whatever the filter."""
    keep(path, row(0, severity="dire"), row(1, severity=""), row(2, severity="info"))
    assert [e.severity for e in found(path, wanted(severity="critical"))] == [
        "dire",
        "",
    ]


def test_a_disk_has_its_events_whatever_it_is_called_now(path: Path) -> None:
    """WD-1 was sdb, and sda was another one: by serial number; by name only if there is none."""
    rows = [
        row(0, device="sdb"),
        row(1, device="sda", disk="OLD-7"),
        row(2, device="sda", disk=""),
        row(3, device="", disk="", object=""),
        row(4, device="md0", disk="", object="md0"),
    ]
    keep(path, *rows)
    about = replace(wanted(disk="WD-1"), devices=("sda",))
    assert found(path, about) == [rows[0], rows[2]]
    assert found(path, wanted(disk="wd")) == [rows[0]], "of long ago, by its beginning"
    assert found(path, wanted(disk="md0")) == [rows[4]]
    assert found(path, wanted(disk="sda")) == [rows[1], rows[2]]
    assert found(path, wanted(disk="sdz")) == []


_TEXT = st.text(st.characters(exclude_categories=()), max_size=30)
_NUMBER = st.floats(allow_nan=True, allow_infinity=True).filter(
    lambda at: not PLAUSIBLE_SECONDS <= at < time.time() - event_rows.MAX_AGE_SECONDS
)
"""Any time except an old one, which is deleted."""


@given(st.lists(st.builds(EventLine, _NUMBER, *(_TEXT,) * 8, st.integers(), _TEXT), max_size=5))
@settings(max_examples=40, phases=(Phase.generate,))  # a thread and a file for each
def test_whatever_a_controller_sends_is_kept(
    tmp_path_factory: pytest.TempPathFactory, rows: list[EventLine]
) -> None:
    """Surrogates, controls, quotes, invalid times, huge counts: a row each, and no error."""
    path = tmp_path_factory.mktemp("any") / "history.db"
    with opened(path) as (kept, answers):
        kept.store_events(rows)
        assert kept.close(DEADLINE_SECONDS)
        assert not [a for a in list(answers.queue) if isinstance(a, Written)], "an error is told"
    if rows:
        keys = {sqlite.encodable(each.key) for each in rows}
        assert {each.key for each in found(path)} == keys


def test_a_text_without_end_is_cut(path: Path) -> None:
    """A controller may send a megabyte; the file does not grow by it."""
    keep(path, row(text="x" * 1_000_000, object="y" * 1_000_000))
    (kept,) = found(path)
    assert len(kept.text) == event_rows.MAX_TEXT_CHARACTERS
    assert len(kept.object) == event_rows.MAX_NAME_CHARACTERS


def test_what_is_older_than_three_years_goes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the log of a controller that reaches back for years, also if read as a baseline."""
    monkeypatch.setattr(event_rows.time, "time", lambda: START + 4 * YEAR)
    old, newer = row(0), row(1, at_seconds=START + 2 * YEAR)
    keep(path, old)
    keep(path, newer)
    assert found(path) == [old, newer]
    keep(path, row(2, at_seconds=START + 4 * YEAR))
    assert found(path) == [newer, row(2, at_seconds=START + 4 * YEAR)]


def test_an_event_of_the_next_century_deletes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller with an empty battery reports the year 2099, another one the year 1970."""
    monkeypatch.setattr(event_rows.time, "time", lambda: START + 10)
    rows = [row(0, at_seconds=5.0), row(1), row(2, at_seconds=START + 80 * YEAR)]
    keep(path, *rows)
    keep(path, row(3))
    assert found(path) == [rows[0], rows[1], row(3), rows[2]]


def test_of_too_many_events_the_oldest_go_a_bounded_number_at_a_time(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A storm of years: the file holds up to the limit, and no write deletes all at once."""
    monkeypatch.setattr(event_rows, "MAX_EVENTS", 100)
    monkeypatch.setattr(event_rows, "_SLACK", 10)
    monkeypatch.setattr(event_rows, "_PRUNED_AT_ONCE", 20)
    keep(path, *(row(number) for number in range(300)))
    assert len(found(path)) == 100
    for number in range(300, 400):
        keep(path, row(number))
    rows = found(path)
    assert len(rows) <= 111
    assert rows == [row(number) for number in range(400 - len(rows), 400)]
    monkeypatch.setattr(event_rows, "MAX_EVENTS", 10)
    keep(path, row(400))
    assert len(found(path)) == len(rows) + 1 - 21


def test_a_file_that_is_too_large_loses_events_before_what_drives_reported(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The events of a storm are deleted first; the newest of them stay while days can go."""
    monkeypatch.setattr(event_rows, "MIN_EVENTS", 50)
    with opened(path, max_bytes=16_000_000 + 400_000) as (kept, _):
        kept.store_drives(START, [("WD-1", "pending", 1.0, True)])
        kept.store_drives(START, [("WD-1", "hours", 1.0, False)])
        for begin in range(0, 4000, 500):
            kept.store_events([row(number, text="x" * 900) for number in range(begin, begin + 500)])
    rows = found(path)
    assert 50 <= len(rows) < 1000
    assert rows[-1].key == "k3999"
    assert history_db.read(str(path), "WD-1", "hours") == [(START, 1.0)]


def test_a_tiny_allowance_is_kept_even_by_the_last_events(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the newest events is left, and they are too many: they are deleted as well."""
    with opened(path, max_bytes=16_000_000 + 100_000) as (kept, _):
        kept.store_events([row(number, text="x" * 900) for number in range(1000)])
    assert 0 < len(found(path)) < 200


# --- an older file, a failing disk


def test_what_waits_is_bounded_and_the_oldest_is_given_up_and_counted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk hangs during a storm: nothing waits for it, and of queued events the newest stay."""
    hung, release = threading.Event(), threading.Event()
    really = sqlite.opened

    def hang(name: str, kind: sqlite.DatabaseKind) -> tuple[sqlite.Database, str]:
        hung.set()
        assert release.wait(DEADLINE_SECONDS)
        return really(name, kind)

    monkeypatch.setattr(sqlite, "opened", hang)
    monkeypatch.setattr(history_db, "MAX_WAITING_EVENTS", 100)
    with opened(path) as (kept, _):
        kept.store_events([row()])
        assert hung.wait(DEADLINE_SECONDS)
        for begin in range(1, 301, 50):
            kept.store_events([row(number) for number in range(begin, begin + 50)])
        kept.store_events([row(250, count=9)])  # reported again: it is one of those that wait
        assert kept.lost_total == 200
        release.set()
    kept_rows = found(path)
    assert {each.key for each in kept_rows} == {"k0", *(f"k{n}" for n in range(201, 301))}
    assert [each.count for each in kept_rows if each.key == "k250"] == [9]


def test_events_of_a_write_that_failed_are_kept_with_the_next(tmp_path: Path) -> None:
    """The directory is missing for a while: an event reported twice is there, once."""
    blocked = tmp_path / "state"
    blocked.write_text("")
    with opened(blocked / "history.db", retry_seconds=0.01) as (kept, answers):
        kept.store_events([row(0), row(1)])
        answer = answers.get(timeout=DEADLINE_SECONDS)
        assert isinstance(answer, Written)
        assert "history cannot be written: " in answer.error
        kept.store_events([row(1, count=5), row(2)])
        blocked.unlink()
    assert found(blocked / "history.db") == [row(0), row(1, count=5), row(2)]


def test_where_nothing_was_kept_there_is_no_file(tmp_path: Path) -> None:
    """A missing file is distinguished from a file without a match."""
    with pytest.raises(FileNotFoundError):
        found(tmp_path / "history.db")


@pytest.mark.parametrize("severity", ["", "info", "notice", "warning", "critical"])
def test_the_words_for_less_bad_are_those_of_the_rules(severity: str) -> None:
    """The requested severity is not below itself."""
    assert severity not in event_rows.below(severity) or severity == ""
    asked = wanted(severity=severity)
    assert asked.matches(row(severity=severity or "info"))
    assert asked.matches(row(severity="critical"))
