"""Incidents of ZFS pools, played through the whole service up to its mails."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support import kstat
from support.database import usage
from support.live import text, watched
from support.storage import Server

from iowarden.collectors.machine import probe_path

if TYPE_CHECKING:
    from pathlib import Path

STATISTICS = "/proc/spl/kstat/zfs"
STATE = f"{STATISTICS}/tank/state"
STATUS = """\
  pool: tank
 state: {state}
  scan: {scan}
config:

\tNAME            STATE     READ WRITE CKSUM  SLOW
\ttank            {state}      0     0     0     -
\t  mirror-0      {state}      0     0     0     -
\t    /dev/sda1   ONLINE       0     0     0     0
\t    /dev/sdb1   {second}     0     0     {checksum}     0
logs
\t  /dev/sdc1   {log}       0     0     0     0

errors: No known data errors
"""


def status(
    state: str = "ONLINE",
    second: str = "ONLINE",
    checksum: int = 0,
    log: str = "ONLINE",
    scan: str = "none requested",
) -> dict[str, str]:
    """Return the files of a pool of a mirror and a log device, and the probe's answer."""
    output = STATUS.format(state=state, second=second, checksum=checksum, log=log, scan=scan)
    answer = {"status": 0, "signal": None, "stdout": output, "stderr": ""}
    return {
        STATE: f"{state}\n",
        probe_path("run", ("zpool", "status", "-pLPs", "tank")): json.dumps(answer),
    }


def space(free_bytes: int) -> dict[str, str]:
    """Return the probe's answer to 'zpool list' of a pool of 200 GB."""
    size = 200_000_000_000
    output = f"{size}\t{size - free_bytes}\t{free_bytes}\t31\n"
    answer = {"status": 0, "signal": None, "stdout": output, "stderr": ""}
    command = ("zpool", "list", "-Hpo", "size,allocated,free,fragmentation", "tank")
    return {probe_path("run", command): json.dumps(answer)}


def pool(tmp_path: Path) -> Server:
    """Return a machine with a healthy pool."""
    machine = Server(tmp_path)
    machine.adapter(0, "mpt3sas")
    for number, name in enumerate(("sda", "sdb", "sdc")):
        machine.disk(name, f"0:0:{number}:0", vendor="SEAGATE")
    numbers = [machine._numbers[f"{name}1"] for name in ("sda", "sdb", "sdc")]
    member = "I:1200\nE:ID_FS_TYPE=zfs_member\nE:ID_FS_LABEL=tank\n"
    machine.change(
        {
            **{f"/run/udev/data/b{number}": member for number in numbers},
            "/proc/1/mountinfo": "60 1 0:51 / /tank/db rw - zfs tank/db rw,xattr\n",
            **status(),
        }
    )
    return machine


def test_a_pool_that_is_closed_while_a_scrub_begins_is_not_mailed(tmp_path: Path) -> None:
    """The module shows OFFLINE while it reopens all devices: for a second, or for ten."""
    machine = Server(tmp_path)
    machine.adapter(0, "mpt3sas")
    for number, name in enumerate(("sda", "sdb", "sdc")):
        machine.disk(name, f"0:0:{number}:0", vendor="SEAGATE")
    machine.change(status())
    with watched(tmp_path, machine) as program:
        assert program.wait(60) == []
        for seconds in (1, 10):
            machine.change({STATE: "OFFLINE\n"})
            assert program.wait(seconds, 1.0) == []
            machine.change({STATE: "ONLINE\n"})
            assert program.wait(120) == []


def test_a_mirror_that_loses_a_disk_is_mailed_at_once_with_the_disk_and_what_is_left(
    tmp_path: Path,
) -> None:
    """The kernel's state and the failed device are one incident, critical: nothing is left."""
    machine = pool(tmp_path)
    with watched(tmp_path, machine) as program:
        assert program.wait(80) == []
        machine.change(status("DEGRADED", "REMOVED"))
        (mail,) = program.wait(15)
        said = text(mail)
        assert mail["Subject"].startswith("[CRITICAL]")
        assert "pool tank" in mail["Subject"]
        assert "no redundancy left" in said
        assert "sdb1 is REMOVED in pool tank (mirror-0)" in said
        assert "/tank/db (zfs)" in said
        assert "zpool status -P tank" in said
        machine.change(status())
        mails = program.wait(900)
    assert any(mail["Subject"].startswith("[OK]") for mail in mails)


def test_a_failed_log_device_is_mailed_although_the_pool_is_online(tmp_path: Path) -> None:
    """The kernel shows the pool as ONLINE: only its devices tell. A warning, within 5 minutes."""
    machine = pool(tmp_path)
    with watched(tmp_path, machine) as program:
        assert program.wait(80) == []
        machine.change(status(log="FAULTED"))
        (mail,) = program.wait(400)
    said = text(mail)
    assert mail["Subject"].startswith("[WARNING]")
    assert "sdc1 is FAULTED in pool tank" in said
    assert "the pool works without it" in said


def test_checksum_errors_name_the_device_and_accuse_no_disk(tmp_path: Path) -> None:
    """The count of one device of a mirror rose; the pool is ONLINE."""
    machine = pool(tmp_path)
    with watched(tmp_path, machine) as program:
        assert program.wait(80) == []
        machine.change(status(checksum=33))
        (mail,) = program.wait(400)
    said = text(mail)
    assert "33 checksum errors" in said
    assert "cables, adapters and memory as often as from the disk" in " ".join(said.split())


