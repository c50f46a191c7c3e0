"""Alert states: inactive, pending, firing, unknown, resolved.

Source: Prometheus 3, rules/alerting.go (identity, `for`, `keep_firing_for`), with one more state:
an alert whose data source can no longer be read is *unknown*. It neither fires again nor resolves:
only good data end it.
Units: all times are seconds of the program's clock.
"""

from __future__ import annotations

import enum
import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Labels  # noqa: TC001 - stored over restarts: read at run time
from iowarden.collectors.printable import name as safe_name
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from iowarden.rules.promql.automaton import Steps
    from iowarden.rules.promql.evaluator import Sample
    from iowarden.rules.rulefile.rulefile import Rule

T = TypeVar("T")

RECENT_SECONDS = 7200.0
"""Window of `iowarden_alert_recent_firings`."""
RESOLVED_RETENTION_SECONDS = 900.0
"""How long a resolved alert is retained: as long as Prometheus retains and sends it."""


class AlertState(enum.StrEnum):
    """State of an alert."""

    INACTIVE = "inactive"
    """No instance of the rule; only rules are in this state."""
    PENDING = "pending"
    FIRING = "firing"
    UNKNOWN = "unknown"
    RESOLVED = "resolved"


REDUNDANCY = "redundancy left"
"""Annotation of alerts about arrays and their disks: NONE_LEFT or LEFT (rules/faults.py), absent
if unknown. No rule can set it: it is not a valid label name.
"""
RAISED = "severity raised"
"""Annotation of a finding that is one severity higher because of its array; likewise unsettable."""
MAX_EXPORTED = 1000
"""Alert series of one host: a Prometheus of a thousand hosts holds a million of them."""
_NOT_IDENTITY = frozenset(
    "expected_by pid reason recommended scheduler state used_by vendor".split()
)
"""Labels of shipped alerts that may change while the alert lasts."""
MAX_SHOWN_LABELS = 3
"""Shown in place of a summary if the rule has none."""
_SHOWN_ELSEWHERE = frozenset({"alertname", "condition", "instance", "job", "severity"})


class Remembered:
    """What is computed once of an alert or member, which never changes: it is used each second.

    No field: neither compared nor stored, and a changed copy has none of it.
    """

    __slots__ = (
        "known_fact",
        "known_key",
        "known_layer",
        "known_meaning",
        "known_severity",
        "made_of",
    )
    known_key: tuple[Labels, str]
    known_severity: Severity
    known_meaning: Any  # a Meaning and a Layer of rules/faults.py
    known_layer: Any
    known_fact: Any  # of an alert a Fact of rules/incidents/causes.py, of a member its fault
    made_of: object
    """The alert that a member was made of."""

    def remember(self, name: str, found: T) -> T:
        """Keep what was computed under a name of these; return it."""
        setattr(self, name, found)
        return found


@dataclass(frozen=True, slots=True)
class Alert(Remembered):
    """One instance of a rule: its labels are its identity."""

    name: str
    labels: Labels
    """With alertname and severity, without the metric's name."""
    state: AlertState
    value: float
    annotations: tuple[tuple[str, str], ...]
    active_seconds: float
    """When the condition was first true."""
    fired_seconds: float | None = None
    absent_seconds: float | None = None
    """When the condition was first false, while `keep_firing_for` keeps the alert firing."""
    unknown_seconds: float | None = None
    unknown_reason: str = ""
    resolved_seconds: float | None = None
    recent_firings: tuple[float, ...] = ()
    """Times at which it began to fire, in the last 2 hours."""
    subject: str = ""
    """Key of its object: disk, array or file system; '': the host."""
    object: str = ""
    """The object's name for people."""
    adapter: str = ""
    """The SCSI host adapter of its disk."""
    count: int = 0
    """Number of its events; 0: it is an alert of a rule."""
    last_seconds: float | None = None
    """Time of the last of these events."""

    @property
    def key(self) -> tuple[Labels, str]:
        """Return its identity: two disks may have had the same name."""
        try:
            return self.known_key
        except AttributeError:
            return self.remember("known_key", key(self.labels, self.subject, self.count))

    def label(self, name: str) -> str:
        """Return a label's value, or ''."""
        return next((value for key, value in self.labels if key == name), "")

    def annotation(self, name: str) -> str:
        """Return an annotation's text, or ''."""
        return next((value for key, value in self.annotations if key == name), "")

    @property
    def summary(self) -> str:
        """Return its annotation 'summary', else its name and distinguishing labels."""
        own = [
            f"{name} {text}"
            for name, text in self.labels
            if name not in _SHOWN_ELSEWHERE and text not in self.object.split()
        ]
        shown = ", ".join(own[:MAX_SHOWN_LABELS]) + (", ..." if own[MAX_SHOWN_LABELS:] else "")
        return self.annotation("summary").strip() or self.name + (f" ({shown})" if shown else "")

    @property
    def severity(self) -> Severity:
        """Return the severity of its label; one higher if its array makes it more urgent."""
        try:
            return self.known_severity
        except AttributeError:
            own = severity(self.label("severity"))
            raised = Severity(min(own + bool(self.annotation(RAISED)), Severity.CRITICAL))
            return self.remember("known_severity", raised)

    @property
    def active(self) -> bool:
        """Whether it is firing, or was when its data source became unreadable."""
        return self.state in (AlertState.FIRING, AlertState.UNKNOWN)


