"""Backing devices of disks and network file systems, on old and new kernels."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.block.bdi import Bdi, emit, read_bdi, unreadable
from iowarden.collectors.machine import Machine
from iowarden.collectors.model import AbsentError, ParseError

if TYPE_CHECKING:
    from conftest import MachineMaker

Files = dict[str, str | bytes | None]


def bdi(name: str, **attributes: str) -> Files:
    """Files of a backing device."""
    path = f"/sys/class/bdi/{name}"
    old = {"read_ahead_kb": "128\n", "min_ratio": "0\n", "max_ratio": "100\n"}
    return {f"{path}/{key}": text for key, text in (old | attributes).items()}


DISK = bdi("8:0", read_ahead_kb="8192\n", max_bytes="4194304\n", strict_limit="1\n")


def test_a_disk_that_may_hold_little_of_the_cache(machine: MachineMaker) -> None:
    """A strict limit of 4 MiB is set; kB of read-ahead become bytes."""
    assert read_bdi(machine(DISK)) == {"8:0": Bdi("8:0", 8192 * 1024, 0, 100, 4_194_304, True)}


def test_an_old_kernel_has_no_strict_limit(machine: MachineMaker) -> None:
    """Before 6.2 there is neither that file nor max_bytes: no series, not 0."""
    devices = read_bdi(machine(bdi("8:0", max_ratio="5\n")))
    assert (devices["8:0"].max_bytes, devices["8:0"].strict_limit) == (None, None)
    assert {name: number for name, _, number in emit(devices)} == {
        "iowarden_bdi_read_ahead_bytes": 131_072.0,
        "iowarden_bdi_min_ratio_percent": 0.0,
        "iowarden_bdi_max_ratio_percent": 5.0,
    }


def test_series_of_a_backing_device(machine: MachineMaker) -> None:
    """The name is the label; a boolean is a number."""
    samples = emit(read_bdi(machine(DISK)))
    strict = [s for s in samples if s[0] == "iowarden_bdi_strict_limit"]
    assert strict == [("iowarden_bdi_strict_limit", (("bdi", "8:0"),), 1.0)]
    assert not any(isinstance(number, bool) for _, _, number in samples)


def test_names_that_are_no_device_numbers(machine: MachineMaker) -> None:
    """NFS, FUSE on a block device, flash, btrfs and the kernel's default; not loop and RAM."""
    names = ["0:40", "11:0", "17:0", "8:1-fuseblk", "btrfs-1", "default", "mtd-0"]
    files: Files = {}
    for name in [*names, "7:0", "7:13", "1:0"]:
        files |= bdi(name)
    assert sorted(read_bdi(machine(files))) == names


@pytest.mark.parametrize("attribute", ["max_ratio", "read_ahead_kb", "strict_limit"])
def test_an_attribute_that_makes_no_sense_is_named(attribute: str, machine: MachineMaker) -> None:
    """The message has the path, the expected and the found value."""
    path = f"/sys/class/bdi/8:0/{attribute}"
    with pytest.raises(ParseError, match=f"'{path}': expected .* number, got 'half'"):
        read_bdi(machine(DISK | {path: "half\n"}))


def test_an_attribute_that_cannot_be_read_is_in_doubt(machine: MachineMaker) -> None:
    """A directory in place of the file: unknown, with the reason; the other values remain."""
    files = DISK | {"/sys/class/bdi/8:0/max_ratio/x": None}
    del files["/sys/class/bdi/8:0/max_ratio"]
    devices = read_bdi(machine(files))
    assert (devices["8:0"].max_ratio_percent, devices["8:0"].min_ratio_percent) == (None, 0)
    [(labels, reason)] = unreadable(devices)
    assert labels == (("bdi", "8:0"),)
    assert "/sys/class/bdi/8:0/max_ratio" in reason


def test_a_mount_that_ends_while_it_is_read_is_left_out(machine: MachineMaker) -> None:
    """A backing device that vanished after the listing is left out as a whole."""
    root = machine(DISK | bdi("0:40"))

    def unmount(seen: str, content: bytes) -> None:
        if seen == "/sys/class/bdi/0:40/":
            root.remove("/sys/class/bdi/0:40")

    root.watch(unmount)
    assert list(read_bdi(root)) == ["8:0"]


def test_a_machine_without_sysfs_is_absent(machine: MachineMaker) -> None:
    """No '/sys/class/bdi'."""
    with pytest.raises(AbsentError, match="/sys/class/bdi"):
        read_bdi(machine({"/proc/stat": ""}))


def test_the_backing_devices_of_this_machine() -> None:
    """The values are equal to those of this kernel."""
    if not os.path.isdir("/sys/class/bdi"):
        pytest.skip("no backing devices here")
    root = Machine("/")
    for name, device in read_bdi(root).items():
        text = Path(f"/sys/class/bdi/{name}/max_ratio").read_text(encoding="ascii")
        assert device.max_ratio_percent == int(text)
    root.close()
