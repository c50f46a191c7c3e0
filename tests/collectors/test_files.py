"""The door to the kernel's files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.files import LIMIT_BYTES, Root
from iowarden.collectors.vocabulary import AbsentError, ReadError

if TYPE_CHECKING:
    from conftest import MachineMaker


def test_a_kept_descriptor_sees_the_text_of_now(machine: MachineMaker) -> None:
    """Each read starts at the beginning, so the kernel prints the file anew."""
    root = machine({"/proc/stat": "old"})
    assert root.read_kept("/proc/stat") == "old"
    machine({"/proc/stat": "newer"})
    assert root.read_kept("/proc/stat") == "newer"


def test_a_file_that_comes_back_is_opened_again(machine: MachineMaker) -> None:
    """A device is removed and another of its name added: the first's descriptor is given up."""
    root = machine({"/sys/block/sda/stat": "1"})
    assert root.read_kept("/sys/block/sda/stat") == "1"
    path = root.path + "/sys/block/sda/stat"
    os.truncate(path, 0)
    os.unlink(path)
    assert root.read_kept("/sys/block/sda/stat") == ""
    with pytest.raises(AbsentError):
        root.read_kept("/sys/block/sda/stat")
    machine({"/sys/block/sda/stat": "2"})
    assert root.read_kept("/sys/block/sda/stat") == "2"


def test_a_file_without_end_is_not_read_to_its_end(machine: MachineMaker) -> None:
    """A text over the limit is refused, and the message says what happens next."""
    root = machine({"/proc/meminfo": None})
    os.rmdir(root.path + "/proc/meminfo")
    with open(root.path + "/proc/meminfo", "wb") as file:
        file.truncate(LIMIT_BYTES * 100)
    with pytest.raises(ReadError, match=r"'/proc/meminfo': expected at most \d+ bytes, got more"):
        root.read_kept("/proc/meminfo")


def test_a_directory_in_place_of_a_file_cannot_be_read(machine: MachineMaker) -> None:
    """It is there and gives no text: a failure, not an absence."""
    with pytest.raises(ReadError, match="Is a directory"):
        machine({"/proc/meminfo": None}).read("/proc/meminfo")


def test_what_a_recording_listed_and_never_read_is_absent(machine: MachineMaker) -> None:
    """An older recording plays with a newer source: what it lacks was not asked for, not broken."""
    path = "/sys/block/sda/alignment_offset"
    root = Root(machine({path: None}).path, recorded=True)
    with pytest.raises(AbsentError, match="not in the recording"):
        root.read(path)
    with pytest.raises(AbsentError, match="not in the recording"):
        root.read_kept(path)


def test_a_pipe_in_place_of_a_file_does_not_block(machine: MachineMaker) -> None:
    """Nobody writes to it: an open that waits would never end."""
    root = machine({"/proc": None})
    os.mkfifo(root.path + "/proc/stat")
    with pytest.raises(ReadError):
        root.read("/proc/stat")


def test_bytes_that_are_no_utf_8_are_escaped(machine: MachineMaker) -> None:
    """A text is always a text."""
    assert machine({"/x": b"a\xff\n"}).read("/x") == "a\\xff\n"


def test_statvfs_of_this_machine_plays_again(machine: MachineMaker) -> None:
    """What is told to a recorder, below another root, is the answer there."""
    seen: dict[str, bytes] = {}
    root = Root("/", seen=seen.__setitem__)
    text = root.statvfs("/proc")
    assert seen == {"/proc/.statvfs": text.encode()}
    device = os.stat("/proc").st_dev
    assert text.startswith(f"device_number {os.major(device)}:{os.minor(device)}\nblock_bytes ")
    assert machine(dict(seen)).statvfs("/proc") == text
    assert machine({"/.statvfs": "of the root"}).statvfs("/") == "of the root"


def test_statvfs_of_what_is_not_there() -> None:
    """The error names the path."""
    with pytest.raises(AbsentError, match="'/proc/none': No such file"):
        Root("/").statvfs("/proc/none")
