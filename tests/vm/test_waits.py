"""Waits of a real kernel beside which iowarden must see, and what it must not take for harm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vm.harness import MEBIBYTE

if TYPE_CHECKING:
    from vm.harness import VM
    from vm.watched import Watched

MAIL_SECONDS = 240.0
"""The machine that emulates the guest may have other work meanwhile."""

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
