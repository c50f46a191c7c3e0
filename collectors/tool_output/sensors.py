"""'sensors' of lm-sensors in a text: temperatures of drives at their own limits.

Source: sensors(1), prog/sensors/chips.c; kernel, Documentation/hwmon/drivetemp.rst and
drivers/nvme/host/hwmon.c: 'high' is where the drive warns, 'crit' where it may stop; 'lowest' and
'highest' are history. Only chips that are drives are judged: the others are no storage.
Units: degrees Celsius; with 'sensors -f' degrees Fahrenheit, which have limits in the same unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.parsed_text import Finding, Parsed, TextObject, Tool, UnparsedLine
from iowarden.collectors.raid.controller import ComponentHealth

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

_CHIP = lazy_pattern(
    r"(?P<chip>[A-Za-z]\w{0,40}-(?:isa|pci|scsi|i2c|virtual|acpi|hid|spi|mdio|sdio|dev)-\S{1,20})"
)
_DRIVE = lazy_pattern(r"(?:drivetemp|nvme)-")
_READING = lazy_pattern(
    r"(?P<label>[^:\n]{1,40}):[ \t]+(?P<value>[+-]?\d{1,5}(?:\.\d{1,3})?|N/A)[ \t]*(?:°|\S{0,4}?)?"
    r"(?P<unit>[CF]?)\b(?P<rest>.*)"
)
_LIMIT = lazy_pattern(r"(?P<name>high|crit)[ \t]*=[ \t]*(?P<value>[+-]?\d{1,6}(?:\.\d{1,3})?)")
_UNSET_CELSIUS = 60_000
"""An NVMe sensor without a limit of its own has the largest one there is: 65,262 C."""
_ADVICE = (
    "Heat wears bearings and flash, and slows NVMe drives down: check fans, filters, heat sinks and"
    " the drives next to it."
)


@dataclass(frozen=True, slots=True)
class _Sensor:
    """A temperature and the drive's limits of it, in the text's unit."""

    chip: str
    label: str
    value: float
    high: float | None
    critical: float | None


def parse_sensors(text: str) -> Parsed:
    """Parse the temperatures of drives; a drive without one is reported."""
    unread: list[UnparsedLine] = []
    objects: list[TextObject] = []
    findings: list[Finding] = []
    parts = [*_chips(text)]
    for chip, lines in parts:
        if not _DRIVE.match(chip):
            continue
        sensors = [*_sensors(chip, lines)]
        if not sensors:
            reason = f"sensors: {chip}: expected a temperature, got none"
            unread.append(UnparsedLine(reason, lines[0][1] if lines else "", None))
        for sensor in sensors:
            faults = _faults(sensor)
            health = ComponentHealth.ATTENTION if faults else ComponentHealth.OK
            counts = {"temperature": sensor.value}
            objects.append(TextObject("sensor", sensor.label, chip, health, counts=counts))
            findings += faults
    if not objects and not unread:
        other = f": {', '.join(chip for chip, _ in parts[:5])} are none" if parts else ""
        unread.append(
            UnparsedLine(
                f"sensors: expected a chip of a drive (drivetemp, nvme){other}; for a SATA drive:"
                " modprobe drivetemp"
            )
        )
    return Parsed(
        Tool.SENSORS,
        objects=tuple(objects),
        findings=tuple(findings),
        outputs=("sensors",) if objects else (),
        unparsed=tuple(unread),
    )


def _chips(text: str) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """Yield each chip with its numbered lines."""
    chip, lines = "", list[tuple[int, str]]()
    for number, line in enumerate(text.split("\n"), 1):
        if (match := _CHIP.fullmatch(line.strip())) is not None:
            if chip:
                yield chip, lines
            chip, lines = match["chip"], []
        elif line.strip():
            lines.append((number, line))
    if chip:
        yield chip, lines


def _sensors(chip: str, lines: list[tuple[int, str]]) -> Iterator[_Sensor]:
    reading: re.Match[str] | None = None
    limits: dict[str, float] = {}
    for _, line in [*lines, (0, "end:  N/A")]:
        following = _READING.match(line)
        if following is not None and reading is not None:
            high, critical = limits.get("high"), limits.get("crit")
            yield _Sensor(chip, reading["label"].strip(), float(reading["value"]), high, critical)
        if following is not None:
            is_read = following["value"] != "N/A" and following["unit"] != ""
            reading, limits = (following, {}) if is_read else (None, {})
        for limit in _LIMIT.finditer(following["rest"] if following is not None else line):
            value = float(limit["value"])
            if value < _UNSET_CELSIUS:
                limits.setdefault(limit["name"], value)


def _faults(sensor: _Sensor) -> list[Finding]:
    place = f"{sensor.chip} {sensor.label}"
    reached = [
        (severity, word, limit)
        for severity, word, limit in (
            ("critical", "critical temperature", sensor.critical),
            ("warning", "own limit", sensor.high),
        )
        if limit is not None and limit > 0 and sensor.value >= limit
    ]
    if not reached:
        return []
    severity, word, limit = reached[0]
    text = f"{place}: {sensor.value:g}, the drive's {word} is {limit:g}"
    return [Finding(severity, "DiskTemperature", place, text, _ADVICE)]
