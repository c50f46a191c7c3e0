"""Incidents of disks, adapters and paths, played through the whole service up to its mails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.live import watched
from support.storage import Server

if TYPE_CHECKING:
    from pathlib import Path


def test_a_failover_of_25_seconds_is_no_mail_although_nothing_is_read_meanwhile(
    tmp_path: Path,
) -> None:
    """Both iSCSI paths of a map stand still: that they are paths is known from before."""
    machine = Server(tmp_path)
    for number, name in ((1, "sda"), (2, "sdb")):
        machine.adapter(number, "iscsi_tcp")
        machine.disk(name, f"{number}:0:0:0", serial="LUN1", vendor="LIO-ORG", parts=False)
    machine.volume("dm-0", "mpatha", "mpath-3600a", "sda", "sdb")
    machine.mount("/db", "dm-0")
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.stands("sda", "sdb", "dm-0")
        assert program.wait(24) == []
        machine.goes_on("sda", "sdb", "dm-0")
        assert program.wait(80) == []
