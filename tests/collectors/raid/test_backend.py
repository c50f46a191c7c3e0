"""Common parts of all backends: choice of the program, parts, unlisted controllers."""

from __future__ import annotations

import gc
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
from iowarden.collectors.raid.output import readable

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
    assert found == [("b", "one"), ("d", "other")]
    assert list(map(repr, errors)) == [repr(failed), repr(odd)]


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


def raises(text: str) -> str:
    """A row, or a program, that cannot be read."""
    raise ParseError(text)


def no_row() -> None:
    """None of two rows can be read."""
    with pytest.raises(ParseError, match="'1'"):
        readable(("1", "2"), lambda row: raises(f"{row!r}"), [])


def one_row() -> None:
    """The second of two rows can be read."""
    assert readable(("1", "2"), lambda row: row if row == "2" else raises(row), []) == ["2"]


def no_program() -> None:
    """None of two programs is installed."""

    def run(program: str) -> str:
        raise ProgramNotFoundError(program)

    with pytest.raises(ProgramNotFoundError, match="a"):
        first_installed(LIVE, ("a", "b"), run)


def another_program() -> None:
    """The second of two programs answers."""
    failed: list[Exception] = []
    (answer,) = answers_of(
        LIVE, ("a", "b"), lambda each: each if each == "b" else raises(each), failed
    )
    assert answer == ("b", "b")
    assert [str(each) for each in failed] == ["a"]
    assert [each.__traceback__ for each in failed] == [None]


@pytest.mark.parametrize("read", [no_row, one_row, no_program, another_program])
def test_what_could_not_be_read_leaves_nothing_for_a_walk_of_the_collector(
    read: Callable[[], None],
) -> None:
    """An error that is kept holds the frames it passed, and with them whole outputs."""
    read()
    gc.collect()
    gc.disable()
    try:
        read()
        assert gc.collect() == 0
    finally:
        gc.enable()
