"""The event table: meanings, storms, and events that are reported twice."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recordings import CORPUS, needs_corpus

from iowarden.collectors.block import surface
from iowarden.collectors.event import StorageEvent
from iowarden.collectors.kmsg import kernel_classifier, kernel_events, kernel_kinds
from iowarden.collectors.kmsg.kernel_line import parse_text
from iowarden.collectors.md import md_events
from iowarden.collectors.raid.areca import event_info
from iowarden.collectors.raid.megaraid import storcli_events
from iowarden.collectors.raid.threeware import alarms
from iowarden.rules.events import event_correlation
from iowarden.rules.events.event_table import (
    UNKNOWN,
    Burst,
    EventTable,
    Storm,
    extended,
    object_of,
    parse_events_file,
    twins,
)
from iowarden.rules.severity import Severity
from iowarden.rules.yaml_nodes import RuleFileError

FILE = Path(__file__).parents[3] / "rules" / "events" / "events.yaml"
CRITICAL, WARNING, INFO = Severity.CRITICAL, Severity.WARNING, Severity.INFO


@pytest.fixture(scope="module")
def table() -> EventTable:
    """The shipped table."""
    return parse_events_file(FILE.read_text(), FILE.name)


def kernel(text: str) -> StorageEvent:
    """The event of one kernel line."""
    (line,) = parse_text(text)
    state, events = kernel_events.classify(kernel_classifier.Classifier(), line)
    (event,) = (*events, *kernel_events.finish(state))
    return event


def medium_error(at: float, device: str = "sdb") -> StorageEvent:
    """A sector that cannot be read."""
    text = f"critical medium error, dev {device}, sector {at:.0f}"
    return StorageEvent("kernel", "block_medium_error", text, device=device, realtime_seconds=at)


@pytest.mark.parametrize(
    "source",
    [kernel_kinds, event_info, alarms, storcli_events, md_events, surface, event_correlation],
)
def test_every_kind_of_every_source_has_a_row(table: EventTable, source: object) -> None:
    """None of them falls back on 'unknown'."""
    kinds = vars(source)["KINDS"]
    assert set(kinds) - set(table.rows) == set()


def test_no_row_is_of_a_kind_that_nothing_reports(table: EventTable) -> None:
    """A misspelled kind would never match."""
    logs = (kernel_kinds, event_info, alarms, storcli_events, md_events, surface)
    known = {kind for log in logs for kind in log.KINDS}
    assert set(table.rows) == known | set(event_correlation.KINDS)


def test_what_is_mailed_has_advice_a_meaning_for_users_and_its_source(table: EventTable) -> None:
    """Also what is escalated in a storm: 'the kernel disabled a disk' says nothing about data."""
    for row in table.rows.values():
        worst = max(row.severity or INFO, row.storm.severity if row.storm else INFO)
        assert (row.advice and row.effect) or worst < WARNING, row.kind
        assert row.source, row.kind


@pytest.mark.parametrize(
    ("text", "kind", "severity"),
    [
        ("critical medium error, dev sda, sector 55", "block_medium_error", WARNING),
        ("sd 0:0:0:0: rejecting I/O to offline device", "scsi_rejected", WARNING),
        ("md/raid1:md0: Disk failure on sdb1, disabling device.", "md_disk_failure", WARNING),
        ("EXT4-fs (sdb1): Remounting filesystem read-only", "fs_readonly", CRITICAL),
        ("md: md0: recovery done.", "md_sync_done", INFO),
        (
            "3w-9xxx: scsi6: AEN: ERROR (0x04:0x0009): Drive timeout detected:port=3.",
            "3ware_drive_timeout_detected",
            CRITICAL,
        ),
        (
            "3w-9xxx: scsi6: AEN: INFO (0x04:0x0009): Drive timeout detected:port=3.",
            "3ware_drive_timeout_detected",
            INFO,  # as it was sent
        ),
        (
            "3w-xxxx: scsi0: AEN: WARNING: Sector repair occured: Port #1.",
            "3ware_sector_repair_completed",
            WARNING,
        ),
        ("3w-9xxx: scsi6: AEN: ERROR (0x04:0x0999): Something:port=3.", "3ware_other", CRITICAL),
        ("3w-9xxx: scsi6: AEN: HM (0x04:0x0999): Something:port=3.", "3ware_other", WARNING),
    ],
)
def test_a_line_of_the_kernel_has_its_meaning(
    table: EventTable, text: str, kind: str, severity: Severity
) -> None:
    """From the line to the row: an unknown line is a warning."""
    event = kernel(text)
    row = table.find(event)
    assert (row.kind, row.severity_of(event)) == (kind, severity)


def test_an_event_of_a_source_nobody_knows_needs_attention(table: EventTable) -> None:
    """It is reported, never dropped."""
    assert table.find(StorageEvent("storcli", "storcli_pd_removed", "PD removed")) is UNKNOWN
    row = table.find(StorageEvent("areca", "areca_new_thing", "New Thing"))
    assert (row.kind, row.severity) == ("areca_other", WARNING)


def test_somebody_who_logs_in_is_noise(table: EventTable) -> None:
    """Whatever level the vendor gives it."""
    event = StorageEvent(
        "areca", "areca_http_log_in", "Proxy Or Inband HTTP Log In", word="Warning"
    )
    assert table.find(event).severity_of(event) is None


def gather(
    before: dict[tuple[str, str, str], Burst], events: list[StorageEvent], known: EventTable
) -> dict[tuple[str, str, str], Burst]:
    """Return the bursts with further events, each in the burst of its kind and object."""
    after = dict(before)
    for event in events:
        row = known.find(event)
        key = (event.source, row.kind, object_of(event))
        after[key] = extended(after.get(key), row, event)
    return after


def test_five_errors_of_a_disk_in_ten_minutes_are_critical(table: EventTable) -> None:
    """Four are a warning, and so are five of two disks."""
    four = gather({}, [medium_error(100.0 * n) for n in range(4)], table)
    (burst,) = four.values()
    assert (burst.severity, burst.count) == (WARNING, 4)
    both = gather(four, [medium_error(400, "sdc")], table)
    assert [each.severity for each in both.values()] == [WARNING, WARNING]
    (burst,) = gather(four, [medium_error(500)], table).values()
    assert (burst.severity, burst.count) == (CRITICAL, 5)
    assert (burst.first, burst.last) == (medium_error(0), medium_error(500))
    # It does not become less while it goes on, and ends after ten quiet minutes.
    (burst,) = gather({("kernel", burst.kind, "sdb"): burst}, [medium_error(1100)], table).values()
    assert (burst.severity, burst.count) == (CRITICAL, 6)
    (burst,) = gather({("kernel", burst.kind, "sdb"): burst}, [medium_error(1701)], table).values()
    assert (burst.severity, burst.count) == (WARNING, 1)


@pytest.mark.parametrize(
    "kind",
    [
        "ata_bus_error", "ata_interface_error", "ata_reset", "ata_reset_failed", "ata_timeout",
        "hba_abort", "hba_reset", "megaraid_command_timeout", "megaraid_pd_reset", "nvme_reset",
        "nvme_timeout", "scsi_abort", "scsi_aborted_command", "scsi_link_error", "scsi_reset",
        "scsi_timeout",
    ],
)  # fmt: skip
def test_what_the_kernel_sends_again_is_never_critical_however_often(
    table: EventTable, kind: str
) -> None:
    """A bad cable: a request that finally fails has a block layer line, a hang has its alert."""
    row = table.rows[kind]
    worst = max(row.severity or INFO, row.storm.severity if row.storm else INFO)
    assert worst == WARNING


def test_slow_errors_are_no_storm(table: EventTable) -> None:
    """One every five minutes, all day."""
    (burst,) = gather({}, [medium_error(300.0 * n) for n in range(100)], table).values()
    assert (burst.severity, burst.count) == (WARNING, 100)


def test_a_hundred_thousand_lines_are_one_burst(table: EventTable) -> None:
    """A count, the first and the last."""
    events = [medium_error(n / 1000) for n in range(100_000)]
    (burst,) = gather({}, events, table).values()
    assert (burst.count, burst.severity) == (100_000, CRITICAL)
    assert (burst.first, burst.last) == (events[0], events[-1])


@given(times=st.lists(st.floats(0, 1e5), max_size=30), data=st.data())
def test_bursts_do_not_depend_on_how_often_one_looks(
    table: EventTable, times: list[float], data: st.DataObject
) -> None:
    """All events at once or in two portions."""
    events = [medium_error(at) for at in sorted(times)]
    cut = data.draw(st.integers(0, len(events)))
    in_two = gather(gather({}, events[:cut], table), events[cut:], table)
    assert in_two == gather({}, events, table)


AEN = "3w-9xxx: scsi6: AEN: ERROR (0x04:0x0009): Drive timeout detected:port=3."


def driver(at: float, port: int = 3, host: str = "host6") -> StorageEvent:
    """A 3ware event in the kernel log."""
    event = kernel(AEN.replace("port=3", f"port={port}"))
    return dataclasses.replace(
        event, controller=host, realtime_seconds=at, monotonic_seconds=at, boot_id="b"
    )


def tool(at: float, port: int = 3, name: str = "c0", sequence: int = 0) -> StorageEvent:
    """The same event in the tool's log, in a time zone two hours ahead."""
    return StorageEvent(
        "3ware",
        "3ware_drive_timeout_detected",
        f"Drive timeout detected: port={port}",
        controller=name,
        place=f"port {port}",
        code="0x0009",
        word="ERROR",
        clock_seconds=at + 7200,
        sequence=sequence,
    )


