"""Why a rule cannot be evaluated now: missing data make an alert unknown, not resolved. Pure.

Of a rule whose data sources are not `ok`, only the part is evaluated that is true whatever they
would report (rules/engine/certain_part.py). Its other alerts become unknown once those data sources
have had no data for three of their periods; so does an alert whose object is no longer listed or
read. Units: seconds of the program's clock (Unix time that never jumps).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from iowarden.collectors.quantity import duration
from iowarden.rules.engine.certain_part import certain_part, possible_part
from iowarden.rules.engine.sample_hub import SETTLED_SECONDS
from iowarden.rules.promql.evaluator import compile_node
from iowarden.rules.promql.parser import parse
from iowarden.rules.rulefile.rulefile import RecordingRule
from iowarden.rules.signals import table as signals

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from iowarden.collectors.model import Labels
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.engine.loaded_rules import LoadedRule
    from iowarden.rules.engine.sample_hub import SampleHub
    from iowarden.rules.engine.signal_groups import SignalGroups
    from iowarden.rules.engine.source_status import SourceStatus
    from iowarden.rules.promql.ast import Node
    from iowarden.rules.promql.evaluator import Expression

_parsed = functools.lru_cache(maxsize=256)(parse)
"""At a start data sources become known one after the other: the same rules each time. The trees of
the shipped ones take 250 kB."""


@functools.lru_cache(maxsize=512)
def _certain(text: str, unknown: frozenset[str], partial: frozenset[str]) -> Node | None:
    """Return the certain part of an expression.

    'iowarden explain' evaluates each program's part of a text with rules of its own; what they
    need, and the text has not, is the same for all.
    """
    return certain_part(_parsed(text), unknown, partial)


FIRST_SECONDS = 600.0
"""For so long after a start an alert keeps its state without data: 500 drives are polled in
turn."""


class Visibility:
    """Which data sources and signals each rule needs, and whether they are available now."""

    def __init__(
        self,
        sources: Mapping[str, SourceStatus[Any]],
        groups: SignalGroups,
        hub: SampleHub,
        now: float,
    ) -> None:
        """Take the data to read, from `now` on; nothing of them is stored."""
        self._began_seconds = now
        self._all = sources
        self._groups = groups
        self._hub = hub
        self._sources: dict[LoadedRule, tuple[SourceStatus[Any], ...]] = {}
        self._signals: dict[LoadedRule, frozenset[str]] = {}
        self._sources_of: dict[str, frozenset[str]] = {}
        """The names of the data sources of each metric that rules read."""
        self._records: dict[str, list[LoadedRule]] = {}
        """Recording rules, by what they record."""

    def load(self, rules: Iterable[LoadedRule]) -> None:
        """Find the data sources and signals of other rules."""
        owners: dict[str, tuple[str, ...]] = {}
        for name, status in self._all.items():
            for family in status.source.families:
                owners[family.name] = (name,)
        for group in signals.GROUPS:
            present = [s for s in group.sources if s in self._all and not group.any_source]
            for family in group.families:
                owners[family.name] = tuple(present)
        prefixes = [(s.source.node_prefixes, n) for n, s in self._all.items()]
        signalled = {g.name: frozenset(f.name for f in g.families) for g in signals.GROUPS}

        self._sources, self._signals, self._sources_of, self._records = {}, {}, {}, {}
        for rule in rules:
            if isinstance(rule.rule, RecordingRule):
                self._records.setdefault(rule.name, []).append(rule)
            needed: set[str] = set()
            for metric in rule.metrics:
                if metric not in self._sources_of:
                    self._sources_of[metric] = frozenset(
                        owners[metric]
                        if metric in owners
                        else [name for own, name in prefixes if metric.startswith(own)][:1]
                    )
                needed |= self._sources_of[metric]
            self._sources[rule] = tuple(s for name, s in self._all.items() if name in needed)
            self._signals[rule] = frozenset(
                group for group, names in signalled.items() if not names.isdisjoint(rule.metrics)
            )

    def alerts_of(self, source: str) -> list[str]:
        """Return the names of the alerts whose rules read data of a data source."""
        return sorted(
            {
                rule.name
                for rule, statuses in self._sources.items()
                if not isinstance(rule.rule, RecordingRule)
                and any(status.source.name == source for status in statuses)
            }
        )

    def silent(self, rule: LoadedRule) -> list[SourceStatus[Any]]:
        """Return the data sources of a rule that should deliver data and do not."""
        return [status for status in self._sources[rule] if status.is_silent]

    def blind(self, rule: LoadedRule) -> frozenset[str]:
        """Return the signals of a rule that cannot be computed."""
        return self._signals[rule] & self._groups.blind

    def certain(
        self, rule: LoadedRule, silent: Sequence[SourceStatus[Any]], blind: frozenset[str]
    ) -> Expression | None:
        """Return the part of a rule that is true without these data sources and signals, if any."""
        missing = self._metrics_of(rule, {status.source.name for status in silent}, blind)
        if rule.certain is None or rule.certain[0] != missing:
            text = rule.rule.expression.text
            node = self._certain_node(rule, missing, frozenset())
            rule.certain = missing, None if node is None else compile_node(node, text)
        return rule.certain[1]

    def possible(
        self, rule: LoadedRule, lost: Collection[str], blind: Collection[str]
    ) -> Expression | None:
        """Return the part of a rule that is false only where it is, whatever is missing, if any.

        `lost` are names of data sources, `blind` those of signals. Not of a rule that reads
        recording rules, or needs more history than there is.
        """
        if not rule.rule.expression.names.isdisjoint(self._records):
            return None
        text = rule.rule.expression.text
        node = possible_part(_parsed(text), self._metrics_of(rule, lost, blind))
        return None if node is None else compile_node(node, text)

    def _metrics_of(
        self, rule: LoadedRule, sources: Collection[str], groups: Collection[str]
    ) -> frozenset[str]:
        """Return the metrics of a rule that need one of these data sources or signals."""
        signalled = {
            family.name
            for group in signals.GROUPS
            if group.name in groups
            for family in group.families
        }
        return frozenset(
            name
            for name in rule.metrics
            if name in signalled or not self._sources_of[name].isdisjoint(sources)
        )

    def _certain_node(
        self, rule: LoadedRule, missing: frozenset[str], readers: frozenset[str]
    ) -> Node | None:
        """Return the certain part of a rule; `readers`: the recording rules that read it."""
        unknown, partial = set(missing), set[str]()
        for name in rule.rule.expression.names & self._records.keys():
            records = self._records[name]
            if name not in readers and all(missing.isdisjoint(each.metrics) for each in records):
                continue
            # A rule without a certain part leaves its last series in the store.
            if name not in readers and all(
                self._certain_node(each, missing, readers | {name}) is not None for each in records
            ):
                partial.add(name)
            else:
                unknown.add(name)
        return _certain(rule.rule.expression.text, frozenset(unknown), frozenset(partial))

    def lost(
        self, silent: Sequence[SourceStatus[Any]], blind: frozenset[str], now: float
    ) -> list[str]:
        """Return which data sources or signals have no valid data any longer, as text."""
        lost = [
            f"{s.source.name} {s.outcome() or 'not polled yet'}"
            + (f": {s.reading.error}" if s.reading is not None and s.reading.error else "")
            for s in silent
            if not s.is_valid(now)
        ]
        lost += [
            f"the signals '{name}' cannot be computed yet from the data since the start"
            for name in sorted(blind)
            if not silent and self._groups.lost(name, now)
        ]
        return lost

    def out_of_sight(self, rule: LoadedRule, labels: Labels) -> str | None:
        """Return why a rule has no data about an object with these labels, or None.

        '': it was not polled yet.
        """
        unlisted = self.unlisted(rule, labels)
        if unlisted:
            return unlisted
        return next((reason for _, reason in self._unreadable_parts(rule, labels)), None)

    def unlisted(self, rule: LoadedRule, labels: Labels) -> str:
        """Return that the kernel no longer lists what these labels are about, else ''."""
        own, sources = dict(labels), self._sources[rule]
        for status in self._all.values():
            if status.source.lists is None or status.value is None:
                continue
            label, listed = status.source.lists
            known = own.get(label, "")
            # node_exporter's label 'device' of a file system is a path, not the name of a device.
            if not known or known.startswith("/") != (label == "mountpoint"):
                continue
            named = any(label in each.source.objects for each in sources)
            if named and known not in listed(status.value):
                return f"{label} '{known}' is no longer listed by the kernel"
        return ""

    def _unreadable_parts(self, rule: LoadedRule, labels: Labels) -> Iterator[tuple[str, str]]:
        """Yield the data sources and signals that could not read an object: names and reasons."""
        own = dict(labels)
        unreadable = [
            (status.source.name, status.source.unreadable(status.value))
            for status in self._sources[rule]
            if status.source.unreadable is not None and status.value is not None
        ]
        unreadable += [
            (name, self._groups.unreadable({name})) for name in sorted(self._signals[rule])
        ]
        for name, parts in unreadable:
            for part, reason in parts:
                if all(own.get(label) == text for label, text in part):
                    yield name, reason

    def unreadable(self, rule: LoadedRule, alert: Alert, now: float) -> frozenset[str]:
        """Return which data sources and signals could not read what an alert is about.

        None of them where it is not listed any longer, or its rule lacks history.
        """
        if self.unlisted(rule, alert.labels) or self._unseen(rule, alert, now)[1]:
            return frozenset()
        return frozenset(name for name, _ in self._unreadable_parts(rule, alert.labels))

    def unknown(self, rule: LoadedRule, alert: Alert, now: float) -> str | None:
        """Return why it is unknown whether an active alert is resolved; None: it is known.

        '': the alert keeps its state for the time being.
        """
        reason = self.out_of_sight(rule, alert.labels)
        if reason == "":
            early = now - self._began_seconds <= FIRST_SECONDS
            return "" if early else "it has not been polled since the start"
        if reason is not None:
            return reason
        since, reason = self._unseen(rule, alert, now)
        return "" if reason and now - since <= SETTLED_SECONDS else reason or None

    def _unseen(self, rule: LoadedRule, alert: Alert, now: float) -> tuple[float, str]:
        """Return since when and why a rule has less history than when the alert began, or ''.

        After a restart the earlier history is missing: an empty result is no evidence.
        """
        for name, seconds in rule.windows.items():
            since = self._hub.window(name, seconds, now)
            if alert.active_seconds < since and now - since < seconds:
                return since, (
                    f"its rule needs {duration(seconds)} of history,"
                    f" and '{name or 'its data'}' was recorded for {duration(now - since)}"
                )
        return now, ""

    def unwatched(self, rule: LoadedRule, now: float) -> bool:
        """Return whether a rule could be true only because its history is still incomplete."""
        return rule.needs_history and any(
            now - self._hub.window(name, seconds, now) < seconds
            for name, seconds in rule.windows.items()
        )
