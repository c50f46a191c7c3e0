"""Overrides: changes of shipped rules in the configuration, without copying the rules. Pure.

Prometheus refuses unknown keys in rule files, so overrides are in the configuration. A rule is
named by its alert or record; 'Name/severity' selects one of several alerts of one name. What a
class of events overrides is in rules/events/event_overrides.py.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.quantity import quantity
from iowarden.rules.promql.ast import (
    Aggregation,
    Binary,
    Call,
    Negation,
    Number,
    Selector,
    children,
)
from iowarden.rules.promql.errors import PromqlError
from iowarden.rules.promql.evaluator import Expression, compile_expression
from iowarden.rules.promql.lexer import Lexer
from iowarden.rules.promql.parser import parse
from iowarden.rules.promql.signatures import COMPARISONS, SET_OPERATORS
from iowarden.rules.rulefile.implication import is_implied
from iowarden.rules.rulefile.rulefile import RecordingRule, Rule, RuleGroup
from iowarden.rules.rulefile.template import compile_template
from iowarden.rules.rulefile.unmatched_selectors import selectors
from iowarden.rules.yaml_nodes import RuleFileError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from iowarden.rules.promql.ast import Node

AnyRule = Rule | RecordingRule
_SAME_UNIT = frozenset({"avg", "max", "min", "sum", "last", "quantile", "increase", "abs"})
"""Functions and aggregations whose value has the unit of their argument."""
_RATIO, _NO_RATIO, _PERCENT = "_ratio", 2, 100
_STATES = frozenset({"==", "!="})
"""Comparisons with a state, which is no limit that a person may want to move."""
_MENTION = re.compile(r'(alertname="([^"]*)",\s*severity=")([^"]*)')
"""A reference of a shipped rule to another rule's alerts."""


@dataclass(frozen=True, slots=True)
class Override:
    """The changes of one rule; None: unchanged."""

    rule: str
    place: str
    """File and line, for messages."""
    enabled: bool | None = None
    severity: str | None = None
    for_seconds: float | None = None
    keep_firing_for_seconds: float | None = None
    expression: str | None = None
    thresholds: tuple[tuple[str, float], ...] = ()
    """By metric; '' is the comparison whose result is the alert's value."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the changed fields, by their names in the configuration."""
        changed = {
            "enabled": self.enabled is False,
            "severity": self.severity is not None,
            "for": self.for_seconds is not None,
            "keep_firing_for": self.keep_firing_for_seconds is not None,
            "expr": self.expression is not None,
            "threshold": bool(self.thresholds),
        }
        return tuple(key for key, is_changed in changed.items() if is_changed)


class _OverrideError(Exception):
    """An override that cannot be applied."""


def refusal(override: Override, reason: object) -> str:
    """Return why an override cannot be applied, with its place in the file."""
    return f"{override.place}: overrides: {override.rule}: {reason}"


def apply(
    groups: Sequence[RuleGroup], overrides: Sequence[Override], kinds: Collection[str] = ()
) -> list[RuleGroup]:
    """Return the groups with their rules changed, without rules that are disabled.

    `kinds` are classes of events: a mistyped name may mean one of them.
    Errors: RuleFileError with all errors.
    """
    rules: list[AnyRule | None] = [rule for group in groups for rule in group.rules]
    names = [(_name(rule), _full_name(rule)) for group in groups for rule in group.rules]
    problems: list[tuple[int, str]] = []
    disabled: set[int] = set()
    # An override of one of several rules of a name is applied after one of all of them.
    for number, override in sorted(enumerate(overrides), key=lambda one: "/" in one[1].rule):
        try:
            for index in _chosen(override, names, kinds):
                if override.enabled is False:
                    disabled.add(index)
                    continue
                if override.enabled:
                    disabled.discard(index)
                if (rule := rules[index]) is not None:
                    rules[index] = _changed(rule, override)
        except (_OverrideError, PromqlError) as error:
            problems.append((number, refusal(override, error)))
    for index in disabled:
        rules[index] = None
    # Only what all overrides leave counts: another one may rename or disable the other alert.
    problems += [
        (number, refusal(override, taken))
        for number, override in enumerate(overrides)
        if override.severity is not None and (taken := _taken(override, rules, names))
    ]
    if problems:
        raise RuleFileError(text for _, text in sorted(problems))
    before = [rule for group in groups for rule in group.rules]
    severities = {
        (_name(old), severity(old)): severity(new)
        for old, new in zip(before, rules, strict=True)
        if new is not None and severity(new) != severity(old)
    }
    left = iter([None if rule is None else _following(rule, severities) for rule in rules])
    return [
        replace(group, rules=tuple(r for _ in group.rules if (r := next(left)) is not None))
        for group in groups
    ]


