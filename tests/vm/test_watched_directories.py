"""A watched directory on a real NFS server that stops answering."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from vm.harness import wait_for
from vm.watched import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vm.watched import Watched

SECONDS = 180.0
"""Far above anything measured: the probe ends a listing after 60 s, and a client of NFS waits ever
longer between its attempts to connect."""
OLD_SECONDS = 45.0
SETTINGS = f"""\
watch_directories: [{{path: /mnt/nas}}, {{path: /srv/wal}}]
intervals: {{backups: 6s}}
warning_group_wait: 0s
overrides:
  BackupOld/warning: {{expr: iowarden_backup_age_seconds > {OLD_SECONDS}, for: 0s}}
"""
NAS = {"directory": "/mnt/nas", "glob": "*"}
WAL = {"directory": "/srv/wal", "glob": "*"}


@pytest.fixture(scope="module")
def archives(watched: Watched) -> Iterator[Watched]:
    """Mount a directory of an NFS server as servers do, and archive logs in another directory."""
    vm = watched.vm
    vm.run("mkdir -p /srv/export /srv/wal /mnt/nas")
    vm.run("printf '/mnt/nas\\n/srv/wal\\n' > /etc/iowarden/probe-directories")
    vm.run("echo '/srv/export 127.0.0.1(rw,no_subtree_check)' > /etc/exports")
    # A server that has just started lets no client in for 90 s (nfs.conf(5), grace-time).
    short = "[nfsd]\ngrace-time=10\nlease-time=10\n"
    vm.run("mkdir -p /etc/nfs.conf.d; cat >/etc/nfs.conf.d/short.conf", short.encode())
    vm.run("touch /srv/export/base.tar /run/writing; systemctl start nfs-server")
    vm.run("mount -t nfs -o hard,actimeo=1 127.0.0.1:/srv/export /mnt/nas")
    vm.start("while [ -e /run/writing ]; do date > /srv/wal/$(date +%s); sleep 5; done")
    try:
        yield watched
    finally:
        vm.run("rm -f /run/writing; systemctl start nfs-server")
        vm.run("umount --lazy --force /mnt/nas; systemctl stop nfs-server")


def state(watched: Watched, directory: str) -> tuple[str, str]:
    """Return state and reason of an alert BackupOld in 'iowarden status'; '' without one."""
    answer = watched.vm.start("iowarden status --json").wait(120)
    for alert in json.loads(answer.stdout)["alerts"]:
        if (alert["name"], alert["labels"].get("directory")) == ("BackupOld", directory):
            return alert["state"], alert["unknown_reason"]
    return "", ""


def test_a_server_that_is_gone_makes_one_directory_unknown_and_blocks_no_other(
    archives: Watched,
) -> None:
    """Its alert is unknown with the reason, by mail as well; the other is read as ever.

    When the server is back, its directory is known again, and new files resolve the alert.
    """
    vm = archives.vm
    wait_for(lambda: archives.mail.naming("no new file in /mnt/nas"), "a mail", SECONDS)
    vm.run("systemctl stop nfs-server")
    files = archives.metric("iowarden_backup_files", **WAL) or 0.0
    wait_for(
        lambda: archives.metric("iowarden_backup_readable", **NAS) == 0,
        "the end of the listing that hangs",
        SECONDS,
    )
    assert archives.metric("iowarden_backup_age_seconds", **NAS) is None
    assert (archives.metric("iowarden_backup_files", **WAL) or 0.0) > files
    wait_for(lambda: state(archives, "/mnt/nas")[0] == "unknown", "the unknown alert", SECONDS)
    assert "does not answer" in state(archives, "/mnt/nas")[1]
    wait_for(lambda: archives.mail.saying("DATA UNAVAILABLE"), "its mail", SECONDS)
    assert "does not answer" in text_of(archives.mail.saying("DATA UNAVAILABLE")[0])
    assert (archives.metric("iowarden_backup_age_seconds", **WAL) or 999.0) < OLD_SECONDS
    assert archives.metric("iowarden_collector_stale_seconds", collector="backups") == 0
    assert state(archives, "/srv/wal")[0] == ""

    vm.run("systemctl start nfs-server")
    # One file alone would be too old again when it is judged, a minute later.
    vm.start("while [ -e /run/writing ]; do touch /srv/export/$(date +%s).tar; sleep 5; done")
    resolved = ("IOWARDEN_ALERT=BackupOld", "IOWARDEN_STATE=resolved")
    wait_for(lambda: archives.journal(*resolved), "the end of the alert", SECONDS)
    assert archives.metric("iowarden_backup_readable", **NAS) == 1
    assert archives.unit("ActiveState", "NRestarts") == {"ActiveState": "active", "NRestarts": "0"}
