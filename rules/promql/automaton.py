"""Regular expressions as a tree, and an automaton that follows all alternatives in parallel.

Time grows with the text's length times the states, whatever the pattern. Of several matches the one
is chosen that backtracking would find first, as in Perl. Source: Thompson, 'Regular Expression
Search Algorithm', 1968; Go, package regexp, for the order of alternatives and for the iteration of
a loop that a group refers to.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_STATES = 20_000


class RegexError(ValueError):
    """A pattern that RE2 would refuse, or that cannot be translated or costs too much."""


class Steps:
    """Budget that several searches share: a step is a state at a position of the text."""

    __slots__ = ("left",)

    def __init__(self, maximum: int) -> None:
        """Start with an unused budget."""
        self.left = maximum

    def spend(self, count: int) -> None:
        """Count steps. Errors: RegexError if the budget is exceeded."""
        self.left -= count
        if self.left < 0:
            raise RegexError(
                "too expensive: a regular expression for a shorter text, or fewer of them"
            )


# --- the parts of a pattern ---


@dataclass(frozen=True, slots=True)
class Atom:
    """Matches one character or a position between two, in the notation of `re`."""

    text: str
    is_place: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """Parts after one another."""

    items: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Alternatives, the first one preferred."""

    items: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A repeated part; `high` None is any number, `lazy` prefers few."""

    item: Tree
    low: int
    high: int | None
    lazy: bool


@dataclass(frozen=True, slots=True)
class CaptureGroup:
    """A part whose text can be read by its number, from 1."""

    item: Tree
    number: int


Tree = Atom | Chain | Choice | Repeat | CaptureGroup


def nullable(tree: Tree) -> bool:
    """Return whether a part may match the empty text."""
    match tree:
        case Atom():
            return tree.is_place
        case Chain():
            return all(map(nullable, tree.items))
        case Choice():
            return any(map(nullable, tree.items))
        case Repeat():
            return not tree.low or nullable(tree.item)
        case CaptureGroup():
            return nullable(tree.item)


_REFERENCE = re.compile(r"\$(?:\$|\{(\w+)\}|(\w+))")


@dataclass(frozen=True, slots=True)
class Match:
    """Result of a search in a text."""

    text: str
    spans: tuple[int, ...]
    """Begin and end of the whole match and of each group; -1 for a group that did not take part."""
    names: Mapping[str, int]
    """The numbers of groups that have a name."""

    @property
    def begin(self) -> int:
        """Return where it begins."""
        return self.spans[0]

    @property
    def end(self) -> int:
        """Return where it ends."""
        return self.spans[1]

    def group(self, number: int) -> str:
        """Return a group's text, '' if it has none; 0 is the whole match."""
        begin, end = self.spans[2 * number : 2 * number + 2] or (-1, -1)
        return self.text[begin:end] if begin >= 0 <= end else ""

    def expanded(self, replacement: str) -> str:
        """Return a replacement with `$1`, `${1}` and `${name}` replaced by the groups.

        Source: Go, package regexp, Expand: a name is as long as possible, an unknown one is empty,
        a number with a leading zero is a name, `$$` is a dollar, and so is a `$` without a name.
        """
        return _REFERENCE.sub(self._referred, replacement)

    def _referred(self, reference: re.Match[str]) -> str:
        name = reference[1] or reference[2]
        if name is None:
            return "$"
        if name.isascii() and name.isdecimal() and (name == "0" or name[0] != "0"):
            return self.group(int(name)) if len(name) <= 8 else ""
        return self.group(self.names[name]) if name in self.names else ""


_Thread = tuple[int, tuple[int, ...]]
"""A state, and the begin and end of the groups on the path to it."""


