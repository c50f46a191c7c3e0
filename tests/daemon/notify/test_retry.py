"""What a reply of a server is about, and when the next attempt is made: a line for each rule."""

from __future__ import annotations

import itertools

import pytest

from iowarden.daemon.notify.attempt import SendResult
from iowarden.daemon.notify.retry import (
    ANYTIME,
    MAYBE_TAKEN,
    NEVER,
    REFUSALS,
    Fault,
    Hold,
    Scope,
    enhanced_code,
    free_seconds,
    http_verdict,
    interval_seconds,
    is_spam_refusal,
    smtp_verdict,
)
from iowarden.daemon.notify.routes import ALL, ANY, CONNECTION, Routes, RouteState, Sending

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
BEFORE = ("connect", "greeting", "EHLO", "HELO", "STARTTLS", "TLS")
WITH_MAIL = ("MAIL FROM", "RCPT TO", "DATA", "message", "end of data")
STEPS = (*BEFORE, "AUTH", *WITH_MAIL)
ENHANCED = ("", *(f"5.{subject}.{detail}" for subject in range(8) for detail in range(12)))
SERVER, RECIPIENT, MESSAGE = Scope.SERVER, Scope.RECIPIENT, Scope.MESSAGE


# --- a reply -> what it is about, and its class


def test_no_code_at_any_step_is_without_a_class() -> None:
    """600 codes at 12 steps with 97 enhanced codes: each 4xx is temporary, each 5xx is not."""
    temporary = {Fault.BUSY, Fault.DEFERRED, Fault.LOGIN_LATER}
    for step in STEPS:
        for code in range(600):
            fault = smtp_verdict(step, code, "words").fault
            if code >= 500:
                assert fault in REFUSALS, (step, code)
            elif code >= 400:
                assert fault in temporary or (step, code) == ("AUTH", 432), (step, code)
            elif not 400 <= code < 600 and step == "end of data":
                assert fault is Fault.UNANSWERED
            else:
                assert fault is Fault.UNREACHABLE, (step, code)
        for enhanced in ENHANCED:
            assert smtp_verdict(step, 554, f"554 {enhanced} words").fault in REFUSALS
            assert smtp_verdict(step, 451, f"451 4{enhanced[1:]} words").fault not in REFUSALS


@pytest.mark.parametrize("code", range(500, 600))
def test_before_a_mail_is_named_every_refusal_is_the_servers(code: int) -> None:
    """5xx to greeting and EHLO are of the server, whatever the enhanced code; AUTH: the log-in."""
    for enhanced in ENHANCED:
        text = f"{code} {enhanced} size too large"
        for step in BEFORE:
            is_login = code == 535 or enhanced == "5.7.8"
            fault = Fault.LOGIN if is_login else Fault.REFUSED
            assert smtp_verdict(step, code, text) == (SERVER, fault)
        assert smtp_verdict("AUTH", code, text) == (SERVER, Fault.LOGIN)


