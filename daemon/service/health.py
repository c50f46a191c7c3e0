"""Health of the service: reported to systemd (sd_notify(3)) and over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Outcome
from iowarden.collectors.quantity import duration
from iowarden.daemon import journal
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.daemon.clock import SystemClock
    from iowarden.daemon.transition_log import TransitionLog
    from iowarden.rules.engine.engine import Engine

HEALTHY_SECONDS = 30.0
"""Like WatchdogSec in the unit: the longest time one tick of the loop may take."""
FIRST_ROUND_SECONDS = 30.0
"""READY waits at most this long for collectors that may hang."""


@dataclass(slots=True)
class ServiceHealth:
    """Health, updated by the loop's thread; HTTP threads call `healthy`, `ready` and `landing`."""

    engine: Engine
    clock: SystemClock
    log: TransitionLog
    notify: Callable[[str], object]
    """sd_notify: takes the text of the datagram."""
    is_ready: bool = False
    alerts_known: bool = False
    """Whether the metrics have the alerts of before the restart."""
    turned_seconds: float = 0.0
    """When the loop ran last."""
    started_seconds: float | None = None
    """When the first tick began."""
    _landing: str = "Starting: no alert was evaluated yet."
    _status: str = ""

    def healthy(self) -> str:
        """Return '' while the loop is running, else for how long it has not run."""
        behind = self.clock.now() - self.turned_seconds
        return (
            "" if behind <= HEALTHY_SECONDS else f"the main loop has not run for {duration(behind)}"
        )

    def ready(self) -> str:
        """Return '' after the first complete poll of all collectors, else what is missing."""
        return "" if self.is_ready else "the first poll of all collectors is not complete"

    def scrapable(self) -> str:
        """Return '' when the metrics have the stored alerts: their absence would resolve them."""
        return "" if self.alerts_known else "the alerts in state.db are not loaded yet"

    def landing(self) -> str:
        """Return a sentence about the alerts of the last tick."""
        return self._landing

    def turns(self, now: float) -> None:
        """Note that a tick begins."""
        if self.started_seconds is None:
            self.started_seconds = now

    def since_start(self, now: float) -> float:
        """Return the time since the first tick began."""
        return 0.0 if self.started_seconds is None else now - self.started_seconds

    def turned(self, now: float, mails: int, refusal: str) -> None:
        """Report a tick to systemd; `mails` are queued, `refusal` is the last reload's error."""
        self.turned_seconds = now
        firing = [a for a in self.engine.rules.alerts() if a.active]
        warnings = sum(a.severity >= Severity.WARNING for a in firing)
        names = ", ".join(sorted({a.name for a in firing}))
        self._landing = f"Alerts: {names}." if names else "No alert is firing."
        sources = self.engine.sources.values()
        silent = [
            f"{s.source.name} ({s.paused_because})" if s.paused_because else s.source.name
            for s in sources
            if s.is_silent
        ]
        if not self.is_ready and (
            all(s.reading is not None for s in sources)
            or self.since_start(now) > FIRST_ROUND_SECONDS
        ):
            self.is_ready = True
            self.notify("READY=1")
            self.log.send(journal.STARTED, 6, self._summary())
        status = (
            f"{warnings} warning or critical, {len(firing) - warnings} notice or info alerts;"
            f" {mails} mails waiting"
            + (f"; no data from: {', '.join(silent)}" if silent else "")
            + (f"; configuration reload failed: {refusal}" if refusal else "")
        )
        text = "WATCHDOG=1"
        if status != self._status:
            self._status = status
            text += f"\nSTATUS={status}"
        self.notify(text)

    def _summary(self) -> str:
        status = self.engine.sources.values()
        good = sum(s.outcome() is Outcome.OK for s in status)
        block = self.engine.last.block
        leaves = 0 if block is None else len(block.leaves)
        return (
            f"ready: {good} of {len(status)} collectors read, {leaves} disk{'s'[: leaves != 1]},"
            f" {len(self.engine.rules)} rules"
        )