def same(before: Sequence[object], after: Sequence[object]) -> bool:
    """Whether two lists hold the very same objects: what was made of them is still true."""
    return len(before) == len(after) and all(map(operator.is_, before, after))


def key(labels: Labels, subject: str, count: int) -> tuple[Labels, str]:
    """Return the identity of an alert; for events without severity, which may rise.

    `count` is the number of events, 0 for a rule's alert.
    """
    if not count:
        return labels, subject
    return tuple(pair for pair in labels if pair[0] != "severity"), subject


def severity(label: str) -> Severity:
    """Return the severity of a label 'severity'; an unknown one counts as a warning."""
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
    before: AlertState


class DuplicateAlertError(Exception):
    """Two results of one rule have the same labels: an error, as in Prometheus."""


Alerts = dict["Labels", Alert]


def matched(
    rule: Rule,
    results: Sequence[Sample],
    query: Callable[[str], list[Sample]],
    external_labels: Mapping[str, str] | None = None,
    external_url: str = "",
    steps: Steps | None = None,
) -> dict[Labels, tuple[float, tuple[tuple[str, str], ...]]]:
    """Return for each alert identity of a rule's results its value and expanded annotations.

    The work on all texts, and their characters, are taken from `steps`; without it each text has
    its own limit. Errors: DuplicateAlertError; RegexError when no step is left.
    """
    found: dict[Labels, tuple[float, tuple[tuple[str, str], ...]]] = {}
    external = (external_labels, external_url)
    for sample in results:
        labels = dict(sample.labels)
        # A template has the metric's name if the expression retained it; an alert never has it.
        own = labels | ({"__name__": sample.name} if sample.name else {})
        for name, template in rule.labels:
            labels[name] = template.render(own, sample.value, query, *external, steps)
        labels["alertname"] = rule.alert
        identity = tuple(sorted((k, v) for k, v in labels.items() if v))
        if identity in found:
            raise DuplicateAlertError(
                f"'{rule.file}':{rule.line}: alert '{rule.alert}': expected results with different"
                f" labels, got two with {dict(identity)}; add a label or aggregate"
            )
        # A line end in a name would be one in the advice, and what follows a command to copy.
        shown = {label: safe_name(text) for label, text in own.items()}
        texts = tuple(
            (name, template.render(shown, sample.value, query, *external, steps))
            for name, template in rule.annotations
        )
        if steps is not None:
            steps.spend(sum(len(text) for _, text in (*identity, *texts)))
        found[identity] = (sample.value, texts)
    return found


