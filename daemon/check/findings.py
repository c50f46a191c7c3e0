"""Findings of `iowarden check` about alerts, data sources, configuration and the host."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING

from iowarden.collectors.kernel.tracing import tracing_problem
from iowarden.collectors.model import Outcome
from iowarden.collectors.quantity import duration
from iowarden.collectors.smart.drive import ReadStatus
from iowarden.daemon import working_copy
from iowarden.daemon.check.report import Finding, Level, count
from iowarden.daemon.config.receivers import is_loopback
from iowarden.daemon.control import roles
from iowarden.daemon.sanitize import shorten
from iowarden.rules import selftest_schedule
from iowarden.rules.advice.advice import advice_of
from iowarden.rules.alerting.alerts import AlertState
from iowarden.rules.faults import meaning
from iowarden.rules.rulefile.rulefile import RecordingRule, Rule
from iowarden.rules.severity import Severity
from iowarden.rules.signals import table as signals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from iowarden.collectors.machine import Machine
    from iowarden.daemon import exporters
    from iowarden.daemon.config.schema import Config
    from iowarden.rules.advice.facts import Facts
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.engine.engine import Engine
    from iowarden.rules.rulefile.rulefile import RuleGroup

MAX_OBJECTS = 5
"""Objects of one alert with a line of their own; one more line names the rest."""
NO_ANSWER = "no answer during this check"
SELF_TESTS = 'self_tests: [{{disks: "{disks}", short: "{short}", long: "{long}"}}]'.format(
    **selftest_schedule.SUGGESTED
)
NOT_POLLED = frozenset(
    {ReadStatus.NO_PASS_THROUGH, ReadStatus.NO_SMART, ReadStatus.LUN, ReadStatus.MISSING}
)

SLOW_GROUPS = frozenset(
    "bandwidth no_progress reclaim_stall swap activity phantom_reads read_ahead request_split"
    " request_chunk starvation timeouts hung_task".split()
)
"""Signal groups that need minutes of data, or a change in it."""


_LEVEL = {
    Severity.CRITICAL: Level.CRITICAL,
    Severity.WARNING: Level.WARNING,
    Severity.NOTICE: Level.INFO,
    Severity.INFO: Level.INFO,
}


def about_iowarden(alert: Alert) -> bool:
    """Whether an alert is about iowarden itself: the running service reports those."""
    return meaning(alert.name).of_itself


def of_alerts(
    alerts: Sequence[Alert], groups: Sequence[RuleGroup], facts: Facts
) -> Iterator[Finding]:
    """Return the alerts, worst first; of many with one name most objects are only listed."""
    waits = required_seconds(groups)
    told: set[tuple[tuple[str, str], ...]] = set()
    by_name: dict[tuple[Level, str], list[Finding]] = defaultdict(list)
    ranked = sorted(alerts, key=lambda a: (not a.active, -a.severity, a.name, a.labels))
    for alert in ranked:
        same = tuple(pair for pair in alert.labels if pair[0] != "severity")
        if same in told:  # reported by a rule of higher severity
            continue
        told.add(same)
        level, text = _LEVEL[alert.severity], alert.annotation("summary")
        if alert.state is AlertState.PENDING:
            level = Level.WARNING if level is Level.CRITICAL else Level.INFO
            text += pending(alert, waits)
        elif alert.state is AlertState.UNKNOWN:
            level, text = Level.UNKNOWN, f"{text} - data unavailable: {alert.unknown_reason}"
        advice = advice_of(alert, facts)
        description = alert.annotation("description").strip()
        finding = Finding(level, alert.name, place(alert), text, advice, description)
        by_name[level, alert.name].append(finding)
    for (level, name), found in by_name.items():
        yield from found[:MAX_OBJECTS]
        if rest := [f.object for f in found[MAX_OBJECTS:]]:
            yield Finding(level, name, f"and {len(rest)} more", shorten(", ".join(rest), 300))


def required_seconds(groups: Sequence[RuleGroup]) -> dict[str, float]:
    """Return for each alert how long its condition must last before it fires, in seconds."""
    return {r.alert: r.for_seconds for g in groups for r in g.rules if isinstance(r, Rule)}


def text(alert: Alert) -> str:
    """Return what an alert reports of a text; of made-up data all reasons, and what to read.

    In the text of one drive there is no access method that the service could name.
    """
    if alert.name != IMPLAUSIBLE:
        return alert.annotation("summary")
    return f"{alert.annotation('description').rstrip()} {_BEHIND}"


IMPLAUSIBLE = "SmartImplausible"
_BEHIND = (
    "Query the disks behind the controller: smartctl -a with -d areca,N /dev/sgX, -d 3ware,N"
    " /dev/twa0, -d megaraid,N /dev/sdX or -d cciss,N /dev/sgX; or use the controller's program."
)


def pending(alert: Alert, waits: Mapping[str, float]) -> str:
    """Return the suffix of a pending alert's summary; `waits` is from `required_seconds`."""
    wait = duration(waits.get(alert.name, 0.0))
    return f" - pending; {alert.severity.name.lower()} if it lasts for {wait}"


