"""The page '/': what is wrong now, then the storage from file system to disk. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from iowarden.collectors.quantity import duration, percentage, quantity, size
from iowarden.daemon.page import chart
from iowarden.daemon.page.frame import (
    HEAD,
    KEY,
    NUMBER,
    WIDE,
    Columns,
    Frame,
    Row,
    Shown,
    badge,
    event_table,
    folded,
    link,
    listed,
    page,
    pairs,
    section,
    table,
)
from iowarden.daemon.page.html import MAX_CHARACTERS, SPACE, Markup, join, paragraph, tag, text
from iowarden.daemon.page.incident import (
    advice_and_evidence,
    incident_link,
    incident_title,
)
from iowarden.daemon.terminal import columns
from iowarden.daemon.terminal.times import since_text, span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iowarden.daemon.control.documents import (
        AlertLine,
        DiskLine,
        EventLine,
        IncidentDetail,
        IncidentLine,
        MailLine,
        Status,
    )
    from iowarden.daemon.control.page_documents import (
        ArrayLine,
        DeviceLine,
        IndexPage,
        RuleGroupLine,
        SourceState,
        WritebackLine,
    )
    from iowarden.daemon.control.storage_document import StorageNode
    from iowarden.daemon.control.waiting_document import WaitingLine

MAX_ALERTS = 12
"""Alerts without an incident, before those below warning are folded."""
_MAJOR = frozenset({"critical", "warning"})
MAX_ROWS = 48
"""Rows of a table before the others are folded."""
_FINE = frozenset({"monitored", "asleep"})
_SECTIONS = (
    ("now", "Now"),
    ("writeback", "Write-back"),
    ("storage", "Storage"),
    ("devices", "Devices"),
    ("drives", "Drives"),
    ("arrays", "Arrays"),
    ("events", "Events"),
    ("service", "Service"),
)
_HEALTH = {
    "ok": "ok",
    "busy": "ok",
    "absent": "",
    "rebuilding": "warning",
    "degraded": "warning",
    "failing": "critical",
    "failed": "critical",
    "attention": "warning",
}


def render(
    found: IndexPage,
    temperatures: Mapping[str, Sequence[tuple[float, float]]],
    history_note: str = "",
    *,
    full: bool = True,
    note: str = "",
) -> bytes:
    """Return the page. `temperatures` are of the drives by label; `note` is about the page."""
    status = found.status
    now = status.now_seconds
    word = status.summary.partition(":")[0] or "unknown"
    heading = tag("h1", status.host, SPACE, badge(word))
    return page(
        Frame(status.version, now, full),
        title=f"{word}: {status.host} - iowarden",
        heading=heading,
        here="/",
        sections=_SECTIONS,
        content=(
            _now(found, word, note),
            _writeback(found.machine.writeback),
            _storage(found),
            _devices(found),
            _drives(found, temperatures, history_note),
            _arrays(found),
            _events(found.events, now),
            _service(found),
        ),
    )


def drive_link(label: str, shown: str = "") -> Markup:
    """Return a link to the page of a drive; its name alone if it has none."""
    if not label or len(label) > MAX_CHARACTERS:
        return text(shown or label)
    return link(Markup(f"/drive/{quote(label, safe='')}"), shown or label)


# --- what is wrong now


def _now(found: IndexPage, word: str, note: str) -> Markup:
    status = found.status
    now = status.now_seconds
    alone = [a for a in status.alerts if not a.incident]
    texts = [tag("p", paragraph(_verdict(status)))]
    if note:
        texts.append(tag("p", paragraph(note)))
    if not status.ready:
        texts.append(tag("p", "Not ready: some data has not been read yet; this is incomplete."))
    shown = {each.line.identifier for each in found.incidents}
    others = [i for i in status.incidents if i.identifier not in shown]
    return section(
        "now",
        "What is wrong now",
        tag("div", *texts, class_=f"state {word if word in _COLOURED else 'unknown'}"),
        tag("p", paragraph(status.unnotified)) if status.unnotified else None,
        listed(f"Problem of the service: {each}" for each in status.problems),
        _reload(status),
        *(_incident(each, now) for each in found.incidents),
        _long("More open incidents", others, _incident_columns(now)),
        _long("Who waits for storage, and because of whom", status.waiting, _waiting_columns(now)),
        _alone(alone, now),
        table(
            "Programs that cannot be killed (a sign of a failing disk)",
            status.probe.stuck,
            {
                "program": (HEAD, lambda s: s.command),
                "pid": (NUMBER, lambda s: str(s.pid)),
                "disk": (KEY, lambda s: ", ".join(s.devices)),
                "since": (KEY, lambda s: since_text(s.since_seconds, now)),
            },
        )
        if status.probe.stuck
        else None,
    )


_COLOURED = frozenset({"critical", "warning", "ok"})


def _long(caption: str, rows: Sequence[Shown], of: Columns[Shown]) -> Markup | None:
    """Return a table of long texts; None without rows."""
    return table(caption, rows, of, stack=True) if rows else None


def _alone(alerts: Sequence[AlertLine], now: float) -> Markup:
    """Return alerts without an incident; of a large machine the minor ones are folded."""
    major = [a for a in alerts if a.severity in _MAJOR or a.state == "unknown"]
    minor = [a for a in alerts if a not in major] if len(alerts) > MAX_ALERTS else []
    shown = major if minor else alerts
    of = _alert_columns(now)
    return join(
        _long("Alerts without an incident", shown, of),
        folded(f"{len(minor)} of severity notice or info", _long("Minor alerts", minor, of))
        if minor
        else None,
    )


def _verdict(status: Status) -> str:
    if status.incidents or status.alerts:
        return status.summary
    return "No open incident; no alert fires." if status.ready else status.summary


def _reload(status: Status) -> Markup | None:
    if status.failed_reload is None:
        return None
    since = since_text(status.failed_reload.at_seconds, status.now_seconds)
    return join(
        tag("p", f"Configuration reload failed at {since}; the previous one stays in use:"),
        listed(status.failed_reload.problems),
    )


def _incident(found: IncidentDetail, now: float) -> Markup:
    line = found.line
    states = ["acknowledged"] if line.acknowledged is not None else []
    states += ["silenced"] if line.silences else []
    states += [] if line.firing else ["not resolved yet"]
    return tag(
        "article",
        tag(
            "h3",
            badge(line.severity or "notice"),
            SPACE,
            incident_link(line.identifier, incident_title(found)),
        ),
        tag(
            "p",
            f"{line.object}, since {since_text(line.opened_seconds, now)}",
            Markup("".join(f"; {text(each)}" for each in states)),
            class_="soft",
        ),
        advice_and_evidence(found, short=True),
        class_=f"card incident {line.severity or 'notice'}",
    )


def _incident_columns(now: float) -> Columns[IncidentLine]:
    of = columns.of_incidents(now)
    return {
        "severity": ("", lambda i: badge(i.severity or "notice")),
        "incident": (HEAD, lambda i: Row(incident_link(i.identifier))),
        "object": (WIDE, of["object"]),
        "since": (KEY, of["since"]),
        "summary": (WIDE, of["summary"]),
    }


def _waiting_columns(now: float) -> Columns[WaitingLine]:
    of = columns.of_waiting(now)
    return {
        "device": (KEY, of["device"]),
        "program": (HEAD, of["program"]),
        "unit": (KEY, of["unit"]),
        "tasks": (NUMBER, of["tasks"]),
        "call": (KEY, of["call"]),
        "file": (WIDE, of["file"]),
        "at least": (NUMBER, of["at least"]),
        "when": (KEY, of["when"]),
        "because of": (WIDE, of["because of"]),
    }


def _alert_columns(now: float) -> Columns[AlertLine]:
    of = columns.of_alerts(now)

    def state(alert: AlertLine) -> str:
        return badge("unknown") if alert.state == "unknown" else columns.state_of(alert)

    return {
        "severity": ("", lambda a: badge(a.severity)),
        "state": ("", state),
        "alert": (HEAD, of["alert"]),
        "object": (WIDE, of["object"]),
        "since": (KEY, of["since"]),
        "summary": (WIDE, of["summary"]),
    }


# --- write-back


def _writeback(found: WritebackLine) -> Markup:
    queued, limit = found.queued_bytes, found.threshold_bytes
    if queued is None or not limit:
        return section("writeback", "Write-back", tag("p", "No data yet."))
    ratio = queued / limit
    freerun = found.freerun_bytes
    head = f"{size(queued)} of {size(limit)} unwritten data ({percentage(ratio)})"
    facts = [
        ("writers are paused from", "" if freerun is None else size(freerun)),
        (
            "disks write",
            ""
            if found.bandwidth_bytes_per_second is None
            else f"{size(found.bandwidth_bytes_per_second)}/s",
        ),
        (
            "time to write it all",
            "" if found.drain_seconds is None else quantity("_seconds", found.drain_seconds),
        ),
    ]
    values = [value for _, value in found.course]
    course = None
    if len(found.course) > 1:
        lasted = found.course[-1][0] - found.course[0][0]
        words = (
            f"Unwritten data in the last {span(lasted)}: {size(min(values))} to"
            f" {size(max(values))}, now {size(values[-1])}"
        )
        near = max(values) > 0.25 * limit  # otherwise the limits would flatten the course
        limits = [("onset", freerun or limit), ("limit", limit)] if near else []
        lines = "; dashed: where writers are paused, and where they stop" if near else ""
        course = tag(
            "figure",
            chart.area(found.course, limits, words),
            tag("figcaption", f"{words}{lines}"),
        )
    return section(
        "writeback",
        "Write-back",
        tag("p", tag("strong", head)),
        chart.meter(ratio, None if freerun is None else freerun / limit, head),
        pairs(facts),
        course
        or tag("p", "The course of the last 15 minutes: not enough data yet.", class_="soft"),
    )


# --- storage


def _storage(found: IndexPage) -> Markup:
    machine = found.machine
    if not machine.tree:
        return section("storage", "Storage, from file system to disk", tag("p", "No data yet."))
    bad = [n for n in machine.tree if n.severity in {"critical", "warning"}]
    drawn = table("What each file system is on, with its state", machine.tree, _NODES)
    more = f"and {machine.omitted} more rows" if machine.omitted else ""
    if len(machine.tree) <= 2 * MAX_ROWS:
        return section("storage", "Storage, from file system to disk", drawn)
    return section(
        "storage",
        "Storage, from file system to disk",
        table("With alerts", bad, _NODES) if bad else tag("p", "No alert about any of it."),
        folded(f"All {len(machine.tree)} rows", drawn, tag("p", more) if more else None),
    )


def _node(node: StorageNode) -> Row:
    name = drive_link(node.disk, node.name) if node.disk else text(node.name)
    return Row(name, f"d{min(node.depth, 4)}" if node.depth else "")


def _used(node: StorageNode) -> str:
    return "" if node.used_ratio is None else percentage(node.used_ratio)


def _state(node: StorageNode) -> str | Markup:
    if node.severity:
        return badge(node.severity)
    if node.below:
        return badge(node.below, f"{node.below} below")
    if node.repeated:
        return "as above"
    return "unknown" if node.unknown else "ok"


def _described(node: StorageNode) -> str:
    """Return the same words as 'iowarden storage', and the names of the alerts."""
    if node.repeated:
        return ""
    unknown = f"unknown: {node.unknown}" if node.unknown else ""
    serial = f"serial {node.serial}" if node.serial else ""
    parts = (node.state, unknown, serial, node.place, node.note, ", ".join(node.alerts))
    return "; ".join(part for part in parts if part)


_NODES: Columns[StorageNode] = {
    "name": (HEAD, _node),
    "kind": (KEY, lambda n: n.kind),
    "size": (NUMBER, lambda n: "" if n.size_bytes is None else size(n.size_bytes)),
    "used": (NUMBER, _used),
    "state": ("", _state),
    "details": (WIDE, _described),
}


# --- devices


def _devices(found: IndexPage) -> Markup:
    rows = sorted(
        found.machine.devices,
        key=lambda d: (-(d.hang_seconds or 0.0), -(d.utilization_ratio or 0.0), d.device),
    )
    if not rows:
        return section("devices", "Devices", tag("p", "No data yet."))
    caption = "I/O of the last minute, hung and busy ones first"
    others = rows[MAX_ROWS:]
    return section(
        "devices",
        "Devices",
        table(caption, rows[:MAX_ROWS], _DEVICES),
        folded(f"{len(others)} more", table("Other devices", others, _DEVICES)) if others else None,
    )


def _rate(value: float | None) -> str:
    return "" if value is None else f"{size(value)}/s" if value else "0"


def _latency(value: float | None) -> str:
    return "" if value is None else duration(value)


def _hang(device: DeviceLine) -> str | Markup:
    seconds = device.hang_seconds or 0.0
    return text(duration(seconds)) if seconds >= 1 else ""


_DEVICES: Columns[DeviceLine] = {
    "device": (HEAD, lambda d: Row(drive_link(d.disk, d.device))),
    "utilization": (
        NUMBER,
        lambda d: "" if d.utilization_ratio is None else percentage(d.utilization_ratio),
    ),
    "read": (NUMBER, lambda d: _rate(d.read_bytes_per_second)),
    "written": (NUMBER, lambda d: _rate(d.written_bytes_per_second)),
    "in flight": (NUMBER, lambda d: "" if d.in_flight is None else f"{d.in_flight:g}"),
    "read latency": (NUMBER, lambda d: _latency(d.read_latency_seconds)),
    "write latency": (NUMBER, lambda d: _latency(d.write_latency_seconds)),
    "nothing completed for": (NUMBER, _hang),
}


# --- drives


def _drives(
    found: IndexPage,
    temperatures: Mapping[str, Sequence[tuple[float, float]]],
    history_note: str,
) -> Markup:
    disks = found.disks
    now = found.status.now_seconds
    rows = sorted(disks.disks, key=lambda d: not _needs_attention(d))

    def course(disk: DiskLine) -> Markup:
        values = temperatures.get(disk.disk, ())
        if len(values) < 2:
            return Markup("")
        low, high = min(v for _, v in values), max(v for _, v in values)
        return chart.sparkline(values, f"{low:g} to {high:g} C in 30 days")

    of: Columns[DiskLine] = {
        "disk": (HEAD, lambda d: Row(drive_link(d.disk, d.device or d.access_method or d.slot))),
        "serial": (KEY, lambda d: d.disk),
        "model": (KEY, lambda d: d.model),
        "size": (NUMBER, lambda d: "" if d.capacity_bytes is None else size(d.capacity_bytes)),
        "health": ("", _health),
        "monitoring": (KEY, lambda d: d.monitoring_state),
        "temperature": (
            NUMBER,
            lambda d: "" if d.temperature_celsius is None else f"{d.temperature_celsius:g} C",
        ),
        "30 days": ("", course),
        "power-on": (
            NUMBER,
            lambda d: "" if d.power_on_hours is None else f"{d.power_on_hours:g} h",
        ),
        "alerts": (WIDE, lambda d: ", ".join(d.alerts)),
    }
    looked = disks.discovered_seconds
    when = "not yet" if looked is None else since_text(looked, now)
    others = rows[MAX_ROWS:]
    return section(
        "drives",
        "Drives",
        tag("p", badge(disks.status or "unknown"), SPACE, disks.summary) if disks.summary else None,
        listed(disks.problems),
        table("Drives, those with a problem first", rows[:MAX_ROWS], of)
        if rows
        else tag("p", "No drive is known yet."),
        folded(f"{len(others)} more", table("Other drives", others, of)) if others else None,
        tag(
            "p",
            f"Last disk discovery: {when}."
            + (f" Temperatures of 30 days: {history_note}" if history_note else ""),
            class_="soft",
        ),
    )


def _needs_attention(disk: DiskLine) -> bool:
    bad = disk.health == "FAILED" or bool(disk.alerts)
    return bad or (disk.physical and disk.monitoring_state not in _FINE)


def _health(disk: DiskLine) -> str | Markup:
    return badge("critical", "FAILED") if disk.health == "FAILED" else disk.health


# --- arrays


def _arrays(found: IndexPage) -> Markup:
    rows = found.machine.arrays
    return section(
        "arrays",
        "Controllers and arrays",
        table("Software RAID arrays, controllers and their components", rows, _ARRAYS)
        if rows
        else tag("p", "None found."),
        listed(found.machine.problems),
    )


def _array_state(line: ArrayLine) -> str | Markup:
    word = _HEALTH.get(line.health, "")
    shown = line.state or line.health
    if not word:
        return shown
    other = f"{shown} ({line.health})" if line.health not in {shown, "ok"} else shown
    return badge(word, other)


def _activity(line: ArrayLine) -> str:
    if not line.activity:
        return ""
    done = "" if line.done_ratio is None else f" {percentage(line.done_ratio)}"
    speed = line.speed_bytes_per_second
    return f"{line.activity}{done}" + ("" if speed is None else f", {size(speed)}/s")


_ARRAYS: Columns[ArrayLine] = {
    "name": (HEAD, lambda a: a.name),
    "kind": (KEY, lambda a: a.kind),
    "state": ("", _array_state),
    "members": (NUMBER, lambda a: a.members),
    "activity": (KEY, _activity),
    "size": (NUMBER, lambda a: "" if a.size_bytes is None else size(a.size_bytes)),
}


# --- events, service


def _events(events: Sequence[EventLine], now: float) -> Markup:
    return section(
        "events",
        "Latest events",
        event_table("Latest events, the newest first", events, now)
        if events
        else tag("p", "No storage event since the service started."),
        tag("p", "Older ones: iowarden events", class_="soft"),
    )


def _receiver_state(line: MailLine) -> str:
    if line.error:
        return "failing"
    return "waiting" if line.waiting or line.refused else "ok"


def _service(found: IndexPage) -> Markup:
    status = found.status
    now = status.now_seconds
    sources = sorted(found.machine.sources, key=lambda s: (not s.silent, s.name))
    errors = {each.name: each.error for each in status.collectors}
    silences = columns.of_silences(now)
    bad = sum(each.silent for each in sources)
    return section(
        "service",
        "Monitoring service",
        pairs(
            [
                ("running for", span(now - status.started_seconds)),
                ("probe", "connected" if status.probe.connected else _probe(status)),
                ("collectors", f"{status.collectors_ok} ok, {len(status.collectors)} not ok"),
            ]
        ),
        table(
            "Receivers of notifications",
            [status.notifications, *status.receivers],
            {
                "receiver": (HEAD, lambda m: m.receiver or "mail"),
                "state": (KEY, _receiver_state),
                "waiting": (NUMBER, lambda m: str(m.waiting)),
                "oldest": (
                    KEY,
                    lambda m: "" if m.oldest_seconds is None else since_text(m.oldest_seconds, now),
                ),
                "refused": (NUMBER, lambda m: str(m.refused) if m.refused else ""),
                "last error": (WIDE, lambda m: m.error),
            },
        ),
        table(
            "Silences",
            status.silences,
            {
                "silence": (HEAD, silences["silence"]),
                "alerts": (WIDE, silences["alerts"]),
                "ends": (KEY, silences["ends"]),
                "by": (KEY, silences["by"]),
                "reason": (WIDE, silences["reason"]),
            },
        )
        if status.silences
        else tag("p", "No active silence."),
        folded(
            f"Data sources: {len(sources)}, {bad} without current data",
            table("Data sources, those without current data first", sources, _sources(errors)),
        ),
        folded(
            f"Rules: {sum(each.rules for each in found.machine.rules)}",
            table("Groups of rules", found.machine.rules, _RULES),
        ),
    )


def _probe(status: Status) -> str:
    error = status.probe.error
    return f"not connected: {error}" if error else "not connected"


def _sources(errors: Mapping[str, str]) -> Columns[SourceState]:
    def outcome(source: SourceState) -> str | Markup:
        return badge("unknown", source.outcome) if source.silent else source.outcome

    def age(source: SourceState) -> str:
        return "never" if source.age_seconds is None else f"{span(source.age_seconds)} ago"

    return {
        "data source": (HEAD, lambda s: s.name),
        "outcome": ("", outcome),
        "last valid data": (NUMBER, age),
        "interval": (NUMBER, lambda s: span(s.period_seconds)),
        "error": (WIDE, lambda s: errors.get(s.name, "")),
    }


def _count(value: int) -> str:
    return str(value) if value else ""


_RULES: Columns[RuleGroupLine] = {
    "group": (HEAD, lambda g: g.name),
    "rules": (NUMBER, lambda g: str(g.rules)),
    "interval": (NUMBER, lambda g: span(g.interval_seconds)),
    "firing": (NUMBER, lambda g: _count(g.firing)),
    "pending": (NUMBER, lambda g: _count(g.pending)),
    "unknown": (NUMBER, lambda g: _count(g.unknown)),
    "failing": (NUMBER, lambda g: badge("warning", str(g.failing)) if g.failing else ""),
}
