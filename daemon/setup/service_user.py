"""Runs a part of a command as the service's user: root can read and reach what it cannot."""

from __future__ import annotations

import os
import pwd
import sys
import traceback
from typing import TYPE_CHECKING, NoReturn

from iowarden.collectors.model import UserInputError
from iowarden.daemon.terminal import exit_status, output

if TYPE_CHECKING:
    from collections.abc import Callable

SERVICE_USER = "iowarden"
"""The user as which the service runs. Source: systemd/iowarden.service."""


def service_user() -> pwd.struct_passwd | None:
    """Return the service's user if this process is root and the user exists."""
    try:
        return None if os.geteuid() else pwd.getpwnam(SERVICE_USER)
    except KeyError:
        return None


def run(part: Callable[[], int], user: pwd.struct_passwd | None) -> int:
    """Return the exit status of `part`, run as another user in a child process; None: here.

    A child process: one that has changed its user cannot become root again.
    Limits: the restrictions of the service's unit (systemd.exec) do not apply.
    """
    if user is None:
        return part()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _end_as(user, part)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _end_as(user: pwd.struct_passwd, part: Callable[[], int]) -> NoReturn:
    """Become another user, run a part of a command, and exit with the resulting status."""
    status = exit_status.FAILED
    try:
        os.initgroups(user.pw_name, user.pw_gid)
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
        status = output.completed(part)
    except UserInputError as error:
        sys.stderr.write(f"{error}\n")
        status = exit_status.CONFIG
    except OSError as error:
        sys.stderr.write(f"user '{user.pw_name}': expected to check as this user, got: {error}\n")
    except Exception:  # noqa: BLE001 - printed here: the parent never gets it
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)
