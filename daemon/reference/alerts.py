"""Reference of the alerts: every shipped rule, and every class of event that can raise an alert."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.packages import DOCUMENTATION
from iowarden.collectors.quantity import duration
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_events, load_shipped
from iowarden.daemon.reference.markdown import code, literal, literals, page, table
from iowarden.rules.manual import manual
from iowarden.rules.rulefile.overrides import severity
from iowarden.rules.rulefile.rulefile import SHIPPED, RecordingRule, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from iowarden.rules.events.event_table import EventRule
    from iowarden.rules.manual.manual import Manual
    from iowarden.rules.rulefile.rulefile import RuleGroup

_INTRODUCTION = """\
Each alert of the shipped rules: its condition ([conditions](conditions.md) defines how that is
computed and its limits), severity, meaning, what to do, expression and thresholds. The texts are
those of a mail about an example object: disk sda of the array md0, a logical volume on it, a
multipath map, a RAID controller; in a mail they are about the real one. `iowarden explain ALERT`
shows the same with the thresholds, the state and the values of the host it runs on.

Critical alerts, and those for which programs are blocked, are mailed at once; warnings after 60 s,
together with others; notice and info are listed in the weekly digest and never mailed alone
([when mails come](events-and-incidents.md#when-mails-come)).
"For" is how long the expression must hold before the alert fires, "keep firing for" how long it
fires after that; "not if" are limits by which it does not fire. "Change" is a line below
`overrides:` of the configuration, which as it is here changes nothing; the lines after "or" have
its other numbers ([change a shipped rule](rules.md#change-a-shipped-rule)). `iowarden rules list`
shows the rules and the classes of events that are in force on a host."""
_EVENTS = """\
An event is a line of the kernel's log, an entry of a RAID controller's log or a change of an md
array. It opens an incident without a rule; its class is the name of the alert. Classes without a
severity are not recorded and raise no alert. What to do is that about an example object.

The severity of all events of a class is changed below `overrides:` of the configuration:
`ata_link_down: {severity: notice}`; `ata_link_down: {enabled: false}` switches its alerts off."""
_INDEX = f"""\
One line for each alert: its severities, and its summary as the subject of a mail about an example
object shows it. `iowarden explain ALERT` explains one, with the thresholds and values of this host
and what to do; `{DOCUMENTATION}/alerts.md` has all of them, `conditions.md`
their limits. `iowarden rules list` shows the rules and the classes of events that are in force on
a host, `iowarden incident show ID` what to do about an incident."""
_INDEX_EVENTS = """\
An event is a line of the kernel's log, an entry of a RAID controller's log or a change of an md
array. It opens an incident without a rule. Some controllers send a severity of their own."""
_RECORDED = "Other rules use these; they are on `iowarden query`, not on `/metrics`."


def text() -> str:
    """Return the page."""
    groups = load_shipped(parse_config("", "defaults"))
    rules = [rule for group in groups for rule in group.rules if isinstance(rule, Rule)]
    records = [rule for group in groups for rule in group.rules if isinstance(rule, RecordingRule)]
    return page(
        "Alerts",
        _INTRODUCTION,
        "## All alerts",
        _index(rules),
        *_files(groups),
        "## Recorded series",
        _RECORDED,
        *(part for rule in records for part in (literal(rule.record), code(rule.expression.text))),
        "## Alerts from events",
        _EVENTS,
        *_events(),
    )


def index() -> str:
    """Return the man page's body: one line for each alert, of a rule or of an event."""
    lines: dict[str, tuple[list[str], str]] = {}
    groups = load_shipped(parse_config("", "defaults"))
    recorded = manual.recorded_series(groups)
    for group in groups:
        for rule in group.rules:
            if isinstance(rule, Rule):
                own = manual.of_rule(group, rule, recorded)
                severities, _ = lines.setdefault(rule.alert, ([], own.summary))
                severities.append(own.severity)
    events = {
        row.kind: ([row.severity.name.lower()], manual.of_event(row).summary)
        for row in load_events().rows.values()
        if row.severity is not None
    }
    return page(
        "Alerts",
        _INDEX,
        "## Alerts of rules",
        _lines(lines),
        "## Alerts from events",
        _INDEX_EVENTS,
        _lines(events),
    )


def _lines(lines: Mapping[str, tuple[list[str], str]]) -> str:
    """Return a table: name; severities and one sentence."""
    return table(
        ("alert", "meaning"),
        (
            (literal(name), f"{', '.join(dict.fromkeys(severities))}: {sentence}")
            for name, (severities, sentence) in sorted(lines.items())
        ),
    )


def condition(word: str) -> str:
    """Return a condition as a link to its definition."""
    return f"[`{word}`](conditions.md#{word.lower()})" if word else ""


def _index(rules: Iterable[Rule]) -> str:
    by_name: dict[str, list[Rule]] = {}
    for rule in rules:
        by_name.setdefault(rule.alert, []).append(rule)
    return table(
        ("alert", "severity", "condition"),
        (
            (
                f"[`{name}`](#{name.lower()})",
                ", ".join(dict.fromkeys(map(severity, found))),
                condition(_label(found[0], "condition")),
            )
            for name, found in sorted(by_name.items())
        ),
    )


def _files(groups: Sequence[RuleGroup]) -> Iterator[str]:
    recorded = manual.recorded_series(groups)
    by_file: dict[str, dict[str, list[tuple[RuleGroup, Rule]]]] = {}
    for group in groups:
        for rule in group.rules:
            if isinstance(rule, Rule):
                names = by_file.setdefault(group.file.removeprefix(SHIPPED), {})
                names.setdefault(rule.alert, []).append((group, rule))
    for file, names in by_file.items():
        yield f"## `rules/{file}`"
        for name, rules in names.items():
            yield f"### `{name}`"
            yield from _alert([manual.of_rule(group, rule, recorded) for group, rule in rules])


def _alert(found: list[Manual]) -> Iterator[str]:
    """Yield an alert: each severity, then the texts that they share once."""
    for each in found:
        yield f"**{each.severity}**, condition {condition(each.condition)}: {each.summary}"
    for text, words in _shared((each.description, each.severity) for each in found):
        only = "" if len(words) == len(found) else f"{', '.join(words)}: ".capitalize()
        yield f"{only}{text}"
    for place, (severities, text) in enumerate(manual.shared_advice(found)):
        only = f" ({', '.join(severities)})" if severities else " in each case" if place else ""
        yield f"What to do{only}:"
        yield code(text)
    for each in found:
        yield f"{_facts(each)[0].upper()}{_facts(each)[1:]}"
        yield code(each.expression)


def _shared(texts: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Return each text with the severities that have it."""
    of: dict[str, list[str]] = {}
    for text, level in texts:
        if text:
            of.setdefault(text, []).append(level)
    return list(of.items())


def _facts(each: Manual) -> str:
    interval = f"evaluated every {duration(each.interval_seconds)}" if each.interval_seconds else ""
    facts = [
        f"for {duration(each.for_seconds)}" if each.for_seconds else "",
        f"keep firing for {duration(each.keep_firing_for_seconds)}"
        if each.keep_firing_for_seconds
        else "",
        interval,
        f"threshold {literals(each.thresholds)}" if each.thresholds else "",
        f"not if {literals(each.exceptions)}" if each.exceptions else "",
        f"change: {literal(each.override)}",
        f"or {literals(each.other_overrides)}" if each.other_overrides else "",
        f"source: {each.source}",
    ]
    return f"{each.severity}: {'; '.join(filter(None, facts)).rstrip('.')}."


def _events() -> Iterator[str]:
    by_condition: dict[str, list[EventRule]] = {}
    for row in load_events().rows.values():
        by_condition.setdefault(row.condition, []).append(row)
    for word, rows in sorted(by_condition.items()):
        yield f"### Condition `{word}`" if word else "### No condition"
        if word:
            yield f"Defined in {condition(word)}."
        yield table(
            ("class", "severity", "meaning"),
            ((literal(row.kind), manual.of_event(row).severity, row.meaning) for row in rows),
        )
        manuals = map(manual.of_event, rows)
        for advice, kinds in _shared((each.advice, literal(each.alert)) for each in manuals):
            yield f"What to do ({', '.join(kinds)}):"
            yield code(advice)
        yield f"Sources: {'; '.join(dict.fromkeys(row.source for row in rows if row.source))}."


def _label(rule: Rule, name: str) -> str:
    return next((template.text for own, template in rule.labels if own == name), "")
