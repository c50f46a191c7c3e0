"""Exit statuses that commands have in common."""

from __future__ import annotations

FAILED = 1
USAGE = 2
"""As argparse has it."""
CONFIG = 78
"""sysexits.h EX_CONFIG, what a person gave: the unit does not restart on it."""
INTERRUPTED = 130
"""As a shell says of a program that Ctrl-C ended."""
