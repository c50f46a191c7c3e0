"""The storage graph: layers of objects, what disks share, what it is called."""

from __future__ import annotations

from dataclasses import replace

from support.machine import disk, topology

from iowarden.rules.topology.device_changes import VanishedDisk
from iowarden.rules.topology.graph import (
    StorageGraph,
    parent_texts,
    parents,
    with_shelves,
)
from iowarden.rules.topology.topology import NO_DEPENDENTS, remember

SHELF = frozenset(f"disk {n}" for n in range(8))
TWO_SHELVES = {
    "adapter host1": SHELF,
    "adapter expander-1:0": frozenset(f"disk {n}" for n in range(4)),
    "adapter expander-1:1": frozenset(f"disk {n}" for n in range(4, 8)),
}


def test_the_nearest_of_what_disks_share_is_their_expander_and_of_two_shelves_the_adapter() -> None:
    """Three disks of one shelf, and one of each."""
    graph = StorageGraph(parents=TWO_SHELVES)
    assert graph.common_parent(["disk 0", "disk 1", "disk 3"]) == "adapter expander-1:0"
    assert graph.common_parent(["disk 0", "disk 7"]) == "adapter host1"
    assert graph.common_parent(["disk 0", "disk of another adapter"]) == "adapter expander-1:0"
    assert not StorageGraph().common_parent(["disk 0", "disk 1"])


def test_an_only_expander_is_nearer_than_the_adapter_that_has_the_same_disks() -> None:
    """The title is 'expander-1:0: 8 of 8 disks gone'; the adapter has no others."""
    same = {"adapter host1": SHELF, "adapter expander-1:0": SHELF}
    graph = StorageGraph(with_shelves({"adapter host1": SHELF}, same), same)
    assert graph.common_parent(SHELF) == "adapter expander-1:0"
    assert graph.carries("adapter host1", "adapter expander-1:0")


def test_a_missing_disk_is_still_one_of_its_expander_and_of_its_adapter() -> None:
    """sysfs has forgotten where it was."""
    there = replace(disk("sda", serial="A"), host="host1", shelf="expander-1:0")
    gone = {"disk B": VanishedDisk("sdb", "sdb", 0.0, adapter="host1", shelf="expander-1:0")}
    found = parents(remember(NO_DEPENDENTS, topology(there), (), 0.0), gone)
    assert found == {
        "adapter host1": {"disk   A", "disk B"},
        "adapter expander-1:0": {"disk   A", "disk B"},
    }
    assert parents(NO_DEPENDENTS, {}) == {}


def test_an_enclosure_is_what_its_disks_share_and_belongs_to_its_adapter() -> None:
    """Its processor is at the same SCSI host."""
    shelf = {"adapter enclosure 1:0:9:0": SHELF, "adapter host1": SHELF | {"disk x"}}
    graph = StorageGraph(with_shelves({}, shelf), shelf)
    assert graph.common_parent(SHELF) == "adapter enclosure 1:0:9:0"
    assert graph.carries("adapter host1", "adapter enclosure 1:0:9:0")
    known = replace(topology(), shelves={"enclosure 1:0:9:0": "0x500304801f2e9abd"})
    names = parent_texts(known, {}, shelf)
    assert names["adapter enclosure 1:0:9:0"] == "enclosure 1:0:9:0 (0x500304801f2e9abd of host1)"


def test_an_expander_is_called_by_its_sas_address_and_an_adapter_by_its_driver() -> None:
    """As the driver's lines in the kernel log name them."""
    known = replace(topology(), shelves={"expander-1:0": "0x500304801f2e9abf"})
    texts = parent_texts(known, {"mpt3sas_cm0": "host1", "0000:3b:00.0": "host1"}, TWO_SHELVES)
    assert texts == {
        "adapter host1": "host1 (SCSI host adapter, mpt3sas_cm0)",
        "adapter expander-1:0": "expander-1:0 (SAS expander 0x500304801f2e9abf of host1)",
        "adapter expander-1:1": "expander-1:1 (SAS expander of host1)",
    }
