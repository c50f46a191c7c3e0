"""How SMART data is polled: the configuration's section 'smart'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from iowarden.collectors.smart.discovery import ConfiguredDrive


@dataclass(frozen=True, slots=True)
class Options:
    """Settings. `wake_after_seconds`: how long a drive may stay in standby; None: for ever."""

    interval_seconds: float = 1800.0
    raid_interval_seconds: float = 3600.0
    wake_after_seconds: float | None = None
    drives: tuple[ConfiguredDrive, ...] = ()
    deadline_seconds: float = 60.0
    """Timeout of one poll; four times that for a drive that needs it."""
    spread_seconds: float = 120.0
    """Time over which the first polls of many drives are spread."""
