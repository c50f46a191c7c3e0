"""What became of RAID controllers: gone, as disks of theirs; errors of disks that grow, caches off.

First sight is baseline: controllers keep counts for years, or since they were switched on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Sample
from iowarden.collectors.raid import controller
from iowarden.collectors.raid.controller import Health
from iowarden.rules.signals import baseline
from iowarden.rules.topology.device_changes import GONE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.raid.controller import Array, Controller, Controllers, PhysicalDisk
    from iowarden.rules.signals.baseline import Kept
    from iowarden.rules.signals.signal import View

TAKEN_SECONDS = 7 * 86_400.0
"""A write cache that was switched off for so long is meant to be off."""


def _judged(kept: Kept, value: Controllers, view: View) -> Iterator[Sample]:
    """Yield what became of every controller. The state is by controller, object and word."""
    now = view.inputs.now_seconds
    yield from _missing(kept, value, now)
    yield from _disks_missing(kept, value, now)
    for each in value.controllers:
        yield from _battery_lost(kept, each, now)
        protected = _was_protected(kept, each)
        for array in each.arrays:
            yield from _turned_off(kept, each.name, array, now, protected=protected)
        for disk in each.disks:
            yield from _errors(kept, each.name, disk, now)


def _missing(kept: Kept, value: Controllers, now: float) -> Iterator[Sample]:
    """Yield which controllers are gone; where they could not be listed, none is said to be."""
    there = controller.names(value)
    for each in value.controllers:
        baseline.seen(kept, f"{each.name}\tseen", 0.0, now)
    for key in [key for key in kept if key.endswith("\tseen")]:
        name, gone = key.removesuffix("\tseen"), 0.0
        if name not in there:
            if now - kept[key][0][0] > GONE_SECONDS:
                del kept[key]
                continue
            gone = 1.0
        yield "iowarden_controller_missing", (("controller", name),), gone


def _disks_missing(kept: Kept, value: Controllers, now: float) -> Iterator[Sample]:
    """Yield which disks are gone: till one is in that place, or it turns up in another one.

    Nothing is said of a controller that is not read, or lists no disk at all. What stands for a
    disk that is not there ('missing', without a serial number) is none.
    """
    cards = {each.name: each for each in value.controllers}
    known = {}
    for key in [key for key in kept if key.endswith("\tdisk")]:
        name, own, slot, *_ = key.split("\t")
        if name in cards and own and cards[name].serial and own != cards[name].serial:
            del kept[key]  # another card has its name now
        else:
            known[name, slot] = key
    places: dict[tuple[str, str], str] = {}
    for card in cards.values():
        for disk in card.disks:
            place = card.name, disk.slot
            key = f"{card.name}\t{card.serial}\t{disk.slot}\t{disk.serial}\tdisk"
            before = known.get(place, key)
            if disk.state.health is Health.ABSENT:
                continue
            if before.endswith(f"\t{disk.serial}\tdisk") or not disk.serial:
                key = before  # a disk that failed may not say any more who it is
            elif before != key:
                kept.pop(before, None)
            places[place] = key
            if key in kept or disk.serial or disk.state.health is not Health.FAILED:
                baseline.seen(kept, key, 0.0, now)
    here = {disk.serial for card in cards.values() for disk in card.disks} - {""}
    for key in [key for key in kept if key.endswith("\tdisk")]:
        name, _, slot, serial, _ = key.split("\t")
        there = places.get((name, slot)) == key
        if not there and (serial in here or now - kept[key][0][0] > GONE_SECONDS):
            del kept[key]
        elif name in cards and cards[name].disks:
            labels = (("controller", name), ("serial", serial), ("slot", slot))
            yield "iowarden_controller_disk_missing", labels, float(not there)


def _was_protected(kept: Kept, found: Controller) -> bool:
    """Whether a controller has, or had, a battery or cache module.

    Without one it writes through as it was bought, whatever its arrays are set to.
    """
    if f"{found.name}\t{found.serial}\tbattery" in kept:
        return True
    # cciss_vol_status reports the module and no battery.
    states = [each.state for each in found.sensors if each.name == "cache"]
    module = any(each is not None and each.health is not Health.ABSENT for each in states)
    return module and not found.batteries


def _turned_off(
    kept: Kept, name: str, array: Array, now: float, *, protected: bool
) -> Iterator[Sample]:
    """Yield whether an array stopped caching writes.

    One that tells what it is set to needs no memory; of others nobody knows who switched it off.
    `protected`: there is, or was, what keeps the cache when the power fails.
    """
    policy = array.policy
    if policy is None or policy.write_back is None:
        return
    key = f"{name}\t{array.name}\t{array.serial}\twrite cache"
    off = not policy.write_back
    if policy.default_write_back is not None:
        kept.pop(key, None)
        off = off and policy.default_write_back
    elif not off:
        baseline.seen(kept, key, 1.0, now)
    elif key not in kept or now - kept[key][0][0] > TAKEN_SECONDS:
        kept.pop(key, None)
        off = False
    labels = (("array", array.name), ("controller", name))
    yield "iowarden_controller_array_write_cache_turned_off", labels, float(off and protected)


def _battery_lost(kept: Kept, found: Controller, now: float) -> Iterator[Sample]:
    """Yield whether a controller's battery is gone: one that never had one is as it was bought."""
    if not found.batteries:
        return  # not told
    key = f"{found.name}\t{found.serial}\tbattery"
    there = any(each.state.health is not Health.ABSENT for each in found.batteries)
    if there:
        baseline.seen(kept, key, 1.0, now)
    labels = (("controller", found.name),)
    yield "iowarden_controller_battery_lost", labels, float(not there and key in kept)


def _errors(kept: Kept, name: str, disk: PhysicalDisk, now: float) -> Iterator[Sample]:
    """Yield by how much the errors of a disk grew; another disk in its place has its own."""
    for counted, total in disk.errors_total.items():
        key = f"{name}\t{disk.slot}\t{disk.serial}\t{counted}"
        count = baseline.recent(kept.get(key), total, now)
        kept[key] = baseline.pairs(count)
        labels = (("controller", name), ("counted", counted), ("slot", disk.slot))
        yield "iowarden_controller_disk_recent_errors", labels, count.new
        if count.baseline and not count.new:
            yield "iowarden_controller_disk_baseline_errors", labels, count.baseline


GROUP = baseline.group(
    name="controller_state",
    sources=("controllers",),
    families=(
        Family(
            "iowarden_controller_missing",
            "gauge",
            "1 for a controller that was there within 7 days and is not any more.",
        ),
        Family(
            "iowarden_controller_disk_missing",
            "gauge",
            "1 for a disk that its controller listed within 7 days and does not any more, nor"
            " another in its place.",
        ),
        Family(
            "iowarden_controller_disk_recent_errors",
            "gauge",
            "Errors a controller counted at a disk, each within a day of the one before.",
        ),
        Family(
            "iowarden_controller_disk_baseline_errors",
            "gauge",
            "Errors a controller had counted at a disk at first sight, or a day ago, where none"
            " came.",
        ),
        Family(
            "iowarden_controller_array_write_cache_turned_off",
            "gauge",
            "1 while an array does not cache writes that is set to, or did within 7 days; 0 where"
            " its controller never had a battery or cache module.",
        ),
        Family(
            "iowarden_controller_battery_lost",
            "gauge",
            "1 when a controller has no battery that keeps its cache, and had one before.",
        ),
    ),
    value_of=lambda view: view.inputs.snapshot.controllers,
    judged=_judged,
)
