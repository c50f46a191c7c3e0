"""YAML nodes with their position, so that all errors of a file are reported at once.

Source: YAML 1.1 as PyYAML composes it. Errors name file, line and column, both from 1. Limits:
`MAX_DEPTH` levels; what aliases repeat counts each time, because a small file can expand to
gigabytes with them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import yaml

from iowarden.collectors.model import UserInputError
from iowarden.rules.promql.lexer import duration_seconds, line_and_column

if TYPE_CHECKING:
    from collections.abc import Iterable

    _Loader = type[yaml.SafeLoader | yaml.CSafeLoader]

MAX_CHARACTERS = 4_000_000
"""Of all nodes that are read; each counts as `NODE_CHARACTERS` plus its text."""
NODE_CHARACTERS = 20
MAX_ERRORS = 200
"""More would not be read at once."""
NULL = "tag:yaml.org,2002:null"
MAX_DEPTH = 64
"""Levels of a document. PyYAML composes by recursion, and with libyaml on the C stack."""

_LIBYAML: type[yaml.CSafeLoader] | None = getattr(yaml, "CSafeLoader", None)
"""Fifteen times as fast; PyYAML may be built without it."""
_PARSED_DIFFERENTLY = re.compile(
    r"[^\n -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
    r"|[|>][-+0-9]*#|:(?:\s|#[^\n]*+)*+[]},]|[^\n]\Z"
)
"""Where libyaml 0.2.5 and PyYAML 6.0 in Python disagree on what is valid, or on its position.

