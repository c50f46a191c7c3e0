"""Event correlation: events of all logs become incidents, one for each cause."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from support.machine import disk as block_device
from support.machine import topology

from iowarden.collectors.block.block_devices import Device, Md
from iowarden.collectors.event import StorageEvent
from iowarden.collectors.filesystem.btrfs_owner import FileSystem
from iowarden.collectors.filesystem.mountinfo import Mount, parse_mountinfo
from iowarden.collectors.kmsg.kernel_classifier import Classifier
from iowarden.collectors.kmsg.kernel_events import classify
from iowarden.collectors.kmsg.kernel_line import KernelLine
from iowarden.collectors.raid.controller import (
    ComponentHealth,
    ComponentState,
    Controller,
    ControllerArray,
    PhysicalDisk,
)
from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.events import event_alerts, event_correlation, event_counters, event_evidence
from iowarden.rules.events.controller_clock import ControllerClock, OffsetMethod
from iowarden.rules.events.event_state import CorrelationState, EventBatch
from iowarden.rules.events.event_table import parse_events_file
from iowarden.rules.incidents import incidents, model
from iowarden.rules.incidents.model import Incident, IncidentChangeKind, Incidents
from iowarden.rules.incidents.silences import Acknowledgement
from iowarden.rules.notice import Reason
from iowarden.rules.severity import Severity
from iowarden.rules.topology.device_identity import identity
from iowarden.rules.topology.graph import StorageGraph
from iowarden.rules.topology.slot_map import DeviceMap
from iowarden.rules.topology.topology import NO_DEPENDENTS, Dependents, remember

FILE = Path(__file__).parents[3] / "rules" / "events" / "events.yaml"
TABLE = parse_events_file(FILE.read_text(), FILE.name)
START = 1_800_000_000.0
"""By the program's clock and by the wall clock."""
HOUR = 3600.0
OK = ComponentState(ComponentHealth.OK, "Normal")


def sd(name: str, serial: str, **fields: Any) -> Device:  # noqa: ANN401 - as Device takes them
    """A disk, or a volume that a controller presents as one."""
    return replace(block_device(name, serial=serial, model="DISK-9"), host="host2", **fields)


MACHINE = topology(
    sd("sda", "S-A", holders=("md0",), address="2:0:0:0"),
    sd("sdb", "S-B", holders=("md0",), address="2:0:1:0"),
    sd("sdc", "S-C", address="2:0:2:0"),
    sd("sdd", "S-D", address="2:0:3:0"),
    replace(
        block_device("md0", slaves=("sda", "sdb"), leaf=False, md=Md("raid1", 2, None, 2, None)),
        host=None,
    ),
)


@dataclass
class FakeMachine:
    """A host whose log events are created by the test."""

    known: DeviceMap = field(default_factory=lambda: DeviceMap(topology=MACHINE))
    state: CorrelationState = field(default_factory=CorrelationState)
    book: Incidents = field(default_factory=Incidents)
    now: float = START
    mails: list[tuple[Reason, Incident]] = field(default_factory=list)
    alerts: list[Alert] = field(default_factory=list)
    acknowledged: dict[str, Acknowledgement] = field(default_factory=dict)
    lifted: list[str] = field(default_factory=list)
    mounts: tuple[Mount, ...] = ()

    @property
    def standing(self) -> Dependents:
        """The storage stack."""
        return remember(NO_DEPENDENTS, self.known.topology or topology(), self.mounts, self.now)

    def tell(
        self, *events: StorageEvent, baseline: bool = False, booted: float | None = None
    ) -> None:
        """Let data sources report events, and evaluate the result."""
        batch = EventBatch(self.now, self.now, () if baseline else events, booted_seconds=booted)
        batch = replace(batch, baseline=events if baseline else ())
        known = replace(self.known, dependents=self.standing)
        self.state, self.news = event_correlation.correlate(self.state, batch, known, TABLE)
        self.look()

    def look(self) -> None:
        """Process what is due."""
        self.book, dues, changes = incidents.next_incidents(
            self.book,
            [*self.alerts, *event_alerts.alerts(self.state, TABLE, self.now)],
            self.now,
            incidents.Surroundings(
                install="test",
                policy=model.NotificationPolicy(),
                observe=lambda _: (),
                is_observable=lambda *_: True,
                graph=StorageGraph(event_correlation.carries(self.state, self.standing, self.now)),
                acknowledged=self.acknowledged,
            ),
        )
        lifted = [
            c.incident.identifier for c in changes if c.change is IncidentChangeKind.ACK_EXPIRED
        ]
        self.lifted += lifted
        self.acknowledged = {k: a for k, a in self.acknowledged.items() if k not in lifted}
        self.mails += [(due.reason, due.incident) for due in dues]

    def wait(self, seconds: float, step: float = 15.0) -> None:
        """Let time pass."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + step, end)
            self.look()

    @property
    def open(self) -> list[Incident]:
        """Return the open incidents."""
        return [i for i in self.book.by_key.values() if i.closed_seconds is None]

    def medium_error(self, device: str = "sda", sector: int = 8, **fields: object) -> StorageEvent:
        """A kernel line of the present time."""
        text = f"critical medium error, dev {device}, sector {sector}"
        return StorageEvent(
            "kernel",
            "block_medium_error",
            text,
            device=device,
            sector=sector,
            boot_id="boot",
            monotonic_seconds=self.now - START + sector / 1000,
            realtime_seconds=self.now,
            **fields,  # type: ignore[arg-type]
        )

    def reading_error(self, channel: int = 2, ahead: float = 0.0, number: int = 0) -> StorageEvent:
        """A log entry of an Areca, now; its clock is ahead of UTC."""
        return StorageEvent(
            "areca",
            "areca_reading_error",
            f"IDE Channel #{channel:02} Reading Error",
            controller="areca 1",
            place=f"channel {channel}",
            clock_seconds=self.now + ahead,
            sequence=number,
        )


def about_array(name: str, condition: str) -> Alert:
    """A rule's alert about md0."""
    labels = (("alertname", name), ("condition", condition), ("severity", "critical"))
    subject = identity(MACHINE, "md0").key
    return Alert(
        name, labels, AlertState.FIRING, 1.0, (), START, START, subject=subject, object="md0"
    )


