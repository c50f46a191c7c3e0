"""The last scrub of each mounted btrfs, from 'btrfs scrub status -d'.

Source: btrfs-scrub(8) 6.2, tried; btrfs-progs, cmds/scrub.c (_print_scrub_ss: of a resumed scrub it
prints when that was, and how long all its parts took; it is stored in /var/lib/btrfs). Limits: a
scrub reads used blocks, not free space; one that runs or was interrupted replaces the record of the
one before; times are local ones without a zone.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.filesystem.btrfs_owner import complaint
from iowarden.collectors.filesystem.mountinfo import read_mountinfo, storage
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import AbsentError, Family, ParseError, ReadError, Sample
from iowarden.collectors.program import run_program
from iowarden.collectors.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.model import Labels

DEADLINE_SECONDS = 60.0
_UUID = lazy_pattern(r"^UUID:\s+([0-9a-f-]{36})$", re.MULTILINE)
_DEVICE = lazy_pattern(r"^[Ss]crub device .* \(id \d+\).*$", re.MULTILINE)
_FIELD = lazy_pattern(r"^(Scrub started|Scrub resumed|Status|Duration):\s+(.+)$", re.MULTILINE)
_NEVER = "no stats available"


FAMILIES = (
    Family(
        "iowarden_btrfs_scrub_complete",
        "gauge",
        "1 when the last scrub of a mounted btrfs was finished on all of its devices; 0 when it"
        " runs, was interrupted, or there was none.",
    ),
)


@dataclass(frozen=True, slots=True)
class BtrfsScrub:
    """The last scrub of a file system.

    Fields: `ended` is the local time at which the first of its devices was finished, or its scrub
    resumed; None: it was not finished on each of them, or `never` begun; `reason` is why it could
    not be read.
    """

    uuid: str = ""
    ended: datetime | None = None
    never: bool = False
    reason: str = ""


def parse_scrub(text: str) -> BtrfsScrub:
    """Parse 'btrfs scrub status -d'. Errors: ParseError."""
    uuid = _UUID.search(text)
    _, *devices = _DEVICE.split(text)
    if uuid is None or not devices:
        raise ParseError(
            "'btrfs scrub status': expected 'UUID:' and a part for each device, got"
            f" {complaint(text)[:120]!r}"
        )
    if all(_NEVER in device for device in devices):
        return BtrfsScrub(uuid[1], never=True)
    found = [dict(_FIELD.findall(device)) for device in devices]
    if any(fields.get("Status") != "finished" for fields in found):
        return BtrfsScrub(uuid[1])
    return BtrfsScrub(uuid[1], min(map(_ended, found)))


def _ended(fields: Mapping[str, str]) -> datetime:
    resumed = fields.get("Scrub resumed", "")
    began, duration = resumed or fields.get("Scrub started", ""), fields.get("Duration", "")
    try:
        hours, minutes, seconds = map(int, duration.split(":"))
        # Local time, without a zone: whoever has the host's zone applies it.
        start = datetime.strptime(began, "%a %b %d %H:%M:%S %Y")  # noqa: DTZ007
        took = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return start if resumed else start + took
    except (ValueError, OverflowError):
        raise ParseError(
            "'btrfs scrub status': expected a date such as 'Mon Nov 23 16:00:29 2026' and a"
            f" duration such as '0:12:34', got {began[:80]!r} and {duration[:80]!r}"
        ) from None


def read_scrubs(
    root: Machine, enter: Callable[[Hashable], str] = lambda _: ""
) -> dict[str, BtrfsScrub]:
    """Read the last scrub of every mounted btrfs, by its mount point.

    `enter` is called for each before it is read; it returns '', or why it is skipped. Errors:
    AbsentError (none, no probe, no program), ReadError and ParseError (of the mounts).
    """
    found = {}
    for mount in storage(read_mountinfo(root)):
        if mount.kind != "btrfs":
            continue
        words = ("btrfs", "scrub", "status", "-d", mount.mount_point)
        reason = enter(mount.mount_point)
        try:
            scrub = BtrfsScrub(reason=reason)
            if not reason:
                scrub = parse_scrub(run_program(root, DEADLINE_SECONDS, *words))
        except (ReadError, ParseError) as error:
            scrub = BtrfsScrub(reason=str(error))
        found[mount.mount_point] = scrub
    if not found:
        raise AbsentError("'/proc/1/mountinfo': no btrfs")
    return found


def emit(value: Mapping[str, BtrfsScrub]) -> list[Sample]:
    """Return the samples of FAMILIES."""
    return [
        (FAMILIES[0].name, (("mountpoint", mount_point),), float(each.ended is not None))
        for mount_point, each in value.items()
        if not each.reason
    ]


def unreadable(value: Mapping[str, BtrfsScrub]) -> Iterator[tuple[Labels, str]]:
    """Yield the file systems whose last scrub could not be read, and why."""
    for mount_point, each in value.items():
        if each.reason:
            yield (("mountpoint", mount_point),), each.reason


SOURCE: Source[Mapping[str, BtrfsScrub]] = Source(
    name="btrfs_scrub",
    period_seconds=21_600,
    may_hang=True,
    read=read_scrubs,
    families=FAMILIES,
    emit=emit,
    unreadable=unreadable,
    parts=read_scrubs,
)
