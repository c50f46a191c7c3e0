"""A directory that never answers: a FUSE file system whose server reads no request.

Source: the kernel's filesystems/fuse.rst (mount options); mount(2).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_MOUNT = """
import ctypes, os, sys
libc, device = ctypes.CDLL(None), os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
os.set_inheritable(device, True)  # the file system ends with it
if libc.mount(b"hung", os.fsencode(sys.argv[1]), b"fuse", 0, options):
    sys.exit(77)
os.execv(sys.argv[2], sys.argv[2:])
"""
CANNOT_MOUNT = 77


def run(directory: Path, *command: str, timeout_seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a command to which a directory hangs; `CANNOT_MOUNT` if this machine has no FUSE for us.

    Errors: subprocess.TimeoutExpired.
    """
    unshare = ("unshare", "--map-root-user", "--mount", sys.executable, "-c", _MOUNT)
    return subprocess.run(
        [*unshare, str(directory), *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_seconds,
    )


def is_possible(directory: Path) -> bool:
    """Whether such a directory can be made here."""
    return Path("/dev/fuse").exists() and (
        run(directory, "/bin/true", timeout_seconds=10.0).returncode == 0
    )