VOLUME = Controller(
    "areca 1",
    "areca",
    host="host2",
    arrays=(
        ControllerArray("raid set 1", OK, slots=("channel 1", "channel 2")),
        ControllerArray("volume 1", OK, parent="raid set 1", address="0:2:0"),
    ),
    disks=(
        PhysicalDisk("channel 1", OK, model="DISK-8", serial="P-1", array="raid set 1"),
        PhysicalDisk("channel 2", OK, model="DISK-8", serial="P-2", array="raid set 1"),
    ),
)
"""Two disks behind the block device sdc."""


def behind(*controllers: Controller) -> FakeMachine:
    """A machine with RAID controllers."""
    return FakeMachine(DeviceMap(topology=MACHINE, controllers=controllers or (VOLUME,)))


def test_errors_of_a_disk_are_one_incident_with_the_first_and_the_last_line() -> None:
    """Whatever the number of lines: the alert counts them."""
    machine = FakeMachine()
    machine.tell(*(machine.medium_error(sector=8 * n) for n in range(40)))
    (found,) = machine.open
    assert (found.key, found.severity) == (identity(MACHINE, "sda").key, Severity.CRITICAL)
    assert [(m.name, m.count) for m in found.members] == [("block_medium_error", 40)]
    lines = event_evidence.evidence(machine.state, [found.key], 0.0, machine.now)
    assert [line.text.rpartition(" ")[2] for line in lines] == ["0", "these", "312"]
    assert [reason for reason, _ in machine.mails] == [Reason.OPENED]


def test_a_second_disk_is_a_second_incident_and_a_third_is_the_adapter() -> None:
    """Three disks of one adapter within a minute have one cause."""
    machine = FakeMachine()
    machine.tell(machine.medium_error("sda"), machine.medium_error("sdb", 16))
    assert len(machine.open) == 2
    machine.tell(machine.medium_error("sdc", 24))
    assert [i.key for i in machine.open] == ["adapter host2"]
    assert len(machine.open[0].members) == 3


def test_the_array_that_gave_a_sick_disk_up_is_the_disks_incident() -> None:
    """Its degraded array adds nothing; without an error of a disk it is an incident."""
    degraded = about_array("MdDegraded", "raid_array")
    machine = FakeMachine()
    machine.tell(machine.medium_error("sdb"))
    machine.alerts = [degraded]
    machine.look()
    (found,) = machine.open
    assert found.key == identity(MACHINE, "sdb").key
    assert {m.name for m in found.members} == {"block_medium_error", "MdDegraded"}
    alone = FakeMachine()
    alone.alerts = [degraded]
    alone.look()
    assert [i.object for i in alone.open] == ["md0"]


def test_an_array_that_degrades_ahead_of_its_disks_error_is_folded() -> None:
    """In any order of reading it is one thread of mails."""
    machine = FakeMachine()
    machine.alerts = [about_array("MdDegraded", "raid_array")]
    machine.look()
    machine.now += 10
    machine.tell(machine.medium_error("sdb"))
    (found,) = machine.open
    assert (found.key, len(found.members)) == (identity(MACHINE, "sdb").key, 2)
    machine.wait(20)
    assert [reason for reason, _ in machine.mails] == [Reason.OPENED, Reason.ESCALATED]
    assert len({i.references or i.identifier for _, i in machine.mails[1:]}) == 1


def test_a_setting_of_a_volume_is_no_matter_of_its_sick_disk() -> None:
    """Its read-ahead was too small for months: unrelated."""
    machine = FakeMachine()
    machine.tell(machine.medium_error("sdb"))
    machine.alerts = [about_array("ReadAheadSmall", "read_ahead_below_stripe")]
    machine.look()
    assert len(machine.open) == 2


def test_a_controllers_error_explains_that_of_its_volume() -> None:
    """The kernel names the volume first, the controller's log the disk minutes later."""
    machine = behind()
    machine.state = replace(
        machine.state,
        clocks={"areca 1": ControllerClock(offset=4 * HOUR, method=OffsetMethod.ERRORS)},
    )
    machine.tell(machine.medium_error("sdc"))
    assert [i.object for i in machine.open] == ["sdc (DISK-9, serial S-C, volume 1 of areca 1)"]
    machine.wait(120)
    machine.tell(replace(machine.reading_error(2, 4 * HOUR), clock_seconds=START + 4 * HOUR + 3))
    machine.wait(30)
    (found,) = machine.open
    assert "P-2" in found.object
    assert {m.name for m in found.members} == {"block_medium_error", "areca_reading_error"}
    assert [reason for reason, _ in machine.mails] == [Reason.OPENED, Reason.ESCALATED]


def test_errors_that_the_kernel_does_not_see_are_reported_as_well() -> None:
    """The controller recovered them, or masks them."""
    machine = behind()
    machine.state = replace(
        machine.state, clocks={"areca 1": ControllerClock(offset=0.0, method=OffsetMethod.ERRORS)}
    )
    machine.tell(*(machine.reading_error(2, number=n) for n in range(10)))
    (found,) = machine.open
    assert found.severity is Severity.CRITICAL
    assert "the kernel logged no error" in found.members[0].unknown


def test_a_clock_that_nobody_compared_is_unverified() -> None:
    """Its events are reported with that remark."""
    machine = behind()
    machine.state = replace(machine.state, clocks={"areca 1": ControllerClock()})
    machine.tell(machine.reading_error(2, -5 * HOUR))
    (found,) = machine.open
    assert "unverified" in found.members[0].unknown