def _name(rule: AnyRule) -> str:
    return rule.alert if isinstance(rule, Rule) else rule.record


def severity(rule: AnyRule) -> str:
    """Return the severity of a rule's alerts, or '' if it comes from their series."""
    labels = rule.labels if isinstance(rule, Rule) else ()
    return next((text.text for name, text in labels if name == "severity"), "")


def _full_name(rule: AnyRule) -> str:
    return f"{_name(rule)}/{severity(rule)}"


def _chosen(
    override: Override, names: Sequence[tuple[str, str]], kinds: Collection[str]
) -> list[int]:
    """Return the indices of the rules that an override selects."""
    chosen = [index for index, known in enumerate(names) if override.rule in known]
    if not chosen:
        full_names = {name for pair in names for name in pair if not name.endswith("/")}
        known = sorted(full_names.union(kinds))
        close = difflib.get_close_matches(override.rule, known, 3, 0.6)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "see 'rules list'"
        if not names:
            hint = "none is loaded, because 'shipped_rules' is false"
        raise _OverrideError(
            f"expected the name of a shipped rule or of a class of"
            f" events, got {override.rule!r}; {hint}"
        )
    particular = {"severity", "expr", "threshold"} & set(override.keys)
    if len(chosen) > 1 and particular and override.enabled is not False:
        raise _OverrideError(
            f"{len(chosen)} rules have this name and {_listed(sorted(particular))} applies to"
            f" one only; name it: {' or '.join(repr(names[index][1]) for index in chosen)}"
        )
    return chosen


def _changed(rule: AnyRule, override: Override) -> AnyRule:
    expression = _expression(rule.expression, override)
    changed = tuple(dict.fromkeys((*rule.overridden, *override.keys)))
    if isinstance(rule, RecordingRule):
        if wrong := sorted({"severity", "for", "keep_firing_for"} & set(override.keys)):
            raise _OverrideError(f"a recording rule has no {_listed(wrong)}; remove it")
        return replace(rule, expression=expression, overridden=changed)
    labels = rule.labels
    if override.severity is not None:
        own = ("severity", compile_template(override.severity))
        labels = (*(pair for pair in labels if pair[0] != "severity"), own)
    waits = (override.for_seconds, override.keep_firing_for_seconds)
    return replace(
        rule,
        expression=expression,
        labels=labels,
        for_seconds=rule.for_seconds if waits[0] is None else waits[0],
        keep_firing_for_seconds=rule.keep_firing_for_seconds if waits[1] is None else waits[1],
        overridden=changed,
    )


def _following(rule: AnyRule, severities: Mapping[tuple[str, str], str]) -> AnyRule:
    """Return a rule that counts another's firings, with the current severity of that one."""

    def follow(text: str) -> str:
        return _MENTION.sub(
            lambda found: found[1] + severities.get((found[2], found[3]), found[3]), text
        )

    if not severities or not isinstance(rule, Rule):
        return rule
    expression = rule.expression
    if follow(expression.text) != expression.text:
        expression = compile_expression(follow(expression.text))
    annotations = tuple(
        (name, replace(one, text=follow(one.text))) for name, one in rule.annotations
    )
    return replace(rule, expression=expression, annotations=annotations)


