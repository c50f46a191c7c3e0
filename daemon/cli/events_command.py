"""'iowarden events' and 'iowarden incident': list events, list and show incidents.

Exit status as in daemon.cli.service_client.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from typing import TYPE_CHECKING

from iowarden.daemon.cli.service_client import (
    command_of,
    decoded,
    exchange,
    show_answer,
    take_json,
)
from iowarden.daemon.control.documents import (
    EventLine,
    EventList,
    EventQuery,
    IncidentDetail,
    IncidentList,
)
from iowarden.daemon.sanitize import MAX_NAME_CHARACTERS, json_text, one_line, prose
from iowarden.daemon.storage.event_rows import OWN, EventFilter
from iowarden.daemon.terminal import columns
from iowarden.daemon.terminal.arguments import count, subcommand, time_past
from iowarden.daemon.terminal.columns import mails_text, matchers_text
from iowarden.daemon.terminal.console import print_error, print_raw, printable, show, table_of
from iowarden.daemon.terminal.times import at_text, since_text
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from iowarden.daemon.cli.command import Add
    from iowarden.daemon.control.documents import EvidenceLine, MemberLine
    from iowarden.daemon.terminal.console import Columns, Sections

LAST = 50
_METRIC = re.compile(r"[a-z]+(?:_[a-z0-9]+)+")


def add_commands(add: Add) -> None:
    """Add the commands of this module, by a function that takes name and what runs."""
    happened = command_of(add("events", _events), _events)
    happened.add_argument(
        "-n", "--last", type=count, default=LAST, help=f"number of events; default: {LAST}"
    )
    for name, words in (("--since", "from TIME on"), ("--until", "up to TIME")):
        happened.add_argument(
            name, type=time_past, metavar="TIME", help=f"{words}: 2d (ago) or 2026-11-22T06:00"
        )
    happened.add_argument(
        "--disk",
        default="",
        metavar="SERIAL",
        help="only of this disk: serial number, the beginning of it, or device",
    )
    happened.add_argument(
        "--incident",
        default="",
        metavar="ID",
        help="only of this incident: ID or the beginning of it",
    )
    happened.add_argument(
        "--source",
        default="",
        metavar="NAME",
        help=f"only from kernel, md, areca, 3ware ... or {OWN}",
    )
    happened.add_argument(
        "--severity",
        default="",
        choices=[each.name.lower() for each in Severity],
        help="minimum severity",
    )
    happened.add_argument("--follow", action="store_true", help="continue with new events")
    happened.add_argument("--json", action="store_true", help="print JSON, one event per line")
    incident = add("incident", _list)
    actions = incident.add_subparsers(required=True, metavar="ACTION")
    listed = command_of(subcommand(actions, "list", "list open incidents"), _list)
    listed.add_argument("--all", action="store_true", help="also list recently closed incidents")
    take_json(listed)
    one = subcommand(actions, "show", "show an incident: alerts, evidence, what to do, events")
    command_of(one, _show, data=True)
    one.add_argument("incident", metavar="INCIDENT", help="ID or the beginning of it")


# --- the commands


def _events(arguments: argparse.Namespace) -> int:
    asked = EventQuery(
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
    found = decoded(EventList, next(lines)["answer"])
    # The label that the service uses for the disk.
    disk = (found.disk or asked.disk.removeprefix("/dev/")) if asked.disk else ""
    wanted = EventFilter(dataclasses.replace(asked, disk=disk), found.devices if disk else None)
    if found.note:
        print_error(found.note)
    for event in found.events:
        _print_event(event, arguments)
    if not found.events and not arguments.follow:
        sys.stderr.write("no matching events\n")
    sys.stdout.flush()
    for line in lines:
        for event in decoded(EventList, {"events": [line["event"]]}).events:
            if wanted.matches(event):
                _print_event(event, arguments)
        sys.stdout.flush()
    return 0


def _list(arguments: argparse.Namespace) -> int:
    return show_answer(
        arguments, "incident list", IncidentList, list_sections, {"all": arguments.all}
    )


def _show(arguments: argparse.Namespace) -> int:
    asked = {"incident": arguments.incident}
    return show_answer(arguments, "incident show", IncidentDetail, detail_sections, asked)


# --- showing


def _print_event(event: EventLine, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print_raw(json_text(dataclasses.asdict(event), None))
        return
    if sys.stdout.isatty():
        show([event_text(event)])  # escaped, and wrapped between words
    else:
        print_raw(event_text(event))


def event_text(event: EventLine) -> str:
    """Return an event as a line: time, severity, source, object, incident, text."""
    cells = (
        f"{printable(event.severity) or '?':<8}",
        f"{printable(event.source) or OWN:<8}",
        f"{_about(event):<8}",
        f"{printable(event.incident) or '-':<10}",
        _text(event),
    )
    return "  ".join((at_text(event.at_seconds), *cells))


def _about(event: EventLine) -> str:
    """Return the object of an event, in short: 'sda (ACME SLOW-HDD, serial SLOW1)' is 'sda'."""
    return one_line(event.device or event.object.partition(" (")[0], MAX_NAME_CHARACTERS) or "-"


def _text(event: EventLine) -> str:
    return prose(event.text) + (f" ({event.count} times)" if event.count > 1 else "")


def list_sections(found: IncidentList) -> Sections:
    """Return open incidents, one per line, then recently closed ones."""
    of_incidents = columns.of_incidents(found.now_seconds)
    opened = [i for i in found.incidents if i.closed_seconds is None]
    closed = [i for i in found.incidents if i.closed_seconds is not None]
    of_open = ("severity", "incident", "object", "since", "notifications", "summary")
    of_closed = ("incident", "object", "since", "closed", "notifications")
    return [
        *(table_of("open incidents", opened, of_incidents, *of_open) or ("no open incidents",)),
        *table_of("recently closed incidents", closed, of_incidents, *of_closed),
    ]


def detail_sections(found: IncidentDetail) -> Sections:
    """Return the details of an incident in the order of its mails: what to do first."""
    line = found.line
    severity = f"{line.severity}: " if line.severity else ""
    sections: Sections = [f"{severity}incident {line.identifier}: {line.object}"]
    sections += [f"  {line.summary}"] if line.summary else []
    sections += [f"  {text}" for text in _facts(found)]
    for title, texts in (
        ("what it means:", list(found.meaning)),
        ("what to do:", list(found.advice)),
        ("what happened:", list(found.timeline)),
    ):
        sections += _paragraph(sections, title, _lines(texts)) if texts else []
    sections += table_of("alerts and events", found.members, _times(found.now_seconds))
    if found.evidence:
        sections += _paragraph(
            sections, "evidence:", evidence_lines(found.evidence, found.now_seconds)
        )
    for title, last in (
        ("what is affected:", found.affected),
        ("what is unknown:", found.unknown),
    ):
        sections += _paragraph(sections, title, _lines(last)) if last else []
    of_events: Columns[EventLine] = {
        "time": lambda e: at_text(e.at_seconds),
        "severity": lambda e: e.severity,
        "source": lambda e: e.source,
        "object": _about,
        "text": _text,
    }
    sections += table_of("latest events", found.events, of_events)
    sections += _paragraph(sections, found.note) if found.note else []
    return [*sections, *_paragraph(sections, f"journalctl IOWARDEN_INCIDENT={line.identifier}")]


def _lines(texts: Iterable[str]) -> list[str]:
    return [each for text in texts for each in text.splitlines() if each.strip()]


def _paragraph(before: Sections, title: str, lines: Sequence[str] = ()) -> list[str]:
    """Return a title and its lines, with an empty line before; tables have one of their own."""
    return [*([""] if isinstance(before[-1], str) else []), title, *(f"  {each}" for each in lines)]


def evidence_lines(found: Sequence[EvidenceLine], now: float) -> list[str]:
    """Return a line for each value: when it was read, and what it became later."""
    by_value: dict[tuple[str, str], list[EvidenceLine]] = {}
    for each in found:
        # Of a metric its labels; of a log each line is one of its own.
        about = each.text.rpartition(": ")[0] if _METRIC.fullmatch(each.source) else each.text
        by_value.setdefault((each.source, about), []).append(each)
    today = at_text(now)[: len("2026-11-21 ")]
    lines = []
    for first, *later in by_value.values():
        at = at_text(first.at_seconds).removeprefix(today)
        text = f"{at}  {first.source}: {first.text}"
        last = later[-1] if later else first
        if last.text != first.text:
            at = at_text(last.at_seconds).removeprefix(today)
            text += f" -> {last.text.rpartition(': ')[2]} at {at}"
        lines.append(text)
    return lines


def _facts(found: IncidentDetail) -> list[str]:
    line, now = found.line, found.now_seconds
    state = "open" if line.firing else "open; cleared, not resolved yet"
    if line.closed_seconds is not None:
        state = f"closed since {since_text(line.closed_seconds, now)}"
    state += f": {line.cleared_because}" if line.cleared_because else ""
    facts = [f"state: {state}", f"opened: {since_text(line.opened_seconds, now)}"]
    facts += [f"reopened: {line.recurrences} times"] if line.recurrences else []
    facts.append(f"notifications: {mails_text(line, now)}")
    if (known := line.acknowledged) is not None:
        reason = f": {known.reason}" if known.reason else ""
        facts.append(f"acknowledged by {known.who}, {since_text(known.at_seconds, now)}{reason}")
    facts += [
        f"silenced by {s.identifier}, added by {s.who}, until {at_text(s.ends_seconds)}:"
        f" {matchers_text(s.matchers)}: {s.reason}"
        for s in found.silences
    ]
    return facts


def _times(now: float) -> Columns[MemberLine]:
    """Return the columns of an incident's alerts and events: state and times."""

    def state(member: MemberLine) -> str:
        words = member.state if member.cleared_seconds is None else "cleared"
        return f"{words}, silenced" if member.silenced else words

    def since(at: float | None) -> str:
        return "-" if at is None else since_text(at, now)

    return {
        "alert": lambda m: m.name,
        "state": state,
        "since": lambda m: since(m.since_seconds),
        "cleared": lambda m: since(m.cleared_seconds),
        "events": lambda m: str(m.count) if m.count else "-",
        "last": lambda m: since(m.last_seconds),
    }
