"""What the VM tests share: a guest with iowarden installed as its README says."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from support.smtp import smtp_server
from vm.harness import HOST_ADDRESS, MEBIBYTE, REPOSITORY, VM, Disk, UnavailableError
from vm.watched import Mailbox, Watched

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def guest() -> Iterator[VM]:
    """Boot a guest with a slow and a fast disk and install iowarden in it, without a network."""
    disks = [Disk("slow", 4096 * MEBIBYTE, 5400), Disk("fast", 1024 * MEBIBYTE, 1)]
    try:
        vm = VM(disks, memory_mebibytes=2048)
    except UnavailableError as error:
        pytest.skip(str(error))
    subprocess.run(["make", "wheels"], cwd=REPOSITORY, check=True, capture_output=True)
    with vm:
        parts = ["Makefile", "LICENSE", "README.md", "packaging", "systemd", "build/wheels"]
        present = [part for part in parts if (REPOSITORY / part).exists()]
        vm.push("/usr/src/iowarden", [(REPOSITORY / part, part) for part in present])
        vm.run("make -C /usr/src/iowarden install", timeout_seconds=600)
        for disk in disks:
            device, directory = f"/dev/{vm.device(disk.name)}", f"/mnt/{disk.name}"
            vm.run(f"mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 {device}")
            vm.run(f"mkdir {directory} && mount {device} {directory}")
        yield vm


@pytest.fixture(scope="module")
def watched(guest: VM, request: pytest.FixtureRequest) -> Iterator[Watched]:
    """Start iowarden as a service without a past; it mails to a server outside the guest.

    A module's SETTINGS are added to the configuration.
    """
    settings = getattr(request.module, "SETTINGS", "")
    with smtp_server() as (port, answers):
        guest.run("cat > /etc/iowarden/iowarden.yaml", (_configuration(port) + settings).encode())
        guest.run("rm -rf /var/lib/iowarden")
        try:
            guest.run("systemctl start iowarden", timeout_seconds=180)
            yield Watched(guest, Mailbox(answers))
        finally:
            for name in ("slow", "fast", "root"):
                guest.throttle(name)
            guest.run("rm -f /run/writing; systemctl stop iowarden; sync", timeout_seconds=300)


def _configuration(port: int) -> str:
    return f"""\
host: guest.example.net
mail:
  server: {HOST_ADDRESS}
  port: {port}
  tls: none
  to: storage@example.net
  arrival: false
"""
