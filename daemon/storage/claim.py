"""Locks the state directory for the one service that writes there.

The lock is on the directory itself: it needs no file, works on a read-only file system, and ends
with the process that holds it, however that ends.
"""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.storage.bounded import WAIT_SECONDS, NoAnswerError, within

_LOCKS = "/proc/locks"
"""Source: proc(5): number, kind, 'ADVISORY', mode, process, device as hexadecimal, inode."""


class AlreadyClaimedError(Exception):
    """Another service has locked the directory; the text names it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A locked directory, until it is closed. `descriptor` None: it could not be locked.

    `problem`: why, if it hangs; then it is locked as soon as it answers, until the process ends.
    """

    descriptor: int | None
    problem: str = ""

    def close(self) -> None:
        """Release the lock."""
        if self.descriptor is not None:
            os.close(self.descriptor)


def claim(directory: str, wait_seconds: float = WAIT_SECONDS) -> Claim:
    """Lock a state directory, and create it if it is missing. Errors: AlreadyClaimedError.

    If it cannot be created, opened or locked at all (a failing disk, NFS), or not in this time,
    nothing is locked: a watchdog runs without, and reports by itself that it cannot write its
    state.
    """
    try:
        return within(wait_seconds, lambda: _locked(directory))
    except NoAnswerError as error:
        return Claim(
            None,
            f"'{directory}': the state directory does not answer: {error}; running without state"
            " until it does: alerts and incidents of before are not known, and mails wait in"
            " memory",
        )


def _locked(directory: str) -> Claim:
    try:
        os.makedirs(directory, mode=0o750, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return Claim(None)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        inode = os.fstat(descriptor).st_ino
        os.close(descriptor)
        who = _holder(inode)
        raise AlreadyClaimedError(
            f"'{directory}': the state directory is in use by another iowarden"
            f"{f' (pid {who})' if who else ''}; stop it first, or use another directory with"
            " --state-directory"
        ) from None
    except OSError:
        os.close(descriptor)
        return Claim(None)
    return Claim(descriptor)


def _holder(inode: int) -> int:
    """Return the process that holds a lock, 0 if it is unknown."""
    try:
        locks = Path(_LOCKS).read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    found = re.search(rf": FLOCK  ?ADVISORY  WRITE (\d{{1,9}}) [0-9a-f]+:[0-9a-f]+:{inode} ", locks)
    return int(found[1]) if found else 0
