"""Identity and signatures of block devices, from the udev database in '/run/udev/data'."""

from __future__ import annotations

import re
from collections.abc import Mapping  # noqa: TC003 - a public annotation
from typing import TYPE_CHECKING

from iowarden.collectors.block import diskstats
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import Family, Labels, Sample
from iowarden.collectors.source import Source, of_whole_devices
from iowarden.collectors.sysfs import entry_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.machine import Machine

DIRECTORY = "/run/udev/data"
_SET_UP = lazy_pattern(r"^I:(\d{1,18})$", re.ASCII | re.MULTILINE)
_NUMBER = lazy_pattern(r"\d{1,15}(\.\d{1,15})?", re.ASCII)


_ZVOL = lazy_pattern(r"^S:zvol/(.{1,255})$", re.MULTILINE)
_VG = ("LVM_VG_NAME_COMPLETE", "LVM_VG_NAME_INCOMPLETE")


@dataclass(frozen=True, slots=True)
class BlockSignature:
    """Signature on a device, from udev. Source: util-linux, libblkid, superblocks.

    Fields: `kind` is 'zfs_member', 'LVM2_member', 'crypto_LUKS', 'ext4' ...; `group` is the name of
    the set it belongs to, '' unknown: the pool, for LVM the volume group, else its label.
    """

    kind: str
    group: str


@dataclass(frozen=True, slots=True)
class UdevDevice:
    """One block device: its numbers and udev's properties. Source: udev(7), systemd's sd-device.

    Properties are those of udev's last probe; none: udev is not running, or not in this namespace.
    """

    major: int
    minor: int
    rotational: bool
    """False also if the kernel does not report it, as in node_exporter."""
    properties: Mapping[str, str]


FAMILIES = (
    Family("iowarden_device_path_info", "gauge", "Where a device is attached, by udev's ID_PATH."),
)

_INFO = (
    ("model", "ID_MODEL"),
    ("path", "ID_PATH"),
    ("revision", "ID_REVISION"),
    ("wwn", "ID_WWN"),
)
_FILESYSTEM = (
    ("type", "ID_FS_TYPE"),
    ("usage", "ID_FS_USAGE"),
    ("uuid", "ID_FS_UUID"),
    ("version", "ID_FS_VERSION"),
)
_DEVICE_MAPPER = (
    ("lv_layer", "DM_LV_LAYER"),
    ("lv_name", "DM_LV_NAME"),
    ("name", "DM_NAME"),
    ("uuid", "DM_UUID"),
    ("vg_name", "DM_VG_NAME"),
)
_ATA = (
    ("node_disk_ata_rotation_rate_rpm", "ID_ATA_ROTATION_RATE_RPM"),
    ("node_disk_ata_write_cache", "ID_ATA_WRITE_CACHE"),
    ("node_disk_ata_write_cache_enabled", "ID_ATA_WRITE_CACHE_ENABLED"),
)
_SERIALS = ("SCSI_IDENT_SERIAL", "ID_SERIAL_SHORT", "ID_SERIAL")
"""In this order: the first is the one on the disk's label, the last is all that virtio has."""


def parse_set_up_seconds(text: str) -> float | None:
    """Parse when udev first had a device, in seconds since boot; None: not in the database.

    It persists through changes and is new for a device that was removed and reappeared.
    Source: systemd, sd-device's database, 'I' (USEC_INITIALIZED), microseconds of CLOCK_MONOTONIC.
    """
    found = _SET_UP.search(text)
    return int(found[1]) / 1e6 if found else None


def parse_signature(text: str) -> BlockSignature | None:
    """Parse the signature in a file of the database; None: unknown.

    Source: of LVM, lvm2's 69-dm-lvm.rules, 'pvscan --udevoutput' (2.03.15 and later).
    """
    properties = parse_properties(text)
    kind = properties.get("ID_FS_TYPE", "")
    group = next((properties[key].strip("'") for key in _VG if properties.get(key)), "")
    label = properties.get("ID_FS_LABEL_ENC") or properties.get("ID_FS_LABEL", "")
    # Other escapes are not decoded: a label may contain anything.
    return BlockSignature(kind, group or label.replace("\\x20", " ")) if kind else None