def _taken(
    override: Override, rules: Sequence[AnyRule | None], names: Sequence[tuple[str, str]]
) -> str:
    """Return why an alert has not the severity of an override: another one of its name has it.

    Their alerts could not be distinguished. '' if none has it.
    """
    for index, rule in enumerate(rules):
        if not isinstance(rule, Rule) or override.rule not in names[index]:
            continue
        for place, other in enumerate(rules):
            if place == index or not isinstance(other, Rule):
                continue
            if _full_name(other) == _full_name(rule):
                cure = _superfluous((names[index][1], rule), names[place][1], other)
                return (
                    f"the alert '{names[place][1]}' has severity {severity(rule)!r} as well; set"
                    f" another severity{cure}"
                )
    return ""


def _superfluous(changed: tuple[str, Rule], name: str, other: Rule) -> str:
    """Return which of two alerts can be disabled instead: one that the other covers; or ''."""
    own, rule = changed
    if is_implied(other, rule):
        return f", or write, as '{name}' covers it, '{own}: {{enabled: false}}' instead"
    if is_implied(rule, other):
        return f", or disable that one, as this one covers it: '{name}: {{enabled: false}}'"
    return "; both must stay, as they fire in different cases"


def _expression(expression: Expression, override: Override) -> Expression:
    if override.expression is not None:
        if override.thresholds:
            raise _OverrideError("'expr' has its own threshold; remove 'threshold'")
        return compile_expression(override.expression)
    text = expression.text
    for metric, value in override.thresholds:
        text = _with_threshold(text, metric, value)
    return compile_expression(text) if override.thresholds else expression


# --- thresholds


@dataclass(frozen=True, slots=True)
class _Limit:
    """A number in a comparison, and its position in the text."""

    begin: int
    end: int
    value: float
    shown: str
    """The comparison."""
    operator: str
    metrics: frozenset[str]
    is_exception: bool = False
    """The alert does not fire where it holds: behind 'unless'."""


def thresholds(text: str) -> list[str]:
    """Return the comparisons with a number in an expression, each once: 'METRIC > 0.8'."""
    return list(dict.fromkeys(limit.shown for limit in _limits(parse(text), text)))


def adjustable(text: str) -> list[tuple[str, str]]:
    """Return the metrics whose limit an override of 'threshold' can change, with its number now.

    Not the ones that are compared with a state, or with several numbers; each number once. First
    those that it fires by, then those by which it does not.
    """
    return [(metric, text[begin:end]) for metric, (begin, end) in _named_numbers(text).items()]


def has_other_numbers(text: str) -> bool:
    """Whether an expression has a number that no 'threshold' names, and that is no state."""
    tree = parse(text)
    limits = list(_limits(tree, text))
    named = set(_named_numbers(text))
    reached = {
        limit.begin for limit in limits if limit.metrics & named or limit.operator in _STATES
    }
    starts = {limit.begin for limit in limits} | set(_number_positions(tree))
    inside = {limit.begin: limit.end for limit in limits}
    own = {each for each in starts if not any(b < each < e for b, e in inside.items())}
    return bool(own - reached)


def _named_numbers(text: str) -> dict[str, tuple[int, int]]:
    """Return begin and end of the numbers that 'threshold' can change, by metric."""
    places: dict[str, set[tuple[int, int]]] = {}
    fixed: set[str] = set()
    for limit in sorted(_limits(parse(text), text), key=lambda limit: limit.is_exception):
        for metric in sorted(limit.metrics):
            places.setdefault(metric, set()).add((limit.begin, limit.end))
            if limit.operator in _STATES:
                fixed.add(metric)
    named: dict[tuple[tuple[int, int], ...], str] = {}
    for metric, spans in places.items():
        if metric not in fixed and len({text[begin:end] for begin, end in spans}) == 1:
            named.setdefault(tuple(sorted(spans)), metric)
    return {metric: spans[0] for spans, metric in named.items()}