@pytest.mark.parametrize(
    ("step", "reply", "scope", "fault"),
    [
        # Sources: the replies of Postfix, Exim, sendmail, Exchange; RFC 5321, 4.2.3.
        ("greeting", "554 5.7.1 your address is listed", SERVER, Fault.REFUSED),
        ("greeting", "521 this host accepts no mail", SERVER, Fault.REFUSED),
        ("greeting", "421 4.3.2 too many connections", SERVER, Fault.BUSY),
        ("AUTH", "535 5.7.8 authentication failed", SERVER, Fault.LOGIN),
        ("AUTH", "534 5.7.9 mechanism is too weak", SERVER, Fault.LOGIN),
        ("AUTH", "432 4.7.12 a password transition is needed", SERVER, Fault.LOGIN),
        ("AUTH", "454 4.7.0 temporary authentication failure", SERVER, Fault.LOGIN_LATER),
        ("MAIL FROM", "530 5.7.0 must issue a STARTTLS command first", SERVER, Fault.REFUSED),
        ("MAIL FROM", "553 5.1.8 sender domain not found", SERVER, Fault.REFUSED),
        ("MAIL FROM", "451 4.7.1 greylisted", SERVER, Fault.BUSY),
        ("MAIL FROM", "452 4.3.1 insufficient system storage", SERVER, Fault.DEFERRED),
        ("MAIL FROM", "552 5.3.4 message size exceeds fixed limit", MESSAGE, Fault.CONTENT),
        ("MAIL FROM", "552 message size exceeds the maximum", MESSAGE, Fault.CONTENT),
        ("RCPT TO", "550 5.1.1 user unknown", RECIPIENT, Fault.UNKNOWN_RECIPIENT),
        ("RCPT TO", "550 5.1.2 no such domain", RECIPIENT, Fault.UNKNOWN_RECIPIENT),
        ("RCPT TO", "501 5.1.3 bad recipient address syntax", RECIPIENT, Fault.UNKNOWN_RECIPIENT),
        ("RCPT TO", "551 5.1.6 mailbox has moved", RECIPIENT, Fault.UNKNOWN_RECIPIENT),
        ("RCPT TO", "556 5.1.10 null MX", RECIPIENT, Fault.UNKNOWN_RECIPIENT),
        ("RCPT TO", "550 5.4.1 recipient address rejected", RECIPIENT, Fault.UNKNOWN_RECIPIENT),
        ("RCPT TO", "550 no such user here", RECIPIENT, Fault.UNKNOWN_RECIPIENT),
        ("RCPT TO", "556 domain does not accept mail", RECIPIENT, Fault.UNKNOWN_RECIPIENT),
        ("RCPT TO", "550 requested action not taken", RECIPIENT, Fault.REFUSED),
        ("RCPT TO", "550 5.1.7 bad sender address", SERVER, Fault.REFUSED),
        ("RCPT TO", "550 5.1.8 sender address rejected", SERVER, Fault.REFUSED),
        ("RCPT TO", "450 4.1.8 sender address rejected", SERVER, Fault.DEFERRED),
        ("RCPT TO", "550 5.2.1 mailbox disabled", RECIPIENT, Fault.REFUSED),
        ("RCPT TO", "552 5.2.2 mailbox full", RECIPIENT, Fault.REFUSED),
        ("RCPT TO", "552 mailbox full", RECIPIENT, Fault.REFUSED),
        ("RCPT TO", "554 5.7.1 relay access denied", RECIPIENT, Fault.REFUSED),
        ("RCPT TO", "552 5.2.3 larger than the limit", RECIPIENT, Fault.CONTENT),
        ("RCPT TO", "450 4.2.0 greylisted", RECIPIENT, Fault.DEFERRED),
        ("RCPT TO", "450 4.7.1 greylisted", RECIPIENT, Fault.BUSY),
        ("RCPT TO", "421 4.7.0 closing", SERVER, Fault.BUSY),
        ("DATA", "554 5.5.1 no valid recipients", MESSAGE, Fault.REFUSED),
        ("end of data", "554 5.7.1 looks like spam", MESSAGE, Fault.REFUSED),
        ("end of data", "554 transaction failed", MESSAGE, Fault.REFUSED),
        ("end of data", "552 message too large", MESSAGE, Fault.CONTENT),
        ("end of data", "552 transaction aborted", MESSAGE, Fault.CONTENT),
        ("end of data", "552 5.2.2 over quota", MESSAGE, Fault.REFUSED),
        ("end of data", "554 5.6.0 8-bit data is not supported", MESSAGE, Fault.CONTENT),
        ("end of data", "451 4.3.0 queue file write error", MESSAGE, Fault.DEFERRED),
        ("end of data", "421 4.3.2 shutting down", SERVER, Fault.BUSY),
        ("end of data", "", MESSAGE, Fault.UNANSWERED),
        ("end of data", "354 go ahead", MESSAGE, Fault.UNANSWERED),
        ("DATA", "", MESSAGE, Fault.UNREACHABLE),
        ("RCPT TO", "", SERVER, Fault.UNREACHABLE),
    ],
)
def test_a_mail_servers_reply_is_about_one_thing(
    step: str, reply: str, scope: Scope, fault: Fault
) -> None:
    """The enhanced code decides if there is one, otherwise the code and the step."""
    code = int(reply[:3]) if reply else 0
    assert smtp_verdict(step, code, reply) == (scope, fault)