def parse_zvol(text: str) -> str:
    """Return the ZFS volume of a device 'zd0' ('tank/vm1'), from the name of its link, or ''.

    Source: OpenZFS, udev/rules.d/60-zvol.rules.
    """
    found = _ZVOL.search(text)
    return found[1] if found else ""


def parse_properties(text: str) -> dict[str, str]:
    """Parse the properties ('E:KEY=value') of a file of the database; other lines are ignored."""
    properties = {}
    for line in text.split("\n"):
        key, equals, value = line.removeprefix("E:").partition("=")
        if equals and line.startswith("E:"):
            properties[key] = value
    return properties


def emit(value: Mapping[str, UdevDevice]) -> list[Sample]:
    """Return the samples of FAMILIES."""
    return [
        (
            "iowarden_device_path_info",
            (("device", name), ("path", device.properties.get("ID_PATH", ""))),
            1,
        )
        for name, device in value.items()
    ]


def node_samples(value: Mapping[str, UdevDevice]) -> Iterator[Sample]:
    """Yield the series that node_exporter's collector 'diskstats' takes from udev."""
    for name, device in value.items():
        properties = device.properties
        serial = next((properties[key] for key in _SERIALS if properties.get(key)), "")
        numbers = (("major", str(device.major)), ("minor", str(device.minor)))
        rotational = ("rotational", str(int(device.rotational)))
        info = (*_labels(_INFO, name, properties), *numbers, rotational, ("serial", serial))
        yield "node_disk_info", tuple(sorted(info)), 1
        if properties.get("ID_FS_TYPE"):
            yield "node_disk_filesystem_info", _labels(_FILESYSTEM, name, properties), 1
        if properties.get("DM_NAME"):
            yield "node_disk_device_mapper_info", _labels(_DEVICE_MAPPER, name, properties), 1
        if properties.get("ID_ATA"):
            for metric, key in _ATA:
                if _NUMBER.fullmatch(properties.get(key, "")):
                    yield metric, (("device", name),), float(properties[key])


def read_udev(root: Machine) -> dict[str, UdevDevice]:
    """Read udev's data of every device that node_exporter shows.

    Limits: may hang on a faulty disk. Errors: AbsentError (no block device), ReadError, ParseError.
    """
    return {
        name: UdevDevice(
            block.major,
            block.minor,
            _text(root, f"/sys/block/{entry_name(name)}/queue/rotational").strip() == "1",
            parse_properties(_text(root, f"{DIRECTORY}/b{block.major}:{block.minor}")),
        )
        for name, block in diskstats.read_diskstats(root).items()
        if not diskstats.NODE_IGNORED.fullmatch(name)
    }


def _labels(
    names: tuple[tuple[str, str], ...], device: str, properties: Mapping[str, str]
) -> Labels:
    values = [(label, properties.get(key, "")) for label, key in names]
    return tuple(sorted([("device", device), *values]))


def _text(root: Machine, path: str) -> str:
    """Return a text; '' if the device vanished, or udev is not running: it is shown without."""
    return root.try_read(path) or ""


SOURCE: Source[Mapping[str, UdevDevice]] = Source(
    name="udev",
    period_seconds=60,
    period_help="How often udev's database is read.",
    may_hang=True,
    read=read_udev,
    families=FAMILIES,
    emit=emit,
    restrict=of_whole_devices,
    objects=("device",),
    node=node_samples,
    node_prefixes=(
        "node_disk_ata_",
        "node_disk_device_mapper_info",
        "node_disk_filesystem_info",
        "node_disk_info",
    ),
)
