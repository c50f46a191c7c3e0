"""Measurements of a mail: each value once, in words, with its threshold, course and first value.

Pure.
"""

from __future__ import annotations

import re
from dataclasses import field, replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.printable import name as safe_name
from iowarden.collectors.quantity import quantity
from iowarden.rules.notice import Evidence, Measurement
from iowarden.rules.notices.metric_titles import (
    NO_COURSE_THRESHOLD,
    REASONS,
    REDUNDANT,
    THRESHOLDS,
    title,
    value_text,
    yes_or_no,
)
from iowarden.rules.promql.ast import Binary, Node, Number, Selector, children
from iowarden.rules.promql.errors import PromqlError
from iowarden.rules.promql.parser import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from iowarden.collectors.model import Labels, Sample
    from iowarden.rules.notice import Course
    from iowarden.rules.severity import Severity

MAX_SAMPLES = 240
"""Samples that a mail's measurements are made of, when many disks fail together."""
MEASURED = "measured"
"""Source of a value that was measured when an alert began, and no longer is."""
MAX_LISTED = 6
"""Devices that one line lists by name; the others are counted."""
_METRIC = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+", re.ASCII)
_NOT_SHOWN = frozenset({"object", "used_by", "fstype", "name", "id", "against", "severity"})
"""Labels that repeat another label, the summary or the mail's object."""
_PLAIN = frozenset(
    """
    array attribute battery controller counted device directory disk kind member mountpoint path
    slot state vendor_state
    """.split()
)
"""Labels whose value needs no name before it."""
_IN_TEXT = {
    ("operation", "read"): "reads",
    ("operation", "write"): "writes",
    ("operation", "all"): "",
    ("window", "10s"): "over 10 s",
    ("window", "5m"): "over 5 min",
}
"""Labels in words; nothing where the title includes it."""
_ORDERS = {">": ">", ">=": ">", "<": "<", "<=": "<"}


_NOTHING_AT_ZERO = frozenset({"iowarden_freeze_seconds", "iowarden_freeze_victims"})
"""Lower bounds: where programs are blocked in another call at each poll, 0 means nothing."""
NONE_NOW = "none now"
"""Such a value, of what was more when its alert began."""


@dataclass(frozen=True, slots=True)
class RuleThreshold:
    """A number that a rule compares a metric with.

    `is_above`: it fires above it, else below. `is_alternative`: it is in one of several criteria
    (`or`), and may not be why the alert fires.
    """

    number: float
    is_above: bool
    is_alternative: bool = False

    def concerns(self, value: float) -> bool:
        """Whether an alert about this value can be due to the threshold."""
        if not self.is_alternative:
            return True
        return value >= self.number if self.is_above else value <= self.number


@dataclass(frozen=True, slots=True)
class Measured:
    """The present samples behind the alerts of a mail, with their thresholds and courses."""

    samples: Sequence[Sample] = ()
    last: Callable[[str], Iterable[Sample]] = lambda _: ()
    """The newest samples of a metric."""
    numbers: Mapping[str, RuleThreshold] = field(default_factory=dict)
    """Thresholds that the alerts' own rules have as numbers, by metric."""
    course: Callable[[Sample, float | None], Course | None] = lambda *_: None
    """The last 15 minutes of a sample's series, with its threshold."""


NOTHING = Measured()


def labelled(labels: Iterable[tuple[str, str]]) -> str:
    """Return labels as the beginning of a stored line of evidence."""
    found = [f"{key} {safe_name(value)}" for key, value in labels]
    return f"{', '.join(found)}: " if found else ""


def stored(samples: Iterable[Sample], realtime_seconds: float) -> tuple[Evidence, ...]:
    """Return a line for each sample, as an incident's member stores it."""
    return tuple(
        Evidence(realtime_seconds, metric, labelled(labels) + quantity(metric, value))
        for metric, labels, value in samples
    )


def is_metric(line: Evidence) -> bool:
    """Whether a line is a sample, from `stored`."""
    return _METRIC.fullmatch(line.source) is not None


