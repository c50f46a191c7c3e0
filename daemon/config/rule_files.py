"""Loads rules: the shipped files with the user's overrides, and the user's own files.

Limits: `MAX_RULE_FILE_BYTES` per rule file, `MAX_RULES` in all files together: these take
75 MB of memory, and twice as much during a reload.
"""

from __future__ import annotations

import contextlib
import importlib.resources
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors import registry
from iowarden.daemon import metrics
from iowarden.daemon.metric_labels import LABELS
from iowarden.rules.engine import engine
from iowarden.rules.events.event_table import parse_events_file
from iowarden.rules.promql.history import max_samples
from iowarden.rules.promql.store import MAX_SAMPLES
from iowarden.rules.quantity import duration, size
from iowarden.rules.rulefile.overrides import apply, severity
from iowarden.rules.rulefile.rulefile import (
    MAX_RULES,
    SHIPPED,
    Rule,
    RuleGroup,
    expression_place,
    parse_rule_file,
)
from iowarden.rules.rulefile.unmatched_selectors import Catalog, unmatched
from iowarden.rules.signals import table as signals
from iowarden.rules.topology import device_changes
from iowarden.rules.yaml_nodes import RuleFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iowarden.daemon.config.schema import Config
    from iowarden.rules.events.event_table import EventTable

RULE_SUFFIXES = (".yaml", ".yml")
EVENTS = "events.yaml"
"""The shipped table of events."""
MAX_RULE_FILE_BYTES = 1024 * 1024
"""Parsed YAML needs a hundred times as much memory, and the unit is limited to 512 MB."""
MAX_NOTES = 50
LONG_RANGE_SECONDS, MAX_ESTIMATES = 3600.0, 10
SAMPLE_BYTES = 16
SHIPPED_INTERVALS_SECONDS: Mapping[str, float] = {
    **dict.fromkeys(("device", "memory", "writeback", "zfs_pools"), 1.0),
    **dict.fromkeys(("iowarden", "md", "queue", "zfs_devices", "device_mapper"), 5.0),
    **dict.fromkeys(("competing_monitors", "controllers", "disks", "filesystem"), 15.0),
    **dict.fromkeys(("memory_settings", "monitoring", "smart"), 15.0),
    "backups": 60.0,
}
"""How often a shipped group is evaluated, by its name; the others every `evaluation_interval`.

Not in the rule files: a Prometheus would evaluate the rules of its whole fleet every second.
"""


def load_events() -> EventTable:
    """Return the shipped table of events. Errors: RuleFileError."""
    entry = importlib.resources.files("iowarden.rules.events") / EVENTS
    return parse_events_file(entry.read_text(encoding="utf-8"), SHIPPED + EVENTS)


class RefusedRules(NamedTuple):
    """A rule file of the user, or the directory of them, that is not loaded, and why.

    Each problem names file, line and column.
    """

    path: str
    problems: tuple[str, ...]


class LoadedRules(NamedTuple):
    """The rules to evaluate, and what is not among them."""

    groups: list[RuleGroup]
    refused: tuple[RefusedRules, ...] = ()


def load_rules(settings: Config, shipped: Sequence[RuleGroup] | None = None) -> list[RuleGroup]:
    """Return the shipped and the user's rule groups. `shipped`: those already read, or None.

    Errors: RuleFileError with all problems, each with file, line and column. A missing directory is
    no error, an unreadable file in it is.
    """
    groups = [*(shipped_rules(settings) if shipped is None else shipped)]
    problems: list[str] = []
    try:
        groups = apply(groups, settings.overrides)
    except RuleFileError as error:
        problems += error.errors
    own = _own(settings.rules_directory, groups)
    problems += (problem for refused in own.refused for problem in refused.problems)
    if problems:
        raise RuleFileError(problems)
    return groups + own.groups


def load_for_service(settings: Config, before: Iterable[RuleGroup] = ()) -> LoadedRules:
    """Return the rules with which the service can run: one bad file must not stop the watchdog.

    A rule file of the user with a problem is refused as a whole. If `before`, the rules in force,
    has rules of that file, these stay: an alert of theirs does not end by a typing error.
    Errors: RuleFileError for overrides, which are part of the configuration.
    """
    shipped = apply(shipped_rules(settings), settings.overrides)
    own = _own(settings.rules_directory, shipped)
    kept = [
        group
        for group in before
        if any(Path(group.file).is_relative_to(refused.path) for refused in own.refused)
    ]
    return LoadedRules(shipped + own.groups + kept, own.refused)


