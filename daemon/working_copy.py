"""The checkout that this program runs from: 'make run' has its configuration and state there."""

from __future__ import annotations

import os
import pwd

RUNNER = "packaging/run-here"
"""What 'make run' starts: no package has it."""
CONFIG = "packaging/iowarden.yaml"
STATE = ".run"
"""Configuration and state directory of `make run`. Source: packaging/run-here."""


def directory() -> str:
    """Return the checkout that this program runs from, '' for an installed one."""
    top = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    return top if os.path.exists(f"{top}/{RUNNER}") else ""


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
