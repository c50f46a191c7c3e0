"""Device-mapper devices that are active, suspended, or removed while they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.block.device_mapper import MappedDevice, emit, read_dm, unreadable
from iowarden.collectors.model import AbsentError, ParseError

if TYPE_CHECKING:
    from conftest import MachineMaker


def mapped(device: str, name: str, suspended: str) -> dict[str, str | bytes | None]:
    """Files of a device."""
    path = f"/sys/block/{device}/dm"
    return {f"{path}/name": name, f"{path}/suspended": suspended, f"{path}/uuid": "LVM-abc\n"}


def test_one_runs_and_one_is_suspended(machine: MachineMaker) -> None:
    """A disk has no directory 'dm', and a name may be any text. Of what runs, one file is read."""
    files = mapped("dm-0", "vg-data\n", "0\n") | mapped("dm-1", "luks backup\n", "1\n")
    root = machine(files | {"/sys/block/sda/size": "1\n"})
    seen: dict[str, bytes] = {}
    root.watch(seen.__setitem__)
    found = read_dm(root)
    assert [path for path in seen if "/dm-0/" in path] == ["/sys/block/dm-0/dm/suspended"]
    assert found == {
        "dm-0": MappedDevice("dm-0", None, suspended=False),
        "dm-1": MappedDevice("dm-1", "luks backup", suspended=True),
    }
    assert emit(found) == [
        ("iowarden_device_mapper_suspended", (("device", "dm-0"),), 0.0),
        ("iowarden_device_mapper_suspended", (("device", "dm-1"),), 1.0),
    ]
    assert list(unreadable(found)) == []


def test_a_machine_without_device_mapper_has_none(machine: MachineMaker) -> None:
    """An empty result is a valid answer."""
    assert read_dm(machine({"/sys/block/sda/size": "1\n"})) == {}


def test_a_machine_without_sysfs_is_no_answer(machine: MachineMaker) -> None:
    """The devices cannot be listed."""
    with pytest.raises(AbsentError, match="/sys/block"):
        read_dm(machine({"/sys/class": None}))


def test_what_the_kernel_does_not_report_is_not_running(machine: MachineMaker) -> None:
    """Without the attribute there is no sample; an unreadable one is named."""
    found = read_dm(machine({"/sys/block/dm-0/dm/suspended": None, "/sys/block/dm-1/dm": None}))
    assert emit(found) == []
    assert found["dm-1"].suspended is None
    ((labels, reason),) = unreadable(found)
    assert labels == (("device", "dm-0"),)
    assert "/sys/block/dm-0/dm/suspended" in reason


def test_another_answer_is_no_answer(machine: MachineMaker) -> None:
    """A value that is no number is refused."""
    with pytest.raises(ParseError, match=r"dm-0/dm/suspended': expected an unsigned number"):
        read_dm(machine(mapped("dm-0", "a\n", "yes\n")))


def test_a_device_that_goes_while_it_is_read_is_left_out(machine: MachineMaker) -> None:
    """A snapshot is removed between the listing and its attributes."""
    dm = {"name": "snap\n", "suspended": "0\n"}
    files = {f"/sys/block/dm-{n}/dm/{name}": text for n in (0, 1) for name, text in dm.items()}
    root = machine(dict(files))

    def removed(seen: str, _: bytes) -> None:
        if seen == "/sys/block/":
            root.remove("/sys/block/dm-0/dm")

    root.watch(removed)
    assert list(read_dm(root)) == ["dm-1"]
