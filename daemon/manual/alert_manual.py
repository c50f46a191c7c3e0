"""One alert: its rules as they are in force here, what fires and is measured now; its text.

The texts are those of the rule, rendered for an example object (rules/manual); what fires and what
is measured here is what the running service answers, and where none does, that is in the text.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.near import did_you_mean
from iowarden.collectors.packages import documentation
from iowarden.collectors.quantity import quantity
from iowarden.daemon.config import rule_files
from iowarden.daemon.control.documents import (  # noqa: TC001 - the reference reads the types
    AlertLine,
    ResultSample,
)
from iowarden.daemon.terminal.console import printable
from iowarden.daemon.terminal.times import since_text, span
from iowarden.rules.manual import manual
from iowarden.rules.manual.manual import Manual  # noqa: TC001 - as above
from iowarden.rules.rulefile.rulefile import SHIPPED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from iowarden.daemon.config.schema import Config

MAX_SERIES = 8
"""Series of one metric that are listed; then a line with the number of the others."""
CONFIG = "/etc/iowarden/iowarden.yaml"
_HIDDEN = frozenset(("__name__", "instance", "job"))
_EXAMPLE = "an example object; its names and numbers are not of this host"


@dataclass(frozen=True, slots=True)
class Series:
    """The series that a selector of a rule selects on this host now."""

    selector: str = ""
    samples: tuple[ResultSample, ...] = ()


@dataclass(frozen=True, slots=True)
class Here:
    """An alert on this host, as the running service answers."""

    problem: str = ""
    """Why there is no state and no value; empty: the service answered."""
    now_seconds: float = 0.0
    alerts: tuple[AlertLine, ...] = ()
    """Those that are pending, firing or unknown."""
    series: tuple[Series, ...] = ()
    advice: tuple[str, ...] = ()
    """What to do about the incident of an alert that fires."""
    shared_incident: str = ""
    """That incident, if it has other alerts as well: its advice is about them all."""


@dataclass(frozen=True, slots=True)
class AlertManual:
    """One alert: its rules, and what is so on this host."""

    alert: str = ""
    notes: tuple[str, ...] = ()
    """Why the rules may not be those that are in force."""
    rules: tuple[Manual, ...] = ()
    """The most severe first. An event has one, without an expression."""
    here: Here = dataclasses.field(default_factory=Here)
    configuration: str = CONFIG
    """The configuration file, which can change the rules."""
    has_overrides: bool = False
    """Whether that file changes rules already, so that it has the key for it."""


class UnknownAlertError(Exception):
    """There is no such alert; the text is shown to the user."""


def rules_of(
    name: str, settings: Config, kind: str = "alert"
) -> tuple[list[Manual], tuple[str, ...]]:
    """Return the rules of an alert that are in force, and notes; those of a disabled one as well.

    `kind` is what the name was to be, for the message.
    Errors: UnknownAlertError; RuleFileError for a rule file that cannot be read.
    """
    if found := _manuals(name, settings):
        return found, _never_fires(name, settings)
    shipped = dataclasses.replace(settings, overrides=(), shipped_rules=True)
    if found := _manuals(name, shipped):
        return found, (
            f"it is disabled here, by 'overrides' or 'shipped_rules' of {settings.file}",
        )
    known = [*rule_files.alert_names(shipped), *rule_files.load_events().rows]
    raise UnknownAlertError(
        f"no {kind} '{name}'{did_you_mean(name, known)}; all of them: iowarden rules list"
    )


def _never_fires(name: str, settings: Config) -> tuple[str, ...]:
    """Return why an alert never fires because of an expression in the configuration."""
    changed = [o for o in settings.overrides if o.rule.partition("/")[0] == name]
    if not any(each.expression is not None for each in changed):
        return ()
    # Imported only here: all collectors and rules, which other alerts do not need.
    from iowarden.daemon.config.rule_notes import never_fires  # noqa: PLC0415

    groups = rule_files.load_for_service(settings).groups
    return tuple(
        f"expr of {override.place}: {reason}"
        for override, reason in never_fires(groups, settings)
        if override in changed
    )


def _manuals(name: str, settings: Config) -> list[Manual]:
    found = manual.of_rules(rule_files.load_alert(settings, name), name)
    if found or not name.islower():  # classes of events are in lower case
        return found
    of_event = (each for each in settings.overrides if each.rule == name)
    row = rule_files.load_events(of_event).rows.get(name)
    return [] if row is None or not row.enabled else [manual.of_event(row)]


# --- the text


def sections(of: AlertManual) -> Iterator[str]:
    """Yield the lines about an alert: what it is, what is so here, what to do; then the rule."""
    manuals, here = of.rules, of.here
    first = manuals[0]
    yield f"{first.alert}, condition {first.condition}" if first.condition else first.alert
    yield from (f"  {line}" for line in _of_severities(manuals, lambda m: m.summary, always=True))
    yield f"  ({_EXAMPLE})"
    yield from (f"  note: {note}" for note in of.notes)
    yield from _part("meaning", _of_severities(manuals, lambda m: m.description))
    yield from _part("on this host now", _situation(here))
    of_incident = [line for text in here.advice for line in text.splitlines()]
    if not of_incident or here.shared_incident:
        yield from _part("what to do, for the example object", _advice(manuals))
    shared = f" about incident {here.shared_incident}, of this and other alerts"
    yield from _part(f"what to do here{shared if here.shared_incident else ''}", of_incident)
    yield from _part("measured here now", (line for each in here.series for line in _values(each)))
    yield from _part("not determined when it fires", _of_severities(manuals, lambda m: m.unknown))
    yield from _part("rule", [line for each in manuals for line in _rule(each)])
    yield from _part("change or silence it", _changes(of))
    yield from _part("more", _more(first))


def _part(title: str, lines: Iterable[str]) -> Iterator[str]:
    found = [line for line in lines if line.strip()]
    if found:
        yield ""
        yield f"{title}:"
        yield from (f"  {line}" for line in found)


def _situation(here: Here) -> Iterator[str]:
    if here.problem:
        yield f"not known, because no service answers: {here.problem}"
        return
    if not here.alerts:
        yield "it does not fire"
    for alert in here.alerts:
        began = since_text(alert.since_seconds, here.now_seconds)
        what = f"{alert.severity}, {alert.object}: {alert.summary}"
        state = alert.state
        if alert.cleared_seconds is not None:
            state = f"cleared {span(here.now_seconds - alert.cleared_seconds)} ago, fired"
        yield f"{state} since {began}, {what}"
        if alert.unknown_reason:
            yield f"  {alert.unknown_reason}"
        if alert.incident:
            yield f"  evidence and course: iowarden incident show {alert.incident}"


def _values(series: Series) -> Iterator[str]:
    metric = series.selector.partition("{")[0]
    if not series.samples:
        # A colon is in names that a rule records: they are no metric of a collector.
        why = "its rule records none now" if ":" in metric else f"why: iowarden metrics {metric}"
        yield f"{series.selector}: no such series here ({why})"
    for sample in series.samples[:MAX_SERIES]:
        labels = ", ".join(
            f'{name}="{value}"' for name, value in sample.labels.items() if name not in _HIDDEN
        )
        value = quantity(metric, float(sample.value))
        yield printable(f"{metric}{f'{{{labels}}}' if labels else ''}: {value}")
    if (more := len(series.samples) - MAX_SERIES) > 0:
        yield f"  and {more} more: iowarden query '{series.selector}'"


def _of_severities(
    manuals: Sequence[Manual], text_of: Callable[[Manual], str], *, always: bool = False
) -> Iterator[str]:
    """Yield a text once, with the severities that have it; without if all do, unless `always`."""
    texts: dict[str, list[str]] = {}
    for each in manuals:
        texts.setdefault(text_of(each), []).append(each.severity)
    for text, severities in texts.items():
        if text:
            yield f"{', '.join(severities)}: {text}" if always or len(texts) > 1 else text


def _advice(manuals: Sequence[Manual]) -> Iterator[str]:
    """Yield what to do; what only some severities have is below their names."""
    parts = manual.shared_advice(manuals)
    for place, (severities, text) in enumerate(parts):
        title = f"{', '.join(severities)}:" if severities else "in each case:" if place else ""
        if title:
            yield title
        yield from (f"  {line}" if title else line for line in text.splitlines())


def _rule(each: Manual) -> Iterator[str]:
    yield f"{each.severity}: {', '.join(_facts(each))}"
    for threshold in each.thresholds:
        yield f"  threshold: {threshold}"
    for exception in each.exceptions:
        yield f"  not if: {exception}"
    yield from (f"    {line}" for line in each.expression.splitlines())
    for name, expression in each.recorded:
        yield f"  {name} is recorded from:"
        yield from (f"    {line}" for line in expression.splitlines())


def _facts(each: Manual) -> Iterator[str]:
    if not each.expression:
        yield "an event of a log or of an array, not a rule"
    elif each.for_seconds:
        yield f"fires after {span(each.for_seconds)}"
    else:
        yield "fires at once"
    if each.keep_firing_for_seconds:
        yield f"for {span(each.keep_firing_for_seconds)} after the expression is false"
    if each.interval_seconds:
        yield f"evaluated every {span(each.interval_seconds)}"
    if each.overridden:
        yield f"changed here: {', '.join(each.overridden)}"
    yield each.place


def _changes(of: AlertManual) -> Iterator[str]:
    name = of.rules[0].alert
    yield "stop its notifications for a time; add a label to mean one object, such as device=sda:"
    yield f"  iowarden silence add --for 2h --reason 'TEXT' {name}"
    shipped = [each for each in of.rules if each.place.startswith(SHIPPED)]
    for each in of.rules:
        if each not in shipped:
            file, _, line = each.place.rpartition(":")
            yield f"it is a rule of yours: to change it or switch it off, edit {file}, line {line}"
    if shipped:
        yield from _overrides(of, shipped)
    if of.configuration == CONFIG:
        yield "check and load that:"
        yield "  iowarden config check && systemctl reload iowarden"
    else:
        yield "check that; then restart the service that runs in the foreground, or send it SIGHUP:"
        yield f"  iowarden config check '{of.configuration}'"


def _overrides(of: AlertManual, shipped: Sequence[Manual]) -> Iterator[str]:
    """Yield the lines of the configuration that change shipped rules, or classes of events."""
    what = "a threshold, how long it must last ('for') or its severity"
    if shipped[0].event_severity:
        what = "the severity of all its events"
    yield f"change {what} (critical, warning, notice, info), in {of.configuration}:"
    if of.has_overrides:
        yield "  (it has the line 'overrides:'; put what follows below that one)"
    else:
        yield "  overrides:"
    yield from (f"    {each.override}" for each in shipped)
    if others := list(dict.fromkeys(line for each in shipped for line in each.other_overrides)):
        yield "or one of its other numbers, in place of the line of the same rule:"
        yield from (f"    {line}" for line in others)
    if models := list(filter(None, (each.model_override for each in shipped))):
        yield "or give one disk model another limit, the second number, in place of the same line;"
        yield "the models of this host: iowarden query iowarden_disk_info"
        yield from (f"    {line}" for line in models)
    yield f"or switch it off, in place of {'that' if len(shipped) == 1 else 'these lines'}:"
    yield f"    {shipped[0].alert}: {{enabled: false}}"


def _more(first: Manual) -> Iterator[str]:
    if first.source:
        yield f"source: {first.source}"
    if first.condition:
        yield f"guards and limits: {documentation()}/conditions.md, section {first.condition}"
