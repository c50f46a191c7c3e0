"""`iowarden check --nagios` by the distribution's NRPE, with the command file that is shipped."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.program import Played, with_hung_disk
from support.smtp import DEADLINE_SECONDS, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND_FILE = Path(__file__).parents[3] / "packaging/monitoring/iowarden-nrpe.cfg"
MISSING = " ".join(each for each in ("nrpe", "check_nrpe") if shutil.which(each) is None)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """The service on a machine with a hung disk."""
    with with_hung_disk(tmp_path_factory.mktemp("nrpe")) as program:
        yield program


@contextlib.contextmanager
def nrpe(directory: Path, state: Path) -> Iterator[int]:
    """Run NRPE on loopback with the shipped file, whose program is this one; give its port.

    NRPE refuses to run as root: then it is given another user in a namespace of its own.
    """
    program = f"{Path(sys.executable).with_name('iowarden')}"
    commands = COMMAND_FILE.read_text().replace("/usr/bin/iowarden", program)
    (directory / "iowarden.cfg").write_text(f"{commands.rstrip()} --state-directory {state}\n")
    is_root, port = os.geteuid() == 0, free_port()
    (directory / "nrpe.cfg").write_text(
        f"server_address=127.0.0.1\nserver_port={port}\nallowed_hosts=127.0.0.1\n"
        f"nrpe_user={'nobody' if is_root else getpass.getuser()}\nnrpe_group={os.getgid()}\n"
        f"pid_file={directory}/pid\nlog_file={directory}/log\ninclude={directory}/iowarden.cfg\n"
    )
    user = ("unshare", "--user", "--map-user=nobody", "--map-group=nogroup") if is_root else ()
    process = subprocess.Popen([*user, "nrpe", "-c", directory / "nrpe.cfg", "-f"])
    end = time.monotonic() + DEADLINE_SECONDS
    try:
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port)).close()
                break
            assert process.poll() is None, (directory / "log").read_text()
            assert time.monotonic() < end
            os.sched_yield()
        yield port
    finally:
        process.terminate()
        process.wait(DEADLINE_SECONDS)


@pytest.mark.system
@pytest.mark.skipif(
    bool(MISSING), reason=f"make build/tools/nrpe build/tools/check_nrpe: {MISSING}"
)
def test_nagios_gets_the_line_and_the_status_of_a_hung_disk(played: Played, tmp_path: Path) -> None:
    """As iowarden-nagios.cfg calls it: TLS, one line with its numbers, exit status 2."""
    with nrpe(tmp_path, played.state) as port:
        query = ("-H", "127.0.0.1", "-p", f"{port}", "-t", "20", "-u", "-c", "check_iowarden")
        done = subprocess.Popen(["check_nrpe", *query], stdout=subprocess.PIPE, text=True)
        played.until(lambda: done.poll() is not None, "the reply of NRPE")
        assert done.stdout is not None
        with done.stdout as stream:
            line = stream.read()
    assert done.returncode == 2, line
    assert line == played.command("check", "--nagios").stdout
    assert line.startswith("IOWARDEN CRITICAL: ")
    assert " | critical=1;;0;0 " in line


@pytest.mark.system
@pytest.mark.skipif(
    bool(MISSING), reason=f"make build/tools/nrpe build/tools/check_nrpe: {MISSING}"
)
def test_nagios_gets_critical_from_a_host_whose_iowarden_does_not_run(tmp_path: Path) -> None:
    """Not UNKNOWN, which many do not notify."""
    state = tmp_path / "state"
    state.mkdir()
    with nrpe(tmp_path, state) as port:
        query = ("-H", "127.0.0.1", "-p", f"{port}", "-t", "20", "-u", "-c", "check_iowarden")
        done = subprocess.run(["check_nrpe", *query], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout.startswith("IOWARDEN CRITICAL: iowarden is not running (no ")
