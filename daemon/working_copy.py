"""The checkout that this program runs from: 'make run' has its configuration and state there."""

from __future__ import annotations

import os
import pwd

RUNNER = "packaging/run-here"
"""What 'make run' starts: no package has it."""
EXAMPLE = "packaging/iowarden.yaml"
STATE = ".run"
CONFIG = f"{STATE}/iowarden.yaml"
"""State directory of `make run`, and its configuration if there is one, else the example.

Source: packaging/run-here.
"""


def directory() -> str:
    """Return the checkout that this program runs from, '' for an installed one."""
    top = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    return top if os.path.exists(f"{top}/{RUNNER}") else ""


def config(top: str) -> str:
    """Return the path of the configuration of `make run` in a checkout."""
    own = f"{top}/{CONFIG}"
    return own if os.path.lexists(own) else f"{top}/{EXAMPLE}"


def is_state(state_directory: str) -> bool:
    """Whether this is the state directory of `make run` in the checkout that runs."""
    top = directory()
    return bool(top) and state_directory == f"{top}/{STATE}"


def mail_setup(state_directory: str) -> str:
    """Return what configures a mail server: `iowarden setup` is for an installed service."""
    if not is_state(state_directory):
        return "'iowarden setup'"
    return (
        f"in '{directory()}': cp -n {EXAMPLE} {CONFIG}, set 'server' and 'to' of 'mail' there, then"
        " start 'make run' again"
    )


def owner(state_directory: str, top: str) -> pwd.struct_passwd | None:
    """Return the user whose state of a checkout root would write; None: it is no other one's.

    While `sudo make run` runs it is root's.
    """
    if os.geteuid() or not top or state_directory != f"{top}/{STATE}":
        return None
    place = state_directory if os.path.exists(state_directory) else top
    uid = os.stat(place).st_uid
    try:
        return pwd.getpwuid(uid) if uid else None
    except KeyError:  # a user of another host, as in a container
        return None