def test_a_clock_is_found_by_errors_that_both_report() -> None:
    """Four hours ahead and 37 s: known numbers."""
    machine = behind()
    machine.state = replace(machine.state, clocks={"areca 1": ControllerClock()})
    for minutes in (0, 7, 15, 16, 40):
        machine.now = START + 60 * minutes
        machine.tell(machine.medium_error("sdc", minutes))
    events = [
        replace(machine.reading_error(2), clock_seconds=START + 60 * minutes + 4 * HOUR + 37)
        for minutes in (0, 7, 15, 16, 40)
    ]
    machine.tell(*events)
    clock = machine.state.clocks["areca 1"].current()
    assert (clock.seconds, clock.drift_seconds, clock.matches) == (4 * HOUR + 37, 37, 5)
    # And the events have their time in UTC.
    assert machine.state.groups[-1].burst.last.realtime_seconds == START + 40 * 60


def test_a_controllers_own_fault_is_not_blamed_on_its_disks() -> None:
    """Its memory fails, and right after that there are errors of channels."""
    machine = behind()
    machine.state = replace(
        machine.state, clocks={"areca 1": ControllerClock(offset=0.0, method=OffsetMethod.ERRORS)}
    )
    machine.tell(
        StorageEvent(
            "areca",
            "areca_dram_fatal_error",
            "DRAM Fatal Error",
            controller="areca 1",
            place="H/W MONITOR",
            clock_seconds=machine.now,
        ),
        machine.reading_error(2),
    )
    assert [i.key for i in machine.open] == ["adapter host2"]


def started(machine: FakeMachine, kind: str, source: str) -> StorageEvent:
    """A controller's log entry of its start, now."""
    return StorageEvent(
        source, kind, "Raid Powered On", controller="areca 1", clock_seconds=machine.now
    )


@pytest.mark.parametrize(
    ("source", "kind"),
    [("areca", "areca_raid_powered_on"), ("megaraid", "megaraid_firmware_started")],
)
def test_a_controller_that_starts_three_times_without_a_boot_is_reported(
    source: str, kind: str
) -> None:
    """Three starts within 26 minutes of a host that is up for days: its power is bad.

    It is mailed with the second; the third within the hour is counted.
    """
    machine = behind()
    up_since = machine.now - 3 * 86_400
    machine.tell(started(machine, kind, source), booted=up_since)
    machine.wait(13 * 60)
    assert machine.open == []
    machine.tell(started(machine, kind, source), booted=up_since)
    machine.wait(13 * 60)
    machine.tell(started(machine, kind, source), booted=up_since)
    assert [(i.key, i.severity) for i in machine.open] == [("adapter host2", Severity.WARNING)]
    assert [reason for reason, _ in machine.mails] == [Reason.OPENED]


def test_a_controller_starts_with_its_host() -> None:
    """Two reboots and one start without, or two starts two days apart, are no sign of bad power."""
    machine = behind()
    kind = "areca_raid_powered_on"
    machine.tell(started(machine, kind, "areca"), booted=machine.now - 86_400)
    for _ in range(2):
        machine.wait(3 * HOUR)
        machine.tell(started(machine, kind, "areca"), booted=machine.now - 180)
        assert machine.open == []
    later = machine.now + 2 * 86_400
    machine.now = later
    machine.tell(started(machine, kind, "areca"), booted=later - 2 * 86_400)
    assert machine.open == []


def test_several_channels_in_one_second_are_the_controller() -> None:
    """Several disks do not fail in the same second."""
    machine = behind()
    machine.state = replace(
        machine.state, clocks={"areca 1": ControllerClock(offset=0.0, method=OffsetMethod.ERRORS)}
    )
    machine.tell(machine.reading_error(1), machine.reading_error(2))
    assert [i.key for i in machine.open] == ["adapter host2"]


def test_what_a_log_held_at_first_sight_is_reported_by_the_initial_report() -> None:
    """Events of the last day; older entries are stored, and not reported."""
    machine = behind()
    old = replace(machine.reading_error(2), clock_seconds=START - 5 * 86_400)
    machine.tell(old, machine.reading_error(1), baseline=True)
    (found,) = machine.open
    assert "P-1" in found.object
    (alert,) = event_alerts.alerts(machine.state, TABLE, machine.now)
    assert model.lasting(alert)
    assert [each.group is None for each in machine.news] == [True, False]


def test_what_is_read_twice_counts_once() -> None:
    """From the ring buffer and the journal, or again after a kill."""
    machine = FakeMachine()
    event = machine.medium_error()
    machine.tell(event)
    machine.tell(event, machine.medium_error(sector=16))
    assert [h.count for h in machine.state.groups] == [2]


def test_an_error_now_and_then_is_reported_again_at_most_hourly() -> None:
    """A sector every 20 minutes, for six hours."""
    machine = FakeMachine()
    for number in range(18):
        machine.tell(machine.medium_error(sector=number))
        machine.wait(20 * 60)
    reasons = [reason for reason, _ in machine.mails]
    assert reasons[:2] == [Reason.OPENED, Reason.REOPENED]
    assert Reason.RESOLVED not in reasons
    assert len(reasons) <= 8
    machine.wait(25 * HOUR)
    assert machine.open == []


BY_COMMAND = "The kernel log has no error of sdb in the 5 min before"
FAILS = "md/raid1:md0: Disk failure on sdb, disabling device."


def unknown_of_failure(machine: FakeMachine) -> str:
    """Return the unknown facts in the mail about the failed member."""
    members = (m for i in machine.open for m in i.members if m.name == "md_disk_failure")
    return next(members).unknown


@pytest.mark.parametrize(
    "text",
    [
        "md/raid1:md0: Operation continuing on 1 devices.",
        "md: md0: recovery done.",
        "critical medium error, dev sdc, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
    ],
)
def test_a_member_that_failed_without_an_error_may_be_failed_by_command(text: str) -> None:
    """Another event of md, or another disk, is no cause: it may have been failed by hand."""
    machine = FakeMachine()
    machine.tell(*lines(machine, FAILS, text))
    assert unknown_of_failure(machine).startswith(BY_COMMAND)
    assert "mdadm --fail" in unknown_of_failure(machine)


