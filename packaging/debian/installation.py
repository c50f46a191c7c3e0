"""The version of this copy of iowarden, and the command that starts one of its modules.

Constants of the Debian package, made with it.
"""

from __future__ import annotations

VERSION = "@VERSION@"


def module_command(module: str) -> list[str]:
    """Return the command line that runs a module as a program, unaffected by the environment."""
    return [f"/usr/lib/iowarden/bin/iowarden-{module.rpartition('.')[2]}"]
