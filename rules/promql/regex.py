r"""RE2's regular expressions, translated to Python's `re`.

Source: RE2, 'Syntax', with the Perl flags that Go's regexp sets. What RE2 does not have
(look-around, back-references, possessive quantifiers) is refused, so that no rule works here and
fails elsewhere.
Limits: `\p{...}` is refused because `re` has no such classes. Where `re` could try ways without
end, a value is first matched in linear time, by following all ways at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Ranges = list[tuple[int, int]]
"""Code points, both ends included."""


class RegexError(ValueError):
    """A pattern that RE2 would refuse, or that cannot be translated."""


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
_MAXIMUM_REPEAT = 1000
_MAXIMUM_DEPTH = 50
_MAXIMUM_STATES = 20_000
_FEW_CHOICES = 3
"""Up to here backtracking costs at most the cube of a value's length."""
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


@dataclass(frozen=True, slots=True)
class Anchored:
    """A pattern that must match a whole value."""

    matches: Callable[[str], bool]
    """In a time that grows no faster than the cube of the value's length."""
    fullmatch: Callable[[str], re.Match[str] | None]
    """As `re`'s, for a pattern whose groups matter; what does not match is found out as above."""
    states: int = 0
    """How many ways at most are followed through a value, where that is what takes the time."""


def compile_anchored(pattern: str) -> Anchored:
    """Compile a pattern of a label matcher; the dot matches all."""
    piece, regex = _compile(pattern, _Flags(dot_all=True))
    fullmatch = regex.fullmatch
    if piece.choices <= _FEW_CHOICES:
        return Anchored(lambda value: fullmatch(value) is not None, fullmatch)
    automaton = _Automaton(pattern, piece.tree)
    matches = automaton.matches
    return Anchored(
        matches, lambda value: fullmatch(value) if matches(value) else None, automaton.size
    )


def compile_search(pattern: str) -> re.Pattern[str]:
    """Compile a pattern as Go's `regexp.MustCompile` does: to be used with `search` or `sub`."""
    return _compile(pattern, _Flags())[1]


def _compile(pattern: str, flags: _Flags) -> tuple[_Piece, re.Pattern[str]]:
    piece = _Translator(pattern, flags).translate()
    try:
        return piece, re.compile(piece.text)
    except (re.error, OverflowError, RecursionError) as error:
        message = f"cannot translate {pattern!r}: {error}"
        raise RegexError(message) from error


# --- the parts of a pattern ---


@dataclass(frozen=True, slots=True)
class _Atom:
    """What matches one character, or a place between two."""

    text: str
    is_place: bool = False


