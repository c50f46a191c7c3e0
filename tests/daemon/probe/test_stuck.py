"""The register of programs: its content is found again, and no other process is taken for it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iowarden.daemon.probe import children, jobs, stuck
from iowarden.daemon.probe.protocol import Stuck

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BOOT = "0f70219b-9a6f-44d1-99ad-824270d0ef01"
ENTRY = stuck.StartedProgram(
    Stuck(4711, 123456, ("smartctl", "-a", "/dev/sda"), ("host0",), ("sda",), 1.7e9), reported=True
)
DAMAGED = [
    b"",
    b"{",
    b"[]",
    b"\xff",
    b'{"boot": "B"}',
    b'{"boot": "B", "told": [], "stuck": [{}]}',
    b'{"boot": "B", "told": 1, "stuck": [1]}',
    b"[" * 100_000,
]


@pytest.fixture
def sleeper() -> Iterator[Stuck]:
    """A live process, as the register would hold it."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        found = children.read_process(process.pid)
        assert found is not None
        yield Stuck(process.pid, found.start_ticks, ("sleep", "1000"), (), (), 0.0)
        process.kill()


def test_what_was_written_is_read_by_nobody_else(tmp_path: Path) -> None:
    """Programs with all their fields; the file is private to its owner; no draft is left."""
    stuck.write(str(tmp_path), [ENTRY, dataclasses.replace(ENTRY, reported=False)][:1], BOOT)
    assert stuck.read(str(tmp_path), BOOT) == [ENTRY]
    assert os.listdir(tmp_path) == [stuck.NAME]
    assert (tmp_path / stuck.NAME).stat().st_mode & 0o777 == 0o600


def test_a_register_of_the_most_and_longest_is_read_again(tmp_path: Path) -> None:
    """As many as may run and hang, each at a path of maximum length that is not text."""
    path = "/" + "\udcff" * 4094
    each = dataclasses.replace(
        ENTRY.program, arguments=("newest", path), controllers=(f"path {path}",), devices=()
    )
    most = jobs.MAX_CHILDREN + jobs.MAX_LEFT
    entries = [stuck.StartedProgram(dataclasses.replace(each, pid=100 + n)) for n in range(most)]
    stuck.write(str(tmp_path), entries, BOOT)
    assert stuck.read(str(tmp_path), BOOT) == entries


def test_programs_of_another_boot_are_none(tmp_path: Path) -> None:
    """Their numbers belong to other processes now; no file means none, too."""
    assert stuck.read(str(tmp_path), BOOT) == []
    stuck.write(str(tmp_path), [ENTRY], BOOT)
    assert stuck.read(str(tmp_path), "another") == []


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_register_is_named(tmp_path: Path, content: bytes) -> None:
    """The error has the file's name, whatever the file contains."""
    (tmp_path / stuck.NAME).write_bytes(content)
    with pytest.raises(ValueError, match=stuck.NAME):
        stuck.read(str(tmp_path), "B")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 200), put=st.binary(max_size=3))
def test_no_damage_is_worse_than_an_empty_register(tmp_path: Path, cut: int, put: bytes) -> None:
    """Bytes lost or changed anywhere: programs, none, or a ValueError; nothing else."""
    stuck.write(str(tmp_path), [ENTRY], BOOT)
    path = tmp_path / stuck.NAME
    content = path.read_bytes()
    path.write_bytes(content[:cut] + put + content[cut + len(put) :])
    with contextlib.suppress(ValueError):
        assert all(each.program.pid > 1 for each in stuck.read(str(tmp_path), BOOT))


def test_a_later_process_of_the_same_number_is_another(sleeper: Stuck) -> None:
    """The start time distinguishes them; the process that started then is found."""
    pidfd = stuck.alive(sleeper)
    assert pidfd is not None
    os.close(pidfd)
    later = dataclasses.replace(sleeper, start_ticks=sleeper.start_ticks - 1)
    assert stuck.alive(later) is None


def test_a_zombie_has_ended() -> None:
    """It was not reaped, and holds nothing any longer."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        found = children.read_process(process.pid)
        assert found is not None
        program = Stuck(process.pid, found.start_ticks, (), (), (), 0.0)
        pidfd = os.pidfd_open(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert stuck.over(pidfd)
        os.close(pidfd)
        assert children.read_process(process.pid) is not None
        assert stuck.alive(program) is None


def test_somebody_elses_process_in_a_session_of_that_number_is_let_alone(
    tmp_path: Path, sleeper: Stuck
) -> None:
    """Only a process in a scratch directory of the probe was started by it."""
    gone = dataclasses.replace(sleeper, pid=os.getsid(0) or 1, start_ticks=1)
    assert stuck.survivors([stuck.StartedProgram(gone)], str(tmp_path)) == []
