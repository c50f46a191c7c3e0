"""The command `iowarden explain`.

Exit status: 0 nothing is wrong; 1 something is wrong, or a text contradicts itself; 2 nothing is
wrong in the part that was parsed, but not all of it was, or wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import Counter
from typing import TYPE_CHECKING

from iowarden.collectors.model import ParseError
from iowarden.collectors.parsed_text import Tool
from iowarden.collectors.pasted_text.decode import MAX_BYTES
from iowarden.collectors.quantity import quantity, size
from iowarden.daemon import json_codec
from iowarden.daemon.check.report import count
from iowarden.daemon.cli.service_client import (
    ServiceError,
    command_of,
    configuration_of,
    decoded,
    requested,
)
from iowarden.daemon.control.documents import IncidentDetail, Result, Status
from iowarden.daemon.sanitize import one_line
from iowarden.daemon.terminal.console import print_error, print_json, printable, show, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iowarden.daemon.check.explain import ExplainedEvent, Explanation, Object
    from iowarden.daemon.cli.command import Add
    from iowarden.daemon.config.schema import Config
    from iowarden.daemon.manual.alert_manual import Here
    from iowarden.daemon.terminal.console import Columns, Table

_STATUS = """\
exit status:
  0  nothing is wrong, and all of it was parsed
  1  something is wrong: an alert, a state, an event of severity notice or
     higher, or a text that contradicts itself
  2  nothing is wrong in the part that was parsed, but not all of it was; or
     wrong usage, or no alert of that name
  of an alert: 0, whether it fires or not
