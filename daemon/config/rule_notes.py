"""What to note about the rules of the user: selectors that match nothing, the history they need."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from iowarden.collectors import registry
from iowarden.collectors.quantity import duration, size
from iowarden.daemon import metrics
from iowarden.daemon.config.rule_files import read_text
from iowarden.daemon.metric_labels import LABELS
from iowarden.rules.engine import engine
from iowarden.rules.promql.history import max_samples
from iowarden.rules.promql.store import MAX_SAMPLES
from iowarden.rules.rulefile.rulefile import Rule, expression_place
from iowarden.rules.rulefile.unmatched_selectors import Catalog, unmatched
from iowarden.rules.signals import table as signals
from iowarden.rules.topology import device_changes
from iowarden.rules.yaml_nodes import RuleFileError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.daemon.config.schema import Config
    from iowarden.rules.rulefile.rulefile import RuleGroup

MAX_NOTES = 50
LONG_RANGE_SECONDS, MAX_ESTIMATES = 3600.0, 10
SAMPLE_BYTES = 16


def notes(groups: Iterable[RuleGroup], settings: Config) -> list[str]:
    """Return notes on selectors of the user's rules that can never match a series.

    Limits: at most `MAX_NOTES` notes, then one line with the number of the others.
    """
    own = [group for group in groups if not group.is_shipped]
    found = unmatched(own, catalog(settings)) if own else []
    texts: dict[str, str] = {}
    lines = []
    for each in found[:MAX_NOTES]:
        rule, place = each.rule, (each.rule.line, 1)
        with contextlib.suppress(RuleFileError):  # the file was readable when it was loaded
            text = texts.setdefault(rule.file, read_text(Path(rule.file)))
            if each.position is not None:
                place = expression_place(text, rule, each.position)
        name = rule.alert if isinstance(rule, Rule) else rule.record
        lines.append(f"'{rule.file}':{place[0]}:{place[1]}: note: {name}: {each.reason}")
    more = len(found) - MAX_NOTES
    return [*lines, f"and {more} more notes"] if more > 0 else lines


def estimates(groups: Iterable[RuleGroup]) -> list[str]:
    """Return for the user's longest ranges how much history each of their series may need.

    Limits: ranges of at least an hour, `MAX_ESTIMATES` lines.
    """
    periods = {
        family.name: max(1.0, source.period_seconds)
        for source in registry.SOURCES
        for family in source.families
    }
    most = {
        f"{window.selector or 'all metrics'} for {duration(window.seconds)}": max_samples(
            window.seconds, periods.get(window.name, 1.0)
        )
        for group in groups
        if not group.is_shipped
        for rule in group.rules
        for window in rule.expression.windows
        if window.seconds >= LONG_RANGE_SECONDS
    }
    largest = sorted(most.items(), key=lambda each: -each[1])[:MAX_ESTIMATES]
    return [
        f"history of {text}: at most {count:,} samples, {size(count * SAMPLE_BYTES)}, for each"
        f" series (equal values in a row are one); all history: {MAX_SAMPLES:,}"
        for text, count in largest
    ]


def catalog(settings: Config) -> Catalog:
    """Return the names of all series that rules can select."""
    families = (
        *(family for source in registry.SOURCES for family in source.families),
        *(family for group in signals.GROUPS for family in group.families),
        *device_changes.FAMILIES,
        *engine.FAMILIES,
        *metrics.FAMILIES,
    )
    names = {name for source in registry.SOURCES for name in source.node_names}
    return Catalog(
        frozenset(names | {family.name for family in families}),
        tuple(
            prefix
            for source in registry.SOURCES
            if not source.node_names
            for prefix in source.node_prefixes
        ),
        settings.targets,
        {name: labels for name, labels in LABELS.items() if "..." not in labels},
    )
