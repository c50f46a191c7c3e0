"""Render the mail of an incident, as text and HTML, readable for an administrator at 3 a.m.

Pure.

Source: RFC 5322 (format, threads), RFC 2045 to 2047 (MIME, 7-bit headers and text), RFC 3834
(Auto-Submitted).
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from email.message import EmailMessage
from typing import TYPE_CHECKING

from iowarden.daemon.clock import local_zone
from iowarden.daemon.notify.mail_format import (
    POLICY,
    WIDTH,
    identifier,
    middle,
    token,
    with_utc,
    wrapped,
)
from iowarden.daemon.sanitize import one_line, shorten
from iowarden.rules.notice import Reason
from iowarden.rules.quantity import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iowarden.daemon.config.schema import Config
    from iowarden.rules.notice import Evidence, Notice

_MIN_SUMMARY_CHARACTERS = 8
"""A summary shortened to fewer characters is not useful: it is left out."""
_MAX_CHARACTERS = 2000
"""Per line of a notice; a kernel line is at most 1 KiB (printk, LOG_LINE_MAX)."""
_STATES = {
    Reason.OPENED: "",
    Reason.ESCALATED: "ESCALATED",
    Reason.DATA_UNAVAILABLE: "DATA UNAVAILABLE",
    Reason.RESOLVED: "",
    Reason.REMINDER: "REMINDER",
    Reason.REBUILT: "REBUILT",
    Reason.INITIAL: "INITIAL REPORT",
    Reason.DIGEST: "DIGEST",
}


def recipients(config: Config) -> tuple[str, ...]:
    """Return the recipients of mails: 'mail.to', or root at this host."""
    return config.mail.to or (f"root@{config.host}",)


def message_id(notice: Notice, host: str) -> str:
    """Return a mail's Message-ID, the same each time it is rendered: duplicates are recognized."""
    return identifier(notice.incident, notice.number, host)


def render(
    notice: Notice, host: str, sender: str, recipients: Sequence[str], *, zone: tzinfo | None = None
) -> EmailMessage:
    """Return the mail of a notice; its `as_bytes` is ready for SMTP.

    `zone` is the time zone of the times in it, by default this machine's. The same notice gives the
    same bytes. No device name can inject a header.
    Limits: lines of a notice over 2,000 characters are cut and marked as cut.
    """
    zone = zone or local_zone()
    message = EmailMessage(policy=POLICY)
    message["Subject"] = subject(notice, host)
    message["From"] = sender
    message["To"] = ", ".join(recipients)
    message["Date"] = datetime.fromtimestamp(notice.realtime_seconds, zone)
    message["Message-ID"] = message_id(notice, host)
    if notice.references:
        answered = [_referred(reference, host) for reference in notice.references]
        message["In-Reply-To"] = answered[0]
        message["References"] = " ".join(answered)
    message["Auto-Submitted"] = "auto-generated"
    message["X-Iowarden-Incident"] = token(notice.incident)
    message["X-Iowarden-Severity"] = notice.severity.name.lower()
    page = _page(notice, host, zone)
    message.set_content(_text(page), cte="quoted-printable")
    message.add_alternative(_html(page), subtype="html", cte="quoted-printable")
    # '=-' cannot occur in quoted-printable text, where '=' is always followed by a digit or a line
    # end.
    message.set_boundary(f"=-{token(notice.incident)}-{notice.number}")
    return message


