"""State that older versions wrote, and the machines on which they did, ten minutes later.

How it was made: README.md in 'fixtures/stored-1' and 'fixtures/stored-2'.
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


def unpacked(fixture: str, name: str) -> bytes:
    """Return a file of what an older version wrote."""
    return lzma.decompress((FIXTURES / fixture / f"{name}.xz").read_bytes())


def put_state(directory: Path, fixture: str = "stored-1") -> None:
    """Write state.db and history.db."""
    directory.mkdir(exist_ok=True)
    for name in ("state.db", "history.db"):
        (directory / name).write_bytes(unpacked(fixture, name))


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


NAMES_ENDED = 1_795_196_969.0
"""Unix time at which the program ended that wrote 'stored-2'."""
_NAMES_UPTIME = 11_040.0


def machine_of_names(tmp_path: Path) -> tuple[Live, Kernel]:
    """Return the machine of 'stored-2' in the same state: all that was wrong is wrong still."""
    live = Live(tmp_path, uptime=_NAMES_UPTIME + _DOWN_SECONDS, wall=NAMES_ENDED + _DOWN_SECONDS)
    live.change(
        {
            "/proc/sys/vm/swappiness": "60\n",
            "/proc/sys/vm/dirty_ratio": "40\n",
            "/proc/sys/vm/laptop_mode": "5\n",
            "/proc/1/mountinfo": (
                "25 1 259:1 / / rw,relatime - ext4 /dev/nvme0n1p2 rw\n"
                "31 25 8:65 / /srv rw - ext4 /dev/sde1 rw,errors=remount-ro\n"
            ),
            "/sys/fs/ext4/sde1/errors_count": "1\n",
            "/sys/fs/ext4/sde1/warning_count": "0\n",
        }
    )
    for name in ("sdc", "sdd", "sde", "sdf"):
        live.plug(name)
    live.change(
        {
            "/sys/block/sde/sde1/partition": "1\n",
            "/sys/block/sde/sde1/start": "2048\n",
            "/sys/block/sde/sde1/size": "1000000\n",
            "/sys/block/md0/md/dev-sdb/state": "faulty\n",
        }
    )
    live.degrade()
    live.hang("sdf")
    kernel = Kernel(live)
    kernel.lines += [
        "6,1,10001500000,-;sd 0:0:0:0: [sda] Attached SCSI disk\n",
        f"3,2,10459500001,-;{medium_error(123456, 'sdd')}\n",
        f"3,3,10949500002,-;{medium_error(777, 'sdc')}\n",
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
