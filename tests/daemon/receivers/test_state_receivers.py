"""State receivers: pings, and alerts in an Alertmanager: a local server, and a real one."""

from __future__ import annotations

import dataclasses
import json
import queue
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.alertmanager import alertmanager
from support.http_receiver import DEADLINE_SECONDS, Answer, Request, Server, config, server
from support.smtp import free_port

from iowarden.daemon.config.receivers import ReceiverType, parse_url
from iowarden.daemon.notify.attempt import SendResult
from iowarden.daemon.notify.delivery import PresentState
from iowarden.daemon.receivers.alertmanager import (
    AlertmanagerReceiver,
    Batch,
    Poster,
    SentAlert,
    doubled_alerts,
    try_alert,
)
from iowarden.daemon.receivers.http_sender import client
from iowarden.daemon.receivers.ping import Ping, try_ping
from iowarden.daemon.transition_log import TransitionLog
from iowarden.rules.alerting.alerts import Alert, AlertState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from iowarden.collectors.model import Labels
    from iowarden.daemon import journal
    from iowarden.daemon.config.receivers import ReceiverConfig

AM = ReceiverType.ALERTMANAGER


def alert(name: str, severity: str = "critical", **changes: Any) -> Alert:  # noqa: ANN401 - of any
    """Return a firing alert."""
    labels = (("alertname", name), ("condition", "test"), ("severity", severity))
    at = time.time() - 5.0
    made = Alert(name, labels, AlertState.FIRING, 1.0, (("summary", f"{name}!"),), at, at)
    return dataclasses.replace(made, **changes)


def resolved(name: str, at: float | None = None) -> Alert:
    """Return an alert that has ended."""
    now = time.time() if at is None else at
    return alert(name, state=AlertState.RESOLVED, resolved_seconds=now)


class Journal:
    """The journal's texts."""

    lost_total = 0

    def __init__(self) -> None:
        self.texts: list[str] = []

    def send(
        self, kind: journal.MessageKind, priority: int, message: str, **fields: str | int | None
    ) -> None:
        """Store a text."""
        self.texts.append(message)

    def debug(self, text: str) -> None:
        """Do nothing."""

    def set_level(self, level: str) -> None:
        """Do nothing."""

    def set_temporary_level(self, level: str, seconds: float) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Host:
    """A receiver, and the loop around it on a played clock."""

    def __init__(self, to: ReceiverConfig, clock_ahead_seconds: float = 0.0) -> None:
        self.results: queue.Queue[object] = queue.Queue()
        self.receiver = AlertmanagerReceiver(to, "db1.example.com", {}, self.results.put)
        self.journal = Journal()
        self.log = TransitionLog(self.journal, time.time, time.time)
        self.now = time.time()
        self.ahead = clock_ahead_seconds
        self.incidents: dict[object, str] = {}
        """The identifiers of incidents, by the keys of alerts."""
        for member in self.receiver._members:
            member._poster.now = lambda: time.time() + clock_ahead_seconds

    def step(self, *alerts: Alert, seconds: float = 0.0, sends: int = 1) -> None:
        """Let time pass, evaluate, and wait until everything is sent."""
        self.now += seconds
        present = PresentState(alerts, lambda: self.incidents, lambda at: at + self.ahead)
        self.receiver.step(self.now, present)
        for _ in range(sends):
            result = self.results.get(timeout=DEADLINE_SECONDS)
            assert isinstance(result, SendResult)
            self.receiver.sent(result, self.now, self.log)
        assert self.results.empty()

    def value(self, name: str) -> float:
        """Return a metric."""
        found = {sample[0]: sample[2] for sample in self.receiver.samples(self.now)}
        return found[name]


@pytest.fixture(name="answers")
def _answers() -> Iterator[Server]:
    with server() as running:
        yield running


def posted(answers: Server) -> list[dict[str, Any]]:
    """Return the alerts of the next POST."""
    while (got := answers.next()).method != "POST":
        pass
    assert got.path == "/api/v2/alerts"
    found = json.loads(got.body)
    assert isinstance(found, list)
    return found


