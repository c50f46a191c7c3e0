"""Phantom reads in a real kernel: a program writes to a mapped file, and the disk reads.

Memory is short, and of four pages it writes one: the kernel reads each page before it is written,
and read-ahead the pages around it. Source: kernel, mm/filemap.c (filemap_fault,
do_sync_mmap_readahead: as long as most pages are found in the page cache).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from vm.harness import MEBIBYTE

from iowarden.daemon.trace.instance import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vm.harness import VM

TABLE = "/mnt/slow/trades.d"
FILE_MEBIBYTES = 512
TRACING = f"ls -d /sys/kernel/tracing/instances/{PREFIX}* >/dev/null 2>&1"
WRITER = f"""\
import mmap, os
with open("{TABLE}", "r+b") as file:
    table = mmap.mmap(file.fileno(), 0)
open("/run/writing", "w").close()
while os.path.exists("/run/writing"):
    for page in range(0, len(table), 4 * mmap.PAGESIZE):
        table[page] = 1
        if not os.path.exists("/run/writing"):
            break
"""


@pytest.fixture(scope="module")
def traced(guest: VM) -> Iterator[dict[str, Any]]:
    """Return the trace of a disk while a unit of 64 MiB writes to a mapped file of 512 MiB."""
    guest.run(f"dd if=/dev/zero of={TABLE} bs=1M count={FILE_MEBIBYTES} conv=fsync status=none")
    guest.run("echo 3 > /proc/sys/vm/drop_caches; rm -f /run/writing")
    guest.run("cat > /run/writer.py", WRITER.encode())
    guest.throttle("slow", total=8 * MEBIBYTE)
    unit = "systemd-run --wait --quiet --unit=trades -p MemoryMax=64M python3 /run/writer.py"
    writer = guest.start(unit)
    try:
        guest.run("until [ -e /run/writing ]; do sleep 0.2; done", timeout_seconds=60)
        trace = guest.start(f"iowarden trace {guest.device('slow')} --for 5s --json")
        guest.run(f"until {TRACING}; do sleep 0.2; done", timeout_seconds=60)
        guest.run(f"while {TRACING}; do sleep 0.2; done", timeout_seconds=60)
        # What is traced is traced. Beside the load on 8 MiB/s, debugfs gets no answer within the
        # 20 s that the command has for names.
        guest.throttle("slow")
        guest.run("rm -f /run/writing")
        answer = trace.wait(180)
        assert answer.status == 0, answer.stderr
        (disk,) = json.loads(answer.stdout)["disks"]
        yield disk
    finally:
        guest.throttle("slow")
        guest.run("rm -f /run/writing")
        ended = writer.wait(120)
        guest.run(f"rm {TABLE}; sync")
    assert ended.status == 0, ended.stderr


def test_a_trace_shows_that_a_program_that_only_writes_makes_the_disk_read(
    traced: dict[str, Any],
) -> None:
    """More than half of what is read is read-ahead, and reads exceed writes."""
    total = {each["operation"]: each for each in traced["latencies"] if each["size"] == "all"}
    written = sum(each["bytes"] for name, each in total.items() if "write" in name)
    assert traced["read_ahead_bytes_ratio"] > 0.5
    assert total["read_ahead"]["bytes"] > written


def test_a_trace_names_the_mapped_file_that_is_read(traced: dict[str, Any]) -> None:
    """Of the slowest reads, once the file system answers; and their program."""
    reads = [each for each in traced["slowest"] if each["operation"] == "read_ahead"]
    assert "python3" in {each["program"] for each in reads}
    assert {each["file"] for each in reads} - {None} == {TABLE}
