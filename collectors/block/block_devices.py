"""Block devices, how they are stacked, and what created them, from '/sys/block'."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.block.disk_identity import read_serial, read_text, read_wwn
from iowarden.collectors.block.udev import DIRECTORY as UDEV
from iowarden.collectors.block.udev import parse_signature, parse_zvol
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.filesystem.btrfs_owner import read_file_systems
from iowarden.collectors.filesystem.mountinfo import read_mountinfo
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import (
    SECTOR_BYTES,
    AbsentError,
    Family,
    ParseError,
    ReadError,
    Sample,
)
from iowarden.collectors.procfs.swaps import read_swaps
from iowarden.collectors.source import Source
from iowarden.collectors.sysfs import device_name, printable_name
from iowarden.collectors.zfs.pool_state import read_pool_states

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.block.udev import BlockSignature
    from iowarden.collectors.filesystem.btrfs_owner import FileSystem
    from iowarden.collectors.machine import Machine
    from iowarden.collectors.procfs.swaps import Swap

DIRECTORY = "/sys/block"
ATA_PORTS = "/sys/class/ata_port"
SAS_END_DEVICES = "/sys/class/sas_end_device"
SAS_DEVICES = "/sys/class/sas_device"
ENCLOSURES = "/sys/class/enclosure"
_ENCLOSURE = "enclosure "
_NEVER_LEAF = lazy_pattern(r"(loop|ram|zram|sr|fd|zd|drbd)\d+|(md|dm-).*")
"""Devices in memory, in a file, removable or stacked. ZFS volumes (zd) and DRBD have no slaves in
sysfs; writes to them are counted again at their disks (by the drivers' naming; not measured).
"""
NVME_PATH = lazy_pattern(r"nvme(\d+)c(\d+)n(\d+)", re.ASCII)
"""A path of NVMe's own multipath: subsystem, controller, namespace. Source: kernel,
drivers/nvme/host/multipath.c, nvme_mpath_set_disk_name.
"""
ZFS = "zfs_member"
_ADDRESS = lazy_pattern(r"(\d{1,9}):(\d{1,9}):(\d{1,9}):(\d{1,20})", re.ASCII)
_PORT = lazy_pattern(r"ata\d{1,9}", re.ASCII)
_BEHIND_EXPANDER = lazy_pattern(r"end_device-(\d{1,9}:\d{1,9}):\d{1,9}", re.ASCII)
"""An end device by host, expander and port; one of the host itself has two numbers. Source: kernel,
scsi_transport_sas.c, sas_end_device_alloc.
"""
_TARGET = lazy_pattern(r"target(\d{1,9}:\d{1,9}:\d{1,9})", re.ASCII)
_LV = lazy_pattern(r"((?:[^-]|--)+)-((?:[^-]|--)+)")
_BARE = lazy_pattern(r"(?:loop|ram|zram|sr|fd)\d+")
"""Devices without a udev lookup: in memory, in a file, or removable."""
_ZVOL = lazy_pattern(r"zd\d+")
_MADE_IN_ADVANCE = lazy_pattern(r"(?:loop|ram|zram|nbd)\d+")
"""Devices that their driver creates before anybody wants one (loop.c, max_loop; brd.c, rd_nr; zram,
num_devices; nbd.c, nbds_max).
"""
_RAM_DISK = lazy_pattern(r"ram\d+")
"""They have their size from the start, and count no request (kernel, drivers/block/brd.c)."""


@dataclass(frozen=True, slots=True)
class Md:
    """A software RAID array. Source: kernel, admin-guide/md.rst.

    `copies`: the number of disks to which a block is written, if the level has copies. None: not
    known.
    """

    level: str | None
    raid_disks: int | None
    layout: int | None
    copies: int | None
    chunk_size_bytes: int | None


@dataclass(frozen=True, slots=True)
class Device:
    """A block device that is not a partition. None: the kernel does not report it.

    Source: kernel, ABI/stable/sysfs-block; SCSI attributes: scsi/scsi_sysfs.c; vpd_pg80 is SPC-4's
    'unit serial number' page. `slaves` and `holders` are whole devices, even if a partition is
    used.
    """

    name: str
    device_number: str | None
    slaves: tuple[str, ...]
    holders: tuple[str, ...]
    partitions: tuple[str, ...]
    leaf: bool
    """A leaf device, the lowest in the stack: a disk, an adapter's RAID volume, a path to one."""
    size_bytes: int | None
    rotational: bool | None
    model: str | None
    vendor: str | None
    serial: str | None
    wwn: str | None
    timeout_seconds: float | None
    host: str | None
    """SCSI host adapter ('host2')."""
    dm_name: str | None
    md: Md | None
    diskseq: int | None = None
    """Sequence number of this appearance among all disks of this boot (5.15+)."""
    removable: bool | None = None
    read_only: bool | None = None
    address: str | None = None
    """SCSI host:channel:target:lun, '2:0:1:0'."""
    port: str | None = None
    """The ATA port of its host in the kernel log ('ata3'); one may have many disks."""
    shelf: str | None = None
    """The SAS expander that it hangs off ('expander-1:0'), of several in a row the last; if the
    kernel shows none, the enclosure of its slot ('enclosure 1:0:9:0')."""
    dm_uuid: str | None = None
    """UUID of device-mapper; its prefix names the creator: 'LVM-…', 'CRYPT-…', 'mpath-…',
    'part1-mpath-…'.
    """
    backing_file: str | None = None
    """Of a loop device its backing file or device; of zram the device for pages that are written
    back (admin-guide/blockdev/zram.rst).
    """
    uses: tuple[tuple[str, str], ...] = ()
    """Each holder with the part of this device that it uses: ('sda1', 'md0')."""
    state: str | None = None
    """Of a path of NVMe multipath the state of its controller: 'live', 'connecting' ...
    (nvme/host/sysfs.c); if that is live and the path is not optimized, of its ANA group:
    'non-optimized', which works, 'inaccessible', 'persistent-loss', 'change'
    (nvme/host/multipath.c, nvme_ana_state_names).
    """
    transport: str | None = None
    """Of an NVMe drive or path how its controller is attached: 'pcie', 'tcp', 'rdma', 'fc', 'loop'
    (nvme/host/sysfs.c)."""

    @property
    def has_no_medium(self) -> bool:
        """Whether it is a reader without a card or disc: no disk, of which nothing is expected.

        That is a fact of the inventory, and no guard: nothing is judged that does not exist.
        """
        return bool(self.removable) and not self.size_bytes

    @property
    def port_number(self) -> int | None:
        """Return the 1 of 'ata3.01', for a disk at an ATA port.

        Source: kernel, libata-core.c, ata_dev_printk (port of the multiplier plus number of the
        device, one of which is 0); libata-scsi.c, ata_scsi_find_dev (channel and target).
        """
        found = _ADDRESS.fullmatch(self.address or "") if self.port else None
        return int(found[2]) + int(found[3]) if found else None


@dataclass(frozen=True, slots=True)
class Topology:
    """All block devices by name.

    `names` maps other names of devices and partitions, without '/dev/', to the kernel's names
    ('dm-0', 'sda1'): device numbers ('253:0'), 'mapper/vg-data', 'vg/data'.
    """

    devices: Mapping[str, Device]
    leaves: tuple[str, ...] = field(default=())
    names: Mapping[str, str] = field(default_factory=dict)
    btrfs: Mapping[str, FileSystem] = field(default_factory=dict)
    """All devices of a mounted btrfs by each of them: the mount table names only one."""
    swaps: tuple[Swap, ...] = ()
    signatures: Mapping[str, BlockSignature] = field(default_factory=dict)
    """Signatures from udev on devices and partitions without a holder in sysfs."""
    pools: Mapping[str, str] = field(default_factory=dict)
    """State of each imported ZFS pool ('ONLINE'); '' not known."""
    zvols: Mapping[str, str] = field(default_factory=dict)
    """ZFS volumes: 'zd0' is 'tank/vm1'."""
    shelves: Mapping[str, str] = field(default_factory=dict)
    """SAS address of each expander, or logical identifier of each enclosure, with disks; '' not
    known."""
    wholes: Mapping[str, str] = field(init=False, repr=False, compare=False)
    """The device of each partition."""

    def __post_init__(self) -> None:
        """Sort the partitions by name: a thousand disks have thousands."""
        wholes = {part: name for name, each in self.devices.items() for part in each.partitions}
        object.__setattr__(self, "wholes", wholes)

    def kernel_name(self, name: str) -> str:
        """Return the kernel's name of a device or partition; `name` itself if it has no other.

        Accepts a device node with or without '/dev/', a device number, or a name of sysfs.
        """
        plain = name.removeprefix("/dev/").replace("!", "/")
        return self.names.get(plain, plain)

    def whole(self, name: str) -> Device | None:
        """Return a device by any of its names, for a partition its disk."""
        kernel = self.kernel_name(name)
        return self.devices.get(kernel) or self.devices.get(self.wholes.get(kernel, ""))


FAMILIES = (
    Family("iowarden_device_info", "gauge", "1; identity of a device in labels."),
    Family("iowarden_device_size_bytes", "gauge", "Size of a device."),
    Family(
        "iowarden_device_rotational",
        "gauge",
        "1 when the kernel treats a device as a rotating disk.",
    ),
    Family(
        "iowarden_device_timeout_seconds",
        "gauge",
        "Command timeout of the kernel for a device.",
    ),
    Family("iowarden_device_read_only", "gauge", "1 when the kernel has set a device read-only."),
)


def emit(value: Topology) -> list[Sample]:
    """Return the samples of FAMILIES for leaf devices and the devices stacked on them."""
    samples: list[Sample] = []
    for name, device in value.devices.items():
        if not device.leaf and not device.slaves and device.md is None and device.dm_name is None:
            continue
        labels = (("device", name),)
        samples.append(
            (
                "iowarden_device_info",
                (
                    ("device", name),
                    ("model", device.model or ""),
                    ("serial", device.serial or ""),
                    ("wwn", device.wwn or ""),
                ),
                1,
            )
        )
        samples += [
            (metric, labels, float(number))
            for metric, number in (
                ("iowarden_device_size_bytes", device.size_bytes),
                ("iowarden_device_rotational", device.rotational),
                ("iowarden_device_timeout_seconds", device.timeout_seconds),
                ("iowarden_device_read_only", device.read_only),
            )
            if number is not None
        ]
    return samples


def copies(level: str | None, raid_disks: int | None, layout: int | None) -> int | None:
    """Return the number of disks that have each block.

    Source: kernel drivers/md/raid10.c, setup_geo: the low byte of a layout is the near copies, the
    next one the far copies; higher bits are flags.
    """
    if level == "raid1":
        return raid_disks
    if level == "raid10" and layout is not None:
        return (layout & 255) * (layout >> 8 & 255) or None
    return None


def parse_number(text: str) -> int | None:
    """Return the number that begins an attribute (md prints '4 (3)' during a reshape)."""
    found = re.match(r"\s*(\d{1,20})(?!\d)", text, re.ASCII)
    return int(found[1]) if found else None


def lv_names(dm_name: str) -> tuple[str, str] | None:
    """Return volume group and logical volume of a device-mapper name: 'my--vg-data' of 'my-vg'.

    None: LVM creates no such name. Source: libdevmapper, dm_build_dm_name: the parts are joined by
    '-', a '-' within a part is doubled.
    """
    found = _LV.fullmatch(dm_name)
    return (found[1].replace("--", "-"), found[2].replace("--", "-")) if found else None


def topology(devices: Mapping[str, Device], numbers: Mapping[str, str] | None = None) -> Topology:
    """Return the devices with all their names; `numbers` are the partitions' by number."""
    names = dict(numbers or {})
    for name, device in devices.items():
        if device.device_number:
            names[device.device_number] = name
        if device.dm_name:
            names[f"mapper/{device.dm_name}"] = name
            if lv := lv_names(device.dm_name):
                names["/".join(lv)] = name
    leaves = tuple(name for name, device in devices.items() if device.leaf)
    return Topology(devices, leaves, names)


def read_block(root: Machine) -> Topology:
    """Read '/sys/block'.

    A device that vanishes meanwhile is left out, as is one that holds nothing yet: a loop device
    without a file, a RAM disk without a user. An attribute that cannot be read is None.
    Limits: may hang on a sick disk or array. Errors: AbsentError, ReadError (of '/sys/block').
    """
    listed: dict[str, list[str]] = {}
    whole: dict[str, str] = {}
    for name in root.names(DIRECTORY):
        entries = root.try_names(f"{DIRECTORY}/{name}")
        if entries is None:
            continue
        listed[name] = entries
        whole[name] = name
        for entry in entries:
            if entry.startswith(name) and read_text(root, f"{DIRECTORY}/{name}/{entry}/partition"):
                whole[entry] = name
    partitions: dict[str, list[str]] = defaultdict(list)
    slaves: dict[str, set[str]] = defaultdict(set)
    holders: dict[str, set[str]] = defaultdict(set)
    for part, name in whole.items():
        if part != name:
            partitions[name].append(part)
    uses = _uses(root, whole)
    for name, used in uses.items():
        holders[name] |= {holder for _, holder in used}
    numbers = {
        number: device_name(part)
        for part, name in whole.items()
        if part != name and (number := read_text(root, f"{DIRECTORY}/{name}/{part}/dev"))
    }
    for name, entries in listed.items():
        if "slaves" in entries:
            for slave in root.try_names(f"{DIRECTORY}/{name}/slaves") or ():
                slaves[name].add(whole.get(slave, slave))
        # NVMe multipath: the kernel does not show that the namespace uses its paths.
        path_of = NVME_PATH.fullmatch(name)
        head = f"nvme{path_of[1]}n{path_of[3]}" if path_of else ""
        if head in listed:
            slaves[head].add(name)
            holders[name].add(head)
    devices = {
        device_name(name): _device(
            root, name, entries, partitions[name], slaves[name], holders[name], uses[name]
        )
        for name, entries in listed.items()
    }
    devices = _in_use(root, devices)
    if any(device.host for device in devices.values()):
        devices = _attached(root, devices)
    found = _with_backing(topology(devices, numbers))
    signatures = _signatures(root, found, numbers)
    return replace(
        found,
        btrfs=read_file_systems(root),
        swaps=_swaps(root),
        signatures=signatures,
        pools=_pools(root),
        zvols=_zvols(root, found),
        shelves={
            name: _shelf_address(root, name)
            for name in sorted({each.shelf for each in devices.values() if each.shelf})
        },
    )


def _in_use(root: Machine, devices: Mapping[str, Device]) -> dict[str, Device]:
    """Return the devices without those that were made in advance and that hold nothing.

    A loop device without a file, zram without a size and an nbd device without a server have the
    size 0; what is still mounted on one that lost its server keeps it.
    """
    bare = {
        name
        for name, device in devices.items()
        if _MADE_IN_ADVANCE.fullmatch(name)
        and (not device.size_bytes or _RAM_DISK.fullmatch(name))
        and not (device.backing_file or device.partitions or device.holders)
    }
    if not bare:
        return dict(devices)
    try:
        in_use = {mount.device_number for mount in read_mountinfo(root)}
    except (AbsentError, ReadError, ParseError):  # the collector mountinfo reports it
        return dict(devices)
    in_use |= {area.path.removeprefix("/dev/") for area in _swaps(root)}
    return {
        name: device
        for name, device in devices.items()
        if name not in bare or not in_use.isdisjoint((name, device.device_number or ""))
    }


def _with_backing(found: Topology) -> Topology:
    """Return the devices with holders that have no link: loop and zram on a device."""
    devices = dict(found.devices)
    for device in found.devices.values():
        if not (device.backing_file or "").startswith("/dev/"):
            continue
        part = found.kernel_name(device.backing_file or "")
        below = found.whole(part)
        if below is None or below.name == device.name:
            continue
        below = devices[below.name]
        devices[below.name] = replace(
            below,
            holders=tuple(sorted({*below.holders, device.name})),
            uses=tuple(sorted({*below.uses, (part, device.name)})),
        )
        devices[device.name] = replace(devices[device.name], slaves=(below.name,))
    return replace(found, devices=devices) if devices != found.devices else found


def _signatures(
    root: Machine, found: Topology, numbers: Mapping[str, str]
) -> dict[str, BlockSignature]:
    """Return udev's signatures of devices that are neither held nor partitioned."""
    by_name = {part: number for number, part in numbers.items()}
    held = {part for device in found.devices.values() for part, _ in device.uses}
    signatures: dict[str, BlockSignature] = {}
    for device in found.devices.values():
        if _BARE.fullmatch(device.name):
            continue
        for name in device.partitions or (device.name,):
            number = by_name.get(name) if device.partitions else device.device_number
            if number is None or name in held:
                continue
            own = parse_signature(_udev(root, number))
            if own is not None:
                signatures[name] = own
    return signatures


def _zvols(root: Machine, found: Topology) -> dict[str, str]:
    """Return the volume and pool of each 'zd' device, from udev."""
    volumes = (each for each in found.devices.values() if _ZVOL.fullmatch(each.name))
    own = {each.name: parse_zvol(_udev(root, each.device_number or "")) for each in volumes}
    return {name: volume for name, volume in own.items() if volume}


def _udev(root: Machine, number: str) -> str:
    """Return udev's data of a device; '': udev does not run, or has no data."""
    return root.try_read(f"{UDEV}/b{number}") or ""


def _swaps(root: Machine) -> tuple[Swap, ...]:
    """Return the swap areas; the collector vm_sysctl reports if they are unreadable."""
    try:
        return read_swaps(root)
    except (AbsentError, ReadError, ParseError):
        return ()


def _pools(root: Machine) -> dict[str, str]:
    """Return the imported ZFS pools with their state; none where they cannot be listed."""
    try:
        return {pool.name: pool.state for pool in read_pool_states(root).values()}
    except (AbsentError, ReadError):
        return {}


def _uses(root: Machine, whole: Mapping[str, str]) -> dict[str, set[tuple[str, str]]]:
    """Return by whole device the parts that are in use, and by which holder."""
    found: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for part, name in whole.items():
        path = f"{DIRECTORY}/{name}" if part == name else f"{DIRECTORY}/{name}/{part}"
        for holder in root.try_names(path + "/holders") or ():
            found[name].add((part, whole.get(holder, holder)))
    return found


def _device(
    root: Machine,
    name: str,
    entries: list[str],
    partitions: list[str],
    slaves: set[str],
    holders: set[str],
    uses: set[tuple[str, str]],
) -> Device:
    path = f"{DIRECTORY}/{name}"
    address = _address(root, path) if "device" in entries else None

    def text(attribute: str) -> str | None:
        # Attributes that the listing does not show are not opened: most of 20 do not exist.
        if attribute.partition("/")[0] not in entries:
            return None
        return read_text(root, f"{path}/{attribute}")

    def number(attribute: str) -> int | None:
        value = text(attribute)
        return None if value is None else parse_number(value)

    def flag(attribute: str) -> bool | None:
        value = number(attribute)
        return None if value is None else value != 0

    size = number("size")
    seconds, milliseconds = number("device/timeout"), number("queue/io_timeout")
    timeout = (
        seconds if seconds is not None else None if milliseconds is None else milliseconds / 1000
    )
    return Device(
        name=device_name(name),
        device_number=text("dev"),
        slaves=tuple(sorted(map(device_name, slaves))),
        holders=tuple(sorted(map(device_name, holders))),
        partitions=tuple(sorted(map(device_name, partitions))),
        leaf=not slaves and not _NEVER_LEAF.fullmatch(name),
        size_bytes=None if size is None else size * SECTOR_BYTES,
        rotational=flag("queue/rotational"),
        model=text("device/model") or text("device/name"),
        vendor=text("device/vendor"),
        serial=read_serial(root, path, entries),
        wwn=read_wwn(root, path, entries),
        timeout_seconds=timeout,
        # A recorded host lacks the link to it.
        host="host" + address.partition(":")[0] if address else None,
        dm_name=text("dm/name"),
        dm_uuid=text("dm/uuid"),
        backing_file=_backing(text("backing_dev"))
        if name.startswith("zram")
        else text("loop/backing_file"),
        uses=tuple(sorted((device_name(part), device_name(holder)) for part, holder in uses)),
        md=_md(
            text("md/level"), number("md/raid_disks"), number("md/layout"), number("md/chunk_size")
        )
        if "md" in entries
        else None,
        diskseq=number("diskseq"),
        removable=flag("removable"),
        read_only=flag("ro"),
        address=address,
        state=_path_state(text("device/state"), text("ana_state"))
        if NVME_PATH.fullmatch(name)
        else None,
        transport=text("device/transport") if name.startswith("nvme") else None,
    )


def _path_state(controller: str | None, ana_group: str | None) -> str | None:
    """Return the state of a path; controllers without ANA report no group."""
    optimized = ana_group in {None, "", "optimized"}
    return controller if optimized or controller != "live" else ana_group


def _backing(text: str | None) -> str | None:
    """Source: kernel, zram_drv.c, backing_dev_show: 'none' or a path."""
    return None if text == "none" else text


def _md(
    level: str | None, raid_disks: int | None, layout: int | None, chunk_size_bytes: int | None
) -> Md:
    return Md(level, raid_disks, layout, copies(level, raid_disks, layout), chunk_size_bytes)


def _address(root: Machine, path: str) -> str | None:
    found = root.try_names(path + "/device/scsi_device")
    if found is None:  # 'scsi_device:0:0:1:0': kernel 2.6.18, drivers/base/class.c, make_class_name
        links = root.try_names(path + "/device") or ()
        found = [link.partition(":")[2] for link in links if link.startswith("scsi_device:")]
    return next((each for each in found if _ADDRESS.fullmatch(each)), None)


def ata_ports(root: Machine) -> dict[str, str]:
    """Return the ATA port of each SCSI host of libata; those behind a SAS adapter have no host.

    Other names below a port are included as well, and have no effect.

    Source: kernel, libata-scsi.c, ata_scsi_add_hosts: a port's host is below it; libata-transport.c
    (2.6.37+).
    """
    return {
        host: port
        for port in root.try_names(ATA_PORTS) or ()
        if _PORT.fullmatch(port)
        for host in root.try_names(f"{ATA_PORTS}/{port}/device") or ()
    }


def _attached(root: Machine, devices: Mapping[str, Device]) -> dict[str, Device]:
    """Return the devices with what they hang off: ATA ports, SAS expanders, enclosures."""
    ports, expanders, enclosures = ata_ports(root), _expanders(root), _enclosures(root)

    def attached(device: Device) -> Device:
        port = ports.get(device.host or "")
        shelf = expanders.get((device.address or "").rpartition(":")[0])
        shelf = shelf or enclosures.get(device.name)
        return replace(device, port=port, shelf=shelf) if port or shelf else device

    return {name: attached(device) for name, device in devices.items()}


def _expanders(root: Machine) -> dict[str, str]:
    """Return the SAS expander of each SCSI target behind one: 'expander-1:0' of '1:0:3'.

    Source: kernel, scsi_transport_sas.c: the target is below its end device (2.6.14+). Drivers that
    use this transport: mpt3sas, smartpqi, libsas; RAID controllers show no expander.
    """
    return {
        target[1]: f"expander-{behind[1]}"
        for name in root.try_names(SAS_END_DEVICES) or ()
        if (behind := _BEHIND_EXPANDER.fullmatch(name))
        for below in root.try_names(f"{SAS_END_DEVICES}/{name}/device") or ()
        if (target := _TARGET.fullmatch(below))
    }


def _enclosures(root: Machine) -> dict[str, str]:
    """Return the enclosure of each block device in a slot of one: 'enclosure 1:0:9:0' of 'sda'.

    Only links are read: each attribute of a slot would query the enclosure's processor, and may
    hang. Source: kernel, drivers/misc/enclosure.c, enclosure_add_links; drivers/scsi/ses.c.
    """
    return {
        device_name(device): f"{_ENCLOSURE}{printable_name(name)}"
        for name in root.try_names(ENCLOSURES) or ()
        for slot in root.try_names(f"{ENCLOSURES}/{name}") or ()
        for device in root.try_names(f"{ENCLOSURES}/{name}/{slot}/device/block") or ()
    }


def _shelf_address(root: Machine, name: str) -> str:
    """Return what is printed on a shelf, or at least the same at each boot; '' not known."""
    if name.startswith(_ENCLOSURE):
        return read_text(root, f"{ENCLOSURES}/{name.removeprefix(_ENCLOSURE)}/id") or ""
    return read_text(root, f"{SAS_DEVICES}/{name}/sas_address") or ""


SOURCE: Source[Topology] = Source(
    name="block",
    period_seconds=60,
    period_help="How often the settings in '/sys/block' are read.",
    may_hang=True,
    read=read_block,
    families=FAMILIES,
    emit=emit,
    objects=("device",),
)
