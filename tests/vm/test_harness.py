"""The virtual machine itself: what it says where it cannot be had, and that its disks obey."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from vm import harness

if TYPE_CHECKING:
    from pathlib import Path


def test_without_qemu_the_message_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The tests are skipped with this sentence, not silently."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(harness.UnavailableError, match=r"no .*qemu-system-x86_64.*install"):
        harness.image()


def test_a_release_that_is_no_guest_is_refused(tmp_path: Path) -> None:
    """A misspelt SUITE is an error that names those there are, and no reason to skip the tests."""
    build = subprocess.run(
        [harness.HERE / "build_image.sh", "bulseye", tmp_path],
        check=False,
        capture_output=True,
        text=True,
    )
    assert build.returncode not in {0, os.EX_UNAVAILABLE}
    assert build.stderr == "SUITE: expected bookworm or trixie, got 'bulseye'\n"


def test_a_hung_disk_completes_nothing_and_others_go_on(guest: harness.VM) -> None:
    """A write to it ends only when the disk is healed; a write to the other disk ends at once."""
    write = "dd if=/dev/zero of=/mnt/{}/probe bs=64k count=64 oflag=direct"
    guest.throttle("slow", total=1)
    hanging = guest.start(write.format("slow"))
    guest.run(write.format("fast"))
    in_flight = f"cat /sys/block/{guest.device('slow')}/inflight"
    harness.wait_for(lambda: guest.run(in_flight).split() != ["0", "0"], "a request", 30)
    with pytest.raises(TimeoutError):
        hanging.wait(3)
    guest.throttle("slow")
    assert hanging.wait(60).status == 0
