"""The text of mails; no device name can become a header."""

import email
import email.policy
import html.parser
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from email.message import EmailMessage
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iowarden.daemon.notify import digest
from iowarden.daemon.notify.mail_format import WIDE, WIDTH
from iowarden.daemon.notify.message import message_id, render, subject
from iowarden.daemon.storage.state_db import OutboxRow
from iowarden.rules.notice import Course, Evidence, Measurement, Notice, Reason
from iowarden.rules.severity import Severity

BERLIN = ZoneInfo("Europe/Berlin")
HOST, SENDER, TO = (
    "db1.example.com",
    "iowarden@db1.example.com",
    ("root@example.com", "ops@example.com"),
)
ADVICE = """\
What the kernel says:  dmesg | grep -i sda | tail -20
Member of a redundant array: take it out, the array goes on without it and without redundancy:
  mdadm /dev/mdN --fail /dev/sda --some-very-long-option=that-nobody-may-break --another-one
"""
NOTICE = Notice(
    incident="8f3a2b1c9d",
    number=1,
    references=(),
    reason=Reason.OPENED,
    severity=Severity.CRITICAL,
    object="sda (ACME SLOW-HDD, serial SLOW1)",
    summary="sda has answered nothing for 34 s with 12 requests in flight",
    opened_seconds=1795266000.0,
    realtime_seconds=1795266034.0,
    recurrences=0,
    sentences=("critical DeviceHang, since 34 s ago: sda has answered nothing for 34 s",),
    evidence=(
        Measurement(
            1795266034.0,
            "iowarden_device_hang_seconds",
            "no request completed for: 34 s, threshold 30 s",
            Evidence(1795266020.0, "iowarden_device_hang_seconds", "20 s"),
            Course((*[None] * 27, 0.0, 20.0, 34.0), "0 s", "34 s", 30.0),
        ),
        Evidence(
            1795179604.5, "kernel", "sd 0:0:0:0: [sda] tag#12 FAILED Result: hostbyte=DID_TIME_OUT"
        ),
    ),
    affected=("md0 (raid1) is built on sda",),
    advice=(ADVICE,),
    unknown=("Whether the disk, its cable or its controller hangs is not known.",),
    meaning=("Programs that read or write there wait and cannot be killed.",),
)


