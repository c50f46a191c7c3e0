"""Creates the control socket, or takes it over from systemd (sd_listen_fds(3))."""

from __future__ import annotations

import errno
import os
import socket
import stat

from systemd.daemon import listen_fds_with_names

SOCKET = "/run/iowarden/control.sock"
FILE_NAME = "control.sock"
"""Its name in the state directory of a run in the foreground."""
DESCRIPTOR_NAMES = frozenset({"control", FILE_NAME, "iowarden-control.socket"})
"""systemd.socket(5), FileDescriptorName; the last one is the default for a unit of that name."""
BACKLOG = 128
MAX_PATH_BYTES = 107
"""unix(7): sun_path has 108 bytes, including the terminating one."""


class ControlError(OSError):
    """The socket cannot be created; the text states why and what to do."""


def inherited() -> socket.socket | None:
    """Return the listening socket that systemd passed, None if it passed none.

    Source: sd_listen_fds(3). Call it once, at start: it removes the variables from the environment.
    """
    for descriptor, name in listen_fds_with_names().items():
        if name in DESCRIPTOR_NAMES:
            return socket.socket(fileno=descriptor)
    return None


def bind(path: str) -> socket.socket:
    """Return a socket that listens at a path, with mode 0660; call it at start: the disk may hang.

    A socket left behind by a killed run is removed. Errors: ControlError.
    """
    if (size := len(os.fsencode(path))) > MAX_PATH_BYTES:
        raise ControlError(
            f"'{path}': expected a path of at most {MAX_PATH_BYTES} bytes, got {size};"
            " choose a shorter state directory"
        )
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        _remove_dead(path)
        listener.bind(path)
        os.chmod(path, 0o660)  # before listen(): until then no client can connect
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if isinstance(error, ControlError):
            raise
        raise ControlError(
            f"'{path}': expected to listen there, got '{error.strerror}';"
            " fix it or choose another state directory"
        ) from error
    return listener


def _remove_dead(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ControlError(f"'{path}': expected a socket or nothing, got a file; move it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as client:
        got = client.connect_ex(path)
    if got in (0, errno.EAGAIN):
        raise ControlError(
            f"'{path}': expected an unused socket, got an answer; is iowarden running already? Stop"
            " it or choose another state directory"
        )
    if got != errno.ECONNREFUSED:
        raise OSError(got, os.strerror(got), path)
    os.unlink(path)