"""
_PROMPT = (
    "reading from the terminal: paste the output of a storage tool or lines of the kernel's log,"
    " then press Ctrl-D at the beginning of a line (or name an alert or a file)\n"
)
_NAME = re.compile(r"\w+", re.ASCII)
"""Of an alert or a class of events, such as '3ware_battery_is_weak'."""
NO_SUCH_ALERT = 2
SHOWN_EVENTS = 10
"""Events of one class and object that are listed; then a line with the number of the others."""
SHOWN_UNPARSED = 20


def add_commands(add: Add) -> None:
    """Add the command, by a function that takes name and what runs."""
    parser = command_of(add("explain", _explain), _explain, data=True)
    parser.epilog = _STATUS
    parser.add_argument(
        "--as",
        dest="kind",
        choices=[kind.value for kind in Tool],
        metavar="PROGRAM",
        help="the program that printed it; needed if it cannot be recognized: "
        + ", ".join(kind.value for kind in Tool),
    )
    parser.add_argument(
        "--log", action="store_true", help="the text is the event log of the controller"
    )
    parser.add_argument(
        "--config", metavar="FILE", help="of an alert: the configuration with its thresholds"
    )
    parser.add_argument(
        "file",
        nargs="?",
        default="-",
        metavar="ALERT|FILE",
        help="name of an alert, or a file; default: - (stdin)",
    )


def _explain(arguments: argparse.Namespace) -> int:
    name = arguments.file
    if not (arguments.kind or arguments.log or os.path.exists(name)) and _NAME.fullmatch(name):
        return print_alert(arguments, name, "alert or file")
    return _explain_text(arguments)


def print_alert(arguments: argparse.Namespace, name: str, kind: str = "alert") -> int:
    """Print what there is about an alert. Errors: ConfigError of a named file, RuleFileError."""
    # Imported only here: the rules are not needed to explain a text, which has its own imports.
    from iowarden.daemon.manual import alert_manual  # noqa: PLC0415

    settings, problems = _configured(
        configuration_of(arguments), is_given=arguments.config is not None
    )
    try:
        rules, notes = alert_manual.rules_of(name, settings, kind)
    except alert_manual.UnknownAlertError as error:
        print_error(str(error))
        return NO_SUCH_ALERT
    try:
        here = _here(arguments, name, [text for rule in rules for text in rule.series])
    except ServiceError as error:
        here = alert_manual.Here(problem=str(error))
    answer = alert_manual.AlertManual(
        name, (*problems, *notes), tuple(rules), here, settings.file, _has_overrides(settings.file)
    )
    if arguments.json:
        print_json(json.loads(json_codec.encode(answer)))
    else:
        show(alert_manual.sections(answer))
    return 0


def _configured(path: str | None, *, is_given: bool) -> tuple[Config, tuple[str, ...]]:
    """Return the configuration in force; where a user may not read it, the defaults and why."""
    from iowarden.daemon.cli import command  # noqa: PLC0415
    from iowarden.daemon.config.parser import parse_config  # noqa: PLC0415
    from iowarden.daemon.config.schema import ConfigError  # noqa: PLC0415

    try:
        return command.public_settings(argparse.Namespace(config=path))[0], ()
    except ConfigError as error:
        if is_given:
            raise
        defaults = parse_config("", path or command.DEFAULT_CONFIG, "text")
        return defaults, (f"thresholds as shipped, not as configured here: {error}",)


def _has_overrides(path: str) -> bool:
    """Whether a configuration has the key 'overrides', also one without an override below it."""
    try:
        with open(path, encoding="utf-8") as file:
            return any(line.startswith("overrides:") for line in file)
    except (OSError, UnicodeError):  # what could not be read is in the notes already
        return False


def _here(arguments: argparse.Namespace, name: str, selectors: Sequence[str]) -> Here:
    """Return the state and the values of an alert in the running service. Errors: ServiceError."""
    from iowarden.daemon.manual.alert_manual import Here, Series  # noqa: PLC0415

    status = decoded(Status, requested(arguments, "status"))
    alerts = tuple(each for each in status.alerts if each.name == name)
    series = []
    for selector in dict.fromkeys(selectors):
        result = decoded(Result, requested(arguments, "query", {"expression": selector}))
        series.append(Series(selector, result.samples))
    advice: tuple[str, ...] = ()
    shared = ""
    if incident := next((each.incident for each in alerts if each.incident), ""):
        answer = requested(arguments, "incident show", {"incident": incident})
        detail = decoded(IncidentDetail, answer)
        advice = detail.advice
        shared = incident if {each.name for each in detail.members} != {name} else ""
    return Here("", status.now_seconds, alerts, tuple(series), advice, shared)


def _explain_text(arguments: argparse.Namespace) -> int:
    # Imported only here: half a second, which 'explain ALERT' does not need.
    from iowarden.collectors.tool_output.parse import parsed  # noqa: PLC0415
    from iowarden.daemon.check.explain import NOT_UNDERSTOOD, explained  # noqa: PLC0415
    from iowarden.daemon.cli import command  # noqa: PLC0415
    from iowarden.daemon.config.parser import parse_config  # noqa: PLC0415
    from iowarden.daemon.config.rule_files import load_events, load_shipped  # noqa: PLC0415

    shown = "standard input" if arguments.file == "-" else f"'{arguments.file}'"
    try:
        content = _content(arguments.file)
        results = parsed(content, arguments.kind or "", log=arguments.log)
    except (OSError, ParseError) as error:
        told = str(error)
        if isinstance(error, OSError):
            told = f"expected a readable file, got '{error.strerror}'; {_instead(error)}"
        sys.stderr.write(f"{printable(f'{shown}: {told}')}\n")
        return NOT_UNDERSTOOD
    settings = parse_config("", command.DEFAULT_CONFIG, "text")
    found = explained(results, load_shipped(settings), load_events())
    if arguments.json:
        sys.stdout.write(found.json() + "\n")
    else:
        show(sections(found))
    return found.status


def _instead(error: OSError) -> str:
    """Return what to do about a file that cannot be read."""
    match error:
        case PermissionError():
            return f"as root: sudo cat '{error.filename}' | iowarden explain"
        case IsADirectoryError():
            return "name a file in it"
        case FileNotFoundError():
            return "name another one; alerts: iowarden rules list"
    return "name another one"


def _content(path: str) -> bytes:
    """Return the bytes of a file or of standard input, at most one more than the limit."""
    most = MAX_BYTES + 1
    if path == "-":
        if sys.stdin.isatty():
            sys.stderr.write(_PROMPT)
            sys.stderr.flush()
        return sys.stdin.buffer.read(most)
    # O_NONBLOCK: opening a FIFO without a writer would block for ever.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read(most) or b""


# --- showing


def sections(found: Explanation) -> Iterator[str | Table]:
    """Return what `iowarden explain` shows."""
    yield f"{found.kind}: {', '.join(found.outputs) or 'not recognized'}"
    yield found.summary()
    yield from table_of(
        "objects",
        found.objects,
        {
            "type": lambda o: o.type,
            "name": lambda o: o.name,
            "parent": lambda o: o.parent or "-",
            "state": lambda o: o.state,
            "vendor state": lambda o: o.vendor_state or "-",
            "details": _details,
        },
    )
    of_events: Columns[tuple[ExplainedEvent, str, str]] = {
        "line": lambda e: e[2],
        "severity": lambda e: e[0].severity,
        "class": lambda e: e[0].kind,
        "object": lambda e: e[0].object,
        "sector": lambda e: _range(e[0]),
        "text": lambda e: e[1],
    }
    titles = [*of_events][all(each.line is None for each in found.events) :]
    yield from table_of("events", _shown(found.events), of_events, *titles)
    yield from dict.fromkeys(f"  {each.kind}: {each.meaning}" for each in found.events)
    if found.lines_read:
        yield f"{count(found.lines_read, 'line')} of a log, {found.lines_other} of them no event"
    yield from table_of(
        "alerts",
        found.alerts,
        {
            "severity": lambda a: a.severity,
            "state": lambda a: a.state,
            "alert": lambda a: a.alert,
            "object": lambda a: a.object,
            "summary": lambda a: a.text,
        },
    )
    yield from table_of(
        "not parsed",
        found.unparsed[:SHOWN_UNPARSED],
        {
            "line": lambda u: "-" if u.line is None else str(u.line),
            "text": lambda u: u.text or "-",
            "reason": lambda u: u.reason,
        },
    )
    if (more := len(found.unparsed) - SHOWN_UNPARSED) > 0:
        yield f"  and {more} more: use --json to list all"


def _shown(events: Sequence[ExplainedEvent]) -> Iterator[tuple[ExplainedEvent, str, str]]:
    """Yield events with their texts and lines.

    Of an event storm these are the first ones, then a row with the number and the lines of the
    others, and the text of the last.
    """
    hidden: dict[tuple[str, str], int] = {}
    totals = Counter((each.kind, each.object) for each in events)
    shown: Counter[tuple[str, str]] = Counter()
    for each in events:
        own = each.kind, each.object
        shown[own] += 1
        line = "-" if each.line is None else str(each.line)
        if shown[own] <= SHOWN_EVENTS:
            yield each, each.text, line
            continue
        if each.line is not None:
            hidden.setdefault(own, each.line)
        if shown[own] == totals[own]:
            more = totals[own] - SHOWN_EVENTS
            first = hidden.get(own, each.line)
            if first != each.line:
                line = f"{first}-{line}"
            yield each, f"... {more} more of these, the last: {each.text}", line


def _range(event: ExplainedEvent) -> str:
    if event.sector is not None:
        return f"{event.sector}" + (f"+{event.sectors}" if event.sectors else "")
    if event.block is not None:
        return f"block {event.block}" + (f"+{event.blocks}" if event.blocks else "")
    return "-"


def _detail(name: str, value: str | float) -> str:
    if isinstance(value, str):
        return f"{name} {value}"
    if name.endswith("_ratio"):
        return f"{name.removesuffix('_ratio')} {quantity(name, value)}"
    return f"{name} {size(value) if name == 'bytes' else format(value, '.15g')}"


def _details(found: Object) -> str:
    words = [_detail(name, value) for name, value in found.details.items()]
    words += [f"{name}: {value:.15g}" for name, value in found.counts.items()]
    return one_line(", ".join(words)) or "-"
