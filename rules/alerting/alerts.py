"""The life of an alert: inactive, pending, firing, unknown, resolved.

Source: Prometheus 3, rules/alerting.go (identity, `for`, `keep_firing_for`), with one state more:
an alert whose source can no longer be read is *unknown*. It neither fires anew nor resolves: only
good data ends it.
Units: all times are seconds of the program's clock.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from iowarden.collectors.model import Labels  # noqa: TC001 - kept over restarts: read at run time
from iowarden.rules.faults import NONE_LEFT, SHORT
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from iowarden.rules.promql.evaluator import Sample
    from iowarden.rules.rulefile.rulefile import Rule

RECENT_SECONDS = 7200.0
"""Window of `iowarden_alert_recent_firings`."""
RESOLVED_KEPT_SECONDS = 900.0
"""As long as Prometheus keeps a resolved alert to be told about it."""


class State(enum.StrEnum):
    """Where an alert stands."""

    INACTIVE = "inactive"
    """No instance of the rule; only rules are in this state."""
    PENDING = "pending"
    FIRING = "firing"
    UNKNOWN = "unknown"
    RESOLVED = "resolved"


REDUNDANCY = "redundancy left"
"""Annotation of alerts about arrays and their disks: NONE_LEFT or LEFT (rules/faults.py), absent
where that is not known. No rule can have it: the name is none of a label.
"""
MOST_SHOWN_LABELS = 3
"""In place of a summary, of a rule that has none."""
_TOLD_ELSEWHERE = frozenset({"alertname", "condition", "instance", "job", "severity"})


@dataclass(frozen=True, slots=True)
class Alert:
    """One instance of a rule: its labels are its identity."""

    name: str
    labels: Labels
    """With alertname and severity, without the metric's name."""
    state: State
    value: float
    annotations: tuple[tuple[str, str], ...]
    active_seconds: float
    """When the condition was first seen to hold."""
    fired_seconds: float | None = None
    missed_seconds: float | None = None
    """When the condition was first seen not to hold while `keep_firing_for` keeps it firing."""
    unknown_seconds: float | None = None
    unknown_reason: str = ""
    resolved_seconds: float | None = None
    recent_firings: tuple[float, ...] = ()
    """When it began to fire, in the last 2 hours."""
    subject: str = ""
    """Key of the disk, array or file system it is about; '': the host."""
    object: str = ""
    """The same in words."""
    adapter: str = ""
    """The SCSI host adapter of the disk it is about."""
    count: int = 0
    """So many events it is; 0: it is a rule's."""
    last_seconds: float | None = None
    """When the last of these events was."""

    @property
    def key(self) -> tuple[Labels, str]:
        """Return what tells it from every other: two disks may have had one name."""
        return key(self.labels, self.subject, self.count)

    def label(self, name: str) -> str:
        """Return a label's value, or ''."""
        return next((value for key, value in self.labels if key == name), "")

    def annotation(self, name: str) -> str:
        """Return an annotation's text, or ''."""
        return next((value for key, value in self.annotations if key == name), "")

    @property
    def summary(self) -> str:
        """Return its annotation, else its name and what tells it from others of that name."""
        own = [
            f"{name} {text}"
            for name, text in self.labels
            if name not in _TOLD_ELSEWHERE and text not in self.object.split()
        ]
        shown = ", ".join(own[:MOST_SHOWN_LABELS]) + (", ..." if own[MOST_SHOWN_LABELS:] else "")
        return self.annotation("summary").strip() or self.name + (f" ({shown})" if shown else "")

    @property
    def severity(self) -> Severity:
        """Return the severity its label says; errors of what holds a last copy are critical.

        That an array misses members is as severe as its rule says, also by a user's override.
        """
        bare = self.annotation(REDUNDANCY) == NONE_LEFT and self.name not in SHORT
        return Severity.CRITICAL if bare else severity(self.label("severity"))

    @property
    def active(self) -> bool:
        """Whether it is firing, or was when its source fell silent."""
        return self.state in (State.FIRING, State.UNKNOWN)


def key(labels: Labels, subject: str, count: int) -> tuple[Labels, str]:
    """Return what tells an alert from every other: events may become worse, a rule's has its own.

    `count` is that of events, 0 for a rule's alert.
    """
    if not count:
        return labels, subject
    return tuple(pair for pair in labels if pair[0] != "severity"), subject


def severity(label: str) -> Severity:
    """Return what a label 'severity' says; what is not one of ours counts as a warning."""
    return {
        "critical": Severity.CRITICAL,
        "warning": Severity.WARNING,
        "notice": Severity.NOTICE,
        "info": Severity.INFO,
        "none": Severity.INFO,
    }.get(label.lower(), Severity.WARNING)


@dataclass(frozen=True, slots=True)
class Transition:
    """An alert that changed its state; `before` is INACTIVE for a new one."""

    alert: Alert
    before: State


class DuplicateAlertError(Exception):
    """Two results of one rule have the same labels: Prometheus calls that an error, too."""


Alerts = dict["Labels", Alert]


