"""Rule evaluation: which groups are due, their results, and which alerts become unknown. Pure.

Of a rule whose data sources are not `ok` only what they cannot change is evaluated
(rules/engine/visibility.py). Units: seconds of the program's clock (Unix time that never jumps).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Labels, Sample, trace
from iowarden.rules import scrape_labels
from iowarden.rules.alerting import alerts as life
from iowarden.rules.alerting import results
from iowarden.rules.engine import loaded_rules
from iowarden.rules.engine.loaded_rules import RECENT, LoadedRule
from iowarden.rules.promql.automaton import RegexError, Steps
from iowarden.rules.promql.errors import EvaluationError, TooExpensiveError
from iowarden.rules.promql.run import MAX_WORK, Budget
from iowarden.rules.rulefile.rulefile import RecordingRule, Rule
from iowarden.rules.topology import alert_subject

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

    from iowarden.rules.engine.device_tracker import DeviceTracker
    from iowarden.rules.engine.queries import Queries
    from iowarden.rules.engine.sample_hub import SampleHub
    from iowarden.rules.engine.visibility import Visibility
    from iowarden.rules.promql import evaluator
    from iowarden.rules.rulefile.rulefile import RuleGroup

FORGOTTEN_SECONDS = 86_400.0
"""An alert whose object has been away for a day is dropped without being resolved."""
EXPENSIVE_SECONDS = 300.0
"""A rule that was too expensive is not evaluated for so long, because it would cost as much
again."""
EXPENSIVE_WORK = MAX_WORK // 10
"""Minimum cost of such a rule: another one may only have been last in its round."""
OWN_WORK = MAX_WORK // 10
"""Cost of the user's rules in one tick, after which the others wait for the next one: the shipped
rules and the loop do not wait for them. What a rule costs beyond it is taken from the next ticks,
so that their mean stays below it."""
RULE_WORK = MAX_WORK // 2
"""Maximum cost of a single rule of the user: the loop waits for it, 1 s on a slow core. The texts
of an alert for each of 480 disks fit."""
RULE_COST, RESULT_COST, CHARACTER_COST = 500, 1000, 10
"""For evaluating a rule of the user at all, for each of its alerts or recorded series, and for each
character of their labels and annotations, in units of cost."""
_ALERTS = frozenset(("ALERTS", "ALERTS_FOR_STATE"))

ALERT_FAMILIES = (
    Family(
        "iowarden_alerts",
        "gauge",
        "1 for each alert that is pending, firing or unknown, and each storage event of at least"
        " warning severity.",
    ),
    Family(
        "iowarden_alerts_dropped",
        "gauge",
        "Alerts that are not in iowarden_alerts, because a host has at most 1,000 there.",
    ),
    Family(RECENT, "gauge", "Times the alert started to fire in the last 2 hours."),
)
RULE_FAMILIES = (
    Family("iowarden_rules", "gauge", "Number of loaded alerting and recording rules."),
    Family(
        "iowarden_rule_evaluation_failures_total",
        "counter",
        "Evaluations of the rule that ended in an error.",
    ),
    Family(
        "iowarden_rule_evaluation_delay_seconds",
        "gauge",
        "How far the user's rules in a file are behind their intervals: those that are latest.",
    ),
    Family(
        "iowarden_rule_evaluation_failing",
        "gauge",
        "1 while the last evaluation of the rule ended in an error.",
    ),
)


OVER_WHEN_REMOVED = "over_when_removed"
"""Annotation of alerts that end with their device: 'true'. A snapshot that is lost or full is
repaired by its removal, which is always a command; an array that is gone may be stopped or lost."""


class RuleEvaluator:
    """The loaded rules and their alerts."""

    def __init__(
        self,
        hub: SampleHub,
        devices: DeviceTracker,
        visibility: Visibility,
        queries: Queries,
    ) -> None:
        """Start without rules."""
        self._hub = hub
        self._devices = devices
        self.visibility = visibility
        self._queries = queries
        self._groups: list[loaded_rules.LoadedGroup] = []
        self._rules: list[LoadedRule] = []
        self._names: tuple[str, ...] = ()
        self._orphans: dict[tuple[Labels, str], life.Alert] = {}
        """Alerts of disks whose device name has changed or is missing."""
        self._failures: dict[str, int] = {}
        self._problems: dict[LoadedRule, str] = {}
        """Error of the last evaluation of each failing rule."""
        self._budget = Budget()
        """Of the shipped rules that are due now and their templates: the loop waits for all of
        them. Each rule of the user has one of its own."""
        self._own_work: float = OWN_WORK
        self._own_since = -math.inf
        """What the user's rules might cost at that time; negative: they exceeded it."""
        self._delays: dict[str, float] = {}
        """How late the rules of each file of the user are, in seconds."""
        self._about_rules: object = None
        """What `_rule_samples` were made of; None: not made yet."""
        self._rule_samples: list[Sample] = []
        self._restored = False
        """Whether the alerts of before the restart are still to be restored."""
        self._reads_alerts = self._alerts_changed = False
        self.events: Sequence[life.Alert] = ()
        """Storage events of unresolved incidents: published with the alerts of rules."""
        self._samples_of: list[object] = []
        """What `_alert_samples` were made of."""
        self._alert_samples = self._of_alerts((), ())

    # --- loaded rules

    def load(
        self, groups: Sequence[RuleGroup], now: float, default_interval_seconds: float
    ) -> list[life.Alert]:
        """Replace the rules; the alerts of rules that stay keep their state.

        Returns the alerts whose rule was removed.
        """
        kept, before = self.alerts(), [rule.key for rule in self._rules]
        self._orphans = {}
        self._groups = loaded_rules.load(groups, now, default_interval_seconds)
        self._rules = [rule for group in self._groups for rule in group.rules]
        self._names = tuple(dict.fromkeys(rule.name for rule in self._rules))
        self.visibility.load(self._rules)
        self._hub.load([each.rule.expression for each in self._rules], now)
        for key in before:  # the other rules apply from now on
            self._hub.store.write(key, now, ())
        self._reads_alerts = any(map(self._hub.wants, _ALERTS))
        self._problems = {}
        self._about_rules = None
        return self.restore(kept)

    def restore(self, alerts: Iterable[life.Alert]) -> list[life.Alert]:
        """Restore the alerts of the rules; return those whose rule is no longer loaded."""
        left = []
        self._restored = True
        for alert in alerts:
            rule = self._rule_of(alert)
            if rule is None:
                left.append(alert)
                continue
            own = rule.alerts.setdefault(alert.labels, alert)
            if own.subject != alert.subject:  # two disks that shared a name
                self._orphans[alert.key] = alert
        return left

    def _rule_of(self, alert: life.Alert) -> LoadedRule | None:
        return next((rule for rule in self._rules if rule.owns(alert)), None)

    def __len__(self) -> int:
        """Return how many rules are loaded."""
        return len(self._rules)

    def expected(self) -> list[dict[str, str]]:
        """Return the labels that are certain for the alerts of each rule."""
        return [
            {
                "alertname": each.name,
                **({"severity": severity} if (severity := each.severity) else {}),
                **({} if (condition := each.condition) is None else {"condition": condition}),
            }
            for each in self._rules
            if isinstance(each.rule, Rule)
        ]

    @property
    def problems(self) -> dict[str, str]:
        """Return the error of each failing rule, by its name, which other rules may share."""
        return {rule.name: problem for rule, problem in self._problems.items()}

    def is_failing(self, rule: LoadedRule) -> bool:
        """Return whether the last evaluation of this rule failed."""
        return rule in self._problems

    def groups(self) -> list[loaded_rules.LoadedGroup]:
        """Return the loaded groups, in the order of evaluation."""
        return list(self._groups)

    def alerts(self) -> list[life.Alert]:
        """Return every alert that is pending, firing, unknown or recently resolved."""
        own = [alert for rule in self._rules if rule.alerts for alert in rule.alerts.values()]
        return [*own, *self._orphans.values()]

    def is_observable(self, labels: Labels, subject: str) -> bool:
        """Return whether an alert with these labels and subject would fire now if it were true.

        False while a data source of its rule has no data, or while the subject is absent.
        """
        about_disk = subject.startswith("disk ") or any(name == "object" for name, _ in labels)
        by_name = about_disk and not alert_subject.by_place(labels)
        if by_name and not self._devices.present(subject):
            return False
        if subject.startswith("disk "):  # it is present, perhaps under another name
            labels = tuple(pair for pair in labels if pair[0] != "device")
        known = False
        before = life.severity(dict(labels).get("severity", ""))
        for rule in self._rules:
            if isinstance(rule.rule, Rule) and ("alertname", rule.name) in labels:
                # An alert whose severity was lowered would not be notified if it fired.
                own = rule.severity
                known = known or own is None or life.severity(own) >= before
                if _ends_with_device(rule.rule) and self.visibility.unlisted(rule, labels):
                    continue
                if self.visibility.silent(rule):
                    return False
                if self.visibility.out_of_sight(rule, labels) is not None:
                    return False
        return known  # not known without a loaded rule

    def current(self, alert: life.Alert) -> list[Sample]:
        """Return the current values of the metrics in its annotation 'evidence', or of its rule.

        The annotation names metrics, or selectors without blanks and commas: 'x{id=~"5|197"}'. Of a
        metric that has one of the alert's labels (a device, a host adapter), or names its object,
        only the alert's own series.
        """
        rule = self._rule_with(alert)
        if rule is None and not alert.count:
            return []
        own = dict(alert.labels)
        named = alert.annotation("evidence").replace(",", " ").split()
        return [
            sample
            for name in named or (sorted(rule.metrics) if rule else ())
            for sample in self._queries.selected(name, own.get("device"))
            if _is_about(sample[1], own)
        ]

    def expression(self, alert: life.Alert) -> str:
        """Return the expression of the rule of an alert; '' if it has none (any longer)."""
        rule = self._rule_with(alert)
        return "" if rule is None else rule.rule.expression.text

    def _rule_with(self, alert: life.Alert) -> LoadedRule | None:
        return next(
            (r for r in self._rules if r.name == alert.name and alert.labels in r.alerts), None
        )

    # --- evaluation

    def hasten(self, group: str, now: float) -> None:
        """Make a group due at once."""
        for each in self._groups:
            if each.name == group:
                each.due_seconds = now

    def evaluate(self, now: float) -> list[life.Transition]:
        """Evaluate the rule groups that are due; return the alerts that changed their state."""
        changes: list[life.Transition] = []
        self._budget = Budget()
        if self._restored:
            self._restored = False
            self._feed_alerts(now)
        due = [group for group in self._groups if group.is_due(now)]
        for group in due:
            if group.is_shipped:
                for rule in group.rules:
                    self._budget = Budget()  # what one costs with many alerts is no other's fault
                    changes += self._evaluate_and_feed(rule, now)
                group.ended(now)
        changes += self._evaluate_own([group for group in due if not group.is_shipped], now)
        self._delays = loaded_rules.delays_by_file(self._groups, now)
        if due:
            changes += self._settle_orphans(now)
            self._publish(now)
        return changes

    def _evaluate_own(
        self, groups: list[loaded_rules.LoadedGroup], now: float
    ) -> list[life.Transition]:
        """Evaluate rules of the user up to OWN_WORK, first the group that has waited longest.

        The rest follows in the next ticks, so that however many there are each has its turn. How
        late they are changes nothing about that.
        """
        changes: list[life.Transition] = []
        passed = max(0.0, now - self._own_since)
        self._own_work = min(self._own_work + OWN_WORK * passed, OWN_WORK)
        self._own_since = now
        for group in sorted(groups, key=lambda each: each.last_seconds):
            group.wait(now)
            while self._own_work > 0 and group.position < len(group.rules):
                self._budget = Budget(RULE_WORK)
                changes += self._evaluate_and_feed(group.rules[group.position], now)
                self._own_work -= RULE_COST + RULE_WORK - max(0, self._budget.left)
                group.position += 1
                group.last_seconds = now
            if group.position == len(group.rules):
                group.ended(now)
        return changes

    def _evaluate_and_feed(self, rule: LoadedRule, now: float) -> list[life.Transition]:
        """Evaluate a rule; one that reads alerts sees those of the rules before it."""
        expression = rule.rule.expression
        if self._alerts_changed and (expression.reads_any or expression.names & _ALERTS):
            self._feed_alerts(now)
        if self._is_still_empty(rule, now):  # after the alerts are fed, as it may read them
            return []
        before = self._states(rule)
        try:
            changes = self._evaluate(rule, now)
        except Exception as error:  # noqa: BLE001 - the other rules must be evaluated all the same
            self._failed(rule, f"bug: {trace(error)}")
            return []
        self._alerts_changed = self._alerts_changed or self._states(rule) != before
        return changes

    def _is_still_empty(self, rule: LoadedRule, now: float) -> bool:
        """Whether a rule that found nothing, and has no alerts, would find nothing again.

        That from which it follows is the same as when it was evaluated last, and no other state
        depends on the evaluation: without an alert there is no `for` to pass, no alert to resolve,
        and none that a failed data source could make unknown.
        """
        return (
            rule.empty_version is not None
            and not rule.alerts
            and not self._hub.store.changed(rule.empty_by, rule.empty_version, now)
        )

    def _failed(self, rule: LoadedRule, problem: str) -> None:
        self._failures[rule.name] = self._failures.get(rule.name, 0) + 1
        self._problems[rule] = problem

    def _states(self, rule: LoadedRule) -> dict[Labels, life.AlertState]:
        """Return the alert states of a rule, if any rule reads ALERTS."""
        if not self._reads_alerts:
            return {}
        return {key: alert.state for key, alert in rule.alerts.items()}

    def _feed_alerts(self, now: float) -> None:
        """Feed ALERTS to the rules, also to those evaluated later in the same round.

        Not on '/metrics', where they would collide with those of the Prometheus that scrapes it.
        Source: Prometheus, rules/group.go: the result of a rule is appended before the next one is
        evaluated.
        """
        self._alerts_changed = False
        self._hub.feed("ALERTS", life.series(self.alerts()), now)

    def _evaluate(self, loaded: LoadedRule, now: float) -> list[life.Transition]:
        return [*self._end_removed(loaded, now), *self._evaluate_listed(loaded, now)]

    def _end_removed(self, loaded: LoadedRule, now: float) -> list[life.Transition]:
        """End the alerts that end with their device, whether its collector has data or not."""
        if isinstance(loaded.rule, RecordingRule) or not _ends_with_device(loaded.rule):
            return []
        removed = {
            key: alert
            for key, alert in loaded.alerts.items()
            if alert.active and self.visibility.unlisted(loaded, alert.labels)
        }
        if not removed:
            return []
        at_once = replace(loaded.rule, keep_firing_for_seconds=0.0)
        stepped, changes = life.next_alerts(at_once, removed, {}, now)
        others = {key: alert for key, alert in loaded.alerts.items() if key not in removed}
        loaded.alerts = {**others, **stepped}
        return changes

    def _evaluate_listed(self, loaded: LoadedRule, now: float) -> list[life.Transition]:
        rule = loaded.rule
        silent = self.visibility.silent(loaded)
        # Without an alert to protect, unknown data are simply absent.
        active = any(alert.active for alert in loaded.alerts.values())
        blind = self.visibility.blind(loaded) if active else frozenset[str]()
        expression, reason = rule.expression, ""
        if is_partial := bool(silent or blind):
            reason = "; ".join(self.visibility.lost(silent, blind, now))
            part = self.visibility.certain(loaded, silent, blind)
            if part is None:
                return _silence(loaded.alerts, reason, now)
            expression = part
        if now < loaded.left_until:
            return []
        before = self._budget.left
        loaded.empty_version = None
        version = self._hub.store.version
        try:
            result, empty_by = expression.explained(
                self._hub.store, now, step_seconds=loaded.step_seconds, budget=self._budget
            )
            samples = results.vector(result)
            if not loaded.is_shipped:
                self._charge_results(
                    len(samples), "series" if isinstance(rule, RecordingRule) else "alerts"
                )
            if isinstance(rule, RecordingRule):
                results.within(loaded.limit, len(samples), "series")
                self._hub.store.write(loaded.key, now, results.recorded(rule, samples))
                self._problems.pop(loaded, None)
                if not is_partial:
                    loaded.found(samples, version, empty_by)
                return []
            found = self._found(loaded, rule, samples, now)
            results.within(loaded.limit, len(found), "alerts")
        except (EvaluationError, life.DuplicateAlertError) as error:
            spent = before - self._budget.left
            if isinstance(error, TooExpensiveError) and spent > EXPENSIVE_WORK:
                loaded.left_until = now + EXPENSIVE_SECONDS
            self._failed(loaded, str(error))
            return []
        self._problems.pop(loaded, None)
        changes = self._part_with_others(loaded, now)
        if is_partial:
            lost = frozenset(status.source.name for status in silent)
            gone = {k: alert for k, alert in loaded.alerts.items() if k not in found}
            if any(alert.active for alert in gone.values()):
                possible = self._possible(loaded, lost, blind, now)
                gone = {k: alert for k, alert in gone.items() if possible is None or k in possible}
            more = _silence(gone, reason, now)
        else:
            loaded.found(samples, version, empty_by)
            gone, more = self._split_gone(loaded, found.keys(), now)
        present = {k: alert for k, alert in loaded.alerts.items() if k not in gone}
        if self.visibility.unwatched(loaded, now):
            rule = replace(rule, for_seconds=math.inf)  # pending until the window is filled
        stepped, further = life.next_alerts(rule, present, found, now)
        ended = life.AlertState.INACTIVE
        gone = {k: alert for k, alert in gone.items() if alert.state is not ended}
        loaded.alerts = {**gone, **stepped}
        return [*changes, *more, *self._named(loaded, further)]

    def _charge_results(self, count: int, what: str) -> None:
        """Take the cost of alerts or series before they exist. Errors: TooExpensiveError."""
        if RESULT_COST * count > self._budget.left:
            raise TooExpensiveError(
                f"too expensive: {count:,} {what}, and a rule may have"
                f" {RULE_WORK // RESULT_COST:,}; aggregate, or select less"
            )
        self._budget.left -= RESULT_COST * count

    def _found(
        self, loaded: LoadedRule, rule: Rule, samples: list[evaluator.Sample], now: float
    ) -> dict[Labels, tuple[float, tuple[tuple[str, str], ...]]]:
        """Return the alerts with their texts. Errors: DuplicateAlertError, TooExpensiveError."""

        def query(text: str) -> list[evaluator.Sample]:
            return self._queries.query(text, now, self._budget)

        if loaded.is_shipped:
            return life.matched(rule, samples, query)
        steps = Steps(max(0, self._budget.left) // CHARACTER_COST)
        available = steps.left
        try:
            found = life.matched(rule, samples, query, steps=steps)
            if self._budget.left < 0:
                raise TooExpensiveError(
                    "too expensive: the queries in the labels and annotations of its alerts;"
                    " query less, or select fewer alerts"
                )
            return found
        except RegexError:
            raise TooExpensiveError(
                "too expensive: the labels and annotations of a rule's alerts may have"
                f" {RULE_WORK // CHARACTER_COST:,} characters and steps of regular expressions"
                " together; shorten the templates, or select less"
            ) from None
        finally:
            self._budget.left -= CHARACTER_COST * (available - steps.left)

    def _named(
        self, rule: LoadedRule, changes: Iterable[life.Transition]
    ) -> Iterator[life.Transition]:
        """Give new alerts the subject that they keep as long as they exist."""
        for change in changes:
            alert = change.alert
            if change.before is not life.AlertState.INACTIVE or alert.subject:
                yield change
                continue
            own = self._devices.subject(alert.labels)
            alert = replace(alert, subject=own.key, object=own.object, adapter=own.adapter)
            rule.alerts[alert.labels] = alert
            yield replace(change, alert=alert)

    def _part_with_others(self, rule: LoadedRule, now: float) -> list[life.Transition]:
        """Set aside the active alerts of a disk that has lost its device name."""
        changes: list[life.Transition] = []
        for key, alert in list(rule.alerts.items()):
            # An alert with a disk's own label stays with the disk whatever its name is; one of a
            # controller's slot is resolved when the slot is in order, whichever disk is in it.
            if not alert.active or not alert.subject.startswith("disk ") or alert.label("disk"):
                continue
            if alert_subject.by_place(key):
                continue
            own = self._devices.named(key)
            replaced = own.key.startswith("disk ")
            if own.key == alert.subject or not (replaced or self._devices.present(alert.subject)):
                continue
            what = (
                f"was removed; {own.object} has its name now"
                if replaced
                else "has another device name now"
            )
            after = life.silence(alert, f"{alert.object} {what}", now)
            del rule.alerts[key]
            self._orphans[after.key] = after
            if after is not alert:
                changes.append(life.Transition(after, alert.state))
        return changes

    def _settle_orphans(self, now: float) -> list[life.Transition]:
        """End the alerts of disks that returned, under any name, or that are dropped."""
        changes: list[life.Transition] = []
        known = self._devices.topology is not None
        self._devices.forget_taken_out()
        for key, alert in list(self._orphans.items()):
            if alert.state is life.AlertState.RESOLVED:  # the incidents have processed it by now
                del self._orphans[key]
                continue
            since = alert.unknown_seconds if alert.unknown_seconds is not None else now
            ended = self._rule_of(alert) is None or alert.subject in self._devices.taken_out
            if ended or now - since > FORGOTTEN_SECONDS:
                after = replace(alert, state=life.AlertState.INACTIVE, resolved_seconds=now)
            elif known and self._devices.present(alert.subject):
                # It is evaluated under its new name from here on.
                after = replace(alert, state=life.AlertState.RESOLVED, resolved_seconds=now)
            else:
                continue
            del self._orphans[key]
            if after.state is life.AlertState.RESOLVED:
                self._orphans[key] = after
            changes.append(life.Transition(after, alert.state))
        return changes

    def _split_gone(
        self, rule: LoadedRule, found: Container[Labels], now: float
    ) -> tuple[life.Alerts, list[life.Transition]]:
        """Return the active alerts whose object is no longer listed or could not be read.

        They become unknown, because no data show that they are resolved.
        """
        gone: life.Alerts = {}
        changes: list[life.Transition] = []
        for key, alert in rule.alerts.items():
            if not alert.active or key in found:
                continue
            reason = self.visibility.unknown(rule, alert, now)
            if reason is None or self._is_over(rule, alert, now):
                continue
            gone[key] = alert
            if not reason:
                continue
            gone[key] = after = life.silence(alert, reason, now)
            since = after.unknown_seconds
            if since is not None and (
                now - since > FORGOTTEN_SECONDS or alert.subject in self._devices.taken_out
            ):
                ended = replace(after, state=life.AlertState.INACTIVE, resolved_seconds=now)
                gone[key] = ended
                changes.append(life.Transition(ended, after.state))
            elif after is not alert:
                changes.append(life.Transition(after, alert.state))
        return gone, changes

    def _is_over(self, rule: LoadedRule, alert: life.Alert, now: float) -> bool:
        """Whether an alert has ended whatever the data that cannot be read would show.

        A disk that was slow by the kernel's counters is not, whether SMART can be read or not.
        """
        unreadable = self.visibility.unreadable(rule, alert, now)
        possible = self._possible(rule, unreadable, unreadable, now) if unreadable else None
        return possible is not None and alert.labels not in possible

    def _possible(
        self, loaded: LoadedRule, lost: Collection[str], blind: Collection[str], now: float
    ) -> Container[Labels] | None:
        """Return the alerts that a rule may have whatever is missing, None: any."""
        part = self.visibility.possible(loaded, lost, blind)
        if part is None or not isinstance(loaded.rule, Rule):
            return None
        try:
            result, _ = part.explained(
                self._hub.store, now, step_seconds=loaded.step_seconds, budget=self._budget
            )
            return self._found(loaded, loaded.rule, results.vector(result), now).keys()
        except (EvaluationError, life.DuplicateAlertError):
            return None

    def _publish(self, now: float) -> None:
        """Publish the series of alerts and rules."""
        alerts = self.alerts()
        everything = [*alerts, *self.events]
        of = [*everything, self._hub.targets]
        if not life.same(of, self._samples_of):
            self._samples_of, self._alert_samples = of, self._of_alerts(alerts, everything)
        self._hub.publish("alerts", ALERT_FAMILIES, self._alert_samples, now)
        self._feed_alerts(now)
        delays = tuple(self._delays.items())
        about_rules = (tuple(self._failures.items()), tuple(self.problems), delays)
        if about_rules != self._about_rules:
            self._about_rules, self._rule_samples = about_rules, self._samples()
        self._hub.publish("rules", RULE_FAMILIES, self._rule_samples, now)

    def _of_alerts(
        self, alerts: Iterable[life.Alert], everything: Iterable[life.Alert]
    ) -> list[Sample]:
        """Return the samples of ALERT_FAMILIES, given the alerts of rules, and with the events."""
        recent: dict[Labels, float] = {}
        states: dict[Labels, None] = {}  # two disks that shared a name may have equal labels
        shown, dropped = life.exported(everything)
        for alert in shown:
            own = life.with_state(life.identity(alert), alert.state)
            states[scrape_labels.without(own, self._hub.targets)] = None
        for alert in alerts:
            if alert.recent_firings:
                own = scrape_labels.without(alert.labels, self._hub.targets)
                recent[own] = float(len(alert.recent_firings))
        samples: list[Sample] = [("iowarden_alerts", labels, 1.0) for labels in states]
        samples.append(("iowarden_alerts_dropped", (), float(dropped)))
        samples += [(RECENT, labels, count) for labels, count in recent.items()]
        return samples

    def _samples(self) -> list[Sample]:
        """Return the samples of RULE_FAMILIES."""
        failures = [(name, float(self._failures.get(name, 0))) for name in self._names]
        problems = self.problems
        return [
            ("iowarden_rules", (), float(len(self._rules))),
            *(
                ("iowarden_rule_evaluation_delay_seconds", (("file", file),), seconds)
                for file, seconds in self._delays.items()
            ),
            *(
                ("iowarden_rule_evaluation_failures_total", (("rule", name),), count)
                for name, count in failures
            ),
            *(
                (
                    "iowarden_rule_evaluation_failing",
                    (("rule", name),),
                    float(name in problems),
                )
                for name, _ in failures
            ),
        ]


def _ends_with_device(rule: Rule) -> bool:
    """Whether alerts of a rule are over when the kernel no longer lists their device."""
    return any(name == OVER_WHEN_REMOVED and one.text == "true" for name, one in rule.annotations)


def _is_about(labels: Labels, alert_labels: Mapping[str, str]) -> bool:
    """Whether a sample is about what an alert is about.

    The label 'object' of redundancy is a device, a file system, a pool, or 'controller array'.
    """
    pair = f"{alert_labels.get('controller')} {alert_labels.get('array')}"
    objects = (
        {alert_labels["object"]} if "object" in alert_labels else {*alert_labels.values(), pair}
    )
    return all(
        value in objects if label == "object" else alert_labels.get(label, value) == value
        for label, value in labels
    )


def _silence(alerts: life.Alerts, reason: str, now: float) -> list[life.Transition]:
    """Make a rule's firing alerts unknown: its data sources had no data for too long.

    Without a reason their last data are still valid.
    """
    changes: list[life.Transition] = []
    if not reason:
        return changes
    for key, alert in alerts.items():
        after = life.silence(alert, reason, now)
        if after is not alert:
            alerts[key] = after
            changes.append(life.Transition(after, alert.state))
    return changes
