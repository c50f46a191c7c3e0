"""Error counts of ext4 file systems, from '/sys/fs/ext4'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import AbsentError, Family, ParseError, Sample, parse_count
from iowarden.collectors.source import Source
from iowarden.collectors.sysfs import device_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.machine import Machine

DIRECTORY = "/sys/fs/ext4"
_FEATURES = "features"
"""Entries for features of the driver; no file systems."""


@dataclass(frozen=True, slots=True)
class Ext4Error:
    """Location of an error. None: this kernel has no such file. Units: Unix seconds."""

    at_seconds: float | None
    function: str | None
    line: int | None
    inode: int | None
    block: int | None


@dataclass(frozen=True, slots=True)
class Ext4:
    """One mounted ext4 file system, by its block device ('sda1', 'dm-0').

    Source: kernel, ABI/testing/sysfs-fs-ext4. Stored in the superblock until e2fsck clears it; data
    that could not be read do not count. `first` and `last` are None without errors.
    """

    device: str
    errors_total: int | None
    warnings_total: int | None
    first: Ext4Error | None
    last: Ext4Error | None


FAMILIES = (
    Family(
        "iowarden_ext4_errors_total",
        "counter",
        "Errors of a file system since e2fsck last cleared them; they persist over mounts.",
    ),
    Family("iowarden_ext4_warnings_total", "counter", "Warnings of a file system since its mount."),
    Family(
        "iowarden_ext4_first_error_timestamp_seconds", "gauge", "When the first error occurred."
    ),
    Family("iowarden_ext4_last_error_timestamp_seconds", "gauge", "When the last error occurred."),
    Family(
        "iowarden_ext4_last_error",
        "gauge",
        "1; in labels the kernel's function and line, inode and block of the last error.",
    ),
)


def read_ext4(root: Machine) -> dict[str, Ext4]:
    """Read the error counts of every mounted file system, by device.

    One that is unmounted meanwhile is left out. Errors: AbsentError (of the directory), ReadError,
    ParseError.
    """
    found = {}
    for name in mounted_names(root):
        device = device_name(name)
        errors = _number(root, name, "errors_count")
        warnings = _number(root, name, "warning_count")
        if errors is not None or warnings is not None:
            first, last = (_error(root, name, w) if errors else None for w in ("first", "last"))
            found[device] = Ext4(device, errors, warnings, first, last)
    return found


def mounted_names(root: Machine) -> list[str]:
    """Return the entries of mounted file systems; the driver has ext2 and ext3 as well.

    Errors: AbsentError, ReadError.
    """
    return [name for name in root.names(DIRECTORY) if name != _FEATURES]


def _error(root: Machine, name: str, which: str) -> Ext4Error:
    at_seconds = _number(root, name, f"{which}_error_time")
    return Ext4Error(
        at_seconds=None if at_seconds is None else float(at_seconds),
        function=_text(root, name, f"{which}_error_func") or None,
        line=_number(root, name, f"{which}_error_line"),
        inode=_number(root, name, f"{which}_error_ino"),
        block=_number(root, name, f"{which}_error_block"),
    )


def _number(root: Machine, name: str, attribute: str) -> int | None:
    text = _text(root, name, attribute)
    try:
        return None if text is None else parse_count(text)
    except ValueError as error:
        raise ParseError(f"'{DIRECTORY}/{name}/{attribute}': {error}") from error


def _text(root: Machine, name: str, attribute: str) -> str | None:
    try:
        return root.read(f"{DIRECTORY}/{name}/{attribute}").strip()
    except AbsentError:
        return None


def emit(value: Mapping[str, Ext4]) -> list[Sample]:
    """Return the samples of FAMILIES."""
    samples: list[Sample] = []
    for device, ext4 in value.items():
        labels = (("device", device),)
        first, last = ext4.first, ext4.last
        samples += [
            ("iowarden_ext4_" + metric, labels, number)
            for metric, number in (
                ("errors_total", ext4.errors_total),
                ("warnings_total", ext4.warnings_total),
                ("first_error_timestamp_seconds", None if first is None else first.at_seconds),
                ("last_error_timestamp_seconds", None if last is None else last.at_seconds),
            )
            if number is not None
        ]
        if last is not None:
            told = (
                ("block", last.block),
                ("device", device),
                ("function", last.function),
                ("inode", last.inode),
                ("line", last.line),
            )
            info = tuple((key, "" if text is None else str(text)) for key, text in told)
            samples.append(("iowarden_ext4_last_error", info, 1))
    return samples


SOURCE: Source[Mapping[str, Ext4]] = Source(
    name="ext4",
    period_seconds=15,
    period_help="How often the error counts of ext4 are read.",
    may_hang=False,
    read=read_ext4,
    families=FAMILIES,
    emit=emit,
    objects=("device",),
)
