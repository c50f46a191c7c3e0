"""The command `iowarden`: imports only the module of the subcommand that is run.

So 'iowarden status' does not wait until the rule engine is imported, and the service has only
its own command in memory.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import re
import sys
import textwrap
from typing import TYPE_CHECKING, NoReturn

from iowarden.collectors.model import UserInputError
from iowarden.collectors.near import did_you_mean
from iowarden.daemon.installation import VERSION
from iowarden.daemon.terminal import examples, exit_status, output

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

COMMANDS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "watch": {
        "status": (
            "status_command",
            "show open incidents, alerts and problems of the running service",
        ),
        "incident": (
            "events_command",
            "list and show incidents (alerts and events of one cause)",
        ),
        "events": ("events_command", "list the latest events of storage and of iowarden"),
        "storage": (
            "disks_command",
            "show the storage from mount points to disks: what is wrong, what it still survives",
        ),
        "monitoring": (
            "disks_command",
            "show which disks are monitored, and why others are not; exit status 0 only if all are",
        ),
        "disk": ("disks_command", "list disks, show the SMART data and history of one"),
        "top": (
            "top_command",
            "show which programs read, write and wait, and which units wait for I/O",
        ),
    },
    "act": {
        "ack": ("status_command", "acknowledge an incident: no notification until it escalates"),
        "silence": (
            "status_command",
            "add, list and expire silences: no notification of matching alerts",
        ),
        "selftest": ("selftest_command", "start, show and abort drive self-tests"),
        "scan": (
            "scan_command",
            "read disks completely in the background; show what cannot be read",
        ),
    },
    "diagnose": {
        "check": ("check_command", "check this machine once and list what is wrong"),
        "explain": (
            "explain_command",
            "explain an alert, or the output of a storage tool or of the kernel",
        ),
        "advise": (
            "status_command",
            "show settings to be tuned, with evidence, and the effect of changed settings",
        ),
        "locate": (
            "locate_command",
            "find the file that owns a sector of a disk, and what to do about it",
        ),
        "trace": (
            "trace_command",
            "measure how long each request of a disk takes: latencies, slowest, who issued them",
        ),
        "query": ("status_command", "evaluate a PromQL expression now"),
        "metrics": (
            "status_command",
            "show metrics: name, type, unit, labels, and values here or why there are none",
        ),
        "unparsed": (
            "stored_command",
            "list and show output and kernel lines that no parser could read",
        ),
        "record": (
            "recording_commands",
            "record what iowarden reads on this machine, for 'iowarden replay'",
        ),
        "replay": (
            "recording_commands",
            "replay a recording: show its alerts, incidents and mails",
        ),
        "report": (
            "recording_commands",
            "write a report for a bug report: a recording, a check, the configuration; no names",
        ),
    },
    "administrate": {
        "setup": (
            "setup_command",
            "set up mail and self-tests, send a test mail, check this machine",
        ),
        "run": ("run_command", "run the monitoring service in the foreground until Ctrl-C"),
        "config": ("check_command", "check the configuration"),
        "rules": ("rules_command", "check, test, list and show rules"),
        "test-mail": ("mail_command", "send a test mail and show the answer of the server"),
        "test-notify": (
            "mail_command",
            "send a test notification to the receivers of 'notify' and show their answers",
        ),
        "mail": ("stored_command", "list and show mails that wait to be sent, and the Maildir's"),
        "log-level": (
            "status_command",
            "log more or less for a time, without a restart; then as configured again",
        ),
        "version": ("main", "print the version"),
    },
}
"""By what it is for: each command, the module that adds it, and what it does."""
_ROWS: Mapping[str, tuple[str, str]] = {
    name: row for group in COMMANDS.values() for name, row in group.items()
}
_INSTEAD: Mapping[str, str] = {
    "iowarden storage": "; one disk: iowarden disk show {0}",
    "iowarden monitoring": "; one disk: iowarden disk show {0}",
    "iowarden status": "; one incident: iowarden incident show {0}",
    "iowarden check": "; one alert: iowarden explain {0}",
    "iowarden incident list": "; one incident: iowarden incident show {0}",
    "iowarden disk list": "; one disk: iowarden disk show {0}",
    "iowarden mail list": "; one mail: iowarden mail show {0}",
    "iowarden rules list": "; one alert: iowarden explain {0}",
    "iowarden top": "; for a time: iowarden top --for 30s",
}
"""What shows one of the things of a command that shows all of them, and takes no name."""
_NAME_COLUMNS = 13
_HELP_COLUMNS = 80


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    return output.completed(lambda: _run(words))


def _run(words: Sequence[str]) -> int:
    wanted = words[0] if words else ""
    parsed = _parser_for(wanted).parse_args(words)
    command: Callable[[argparse.Namespace], int] = parsed.command
    try:
        return command(parsed)
    except UserInputError as error:
        sys.stderr.write(f"{error}\n")
    return exit_status.CONFIG


def full_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands, for the documentation."""
    return _parser(*_ROWS)


