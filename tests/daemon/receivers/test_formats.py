"""Messages in each service's format: complete, within its limits, harmless whatever is in them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.http_receiver import config
from support.json_schema import problems

from iowarden.daemon.config.receivers import ReceiverType
from iowarden.daemon.notify.attempt import OutboundMail
from iowarden.daemon.notify.message import render
from iowarden.daemon.receivers import formats, message
from iowarden.daemon.storage.state_db import OutboxRow
from iowarden.rules.notice import Evidence, Notice, Reason
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from support.golden import Golden

DOC = Path(__file__).resolve().parents[3] / "packaging" / "doc"
SCHEMA = json.loads((DOC / "webhook.schema.json").read_text())
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
    evidence=(Evidence(1795266002.0, "iowarden_device_hang_seconds", "device sda: 34 s"),),
    affected=("md0 (raid1) is built on sda",),
    advice=("What the kernel says:\n  dmesg | grep -i sda | tail -20",),
    unknown=("Whether the disk, its cable or its controller hangs is not known.",),
    meaning=("Programs that read or write there wait and cannot be killed.",),
)
HOSTILE = [
    "x\r\nBcc: evil@example.com",
    "<script>alert(1)</script><!channel> <https://evil.example.com|click> [click](http://evil)",
    "\x1b[31mred\x1b[0m\x07",
    "\u202egpj.exe\u2066",
    "@all @here @room @channel @everyone hello",
    "y" * 10_000,
    "caf\udce9 \x00",
]


def outbound(data: bytes) -> OutboundMail:
    """Return a first attempt at a message."""
    return OutboundMail("ops:a.1", ("ops",), data)


def sent(kind: ReceiverType, notice: Notice = NOTICE) -> dict[str, Any]:
    """Return the body that a service gets."""
    data = message.encoded(message.document(notice, "db1.example.com"))
    found = json.loads(formats.request(config(kind, 1, "/path/topic"), outbound(data), 0.0).body)
    assert isinstance(found, dict)
    return found


def strings(value: object) -> list[str]:
    """Return all strings of a document."""
    if isinstance(value, dict):
        return [text for each in value.values() for text in strings(each)]
    if isinstance(value, list):
        return [text for each in value for text in strings(each)]
    return [value] if isinstance(value, str) else []


def hostile(text: str) -> Notice:
    """Return a notice with a text in every place that a machine or a user fills."""
    return replace(
        NOTICE,
        object=text,
        summary=text,
        sentences=(text,),
        evidence=(Evidence(1e9, text, text),),
        affected=(text,),
        advice=(text, f"run:\n  {text}"),
        unknown=(text,),
        meaning=(text,),
    )


def test_the_example_of_the_documentation_is_a_message_and_fits_the_schema(golden: Golden) -> None:
    """Whoever writes a receiver begins there."""
    example = message.document(NOTICE, "db1.example.com")
    golden(DOC / "webhook.example.json", json.dumps(example, indent=2) + "\n")
    assert problems(example, SCHEMA) == []
    assert example.keys() == SCHEMA["$defs"]["message"]["properties"].keys()


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"severity": "fatal"},
        {"id": "a b"},
        {"time": "yesterday"},
        {"evidence": [{"time": "2026-11-21T13:00:34.000Z"}]},
        {"number": "1"},
        {"ended": 5},
    ],
)
def test_what_is_no_message_does_not_fit_the_schema(changes: dict[str, Any]) -> None:
    """The comparison above is not empty."""
    assert problems(message.document(NOTICE, "db1") | changes, SCHEMA) != []


@pytest.mark.parametrize("reason", list(Reason))
@pytest.mark.parametrize("severity", list(Severity))
def test_every_reason_and_severity_fits_the_schema(reason: Reason, severity: Severity) -> None:
    """And every service's format can show it."""
    notice = replace(NOTICE, reason=reason, severity=severity, ended_seconds=1795266030.0)
    assert problems(message.document(notice, "db1"), SCHEMA) == []
    for kind in (ReceiverType.NTFY, ReceiverType.SLACK):
        assert sent(kind, notice)


@given(text=st.text(max_size=300))
def test_any_text_is_a_message(text: str) -> None:
    """In ASCII, on one line each, without a control character, and the same bytes again."""
    document = message.document(hostile(text), text)
    data = message.encoded(document)
    assert data == message.encoded(message.document(hostile(text), text))
    assert problems(json.loads(data), SCHEMA) == []
    for shown in (*document["sentences"], document["summary"], document["object"]):
        assert shown.isprintable()


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("kind", [ReceiverType.WEBHOOK, ReceiverType.NTFY, ReceiverType.SLACK])
def test_hostile_texts_are_harmless_for_each_service(kind: ReceiverType, text: str) -> None:
    """As model, serial, mount, unit, kernel line."""
    body = sent(kind, hostile(text))
    flat = json.dumps(body, ensure_ascii=False)
    for shown in strings(body):
        assert shown.replace("\n", "").isprintable()
    assert len(flat) < 40_000
    if kind is ReceiverType.WEBHOOK:
        assert len(body["object"]) <= 300
    if kind is ReceiverType.SLACK:
        assert "<" not in flat
        assert re.search(r"(?<!\w)@(all|here|room|channel|everyone)", flat) is None
        assert "](http" not in flat
        assert all(len(each["text"]["text"]) <= 3000 for each in body["blocks"])
    if kind is ReceiverType.NTFY:
        assert len(body["message"].encode()) <= 4096
        assert len(body["title"].encode()) <= 250


