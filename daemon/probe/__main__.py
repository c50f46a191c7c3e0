"""The privileged probe: `python -I -m iowarden.daemon.probe`, by systemd's socket or a given one.

*Source:* sd_listen_fds(3), sd_notify(3). Exit: 0, 64 (command line), 71 (not on this kernel), 77
(not root); numbers of sysexits.h.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pwd
import socket
import sys

from systemd.daemon import listen_fds, notify

from iowarden.daemon.journal import LEVELS, PROBE, TROUBLE, Log
from iowarden.daemon.probe.capabilities import reader
from iowarden.daemon.probe.server import ProbeServer

IDENTIFIER = "iowarden-probe"
USER = "iowarden"
_USAGE, _SYSTEM, _PERMISSION = 64, 71, 77


def main(arguments: list[str]) -> int:
    """Serve until idle, or until the given connection ends; return the exit status."""
    parser = argparse.ArgumentParser(
        "iowarden-probe", description="Runs programs as root for iowarden."
    )
    parser.add_argument("--descriptor", type=int, help="connected socket, instead of systemd's")
    parser.add_argument(
        "--user", default=USER, help="user that may send requests, like root (%(default)s)"
    )
    parser.add_argument("--runtime-directory", default=_runtime_directory())
    parser.add_argument("--unprivileged", action="store_true", help="for tests: do not run as root")
    parser.add_argument(
        "--log-level", choices=LEVELS, default="info", help="debug: also its starts and ends"
    )
    options = parser.parse_args(arguments)
    own = os.geteuid()
    if own != 0 and not options.unprivileged:
        return _refuse("must be started by root", _PERMISSION)
    if not options.runtime_directory:
        return _refuse(
            "no runtime directory: give '--runtime-directory' or start it by systemd", _USAGE
        )
    listening = listen_fds() if options.descriptor is None else []
    if options.descriptor is None and not listening:
        return _refuse("no socket: give '--descriptor' or start it by systemd", _USAGE)
    log = Log(foreground=not listening, identifier=IDENTIFIER, level=options.log_level)
    users = {own} if options.unprivileged else set()
    with contextlib.suppress(KeyError):  # no such user here: only root may send requests
        users.add(pwd.getpwnam(options.user).pw_uid)
    reader()  # looked up once, before any child
    try:
        os.makedirs(options.runtime_directory, 0o700, exist_ok=True)  # systemd has made its own
        server = ProbeServer(
            directory=options.runtime_directory,
            users=users,
            log=log,
            listener=socket.socket(fileno=listening[0]) if listening else None,
            connected=[socket.socket(fileno=options.descriptor)] if not listening else [],
        )
    except OSError as error:
        log.send(TROUBLE, LEVELS["error"], f"probe: cannot start: {error}")
        log.close()
        return _SYSTEM
    log.send(PROBE, LEVELS["debug"], "probe: ready")
    notify("READY=1")
    server.run()
    notify("STOPPING=1")
    log.send(
        PROBE, LEVELS["debug"], f"probe: stopped; requests refused: {server.log.refused_total}"
    )
    log.close()
    return 0


def _refuse(why: str, status: int) -> int:
    sys.stderr.write(f"iowarden-probe: {why}\n")
    return status


def _runtime_directory() -> str:
    """Return the directory that the unit declares. Source: systemd.exec(5), RuntimeDirectory."""
    return os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
