"""The two ways to the probe: systemd's socket, or a probe that is started as a child."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable

Connect = Callable[[], socket.socket]
"""Return a new connected stream socket. Errors: OSError; FileNotFoundError: no probe at all."""

_MOST_CHILDREN = 3


def at(path: str) -> Connect:
    """Return what connects to the socket at a path, as systemd made it."""

    def connect() -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(0)  # a full queue is an error (EAGAIN), not a wait: unix(7)
            connection.connect(path)
        except OSError as error:
            connection.close()
            text = f"{error.strerror}; see 'systemctl status iowarden-probe.socket'"
            raise type(error)(error.errno, text, path) from error
        return connection

    return connect


def spawn(runtime_directory: str, *options: str) -> Connect:
    """Return what starts a probe as a child, for a run in the foreground, and connects to it.

    The child has a session of its own, so that Ctrl-C reaches only us; it ends at the end of its
    connection. `options` are further ones of its command line.
    Limits: beyond `_MOST_CHILDREN` that live on, no other is started.
    """
    children: list[subprocess.Popen[bytes]] = []

    def connect() -> socket.socket:
        children[:] = [child for child in children if child.poll() is None]
        if len(children) >= _MOST_CHILDREN:
            pids = ", ".join(str(child.pid) for child in children)
            for child in children:
                child.kill()
            raise ChildProcessError(
                f"{len(children)} earlier probes (processes {pids}) were killed and have not ended;"
                " check for a hung disk"
            )
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-I", "-m", "iowarden.daemon.probe"]
            command += ["--descriptor", str(theirs.fileno())]
            command += ["--runtime-directory", os.path.abspath(runtime_directory), *options]
            try:
                child = subprocess.Popen(  # noqa: S603 - our own program, nothing of it from outside
                    command,
                    stdin=subprocess.DEVNULL,
                    cwd="/",
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                    # With a user, even our own, it is fork and not vfork: that would suspend us
                    # until the exec, the interpreter's lock held, and the exec may wait for a disk.
                    user=os.geteuid(),
                )
            except OSError:
                ours.close()
                raise
        children.append(child)
        # It ends when we close, and leaves no zombie until the next one is started.
        threading.Thread(target=child.wait, name="probe-child", daemon=True).start()
        return ours

    return connect
