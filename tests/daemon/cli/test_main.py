"""The command line: each subcommand is found, and imports only what it needs."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from iowarden.daemon.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MODULES = {module for group in main.COMMANDS.values() for module, _ in group.values()}


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_module_adds_the_commands_by_which_it_is_found(
    module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A listed command that is not added would be refused, an unlisted one never found."""
    added = []
    parsers = main.argparse.ArgumentParser().add_subparsers()

    def add(name: str, run: object) -> object:
        added.append(name)
        return parsers.add_parser(name)

    importlib.import_module(f"iowarden.daemon.cli.{module}").add_commands(add)
    listed = (row for group in main.COMMANDS.values() for row in group.items())
    assert sorted(added) == sorted(name for name, (at, _) in listed if at == module)
    for name in added:
        with pytest.raises(SystemExit) as ended:
            main.main([name, "--help"])
        assert ended.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: iowarden {name} ")


def test_the_help_lists_all_commands_by_what_they_are_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whoever is woken looks below 'act' for what to do; each line fits a console."""
    with pytest.raises(SystemExit) as ended:
        main.main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    for group, commands in main.COMMANDS.items():
        below = text.partition(f"\n{group}:\n")[2].partition("\n\n")[0]
        assert [name for name in commands if f"\n  {name} " not in f"\n{below}"] == []


def commands_with_actions() -> dict[str, list[str]]:
    """Return the actions of each command that has any."""
    (commands,) = (a for a in main.full_parser()._actions if a.metavar == "COMMAND")
    assert isinstance(commands.choices, dict)
    return {
        name: list(action.choices or ())
        for name, parser in commands.choices.items()
        for action in parser._actions
        if action.metavar == "ACTION"
    }


@pytest.mark.parametrize(("command", "actions"), commands_with_actions().items())
@pytest.mark.parametrize("word", ["", "qwertz"])
def test_a_missing_or_unknown_action_is_answered_by_those_that_there_are(
    command: str, actions: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """'required: ACTION' does not say what to type."""
    with pytest.raises(SystemExit) as ended:
        main.main([command, *filter(None, [word])])
    assert ended.value.code == 2
    text = capsys.readouterr().err
    assert all(re.search(rf"\b{action}\b", text.rpartition("error:")[2]) for action in actions)
    assert len(actions) > 0


@pytest.mark.parametrize(
    ("words", "usage", "error"),
    [
        (["evnets"], "iowarden [-h]", "no command 'evnets'; did you mean 'events'?"),
        (["xyzzy"], "iowarden [-h]", "no command 'xyzzy'; 'iowarden --help' lists all"),
        (["status", "--jsno"], "iowarden status", "no option '--jsno'; did you mean '--json'?"),
        (
            ["--state-directory", "/srv/state", "status"],
            "iowarden [-h]",
            "no option '--state-directory' before a command; options follow it: iowarden COMMAND",
        ),
        (["--verison"], "iowarden [-h]", "no option '--verison'; did you mean '--version'?"),
        (
            ["silence", "add", "--reason", "x", "--fro=2h", "device=sda"],
            "iowarden silence add",
            "no option '--fro'; did you mean '--for'",
        ),
        (["version", "extra"], "iowarden version", "expected nothing more, got 'extra'"),
        (
            ["storage", "sdb"],
            "iowarden storage",
            "expected nothing more, got 'sdb'; one disk: iowarden disk show sdb",
        ),
        (["mail", "list", "5c"], "iowarden mail list", "'5c'; one mail: iowarden mail show 5c"),
        (
            ["silence", "exprie"],
            "iowarden silence",
            "expected one of add, list, expire, got 'exprie'; did you mean 'expire'?",
        ),
        (["log-level", "dbug"], "iowarden log-level", "got 'dbug'; did you mean 'debug'?"),
        (["setup", "--mail-tls", "ssl"], "iowarden setup", "expected one of auto, none, starttls,"),
    ],
)
def test_a_typing_error_is_answered_by_what_is_near(
    words: list[str], usage: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the usage of the command that was meant, not that of the whole program."""
    with pytest.raises(SystemExit) as ended:
        main.main(words)
    assert ended.value.code == 2
    text = capsys.readouterr().err
    assert text.startswith(f"usage: {usage}")
    assert error in text


def commands() -> Iterator[argparse.ArgumentParser]:
    """Yield the parser of each command without actions, and of each action."""
    parsers = [main.full_parser()]
    for parser in parsers:
        below = [each for each in parser._actions if each.nargs == argparse.PARSER]
        parsers += (each for action in below for each in dict(action.choices or {}).values())
        if not below:
            yield parser


def accepted(action: argparse.Action) -> str:
    """Return a word that an argument or option of a command takes."""
    if action.choices is not None:
        return str(next(iter(action.choices)))
    tried = ("x", "1", "2h", "2126-01-01", "21:00-23:00", "sda=1", "0.5")
    convert = action.type if callable(action.type) else str
    for word in tried:
        with contextlib.suppress(argparse.ArgumentTypeError, ValueError):
            convert(word)
            return word
    raise AssertionError(f"{action.metavar}: none of {tried} is taken")


def needed(parser: argparse.ArgumentParser) -> list[str]:
    """Return the words of a command: all its arguments, also those that it may lack."""
    words = [accepted(each) for each in parser._actions if not each.option_strings]
    for each in parser._actions:
        if each.option_strings and each.required:
            words += [each.option_strings[0], accepted(each)]
    return words


