"""Reference of the alerts: every shipped rule, and every class of event that can raise an alert."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_events, load_shipped
from iowarden.daemon.reference.markdown import code, literal, literals, page, table
from iowarden.rules.rulefile.overrides import severity, thresholds
from iowarden.rules.rulefile.rulefile import SHIPPED, RecordingRule, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from iowarden.rules.events.event_table import EventRule
    from iowarden.rules.rulefile.rulefile import RuleGroup

_INTRODUCTION = """\
Each alert of the shipped rules: its condition ([conditions](conditions.md) defines how that is
computed and its limits), severity, meaning, expression and threshold. In the texts `...`
stands for a value, and `<device>` for a label's value, that iowarden fills in.

Critical alerts, and those for which programs are blocked, are mailed at once; warnings after 60 s,
together with others; notice and info are listed in the weekly digest and never mailed alone
([when mails come](events-and-incidents.md#when-mails-come)).
"For" is how long the expression must hold before the alert fires, "keep firing" how long it fires
after that. A [change of a threshold](rules.md#change-a-shipped-rule) names the alert as `NAME` or
`NAME/SEVERITY`. `iowarden rules list` shows the rules that are in force on a host."""
_EVENTS = """\
An event is a line of the kernel's log, an entry of a RAID controller's log or a change of an md
array. It opens an incident without a rule; its class is the name of the alert. Classes without a
severity are recorded and raise no alert."""
_INDEX = """\
One line for each alert: its severities, and its summary as the subject of a mail shows it.
`<device>` stands for a label's value, `...` for another one. Expressions, meanings, thresholds,
conditions and their limits are in `/usr/share/doc/iowarden/packaging/doc/alerts.md` and
`conditions.md`. `iowarden rules list` shows the rules that are in force on a host, `iowarden
incident show ID` what to do."""
_INDEX_EVENTS = """\
An event is a line of the kernel's log, an entry of a RAID controller's log or a change of an md
array. It opens an incident without a rule. Some controllers send a severity of their own."""
_SENTENCE = re.compile(r"(?<=[^.]\.) ")
_RECORDED = "Other rules use these; they are on `iowarden query`, not on `/metrics`."
_UNITS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
_OUTPUT = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
_LABEL = re.compile(r"\$labels\.(\w+)|\.Labels\.(\w+)")
_EQUALITY = re.compile(r" [=!]= ")
_OPENING = frozenset(("if", "with", "range"))


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
    for group in load_shipped(parse_config("", "defaults")):
        for rule in group.rules:
            if isinstance(rule, Rule):
                severities, _ = lines.setdefault(rule.alert, ([], _summary(rule)))
                severities.append(severity(rule))
    events = {
        row.kind: ([row.severity.name.lower()], _SENTENCE.split(row.meaning)[0])
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


def _summary(rule: Rule) -> str:
    """Return what the subject of a mail about a rule's alert has, with labels as '<label>'."""
    return filled(dict(rule.annotations)["summary"].text)


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


def _files(groups: Iterable[RuleGroup]) -> Iterator[str]:
    by_file: dict[str, dict[str, list[tuple[RuleGroup, Rule]]]] = {}
    for group in groups:
        for rule in group.rules:
            if isinstance(rule, Rule):
                names = by_file.setdefault(group.file.removeprefix(SHIPPED), {})
                names.setdefault(rule.alert, []).append((group, rule))
    for file, names in by_file.items():
        yield f"## `rules/{file}`"
        for name, found in names.items():
            yield f"### `{name}`"
            for group, rule in found:
                yield from _rule(group, rule)


def _rule(group: RuleGroup, rule: Rule) -> Iterator[str]:
    annotations = {name: template.text for name, template in rule.annotations}
    yield f"**{severity(rule)}**, condition {condition(_label(rule, 'condition'))}: " + filled(
        annotations["summary"]
    )
    if "description" in annotations:
        yield filled(annotations["description"])
    yield code(rule.expression.text)
    interval = f"evaluated every {span(group.interval_seconds)}" if group.interval_seconds else ""
    facts = [
        f"for {span(rule.for_seconds)}" if rule.for_seconds else "",
        f"keep firing {span(rule.keep_firing_for_seconds)}" if rule.keep_firing_for_seconds else "",
        interval,
        f"threshold {literals(found)}" if (found := _thresholds(rule)) else "",
        f"source: {annotations['source']}",
    ]
    sentence = "; ".join(filter(None, facts))
    yield f"{sentence[0].upper()}{sentence[1:].rstrip('.')}."


def _thresholds(rule: Rule) -> list[str]:
    """Return the limits of a rule that a person may want to move: no comparison with a state."""
    return [each for each in thresholds(rule.expression.text) if not _EQUALITY.search(each)]


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
            ((literal(row.kind), _severity_of(row), row.meaning) for row in rows),
        )
        yield f"Sources: {'; '.join(dict.fromkeys(row.source for row in rows if row.source))}."


def _severity_of(row: EventRule) -> str:
    if row.severity is None:
        return "none"
    own = row.severity.name.lower()
    if row.sent:
        own += ", or as the controller sends it"
    if row.storm is not None:
        higher = row.storm.severity.name.lower()
        own += f"; {higher} from {row.storm.count} in {span(row.storm.window_seconds)}"
        own += ", but not at a boot of the host" if row.storm.except_boot else ""
    return own


def _label(rule: Rule, name: str) -> str:
    return next((template.text for own, template in rule.labels if own == name), "")


def span(seconds: float) -> str:
    """Return a time as rule files write it: '90s', '1h30m'."""
    parts, rest = [], round(seconds)
    for unit, length in _UNITS:
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or f"{seconds:g}s"


def filled(template: str) -> str:
    """Return an annotation for readers: a label as '<label>', any other output as '...'.

    Of a condition its first branch is shown, of a loop one turn.
    """
    parts: list[str] = []
    hidden = 0
    stack: list[bool] = []
    for number, piece in enumerate(_OUTPUT.split(template)):
        if number % 2 == 0:
            if not hidden:
                parts.append(piece)
            continue
        word = piece.split(maxsplit=1)[0] if piece else ""
        if word in _OPENING:
            stack.append(False)
        elif word == "else":
            if not stack[-1]:
                stack[-1] = True
                hidden += 1
        elif word == "end":
            hidden -= stack.pop()
        elif not hidden and ":=" not in piece and not piece.startswith("/*"):
            found = _LABEL.search(piece)
            parts.append(f"`<{found[1] or found[2]}>`" if found else "...")
    return " ".join("".join(parts).split())
