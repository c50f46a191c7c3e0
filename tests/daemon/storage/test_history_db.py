"""history.db: samples of range-based rules and drive values, on healthy and failing disks."""

from __future__ import annotations

import contextlib
import math
import os
import queue
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from array import array
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.disks import small_disk
from support.spoilt import SPOILT

from iowarden.daemon.control.documents import EventLine, EventQuery
from iowarden.daemon.storage import chunks, event_rows, history_db, sqlite
from iowarden.daemon.storage.history_db import (
    MAX_WAITING,
    History,
    SampleBatch,
    SamplesLoaded,
    Written,
    identities,
    read,
)
from iowarden.rules.alerting.staleness import ObservationHistory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from iowarden.daemon.storage.history_db import Value
    from iowarden.rules.promql.store import Row

DEADLINE_SECONDS = 20.0
"""Far above anything measured: it ends a test that would hang, and is no assertion."""
START = 1_800_000_000.0
HOUR, DAY = 3600.0, 86_400.0
STALE = bytes.fromhex("e5a1570000 00f87f".replace(" ", ""))
"""A stale marker: a NaN with its own payload."""


def row(begin: float, count: int, name: str = "x", step: float = 1.0, **labels: str) -> Row:
    """Return samples from a time on, whose values are the time since the start."""
    times = array("d", [begin + step * number for number in range(count)])
    return (
        name,
        tuple(sorted(labels.items())),
        times,
        array("d", [at - START for at in times]),
    )


def tail(*rows: Row, until: float, hours: float = 1.0, ahead: float = 0.0) -> SampleBatch:
    """Return samples to be stored, of metrics that were monitored from the start on."""
    kept = {name: hours * HOUR for name, *_ in rows} or {"x": hours * HOUR}
    return SampleBatch(
        rows, ObservationHistory(dict.fromkeys(kept, START), until), until, ahead, {**kept, "": 0.0}
    )


def samples(loaded: SamplesLoaded) -> list[Row]:
    """Return the stored samples, stale markers included."""
    return [
        (name, labels, *history.window(-math.inf, math.inf, marks=True))
        for name, labels, history in loaded.series
    ]


class HistoryThread:
    """A history and the replies that it posts."""

    def __init__(self, path: Path, **options: float) -> None:
        self._events: queue.Queue[object] = queue.Queue()
        self.history = History(str(path), self._events.put, **options)  # type: ignore[arg-type]

    def load(self, retention: Mapping[str, float] | None = None) -> SamplesLoaded:
        """Return the stored samples."""
        self.history.load(retention or {"x": HOUR, "": 0.0})
        return self.loaded()

    def loaded(self) -> SamplesLoaded:
        """Return the stored samples, when they arrive."""
        while not isinstance(answer := self.next(), SamplesLoaded):
            pass
        return answer

    def save(self, what: SampleBatch) -> Written:
        """Store samples; return the outcome."""
        self.history.save(what)
        return self.written()

    def written(self) -> Written:
        """Return the outcome, when it is known."""
        while not (
            isinstance(answer := self.next(), Written) and not answer.set_aside.count("damaged")
        ):
            pass
        return answer

    def next(self) -> object:
        """Return the next reply, waiting for it."""
        return self._events.get(timeout=DEADLINE_SECONDS)

    def silent(self) -> bool:
        """Return whether no reply is left."""
        return self._events.empty()


@contextlib.contextmanager
def opened(path: Path, **options: float) -> Iterator[HistoryThread]:
    """Run a history."""
    asked = HistoryThread(path, **options)
    try:
        yield asked
    finally:
        asked.history.close(DEADLINE_SECONDS)


