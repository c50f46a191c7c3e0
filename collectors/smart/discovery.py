"""Discovery of drives: which drives may exist, and the access method of each.

Sources are the kernel, smartctl's scan, RAID controllers and the configuration. Discovery opens no
disk: from sysfs only names and texts are read, and programs query controllers for their disks. Only
the disks of an HP controller must be counted by querying one after the other.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping  # noqa: TC003 - to be evaluated
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.block.udev import DIRECTORY as UDEV
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.smart import hidden_disks, scsi_hosts
from iowarden.collectors.smart.drive import AccessMethod
from iowarden.collectors.smart.scsi_hosts import (  # noqa: TC001 - of Discovered
    UnmonitoredDevice,
    VirtualDrive,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.machine import Machine
    from iowarden.collectors.smart.scsi_hosts import HostTopology

_SD = r"/dev/sd[a-z]{1,3}"
_SG = r"/dev/sg\d{1,4}"
_LINK = r"/dev/disk/by-(?:id|path|partlabel|label|uuid|diskseq)/[!-~]{1,255}"

_DIRECT = (
    r"ata|scsi|nvme(,0x[0-9a-f]{1,8})?|sat(,auto)?(,1[26])?|usbjmicron(,p)?(,[01])?|usbprolific"
    r"|usbsunplus|snt(asmedia|realtek)(/sat)?|sntjmicron(/sat)?(,0x[0-9a-f]{1,8})?"
)
_BEHIND = {
    r"areca,\d{1,3}(/[1-8])?": rf"{_SG}|{scsi_hosts.ADAPTER}",
    r"3ware,\d{1,3}": rf"/dev/tw[ael]\d{{1,2}}|{scsi_hosts.ADAPTER}",
    r"(sat\+)?megaraid,\d{1,3}": rf"{_SD}|/dev/bus/\d{{1,3}}|{_LINK}|{scsi_hosts.ADAPTER}",
    r"((sat|scsi)\+)?aacraid,\d{1,3},\d{1,3},\d{1,3}": rf"{_SD}|{_SG}|{_LINK}|{scsi_hosts.ADAPTER}",
    r"((sat|scsi)\+)?cciss,\d{1,3}": (
        rf"{_SD}|{_SG}|/dev/cciss/c\d{{1,2}}d\d{{1,3}}|{_LINK}|{scsi_hosts.ADAPTER}"
    ),
    r"sssraid,\d{1,3},\d{1,3}": r"/dev/bsg/sssraid\d{1,3}",
    r"hpt,[1-4]/\d{1,3}(/[1-4])?": rf"{_SD}|{_LINK}",
}
"""smartctl device types of disks behind a RAID controller, and the paths that go with each. Source:
smartctl(8), '-d'. The probe would refuse what only this list accepts: a test compares both.
"""
_DIRECT_PATH = rf"{_SD}|{_SG}|/dev/nvme\d{{1,4}}(n\d{{1,4}})?|{_LINK}"

REFUSED_TYPES = {
    "jmb39x": "writes to sector 33 of the disk to talk to the bridge",
    "jms56x": "writes to sector 33 of the disk to talk to the bridge",
    "intelliprop": "selects a disk by writing to one of its logs",
    "usbcypress": "sends a vendor command, which other bridges interpret differently",
}
"""Source: smartctl(8), '-d'."""

_KEYS = ("path", "type", "serial", "slot", "profile", "ignore")


@dataclass(frozen=True, slots=True)
class ConfiguredDrive:
    """A drive from the configuration. Fields: '' if not set.

    `path` is a device, a link below '/dev/disk', or the PCI address of a RAID controller; '' means
    the drive of this `serial` wherever it is. `kind` is smartctl's '-d'. With `serial` exactly this
    drive is expected. `profile` names options for drives that fail with the usual ones. `ignore`:
    it is not polled, and not reported as missing.
    """

    path: str = ""
    kind: str = ""
    serial: str = ""
    slot: str = ""
    profile: str = ""
    ignore: bool = False


@dataclass(frozen=True, slots=True)
class Discovered:
    """Result of one discovery.

    Fields: `problems` are messages for users, a line each; `unmonitored` are drives, and volumes
    whose disks are not polled; `volumes` are all of them; `configured` is the access method of each
    entry of the configuration: None if it has no path, or none that exists.
    """

    targets: tuple[AccessMethod, ...]
    problems: tuple[str, ...] = ()
    unmonitored: tuple[UnmonitoredDevice, ...] = ()
    volumes: tuple[VirtualDrive, ...] = ()
    configured: tuple[tuple[ConfiguredDrive, AccessMethod | None], ...] = ()


def find(
    root: Machine,
    topology: Topology,
    configured: Sequence[ConfiguredDrive] = (),
    before: Discovered | None = None,
) -> Discovered:
    """Return the drives that may exist, with access methods. Several may be the same drive.

    `before` is the last result: a controller that does not answer this time keeps the disks that it
    had. Limits: blocks while programs query controllers, for minutes if one hangs; sysfs may hang
    on a faulty disk. Every failure is a problem of the result, not an exception.
    """
    machine = scsi_hosts.read_machine(root, topology)
    targets, volumes, uncovered = scsi_hosts.leaves(root, machine)
    listed, no_way = hidden_disks.hidden(root, machine, volumes)
    targets += listed
    if before is not None:
        targets += [
            target
            for target in before.targets
            if target.controller in machine.unlisted and target.origin in {"controller", "scan"}
        ]
    ways = {_method_key(target): target for target in reversed(targets)}
    links = _links(root, topology) if any(_is_link(drive.path) for drive in configured) else {}
    told: list[tuple[ConfiguredDrive, AccessMethod | None]] = []
    for drive in configured:
        target = _resolved(root, machine, drive, ways, links) if drive.path else None
        if target is not None and any(
            way and _method_key(way) == _method_key(target) for _, way in told
        ):
            machine.problems.append(
                f"smart: drives: '{target}': expected one entry for a drive, got two; the last one"
                " is used, remove the other"
            )
        told.append((drive, target))
        if target is not None and drive.ignore:
            ways.pop(_method_key(target), None)
        elif target is not None:
            ways[_method_key(target)] = target
    uncovered += no_way + hidden_disks.unmonitored_volumes(
        root, machine, volumes, tuple(ways.values())
    )
    known = {target.device for _, target in told if target is not None} - {""}
    return Discovered(
        tuple(sorted(ways.values(), key=_order)),
        tuple(dict.fromkeys(machine.problems)),
        tuple(each for each in uncovered if each.device not in known),
        tuple(volume for volume in volumes if volume.device not in known),
        tuple(told),
    )


def _is_link(path: str) -> bool:
    return path.startswith("/dev/disk/")


def _method_key(target: AccessMethod) -> tuple[str, str]:
    """Return a key that is equal for two spellings of the same access method."""
    kind = target.kind.rpartition("+")[2]
    if not target.behind_raid():
        return "", target.device or target.path
    return target.controller, kind


def _order(target: AccessMethod) -> tuple[object, ...]:
    """Sort 'sdb' before 'sdaa', and 'megaraid,2' before 'megaraid,10'."""
    numbers = tuple(int(text) for text in re.findall(r"\d+", target.kind))
    return target.behind_raid(), len(target.path), target.path, numbers, target.kind


# Drives from the configuration


def _links(root: Machine, topology: Topology) -> dict[str, str]:
    """Return the whole device of each link below '/dev/disk', as created by udev."""
    return {
        f"/dev/{line[2:]}": name
        for name, device in topology.devices.items()
        if device.device_number is not None
        for line in scsi_hosts.text_of(root, f"{UDEV}/b{device.device_number}").splitlines()
        if line.startswith("S:disk/")
    }


def _resolved(
    root: Machine,
    machine: HostTopology,
    drive: ConfiguredDrive,
    access_methods: Mapping[tuple[str, str], AccessMethod],
    links: Mapping[str, str],
) -> AccessMethod | None:
    """Return the access method of a configured drive, or add to the problems why there is none.

    A drive with `ignore` may be missing.
    """
    path = drive.path
    family = drive.kind.rpartition("+")[2].partition(",")[0]
    try:
        if _is_link(path):
            if path not in links:
                raise ValueError(f"expected a link to a whole drive, got none; see 'ls -l {path}'")
            path = f"/dev/{links[path]}"
        target = (
            _configured_member(root, machine, drive, path, family)
            if AccessMethod(path, drive.kind).behind_raid()
            else _configured_direct(root, machine, drive, path, access_methods)
        )
    except ValueError as error:
        if not drive.ignore:
            machine.problems.append(f"smart: drives: '{drive.path}': {error}")
        return None
    known = access_methods.get(_method_key(target), target)
    return replace(
        target,
        slot=drive.slot or known.slot,
        # Every query leaks memory there: kernel bug 220504.
        profile=drive.profile or ("minimal" if family == "aacraid" else ""),
        origin="configuration",
    )


def _configured_direct(
    root: Machine,
    machine: HostTopology,
    drive: ConfiguredDrive,
    path: str,
    access_methods: Mapping[tuple[str, str], AccessMethod],
) -> AccessMethod:
    """Return a drive that is polled through its own device. Errors: ValueError."""
    name = path.removeprefix("/dev/")
    device = name
    if name in machine.nvme:
        device = next((e for e in machine.nvme[name] if e in machine.topology.leaves), "")
    elif scsi_hosts.NVME_DEVICE.fullmatch(name):
        heads = [c for c, entries in machine.nvme.items() if name in entries]
        name = heads[0] if heads and not drive.kind.startswith("nvme,") else name
        device = next((e for e in machine.nvme.get(name, ()) if e in machine.topology.leaves), name)
    elif name.startswith("sg"):
        if name not in scsi_hosts.listed(root, scsi_hosts.GENERIC, machine.problems):
            raise ValueError(
                "expected a drive there, got none; is it connected, and is the module 'sg' loaded?"
            )
        blocks = scsi_hosts.listed(
            root, f"{scsi_hosts.GENERIC}/{name}/device/block", machine.problems
        )
        device = blocks[0] if blocks else ""
    if device and device not in machine.topology.devices:
        raise ValueError("expected a drive there, got none; is it connected? See 'lsblk'")
    if known := access_methods.get(("", device or f"/dev/{name}")):
        return replace(known, path=f"/dev/{name}", kind=drive.kind or known.kind)
    block = machine.topology.devices.get(device)
    host = (block.host if block else None) or _host_of(root, machine, name)
    driver = machine.hosts[host].driver if host in machine.hosts else ""
    raid = machine.raid(host)
    if raid and not drive.kind and not drive.ignore:
        kind = f"{raid.family},N" if raid.family else "scsi"
        raise ValueError(
            f"expected a drive, got a volume of a RAID controller ('{driver}'); write its disks,"
            f" with 'type: {kind}' each, or 'ignore: true'"
        )
    kind = (
        scsi_hosts.direct_kind(block, driver)
        if block and scsi_hosts.SD_NAME.fullmatch(device)
        else ""
    )
    return AccessMethod(f"/dev/{name}", drive.kind or kind, device, host or f"/dev/{name}", driver)


def _configured_member(
    root: Machine, machine: HostTopology, drive: ConfiguredDrive, path: str, family: str
) -> AccessMethod:
    """Return a drive behind a RAID controller. Errors: ValueError."""
    if path.startswith("/dev/cciss/"):
        return AccessMethod(path, drive.kind, "", f"{path.rpartition('d')[0]}d0", "cciss")
    name = path.removeprefix("/dev/")
    host = machine.hosts.get(_host_of(root, machine, name))
    drivers = [driver for driver, raid in scsi_hosts.RAID.items() if raid.family == family]
    if host is None or host.driver not in drivers:
        there = [each for each in machine.hosts.values() if each.driver in drivers]
        hint = ", ".join(each.address or each.name for each in there)
        raise ValueError(
            f"expected a controller of the driver {' or '.join(drivers)} there, got"
            f" {repr(host.driver) if host else 'none'}; "
            + (f"there is one at {hint}" if hint else "is it installed? See 'lspci -k'")
        )
    kind = drive.kind
    match family:
        case "areca":
            path = machine.generic(host.name, scsi_hosts.PROCESSOR)
        case "3ware":
            path = hidden_disks.threeware(machine, host)
        case "megaraid":
            path = f"/dev/bus/{host.number()}"
        case "aacraid":
            path = path if path.startswith("/dev/") else machine.generic(host.name)
            # The number of a host may change at a reboot.
            kind = re.sub(r"aacraid,\d+", f"aacraid,{host.number()}", kind)
        case "cciss":
            path = machine.generic(host.name, scsi_hosts.RAID_CONTROLLER) or path
    if not path.startswith("/dev/"):
        raise ValueError("expected a '/dev/sgN' of the controller, got none; load the module 'sg'")
    return AccessMethod(path, kind, "", host.name, host.driver)


def _host_of(root: Machine, machine: HostTopology, name: str) -> str:
    """Return the SCSI host of a device, a controller's node or a PCI address, or ''."""
    if block := machine.topology.devices.get(name):
        return block.host or ""
    if number := re.fullmatch(r"(?:bus/|bsg/sssraid)(\d+)", name):
        return f"host{number[1]}"
    if name.startswith("sg"):
        path = f"{scsi_hosts.GENERIC}/{name}/device/scsi_device"
        return next(
            (
                f"host{each.partition(':')[0]}"
                for each in scsi_hosts.listed(root, path, machine.problems)
            ),
            "",
        )
    for host in machine.hosts.values():
        if name == host.address:
            return host.name
        if host.driver in scsi_hosts.THREEWARE and f"/dev/{name}" == hidden_disks.threeware(
            machine, host
        ):
            return host.name
    return ""


