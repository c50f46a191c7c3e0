"""Disks that come and go: one is pulled out while it hangs, another one gets its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from vm.harness import MEBIBYTE, Disk, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vm.harness import VM
    from vm.watched import Watched

SECONDS = 180.0
"""Until a mail or an entry of the journal: 30 s of a hang are critical; with reserve."""
SETTINGS = "resolve_after: 10s\n"


@pytest.fixture(scope="module")
def name(watched: Watched) -> Iterator[str]:
    """Plug a disk in, hang it while it is written to, pull it out; return the name it had."""
    vm = watched.vm
    vm.plug(Disk("cold", 512 * MEBIBYTE))
    name = vm.device("cold")
    _write(vm, name)
    wait_for(lambda: (_written(watched, name) or 0) > MEBIBYTE, "the new disk in the metrics", 90)
    vm.throttle("cold", total=1)
    wait_for(lambda: watched.mail.naming("DeviceHang", "cold"), "a mail of the hang", SECONDS)
    vm.unplug("cold")
    yield name
    vm.run("rm -f /run/writing; umount --lazy /mnt/cold || true")


def _write(vm: VM, name: str) -> None:
    vm.run(f"mkfs.ext4 -q -F /dev/{name}; mkdir -p /mnt/cold; mount /dev/{name} /mnt/cold")
    dd = "dd if=/dev/zero of=/mnt/cold/file bs=64k count=16 conv=fsync"
    vm.run("touch /run/writing")
    vm.start(f"while [ -e /run/writing ]; do {dd} || exit; done")


def _written(watched: Watched, name: str) -> float | None:
    return watched.metric("iowarden_device_written_bytes_total", device=name)


def _entries(watched: Watched, name: str, *, state: str) -> list[dict[str, object]]:
    return watched.journal(f"IOWARDEN_DEVICE={name}", f"IOWARDEN_STATE={state}")


def test_a_disk_pulled_out_while_it_hangs_is_an_event(watched: Watched, name: str) -> None:
    """The journal says which disk is gone, by its serial number, and what was mounted of it."""
    wait_for(lambda: _entries(watched, name, state="removed"), "the removal", SECONDS)
    told = str(_entries(watched, name, state="removed")[0]["MESSAGE"])
    assert "cold" in told
    assert "/mnt/cold" in told


def test_what_is_gone_is_not_well(watched: Watched, name: str) -> None:
    """Its hang does not end by its removal: no alert is over, no mail gives the all-clear."""
    wait_for(lambda: _written(watched, name) is None, "the end of its metrics", SECONDS)
    wait_for(
        lambda: watched.journal(f"IOWARDEN_DEVICE={name}", "IOWARDEN_STATE=unknown"),
        "an alert that nobody can judge any more",
        SECONDS,
    )
    assert watched.journal("IOWARDEN_ALERT=DeviceHang", "IOWARDEN_STATE=resolved") == []


def test_another_disk_under_its_name_is_another_disk(watched: Watched, name: str) -> None:
    """A new disk gets the name of the old one and is well; the old one's incident stays open."""
    vm = watched.vm
    vm.run("rm -f /run/writing; umount /mnt/cold")
    vm.plug(Disk("fresh", 512 * MEBIBYTE))
    try:
        assert vm.device("fresh") == name
        wait_for(
            lambda: [
                entry
                for entry in _entries(watched, name, state="added")
                if "fresh" in str(entry["MESSAGE"])
            ],
            "the new disk, which was not the first to be added",
            SECONDS,
        )
        _write(vm, name)
        wait_for(lambda: (_written(watched, name) or 0) > MEBIBYTE, "its metrics", 90)
        assert watched.journal("IOWARDEN_ALERT=DeviceHang", "IOWARDEN_STATE=resolved") == []
        assert len(watched.mail.incidents()) == 1, [mail["Subject"] for mail in watched.mail.mails]
        assert watched.mail.saying("[OK]") == []
    finally:
        vm.run("rm -f /run/writing; umount --lazy /mnt/cold || true")
        vm.unplug("fresh")
