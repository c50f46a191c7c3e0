"""Programs that are paused at the dirty limit for what is queued for another disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.blocked import SP_PC, Blocked, task

if TYPE_CHECKING:
    from iowarden.collectors.procfs.tasks import BlockedTask

STACK = ("balance_dirty_pages", "generic_perform_write", "ext4_buffered_write_iter", "vfs_write")
PAUSED = {
    "wait_channel": STACK[0],
    "stack": STACK,
    "system_call": f"1 0x6 0x7f10 0x2000 0x0 0x0 0x0 {SP_PC}",
}


def victims() -> list[BlockedTask]:
    """Return two programs that write lines to files on sda."""
    return [task(number, waits_at="8:0", **PAUSED) for number in range(2)]  # type: ignore[arg-type]


def copy() -> BlockedTask:
    """Return the copy to the stick, which is paused as well."""
    return task(400, waits_at="8:16", command="cp", **PAUSED)  # type: ignore[arg-type]


@pytest.mark.parametrize("answers", [False, True])
def test_the_disk_that_hangs_is_named_not_the_one_on_which_programs_are_paused(
    *, answers: bool
) -> None:
    """The limit is the host's: a stick fills it, and two programs write lines to files on sda.

    The twin: the stick takes its data as before, and sda is the one with the queue.
    """
    host = Blocked()
    host.add_disk("sdb", removable="1")
    host.machine.memory.write(
        {"/etc/fstab": "", "/proc/1/mountinfo": "30 1 8:16 / /media/stick rw - vfat /dev/sdb rw\n"}
    )
    host.writers[400] = "cp", 0
    for second in range(60):
        host.writers[400] = "cp", 8_000_000 * second
        host.queued = 600_000_000
        host.disks["sdb"].in_flight = 4
        host.pass_seconds(1, [], sdb=8_000_000)
    host.queued = 990_000_000
    began = host.second
    host.pass_seconds(25, [*victims(), copy()], **({"sdb": 8_000_000} if answers else {}))
    assert host.mails()[0][0] - began <= 25
    assert host.cause("sda") == ("backlog" if answers else "hang")
    assert ("sdb hangs" in host.summary("Freeze")) is not answers


def test_a_card_reader_that_reads_nothing_is_not_what_a_queue_waits_for() -> None:
    """One read of it is in flight, and no task waits for it: 990 MB are queued for sda."""
    host = Blocked()
    host.add_disk("sdb", removable="1")
    for second in range(60):
        host.writers[400] = "cp", 8_000_000 * second
        host.queued = 600_000_000
        host.pass_seconds(1, [], sda=8_000_000)
    host.disks["sdb"].in_flight = 1
    host.queued = 990_000_000
    host.pass_seconds(25, victims())
    assert host.cause("sda") != "hang"
    assert "sdb" not in host.summary("Freeze")
