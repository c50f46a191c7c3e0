"""What is persisted over a restart, and the effects of a wrong clock or a late disk."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from enum import Enum
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.daemon.service import persisted_state, stored_documents
from iowarden.daemon.service.stored_documents import NumberKind
from iowarden.daemon.storage.state_db import versioned
from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.incidents.model import Incident, IncidentMember, Incidents, LastMail
from iowarden.rules.incidents.silences import Silence, Silences
from iowarden.rules.matcher import Matcher
from iowarden.rules.notice import Evidence, Reason
from iowarden.rules.notices.digest import Digest
from iowarden.rules.severity import Severity
from iowarden.rules.signals.table import PersistentSignals
from iowarden.rules.topology.device_changes import Devices, VanishedDisk

if TYPE_CHECKING:
    from collections.abc import Callable

START = 1_800_000_000.0


def incident(identifier: str, **changes: object) -> Incident:
    """Return an incident of the host."""
    values: dict[str, object] = {
        "identifier": identifier,
        "key": "host",
        "object": "host",
        "opened_seconds": 900.0,
        "severity": Severity.WARNING,
    }
    return Incident(**{**values, **changes})  # type: ignore[arg-type]


ALERT = Alert(
    "A", (("alertname", "A"),), AlertState.FIRING, 1.0, (), 950.0, 960.0, absent_seconds=990.0
)


def test_what_was_kept_comes_back() -> None:
    """Alerts, incidents, counts and the state of the signals."""
    before = persisted_state.PersistedState(
        install="abc",
        alerts=(ALERT,),
        incidents={"host": incident("i")},
        sequences={"host": 3},
        signals=PersistentSignals({"sda": (1.0,)}, {"sda": ((15, 2.0),)}),
    )
    assert persisted_state.read(persisted_state.documents(before), 1000.0) == (before, {})


def filled(hint: Any, kind: NumberKind = NumberKind.PLAIN) -> Any:  # noqa: ANN401 - any of a document
    """Return a value of a declared type, no part of which is empty."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Matcher:
        return Matcher("alertname", "=", "A")
    if hint in stored_documents.RECORDS:
        hints = get_type_hints(hint)
        fields = stored_documents.RECORDS[hint]
        return hint(**{each.name: filled(hints[each.name], each.kind) for each in fields})
    if kind is NumberKind.PERSISTENT:
        return {"hung_task": {"sda": ((START, 2.0), (START, 3.0))}}
    if origin in (UnionType, Union):
        return filled(next(each for each in arguments if each is not NoneType), kind)
    if origin is tuple:
        return tuple(filled(each, kind) for each in arguments if each is not Ellipsis)
    if origin is dict:
        return {"key": filled(arguments[1], kind)}
    if issubclass(hint, Enum):
        return next(iter(hint))
    return {str: "text", bool: True, int: 7, float: START}[hint]


@pytest.mark.parametrize("name", [*stored_documents.DOCUMENTS][:-1])
def test_each_record_is_read_as_it_was_written(name: str) -> None:
    """With every field set none is lost, or taken for another. The last one moves all times."""
    value = filled(stored_documents.DOCUMENTS[name].type)
    before = replace(persisted_state.PersistedState(), **{name: value})
    assert persisted_state.read(persisted_state.documents(before), START) == (before, {})


def test_a_clock_that_was_set_back_leaves_nothing_in_the_future() -> None:
    """A dead battery: 'ends in an hour' must not become 'ends in a year'."""
    mail = LastMail(980.0, Reason.OPENED, Severity.WARNING, "host")
    before = persisted_state.PersistedState(
        alerts=(ALERT,), incidents={"host": incident("i", last_mail=mail)}
    )
    after, _ = persisted_state.read(persisted_state.documents(before), 100.0)
    (alert,) = after.alerts
    assert (alert.active_seconds, alert.fired_seconds, alert.absent_seconds) == (100.0,) * 3
    assert after.incidents["host"].last_mail == replace(mail, seconds=100.0)
    assert after.incidents["host"].opened_seconds == 100.0