def parsed(notice: Notice, host: str = HOST) -> EmailMessage:
    """Return what an independent parser reads from the sent bytes."""
    data = render(notice, host, SENDER, TO, zone=BERLIN).as_bytes()
    assert data.isascii()
    assert all(len(line) <= 998 for line in data.split(b"\r\n")), "RFC 5322, section 2.1.1"
    assert b"\n" not in data.replace(b"\r\n", b"")
    assert b"\r" not in data.replace(b"\r\n", b"")
    message = email.message_from_bytes(data, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    return message


def body(notice: Notice, kind: str = "plain") -> str:
    """Return the text or the HTML of a mail."""
    part = parsed(notice).get_body((kind,))
    assert part is not None
    content = part.get_content()
    assert isinstance(content, str)
    return content


def test_three_lines_report_it_all() -> None:
    """Severity, object, summary, since when: in local time and in UTC."""
    assert body(NOTICE).splitlines()[:4] == [
        "CRITICAL on db1.example.com: sda (ACME SLOW-HDD, serial SLOW1)",
        "sda has answered nothing for 34 s with 12 requests in flight",
        "Since Sat 2026-11-21 14:00:00 +0100 (13:00:00 UTC), 34 s before this mail.",
        "",
    ]


def test_the_whole_text_reads_well() -> None:
    """What it means, what to do, then the rest: wrapped at 78 columns, commands never."""
    assert body(NOTICE).splitlines()[4:] == [
        "Programs that read or write there wait and cannot be killed.",
        "",
        "WHAT TO DO",
        "  What the kernel says:  dmesg | grep -i sda | tail -20",
        "  Member of a redundant array: take it out, the array goes on without it and",
        "  without redundancy:",
        "  " + ADVICE.splitlines()[2],
        "",
        "WHAT HAPPENED",
        "  critical DeviceHang, since 34 s ago: sda has answered nothing for 34 s",
        "",
        "EVIDENCE",
        "  no request completed for: 34 s, threshold 30 s; 20 s at 14:00:20",
        "    " + "\u00b7" * 27 + "\u2581\u2585\u2588  least 0 s, most 34 s",
        "  Bars: since 13:59:34, every 30 s, right is now; '\u00b7': not measured.",
        "  2026-11-20 14:00:04  kernel",
        "      sd 0:0:0:0: [sda] tag#12 FAILED Result: hostbyte=DID_TIME_OUT",
        "",
        "WHAT IS AFFECTED",
        "  md0 (raid1) is built on sda",
        "",
        "WHAT IS NOT KNOWN",
        "  Whether the disk, its cable or its controller hangs is not known.",
        "",
        "INCIDENT",
        "  critical incident 8f3a2b1c9d, mail 1, written Sat 2026-11-21 14:00:34 +0100",
        "  (13:00:34 UTC)",
        "  iowarden incident show 8f3a2b1c9d",
        "  iowarden ack 8f3a2b1c9d",
        "  journalctl IOWARDEN_INCIDENT=8f3a2b1c9d",
    ]


def test_a_long_meaning_leaves_room_for_the_advice() -> None:
    """What to do begins on the first screen of 24 lines, whatever there is to explain."""
    sentence = "The drive has replaced sectors that it could not read, and more may follow. "
    long = replace(NOTICE, meaning=(sentence * 12, "It may fail."))
    lines = body(long).splitlines()
    assert lines.index("WHAT TO DO") < 14
    assert lines[4].startswith("The drive has replaced")
    rest = lines[lines.index("WHAT IT MEANS") :]
    assert "  It may fail." in rest
    assert "".join(lines).count("The drive has replaced") == 12


def test_what_the_second_line_reports_is_not_repeated() -> None:
    """The name of the alert and since when it fires stay: a silence needs them."""
    again = replace(NOTICE, sentences=(f"critical DeviceHang, since 34 s ago: {NOTICE.summary}",))
    lines = body(again).splitlines()
    assert lines[lines.index("WHAT HAPPENED") + 1] == "  critical DeviceHang, since 34 s ago"
    assert body(again).count("with 12 requests") == 1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"reason": Reason.ESCALATED, "number": 2}, "The advice of the earlier mails"),
        ({"reason": Reason.RESOLVED, "number": 3}, "Nothing now. To find the cause"),
        ({"reason": Reason.DATA_UNAVAILABLE, "number": 2}, "Which data sources cannot be read"),
        ({}, "Its alerts and events, as they are now:"),
    ],
)
def test_a_mail_without_new_advice_has_a_next_step(
    changes: dict[str, object], expected: str
) -> None:
    """Advice is given once, but whoever is woken may not have the first mail."""
    again = replace(NOTICE, advice=(), **changes)  # type: ignore[arg-type]
    lines = body(again).splitlines()
    at = lines.index("WHAT TO DO")
    assert at < 23
    assert lines[at + 1].strip().startswith(expected)
    assert "    iowarden incident show 8f3a2b1c9d" in lines


@pytest.mark.parametrize(
    ("reason", "is_offered"),
    [
        (Reason.OPENED, True),
        (Reason.REBUILT, True),
        (Reason.RESOLVED, False),
        (Reason.NOT_REPAIRED, False),
    ],
)
def test_what_goes_on_can_be_acknowledged_by_its_mail(reason: Reason, *, is_offered: bool) -> None:
    """Of a rebuilt array the disk that failed is still there; of what is over nothing is."""
    lines = body(replace(NOTICE, reason=reason)).splitlines()
    assert ("  iowarden ack 8f3a2b1c9d" in lines) is is_offered
    assert "  iowarden incident show 8f3a2b1c9d" in lines


def test_a_resolved_mail_reports_how_long_it_took() -> None:
    """In the subject and in the third line, with begin and end."""
    over = replace(
        NOTICE,
        reason=Reason.RESOLVED,
        summary="was: no request completed for 34 s",
        ended_seconds=NOTICE.opened_seconds + 95,
        realtime_seconds=NOTICE.opened_seconds + 160,
    )
    assert subject(over, HOST) == ("[OK] db1.example.com: sda: was: no request completed for 34 s")
    assert body(over).splitlines()[:3] == [
        "OK on db1.example.com: sda (ACME SLOW-HDD, serial SLOW1)",
        "was: no request completed for 34 s",
        "Resolved after 1 min 35 s: from Sat 2026-11-21 14:00:00 +0100 (13:00:00 UTC)",
    ]


