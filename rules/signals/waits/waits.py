"""Blocked tasks over successive polls: for how long each has been in one call about storage. Pure.

Two ages of each wait. The lower bound is the time between the first and the last poll that saw it
in the same call: that long it has waited at least, and mails print it. The upper bound begins at
the poll before the first one, or in the second in which something gave reason to poll: that long
it may have waited. Thresholds compare the upper bound of several victims; one victim alone is
judged by the lower bound and one poll (`likely_seconds`). Units: seconds of the program's clock.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.signals.storage_call import (
    Purpose,
    mapped_process,
    purpose,
    waits_for_lock,
    waits_in,
)
from iowarden.rules.signals.waits.same_call import Continuity, continuity, is_another_call

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.procfs.tasks import BlockedTask

Key = tuple[int, int]
"""Task number and start: the number alone may be used again."""
UNPROVEN_SECONDS = 9.0
"""A wait whose call cannot be compared never counts as older: it is counted, and no more."""
UNPROVEN_AT_LIMIT_SECONDS = 20.0
"""The same while the host is at its dirty limit and the kernel pauses the task for that: kernels
before 3.2 have neither 'syscall' of threads nor thresholds, and pause for seconds."""
AT_LIMIT_RATIO = 0.95
SERVERS = ("nfsd", "ksmbd", "vhost-", "iscsi_trx", "iscsi_ttx")
"""Kernel threads that serve clients or guests, and count as programs. Source: kernel,
fs/nfsd/nfssvc.c, fs/smb/server/connection.c, drivers/vhost/vhost.c, drivers/target/iscsi."""
OWN = "iowarden"
"""Its units and programs: what its own scans and polls wait for harms no program."""
_PAUSED = ("balance_dirty_pages", "blk_congestion_wait")
FOLLOWED_SECONDS = 2.0
"""Between two polls while a wait goes on."""
LATE_POLL_SECONDS = 5.0
"""A poll after a longer gap does not show when what it sees began."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A task that was blocked, in the same call, at every poll since the first."""

    task: BlockedTask
    purpose: Purpose
    first_seconds: float
    last_seconds: float
    not_before_seconds: float
    """The poll before the first, or the second of its trigger."""
    proven: bool = True
    """Whether each poll could be compared with the one before."""
    counted_seconds: float | None = None
    """When the load average counted it first, None: only the polls show it."""

    @property
    def min_seconds(self) -> float:
        """How long it has waited at least."""
        return self.last_seconds - self.first_seconds

    @property
    def max_seconds(self) -> float:
        """How long it may have waited by the last poll."""
        return self.last_seconds - self.not_before_seconds

    @property
    def known_seconds(self) -> float:
        """When it was first known to wait: at its first poll, or when it was counted before."""
        return self.first_seconds if self.counted_seconds is None else self.counted_seconds


def likely_seconds(known_seconds: float, max_seconds: float) -> float:
    """Return how long a wait has likely lasted that is known to have lasted for `known_seconds`.

    Polls of a host that is always busy are up to 5 s apart: its upper bound may be so much more.
    """
    return min(known_seconds + FOLLOWED_SECONDS, max_seconds)


@dataclass(frozen=True, slots=True)
class Polls:
    """What the polls up to now have seen."""

    waits: Mapping[Key, Wait] = field(default_factory=dict)
    last_seconds: float | None = None
    """When the last poll was, None: none yet."""


NO_POLLS = Polls()


