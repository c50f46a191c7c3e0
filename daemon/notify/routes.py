"""Routes: what waits at which server, and since when: the history of retry.py. Pure.

A restart does not reset it: state.db stores `RouteState`.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.notify import retry
from iowarden.daemon.notify.retry import (
    ANYTIME,
    NEVER,
    NO_REPLY,
    REFUSALS,
    UNCOUNTED,
    Fault,
    Hold,
    Scope,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from iowarden.daemon.notify.attempt import SendResult

DOCUMENT = "mail_routes"
"""Name of the document of state.db."""
ALL = ""
"""In place of a recipient: the server refuses every message."""
CONNECTION = "(connection)"
"""In place of a recipient: the server does not reply."""
ANY = ""
"""In place of a server: a message that one may have accepted waits at all of them."""


@dataclass(frozen=True, slots=True)
class RouteState:
    """What survives a restart.

    `holds`: by server, and by what it is about: ALL, a recipient, or the ID of a message. `tries`:
    when a server refused last, for the budget of attempts. `healed`: when it accepted again.
    """

    holds: dict[str, dict[str, Hold]] = field(default_factory=dict)
    tries: dict[str, tuple[float, ...]] = field(default_factory=dict)
    healed: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Flight:
    """A message that is being sent.

    `holds` are those before the attempt, `counted_seconds` is when it was counted as a refusal, if
    it was.
    """

    message_id: str
    server: str
    recipients: tuple[str, ...]
    begun_seconds: float
    holds: Mapping[tuple[str, str], Hold] = field(default_factory=dict)
    counted_seconds: float | None = None


class Sending(NamedTuple):
    """What the routes need of a message."""

    message_id: str
    since_seconds: float
    added_seconds: float
    """Later than the start of its waiting time if it replaced another one."""
    is_critical: bool


class Routes:
    """The holds of one receiver. `now` is passed in, in seconds."""

    def __init__(self) -> None:
        """Start with every route open."""
        self._holds: dict[tuple[str, str], Hold] = {}
        self._tries: dict[str, tuple[float, ...]] = {}
        self._reloaded: set[str] = set()
        """Refusing servers that were not tried since a reload."""
        self._healed: dict[str, float] = {}
        self._refusing: set[str] = set()
        """Servers that refused a message and accepted none since."""
        self._suspicious: set[str] = set()
        """Servers whose last refusal seems to be about its message: the next one shows it."""
        self.changes = 0
        """Counts the changes, so that each is stored."""

    @property
    def state(self) -> RouteState:
        """Return what is to be stored."""
        holds: dict[str, dict[str, Hold]] = {}
        for (server, subject), hold in sorted(self._holds.items()):
            holds.setdefault(server, {})[subject] = hold
        return RouteState(holds, dict(self._tries), dict(self._healed))

    def restore(self, state: RouteState) -> None:
        """Restore the stored state; what happened since the start is newer."""
        for server, holds in state.holds.items():
            for subject, hold in holds.items():
                self._holds.setdefault((server, subject), hold)
        self._tries = {**state.tries, **self._tries}
        self._healed = {**state.healed, **self._healed}

    # --- when

    def holds(self, server: str, recipient: str, message_id: str = "") -> tuple[Hold, ...]:
        """Return what prevents delivery to a recipient by a server."""
        keys = [(server, CONNECTION), (server, ALL), (server, recipient)]
        if message_id:
            keys += [(server, message_id), (ANY, message_id)]
        holds = (self._holds.get(key) for key in dict.fromkeys(keys))
        return tuple(hold for hold in holds if hold is not None)

    def message_hold(self, server: str, message_id: str) -> Hold | None:
        """Return what prevents delivery of this message by a server, for any recipient."""
        return self._holds.get((ANY, message_id)) or self._holds.get((server, message_id))

    def maybe_taken(self, message_id: str) -> Hold | None:
        """Return the attempts at a message that a server may have accepted."""
        return self._holds.get((ANY, message_id))

    def due(self, server: str, recipient: str, sending: Sending, now: float) -> float:
        """Return when a message may be tried; ANYTIME if nothing prevents it."""
        holds = self.holds(server, recipient, sending.message_id)
        is_refusing = server in self._refusing or any(h.fault not in UNCOUNTED for h in holds)
        tries = self._tries.get(server, ()) if is_refusing else ()
        if server in self._reloaded and retry.has_budget(tries, now):
            tries = ()
        is_given_up = self._is_given_up(sending, holds, now)
        healed = self._healed_seconds(server, recipient)
        scheduled = NEVER if is_given_up else retry.scheduled_seconds(holds, tries, healed)
        if not self._is_new(server, sending, holds):
            return scheduled
        if sending.is_critical:
            return min(scheduled, retry.critical_seconds(holds, tries))
        return min(scheduled, retry.new_seconds(holds, tries))

    def _healed_seconds(self, server: str, recipient: str) -> float:
        """Return when a closed server accepted again; a refused message of an open one waits."""
        healed = self._healed.get(server, ANYTIME)
        return ANYTIME if healed == ANYTIME or self.is_open(server, (recipient,)) else healed

    def _is_new(self, server: str, sending: Sending, holds: tuple[Hold, ...]) -> bool:
        """Whether a message came after the last attempt: it need not wait with others."""
        if self.message_hold(server, sending.message_id) is not None:
            return False
        last = [hold.tried_seconds for hold in holds] or list(self._tries.get(server, ())[-1:])
        return sending.added_seconds > max(last, default=ANYTIME)

    @staticmethod
    def _is_given_up(sending: Sending, holds: tuple[Hold, ...], now: float) -> bool:
        is_old = now - sending.since_seconds > retry.MAX_REFUSED_SECONDS
        return is_old and any(hold.fault in REFUSALS for hold in holds)

    def is_open(self, server: str, recipients: Iterable[str]) -> bool:
        """Whether nothing but a message's own refusal prevents delivery by a server."""
        subjects = (CONNECTION, ALL, *recipients)
        return server not in self._refusing and not any(
            (server, subject) in self._holds for subject in subjects
        )

    def is_refusing(self, server: str) -> bool:
        """Whether the server's last reply to a message was a refusal."""
        return server in self._refusing or server in self._suspicious

    def is_first_refusal(self, server: str) -> bool:
        """Whether a server refused only once within an hour: one more is no risk."""
        tries = self._tries.get(server, ())
        return len(tries) == 1 or tries[-2:][0] < tries[-1] - retry.HOUR

    def scheduled_until(self, server: str, recipient: str, message_id: str, now: float) -> float:
        """Return until when a message waits by schedule; `now` if it does not."""
        holds = self.holds(server, recipient, message_id)
        healed = self._healed_seconds(server, recipient)
        return max((retry.flapping_seconds(hold, healed) for hold in holds), default=now)

    # --- attempts

    def begin(self, server: str, recipients: tuple[str, ...], name: str, now: float) -> Flight:
        """Count an attempt before it begins: a kill must not repeat it."""
        subjects = (CONNECTION, ALL, *recipients, name)
        keys = [*((server, subject) for subject in subjects), (ANY, name)]
        before = {key: hold for key in keys if (hold := self._holds.get(key)) is not None}
        for key, hold in before.items():
            self._put(key, replace(hold, attempts=hold.attempts + 1, tried_seconds=now))
        is_probe = server in self._refusing or any(
            hold.fault not in UNCOUNTED for hold in before.values()
        )
        if is_probe:
            self._count_refusal(server, now)
        return Flight(name, server, recipients, now, before, now if is_probe else None)

    def settle(
        self, flight: Flight, result: SendResult, now: float, *, is_suspect: bool = False
    ) -> frozenset[str]:
        """Hold what was refused, open what worked; return what an acceptance opened.

        `is_suspect`: the first refusal after an acceptance is about this message.
        """
        server, name = flight.server, flight.message_id
        has_reply = not result.error or result.fault not in NO_REPLY
        is_counted = not result.error or result.fault not in UNCOUNTED
        self._settle_budget(flight, now, is_refused=is_counted and not result.is_accepted)
        decided = {CONNECTION, *result.delivered, *result.faults}
        decided |= {ALL} if has_reply else set()
        decided |= {name} if result.error and result.scope is Scope.MESSAGE else set()
        for key, hold in flight.holds.items():
            if key[1] not in decided:  # the server did not come to that
                self._put(key, hold)
        opened = {r for r in result.delivered if self._open(server, r)}
        if has_reply and self._open(server, CONNECTION):
            opened.add(ALL)
        if has_reply and not (result.error and result.scope is Scope.SERVER):
            opened |= {ALL} if self._open(server, ALL) else set()
        if result.delivered:
            opened |= {ALL} if server in self._refusing else set()
            self._refusing.discard(server)
            self._suspicious.discard(server)
        for recipient, fault in result.faults.items():
            self._hold((server, recipient), fault, result.refused[recipient], now)
        if result.error:
            self._hold_error(flight, result, now, is_suspect=is_suspect)
        if not result.delivered:
            return frozenset()
        if opened:
            self._healed[server] = now
        return frozenset(opened)

    def _settle_budget(self, flight: Flight, now: float, *, is_refused: bool) -> None:
        counted, server = flight.counted_seconds, flight.server
        if is_refused and counted is None:
            self._count_refusal(server, now)
        elif not is_refused and counted is not None:
            tries = self._tries.get(server, ())
            self._tries[server] = tuple(at for at in tries if at != counted)

    def _hold_error(
        self, flight: Flight, result: SendResult, now: float, *, is_suspect: bool
    ) -> None:
        fault, server, name = result.fault, flight.server, flight.message_id
        if result.scope is Scope.MESSAGE:
            key = (ANY if fault in retry.MAYBE_TAKEN else server, name)
            self._hold(key, fault, result.error, now)
            if fault not in NO_REPLY:
                (self._suspicious if is_suspect else self._refusing).add(server)
        # Whether it is the server or this message shows the next one.
        if fault in NO_REPLY:
            self._hold((server, CONNECTION), Fault.UNREACHABLE, result.error, now)
        elif result.scope is Scope.SERVER:
            self._hold((server, ALL), fault, result.error, now, result.retry_after_seconds)

    def _hold(
        self, key: tuple[str, str], fault: Fault, error: str, now: float, pause_seconds: float = 0.0
    ) -> None:
        """Hold something; a refusal for another reason begins with a short interval again."""
        before = self._holds.get(key)
        attempts = before.attempts if before is not None and before.fault is fault else 1
        first = now if before is None else before.first_seconds
        self._put(key, Hold(fault, attempts, first, now, error, pause_seconds))

    def _count_refusal(self, server: str, now: float) -> None:
        self._tries[server] = (*self._tries.get(server, ()), now)[-retry.MAX_TRIES :]
        self._reloaded.discard(server)
        self.changes += 1

    def _open(self, server: str, subject: str) -> bool:
        hold = self._holds.pop((server, subject), None)
        self.changes += hold is not None
        return hold is not None

    def _put(self, key: tuple[str, str], hold: Hold) -> None:
        self._holds[key] = hold
        self.changes += 1

    # --- what was corrected, and what is gone

    def release(self, message_id: str, now: float) -> None:
        """Let a message be tried now that a server refused or failed at: it accepts others.

        Not one without a reply to its final dot: a mail server then mostly has it.
        """
        for (server, subject), hold in list(self._holds.items()):
            if subject == message_id and hold.fault is not Fault.UNANSWERED:
                self._put((server, subject), _due_now(hold, now))

    def exhaust(self, message_id: str, now: float) -> None:
        """Note that a message was in a digest that was sent often without a reply."""
        hold = Hold(Fault.UNANSWERED, retry.UNANSWERED_ATTEMPTS, now, now)
        self._put((ANY, message_id), hold)

    def open_all(self, now: float) -> None:
        """Let everything be tried now: a test message was accepted."""
        servers = {server for server, _ in self._holds} | self._refusing | self._tries.keys()
        self.reload(servers, now)

    def reload(self, corrected: Container[str], now: float) -> None:
        """Let everything be tried now: an administrator may have corrected it.

        `corrected` are the servers whose address or login is another one now. The others keep their
        history: the same password, sent at each reload, would lock the account. But for a refused
        login one attempt need not wait for the time between two: the server itself may have been
        corrected.
        """
        self._refusing = {server for server in self._refusing if server not in corrected}
        self._tries = {name: at for name, at in self._tries.items() if name not in corrected}
        logins = {server for (server, _), hold in self._holds.items() if hold.fault in retry.LOGINS}
        self._reloaded = self._tries.keys() - logins
        for (server, subject), hold in list(self._holds.items()):
            is_bound = server not in corrected and hold.fault in retry.NOT_RELOADED
            if hold.fault not in retry.MAYBE_TAKEN and not is_bound:
                self._put((server, subject), _due_now(hold, now))

    def keep(self, servers: Iterable[str], subjects: Iterable[str]) -> None:
        """Forget servers that are no longer configured; recipients and messages that are gone."""
        names, about = {ANY, *servers}, {ALL, CONNECTION, *subjects}
        for server, subject in list(self._holds):
            if server not in names or subject not in about:
                self._open(server, subject)
        self._tries = {server: tries for server, tries in self._tries.items() if server in names}
        self._healed = {server: at for server, at in self._healed.items() if server in names}

    def forget(self, message_ids: Iterable[str]) -> None:
        """Forget messages that are no longer in the outbox."""
        gone = set(message_ids)
        for server, subject in [key for key in self._holds if key[1] in gone]:
            self._open(server, subject)


def _due_now(hold: Hold, now: float) -> Hold:
    """Return a hold that is due, of which the attempts still count; so do five days of refusals."""
    early = replace(hold, pause_seconds=0.0)
    wait = early.next_seconds - early.tried_seconds
    return replace(early, tried_seconds=min(early.tried_seconds, now - wait))
