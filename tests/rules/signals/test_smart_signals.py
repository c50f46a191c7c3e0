"""SMART signals in isolation: counts, values, self-tests, and their stored state."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.rack import DAY, HOUR, POLL, ata, attribute

from iowarden.collectors.smart.drive import (
    AccessMethod,
    Attribute,
    Disk,
    Disks,
    Drive,
    ErrorCounter,
    NvmeHealth,
    PollResult,
    Protocol,
    ReadStatus,
    ScsiHealth,
    SelfTest,
)
from iowarden.rules.signals.signal import Inputs, View
from iowarden.rules.signals.smart import smart, smart_counts, smart_health, smart_values
from iowarden.rules.snapshot import Snapshot

if TYPE_CHECKING:
    from iowarden.collectors.model import Sample
    from iowarden.rules.signals.smart.smart import SmartState

START = 1_790_000_000.0


def look(state: SmartState, disks: Disks | None, now: float) -> tuple[SmartState, list[Sample]]:
    """Return the state and the samples after an update of the poller."""
    values = {} if disks is None else {"smart": disks}
    inputs = Inputs(now, 1e6, Snapshot(**values), frozenset(values))
    state, samples = smart.step(state, View(inputs, None))
    return state, samples or []


def polled(now: float, *drives: Drive) -> Disks:
    """Return disks that have all just been polled."""
    return Disks(
        {
            drive.serial: Disk(
                drive.serial,
                PollResult(
                    AccessMethod("/dev/sda", "sat"), ReadStatus.READ, drive=drive, read_seconds=now
                ),
            )
            for drive in drives
        }
    )


counts = st.one_of(st.integers(0, 40), st.integers(0, 2**64), st.integers(-5, 0))
tables = st.lists(
    st.builds(
        lambda number, raw, value: attribute(number, raw, value=value),
        st.sampled_from(smart_counts.COUNTED),
        counts,
        st.integers(0, 255),
    ),
    max_size=6,
    unique_by=lambda each: each.id,
).map(tuple)


@given(st.lists(tables, min_size=1, max_size=8), st.floats(60.0, 10 * DAY))
def test_a_restart_at_any_poll_changes_nothing_that_is_reported(
    polls: list[tuple[Attribute, ...]], every: float
) -> None:
    """The stored state is sufficient, whatever the drive reports, even nonsense."""
    running, restarted = smart.EMPTY, smart.EMPTY
    for number, table in enumerate(polls):
        now = START + number * every
        disks = polled(now, ata("A", attributes=table))
        running, told = look(running, disks, now)
        restarted = smart.recall(smart.EMPTY, smart.remember(restarted))
        restarted, told_after = look(restarted, disks, now)
        assert sorted(told) == sorted(told_after)


@given(st.lists(st.integers(0, 200), min_size=1, max_size=12))
def test_growth_is_never_more_than_two_polls_in_a_row_bear_out(raws: list[int]) -> None:
    """The reported increase is at most what two polls in a row confirm, above the baseline."""
    state = smart.EMPTY
    for number, raw in enumerate(raws):
        now = START + number * POLL
        state, told = look(state, polled(now, ata("A", {187: raw})), now)
        agreed = [min(pair) for pair in pairwise(raws[: number + 1])]
        growth = [value for name, _, value in told if name == "iowarden_smart_increase"]
        assert all(0 < value <= max([raws[0], *agreed]) - min(raws) for value in growth)


@given(st.lists(st.integers(0, 5), min_size=2, max_size=20))
def test_what_only_rises_is_reported_in_full(steps: list[int]) -> None:
    """From the baseline on the whole increase is reported, one poll late."""
    state, raw = smart.EMPTY, 7
    for number, rise in enumerate([0, *steps, 0]):
        raw += rise
        now = START + number * POLL
        state, told = look(state, polled(now, ata("A", {187: raw})), now)
    growth = sum(value for name, _, value in told if name == "iowarden_smart_increase")
    assert growth == sum(steps)


def test_the_same_reading_is_looked_at_once() -> None:
    """The poller is read every 15 s, and has the same object for half an hour."""
    state, disks = smart.EMPTY, polled(START, ata("A", {5: 3}))
    state, told = look(state, disks, START)
    for second in range(15, 1800, 15):
        again, same = look(state, disks, START + second)
        assert again is state
        assert same is told


def test_a_reading_that_is_held_does_not_confirm_itself() -> None:
    """Another disk was polled: a new object, with the old reading of this one in it."""
    state, _ = look(smart.EMPTY, polled(START, ata("A")), START)
    first = polled(START + POLL, ata("A", {187: 4}))
    state, told = look(state, first, START + POLL)
    for minute in range(1, 9):
        later = START + POLL + 60 * minute
        held = Disk("A", first.by_key["A"].polled)
        both = Disks({**polled(later, ata("B")).by_key, "A": held})
        state, told = look(state, both, later)
        assert not any(name == "iowarden_smart_increase" for name, _, _ in told)


def test_nothing_is_reported_while_nothing_is_read() -> None:
    """No poller: unknown. No reply of a disk: it has no series, not even plausibility."""
    state, samples = smart.step(
        smart.EMPTY,
        View(Inputs(START, 1e6, Snapshot(), frozenset()), None),
    )
    assert (state, samples) == (smart.EMPTY, None)
    silent = Disks({"A": Disk("A", PollResult(AccessMethod("/dev/sda"), ReadStatus.UNREADABLE))})
    assert look(smart.EMPTY, silent, START)[1] == []


def test_a_healthy_drive_has_one_series_and_one_line_that_is_kept() -> None:
    """500 of them are 500 series and 500 lines."""
    state, told = look(smart.EMPTY, polled(START, ata("A")), START)
    assert [name for name, _, _ in told] == ["iowarden_smart_plausible"]
    assert list(smart.remember(state)) == ["A"]


def test_the_disks_not_seen_for_longest_are_forgotten_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The stored state is limited; whole disks are dropped."""
    monkeypatch.setattr(smart, "MAX_RETAINED", 5)
    state = smart.EMPTY
    for number in range(6):
        now = START + number * HOUR
        state, _ = look(state, polled(now, ata(f"D{number}", {5: 1})), now)
    assert set(smart.remember(state)) == {"D4", "D4\t5", "D5", "D5\t5"}


