"""Senders: the threads that hand messages to servers, or write mails to a Maildir."""

from __future__ import annotations

import queue
import re
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from iowarden.collectors.model import trace
from iowarden.daemon.notify import maildir, smtp
from iowarden.daemon.notify.address_lookup import AddressLookup
from iowarden.daemon.notify.attempt import OutboundMail, SendResult
from iowarden.daemon.notify.retry import Fault, Scope
from iowarden.daemon.notify.smtp import MailSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from iowarden.daemon.config.schema import Config, FallbackConfig, MailConfig
    from iowarden.daemon.notify.attempt import Attempt, DialogueLine

HUNG_SECONDS = 90.0
"""Three times what an attempt by HTTP may take."""
HUNG_SERVER_SECONDS = 1800.0
"""Longer than an attempt may take: three replies of five minutes, and ten minutes for the last."""
CONNECTIONS = 2
"""At most so many to one mail server: a slow one must not delay the other mails."""
Settings = MailSettings | maildir.MaildirSettings


class Sender:
    """Threads of each server, one attempt per request.

    What hangs blocks nothing else: each server has threads of its own.
    """

    def __init__(
        self,
        deliver_by_server: Mapping[str, Callable[[OutboundMail], SendResult]],
        post: Callable[[object], object],
        failed: Callable[[OutboundMail, str], SendResult],
        *,
        connections: int = 1,
        hung_seconds: float = HUNG_SECONDS,
    ) -> None:
        """Start the threads.

        `post` takes a SendResult for each message submitted; `failed` returns that of an attempt
        that raised an exception. The name '' is a Maildir. An attempt that takes `hung_seconds` is
        blocked by something that has no time limit.
        """
        self.servers = tuple(filter(None, deliver_by_server))
        """None: mails are written to a Maildir."""
        self.connections = connections
        self.hung_seconds = hung_seconds
        self._post = post
        self._failed = failed
        self._began: dict[int, float] = {}
        self._messages: dict[str, queue.SimpleQueue[OutboundMail | None]] = {}
        self._threads: list[threading.Thread] = []
        for name, deliver in deliver_by_server.items():
            messages = self._messages[name] = queue.SimpleQueue()
            for _ in range(connections):
                work = threading.Thread(
                    target=self._run, args=(deliver, messages), name=f"to {name}", daemon=True
                )
                self._threads.append(work)
                work.start()

    @property
    def working_since(self) -> float | None:
        """Return when the oldest current attempt began, by the monotonic clock."""
        return min(self._began.copy().values(), default=None)

    def submit(self, mail: OutboundMail) -> None:
        """Request one attempt."""
        self._messages.get(mail.server, next(iter(self._messages.values()))).put(mail)

    def close(self, timeout_seconds: float) -> bool:
        """End after the submitted messages; return whether that happened in time."""
        for messages in self._messages.values():
            for _ in range(self.connections):
                messages.put(None)
        end = time.monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(max(end - time.monotonic(), 0.0))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(
        self,
        deliver: Callable[[OutboundMail], SendResult],
        messages: queue.SimpleQueue[OutboundMail | None],
    ) -> None:
        thread = threading.get_ident()
        while (message := messages.get()) is not None:
            self._began[thread] = time.monotonic()
            try:
                result = deliver(message)
            except Exception as error:  # noqa: BLE001 - without a result none would be sent again
                result = self._failed(message, f"bug: {trace(error)}")
            del self._began[thread]
            self._post(result)


def mail_settings(config: Config) -> tuple[Settings, ...]:
    """Return the settings of the mail servers, or those of the Maildir if there is none."""
    mail = config.mail
    if mail.server is None:
        return (maildir.MaildirSettings(str(Path(config.state_directory) / "Maildir")),)
    servers: list[tuple[MailConfig | FallbackConfig, str]] = [(mail, mail.server)]
    if mail.fallback is not None:
        servers.append((mail.fallback, mail.fallback.server))
    return tuple(
        MailSettings(
            server=name,
            port=server.port,
            tls=server.tls,
            user=server.user,
            password=server.password,
            sender=mail.sender,
            timeout_seconds=mail.timeout_seconds,
            hello=mail.hello,
            redactor=config.redactor,
        )
        for server, name in servers
    )


def mail_sender(post: Callable[[object], object], *settings: Settings) -> Sender:
    """Return a sender of mails: with two threads per server, or one that writes to a Maildir.

    Certificates are read and the servers' names are resolved here.
    """
    servers = [server for server in settings if isinstance(server, MailSettings)]
    if not servers:
        return Sender({"": delivery(settings[0])}, post, _failed)
    redactor = servers[0].redactor
    return Sender(
        {server.name: delivery(server) for server in servers},
        post,
        lambda mail, bug: _failed(mail, redactor.text(bug)),
        connections=CONNECTIONS,
        hung_seconds=HUNG_SERVER_SECONDS,
    )


def _failed(mail: OutboundMail, bug: str) -> SendResult:
    scope, fault = Scope.MESSAGE, Fault.UNANSWERED
    return SendResult(mail.message_id, error=f"mail: {bug}", scope=scope, fault=fault)


def test_mail(
    settings: Settings, data: bytes, recipients: tuple[str, ...]
) -> Iterator[DialogueLine]:
    """Send a mail now and yield the important lines of the dialogue.

    A line that is not `DialogueLine.good` is a failure.
    """
    header = re.search(rb"^Message-ID:\s*(<[^>]*>)", data, re.IGNORECASE | re.MULTILINE)
    name = header[1].decode("ascii", "replace") if header else "<test>"
    yield from _attempts(settings)(OutboundMail(name, recipients, data))


def _attempts(settings: Settings) -> Callable[[OutboundMail], Attempt]:
    """Return a function that makes one attempt; all files it needs are read here."""
    if isinstance(settings, maildir.MaildirSettings):
        return lambda mail: maildir.deliver(settings.directory, mail)
    names, tls = AddressLookup(settings.server, settings.port), smtp.tls_context(settings)
    return lambda mail: smtp.deliver(settings, names, tls, mail)


def delivery(settings: Settings) -> Callable[[OutboundMail], SendResult]:
    """Return a function that makes an attempt and returns its result; its files are read here."""
    attempt = _attempts(settings)

    def deliver(mail: OutboundMail) -> SendResult:
        lines = attempt(mail)
        while True:
            try:
                next(lines)
            except StopIteration as end:
                result: SendResult = end.value
                return result

    return deliver
