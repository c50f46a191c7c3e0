"""ext4 file systems with and without errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.filesystem.ext4 import Ext4, Ext4Error, emit, read_ext4
from iowarden.collectors.model import AbsentError, ParseError, ReadError

if TYPE_CHECKING:
    from conftest import MachineMaker

Files = dict[str, str | bytes | None]


def ext4(name: str, **attributes: str) -> Files:
    """Files of a mounted file system."""
    return {f"/sys/fs/ext4/{name}/{key}": text for key, text in attributes.items()}


HEALTHY = ext4(
    "sda2", errors_count="0\n", warning_count="0\n", first_error_time="0\n", last_error_time="0\n"
)


def test_an_error_is_reported_with_its_place(machine: MachineMaker) -> None:
    """A directory error occurred twice; the first location is stored as well as the last."""
    files = HEALTHY | ext4(
        "dm-0",
        errors_count="2\n",
        warning_count="1\n",
        first_error_time="1700000000\n",
        first_error_func="ext4_lookup\n",
        first_error_line="1832\n",
        first_error_ino="2\n",
        first_error_block="0\n",
        last_error_time="1700003600\n",
        last_error_func="htree_dirblock_to_tree\n",
        last_error_line="1080\n",
        last_error_ino="131073\n",
        last_error_block="532514\n",
    )
    found = read_ext4(machine(files | {"/sys/fs/ext4/features/lazy_itable_init": "supported\n"}))
    assert found == {
        "dm-0": Ext4(
            "dm-0",
            2,
            1,
            Ext4Error(1_700_000_000.0, "ext4_lookup", 1832, 2, 0),
            Ext4Error(1_700_003_600.0, "htree_dirblock_to_tree", 1080, 131_073, 532_514),
        ),
        "sda2": Ext4("sda2", 0, 0, None, None),
    }


def test_an_old_kernel_reports_less(machine: MachineMaker) -> None:
    """Before 4.18 a count and two times; warnings and function are unknown, and not zero."""
    files = ext4("cciss!c0d0p1", errors_count="1\n", first_error_time="5\n", last_error_time="5\n")
    samples = emit(read_ext4(machine(files)))
    device = ("device", "cciss/c0d0p1")
    assert samples == [
        ("iowarden_ext4_errors_total", (device,), 1),
        ("iowarden_ext4_first_error_timestamp_seconds", (device,), 5.0),
        ("iowarden_ext4_last_error_timestamp_seconds", (device,), 5.0),
        (
            "iowarden_ext4_last_error",
            (("block", ""), device, ("function", ""), ("inode", ""), ("line", "")),
            1,
        ),
    ]


def test_a_healthy_file_system_has_no_time_of_an_error(machine: MachineMaker) -> None:
    """The kernel prints 0 for it, which would be 1970."""
    assert emit(read_ext4(machine(HEALTHY))) == [
        ("iowarden_ext4_errors_total", (("device", "sda2"),), 0),
        ("iowarden_ext4_warnings_total", (("device", "sda2"),), 0),
    ]


def test_unmounted_while_it_is_read(machine: MachineMaker) -> None:
    """Its directory was listed, its files are removed: it is left out."""
    assert set(read_ext4(machine(HEALTHY | {"/sys/fs/ext4/sdb1": None}))) == {"sda2"}


def test_no_driver_no_file_system_and_no_number(machine: MachineMaker) -> None:
    """Missing, empty, permission denied and failed are four different results."""
    with pytest.raises(AbsentError, match="/sys/fs/ext4"):
        read_ext4(machine({"/sys/fs": None}))
    assert read_ext4(machine({"/sys/fs/ext4/features": None})) == {}
    with pytest.raises(ParseError, match="'/sys/fs/ext4/sdc1/errors_count': expected"):
        read_ext4(machine(ext4("sdc1", errors_count="-1\n")))
    with pytest.raises(ReadError):
        read_ext4(machine({"/sys/fs/ext4/sda1/errors_count": None}))