@cache
def numbers(expression: str) -> Mapping[str, RuleThreshold]:
    """Return the numbers that an expression compares metrics with, without 0 and ambiguous ones.

    What `unless` excludes is no threshold.
    """
    found: dict[str, set[RuleThreshold]] = {}

    def walk(node: Node, *, is_alternative: bool = False) -> None:
        match node:
            case Binary(operator=operator, left=Selector(name=name), right=Number(value=value)):
                if operator in _ORDERS and name:
                    above = _ORDERS[operator] == ">"
                    found.setdefault(name, set()).add(RuleThreshold(value, above, is_alternative))
            case Binary(operator="or", left=left, right=right):
                walk(left, is_alternative=True)
                walk(right, is_alternative=True)
            case Binary(operator="unless", left=left):
                walk(left, is_alternative=is_alternative)
            case _:
                for child in children(node):
                    walk(child, is_alternative=is_alternative)

    try:
        walk(parse(expression))
    except PromqlError:  # it was loaded, so it is right; a rule of a newer grammar has none
        return {}
    single = {name: min(these, key=lambda one: one.number) for name, these in found.items()}
    return {name: one for name, one in single.items() if len(found[name]) == 1 and one.number}


@dataclass(frozen=True, slots=True)
class _Item:
    """One sample in words."""

    metric: str
    about: tuple[str, ...]
    value: str
    limit: str
    sample: Sample
    threshold: float | None
    before: Evidence | None


def measurements(
    measured: Measured,
    begun: Sequence[Evidence],
    object_: str,
    severity: Severity,
    realtime_seconds: float,
) -> tuple[list[Measurement], list[Evidence]]:
    """Return the measurements, and of `begun` the lines that are no samples.

    `begun`: what was stored when the alerts began; `object_` is the mail's, its name is not
    repeated. Of a value that was another one when its alert began, both are given; of one that
    several devices share, the devices are listed.
    """
    samples = list(dict.fromkeys(measured.samples))[:MAX_SAMPLES]
    newest: dict[str, list[Sample]] = {}
    limits = {sample: _limit(sample, measured, severity, newest) for sample in samples}
    thresholds = {limit[0] for limit in limits.values() if limit is not None}
    first: dict[tuple[str, str], Evidence] = {}
    """By metric and labels the value when its alert began."""
    others: list[Evidence] = []
    for line in begun:
        if not is_metric(line):
            others.append(line)
            continue
        prefix, _, rest = line.text.rpartition(": ")
        first.setdefault((line.source, prefix), replace(line, text=rest))
    words = [word.strip("(),") for word in object_.split()]
    names = {*words, *(" ".join(pair) for pair in pairwise(words))}
    items = []
    for sample in samples:
        metric, labels, value = sample
        before = first.pop((metric, labelled(labels).removesuffix(": ")), None)
        # A state that is a label: the present one; numbers by state: those above 0.
        is_absent_state = "state" in dict(labels) and not value
        is_nothing = _is_nothing(metric, value) and _began_with_nothing(metric, before)
        is_said = sample in thresholds or metric in REDUNDANT
        if not (is_said or is_absent_state or is_nothing):
            items.append(_item(sample, limits[sample], before, names))
    lines = [_line(group, measured, realtime_seconds) for group in _grouped(items)]
    present = {sample[0] for sample in samples}
    others += [
        Evidence(
            line.realtime_seconds,
            MEASURED,
            f"{title(metric)}{_gone(prefix, names)}: {yes_or_no(metric, line.text)}",
        )
        for (metric, prefix), line in first.items()
        if metric not in present
        and metric not in REDUNDANT
        and not _is_threshold(metric)
        and not (metric in _NOTHING_AT_ZERO and _began_with_nothing(metric, line))
    ]
    return lines, others


def _is_nothing(metric: str, value: float) -> bool:
    return metric in _NOTHING_AT_ZERO and not value


def _began_with_nothing(metric: str, before: Evidence | None) -> bool:
    """Whether a value was 0 when its alert began, or is not known."""
    return before is None or before.text == quantity(metric, 0.0)


