"""Backend of MegaRAID controllers where only MegaCli is installed: its command lines. Thin.

Hazards: with the SAS39xx family (Aero in the driver) any MegaCli was observed to crash the firmware
and to freeze all I/O for minutes. MegaCli is never run there, nor on a host that has such a card
next to another one, because it scans all cards. Without '-NoLog' it writes 'MegaSAS.log' into its
working directory. Each query costs the card time.
Source: kernel drivers/scsi/megaraid/megaraid_sas.h for the numbers; reports of users.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.model import ParseError, ReadError
from iowarden.collectors.program import run_program
from iowarden.collectors.raid import output, states
from iowarden.collectors.raid.backend import PartReader, first_installed
from iowarden.collectors.raid.controller import Battery, ComponentHealth, ComponentState, Controller
from iowarden.collectors.raid.megaraid import megacli
from iowarden.collectors.raid.pci_hosts import adapters_of
from iowarden.collectors.smart import scsi_hosts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeVar

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.raid.backend import Handle
    from iowarden.collectors.raid.controller import ControllerArray, ControllerLog, PhysicalDisk

    _T = TypeVar("_T")

PROGRAMS = ("MegaCli64", "MegaCli", "megacli")
DRIVER = "megaraid_sas"
EVENTS = 512
"""Number of the newest log entries that are listed."""
_SECONDS = 60.0
_AERO = frozenset(f"10e{number}" for number in range(8))
"""PCI device numbers of cards that MegaCli crashes."""


def find(root: Machine, hosts: Sequence[str]) -> dict[str, Handle | str]:
    """Return the controllers as 'megaraid c0', each with the program, its number and its host.

    Hosts that are not listed cannot be identified: they are reported as one controller, 'unlisted'.
    Errors: AbsentError, ReadError (for example: MegaCli must not be run here), ParseError.
    """
    at = adapters_of(root, DRIVER)

    def listed(program: str) -> dict[str, Handle | str]:
        if not root.path:
            _refuse_aero(root, at)
        found: dict[str, Handle | str] = {
            f"megaraid c{number}": (program, str(number), next(iter(at.get(address, ())), ""))
            for number, address in megacli.parse_addresses(
                _run(root, program, "-AdpGetPciInfo", "-aALL")
            ).items()
        }
        if len(found) < len(hosts):
            expected = f"'{program} -AdpGetPciInfo': expected {len(hosts)} controllers"
            found["megaraid unlisted"] = f"{expected}, got {len(found)}"
        return found

    return first_installed(root, PROGRAMS, listed)


def _refuse_aero(root: Machine, addresses: Iterable[str]) -> None:
    """Raise ReadError if a card is one that MegaCli crashes, or is of an unknown kind."""
    for address in addresses:
        path = f"{scsi_hosts.PCI_DRIVERS}/{DRIVER}/{address}/device"
        told = scsi_hosts.text_of(root, path)
        if not re.fullmatch(r"0x[0-9a-f]{4}", told):
            raise ReadError(f"'{path}': expected '0x<4 digits>', got {told!r:.20}; MegaCli not run")
        if told[2:] in _AERO:
            raise ReadError(
                f"'MegaCli': the controller at {address} (PCI device {told}) may crash when"
                " MegaCli queries it, so MegaCli is not run; install storcli 7 or later"
            )


def state(root: Machine, name: str, handle: Handle, _: Controller | None) -> Controller:
    """Read the state of a controller. Errors: AbsentError, ReadError, ParseError."""
    program, number, host = handle
    parts = PartReader(
        lambda *command: _run(root, program, *command, f"-a{number}"),
        raises_absent=not root.path,
    )
    unread = parts.read_errors

    def listed(parse: Callable[[str], _T]) -> Callable[[str], _T]:
        """Return a reader of a list that also reports two entries below one heading."""

        def read(text: str) -> _T:
            unread.extend(megacli.merged(text))
            return parse(text)

        return read

    def own(text: str) -> megacli.Adapter:
        found = megacli.parse_adapters(text)
        if int(number) not in found:
            raise ParseError(f"'MegaCli -AdpAllInfo': expected adapter {number}, got {[*found]}")
        return found[int(number)]

    before = time.time()
    adapter = parts.read(own, megacli.Adapter(Controller(name, "megaraid")), "-AdpAllInfo")
    asked_seconds = (before + time.time()) / 2
    offset = None
    if adapter.clock_seconds is not None and not root.path:
        offset = adapter.clock_seconds - asked_seconds
    arrays, members = parts.read(listed(_volumes), ((), ()), "-LdPdInfo")
    disks = parts.read(listed(megacli.parse_disks), (), "-PDList")
    disks, odd = states.agreed(disks, members, ("MegaCli -PDList", "MegaCli -LdPdInfo"))
    unread += output.summarize(odd)
    if not arrays and not disks and unread:
        raise ReadError("; ".join(unread))
    unread += megacli.uncounted(adapter, arrays, disks)
    # Without a battery, a forced write cache is not protected.
    battery: Battery | None = Battery("battery", ComponentState(ComponentHealth.ABSENT, "Absent"))
    if adapter.battery is not False:
        battery = parts.read(megacli.parse_battery, None, "-AdpBbuCmd", "-GetBbuStatus")
    parents = {slot: each.name for each in reversed(arrays) for slot in each.slots}
    rebuilt: dict[str, float] = {}
    for disk in disks:
        if disk.state.health is ComponentHealth.REBUILDING and disk.state.done_ratio is None:
            which = ("-PDRbld", "-ShowProg", "-PhysDrv", f"[{_place(disk.slot)}]")
            rebuilt |= parts.read(megacli.parse_rebuilds, {}, *which)
    return replace(
        adapter.controller,
        name=name,
        host=host,
        arrays=arrays,
        disks=tuple(
            replace(
                disk,
                array=parents.get(disk.slot, ""),
                state=replace(disk.state, done_ratio=rebuilt.get(disk.slot, disk.state.done_ratio)),
            )
            for disk in disks
        ),
        batteries=(battery,) if battery else (),
        read_errors=tuple(unread),
        clock_offset_seconds=offset,
        program=program,
    )


def _volumes(text: str) -> tuple[tuple[ControllerArray, ...], tuple[PhysicalDisk, ...]]:
    return megacli.parse_volumes(text), megacli.parse_members(text)


def _place(slot: str) -> str:
    """Return '252:3' for 'enclosure 252 slot 3', ':3' without an enclosure."""
    numbers = re.findall(r"[0-9]{1,5}", slot)
    return ":".join(numbers[:2]) if slot.startswith("enclosure") else f":{numbers[0]}"


def _run(root: Machine, program: str, *command: str) -> str:
    """Run MegaCli. Errors: AbsentError, ReadError, ParseError."""
    return run_program(root, _SECONDS, program, *command, "-NoLog")


def log(root: Machine, name: str, handle: Handle) -> ControllerLog:
    """Read the newest events. Errors: AbsentError, ReadError, ParseError."""
    program, number, _ = handle
    latest = ("-AdpEventLog", "-GetLatest", str(EVENTS), "-f", "/dev/stdout")
    return megacli.parse_log(_run(root, program, *latest, f"-a{number}"), name)
