"""Number of NUMA nodes, for the check of vm.zone_reclaim_mode.

Source: kernel, admin-guide/sysctl/vm.rst (zone_reclaim_mode).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals.signal import SignalGroup

if TYPE_CHECKING:
    from iowarden.rules.signals.signal import View


def step(state: None, view: View) -> tuple[None, list[Sample] | None]:
    """Return how many nodes have memory; nodes with processors only use that of others."""
    nodes = view.inputs.snapshot.numa
    if nodes is None:
        return state, None
    return state, [("iowarden_numa_nodes", (), sum(node.total_bytes > 0 for node in nodes))]


GROUP = SignalGroup(
    name="numa",
    sources=("numa",),
    families=(Family("iowarden_numa_nodes", "gauge", "Number of NUMA nodes that have memory."),),
    step=step,
    initial=None,
)