def test_an_alert_is_sent_without_an_end_at_each_change_and_each_minute(answers: Server) -> None:
    """With the labels of iowarden_alerts, 'instance' and those of the configuration."""
    host = Host(config(AM, answers.port, labels=(("team", "storage"),)))
    host.step(alert("DiskFailing", annotations=(("summary", "sda\x1b fails \u202e"),)))
    (sent,) = posted(answers)
    assert sent["labels"] == {
        "alertname": "DiskFailing",
        "condition": "test",
        "instance": "db1.example.com",
        "severity": "critical",
        "team": "storage",
    }
    assert "endsAt" not in sent
    assert sent["annotations"]["summary"] == "sda\\x1b fails \\u202e"
    worse = alert("DiskFailing", annotations=(("summary", "sda fails more"),))
    host.step(worse, seconds=59.0, sends=0)  # a text alone is no change
    host.step(worse, seconds=1.0)
    (sent,) = posted(answers)
    assert sent["annotations"]["summary"] == "sda fails more"
    host.step(worse, alert("DiskGone"), seconds=1.0)
    assert len(posted(answers)) == 2


def test_notices_are_not_sent_and_unknown_stays_firing(answers: Server) -> None:
    """An alert whose data is unavailable is not resolved by that."""
    host = Host(config(AM, answers.port))
    lost = alert(
        "DiskFailing",
        state=AlertState.UNKNOWN,
        unknown_seconds=1_795_266_034.0,
        unknown_reason="smart: stuck",
    )
    host.step(lost, alert("MountStrictAtime", "notice"), alert("Slow", state=AlertState.PENDING))
    (sent,) = posted(answers)
    assert "endsAt" not in sent
    text = "data unavailable since 2026-11-21T13:00:34.000Z: smart: stuck"
    assert sent["annotations"]["unknown"] == text


def test_an_end_is_repeated_for_a_quarter_of_an_hour_by_alertmanagers_own_clock(
    answers: Server,
) -> None:
    """Its clock is ten minutes behind: an end in its future would not be one."""
    answers.date = "Sat, 21 Nov 2026 20:50:34 GMT"
    host = Host(config(AM, answers.port))
    host.step(alert("DiskFailing"))
    (sent,) = posted(answers)
    assert sent["startsAt"].startswith("2026-11-21T20:50:3")
    host.step(resolved("DiskFailing", host.now), seconds=5.0)
    (first,) = posted(answers)
    assert first["endsAt"].startswith("2026-11-21T20:50:3")
    assert first["startsAt"] <= first["endsAt"]
    for _ in range(14):
        host.step(seconds=60.0)
        (again,) = posted(answers)
        assert again["endsAt"][:18] == first["endsAt"][:18]
    host.step(seconds=120.0)
    assert posted(answers) == []


def test_after_a_restart_what_ended_a_moment_ago_is_sent_as_ended(answers: Server) -> None:
    """The program before it was killed between the end of the alert and the request."""
    host = Host(config(AM, answers.port))
    host.step(resolved("DiskFailing", host.now - 30.0), resolved("Old", host.now - 1000.0))
    assert [each["labels"]["alertname"] for each in posted(answers)] == ["DiskFailing"]


def test_each_member_of_a_cluster_gets_everything_and_a_dead_one_delays_none(
    answers: Server,
) -> None:
    """They do not exchange alerts, only what they notified."""
    to = config(AM, answers.port)
    to = dataclasses.replace(to, urls=(*to.urls, parse_url(f"http://localhost:{free_port()}")))
    host = Host(to)
    host.step(alert("DiskFailing"), sends=2)
    assert len(posted(answers)) == 1
    assert host.value("iowarden_notifications_oldest_unsent_seconds") == 0.0
    assert "Connection refused" in host.journal.texts[0]


def test_one_that_takes_nothing_is_an_alert_after_an_hour_and_is_tried_each_minute(
    answers: Server,
) -> None:
    """Its age counts from the first failed attempt, and ends with the first accepted one."""
    answers.answer = lambda _: Answer(503)
    host = Host(config(AM, answers.port))
    host.step(alert("DiskFailing"))
    for seconds in (5.0, 15.0, 30.0, 60.0, 60.0):
        host.step(alert("DiskFailing"), seconds=seconds - 0.5, sends=0)
        host.step(alert("DiskFailing"), seconds=0.5)
    assert host.value("iowarden_notifications_oldest_unsent_seconds") == pytest.approx(170.0)
    answers.answer = lambda _: Answer()
    host.step(alert("DiskFailing"), seconds=60.0)
    assert host.value("iowarden_notifications_oldest_unsent_seconds") == 0.0


