"""Calendar expressions mean the same as in systemd."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.rules import calendar

BERLIN = ZoneInfo("Europe/Berlin")
EXPRESSIONS = (
    *("Sun 03:00", "02:30", "daily", "weekly", "monthly", "quarterly", "yearly", "hourly"),
    *("*-*-01 04:00", "Sat *-*-1..7 01:00", "Mon..Fri *-1/3-* 0/6:15,45", "*-02-29", "Sat,Sun"),
    *("12-24 18:00", "Mon,", "fri..fri", "*:0/30", "Sunday *-6..8-1/7 3:07:00", "Tue 00:00"),
    *("semiannually", "*-*-31 23:59", "*-2,11-* 5..7:00"),
)


def moment(text: str, zone: ZoneInfo = BERLIN) -> float:
    """Unix time of a local time."""
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


def local(at: float | None) -> str:
    """A moment in Berlin."""
    assert at is not None
    return f"{datetime.fromtimestamp(at, BERLIN):%a %Y-%m-%d %H:%M %Z}"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_means_what_systemd_reports(text: str) -> None:
    """The next moments of expressions, by 'systemd-analyze calendar' and by us."""
    said = subprocess.run(
        ["systemd-analyze", "calendar", "--iterations=4", "--base-time=2026-01-15", text],
        env={"TZ": "UTC", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    theirs = [
        line.partition(": ")[2]
        for line in said.splitlines()
        if line.strip().startswith(("Next elapse", "Iter. #", "Iteration #"))  # the last since 257
    ]
    found = calendar.parse(text)
    ours, at = [], moment("2026-01-15", ZoneInfo("UTC"))
    for _ in theirs:
        following = found.following(at, UTC)
        assert following is not None
        at = following
        ours.append(f"{datetime.fromtimestamp(at, UTC):%a %Y-%m-%d %H:%M:%S UTC}")
    assert ours == theirs
    assert len(ours) == 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "got nothing"),
        ("Sun..Mon 1:00", "in order from Monday"),
        ("Sunn 1:00", "expected a weekday"),
        ("Sun 25:00", "hour: expected 0 to 23"),
        ("Sun 3", "'3'; see systemd.time"),
        ("*-*-0 1:00", "day: expected 1 to 31"),
        ("*-*-5/3..9", "got '5/3..9'"),
        ("*-*-5/0", "day: expected 1 to 31, got '5/0'"),
        ("*-02-30", "an existing date"),
        ("2027-01-01 1:00", "'*' for the year"),
        ("*-*~1 1:00", "got '*~1'"),
        ("1:00:30", "no seconds"),
        ("1:00 Europe/Berlin", "got 'Europe/Berlin'"),
        ("1:2:3:4", "got '1:2:3:4'"),
        ("L/../../7/03", "expected a weekday"),
        ("٣:00", "got '٣'"),
        ("1" * 300, "at most 200"),
    ],
)
def test_what_is_no_expression_is_reported_with_what_one_is(text: str, expected: str) -> None:
    """Slips, what systemd has and we do not, and smartd's notation."""
    with pytest.raises(ValueError, match=r"expected") as error:
        calendar.parse(text)
    assert expected in str(error.value)


def test_a_time_that_spring_leaves_out_is_an_hour_later_and_one_that_autumn_doubles_is_once() -> (
    None
):
    """In Berlin 02:30 of 29 March 2026 does not exist, that of 25 October does twice."""
    found = calendar.parse("02:30")
    assert local(found.latest(moment("2026-03-29T12:00"), BERLIN)) == "Sun 2026-03-29 03:30 CEST"
    autumn = found.latest(moment("2026-10-25T12:00"), BERLIN)
    assert local(autumn) == "Sun 2026-10-25 02:30 CEST"
    assert autumn is not None
    assert local(found.following(autumn, BERLIN)) == "Mon 2026-10-26 02:30 CET"


@given(
    st.sampled_from(EXPRESSIONS).map(calendar.parse),
    st.integers(int(moment("2020-01-01T00:00")), int(moment("2030-01-01T00:00"))),
)
def test_between_the_last_moment_and_the_next_there_is_none(
    found: calendar.Calendar, now: int
) -> None:
    """The last moment before the next one is the last one before now."""
    latest, following = found.latest(now, BERLIN), found.following(now, BERLIN)
    assert latest is not None
    assert following is not None
    assert latest <= now < following
    assert found.latest(following - 1, BERLIN) == latest
    assert found.following(latest, BERLIN) == following
