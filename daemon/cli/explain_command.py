"""The command `iowarden explain`.

Exit status: 0 nothing is wrong; 1 something is wrong, or a text contradicts itself; 2 nothing is
wrong in what was understood, and that was not all, or the command was not called as it should be.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from typing import TYPE_CHECKING

from iowarden.collectors import tool_output
from iowarden.collectors.model import ParseError
from iowarden.collectors.tool_output import Kind
from iowarden.daemon.check.explain import NOT_UNDERSTOOD, explain
from iowarden.daemon.cli import command, console
from iowarden.daemon.config import config as configuration
from iowarden.daemon.config.rule_files import load_events, load_shipped

if TYPE_CHECKING:
    from iowarden.daemon.cli.command import Add

_EXAMPLES = """\
examples:
  dmesg | iowarden explain
  iowarden explain --as storcli show-all.txt
  storcli64 /c0 show events | iowarden explain --as storcli --log
  smartctl -x /dev/sda | iowarden explain --json

exit status:
  0  nothing is wrong, and all of it was understood
  1  something is wrong: an alert, a state, an event of the kernel's log from notice up, or a text
     that contradicts itself
  2  nothing is wrong in what was understood, and that was not all of it; or wrong usage
"""


def add_commands(add: Add) -> None:
    """Add the command, by a function that takes name, what runs, and help."""
    words = "say what iowarden makes of a text that a tool or the kernel printed"
    parser = add("explain", functools.partial(console.guarded, _explain), words)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--as",
        dest="kind",
        choices=[kind.value for kind in Kind],
        help="who printed it; needed where the text does not tell for certain",
    )
    parser.add_argument("--log", action="store_true", help="it is the controller's event log")
    parser.add_argument("--json", action="store_true", help="the answer as data")
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="default: -, stdin")


def _explain(arguments: argparse.Namespace) -> int:
    shown = "standard input" if arguments.file == "-" else f"'{arguments.file}'"
    try:
        text = tool_output.decoded(_content(arguments.file))
        kind = Kind(arguments.kind) if arguments.kind else tool_output.guessed(text)
        parsed = tool_output.parse(text, kind, log=arguments.log)
    except (OSError, ParseError) as error:
        told = error.strerror if isinstance(error, OSError) else str(error)
        sys.stderr.write(f"{console.printable(f'{shown}: {told}')}\n")
        return NOT_UNDERSTOOD
    settings = configuration.parse("", command.DEFAULT_CONFIG, "text")
    found = explain(parsed, load_shipped(settings), load_events())
    if arguments.json:
        sys.stdout.write(found.json() + "\n")
    else:
        console.show([*found.sections()])
    return found.status


def _content(path: str) -> bytes:
    """Return a file's bytes, or those of standard input: one more than may be at most."""
    most = tool_output.MOST_BYTES + 1
    if path == "-":
        return sys.stdin.buffer.read(most)
    # A FIFO without a writer would never answer.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read(most) or b""
