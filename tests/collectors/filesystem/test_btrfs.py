"""btrfs devices with errors, missing ones, and kernels without the counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.filesystem.btrfs import BtrfsDevice, emit, filesystems, read_btrfs
from iowarden.collectors.model import AbsentError, ParseError

if TYPE_CHECKING:
    from conftest import MachineMaker

Files = dict[str, str | bytes | None]
UUID = "0af3c1d2-1111-4222-8333-0123456789ab"
STATS = "write_errs 7\nread_errs 1\nflush_errs 2\ncorruption_errs 3\ngeneration_errs 4\n"


def device(identifier: int, **attributes: str) -> Files:
    """Files of a device of the file system."""
    path = f"/sys/fs/btrfs/{UUID}/devinfo/{identifier}/"
    return {path + key: text for key, text in attributes.items()}


def test_a_mirror_of_which_one_device_errs_and_one_is_missing(machine: MachineMaker) -> None:
    """Counts by device, profiles of all; the directory of the driver's features is none."""
    files = device(1, error_stats=STATS, missing="0\n") | device(2, missing="1\n")
    files |= {f"/sys/fs/btrfs/{UUID}/label": "data\n", "/sys/fs/btrfs/features/raid56": "1\n"}
    allocation = f"/sys/fs/btrfs/{UUID}/allocation"
    files |= {
        f"{allocation}/data/raid1c3/total_bytes": "1\n",
        f"{allocation}/data/flags": "1\n",
        f"{allocation}/metadata/raid1/total_bytes": "1\n",
        f"{allocation}/metadata/dup/total_bytes": "1\n",
        f"{allocation}/global_rsv_size": "1\n",
    }
    kinds = ("data raid1c3", "metadata dup", "metadata raid1")
    found = read_btrfs(machine(files))
    assert found == (
        BtrfsDevice(UUID, "data", 1, kinds, False, 7, 1, 2, 3, 4),
        BtrfsDevice(UUID, "data", 2, kinds, True, None, None, None, None, None),
    )
    assert filesystems(found) == {UUID}
    samples = emit(found)
    first = (("fsid", UUID), ("devid", "1"), ("label", "data"))
    second = (("fsid", UUID), ("devid", "2"), ("label", "data"))
    assert ("iowarden_btrfs_device_write_errors_total", first, 7) in samples
    assert [sample for sample in samples if sample[1] == second] == [
        ("iowarden_btrfs_device_missing", second, True)
    ]


def test_counts_that_are_not_read_yet_are_not_known(machine: MachineMaker) -> None:
    """The kernel prints 'invalid' for it, and may add unknown lines in future."""
    (found,) = read_btrfs(machine(device(1, error_stats="invalid\n", missing="0\n")))
    assert (found.missing, found.write_errors_total) == (False, None)
    (found,) = read_btrfs(machine(device(1, error_stats="write_errs 1\nnew_errs 2\n")))
    assert (found.missing, found.write_errors_total, found.read_errors_total) == (False, 1, None)


def test_an_old_kernel_has_no_counts(machine: MachineMaker) -> None:
    """Before 5.6 there is no devinfo: the file system has no counts."""
    assert read_btrfs(machine({f"/sys/fs/btrfs/{UUID}/label": "\n"})) == ()


def test_no_driver_is_absent_and_garbage_is_refused(machine: MachineMaker) -> None:
    """Neither means 'no errors'."""
    with pytest.raises(AbsentError, match="/sys/fs/btrfs"):
        read_btrfs(machine({"/sys/fs": None}))
    with pytest.raises(ParseError, match="expected an unsigned 64-bit number"):
        read_btrfs(machine(device(1, error_stats="write_errs many\n")))
