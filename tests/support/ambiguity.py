r"""Whether a pattern fits in exponentially many ways, so that a text can hold re for ever.

Python's re tries all ways in which a repeated group can be laid on a text before it says that the
text does not match. (?:[A-Z]\w*| )+ lays AAAA on itself in eight ways, and twenty more letters
take a million times as long.

The positions of a pattern are the states of an automaton (Glushkov). It is exponentially ambiguous
if one text leads from a state back to it in two ways (Weber and Seidl, On the degree of ambiguity
of finite automata, 1991), that is if the pairs (q, q) and (p, p') with other states p and p' are
reachable from each other. What is counted beside the states are the ways of one step: (a*)* has
two from a to a.
"""

from __future__ import annotations

import importlib
import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

op = importlib.import_module("re._constants")
_parser = importlib.import_module("re._parser")

Node: TypeAlias = Any
"""A part of the tree that re's own parser makes of a pattern; it has no types."""
MANY = 10
"""A group that may be repeated as often is a loop: two to the tenth ways are a thousand."""
_CHARACTERS = frozenset(range(0x180))
_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}


@dataclass
class Part:
    """A part of a pattern: the positions that it may begin and end with."""

    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    is_nullable: bool = True


class Automaton:
    """The positions of one repeated group, the characters of each and how many ways lead on."""

    def __init__(self, flags: int) -> None:
        self._flags = flags
        self.characters: list[frozenset[int]] = []
        self.ways: dict[tuple[int, int], int] = {}

    def sequence(self, parts: Node) -> Part:
        """Return the part that a list of parts makes, each after the other."""
        whole = Part()
        for part in parts:
            whole = self._joined(whole, self._part(*part))
        return whole

    def repeated(self, part: Part) -> Part:
        """Return the part any number of times."""
        self._lead(part.last, part.first)
        return Part(part.first, part.last, is_nullable=True)

    def _lead(self, origins: list[int], targets: list[int]) -> None:
        for origin in origins:
            for target in targets:
                self.ways[origin, target] = self.ways.get((origin, target), 0) + 1

    def _joined(self, left: Part, right: Part) -> Part:
        self._lead(left.last, right.first)
        return Part(
            left.first + (right.first if left.is_nullable else []),
            right.last + (left.last if right.is_nullable else []),
            left.is_nullable and right.is_nullable,
        )

    def _position(self, characters: frozenset[int]) -> Part:
        self.characters.append(characters)
        number = len(self.characters) - 1
        return Part([number], [number], is_nullable=False)

    def _part(self, kind: Node, value: Node) -> Part:
        if kind is op.BRANCH:
            branches = [self.sequence(branch) for branch in value[1]]
            return Part(
                [position for branch in branches for position in branch.first],
                [position for branch in branches for position in branch.last],
                any(branch.is_nullable for branch in branches),
            )
        if kind is op.SUBPATTERN:
            return self.sequence(value[3])
        if kind in {op.MAX_REPEAT, op.MIN_REPEAT}:
            return self._repetition(*value)
        if kind in {op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN}:
            return self._position(characters(kind, value, self._flags))
        return Part()  # a condition on the text around, or what never tries twice

    def _repetition(self, least: int, most: Node, body: Node) -> Part:
        if most is op.MAXREPEAT or most >= MANY:
            part = self.repeated(self.sequence(body))
            return part if least == 0 else Part(part.first, part.last, self._is_empty(body))
        # x{1,3} is x(?:x(?:x)?)?: the second one never without the first.
        copies = [self.sequence(body) for _ in range(most)]
        for copy, following in itertools.pairwise(copies):
            self._lead(copy.last, following.first)
        ends = [position for copy in copies[max(least, 1) - 1 :] for position in copy.last]
        return Part(copies[0].first if copies else [], ends, least == 0 or self._is_empty(body))

    def _is_empty(self, body: Node) -> bool:
        return Automaton(self._flags).sequence(body).is_nullable

    def is_exponential(self) -> bool:
        """Return whether a text leads from a position back to it in two ways."""
        graph: dict[tuple[int, int], set[tuple[int, int]]] = {}
        following: dict[int, set[int]] = {}
        for origin, target in self.ways:
            following.setdefault(origin, set()).add(target)
        positions = range(len(self.characters))
        for left in positions:
            for right in positions:
                graph[left, right] = {
                    (one, other)
                    for one in following.get(left, ())
                    for other in following.get(right, ())
                    if self.characters[one] & self.characters[other]
                }
        reached = {position: _reached(graph, (position, position)) for position in positions}
        for (origin, target), count in self.ways.items():
            if count > 1 and (origin, origin) in _reached(graph, (target, target)):
                return True
        return any(
            left != right and (position, position) in _reached(graph, (left, right))
            for position in positions
            for left, right in reached[position]
        )


def _reached(
    graph: dict[tuple[int, int], set[tuple[int, int]]], start: tuple[int, int]
) -> set[tuple[int, int]]:
    pairs: set[tuple[int, int]] = set()
    ahead = [start]
    while ahead:
        for pair in graph[ahead.pop()]:
            if pair not in pairs:
                pairs.add(pair)
                ahead.append(pair)
    return pairs


def characters(kind: Node, value: Node, flags: int) -> frozenset[int]:
    """Return which of the first characters of Unicode one place of a pattern takes."""
    if kind is op.ANY:
        return _CHARACTERS if flags & re.DOTALL else _CHARACTERS - {10}
    items = value if kind is op.IN else [(op.LITERAL, value)]
    is_negated = kind is op.NOT_LITERAL or items[0][0] is op.NEGATE
    taken: set[int] = set()
    for name, content in items:
        if name is op.LITERAL:
            taken.add(content)
        elif name is op.RANGE:
            taken.update(range(content[0], min(content[1], 0x17F) + 1))
        elif name is op.CATEGORY:
            written = re.compile(_CATEGORIES[content], flags & re.ASCII)
            taken.update(number for number in _CHARACTERS if written.match(chr(number)))
    if flags & re.IGNORECASE:
        taken |= {
            ord(case)
            for one in taken
            for case in (chr(one).lower(), chr(one).upper())
            if len(case) == 1
        }
    return _CHARACTERS - taken if is_negated else frozenset(taken)


def _loops(parts: Node) -> Iterator[Node]:
    """Yield the bodies of the outermost loops of a pattern."""
    for kind, value in parts:
        if kind in {op.MAX_REPEAT, op.MIN_REPEAT}:
            if value[1] is op.MAXREPEAT or value[1] >= MANY:
                yield value[2]
            else:
                yield from _loops(value[2])
        elif kind is op.BRANCH:
            for branch in value[1]:
                yield from _loops(branch)
        elif kind is op.SUBPATTERN:
            yield from _loops(value[3])
        elif kind in {op.ASSERT, op.ASSERT_NOT}:
            yield from _loops(value[1])


def is_exponential(pattern: str, flags: int = 0) -> bool:
    """Return whether a text can hold re.search(pattern, text) for ever.

    Raises: re.error if it is no pattern.
    """
    tree = _parser.parse(pattern, flags)
    for body in _loops(tree):
        automaton = Automaton(tree.state.flags)
        automaton.repeated(automaton.sequence(body))
        if automaton.is_exponential():
            return True
    return False
