"""Loop devices and RAM disks that hold nothing are no disks; one that gets a file is, at once."""

from __future__ import annotations

import pytest
from support.simulation import Simulation

EMPTY = [f"loop{number}" for number in range(1, 9)] + ["ram0", "nbd0", "zram0"]

REMOVED = {'iowarden_device_removed{used_by="",device="nbd0",object="nbd0 (SIMULATED HDD)"}'}
"""A leaf that carried nothing is listed in the digest for a week, as a disk that was pulled."""


def attach(host: Simulation, name: str) -> None:
    """Give a loop device a file, or an nbd device a server, which the kernel announces."""
    host.memory.write({f"/sys/block/{name}/size": "1953525168\n"})
    if name.startswith("loop"):
        host.memory.write({f"/sys/block/{name}/loop/backing_file": "/srv/image\n"})
    host.host.announced()


def detach(host: Simulation, name: str) -> None:
    """Take it away; the device stays, with its size 0."""
    if name.startswith("loop"):
        host.memory.remove(f"/sys/block/{name}/loop")
    host.memory.write({f"/sys/block/{name}/size": "0\n"})
    host.host.announced()


def machine(*others: str) -> Simulation:
    """Return a host with a disk, and devices that nobody uses and that once had requests."""
    host = Simulation()
    host.memory.write({"/proc/1/mountinfo": "21 1 8:0 / / rw,relatime - ext4 /dev/sda rw\n"})
    host.add_disk("sda")
    for name in others:
        host.add_disk(name)
        if not name.startswith("ram"):
            host.memory.write({f"/sys/block/{name}/size": "0\n"})
        host.disks[name] = [5_000_000, 12, 0, 30, 40]
    return host


def series(host: Simulation) -> set[str]:
    """Return the names and labels of all series of the last second."""
    return set(host.host.signals())


def test_devices_that_hold_nothing_have_no_series() -> None:
    """A host with eleven of them shows the same series as one without."""
    bare, full = machine(), machine(*EMPTY)
    for host in (bare, full):
        host.run(20)
    assert series(full) == series(bare)


@pytest.mark.parametrize("name", ["loop0", "nbd0"])
def test_a_device_appears_with_what_it_holds_and_goes_with_it_unnoticed(name: str) -> None:
    """Its series exist in the second after the announcement; that it goes is no removed disk."""
    host = machine(name)
    host.run(20)
    attach(host, name)
    host.run(1)
    assert f'iowarden_device_writes_completed_total{{device="{name}"}}' in series(host)
    host.run(30, writes={name: 4_000_000}, in_flight={name: 1})
    detach(host, name)
    host.run(120)
    assert not {each for each in series(host) if f'device="{name}"' in each} - REMOVED
    assert (host.host.fired, host.host.mails) == ([], [])
