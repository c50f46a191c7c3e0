"""Which labels the result of a PromQL expression can have, and which labels are named in vain.

Source: Prometheus 3, 'Operators' (vector matching, aggregation), 'Functions' (label_replace,
label_join). A matcher, a grouping or a template that names a label which its metrics do not have is
no error at runtime: the matcher compares with '', the template renders ''.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.rules.promql import ast, parser

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_ACTION = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
_OPENS = re.compile(r"(?:if|with|range|else if|else with)\b")
_LITERAL = r'"((?:[^"\\]|\\.)*)"|`([^`]*)`'
_QUERY = re.compile(rf"\bquery (?:\(printf\s+(?:{_LITERAL})|{_LITERAL})")
_ARGUMENT = re.compile(r'\s*("(?:[^"\\]|\\.)*"|\([^()]*\)|[^\s()]+)')
_FORMATS = re.compile(r"%[-+# 0-9.]*[a-z]")


class LabelInference:
    """Infers labels from those of each metric; collects what is named in vain in `problems`."""

    def __init__(self, declared: Mapping[str, frozenset[str]]) -> None:
        """`declared` has every metric with all labels that a sample of it may have."""
        self.declared = dict(declared)
        self.problems: list[str] = []

    def declare(self, name: str, labels: frozenset[str]) -> None:
        """Add a recorded series."""
        self.declared[name] = labels

    def of(self, node: ast.Node) -> frozenset[str]:
        """Return all labels that samples of the result may have."""
        match node:
            case ast.Selector():
                return self._selector(node)
            case ast.Aggregation():
                found = self.of(node.expression)
                self._named(node.labels, found, f"{node.operator} by or without")
                kept = found - {*node.labels} if node.without else found & {*node.labels}
                return found if node.operator in {"topk", "bottomk"} else kept
            case ast.Binary():
                return self._binary(node)
            case ast.Call():
                return self._call(node)
        return frozenset().union(*(self.of(each) for each in ast.children(node)))

    def _selector(self, node: ast.Selector) -> frozenset[str]:
        if node.name not in self.declared:
            self.problems.append(f"no such metric: '{node.name}'")
            return frozenset()
        found = self.declared[node.name]
        self._named((each.label for each in node.matchers), found, node.name)
        return found

    def _binary(self, node: ast.Binary) -> frozenset[str]:
        left, right = self.of(node.left), self.of(node.right)
        if isinstance(node.left, ast.Number) or isinstance(node.right, ast.Number):
            return left | right
        matching = node.matching
        for side in (left, right):
            what = f"{node.operator} on" if matching.on else f"{node.operator} ignoring"
            others = left | right if not matching.on else side
            self._named(matching.labels, others, what)
        if node.operator == "or":
            return left | right
        if node.operator in {"and", "unless"}:
            return left
        if matching.many:
            many, one = (left, right) if matching.many == "left" else (right, left)
            self._named(matching.include, one, f"group_{matching.many}")
            return many | {*matching.include}
        return left & matching.labels if matching.on else left - matching.labels

    def _call(self, node: ast.Call) -> frozenset[str]:
        found: frozenset[str] = frozenset().union(*(self.of(each) for each in node.arguments))
        texts = [each.value for each in node.arguments if isinstance(each, ast.Text)]
        match node.function:
            case "label_replace":
                self._named((texts[2],), found, "label_replace")
                return found | {texts[0]}
            case "label_join":
                self._named(texts[2:], found, "label_join")
                return found | {texts[0]}
            case "scalar" | "time" | "vector":
                return frozenset()
        return found

    def _named(self, names: Iterable[str], labels: frozenset[str], where: str) -> None:
        self.problems += [
            f"{where}: no label '{each}', only {sorted(labels)}"
            for each in names
            if each not in labels and "..." not in labels
        ]

    def template(self, text: str, own: frozenset[str]) -> None:
        """Collect the problems of a template; `own` are the labels of its alert ($labels).

        `.Labels` and `label` refer to the last query of the action, else of the block around it.
        """
        blocks: list[frozenset[str]] = []
        for action in _ACTION.findall(text):
            around = next((each for each in reversed(blocks) if each), frozenset())
            dot = self._queries(action) or around
            self._named(re.findall(r"\$labels\.(\w+)", action), own, "$labels")
            self._named(re.findall(r"(?<![\w$)])\.Labels\.(\w+)", action), dot, ".Labels")
            self._named(re.findall(r'\b(?:label|sortByLabel) "(\w+)"', action), dot, "label")
            if action.startswith(("end", "else")):
                blocks.pop()
            if _OPENS.match(action) or action == "else":
                opened = self._queries(action) if not action.startswith("if") else frozenset()
                blocks.append(opened)

    def _queries(self, action: str) -> frozenset[str]:
        found: frozenset[str] = frozenset()
        for text in queries(f"{{{{ {action} }}}}"):
            found |= self.of(parser.parse(text))
        return found


def queries(template: str) -> list[str]:
    """Return the PromQL of a template's queries, each argument of printf as its own text.

    `printf "a{job=%q}" $labels.job` gives `a{job="$labels.job"}`, and other verbs 1.
    """
    found: list[str] = []
    for action in _ACTION.findall(template):
        for match in _QUERY.finditer(action):
            printed, raw, plain, raw_plain = match.groups()
            if plain is not None or raw_plain is not None:
                found.append((plain or "").replace('\\"', '"') or raw_plain or "")
                continue
            arguments = iter(_arguments(action[match.end() :]))
            text = printed.replace('\\"', '"').replace("\\\\", "\\") if raw is None else raw

            def one(verb: re.Match[str], rest: Iterator[str] = arguments) -> str:
                argument = next(rest, "").replace('"', "'")
                return f'"{argument}"' if verb[0].endswith("q") else "1"

            found.append(_FORMATS.sub(one, text))
    return found


def _arguments(text: str) -> Iterator[str]:
    """Yield the arguments of a call up to the parenthesis that closes it."""
    while (match := _ARGUMENT.match(text)) is not None:
        yield match[1]
        text = text[match.end() :]
