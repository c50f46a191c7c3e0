"""Alertmanager: the alerts that are active now, every minute and at each change, to each URL.

While an alert is active it is sent without an end (endsAt): Alertmanager 0.25 accepts one whose end
has passed by its own clock and sends no notification. Its end is given by Alertmanager's own clock
and repeated for 15 minutes, since Alertmanager keeps no alerts over a restart.

Source: Alertmanager 0.25, api/v2 (postAlerts), types.Alert; Prometheus, notifier.go (batches),
rules/alerting.go (resolvedRetention).
"""

from __future__ import annotations

import base64
import json
import re
import time
import urllib.parse
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Labels  # noqa: TC001 - of a field
from iowarden.daemon import journal
from iowarden.daemon.notify.attempt import SendResult
from iowarden.daemon.notify.smtp import AUTHORITIES
from iowarden.daemon.receivers import http_sender
from iowarden.daemon.receivers.formats import authorization
from iowarden.daemon.receivers.http_client import ATTEMPT_SECONDS, HttpRequest
from iowarden.daemon.receivers.message import MAX_NAME_CHARACTERS, timestamp
from iowarden.daemon.receivers.state_thread import Account, StateThread
from iowarden.daemon.sanitize import one_line
from iowarden.rules import scrape_labels
from iowarden.rules.alerting import alerts as life
from iowarden.rules.alerting.alerts import AlertState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from iowarden.collectors.model import Sample
    from iowarden.daemon.config.receivers import ReceiverConfig, Url
    from iowarden.daemon.control.documents import MailLine
    from iowarden.daemon.notify.attempt import DialogueLine
    from iowarden.daemon.notify.delivery import PresentState
    from iowarden.daemon.receivers.http_client import HttpClient, HttpReply
    from iowarden.daemon.transition_log import TransitionLog
    from iowarden.rules.alerting.alerts import Alert

REPEAT_SECONDS = 60.0
RESOLVED_SECONDS = 900.0
"""How long the end of an alert is repeated; as Prometheus does."""
MAX_BATCH = 64
"""Alerts of one request, as Prometheus sends them."""
REFUSED_SECONDS = 3600.0
"""After this an alert that was refused is tried again."""
_BACKOFF_SECONDS = (5.0, 15.0, 30.0, REPEAT_SECONDS)
_PATH = "api/v2/alerts"
_STATUS_PATH = "api/v2/status"
_OF_ONE_ALERT = frozenset({400, 413, 422})
"""The batch holds an alert that is refused: it is sent again one by one."""
_MAX_ANNOTATION_CHARACTERS = 1000
_CHECK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class SentAlert:
    """An alert as it is sent; `started_seconds` is Unix time."""

    labels: Labels
    annotations: Labels
    started_seconds: float
    resolved: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """All that is to be known now."""

    alerts: tuple[SentAlert, ...]