def next_polls(
    polls: Polls,
    tasks: Iterable[BlockedTask],
    now: float,
    *,
    trigger_seconds: float,
    counted_seconds: float | None = None,
    legacy_queued_ratio: float | None,
) -> tuple[Polls, tuple[Wait, ...]]:
    """Return the polls with one more at `now`, and the waits that ended since the last one.

    `trigger_seconds`: when something first gave reason to poll, for the first poll of all;
    `counted_seconds`: when the load average first counted a task that waits.
    `legacy_queued_ratio`: unwritten data as a share of the dirty limit on a kernel before 3.2,
    None: not known, or a later kernel.
    """
    earlier = trigger_seconds if polls.last_seconds is None else polls.last_seconds
    is_late = polls.last_seconds is not None and now - earlier > LATE_POLL_SECONDS
    # What a poll of just now did not see began after it; one of long ago says nothing.
    not_before = max(earlier, trigger_seconds) if is_late else earlier
    is_first = polls.last_seconds is None or is_late
    if counted_seconds is not None and not (is_first and not_before <= counted_seconds <= now):
        counted_seconds = None  # other polls have seen since what was counted then
    waits: dict[Key, Wait] = {}
    for task in tasks:
        if task.kernel and not task.command.startswith(SERVERS):
            continue  # it works for tasks whose waits are seen themselves
        if task.unit.startswith(OWN) or task.command.startswith(OWN):
            continue
        key = task.pid, task.start_ticks
        waits[key] = _next_wait(
            polls.waits.get(key),
            Wait(task, purpose(task), now, now, not_before, counted_seconds=counted_seconds),
            legacy_queued_ratio=legacy_queued_ratio,
        )
    ended = tuple(
        wait
        for key, wait in polls.waits.items()
        if key not in waits or waits[key].first_seconds != wait.first_seconds
    )
    return Polls(_with_lock_waiters(waits), now), ended


def after_resume(polls: Polls, now: float) -> Polls:
    """Return the polls after the host was suspended: waits of before begin with the resume.

    What a disk has to do first then, it had not to do while they waited before.
    """
    waits = {
        key: replace(wait, first_seconds=now, last_seconds=now, not_before_seconds=now)
        for key, wait in polls.waits.items()
    }
    return replace(polls, waits=waits, last_seconds=now) if waits else polls


def _with_lock_waiters(waits: Mapping[Key, Wait]) -> Mapping[Key, Wait]:
    """Return the waits; who waits for a memory map whose holder waits for storage does as well."""
    holders = {
        wait.task.process or wait.task.pid
        for wait in waits.values()
        if wait.purpose is Purpose.STORAGE and not waits_for_lock(wait.task)
    }
    if not holders:
        return waits
    return {
        key: replace(wait, purpose=Purpose.STORAGE)
        if wait.purpose is Purpose.ELSEWHERE and mapped_process(wait.task) in holders
        else wait
        for key, wait in waits.items()
    }


def _next_wait(
    before: Wait | None,
    began: Wait,
    *,
    legacy_queued_ratio: float | None,
) -> Wait:
    """Return the wait of a task at this poll: the one of the last poll goes on, or `began` now."""
    if before is None:
        return began
    task, now = began.task, began.last_seconds
    compared = continuity(before.task, task)
    if compared is Continuity.ANOTHER_CALL:
        return began
    wait = replace(before, task=task, purpose=began.purpose, last_seconds=now)
    if compared is Continuity.SAME_CALL:
        return wait
    # Not older than the limit, however often it was seen: it may be a new wait each time.
    limit = UNPROVEN_AT_LIMIT_SECONDS if _is_paused(task, legacy_queued_ratio) else UNPROVEN_SECONDS
    return replace(
        wait,
        proven=False,
        first_seconds=max(before.first_seconds, now - limit),
        not_before_seconds=max(before.not_before_seconds, now - limit),
        counted_seconds=None,
    )


def _is_paused(task: BlockedTask, legacy_queued_ratio: float | None) -> bool:
    """Whether the kernel pauses the task because the host is at its dirty limit."""
    at_limit = legacy_queued_ratio is not None and legacy_queued_ratio >= AT_LIMIT_RATIO
    return at_limit and waits_in(task, _PAUSED)


def returned(before: Polls, after: Polls) -> list[Wait]:
    """Return the waits of a poll whose calls have returned by the next one.

    Their tasks wait in another call by then. One that is gone may have been killed in its call, and
    one that only woke in between may have sent its request to a server once more.
    """
    return [
        wait
        for key, wait in before.waits.items()
        if (now := after.waits.get(key)) is not None
        and now.first_seconds != wait.first_seconds
        and is_another_call(wait.task, now.task)
    ]


def about_storage(polls: Polls) -> list[Wait]:
    """Return the waits for storage, the longest first."""
    waits = [wait for wait in polls.waits.values() if wait.purpose is Purpose.STORAGE]
    return sorted(waits, key=lambda wait: (wait.not_before_seconds, wait.task.pid))
