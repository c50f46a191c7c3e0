"""How severe an alert, an event or an incident is."""

from __future__ import annotations

import enum


class Severity(enum.IntEnum):
    """How bad; ordered, so that `max` is the worse one. Only warning and critical are mailed."""

    INFO = 0
    NOTICE = 1
    WARNING = 2
    CRITICAL = 3
