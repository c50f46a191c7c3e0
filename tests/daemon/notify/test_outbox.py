"""The outbox: which mail is sent when, alone or in a digest, despite outages and kills."""

import email
import email.policy
import random
import re
from dataclasses import replace
from email.message import EmailMessage

from hypothesis import given
from hypothesis import strategies as st

from iowarden.daemon.notify.attempt import SendResult
from iowarden.daemon.notify.digest import addressees
from iowarden.daemon.notify.outbox import MAX_BYTES, Outbox
from iowarden.daemon.notify.outbox_queue import MAX_DIGEST_BYTES
from iowarden.daemon.notify.retry import Fault, Scope
from iowarden.daemon.storage.state_db import Committed, OutboxRow, StateChanges
from iowarden.rules.severity import Severity

DATA = b"Subject: test\r\nMessage-ID: <iowarden.a.1@db1>\r\n\r\n.a line with a dot\r\n"
TO_BOTH = b"To: a@x, b@x\r\n" + DATA


def row(number: int, incident: str = "a", **changes: object) -> OutboxRow:
    """Return a mail; `number` is also its age."""
    usual = OutboxRow(
        message_id=f"<iowarden.{incident}.{number}@db1>",
        incident=incident,
        number=number,
        severity=Severity.WARNING,
        created_realtime_seconds=float(number),
        recipients_pending=("a@x", "b@x"),
        data=DATA,
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


def took(mail_row: OutboxRow) -> SendResult:
    """Return the result of a server that accepts the mail for all."""
    return SendResult(mail_row.message_id, delivered=mail_row.recipients_pending)


def refused(mail_row: OutboxRow, *delivered: str, **faults: Fault) -> SendResult:
    """Return the result of a server that accepts the mail for some; 'b' stands for b@x."""
    to = {f"{name}@x": fault for name, fault in faults.items()}
    texts = {name: f"no {name}" for name in to}
    return SendResult(mail_row.message_id, delivered, texts, faults=to)


def spam(mail_row: OutboxRow) -> SendResult:
    """Return the result of a server that refuses the mail at its end."""
    return SendResult(mail_row.message_id, error="554 no", scope=Scope.MESSAGE, fault=Fault.REFUSED)


def departs(outbox: Outbox, now: float) -> int | None:
    """Return the number of the mail that is sent now, if any."""
    chosen = outbox.next(now)
    return None if chosen is None else chosen.number


DOWN = "mail: 'mx1:25': connect: expected a connection, got 'Connection refused'"


def test_a_mail_waits_for_the_disk_and_not_longer_than_two_seconds() -> None:
    """Stored first if the disk responds; if it hangs, the mail is sent without that."""
    outbox = Outbox()
    outbox.add(row(1), 100.0, sequence=7)
    assert outbox.next(101.9) is None
    assert outbox.next_due(101.9) == 102.0
    outbox.committed(Committed(6))
    assert outbox.next(101.9) is None
    outbox.committed(Committed(7, "disk full"))
    assert departs(outbox, 101.9) == 1
    hung = Outbox()
    hung.add(row(1), 100.0, sequence=7)
    assert departs(hung, 102.0) == 1


def test_critical_goes_first_then_the_oldest_and_an_incident_in_order() -> None:
    """Six mails of three incidents wait after an outage."""
    outbox = Outbox()
    critical = {"severity": Severity.CRITICAL}
    rows = [
        row(1, "a"),
        row(2, "a"),
        row(3, "b"),
        row(4, "c"),
        row(5, "c", **critical),
        row(6, "b"),
    ]
    shuffled = random.Random(4).sample(rows, len(rows))
    outbox.restore(shuffled, 0.0)
    order = []
    while (chosen := outbox.next(1.0)) is not None:
        assert outbox.next(1.0) is None, "one at a time"
        order.append(chosen.number)
        outbox.sent(took(chosen), 1.0)
    assert order == [4, 5, 1, 2, 3, 6]
    assert len(outbox) == 0


def test_a_server_that_is_down_is_queried_at_growing_intervals_for_one_mail() -> None:
    """Ten mails wait; the intervals are the same whatever their number."""
    outbox = Outbox()
    outbox.restore([row(n, f"i{n}") for n in range(1, 11)], 0.0)
    now, intervals = 0.0, []
    for _ in range(9):
        chosen = outbox.next(now)
        assert chosen is not None
        batch, problem = outbox.sent(SendResult(chosen.message_id, error=DOWN), now)
        assert problem.startswith(DOWN)
        assert batch.add[0].attempts == chosen.attempts + 1
        due = outbox.next_due(now)
        assert due is not None
        assert outbox.next(due - 0.01) is None
        intervals.append(due - now)
        now = due
    assert intervals == [10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 900.0, 900.0]


def test_a_mail_at_which_the_server_always_fails_does_not_hold_the_others_back() -> None:
    """A server that breaks the connection at one message still gets all others."""
    outbox = Outbox()
    poison = row(1, "a", severity=Severity.CRITICAL)
    outbox.restore([poison, row(2, "a"), row(3, "b")], 0.0)
    now, delivered = 0.0, []
    while len(outbox) > 1:
        now = max(now, outbox.next_due(now) or now)
        chosen = outbox.next(now)
        assert chosen is not None
        assert now < 1000.0
        failed = chosen.message_id == poison.message_id
        # Without a reply to DATA: the server or this mail is the cause.
        broken = SendResult(chosen.message_id, error=DOWN, scope=Scope.MESSAGE)
        result = broken if failed else took(chosen)
        outbox.sent(result, now)
        delivered += [] if failed else [chosen.number]
    assert sorted(delivered) == [2, 3]
    assert outbox.row(poison.message_id) is not None


def test_a_partly_refused_list_is_not_sent_to_again_and_what_was_refused_is_kept() -> None:
    """a@x has it, b@x is unknown, c@x is busy: each of these is tried at its own time."""
    outbox = Outbox()
    to = ("a@x", "b@x", "c@x")
    outbox.restore([row(1, recipients_pending=to, data=b"To: a@x, b@x, c@x\r\n\r\n")], 0.0)
    chosen = outbox.next(0.0)
    assert chosen is not None
    result = refused(chosen, "a@x", b=Fault.UNKNOWN_RECIPIENT, c=Fault.DEFERRED)
    batch, problem = outbox.sent(result, 0.0)
    line, kept = batch.add
    assert line.recipients_pending == ("a@x", "c@x"), "who learn about b@x"
    learns = outbox.next(0.0)
    assert learns is not None
    assert (learns.message_id, learns.recipients_pending) == (line.message_id, ("a@x",))
    outbox.sent(took(learns), 0.0)
    assert kept.recipients_pending == ("b@x", "c@x")
    assert "no b@x; no c@x; not delivered to b@x, c@x" in problem
    assert outbox.next(59.0) is None
    later = outbox.next(60.0)
    assert later is not None
    assert outbox.sent(took(later), 60.0)[0].remove == (line.message_id,)
    again = outbox.next(60.0)
    assert again is not None
    assert again.recipients_pending == ("c@x",)
    batch, _ = outbox.sent(took(again), 60.0)
    assert [r.recipients_pending for r in batch.add] == [("b@x",)]
    assert not batch.remove
    assert (len(outbox), outbox.refused()) == (1, 1)
    assert outbox.oldest_unsent_seconds(10.0) is None, "somebody has it"


def test_a_mail_deferred_for_one_recipient_does_not_hold_back_the_next_of_its_incident() -> None:
    """A mailbox may be full for days; the others must still get the escalation."""
    outbox = Outbox()
    outbox.restore([row(1), row(2)], 0.0)
    assert departs(outbox, 0.0) == 1
    outbox.sent(refused(row(1), "a@x", b=Fault.DEFERRED), 0.0)
    chosen = outbox.next(0.0)
    assert chosen is not None
    assert (chosen.number, chosen.recipients_pending) == (2, ("a@x",))


def test_a_mail_that_is_refused_while_others_are_accepted_is_held_by_itself() -> None:
    """A word in it is forbidden: its own schedule goes on, and no digest is refused for it."""
    outbox, now = Outbox(), START
    poison = written(1, "poison")
    outbox.restore([poison], now)
    tried = []
    for minute in range(24 * 60):
        now = START + 60.0 * minute
        if minute % 30 == 0:
            outbox.add(written(1, f"i{minute}", age=START - now), now, 0)
        while (chosen := outbox.next(now + 5)) is not None:
            assert chosen.parts == ()
            if chosen.message_id == poison.message_id:
                tried.append(minute)
                outbox.sent(spam(chosen), now + 5)
            else:
                outbox.sent(took(chosen), now + 5)
    assert len(outbox) == 1
    assert len(tried) <= 9
    assert outbox.refused() == 1


def test_a_mail_that_was_refused_while_others_were_accepted_is_in_no_digest() -> None:
    """Else the digest of an outage would be refused for a word in one of its mails."""
    outbox, now = Outbox(), START
    outbox.restore([written(1, "poison")], now)
    outbox.sent(spam(begun(outbox, now)), now)
    outbox.add(written(1, "good"), now + 1, 0)
    now += 70.0
    for _ in range(3):  # the older one, the newer one, and again the one that this released
        chosen = begun(outbox, now)
        outbox.sent(spam(chosen) if chosen.incident == "poison" else took(chosen), now)
        now += 200.0
    outbox.restore([written(n, f"late{n}", age=START - now) for n in range(3)], now)
    outbox.sent(failed(begun(outbox, now)), now)
    now += 6 * HOUR
    delivered = []
    while (chosen := outbox.next(now)) is not None:
        is_poison = chosen.incident == "poison"
        delivered.append(len(chosen.parts))
        outbox.sent(spam(chosen) if is_poison and not chosen.parts else took(chosen), now)
        assert "<iowarden.poison.1@db1>" not in chosen.parts
    assert 2 in delivered


def test_after_each_mail_the_disk_is_given_time_to_learn_of_it() -> None:
    """A kill causes at most one duplicate; a hung disk delays each mail by two seconds."""
    outbox = Outbox()
    outbox.restore([row(1), row(2), row(3)], 0.0)
    assert departs(outbox, 0.0) == 1
    batch, _ = outbox.sent(took(row(1)), 0.0, sequence=5)
    assert (batch.sequence, batch.remove) == (5, (row(1).message_id,))
    assert outbox.next(1.9) is None
    outbox.committed(Committed(5))
    assert departs(outbox, 1.9) == 2
    outbox.sent(took(row(2)), 2.0, sequence=6)
    assert departs(outbox, 4.0) == 3


def test_an_unknown_result_changes_nothing() -> None:
    """The result of a mail that is not in the outbox is not stored."""
    batch, problem = Outbox().sent(SendResult("<nobody@x>", ("a@x",)), 0.0)
    assert (batch.add, batch.remove, problem) == ((), (), "")


def test_what_takes_the_place_of_a_mail_has_waited_as_long_as_that() -> None:
    """The server is down for an hour: alert NotificationUnsent uses the oldest waiting time."""
    outbox = Outbox()
    outbox.add(row(1, data=TO_BOTH), 100.0, 1)
    tried = outbox.next(102.0)
    assert tried is not None
    outbox.sent(SendResult(tried.message_id, error=DOWN), 102.0)
    assert outbox.outdated(159.0) == {}
    ((old,),) = outbox.outdated(160.0).values()
    outbox.add(row(2, data=TO_BOTH), 160.0, 2, (old.message_id,))
    assert len(outbox) == 1
    assert outbox.oldest_unsent_seconds(400.0) == 300.0
    newest = outbox.row(row(2).message_id)
    assert newest is not None
    assert newest.created_realtime_seconds == old.created_realtime_seconds, "also after a restart"


def test_a_mail_that_one_recipient_has_is_replaced_by_none() -> None:
    """He would get its content twice; the other recipient gets the original mail."""
    outbox = Outbox()
    outbox.add(row(1, data=TO_BOTH), 0.0, 1)
    chosen = outbox.next(2.0)
    assert chosen is not None
    outbox.sent(SendResult(chosen.message_id, error=DOWN), 2.0)
    assert [*outbox.outdated(70.0)] == ["a"], "nobody has it by now"
    again = outbox.next(70.0)
    assert again is not None
    outbox.sent(refused(again, "a@x", b=Fault.DEFERRED), 71.0)
    assert outbox.outdated(500.0) == {}
    restarted = Outbox()
    restarted.restore([replace(row(1, data=TO_BOTH), recipients_pending=("b@x",))], 0.0)
    assert restarted.outdated(500.0) == {}, "its head says whom it was written to"


# --- digests

HOUR = 3600.0
START = 1795266034.0
RECIPIENTS = ("a@x", "b@x")


def written(number: int, incident: str = "a", *, age: float = 0.0, **changes: object) -> OutboxRow:
    """Return a rendered mail, this old at START."""
    made = row(number, incident, created_realtime_seconds=START - age, **changes)
    head = f"Subject: mail {number} of {incident}\r\nFrom: iowarden@db1\r\nTo: a@x, b@x\r\n"
    data = f"{head}Message-ID: {made.message_id}\r\n\r\nText of {number}.\r\n".encode()
    return replace(made, data=data)


def held(data: bytes) -> list[bytes]:
    """Return the mails of a digest, as bytes."""
    boundary = re.search(rb'multipart/digest; boundary="(.*)"', data)
    assert boundary is not None
    parts = data.split(b"\r\n--" + boundary[1])[1:-1]
    assert all(part.startswith(b"\r\n\r\n") for part in parts), "the header of each part is empty"
    return [part.removeprefix(b"\r\n\r\n") for part in parts]


def begun(outbox: Outbox, now: float) -> OutboxRow:
    """Return the mail that is sent now, after state.db has stored that."""
    batch = outbox.begin(now, 1000)
    if batch is not None:
        assert outbox.next(now) is None, "not before state.db knows"
        outbox.committed(Committed(batch.sequence))
    chosen = outbox.next(now)
    assert chosen is not None
    return chosen


def failed(mail_row: OutboxRow, *, maybe_taken: bool = False) -> SendResult:
    """Return the result of a server that is down, or goes down when it may have the mail."""
    if maybe_taken:
        scope, fault = Scope.MESSAGE, Fault.UNANSWERED
        return SendResult(mail_row.message_id, error=DOWN, scope=scope, fault=fault)
    return SendResult(mail_row.message_id, error=DOWN)


def test_a_server_that_was_down_for_a_day_gets_one_digest() -> None:
    """A mail an hour, retried every 15 min: then one mail with all 25, in order, none lost."""
    outbox, now, attempts = Outbox(), START, 0
    rows = [written(n, f"i{n % 3}", age=-HOUR * n) for n in range(25)]
    for waiting in rows:
        now = max(now, waiting.created_realtime_seconds)
        outbox.add(waiting, now, 1)
        outbox.committed(Committed(1))
        while (due := outbox.next_due(now)) is not None and due < START + HOUR * (
            waiting.number + 1
        ):
            now = max(now, due)
            outbox.sent(failed(begun(outbox, now)), now)
            attempts += 1
    assert 24 * 4 < attempts < 24 * 4 + 20
    now = outbox.next_due(now) or now
    first = begun(outbox, now)
    assert first.parts == (), "a digest does not probe"
    outbox.sent(took(first), now)
    rows = [waiting for waiting in rows if waiting.message_id != first.message_id]
    assert outbox.oldest_unsent_seconds(now) == now - START
    due = outbox.next_due(now)
    assert due is not None
    digest = begun(outbox, due)
    assert digest.parts == tuple(r.message_id for r in rows)
    assert held(digest.data) == [r.data for r in rows]
    batch, problem = outbox.sent(took(digest), due)
    assert set(batch.remove) == {digest.message_id, *digest.parts}
    assert (len(outbox), problem, outbox.next_due(due)) == (0, "", None)


def test_a_digest_is_as_urgent_as_the_worst_in_it_and_reports_that() -> None:
    """A critical mail among warnings: the subject shows it, and the digest is sent first."""
    outbox = Outbox()
    alone = written(1, "alone", age=3 * HOUR, maybe_taken=True)
    critical = written(2, "b", severity=Severity.CRITICAL)
    outbox.restore([alone, written(1, "a", age=2 * HOUR), critical], START)
    digest = begun(outbox, START)
    assert digest.parts == ("<iowarden.a.1@db1>", critical.message_id)
    text = digest.data.decode()
    assert text.startswith("Subject: [CRITICAL] db1: 2 delayed mails since ")
    assert "X-Iowarden-Severity: critical" in text
    outbox.sent(took(digest), START)
    assert begun(outbox, START).message_id == alone.message_id


def test_before_an_hour_is_over_mails_go_as_they_are() -> None:
    """After a short outage each mail has its own subject."""
    outbox = Outbox()
    outbox.restore([written(1, "a", age=HOUR - 1), written(2, "b", age=10)], START)
    assert begun(outbox, START).parts == ()
    one = Outbox()
    one.restore([written(1, "a", age=5 * HOUR)], START)
    assert begun(one, START).parts == (), "one mail is no digest"


def test_what_may_have_been_taken_is_in_no_digest() -> None:
    """The connection broke after DATA: the mail is sent again unchanged, the others in a digest."""
    outbox = Outbox()
    rows = [written(n, f"i{n}", age=HOUR - n) for n in (1, 2, 3)]
    outbox.restore(rows, START)
    first = begun(outbox, START)
    batch, _ = outbox.sent(failed(first, maybe_taken=True), START)
    assert [r.maybe_taken for r in batch.add] == [True]
    later = START + HOUR
    again = begun_and_taken(outbox, later)
    assert (again.message_id, again.data) == (first.message_id, first.data)
    assert begun(outbox, later).parts == (rows[1].message_id, rows[2].message_id)


def test_a_digest_that_may_have_been_taken_goes_again_to_the_byte() -> None:
    """Also after a kill, and although another mail was added."""
    outbox = Outbox()
    rows = [written(1, "a", age=2 * HOUR), written(1, "b", age=HOUR)]
    outbox.restore(rows, START)
    batch = outbox.begin(START, 1)
    assert batch is not None
    outbox.committed(Committed(1))
    digest = outbox.next(START)
    assert digest is not None
    after = Outbox()
    after.restore([*rows, *batch.add], START + 1)  # killed during the attempt
    after.add(written(1, "c"), START + 1, 2)
    after.committed(Committed(2))
    again = begun(after, START + 1)
    assert (again.message_id, again.data) == (digest.message_id, digest.data)
    after.sent(took(again), START + 1)
    assert begun(after, START + 1).incident == "c"


def test_a_digest_that_was_surely_not_taken_is_one_with_what_came_meanwhile() -> None:
    """The server is down again: one mail probes, and the next digest contains the new mail, too."""
    outbox = Outbox()
    outbox.restore([written(1, n, age=2 * HOUR) for n in ("a", "b", "d")], START)
    first = begun(outbox, START)
    batch, _ = outbox.sent(failed(first), START)
    assert batch.remove == (first.message_id,)
    outbox.add(written(1, "c"), START + 1, 7)
    outbox.committed(Committed(7))
    probe = begun(outbox, START + 10)
    assert probe.parts == ()
    outbox.sent(took(probe), START + 10)
    rest = {*first.parts, "<iowarden.c.1@db1>"} - {probe.message_id}
    assert set(begun(outbox, START + 10).parts) == rest


def test_a_digest_that_the_server_refuses_is_taken_apart() -> None:
    """Too large for it, or spam in its eyes: each mail is tried by itself, and never merged again.

    Else what one of them is refused for would cost all of them.
    """
    outbox = Outbox()
    rows = [written(n, f"i{n}", age=2 * HOUR) for n in (1, 2)]
    outbox.restore(rows, START)
    digest = begun(outbox, START)
    result = SendResult(
        digest.message_id, error="552 too large", scope=Scope.MESSAGE, fault=Fault.CONTENT
    )
    batch, problem = outbox.sent(result, START)
    assert batch.remove == (digest.message_id,)
    assert problem.startswith("552 too large; ")
    for mail_row in rows:
        chosen = begun(outbox, START)
        assert (chosen.message_id, chosen.data) == (mail_row.message_id, mail_row.data)
        outbox.sent(took(chosen), START)
    assert len(outbox) == 0


def test_a_digest_without_a_reply_is_repeated_and_then_taken_apart() -> None:
    """The same bytes after 10 min, 1 h and 6 h; then its mails are in the digest of a newer one."""
    outbox, now = Outbox(), START
    outbox.restore([written(n, f"i{n}", age=2 * HOUR) for n in (1, 2)], now)
    sent, times = set(), []
    for _ in range(4):
        chosen = begun(outbox, now)
        sent.add(chosen.data)
        times.append(now - START)
        outbox.sent(failed(chosen, maybe_taken=True), now)
        now = outbox.next_due(now) or now
    assert len(sent) == 1
    assert times == [0, 600, 4200, 4200 + 6 * HOUR]
    now = START + times[-1] + 600
    outbox.add(written(1, "new", age=START - now), now, 5)
    outbox.committed(Committed(5))
    now = outbox.next_due(now) or now
    assert begun_and_taken(outbox, now).incident == "new"
    last = begun_and_taken(outbox, now + 24 * HOUR)
    assert last.data.count(b"(may have reached you)") == 2
    assert len(outbox) == 0


def begun_and_taken(outbox: Outbox, now: float) -> OutboxRow:
    """Return a mail that the server accepts."""
    chosen = begun(outbox, now)
    outbox.sent(took(chosen), now)
    return chosen


def test_a_digest_that_somebody_has_goes_to_the_others_as_it_is() -> None:
    """a@x has it, b@x is busy, then refuses: kept unchanged for b@x until it is retried."""
    outbox = Outbox()
    rows = [written(1, "a", age=2 * HOUR), written(1, "b", age=HOUR)]
    outbox.restore(rows, START)
    digest = begun(outbox, START)
    outbox.sent(refused(digest, "a@x", b=Fault.DEFERRED), START)
    again = begun(outbox, START + HOUR)
    assert (again.recipients_pending, again.parts) == (("b@x",), digest.parts)
    refusal = refused(again, b=Fault.UNKNOWN_RECIPIENT)
    batch, _ = outbox.sent(refusal, START + HOUR)
    assert not batch.remove
    assert begun_and_taken(outbox, START + HOUR).incident == "refused"
    assert (len(outbox), outbox.refused()) == (2, 2)
    assert outbox.oldest_unsent_seconds(START) is None
    batch = outbox.reload(("a@x", "c@x"), (), START + HOUR, 9)
    assert [r.recipients_pending for r in batch.add] == [("c@x",)]
    assert set(outbox.sent(took(begun(outbox, START + HOUR)), START + HOUR)[0].remove) == {
        digest.message_id,
        *digest.parts,
    }


def test_a_digest_whose_mails_are_gone_holds_back_none() -> None:
    """A state.db that was edited by hand: the remaining mails are sent alone."""
    outbox = Outbox()
    rows = [written(1, "a", age=2 * HOUR), written(1, "b", age=HOUR)]
    outbox.restore(rows, START)
    batch = outbox.begin(START, 1)
    assert batch is not None
    torn = Outbox()
    torn.restore([rows[0], *batch.add], START)
    assert begun(torn, START).message_id == rows[0].message_id


def test_mails_are_marked_before_they_go_and_at_once_where_nothing_is_in_the_way() -> None:
    """A critical mail waits for one commit, not for two; a retry is stored before it starts."""
    outbox = Outbox()
    (stored,) = outbox.add(written(1), START, 1)
    assert stored.maybe_taken
    outbox.committed(Committed(1))
    assert outbox.begin(START, 2) is None, "state.db knows already"
    chosen = outbox.next(START)
    assert chosen is not None
    (waiting,) = outbox.add(written(2, "b"), START, 3)
    outbox.committed(Committed(3))
    batch, _ = outbox.sent(failed(chosen), START)
    assert {r.message_id: r.maybe_taken for r in batch.add} == {
        chosen.message_id: False,
        waiting.message_id: False,
    }, "neither has been handed over, and a start may put them into a digest"
    (later,) = outbox.add(written(3, "c"), START, 4)
    assert not later.maybe_taken, "while the server fails nothing goes at once"
    marked = outbox.begin(START + 10, 5)
    assert marked is not None
    assert [r.maybe_taken for r in marked.add] == [True]
    assert outbox.next(START + 11.9) is None
    assert outbox.next(START + 12) == marked.add[0], "a hung disk costs 2 s"


# --- how long it takes, and how much is kept


def test_what_waits_too_long_is_reported_once_a_day_and_when_it_is_over() -> None:
    """The journal is the only other channel to the administrator."""
    outbox = Outbox()
    outbox.add(written(1), START, 1)
    outbox.committed(Committed(1))
    assert outbox.overdue(START + HOUR - 1, HOUR) is None
    chosen = begun(outbox, START)
    outbox.sent(failed(chosen), START)
    said = outbox.overdue(START + HOUR, HOUR)
    assert said == (
        2,
        (
            f"mail: 1 not delivered, the oldest has waited for 1 h; {DOWN};"
            " to test: 'iowarden test-mail'"
        ),
    )
    assert outbox.overdue(START + 24 * HOUR, HOUR) is None
    again = outbox.overdue(START + 25 * HOUR, HOUR)
    assert again is not None
    assert "the oldest has waited for 1 d 1 h" in again[1]
    outbox.sent(took(begun(outbox, START + 25 * HOUR)), START + 25 * HOUR)
    assert outbox.overdue(START + 25 * HOUR, HOUR) == (
        5,
        "mail: backlog cleared, no mail waits for longer than 1 h",
    )
    assert outbox.overdue(START + 26 * HOUR, HOUR) is None


def test_a_mail_of_1970_is_not_half_a_century_late() -> None:
    """It was written before the clock was set: its age is unknown."""
    outbox = Outbox()
    outbox.restore([row(1), row(2, "b")], START)
    assert outbox.overdue(START, HOUR) is None
    assert begun(outbox, START).parts == ()


def test_what_was_refused_is_tried_again_at_whoever_is_mailed_today() -> None:
    """'mail.to' was corrected: b@x is now c@x; a@x, who has it, does not get it again."""
    outbox = Outbox()
    outbox.restore([written(1)], START)
    chosen = begun(outbox, START)
    outbox.sent(refused(chosen, "a@x", b=Fault.UNKNOWN_RECIPIENT), START)
    assert begun_and_taken(outbox, START).incident == "refused"
    assert outbox.refused() == 1
    batch = outbox.reload(("a@x", "c@x"), (), START + 1, 3)
    assert [r.recipients_pending for r in batch.add] == [("c@x",)]
    assert outbox.refused() == 0
    assert begun(outbox, START + 1).recipients_pending == ("c@x",)


def test_what_nobody_of_today_lacks_is_not_kept_for_a_retry() -> None:
    """The refused address was removed from the list: no recipient is left."""
    outbox = Outbox()
    outbox.restore([written(1)], START)
    chosen = begun(outbox, START)
    outbox.sent(refused(chosen, "a@x", b=Fault.UNKNOWN_RECIPIENT), START)
    assert begun_and_taken(outbox, START).incident == "refused"
    assert outbox.reload(("a@x",), (), START + 1, 3).remove == (chosen.message_id,)
    assert len(outbox) == 0


def test_what_was_refused_is_forgotten_after_a_month_and_that_is_reported() -> None:
    """A typo in 'mail.to' does not fill the disk; each discarded mail is logged with the reason."""
    outbox = Outbox()
    old, new = written(1, age=31 * 24 * HOUR), written(2, age=HOUR)
    outbox.restore([old, new], START)
    assert outbox.drop_refused(START, 4)[1] == (), "what can still be delivered is never forgotten"
    unknown = Fault.UNKNOWN_RECIPIENT
    outbox.sent(refused(begun(outbox, START), a=unknown, b=unknown), START)
    batch, lines = outbox.drop_refused(START, 4)
    assert batch.remove == (old.message_id,)
    assert lines == (
        f"mail {old.message_id} is discarded after 31 d: refused for a@x, b@x: no a@x; no b@x",
    )
    assert len(outbox) == 1


def test_an_outage_in_which_much_happens_costs_the_text_of_the_least_and_oldest() -> None:
    """Over 8 MiB: warnings are cut to their line, oldest first; digests say which, none is large.

    The newest critical mail is whole, however large the others are.
    """
    outbox = Outbox()
    text = b"x" * 76 + b"\r\n"
    rows = [
        written(
            n, f"i{n}", age=3 * HOUR - n, severity=Severity.WARNING if n % 2 else Severity.CRITICAL
        )
        for n in range(100)
    ]
    large = [replace(each, data=each.data + text * 1300) for each in rows]
    outbox.restore(large[:-1], START)
    stored = outbox.add(large[-1], START, 1)
    cut = [r.message_id for r in stored[1:]]
    assert cut == [large[n].message_id for n in range(1, 2 * len(cut), 2)]
    assert len(cut) > 10
    outbox.committed(Committed(1))
    sent: list[bytes] = []
    while len(outbox):
        digest = begun_and_taken(outbox, START)
        assert len(digest.data) < MAX_DIGEST_BYTES + 20_000
        sent.append(digest.data)
    assert 7 < len(sent) < 10
    whole = [each for data in sent for each in held(data)]
    assert whole == [each.data for each in large if each.message_id not in cut]
    listed = email.message_from_bytes(sent[0], policy=email.policy.default).get_body()
    assert isinstance(listed, EmailMessage)
    lines = listed.get_content().splitlines()
    assert "whose text was discarded: the outbox was full." in " ".join(lines)
    assert "WARNING  incident i1, mail 1  (text discarded)" in [line[21:] for line in lines]
    assert "  mail 1 of i1" in lines


def test_a_digest_that_somebody_has_is_never_taken_apart() -> None:
    """a@x has it; for b@x the connection breaks, then the server refuses: a@x gets no duplicate."""
    outbox, now = Outbox(), START
    outbox.restore([written(n, f"i{n}", age=2 * HOUR) for n in (1, 2)], now)
    digest = begun(outbox, now)
    outbox.sent(refused(digest, "a@x", b=Fault.DEFERRED), now)
    for result in (failed(digest), spam(digest), failed(digest, maybe_taken=True)):
        now = outbox.next_due(now) or now
        again = begun(outbox, now)
        assert (again.data, again.recipients_pending) == (digest.data, ("b@x",))
        batch, _ = outbox.sent(result, now)
        assert batch.remove == ()
    assert outbox.row(digest.message_id) is not None


def test_a_digest_waits_for_the_mail_before_it_of_an_incident_but_not_for_ever() -> None:
    """The first mail may have been accepted and is sent alone; its replies follow."""
    outbox, now = Outbox(), START
    first = written(1, "a", age=2 * HOUR, maybe_taken=True)
    rest = [written(2, "a", severity=Severity.CRITICAL), written(1, "b", age=3 * HOUR)]
    outbox.restore([first, *rest], now)
    chosen = begun(outbox, now)
    assert chosen.message_id == first.message_id
    outbox.sent(failed(chosen, maybe_taken=True), now)
    probe = begun_and_taken(outbox, now + 10)
    assert probe.message_id != first.message_id
    assert len(outbox) == 2


def test_a_digest_waits_for_no_mail_that_the_disk_has_not_taken() -> None:
    """The newest is not stored yet: it is in the next digest, or sent alone."""
    outbox = Outbox()
    outbox.restore([written(n, f"i{n}", age=2 * HOUR) for n in (1, 2)], START)
    outbox.add(written(3, "new"), START, 1)
    assert len(begun(outbox, START).parts) == 2


def test_what_may_have_been_taken_and_the_newest_critical_mail_are_never_cut() -> None:
    """A retry is identical; and the newest critical mail is what the administrator needs now."""
    outbox = Outbox()
    large = b"x" * (MAX_BYTES // 2)
    uncertain = replace(written(1, "a", age=2 * HOUR, maybe_taken=True), data=large)
    outbox.restore([uncertain], START)
    critical = replace(written(2, "b", severity=Severity.CRITICAL), data=large + large)
    assert len(outbox.add(critical, START, 1)) == 1
    warning = written(3, "c")
    assert [r.message_id for r in outbox.add(warning, START, 2)] == [warning.message_id] * 2
    assert {outbox.row(r.message_id) for r in (uncertain, critical)} == {
        uncertain,
        replace(critical, maybe_taken=True),
    }


# --- whatever happens

STEPS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(["a", "b", "c"]), st.integers(2, 3)),
    st.tuples(st.just("replace"), st.integers(2, 3)),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 5.0, 100.0, HOUR, 20 * HOUR])),
    st.tuples(st.just("taken"), st.booleans()),
    st.tuples(st.just("lost answer"), st.booleans()),
    st.tuples(st.just("fault"), st.booleans()),
    st.tuples(st.just("defer")),
    st.tuples(st.just("spam")),
    st.tuples(st.just("part"), st.booleans()),
    st.tuples(st.just("kill"), st.booleans()),
)


