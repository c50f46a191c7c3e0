"""The first line of 'iowarden status' and of the page: what is worst, not how much there is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iowarden.daemon.control.documents import AcknowledgementLine, AlertLine, IncidentLine
from iowarden.daemon.views.headline import headline, titled

SDA = IncidentLine("a1", "critical", "sda (ACME, serial S1)", 1.0, True, "sda cannot read sectors")
MD0 = IncidentLine("b2", "warning", "md0", 2.0, True, "1 member missing")
STALL = IncidentLine("c3", "warning", "host", 3.0, True, "writes stalled, 593 MiB queued")
TAKEN = AcknowledgementLine("root", 1.0, "disk ordered")


def alert(severity: str, **fields: object) -> AlertLine:
    """Return an alert that fires."""
    return AlertLine("A", severity, "firing", **fields)  # type: ignore[arg-type]


CRITICAL = alert("critical", incident="a1")


@pytest.mark.parametrize(
    ("incidents", "alerts", "expected"),
    [
        ([], [], "ok: no alert fires"),
        ([], [alert("info"), alert("notice")], "ok: no open incident; 2 alerts below warning"),
        ([SDA], [CRITICAL], "critical: sda cannot read sectors"),
        ([MD0], [alert("warning", incident="b2")], "warning: md0: 1 member missing"),
        (
            [MD0, SDA, STALL],
            [CRITICAL, alert("info")],
            "critical: sda cannot read sectors; 2 more open incidents",
        ),
        (
            [STALL],
            [alert("warning", incident="c3"), alert("critical", object="/", summary="95 % full")],
            "critical: /: 95 % full; 1 more",
        ),
        ([], [alert("warning", object="sdb")], "warning: sdb: A"),
        (
            [IncidentLine("d4", "warning", "sdb", 1.0, False, "was slow")],
            [],
            "ok: cleared, was: sdb: was slow",
        ),
        (
            [replace(SDA, firing=False, cleared_seconds=9.0, stays=True)],
            [],
            "unknown: no longer reported, was: sda cannot read sectors",  # nobody repaired them
        ),
        (
            [IncidentLine("g7", "critical", "sdc", 1.0, True, "sdc hangs", cleared_seconds=9.0)],
            [alert("critical", incident="g7", cleared_seconds=9.0)],
            "critical: cleared, was: sdc hangs",
        ),
        (
            [],
            [alert("warning", object="sdb", summary="slow", cleared_seconds=9.0)],
            "warning: cleared, was: sdb: slow",
        ),
        ([], [AlertLine("A", "critical", "unknown")], "unknown: 1 alert unknown"),
        ([], [AlertLine("A", "info", "unknown")], "ok: 1 alert unknown"),
    ],
)
def test_the_worst_is_named(
    incidents: list[IncidentLine], alerts: list[AlertLine], expected: str
) -> None:
    """'warning: 1 open incident, 3 info alerts' sent every reader to the tables."""
    assert headline(incidents, alerts) == expected


def test_what_somebody_works_on_comes_after_its_equals() -> None:
    """An acknowledged or silenced incident is named only if nothing as severe is open."""
    taken = IncidentLine("e5", "warning", "sdc", 1.0, True, "it is slow", acknowledged=TAKEN)
    quiet = IncidentLine("f6", "warning", "sdd", 1.0, True, "it is slow", silences=("x",))
    fires = [alert("warning", incident="e5", silences=("x",))]
    assert headline([taken, quiet, MD0], fires) == (
        "warning: md0: 1 member missing; 2 more open incidents; 1 alert silenced"
    )
    assert headline([taken], fires).startswith("warning: sdc: it is slow")


def test_an_incident_without_a_text_is_named_by_its_object() -> None:
    """A reader without authentication may not see the lines of the kernel."""
    assert titled("sda (ACME)", "") == "an incident of sda"
    assert titled("host", "") == "an incident of host"