def test_a_value_that_was_not_measured_is_a_gap() -> None:
    """Not measured is not zero: text and HTML differ between them."""
    cells = (None,) * 28 + (0.0, 4.0)
    course = Measurement(NOTICE.realtime_seconds, "x", "tasks: 4", course=Course(cells, "0", "4"))
    notice = replace(NOTICE, evidence=(course,))
    assert "    " + "\u00b7" * 28 + "\u2581\u2588  least 0, most 4" in body(notice).splitlines()
    page = body(notice, "html")
    assert page.count("bgcolor=") == 2
    assert page.count("<small>\u00b7</small>") == 28
    whole = replace(course, course=Course((1.0,) * 29 + (4.0,), "1", "4"))
    assert "not measured" not in body(replace(NOTICE, evidence=(whole,)))


@pytest.mark.parametrize(
    ("cells", "threshold", "expected"),
    [
        ((0.0, 50.0, 100.0), 200.0, "\u2581\u2583\u2585"),
        ((0.0, 50.0, 100.0), None, "\u2581\u2585\u2588"),
        ((-10.0, 0.0), None, "\u2581\u2588"),
        ((5.0, 5.0), None, "\u2588\u2588"),
        ((0.0, 0.0), None, "\u2581\u2581"),
    ],
)
def test_a_course_is_drawn_against_its_threshold(
    cells: tuple[float, ...], threshold: float | None, expected: str
) -> None:
    """Half as high as the threshold is half as high in the picture."""
    course = Course(cells, "a", "b", threshold)
    notice = replace(NOTICE, evidence=(Measurement(0.0, "x", "tasks", course=course),))
    assert f"    {expected}  least a, most b" in body(notice).splitlines()


def test_a_mail_about_the_whole_host_reports_nothing_of_what_it_hits() -> None:
    """'Not known' would be misleading."""
    assert "WHAT IS AFFECTED" not in body(replace(NOTICE, affected=()))


def test_a_line_of_10000_characters_is_cut_and_reports_that() -> None:
    """An endless name or log line is cut, the rest of the mail is unchanged."""
    endless = "x" * 10_000
    for field, kept in (
        ("object", 256),
        ("summary", 256),
        ("sentences", 500),
        ("affected", 500),
        ("unknown", 500),
        ("meaning", 2000),
    ):
        value = endless if field in {"object", "summary"} else (endless,)
        words = " ".join(body(replace(NOTICE, **{field: value})).split())  # type: ignore[arg-type]
        assert f"{'x' * kept}... ({10_000 - kept} more characters)" in words, field
        assert "x" * (kept + 1) not in words
    line = Evidence(NOTICE.realtime_seconds, "kernel", endless)
    words = " ".join(body(replace(NOTICE, evidence=(line,))).split())
    assert "x" * 256 + "... (9744 more characters)" in words


def test_the_headers_make_a_thread_that_no_autoresponder_answers() -> None:
    """Message-ID, thread, date, origin: each by its RFC."""
    third = replace(
        NOTICE, number=3, references=("8f3a2b1c9d.1", "77aa00bb11.2"), reason=Reason.ESCALATED
    )
    message = parsed(third)
    assert (
        message["Message-ID"]
        == "<iowarden.8f3a2b1c9d.3@db1.example.com>"
        == message_id(third, HOST)
    )
    assert message["In-Reply-To"] == "<iowarden.8f3a2b1c9d.1@db1.example.com>"
    assert message["References"].split() == [
        "<iowarden.8f3a2b1c9d.1@db1.example.com>",
        "<iowarden.77aa00bb11.2@db1.example.com>",
    ]
    assert message["Date"] == "Sat, 21 Nov 2026 14:00:34 +0100"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["X-Iowarden-Incident"] == "8f3a2b1c9d"
    assert message["X-Iowarden-Severity"] == "critical"
    assert (message["From"], message["To"]) == (SENDER, ", ".join(TO))
    assert message.get_content_type() == "multipart/alternative"
    assert parsed(NOTICE)["In-Reply-To"] is None


def test_a_repeat_is_the_same_to_the_byte() -> None:
    """After a kill the mail is rendered or read again: a server may recognize its Message-ID."""
    assert (
        render(NOTICE, HOST, SENDER, TO).as_bytes() == render(NOTICE, HOST, SENDER, TO).as_bytes()
    )


