"""Incidents of ZFS pools, played through the whole service up to its mails."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.live import text, watched
from support.storage import Server

from iowarden.collectors.machine import probe_path

if TYPE_CHECKING:
    from pathlib import Path

STATE = "/proc/spl/kstat/zfs/tank/state"
STATUS = """\
  pool: tank
 state: {state}
  scan: none requested
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
    state: str = "ONLINE", second: str = "ONLINE", checksum: int = 0, log: str = "ONLINE"
) -> dict[str, str]:
    """Return the files of a pool of a mirror and a log device, and the probe's answer."""
    output = STATUS.format(state=state, second=second, checksum=checksum, log=log)
    answer = {"status": 0, "signal": None, "stdout": output, "stderr": ""}
    return {
        STATE: f"{state}\n",
        probe_path("run", ("zpool", "status", "-pLPs", "tank")): json.dumps(answer),
    }


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
