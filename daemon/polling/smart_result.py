"""The result of SMART polling: all discovered drives, plus those configured but missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.smart import identity
from iowarden.collectors.smart.drive import AccessMethod, Disk, Disks, PollResult, ReadStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.collectors.smart.discovery import Discovered
    from iowarden.daemon.polling.smart_discovery import Discovery
    from iowarden.daemon.polling.smart_schedule import PolledTarget

    Methods = Mapping[AccessMethod, PolledTarget]


def disks(
    merged: Mapping[str, Disk],
    methods: Methods,
    discovery: Discovery,
    before: Mapping[str, Disk],
    period_seconds: float,
) -> Disks:
    """Return all disks: those present, and those that are configured but not reported by anything.

    A disk equal to the one in `before` stays the same object, so that callers can cache by it.
    """
    looked = discovery.result
    problems: tuple[str, ...] = (looked.problem,) if looked.problem else ()
    volumes: tuple[str, ...] = ()
    if discovery.hangs:
        problems += ("drive discovery hangs; new drives are not detected",)
    if looked.discovered is not None:
        problems += (*looked.discovered.problems, *_others_in_place(looked.discovered, methods))
        merged = {**_missing(looked.discovered, methods, period_seconds), **merged}
        volumes = tuple(volume.device for volume in looked.discovered.volumes)
    by_key = {key: before[key] if before.get(key) == disk else disk for key, disk in merged.items()}
    return Disks(by_key, problems, discovery.seconds, volumes)


def _others_in_place(found: Discovered, methods: Methods) -> Iterator[str]:
    """Yield an error for each configured drive that was replaced by a different one."""
    for drive, target in found.configured:
        method = None if target is None else methods.get(target)
        got = "" if method is None else identity.serial_number(method.identity.serial)
        if drive.serial and got and got != identity.serial_number(drive.serial):
            yield (
                f"'{drive.path}': expected the drive with the configured serial number"
                f" '{drive.serial}', got '{got}'; if it was replaced, change 'smart.drives'"
            )


def _missing(found: Discovered, methods: Methods, period_seconds: float) -> dict[str, Disk]:
    """Return the configured drives that nothing reports, by their key."""
    serials = {identity.serial_number(method.identity.serial) for method in methods.values()}
    asked = all(
        method.polled.status is not ReadStatus.NOT_POLLED_YET for method in methods.values()
    )
    missing: dict[str, Disk] = {}
    for drive, target in found.configured:
        serial = identity.serial_number(drive.serial)
        # Until all drives have been polled, it may be one of them.
        unseen = serial not in serials and asked if serial else target is None
        if drive.ignore or not unseen:
            continue
        way = AccessMethod(drive.path, drive.kind, slot=drive.slot, origin="configuration")
        reason = "it is configured, but neither kernel, smartctl nor a controller reports it"
        key = serial or drive.slot or str(way)
        missing[key] = Disk(
            key, PollResult(way, ReadStatus.MISSING, reason, period_seconds=period_seconds)
        )
    return missing