@pytest.mark.parametrize(
    "text",
    [
        "critical medium error, dev sdb, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
        "Buffer I/O error on dev sdb, logical block 1, async page read",
        "md: super_written gets error=-5",
        "md/raid1:md0: sdb: rescheduling sector 4096",
        "md/raid1:md0: sdb: unrecoverable I/O read error for block 4096",
        "sd 2:0:1:0: rejecting I/O to offline device",
        "ata9.00: failed command: READ FPDMA QUEUED",
        "ata9.00: error: { UNC }",
        "mpt3sas_cm0: fault_state(0x5854)!",
        "md/raid:md0: read error not correctable (sector 4096 on sdb).",
        "blk_update_request: 3 callbacks suppressed",
    ],
)
@pytest.mark.parametrize("later", [False, True])
def test_a_member_that_an_error_preceded_was_not_failed_by_command(
    text: str, *, later: bool
) -> None:
    """Of the member, of its array, of an unknown port or adapter, or a line without a name.

    md's line may come before that of the block layer, and in another poll.
    """
    machine = FakeMachine()
    for each in (FAILS, text) if later else (text, FAILS):
        machine.tell(*lines(machine, each))
        machine.wait(1.0, 1.0)
    assert BY_COMMAND not in unknown_of_failure(machine)


def test_an_error_of_an_hour_ago_does_not_explain_why_a_member_failed() -> None:
    """That error was over long before."""
    machine = FakeMachine()
    machine.tell(machine.medium_error("sdb"))
    machine.wait(HOUR, 600.0)
    machine.tell(*lines(machine, FAILS))
    assert unknown_of_failure(machine).startswith(BY_COMMAND)


@pytest.mark.parametrize("clock", [0.0, 4e9])
def test_a_clock_that_was_reset_loses_no_event(clock: float) -> None:
    """1970 or 2096: new events are reported."""
    machine = behind()
    machine.state = replace(machine.state, clocks={"areca 1": ControllerClock()})
    machine.tell(replace(machine.reading_error(2), clock_seconds=clock))
    assert len(machine.open) == 1


def test_a_disk_without_errors_has_counters_that_are_0() -> None:
    """So that the first error is an increase; an error in two logs is counted once."""
    machine = behind()
    disks = ["P-1", "P-2"]

    def counters() -> dict[tuple[str, str], float]:
        samples = event_counters.samples(machine.state, {}, totals, disks)
        named = [(dict(labels), value) for name, labels, value in samples if "_disk_" in name]
        return {(labels["disk"], labels["class"]): value for labels, value in named}

    totals: dict[tuple[str, str], int] = {}
    assert set(counters()) == {(disk, name) for disk in disks for name in event_counters.CLASSES}
    assert set(counters().values()) == {0.0}
    machine.tell(machine.reading_error(2))
    totals = event_counters.counted_disks(totals, machine.news)
    totals = event_counters.counted_disks(totals, [replace(machine.news[0], twin=True)])
    assert {key: n for key, n in counters().items() if n} == {("P-2", "medium"): 1.0}


def test_noise_is_reported_nowhere() -> None:
    """A log-in at the controller."""
    machine = behind()
    event = StorageEvent(
        "areca", "areca_http_log_in", "Proxy Or Inband HTTP Log In", controller="areca 1"
    )
    machine.tell(event)
    assert (machine.open, machine.news) == ([], ())


def test_the_kernels_error_on_a_volume_that_its_controller_does_not_report() -> None:
    """Minutes later its log has nothing of it; a disk at another adapter is unrelated."""
    machine = behind()
    machine.state = replace(machine.state, clocks={"areca 1": ControllerClock()})
    machine.tell(machine.medium_error("sdc"))
    machine.wait(200)
    assert "the log of areca 1" not in machine.open[0].members[0].unknown
    machine.wait(200)
    assert "the log of areca 1" in machine.open[0].members[0].unknown
    other = FakeMachine()
    other.state = replace(other.state, clocks={"areca 1": ControllerClock()})
    other.tell(other.medium_error("sda"))
    other.wait(400)
    assert other.open[0].members[0].unknown == ""


def test_a_clock_that_follows_daylight_saving_is_reported() -> None:
    """One hour more, by the errors of another day."""
    machine = behind()
    machine.state = replace(machine.state, clocks={"areca 1": ControllerClock()})
    for day, ahead in ((0, 4 * HOUR), (2, 5 * HOUR)):
        for minutes in (0, 7, 15, 40):
            machine.now = START + 86_400 * day + 60 * minutes
            machine.tell(machine.medium_error("sdc", 100 * day + minutes))
            machine.tell(machine.reading_error(2, ahead, minutes))
    assert machine.state.clocks["areca 1"].current().seconds == 5 * HOUR
    moved = [h for h in machine.state.groups if h.burst.kind == "controller_clock_moved"]
    assert [h.burst.last.text for h in moved] == [
        "areca 1: its clock changed by one hour: daylight saving time"
    ]
    (name, labels, seconds), *_ = event_counters.samples(machine.state, {}, {}, ())
    assert (name, labels) == (event_counters.CLOCK.name, (("controller", "areca 1"),))
    assert seconds == 5 * HOUR


def test_a_file_that_is_found_after_the_mail_is_reported_with_another() -> None:
    """Once; finding the owners on a large file system takes minutes."""
    machine = FakeMachine()
    machine.tell(*(machine.medium_error(sector=8 * n) for n in range(5)))
    assert [reason for reason, _ in machine.mails] == [Reason.OPENED]
    machine.wait(120)
    (found,) = machine.open
    machine.book = replace(
        machine.book, by_key={found.key: replace(found, details=(model.AFFECTED_FILES,))}
    )
    machine.look()
    machine.wait(120)
    assert [reason for reason, _ in machine.mails] == [Reason.OPENED, Reason.ESCALATED]


