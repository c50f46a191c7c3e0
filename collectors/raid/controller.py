"""Data model of RAID controllers of all vendors: arrays, disks, batteries, sensors, poll results.

Sizes are as a program prints them, rounded to its decimals. None, or '': not reported.
"""

from __future__ import annotations

import enum
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.collectors.raid.output import printable
from iowarden.collectors.source import Source, read_by_poller

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from iowarden.collectors.event import StorageEvent
    from iowarden.collectors.model import Labels
    from iowarden.collectors.raid.log_alignment import LogCursor


class ComponentHealth(enum.StrEnum):
    """Classified state of a controller's component. Vendor states that mean `ok` are listed."""

    OK = "ok"
    BUSY = "busy"
    """Optimal, while a check, an initialization or a migration runs."""
    REBUILDING = "rebuilding"
    """A rebuild is running."""
    DEGRADED = "degraded"
    """The data are available, without redundancy."""
    FAILING = "failing"
    """It works, and predicts its failure."""
    FAILED = "failed"
    ABSENT = "absent"
    """Not present, which is no fault: an empty slot, no battery."""
    ATTENTION = "attention"
    """An unknown state, or one that an administrator should check."""


@dataclass(frozen=True, slots=True)
class ComponentState:
    """A state: its class, the vendor's term for it, and the progress of a running task."""

    health: ComponentHealth
    word: str = ""
    done_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """Cache policy of an array. `word` is the vendor's term, such as 'RiW'.

    `default_write_back` is the configured policy: a controller whose battery fails deviates from
    it.
    `forced`: write-back is configured even without a working battery.
    """

    write_back: bool | None = None
    read_cache: bool | None = None
    word: str = ""
    default_write_back: bool | None = None
    forced: bool | None = None


@dataclass(frozen=True, slots=True)
class ControllerArray:
    """A RAID set, unit, volume, virtual drive or spare.

    Fields: `name` is unique within its controller and persistent ('u0', 'raid set 1', 'volume 2');
    `label` is the name given by a user; `parent` is the `name` of the RAID set that contains a
    volume; `slots` are its disks; `address` is its SCSI channel:target:lun.
    """

    name: str
    state: ComponentState
    level: str = ""
    label: str = ""
    parent: str = ""
    size_bytes: int | None = None
    slots: tuple[str, ...] = ()
    address: str = ""
    serial: str = ""
    policy: CachePolicy | None = None
    disk_cache: bool | None = None


@dataclass(frozen=True, slots=True)
class PhysicalDisk:
    """A disk behind a RAID controller.

    Fields: `slot` is its location, as in events and in `smart.members` ('channel 2', 'enclosure 2
    slot 7', 'port 3'); `usage` is its use in the vendor's terms; `array` is the `name` of its
    array; `kind` is smartctl's '-d'; `errors_total` by counter name.
    """

    slot: str
    state: ComponentState
    model: str = ""
    serial: str = ""
    firmware: str = ""
    size_bytes: int | None = None
    usage: str = ""
    array: str = ""
    kind: str = ""
    temperature_celsius: float | None = None
    errors_total: Mapping[str, int] = field(default_factory=dict)


def slots_by_array(disks: Iterable[PhysicalDisk]) -> dict[str, tuple[str, ...]]:
    """Return the slots of the disks of each array, by array name; '': disks of no array."""
    found: dict[str, tuple[str, ...]] = {}
    for disk in disks:
        found[disk.array] = (*found.get(disk.array, ()), disk.slot)
    return found


@dataclass(frozen=True, slots=True)
class Battery:
    """A battery or capacitor of the write cache. `ready`: the controller relies on it."""

    name: str
    state: ComponentState
    ready: bool | None = None
    charge_ratio: float | None = None
    temperature_celsius: float | None = None


@dataclass(frozen=True, slots=True)
class Sensor:
    """A temperature, fan, voltage or power supply of a controller or its enclosure."""

    name: str
    state: ComponentState | None = None
    temperature_celsius: float | None = None
    fan_rpm: float | None = None
    voltage_volts: float | None = None


@dataclass(frozen=True, slots=True)
class Controller:
    """A RAID controller.

    Fields: `name` is that of events ('areca 1', 'c0'); `host` is 'host2', if known; `program` is
    the program that reported it, where a vendor has several with different names; `read_errors`:
    which parts of its state could not be read, and why; `clock_offset_seconds` is its clock, read
    as if it were UTC, minus UTC, if it reports its time.
    """

    name: str
    vendor: str
    model: str = ""
    serial: str = ""
    firmware: str = ""
    host: str = ""
    state: ComponentState | None = None
    memory_bytes: int | None = None
    arrays: tuple[ControllerArray, ...] = ()
    disks: tuple[PhysicalDisk, ...] = ()
    batteries: tuple[Battery, ...] = ()
    sensors: tuple[Sensor, ...] = ()
    read_errors: tuple[str, ...] = ()
    clock_offset_seconds: float | None = None
    program: str = ""


