"""Loads rules: the shipped files with the user's overrides, and the user's own files.

Limits: `MAX_RULE_FILE_BYTES` per rule file, `MAX_RULES` in all files together: these take
75 MB of memory, and twice as much during a reload.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.resources
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.near import did_you_mean
from iowarden.daemon.config.keys import KEYS
from iowarden.rules.events import event_overrides
from iowarden.rules.events.event_table import parse_events_file
from iowarden.rules.rulefile.overrides import apply, severity
from iowarden.rules.rulefile.rulefile import (
    MAX_RULES,
    SHIPPED,
    RecordingRule,
    Rule,
    RuleGroup,
    parse_rule_file,
)
from iowarden.rules.severity import Severity
from iowarden.rules.yaml_nodes import RuleFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from iowarden.daemon.config.schema import Config
    from iowarden.rules.events.event_table import EventTable
    from iowarden.rules.rulefile.overrides import Override

NO_DIRECTORY = ""
"""As `rules_directory`: no rules of the user."""
OTHER_SEVERITIES = ("none",)
"""Of rules that others ship for Prometheus (the alert Watchdog), spelled almost like ours."""
RULE_SUFFIXES = (".yaml", ".yml")
EVENTS = "events.yaml"
"""The shipped table of events."""
_DEFAULT_DIRECTORY = next(key.default for key in KEYS if key.path == "rules_directory")
_ALERT = re.compile(r"\balert: *['\"]?([A-Za-z_]\w*)")
_RECORDED = re.compile(r"\b[A-Za-z_]\w*(?::\w+)+\b")
"""The name of a series that a rule records, as Prometheus advises it: it has colons."""
MAX_RULE_FILE_BYTES = 1024 * 1024
"""Parsed YAML needs a hundred times as much memory, and the unit is limited to 512 MB."""
SHIPPED_INTERVALS_SECONDS: Mapping[str, float] = {
    **dict.fromkeys(("device", "memory", "writeback", "zfs_pools"), 1.0),
    **dict.fromkeys(("disks", "iowarden", "md", "queue", "zfs_devices"), 5.0),
    "device_mapper": 5.0,
    **dict.fromkeys(("competing_monitors", "controllers", "filesystem"), 15.0),
    **dict.fromkeys(("memory_settings", "monitoring", "smart"), 15.0),
    "backups": 60.0,
}
"""How often a shipped group is evaluated, by its name; the others every `evaluation_interval`.

