"""state.db on healthy and failing disks: no partial write, nothing lost, nothing waits."""

import json
import os
import queue
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.disks import small_disk
from support.spoilt import SPOILT

from iowarden.daemon.storage import sqlite, state_db
from iowarden.daemon.storage.notifications import Notification, NotificationStatus
from iowarden.daemon.storage.state_db import (
    Committed,
    Noted,
    OutboxRow,
    StateChanges,
    StateDatabase,
    StateLoaded,
    Texts,
)
from iowarden.rules.severity import Severity

DEADLINE_SECONDS = 20.0
"""Far above anything measured: it ends a test that would hang, and is no assertion."""
ROW = OutboxRow(
    message_id="<iowarden.a.1@db1>",
    incident="a",
    number=1,
    severity=Severity.CRITICAL,
    created_realtime_seconds=1795266034.25,
    recipients_pending=("root@example.com", "ops@example.com"),
    data=b"Subject: x\r\n\r\n\x00\xff",
    attempts=2,
    last_error="mail: 'mx1:25': connect: expected a connection, got 'Connection refused'",
)


class StateThread:
    """A state and the replies that it posts."""

    def __init__(self, path: Path, retry_seconds: float = 3600.0) -> None:
        self._events: queue.Queue[object] = queue.Queue()
        self.state = StateDatabase(str(path), self._events.put, retry_seconds)

    def next(self) -> object:
        """Return the next reply, waiting for it."""
        return self._events.get(timeout=DEADLINE_SECONDS)

    def load(self) -> StateLoaded:
        """Request the content."""
        self.state.load()
        answer = self.next()
        assert isinstance(answer, StateLoaded)
        return answer

    def commit(self, batch: StateChanges) -> str:
        """Write a batch; return the error."""
        self.state.commit(batch)
        return self.committed(batch.sequence)

    def committed(self, sequence: int) -> str:
        """Return the error of a batch, once its reply is there."""
        while True:
            answer = self.next()
            if isinstance(answer, Committed) and answer.sequence >= sequence:
                return answer.error

    def silent(self) -> bool:
        """Return whether no reply is left."""
        return self._events.empty()


@contextmanager
def opened(path: Path, retry_seconds: float = 3600.0) -> Iterator[StateThread]:
    """Run a state."""
    asked = StateThread(path, retry_seconds)
    try:
        yield asked
    finally:
        asked.state.close(DEADLINE_SECONDS)


def kept(path: Path) -> StateLoaded:
    """Return what a new start loads."""
    with opened(path) as asked:
        return asked.load()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a state may be stored; the directory does not exist yet."""
    return tmp_path / "state" / "state.db"


def test_what_was_committed_is_there_after_a_restart(path: Path) -> None:
    """Documents and mails, put, changed and removed, are read back as they were."""
    with opened(path) as asked:
        assert asked.load() == StateLoaded({}, ())
        second = replace(ROW, message_id="<iowarden.a.2@db1>", number=2)
        first = StateChanges(1, put={"alerts": "[1]", "install": '"x"'}, add=(ROW, second))
        assert asked.commit(first) == ""
        changed = replace(second, attempts=1)
        assert (
            asked.commit(
                StateChanges(2, put={"alerts": "[2]"}, delete=("install",), add=(changed,))
            )
            == ""
        )
        assert asked.commit(StateChanges(3, remove=(ROW.message_id,))) == ""
        assert asked.silent()
    assert kept(path) == StateLoaded({"alerts": "[2]"}, (changed,))
    assert os.stat(path).st_mode & 0o777 == 0o600


@given(documents=st.dictionaries(st.text(), st.text(st.characters(exclude_categories=()))))
@example(documents={"alerts": '"sd\udcff \ud800"'})
def test_any_json_text_survives(
    tmp_path_factory: pytest.TempPathFactory, documents: dict[str, str]
) -> None:
    """A name may hold bytes that are no text: a surrogate is read back as its JSON escape."""
    path = tmp_path_factory.mktemp("state") / "state.db"
    with opened(path) as asked:
        assert asked.commit(StateChanges(1, put=documents)) == ""
    expected = {
        name: text.encode("utf-8", "backslashreplace").decode() for name, text in documents.items()
    }
    assert kept(path).documents == expected


_WRITER = """
import sys, queue
from iowarden.daemon.storage.state_db import StateChanges, Committed, OutboxRow, StateDatabase
from iowarden.rules.severity import Severity
answers = queue.SimpleQueue()
state = StateDatabase(sys.argv[1], answers.put)
state.load()
answers.get()
for n in range(1, 100000):
    rows = tuple(
        OutboxRow(f"<{n}.{part}>", "a", n, Severity.WARNING, n, ("a@x",), b"x" * 3000)
        for part in "ab"
    )
    old = (f"<{n - 1}.a>", f"<{n - 1}.b>")
    state.commit(StateChanges(n, put={"first": str(n), "second": str(n)}, add=rows, remove=old))
    while answers.get().sequence < n:
        pass
    print(n, flush=True)
