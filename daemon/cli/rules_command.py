"""The commands `iowarden rules check`, `rules test`, `rules list` and `rules show`.

Exit status: 0; `check` 78 if a rule cannot be loaded, `test` 1 if a test fails.
"""

from __future__ import annotations

import glob
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iowarden.daemon.cli import command, explain_command
from iowarden.daemon.cli.service_client import (
    ServiceError,
    configuration_of,
    decoded,
    guarded,
    requested,
)
from iowarden.daemon.config.load import machine_name
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_events, load_files, load_rules, read_text
from iowarden.daemon.config.rule_notes import estimates, notes
from iowarden.daemon.config.schema import ConfigError
from iowarden.daemon.control import listen
from iowarden.daemon.control.documents import AlertLine, Status
from iowarden.daemon.terminal import console, exit_status
from iowarden.daemon.terminal.arguments import subcommand
from iowarden.rules.rulefile.overrides import severity
from iowarden.rules.rulefile.rulefile import SHIPPED, Rule
from iowarden.rules.yaml_nodes import RuleFileError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from iowarden.daemon.cli.command import Add
    from iowarden.rules.events.event_table import EventRule
    from iowarden.rules.rulefile.rulefile import RecordingRule, RuleGroup

NOT_KNOWN = "-"
WORST_FIRST = ("firing", "unknown", "pending")


def add_commands(add: Add) -> None:
    """Add the commands, by a function that takes name and what runs."""
    actions = add("rules", lambda _: 0).add_subparsers(required=True, metavar="ACTION")
    check = command.configured(subcommand(actions, "check", "check rule files and list all errors"))
    check.set_defaults(command=_check)
    check.add_argument(
        "files", nargs="*", metavar="FILE", help="rule file; default: those that the service loads"
    )
    test = subcommand(actions, "test", "run unit tests of rules (promtool's format)")
    test.set_defaults(command=_test)
    test.add_argument("files", nargs="+", metavar="FILE", help="file with unit tests")
    listed = command.configured(
        subcommand(
            actions, "list", "list rules and classes of events with the state of their alerts"
        )
    )
    listed.set_defaults(command=lambda arguments: guarded(_list, arguments))
    listed.add_argument("--json", action="store_true", help="print JSON")
    listed.add_argument("--socket", metavar="PATH", help=f"default: {listen.SOCKET}")
    shown = command.configured(
        subcommand(
            actions,
            "show",
            "explain an alert: what it means, what to do, its rule, how to change it",
        )
    )
    shown.set_defaults(command=lambda arguments: guarded(_show, arguments))
    shown.add_argument("--json", action="store_true", help="print JSON")
    shown.add_argument("--socket", metavar="PATH", help=f"default: {listen.SOCKET}")
    shown.add_argument("alert", metavar="ALERT", help="name of an alert, or a class of events")


def _check(arguments: argparse.Namespace) -> int:
    if arguments.files:
        groups = load_files(map(Path, arguments.files))
        try:
            config = command.settings(arguments)
        except ConfigError:  # only its job names would be used
            config = parse_config("", "defaults", machine_name())
    else:
        config = command.settings(arguments)
        groups = load_rules(config)
    for note in notes(groups, config):
        sys.stdout.write(note + "\n")
    for line in estimates(groups):
        sys.stdout.write(line + "\n")
    rules = sum(len(group.rules) for group in groups)
    sys.stdout.write(
        f"{rules} rule{'s'[: rules != 1]} in {len(groups)} group{'s'[: len(groups) != 1]}\n"
    )
    return 0


# --- unit tests


def _test(arguments: argparse.Namespace) -> int:
    failed = False
    for file in arguments.files:
        sys.stdout.write(f"Unit Testing:  {file}\n")
        sys.stdout.flush()  # Failures go to stderr and must appear below this line.
        if failures := _failures(Path(file)):
            failed = True
            sys.stderr.write("  FAILED:\n" + "\n\n".join(failures) + "\n\n")
        else:
            sys.stdout.write("  SUCCESS\n\n")
    return exit_status.FAILED if failed else 0


def _failures(path: Path) -> Sequence[str]:
    """Run a file of unit tests; return its failures."""
    # Imported only here: it takes a megabyte, and the service does not need it.
    from iowarden.rules.alerting import unit_tests  # noqa: PLC0415

    try:
        tests = unit_tests.parse_unit_tests(read_text(path), str(path))
        if not tests.tests:
            return [f"'{path}': expected a list 'tests' of at least one test, got none"]
        files: list[Path] = []
        for pattern in tests.rule_files:
            # Not Path.glob, which refuses '..' and absolute patterns.
            found = sorted(glob.glob(os.path.join(path.parent, pattern)))
            if not found:
                sys.stderr.write(f"  WARNING: no file match pattern {pattern}\n")
            files += map(Path, found)
        groups = load_files(dict.fromkeys(files))
    except RuleFileError as error:
        return error.errors
    return unit_tests.run(tests, groups)


