"""Sources that remember something from look to look, and to which others talk as well."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iowarden.collectors import registry
from iowarden.collectors.kmsg import kernel_log
from iowarden.collectors.raid import controller_poller, vendors
from iowarden.collectors.smart import smart_poller
from iowarden.collectors.source import with_readers

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.collectors.source import Source
    from iowarden.daemon.clock import SystemClock


@dataclass(frozen=True, slots=True)
class Stateful:
    """What asks drives and controllers and reads the kernel's log."""

    drives: smart_poller.Poller
    controllers: controller_poller.Poller
    kernel_log: kernel_log.Reader

    def sources(self) -> list[Source[Any]]:
        """Return all sources, some of them read by these."""
        return with_readers(
            registry.SOURCES,
            {
                "smart": self.drives.read,
                "controllers": self.controllers.read,
                "kernel_log": self.kernel_log.read,
            },
        )


def make(
    options: smart_poller.Options,
    clock: SystemClock,
    open_log: Callable[[], int] | None = None,
    *,
    most_told_bytes: float = math.inf,
) -> Stateful:
    """Return them; nothing is asked yet. `open_log` returns a descriptor of '/dev/kmsg'."""
    return Stateful(
        smart_poller.Poller(options, clock.now, most_told_bytes=most_told_bytes),
        controller_poller.Poller(vendors.BACKENDS, clock.now),
        # The kernel's time stamps are of CLOCK_MONOTONIC.
        kernel_log.Reader(open_log, clock.uptime, lambda: clock.realtime(clock.now())),
    )
