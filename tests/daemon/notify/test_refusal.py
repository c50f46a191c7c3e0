"""What a server's refusal means, and when it is tried again: every code at every step."""

from __future__ import annotations

import itertools

import pytest

from iowarden.daemon.notify.refusal import (
    MAX_ATTEMPTS,
    MAX_ATTEMPTS_SECONDS,
    REFUSALS,
    Fault,
    classify,
    enhanced_code,
    interval_seconds,
)
from iowarden.daemon.notify.routes import ALL, ANYTIME, NEVER, Hold, Routes

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
BEFORE = ("connect", "greeting", "EHLO", "HELO", "STARTTLS", "TLS")
WITH_MAIL = ("MAIL FROM", "RCPT TO", "DATA", "message", "end of data")
STEPS = (*BEFORE, "AUTH", *WITH_MAIL)
ENHANCED = ("", *(f"5.{subject}.{detail}" for subject in range(8) for detail in range(12)))


def test_no_code_at_any_step_is_without_a_class() -> None:
    """600 codes at 12 steps with 97 enhanced codes: each 4xx is temporary, each 5xx is not."""
    for step in STEPS:
        for code in range(600):
            found = classify(step, code, "", "words")
            if code >= 500:
                assert found in {*REFUSALS, Fault.CONTENT}, (step, code)
            elif code >= 400 and code not in {421, 432}:
                usual = Fault.DEFERRED if step in WITH_MAIL else Fault.CONNECTION
                assert found is usual, (step, code)
            elif code == 0 and step == "end of data":
                assert found is Fault.UNANSWERED
            elif code != 432:
                assert found is Fault.CONNECTION, (step, code)
        for enhanced in ENHANCED:
            assert classify(step, 554, enhanced, "words") in {*REFUSALS, Fault.CONTENT}
            assert classify(step, 451, enhanced, "words") not in REFUSALS


@pytest.mark.parametrize("code", range(500, 600))
def test_before_a_mail_is_named_no_refusal_is_about_it(code: int) -> None:
    """5xx to greeting and EHLO are of the server, whatever the enhanced code; AUTH: the log-in."""
    for enhanced in ENHANCED:
        for step in BEFORE:
            login = code == 535 or enhanced == "5.7.8"
            expected = Fault.LOGIN if login else Fault.POLICY
            assert classify(step, code, enhanced, "size too large") is expected
        assert classify("AUTH", code, enhanced, "size too large") is Fault.LOGIN


@pytest.mark.parametrize(
    ("step", "reply", "expected"),
    [
        # Sources: the replies of Postfix, Exim, sendmail, Exchange; RFC 5321, 4.2.3.
        ("greeting", "554 5.7.1 your address is listed", Fault.POLICY),
        ("greeting", "421 4.3.2 too many connections", Fault.CONNECTION),
        ("AUTH", "535 5.7.8 authentication failed", Fault.LOGIN),
        ("AUTH", "454 4.7.0 temporary authentication failure", Fault.CONNECTION),
        ("AUTH", "432 4.7.12 a password transition is needed", Fault.LOGIN),
        ("MAIL FROM", "530 5.7.0 must issue a STARTTLS command first", Fault.POLICY),
        ("MAIL FROM", "553 5.1.8 sender domain not found", Fault.POLICY),
        ("MAIL FROM", "552 5.3.4 message size exceeds fixed limit", Fault.CONTENT),
        ("MAIL FROM", "552 message size exceeds fixed maximum message size", Fault.CONTENT),
        ("MAIL FROM", "452 4.3.1 insufficient system storage", Fault.DEFERRED),
        ("RCPT TO", "550 5.1.1 user unknown", Fault.RECIPIENT),
        ("RCPT TO", "550 no such user here", Fault.RECIPIENT),
        ("RCPT TO", "550 5.4.1 recipient address rejected: access denied", Fault.RECIPIENT),
        ("RCPT TO", "556 5.1.10 the domain accepts no mail", Fault.RECIPIENT),
        ("RCPT TO", "550 5.2.1 mailbox disabled", Fault.RECIPIENT),
        ("RCPT TO", "552 5.2.2 mailbox full", Fault.POLICY),
        ("RCPT TO", "552 mailbox full", Fault.POLICY),
        ("RCPT TO", "554 5.7.1 relay access denied", Fault.POLICY),
        ("RCPT TO", "554 transaction failed", Fault.POLICY),
        ("RCPT TO", "550 5.7.1 relaying denied", Fault.POLICY),
        ("RCPT TO", "552 5.2.3 the message is larger than the limit", Fault.CONTENT),
        ("RCPT TO", "450 4.2.0 greylisted", Fault.DEFERRED),
        ("DATA", "554 5.5.1 no valid recipients", Fault.POLICY),
        ("end of data", "554 5.7.1 looks like spam", Fault.POLICY),
        ("end of data", "554 transaction failed", Fault.POLICY),
        ("end of data", "552 message too large", Fault.CONTENT),
        ("end of data", "552 5.2.2 over quota", Fault.POLICY),
        ("end of data", "554 5.6.0 8-bit data is not supported", Fault.CONTENT),
        ("end of data", "550 5.1.1 user unknown", Fault.RECIPIENT),
        ("end of data", "451 4.3.0 queue file write error", Fault.DEFERRED),
    ],
)
def test_the_replies_of_known_servers(step: str, reply: str, expected: Fault) -> None:
    """The enhanced code decides if there is one, otherwise the code and the step."""
    assert classify(step, int(reply[:3]), enhanced_code(reply), reply) is expected