def test_a_clock_that_was_stepped_or_slept_moves_what_was_kept() -> None:
    """Booted in 1970, set an hour later, restarted: an hour ago is not fifty years ago."""
    started, now = 60.0, 1_800_003_600.0
    before = persisted_state.PersistedState(
        alerts=(replace(ALERT, active_seconds=started, fired_seconds=started + 600.0),),
        digest=Digest(begun_seconds=started),
        wall_ahead_seconds=1_800_000_000.0 - started,
    )
    after, problems = persisted_state.read(persisted_state.documents(before), now)
    assert problems == {}
    assert after.digest.begun_seconds == now - 3600.0
    assert after.alerts[0].active_seconds == now - 3600.0
    assert after.alerts[0].fired_seconds == now - 3000.0


def test_a_clock_that_nobody_had_set_reports_no_age() -> None:
    """Written in 1970, read in 2027: it began before now, and no more is known."""
    before = persisted_state.PersistedState(alerts=(ALERT,), digest=Digest(begun_seconds=60.0))
    after, _ = persisted_state.read(persisted_state.documents(before), 1_800_000_000.0)
    assert after.digest.begun_seconds == 1_800_000_000.0
    assert after.alerts[0].fired_seconds == 1_800_000_000.0


@given(st.lists(st.floats(1.6e9, 2.0e9), min_size=1), st.floats(-1e8, 1e8), st.floats(1.7e9, 1.8e9))
def test_what_signals_learnt_keeps_its_distances(
    times: list[float], ahead: float, now: float
) -> None:
    """A rate over a day stays one, whatever the clock did; nothing is in the future."""
    pairs = tuple((at, 5.0) for at in times)
    before = persisted_state.PersistedState(
        signals=PersistentSignals(groups={"fullness": {"/": pairs}}), wall_ahead_seconds=ahead
    )
    after = persisted_state.read(persisted_state.documents(before), now)[0].signals.groups[
        "fullness"
    ]["/"]
    assert all(at <= now + 1e-3 for at, _ in after)
    assert [a - after[0][0] for a, _ in after] == pytest.approx(
        [at - times[0] for at in times], abs=1e-3
    )


def test_one_document_that_is_rubbish_costs_no_other() -> None:
    """It is named, and the rest is used."""
    texts = persisted_state.documents(
        persisted_state.PersistedState(install="abc", sequences={"host": 2})
    )
    after, problems = persisted_state.read({**texts, "alerts": "{"}, 0.0)
    assert after.install == "abc"
    assert after.sequences == {"host": 2}
    assert list(problems) == ["alerts"]


def test_a_late_state_joins_what_has_happened_since() -> None:
    """The host's incident of the previous run and the one opened without it become one thread."""
    before = persisted_state.PersistedState(
        incidents={
            "host": incident("old", mails=2, references=("old.1",)),
            "disk x": incident("disk", key="disk x", firing=True, active_seconds=0.0),
        },
        sequences={"host": 4, "disk x": 1},
    )
    ours = Incidents({"host": incident("new", mails=1, references=("new.1",))}, {"host": 1})
    after = persisted_state.merged(ours, before, 1000.0)
    assert after.by_key["host"].identifier == "new"
    assert after.by_key["host"].references == ("new.1", "old.1")
    assert after.by_key["disk x"].active_seconds == 1000.0
    assert after.sequences == {"host": 4, "disk x": 1}


def test_a_stall_not_reported_yet_goes_on_in_the_thread_of_before() -> None:
    """The file was read a few seconds late: no second 'opened' for the same stall."""
    before = persisted_state.PersistedState(incidents={"host": incident("old", mails=1)})
    ours = Incidents({"host": incident("new")}, {"host": 1})
    assert persisted_state.merged(ours, before, 1000.0).by_key["host"].identifier == "old"


def test_nobody_watched_while_the_program_was_down() -> None:
    """Ten quiet minutes before 'resolved' must have been observed."""
    before = persisted_state.PersistedState(
        incidents={"host": incident("old", mails=1, active_seconds=10.0)}
    )
    after = persisted_state.merged(Incidents(), before, 5000.0)
    assert after.by_key["host"].active_seconds == 5000.0


# --- what cannot be read


def texts_of(before: persisted_state.PersistedState) -> dict[str, Any]:
    """Return documents as JSON."""
    return {
        row.partition(".")[0]: json.loads(text)
        for row, text in persisted_state.documents(before).items()
    }


def after(
    changed: dict[str, Any], now: float = 1000.0
) -> tuple[persisted_state.PersistedState, dict[str, Any]]:
    """Return the state read from today's JSON, and the parts saved as text."""
    texts = {
        versioned(name, stored_documents.DOCUMENTS[name].version): json.dumps(value)
        for name, value in changed.items()
    }
    before, unread = persisted_state.read(texts, now)
    return before, {
        row.partition(".")[0]: each.aside and json.loads(each.aside) for row, each in unread.items()
    }