@dataclass(frozen=True, slots=True)
class ControllerLog:
    """A listing of an event log. Fields: `events`, oldest first; `cut`: it ends within a line."""

    events: tuple[StorageEvent, ...]
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """Why something could not be read.

    Fields: `controller` '': it concerns all controllers of the vendor, `host` ('host2') is the
    first of them; `reason` '': not polled yet.
    """

    controller: str
    reason: str
    vendor: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class Gap:
    """Events may be missing from a controller's log, or be reported twice: `reason` is why."""

    controller: str
    reason: str


@dataclass(frozen=True, slots=True)
class LastListing:
    """Size of a controller's last non-empty listing. Units: the program's clock."""

    arrays: int
    disks: int
    at_seconds: float
    serial: str = ""
    vendor: str = ""


@dataclass(frozen=True, slots=True)
class Controllers:
    """Result of one poll of the controllers.

    Fields: `events` are those that are new since the last poll, oldest first, each reported once;
    `cursors`, by controller, are compared with the logs in the next poll, and after a restart;
    `baseline` are the events in the logs when first seen, which are not reported as new; `listed`,
    by controller, is expected in the next poll, and after a restart.
    """

    controllers: tuple[Controller, ...] = ()
    events: tuple[StorageEvent, ...] = ()
    gaps: tuple[Gap, ...] = ()
    problems: tuple[Problem, ...] = ()
    cursors: Mapping[str, LogCursor] = field(default_factory=dict)
    baseline: tuple[StorageEvent, ...] = ()
    listed: Mapping[str, LastListing] = field(default_factory=dict)


def scsi_address(host: str, address: str) -> str:
    """Return an array's SCSI address as in sysfs: '2:0:0:1' for 'host2' and '0:0:1'; '' unknown."""
    return f"{host.removeprefix('host')}:{address}" if host and address else ""


LOG_PROBLEM = "its log: "
"""Prefix of the reason why a controller's log could not be read."""
_MAX_REASON_CHARACTERS = 200
_STATE_HELP = "1; state, classified and in the vendor's term, of "
FAMILIES = (
    Family(
        "iowarden_controller_info",
        "gauge",
        "1; model, serial number and firmware of a controller in labels.",
    ),
    Family("iowarden_controller_state", "gauge", _STATE_HELP + "a controller."),
    Family("iowarden_controller_memory_bytes", "gauge", "Cache memory of a controller."),
    Family(
        "iowarden_controller_array_info",
        "gauge",
        "1; level, name and RAID set of an array in labels.",
    ),
    Family("iowarden_controller_array_state", "gauge", _STATE_HELP + "an array."),
    Family(
        "iowarden_controller_array_progress_ratio",
        "gauge",
        "Progress of a rebuild, check, initialization or migration of an array.",
    ),
    Family("iowarden_controller_array_size_bytes", "gauge", "Size of an array."),
    Family(
        "iowarden_controller_array_write_cache_enabled",
        "gauge",
        "1 when an array's write cache is active: writes complete before they are on a disk.",
    ),
    Family(
        "iowarden_controller_array_write_cache_configured_enabled",
        "gauge",
        "1 when the configured policy of an array is write-back, whatever is in effect now.",
    ),
    Family(
        "iowarden_controller_array_write_cache_forced",
        "gauge",
        "1 when an array is set to write-back even without a working battery.",
    ),
    Family(
        "iowarden_controller_array_disk_cache_enabled",
        "gauge",
        "1 when the write caches of an array's disks are enabled; a controller's battery does not"
        " protect them.",
    ),
    Family(
        "iowarden_controller_disk_info",
        "gauge",
        "1; model, serial number and use of a disk in labels.",
    ),
    Family("iowarden_controller_disk_state", "gauge", _STATE_HELP + "a disk behind a controller."),
    Family("iowarden_controller_disk_size_bytes", "gauge", "Size of a disk behind a controller."),
    Family("iowarden_controller_disk_temperature_celsius", "gauge", "Temperature of a disk."),
    Family(
        "iowarden_controller_disk_errors_total",
        "counter",
        "Errors that a controller counted for a disk, by the vendor's name of the counter.",
    ),
    Family("iowarden_controller_battery_state", "gauge", _STATE_HELP + "the battery of a cache."),
    Family(
        "iowarden_controller_battery_ok",
        "gauge",
        "1 when the battery can protect the write cache; no series without a battery.",
    ),
    Family("iowarden_controller_battery_charge_ratio", "gauge", "Charge of a battery."),
    Family("iowarden_controller_battery_temperature_celsius", "gauge", "Temperature of a battery."),
    Family("iowarden_controller_sensor_state", "gauge", _STATE_HELP + "a sensor, fan or supply."),
    Family(
        "iowarden_controller_temperature_celsius",
        "gauge",
        "Temperature of a sensor of a controller.",
    ),
    Family("iowarden_controller_fan_rpm", "gauge", "Speed of a fan of a controller."),
    Family("iowarden_controller_voltage_volts", "gauge", "Voltage at a controller."),
    Family(
        "iowarden_controller_unreadable",
        "gauge",
        "1; in labels why a controller, its log or a part of its state could not be read.",
    ),
)