@pytest.mark.parametrize(
    ("reason", "recurrences", "expected"),
    [
        (Reason.OPENED, 0, "[CRITICAL] db1.example.com: sda is slow"),
        (Reason.ESCALATED, 0, "[CRITICAL] db1.example.com: sda: ESCALATED: slow"),
        (
            Reason.DATA_UNAVAILABLE,
            0,
            "[CRITICAL] db1.example.com: sda: DATA UNAVAILABLE: slow",
        ),
        (Reason.RESOLVED, 0, "[OK] db1.example.com: sda: slow"),
        (Reason.REMINDER, 0, "[CRITICAL] db1.example.com: sda: REMINDER: slow"),
        (Reason.REOPENED, 1, "[CRITICAL] db1.example.com: sda: REOPENED (2nd time): slow"),
        (Reason.REOPENED, 10, "[CRITICAL] db1.example.com: sda: REOPENED (11th time): slow"),
        (Reason.REOPENED, 22, "[CRITICAL] db1.example.com: sda: REOPENED (23rd time): slow"),
        # Good news are never critical, though another disk of the array still is.
        (Reason.REBUILT, 0, "[INFO] db1.example.com: sda: REBUILT: slow"),
        (Reason.NOT_REPAIRED, 0, "[INFO] db1.example.com: sda: OVER, NOT REPAIRED: slow"),
    ],
)
def test_the_subject_reports_severity_place_and_state(
    reason: Reason, recurrences: int, expected: str
) -> None:
    """What a telephone shows before the mail is opened."""
    short = replace(
        NOTICE, object="sda", summary="sda is slow", reason=reason, recurrences=recurrences
    )
    assert subject(short, HOST) == expected


def test_a_subject_reports_what_happened_and_not_twice_to_what() -> None:
    """A disk vanished; on a telephone often only the subject is read."""
    gone = "sda (SIMULATED HDD, serial S-1234567)"
    told = replace(
        NOTICE, reason=Reason.ESCALATED, object=gone, summary=f"{gone} has vanished; on it: md0"
    )
    assert subject(told, HOST).endswith(": sda: ESCALATED: has vanished; on it: md0")
    over = replace(told, reason=Reason.RESOLVED, summary=f"was: {told.summary}")
    assert subject(over, HOST).endswith(": sda: was: has vanished; on it: md0")


@pytest.mark.parametrize(
    ("waits", "host", "shown"),
    [
        ("postgres (pid 4711) waits for a disk,", HOST, "postgres (pid 4711) waits for a disk"),
        (
            "postgres (pid 4711) waits for the journal of its file system,",
            HOST,
            "postgres waits for the journal of its file system",
        ),
        (
            "postgres (pid 4711) and 1 more wait for the journal of its file system:",
            "db1",
            "postgres and 1 more wait for the journal of its file system",
        ),
    ],
)
def test_a_subject_about_a_hung_task_names_it_and_what_it_waits_for(
    waits: str, host: str, shown: str
) -> None:
    """Where the words do not fit, how long it has been blocked is left to the body."""
    told = replace(NOTICE, object="host", summary=f"{waits} blocked for over 2 min")
    assert subject(told, HOST) == f"[CRITICAL] {host}: {shown}"


def test_a_subject_ends_with_a_whole_word() -> None:
    """'runs with 1 membe...' is no sentence, and 'for 3...' may be 3 s or 34 min."""
    told = replace(
        NOTICE, object="sdb", summary="SMART data of this disk could not be read since 16 min 2 s"
    )
    assert subject(told, HOST) == (
        "[CRITICAL] db1.example.com: sdb: SMART data of this disk could not be read"
    )
    endless = replace(told, summary="sdb " + "x" * 100)
    assert subject(endless, HOST).endswith("xx...")


def test_a_subject_names_a_directory_and_a_mount_once() -> None:
    """What is new needs the room."""
    backup = replace(
        NOTICE, object="/srv/dump", summary="no new file in /srv/dump (db1-*) for 1 d 1 h"
    )
    assert subject(backup, HOST) == (
        "[CRITICAL] db1.example.com: /srv/dump: no new file (db1-*) for 1 d 1 h"
    )
    full = replace(
        NOTICE,
        object="/srv",
        reason=Reason.ESCALATED,
        summary="/srv has used 97 % of its inodes",
    )
    assert subject(full, HOST) == (
        "[CRITICAL] db1.example.com: /srv: ESCALATED: has used 97 % of its inodes"
    )


