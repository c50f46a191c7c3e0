"""Severity of alerts, events and incidents."""

from __future__ import annotations

import enum


class Severity(enum.IntEnum):
    """Severity, ordered, so that `max` is the higher one. Only warning and critical are mailed."""

    INFO = 0
    NOTICE = 1
    WARNING = 2
    CRITICAL = 3
