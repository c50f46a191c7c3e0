"""State of an earlier version on disk: none of it is lost, and nothing is reported again."""

from __future__ import annotations

import dataclasses
import json
import queue
import sqlite3
from array import array
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from support.kmsg import medium_error
from support.live import parsed
from support.live import text as mail_text
from support.lives import Life
from support.upgraded import (
    ACKNOWLEDGED,
    ENDED,
    MEMBER_MISSING,
    STARTED,
    UNSENT,
    machine,
    put_state,
)

from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.control.documents import EventQuery
from iowarden.daemon.notify.routes import Hold, Unanswered
from iowarden.daemon.service import persisted_state, stored_documents
from iowarden.daemon.service.stored_documents import DOCUMENTS, SCHEMA, Schema
from iowarden.daemon.storage import event_rows, history_db
from iowarden.daemon.storage.history_db import History, SampleBatch, SamplesLoaded
from iowarden.rules.alerting.staleness import ObservationHistory
from iowarden.rules.incidents.recurring import Occurrence, Recurrence
from iowarden.rules.rename_table import RENAMES, NameKind, Rename
from iowarden.rules.renames import Renames
from iowarden.rules.scan.plan import Scan
from iowarden.rules.topology.device_changes import ReturnedDisk
from iowarden.rules.topology.topology import Dependent

if TYPE_CHECKING:
    from collections.abc import Mapping
    from email.message import EmailMessage
    from pathlib import Path

    from iowarden.rules.promql.history import Labels

DAY = 86_400.0
DEADLINE_SECONDS = 20.0
LATER = {ReturnedDisk, Dependent, Recurrence, Occurrence, Scan, Hold, Unanswered}
"""Records that state of version 1 does not have."""
NEW = {"stood", "dependents", "recurring", "scans", "mail_routes"}
"""Documents that it does not have, as rows and as fields."""
SIGNALS = tuple(rename for rename in RENAMES if rename.kind is NameKind.GROUP)
IN_OLD_WORDS = Schema(renames=Renames(SIGNALS))
"""Without the renames since, apart from groups of signals: an unknown one is not read."""
HISTORY = ("iowarden_filesystem_used_ratio", "iowarden_smart_attribute_raw")


def documents(directory: Path) -> dict[str, str]:
    """Return the documents of state.db as stored."""
    with closing(sqlite3.connect(directory / "state.db")) as connection:
        return dict(connection.execute("SELECT name, text FROM document"))


def aged(directory: Path, words: Mapping[str, str]) -> None:
    """Make the documents those of an even older version, with other words."""
    with closing(sqlite3.connect(directory / "state.db")) as connection, connection:
        for new, old in words.items():
            connection.execute("UPDATE document SET text = replace(text, ?, ?)", (new, old))


def upgraded(
    tmp_path: Path, schema: Schema = SCHEMA, state: Path | None = None
) -> tuple[list[EmailMessage], Life]:
    """Start on the content of 'state'; disks already reported fail again, then the array recovers.

    With another `state` nothing happens for a moment.
    """
    tmp_path.mkdir(exist_ok=True)
    directory = tmp_path / "state" if state is None else state
    settings = (
        f"host: db1.example.com\nstate_directory: {directory}\nmail: {{to: ops@example.com}}\n"
    )
    config = parse_config(settings, "iowarden.yaml")
    live, kernel = machine(tmp_path)
    live.wait(20)
    if state is None:
        live.wait(100)
        kernel.says(medium_error(4096, "sdb"), medium_error(123464, "sdd"))
        live.wait(120)
        live.degrade(0)
        live.wait(640)
    taken: list[bytes] = []
    life = Life(config, taken, schema=schema)
    assert not life.play(live.steps)
    return [parsed(data) for data in taken], life


def judge(mails: list[EmailMessage]) -> None:
    """Check that no past event was reported, and new ones in their thread."""
    unsent, over = mails
    assert unsent["Message-ID"] == UNSENT
    assert over["References"] == MEMBER_MISSING
    assert over["Subject"].startswith("[OK] db1.example.com: md0: resolved after ")