def two() -> persisted_state.PersistedState:
    """Return a state with two items in most documents."""
    silence = Silence("s1", (Matcher("alertname", "=", "A"),), 900.0, 3600, "x", "root")
    return persisted_state.PersistedState(
        install="abc",
        alerts=(ALERT, replace(ALERT, name="B", labels=(("alertname", "B"),))),
        incidents={"host": incident("one", mails=3), "disk x": incident("two", key="disk x")},
        sequences={"host": 1, "disk x": 1},
        silences=Silences((silence, replace(silence, identifier="s2"))),
        digest=Digest(begun_seconds=1.0, arrived=True, number=7),
    )


def test_a_field_that_is_missing_takes_no_default() -> None:
    """'mails' was renamed by hand: the incident is not read as one without mails."""
    changed = texts_of(two())
    changed["incidents"]["host"]["letters"] = changed["incidents"]["host"].pop("mails")
    before, asides = after(changed)
    assert list(before.incidents) == ["disk x"]
    (reason,) = asides["incidents"]["reasons"]
    assert "missing: mails, unknown: 'letters'" in reason
    assert asides["incidents"]["content"] == {'$["host"]': changed["incidents"]["host"]}
    assert asides["incidents"]["version"] == stored_documents.DOCUMENTS["incidents"].version
    assert list(asides) == ["incidents"]
    assert replace(before, incidents={}) == replace(two(), incidents={})


def test_a_field_that_nobody_knows_is_not_ignored() -> None:
    """From a version without a number: its meaning would be lost with the next write."""
    changed = texts_of(two())
    changed["digest"]["colour"] = "red"
    before, asides = after(changed)
    assert not before.digest.number
    assert asides["digest"]["content"] == changed["digest"]
    assert "unknown: 'colour'" in asides["digest"]["reasons"][0]


def spoilt_alert(changed: dict[str, Any]) -> None:
    """Set an unknown state."""
    changed["alerts"][0]["state"] = "flapping"


def spoilt_silence(changed: dict[str, Any]) -> None:
    """Remove the label of a matcher."""
    changed["silences"]["silences"][0]["matchers"].append({"label": "a", "operator": "~"})


def unusable_silence(changed: dict[str, Any]) -> None:
    """Match by an invalid regular expression."""
    changed["silences"]["silences"][0]["matchers"][0] |= {"operator": "=~", "text": "("}


def spoilt_group(changed: dict[str, Any]) -> None:
    """Add an unknown signal next to a known one."""
    changed["signals"]["groups"] = {"nobody knows it": {}, "hung_task": {"": [[1.0, 2.0]]}}


@pytest.mark.parametrize(
    ("spoil", "name", "left"),
    [
        (spoilt_alert, "alerts", "B"),
        (spoilt_silence, "silences", "s2"),
        (unusable_silence, "silences", "s2"),
        (spoilt_group, "signals", "hung_task"),
    ],
)
def test_one_bad_item_costs_no_other(
    spoil: Callable[[dict[str, Any]], None], name: str, left: str
) -> None:
    """It is skipped and saved as text; of a silence, never a single one of its matchers."""
    changed = texts_of(two())
    spoil(changed)
    before, asides = after(changed)
    assert list(asides) == [name]
    assert len(asides[name]["content"]) == 1
    found = {
        "alerts": [alert.name for alert in before.alerts],
        "silences": [each.identifier for each in before.silences.silences],
        "signals": [*before.signals.groups],
    }
    assert found[name] == [left]


@pytest.mark.parametrize("lost", ["sequences", "digest"])
def test_mails_that_are_numbered_anew_have_other_names(lost: str) -> None:
    """A second 'mail 1 of incident 1 of the host' would be dropped as a duplicate."""
    before, asides = after({**texts_of(two()), lost: [1]})
    assert before.install == ""
    assert before.digest.arrived, "and it is no machine that was never met"
    assert asides[lost]["content"] == [1]


