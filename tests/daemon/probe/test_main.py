"""How the probe is started: by systemd's socket, by a foreground run, and by mistake."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import pytest
from support import other_user
from support.probe import DEADLINE_SECONDS, Talk

from iowarden.daemon.probe.protocol import ReplyStatus, Request

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = (sys.executable, "-I", "-m", "iowarden.daemon.probe")
ROOT = os.geteuid() == 0
UNPRIVILEGED = () if ROOT else ("--unprivileged",)


def test_systemds_socket_starts_it_and_is_served(tmp_path: Path) -> None:
    """The first connection starts it; it reports that it is ready, and answers."""
    if shutil.which("systemd-socket-activate") is None:
        pytest.skip("needs systemd-socket-activate")
    path, notified = tmp_path / "socket", tmp_path / "notify"
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify,
        socket.socket(socket.AF_UNIX) as stream,
    ):
        notify.bind(str(notified))
        notify.settimeout(DEADLINE_SECONDS)
        with subprocess.Popen(
            [
                *("systemd-socket-activate", "-l", path, "-E", f"NOTIFY_SOCKET={notified}"),
                *("-E", f"RUNTIME_DIRECTORY={tmp_path}", *COMMAND, *UNPRIVILEGED),
            ],
            stderr=subprocess.DEVNULL,
        ) as process:
            end = time.monotonic() + DEADLINE_SECONDS
            while stream.connect_ex(str(path)) != 0:
                assert time.monotonic() < end
                time.sleep(0.01)  # between two checks of another process
            talk = Talk(stream)
            assert notify.recv(100) == b"READY=1"
            talk.send(Request(1, "statvfs", ("/",)))
            assert talk.answer().outcome in (
                ReplyStatus.DONE,
                ReplyStatus.FAILED,
            )  # a container: no '/'
            process.send_signal(signal.SIGTERM)
            assert notify.recv(100) == b"STOPPING=1"
        assert process.returncode == 0
    assert (tmp_path / "stuck.json").exists()


def test_a_foreground_run_starts_it_with_a_connection(tmp_path: Path) -> None:
    """It serves this connection, and ends with it."""
    mine, theirs = socket.socketpair()
    with subprocess.Popen(
        [
            *(*COMMAND, "--descriptor", str(theirs.fileno())),
            *("--runtime-directory", tmp_path, *UNPRIVILEGED),
        ],
        pass_fds=[theirs.fileno()],
        stderr=subprocess.DEVNULL,
    ) as process:
        theirs.close()
        with mine:
            talk = Talk(mine)
            talk.send(Request(1, "programs"))
            assert talk.answer().outcome is ReplyStatus.DONE
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ((), 64, "no runtime directory: give '--runtime-directory'"),
        (("--runtime-directory", "/tmp"), 64, "no socket: give '--descriptor'"),
    ],
)
def test_a_start_without_what_it_needs_reports_that(
    words: tuple[str, ...], status: int, said: str
) -> None:
    """It does not guess a socket or a directory."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LISTEN_", "RUNTIME_", "NOTIFY_"))
    }
    ended = subprocess.run(
        [*COMMAND, *UNPRIVILEGED, *words], env=environment, capture_output=True, check=False
    )
    assert ended.returncode == status
    assert said in ended.stderr.decode()


def test_nobody_but_root_may_start_it(tmp_path: Path) -> None:
    """Without root privileges it could do nothing of its purpose."""
    other = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups") if ROOT else ()
    with tempfile.TemporaryDirectory() as directory:  # pytest's own is closed to others
        os.chmod(directory, 0o755)
        command = other_user.program("iowarden.daemon.probe", directory)
        ended = subprocess.run(
            [*other, *command, "--runtime-directory", tmp_path],
            capture_output=True,
            check=False,
            cwd="/",
        )
    assert ended.returncode == 77
    assert "root" in ended.stderr.decode()


def start_in(directory: Path) -> tuple[int, str]:
    """Start it in an unusable directory; return its exit status and its output."""
    mine, theirs = socket.socketpair()
    with mine, theirs:
        ended = subprocess.run(
            [
                *(*COMMAND, "--descriptor", str(theirs.fileno()), *UNPRIVILEGED),
                *("--runtime-directory", directory),
            ],
            pass_fds=[theirs.fileno()],
            capture_output=True,
            check=False,
            timeout=DEADLINE_SECONDS,
        )
    return ended.returncode, ended.stderr.decode()


def test_a_runtime_directory_that_cannot_be_is_named(tmp_path: Path) -> None:
    """It cannot write its register: it does not start."""
    (tmp_path / "file").touch()
    status, said = start_in(tmp_path / "file/none")
    assert status == 71
    assert "file/none" in said


def test_a_runtime_directory_that_others_can_write_is_refused(tmp_path: Path) -> None:
    """A register from there could have any process killed."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    status, said = start_in(tmp_path / "open")
    assert status == 71
    assert "mode 0777" in said