def test_an_event_of_a_3ware_in_both_logs_is_one(table: EventTable) -> None:
    """Same code, port and time; another port or time is another event."""
    kernels = [driver(100), driver(100, 4), driver(5000)]
    tools = [tool(101), tool(9000), tool(5000.5)]
    assert twins([*kernels, *tools], table) == (
        (kernels[0], tools[0]),
        (kernels[1],),
        (kernels[2], tools[2]),
        (tools[1],),
    )


def test_an_event_of_another_day_is_no_twin(table: EventTable) -> None:
    """No time zone is more than 14 hours from UTC."""
    assert len(twins([driver(0), tool(12 * 3600)], table)) == 1  # in its zone, 14 hours
    assert len(twins([driver(0), tool(12 * 3600 + 900)], table)) == 2


def test_two_of_one_second_are_two(table: EventTable) -> None:
    """Both logs have two."""
    kernels = [driver(100), driver(100.25)]
    tools = [tool(100), tool(100, sequence=1)]
    found = twins([*kernels, *tools], table)
    assert found == ((kernels[0], tools[0]), (kernels[1], tools[1]))


def test_two_alike_controllers_keep_their_own(table: EventTable) -> None:
    """The same port of both failed at the same time; the map distinguishes them."""
    kernels = [driver(100, host="host6"), driver(100, host="host7")]
    tools = [tool(100, name="c0"), tool(100, name="c1")]
    found = twins([*kernels, *tools], table, {"c0": "host7", "c1": "host6"})
    assert found == ((kernels[0], tools[1]), (kernels[1], tools[0]))
    assert len(twins([*kernels, *tools], table, {"c0": "host9", "c1": "host8"})) == 4


