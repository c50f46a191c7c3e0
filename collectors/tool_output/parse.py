"""What a tool or the kernel printed, parsed without the machine that it came from.

One text may hold several outputs of one tool, prompts between them. Each is tried with every parser
of its kind; what no parser takes, and what a parser says is missing, is `unread`: a text is never
well only because little of it could be read.
Limits: a text that lacks the line with which its tool says that it is done is parsed as far as it
goes, and said to be cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.model import ParseError
from iowarden.collectors.tool_output.arrays import parse_mdadm, parse_mdstat
from iowarden.collectors.tool_output.controllers import LOGS, parse_controllers
from iowarden.collectors.tool_output.drives import parse_smartctl
from iowarden.collectors.tool_output.kernel_log import parse_kernel_log
from iowarden.collectors.tool_output.parsed import SIGNS, Kind, Parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def guessed(text: str) -> Kind:
    """Return who printed a text, where that is certain. Errors: ParseError that names the kinds."""
    found = [kind for kind, sign in SIGNS.items() if sign.search(text)]
    if not found and parse_kernel_log(text).events:
        found = [Kind.KERNEL]  # a line or two of a log, as forums have them
    if len(found) == 1:
        return found[0]
    got = f"output that may be from {', '.join(found)}" if found else f"{text.strip()[:60]!r}"
    raise ParseError(
        f"the program that printed it is not certain: got {got}; add '--as' {', '.join(Kind)}"
    )


def parse(text: str, kind: Kind, *, log: bool = False) -> Parsed:
    """Return what a text says; `log`: it is the log of a controller, and nothing else.

    Errors: ParseError: this tool shows no log.
    """
    if log and kind not in LOGS:
        raise ParseError(f"'--log': expected one of {', '.join(LOGS)}, got {kind}")
    if kind in _OTHERS:
        return _OTHERS[kind](text)
    return parse_controllers(text, kind, log=log)


_OTHERS: Mapping[Kind, Callable[[str], Parsed]] = {
    Kind.SMARTCTL: parse_smartctl,
    Kind.MDSTAT: parse_mdstat,
    Kind.MDADM: parse_mdadm,
    Kind.KERNEL: parse_kernel_log,
}
