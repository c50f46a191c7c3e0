"""Which disks a trace is of: by any name, and what is below arrays and volumes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.machine import disk, topology

from iowarden.daemon.trace_client.client import TraceError
from iowarden.daemon.trace_client.targets import targets

SDA = replace(
    disk("sda", serial="WD-1111", holders=("md0",)), device_number="8:0", partitions=("sda1",)
)
SDB = replace(disk("sdb", serial="WD-2222", holders=("md0",)), device_number="8:16")
MD0 = replace(disk("md0", slaves=("sda", "sdb"), leaf=False), device_number="9:0")
LV = replace(disk("dm-0", slaves=("md0",), leaf=False), device_number="253:0", dm_name="vg-data")
LOOP = replace(disk("loop0", leaf=False), device_number="7:0")
HEAD = replace(disk("nvme0n1", slaves=("nvme0c0n1",), leaf=False), device_number="259:0")
PATH = disk("nvme0c0n1", serial="S6")
MACHINE = topology(SDA, SDB, MD0, LV, LOOP, HEAD, PATH)


@pytest.mark.parametrize(
    ("name", "disks"),
    [
        ("sda", ["sda"]),
        ("/dev/sdb", ["sdb"]),
        ("8:16", ["sdb"]),
        ("sda1", ["sda"]),
        ("WD-2222", ["sdb"]),
        ("wd-2", ["sdb"]),
        ("md0", ["sda", "sdb"]),
        ("/dev/mapper/vg-data", ["sda", "sdb"]),
        ("vg/data", ["sda", "sdb"]),
        ("loop0", ["loop0"]),
    ],
)
def test_any_name_of_a_device_is_understood(name: str, disks: list[str]) -> None:
    """A partition's requests are its disk's; an array or a volume has none of its own."""
    assert [each.name for each in targets(MACHINE, name)] == disks


@pytest.mark.parametrize(
    ("name", "error"),
    [
        (
            "sdz",
            "a device, or the beginning of a serial number, got 'sdz'; there are: sda",
        ),
        ("", "expected a device"),
        ("WD-", r"expected one disk, got 'WD-'; there are: sda \(WD-1111\), sdb \(WD-2222\)$"),
        ("nvme0n1", "nvme0c0n1: no device number; the kernel hides the paths of NVMe multipath"),
    ],
)
def test_a_name_that_is_no_disk_is_answered_with_what_there_is(name: str, error: str) -> None:
    """Or why a disk cannot be traced."""
    with pytest.raises(TraceError, match=error):
        targets(MACHINE, name)


def test_an_array_of_too_many_disks_is_refused() -> None:
    """A filter of the kernel has an end."""
    many = [replace(disk(f"sd{n}"), device_number=f"65:{n}") for n in range(65)]
    array = disk("md1", slaves=tuple(each.name for each in many), leaf=False)
    with pytest.raises(TraceError, match="expected at most 64 disks, got 65 below 'md1'"):
        targets(topology(array, *many), "md1")