@pytest.mark.parametrize(
    ("status", "body", "scope", "fault"),
    [
        (200, "<html>Please log in</html>", SERVER, Fault.DEFERRED),
        (302, "", SERVER, Fault.REFUSED),
        (400, "invalid_payload", MESSAGE, Fault.CONTENT),
        (401, "", SERVER, Fault.LOGIN),
        (403, "action_prohibited", SERVER, Fault.LOGIN),
        (404, "", SERVER, Fault.REFUSED),
        (404, "no_service", SERVER, Fault.GONE),
        (405, "", SERVER, Fault.REFUSED),
        (408, "", SERVER, Fault.PAUSED),
        (410, "", SERVER, Fault.GONE),
        (410, "channel_is_archived", SERVER, Fault.GONE),
        (413, "", MESSAGE, Fault.CONTENT),
        (422, "", MESSAGE, Fault.CONTENT),
        (429, "", SERVER, Fault.PAUSED),
        (500, "", MESSAGE, Fault.FAILED),
        (501, "", SERVER, Fault.REFUSED),
        (502, "", MESSAGE, Fault.FAILED),
        (503, "", SERVER, Fault.PAUSED),
        (504, "", MESSAGE, Fault.FAILED),
        (505, "", SERVER, Fault.REFUSED),
        (511, "", SERVER, Fault.REFUSED),
        (522, "error code: 522", MESSAGE, Fault.FAILED),
        (524, "error code: 524", MESSAGE, Fault.FAILED),
        (0, "", MESSAGE, Fault.FAILED),
    ],
)
def test_an_http_servers_reply_is_about_one_thing(
    status: int, body: str, scope: Scope, fault: Fault
) -> None:
    """0: no reply to a complete request."""
    assert http_verdict(status, body) == (scope, fault)


def test_a_request_that_was_not_sent_was_not_taken() -> None:
    """No connection, no TLS."""
    assert http_verdict(0, is_sent=False) == (SERVER, Fault.UNREACHABLE)
    assert {http_verdict(0).fault, smtp_verdict("end of data", 0, "").fault} == MAYBE_TAKEN


def test_only_a_policy_at_the_end_of_a_mail_may_be_about_its_form() -> None:
    """5.7.x: then its plain text is tried once."""
    for step, reply, may in (
        ("end of data", "550 5.7.1 spam", True),
        ("end of data", "550 spam", False),
        ("end of data", "451 4.7.1 later", False),
        ("RCPT TO", "550 5.7.1 denied", False),
    ):
        assert is_spam_refusal(smtp_verdict(step, int(reply[:3]), reply), reply) is may


def test_an_enhanced_code_is_only_at_the_beginning() -> None:
    """'see 5.1.1 of our policy' is a sentence."""
    assert enhanced_code("550 5.1.1 no") == "5.1.1"
    assert enhanced_code("5.7.1 no") == "5.7.1"
    assert enhanced_code("550-5.7.26 unauthenticated") == "5.7.26"
    assert enhanced_code("550 see 5.1.1 of our policy") == ""
    assert enhanced_code("") == ""


# --- the history -> the next attempt


@pytest.mark.parametrize(
    ("fault", "minutes"),
    [
        (Fault.UNREACHABLE, [1 / 6, 0.5, 1, 2, 5, 10, 15, 15]),
        (Fault.BUSY, [5, 15, 30, 30]),
        (Fault.DEFERRED, [1, 5, 10, 15, 15]),
        (Fault.REFUSED, [1, 5, 30, 120, 360, 360]),
        (Fault.LOGIN, [15, 60, 240, 240]),
        (Fault.LOGIN_LATER, [60, 60]),
        (Fault.UNKNOWN_RECIPIENT, [60, 240, 1440, 1440]),
        (Fault.GONE, [1440, 1440]),
        (Fault.UNANSWERED, [10, 60, 360]),
        (Fault.FAILED, [1, 10, 60, 60]),
        (Fault.PAUSED, [1, 1]),
    ],
)
def test_the_intervals_grow_with_the_attempts(fault: Fault, minutes: list[float]) -> None:
    """Seconds would lock an account; a typo in an address is not corrected within minutes."""
    intervals = [
        interval_seconds(fault, attempt) / MINUTE for attempt in range(1, len(minutes) + 1)
    ]
    assert intervals == pytest.approx(minutes)


