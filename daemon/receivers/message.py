"""The message of an incident as a JSON document: what a webhook gets, and what the outbox stores.

Schema 1 is packaging/doc/webhook.schema.json. Pure.

Every text is on one line, with control characters, bidirectional marks and bytes that are no UTF-8
escaped, and cut with a note. The same notice gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from iowarden.daemon.notify.message import subject
from iowarden.daemon.notify.message_format import MessageFormat
from iowarden.daemon.sanitize import one_line
from iowarden.rules.notice import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iowarden.daemon.storage.state_db import OutboxRow
    from iowarden.rules.notice import Notice

VERSION = 1
MAX_NAME_CHARACTERS = 256
MAX_TEXT_CHARACTERS = 2000
MAX_LINES = 100
"""Of a list; the last one then gives the number of those left out."""
DELAYED = "delayed messages"
"""Reason of a message that contains others, which could not be sent."""
SHORT = "-short"
"""Ends the id of a short form."""
_LISTS = ("sentences", "meaning", "evidence", "affected", "advice", "unknown")


def document_format(receiver: str) -> MessageFormat:
    """Return the form of one receiver's messages in its outbox."""
    return MessageFormat(
        where=f"receiver '{receiver}'",
        noun="notification",
        test=f"iowarden test-notify {receiver}",
        addressees=lambda _: (),
        cut=cut,
        is_cut=lambda data: bool(data) and json.loads(data).get("cut") is True,
        digest_id=lambda rows: f"{receiver}:{_digest_name(rows)}",
        digest=lambda rows, _: encoded(digest(rows)),
        plain=short,
        is_plain=lambda name: name.endswith(SHORT),
    )


def cut(data: bytes) -> bytes:
    """Return a message without its text."""
    document = json.loads(data)
    return encoded(document | {name: [] for name in _LISTS} | {"cut": True})


def short(row: OutboxRow) -> OutboxRow | None:
    """Return the short form of a message: what happened, and nothing else; None: it is one."""
    if row.message_id.endswith(SHORT):
        return None
    document = json.loads(cut(row.data))
    data = encoded(document | {"id": f"{document['id']}{SHORT}", "messages": []})
    return replace(row, message_id=f"{row.message_id}{SHORT}", data=data, parts=())


def message_id(receiver: str, notice: Notice) -> str:
    """Return the key of a message in the outbox, distinct by receiver."""
    return f"{receiver}:{notice.incident}.{notice.number}"


def document(notice: Notice, host: str) -> dict[str, Any]:
    """Return the message of a notice."""
    resolved = notice.reason is Reason.RESOLVED
    summary = notice.reason in (Reason.INITIAL, Reason.DIGEST)
    ended = notice.ended_seconds
    return {
        "version": VERSION,
        "id": f"{notice.incident}.{notice.number}",
        "host": _name(host),
        "time": timestamp(notice.realtime_seconds),
        "status": "resolved" if resolved else "report" if summary else "firing",
        "reason": notice.reason.value,
        "severity": notice.severity.name.lower(),
        "incident": _name(notice.incident),
        "number": notice.number,
        "object": _name(notice.object),
        "title": subject(notice, host),
        "summary": _prose(notice.summary),
        "opened": timestamp(notice.opened_seconds),
        "ended": None if ended is None else timestamp(ended),
        "recurrences": notice.recurrences,
        "sentences": _lines(map(_prose, notice.sentences)),
        "meaning": _lines(map(_prose, notice.meaning)),
        "evidence": [
            {
                "time": timestamp(each.realtime_seconds),
                "source": _name(each.source),
                "text": _text(each.text),
            }
            for each in notice.evidence[:MAX_LINES]
        ],
        "affected": _lines(map(_prose, notice.affected)),
        "advice": _lines(_paragraph(each) for each in notice.advice),
        "unknown": _lines(map(_prose, notice.unknown)),
        "cut": False,
        "messages": [],
    }


def digest(rows: Sequence[OutboxRow]) -> dict[str, Any]:
    """Return one message with those that could not be sent for an hour, oldest first."""
    held = [json.loads(row.data) for row in rows]
    first, last = held[0], held[-1]
    worst = max(rows, key=lambda row: row.severity)
    since = first["time"]
    title = (
        f"[{worst.severity.name}] {last['host']}: {len(rows)} delayed notifications since {since}"
    )
    return {
        **last,
        "id": _digest_name(rows),
        "status": "report",
        "reason": DELAYED,
        "severity": worst.severity.name.lower(),
        "incident": "",
        "number": 0,
        "object": "host",
        "title": title,
        "summary": f"{len(rows)} notifications could not be sent since {since}",
        "opened": since,
        "ended": None,
        "recurrences": 0,
        **{name: [] for name in _LISTS},
        "sentences": _lines(f"{each['time']}  {each['title']}" for each in held),
        "cut": False,
        "messages": held,
    }


def encoded(document: dict[str, Any]) -> bytes:
    """Return a message as JSON in ASCII, always the same bytes."""
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def timestamp(unix_seconds: float) -> str:
    """Return a time as in RFC 3339, in UTC with milliseconds."""
    moment = datetime.fromtimestamp(max(unix_seconds, 0.0), UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _digest_name(rows: Sequence[OutboxRow]) -> str:
    held = hashlib.sha256("\n".join(row.message_id for row in rows).encode()).hexdigest()[:24]
    return f"digest.{held}"


def _prose(text: str) -> str:
    return _text(text)


def _name(text: str) -> str:
    return one_line(text, MAX_NAME_CHARACTERS)


def _text(text: str) -> str:
    return one_line(text, MAX_TEXT_CHARACTERS)


def _paragraph(text: str) -> str:
    lines = text[: 5 * MAX_TEXT_CHARACTERS].splitlines()
    return "\n".join(("  " if line[:1].isspace() else "") + _text(line) for line in lines)


def _lines(lines: Iterable[str]) -> list[str]:
    found = list(lines)
    left = len(found) - MAX_LINES
    return found if left <= 0 else [*found[: MAX_LINES - 1], f"... ({left + 1} more lines)"]
