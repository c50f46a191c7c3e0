"""Whether the service works: to systemd (sd_notify(3)), and to who asks over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iowarden.collectors.model import Outcome
from iowarden.daemon import journal
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.daemon.clock import SystemClock
    from iowarden.daemon.transition_log import Telling
    from iowarden.rules.engine.engine import Engine

HEALTHY_SECONDS = 30.0
"""As the watchdog of the unit: so long the loop may take for a turn."""
FIRST_ROUND_SECONDS = 30.0
"""READY does not wait longer for a source that may hang."""


@dataclass(slots=True)
class Health:
    """Kept by the loop's thread; those of HTTP call `healthy`, `ready` and `landing`."""

    engine: Engine
    clock: SystemClock
    log: Telling
    notify: Callable[[str], object]
    """sd_notify: takes the text of the datagram."""
    is_ready: bool = False
    turned_seconds: float = 0.0
    """When the loop turned last."""
    started_seconds: float | None = None
    """When its first turn began."""
    _landing: str = "Nothing is known yet."
    _status: str = ""

    def healthy(self) -> str:
        """Return '' while the loop turns, else how long it has not."""
        behind = self.clock.now() - self.turned_seconds
        return "" if behind <= HEALTHY_SECONDS else f"the loop has not turned for {behind:.0f} s"

    def ready(self) -> str:
        """Return '' after the first full round, else what is missing."""
        return "" if self.is_ready else "the first round over all collectors is not over yet"

    def landing(self) -> str:
        """Return a sentence about the alerts of the last turn."""
        return self._landing

    def turns(self, now: float) -> None:
        """Take note that a turn begins."""
        if self.started_seconds is None:
            self.started_seconds = now

    def since_start(self, now: float) -> float:
        """Return how long ago the first turn began."""
        return 0.0 if self.started_seconds is None else now - self.started_seconds

    def turned(self, now: float, mails: int, refusal: str) -> None:
        """Tell systemd of a turn; `mails` wait, `refusal` is why a configuration was refused."""
        self.turned_seconds = now
        firing = [a for a in self.engine.rules.alerts() if a.active]
        warnings = sum(a.severity >= Severity.WARNING for a in firing)
        names = ", ".join(sorted({a.name for a in firing}))
        self._landing = f"Alerts: {names}." if names else "No alert fires."
        sources = self.engine.sources.values()
        silent = [s.source.name for s in sources if s.silent()]
        if not self.is_ready and (
            all(s.reading is not None for s in sources)
            or self.since_start(now) > FIRST_ROUND_SECONDS
        ):
            self.is_ready = True
            self.notify("READY=1")
            self.log.send(journal.STARTED, 6, self._summary())
        status = (
            f"{warnings} warning or critical, {len(firing) - warnings} informative alerts;"
            f" {mails} mails waiting"
            + (f"; not readable: {', '.join(silent)}" if silent else "")
            + (f"; configuration refused: {refusal}" if refusal else "")
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
            f"ready: {good} of {len(status)} sources read, {leaves} disk{'s'[: leaves != 1]},"
            f" {len(self.engine.rules)} rules"
        )
