"""The virtual machine itself: what it says where it cannot be had, and that its disks obey."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from vm import harness

if TYPE_CHECKING:
    from pathlib import Path

    from vm.conftest import Boot


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


@pytest.mark.parametrize(
    "error", ["EndedError('QEMU ended with -11: ')", "TimeoutError('expected a mail, got nothing')"]
)
@pytest.mark.parametrize(("other", "status", "again"), [("", 7, "test_it.py\n"), ("no", 1, None)])
def test_files_whose_machine_ended_or_was_late_are_listed_unless_anything_else_failed(
    tmp_path: Path, error: str, other: str, status: int, again: str | None
) -> None:
    """The defects of an emulator must not decide whether a change passes; any others must."""
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "from vm.harness import EndedError\n"
        f"def end():\n    raise {error}\n"
        "@pytest.fixture(scope='module')\ndef service():\n    yield\n    end()\n"
        "@pytest.fixture(scope='module')\ndef disk(service):\n    yield\n    end()\n"
        "def test_ended():\n    end()\n"
        "def test_fixtures(disk):\n    end()\n"
        f"def test_other():\n    assert not {other!r}\n"
    )
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "vm.conftest", "test_it.py"],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={
            **os.environ,
            "IOWARDEN_VM_IMAGES": str(tmp_path),
            "PYTHONPATH": str(harness.REPOSITORY / "tests"),
        },
    )
    assert run.returncode == status, run.stdout + run.stderr
    listed = tmp_path / "again"
    assert (listed.read_text() if listed.exists() else None) == again


def test_the_end_of_qemu_is_said_to_all_who_wait_for_the_guest(boot: Boot) -> None:
    """Which of its commands was the last is no matter, nor whether it is asked by QMP."""
    with boot() as vm:
        waiting = vm.start("sleep 600")
        vm.control("quit")
        with pytest.raises(harness.EndedError, match=r"sleep 600.*QEMU ended with 0"):
            waiting.wait(60)
        with pytest.raises(harness.EndedError, match=r"true.*QEMU ended with 0"):
            vm.run("true")
        with pytest.raises(harness.EndedError, match="QEMU ended with 0"):
            vm.control("query-status")


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
