"""Inventory of all physical disks from every data source, and the monitoring state of each. Pure.

The kernel, controllers, enclosures, the configuration and stored state list the disks; the result
of the poller shows whether each is read. A disk that is not read is never left out. Units: seconds
of the program's clock.
"""

from __future__ import annotations

import enum
import re
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.block.enclosure import place
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.smart.drive import Protocol, ReadStatus
from iowarden.rules.signals import guards
from iowarden.rules.topology import device_identity
from iowarden.rules.topology.device_identity import Identity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.block.enclosure import EnclosureSlot
    from iowarden.collectors.smart.drive import AccessMethod, Disk, Disks, Drive, PollResult
    from iowarden.rules.topology.device_changes import VanishedDisk

_WITHOUT_SMART = re.compile(r"(vd|xvd|nbd|rbd|pmem|dasd|mmcblk)[a-z0-9]+.*")
"""Devices of drivers, by the names that these give them, that pass on no SMART data. That is a fact
of the driver and no guard: a virtual disk at a SCSI adapter is polled like any other.
"""
_SELF_TEST = re.compile(r"(?!.*(?:selective|log))self-?test", re.IGNORECASE)
"""The relevant commands that a drive may refuse; most drives lack some log."""
_NVME = re.compile(r"nvme(\d+)(?:c(\d+))?n\d+")
MAX_NAMED = 24
_UNANSWERED = frozenset({ReadStatus.UNREADABLE, ReadStatus.NO_PASS_THROUGH})
"""For a removable medium these are not a fault: there is nothing to read."""
_QUIET = frozenset({ReadStatus.NO_SMART, ReadStatus.LUN})
"""There are no SMART data to read, so nothing is missing."""
_READABLE = frozenset({ReadStatus.READ, ReadStatus.ASLEEP})
_PASSING = frozenset(
    {
        ReadStatus.TIMEOUT,
        ReadStatus.UNREADABLE,
        ReadStatus.HUNG,
        ReadStatus.UNPARSED,
        ReadStatus.NOT_POLLED_YET,
    }
)
"""These results may be temporary: the last valid reading still counts."""

STATUS_TEXTS = {
    ReadStatus.READ: "readable",
    ReadStatus.ASLEEP: "asleep",
    ReadStatus.NO_PASS_THROUGH: "hidden by a controller or bridge",
    ReadStatus.NO_SMART: "virtual or removable",
    ReadStatus.LUN: "LUN of a storage array",
    ReadStatus.HUNG: "hung",
    ReadStatus.TIMEOUT: "timed out",
    ReadStatus.IMPLAUSIBLE: "implausible",
    ReadStatus.PERMISSION: "permission denied",
    ReadStatus.UNPARSED: "unparsed",
    ReadStatus.UNREADABLE: "read error",
    ReadStatus.NO_SMARTCTL: "without smartctl",
    ReadStatus.NO_PROBE: "without the probe",
    ReadStatus.NOT_POLLED_YET: "not polled yet",
    ReadStatus.MISSING: "missing",
}
REMEDIES = {
    ReadStatus.NO_PASS_THROUGH: (
        "set the type of the drive in the configuration (smart.drives), as for smartctl"
        " ('-d areca,N', '-d megaraid,N', '-d 3ware,N', '-d cciss,N', '-d sat');"
        " else its SMART data are unreadable"
    ),
    ReadStatus.HUNG: "see what hangs: iowarden status; polled again when the kernel call returns",
    ReadStatus.TIMEOUT: "run smartctl; a bridge that hangs needs fewer options in smart.drives",
    ReadStatus.IMPLAUSIBLE: "set the type of the real disk in the configuration (smart.drives)",
    ReadStatus.PERMISSION: "run the probe as root: systemctl status iowarden-probe.socket",
    ReadStatus.UNPARSED: "please report it: iowarden unparsed list",
    ReadStatus.UNREADABLE: "run smartctl; then check cable, bay, and the type in smart.drives",
    ReadStatus.NO_SMARTCTL: "install smartmontools 7.0 or newer",
    ReadStatus.NO_PROBE: "systemctl status iowarden-probe.socket iowarden-probe.service",
    ReadStatus.MISSING: "was it removed? iowarden disk forget; else check cable, bay and power",
}
"""Recommended action for each."""