def test_a_pool_that_is_suspended_is_mailed_within_seconds_by_the_kernels_state(
    tmp_path: Path,
) -> None:
    """Programs hang from now on; 'zpool status' is not run, because it could hang as well."""
    machine = pool(tmp_path)
    with watched(tmp_path, machine) as program:
        assert program.wait(80) == []
        machine.change({STATE: "SUSPENDED\n"})
        (mail,) = program.wait(15)
    assert mail["Subject"].startswith("[CRITICAL]")
    assert "pool tank is suspended: all its I/O hangs" in text(mail)


def test_a_pool_that_is_exported_and_imported_again_is_no_mail(tmp_path: Path) -> None:
    """It has no state meanwhile, and then none at all."""
    machine = pool(tmp_path)
    with watched(tmp_path, machine) as program:
        assert program.wait(80) == []
        machine.change({STATE: "TRANSITIONING\n"})
        assert program.wait(20) == []
        machine.change({STATE: "ONLINE\n"})
        assert program.wait(80) == []


DATASETS = 25
BLOCK_BYTES = 4096


def datasets(free_bytes: int) -> dict[str, str]:
    """Return the mount table of datasets that share the pool's space, and what statvfs says."""
    rows, files = [], {}
    for number in range(DATASETS):
        device = f"0:{100 + number}"
        rows.append(
            f"{number + 60} 1 {device} / /tank/d{number} rw - zfs tank/d{number} rw,xattr\n"
        )
        files[f"/tank/d{number}/.statvfs"] = usage(device, free_bytes // BLOCK_BYTES)
    return {"/proc/1/mountinfo": "".join(rows), **files}


WELL = {**space(92_000_000_000), **datasets(85_000_000_000)}
FULL = {**space(8_000_000_000), **datasets(2_000_000_000)}
"""96 % used: 2 GB are left for datasets, the rest is reserved."""


def test_a_full_pool_is_one_mail_and_not_one_of_each_dataset(tmp_path: Path) -> None:
    """25 datasets share its space."""
    machine = pool(tmp_path)
    machine.change(WELL)
    with watched(tmp_path, machine) as program:
        assert program.wait(400) == []
        machine.change(FULL)
        (mail,) = program.wait(1200)
        machine.change(WELL)
        mails = program.wait(2400)
    said = " ".join(text(mail).split())
    assert mail["Subject"].startswith("[CRITICAL]")
    assert "pool tank is 96 % full, 7.5 GiB free" in said
    assert "fragmented to 31 %" in said
    assert "zfs list -r -o space -s used tank" in said
    assert [mail["Subject"][:4] for mail in mails] == ["[OK]"]


def test_a_pool_that_is_full_at_the_start_is_one_mail(tmp_path: Path) -> None:
    """Whichever of 'zpool list' and the datasets is read first."""
    machine = pool(tmp_path)
    machine.change(FULL)
    with watched(tmp_path, machine) as program:
        mails = program.wait(600)
    assert [mail["Subject"].partition(": ")[2] for mail in mails] == [
        "pool tank is 96 % full, 7.5 GiB free"
    ]


@pytest.mark.parametrize("pool_space", [space(92_000_000_000), {}], ids=["quota", "unknown"])
def test_a_dataset_that_is_full_alone_is_mailed(tmp_path: Path, pool_space: dict[str, str]) -> None:
    """At its quota while the pool has space; or the space of its pool cannot be read.

    It is the only one that is mounted: that it has as much left as any other proves nothing.
    """
    machine = pool(tmp_path)
    row = "99 1 0:99 / /tank/db rw - zfs tank/db rw,xattr\n"
    machine.change({"/proc/1/mountinfo": row, "/tank/db/.statvfs": usage("0:99", 1_000_000)})
    machine.change(pool_space)
    with watched(tmp_path, machine) as program:
        (mail,) = program.wait(600)
    assert "/tank/db is 96 % full" in text(mail)


def test_an_hour_of_a_healthy_pool_is_silent(tmp_path: Path) -> None:
    """A backup fills the cache of ZFS, groups take up to 25 s, snapshots come, a scrub ends."""
    machine = pool(tmp_path)
    memory = "MemTotal: 64000000 kB\nMemFree: {} kB\nMemAvailable: {} kB\nBuffers: 1 kB\n"
    with watched(tmp_path, machine) as program:
        assert program.wait(80) == []
        scans = (
            "scrub in progress since Sun Nov 29 03:12:20 2026\n\t25.00% done",
            "scrub repaired 0B in 00:20:00 with 0 errors on Sun Nov 29 03:32:20 2026",
        )
        for number in range(12):
            free = 50_000_000 >> min(number, 6)
            cache = (60_000_000 - free) * 1024
            machine.change(
                {
                    **status(scan=scans[number > 5]),
                    "/proc/meminfo": memory.format(free, free)
                    + "Cached: 1000000 kB\nDirty: 0 kB\nWriteback: 0 kB\n",
                    f"{STATISTICS}/arcstats": kstat.arcstats(
                        size=cache, c=cache, c_min=2e9, c_max=62e9
                    ),
                    f"{STATISTICS}/dmu_tx": kstat.named({"dmu_tx_dirty_delay": number * 900}),
                    f"{STATISTICS}/tank/txgs": kstat.txgs(float(number * 2), last_seconds=25.0),
                }
            )
            assert program.wait(300, 60.0) == []
