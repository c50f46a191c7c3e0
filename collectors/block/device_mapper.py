"""Suspended device-mapper devices, from '/sys/block/dm-*/dm'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Sample
from iowarden.collectors.source import Source
from iowarden.collectors.sysfs import attributes, device_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.model import Labels

DIRECTORY = "/sys/block"


@dataclass(frozen=True, slots=True)
class MappedDevice:
    """One device. Source: kernel, ABI/testing/sysfs-block-dm. None: not reported.

    `suspended`: it accepts I/O and passes none on. Set once the requests in flight have completed,
    so nothing is in flight (drivers/md/dm.c, __dm_suspend).
    """

    device: str
    name: str | None
    suspended: bool | None
    read_error: str = ""
    """The first attribute that exists and could not be read, and why."""
    uuid: str | None = None
    """UUID with its creator: 'mpath-3600508b400105e210000900000490000', 'LVM-...',
    'CRYPT-LUKS2-...'.
    """


FAMILIES = (
    Family(
        "iowarden_device_mapper_suspended", "gauge", "1 while a device-mapper device is suspended."
    ),
)


def emit(value: Mapping[str, MappedDevice]) -> list[Sample]:
    """Return the samples of FAMILIES."""
    return [
        ("iowarden_device_mapper_suspended", (("device", name),), float(mapped.suspended))
        for name, mapped in value.items()
        if mapped.suspended is not None
    ]


def unreadable(value: Mapping[str, MappedDevice]) -> Iterator[tuple[Labels, str]]:
    """Yield the devices with an unreadable attribute, and why."""
    for name, mapped in value.items():
        if mapped.read_error:
            yield (("device", name),), mapped.read_error


def read_dm(root: Machine) -> dict[str, MappedDevice]:
    """Read all device-mapper devices, by kernel name; one that vanishes meanwhile is left out.

    Limits: may hang while a device is created or removed.
    Errors: AbsentError, ReadError (of '/sys/block'), ParseError.
    """
    devices = {}
    for entry in root.names(DIRECTORY):
        found = attributes(root, f"{DIRECTORY}/{entry}/dm") if entry.startswith("dm-") else None
        if found is None:
            continue
        name = device_name(entry)
        label, suspended, uuid = found.text("name"), found.flag("suspended"), found.text("uuid")
        mapped = MappedDevice(name, label, suspended, found.read_error, uuid)
        if not found.vanished():
            devices[name] = mapped
    return devices


SOURCE: Source[Mapping[str, MappedDevice]] = Source(
    name="dm",
    period_seconds=5,
    period_help="How often it is read whether device-mapper devices are suspended.",
    may_hang=True,
    read=read_dm,
    families=FAMILIES,
    emit=emit,
    objects=("device",),
    unreadable=unreadable,
)
