"""The command `iowarden`: imports only the module of the subcommand that is run.

So 'iowarden status' does not wait until the rule engine is imported, and the service has only
its own command in memory.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import TYPE_CHECKING, NoReturn

from iowarden.collectors.model import UserInputError
from iowarden.daemon.installation import VERSION
from iowarden.daemon.terminal import examples, exit_status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MODULES = {
    "run_command": ("run",),
    "setup_command": ("setup",),
    "check_command": ("check", "config"),
    "explain_command": ("explain",),
    "status_command": ("status", "silence", "ack", "query", "metrics", "advise", "log-level"),
    "events_command": ("events", "incident"),
    "storage_command": ("storage",),
    "disks_command": ("monitoring", "disk"),
    "selftest_command": ("selftest",),
    "scan_command": ("scan",),
    "locate_command": ("locate",),
    "top_command": ("top",),
    "trace_command": ("trace",),
    "recording_commands": ("record", "replay", "report"),
    "rules_command": ("rules",),
    "mail_command": ("test-mail", "test-notify"),
    "stored_command": ("mail", "unparsed"),
}
"""The subcommands that `add_commands` of each module adds."""
_VERSION = ("version", "--version")
"""Need no module."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    wanted = words[0] if words else ""
    parsed = _parser(wanted).parse_args(words)
    command: Callable[[argparse.Namespace], int] = parsed.command
    try:
        return command(parsed)
    except UserInputError as error:
        sys.stderr.write(f"{error}\n")
    return exit_status.CONFIG


def full_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands, for the documentation."""
    return _parser("")


def _parser(wanted: str) -> argparse.ArgumentParser:
    """Return the parser of a subcommand; of all subcommands if it is not one."""
    parser = argparse.ArgumentParser(
        prog="iowarden",
        description="Monitors disks, RAID and file systems of a Linux host, and reports problems.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(
        name: str, run: Callable[[argparse.Namespace], int], words: str
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=words, description=words)
        command.set_defaults(command=run)
        return command

    known = _is_known(wanted)
    for module, names in MODULES.items():
        if wanted in names or not known:
            importlib.import_module(f"iowarden.daemon.cli.{module}").add_commands(add)
    add("version", _version, "print the version")
    examples.attach(parser)
    return parser


def _is_known(wanted: str) -> bool:
    return any(wanted in names for names in MODULES.values()) or wanted in _VERSION


def _version(_: argparse.Namespace) -> int:
    sys.stdout.write(f"iowarden {VERSION}\n")
    return 0


class _Version(argparse.Action):
    """`--version`: the metadata of the package are read only for it."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *_: object
    ) -> NoReturn:
        parser.exit(_version(namespace))
