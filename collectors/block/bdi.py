"""Write-back limits of backing devices, from '/sys/class/bdi'."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - to be evaluated
from typing import TYPE_CHECKING, Annotated

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import KIB, Metric, Sample, describe
from iowarden.collectors.source import Source
from iowarden.collectors.sysfs import attributes, printable_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.model import Labels

DIRECTORY = "/sys/class/bdi"
_MEMORY_BACKED = ("1:", "7:")
"""Major numbers of RAM and loop devices. Source: kernel, admin-guide/devices.txt."""


@dataclass(frozen=True, slots=True)
class Bdi:
    """One backing device. None: this kernel has no such file.

    Source: kernel, ABI/testing/sysfs-class-bdi. `name` is 'major:minor' for a block device; others
    are '0:40' (NFS, FUSE), '8:1-fuseblk', 'mtd-0', 'btrfs-1'. Ratios are in percent as the kernel
    has them.
    """

    name: str
    read_ahead_bytes: Annotated[int | None, Metric("gauge", "Read-ahead of a backing device.")]
    min_ratio_percent: Annotated[
        int | None, Metric("gauge", "Minimum share of the write-back cache, in percent.")
    ]
    max_ratio_percent: Annotated[
        int | None, Metric("gauge", "Maximum share of the write-back cache, in percent.")
    ]
    max_bytes: Annotated[
        int | None, Metric("gauge", "Maximum size of the write-back cache (6.2+).")
    ]
    strict_limit: Annotated[
        bool | None,
        Metric("gauge", "1 when the maximum share is always enforced (strict_limit, 6.2+)."),
    ]
    read_error: str = ""
    """The first attribute that exists and could not be read, and why."""


FAMILIES, _emit = describe(Bdi, "iowarden_bdi_")


def emit(value: Mapping[str, Bdi]) -> list[Sample]:
    """Return the samples of FAMILIES."""
    return [
        (metric, labels, float(number))
        for name, bdi in value.items()
        for metric, labels, number in _emit(bdi, (("bdi", name),))
    ]


def unreadable(value: Mapping[str, Bdi]) -> Iterator[tuple[Labels, str]]:
    """Yield the backing devices of which an attribute could not be read, and why."""
    for name, bdi in value.items():
        if bdi.read_error:
            yield (("bdi", name),), bdi.read_error


def read_bdi(root: Machine) -> dict[str, Bdi]:
    """Read all backing devices except loop and RAM devices, by name.

    One that vanishes meanwhile is left out.
    Errors: AbsentError, ReadError (of '/sys/class/bdi'), ParseError.
    """
    devices = {}
    for name in root.names(DIRECTORY):
        found = None if name.startswith(_MEMORY_BACKED) else attributes(root, f"{DIRECTORY}/{name}")
        if found is None:
            continue
        bdi = Bdi(
            name=printable_name(name),
            read_ahead_bytes=found.count("read_ahead_kb", KIB),
            min_ratio_percent=found.count("min_ratio"),
            max_ratio_percent=found.count("max_ratio"),
            max_bytes=found.count("max_bytes"),
            strict_limit=found.flag("strict_limit"),
            read_error=found.read_error,
        )
        if not found.vanished():
            devices[bdi.name] = bdi
    return devices


SOURCE: Source[Mapping[str, Bdi]] = Source(
    name="bdi",
    period_seconds=15,
    period_help="How often write-back limits of backing devices are read.",
    may_hang=False,
    read=read_bdi,
    families=FAMILIES,
    emit=emit,
    unreadable=unreadable,
)
