"""The outbox of a receiver other than mail: digests, refusals and pauses, without a server."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from iowarden.daemon.notify.attempt import SendResult
from iowarden.daemon.notify.outbox import MAX_BYTES, Outbox
from iowarden.daemon.notify.retry import http_verdict
from iowarden.daemon.receivers import message
from iowarden.daemon.receivers.dry_run import test_notice as make_notice
from iowarden.daemon.storage.state_db import Committed, OutboxRow
from iowarden.rules.severity import Severity

START = 1_795_266_000.0
FORM = message.document_format("ops")


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


def replied(each: OutboxRow, status: int, pause_seconds: float = 0.0) -> SendResult:
    """Return the result of an attempt that a server did not accept."""
    verdict = http_verdict(status)
    return SendResult(
        each.message_id,
        error=str(status),
        scope=verdict.scope,
        fault=verdict.fault,
        retry_after_seconds=pause_seconds,
        receiver="ops",
    )


def test_a_receiver_that_was_down_for_an_hour_gets_one_message_that_contains_the_others() -> None:
    """It is stored as a row of that receiver; accepted, it removes all of them."""
    outbox = filled(row(1), row(2), row(1, "b"))
    outbox.sent(replied(sent(outbox, START), 503), START, 99)
    outbox.committed(Committed(99))
    probe = sent(outbox, START + 4000.0)
    outbox.sent(SendResult(probe.message_id, ("ops",)), START + 4000.0, 99)
    outbox.committed(Committed(99))
    batch = outbox.begin(START + 4000.0, 100)
    assert batch is not None
    (stored,) = batch.add
    assert (stored.receiver, stored.message_id[:11]) == ("ops", "ops:digest.")
    outbox.committed(Committed(100))
    digest = outbox.next(START + 4000.0)
    assert digest is not None
    held = [each["id"] for each in json.loads(digest.data)["messages"]]
    assert len(held) == 2
    batch, _ = outbox.sent(SendResult(digest.message_id, ("ops",)), START + 4001.0, 101)
    assert len(batch.remove) == 3
    assert len(outbox) == 0


def test_a_message_of_delayed_ones_that_is_too_large_is_taken_apart() -> None:
    """413: they go one by one; none is kept back for a month because of the others."""
    outbox = Outbox(FORM)
    outbox.restore([row(1), row(1, "b")], START + 4000.0)
    digest = sent(outbox, START + 4000.0)
    assert digest.parts
    outbox.sent(replied(digest, 413), START + 4000.0, 100)
    outbox.committed(Committed(100))
    assert not sent(outbox, START + 4001.0).parts
    assert outbox.refused() == 0


@pytest.mark.parametrize("status", [302, 401, 403, 404, 405, 410])
def test_what_a_server_refuses_waits_and_is_never_dropped(status: int) -> None:
    """The text names what to correct; a reload tries it at once, a refused token only if another.

    The same token, sent at each reload, would lock the account.
    """
    outbox = filled(row(1))
    first = sent(outbox, START)
    _, problem = outbox.sent(replied(first, status), START, 100)
    assert "retried after 'systemctl reload iowarden' with a corrected address or login" in problem
    assert "a successful 'iowarden test-notify ops'" in problem
    assert outbox.refused() == 1
    assert outbox.oldest_unsent_seconds(START + 9999.0) == 9999.0
    outbox.committed(Committed(100))
    due = outbox.next_due(START)
    assert due is not None
    outbox.reload(("ops",), (), START + 20.0, 101)
    if status in {401, 403}:
        assert outbox.next(START + 20.0) is None
        outbox.reload(("ops",), outbox.servers, START + 20.0, 102)
    assert sent(outbox, START + 20.0).data == first.data


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_message_that_is_too_much_goes_at_once_in_a_short_form(status: int) -> None:
    """Never the same bytes again; it has an id of its own, and says what was left out."""
    outbox = filled(row(1))
    outbox.sent(replied(sent(outbox, START), status), START, 99)
    outbox.committed(Committed(99))
    short = sent(outbox, START)
    document = json.loads(short.data)
    assert (document["id"], document["sentences"]) == ("a.1-short", [])
    assert document["title"] == json.loads(row(1).data)["title"]
    outbox.sent(replied(short, status), START, 100)
    outbox.committed(Committed(100))
    assert outbox.next_due(START) == START + 60.0, "then it is a refusal like any other"
    assert len(outbox) == 1


@pytest.mark.parametrize("status", [0, 500, 502, 504])
def test_a_message_without_a_reply_is_repeated_unchanged_and_is_marked(status: int) -> None:
    """After 1 min, 10 min and each hour; meanwhile others are tried."""
    outbox, now, times = filled(row(1)), START, []
    first = row(1)
    for _ in range(4):
        again = sent(outbox, now)
        assert again.data == first.data
        assert outbox.is_repeated(again.message_id) == (now > START)
        times.append(now - START)
        outbox.sent(replied(again, status), now, 99)
        outbox.committed(Committed(99))
        now = outbox.next_due(now) or now
    assert times == [0.0, 60.0, 660.0, 4260.0]


@pytest.mark.parametrize(("wanted", "waits"), [(0.0, 60.0), (120.0, 120.0), (1e6, 3600.0)])
def test_the_server_is_given_the_pause_it_wants_up_to_an_hour(wanted: float, waits: float) -> None:
    """Also for other messages."""
    outbox = filled(row(1))
    outbox.sent(replied(sent(outbox, START), 503, wanted), START, 99)
    outbox.committed(Committed(99))
    outbox.add(row(1, "b"), START, 100)
    outbox.committed(Committed(100))
    assert outbox.next_due(START) == START + waits


def test_a_server_that_wants_pauses_is_tried_each_minute_also_after_an_hour() -> None:
    """429 or 503: it says itself when to return, so that no budget of refused attempts counts."""
    outbox, now, times = filled(row(1)), START, []
    while now < START + 3600.0:
        times.append(now)
        outbox.sent(replied(sent(outbox, now), 429), now, 99)
        outbox.committed(Committed(99))
        now = outbox.next_due(now) or now
    assert len(times) == 60


def failed(outbox: Outbox, now: float, *, name: str) -> None:
    """Let an attempt at a message fail with 500."""
    again = sent(outbox, now)
    assert again.message_id == name
    outbox.sent(replied(again, 500), now, 99)
    outbox.committed(Committed(99))


def test_what_a_receiver_failed_at_follows_when_it_accepts_another_message() -> None:
    """A gateway was down for a quarter of an hour: not an hour later."""
    outbox, old = filled(row(1)), row(1).message_id
    for now in (0.0, 60.0, 660.0):
        failed(outbox, START + now, name=old)
    outbox.add(row(1, "b"), START + 900.0, 100)
    outbox.committed(Committed(100))
    new = sent(outbox, START + 900.0)
    outbox.sent(SendResult(new.message_id, ("ops",)), START + 900.0, 101)
    outbox.committed(Committed(101))
    again = sent(outbox, START + 900.0)
    assert (again.message_id, outbox.is_repeated(old)) == (old, True)


def test_a_message_that_a_receiver_fails_at_while_it_accepts_others_is_not_repeated_for_each() -> (
    None
):
    """Its script fails at this one, and a person may get it each time."""
    outbox, old, now, times = filled(row(1)), row(1).message_id, START, []
    for number in range(40):
        outbox.add(row(1, f"b{number}"), now, 100)
        outbox.committed(Committed(100))
        while (due := outbox.next_due(now)) is not None and due <= now:
            each = sent(outbox, now)
            is_old = each.message_id == old
            times += [now - START] if is_old else []
            result = replied(each, 500) if is_old else SendResult(each.message_id, ("ops",))
            outbox.sent(result, now, 99)
            outbox.committed(Committed(99))
        now += 120.0
    assert len(times) <= 5, times


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