def test_what_is_deferred_for_a_day_is_tried_each_half_an_hour() -> None:
    """A mailbox that is full."""
    assert Hold(Fault.DEFERRED, 90, 0.0, DAY - 1).next_seconds == DAY - 1 + 15 * MINUTE
    assert Hold(Fault.DEFERRED, 90, 0.0, DAY).next_seconds == DAY + 30 * MINUTE


@pytest.mark.parametrize(("wanted", "waits"), [(0.0, 60.0), (120.0, 120.0), (1e6, HOUR)])
def test_a_receiver_is_given_the_pause_it_wants_up_to_an_hour(wanted: float, waits: float) -> None:
    """503 and 429 with Retry-After."""
    hold = Hold(Fault.PAUSED, 1, 0.0, 0.0, pause_seconds=wanted)
    assert hold.next_seconds == waits


def test_refused_attempts_stay_below_what_fail2ban_bans() -> None:
    """As many critical messages as there can be: 4 in ten minutes and 12 in an hour.

    The second one may come after a minute; from then on one of them is free within 3 minutes.
    """
    tries: list[float] = []
    now = 0.0
    while now < DAY:
        tries.append(now)
        now = max(now, free_seconds(tuple(tries[-12:])))
        if len(tries) < 12:
            assert now - tries[-1] <= 3 * MINUTE
    for limit, seconds in ((4, 10 * MINUTE), (12, HOUR)):
        most = max(sum(at <= other < at + seconds for other in tries) for at in tries)
        assert most == limit
    assert tries[:4] == [0.0, 60.0, 240.0, 420.0]


def new(number: int = 1, added: float = 0.0, *, is_critical: bool = False) -> Sending:
    """Return a message that was written at a time."""
    return Sending(f"<m{number}>", added, added, is_critical)


def refuse(routes: Routes, fault: Fault, now: float, *, to: str = "", name: str = "<m1>") -> None:
    """Have an attempt refused for a recipient, or by the server."""
    attempt = routes.begin("mx1", (to or "a@x",), name, now)
    refused = {to: "no"} if to else {}
    faults = {to: fault} if to else {}
    error = "" if to else "no"
    result = SendResult(name, refused=refused, faults=faults, error=error, fault=fault)
    routes.settle(attempt, result, now)


def accept(routes: Routes, now: float, name: str = "<m2>") -> frozenset[str]:
    """Have an attempt accepted; return what that opens."""
    return routes.settle(routes.begin("mx1", ("a@x",), name, now), SendResult(name, ("a@x",)), now)


@pytest.mark.parametrize("fault", sorted(REFUSALS - {Fault.LOGIN, Fault.CONTENT}))
def test_a_new_critical_message_is_tried_at_once_whatever_is_held(fault: Fault) -> None:
    """The others wait with the one that probes."""
    routes = Routes()
    refuse(routes, fault, 0.0)
    warning, critical = new(2, 50.0), new(3, 50.0, is_critical=True)
    soon = MINUTE if fault is Fault.REFUSED else interval_seconds(fault, 1)
    assert routes.due("mx1", "a@x", warning, 50.0) == soon
    assert routes.due("mx1", "a@x", critical, 50.0) == MINUTE
    refuse(routes, fault, 60.0, name="<m3>")
    assert routes.due("mx1", "a@x", critical, 61.0) >= 60.0 + interval_seconds(fault, 1)
    newer = new(4, 61.0, is_critical=True)
    assert routes.due("mx1", "a@x", newer, 61.0) == 60.0 + 180.0