def test_a_repair_is_seen_and_what_was_found_is_no_longer_so() -> None:
    """197 and 198 fall when sectors are rewritten."""
    state = smart.EMPTY
    for number, raw in enumerate((4, 4, 0, 0)):
        now = START + number * POLL
        state, told = look(state, polled(now, ata("A", {197: raw, 198: raw})), now)
    assert [name for name, _, _ in told] == ["iowarden_smart_plausible"]


@pytest.mark.parametrize(
    ("number", "raw", "text", "expected"),
    [
        (188, 94_490_722_326, "22 22 22", 22),
        (188, 1, "0 0 1", 1),
        (188, 65_535, "65535", 65_535),
        (188, 0x1_0002_0003, "4295098371", 3),
        (5, 0x0002_0000_0008, "8 (2 0)", 8),
        (197, 2**47, str(2**47), None),
        (197, 7_814_037_168, "7814037168", None),
        (197, 9, "9", 9),
        (199, 2**33, str(2**33), None),
        (198, -1, "-1", None),
        (187, None, "", None),
    ],
)
def test_raw_values_by_what_they_can_mean(
    number: int, raw: int | None, text: str, expected: int | None
) -> None:
    """Packed counts, more sectors than 4 TB have, and nothing at all."""
    assert smart_counts.believed(ata("A"), attribute(number, raw, raw_text=text)) == expected


def test_a_name_that_reports_bogus_is_believed() -> None:
    """Newer databases of smartmontools call attribute 197 of an MX500 so: its count is none."""
    named = attribute(197, 1, name="Bogus_Current_Pend_Sect")
    assert smart_counts.believed(ata("A"), named) is None


@pytest.mark.parametrize("model", ["", "CT500MX500SSD1", "ATP SATA III"])
def test_one_pending_page_of_a_renamed_attribute_is_none(model: str) -> None:
    """By its name in smartmontools' database, also where the text has no model; two are two."""
    for raw, expected in ((0, 0), (1, 0), (2, 2)):
        named = attribute(197, raw, name="Current_Pending_ECC_Cnt")
        assert smart_counts.believed(ata(model), named) == expected
    plain = attribute(197, 1, name="Current_Pending_Sector")
    assert smart_counts.believed(ata("A"), plain) == 1


@pytest.mark.parametrize(
    "name", ["Factory_Bad_Block_Count", "Initial_Bad_Block_Count", "Error_Correction_Count"]
)
def test_an_attribute_renamed_to_a_harmless_count_is_another(name: str) -> None:
    """184 is the end-to-end error only where it has that name."""
    assert smart_counts.another(attribute(184, 7, name=name))
    assert not smart_counts.another(attribute(184, 7, name="End-to-End_Error"))


