"""State as version 1 wrote it, and the machine on which it did, ten minutes later.

How 'fixtures/stored-1' was made: tests/fixtures/README.md.
"""

from __future__ import annotations

import lzma
from typing import TYPE_CHECKING

from support.kmsg import Kernel, medium_error
from support.live import Live
from support.recordings import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

ENDED = 1_795_196_983.0
"""Unix time at which the program that wrote it ended."""
_UPTIME = 11_054.0
_DOWN_SECONDS = 600.0
STARTED = ENDED + _DOWN_SECONDS
MEMBER_MISSING = "<iowarden.2351da1a80.1@db1.example.com>"
"""The mail that opened the incident of md0."""
UNSENT = "<iowarden.e9d19b99f9.1@db1.example.com>"
"""The mail about sdc that no server had taken yet."""
ACKNOWLEDGED = "7fefa1128a"
"""The incident of sdd."""


def put_state(directory: Path) -> None:
    """Write state.db and history.db."""
    directory.mkdir(exist_ok=True)
    for name in ("state.db", "history.db"):
        packed = (FIXTURES / "stored-1" / f"{name}.xz").read_bytes()
        (directory / name).write_bytes(lzma.decompress(packed))


def machine(tmp_path: Path) -> tuple[Live, Kernel]:
    """Return the machine: md0 lacks a member, and the kernel's ring has what was told of disks."""
    live = Live(tmp_path, uptime=_UPTIME + _DOWN_SECONDS, wall=STARTED)
    live.change({"/proc/sys/vm/swappiness": "60\n", "/proc/sys/vm/laptop_mode": "5\n"})
    live.plug("sdc")
    live.plug("sdd")
    live.degrade()
    kernel = Kernel(live)
    kernel.lines += [
        "6,1,10001500000,-;sd 0:0:0:0: [sda] Attached SCSI disk\n",
        f"3,2,10459500001,-;{medium_error(123456, 'sdd')}\n",
        f"3,3,10963500002,-;{medium_error(777, 'sdc')}\n",
    ]
    live.change(
        {
            "/.kmsg": "".join(kernel.lines),
            "/proc/stat": (
                "cpu  1 0 1 1 1 0 0 0 0 0\nintr 0\nctxt 0\nbtime 1795185929\nprocesses 1\n"
                "procs_running 1\nprocs_blocked 0\n"
            ),
        }
    )
    live.restarted()
    return live, kernel
