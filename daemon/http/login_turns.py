"""Login turns: in which order waiting logins are verified, since one takes up to a quarter second.

By the network of the client: that of an IPv4 address is itself, of an IPv6 address its /64, which
is what one host has. Networks take turns, and those without a wrong password go before those with
one, of which every fourth turn is. Pure.
"""

from __future__ import annotations

import functools
import ipaddress
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")
MAX_WAITING = 16
"""At a quarter of a second each, the longest that bcrypt may take here, the last waits four."""
MAX_WAITING_OF_NETWORK = 4
_SUSPECT_TURN = 4


@functools.lru_cache(maxsize=1024)
def network(address: str) -> str:
    """Return the network of a client's address, as a key."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:  # a UNIX socket
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        mapped = parsed.ipv4_mapped
        return f"{parsed.packed[:8].hex()}::/64" if mapped is None else str(mapped)
    return str(parsed)


def surplus(origins: Mapping[T, str], limit: int) -> list[T]:
    """Return which connections to close, given each with its network, the oldest first.

    The oldest of the network with the most: who opens them endlessly loses its own, and not that of
    a first login that waits for its turn.
    """
    by_network: dict[str, deque[T]] = {}
    for connection, origin in origins.items():
        by_network.setdefault(origin, deque()).append(connection)
    return [
        max(by_network.values(), key=len).popleft() for _ in range(max(len(origins) - limit, 0))
    ]


class LoginTurns(Generic[T]):
    """Logins that wait, by network; for one thread at a time."""

    def __init__(self) -> None:
        """Start empty."""
        self._networks: tuple[dict[str, deque[T]], dict[str, deque[T]]] = ({}, {})
        """Without a wrong password, and with one; those whose turn is next come first."""
        self._turns = 0

    def __len__(self) -> int:
        """Return how many wait."""
        return sum(len(waiting) for part in self._networks for waiting in part.values())

    def put(self, login: T, origin: str, *, is_suspect: bool) -> T | None:
        """Add a login from a network; return one that is refused for it, perhaps the same."""
        part = self._networks[is_suspect]
        if len(part.get(origin, ())) >= MAX_WAITING_OF_NETWORK:
            return login
        refused = None
        if len(self) >= MAX_WAITING:
            suspects = self._networks[True]
            if is_suspect or not suspects:
                return login
            last = next(reversed(suspects))
            refused = suspects[last].pop()
            if not suspects[last]:
                del suspects[last]
        part.setdefault(origin, deque()).append(login)
        return refused

    def popleft(self) -> T:
        """Return the next one. Errors: IndexError."""
        fresh, suspects = self._networks
        self._turns += 1
        is_suspect = not fresh or (bool(suspects) and self._turns % _SUSPECT_TURN == 0)
        part = self._networks[is_suspect]
        if not part:
            raise IndexError("no login waits")
        origin = next(iter(part))
        waiting = part.pop(origin)
        login = waiting.popleft()
        if waiting:  # behind the other networks
            part[origin] = waiting
        return login