@pytest.mark.parametrize("labels", [("R-1", "V-1", "V-2"), ("Raid Set # 00", "VOL#00", "VOL#01")])
def test_a_failed_disk_its_raid_set_and_its_volumes_in_one_second_are_the_disk(
    labels: tuple[str, ...],
) -> None:
    """Array names are arbitrary, and a RAID set has several volumes: that is no adapter."""
    arrays = (
        ControllerArray("raid set 1", OK, slots=("channel 1", "channel 2"), label=labels[0]),
        ControllerArray("volume 1", OK, parent="raid set 1", address="0:2:0", label=labels[1]),
        ControllerArray("volume 2", OK, parent="raid set 1", address="0:3:0", label=labels[2]),
    )
    machine = behind(replace(VOLUME, arrays=arrays))
    line = replace(machine.reading_error(2), kind="areca_device_failed", text="Device Failed")
    machine.tell(
        replace(line, kind="areca_volume_degraded", place=labels[1], text="Volume 1"),
        replace(line, kind="areca_volume_degraded", place=labels[2], text="Volume 2"),
        replace(line, kind="areca_raidset_degraded", place=labels[0], text="RaidSet"),
        line,
    )
    (found,) = machine.open
    assert (found.key, len(found.members)) == ("disk DISK-8 P-2", 4), found.members


def test_a_failed_disk_of_a_volume_that_is_no_block_device_is_one_incident() -> None:
    """The host of the controller is not known."""
    machine = behind(replace(VOLUME, host=""))
    line = replace(machine.reading_error(2), kind="areca_device_failed", text="Device Failed")
    machine.tell(
        line,
        replace(line, kind="areca_raidset_degraded", place="raid set 1", text="RaidSet"),
        replace(line, kind="areca_volume_degraded", place="volume 1", text="Volume"),
    )
    assert [(i.key, len(i.members)) for i in machine.open] == [("disk DISK-8 P-2", 3)]


def test_a_disk_and_its_virtual_drive_in_one_second_are_the_disk() -> None:
    """A MegaRAID reports both at once."""
    drive = ControllerArray("virtual drive 0", OK, address="0:2:0", slots=("enclosure 252 slot 1",))
    disk = PhysicalDisk("enclosure 252 slot 1", OK, model="DISK-8", serial="P-1")
    machine = behind(Controller("c0", "megaraid", host="host2", arrays=(drive,), disks=(disk,)))
    line = StorageEvent(
        "megaraid",
        "megaraid_pd_failed",
        "state change",
        controller="c0",
        place="enclosure 252 slot 1",
        clock_seconds=machine.now,
    )
    array = replace(line, kind="megaraid_vd_degraded", place="virtual drive 0", sequence=1)
    machine.tell(line, array)
    assert [(i.key, len(i.members)) for i in machine.open] == [("disk DISK-8 P-1", 2)]


def test_an_acknowledgement_lasts_while_errors_come_again() -> None:
    """A disk is not known to be healthy between two errors, so there is no new notification."""
    machine = FakeMachine()
    machine.tell(machine.medium_error())
    machine.wait(90.0)
    (found,) = machine.open
    assert len(machine.mails) == 1
    machine.acknowledged = {
        found.identifier: Acknowledgement(
            found.identifier, Severity.WARNING, machine.now, "on order", "x", (found.key,)
        )
    }
    for hour in range(1, 4):
        machine.wait(HOUR, 60.0)
        machine.tell(machine.medium_error(sector=8 * hour))
    assert len(machine.mails) == 1
    assert not machine.lifted
    machine.wait(25 * HOUR, 600.0)
    assert machine.lifted == [found.identifier]
    machine.tell(machine.medium_error(sector=800))
    machine.wait(90.0)
    assert len(machine.mails) == 2


def test_a_line_of_megaraid_is_reported_where_its_controllers_log_cannot_be_read() -> None:
    """Otherwise it is in that log, which names the disk: one error in two logs."""
    card = Controller("c0", "megaraid", host="host2")
    line = StorageEvent(
        "kernel",
        "hba_aen",
        "megaraid_sas 0000:01:00.0: 4434 (5s/0x0001/CRIT) - VD 00/0 is now DEGRADED",
        controller="host2",
        word="CRIT",
        boot_id="boot",
        monotonic_seconds=1.0,
        realtime_seconds=START,
    )
    alone = behind(card)
    alone.tell(line)
    assert [i.key for i in alone.open] == ["adapter host2"]
    assert [m.summary for i in alone.open for m in i.members] == ["VD 00/0 is now DEGRADED"]
    told = behind(card)
    told.state = replace(told.state, clocks={"c0": ControllerClock()})
    told.tell(line)
    assert told.open == []


def test_what_a_log_reports_later_is_news_although_it_was_before_the_mail() -> None:
    """A controller's log is polled every five minutes: the disk had failed by then."""
    machine = behind()
    machine.state = replace(
        machine.state, clocks={"areca 1": ControllerClock(offset=0.0, method=OffsetMethod.ERRORS)}
    )
    machine.tell(*(machine.reading_error(2, number=n) for n in range(6)))
    failed = replace(
        machine.reading_error(2), kind="areca_device_failed", text="IDE Channel #02 Device Failed"
    )
    machine.wait(300)
    machine.tell(failed)
    machine.wait(900)
    assert [reason for reason, _ in machine.mails] == [Reason.OPENED, Reason.ESCALATED]


def test_errors_hours_apart_are_no_fault_of_the_adapter() -> None:
    """Three disks, of a controller whose clock was not compared."""
    disks = tuple(
        PhysicalDisk(f"channel {n}", OK, model="DISK-8", serial=f"P-{n}") for n in range(1, 4)
    )
    machine = behind(replace(VOLUME, arrays=(), disks=disks))
    machine.state = replace(machine.state, clocks={"areca 1": ControllerClock()})
    machine.tell(*(machine.reading_error(n, (n - 3) * HOUR) for n in range(1, 4)))
    assert len(machine.open) == 3


