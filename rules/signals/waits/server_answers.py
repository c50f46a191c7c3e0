"""When servers last answered a call that took long, by what is mounted from them. Pure.

A server that answers each call after 20 s is not silent: its network is not the first to check.
That a call has returned is an answer only where the mount waits for ever ('hard'); a soft one gives
up. Units: seconds of the program's clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.procfs.tasks import writeback_channel
from iowarden.rules.signals.storage_call import is_server, waits_for_server

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.filesystem.mountinfo import Mount
    from iowarden.collectors.procfs.tasks import BlockedTask
    from iowarden.rules.signals.waits.waits import Wait

LONG_SECONDS = 4.0
"""An answer is slow from here on; and one so long after the oldest call began shows that the server
was there when that call waited already."""
RECENT_SECONDS = 20.0
"""An older answer is no evidence, unless the answers take longer."""
_PAUSED = "balance_dirty_pages"
_SOFT = frozenset({"soft", "softerr"})
"""nfs(5): a call ends with an error after some retransmissions."""
_SMB = frozenset({"cifs", "smb3"})
"""They give up unless mounted 'hard'. Source: mount.cifs(8)."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The last answer of a server: when it was seen, and how long the call took at least."""

    at_seconds: float
    took_seconds: float


def is_answered(task: BlockedTask) -> bool:
    """Whether a task's call returns only when a server has answered: a paused writer's does not."""
    return waits_for_server(task) and writeback_channel(task) != _PAUSED


def next_answers(
    before: Mapping[str, Answer],
    returned: Mapping[str, Iterable[Wait]],
    mounts: Iterable[Mount],
    now: float,
) -> dict[str, Answer]:
    """Return the last answers, with the calls that have returned since the last poll, by mount."""
    gives_up = {mount.source for mount in mounts if _gives_up(mount)}
    answers = {
        name: Answer(now, max(wait.min_seconds for wait in waits))
        for name, waits in returned.items()
        if is_server(name) and name not in gives_up
    }
    return {name: answer for name, answer in before.items() if _is_recent(answer, now)} | answers


def is_answering(answer: Answer | None, waits: Iterable[Wait], now: float) -> bool:
    """Whether a server that these calls wait for answers, however slowly."""
    if answer is None or not _is_recent(answer, now):
        return False
    oldest = min((wait.first_seconds for wait in waits), default=now)
    return answer.took_seconds >= LONG_SECONDS or answer.at_seconds >= oldest + LONG_SECONDS


def _is_recent(answer: Answer, now: float) -> bool:
    return now - answer.at_seconds <= max(RECENT_SECONDS, 2.0 * answer.took_seconds)


def _gives_up(mount: Mount) -> bool:
    options = {*mount.options, *mount.super_options}
    return not options.isdisjoint(_SOFT) or (mount.kind in _SMB and "hard" not in options)
