"""States of signals as tests want them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.rules.signals import table
from iowarden.rules.signals.writeback.writeback import Writeback, WritebackState

if TYPE_CHECKING:
    from collections.abc import Mapping


def state_with(**states: object) -> table.SignalStates:
    """Return the states of a start, but for these."""
    return table.SignalStates({**table.SignalStates().groups, **states})


def with_writeback(
    now: float, *, above_seconds: float | None, queued_bytes: float = 0.0
) -> Mapping[str, object]:
    """Return the states in a second that saw writers held for so long; None: it saw nothing."""
    value = Writeback(queued_bytes, 1e9, 5e8, 7.5e8, 0.0, above_seconds or 0.0, 0.0, 0.0)
    state = WritebackState(last_seconds=now, value=None if above_seconds is None else value)
    return state_with(writeback=state).groups
