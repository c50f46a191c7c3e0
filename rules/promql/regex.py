r"""Translates RE2's regular expressions to Python's `re`.

Source: RE2, 'Syntax', with the Perl flags that Go's regexp sets. What RE2 does not have
(look-around, back-references, possessive quantifiers) is refused, so that no rule works here and
fails elsewhere. Limits: `\p{...}` is refused because `re` has no such classes. Time grows with the
text's length times the pattern's, groups or not: if `re` could try more alternatives than a pattern
has states, or would choose others than RE2 (a loop with empty iterations), all alternatives are
followed in parallel (automaton.py).
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.promql.automaton import (
    Atom,
    Automaton,
    CaptureGroup,
    Chain,
    Choice,
    Match,
    RegexError,
    Repeat,
    Steps,
    Tree,
    nullable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


Ranges = list[tuple[int, int]]
"""Code points, both ends included."""


@dataclass(frozen=True, slots=True)
class _Flags:
    ignore_case: bool = False
    multi_line: bool = False
    dot_all: bool = False
    ungreedy: bool = False


_FLAG_NAMES: Mapping[str, str] = {
    "i": "ignore_case",
    "m": "multi_line",
    "s": "dot_all",
    "U": "ungreedy",
}
_MAX_REPEAT = 1000
_MAX_DEPTH = 50
_TRIES_PER_STATE = 64
"""Maximum alternatives that `re` may try for each state of a pattern, because it is so much faster
per try."""
_MAX_CHOICES = 3
"""With more choices they are not counted: all alternatives are followed in parallel."""
_FIND_STEPS = 100
"""Minimum cost of a search by `re`."""
_LAST = 0x10FFFF
_QUANTIFIER = re.compile(r"[*+?]|\{([0-9]{1,9})(?:(,)([0-9]{1,9})?)?\}")
_GROUP = re.compile(r"\?(?:P?<([A-Za-z_0-9]+)>|([imsU]*)(?:-([imsU]+))?([:)]))")
_POSIX_CLASS = re.compile(r"\[:(\^?)([a-z]+):\]")
_NUMERIC_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]{1,8})\}|(0[0-7]{0,2}|[1-7][0-7]{1,2}))"
)
_CONTROL: Mapping[str, str] = {
    "a": "\a",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_DIGIT: Ranges = [(0x30, 0x39)]
_UPPER: Ranges = [(0x41, 0x5A)]
_LOWER: Ranges = [(0x61, 0x7A)]
_PERL: Mapping[str, Ranges] = {
    "d": _DIGIT,
    "s": [(0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20)],
    "w": [*_DIGIT, *_UPPER, (0x5F, 0x5F), *_LOWER],
}
_POSIX: Mapping[str, Ranges] = {
    "alnum": [*_DIGIT, *_UPPER, *_LOWER],
    "alpha": [*_UPPER, *_LOWER],
    "ascii": [(0x00, 0x7F)],
    "blank": [(0x09, 0x09), (0x20, 0x20)],
    "cntrl": [(0x00, 0x1F), (0x7F, 0x7F)],
    "digit": _DIGIT,
    "graph": [(0x21, 0x7E)],
    "lower": _LOWER,
    "print": [(0x20, 0x7E)],
    "punct": [(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)],
    "space": [(0x09, 0x0D), (0x20, 0x20)],
    "upper": _UPPER,
    "word": _PERL["w"],
    "xdigit": [*_DIGIT, (0x41, 0x46), (0x61, 0x66)],
}


class Anchored:
    """A pattern that must match a whole value.

    The time for it grows with the value's length times `states`; it is taken from `steps`, if any.
    Errors: RegexError when no step is left.
    """

    __slots__ = ("_follow", "_names", "_piece", "_tried", "states")

    def __init__(self, pattern: str) -> None:
        """Compile a pattern; the dot matches all."""
        self._piece, self._names, regex = _compile(pattern, _Flags(dot_all=True))
        self._tried = regex.fullmatch
        few = self._piece.choices <= 1 and not self._piece.tangled  # nearly all
        self._follow = None if few else _automaton(pattern, self._piece, regex)
        self.states = 0 if self._follow is None else self._follow.size
        """Maximum number of parallel states; 0: `re` tries a few alternatives."""

    def matches(self, value: str, steps: Steps | None = None) -> bool:
        """Return whether it matches all of a value."""
        if self._follow is None or self._is_tried(value, steps):
            return self._tried(value) is not None
        return self._follow.matches(value, steps) is not None

    def fullmatch(self, value: str, steps: Steps | None = None) -> Match | None:
        """Return the groups where it matches all of a value."""
        if self._follow is None or (not self._piece.tangled and self._is_tried(value, steps)):
            return _match(self._tried(value), self._names)
        spans = self._follow.matches(value, steps)
        return None if spans is None else Match(value, spans, self._names)

    def _is_tried(self, value: str, steps: Steps | None) -> bool:
        """Return whether `re` tries few alternatives, which are counted."""
        if self._piece.tries(value) > _TRIES_PER_STATE * self.states:
            return False
        if steps is not None:
            steps.spend(self.states)
        return True


def compile_anchored(pattern: str) -> Anchored:
    """Compile a pattern of a label matcher or of label_replace; the dot matches all."""
    return Anchored(pattern)


def compile_search(pattern: str) -> Callable[[str, int, Steps], Match | None]:
    """Compile a pattern as Go's `regexp.MustCompile` does.

    The returned function finds the first match from a position of a text on, and counts its cost.
    Errors: RegexError, also of a search that costs too much.
    """
    piece, names, regex = _compile(pattern, _Flags())
    follow = _automaton(pattern, piece, regex)

    def find(text: str, begin: int, steps: Steps) -> Match | None:
        length = len(text) - begin + 1
        tries = piece.tries(text, begin) * length  # it may begin anywhere
        if not piece.tangled and tries <= _TRIES_PER_STATE * follow.size:
            passed = length if piece.choices else min(length, follow.size)
            steps.spend(max(_FIND_STEPS, int(tries) * passed // _TRIES_PER_STATE))
            return _match(regex.search(text, begin), names)
        spans = follow.find(text, begin, steps)
        return None if spans is None else Match(text, spans, names)

    return find


def _match(found: re.Match[str] | None, names: Mapping[str, int]) -> Match | None:
    if found is None:
        return None
    numbers = range(found.re.groups + 1)
    return Match(found.string, tuple(at for n in numbers for at in found.span(n)), names)


def _automaton(pattern: str, piece: _Piece, regex: re.Pattern[str]) -> Automaton:
    try:
        return Automaton(piece.tree, regex.groups)
    except RegexError as error:
        raise RegexError(f"invalid regular expression {pattern!r}: {error}") from error


def _compile(pattern: str, flags: _Flags) -> tuple[_Piece, Mapping[str, int], re.Pattern[str]]:
    translator = _Translator(pattern, flags)
    piece = translator.translate()
    try:
        return piece, translator.names, re.compile(piece.text)
    except (re.error, OverflowError, RecursionError) as error:
        raise RegexError(f"cannot translate {pattern!r}: {error}") from error


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a pattern, as Python's text and as a tree."""

    text: str
    tree: Tree
    choices: int = 0
    """Number of places where `re` may backtrack."""
    repeats: int = 1
    """Maximum repetition of its innermost part, by numbers in braces."""
    tangled: bool = False
    """Whether a loop may have an empty iteration: `re` and RE2 differ in the groups then."""
    branches: int = 1
    """Maximum number of alternatives in one place."""

    def tries(self, text: str, begin: int = 0) -> float:
        """Return how many alternatives `re` may try at most in a text, each once over it."""
        if self.choices > _MAX_CHOICES:
            return math.inf
        return float(max(len(text) - begin + 1, self.branches)) ** self.choices

    def repeated(self, quantifier: str, low: int, high: int | None, *, lazy: bool) -> _Piece:
        # A \Q quotation is the only chain outside of a group: its last character repeats.
        match self.tree:
            case Chain(items=(*first, last)):
                tree: Tree = Chain((*first, Repeat(last, low, high, lazy)))
            case _:
                tree = Repeat(self.tree, low, high, lazy)
        if high is None:
            choices = 1000 if self.choices else 1
        else:
            choices = self.choices * high + (low != high)
        text = self.text + quantifier + ("?" if lazy else "")
        tangled = self.tangled or nullable(self.tree)
        return _Piece(text, tree, choices, self.repeats, tangled, self.branches)


