"""How 3ware's controllers are asked: 'tw_cli', of the drivers 3w-9xxx, 3w-sas and 3w-xxxx. Thin.

An alarm is taken by whoever fetches it first, so a running 3dm2 may leave the list empty; after
60 s in vain the driver resets the card, so nobody gives up earlier.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.model import AbsentError, LateError, ParseError, ReadError, StuckError
from iowarden.collectors.program import run_program
from iowarden.collectors.raid.backend import Backend
from iowarden.collectors.raid.threeware import alarms, tw_cli

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iowarden.collectors.machine import Root
    from iowarden.collectors.raid.controller import Controller, Log

_SECONDS = 90.0


def _run(root: Root, *command: str) -> str:
    return run_program(root, _SECONDS, "tw_cli", *command)


def _find(root: Root, hosts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Name the controllers, each with its counts of disks and units, and its enclosures.

    Of hosts that are not listed nobody knows which they are: they are one more, 'unlisted'.
    """
    listed = tw_cli.parse_controllers(_run(root, "show"))
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


def _state(root: Root, name: str, handle: tuple[str, ...], former: Controller | None) -> Controller:
    """Ask for all at once; where that has no units and ports, as with old versions, one by one."""
    if len(handle) == 1:
        raise ReadError(handle[0])  # why
    *counts, enclosures = *handle[:3], handle[3:]
    found = tw_cli.parse_controller(_run(root, f"/{name}", "show", "all"), name)
    if not found.arrays and not found.disks:
        units, ports = (
            tw_cli.parse_controller(_run(root, "info", name, what), name)
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
            text = _run(root, f"/{name}/e{number}", "show", "all")
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
        return tw_cli.parse_unit_serial(_run(root, f"/{name}/{unit}", "show", "serial"))
    except (LateError, StuckError):
        raise
    except (AbsentError, ReadError, ParseError):
        return ""  # a spare; the unit's number tells where it is shown all the same


def _log(root: Root, name: str, handle: tuple[str, ...]) -> Log:
    if len(handle) == 1:
        raise ReadError(handle[0])  # why
    return alarms.parse_alarms(_run(root, f"/{name}", "show", "alarms"), name)


THREEWARE = Backend(
    "3ware",
    ("3w-9xxx", "3w-sas", "3w-xxxx"),
    ("tw_cli",),
    _find,
    _state,
    _log,
    alarms.RING_ENTRIES,
)
