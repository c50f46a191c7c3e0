"""File systems of a real kernel: one that is torn and repaired, one whose server is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from vm.harness import MEBIBYTE, Disk, wait_for
from vm.watched import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vm.watched import Watched

SECONDS = 120.0
"""Far above anything measured, for a busy building machine."""
SETTINGS = "resolve_after: 10s\nintervals: {ext4: 6s, filesystem: 6s, mounts: 6s}\n"


@pytest.fixture(scope="module")
def torn(watched: Watched) -> Iterator[str]:
    """Let the kernel find an error in a file system that was well; return its device."""
    vm = watched.vm
    vm.plug(Disk("torn", 256 * MEBIBYTE))
    device = vm.device("torn")
    vm.run(f"mkfs.ext4 -q -F -e remount-ro /dev/{device}")
    vm.run(f"mkdir -p /mnt/torn; mount /dev/{device} /mnt/torn")
    wait_for(
        lambda: watched.metric("iowarden_ext4_errors_total", device=device) == 0,
        "iowarden to see the file system well",
        SECONDS,
    )
    mounted = {"device": f"/dev/{device}", "fstype": "ext4", "mountpoint": "/mnt/torn"}
    wait_for(
        lambda: watched.metric("iowarden_mount_read_only", **mounted) == 0,
        "iowarden to see where it is mounted",
        SECONDS,
    )
    vm.run(f"echo try > /sys/fs/ext4/{device}/trigger_fs_error")
    yield device
    vm.run("umount /mnt/torn")
    vm.unplug("torn")


def test_an_error_in_a_file_system_is_critical_at_once(watched: Watched, torn: str) -> None:
    """The mail names the disk by its serial number and says how to repair.

    Linux 6.1 as Debian has it refuses to write from now on, and goes on to call the mount 'rw'.
    """
    wait_for(lambda: watched.mail.naming("serial torn"), "a mail of the error", SECONDS)
    mail = watched.mail.naming("serial torn")[0]
    assert mail["Subject"].startswith("[CRITICAL]")
    assert "serial torn" in " ".join(text_of(mail).split())
    assert f"e2fsck -f /dev/{torn}" in text_of(mail)


def test_a_repaired_file_system_is_resolved(watched: Watched, torn: str) -> None:
    """Unmounted for e2fsck it is not well yet; it is when it is mounted again without errors."""
    vm = watched.vm
    # Of what the kernel's log told nobody can say that it is over; of this count one can.
    wait_for(
        lambda: watched.journal("IOWARDEN_ALERT=FilesystemErrors"), "the count of errors", SECONDS
    )
    vm.run(f"umount /mnt/torn; e2fsck -f -y /dev/{torn}; [ $? -le 1 ]")
    assert watched.mail.saying("[OK]") == []
    vm.run(f"mount /dev/{torn} /mnt/torn")
    # Ten minutes, if on a busy machine the count came back between its looks.
    wait_for(lambda: watched.mail.saying("[OK]"), "the all-clear", 6 * SECONDS)
    assert len(watched.mail.incidents()) == 1


def test_a_mount_that_does_not_answer_is_reported_and_holds_nothing_up(watched: Watched) -> None:
    """Its server is gone: statvfs never returns. The other file systems are read all the same."""
    vm = watched.vm
    # A FUSE file system whose server never reads a request, the first one included.
    options = "fd=3,rootmode=40000,user_id=0,group_id=0,allow_other,subtype=sshfs"
    vm.run("modprobe fuse; mkdir -p /mnt/stuck")
    server = f"exec 3<>/dev/fuse; mount -i -t fuse gone:/ /mnt/stuck -o {options} && sleep 600"
    vm.start(server)
    stuck = {"device": "gone:/", "fstype": "fuse.sshfs", "mountpoint": "/mnt/stuck"}
    root = {"device": "/dev/vda", "fstype": "ext4", "mountpoint": "/"}
    try:
        wait_for(
            lambda: watched.metric("iowarden_filesystem_device_error", **stuck) == 1,
            "the mount",
            SECONDS,
        )
        before = watched.metric("iowarden_filesystem_available_bytes", **root)
        vm.run("fallocate -l 64M /var/tmp/file")
        wait_for(
            lambda: watched.metric("iowarden_filesystem_available_bytes", **root) != before,
            "another look at the root file system",
            SECONDS,
        )
        assert watched.metric("iowarden_filesystem_size_bytes", **stuck) is None
    finally:
        vm.run("rm -f /var/tmp/file; umount --force --lazy /mnt/stuck; pkill --full '[s]leep 600'")
    wait_for(
        lambda: watched.metric("iowarden_filesystem_device_error", **stuck) is None,
        "the end of the mount",
        SECONDS,
    )
    assert watched.unit("ActiveState", "NRestarts") == {"ActiveState": "active", "NRestarts": "0"}