def kept(path: Path, hours: float = 1.0, name: str = "x") -> SamplesLoaded:
    """Return what a new start loads."""
    with opened(path) as asked:
        return asked.load({name: hours * HOUR, "": 0.0})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a history may be stored; the directory does not exist yet."""
    return tmp_path / "state" / "history.db"


# --- samples


_NUMBERS = st.floats(allow_nan=False)
_SERIES = st.tuples(
    st.dictionaries(st.text(max_size=4), st.text(st.characters(exclude_categories=()), max_size=4)),
    st.lists(_NUMBERS, min_size=1, max_size=5),
)


@given(st.lists(_SERIES, max_size=5), st.booleans())
def test_samples_come_back_to_the_bit(
    series: list[tuple[dict[str, str], list[float]]], shared: bool
) -> None:
    """Any labels and values: packed and unpacked, nothing is rounded and nothing exchanged."""
    rows: list[Row] = [
        (
            "x",
            tuple(sorted(labels.items())),
            array("d", [START + (0 if shared else number) + at for at in range(len(values))]),
            array("d", values),
        )
        for number, (labels, values) in enumerate(series)
    ]
    assert chunks.unpack("x", chunks.pack(rows)) == rows


def test_a_stale_marker_stays_one() -> None:
    """The end of a series is a NaN with a payload, which arithmetic and text would not preserve."""
    values = array("d")
    values.frombytes(STALE)
    ((_, _, _, back),) = chunks.unpack("x", chunks.pack([("x", (), array("d", [START]), values)]))
    assert back.tobytes() == STALE


@given(st.binary(max_size=60), st.integers(0, 200), st.integers(1, 255))
def test_a_chunk_that_is_none_is_refused(garbage: bytes, position: int, flip: int) -> None:
    """Something else, or one with a changed bit: an error, and no samples."""
    whole = bytearray(chunks.pack([row(START, 10), row(START, 10, disk="sda")]))
    whole[position % len(whole)] ^= flip
    for data in (garbage, bytes(whole)):
        try:
            found = chunks.unpack("x", data)
        except chunks.ChunkError:
            continue
        # zlib's header holds the compression level, which does not matter.
        assert found == [row(START, 10), row(START, 10, disk="sda")]


def test_what_was_saved_is_there_after_a_restart(path: Path) -> None:
    """Two saves of two series are loaded as one; the file is readable only by its owner."""
    with opened(path) as asked:
        assert asked.load() == SamplesLoaded()
        assert not path.exists(), "what keeps nothing leaves no file"
        first = tail(row(START, 10), row(START, 10, disk="sda"), until=START + 9)
        assert asked.save(first) == Written(START + 9)
        assert asked.save(tail(row(START + 10, 5, disk="sda"), until=START + 14)) == Written(
            START + 14
        )
        assert asked.silent()
    loaded = kept(path)
    assert sorted(samples(loaded), key=lambda found: found[1]) == [
        row(START, 10),
        row(START, 15, disk="sda"),
    ]
    assert loaded.watched == ObservationHistory({"x": START}, START + 14)
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_no_rule_asks_for_is_not_read_and_not_kept(path: Path) -> None:
    """Of one metric an hour, of another nothing any longer: the file does not grow forever."""
    with opened(path) as asked:
        for minute in range(0, 180, 10):
            begin = START + 60 * minute
            rows = (row(begin, 10, step=60.0), row(begin, 10, "y", step=60.0))
            what = tail(*rows, until=begin + 540)
            assert asked.save(
                what if minute < 170 else replace(what, retention_seconds={"x": HOUR})
            )
    assert [(name, times[0]) for name, _, times, _ in samples(kept(path, name="y"))] == []
    ((_, _, times, _),) = samples(kept(path))
    assert times[-1] == START + 179 * 60
    assert START + 110 * 60 <= times[0] <= START + 120 * 60
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM chunk").fetchone()[0] <= 8


def test_of_long_ago_as_much_is_kept_as_in_memory(path: Path) -> None:
    """A day of a value that is polled each second: four a minute, the last 15 min complete."""
    with opened(path) as asked:
        for begin in range(0, 3600, 240):
            what = tail(row(START + begin, 240), until=START + begin + 239, hours=24)
            assert asked.save(what).error == ""
    ((_, _, times, values),) = samples(kept(path, hours=24))
    assert list(values) == [at - START for at in times]
    recent = [at for at in times if at > START + 3599 - 900]
    assert len(recent) >= 900
    old = [at for at in times if at < START + 3599 - 900 - 240]
    assert 0.9 < len(old) / (old[-1] - START) * 15 < 1.1


def test_the_wall_clock_reports_how_long_ago_it_was(path: Path) -> None:
    """The clock was set an hour forward while the program ran: its samples are not an hour old."""
    with opened(path) as asked:
        asked.save(tail(row(START, 10), until=START + 9))
        asked.save(tail(row(START + 10, 10), until=START + 19, ahead=HOUR))
    loaded = kept(path)
    assert loaded.watched == ObservationHistory({"x": START + HOUR}, START + HOUR + 19)
    ((_, _, times, values),) = samples(loaded)
    assert list(times) == [START + HOUR + at for at in range(20)]
    assert list(values) == [float(at) for at in range(20)]


def test_what_was_seen_before_the_clock_was_set_is_not_known_in_time(path: Path) -> None:
    """A board without a clock begins in 1970: how long ago that start was is unknown."""
    with opened(path) as asked:
        asked.save(tail(row(100.0, 10), until=109.0))
    assert kept(path) == SamplesLoaded()


def test_the_tails_of_two_starts_are_one(path: Path) -> None:
    """Stopped and started within a minute, twice: one series, with its gaps, each sample once."""
    for begin in (0, 70, 140):
        with opened(path) as asked:
            asked.save(tail(row(START + begin, 60), until=START + begin + 59))
    ((_, _, times, _),) = samples(kept(path))
    assert list(times) == [START + begin + at for begin in (0, 70, 140) for at in range(60)]


_WRITER = """
import queue, sys
from array import array
from iowarden.daemon.storage.history_db import History, SampleBatch, Written
from iowarden.rules.alerting.staleness import ObservationHistory
answers = queue.SimpleQueue()
history = History(sys.argv[1], answers.put)
for n in range(100000):
    at = 1.8e9 + n
    times = array("d", [at])
    rows = [("x", (("n", str(k)),), times, array("d", [float(n)])) for k in range(200)]
    history.store_drives(at, [(f"serial{k}", "raw", float(n), True) for k in range(200)])
    history.save(SampleBatch(rows, ObservationHistory({"x": 1.8e9}, at), at, 0.0, {"x": 1e6}))
    while not isinstance(answer := answers.get(), Written):
        pass
    assert not answer.error, answer
    print(n, flush=True)
    while history.busy():
        pass
