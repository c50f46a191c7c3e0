"""Ping: a GET to a dead man's switch, only while iowarden works; never caught up.

It is sent from the loop, so that it ends when the loop does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.daemon import journal
from iowarden.daemon.notify.attempt import SendResult
from iowarden.daemon.notify.smtp import AUTHORITIES
from iowarden.daemon.receivers import http_sender
from iowarden.daemon.receivers.http_client import ATTEMPT_SECONDS, HttpRequest
from iowarden.daemon.receivers.state_thread import Account, StateThread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iowarden.collectors.model import Sample
    from iowarden.daemon.config.receivers import ReceiverConfig
    from iowarden.daemon.control.documents import MailLine
    from iowarden.daemon.notify.attempt import DialogueLine
    from iowarden.daemon.notify.delivery import PresentState
    from iowarden.daemon.receivers.http_client import HttpClient
    from iowarden.daemon.transition_log import TransitionLog


class Ping:
    """A receiver of type ping; as delivery.StateReceiver."""

    def __init__(
        self,
        config: ReceiverConfig,
        post: Callable[[object], object],
        authorities: str = AUTHORITIES,
        attempt_seconds: float = ATTEMPT_SECONDS,
    ) -> None:
        """Start its thread."""
        self._config = config
        client = http_sender.client(config, config.urls[0], authorities, attempt_seconds)
        self._thread = StateThread[bool](
            config, client.url.origin, lambda _: _ping(config, client), post
        )
        self._account = Account(config)
        self._due_seconds = float("-inf")
        self._withheld = ""

    def step(self, now: float, state: PresentState) -> None:
        """Send a ping if one is due and nothing is wrong with iowarden itself."""
        if now < self._due_seconds:
            return
        self._due_seconds = now + self._config.period_seconds
        self._withheld = state.unhealthy
        if not state.unhealthy:
            self._account.attempt(now)
            self._thread.submit(True)  # noqa: FBT003 - there is nothing to send

    def sent(self, result: SendResult, now: float, log: TransitionLog) -> None:
        """Process the result of an attempt."""
        self._account.take(result, now, log)

    def check_threads(self, log: TransitionLog) -> None:
        """Log when the thread has been blocked for too long, and why no ping is sent."""
        self._account.check(self._thread.name, self._thread.working_since, log)
        text = f"receiver '{self._config.name}': no ping is sent: {self._withheld}"
        log.trouble(
            f"ping {self._config.name}", text if self._withheld else "", journal.MAIL_FAILED
        )

    def samples(self, now: float) -> list[Sample]:
        """Return its samples."""
        return self._account.samples(now)

    def line(self, now: float, realtime: Callable[[float], float]) -> MailLine:
        """Return its state, for 'iowarden status'."""
        return self._account.line(now, realtime)

    def incidents(self) -> frozenset[str]:
        """Return none: a ping has no alert."""
        return frozenset()

    def close(self, timeout_seconds: float) -> bool:
        """End its thread."""
        return self._thread.close(timeout_seconds)


def try_ping(config: ReceiverConfig, authorities: str = AUTHORITIES) -> Iterator[DialogueLine]:
    """Send one ping and yield what came of it."""
    client = http_sender.client(config, config.urls[0], authorities)
    result = _ping(config, client)
    yield http_sender.outcome(config, client.url, result, f"accepted a ping: {result.answer}")


def _ping(config: ReceiverConfig, client: HttpClient) -> SendResult:
    reply = client.send(HttpRequest("GET"))
    name = client.url.origin
    if reply.good:
        return SendResult(name, answer=reply.text(), receiver=config.name)
    return http_sender.failed(config, client, reply, name, http_sender.failure(config, reply))
