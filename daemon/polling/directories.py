"""Polls the directories of 'watch_directories' through the probe, each without delaying another.

A directory of a million files, or of a server that is down, takes a minute: each is read by one of
a few threads, which end afterwards; the latest result is always available at once. For a recorded
machine each poll reads the recorded answer.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from iowarden.collectors.filesystem.backups import DirectoryState
from iowarden.collectors.filesystem.newest import problem, read_listing
from iowarden.collectors.model import (
    AbsentError,
    DeadlineError,
    ParseError,
    ReadError,
    StuckError,
    trace,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iowarden.collectors.filesystem.backups import WatchedDirectory
    from iowarden.collectors.machine import Machine

MAX_THREADS = 8
"""Beyond so many directories that hang at once, the others wait for the probe's deadline."""
WAIT_SECONDS = 5.0
"""A poll waits this long for results; less than what counts as stuck (STUCK_SECONDS)."""


class DirectoryPoller:
    """The watched directories of a machine. `read` is for one thread, `configure` for any."""

    def __init__(self, clock: Callable[[], float], wait_seconds: float = WAIT_SECONDS) -> None:
        """Start without directories. `clock` is the program's."""
        self._clock = clock
        self._wait_seconds = wait_seconds
        # Under the lock:
        self._lock = threading.Condition()
        self._watched: tuple[WatchedDirectory, ...] = ()
        self._waiting: deque[WatchedDirectory] = deque()
        self._running: set[WatchedDirectory] = set()
        self._threads = 0
        self._states: dict[WatchedDirectory, DirectoryState] = {}
        self._mount_points: dict[str, str] = {}
        """The deepest mount point seen, by path."""
        self._texts: dict[WatchedDirectory, dict[str, bytes]] = {}
        """What the latest poll of each read, for a recorder."""

    def configure(self, watched: Sequence[WatchedDirectory]) -> None:
        """Set the directories; those that are no longer among them are forgotten."""
        with self._lock:
            self._watched = tuple(watched)
            self._states = {w: state for w, state in self._states.items() if w in self._watched}
            self._texts = {w: texts for w, texts in self._texts.items() if w in self._watched}
            paths = {each.path for each in self._watched}
            self._mount_points = {p: m for p, m in self._mount_points.items() if p in paths}

    def read(self, root: Machine) -> tuple[DirectoryState, ...]:
        """Read all directories; return the latest result of each, in the configured order.

        Errors: AbsentError (none is configured).
        """
        with self._lock:
            watched = self._watched
            if not watched:
                raise AbsentError("no 'watch_directories' in the configuration")
            if not root.path:
                self._waiting += [
                    w for w in watched if w not in self._running and w not in self._waiting
                ]
                self._begin(root)
                self._lock.wait_for(
                    lambda: not self._running and not self._waiting, self._wait_seconds
                )
                for texts in self._texts.values():
                    root.report_read(texts.items())
        if root.path:
            for each in watched:
                self._finish(self._listed(root, each), {})
        with self._lock:
            return tuple(self._states.get(w, DirectoryState(w)) for w in watched)

    def _begin(self, root: Machine) -> None:
        """Start threads for what waits; to be called with the lock."""
        while self._threads < min(MAX_THREADS, len(self._running) + len(self._waiting)):
            self._threads += 1
            threading.Thread(
                target=self._work,
                args=(root.another(),),
                name="read directory",
                daemon=True,
            ).start()

    def _work(self, root: Machine) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    break
                watched = self._waiting.popleft()
                self._running.add(watched)
            texts: dict[str, bytes] = {}
            root.watch(texts.__setitem__)
            self._finish(self._listed(root, watched), texts)
        root.close()

    def _listed(self, root: Machine, watched: WatchedDirectory) -> DirectoryState:
        at, listing, reason = self._clock(), None, ""
        try:
            listing = read_listing(root, watched.path, watched.glob)
            reason = problem(listing) or self._unmounted(watched.path, listing.mount_point)
        except (DeadlineError, StuckError) as error:
            # Not a long listing: that ends before the deadline.
            reason = f"its file system does not answer; check its server or disk: {error}"
        except (AbsentError, ReadError, ParseError) as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not end the thread
            reason = f"bug: {trace(error)}"
        return DirectoryState(watched, None if reason else listing, at, reason)

    def _unmounted(self, path: str, mount_point: str) -> str:
        """Return '', or that the file system that a directory was on is no longer mounted."""
        with self._lock:
            known = self._mount_points.setdefault(path, mount_point)
            if len(mount_point) >= len(known):
                self._mount_points[path] = mount_point
                return ""
        return (
            f"'{path}': '{known}' was mounted, and is no longer; mount it, or restart iowarden if"
            " this is intended"
        )

    def _finish(self, state: DirectoryState, texts: dict[str, bytes]) -> None:
        with self._lock:
            self._running.discard(state.watched)
            if state.watched in self._watched:
                self._states[state.watched] = state
                self._texts[state.watched] = texts
            self._lock.notify_all()
