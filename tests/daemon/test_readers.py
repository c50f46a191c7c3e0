"""Collectors on their schedule, and one that hangs."""

from __future__ import annotations

import queue
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors import table
from iowarden.collectors.files import Root
from iowarden.collectors.vocabulary import Outcome, Reading
from iowarden.daemon.readers import STUCK_SECONDS, Readers

if TYPE_CHECKING:
    from pathlib import Path

DEADLINE_SECONDS = 20.0


def source(name: str, **changes: object) -> table.Source:
    """Return a source of the table, changed."""
    return replace(next(s for s in table.SOURCES if s.name == name), **changes)  # type: ignore[arg-type]


def test_each_source_is_read_in_its_period(tmp_path: Path) -> None:
    """One second for '/proc/stat', fifteen for the sysctls, or as the configuration says."""
    sources = (source("stat"), source("vm_sysctl"), source("pressure"))
    readers = Readers(
        sources, {"pressure": 5.0}, lambda: Root(str(tmp_path)), lambda: 0.0, lambda _: None
    )
    names = [r.source for second in range(31) for r in readers.run(float(second))]
    assert names.count("stat") == 31
    assert names.count("vm_sysctl") == 3
    assert names.count("pressure") == 7


def test_a_late_tick_does_not_make_a_source_catch_up(tmp_path: Path) -> None:
    """After a minute in which the machine slept a source is read once, not sixty times."""
    readers = Readers(
        (source("stat"),), {}, lambda: Root(str(tmp_path)), lambda: 0.0, lambda _: None
    )
    readers.run(0.0)
    assert [len(readers.run(now)) for now in (60.0, 60.2, 61.0)] == [1, 0, 1]


def test_a_source_that_hangs_is_called_stuck_once_and_never_twice_at_a_time(tmp_path: Path) -> None:
    """A read that does not return: told after ten seconds, no second call, then well again."""
    calls: queue.SimpleQueue[str] = queue.SimpleQueue()
    answers: queue.SimpleQueue[Reading] = queue.SimpleQueue()
    release = threading.Event()

    def hang(_: Root) -> str:
        calls.put("called")
        release.wait(DEADLINE_SECONDS)
        return "well"

    hanging = source("block", read=hang, period_seconds=5.0)
    readers = Readers((hanging,), {}, lambda: Root(str(tmp_path)), lambda: 0.0, answers.put)
    assert readers.run(0.0) == []
    assert calls.get(timeout=DEADLINE_SECONDS) == "called"
    told = [r for second in range(1, 60) for r in readers.run(float(second))]
    assert [r.outcome for r in told] == [Outcome.STUCK]
    assert told[0].duration_seconds > STUCK_SECONDS
    assert calls.empty()
    release.set()
    answer = answers.get(timeout=DEADLINE_SECONDS)
    assert answer.value == "well"
    readers.finished(answer)
    readers.run(60.0)
    assert calls.get(timeout=DEADLINE_SECONDS) == "called"


def test_a_mistake_of_ours_in_a_collector_is_an_outcome_with_its_traceback(tmp_path: Path) -> None:
    """The daemon goes on, and the log can be mended from."""

    def broken(_: Root) -> None:
        raise KeyError("sda")

    readers = Readers(
        (source("stat", read=broken),), {}, lambda: Root(str(tmp_path)), lambda: 0.0, lambda _: None
    )
    (reading,) = readers.run(0.0)
    assert reading.outcome is Outcome.BUG
    assert "KeyError: 'sda'" in reading.error
