"""The version of this copy of iowarden, and the command that starts one of its modules.

`make deb` replaces this file by constants: a Debian package has no Python metadata, and its modules
are only found by its launcher (packaging/debian/launcher).
"""

from __future__ import annotations

import importlib.metadata
import sys

VERSION = importlib.metadata.version("iowarden")


def module_command(module: str) -> list[str]:
    """Return the command line that runs a module as a program, unaffected by the environment."""
    return [sys.executable, "-I", "-m", module]
