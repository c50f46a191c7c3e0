"""The commands `iowarden check` and `iowarden config check`."""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import TYPE_CHECKING

from iowarden.collectors.recording import RecordingError
from iowarden.daemon import check as checking
from iowarden.daemon import command
from iowarden.daemon import config as configuration
from iowarden.daemon.rule_files import load_rules, load_shipped, notes
from iowarden.rules.nodes import RuleFileError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from iowarden.daemon.command import Add
    from iowarden.rules.rulefile import RuleGroup


def add_commands(add: Add) -> None:
    """Add the commands, by a function that takes name, what runs, and help."""
    actions = add("config", _config_check, "check the configuration").add_subparsers(
        required=True, metavar="ACTION"
    )
    action = actions.add_parser("check", help="read the configuration and every rule file")
    action.set_defaults(command=_config_check)
    action.add_argument("file", nargs="?", default=None, help=f"default: {command.DEFAULT_CONFIG}")
    look = command.configured(
        add("check", _check, "look at this machine once and say what is wrong")
    )
    look.add_argument("--play", metavar="RECORDING", help="look at a recording's end instead")
    look.add_argument("--json", action="store_true", help="the report as data")


def _config_check(arguments: argparse.Namespace) -> int:
    path = arguments.file or command.DEFAULT_CONFIG
    settings = configuration.load(path)
    groups = load_rules(settings)
    rules = sum(len(group.rules) for group in groups)
    print(f"'{path}' is good; {rules} rules in {len(groups)} groups")
    for note in notes(groups, settings):
        print(note)
    if said := checking.mail_path(settings):
        print(said)
    return 0


def _check(arguments: argparse.Namespace) -> int:
    def examine(step: Callable[[str], None]) -> checking.Report:
        step("reading the configuration and the rules")
        settings, groups, problems = _whatever_is_good(arguments)
        try:
            clock, player, root = command.machine(arguments.play)
            report = checking.examine(settings, groups, clock, root, player=player, step=step)
        except RecordingError as error:
            report = checking.Report((_unusable("recording", str(error)),))
        found = report.findings
        if any(problem.topic == "configuration" for problem in problems):
            # What defaults say of mail and state would be taken for what is configured.
            found = tuple(f for f in found if f.topic not in {"mail", "state"})
        return dataclasses.replace(report, findings=(*problems, *found))

    try:
        if arguments.play is None:
            report = checking.guarded(examine)
        else:
            report = checking.answered(examine, lambda _: None)
        print(report.json() if arguments.json else "\n".join(report.lines()), flush=True)
    except BrokenPipeError:  # 'iowarden check | head': what is left to say must not fail, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return command.EXIT_INTERRUPTED
    return report.status


def _whatever_is_good(
    arguments: argparse.Namespace,
) -> tuple[configuration.Config, list[RuleGroup], list[checking.Finding]]:
    """Return configuration and rules, defaults and shipped rules instead of what is bad."""
    problems: list[checking.Finding] = []
    try:
        settings = command.settings(arguments)
    except configuration.ConfigError as error:
        problems += [_unusable("configuration", text) for text in error.problems]
        machine = configuration.machine_name()
        settings = configuration.parse("", command.DEFAULT_CONFIG, machine)
    try:
        return settings, load_rules(settings), problems
    except RuleFileError as error:
        problems += [_unusable("rules", text) for text in error.errors]
        return settings, load_shipped(settings), problems


def _unusable(topic: str, text: str) -> checking.Finding:
    return checking.Finding(checking.Level.UNKNOWN, topic, "", text)
