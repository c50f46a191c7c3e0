"""'iowarden events' and 'iowarden incident': what happened, and what became of it.

Exit status as in daemon.console.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING

from iowarden.daemon.cli.console import (
    Table,
    at_text,
    command_of,
    count,
    decoded,
    exchange,
    incident_text,
    matchers_text,
    printable,
    requested,
    say_json,
    say_raw,
    show,
    since_text,
    table_of,
)
from iowarden.daemon.clock import local_zone
from iowarden.daemon.control.documents import (
    AskEvents,
    EventLine,
    Events,
    IncidentDetail,
    Incidents,
)
from iowarden.daemon.duration import duration_seconds
from iowarden.daemon.sanitize import shorten
from iowarden.daemon.storage.event_rows import OWN, Wanted
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iowarden.daemon.cli.command import Add
    from iowarden.daemon.control.documents import IncidentLine, MemberLine

LAST = 50


def add_commands(add: Add) -> None:
    """Add the commands of this module, by a function that takes name, what runs, and help."""
    happened = command_of(add("events", _events, "what happened last"), _events)
    happened.add_argument(
        "-n", "--last", type=count, default=LAST, help=f"how many; default: {LAST}"
    )
    for name, words in (("--since", "from then on"), ("--until", "until then")):
        happened.add_argument(
            name, type=_moment, metavar="TIME", help=f"{words}: 2d (ago), or 2026-11-22T06:00"
        )
    happened.add_argument(
        "--disk",
        default="",
        metavar="SERIAL",
        help="of a disk: its serial number, the beginning of it, or its device",
    )
    happened.add_argument(
        "--incident", default="", metavar="ID", help="as listed, or its beginning"
    )
    happened.add_argument(
        "--source", default="", metavar="NAME", help=f"kernel, md, areca, 3ware ... or {OWN}"
    )
    happened.add_argument(
        "--severity",
        default="",
        choices=[each.name.lower() for each in Severity],
        help="the least one",
    )
    happened.add_argument("--follow", action="store_true", help="and what happens from now on")
    happened.add_argument("--json", action="store_true", help="each event as data, one a line")
    incident = add("incident", _list, "what is wrong and was lately, one cause each")
    actions = incident.add_subparsers(required=True, metavar="ACTION")
    listed = command_of(actions.add_parser("list", help="the open incidents"), _list)
    listed.add_argument("--all", action="store_true", help="and those that were closed lately")
    shown = command_of(actions.add_parser("show", help="all that is known of one"), _show)
    shown.add_argument("incident", metavar="INCIDENT", help="as listed, or its beginning")
    for parser in (listed, shown):
        parser.add_argument("--json", action="store_true", help="the answer as data")


# --- the commands


def _events(arguments: argparse.Namespace) -> int:
    asked = AskEvents(
        last=arguments.last,
        follow=arguments.follow,
        since_seconds=arguments.since,
        until_seconds=arguments.until,
        disk=arguments.disk,
        incident=arguments.incident,
        source=arguments.source,
        severity=arguments.severity,
    )
    lines = exchange(arguments, "events", asked, follow=arguments.follow)
    found = decoded(Events, next(lines)["answer"])
    wanted = _wanted(asked, found)
    if found.note:
        sys.stderr.write(f"{printable(found.note)}\n")
    # A service of before knows nothing of what is asked for but how many.
    told = [event for event in found.events if wanted.tells(event, event.at_seconds)]
    for event in told:
        _say_event(event, arguments)
    if not told and not arguments.follow:
        sys.stderr.write("no such event is known\n")
    sys.stdout.flush()
    for line in lines:
        for event in decoded(Events, {"events": [line["event"]]}).events:
            if wanted.tells(event, event.at_seconds):
                _say_event(event, arguments)
        sys.stdout.flush()
    return 0


def _list(arguments: argparse.Namespace) -> int:
    answer = requested(arguments, "incident list", {"all": arguments.all})
    if arguments.json:
        say_json(answer)
    else:
        show(list_sections(decoded(Incidents, answer)))
    return 0


def _show(arguments: argparse.Namespace) -> int:
    answer = requested(arguments, "incident show", {"incident": arguments.incident})
    if arguments.json:
        say_json(answer)
    else:
        show(detail_sections(decoded(IncidentDetail, answer)))
    return 0


# --- arguments


def _moment(text: str) -> float:
    """Return the Unix time of a duration ago, or of ISO 8601; without an offset it is local."""
    try:
        return time.time() - duration_seconds(text)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a duration ago such as 2d, or a time such as 2026-11-22T06:00, got '{text}'"
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=local_zone())).timestamp()


def _wanted(asked: AskEvents, found: Events) -> Wanted:
    """Return what is asked for, with the disk as the service knows it."""
    return Wanted(
        asked.last,
        asked.since_seconds,
        asked.until_seconds,
        (found.disk or asked.disk.removeprefix("/dev/")) if asked.disk else "",
        found.devices if asked.disk else None,
        asked.incident,
        asked.source,
        asked.severity,
    )


# --- showing


def _say_event(event: EventLine, arguments: argparse.Namespace) -> None:
    if arguments.json:
        say_raw(json.dumps(dataclasses.asdict(event)))
        return
    text = event_text(event)
    say_raw(shorten(text, shutil.get_terminal_size().columns) if sys.stdout.isatty() else text)


def event_text(event: EventLine) -> str:
    """Return an event as a line: time, severity, source, what it is about, incident, text."""
    cells = (
        f"{printable(event.severity) or '?':<8}",
        f"{printable(event.source) or OWN:<8}",
        f"{_about(event):<8}",
        f"{printable(event.incident) or '-':<10}",
        _text(event),
    )
    return "  ".join((at_text(event.at_seconds), *cells))


def _about(event: EventLine) -> str:
    """Return what an event is about, in short: 'sda (ACME SLOW-HDD, serial SLOW1)' is 'sda'."""
    return printable(event.device or event.object.partition(" (")[0]) or "-"


def _text(event: EventLine) -> str:
    return printable(event.text) + (f" ({event.count} times)" if event.count > 1 else "")


def list_sections(found: Incidents) -> list[str | Table]:
    """Return incidents, one a line, those that are closed below."""
    now = found.now_seconds
    sections: list[str | Table] = []
    opened = [i for i in found.incidents if i.closed_seconds is None]
    if opened:
        rows = [
            (
                i.severity,
                i.identifier,
                i.object,
                since_text(i.opened_seconds, now),
                _mails(i, now),
                incident_text(i, now),
            )
            for i in opened
        ]
        of_open = ("severity", "incident", "object", "since", "mails", "summary")
        sections.append(table_of("open incidents", of_open, rows))
    else:
        sections.append("no incident is open")
    closed = [
        (
            i.identifier,
            i.object,
            since_text(i.opened_seconds, now),
            since_text(i.closed_seconds, now),
            _mails(i, now),
        )
        for i in found.incidents
        if i.closed_seconds is not None
    ]
    if closed:
        of_closed = ("incident", "object", "since", "closed", "mails")
        sections.append(table_of("closed lately", of_closed, closed))
    return sections


def detail_sections(found: IncidentDetail) -> list[str | Table]:
    """Return all of an incident, in the order of its mails."""
    line, now = found.line, found.now_seconds
    severity = f"{line.severity}: " if line.severity else ""
    sections: list[str | Table] = [f"{severity}incident {line.identifier}: {line.object}"]
    sections += [f"  {line.summary}"] if line.summary else []
    sections += [f"  {text}" for text in _facts(found)]
    if found.happened:
        sections += _paragraph(sections, "what happened:", found.happened)
    if found.meaning:
        sections += _paragraph(sections, "what it means:", found.meaning)
    if found.members:
        times = [_member(each, now) for each in found.members]
        of_times = ("alert", "state", "since", "cleared", "events", "last")
        sections.append(table_of("times", of_times, times))
    if found.evidence:
        rows = [(at_text(e.at_seconds), e.source, e.text) for e in found.evidence]
        sections.append(table_of("evidence", ("time", "source", "text"), rows))
    for title, texts in (
        ("what it hits", found.affected),
        ("what to do", found.advice),
        ("what is not known", found.unknown),
    ):
        if texts:
            lines = [each for text in texts for each in text.splitlines() if each.strip()]
            sections += _paragraph(sections, f"{title}:", lines)
    if found.events:
        events = [
            (at_text(e.at_seconds), e.severity, e.source, _about(e), _text(e)) for e in found.events
        ]
        of_events = ("time", "severity", "source", "object", "text")
        sections.append(table_of("its last events", of_events, events))
    sections += _paragraph(sections, found.note) if found.note else []
    return [*sections, *_paragraph(sections, f"journalctl IOWARDEN_INCIDENT={line.identifier}")]


def _paragraph(before: Sequence[str | Table], title: str, lines: Sequence[str] = ()) -> list[str]:
    """Return lines below a title; tables have an empty line around them anyway."""
    space = [""] if isinstance(before[-1], str) else []
    return [*space, title, *(f"  {line}" for line in lines)]


def _facts(found: IncidentDetail) -> list[str]:
    line, now = found.line, found.now_seconds
    state = "open" if line.firing else "open, cleared: not resolved yet"
    if line.closed_seconds is not None:
        state = f"closed since {since_text(line.closed_seconds, now)}"
    facts = [f"state: {state}", f"opened: {since_text(line.opened_seconds, now)}"]
    facts += [f"came again: {line.recurrences} times"] if line.recurrences else []
    facts.append(f"mails: {_mails(line, now)}")
    if (known := line.acknowledged) is not None:
        reason = f": {known.reason}" if known.reason else ""
        facts.append(f"acknowledged by {known.who}, {since_text(known.at_seconds, now)}{reason}")
    facts += [
        f"silenced by {s.identifier} of {s.who} until {at_text(s.ends_seconds)}:"
        f" {matchers_text(s.matchers)}: {s.reason}"
        for s in found.silences
    ]
    return facts


def _mails(line: IncidentLine, now: float) -> str:
    if not line.mails:
        return "none yet"
    last = f" ('{line.last_reason}')" if line.last_reason else ""
    at = "" if line.mailed_seconds is None else f", {since_text(line.mailed_seconds, now)}"
    return f"{line.mails}, last{last}{at}"


def _member(member: MemberLine, now: float) -> tuple[str, ...]:
    state = member.state if member.over_seconds is None else "cleared"
    return (
        member.name,
        f"{state}, silenced" if member.silenced else state,
        since_text(member.since_seconds, now),
        "-" if member.over_seconds is None else since_text(member.over_seconds, now),
        str(member.count) if member.count else "-",
        "-" if member.last_seconds is None else since_text(member.last_seconds, now),
    )
