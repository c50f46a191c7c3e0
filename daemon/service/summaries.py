"""Mails without an incident: the initial report, once, and the weekly digest of minor findings."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Outcome
from iowarden.daemon.views import answers
from iowarden.rules.advice import advice
from iowarden.rules.incidents import mailing, model, recurring
from iowarden.rules.notices import digest, drive_ages
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iowarden.daemon.clock import SystemClock
    from iowarden.daemon.config.schema import Config
    from iowarden.daemon.service.situation import IncidentContext
    from iowarden.rules.alerting.alerts import Alert, Transition
    from iowarden.rules.notice import Notice
    from iowarden.rules.topology import device_changes


@dataclass(slots=True)
class Summaries:
    """The content of the next digest, and whether this machine has had its initial report."""

    situation: IncidentContext
    clock: SystemClock
    config: Callable[[], Config]
    silenced: Callable[[Alert, float], bool]
    delivered: Callable[[], int]
    """Return how many mails were delivered since the start."""
    restriction: str = ""
    """A line about what this service does not read, because it may not."""
    state: digest.Digest = field(default_factory=digest.Digest)
    is_restored: bool = False
    """Whether state.db was read; before that it is not known what was mailed."""

    def restore(self, before: digest.Digest, *, is_state_lost: bool) -> None:
        """Restore the content of the next digest from the previous run."""
        merged = digest.merged(self.state, before)
        self.state = replace(merged, is_state_lost=merged.is_state_lost or is_state_lost)
        self.is_restored = True

    def initial_report(self, install: str) -> model.InitialReport | None:
        """Return the initial report, due or sent; None if there was none."""
        if self._arrived() and self.state.arrived_seconds is None:
            return None
        return model.InitialReport(
            digest.initial_report_identifier(install),
            self.state.arrived_seconds,
            lambda alert: digest.entry_key(alert) in self.state.advised,
            is_state_unknown=not self.is_restored,
        )

    def _arrived(self) -> bool:
        """Whether the initial report was sent, or is not wanted."""
        return self.state.arrived or not self.config().mail.initial_report

    def _is_report_due(self, now: float, running_seconds: float) -> bool:
        """Whether the initial report is to be made now: later if state.db may have one."""
        if not self.is_restored:
            return running_seconds >= digest.UNKNOWN_STATE_SECONDS
        polled = not answers.never_polled(self.situation.engine)
        return digest.initial_report_is_due(self.state, now, running_seconds, all_polled=polled)

    def take(
        self,
        changes: Sequence[Transition],
        seen: Sequence[device_changes.DeviceChange],
        now: float,
        usual: Callable[[Alert], str],
    ) -> None:
        """Add changed alerts and added or removed devices.

        An alert that recurs regularly appears in the digest only: `usual` returns why.
        """
        self.state = digest.next_digest(
            self.state,
            self._settled([self._usual(each, usual) for each in changes], now),
            seen,
            now,
            self.clock.date,
            lambda alert: self.silenced(alert, now),
        )

    def drop_removed_rules(self, changes: Sequence[Transition], now: float) -> None:
        """Add alerts that ended because their rule was removed."""
        self.state = digest.next_digest(self.state, changes, (), now, self.clock.date)

    def _settled(self, changes: list[Transition], now: float) -> list[Transition]:
        """Return changes with the advice of those for the digest rendered."""
        lesser = [c.alert.severity < Severity.WARNING and c.alert.active for c in changes]
        if not any(lesser):
            return changes
        known = self.situation.facts(now)
        return [
            replace(change, alert=advice.with_advice(change.alert, known)) if is_lesser else change
            for change, is_lesser in zip(changes, lesser, strict=True)
        ]

    def _usual(self, change: Transition, usual: Callable[[Alert], str]) -> Transition:
        """Return a change as one for the digest if its alert recurs regularly."""
        text = usual(change.alert)
        after = recurring.below_warning(change, text)
        return after if text or digest.entry_key(after.alert) in self.state.entries else change

    def initial_mail(
        self,
        present: Iterable[model.Incident],
        now: float,
        running_seconds: float,
        install: str,
    ) -> tuple[Notice, list[model.Incident]] | None:
        """Return the initial report if it is due, and the incidents that it is the first mail of.

        These are counted as mailed by it: what is decided here is stored with the report.
        `running_seconds` is the time since the program started.
        """
        engine, report = self.situation.engine, self.initial_report(install)
        if (
            report is None
            or report.seconds is not None
            or not self._is_report_due(now, running_seconds)
        ):
            return None
        everything = list(present)
        contained = [each for each in everything if mailing.in_report(each)]
        separate = [each for each in everything if each.firing and not mailing.in_report(each)]
        mounts = engine.last.filesystem
        silent = [s.source.name for s in engine.sources.values() if s.is_silent]
        known = self.situation.facts(now)
        self.state, notice = digest.initial_report(
            self.state,
            digest.InitialContent(
                contained,
                [each for each in separate if any(not m.silenced for m in each.members)],
                [advice.with_advice(each, known) for each in self.situation.alerts(now)],
                [
                    *digest.inventory(
                        engine.last.block,
                        None if mounts is None else len(mounts.usage),
                        silent,
                        answers.disks(engine),
                    ),
                    *([self.restriction] if self.restriction else []),
                ],
                is_state_unknown=not self.is_restored,
            ),
            install=install,
            now=now,
            realtime_seconds=self.clock.realtime(now),
        )
        return notice, [mailing.counted_by_report(each, report, now) for each in contained]

    def due(self, now: float, install: str) -> Notice | None:
        """Return the weekly digest, when it is due."""
        if not self._arrived():
            return None
        mail, engine = self.config().mail, self.situation.engine
        if not digest.due(self.state, now, mail.digest_seconds):
            return None
        good = sum(s.outcome() is Outcome.OK for s in engine.sources.values())
        heartbeat = (
            f"iowarden is running: {good} collectors read; {answers.disks(engine)};"
            f" mails delivered since it started: {self.delivered()}"
        )
        alerts = engine.rules.alerts()
        content = digest.WeeklyContent(
            heartbeat if mail.heartbeat else "",
            [*drive_ages.lines(engine.last.smart, drive_ages.failed_disks(alerts))],
            {digest.entry_key(a) for a in alerts if self.silenced(a, now)},
            {digest.entry_key(a): a.summary for a in alerts if a.active},
        )
        self.state, weekly = digest.weekly(
            self.state, content, now, self.clock.realtime, install=install
        )
        return weekly