"""


@pytest.mark.parametrize("seed", range(8))
def test_a_kill_leaves_the_state_before_or_after_a_batch(path: Path, seed: int) -> None:
    """kill -9 at any moment: confirmed data is there, and never part of a batch."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdout is not None
        confirmed = 0
        chance = random.Random(seed)
        for _ in range(chance.randrange(1, 12)):
            confirmed = int(writer.stdout.readline())
        for _ in range(chance.randrange(200_000)):  # somewhere in the next batch
            pass
        writer.kill()
        confirmed = max([confirmed, *map(int, writer.stdout.read().split())])
        assert writer.wait() == -signal.SIGKILL
    found = kept(path)
    assert found.error == ""
    number = int(found.documents["first"])
    assert number in (confirmed, confirmed + 1)
    assert found.documents["second"] == str(number)
    assert {row.message_id for row in found.outbox} == {f"<{number}.a>", f"<{number}.b>"}


def fill(path: Path) -> None:
    """Store something."""
    with opened(path) as asked:
        assert asked.commit(StateChanges(1, put={"install": '"x"'}, add=(ROW,))) == ""


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_file_that_cannot_be_used_is_set_aside_and_named(
    path: Path, spoil: Callable[[Path], None]
) -> None:
    """The start continues empty; the old file is kept to the byte, and its name is logged."""
    fill(path)
    spoil(path)
    content = path.read_bytes()
    with opened(path) as asked:
        loaded = asked.load()
        assert (loaded.documents, loaded.outbox) == ({}, ())
        (aside,) = (
            p for p in path.parent.iterdir() if ".corrupt-" in p.name and "-journal" not in p.name
        )
        assert f"renamed to '{aside}'" in loaded.error
        assert aside.read_bytes() == content
        assert asked.commit(StateChanges(2, put={"install": '"y"'})) == ""
    assert kept(path) == StateLoaded({"install": '"y"'}, ())


def test_a_file_below_a_file_costs_memory_but_no_work(tmp_path: Path) -> None:
    """The directory cannot be made: logged once, held in memory, written when possible."""
    blocked = tmp_path / "state"
    blocked.write_text("")
    with opened(blocked / "state.db") as asked:
        loaded = asked.load()
        assert f"'{blocked}/state.db': mails and alerts cannot be stored: " in loaded.error
        assert asked.committed(0) == loaded.error
        assert asked.commit(StateChanges(1, put={"install": '"x"'}, add=(ROW,))) == loaded.error
        assert asked.commit(StateChanges(2, put={"install": '"y"'})) == loaded.error
        blocked.unlink()
        asked.state.retry()
        assert asked.next() == StateLoaded({}, ())
        assert asked.next() == Committed(2)
    assert kept(blocked / "state.db") == StateLoaded({"install": '"y"'}, (ROW,))


def test_it_is_tried_again_without_being_queried(tmp_path: Path) -> None:
    """Nothing changes after the disk was repaired: what is in memory is written all the same."""
    blocked = tmp_path / "state"
    blocked.write_text("")
    with opened(blocked / "state.db", retry_seconds=0.01) as asked:
        assert asked.commit(StateChanges(1, put={"install": '"x"'})) != ""
        blocked.unlink()
        while (answer := asked.next()) != Committed(1):
            assert isinstance(answer, Committed | StateLoaded)
    assert kept(blocked / "state.db").documents == {"install": '"x"'}


