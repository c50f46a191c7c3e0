"""Alerts about RAID controllers: none for healthy ones, and each fault has its own alert."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.host import shipped_rules
from support.recordings import CORPUS, corpus
from support.simulation import START, UPTIME, Simulation

from iowarden.collectors import registry
from iowarden.collectors.machine import probe_path
from iowarden.collectors.model import Outcome, ParseError, Reading
from iowarden.collectors.raid.adaptec import arcconf
from iowarden.collectors.raid.areca import cli64
from iowarden.collectors.raid.controller import (
    Battery,
    CachePolicy,
    ComponentHealth,
    ComponentState,
    Controller,
    ControllerArray,
    Controllers,
    PhysicalDisk,
    Problem,
    Sensor,
)
from iowarden.collectors.raid.megaraid import megacli, storcli
from iowarden.collectors.raid.mpt import mpt_status, sasircu
from iowarden.collectors.raid.smartarray import ssacli
from iowarden.collectors.raid.threeware import tw_cli
from iowarden.collectors.raid.vendors import BACKENDS
from iowarden.daemon.probe import allowed
from iowarden.daemon.probe.programs import DIRECTORIES
from iowarden.rules.alerting import alerts as life
from iowarden.rules.engine.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.collectors.raid.backend import Backend

CHECK_RAID = "areca/glensc+nagios-plugin-check_raid/"
ARECAS = {
    "1": ("cli64.rsf.info-1", "cli64.disk.info-1"),
    "2": ("cli64.rsf.info-2", "cli64.disk.info-2"),
    "pr72": ("pr72/areca_cli64_rsf_info.out", "pr72/areca_cli64_disk_info.out"),
    "ticket40": ("ticket40/areca-rsf-info.txt", "ticket40/areca-disk-info.txt"),
}
DAY = 86_400.0
DONE = "GuiErrMsg<0x00>: Success.\n"
SETS = " #  Name          Disks TotalCap  FreeCap DiskChannels       State\n"
BAYS = "  # Ch# ModelName             Capacity  Usage\n"
Fired = set[tuple[str, str]]


class FakeMachine:
    """The engine with the shipped rules, with the data of controllers."""

    def __init__(self) -> None:
        self.now = START
        sources = [source for source in registry.SOURCES if source.name == "controllers"]
        self.engine = Engine(shipped_rules(), sources, self.now)

    def look(
        self,
        *found: Controller,
        seconds: float = 60.0,
        every: float = 15.0,
        problems: tuple[Problem, ...] = (),
    ) -> Fired:
        """Let time pass with this state; return the alerts that fire, with their severity."""
        value = Controllers(found, problems=problems)
        end = self.now + seconds
        while self.now < end:
            self.now += every
            reading = Reading("controllers", Outcome.OK, self.now, 0.0, value, "")
            self.engine.observe([reading], self.now, self.now - START + UPTIME)
            self.engine.rules.evaluate(self.now)
        assert self.engine.rules.problems == {}
        return {
            (a.name, a.label("severity"))
            for a in self.alerts()
            if a.state is life.AlertState.FIRING
        }

    def alerts(self) -> list[life.Alert]:
        """Return what is active."""
        return [alert for alert in self.engine.rules.alerts() if alert.active]

    def alert(self, name: str) -> life.Alert:
        """Return the one active alert of a name."""
        (found,) = [alert for alert in self.alerts() if alert.name == name]
        return found


def told(*found: Controller) -> Fired:
    """Return the alerts of a lasting state, without informational ones."""
    return {(name, level) for name, level in FakeMachine().look(*found) if level != "info"}


def areca_of(name: str) -> Controller:
    """Return an Areca controller from its recorded files."""
    sets, disks = (corpus(CHECK_RAID + file).read_text() for file in ARECAS[name])
    arrays = cli64.parse_raid_sets(sets)
    bays = tuple(bay.disk for bay in cli64.parse_bays(disks, arrays) if bay.disk)
    return Controller("areca 1", "areca", arrays=arrays, disks=bays)


def threewares() -> dict[str, Controller]:
    """Return the state of a 3ware controller in each recorded file."""
    found = {}
    for path in sorted((CORPUS / "3ware").rglob("*")):
        if path.is_file():
            try:
                text = path.read_text(errors="surrogateescape")
                found[path.relative_to(CORPUS).as_posix()] = tw_cli.parse_controller(text, "c0")
            except ParseError:
                continue  # a list of controllers, of alarms
    return found


# --- healthy machines


@pytest.mark.parametrize("name", ARECAS)
def test_a_healthy_areca_reports_nothing(name: str) -> None:
    """Up to 24 disks, a hot spare, a disk passed through, empty bays."""
    found = areca_of(name)
    assert len(found.disks) >= 9
    assert told(found) == set()


def test_a_healthy_areca_with_volumes_and_sensors_reports_nothing() -> None:
    """Three raid sets with a volume each; no battery is installed, and a fan is not there."""
    sets = cli64.parse_raid_sets(corpus("areca/arc188x-exporter/rsf-info.txt").read_text())
    volumes = cli64.parse_volumes(corpus("areca/arc188x-exporter/vsf-info.txt").read_text(), sets)
    monitor = corpus("areca/iissmart+munin-areca-plugin/hw-info.txt").read_text()
    hardware = cli64.parse_hardware(monitor)
    found = Controller(
        "areca 1",
        "areca",
        arrays=(*sets, *volumes),
        batteries=hardware.batteries,
        sensors=hardware.sensors,
    )
    assert len(found.arrays) == 6
    assert told(found) == set()


def test_every_3ware_that_was_captured_reports_nothing() -> None:
    """21 machines, some of which verify or initialize themselves; some caches have no battery."""
    corpus("3ware")
    found = threewares()
    assert len(found) == 21
    assert {name: told(each) for name, each in found.items() if told(each)} == {}


def megacli_of(text: str) -> list[Controller]:
    """Return the volumes, disks or battery in an output of MegaCli; its end is added."""
    text += "\n\nExit Code: 0x00\n"
    found = Controller("megaraid c0", "megaraid")
    with suppress(ParseError):
        found = replace(found, arrays=megacli.parse_volumes(text))
    with suppress(ParseError):
        found = replace(found, disks=megacli.parse_disks(text))
    with suppress(ParseError):
        found = replace(found, batteries=(megacli.parse_battery(text),))
    return [found]


def mpt_of(text: str) -> list[Controller]:
    """Return the controller in an output of sas2ircu or mpt-status."""
    try:
        return [sasircu.parse_display(text, "mpt 0")]
    except ParseError:
        told = mpt_status.parse_status(text)
        return [Controller("ioc0", "mpt", arrays=told.arrays, disks=told.disks)]


READERS: dict[str, Callable[[str], list[Controller]]] = {
    "adaptec": lambda text: [arcconf.parse_config(text, "adaptec 1").controller],
    "hp": lambda text: [each.controller for each in ssacli.parse_controllers(text)],
    "storcli": lambda text: [each.controller for each in storcli.parse_controllers(text).values()],
    "megacli": megacli_of,
    "mpt": mpt_of,
}
"""By folder of the corpus: what reads the state of its controllers."""


def captured(folder: str) -> dict[str, list[Controller]]:
    """Return the controllers in each file of a vendor; others are read by other parsers."""
    found = {}
    for path in sorted((CORPUS / folder).rglob("*")):
        if path.is_file():
            try:
                text = path.read_text(errors="surrogateescape")
                found[path.relative_to(CORPUS).as_posix()] = READERS[folder](text)
            except ParseError:
                continue
    return found


def is_well(found: Controller) -> bool:
    """Whether a controller reports no fault of itself and its parts."""
    parts = (*found.arrays, *found.disks, *found.batteries, *found.sensors, found)
    states = [part.state for part in parts if part.state is not None]
    return all(
        each.health in {ComponentHealth.OK, ComponentHealth.BUSY, ComponentHealth.ABSENT}
        for each in states
    )


UNPROTECTED = ("ControllerCacheUnprotected", "critical")
NEVER_PROTECTED = ("ControllerCacheNeverProtected", "notice")
DISKS_CACHE = ("ControllerDiskCacheEnabled", "notice")
ERRORS_FOUND = ("ControllerDiskErrorsInBaseline", "warning")
OTHER_ERRORS_FOUND = ("ControllerDiskErrorsInBaseline", "notice")
CACHES = {
    "adaptec": {
        "glensc+nagios-plugin-check_raid/issue47/getconfig": {NEVER_PROTECTED},
        "glensc+nagios-plugin-check_raid/issue99/getconfig": {NEVER_PROTECTED},
        "glensc+nagios-plugin-check_raid/pr156/arcconf.txt": {NEVER_PROTECTED},
    },
    "hp": {"netdata+netdata/hpssa/testdata/ssacli-P400ar.txt": {DISKS_CACHE}},
    "megacli": {
        "glensc+nagios-plugin-check_raid/issue65/pdlist": {ERRORS_FOUND},
        "glensc+nagios-plugin-check_raid/issue85/pdlist": {OTHER_ERRORS_FOUND},
    },
}
"""Healthy hosts where a write cache without battery protection, or that of the disks, was switched
on; or a disk has three media errors, or hundreds of others. Two write through although they are set
to write back, and may never have had a battery: their captures contain virtual drives only."""


@pytest.mark.parametrize(
    ("folder", "files"),
    [("adaptec", 74), ("hp", 24), ("storcli", 19), ("megacli", 40), ("mpt", 12)],
)
def test_what_others_captured_raises_what_is_wrong_and_nothing_else(
    folder: str, files: int
) -> None:
    """Whatever the vendor: healthy ones cause no alert, each of the others does."""
    corpus(folder)
    found = captured(folder)
    assert len(found) >= files
    machines = [(name, each) for name, several in found.items() for each in several]
    loud = {name: told(each) for name, each in machines if is_well(each) and told(each)}
    caching = {f"{folder}/{name}": what for name, what in CACHES.get(folder, {}).items()}
    assert loud == caching
    assert [name for name, each in machines if not is_well(each) and not told(each)] == []


# --- one fault each


def array(word: str, vendor: str) -> ControllerArray:
    """Return an array in a state that a controller reports."""
    if vendor == "areca":
        line = f" 1  Raid Set # 00  3 3000.0GB 0.0GB 123  {word}"
        return cli64.parse_raid_sets(f"{SETS}{line}\n{DONE}")[0]
    header = "Unit  UnitType  Status  %RCmpl  %V/I/M  Stripe  Size(GB)  Cache  AVrfy"
    text = f"{header}\nu0 RAID-5 {word} - - 64K 1862.62 OFF ON\n"
    return tw_cli.parse_controller(text, "c0").arrays[0]


@pytest.mark.parametrize(
    ("vendor", "word", "expected"),
    [
        ("areca", "Normal", set()),
        ("areca", "Checking", set()),
        ("areca", "Initializing", set()),
        ("areca", "Degraded", {("ControllerArrayDegraded", "critical")}),
        ("areca", "Rebuilding(12.5%)", {("ControllerArrayDegraded", "critical")}),
        ("areca", "Incomplete", {("ControllerArrayFailed", "critical")}),
        ("areca", "Failed", {("ControllerArrayFailed", "critical")}),
        ("areca", "Need Init", {("ControllerArrayNeedsAttention", "warning")}),
        ("areca", "Dancing", {("ControllerArrayNeedsAttention", "warning")}),
        ("3ware", "OK", set()),
        ("3ware", "VERIFYING", set()),
        ("3ware", "DEGRADED", {("ControllerArrayDegraded", "critical")}),
        ("3ware", "REBUILD-PAUSED", {("ControllerArrayDegraded", "critical")}),
        ("3ware", "INOPERABLE", {("ControllerArrayFailed", "critical")}),
        ("3ware", "OK*", {("ControllerArrayNeedsAttention", "warning")}),
        ("3ware", "UNKNOWN", {("ControllerArrayNeedsAttention", "warning")}),
    ],
)
def test_each_word_for_an_array_has_its_alert(vendor: str, word: str, expected: Fired) -> None:
    """An unknown state is not left out, and is shown."""
    machine = FakeMachine()
    name = "areca 1" if vendor == "areca" else "c0"
    fired = machine.look(Controller(name, vendor, arrays=(array(word, vendor),)))
    assert {each for each in fired if each[1] != "info"} == expected
    for alert, _ in expected:
        summary = machine.alert(alert).annotation("summary")
        assert summary.startswith(f"{name}: ")
        assert word.partition("(")[0] in summary


@pytest.mark.parametrize(
    ("health", "expected"),
    [
        (ComponentHealth.OK, set()),
        (ComponentHealth.BUSY, set()),
        (ComponentHealth.ABSENT, set()),
        (ComponentHealth.REBUILDING, set()),
        (ComponentHealth.DEGRADED, {("ControllerDiskNeedsAttention", "warning")}),
        (ComponentHealth.ATTENTION, {("ControllerDiskNeedsAttention", "warning")}),
        (ComponentHealth.FAILING, {("ControllerDiskFailing", "critical")}),
        (ComponentHealth.FAILED, {("ControllerDiskFailed", "critical")}),
    ],
)
def test_each_state_of_a_disk_has_its_alert(health: ComponentHealth, expected: Fired) -> None:
    """Every state there is has a meaning here."""
    disk = PhysicalDisk("channel 2", ComponentState(health, "Word"), "ACME DISK-9", "S2")
    assert told(Controller("areca 1", "areca", disks=(disk,))) == expected


@pytest.mark.parametrize("health", ComponentHealth)
@pytest.mark.parametrize("what", ["array", "disk", "battery", "sensor", "controller"])
def test_only_what_is_well_busy_or_absent_is_silent(what: str, health: ComponentHealth) -> None:
    """Every state has an alert or is listed here: a new one would fail this test."""
    state = ComponentState(health, "Word")
    quiet = {ComponentHealth.OK, ComponentHealth.BUSY, ComponentHealth.ABSENT}
    if what == "disk":  # its array is reported
        quiet.add(ComponentHealth.REBUILDING)
    card = Controller("x0", "acme")
    found = {
        "array": replace(card, arrays=(ControllerArray("v0", state),)),
        "disk": replace(card, disks=(PhysicalDisk("bay 1", state),)),
        "battery": replace(card, batteries=(Battery("bbu", state),)),
        "sensor": replace(card, sensors=(Sensor("fan 1", state),)),
        "controller": replace(card, state=state),
    }
    assert (told(found[what]) == set()) == (health in quiet)


def test_a_degraded_array_stays_critical_until_it_is_rebuilt() -> None:
    """One alert from the first to the last; the rebuild is additional information."""
    machine = FakeMachine()
    for word in ("Degraded", "Rebuilding(1.0%)", "Rebuilding(99.9%)"):
        fired = machine.look(Controller("areca 1", "areca", arrays=(array(word, "areca"),)))
        assert ("ControllerArrayDegraded", "critical") in fired
        assert (("ControllerArrayRebuilding", "info") in fired) == (word != "Degraded")
    alert = machine.alert("ControllerArrayDegraded")
    assert alert.active_seconds == START + 15.0
    assert "99.9 % done" in alert.annotation("summary")
    assert machine.look(Controller("areca 1", "areca", arrays=(array("Normal", "areca"),))) == set()
    (over,) = [a for a in machine.engine.rules.alerts() if a.name == "ControllerArrayDegraded"]
    assert over.state is life.AlertState.RESOLVED


def test_a_disk_that_failed_is_reported_although_a_spare_took_its_place() -> None:
    """'Normal' of the raid set does not mean that no disk is dead."""
    disk = PhysicalDisk(
        "channel 2", ComponentState(ComponentHealth.FAILED, "Failed"), "ACME DISK-9", "S2"
    )
    machine = FakeMachine()
    sets = (array("Normal", "areca"),)
    fired = machine.look(Controller("areca 1", "areca", arrays=sets, disks=(disk,)))
    assert fired == {("ControllerDiskFailed", "critical")}
    assert len(machine.alerts()) == 1
    alert = machine.alert("ControllerDiskFailed")
    assert "No array is degraded: a spare replaced it" in alert.annotation("description")
    assert "channel 2 has failed, ACME DISK-9, serial S2" in alert.annotation("summary")


def test_what_may_report_anything_cannot_break_a_rule() -> None:
    """Names and states with quotes, templates and backslashes: an alert, and no error."""
    odd = '"}) or vector(1) {{ printf "%s" }} \\ \'x'
    state = ComponentState(ComponentHealth.ATTENTION, odd)
    card = Controller(
        odd,
        odd,
        odd,
        state=state,
        arrays=(ControllerArray(odd, state, odd, odd),),
        disks=(PhysicalDisk(odd, state, odd, odd, errors_total={odd: 1}),),
        batteries=(Battery(odd, state, ready=False),),
        sensors=(Sensor(odd, state),),
    )
    machine = FakeMachine()
    machine.look(card)
    worse = replace(card, disks=(replace(card.disks[0], errors_total={odd: 3}),))
    assert {name for name, _ in machine.look(worse)} == {
        "ControllerArrayNeedsAttention",
        "ControllerBatteryFault",
        "ControllerDiskNeedsAttention",
        "ControllerDiskErrors",
        "ControllerImpaired",
        "ControllerSensorFault",
    }
    assert odd in machine.alert("ControllerArrayNeedsAttention").annotation("summary")


# --- caches


def caching(battery: Battery | None, vendor: str = "acme", **policy: bool) -> Controller:
    """Return a controller with one array that caches so."""
    own = ControllerArray(
        "u0", ComponentState(ComponentHealth.OK, "OK"), policy=CachePolicy(**policy)
    )
    return Controller("c0", vendor, arrays=(own,), batteries=() if battery is None else (battery,))


def battery(health: ComponentHealth, ready: bool | None) -> Battery:
    """Return the battery of a cache."""
    return Battery("bbu", ComponentState(health, health.value.upper()), ready)


BAD = ("ControllerBatteryFault", "warning")


@pytest.mark.parametrize(
    ("vendor", "own", "expected"),
    [
        ("acme", battery(ComponentHealth.OK, ready=True), set()),
        ("acme", battery(ComponentHealth.FAILED, ready=False), {UNPROTECTED, BAD}),
        ("acme", battery(ComponentHealth.DEGRADED, ready=False), {UNPROTECTED, BAD}),
        ("acme", battery(ComponentHealth.DEGRADED, ready=True), {BAD}),
        ("acme", battery(ComponentHealth.OK, ready=False), {UNPROTECTED, BAD}),
        ("acme", battery(ComponentHealth.ABSENT, ready=None), {UNPROTECTED}),
        ("acme", battery(ComponentHealth.BUSY, ready=False), {UNPROTECTED}),
        ("3ware", battery(ComponentHealth.BUSY, ready=False), set()),
        ("3ware", battery(ComponentHealth.FAILED, ready=False), {UNPROTECTED, BAD}),
        ("acme", None, set()),
    ],
)
def test_a_write_cache_that_nothing_keeps_is_critical(
    vendor: str, own: Battery | None, expected: Fired
) -> None:
    """3ware writes through while it charges or tests; without any battery the reason is unknown."""
    assert told(caching(own, vendor, write_back=True)) == expected
    assert told(caching(own, vendor, write_back=False)) == expected - {UNPROTECTED}


@pytest.mark.parametrize(
    ("own", "forced", "expected"),
    [
        (battery(ComponentHealth.ABSENT, ready=None), True, {NEVER_PROTECTED}),
        (battery(ComponentHealth.ABSENT, ready=None), False, {UNPROTECTED}),
        (battery(ComponentHealth.ABSENT, ready=None), None, {UNPROTECTED}),
        (battery(ComponentHealth.FAILED, ready=False), True, {UNPROTECTED, BAD}),
        (battery(ComponentHealth.BUSY, ready=False), True, {UNPROTECTED}),
        (battery(ComponentHealth.ATTENTION, ready=False), True, {UNPROTECTED, BAD}),
        (battery(ComponentHealth.OK, ready=True), True, set()),
    ],
)
def test_an_adaptec_whose_module_was_never_bought_is_no_alarm_at_night(
    own: Battery, forced: bool | None, expected: Fired
) -> None:
    """Its cache was switched on for good. A module with a fault does raise one.

    So does a cache that is on although it is set to be on only with a battery.
    """
    policy = {} if forced is None else {"forced": forced}
    assert told(caching(own, "adaptec", write_back=True, **policy)) == expected
    assert UNPROTECTED not in told(caching(own, "adaptec", write_back=False, **policy))


def test_a_module_of_an_adaptec_that_is_gone_is_an_alarm() -> None:
    """It was present before, which is stored over a restart."""
    machine = FakeMachine()
    machine.look(
        caching(battery(ComponentHealth.OK, ready=True), "adaptec", write_back=True, forced=True)
    )
    before = machine.engine
    sources = [source for source in registry.SOURCES if source.name == "controllers"]
    machine.engine = Engine(shipped_rules(), sources, machine.now)
    machine.engine.recall(before.signals.remember(), before.devices.devices)
    gone = caching(battery(ComponentHealth.ABSENT, None), "adaptec", write_back=True, forced=True)
    assert machine.look(gone) == {UNPROTECTED}


@pytest.mark.parametrize(
    ("vendor", "own", "write_back", "expected"),
    [
        ("megaraid", battery(ComponentHealth.OK, ready=True), True, {DISKS_CACHE}),
        ("adaptec", battery(ComponentHealth.OK, ready=True), True, set()),
        ("megaraid", battery(ComponentHealth.OK, ready=True), False, set()),
        ("megaraid", None, True, set()),
        ("megaraid", battery(ComponentHealth.ABSENT, ready=None), False, set()),
    ],
)
def test_disks_that_cache_writes_defeat_the_battery_that_was_paid_for(
    vendor: str, own: Battery | None, write_back: bool, expected: Fired
) -> None:
    """Without one nothing more is lost; disks behind an Adaptec come so, which is information."""
    found = caching(own, vendor, write_back=write_back)
    disks = replace(found, arrays=tuple(replace(a, disk_cache=True) for a in found.arrays))
    assert told(disks) == expected
    fired = FakeMachine().look(disks)
    assert (("ControllerDiskCacheEnabled", "info") in fired) == (vendor == "adaptec")
    off = replace(found, arrays=tuple(replace(a, disk_cache=False) for a in found.arrays))
    assert told(off) == told(found) == set()


def test_a_write_cache_that_goes_off_is_a_warning_and_a_learn_cycle_is_none() -> None:
    """Policy from write-back to write-through by itself, with a battery in order, or busy."""
    machine = FakeMachine()
    well = battery(ComponentHealth.OK, ready=True)
    busy = battery(ComponentHealth.BUSY, ready=False)
    assert machine.look(caching(well, write_back=True)) == set()
    off = machine.look(caching(well, write_back=False))
    assert off == {("ControllerWriteCacheDisabled", "warning")}
    learns = {("ControllerWriteCacheDisabled", "info"), ("ControllerBatteryBusy", "info")}
    assert machine.look(caching(busy, write_back=False)) == learns
    assert machine.look(caching(well, write_back=True)) == set()
    left = caching(well, write_back=False, default_write_back=True)
    assert told(left) == {("ControllerWriteCacheDisabled", "warning")}


def test_a_battery_that_is_never_done_with_charging_is_a_warning() -> None:
    """Two days; a charge takes one at most."""
    machine = FakeMachine()
    busy = caching(battery(ComponentHealth.BUSY, ready=False), write_back=False)
    assert machine.look(busy, seconds=1.9 * DAY, every=900.0) == {("ControllerBatteryBusy", "info")}
    assert ("ControllerBatteryBusy", "warning") in machine.look(
        busy, seconds=0.2 * DAY, every=900.0
    )


# --- controllers that are not read


def test_a_controller_that_nobody_reads_is_reported_after_half_an_hour() -> None:
    """Whatever the reason is by then: the alert stays the same one."""
    machine = FakeMachine()
    missing = Problem("areca 1", "'cli64': expected at '/usr/sbin', got none", "areca")
    assert machine.look(problems=(missing,), seconds=1700.0) == set()
    late = replace(missing, reason="killed after 60 s")
    assert machine.look(problems=(late,), seconds=200.0) == {("ControllerUnreadable", "warning")}
    alert = machine.alert("ControllerUnreadable")
    assert alert.subject == "adapter areca 1"
    assert alert.annotation("summary").endswith("cannot be read: killed after 60 s")
    assert "cli64 rsf info" in alert.annotation("advice")
    assert machine.look(Controller("areca 1", "areca")) == set()


def test_controllers_that_cannot_even_be_listed_are_reported() -> None:
    """Their names are unknown: the alert is about the adapter that the kernel lists."""
    machine = FakeMachine()
    nobody = Problem("", "3ware controller at host3: 'tw_cli': install it", "3ware", "host3")
    assert machine.look(problems=(nobody,), seconds=1900.0) == {("ControllerUnreadable", "warning")}
    alert = machine.alert("ControllerUnreadable")
    assert alert.subject == "adapter host3"
    assert "a 3ware controller at host3 is present" in alert.annotation("summary")
    assert "tw_cli show" in alert.annotation("advice")


@pytest.mark.parametrize("maker", BACKENDS, ids=lambda maker: f"{maker.vendor} {maker.drivers[0]}")
def test_who_is_not_read_is_told_the_program_that_is_missing_and_where_it_belongs(
    maker: Backend,
) -> None:
    """A program that the probe may run, in a directory that it searches."""
    machine = FakeMachine()
    machine.look(problems=(Problem("", "missing", maker.vendor, "host0"),), seconds=1900.0)
    advice = machine.alert("ControllerUnreadable").annotation("advice")
    assert any(f"\n  {program} " in advice for program in maker.programs)
    own = {each for name in maker.programs for each in allowed.PROGRAMS[name].directories}
    assert any(each in advice for each in (*own, *DIRECTORIES))


@pytest.mark.parametrize("program", ["storcli64", "perccli64", "storcli2", "", "MegaCli64"])
def test_megacli_is_named_only_where_it_is_what_was_asked(program: str) -> None:
    """It crashes newer cards, at which iowarden does not run it."""
    bad = ComponentState(ComponentHealth.FAILED, "Failed")
    needs = ComponentState(ComponentHealth.ATTENTION, "Odd")
    found = Controller(
        "megaraid c0",
        "megaraid",
        program=program,
        state=bad,
        arrays=(
            ControllerArray(
                "virtual drive 0", bad, policy=CachePolicy(write_back=True, forced=True)
            ),
            ControllerArray(
                "virtual drive 1", ComponentState(ComponentHealth.DEGRADED, "Dgrd"), disk_cache=True
            ),
            ControllerArray("virtual drive 2", needs),
            ControllerArray("foreign drive group 0", needs),
        ),
        disks=tuple(
            PhysicalDisk(slot, bad)
            for slot in ("enclosure 252 slot 3", "slot 4", "drive group 0 span 0 row 1")
        ),
        batteries=(battery(ComponentHealth.FAILED, ready=False),),
        sensors=(Sensor("enclosure 252", bad),),
    )
    machine = FakeMachine()
    machine.look(found)
    advice = "\n".join(alert.annotation("advice") for alert in machine.alerts())
    assert len(machine.alerts()) == 11
    assert ("megacli" in advice.casefold()) == (program == "MegaCli64")
    assert (" -a0" in advice) == (program == "MegaCli64") != (" /c0" in advice)
    assert f"\n  {program or 'storcli64'} " in advice


def test_a_part_that_is_not_read_is_no_mail() -> None:
    """Old firmware has no hardware monitor: for the digest."""
    card = Controller("areca 1", "areca", read_errors=("'cli64 hw info': expected no error",))
    part = Problem("areca 1", card.read_errors[0], "areca")
    fired = FakeMachine().look(card, problems=(part,), seconds=1900.0)
    assert fired == {("ControllerPartlyUnreadable", "notice")}


def test_what_was_wrong_with_a_controller_that_falls_silent_is_unknown_and_not_over() -> None:
    """It hangs; the alert resolves only when the controller reports the array as healthy."""
    machine = FakeMachine()
    degraded = Controller("areca 1", "areca", arrays=(array("Degraded", "areca"),))
    machine.look(degraded)
    hangs = (Problem("areca 1", "killed after 60 s", "areca"),)
    assert machine.look(degraded, problems=hangs) == {("ControllerArrayDegraded", "critical")}
    machine.look(problems=hangs)
    alert = machine.alert("ControllerArrayDegraded")
    assert (alert.state, alert.unknown_reason) == (life.AlertState.UNKNOWN, "killed after 60 s")
    machine.look(Controller("areca 1", "areca", arrays=(array("Normal", "areca"),)))
    assert machine.alerts() == []


def test_a_controller_that_is_gone_is_reported_and_what_was_wrong_with_it_is_unknown() -> None:
    """Two controllers, of which one is no longer listed."""
    machine = FakeMachine()
    one = Controller("c0", "3ware")
    two = Controller("c1", "3ware", arrays=(array("DEGRADED", "3ware"),))
    machine.look(one, two)
    assert machine.look(one, seconds=600.0) == {("ControllerMissing", "critical")}
    assert machine.alert("ControllerArrayDegraded").state is life.AlertState.UNKNOWN
    assert machine.look(one, two) == {("ControllerArrayDegraded", "critical")}


def test_a_spare_that_fell_out_of_sight_is_reported_and_stays_so_over_a_restart() -> None:
    """Two polls later, because a disk may just be replaced; until another one is in its slot."""
    machine = FakeMachine()
    ok = ComponentState(ComponentHealth.OK, "OK")
    disks = tuple(PhysicalDisk(f"bay {n}", ok, serial=f"S{n}") for n in (1, 2, 3))
    hp, less = (Controller("hp slot 0", "hp", disks=some) for some in (disks, disks[:2]))
    machine.look(hp)
    assert machine.look(less, seconds=900.0) == set()
    missing = {("ControllerDiskMissing", "warning")}
    assert machine.look(less, seconds=900.0) == missing
    alert = machine.alert("ControllerDiskMissing")
    assert alert.label("serial") == "S3"
    before = machine.engine
    machine.engine = Engine(
        shipped_rules(), [s for s in registry.SOURCES if s.name == "controllers"], machine.now
    )
    machine.engine.recall(before.signals.remember(), before.devices.devices)
    machine.engine.rules.restore(before.rules.alerts())
    assert machine.look(less) == missing
    hangs = (Problem("hp slot 0", "killed after 60 s", "hp"),)
    machine.look(problems=hangs, seconds=90.0)
    assert machine.alert("ControllerDiskMissing").state is life.AlertState.UNKNOWN
    another = replace(disks[2], serial="S9")
    assert machine.look(replace(hp, disks=(*disks[:2], another))) == set()


def test_before_controllers_are_queried_nothing_is_reported_of_them() -> None:
    """A restart: that a sick card takes a minute to answer makes no alert unknown or new."""
    machine = FakeMachine()
    degraded = Controller("c0", "3ware", arrays=(array("DEGRADED", "3ware"),))
    machine.look(degraded)
    before = machine.engine
    machine.engine = Engine(
        shipped_rules(), [s for s in registry.SOURCES if s.name == "controllers"], machine.now
    )
    machine.engine.recall(before.signals.remember(), before.devices.devices)
    machine.engine.rules.restore(before.rules.alerts())
    waits = (Problem("", "", "3ware"),)
    assert machine.look(problems=waits, seconds=90.0) == {("ControllerArrayDegraded", "critical")}
    assert machine.look(degraded) == {("ControllerArrayDegraded", "critical")}


# --- a whole machine


def says(machine: Simulation, state: str, *usage: str, second: str = "S2") -> None:
    """Set the states of an Areca's raid set and disks; `second` is a serial number."""
    disks = "".join(
        f"  {n}  {n}  ACME DISK-9           1000.0GB  {used}\n" for n, used in enumerate(usage, 1)
    )
    texts = {
        "sys info": f"Serial Number : Y1\nController Name : ARC-1210\n{DONE}",
        "rsf info": f"{SETS} 1  Raid Set # 00     2 2000.0GB    0.0GB 12  {state}\n{DONE}",
        "vsf info": f"# Name  Raid Name  Level  Capacity Ch/Id/Lun  State\n{DONE}",
        "disk info": BAYS + disks + DONE,
        "hw info": f"The Hardware Monitor Information\nHDD #1 Temp. : 40\n{DONE}",
        "event info": f"Date-Time            Device              Event Type\n{DONE}",
        **{
            f"disk info drv={n}": f"Model Name : ACME DISK-9\nSerial Number : {serial}\n{DONE}"
            for n, serial in zip(range(1, len(usage) + 1), ("S1", second, "S3"), strict=True)
        },
    }
    files: dict[str, str | bytes | None] = {
        probe_path("run", ["cli64", *command.split()]): json.dumps(
            {"status": 0, "signal": None, "stdout": text, "stderr": ""}
        )
        for command, text in texts.items()
    }
    files["/sys/bus/pci/drivers/arcmsr/0000:03:00.0/host2"] = None
    machine.memory.write(files)


