"""Whom a line of btrfs is about: the file system, or the one disk that its message names."""

from __future__ import annotations

import pytest

from iowarden.collectors.kmsg.kernel_btrfs import PLACE, file_system
from iowarden.collectors.kmsg.kernel_classifier import Classifier
from iowarden.collectors.kmsg.kernel_events import classify
from iowarden.collectors.kmsg.kernel_line import KernelLine

FIRST = "sda1"
PREFIXES = (
    "BTRFS {} (device sda1): ",
    "BTRFS {} (device sda1: state EA): ",  # Linux 5.18 to 6.9
    "BTRFS {} (device sda1 state EA): ",
)
BY_FILE_SYSTEM = {
    "warning": {
        "csum failed root 5 ino 257 off 4096 csum 0x1 expected csum 0x2 mirror 2": (
            "fs_checksum_error"
        ),
        "checksum verify failed on logical 30408704 mirror 1 wanted 0x1 found 0x2 level 0": (
            "fs_checksum_error"
        ),
        "tree block 30408704 mirror 2 has bad csum, has 0x1 want 0x2": "fs_checksum_error",
        "checksum error at logical 30408704 mirror 2 root 5 inode 257 offset 4096 length 4096"
        " links 1 (path: a/b)": "fs_checksum_error",
    },
    "error": {
        "parent transid verify failed on logical 30408704 mirror 2 wanted 7 found 5": (
            "fs_checksum_error"
        ),
        "bad tree block start, mirror 1 want 30408704 have 0": "fs_checksum_error",
        "super block at physical 65536 devid 2 has bad csum": "fs_checksum_error",
        "error writing primary super block to device 2": "fs_error",
        "unable to fixup (regular) error at logical 30408704 on mirror 2": "fs_checksum_error",
        "fixed up error at logical 30408704 on mirror 2": "fs_read_corrected",
        "bdev <missing disk> errs: wr 1, rd 0, flush 0, corrupt 0, gen 0": "fs_device_errors",
    },
    "info": {"forced readonly": "fs_readonly"},
}
"""Source of the formats: Linux 6.12, fs/btrfs: inode.c, disk-io.c, scrub.c, volumes.c,
messages.c."""
BY_DISK = {
    "error": {
        "bdev {} errs: wr 0, rd 0, flush 0, corrupt 1, gen 0": "fs_device_errors",
        "unable to fixup (regular) error at logical 30408704 on dev {} physical 9437184": (
            "fs_checksum_error"
        ),
        "unable to fixup (regular) error at logical 30408704 on dev {}": "fs_checksum_error",  # 6.1
        "fixed up error at logical 30408704 on dev {} physical 9437184": "fs_read_corrected",
        "fixed up error at logical 30408704 on dev {}": "fs_read_corrected",  # 6.1
        "IO error rebuilding logical 30408704 for dev {}": "fs_error",  # 6.1
        "failed to rebuild valid logical 30408704 for dev {}": "fs_error",  # 6.1
        "zoned: offline/readonly zone 12 on device {} (devid 2)": "fs_error",
        "zoned: failed to read zone 12 on {} (devid 2)": "fs_error",
    },
    "warning": {
        "checksum error at logical 30408704 on dev {}, physical 9437184, root 5, inode 257, offset"
        " 4096, length 4096, links 1 (path: a/b)": "fs_checksum_error",
        "i/o error at logical 30408704 on dev {}, physical 9437184: metadata leaf (level 0) in"
        " tree 7": "fs_error",
        "header error at logical 30408704 on dev {}, physical 9437184: metadata leaf (level 0) in"
        " tree 7": "fs_checksum_error",
        "lost super block write due to IO error on {} (-5)": "fs_device_errors",
    },
    "info": {
        "read error corrected: ino 257 off 4096 (dev {} sector 27136)": "fs_read_corrected",
    },
}
LEVELS = {"critical": 2, "error": 3, "warning": 4, "info": 6}
DISKS = ("sdb1", "mapper/vg-data", "nvme1n1p2")


def told(text: str, level: str) -> tuple[str, str, str]:
    """Return kind, device and place of the one event in a line."""
    _, (event,) = classify(Classifier(), KernelLine(text, priority=LEVELS[level]))
    return event.kind, event.device, event.place


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("level", BY_FILE_SYSTEM)
def test_a_line_that_names_no_disk_is_about_the_file_system(level: str, prefix: str) -> None:
    """'(device sda1)' is its first device, 'mirror 2' the number of a copy: neither is a disk."""
    for message, kind in BY_FILE_SYSTEM[level].items():
        assert told(prefix.format(level) + message, level) == (kind, "", PLACE.format(FIRST))


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("level", BY_DISK)
def test_a_line_that_names_a_disk_is_about_that_disk(level: str, prefix: str) -> None:
    """'bdev', 'dev', 'on device': that one, and never the first device of the file system."""
    for message, kind in BY_DISK[level].items():
        for name in DISKS:
            text = prefix.format(level) + message.format(f"/dev/{name}")
            assert told(text, level) == (kind, name, PLACE.format(FIRST))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("BTRFS: error (device dm-3 state A) in cleanup_transaction:2000: errno=-5", "dm-3"),
        ("BTRFS: error (device dm-3: state A) in cleanup_transaction:2000: errno=-5", "dm-3"),
        ("BTRFS critical (device nvme0n1p2: state EMO): surprise failure", "nvme0n1p2"),
        ("BTRFS critical (device cciss!c0d0p1): corrupt leaf: block=4096", "cciss!c0d0p1"),
        ("btrfs: sda1 checksum verify failed on 12 wanted A1 found C3 level 0", "sda1"),
    ],
)  # fmt: skip
def test_the_file_system_of_a_line_in_any_form_of_its_prefix(text: str, name: str) -> None:
    """Of an abort, of a device in a directory, of Linux 3."""
    assert file_system(told(text, "critical")[2]) == name


def test_the_place_of_another_event_is_no_file_system() -> None:
    """Port and slot of a controller, and none at all."""
    assert file_system("port 3") == file_system("") == ""