def test_a_notification_is_stored_changed_and_forgotten_with_its_row(path: Path) -> None:
    """All in one transaction; what cannot be read is saved as text, the rest is used."""
    entry = Notification("a", 1, "mail", NotificationStatus.QUEUED, 1e9)
    other = replace(entry, incident="b", status=NotificationStatus.ACCEPTED)
    row = replace(ROW, states=(("a", 1),))
    with opened(path) as asked:
        asked.load()
        assert asked.commit(StateChanges(1, add=(row,), notifications=(entry, other))) == ""
    assert kept(path) == StateLoaded({}, (row,), notifications=(entry, other))
    with opened(path) as asked:
        asked.load()
        removed = StateChanges(2, remove=(row.message_id,), forget=(entry.key,))
        assert asked.commit(removed) == ""
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("INSERT INTO notifications VALUES ('c', 1, 'mail', 'seen', 0)")
    with opened(path) as asked:
        assert asked.load() == StateLoaded({}, (), notifications=(other,))
    (text,) = path.parent.glob("state.db.notifications*")
    assert "'seen' is not a valid NotificationStatus" in text.read_text()
    assert kept(path) == StateLoaded({}, (), notifications=(other,))


def test_a_late_file_is_read_and_what_is_known_is_newer(tmp_path: Path) -> None:
    """The disk was mounted after the start: old mails are taken over, new documents win."""
    path = tmp_path / "state" / "state.db"
    fill(path)
    away = tmp_path / "away"
    (tmp_path / "state").rename(away)
    (tmp_path / "state").write_text("")
    new = replace(ROW, message_id="<iowarden.b.1@db1>", incident="b", created_realtime_seconds=2e9)
    with opened(path) as asked:
        assert asked.commit(StateChanges(1, put={"install": '"new"'}, add=(new,))) != ""
        (tmp_path / "state").unlink()
        away.rename(tmp_path / "state")
        asked.state.retry()
        assert asked.next() == StateLoaded({"install": '"x"'}, (ROW,))
        assert asked.committed(1) == ""
    assert kept(path) == StateLoaded({"install": '"new"'}, (ROW, new))


def test_a_file_that_somebody_removed_is_written_anew_whole(path: Path) -> None:
    """rm state.db under a running daemon: all its state is in the next file."""
    with opened(path) as asked:
        assert asked.commit(StateChanges(1, put={"install": '"x"'}, add=(ROW,))) == ""
        shutil.rmtree(path.parent)
        assert asked.commit(StateChanges(2, put={"alerts": "[]"})) == ""
    assert kept(path) == StateLoaded({"alerts": "[]", "install": '"x"'}, (ROW,))


def test_a_second_daemon_does_not_send_the_first_ones_mails(path: Path) -> None:
    """Two on one directory: the second one gets an error and none of the mails."""
    fill(path)
    with opened(path) as first:
        assert first.load().outbox == (ROW,)
        with opened(path) as second:
            loaded = second.load()
            assert loaded.outbox == ()
            assert "another iowarden may have it open" in loaded.error


def test_a_full_disk_loses_nothing_and_recovers_by_itself(tmp_path: Path) -> None:
    """No space: logged, held in memory; once there is space all of it is written."""
    with small_disk(tmp_path) as mount:
        path = mount / "state.db"
        with opened(path) as asked:
            asked.load()
            assert asked.commit(StateChanges(1, put={"install": '"x"'})) == ""
            (mount / "other").write_bytes(b"x" * (170 * 1024))
            large = replace(ROW, data=b"y" * 60_000)
            assert "full" in asked.commit(StateChanges(2, put={"alerts": "[1]"}, add=(large,)))
            assert "full" in asked.commit(StateChanges(3, put={"alerts": "[2]"}))
            (mount / "other").unlink()
            assert asked.commit(StateChanges(4)) == ""
        assert kept(path) == StateLoaded({"alerts": "[2]", "install": '"x"'}, (large,))


def test_a_disk_that_became_read_only_still_gives_its_mails(tmp_path: Path) -> None:
    """The kernel remounted it after an error: waiting mails are read at start and can be sent."""
    with small_disk(tmp_path) as mount:
        path = mount / "state.db"
        fill(path)
        subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)
        with opened(path) as asked:
            assert asked.load() == StateLoaded({"install": '"x"'}, (ROW,))
            assert "readonly" in asked.commit(StateChanges(2, remove=(ROW.message_id,)))
            subprocess.run(["mount", "-o", "remount,rw", str(mount)], check=True)
            assert asked.commit(StateChanges(3)) == ""
        assert kept(path).outbox == ()