def test_a_superblock_that_could_not_be_written_is_the_failing_members() -> None:
    """The kernel's line names no device; with two failing disks it is not assigned."""

    def superblock(machine: FakeMachine) -> StorageEvent:
        text = "md: super_written gets error=-5"
        return StorageEvent("kernel", "md_super_error", text, realtime_seconds=machine.now)

    machine = FakeMachine()
    machine.tell(machine.medium_error("sdb"), superblock(machine))
    assert [i.key for i in machine.open] == [identity(MACHINE, "sdb").key]
    machine = FakeMachine()
    machine.tell(machine.medium_error("sda"), machine.medium_error("sdb", 9), superblock(machine))
    assert len(machine.open) == 3


IMAGE = replace(
    block_device("loop0", leaf=False), device_number="7:0", backing_file="/srv/images/vm.img"
)
BACKED = topology(
    replace(sd("sda", "S-A", address="2:0:0:0"), device_number="8:0"),
    IMAGE,
    replace(block_device("nbd0", leaf=False), device_number="43:0"),
    replace(block_device("zram0", leaf=False), device_number="253:0"),
)
SRV = "20 1 8:0 / /srv rw - ext4 /dev/sda rw\n"


@pytest.mark.parametrize(
    ("begins", "ends"),
    [
        (
            "ata3: hard resetting link\nata3: SATA link down (SStatus 0 SControl 300)",
            "ata3: SATA link up 6.0 Gbps (SStatus 133 SControl 300)",
        ),
        (
            "lpfc 0000:3b:00.0: 0:1305 Link Down Event x2 received Data: x2 x20 x800110 x0",
            "lpfc 0000:3b:00.0: 0:1303 Link Up Event x3 received Data: x3 x0 x40 x0 x0",
        ),
        (
            "qla2xxx [0000:3b:00.0]-500b:7: LOOP DOWN detected (2 7 0 0).",
            "qla2xxx [0000:3b:00.0]-500a:7: LOOP UP detected (16 Gbps).",
        ),
        ("connection1:0: detected conn error (1011)", "connection1:0: detected conn login (3)"),
        (
            "EXT4-fs (sdb): Remounting filesystem read-only",
            "EXT4-fs (sdb): re-mounted 3a1b9c52-1f0e-4d54-9a0b-2f7c3c9d1e77 r/w. Quota mode: none.",
        ),
        (
            "EXT4-fs (sdb): Remounting filesystem read-only",
            "EXT4-fs (sdb): mounted filesystem 0a r/w with ordered data mode. Quota mode: none.",
        ),
        (
            "XFS (sdb): Filesystem has been shut down due to log error (0x2).",
            "XFS (sdb): Ending recovery (logdev: internal)",
        ),
        (
            "XFS (sdb): Filesystem has been shut down due to log error (0x2).",
            "XFS (sdb): Ending clean mount",
        ),
    ],
)
def test_a_line_reports_the_end_of_what_another_one_began(begins: str, ends: str) -> None:
    """Until then the fault lasts, although its own line is hours old; then it is resolved."""
    machine = FakeMachine()
    first, second = lines(machine, begins, ends)[-2:]
    machine.tell(first)
    machine.wait(2 * HOUR, 600.0)
    (alert,) = event_alerts.alerts(machine.state, TABLE, machine.now)
    assert alert.absent_seconds is None
    machine.tell(replace(second, realtime_seconds=machine.now))
    (alert,) = event_alerts.alerts(machine.state, TABLE, machine.now)
    assert alert.absent_seconds == machine.now


@pytest.mark.parametrize(
    ("begins", "ends"),
    [
        (
            "megaraid_sas 0000:3b:00.0: FW in FAULT state Fault code:0x10000 subcode:0x0",
            "megaraid_sas 0000:3b:00.0: reset successful",
        ),
        (
            "qla2xxx [0000:3b:00.0]-8018:7: ADAPTER RESET ISSUED nexus=7:0:0.",
            "qla2xxx [0000:3b:00.0]-8017:7: ADAPTER RESET SUCCEEDED nexus=7:0:0.",
        ),
        (
            "smartpqi 0000:3b:00.0: resetting scsi 2:0:0:0 SCSI cmd at 00 due to cmd opcode 0x2a",
            "smartpqi 0000:3b:00.0: reset of scsi 2:0:0:0: SUCCESS",
        ),
    ],
)
def test_an_adapter_works_again_when_its_driver_prints_that_or_has_been_silent_for_10_minutes(
    begins: str, ends: str
) -> None:
    """Not every driver prints it: without such a line no reset lasts for a day."""
    machine = FakeMachine()
    machine.tell(*lines(machine, begins))
    machine.wait(10.0)
    machine.tell(*lines(machine, ends))
    (alert,) = event_alerts.alerts(machine.state, TABLE, machine.now)
    assert alert.absent_seconds == machine.now
    silent = FakeMachine()
    silent.tell(*lines(silent, begins))
    silent.wait(601.0, 60.0)
    assert event_alerts.alerts(silent.state, TABLE, silent.now) == []


