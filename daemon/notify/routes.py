"""Routes: which server may be tried for which recipient, and when. Pure.

A restart does not reset it: state.db stores `RouteState`.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.notify.refusal import (
    MAX_ATTEMPTS_SECONDS,
    UNANSWERED_ATTEMPTS,
    Fault,
    next_seconds,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DOCUMENT = "mail_routes"
"""Name of the document of state.db."""
NEVER = float("inf")
ANYTIME = float("-inf")
ALL = ""
"""In place of a recipient: the server refuses every mail."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A server refuses a recipient, or everything: one mail at a time probes whether it still does.

    `first_seconds` and `tried_seconds` are of the first and the last attempt, `error` is what the
    server replied.
    """

    fault: Fault
    attempts: int
    first_seconds: float
    tried_seconds: float
    error: str = ""

    @property
    def next_seconds(self) -> float:
        """Return when it is probed next."""
        return next_seconds(self.fault, self.attempts, self.first_seconds, self.tried_seconds)


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A mail that was completely sent, so many times, without a reply."""

    attempts: int
    tried_seconds: float

    @property
    def is_exhausted(self) -> bool:
        """Whether it is not sent alone again."""
        return self.attempts >= UNANSWERED_ATTEMPTS


@dataclass(frozen=True, slots=True)
class RouteState:
    """What survives a restart: holds by server and recipient, and by ID the unanswered mails."""

    holds: dict[str, dict[str, Hold]] = field(default_factory=dict)
    unanswered: dict[str, Unanswered] = field(default_factory=dict)


class Routes:
    """The holds of one receiver. `now` is passed in, in seconds."""

    def __init__(self) -> None:
        """Start with every route open."""
        self._holds: dict[tuple[str, str], Hold] = {}
        self._unanswered: dict[str, Unanswered] = {}
        self.changes = 0
        """Counts the changes, so that each is stored."""

    @property
    def state(self) -> RouteState:
        """Return what is to be stored."""
        holds: dict[str, dict[str, Hold]] = {}
        for (server, recipient), hold in sorted(self._holds.items()):
            holds.setdefault(server, {})[recipient] = hold
        return RouteState(holds, dict(self._unanswered))

    def restore(self, state: RouteState) -> None:
        """Restore the stored state; what happened since the start is newer."""
        for server, holds in state.holds.items():
            for recipient, hold in holds.items():
                self._holds.setdefault((server, recipient), hold)
        self._unanswered = {**state.unanswered, **self._unanswered}

    # --- holds

    def holds(self, server: str, recipient: str) -> tuple[Hold, ...]:
        """Return what prevents delivery to a recipient by a server."""
        found = (self._holds.get((server, each)) for each in dict.fromkeys((ALL, recipient)))
        return tuple(hold for hold in found if hold is not None)

    def due(self, server: str, recipient: str, created_seconds: float, now: float) -> float:
        """Return when a mail may be tried; ANYTIME if nothing prevents it.

        A mail that is too old is not used for probing.
        """
        found = self.holds(server, recipient)
        if found and now - created_seconds > MAX_ATTEMPTS_SECONDS:
            return NEVER
        return max((hold.next_seconds for hold in found), default=ANYTIME)

    def begin(self, server: str, recipients: Iterable[str], now: float) -> dict[str, Hold]:
        """Count an attempt; return the holds before, by recipient, for `undo`.

        Before it begins: a kill must not repeat it.
        """
        before = {
            each: hold
            for each in (ALL, *recipients)
            if (hold := self._holds.get((server, each))) is not None
        }
        for each, hold in before.items():
            self._put(server, each, replace(hold, attempts=hold.attempts + 1, tried_seconds=now))
        return before

    def undo(self, server: str, before: Mapping[str, Hold]) -> None:
        """Undo `begin`, since the server did not decide: the connection failed."""
        for each, hold in before.items():
            self._put(server, each, hold)

    def refused(self, server: str, recipient: str, fault: Fault, error: str, now: float) -> None:
        """Hold a route; a refusal for another reason begins with a short interval again."""
        found = self._holds.get((server, recipient))
        if found is None:
            self._put(server, recipient, Hold(fault, 1, now, now, error))
        elif found.fault is fault:
            self._put(server, recipient, replace(found, tried_seconds=now, error=error))
        else:
            self._put(server, recipient, Hold(fault, 1, found.first_seconds, now, error))

    def accepted(self, server: str, recipient: str) -> bool:
        """Open a route; return whether there was a hold."""
        found = self._holds.pop((server, recipient), None)
        self.changes += found is not None
        return found is not None

    def open_all(self, now: float) -> bool:
        """Let every route be tried now: an administrator may have corrected it."""
        for (server, recipient), hold in list(self._holds.items()):
            since = hold.next_seconds - hold.tried_seconds
            early = replace(hold, tried_seconds=min(hold.tried_seconds, now - since))
            if early.next_seconds > now:  # no attempt was left within the five days
                early = replace(early, attempts=1, first_seconds=now, tried_seconds=now - since)
            self._put(server, recipient, early)
        return bool(self._holds)

    def keep(self, servers: Iterable[str], recipients: Iterable[str]) -> None:
        """Forget the routes that are no longer configured."""
        names, to = set(servers), {ALL, *recipients}
        for server, recipient in list(self._holds):
            if server not in names or recipient not in to:
                self.accepted(server, recipient)

    def _put(self, server: str, recipient: str, hold: Hold) -> None:
        self._holds[server, recipient] = hold
        self.changes += 1

    # --- mails without a reply

    def unanswered(self, message_id: str) -> Unanswered | None:
        """Return the attempts at a mail that a server may have accepted."""
        return self._unanswered.get(message_id)

    def no_answer(self, message_id: str, now: float, attempts: int = 1) -> Unanswered:
        """Count an attempt at a mail that was sent completely, without a reply."""
        found = self._unanswered.get(message_id)
        made = Unanswered(attempts + (found.attempts if found else 0), now)
        self._unanswered[message_id] = made
        self.changes += 1
        return made

    def patience_until(self, message_id: str) -> float:
        """Return when a mail that may have been accepted is sent again; ANYTIME if it was not."""
        found = self._unanswered.get(message_id)
        if found is None:
            return ANYTIME
        return next_seconds(
            Fault.UNANSWERED, found.attempts, found.tried_seconds, found.tried_seconds
        )

    def forget(self, message_ids: Iterable[str]) -> None:
        """Forget mails that are no longer in the outbox."""
        for each in message_ids:
            self.changes += self._unanswered.pop(each, None) is not None