def test_no_document_costs_another_whatever_is_in_it() -> None:
    """Each in turn is no JSON, nested too deeply, or of another type."""
    texts = persisted_state.documents(two())
    for name in texts:
        for text in (
            "{",
            "[" * 100_000,
            '"\\ud800"',
            "null",
            "[[]]",
            '{"a": {}}',
            "1e999",
            "9" * 400,
        ):
            before, unread = persisted_state.read({**texts, name: text}, 1000.0)
            assert set(unread) <= {name}
            lost = {name.partition(".")[0], "install", "digest"}
            for row in stored_documents.DOCUMENTS.keys() - lost - {"wall_ahead_seconds"}:
                assert getattr(before, row) == getattr(two(), row) or name == "wall_ahead_seconds"


# --- versions


def numbered(
    migrations: tuple[Callable[[Any], Any], ...], document: str = "sequences"
) -> stored_documents.Schema:
    """Return a schema in which a document has more versions, the last one as the current."""
    own = stored_documents.DOCUMENTS[document]
    digests = (*own.digests, *(f"{n}" for n, _ in enumerate(migrations)))
    new = replace(own, digests=digests, migrations=(*own.migrations, *migrations))
    return stored_documents.Schema({**stored_documents.DOCUMENTS, document: new})


def test_a_document_goes_through_all_versions_that_it_missed() -> None:
    """Version 1 counted from 0, version 2 used words for numbers."""
    schema = numbered(
        (
            lambda found: {key: "x" * (number + 1) for key, number in found.items()},
            lambda found: {key: len(text) for key, text in found.items()},
        )
    )
    for row, text in {
        "sequences": '{"host": 1}',
        "sequences.v2": '{"host": "xx"}',
        "sequences.v3": '{"host": 2}',
    }.items():
        assert persisted_state.read({row: text}, 0.0, schema)[0].sequences == {"host": 2}
    assert persisted_state.documents(persisted_state.PersistedState(), schema=schema).keys() >= {
        "sequences.v3",
        "alerts",
    }
    assert persisted_state.outdated(
        ["sequences", "sequences.v2", "sequences.v3", "alerts"], schema
    ) == (
        "sequences",
        "sequences.v2",
    )


def test_a_migration_that_fails_costs_its_document_only() -> None:
    """A bug of ours: the text is saved, and the start continues."""
    schema = numbered((lambda found: found["nobody"],))
    texts = persisted_state.documents(two())
    before, unread = persisted_state.read(texts, 1000.0, schema)
    assert list(unread) == ["sequences"]
    assert "KeyError: 'nobody'" in unread["sequences"].text
    assert before.incidents == two().incidents


def test_a_document_of_a_newer_version_is_left_alone_and_reported() -> None:
    """After a downgrade: none of it is read, written or removed; the rest is."""
    texts = {**persisted_state.documents(two()), "incidents.v7": "{}", "weather": "{}"}
    version = stored_documents.DOCUMENTS["incidents"].version
    del texts[versioned("incidents", version)]
    before, unread = persisted_state.read(texts, 1000.0)
    assert before.incidents == {}
    assert before.silences == two().silences
    assert {row: each.aside for row, each in unread.items()} == {"incidents.v7": "", "weather": ""}
    assert (
        f"written by a newer iowarden (version 7, this one supports version {version})"
        in unread["incidents.v7"].text
    )
    assert persisted_state.outdated(texts) == ()


def test_after_an_upgrade_a_downgrade_and_an_upgrade_both_are_known() -> None:
    """The older version wrote last; data that only the newer one knew is not lost."""
    documents = ("alerts", "incidents", "sequences", "silences", "digest", "devices")
    schemas = [numbered((lambda found: found,), name) for name in documents]
    schema = stored_documents.Schema(
        {name: each.documents[name] for name, each in zip(documents, schemas, strict=True)}
    )
    newer = persisted_state.documents(two(), schema=schema)
    late = Silence("s3", (Matcher("alertname", "=", "C"),), 990.0, 60, "y", "ops")
    gone = VanishedDisk("sdz", "sdz", 980.0)
    meanwhile = persisted_state.PersistedState(
        incidents={"host": incident("other", mails=1)},
        sequences={"host": 1, "disk y": 1},
        silences=Silences((late,)),
        digest=Digest(begun_seconds=950.0, arrived=True),
        devices=Devices({"disk z": gone}),
    )
    rows = persisted_state.documents(meanwhile)
    older = {row: text for row, text in rows.items() if row.partition(".")[0] in documents}
    after, unread = persisted_state.read({**newer, **older}, 1000.0, schema)
    assert after.incidents["host"].references == ("other.1", "one.1")
    assert set(after.incidents) == {"host", "disk x"}
    assert after.sequences == {"host": 1, "disk x": 1, "disk y": 1}
    assert {each.identifier for each in after.silences.silences} == {"s1", "s2", "s3"}
    assert (after.digest.arrived, after.digest.number) == (True, 7)
    assert after.devices.gone == {"disk z": gone}
    assert {row for row, each in unread.items() if each.aside} == newer.keys() & {
        f"devices.v{schema.documents['devices'].version}"
    }
    assert set(persisted_state.outdated({**newer, **older}, schema)) == set(older)


