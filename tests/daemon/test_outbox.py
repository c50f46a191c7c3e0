"""The outbox: what goes when, alone or in a digest, whatever servers, disks and kills do."""

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from iowarden.daemon.outbox import Outbox, SendResult, backoff_seconds
from iowarden.daemon.state import Committed, OutboxRow
from iowarden.rules.notice import Severity

DATA = b"Subject: test\r\nMessage-ID: <iowarden.a.1@db1>\r\n\r\n.a line with a dot\r\n"


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
    """Return the result of a server that takes it all."""
    return SendResult(mail_row.message_id, delivered=mail_row.recipients_pending)


def departs(outbox: Outbox, now: float) -> int | None:
    """Return the number of the mail that goes now, if any."""
    chosen = outbox.next(now)
    return None if chosen is None else chosen.number


DOWN = "mail: 'mx1:25': connect: expected a connection, got 'Connection refused'"


def test_a_mail_waits_for_the_disk_and_not_longer_than_two_seconds() -> None:
    """Durable first where the disk answers; where it hangs, the alert goes out without it."""
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
    """Six mails of three incidents wait after an outage; they leave in order of their use."""
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


def test_a_server_that_is_down_is_asked_at_growing_intervals_for_one_mail() -> None:
    """Ten mails wait; the intervals are those of backoff_seconds whatever their number."""
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
    assert intervals == [5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 900.0]
    assert intervals == [backoff_seconds(n) for n in range(1, 10)]


def test_a_mail_at_which_the_server_always_fails_does_not_hold_the_others_back() -> None:
    """A server that breaks the connection at one message still gets every other."""
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
        result = SendResult(chosen.message_id, error=DOWN) if failed else took(chosen)
        outbox.sent(result, now)
        delivered += [] if failed else [chosen.number]
    assert sorted(delivered) == [2, 3]
    assert outbox.row(poison.message_id) is not None


def test_a_partly_refused_list_is_not_sent_to_again_and_what_was_refused_is_kept() -> None:
    """a@x has it, b@x is refused for good, c@x is busy: only c@x is tried, b@x is remembered."""
    outbox = Outbox()
    outbox.restore([row(1, recipients_pending=("a@x", "b@x", "c@x"))], 0.0)
    chosen = outbox.next(0.0)
    assert chosen is not None
    result = SendResult(chosen.message_id, ("a@x",), {"b@x": "550 unknown"}, {"c@x": "450 busy"})
    batch, problem = outbox.sent(result, 0.0)
    (kept,) = batch.add
    assert (kept.recipients_pending, kept.recipients_refused) == (("c@x",), ("b@x",))
    assert "550 unknown" in problem
    assert "450 busy" in problem
    again = outbox.next(5.0)
    assert again == replace(kept, maybe_taken=True)
    batch, _ = outbox.sent(took(kept), 5.0)
    assert [r.kept for r in batch.add] == [True]
    assert not batch.remove
    assert outbox.next(1e9) is None
    assert outbox.next_due(1e9) is None
    assert (len(outbox), outbox.refused()) == (1, 1)
    assert outbox.oldest_unsent_seconds(10.0) is None


def test_a_mail_deferred_for_one_recipient_does_not_hold_back_the_next_of_its_incident() -> None:
    """A full mailbox may stay so for days; the others must hear that it got worse."""
    outbox = Outbox()
    outbox.restore([row(1), row(2)], 0.0)
    assert departs(outbox, 0.0) == 1
    outbox.sent(SendResult(row(1).message_id, ("a@x",), {}, {"b@x": "452 full"}), 0.0)
    assert departs(outbox, 0.0) == 2


def test_a_server_that_turns_a_mail_down_for_good_is_not_asked_again() -> None:
    """5xx to MAIL FROM: kept and reported, never retried by itself, never lost."""
    outbox = Outbox()
    outbox.restore([row(1)], 0.0)
    assert departs(outbox, 0.0) == 1
    batch, problem = outbox.sent(SendResult(row(1).message_id, error="553 no", permanent=True), 0.0)
    assert batch.add[0].kept
    assert "kept in state.db and not tried again" in problem
    assert outbox.next(1e9) is None


def test_after_each_mail_the_disk_is_given_time_to_learn_of_it() -> None:
    """So a kill repeats at most one; a hung disk costs each mail two seconds, not its delivery."""
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
    """A result of a mail that is not in the outbox is no reason to write anything."""
    batch, problem = Outbox().sent(SendResult("<nobody@x>", ("a@x",)), 0.0)
    assert (batch.add, batch.remove, problem) == ((), (), "")


OUTCOMES = st.sampled_from(["delivered", "refused", "deferred"])


@given(
    severities=st.lists(
        st.sampled_from([Severity.WARNING, Severity.CRITICAL]), min_size=1, max_size=6
    ),
    script=st.lists(st.tuples(st.booleans(), OUTCOMES, OUTCOMES), max_size=40),
)
def test_nobody_is_served_twice_and_nobody_is_forgotten(
    severities: list[Severity], script: list[tuple[bool, str, str]]
) -> None:
    """Whatever servers say: each recipient has the mail once, or is still on its row."""
    outbox = Outbox()
    rows = [row(n, f"i{n % 2}", severity=s) for n, s in enumerate(severities)]
    durable = {r.message_id: r for r in rows}
    outbox.restore(rows, 0.0)
    served: set[tuple[str, str]] = set()
    now = 0.0
    for fails, *outcomes in script:
        due = outbox.next_due(now)
        if due is None:
            break
        now = max(now, due)
        chosen = outbox.next(now)
        assert chosen is not None
        said = dict(zip(chosen.recipients_pending, outcomes, strict=False))
        served_now = tuple(r for r, o in said.items() if o == "delivered" and not fails)
        assert not served & {(chosen.message_id, r) for r in served_now}
        served |= {(chosen.message_id, r) for r in served_now}
        result = SendResult(
            chosen.message_id,
            () if fails else served_now,
            {r: "550" for r, o in said.items() if o == "refused" and not fails},
            {r: "450" for r, o in said.items() if o == "deferred" and not fails},
            DOWN if fails else "",
        )
        batch, _ = outbox.sent(result, now)
        durable.update({r.message_id: r for r in batch.add})
        for message_id in batch.remove:
            del durable[message_id]
    for mail_row in rows:
        for recipient in mail_row.recipients_pending:
            left = durable.get(mail_row.message_id)
            waits = left is not None and recipient in (
                *left.recipients_pending,
                *left.recipients_refused,
            )
            assert waits != ((mail_row.message_id, recipient) in served)