@pytest.mark.parametrize(
    ("number", "name", "values", "failed", "expected"),
    [
        (5, "Reallocated_Sector_Ct", (100, 100, 36), "", ("", 0)),
        (5, "Reallocated_Sector_Ct", (36, 36, 36), "", ("prefail", 36)),
        (5, "Reallocated_Sector_Ct", (100, 36, 36), "", ("past", 36)),
        (5, "Reallocated_Sector_Ct", (100, None, 0), "past", ("past", 0)),
        (5, "Reallocated_Sector_Ct", (100, 100, 36), "now", ("prefail", 100)),
        (184, "End-to-End_Error", (92, 92, 99), "now", ("prefail", 92)),
        (187, "Reported_Uncorrect", (1, 1, 5), "", ("prefail", 1)),
        (188, "Command_Timeout", (1, 1, 5), "", ("old_age", 1)),
        (184, "Initial_Bad_Block_Count", (10, 10, 10), "now", ("old_age", 10)),
        (9, "Power_On_Hours", (100, 1, 5), "", ("", 0)),
        (190, "Airflow_Temperature_Cel", (45, 40, 45), "now", ("", 0)),
        (231, "Temperature_Celsius", (9, 9, 10), "now", ("", 0)),
        (231, "SSD_Life_Left", (9, 9, 10), "", ("old_age", 9)),
    ],
)
def test_what_was_at_its_threshold_once_and_what_smartctl_calls_failed(
    number: int,
    name: str,
    values: tuple[int | None, ...],
    failed: str,
    expected: tuple[str, int],
) -> None:
    """A worst value is about the past; temperature limits have alerts of their own."""
    value, worst, threshold = values
    each = Attribute(number, name, value, worst, threshold, 0, "0", prefail=False, failed=failed)
    assert smart_values.exceeded(each) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(193, 200), (97, 100), (101, 100), (149, 100), (151, 200), (240, 252), (1, 100), (253, 253)],
)
def test_the_nearest_value_that_a_factory_gives(value: int, expected: int) -> None:
    """By distance, whichever side: 101 has not fallen from 200."""
    assert smart_values.ceiling(value) == expected


def test_a_better_value_for_one_poll_is_not_the_best_that_was_seen() -> None:
    """A single corrupted 253 must not turn everything after it into a drop."""
    state = smart.EMPTY
    for number, value in enumerate((100, 100, 253, 100, 100)):
        now = START + number * POLL
        table = (attribute(5, 0, value=value),)
        state, told = look(state, polled(now, ata("A", attributes=table)), now)
    assert [name for name, _, _ in told] == ["iowarden_smart_plausible"]


def falls(*values: int) -> list[float]:
    """Return the reported drop of attribute 5 after each of these polls; 0: none."""
    state, told = smart.EMPTY, []
    for number, value in enumerate(values):
        now = START + number * POLL
        table = (attribute(5, 0, value=value),)
        state, samples = look(state, polled(now, ata("A", attributes=table)), now)
        told.append(sum(v for name, _, v in samples if name == "iowarden_smart_normalized_drop"))
    return told


def test_a_fall_is_from_the_best_that_was_seen_however_far() -> None:
    """From 200 to 120 in one poll: nearer to 100, and yet a fall of 80; a second poll agrees."""
    assert falls(200, 200, 120, 120, 200, 200) == [0, 0, 0, 80, 0, 0]
    assert falls(200, 193, 200, 199) == [0, 0, 0, 0]
    assert falls(100, 97, 97) == [0, 0, 3]


def test_the_first_poll_of_a_disk_finds_no_single_pending_sector() -> None:
    """Two polls, also at baseline; sixteen are enough at once."""
    for raw, expected in ((1, []), (15, []), (16, [16.0])):
        _, told = look(smart.EMPTY, polled(START, ata("A", {197: raw})), START)
        found = [v for name, _, v in told if name == "iowarden_smart_confirmed_pending_sectors"]
        assert found == expected


