"""How the controllers of each maker are read: which command lines, in which order. Thin.

Areca: 'event clear' is never run; a second program at an Areca loses answers of the first, which
the probe keeps apart. 3ware: an alarm is taken by whoever fetches it first, so a running 3dm2 may
leave the list empty; after 60 s in vain the driver resets the card, so nobody gives up earlier.
"""

from __future__ import annotations

import time
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
from iowarden.collectors.raid.adaptec.aacraid import ADAPTEC
from iowarden.collectors.raid.areca import cli64, event_info
from iowarden.collectors.raid.backend import Backend
from iowarden.collectors.raid.controller_poller import Poller
from iowarden.collectors.raid.megaraid.megaraid_sas import MEGARAID, MPI3MR
from iowarden.collectors.raid.mpt import mptsas
from iowarden.collectors.raid.smartarray.hpsa import HP
from iowarden.collectors.raid.threeware import alarms, tw_cli

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from iowarden.collectors.machine import Root
    from iowarden.collectors.raid.areca.cli64 import Bay
    from iowarden.collectors.raid.controller import (
        Array,
        Controller,
        Controllers,
        Log,
        PhysicalDisk,
    )

    _T = TypeVar("_T")

_ARECA_PROGRAMS = ("cli64", "areca-cli", "cli32")
_ARECA_SECONDS = 60.0
_THREEWARE_SECONDS = 90.0


def run_areca(root: Root, which: tuple[str, ...], *command: str) -> str:
    """Return what Areca's tool printed. Errors: AbsentError, ReadError, ParseError."""
    missing: list[AbsentError] = []
    for program in _ARECA_PROGRAMS:
        try:
            return run_program(root, _ARECA_SECONDS, program, *which, *command)
        except AbsentError as error:
            if not isinstance(error, MissingError) and not root.path:
                raise
            missing.append(error)
    raise missing[0]


def _areca_find(_: Root, hosts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Name the controllers. Which host is which 'ctrl=N' is not known where there are several."""
    if len(hosts) == 1:
        return {"areca 1": ()}  # old versions of the tool do not know 'ctrl='
    return {f"areca {number}": (f"ctrl={number}",) for number in range(1, len(hosts) + 1)}


def _areca_state(
    root: Root, name: str, which: tuple[str, ...], former: Controller | None
) -> Controller:
    unread: list[str] = []

    def part(command: tuple[str, ...], parse: Callable[[str], _T], default: _T) -> _T:
        """Return a part, the default where it cannot be read and others may."""
        try:
            return parse(run_areca(root, which, *command))
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
        if (detail := _areca_detail(root, which, bay.number)) is not None
    }
    known = [replace(each, slot=slot) for slot, each in details.items()]
    return replace(found, disks=_identified(found.disks, known))


def _areca_detail(root: Root, which: tuple[str, ...], number: int) -> PhysicalDisk | None:
    """Return who a disk is. Errors: LateError, StuckError."""
    try:
        return cli64.parse_disk_detail(run_areca(root, which, "disk", "info", f"drv={number}"))
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


def _areca_log(root: Root, name: str, which: tuple[str, ...]) -> Log:
    return event_info.parse_events(run_areca(root, which, "event", "info"), name)


def _threeware(root: Root, *command: str) -> str:
    return run_program(root, _THREEWARE_SECONDS, "tw_cli", *command)


def _threeware_find(root: Root, hosts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Name the controllers, each with its counts of disks and units, and its enclosures.

    Of hosts that are not listed nobody knows which they are: they are one more, 'unlisted'.
    """
    listed = tw_cli.parse_controllers(_threeware(root, "show"))
    found = {
        each.name: (
            each.disks,
            each.units,
            "" if each.units_not_optimal is None else str(each.units_not_optimal),
            *map(str, each.enclosures),
        )
        for each in listed
    }
    if found and len(found) < len(hosts):
        expected = f"expected {len(hosts)} controllers ({', '.join(hosts)}), got {len(found)}"
        found["3ware unlisted"] = (f"'tw_cli show': {expected}",)
    return found


def _threeware_state(
    root: Root, name: str, handle: tuple[str, ...], former: Controller | None
) -> Controller:
    """Ask for all at once; where that has no units and ports, as with old versions, one by one."""
    if len(handle) == 1:
        raise ReadError(handle[0])  # why
    *counts, enclosures = *handle[:3], handle[3:]
    found = tw_cli.parse_controller(_threeware(root, f"/{name}", "show", "all"), name)
    if not found.arrays and not found.disks:
        units, ports = (
            tw_cli.parse_controller(_threeware(root, "info", name, what), name)
            for what in ("unitstatus", "drivestatus")
        )
        found = replace(
            found,
            arrays=units.arrays,
            disks=ports.disks,
            unread=(*found.unread, *units.unread, *ports.unread),
        )
    serials = {each.name: each.serial for each in former.arrays} if former else {}
    for each in found.arrays:
        if each.name not in serials:
            serials[each.name] = _unit_serial(root, name, each.name)
    arrays = tuple(replace(each, serial=serials[each.name]) for each in found.arrays)
    found = replace(found, arrays=arrays)
    unread = list(found.unread) or list(tw_cli.uncounted("tw_cli show", found, *counts))
    for number in enclosures:
        try:
            text = _threeware(root, f"/{name}/e{number}", "show", "all")
            part = tw_cli.parse_controller(text, name)
            found = replace(found, sensors=(*found.sensors, *part.sensors))
            unread += part.unread
        except (LateError, StuckError):
            raise
        except (ReadError, ParseError) as error:
            unread.append(str(error))
    return replace(found, unread=tuple(unread))


def _unit_serial(root: Root, name: str, unit: str) -> str:
    """Return a unit's serial number, '' where it has none. Errors: LateError, StuckError."""
    try:
        return tw_cli.parse_unit_serial(_threeware(root, f"/{name}/{unit}", "show", "serial"))
    except (LateError, StuckError):
        raise
    except (AbsentError, ReadError, ParseError):
        return ""  # a spare; the unit's number tells where it is shown all the same


def _threeware_log(root: Root, name: str, handle: tuple[str, ...]) -> Log:
    if len(handle) == 1:
        raise ReadError(handle[0])  # why
    return alarms.parse_alarms(_threeware(root, f"/{name}", "show", "alarms"), name)


ARECA = Backend("areca", ("arcmsr",), _ARECA_PROGRAMS, _areca_find, _areca_state, _areca_log)
THREEWARE = Backend(
    "3ware",
    ("3w-9xxx", "3w-sas", "3w-xxxx"),
    ("tw_cli",),
    _threeware_find,
    _threeware_state,
    _threeware_log,
    alarms.RING_ENTRIES,
)
BACKENDS = (ARECA, THREEWARE, MEGARAID, MPI3MR, ADAPTEC, HP, *mptsas.BACKENDS)


def read_controllers(root: Root) -> Controllers:
    """Read once, for who keeps nothing. Errors: AbsentError, ReadError."""
    return Poller(BACKENDS, time.monotonic).read(root)
