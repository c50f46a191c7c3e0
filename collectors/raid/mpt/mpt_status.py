"""Parser of 'mpt-status': mirrors of LSI's older adapters (drivers mptsas, mptspi). Pure.

Source: mpt-status(8) and its program, version 1.2.0; kernel lsi/mpi_cnfg.h, RAID volume and RAID
physical disk page 0, for the meaning of the states.
Units: a GB is 2^30 bytes there, rounded down.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.raid import output, states
from iowarden.collectors.raid.controller import (
    ComponentHealth,
    ComponentState,
    ControllerArray,
    PhysicalDisk,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_GB = 1 << 30
_VOLUME_STATES = {
    **states.DEAD,
    "optimal": ComponentHealth.OK,
    "degraded": ComponentHealth.DEGRADED,
}
_DISK_STATES = {
    **states.DEAD,
    "online": ComponentHealth.OK,
    "initializing": ComponentHealth.BUSY,
    "not_compatible": ComponentHealth.FAILED,
    "offline_requested": ComponentHealth.FAILED,
    "failed_requested": ComponentHealth.FAILED,
    "other_offline": ComponentHealth.FAILED,
}
_LEVELS = {"IM": "RAID1", "IME": "RAID1E", "IS": "RAID0"}
_RESYNC = "RESYNC_IN_PROGRESS"
_OUT_OF_SYNC = "OUT_OF_SYNC"
_PREDICTED_ASC = 0x5D
"""'Failure prediction threshold exceeded'. Source: SPC-4, annex D."""

_FOUND = lazy_pattern(r"^Found SCSI id=([0-9]{1,3})\b", re.MULTILINE)
_NONE_FOUND = lazy_pattern(r"Nothing found, contact the author")
_CLASSIC_VOLUME = lazy_pattern(
    r"ioc(?P<ioc>[0-9]{1,3}) vol_id (?P<id>[0-9]{1,3}) type (?P<type>\S{1,20}),"
    r" (?P<disks>[0-9]{1,3}) phy, (?P<size>[0-9]{1,9}) GB,"
    r" state (?P<state>\S{1,40}), flags(?P<flags>.{0,80})"
)
_CLASSIC_DISK = lazy_pattern(
    r"ioc(?P<ioc>[0-9]{1,3}) phy (?P<id>[0-9]{1,3}) scsi_id (?P<scsi>[0-9]{1,3})"
    # The last alternative: blanks were squeezed.
    r" (?:(?P<vendor>.{8}) (?P<model>.{16}) (?P<firmware>.{4})|[^,\n]{1,40}),"
    r" (?P<size>[0-9]{1,9}) GB, state (?P<state>\S{1,40}), flags(?P<flags>.{0,80})"
)
_VOLUME = lazy_pattern(
    r"ioc:(?P<ioc>[0-9]{1,3}) vol_id:(?P<id>[0-9]{1,3}) type:(?P<type>\S{1,20}) raidlevel:\S{0,20}"
    r" num_disks:(?P<disks>[0-9]{1,3}) size\(GB\):(?P<size>[0-9]{1,9}) state: ?(?P<state>\S{1,40})"
    r" flags:(?P<flags>.{0,80})"
)
_DISK = lazy_pattern(
    r"ioc:(?P<ioc>[0-9]{1,3}) (?P<kind>phys|spare)_id:(?P<id>[0-9]{1,3})"
    r" scsi_id:(?P<scsi>[0-9]{1,3}) vendor:(?P<vendor>.{0,40}) product_id:(?P<model>.{0,80})"
    r" revision:(?P<firmware>.{0,40}) size\(GB\):(?P<size>[0-9]{1,9}) state: ?(?P<state>\S{1,40})"
    r" flags:(?P<flags>.{0,80}) sync_state: \S{1,8}"
    r" ASC/ASCQ:0x[0-9a-f]{2}/0x[0-9a-f]{2} SMART ASC/ASCQ:0x(?P<smart>[0-9a-f]{2})/0x[0-9a-f]{2}"
)
_SHORT = lazy_pattern(
    r"(?P<what>log_id|vol_id|phys_id|spare_id)[ :](?P<id>[0-9]{1,3}) (?P<state>\S{1,40})"
)
_SYNC = lazy_pattern(r"scsi_id[: ](?P<id>[0-9]{1,3}) (?P<done>[0-9]{1,3})%")


@dataclass(frozen=True, slots=True)
class Mirrors:
    """Volumes and their disks. `read_errors`: why lines could not be read."""

    arrays: tuple[ControllerArray, ...]
    disks: tuple[PhysicalDisk, ...]
    read_errors: tuple[str, ...] = ()


def parse_ids(text: str) -> tuple[int, ...]:
    """Parse the volume that '-p' found: the first one alone. Errors: ParseError."""
    plain = output.plain(text)
    found = tuple(int(number) for number in _FOUND.findall(plain))
    if not found and not _NONE_FOUND.search(plain):
        raise output.refused("mpt-status -p", "'Found SCSI id=<n>'", text)
    return found


def parse_status(text: str) -> Mirrors:
    """Parse the volumes of mpt-status, in its old format, its new one ('-n'), or its short one.

    An unknown line, fewer disks than a volume has, and an end within a line are `read_errors`.
    Errors: ParseError, if there is no volume, or no '/dev/mptctl'.
    """
    plain = output.plain(text)
    if "/dev/mptctl" in plain:
        raise output.refused("mpt-status", "'/dev/mptctl' (load the module 'mptctl')", plain)
    volumes: list[Mapping[str, str]] = []
    disks: list[Mapping[str, str]] = []
    done: dict[str, float] = {}
    odd: list[str] = []
    for line in plain.splitlines():
        told = line.strip()
        if sync := _SYNC.fullmatch(told):
            done[sync["id"]] = min(int(sync["done"]), 100) / 100
        elif found := _CLASSIC_VOLUME.fullmatch(told) or _VOLUME.fullmatch(told):
            volumes.append(found.groupdict())
        elif found := _CLASSIC_DISK.fullmatch(told) or _DISK.fullmatch(told):
            disks.append(found.groupdict())
        elif found := _SHORT.fullmatch(told):
            whole = found["what"] in {"log_id", "vol_id"}
            (volumes if whole else disks).append(found.groupdict())
        elif told:
            odd.append(output.reason("mpt-status", "'ioc<n> vol_id <n> ... state <state>'", told))
    if not volumes:
        raise output.refused("mpt-status", "a volume", text)
    expected = sum(int(each.get("disks", 0)) for each in volumes)
    listed = sum(not _spare(each) for each in disks)
    unread = (
        *output.summarize(odd),
        *output.unlisted("mpt-status", "disks", str(expected), listed),
        *output.truncated_error("mpt-status", plain),
    )
    # Only while it runs: at other times the rate is 100 %, or a remainder of the last run. No line
    # says which volume a disk or its rate belongs to: of several, neither is determined.
    rates = [done[disk["scsi"]] for disk in disks if disk.get("scsi") in done]
    running = any(_RESYNC in each.get("flags", "") for each in volumes)
    alone = len(volumes) == 1
    progress = min(rates) if alone and running and rates else None
    arrays = tuple(_volume(each, disks if alone else (), progress) for each in volumes)
    parent = arrays[0].name if alone else ""
    return Mirrors(arrays, tuple(_disk(each, parent, running=running) for each in disks), unread)


def _volume(
    fields: Mapping[str, str], disks: Iterable[Mapping[str, str]], done: float | None
) -> ControllerArray:
    state = states.classify(fields["state"], _VOLUME_STATES)
    flags = fields.get("flags", "ENABLED").split()
    odd = [flag for flag in flags if flag not in {"ENABLED", _RESYNC}]
    health = state.health
    if _RESYNC in flags:
        health = {
            ComponentHealth.OK: ComponentHealth.BUSY,
            ComponentHealth.DEGRADED: ComponentHealth.REBUILDING,
        }.get(health, health)
    if health in states.WELL and (odd or "ENABLED" not in flags):
        health = ComponentHealth.ATTENTION
    words = [fields["state"], *(flag for flag in flags if flag != "ENABLED")]
    kind = fields.get("type", "")
    return ControllerArray(
        name=f"volume {int(fields['id'])}",
        state=ComponentState(health, output.printable(" ".join(words)), done),
        level=output.printable(_LEVELS.get(kind, kind)),
        size_bytes=int(fields["size"]) * _GB if "size" in fields else None,
        slots=tuple(_slot(disk) for disk in disks if not _spare(disk)),
    )


def _spare(fields: Mapping[str, str]) -> bool:
    return fields.get("kind") == "spare" or fields.get("what") == "spare_id"


def _slot(fields: Mapping[str, str]) -> str:
    return f"phy {int(fields['id'])}"


def _disk(fields: Mapping[str, str], parent: str, *, running: bool) -> PhysicalDisk:
    state = states.classify(fields["state"], _DISK_STATES)
    flags = [flag for flag in fields.get("flags", "").split() if flag != "NONE"]
    health = state.health
    if health is ComponentHealth.OK and flags:
        odd = [flag for flag in flags if flag != _OUT_OF_SYNC]
        stale = ComponentHealth.REBUILDING if running else ComponentHealth.DEGRADED
        health = stale if _OUT_OF_SYNC in flags else health
        health = ComponentHealth.ATTENTION if odd and health is ComponentHealth.OK else health
    if (
        int(fields.get("smart", "ff"), 16) == _PREDICTED_ASC
        and health is not ComponentHealth.FAILED
    ):
        health = ComponentHealth.FAILING
        flags.append("SMART ASC 0x5d")
    model = f"{fields.get('vendor') or ''} {fields.get('model') or ''}"
    return PhysicalDisk(
        slot=_slot(fields),
        state=ComponentState(health, output.printable(" ".join([fields["state"], *flags]))),
        model=output.printable(" ".join(model.split()).removeprefix("ATA ")),
        firmware=output.printable((fields.get("firmware") or "").strip()),
        size_bytes=int(fields["size"]) * _GB if "size" in fields else None,
        usage="spare" if _spare(fields) else "member",
        array=parent,
    )
