"""SMART plausibility: whether the SMART data of a disk can be true. Pure.

RAID controllers synthesise SMART pages for the volumes that they present; these show neither health
nor failure. After one hard contradiction, or two soft ones, the access method is implausible.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.quantity import size
from iowarden.collectors.smart.drive import Protocol
from iowarden.collectors.smart.smartctl_refusal import VIRTUAL_MODELS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.block.block_devices import Device
    from iowarden.collectors.smart.drive import AccessMethod, Disk, Drive

Signature = tuple[tuple[int, int], ...]
HARD, SOFT = 2, 1
"""Points; from a sum of HARD on the SMART data are implausible."""
_BUSY_BYTES = 10**9
_CYCLES_MASK, _MAX_CYCLES = 0xFFFFFF, 2**31
_BYTE_SHIFTED = 0x100
_COLDEST, _HOTTEST = -60, 150
"""Celsius; drives without a sensor report 0."""
_ROOM_CELSIUS = 40
"""No drive has so low a limit. A real drive above a higher limit that is not configured to warn
(EWASC of SPC's mode page 1Ch) also reports that it is healthy; its temperature must not be ignored.
"""
_ENOUGH = 8
"""Minimum number of attributes that is conclusive if all are 0 or equal to another disk's."""
_CAPACITY_ERROR_RATIO = 0.01
_HOURS_OF_16_BITS, _YEAR_HOURS = 1 << 16, 8760
VIRTUAL = re.compile(VIRTUAL_MODELS, re.IGNORECASE)
_VIRTUAL_NAME = re.compile(r"x?vd[a-z]+", re.ASCII)
"""Of virtio and Xen. Source: kernel, drivers/block/virtio_blk.c, xen-blkfront.c."""
_ATA_MODEL = re.compile(r"(?:ATA\s+)?(?:WDC WD|ST\d{3,}[A-Z]|SAMSUNG|Hitachi H|MAXTOR|TOSHIBA D)")
_OLD_TRANSPORT = re.compile(r"Fibre channel|FCP|Parallel SCSI|SPI")
_EARLIEST = ((re.compile(r"WDC WD\d{3,4}AAJS"), 2006), (re.compile(r"WDC WD\w+[SDX]\b"), 2003))
"""By model: the first year of manufacture. Serial ATA exists since 2003."""
_FIRST_YEAR = 2000
_HIDING_DRIVERS = re.compile(r"arcmsr|3w-|megaraid|aacraid|hpsa|cciss|mpt\w*sr")
_SCSI_OPCODE = "unsupported scsi opcode"

ACCESS_HINTS = (
    ("arcmsr", "smartctl with '-d areca' and the slot, at its sg device; or 'cli64 disk info'"),
    ("3w-9xxx", "smartctl with '-d 3ware' and the port, at /dev/twa0"),
    ("3w-sas", "smartctl with '-d 3ware' and the port, at /dev/twl0"),
    ("3w-xxxx", "smartctl with '-d 3ware' and the port, at /dev/twe0"),
    (
        "megaraid",
        "smartctl with '-d megaraid' and the device id that storcli shows, at its /dev/bus",
    ),
    ("hpsa", "smartctl with '-d cciss' and the drive's number, at the controller's sg device"),
    ("cciss", "smartctl with '-d cciss' and the drive's number, at /dev/cciss/c0d0"),
    ("aacraid", "smartctl with '-d aacraid' and its place as arcconf shows it, at its sg device"),
)
OTHER_HINT = "the command line tool of its controller or enclosure"


@dataclass(frozen=True, slots=True)
class Implausibility:
    """One contradiction in SMART data, as text; `points` is HARD or SOFT."""

    points: int
    text: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Data of other sources about the same disk. None: unknown.

    Fields: `traffic_bytes` read and written since boot, by the kernel's counters; `year` is the
    present one; `errors_logged`: medium errors that the kernel or the controller reported;
    `hours_before`: power-on time at an earlier poll; `same_serial` and `same_attributes` name
    another disk with the same serial number or attributes.
    """

    device: Device | None = None
    traffic_bytes: float | None = None
    year: int | None = None
    errors_logged: float | None = None
    hours_before: float | None = None
    same_serial: str = ""
    same_attributes: str = ""


def is_plausible(contradictions: tuple[Implausibility, ...]) -> bool:
    """Whether the SMART data of a disk are plausible."""
    return sum(doubt.points for doubt in contradictions) < HARD


def implausibilities(disk: Disk, drive: Drive, around: Surroundings) -> tuple[Implausibility, ...]:
    """Return the contradictions in the SMART data of a disk; none for a virtual one.

    A hypervisor's disk has no health data that could be wrong.
    """
    if virtual(drive, around.device):
        return ()
    found = [*_scsi(drive, around), *_anything(drive, around)]
    target = disk.polled.target
    if target.driver and not target.behind_raid() and _HIDING_DRIVERS.match(target.driver):
        found.append(Implausibility(SOFT, f"the controller ({target.driver}) hides its disks"))
    return tuple(found)


def virtual(drive: Drive, device: Device | None) -> bool:
    """Whether a disk is virtual: of a hypervisor."""
    own = any(VIRTUAL.search(word) for word in (drive.vendor, drive.model))
    return own or (device is not None and virtual_device(device))


def virtual_device(device: Device) -> bool:
    """Whether a device is a hypervisor's disk, by its kernel name, vendor or model."""
    words = (device.vendor or "", device.model or "")
    return bool(_VIRTUAL_NAME.fullmatch(device.name)) or any(map(VIRTUAL.search, words))


def access_hint(target: AccessMethod) -> str:
    """Return how to query the disks behind a controller."""
    return next((text for name, text in ACCESS_HINTS if target.driver.startswith(name)), OTHER_HINT)


def _scsi(drive: Drive, around: Surroundings) -> Iterator[Implausibility]:
    """Yield the contradictions in SCSI pages."""
    scsi = drive.scsi
    if drive.protocol is not Protocol.SCSI or scsi is None:
        return
    counters = scsi.error_counters
    processed = [
        row.processed_bytes
        for kind, row in counters.items()
        if kind in {"read", "write"} and row.processed_bytes is not None
    ]
    traffic = around.traffic_bytes or 0.0
    if processed and not any(processed) and traffic > _BUSY_BYTES:
        yield Implausibility(HARD, f"it counts 0 bytes, the kernel {size(traffic)} since boot")
    errors = [
        number
        for row in counters.values()
        for number in (row.corrected_total, row.uncorrected_total)
        if number is not None
    ]
    if errors and not any(errors) and around.errors_logged:
        yield Implausibility(
            HARD, f"it counts no error, {around.errors_logged:.0f} medium errors are logged"
        )
    trip, celsius = drive.reported_trip_celsius, drive.temperature_celsius
    if trip and celsius is not None and trip < celsius and drive.passed:
        points = HARD if trip <= _ROOM_CELSIUS else SOFT
        told = f"healthy at {celsius:.0f} C, above its trip temperature of {trip:.0f} C"
        yield Implausibility(points, told)
    specified, cycles = scsi.specified_start_stop_cycles, scsi.start_stop_cycles
    if specified and (specified >= _MAX_CYCLES or not specified & _CYCLES_MASK):
        yield Implausibility(SOFT, f"made for {specified} start-stop cycles")
    if cycles == _BYTE_SHIFTED:
        yield Implausibility(SOFT, f"{cycles} start-stop cycles, which is 1 in the wrong byte")
    yield from _year(drive, scsi.manufactured_year, around.year)
    ata = _ATA_MODEL.match(drive.model) or drive.vendor == "ATA"
    if ata and _OLD_TRANSPORT.search(drive.transport):
        yield Implausibility(SOFT, f"an ATA drive ({drive.model}) on '{drive.transport}'")
    refused = " ".join(drive.refused + drive.messages).lower()
    if "self test" in refused.replace("-", " ") or _SCSI_OPCODE in refused:
        yield Implausibility(SOFT, "no self-test log and no self-tests")


def _year(drive: Drive, year: str | None, present: int | None) -> Iterator[Implausibility]:
    """Yield a contradiction of the year of manufacture; smartctl prints it as text."""
    if not year:
        return
    number = int(year) if re.fullmatch(r"[0-9]{4}", year, re.ASCII) else 0
    first = next((since for model, since in _EARLIEST if model.match(drive.model)), 0)
    if number < _FIRST_YEAR:
        yield Implausibility(SOFT, f"made in the year '{year}'")
    elif present is not None and number > present:
        yield Implausibility(SOFT, f"made in {number}, which is to come")
    elif number < first:
        yield Implausibility(
            SOFT, f"made in {number}, and there was no {drive.model} before {first}"
        )


def _anything(drive: Drive, around: Surroundings) -> Iterator[Implausibility]:
    """Yield the contradictions for drives of any kind."""
    raws = [a.raw for a in drive.attributes if a.raw is not None]
    if len(raws) >= _ENOUGH and not any(raws):
        yield Implausibility(SOFT, "every raw value is 0, also those of its age and temperature")
    if around.hours_before is not None and drive.power_on_hours is not None:
        before, hours = around.hours_before, drive.power_on_hours
        if hours < before - 1 and not has_rolled_over(before, hours):  # some drives round
            yield Implausibility(SOFT, f"{hours} hours of power-on time, and {before:.0f} before")
    celsius = drive.temperature_celsius
    if celsius is not None and not _COLDEST <= celsius < _HOTTEST:
        yield Implausibility(SOFT, f"a temperature of {celsius:.0f} C")
    if any("invalid smart checksum" in text.lower() for text in drive.messages):
        yield Implausibility(SOFT, "its data has a wrong checksum")
    kernel_bytes = None if around.device is None else around.device.size_bytes
    if kernel_bytes and drive.capacity_bytes:
        difference = abs(kernel_bytes - drive.capacity_bytes)
        if difference > _CAPACITY_ERROR_RATIO * kernel_bytes:
            capacity = size(drive.capacity_bytes)
            yield Implausibility(SOFT, f"it has {capacity}, and the kernel {size(kernel_bytes)}")
    if around.same_serial:
        yield Implausibility(
            SOFT, f"{around.same_serial} has the same serial number and another model"
        )
    if around.same_attributes:
        yield Implausibility(
            SOFT, f"{around.same_attributes} reports the same values in every attribute"
        )


def has_rolled_over(before: float, hours: float) -> bool:
    """Whether hours of 16 bits passed their end between two times less than a year apart.

    Some drives count power-on time so, and the self-test logs of all do. Source: ACS-3, SPC.
    """
    passed = _HOURS_OF_16_BITS - before + hours
    return before < _HOURS_OF_16_BITS and passed <= _YEAR_HOURS


def signature(drive: Drive) -> Signature | None:
    """Return attributes that no two disks share; None if a drive has too few of them."""
    told = tuple((a.id, a.raw) for a in drive.attributes if a.raw)
    return told if len(told) >= _ENOUGH else None
