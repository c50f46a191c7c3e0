"""The state directory, claimed by the one service that writes there.

A lock on the directory itself: it needs no file, holds on a file system that is read-only, and ends
with the process that has it, however that ends.
"""

from __future__ import annotations

import fcntl
import os
import re
from dataclasses import dataclass
from pathlib import Path

_LOCKS = "/proc/locks"
"""Source: proc(5): number, kind, 'ADVISORY', mode, process, device as hexadecimal, inode."""


class TakenError(Exception):
    """Another service has the directory; the text names it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A directory that is ours, until it is closed. `descriptor` None: nobody could lock it."""

    descriptor: int | None

    def close(self) -> None:
        """Let others have it."""
        if self.descriptor is not None:
            os.close(self.descriptor)


def claim(directory: str) -> Claim:
    """Claim a state directory, which is made where it is missing. Errors: TakenError.

    Where it cannot be made, opened or locked at all (a disk that fails, NFS) nothing is claimed: a
    watchdog goes on without, and says by itself that it cannot write its state.
    """
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
        raise TakenError(
            f"'{directory}': the state directory is in use by another iowarden"
            f"{f' (pid {who})' if who else ''}; stop it first, or use another directory with"
            " --state-directory"
        ) from None
    except OSError:
        os.close(descriptor)
        return Claim(None)
    return Claim(descriptor)


def _holder(inode: int) -> int:
    """Return the process that has a lock, 0 where nobody can tell."""
    try:
        locks = Path(_LOCKS).read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    found = re.search(rf": FLOCK  ?ADVISORY  WRITE (\d{{1,9}}) [0-9a-f]+:[0-9a-f]+:{inode} ", locks)
    return int(found[1]) if found else 0