def test_a_subject_does_not_report_the_controller_twice() -> None:
    """Rules' summaries begin with it, because elsewhere they are shown alone."""
    card = replace(
        NOTICE,
        object="megaraid c0 (ACME 9361, host0)",
        summary="megaraid c0: the battery of the write cache is not in order (BBU: Failed)",
    )
    assert subject(card, HOST) == (
        "[CRITICAL] db1: megaraid c0: the battery of the write cache is not in order"
    )
    behind = replace(
        card,
        reason=Reason.RESOLVED,
        object="ACME-4000, serial PD1, enclosure 252 slot 1 of megaraid c0",
        summary="was: megaraid c0: the disk in enclosure 252 slot 1 has failed",
    )
    assert "araid c0: was: disk in slot 252:1" in subject(behind, HOST)
    other = replace(card, summary="hp slot 0: the battery is not in order")
    assert "megaraid c0: hp slot 0: battery is not in order" in subject(other, HOST)


@pytest.mark.parametrize(
    "cause",
    [
        "sdd fills the adapter's queue",
        "a limit of report.service",
        "a program discards the device (blkdiscard, mkfs)",
        "the server does not answer",
        "no connection to its storage",
        "memory is swapped all the time",
    ],
)
def test_a_subject_has_why_programs_are_blocked_before_the_whole_name_of_the_host(
    cause: str,
) -> None:
    """How long they are blocked goes first, then the domain, at last the middle of the name."""
    told = replace(NOTICE, object="sdb", summary=f"programs blocked: {cause}, for 10 s to 12 s")
    said = subject(told, "database-server-7.example.com")
    assert len(said) <= 78
    left_out = r" \(.*\)|\bthe |\ba |\bits "
    assert re.sub(left_out, "", said).endswith(re.sub(left_out, "", cause))


def test_a_long_subject_loses_its_end_first() -> None:
    """Severity, host and object stay; model, serial number and then the state and domain go."""
    assert subject(replace(NOTICE, reason=Reason.ESCALATED), HOST) == (
        "[CRITICAL] db1.example.com: sda: ESCALATED: has answered nothing"
    )
    long = replace(NOTICE, object="disk-" + "x" * 100 + "-end", reason=Reason.REMINDER)
    said = subject(long, "a-host-with-a-very-long-name.in-a-domain.with-a-long-name.example.com")
    assert re.match(r"\[CRITICAL\] a-host.*-name: disk-x.*-end: sda has", said)
    assert len(said) <= 78


NASTY = st.text(st.characters(exclude_categories=()), max_size=120) | st.sampled_from(
    [
        "sda\r\nBcc: victim@example.com",
        "sda\n\nbody",
        "sda\u2028Bcc: x",
        "\udcff\udc80sda",
        "\ud800",
        "=?utf-8?q?Bcc=3A_x?=",
        "\u202egpj.exe",
        "x" * 10_000,
        "y " * 5_000,
        "<script>alert(1)</script>",
        "' onmouseover='x",
        "\x00\x1b[2J\x07",
        "\u00fcml\u00e4ut \U0001f4a3 \u4e2d\u6587",
        "",
        " ",
        ".",
        "a..b",
        "@",
    ]
)
FIXED = {
    "from",
    "to",
    "subject",
    "date",
    "message-id",
    "auto-submitted",
    "x-iowarden-incident",
    "x-iowarden-severity",
    "mime-version",
    "content-type",
}


