"""Pools of ZFS and thin volumes on the disks of a simulated machine: its files, its programs.

Three pools, a raidz2 of eight disks each, and a thin pool with 200 volumes on the first disk.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.kstat import arcstats, named, txgs
from support.machine import disk_name, write_tree

from iowarden.collectors.device_mapper.mapped_targets import MAX_DEVICES, VERB
from iowarden.collectors.machine import probe_path
from iowarden.collectors.zfs.pool_space import PROPERTIES
from iowarden.collectors.zfs.pool_state import DIRECTORY

if TYPE_CHECKING:
    from pathlib import Path

    from support.machine import Files

POOLS, DISKS_OF_POOL, VOLUMES = 3, 8, 200


def write_stacked(root: Path) -> None:
    """Add the files to those of a machine with 24 disks."""
    write_tree(root, _pools() | _thin_volumes())


def answers() -> dict[str, str]:
    """Return what the probe answers, by the path that it has in a recording."""
    return _of_pools() | _of_thin_volumes()


def _ran(command: tuple[str, ...], stdout: str) -> dict[str, str]:
    answer = {"status": 0, "signal": None, "stdout": stdout, "stderr": ""}
    return {probe_path("run", command): json.dumps(answer)}


def _pools() -> Files:
    found: Files = {
        f"{DIRECTORY}/dmu_tx": named({"dmu_tx_dirty_delay": 12, "dmu_tx_dirty_over_max": 3}),
        f"{DIRECTORY}/arcstats": arcstats(size=4e9, c_min=1e9, c_max=8e9, c=4e9),
    }
    for number in range(POOLS):
        found |= {
            f"{DIRECTORY}/tank{number}/state": "ONLINE\n",
            f"{DIRECTORY}/tank{number}/txgs": txgs(),
        }
    return found


def _of_pools() -> dict[str, str]:
    found: dict[str, str] = {}
    for number in range(POOLS):
        pool = f"tank{number}"
        first = number * DISKS_OF_POOL
        rows = [f"\t{pool} ONLINE 0 0 0 0\n", "\t  raidz2-0 ONLINE 0 0 0 0\n"]
        rows += [
            f"\t    /dev/{disk_name(first + each)}1 ONLINE 0 0 0 0\n"
            for each in range(DISKS_OF_POOL)
        ]
        scan = "scrub repaired 0B in 02:48:19 with 0 errors on Fri Jan 15 03:12:20 2027"
        text = (
            f"  pool: {pool}\n state: ONLINE\n  scan: {scan}\nconfig:\n\n{''.join(rows)}\n"
            "errors: No known data errors\n"
        )
        found |= _ran(("zpool", "status", "-pLPs", pool), text)
        space = "8000000000000\t4000000000000\t4000000000000\t12\n"
        found |= _ran(("zpool", "list", "-Hpo", PROPERTIES, pool), space)
    return found


POOL = "vg-pool-tpool"
NAMES = tuple(f"vg-vm--{number}--disk--0" for number in range(100, 100 + VOLUMES))


def _thin_volumes() -> Files:
    """Return the files of the pool 'dm-0' and of its volumes."""
    below = disk_name(0)
    found: Files = {f"/sys/block/{below}/{below}1/holders/dm-0": None}
    for number, name in enumerate((POOL, *NAMES)):
        base, slave = f"/sys/block/dm-{number}", "dm-0" if number else f"{below}1"
        texts = {"dm/name": name, "dm/uuid": f"LVM-{number:064}", "dm/suspended": "0", "ro": "0"}
        texts |= {"size": "67108864", "dev": f"253:{number}"}
        found |= {f"{base}/{key}": f"{text}\n" for key, text in texts.items()}
        found |= {f"{base}/holders": None, f"{base}/slaves/{slave}": None}
        if number:
            found[f"/sys/block/dm-0/holders/dm-{number}"] = None
    return found | {"/sys/module/dm_thin_pool/refcnt": f"{VOLUMES + 1}\n"}


def _of_thin_volumes() -> dict[str, str]:
    """Return what dmsetup says of them; of the volumes some at a time."""
    targets = {POOL: ["thin-pool"], **{name: ["thin"] for name in NAMES}}
    found = {probe_path(VERB, ()): json.dumps({"targets": targets, "queueing": {}})}
    status = ("dmsetup", "status", "--noflush", "--target")
    line = "0 67108864 thin-pool 7 400/4096 5000/10000 - rw discard_passdown queue_if_no_space - 64"
    found |= _ran((*status, "thin-pool", POOL), f"{line}\n")
    for first in range(0, VOLUMES, MAX_DEVICES):
        some = NAMES[first : first + MAX_DEVICES]
        lines = "".join(f"{name}: 0 67108864 thin 1024000 67108863\n" for name in some)
        found |= _ran((*status, "thin", *some), lines)
    return found
