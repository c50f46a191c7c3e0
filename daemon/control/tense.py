"""Whether an incident or alert in a document is present, and its summary in that tense.

An alert fires for a while after its expression is false: its summary is from before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.daemon.control.documents import IncidentLine

if TYPE_CHECKING:
    from iowarden.daemon.control.documents import AlertLine


def is_present(line: IncidentLine | AlertLine) -> bool:
    """Return whether an incident has an alert that has not cleared, or an alert has not."""
    is_firing = line.firing if isinstance(line, IncidentLine) else True
    return is_firing and line.cleared_seconds is None


def tensed(summary: str, line: IncidentLine | AlertLine) -> str:
    """Return a summary of an incident or alert: of what has cleared it is from before."""
    if isinstance(line, IncidentLine) and line.stays:
        return f"no longer reported, was: {summary}"
    return summary if is_present(line) else f"cleared, was: {summary}"
