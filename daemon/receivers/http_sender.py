"""HTTP sender: hands the messages of a receiver to its server."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from iowarden.daemon.config.receivers import ReceiverType
from iowarden.daemon.notify.address_lookup import AddressLookup
from iowarden.daemon.notify.attempt import DialogueLine, OutboundMail, SendResult
from iowarden.daemon.notify.retry import Fault, Scope
from iowarden.daemon.notify.sender import Sender
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
_UNREACHED = re.compile(r": (?:name resolution|connect|proxy): expected ")
"""A step of http_client.py before a request."""


def http_sender(
    config: ReceiverConfig,
    post: Callable[[object], object],
    authorities: str = AUTHORITIES,
    attempt_seconds: float = ATTEMPT_SECONDS,
) -> Sender:
    """Return the sender of a receiver's messages: one thread.

    Certificates are read here, the server's name is resolved by a thread of its own.
    """
    server = client(config, config.urls[0], authorities, attempt_seconds)

    def bug(message: OutboundMail, text: str) -> SendResult:
        return SendResult(
            message.message_id,
            error=config.redactor.text(f"receiver '{config.name}': {text}"),
            scope=Scope.MESSAGE,
            fault=Fault.FAILED,
            receiver=config.name,
        )

    return Sender({config.name: lambda message: deliver(config, server, message)}, post, bug)


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
    tls = verified_tls(url, authorities)
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
    server = client(config, config.urls[0], authorities)
    result = deliver(config, server, OutboundMail("test", (config.name,), data))
    yield outcome(config, server.url, result, f"accepted it: {result.answer}")


def outcome(config: ReceiverConfig, url: Url, result: SendResult, accepted: str) -> DialogueLine:
    """Return what came of an attempt at a URL, as a line of `iowarden test-notify`."""
    problem = result.error or "; ".join(result.refused.values())
    if _UNREACHED.search(problem):
        problem += "; correct the URL, or start the service there"
    text = f"receiver '{config.name}': {url.origin} {accepted}"
    return DialogueLine(problem or text, good=not problem)


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
