"""Suspended device-mapper devices, from '/sys/block/dm-*/dm'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import (
    AbsentError,
    Family,
    ParseError,
    ReadError,
    Sample,
    parse_count,
)
from iowarden.collectors.source import Source
from iowarden.collectors.sysfs import device_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.model import Labels

DIRECTORY = "/sys/block"


@dataclass(frozen=True, slots=True)
class MappedDevice:
    """One device. Source: kernel, ABI/testing/sysfs-block-dm. None: not reported.

    `suspended`: it accepts I/O and passes none on. Set once the requests in flight have completed,
    so nothing is in flight (drivers/md/dm.c, __dm_suspend). `name`: of a suspended one; of the
    others it is not read.
    """

    device: str
    name: str | None
    suspended: bool | None
    read_error: str = ""
    """Why `suspended` exists and could not be read."""


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

    Of hundreds that pass their I/O on, one file each is read: this is every few seconds.
    Limits: may hang while a device is created or removed.
    Errors: AbsentError, ReadError (of '/sys/block'), ParseError.
    """
    devices = {}
    for entry in root.names(DIRECTORY):
        mapped = _mapped(root, entry) if entry.startswith("dm-") else None
        if mapped is not None:
            devices[mapped.device] = mapped
    return devices


def _mapped(root: Machine, entry: str) -> MappedDevice | None:
    """Return a device, None if it does not exist. Errors: ParseError."""
    path, device = f"{DIRECTORY}/{entry}/dm", device_name(entry)
    try:
        suspended = _flag(root, f"{path}/suspended")
    except AbsentError:
        return None if root.try_names(path) is None else MappedDevice(device, None, None)
    except ReadError as error:
        return MappedDevice(device, None, None, str(error))
    return MappedDevice(device, mapped_name(root, entry) if suspended else None, suspended)


def _flag(root: Machine, path: str) -> bool | None:
    """Return whether a number is not 0; None: no text. Errors: of `Machine.read`, ParseError."""
    text = root.read(path).strip()
    try:
        return parse_count(text) != 0 if text else None
    except ValueError:
        raise ParseError(f"'{path}': expected an unsigned number, got {text[:80]!r}") from None


def mapped_name(root: Machine, entry: str) -> str | None:
    """Return the name of a device, given its name in sysfs; None: it has none, or has vanished."""
    text = root.try_read(f"{DIRECTORY}/{entry}/dm/name") or ""
    return " ".join(text.replace("\0", " ").split()) or None


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
