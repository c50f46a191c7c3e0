"""Memory is locked before the threads start."""

from __future__ import annotations

import subprocess
import sys


def test_what_is_loaded_at_the_start_is_not_walked_at_each_garbage_collection() -> None:
    """Half a million objects that stay until the end: a walk stops all threads for 0.1 s."""
    program = "import gc, iowarden.daemon.mlock as m; m.lock(); print(len(gc.get_objects()) < 100)"
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert told.stdout == "True\n"