@dataclass(frozen=True, slots=True)
class SeenDisk:
    """A disk that was read at least once. Stored over restarts.

    `device` is its block device, '' behind a controller; `missing_seconds` since when it is
    missing.
    """

    identity: Identity
    device: str
    access_method: str
    read_seconds: float
    period_seconds: float
    seen_seconds: float
    missing_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class InventoryDisk:
    """A disk, the data sources that list it, and its monitoring state.

    Fields: `disk` is the label of its series; `expected_by` are 'kernel', 'scan', 'controller',
    'enclosure', 'configuration', and 'memory' if only stored state lists it; `access_method` is as
    shown to users ('areca,2 at /dev/sg3', with the program if that is not smartctl), `read_seconds`
    the last valid reading; `physical`: it could be read, so that it counts when it is not.
    """

    disk: str
    identity: Identity
    device: str
    expected_by: tuple[str, ...]
    status: ReadStatus
    reason: str
    access_method: str
    slot: str
    read_seconds: float | None
    physical: bool
    polled: PollResult | None = None
    leaves: tuple[str, ...] = ()
    """All block devices of this disk: paths, namespaces."""

    @property
    def is_monitored(self) -> bool:
        """Whether its data are current: it is read, asleep, or one or two polls are missing."""
        if self.status is ReadStatus.ASLEEP:
            return self.read_seconds is not None
        return self.status is ReadStatus.READ or (
            self.status in _PASSING and self.drive is not None
        )

    @property
    def drive(self) -> Drive | None:
        """Return its last data while they are valid."""
        return None if self.polled is None else self.polled.drive


def inventory(
    disks: Disks | None,
    topology: Topology | None,
    slots: Sequence[EnclosureSlot] = (),
    seen: Mapping[str, SeenDisk] | None = None,
    implausible: Mapping[str, str] | None = None,
    absent: str = "",
) -> dict[str, InventoryDisk]:
    """Return all disks by their label, in the order in which users expect them.

    `implausible` are those whose data are implausible, with the reason; `absent`: why there is no
    poller.
    """
    index = _Leaves(topology)
    found: dict[str, InventoryDisk] = {}
    for key, disk in (disks.by_key if disks is not None else {}).items():
        found[key] = _polled_disk(disk, index, topology, (implausible or {}).get(key))
    made = disks is not None and disks.discovered_seconds is not None
    volumes = disks.volumes if disks is not None else ()
    for name in index.left():
        if name in volumes:
            index.take_all(name)
            continue
        covered = _not_polled(name, index, made=made, absent=absent)
        key = covered.disk if covered.disk not in found else f"{covered.disk} {name}"
        found[key] = replace(covered, disk=key)
    found = _with_slots(found, slots)
    identities = {covered.identity.key for covered in found.values()}
    for key, known in (seen or {}).items():
        if key in found:
            own = found[key]
            # A disk that was read once can be read, whatever its name is.
            physical = own.physical or own.status is ReadStatus.NO_SMART
            read = known.read_seconds if own.read_seconds is None else own.read_seconds
            if (physical, read) != (own.physical, own.read_seconds):
                found[key] = replace(own, physical=physical, read_seconds=read)
        elif known.identity.key not in identities and not _is_ambiguous(key, disks):
            found[key] = _is_overdue(key, known)
    return dict(sorted(found.items(), key=lambda item: _order(item[1])))


def vanished(gone: Mapping[str, VanishedDisk]) -> dict[str, InventoryDisk]:
    """Return the disks removed while iowarden was running, with what was stacked on them."""
    return {
        (disk := key.rpartition(" ")[2]): InventoryDisk(
            disk=disk,
            identity=Identity(key, missed.object, missed.adapter),
            device=missed.name,
            expected_by=("history",),
            status=ReadStatus.MISSING,
            reason=f"it vanished; on it: {', '.join(missed.carried)}",
            access_method="",
            slot="",
            read_seconds=None,
            physical=True,
        )
        for key, missed in gone.items()
        if missed.carried
    }