def test_a_server_that_wants_a_pause_gets_it_also_when_something_changes(answers: Server) -> None:
    """429 with Retry-After."""
    answers.answer = lambda _: Answer(429, headers={"Retry-After": "100"})
    host = Host(config(AM, answers.port))
    host.step(alert("DiskFailing"))
    answers.answer = lambda _: Answer()
    host.step(alert("DiskFailing"), alert("DiskGone"), seconds=99.0, sends=0)
    host.step(alert("DiskFailing"), alert("DiskGone"), seconds=1.0)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_one_refused_alert_costs_only_itself(answers: Server, status: int) -> None:
    """The batch is sent again one by one; the bad one is reported and left out for an hour."""

    def judge(request: Request) -> Answer:
        return Answer(status, b"bad label") if b"Bad" in request.body else Answer()

    answers.answer = judge
    host = Host(config(AM, answers.port))
    both = alert("DiskFailing"), alert("Bad"), alert("DiskGone")
    host.step(*both)
    sent = [[each["labels"]["alertname"] for each in posted(answers)] for _ in range(4)]
    assert sent == [["DiskFailing", "Bad", "DiskGone"], ["DiskFailing"], ["Bad"], ["DiskGone"]]
    assert 'alertname="Bad"' in host.journal.texts[-1]
    assert f"{status}" in host.journal.texts[-1]
    assert host.value("iowarden_notifications_refused") == 1.0
    host.step(*both, seconds=60.0)
    assert [each["labels"]["alertname"] for each in posted(answers)] == ["DiskFailing", "DiskGone"]


def test_an_alert_that_was_refused_stays_so_while_the_server_fails(answers: Server) -> None:
    """Neither is 'works again' logged nor does the metric go back while the next attempt fails."""

    def judge(request: Request) -> Answer:
        return Answer(400, b"bad label") if b"Bad" in request.body else Answer()

    answers.answer = judge
    host = Host(config(AM, answers.port))
    both = alert("DiskFailing"), alert("Bad")
    host.step(*both)
    answers.answer = lambda _: Answer(503)
    host.step(*both, seconds=60.0)
    assert host.value("iowarden_notifications_refused") == 1.0
    assert not [text for text in host.journal.texts if "works again" in text]


def test_of_an_incident_somebody_knows_if_the_last_accepted_state_had_an_alert_of_it(
    answers: Server,
) -> None:
    """One alert is refused; then the server fails; then what it accepts has ended."""

    def judge(request: Request) -> Answer:
        return Answer(400, b"bad label") if b"Bad" in request.body else Answer()

    answers.answer = judge
    host = Host(config(AM, answers.port))
    failing, bad = alert("DiskFailing"), alert("Bad")
    host.incidents = {failing.key: "disk", bad.key: "user"}
    assert host.receiver.incidents() == frozenset()
    host.step(failing, bad)
    assert host.receiver.incidents() == {"disk"}
    answers.answer = lambda _: Answer(503)
    host.step(failing, bad, seconds=60.0)
    assert host.receiver.incidents() == {"disk"}, "it was notified"
    answers.answer = judge
    host.step(resolved("DiskFailing"), bad, seconds=60.0)
    assert host.receiver.incidents() == frozenset()


def test_many_alerts_are_sent_in_batches(answers: Server) -> None:
    """As Prometheus sends them: 64 a request."""
    host = Host(config(AM, answers.port))
    host.step(*(alert(f"Disk{number}") for number in range(150)))
    assert [len(posted(answers)) for _ in range(3)] == [64, 64, 22]


def test_a_page_of_a_portal_is_no_alertmanager(answers: Server) -> None:
    """It answers 200 to everything."""
    answers.answer = lambda _: Answer(200, b"<html>Please log in</html>")
    host = Host(config(AM, answers.port))
    host.step(alert("DiskFailing"))
    assert host.value("iowarden_notifications_oldest_unsent_seconds") == 0.0
    host.step(alert("DiskFailing"), seconds=10.0)
    assert host.value("iowarden_notifications_oldest_unsent_seconds") == 10.0