def subject(notice: Notice, host: str) -> str:
    """Return '[SEVERITY] host: object: STATE: summary' in 78 columns; the summary is shortened.

    A resolved incident has '[OK]' in place of its severity.
    The object's full name is removed from the summary, so that less of the summary is cut off.
    """
    severity, state = _severity(notice), _state(notice)
    full, short = one_line(notice.object), _short_object(notice)
    summary = one_line(notice.summary)
    summary = one_line(summary.replace(f"{full} ", "", 1 if full != short else 0), WIDTH * 2)
    summary = _NAMED.sub(lambda found: "" if found[1] in full else found[0], summary)
    frame = len(f"[{severity}] : : ") + len(state)
    least = min(len(summary) + 2, 26)
    place = max(WIDTH - frame - least, 40)
    name = middle(one_line(host) or "localhost", place - min(len(short), 20))
    shown = full if len(full) + len(summary) <= WIDTH - frame - len(name) - 2 else short
    shown = middle(shown, place - len(name)) or "?"
    head = f"[{severity}] {name}: {shown}: {state}"
    between = ": " if state else ""
    room = WIDTH - len(head) - len(between)
    if not summary or room < min(_MIN_SUMMARY_CHARACTERS, len(summary)):
        return head if state else head.removesuffix(": ")
    return f"{head}{between}{shorten(summary, room)}"


def _severity(notice: Notice) -> str:
    return "OK" if notice.reason is Reason.RESOLVED else notice.severity.name


def _state(notice: Notice) -> str:
    if notice.reason is Reason.REOPENED and notice.times:
        return f"FLAPPING ({notice.times} times/day)"
    if notice.reason is Reason.REOPENED:
        return f"REOPENED ({_ordinal(notice.recurrences + 1)} time)"
    return _STATES[notice.reason]


def _ordinal(number: int) -> str:
    last = number % 10 if number % 100 // 10 != 1 else 0
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"


_NAMED = re.compile(r"(?:^|(?<=was: ))([a-z]\w*(?: \w+){0,2}): ", re.ASCII)
"""A controller at the beginning of a summary: 'megaraid c0: the battery ...'."""


def _short_object(notice: Notice) -> str:
    """Return the name without what follows in parentheses: 'sda (ACME SLOW-HDD)' is 'sda'."""
    return one_line(notice.object.partition(" (")[0])


def _referred(reference: str, host: str) -> str:
    incident, _, number = reference.rpartition(".")
    return identifier(incident, token(number), host)


# --- the body: sections of lines, then as text and as HTML


