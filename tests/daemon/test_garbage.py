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

def walks(generation=2):
    return gc.get_stats()[generation]["collections"]

garbage = GarbageCollection()
garbage.step(0.0)
young = walks(0)
for second in range(10):
    kept = [[number] for number in range(9_000)]
print(walks(0) - young)
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
    """Half a million new ones would be a dozen walks; garbage is freed at the next one.

    What is made anew each second, and freed in the next one, is not walked at all.
    """
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert told.stdout.splitlines() == ["0", "0 False", "1 True"]
