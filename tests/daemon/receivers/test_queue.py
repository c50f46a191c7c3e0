"""The outbox of a receiver other than mail: digests, refusals and pauses, without a server."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from iowarden.daemon.notify.attempt import SendResult
from iowarden.daemon.notify.outbox import MAX_BYTES, Outbox
from iowarden.daemon.receivers import message
from iowarden.daemon.receivers.dry_run import test_notice as make_notice
from iowarden.daemon.storage.state_db import Committed, OutboxRow
from iowarden.rules.severity import Severity

START = 1_795_266_000.0
FORM = message.DocumentFormat("ops")


def row(number: int, incident: str = "a", sentences: tuple[str, ...] = ("x",)) -> OutboxRow:
    """Return a message."""
    notice = replace(
        make_notice(START + number), incident=incident, number=number, sentences=sentences
    )
    return OutboxRow(
        message.message_id("ops", notice),
        incident,
        number,
        Severity.WARNING,
        START + number,
        ("ops",),
        message.encoded(message.document(notice, "db1")),
        receiver="ops",
    )


def filled(*rows: OutboxRow) -> Outbox:
    """Return an outbox with these, all stored."""
    outbox = Outbox(FORM)
    for number, each in enumerate(rows, 1):
        outbox.add(each, START, number)
    outbox.committed(Committed(len(rows)))
    return outbox


def sent(outbox: Outbox, now: float) -> OutboxRow:
    """Return what is sent now."""
    outbox.begin(now, 99)
    outbox.committed(Committed(99))
    found = outbox.next(now)
    assert found is not None
    return found


def down(each: OutboxRow, **changes: float) -> SendResult:
    """Return the result of an attempt at a server that is down."""
    return SendResult(each.message_id, error="503", receiver="ops", **changes)  # type: ignore[arg-type]


def test_a_receiver_that_was_down_for_an_hour_gets_one_message_that_contains_the_others() -> None:
    """It is stored as a row of that receiver; accepted, it removes all of them."""
    outbox = filled(row(1), row(2), row(1, "b"))
    outbox.sent(down(sent(outbox, START)), START, 99)
    outbox.committed(Committed(99))
    batch = outbox.begin(START + 4000.0, 100)
    assert batch is not None
    (stored,) = batch.add
    assert (stored.receiver, stored.message_id[:11]) == ("ops", "ops:digest.")
    outbox.committed(Committed(100))
    digest = outbox.next(START + 4000.0)
    assert digest is not None
    held = [each["id"] for each in json.loads(digest.data)["messages"]]
    assert sorted(held) == ["a.1", "a.2", "b.1"]
    batch, _ = outbox.sent(SendResult(digest.message_id, ("ops",)), START + 4001.0, 101)
    assert len(batch.remove) == 4
    assert len(outbox) == 0


def test_a_message_of_delayed_ones_that_is_too_large_is_taken_apart() -> None:
    """413: they go one by one; none is kept back for a month because of the others."""
    outbox = filled(row(1), row(1, "b"))
    outbox.sent(down(sent(outbox, START)), START, 99)
    outbox.committed(Committed(99))
    digest = sent(outbox, START + 4000.0)
    assert digest.parts
    refused = SendResult(digest.message_id, error="413", permanent=True, receiver="ops")
    _, problem = outbox.sent(refused, START + 4000.0, 100)
    assert "the notifications of the digest are sent one by one" in problem
    outbox.committed(Committed(100))
    assert not sent(outbox, START + 4001.0).parts
    assert outbox.refused() == 0


def test_a_refused_message_is_kept_and_the_text_names_what_to_correct() -> None:
    """It is sent again after a reload, and discarded after a month with its last error."""
    outbox = filled(row(1))
    first = sent(outbox, START)
    refused = SendResult(first.message_id, error="404", permanent=True, receiver="ops")
    _, problem = outbox.sent(refused, START, 100)
    assert "correct the entry 'ops' of 'notify', then 'systemctl reload iowarden'" in problem
    assert outbox.refused() == 1
    assert outbox.oldest_unsent_seconds(START + 9999.0) is None
    outbox.committed(Committed(100))
    assert outbox.retry_refused(("ops",), START + 60.0, 101).add
    assert sent(outbox, START + 60.0).data == first.data


@pytest.mark.parametrize(("wanted", "waits"), [(0.0, 5.0), (120.0, 120.0), (1e6, 3600.0)])
def test_the_server_is_given_the_pause_it_wants_up_to_an_hour(wanted: float, waits: float) -> None:
    """Also for other messages."""
    outbox = filled(row(1))
    outbox.sent(down(sent(outbox, START), retry_after_seconds=wanted), START, 99)
    outbox.committed(Committed(99))
    outbox.add(row(1, "b"), START, 100)
    outbox.committed(Committed(100))
    assert outbox.next_due(START) == START + waits


def test_a_full_outbox_discards_texts_and_no_message() -> None:
    """8 MB a receiver: what is cut says so and still names its incident."""
    large = tuple(f"{number} {'y' * 1990}" for number in range(99))
    outbox = filled(*(row(number, sentences=large) for number in range(1, 61)))
    rows = outbox.rows()
    assert sum(len(each.data) for each in rows) <= MAX_BYTES
    assert len(rows) == 60
    cut = [each for each in rows if FORM.is_cut(each.data)]
    assert cut
    assert all(json.loads(each.data)["incident"] == "a" for each in cut)


def test_messages_of_a_receiver_that_is_gone_are_discarded_after_a_month() -> None:
    """With a line each; those of one that is configured are not."""
    outbox = filled(row(1))
    month = START + 31 * 86400.0
    assert outbox.drop_refused(month, 100)[1] == ()
    batch, (line,) = outbox.drop_refused(month, 100, unused=True)
    assert "its receiver is not configured" in line
    assert batch.remove == (row(1).message_id,)
