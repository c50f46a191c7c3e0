"""Changes of RAID controllers: missing controllers and disks, new disk errors, caches switched off.

The first reading is the baseline: controllers keep counts for years, or since power-on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Sample
from iowarden.collectors.raid import controller
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.rules.signals import baseline
from iowarden.rules.topology.device_changes import GONE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.raid.controller import (
        Controller,
        ControllerArray,
        Controllers,
        PhysicalDisk,
    )
    from iowarden.rules.signals.baseline import Remembered
    from iowarden.rules.signals.signal import View

TAKEN_SECONDS = 7 * 86_400.0
_NEVER_SECONDS = 0.0
"""When a count increased that never did."""
"""A write cache that was off for so long is considered off on purpose."""


def _controller_changes(remembered: Remembered, value: Controllers, view: View) -> Iterator[Sample]:
    """Yield the changes of every controller. The state is by controller, object and name."""
    now = view.inputs.now_seconds
    yield from _missing(remembered, value, now)
    yield from _disks_missing(remembered, value, now)
    for each in value.controllers:
        yield from _battery_lost(remembered, each, now)
        protected = _was_protected(remembered, each)
        for array in each.arrays:
            yield from _turned_off(remembered, each.name, array, now, protected=protected)
        for disk in each.disks:
            yield from _errors(remembered, each.name, disk, now)
        yield from _zeroes(remembered, each, now)


def _missing(remembered: Remembered, value: Controllers, now: float) -> Iterator[Sample]:
    """Yield which controllers are missing; none is while they cannot be listed."""
    there = controller.names(value)
    for each in value.controllers:
        baseline.seen(remembered, f"{each.name}\tseen", 0.0, now)
    for key in [key for key in remembered if key.endswith("\tseen")]:
        name, gone = key.removesuffix("\tseen"), 0.0
        if name not in there:
            if now - remembered[key][0][0] > GONE_SECONDS:
                del remembered[key]
                continue
            gone = 1.0
        yield "iowarden_controller_missing", (("controller", name),), gone


def _disks_missing(remembered: Remembered, value: Controllers, now: float) -> Iterator[Sample]:
    """Yield which disks are missing: until one is in that slot, or the disk appears in another one.

    Nothing is reported of a controller that is not read, or lists no disk at all. A placeholder for
    an absent disk ('missing', without a serial number) is not a disk.
    """
    cards = {each.name: each for each in value.controllers}
    known = {}
    for key in [key for key in remembered if key.endswith("\tdisk")]:
        name, own, slot, *_ = key.split("\t")
        if name in cards and own and cards[name].serial and own != cards[name].serial:
            del remembered[key]  # another controller has its name now
        else:
            known[name, slot] = key
    places: dict[tuple[str, str], str] = {}
    for card in cards.values():
        for disk in card.disks:
            place = card.name, disk.slot
            key = f"{card.name}\t{card.serial}\t{disk.slot}\t{disk.serial}\tdisk"
            before = known.get(place, key)
            if disk.state.health is ComponentHealth.ABSENT:
                continue
            if before.endswith(f"\t{disk.serial}\tdisk") or not disk.serial:
                key = before  # a failed disk may no longer report its serial number
            elif before != key:
                remembered.pop(before, None)
            places[place] = key
            if key in remembered or disk.serial or disk.state.health is not ComponentHealth.FAILED:
                baseline.seen(remembered, key, 0.0, now)
    here = {disk.serial for card in cards.values() for disk in card.disks} - {""}
    for key in [key for key in remembered if key.endswith("\tdisk")]:
        name, _, slot, serial, _ = key.split("\t")
        there = places.get((name, slot)) == key
        if not there and (serial in here or now - remembered[key][0][0] > GONE_SECONDS):
            del remembered[key]
        elif name in cards and cards[name].disks:
            labels = (("controller", name), ("serial", serial), ("slot", slot))
            yield "iowarden_controller_disk_missing", labels, float(not there)


def _was_protected(remembered: Remembered, found: Controller) -> bool:
    """Whether a controller has, or had, a battery or cache module.

    A controller sold without one always writes through, whatever its arrays are set to.
    """
    if f"{found.name}\t{found.serial}\tbattery" in remembered:
        return True
    # cciss_vol_status reports the module and no battery.
    states = [each.state for each in found.sensors if each.name == "cache"]
    module = any(each is not None and each.health is not ComponentHealth.ABSENT for each in states)
    return module and not found.batteries


def _turned_off(
    remembered: Remembered, name: str, array: ControllerArray, now: float, *, protected: bool
) -> Iterator[Sample]:
    """Yield whether an array stopped caching writes.

    If the controller reports the configured policy, no history is needed; otherwise it is unknown
    who switched the cache off. `protected`: there is, or was, a battery or cache module.
    """
    policy = array.policy
    if policy is None or policy.write_back is None:
        return
    key = f"{name}\t{array.name}\t{array.serial}\twrite cache"
    off = not policy.write_back
    if policy.default_write_back is not None:
        remembered.pop(key, None)
        off = off and policy.default_write_back
    elif not off:
        baseline.seen(remembered, key, 1.0, now)
    elif key not in remembered or now - remembered[key][0][0] > TAKEN_SECONDS:
        remembered.pop(key, None)
        off = False
    labels = (("array", array.name), ("controller", name))
    yield "iowarden_controller_array_write_cache_became_disabled", labels, float(off and protected)


def _battery_lost(remembered: Remembered, found: Controller, now: float) -> Iterator[Sample]:
    """Yield whether a controller lost its battery; one that never had a battery did not."""
    if not found.batteries:
        return  # not reported
    key = f"{found.name}\t{found.serial}\tbattery"
    there = any(each.state.health is not ComponentHealth.ABSENT for each in found.batteries)
    if there:
        baseline.seen(remembered, key, 1.0, now)
    labels = (("controller", found.name),)
    yield "iowarden_controller_battery_lost", labels, float(not there and key in remembered)


def _errors(remembered: Remembered, name: str, disk: PhysicalDisk, now: float) -> Iterator[Sample]:
    """Yield the new errors of each disk; a replacement disk has its own count.

    A count that increased once has had its own alert, and is no baseline after that.
    """
    for counted, total in disk.errors_total.items():
        key = f"{name}\t{disk.slot}\t{disk.serial}\t{counted}"
        before = remembered.get(key)
        count = baseline.recent(before, total, now)
        if before is None:
            count = count._replace(grew_seconds=_NEVER_SECONDS)
        remembered[key] = baseline.pairs(count)
        labels = (("controller", name), ("counter", counted), ("slot", disk.slot))
        yield "iowarden_controller_disk_recent_errors", labels, count.new
        if count.baseline and count.grew_seconds == _NEVER_SECONDS:
            yield "iowarden_controller_disk_baseline_errors", labels, count.baseline


def _zeroes(remembered: Remembered, card: Controller, now: float) -> Iterator[Sample]:
    """Yield whether a fan, temperature or voltage reads 0 that did not, or whose neighbors do not.

    A sensor that was never there reads 0, too, on every vendor's cards. Neighbors are those of its
    kind whose names differ in the last number only: 'e0 fan1' of 'e0 fan2'.
    """
    readings = {
        sensor.name: (kind, number)
        for sensor in card.sensors
        if sensor.state is None or sensor.state.health is not ComponentHealth.ABSENT
        for kind, number in (
            ("fan", sensor.fan_rpm),
            ("temperature", sensor.temperature_celsius),
            ("voltage", sensor.voltage_volts),
        )
        if number is not None
    }
    alive = {(kind, _place(name)) for name, (kind, number) in readings.items() if number}
    for name, (kind, number) in readings.items():
        key = f"{card.name}\t{card.serial}\t{name}\tsensor"
        if number:
            baseline.seen(remembered, key, 1.0, now)
        stopped = not number and (key in remembered or (kind, _place(name)) in alive)
        labels = (("controller", card.name), ("sensor", name))
        yield "iowarden_controller_sensor_zero", labels, float(stopped)


def _place(sensor: str) -> str:
    """Return a sensor's name without its last number."""
    return re.sub(r"[0-9]{1,9}(?=[^0-9]*$)", "#", sensor)


