"""Render the mail of an incident, as text and HTML, readable for an administrator at 3 a.m.

Pure.

Source: RFC 5322 (format, threads), RFC 2045 to 2047 (MIME, 7-bit headers and text), RFC 3834
(Auto-Submitted).
"""

from __future__ import annotations

import html
import re
import sys
from dataclasses import field, replace
from datetime import datetime, timedelta, tzinfo
from email.message import EmailMessage
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.quantity import duration, is_command
from iowarden.daemon.clock import local_zone
from iowarden.daemon.notify.mail_format import (
    POLICY,
    WIDE,
    WIDTH,
    identifier,
    middle,
    token,
    with_utc,
    wrapped,
)
from iowarden.daemon.sanitize import ELLIPSIS, one_line, shorten
from iowarden.rules.notice import ENDS, RECOVERIES, Measurement, Reason
from iowarden.rules.notices.courses import CELL_SECONDS, CELLS
from iowarden.rules.notices.titles import LAST_KNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iowarden.daemon.config.schema import Config
    from iowarden.rules.notice import Course, Evidence, Notice

_BRIEF_HOST = 11
"""Characters of a name of a host that are enough to recognize it."""
_MIN_SUMMARY_CHARACTERS = 8
"""A summary shortened to fewer characters is not useful: it is left out."""
_MAX_NAME = 256
_TENTHS_SECONDS = 10.0
"""What lasted longer is in whole seconds."""
"""Characters of what a machine delivers: a name, a line of a log, a value."""
_MAX_SENTENCE = 500
"""Characters of a sentence that was made of such names."""
_MAX_CHARACTERS = 2000
"""Characters of a rule's own text."""
_MAX_MEANING_LINES = 6
"""Lines of meaning before the advice, which must begin on the first screen; the others follow."""
_ADVICE = "What to do"
_STATES = {
    Reason.OPENED: ("", "", ""),
    Reason.ESCALATED: ("ESCALATED", "", ""),
    Reason.REOPENED: ("REOPENED", "REOPENED", ""),
    Reason.DATA_UNAVAILABLE: ("DATA UNAVAILABLE", "DATA UNAVAILABLE", "UNAVAILABLE"),
    Reason.RESOLVED: ("resolved", "", ""),
    Reason.REMINDER: ("REMINDER", "REMINDER", ""),
    Reason.REBUILT: ("REBUILT", "REBUILT", "REBUILT"),
    Reason.NOT_REPAIRED: ("OVER, NOT REPAIRED",) * 3,
    Reason.INITIAL: ("INITIAL REPORT",) * 3,
    Reason.DIGEST: ("DIGEST",) * 3,
    Reason.TEST: ("", "", ""),
}
"""The words of a subject for each reason: in full, in fewer words, and in as few as possible."""


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

    A resolved incident has '[OK]' in place of its severity, and how long it took. The object's full
    name is removed from the summary, so that less of the summary is cut off; a problem of the whole
    host has no object. Where the summary's first clause does not fit, other words are left out,
    first of the state ('[CRITICAL]' shows that it escalated, '[OK]' that it is resolved), then the
    host's domain, at last the middle of its name, which the body has. Where two objects are the
    title it is the domain first: that it is more than the one of the mail before is the escalation.
    """
    state, name = _state(notice), one_line(host, _MAX_NAME)
    alone = _without_domain(name)
    _, brief, least = _STATES[notice.reason]
    if notice.reason is Reason.REOPENED and notice.times:
        brief = "FLAPPING"
    several = ((state, alone),) if _SEVERAL.search(notice.object) else ()
    for words, where in ((state, name), *several, (brief, name), (brief, alone), (least, alone)):
        text, is_whole = _subject(notice, where, words)
        if is_whole:
            return text
    # Nothing else says which object has which fault, and it is sent once.
    if notice.reason is Reason.INITIAL:
        return _subject(notice, alone, state, WIDE)[0]
    # The body has the host's name; what is wrong is read first.
    shorter, is_whole = _subject(notice, middle(alone, _BRIEF_HOST), least)
    return shorter if is_whole else text


def _subject(notice: Notice, host: str, state: str, width: int = WIDTH) -> tuple[str, bool]:
    """Return a subject, and whether it has the first clause of the summary."""
    severity = _severity(notice)
    full, short = one_line(notice.object, _MAX_NAME), _short_object(notice)
    summary = one_line(notice.summary.removeprefix(LAST_KNOWN), _MAX_NAME)
    summary = one_line(summary.replace(f"{full} ", "", 1 if full != short else 0), width * 2)
    summary = _NAMED.sub(lambda found: "" if found[1] in full else found[0], summary)
    named = full != "host"
    where = short if named else ""
    alone = not state and notice.reason is not Reason.RESOLVED
    name = one_line(host, _MAX_NAME) or "localhost"
    left = width - len(f"[{severity}] {name}: ")
    if where and alone and summary.startswith(f"{where} ") and _shortened(summary, left)[1]:
        where, named = "", False  # the summary begins with it
    elif where:
        own = re.escape(where)
        summary = re.sub(rf"^(was: )?{own} (?:is |(?=\w))", r"\1", summary)
        summary = re.sub(
            rf" (?:in|of|on)(?: array| thin pool)? {own}(?=[ ,;:]|$)", "", summary, count=1
        )
    frame = len(f"[{severity}] : : ") + len(state)
    least = min(len(summary) + 2, 34)
    place = max(width - frame - least, min(len(name), 15) + 20)
    name = middle(name, place - min(len(where), 20))
    shown = full if where and len(full) + len(summary) <= width - frame - len(name) - 2 else where
    shown = middle(shown, place - len(name)) or ("?" if named else "")
    head = f"[{severity}] {name}: " + (f"{shown}: " if shown else "") + state
    between = ("; " if notice.reason is Reason.RESOLVED else ": ") if state else ""
    room = width - len(head) - len(between)
    if not summary or room < min(_MIN_SUMMARY_CHARACTERS, len(summary)):
        return (head if state else head.removesuffix(": ")), not summary
    # How many others there are is said, whatever else does not fit.
    more = _MORE.search(summary)
    others = more[0] if more is not None and notice.reason is Reason.INITIAL else ""
    shown, is_whole = _shortened(summary.removesuffix(others), room - len(others))
    return f"{head}{between}{shown}{others}", is_whole


_MORE = re.compile(r"; \d+ more$", re.ASCII)
_SEVERAL = re.compile(r"^(?:\S+ and \S+|\d+ of \d+ members of \S+) \(", re.ASCII)
"""A title of several members of an array: see rules/notices/titles.py."""


def _without_domain(host: str) -> str:
    """Return 'db1' of 'db1.example.com'; an address as it is."""
    return host if re.fullmatch(r"[0-9.]*", host) else host.partition(".")[0]


def _shortened(summary: str, room: int) -> tuple[str, bool]:
    """Return as much of a summary as fits, and whether its first clause is in it.

    Before words are cut off, brackets and articles are left out, as in a headline.
    """
    plain = _BRACKETS.sub("", summary)
    brief = _PATHS.sub(lambda found: middle(found[0], 20), _ARTICLES.sub("", plain))
    for pattern, short in _LOCATIONS:
        brief = pattern.sub(short, brief)
    for text in (summary, plain, brief, _COUNT.sub("", brief)):
        if len(text) <= room:
            return text, True
        ends = (found.start() for found in _CLAUSE.finditer(text) if found.start() <= room)
        if heads := [text[:end] for end in ends if _is_clause(text[:end], text[end])]:
            return heads[-1], True
    words = _UNFINISHED.sub("", brief[: room - len(ELLIPSIS) + 1].rpartition(" ")[0])
    return words + ELLIPSIS if len(words) >= room / 2 else shorten(brief, room), False


def _is_clause(head: str, after: str) -> bool:
    """Whether the beginning of a summary reports something, not only where: 'hp slot 0: ...'."""
    # 'gone and vg-data: 1 of 2 devices failed': the colon is behind the name of the second object.
    clause = (after == ":" and head.partition(" and ")[2]) or head.removeprefix("was: ")
    words = clause.count(" ") + 1
    if _INCOMPLETE.search(clause):
        return False
    least = {":": 3, ";": 1}.get(after, 2)
    numbered = head[-1:].isdigit() and _NAMED.fullmatch(f"{head}: ")
    is_object = after == ":" and _PART.fullmatch(clause)
    return words >= least and not (after == ":" and numbered) and not is_object


_CLAUSE = re.compile(
    r"(?<!\bwas)[,;:] (?![^(]*\))"
    r"| (?=(?:while|which|when|because) |(?:for|since|in the last|in last) \d)"
)
"""Between clauses of a summary, not within brackets or after 'was'."""
_INCOMPLETE = re.compile(r" (?:by|of|on|in|to|for|from|with)$")
"""What a clause does not end with: it is followed by names, as in 'it was used by: md0, /db'."""
_PART = re.compile(
    r"\d+ (?:of \d+ )?(?:disks|multipath maps)|(?:meta)?data of thin pool \S+", re.ASCII
)
"""What only names something: '7 of 7 disks: ...', 'data of thin pool vg-pool-tpool: ...'."""
_BRACKETS = re.compile(r" \([^()]*\)")
_ARTICLES = re.compile(r"\b(?:the|an?|its) (?=\w)")
_COUNT = re.compile(r"^\d+ findings?: ")
_PATHS = re.compile(r"(?<!\S)/\S{20,}")
_LOCATIONS = (
    (re.compile(r"enclosure (\w+) slot (\w+)"), r"slot \1:\2"),
    (re.compile(r"drive group (\w+) span (\w+) row (\w+)"), r"DG \1:\2:\3"),
)
"""In the notation of storcli: 'EID:Slt', 'DG/Arr/Row'."""


_UNFINISHED = re.compile(r"(?: [\d.]+| \(|[,;:])*$")
"""A number without its unit, or punctuation, at the end of words."""


def _severity(notice: Notice) -> str:
    """Return what a subject begins with: good news are never urgent."""
    if notice.reason is Reason.RESOLVED:
        return "OK"
    if notice.reason is Reason.TEST:
        return "TEST"
    return "INFO" if notice.reason in RECOVERIES else notice.severity.name


def _state(notice: Notice) -> str:
    if notice.reason is Reason.REOPENED and notice.times:
        return f"FLAPPING ({notice.times} times)"
    state = _STATES[notice.reason][0]
    if notice.reason is Reason.REOPENED:
        return f"{state} ({_ordinal(notice.recurrences + 1)} time)"
    if notice.reason is Reason.RESOLVED:
        ended = notice.ended_seconds
        return "" if ended is None else f"{state} after {_lasted(notice, ended)}"
    return state


def _lasted(notice: Notice, until: float) -> str:
    lasted = max(until - notice.opened_seconds, 0.0)
    return duration(round(lasted, 1) if lasted < _TENTHS_SECONDS else round(lasted))


def _ordinal(number: int) -> str:
    last = number % 10 if number % 100 // 10 != 1 else 0
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"


_NAMED = re.compile(r"(?:^|(?<=was: ))([a-z]\w*(?: \w+){0,2}): ", re.ASCII)
"""A controller at the beginning of a summary: 'megaraid c0: the battery ...'."""


def _short_object(notice: Notice) -> str:
    """Return the name without what follows in parentheses: 'sda (ACME SLOW-HDD)' is 'sda'."""
    return one_line(notice.object.partition(" (")[0], _MAX_NAME)


def _referred(reference: str, host: str) -> str:
    incident, _, number = reference.rpartition(".")
    return identifier(incident, token(number), host)


# --- the body: sections of lines, then as text and as HTML


@dataclass(slots=True)
class _Page:
    """Content of the body, for both its forms."""

    head: list[str]
    meaning: list[str] = field(default_factory=list)
    sections: list[tuple[str, list[_Line]]] = field(default_factory=list)
    foot: list[str] = field(default_factory=list)
    foot_title: str = "INCIDENT"


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a section: only prose is wrapped."""

    text: str
    prose: bool = True
    hang: str = "    "
    label: str = ""
    course: Course | None = None


