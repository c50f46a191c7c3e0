"""How Areca's controllers are asked: 'cli64', of the driver arcmsr. Thin.

'event clear' is never run; a second program at an Areca loses answers of the first, which the probe
keeps apart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.model import (
    AbsentError,
    LateError,
    MissingError,
    ParseError,
    ReadError,
    StuckError,
)
from iowarden.collectors.program import run_program
from iowarden.collectors.raid import controller
from iowarden.collectors.raid.areca import cli64, event_info
from iowarden.collectors.raid.backend import Backend

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from iowarden.collectors.machine import Root
    from iowarden.collectors.raid.areca.cli64 import Bay
    from iowarden.collectors.raid.controller import Array, Controller, Log, PhysicalDisk

    _T = TypeVar("_T")

_PROGRAMS = ("cli64", "areca-cli", "cli32")
_SECONDS = 60.0


def run_cli64(root: Root, which: tuple[str, ...], *command: str) -> str:
    """Return what Areca's tool printed. Errors: AbsentError, ReadError, ParseError."""
    missing: list[AbsentError] = []
    for program in _PROGRAMS:
        try:
            return run_program(root, _SECONDS, program, *which, *command)
        except AbsentError as error:
            if not isinstance(error, MissingError) and not root.path:
                raise
            missing.append(error)
    raise missing[0]


def _find(_: Root, hosts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Name the controllers. Which host is which 'ctrl=N' is not known where there are several."""
    if len(hosts) == 1:
        return {"areca 1": ()}  # old versions of the tool do not know 'ctrl='
    return {f"areca {number}": (f"ctrl={number}",) for number in range(1, len(hosts) + 1)}


def _state(root: Root, name: str, which: tuple[str, ...], former: Controller | None) -> Controller:
    unread: list[str] = []

    def part(command: tuple[str, ...], parse: Callable[[str], _T], default: _T) -> _T:
        """Return a part, the default where it cannot be read and others may."""
        try:
            return parse(run_cli64(root, which, *command))
        except (LateError, StuckError):
            raise
        except (AbsentError, ReadError, ParseError) as error:
            if isinstance(error, AbsentError) and not root.path:
                raise  # no program, no probe: there is no other part either
            unread.append(str(error))
            return default

    system = part(("sys", "info"), cli64.parse_system, controller.Controller(name, "areca"))
    no_arrays: tuple[Array, ...] = ()
    no_bays: tuple[Bay, ...] = ()
    raid_sets = part(("rsf", "info"), lambda text: cli64.parse_raid_sets(text, unread), no_arrays)
    volumes = part(
        ("vsf", "info"), lambda text: cli64.parse_volumes(text, raid_sets, unread), no_arrays
    )
    bays = part(("disk", "info"), lambda text: cli64.parse_bays(text, raid_sets, unread), no_bays)
    hardware = part(("hw", "info"), cli64.parse_hardware, cli64.Hardware())
    if not bays and not raid_sets:
        raise ReadError("; ".join(unread) or f"'{name}': expected disks or raid sets, got none")
    found = replace(
        system,
        name=name,
        arrays=(*raid_sets, *volumes),
        disks=tuple(
            replace(
                bay.disk,
                temperature_celsius=hardware.disk_temperatures_celsius.get(
                    int(bay.disk.slot.rpartition(" ")[2])
                    if bay.disk.slot.startswith("channel ")
                    else 0
                ),
            )
            for bay in bays
            if bay.disk is not None
        ),
        batteries=hardware.batteries,
        sensors=hardware.sensors,
        unread=tuple(unread),
    )
    if former is not None and _same_disks(found, former):
        return replace(found, disks=_identified(found.disks, former.disks))
    details = {
        bay.disk.slot: detail
        for bay in bays
        if bay.disk is not None and not bay.disk.serial
        if (detail := _detail(root, which, bay.number)) is not None
    }
    known = [replace(each, slot=slot) for slot, each in details.items()]
    return replace(found, disks=_identified(found.disks, known))


def _detail(root: Root, which: tuple[str, ...], number: int) -> PhysicalDisk | None:
    """Return who a disk is. Errors: LateError, StuckError."""
    try:
        return cli64.parse_disk_detail(run_cli64(root, which, "disk", "info", f"drv={number}"))
    except (LateError, StuckError):
        raise
    except (AbsentError, ReadError, ParseError):
        return None  # its slot and model are known all the same


def _same_disks(found: Controller, former: Controller) -> bool:
    """Whether no disk can have taken another's place since: then nobody asks each who it is."""
    told = [
        (
            [(disk.slot, disk.model, disk.usage, disk.state.word) for disk in each.disks],
            [(array.name, array.state.word) for array in each.arrays],
        )
        for each in (found, former)
    ]
    return told[0] == told[1]


def _identified(
    disks: Sequence[PhysicalDisk], known: Sequence[PhysicalDisk]
) -> tuple[PhysicalDisk, ...]:
    by_slot = {disk.slot: disk for disk in known}
    return tuple(
        replace(
            disk,
            serial=disk.serial or by_slot[disk.slot].serial,
            firmware=disk.firmware or by_slot[disk.slot].firmware,
        )
        if disk.slot in by_slot
        else disk
        for disk in disks
    )


def _log(root: Root, name: str, which: tuple[str, ...]) -> Log:
    return event_info.parse_events(run_cli64(root, which, "event", "info"), name)


ARECA = Backend("areca", ("arcmsr",), _PROGRAMS, _find, _state, _log)