def test_a_new_warning_tries_what_may_heal_soon_and_leaves_attempts_for_critical_mails() -> None:
    """Two servers that flap would keep it for half an hour while both work: ten times an hour."""
    routes, now, tries = Routes(), 0.0, []
    while now < HOUR:
        refuse(routes, Fault.REFUSED, now, name=f"<m{now}>")
        tries.append(now)
        now = routes.due("mx1", "a@x", new(2, now + 1), now + 1)
    assert len(tries) == 10
    critical = new(3, tries[-1] + 1, is_critical=True)
    assert routes.due("mx1", "a@x", critical, tries[-1] + 1) <= tries[-1] + 180.0


def test_a_server_that_cannot_be_reached_is_tried_at_once_by_each_new_critical_message() -> None:
    """Nothing counts a connection that nobody accepted."""
    routes = Routes()
    for at in range(10):
        refuse(routes, Fault.UNREACHABLE, float(at))
    critical = new(3, 10.0, is_critical=True)
    assert routes.due("mx1", "a@x", critical, 10.0) == ANYTIME
    assert routes.due("mx1", "a@x", new(2, 10.0), 10.0) == 9.0 + MINUTE
    assert routes.due("mx1", "a@x", new(2, 8.0), 10.0) == 9.0 + 15 * MINUTE


def test_a_password_is_tried_once_an_hour_and_six_times_a_day_even_for_critical_messages() -> None:
    """More could lock the account."""
    routes = Routes()
    tries, now = [], 0.0
    while now < 3 * DAY:
        refuse(routes, Fault.LOGIN, now, name=f"<m{now}>")
        tries.append(now)
        due = routes.due("mx1", "a@x", new(3, now + 1, is_critical=True), now + 1)
        assert due >= now + (HOUR if len(tries) > 1 else 15 * MINUTE)
        now = due
    assert max(sum(at <= other < at + DAY for other in tries) for at in tries) == 6


def test_an_acceptance_opens_the_server_and_its_recipients() -> None:
    """Then what waited is released."""
    routes = Routes()
    refuse(routes, Fault.REFUSED, 0.0)
    assert accept(routes, 60.0) == {ALL}
    refuse(routes, Fault.UNKNOWN_RECIPIENT, 100.0, to="a@x")
    assert accept(routes, 200.0) == {"a@x"}
    assert accept(routes, 300.0) == frozenset()
    assert routes.state.holds == {}


def intervals_of_refusals(routes: Routes, now: float, hours: float) -> list[float]:
    """Have everything refused; return the times between the attempts at the oldest message."""
    refuse(routes, Fault.REFUSED, now, to="a@x")
    tries = [now]
    while (now := routes.due("mx1", "a@x", new(), now)) < tries[0] + hours * HOUR:
        refuse(routes, Fault.REFUSED, now, to="a@x")
        tries.append(now)
    return [after - before for before, after in itertools.pairwise(tries)]


def test_a_server_that_accepts_again_and_again_is_not_left_alone_for_half_an_hour() -> None:
    """It refused for a minute, then for a quarter of an hour: 1 and 5 min, and not 30.

    Six hours after it last accepted, it has the patience of any other.
    """
    routes = Routes()
    assert intervals_of_refusals(routes, 0.0, 1) == [MINUTE, 5 * MINUTE, 30 * MINUTE]
    accept(routes, 40 * MINUTE)
    gaps = intervals_of_refusals(routes, HOUR, 24)
    assert gaps[:9] == [MINUTE, 5 * MINUTE, *[6 * MINUTE] * 7]
    assert max(gaps[:50]) <= 12 * MINUTE, "the budget: ten an hour"
    assert gaps[-1] == 6 * HOUR
    after = Routes()
    after.restore(routes.state)
    assert after.state.healed == {"mx1": 40 * MINUTE}


def test_a_server_that_comes_and_goes_is_looked_for_every_two_minutes() -> None:
    """It was up a short time ago, and is up for minutes only: nothing counts a connection."""
    routes = Routes()
    refuse(routes, Fault.UNREACHABLE, 0.0)
    accept(routes, MINUTE)
    now, tries = HOUR, []
    while now < 2 * HOUR:
        refuse(routes, Fault.UNREACHABLE, now)
        tries.append(now)
        now = routes.due("mx1", "a@x", new(), now)
    gaps = [after - before for before, after in itertools.pairwise(tries)]
    assert gaps[:3] == [10.0, 30.0, MINUTE]
    assert {*gaps[3:]} == {2 * MINUTE}


