"""The outbox and servers that refuse, do not reply, or are slow, over days of a played clock."""

from __future__ import annotations

import email
import email.policy
import itertools
from dataclasses import replace

import pytest

from iowarden.daemon.notify.attempt import SendResult
from iowarden.daemon.notify.digest import MAX_PLAIN_BYTES
from iowarden.daemon.notify.outbox import Outbox
from iowarden.daemon.notify.retry import Fault, Scope
from iowarden.daemon.storage.state_db import OutboxRow
from iowarden.rules.severity import Severity

START = 1795266034.0
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
TO = ("a@x", "b@x")


def written(number: int, incident: str = "a", *, at: float = START, **changes: object) -> OutboxRow:
    """Return a rendered mail of this time."""
    name = f"<iowarden.{incident}.{number}@db1>"
    head = f"Subject: mail {number} of {incident}\r\nFrom: iowarden@db1\r\nTo: {', '.join(TO)}\r\n"
    usual = OutboxRow(
        message_id=name,
        incident=incident,
        number=number,
        severity=Severity.CRITICAL,
        created_realtime_seconds=at,
        recipients_pending=TO,
        data=f"{head}Message-ID: {name}\r\n\r\nText of {number}.\r\n".encode(),
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


def refused(row: OutboxRow, fault: Fault, *recipients: str) -> SendResult:
    """Return the result of a server that refuses recipients with 554; none: every mail."""
    if not recipients:
        return SendResult(row.message_id, error="mx1: 554 no", fault=fault)
    return SendResult(
        row.message_id,
        tuple(r for r in row.recipients_pending if r not in recipients),
        refused=dict.fromkeys(recipients, "mx1: 554 no"),
        faults=dict.fromkeys(recipients, fault),
    )


def taken(row: OutboxRow) -> SendResult:
    """Return the result of a server that accepts a mail."""
    return SendResult(row.message_id, row.recipients_pending)


def unanswered(row: OutboxRow) -> SendResult:
    """Return the result of a server that does not reply to the final dot."""
    text = "mx1: end of data: expected 250, got no reply before the timeout"
    return SendResult(row.message_id, error=text, scope=Scope.MESSAGE, fault=Fault.UNANSWERED)


def at_end(row: OutboxRow, reply: str, fault: Fault = Fault.REFUSED) -> SendResult:
    """Return the result of a server that refuses a mail at its end."""
    return SendResult(
        row.message_id,
        error=f"mx1: {reply}",
        scope=Scope.MESSAGE,
        fault=fault,
        may_try_plain="5.7." in reply,
    )


def outbox_of(*rows: OutboxRow, servers: tuple[str, ...] = ("mx1",)) -> Outbox:
    """Return an outbox with mails, and mail servers that are given two connections each."""
    outbox = Outbox()
    outbox.servers, outbox.connections = servers, 2
    outbox.restore(rows, START)
    return outbox


def chosen(outbox: Outbox, now: float) -> OutboxRow:
    """Return the mail that is sent now."""
    found = outbox.next(now)
    assert found is not None
    return found


def after_kill(outbox: Outbox, now: float) -> Outbox:
    """Return the outbox of the next start, from what state.db has."""
    found = outbox_of(*outbox.rows(), servers=outbox.servers)
    found.restore(outbox.rows(), now)
    found.restore_routes(outbox.routes.state)
    return found


def test_a_minute_of_554_delays_a_critical_mail_by_that_minute() -> None:
    """The relay refuses at the end of data; then the same mail is accepted."""
    outbox = outbox_of(written(1))
    batch, problem = outbox.sent(at_end(chosen(outbox, START), "554 no"), START)
    assert [r.recipients_pending for r in batch.add] == [TO]
    assert "or in 1 min" in problem
    assert outbox.next(START + MINUTE - 1) is None
    again = chosen(outbox, START + MINUTE)
    assert again.data == written(1).data
    outbox.sent(taken(again), START + MINUTE)
    assert len(outbox) == 0


def test_a_recipient_refused_before_the_connection_broke_is_not_asked_as_if_new() -> None:
    """550 to RCPT TO, no reply to DATA: the other is told at once, and gets the mail after 10 s."""
    outbox = outbox_of(written(1))
    row = chosen(outbox, START)
    result = SendResult(
        row.message_id,
        error="mx1: DATA: expected 354, got no reply before the timeout",
        fault=Fault.UNREACHABLE,
        refused={"a@x": "mx1: RCPT TO <a@x>: 550 5.1.1 no such user"},
        faults={"a@x": Fault.UNKNOWN_RECIPIENT},
    )
    batch, _ = outbox.sent(result, START)
    assert [(r.incident, r.recipients_pending) for r in batch.add] == [
        ("refused", ("b@x",)),
        ("a", TO),
    ]
    assert chosen(outbox, START + 10).recipients_pending == ("b@x",)


def test_one_mail_probes_and_when_it_is_accepted_the_others_follow_as_one_digest() -> None:
    """Nine warnings arrive while the relay refuses all: attempts of one mail, then one digest."""
    outbox, now, attempts = outbox_of(), START, []
    for number in range(1, 11):
        row = written(number, f"i{number}", at=now, severity=Severity.WARNING)
        outbox.add(row, now, 0)
    now = outbox.next_due(now) or now
    while now < START + 8 * HOUR:
        row = chosen(outbox, now)
        assert row.parts == (), "a digest may be refused for one of its mails"
        outbox.sent(refused(row, Fault.REFUSED), now)
        attempts.append(round((now - START) / MINUTE))
        assert outbox.next(now + 1) is None, "the others wait"
        now = outbox.next_due(now) or 0
    assert attempts == [0, 1, 6, 36, 156]
    outbox.sent(taken(chosen(outbox, now)), now)
    digest = chosen(outbox, now)
    assert len(digest.parts) == 9
    outbox.sent(taken(digest), now)
    assert len(outbox) == 0


def test_the_newest_critical_mail_probes_at_once_and_no_other_waits_with_it_for_long() -> None:
    """After a night of refusals: the server heals, a disk hangs; both mails are there at once."""
    outbox, now = outbox_of(written(1, severity=Severity.WARNING)), START
    while now < START + 9 * HOUR:
        outbox.sent(refused(chosen(outbox, now), Fault.REFUSED), now)
        now = outbox.next_due(now) or 0
    now = START + 9 * HOUR
    outbox.add(written(1, "hang", at=now), now, 0)
    row = chosen(outbox, now + 2)
    assert row.incident == "hang"
    outbox.sent(taken(row), now + 2)
    assert chosen(outbox, now + 2).message_id == written(1).message_id


def test_an_acceptance_releases_ten_messages_a_minute() -> None:
    """For each of thirty pairs of recipients there is a mail: a digest is none of these."""
    rows = [written(n, f"i{n}", recipients_pending=(f"{n}@x",)) for n in range(30)]
    outbox = outbox_of(*rows)
    outbox.sent(refused(chosen(outbox, START), Fault.REFUSED), START)
    now, times = START + MINUTE, []
    while len(outbox):
        row = chosen(outbox, now)
        times.append(now - START - MINUTE)
        outbox.sent(taken(row), now)
        now = outbox.next_due(now) or now
    assert times == [0.0, *[0.0] * 10, *[60.0] * 10, *[120.0] * 9]


@pytest.mark.parametrize("fault", [Fault.LOGIN, Fault.REFUSED, Fault.UNKNOWN_RECIPIENT])
def test_no_restart_shortens_the_patience(fault: Fault) -> None:
    """The service is killed every 7 minutes for a day, also in attempts: accounts stay unlocked."""
    outbox, now, attempts = outbox_of(written(1)), START, []
    while now < START + DAY:
        row = outbox.next(now)
        if row is not None:
            attempts.append(now)
            if len(attempts) % 2:
                outbox.sent(refused(row, fault, *(() if fault is Fault.LOGIN else TO)), now)
        outbox = after_kill(outbox, now)
        now += 7 * MINUTE
    gaps = [b - a for a, b in itertools.pairwise(attempts)]
    usual = {Fault.LOGIN: 15 * MINUTE, Fault.REFUSED: MINUTE, Fault.UNKNOWN_RECIPIENT: HOUR}
    assert min(gaps[1:]) >= usual[fault]
    assert len(attempts) <= 9


def test_a_refused_recipient_waits_and_the_other_one_gets_every_mail() -> None:
    """b@x does not exist: probed after 1 h, 4 h and daily; a@x gets each mail at once."""
    outbox, tried = outbox_of(), []
    for hour in range(10 * 24):
        now = START + hour * HOUR
        warning = written(hour, f"i{hour}", at=now, severity=Severity.WARNING)
        outbox.add(warning, now, 0)
        while (row := outbox.next(now + 3)) is not None:
            if "b@x" in row.recipients_pending:
                tried.append(hour)
                outbox.sent(refused(row, Fault.UNKNOWN_RECIPIENT, "b@x"), now + 3)
            else:
                outbox.sent(taken(row), now + 3)
        waiting = [r for r in outbox.rows() if "a@x" in r.recipients_pending]
        assert not waiting
    assert tried[:3] == [0, 1, 5]
    assert len([hour for hour in tried if hour < 5 * 24]) <= 20
    assert 10 < len(tried) < 16
    assert outbox.refused() == 10 * 24
    assert outbox.oldest_unsent_seconds(now) is None, "somebody has each of them"


def test_a_mail_that_every_recipient_refuses_is_overdue_and_stays_for_thirty_days() -> None:
    """After five days only newer mails probe; an accepted one opens the way for the old ones."""
    outbox, now = outbox_of(written(1)), START
    while (row := outbox.next(now)) is not None:
        outbox.sent(refused(row, Fault.UNKNOWN_RECIPIENT, *TO), now)
        due = outbox.next_due(now)
        if due is None:
            break
        now = due
    now = START + 6 * DAY
    assert outbox.next(now) is None
    assert outbox.oldest_unsent_seconds(now) == 6 * DAY, "the alert stays"
    assert outbox.refused() == 1
    assert outbox.drop_refused(now, 5)[1] == ()
    newer = written(2, "new", at=now)
    outbox.add(newer, now, 0)
    row = chosen(outbox, now + 3)
    assert row.message_id == newer.message_id
    outbox.sent(taken(row), now + 3)
    old = chosen(outbox, now + 3)
    assert old.message_id == written(1).message_id
    outbox.sent(refused(old, Fault.UNKNOWN_RECIPIENT, *TO), now + 3)
    batch, (line,) = outbox.drop_refused(START + 31 * DAY, 6)
    assert batch.remove == (old.message_id,)
    assert "discarded after 31 d: refused for a@x, b@x: mx1: 554 no" in line


def test_a_reload_tries_at_once_and_at_the_corrected_address() -> None:
    """'b@x' was a typo of 'c@x': the mail goes to c@x now, not in four hours."""
    outbox = outbox_of(written(1))
    outbox.sent(refused(chosen(outbox, START), Fault.UNKNOWN_RECIPIENT, "b@x"), START)
    line = chosen(outbox, START)
    outbox.sent(SendResult(line.message_id, line.recipients_pending), START)
    assert outbox.next(START + 60) is None
    batch = outbox.reload(("a@x", "c@x"), (), START + 60, 3)
    assert [r.recipients_pending for r in batch.add] == [("c@x",)]
    assert chosen(outbox, START + 60).recipients_pending == ("c@x",)
    same = outbox_of(written(1))
    same.sent(refused(chosen(same, START), Fault.LOGIN), START)
    same.reload(TO, (), START + 60, 3)
    assert same.next(START + 60) is None, "the same password"
    same.reload(TO, same.servers, START + 60, 3)
    assert chosen(same, START + 60).recipients_pending == TO


# --- the final dot


def test_a_mail_without_a_reply_is_repeated_three_times_then_it_is_in_a_digest() -> None:
    """A slow server got ten copies: now the same Message-ID after 10 min, 1 h, 6 h; a digest."""
    outbox, now, tries = outbox_of(written(1)), START, []
    for _ in range(4):
        row = chosen(outbox, now)
        assert row.message_id == written(1).message_id
        tries.append(now - START)
        _, problem = outbox.sent(unanswered(row), now)
        assert "may have arrived" in problem
        outbox = after_kill(outbox, now)
        now = outbox.next_due(now) or now
    assert tries == [0, 10 * MINUTE, 70 * MINUTE, 70 * MINUTE + 6 * HOUR]
    assert outbox.next(now - 1) is None
    digest = chosen(outbox, now)
    assert now - START == tries[-1] + DAY
    assert digest.parts == (written(1).message_id,)
    text = digest.data.decode()
    assert "may have reached you" in text
    assert "Text of 1." in text
    outbox.sent(taken(digest), now)
    assert len(outbox) == 0


def test_a_digest_of_other_mails_contains_what_may_have_arrived() -> None:
    """The server is back after two hours: one digest, in which each mail says what it is."""
    outbox, now = outbox_of(written(1)), START
    for _ in range(4):
        outbox.sent(unanswered(chosen(outbox, now)), now)
        now = outbox.next_due(now) or now
    now -= 20 * HOUR
    for number in (2, 3, 4):
        outbox.add(written(number, f"i{number}", at=now), now, 0)
    down = SendResult("", error="mx1: connect: refused")
    outbox.sent(replace(down, message_id=chosen(outbox, now + 3).message_id), now + 3)
    outbox.sent(taken(chosen(outbox, now + 2 * HOUR)), now + 2 * HOUR)
    digest = chosen(outbox, now + 2 * HOUR)
    assert len(digest.parts) == 3
    assert digest.data.decode().count("(may have reached you)") == 1


def test_a_slow_server_holds_up_no_other_mail() -> None:
    """It takes minutes for its reply to the first: a second connection serves the others."""
    outbox = outbox_of(*(written(n, f"i{n}") for n in range(1, 5)), written(2, "i1"))
    slow = chosen(outbox, START)
    assert outbox.next(START + 1.9) is None, "one at a time while that is quick"
    for _ in range(4):
        row = chosen(outbox, START + 2)
        assert row.message_id != slow.message_id
        assert outbox.next(START + 2) is None, "two connections at most"
        outbox.sent(taken(row), START + 2)
    assert outbox.next(START + 3) is None
    outbox.sent(taken(slow), START + 600)
    assert len(outbox) == 0


# --- two servers


def test_the_second_server_is_used_while_the_first_one_fails() -> None:
    """Connection refused, log-in refused, recipient refused, deferred: the mail is not late."""
    down = {"error": "mx1: connect: refused"}
    login = {"error": "mx1: AUTH: 535 no", "fault": Fault.LOGIN}
    unknown = {
        "refused": dict.fromkeys(TO, "550"),
        "faults": dict.fromkeys(TO, Fault.UNKNOWN_RECIPIENT),
    }
    deferred = {"refused": dict.fromkeys(TO, "451"), "faults": dict.fromkeys(TO, Fault.DEFERRED)}
    for result in (down, login, unknown, deferred):
        outbox = outbox_of(written(1), servers=("mx1", "mx2"))
        row = chosen(outbox, START)
        assert outbox.server_of(row.message_id) == ("mx1", True)
        outbox.sent(SendResult(row.message_id, **result), START)  # type: ignore[arg-type]
        again = chosen(outbox, START)
        assert outbox.server_of(again.message_id)[0] == "mx2"
        assert again.message_id == row.message_id
        outbox.sent(taken(again), START)
        assert len(outbox) == 0


def test_what_both_servers_refuse_waits_for_the_first_of_them() -> None:
    """Each is probed at its own time, by one mail."""
    outbox = outbox_of(written(1), servers=("mx1", "mx2"))
    tried = []
    now = START
    while now < START + 3 * HOUR:
        row = chosen(outbox, now)
        server, _ = outbox.server_of(row.message_id)
        tried.append((now - START, server))
        fault = Fault.REFUSED if server == "mx1" else Fault.LOGIN
        outbox.sent(refused(row, fault), now)
        now = outbox.next_due(now) or 0
    assert tried == [
        (0, "mx1"),
        (0, "mx2"),
        (1 * MINUTE, "mx1"),
        (6 * MINUTE, "mx1"),
        (15 * MINUTE, "mx2"),
        (36 * MINUTE, "mx1"),
        (75 * MINUTE, "mx2"),
        (156 * MINUTE, "mx1"),
    ]


def test_two_slow_servers_are_sent_four_mails_at_once_at_most() -> None:
    """The first one has two connections in use before the second one is used."""
    outbox = outbox_of(*(written(n, f"i{n}") for n in range(9)), servers=("mx1", "mx2"))
    used = []
    for second in range(0, 60, 3):
        row = outbox.next(START + second)
        if row is not None:
            used.append(outbox.server_of(row.message_id)[0])
    assert used == ["mx1", "mx1", "mx2", "mx2"]


# --- size and content


def test_a_mail_that_is_too_large_goes_at_once_as_plain_text() -> None:
    """The same bytes would be refused again: ASCII, 20 kB, another Message-ID, the same thread."""
    long = "\u00c4nderung \u2026 of a very long evidence line\n" * 2000
    row = written(1)
    head = row.data.partition(b"\r\n\r\n")[0] + b"\r\nIn-Reply-To: <iowarden.a.0@db1>\r\n"
    form = b"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
    row = replace(row, data=head + form + long.encode().replace(b"\n", b"\r\n"))
    outbox = outbox_of(row)
    too_large = at_end(chosen(outbox, START), "552 5.3.4 too large", Fault.CONTENT)
    batch, problem = outbox.sent(too_large, START)
    assert problem == "mx1: 552 5.3.4 too large; its text is sent at once in a short mail"
    assert batch.remove == (row.message_id,)
    plain = chosen(outbox, START)
    assert plain == replace(batch.add[0], maybe_taken=True)
    assert plain.message_id == "<iowarden.a.1-plain@db1>"
    assert plain.data.isascii()
    assert len(plain.data) <= MAX_PLAIN_BYTES
    mail = email.message_from_bytes(plain.data, policy=email.policy.default)
    assert (mail["Message-ID"], mail["In-Reply-To"]) == (plain.message_id, "<iowarden.a.0@db1>")
    assert (mail["Subject"], mail["To"]) == ("mail 1 of a", "a@x, b@x")
    text = mail.get_content()
    assert "Anderung ... of a very long evidence line" in text
    assert text.rstrip().endswith("[The rest is left out.]")
    _, problem = outbox.sent(at_end(plain, "552 5.3.4 too large", Fault.CONTENT), START)
    assert "or in 1 min" in problem, "then it is a refusal like any other"
    assert outbox.next(START + 59) is None


def test_a_mail_that_a_filter_refuses_is_tried_once_as_plain_text() -> None:
    """The first 5.7.x at the end of it; accepted, that is the mail."""
    outbox = outbox_of(written(1))
    batch, _ = outbox.sent(at_end(chosen(outbox, START), "550 5.7.1 spam"), START)
    assert [row.message_id for row in batch.add] == [
        written(1).message_id,
        "<iowarden.a.1-plain@db1>",
    ]
    outbox = after_kill(outbox, START)
    plain = chosen(outbox, START)
    assert b"Content-Type: text/plain; charset=us-ascii" in plain.data
    batch, _ = outbox.sent(taken(plain), START)
    assert set(batch.remove) == {plain.message_id, written(1).message_id}
    assert len(outbox) == 0


def test_a_plain_text_that_is_refused_too_is_forgotten_and_the_mail_is_repeated() -> None:
    """The server is down for maintenance: the mail arrives under its own Message-ID."""
    outbox, now, names = outbox_of(written(1)), START, []
    for _ in range(4):
        row = chosen(outbox, now)
        names.append(row.message_id)
        outbox.sent(at_end(row, "550 5.7.1 maintenance"), now)
        assert outbox.rows()[0].data == written(1).data
        now = outbox.next_due(now) or now
    assert names == [
        written(1).message_id,
        "<iowarden.a.1-plain@db1>",
        *[written(1).message_id] * 2,
    ]


def test_only_who_refused_the_size_gets_the_plain_text() -> None:
    """a@x has the original mail, b@x has a small limit."""
    outbox = outbox_of(written(1))
    outbox.sent(refused(chosen(outbox, START), Fault.CONTENT, "b@x"), START)
    plain = chosen(outbox, START)
    assert plain.recipients_pending == ("b@x",)
    outbox.sent(taken(plain), START)
    assert len(outbox) == 0


# --- many at once


def test_hundreds_of_mails_at_once_are_a_digest() -> None:
    """500 names failed at once and 273 critical mails were written: nobody reads these."""
    outbox = outbox_of(*(written(1, f"i{n}") for n in range(273)))
    mails = []
    while (row := outbox.next(START)) is not None:
        mails.append(row)
        outbox.sent(taken(row), START)
    assert [len(each.parts) for each in mails] == [273]
    assert "273 delayed mails" in mails[0].data.decode()
    few = outbox_of(*(written(1, f"i{n}") for n in range(20)))
    assert chosen(few, START).parts == ()


def test_why_a_mail_waits_is_known() -> None:
    """For 'iowarden mail list'."""
    outbox = outbox_of(written(1), written(1, "b"))
    row = chosen(outbox, START)
    assert outbox.waits(START)[row.message_id].reason == "being sent by mx1"
    outbox.sent(refused(row, Fault.REFUSED, "b@x"), START)
    found = outbox.waits(START + 30)[row.message_id]
    assert found.next_seconds == START + MINUTE
    assert found.reason == "refused for b@x (1 attempt): mx1: 554 no"
    other = chosen(outbox, START + 30)
    outbox.sent(unanswered(other), START + 30)
    found = outbox.waits(START + 31)[other.message_id]
    assert found.next_seconds == START + 10 * MINUTE + 30
    assert "sent 1 time without a reply: it may have arrived" in found.reason