def test_as_many_as_at_first_sight_are_not_the_same_ones() -> None:
    """Four sectors were repaired, and four others failed: that is an increase."""
    state = smart.EMPTY
    for number, raw in enumerate((4, 4, 0, 0, 4, 4)):
        now = START + number * POLL
        state, told = look(state, polled(now, ata("A", {198: raw})), now)
    told_by_name = {name: value for name, _, value in told}
    assert told_by_name["iowarden_smart_increase"] == 4.0
    assert "iowarden_smart_baseline" not in told_by_name


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("", {}),
        ("eF", {"extended": 1}),
        ("eF eF", {"extended": 2}),
        ("eP eF", {}),
        ("sP eF", {"extended": 1}),
        ("eP sF", {}),
        ("sP sF", {}),
        ("sF sP sF", {"short": 1}),
        ("sF eF eP eF", {"short": 1, "extended": 1}),
        ("eA eF", {"extended": 1}),
        ("eA eP eF", {}),
    ],
)
def test_what_a_later_self_test_takes_back(log: str, expected: dict[str, int]) -> None:
    """Newest first; e extended, s short; F failed, P passed, A aborted: neither."""
    kinds = {"e": "extended", "s": "short"}
    results = {"F": False, "P": True, "A": None}
    tests = tuple(
        SelfTest(kinds[kind], "", results[result], 19_990) for kind, result in log.split()
    )
    own = (("disk", "A"),)
    told = smart_health.samples(ata("A", self_tests=tests), own)
    failures = {
        dict(labels)["kind"]: value
        for name, labels, value in told
        if name == "iowarden_smart_self_test_failures"
    }
    assert failures == expected


def test_a_test_before_the_hours_of_the_log_wrapped_is_not_in_the_future() -> None:
    """ATA logs the power-on time in 16 bits: 70,000 hours are 4464."""
    recent = SelfTest("short", "", passed=False, hours=4400)
    drive = ata("A", self_tests=(recent,), power_on_hours=70_000)
    names = {name for name, _, _ in smart_health.samples(drive, ())}
    assert names == {"iowarden_smart_self_test_failures"}


def test_what_rotates_is_known_without_a_rotation_rate() -> None:
    """Old disks do not report it; they have a spin-up time."""
    silent = {"rotation_rpm": None}
    assert smart_health.spins(ata("A", **silent))
    assert not smart_health.spins(ata("A", attributes=(attribute(5, 0),), **silent))
    assert not smart_health.spins(Drive(Protocol.NVME))


def test_growth_is_over_after_a_week_without_any_new_reading() -> None:
    """A sleeping disk reports nothing new; the time passes all the same."""
    state = smart.EMPTY
    for number, raw in enumerate((0, 2, 2)):
        now = START + number * POLL
        disks = polled(now, ata("A", {187: raw}))
        state, told = look(state, disks, now)
    assert "iowarden_smart_increase" in {name for name, _, _ in told}
    assert math.isfinite(state.until_seconds)
    state, told = look(state, disks, now + 7 * DAY)
    assert "iowarden_smart_increase" not in {name for name, _, _ in told}
    assert state.until_seconds == math.inf


def test_errors_that_the_kernel_logs_and_the_drive_does_not_count_are_a_contradiction() -> None:
    """The optional input 'errors_logged', by disk."""
    nothing = {kind: ErrorCounter(0, 0, 1e12) for kind in ("read", "write")}
    drive = Drive(Protocol.SCSI, serial="A", scsi=ScsiHealth(nothing))
    for errors, trusted in ((0, 1.0), (3, 0.0)):
        says = Snapshot(smart=polled(START, drive))
        inputs = Inputs(START, 1e6, says, frozenset({"smart"}), errors_logged={"A": errors})
        _, samples = smart.step(smart.EMPTY, View(inputs, None))
        assert samples is not None
        assert samples[0] == ("iowarden_smart_plausible", (("disk", "A"),), trusted)


def worn(percent: int, **fields: object) -> Drive:
    """Return an NVMe drive of which so much is used."""
    health = {"endurance_used_ratio": percent / 100, "written_bytes_total": 1e14, **fields}
    cycles = health.pop("power_cycles", 40)
    own = NvmeHealth(0, 1.0, 0.1, **health)  # type: ignore[arg-type]  # as NvmeHealth takes them
    return Drive(Protocol.NVME, serial="N1", nvme=own, power_cycles=cycles)  # type: ignore[arg-type]