def test_a_message_that_is_refused_while_others_are_accepted_keeps_its_own_schedule() -> None:
    """The server is well: it healed, and refuses this one for what it contains."""
    routes = Routes()
    refuse(routes, Fault.REFUSED, 0.0, to="a@x")
    accept(routes, MINUTE)
    now, tries = HOUR, []
    while now < 4 * HOUR:
        attempt = routes.begin("mx1", ("a@x",), "<m1>", now)
        result = SendResult("<m1>", error="no", scope=Scope.MESSAGE, fault=Fault.REFUSED)
        routes.settle(attempt, result, now, is_suspect=True)
        tries.append(now)
        now = routes.due("mx1", "a@x", new(), now)
    gaps = [after - before for before, after in itertools.pairwise(tries)]
    assert gaps == [MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR]


def test_an_attempt_counts_before_it_begins_and_a_restart_changes_nothing() -> None:
    """Killed during the probe, started again, and again: the probe is not repeated."""
    routes = Routes()
    refuse(routes, Fault.LOGIN, 0.0)
    assert routes.due("mx1", "a@x", new(), 1.0) == 15 * MINUTE
    assert routes.due("mx2", "a@x", new(), 1.0) == ANYTIME
    routes.begin("mx1", ("a@x",), "<m1>", 15 * MINUTE)
    for _ in range(3):
        after = Routes()
        after.restore(routes.state)
        routes = after
        assert routes.due("mx1", "a@x", new(), 16 * MINUTE) == 75 * MINUTE


def test_a_probe_that_reached_no_server_does_not_count() -> None:
    """The network was down at that moment: the server was not asked."""
    routes = Routes()
    refuse(routes, Fault.REFUSED, 0.0, to="a@x")
    before = routes.state
    attempt = routes.begin("mx1", ("a@x",), "<m1>", 1 * MINUTE)
    routes.settle(attempt, SendResult("<m1>", error="refused"), 61.0)
    assert routes.state.holds["mx1"]["a@x"] == before.holds["mx1"]["a@x"]
    assert routes.state.tries == before.tries
    assert routes.state.holds["mx1"][CONNECTION].fault is Fault.UNREACHABLE


def test_a_mail_of_last_week_probes_nothing() -> None:
    """It is kept; a newer one is used, and if that is accepted the route is open for all."""
    routes = Routes()
    refuse(routes, Fault.UNKNOWN_RECIPIENT, 0.0, to="a@x")
    assert routes.due("mx1", "a@x", new(2, 0.0), 6 * DAY) == NEVER
    assert routes.due("mx1", "a@x", new(3, 5.5 * DAY), 6 * DAY) < 6 * DAY
    accept(routes, 6 * DAY)
    assert routes.due("mx1", "a@x", new(2, 0.0), 6 * DAY) == ANYTIME


def attempts_over_reloads(fault: Fault, reloads: int, corrected: tuple[str, ...]) -> list[float]:
    """Return when a critical message is tried at a server that refuses while each 20 s reloads."""
    routes, tries = Routes(), [0.0]
    refuse(routes, fault, 0.0)
    for now in (20.0 * number for number in range(1, reloads + 1)):
        routes.reload(corrected, now)
        if routes.due("mx1", "a@x", new(1, now, is_critical=True), now) <= now:
            refuse(routes, fault, now)
            tries.append(now)
    return tries


@pytest.mark.parametrize("fault", [Fault.LOGIN, Fault.LOGIN_LATER])
def test_reloads_do_not_send_a_refused_password_again(fault: Fault) -> None:
    """Eight in three minutes were eight attempts, after which the account is locked."""
    assert attempts_over_reloads(fault, 8, ()) == [0.0]
    assert attempts_over_reloads(fault, 1, ("mx1",)) == [0.0, 20.0]
    assert attempts_over_reloads(fault, 1, ("mx2",)) == [0.0]


