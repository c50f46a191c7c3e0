"""Queues of disks, arrays and their partitions, and disks that vanish while they are read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.block.queue import (
    Partition,
    emit,
    parse_schedulers,
    read_queue,
    unreadable,
)
from iowarden.collectors.machine import Machine
from iowarden.collectors.model import AbsentError, ParseError

if TYPE_CHECKING:
    from conftest import MachineMaker

Files = dict[str, str | bytes | None]


def disk(name: str, **attributes: str) -> Files:
    """Files of a device; a double underscore stands for '/'."""
    path = f"/sys/block/{name}"
    files: Files = {f"{path}/queue/rotational": "1\n"}
    return files | {f"{path}/{key.replace('__', '/')}": text for key, text in attributes.items()}


VOLUME = disk(
    "sda",
    size="7814037168\n",
    ro="0\n",
    alignment_offset="-1\n",
    queue__scheduler="noop deadline [cfq] \n",
    queue__read_ahead_kb="64\n",
    queue__nr_requests="128\n",
    queue__max_sectors_kb="512\n",
    queue__max_hw_sectors_kb="32767\n",
    queue__minimum_io_size="65536\n",
    queue__optimal_io_size="393216\n",
    queue__physical_block_size="4096\n",
    queue__logical_block_size="512\n",
    queue__chunk_sectors="128\n",
    queue__write_cache="write back\n",
    queue__zoned="host-aware\n",
    sda1__partition="1\n",
    sda1__start="63\n",
    sda1__size="7814037105\n",
    sda1__alignment_offset="3584\n",
)


def test_a_raid_volume_with_a_partition_from_the_days_of_cylinders(machine: MachineMaker) -> None:
    """Sectors and kB become bytes; the partition begins at sector 63."""
    queue = read_queue(machine(VOLUME))["sda"]
    assert (queue.scheduler, queue.schedulers) == ("cfq", ("noop", "deadline", "cfq"))
    assert (queue.read_ahead_bytes, queue.nr_requests) == (65_536, 128)
    assert (queue.max_sectors_bytes, queue.max_hw_sectors_bytes) == (524_288, 33_553_408)
    assert (queue.minimum_io_bytes, queue.optimal_io_bytes) == (65_536, 393_216)
    assert (queue.physical_block_bytes, queue.logical_block_bytes) == (4096, 512)
    assert (queue.chunk_bytes, queue.alignment_offset_bytes) == (65_536, -1)
    assert (queue.rotational, queue.write_cache, queue.read_only) == (True, "write back", False)
    assert queue.zoned == "host-aware"
    assert queue.size_bytes == 4_000_787_030_016
    assert queue.partitions == (Partition("sda1", 32_256, 4_000_786_997_760, 3584),)


def test_what_the_kernel_does_not_report_is_no_number(machine: MachineMaker) -> None:
    """A device-mapper device of an old kernel has few settings; missing ones are not 0."""
    files = disk("dm-0", queue__scheduler="none\n", queue__nr_requests="\n")
    queue = read_queue(machine(files))["dm-0"]
    assert (queue.scheduler, queue.schedulers) == ("none", ("none",))
    assert (queue.nr_requests, queue.read_ahead_bytes, queue.write_cache) == (None, None, None)
    assert {name for name, _, _ in emit({"dm-0": queue})} == {"iowarden_device_scheduler"}


def test_series_of_a_queue(machine: MachineMaker) -> None:
    """The scheduler is a label, the write cache 1 or 0, partitions have the disk's name as well."""
    samples = emit(read_queue(machine(VOLUME)))
    sda = (("device", "sda"),)
    assert ("iowarden_device_queue_requests", sda, 128) in samples
    assert ("iowarden_device_read_ahead_bytes", sda, 65_536) in samples
    assert ("iowarden_device_write_cache_enabled", sda, 1.0) in samples
    assert ("iowarden_device_scheduler", (*sda, ("scheduler", "cfq")), 1.0) in samples
    assert ("iowarden_partition_start_bytes", (*sda, ("partition", "sda1")), 32_256) in samples


