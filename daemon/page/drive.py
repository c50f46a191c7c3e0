"""The page of a drive: monitoring, SMART data, how its values developed, self-tests. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from iowarden.collectors.quantity import percentage, quantity
from iowarden.daemon.page import chart
from iowarden.daemon.page.frame import (
    HEAD,
    KEY,
    NUMBER,
    WIDE,
    Frame,
    Row,
    badge,
    event_table,
    folded,
    page,
    pairs,
    section,
    table,
)
from iowarden.daemon.page.html import SPACE, Markup, paragraph, tag
from iowarden.daemon.page.incident import incident_link
from iowarden.daemon.terminal import columns
from iowarden.daemon.terminal.times import since_text, span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iowarden.daemon.control.documents import AttributeLine, DiskDetail
    from iowarden.daemon.control.page_documents import DrivePage

COURSES = {
    "197 raw": "197 Current_Pending_Sector",
    "5 raw": "5 Reallocated_Sector_Ct",
    "198 raw": "198 Offline_Uncorrectable",
    "187 raw": "187 Reported_Uncorrect",
    "188 raw": "188 Command_Timeout",
    "199 raw": "199 UDMA_CRC_Error_Count",
    "pending_sectors": "pending sectors",
    "grown_defects": "grown defects",
    "uncorrected_read_total": "uncorrected read errors",
    "uncorrected_write_total": "uncorrected write errors",
    "non_medium_errors_total": "non-medium errors",
    "media_errors_total": "media errors",
    "available_spare_ratio": "spare",
    "endurance_used_ratio": "endurance used",
    "errors_logged_total": "error log entries",
    "temperature_celsius": "temperature",
}
"""Values whose course is shown, by their name in history.db."""
COURSE_DAYS = 365
_FINE = frozenset({"monitored", "asleep"})


def render(
    found: DrivePage,
    courses: Mapping[str, Sequence[tuple[float, float]]],
    history_note: str = "",
    *,
    full: bool = True,
    note: str = "",
) -> bytes:
    """Return the page. `courses` are of its values, by their names in history.db."""
    detail = found.detail
    line, now = detail.line, detail.now_seconds
    word = _word(detail)
    name = line.device or line.slot or line.access_method
    return page(
        Frame(found.version, now, full),
        title=f"{word}: {name} {line.disk} - {found.host} - iowarden",
        heading=tag("h1", badge(word), SPACE, f"{found.host}: drive {line.object or line.disk}"),
        here=Markup(f"/drive/{quote(line.disk, safe='')}"),
        home=True,
        content=(
            tag("p", paragraph(note)) if note else None,
            _alerts(detail),
            section("monitoring", "Monitoring", _monitoring(detail)),
            section(
                "course",
                "Course of its values",
                _courses(courses),
                tag("p", f"History: {history_note}", class_="soft") if history_note else None,
            ),
            section("data", "Drive data", pairs(detail.facts) or tag("p", "No SMART data.")),
            _attributes(detail),
            _tests(found),
            _events(found),
        ),
    )


def _events(found: DrivePage) -> Markup | None:
    now = found.detail.now_seconds
    drawn = event_table("Its events, the oldest first", found.events, now)
    return section("events", "Events", drawn) if found.events else None


def _word(detail: DiskDetail) -> str:
    active = [a.severity for a in detail.alerts if a.state == "firing"]
    worst = next((s for s in ("critical", "warning") if s in active), "")
    if worst:
        return worst
    if detail.line.health == "FAILED":
        return "critical"
    return "ok" if detail.line.monitoring_state in _FINE else "unknown"


def _alerts(detail: DiskDetail) -> Markup:
    of = columns.of_alerts(detail.now_seconds)
    return section(
        "alerts",
        "Alerts",
        table(
            "Alerts about this drive",
            detail.alerts,
            {
                "severity": ("", lambda a: badge(a.severity)),
                "state": ("", lambda a: a.state),
                "alert": (HEAD, of["alert"]),
                "since": (KEY, of["since"]),
                "summary": (WIDE, of["summary"]),
                "incident": ("", lambda a: incident_link(a.incident) if a.incident else ""),
            },
            stack=True,
        )
        if detail.alerts
        else tag("p", "No alert about this drive."),
    )


def _monitoring(detail: DiskDetail) -> Markup:
    line, now = detail.line, detail.now_seconds
    full_read = ""
    if line.full_read_seconds is not None:
        by = line.full_read_by.replace("_", " ").replace("self test", "self-test")
        full_read = f"{span(now - line.full_read_seconds)} ago by {by}"
    return pairs(
        [
            ("monitoring", line.monitoring_state),
            (
                "last polled",
                "" if line.polled_seconds is None else since_text(line.polled_seconds, now),
            ),
            ("reason", line.reason),
            ("what to do", line.remedy),
            ("access method", line.access_method),
            ("listed by", ", ".join(line.expected_by)),
            ("read completely", full_read),
            ("slot", line.slot),
            ("used by", ", ".join(detail.used_by)),
            ("unavailable", "; ".join(line.unavailable)),
            ("other access methods", ", ".join(detail.other_access_methods)),
            ("smartctl", "; ".join(detail.messages)),
        ]
    )


def _courses(courses: Mapping[str, Sequence[tuple[float, float]]]) -> Markup:
    rows = [(name, shown, courses[name]) for name, shown in COURSES.items() if courses.get(name)]
    if not rows:
        return tag("p", "No stored values.")

    def ends(row: tuple[str, str, Sequence[tuple[float, float]]], at: int) -> str:
        return _value(row[0], row[2][at][1])

    def line(row: tuple[str, str, Sequence[tuple[float, float]]]) -> Markup:
        name, shown, course = row
        values = [value for _, value in course]
        words = f"{shown}: {_value(name, min(values))} to {_value(name, max(values))}"
        return chart.sparkline(course, words)

    def days(row: tuple[str, str, Sequence[tuple[float, float]]]) -> str:
        return span(row[2][-1][0] - row[2][0][0])

    return table(
        f"Stored values of up to {COURSE_DAYS} days",
        rows,
        {
            "value": (HEAD, lambda r: r[1]),
            "first": (NUMBER, lambda r: ends(r, 0)),
            "course": ("", line),
            "now": (NUMBER, lambda r: ends(r, -1)),
            "stored for": (NUMBER, days),
        },
    )


def _value(name: str, value: float) -> str:
    return f"{value:.3g} C" if name == "temperature_celsius" else quantity(name, value)


def _attributes(detail: DiskDetail) -> Markup | None:
    if not detail.attributes:
        return None

    def failed(attribute: AttributeLine) -> str | Markup:
        word = attribute.when_failed
        return badge("critical" if word == "now" else "warning", word) if word else ""

    return section(
        "attributes",
        "SMART attributes",
        table(
            "Attributes as the drive reports them",
            detail.attributes,
            {
                "attribute": (HEAD, lambda a: Row(f"{a.id} {a.name}")),
                "value": (NUMBER, lambda a: a.value),
                "worst": (NUMBER, lambda a: a.worst),
                "threshold": (NUMBER, lambda a: a.threshold),
                "when failed": ("", failed),
                "raw": (NUMBER, lambda a: a.raw),
            },
        ),
    )


def _tests(found: DrivePage) -> Markup:
    detail = found.detail
    now = detail.now_seconds
    parts: list[Markup | None] = []
    if found.self_tests:
        parts.append(
            table(
                "The last self-test of each kind",
                found.self_tests,
                {
                    "self-test": (HEAD, lambda r: r.kind or "other"),
                    "outcome": ("", lambda r: r.outcome.replace("_", " ")),
                    "started": (KEY, lambda r: _since(r.started_seconds, now)),
                    "text": (WIDE, lambda r: r.text),
                    "waits": (WIDE, lambda r: r.postponed),
                    "next": (KEY, lambda r: _in(r.next_seconds, now)),
                },
            )
        )
    scan = found.scan
    if scan is not None and (scan.started_seconds is not None or scan.next_seconds is not None):
        parts.append(
            table(
                "Surface scan",
                [scan],
                {
                    "state": (HEAD, lambda s: s.state.replace("_", " ")),
                    "progress": (
                        NUMBER,
                        lambda s: "" if s.progress_ratio is None else percentage(s.progress_ratio),
                    ),
                    "started": (KEY, lambda s: _since(s.started_seconds, now)),
                    "last complete": (KEY, lambda s: _since(s.completed_seconds, now)),
                    "unreadable ranges": (NUMBER, lambda s: str(len(s.bad_ranges) or "")),
                    "waits": (WIDE, lambda s: s.waits),
                    "text": (WIDE, lambda s: s.text),
                    "next": (KEY, lambda s: _in(s.next_seconds, now)),
                },
            )
        )
    if detail.self_tests:
        log = table(
            "Self-test log of the drive, the newest first",
            detail.self_tests,
            {
                "self-test": (HEAD, lambda t: t.kind),
                "result": (
                    "",
                    lambda t: badge("critical", "FAILED") if t.result == "FAILED" else t.result,
                ),
                "status": (WIDE, lambda t: t.status),
                "power-on": (NUMBER, lambda t: "" if t.hours is None else f"{t.hours} h"),
                "LBA of first error": (NUMBER, lambda t: "" if t.lba is None else str(t.lba)),
            },
        )
        parts.append(folded("Self-test log", log) if len(detail.self_tests) > 5 else log)
    return section(
        "tests",
        "Self-tests and surface scan",
        *(parts or [tag("p", "None known.")]),
    )


def _since(at_seconds: float | None, now: float) -> str:
    return "" if at_seconds is None else since_text(at_seconds, now)


def _in(at_seconds: float | None, now: float) -> str:
    return "" if at_seconds is None else f"in {span(at_seconds - now)}"
