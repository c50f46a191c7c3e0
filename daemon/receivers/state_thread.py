"""A thread that makes one attempt at a time with what is newest, and the account of a receiver."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

from iowarden.collectors.model import trace
from iowarden.collectors.quantity import duration
from iowarden.daemon import journal, metrics
from iowarden.daemon.control.documents import MailLine
from iowarden.daemon.notify.attempt import SendResult
from iowarden.daemon.notify.retry import REFUSALS
from iowarden.daemon.receivers.http_client import ATTEMPT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.collectors.model import Sample
    from iowarden.daemon.config.receivers import ReceiverConfig
    from iowarden.daemon.transition_log import TransitionLog

T = TypeVar("T")
_HUNG_SECONDS = 3 * ATTEMPT_SECONDS
LASTING_SECONDS = 900.0
"""A refusal of everything that lasts for so long is reported by another receiver."""


class StateThread(Generic[T]):
    """Sends the newest of what it is given; what came while it was sending replaces older."""

    def __init__(
        self,
        config: ReceiverConfig,
        name: str,
        send: Callable[[T], SendResult],
        post: Callable[[object], object],
    ) -> None:
        """Start the thread; `send` makes an attempt, `post` takes its result."""
        self.working_since: float | None = None
        self.name = name
        self._config = config
        self._send = send
        self._post = post
        self._changed = threading.Condition()
        self._newest: T | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"to {config.name}", daemon=True)
        self._thread.start()

    def submit(self, newest: T) -> None:
        """Request an attempt with this, in place of what still waits."""
        with self._changed:
            self._newest = newest
            self._changed.notify()

    def close(self, timeout_seconds: float) -> bool:
        """End after the attempt in progress; return whether that happened in time."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._newest is not None or self._closing)
                newest, self._newest = self._newest, None
            if newest is None:
                return
            self.working_since = time.monotonic()
            try:
                result = self._send(newest)
            except Exception as error:  # noqa: BLE001 - a thread that ends would send nothing more
                said = f"receiver '{self._config.name}': bug: {trace(error)}"
                result = SendResult(
                    self.name,
                    error=self._config.redactor.text(said),
                    receiver=self._config.name,
                )
            self.working_since = None
            self._post(result)


class Account:
    """How often a receiver accepted the state and how often not, by its URLs; for the loop.

    It fails while none of its URLs accepts: one member of a cluster informs the others.
    """

    def __init__(self, config: ReceiverConfig) -> None:
        """Start without an attempt."""
        self._name = config.name
        self._where = f"receiver '{config.name}'"
        self._destination = ", ".join(url.origin for url in config.urls)
        self._urls = len(config.urls)
        self._failing: dict[str, SendResult] = {}
        """The last failed attempt by URL."""
        self._refused_since: float | None = None
        """Since when every URL answers that an administrator has to correct something."""
        self._since: float | None = None
        self._started: float | None = None
        self._delivered_total = 0
        self._failed_total = 0
        self._delivered_seconds: float | None = None
        self.refused = 0
        """Number of alerts that the receiver refused."""

    def attempt(self, now: float) -> None:
        """Note that an attempt begins."""
        self._started = now if self._started is None else self._started

    def take(self, result: SendResult, now: float, log: TransitionLog) -> None:
        """Process the result of an attempt at a URL."""
        if result.error:
            self._failed_total += 1
            self._failing[result.message_id] = result
            if self._since is None and len(self._failing) == self._urls:
                self._since = now if self._started is None else self._started
        else:
            self._delivered_total += 1
            self._delivered_seconds = now
            self._failing.pop(result.message_id, None)
            self._since = None
        self._started = None
        faults = [failed.fault in REFUSALS for failed in self._failing.values()]
        is_refused = len(faults) == self._urls and all(faults)
        since = now if self._refused_since is None else self._refused_since
        self._refused_since = since if is_refused else None
        text = f"{result.error}; will be retried" if result.error else ""
        log.trouble(f"{self._where} {result.message_id}", text, journal.MAIL_FAILED)

    def check(self, thread_name: str, working_since: float | None, log: TransitionLog) -> None:
        """Log when a thread has been blocked for too long."""
        log.hung(
            f"{self._where} thread {thread_name}",
            working_since,
            _HUNG_SECONDS,
            f"{self._where}: an attempt has been blocked for over {duration(_HUNG_SECONDS)}",
            journal.MAIL_FAILED,
        )

    def samples(self, now: float) -> list[Sample]:
        """Return its samples; the age of what is unsent is that of the first failed attempt."""
        label = (("receiver", self._name),)
        last, since = self._delivered_seconds, self._since
        ages = [] if last is None else [(metrics.MAIL_LAST_DELIVERED.name, label, now - last)]
        return [
            *ages,
            (metrics.MAILS.name, (*label, ("result", "delivered")), float(self._delivered_total)),
            (metrics.MAILS.name, (*label, ("result", "failed")), float(self._failed_total)),
            (metrics.MAILS_REFUSED.name, label, float(self._refused(now))),
            (metrics.MAIL_OLDEST_UNSENT.name, label, 0.0 if since is None else now - since),
        ]

    def line(self, now: float, realtime: Callable[[float], float]) -> MailLine:
        """Return its state, for 'iowarden status'."""
        return MailLine(
            receiver=f"{self._name} ({self._destination})",
            refused=self._refused(now),
            oldest_seconds=None if self._since is None else realtime(min(self._since, now)),
            error="; ".join(failed.error for failed in self._failing.values()),
        )

    def _refused(self, now: float) -> int:
        """Return the number of refused alerts; a receiver that refuses everything counts as one.

        Then another receiver reports it (alert NotificationRefused).
        """
        since = self._refused_since
        is_lasting = since is not None and now - since >= LASTING_SECONDS
        return max(self.refused, int(is_lasting))