class AlertmanagerReceiver:
    """A receiver of type alertmanager; as delivery.StateReceiver."""

    def __init__(
        self,
        config: ReceiverConfig,
        host: str,
        targets: Mapping[str, Labels],
        post: Callable[[object], object],
        authorities: str = AUTHORITIES,
        attempt_seconds: float = ATTEMPT_SECONDS,
    ) -> None:
        """Start a thread for each URL; `targets` are the labels of other exporters' series."""
        self._config = config
        self._targets = targets
        self._labels = dict((("instance", host), *config.labels))
        self._account = Account(config)
        self._members = [
            _Member(config, url, post, authorities, attempt_seconds) for url in config.urls
        ]
        self._active: dict[Labels, SentAlert] = {}
        self._ended: dict[Labels, tuple[SentAlert, float]] = {}
        """What has ended, and when by the program's clock."""

    def step(self, now: float, state: PresentState) -> None:
        """Send to each URL that is due: each minute, after a failure, and at each change.

        A summary changes with each value: its new text alone waits for the minute.
        """
        active, ended = self._now(now, state)
        changed = _states(active) != _states(self._active) or not ended.keys() <= self._ended.keys()
        self._active, self._ended = active, ended
        due = [each for each in self._members if each.due(now, changed=changed)]
        if not due:
            return
        batch = Batch((*active.values(), *(alert for alert, _ in ended.values())))
        for member in due:
            self._account.attempt(now)
            member.submit(batch, now)

    def _now(
        self, now: float, state: PresentState
    ) -> tuple[dict[Labels, SentAlert], dict[Labels, tuple[SentAlert, float]]]:
        """Return what is active, and what has ended within the last 15 minutes."""
        severities = set(self._config.severities)
        alerts = [a for a in state.alerts if a.severity.name.lower() in severities]
        active: dict[Labels, SentAlert] = {}
        of = None
        for alert in life.exported(alerts)[0]:
            if alert.active:
                of = state.incidents() if of is None else of
                sent = self._sent(alert, state, str(of.get(alert.key, "")))
                before = self._active.get(sent.labels)
                if before is not None:  # the Unix time of its start, even if the clock was set
                    sent = replace(sent, started_seconds=before.started_seconds)
                active[sent.labels] = sent
        ended = {
            labels: (_end(alert), now)
            for labels, alert in self._active.items()
            if labels not in active
        }
        for alert in alerts:
            if alert.state is AlertState.RESOLVED and alert.resolved_seconds is not None:
                if alert.fired_seconds is None or now - alert.resolved_seconds > RESOLVED_SECONDS:
                    continue
                sent = _end(self._sent(alert, state, ""))
                if sent.labels not in active and sent.labels not in self._ended:
                    ended.setdefault(sent.labels, (sent, alert.resolved_seconds))
        for labels, (sent, at) in self._ended.items():
            if labels not in active and now - at <= RESOLVED_SECONDS:
                ended.setdefault(labels, (sent, at))
        return active, ended

    def _sent(self, alert: Alert, state: PresentState, incident: str) -> SentAlert:
        labels = {
            **dict(scrape_labels.without(life.identity(alert), self._targets)),
            "alertname": alert.name,
            "severity": alert.severity.name.lower(),
            **self._labels,
        }
        labels.pop("alertstate", None)
        texts = {
            "summary": alert.summary,
            "description": alert.annotation("description"),
            "incident": incident,
        }
        if alert.state is AlertState.UNKNOWN:
            since = timestamp(state.realtime(alert.unknown_seconds or alert.active_seconds))
            texts["unknown"] = f"data unavailable since {since}: {alert.unknown_reason}"
        fired = alert.active_seconds if alert.fired_seconds is None else alert.fired_seconds
        return SentAlert(
            _labels(labels, MAX_NAME_CHARACTERS),
            _labels(texts, _MAX_ANNOTATION_CHARACTERS),
            state.realtime(fired),
        )

    def sent(self, result: SendResult, now: float, log: TransitionLog) -> None:
        """Process the result of an attempt at a URL."""
        self._account.take(result, now, log)
        for member in self._members:
            if member.name == result.message_id:
                member.finished(result, now)
        self._account.refused = max(len(each.refused) for each in self._members)
        text = "; ".join(dict.fromkeys(result.refused.values()))
        log.trouble(
            f"receiver '{self._config.name}' {result.message_id} refused", text, journal.MAIL_FAILED
        )

    def check_threads(self, log: TransitionLog) -> None:
        """Log when a thread has been blocked for too long."""
        for each in self._members:
            self._account.check(each.name, each.working_since, log)

    def samples(self, now: float) -> list[Sample]:
        """Return its samples."""
        return self._account.samples(now)

    def line(self, now: float, realtime: Callable[[float], float]) -> MailLine:
        """Return its state, for 'iowarden status'."""
        return self._account.line(now, realtime)

    def incidents(self) -> frozenset[str]:
        """Return the incidents that the last accepted state had an alert of, at any URL."""
        return frozenset(name for each in self._members for name in each.incidents)

    def close(self, timeout_seconds: float) -> bool:
        """End its threads."""
        ended = [each.close(timeout_seconds) for each in self._members]
        return all(ended)


