"""Temperatures, from '/sys/class/hwmon'.

Read through Machine, not by psutil, whose paths begin with a fixed '/sys', so it cannot read a
recorded host, and which does not report the disk that a chip belongs to.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import Metric, describe
from iowarden.collectors.source import Source
from iowarden.collectors.sysfs import Attributes, attributes, device_name, printable_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.model import Labels, Sample

DIRECTORY = "/sys/class/hwmon"
_INPUT = lazy_pattern(r"(temp\d+)_input", re.ASCII)
_NAMESPACE = lazy_pattern(r"nvme(\d+)(?:c\d+)?n(\d+)", re.ASCII)
_MILLI = 1000
_NO_LIMIT_MILLICELSIUS = 65_535 * _MILLI - 273_150
"""NVMe's threshold of FFFFh kelvin: no limit is set. Source: NVMe base specification, feature 04h,
'over temperature threshold'; kernel, drivers/nvme/host/hwmon.c for the conversion.
"""


@dataclass(frozen=True, slots=True)
class Temperature:
    """One sensor. None: not reported by the chip. Source: kernel, hwmon/sysfs-interface.rst."""

    chip: str
    """'drivetemp', 'nvme', 'coretemp' ..."""
    sensor: str
    """'temp1'; unique within its hwmon device."""
    hwmon: str
    label: str
    device: str | None
    """The block device that it measures ('sda', 'nvme0n1'), if the chip belongs to one."""
    celsius: Annotated[float | None, Metric("gauge", "Temperature of a sensor.")]
    max_celsius: Annotated[
        float | None, Metric("gauge", "Maximum temperature of a sensor, as set by its vendor.")
    ]
    critical_celsius: Annotated[
        float | None, Metric("gauge", "Critical temperature of a sensor, as set by its vendor.")
    ]
    read_error: str = ""
    """Why data of the sensor are missing: the first attribute that could not be read."""


FAMILIES, _emit = describe(Temperature, "iowarden_temperature_")


def emit(value: Iterable[Temperature]) -> list[Sample]:
    """Return the samples of FAMILIES; 'device' is empty if the chip belongs to no disk."""
    samples: list[Sample] = []
    for temperature in value:
        labels = (
            ("chip", temperature.chip),
            ("device", temperature.device or ""),
            ("hwmon", temperature.hwmon),
            ("label", temperature.label),
            ("sensor", temperature.sensor),
        )
        samples += _emit(temperature, labels)
    return samples


def unreadable(value: Iterable[Temperature]) -> Iterator[tuple[Labels, str]]:
    """Yield the sensors that could not be read, and why."""
    for temperature in value:
        if temperature.read_error:
            labels = (("hwmon", temperature.hwmon), ("sensor", temperature.sensor))
            yield labels, temperature.read_error


def read_hwmon(root: Machine) -> tuple[Temperature, ...]:
    """Read all temperature sensors; a chip that vanishes meanwhile is left out.

    Limits: queries the disk itself, so it may hang on a faulty one, and prevents some disks from
    spinning down (kernel, hwmon/drivetemp.rst).
    Errors: AbsentError, ReadError (of '/sys/class/hwmon'), ParseError.
    """
    temperatures: list[Temperature] = []
    for name in root.names(DIRECTORY):
        chip = attributes(root, f"{DIRECTORY}/{name}")
        if chip is None:
            continue
        sensors = [found[1] for entry in chip.entries if (found := _INPUT.fullmatch(entry))]
        device = _block_device(chip) if sensors else None
        of_chip = [_temperature(chip, printable_name(name), sensor, device) for sensor in sensors]
        if not chip.vanished():
            temperatures += filter(None, of_chip)
    return tuple(temperatures)


def _temperature(
    chip: Attributes, hwmon: str, sensor: str, device: str | None
) -> Temperature | None:
    """Return a sensor; None: nothing is connected, as at half of the inputs of a mainboard.

    Source: kernel, hwmon/sysfs-interface.rst: a fault is an open diode or an unconnected input.
    """
    name = chip.text("name") or ""
    label = chip.text(sensor + "_label") or ""
    chip.read_error = ""  # each sensor has its own
    celsius = _celsius(chip, sensor + "_input")
    maximum = _celsius(chip, sensor + "_max")
    critical = _celsius(chip, sensor + "_crit")
    problem = chip.read_error
    if chip.flag(sensor + "_fault"):
        if device is None:
            return None
        celsius = None
        problem = f"'{chip.path}/{sensor}_fault': the chip reports that this sensor is faulty"
    if celsius is None and not problem:
        return None
    return Temperature(name, sensor, hwmon, label, device, celsius, maximum, critical, problem)


def _celsius(chip: Attributes, name: str) -> float | None:
    number = chip.signed(name)
    return None if number in {None, _NO_LIMIT_MILLICELSIUS} else number / _MILLI


def _block_device(chip: Attributes) -> str | None:
    """Return the block device a chip belongs to.

    The chip's parent is a SCSI device, an NVMe controller or, on older kernels, the PCI device
    above the controller. A path of a multipath namespace counts as the namespace.
    """
    parent = chip.below("device")
    if parent is None:
        return None
    block = parent.below("block")
    if block is not None and block.entries:
        return device_name(block.entries[0])
    above = parent.below("nvme")
    controllers = [] if above is None else [above.below(name) for name in above.entries]
    for controller in (parent, *controllers):
        for entry in controller.entries if controller is not None else ():
            if found := _NAMESPACE.fullmatch(entry):
                return f"nvme{found[1]}n{found[2]}"
    return None


SOURCE: Source[tuple[Temperature, ...]] = Source(
    name="hwmon",
    period_seconds=60,
    period_help="How often temperatures are read.",
    may_hang=True,
    read=read_hwmon,
    families=FAMILIES,
    emit=emit,
    objects=("device",),
    unreadable=unreadable,
)
