"""What was written before all names changed is read in the names of today, and nothing is lost.

Expectations follow from the table of renames; those marked 'NOW' are written out.
"""

from __future__ import annotations

import json
import queue
import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from support.kmsg import medium_error
from support.live import parsed
from support.lives import Life
from support.recordings import FIXTURES
from support.upgraded import NAMES_ENDED, machine_of_names, put_state, unpacked

from iowarden.daemon.cli.main import main
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_rules, notes
from iowarden.daemon.config.schema import ConfigError
from iowarden.daemon.control.documents import EventQuery
from iowarden.daemon.service import persisted_state
from iowarden.daemon.storage import chunks, event_rows, history_db
from iowarden.daemon.storage.history_db import History, SamplesLoaded
from iowarden.rules.incidents import silences
from iowarden.rules.rename_table import NameKind
from iowarden.rules.renames import NAMES
from iowarden.rules.rulefile.rulefile import Rule

if TYPE_CHECKING:
    from email.message import EmailMessage
    from pathlib import Path

STATE = "stored-2"
DAY = 86_400.0
# NOW: the names of today. What they were: see the README of the fixture.
DEVICE_HANG = "DeviceHang"
DEVICE_HANG_CONDITION = "device_hang"
NO_PROGRESS = "WritebackNoProgress"
NO_PROGRESS_LABEL = "cause"
NO_PROGRESS_METRIC = "iowarden_writeback_no_progress_seconds"
INCREASE = "iowarden_smart_increase"
DEGRADED = "MdDegraded"
MISMATCHES = "MdMismatches"
RAID_ARRAY = "raid_array"
PENDING_SECTORS = "DiskPendingSectors"
CRC_ERRORS = "DiskInterfaceCrcErrors"
FILESYSTEM_ERRORS = "FilesystemErrors"
SMART_ERRORS = "smart_errors"
ERRORS_INCREASED = "DiskErrorsIncreased"
FILESYSTEM_FULL = "FilesystemFull"
QUEUE_DEPTH = "QueueDepthTooLarge"
EXPECTED_BY_HISTORY = "history"
# NOW: to here.


def documents(directory: Path) -> dict[str, Any]:
    """Return the documents of state.db as they lie in it."""
    with closing(sqlite3.connect(directory / "state.db")) as connection:
        rows = connection.execute("SELECT name, text FROM document")
        return {name: json.loads(text) for name, text in rows}


@pytest.fixture
def kept(tmp_path: Path) -> persisted_state.PersistedState:
    """Return what is read of the state; all of it can be."""
    put_state(tmp_path, STATE)
    texts = {name: json.dumps(value) for name, value in documents(tmp_path).items()}
    found, unread = persisted_state.read(texts, NAMES_ENDED)
    assert not unread
    return found


def test_alerts_incidents_and_digest_have_the_names_of_today(
    kept: persisted_state.PersistedState, tmp_path: Path
) -> None:
    """Each alert, member, entry and event that was stored is there, under its name of today."""
    before = documents(tmp_path)
    assert [each.name for each in kept.alerts] == [
        NAMES.alert(each["name"]) for each in before["alerts"]
    ]
    for each, old in zip(kept.alerts, before["alerts"], strict=True):
        assert each.labels == NAMES.labels(tuple(map(tuple, old["labels"])), each.name)
        assert each.label("alertname") == each.name
    for key, incident in kept.incidents.items():
        old = before["incidents.v4"][key]
        members = [NAMES.alert(member["name"]) for member in old["members"]]
        assert [member.name for member in incident.members] == members
        assert (incident.identifier, incident.mails) == (old["identifier"], old["mails"])
    assert [*kept.digest.entries] == [*map(NAMES.entry, before["digest"]["entries"])]
    names = [each["name"] for each in before["digest"]["entries"].values()]
    assert [each.name for each in kept.digest.entries.values()] == [*map(NAMES.alert, names)]
    kinds = [each["burst"]["kind"] for each in before["happened.v2"]["happenings"]]
    assert [each.burst.kind for each in kept.correlation.groups] == [
        NAMES.current(NameKind.EVENT, kind) for kind in kinds
    ]
    conditions = {each.name: each.label("condition") for each in kept.alerts}
    assert conditions[DEVICE_HANG] == DEVICE_HANG_CONDITION
    assert conditions[DEGRADED] == RAID_ARRAY
    assert conditions[PENDING_SECTORS] == SMART_ERRORS
    assert {CRC_ERRORS, FILESYSTEM_ERRORS} <= conditions.keys()
    assert len(kept.incidents) == 8
    assert len(kept.recurring) == 1


