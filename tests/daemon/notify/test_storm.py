"""A storm: kills at any step while two mail servers and three receivers fail at random.

The real queues above a real state.db, on a played clock. Nothing is lost; what comes twice is what
a server may have had when its reply, or the program, was lost.
"""

from __future__ import annotations

import heapq
import itertools
import os
import queue
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from support import ledger
from support.mail_world import (
    FAULTS,
    HOUR,
    MINUTE,
    START,
    TO,
    UNANSWERED,
    Server,
    flapping,
)

from iowarden.daemon.notify.attempt import OutboundMail, SendResult
from iowarden.daemon.notify.channel import MessageReceiver
from iowarden.daemon.notify.delivery import Delivery, Receivers
from iowarden.daemon.notify.retry import http_verdict
from iowarden.daemon.notify.routes import DOCUMENT
from iowarden.daemon.receivers import message
from iowarden.daemon.receivers.dry_run import test_notice as make_notice
from iowarden.daemon.service.stored_documents import DOCUMENTS, DocumentReader, encode
from iowarden.daemon.storage.notifications import NotificationStatus
from iowarden.daemon.storage.state_db import (
    MAIL,
    Committed,
    OutboxRow,
    StateChanges,
    StateDatabase,
    StateLoaded,
)
from iowarden.daemon.transition_log import TransitionLog
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KILLS = int(os.environ.get("KILLS", "40"))
"""In the second tier; in full by hand: KILLS=300 python -m pytest --system -s, and this file."""
DEADLINE_SECONDS = 60.0
BETWEEN_KILLS_SECONDS = 20 * MINUTE
RECEIVERS = ("ops", "phone", "chat")
NO_REPLY, REFUSED_CONNECTION = 0, -1
STATUSES = (REFUSED_CONNECTION, NO_REPLY, 302, 404, 429, 500, 502, 503, 504)


class Killed(BaseException):
    """As SIGKILL: nothing of ours catches it."""


class Quiet:
    """A log that nobody reads."""

    lost_total = 0

    def send(self, *_: object, **__: object) -> None:
        """Log nothing."""

    def debug(self, text: str) -> None:
        """Log nothing."""


@dataclass
class Storm:
    """Servers, receivers, the clock, what was written and what arrived."""

    chosen: random.Random
    until_seconds: float
    now: float = START
    servers: dict[str, Server] = field(default_factory=dict)
    statuses: dict[str, Callable[[float], object]] = field(default_factory=dict)
    written: dict[str, tuple[float, tuple[str, ...]]] = field(default_factory=dict)
    """By the ID of a message, when it was written and for whom."""
    arrivals: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    names: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """By message and recipient, the IDs under which it arrived alone."""
    unconfirmed: Counter[str] = field(default_factory=Counter)
    """How often a message arrived without that the program learned of it."""
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    kills: int = 0
    step_to_kill: int = 0

    def __post_init__(self) -> None:
        """Make the servers."""
        for name in ("mx1", "mx2"):
            faults = (*FAULTS, UNANSWERED)
            does = flapping(self.chosen, 0.6, 5 * MINUTE, self.until_seconds, faults)
            self.servers[name] = Server(name, does)
        for name in RECEIVERS:
            self.statuses[name] = flapping(
                self.chosen,
                0.6,
                5 * MINUTE,
                self.until_seconds,
                STATUSES,  # type: ignore[arg-type]
            )

    def step(self) -> None:
        """Come to the next step, and perhaps no further."""
        self.step_to_kill -= 1
        if self.step_to_kill == 0:
            self.kills += 1
            raise Killed

    def take(self, row: OutboundMail, parts: tuple[str, ...]) -> None:
        """Have recipients receive a message, or those of a digest."""
        for name in parts:
            for recipient in row.recipients:
                self.arrivals.setdefault((name, recipient), []).append(self.now)
                if len(parts) == 1:
                    self.names.setdefault((name, recipient), set()).add(row.message_id)

    def posted(self, mail: OutboundMail, receiver: str) -> tuple[SendResult, float, bool]:
        """Return the result of an attempt at a receiver, its duration, whether it was taken."""
        status = self.statuses[receiver](self.now)
        if not isinstance(status, int):
            return SendResult(mail.message_id, (receiver,), receiver=receiver), 0.5, True
        verdict = http_verdict(max(status, 0), is_sent=status != REFUSED_CONNECTION)
        result = SendResult(
            mail.message_id,
            error=f"{receiver}: {status}",
            scope=verdict.scope,
            fault=verdict.fault,
            receiver=receiver,
        )
        has_message = status in {NO_REPLY, 504}
        return result, 30.0 if status == NO_REPLY else 0.5, has_message


