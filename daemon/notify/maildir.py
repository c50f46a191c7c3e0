"""Deliver mails to a Maildir if no mail server is configured. Source: maildir(5)."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iowarden.daemon.notify.attempt import DialogueLine, OutboundMail, SendResult
from iowarden.daemon.storage import durable_file

if TYPE_CHECKING:
    from iowarden.daemon.notify.attempt import Attempt


@dataclass(frozen=True, slots=True)
class MaildirSettings:
    """The Maildir for mails when no server is configured. Source: maildir(5)."""

    directory: str


def _hand_over(path: str) -> None:
    """If root created a path, give it to the owner of its directory: the service is not root."""
    if os.geteuid() == 0:
        owner = os.stat(os.path.dirname(path))
        os.chown(path, owner.st_uid, owner.st_gid)


def deliver(directory: str, mail: OutboundMail) -> Attempt:
    """Write a mail to a Maildir: complete, durable, and once, however often it is repeated."""
    name = re.sub(r"[^A-Za-z0-9.@_-]", "_", mail.message_id.strip("<>"))[:200].lstrip(".") or "mail"
    path, draft = (f"{directory}/{folder}/{name}" for folder in ("new", "tmp"))
    maybe_there = False
    try:
        os.makedirs(os.path.dirname(directory) or ".", 0o750, exist_ok=True)
        for folder in (directory, *(f"{directory}/{folder}" for folder in ("tmp", "new", "cur"))):
            with suppress(FileExistsError):
                os.mkdir(folder, 0o700)
                _hand_over(folder)
        # A Maildir has the line ends of this system.
        durable_file.write(draft, mail.data.replace(b"\r\n", b"\n"))
        _hand_over(draft)
        maybe_there = True
        os.rename(draft, path)
        durable_file.sync_directory(f"{directory}/new")
    except OSError as problem:
        error = f"mail: '{directory}': expected a writable Maildir, got '{problem}'"
        yield DialogueLine(f"{error}; repair the directory or set 'mail.server'", good=False)
        return SendResult(mail.message_id, error=error, maybe_taken=maybe_there)
    yield DialogueLine(f"written to '{path}', not sent: no mail server configured")
    return SendResult(mail.message_id, delivered=mail.recipients, answer=f"written to '{path}'")