def test_an_enhanced_code_is_only_at_the_beginning() -> None:
    """'see 5.1.1 of our policy' is a sentence."""
    assert enhanced_code("550 5.1.1 no") == "5.1.1"
    assert enhanced_code("5.7.1 no") == "5.7.1"
    assert enhanced_code("550-5.7.26 unauthenticated") == "5.7.26"
    assert enhanced_code("550 see 5.1.1 of our policy") == ""
    assert enhanced_code("") == ""


@pytest.mark.parametrize(
    ("fault", "hours"),
    [
        (Fault.LOGIN, [0.25, 1, 4, 4, 4]),
        (Fault.POLICY, [0.5, 1, 2, 4, 6, 6]),
        (Fault.RECIPIENT, [1, 4, 24, 24]),
        (Fault.UNANSWERED, [1 / 6, 1, 6, 24]),
    ],
)
def test_the_intervals_grow_with_the_attempts(fault: Fault, hours: list[float]) -> None:
    """Seconds would lock an account; a typo in an address is not corrected within minutes."""
    found = [interval_seconds(fault, attempt) / HOUR for attempt in range(1, len(hours) + 1)]
    assert found == pytest.approx(hours)


@pytest.mark.parametrize("fault", sorted(REFUSALS))
def test_a_recipient_is_tried_twenty_times_in_five_days_at_most_then_daily(fault: Fault) -> None:
    """A month of refusals, a mail arriving each hour: no interval is shorter than the first."""
    routes, now, tries = Routes(), 0.0, [0.0]
    routes.refused("mx1", "a@x", fault, "no", now)
    while now < 30 * DAY:
        now = routes.due("mx1", "a@x", now, now)
        routes.begin("mx1", ["a@x"], now)
        routes.refused("mx1", "a@x", fault, "no", now)
        tries.append(now)
    assert sum(at <= MAX_ATTEMPTS_SECONDS for at in tries) <= MAX_ATTEMPTS + 1
    assert sum(at < MAX_ATTEMPTS_SECONDS for at in tries) <= MAX_ATTEMPTS
    gaps = [after - before for before, after in itertools.pairwise(tries)]
    assert min(gaps) == gaps[0]
    late = [gap for gap, at in zip(gaps, tries[1:], strict=True) if at > 7 * DAY]
    assert max(late) <= DAY


def test_an_attempt_counts_before_it_begins_and_a_restart_changes_nothing() -> None:
    """Killed during the probe, started again, and again: the probe is not repeated."""
    routes = Routes()
    routes.refused("mx1", ALL, Fault.LOGIN, "535 no", 0.0)
    assert routes.due("mx1", "a@x", 0.0, 1.0) == 15 * MINUTE
    assert routes.due("mx2", "a@x", 0.0, 1.0) == ANYTIME
    routes.begin("mx1", ["a@x"], 15 * MINUTE)
    for _ in range(3):
        after = Routes()
        after.restore(routes.state)
        routes = after
        assert routes.due("mx1", "a@x", 0.0, 16 * MINUTE) == 75 * MINUTE


def test_a_probe_that_reached_no_server_does_not_count() -> None:
    """The network was down at that moment: the server was not asked."""
    routes = Routes()
    routes.refused("mx1", "a@x", Fault.POLICY, "554 no", 0.0)
    before = routes.begin("mx1", ["a@x"], 30 * MINUTE)
    assert routes.due("mx1", "a@x", 0.0, 31 * MINUTE) == 90 * MINUTE
    routes.undo("mx1", before)
    assert routes.due("mx1", "a@x", 0.0, 31 * MINUTE) == 30 * MINUTE


def test_a_mail_of_last_week_probes_nothing() -> None:
    """It is kept; a newer one is used, and if that is accepted the route is open for all."""
    routes = Routes()
    routes.refused("mx1", "a@x", Fault.RECIPIENT, "550 no", 0.0)
    assert routes.due("mx1", "a@x", 0.0, 6 * DAY) == NEVER
    assert routes.due("mx1", "a@x", 5.5 * DAY, 6 * DAY) < 6 * DAY
    assert routes.accepted("mx1", "a@x")
    assert routes.due("mx1", "a@x", 0.0, 6 * DAY) == ANYTIME


@pytest.mark.parametrize("attempts", [1, 4, 25])
def test_a_reload_tries_every_route_at_once_whatever_was_tried_before(attempts: int) -> None:
    """The administrator corrected something; if not, the patience continues where it was."""
    routes = Routes()
    now = 2 * DAY
    hold = Hold(Fault.LOGIN, attempts, 0.0, now - MINUTE, "535 no")
    routes.restore(type(routes.state)({"mx1": {ALL: hold}}))
    assert routes.due("mx1", "a@x", now, now) > now
    assert routes.open_all(now)
    assert routes.due("mx1", "a@x", now, now) <= now
    routes.begin("mx1", ["a@x"], now)
    assert routes.due("mx1", "a@x", now, now) >= now + 15 * MINUTE


def test_another_reason_begins_with_its_own_first_interval() -> None:
    """The log-in works by now, but the server refuses the sender: that is news."""
    routes = Routes()
    for _ in range(3):
        routes.refused("mx1", ALL, Fault.LOGIN, "535 no", 0.0)
        routes.begin("mx1", [], 0.0)
    routes.refused("mx1", ALL, Fault.POLICY, "550 no", 9 * HOUR)
    assert routes.due("mx1", "a@x", 9 * HOUR, 9 * HOUR) == 9.5 * HOUR


def test_a_server_that_is_not_configured_any_more_is_forgotten() -> None:
    """So is an address: a corrected one has no history."""
    routes = Routes()
    for server in ("mx1", "mx2"):
        for recipient in (ALL, "a@x", "b@x"):
            routes.refused(server, recipient, Fault.POLICY, "no", 0.0)
    routes.keep(["mx1"], ["a@x"])
    assert {name: set(holds) for name, holds in routes.state.holds.items()} == {"mx1": {ALL, "a@x"}}