# --- list


def _list(arguments: argparse.Namespace) -> int:
    arguments.config = configuration_of(arguments)
    settings = command.settings(arguments)
    groups = load_rules(settings)
    alerts = _alerts(arguments)
    lines = [
        *_lines(groups, alerts),
        *_events(load_events(settings.overrides).rows.values(), alerts),
    ]
    if arguments.json:
        console.print_json(lines)
        return 0
    console.show(
        [
            _table("rules", "expression", [line for line in lines if line["type"] != "event"]),
            _table("events", "meaning", [line for line in lines if line["type"] == "event"]),
        ]
    )
    for note in notes(groups, settings):
        sys.stdout.write(console.printable(note) + "\n")
    return 0


def _table(title: str, what: str, lines: Iterable[Mapping[str, Any]]) -> console.Table:
    """Return a table; `what` is its last column, which is long."""
    columns = ("rule", "severity", "state", "source", what)
    rows = tuple(tuple(console.printable(line[column]) for column in columns) for line in lines)
    return console.Table(
        title, (columns[0] if what == "expression" else "class", *columns[1:]), rows
    )


def _show(arguments: argparse.Namespace) -> int:
    return explain_command.print_alert(arguments, arguments.alert)


def _alerts(arguments: argparse.Namespace) -> Sequence[AlertLine] | None:
    """Return the alerts of the service; None if it does not answer."""
    try:
        return decoded(Status, requested(arguments, "status")).alerts
    except ServiceError:
        return None


def _lines(groups: Sequence[RuleGroup], alerts: Sequence[AlertLine] | None) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for group in groups:
        for rule in group.rules:
            line = {
                "rule": rule.alert if isinstance(rule, Rule) else rule.record,
                "type": "alert" if isinstance(rule, Rule) else "record",
                "severity": severity(rule),
                "condition": _condition(rule),
                "state": _state(rule, alerts),
                "source": _source(rule.file, rule.line, rule.overridden),
                "expression": " ".join(rule.expression.text.split()),
                "meaning": "",
                "group": group.name,
                "file": rule.file,
                "line": rule.line,
                "overridden": list(rule.overridden),
            }
            lines.append(line)
    return lines


def _events(
    rows: Iterable[EventRule], alerts: Sequence[AlertLine] | None
) -> Iterator[dict[str, Any]]:
    """Yield the classes of events that raise alerts, in the order of their table."""
    for row in rows:
        level = row.severity if row.severity_here is None else row.severity_here
        if row.enabled and level is not None:
            overridden = [] if row.severity_here is None else ["severity"]
            yield {
                "rule": row.kind,
                "type": "event",
                "severity": level.name.lower(),
                "condition": row.condition,
                "state": NOT_KNOWN
                if alerts is None
                else _worst([a.state for a in alerts if a.name == row.kind]),
                "source": _source(row.file, row.line, overridden),
                "expression": "",
                "meaning": row.meaning,
                "group": "",
                "file": row.file,
                "line": row.line,
                "overridden": overridden,
            }


def _condition(rule: Rule | RecordingRule) -> str:
    labels = rule.labels if isinstance(rule, Rule) else ()
    return next((text.text for name, text in labels if name == "condition"), "")


def _source(file: str, line: int, overridden: Sequence[str]) -> str:
    place = f"{file}:{line}" if file.startswith(SHIPPED) else f"'{file}':{line}"
    return place + (f", overridden: {', '.join(overridden)}" if overridden else "")


def _state(rule: Rule | RecordingRule, alerts: Sequence[AlertLine] | None) -> str:
    """Return the state of a rule's alerts; those of another severity are another rule's."""
    if alerts is None or not isinstance(rule, Rule):
        return NOT_KNOWN
    own = severity(rule)
    return _worst(
        [a.state for a in alerts if a.name == rule.alert and a.severity in (own, own or a.severity)]
    )


def _worst(states: Sequence[str]) -> str:
    """Return the worst state of alerts, and how many have it."""
    found = next((state for state in WORST_FIRST if state in states), "inactive")
    count = states.count(found)
    return f"{found} ({count})" if count > 1 else found
