"""Template functions: Go's own (eq, index, printf ...) and Prometheus's (humanize, first ...).

Source: Prometheus 3, 'Template reference'; Go, package text/template, 'Functions'.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from iowarden.collectors import quantity
from iowarden.collectors.dataclass import dataclass
from iowarden.rules.promql.automaton import Match, RegexError, Steps
from iowarden.rules.promql.regex import compile_search
from iowarden.rules.rulefile import humanize
from iowarden.rules.rulefile.printf import Struct, Value, plain, sprint, sprintf, type_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


MAX_CHARACTERS = 100_000
"""Of a rendered text, each iteration of a 'range' being one: nested ones could run for hours; and
of each value that is made for it: `$x = printf "%s%s" $x $x` in a 'range' takes all memory.
"""
COPIED_PER_STEP = 16
"""Characters of a value that cost as much as a step of a regular expression."""


class RenderError(Exception):
    """A template that cannot be rendered with these values."""


@dataclass(frozen=True, slots=True)
class Function:
    """Signature of a function; `parameters` names Go types, the last one repeats if `variadic`."""

    parameters: tuple[str, ...]
    call: Callable[..., Value]
    variadic: bool = False
    minimum: int = 0
    """Arguments that a variadic function must have."""
    searches: bool = False
    """Whether its first argument is the budget for regular expressions."""


_GO_FLOAT = re.compile(
    r"[-+]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|inf(?:inity)?|nan)", re.IGNORECASE
)


def _number(value: Value) -> float:
    """Return the number that the humanize functions use: also a string that contains one."""
    if isinstance(value, str):
        if _GO_FLOAT.fullmatch(value):
            return float(value)
        raise RenderError(f'parsing "{value}": invalid syntax')
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RenderError(f"can't convert {type_name(value)} to float")
    return float(value)


def is_true(value: Value) -> bool:
    """Return the truth value of a value, as `if` uses it."""
    return True if isinstance(value, Struct) else bool(value)


def _comparable(left: Value, right: Value) -> tuple[object, object]:
    if type(left) is not type(right):
        raise RenderError(
            f"incompatible types for comparison: {type_name(left)} and {type_name(right)};"
            " compare a float with 1.0, not with 1"
        )
    if isinstance(left, dict | list | Struct):
        raise RenderError(f"invalid type for comparison: {type_name(left)}")
    return left, right


def _equal(first: Value, *others: Value) -> bool:
    return any(left == right for left, right in (_comparable(first, one) for one in others))


def _less(left: Value, right: Value) -> bool:
    match _comparable(left, right):
        case (bool(), _) | (None, _):
            raise RenderError(f"invalid type for comparison: {type_name(left)}")
        case (str() as first, str() as second):
            return first.encode() < second.encode()
        case (int() | float() as low, int() | float() as high):
            return low < high
    return False


def _less_or_equal(left: Value, right: Value) -> bool:
    return _less(left, right) or _equal(left, right)


def _length(value: Value) -> int:
    match value:
        case str():
            return len(value.encode("utf-8", "replace"))
        case dict() | list():
            return len(value)
    raise RenderError(f"len of type {type_name(value)}")


def _index(value: Value, *keys: Value) -> Value:
    for key in keys:
        match value, key:
            case dict(), str():
                value = value.get(key, "")
            case (list() | str(), int()) if not isinstance(key, bool):
                items: list[Value] = (
                    list(value.encode("utf-8", "replace")) if isinstance(value, str) else [*value]
                )
                if not 0 <= key < len(items):
                    raise RenderError(f"index out of range: {key}")
                value = items[key]
            case _:
                raise RenderError(f"cannot index {type_name(value)} with {type_name(key)}")
    return value


def _first(results: list[Struct]) -> Struct:
    if not results:
        raise RenderError("first() called on vector with no elements")
    return results[0]


def _label(name: str, sample: Struct) -> str:
    labels = sample.fields["Labels"]
    return labels.get(name, "") if isinstance(labels, dict) else ""


def _matches(steps: Steps, pattern: str, text: str) -> bool:
    return _search(pattern)(text, 0, steps) is not None


def _replace_all(steps: Steps, pattern: str, replacement: str, text: str) -> str:
    """Return the text with each match replaced; `$1`, `${1}` and `${name}` are groups.

    Errors: RenderError before it is longer than MAX_CHARACTERS: matches times a replacement may be
    gigabytes.
    """
    search = _search(pattern)
    parts: list[str] = []
    position = copied = 0
    left = MAX_CHARACTERS
    while match := search(text, position, steps):
        parts.append(text[copied : match.begin])
        if match.end > copied or match.begin == 0:  # No empty match right after another one.
            parts.append(match.expanded(replacement))
            left -= len(parts[-1])
            if left < 0:
                raise RenderError(
                    f"reReplaceAll: more than {MAX_CHARACTERS} characters; shorten its text"
                )
        copied = match.end
        # After an empty match Go does not try for a longer one at the same place.
        position = max(match.end, position + 1)
        if position > len(text):
            break
    return "".join(parts) + text[copied:]


def _search(pattern: str) -> Callable[[str, int, Steps], Match | None]:
    try:
        return compile_search(pattern)
    except RegexError as error:
        raise RenderError(str(error)) from error


def _timestamp(value: Value) -> str:
    try:
        return humanize.humanize_timestamp(_number(value))
    except ValueError as error:
        raise RenderError(str(error)) from error


def _by_label(name: str, results: list[Struct]) -> list[Struct]:
    return sorted(results, key=lambda sample: _label(name, sample).encode())


FUNCTIONS: Mapping[str, Function] = {
    "eq": Function(("any", "any"), _equal, variadic=True, minimum=2),
    "first": Function(("list",), _first),
    "ge": Function(("any", "any"), lambda a, b: not _less(a, b)),  # As Go: of NaN, too.
    "gt": Function(("any", "any"), lambda a, b: not _less_or_equal(a, b)),
    "humanize": Function(("any",), lambda v: humanize.humanize(_number(v))),
    "humanize1024": Function(("any",), lambda v: humanize.humanize1024(_number(v))),
    "humanizeDuration": Function(("any",), lambda v: humanize.humanize_duration(_number(v))),
    "humanizePercentage": Function(("any",), lambda v: humanize.humanize_percentage(_number(v))),
    "humanizeTimestamp": Function(("any",), _timestamp),
    "index": Function(("any", "any"), _index, variadic=True, minimum=1),
    "label": Function(("string", "sample"), _label),
    "le": Function(("any", "any"), _less_or_equal),
    "len": Function(("any",), _length),
    "lt": Function(("any", "any"), _less),
    "match": Function(("string", "string"), _matches, searches=True),
    "ne": Function(("any", "any"), lambda a, b: not _equal(a, b)),
    "not": Function(("any",), lambda value: not is_true(value)),
    "print": Function(("any",), lambda *values: sprint(values), variadic=True),
    "printf": Function(
        ("string", "any"), lambda text, *values: sprintf(text, values), variadic=True, minimum=1
    ),
    "println": Function(
        ("any",), lambda *values: " ".join(map(plain, values)) + "\n", variadic=True
    ),
    "reReplaceAll": Function(("string", "string", "string"), _replace_all, searches=True),
    "sortByLabel": Function(("string", "list"), _by_label),
    "stripDomain": Function(("string",), humanize.strip_domain),
    "stripPort": Function(("string",), humanize.strip_port),
    "strvalue": Function(("sample",), lambda sample: _label("__value__", sample)),
    "title": Function(("string",), humanize.title),
    "toLower": Function(("string",), humanize.lower),
    "toUpper": Function(("string",), humanize.upper),
    "value": Function(("sample",), lambda sample: sample.fields["Value"]),
}


def _finite(
    formatted: Callable[[float], str], otherwise: Callable[[float], str]
) -> Callable[[Value], str]:
    """Return a format of finite numbers; Prometheus' own function has '+Inf' and 'NaN'."""

    def call(value: Value) -> str:
        number = _number(value)
        return formatted(number) if math.isfinite(number) else otherwise(number)

    return call