TAKES_MANY = ("*", "+", argparse.REMAINDER)
LIMITED, OPEN = [], []
for each in commands():
    (OPEN if any(a.nargs in TAKES_MANY for a in each._actions) else LIMITED).append(each)


@pytest.mark.parametrize("parser", LIMITED, ids=lambda parser: str(parser.prog))
@pytest.mark.parametrize("extra", [["extra"], ["extra", "more"], ["--", "-x"]], ids=" ".join)
def test_a_word_too_many_is_answered_by_the_usage_of_its_own_command(
    parser: argparse.ArgumentParser, extra: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Not by that of 'iowarden', in which neither the word nor its command stands."""
    words = [*parser.prog.split()[1:], *needed(parser)]
    assert main._parser_for(words[0]).parse_args(words)
    with pytest.raises(SystemExit) as ended:
        main.main([*words, *extra])
    assert ended.value.code == 2
    text = capsys.readouterr().err
    assert text.startswith(f"usage: {parser.prog} ")
    assert f"\n{parser.prog}: error: " in text
    assert f"'{extra[-1]}'" in text.rpartition("error: ")[2]


def test_the_commands_that_take_any_number_of_words_are_known() -> None:
    """To each other one a word too many can be given."""
    names = {each.prog.removeprefix("iowarden ") for each in OPEN}
    assert names == {"replay", "rules check", "rules test", "silence add"}


def test_the_help_imports_no_command() -> None:
    """It is there at once on a machine under load: the modules of the commands take a second."""
    code = (
        "import contextlib, sys\nfrom iowarden.daemon.cli import main\n"
        "with contextlib.suppress(SystemExit): main.main(['--help'])\n"
        "print(*(name for name in sys.modules if name.endswith(('_command', '_commands'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""


VENDORS = (
    "adaptec areca.arcmsr areca.areca_smart areca.cli64 megaraid.storcli_answer"
    " megaraid.storcli_events mpt smartarray threeware.tw_cli"
).split()
"""What reads the controllers of a vendor: most machines have none."""


@pytest.mark.parametrize(
    ("command", "unwanted"),
    [
        ("events", ["rules.engine", "collectors.registry", "daemon.config", "daemon.service"]),
        ("status", ["rules.notices", "rules.signals", "rules.engine", "collectors.smart"]),
        ("monitoring", ["rules.engine", "collectors.registry", "daemon.config", "daemon.service"]),
        (
            "run",
            [
                "daemon.terminal.console",
                "daemon.cli.service_client",
                "daemon.check",
                "daemon.replay",
                "daemon.cli.rules_command",
                *(f"collectors.raid.{each}" for each in VENDORS),
            ],
        ),
        ("rules", ["daemon.service", "daemon.notify", "daemon.storage.state_db", "daemon.http"]),
    ],
)
def test_a_command_carries_no_other(command: str, unwanted: list[str]) -> None:
    """A query imports no rule engine; the service no other commands, and no vendor's reader."""
    code = (
        "import sys; from iowarden.daemon.cli import main; main._parser(sys.argv[1]);"
        " print(*sys.modules)"
    )
    program = [sys.executable, "-c", code, command]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "iowarden.daemon.cli.main" in loaded
    rooms = tuple(f"iowarden.{each}" for each in unwanted)
    assert [name for name in loaded if name.startswith(rooms)] == []


PRINTING = (
    ["--help"],
    ["version"],
    ["config", "check", "DIR/iowarden.yaml"],
    ["rules", "check", "--config", "DIR/iowarden.yaml"],
    ["rules", "list", "--config", "DIR/iowarden.yaml"],
    ["explain", "DIR/lines"],
    ["unparsed", "list", "--config", "DIR/iowarden.yaml"],
)
"""Commands that print without a service; those that ask one print by the same functions."""


@pytest.fixture
def printing(tmp_path: Path) -> Callable[[list[str]], list[str]]:
    """Return the arguments of a command with what it reads."""
    (tmp_path / "iowarden.yaml").write_text(f"state_directory: {tmp_path}/state\n")
    (tmp_path / "lines").write_text("md/raid1:md0: Disk failure on sda1, disabling device.\n")
    return lambda words: [word.replace("DIR", str(tmp_path)) for word in words]


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_the_reader_of_a_command_may_end_before_it(
    printing: Callable[[list[str]], list[str]], words: list[str]
) -> None:
    """'iowarden config check | head -0': neither a traceback nor any other word."""
    reading, writing = os.pipe()
    os.close(reading)
    errors = _errors(printing(words), writing)
    assert "Traceback" not in errors
    assert "Broken pipe" not in errors
    assert "Exception ignored" not in errors


@pytest.mark.parametrize("words", PRINTING[:4], ids=" ".join)
def test_an_output_that_cannot_be_written_is_an_error_in_one_line(
    printing: Callable[[list[str]], list[str]], words: list[str]
) -> None:
    """'iowarden rules list >FILE' on a full disk."""
    errors = _errors(printing(words), os.open("/dev/full", os.O_WRONLY))
    assert "Traceback" not in errors
    assert "Exception ignored" not in errors
    assert "standard output: expected to write to it, got: No space left on device" in errors


def _errors(words: list[str], output: int) -> str:
    """Return what a command prints as errors, whose output goes there."""
    with open(output, "wb") as stdout:
        ended = subprocess.run(
            [sys.executable, "-c", _MAIN, *words],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    return ended.stderr


_MAIN = "import sys; from iowarden.daemon.cli.main import main; sys.exit(main())"
