"""A child of the probe, from its gate to its end."""

from __future__ import annotations

import os
import pwd
import re
import resource
import select
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from iowarden.daemon.probe import capabilities, children
from iowarden.daemon.probe.capabilities import Capability
from iowarden.daemon.probe.programs import ProgramCommand

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.daemon.probe.children import Child, Work

DEADLINE_SECONDS = 60.0
"""Far above anything measured: it ends a test that would hang, and is no assertion."""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Child]]:
    """A list to which a test adds its children; they are killed when it ends."""
    found: list[Child] = []
    yield found
    for child in found:
        child.kill()
        if not over(child.pidfd):
            pytest.fail("a child outlived SIGKILL")
        children.ended(child.pid)
        child.close()
        os.close(child.pidfd)


def program(
    path: str, arguments: tuple[str, ...], capabilities: frozenset[Capability] = frozenset()
) -> Work:
    """The work of executing a program that accesses nothing."""
    return children.program(ProgramCommand(path, arguments, frozenset(), (), False, capabilities))


def over(pidfd: int) -> bool:
    """Wait for the end of a process."""
    return bool(select.select([pidfd], [], [], DEADLINE_SECONDS)[0])


def output(child: Child) -> bytes:
    """Wait for a child's end, and return its output, or why it failed."""
    assert over(child.pidfd)
    for pipe in child.pipes():
        pipe.read(1_000_000, turns=100)
    return bytes(child.output.content + child.fault.content)


def test_nothing_is_done_before_the_gate_opens(tmp_path: Path, started: list[Child]) -> None:
    """A child that is killed at its gate has accessed nothing."""
    child = children.start(
        program("/bin/touch", ("touch", str(tmp_path / "touched"))), str(tmp_path / "job")
    )
    started.append(child)
    child.kill()
    assert output(child) == b""
    assert not (tmp_path / "touched").exists()


def test_a_child_whose_gate_never_opens_ends_without_its_work(
    tmp_path: Path, started: list[Child]
) -> None:
    """The process that should open it died: the end of the pipe does not open the gate."""
    child = children.start(
        program("/bin/touch", ("touch", str(tmp_path / "touched"))), str(tmp_path / "job")
    )
    started.append(child)
    os.close(child.gate)
    child.gate = -1
    assert output(child) == b""
    assert not (tmp_path / "touched").exists()


