"""Mail sender: the one thread that hands mails to a server, or writes them to a Maildir."""

from __future__ import annotations

import queue
import re
import threading
import time
from typing import TYPE_CHECKING

from iowarden.collectors.model import trace
from iowarden.daemon.notify import maildir, smtp
from iowarden.daemon.notify.address_lookup import AddressLookup
from iowarden.daemon.notify.attempt import OutboundMail, SendResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iowarden.daemon.notify.attempt import Attempt, DialogueLine
    from iowarden.daemon.notify.maildir import MaildirSettings
    from iowarden.daemon.notify.smtp import MailSettings


class Sender:
    """One thread, one attempt per request; `working_since` is when the current one began.

    Certificates are read and the server's name is resolved at start. Name resolution that hangs
    blocks nothing else: it has one thread of its own, and the last addresses are used meanwhile.
    """

    def __init__(
        self, settings: MailSettings | MaildirSettings, post: Callable[[object], object]
    ) -> None:
        """Start the thread. `post` takes a SendResult for each mail submitted."""
        self.working_since: float | None = None
        self._deliver = _delivery(settings)
        self._post = post
        self._mails: queue.SimpleQueue[OutboundMail | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="mail", daemon=True)
        self._thread.start()

    def submit(self, mail: OutboundMail) -> None:
        """Request one attempt."""
        self._mails.put(mail)

    def close(self, timeout_seconds: float) -> bool:
        """End after the submitted mails; return whether that happened in time."""
        self._mails.put(None)
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (mail := self._mails.get()) is not None:
            self.working_since = time.monotonic()
            try:
                result = _result(self._deliver(mail))
            except Exception as error:  # noqa: BLE001 - without a result no mail would ever be sent again
                bug = f"mail: bug: {trace(error)}"
                result = SendResult(mail.message_id, error=bug, maybe_taken=True)
            self.working_since = None
            self._post(result)


def test_mail(
    settings: MailSettings | MaildirSettings, data: bytes, recipients: tuple[str, ...]
) -> Iterator[DialogueLine]:
    """Send a mail now and yield the important lines of the dialogue.

    A line that is not `DialogueLine.good` is a failure.
    """
    found = re.search(rb"^Message-ID:\s*(<[^>]*>)", data, re.IGNORECASE | re.MULTILINE)
    name = found[1].decode("ascii", "replace") if found else "<test>"
    yield from _delivery(settings)(OutboundMail(name, recipients, data))


def _delivery(
    settings: MailSettings | MaildirSettings,
) -> Callable[[OutboundMail], Attempt]:
    """Return a function that makes one attempt; all files it needs are read here."""
    if isinstance(settings, maildir.MaildirSettings):
        return lambda mail: maildir.deliver(settings.directory, mail)
    names, tls = AddressLookup(settings.server, settings.port), smtp.tls_context(settings)
    return lambda mail: smtp.deliver(settings, names, tls, mail)


def _result(attempt: Attempt) -> SendResult:
    while True:
        try:
            next(attempt)
        except StopIteration as end:
            result: SendResult = end.value
            return result