class World:
    """An outbox, its state.db, and the mails that a server has; with kills."""

    def __init__(self) -> None:
        self.now = START
        self.durable: dict[str, OutboxRow] = {}
        self.pending: list[StateChanges] = []
        self.sequence = 0
        self.outbox = Outbox()
        self.number = 0
        self.owed: dict[str, OutboxRow] = {}
        self.ways: dict[tuple[str, str], set[str]] = {}
        """By recipient and mail, the Message-IDs that delivered it."""

    def write(self, batch: StateChanges) -> None:
        """Store a batch."""
        self.durable.update({r.message_id: r for r in batch.add})
        for name in batch.remove:
            self.durable.pop(name, None)
        self.outbox.committed(Committed(batch.sequence))

    def step(self, kind: str, *given: object) -> None:
        """Let one event happen."""
        self.sequence += 1
        match kind, given:
            case "add", (str(incident), int(severity)):
                self.number += 1
                worst, age = Severity(severity), START - self.now
                made = written(self.number, incident, age=age, severity=worst)
                self.owed[made.message_id] = made
                self.write(
                    StateChanges(self.sequence, add=self.outbox.add(made, self.now, self.sequence))
                )
            case "replace", (int(severity),):
                for incident, rows in self.outbox.outdated(self.now).items():
                    if incident == "refused":  # no incident of this name changes
                        continue
                    self.replace(incident, [each.message_id for each in rows], Severity(severity))
            case "wait", (float(seconds),):
                self.now += seconds
            case "kill", (bool(in_flight),):
                if in_flight:
                    self.begin()
                self.restart()
            case _:
                self.attempt(kind, *given)

    def replace(self, incident: str, names: list[str], worst: Severity) -> None:
        """Let one mail replace others: no recipient may have any of them, then or later."""
        assert not any(self.ways.get((r, name)) for name in names for r in RECIPIENTS)
        oldest = min(self.durable[name].created_realtime_seconds for name in names)
        for name in names:
            del self.owed[name]
        self.number += 1
        made = written(self.number, incident, age=START - self.now, severity=worst)
        added = self.outbox.add(made, self.now, self.sequence, names)
        assert added[0].created_realtime_seconds == oldest
        self.owed[made.message_id] = made
        self.write(StateChanges(self.sequence, add=added, remove=tuple(names)))
        assert self.outbox.row(names[0]) is None

    def begin(self) -> OutboxRow | None:
        """Begin an attempt, if a mail is due."""
        batch = self.outbox.begin(self.now, self.sequence)
        if batch is not None:
            self.write(batch)
        return self.outbox.next(self.now)

    def restart(self) -> None:
        """Kill and restart."""
        self.outbox = Outbox()
        rows = sorted(self.durable.values(), key=lambda r: (r.created_realtime_seconds, r.number))
        self.outbox.restore(rows, self.now)

    def take(self, chosen: OutboxRow, recipients: tuple[str, ...]) -> None:
        """Act as the server that accepts a mail."""
        for recipient in recipients:
            for name in chosen.parts or (chosen.message_id,):
                self.ways.setdefault((recipient, name), set()).add(chosen.message_id)
        if chosen.parts:
            assert held(chosen.data) == [self.owed[name].data for name in chosen.parts]

    def attempt(self, kind: str, after: bool = False) -> None:
        """Make an attempt; `after`: the failure happens after the server has the mail."""
        chosen = self.begin()
        if chosen is None:
            return
        name, everybody = chosen.message_id, chosen.recipients_pending
        first, rest = everybody[:1], everybody[1:]
        match kind:
            case "taken" | "lost answer":
                self.take(chosen, everybody)
                result = SendResult(name, everybody)
            case "fault":
                if after:
                    self.take(chosen, everybody)
                result = failed(chosen, maybe_taken=after)
            case "spam":
                result = spam(chosen)
            case "defer":
                texts = dict.fromkeys(everybody, "no")
                faults = dict.fromkeys(everybody, Fault.DEFERRED)
                result = SendResult(name, refused=texts, faults=faults)
            case _:
                self.take(chosen, first)
                texts, faults = dict.fromkeys(rest, "no"), dict.fromkeys(rest, Fault.REFUSED)
                result = SendResult(name, first, texts, faults=faults)
        if kind == "lost answer":  # killed after the server accepted it, before its reply was read
            self.restart()
            return
        batch, _ = self.outbox.sent(result, self.now, self.sequence)
        self.owed |= {r.message_id: r for r in batch.add if r.incident == "refused" and not r.parts}
        if kind == "taken" and after:  # killed before the removal is stored
            self.restart()
        else:
            self.write(batch)

    def judge(self) -> None:
        """Check the invariants."""
        for name, row in self.owed.items():
            for recipient in addressees(row.data):
                ways = self.ways.get((recipient, name), set())
                assert len(ways) <= 1, "two Message-IDs for one mail"
                kept = self.durable.get(name)
                assert ways or (kept and recipient in kept.recipients_pending), "lost"


@given(script=st.lists(STEPS, max_size=60))
def test_whatever_happens_nothing_is_lost_and_nothing_comes_in_two_ways(
    script: list[tuple[object, ...]],
) -> None:
    """Servers that accept, fail, defer, or accept for some; kills at any step; hours of waiting."""
    world = World()
    for kind, *given_values in script:
        assert isinstance(kind, str)
        world.step(kind, *given_values)
        world.judge()
    # Then the server accepts all; what it did not answer for waits up to a day.
    for seconds in (*[900.0] * 3 * len(world.owed), *[HOUR] * 30):
        if world.durable:
            world.now += seconds
            world.step("taken", False)
    world.judge()
    assert not world.durable
    assert len(world.outbox) == 0
