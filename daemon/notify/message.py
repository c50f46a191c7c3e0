"""A mail of an incident, as text and HTML, for a tired administrator at three in the morning.

Pure.

Source: RFC 5322 (format, threads), RFC 2045 to 2047 (what any server takes), RFC 3834
(Auto-Submitted).
"""

from __future__ import annotations

# The library imports this when a first mail is made: too late on a hung disk.
import email.generator  # noqa: F401 - only to be there
import hashlib
import html
import re
import textwrap
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from email.header import Header
from email.headerregistry import BaseHeader, HeaderRegistry
from email.message import EmailMessage, MIMEPart
from email.parser import BytesHeaderParser
from email.policy import SMTP, EmailPolicy
from email.utils import getaddresses
from typing import TYPE_CHECKING

from iowarden.daemon.clock import local_zone
from iowarden.daemon.sanitize import ELLIPSIS, one_line, shorten
from iowarden.rules.notice import Reason
from iowarden.rules.quantity import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from email.message import Message
    from email.policy import Policy

    from iowarden.daemon.config.schema import Config
    from iowarden.daemon.storage.state_db import OutboxRow
    from iowarden.rules.notice import Evidence, Notice

WIDTH = 78
"""Columns of text and subject. Source: RFC 5322, section 2.1.1."""
_LEAST_SUMMARY = 8
"""Fewer characters of a summary than this say nothing: they are left out."""
_MOST_CHARACTERS = 2000
"""Of one line of a notice; a kernel line is at most 1 KiB (printk, LOG_LINE_MAX)."""
_MOST_IDENTIFIER = 100

_STATES = {
    Reason.OPENED: "",
    Reason.WORSE: "WORSE",
    Reason.UNREADABLE: "UNREADABLE",
    Reason.ALL_CLEAR: "",
    Reason.STILL: "STILL",
    Reason.REBUILT: "REBUILT",
    Reason.ARRIVAL: "ARRIVAL",
    Reason.DIGEST: "DIGEST",
}


class _AsGiven(BaseHeader):
    """A header whose value is what it was given: the library would decode it ('=?...?=') first."""

    max_count = 1

    @classmethod
    def parse(cls, value: str, keywords: dict[str, object]) -> None:
        """Take the value, as the library asks a header class to."""
        keywords["decoded"] = value
        keywords["parse_tree"] = None


class _Identifiers(_AsGiven):
    """A header of message ids, one a line: the library would encode a long one as text."""

    def fold(self, *, policy: Policy) -> str:
        """Return the lines of the header."""
        return f"{self.name}: {f'{policy.linesep} '.join(self.split())}{policy.linesep}"


class _Text(_AsGiven):
    """A header of free text, folded by the older of the library's two encoders.

    The newer one loses spaces between encoded words.
    """

    def fold(self, *, policy: Policy) -> str:
        """Return the lines of the header."""
        charset = "us-ascii" if self.isascii() and "=?" not in self else "utf-8"
        folded = Header(str(self), charset, WIDTH, self.name).encode(linesep=policy.linesep)
        return f"{self.name}: {folded}{policy.linesep}"


def _policy() -> EmailPolicy[EmailMessage]:
    headers = HeaderRegistry()
    for name in ("message-id", "in-reply-to", "references"):
        headers.map_to_type(name, _Identifiers)
    headers.map_to_type("subject", _Text)
    return SMTP.clone(header_factory=headers, cte_type="7bit")


_POLICY = _policy()


def recipients(config: Config) -> tuple[str, ...]:
    """Return who is mailed."""
    return config.mail.to or (f"root@{config.host}",)


def message_id(notice: Notice, host: str) -> str:
    """Return a mail's Message-ID, the same whenever it is rendered: a repeat is known as one."""
    return _identifier(notice.incident, notice.number, host)


def render(
    notice: Notice, host: str, sender: str, recipients: Sequence[str], *, zone: tzinfo | None = None
) -> EmailMessage:
    """Return the mail that a notice asks for; `as_bytes` of it is ready for SMTP.

    `zone` is that of the times in it, by default this machine's. The same notice gives the same
    bytes. Whatever a device is called, it cannot make a header.
    Limits: lines of a notice over 2,000 characters are cut, and say so.
    """
    zone = zone or local_zone()
    message = EmailMessage(policy=_POLICY)
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
    message["X-Iowarden-Incident"] = _token(notice.incident)
    message["X-Iowarden-Severity"] = notice.severity.name.lower()
    page = _page(notice, host, zone)
    message.set_content(_text(page), cte="quoted-printable")
    message.add_alternative(_html(page), subtype="html", cte="quoted-printable")
    # '=-' cannot occur in quoted-printable text, where '=' is always followed by a digit or a line
    # end.
    message.set_boundary(f"=-{_token(notice.incident)}-{notice.number}")
    return message