Not in the rule files: a Prometheus would evaluate the rules of its whole fleet every second.
"""


def load_events(overrides: Iterable[Override] = ()) -> EventTable:
    """Return the shipped table of events, changed by the overrides of its classes.

    Overrides of rules are left out. Errors: RuleFileError.
    """
    table = _shipped_events()
    return event_overrides.apply(table, [each for each in overrides if each.rule in table.rows])


@functools.cache
def _shipped_events() -> EventTable:
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
    events: EventTable | None = None
    """The classes of events; None: not among what was loaded."""


def load_rules(settings: Config, shipped: Sequence[RuleGroup] | None = None) -> list[RuleGroup]:
    """Return the shipped and the user's rule groups. `shipped`: those already read, or None.

    Errors: RuleFileError with all problems, each with file, line and column. A missing directory is
    one if the configuration names it, an unreadable file always.
    """
    groups = [*(shipped_rules(settings) if shipped is None else shipped)]
    problems: list[str] = []
    try:
        groups, _ = _overridden(groups, settings.overrides)
    except RuleFileError as error:
        problems += error.errors
    problems += [text for text in (missing_directory(settings),) if text]
    own = _own(settings.rules_directory, groups)
    problems += (problem for refused in own.refused for problem in refused.problems)
    if problems:
        raise RuleFileError(problems)
    return groups + own.groups


def missing_directory(settings: Config) -> str:
    """Return why there are no rules of the user in the directory that is configured, or ''.

    The default one need not exist.
    """
    directory = Path(settings.rules_directory)
    if settings.rules_directory in {_DEFAULT_DIRECTORY, NO_DIRECTORY}:
        return ""
    try:
        directory.stat()
    except FileNotFoundError:
        pass
    except OSError:
        return ""  # why it cannot be read is reported with its files
    else:
        return ""
    beside: list[str] = []
    with contextlib.suppress(OSError):
        beside = [str(each) for each in directory.parent.iterdir() if each.is_dir()]
    return (
        f"'{directory}': expected the directory of 'rules_directory', got none"
        f"{did_you_mean(str(directory), beside)}; correct 'rules_directory', or create it"
    )


def load_for_service(settings: Config, before: Iterable[RuleGroup] = ()) -> LoadedRules:
    """Return the rules with which the service can run: one bad file must not stop the watchdog.

    A rule file of the user with a problem is refused as a whole. If `before`, the rules in force,
    has rules of that file, these stay: an alert of theirs does not end by a typing error.
    Errors: RuleFileError for overrides, which are part of the configuration.
    """
    shipped, events = _overridden(shipped_rules(settings), settings.overrides)
    own = _own(settings.rules_directory, shipped)
    kept = [
        group
        for group in before
        if any(Path(group.file).is_relative_to(refused.path) for refused in own.refused)
    ]
    return LoadedRules(shipped + own.groups + kept, own.refused, events)


def _overridden(
    groups: Sequence[RuleGroup], overrides: Sequence[Override]
) -> tuple[list[RuleGroup], EventTable]:
    """Return the shipped rules and the table of events as the configuration changes them.

    Errors: RuleFileError with the problems of both.
    """
    problems: list[str] = []
    events, changed = load_events(), list(groups)
    try:
        of_rules = [each for each in overrides if each.rule not in events.rows]
        changed = apply(groups, of_rules, events.rows)
    except RuleFileError as error:
        problems += error.errors
    try:
        events = event_overrides.apply(events, [o for o in overrides if o.rule in events.rows])
    except RuleFileError as error:
        problems += error.errors
    if problems:
        raise RuleFileError(problems)
    return changed, events


def load_alert(settings: Config, alert: str, *, overridden: bool = True) -> list[RuleGroup]:
    """Return the rule groups of the files that mention an alert; faster than reading all.

    With those that record series of these files. `overridden`: with the changes of the
    configuration. Errors: RuleFileError.
    """
    shipped = list(_shipped_texts(settings))
    own = [(str(path), read_text(path)) for path in _in_directory(settings.rules_directory)]
    mentioning = "\n".join(text for _, text in (*shipped, *own) if alert in text)
    records = {f"record: {name}\n" for name in _RECORDED.findall(mentioning)}

    def is_needed(text: str) -> bool:
        return alert in text or any(record in text for record in records)

    groups = [
        group for name, text in shipped if is_needed(text) for group in _as_shipped(text, name)
    ]
    changes = [each for each in settings.overrides if each.rule.partition("/")[0] == alert]
    if overridden and any(_is_of(rule, alert) for group in groups for rule in group.rules):
        groups = apply(groups, changes)
    for path, text in own:
        if is_needed(text):
            groups += parse_rule_file(text, path)
    return groups


def alert_names(settings: Config) -> list[str]:
    """Return the names of the alerts of all rule files, as far as these can be read."""
    texts = [text for _, text in _shipped_texts(settings)]
    with contextlib.suppress(RuleFileError):
        texts += map(read_text, _in_directory(settings.rules_directory))
    return list(dict.fromkeys(name for text in texts for name in _ALERT.findall(text)))


def _is_of(rule: Rule | RecordingRule, alert: str) -> bool:
    return isinstance(rule, Rule) and rule.alert == alert


def shipped_rules(settings: Config) -> list[RuleGroup]:
    """Return the rules of iowarden as they are shipped; none if `settings` switches them off."""
    return [group for name, text in _shipped_texts(settings) for group in _as_shipped(text, name)]


def _shipped_texts(settings: Config) -> list[tuple[str, str]]:
    """Return name and text of the shipped rule files; none if they are switched off."""
    if not settings.shipped_rules:
        return []
    entries = importlib.resources.files("iowarden.rules").iterdir()
    return [
        (entry.name, entry.read_text(encoding="utf-8"))
        for entry in sorted(entries, key=lambda entry: entry.name)
        if entry.name.endswith(RULE_SUFFIXES)
    ]


def _as_shipped(text: str, name: str) -> list[RuleGroup]:
    return [
        replace(group, interval_seconds=SHIPPED_INTERVALS_SECONDS.get(group.name))
        # Tests check the templates of these files.
        for group in parse_rule_file(text, SHIPPED + name, check_templates=False)
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
            problems = [*_taken(shipped, found), *_mistyped_severities(found)]
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
    alone = replace(settings, shipped_rules=True, rules_directory=NO_DIRECTORY, overrides=())
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


def _mistyped_severities(own: Iterable[RuleGroup]) -> Iterator[str]:
    """Yield alerts whose severity is almost one of iowarden's, as problems.

    Such an alert would count as a warning. A severity that is no typing error may be another
    program's, which gets the same file.
    """
    known = [each.name.lower() for each in Severity]
    for rule in _alerting(own):
        level = severity(rule)
        meant = did_you_mean(level, known)
        if meant and level not in {*known, *OTHER_SEVERITIES} and "{{" not in level:
            yield (
                f"'{rule.file}':{rule.line}: {rule.alert}: severity: expected one of"
                f" {', '.join(known)}, got {level!r}{meant}"
            )


def _alerting(groups: Iterable[RuleGroup]) -> list[Rule]:
    return [rule for group in groups for rule in group.rules if isinstance(rule, Rule)]


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
        message = (
            f"'{path}': expected a readable rule file, got '{error.strerror}'; name another"
            " file, or correct that"
        )
        raise RuleFileError((message,)) from error
    except UnicodeDecodeError as error:
        message = (
            f"'{path}': expected a rule file in UTF-8, got other data ({error.reason} at byte"
            f" {error.start}); fix or remove it"
        )
        raise RuleFileError((message,)) from error


def _in_directory(directory: str) -> list[Path]:
    if directory == NO_DIRECTORY:
        return []
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