@dataclass(frozen=True, slots=True)
class _Sequence:
    items: tuple[_Tree, ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    items: tuple[_Tree, ...]


@dataclass(frozen=True, slots=True)
class _Repeat:
    item: _Tree
    low: int
    high: int | None


_Tree = _Atom | _Sequence | _Choice | _Repeat


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a pattern, as Python's text and as a tree."""

    text: str
    tree: _Tree
    choices: int = 0
    """In how many places `re` may come back to try another way."""
    repeats: int = 1
    """How often its innermost part is repeated at most, by numbers in braces."""

    def repeated(self, quantifier: str, low: int, high: int | None) -> _Piece:
        # What \Q quotes is the only sequence outside of a group: its last character repeats.
        match self.tree:
            case _Sequence(items=(*first, last)):
                tree: _Tree = _Sequence((*first, _Repeat(last, low, high)))
            case _:
                tree = _Repeat(self.tree, low, high)
        if high is None:
            choices = 1000 if self.choices else 1
        else:
            choices = self.choices * high + (low != high)
        return _Piece(self.text + quantifier, tree, choices, self.repeats)


class _Automaton:
    """All ways through a pattern, followed at once: time linear in the value.

    Source: Thompson, 'Regular Expression Search Algorithm', 1968.
    """

    def __init__(self, pattern: str, tree: _Tree) -> None:
        self._pattern = pattern
        self._atoms: dict[str, re.Pattern[str]] = {}
        # Of each state: the atom to pass, whether that is a place, and where to go then.
        self._states: list[tuple[re.Pattern[str] | None, bool, tuple[int, ...]]] = []
        self._end = self._add(None, ())
        self._start = self._build(tree, self._end)
        self.size = len(self._states)

    def _add(self, atom: _Atom | None, targets: tuple[int, ...]) -> int:
        if len(self._states) >= _MAXIMUM_STATES:
            message = f"invalid regular expression {self._pattern!r}: too large"
            raise RegexError(message)
        regex = None
        if atom is not None:
            regex = self._atoms.get(atom.text) or re.compile(atom.text)
            self._atoms[atom.text] = regex
        self._states.append((regex, atom is not None and atom.is_place, targets))
        return len(self._states) - 1

    def _build(self, tree: _Tree, following: int) -> int:
        """Add the states of a part; return where it begins."""
        match tree:
            case _Atom():
                return self._add(tree, (following,))
            case _Sequence():
                for item in reversed(tree.items):
                    following = self._build(item, following)
                return following
            case _Choice():
                return self._add(None, tuple(self._build(item, following) for item in tree.items))
        start = following
        if tree.high is None:
            start = self._add(None, ())
            self._states[start] = (None, False, (self._build(tree.item, start), following))
        else:
            for _ in range(tree.high - tree.low):
                start = self._add(None, (self._build(tree.item, start), following))
        for _ in range(tree.low):
            start = self._build(tree.item, start)
        return start

    def matches(self, value: str) -> bool:
        current = self._reached([self._start], value, 0)
        for position in range(len(value)):
            passed: list[int] = []
            for state in current:
                regex, _, targets = self._states[state]
                if regex is not None and regex.match(value, position):
                    passed.extend(targets)
            current = self._reached(passed, value, position + 1)
            if not current:
                return False
        return self._end in current

    def _reached(self, states: Iterable[int], value: str, position: int) -> set[int]:
        """Return the states that can be reached without passing a character."""
        waiting, seen = list(states), set(states)
        reached: set[int] = set()
        while waiting:
            state = waiting.pop()
            regex, is_place, targets = self._states[state]
            if state == self._end or (regex is not None and not is_place):
                reached.add(state)
            elif regex is None or regex.match(value, position):
                waiting.extend(new for new in targets if new not in seen)
                seen.update(targets)
        return reached


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
    """Reads the pattern once, from left to right; flags are written out at each atom.

    Python takes `(?i)` only at the start of a pattern, RE2 anywhere.
    """

    def __init__(self, pattern: str, flags: _Flags) -> None:
        self._pattern = pattern
        self._position = 0
        self._flags = flags
        self._depth = 0
        self._names: set[str] = set()

    def translate(self) -> _Piece:
        result = self._alternatives()
        if self._position < len(self._pattern):
            self._fail("unexpected )")
        return result

    def _fail(self, what: str) -> None:
        message = f"invalid regular expression {self._pattern!r}: {what}"
        raise RegexError(message)

    def _peek(self) -> str:
        return self._pattern[self._position : self._position + 1]

    def _alternatives(self) -> _Piece:
        """Read up to the group's end; flags set inside end with it."""
        outer = self._flags
        self._depth += 1
        if self._depth > _MAXIMUM_DEPTH:
            self._fail(f"more than {_MAXIMUM_DEPTH} nested groups")
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
            if atom is not None:  # None: only set flags.
                branches[-1].append(self._quantified(atom))
        self._depth -= 1
        self._flags = outer
        pieces = [piece for branch in branches for piece in branch]
        return _Piece(
            text="|".join("".join(piece.text for piece in branch) for branch in branches),
            tree=_Choice(tuple(_Sequence(tuple(one.tree for one in items)) for items in branches)),
            choices=sum(piece.choices for piece in pieces) + (len(branches) > 1),
            repeats=max((piece.repeats for piece in pieces), default=1),
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
            # RE2 multiplies what is repeated inside of what is repeated.
            atom = replace(atom, repeats=atom.repeats * max(most, 1))
            if max(low, atom.repeats) > _MAXIMUM_REPEAT or (high is not None and low > high):
                self._fail(f"invalid repeat count {quantifier!r}")
        lazy = self._flags.ungreedy
        if self._peek() == "?":
            self._position += 1
            lazy = not lazy
        again = _QUANTIFIER.match(self._pattern, self._position)
        if again:
            self._fail(f"invalid nested repetition operator {quantifier + again[0]!r}")
        return atom.repeated(quantifier + ("?" if lazy else ""), low, high)

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
            return self._close("(")
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
            if name in self._names:
                self._fail(f"duplicate group name {name!r}")
            self._names.add(name)
            return self._close("(" if name[0].isdigit() else f"(?P<{name}>")
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

    def _close(self, opening: str) -> _Piece:
        body = self._alternatives()
        if self._peek() != ")":
            self._fail("missing closing )")
        self._position += 1
        return replace(body, text=f"{opening}{body.text})")

    def _escape(self) -> _Piece:
        character = self._pattern[self._position + 1 : self._position + 2]
        if character in _PERL or character.lower() in _PERL:
            return _one(_class(self._perl(character)))  # ASCII; case makes no difference to them.
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
            tree = _Sequence(tuple(piece.tree for piece in pieces))
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
    return _Piece(text, _Atom(text))


def _place(text: str) -> _Piece:
    return _Piece(text, _Atom(text, is_place=True))