def test_an_upgrade_reports_nothing_of_the_past_and_keeps_threads_and_silences(
    tmp_path: Path,
) -> None:
    """sdb is silenced, sdd acknowledged, a mail about sdc waits, md0 lacks a member, sdz is gone.

    Two minutes later both disks fail again, then the array is complete: a quarter of an hour in
    all.
    """
    put_state(tmp_path / "state")
    mails, life = upgraded(tmp_path)
    judge(mails)
    assert any("medium error, dev sdb, sector 4096" in line for line in life.log), "it was seen"
    said = [line for line in life.log if line.startswith("state:")]
    assert all("is converted to version" in line for line in said), "all was read"
    before, unread = persisted_state.read(documents(tmp_path / "state"), STARTED + DAY)
    assert not unread
    assert [each.incident for each in before.silences.acknowledgements] == [ACKNOWLEDGED]


OLD = {
    '"ArrayDegraded"': '"RaidDegraded"',
    "block_medium_error": "block_bad_sector",
    '["condition",': '["kind_of_fault",',
    '"M5"': '"Z5"',
    '"fullness":': '"how_full":',
    "alertname=md_array_degraded condition=M5": "alertname=md_degraded kind_of_fault=Z5",
    "block_.*": "block_bad.*",
    '"last_reason":"opened"': '"last_reason":"begun"',
}
NAMES = Renames(
    (
        # These are older than what was renamed since version 1.
        Rename(NameKind.ALERT, "RaidDegraded", "ArrayLacksMember"),
        Rename(NameKind.ALERT, "ArrayLacksMember", "ArrayDegraded"),
        Rename(NameKind.EVENT, "block_bad_sector", "block_medium_error"),
        Rename(NameKind.EVENT, "md_degraded", "md_array_degraded"),
        Rename(NameKind.LABEL, "kind_of_fault", "condition"),
        Rename(NameKind.CONDITION, "Z5", "M5"),
        Rename(NameKind.GROUP, "how_full", "fullness"),
        Rename(NameKind.METRIC, "iowarden_used", HISTORY[0]),
        Rename(NameKind.METRIC, "iowarden_raw", HISTORY[1], labels=(("unit", "1"),)),
        Rename(NameKind.REASON, "begun", "opened"),
        Rename(NameKind.LABEL, "mountpoint", "mounted_at", of=HISTORY[0]),
        Rename(NameKind.VALUE, "ext4", "ext5", of="fstype"),
        Rename(NameKind.ATTRIBUTE, "temperature_celsius", "drive_celsius"),
        *RENAMES,
    )
)


def letters(document: dict[str, Any]) -> dict[str, Any]:
    """Convert this test's incidents of version 1 to version 2."""
    return {
        key: {("mails" if name == "letters" else name): value for name, value in each.items()}
        for key, each in document.items()
    }


RENAMED = Schema(
    {
        **DOCUMENTS,
        "incidents": dataclasses.replace(
            DOCUMENTS["incidents"],
            digests=("of version 1", *DOCUMENTS["incidents"].digests),
            migrations=(letters, *DOCUMENTS["incidents"].migrations),
        ),
    },
    NAMES,
)


def test_an_upgrade_that_renamed_all_keeps_the_same(tmp_path: Path) -> None:
    """Alert, event class, label, condition, group and a field have been renamed.

    The old file is stored next to the new one, unchanged.
    """
    directory = tmp_path / "state"
    put_state(directory)
    aged(directory, {**OLD, '"mails":': '"letters":'})
    before = documents(directory)
    mails, life = upgraded(tmp_path, RENAMED)
    judge(mails)
    after = documents(directory)
    assert "incidents" not in after
    assert f"incidents.v{RENAMED.versions()['incidents']}" in after
    (directory / "state.db").unlink()
    (copy,) = directory.glob("state.db.before-v*")
    copy.rename(directory / "state.db")
    assert documents(directory) == before
    assert [line for line in life.log if f"is converted to version {copy.name[17:]}" in line]
    words = " ".join(after.values())
    patterns = [old for old in OLD.values() if "*" in old]
    assert [old for old in OLD.values() if old in words] == patterns


