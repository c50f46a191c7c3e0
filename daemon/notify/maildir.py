"""Deliver mails to a Maildir if no mail server is configured. Source: maildir(5)."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.notify.attempt import DialogueLine, OutboundMail, SendResult
from iowarden.daemon.storage import durable_file

if TYPE_CHECKING:
    from iowarden.daemon.notify.attempt import Attempt


MAX_BYTES = 64 * 1024 * 1024
"""Of all mails: the file system of the state must not be filled by mails that are not read."""


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
    """Write a mail to a Maildir: complete, durable, and once, however often it is repeated.

    Then the oldest mails beyond `MAX_BYTES` are deleted.
    """
    name = re.sub(r"[^A-Za-z0-9.@_-]", "_", mail.message_id.strip("<>"))[:200].lstrip(".") or "mail"
    path, draft = (f"{directory}/{folder}/{name}" for folder in ("new", "tmp"))
    try:
        os.makedirs(os.path.dirname(directory) or ".", 0o750, exist_ok=True)
        for folder in (directory, *(f"{directory}/{folder}" for folder in ("tmp", "new", "cur"))):
            with suppress(FileExistsError):
                os.mkdir(folder, 0o700)
                _hand_over(folder)
        # A Maildir has the line ends of this system.
        durable_file.write(draft, mail.data.replace(b"\r\n", b"\n"))
        _hand_over(draft)
        os.rename(draft, path)
        durable_file.sync_directory(f"{directory}/new")
    except OSError as problem:
        error = f"mail: '{directory}': expected a writable Maildir, got '{problem}'"
        yield DialogueLine(f"{error}; repair the directory or set 'mail.server'", good=False)
        # Written again under the same name, there is one mail.
        return SendResult(mail.message_id, error=error)
    yield DialogueLine(f"written to '{path}', not sent: no mail server configured")
    answer = f"written to '{path}'"
    discarded = 0
    try:
        discarded = prune(directory, name)
    except OSError as problem:  # the mail itself is there
        answer += f"; older mails could not be deleted: {problem}"
    return SendResult(
        mail.message_id,
        delivered=mail.recipients,
        is_local=True,
        answer=answer,
        discarded=discarded,
    )


def prune(directory: str, newest: str, max_bytes: int = MAX_BYTES) -> int:
    """Delete the oldest mails beyond a size, never `newest`; return how many. Errors: OSError."""
    oldest_first = sorted(files(directory), key=lambda file: (file[1].st_mtime, file[0]))
    excess = sum(status.st_size for _, status in oldest_first) - max_bytes
    deleted = 0
    for path, status in oldest_first:
        if excess <= 0:
            break
        if os.path.basename(path) == newest:
            continue
        with suppress(FileNotFoundError):  # a mail program moved it
            os.unlink(path)
            deleted += 1
        excess -= status.st_size
    return deleted


def files(directory: str) -> list[tuple[str, os.stat_result]]:
    """Return the mails; none of a folder that does not exist. Errors: OSError."""
    mails: list[tuple[str, os.stat_result]] = []
    for folder in ("new", "cur"):
        entries: list[os.DirEntry[str]] = []
        with suppress(FileNotFoundError):
            entries = list(os.scandir(f"{directory}/{folder}"))
        for entry in entries:
            # A mail program removes what was read, or moves it from 'new' to 'cur'.
            with suppress(FileNotFoundError):
                if entry.is_file(follow_symlinks=False):
                    mails.append((entry.path, entry.stat(follow_symlinks=False)))
    return mails