class Life:
    """One run of the program's queues, from a start to a kill."""

    def __init__(self, storm: Storm, path: str) -> None:
        self._storm = storm
        self._committed: queue.SimpleQueue[Committed] = queue.SimpleQueue()
        self._confirmed: Committed | None = None
        self._loaded: queue.SimpleQueue[StateLoaded] = queue.SimpleQueue()
        self._results: list[tuple[float, int, SendResult]] = []
        self._numbers = itertools.count()
        self.tables: ledger.Tables
        self.working_since: float | None = None
        self.unwritten_since: float | None = None
        self.state = StateDatabase(path, self._answered)
        log = TransitionLog(Quiet(), lambda: storm.now, lambda: storm.now)  # type: ignore[arg-type]
        receivers = {
            name: MessageReceiver(message.document_format(name), Sender(self, name), "")
            for name in RECEIVERS
        }
        self.delivery = Delivery(
            self, MailSender(self), log, Receivers(receivers, {}), encode=encode
        )

    def _answered(self, answer: object) -> None:
        if isinstance(answer, Committed):
            self._committed.put(answer)
        elif isinstance(answer, StateLoaded):
            self._loaded.put(answer)

    def start(self) -> None:
        """Restore what the life before left."""
        self.state.load()
        loaded = self._loaded.get(timeout=DEADLINE_SECONDS)
        self.tables = ledger.Tables(loaded)
        self.delivery.restore(loaded.outbox, self._storm.now, loaded.notifications)
        text = loaded.documents.get(DOCUMENT)
        if text is not None:
            reader = DocumentReader(0.0, self._storm.now)
            self.delivery.restore_routes(reader.read(DOCUMENTS[DOCUMENT], text, 1))
        else:
            self.delivery.restore_routes(self.delivery.routes)

    def load(self) -> None:
        """As state.db."""

    def retry(self) -> None:
        """As state.db."""

    def commit(self, batch: StateChanges) -> None:
        """Write, and wait until it is: a kill in between is either of the two."""
        self._storm.step()
        assert self.tables.write(batch) == []
        self.state.commit(batch)
        while (answer := self._committed.get(timeout=DEADLINE_SECONDS)).sequence < batch.sequence:
            pass
        assert not answer.error
        self._storm.step()
        self._confirmed = answer

    def confirm(self) -> bool:
        """Let the queues know what is stored; return whether something was."""
        answer, self._confirmed = self._confirmed, None
        if answer is not None:
            self.delivery.committed(answer)
        return answer is not None

    def submit(self, receiver: str, mail: OutboundMail) -> None:
        """Make an attempt; its result comes later."""
        storm = self._storm
        storm.step()
        row = self.delivery._channel(receiver).outbox.row(mail.message_id)
        assert row is not None
        parts = row.parts or (mail.message_id,)
        if receiver == MAIL:
            server = storm.servers[mail.server]
            sent = replace(row, recipients_pending=mail.recipients)
            result, took, has_mail = server.attempt(sent, storm.now)
        else:
            result, took, has_mail = storm.posted(mail, receiver)
        if has_mail:
            storm.take(mail, parts)
            storm.unconfirmed.update(parts)  # until the program knows
        storm.step()
        heapq.heappush(self._results, (storm.now + took, next(self._numbers), result))

    def run(self, until: float, arrivals: list[float]) -> None:
        """Let time pass."""
        storm = self._storm
        while True:
            self.delivery.step(storm.now)
            while self.confirm():
                self.delivery.step(storm.now)
            dues = [
                due
                for name in (MAIL, *RECEIVERS)
                if (due := self.delivery._channel(name).outbox.next_due(storm.now)) is not None
            ]
            coming = (
                [*dues, *self._results[0][:1], *arrivals[:1]]
                if self._results
                else [
                    *dues,
                    *arrivals[:1],
                ]
            )
            upcoming = max(min(coming, default=until), storm.now)
            if upcoming >= until:
                storm.now = until
                return
            storm.now = upcoming
            while arrivals and arrivals[0] <= storm.now:
                self.write(arrivals.pop(0))
            while self._results and self._results[0][0] <= storm.now:
                self.finish(heapq.heappop(self._results)[2])

    def finish(self, result: SendResult) -> None:
        """Process a result; a reply that came makes certain what arrived."""
        row = self.delivery._channel(result.receiver).outbox.row(result.message_id)
        self.delivery.sent(result, self._storm.now)
        self.confirm()
        if result.delivered and row is not None:
            self._storm.unconfirmed.subtract(row.parts or (result.message_id,))

    def write(self, at: float) -> None:
        """Write the messages of an incident, in one transaction."""
        storm = self._storm
        incident = f"i{next(storm.numbers)}"
        severity = Severity.CRITICAL if storm.chosen.random() < 1 / 3 else Severity.WARNING
        notice = replace(make_notice(at), incident=incident)
        message_id = f"<iowarden.{incident}.1@db1>"
        head = f"Subject: {incident}\r\nFrom: iowarden@db1\r\nTo: {', '.join(TO)}\r\n"
        data = f"{head}Message-ID: {message_id}\r\n\r\ntext\r\n".encode()
        states = ((incident, 1),)
        rows = [OutboxRow(message_id, incident, 1, severity, at, TO, data, states=states)]
        document = message.encoded(message.document(notice, "db1"))
        rows += [
            OutboxRow(
                f"{name}:{incident}.1", incident, 1, severity, at, (name,), document, states=states
            )
            for name in RECEIVERS
        ]
        rows = [
            replace(
                row, receiver=MAIL if row.recipients_pending == TO else row.recipients_pending[0]
            )
            for row in rows
        ]
        self.delivery.commit({}, rows, storm.now)
        self.confirm()
        for row in rows:
            storm.written[row.message_id] = (at, row.recipients_pending)