"""


@pytest.mark.parametrize("seed", range(4))
def test_a_kill_leaves_what_was_written_before(path: Path, seed: int) -> None:
    """kill -9 at any moment: confirmed samples are there, of all series the same."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdout is not None
        for _ in range(5 + seed * 3):
            confirmed = int(writer.stdout.readline())
        writer.kill()
        confirmed = max([confirmed, *map(int, writer.stdout.read().split())])
        assert writer.wait() == -signal.SIGKILL
    rows = samples(kept(path, hours=100))
    assert len(rows) == 200
    ends = {times[-1] - START for _, _, times, _ in rows}
    assert ends <= {confirmed, confirmed + 1}
    assert len(ends) == 1
    assert [value for _, value in read(str(path), "serial7", "raw")][: confirmed + 1] == [
        float(n) for n in range(confirmed + 1)
    ]


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_file_that_cannot_be_used_is_set_aside_and_named(
    path: Path, spoil: Callable[[Path], None]
) -> None:
    """The start continues without history; the old file is kept to the byte, its name is logged."""
    with opened(path) as asked:
        asked.save(tail(*(row(START, 10, disk=str(n)) for n in range(400)), until=START + 9))
    spoil(path)
    content = path.read_bytes()
    with opened(path) as asked:
        loaded = asked.load()
        said = asked.written().set_aside
        assert loaded == SamplesLoaded()
        names = [p for p in path.parent.iterdir() if ".corrupt-" in p.name]
        (aside,) = (p for p in names if not p.name.endswith("-journal"))
        assert "expected the history of iowarden, got" in said
        assert f"renamed to '{aside}'" in said
        assert aside.read_bytes() == content
        assert asked.save(tail(row(START, 3), until=START + 2)).error == ""
    assert samples(kept(path)) == [row(START, 3)]


