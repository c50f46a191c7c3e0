"""Hung tasks as text: the subject names the program that waits, and what it waits for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iowarden.collectors.procfs.tasks import BlockedTask, BlockedTasks
from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.events import hung


def alert(name: str, summary: str, task: str = "") -> Alert:
    """An alert of an event, or of the kernel's counter."""
    return Alert(
        name=name,
        labels=(("alertname", name), ("severity", "critical")),
        state=AlertState.FIRING,
        value=1.0,
        annotations=(("summary", summary), ("task", task)),
        active_seconds=0.0,
        count=int(name == hung.EVENT),
        last_seconds=1.0,
    )


def waiting(channel: str, *stack: str, pid: int = 4711, **more: object) -> BlockedTask:
    """A task as read by the probe."""
    return BlockedTask(pid, 1, "postgres", channel, stack, None, None, **more)  # type: ignore[arg-type]


LINE = alert(hung.EVENT, "postgres (pid 4711) blocked for over 2 min", "4711")
COUNTER = alert(hung.COUNTER, "the kernel reported hung tasks 1 time in 10 minutes")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "INFO: task postgres:4711 blocked for more than 120 seconds.",
            "postgres (pid 4711) blocked for over 2 min",
        ),
        (
            "INFO: task kworker/u8:3:88 blocked in I/O wait for more than 241 seconds.",
            "kworker/u8:3 (pid 88) blocked for over 4 min 1 s",
        ),
        (
            "INFO: task tar: x:9 blocked for more than 30 seconds.",
            "tar: x (pid 9) blocked for over 30 s",
        ),
    ],
)
def test_a_line_of_the_kernel_names_program_and_seconds(line: str, words: str) -> None:
    """Program names may have colons and spaces."""
    found = hung.summary(line)
    assert found is not None
    assert found[0] == words


def test_a_file_server_that_is_away_is_reported_with_who_waits_for_it() -> None:
    """Only programs that wait for an NFS server are named."""
    server = replace(LINE, name=hung.SERVER, subject="device nas1")
    tasks = (
        waiting("rpc_wait_bit_killable"),
        waiting("nfs_wait_on_request", pid=9),
        waiting("rq_qos_wait", pid=10),
    )
    (said,) = hung.named([server], BlockedTasks(tasks, 3))
    assert said.summary == f"{server.summary}: postgres (pid 4711) and 1 more wait for it"
    assert hung.named([server], BlockedTasks(tasks[2:], 1)) == [server]
    assert hung.named([server], None) == [server]
    other = replace(server, subject="device nas2")
    both = hung.named([server, other], BlockedTasks(tasks, 3))
    assert all(each.summary.endswith("and 1 more wait for an NFS server") for each in both)
    assert (
        hung.named([server, replace(other, absent_seconds=1.0)], BlockedTasks(tasks, 3))[0] == said
    )


@pytest.mark.parametrize("line", ["INFO: rcu detected a stall", "INFO: task x:1 blocked", ""])
def test_other_lines_are_left_alone(line: str) -> None:
    """Also truncated ones."""
    assert hung.summary(line) is None


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (waiting("jbd2_log_wait_commit"), " waits for the journal of its file system,"),
        (waiting("xlog_wait_on_iclog"), " waits for its XFS file system,"),
        (waiting("rpc_wait_bit_killable"), " waits for an NFS server,"),
        (waiting("md_write_start"), " waits for a software RAID array,"),
        (waiting("rq_qos_wait"), " waits for a disk,"),
        (waiting("", "io_schedule", "folio_wait_bit_common"), " waits for I/O,"),
        (waiting("rwsem_down_write_slowpath"), " waits for a lock that another task holds,"),
        (
            waiting("percpu_rwsem_wait", "percpu_rwsem_wait", "mnt_want_write", "path_openat"),
            " waits for a frozen file system,",
        ),
        (
            waiting("percpu_rwsem_wait", "percpu_rwsem_wait", "copy_process"),
            " waits for a lock that another task holds,",
        ),
        (waiting("0"), ""),
        (waiting("hub_event"), ""),
        (waiting("rq_qos_wait", pid=4712), ""),
        (waiting("rq_qos_wait", pid=4712, process=4711), " waits for a disk,"),
    ],
)
def test_what_it_waits_for_is_what_the_probe_sees_of_that_very_task(
    task: BlockedTask, words: str
) -> None:
    """For another task, or in an unknown function, there is no such text."""
    (said,) = hung.named([LINE], BlockedTasks((task,), 1))
    assert said.summary == f"postgres (pid 4711){words} blocked for over 2 min"
    assert hung.named([LINE], None) == [LINE]


def test_the_counter_has_the_words_of_the_log() -> None:
    """A line and the counter report one fact: the mail of either names the program."""
    line, counter = hung.named([LINE, COUNTER], BlockedTasks((waiting("rq_qos_wait"),), 1))
    assert (
        line.summary
        == counter.summary
        == ("postgres (pid 4711) waits for a disk, blocked for over 2 min")
    )


def test_the_counter_alone_names_who_waits_now() -> None:
    """No log can be read; kernel threads are not a program of a user."""
    flusher = waiting("rq_qos_wait", pid=7, kernel=True)
    tasks = waiting("jbd2_log_wait_commit"), waiting("io_schedule", pid=4), flusher
    (said,) = hung.named([COUNTER], BlockedTasks(tasks, 3))
    assert said.summary == (
        "postgres (pid 4711) and 1 more wait for the journal of its file system:"
        " the kernel reported hung tasks 1 time in 10 minutes"
    )
    assert hung.named([COUNTER], BlockedTasks((flusher,), 1)) == [COUNTER]
