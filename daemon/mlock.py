"""Locks code and data in memory: a page fault on a hung disk would stop iowarden, too."""

from __future__ import annotations

import ctypes
import gc
import os

_MCL_CURRENT = 1
_MCL_FUTURE = 2
_MCL_ONFAULT = 4
"""Source: mlockall(2), asm-generic/mman.h; ONFAULT since Linux 4.4."""

THREAD_STACK_BYTES = 512 * 1024
"""Locked memory counts address space: the 8 MB stacks of a few threads would be most of it."""


def lock() -> str:
    """Lock present memory and, when touched, future memory; return '' or why that failed.

    Call it after all imports and a dry run of the alert path, and before threads start. What they
    left behind is freed before it is locked; what they loaded stays until the end, and the garbage
    collector does not walk it again (gc.freeze). Locking everything first and then only what is
    touched keeps reserved but unused parts of stacks and arenas out of memory.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    gc.collect()
    gc.freeze()
    if hasattr(libc, "malloc_trim"):  # malloc_trim(3) is glibc's
        libc.malloc_trim(ctypes.c_size_t(0))
    for flags in (_MCL_CURRENT, _MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT):
        if libc.mlockall(flags):
            error = os.strerror(ctypes.get_errno())
            return (
                f"memory: mlockall failed: {error}; if the root disk hangs, iowarden may hang with"
                " it. Set LimitMEMLOCK=infinity, as the shipped unit does, or run as root"
            )
    return ""