GROUP = baseline.group(
    name="controller_state",
    sources=("controllers",),
    families=(
        Family(
            "iowarden_controller_missing",
            "gauge",
            "1 for a controller that was present within the last 7 days and is missing.",
        ),
        Family(
            "iowarden_controller_disk_missing",
            "gauge",
            "1 for a disk that its controller listed within the last 7 days and that is"
            " missing, with no other disk in its slot.",
        ),
        Family(
            "iowarden_controller_disk_recent_errors",
            "gauge",
            "Recent errors that a controller counted for a disk; each came within a day of"
            " the one before.",
        ),
        Family(
            "iowarden_controller_disk_baseline_errors",
            "gauge",
            "Errors that a controller had counted for a disk at baseline, if none were added.",
        ),
        Family(
            "iowarden_controller_array_write_cache_became_disabled",
            "gauge",
            "1 while an array that is set to cache writes, or did within 7 days, does not; 0"
            " if its controller never had a battery or cache module.",
        ),
        Family(
            "iowarden_controller_battery_lost",
            "gauge",
            "1 if a controller that had a battery has none now.",
        ),
        Family(
            "iowarden_controller_sensor_zero",
            "gauge",
            "1 while a fan, temperature or voltage reads 0 that did not before, or whose"
            " neighbors do not; 0 for one that reads 0 as it always did.",
        ),
    ),
    value_of=lambda view: view.inputs.snapshot.controllers,
    evaluate=_controller_changes,
)