SHIPPED_FUNCTIONS: Mapping[str, Function] = {
    **FUNCTIONS,
    "humanize1024": Function(("any",), _finite(quantity.binary_prefixed, humanize.humanize1024)),
    "humanizeDuration": Function(("any",), _finite(quantity.duration, humanize.humanize_duration)),
    "humanizePercentage": Function(
        ("any",), _finite(quantity.percentage, humanize.humanize_percentage)
    ),
}
"""Of shipped rules, in the service: numbers as in all its other texts, '593 MiB', '4 min 54 s'.

Prometheus, which gets the same rules, and unit tests of rules have Prometheus' own formats.
"""
OTHER_FUNCTIONS = frozenset(
    "args call externalURL graphLink html js now parseDuration parseDurationTime pathPrefix"
    " safeHtml slice tableLink tmpl toDuration toTime urlQueryEscape urlquery".split()
)


def checked(name: str, parameter: str, value: Value) -> Value:
    """Return an argument if it has the parameter's type."""
    match parameter, value:
        case ("any", _) | ("string", str()) | ("list", list()):
            return value
        case ("sample", Struct(type_name="sample")):
            return value
    expected = {"list": "the result of a query", "sample": "one sample"}.get(parameter, parameter)
    raise RenderError(
        f"error calling {name}: wrong type for value; expected {expected}; got {type_name(value)}"
    )