def next_alerts(
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
        if before is None or before.state is AlertState.RESOLVED:
            old = AlertState.INACTIVE
            recent = () if before is None else before.recent_firings
            alert = Alert(
                rule.alert, identity, AlertState.PENDING, value, texts, now, recent_firings=recent
            )
        else:
            old = before.state
            alert = replace(
                before,
                value=value,
                annotations=texts,
                absent_seconds=None,
                unknown_seconds=None,
                unknown_reason="",
            )
            if old is AlertState.UNKNOWN:
                alert = replace(alert, state=AlertState.FIRING)
        if alert.state is AlertState.PENDING and now - alert.active_seconds >= rule.for_seconds:
            recent = (*alert.recent_firings, now)
            alert = replace(
                alert, state=AlertState.FIRING, fired_seconds=now, recent_firings=recent
            )
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

    An unknown alert counts as what it was: firing.
    """
    samples: dict[tuple[str, Labels], float] = {}  # two disks may have had one name
    for alert in alerts:
        if alert.state is AlertState.RESOLVED:
            continue
        state = AlertState.PENDING if alert.state is AlertState.PENDING else AlertState.FIRING
        samples["ALERTS", with_state(alert.labels, state)] = 1.0
        samples["ALERTS_FOR_STATE", alert.labels] = alert.active_seconds
    return [(*key, value) for key, value in samples.items()]


def with_state(labels: Labels, state: AlertState) -> Labels:
    """Return labels of an alert and its state, which takes the place of a label 'alertstate'.

    A rule on ALERTS has one, and a scrape with a duplicate label is rejected as a whole.
    """
    others = (pair for pair in labels if pair[0] != "alertstate")
    return tuple(sorted((*others, ("alertstate", state.value))))


def identity(alert: Alert) -> Labels:
    """Return the labels by which a Prometheus knows a shipped rule's alert: those of its object.

    Without what changes while it lasts; a disk's has its identity by serial number as `object`.
    Other rules' alerts have a condition of their own and all their labels.
    """
    if not alert.label("condition"):
        return alert.labels
    own = [pair for pair in alert.labels if pair[0] not in _NOT_IDENTITY]
    if alert.subject and not alert.label("object"):
        own.append(("object", alert.subject))
    return tuple(sorted(own))


def exported(alerts: Iterable[Alert]) -> tuple[list[Alert], int]:
    """Return the alerts that a scrape shows, the worst first, and the number of the others.

    Limits: MAX_EXPORTED. An alert that has been resolved is neither.
    """
    active = [alert for alert in alerts if alert.state is not AlertState.RESOLVED]
    if len(active) > MAX_EXPORTED:
        active.sort(key=lambda alert: (not alert.active, -alert.severity, alert.active_seconds))
    return active[:MAX_EXPORTED], len(active[MAX_EXPORTED:])


def silence(alert: Alert, reason: str, now: float) -> Alert:
    """Return a firing alert as unknown: its data source is unreadable; any other unchanged."""
    if alert.state is not AlertState.FIRING:
        return alert
    return replace(alert, state=AlertState.UNKNOWN, unknown_seconds=now, unknown_reason=reason)


def _missing(rule: Rule, before: Alert, now: float) -> tuple[Alert | None, Transition | None]:
    """Return the next state of an alert whose condition is false by good data."""
    if before.state is AlertState.PENDING:
        kept = replace(before, state=AlertState.RESOLVED, resolved_seconds=now)
        # Only alerts that have fired are retained: recent firings count as repetitions.
        return (kept if before.recent_firings else None), None
    if before.state is AlertState.RESOLVED:
        over = now - (before.resolved_seconds or now) >= RESOLVED_RETENTION_SECONDS
        return (None if over and not before.recent_firings else before), None
    missed = now if before.absent_seconds is None else before.absent_seconds
    if now - missed < rule.keep_firing_for_seconds:
        kept = replace(
            before,
            state=AlertState.FIRING,
            absent_seconds=missed,
            unknown_seconds=None,
            unknown_reason="",
        )
        changed = before.state is not AlertState.FIRING
        return kept, (Transition(kept, before.state) if changed else None)
    resolved = replace(
        before,
        state=AlertState.RESOLVED,
        resolved_seconds=now,
        absent_seconds=None,
        unknown_seconds=None,
        unknown_reason="",
    )
    return resolved, Transition(resolved, before.state)


def _forget_old(alert: Alert, now: float) -> Alert:
    if alert.recent_firings and alert.recent_firings[0] <= now - RECENT_SECONDS:
        recent = tuple(at for at in alert.recent_firings if at > now - RECENT_SECONDS)
        return replace(alert, recent_firings=recent)
    return alert
