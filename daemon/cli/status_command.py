"""The commands `iowarden status`, `silence`, `ack` and `query`, and advice about tuning."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from iowarden.collectors.packages import documentation
from iowarden.collectors.quantity import duration, quantity
from iowarden.daemon.cli.service_client import (
    ServiceError,
    command_of,
    decoded,
    requested,
    show_answer,
)
from iowarden.daemon.control.documents import (
    Acknowledge,
    AddSilence,
    IncidentLine,
    LogLevelLine,
    MetricList,
    Result,
    SetLogLevel,
    SilenceLine,
    SilenceList,
    Status,
    TuningAdvice,
)
from iowarden.daemon.duration import duration_seconds
from iowarden.daemon.terminal import columns, exit_status
from iowarden.daemon.terminal.arguments import duration as duration_argument
from iowarden.daemon.terminal.arguments import subcommand, time_to_come
from iowarden.daemon.terminal.columns import matchers_text, quoted
from iowarden.daemon.terminal.console import print_error, print_json, print_line, table_of, watch
from iowarden.daemon.terminal.times import at_text, since_text, span

if TYPE_CHECKING:
    from iowarden.daemon.cli.command import Add
    from iowarden.daemon.control.documents import (
        MailLine,
        MetricLine,
        ProbeLine,
        SignalEffect,
        TuningFinding,
    )
    from iowarden.daemon.terminal.console import Columns, Sections

DEFAULT_FOR = "2h"
WATCH_SECONDS = 2.0
MIN_WATCH_SECONDS, MAX_WATCH_SECONDS = 0.5, 3600.0
LEVEL_FOR = "10m"
_SILENCE_STATUS = """\
exit status:
  0  added
  3  added, but nothing on this host can match it: a misspelt name, or an object
     that is not there yet
