"""'iowarden storage': the storage of the host from mount points to disks, with what is wrong.

Exit status as in daemon.cli.service_client: 0 also if something is wrong; see 'iowarden check'.
"""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from iowarden.daemon.cli.service_client import command_of, decoded, requested
from iowarden.daemon.control.storage_document import StorageTree
from iowarden.daemon.sanitize import one_line
from iowarden.daemon.terminal.console import print_json, print_raw
from iowarden.daemon.terminal.storage_layout import bay_lines, tree_lines

if TYPE_CHECKING:
    import argparse

    from iowarden.daemon.cli.command import Add

MIN_WIDTH, MAX_CHARACTERS = 80, 10_000


def add_commands(add: Add) -> None:
    """Add the command, by a function that takes name and what runs."""
    parser = command_of(add("storage", _storage), _storage, data=True)
    parser.add_argument(
        "--by-bay", action="store_true", help="list the disks by adapter, enclosure and bay"
    )
    parser.add_argument(
        "--all", action="store_true", help="show every disk and file system, nothing folded"
    )


def _storage(arguments: argparse.Namespace) -> int:
    answer = requested(arguments, "storage")
    if arguments.json:
        print_json(answer)
        return 0
    tree = decoded(StorageTree, answer)
    width = MIN_WIDTH
    if sys.stdout.isatty():
        width = max(shutil.get_terminal_size((MIN_WIDTH, 24)).columns, MIN_WIDTH)
    lines = (
        bay_lines(tree, width)
        if arguments.by_bay
        else tree_lines(tree, width, unfolded=arguments.all)
    )
    for line in lines:
        print_raw(one_line(line, MAX_CHARACTERS, blanks=True))
    return 0