def shown(life: Life) -> dict[str, float]:
    """Return the samples of '/metrics' about documents that are not used completely."""
    name, labels = "iowarden_state_unreadable", "document reason".split()
    found = {}
    for line in life.exposition.render().decode().splitlines():
        if line.startswith(name + "{"):
            values = [line.partition(f'{label}="')[2].partition('"')[0] for label in labels]
            found[" ".join(values)] = float(line.rpartition(" ")[2])
    return found


def test_what_cannot_be_read_is_a_text_and_an_alert_and_costs_nothing_else(
    tmp_path: Path,
) -> None:
    """An alert's state and a row of the outbox are damaged; the silences are of a newer version.

    Mails continue; the second start still has the text, and the newer document is unchanged.
    """
    directory = tmp_path / "state"
    put_state(directory)
    before = documents(directory)
    aged(directory, {'"state":"firing","value"': '"state":"flapping","value"'})
    with closing(sqlite3.connect(directory / "state.db")) as connection, connection:
        connection.execute("UPDATE document SET name = 'silences.v2' WHERE name = 'silences'")
        connection.execute("UPDATE outbox SET parts = '{}'")
    mails, life = upgraded(tmp_path)
    assert shown(life) == {
        "alerts unreadable": 1.0, "outbox unreadable": 1.0, "silences newer": 1.0
    }  # fmt: skip
    (mail,) = (each for each in mails if "'alerts' could not be read completely" in mail_text(each))
    assert mail["Subject"].startswith("[WARNING] db1.example.com: iowarden itself")
    (text,) = directory.glob("state.db.alerts-*.json")
    items = [*json.loads(text.read_text())["content"].values()]
    assert items == [{**each, "state": "flapping"} for each in json.loads(before["alerts"])]
    after = documents(directory)
    assert after["silences.v2"] == before["silences"]
    own = [each["Subject"] for each in mails if each["References"] == MEMBER_MISSING]
    assert [each.split()[0] for each in own] == ["[CRITICAL]", "[OK]"], "its other disk failed"
    assert any("document 'silences': written by a newer iowarden (version 2" in line
               for line in life.log)  # fmt: skip
    text.unlink()
    _, life = upgraded(tmp_path / "again", state=directory)
    assert shown(life) == {"outbox unreadable": 1.0, "silences newer": 1.0}


def test_everything_that_is_kept_is_read_and_written_as_it_was(tmp_path: Path) -> None:
    """No byte of a document with the same version differs, and none of them is empty."""
    put_state(tmp_path)
    texts = documents(tmp_path)
    before, unread = persisted_state.read(texts, ENDED, IN_OLD_WORDS)
    assert not unread
    written = persisted_state.documents(before)
    same = {row: text for row, text in written.items() if "." not in row and row not in NEW}
    for rename in SIGNALS:
        texts["signals"] = texts["signals"].replace(f'"{rename.old}":', f'"{rename.new}":')
    assert same.items() <= texts.items()
    assert persisted_state.read(written, ENDED, IN_OLD_WORDS) == (before, {})
    empty = persisted_state.PersistedState(wall_ahead_seconds=-1.0)
    assert not [
        field.name
        for field in dataclasses.fields(persisted_state.PersistedState)
        if getattr(before, field.name) == getattr(empty, field.name) and field.name not in NEW
    ]


def records(value: object) -> set[type]:
    """Return the records in a value."""
    if isinstance(value, dict):
        return {each for item in value.values() for each in records(item)}
    if isinstance(value, tuple):
        return {each for item in value for each in records(item)}
    if type(value) in stored_documents.RECORDS:
        fields = stored_documents.RECORDS[type(value)]
        inner = (records(getattr(value, field.attribute)) for field in fields)
        return {type(value)}.union(*inner)
    return set()


def test_every_record_is_in_the_state_that_was_kept(tmp_path: Path) -> None:
    """It can read all of it, except what was added after version 1."""
    put_state(tmp_path)
    before, _ = persisted_state.read(documents(tmp_path), ENDED)
    found = {each for f in dataclasses.fields(before) for each in records(getattr(before, f.name))}
    assert found == stored_documents.RECORDS.keys() - LATER