def test_an_areca_loses_a_disk_and_a_spare_takes_its_place() -> None:
    """From the tool's output to the mail: degraded, rebuilt, normal; the dead disk remains."""
    machine = Simulation()
    machine.add_disk("sda", "S-OF-THE-SYSTEM")
    member = "Raid Set # 00"
    says(machine, "Normal", member, member, "HotSpare")
    machine.run(40)
    assert machine.host.names("critical") == machine.host.names("warning") == set()
    says(machine, "Degraded", member, "Failed", "HotSpare")
    machine.run(40)
    critical = {"ControllerArrayDegraded", "ControllerDiskFailed"}
    assert machine.host.names("critical") == critical
    assert machine.host.mails
    says(machine, "Rebuilding(50.0%)", member, "Failed", member)
    machine.run(40)
    says(machine, "Normal", member, "Failed", member)
    machine.run(40)
    assert machine.host.engine is not None
    active = {a.name: a for a in machine.host.engine.rules.alerts() if a.active and a.label("slot")}
    assert active.keys() == {"ControllerDiskFailed"}
    alert = active["ControllerDiskFailed"]
    assert "channel 2 has failed, ACME DISK-9, serial S2" in alert.annotation("summary")
    assert "a spare replaced it" in alert.annotation("description")
    assert "S2" in alert.object
    # The slot has a new disk: the alerts of the old one are resolved, as its mail says.
    says(machine, "Normal", member, "HotSpare", member, second="S9")
    machine.run(700, step=4)
    assert not any(a.label("controller") for a in machine.host.engine.rules.alerts() if a.active)
    told_of = {
        reason: {m.due.incident.key for m in machine.host.mails if m.due.reason.value == reason}
        for reason in machine.host.reasons()
    }
    assert (
        told_of["opened"] == told_of["resolved"] == {m.due.incident.key for m in machine.host.mails}
    )
    assert "disk ACME DISK-9 S2" in told_of["opened"]


def test_what_has_no_place_of_its_own_is_the_matter_of_the_controller() -> None:
    """Its battery, its sensors, itself: of the adapter that the kernel has, where that is known."""
    machine = FakeMachine()
    bad = battery(ComponentHealth.FAILED, ready=False)
    machine.look(Controller("areca 1", "areca", "ARC-1210", host="host2", batteries=(bad,)))
    assert machine.alert("ControllerBatteryFault").subject == "adapter host2"
    machine.look(Controller("c0", "3ware", batteries=(bad,)))
    subjects = {a.label("controller"): a.subject for a in machine.alerts()}
    assert subjects["c0"] == "adapter c0"
