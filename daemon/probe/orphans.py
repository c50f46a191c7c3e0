"""Orphans: killed processes of no open request, left behind by a program or hung in the kernel.

A program that survives SIGKILL hangs in the kernel. It is never waited for; nothing else is started
at its controllers while it exists, and everything else continues.
"""

from __future__ import annotations

import dataclasses
import math
import os
import selectors
import time
from functools import partial
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.probe import children, stuck

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.daemon.probe.limited_log import LimitedLog
    from iowarden.daemon.probe.protocol import Stuck

KILL_SECONDS = 3.0
"""After SIGKILL a program that does not hang in the kernel ends at once, even under load."""


@dataclass(slots=True, eq=False)
class _Orphan:
    """A process that was killed and has not ended. `reported`: the daemon shows it as stuck."""

    program: Stuck
    pidfd: int
    until: float
    reported: bool


class Orphans:
    """All orphans, and the register that the next probe reads them from."""

    def __init__(
        self,
        directory: str,
        selector: selectors.BaseSelector,
        log: LimitedLog,
        *,
        running: Callable[[], dict[int, Stuck]],
        notify: Callable[[], None],
        freed: Callable[[], None],
    ) -> None:
        """Start empty. `directory` is where the register is.

        `running` are the processes of open requests; `notify` is called when `stuck` changed,
        `freed` when another program may be started.
        """
        self._directory = directory
        self._selector = selector
        self._log = log
        self._running = running
        self._report = notify
        self._freed = freed
        self._left: dict[int, _Orphan] = {}
        self._boot = stuck.boot_identifier()

    def __len__(self) -> int:
        """Return their number."""
        return len(self._left)

    def stuck(self) -> tuple[Stuck, ...]:
        """Return the programs that survived SIGKILL."""
        return tuple(left.program for left in self._left.values() if left.reported)

    def programs(self) -> list[Stuck]:
        """Return all of them."""
        return [left.program for left in self._left.values()]

    def next_at(self) -> float:
        """Return when the next one is considered stuck; inf: none is waited for."""
        return min(
            (left.until for left in self._left.values() if not left.reported), default=math.inf
        )

    def on_time(self, now: float) -> None:
        """Consider those stuck that were killed long ago."""
        for left in tuple(self._left.values()):
            if now >= left.until and not left.reported:
                left.reported = True
                self.hang(left.program)

    def sweep(self, origin: Stuck) -> None:
        """Kill children of the probe that belong to no request: left behind, or in another group.

        `origin` is the program that ended just now; its controllers stay in use until all of them
        ended.
        """
        running = self._running()
        for pid in children.children(os.getpid()):
            if pid in running or pid in self._left or children.ended(pid) is not None:
                continue
            process = children.read_process(pid)
            if process is None or process.session in running:
                continue
            names = set(origin.controllers)
            if process.session != origin.pid:  # its request is unknown
                names.update(*(program.controllers for program in running.values()))
            left = dataclasses.replace(
                origin,
                pid=pid,
                start_ticks=process.start_ticks,
                controllers=tuple(sorted(names)),
            )
            self._leave(left, os.pidfd_open(pid), reported=False)

    def _leave(self, program: Stuck, pidfd: int, *, reported: bool) -> None:
        """Kill a process, and watch it until it has ended."""
        left = _Orphan(program, pidfd, time.monotonic() + KILL_SECONDS, reported)
        self._left[program.pid] = left
        self._selector.register(pidfd, selectors.EVENT_READ, partial(self._gone, left))
        children.kill(program.pid, pidfd)

    def _gone(self, left: _Orphan) -> None:
        """Remove a process that has finally ended."""
        pid = left.program.pid
        children.ended(pid)  # one started by an earlier probe is not our child
        if not stuck.over(left.pidfd):
            return
        self._selector.unregister(left.pidfd)
        os.close(left.pidfd)
        del self._left[pid]
        self.sweep(left.program)
        self.register()
        if left.reported:
            self._log.send(
                "notice", f"probe: {stuck.name(left.program)}, which hung in the kernel, has ended"
            )
            self._report()
        self._freed()

    def adopt(self, program: Stuck, pidfd: int) -> None:
        """Take over a program that survived SIGKILL, and whose pidfd is watched already."""
        left = self._left[program.pid] = _Orphan(program, pidfd, 0.0, reported=True)
        self._selector.modify(pidfd, selectors.EVENT_READ, partial(self._gone, left))

    def hang(self, program: Stuck) -> None:
        """Report a program that survived SIGKILL, to all clients."""
        self.register()
        self._log.send(
            "error",
            f"probe: {stuck.hangs(program)}; no program is started"
            f" at {', '.join(program.controllers) or 'it'} until it ends",
        )
        self._report()
        self._freed()

    def register(self) -> str:
        """Write the running and hung programs to the register; return '', or the error."""
        entries = [stuck.StartedProgram(program) for program in self._running().values()]
        entries += [
            stuck.StartedProgram(left.program, left.reported) for left in self._left.values()
        ]
        try:
            stuck.write(self._directory, entries, self._boot)
        except OSError as error:
            problem = f"cannot record the running programs: {error}; is the file system full?"
            self._log.write("error", f"probe: {problem}")
            return problem
        return ""

    def take_over(self) -> None:
        """Take over processes of an earlier probe: kill them again, watch them until they end."""
        status = os.stat(self._directory)
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            # Any user who can write there could have any process killed.
            raise PermissionError(
                f"'{self._directory}': expected a directory owned by root and writable by root"
                f" only, got owner {status.st_uid} and mode {status.st_mode & 0o7777:04o}"
            )
        try:
            entries = stuck.read(self._directory, self._boot)
        except (OSError, ValueError) as error:
            entries = []
            self._log.write(
                "error", f"probe: {error}; programs left hanging by an earlier probe are not known"
            )
        for entry, pidfd in stuck.survivors(entries, self._directory):
            self._leave(entry.program, pidfd, reported=entry.reported)
            self._log.write(
                "warning",
                f"probe: {stuck.name(entry.program)} was left by an earlier probe; killed",
            )
        for name in os.listdir(self._directory):
            if name.startswith(children.SCRATCH):
                children.remove(os.path.join(self._directory, name))
        self.register()