def run(path: Path, *statements: str) -> None:
    """Change the file by hand."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def test_tables_of_a_newer_version_are_used_as_far_as_they_are_known(path: Path) -> None:
    """After a downgrade: samples, drive values and events are written, newer data stays."""
    with opened(path) as asked:
        asked.save(tail(row(START, 10), until=START + 9))
    tables = ("run", "chunk", "drive", "attribute", "daily", "changed", "event")
    run(path, *(f"ALTER TABLE {name} ADD COLUMN colour TEXT DEFAULT 'red'" for name in tables),
        "PRAGMA user_version = 99")  # fmt: skip
    event = EventLine(START, "info", "text", "sda", "", "kernel", "x", "sda", "S", key="k")
    with opened(path) as asked:
        assert samples(asked.load()) == [row(START, 10)]
        asked.history.store_drives(START, [("S", "raw", 1.0, True), ("S", "hours", 2.0, False)])
        asked.history.store_events([event])
        assert asked.save(tail(row(START + 10, 5), until=START + 14)).error == ""
    assert samples(kept(path)) == [row(START, 15)]
    assert read(str(path), "S", "raw") == [(START, 1.0)]
    assert read(str(path), "S", "hours") == [(START, 2.0)]
    assert event_rows.read(str(path), event_rows.EventFilter(EventQuery(9))) == [event]
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (99,)


def test_tables_that_mean_something_else_are_left_alone(path: Path) -> None:
    """A newer version's: the file is kept to the byte for that one, and a new one is made."""
    with opened(path) as asked:
        asked.save(tail(row(START, 10), until=START + 9))
    run(path, "ALTER TABLE run RENAME COLUMN watched TO seen", "PRAGMA user_version = 99")
    content = path.read_bytes()
    with opened(path) as asked:
        assert asked.load() == SamplesLoaded()
        (aside,) = path.parent.glob("history.db.v99-*")
        assert f"renamed to '{aside}'" in asked.written().set_aside
        assert aside.read_bytes() == content
        assert asked.save(tail(row(START, 3), until=START + 2)).error == ""
    assert samples(kept(path)) == [row(START, 3)]