def test_a_line_of_kmsg_and_of_the_journal_is_one_event(table: EventTable) -> None:
    """Same boot, time and text."""
    once, other = driver(100), driver(101)
    assert twins([once, other, once], table) == ((once, once), (other,))


GOOD = """advice:
  disk: "{log}"
groups:
  - name: g
    condition: io_error
    source: s
    advice: disk
    events:
      one: {severity: warning, meaning: m, storm: {count: 5, window: 10m, severity: critical}}
      two: {severity: noise, meaning: m}
      three: {severity: info, meaning: m, condition: raid_array, sent: true, consequence: true}
"""


def test_a_row_takes_from_its_group_what_it_does_not_report() -> None:
    """Condition, source and advice."""
    rows = parse_events_file(GOOD, "x.yaml").rows
    assert rows["one"].storm == Storm(5, 600.0, CRITICAL)
    assert (rows["one"].advice, rows["one"].condition) == ("{log}", "io_error")
    assert (rows["one"].file, rows["one"].line) == ("x.yaml", 9)
    assert rows["two"].severity is None
    assert (rows["three"].condition, rows["three"].sent, rows["three"].consequence) == (
        "raid_array",
        True,
        True,
    )
    assert not rows["one"].sent
    assert parse_events_file("", "x.yaml").rows == {}


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("warning, meaning", "bad, meaning", "9:23: event 'one': severity: expected one of"),
        ("{severity: noise, meaning: m}", "{meaning: m}", "10:12: event 'two': severity: expected"),
        ("noise, meaning: m", "noise", "10:7: event 'two': expected a meaning; add 'meaning:'"),
        ("    condition: io_error\n", "", "8:7: event 'one': expected a condition"),
        (
            "condition: raid_array",
            "condition: M5",
            "11:54: event 'three': condition: expected a name",
        ),
        ("raid_array", "raid_arrays", ", such as 'raid_array', got 'raid_arrays'"),
        (
            "condition: raid_array",
            "condition: mail",
            "11:54: event 'three': condition: expected a name",
        ),
        ("advice: disk\n", "advice: disc\n", "7:13: event 'one': advice: no text 'disc'"),
        ("    advice: disk\n", "", "8:7: event 'one': a mail of it has no advice; add 'advice:'"),
        (
            "{log}",
            "{serial}",
            "2:9: advice: disk: unknown step {serial}; known are {add_member}, {array}",
        ),
        ("count: 5", "count: 1", "9:59: event 'one': storm: expected 'count:' from 2 to 99"),
        ("window: 10m", "window: ten", "9:70: event 'one': storm: expected a duration"),
        ("severity: critical}", "severity: info}", "9:51: event 'one': storm: expected one above"),
        ("sent: true", "sent: yes", "11:72: event 'three': sent: expected true or false"),
        ("two:", "one:", "10:7: group 'g': events: duplicate key 'one'"),
        ("two:", "Two!:", "10:7: event 'Two!': expected lower-case letters, digits and _"),
        ("noise, meaning", "noise, meanin", "10:30: event 'two': unknown key 'meanin'"),
        ("- name: g\n    condition", "- condition", "4:5: group: expected a name"),
        ("groups:", "group:", "3:1: file: unknown key 'group'"),
        ("      two:", "     two:", "not YAML"),
    ],
)
def test_what_is_wrong_is_reported_with_its_place(old: str, new: str, error: str) -> None:
    """File, line and column, what was expected and the next step."""
    with pytest.raises(RuleFileError) as caught:
        parse_events_file(GOOD.replace(old, new, 1), "x.yaml")
    assert any(one.startswith("'x.yaml':") and error in one for one in caught.value.errors), (
        caught.value.errors
    )