def parse_configured(item: Mapping[str, object], profiles: Collection[str] = ()) -> ConfiguredDrive:
    """Parse an entry of the configuration's list of drives; 'type: auto' is none.

    Errors: ValueError with the key, the expected value, and what to write.
    """
    for key in item:
        if key not in _KEYS:
            near = difflib.get_close_matches(str(key), _KEYS, 1)
            hint = f"did you mean '{near[0]}'?" if near else "see the example file"
            raise ValueError(f"{str(key)[:40]!r}: expected one of {', '.join(_KEYS)}; {hint}")
    ignore = item.get("ignore", False)
    if not isinstance(ignore, bool):
        raise ValueError(f"'ignore': expected true or false, got {str(ignore)[:40]!r}")  # noqa: TRY004 - the file is at fault, not the caller
    path, kind = _text(item, "path", 300), _text(item, "type", 60)
    serial, slot = _text(item, "serial", 100), _text(item, "slot", 100)
    profile = _text(item, "profile", 40)
    kind = "" if kind == "auto" else kind
    if not path and not serial:
        raise ValueError(
            "expected 'path' or 'serial', got neither; write the drive's path, such as '/dev/sda'"
        )
    _check_method(path, kind, ignore=ignore)
    if profile and profiles and profile not in profiles:
        raise ValueError(f"'profile': expected one of {', '.join(profiles)}, got '{profile}'")
    if profile and not path:
        raise ValueError("'profile': expected 'path' in the same entry, got none")
    return ConfiguredDrive(path, kind, serial, slot, profile, ignore)