def _item(
    sample: Sample,
    limit: tuple[Sample | None, str, float | None] | None,
    before: Evidence | None,
    names: set[str],
) -> _Item:
    """Return a sample in words; `before` is its value when the alert began."""
    metric, labels, value = sample
    own_labels = dict(labels)
    text, without = value_text(metric, value), set[str]()
    if _is_nothing(metric, value):
        text = NONE_NOW
    if "state" in own_labels and metric.endswith("_state"):
        text, without = own_labels["state"], {"state"}
    if text == "yes" and (reasons := [label for label in REASONS if label in own_labels]):
        text, without = safe_name(own_labels[reasons[0]]), {reasons[0]}
    if before is not None:
        is_left_out = before.text in {text, quantity(metric, value)}
        is_left_out |= metric in _NOTHING_AT_ZERO and _began_with_nothing(metric, before)
        before = None if is_left_out else replace(before, text=yes_or_no(metric, before.text))
    about = _about(labels, names, without=without)
    _, limit_text, threshold = limit or (None, "", None)
    return _Item(metric, about, text, limit_text, sample, threshold, before)


def _is_threshold(metric: str) -> bool:
    return any(metric == limit for limit, _ in THRESHOLDS.values())


def _gone(prefix: str, names: set[str]) -> str:
    pairs = (part.partition(" ") for part in prefix.split(", "))
    found = _about([(key, value) for key, _, value in pairs if value], names, without=set())
    return "".join(f", {text}" for text in found)


def _limit(
    sample: Sample, measured: Measured, severity: Severity, newest: dict[str, list[Sample]]
) -> tuple[Sample | None, str, float | None] | None:
    """Return the sample of a sample's threshold, the threshold in words, and its value."""
    metric, labels, _ = sample
    named = THRESHOLDS.get(metric)
    if named is not None:
        if named[0] not in newest:
            newest[named[0]] = list(measured.last(named[0]))
        for other in newest[named[0]]:
            if _belongs(other[1], dict(labels), severity):
                value = None if metric in NO_COURSE_THRESHOLD else other[2]
                text = named[1].format(value_text(named[0], other[2])) if other[2] else ""
                return other, text, value
    own = measured.numbers.get(metric)
    if own is None or not own.concerns(sample[2]):
        return None
    if own.number == 1 and not metric.endswith("_ratio"):
        return None
    return None, f", threshold {value_text(metric, own.number)}", own.number


def _belongs(labels: Labels, own: Mapping[str, str], severity: Severity) -> bool:
    return all(
        own.get(key, value) == value if key != "severity" else value == severity.name.lower()
        for key, value in labels
    )


def _about(
    labels: Iterable[tuple[str, str]], names: set[str], *, without: set[str]
) -> tuple[str, ...]:
    own = dict(labels)
    if "mountpoint" in own:
        own.pop("device", None)
    number = own.get("id", "")
    shown = []
    for key, value in own.items():
        # 'state, md0: faulty' would be about the array: a member is always named.
        is_repeated = value in names and key != "member"
        if key in _NOT_SHOWN or key in without or is_repeated or not value:
            continue
        text = safe_name(value) if key in _PLAIN else f"{key} {safe_name(value)}"
        text = _IN_TEXT.get((key, value), text)
        shown.append(f"{number} {text}" if key == "attribute" and number else text)
    return tuple(filter(None, shown))


def _grouped(items: Sequence[_Item]) -> list[list[_Item]]:
    """Return the items by values, now and before: several devices with the same ones are a line."""
    found: dict[tuple[object, ...], list[_Item]] = {}
    for item in items:
        before = item.before and (item.before.text, item.before.realtime_seconds)
        found.setdefault((item.metric, item.value, item.limit, before), []).append(item)
    return list(found.values())


def _line(group: Sequence[_Item], measured: Measured, realtime_seconds: float) -> Measurement:
    item = group[0]
    common = [text for text in item.about if all(text in each.about for each in group)]
    about = "".join(f", {text}" for text in common)
    others = (" ".join(text for text in each.about if text not in common) for each in group)
    names = [each for each in dict.fromkeys(others) if each]
    left = len(names) - MAX_LISTED
    listed = ", ".join(names[:MAX_LISTED]) + (f" and {left} more" if left > 0 else "")
    alone = len(group) == 1
    return Measurement(
        realtime_seconds,
        item.metric,
        f"{title(item.metric)}{about}: {item.value}{item.limit}" + f" ({listed})" * bool(listed),
        item.before,
        measured.course(item.sample, item.threshold) if alone else None,
    )