class _Member:
    """One Alertmanager of a cluster: its thread, when it is next sent to, and its clock."""

    def __init__(
        self,
        config: ReceiverConfig,
        url: Url,
        post: Callable[[object], object],
        authorities: str,
        attempt_seconds: float,
    ) -> None:
        self.refused: Mapping[str, str] = {}
        self.incidents: frozenset[str] = frozenset()
        """Of the alerts in the last state that it accepted."""
        self._client = http_sender.client(config, url, authorities, attempt_seconds)
        self._poster = Poster(config, self._client)
        # The path in a 'url_file' is a secret; there is one only.
        self.name = url.origin if config.url_file else url.origin + url.path.rstrip("/")
        self._thread = StateThread[Batch](config, self.name, self._send, post)
        self._due_seconds = float("-inf")
        self._not_before_seconds = float("-inf")
        self._failures = 0

    @property
    def working_since(self) -> float | None:
        """Return when the attempt in progress began."""
        return self._thread.working_since

    def due(self, now: float, *, changed: bool) -> bool:
        return now >= self._not_before_seconds and (changed or now >= self._due_seconds)

    def submit(self, batch: Batch, now: float) -> None:
        self._due_seconds = now + REPEAT_SECONDS
        self._thread.submit(batch)

    def finished(self, result: SendResult, now: float) -> None:
        """Plan the next attempt: soon after a failure, not before the server wants it."""
        self.refused = result.refused
        if not result.error:
            self._failures = 0
            self.incidents = result.incidents
            return
        wait = _BACKOFF_SECONDS[min(self._failures, len(_BACKOFF_SECONDS) - 1)]
        self._failures += 1
        self._due_seconds = now + max(wait, result.retry_after_seconds)
        if result.retry_after_seconds:
            self._not_before_seconds = self._due_seconds

    def close(self, timeout_seconds: float) -> bool:
        return self._thread.close(timeout_seconds)

    def _send(self, batch: Batch) -> SendResult:
        return self._poster.post(batch, self.name)


@dataclass(slots=True)
class Poster:
    """Posts alerts to one Alertmanager; for its thread."""

    config: ReceiverConfig
    client: HttpClient
    now: Callable[[], float] = time.time
    _ahead_seconds: float | None = None
    """How far Alertmanager's clock is ahead of ours."""
    _ends: dict[Labels, float] = field(default_factory=dict)
    """When alerts ended, by Alertmanager's clock."""
    _refused: dict[Labels, tuple[float, str]] = field(default_factory=dict)
    """By an alert's labels when it was refused, by time.monotonic(), and why."""

    def post(self, batch: Batch, name: str) -> SendResult:
        """Post all of it; the first failure ends the attempt, an alert that is refused does not."""
        expired = time.monotonic() - REFUSED_SECONDS
        self._refused = {key: why for key, why in self._refused.items() if why[0] > expired}
        there = {alert.labels for alert in batch.alerts if alert.resolved}
        self._ends = {labels: at for labels, at in self._ends.items() if labels in there}
        alerts = [alert for alert in batch.alerts if alert.labels not in self._refused]
        problem = self._post_all(alerts)
        # Also after a failure: those alerts are still not sent.
        place = f"receiver '{self.config.name}': {self.client.url.origin}"
        present = {alert.labels for alert in batch.alerts}
        refused = {
            str(key): f"{place}: an alert was refused and is not sent for an hour: {why}"
            for key, (_, why) in self._refused.items()
            if key in present
        }
        if problem is not None:
            why = http_sender.failure(self.config, problem, "200")
            result = http_sender.failed(self.config, self.client, problem, name, why)
            return replace(result, refused=refused)
        taken = (a for a in alerts if not a.resolved and a.labels not in self._refused)
        incidents = frozenset(filter(None, (dict(a.annotations).get("incident") for a in taken)))
        return SendResult(
            name, refused=refused, answer="200", receiver=self.config.name, incidents=incidents
        )

    def _post_all(self, alerts: list[SentAlert]) -> HttpReply | None:
        """Post alerts in batches; return the reply that ends the attempt, if any."""
        if self._ahead_seconds is None:
            reply = self._request("GET", _STATUS_PATH)
            if not reply.good:
                return reply
        for start in range(0, max(len(alerts), 1), MAX_BATCH):
            if (problem := self._post(alerts[start : start + MAX_BATCH])) is not None:
                return problem
        return None

    def _post(self, alerts: list[SentAlert]) -> HttpReply | None:
        """Post some alerts; return a reply that ends the attempt, if any."""
        reply = self._request("POST", _PATH, alerts)
        if reply.status in _OF_ONE_ALERT and len(alerts) > 1:
            for alert in alerts:
                if (problem := self._post([alert])) is not None:
                    return problem
            return None
        if reply.status in _OF_ONE_ALERT and alerts:
            named = ", ".join(f'{name}="{value}"' for name, value in alerts[0].labels)
            text = f"{{{one_line(named, 300)}}}: {reply.text()}"
            self._refused[alerts[0].labels] = (time.monotonic(), text)
            return None
        return None if reply.good and not reply.body.lstrip().startswith(b"<") else reply

    def _request(
        self, method: str, path: str, alerts: Iterable[SentAlert] | None = None
    ) -> HttpReply:
        headers = {"Content-Type": "application/json", **_login(self.config)}
        body = b""
        if alerts is not None:
            body = json.dumps([self._posted(alert) for alert in alerts]).encode("ascii")
        base = self.client.url.path.rstrip("/")
        reply = self.client.send(HttpRequest(method, headers, body, f"{base}/{path}"))
        if reply.server_seconds is not None:
            self._ahead_seconds = reply.server_seconds - self.now()
        elif not reply.error:
            self._ahead_seconds = self._ahead_seconds or 0.0
        return reply

    def _posted(self, alert: SentAlert) -> dict[str, Any]:
        """Return an alert in JSON; it neither begins nor ends in Alertmanager's future."""
        there = self.now() + (self._ahead_seconds or 0.0)
        started = min(alert.started_seconds, there)
        posted: dict[str, Any] = {
            "labels": dict(alert.labels),
            "annotations": dict(alert.annotations),
            "startsAt": timestamp(started),
        }
        if alert.resolved:
            ended = min(self._ends.setdefault(alert.labels, there), there)
            posted["endsAt"] = timestamp(max(ended, started))
        return posted


