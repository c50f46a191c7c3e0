"""The commands `iowarden record` and `iowarden replay`."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from iowarden.collectors.recording import Recording
from iowarden.daemon import config as configuration
from iowarden.daemon import expectation, replay
from iowarden.daemon.expectation import ExpectationError
from iowarden.daemon.rule_files import load_files, load_rules

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    from iowarden.daemon.expectation import Expectation

EXIT_FAILED = 1
EXIT_BAD_FILE = 78
"""As of a bad configuration; sysexits.h EX_CONFIG."""


def add_commands(
    add: Callable[[str, Callable[[argparse.Namespace], int], str], argparse.ArgumentParser],
) -> None:
    """Add the commands to the parser."""
    again = add("replay", _replay, "run a recording again and say what iowarden would have said")
    again.add_argument("recording", metavar="IN", help="a recording: a directory or an archive")
    again.add_argument(
        "--rules", metavar="FILE", action="append", default=[], help="more rules; may be repeated"
    )
    again.add_argument(
        "--expect", metavar="FILE", help="what it must tell; the exit status is 1 if it differs"
    )
    again.add_argument("--json", action="store_true", help="the outcome as data")
    again.add_argument("--mails", metavar="DIR", help="keep the mails there, each as a file")
    again.add_argument("--config", metavar="FILE", help="default: none, but for the shipped rules")


def _replay(arguments: argparse.Namespace) -> int:
    try:
        expected = None if arguments.expect is None else _expectation(arguments.expect)
    except ExpectationError as error:
        return _failed(str(error), EXIT_BAD_FILE)
    recording = Recording(arguments.recording)
    if arguments.config is None:
        settings = configuration.parse("", "defaults", replay.HOST)
        settings = dataclasses.replace(settings, rules_directory="/nonexistent")
    else:
        settings = configuration.load(arguments.config)
    groups = [*load_rules(settings), *load_files(Path(name) for name in arguments.rules)]
    outcome = replay.replay(recording, settings, groups)
    different = [] if expected is None else expectation.differences(expected, outcome.compared())
    if arguments.json:
        _say([outcome.json(different)])
    else:
        _say(outcome.lines())
        if different:
            _say([f"\nnot as '{arguments.expect}' expects ('-' expected, '+' told):", *different])
    try:
        if arguments.mails is not None:
            _keep(arguments.mails, outcome.mails)
    except OSError as error:
        return _failed(str(error), EXIT_FAILED)
    if outcome.problem:
        return _failed(outcome.problem, EXIT_BAD_FILE)
    return EXIT_FAILED if different else 0


def _expectation(path: str) -> Expectation:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(expectation.LIMIT_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        message = f"'{path}': expected a file that can be read, got: {error}"
        raise ExpectationError(message) from error
    if len(text) > expectation.LIMIT_CHARACTERS:
        raise ExpectationError(
            f"'{path}': expected at most {expectation.LIMIT_CHARACTERS} characters, got more"
        )
    return expectation.parse(text, path)


def _keep(directory: str, mails: Iterable[replay.Mail]) -> None:
    os.makedirs(directory, exist_ok=True)
    for number, mail in enumerate(mails, 1):
        Path(directory, f"{number:03d}.eml").write_bytes(mail.data)


def _say(lines: Iterable[str]) -> None:
    try:
        for line in lines:
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # 'iowarden replay | head'
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(text: str, status: int) -> int:
    sys.stderr.write(text + "\n")
    return status