def _page(notice: Notice, host: str, zone: tzinfo) -> _Page:
    opened = datetime.fromtimestamp(notice.opened_seconds, zone)
    written = datetime.fromtimestamp(notice.realtime_seconds, zone)
    state, name = _state(notice), token(notice.incident)
    lasted = _lasted(notice, notice.realtime_seconds)
    when = f"Since {with_utc(opened)}, {lasted} before this mail."
    if notice.reason is Reason.INITIAL:
        when = f"State as of {with_utc(written)}."
    elif notice.ended_seconds is not None:
        ended = datetime.fromtimestamp(notice.ended_seconds, zone)
        whole = _lasted(notice, notice.ended_seconds)
        when = f"Resolved after {whole}: from {with_utc(opened)} to {with_utc(ended)}."
    summary = one_line(notice.summary, _MAX_NAME)
    what = [one_line(notice.object, _MAX_NAME)] if notice.object != "host" else []
    head = ": ".join((f"{_severity(notice)} on {one_line(host, _MAX_NAME)}", *what))
    head += f" - {state}" if state and notice.ended_seconds is None else ""
    page = _Page([head, summary or "no summary", when])

    def add(title: str, lines: Iterable[_Line]) -> None:
        if found := list(lines):
            page.sections.append((title, found))

    happened = _prose(_once(notice.sentences, notice.summary), _MAX_SENTENCE)
    meaning = [one_line(text, _MAX_CHARACTERS) for text in notice.meaning]
    page.meaning, rest = _first_screen(meaning)
    listing = notice.reason in {Reason.INITIAL, Reason.DIGEST}
    if listing:
        add("What happened", happened)
    add(_ADVICE, _advice(notice.advice or _without_advice(notice, name)))
    add("What it means", _prose(rest, _MAX_CHARACTERS))
    if not listing:
        add("What happened", happened)
    add("Evidence", _evidence(notice.evidence, opened, written))
    if notice.reason not in (Reason.RESOLVED, Reason.INITIAL, Reason.DIGEST):
        add("What is affected", _prose(notice.affected, _MAX_SENTENCE))
    add("What is not known", _prose(notice.unknown, _MAX_SENTENCE))
    page.foot = _foot(notice, name, with_utc(written))
    if notice.reason is Reason.TEST:
        page.foot_title = "TEST"
    return page


