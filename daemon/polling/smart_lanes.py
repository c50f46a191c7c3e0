"""Polling queues: limits the number of programs that run at a time on each controller.

All under the poller's lock.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.smart import identity
from iowarden.collectors.smart.drive import AccessMethod, ReadStatus
from iowarden.daemon.polling import smart_schedule
from iowarden.daemon.polling.smart_discovery import diskseq_path
from iowarden.daemon.polling.smart_schedule import GOOD, PolledTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.smart.drive import Disk
    from iowarden.collectors.smart.options import Options
    from iowarden.daemon.polling.smart_discovery import Discovery, DiscoveryResult

MAX_AT_ONCE = 8
"""Limit of drives polled when they are found; the polls of the others are spread."""
DIRECT_LANES = 2
"""Programs at a time on a controller that hides no disk; on one that does, the limit is one."""


class Lanes:
    """All access methods of a machine, by target; each controller has its own queue."""

    def __init__(self) -> None:
        """Start without drives."""
        self.methods: dict[AccessMethod, PolledTarget] = {}
        self._lanes: dict[str, int] = {}
        self._busy: Counter[str] = Counter()
        """Running programs, by controller."""

    def take_over(
        self, discovery: Discovery, now: float, options: Options, *, program_came_or_went: bool
    ) -> None:
        """Apply the drives of a discovery; those already known keep their state."""
        looked = discovery.result
        if looked.discovered is None:
            return
        before, self.methods = self.methods, {}
        for target in looked.discovered.targets:
            known = before.get(target)
            diskseq = next(iter(discovery.listed.get(diskseq_path(target.device), ())), "")
            if known is None or (known.diskseq != diskseq and not known.busy):
                known = smart_schedule.new_target(target, looked.topology, diskseq, options)
            self.methods[target] = known
        for each in looked.discovered.unmonitored:
            fixed = smart_schedule.unmonitored(each, looked.topology, options)
            self.methods.setdefault(fixed.target, fixed)
        hides = {_controller(t) for t in looked.discovered.targets if t.behind_raid()}
        controllers = map(_controller, looked.discovered.targets)
        self._lanes = {each: 1 if each in hides else DIRECT_LANES for each in controllers}
        new = [
            method
            for method in self.methods.values()
            if not method.fixed
            and (
                method.due == float("inf")
                or (program_came_or_went and looked.can_poll(method.target))
            )
        ]
        spread_seconds = 0.0 if len(new) <= MAX_AT_ONCE else options.spread_seconds
        for method in new:
            method.due = now + spread_seconds * smart_schedule.share(method.target)
        # Of two access methods that the kernel knows to be one disk, only one is polled.
        self.merged(now, options)

    def due(self, result: DiscoveryResult, now: float) -> Iterator[PolledTarget]:
        """Yield the access methods that may be polled now."""
        for method in self.methods.values():
            controller = _controller(method.target)
            if (
                result.can_poll(method.target)
                and not (method.busy or method.fixed or method.due > now)
                and self._busy[controller] < self._lanes[controller]
            ):
                yield method

    def free(self, result: DiscoveryResult, now: float) -> int:
        """Return how many more programs may be started now."""
        due = Counter(_controller(method.target) for method in self.due(result, now))
        return sum(min(n, self._lanes[each] - self._busy[each]) for each, n in due.items())

    def begin(self, result: DiscoveryResult, now: float) -> PolledTarget | None:
        """Return the access method due first, now marked as being polled; None: none is due."""
        due = self.due(result, now)
        method = min(due, key=lambda each: (each.due, str(each.target)), default=None)
        if method is not None:
            method.busy = True
            self._busy[_controller(method.target)] += 1
        return method

    def end(self, method: PolledTarget) -> None:
        """Note that its poll has ended."""
        method.busy = False
        self._busy[_controller(method.target)] -= 1

    def merged(self, now: float, options: Options) -> dict[str, Disk]:
        """Return the disks, and mark the best access method of each."""
        disks = self._disks()
        changed = False
        for disk in disks.values():
            best = disk.polled
            answers = best.status in {*GOOD, ReadStatus.NOT_POLLED_YET}
            for target in (best.target, *disk.others):
                method = self.methods[target]
                if method.best != (is_best := target == best.target or not answers):
                    method.best, changed = is_best, True
                    method.set_period(options, now)
        return self._disks() if changed else disks  # the poll intervals did

    def _disks(self) -> dict[str, Disk]:
        methods = self.methods.values()
        return identity.merge(replace(each.identity, polled=each.polled) for each in methods)


def _controller(target: AccessMethod) -> str:
    return target.controller or target.path
