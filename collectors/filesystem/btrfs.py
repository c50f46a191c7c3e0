"""Error counts of btrfs devices, from '/sys/fs/btrfs'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import AbsentError, Metric, ParseError, Sample, describe, parse_count
from iowarden.collectors.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.collectors.machine import Machine

DIRECTORY = "/sys/fs/btrfs"


@dataclass(frozen=True, slots=True)
class BtrfsDevice:
    """One device of a file system. None: not reported.

    Source: kernel, fs/btrfs/sysfs.c (devinfo/<id>/error_stats). The counts are stored on the device
    until 'btrfs device stats --reset'.
    """

    filesystem: str
    """Its UUID."""
    label: str
    identifier: int
    profiles: tuple[str, ...]
    """Of its file system: 'data raid1', 'metadata raid1c3' ...; more than one of a kind during a
    conversion. Source: allocation/<kind>/<profile>, which exists while it has a block group.
    """
    missing: Annotated[bool | None, Metric("gauge", "1 while the device is missing.")]
    write_errors_total: Annotated[int | None, Metric("counter", "Writes that failed.")]
    read_errors_total: Annotated[int | None, Metric("counter", "Reads that failed.")]
    flush_errors_total: Annotated[int | None, Metric("counter", "Cache flushes that failed.")]
    corruption_errors_total: Annotated[
        int | None, Metric("counter", "Blocks whose checksum was wrong.")
    ]
    generation_errors_total: Annotated[
        int | None, Metric("counter", "Blocks that were older than they should be.")
    ]


FAMILIES, _emit = describe(BtrfsDevice, "iowarden_btrfs_device_")
_UUID = lazy_pattern(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PROFILE = lazy_pattern(r"single|dup|raid\d{1,2}(?:c\d)?")
_COUNTS = ("write_errs", "read_errs", "flush_errs", "corruption_errs", "generation_errs")


def parse_error_stats(text: str) -> tuple[int | None, ...]:
    """Parse write, read, flush, corruption and generation errors.

    None: no such line; all of them while the device's counts have not been read ('invalid').
    """
    if text.strip() == "invalid":
        return (None,) * len(_COUNTS)
    counts: dict[str, int] = {}
    for line in text.splitlines():
        name, _, number = line.partition(" ")
        try:
            counts[name] = parse_count(number)
        except ValueError as error:
            raise ParseError(f"'error_stats' of btrfs: {error} in {line[:80]!r}") from error
    return tuple(map(counts.get, _COUNTS))


def read_btrfs(root: Machine) -> tuple[BtrfsDevice, ...]:
    """Read the counts of every device of every mounted file system.

    Errors: AbsentError (of the directory), ReadError, ParseError.
    """
    devices: list[BtrfsDevice] = []
    for name in root.names(DIRECTORY):
        if not _UUID.fullmatch(name):
            continue
        try:
            entries = root.names(f"{DIRECTORY}/{name}/devinfo")
        except AbsentError:  # before 5.6, or unmounted meanwhile
            continue
        label = _text(root, f"{DIRECTORY}/{name}/label") or ""
        profiles = _profiles(root, f"{DIRECTORY}/{name}/allocation")
        for entry in entries:
            path = f"{DIRECTORY}/{name}/devinfo/{entry}/"
            missing, stats = _text(root, path + "missing"), _text(root, path + "error_stats")
            if entry.isdecimal() and not (missing is None and stats is None):
                devices.append(
                    BtrfsDevice(
                        name,
                        label,
                        int(entry),
                        profiles,
                        None if missing is None else missing == "1",
                        *parse_error_stats("invalid" if stats is None else stats),
                    )
                )
    return tuple(devices)


def _profiles(root: Machine, path: str) -> tuple[str, ...]:
    kinds = (entry for entry in root.try_names(path) or () if not entry.startswith("global"))
    return tuple(
        f"{kind} {entry}"
        for kind in sorted(kinds)
        for entry in sorted(root.try_names(f"{path}/{kind}") or ())
        if _PROFILE.fullmatch(entry)
    )


def _text(root: Machine, path: str) -> str | None:
    try:
        return root.read(path).strip()
    except AbsentError:
        return None


def emit(value: Iterable[BtrfsDevice]) -> list[Sample]:
    """Return the samples of FAMILIES."""
    return [
        sample
        for device in value
        for sample in _emit(
            device,
            (
                ("fsid", device.filesystem),
                ("devid", str(device.identifier)),
                ("label", device.label),
            ),
        )
    ]


def filesystems(value: Iterable[BtrfsDevice]) -> frozenset[str]:
    """Return the UUIDs of the mounted file systems."""
    return frozenset(device.filesystem for device in value)


SOURCE: Source[tuple[BtrfsDevice, ...]] = Source(
    name="btrfs",
    period_seconds=15,
    period_help="How often the error counts of btrfs are read.",
    may_hang=False,
    read=read_btrfs,
    families=FAMILIES,
    emit=emit,
    objects=("fsid",),
    lists=("fsid", filesystems),
)
