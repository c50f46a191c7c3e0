"""Backend of MegaRAID controllers: program, command lines, host of each controller. Thin.

Programs are tried in order, Dell's first: perccli lists only Dell's cards, storcli also others'.
The first that lists each host of the driver is used, else the one that lists most of them.
Hazards: without 'nolog' they write 'storcli.log' into the working directory; polling each minute
was observed to cost latency. MegaCli crashes cards of the SAS39xx family: it is run only where none
of these programs is installed, by `megacli_reader`, which excludes such cards.
'/c0' is no host number: its PCI address identifies the driver's host.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import AbsentError, ParseError, without_frames
from iowarden.collectors.program import run_program
from iowarden.collectors.raid.backend import Backend, PartReader, answers_of
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.raid.megaraid import (
    megacli_reader,
    storcli,
    storcli_answer,
    storcli_disks,
    storcli_events,
    storcli_volumes,
)
from iowarden.collectors.raid.pci_hosts import adapters_of
from iowarden.collectors.smart import scsi_hosts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.raid.backend import Handle
    from iowarden.collectors.raid.controller import Controller, ControllerLog


SECONDS = 90.0
"""'show all' of a card with many disks takes long, and of a faulty one longer."""
EVENTS = 512
"""Number of the newest log entries that are listed: all would be tens of thousands."""
_UNKNOWN = lazy_pattern(r"syntax error|not supported|un-?supported", re.IGNORECASE)
"""What a card or a program prints that lacks the requested feature: perccli2 8.4 has no 'show
initialization' and prints 'syntax error, unexpected TOKEN_UNKNOWN'.
"""


@dataclass(frozen=True, slots=True)
class _Family:
    """Cards of one driver.

    Fields: `prefix` begins their names; `adapters`: some may be plain adapters; `older`: programs
    to run where none of `programs` is installed.
    """

    driver: str
    programs: tuple[str, ...]
    prefix: str
    adapters: bool = False
    older: tuple[str, ...] = ()


_FIRST = _Family(
    megacli_reader.DRIVER,
    ("perccli64", "perccli", "storcli64", "storcli"),
    "megaraid c",
    older=megacli_reader.PROGRAMS,
)
_SECOND = _Family("mpi3mr", ("perccli2", "storcli2"), "mpi3mr c", adapters=True)


def _run(root: Machine, program: str, *command: str) -> str:
    """Run a program. Errors: AbsentError, ReadError, ParseError."""
    return run_program(root, SECONDS, program, *command, "nolog")


def _query(root: Machine, program: str, *command: str) -> str:
    """Run a query with JSON output; if the JSON is invalid, return the text.

    Errors: AbsentError, ReadError, ParseError.
    """
    text = _run(root, program, *command, "J")
    try:
        storcli_answer.parse_answers(text)
    except ParseError:
        # Some versions print invalid JSON, for example for a name with a quotation mark.
        return _run(root, program, *command)
    return text


def _find(family: _Family, root: Machine, hosts: Sequence[str]) -> dict[str, Handle | str]:
    """Return the controllers by name, each with its program and number.

    Hosts that no program lists cannot be identified: they are reported as one controller,
    'unlisted'. Errors: AbsentError (no program is installed), ReadError, ParseError.
    """
    errors: list[Exception] = []
    best: dict[str, Handle] = {}
    asked = ""
    lost: list[str] = []

    def told(program: str) -> tuple[storcli.ListedController, ...]:
        return storcli.parse_list(_query(root, program, "show"), lost)

    for program, listed in answers_of(root, family.programs, told, errors):
        asked = asked or program
        if len(listed) > len(best):
            best = {
                f"{family.prefix}{each.number}": (
                    *(program, str(each.number)),
                    *(each.disks, each.volumes, each.not_optimal),
                )
                for each in listed
            }
        if len(best) >= len(hosts):
            break
    if not asked:
        for error in errors:
            if not isinstance(error, AbsentError):
                raise without_frames(error)
        if family.older:
            try:
                return megacli_reader.find(root, hosts)
            except AbsentError as error:
                if type(error) is AbsentError and not root.path:
                    raise
        raise without_frames(errors[-1])  # the program to install is not the older one
    return best | _unlisted(family, root, hosts, best, asked, lost)


def _unlisted(
    family: _Family,
    root: Machine,
    hosts: Sequence[str],
    listed: Mapping[str, Handle],
    program: str,
    lost: Sequence[str],
) -> dict[str, str]:
    """Return the entry for hosts that are not listed; plain adapters need not be listed.

    `lost`: why rows of a list could not be read.

    Errors: DeadlineError, StuckError.
    """
    reason = ""
    if len(listed) >= len(hosts):
        return {}
    if lost:
        reason = f"expected {len(hosts)} controllers, got {len(listed)} ({lost[0]})"
    elif family.adapters:
        if rest := _with_volumes(family, root, hosts, listed):
            reason = f"expected the controllers of {', '.join(rest)}, which have volumes, got none"
    elif listed:
        program = next(iter(listed.values()))[0]
        reason = f"expected {len(hosts)} controllers, as '{family.driver}' has, got {len(listed)}"
    name = f"{family.prefix[:-2]} unlisted"
    return {name: f"'{program} show': {reason}"} if reason else {}


def _with_volumes(
    family: _Family, root: Machine, hosts: Sequence[str], listed: Mapping[str, tuple[str, ...]]
) -> list[str]:
    """Return the hosts that have volumes but are none of the listed controllers.

    Errors: DeadlineError, StuckError.
    """
    shown = {each: scsi_hosts.host_role(root, each, family.driver) for each in hosts}
    rest = [each for each in hosts if shown[each] is scsi_hosts.HostRole.VOLUMES]
    unknown = 0
    for program, number, *_ in listed.values() if rest else ():
        parts = PartReader(
            partial(_query, root, program)
        )  # the reason is reported where it is read
        found = parts.read(storcli.parse_controllers, {}, f"/c{number}", "show", "all")
        told = found.get(int(number))
        host = _host(root, family.driver, told.address) if told else ""
        unknown += not host
        rest = [each for each in rest if each != host]
    return rest if len(rest) > unknown else []


def _state(
    family: _Family, root: Machine, name: str, handle: Handle, former: Controller | None
) -> Controller:
    """Read the state of a controller. Errors: AbsentError, ReadError, ParseError."""
    if handle[0] in family.older:
        return megacli_reader.state(root, name, handle, former)
    program, number, *counts = handle
    parts = PartReader(
        lambda place, *command: _query(root, program, f"/c{number}{place}", *command),
        raises_absent=not root.path,
    )
    unread = parts.read_errors
    before = time.time()
    listed = storcli.parse_controllers(parts.run("", "show", "all"))
    asked_seconds = (before + time.time()) / 2
    told = listed.get(int(number))
    if told is None:
        raise ParseError(f"'{program} /c{number} show all': expected it, got {[*listed]}")
    host = _host(root, family.driver, told.address)
    found = replace(told.controller, name=name, host=host, program=program)
    if told.clock_seconds is not None and not root.path:
        found = replace(found, clock_offset_seconds=told.clock_seconds - asked_seconds)
    places = [
        *(["/eall/sall"] if any(d.slot.startswith("enclosure") for d in found.disks) else []),
        *(["/sall"] if told.bare else []),
    ]
    for place in places:
        details, errors = parts.read(storcli_disks.parse_disks, ((), ()), place, "show", "all")
        unread += errors
        found = storcli_disks.with_details(found, details)
    if any(each.name.startswith("virtual drive") for each in found.arrays):
        found = storcli_volumes.with_volumes(
            found, parts.read(storcli_volumes.parse_volumes, {}, "/vall", "show", "all")
        )
    if any(disk.usage == "foreign" for disk in found.disks):
        foreign = parts.read(storcli_volumes.parse_foreign, (), "/fall", "show")
        found = replace(found, arrays=(*found.arrays, *foreign))
    for subject, place in _running(found, places, running=told.running):
        progress = parts.read(storcli.parse_progress, (), place, "show", subject, harmless=_UNKNOWN)
        found = storcli.with_progress(found, progress)
    question = ("", "show", "patrolread")
    if patrol := parts.read(storcli.parse_patrol_read, None, *question, harmless=_UNKNOWN):
        found = replace(found, sensors=(*found.sensors, patrol))
    unread += found.read_errors or storcli.uncounted(program, found, *counts)
    return replace(found, read_errors=tuple(dict.fromkeys(unread)))


_COPIED = lazy_pattern(r"cpybck|copyback", re.IGNORECASE)
"""A disk that replaces a working one, or a spare."""


def _running(found: Controller, places: Sequence[str], *, running: bool) -> list[tuple[str, str]]:
    """Return the queries for running tasks: at most those with a task that runs."""
    asked: list[tuple[str, str]] = []
    copied = any(_COPIED.search(disk.state.word) for disk in found.disks)
    if any(disk.state.health is ComponentHealth.REBUILDING for disk in found.disks):
        asked += [("rebuild", place) for place in places]
    if copied:
        asked += [("copyback", place) for place in places]
    if running:
        asked += [(subject, "/vall") for subject in ("cc", "bgi", "initialization")]
    return asked


def _host(root: Machine, driver: str, address: str) -> str:
    """Return the SCSI host of a PCI address, '' if the driver has none there."""
    return next(iter(adapters_of(root, driver).get(address, ())), "")


def _log(family: _Family, root: Machine, name: str, handle: Handle) -> ControllerLog:
    """Read the newest log entries. Errors: AbsentError, ReadError, ParseError."""
    if handle[0] in family.older:
        return megacli_reader.log(root, name, handle)
    program, number, *_ = handle
    text = _run(root, program, f"/c{number}", "show", "events", f"type=latest={EVENTS}")
    return storcli_events.parse_events(text, name)


def _hiding(family: _Family, root: Machine, hosts: Sequence[str]) -> list[str]:
    drives = scsi_hosts.HostRole.DRIVES
    return [each for each in hosts if scsi_hosts.host_role(root, each, family.driver) is not drives]


def _backend(vendor: str, family: _Family) -> Backend:
    return Backend(
        vendor,
        (family.driver,),
        (*family.programs, *family.older),
        partial(_find, family),
        partial(_state, family),
        partial(_log, family),
        adapters=family.adapters,
        numbered=True,
        hiding=partial(_hiding, family) if family.adapters else None,
    )


MEGARAID = _backend("megaraid", _FIRST)
MPI3MR = _backend("mpi3mr", _SECOND)
"""MegaRAID 9600 and PERC 12 or later: storcli2 and similar programs, another driver."""