class Sender:
    """Hands the messages of a receiver to the storm."""

    def __init__(self, life: Life, receiver: str) -> None:
        self.working_since: float | None = None
        self.servers: tuple[str, ...] = (receiver,)
        self.connections = 1
        self.hung_seconds = 90.0
        self._life = life
        self._receiver = receiver

    def submit(self, mail: OutboundMail) -> None:
        """Make an attempt."""
        self._life.submit(self._receiver, mail)

    def close(self, timeout_seconds: float) -> bool:
        """Return True: nothing is left."""
        return timeout_seconds >= 0


class MailSender(Sender):
    """Two mail servers."""

    def __init__(self, life: Life) -> None:
        super().__init__(life, MAIL)
        self.servers, self.connections, self.hung_seconds = ("mx1", "mx2"), 2, 1800.0


def storm(path: Path, kills: int, seed: int) -> Storm:
    """Kill the program so often, at any step, and let it deliver the rest."""
    chosen = random.Random(seed)
    until = START + kills * BETWEEN_KILLS_SECONDS
    made = Storm(chosen, until - START)
    arrivals, at = [], START
    while (at := at + chosen.expovariate(1 / (10 * MINUTE))) < until:
        arrivals.append(at)
    while made.kills < kills:
        life = Life(made, str(path / "state.db"))
        made.step_to_kill = chosen.randint(1, 40)
        begun = made.now
        try:
            life.start()
            life.run(begun + 2 * BETWEEN_KILLS_SECONDS, arrivals)
            made.kills += 1  # between two steps
        except Killed:
            made.now += chosen.uniform(0.1, 20.0)
        finally:
            assert life.state.close(DEADLINE_SECONDS)
        check_ledger(made, path / "state.db")
    made.step_to_kill = 0
    last = Life(made, str(path / "state.db"))
    last.start()
    last.run(max(made.now, until) + 48 * HOUR, arrivals)
    left = [
        row for name in (MAIL, *RECEIVERS) for row in last.delivery._channel(name).outbox.rows()
    ]
    assert not left
    assert last.state.close(DEADLINE_SECONDS)
    check_ledger(made, path / "state.db")
    statuses = Counter(each.status for each in ledger.stored(path / "state.db").values())
    assert {*statuses} == {NotificationStatus.ACCEPTED}
    assert statuses.total() >= len(made.written)  # a kill may come before it is noted here
    return made


def check_ledger(made: Storm, path: Path) -> None:
    """Check what state.db says of who was notified: of what waits too little, never too much."""
    assert ledger.contradictions(path) == []
    for (incident, state, receiver), each in ledger.stored(path).items():
        if each.status is NotificationStatus.ACCEPTED:
            is_mail = receiver == MAIL
            name = f"<iowarden.{incident}.{state}@db1>" if is_mail else f"{receiver}:{incident}.1"
            recipients = TO if is_mail else (receiver,)
            assert any((name, to) in made.arrivals for to in recipients), f"{name} never arrived"


def report(made: Storm, *, is_mail: bool) -> tuple[str, int, int]:
    """Return what became of mails, or of the others: a line, how many are lost, and doubled."""
    delays, doubled, maybe = [], 0, 0
    written = {n: each for n, each in made.written.items() if (each[1] == TO) is is_mail}
    for name, (at, recipients) in written.items():
        for recipient in recipients:
            times = made.arrivals.get((name, recipient), [])
            delays.append(times[0] - at if times else float("inf"))
            repeats = max(len(times) - 1, 0)
            excused = min(repeats, made.unconfirmed[name])
            maybe, doubled = maybe + excused, doubled + repeats - excused
    lost = sum(delay == float("inf") for delay in delays)
    ordered = sorted(delays)
    p50, p90, most = (ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.9, 1.0))
    line = (
        f"{'mail by two servers' if is_mail else 'three receivers'}: {len(written)} messages,"
        f" {len(delays)} deliveries: p50 {p50:.0f} s, p90 {p90:.0f} s, max {most:.0f} s;"
        f" {lost} lost, {doubled} doubled, {maybe} repeated that may have arrived"
    )
    return line, lost, doubled


@pytest.mark.parametrize(
    "kills", [pytest.param(KILLS, marks=pytest.mark.system, id="many"), pytest.param(4, id="some")]
)
def test_a_storm_of_kills_loses_nothing_and_doubles_only_what_may_have_arrived(
    tmp_path: Path, kills: int
) -> None:
    """Each server and receiver fails for 60 % of its life, each time in another way."""
    made = storm(tmp_path, kills, 20_261_129)
    assert made.kills == kills
    for is_mail in (True, False):
        line, lost, doubled = report(made, is_mail=is_mail)
        print(f"{made.kills} kills, {line}")
        assert (lost, doubled) == (0, 0)
    foreign = {
        name
        for (own, _), names in made.names.items()
        for name in names
        if name != own and "digest." not in name
    }
    assert not foreign
