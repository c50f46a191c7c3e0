"""Watches the privileged probe and the programs that it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.control import documents
from iowarden.daemon.views import answers

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.collectors.model import Sample
    from iowarden.daemon.probe.protocol import Stuck
    from iowarden.daemon.probe_client.client import Client
    from iowarden.daemon.transition_log import TransitionLog


@dataclass(slots=True)
class ProbeWatch:
    """State of the probe. For the loop's thread only. Without a probe there is nothing to watch."""

    client: Client | None
    log: TransitionLog
    store: Callable[[], object]
    """Persists `stuck`."""
    stuck: tuple[Stuck, ...] = ()
    """Programs that were killed and hang in the kernel."""

    def check(self) -> None:
        """Log whether the probe answers, and which programs hang or ended since the last call."""
        if self.client is None:
            return
        self.log.trouble("probe", self.client.problem)
        before, self.stuck = self.stuck, self.client.stuck
        if before != self.stuck:
            self.log.stuck(before, self.stuck)
            self.store()

    def restore(self, stuck: tuple[Stuck, ...]) -> None:
        """Restore the programs that hung before the start."""
        if self.client is not None:
            self.stuck = stuck
            self.client.remember(stuck)

    def samples(self, now_realtime: float) -> list[Sample]:
        """Return the samples of daemon.probe_client.metrics.FAMILIES."""
        return [] if self.client is None else self.client.samples(now_realtime)

    def line(self) -> documents.ProbeLine:
        """Return the probe's status, for 'iowarden status'."""
        if self.client is None:
            return documents.ProbeLine(error="there is no probe")
        client = self.client
        stuck = answers.stuck(client.stuck)
        return documents.ProbeLine(client.connected, client.problem, client.programs, stuck)
