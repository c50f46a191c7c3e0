"""The commands `iowarden unparsed list` and `iowarden unparsed show`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from iowarden.daemon.cli import command
from iowarden.daemon.storage import redaction, unparsed
from iowarden.daemon.terminal import exit_status
from iowarden.daemon.terminal.arguments import subcommand

if TYPE_CHECKING:
    import argparse

    from iowarden.daemon.cli.command import Add
    from iowarden.daemon.config.schema import Config


def add_commands(add: Add) -> None:
    """Add the commands, by a function that takes name, what runs, and help."""
    kept = add("unparsed", _list, "list and show output that no parser could read")
    actions = kept.add_subparsers(required=True, metavar="ACTION")
    listed = command.configured(subcommand(actions, "list", "list saved output, one per line"))
    listed.set_defaults(command=_list)
    shown = command.configured(subcommand(actions, "show", "print one, for a bug report"))
    shown.set_defaults(command=_show)
    shown.add_argument("name", help="name as listed")
    shown.add_argument(
        "--redact", action="store_true", help="replace names of disks, hosts and people"
    )


def _list(arguments: argparse.Namespace) -> int:
    directory = _directory(command.settings(arguments))
    try:
        for name in unparsed.names(directory):
            found = unparsed.head(unparsed.read(directory, name))
            print(f"{name}  {found.get('time', '')}  {found.get('error', '')}")
    except OSError as error:
        print(error, file=sys.stderr)
        return exit_status.FAILED
    return 0


def _show(arguments: argparse.Namespace) -> int:
    settings = command.settings(arguments)
    try:
        text = unparsed.read(_directory(settings), arguments.name)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return exit_status.FAILED
    names = {settings.host, os.uname().nodename}
    names |= {name.partition(".")[0] for name in names}
    print(redaction.redact(text, sorted(names)) if arguments.redact else text)
    return 0


def _directory(settings: Config) -> str:
    return str(Path(settings.state_directory) / unparsed.DIRECTORY)