def test_a_log_in_is_made(answers: Server) -> None:
    """Basic, or with a token."""
    host = Host(config(AM, answers.port, "/prefix/", user="iowarden", password="s3cret"))
    host.step(alert("DiskFailing"))
    got = answers.next()
    assert got.path == "/prefix/api/v2/status"
    assert got.headers["Authorization"] == "Basic aW93YXJkZW46czNjcmV0"


def test_a_lasting_refusal_of_everything_is_reported_by_another_receiver(answers: Server) -> None:
    """A wrong password: after 15 min it counts as refused, for the alert NotificationRefused."""
    answers.answer = lambda _: Answer(401)
    host = Host(config(AM, answers.port))
    host.step(alert("DiskFailing"))
    for _ in range(14):
        host.step(alert("DiskFailing"), seconds=60.0)
        assert host.value("iowarden_notifications_refused") == 0.0
    host.step(alert("DiskFailing"), seconds=60.0)
    assert host.value("iowarden_notifications_refused") == 1.0
    answers.answer = lambda _: Answer()
    host.step(alert("DiskFailing"), seconds=60.0)
    assert host.value("iowarden_notifications_refused") == 0.0


def test_a_server_that_is_down_refuses_nothing(answers: Server) -> None:
    """That is an alert after an hour."""
    answers.answer = lambda _: Answer(503)
    host = Host(config(AM, answers.port))
    for _ in range(20):
        host.step(alert("DiskFailing"), seconds=60.0)
    assert host.value("iowarden_notifications_refused") == 0.0


# --- ping


def test_a_ping_is_sent_each_period_only_while_nothing_is_wrong_and_never_caught_up(
    answers: Server,
) -> None:
    """A stuck collector ends it; afterwards one ping is sent, not those that were left out."""
    results: queue.Queue[object] = queue.Queue()
    ping = Ping(config(ReceiverType.PING, answers.port, "/alive", period_seconds=60.0), results.put)
    log = Journal()
    transitions = TransitionLog(log, time.time, time.time)
    sent = []
    for now in range(0, 600, 10):
        bad = "stuck collectors: mounts" if 100 <= now < 400 else ""
        ping.step(float(now), PresentState((), dict, lambda at: at, bad))
        ping.check_threads(transitions)
        if now % 60 == 0 and not bad:
            result = results.get(timeout=DEADLINE_SECONDS)
            assert isinstance(result, SendResult)
            ping.sent(result, float(now), transitions)
            assert answers.next().path == "/alive"
            sent.append(now)
    assert sent == [0, 60, 420, 480, 540]
    assert answers.requests.empty()
    assert "no ping is sent: stuck collectors: mounts" in log.texts[0]
    assert ping.close(DEADLINE_SECONDS)


def test_a_ping_that_is_not_accepted_is_counted_and_is_sent_again_with_the_next_period(
    answers: Server,
) -> None:
    """Its secret path is in no text."""
    answers.answer = lambda request: Answer(404, request.path.encode())
    to = config(
        ReceiverType.PING, answers.port, "/8a5f2c31-77aa-4be1", url_file="/x", period_seconds=60.0
    )
    results: queue.Queue[object] = queue.Queue()
    ping = Ping(to, results.put)
    log = Journal()
    transitions = TransitionLog(log, time.time, time.time)
    for now in (0.0, 60.0):
        ping.step(now, PresentState((), dict, lambda at: at))
        result = results.get(timeout=DEADLINE_SECONDS)
        assert isinstance(result, SendResult)
        ping.sent(result, now, transitions)
    samples = {
        (name, dict(labels).get("result")): value for name, labels, value in ping.samples(90.0)
    }
    assert samples["iowarden_notifications_total", "failed"] == 2.0
    assert samples["iowarden_notifications_oldest_unsent_seconds", None] == 90.0
    (line,) = try_ping(to)
    assert not line.good
    assert "8a5f2c31" not in repr((log.texts, line, ping.line(90.0, lambda at: at)))
    assert ping.close(DEADLINE_SECONDS)


# --- a real one


def notified(answers: Server) -> tuple[str, set[str]]:
    """Return the status and the alerts of the next notification of an Alertmanager."""
    found = json.loads(answers.next().body)
    return found["status"], {each["labels"]["alertname"] for each in found["alerts"]}