def test_every_silence_matches_what_it_matched(kept: persisted_state.PersistedState) -> None:
    """By alert, by its own label, by condition, by value, by a regular expression of old names."""
    alike = {
        "a1e27001": {"alertname": NO_PROGRESS},
        "a1e27002": {"alertname": NO_PROGRESS, NO_PROGRESS_LABEL: "device"},
        "a1e27003": {"alertname": MISMATCHES, "device": "md7"},
        "c0d10001": {"alertname": DEVICE_HANG, "condition": DEVICE_HANG_CONDITION, "device": "sdq"},
        "c0d10002": {"condition": SMART_ERRORS, "severity": "info"},
        "c0d10003": {
            "alertname": "DiskMissing", "expected_by": EXPECTED_BY_HISTORY, "condition": "other",
        },
        "de71ce01": {"device": "sdx", "severity": "warning"},
        "51a7e2c0": {
            "subject": kept.devices.names["sdb"].key, "alertname": "block_medium_error",
        },
    }  # fmt: skip
    unlike = {
        "a1e27001": {"alertname": DEVICE_HANG},
        "a1e27002": {"alertname": NO_PROGRESS, NO_PROGRESS_LABEL: "throttle"},
        "a1e27003": {"alertname": DEVICE_HANG, "device": "md7"},
        "c0d10001": {"alertname": DEVICE_HANG, "condition": RAID_ARRAY, "device": "sdq"},
        "c0d10002": {"condition": RAID_ARRAY, "severity": "info"},
        "c0d10003": {
            "alertname": "DiskMissing", "expected_by": EXPECTED_BY_HISTORY, "condition": RAID_ARRAY,
        },
        "de71ce01": {"device": "sdx", "severity": "critical"},
        "51a7e2c0": {"subject": "disk other", "alertname": "block_medium_error"},
    }  # fmt: skip
    active = {each.identifier: each for each in kept.silences.active(NAMES_ENDED)}
    assert active.keys() == alike.keys() == unlike.keys()
    for identifier, silence in active.items():
        assert silences.matches(silence, tuple(alike[identifier].items())), identifier
        assert not silences.matches(silence, tuple(unlike[identifier].items())), identifier


def test_the_program_goes_on_where_it_was(tmp_path: Path) -> None:
    """Nothing of the past is mailed again: silences and acknowledgements hold, threads go on.

    sdd fails again and sdf still hangs: both are acknowledged. sdq is new and hangs: silenced by
    its condition. sdb cannot read a sector: silenced by a regular expression. Then md0 is whole.
    """
    put_state(tmp_path / "state", STATE)
    threads = {
        key: f"<iowarden.{each['identifier']}.1@db1.example.com>"
        for key, each in documents(tmp_path / "state")["incidents.v4"].items()
    }
    settings = f"host: db1.example.com\nstate_directory: {tmp_path / 'state'}\n"
    live, kernel = machine_of_names(tmp_path)
    live.wait(120)
    live.plug("sdq")
    live.hang("sdq")
    live.wait(60)
    kernel.says(medium_error(4096, "sdb"), medium_error(123464, "sdd"))
    live.wait(120)
    live.change({"/sys/block/md0/md/dev-sdb/state": "in_sync\n"})
    live.degrade(0)
    live.wait(640)
    taken: list[bytes] = []
    life = Life(parse_config(settings + "mail: {to: ops@example.com}\n", "iowarden.yaml"), taken)
    assert not life.play(live.steps)
    mails: list[EmailMessage] = [parsed(data) for data in taken]
    said = [line for line in life.log if line.startswith("state:")]
    assert all("is converted to version" in line for line in said), "all was read"
    unsent, over, gone = mails
    by_disk = {key.rpartition("S-")[2]: thread for key, thread in threads.items()}
    assert unsent["Message-ID"] == by_disk["sdc"]
    assert over["References"] == threads["device md0"]
    assert over["Subject"].startswith("[OK] db1.example.com: md0: ")
    assert gone["References"] == by_disk["sdb"], "no SMART data on this machine"
    assert any("medium error, dev sdb, sector 4096" in line for line in life.log), "it was seen"
    assert any(DEVICE_HANG in line and "sdq" in line for line in life.log), "it was seen"


