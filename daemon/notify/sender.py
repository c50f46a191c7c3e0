"""Mail sender: the threads that hand mails to servers, or the one that writes them to a Maildir."""

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
from iowarden.daemon.notify.retry import Fault, Scope
from iowarden.daemon.notify.smtp import MailSettings
from iowarden.daemon.redactor import Redactor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iowarden.daemon.notify.attempt import Attempt, DialogueLine
    from iowarden.daemon.notify.maildir import MaildirSettings

HUNG_SECONDS = 90.0
HUNG_SERVER_SECONDS = 1800.0
"""Longer than an attempt may take: three replies of five minutes, and ten minutes for the last."""
CONNECTIONS = 2
"""At most so many to one server: a slow one must not delay the other mails."""


class Sender:
    """Two threads per server, one attempt per request; a Maildir has one thread.

    Certificates are read and the servers' names are resolved at start. Name resolution that hangs
    blocks nothing else: it has one thread of its own, and the last addresses are used meanwhile.
    """

    def __init__(
        self,
        settings: MailSettings | MaildirSettings,
        post: Callable[[object], object],
        *others: MailSettings,
    ) -> None:
        """Start the threads. `post` takes a SendResult for each mail submitted."""
        servers = [each for each in (settings, *others) if isinstance(each, MailSettings)]
        self.servers = tuple(each.name for each in servers)
        """None: mails are written to a Maildir."""
        self._post = post
        self._redactor = servers[0].redactor if servers else Redactor()
        self._began: dict[int, float] = {}
        self._mails: dict[str, queue.SimpleQueue[OutboundMail | None]] = {}
        self._threads: list[threading.Thread] = []
        all_settings: tuple[MailSettings | MaildirSettings, ...] = (*servers,) or (settings,)
        for number, each in enumerate(all_settings):
            mails = self._mails[self.servers[number] if servers else ""] = queue.SimpleQueue()
            deliver = _delivery(each)
            for _ in range(CONNECTIONS if servers else 1):
                self._threads.append(
                    threading.Thread(
                        target=self._run, args=(deliver, mails), name="mail", daemon=True
                    )
                )
        for thread in self._threads:
            thread.start()

    @property
    def working_since(self) -> float | None:
        """Return when the oldest current attempt began, by the monotonic clock."""
        return min(self._began.copy().values(), default=None)

    @property
    def hung_seconds(self) -> float:
        """Return after how long an attempt is blocked by something that has no time limit."""
        return HUNG_SERVER_SECONDS if self.servers else HUNG_SECONDS

    def submit(self, mail: OutboundMail) -> None:
        """Request one attempt."""
        self._mails.get(mail.server, next(iter(self._mails.values()))).put(mail)

    def close(self, timeout_seconds: float) -> bool:
        """End after the submitted mails; return whether that happened in time."""
        for name, mails in self._mails.items():
            for _ in range(CONNECTIONS if name else 1):
                mails.put(None)
        end = time.monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(max(end - time.monotonic(), 0.0))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(
        self,
        deliver: Callable[[OutboundMail], Attempt],
        mails: queue.SimpleQueue[OutboundMail | None],
    ) -> None:
        own = threading.get_ident()
        while (mail := mails.get()) is not None:
            self._began[own] = time.monotonic()
            try:
                result = _result(deliver(mail))
            except Exception as error:  # noqa: BLE001 - without a result no mail would ever be sent again
                bug = self._redactor.text(f"mail: bug: {trace(error)}")
                result = SendResult(
                    mail.message_id, error=bug, scope=Scope.MESSAGE, fault=Fault.UNANSWERED
                )
            del self._began[own]
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


def send_once(settings: MailSettings, mail: OutboundMail) -> SendResult:
    """Make one attempt now; return its result."""
    return _result(_delivery(settings)(mail))


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
