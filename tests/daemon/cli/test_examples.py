"""Each command shows how it is used: in its help, in the reference, and it can be copied."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from iowarden.daemon.cli.main import full_parser, main
from iowarden.daemon.reference import metrics
from iowarden.daemon.terminal.examples import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[3] / "packaging/doc/commands.md"


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and all below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from parsers(command)


ALL = {parser.prog: parser for parser in parsers(full_parser())}


@pytest.mark.parametrize("name", ALL)
def test_every_help_ends_in_examples(name: str) -> None:
    """Also that of a group, and of iowarden itself; none is wrapped."""
    _, found, rest = ALL[name].format_help().partition("\nexamples:\n")
    assert found
    assert rest.startswith("  ")


@pytest.mark.parametrize(
    ("path", "line"), [(path, line) for path, found in EXAMPLES.items() for line, _ in found]
)
def test_an_example_is_a_command(path: str, line: str) -> None:
    """Of the command that shows it, with arguments that it takes."""
    (mine,) = [part for part in line.split("|") if f" {part}".strip().startswith("iowarden ")]
    words = shlex.split(mine)
    assert " ".join(words).startswith(f"iowarden {path}")
    full_parser().parse_args(words[1:])
    page = re.sub(r" \\\n +", " ", PAGE.read_text())  # a long one is on several lines
    assert f"\n      {line}\n" in page


def test_a_saved_example_of_a_removed_command_is_found() -> None:
    """No example is of a command that does not exist."""
    assert {f"iowarden {path}" for path in EXAMPLES} - ALL.keys() == set()


def test_the_version_is_an_option_as_of_other_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` prints what 'iowarden version' prints."""
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert main(["version"]) == 0
    assert capsys.readouterr().out == printed
    assert printed.startswith("iowarden ")


def test_the_metrics_of_examples_exist() -> None:
    """An example with the name of an earlier version would have an empty result."""
    known = {family.name for family in metrics.families()}
    named = {
        name
        for each in EXAMPLES.values()
        for line, _ in each
        if line.startswith(("iowarden query", "iowarden metrics iowarden_"))
        for name in re.findall(r"\biowarden_\w+", line)
    }
    assert len(named) > 2
    assert named <= known
