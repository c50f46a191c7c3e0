"""The six groups that were stepped together say what they said, second by second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import old_signals
from support.host import Host
from support.recordings import fixture, recorded

from iowarden.rules.signals import table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.model import Sample
    from iowarden.rules.signals.signal import Derived, Inputs

SIX = ("writeback", "bandwidth", "device", "lull", "blocked")


@pytest.mark.parametrize("name", ["busy-day", "healthy-copy", "hung-disk", "idle", "write-stall"])
def test_old_and_new_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples and what is remembered, in each second of each recording."""
    before = old_signals.State()
    steps, new = 0, table.step

    def both(
        state: table.State, inputs: Inputs, derived: Derived | None, slow: frozenset[str]
    ) -> tuple[table.State, Mapping[str, list[Sample]]]:
        nonlocal before, steps
        before, expected = old_signals.step(before, inputs, derived)
        state, got = new(state, inputs, derived, slow)
        assert {k: v for k, v in got.items() if k in SIX} == expected
        memory = table.remember(state)
        assert memory.bandwidths == before.usual.windows
        assert memory.best_rates == before.lull.best
        assert memory.groups["device"] == device_memory(before)
        steps += 1
        return state, got

    monkeypatch.setattr(table, "step", both)
    Host().play(recorded(fixture(name)))
    assert steps > 100


def device_memory(state: old_signals.State) -> object:
    """Return what was kept of the devices."""
    return old_signals.device.remember(state.device)
