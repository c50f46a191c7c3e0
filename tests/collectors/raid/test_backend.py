"""Common parts of all backends: choice of the program, parts, unlisted controllers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.machine import Machine
from iowarden.collectors.model import (
    AbsentError,
    DeadlineError,
    ParseError,
    ProgramNotFoundError,
    ReadError,
    StuckError,
)
from iowarden.collectors.raid.backend import PartReader, answers_of, first_installed, not_listed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LIVE, PLAYED = Machine(""), Machine("/played")


def programs(told: Mapping[str, str | Exception]) -> Callable[[str], str]:
    """Return a runner of programs, each of which prints something or fails."""

    def run(program: str) -> str:
        found = told[program]
        if isinstance(found, Exception):
            raise found
        return found

    return run


def test_the_first_program_that_is_installed_is_queried() -> None:
    """A failing one is installed: the next one is not run."""
    missing = ProgramNotFoundError("a is not installed")
    assert first_installed(LIVE, ("a", "b"), programs({"a": missing, "b": "told"})) == "told"
    with pytest.raises(ProgramNotFoundError, match="a is not"):
        first_installed(LIVE, ("a", "b"), programs({"a": missing, "b": ProgramNotFoundError("b")}))
    with pytest.raises(ReadError, match="failed"):
        first_installed(LIVE, ("a", "b"), programs({"a": ReadError("failed"), "b": "told"}))


def test_without_the_probe_no_other_program_is_tried() -> None:
    """A recorded machine may have another one's answer."""
    told = programs({"a": AbsentError("no probe"), "b": "told"})
    with pytest.raises(AbsentError, match="no probe"):
        first_installed(LIVE, ("a", "b"), told)
    with pytest.raises(AbsentError, match="no probe"):
        list(answers_of(LIVE, ("a", "b"), told, []))
    assert first_installed(PLAYED, ("a", "b"), told) == "told"
    assert list(answers_of(PLAYED, ("a", "b"), told, [])) == [("b", "told")]


@pytest.mark.parametrize("error", [DeadlineError("late"), StuckError("stuck")])
def test_behind_a_program_that_hangs_none_is_queried(error: ReadError) -> None:
    """The next one would hang as well, and so would the next query."""
    told = programs({"a": error, "b": "told"})
    with pytest.raises(type(error)):
        first_installed(LIVE, ("a", "b"), told)
    with pytest.raises(type(error)):
        list(answers_of(LIVE, ("a", "b"), told, []))
    with pytest.raises(type(error)):
        PartReader(told).read(str, "", "a")


def test_each_program_that_answers_is_heard_and_why_others_do_not() -> None:
    """In their order."""
    errors: list[Exception] = []
    failed, odd = ReadError("failed"), ParseError("odd")
    told = programs({"a": failed, "b": "one", "c": odd, "d": "other"})
    found = list(answers_of(LIVE, ("a", "b", "c", "d"), told, errors))
    assert (found, errors) == ([("b", "one"), ("d", "other")], [failed, odd])


def test_a_part_that_cannot_be_read_takes_no_other_away() -> None:
    """It is reported, unless the card only lacks the requested feature."""
    lacking = ReadError("this is not supported")
    parts = PartReader(programs({"a": ReadError("failed"), "b": lacking, "c": "3"}))
    harmless = re.compile("not supported")
    assert parts.read(int, None, "a", harmless=harmless) is None
    assert parts.read(int, None, "b", harmless=harmless) is None
    assert parts.read(int, None, "c") == 3
    assert parts.read_errors == ["failed"]


def test_without_a_program_there_is_no_other_part_either() -> None:
    """If the backend is configured so; otherwise it is a part like others."""
    told = programs({"a": ProgramNotFoundError("not installed")})
    with pytest.raises(ProgramNotFoundError):
        PartReader(told, raises_absent=True).read(int, None, "a")
    parts = PartReader(told)
    assert (parts.read(int, 7, "a"), parts.read_errors) == (7, ["not installed"])


def test_hosts_that_no_program_lists_are_named() -> None:
    """Which of them it is, is unknown."""
    expected = "'tw_cli show': expected 2 controllers (host0, host3), got 1"
    assert not_listed("tw_cli show", ["host0", "host3"], 1) == expected