def shipped_rules(settings: Config) -> list[RuleGroup]:
    """Return the rules of iowarden as they are shipped; none if `settings` switches them off."""
    if not settings.shipped_rules:
        return []
    found = importlib.resources.files("iowarden.rules")
    return [
        replace(group, interval_seconds=SHIPPED_INTERVALS_SECONDS.get(group.name))
        for entry in sorted(found.iterdir(), key=lambda e: e.name)
        if entry.name.endswith(RULE_SUFFIXES)
        for group in parse_rule_file(entry.read_text(encoding="utf-8"), SHIPPED + entry.name)
    ]


def _own(directory: str, shipped: Sequence[RuleGroup]) -> LoadedRules:
    """Return the user's rules, those with the name of a shipped one refused."""
    try:
        paths = _in_directory(directory)
    except RuleFileError as error:
        return LoadedRules([], (RefusedRules(directory, tuple(error.errors)),))
    return _parsed(paths, shipped)


def _parsed(paths: Iterable[Path], shipped: Sequence[RuleGroup]) -> LoadedRules:
    groups: list[RuleGroup] = []
    refused: list[RefusedRules] = []
    for path in paths:
        try:
            found = parse_rule_file(read_text(path), str(path))
            problems = _taken(shipped, found)
        except RuleFileError as error:
            found, problems = (), list(error.errors)
        if sum(len(group.rules) for group in (*groups, *found)) > MAX_RULES:
            problems.append(
                f"'{path}': expected at most {MAX_RULES} rules in all files, got more;"
                " remove some, or load rules about several hosts in Prometheus"
            )
        if problems:
            refused.append(RefusedRules(str(path), tuple(problems)))
        else:
            groups += found
    return LoadedRules(groups, tuple(refused))


def load_shipped(settings: Config) -> list[RuleGroup]:
    """Return the shipped rules without the user's overrides and rules."""
    alone = replace(settings, shipped_rules=True, rules_directory="/nonexistent", overrides=())
    return load_rules(alone)


def _taken(shipped: Iterable[RuleGroup], own: Iterable[RuleGroup]) -> list[str]:
    """Return the user's alerts with the name and severity of a shipped one, as problems.

    After a restart a stored alert is assigned to the rule by name and severity: both must differ.
    """
    known = {(rule.alert, severity(rule)): rule for rule in _alerting(shipped)}
    names = {name: rule for (name, _), rule in known.items()}
    problems = []
    for rule in _alerting(own):
        level = severity(rule)
        same = known.get((rule.alert, level)) or ("{{" in level and names.get(rule.alert))
        if same:
            place = f"{rule.alert}/{severity(same)}"
            problems.append(
                f"'{rule.file}':{rule.line}: expected a name other than that of the"
                f" alert '{place}' in {same.file}:{same.line}; rename yours, change the shipped one"
                f" under 'overrides', or disable it there: '{place}: {{enabled: false}}'"
            )
    return problems


def _alerting(groups: Iterable[RuleGroup]) -> list[Rule]:
    return [rule for group in groups for rule in group.rules if isinstance(rule, Rule)]


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


def load_files(paths: Iterable[Path]) -> list[RuleGroup]:
    """Return the groups of some rule files. Errors: RuleFileError with all problems."""
    found = _parsed(paths, ())
    if found.refused:
        raise RuleFileError([problem for refused in found.refused for problem in refused.problems])
    return found.groups


def read_text(path: Path) -> str:
    """Return the text of a file with rules, or tests of rules. Errors: RuleFileError."""
    if path.exists() and not path.is_file():  # reading a pipe could block for ever
        message = (
            f"'{path}': expected a file, got something else; name a file, or move this elsewhere"
        )
        raise RuleFileError((message,))
    try:
        if (size_bytes := path.stat().st_size) > MAX_RULE_FILE_BYTES:
            message = (
                f"'{path}': expected at most {MAX_RULE_FILE_BYTES} bytes, got {size_bytes};"
                " is it a rule file? split or remove it"
            )
            raise RuleFileError((message,))
        return path.read_text(encoding="utf-8")
    except OSError as error:
        message = f"'{path}': cannot read this rule file: {error.strerror}"
        raise RuleFileError((message,)) from error
    except UnicodeDecodeError as error:
        message = f"'{path}': expected a rule file in UTF-8, got '{error}'; fix or remove it"
        raise RuleFileError((message,)) from error


def _in_directory(directory: str) -> list[Path]:
    try:
        found = sorted(Path(directory).iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        message = (
            f"'{directory}': expected a directory that can be read, got '{error.strerror}';"
            " fix it or change 'rules_directory'"
        )
        raise RuleFileError((message,)) from error
    return [path for path in found if path.name.endswith(RULE_SUFFIXES)]
