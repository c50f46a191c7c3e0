"""State receivers: they are sent what is true now, which is never queued.

Source: prometheus.io/docs/alerting/latest/clients (an Alertmanager expects each alert again).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iowarden.collectors.model import Sample
    from iowarden.daemon.control.documents import MailLine
    from iowarden.daemon.notify.attempt import SendResult
    from iowarden.daemon.transition_log import TransitionLog
    from iowarden.rules.alerting.alerts import Alert


@dataclass(frozen=True, slots=True)
class PresentState:
    """What is true now."""

    alerts: Sequence[Alert]
    """Of rules and events, in any state."""
    incidents: Callable[[], dict[object, str]]
    """Return the incident's identifier by an alert's key."""
    realtime: Callable[[float], float]
    """Return the Unix time of a time on the program's clock."""
    unhealthy: str = ""
    """Why a ping would be wrong: a collector is stuck, or notifications are overdue."""


class StateReceiver(Protocol):
    """Sends the present state by threads of its own and never blocks."""

    def step(self, now: float, state: PresentState) -> None:
        """Send it if that is due."""

    def sent(self, result: SendResult, now: float, log: TransitionLog) -> None:
        """Process the result of an attempt."""

    def check_threads(self, log: TransitionLog) -> None:
        """Log when a thread has been blocked for too long."""

    def samples(self, now: float) -> list[Sample]:
        """Return the samples of its notifications."""

    def line(self, now: float, realtime: Callable[[float], float]) -> MailLine:
        """Return its state, for 'iowarden status'."""

    def close(self, timeout_seconds: float) -> bool:
        """End its threads."""
