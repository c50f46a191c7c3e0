"""The manual of an alert: made of its rule, or of its row in the table of events. Pure.

There is no other description of an alert: the texts are the annotations of the rule, rendered for
an example object, and the facts are what the rule declares.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.quantity import duration
from iowarden.rules.advice import advice
from iowarden.rules.advice.step import AdviceSubject
from iowarden.rules.manual.example import SERIAL, Example
from iowarden.rules.manual.example_machine import facts
from iowarden.rules.promql.format import quoted
from iowarden.rules.promql.parser import parse
from iowarden.rules.rulefile.overrides import adjustable, comparisons, severity
from iowarden.rules.rulefile.rulefile import Rule
from iowarden.rules.rulefile.unmatched_selectors import selectors
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.rules.events.event_table import EventRule
    from iowarden.rules.rulefile.rulefile import RuleGroup

NO_SEVERITY = "none"
_WORST_FIRST = tuple(each.name.lower() for each in sorted(Severity, reverse=True))


@dataclass(frozen=True, slots=True)
class Manual:
    """One rule, or one class of events. '' and () are what it does not have.

    Units: seconds. Of several rules of one alert each has its own severity.
    """

    alert: str
    severity: str
    """Of an event it may be 'none'."""
    condition: str
    summary: str
    """As the subject of a mail, about an example object."""
    description: str = ""
    advice: str = ""
    """What to do: sentences, and commands indented by two."""
    unknown: str = ""
    """What is not determined when it fires."""
    expression: str = ""
    thresholds: tuple[str, ...] = ()
    """Its comparisons with a number or with another metric: 'METRIC > 0.8'."""
    adjustable: tuple[tuple[str, str], ...] = ()
    """Metrics whose threshold the configuration can change, with its number now."""
    series: tuple[str, ...] = ()
    """Selectors of the series that it compares: what to query for their values here."""
    for_seconds: float = 0.0
    keep_firing_for_seconds: float = 0.0
    interval_seconds: float | None = None
    overridden: tuple[str, ...] = ()
    """What the configuration changed: 'threshold', 'severity' ..."""
    source: str = ""
    place: str = ""
    """File and line of the rule."""

    @property
    def override(self) -> str:
        """Return a line below 'overrides' of the configuration, which changes nothing yet."""
        name = f"{self.alert}/{self.severity}"
        if self.adjustable:
            metric, number = self.adjustable[0]
            return f"{name}: {{threshold: {{{metric}: {number}}}}}"
        return f"{name}: {{for: {self.for_seconds:g}s}}"


def of_rules(groups: Iterable[RuleGroup], alert: str) -> list[Manual]:
    """Return the rules of an alert, the most severe first; [] if there is none."""
    found = [
        of_rule(group, rule)
        for group in groups
        for rule in group.rules
        if isinstance(rule, Rule) and rule.alert == alert
    ]
    return sorted(found, key=lambda each: _rank(each.severity))


def of_rule(group: RuleGroup, rule: Rule) -> Manual:
    """Return the manual of a rule."""
    example = Example(rule)
    texts = example.annotations
    return Manual(
        alert=rule.alert,
        severity=severity(rule) or example.labels.get("severity", ""),
        condition=example.labels.get("condition", ""),
        summary=_one_line(texts.get("summary", "")),
        description=_one_line(texts.get("description", "")),
        advice=_advice(texts.get("advice", ""), texts.get(advice.STEPS, ""), example.subject),
        unknown=_one_line(texts.get("unknown", "")),
        expression=rule.expression.text.strip(),
        thresholds=tuple(comparisons(rule.expression.text)),
        adjustable=tuple(adjustable(rule.expression.text)),
        series=_series(rule.expression.text),
        for_seconds=rule.for_seconds,
        keep_firing_for_seconds=rule.keep_firing_for_seconds,
        interval_seconds=group.interval_seconds,
        overridden=rule.overridden,
        source=_one_line(texts.get("source", "")),
        place=f"{rule.file}:{rule.line}",
    )


def of_event(row: EventRule) -> Manual:
    """Return the manual of a class of events."""
    example = {"device": "sda", "disk": SERIAL}
    return Manual(
        alert=row.kind,
        severity=_severity_of(row),
        condition=row.condition,
        summary=_one_line(row.meaning),
        description=_one_line(row.effect),
        advice=_advice(row.advice, "", example),
        source=_one_line(row.source),
        place=f"{row.file}:{row.line}",
    )


def _series(expression: str) -> tuple[str, ...]:
    """Return its instant selectors, each once, as PromQL."""
    found: dict[str, None] = {}
    for selector in selectors(parse(expression)):
        matchers = ",".join(f"{m.label}{m.operator}{quoted(m.value)}" for m in selector.matchers)
        found[f"{selector.name}{{{matchers}}}" if matchers else selector.name] = None
    return tuple(found)


def _advice(text: str, steps: str, labels: Mapping[str, str]) -> str:
    """Return what to do about the example object."""
    about = AdviceSubject(labels)
    return advice.filled(advice.with_steps(text, steps), about, _facts())


def _severity_of(row: EventRule) -> str:
    """Return the severities that events of a class may have, and when."""
    if row.severity is None:
        return NO_SEVERITY
    words = row.severity.name.lower()
    if row.sent:
        words += ", or as the controller sends it"
    if row.storm is not None:
        higher = row.storm.severity.name.lower()
        words += f"; {higher} from {row.storm.count} in {duration(row.storm.window_seconds)}"
        words += ", but not at a boot of the host" if row.storm.except_boot else ""
    return words


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _rank(word: str) -> int:
    return _WORST_FIRST.index(word) if word in _WORST_FIRST else len(_WORST_FIRST)


_facts = functools.cache(facts)