def test_reloads_at_a_server_that_refuses_stay_below_what_fail2ban_bans() -> None:
    """Its address is the same: what it refused before the reload counts."""
    tries = attempts_over_reloads(Fault.REFUSED, 180, ())
    assert len(tries) > 4, "a reload tries what waits"
    for limit, seconds in ((4, 10 * MINUTE), (12, HOUR)):
        assert max(sum(at <= other < at + seconds for other in tries) for at in tries) <= limit


def test_a_reload_tries_at_once_what_a_server_refused() -> None:
    """The server was corrected, not iowarden's configuration: nobody waits for the schedule."""
    assert attempts_over_reloads(Fault.REFUSED, 3, ()) == [0.0, 20.0, 40.0, 60.0]


def test_a_reload_does_not_end_a_pause_that_the_server_requested() -> None:
    """429 and Retry-After."""
    routes = Routes()
    routes.restore(RouteState({"mx1": {ALL: Hold(Fault.PAUSED, 1, 0.0, 0.0, "429", HOUR)}}))
    routes.reload((), MINUTE)
    assert routes.due("mx1", "a@x", new(), MINUTE) == HOUR
    routes.reload(("mx1",), MINUTE)
    assert routes.due("mx1", "a@x", new(), MINUTE) <= MINUTE


@pytest.mark.parametrize("attempts", [1, 4, 25])
def test_an_accepted_test_mail_tries_every_route_whatever_was_tried_before(attempts: int) -> None:
    """The administrator corrected something; if not, the patience continues where it was."""
    routes, now = Routes(), 2 * DAY
    hold = Hold(Fault.LOGIN, attempts, 0.0, now - MINUTE, "535 no")
    taken = Hold(Fault.UNANSWERED, 1, now - MINUTE, now - MINUTE)
    tries = tuple(now - 10 * each for each in range(12, 0, -1))
    routes.restore(RouteState({"mx1": {ALL: hold}, ANY: {"<m9>": taken}}, {"mx1": tries}))
    assert routes.due("mx1", "a@x", new(1, now), now) > now
    routes.open_all(now)
    assert routes.due("mx1", "a@x", new(1, now), now) <= now
    assert routes.due("mx1", "a@x", new(9, now), now) > now, "it may have arrived"
    routes.begin("mx1", ("a@x",), "<m1>", now)
    assert routes.due("mx1", "a@x", new(1, now), now) >= now + 15 * MINUTE


def test_another_reason_begins_with_its_own_first_interval() -> None:
    """The log-in works by now, but the server refuses the sender: that is news."""
    routes = Routes()
    for hour in range(3):
        refuse(routes, Fault.LOGIN, hour * HOUR)
    refuse(routes, Fault.REFUSED, 9 * HOUR)
    assert routes.due("mx1", "a@x", new(), 9 * HOUR) == 9 * HOUR + MINUTE


def test_a_server_that_is_not_configured_any_more_is_forgotten() -> None:
    """So is an address: a corrected one has no history."""
    held = dict.fromkeys((ALL, "a@x", "b@x"), Hold(Fault.REFUSED, 1, 0.0, 0.0))
    routes = Routes()
    routes.restore(RouteState({"mx1": held, "mx2": held}, {"mx1": (0.0,), "mx2": (0.0,)}))
    routes.keep(["mx1"], ["a@x"])
    assert {name: set(holds) for name, holds in routes.state.holds.items()} == {"mx1": {ALL, "a@x"}}
    assert list(routes.state.tries) == ["mx1"]


def test_a_message_that_is_refused_over_and_over_is_tried_for_five_days() -> None:
    """5xx: 1, 5, 30 min, 2, 6 h, then each 6 h."""
    routes, now, tries = Routes(), 0.0, [0.0]
    refuse(routes, Fault.REFUSED, now)
    while (now := routes.due("mx1", "a@x", new(), now)) < 30 * DAY and now <= 5 * DAY:
        refuse(routes, Fault.REFUSED, now)
        tries.append(now)
    gaps = [after - before for before, after in itertools.pairwise(tries)]
    assert gaps[:5] == [MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 6 * HOUR]
    assert set(gaps[5:]) == {6 * HOUR}
    assert routes.due("mx1", "a@x", new(), 5 * DAY + 1) == NEVER
