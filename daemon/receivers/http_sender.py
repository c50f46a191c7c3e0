"""HTTP sender: the one thread that hands the messages of a receiver to its server."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING

from iowarden.collectors.model import trace
from iowarden.daemon.config.receivers import ReceiverType
from iowarden.daemon.notify.address_lookup import AddressLookup
from iowarden.daemon.notify.attempt import DialogueLine, OutboundMail, SendResult
from iowarden.daemon.notify.retry import Fault, Scope
from iowarden.daemon.notify.smtp import AUTHORITIES
from iowarden.daemon.receivers import formats
from iowarden.daemon.receivers.http_client import (
    ATTEMPT_SECONDS,
    HttpClient,
    HttpReply,
    verified_tls,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iowarden.daemon.config.receivers import ReceiverConfig, Url

_REFUSED_LOGIN = frozenset({401, 403})
_WRONG_PLACE = frozenset({404, 405, 410})


class HttpSender:
    """One thread, one attempt per request; `working_since` is when the current one began.

    Certificates are read at start, the server's name is resolved by a thread of its own.
    """

    def __init__(
        self,
        config: ReceiverConfig,
        post: Callable[[object], object],
        authorities: str = AUTHORITIES,
        attempt_seconds: float = ATTEMPT_SECONDS,
    ) -> None:
        """Start the thread. `post` takes a SendResult for each message submitted."""
        self.working_since: float | None = None
        self._config = config
        self._client = client(config, config.urls[0], authorities, attempt_seconds)
        self._post = post
        self._messages: queue.SimpleQueue[OutboundMail | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"to {config.name}", daemon=True)
        self._thread.start()

    def submit(self, mail: OutboundMail) -> None:
        """Request one attempt."""
        self._messages.put(mail)

    def close(self, timeout_seconds: float) -> bool:
        """End after the submitted messages; return whether that happened in time."""
        self._messages.put(None)
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (message := self._messages.get()) is not None:
            self.working_since = time.monotonic()
            try:
                result = deliver(self._config, self._client, message)
            except Exception as error:  # noqa: BLE001 - without a result none would be sent again
                config, name = self._config, self._config.name
                result = SendResult(
                    message.message_id,
                    error=config.redactor.text(f"receiver '{name}': bug: {trace(error)}"),
                    scope=Scope.MESSAGE,
                    fault=Fault.FAILED,
                    receiver=name,
                )
            self.working_since = None
            self._post(result)


def client(
    config: ReceiverConfig,
    url: Url,
    authorities: str = AUTHORITIES,
    attempt_seconds: float = ATTEMPT_SECONDS,
) -> HttpClient:
    """Return a client for a URL of a receiver; certificates are read from disk here."""
    place = config.proxy or url
    names = AddressLookup(place.host, place.port)
    config.redactor.learn(config.secrets)
    tls = verified_tls(authorities)
    return HttpClient(url, names, tls, config.redactor, config.proxy, attempt_seconds)


def deliver(config: ReceiverConfig, client: HttpClient, message: OutboundMail) -> SendResult:
    """Make one attempt."""
    reply = client.send(formats.request(config, message, time.time()))
    wrong = formats.refusal(config, reply) if reply.good else ""
    if reply.good and not wrong:
        return SendResult(
            message.message_id,
            delivered=message.recipients,
            answer=reply.text(),
            receiver=config.name,
        )
    why = f"{wrong}, got '{reply.text()}'" if wrong else failure(config, reply)
    return failed(config, client, reply, message.message_id, why)


def failed(
    config: ReceiverConfig, client: HttpClient, reply: HttpReply, message_id: str, why: str
) -> SendResult:
    """Return the result of an attempt that was not accepted."""
    verdict = reply.verdict
    return SendResult(
        message_id,
        error=f"receiver '{config.name}': {client.url.origin}: {why}",
        scope=verdict.scope,
        fault=verdict.fault,
        retry_after_seconds=reply.retry_after_seconds,
        receiver=config.name,
    )


def try_message(
    config: ReceiverConfig, data: bytes, authorities: str = AUTHORITIES
) -> Iterator[DialogueLine]:
    """Send a message now and yield what came of it."""
    made = client(config, config.urls[0], authorities)
    result = deliver(config, made, OutboundMail("test", (config.name,), data))
    if result.error:
        yield DialogueLine(result.error, good=False)
    else:
        yield DialogueLine(
            f"receiver '{config.name}': {made.url.origin} accepted it: {result.answer}"
        )


def failure(config: ReceiverConfig, reply: HttpReply, expected: str = "2xx") -> str:
    """Return why a reply is none that was wanted, and the next step if it is known."""
    text = reply.text()
    return text if reply.error else f"expected {expected}, got '{text}'{_next_step(config, reply)}"


def _next_step(config: ReceiverConfig, reply: HttpReply) -> str:
    if 300 <= reply.status < 400:
        return "; redirects are not followed: correct the URL"
    if reply.status in _REFUSED_LOGIN:
        files = (config.token_file, config.password_file, config.url_file, config.secret_file)
        named = next((each for each in files if each), None)
        if named or config.type is not ReceiverType.PING:
            return f"; check {named}" if named else "; does it need 'token_file'?"
    if reply.status in _REFUSED_LOGIN | _WRONG_PLACE:
        return "; check the URL" + (f" in {config.url_file}" if config.url_file else "")
    return ""