def loaded(directory: Path, names: Renames) -> SamplesLoaded:
    """Return the samples that history.db has for rules, and write a new one."""
    answers: queue.Queue[object] = queue.Queue()
    thread = History(str(directory / "history.db"), answers.put, names=names)
    retention = {**dict.fromkeys(HISTORY, 8 * DAY), "": 0.0}
    new = (HISTORY[0], (("device", "/dev/md1"),), array("d", [STARTED]), array("d", [0.5]))
    try:
        thread.load(retention)
        answer = answers.get(timeout=DEADLINE_SECONDS)
        since = ObservationHistory(dict.fromkeys(HISTORY, STARTED), STARTED)
        thread.save(SampleBatch([new], since, STARTED, 0.0, retention))
    finally:
        assert thread.close(DEADLINE_SECONDS)
    assert isinstance(answer, SamplesLoaded)
    return answer


def rows(found: SamplesLoaded) -> list[tuple[str, Labels, array[float]]]:
    """Return name, labels and timestamps of each series."""
    return [
        (name, labels, history.window(0.0, float("inf"))[0])
        for name, labels, history in found.series
    ]


def test_seven_days_of_history_are_there(tmp_path: Path) -> None:
    """Samples of range-based rules, daily drive values, and events."""
    put_state(tmp_path)
    path = str(tmp_path / "history.db")
    found = loaded(tmp_path, Renames(()))
    assert found.watched is not None
    for name, labels, times in rows(found):
        assert name in HISTORY
        assert (times[0], found.watched.since[name]) == (ENDED - 7 * DAY, ENDED - 7 * DAY), labels
        assert times[-1] == pytest.approx(ENDED, abs=900.0)
    assert len(rows(found)) == 2
    days = [ENDED - day * DAY for day in range(7, -1, -1)]
    assert [at for at, _ in history_db.read(path, "S-sda", "temperature_celsius")] == days
    assert [value for _, value in history_db.read(path, "S-sda", "197 raw")] == [0.0, 8.0]
    told = event_rows.read(
        path, event_rows.EventFilter(EventQuery(100, source="kernel", disk="S-sda"))
    )
    assert [(row.kind, row.count) for row in told] == [
        ("block_medium_error", count) for count in range(8, 1, -1)
    ]


def test_seven_days_of_history_are_there_under_new_names(tmp_path: Path) -> None:
    """Metrics, a label and a value, an attribute and an event class have been renamed.

    One metric has a label more.
    """
    put_state(tmp_path)
    path = str(tmp_path / "history.db")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE chunk SET name = 'iowarden_used' WHERE name = ?", HISTORY[:1])
        connection.execute("UPDATE run SET watched = replace(watched, ?, 'iowarden_used')",
                           HISTORY[:1])  # fmt: skip
        connection.execute("UPDATE chunk SET name = 'iowarden_raw' WHERE name = ?", HISTORY[1:])
        connection.execute("UPDATE event SET kind = 'block_bad_sector'")
    found = loaded(tmp_path, NAMES)
    assert found.watched is not None
    assert set(found.watched.since) == set(HISTORY)
    ((labels, times),) = ((own, at) for name, own, at in rows(found) if name == HISTORY[0])
    assert labels == (("device", "/dev/md0"), ("fstype", "ext5"), ("mounted_at", "/srv"))
    assert times[0] == ENDED - 7 * DAY
    (raw,) = (own for name, own, _ in rows(found) if name == HISTORY[1])
    assert [pair for pair in raw if pair[0] != "attribute"] == [
        ("disk", "S-sda"), ("id", "197"), ("unit", "1"),
    ]  # fmt: skip
    assert len(rows(loaded(tmp_path, NAMES))) == 3, "it is not thrown away with the next write"
    assert len(history_db.read(path, "S-sda", "drive_celsius", NAMES)) == 8
    wanted = event_rows.EventFilter(EventQuery(100))
    assert {row.kind for row in event_rows.read(path, wanted, NAMES)} == {"block_medium_error"}
