"""Exit statuses of all commands."""

from __future__ import annotations

FAILED = 1
USAGE = 2
"""Wrong usage, as argparse exits."""
UNMATCHED = 3
"""Done, but nothing on this host is meant by it: a silence with a misspelt name."""
CONFIG = 78
"""EX_CONFIG of sysexits.h, an error in configuration or input: the unit does not restart on it."""
INTERRUPTED = 130
"""Ctrl-C, as a shell reports it: 128 + SIGINT."""