@pytest.mark.parametrize(
    ("begins", "ends", "is_over"),
    [
        (
            "EXT4-fs (sda): Remounting filesystem read-only",
            "EXT4-fs (sda): re-mounted 0a r/w",
            True,
        ),
        (
            "EXT4-fs (sda): Remounting filesystem read-only",
            "EXT4-fs (sda): mounted filesystem 0a r/w with ordered data mode. Quota mode: none.",
            True,
        ),
        (
            "EXT4-fs (sda): Remounting filesystem read-only",
            "EXT4-fs (sda): mounted filesystem 0a ro with ordered data mode. Quota mode: none.",
            False,
        ),
        (
            "XFS (sda): Filesystem has been shut down due to log error (0x2).",
            "XFS (sda): Ending clean mount",
            True,
        ),
    ],
)
def test_a_file_system_of_a_known_disk_is_well_again_once_it_is_mounted(
    begins: str, ends: str, is_over: bool
) -> None:
    """Its fault is that of the file system, not of the disk; to read from it is no repair."""
    known = DeviceMap(topology=topology(replace(sd("sda", "S1"), device_number="8:0")))
    machine = FakeMachine(known=known, mounts=parse_mountinfo(SRV))
    machine.tell(*lines(machine, begins))
    (group,) = machine.state.groups
    assert group.subject.startswith("file system")
    machine.wait(60.0)
    machine.tell(*lines(machine, ends))
    (alert,) = event_alerts.alerts(machine.state, TABLE, machine.now)
    assert (alert.absent_seconds is not None) is is_over
    healthy = FakeMachine(known=known, mounts=parse_mountinfo(SRV))
    healthy.tell(*lines(healthy, "XFS (sda): Ending clean mount"))
    assert healthy.news == ()  # each start of the host prints such a line


TWO_PATHS = topology(
    replace(sd("sda", "LUN-1", holders=("dm-0",), address="2:0:0:1"), device_number="8:0"),
    replace(sd("sdb", "LUN-1", holders=("dm-0",), address="3:0:0:1"), device_number="8:16"),
    replace(
        block_device("dm-0", slaves=("sda", "sdb"), leaf=False),
        device_number="253:0",
        dm_name="mpatha",
        dm_uuid="mpath-3600a",
    ),
)


@pytest.mark.parametrize("order", [("8:0", "8:16"), ("8:16", "8:0")])
def test_two_paths_of_a_lun_are_well_when_both_are_used_again(order: tuple[str, str]) -> None:
    """Same serial number, one incident: the first path that returns does not resolve it."""
    machine = FakeMachine(known=DeviceMap(topology=TWO_PATHS))
    head = "device-mapper: multipath: 253:0:"
    failed = [f"{head} Failing path {path}." for path in ("8:0", "8:16")]
    returned = [f"{head} Reinstating path {path}." for path in order]
    over = []
    for event in lines(machine, *failed, *returned):
        machine.tell(event)
        (alert,) = event_alerts.alerts(machine.state, TABLE, machine.now)
        over.append(alert.absent_seconds is not None)
    assert over == [False, False, False, True]


THIN_POOL = topology(
    sd("sda", "S-A", address="2:0:0:0", holders=("dm-7",)),
    replace(
        block_device("dm-7", slaves=("sda",), leaf=False), dm_name="vgm-pool", device_number="253:7"
    ),
)


def test_a_line_that_names_no_pool_ends_with_the_pool_that_it_was_about() -> None:
    """The kernel says of which pool the mode changes, but not which one has no free metadata."""
    machine = FakeMachine(known=DeviceMap(topology=THIN_POOL))
    machine.tell(
        *lines(
            machine,
            "device-mapper: thin: 253:7: switching pool to read-only mode",
            "device-mapper: thin: No free metadata blocks",
        )
    )
    (full,) = event_alerts.alerts(machine.state, TABLE, machine.now)
    assert (full.name, full.count, full.absent_seconds) == ("dm_pool_full", 2, None)
    machine.now += HOUR / 10
    machine.tell(*lines(machine, "device-mapper: thin: 253:7: switching pool to write mode"))
    (over,) = event_alerts.alerts(machine.state, TABLE, machine.now)
    assert over.absent_seconds is not None


@pytest.mark.parametrize("kind", ["block_io_error", "block_medium_error", "lost_write"])
@pytest.mark.parametrize("name", ["dm-7", "md0", "bcache0", "drbd1"])
def test_an_error_of_a_device_that_is_built_on_others_is_no_error_of_a_disk(
    kind: str, name: str
) -> None:
    """No space, no path, no member, no key: the same error of a disk has a disk's advice."""
    texts = {}
    for device in (name, "sdc"):
        machine = FakeMachine()
        machine.tell(StorageEvent("kernel", kind, "I/O error", device=device))
        (alert,) = event_alerts.alerts(machine.state, TABLE, machine.now)
        texts[device] = f"{alert.annotation('description')} {alert.annotation('advice')}"
    assert ["the disk is failing" in text for text in texts.values()] == [False, True]
    assert ["off this disk" in text for text in texts.values()] == [False, True]
    assert "{thin_pool}" in texts[name]


def test_a_member_that_was_left_out_belongs_to_the_array_that_is_started_next() -> None:
    """Two mirrors at boot, in the order of their lines; the array of a third is unknown."""
    machine = FakeMachine()
    texts = (
        (0.0, "md: kicking non-fresh sdc1 from array!"),
        (0.1, "md/raid1:md0: active with 1 out of 2 mirrors"),
        (0.2, "md: kicking non-fresh sdd1 from array!"),
        (0.3, "md/raid1:md1: active with 1 out of 2 mirrors"),
        (9.0, "md: kicking non-fresh sdb from array!"),
    )
    events: tuple[StorageEvent, ...] = ()
    for after, words in texts:
        events += classify(Classifier(), KernelLine(words, realtime_seconds=START - 60 + after))[1]
    machine.tell(*events, baseline=True)
    alerts = event_alerts.alerts(machine.state, TABLE, machine.now)
    assert {(a.subject, a.annotation("summary")) for a in alerts} == {
        ("device md0", "array md0 was assembled without its member sdc1"),
        ("device md1", "array md1 was assembled without its member sdd1"),
        ("disk  DISK-9 S-B", "a member was left out when the array was assembled"),
    }


def lines(machine: FakeMachine, *texts: str) -> tuple[StorageEvent, ...]:
    """Return the events of lines of the kernel's log."""
    state, found = Classifier(), []
    for number, text in enumerate(texts):
        at = machine.now - START + number
        line = KernelLine(text, 3, boot_id="boot", monotonic_seconds=at)
        state, events = classify(state, line)
        found += [replace(each, realtime_seconds=machine.now) for each in events]
    return tuple(found)


