"""Signals of RAID controllers: missing ones, increasing errors, caches switched off."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from iowarden.rules.signals.raid import controller_state
from iowarden.rules.signals.signal import Inputs, Pairs, View
from iowarden.rules.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

START = 1_790_000_000.0
DAY = 86_400.0
OK = ComponentState(ComponentHealth.OK, "OK")


def card(name: str = "c0", **fields: object) -> Controller:
    """Return a controller."""
    return Controller(name, "3ware", **fields)  # type: ignore[arg-type] # as Controller takes them


def disk(serial: str = "S1", **counts: int) -> PhysicalDisk:
    """Return the disk at a port, with what was counted at it."""
    return PhysicalDisk("port 3", OK, serial=serial, errors_total=counts)


def unit(**policy: bool) -> ControllerArray:
    """Return a unit that caches so."""
    return ControllerArray("u0", OK, policy=CachePolicy(**policy))


class Watch:
    """The resulting samples, poll by poll."""

    def __init__(self) -> None:
        self.state: Mapping[str, Pairs] = {}
        self.now = START

    def look(
        self, *found: Controller, after: float = 15.0, problems: tuple[Problem, ...] = ()
    ) -> dict[str, float]:
        """Return the samples of all controllers, by metric and labels without prefixes."""
        self.now += after
        values = {"controllers": Controllers(found, problems=problems)}
        view = View(Inputs(self.now, 1e6, Snapshot(**values)), None)
        self.state, samples = controller_state.GROUP.step(self.state, view)
        assert samples is not None
        return {
            " ".join((name.removeprefix("iowarden_controller_"), *(text for _, text in labels))): v
            for name, labels, v in samples
        }


def test_nothing_is_reported_of_a_machine_whose_controllers_were_never_read() -> None:
    """Not read, no value: the stored state remains."""
    view = View(Inputs(START, 1e6, Snapshot()), None)
    kept = {"c0\tseen": ((START, 0.0),)}
    assert controller_state.GROUP.step(kept, view) == (kept, None)


def test_a_controller_that_is_gone_is_missed_for_a_week() -> None:
    """It may have disappeared while iowarden was not running: its presence is stored."""
    watch = Watch()
    assert watch.look(card("c0"), card("c1")) == {"missing c0": 0.0, "missing c1": 0.0}
    assert watch.look(card("c0")) == {"missing c0": 0.0, "missing c1": 1.0}
    assert watch.look(card("c0"), after=6 * DAY)["missing c1"] == 1.0
    assert watch.look(card("c0"), after=1.1 * DAY) == {"missing c0": 0.0}


def test_a_controller_that_does_not_answer_is_not_gone() -> None:
    """It hangs, or controllers could not be listed: that has alerts of its own."""
    watch = Watch()
    watch.look(card("c0"), card("c1"))
    hangs = Problem("c1", "killed after 90 s")
    assert watch.look(card("c0"), problems=(hangs,))["missing c1"] == 0.0
    assert watch.look(problems=(Problem("", "no tw_cli"),))["missing c1"] == 0.0
    assert watch.look(problems=(Problem("", ""),))["missing c0"] == 0.0
    assert watch.look(card("c0"))["missing c1"] == 1.0


def test_errors_of_a_lifetime_are_no_news_and_those_of_today_are() -> None:
    """16548 is a baseline; an increase is reported until a day passes without any."""
    name = "disk_recent_errors c0 other port 3"
    watch = Watch()
    assert watch.look(card(disks=(disk(other=16548),)))[name] == 0.0
    assert watch.look(card(disks=(disk(other=16550),)))[name] == 2.0
    assert watch.look(card(disks=(disk(other=16553),)), after=DAY / 2)[name] == 5.0
    assert watch.look(card(disks=(disk(other=16553),)), after=DAY + 60)[name] == 0.0
    assert watch.look(card(disks=(disk(other=16554),)))[name] == 1.0


def test_errors_that_stand_still_are_reported_as_found() -> None:
    """Three media errors at baseline; while more are added, those are reported instead."""
    name = "disk_baseline_errors c0 media port 3"
    watch = Watch()
    assert name not in watch.look(card(disks=(disk(media=0),)))
    watch = Watch()
    assert watch.look(card(disks=(disk(media=3),)))[name] == 3.0
    assert name not in watch.look(card(disks=(disk(media=4),)))


def test_errors_that_were_reported_when_they_came_are_no_baseline_afterwards() -> None:
    """A day later they stand still as well, but the disk was first seen without them."""
    name = "disk_baseline_errors c0 media port 3"
    watch = Watch()
    watch.look(card(disks=(disk(media=0),)))
    watch.look(card(disks=(disk(media=3),)))
    assert name not in watch.look(card(disks=(disk(media=3),)), after=2 * DAY)
    watch = Watch()
    watch.look(card(disks=(disk(media=7012),)))
    assert watch.look(card(disks=(disk(media=7012),)), after=2 * DAY)[name] == 7012.0


def test_a_count_that_began_anew_is_all_new() -> None:
    """The controller was switched on again; what it counted since then is of today."""
    name = "disk_recent_errors c0 media port 3"
    watch = Watch()
    watch.look(card(disks=(disk(media=40),)))
    assert watch.look(card(disks=(disk(media=3),)))[name] == 3.0


def test_another_disk_in_the_place_of_one_has_its_own_past() -> None:
    """A used disk as a replacement brings its errors along."""
    name = "disk_recent_errors c0 media port 3"
    watch = Watch()
    watch.look(card(disks=(disk("S1", media=2),)))
    assert watch.look(card(disks=(disk("S2", media=70),)))[name] == 0.0


BATTERY = (Battery("bbu", OK, ready=True),)
NO_BATTERY = (Battery("battery", ComponentState(ComponentHealth.ABSENT, "Not Installed")),)


def test_a_write_cache_that_goes_off_is_reported_for_a_week() -> None:
    """The cause is unknown; one that was never on is not reported."""
    name = "array_write_cache_became_disabled u0 c0"
    watch = Watch()
    on = card(arrays=(unit(write_back=True),), batteries=BATTERY)
    off = card(arrays=(unit(write_back=False),), batteries=BATTERY)
    assert watch.look(off)[name] == 0.0
    assert watch.look(on)[name] == 0.0
    assert watch.look(off)[name] == 1.0
    assert watch.look(off, after=6 * DAY)[name] == 1.0
    assert watch.look(off, after=1.1 * DAY)[name] == 0.0
    assert watch.look(off)[name] == 0.0


def test_an_array_that_reports_what_it_is_set_to_needs_no_memory() -> None:
    """Set to cache writes and not doing so at baseline: the controller changed that by itself."""
    name = "array_write_cache_became_disabled u0 c0"
    left = unit(write_back=False, default_write_back=True)
    assert Watch().look(card(arrays=(left,), batteries=BATTERY))[name] == 1.0
    assert Watch().look(card(arrays=(left,), batteries=BATTERY), after=30 * DAY)[name] == 1.0
    watch = Watch()
    on = unit(write_back=True, default_write_back=True)
    watch.look(card(arrays=(on,), batteries=BATTERY))
    wanted = unit(write_back=False, default_write_back=False)
    assert watch.look(card(arrays=(wanted,), batteries=BATTERY))[name] == 0.0


def test_a_controller_bought_without_a_battery_did_not_turn_its_write_cache_off() -> None:
    """A MegaRAID or Smart Array as delivered: set to write back, always writing through.

    Also where the advice is followed to cache only while a battery protects the cache.
    """
    name = "array_write_cache_became_disabled u0 c0"
    left = unit(write_back=False, default_write_back=True)
    assert Watch().look(card(arrays=(left,), batteries=NO_BATTERY))[name] == 0.0
    assert Watch().look(card(arrays=(left,)))[name] == 0.0
    watch = Watch()
    forced = unit(write_back=True, default_write_back=True, forced=True)
    watch.look(card(arrays=(forced,), batteries=NO_BATTERY))
    assert watch.look(card(arrays=(left,), batteries=NO_BATTERY))[name] == 0.0


def test_a_battery_that_is_gone_or_a_module_that_is_out_of_order_turned_the_cache_off() -> None:
    """The battery was there once; cciss_vol_status reports the cache module and no battery."""
    name = "array_write_cache_became_disabled u0 c0"
    left = unit(write_back=False, default_write_back=True)
    watch = Watch()
    watch.look(card(batteries=BATTERY))
    assert watch.look(card(arrays=(left,), batteries=NO_BATTERY), after=30 * DAY)[name] == 1.0
    failed = (Battery("battery", ComponentState(ComponentHealth.FAILED, "Failed"), ready=False),)
    assert Watch().look(card(arrays=(left,), batteries=failed))[name] == 1.0

    def module(health: ComponentHealth) -> Controller:
        return card(arrays=(left,), sensors=(Sensor("cache", ComponentState(health, "its word")),))

    assert Watch().look(module(ComponentHealth.DEGRADED))[name] == 1.0
    assert Watch().look(module(ComponentHealth.ABSENT))[name] == 0.0


def test_an_array_that_does_not_report_how_it_caches_is_left_out() -> None:
    """Absent is not off."""
    watch = Watch()
    assert watch.look(card(arrays=(ControllerArray("u0", OK), unit()))) == {"missing c0": 0.0}


def test_a_battery_that_was_there_is_lost_and_one_that_never_was_is_not() -> None:
    """Also if the loss is found after a restart; another controller has its own history."""
    name = "battery_lost c0"
    none = (Battery("battery", ComponentState(ComponentHealth.ABSENT, "Not Installed")),)
    failed = (Battery("battery", ComponentState(ComponentHealth.FAILED, "Failed"), ready=False),)
    watch = Watch()
    assert watch.look(card(serial="1", batteries=none))[name] == 0.0
    assert watch.look(card(serial="1", batteries=failed))[name] == 0.0
    assert watch.look(card(serial="1", batteries=none), after=30 * DAY)[name] == 1.0
    assert watch.look(card(serial="2", batteries=none))[name] == 0.0
    both = (*none, Battery("capacitor", OK, ready=True))
    assert watch.look(card(serial="1", batteries=both))[name] == 0.0


def test_a_controller_that_does_not_report_of_batteries_lost_none() -> None:
    """Absent is not zero."""
    watch = Watch()
    watch.look(card(batteries=(Battery("bbu", OK, ready=True),)))
    assert watch.look(card()) == {"missing c0": 0.0}


def at(slot: int, serial: str = "", health: ComponentHealth = ComponentHealth.OK) -> PhysicalDisk:
    """Return the disk in a bay."""
    return PhysicalDisk(f"slot {slot}", ComponentState(health, "its word"), serial=serial)


def missing(told: Mapping[str, float]) -> list[str]:
    """Return the disks reported as missing."""
    prefix = "disk_missing c0 "
    return sorted(key.removeprefix(prefix) for key, v in told.items() if v and prefix in key)


def test_a_spare_that_is_not_listed_any_more_is_missed_for_a_week() -> None:
    """No array lacks it; it may have been removed while iowarden was not running."""
    watch = Watch()
    assert missing(watch.look(card(disks=(at(1, "S1"), at(2, "S2"))))) == []
    assert missing(watch.look(card(disks=(at(1, "S1"),)))) == ["S2 slot 2"]
    assert missing(watch.look(card(disks=(at(1, "S1"),)), after=6 * DAY)) == ["S2 slot 2"]
    assert missing(watch.look(card(disks=(at(1, "S1"),)), after=1.1 * DAY)) == []


def test_a_disk_is_not_missed_once_it_is_back_or_another_is_in_its_place() -> None:
    """Or in another slot, or at another controller; an empty bay is not a disk."""
    watch = Watch()
    both = (at(1, "S1"), at(2, "S2"))
    for there in (
        (at(1, "S1"), at(2, "S2")),
        (at(1, "S1"), at(2, "S9")),
        (at(1, "S1"), at(7, "S2")),
        (at(1, "S1"), at(2)),
    ):
        watch.look(card(disks=both))
        assert missing(watch.look(card(disks=there[:1]))) == ["S2 slot 2"]
        assert missing(watch.look(card(disks=there))) == []
    watch = Watch()
    watch.look(card(disks=both), card("c1"))
    empty = at(2, health=ComponentHealth.ABSENT)
    assert missing(watch.look(card(disks=(at(1, "S1"), empty)), card("c1"))) == ["S2 slot 2"]
    assert missing(watch.look(card(disks=both[:1]), card("c1", disks=(at(5, "S2"),)))) == []


def test_a_disk_that_failed_and_lost_its_name_is_missed_by_it() -> None:
    """What stands for a disk that is not there is none: it goes when one is put in."""
    watch = Watch()
    watch.look(card(disks=(at(1, "S1"), at(2, "S2"))))
    lost = at(2, health=ComponentHealth.FAILED)
    assert missing(watch.look(card(disks=(at(1, "S1"), lost)))) == []
    assert missing(watch.look(card(disks=(at(1, "S1"),)))) == ["S2 slot 2"]
    watch = Watch()
    watch.look(card(disks=(at(1, "S1"), at(9, health=ComponentHealth.FAILED))))
    assert missing(watch.look(card(disks=(at(1, "S1"),)))) == []


def test_no_disk_is_missed_of_a_controller_that_is_not_read_or_lists_none() -> None:
    """Its disks are unknown; another controller with its name has its own."""
    watch = Watch()
    watch.look(card(serial="L1", disks=(at(1, "S1"), at(2, "S2"))))
    hangs = Problem("c0", "killed after 90 s")
    for told in (watch.look(problems=(hangs,)), watch.look(card(serial="L1"))):
        assert not any(key.startswith("disk_missing") for key in told)
    unnamed = watch.look(card(disks=(at(1, "S1"),)))
    assert missing(unnamed) == ["S2 slot 2"]
    assert missing(watch.look(card(serial="L1", disks=(at(1, "S1"),)))) == ["S2 slot 2"]
    assert missing(watch.look(card(serial="L2", disks=(at(1, "S7"),)))) == []


def zeroes(watch: Watch, *sensors: Sensor) -> dict[str, float]:
    """Return whether each sensor reads a 0 that is wrong."""
    samples = watch.look(card(sensors=sensors)).items()
    return {
        sensor.name: value
        for sensor in sensors
        for key, value in samples
        if "sensor_zero" in key and sensor.name in key
    }


def test_a_fan_that_turned_and_reads_0_has_stopped() -> None:
    """Alone in its enclosure, and after a restart; it is well once it turns again."""
    watch = Watch()
    assert zeroes(watch, Sensor("e0 fan", OK, fan_rpm=2670)) == {"e0 fan": 0}
    assert zeroes(watch, Sensor("e0 fan", OK, fan_rpm=0)) == {"e0 fan": 1}
    assert zeroes(watch, Sensor("e0 fan", OK, fan_rpm=0)) == {"e0 fan": 1}
    assert zeroes(watch, Sensor("e0 fan", OK, fan_rpm=900)) == {"e0 fan": 0}


def test_a_fan_that_reads_0_among_others_that_turn_has_stopped() -> None:
    """At first sight; a voltage and a temperature likewise."""
    fans = [Sensor(f"e0 fan{n}", OK, fan_rpm=0 if n == 2 else 2670) for n in range(4)]
    assert zeroes(Watch(), *fans) == {f"e0 fan{n}": float(n == 2) for n in range(4)}
    volts = Sensor("Power +12V", voltage_volts=0), Sensor("Power +5V", voltage_volts=5.1)
    assert zeroes(Watch(), *volts) == {"Power +12V": 1, "Power +5V": 0}
    heat = Sensor("e0 temp0", temperature_celsius=0), Sensor("e0 temp1", temperature_celsius=41)
    assert zeroes(Watch(), *heat) == {"e0 temp0": 1, "e0 temp1": 0}


def test_a_sensor_that_is_not_there_reads_0_and_is_no_fault() -> None:
    """One that its tool calls absent, one that never read anything, one of another enclosure."""
    absent = ComponentState(ComponentHealth.ABSENT, "Not Installed")
    assert zeroes(
        Watch(), Sensor("e0 fan1", absent, fan_rpm=0), Sensor("e0 fan2", OK, fan_rpm=2670)
    ) == {"e0 fan2": 0}
    assert zeroes(Watch(), Sensor("CPU Temperature", temperature_celsius=0)) == {
        "CPU Temperature": 0
    }
    fans = Sensor("e0 fan1", OK, fan_rpm=0), Sensor("e1 fan1", OK, fan_rpm=2670)
    assert zeroes(Watch(), *fans) == {"e0 fan1": 0, "e1 fan1": 0}
