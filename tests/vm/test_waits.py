"""Waits of a real kernel beside which iowarden must see, and what it must not take for harm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from vm.harness import MEBIBYTE, wait_for
from vm.watched import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vm.harness import VM
    from vm.watched import Watched

MAIL_SECONDS = 240.0
"""The machine that emulates the guest may have other work meanwhile."""

EXECUTING = """
import ctypes, mmap, os, time
libc = ctypes.CDLL(None, use_errno=True)
IO_SETUP, IO_SUBMIT, PREAD = 206, 209, 0
descriptor = os.open("/mnt/slow/asynchronous", os.O_RDONLY | os.O_DIRECT)
buffer = mmap.mmap(-1, 4 << 20)
address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
class Request(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("key", ctypes.c_uint32), ("flags", ctypes.c_int32),
        ("opcode", ctypes.c_uint16), ("priority", ctypes.c_int16), ("file", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64), ("more", ctypes.c_uint32), ("signal", ctypes.c_uint32)]
context = ctypes.c_ulong(0)
assert libc.syscall(IO_SETUP, 8, ctypes.byref(context)) == 0, os.strerror(ctypes.get_errno())
request = Request(opcode=PREAD, file=descriptor, buffer=address, bytes=4 << 20)
pointer = ctypes.pointer(request)
open("/run/prepared", "w").close()
while not os.path.exists("/run/throttled"):
    time.sleep(0.1)
assert libc.syscall(IO_SUBMIT, context, 1, ctypes.byref(pointer)) == 1
open("/run/executing", "w").close()
os.execv("/bin/sleep", ["sleep", "1"])
"""
"""It executes a program while a read of its old memory is in flight, and holds exec_update_lock
until that has ended. Source: kernel, fs/exec.c (exec_mmap), fs/aio.c (exit_aio), syscall_64.tbl,
include/uapi/linux/aio_abi.h (struct iocb)."""


@pytest.fixture
def executing(watched: Watched) -> Iterator[Watched]:
    """A task that holds the lock for minutes: its read is throttled to 16 KiB/s."""
    vm = watched.vm
    vm.run("dd if=/dev/zero of=/mnt/slow/asynchronous bs=1M count=4 conv=fsync status=none")
    vm.run("echo 3 > /proc/sys/vm/drop_caches; rm -f /run/prepared /run/throttled /run/executing")
    task = vm.start("exec python3 -", EXECUTING.encode())
    try:
        # What it needs of the disk itself is read before the disk is slow.
        vm.run("until [ -e /run/prepared ]; do sleep 0.2; done", timeout_seconds=180)
        vm.throttle("slow", total=16 * 1024)
        vm.run("touch /run/throttled; until [ -e /run/executing ]; do sleep 0.2; done")
        yield watched
    finally:
        vm.throttle("slow")
        task.wait(300)
        vm.run("rm -f /run/writing /mnt/slow/asynchronous; fsfreeze -u /mnt/fast || true")


def test_a_task_that_holds_exec_update_lock_does_not_hide_who_waits(executing: Watched) -> None:
    """'io', 'syscall' and 'stack' of one task do not answer; the programs beside it are named."""
    vm = executing.vm
    vm.run("touch /run/writing")
    append = "while [ -e /run/writing ]; do echo x >>/mnt/fast/journal-$1; sleep 1; done"
    for number in range(2):
        vm.start(f"systemd-run --quiet --unit=till-{number} sh -c '{append}' sh {number}")
    vm.run("fsfreeze -f /mnt/fast")
    wait_for(lambda: executing.mail.naming("Freeze", "till-"), "a mail of who waits", MAIL_SECONDS)
    vm.run("fsfreeze -u /mnt/fast; rm /run/writing")
    text = " ".join(text_of(executing.mail.naming("till-")[0]).split())
    assert "file system frozen" in text, text
    assert executing.metric("iowarden_collector_outcome", collector="tasks", outcome="stuck") != 1.0


LOADS = {
    "commits": "for n in $(seq 60); do dd if=/dev/zero of=/mnt/fast/c bs=4k count=1 conv=fsync;"
    " done",
    "packages": "for n in $(seq 80); do cp /bin/true /mnt/fast/p.$n; sync /mnt/fast/p.$n;"
    " mv /mnt/fast/p.$n /mnt/fast/p; done",
    "reader": "dd if=/mnt/slow/big of=/dev/null bs=64k iflag=direct",
    "search": "grep -r nothing /usr/share/doc",
    "copy": "dd if=/dev/zero of=/mnt/slow/copy bs=1M count=60",
    "archive": "tar -cf /mnt/slow/archive.tar /usr/lib/python3",
    "own-sync": "dd if=/dev/zero of=/mnt/slow/synced bs=1M count=40 conv=fsync",
    "child": 'python3 -c \'import os; os.posix_spawn("/bin/sleep", ["sleep", "25"], {});'
    " os.wait()'",
    "snapshot": "fsfreeze -f /mnt/fast; sleep 8; fsfreeze -u /mnt/fast",
    "rotation": "gzip -kc /mnt/slow/big > /mnt/slow/big.gz",
}
"""What healthy hosts do, on a disk of 8 MiB/s and on a fast one."""


def test_ten_healthy_loads_at_once_make_no_mail(watched: Watched) -> None:
    """Each is a unit of its own; none of them waits for long in one call but for its own data."""
    vm = watched.vm
    vm.run("dd if=/dev/urandom of=/mnt/slow/big bs=1M count=60 conv=fsync status=none")
    vm.throttle("slow", total=8 * MEBIBYTE)
    before = len(watched.mail.mails)
    units = [
        vm.start(f'systemd-run --wait --quiet --unit=load-{name} sh -c "$(cat)"', text.encode())
        for name, text in LOADS.items()
    ]
    for unit in units:
        unit.wait(MAIL_SECONDS)
    vm.throttle("slow")
    vm.run("rm -f /mnt/slow/* /mnt/fast/[cp]* 2>/dev/null; true")
    assert [mail["Subject"] for mail in watched.mail.mails[before:]] == []


def test_the_bytes_of_a_program_show_that_it_requests_no_reads(guest: VM) -> None:
    """A page of a mapped file is written: the disk reads, and 'rchar' does not move."""
    program = (
        "import mmap; f = open('/mnt/slow/m', 'r+b'); m = mmap.mmap(f.fileno(), 0);\n"
        "for page in range(0, len(m), 4 * mmap.PAGESIZE): m[page] = 1\n"
        "print(open('/proc/self/io').read())"
    )
    guest.run("dd if=/dev/zero of=/mnt/slow/m bs=1M count=32 conv=fsync status=none")
    guest.run("echo 3 > /proc/sys/vm/drop_caches")
    lines = guest.run("python3 -", program.encode()).splitlines()
    counters = {
        name: int(value) for name, _, value in (line.partition(": ") for line in lines if line)
    }
    guest.run("rm /mnt/slow/m")
    assert counters["read_bytes"] > 8 * MEBIBYTE
    assert counters["rchar"] < counters["read_bytes"] / 4
    assert counters["write_bytes"] > MEBIBYTE
