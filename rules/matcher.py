"""Label matchers, as in silences and `iowarden events`. Pure.

Source: Alertmanager's matchers; regular expressions are RE2, anchored.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.promql.automaton import RegexError
from iowarden.rules.promql.lexer import unquote
from iowarden.rules.promql.regex import compile_anchored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

MAX_CHARACTERS = 1000
_OPERATORS = ("=~", "!~", "!=", "=")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_MATCHER = re.compile(rf"\s*({_LABEL.pattern})\s*(?:(=~|!~|!=|=)\s*(.*?)\s*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Matcher:
    """A condition on one label: `operator` is '=', '!=', '=~' or '!~' (RE2, anchored)."""

    label: str
    operator: str
    text: str


def parse_matcher(text: str) -> Matcher:
    """Return the matcher of a text: 'device=sda', 'mountpoint=~"/srv/.*"', 'WriteStall'.

    A bare name is an alert's. Errors: ValueError.
    """
    match = _MATCHER.fullmatch(text)
    if match is None:
        raise ValueError(
            f"matcher {text[:80]!r}: expected LABEL=VALUE such as device=sda or mountpoint=/srv,"
            " with =, !=, =~ or !~, or the name of an alert; quote the value if the shell takes it"
            " apart"
        )
    label, operator, value = match.groups()
    if operator is None:
        return Matcher("alertname", "=", label)
    if value[:1] in {'"', "'"}:
        whole = len(value) > 1 and value[-1] == value[0]
        unquoted = unquote(value) if whole else None
        if unquoted is None:
            raise ValueError(
                f"matcher {text[:80]!r}: expected a closed quoted text, got {value[:80]!r}"
            )
        value = unquoted
    elif value[:1] in {"=", "~"}:
        raise ValueError(
            f"matcher {text[:80]!r}: expected =, !=, =~ or !~, got {operator + value[0]!r}"
        )
    matcher = Matcher(label, operator, value)
    predicate(matcher)
    return matcher


def written(matcher: Matcher) -> str:
    """Return a matcher in the form that `parse_matcher` reads."""
    text = matcher.text.replace("\\", "\\\\").replace('"', '\\"')
    return f'{matcher.label}{matcher.operator}"{text}"'


def match_all(matchers: Iterable[Matcher]) -> Callable[[Mapping[str, str]], bool]:
    """Return a test whether labels match all; a missing label is ''. Errors: ValueError."""
    tests = [(each.label, predicate(each)) for each in matchers]
    return lambda labels: all(test(labels.get(label, "")) for label, test in tests)


def predicate(matcher: Matcher) -> Callable[[str], bool]:
    """Return the test of a label's value. Errors: ValueError, for an invalid matcher."""
    label, operator, text = matcher.label, matcher.operator, matcher.text
    if not _LABEL.fullmatch(label) or operator not in _OPERATORS:
        raise ValueError(
            f"matcher: expected a label and one of {', '.join(_OPERATORS)},"
            f" got {label[:80]!r} and {operator[:80]!r}"
        )
    if len(text) > MAX_CHARACTERS or not text.isprintable():
        raise ValueError(
            f"matcher of '{label}': expected at most {MAX_CHARACTERS} printable characters,"
            f" got {text[:80]!r}"
        )
    if operator == "=":
        return lambda value: value == text
    if operator == "!=":
        return lambda value: value != text
    try:
        pattern = compile_anchored(text)
    except RegexError as error:
        raise ValueError(
            f"matcher of '{label}': expected a regular expression of RE2: {error}"
        ) from error
    if operator == "=~":
        return pattern.matches
    return lambda value: not pattern.matches(value)
