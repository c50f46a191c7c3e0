"""What the VM tests share: a guest with iowarden installed as its README says."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from vm.harness import MEBIBYTE, REPOSITORY, VM, Disk, UnavailableError, image, turn
from vm.watched import watching

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vm.watched import Watched

Boot = Callable[..., VM]
PARTS = ("Makefile", "LICENSE", "README.md", "packaging", "systemd", "build/wheels")
"""What 'make install' needs, and the documents it installs."""


@pytest.fixture(scope="session")
def boot() -> Iterator[Boot]:
    """Return what boots a guest with disks and iowarden, installed once and without a network."""
    try:
        plain = image()
    except UnavailableError as error:
        pytest.skip(str(error))
    subprocess.run(["make", "wheels"], cwd=REPOSITORY, check=True, capture_output=True)

    def boot(disks: Iterable[Disk], memory_mebibytes: int = 1024) -> VM:
        return VM(disks, memory_mebibytes, root)

    with turn(), tempfile.TemporaryDirectory(prefix="iowarden-vm-") as directory:
        root = Path(directory) / "root.ext4"
        subprocess.run(["cp", "--sparse=always", plain / "root.ext4", root], check=True)
        with VM(root=root, lasting=True) as vm:
            present = [part for part in PARTS if (REPOSITORY / part).exists()]
            vm.push("/usr/src/iowarden", [(REPOSITORY / part, part) for part in present])
            vm.run("make -C /usr/src/iowarden install", timeout_seconds=900)
            vm.shut_down()
        yield boot


@pytest.fixture(scope="session")
def guest(boot: Boot) -> Iterator[VM]:
    """Boot a guest with a slow and a fast disk."""
    disks = [Disk("slow", 4096 * MEBIBYTE, 5400), Disk("fast", 1024 * MEBIBYTE, 1)]
    with boot(disks, memory_mebibytes=2048) as vm:
        for disk in disks:
            device, directory = f"/dev/{vm.device(disk.name)}", f"/mnt/{disk.name}"
            vm.run(f"mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 {device}")
            vm.run(f"mkdir {directory} && mount {device} {directory}")
        yield vm


@pytest.fixture(scope="module")
def watched(guest: VM, request: pytest.FixtureRequest) -> Iterator[Watched]:
    """Start iowarden as a service without a past, with a module's SETTINGS."""
    with watching(guest, getattr(request.module, "SETTINGS", "")) as watched:
        try:
            yield watched
        finally:
            for name in ("slow", "fast", "root"):
                guest.throttle(name)
            guest.run("rm -f /run/writing")
