"""Finds names in a user's rules and overrides that were renamed, and names the new ones. Pure.

A label by a former name is no error: a matcher compares with '', a grouping drops it, a template
renders it as ''. So all places are searched: selectors, by, without, on, ignoring, group_left,
label_replace, label_join, labels and annotations with their queries.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.rules.promql.ast import Aggregation, Binary, Call, Selector, Text, children
from iowarden.rules.promql.errors import PromqlError
from iowarden.rules.promql.parser import parse
from iowarden.rules.rename_table import NameKind
from iowarden.rules.renames import NAMES, Renames, note
from iowarden.rules.rulefile.rulefile import Rule
from iowarden.rules.rulefile.unmatched_selectors import OF_ALERTS, Unmatched, selectors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from iowarden.rules.promql.ast import Node
    from iowarden.rules.rulefile.rulefile import RecordingRule, RuleGroup

_QUERY = re.compile(r'\bquery\s*\(?\s*(?:printf\s*)?(?:"((?:[^"\\]|\\.)*)"|`([^`]*)`)')
_FORMAT = re.compile(r"%[-+# 0-9.]*([a-z])")
_OWN_LABEL = re.compile(r"\$labels\.(\w+)|\$\.Labels\.(\w+)")
_QUERIED_LABEL = re.compile(r'(?<![\w$)])\.Labels\.(\w+)|\b(?:label|sortByLabel) "(\w+)"')


def renamed(groups: Iterable[RuleGroup], names: Renames = NAMES) -> list[Unmatched]:
    """Return the renamed names in rules, with the new ones; each once a rule and place."""
    if not names:
        return []
    return [
        Unmatched(rule, position, reason)
        for group in groups
        for rule in group.rules
        for position, reason in dict.fromkeys(_of_rule(rule, names))
    ]


def _of_rule(rule: Rule | RecordingRule, names: Renames) -> Iterator[tuple[int | None, str]]:
    node = parse(rule.expression.text)
    yield from in_expression(node, names)
    if not isinstance(rule, Rule):
        return
    metrics = _metrics(node, names)
    for label, template in rule.labels:
        for text in names.used(label, "=", template.text, names.alert(rule.alert)):
            yield None, f"labels: {text}"
    for key, template in (*rule.labels, *rule.annotations):
        found = _in_template(template.text, metrics, names)
        if key == "evidence":
            words = template.text.replace(",", " ").split()
            found = (each for word in words for each in _in_metric(word, names))
        for text in found:
            yield None, f"{key}: {text}"


def renamed_in(expression: str, names: Renames = NAMES) -> list[str]:
    """Return the notes about an expression. Errors: ParseError of PromQL."""
    return list(dict.fromkeys(text for _, text in in_expression(parse(expression), names)))


def in_expression(node: Node, names: Renames) -> Iterator[tuple[int, str]]:
    """Yield position and note for each renamed name in an expression."""
    for selector in selectors(node):
        for text in _in_selector(selector, names):
            yield selector.position, text
    for each in _walk(node):
        labels: Iterable[str] = ()
        match each:
            case Aggregation():
                labels = each.labels
            case Binary():
                labels = (*sorted(each.matching.labels), *each.matching.include)
            case Call(function="label_replace" | "label_join"):
                texts = [one.value for one in each.arguments if isinstance(one, Text)]
                labels = texts[2:3] if each.function == "label_replace" else texts[2:]
        for text in _in_labels(labels, _metrics(each, names), names):
            yield each.position, text


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in children(node):
        yield from _walk(child)


def _metrics(node: Node, names: Renames) -> tuple[str, ...]:
    """Return the metrics that are selected, by their new names."""
    return tuple({names.current(NameKind.METRIC, each.name): None for each in selectors(node)})


def _in_metric(name: str, names: Renames) -> Iterator[str]:
    if (new := names.selector(name)) != name:
        yield note(NameKind.METRIC, name, new)


def _in_selector(selector: Selector, names: Renames) -> Iterator[str]:
    yield from _in_metric(selector.name, names)
    of = names.current(NameKind.METRIC, selector.name)
    if of in OF_ALERTS:
        exact = (m.value for m in selector.matchers if (m.label, m.operator) == ("alertname", "="))
        of = names.alert(next(exact, ""))
    for each in selector.matchers:
        yield from names.used(each.label, each.operator, each.value, of)


def _in_labels(labels: Iterable[str], metrics: Collection[str], names: Renames) -> Iterator[str]:
    for label in labels:
        new = {names.current(NameKind.LABEL, label, of) for of in (*metrics, "")} - {label}
        for each in sorted(new):
            yield note(NameKind.LABEL, label, each)


def _in_template(text: str, metrics: Collection[str], names: Renames) -> Iterator[str]:
    """Yield the notes for a template; `metrics` are those of the rule's expression.

    Limits: what is composed while it is rendered is not found.
    """
    queried: dict[str, None] = {}
    for quoted, raw in _QUERY.findall(text):
        query = _FORMAT.sub(
            lambda m: '"x"' if m[1] == "q" else "1", quoted.replace('\\"', '"') or raw
        )
        try:
            node = parse(query)
        except PromqlError:
            continue  # A part of a query that printf composes: the loader checks constant ones.
        yield from (each for _, each in in_expression(node, names))
        queried |= dict.fromkeys(_metrics(node, names))
    for pattern, of in ((_OWN_LABEL, metrics), (_QUERIED_LABEL, [*queried, *metrics])):
        labels = ("".join(found) for found in pattern.findall(text))
        yield from _in_labels(dict.fromkeys(labels), of, names)