def test_a_function_returns_json(
    tmp_path: Path, started: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is longer than a pipe holds, and arrives completely."""
    # The process of the tests, which is forked here, may have more memory than a probe's child may.
    limits = {**children.LIMITS, resource.RLIMIT_DATA: resource.RLIM_INFINITY}
    monkeypatch.setattr(children, "LIMITS", limits)
    call = children.function(
        lambda arguments: {"got": arguments, "long": "x" * 500_000}, ("a",), frozenset()
    )
    child = children.start(call, str(tmp_path / "job"))
    started.append(child)
    child.release()
    while child.output.read(1_000_000):
        select.select([child.output.descriptor], [], [], DEADLINE_SECONDS)
    assert output(child) == b'{"got":["a"],"long":"' + b"x" * 500_000 + b'"}'


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("expected this, got that"), b"expected this, got that"),
        (FileNotFoundError(2, "No such file", "/x"), b"[Errno 2] No such file: '/x'"),
        (KeyError("x"), b"KeyError: 'x'"),
        (KeyboardInterrupt(), b"KeyboardInterrupt: "),
        (ValueError("x" * 100_000), b"x" * children.MAX_ERROR_BYTES),
        (ValueError("\udcff\ud800"), b"\\udcff\\ud800"),
    ],
)
def test_a_function_that_fails_reports_why(
    tmp_path: Path, started: list[Child], error: BaseException, said: bytes
) -> None:
    """Whatever it raises, the child ends there, and the parent gets the message."""

    def fail(_: tuple[str, ...]) -> dict[str, object]:
        raise error

    child = children.start(children.function(fail, (), frozenset()), str(tmp_path / "job"))
    started.append(child)
    child.release()
    assert output(child) == said


def test_a_scratch_directory_that_is_there_already_is_an_error_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    """No child, no open descriptor; the directory belongs to another user and stays."""
    before = os.listdir("/proc/self/fd")
    (tmp_path / "job").mkdir()
    with pytest.raises(FileExistsError):
        children.start(program("/bin/true", ("true",)), str(tmp_path / "job"))
    assert (tmp_path / "job").is_dir()
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_all_is_closed_and_removed_at_the_end(tmp_path: Path) -> None:
    """Including what a program left in its directory, and never the target of a link there."""
    before = os.listdir("/proc/self/fd")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").touch()
    text = f"mkdir -p a/b; touch a/b/c .d; ln -s {tmp_path}/mine a/link; chmod 500 a/b"
    child = children.start(program("/bin/sh", ("sh", "-c", text)), str(tmp_path / "job"))
    child.release()
    assert over(child.pidfd)
    assert children.ended(child.pid) == 0
    child.close()
    os.close(child.pidfd)
    assert (tmp_path / "mine/file").exists()
    assert len(os.listdir("/proc/self/fd")) == len(before)
    if os.geteuid() == 0:  # others may not delete in a directory without write permission
        assert os.listdir(tmp_path) == ["mine"]


def test_a_name_in_parentheses_hides_no_field(tmp_path: Path) -> None:
    """A program may be called ') Z 1 (': the last parenthesis counts."""
    path = tmp_path / ") Z 1 ("
    path.symlink_to("/bin/sleep")
    with subprocess.Popen([path, "1000"], start_new_session=True) as process:
        found = children.read_process(process.pid)
        process.kill()
    assert found is not None
    assert (found.session, found.group) == (process.pid, process.pid)
    assert found.state in "RSD"
    assert children.read_process(2**22 + 1) is None


def test_the_signals_of_a_child_are_as_at_login(tmp_path: Path, started: list[Child]) -> None:
    """Python ignores SIGPIPE and the probe blocks some: a program that inherits that never ends."""
    child = children.start(program("/bin/cat", ("cat", "/proc/self/status")), str(tmp_path / "job"))
    started.append(child)
    child.release()
    lines = [line.split() for line in output(child).decode().splitlines()]
    masks = {words[0]: words[1] for words in lines if words[0] in ("SigBlk:", "SigIgn:", "SigCgt:")}
    # 32 and 33 are the C library's own, and make ignores them for all programs that it starts.
    assert [int(mask, 16) & ~(0b11 << 31) for mask in masks.values()] == [0, 0, 0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to give up")
def test_a_program_of_root_has_the_capabilities_that_it_needs_and_can_get_no_others(
    tmp_path: Path, started: list[Child]
) -> None:
    """A program that reads a file system: neither it nor what it starts may load, trace, mount."""
    kept = frozenset({Capability.DAC_READ_SEARCH})
    text = "cat /proc/self/status; sh -c 'cat /proc/self/status'"
    child = children.start(program("/bin/sh", ("sh", "-c", text), kept), str(tmp_path / "job"))
    started.append(child)
    child.release()
    lines = [line.split() for line in output(child).decode().splitlines()]
    sets = [words[1] for words in lines if words[0] in ("CapPrm:", "CapEff:", "CapInh:")]
    assert [int(mask, 16) for mask in sets] == [0, 1 << 2, 1 << 2] * 2
    assert [words[1] for words in lines if words[0] == "NoNewPrivs:"] == ["1", "1"]


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[pwd.struct_passwd]:
    """Let a user of each machine be that of the programs that need no root."""
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    monkeypatch.setattr(capabilities, "READER", "nobody")
    capabilities.reader.cache_clear()
    yield pwd.getpwnam("nobody")
    capabilities.reader.cache_clear()


def as_reader(text: str) -> children.Work:
    """Return the work of a shell that needs no root, and may read everything."""
    kept = frozenset({Capability.DAC_READ_SEARCH})
    command = ProgramCommand("/bin/sh", ("sh", "-c", text), frozenset(), (), capabilities=kept)
    return children.program(replace(command, needs_root=False))


def test_a_program_that_needs_no_root_is_another_user_with_its_capability(
    tmp_path: Path, started: list[Child], reader: pwd.struct_passwd
) -> None:
    """debugfs parses what somebody may have made to deceive it. So does what it starts."""
    text = "cat /proc/self/status; sh -c 'cat /proc/self/status'"
    child = children.start(as_reader(text), str(tmp_path / "job"))
    started.append(child)
    child.release()
    lines = [line.split() for line in output(child).decode().splitlines()]
    assert [w[1:] for w in lines if w[0] == "Uid:"] == [[str(reader.pw_uid)] * 4] * 2
    assert [w[1:] for w in lines if w[0] == "Gid:"] == [[str(reader.pw_gid)] * 4] * 2
    assert [w[1:] for w in lines if w[0] == "Groups:"] == [[]] * 2
    sets = [w[1] for w in lines if w[0] in ("CapPrm:", "CapEff:", "CapInh:", "CapAmb:")]
    assert {int(mask, 16) for mask in sets} == {1 << Capability.DAC_READ_SEARCH}


@pytest.mark.usefixtures("reader")
def test_a_program_that_needs_no_root_cannot_take_all_processes(
    tmp_path: Path, started: list[Child]
) -> None:
    """What deceives debugfs may fork without end: the probe still starts its other programs."""
    child = children.start(as_reader("cat /proc/self/limits"), str(tmp_path / "job"))
    started.append(child)
    child.release()
    (line,) = (each for each in output(child).decode().splitlines() if "Max processes" in each)
    assert line.split()[2:4] == ["96", "96"]


@pytest.mark.usefixtures("reader")
def test_a_program_that_needs_no_root_reads_roots_files_and_writes_none(
    tmp_path: Path, started: list[Child]
) -> None:
    """As root without any capability it could: a crontab, and a disk."""
    secret = tmp_path / "crontab"
    secret.write_text("mine\n")
    secret.chmod(0o600)
    text = f"cat {secret}; echo theirs >> {secret}; rm -f {secret}"
    child = children.start(as_reader(text), str(tmp_path / "job"))
    started.append(child)
    child.release()
    assert output(child) == b"mine\n"
    assert secret.read_text() == "mine\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
@pytest.mark.parametrize("end", ["killed", "orphaned"])
def test_what_the_unit_permits_suffices_to_start_and_to_kill_another_users_program(
    tmp_path: Path, end: str
) -> None:
    """kill(2) needs CAP_KILL then, also when the kernel kills it with its parent."""
    unit = (Path(__file__).parents[3] / "systemd/iowarden-probe.service").read_text()
    permitted = sorted(set(re.findall(r"\bCAP_(\w+)", unit)))
    script = (
        "import sys, time\nfrom iowarden.daemon.probe import capabilities, children\n"
        "from iowarden.daemon.probe.programs import ProgramCommand\n"
        "capabilities.READER = 'nobody'\n"
        f"capabilities.keep(capabilities.Capability[name] for name in {permitted})\n"
        "child = children.start(children.program(ProgramCommand('/bin/sleep', ('sleep', '1000'),"
        " frozenset(), (), needs_root=False)), sys.argv[1])\n"
        "child.release()\nprint(child.pid, flush=True)\nsys.stdin.readline()\n"
        "child.kill()\ntime.sleep(1000)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-I", "-c", script, str(tmp_path / "job")],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        pid = int(parent.stdout.readline())
        pidfd = os.pidfd_open(pid)
        nobody = pwd.getpwnam("nobody").pw_uid
        try:
            while Path(f"/proc/{pid}/comm").read_text() != "sleep\n":
                assert not select.select([pidfd], [], [], 0.01)[0], "it ended before"
            assert os.stat(f"/proc/{pid}").st_uid == nobody
            if end == "killed":
                parent.stdin.write(b"\n")
                parent.stdin.flush()
            else:
                parent.send_signal(signal.SIGKILL)
            assert over(pidfd)
        finally:
            parent.kill()
    os.close(pidfd)


def test_a_program_is_limited_in_what_it_uses(tmp_path: Path, started: list[Child]) -> None:
    """A vendor's program that goes mad takes no memory, time or disk from the host."""
    command = ("cat", "/proc/self/limits")
    child = children.start(program("/bin/cat", command), str(tmp_path / "job"))
    started.append(child)
    child.release()
    limits = {
        line[:26].strip(): line[26:].split()[:2] for line in output(child).decode().split("\n")
    }
    assert limits["Max data size"] == [str(children.MAX_MEMORY_BYTES)] * 2
    assert limits["Max cpu time"] == [str(children.MAX_CPU_SECONDS)] * 2
    assert limits["Max file size"] == [str(children.MAX_FILE_BYTES)] * 2
    assert limits["Max open files"] == [str(children.MAX_OPEN_FILES)] * 2
    assert limits["Max core file size"] == ["0", "0"]


def test_descendants_are_found_in_other_sessions(tmp_path: Path, started: list[Child]) -> None:
    """SIGKILL reaches a process that left the group while its parent lives."""
    text = "setsid sleep 1000 & echo $!; wait"
    child = children.start(program("/bin/sh", ("sh", "-c", text)), str(tmp_path / "job"))
    started.append(child)
    child.release()
    assert select.select([child.output.descriptor], [], [], DEADLINE_SECONDS)[0]
    child.output.read(100)
    pidfd = os.pidfd_open(int(child.output.content))
    child.kill()
    assert over(pidfd)
    os.close(pidfd)


def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    """The probe is killed: no other process would end its programs."""
    script = (
        "import sys, time\nfrom iowarden.daemon.probe import children\n"
        "from iowarden.daemon.probe.programs import ProgramCommand\n"
        "child = children.start(children.program(ProgramCommand("
        "'/bin/sleep', ('sleep', '1000'), frozenset(), ())), sys.argv[1])\n"
        "child.release()\nprint(child.pid, flush=True)\ntime.sleep(1000)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-I", "-c", script, str(tmp_path / "job")], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        pidfd = os.pidfd_open(int(parent.stdout.readline()))
        parent.send_signal(signal.SIGKILL)
    assert over(pidfd)
    os.close(pidfd)