def try_alert(
    config: ReceiverConfig, host: str, authorities: str = AUTHORITIES
) -> Iterator[DialogueLine]:
    """Send a test alert to each URL and yield what came of it; it ends after 5 minutes."""
    labels = {
        "alertname": "IowardenTest",
        "severity": config.severities[-1],
        "instance": host,
        **dict(config.labels),
    }
    texts = {"summary": f"this is a test of iowarden on {host}; nothing is wrong"}
    alert = SentAlert(_labels(labels, MAX_NAME_CHARACTERS), _labels(texts, 1000), time.time())
    for url in config.urls:
        poster = Poster(config, http_sender.client(config, url, authorities))
        result = poster.post(Batch((alert,)), url.origin)
        accepted = (
            "accepted the alert 'IowardenTest', which resolves by itself after Alertmanager's"
            " 'resolve_timeout' (5 min)"
        )
        yield http_sender.outcome(config, url, result, accepted)


def doubled_alerts(
    config: ReceiverConfig, host: str, authorities: str = AUTHORITIES
) -> tuple[str, ...]:
    """Return iowarden's alerts of this host that an Alertmanager also has from a Prometheus.

    A Prometheus adds a label 'job'. Limits: only alerts that are active now, of the first 4 kB.
    """
    if any(name == "job" for name, _ in config.labels):
        return ()
    instances = "|".join(re.escape(name) for name in (host, host.partition(".")[0]))
    filters = f'instance=~"({instances})(:[0-9]+)?"', 'job=~".+"', 'condition=~".+"'
    query = "&".join(f"filter={urllib.parse.quote(each)}" for each in filters)
    found: dict[str, None] = {}
    for url in config.urls:
        made = http_sender.client(config, url, authorities, _CHECK_SECONDS)
        base = url.path.rstrip("/")
        reply = made.send(HttpRequest("GET", _login(config), path=f"{base}/{_PATH}?{query}"))
        if reply.good:
            names = re.findall(rb'"alertname":\s*"([A-Za-z0-9_]{1,100})"', reply.body)
            found |= dict.fromkeys(name.decode() for name in names)
    return tuple(found)


def _login(config: ReceiverConfig) -> dict[str, str]:
    """Return the header that logs in, if there is one."""
    if config.user is None:
        return authorization(config)
    pair = f"{config.user}:{config.password}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def _states(active: Mapping[Labels, SentAlert]) -> dict[Labels, str]:
    """Return which alerts are active, and why the data of some is unavailable."""
    return {labels: dict(each.annotations).get("unknown", "") for labels, each in active.items()}


def _end(alert: SentAlert) -> SentAlert:
    return replace(alert, resolved=True)


def _labels(texts: Mapping[str, str], limit: int) -> Labels:
    """Return labels without empty values, each on one line."""
    shown = ((name, one_line(text, limit)) for name, text in texts.items())
    return tuple(sorted((name, text) for name, text in shown if text))
