"""The garbage collector does not stop the loop to walk what stays until the end."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc, weakref
from iowarden.daemon.garbage import COLLECT_SECONDS, GarbageCollection

class Cycle:
    def __init__(self):
        self.own = self

def walks():
    return gc.get_stats()[2]["collections"]

garbage = GarbageCollection()
garbage.step(0.0)
old = Cycle()
gc.collect()
seen, before = weakref.ref(old), walks()
del old
kept = [[number] for number in range(500_000)]
garbage.step(COLLECT_SECONDS - 1)
print(walks() - before, seen() is None)
garbage.step(COLLECT_SECONDS)
garbage.step(COLLECT_SECONDS + 1)
print(walks() - before, seen() is None)
"""


def test_every_object_is_walked_once_an_hour_however_many_are_made() -> None:
    """Half a million new ones would be a dozen walks; garbage is freed at the next one."""
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert told.stdout.splitlines() == ["0 False", "1 True"]