def test_history_is_read_by_the_names_of_today(tmp_path: Path) -> None:
    """Metrics that rules look back on, with their labels; values of drives; events."""
    put_state(tmp_path, STATE)
    path = str(tmp_path / "history.db")
    with closing(sqlite3.connect(path)) as connection:
        data = connection.execute("SELECT name, data FROM chunk").fetchall()
        rows = connection.execute("SELECT kind FROM event ORDER BY realtime_seconds")
        kinds = [kind for (kind,) in rows]
    stored = {(name, own) for name, each in data for _, own, *_ in chunks.unpack(name, each)}
    assert len(stored) == 4
    now = {NAMES.current(NameKind.METRIC, name) for name, _ in stored}
    assert {NO_PROGRESS_METRIC, INCREASE} <= now
    answers: queue.Queue[object] = queue.Queue()
    thread = History(path, answers.put)
    try:
        thread.load({**dict.fromkeys(now, 8 * DAY), "": 0.0})
        found = answers.get(timeout=20.0)
    finally:
        assert thread.close(20.0)
    assert isinstance(found, SamplesLoaded)
    assert found.watched is not None
    assert found.watched.since == dict.fromkeys(now, NAMES_ENDED - 7 * DAY)
    assert {row[:2] for row in found.series} == {NAMES.series(*each) for each in stored}
    times = [history.window(0.0, NAMES_ENDED)[0] for _, _, history in found.series]
    assert {each[0] for each in times} == {NAMES_ENDED - 7 * DAY}
    days = [NAMES_ENDED - day * DAY for day in range(7, -1, -1)]
    assert [at for at, _ in history_db.read(path, "S-sda", "temperature_celsius")] == days
    assert [value for _, value in history_db.read(path, "S-sda", "197 raw")] == [0.0, 8.0]
    told = event_rows.read(path, event_rows.EventFilter(EventQuery(100)))
    assert [row.kind for row in told] == [NAMES.current(NameKind.EVENT, kind) for kind in kinds]


def put_texts(directory: Path) -> None:
    """Write a user's files."""
    for name in ("iowarden.yaml", "settings.yaml", "expect.yaml"):
        (directory / name).write_bytes(unpacked(STATE, name))
    (directory / "rules.d").mkdir()
    (directory / "rules.d" / "mine.yaml").write_bytes(unpacked(STATE, "mine.yaml"))


def test_overrides_hold_and_each_old_word_is_named(tmp_path: Path) -> None:
    """Rules are changed as they were; where a file has an old word, its line and the new one."""
    put_texts(tmp_path)
    text = (tmp_path / "iowarden.yaml").read_text()
    config = parse_config(text + f"rules_directory: {tmp_path / 'rules.d'}\n", "iowarden.yaml")
    groups = load_rules(config)
    rules = [rule for group in groups for rule in group.rules if isinstance(rule, Rule)]

    def of(name: str) -> dict[str, Rule]:
        return {dict(r.labels)["severity"].text: r for r in rules if r.alert == name}

    assert of(DEVICE_HANG).keys() == {"warning", "critical"}
    assert of(DEVICE_HANG)["warning"].for_seconds == 20.0
    assert of(NO_PROGRESS)["warning"].overridden == ("threshold",)
    assert ">= 15" in of(NO_PROGRESS)["warning"].expression.text
    assert of(PENDING_SECTORS).keys() == {"notice", "critical"}
    assert of(ERRORS_INCREASED)["critical"].keep_firing_for_seconds == 8 * 3600.0
    assert of(FILESYSTEM_FULL)["warning"].overridden == ("threshold",)
    assert of(QUEUE_DEPTH) == {}
    found = [line for line in notes(groups, config) if " is called '" in line]
    alerts = re.findall(r"^  (\w+)(?:/\w+)?: \{", text, re.MULTILINE)
    mine = (tmp_path / "rules.d" / "mine.yaml").read_text()
    metrics = re.findall(r"iowarden_\w+", text + mine)
    words = [(name, NAMES.alert(name)) for name in alerts]
    words += [(name, NAMES.current(NameKind.METRIC, name)) for name in metrics]
    assert len(words) == 11
    for old, new in words:
        lines = [line for line in found if f"'{old}" in line]
        assert bool(lines) is (new != old), old
        assert all(f"'{new}" in line for line in lines), old


def test_settings_of_before_are_refused_with_their_new_names(tmp_path: Path) -> None:
    """Each of them that is called otherwise by now, and no other."""
    put_texts(tmp_path)
    text = (tmp_path / "settings.yaml").read_text()
    keys = [
        *re.findall(r"^(\w+): [^{\n]+$", text, re.MULTILINE),
        *(
            f"{section}.{key}"
            for section, keys in re.findall(r"^(\w+): \{(.*)\}$", text, re.MULTILINE)
            for key in re.findall(r"(\w+): ", keys)
        ),
    ]
    assert len(keys) == 11
    renamed = {key: new for key in keys if (new := NAMES.current(NameKind.KEY, key)) != key}
    problems: tuple[str, ...] = ()
    try:
        parse_config(text, "iowarden.yaml")
    except ConfigError as error:
        problems = error.problems
    assert {line.partition(": ")[2] for line in problems} == {
        f"the setting '{key}' is called '{new}' now; write that" for key, new in renamed.items()
    }


def test_an_expectation_of_before_is_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same recording, the same file: alerts, incidents and mails are the same."""
    put_texts(tmp_path)
    recording = str(FIXTURES / "hung-disk.tar.xz")
    status = main(["replay", recording, "--expect", str(tmp_path / "expect.yaml")])
    assert status == 0, capsys.readouterr().out
