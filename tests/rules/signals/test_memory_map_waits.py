"""Who waits for a process' memory map (mmap_lock) while one of its threads reads from a disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.blocked import FAULT, task

from iowarden.rules.signals.storage_call import Purpose
from iowarden.rules.signals.waits import waits

if TYPE_CHECKING:
    from iowarden.collectors.procfs.tasks import BlockedTask


def polled(*polls: tuple[float, list[BlockedTask]]) -> waits.Polls:
    """Return what polls at these seconds show."""
    state = waits.NO_POLLS
    for now, tasks in polls:
        state, _ = waits.next_polls(
            state, tasks, now, trigger_seconds=0.0, legacy_queued_ratio=None
        )
    return state


FAULTS = ("rwsem_down_read_slowpath", "down_read_killable", "lock_mm_and_find_vma")
MAPS = ("rwsem_down_write_slowpath", "down_write_killable", "vm_mmap_pgoff", "ksys_mmap_pgoff")
READS_COMMAND_LINE = ("rwsem_down_read_slowpath", "down_read_killable", "__access_remote_vm")
UNMAPPED: dict[str, object] = {"waits_at": "", "file": "", "mount": "", "counters": ()}


@pytest.mark.parametrize(
    ("sentence", "other", "purpose"),
    [
        ("a thread that faults", {"process": 812, "stack": FAULTS}, Purpose.STORAGE),
        ("a thread that maps", {"process": 812, "stack": MAPS}, Purpose.STORAGE),
        (
            "ps",
            {"command": "ps", "stack": READS_COMMAND_LINE, "file": "/proc/812/cmdline"},
            Purpose.STORAGE,
        ),
        (
            "ps at another process",
            {"command": "ps", "stack": READS_COMMAND_LINE, "file": "/proc/813/cmdline"},
            Purpose.ELSEWHERE,
        ),
        ("another process that maps", {"stack": MAPS}, Purpose.ELSEWHERE),
        ("a lock of a driver", {"process": 812, "stack": ("down_read", "m")}, Purpose.ELSEWHERE),
    ],
)
def test_who_waits_for_the_memory_map_of_one_that_reads_waits_with_it(
    sentence: str, other: dict[str, object], purpose: Purpose
) -> None:
    """A thread of mysqld holds mmap_lock in a page fault, and the disk does not answer."""
    fault = ("folio_wait_bit_common", "filemap_fault", "__do_fault", "handle_mm_fault")
    holder = task(0, pid=812, stack=fault, wait_channel=fault[0], system_call=FAULT, **UNMAPPED)
    values: dict[str, object] = {"pid": 850, "start_ticks": 4_050, **UNMAPPED, **other}
    beside = task(1, **values, wait_channel="rwsem_down_read_slowpath")
    state = polled(*((2.0 * n, [holder, beside]) for n in range(8)))
    assert state.waits[850, 4_050].purpose is purpose, sentence
    assert state.waits[850, 4_050].min_seconds == 14.0


def test_who_waits_for_a_memory_map_that_nobody_holds_for_storage_is_not_harmed() -> None:
    """Threads that fork and unmap in turn."""
    values: dict[str, object] = {"stack": MAPS, "wait_channel": MAPS[0], **UNMAPPED}
    state = polled((0.0, [task(0, **values, pid=812), task(1, **values, pid=813, process=812)]))
    assert {wait.purpose for wait in state.waits.values()} == {Purpose.ELSEWHERE}
