"""Backend of 3ware's controllers: 'tw_cli', for the drivers 3w-9xxx, 3w-sas and 3w-xxxx. Thin.

The first program that fetches an alarm removes it, so a running 3dm2 may leave the list empty.
After 60 s without an answer the driver resets the card, so the timeout here is not shorter.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from iowarden.collectors.program import run_program
from iowarden.collectors.raid.backend import Backend, PartReader, not_listed
from iowarden.collectors.raid.threeware import alarms, tw_cli

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.raid.backend import Handle
    from iowarden.collectors.raid.controller import Controller, ControllerLog

_SECONDS = 90.0


def _run(root: Machine, *command: str) -> str:
    return run_program(root, _SECONDS, "tw_cli", *command)


def _find(root: Machine, hosts: Sequence[str]) -> dict[str, Handle | str]:
    """Return the controllers, each with its counts of disks and units, and its enclosures.

    Hosts that are not listed cannot be identified: they are reported as one controller, 'unlisted'.
    """
    listed = tw_cli.parse_controllers(_run(root, "show"))
    found: dict[str, Handle | str] = {
        each.name: (
            each.disks,
            each.units,
            "" if each.units_not_optimal is None else str(each.units_not_optimal),
            *map(str, each.enclosures),
        )
        for each in listed
    }
    if found and len(found) < len(hosts):
        found["3ware unlisted"] = not_listed("tw_cli show", hosts, len(found))
    return found


def _state(root: Machine, name: str, handle: Handle, former: Controller | None) -> Controller:
    """Query all at once; if that lists no units and ports, as in old versions, one by one."""
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
            read_errors=(*found.read_errors, *units.read_errors, *ports.read_errors),
        )
    serials = {each.name: each.serial for each in former.arrays} if former else {}
    # A spare has none; its number is that of the unit even so.
    told = PartReader(partial(_run, root))
    for each in found.arrays:
        if each.name not in serials:
            path = f"/{name}/{each.name}"
            serials[each.name] = told.read(tw_cli.parse_unit_serial, "", path, "show", "serial")
    arrays = tuple(replace(each, serial=serials[each.name]) for each in found.arrays)
    found = replace(found, arrays=arrays)
    unread = list(found.read_errors) or list(tw_cli.uncounted("tw_cli show", found, *counts))
    parts = PartReader(told.run, unread, raises_absent=True)
    for number in enclosures:
        parse = partial(tw_cli.parse_controller, name=name)
        if part := parts.read(parse, None, f"/{name}/e{number}", "show", "all"):
            found = replace(found, sensors=(*found.sensors, *part.sensors))
            unread += part.read_errors
    return replace(found, read_errors=tuple(unread))


def _log(root: Machine, name: str, _: Handle) -> ControllerLog:
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