def _check_method(path: str, kind: str, *, ignore: bool) -> None:
    """Check that a type is known, and that it matches the path. Errors: ValueError."""
    for name, harm in REFUSED_TYPES.items():
        if kind.rpartition("+")[2].startswith(name) or kind.startswith(name):
            raise ValueError(
                f"'type': expected one that does not change the disk, got '{kind}', which {harm};"
                " remove this drive"
            )
    if kind and not path:
        raise ValueError(
            "'type': expected 'path' in the same entry, got none; write the drive's device"
        )
    if not kind:
        wanted = f"{_DIRECT_PATH}|/dev/cciss/c\\d{{1,2}}d\\d{{1,3}}" if ignore else _DIRECT_PATH
    elif re.fullmatch(_DIRECT, kind, re.ASCII):
        wanted = _DIRECT_PATH
    else:
        found = [paths for kinds, paths in _BEHIND.items() if re.fullmatch(kinds, kind, re.ASCII)]
        if not found:
            raise ValueError(
                "'type': expected what smartctl takes after '-d', such as 'sat', 'areca,1' or"
                f" 'megaraid,0', got '{kind}'; see '-d' in smartctl(8)"
            )
        wanted = found[0]
    if path and not re.fullmatch(wanted, path, re.ASCII):
        raise ValueError(
            f"'path': expected {_described(kind)}, got '{path}'; see '-d' in smartctl(8)"
        )