def _complement(ranges: Ranges) -> Ranges:
    result: Ranges = []
    start = 0
    for low, high in sorted(ranges):
        if low > start:
            result.append((start, low - 1))
        start = max(start, high + 1)
    if start <= _LAST:
        result.append((start, _LAST))
    return result


def _class(ranges: Ranges, *, negated: bool = False) -> str:
    body = "".join(
        re.escape(chr(low)) + (f"-{re.escape(chr(high))}" if high > low else "")
        for low, high in ranges
    )
    return f"[{'^' if negated else ''}{body}]"


class _Translator:
    """Reads the pattern once, from left to right; flags are written at each atom.

    Python accepts `(?i)` only at the start of a pattern, RE2 anywhere.
    """

    def __init__(self, pattern: str, flags: _Flags) -> None:
        self._pattern = pattern
        self._position = 0
        self._flags = flags
        self._depth = 0
        self.names: dict[str, int] = {}
        """The numbers of groups that have a name."""
        self._groups = 0

    def translate(self) -> _Piece:
        result = self._alternatives()
        if self._position < len(self._pattern):
            self._fail("unexpected )")
        return result

    def _fail(self, what: str) -> None:
        raise RegexError(f"invalid regular expression {self._pattern!r}: {what}")

    def _peek(self) -> str:
        return self._pattern[self._position : self._position + 1]

    def _alternatives(self) -> _Piece:
        """Read up to the group's end; flags that are set inside end with it."""
        outer = self._flags
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._fail(f"more than {_MAX_DEPTH} nested groups")
        branches: list[list[_Piece]] = [[]]
        while (character := self._peek()) and character != ")":
            if character == "|":
                self._position += 1
                branches.append([])
                continue
            quantifier = _QUANTIFIER.match(self._pattern, self._position)
            if quantifier:
                self._fail(f"missing argument to repetition operator {quantifier[0]!r}")
            atom = self._atom()
            if atom is not None:  # None: it only set flags.
                branches[-1].append(self._quantified(atom))
        self._depth -= 1
        self._flags = outer
        pieces = [piece for branch in branches for piece in branch]
        return _Piece(
            text="|".join("".join(piece.text for piece in branch) for branch in branches),
            tree=Choice(tuple(Chain(tuple(one.tree for one in items)) for items in branches)),
            choices=sum(piece.choices for piece in pieces) + (len(branches) > 1),
            repeats=max((piece.repeats for piece in pieces), default=1),
            tangled=any(piece.tangled for piece in pieces),
            branches=max(len(branches), *(piece.branches for piece in pieces), 1),
        )

    def _quantified(self, atom: _Piece) -> _Piece:
        match = _QUANTIFIER.match(self._pattern, self._position)
        if match is None:
            return atom
        self._position = match.end()
        quantifier = match[0]
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(quantifier, (0, None))
        if match[1]:
            low = int(match[1])
            high = low if not match[2] else int(match[3]) if match[3] else None
            most = low if high is None else high
            # RE2 multiplies nested repetitions.
            atom = replace(atom, repeats=atom.repeats * max(most, 1))
            if max(low, atom.repeats) > _MAX_REPEAT or (high is not None and low > high):
                self._fail(f"invalid repeat count {quantifier!r}")
        lazy = self._flags.ungreedy
        if self._peek() == "?":
            self._position += 1
            lazy = not lazy
        again = _QUANTIFIER.match(self._pattern, self._position)
        if again:
            self._fail(f"invalid nested repetition operator {quantifier + again[0]!r}")
        return atom.repeated(quantifier, low, high, lazy=lazy)

    def _atom(self) -> _Piece | None:
        character = self._peek()
        if character == "(":
            return self._group()
        if character == "[":
            return self._cased(self._bracket())
        if character == "\\":
            return self._escape()
        self._position += 1
        if character == ".":
            return _one("(?s:.)" if self._flags.dot_all else r"[^\n]")
        if character == "^":
            return _place("(?m:^)" if self._flags.multi_line else r"(?:\A)")
        if character == "$":
            return _place("(?m:$)" if self._flags.multi_line else r"(?:\Z)")
        return self._cased(re.escape(character))

    def _cased(self, atom: str) -> _Piece:
        return _one(f"(?i:{atom})" if self._flags.ignore_case else atom)

    def _group(self) -> _Piece | None:
        self._position += 1
        if self._peek() != "?":
            return self._captured("(")
        match = _GROUP.match(self._pattern, self._position)
        if match is None:
            opening = self._pattern[self._position - 1 : self._position + 3]
            self._fail(f"unsupported group {opening!r}; RE2 has no look-around and no conditions")
            return None
        name, on, off, end = match.groups()
        if end == ")" and not on and not off:
            self._fail("missing argument to group '(?)'")
        self._position = match.end()
        if name:
            if name in self.names:
                self._fail(f"duplicate group name {name!r}")
            self.names[name] = self._groups + 1
            return self._captured("(" if name[0].isdigit() else f"(?P<{name}>")
        outer = self._flags
        self._flags = replace(
            outer,
            **{_FLAG_NAMES[flag]: True for flag in on},
            **{_FLAG_NAMES[flag]: False for flag in off or "" if flag not in on},
        )
        if end == ")":
            return None
        group = self._close("(?:")
        self._flags = outer
        return group

    def _captured(self, opening: str) -> _Piece:
        self._groups += 1
        number = self._groups
        piece = self._close(opening)
        return replace(piece, tree=CaptureGroup(piece.tree, number))

    def _close(self, opening: str) -> _Piece:
        body = self._alternatives()
        if self._peek() != ")":
            self._fail("missing closing )")
        self._position += 1
        return replace(body, text=f"{opening}{body.text})")

    def _escape(self) -> _Piece:
        character = self._pattern[self._position + 1 : self._position + 2]
        if character in _PERL or character.lower() in _PERL:
            return _one(_class(self._perl(character)))  # ASCII; case makes no difference to these.
        if character and character in "bBAz":
            self._position += 2
            # Python's \B does not match an empty text before 3.14.
            not_boundary = r"(?a:\B|\A\Z)"
            places = {"b": r"(?a:\b)", "B": not_boundary, "A": r"(?:\A)", "z": r"(?:\Z)"}
            return _place(places[character])
        if character == "Q":
            end = self._pattern.find(r"\E", self._position)
            literal = self._pattern[self._position + 2 : end if end >= 0 else None]
            self._position = end + 2 if end >= 0 else len(self._pattern)
            pieces = [self._cased(re.escape(one)) for one in literal]
            tree = Chain(tuple(piece.tree for piece in pieces))
            return _Piece("".join(piece.text for piece in pieces), tree)
        return self._cased(re.escape(self._character()))

    def _perl(self, character: str) -> Ranges:
        self._position += 2
        ranges = _PERL[character.lower()]
        return ranges if character.islower() else _complement(ranges)

    def _character(self) -> str:
        """Read one character, escaped or not."""
        if self._peek() != "\\":
            self._position += 1
            return self._pattern[self._position - 1]
        if match := _NUMERIC_ESCAPE.match(self._pattern, self._position):
            short, long, octal = match.groups()
            code = int(octal, 8) if octal else int(short or long, 16)
            if code > _LAST:
                self._fail(f"invalid escape sequence {match[0]!r}")
            self._position = match.end()
            return chr(code)
        character = self._pattern[self._position + 1 : self._position + 2]
        self._position += 2
        if character in _CONTROL:
            return _CONTROL[character]
        if character and character.isascii() and not character.isalnum():
            return character
        if not character:
            self._fail("trailing backslash")
        hint = "; RE2 has no back-references" if character.isdigit() else ""
        hint = r"; \p{...} is not supported here" if character in "pP" else hint
        self._fail(f"invalid escape sequence '\\{character}'{hint}")
        return ""

    def _bracket(self) -> str:
        start = self._position
        self._position += 1
        negated = self._peek() == "^"
        self._position += negated
        ranges: Ranges = []
        first = True
        while self._peek() != "]" or first:
            if not self._peek():
                self._fail(f"missing closing ]: {self._pattern[start:]!r}")
            first = False
            ranges += self._bracket_item()
        self._position += 1
        return _class(ranges, negated=negated)

    def _bracket_item(self) -> Ranges:
        pattern, start = self._pattern, self._position
        if match := _POSIX_CLASS.match(pattern, start):
            posix = _POSIX.get(match[2])
            if posix is None:
                self._fail(f"invalid character class {match[0]!r}")
                return []
            self._position = match.end()
            return _complement(posix) if match[1] else posix
        escaped = pattern[start + 1 : start + 2] if pattern[start] == "\\" else ""
        if escaped and escaped.lower() in _PERL:
            return self._perl(escaped)
        low = high = self._character()
        if self._peek() == "-" and pattern[self._position + 1 : self._position + 2] not in {
            "]",
            "",
        }:
            self._position += 1
            high = self._character()
            if high < low:
                self._fail(f"invalid character class range {pattern[start : self._position]!r}")
        return [(ord(low), ord(high))]


def _one(text: str) -> _Piece:
    return _Piece(text, Atom(text))


def _place(text: str) -> _Piece:
    return _Piece(text, Atom(text, is_place=True))
