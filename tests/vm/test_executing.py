"""A task that executes a program while its old memory has AIO in flight: its files cannot be read.

It holds exec_update_lock until the requests complete, and whoever reads its 'syscall', 'stack' or
'io' waits for it. Source: kernel, fs/exec.c (exec_mmap), fs/aio.c (exit_aio).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from vm.harness import wait_for
from vm.watched import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vm.watched import Watched

MAIL_SECONDS = 300.0
"""The machine that emulates the guest may have other work meanwhile."""
_PROGRAM = """
import ctypes, mmap, os, struct, sys
IO_SETUP, IO_SUBMIT, PAGE = 206, 209, 4096
call = ctypes.CDLL(None, use_errno=True).syscall
call.restype = ctypes.c_long
disk = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
memory = mmap.mmap(-1, PAGE)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
context = ctypes.c_ulong(0)
assert call(IO_SETUP, ctypes.c_uint(1), ctypes.byref(context)) == 0, ctypes.get_errno()
request = struct.pack("<QIIHhIQQqQII", 0, 0, 0, 0, 0, disk, address, PAGE, 512 << 20, 0, 0, 0)
block = ctypes.create_string_buffer(request)
pointer = ctypes.c_void_p(ctypes.addressof(block))
submitted = call(IO_SUBMIT, context, ctypes.c_long(1), ctypes.byref(pointer))
assert submitted == 1, ctypes.get_errno()
os.execv("/bin/true", ["true"])
"""
"""Reads a page by AIO, without its data, and executes another program. Numbers of x86_64."""


@pytest.fixture
def executing(watched: Watched) -> Iterator[Watched]:
    """A disk that answers nothing, a program that executes another one, and two that commit.

    It is the disk of virtio, whose driver waits for as long as it takes.
    """
    vm = watched.vm
    vm.run("touch /run/writing; cat >/run/aio.py", _PROGRAM.encode())
    vm.throttle("fast", total=1)
    device = f"/dev/{vm.device('fast')}"
    unit = "systemd-run --wait --quiet --unit"
    dd = "dd if=/dev/zero of=/mnt/fast/journal-{} bs=4k count=1 conv=fsync status=none"
    started = [vm.start(f"{unit}=aio python3 /run/aio.py {device}")]
    started += [
        vm.start(f"{unit}=shop-{number} sh -c 'while [ -e /run/writing ]; do {dd.format(number)};"
                 " sleep 0.5; done'")
        for number in range(2)
    ]  # fmt: skip
    yield watched
    vm.throttle("fast")
    vm.run("rm -f /run/writing")
    for program in started:
        program.wait(MAIL_SECONDS)


def test_who_waits_is_mailed_next_to_a_task_whose_files_cannot_be_read(executing: Watched) -> None:
    """Whoever reads them is killed by its timeout; the polls go on, and see all others."""
    vm = executing.vm
    pid = "$(systemctl show --property=MainPID --value aio)"
    read = f"timeout --signal=KILL 5 cat /proc/{pid}/syscall"
    wait_for(lambda: vm.start(read).wait(60).status == 137, "a lock that is taken", MAIL_SECONDS)
    wait_for(lambda: executing.mail.naming("Freeze", "shop-"), "a mail", MAIL_SECONDS)
    text = " ".join(text_of(executing.mail.naming("Freeze", "shop-")[0]).split())
    assert re.search(r"[Ww]ho waits: [^.]*shop-\d\.service", text), text
    assert executing.metric("iowarden_storage_waits_seen") == 1