def _number_positions(node: Node) -> Iterator[int]:
    if isinstance(node, Number):
        yield node.position
    for child in children(node):
        yield from _number_positions(child)


def comparisons(text: str) -> list[str]:
    """Return the limits by which an expression holds, each once: 'METRIC > 80 %', 'METRIC > OTHER'.

    A comparison with a state (==, !=) is none.
    """
    return list(dict.fromkeys(_comparisons(parse(text))))


def exceptions(text: str) -> list[str]:
    """Return the limits by which an expression does not hold: those behind 'unless'.

    Of an exception that has one itself, with that: 'METRIC >= 80 % unless OTHER < 30 d'.
    """
    return list(dict.fromkeys(_exceptions(parse(text))))


def _comparisons(node: Node) -> Iterator[str]:
    """Yield the comparisons of an expression but for those of what it excludes."""
    if isinstance(node, Binary) and node.operator in COMPARISONS - _STATES:
        yield _comparison(node)
    for child in children(node):
        if not _excludes(node, child):
            yield from _comparisons(child)


def _exceptions(node: Node) -> Iterator[str]:
    for child in children(node):
        yield from _excluded(child) if _excludes(node, child) else _exceptions(child)


def _excluded(node: Node) -> Iterator[str]:
    """Yield the comparisons of what an expression excludes, with their own exceptions."""
    if isinstance(node, Binary) and node.operator == "unless":
        excepted = " or ".join(dict.fromkeys(_excluded(node.right)))
        for limit in _excluded(node.left):
            yield f"{limit} unless {excepted}" if excepted else limit
        return
    if isinstance(node, Binary) and node.operator in COMPARISONS - _STATES:
        yield _comparison(node)
    for child in children(node):
        yield from _excluded(child)


def _comparison(node: Binary) -> str:
    left, right = _with_unit(node.left, node.right), _with_unit(node.right, node.left)
    return f"{left} {node.operator} {right}"


def _excludes(node: Node, child: Node) -> bool:
    return isinstance(node, Binary) and node.operator == "unless" and child is node.right


def _with_unit(node: Node, other: Node) -> str:
    """Return a side of a comparison; a number in the unit of the metric on the other side."""
    number = node.operand if isinstance(node, Negation) else node
    metric = _measured(other)
    if not metric or not isinstance(number, Number):
        return _notation(node)
    return quantity(metric, -number.value if isinstance(node, Negation) else number.value)


def _measured(node: Node) -> str:
    """Return the metric whose unit an expression has; '' if that is not known."""
    match node:
        case Selector():
            return node.name
        case Binary() if node.operator in COMPARISONS | SET_OPERATORS:
            return _measured(node.left)
        case Binary() if _is_sum(node) and _measured(node.right):
            metric = _measured(node.left)
            return "" if metric.endswith("_timestamp_seconds") else metric
        case Aggregation() if node.operator in _SAME_UNIT:
            return _measured(node.expression)
        case Call() if node.function.removesuffix("_over_time") in _SAME_UNIT:
            return _measured(node.arguments[-1])
    return ""


def _notation(node: Node) -> str:
    """Return a part of an expression without its labels and matchings."""
    match node:
        case Selector():
            return node.name
        case Number():
            return f"{node.value:.15g}"
        case Negation():
            return f"-{_notation(node.operand)}"
        case Binary() if node.operator in COMPARISONS | SET_OPERATORS:
            return _notation(node.left)
        case Binary():
            sides = (
                f"({_notation(each)})" if _is_sum(each) else _notation(each)
                for each in (node.left, node.right)
            )
            return f" {node.operator} ".join(sides)
        case Call(arguments=()):
            return f"{node.function}()"
    return " ".join(map(_notation, children(node)[-1:]))


def _is_sum(node: Node) -> bool:
    return isinstance(node, Binary) and node.operator in {"+", "-"}