def subject(notice: Notice, host: str) -> str:
    """Return '[SEVERITY] host: object: STATE: summary' in 78 columns; the summary gives way.

    What is over has '[OK]' in place of its severity.
    A summary does not say the object's whole name again: what happened would be cut off.
    """
    severity, state = _severity(notice), _state(notice)
    full, short = one_line(notice.object), _short_object(notice)
    summary = one_line(notice.summary)
    summary = one_line(summary.replace(f"{full} ", "", 1 if full != short else 0), WIDTH * 2)
    summary = _NAMED.sub(lambda found: "" if found[1] in full else found[0], summary)
    frame = len(f"[{severity}] : : ") + len(state)
    least = min(len(summary) + 2, 26)
    place = max(WIDTH - frame - least, 40)
    name = _middle(one_line(host) or "localhost", place - min(len(short), 20))
    shown = full if len(full) + len(summary) <= WIDTH - frame - len(name) - 2 else short
    shown = _middle(shown, place - len(name)) or "?"
    head = f"[{severity}] {name}: {shown}: {state}"
    between = ": " if state else ""
    room = WIDTH - len(head) - len(between)
    if not summary or room < min(_LEAST_SUMMARY, len(summary)):
        return head if state else head.removesuffix(": ")
    return f"{head}{between}{shorten(summary, room)}"


def _severity(notice: Notice) -> str:
    return "OK" if notice.reason is Reason.ALL_CLEAR else notice.severity.name


def _state(notice: Notice) -> str:
    if notice.reason is Reason.AGAIN and notice.times:
        return f"COMES AND GOES ({notice.times} times in a day)"
    if notice.reason is Reason.AGAIN:
        return f"AGAIN ({_ordinal(notice.recurrences + 1)} time)"
    return _STATES[notice.reason]


def _ordinal(number: int) -> str:
    last = number % 10 if number % 100 // 10 != 1 else 0
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"


_NAMED = re.compile(r"(?:^|(?<=was: ))([a-z]\w*(?: \w+){0,2}): ", re.ASCII)
"""A controller, as summaries of what it says begin: 'megaraid c0: the battery ...'."""


def _short_object(notice: Notice) -> str:
    """Return the name without what follows in parentheses: 'sda (ACME SLOW-HDD)' is 'sda'."""
    return one_line(notice.object.partition(" (")[0])