def place(alert: Alert) -> str:
    """Return the object of an alert: mount point, object, device, or 'host'."""
    shown = alert.label("mountpoint") or alert.object
    device = alert.label("device")
    return shown or device or "host"


def of_rules(engine: Engine) -> Iterator[Finding]:
    """Return the rules that cannot be evaluated, with the error."""
    for rule, text in engine.rules.problems.items():
        yield Finding(Level.UNKNOWN, "rule", rule, text)


def of_sources(engine: Engine, now: float) -> Iterator[Finding]:
    """Return the collectors that failed, with the reason, and the number of those that are ok."""
    absent = []
    good = 0
    for status in engine.sources.values():
        name, outcome = status.source.name, status.outcome()
        if outcome is Outcome.OK:
            good += 1
            unread = status.source.unreadable
            parts = [*unread(status.value)] if unread is not None else []
            for labels, reason in parts[:MAX_OBJECTS]:
                place = ", ".join(value for _, value in labels)
                yield Finding(Level.UNKNOWN, "collector", f"{name} {place}", reason or NO_ANSWER)
            if len(parts) > MAX_OBJECTS:
                text = f"{len(parts) - MAX_OBJECTS} more parts could not be read"
                yield Finding(Level.UNKNOWN, "collector", name, text)
        elif outcome is Outcome.ABSENT:
            absent.append(name)
        elif status.reading is None:
            yield Finding(Level.UNKNOWN, "collector", name, NO_ANSWER)
        else:
            since = status.reading.monotonic_seconds - status.reading.duration_seconds
            stuck = outcome is Outcome.STUCK
            text = f"no answer for {duration(now - since)}" if stuck else status.reading.error
            yield Finding(Level.UNKNOWN, "collector", name, f"{outcome}: {text}")
    offered = [name for name in absent if name != "kernel_log"]
    there = f"; not present on this host: {', '.join(offered)}" if offered else ""
    if len(offered) < len(absent):
        there += "; only the service reads the kernel log: check it by 'dmesg | iowarden explain'"
    yield Finding(Level.OK, "collectors", "", f"{good} of {len(engine.sources)} ok{there}")


def of_self_tests(settings: Config, engine: Engine) -> Iterator[Finding]:
    """Advise to schedule self-tests, with an example for the configuration."""
    disks = engine.last.smart
    if settings.self_tests or disks is None:
        return
    drives = sum(disk.polled.status not in NOT_POLLED for disk in disks.by_key.values())
    if drives:
        text = (
            f"none are scheduled for {count(drives, 'drive')}; without them, bad sectors that no"
            f" program reads stay undetected; add to the configuration: '{SELF_TESTS}' (see 'man"
            " systemd.time')"
        )
        yield Finding(Level.INFO, "self-tests", "", text)


def of_tracing(settings: Config, machine: Machine) -> Iterator[Finding]:
    """Return why requests of disks cannot be traced on this machine."""
    if settings.trace and (problem := tracing_problem(machine)):
        text = f"requests of disks cannot be traced: {problem}; 'trace: false' ends this message"
        yield Finding(Level.INFO, "trace", "", text)


def of_roles() -> Iterator[Finding]:
    """Report who reads the configuration as a member of the service's own group."""
    if text := roles.narrowing(roles.service_group_members()):
        yield Finding(Level.INFO, "roles", "", text)


