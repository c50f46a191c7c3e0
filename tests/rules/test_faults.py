"""What each shipped alert and each kind of event is about: the tables are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.host import shipped_rules

from iowarden.rules import faults
from iowarden.rules.events.event_table import parse_events_file
from iowarden.rules.faults import Fault, Layer
from iowarden.rules.rulefile.rulefile import Rule
from iowarden.rules.severity import Severity

RULES = Path(__file__).parents[2] / "rules"
EVENTS = parse_events_file((RULES / "events" / "events.yaml").read_text(), "events.yaml")


def test_every_shipped_alert_is_in_the_table_and_nothing_else_is() -> None:
    """An alert that is left out would be a user's: it would fold nothing and be folded nowhere."""
    shipped = {r.alert for g in shipped_rules() for r in g.rules if isinstance(r, Rule)}
    assert shipped == faults.RULES.keys()


def test_every_event_that_may_be_mailed_has_a_fault() -> None:
    """By its kind, or by the condition of its row; no entry is for an event that is not there."""
    for row in EVENTS.rows.values():
        worst = max(row.severity or Severity.INFO, row.storm.severity if row.storm else 0)
        if worst >= Severity.WARNING:
            own = faults.meaning(row.kind, row.condition, event=True)
            assert own.fault is not Fault.OTHER, row.kind
    assert faults.EVENTS.keys() <= EVENTS.rows.keys()


def test_no_name_stands_twice_in_the_tables() -> None:
    """The second entry would silently win."""
    text = (RULES / "faults.py").read_text()
    names = re.findall(r"\b(?:[A-Z][a-z0-9]+){2,}\b|\b[a-z0-9]+_[a-z0-9_]+\b", "".join(
        re.findall(r"_all\((.*?)Fault\.", text, re.DOTALL)
    ))  # fmt: skip
    assert len(names) > len(faults.RULES)
    assert [name for name in set(names) if names.count(name) > 1] == []


@pytest.mark.parametrize(
    "condition", ["Database-down", "device_hang", "write_stall", "raid_array", "B1"]
)
def test_a_users_label_condition_is_an_ordinary_label(condition: str) -> None:
    """Only the names of shipped alerts define a condition; the event table is iowarden's own."""
    assert faults.meaning("DatabaseDown", condition) == faults.OTHER
    assert faults.meaning("DeviceHang", condition).fault is Fault.HANGS


def test_what_a_line_reports_of_a_device_that_follows_its_error_is_deeper_than_no_other() -> None:
    """'Lost async page write' is what a vanished disk brings about, whichever is read first."""
    lost = faults.meaning("lost_write", "io_error", event=True)
    gone = faults.meaning("ata_disabled", "device_unavailable", event=True)
    assert (gone.layer, lost.layer) == (Layer.DISK, Layer.FILE_SYSTEM)
