"""Finds selectors that can never match a series on this host, because of a typo for example. Pure.

Prometheus cannot check this; here all possible names are known.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iowarden.rules.promql.ast import Selector, children
from iowarden.rules.promql.parser import parse
from iowarden.rules.promql.regex import compile_anchored
from iowarden.rules.rulefile.rulefile import RecordingRule, Rule, RuleGroup
from iowarden.rules.scrape_labels import UP, exporter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from iowarden.collectors.model import Labels
    from iowarden.rules.promql.ast import LabelMatcher, Node

OF_ALERTS = frozenset({"ALERTS", "ALERTS_FOR_STATE"})
_TARGET_LABELS = ("instance", "job")


@dataclass(frozen=True, slots=True)
class Catalog:
    """What can exist: names, name prefixes of other exporters, and labels of their `targets`."""

    names: frozenset[str]
    prefixes: tuple[str, ...]
    targets: Mapping[str, Labels]


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A selector that matches nothing: its offset in the rule's expression, and the reason.

    `position` is None for a name elsewhere in the rule.
    """

    rule: Rule | RecordingRule
    position: int | None
    reason: str


def unmatched(groups: Iterable[RuleGroup], known: Catalog) -> list[Unmatched]:
    """Return the selectors by name that can never match a series."""
    rules = [rule for group in groups for rule in group.rules]
    records = {rule.record for rule in rules if isinstance(rule, RecordingRule)}
    return [
        Unmatched(rule, selector.position, reason)
        for rule in rules
        if any(_doubtful(name, known, records) for name in rule.expression.names)
        or any(label in rule.expression.text for label in _TARGET_LABELS)
        for selector in selectors(parse(rule.expression.text))
        if (reason := _reason(selector, known, records))
    ]


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
    if not name or name in records or name in OF_ALERTS:
        return ""
    if _doubtful(name, known, records):
        close = difflib.get_close_matches(name, known.names | records, 1, 0.8)
        hint = (
            f"did you mean {close[0]!r}?"
            if close
            else "all names: packaging/doc/metrics.md, in /usr/share/doc/iowarden"
        )
        return f"there is no metric '{name}', so this never matches; {hint}"
    asked = [one for one in selector.matchers if one.label in _TARGET_LABELS]
    of = known.targets.values() if name == UP else (known.targets.get(exporter(name), ()),)
    if any(all(_fits(one, dict(own)) for one in asked) for own in of):
        return ""
    there = sorted({f'{label}="{text}"' for own in of for label, text in own})
    hint = (
        f"here they have {', '.join(there)}; write that, or set 'targets' in the configuration"
        if there
        else "these series have neither 'job' nor 'instance'; leave them out"
    )
    shown = ", ".join(f'{one.label}{one.operator}"{one.value}"' for one in asked)
    return f"'{name}' never has {shown}, so this never matches; {hint}"


def _fits(matcher: LabelMatcher, labels: Mapping[str, str]) -> bool:
    text = labels.get(matcher.label, "")
    match matcher.operator:
        case "=":
            return text == matcher.value
        case "!=":
            return text != matcher.value
    return compile_anchored(matcher.value).matches(text) is (matcher.operator == "=~")