Tabs, line breaks other than a line feed, byte order marks, a comment right after '|' or '>', no
value in a flow mapping, and a last line without its end. Not detected: '?' in an unquoted text
within brackets, which libyaml accepts, as promtool does.
"""


class RuleFileError(UserInputError):
    """A rule file that cannot be loaded; `errors` has all its errors, in order."""

    def __init__(self, errors: Iterable[str]) -> None:
        """Store the messages, each with file, line and column."""
        self.errors = tuple(errors)
        super().__init__("\n".join(self.errors))


class NotYamlError(Exception):
    """A text that is not a YAML document, or one that is not accepted."""

    def __init__(self, text: str, index: int, problem: str) -> None:
        """Store the error, and line and column, both from 1."""
        super().__init__(problem)
        self.line, self.column = line_and_column(text, index)


def compose(text: str, file: str) -> yaml.Node | None:
    """Return the root node of a text; None if it is empty.

    Errors: RuleFileError.
    """
    try:
        return root_node(text)
    except NotYamlError as error:
        raise RuleFileError([f"'{file}':{error.line}:{error.column}: {error}"]) from error


def root_node(text: str, max_depth: int = MAX_DEPTH, *, aliases: bool = True) -> yaml.Node | None:
    """Return the root node of a document; None if it is empty. `aliases`: accept them.

    The nodes are the same with and without libyaml, except for the style of a plain scalar: '' or
    None. Errors: NotYamlError, with text and position of PyYAML's loader in Python.
    """
    if _LIBYAML is not None and not _PARSED_DIFFERENTLY.search(text):
        try:
            return _composed(text, _LIBYAML, max_depth, aliases=aliases)
        except NotYamlError:
            pass  # the loader in Python finds the error as well, or accepts the text
    return _composed(text, yaml.SafeLoader, max_depth, aliases=aliases)


def _composed(text: str, loader: _Loader, max_depth: int, *, aliases: bool) -> yaml.Node | None:
    """Return the root node, once the events, which need no recursion, are known to be harmless."""
    depth = 0
    index = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            index = event.start_mark.index if event.start_mark else index
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > max_depth:
                raise NotYamlError(text, index, f"expected at most {max_depth} levels, got more")
            if isinstance(event, yaml.AliasEvent) and not aliases:
                problem = "expected no alias, got '*' and a name; write it out, or in quotes"
                raise NotYamlError(text, index, problem)
            if loader is _LIBYAML and getattr(event, "tag", None):
                raise NotYamlError(text, index, "a tag: '!' is resolved differently")
        return yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(part for part in (error.context, error.problem) if part)
        what += "; indent with spaces" if r"'\t'" in what else ""
        raise NotYamlError(text, mark.index if mark else index, f"not YAML: {what}") from error
    except yaml.reader.ReaderError as error:
        problem = f"not YAML: expected text, got U+{error.character:04X}; remove it"
        raise NotYamlError(text, error.position, problem) from error
    except (ValueError, OverflowError) as error:  # a number of an escape or of a version
        problem = f"not YAML: after this, a number is out of range ({error})"
        raise NotYamlError(text, index, problem) from error


def is_null(node: yaml.Node) -> bool:
    """Return whether a node has no value."""
    return isinstance(node, yaml.ScalarNode) and node.tag == NULL


def start(node: yaml.Node) -> int:
    """Return the offset at which a node begins."""
    return int(node.start_mark.index)


class Nodes:
    """Converts nodes to the expected types, and collects the errors.

    `what` names a node in messages.
    """

    def __init__(self, text: str, file: str) -> None:
        """Start with a text without errors so far."""
        self.text = text
        self.file = file
        self.errors: list[tuple[int, str]] = []
        self._characters = 0

    def finish(self) -> None:
        """Raise RuleFileError with all errors, in the order of the file."""
        if self.errors:
            raise RuleFileError(text for _, text in sorted(self.errors, key=lambda one: one[0]))

    def wrong(self, index: int, message: str) -> None:
        """Record an error at an offset."""
        self.errors.append((index, f"'{self.file}':{self.place(index)}: {message}"))
        if len(self.errors) >= MAX_ERRORS:
            self.finish()

    def place(self, index: int) -> str:
        """Return line and column of an offset."""
        line, column = line_and_column(self.text, index)
        return f"{line}:{column}"

    def line(self, node: yaml.Node) -> int:
        """Return the line at which a node begins."""
        return line_and_column(self.text, start(node))[0]

    def mapping(
        self, node: yaml.Node, what: str, known: tuple[str, ...] | None
    ) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Return a mapping's key and value nodes by key; `known` None: any key is allowed."""
        result: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        self._count(node)
        if not isinstance(node, yaml.MappingNode):
            if not is_null(node):
                self.wrong(start(node), f"{what}: expected a mapping, got {_kind(node)}")
            return result
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.wrong(start(key), f"{what}: expected a text as key, got {_kind(key)}")
            elif key.value in result:
                self.wrong(start(key), f"{what}: duplicate key {key.value!r}; remove one of them")
            elif known is not None and key.value not in known:
                message = f"{what}: unknown key {key.value!r}; known are {', '.join(known)}"
                self.wrong(start(key), message)
            else:
                result[key.value] = (key, value)
        return result

    def sequence(self, node: yaml.Node, what: str) -> list[yaml.Node]:
        """Return a list's nodes."""
        self._count(node)
        if isinstance(node, yaml.SequenceNode):
            return list(node.value)
        if not is_null(node):
            self.wrong(start(node), f"{what}: expected a list, got {_kind(node)}")
        return []

    def string(self, node: yaml.Node, what: str) -> str:
        """Return a text; '' for an empty one."""
        self._count(node)
        if isinstance(node, yaml.ScalarNode):
            return "" if is_null(node) else str(node.value)
        self.wrong(start(node), f"{what}: expected a text, got {_kind(node)}")
        return ""

    def duration(self, node: yaml.Node, what: str) -> float:
        """Return a duration's seconds; 0 if it is invalid."""
        text = self.string(node, what)
        seconds = 0.0 if text == "0" else duration_seconds(text)
        if seconds is None and isinstance(node, yaml.ScalarNode):
            message = f"{what}: expected a duration such as 30s or 1h30m, got {text!r}"
            self.wrong(start(node), message)
        return seconds or 0.0

    def _count(self, node: yaml.Node) -> None:
        content = len(node.value) if isinstance(node, yaml.ScalarNode) else 0
        if isinstance(node, yaml.CollectionNode):
            content = NODE_CHARACTERS * len(node.value)
        self._characters += NODE_CHARACTERS + content
        if self._characters > MAX_CHARACTERS:
            message = (
                f"'{self.file}':{self.place(start(node))}: expected at most"
                f" {MAX_CHARACTERS // 1_000_000} MB with what aliases repeat, got more;"
                " use fewer aliases ('*') or split the file"
            )
            raise RuleFileError([message])


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return "a text"
    return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