def _described(kind: str) -> str:
    family = kind.rpartition("+")[2].partition(",")[0]
    return {
        "areca": "the controller's '/dev/sg2' or its PCI address '0000:03:00.0'",
        "3ware": "'/dev/twa0', '/dev/twe0', '/dev/twl0' or the controller's PCI address",
        "megaraid": "'/dev/bus/0', a volume '/dev/sda' or the controller's PCI address",
        "aacraid": "a volume '/dev/sda', '/dev/sg1' or the controller's PCI address",
        "cciss": "'/dev/sg1', '/dev/sda', '/dev/cciss/c0d0' or the controller's PCI address",
        "sssraid": "'/dev/bsg/sssraid0'",
        "hpt": "a volume '/dev/sda'",
    }.get(family, "a whole drive such as '/dev/sda', '/dev/nvme0' or '/dev/disk/by-id/...'")


def _text(item: Mapping[str, object], key: str, maximum: int) -> str:
    """Return a text of the entry, '' without one. Errors: ValueError."""
    value = item.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"'{key}': expected text, got {str(value)[:40]!r}; put it in quotes")  # noqa: TRY004 - the file is at fault, not the caller
    if not re.fullmatch(rf"[!-~]|[!-~][ -~]{{0,{maximum - 2}}}[!-~]", value):
        raise ValueError(
            f"'{key}': expected 1 to {maximum} printable ASCII characters without a blank at either"
            f" end, got {value[:40]!r}"
        )
    return value