def _is_ambiguous(key: str, disks: Disks | None) -> bool:
    """Whether another disk reports the same serial number, so that this one has a longer name."""
    each = () if disks is None else disks.by_key.values()
    return any(disk.duplicate and disk.key.startswith(f"{key} ") for disk in each)


def summary(inventory_disks: Iterable[InventoryDisk]) -> str:
    """Return a summary in one line: 'SMART: 23 of 24 disks readable (1 read error)'.

    A sleeping disk counts as readable: its last data are valid.
    """
    everything = list(inventory_disks)
    physical = [c for c in everything if c.physical]
    readable = sum(c.status in _READABLE and c.is_monitored for c in physical)
    disks = f"{len(physical)} disk{'s'[: len(physical) != 1]}"
    told = f"SMART: {readable} of {disks} readable" if physical else "SMART: no physical disk"
    but = _counted(c.status for c in physical if c.status is not ReadStatus.READ)
    others = _counted(c.status for c in everything if not c.physical)
    return told + (f" ({but})" if but else "") + (f"; plus {others}" if others else "")


def _counted(statuses: Iterable[ReadStatus]) -> str:
    counts = Counter(statuses)
    texts = {**STATUS_TEXTS}
    if counts[ReadStatus.UNREADABLE] > 1:
        texts[ReadStatus.UNREADABLE] += "s"
    return ", ".join(f"{counts[each]} {texts[each]}" for each in ReadStatus if counts[each])


class Verdict(enum.StrEnum):
    """Overall monitoring state of a host."""

    OK = "ok"
    """Every physical disk is read, or asleep and was read before."""
    WARNING = "warning"
    """At least one is not."""
    CRITICAL = "critical"
    """A disk listed in the configuration is missing."""
    UNKNOWN = "unknown"
    """No disk is read, or there is none: missing data must never look OK."""


def verdict(disks: Iterable[InventoryDisk]) -> Verdict:
    """Return the overall monitoring state."""
    physical = [c for c in disks if c.physical]
    if any(c.status is ReadStatus.MISSING and "configuration" in c.expected_by for c in physical):
        return Verdict.CRITICAL
    if not any(c.is_monitored for c in physical):
        return Verdict.UNKNOWN
    read = all(c.is_monitored and c.status in _READABLE for c in physical)
    return Verdict.OK if read else Verdict.WARNING


def find(disks: Mapping[str, InventoryDisk], wanted: str) -> InventoryDisk:
    """Return the disk of a query: its serial number, the beginning of one, or its device.

    Errors: ValueError, listing the disks.
    """
    name = wanted.strip().removeprefix("/dev/")
    if name in disks:
        return disks[name]
    same = [c for c in disks.values() if name and name in (c.device, *c.leaves)]
    begin = name.lower()
    matches = same or [c for key, c in disks.items() if begin and key.lower().startswith(begin)]
    if len(matches) == 1:
        return matches[0]
    among = matches or list(disks.values())
    shown = ", ".join(f"{c.disk} ({c.device or c.access_method})" for c in among[:MAX_NAMED])
    more = f" and {len(among) - MAX_NAMED} more" if len(among) > MAX_NAMED else ""
    what = "one disk" if matches else "a serial number, the beginning of one, or a device"
    raise ValueError(
        f"disk: expected {what}, got '{wanted:.100}'; there {_are(among)}: {shown or 'none'}{more}"
    )


def _are(among: Sequence[InventoryDisk]) -> str:
    return "is" if len(among) <= 1 else "are"


def how(target: AccessMethod) -> str:
    """Return the access method of a drive as text."""
    return f"{target.kind} at {target.path}" if target.kind else target.path