def slow_group_findings(groups: Sequence[RuleGroup]) -> Iterator[Finding]:
    """Return the alerts that only the running service can evaluate, as one finding."""
    slow = {f.name for g in signals.GROUPS if g.name in SLOW_GROUPS for f in g.families}
    rules = [rule for group in groups for rule in group.rules]
    records = {r.record for r in rules if isinstance(r, RecordingRule)}
    slow |= {
        r.record for r in rules if isinstance(r, RecordingRule) and r.expression.names & slow
    } & records
    names = {
        rule.alert for rule in rules if isinstance(rule, Rule) and rule.expression.names & slow
    }
    if names:
        text = f"alerts that need hours of data and the running service: {', '.join(sorted(names))}"
        yield Finding(Level.OK, "not checked", "", text)


_NOT_NOTIFIED = (
    "mails are disabled ('mail.enabled') and 'notify' has no receiver of alerts: no alert is"
    " notified; configure one of them"
)


def _notified(settings: Config) -> bool:
    """Whether another receiver than mail gets alerts; a ping does not."""
    return any(each.notifies for each in settings.notify)


def mail_path(settings: Config) -> str:
    """Return a note about a missing or local mail server, or ''."""
    server = settings.mail.server
    if not settings.mail.enabled:
        return "" if _notified(settings) else _NOT_NOTIFIED
    if server is None:
        return (
            "no mail server configured ('mail.server'): mails are only stored in the Maildir of the"
            " state directory, not sent"
        )
    if is_loopback(server):
        return (
            f"mail is sent by this machine's own server '{server}', which may fail while the root"
            " disk hangs; a remote server does not depend on it"
        )
    return ""


def of_mail(settings: Config, *, here: bool = True) -> Iterator[Finding]:
    """Return the findings about mail, and where it is sent; `here`: no recording is checked.

    None is OK: what is configured need not accept anything.
    """
    if said := mail_path(settings):
        disabled = not settings.mail.enabled
        unsent = here and (disabled or settings.mail.server is None) and not _notified(settings)
        if unsent and not disabled:
            setup = working_copy.mail_setup(settings.state_directory)
            said += f"; to configure one: {setup}"
        yield Finding(Level.WARNING if unsent else Level.INFO, "mail", "", said)
    for each in settings.notify:
        origins = ", ".join(dict.fromkeys(url.origin for url in each.urls))
        text = f"{each.type} at {origins}; test it by 'iowarden test-notify {each.name}'"
        yield Finding(Level.INFO, "notify", each.name, text)
    if settings.mail.enabled and settings.mail.server is not None:
        text = f"to {', '.join(settings.mail.to)} by '{settings.mail.server}':{settings.mail.port}"
        if (second := settings.mail.fallback) is not None:
            text += f", otherwise by '{second.server}':{second.port}"
        yield Finding(Level.INFO, "mail", "", f"{text}; test it by 'iowarden test-mail'")


def of_exporters(found: Iterable[exporters.Exporter], settings: Config) -> Iterator[Finding]:
    """Return the findings about other exporters on this host."""
    shared = {
        "node_exporter": (
            "expose.node",
            settings.expose_node,
            "two 'node_uname_info' of one host break rules",
        ),
        "smartctl_exporter": (
            "expose.smartctl",
            settings.expose_smartctl,
            "two 'smartctl_device' of one drive break rules",
        ),
    }
    for exporter in found:
        text = f"port {exporter.port} answers {exporter.answer}"
        key, shown, harm = shared.get(exporter.program or "", ("", False, ""))
        if shown:
            text += f"; {harm}: set '{key}: false'"
            yield Finding(Level.WARNING, "exporter", exporter.program or "", text)
        else:
            clash = f"; leave '{key}' off" if key else ""
            yield Finding(Level.INFO, "exporter", exporter.program or "unknown", text + clash)


def of_state_directory(directory: str) -> Iterator[Finding]:
    """Return the findings about a missing or read-only state directory."""
    topic, place = "state", f"'{directory}'"
    if not os.path.isdir(directory):
        text = "does not exist yet: the service creates it at its first start"
        yield Finding(Level.INFO, topic, place, text)
    elif os.geteuid() == 0 and not os.access(directory, os.W_OK | os.X_OK):
        text = "is not writable, even for root: see 'findmnt -T' and the kernel log"
        yield Finding(Level.WARNING, topic, place, text)
