"""Events taken from the logs: once, also if the state of the previous run is loaded late."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iowarden.collectors.event import StorageEvent
from iowarden.collectors.kmsg.kernel_log import KernelCursor, KernelLog
from iowarden.collectors.model import Outcome, Reading
from iowarden.collectors.raid.controller import Controllers, LastListing
from iowarden.collectors.raid.log_alignment import LogCursor
from iowarden.daemon.polling.controllers import ControllerPoller
from iowarden.daemon.service import persisted_state
from iowarden.daemon.service.event_pipeline import Callbacks, Cursors, EventPipeline
from iowarden.daemon.transition_log import TransitionLog
from iowarden.rules.engine.engine import Engine
from iowarden.rules.events.event_state import CorrelationState
from iowarden.rules.events.event_table import parse_events_file
from iowarden.rules.severity import Severity
from iowarden.rules.topology.device_identity import Identity
from iowarden.rules.topology.graph import StorageGraph

if TYPE_CHECKING:
    from iowarden.daemon import journal
    from iowarden.daemon.locate.affected_files import SectorQuery

FILE = Path(__file__).parents[3] / "rules" / "events" / "events.yaml"
TABLE = parse_events_file(FILE.read_text(), FILE.name)
START = 1_800_000_000.0


class Quiet:
    """A log that is ignored."""

    lost_total = 0

    def send(
        self, kind: journal.MessageKind, priority: int, message: str, **fields: object
    ) -> None:
        """Log nothing."""

    def debug(self, text: str) -> None:
        """Log nothing."""

    def set_level(self, level: str) -> None:
        """Ignore the level."""

    def close(self) -> None:
        """Do nothing."""


def started() -> EventPipeline:
    """A program that has just started, without the state of the previous run."""
    engine = Engine([], (), START)
    telling = TransitionLog(Quiet(), lambda: START, lambda: START)
    return EventPipeline(engine, telling, TABLE, lambda now: now, callbacks=Callbacks())


SUPERBLOCK = StorageEvent(
    "kernel",
    "md_super_error",
    "md: super_written gets error=-5",
    boot_id="boot",
    realtime_seconds=START,
)


def look(source: str, value: Any, at: float = 0.0) -> tuple[Reading, float]:  # noqa: ANN401 - as Reading has it
    """A reading, at this time after the start."""
    return Reading(source, Outcome.OK, START + at, 0.0, value), START + at


def medium_error(sector: int) -> StorageEvent:
    """A kernel event."""
    return StorageEvent(
        "kernel",
        "block_medium_error",
        f"critical medium error, dev sda, sector {sector}",
        device="sda",
        sector=sector,
        boot_id="now",
        monotonic_seconds=float(sector),
        realtime_seconds=START,
    )


def reading_error(second: int) -> StorageEvent:
    """An event of an Areca's log."""
    text = "IDE Channel #02 Reading Error"
    where = {"controller": "areca 1", "place": "channel 2"}
    return StorageEvent("areca", "areca_reading_error", text, clock_seconds=START + second, **where)


def read_up_to(sector: int) -> KernelCursor:
    """The position in the kernel log after a line."""
    return KernelCursor("", "now", sector, float(sector), START)


def counts(happenings: EventPipeline) -> dict[str, int]:
    """How many events of each kind are an alert now."""
    return {h.burst.kind: h.count for h in happenings.state.groups}


def test_what_was_read_while_state_db_was_late_is_not_read_again() -> None:
    """Otherwise the next start would report it again."""
    happenings = started()
    happenings.take(*look("kernel_log", KernelLog((medium_error(90),), cursor=read_up_to(90))))
    log = {"areca 1": LogCursor(((START, "later", 0),))}
    happenings.take(*look("controllers", Controllers(cursors=log)))
    old = {"areca 1": LogCursor(()), "areca 2": LogCursor(())}
    happenings.restore(CorrelationState(), Cursors(read_up_to(10), old), {})
    assert happenings.cursors.kernel == read_up_to(90)
    assert happenings.cursors.controllers == old | log


def test_what_controllers_listed_is_expected_after_a_restart_also_where_state_db_is_late() -> None:
    """The poller expects the stored list also for controllers that it has read already."""
    poller = ControllerPoller((), lambda: START)
    engine = Engine([], (), START)
    telling = TransitionLog(Quiet(), lambda: START, lambda: START)
    asked = Callbacks(controllers=poller)
    happenings = EventPipeline(engine, telling, TABLE, lambda now: now, callbacks=asked)
    now, before = LastListing(1, 2, START), LastListing(3, 4, START - 60.0)
    happenings.take(*look("controllers", Controllers(listed={"c0": now})))
    happenings.restore(CorrelationState(), Cursors(listed={"c0": before, "c1": before}), {})
    assert happenings.cursors.listed == {"c0": now, "c1": before}
    texts = persisted_state.documents(persisted_state.PersistedState(cursors=happenings.cursors))
    assert persisted_state.read(texts, START)[0].cursors == happenings.cursors
    assert poller.expected == {"c0": before, "c1": before}