def test_a_declaration_does_not_change_without_a_new_version() -> None:
    """A name, type or kind in stored_documents.py changed.

    Before the first release: replace the digest there; nobody has such a document. After it: add a
    digest behind the last one, and a migration from the version before.
    """
    expected = {
        name: stored_documents.digest(each.type)
        for name, each in stored_documents.DOCUMENTS.items()
    }
    assert {name: each.digests[-1] for name, each in stored_documents.DOCUMENTS.items()} == expected
    for name, each in stored_documents.DOCUMENTS.items():
        assert len(each.migrations) == each.version - 1, name
    assert [*stored_documents.DOCUMENTS] == [
        field.name for field in fields(persisted_state.PersistedState)
    ]


def test_a_declaration_is_reported_in_stored_words_only() -> None:
    """Name, type, kind, the values of an enumeration: moving a class changes no digest."""
    text = stored_documents.described(dict[str, Incident])
    for part in (
        "mails: integer,",
        "first_mailed_seconds: number (program time) or null",
        "realtime_seconds: number (wall time)",
        'state: one of ["firing", "inactive", "pending", "resolved", "unknown"]',
    ):
        assert part in text
    assert "Incident" not in text
    assert "Severity" not in text


def test_a_field_without_a_declaration_is_an_error() -> None:
    """A new field without a declaration of how it is stored."""
    with pytest.raises(TypeError, match=r"Matcher: .* but not text"):
        stored_documents._record(Matcher, "label operator")
    with pytest.raises(TypeError, match=r"Matcher: .* but not colour"):
        stored_documents._record(Matcher, "label operator text colour")


# --- kinds


def test_only_times_of_the_programs_clock_are_moved() -> None:
    """An hour of suspend: how long a silence lasts, when a line was logged, a count stay."""
    silence = Silence("s", (Matcher("alertname", "=", "A"),), START, 3600, "x", "root")
    member = IncidentMember(
        labels=(), name="A", severity=Severity.WARNING, state=AlertState.FIRING,
        since_seconds=START, summary="", advice="", unknown="",
        evidence=(Evidence(START, "kernel", "x"),), value=START,
    )  # fmt: skip
    before = persisted_state.PersistedState(
        silences=Silences((silence,)),
        incidents={"host": incident("i", members=(member,))},
        alerts=(replace(ALERT, recent_firings=(START, START + 1.0)),),
        signals=PersistentSignals(
            groups={
                "hung_task": {"": ((2 * START, START), (START, START))},
                "read_ahead": {"sda": ((0.0, START), (START, 0.0))},
            }
        ),
        wall_ahead_seconds=3600.0,
    )
    after, unread = persisted_state.read(persisted_state.documents(before), START + 8000.0)
    assert not unread
    later = START + 3600.0
    assert after.silences.silences[0] == replace(silence, created_seconds=later)
    (found,) = after.incidents["host"].members
    assert (found.since_seconds, found.value, found.evidence) == (later, START, member.evidence)
    assert after.alerts[0].recent_firings == (later, later + 1.0)
    assert after.signals.groups == {
        "hung_task": {"": ((2 * START, START), (later, START))},
        "read_ahead": {"sda": ((0.0, START), (later, 0.0))},
    }


def test_what_signals_learnt_before_the_clock_was_set_is_moved_as_well() -> None:
    """Booted in 1970, set an hour later: events of the first hour are not 50 years old."""
    before = persisted_state.PersistedState(
        signals=PersistentSignals(groups={"md_state": {"md0": ((60.0, 1.0), (90.0, 0.0))}}),
        wall_ahead_seconds=START - 60.0,
    )
    after, _ = persisted_state.read(persisted_state.documents(before), START + 3600.0)
    assert after.signals.groups["md_state"]["md0"] == ((START, 1.0), (START + 30.0, 0.0))
