"""Overrides of classes of events: their severity, and whether they raise alerts. Pure.

A class is named by its name alone. What the configuration sets holds for all its alerts: also where
a controller sends a severity of its own, and however many events come; but an error of a path stays
below warning while another path of its map works. An event of a class that is
disabled is still read, shown by 'iowarden events' and correlated with others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.rules.events.event_table import EventTable
from iowarden.rules.rulefile.overrides import refusal
from iowarden.rules.severity import Severity
from iowarden.rules.yaml_nodes import RuleFileError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.rules.rulefile.overrides import Override

KEYS = ("severity", "enabled")
"""The keys of an override that an event has; the others are of a rule's expression."""


def apply(table: EventTable, overrides: Iterable[Override]) -> EventTable:
    """Return the table with the classes changed that overrides name; each must be one of its.

    Errors: RuleFileError with all errors.
    """
    rows, problems = dict(table.rows), []
    for override in overrides:
        if of_rules := [key for key in override.keys if key not in KEYS]:
            reason = (
                f"expected {' or '.join(map(repr, KEYS))}, which an event has, got"
                f" {' and '.join(map(repr, of_rules))}, which only a rule has; remove it"
            )
            problems.append(refusal(override, reason))
            continue
        rows[override.rule] = replace(
            rows[override.rule],
            enabled=override.enabled is not False,
            severity_here=Severity[override.severity.upper()] if override.severity else None,
        )
    if problems:
        raise RuleFileError(problems)
    return EventTable(rows)