def _foot(notice: Notice, name: str, written: str) -> list[str]:
    """Return what a mail is about, and the commands for that; of a test there is no incident."""
    if notice.reason is Reason.TEST:
        return [f"test mail, written {written}"]
    listing = notice.reason in {Reason.INITIAL, Reason.DIGEST}
    return [
        f"{notice.severity.name.lower()} incident {name}, mail {notice.number}, written {written}",
        *([] if listing else _commands(notice, name)),
        f"journalctl IOWARDEN_INCIDENT={name}",
    ]


def _commands(notice: Notice, name: str) -> list[str]:
    """Return how to see more of an incident, and to be sent no mail until it escalates."""
    acknowledge = "" if notice.reason in ENDS else f"iowarden ack {name}"
    return [line for line in (f"iowarden incident show {name}", acknowledge, notice.page) if line]


def _once(sentences: Sequence[str], summary: str) -> list[str]:
    """Return sentences; the first that ends with the summary, which is above, is without it."""
    lines = list(sentences)
    for at, line in enumerate(lines):
        for text in (summary, summary.removeprefix("was: ")):
            head, found, tail = line.partition(f": {text}")
            if text and found and (not tail or tail.startswith(" (")):
                lines[at] = head + tail
                return lines
    return lines


def _first_screen(meaning: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the sentences of meaning before the advice, and those after it."""
    first: list[str] = []
    if not meaning:
        return first, []
    left = re.split(r"(?<=[.:;]) (?=[A-Z])", meaning[0])
    shown = left.pop(0)
    while left and wrapped(f"{shown} {left[0]}").count("\n") < _MAX_MEANING_LINES:
        shown += f" {left.pop(0)}"
    if wrapped(shown).count("\n") >= 2 * _MAX_MEANING_LINES:
        return [], list(meaning)
    return [shown], [each for each in (" ".join(left), *meaning[1:]) if each]


def _without_advice(notice: Notice, name: str) -> tuple[str, ...]:
    """Return what to do if no advice is new."""
    show = f"  iowarden incident show {name}"
    if notice.reason in {Reason.INITIAL, Reason.DIGEST}:
        return ()
    if notice.reason is Reason.RESOLVED:
        return (f"Nothing now. To find the cause, its alerts and events:\n{show}",)
    if notice.reason is Reason.DATA_UNAVAILABLE:
        why = "Which data sources cannot be read, and why:\n  iowarden status"
        return (f"{why}\nThe problem as it was last known:\n{show}",)
    if notice.number > 1:
        still = "The advice of the earlier mails of this incident still applies."
        return (f"{still} Its alerts and events, as they are now:\n{show}",)
    return (f"Its alerts and events, as they are now:\n{show}",)


def _prose(lines: Iterable[str], max_characters: int) -> list[_Line]:
    return [_Line(one_line(line, max_characters)) for line in lines]


def _evidence(evidence: Sequence[Evidence], opened: datetime, written: datetime) -> list[_Line]:
    lines = [_observation(line, opened) for line in evidence]
    with_course = [at for at, line in enumerate(lines) if line.course is not None]
    for at in with_course[_MAX_COURSES:]:
        lines[at] = replace(lines[at], course=None)
    courses = [line.course for line in lines if line.course is not None]
    if courses:
        at = sum(isinstance(line, Measurement) for line in evidence)
        lines.insert(at, _Line(_legend(courses, written)))
    return lines


def _legend(courses: Sequence[Course], written: datetime) -> str:
    """Return what the bars show; after a start, since when there are any."""
    gap = f"; '{_GAP}': not measured" if any(None in each.cells for each in courses) else ""
    known = [at for each in courses for at, value in enumerate(each.cells) if value is not None]
    first = min(known, default=0)
    began = written - timedelta(seconds=(CELLS - 1 - first) * CELL_SECONDS)
    period = f"since {began:%H:%M:%S}" if first else "the last 15 minutes"
    return f"Bars: {period}, every 30 s, right is now{gap}."


def _observation(line: Evidence, opened: datetime) -> _Line:
    text = one_line(line.text, _MAX_NAME)
    if isinstance(line, Measurement):
        if line.before is not None:
            then = _moment(line.before.realtime_seconds, opened)
            text += f"; {one_line(line.before.text, _MAX_NAME)} at {then}"
        return _Line(text, course=line.course)
    if "\n" not in line.text and line.text.startswith(_COMMAND):  # a path is never cut
        text = one_line(line.text)
    source = one_line(line.source, 80)
    return _Line(text, label=f"{_moment(line.realtime_seconds, opened)}  {source}")


def _moment(realtime_seconds: float, opened: datetime) -> str:
    moment = datetime.fromtimestamp(realtime_seconds, opened.tzinfo)
    same_day = moment.date() == opened.date()
    return f"{moment:%H:%M:%S}" if same_day else f"{moment:%Y-%m-%d %H:%M:%S}"


def _advice(advice: Iterable[str]) -> list[_Line]:
    """Return advice in its original layout: a line that contains a command is not wrapped."""
    lines: list[_Line] = []
    for each in advice:
        if lines:
            lines.append(_Line("", prose=False))
        for line in each[: 10 * _MAX_CHARACTERS].splitlines():
            indent = "  " if line[:1].isspace() else ""
            command = is_command(line)
            text = indent + _spaced(line)
            lines.append(_Line(text, prose=not command, hang="  "))
    return lines


def _spaced(line: str) -> str:
    """Return a sanitised line; runs of two or more spaces become two, they set off a command."""
    return "  ".join(one_line(part, _MAX_CHARACTERS) for part in re.split(r" {2,}", line.strip()))


# --- text


_BARS, _GAP = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588", "\u00b7"
_COMMAND = "iowarden replay /"


def _levels(course: Course, steps: int) -> list[int | None]:
    """Return the height of each cell, from 0 to `steps`: the highest value, or the threshold."""
    known = [value for value in course.cells if value is not None]
    top, bottom = max((*known, course.threshold or 0.0)), min((*known, 0.0))
    scale = steps / (top - bottom) if top > bottom else 0.0
    return [None if value is None else round((value - bottom) * scale) for value in course.cells]


def _range(course: Course) -> str:
    return one_line(f"least {course.minimum}, most {course.maximum}", _MAX_NAME)


def _bars(course: Course) -> str:
    bars = (_GAP if level is None else _BARS[level] for level in _levels(course, len(_BARS) - 1))
    return f"{''.join(bars)}  {_range(course)}"


def _text(page: _Page) -> str:
    parts = [wrapped(line) for line in page.head]
    for text in page.meaning:
        parts += ["", wrapped(text)]
    for title, lines in page.sections:
        parts += ["", title.upper()]
        for line in lines:
            if not line.prose:
                parts.append(f"  {line.text}".rstrip())
            elif line.label and len(both := f"  {line.label}  {line.text}") <= WIDTH:
                parts.append(both)
            elif line.label:
                parts += [wrapped(line.label, "  "), _indented(line.text)]
            else:
                parts.append(wrapped(line.text, "  ", line.hang))
            if line.course is not None:
                parts.append(f"    {_bars(line.course)}")
    parts += ["", page.foot_title, *(wrapped(line, "  ", "  ") for line in page.foot)]
    return "\n".join(parts) + "\n"


def _indented(text: str) -> str:
    """Return a line of evidence, indented; a command is not wrapped."""
    indent = " " * 6
    return indent + text if text.startswith(_COMMAND) else wrapped(text, indent, indent)


# --- HTML: no image, no style sheet, no colour of text without its background

_FONT = "font:15px/1.45 sans-serif;max-width:46em"
_CODE = "font:13px/1.5 monospace;white-space:pre-wrap;overflow-wrap:anywhere"
_HEAD = (
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="color-scheme" content="light dark">'
    '<meta name="viewport" content="width=device-width"><title>iowarden</title></head>'
)
_COLOURS = {
    "OK": ("#1b5e20", "#ffffff"),
    **dict.fromkeys(("INFO", "TEST"), ("#37474f", "#ffffff")),
    "NOTICE": ("#0d47a1", "#ffffff"),
    "WARNING": ("#ffb300", "#000000"),
    "CRITICAL": ("#b71c1c", "#ffffff"),
}
"""Background and text of a severity: contrast at least 7 to 1, without the other colours."""
_BAR_COLOUR, _MAX_BAR_PIXELS, _BAR_WIDTH = "#5c7cbb", 32, 8


_MAX_HTML_BYTES = 80_000
"""Gmail cuts a mail at 102 kB."""
_MAX_COURSES = 6
_WHOLE = (sys.maxsize, sys.maxsize)
_ABRIDGED = (_WHOLE, (8, 10_000), (8, 400), (8, 160), (8, 80), (4, 40), (2, 20))
"""Lines of a section, and of advice, of a page that would be too long, as many as fit."""


def _html(page: _Page) -> str:
    """Return the page; if too long, without courses, the rest of lists, the end of the advice."""
    text = _html_page(page)
    for max_lines, max_advice in _ABRIDGED:
        if len(text.encode()) <= _MAX_HTML_BYTES:
            break
        sections = [
            (title, _abridged(lines, max_advice if title == _ADVICE else max_lines))
            for title, lines in page.sections
        ]
        text = _html_page(replace(page, sections=sections))
    return text


def _abridged(lines: list[_Line], max_lines: int) -> list[_Line]:
    """Return the first lines of a section, without courses, and how many more there are."""
    shown = max_lines
    while 0 < shown < len(lines) and not lines[shown].prose:
        shown -= 1  # a sentence stays with its commands
    abridged = [replace(line, course=None) for line in lines[:shown]]
    if (rest := len(lines) - shown) > 0:
        abridged.append(_Line(f"... {rest} more lines, which the text part of this mail has"))
    return abridged


def _html_page(page: _Page) -> str:
    first, *rest = page.head
    severity, _, where = first.partition(" ")
    back, front = _COLOURS[severity]
    badge = (
        f'<span style="background-color:{back};color:{front};padding:1px 6px">'
        f"<strong>{severity}</strong></span>"
    )
    summary, *others = (html.escape(line) for line in rest)
    parts = [
        _HEAD,
        f'<body style="{_FONT}"><p>{badge} <strong>{html.escape(where)}</strong><br>',
        f'<strong style="font-size:18px">{summary}</strong><br>',
        "<br>\n".join(others) + "</p>",
    ]
    parts += [f"<p>{html.escape(text)}</p>" for text in page.meaning]
    for title, lines in page.sections:
        parts.append(f'<h3 style="margin:1.2em 0 .3em;font-size:15px">{title}</h3>')
        parts += [_html_line(line) for line in lines]
    footer, *commands = (html.escape(line) for line in page.foot)
    code = "<br>\n".join(f'<code style="{_CODE}">{command}</code>' for command in commands)
    parts.append(
        f'<p style="margin-top:1.6em;font-size:13px">{footer}<br>\n{code}</p></body></html>'
    )
    return "\n".join(parts) + "\n"


def _html_line(line: _Line) -> str:
    text = html.escape(line.text)
    if line.label:
        label = html.escape(line.label)
        return (
            f'<p style="margin:.2em 0 .2em 1em"><small>{label}</small><br>'
            f'<code style="{_CODE}">{text}</code></p>'
        )
    if not line.prose:
        command = f'<code style="{_CODE}">{text}</code>' if text else "&nbsp;"
        return f'<p style="margin:.1em 0 .1em 1em">{command}</p>'
    course = "" if line.course is None else _sparkline(line.course)
    text = _OPTION.sub(r'<span style="white-space:nowrap">\g<0></span>', text)
    return f'<p style="margin:.2em 0 .2em 1em">{text}</p>{course}'


_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*", re.ASCII)
"""An option of a command in a sentence, such as '--fail': a phone breaks it after its hyphens."""


def _sparkline(course: Course) -> str:
    """Return the course as a table: each cell has a bar, one not measured has a dot."""
    cells = []
    for level in _levels(course, _MAX_BAR_PIXELS):
        bar = (
            f'<table cellspacing="0" cellpadding="0"><tr><td bgcolor="{_BAR_COLOUR}"'
            f' width="{_BAR_WIDTH}" height="{max(level, 1)}"></td></tr></table>'
            if level is not None
            else f"<small>{_GAP}</small>"
        )
        cells.append(f'<td width="{_BAR_WIDTH}" valign="bottom">{bar}</td>')
    return (
        '<table cellspacing="1" cellpadding="0" style="margin:0 0 .4em 2em"><tr'
        f' height="{_MAX_BAR_PIXELS}">{"".join(cells)}</tr></table>'
        f'<p style="margin:0 0 .4em 2em"><small>{html.escape(_range(course))}</small></p>'
    )