def test_a_first_look_ahead_of_state_db_is_news_as_far_as_nobody_reported_it() -> None:
    """For the kernel log and a controller's; those of a new controller are a baseline.

    While nobody knows that, all of it is a baseline.
    """
    happenings = started()
    lines = (medium_error(10), medium_error(90))
    happenings.take(*look("kernel_log", KernelLog(baseline=lines, cursor=read_up_to(90))))
    entries = (reading_error(1), reading_error(2), reading_error(3))
    another = replace(reading_error(1), controller="areca 2")
    happenings.take(*look("controllers", Controllers(baseline=(*entries, another))))
    first = sorted((h.controller, h.count, h.baseline) for h in happenings.state.groups)
    assert first == [("", 2, True), ("areca 1", 3, True), ("areca 2", 1, True)]
    known = tuple((each.clock_seconds, each.text, 0) for each in entries[:1])
    happenings.restore(
        CorrelationState(), Cursors(read_up_to(10), {"areca 1": LogCursor(known)}), {}
    )
    found = sorted((h.controller, h.count, h.baseline) for h in happenings.state.groups)
    assert found == [("", 1, False), ("areca 1", 2, False), ("areca 2", 1, True)]


def test_a_first_look_at_a_log_with_numbers_goes_by_them() -> None:
    """Equal entries with different numbers are separate events; listed ones are not repeated."""
    happenings = started()
    words = "Unexpected sense: PD 01(e0xfc/s1), Sense: 3/11/00"
    entries = [
        StorageEvent(
            "megaraid",
            "megaraid_medium_error",
            words,
            controller="megaraid c0",
            place="enclosure 252 slot 1",
            clock_seconds=START,
            sequence=number,
        )
        for number in (8, 9, 10)
    ]
    happenings.take(*look("controllers", Controllers(baseline=tuple(entries))))
    known = tuple((START, words, number) for number in (6, 7, 8, 9))
    happenings.restore(
        CorrelationState(), Cursors(controllers={"megaraid c0": LogCursor(known)}), {}
    )
    assert list(counts(happenings).values()) == [1]


def test_errors_of_before_the_start_and_of_a_late_state_db_are_all_counted() -> None:
    """The sum is compared with SMART data."""
    happenings = started()
    happenings.take(*look("kernel_log", KernelLog((medium_error(90),))))
    (host,) = happenings.state.errors
    happenings.state = replace(happenings.state, media={"S-A": 2, "S-B": 1})
    happenings.restore(
        CorrelationState(media={"S-A": 3}, errors={host: (START - 60.0,)}), Cursors(), {}
    )
    assert happenings.state.errors == {host: (START - 60.0, START)}
    assert happenings.state.media == {"S-A": 5, "S-B": 1}


def test_files_are_looked_up_for_errors_of_this_boot_alone() -> None:
    """Names in the journal of the previous boot refer to the disks of that time."""
    asked: list[SectorQuery] = []
    engine = Engine([], (), START)
    telling = TransitionLog(Quiet(), lambda: START, lambda: START)
    locate = Callbacks(locate=asked.append)
    happenings = EventPipeline(engine, telling, TABLE, lambda now: now, callbacks=locate)
    lines = (replace(medium_error(10), boot_id="before"), medium_error(90))
    happenings.take(*look("kernel_log", KernelLog(lines, boot_id="now")))
    assert [(each.device, each.start) for each in asked] == [("sda", 90)]
    assert counts(happenings) == {"block_medium_error": 2}


def test_what_the_journal_has_of_the_boot_before_is_of_the_disk_that_was_sda_then() -> None:
    """The administrator would pull a healthy disk."""
    happenings = started()
    then = Identity("serial S-SICK", "sda (serial S-SICK)")
    happenings.restore(CorrelationState(), Cursors(), {"sda": then})
    lines = (replace(medium_error(10), boot_id="before"), medium_error(90))
    happenings.take(*look("kernel_log", KernelLog(lines, boot_id="now")))
    told = {h.subject: h.burst.last.sector for h in happenings.state.groups}
    assert len(told) == 2
    assert told[then.key] == 10