def not_read(drive: Drive) -> tuple[str, ...]:
    """Return which useful data a drive that is read does not provide."""
    missing = []
    if drive.passed is None:
        missing.append("no overall health")
    if drive.temperature_celsius is None:
        missing.append("no temperature")
    if drive.protocol is Protocol.ATA:
        if not drive.attributes:
            missing.append("no attributes")
        elif all(a.raw is None for a in drive.attributes):
            missing.append("raw values hidden")
        if drive.errors_logged_total is None:
            missing.append("no error log")
    if drive.protocol is Protocol.SCSI:
        if drive.scsi is None or not drive.scsi.error_counters:
            missing.append("no error counters")
        if drive.scsi is None or drive.scsi.grown_defects is None:
            missing.append("no grown defects")
    if drive.protocol is Protocol.NVME and drive.nvme is None:
        missing.append("no health log")
    if drive.self_test_kinds == ():
        missing.append("no self-tests")
    return (*missing, *filter(_SELF_TEST.search, drive.refused))


def _polled_disk(
    disk: Disk, index: _Leaves, topology: Topology | None, implausibility: str | None
) -> InventoryDisk:
    polled, target = disk.polled, disk.polled.target
    leaves = index.take(disk)
    cover, reason = polled.status, polled.reason
    if implausibility is not None and cover is ReadStatus.READ:
        cover, reason = ReadStatus.IMPLAUSIBLE, implausibility or "its SMART data are implausible"
    if cover in _UNANSWERED and leaves and guards.is_exchangeable(index.devices[leaves[0]]):
        cover = ReadStatus.NO_SMART
    device = disk.device or (leaves[0] if leaves else "")
    origins = dict.fromkeys((target.origin, *(other.origin for other in disk.others)))
    expected = [
        *(["kernel"] if leaves else ()),
        *(o for o in origins if o != "kernel" or not leaves),
    ]
    by = "" if polled.drive is None else polled.drive.read_by
    return InventoryDisk(
        disk=disk.key,
        identity=device_identity.identity(topology, leaves[0]) if leaves else _hidden(disk),
        device=device,
        expected_by=tuple(expected),
        status=cover,
        reason=reason,
        access_method=how(target) + (f", by '{by}'" if by else ""),
        slot=target.slot,
        read_seconds=polled.read_seconds,
        physical=cover not in _QUIET,
        polled=polled,
        leaves=leaves,
    )


def _hidden(disk: Disk) -> Identity:
    """Return the identity of a disk without a block device here: a controller hides it."""
    target, drive = disk.polled.target, disk.polled.drive
    access = how(target) + (f" ({target.slot})" if target.slot else "")
    adapter = target.controller
    if disk.polled.status is ReadStatus.MISSING and not adapter:  # many at once have one cause
        adapter = target.path if target.behind_raid() else "what the configuration names"
    if drive is None:
        return Identity(f"disk {disk.key}", access, adapter)
    model = " ".join(word for word in (drive.vendor, drive.model) if word)
    words = (model, f"serial {drive.serial}" if drive.serial else "", access)
    return Identity(f"disk {model} {disk.key}", ", ".join(w for w in words if w), adapter)


def _not_polled(name: str, index: _Leaves, *, made: bool, absent: str) -> InventoryDisk:
    device = index.devices[name]
    passes_smart = _WITHOUT_SMART.fullmatch(name) is None
    if guards.is_exchangeable(device) or not passes_smart:
        cover = ReadStatus.NO_SMART
        reason = "a removable medium" if passes_smart else "a virtual disk, or one without SMART"
    elif absent:
        cover, reason = ReadStatus.UNREADABLE, absent
    elif made:
        cover, reason = (
            ReadStatus.UNREADABLE,
            "no access method found: the disk scan does not list it",
        )
    else:
        cover, reason = ReadStatus.NOT_POLLED_YET, "the disks are not listed yet"
    return InventoryDisk(
        disk=device.serial or device.wwn or name,
        identity=index.identities[name],
        device=name,
        expected_by=("kernel",),
        status=cover,
        reason=reason,
        access_method="",
        slot="",
        read_seconds=None,
        physical=cover not in _QUIET,
        leaves=index.take_all(name),
    )


