"""Connects to the probe: to the socket of systemd, or to a probe started as a child."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Callable

from iowarden.daemon.installation import module_command

Connect = Callable[[], socket.socket]
"""Returns a new connected stream socket. Errors: OSError; FileNotFoundError: there is no probe."""

_MAX_CHILDREN = 3


def connector(path: str) -> Connect:
    """Return a function that connects to the socket at a path, which systemd made."""

    def connect() -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(0)  # A full queue is an error (EAGAIN), not a wait: unix(7).
            connection.connect(path)
        except OSError as error:
            connection.close()
            text = f"{error.strerror}; see 'systemctl status {os.path.basename(path)}'"
            raise type(error)(error.errno, text, path) from error
        return connection

    return connect


def spawn(runtime_directory: str, *options: str) -> Connect:
    """Return a function that starts a probe as a child and connects to it, for foreground runs.

    The child has its own session, so that Ctrl-C reaches only the daemon; it ends with its
    connection. `options` are further command line options.
    Limits: no further one is started while `_MAX_CHILDREN` are still running.
    """
    directory = os.path.abspath(runtime_directory)
    return spawn_module("iowarden.daemon.probe", "--runtime-directory", directory, *options)


def spawn_module(module: str, *options: str) -> Connect:
    """Return a function that starts a module as a child and connects to it, as `spawn` does."""
    children: list[subprocess.Popen[bytes]] = []

    def connect() -> socket.socket:
        children[:] = [child for child in children if child.poll() is None]
        if len(children) >= _MAX_CHILDREN:
            pids = ", ".join(str(child.pid) for child in children)
            for child in children:
                child.kill()
            raise ChildProcessError(
                f"{len(children)} earlier processes ({pids}) of {module} were killed and have not"
                " ended; check for a hung disk"
            )
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor = str(theirs.fileno())
            command = [*module_command(module), "--descriptor", descriptor, *options]
            try:
                child = subprocess.Popen(  # noqa: S603 - our own program and arguments
                    command,
                    stdin=subprocess.DEVNULL,
                    cwd="/",
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                    # With a user, even our own, Popen uses fork and not vfork: vfork would suspend
                    # the daemon until the exec, with the interpreter's lock held, and the exec may
                    # wait for a disk.
                    user=os.geteuid(),
                )
            except OSError:
                ours.close()
                raise
        children.append(child)
        # It ends when we close the connection, and is reaped when the next one is started.
        threading.Thread(target=child.wait, name="probe-child", daemon=True).start()
        return ours

    return connect
