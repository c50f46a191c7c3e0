"""Standard output of a command: also one whose reader has ended, or whose disk is full."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from iowarden.daemon.terminal import exit_status

if TYPE_CHECKING:
    from collections.abc import Callable


def completed(run: Callable[[], int]) -> int:
    """Run a command and write all that it prints; return its exit status.

    It is FAILED if that cannot be written, without a word if only the reader has ended, as in
    'iowarden events | head'; and INTERRUPTED after Ctrl-C.
    """
    try:
        try:
            return run()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _discard()
    except KeyboardInterrupt:
        return exit_status.INTERRUPTED
    except OSError as error:
        if error.filename is not None or _is_writable():
            raise
        sys.stderr.write(f"standard output: expected to write to it, got: {error.strerror}\n")
        _discard()
    return exit_status.FAILED


def _is_writable() -> bool:
    """Whether the error was another one: an OSError does not name the file that was written."""
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except OSError:
        return False
    return True


def _discard() -> None:
    """Let the flush at the end of the process not fail as well."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