def _with_threshold(text: str, metric: str, value: float) -> str:
    tree = parse(text)
    limits = list(_limits(tree, text))
    listed = ", ".join(f"'{limit.shown}'" for limit in limits) or "none"
    if metric:
        chosen = [limit for limit in limits if metric in limit.metrics]
        what = f"a comparison of {metric!r} with a number"
    else:
        main = _main_comparison(tree)
        chosen = [] if main is None else list(_limits(main, text, deep=False))
        what = "an alert whose value is compared with a number"
    if not chosen:
        named = [f"'threshold: {{{name}: NUMBER}}'" for name, _ in adjustable(text)]
        steps = f"write {' or '.join(named)}, or " if named else ""
        raise _OverrideError(f"threshold: expected {what}, got {listed}; {steps}{_own(text)}")
    if len({limit.value for limit in chosen}) > 1:
        raise _OverrideError(
            f"threshold: expected one number, got {', '.join(repr(one.shown) for one in chosen)};"
            f" {_own(text)}"
        )
    if problem := _no_ratio(chosen, value):
        raise _OverrideError(f"threshold: {problem}")
    for limit in sorted(chosen, key=lambda one: -one.begin):
        text = f"{text[: limit.begin]}{repr(value).removesuffix('.0')}{text[limit.end :]}"
    return text


def _own(text: str) -> str:
    return f"override 'expr' with other numbers, it is now: {expression_override(text)}"


def expression_override(text: str) -> str:
    """Return what to write instead of a threshold: the whole expression, as YAML."""
    expression = " ".join(text.split()).replace("'", "''")
    return f"{{expr: '{expression}'}}"


def _no_ratio(limits: Iterable[_Limit], value: float) -> str:
    """Return why a number is no limit of a ratio, '' if it may be one: a percentage is none.

    Some go past 1: NVMe drives count their endurance past 100 %.
    """
    for limit in limits:
        ratios = [metric for metric in limit.metrics if metric.endswith(_RATIO)]
        if ratios and len(limit.metrics) == 1 and abs(limit.value) <= 1 and abs(value) >= _NO_RATIO:
            meant = f"; did you mean {value / 100:g}?" if abs(value) <= _PERCENT else ""
            return f"expected a ratio, 1 is 100 % ('{limit.shown}'), got {value:g}{meant}"
    return ""


def _main_comparison(node: Node) -> Binary | None:
    """Return the comparison whose result is the value of the expression."""
    while isinstance(node, Binary) and node.operator in {"and", "unless"}:
        node = node.left
    return node if isinstance(node, Binary) and node.operator in COMPARISONS else None


def _limits(node: Node, text: str, *, deep: bool = True) -> Iterator[_Limit]:
    """Yield the numbers in comparisons of a tree; not `deep`: only those of the node itself."""
    if isinstance(node, Binary) and node.operator in COMPARISONS:
        for side, other in ((node.right, node.left), (node.left, node.right)):
            span = _number(side, text)
            if span is not None:
                metrics = frozenset(each.name for each in selectors(other) if each.name)
                names = " and ".join(sorted(metrics)) or "a number"
                begin, end, value = span
                shown = f"{names} {node.operator} {text[begin:end]}"
                yield _Limit(begin, end, value, shown, node.operator, metrics)
                break
    if deep:
        for child in children(node):
            for limit in _limits(child, text):
                yield replace(limit, is_exception=limit.is_exception or _excludes(node, child))


def _number(node: Node, text: str) -> tuple[int, int, float] | None:
    """Return begin, end and value of a number literal."""
    number = node.operand if isinstance(node, Negation) else node
    if not isinstance(number, Number):
        return None
    lexer = Lexer(text)
    token = lexer.next()
    while token.kind != "end" and (
        token.position < number.position or token.kind not in {"number", "duration"}
    ):
        token = lexer.next()
    end = token.position + len(token.text)
    if isinstance(node, Negation):
        if text[node.position + 1 : token.position].strip():  # -(5): not supported
            return None
        return node.position, end, -number.value
    return token.position, end, number.value


def _listed(words: Iterable[str]) -> str:
    return " and ".join(repr(word) for word in words)
