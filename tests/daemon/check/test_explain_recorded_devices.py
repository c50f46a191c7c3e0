"""`iowarden explain` with what a real machine said of devices of device-mapper that failed."""

from __future__ import annotations

import pytest
from support.explained import read
from support.recordings import FIXTURES

RECORDED = FIXTURES / "device_mapper"
FAULTS = {
    "healthy.status": (),
    "healthy.lvs": (),
    "paths.multipath": (),
    "paths.status": (),
    "paths-back.status": (),
    "snapshot-and-leg-lost.status": (
        "vgo-snap (snapshot): it reports 'Invalid'",
        "vgr-data (raid): 1 of 2 devices failed (AD): no redundancy left",
    ),
    "pool-full.status": (
        "vgp-pool-tpool (thin-pool): it has no free data blocks",
        "vgp-pool-tpool (thin-pool): data is 100 % full",
    ),
    "pool-full.lvs": ("vgp/pool: it has no free data blocks", "vgo/snap: the snapshot is lost"),
    "leg-lost.lvs": ("vgr/data: a device of it is missing: it runs without that",),
    "member-missing.vgs": ("a physical volume of it is missing",),
    "metadata-full.status": (
        "vgm-pool-tpool (thin-pool): it is read-only",
        "vgm-pool-tpool (thin-pool): metadata is 100 % full",
    ),
    "metadata-full.lvs": ("vgm/pool: its metadata are read-only",),
    "path-lost.multipath": ("mpatha: 1 of 2 paths work",),
    "path-lost.status": ("mpatha (multipath): 1 of 2 paths work; failed: 8:64",),
    "paths-lost.multipath": ("mpatha has no working path (2 failed): its I/O hangs",),
    "paths-lost.status": ("mpatha (multipath): no working path (2 failed)",),
    "paths-back.multipath": ("mpatha has no working path (2 failed): its I/O fails",),
}
"""By recorded text what is wrong in it."""


@pytest.mark.parametrize("name", FAULTS)
def test_what_a_real_machine_said_is_read_without_a_rest(name: str) -> None:
    """Each line is understood; a healthy machine has no fault, an ill one has its own."""
    found = read((RECORDED / f"{name}.txt").read_text())
    told = "\n".join(alert.text for alert in found.alerts)
    assert found.unparsed == ()
    assert found.status == bool(FAULTS[name]), told
    for fault in FAULTS[name]:
        assert fault in told


def test_the_kernel_s_lines_of_these_failures_are_all_recognized() -> None:
    """That a pool has no metadata left is printed without its name, and before it is read-only."""
    found = read((RECORDED / "failures.dmesg.txt").read_text())
    kinds = [event.kind for event in found.events if "device-mapper: thin: No free" in event.text]
    assert kinds == ["dm_pool_full"]
    assert found.unparsed == ()