class _Parser(argparse.ArgumentParser):
    """Reports an unknown word with the usage of its own command, what is near to it, and all."""

    def parse_known_args(  # type: ignore[override]  # argparse has overloads for its own calls
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        words = [*(sys.argv[1:] if args is None else args)]
        # So '--since -5d' has a value; argparse takes '-5d', unlike '-5', for an option.
        self._negative_number_matcher = re.compile(r"-\d")
        has_commands = any(action.nargs == argparse.PARSER for action in self._actions)
        actions = [
            str(name)
            for action in self._actions
            if action.metavar == "ACTION"
            for name in action.choices or ()
        ]
        if actions and not words:
            self.error(f"expected an action: {' or '.join(actions)}")
        for word in itertools.takewhile(lambda word: word != "--", words):
            if has_commands and not word.startswith("-"):
                break  # what follows is for its parser
            option = word.partition("=")[0]
            if word.startswith("--") and not any(map(_begins(option), self._option_string_actions)):
                meant = did_you_mean(option, self._option_string_actions)
                if not meant and self.prog == "iowarden":
                    meant = f" before a command; options follow it: iowarden COMMAND {option} ..."
                self.error(f"no option '{option}'{meant}")
        found, left = super().parse_known_args(words, namespace)
        if left:  # argparse would report it with the usage of the outermost parser
            meant = _INSTEAD.get(self.prog, "").format(left[0])
            self.error(f"expected nothing more, got {' '.join(map(repr, left))}{meant}")
        return found, left

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuse a word that is none of the choices. argparse calls it; its text has no advice."""
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(
                action,
                f"expected one of {', '.join(map(str, action.choices))}, got '{value}'"
                f"{did_you_mean(str(value), map(str, action.choices))}",
            )


def _begins(option: str) -> Callable[[str], bool]:
    """Return whether an option may be abbreviated like this."""
    return lambda name: name.startswith(option)


def _parser_for(wanted: str) -> argparse.ArgumentParser:
    """Return the parser of one command; one that only shows which there are if it is none."""
    if wanted in _ROWS:
        return _parser(wanted)
    if wanted and not wanted.startswith("-"):
        _top().error(
            f"no command '{wanted}'{did_you_mean(wanted, _ROWS)}; 'iowarden --help' lists all"
        )
    return _overview()


def _top() -> _Parser:
    parser = _Parser(
        prog="iowarden",
        description="Monitors disks, RAID and file systems of a Linux host, and reports problems.",
        usage="iowarden [-h] [--version] COMMAND ...",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    return parser


def _overview() -> argparse.ArgumentParser:
    """Return the parser without a command: its help is one screen, made without their modules."""
    parser = _top()
    parser.add_subparsers(required=True, metavar="COMMAND", help=argparse.SUPPRESS)
    parser.formatter_class = examples.Help
    parser.epilog = "\n".join(map(_group_text, COMMANDS)) + "\n" + examples.overview()
    return parser


def _group_text(group: str) -> str:
    """Return the commands of a group, one a line, as far as the line goes."""
    indent = " " * (2 + _NAME_COLUMNS)
    lines = [f"{group}:"]
    for name, (_, purpose) in COMMANDS[group].items():
        lines += textwrap.wrap(
            purpose,
            _HELP_COLUMNS,
            initial_indent=f"  {name:<{_NAME_COLUMNS}}",
            subsequent_indent=indent,
        )
    return "".join(f"{line}\n" for line in lines)


def _parser(*names: str) -> argparse.ArgumentParser:
    """Return a parser with these commands."""
    parser = _top()
    commands = parser.add_subparsers(required=True, metavar="COMMAND", prog="iowarden")

    def add(name: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        _, purpose = _ROWS[name]
        command = commands.add_parser(name, help=purpose, description=purpose)
        command.set_defaults(command=run)
        return command

    for module in dict.fromkeys(_ROWS[name][0] for name in names):
        importlib.import_module(f"iowarden.daemon.cli.{module}").add_commands(add)
    examples.attach(parser)
    parser.epilog = examples.overview()
    parser.formatter_class = examples.Help
    return parser


def add_commands(add: Callable[[str, Callable[[argparse.Namespace], int]], object]) -> None:
    """Add the command of this module, by a function that takes name and what runs."""
    add("version", _version)


def _version(_: argparse.Namespace) -> int:
    sys.stdout.write(f"iowarden {VERSION}\n")
    return 0


class _Version(argparse.Action):
    """`--version`: the metadata of the package are read only for it."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *_: object
    ) -> NoReturn:
        parser.exit(_version(namespace))