def test_no_text_of_a_machine_is_in_a_header() -> None:
    """A header would need an encoding that services read in different ways."""
    data = message.encoded(message.document(hostile("x\r\nEvil: 1"), "db1\r\nEvil: 1"))
    for kind in (ReceiverType.WEBHOOK, ReceiverType.NTFY, ReceiverType.SLACK):
        headers = formats.request(config(kind, 1, "/topic"), outbound(data), 0.0).headers
        assert "Evil" not in repr(dict(headers))


def test_ntfy_gets_the_topic_in_the_body_at_the_servers_root() -> None:
    """Priority and tag show how bad it is."""
    data = message.encoded(message.document(NOTICE, "db1"))
    to = config(ReceiverType.NTFY, 1, "/ntfy/storage", token="t")
    made = formats.request(to, outbound(data), 0.0)
    body = json.loads(made.body)
    assert (made.path, body["topic"], body["priority"]) == ("/ntfy/", "storage", 5)
    assert made.headers["Authorization"] == "Bearer t"
    assert "md0 (raid1) is built on sda" in body["message"]
    over = sent(ReceiverType.NTFY, replace(NOTICE, reason=Reason.RESOLVED))
    assert (over["priority"], over["tags"]) == (3, ["white_check_mark"])


def test_slacks_text_reads_well() -> None:
    """What happened, what to do, and which incident it is, since messages make no thread."""
    body = sent(ReceiverType.SLACK)
    lines = body["blocks"][1]["text"]["text"].splitlines()
    assert lines[0] == "sda has answered nothing for 34 s with 12 requests in flight"
    assert "  dmesg | grep -i sda | tail -20" in lines
    assert lines[-1] == "Incident 8f3a2b1c9d, notification 1"
    assert body["text"].startswith("*[CRITICAL] db1.example.com: sda")
    assert body["unfurl_links"] is False


def test_a_title_is_the_subject_of_its_mail() -> None:
    """Both name the same thing in the same words."""
    mail = render(NOTICE, "db1.example.com", "a@x", ("b@x",))
    assert message.document(NOTICE, "db1.example.com")["title"] == str(mail["Subject"])


def row(number: int) -> OutboxRow:
    """Return a message in the outbox."""
    notice = replace(NOTICE, number=number)
    data = message.encoded(message.document(notice, "db1.example.com"))
    return OutboxRow(
        message.message_id("ops", notice),
        NOTICE.incident,
        number,
        NOTICE.severity,
        NOTICE.realtime_seconds,
        ("ops",),
        data,
        receiver="ops",
    )


def test_delayed_messages_are_one_that_contains_them() -> None:
    """It fits the schema, each service shows it, and its id comes from theirs."""
    form, rows = message.document_format("ops"), [row(1), row(2)]
    data = form.digest(rows, ())
    document = json.loads(data)
    assert data == form.digest(rows, ())
    assert problems(document, SCHEMA) == []
    assert f"ops:{document['id']}" == form.digest_id(rows)
    assert form.digest_id(rows) != form.digest_id(rows[:1])
    assert [each["id"] for each in document["messages"]] == ["8f3a2b1c9d.1", "8f3a2b1c9d.2"]
    assert document["title"].startswith("[CRITICAL] db1.example.com: 2 delayed notifications")
    for kind in (ReceiverType.NTFY, ReceiverType.SLACK):
        assert formats.request(config(kind, 1, "/topic"), outbound(data), 0.0).body


def test_a_message_that_was_cut_is_still_one() -> None:
    """Title, severity and incident stay; it says that its text is missing."""
    form = message.document_format("ops")
    short = form.cut(row(1).data)
    assert form.is_cut(short)
    assert not form.is_cut(row(1).data)
    assert len(short) < 900
    document = json.loads(short)
    assert problems(document, SCHEMA) == []
    assert document["title"].startswith("[CRITICAL]")
    body = json.loads(formats.request(config(ReceiverType.SLACK, 1), outbound(short), 0.0).body)
    assert "was discarded" in body["text"]


def test_a_repeat_is_marked_and_has_the_same_id_and_body() -> None:
    """A person reads that it may be the second one; a program compares the id."""
    data = message.encoded(message.document(NOTICE, "db1"))
    repeat = replace(outbound(data), is_repeated=True)
    first = formats.request(config(ReceiverType.WEBHOOK, 1), outbound(data), 0.0)
    again = formats.request(config(ReceiverType.WEBHOOK, 1), repeat, 0.0)
    assert first.body == again.body
    assert dict(again.headers) == {**first.headers, "X-Iowarden-Repeated": "yes"}
    for kind in (ReceiverType.NTFY, ReceiverType.SLACK):
        body = formats.request(config(kind, 1, "/topic"), repeat, 0.0).body
        assert b"(repeated)" in body
