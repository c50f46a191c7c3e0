"""Attributes of a device: existing and missing ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memory import Memory

from iowarden.collectors.block.block_devices import read_block
from iowarden.collectors.block.diskstats import read_diskstats
from iowarden.collectors.block.enclosure import read_enclosure
from iowarden.collectors.block.hwmon import read_hwmon
from iowarden.collectors.block.queue import read_queue
from iowarden.collectors.block.scsi import read_scsi
from iowarden.collectors.block.udev import read_udev
from iowarden.collectors.filesystem.ext4 import read_ext4
from iowarden.collectors.md.mdstat import read_md
from iowarden.collectors.model import AbsentError, ParseError
from iowarden.collectors.sysfs import Attributes, attributes

if TYPE_CHECKING:
    from conftest import MachineMaker

PLACE = "/sys/class/thing/thing0"


def test_what_the_listing_does_not_show_is_never_opened(machine: MachineMaker) -> None:
    """A file that is added later does not belong to this reading."""
    root = machine({f"{PLACE}/depth": "5\n"})
    found = Attributes(root, PLACE)
    root.write({f"{PLACE}/later": "1\n", f"{PLACE}/below": None})
    assert (found.count("depth"), found.text("later"), found.below("below")) == (5, None, None)


def test_a_text_is_one_line(machine: MachineMaker) -> None:
    """Padding, line ends and zero bytes of firmware are stripped; an empty text is None."""
    found = Attributes(machine({f"{PLACE}/name": b" Disk  7\0 \n", f"{PLACE}/none": "\n"}), PLACE)
    assert (found.text("name"), found.text("none"), found.count("none")) == ("Disk 7", None, None)


def test_one_attribute_that_is_withdrawn_is_no_device_that_is_gone(machine: MachineMaker) -> None:
    """A driver may remove an attribute while its device remains."""
    root = machine({f"{PLACE}/depth": "5\n", f"{PLACE}/mode": "1\n"})
    found = Attributes(root, PLACE)
    root.remove(f"{PLACE}/mode")
    assert (found.text("mode"), found.vanished(), found.read_error) == (None, False, "")


def test_a_device_has_one_name_in_every_source(machine: MachineMaker) -> None:
    """sysfs writes '!' for '/' in a name: no label has it, so the alerts of one disk match."""
    disk, block = "/sys/block/cciss!c0d0", "device/block/cciss!c0d0"
    counters = " 1 2 3 4 5 6 7 8 9 10 11\n"
    files: dict[str, str | bytes | None] = {
        "/proc/diskstats": f" 104 0 cciss/c0d0{counters} 104 1 cciss/c0d0p1{counters}",
        "/proc/mdstat": "Personalities : [raid1]\nunused devices: <none>\n",
        f"{disk}/size": "2048\n",
        f"{disk}/queue/rotational": "1\n",
        f"{disk}/slaves": None,
        f"{disk}/holders": None,
        f"{disk}/cciss!c0d0p1/partition": "1\n",
        f"{disk}/cciss!c0d0p1/holders/dm-0": None,
        "/sys/block/dm-0/slaves/cciss!c0d0p1": None,
        "/sys/block/md0/md/dev-cciss!c0d0p1/state": "in_sync\n",
        "/sys/class/scsi_host": None,
        f"/sys/class/scsi_device/0:0:0:0/{block}": None,
        f"/sys/class/enclosure/0:0:9:0/Slot 1/{block}": None,
        "/sys/class/enclosure/0:0:9:0/Slot 1/status": "OK\n",
        "/sys/class/hwmon/hwmon0/temp1_input": "30000\n",
        f"/sys/class/hwmon/hwmon0/{block}": None,
        "/sys/fs/ext4/cciss!c0d0p1/errors_count": "0\n",
    }
    root = machine(files)
    names = set(read_diskstats(root))
    assert names == {"cciss/c0d0", "cciss/c0d0p1"}
    topology = read_block(root)
    assert topology.leaves == ("cciss/c0d0",)
    device = topology.devices["cciss/c0d0"]
    assert (device.name, device.partitions) == ("cciss/c0d0", ("cciss/c0d0p1",))
    assert topology.devices["dm-0"].slaves == ("cciss/c0d0",)
    found = {queue.device: queue for queue in read_queue(root).values()}["cciss/c0d0"]
    assert [partition.name for partition in found.partitions] == ["cciss/c0d0p1"]
    assert [device.device for device in read_scsi(root).devices.values()] == ["cciss/c0d0"]
    assert [slot.device for slot in read_enclosure(root)] == ["cciss/c0d0"]
    assert [sensor.device for sensor in read_hwmon(root)] == ["cciss/c0d0"]
    assert [member.device for member in read_md(root)["md0"].members] == ["cciss/c0d0p1"]
    assert list(read_ext4(root)) == ["cciss/c0d0p1"]
    assert read_udev(root)["cciss/c0d0"].rotational


def test_a_directory_that_is_not_there(machine: MachineMaker) -> None:
    """It is None if it may be missing, an error if not."""
    root = machine({"/sys/class": None})
    assert attributes(root, PLACE) is None
    with pytest.raises(AbsentError, match=PLACE):
        Attributes(root, PLACE)


@given(st.text(alphabet="-0123456789_ \n") | st.text())
def test_any_text_is_a_number_or_refused(text: str) -> None:
    """Numbers that Python's own int() would accept beyond the kernel's format are refused."""
    root = Memory({"/depth": text.encode(errors="surrogatepass")})
    for read in (Attributes.count, Attributes.signed):
        found = Attributes(root, "")
        try:
            number = read(found, "depth")
        except ParseError:
            continue
        words = " ".join(text.replace("\0", " ").split())
        if number is not None:
            assert re.fullmatch(r"-?[0-9]{1,20}", words)
            assert number == int(words)
