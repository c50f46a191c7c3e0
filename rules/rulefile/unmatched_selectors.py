"""Finds selectors that can never match a series on this host, because of a typo for example. Pure.

Prometheus cannot check this; here all possible names are known.
"""

from __future__ import annotations

import difflib
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.packages import documentation
from iowarden.rules.promql.ast import (
    Aggregation,
    Binary,
    Call,
    Negation,
    Number,
    Selector,
    Subquery,
    Text,
    children,
)
from iowarden.rules.promql.parser import parse
from iowarden.rules.promql.regex import compile_anchored
from iowarden.rules.promql.signatures import METRIC_NAME, SET_OPERATORS, matches_empty, result_type
from iowarden.rules.rulefile.rulefile import RecordingRule, Rule, RuleGroup
from iowarden.rules.scrape_labels import UP, exporter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from iowarden.collectors.model import Labels
    from iowarden.rules.promql.ast import LabelMatcher, Node

OF_ALERTS = frozenset({"ALERTS", "ALERTS_FOR_STATE"})
_TARGET_LABELS = ("instance", "job")
_ABSENT = frozenset({"absent", "absent_over_time"})
_RELABELLING = frozenset({"label_replace", "label_join", *_ABSENT})


@dataclass(frozen=True, slots=True)
class Catalog:
    """What can exist: names, name prefixes of other exporters, and labels of their `targets`."""

    names: frozenset[str]
    prefixes: tuple[str, ...]
    targets: Mapping[str, Labels]
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Labels of the series of a metric, by its name; in brackets those that only some have."""


class _Labels(NamedTuple):
    """Labels that the elements of a vector can have, and those that all have."""

    possible: frozenset[str]
    certain: frozenset[str]


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A selector that matches nothing: its offset in the rule's expression, and the reason.

    `position` is None for a name elsewhere in the rule.
    """

    rule: Rule | RecordingRule
    position: int | None
    reason: str


def unmatched(groups: Iterable[RuleGroup], known: Catalog) -> list[Unmatched]:
    """Return the selectors, and the operators between vectors, that can never match a series."""
    rules = [rule for group in groups for rule in group.rules]
    records = {rule.record for rule in rules if isinstance(rule, RecordingRule)}
    return [
        Unmatched(rule, position, reason)
        for rule in rules
        for position, reason in _found(parse(rule.expression.text), known, records)
    ]


def unmatched_in(
    expression: str, groups: Iterable[RuleGroup], known: Catalog
) -> Iterator[tuple[int, str]]:
    """Yield where an expression can never match, and why; it may select what `groups` record."""
    rules = (rule for group in groups for rule in group.rules)
    records = {rule.record for rule in rules if isinstance(rule, RecordingRule)}
    yield from _found(parse(expression), known, records)


def _found(
    node: Node, known: Catalog, records: set[str], *, absent: bool = False
) -> Iterator[tuple[int, str]]:
    """Yield where an expression can never match, and why; `absent`: within absent()."""
    if isinstance(node, Selector) and (reason := _reason(node, known, records)):
        if absent:
            reason = reason.replace("so this never matches", "so absent() is always true")
        yield node.position, reason
    if isinstance(node, Binary) and (reason := _unjoined(node, known)):
        yield node.position, reason
    if isinstance(node, Call):
        absent = node.function in _ABSENT
    for child in children(node):
        yield from _found(child, known, records, absent=absent)


def selectors(node: Node) -> Iterator[Selector]:
    """Yield the selectors of an expression."""
    if isinstance(node, Selector):
        yield node
    for child in children(node):
        yield from selectors(child)


def _doubtful(name: str, known: Catalog, records: set[str]) -> bool:
    there = name in known.names or name in records or name in OF_ALERTS or name == UP
    return not there and not name.startswith(known.prefixes)


def _reason(selector: Selector, known: Catalog, records: set[str]) -> str:
    name = selector.name
    if not name:
        return _unnamed(selector, known, records)
    if name in records or name in OF_ALERTS:
        return ""
    if _doubtful(name, known, records):
        close = difflib.get_close_matches(name, known.names | records, 1, 0.8)
        every = f"all names: {documentation()}/metrics.md"
        hint = f"did you mean {close[0]!r}?" if close else every
        return f"there is no metric '{name}', so this never matches; {hint}"
    asked = [one for one in selector.matchers if one.label in _TARGET_LABELS]
    of = known.targets.values() if name == UP else (known.targets.get(exporter(name), ()),)
    if any(all(fits(one, dict(own)) for one in asked) for own in of):
        return _without_label(selector, known)
    there = sorted({f'{label}="{text}"' for own in of for label, text in own})
    hint = (
        f"here they have {', '.join(there)}; write that, or set 'targets' in the configuration"
        if there
        else "these series have neither 'job' nor 'instance'; leave them out"
    )
    shown = ", ".join(f'{one.label}{one.operator}"{one.value}"' for one in asked)
    return f"'{name}' never has {shown}, so this never matches; {hint}"