def _is_overdue(key: str, known: SeenDisk) -> InventoryDisk:
    return InventoryDisk(
        disk=key,
        identity=known.identity,
        device=known.device,
        expected_by=("history",),
        status=ReadStatus.MISSING,
        reason="it was read before, and is missing now",
        access_method=known.access_method,
        slot="",
        read_seconds=known.read_seconds,
        physical=True,
    )


def _with_slots(
    found: dict[str, InventoryDisk], slots: Sequence[EnclosureSlot]
) -> dict[str, InventoryDisk]:
    places = {s.device: place(s.slot, f"enclosure {s.enclosure}") for s in slots if s.device}
    result = {}
    for key, covered in found.items():
        slot = next((places[name] for name in covered.leaves if name in places), "")
        result[key] = covered
        if slot:
            by = (*covered.expected_by, "enclosure")
            result[key] = replace(covered, expected_by=by, slot=covered.slot or slot)
    return result


def _order(disk: InventoryDisk) -> tuple[bool, int, str]:
    """Sort 'sda' before 'sdb' before 'sdaa', and slot 2 before slot 10; hidden disks come last."""
    if disk.device:
        return False, len(disk.device), disk.device
    return True, 0, re.sub(r"\d+", lambda number: number[0].zfill(9), disk.access_method)


class _Leaves:
    """The leaf devices while they are assigned to disks."""

    def __init__(self, topology: Topology | None) -> None:
        self._free: dict[str, None] = {}
        self.devices = {} if topology is None else topology.devices
        self.identities: dict[str, Identity] = {}
        self._alike: dict[str, list[str]] = defaultdict(list)
        self._serials: dict[str, list[str]] = defaultdict(list)
        self._wwns: dict[str, list[str]] = defaultdict(list)
        for name in () if topology is None else topology.leaves:
            device = self.devices[name]
            if device.has_no_medium:
                continue
            self._free[name] = None
            own = self.identities[name] = device_identity.identity(topology, name)
            self._alike[own.key].append(name)
            if device.serial:
                self._serials[device.serial.strip()].append(name)
            if device.wwn:
                self._wwns[_digits(device.wwn)].append(name)

    def take(self, disk: Disk) -> tuple[str, ...]:
        """Return the block devices of a disk; they are not assigned to another one."""
        drive = disk.polled.drive
        names = [disk.device] if disk.device in self._free else self._of_controller(disk.device)
        if not names and not disk.duplicate:
            serial, wwn = (disk.key, "") if drive is None else (drive.serial, drive.wwn)
            names = self._serials.get(serial, []) or self._wwns.get(_digits(wwn), [])
            names = names if len({self.identities[name].key for name in names}) == 1 else []
        if names and not disk.duplicate:  # other paths, other namespaces
            names = [*names, *self._alike[self.identities[names[0]].key]]
        return self._taken(names)

    def take_all(self, name: str) -> tuple[str, ...]:
        """Return a device and all others of its identity."""
        own = self.identities[name]
        return self._taken([name, *(self._alike[own.key] if own.key != f"device {name}" else ())])

    def left(self) -> Iterable[str]:
        """Yield the devices without a disk, one for each identity."""
        while self._free:
            yield next(iter(self._free))

    def _taken(self, names: Iterable[str]) -> tuple[str, ...]:
        taken = tuple(name for name in dict.fromkeys(names) if name in self._free)
        for name in taken:
            del self._free[name]
        return taken

    def _of_controller(self, device: str) -> list[str]:
        """Return the namespaces of an NVMe controller.

        Source: drivers/nvme/host/multipath.c: 'nvme1c2n1' is a path by controller 2.
        """
        number = re.fullmatch(r"nvme(\d+)(?:n\d+)?", device)
        if number is None:
            return []
        found = ((name, _NVME.fullmatch(name)) for name in self._free)
        return [name for name, match in found if match and number[1] == (match[2] or match[1])]


def _digits(wwn: str) -> str:
    """Return a world wide name as smartctl's digits."""
    return wwn.lower().removeprefix("0x").removeprefix("eui.").removeprefix("uuid.")
