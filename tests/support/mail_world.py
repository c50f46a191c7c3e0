"""Mail servers that fail at random, on a played clock: what reaches a person, when and how often.

Written from RFC 5321, not from the product: a server is a function of the time to what it does.
"""

from __future__ import annotations

import bisect
import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iowarden.daemon.notify.attempt import SendResult
from iowarden.daemon.notify.outbox import Outbox
from iowarden.daemon.notify.retry import smtp_verdict
from iowarden.daemon.storage.state_db import Committed, OutboxRow
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

START = 1_795_266_034.0
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
TO = ("a@x", "b@x")

GOOD = ("", "")
"""A server accepts the mail."""
UNREACHABLE = ("connect", "")
UNANSWERED = ("end of data", "")
FAULTS = (
    UNREACHABLE,
    ("greeting", "554 5.7.1 your address is listed"),
    ("greeting", "421 4.3.2 too many connections"),
    ("MAIL FROM", "451 4.3.0 try again later"),
    ("MAIL FROM", "550 5.1.8 sender domain not found"),
    ("RCPT TO", "554 5.7.1 relay access denied"),
    ("RCPT TO", "450 4.2.0 greylisted"),
    ("RCPT TO", "550 5.2.2 mailbox full"),
    ("end of data", "554 5.7.1 looks like spam"),
    ("end of data", "554 transaction failed"),
    ("end of data", "451 4.3.0 queue file write error"),
)
"""What a server does instead: the step, and its reply; none: no reply comes."""
Behaviour = tuple[str, str]


@dataclass
class Server:
    """A mail server: what it does at a time, and the mails that it accepted."""

    name: str
    does: Callable[[float], Behaviour]
    refused_seconds: list[float] = field(default_factory=list)

    def attempt(self, row: OutboxRow, now: float) -> tuple[SendResult, float, bool]:
        """Return the result of an attempt, its duration, and whether the server has the mail."""
        step, reply = self.does(now)
        code = int(reply[:3]) if reply else 0
        if not step:
            return SendResult(row.message_id, row.recipients_pending), 0.5, True
        if code >= 500:
            self.refused_seconds.append(now)
        verdict = smtp_verdict(step, code, reply)
        error = f"{self.name}: {step}: {reply or 'no reply before the timeout'}"
        if step == "RCPT TO":
            refused = dict.fromkeys(row.recipients_pending, error)
            faults = dict.fromkeys(row.recipients_pending, verdict.fault)
            return SendResult(row.message_id, refused=refused, faults=faults), 0.5, False
        took = {UNREACHABLE: 5.0, UNANSWERED: 600.0}.get((step, reply), 0.5)
        failed = SendResult(
            row.message_id,
            error=error,
            scope=verdict.scope,
            fault=verdict.fault,
            may_try_plain=reply.startswith("554 5.7.1") and step == "end of data",
        )
        return failed, took, (step, reply) == UNANSWERED


class MailWorld:
    """An outbox, its servers, and a clock that advances to the next event."""

    def __init__(self, *servers: Server) -> None:
        self.now = START
        self.servers = {server.name: server for server in servers}
        self.outbox = Outbox()
        self.outbox.servers, self.outbox.connections = tuple(self.servers), 2
        self.created: dict[str, OutboxRow] = {}
        self.arrivals: dict[tuple[str, str], list[tuple[float, str]]] = {}
        """By Message-ID and recipient, when it arrived, and under which Message-ID."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def at(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something at a time after the start."""
        self._number += 1
        heapq.heappush(self._events, (START + seconds, self._number, act))

    def write(self, severity: Severity) -> str:
        """Write the mail of a new incident now; return its Message-ID."""
        number = len(self.created)
        message_id = f"<iowarden.i{number}.1@db1>"
        head = f"Subject: {number}\r\nFrom: iowarden@db1\r\nTo: {', '.join(TO)}\r\n"
        data = f"{head}Message-ID: {message_id}\r\n\r\ntext\r\n".encode()
        row = OutboxRow(message_id, f"i{number}", 1, severity, self.now, TO, data)
        self.created[message_id] = row
        self.outbox.add(row, self.now, 1)
        self.outbox.committed(Committed(1))
        return message_id

    def run(self, until_seconds: float) -> None:
        """Let time pass."""
        end = START + until_seconds
        while True:
            due = self.outbox.next_due(self.now)
            upcoming = min(
                self._events[0][0] if self._events else float("inf"),
                float("inf") if due is None else max(due, self.now),
            )
            if upcoming > end:
                self.now = end
                return
            self.now = max(self.now, upcoming)
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            while (row := self.outbox.next(self.now)) is not None:
                self._begin(row)

    def _begin(self, row: OutboxRow) -> None:
        server = self.servers[self.outbox.server_of(row.message_id)[0]]
        result, took, has_mail = server.attempt(row, self.now)

        def finish() -> None:
            if has_mail:
                self._take(row)
            self.outbox.sent(result, self.now)

        self.at(self.now + took - START, finish)

    def _take(self, row: OutboxRow) -> None:
        for message_id in row.parts or (row.message_id,):
            for recipient in row.recipients_pending:
                arrived = self.arrivals.setdefault((message_id, recipient), [])
                arrived.append((self.now, row.message_id))

    def delays(self) -> list[float]:
        """Return how long each mail took to its last recipient; infinite if it did not arrive."""
        return [self.delay(message_id) for message_id in self.created]

    def delay(self, message_id: str) -> float:
        """Return how long a mail took to its last recipient."""
        firsts = [self.arrivals.get((message_id, r), [(float("inf"), "")])[0][0] for r in TO]
        return max(firsts) - self.created[message_id].created_realtime_seconds

    def doubled(self) -> int:
        """Return how many mails a recipient has more than once."""
        return sum(len(arrived) > 1 for arrived in self.arrivals.values())

    def under_another_id(self) -> int:
        """Return how many mails arrived under an ID that is neither theirs nor a digest's."""
        return sum(
            name != message_id and ".digest." not in name
            for (message_id, _), arrived in self.arrivals.items()
            for _, name in arrived
        )


def refuses_until(healed_seconds: float, *replies: Behaviour) -> Callable[[float], Behaviour]:
    """Return a server that does one thing, for a time after the start, and then works."""
    return lambda now: replies[0] if now < START + healed_seconds else GOOD


def flapping(
    chosen: random.Random,
    share: float,
    mean_seconds: float,
    until_seconds: float,
    faults: Sequence[Behaviour] = FAULTS,
) -> Callable[[float], Behaviour]:
    """Return a server that fails for a share of its life, each time in another way."""
    phases: list[tuple[float, Behaviour]] = []
    at = 0.0
    while at < until_seconds:
        does = chosen.choice(faults)
        at += chosen.expovariate(1 / (2 * mean_seconds * share))
        phases.append((START + at, does))
        at += chosen.expovariate(1 / (2 * mean_seconds * (1 - share)))
        phases.append((START + at, GOOD))

    ends = [end for end, _ in phases]

    def does(now: float) -> Behaviour:
        place = bisect.bisect_right(ends, now)
        return phases[place][1] if place < len(phases) else GOOD

    return does


def at_random(world: MailWorld, chosen: random.Random, until_seconds: float, mean: float) -> None:
    """Have incidents at random, one in three critical."""
    at = chosen.expovariate(1 / mean)
    while at < until_seconds:
        severity = Severity.CRITICAL if chosen.random() < 1 / 3 else Severity.WARNING
        world.at(at, lambda severity=severity: world.write(severity))  # type: ignore[misc]
        at += chosen.expovariate(1 / mean)