def _without_label(selector: Selector, known: Catalog) -> str:
    """Return which label a selector wants that its metric does not have, or ''."""
    labels = known.labels.get(selector.name)
    if labels is None:
        return ""
    there = {each.strip("[]") for each in labels}
    for one in selector.matchers:
        if one.label not in there and one.label not in _TARGET_LABELS and not matches_empty(one):
            listed = ", ".join(sorted(there)) or "none"
            return (
                f"'{selector.name}' has no label '{one.label}', so this never matches; its labels:"
                f" {listed}"
            )
    return ""


def _unnamed(selector: Selector, known: Catalog, records: set[str]) -> str:
    """Return why no name matches a selector like '{__name__=~"..."}', or ''."""
    names = [one for one in selector.matchers if one.label == METRIC_NAME]
    # Names with such a prefix are not all known.
    if not names or any(exporter(p) in one.value for one in names for p in known.prefixes):
        return ""
    there = known.names | records | OF_ALERTS | {UP}
    if any(all(fits(one, {METRIC_NAME: name}) for one in names) for name in there):
        return ""
    shown = ", ".join(f'{one.label}{one.operator}"{one.value}"' for one in names)
    return f"no metric has {shown}, so this never matches; all names: {documentation()}/metrics.md"


def _unjoined(node: Binary, known: Catalog) -> str:
    """Return which label of 'on' one side of an operator never has and the other always, or ''."""
    if not node.matching.on or node.operator == "or":
        return ""
    left, right = _labels(node.left, known), _labels(node.right, known)
    if left is None or right is None:
        return ""
    for label in sorted(node.matching.labels - {METRIC_NAME}):
        for side, own, other in (("left", left, right), ("right", right, left)):
            if label not in own.possible and label in other.certain:
                return (
                    f"the {side} side of '{node.operator}' has no label '{label}', so 'on' never"
                    f" matches; its labels: {', '.join(sorted(own.possible)) or 'none'}"
                )
    return ""


def _labels(node: Node, known: Catalog) -> _Labels | None:
    """Return the labels of a vector as far as they are known."""
    match node:
        case Selector():
            own = known.labels.get(node.name)
            if own is None:
                return None
            certain = frozenset(each for each in own if each.isidentifier())
            return _Labels(frozenset(each.strip("[]") for each in own), certain)
        case Subquery():
            return _labels(node.expression, known)
        case Negation():
            return _labels(node.operand, known)
        case Aggregation():
            return _aggregated(node, _labels(node.expression, known))
        case Call():
            vectors = [a for a in node.arguments if not isinstance(a, Number | Text)]
            if node.function in _RELABELLING or len(vectors) != 1:
                return None
            return _labels(vectors[0], known)
        case Binary():
            return _joined(node, known)
    return None


def _aggregated(node: Aggregation, inner: _Labels | None) -> _Labels | None:
    if inner is None or node.operator == "count_values":
        return None
    if node.operator in {"topk", "bottomk"}:
        return inner
    named = frozenset(node.labels)
    if node.without:
        return _Labels(inner.possible - named, inner.certain - named)
    return _Labels(inner.possible & named, inner.certain & named)


def _joined(node: Binary, known: Catalog) -> _Labels | None:
    left, right = _labels(node.left, known), _labels(node.right, known)
    if result_type(node.right) == "scalar" or node.operator in {"and", "unless"}:
        return left
    if result_type(node.left) == "scalar":
        return right
    if left is None or right is None or node.operator in SET_OPERATORS or node.matching.many:
        return None  # 'or', and labels that group_left copies
    named = node.matching.labels
    if node.matching.on:
        return _Labels(left.possible & named, left.certain & named)
    return _Labels(left.possible - named, left.certain - named)


def fits(matcher: LabelMatcher, labels: Mapping[str, str]) -> bool:
    """Whether labels match; one that is missing counts as empty."""
    text = labels.get(matcher.label, "")
    match matcher.operator:
        case "=":
            return text == matcher.value
        case "!=":
            return text != matcher.value
    return compile_anchored(matcher.value).matches(text) is (matcher.operator == "=~")