def emit(value: Controllers) -> list[Sample]:
    """Return the samples of FAMILIES."""
    samples: list[Sample] = []

    def add(name: str, number: float | None, /, **labels: str) -> None:
        if number is not None:
            pairs = tuple(sorted(labels.items()))
            samples.append((f"iowarden_controller_{name}", pairs, float(number)))

    def state_and_numbers(
        prefix: str,
        state: ComponentState | None,
        numbers: Mapping[str, float | None],
        labels: Mapping[str, str],
    ) -> None:
        if state is not None:
            add(prefix + "state", 1.0, **labels, state=state.health.value, vendor_state=state.word)
        for name, number in numbers.items():
            add(name, number, **labels)

    for each in value.controllers:
        at = {"controller": each.name}
        add(
            "info",
            1.0,
            **at,
            vendor=each.vendor,
            model=each.model,
            serial=each.serial,
            firmware=each.firmware,
            host=each.host,
            program=each.program,
        )
        state_and_numbers("", each.state, {"memory_bytes": each.memory_bytes}, at)
        for array in each.arrays:
            own = at | {"array": array.name}
            about = {"level": array.level, "name": array.label, "parent": array.parent}
            add("array_info", 1.0, **own, **about, address=array.address)
            policy = array.policy or CachePolicy()
            numbers = {
                "array_progress_ratio": array.state.done_ratio,
                "array_size_bytes": array.size_bytes,
                "array_write_cache_enabled": policy.write_back,
                "array_write_cache_configured_enabled": policy.default_write_back,
                "array_write_cache_forced": policy.forced,
                "array_disk_cache_enabled": array.disk_cache,
            }
            state_and_numbers("array_", array.state, numbers, own)
        for disk in each.disks:
            own = at | {"slot": disk.slot}
            about = {"model": disk.model, "serial": disk.serial, "firmware": disk.firmware}
            add("disk_info", 1.0, **own, **about, array=disk.array, usage=disk.usage)
            numbers = {
                "disk_size_bytes": disk.size_bytes,
                "disk_temperature_celsius": disk.temperature_celsius,
            }
            state_and_numbers("disk_", disk.state, numbers, own)
            for counted, total in disk.errors_total.items():
                add("disk_errors_total", total, **own, counted=counted)
        for battery in each.batteries:
            numbers = {
                "battery_ok": battery.ready,
                "battery_charge_ratio": battery.charge_ratio,
                "battery_temperature_celsius": battery.temperature_celsius,
            }
            state_and_numbers("battery_", battery.state, numbers, at | {"battery": battery.name})
        for sensor in each.sensors:
            numbers = {
                "temperature_celsius": sensor.temperature_celsius,
                "fan_rpm": sensor.fan_rpm,
                "voltage_volts": sensor.voltage_volts,
            }
            state_and_numbers("sensor_", sensor.state, numbers, at | {"sensor": sensor.name})
    parts = {(each.name, reason) for each in value.controllers for reason in each.read_errors}
    for problem in value.problems:
        what = "part" if (problem.controller, problem.reason) in parts else "controller"
        labels = {
            "controller": problem.controller,
            "vendor": problem.vendor,
            "host": problem.host,
            "reason": printable(problem.reason[:_MAX_REASON_CHARACTERS]),
            "scope": "log" if problem.reason.startswith(LOG_PROBLEM) else what,
        }
        if problem.reason:
            add("unreadable", 1.0, **{name: text for name, text in labels.items() if text})
    return list(dict.fromkeys(samples))


def unreadable(value: Controllers) -> Iterator[tuple[Labels, str]]:
    """Yield what could not be read, and why: alerts about it are unknown."""
    for problem in value.problems:
        yield ((("controller", problem.controller),) if problem.controller else ()), problem.reason


def names(value: Controllers) -> Container[str]:
    """Return the names of the controllers, also of those that did not answer.

    If the controllers of a vendor could not be listed, any name may exist: it counts as unreadable,
    see `unreadable`, and not as removed.
    """
    found = {each.name for each in value.controllers}
    found.update(problem.controller for problem in value.problems)
    return _Any() if "" in found else found


class _Any:
    """Contains every name."""

    def __contains__(self, name: object) -> bool:
        return True


SOURCE: Source[Controllers] = Source(
    name="controllers",
    period_seconds=15,
    may_hang=True,
    read=read_by_poller,
    families=FAMILIES,
    emit=emit,
    objects=("controller",),
    lists=("controller", names),
    unreadable=unreadable,
)
