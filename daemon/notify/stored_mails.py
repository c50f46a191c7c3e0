"""Mails that wait to be sent, and those in the Maildir that is used without a server.

A mail stays in the Maildir when a server that is configured later was sent it, until a mail program
removes it. For `iowarden mail list` and `iowarden mail show`. Source: maildir(5), RFC 5322.
"""

from __future__ import annotations

import email
import email.policy
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from iowarden.daemon import json_codec
from iowarden.daemon.control import mail_document
from iowarden.daemon.notify import maildir
from iowarden.daemon.storage.patient_reader import PATIENCE_SECONDS, PatientReader
from iowarden.daemon.storage.state_db import LOCAL, MAIL
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from email.message import EmailMessage

    from iowarden.daemon.control.control_socket import ControlCommand
    from iowarden.daemon.notify.delivery import Delivery
    from iowarden.daemon.notify.outbox import MailWait
    from iowarden.daemon.storage.state_db import OutboxRow

COMMANDS = frozenset({"mail list", "mail show", "mail retry"})
OUTBOX, MAILDIR = "outbox", "Maildir"
MAX_NAMED = 5
"""Identifiers in the answer to an unknown one."""
MAX_LISTED = 500
"""Of the newest mails: an answer has a size limit."""
MAX_MAIL_BYTES = 1024 * 1024
_HEADERS = ("Date", "From", "To", "Subject", "Message-ID", "In-Reply-To")


class StoredMails:
    """Answers the commands of the control socket; the Maildir is read in a thread."""

    def __init__(
        self,
        mails: Delivery,
        directory: str,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """`directory` is the Maildir, which need not exist."""
        self._mails = mails
        self._directory = directory
        self._maildir = PatientReader("the Maildir", "mails", patience_seconds)

    def answer(self, command: ControlCommand, now: float) -> None:
        """Execute a command; its reply comes later."""
        if command.name == "mail retry":
            receiver = str(command.arguments.get("receiver", MAIL))
            self._mails.retry(now, receiver)
            command.reply({"answer": {}})
            return
        rows, waits = self._mails.rows(), self._mails.waits(now)

        def reply(mails: list[_Mail], note: str) -> None:
            mails = together(rows, mails, waits)
            try:
                answer = (
                    listed(mails, note=note)
                    if command.name == "mail list"
                    else shown(mails, json_codec.text(command.arguments, "mail"), note=note)
                )
            except ValueError as error:
                command.reply({"error": str(error)})
            else:
                command.reply({"answer": answer})

        self._maildir.read(lambda: of_maildir(self._directory), reply)


_Mail = tuple[mail_document.StoredMail, bytes]


def together(
    rows: Iterable[OutboxRow],
    local: Iterable[_Mail],
    waits: Mapping[str, MailWait] = MappingProxyType({}),
) -> list[_Mail]:
    """Return the mails of the outbox, and those of the Maildir, each once.

    Of those in the Maildir wait the ones that have a row for a server that is configured later.
    """
    known = list(rows)
    unsent = {_name(each.message_id.removeprefix(f"{LOCAL}:")) for each in known}
    outbox = of_outbox(known, waits)
    queued = {entry.identifier for entry, _ in outbox}
    return [
        *outbox,
        *(
            (replace(entry, waits=entry.identifier in unsent), data)
            for entry, data in local
            if entry.identifier not in queued
        ),
    ]


def of_outbox(
    rows: Iterable[OutboxRow], waits: Mapping[str, MailWait] = MappingProxyType({})
) -> list[_Mail]:
    """Return the mails that wait; a digest is made of them when it is sent."""
    mails = []
    for row in rows:
        if row.parts or row.receiver != MAIL:
            continue
        wait = waits.get(row.message_id)
        entry = replace(
            _entry(row.data, OUTBOX, row.created_realtime_seconds, row.message_id),
            severity=row.severity.name.lower(),
            recipients=row.recipients_pending,
            attempts=row.attempts,
            error=row.last_error if wait is None else wait.reason,
            next_seconds=None if wait is None else wait.next_seconds,
        )
        mails.append((entry, row.data))
    return mails


def of_maildir(directory: str) -> list[_Mail]:
    """Return the mails of a Maildir; none if there is none. Errors: OSError."""
    mails = []
    for path, status in sorted(maildir.files(directory), key=lambda file: file[1].st_mtime):
        with suppress(FileNotFoundError), open(path, "rb") as file:  # a mail program removed it
            data = file.read(MAX_MAIL_BYTES)
            mails.append((_entry(data, MAILDIR, status.st_mtime), data))
    return mails


def _entry(
    data: bytes, place: str, created_seconds: float, message_id: str = ""
) -> mail_document.StoredMail:
    message = _parsed(data)
    subject = str(message["Subject"] or "")
    severity = subject.partition("]")[0].lstrip("[")
    return mail_document.StoredMail(
        identifier=_name(message_id or str(message["Message-ID"] or "")),
        place=place,
        created_seconds=created_seconds,
        severity=severity.lower() if severity in Severity.__members__ else "",
        subject=subject,
        recipients=tuple(str(message["To"] or "").split(", ")),
        size_bytes=len(data),
    )


def _name(message_id: str) -> str:
    """Return what a mail is listed by: its incident and number."""
    return message_id.strip("<>").partition("@")[0].removeprefix("iowarden.")


def listed(mails: list[_Mail], *, note: str = "") -> mail_document.StoredMailList:
    """Return the newest mails, oldest first."""
    ordered = sorted((entry for entry, _ in mails), key=lambda entry: entry.created_seconds)
    left = len(ordered) - MAX_LISTED
    notes = [note] if note else []
    notes += [f"{left} older mails are not listed"] if left > 0 else []
    return mail_document.StoredMailList(tuple(ordered[-MAX_LISTED:]), "; ".join(notes))


def shown(mails: list[_Mail], wanted: str, *, note: str = "") -> mail_document.StoredMailText:
    """Return one mail, by the beginning of its identifier. Errors: ValueError."""
    exact = [each for each in mails if each[0].identifier == wanted]
    found = exact or [each for each in mails if wanted and each[0].identifier.startswith(wanted)]
    if len(found) != 1:
        names = ", ".join(entry.identifier for entry, _ in found[:10])
        there = ", ".join(each.identifier for each, _ in mails[-MAX_NAMED:]) or "none"
        why = (
            f"'{wanted:.60}' begins {names}: write more of it"
            if found
            else f"expected the beginning of an ID, got '{wanted:.60}'; there are {there}"
        )
        raise ValueError(f"mail: {why}; see 'iowarden mail list'" + (f"; {note}" if note else ""))
    entry, data = found[0]
    message = _parsed(data)
    headers = {name: str(message[name]) for name in _HEADERS if message[name]}
    body = message.get_body(("plain",))
    text = "" if body is None else str(body.get_content())
    return mail_document.StoredMailText(entry, headers, text)


def _parsed(data: bytes) -> EmailMessage:
    return email.message_from_bytes(data, policy=email.policy.default)