def test_a_line_without_a_name_waits_a_second_for_the_line_behind_it() -> None:
    """'super_written gets error=-5' precedes the line that names array and member."""
    program = started()
    program.restore(CorrelationState(), Cursors(), {})
    program.take(*look("kernel_log", KernelLog(events=(SUPERBLOCK,))))
    assert program.state.groups == ()
    assert program.stored[0].groups == ()
    program.take(*look("kernel_log", KernelLog(events=(medium_error(8),)), 0.5))
    program.step(START + 1.0)
    assert len({each.subject for each in program.state.groups}) == 1


def test_a_line_without_a_name_whose_neighbour_never_comes_is_reported_after_a_second() -> None:
    """It is then an event of the host: no line is lost."""
    program = started()
    program.restore(CorrelationState(), Cursors(), {})
    program.take(*look("kernel_log", KernelLog(events=(SUPERBLOCK,))))
    program.step(START + 0.9)
    assert program.state.groups == ()
    program.step(START + 1.0)
    assert [each.subject for each in program.state.groups] == [""]


def test_a_bad_range_of_a_scan_is_one_incident_and_its_kernel_lines_join_it() -> None:
    """Ten failed reads of the scan are no storm; the file of the range is looked up once."""
    asked: list[SectorQuery] = []
    engine = Engine([], (), START)
    telling = TransitionLog(Quiet(), lambda: START, lambda: START)
    is_scan = range(90, 100)
    happenings = EventPipeline(
        engine,
        telling,
        TABLE,
        lambda now: now,
        callbacks=Callbacks(locate=asked.append, is_scan=lambda event: event.sector in is_scan),
    )
    happenings.restore(CorrelationState(), Cursors(), {})
    lines = tuple(medium_error(sector) for sector in range(90, 101))
    happenings.take(*look("kernel_log", KernelLog(lines, boot_id="now")))
    text = "bytes 49152 to 53247 of sda cannot be read"
    event = StorageEvent("scan", "scan_bad_range", text, device="sda", sector=96, sectors=8)
    happenings.add(event, START + 1)
    assert counts(happenings) == {
        "scan_read_error": 10,
        "block_medium_error": 1,
        "scan_bad_range": 1,
    }
    assert [(each.device, each.start, each.count) for each in asked] == [
        ("sda", 100, 4),
        ("sda", 96, 8),
    ]
    severities = {alert.label("alertname"): alert.severity for alert in happenings.alerts(START)}
    assert len({alert.subject for alert in happenings.alerts(START)}) == 1
    assert max(severities.values()) == severities["scan_bad_range"] == Severity.WARNING
    assert "scan_read_error" not in severities  # below a warning: evidence only


def test_a_hung_task_of_iowarden_is_reported_as_its_own_and_is_no_alarm() -> None:
    """Its smartctl waits for a disk that hangs, which harms nobody; beside it mysqld does."""
    pipeline = EventPipeline(
        Engine([], (), START),
        TransitionLog(Quiet(), lambda: START, lambda: START),
        TABLE,
        lambda now: now,
        callbacks=Callbacks(is_own_hang=lambda event: "smartctl" in event.text),
    )
    pipeline.restore(CorrelationState(), Cursors(), {})
    text = "INFO: task {}:4711 blocked for more than 120 seconds."
    own, other = (
        StorageEvent("kernel", "hung_task", text.format(name)) for name in ("smartctl", "mysqld")
    )
    pipeline.take(*look("kernel_log", KernelLog((own, other), boot_id="now")))
    assert counts(pipeline) == {"own_hung_task": 1, "hung_task": 1}
    severities = {alert.name: alert.severity for alert in pipeline.alerts(START)}
    assert severities == {"hung_task": Severity.CRITICAL}
    below, _ = pipeline.log_and_store({}, StorageGraph(), START)
    assert below.alert.summary == "iowarden itself: smartctl (pid 4711) blocked for over 2 min"


def test_alerts_of_events_are_made_once_until_one_of_them_is_over() -> None:
    """What incidents are made of compares by identity: an open one costs next to nothing."""
    pipeline = started()
    pipeline.restore(CorrelationState(), Cursors(), {})
    pipeline.add(medium_error(1), START)
    found = pipeline.alerts(START, 600.0)
    assert [each.count for each in found] == [1]
    assert pipeline.alerts(START + 300, 600.0)[0] is found[0]
    pipeline.add(medium_error(2), START + 300)
    found = pipeline.alerts(START + 300, 600.0)
    assert [each.count for each in found] == [2]
    assert pipeline.alerts(START + 900, 600.0) == found
    assert pipeline.alerts(START + 901, 600.0) == []
    assert pipeline.alerts(START + 901, 900.0) == found  # a reload has made that time longer
