"""A swap storm on a real kernel, in a control group at its limit, which an OOM kill ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from vm.harness import MEBIBYTE, wait_for
from vm.watched import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vm.watched import Watched

MAIL_SECONDS = 300.0
"""The machine that emulates the guest may have other work meanwhile."""
GROWN_BYTES = 80 * MEBIBYTE
"""What is swapped when most of their pages are touched."""
PROGRAMS = 8
"""Enough that at each poll one of them waits."""
_PROGRAM = """
import mmap, os, random, time
open("/proc/self/oom_score_adj", "w").write("900")
size = 40 << 20
memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
touched = 0
while os.path.exists("/run/writing"):
    for _ in range(32):
        touched = min(touched + 4096, size)
        memory[touched - 1] = 1
        memory[random.randrange(touched)] = 2
    time.sleep(0.02)
"""


@pytest.fixture
def swapping(watched: Watched) -> Iterator[Watched]:
    """Eight programs of up to 50 MiB each in 225 MiB together, which swap to a disk of 1 MiB/s.

    It is fast until they have grown. They sleep between their pages, so that it is the disk they
    wait for and not the emulated processor: one that computes would end the time in which all wait.
    At 2 MiB/s an emulated processor that has other work loses too little of its time to the disk.
    They are in a control group, whose pressure is theirs alone: the service itself is busy as well.
    """
    vm = watched.vm
    vm.run("cd /mnt/slow; fallocate -l 600M swap; chmod 600 swap; mkswap -q swap; swapon swap")
    vm.run("cat >/run/table.py", _PROGRAM.encode())
    vm.run("touch /run/writing")
    vm.run("systemctl set-property --runtime tables.slice MemoryMax=225M CPUWeight=10")
    started = [
        vm.start(
            f"systemd-run --wait --quiet --slice=tables.slice --unit=table-{number}"
            " python3 /run/table.py"
        )
        for number in range(PROGRAMS)
    ]
    swapped = "cat /sys/fs/cgroup/tables.slice/memory.swap.current"
    wait_for(lambda: int(vm.run(swapped)) > GROWN_BYTES, "programs that have grown", MAIL_SECONDS)
    vm.throttle("slow", total=MEBIBYTE)
    yield watched
    vm.throttle("slow")
    vm.run("rm -f /run/writing; systemctl stop tables.slice", timeout_seconds=300)
    for program in started:
        program.wait(MAIL_SECONDS)
    vm.run("swapoff /mnt/slow/swap; rm /mnt/slow/swap", timeout_seconds=300)


def test_a_swap_storm_and_the_kill_at_the_limit_that_ends_it_are_one_incident(
    swapping: Watched,
) -> None:
    """The first mail names the limit, as the guest has memory left; the next who was killed."""
    vm, mail = swapping.vm, swapping.mail
    words = "Freeze", "a memory limit of their control group"
    wait_for(lambda: mail.naming(*words), "a mail of it", MAIL_SECONDS)
    first = mail.naming(*words)[0]
    assert "/sys/fs/cgroup/tables.slice/memory.max" in text_of(first), text_of(first)
    assert "table-" in text_of(first), text_of(first)
    # No more is swapped out: the next page that a program touches is one too many.
    vm.run("systemctl set-property --runtime tables.slice MemorySwapMax=1M")
    wait_for(lambda: mail.naming("kernel killed python3"), "a mail of the kill", MAIL_SECONDS)
    second = mail.naming("kernel killed python3")[0]
    text = " ".join(text_of(second).split())
    assert "at memory.max" in text, text
    assert "of tables.slice" in text, text
    assert second["X-Iowarden-Incident"] == first["X-Iowarden-Incident"]
