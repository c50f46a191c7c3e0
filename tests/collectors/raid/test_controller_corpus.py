"""Published outputs of Areca's and 3ware's programs: each file parsed, with expected results.

The expectations were written after reading each file.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from support.recordings import CORPUS, corpus, needs_corpus

from iowarden.collectors.model import ParseError
from iowarden.collectors.raid.areca import cli64, event_info
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.raid.threeware import alarms, tw_cli

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from iowarden.collectors.event import StorageEvent
    from iowarden.collectors.raid.controller import Controller, ControllerArray, PhysicalDisk

AREAD: dict[str, Callable[[str], object]] = {
    "raid sets": cli64.parse_raid_sets,
    "volumes": cli64.parse_volumes,
    "disks": cli64.parse_bays,
    "hardware": cli64.parse_hardware,
    "system": cli64.parse_system,
    "smart": cli64.parse_disk_smart,
    "events": lambda text: event_info.parse_events(text, "areca 1"),
}
TREAD: dict[str, Callable[[str], object]] = {
    "controllers": tw_cli.parse_controllers,
    "state": lambda text: tw_cli.parse_controller(text, "c0"),
    "events": lambda text: alarms.parse_alarms(text, "c0"),
}
CHECK_RAID = "areca/glensc+nagios-plugin-check_raid/"
TW = "3ware/glensc+nagios-plugin-check_raid/"


def files(*folders: str) -> list[Path]:
    """Return the files below folders of the corpus."""
    found = [path for folder in folders for path in (CORPUS / folder).rglob("*")]
    return sorted(path for path in found if path.is_file())


def verdicts(path: Path, readers: dict[str, Callable[[str], object]]) -> frozenset[str]:
    """Return the parsers that accept a file."""
    text = path.read_text(errors="surrogateescape")
    found = set()
    for name, read in readers.items():
        try:
            read(text)
        except ParseError as error:
            assert str(error)  # noqa: PT017 - a refusal has a reason
        else:
            found.add(name)
    return frozenset(found)


@needs_corpus
def test_every_file_is_read_as_one_thing_or_refused() -> None:
    """No file is skipped, and none is accepted as another output."""
    aread = Counter(verdicts(path, AREAD) for path in files("areca"))
    assert aread == {
        frozenset({"raid sets"}): 5,
        frozenset({"volumes"}): 1,
        frozenset({"disks"}): 5,
        frozenset({"hardware"}): 1,
        frozenset({"system"}): 1,
        frozenset({"smart"}): 1,
        frozenset({"events"}): 1,
    }
    reference = sorted((CORPUS / "reference").glob("areca*"))
    assert Counter(verdicts(path, AREAD) for path in reference) == {
        frozenset({"smart"}): 2,
        frozenset({"events"}): 2,
        frozenset(): 2,  # a banner; 'Drive 2 Is Not Available'
    }
    assert Counter(verdicts(path, TREAD) for path in files("3ware")) == {
        frozenset({"controllers"}): 9,
        frozenset({"state"}): 21,
        frozenset({"events"}): 2,
        frozenset(): 2,  # an empty output; an error
    }


def arrays(*told: tuple[ControllerArray, ...]) -> list[tuple[str, str, str]]:
    """Return the arrays: name, label, state."""
    return [(each.name, each.label, each.state.health) for part in told for each in part]


def disks(text: str, *sets: ControllerArray) -> dict[str, PhysicalDisk]:
    """Return the disks in the bays."""
    return {b.disk.slot: b.disk for b in cli64.parse_bays(text, sets) if b.disk is not None}


def test_raid_sets_of_each_layout() -> None:
    """Names contain blanks, a column lists channels by letters, a prompt precedes."""
    one = cli64.parse_raid_sets(corpus(CHECK_RAID + "cli64.rsf.info-1").read_text())
    assert arrays(one) == [("raid set 1", "Raid Set # 000", ComponentHealth.OK)]
    assert one[0].size_bytes == 34_500_000_000_000
    (two,) = cli64.parse_raid_sets(corpus(CHECK_RAID + "cli64.rsf.info-2").read_text())
    assert set(two.slots) == {f"channel {n}" for n in range(1, 17)} - {"channel 13"}
    three = cli64.parse_raid_sets(corpus(CHECK_RAID + "pr72/areca_cli64_rsf_info.out").read_text())
    assert arrays(three) == [
        ("raid set 1", "Raid Set # 000", ComponentHealth.OK),
        ("raid set 2", "data2", ComponentHealth.OK),
        ("raid set 3", "PassThroughDisk", ComponentHealth.OK),
    ]
    (four,) = cli64.parse_raid_sets(corpus(CHECK_RAID + "ticket40/areca-rsf-info.txt").read_text())
    assert set(four.slots) == {f"channel {n}" for n in range(1, 10)}
    sets = cli64.parse_raid_sets(corpus("areca/arc188x-exporter/rsf-info.txt").read_text())
    volumes = cli64.parse_volumes(corpus("areca/arc188x-exporter/vsf-info.txt").read_text(), sets)
    assert arrays(sets, volumes) == [
        ("raid set 1", "OS", ComponentHealth.OK),
        ("raid set 2", "EBS", ComponentHealth.OK),
        ("raid set 3", "S3-Walrus", ComponentHealth.OK),
        ("volume 1", "OS", ComponentHealth.OK),
        ("volume 2", "EBS-Volumeset", ComponentHealth.OK),
        ("volume 3", "S3-WALRUS", ComponentHealth.OK),
    ]
    assert [(v.parent, v.level, v.address) for v in volumes] == [
        ("raid set 1", "Raid1+0", "0:0:0"),
        ("raid set 2", "Raid5", "0:0:1"),
        ("raid set 3", "Raid5", "0:0:2"),
    ]


@pytest.mark.parametrize(
    ("name", "sets", "count", "spares", "bays"),
    [
        ("cli64.disk.info-1", "cli64.rsf.info-1", 24, ["enclosure 2 slot 22"], 36),
        ("cli64.disk.info-2", "cli64.rsf.info-2", 16, ["channel 13"], 16),
        ("pr72/areca_cli64_disk_info.out", "pr72/areca_cli64_rsf_info.out", 13, [], 32),
        ("ticket40/areca-disk-info.txt", "ticket40/areca-rsf-info.txt", 9, [], 16),
    ],
)
def test_disks_are_of_the_raid_sets_they_name(
    name: str, sets: str, count: int, spares: list[str], bays: int
) -> None:
    """Empty bays are no disks; all these machines are healthy."""
    known = cli64.parse_raid_sets(corpus(CHECK_RAID + sets).read_text())
    text = corpus(CHECK_RAID + name).read_text()
    assert len(cli64.parse_bays(text)) == bays
    found = disks(text, *known)
    assert len(found) == count
    assert {disk.state.health for disk in found.values()} == {ComponentHealth.OK}
    assert [slot for slot, disk in found.items() if disk.usage == "HotSpare"] == spares
    members = Counter(disk.array for disk in found.values())
    assert sum(members[each.name] for each in known) == count - len(spares) - ("pr72" in name)
    assert all(disk.model and disk.kind and disk.size_bytes for disk in found.values())


def test_disks_of_the_other_captures() -> None:
    """Two disks in an enclosure; a model with a blank; a pass-through disk."""
    found = disks(corpus("areca/check_raid-pr223/disk-info.txt").read_text())
    assert {slot: (d.model, d.kind, d.state.health) for slot, d in found.items()} == {
        f"enclosure 1 slot {n}": ("SEAGATE ST1000NM0023", f"areca,{n}/1", ComponentHealth.OK)
        for n in (1, 2)
    }
    through = disks(corpus(CHECK_RAID + "pr72/areca_cli64_disk_info.out").read_text())
    last = through["enclosure 2 slot 13"]
    assert (last.model, last.usage, last.size_bytes) == (
        "ST3750640NS",
        "Pass Through",
        750_200_000_000,
    )
    # Six disks share 'data2', which is the name of a RAID set and no state.
    assert through["enclosure 2 slot 7"].state.health is ComponentHealth.OK


def test_the_hardware_monitor_and_the_system() -> None:
    """No battery is no fault; 0 degrees is an empty bay; a fan with N.A. is none."""
    found = cli64.parse_hardware(
        corpus("areca/iissmart+munin-areca-plugin/hw-info.txt").read_text()
    )
    assert found.disk_temperatures_celsius == dict(
        enumerate([43.0, 40, 39, 39, 33, 33, 33, 31], start=1)
    )
    (battery,) = found.batteries
    assert (battery.state.health, battery.ready) == (ComponentHealth.ABSENT, None)
    told = {sensor.name: sensor for sensor in found.sensors}
    assert len(told) == 11
    assert told["CPU Temperature"].temperature_celsius == 61
    assert told["Power +12V"].voltage_volts == 11.916
    assert not any(sensor.state for sensor in found.sensors)
    system = cli64.parse_system(corpus("areca/inq-team+einarc/sys-info-arc1160.txt").read_text())
    assert (system.model, system.firmware, system.memory_bytes) == (
        "ARC-1160",
        "V1.39 2006-2-9",
        256 * 2**20,
    )


def kinds(events: tuple[StorageEvent, ...]) -> list[tuple[str, str]]:
    """Return kind and place of events."""
    return [(event.kind, event.place) for event in events]


def test_the_controller_that_lost_its_memory() -> None:
    """DRAM errors, then a disk, a raid set and a volume in the same second; oldest first."""
    log = event_info.parse_events(
        corpus("areca/arc1210-incident/event-info.txt").read_text(), "areca 1"
    )
    assert not log.cut
    assert kinds(log.events) == [
        ("areca_raid_powered_on", ""),
        ("areca_dram_fatal_error", ""),
        ("areca_dram_fatal_error", ""),
        ("areca_device_failed", "channel 2"),
        ("areca_raidset_degraded", "Raid Set # 01"),
        ("areca_volume_failed", "WD40EFAX-68JH4N0"),
        ("areca_dram_fatal_error", ""),
        ("areca_raid_powered_on", ""),
    ]
    assert log.events[2].clock_seconds == log.events[5].clock_seconds == 1_781_468_082


def test_the_reading_errors_of_the_incident() -> None:
    """Channel 2, five times, and log-ins of the user; then ten more."""
    first, second = (
        event_info.parse_events(corpus(f"reference/areca-cli-event-info-{n}.txt").read_text(), "a")
        for n in ("1", "2-repeated")
    )
    assert Counter(kinds(first.events)) == {
        ("areca_reading_error", "channel 2"): 5,
        ("areca_http_log_in", ""): 2,
        ("areca_raid_powered_on", ""): 3,
    }
    assert Counter(kinds(second.events)) == {("areca_reading_error", "channel 2"): 10}
    assert first.events[-1].clock_seconds == 1_219_558_491


def tw(name: str) -> Controller:
    """Return the parsed 3ware file."""
    return tw_cli.parse_controller(corpus(TW + name).read_text(), "c0")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("1/info.c.unitstatus", {"u0": ("RAID-6", ComponentHealth.OK, None, True)}),
        ("2/info.c0.unitstatus", {"u0": ("RAID-5", ComponentHealth.BUSY, 0.16, True)}),
        ("black/unitstatus", {"u0": ("RAID-1", ComponentHealth.OK, None, True)}),
        (
            "bohr/info.c0.unitstatus",
            {
                "u0": ("RAID-10", ComponentHealth.OK, None, True),
                "u1": ("JBOD", ComponentHealth.OK, None, False),
                "u2": ("JBOD", ComponentHealth.OK, None, False),
            },
        ),
        (
            "bootc/unitstatus",
            {
                "u0": ("RAID-6", ComponentHealth.BUSY, 0.29, True),
                "u1": ("RAID-6", ComponentHealth.BUSY, 0.18, True),
                "u2": ("SPARE", ComponentHealth.BUSY, 0.14, None),
                "u3": ("SPARE", ComponentHealth.BUSY, 0.0, None),
            },
        ),
        ("ichy/info.c0.unitstatus", {"u0": ("RAID-5", ComponentHealth.OK, None, True)}),
        ("rover/unitstatus", {"u0": ("RAID-5", ComponentHealth.OK, None, False)}),
        (
            "tw_cli,info,c0,unitstatus",
            {
                "u0": ("RAID-10", ComponentHealth.BUSY, 0.63, True),
                "u2": ("RAID-5", ComponentHealth.BUSY, 0.0, True),
            },
        ),
    ],
)
def test_units(name: str, expected: dict[str, tuple[object, ...]]) -> None:
    """Numbers need not be consecutive; a unit that verifies or initializes has redundancy."""
    assert {
        each.name: (
            each.level,
            each.state.health,
            each.state.done_ratio,
            each.policy.write_back if each.policy else None,
        )
        for each in tw(name).arrays
    } == expected


@pytest.mark.parametrize(
    ("name", "count", "serials", "busy"),
    [
        ("1/info.c.drivestatus", 16, 16, 0),
        ("2/info.c0.drivestatus", 4, 0, 0),
        ("black/drivestatus", 2, 2, 0),
        ("bohr/info.c0.drivestatus", 6, 0, 0),
        ("bootc/drivestatus", 18, 0, 2),
        ("ichy/info.c0.drivestatus", 6, 6, 0),
        ("rover/drivestatus", 6, 6, 0),
    ],
)
def test_ports(name: str, count: int, serials: int, busy: int) -> None:
    """Old firmware reports serial numbers, newer models; empty ports are no disks."""
    found = tw(name).disks
    assert len(found) == len({disk.slot for disk in found}) == count
    assert sum(bool(disk.serial) for disk in found) == serials
    assert sum(bool(disk.model) for disk in found) == count - serials
    health = Counter(disk.state.health for disk in found)
    assert health == {ComponentHealth.OK: count - busy, ComponentHealth.BUSY: busy} or not busy
    assert health[ComponentHealth.OK] + health[ComponentHealth.BUSY] == count


def test_a_controller_as_a_whole() -> None:
    """Model, memory, unit with its ports, battery."""
    found = tw("2/c0.show.all")
    assert (found.model, found.serial, found.memory_bytes) == (
        "9750-4i",
        "SV12115702",
        488 * 2**20,
    )
    (unit,) = found.arrays
    assert (unit.slots, unit.address) == (tuple(f"port {n}" for n in range(4)), "0:0:0")
    (battery,) = found.batteries
    assert (battery.state.health, battery.ready) == (ComponentHealth.OK, True)
    assert tw("bohr/info.c0.bbustatus").batteries == (battery,)
    # SAS disks: smartctl cannot read them.
    assert {disk.kind for disk in found.disks} == {""}
    enclosure = tw("bootc-enc/c0.e0.show.all").sensors
    assert Counter(s.state.health for s in enclosure if s.state) == {
        ComponentHealth.OK: 15,
        ComponentHealth.ABSENT: 2,
    }
    told = {sensor.name: sensor for sensor in enclosure}
    assert told["e0 fan1"].fan_rpm == 9500
    assert told["e0 temp0"].temperature_celsius == 41


def test_controllers_that_are_listed() -> None:
    """With and without a battery; one lists units that are not optimal."""
    names = ("1/info", "2/info", "black/info", "bohr/info", "bootc-enc/show", "bootc/info")
    names += ("ichy/info", "rover/info", "tw_cli,info")
    found = {n: tw_cli.parse_controllers(corpus(TW + n).read_text()) for n in names}
    assert {(n, *((c.name, c.model, c.battery) for c in each)) for n, each in found.items()} == {
        ("1/info", ("c0", "9650SE-16ML", "OK")),
        ("2/info", ("c0", "9750-4i", "OK")),
        ("black/info", ("c0", "8006-2LP", "")),
        ("bohr/info", ("c0", "9650SE-8LPML", "OK")),
        ("bootc-enc/show", ("c0", "9750-4i", "")),
        ("bootc/info", ("c0", "9750-4i", "")),
        ("ichy/info", ("c0", "9650SE-12ML", "OK")),
        ("rover/info", ("c0", "9500S-8", "")),
        ("tw_cli,info", ("c0", "8506-8", "")),
    }
    assert [each[0].units_not_optimal for each in found.values()] == [0] * 8 + [2]
    assert found["bootc-enc/show"][0].enclosures == (0,)


def test_a_session_a_guide_with_tabs_and_tables_without_headings() -> None:
    """Tables occur twice, columns are tabs, one follows the other."""
    session = tw_cli.parse_controller(
        corpus("3ware/ChrisLayton+3ware_tool/readme-session.txt").read_text(), "c2"
    )
    assert [(a.name, a.level, a.state.health) for a in session.arrays] == [
        (f"u{n}", "JBOD", ComponentHealth.OK) for n in range(6)
    ]
    assert [a.policy.word for a in session.arrays if a.policy] == ["RiW"] * 6
    assert [d.slot for d in session.disks] == [f"port {n}" for n in range(6)]
    guide = tw_cli.parse_controller(corpus("3ware/freenas-guide/c0-show.txt").read_text(), "c0")
    assert {a.name: a.slots for a in guide.arrays} == {
        "u0": ("enclosure 0 slot 0", "enclosure 0 slot 1"),
        "u1": ("enclosure 0 slot 8",),
        "u2": tuple(f"enclosure 0 slot {n}" for n in (9, 10, 15)),
    }
    tables = corpus("3ware/inq-team+einarc/c0-show-tables.txt").read_text()
    plain = tw_cli.parse_controller(tables, "c0")
    assert (len(plain.arrays), len(plain.disks)) == (3, 4)
    assert plain.disks[0].size_bytes == 976_773_168 * 512


def test_alarms_of_both_dates() -> None:
    """The first column of the guide's sample names another controller than the queried one."""
    text = corpus("3ware/cliguide-10.2/c1-show-alarms.txt").read_text()
    log = alarms.parse_alarms(text, "c1")
    assert [(e.code, e.word, e.place) for e in log.events] == [
        ("0x0019", "WARNING", "port 1"),
        ("0x0002", "ERROR", "port 1"),
        ("0x001A", "INFO", "port 1"),
        ("0x001F", "INFO", "unit 1"),
        ("0x0033", "INFO", "unit 0"),
        ("0x0035", "INFO", "unit 0"),
        ("0x0019", "WARNING", "port 1"),
        ("0x001E", "ERROR", "unit 1"),
        ("0x001A", "INFO", "port 1"),
        ("0x001F", "INFO", "unit 1"),
    ]
    assert {event.controller for event in log.events} == {"c1"}
    assert log.events[0].clock_seconds == 1_206_109_140
    old = corpus("3ware/inq-team+einarc/show-alarms-2008.txt").read_text()
    assert [(e.kind, e.clock_seconds) for e in alarms.parse_alarms(old, "c0").events] == [
        ("3ware_battery_charging_completed", 1_215_528_730),
        ("3ware_verify_started", 1_215_541_205),
        ("3ware_verify_started", 1_215_541_205),
    ]