def test_nobody_waits_while_the_disk_hangs_and_what_came_is_written_after(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening blocks: commits return, and in the end the newest of each is written."""
    hung, release = threading.Event(), threading.Event()
    open_file = state_db.open_file

    def hang(name: str) -> object:
        hung.set()
        assert release.wait(DEADLINE_SECONDS)
        return open_file(name)

    monkeypatch.setattr(state_db, "open_file", hang)
    with opened(path) as asked:
        asked.state.load()
        assert hung.wait(DEADLINE_SECONDS)
        assert asked.state.working_since is not None
        rows = [replace(ROW, message_id=f"<{n}>", number=n) for n in range(50)]
        for number, row in enumerate(rows, 1):
            asked.state.commit(StateChanges(number, put={"alerts": f"[{number}]"}, add=(row,)))
        asked.state.commit(StateChanges(51, remove=("<0>",)))
        assert asked.silent()
        release.set()
        assert asked.next() == StateLoaded({}, ())
        assert asked.committed(51) == ""
    assert asked.state.working_since is None
    assert kept(path) == StateLoaded({"alerts": "[50]"}, tuple(rows[1:]))


def test_a_bug_of_ours_is_reported_and_the_thread_lives(path: Path) -> None:
    """Something that cannot be stored: logged with its place; what follows is stored."""
    with opened(path) as asked:
        poison = replace(ROW, recipients_pending=(object(),))  # type: ignore[arg-type]
        assert "bug: TypeError: " in asked.commit(StateChanges(1, add=(poison,)))
        assert asked.commit(StateChanges(2, put={"install": '"x"'}, remove=(ROW.message_id,))) == ""
    assert kept(path) == StateLoaded({"install": '"x"'}, ())


def test_closing_writes_what_waits(path: Path) -> None:
    """A stop right after a commit: it is durable, and reported as such."""
    with opened(path) as asked:
        asked.state.commit(StateChanges(1, put={"install": '"x"'}))
        assert asked.state.close(DEADLINE_SECONDS)
    assert kept(path).documents == {"install": '"x"'}


NEXT = replace(
    state_db.KIND,
    version=2,
    tables=f"{state_db.KIND.tables} CREATE TABLE further (name TEXT);",
    conversions=(
        (
            "ALTER TABLE outbox ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'",
            "CREATE TABLE further (name TEXT)",
        ),
    ),
)
"""Tables as a version after this one may have them."""


def user_version(path: Path) -> int:
    """Return the version of the tables."""
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def test_the_next_version_takes_over_the_file_of_this_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade with a waiting mail: the first change converts it, and nothing is lost."""
    fill(path)
    monkeypatch.setattr(state_db, "KIND", NEXT)
    assert kept(path) == StateLoaded({"install": '"x"'}, (ROW,))
    assert user_version(path) == 1, "what nobody changes is not converted"
    second = replace(ROW, message_id="<b>", number=2)
    with opened(path) as asked:
        asked.load()
        assert asked.commit(StateChanges(2, put={"alerts": "[]"}, add=(second,))) == ""
    assert user_version(path) == 2
    with closing(sqlite3.connect(path)) as connection:
        colours = connection.execute("SELECT message_id, colour FROM outbox").fetchall()
    assert colours == [(ROW.message_id, "red"), ("<b>", "red")]
    assert kept(path) == StateLoaded({"alerts": "[]", "install": '"x"'}, (ROW, second))


def test_a_message_is_stored_with_its_receiver(path: Path) -> None:
    """Else it would be sent as a mail after a restart."""
    message = replace(
        ROW, message_id="ops:a.1", recipients_pending=("ops",), data=b"{}", receiver="ops"
    )
    with opened(path) as asked:
        asked.load()
        assert asked.commit(StateChanges(1, add=(ROW, message))) == ""
    assert kept(path) == StateLoaded({}, (ROW, message))
    assert state_db.salvaged(str(path)).outbox == (ROW, message)
    with opened(path) as asked:
        asked.load()
        assert asked.commit(StateChanges(1, remove=(message.message_id,))) == ""
    assert kept(path) == StateLoaded({}, (ROW,))


def test_an_old_file_on_a_disk_that_became_read_only_still_gives_its_mails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be converted now: read as it is, and converted when the disk is writable again."""
    with small_disk(tmp_path) as mount:
        path = mount / "state.db"
        fill(path)
        monkeypatch.setattr(state_db, "KIND", NEXT)
        subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)
        second = replace(ROW, message_id="<b>", number=2)
        with opened(path) as asked:
            assert asked.load() == StateLoaded({"install": '"x"'}, (ROW,))
            assert "readonly" in asked.commit(StateChanges(2, add=(second,)))
            subprocess.run(["mount", "-o", "remount,rw", str(mount)], check=True)
            assert asked.commit(StateChanges(3)) == ""
        assert kept(path).outbox == (ROW, second)
        assert user_version(path) == 2


def test_what_is_not_durable_is_known_until_it_is(tmp_path: Path) -> None:
    """The disk fails: since when is reported, through all failed attempts, until one succeeds."""
    blocked = tmp_path / "state"
    blocked.write_text("")
    with opened(blocked / "state.db") as asked:
        assert asked.state.unwritten_since is None
        before = time.monotonic()
        assert asked.commit(StateChanges(1, put={"install": '"x"'})) != ""
        since = asked.state.unwritten_since
        assert since is not None
        assert before <= since <= time.monotonic()
        assert asked.commit(StateChanges(2)) != ""
        assert asked.state.unwritten_since == since
        blocked.unlink()
        asked.state.retry()
        assert asked.next() == StateLoaded({}, ())
        assert asked.next() == Committed(2)
        assert asked.state.close(DEADLINE_SECONDS)
        assert asked.state.unwritten_since is None


def test_a_file_that_rots_under_a_running_daemon_is_replaced_by_what_is_known(path: Path) -> None:
    """A bad sector under state.db: renamed, and all its content is in the next one."""
    with opened(path) as asked:
        asked.load()
        assert asked.commit(StateChanges(1, put={"install": '"x"'}, add=(ROW,))) == ""
        rotten = path.with_name("rotten")
        rotten.write_bytes(b"\xa5" * path.stat().st_size)
        os.replace(rotten, path)
        asked.state.commit(StateChanges(2, put={"alerts": "[]"}))
        told = asked.next()
        assert isinstance(told, Noted)
        assert "renamed to" in told.text
        assert "and writing the current state to it" in told.text
        assert asked.committed(2) == ""
    assert kept(path) == StateLoaded({"alerts": "[]", "install": '"x"'}, (ROW,))


# --- versions, and what cannot be read


def beside(path: Path, pattern: str) -> list[Path]:
    """Return the files next to the state with this ending."""
    return sorted(path.parent.glob(f"{path.name}.{pattern}"))


def run(path: Path, *statements: str) -> None:
    """Change the file by hand."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def test_a_bad_row_of_the_outbox_costs_no_other_mail(path: Path) -> None:
    """It is saved as text, with the readable mail, and removed from the file."""
    fill(path)
    others = [f"<{name}>" for name in ("severity", "list", "utf8", "type")]
    with opened(path) as asked:
        asked.load()
        rows = (replace(ROW, message_id=other, data=b"Subject: y") for other in others)
        assert asked.commit(StateChanges(2, add=tuple(rows))) == ""
    run(
        path,
        "UPDATE outbox SET severity = 99 WHERE message_id = '<severity>'",
        "UPDATE outbox SET recipients_pending = '[1]' WHERE message_id = '<list>'",
        "UPDATE outbox SET incident = CAST(x'ff' AS TEXT) WHERE message_id = '<utf8>'",
        "UPDATE outbox SET data = 'text' WHERE message_id = '<type>'",
    )
    with opened(path) as asked:
        asked.state.load()
        answers = [asked.next() for _ in range(3)]
        assert StateLoaded({"install": '"x"'}, (ROW,)) in answers
        (text,) = beside(path, "outbox-*.json")
        assert Texts((str(text),)) in answers
        assert any(isinstance(each, Noted) and str(text) in each.text for each in answers)
    found = json.loads(text.read_text())
    content = {each["message_id"]: each for each in found["content"]}
    assert set(content) == set(others)
    assert content["<severity>"]["data"] == "Subject: y"
    assert "99 is not a valid Severity" in content["<severity>"]["reason"]
    assert text.stat().st_mode & 0o777 == 0o600
    assert kept(path) == StateLoaded({"install": '"x"'}, (ROW,))


def test_what_is_not_read_is_a_text_before_it_is_overwritten(path: Path) -> None:
    """A power loss in between: the data is in one of the two, if not in both."""
    fill(path)
    with opened(path) as asked:
        asked.load()
        batch = StateChanges(2, put={"alerts": "[]"}, aside={"alerts": '{"a": "\udcff"}'})
        asked.state.commit(batch)
        assert isinstance(asked.next(), Noted)
        (text,) = beside(path, "alerts-*.json")
        assert asked.next() == Texts((str(text),))
        assert asked.committed(2) == ""
        assert text.read_text() == '{"a": "\\udcff"}'
        text.unlink()
        asked.state.commit(StateChanges(3))
        assert asked.next() == Texts(())
        assert asked.committed(3) == ""
    assert beside(path, "alerts-*") == []


def test_on_a_full_disk_what_is_not_read_stays_where_it_is(tmp_path: Path) -> None:
    """No space for the text: the document is not overwritten either, until there is."""
    with small_disk(tmp_path) as mount:
        path = mount / "state.db"
        fill(path)
        with opened(path) as asked:
            asked.load()
            (mount / "other").write_bytes(b"x" * (170 * 1024))
            batch = StateChanges(2, put={"install": '"y"'}, aside={"install": "z" * 90_000})
            assert "No space left" in asked.commit(batch)
            with closing(sqlite3.connect(f"file:{path}?mode=ro&nolock=1", uri=True)) as reader:
                assert reader.execute("SELECT text FROM document").fetchall() == [('"x"',)]
            (mount / "other").unlink()
            assert asked.commit(StateChanges(3)) == ""
        (text,) = beside(path, "install-*.json")
        assert text.stat().st_size == 90_000
        assert kept(path).documents == {"install": '"y"'}


def test_texts_do_not_fill_the_disk(tmp_path: Path) -> None:
    """The oldest are deleted, but never the last one, whatever the clock; other files stay."""
    path = str(tmp_path / "state.db")
    for day in range(10, 40):
        (tmp_path / f"state.db.alerts-999911{day}T000000Z.json").write_text("")
    (tmp_path / "state.db.notes.json").write_text("")
    found = sqlite.write_text(path, "incidents", "{}")
    left = sqlite.texts(path)
    assert left[0] == found
    assert len(left) == sqlite.MAX_TEXTS
    assert "99991139T" in left[-1]
    assert sqlite.document_of_text(left[1]) == "alerts"
    assert sqlite.document_of_text(found) == "incidents"
    assert sqlite.document_of_text(sqlite.write_text(path, "incidents.v2", "{}")) == "incidents"
    assert (tmp_path / "state.db.notes.json").exists()


def converted(path: Path, versions: dict[str, int], number: int) -> list[object]:
    """Run a program that writes these versions, change something, return its messages."""
    events: queue.Queue[object] = queue.Queue()
    own = StateDatabase(str(path), events.put, versions=versions)
    own.load()
    assert isinstance(events.get(timeout=DEADLINE_SECONDS), StateLoaded)
    put = {state_db.versioned(name, version): f'"{number}"' for name, version in versions.items()}
    own.commit(
        StateChanges(1, put=put, delete=tuple(versions) if max(versions.values()) > 1 else ())
    )
    assert own.close(DEADLINE_SECONDS)
    said = []
    while not events.empty():
        said.append(events.get())
    return said


def test_before_it_is_converted_it_is_copied_and_the_last_two_copies_stay(path: Path) -> None:
    """Once: with the first change; the copy is the whole file, including mails, and private."""
    fill(path)
    assert [type(each) for each in converted(path, {"alerts": 1, "install": 1}, 0)] == [Committed]
    assert beside(path, "before-*") == []
    for version in (2, 3, 4):
        noted, committed = converted(path, {"install": version}, version)
        assert isinstance(noted, Noted)
        assert noted.is_good
        assert committed == Committed(1)
        run(path, f"UPDATE document SET name = 'install' WHERE name = 'install.v{version}'")
    assert [each.name for each in beside(path, "before-*")] == [
        "state.db.before-v3",
        "state.db.before-v4",
    ]
    copy = path.with_name("state.db.before-v3")
    assert copy.stat().st_mode & 0o777 == 0o600
    copied = kept(copy)
    assert copied.outbox == (ROW,)
    assert copied.documents == {"alerts": '"0"', "install": '"2"'}


def test_a_copy_that_cannot_be_made_keeps_nothing_from_being_written(path: Path) -> None:
    """Something else has its name: logged, and mails and alerts are durable all the same."""
    fill(path)
    (path.parent / "state.db.before-v2.draft").mkdir()
    noted, committed = converted(path, {"install": 2}, 2)
    assert isinstance(noted, Noted)
    assert "converted without a copy" in noted.text
    assert committed == Committed(1)
    assert kept(path).documents == {"install.v2": '"2"'}


def test_the_copy_gives_up_no_lock(path: Path) -> None:
    """Closing another descriptor of the file would: a second daemon could send the mails, too."""
    fill(path)
    events: queue.Queue[object] = queue.Queue()
    own = StateDatabase(str(path), events.put, versions={"install": 2})
    own.commit(StateChanges(1, put={"install.v2": '"y"'}))
    while events.get(timeout=DEADLINE_SECONDS) != Committed(1):
        pass
    assert beside(path, "before-*")
    script = (
        "import sys; from iowarden.daemon.storage import state_db; state_db.open_file(sys.argv[1])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    other = subprocess.run(
        [sys.executable, "-c", script, str(path)], env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert "database is locked" in other.stderr
    assert own.close(DEADLINE_SECONDS)


NEWER = (
    "ALTER TABLE outbox ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'",
    "CREATE TABLE further (name TEXT)",
    "PRAGMA user_version = 99",
)


def test_tables_of_a_newer_version_are_used_as_far_as_they_are_known(path: Path) -> None:
    """After a downgrade: the mails are sent, newer data stays, and it is logged."""
    fill(path)
    run(path, *NEWER)
    with opened(path) as asked:
        asked.state.load()
        noted = asked.next()
        assert isinstance(noted, Noted)
        assert "version 99, from a newer iowarden" in noted.text
        assert asked.next() == StateLoaded({"install": '"x"'}, (ROW,))
        second = replace(ROW, message_id="<b>", number=2)
        assert asked.commit(StateChanges(2, put={"alerts": "[]"}, add=(second,))) == ""
    assert user_version(path) == 99
    with closing(sqlite3.connect(path)) as connection:
        colours = connection.execute("SELECT message_id, colour FROM outbox").fetchall()
    assert colours == [(ROW.message_id, "red"), ("<b>", "red")]


OTHER = "CREATE TABLE document (name TEXT PRIMARY KEY, text TEXT NOT NULL, at REAL NOT NULL)"
"""A column needs a value that this version does not know."""


@pytest.mark.parametrize(
    ("statements", "rows"),
    [
        (("ALTER TABLE outbox RENAME COLUMN parts TO pieces",), ()),
        (("ALTER TABLE document RENAME TO documents",), (ROW,)),
        (("DROP TABLE document", OTHER), (ROW,)),
    ],
)
def test_tables_that_mean_something_else_are_left_alone(
    path: Path, statements: tuple[str, ...], rows: tuple[OutboxRow, ...]
) -> None:
    """A newer version's: the file is kept to the byte for that one, and a new one is made.

    Readable mails are sent all the same.
    """
    fill(path)
    run(path, *statements, NEWER[-1])
    content = path.read_bytes()
    with opened(path) as asked:
        loaded = asked.load()
        assert (loaded.documents, loaded.outbox) == ({}, rows)
        (aside,) = beside(path, "v99-*")
        assert f"renamed to '{aside}'" in loaded.error
        assert "a newer iowarden reads the file when it is named 'state.db' again" in loaded.error
        assert aside.read_bytes() == content
        assert asked.commit(StateChanges(2, put={"install": '"y"'})) == ""
    assert kept(path) == StateLoaded({"install": '"y"'}, rows)


@pytest.mark.parametrize(
    ("table", "found"),
    [("document", StateLoaded({}, (ROW,))), ("outbox", StateLoaded({"install": '"x"'}, ()))],
)
def test_a_bad_sector_in_one_table_costs_not_the_other(
    path: Path, table: str, found: StateLoaded
) -> None:
    """The file is renamed; readable mails are sent, and readable silences apply."""
    fill(path)
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
        ).fetchone()
    with path.open("r+b") as file:
        file.seek(4096 * (page - 1))
        file.write(b"\xa5" * 4096)
    with opened(path) as asked:
        loaded = asked.load()
        assert replace(loaded, error="") == found
        assert f"recovered from it: {len(found.documents)} documents, " in loaded.error
        assert asked.commit(StateChanges(1)) == ""
    assert beside(path, "corrupt-*")
    assert kept(path) == found
