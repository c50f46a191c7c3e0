"""When the blocked tasks are polled: who waits is seen soon, and a calm host is left alone."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import pytest
from support.blocked import task
from support.memory import Memory

from iowarden.collectors.procfs.tasks import BlockedTask, BlockedTasks, to_json
from iowarden.daemon.polling.task_polls import BUSY_GAPS, TaskPolls
from iowarden.rules.signals.waits.uncounted import NO_CHANGES, PERIOD_SECONDS, next_changes
from iowarden.rules.signals.waits.waits import FOLLOWED_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

HOUR_SECONDS = 3600
READ_AFTER_SECONDS = 3


def polled_seconds(
    active: list[int],
    running: list[int],
    blocked: list[int] | None = None,
    followed_from: int | None = None,
    freezes: Sequence[range] = (),
    read_after_seconds: int = READ_AFTER_SECONDS,
) -> list[int]:
    """Return the seconds in which a poll is due, of as many as there are values of `active`.

    `active` are the tasks that the kernel counts into the load average at that second, `running`
    and `blocked` those of '/proc/stat'; `followed_from`: polls see a wait from that second on;
    `freezes`: those in them do. The load average is read `read_after_seconds` after each of its
    changes, and each second after a suspicious one.
    """
    polls, load1, due, changes = TaskPolls(), 0.0, [], NO_CHANGES
    for second, (at_tick, run) in enumerate(zip(active, running, strict=True)):
        if second % PERIOD_SECONDS == 0:
            load1 = load1 * 0.92 + at_tick * 0.08
        is_early = changes.is_suspicious and changes.since_seconds is None
        if second % PERIOD_SECONDS == read_after_seconds or is_early:
            changes = next_changes(changes, round(load1, 2), run, float(second))
        is_followed = followed_from is not None and bool(due) and second > due[0] >= followed_from
        is_followed = is_followed or any(due and due[-1] in freeze for freeze in freezes)
        count = 0 if blocked is None else blocked[second]
        if polls.is_due(
            count, float(second), changes=changes, is_followed=is_followed, is_suspected=False
        ):
            due.append(second)
    return due


def test_a_calm_host_is_never_polled() -> None:
    """An hour in which nothing waits and iowarden's own turn never meets the kernel's tick."""
    assert polled_seconds([0] * HOUR_SECONDS, [1] * HOUR_SECONDS) == []


@pytest.mark.parametrize("began", range(60, 65))
def test_a_writer_on_a_frozen_file_system_is_polled_within_11_s(began: int) -> None:
    """'/proc/stat' counts nobody as blocked; the load average counts one more than run."""
    active = [0] * began + [1] * 120
    due = polled_seconds(active, [1] * len(active), followed_from=60)
    assert began < due[0] <= began + 11
    gaps = {later - earlier for earlier, later in itertools.pairwise(due)}
    assert gaps == {FOLLOWED_SECONDS}


def test_iowarden_at_the_tick_is_no_reason_to_poll_on_and_on() -> None:
    """The tick meets the turn of the loop for an hour: polls refute it, longer each time."""
    due = polled_seconds([1] * HOUR_SECONDS, [1] * HOUR_SECONDS)
    assert 0 < len(due) <= 20
    # The probe leaves after 30 s without a client, and is not started again at once.
    assert max(later - earlier for earlier, later in itertools.pairwise(due)) >= 50


def test_a_wait_is_polled_at_beside_a_tick_that_meets_iowarden() -> None:
    """One task more than those that the polls have refuted."""
    active = [1] * 300 + [2] * 60
    due = [second for second in polled_seconds(active, [1] * len(active)) if second >= 300]
    assert due[0] <= 320


def test_what_was_refuted_is_forgotten_when_it_has_ended() -> None:
    """A minute after the tick no longer meets iowarden a file system is frozen."""
    active = [1] * 600 + [0] * 65 + [1] * 60
    due = [second for second in polled_seconds(active, [1] * len(active)) if second >= 665]
    assert due[0] <= 685


@pytest.mark.parametrize("end", range(72, 78))
@pytest.mark.parametrize("pause", [15, 20, 25])
def test_who_waited_in_a_freeze_is_no_refutation_of_the_next_one(end: int, pause: int) -> None:
    """A snapshot of 12 s, and soon after it a file system that stays frozen.

    Once nobody waits any more the last load average still shows who did: that they do not wait now
    does not mean that so many active tasks are no reason to look.
    """
    again = range(end + pause, end + pause + 75)
    active = [2 if 60 <= second < end or second in again else 0 for second in range(again.stop)]
    due = polled_seconds(active, [1] * len(active), freezes=(range(60, end), again))
    assert next(second for second in due if second >= again.start) <= again.start + 11


@pytest.mark.parametrize("seconds", [33, 48, 63])
def test_threads_that_freeze_beside_a_busy_deleter_are_polled_twice(seconds: int) -> None:
    """'rm -r' reads for a while; then it and six threads of nfsd wait for space in the log.

    The last polls at 'rm' were just before, and saw none of the seven.
    """
    start, began = 62, 62 + seconds
    active = [0] * start + [1] * seconds + [7] * 60
    counted = [int((second - start) % 3 > 0) for second in range(start, began)]
    blocked = [0] * start + counted + [0] * 60
    due = polled_seconds(active, [1] * len(active), blocked, read_after_seconds=0)
    first, second = [at for at in due if at > began][:2]
    assert second - first == FOLLOWED_SECONDS
    assert second <= began + 10


def test_a_task_in_io_schedule_is_polled_in_its_second_second() -> None:
    """'/proc/stat' counts it; on a busy host polls go on, each third one soon after another."""
    blocked = [0] * 10 + [1] * 50
    due = polled_seconds([0] * 60, [1] * 60, blocked)
    assert due[:2] == [11, 13]
    gaps = [later - earlier for earlier, later in itertools.pairwise(due[1:])]
    assert gaps == [*itertools.islice(itertools.cycle(BUSY_GAPS), len(gaps))]
    assert len(gaps) >= 12


def swept_seconds(backlog: list[bool], followed: list[bool]) -> list[int]:
    """Return the seconds in which a sweep is due beside those of each 15 s."""
    polls = TaskPolls()
    return [
        second
        for second, (queued, follows) in enumerate(zip(backlog, followed, strict=True))
        if polls.is_sweep_due(float(second), has_backlog=queued, is_followed=follows)
    ]


def test_processes_are_swept_in_the_second_in_which_a_backlog_begins() -> None:
    """A writer of 200 MB in a second is not there any more when the next 15 s have passed."""
    assert swept_seconds([False] * 7 + [True] * 30, [False] * 37) == [7]


def test_a_backlog_that_comes_and_goes_is_not_swept_each_time() -> None:
    """Around 64 MiB, above it each other second."""
    assert len(swept_seconds([False, True] * 30, [False] * 60)) <= 12


def test_processes_are_swept_twice_before_the_first_mail_about_a_wait() -> None:
    """A scan reads, and nothing is queued: two sweeps show who reads."""
    due = swept_seconds([False] * 60, [False] * 4 + [True] * 56)
    assert due == [4, 9]


def test_the_limits_of_a_group_are_read_once_a_wait_and_for_waits_alone() -> None:
    """A quiet host and a short wait cost no file; 25 backends of one unit cost those of one."""
    machine, polls, files = Memory(), TaskPolls(), list[str]()
    group = ("0::/system.slice/pg.service",)

    def read(*tasks: BlockedTask) -> list[int]:
        polled = BlockedTasks(tasks, len(tasks), boot_seconds=1000.0)
        machine.write(
            {
                "/proc/stat": (
                    "cpu  1 0 1 1 1 0 0 0 0 0\nintr 0\nctxt 0\nbtime 1\nprocesses 1\n"
                    f"procs_running 1\nprocs_blocked {len(tasks)}\n"
                ),
                "/.probe/tasks": json.dumps(to_json(polled)),
            }
        )
        files.clear()
        found = polls.read(machine)
        return [len(task.limits) for task in found.tasks if files or task.limits]

    machine.write(
        {
            "/sys/fs/cgroup/cgroup.controllers": "io\n",
            "/sys/fs/cgroup/system.slice/pg.service/io.max": "8:0 wbps=1048576\n",
        }
    )
    machine.watch(lambda path, _: files.append(path) if "/cgroup/" in path else None)
    backends = [task(number, groups=group) for number in range(25)]
    assert read() == []
    assert read(*backends) == []
    assert files == []
    assert read(*backends) == [1] * 25
    # Not by each of the 25: what it limits, and whether it can be read.
    assert files.count("/sys/fs/cgroup/system.slice/pg.service/io.max") == 2
    read(*backends)
    assert files == []