def test_a_forecast_of_wear_outlives_restarts_and_needs_no_history_file() -> None:
    """A point every nine days, polled daily, restarted each time: ten points in 90 days."""
    state = smart.EMPTY
    for day in range(100):
        now = START + day * DAY
        state = smart.recall(smart.EMPTY, smart.remember(state))
        state, told = look(state, polled(now, worn(70 + day // 9)), now)
    found = {name: value for name, _, value in told if "endurance" in name}
    left = (found["iowarden_disk_endurance_exhausted_timestamp_seconds"] - now) / DAY
    assert found["iowarden_disk_endurance_pace_window_seconds"] == 90 * DAY
    assert round(left) == 171, "19 points left, 10 in 90 days"
    earliest = found["iowarden_disk_endurance_exhausted_earliest_timestamp_seconds"]
    latest = found["iowarden_disk_endurance_exhausted_latest_timestamp_seconds"]
    assert [round((at - now) / DAY) for at in (earliest, latest)] == [155, 190]


def test_of_a_count_that_increases_for_weeks_the_last_seven_days_are_reported_as_well() -> None:
    """One sector a day for 20 days: all of that is one increase, seven of it are of this week."""
    state = smart.EMPTY
    for half in range(41):
        now = START + half * DAY / 2
        state = smart.recall(smart.EMPTY, smart.remember(state))
        state, told = look(state, polled(now, ata("A", {5: half // 2})), now)
    found = {name: value for name, labels, value in told if ("id", "5") in labels}
    assert found["iowarden_smart_increase"] == 19
    assert found["iowarden_smart_weekly_increase"] == 7
    assert found["iowarden_smart_increase_since_baseline"] == 19
    assert found["iowarden_smart_last_increase_timestamp_seconds"] == START + 19.5 * DAY
    later = now + 8 * DAY
    state, told = look(state, polled(later, ata("A", {5: 20})), later)
    state, told = look(state, polled(later + POLL, ata("A", {5: 21})), later + POLL)
    found = {name: value for name, labels, value in told if ("id", "5") in labels}
    assert found["iowarden_smart_weekly_increase"] == found["iowarden_smart_increase"] == 1


def increases(*drives: Drive) -> dict[str, float]:
    """Return what increased of a drive in these polls, by name."""
    state = smart.EMPTY
    for number, drive in enumerate(drives):
        now = START + number * POLL
        state, told = look(state, polled(now, drive), now)
    return {
        dict(labels)["attribute"]: value
        for name, labels, value in told
        if name == "iowarden_smart_increase"
    }


def test_power_that_was_lost_counts_from_the_first_poll_on() -> None:
    """Nine before are the drive's past; a restart of the host ends in order and is no tenth."""
    before = worn(3, unsafe_shutdowns_total=9)
    rebooted = worn(3, unsafe_shutdowns_total=9, power_cycles=41)
    assert increases(before, rebooted, rebooted) == {}
    lost = worn(3, unsafe_shutdowns_total=10, power_cycles=42)
    assert increases(before, rebooted, lost, lost) == {"unsafe_shutdowns": 1}
    never = worn(3, unsafe_shutdowns_total=0)
    assert increases(
        never, never, worn(3, unsafe_shutdowns_total=1), worn(3, unsafe_shutdowns_total=1)
    ) == {"unsafe_shutdowns": 1}


def test_a_count_that_was_absent_from_the_first_poll_begins_with_its_own_baseline() -> None:
    """The drive was polled without these counts: they were unknown, not 0."""
    counts = {"unsafe_shutdowns_total": 9, "warning_temperature_seconds_total": 18_000.0}
    assert increases(worn(3), worn(3, **counts), worn(3, **counts)) == {}
    new = worn(3, unsafe_shutdowns_total=1, power_cycles=1)
    started = worn(3, unsafe_shutdowns_total=1, power_cycles=2)
    assert increases(new, started, started) == {}, "1 of 1 was no plausible count, 1 of 2 is one"


def test_a_drive_that_counts_every_power_cycle_as_unsafe_reports_none() -> None:
    """Its firmware takes no notice of shutdowns: the count is that of its starts."""
    before = worn(3, unsafe_shutdowns_total=38)
    after = worn(3, unsafe_shutdowns_total=39, power_cycles=41)
    assert increases(before, after, after) == {}
    unknown = worn(3, unsafe_shutdowns_total=50, power_cycles=None)
    assert increases(worn(3, unsafe_shutdowns_total=9, power_cycles=None), unknown, unknown) == {}


def test_minutes_of_heat_count_from_the_first_poll_on() -> None:
    """300 minutes of a summer before iowarden was installed, 25 since then."""
    hot = [worn(3, warning_temperature_seconds_total=60.0 * n) for n in (300, 325, 325)]
    assert increases(*hot) == {"warning_temperature_minutes": 25}
