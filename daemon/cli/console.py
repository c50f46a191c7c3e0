"""The commands that ask a running service over its control socket, and how answers are shown.

On a terminal tables are drawn by rich; else the same is plain text in columns, nothing cut off.
What came from elsewhere - device names, kernel lines, reasons people typed - reaches no terminal
before its control characters are spelled out.
Exit status: 0, 1 when nobody answers or the answer is an error, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import dataclasses
import errno
import io
import json
import os
import socket
import struct
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iowarden.daemon import json_codec
from iowarden.daemon.clock import local_zone
from iowarden.daemon.control import control_socket
from iowarden.daemon.control.documents import (
    Acknowledge,
    AddSilence,
    AlertLine,
    IncidentLine,
    Result,
    SilenceLine,
    Silences,
    Status,
)
from iowarden.daemon.duration import duration_seconds
from iowarden.daemon.sanitize import one_line
from iowarden.rules.quantity import quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from iowarden.daemon.cli.command import Add
    from iowarden.daemon.control.documents import MailLine, ProbeLine
    from iowarden.rules.matcher import Matcher

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
TIMEOUT_SECONDS = control_socket.ANSWER_SECONDS + 5.0
"""The service itself says that it cannot answer before that."""
MOST_LINE_BYTES = control_socket.MOST_ANSWER_BYTES + 1
MOST_CELL_CHARACTERS = 100_000
DEFAULT_FOR = "2h"
WRAPPED = frozenset(
    {
        *("object", "summary", "error", "program", "alerts", "by", "reason", "source"),
        *("expression", "since", "ends", "last ok", "value", "way", "known by", "does not say"),
        *("last read", "raw", "status", "time", "text", "closed", "mails", "cleared", "last"),
    }
)
"""Columns that may take several lines on a narrow terminal."""
STYLES = {"critical": "bold red", "warning": "yellow", "unknown": "magenta", "firing": "bold"}


class ServiceError(Exception):
    """Nobody answers, or the answer is an error; the text is for a person."""


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """Rows under a title; every cell is one line of printable text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def add_commands(add: Add) -> None:
    """Add the commands of this module, by a function that takes name, what runs, and help."""

    def top(
        name: str, run: Callable[[argparse.Namespace], int], words: str
    ) -> argparse.ArgumentParser:
        return command_of(add(name, run, words), run)

    json_help = "the answer as data"
    top("status", _status, "what is wrong now, as the running service sees it").add_argument(
        "--json", action="store_true", help=json_help
    )
    actions = add("silence", _status, "have no mail about some alerts for a while").add_subparsers(
        required=True, metavar="ACTION"
    )
    new = command_of(actions.add_parser("add", help="begin a silence"), _silence_add)
    new.add_argument(
        "matchers",
        nargs="+",
        metavar="MATCHER",
        help="label=value, label!=value, label=~regex, label!~regex, or an alert's name; all match",
    )
    end = new.add_mutually_exclusive_group()
    end.add_argument(
        "--for",
        dest="for_seconds",
        type=_duration,
        default=duration_seconds(DEFAULT_FOR),
        metavar="DURATION",
        help=f"such as 90m or 1d12h; default: {DEFAULT_FOR}",
    )
    end.add_argument(
        "--until", type=_moment, metavar="TIME", help="such as 2026-11-22T06:00, local time"
    )
    new.add_argument("--reason", required=True, metavar="TEXT", help="why; others will read it")
    listed = command_of(actions.add_parser("list", help="the silences that hold"), _silence_list)
    listed.add_argument("--json", action="store_true", help=json_help)
    expire = command_of(actions.add_parser("expire", help="end a silence now"), _silence_expire)
    expire.add_argument("identifier", metavar="ID", help="as listed, or its beginning")
    known = top("ack", _ack, "say that an incident is known: no mail about it until it gets worse")
    known.add_argument("incident", metavar="INCIDENT", help="as in its mails, or its beginning")
    known.add_argument("--reason", default="", metavar="TEXT", help="for others to read")
    known.add_argument("--undo", action="store_true", help="it is to be mailed again")
    query = top("query", _query, "evaluate a rule's expression now")
    query.add_argument("expression", metavar="EXPR", help="PromQL, as far as rules may use it")
    query.add_argument("--json", action="store_true", help=json_help)