def _middle(text: str, most_characters: int) -> str:
    """Return text cut in its middle: the ends of a long name tell it from the others."""
    if len(text) <= most_characters:
        return text
    kept = max(most_characters - len(ELLIPSIS), 0)
    return (text[: kept - kept // 2] + ELLIPSIS + text[len(text) - kept // 2 :])[:most_characters]


def _identifier(incident: str, number: int | str, host: str) -> str:
    labels = (_token(label) for label in host.split("."))
    domain = ".".join(label for label in labels if label)[:_MOST_IDENTIFIER].strip(".-")
    return f"<iowarden.{_token(incident)}.{number}@{domain or 'localhost'}>"


def _referred(reference: str, host: str) -> str:
    incident, _, number = reference.rpartition(".")
    return _identifier(incident, _token(number), host)


def _token(text: str) -> str:
    """Return what may stand in an identifier. Source: RFC 5322, dot-atom."""
    return re.sub(r"[^A-Za-z0-9-]+", "-", text)[:_MOST_IDENTIFIER].strip("-")


# --- what waited too long to go alone


_CUT = b"X-Iowarden-Cut: yes"
_CUT_TEXT = b"Only this is left of the mail: no room was left to keep it while no server took it."


def cut(data: bytes) -> bytes:
    """Return a mail of ours without its text: what its line in a digest needs stays."""
    head = data.partition(b"\r\n\r\n")[0]
    fields = re.split(rb"\r\n(?![ \t])", head)
    kept = [f for f in fields if not f.lower().startswith(b"content-") and f != _CUT]
    return b"\r\n".join((*kept, _CUT, b"Content-Type: text/plain", b"", _CUT_TEXT, b""))


def is_cut(data: bytes) -> bool:
    """Say whether only its line is left of a mail."""
    return _CUT in data.partition(b"\r\n\r\n")[0].split(b"\r\n")


def addressees(data: bytes) -> tuple[str, ...]:
    """Return whom a mail of ours was written to."""
    return tuple(address for _, address in getaddresses([_fields(data)["To"] or ""]))


def digest_id(rows: Sequence[OutboxRow]) -> str:
    """Return the Message-ID of a digest, which follows from what it holds."""
    held = hashlib.sha256("\n".join(r.message_id for r in rows).encode()).hexdigest()[:24]
    return _identifier("digest", held, _host(rows))


def digest(rows: Sequence[OutboxRow], zone: tzinfo | None = None) -> bytes:
    """Return one mail that lists others, oldest first, and holds each as it was written.

    The same rows give the same bytes. A mail that was `cut` is in the list only.
    Source: RFC 2046, 5.1.5 (multipart/digest).
    """
    zone = zone or local_zone()
    newest, worst = _fields(rows[-1].data), max(row.severity for row in rows)
    since = datetime.fromtimestamp(rows[0].created_realtime_seconds, zone)
    message = EmailMessage(policy=_POLICY)
    message["Subject"] = (
        f"[{worst.name}] {_middle(_host(rows), 30)}: {len(rows)} mails held back"
        f" since {since:%Y-%m-%d %H:%M}"
    )
    message["From"] = str(newest["From"] or "iowarden")
    message["To"] = str(newest["To"] or "undisclosed-recipients:;")
    message["Date"] = datetime.fromtimestamp(rows[-1].created_realtime_seconds, zone)
    message["Message-ID"] = name = digest_id(rows)
    message["Auto-Submitted"] = "auto-generated"
    message["X-Iowarden-Severity"] = worst.name.lower()
    listed = MIMEPart(policy=_POLICY)
    listed.set_content(_listed(rows, zone), cte="quoted-printable")
    whole = [row.data for row in rows if not is_cut(row.data)]
    # '=_' cannot occur in quoted-printable text, nor in the boundaries of `render`.
    outer, inner = (
        f"=_{kind}-{name.split('.')[2].partition('@')[0]}" for kind in ("mixed", "digest")
    )
    parts = [listed.as_bytes()]
    if whole:  # each part's own header is empty: in a digest it is message/rfc822 then
        parts.append(_multipart("digest", inner, [b"\r\n" + data for data in whole]))
    return message.as_bytes().removesuffix(b"\r\n") + _multipart(
        "mixed", outer, parts, b"MIME-Version: 1.0\r\n"
    )


def _multipart(kind: str, boundary: str, parts: Iterable[bytes], head: bytes = b"") -> bytes:
    line = boundary.encode()
    body = b"".join(b"\r\n--%b\r\n%b" % (line, part) for part in parts)
    form = f'Content-Type: multipart/{kind}; boundary="{boundary}"\r\n'.encode()
    return b"%b%b%b\r\n--%b--\r\n" % (head, form, body, line)


def _listed(rows: Sequence[OutboxRow], zone: tzinfo) -> str:
    first, last = (
        _moment(datetime.fromtimestamp(row.created_realtime_seconds, zone))
        for row in (rows[0], rows[-1])
    )
    gone = sum(is_cut(row.data) for row in rows)
    lines = [
        _wrapped(f"{len(rows)} mails could not be sent when they were written."),
        _wrapped(f"The first is of {first},"),
        _wrapped(f"the last of {last}."),
        _wrapped(
            "They are attached as they were written, oldest first."
            + (
                f" Of {gone} only the line here is left: there was no room for more."
                if gone
                else ""
            )
        ),
    ]
    for row in rows:
        moment = datetime.fromtimestamp(row.created_realtime_seconds, zone)
        lines += [
            "",
            _wrapped(
                f"{moment:%Y-%m-%d %H:%M:%S}  {row.severity.name}  incident"
                f" {_token(row.incident)}, mail {row.number}"
                + ("  (only this line)" if is_cut(row.data) else "")
            ),
            f"  {one_line(str(_fields(row.data)['Subject'] or 'no subject'))}",
        ]
    return "\n".join(lines) + "\n"


def _fields(data: bytes) -> Message:
    return BytesHeaderParser(policy=SMTP).parsebytes(data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")


def _host(rows: Sequence[OutboxRow]) -> str:
    """Return the host of the newest mail, as its Message-ID names it."""
    return rows[-1].message_id.rpartition("@")[2].rstrip(">")


# --- the body: sections of lines, then as text and as HTML


@dataclass(slots=True)
class _Page:
    """What both forms of the body say."""

    head: list[str]
    sections: list[tuple[str, list[_Line]]] = field(default_factory=list)
    foot: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a section: prose may be wrapped, anything else stays as it is."""

    text: str
    prose: bool = True
    hang: str = "    "
    label: str = ""


def _page(notice: Notice, host: str, zone: tzinfo) -> _Page:
    opened = datetime.fromtimestamp(notice.opened_seconds, zone)
    written = datetime.fromtimestamp(notice.realtime_seconds, zone)
    lasted = duration(max(round(notice.realtime_seconds - notice.opened_seconds, 1), 0.0))
    state, severity, name = _state(notice), notice.severity.name, _token(notice.incident)
    when = f"Since {_moment(opened)}, {lasted} before this mail."
    if notice.reason is Reason.ARRIVAL:
        when = f"As seen until {_moment(written)}."
    elif notice.ended_seconds is not None:
        ended = datetime.fromtimestamp(notice.ended_seconds, zone)
        whole = duration(max(round(notice.ended_seconds - notice.opened_seconds, 1), 0.0))
        when = f"From {_moment(opened)} to {_moment(ended)}: {whole}."
    page = _Page(
        [
            f"{_severity(notice)} on {one_line(host)}: {one_line(notice.object)}"
            + (f" - {state}" if state else ""),
            one_line(notice.summary, _MOST_CHARACTERS) or "no summary",
            when,
        ]
    )

    def add(title: str, lines: Iterable[_Line]) -> None:
        if found := list(lines):
            page.sections.append((title, found))

    add("What happened", _prose(notice.happened))
    add("What it means", _prose(notice.meaning))
    add("Evidence", [_evidence(line, opened, zone) for line in notice.evidence])
    if notice.reason not in (Reason.ALL_CLEAR, Reason.ARRIVAL, Reason.DIGEST):
        add("What it hits", _prose(notice.affected))
    add("What to do", _advice(notice.advice))
    add("What is not known", _prose(notice.unknown))
    page.foot = [
        f"{severity.lower()} incident {name}, mail {notice.number}, written {_moment(written)}",
        f"journalctl IOWARDEN_INCIDENT={name}",
    ]
    return page


def _prose(lines: Iterable[str]) -> list[_Line]:
    return [_Line(one_line(line, _MOST_CHARACTERS)) for line in lines]


def _evidence(line: Evidence, opened: datetime, zone: tzinfo) -> _Line:
    moment = datetime.fromtimestamp(line.realtime_seconds, zone)
    same_day = moment.date() == opened.date()
    return _Line(
        one_line(line.text, _MOST_CHARACTERS),
        label=f"{moment:%H:%M:%S}  {one_line(line.source, 80)}"
        if same_day
        else f"{moment:%Y-%m-%d %H:%M:%S}  {one_line(line.source, 80)}",
    )


def _advice(advice: Iterable[str]) -> list[_Line]:
    """Return advice as its author laid it out: a line with a command in it is not wrapped."""
    lines: list[_Line] = []
    for text in advice:
        if lines:
            lines.append(_Line("", prose=False))
        for line in text[: 10 * _MOST_CHARACTERS].splitlines():
            indent = "  " if line[:1].isspace() else ""
            command = bool(indent) or re.search(r"\S {2,}\S|`|(?<!\w)'", line) is not None
            lines.append(_Line(indent + _spaced(line), prose=not command, hang="  "))
    return lines


def _spaced(line: str) -> str:
    """Return a line made safe, with two spaces where its author set off a command."""
    return "  ".join(one_line(part, _MOST_CHARACTERS) for part in re.split(r" {2,}", line.strip()))


def _moment(moment: datetime) -> str:
    utc = moment.astimezone(UTC)
    if moment.utcoffset() == utc.utcoffset():
        return f"{utc:%a %Y-%m-%d %H:%M:%S} UTC"
    day = "" if moment.date() == utc.date() else f"{utc:%Y-%m-%d} "
    return f"{moment:%a %Y-%m-%d %H:%M:%S %z} ({day}{utc:%H:%M:%S} UTC)"


def _text(page: _Page) -> str:
    parts = [_wrapped(line) for line in page.head]
    for title, lines in page.sections:
        parts += ["", title.upper()]
        for line in lines:
            if not line.prose:
                parts.append(f"  {line.text}".rstrip())
            elif line.label and len(both := f"  {line.label}  {line.text}") <= WIDTH:
                parts.append(both)
            elif line.label:
                parts += [_wrapped(line.label, "  "), _wrapped(line.text, "      ", "      ")]
            else:
                parts.append(_wrapped(line.text, "  ", line.hang))
    parts += ["", "INCIDENT", *(_wrapped(line, "  ", "  ") for line in page.foot)]
    return "\n".join(parts) + "\n"


def _wrapped(text: str, first: str = "", others: str = "") -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


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
