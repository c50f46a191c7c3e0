"""The manual of an alert: made of its rule, or of its row in the table of events. Pure.

There is no other description of an alert: the texts are the annotations of the rule, rendered for
an example object, and the facts are what the rule declares.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.quantity import duration
from iowarden.collectors.zfs.pool_state import POOL
from iowarden.rules.advice import advice
from iowarden.rules.advice.step import AdviceSubject, StepContext
from iowarden.rules.manual.example import MODEL, SERIAL, Example
from iowarden.rules.manual.example_machine import ExampleFault, facts
from iowarden.rules.promql.format import quoted
from iowarden.rules.promql.parser import parse
from iowarden.rules.rulefile.overrides import (
    adjustable,
    comparisons,
    exceptions,
    expression_override,
    has_other_numbers,
    severity,
)
from iowarden.rules.rulefile.rulefile import RecordingRule, Rule
from iowarden.rules.rulefile.unmatched_selectors import selectors
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from iowarden.rules.events.event_table import EventRule
    from iowarden.rules.rulefile.rulefile import RuleGroup

NO_SEVERITY = "none"
_SURVIVES = "iowarden_redundancy_survives_disks"
_NO_STEP = "Nothing, for this alone: it is listed in the weekly digest and never mailed alone."
"""What to do about an alert below warning whose rule has no advice."""
_OF_DRIVE = "iowarden_smart_"
_BOUND = re.compile(r"\b(?:and|or|unless)\b")
"""Operators of sets: an expression with one is more than a comparison."""
_OF_ARRAY = (Severity.NOTICE, "raid_array")
_FAULTS = (
    ("rescan", ExampleFault.DISK_REMOVED),
    ("take_back", ExampleFault.MEMBER_FAULTY),
)
"""The fault of the example machine that a step of advice is about; the first one counts."""
_WORST_FIRST = tuple(each.name.lower() for each in sorted(Severity, reverse=True))


@dataclass(frozen=True, slots=True)
class Manual:
    """One rule, or one class of events. '' and () are what it does not have.

    Units: seconds. Of several rules of one alert each has its own severity.
    """

    alert: str
    severity: str
    """Of an event it may be 'none', or a sentence."""
    condition: str
    summary: str
    """As the subject of a mail, about an example object."""
    description: str = ""
    advice: str = ""
    """What to do: sentences, and commands indented by two."""
    unknown: str = ""
    """What is not determined when it fires."""
    expression: str = ""
    recorded: tuple[tuple[str, str], ...] = ()
    """Series in it that other rules record, with their expressions."""
    thresholds: tuple[str, ...] = ()
    """Comparisons with a number or another metric, also of what it is recorded from: 'M > 80 %'."""
    exceptions: tuple[str, ...] = ()
    """Such comparisons by which it does not fire."""
    adjustable: tuple[tuple[str, str], ...] = ()
    """Metrics whose threshold the configuration can change, with its number now."""
    series: tuple[str, ...] = ()
    """Selectors of the series that it compares: what to query for their values here."""
    for_seconds: float = 0.0
    keep_firing_for_seconds: float = 0.0
    interval_seconds: float | None = None
    overridden: tuple[str, ...] = ()
    """What the configuration changed: 'threshold', 'severity' ..."""
    event_severity: str = ""
    """Of an event: a severity for an override of it; empty: a rule."""
    source: str = ""
    place: str = ""
    """File and line of the rule."""

    @property
    def override(self) -> str:
        """Return a line below 'overrides' of the configuration, which changes nothing yet.

        That of an event sets the severity that most of its kind have.
        """
        if self.event_severity:
            return f"{self.alert}: {{severity: {self.event_severity}}}"
        keys = [f"for: {self.for_seconds:g}s", f"severity: {self.severity}"]
        if metric := self._main_metric:
            keys.insert(0, f"threshold: {{{metric}: {dict(self.adjustable)[metric]}}}")
        return f"{self._name}: {{{', '.join(keys)}}}"

    @property
    def model_override(self) -> str:
        """Return a line, which changes nothing yet, with a limit of its own for one disk model.

        Its second number is that of the model. '' if the rule is not one comparison of a drive's
        series with a number: only these have the label 'disk' of the series with the model.
        """
        metric, expression = self._main_metric, " ".join(self.expression.split())
        if not metric.startswith(_OF_DRIVE) or _BOUND.search(expression):
            return ""
        model = f'on (instance, job, disk) iowarden_disk_info{{model="{MODEL}"}}'
        either = f"{expression} unless {model} or {expression} and {model}"
        return f"{self._name}: {expression_override(either)}"

    @property
    def _name(self) -> str:
        return f"{self.alert}/{self.severity}"

    @property
    def other_overrides(self) -> tuple[str, ...]:
        """Return lines, which change nothing yet, for all numbers that `override` has not.

        Each is a threshold by its metric, or, where no metric names a number, the expression. Those
        of a recorded series change every alert on it.
        """
        if not self.expression:
            return ()
        others = [pair for pair in self.adjustable if pair[0] != self._main_metric]
        lines = [*_number_lines(self._name, others, self.expression)]
        for series, expression in self.recorded:
            lines += _number_lines(series, adjustable(expression), expression)
        return tuple(lines)

    @property
    def _main_metric(self) -> str:
        """Return the first metric by whose limit it fires and 'threshold' can change; or ''."""
        limits = f" {' '.join(self.thresholds)} "
        return next((metric for metric, _ in self.adjustable if f" {metric} " in limits), "")


def _number_lines(
    name: str, thresholds: Iterable[tuple[str, str]], expression: str
) -> Iterator[str]:
    """Yield overrides of a rule with the numbers that it has now: by metric, then all others."""
    if numbers := ", ".join(f"{metric}: {number}" for metric, number in thresholds):
        yield f"{name}: {{threshold: {{{numbers}}}}}"
    if has_other_numbers(expression):
        yield f"{name}: {expression_override(expression)}"


def of_rules(groups: Iterable[RuleGroup], alert: str) -> list[Manual]:
    """Return the rules of an alert, the most severe first; [] if there is none."""
    known = list(groups)
    series = recorded_series(known)
    found = [
        of_rule(group, rule, series)
        for group in known
        for rule in group.rules
        if isinstance(rule, Rule) and rule.alert == alert
    ]
    return sorted(found, key=lambda each: _rank(each.severity))


def shared_advice(manuals: Iterable[Manual]) -> list[tuple[tuple[str, ...], str]]:
    """Return what to do, in order, with the severities of each part; (): of all of them.

    Severities often differ in a step or two: what they begin and end with alike is there once.
    """
    severities: dict[str, list[str]] = {}
    for each in manuals:
        if each.advice:
            severities.setdefault(each.advice, []).append(each.severity)
    texts = [_blocks(text) for text in severities]
    begin = _alike(texts)
    rest = [text[len(begin) :] for text in texts]
    end = _alike([text[::-1] for text in rest])[::-1]
    parts: list[tuple[tuple[str, ...], list[str]]] = [((), begin)]
    for text, names in zip(rest, severities.values(), strict=True):
        parts.append((tuple(names), text[: len(text) - len(end)]))
    return [(names, "\n".join(blocks)) for names, blocks in (*parts, ((), end)) if blocks]


def _blocks(advice: str) -> list[str]:
    """Return the steps of an advice: a sentence with the commands after it."""
    blocks: list[str] = []
    for line in advice.splitlines():
        if blocks and line.startswith(" "):
            blocks[-1] += f"\n{line}"
        else:
            blocks.append(line)
    return blocks


def _alike(texts: Sequence[Sequence[str]]) -> list[str]:
    """Return what all of these begin with."""
    begin = []
    for blocks in zip(*texts, strict=False):
        if len(set(blocks)) > 1:
            break
        begin.append(blocks[0])
    return begin


def recorded_series(groups: Iterable[RuleGroup]) -> dict[str, str]:
    """Return the expressions of the recording rules, by the names of their series."""
    return {
        rule.record: rule.expression.text.strip()
        for group in groups
        for rule in group.rules
        if isinstance(rule, RecordingRule)
    }


def of_rule(group: RuleGroup, rule: Rule, recorded: Mapping[str, str]) -> Manual:
    """Return the manual of a rule; `recorded` are the expressions of series by name."""
    example = Example(rule)
    texts = example.annotations
    own = _recorded(rule.expression.text, recorded)
    expressions = (rule.expression.text, *own.values())
    return Manual(
        alert=rule.alert,
        severity=severity(rule) or example.labels.get("severity", ""),
        condition=example.labels.get("condition", ""),
        summary=_one_line(texts.get("summary", "")),
        description=_one_line(texts.get("description", "")),
        advice=_advice(
            texts.get("advice", ""),
            texts.get(advice.STEPS, ""),
            example.subject,
            is_redundant=_SURVIVES in rule.expression.names and not example.is_absent(_SURVIVES),
        )
        or (_NO_STEP if _is_below_warning(example.labels.get("severity", "")) else ""),
        unknown=_one_line(texts.get("unknown", "")),
        expression=rule.expression.text.strip(),
        recorded=tuple(own.items()),
        thresholds=tuple(dict.fromkeys(x for each in expressions for x in comparisons(each))),
        exceptions=tuple(dict.fromkeys(x for each in expressions for x in exceptions(each))),
        adjustable=tuple(adjustable(rule.expression.text)),
        series=tuple(dict.fromkeys(x for each in expressions for x in _series(each))),
        for_seconds=rule.for_seconds,
        keep_firing_for_seconds=rule.keep_firing_for_seconds,
        interval_seconds=group.interval_seconds,
        overridden=rule.overridden,
        source=_one_line(texts.get("source", "")),
        place=f"{rule.file}:{rule.line}",
    )


def of_event(row: EventRule) -> Manual:
    """Return the manual of a class of events. One that is never mailed alone needs no advice.

    Its row has the advice of its group, which is about the faults in it. A notice about an array is
    one of these: what it leaves, less redundancy or a used spare, has to be mended.
    """
    storm = None if row.storm is None else row.storm.severity
    severities = [each for each in (row.severity, storm, row.severity_here) if each is not None]
    is_mailed = max(severities, default=Severity.INFO) >= Severity.WARNING
    is_advised = is_mailed or (max(severities, default=None), row.condition) == _OF_ARRAY
    example = {"device": "sda", "disk": SERIAL}
    return Manual(
        alert=row.kind,
        severity=_severity_of(row),
        overridden=("severity",) if row.severity_here is not None else (),
        event_severity=next(
            (each.name.lower() for each in (row.severity_here, row.severity) if each is not None),
            Severity.INFO.name.lower(),
        ),
        condition=row.condition,
        summary=_one_line(row.meaning),
        description=_one_line(row.effect),
        advice=_advice(row.advice, "", example) if is_advised else "",
        source=_one_line(row.source),
        place=f"{row.file}:{row.line}",
    )


def _recorded(expression: str, known: Mapping[str, str]) -> dict[str, str]:
    """Return the recorded series of an expression, and those of their expressions in turn."""
    found: dict[str, str] = {}
    expressions = [expression]
    for text in expressions:
        for name in dict.fromkeys(each.name for each in selectors(parse(text))):
            if name in known and name not in found:
                found[name] = known[name]
                expressions.append(known[name])
    return found


def _series(expression: str) -> tuple[str, ...]:
    """Return its instant selectors, each once, as PromQL."""
    found: dict[str, None] = {}
    for selector in selectors(parse(expression)):
        matchers = ",".join(f"{m.label}{m.operator}{quoted(m.value)}" for m in selector.matchers)
        found[f"{selector.name}{{{matchers}}}" if matchers else selector.name] = None
    return tuple(found)


def _advice(text: str, steps: str, labels: Mapping[str, str], *, is_redundant: bool = False) -> str:
    """Return what to do about the example object; `is_redundant`: it survives another failure."""
    step = step_context(steps, labels, is_redundant=is_redundant)
    return advice.filled(advice.with_steps(text, steps), step.about, step.facts)


def step_context(
    steps: str, labels: Mapping[str, str], *, is_redundant: bool = False
) -> StepContext:
    """Return what the steps of advice about an object of the example machine get."""
    pool = labels.get("pool", "")
    about = AdviceSubject(labels, f"{POOL}{pool}" if pool else "")
    fault = next((f for step, f in _FAULTS if step in steps.split()), ExampleFault.NONE)
    if fault is ExampleFault.MEMBER_FAULTY and is_redundant:
        fault = ExampleFault.MEMBER_OF_THREE_FAULTY
    return StepContext(facts(fault), about)


def _severity_of(row: EventRule) -> str:
    """Return the severities that alerts of a class may have, and when."""
    if row.severity_here is not None:
        return row.severity_here.name.lower()
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


def _is_below_warning(word: str) -> bool:
    known = Severity.__members__.get(word.upper())
    return known is not None and known < Severity.WARNING


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _rank(word: str) -> int:
    return _WORST_FIRST.index(word) if word in _WORST_FIRST else len(_WORST_FIRST)