@pytest.mark.parametrize(
    ("device", "number"), [("loop0", "7:0"), ("nbd0", "43:0"), ("zram0", "253:0")]
)
def test_an_error_of_what_is_made_of_a_file_or_a_network_is_reported_if_it_is_in_use(
    device: str, number: str
) -> None:
    """The file system on it loses data; an unmounted image loses nothing."""
    told = (
        f"I/O error, dev {device}, sector 8 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2",
        f"Buffer I/O error on dev {device}, logical block 1, lost async page write",
    )
    idle = FakeMachine(known=DeviceMap(topology=BACKED), mounts=parse_mountinfo(SRV))
    idle.tell(*lines(idle, *told))
    idle.wait(120.0)
    assert (idle.news, idle.open) == ((), [])
    used = SRV + f"30 1 {number} / /mnt rw - ext4 /dev/{device} rw\n"
    busy = FakeMachine(known=DeviceMap(topology=BACKED), mounts=parse_mountinfo(used))
    busy.tell(*lines(busy, *told))
    busy.wait(120.0)
    assert [each.object for each in busy.open] == [device]
    assert len(busy.mails) == 1


CHECKSUM = (
    "BTRFS warning (device loop0): csum failed root 5 ino 259 off 8192 csum 0x8941f998 expected"
    " csum 0x7b2b9822 mirror 1"
)


UUID = "8213ed5c-69e5-4248-94ed-56a24ed8c204"


@pytest.mark.parametrize("is_attached", [True, False])
def test_a_btrfs_on_a_file_is_reported_while_it_is_mounted(*, is_attached: bool) -> None:
    """Its lines name a device only in the words of the file system, and stay in the log for days.

    The image of a test, which nobody has any more, was the first mail of a newly installed host.
    """
    missing = f"BTRFS warning (device loop0): devid 2 uuid {UUID} is missing"
    devices = BACKED.devices.values() if is_attached else (BACKED.devices["sda"],)
    gone = FakeMachine(known=DeviceMap(topology=topology(*devices)), mounts=parse_mountinfo(SRV))
    gone.tell(*lines(gone, CHECKSUM, missing))
    gone.wait(120.0)
    assert (gone.news, gone.open) == ((), [])
    system = FileSystem("u1", ("loop0",))
    mounted = replace(BACKED, btrfs={"loop0": system})
    used = SRV + "30 1 0:44 / /mnt rw - btrfs /dev/loop0 rw\n"
    machine = FakeMachine(known=DeviceMap(topology=mounted), mounts=parse_mountinfo(used))
    machine.tell(*lines(machine, CHECKSUM))
    machine.wait(120.0)
    assert [each.severity for each in machine.open] == [Severity.CRITICAL]


def test_an_error_of_an_image_is_a_consequence_of_the_disk_that_has_its_file() -> None:
    """/srv/images/vm.img is on sda, which cannot be read: one incident, of sda."""
    used = SRV + "30 1 7:0 / /mnt rw - ext4 /dev/loop0 rw\n"
    machine = FakeMachine(known=DeviceMap(topology=BACKED), mounts=parse_mountinfo(used))
    machine.tell(
        *lines(
            machine,
            "critical medium error, dev sda, sector 4096 op 0x0:(READ) flags 0x0 phys_seg 1",
            "I/O error, dev loop0, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
        )
    )
    machine.wait(120.0)
    (incident,) = machine.open
    assert incident.key == identity(BACKED, "sda").key
    assert {m.name for m in incident.members} >= {"block_medium_error", "block_io_error"}


def seen(*alerts: tuple[float, Alert], log: tuple[tuple[float, str, str], ...]) -> FakeMachine:
    """A machine with firing rules and log lines (seconds, kind, device)."""
    machine = FakeMachine()
    for second in range(300):
        machine.now = START + second
        machine.alerts = [alert for at, alert in alerts if at <= second]
        lines = [
            StorageEvent("kernel", kind, kind, device=device, realtime_seconds=machine.now)
            for at, kind, device in log
            if at == second
        ]
        machine.tell(*lines)
    return machine


@pytest.mark.parametrize(
    ("alert", "log", "without", "better"),
    [
        # a member fails: the log names its disk
        (
            ("MdDegraded", "md0", 4.0),
            ((1.0, "block_medium_error", "sdb"), (3.0, "md_disk_failure", "sdb")),
            "md0",
            "sdb",
        ),
        # tasks hang: the log names the disk that went offline
        (("HungTask", "", 130.0), ((2.0, "scsi_offlined", "sdc"),), "host", "sdc"),
        # the array is inactive: by the log its disk was disabled before
        (("MdInactive", "md0", 60.0), ((2.0, "ata_disabled", "sda"),), "md0", "sda"),
        # a stall without an explanation in the log is unchanged
        (("WriteStall", "", 5.0), (), "host", "host"),
    ],
)
def test_the_log_names_a_deeper_cause_and_never_makes_more_incidents(
    alert: tuple[str, str, float],
    log: tuple[tuple[float, str, str], ...],
    without: str,
    better: str,
) -> None:
    """The same fault with and without the kernel log: one incident, the more precise one."""
    name, device, at = alert
    key = identity(MACHINE, device).key if device else ""
    labels = (("alertname", name), ("severity", "critical"))
    fires = Alert(
        name, labels, AlertState.FIRING, 1.0, (), START + at, START + at, subject=key, object=device
    )
    blind, sighted = seen((at, fires), log=()), seen((at, fires), log=log)
    assert [each.object.partition(" ")[0] for each in blind.open] == [without]
    assert [each.object.partition(" ")[0] for each in sighted.open] == [better]
    opened = [reason for reason, _ in sighted.mails if reason is Reason.OPENED]
    assert len(opened) == 1
    assert len(sighted.mails) <= len(blind.mails) + 1
