"""What a person said: be silent about these alerts for a while; this incident is known. Pure.

Source: Alertmanager's silences (matchers, end, author, comment) for what users know; an
acknowledgement holds until its incident gets worse.
Units: seconds of the program's clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from iowarden.rules.notice import Severity  # noqa: TC001 - kept over restarts: read at run time


@dataclass(frozen=True, slots=True)
class Matcher:
    """A condition on one label: `operator` is '=', '!=', '=~' or '!~' (RE2, anchored)."""

    label: str
    operator: str
    text: str


@dataclass(frozen=True, slots=True)
class Silence:
    """No mail about alerts that all `matchers` match, until `ends_seconds`."""

    identifier: str
    matchers: tuple[Matcher, ...]
    created_seconds: float
    ends_seconds: float
    reason: str
    who: str


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """No mail about an incident until it gets worse than `severity`, or is over."""

    incident: str
    """Its identifier."""
    severity: Severity
    created_seconds: float
    reason: str
    who: str