@given(name=NASTY, text=NASTY, incident=NASTY, host=NASTY, reason=st.sampled_from(Reason))
@example(name="=?", text="? ?=", incident="-", host="-", reason=Reason.REOPENED)
def test_nothing_a_machine_is_called_can_make_a_header(
    name: str, text: str, incident: str, host: str, reason: Reason
) -> None:
    """Line ends, controls, overrides, undecodable bytes, encoded words, 10,000 characters."""
    notice = replace(
        NOTICE,
        incident=incident,
        object=name,
        summary=text,
        reason=reason,
        references=(f"{incident}.1",),
        sentences=(text,),
        evidence=(Evidence(0.0, name, text),),
        affected=(name,),
        advice=(text,),
        unknown=(text,),
    )
    message = parsed(notice, host)
    assert {name.lower() for name in message} == FIXED | {"in-reply-to", "references"}
    assert len(message.keys()) == len(FIXED) + 2
    wanted = subject(notice, host)
    assert message["Subject"] == wanted
    assert len(wanted) <= (WIDE if reason is Reason.INITIAL else WIDTH)
    assert wanted.startswith(("[CRITICAL] ", "[OK] ", "[INFO] ", "[TEST] "))
    assert message["Message-ID"] == message_id(notice, host)
    first = message_id(replace(notice, number=1), host)
    assert (message["In-Reply-To"], message["References"].strip()) == (first, first)
    assert (message["From"], message["To"]) == (SENDER, ", ".join(TO))
    assert not message.defects
    assert [part.get_content_type() for part in message.walk()] == [
        "multipart/alternative",
        "text/plain",
        "text/html",
    ]
    for line in body(notice).splitlines():
        assert line.isprintable()


ATTRIBUTES = frozenset(
    "bgcolor cellpadding cellspacing charset content height lang name style valign width".split()
)


class _Visible(html.parser.HTMLParser):
    """The text of a page, and its tags."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.tags: set[str] = set()
        self.styles: list[str] = []

    def handle_starttag(self, tag: str, attributes: Iterable[tuple[str, str | None]]) -> None:
        """Note a tag, and that it loads nothing."""
        self.tags.add(tag)
        assert {name for name, _ in attributes} <= ATTRIBUTES
        self.styles += [value or "" for name, value in attributes if name == "style"]

    def handle_data(self, data: str) -> None:
        """Note text."""
        self.text.append(data)


def page(text: str) -> _Visible:
    """Return what a page shows."""
    found = _Visible()
    found.feed(text)
    return found


@given(text=NASTY)
def test_the_page_reports_what_the_text_reports_and_nothing_in_it_is_markup(text: str) -> None:
    """A device's name stays text: no tag, no attribute, nothing loaded from elsewhere."""
    notice = replace(
        NOTICE,
        summary=text,
        sentences=(text,),
        evidence=(
            Evidence(0.0, text, text),
            Measurement(0.0, text, text, Evidence(0.0, text, text), Course((0.0, 1.0), text, text)),
        ),
    )
    shown = page(body(notice, "html"))
    known = "html head meta title body p strong br h3 span code small table tr td".split()
    assert shown.tags <= set(known)
    squeezed = "".join("".join(shown.text).split())
    plain = "".join(body(notice).split())
    for line in ("serialSLOW1", "md0(raid1)isbuiltonsda", "journalctlIOWARDEN_INCIDENT=8f3a2b1c9d"):
        assert line in squeezed
        assert line in plain


def test_nothing_of_the_page_is_lost_where_a_mail_program_strips_its_styles() -> None:
    """Gmail drops style sheets and classes, Outlook pictures: every word and figure is text."""
    whole = body(NOTICE, "html")
    lost = re.compile(
        r"<style.*?</style>|<(?:img|svg)[^>]*>|\s(?:class|style)=\"[^\"]*\"|data:|position:",
        re.DOTALL,
    )
    stripped = lost.sub("", whole)
    assert "".join(page(stripped).text) == "".join(page(whole).text)
    assert not re.search(r"<style|class=|data:|<img|<svg|position:", whole)
    shown = "".join("".join(page(stripped).text).split())
    for line in body(NOTICE).splitlines():
        if not set(line) & set("\u2581\u2585\u2588"):
            assert "".join(line.split()).lower() in shown.lower(), line
    assert "least0s,most34s" in shown
    assert stripped.count("bgcolor=") == 3


def test_a_page_is_legible_in_dark_and_in_light_mode() -> None:
    """No text has a colour without its background; the severity is a word as well."""
    for severity in Severity:
        whole = body(replace(NOTICE, severity=severity), "html")
        assert '<meta name="color-scheme" content="light dark">' in whole
        assert f"<strong>{severity.name}</strong>" in whole
        coloured = [style for style in page(whole).styles if re.search(r"(?<!-)color:", style)]
        assert len(coloured) == 1
        assert all("background-color:" in style for style in coloured)