def matched(
    rule: Rule,
    results: Sequence[Sample],
    query: Callable[[str], list[Sample]],
    external_labels: Mapping[str, str] | None = None,
    external_url: str = "",
) -> dict[Labels, tuple[float, tuple[tuple[str, str], ...]]]:
    """Return for each alert identity of a rule's results its value and expanded annotations.

    Errors: DuplicateAlertError.
    """
    found: dict[Labels, tuple[float, tuple[tuple[str, str], ...]]] = {}
    external = (external_labels, external_url)
    for sample in results:
        labels = dict(sample.labels)
        # A template sees the metric's name where the expression kept it; an alert never has it.
        own = labels | ({"__name__": sample.name} if sample.name else {})
        for name, template in rule.labels:
            labels[name] = template.render(own, sample.value, query, *external)
        labels["alertname"] = rule.alert
        identity = tuple(sorted((k, v) for k, v in labels.items() if v))
        if identity in found:
            raise DuplicateAlertError(
                f"'{rule.file}':{rule.line}: alert '{rule.alert}': expected results with different"
                f" labels, got two with {dict(identity)}; add a label or aggregate"
            )
        texts = tuple(
            (name, template.render(own, sample.value, query, *external))
            for name, template in rule.annotations
        )
        found[identity] = (sample.value, texts)
    return found


def step(
    rule: Rule,
    alerts: Mapping[Labels, Alert],
    found: Mapping[Labels, tuple[float, tuple[tuple[str, str], ...]]],
    now: float,
) -> tuple[Alerts, list[Transition]]:
    """Return the rule's alerts after an evaluation on good data, and what changed."""
    result: Alerts = {}
    changes: list[Transition] = []
    for identity, (value, texts) in found.items():
        before = alerts.get(identity)
        if before is None or before.state is State.RESOLVED:
            old = State.INACTIVE
            recent = () if before is None else before.recent_firings
            alert = Alert(
                rule.alert, identity, State.PENDING, value, texts, now, recent_firings=recent
            )
        else:
            old = before.state
            alert = replace(
                before,
                value=value,
                annotations=texts,
                missed_seconds=None,
                unknown_seconds=None,
                unknown_reason="",
            )
            if old is State.UNKNOWN:
                alert = replace(alert, state=State.FIRING)
        if alert.state is State.PENDING and now - alert.active_seconds >= rule.for_seconds:
            recent = (*alert.recent_firings, now)
            alert = replace(alert, state=State.FIRING, fired_seconds=now, recent_firings=recent)
        result[identity] = alert
        if alert.state is not old:
            changes.append(Transition(alert, old))
    for identity, before in alerts.items():
        if identity not in found:
            alert_after, change = _missing(rule, before, now)
            if alert_after is not None:
                result[identity] = alert_after
            if change:
                changes.append(change)
    return {key: _forget_old(alert, now) for key, alert in result.items()}, changes


def series(alerts: Iterable[Alert]) -> list[tuple[str, Labels, float]]:
    """Return ALERTS and ALERTS_FOR_STATE. Source: Prometheus, rules/alerting.go.

    An alert that nobody can judge by now is what it was: firing.
    """
    samples: dict[tuple[str, Labels], float] = {}  # two disks may have had one name
    for alert in alerts:
        if alert.state is State.RESOLVED:
            continue
        state = State.PENDING if alert.state is State.PENDING else State.FIRING
        samples["ALERTS", with_state(alert, state)] = 1.0
        samples["ALERTS_FOR_STATE", alert.labels] = alert.active_seconds
    return [(*key, value) for key, value in samples.items()]


def with_state(alert: Alert, state: State) -> Labels:
    """Return an alert's labels and its state, which takes the place of a label 'alertstate'.

    A rule on ALERTS brings one, and a scrape with a label twice is refused as a whole.
    """
    others = (pair for pair in alert.labels if pair[0] != "alertstate")
    return tuple(sorted((*others, ("alertstate", state.value))))


def silence(alert: Alert, reason: str, now: float) -> Alert:
    """Return a firing alert as unknown because its source cannot be read; any other as it is."""
    if alert.state is not State.FIRING:
        return alert
    return replace(alert, state=State.UNKNOWN, unknown_seconds=now, unknown_reason=reason)


def _missing(rule: Rule, before: Alert, now: float) -> tuple[Alert | None, Transition | None]:
    """Return what becomes of an alert whose condition good data shows not to hold."""
    if before.state is State.PENDING:
        kept = replace(before, state=State.RESOLVED, resolved_seconds=now)
        # Only what has fired is worth keeping: its recent firings count towards a repetition.
        return (kept if before.recent_firings else None), None
    if before.state is State.RESOLVED:
        over = now - (before.resolved_seconds or now) >= RESOLVED_KEPT_SECONDS
        return (None if over and not before.recent_firings else before), None
    missed = now if before.missed_seconds is None else before.missed_seconds
    if now - missed < rule.keep_firing_for_seconds:
        kept = replace(
            before,
            state=State.FIRING,
            missed_seconds=missed,
            unknown_seconds=None,
            unknown_reason="",
        )
        changed = before.state is not State.FIRING
        return kept, (Transition(kept, before.state) if changed else None)
    resolved = replace(
        before,
        state=State.RESOLVED,
        resolved_seconds=now,
        missed_seconds=None,
        unknown_seconds=None,
        unknown_reason="",
    )
    return resolved, Transition(resolved, before.state)


def _forget_old(alert: Alert, now: float) -> Alert:
    if alert.recent_firings and alert.recent_firings[0] <= now - RECENT_SECONDS:
        recent = tuple(at for at in alert.recent_firings if at > now - RECENT_SECONDS)
        return replace(alert, recent_firings=recent)
    return alert