def test_what_has_no_queue_to_tune_is_left_out(machine: MachineMaker) -> None:
    """Loop, RAM, CD and floppy devices, and a device without a queue, are left out."""
    files: Files = {"/sys/block/sdb/size": "1\n"}
    for name in ("loop7", "ram0", "zram0", "sr0", "fd0", "md0", "sda", "nbd0"):
        files |= disk(name)
    assert list(read_queue(machine(files))) == ["md0", "nbd0", "sda"]


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        ("queue__nr_requests", "many\n"),
        ("queue__read_ahead_kb", "-1\n"),
        ("queue__scheduler", "[none] [bfq]\n"),
        ("queue__scheduler", "noop deadline\n"),
        ("queue__write_cache", "write sideways\n"),
        ("alignment_offset", "1.5\n"),
        ("sda1__start", "0x3f\n"),
    ],
)
def test_an_attribute_that_makes_no_sense_is_named(
    attribute: str, text: str, machine: MachineMaker
) -> None:
    """The message has the path, the expected and the found value."""
    path = "/sys/block/sda/" + attribute.replace("__", "/")
    with pytest.raises(ParseError) as error:
        read_queue(machine(VOLUME | {path: text}))
    assert path in str(error.value)
    assert "expected" in str(error.value)
    assert repr(text.strip()) in str(error.value)


def test_an_attribute_that_cannot_be_read_leaves_the_device_in_doubt(machine: MachineMaker) -> None:
    """A directory in place of the file: unknown, with the reason; the others remain."""
    files = VOLUME | {"/sys/block/sda/queue/nr_requests/x": None} | disk("sdb")
    del files["/sys/block/sda/queue/nr_requests"]
    queues = read_queue(machine(files))
    assert queues["sda"].nr_requests is None
    assert queues["sda"].read_ahead_bytes == 65_536
    [(labels, reason)] = unreadable(queues)
    assert labels == (("device", "sda"),)
    assert "/sys/block/sda/queue/nr_requests" in reason


@pytest.mark.parametrize(
    ("moment", "gone"),
    [
        ("/sys/block/sda/", "sda"),
        ("/sys/block/sda/queue/", "sda/queue"),
        ("/sys/block/sda/queue/rotational", "sda"),
        ("/sys/block/sda/sda1/", "sda/sda1"),
    ],
)
def test_a_device_that_vanishes_while_it_is_read_is_left_out(
    moment: str, gone: str, machine: MachineMaker
) -> None:
    """A disk removed after this was read is left out as a whole, and the other disk remains."""
    root = machine(VOLUME | disk("sdb"))

    def pull(seen: str, content: bytes) -> None:
        if seen == moment:
            root.remove(f"/sys/block/{gone}")

    root.watch(pull)
    queues = read_queue(root)
    assert "sdb" in queues
    if gone == "sda/sda1":
        assert queues["sda"].partitions == ()
    else:
        assert "sda" not in queues


def test_a_name_that_is_no_utf_8_is_shown_escaped(machine: MachineMaker) -> None:
    """A label is printable."""
    name = b"sd\xff".decode(errors="surrogateescape")
    assert read_queue(machine(disk(name)))["sd\\xff"].device == "sd\\xff"


def test_a_machine_without_sysfs_is_absent(machine: MachineMaker) -> None:
    """A missing '/sys/block' does not mean a machine without disks."""
    with pytest.raises(AbsentError, match="/sys/block"):
        read_queue(machine({"/proc/stat": ""}))


def test_the_queues_of_this_machine(machine: MachineMaker) -> None:
    """The number is equal to the kernel's own text."""
    if not os.path.isdir("/sys/block"):
        pytest.skip("no sysfs here")
    root = Machine("/")
    for name, queue in read_queue(root).items():
        text = Path(f"/sys/block/{name}/queue/read_ahead_kb").read_text(encoding="ascii")
        assert queue.read_ahead_bytes == int(text) * 1024
        assert queue.scheduler in queue.schedulers
    root.close()


_NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,11}", fullmatch=True)


@given(st.lists(_NAMES, min_size=1, unique=True), st.data())
def test_the_scheduler_in_brackets_is_in_force(names: list[str], data: st.DataObject) -> None:
    """Whatever its name and position."""
    chosen = data.draw(st.sampled_from(names))
    text = " ".join(f"[{name}]" if name == chosen else name for name in names)
    assert parse_schedulers(text + "\n") == (chosen, tuple(names))


@given(st.text(alphabet="ab[] \n-") | st.text())
def test_any_text_names_one_scheduler_or_is_refused(text: str) -> None:
    """Any text gives a value or a ParseError."""
    try:
        scheduler, schedulers = parse_schedulers(text)
    except ValueError:
        return
    assert scheduler in schedulers