def test_an_option_is_not_broken_after_its_hyphens() -> None:
    """On a phone: 'never take it out with mdadm --' and on the next line 'fail'."""
    whole = body(replace(NOTICE, unknown=("whether mdadm --fail helps",)), "html")
    assert 'mdadm <span style="white-space:nowrap">--fail</span> helps' in whole


def test_the_largest_mail_is_not_cut_by_gmail() -> None:
    """It cuts at 102 kB: 24 measurements with their courses, and 24 lines of a log."""
    course = Course(tuple(float(n) for n in range(30)), "0 s", "29 s", 30.0)
    values = [
        Measurement(0.0, "x", f"{n}" * 256, Evidence(0.0, "x", "y" * 256), course)
        for n in range(24)
    ]
    lines = [Evidence(0.0, "kernel", f"{n} " + "z" * 254) for n in range(24)]
    large = replace(NOTICE, evidence=(*values, *lines), sentences=("s" * 500,) * 24)
    whole = body(large, "html")
    assert len(whole.encode()) < 80_000
    assert whole.count("bgcolor=") == 6 * 30
    hostile = [Evidence(0.0, "kernel", f"{n} " + "&" * 254) for n in range(60)]
    cut = body(replace(large, evidence=(*values, *hostile)), "html")
    assert len(cut.encode()) < 80_000
    assert "mdadm /dev/mdN --fail /dev/sda" in cut
    assert "more lines, which the text part of this mail has" in cut
    advice = tuple(
        f"Finding {n}:\n" + "".join(f"Step {m} of it:\n  cat /sys/block/sd{m}\n" for m in range(20))
        for n in range(40)
    )
    told = replace(large, advice=advice, meaning=("m" * 1900,) * 9, unknown=("u" * 400,) * 50)
    report = body(told, "html")
    assert len(report.encode()) < 80_000
    steps = re.findall(r"Step \d+ of it:|cat /sys/block/sd\d+", report)
    assert len(steps) > 20
    assert steps[-1].startswith("cat")  # no sentence is left without its command
    assert "Finding 39:" in body(told, "plain")


