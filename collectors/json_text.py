"""Check of JSON from other programs before json parses it. Pure."""

from __future__ import annotations

from iowarden.collectors.lazy_pattern import lazy_pattern

MAX_DEPTH = 64
_STRING = lazy_pattern(r'"(?:[^"\\]++|\\.)*+"')
_INNERMOST = lazy_pattern(r"[\[{][^\[\]{}]*+[\]}]")


def is_deep(text: str) -> bool:
    """Whether brackets are nested deeper than allowed, or are not closed.

    Why: json recurses in C, and before Python 3.14 its own limit is beyond the stack of a thread:
    the process would end by SIGSEGV. Source: cpython issue 107263; seen with 3.12 at 1 MiB.
    """
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    rest = _STRING.sub("", text)
    for _ in range(MAX_DEPTH):
        rest, removed = _INNERMOST.subn("", rest)
        if not removed:
            break
    return "[" in rest or "{" in rest


def split_objects(text: str) -> list[str]:
    """Return the outermost JSON objects in a text, whatever stands between them.

    Linear in the length of the text. Limits: an object that is cut off, or a brace outside of an
    object, takes what follows into its piece.
    """
    objects: list[str] = []
    begin = depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] == "{":
            begin = begin if depth else token.start()
            depth += 1
        elif token[0] == "}" and depth:
            depth -= 1
            if depth == 0:
                objects.append(text[begin : token.end()])
    return [*objects, text[begin:]] if depth else objects


def closed(text: str) -> str:
    """Return a truncated JSON text up to its last whole value, with its brackets closed.

    '' if it is not truncated, or has no whole value. Linear in the length of the text.
    """
    brackets: list[str] = []
    end, closing = 0, ""
    for token in _PART.finditer(text):
        word = token[0]
        if word in "{[":
            brackets.append("}" if word == "{" else "]")
            if len(brackets) > MAX_DEPTH:
                return ""
        elif word in "}]":
            if not brackets or brackets.pop() != word:
                return ""
            end, closing = token.end(), "".join(reversed(brackets))
            if not brackets:
                return ""
        elif word == ",":
            end, closing = token.start(), "".join(reversed(brackets))
        elif word == '"':  # a text without its end
            break
    return text[:end] + closing if end else ""


_PART = lazy_pattern(r'"(?:[^"\\]++|\\.)*+"|[{}\[\],"]')
_TOKEN = lazy_pattern(r'"(?:[^"\\\n]|\\.)*"?|[{}]')
"""A brace, or a text, in which braces mean nothing; a quote without an end takes a line at most."""