def converted_by_the_next_version(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a file, then be a version with a table more."""
    with opened(path) as asked:
        asked.save(tail(row(START, 10), until=START + 9))
    table = "CREATE TABLE further (name TEXT)"
    kind = replace(
        history_db.KIND,
        version=2,
        tables=f"{history_db.KIND.tables}{table};",
        conversions=((table,),),
    )
    monkeypatch.setattr(history_db, "KIND", kind)


def test_before_it_is_converted_it_is_copied(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, with the first change, which logs it."""
    converted_by_the_next_version(path, monkeypatch)
    with opened(path) as asked:
        said = asked.save(tail(row(START + 10, 5), until=START + 14)).set_aside
        copy = path.with_name("history.db.before-v2")
        assert said == f"history: '{path}' is converted; the previous version is '{copy}'"
        assert asked.save(tail(row(START + 15, 5), until=START + 19)).set_aside == ""
    with contextlib.closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    assert samples(kept(copy)) == [row(START, 10)]


def test_where_there_is_little_room_it_is_converted_without_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter of a gigabyte must not fill the disk that others use."""
    with small_disk(tmp_path) as mount:
        path = mount / "history.db"
        converted_by_the_next_version(path, monkeypatch)
        with opened(path) as asked:
            answer = asked.save(tail(row(START + 10, 5), until=START + 14))
            assert answer.error == ""
            assert "without a backup: its file system is too full" in answer.set_aside
        assert [*mount.glob("history.db.before-*")] == []
        assert samples(kept(path)) == [row(START, 15)]


def test_a_file_that_rots_in_use_is_replaced_and_what_it_held_is_requested(path: Path) -> None:
    """A bad sector under history.db: `recreated` makes the engine hand over all of it again."""
    with opened(path) as asked:
        asked.save(tail(row(START, 10), until=START + 9))
        rotten = path.with_name("rotten")
        rotten.write_bytes(b"\xa5" * path.stat().st_size)
        os.replace(rotten, path)
        answer = asked.save(tail(row(START + 10, 5), until=START + 14))
        assert "renamed to" in answer.set_aside
        assert answer.recreated
        shutil.rmtree(path.parent)
        answer = asked.save(tail(row(START + 15, 5), until=START + 19))
        assert (answer.recreated, answer.set_aside, answer.error) == (True, "", "")
    assert samples(kept(path)) == [row(START + 15, 5)]


def test_a_damaged_part_costs_only_itself(path: Path) -> None:
    """Changed bits in one chunk: it is skipped and logged, its time counts as not monitored."""
    with opened(path) as asked:
        for begin in (0, 10, 20):
            asked.save(tail(row(START + begin, 10), until=START + begin + 9))
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE chunk SET data = x'00' WHERE rowid = 2")
        connection.commit()
    with opened(path) as asked:
        loaded = asked.load()
        said = asked.next()
    assert isinstance(said, Written)
    assert "samples of 'x' are damaged" in said.set_aside
    ((_, _, times, _),) = samples(loaded)
    assert list(times) == [START + at for at in (*range(10), *range(20, 30))]
    assert loaded.watched is None


def test_a_file_below_a_file_is_tried_again(tmp_path: Path) -> None:
    """The directory cannot be made: logged, nothing waits for it, and it is made when possible."""
    blocked = tmp_path / "state"
    with opened(blocked / "history.db") as asked:
        asked.save(tail(row(START, 10), until=START + 9))
    away = blocked.rename(tmp_path / "away")
    blocked.write_text("")
    with opened(blocked / "history.db") as asked:
        asked.history.load({"x": HOUR})
        assert asked.next() == SamplesLoaded()
        error = asked.save(tail(row(START + 20, 5), until=START + 24)).error
        assert f"'{blocked}/history.db': history cannot be written: " in error
        blocked.unlink()
        away.rename(blocked)
        asked.history.save(tail(row(START + 20, 9), until=START + 28))
        assert samples(asked.loaded()) == [row(START, 10)]
        assert asked.written() == Written(START + 28)
    ((_, _, times, _),) = samples(kept(blocked / "history.db"))
    assert len(times) == 19


def test_a_full_disk_is_reported_and_forgives(tmp_path: Path) -> None:
    """No space: logged, the content stays readable; with space again it continues."""
    with small_disk(tmp_path, "512k") as mount:
        path = mount / "history.db"
        with opened(path) as asked:
            assert asked.save(tail(row(START, 10), until=START + 9)).error == ""
            (mount / "other").write_bytes(b"x" * (400 * 1024))
            large = [row(START + 10, 100, disk=os.urandom(150).hex()) for _ in range(400)]
            answer = asked.save(tail(*large, until=START + 109))
            assert "full" in answer.error
            many = [("a" * 50 + str(number), "raw", 1.0, True) for number in range(1500)]
            asked.history.store_drives(START, many)
            assert "full" in asked.save(tail(row(START + 10, 10), until=START + 19)).error
            (mount / "other").unlink()
            assert asked.save(tail(row(START + 10, 10), until=START + 19)).error == ""
        assert [len(times) for _, _, times, _ in samples(kept(path))] == [20]
        assert read(str(path), many[700][0], "raw") == [(START, 1.0)]


def test_a_read_only_disk_still_reports_what_was(tmp_path: Path) -> None:
    """The kernel remounted it after an error: rules have their history; new data is not stored."""
    with small_disk(tmp_path) as mount:
        path = mount / "history.db"
        with opened(path) as asked:
            asked.save(tail(row(START, 10), until=START + 9))
        subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)
        with opened(path) as asked:
            assert samples(asked.load()) == [row(START, 10)]
            assert "readonly" in asked.save(tail(row(START + 20, 1), until=START + 20)).error
            subprocess.run(["mount", "-o", "remount,rw", str(mount)], check=True)
            assert asked.save(tail(row(START + 20, 1), until=START + 20)).error == ""


def test_nobody_waits_while_the_disk_hangs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening blocks: the caller continues at once and sees that it is busy, and since when."""
    hung, release = threading.Event(), threading.Event()
    really = sqlite.opened

    def hang(name: str, kind: sqlite.DatabaseKind) -> tuple[sqlite.Database, str]:
        hung.set()
        assert release.wait(DEADLINE_SECONDS)
        return really(name, kind)

    monkeypatch.setattr(sqlite, "opened", hang)
    with opened(path) as asked:
        asked.history.save(tail(row(START, 10), until=START + 9))
        assert hung.wait(DEADLINE_SECONDS)
        assert asked.history.busy()
        assert asked.history.working_since is not None
        asked.history.store_drives(START, [("a", "raw", 1.0, True)])
        assert not asked.history.close(0.0)
        assert asked.silent()
        release.set()
        assert asked.written() == Written(START + 9)
    assert samples(kept(path)) == [row(START, 10)]
    assert read(str(path), "a", "raw") == [(START, 1.0)]


def test_a_bug_of_ours_is_reported_and_the_thread_lives(path: Path) -> None:
    """Something that cannot be stored: logged with its place; what follows is stored."""
    with opened(path) as asked:
        poison = ("x", object(), array("d", [START]), array("d", [1.0]))
        assert "bug: TypeError: " in asked.save(tail(poison, until=START)).error  # type: ignore[arg-type]
        assert asked.save(tail(row(START, 2), until=START + 1)).error == ""
    assert samples(kept(path)) == [row(START, 2)]


# --- drive values


def said(*values: tuple[str, float], drive: str = "WD-1", every: bool = True) -> list[Value]:
    """Return the stored values of a drive."""
    return [(drive, name, value, every) for name, value in values]


def test_a_change_is_a_row_and_the_rest_is_one_a_day(path: Path) -> None:
    """Pending sectors are stored at each change, power-on hours once a day, the last ones."""
    with opened(path) as asked:
        for half_hour in range(96):
            at = START + half_hour * 1800
            pending = 0.0 if half_hour < 50 else 8.0
            asked.history.store_drives(at, said(("pending", pending)))
            asked.history.store_drives(at, said(("hours", half_hour / 2), every=False))
    where = str(path)
    assert read(where, "WD-1", "pending") == [(START, 0.0), (START + 50 * 1800, 8.0)]
    hours = read(where, "WD-1", "hours")
    days = [at // DAY for at, _ in hours]
    assert days == sorted(set(days))
    assert len(days) == 3
    assert hours[-1] == (START + 95 * 1800, 47.5)
    assert all(value == (at - START) / HOUR for at, value in hours)


def test_a_restart_is_no_change(path: Path) -> None:
    """The same value after a start adds no row; it does when it returns after another one."""
    for value in (5.0, 5.0, 6.0, 5.0):
        with opened(path) as asked:
            asked.history.store_drives(START + 100 * value, said(("pending", value)))
    assert [value for _, value in read(str(path), "WD-1", "pending")] == [5.0, 6.0]
    with opened(path) as asked:
        asked.history.store_drives(START + 700, said(("pending", 5.0)))
    assert [value for _, value in read(str(path), "WD-1", "pending")] == [5.0, 6.0, 5.0]


def test_what_nobody_said_is_nothing(path: Path) -> None:
    """A missing drive or attribute, no file, no number, no clock: no rows."""
    with opened(path) as asked:
        asked.history.store_drives(START, said(("pending", math.nan), ("total", 2.0**64)))
        asked.history.store_drives(100.0, said(("pending", 7.0)))
    where = str(path)
    assert identities(where) == ["WD-1"]
    assert read(where, "WD-1", "pending") == read(where, "other", "total") == []
    assert read(where, "WD-1", "total") == [(START, 2.0**64)]
    with pytest.raises(FileNotFoundError):
        read(where + "x", "WD-1", "total")


def test_any_identity_is_kept_apart(path: Path) -> None:
    """Serial numbers are what the firmware provides: bytes that are no text, quotes, nothing."""
    drives = ["WD'1", "", 'a"b', "\udcff\x01", "ä" * 300]
    with opened(path) as asked:
        for number, drive in enumerate(drives):
            asked.history.store_drives(START, said(("pending", float(number)), drive=drive))
    found = [read(str(path), drive, "pending") for drive in drives]
    assert found == [[(START, float(number))] for number in range(len(drives))]
    assert len(identities(str(path))) == len(drives)


def test_a_batch_that_failed_is_written_later_with_its_drives(tmp_path: Path) -> None:
    """The numbers that a failed write gave to drives are not mistaken for those of others."""
    blocked = tmp_path / "state"
    blocked.write_text("")
    path = blocked / "history.db"
    with opened(path, retry_seconds=0.01) as asked:
        for number in range(3):
            asked.history.store_drives(
                START + number, said(("pending", float(number)), drive=f"D{number}")
            )
            assert asked.written().error
        blocked.unlink()
        while asked.written().error:
            pass
    assert [read(str(path), f"D{n}", "pending") for n in range(3)] == [
        [(START + n, float(n))] for n in range(3)
    ]


def test_what_waits_is_bounded_and_what_is_lost_counted(tmp_path: Path) -> None:
    """A disk that fails for days: the oldest values are discarded, the program does not grow."""
    blocked = tmp_path / "state"
    blocked.write_text("")
    with opened(blocked / "history.db") as asked:
        size = MAX_WAITING // 4
        batch = said(*((f"a{n}", 1.0) for n in range(size)))
        for number in range(6):
            asked.history.store_drives(START + number, batch)
        assert asked.history.lost_total in (size, 2 * size)  # one may be in progress
        blocked.unlink()
        assert asked.history.close(DEADLINE_SECONDS)
    assert read(str(blocked / "history.db"), "WD-1", "a0")[0][0] >= START + 1


def test_a_file_that_is_too_large_loses_the_oldest_days_first(path: Path) -> None:
    """Of years of daily values the first are deleted; changes of important ones stay."""
    names = [f"attribute_{number}" for number in range(200)]
    most = 16_000_000 + 400_000
    with opened(path, max_bytes=most) as asked:
        for day in range(200):
            at = START + day * DAY
            asked.history.store_drives(
                at, said(*((name, float(day)) for name in names), every=False)
            )
            asked.history.store_drives(at, said(("pending", float(day))))
    where = str(path)
    days = [value for _, value in read(where, "WD-1", "attribute_7")]
    assert days == [float(day) for day in range(int(days[0]), 200)]
    assert days[0] > 50
    assert [value for _, value in read(where, "WD-1", "pending")] == [float(d) for d in range(200)]
    assert path.stat().st_size < 1_000_000


def test_what_matters_goes_only_when_nothing_else_is_left(path: Path) -> None:
    """Values that change with each poll: the oldest changes are deleted, never each newest one."""
    most = 16_000_000 + 200_000
    with opened(path, max_bytes=most) as asked:
        asked.history.store_drives(START, said(("steady", 3.0)))
        for number in range(1, 300):
            at = START + 1800 * number
            asked.history.store_drives(at, said(*((f"a{n}", float(number)) for n in range(100))))
    where = str(path)
    values = [value for _, value in read(where, "WD-1", "a5")]
    assert values[-1] == 299.0
    assert 10 < len(values) < 299
    assert read(where, "WD-1", "steady") == [(START, 3.0)]


def test_it_can_be_read_while_it_is_written(path: Path) -> None:
    """`iowarden disk history` reads next to the service, which may lock the file for a moment."""
    with opened(path) as asked:
        for number in range(30):
            asked.history.store_drives(START + number, said(("pending", float(number))))
            asked.save(tail(row(START + number, 1), until=START + number))
            values = [value for _, value in read(str(path), "WD-1", "pending")]
            assert values == [float(at) for at in range(number + 1)]