"""
LEVELS = ("error", "warning", "notice", "info", "debug")


def add_commands(add: Add) -> None:
    """Add the commands of this module, by a function that takes name and what runs."""
    status = command_of(add("status", _status), _status, data=True)
    status.add_argument(
        "--watch",
        nargs="?",
        type=_interval,
        const=WATCH_SECONDS,
        metavar="SECONDS",
        help=f"show it again and again, until Ctrl-C; default: every {duration(WATCH_SECONDS)}",
    )
    command_of(add("advise", _advise), _advise, data=True)
    actions = add("silence", _status).add_subparsers(required=True, metavar="ACTION")
    new = command_of(subcommand(actions, "add", "add a silence"), _silence_add)
    new.epilog = _SILENCE_STATUS
    new.add_argument(
        "matchers",
        nargs="+",
        metavar="MATCHER",
        help="label=value, label!=value, label=~regex, label!~regex, or an alert's name; all match",
    )
    end = new.add_mutually_exclusive_group()
    end.add_argument(
        "--for",
        dest="for_seconds",
        type=duration_argument,
        default=duration_seconds(DEFAULT_FOR),
        metavar="DURATION",
        help=f"for example 90m or 1d12h; default: {DEFAULT_FOR}",
    )
    end.add_argument(
        "--until",
        type=time_to_come,
        metavar="TIME",
        help="for example 2026-11-22T06:00, local time",
    )
    new.add_argument("--reason", required=True, metavar="TEXT", help="shown to other users")
    listed = subcommand(actions, "list", "list active silences")
    command_of(listed, _silence_list, data=True)
    expire = command_of(subcommand(actions, "expire", "end a silence now"), _silence_expire)
    expire.add_argument(
        "identifier", metavar="SILENCE", help="ID of the silence, or the beginning of it"
    )
    known = command_of(add("ack", _ack), _ack)
    known.add_argument(
        "incident", metavar="INCIDENT", help="ID as in its mails, or the beginning of it"
    )
    known.add_argument("--reason", default="", metavar="TEXT", help="shown to other users")
    known.add_argument("--undo", action="store_true", help="remove the acknowledgement")
    query = command_of(add("query", _query), _query, data=True)
    query.add_argument("expression", metavar="EXPR", help="PromQL, the part that rules can use")
    named = command_of(add("metrics", _metrics), _metrics, data=True)
    named.add_argument(
        "pattern",
        nargs="?",
        default="iowarden_",
        metavar="PATTERN",
        help="part of a name, or a pattern with * and ?; default: all of iowarden's own",
    )
    level = command_of(add("log-level", _log_level), _log_level)
    level.add_argument("level", choices=LEVELS, help="least severe messages that are logged")
    level.add_argument(
        "--for",
        dest="for_seconds",
        type=duration_argument,
        default=duration_seconds(LEVEL_FOR),
        metavar="DURATION",
        help=f"for example 90m, at most 1d; 0s ends it now; default: {LEVEL_FOR}",
    )


# --- the commands


def _status(arguments: argparse.Namespace) -> int:
    if arguments.watch is None:
        return show_answer(arguments, "status", Status, status_sections)
    if arguments.json:
        while True:
            print_json(requested(arguments, "status"))
            sys.stdout.flush()
            time.sleep(arguments.watch)

    def read() -> Sections:
        try:
            return status_sections(decoded(Status, requested(arguments, "status")))
        except ServiceError as error:
            if not sys.stdout.isatty():
                raise
            # It may be restarting: the terminal shows so, and the status as soon as it runs again.
            return [f"unknown: {error}", f"since {at_text(time.time())} at the latest; will retry"]

    watch(read, arguments.watch, time.sleep)
    return 0


def _interval(text: str) -> float:
    try:
        seconds = float(text.removesuffix("s"))
    except ValueError:
        seconds = 0.0
    if not MIN_WATCH_SECONDS <= seconds <= MAX_WATCH_SECONDS:
        raise argparse.ArgumentTypeError(f"expected 0.5 to 3600 seconds, got '{text}'")
    return seconds


def _silence_add(arguments: argparse.Namespace) -> int:
    for_seconds = arguments.for_seconds
    if arguments.until is not None:
        for_seconds = arguments.until - time.time()
    asked = AddSilence(tuple(arguments.matchers), for_seconds, arguments.reason)
    made = decoded(SilenceLine, requested(arguments, "silence add", asked))
    ends, about = at_text(made.ends_seconds), matchers_text(made.matchers)
    sooner = f"end it sooner: iowarden silence expire {made.identifier}"
    print_line(f"silence {made.identifier} until {ends}: {about}; {sooner}")
    if made.matches_nothing:
        print_error(made.note)
        return exit_status.UNMATCHED
    if made.note:
        print_line(made.note)
    return 0


def _log_level(arguments: argparse.Namespace) -> int:
    asked = SetLogLevel(arguments.level, arguments.for_seconds)
    made = decoded(LogLevelLine, requested(arguments, "log level", asked))
    if arguments.for_seconds:
        print_line(f"log level '{made.level}' until {at_text(made.ends_seconds)}")
        print_line("messages: journalctl -t iowarden --follow")
    else:
        print_line("log level as configured")
    return 0


def _silence_list(arguments: argparse.Namespace) -> int:
    return show_answer(arguments, "silence list", SilenceList, _silences)


def _silence_expire(arguments: argparse.Namespace) -> int:
    ended = requested(arguments, "silence expire", {"identifier": arguments.identifier})
    line = decoded(SilenceLine, ended)
    print_line(f"silence {line.identifier} has ended: {matchers_text(line.matchers)}")
    return 0


def _ack(arguments: argparse.Namespace) -> int:
    asked = Acknowledge(arguments.incident, arguments.reason, arguments.undo)
    line = decoded(IncidentLine, requested(arguments, "ack", asked))
    then = (
        "acknowledgement removed, notifications are sent again"
        if arguments.undo
        else "acknowledged, no notification until it escalates or is resolved"
    )
    print_line(f"incident {line.identifier} ({line.severity}, {line.object}): {then}")
    return 0


def _query(arguments: argparse.Namespace) -> int:
    answer = requested(arguments, "query", {"expression": arguments.expression})
    if arguments.json:
        print_json(answer)
        return 0
    result = decoded(Result, answer)
    for sample in result.samples:
        print_line(f"{_metric(sample.labels)} {sample.value}".strip())
    if result.note:
        print_error(f"note: {result.note}")
    if not result.samples:
        sys.stderr.write("the result is empty\n")
    return 0


def _metrics(arguments: argparse.Namespace) -> int:
    return show_answer(
        arguments, "metrics", MetricList, _metric_sections, {"pattern": arguments.pattern}
    )


def _metric_sections(found: MetricList) -> Sections:
    if not any(each.samples or each.reason for each in found.metrics) or len(found.metrics) > 10:
        fields: Columns[MetricLine] = {
            "metric": lambda each: each.name,
            "type": lambda each: each.type,
            "unit": lambda each: each.unit or "-",
            "labels": lambda each: ", ".join(each.labels) or "-",
            "series": lambda each: str(each.series),
        }
        hint = "values, meaning and why there are none: iowarden metrics NAME"
        return [*table_of("metrics", found.metrics, fields), hint]
    sections: Sections = []
    for each in found.metrics:
        labels = f", by {', '.join(each.labels)}" if each.labels else ""
        kind = " ".join(filter(None, (each.type, f"in {each.unit}" if each.unit else "")))
        sections += [f"{each.name}: {kind}{labels}"]
        sections += [f"  {each.help}"] if each.help else []
        sections += [f"  {_metric(sample.labels)} {sample.value}" for sample in each.samples]
        if each.series > len(each.samples):
            more = each.series - len(each.samples)
            sections.append(f"  and {more} more: iowarden query '{each.name}'")
        if each.reason:
            sections.append(f"  no value here: {each.reason}")
    return sections


# --- showing


def _silences(found: SilenceList) -> Sections:
    silences = table_of("silences", found.silences, columns.of_silences(time.time()))
    return [*silences] or ["no active silences"]


def status_sections(status: Status) -> Sections:
    """Return the sections of 'iowarden status', the worst first."""
    now = status.now_seconds
    age = span(now - status.started_seconds)
    sections: Sections = [
        f"iowarden {status.version} on {status.host}, running for {age}",
        status.summary,
    ]
    if not status.ready:
        sections.append("not ready: some data has not been read yet, so this status is incomplete")
    if status.failed_reload is not None:
        since = since_text(status.failed_reload.at_seconds, now)
        sections.append(
            f"configuration reload failed at {since}; the previous configuration stays in use:"
        )
        sections += [f"  {problem}" for problem in status.failed_reload.problems]
    if status.unnotified:
        page = f"{documentation()}/events-and-incidents.md"
        sections += [status.unnotified, f"  {page}: 'Why did I get no mail?'"]
    of_incidents = ("severity", "incident", "object", "since", "summary")
    return [
        *sections,
        *(f"problem: {text}" for text in status.problems),
        *table_of("open incidents", status.incidents, columns.of_incidents(now), *of_incidents),
        *table_of("alerts", status.alerts, columns.of_alerts(now)),
        *table_of("who waits for storage", status.waiting, columns.of_waiting(now)),
        *table_of(
            "programs that cannot be killed (a sign of a failing disk)",
            status.probe.stuck,
            {
                "pid": lambda s: str(s.pid),
                "program": lambda s: s.command,
                "disk": lambda s: ", ".join(s.devices),
                "since": lambda s: since_text(s.since_seconds, now),
            },
        ),
        *table_of(
            "collectors that are not ok",
            status.collectors,
            {
                "collector": lambda s: s.name,
                "outcome": lambda s: s.outcome,
                "last ok": lambda s: since_text(s.since_seconds, now),
                "error": lambda s: s.error,
            },
        ),
        *table_of("silences", status.silences, columns.of_silences(now)),
        *filter(None, (status.disks, status.kernel_lines)),
        f"collectors: {status.collectors_ok} ok, {len(status.collectors)} not ok",
        f"notifications: {_mail(status.notifications, now)}",
        *(f"notifications: {_mail(each, now)}" for each in status.receivers),
        f"probe: {_probe(status.probe)}",
    ]


def _mail(mail: MailLine, now: float) -> str:
    to = f"receiver: {mail.receiver}" if mail.receiver else ""
    if not mail.waiting and not mail.error and not mail.refused:
        return f"none waiting; {to}".rstrip("; ")
    parts = [f"{mail.waiting} waiting", to]
    if mail.oldest_seconds is not None:
        parts.append(f"oldest since {since_text(mail.oldest_seconds, now)}")
    if mail.refused:
        parts.append(f"{mail.refused} refused")
    if mail.next_seconds is not None:
        parts.append(f"next attempt in {span(mail.next_seconds - now)}")
    if mail.error:
        parts.append(f"last error: {mail.error}")
    return "; ".join(part for part in parts if part)


def _probe(probe: ProbeLine) -> str:
    if not probe.connected:
        return f"not connected: {probe.error}" if probe.error else "not needed now"
    found = ", ".join(f"{name} ({path})" for name, path in sorted(probe.programs.items()))
    return f"connected; programs: {found or 'none found'}"


def _metric(labels: dict[str, str]) -> str:
    pairs = [f"{k}={quoted(v)}" for k, v in sorted(labels.items()) if k != "__name__"]
    return labels.get("__name__", "") + (f"{{{', '.join(pairs)}}}" if pairs else "")


def _advise(arguments: argparse.Namespace) -> int:
    return show_answer(arguments, "advise", TuningAdvice, _tuning)


def _tuning(found: TuningAdvice) -> Sections:
    """Return each finding with its evidence and advice, then the settings that changed."""
    lines: list[str] = []
    for each in found.findings:
        lines += [*_finding(each), ""]
    if not found.findings:
        lines.append("no settings to be tuned")
    if found.omitted:
        lines.append(f"and {found.omitted} more findings, see 'iowarden status'")
    lines.append(
        f"observed for {span(found.observed_seconds)}; findings about loads need minutes to hours"
        " of that load"
    )
    for change in found.changes:
        device = f"{change.device} " if change.device else ""
        lines += [
            "",
            f"{at_text(change.at_seconds)} {device}{change.setting}: {change.old} -> {change.new}",
            *map(_effect_text, change.effects),
        ]
        if not change.effects:
            lines.append("  not enough data: no signal of this setting was above 0 before")
    return [*lines]


def _finding(found: TuningFinding) -> list[str]:
    alert = found.alert
    state = f" - data unavailable: {alert.unknown_reason}" if alert.unknown_reason else ""
    blocks = [f"{alert.severity} {alert.name} {alert.object}: {alert.summary}{state}"]
    blocks += [f"  {found.description}"] if found.description else []
    blocks += [f"  now: {text}" for text in found.evidence]
    advice = found.advice
    blocks += [f"  {line}" for line in advice.splitlines() if line.strip()]
    blocks += [f"  not known: {found.unknown}"] if found.unknown else []
    return [*blocks, f"  source: {found.source}"] if found.source else blocks


def _effect_text(effect: SignalEffect) -> str:
    """Return a signal before and since a change, as one line."""

    def mean(value: float | None, seconds: float) -> str:
        if value is None:
            return "not observed"
        return f"mean {quantity(effect.signal, value)} in {span(seconds)}"

    labels = ", ".join(f"{name}={quoted(value)}" for name, value in effect.labels.items())
    return (
        f"  {effect.verdict}: {effect.signal}{{{labels}}}"
        f" before: {mean(effect.before, effect.before_seconds)};"
        f" since: {mean(effect.after, effect.after_seconds)}"
    )