@pytest.mark.system
@pytest.mark.parametrize("ahead", [0.0, -600.0, 600.0], ids=["", "10 min slow", "10 min fast"])
def test_a_real_one_notifies_begin_and_end_whatever_the_clock(
    tmp_path: Path, answers: Server, ahead: float
) -> None:
    """Firing, unknown, resolved; our clock differs from Alertmanager's."""
    with alertmanager(tmp_path / "am", answers.port) as real:
        host = Host(config(AM, real.port), ahead)
        host.step(alert("DiskFailing"))
        assert notified(answers) == ("firing", {"DiskFailing"})
        (seen,) = real.active()
        assert seen["status"]["state"] == "active"
        host.step(alert("DiskFailing", state=AlertState.UNKNOWN), seconds=60.0)
        (seen,) = real.active()
        assert "data unavailable" in seen["annotations"]["unknown"]
        host.step(resolved("DiskFailing", host.now), seconds=5.0)
        assert notified(answers) == ("resolved", {"DiskFailing"})
        assert real.active() == []


@pytest.mark.system
def test_a_real_one_that_restarts_knows_everything_a_minute_later(
    tmp_path: Path, answers: Server
) -> None:
    """What ended while it was away is notified as resolved, since ends are repeated."""
    with alertmanager(tmp_path / "am", answers.port) as real:
        host = Host(config(AM, real.port))
        host.step(alert("DiskFailing"), alert("DiskGone"))
        both = notified(answers)[1] | notified(answers)[1]
        assert both == {"DiskFailing", "DiskGone"}
        real.await_replies(2)
        real.stop()
        host.step(alert("DiskGone"), resolved("DiskFailing", host.now), seconds=5.0)
        assert "Connection refused" in host.journal.texts[-1]
        real.start()
        assert real.active() == []
        host.step(alert("DiskGone"), resolved("DiskFailing", host.now), seconds=60.0)
        assert notified(answers) == ("resolved", {"DiskFailing"})
        assert real.names() == {"DiskGone"}


@pytest.mark.system
def test_a_real_one_refuses_one_label_and_takes_the_others(tmp_path: Path, answers: Server) -> None:
    """A name that Alertmanager 0.25 does not accept, among good ones."""
    with alertmanager(tmp_path / "am", answers.port) as real:
        to = config(AM, real.port)
        poster = Poster(to, client(to, to.urls[0]))

        def sent(name: str, *more: tuple[str, str]) -> SentAlert:
            labels: Labels = (("alertname", name), *more)
            return SentAlert(labels, (), time.time())

        result = poster.post(Batch((sent("A"), sent("B", ("bad-name", "x")), sent("C"))), "am")
        assert not result.error
        assert 'bad-name="x"' in " ".join(result.refused.values())
        assert real.names() == {"A", "C"}


@pytest.mark.system
def test_a_real_one_that_a_prometheus_sends_the_same_alerts_to_is_recognized(
    tmp_path: Path,
) -> None:
    """Both notify, since the labels differ; alerts of other hosts or rules are none of ours."""
    with alertmanager(tmp_path / "am") as real:
        to = config(AM, real.port)
        poster = Poster(to, client(to, to.urls[0]))

        def sent(name: str, **labels: str) -> SentAlert:
            pairs = {"alertname": name, "condition": "md_degraded", **labels}
            return SentAlert(tuple(sorted(pairs.items())), (), time.time())

        own, other = sent("Own", instance="db1.example.com"), sent("Up", instance="db2:1", job="x")
        assert not poster.post(Batch((own, other)), "am").error
        assert doubled_alerts(to, "db1.example.com") == ()
        assert not poster.post(Batch((sent("Md", instance="db1:9748", job="x"),)), "am").error
        assert doubled_alerts(to, "db1.example.com") == ("Md",)


@pytest.mark.system
def test_the_test_alert_reaches_a_real_one(tmp_path: Path) -> None:
    """As 'iowarden test-notify' sends it."""
    with alertmanager(tmp_path / "am") as real:
        (line,) = try_alert(config(AM, real.port), "db1")
        assert line.good
        assert real.names() == {"IowardenTest"}
