"""Login turns: in which order waiting logins are verified, since one takes up to a quarter second.

By the network of the client: that of an IPv4 address is itself, of an IPv6 address its /64, which
is what one host has. One site has a /48 of those, and a provider a /32 of sites: blocks take turns,
then the blocks in each, so that a client with many addresses has no more turns than with one.
Those without a wrong password go before those with one, of which every fourth turn is. Pure.

Source: RFC 6177 (what a site has: more than a /64, up to a /48).
"""

from __future__ import annotations

import functools
import ipaddress
from collections import Counter
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

T = TypeVar("T")
MAX_WAITING = 16
"""At a quarter of a second each, the longest that bcrypt may take here, the last waits four."""
MAX_WAITING_OF_NETWORK = 4
_SUSPECT_TURN = 4
_NETWORK_END = "::/64"
_BLOCK_DIGITS = (8, 12, 16)
"""Hexadecimal digits of a /32, /48 and /64."""


@functools.lru_cache(maxsize=1024)
def network(address: str) -> str:
    """Return the network of a client's address, as a key."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:  # a UNIX socket
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        mapped = parsed.ipv4_mapped
        return f"{parsed.packed[:8].hex()}{_NETWORK_END}" if mapped is None else str(mapped)
    return str(parsed)


def _blocks(origin: str) -> tuple[str, ...]:
    """Return the blocks of addresses that a network is in, the largest first, and itself."""
    if not origin.endswith(_NETWORK_END):
        return (origin,)
    return tuple(origin[:digits] for digits in _BLOCK_DIGITS)


def _heaviest(paths: Sequence[tuple[str, ...]], order: Iterable[int]) -> list[int]:
    """Return which are in the block with the most, and in that in the block with the most.

    Of equal blocks it is the one that is first in `order`.
    """
    numbers = list(order)
    for depth in range(1, max(map(len, paths)) + 1):
        counts = Counter(paths[number][:depth] for number in numbers)
        block = max((paths[number][:depth] for number in numbers), key=counts.__getitem__)
        numbers = [number for number in numbers if paths[number][:depth] == block]
    return numbers


def surplus(origins: Mapping[T, str], limit: int) -> list[T]:
    """Return which connections to close, given each with its network, the oldest first.

    The oldest of the block with the most: who opens them endlessly loses its own, and not that of
    a first login that waits for its turn.
    """
    connections, closed = list(origins), []
    while len(connections) > limit:
        paths = [_blocks(origins[connection]) for connection in connections]
        closed.append(connections.pop(_heaviest(paths, range(len(paths)))[0]))
    return closed


class LoginTurns(Generic[T]):
    """Logins that wait, by network; for one thread at a time."""

    def __init__(self) -> None:
        """Start empty."""
        self._parts: tuple[list[tuple[T, tuple[str, ...]]], ...] = ([], [])
        """Without a wrong password, and with one; each login with its blocks."""
        self._last_turns: dict[tuple[str, ...], int] = {}
        """When a block had its last turn, or came, of those that wait."""
        self._turns = 0

    def __len__(self) -> int:
        """Return how many wait."""
        return sum(map(len, self._parts))

    def put(self, login: T, origin: str, *, is_suspect: bool) -> T | None:
        """Add a login from a network; return one that is refused for it, perhaps the same.

        It is the newest of the block with the most, first of those with a wrong password.
        """
        part, path = self._parts[is_suspect], _blocks(origin)
        if [other for _, other in part].count(path) >= MAX_WAITING_OF_NETWORK:
            return login
        part.append((login, path))
        for block in _prefixes(path):
            self._last_turns.setdefault(block, self._turns)
        if len(self) <= MAX_WAITING:
            return None
        crowded = self._parts[1] or part
        newest_first = range(len(crowded) - 1, -1, -1)
        refused = _heaviest([other for _, other in crowded], newest_first)[0]
        return crowded.pop(refused)[0]

    def popleft(self) -> T:
        """Return the next one. Errors: IndexError."""
        fresh, suspects = self._parts
        self._turns += 1
        is_suspect = not fresh or (bool(suspects) and self._turns % _SUSPECT_TURN == 0)
        part = self._parts[is_suspect]
        if not part:
            raise IndexError("no login waits")
        turn_by_number = [
            [self._last_turns[block] for block in _prefixes(path)] for _, path in part
        ]
        login, path = part.pop(turn_by_number.index(min(turn_by_number)))
        self._last_turns |= dict.fromkeys(_prefixes(path), self._turns)
        waiting = {block for both in self._parts for _, other in both for block in _prefixes(other)}
        self._last_turns = {b: turn for b, turn in self._last_turns.items() if b in waiting}
        return login


def _prefixes(path: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [path[:depth] for depth in range(1, len(path) + 1)]