def test_not_even_the_first_mail_reads_anything_from_a_disk() -> None:
    """A module, a codec or the time zone read late from a hung disk would stop the alert."""
    program = """
import sys
from dataclasses import replace
from iowarden.daemon.notify import digest, message
from iowarden.daemon.storage.state_db import OutboxRow
from iowarden.rules.notice import Evidence, Notice, Reason
from iowarden.rules.severity import Severity
def notice(text):
    return Notice("8f", 1, ("8f.1",), Reason.OPENED, Severity.CRITICAL, text, text, 1e9, 1e9, 0,
    (text,),
                  (Evidence(1e9, text, text),), (text,), (text,), (text,))
message.local_zone()
def hook(event, arguments):
    if event in ("open", "import", "os.listdir", "os.scandir"):
        print(event, arguments, file=sys.stderr)
sys.addaudithook(hook)
device_sentence = notice("\\u00fcml\\u00e4ut \\u4e2d " * 30)
data = message.render(device_sentence, "db1", "a@x", ["b@x"]).as_bytes()
row = OutboxRow("<1@db1>", "8f", 1, Severity.CRITICAL, 1e9, ("b@x",), data)
digest.addressees(data)
digest.render([row, replace(row, data=digest.cut(data))])
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    run = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")


def stored(number: int, **changes: object) -> OutboxRow:
    """Return a mail as a row of the outbox."""
    notice = replace(NOTICE, number=number, realtime_seconds=1795266000.0 + 4000 * number)
    notice = replace(notice, **changes)  # type: ignore[arg-type]
    return OutboxRow(
        message_id=message_id(notice, HOST),
        incident=notice.incident,
        number=number,
        severity=notice.severity,
        created_realtime_seconds=notice.realtime_seconds,
        recipients_pending=TO,
        data=render(notice, HOST, SENDER, TO, zone=BERLIN).as_bytes(),
    )


@pytest.mark.parametrize(
    ("summary", "end"),
    [
        ("2 members of md0 have errors in one week (sdb1, sdc1, sdd1, sde1)", "in one week"),
        ("all members are present again; was: array md0 runs without one", "present again"),
        (
            "disappeared; it was used by: a-volume-group-of-a-long-name-root_rimage_1, /srv",
            "appeared",
        ),
    ],
)
def test_a_subject_does_not_end_within_brackets_or_after_was(summary: str, end: str) -> None:
    """'... have errors (sdb1' and '...; was' read as if something were broken."""
    assert subject(replace(NOTICE, summary=summary), "db1.example.com").endswith(end)


def test_a_digest_is_read_by_others_as_what_it_is() -> None:
    """A list in order, then each mail unchanged; a mail without text is only listed."""
    rows = [
        stored(1, severity=Severity.WARNING),
        stored(2, object="sd\u00e4 \u4e2d", summary="has answered nothing"),
        stored(3, severity=Severity.WARNING, reason=Reason.RESOLVED),
    ]
    rows[0] = replace(rows[0], data=digest.cut(rows[0].data))
    data = digest.render(rows, zone=BERLIN)
    assert data == digest.render(rows, zone=BERLIN), "a repeat is to the byte"
    assert data.isascii()
    assert b"\n" not in data.replace(b"\r\n", b"")
    message = email.message_from_bytes(data, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    assert (
        message["Subject"] == "[CRITICAL] db1.example.com: 3 delayed mails since 2026-11-21 15:06"
    )
    assert (message["From"], message["To"]) == (SENDER, ", ".join(TO))
    assert message["Message-ID"] == digest.message_id(rows)
    assert message["Date"].datetime.timestamp() == rows[-1].created_realtime_seconds
    assert not any(part.defects for part in message.walk())
    listed, attached = message.iter_parts()
    assert attached.get_content_type() == "multipart/digest"
    assert [part.get_content_type() for part in attached.iter_parts()] == ["message/rfc822"] * 2
    originals = [part.get_content() for part in attached.iter_parts()]
    assert [o["Message-ID"] for o in originals] == [row.message_id for row in rows[1:]]
    assert all(row.data in data for row in rows[1:])
    assert listed.get_content().splitlines() == [
        "3 mails were not sent one by one: no mail server had accepted them, or they",
        "were too many at once.",
        "The first was written Sat 2026-11-21 15:06:40 +0100 (14:06:40 UTC),",
        "the last Sat 2026-11-21 17:20:00 +0100 (16:20:00 UTC).",
        "They are attached unchanged, oldest first, except 1 whose text was discarded:",
        "the outbox was full.",
        "",
        "2026-11-21 15:06:40  WARNING  incident 8f3a2b1c9d, mail 1  (text discarded)",
        "  [WARNING] db1.example.com: sda has answered nothing",
        "",
        "2026-11-21 16:13:20  CRITICAL  incident 8f3a2b1c9d, mail 2",
        "  [CRITICAL] db1.example.com: sd\u00e4 \u4e2d: has answered nothing",
        "",
        "2026-11-21 17:20:00  WARNING  incident 8f3a2b1c9d, mail 3",
        "  [OK] db1.example.com: sda: has answered nothing",
    ]


def test_a_digest_of_which_only_the_list_is_left_is_a_mail() -> None:
    """Nothing to attach: there is no empty part."""
    rows = [replace(row, data=digest.cut(row.data)) for row in (stored(1), stored(2))]
    message = email.message_from_bytes(
        digest.render(rows, zone=BERLIN), policy=email.policy.default
    )
    assert [part.get_content_type() for part in message.walk()] == ["multipart/mixed", "text/plain"]
    assert not message.defects


def test_a_digest_has_another_name_when_it_holds_something_else() -> None:
    """Otherwise one would be taken for a duplicate of the other."""
    rows = [stored(1), stored(2), stored(3)]
    names = {digest.message_id(rows), digest.message_id(rows[:2]), digest.message_id(rows[1:])}
    assert len(names) == 3


def test_a_mail_that_was_cut_is_still_one() -> None:
    """Its headers stay, its text gives the reason; it is recognized as cut, and not cut again."""
    whole = stored(1).data
    short = digest.cut(whole)
    assert (digest.is_cut(whole), digest.is_cut(short), digest.cut(short)) == (False, True, short)
    assert len(short) < 1024 < len(whole)
    read = email.message_from_bytes(short, policy=email.policy.default)
    for name in ("Subject", "Message-ID", "To", "Date", "X-Iowarden-Severity"):
        assert read[name] == parsed(replace(NOTICE, realtime_seconds=1795270000.0))[name]
    assert "The text of this mail was discarded" in read.get_content()
    assert not read.defects
    assert digest.addressees(short) == TO