def test_an_effect_without_an_advice_of_its_name_is_refused() -> None:
    """It would never be shown."""
    with pytest.raises(RuleFileError, match=r":1:10: effect: no text 'disc' under 'advice'"):
        parse_events_file("effect: {disc: Data are lost.}\n", "events.yaml")


def test_a_kind_in_two_groups_is_refused() -> None:
    """It would be ambiguous which of the two applies."""
    more = (
        "  - {name: h, condition: io_error, source: s,"
        " events: {one: {severity: info, meaning: m}}}\n"
    )
    with pytest.raises(RuleFileError, match="is in two groups"):
        parse_events_file(GOOD + more, "x.yaml")


@needs_corpus
def test_events_of_other_machines_all_mean_something(table: EventTable) -> None:
    """Every event line of the corpus has a row, and none is 'unknown'."""
    told = 0
    for path in sorted((CORPUS / "kernel").rglob("*.log")):
        state = kernel_classifier.Classifier()
        for line in parse_text(path.read_text(errors="replace")):
            state, events = kernel_events.classify(state, line)
            for event in events:
                row = table.find(event)
                assert row is not UNKNOWN
                if re.match(r"3w-\S+ \S+ AEN:", event.text):
                    assert row.kind.startswith("3ware_"), event.text
                    assert row.kind != "3ware_other", event.text
                told += 1
    assert told > 100


@given(st.text(max_size=200))
def test_any_text_is_a_table_or_a_refusal(text: str) -> None:
    """The parser gives nothing else."""
    with contextlib.suppress(RuleFileError):
        assert isinstance(parse_events_file(text, "x.yaml"), EventTable)


def test_what_ends_another_kind_names_one_that_is_there(table: EventTable) -> None:
    """'nfs_responding' ends 'nfs_not_responding'; a misspelled kind would silently end nothing."""
    assert "nfs_not_responding" in table.lasting
    text = (
        "groups:\n- name: x\n  source: y\n  condition: io_error\n  events:\n"
        "    back: {severity: info, meaning: it is back, ends: goen}\n"
    )
    with pytest.raises(RuleFileError, match="no event 'goen' in this file"):
        parse_events_file(text, "events.yaml")
