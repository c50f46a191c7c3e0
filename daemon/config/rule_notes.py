"""What to note about rules and overrides of the user: what never matches, the history they need."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors import registry
from iowarden.collectors.quantity import duration, size
from iowarden.daemon import metrics
from iowarden.daemon.config.rule_files import missing_directory, read_text
from iowarden.daemon.metric_labels import LABELS
from iowarden.rules.engine import engine
from iowarden.rules.promql.history import max_samples
from iowarden.rules.promql.store import MAX_SAMPLES
from iowarden.rules.rulefile.overrides import severity
from iowarden.rules.rulefile.rulefile import Rule, expression_place
from iowarden.rules.rulefile.unmatched_selectors import Catalog, unmatched, unmatched_in
from iowarden.rules.severity import Severity
from iowarden.rules.signals import table as signals
from iowarden.rules.topology import device_changes
from iowarden.rules.yaml_nodes import RuleFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from iowarden.daemon.config.schema import Config
    from iowarden.rules.rulefile.overrides import Override
    from iowarden.rules.rulefile.rulefile import RecordingRule, RuleGroup

MAX_NOTES = 50
LONG_RANGE_SECONDS, MAX_ESTIMATES = 3600.0, 10
SAMPLE_BYTES = 16


def notes(groups: Iterable[RuleGroup], settings: Config) -> list[str]:
    """Return notes on selectors that can never match: of overrides, and of the user's rules.

    Also on severities that iowarden does not have.
    Limits: at most `MAX_NOTES` notes, then one line with the number of the others.
    """
    every = list(groups)
    missing = missing_directory(settings)
    lines = [missing] if missing else []
    lines += [
        f"{each.override.place}: note: overrides: {each.override.rule}: expr: {each.reason}"
        for each in never_fires(every, settings)
    ]
    lines += of_own_rules(every, settings)
    more = len(lines) - MAX_NOTES
    return [*lines[:MAX_NOTES], f"and {more} more notes"] if more > 0 else lines


class NeverFires(NamedTuple):
    """A shipped rule whose expression the configuration replaced by one that selects nothing."""

    override: Override
    reason: str


def never_fires(groups: Iterable[RuleGroup], settings: Config) -> Iterator[NeverFires]:
    """Yield the overrides that switch their alert off by an expression, and why.

    `groups` are all that are loaded: an expression may select what another rule records.
    """
    changed = [each for each in settings.overrides if each.expression is not None]
    every = list(groups) if changed else []
    if not any(group.is_shipped for group in every):
        return
    known = catalog(settings)
    for override in changed:
        for _, reason in unmatched_in(str(override.expression), every, known):
            yield NeverFires(override, reason)


def of_own_rules(groups: Iterable[RuleGroup], settings: Config) -> list[str]:
    """Return the notes on the user's rules."""
    own = [group for group in groups if not group.is_shipped]
    return [*_of_rules(own, settings), *_of_severities(own)]


def _of_severities(own: Iterable[RuleGroup]) -> Iterator[str]:
    """Yield which severities of the user's alerts are none of iowarden's: what a file may have."""
    for group in own:
        for rule in group.rules:
            level = severity(rule)
            if level and "{{" not in level and level.upper() not in Severity.__members__:
                known = ", ".join(each.name.lower() for each in Severity)
                yield (
                    f"'{rule.file}':{rule.line}:1: note: {_name(rule)}: severity {level!r} counts"
                    f" as warning here; iowarden has {known}"
                )


def _of_rules(own: Sequence[RuleGroup], settings: Config) -> Iterator[str]:
    """Yield selectors of the user's rules that can never match a series."""
    found = unmatched(own, catalog(settings)) if own else []
    texts: dict[str, str] = {}
    for each in found:
        rule, place = each.rule, (each.rule.line, 1)
        with contextlib.suppress(RuleFileError):  # the file was readable when it was loaded
            text = texts.setdefault(rule.file, read_text(Path(rule.file)))
            if each.position is not None:
                place = expression_place(text, rule, each.position)
        yield f"'{rule.file}':{place[0]}:{place[1]}: note: {_name(rule)}: {each.reason}"


def _name(rule: Rule | RecordingRule) -> str:
    return rule.alert if isinstance(rule, Rule) else rule.record


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