class Automaton:
    """The states of a pattern. Errors: RegexError if there are too many."""

    def __init__(self, tree: Tree, groups: int) -> None:
        """Build them; `groups` is how many the tree has."""
        self._regexes: dict[str, re.Pattern[str]] = {}
        # Of each: the atom to match, whether that is a position, the span to set, the next states.
        self._states: list[tuple[re.Pattern[str] | None, bool, int, tuple[int, ...]]] = []
        self._nothing = (-1,) * (2 * groups + 2)
        self._end = self._add()
        self._start = self._build(CaptureGroup(tree, 0), self._end)
        self.size = len(self._states)

    def _add(self, *targets: int, atom: Atom | None = None, span: int = -1) -> int:
        if len(self._states) >= MAX_STATES:
            raise RegexError("too large")
        regex = None
        if atom is not None:
            regex = self._regexes.get(atom.text) or re.compile(atom.text)
            self._regexes[atom.text] = regex
        self._states.append((regex, atom is not None and atom.is_place, span, targets))
        return len(self._states) - 1

    def _build(self, tree: Tree, following: int) -> int:
        """Add the states of a part; return the first one."""
        match tree:
            case Atom():
                return self._add(following, atom=tree)
            case Chain():
                for item in reversed(tree.items):
                    following = self._build(item, following)
                return following
            case Choice():
                return self._add(*[self._build(item, following) for item in tree.items])
            case CaptureGroup():
                end = self._add(following, span=2 * tree.number + 1)
                return self._add(self._build(tree.item, end), span=2 * tree.number)
            case Repeat():
                return self._repeated(tree, following)

    def _repeated(self, tree: Repeat, following: int) -> int:
        begin, copies = following, tree.low
        if tree.high is not None:
            for _ in range(tree.high - tree.low):
                begin = self._maybe(self._build(tree.item, begin), following, lazy=tree.lazy)
        else:
            loop = self._add()
            begin = self._build(tree.item, loop)
            self._states[loop] = (
                *(None, False, -1),
                (following, begin) if tree.lazy else (begin, following),
            )
            if copies:
                copies -= 1
            elif nullable(tree.item):  # otherwise an empty iteration would be preferred to none
                begin = self._maybe(begin, following, lazy=tree.lazy)
            else:
                begin = loop
        for _ in range(copies):
            begin = self._build(tree.item, begin)
        return begin

    def _maybe(self, begin: int, following: int, *, lazy: bool) -> int:
        return self._add(*((following, begin) if lazy else (begin, following)))

    def matches(self, text: str, steps: Steps | None = None) -> tuple[int, ...] | None:
        """Return the spans where the pattern matches all of the text.

        Errors: RegexError of `steps`.
        """
        ways: list[_Thread] = [(self._start, self._nothing)]
        for position in range(len(text)):
            ways = self._passed(self._reached(ways, text, position, steps), text, position)
            if not ways:
                return None
        ends = self._reached(ways, text, len(text), steps)
        return next((spans for state, spans in ends if state == self._end), None)

    def find(self, text: str, begin: int, steps: Steps) -> tuple[int, ...] | None:
        """Return the spans of the first match from there on. Errors: RegexError of `steps`."""
        found = None
        ways: list[_Thread] = []
        for position in range(begin, len(text) + 1):
            if found is None:
                ways.append((self._start, self._nothing))
            elif not ways:
                break
            reached = self._reached(ways, text, position, steps)
            for index, (state, spans) in enumerate(reached):
                if state == self._end:  # later ones have a lower preference
                    found, reached = spans, reached[:index]
                    break
            ways = self._passed(reached, text, position) if position < len(text) else []
        return found

    def _passed(self, threads: Sequence[_Thread], text: str, position: int) -> list[_Thread]:
        """Return the paths that continue after the character there."""
        passed = []
        for state, spans in threads:
            regex, _, _, targets = self._states[state]
            if regex is not None and regex.match(text, position):
                passed.append((targets[0], spans))
        return passed

    def _reached(
        self, threads: Sequence[_Thread], text: str, position: int, steps: Steps | None = None
    ) -> list[_Thread]:
        """Return the states that can be reached without a character, the preferred paths first."""
        reached: list[_Thread] = []
        seen: set[int] = set()
        waiting = [*reversed(threads)]
        while waiting:
            way = waiting.pop()
            state, spans = way
            if state in seen:
                continue
            seen.add(state)
            regex, is_place, span, targets = self._states[state]
            if state == self._end or (regex is not None and not is_place):
                reached.append(way)
                continue
            if regex is not None and not regex.match(text, position):
                continue
            if span >= 0:
                spans = (*spans[:span], position, *spans[span + 1 :])
            waiting.extend((target, spans) for target in reversed(targets))
        if steps is not None:
            steps.spend(len(seen))
        return reached