def command_of(
    parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """Have a parser run what asks the service, and take where that is."""
    parser.set_defaults(command=lambda arguments: guarded(run, arguments))
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--socket", metavar="PATH", help=f"default: {control_socket.SOCKET}")
    where.add_argument(
        "--state-directory", metavar="DIR", help="of a service that runs in the foreground"
    )
    return parser


def guarded(run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run a command; return its exit status, also when nobody answers, or nobody reads."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that the locale has no letters for
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = run(arguments)
        sys.stdout.flush()
    except ServiceError as error:
        sys.stderr.write(f"{printable(str(error))}\n")
        return EXIT_FAILED
    except BrokenPipeError:  # 'iowarden events | head': what is left to say must not fail, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return status


# --- the commands


def _status(arguments: argparse.Namespace) -> int:
    answer = requested(arguments, "status")
    if arguments.json:
        say_json(answer)
    else:
        show(status_sections(decoded(Status, answer)))
    return 0


def _silence_add(arguments: argparse.Namespace) -> int:
    for_seconds = arguments.for_seconds
    if arguments.until is not None:
        for_seconds = arguments.until - time.time()
    asked = AddSilence(tuple(arguments.matchers), for_seconds, arguments.reason)
    made = decoded(SilenceLine, requested(arguments, "silence add", asked))
    ends, about = at_text(made.ends_seconds), matchers_text(made.matchers)
    sooner = f"end it sooner: iowarden silence expire {made.identifier}"
    say(f"silence {made.identifier} until {ends}: {about}; {sooner}")
    if made.note:
        say(made.note)
    return 0


def _silence_list(arguments: argparse.Namespace) -> int:
    answer = requested(arguments, "silence list")
    if arguments.json:
        say_json(answer)
        return 0
    found = decoded(Silences, answer).silences
    show([_silences(found, time.time()) if found else "no silence holds"])
    return 0


def _silence_expire(arguments: argparse.Namespace) -> int:
    ended = requested(arguments, "silence expire", {"identifier": arguments.identifier})
    line = decoded(SilenceLine, ended)
    say(f"silence {line.identifier} is over: {matchers_text(line.matchers)}")
    return 0


def _ack(arguments: argparse.Namespace) -> int:
    asked = Acknowledge(arguments.incident, arguments.reason, arguments.undo)
    line = decoded(IncidentLine, requested(arguments, "ack", asked))
    then = "mailed again" if arguments.undo else "no mail until it gets worse or is over"
    say(f"incident {line.identifier} ({line.severity}, {line.object}): {then}")
    return 0


def _query(arguments: argparse.Namespace) -> int:
    answer = requested(arguments, "query", {"expression": arguments.expression})
    if arguments.json:
        say_json(answer)
        return 0
    result = decoded(Result, answer)
    for sample in result.samples:
        say(f"{_metric(sample.labels)} {sample.value}".strip())
    if not result.samples:
        sys.stderr.write("the result is empty\n")
    return 0


# --- asking


def ask(path: str, command: str, arguments: object = None) -> dict[str, Any]:
    """Return what the service answers to one command. Errors: ServiceError."""
    answer: dict[str, Any] = next(_exchange(path, command, arguments))["answer"]
    return answer


def requested(arguments: argparse.Namespace, command: str, asked: object = None) -> dict[str, Any]:
    """Return what the service that is meant answers. Errors: ServiceError."""
    return ask(_path(arguments), command, asked)


def exchange(
    arguments: argparse.Namespace, command: str, asked: object, *, follow: bool
) -> Generator[dict[str, Any], None, None]:
    """Give what the service that is meant says, as it comes. Errors: ServiceError."""
    return _exchange(_path(arguments), command, asked, follow=follow)


def _exchange(
    path: str, command: str, arguments: object = None, *, follow: bool = False
) -> Generator[dict[str, Any], None, None]:
    """Give what the service says: one answer, and with `follow` what comes after. ServiceError."""
    request = {"command": command, **json.loads(json_codec.encode(arguments or {}))}
    line = json.dumps(request).encode() + b"\n"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            _connect(client, path)
            client.settimeout(TIMEOUT_SECONDS)
            client.sendall(line)
            with client.makefile("rb") as answers:
                yield _line(answers.readline(MOST_LINE_BYTES), path)
                client.settimeout(None)
                while follow:
                    yield _line(answers.readline(MOST_LINE_BYTES), path)
    except TimeoutError as error:
        raise ServiceError(
            f"'{path}': expected an answer within {TIMEOUT_SECONDS:.0f} s, got none;"
            " see 'journalctl -u iowarden'"
        ) from error
    except ConnectionError as error:
        raise ServiceError(_gone(path)) from error


def _connect(client: socket.socket, path: str) -> None:
    # Blocking, and this limits it: else a full queue of a busy service is an error (unix(7)).
    limit = struct.pack("ll", int(TIMEOUT_SECONDS), 0)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    try:
        client.connect(path)
    except BlockingIOError as error:
        raise TimeoutError from error
    except OSError as error:
        got = error.strerror or str(error)
        then = (
            f"be root, or in group '{control_socket.GROUP}' and logged in since"
            if error.errno in (errno.EACCES, errno.EPERM)
            else "see 'systemctl status iowarden', or name the place: --state-directory, --socket"
        )
        raise ServiceError(f"'{path}': expected a running service, got '{got}'; {then}") from error


def _line(line: bytes, path: str) -> dict[str, Any]:
    if not line.endswith(b"\n"):
        raise ServiceError(_gone(path))
    try:
        found = json.loads(line)
    except ValueError as error:
        raise ServiceError(f"'{path}': expected JSON, got {line[:60]!r}") from error
    if not isinstance(found, dict) or not found.keys() & {"answer", "event", "error"}:
        raise ServiceError(f"'{path}': expected an answer, got {line[:60]!r}")
    if "error" in found:
        raise ServiceError(str(found["error"]))
    return found


def _gone(path: str) -> str:
    return f"'{path}': the service went away; see 'systemctl status iowarden'"


def _path(arguments: argparse.Namespace) -> str:
    if arguments.socket is not None:
        return str(arguments.socket)
    if arguments.state_directory is not None:
        return str(Path(arguments.state_directory).resolve() / control_socket.FILE_NAME)
    return control_socket.SOCKET


def decoded(cls: Any, answer: object) -> Any:  # noqa: ANN401 - as `codec.decode`
    """Return an answer as its document. Errors: ServiceError."""
    try:
        return json_codec.decode(cls, json.dumps(answer))
    except json_codec.CodecError as error:
        raise ServiceError(f"is the service of another version? {error}") from error


# --- arguments


def _duration(text: str) -> float:
    try:
        return duration_seconds(text)
    except ValueError as error:
        hint = f"; {error}" if str(error) else ""
        raise argparse.ArgumentTypeError(
            f"expected a duration such as 90m or 1d12h, got '{text}'{hint}"
        ) from None


def _moment(text: str) -> float:
    """Return the Unix time of ISO 8601; without an offset it is local time."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a time such as 2026-11-22T06:00, got '{text}'"
        ) from None
    at = (found if found.tzinfo else found.replace(tzinfo=local_zone())).timestamp()
    if at <= time.time():
        raise argparse.ArgumentTypeError(f"expected a time to come, got '{text}'")
    return at


def count(text: str) -> int:
    """Return a number that was typed."""
    if not (text.isascii() and text.isdigit()) or len(text) > 6:
        raise argparse.ArgumentTypeError(f"expected a number up to 999999, got '{text}'")
    return int(text)


# --- showing


def status_sections(status: Status) -> list[str | Table]:
    """Return what one screen shows of a status, the worst first."""
    now = status.now_seconds
    age = _span(now - status.started_seconds)
    sections: list[str | Table] = [
        f"iowarden {status.version} on {status.host}, running for {age}",
        status.summary,
    ]
    if not status.ready:
        sections.append("not ready: not everything has been read yet, so what is missing may come")
    if status.refused_reload is not None:
        since = since_text(status.refused_reload.at_seconds, now)
        sections.append(f"reload refused, since {since}; the configuration before is in force:")
        sections += [f"  {problem}" for problem in status.refused_reload.problems]
    sections += [f"trouble: {text}" for text in status.troubles]
    if status.incidents:
        incidents = [
            (
                i.severity,
                i.identifier,
                i.object,
                since_text(i.opened_seconds, now),
                incident_text(i, now),
            )
            for i in status.incidents
        ]
        of_incidents = ("severity", "incident", "object", "since", "summary")
        sections.append(table_of("open incidents", of_incidents, incidents))
    if status.alerts:
        alerts = [
            (
                a.severity,
                a.state,
                a.name,
                a.object,
                since_text(a.since_seconds, now),
                alert_text(a, now),
            )
            for a in status.alerts
        ]
        of_alerts = ("severity", "state", "alert", "object", "since", "summary")
        sections.append(table_of("alerts", of_alerts, alerts))
    if status.probe.stuck:
        stuck = [
            (str(s.pid), s.command, ", ".join(s.devices), since_text(s.since_seconds, now))
            for s in status.probe.stuck
        ]
        title = "programs that cannot be killed, a sign of a failing disk"
        sections.append(table_of(title, ("pid", "program", "disk", "since"), stuck))
    if status.sources:
        sources = [
            (s.name, s.outcome, since_text(s.since_seconds, now), s.error) for s in status.sources
        ]
        title = "sources that are not ok"
        sections.append(table_of(title, ("source", "outcome", "last ok", "error"), sources))
    if status.silences:
        sections.append(_silences(status.silences, now))
    sections += [status.disks] if status.disks else []
    sections += [
        f"sources: {status.sources_ok} ok, {len(status.sources)} not",
        f"mail: {_mail(status.mail, now)}",
        f"probe: {_probe(status.probe)}",
    ]
    return sections


def show(sections: Sequence[str | Table]) -> None:
    """Print text and tables: drawn on a terminal, else in columns."""
    if sys.stdout.isatty():
        _draw(sections)
        return
    before: str | Table = ""
    for section in sections:
        if Table in (type(section), type(before)) and before:
            say("")
        if isinstance(section, str):
            say(section)
        else:
            say_raw("\n".join(columns(section)))
        before = section


def columns(table: Table) -> list[str]:
    """Return the lines of a table in plain text, nothing cut off."""
    lines = [table.columns, *table.rows]
    widths = [max(len(cells) for cells in column) for column in zip(*lines, strict=True)]
    return [
        f"{table.title}:",
        *("  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in lines),
    ]


def _draw(sections: Sequence[str | Table]) -> None:
    # Only here: the import costs 100 ms, and the service has no use for it.
    from rich import table  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False, markup=False, emoji=False)
    before: str | Table = ""
    for section in sections:
        if Table in (type(section), type(before)) and before:
            console.print()
        if isinstance(section, str):
            text = printable(section)
            console.print(Text(text, STYLES.get(text.partition(":")[0], "")), overflow="fold")
        else:
            drawn = table.Table(
                title=Text(section.title, "bold"),
                title_justify="left",
                header_style="underline",
                box=None,
                padding=(0, 2, 0, 0),
            )
            for name in section.columns:
                drawn.add_column(name, overflow="fold", no_wrap=name not in WRAPPED)
            for row in section.rows:
                drawn.add_row(*(Text(cell, STYLES.get(cell, "")) for cell in row))
            console.print(drawn)
        before = section


def printable(text: str) -> str:
    """Return text on one line without what a terminal would obey."""
    indent = len(text) - len(text.lstrip(" "))
    return " " * indent + one_line(text, MOST_CELL_CHARACTERS)


def table_of(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    """Return a table of whatever text, made safe for a terminal."""
    return Table(title, columns, tuple(tuple(printable(cell) for cell in row) for row in rows))


def incident_text(incident: IncidentLine, now: float) -> str:
    """Return what an incident is, and what is done about it."""
    marks = [] if incident.firing else ["not resolved yet"]
    if (known := incident.acknowledged) is not None:
        reason = f": {known.reason}" if known.reason else ""
        marks.append(f"acknowledged by {known.who}{reason}")
    if incident.silences:
        marks.append(f"silenced by {', '.join(incident.silences)}")
    if not incident.mails:
        marks.append("not mailed yet")
    text = _what(incident.summary, incident.cleared_seconds, now)
    return text + "".join(f" [{mark}]" for mark in marks)


def _what(summary: str, cleared_seconds: float | None, now: float) -> str:
    if cleared_seconds is None:
        return summary
    return f"cleared {_span(now - cleared_seconds)} ago; was: {summary}"


def alert_text(alert: AlertLine, now: float) -> str:
    """Return what an alert says, what it said until it was cleared, and who silenced it."""
    text = _what(alert.summary or alert.value, alert.cleared_seconds, now)
    marks = [alert.unknown_reason] if alert.unknown_reason else []
    marks += [f"silenced by {', '.join(alert.silences)}"] if alert.silences else []
    return text + "".join(f" [{mark}]" for mark in marks)


def _silences(silences: Sequence[SilenceLine], now: float) -> Table:
    rows = [
        (
            s.identifier,
            matchers_text(s.matchers),
            f"{at_text(s.ends_seconds)} ({_span(s.ends_seconds - now)} left)",
            s.who,
            s.reason,
        )
        for s in silences
    ]
    return table_of("silences", ("silence", "alerts", "ends", "by", "reason"), rows)


def _mail(mail: MailLine, now: float) -> str:
    to = f"goes to {mail.destination}" if mail.destination else ""
    if not mail.waiting:
        return f"none waits; {to}".rstrip("; ")
    parts = [f"{mail.waiting} wait" if mail.waiting > 1 else "1 waits", to]
    if mail.oldest_seconds is not None:
        parts.append(f"the oldest since {since_text(mail.oldest_seconds, now)}")
    if mail.refused:
        parts.append(f"{mail.refused} refused for good")
    if mail.next_seconds is not None:
        parts.append(f"next attempt in {_span(mail.next_seconds - now)}")
    if mail.error:
        parts.append(f"last error: {mail.error}")
    return "; ".join(part for part in parts if part)


def _probe(probe: ProbeLine) -> str:
    if not probe.connected:
        return f"not connected: {probe.error}" if probe.error else "not needed now"
    found = ", ".join(f"{name} ({path})" for name, path in sorted(probe.programs.items()))
    return f"connected; programs: {found or 'none found'}"


def matchers_text(matchers: Sequence[Matcher]) -> str:
    """Return matchers as they would be typed."""
    return " ".join(f"{m.label}{m.operator}{_quoted(m.text)}" for m in matchers)


def _metric(labels: dict[str, str]) -> str:
    pairs = [f"{k}={_quoted(v)}" for k, v in sorted(labels.items()) if k != "__name__"]
    return labels.get("__name__", "") + (f"{{{', '.join(pairs)}}}" if pairs else "")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def since_text(at_seconds: float | None, now: float) -> str:
    """Return a moment, and how long ago it was."""
    if at_seconds is None:
        return "never"
    at, today = at_text(at_seconds), at_text(now)[: len("2026-11-21")]
    return f"{at.removeprefix(today).strip()} ({_span(now - at_seconds)})"


def _span(seconds: float) -> str:
    return quantity("_seconds", max(seconds, 0.0))


def at_text(at_seconds: float) -> str:
    """Return a moment, in local time."""
    try:
        return f"{datetime.fromtimestamp(at_seconds, local_zone()):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):  # no time that a calendar has
        return f"{at_seconds:.0f} s"


def say(text: str) -> None:
    """Print a line, safe for a terminal."""
    say_raw(printable(text))


def say_raw(text: str) -> None:
    """Print a line as it is."""
    sys.stdout.write(f"{text.rstrip()}\n")


def say_json(answer: object) -> None:
    """Print an answer as data."""
    say_raw(json.dumps(answer, indent=2))  # ASCII: no terminal obeys anything in it
