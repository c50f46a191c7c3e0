"""What is kept over a restart, and what a clock or a late disk may do to it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.daemon import kept
from iowarden.rules.alerts import Alert, State
from iowarden.rules.digest import Digest
from iowarden.rules.incidents import Incident, Incidents
from iowarden.rules.notice import Severity
from iowarden.rules.signals.table import Memory


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


ALERT = Alert("A", (("alertname", "A"),), State.FIRING, 1.0, (), 950.0, 960.0, missed_seconds=990.0)


def test_what_was_kept_comes_back() -> None:
    """Alerts, incidents, counts and what the signals learnt."""
    before = kept.Kept(
        install="abc",
        alerts=(ALERT,),
        incidents={"host": incident("i")},
        sequences={"host": 3},
        signals=Memory({"sda": (1.0,)}, {"sda": ((15, 2.0),)}),
    )
    assert kept.read(kept.documents(before), 1000.0) == (before, {})


def test_a_clock_that_was_set_back_leaves_nothing_in_the_future() -> None:
    """A dead battery: what 'ends in an hour' must not end in a year."""
    before = kept.Kept(alerts=(ALERT,), incidents={"host": incident("i", mailed_seconds=980.0)})
    after, _ = kept.read(kept.documents(before), 100.0)
    (alert,) = after.alerts
    assert (alert.active_seconds, alert.fired_seconds, alert.missed_seconds) == (100.0,) * 3
    assert after.incidents["host"].mailed_seconds == 100.0
    assert after.incidents["host"].opened_seconds == 100.0


def test_a_clock_that_was_stepped_or_slept_moves_what_was_kept() -> None:
    """Booted in 1970, set an hour later, restarted: an hour ago is not fifty years ago."""
    started, now = 60.0, 1_800_003_600.0
    before = kept.Kept(
        alerts=(replace(ALERT, active_seconds=started, fired_seconds=started + 600.0),),
        digest=Digest(begun_seconds=started),
        wall_ahead_seconds=1_800_000_000.0 - started,
    )
    after, problems = kept.read(kept.documents(before), now)
    assert problems == {}
    assert after.digest.begun_seconds == now - 3600.0
    assert after.alerts[0].active_seconds == now - 3600.0
    assert after.alerts[0].fired_seconds == now - 3000.0


def test_a_clock_that_nobody_had_set_tells_no_age() -> None:
    """Written in 1970, read in 2027: it began before now, and no more is known."""
    before = kept.Kept(alerts=(ALERT,), digest=Digest(begun_seconds=60.0))
    after, _ = kept.read(kept.documents(before), 1_800_000_000.0)
    assert after.digest.begun_seconds == 1_800_000_000.0
    assert after.alerts[0].fired_seconds == 1_800_000_000.0


@given(st.lists(st.floats(1.6e9, 2.0e9), min_size=1), st.floats(-1e8, 1e8), st.floats(1.7e9, 1.8e9))
def test_what_signals_learnt_keeps_its_distances(
    times: list[float], ahead: float, now: float
) -> None:
    """A rate over a day is one over a day, whatever the clock did; nothing is in the future."""
    pairs = tuple((at, 5.0) for at in times)
    before = kept.Kept(signals=Memory(groups={"fullness": {"/": pairs}}), wall_ahead_seconds=ahead)
    after = kept.read(kept.documents(before), now)[0].signals.groups["fullness"]["/"]
    assert all(at <= now + 1e-3 for at, _ in after)
    assert [a - after[0][0] for a, _ in after] == pytest.approx(
        [at - times[0] for at in times], abs=1e-3
    )


def test_one_document_that_is_rubbish_costs_no_other() -> None:
    """It is named, and the rest is taken."""
    texts = kept.documents(kept.Kept(install="abc", sequences={"host": 2}))
    after, problems = kept.read({**texts, "alerts": "{"}, 0.0)
    assert after.install == "abc"
    assert after.sequences == {"host": 2}
    assert list(problems) == ["alerts"]


def test_a_late_state_joins_what_has_happened_since() -> None:
    """The host's incident of before and the one opened without it become one thread."""
    before = kept.Kept(
        incidents={
            "host": incident("old", mails=2, references=("old.1",)),
            "disk x": incident("disk", key="disk x", firing=True, active_seconds=0.0),
        },
        sequences={"host": 4, "disk x": 1},
    )
    ours = Incidents({"host": incident("new", mails=1, references=("new.1",))}, {"host": 1})
    after = kept.merged(ours, before, 1000.0)
    assert after.by_key["host"].identifier == "new"
    assert after.by_key["host"].references == ("new.1", "old.1")
    assert after.by_key["disk x"].active_seconds == 1000.0
    assert after.sequences == {"host": 4, "disk x": 1}


def test_a_stall_not_told_yet_goes_on_in_the_thread_of_before() -> None:
    """The file came a few seconds late: no second 'opened' for the same stall."""
    before = kept.Kept(incidents={"host": incident("old", mails=1)})
    ours = Incidents({"host": incident("new")}, {"host": 1})
    assert kept.merged(ours, before, 1000.0).by_key["host"].identifier == "old"


def test_nobody_watched_while_the_program_was_down() -> None:
    """Ten quiet minutes before an all clear are those that somebody saw."""
    before = kept.Kept(incidents={"host": incident("old", mails=1, active_seconds=10.0)})
    after = kept.merged(Incidents(), before, 5000.0)
    assert after.by_key["host"].active_seconds == 5000.0
