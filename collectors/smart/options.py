"""How drives' SMART data is polled: the configuration's section 'smart'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iowarden.collectors.smart.discovery import ConfiguredDrive


@dataclass(frozen=True, slots=True)
class Options:
    """What can be set. `wake_after_seconds`: so long a drive may sleep; None: for ever."""

    period_seconds: float = 1800.0
    raid_period_seconds: float = 3600.0
    wake_after_seconds: float | None = None
    drives: tuple[ConfiguredDrive, ...] = ()
    deadline_seconds: float = 60.0
    """Of one poll; four times that for a drive that needs it."""
    spread_seconds: float = 120.0
    """Over which many drives are asked first."""