@dataclass(slots=True)
class _Page:
    """Content of the body, for both its forms."""

    head: list[str]
    sections: list[tuple[str, list[_Line]]] = field(default_factory=list)
    foot: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a section: only prose is wrapped."""

    text: str
    prose: bool = True
    hang: str = "    "
    label: str = ""


def _page(notice: Notice, host: str, zone: tzinfo) -> _Page:
    opened = datetime.fromtimestamp(notice.opened_seconds, zone)
    written = datetime.fromtimestamp(notice.realtime_seconds, zone)
    lasted = duration(max(round(notice.realtime_seconds - notice.opened_seconds, 1), 0.0))
    state, severity, name = _state(notice), notice.severity.name, token(notice.incident)
    when = f"Since {with_utc(opened)}, {lasted} before this mail."
    if notice.reason is Reason.INITIAL:
        when = f"State as of {with_utc(written)}."
    elif notice.ended_seconds is not None:
        ended = datetime.fromtimestamp(notice.ended_seconds, zone)
        whole = duration(max(round(notice.ended_seconds - notice.opened_seconds, 1), 0.0))
        when = f"From {with_utc(opened)} to {with_utc(ended)}: {whole}."
    page = _Page(
        [
            f"{_severity(notice)} on {one_line(host)}: {one_line(notice.object)}"
            + (f" - {state}" if state else ""),
            one_line(notice.summary, _MAX_CHARACTERS) or "no summary",
            when,
        ]
    )

    def add(title: str, lines: Iterable[_Line]) -> None:
        if found := list(lines):
            page.sections.append((title, found))

    add("What happened", _prose(notice.sentences))
    add("What it means", _prose(notice.meaning))
    add("Evidence", [_evidence(line, opened, zone) for line in notice.evidence])
    if notice.reason not in (Reason.RESOLVED, Reason.INITIAL, Reason.DIGEST):
        add("What is affected", _prose(notice.affected))
    add("What to do", _advice(notice.advice))
    add("What is not known", _prose(notice.unknown))
    page.foot = [
        f"{severity.lower()} incident {name}, mail {notice.number}, written {with_utc(written)}",
        f"journalctl IOWARDEN_INCIDENT={name}",
    ]
    return page


def _prose(lines: Iterable[str]) -> list[_Line]:
    return [_Line(one_line(line, _MAX_CHARACTERS)) for line in lines]


def _evidence(line: Evidence, opened: datetime, zone: tzinfo) -> _Line:
    moment = datetime.fromtimestamp(line.realtime_seconds, zone)
    same_day = moment.date() == opened.date()
    return _Line(
        one_line(line.text, _MAX_CHARACTERS),
        label=f"{moment:%H:%M:%S}  {one_line(line.source, 80)}"
        if same_day
        else f"{moment:%Y-%m-%d %H:%M:%S}  {one_line(line.source, 80)}",
    )


def _advice(advice: Iterable[str]) -> list[_Line]:
    """Return advice in its original layout: a line that contains a command is not wrapped."""
    lines: list[_Line] = []
    for text in advice:
        if lines:
            lines.append(_Line("", prose=False))
        for line in text[: 10 * _MAX_CHARACTERS].splitlines():
            indent = "  " if line[:1].isspace() else ""
            command = bool(indent) or re.search(r"\S {2,}\S|`|(?<!\w)'", line) is not None
            lines.append(_Line(indent + _spaced(line), prose=not command, hang="  "))
    return lines


def _spaced(line: str) -> str:
    """Return a sanitised line; runs of two or more spaces become two, they set off a command."""
    return "  ".join(one_line(part, _MAX_CHARACTERS) for part in re.split(r" {2,}", line.strip()))


def _text(page: _Page) -> str:
    parts = [wrapped(line) for line in page.head]
    for title, lines in page.sections:
        parts += ["", title.upper()]
        for line in lines:
            if not line.prose:
                parts.append(f"  {line.text}".rstrip())
            elif line.label and len(both := f"  {line.label}  {line.text}") <= WIDTH:
                parts.append(both)
            elif line.label:
                parts += [wrapped(line.label, "  "), wrapped(line.text, "      ", "      ")]
            else:
                parts.append(wrapped(line.text, "  ", line.hang))
    parts += ["", "INCIDENT", *(wrapped(line, "  ", "  ") for line in page.foot)]
    return "\n".join(parts) + "\n"


_FONT = "font:15px/1.45 sans-serif;color:#1a1a1a;max-width:46em"
_CODE = "font:13px/1.5 monospace;white-space:pre-wrap"


def _html(page: _Page) -> str:
    first, *rest = (html.escape(line) for line in page.head)
    parts = [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>iowarden</title></head>',
        f'<body style="{_FONT}"><p><strong>{first}</strong><br>',
        "<br>\n".join(rest) + "</p>",
    ]
    for title, lines in page.sections:
        parts.append(f'<h3 style="margin:1.2em 0 .3em;font-size:15px">{title}</h3>')
        parts += [_html_line(line) for line in lines]
    footer, command = (html.escape(line) for line in page.foot)
    parts.append(
        f'<p style="margin-top:1.6em;color:#666;font-size:13px">{footer}<br>'
        f'<code style="{_CODE}">{command}</code></p></body></html>'
    )
    return "\n".join(parts) + "\n"


def _html_line(line: _Line) -> str:
    text = html.escape(line.text)
    if line.label:
        label = html.escape(line.label)
        return (
            f'<p style="margin:.2em 0 .2em 1em"><span style="color:#666">{label}</span><br>'
            f'<code style="{_CODE}">{text}</code></p>'
        )
    if not line.prose:
        return f'<p style="margin:.1em 0 .1em 1em;{_CODE}">{text or "&nbsp;"}</p>'
    return f'<p style="margin:.2em 0 .2em 1em">{text}</p>'
