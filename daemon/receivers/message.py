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

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.notify.message import subject
from iowarden.daemon.sanitize import one_line
from iowarden.rules.notice import Reason
from iowarden.rules.quantity import spelled, spelled_advice

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

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


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """Messages of one receiver in its outbox; as message_format.MessageFormat."""

    receiver: str
    noun: str = "notification"

    @property
    def where(self) -> str:
        """Return what a line about the receiver begins with."""
        return f"receiver '{self.receiver}'"

    @property
    def setting(self) -> str:
        """Return what to correct in the configuration if messages are refused."""
        return f"the entry '{self.receiver}' of 'notify'"

    @property
    def test(self) -> str:
        """Return the command that tests the receiver."""
        return f"iowarden test-notify {self.receiver}"

    def addressees(self, data: bytes) -> tuple[str, ...]:  # noqa: ARG002 - as of mails
        """Return none: a message names no recipients."""
        return ()

    def cut(self, data: bytes) -> bytes:
        """Return a message without its text."""
        document = json.loads(data)
        return encoded(document | {name: [] for name in _LISTS} | {"cut": True})

    def is_cut(self, data: bytes) -> bool:
        """Whether the text of a message was discarded."""
        return bool(data) and json.loads(data).get("cut") is True

    def digest_id(self, rows: Sequence[OutboxRow]) -> str:
        """Return the message id of a digest."""
        return f"{self.receiver}:{_digest_name(rows)}"

    def digest(self, rows: Sequence[OutboxRow], uncertain: Collection[str] = ()) -> bytes:  # noqa: ARG002 - as of mails
        """Return one message that contains others, oldest first."""
        return encoded(digest(rows))

    def plain(self, row: OutboxRow) -> OutboxRow | None:
        """Return the short form of a message under another id: what happened, and nothing else."""
        if self.is_plain(row.message_id):
            return None
        document = json.loads(self.cut(row.data))
        short = {"id": f"{document['id']}{SHORT}", "messages": []}
        return replace(
            row, message_id=f"{row.message_id}{SHORT}", data=encoded(document | short), parts=()
        )

    def is_plain(self, message_id: str) -> bool:
        """Whether an id is that of a short form."""
        return message_id.endswith(SHORT)


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
        "advice": _lines(_paragraph(spelled_advice(each)) for each in notice.advice),
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
    return spelled(_text(text))


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
