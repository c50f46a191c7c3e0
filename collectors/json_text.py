"""Check of JSON from other programs before json parses it. Pure."""

from __future__ import annotations

import re

MAX_DEPTH = 64
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"')
_INNERMOST = re.compile(r"[\[{][^\[\]{}]*+[\]}]")


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
