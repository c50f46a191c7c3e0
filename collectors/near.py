"""What a mistyped word may have meant."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_NEAR = 3
_OTHER_CHARACTERS = re.compile(r"[^a-z0-9]+")


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Return '; did you mean 'events'?', '' if nothing is near."""
    found = near(word, candidates)
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else ""


def near(word: str, candidates: Iterable[str]) -> list[str]:
    """Return the candidates that are spelled like a word; case and punctuation do not matter."""
    import difflib  # noqa: PLC0415 - 6 ms, for a typing error only

    plain: dict[str, list[str]] = {}
    for each in candidates:
        plain.setdefault(_OTHER_CHARACTERS.sub("", each.lower()), []).append(each)
    like = difflib.get_close_matches(_OTHER_CHARACTERS.sub("", word.lower()), [*plain], MAX_NEAR)
    return [each for spelling in like for each in plain[spelling]][:MAX_NEAR]
