"""Document of who waits for storage, a part of the status. Pure."""

from __future__ import annotations

from iowarden.collectors.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class WaitingLine:
    """A program whose tasks are blocked by a device, and that does not cause it.

    Names are '' where the configuration hides them: then one line stands for all of a device.
    """

    device: str = ""
    """Or the server of a network mount, or 'pool tank' of ZFS; '' if not known."""
    program: str = ""
    unit: str = ""
    pid: int = 0
    tasks: int = 0
    """Number of its blocked tasks."""
    call: str = ""
    """'fsync', 'a page fault', a function of the kernel; '' if not known."""
    file: str = ""
    """Of the longest wait; '' if not known."""
    seconds: float = 0.0
    """So long it has waited at least, in one system call."""
    seen_seconds: float = 0.0
    """When it was last seen to wait."""
    waits_now: bool = False
    """False: between two freezes of a series that is open."""
    cause: str = ""
    """'discarding', 'connection', 'hang', 'stuck requests', 'at its limit', 'slow', 'neighbour',
    'server', 'slow server', 'suspended', 'not passed on', 'frozen', 'own limit',
    'own memory limit', 'swap storm', 'backlog', 'synchronizing', 'pool sync', 'journal', 'memory',
    'lock', 'unknown'.
    """
    because: str = ""
    """The programs that move the bytes or discard, at most three; '' if no single one does; or the
    limits of control groups."""
