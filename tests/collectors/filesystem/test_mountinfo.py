"""Mounted file systems, mounts that are none, and the options of '/etc/fstab'."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.filesystem.mountinfo import (
    Mount,
    emit,
    parse_fstab,
    parse_mountinfo,
    read_mounts,
    storage,
)
from iowarden.collectors.model import AbsentError, ParseError, ReadError

if TYPE_CHECKING:
    from conftest import MachineMaker

    from iowarden.collectors.filesystem.mountinfo import Mounts

PATH = "/proc/1/mountinfo"
ROOT = "27 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw,errors=remount-ro\n"


def points(text: str) -> list[tuple[str, str]]:
    """Return device and mount point of the file systems that store data."""
    return [(mount.source, mount.mount_point) for mount in storage(parse_mountinfo(text))]


def values(mounts: Mounts) -> dict[tuple[str, str], float]:
    """Return the samples by metric (without prefix) and mount point."""
    return {
        (name.removeprefix("iowarden_mount_"), dict(labels)["mountpoint"]): value
        for name, labels, value in emit(mounts)
    }


def test_a_line_of_the_kernel() -> None:
    """Optional fields in any number, names with blanks, tabs, backslashes and a line break."""
    text = (
        r"36 35 98:0 /mnt1 /mnt\0402\011x\134y\012z rw,noatime master:1 propagate_from:2"
        r" - ext3 /dev/my\040disk rw,errors=continue"
    )
    assert parse_mountinfo(text + "\n") == (
        Mount(
            device_number="98:0",
            source="/dev/my disk",
            root="/mnt1",
            mount_point="/mnt 2\tx\\y\nz",
            kind="ext3",
            options=("rw", "noatime"),
            super_options=("rw", "errors=continue"),
        ),
    )


def test_a_source_may_be_empty_and_a_mount_point_a_dash() -> None:
    """Fields are counted, not searched for."""
    (mount,) = parse_mountinfo("40 27 0:33 / - rw -  - tmpfs  rw,size=4k\n".replace(" -  ", " "))
    assert (mount.mount_point, mount.source, mount.kind) == ("-", "", "tmpfs")


@pytest.mark.parametrize(
    "line",
    [
        "27 1 8:2 / / rw shared:1 ext4 /dev/sda2 rw",
        "27 1 8:2 / / rw - ext4 /dev/sda2",
        "27 1 none / / rw - ext4 /dev/sda2 rw",
        "/dev/sda2 / ext4 rw 0 0",
    ],
)
def test_a_line_that_is_none_is_refused_with_its_number(line: str) -> None:
    """Half a line, and a text of '/proc/mounts'."""
    with pytest.raises(ParseError, match=r"'/proc/1/mountinfo' line 2: expected '<id> <parent>"):
        parse_mountinfo(ROOT + line + "\n")


def test_only_what_keeps_data_is_watched() -> None:
    """File systems in memory, of the kernel, of images and of containers are left out."""
    text = ROOT + "".join(
        f"{n} 27 {number} / /m/{n} rw - {kind} {source} rw\n"
        for n, (number, kind, source) in enumerate(
            [
                ("0:21", "proc", "proc"),
                ("0:23", "tmpfs", "tmpfs"),
                ("0:50", "overlay", "overlay"),
                ("0:51", "fuse.lxcfs", "lxcfs"),
                ("7:1", "squashfs", "/dev/loop1"),
                ("11:0", "iso9660", "/dev/sr0"),
                ("0:40", "nfs4", "server:/a"),
                ("0:41", "btrfs", "/dev/sdc"),
                ("0:42", "zfs", "tank/data"),
                ("0:43", "cifs", "//nas/b"),
                ("8:33", "fuseblk", "/dev/sdc1"),
            ]
        )
    )
    assert [source for source, _ in points(text)] == [
        "/dev/sda2",
        "server:/a",
        "/dev/sdc",
        "tank/data",
        "//nas/b",
        "/dev/sdc1",
    ]


def test_a_file_system_is_reported_once() -> None:
    """A bind mount, also with a shorter path, is no separate file system; nor is a second mount."""
    text = (
        "30 1 8:2 / / rw - ext4 /dev/sda2 rw\n"
        "31 30 8:2 /srv/export /e ro - ext4 /dev/sda2 rw\n"
        "32 30 8:17 /sub /b rw - xfs /dev/sdb1 rw\n"
        "33 30 8:17 / /srv/long/path rw - xfs /dev/sdb1 rw\n"
        "34 30 8:17 / /srv/data rw - xfs /dev/sdb1 rw\n"
    )
    assert points(text) == [("/dev/sda2", "/"), ("/dev/sdb1", "/srv/data")]


def test_subvolumes_are_one_file_system() -> None:
    """All subvolumes of a btrfs fill the same devices; the root among them need not be mounted."""
    text = (
        "30 1 0:25 /@ / rw - btrfs /dev/sda2 rw,subvol=/@\n"
        "31 30 0:25 /@home /home rw - btrfs /dev/sda2 rw,subvol=/@home\n"
        "32 30 0:25 / /mnt/all rw - btrfs /dev/sda2 rw,subvol=/\n"
    )
    assert points(text) == [("/dev/sda2", "/")]


def test_exports_of_one_server_are_several() -> None:
    """NFS may give them the same device number."""
    text = "30 1 0:44 / /mnt/a rw - nfs4 server:/a rw\n31 1 0:44 / /mnt/b rw - nfs4 server:/b rw\n"
    assert points(text) == [("server:/a", "/mnt/a"), ("server:/b", "/mnt/b")]


def test_what_is_mounted_over_is_not_seen() -> None:
    """The last mount on a mount point hides the former ones."""
    text = (
        ROOT
        + "31 27 8:17 / /srv rw - xfs /dev/sdb1 rw\n"
        + "32 27 8:33 / /srv rw - xfs /dev/sdc1 rw\n"
        + "33 27 8:49 / /mnt rw - xfs /dev/sdd1 rw\n"
        + "34 27 0:60 / /mnt rw - tmpfs tmpfs rw\n"
    )
    assert points(text) == [("/dev/sda2", "/"), ("/dev/sdc1", "/srv")]


def test_read_only_by_mount_by_file_system_or_after_an_error(machine: MachineMaker) -> None:
    """ext4 before 6.12 remounts 'ro'; later it has 'rw' and 'emergency_ro'; xfs 'shutdown'."""
    text = (
        "27 1 8:2 / / rw,relatime - ext4 /dev/sda2 rw,errors=remount-ro,emergency_ro\n"
        "28 27 8:3 / /srv rw,relatime - ext4 /dev/sda3 ro\n"
        "29 27 8:4 / /opt ro,relatime - xfs /dev/sda4 rw\n"
        "30 27 8:5 / /var rw,noatime - xfs /dev/sda5 rw,shutdown\n"
        "31 27 8:6 / /data rw - xfs /dev/sda6 rw\n"
    )
    fstab = "/dev/sda2 / ext4 defaults 0 1\n/dev/sda4 /opt xfs ro,nofail 0 2\n"
    found = values(read_mounts(machine({PATH: text, "/etc/fstab": fstab})))
    assert [found["read_only", p] for p in ("/", "/srv", "/opt", "/var", "/data")] == [
        0,
        1,
        1,
        0,
        0,
    ]
    assert [found["emergency", p] for p in ("/", "/srv", "/var")] == [1, 0, 1]
    assert [found["strictatime", p] for p in ("/", "/var", "/data")] == [0, 0, 1]
    assert (found["fstab_read_only", "/"], found["fstab_read_only", "/opt"]) == (0, 1)
    assert ("fstab_read_only", "/srv") not in found


def test_fstab_as_mount_reads_it() -> None:
    """Comments, swap, a truncated line, a name with a blank, an extra slash, no options."""
    text = (
        "# /dev/sda9 /old ext4 ro 0 0\n"
        "\n"
        "UUID=1 / ext4 errors=remount-ro 0 1\n"
        "UUID=2 none swap sw 0 0\n"
        "UUID=3 /half\n"
        "UUID=4\t/srv/my\\040data/\txfs\tro,noatime\n"
        "server:/x /mnt nfs\n"
    )
    assert parse_fstab(text) == {
        "/": ("errors=remount-ro",),
        "/srv/my data": ("ro", "noatime"),
        "/mnt": ("defaults",),
    }


def test_without_fstab_no_line_mounts_anything(machine: MachineMaker) -> None:
    """A live system has none; of one that exists and cannot be read nothing is known."""
    assert read_mounts(machine({PATH: ROOT})).wanted == {}
    assert read_mounts(machine({PATH: ROOT, "/etc/fstab": None})).wanted is None


def test_who_may_not_see_process_1_is_told_why(machine: MachineMaker) -> None:
    """A service's own mounts may differ from the host's: they are no substitute."""
    with pytest.raises(AbsentError, match=r"'/proc/1/mountinfo'.*hidepid"):
        read_mounts(machine({"/proc/self/mountinfo": ROOT}))
    with pytest.raises(ReadError, match="hidepid"):
        read_mounts(machine({PATH: None}))


def test_no_mount_at_all_is_no_answer(machine: MachineMaker) -> None:
    """Process 1 has a root."""
    with pytest.raises(ParseError):
        read_mounts(machine({PATH: "\n"}))


@given(st.text(alphabet="0123456789:/ -\\ abrwext4\n", max_size=200))
def test_any_text_is_mounts_or_a_refusal(text: str) -> None:
    """No text raises another error."""
    parse_fstab(text)
    with contextlib.suppress(ParseError):
        storage(parse_mountinfo(text))
