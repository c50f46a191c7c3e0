"""Reply of the control socket about tuning: findings, and effects of changed settings. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.daemon.control import documents
from iowarden.daemon.views import answers
from iowarden.rules.advice.advice import advice_of
from iowarden.rules.alerting.alerts import AlertState
from iowarden.rules.tuning.tunings import TUNINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iowarden.daemon.views.answers import ViewInputs
    from iowarden.rules.advice.facts import Facts
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.notice import Evidence
    from iowarden.rules.tuning.setting_changes import Effect, Mean, SettingChange, SettingChanges

MAX_FINDINGS = 100
"""Of a host with hundreds of equal devices; the answer of the control socket has a limit."""
_CONDITIONS = frozenset(map(str, TUNINGS))


def answer(
    known: ViewInputs,
    changes: SettingChanges,
    facts: Callable[[], Facts],
    measured: Callable[[list[Alert]], Iterable[Evidence]],
) -> documents.TuningAdvice:
    """Return the alerts about tuning, and what came of settings that changed.

    `facts` is what advice depends on, `measured` returns the present values behind alerts.
    """
    found = answers.shown_alerts(known, _is_tuning)
    known_facts = facts() if found else None
    return documents.TuningAdvice(
        findings=tuple(
            documents.TuningFinding(
                alert=line,
                condition=dict(alert.labels).get("condition", ""),
                description=alert.annotation("description").strip(),
                evidence=tuple(f"{each.source}: {each.text}" for each in measured([alert])),
                advice=advice_of(alert, known_facts),
                unknown=alert.annotation("unknown").strip(),
                source=alert.annotation("source"),
            )
            for alert, line in found[:MAX_FINDINGS]
            if known_facts is not None
        ),
        changes=_changes(known, changes),
        omitted=max(0, len(found) - MAX_FINDINGS),
        observed_seconds=known.now - known.started_seconds,
    )


def _is_tuning(alert: Alert) -> bool:
    states = (AlertState.FIRING, AlertState.UNKNOWN)
    return alert.state in states and alert.label("condition") in _CONDITIONS


def _changes(known: ViewInputs, changes: SettingChanges) -> tuple[documents.SettingChangeLine, ...]:
    ordered: Sequence[SettingChange] = [*reversed(changes.changes)]
    return tuple(
        documents.SettingChangeLine(
            at_seconds=known.realtime(each.at_seconds),
            setting=each.setting.name,
            device=next((value for _, value in each.labels), ""),
            old=each.old,
            new=each.new,
            effects=tuple(map(_effect, changes.effects(each, known.now))),
        )
        for each in ordered
    )


def _effect(effect: Effect) -> documents.SignalEffect:
    def value(mean: Mean) -> float | None:
        return mean.mean if mean.seconds else None

    return documents.SignalEffect(
        signal=effect.metric,
        labels=dict(effect.labels),
        before=value(effect.before),
        before_seconds=effect.before.seconds,
        after=value(effect.after),
        after_seconds=effect.after.seconds,
        verdict=effect.verdict,
    )
