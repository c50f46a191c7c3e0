"""What the VM tests share: a guest with iowarden installed as its README says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from vm.harness import MEBIBYTE, VM, Disk, UnavailableError, image, turn
from vm.watched import watching

if TYPE_CHECKING:
    from vm.watched import Watched

Boot = Callable[..., VM]


@pytest.fixture(scope="session")
def boot() -> Iterator[Boot]:
    """Return what boots a guest with disks; iowarden is installed there."""
    try:
        image()
    except UnavailableError as error:
        pytest.skip(str(error))
    with turn():
        yield VM


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
