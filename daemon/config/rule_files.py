"""Where rules come from: the shipped files, the user's directory, and what the user overrides.

Limits: a rule file has at most `MOST_RULE_FILE_BYTES`, all files together `MAXIMUM_RULES`: these
take 75 MB, and twice as much in a reload.
"""

from __future__ import annotations

import contextlib
import importlib.resources
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from iowarden.collectors import registry
from iowarden.daemon import metrics
from iowarden.rules.engine import engine
from iowarden.rules.events.event_table import parse_events_file
from iowarden.rules.renames import NAMES, Renames
from iowarden.rules.rulefile.overrides import apply, replaced, severity
from iowarden.rules.rulefile.rulefile import (
    MAXIMUM_RULES,
    Rule,
    RuleGroup,
    expression_place,
    parse_rule_file,
)
from iowarden.rules.rulefile.unmatched_selectors import Known, renamed, unmatched
from iowarden.rules.signals import table as signals
from iowarden.rules.topology import device_changes
from iowarden.rules.yaml_nodes import RuleFileError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.daemon.config.schema import Config
    from iowarden.rules.events.event_table import Table

RULE_SUFFIXES = (".yaml", ".yml")
EVENTS = "events.yaml"
"""The shipped table of events."""
MOST_RULE_FILE_BYTES = 1024 * 1024
"""Parsed YAML needs a hundred times as much, and the unit has 512 MB."""
MOST_NOTES = 50
SHIPPED = "shipped "
"""Before the name of a file that comes with iowarden."""


def load_events() -> Table:
    """Return the shipped table of events. Errors: RuleFileError."""
    entry = importlib.resources.files("iowarden.rules.events") / EVENTS
    return parse_events_file(entry.read_text(encoding="utf-8"), SHIPPED + EVENTS)


def load_rules(settings: Config, names: Renames = NAMES) -> list[RuleGroup]:
    """Return the shipped and the user's rule groups.

    Errors: RuleFileError with all that is wrong, naming file, line and column; the directory may be
    missing, a file in it may not.
    """
    groups: list[RuleGroup] = []
    problems: list[str] = []
    if settings.shipped_rules:
        found = importlib.resources.files("iowarden.rules")
        for entry in sorted(found.iterdir(), key=lambda e: e.name):
            if entry.name.endswith(RULE_SUFFIXES):
                groups += parse_rule_file(entry.read_text(encoding="utf-8"), SHIPPED + entry.name)
    try:
        groups = apply(groups, settings.overrides, names)
    except RuleFileError as error:
        problems += error.errors
    try:
        own = load_files(_in_directory(settings.rules_directory))
        problems += _taken(groups, own)
        groups += own
    except RuleFileError as error:
        problems += error.errors
    if problems:
        raise RuleFileError(problems)
    return groups


def load_shipped(settings: Config) -> list[RuleGroup]:
    """Return the shipped rules as they come, whatever the user has beside them."""
    alone = replace(settings, shipped_rules=True, rules_directory="/nonexistent", overrides=())
    return load_rules(alone)


def _taken(shipped: Iterable[RuleGroup], own: Iterable[RuleGroup]) -> list[str]:
    """Return what is wrong with alerts that nobody could tell from shipped ones.

    After a restart an alert is given back to the rule of its name and severity.
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
                f"'{rule.file}':{rule.line}: expected another name than that of the alert"
                f" '{place}' in {same.file}:{same.line}; rename yours, change that one under"
                f" 'overrides', or switch it off there: '{place}: {{enabled: false}}'"
            )
    return problems


def _alerting(groups: Iterable[RuleGroup]) -> list[Rule]:
    return [rule for group in groups for rule in group.rules if isinstance(rule, Rule)]


def notes(groups: Iterable[RuleGroup], settings: Config, names: Renames = NAMES) -> list[str]:
    """Return what is odd about the user's rules and overrides, though they load.

    That is what can never find a series, and words that were replaced, with the new ones.
    Limits: of many, `MOST_NOTES` have their place, and a line says how many more there are.
    """
    own = [group for group in groups if not group.file.startswith(SHIPPED)]
    old = renamed(own, names)
    told = {(id(each.rule), each.position) for each in old}
    found = old + [
        each
        for each in (unmatched(own, known(settings)) if own else ())
        if (id(each.rule), each.position) not in told
    ]
    texts: dict[str, str] = {}
    lines = [f"{place}: note: overrides: {text}" for place, text in
             replaced(settings.overrides, names)]  # fmt: skip
    for each in found[:MOST_NOTES]:
        rule, place = each.rule, (each.rule.line, 1)
        with contextlib.suppress(RuleFileError):  # it was good when it was loaded
            text = texts.setdefault(rule.file, read_text(Path(rule.file)))
            place = expression_place(text, rule, each.position)
        name = rule.alert if isinstance(rule, Rule) else rule.record
        lines.append(f"'{rule.file}':{place[0]}:{place[1]}: note: {name}: {each.reason}")
    more = len(found) - MOST_NOTES
    return [*lines, f"and {more} more such notes"] if more > 0 else lines


def known(settings: Config) -> Known:
    """Return what rules can find."""
    families = (
        *(family for source in registry.SOURCES for family in source.families),
        *(family for group in signals.GROUPS for family in group.families),
        *device_changes.FAMILIES,
        *engine.FAMILIES,
        *metrics.FAMILIES,
    )
    return Known(
        frozenset(family.name for family in families),
        tuple(prefix for source in registry.SOURCES for prefix in source.node_prefixes),
        settings.targets,
    )


def load_files(paths: Iterable[Path]) -> list[RuleGroup]:
    """Return the groups of some rule files. Errors: RuleFileError with all that is wrong."""
    groups: list[RuleGroup] = []
    problems: list[str] = []
    for path in paths:
        try:
            groups += parse_rule_file(read_text(path), str(path))
        except RuleFileError as error:
            problems += error.errors
        if sum(len(group.rules) for group in groups) > MAXIMUM_RULES:
            problems.append(
                f"'{path}': expected at most {MAXIMUM_RULES} rules in all files, got more;"
                " remove some, or load what is no host's own in a Prometheus"
            )
            break
    if problems:
        raise RuleFileError(problems)
    return groups


def read_text(path: Path) -> str:
    """Return the text of a file with rules, or tests of rules. Errors: RuleFileError."""
    if path.exists() and not path.is_file():  # a pipe would never be read to its end
        raise RuleFileError((f"'{path}': expected a file, got something else; remove it",))
    try:
        if (size_bytes := path.stat().st_size) > MOST_RULE_FILE_BYTES:
            message = (
                f"'{path}': expected at most {MOST_RULE_FILE_BYTES} bytes, got {size_bytes};"
                " is it a rule file? split or remove it"
            )
            raise RuleFileError((message,))
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = (
            f"'{path}': expected a readable rule file in UTF-8, got '{error}'; mend or remove it"
        )
        raise RuleFileError((message,)) from error


def _in_directory(directory: str) -> list[Path]:
    try:
        found = sorted(Path(directory).iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        message = (
            f"'{directory}': expected a directory that can be read, got '{error.strerror}';"
            " mend it or 'rules_directory'"
        )
        raise RuleFileError((message,)) from error
    return [path for path in found if path.name.endswith(RULE_SUFFIXES)]
