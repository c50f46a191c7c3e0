"""SCSI host topology from sysfs: adapters, volumes of RAID controllers, attached drives.

Only those names and texts of sysfs are read that need no access to a disk or an enclosure.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping  # noqa: TC003 - to be evaluated
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.block.enclosure import place
from iowarden.collectors.block.udev import DIRECTORY as UDEV
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import AbsentError, ReadError
from iowarden.collectors.smart.drive import AccessMethod, ReadStatus
from iowarden.collectors.sysfs import entry_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iowarden.collectors.block.block_devices import Device, Topology
    from iowarden.collectors.machine import Machine

HOSTS = "/sys/class/scsi_host"
DEVICES = "/sys/class/scsi_device"
GENERIC = "/sys/class/scsi_generic"
NVME = "/sys/class/nvme"
ENCLOSURES = "/sys/class/enclosure"
ADAPTER = r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
"""A PCI address."""
PCI_DRIVERS = "/sys/bus/pci/drivers"

DISK, PROCESSOR, RAID_CONTROLLER = 0, 3, 12
"""Peripheral device types. Source: SPC-5, 6.6.2."""
_BLOCKS = frozenset({"0", "20"})
_DRIVES = frozenset({"1", "4", "5", "7", "8"})
_NO_DRIVES = frozenset({"3", "12", "13"})
"""Groups of them: disks, also zoned; tapes, optical drives and changers; processors, controllers
and enclosures.
"""


class HostRole(enum.Enum):
    """Role of a host that may be a plain adapter or a RAID controller, as the kernel shows it."""

    NOTHING = enum.auto()
    """Undecided: a controller whose volumes all failed looks like an adapter without drives."""
    DRIVES = enum.auto()
    """Drives alone, which are polled directly."""
    VOLUMES = enum.auto()
    """A volume, a disk without a block device, or a device that may be one of them."""


@dataclass(frozen=True, slots=True)
class Raid:
    """A driver of RAID controllers.

    Fields: `family` is smartctl's '-d' for its disks, '' if it has none; its volumes are on
    `channels`, the disks on other channels are not hidden.
    """

    family: str = ""
    channels: range = range(256)


RAID = {
    "arcmsr": Raid("areca"),
    "3w-xxxx": Raid("3ware"),
    "3w-9xxx": Raid("3ware"),
    "3w-sas": Raid("3ware"),
    # Volumes follow its two channels of disks (megaraid_sas.h; seen on our test host).
    "megaraid_sas": Raid("megaraid", range(2, 256)),
    # Containers are on channel 0 (CONTAINER_CHANNEL of aacraid.h).
    "aacraid": Raid("aacraid", range(1)),
    # hpsa.h and smartpqi.h: physical devices are on bus 0, volumes after it; volumes of old kernels
    # are identified by their model.
    "hpsa": Raid("cciss", range(1, 256)),
    "smartpqi": Raid("cciss", range(1, 256)),
    "hptiop": Raid("hpt"),
    "sssraid": Raid("sssraid"),
    **{name: Raid() for name in ("ips", "stex", "megaraid", "megaraid_mbox", "gdth", "dpt_i2o")},
    **{name: Raid() for name in ("myrb", "myrs", "pmcraid", "mvumi")},
}
MPT = frozenset({"mpt3sas", "mpt2sas", "mptsas", "mptspi"})
"""Adapters that may also mirror disks: the volume is on channel 1 (RAID_CHANNEL of mpt3sas_base.h),
and its disks have no block device (no_uld_attach), only '/dev/sgN'.
"""
MPT_VOLUMES = range(1, 2)
_NETWORK = frozenset({"iscsi_tcp", "ib_srp", "ib_iser", "iser", "zfcp"})
_USB = lazy_pattern(r"usb-storage|uas|ums-.*")

_VIRTUAL = lazy_pattern(
    r"(QEMU|VMware,?|VBOX|Msft|LIO-ORG|XENSRC|Xen|Google|NUTANIX|Amazon|AMI|iDRAC) .*"
    r"|Linux (scsi_debug|File-.*)|\S* ?Virtual (Disk|HDisk|Floppy|CDROM|Media|USB).*",
    re.IGNORECASE,
)
"""Vendor and model of virtual disks; also those that a BMC offers."""
_ARRAY = lazy_pattern(
    r"NETAPP .*|EMC .*|DGC .*|DellEMC .*|3PARdata .*|PURE .*|Nimble .*|EQLOGIC .*|COMPELNT .*"
    r"|IBM 2(107|145|076|810).*|HPE? (MSA|P2000|HSV|OPEN).*|DELL MD3.*|HITACHI (OPEN|DF600).*"
    r"|HUAWEI (XSG|S\d).*|FUJITSU ETERNUS.*|LSI INF-.*|DDN .*|TrueNAS .*|SYNOLOGY .*"
    r"|.* Universal Xport"
)
"""Vendor and model of logical units of storage arrays, from multipath-tools' table."""
_VOLUME = lazy_pattern(
    r".*LOGICAL VOLUME.*|.*\b(PERC|MegaRAID|ServeRAID)\b.*|(BROADCOM|AVAGO|LSI) MR\d.*|.*1030 IM",
    re.IGNORECASE,
)
"""Vendor and model of volumes whose driver or channel does not distinguish them from disks."""
_BOOT_MIRROR = lazy_pattern(
    r"DELL ?BOSS(?: VD|-[A-Z]\d)|NS204i|ThinkSystem M\.2 .*RAID", re.IGNORECASE
)
"""Models of Dell's, HPE's and Lenovo's cards with a chip of Marvell (88SE9230, 88NR2241)."""
_REFUSED_BRIDGES = lazy_pattern(r"04b4:683[01]")
"""Cypress: smartctl would choose 'usbcypress' itself. Source: smartctl's drive database."""

THREEWARE = {"3w-xxxx": "twe", "3w-9xxx": "twa", "3w-sas": "twl"}
"""Source: smartctl(8), '-d 3ware'."""
_NETWORK_BLOCK = lazy_pattern(r"(nbd|rbd|etherd/|rnbd).*")
SD_NAME = lazy_pattern(r"sd[a-z]{1,3}")
NVME_DEVICE = lazy_pattern(r"nvme\d+(c\d+)?n\d+")
_USB_IDS = ("ID_VENDOR_ID", "ID_MODEL_ID")
_POLL_HINT = "whose health the array monitors; to poll it anyway, add it under 'smart: drives:'"
_PART_OF_MMC = lazy_pattern(r"mmcblk\d+(boot\d+|rpmb)")


@dataclass(frozen=True, slots=True)
class UnmonitoredDevice:
    """A device that is not polled. Fields: `what` is for users; `device`: block device or ''."""

    what: str
    status: ReadStatus
    reason: str
    device: str = ""


@dataclass(frozen=True, slots=True)
class VirtualDrive:
    """A virtual drive of a RAID controller: its health is that of the disks behind it."""

    device: str
    controller: str
    driver: str


@dataclass(frozen=True, slots=True)
class Host:
    """A SCSI host. `address` is that of its PCI adapter, where it is a RAID controller."""

    name: str
    driver: str
    address: str = ""
    network: str = ""
    """'Fibre Channel', 'iSCSI' or ''."""

    def number(self) -> int:
        """Return the 2 of 'host2'."""
        return int(self.name[4:])


@dataclass(frozen=True, slots=True)
class ScsiNode:
    """A SCSI device at a host that may hide disks."""

    host: str
    channel: int
    device: str
    generic: str
    kind: int | None
    vendor: str


@dataclass(frozen=True, slots=True)
class HostTopology:
    """Host topology from sysfs: how drives are attached."""

    topology: Topology
    hosts: Mapping[str, Host]
    nodes: tuple[ScsiNode, ...]
    nvme: Mapping[str, tuple[str, ...]]
    """Namespaces, and paths to namespaces, by NVMe controller."""
    slots: Mapping[str, str]
    problems: list[str] = field(default_factory=list)
    unlisted: set[str] = field(default_factory=set)
    """Controllers that did not list their disks: those known before may still exist."""

    def raid(self, host: str) -> Raid | None:
        """Return the entry for a host's driver if it is a driver of RAID controllers."""
        return RAID.get(self.hosts[host].driver) if host in self.hosts else None

    def generic(self, host: str, kind: int | None = None) -> str:
        """Return the '/dev/sgN' of a host's controller, else of any of its devices, or ''."""
        nodes = [node for node in self.nodes if node.host == host and node.generic]
        found = [node for node in nodes if node.kind == kind]
        return f"/dev/{(found or nodes)[0].generic}" if found or (nodes and kind is None) else ""


def read_machine(root: Machine, topology: Topology) -> HostTopology:
    """Read the host topology. Limits: may hang on a faulty adapter."""
    problems: list[str] = []
    names = listed(root, HOSTS, problems)
    addresses = _adapters(root, problems)
    network = {
        host: word
        for directory, word in (("fc_host", "Fibre Channel"), ("iscsi_host", "iSCSI"))
        for host in listed(root, f"/sys/class/{directory}", problems)
    }
    hosts = {}
    for name in names:
        if not re.fullmatch(r"host\d{1,9}", name, re.ASCII):
            continue
        address, driver = addresses.get(name, ("", ""))
        # arcmsr gives itself a 'proc_name' only since a change of March 2023.
        driver = driver or text_of(root, f"{HOSTS}/{name}/proc_name")
        driver = "" if driver in {"(null)", "<NULL>"} else driver
        hosts[name] = Host(name, driver, address, network.get(name, ""))
    return HostTopology(
        topology,
        hosts,
        tuple(_nodes(root, hosts, problems)),
        _nvme(root, problems),
        _slots(root, problems),
        problems,
    )


def _adapters(root: Machine, problems: list[str]) -> dict[str, tuple[str, str]]:
    """Return PCI address and driver of RAID controllers, by host."""
    return {
        entry: (address, driver)
        for driver in RAID
        for address in listed(root, f"{PCI_DRIVERS}/{driver}", problems)
        if re.fullmatch(ADAPTER, address, re.ASCII)
        for entry in listed(root, f"{PCI_DRIVERS}/{driver}/{address}", problems)
        if re.fullmatch(r"host\d{1,9}", entry, re.ASCII)
    }


def _nodes(root: Machine, hosts: Mapping[str, Host], problems: list[str]) -> Iterator[ScsiNode]:
    """Yield the devices of hosts that may hide disks; those of others are not listed."""
    hiding = {name[4:] for name, host in hosts.items() if host.driver in {*RAID, *MPT}}
    for address in listed(root, DEVICES, problems) if hiding else ():
        parts = address.split(":")
        if len(parts) != 4 or parts[0] not in hiding or not parts[1].isdecimal():
            continue
        path = f"{DEVICES}/{address}/device"
        entries = listed(root, path, problems)
        blocks = listed(root, f"{path}/block", problems) if "block" in entries else []
        generics = (
            listed(root, f"{path}/scsi_generic", problems) if "scsi_generic" in entries else []
        )
        kind = text_of(root, f"{path}/type") if not blocks else str(DISK)
        yield ScsiNode(
            host="host" + parts[0],
            channel=int(parts[1]),
            device=blocks[0] if blocks else "",
            generic=generics[0] if generics else "",
            kind=int(kind) if re.fullmatch(r"\d{1,3}", kind, re.ASCII) else None,
            vendor=text_of(root, f"{path}/vendor") if not blocks else "",
        )


def _nvme(root: Machine, problems: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the namespaces of each NVMe controller.

    Source: kernel, drivers/nvme/host/core.c: 'nvme1n1' counts subsystems, not controllers; with
    multipathing a controller has 'nvme1c0n1', which is a path to 'nvme1n1'.
    """
    return {
        name: tuple(
            entry
            for entry in listed(root, f"{NVME}/{name}", problems)
            if re.fullmatch(r"nvme\d{1,5}(c\d{1,5})?n\d{1,5}", entry, re.ASCII)
        )
        for name in listed(root, NVME, problems)
        if re.fullmatch(r"nvme\d{1,5}", name, re.ASCII)
    }


def _slots(root: Machine, problems: list[str]) -> dict[str, str]:
    """Return the slot of each block device. The enclosure, which may hang, is not queried."""
    return {
        device: place(slot, f"enclosure {enclosure}")
        for enclosure in listed(root, ENCLOSURES, problems)
        for slot in listed(root, f"{ENCLOSURES}/{enclosure}", problems)
        if slot not in {"device", "power", "subsystem", "uevent", "components", "id"}
        for device in listed(root, f"{ENCLOSURES}/{enclosure}/{slot}/device/block", problems)
    }


def leaves(
    root: Machine, machine: HostTopology
) -> tuple[list[AccessMethod], list[VirtualDrive], list[UnmonitoredDevice]]:
    """Sort the leaf devices into drives, volumes and devices that cannot be polled."""
    channels = {node.device: node.channel for node in machine.nodes if node.device}
    found: list[AccessMethod | VirtualDrive | UnmonitoredDevice | None] = []
    rest = []
    for name in machine.topology.leaves:
        device = machine.topology.devices[name]
        if not NVME_DEVICE.fullmatch(name):
            found.append(_leaf(root, machine, device, channels.get(entry_name(name))))
        elif not any(name in entries for entries in machine.nvme.values()):
            rest.append(name)
    controllers = dict(machine.nvme)
    for name in rest:  # a machine that lists no NVMe controllers
        controller = re.sub(r"(c\d+)?n\d+$", "", name)
        controllers[controller] = (*controllers.get(controller, ()), name)
    for controller, entries in controllers.items():
        found += _nvme_drive(root, machine.topology, controller, entries)
    found += _boot_mirrors(root, machine, controllers)
    return (
        [each for each in found if isinstance(each, AccessMethod)],
        [each for each in found if isinstance(each, VirtualDrive)],
        [each for each in found if isinstance(each, UnmonitoredDevice)],
    )


def _boot_mirrors(
    root: Machine, machine: HostTopology, controllers: Iterable[str]
) -> Iterator[UnmonitoredDevice]:
    """Yield the cards for two M.2 drives that show the kernel one plain drive, their mirror.

    The health of that drive is no health of the two: iowarden has no reader of the card's program.
    """
    models = {name: machine.topology.devices[name].model or "" for name in machine.topology.leaves}
    models = {name: model for name, model in models.items() if SD_NAME.fullmatch(name)}
    models |= {name: text_of(root, f"{NVME}/{name}/model") for name in controllers}
    for name, model in models.items():
        if found := _BOOT_MIRROR.search(model):
            program = "mnv_cli" if name.startswith("nvme") else "mvcli"
            reason = (
                f"'{found[0]}' is a card that mirrors two drives and hides them; iowarden cannot"
                f" read them. Their state: '{program} info -o vd' and '{program} info -o pd'"
            )
            yield UnmonitoredDevice(f"drives behind {name}", ReadStatus.NO_PASS_THROUGH, reason)


def _nvme_drive(
    root: Machine, topology: Topology, controller: str, entries: tuple[str, ...]
) -> list[AccessMethod | VirtualDrive | UnmonitoredDevice | None]:
    """Return the access method of an NVMe drive: one, however many namespaces it has."""
    leaves = [entry for entry in entries if entry in topology.leaves]
    transport = text_of(root, f"{NVME}/{controller}/transport") or "pcie"
    if transport not in {"pcie", "apple-nvme"}:
        reason = f"a namespace of a storage array over {transport}, {_POLL_HINT}"
        return [UnmonitoredDevice(name, ReadStatus.LUN, reason, name) for name in leaves]
    path = f"/dev/{controller}"
    return [AccessMethod(path, "nvme", leaves[0] if leaves else "", path, "nvme")]


def _leaf(
    root: Machine, machine: HostTopology, device: Device, channel: int | None
) -> AccessMethod | VirtualDrive | UnmonitoredDevice | None:
    """Return the kind of a block device but an NVMe namespace; None: none, as without medium."""
    name = device.name
    is_unconnected = device.size_bytes == 0 and _NETWORK_BLOCK.fullmatch(name)
    if device.has_no_medium or is_unconnected or _PART_OF_MMC.fullmatch(name):
        return None
    if name.startswith("cciss/"):
        return VirtualDrive(name, f"/dev/{name.partition('d')[0]}d0", "cciss")
    if _NETWORK_BLOCK.fullmatch(name):
        return UnmonitoredDevice(name, ReadStatus.LUN, "a block device over the network", name)
    if not SD_NAME.fullmatch(name):
        # Only the reason: which kinds smartctl can read is a fact of smartctl, and no guard.
        virtual = re.fullmatch(r"x?vd[a-z]+", name)
        what = "a virtual disk" if virtual else "a device of a kind that smartctl cannot read"
        return UnmonitoredDevice(name, ReadStatus.NO_SMART, what, name)
    host = machine.hosts.get(device.host or "", Host(device.host or "", ""))
    label = f"{device.vendor or ''} {device.model or ''}"
    raid = RAID.get(host.driver)
    channels = raid.channels if raid else MPT_VOLUMES if host.driver in MPT else range(0)
    if host.network or host.driver in _NETWORK or _ARRAY.fullmatch(label):
        over = f" over {host.network}" if host.network else ""
        reason = f"a logical unit of a storage array{over}, {_POLL_HINT}"
        return UnmonitoredDevice(name, ReadStatus.LUN, reason, name)
    hidden = device.vendor != "ATA" if channel is None else channel in channels
    if (channels and hidden) or _VOLUME.fullmatch(label):
        return VirtualDrive(name, host.name, host.driver)
    if _VIRTUAL.fullmatch(label):
        return UnmonitoredDevice(name, ReadStatus.NO_SMART, f"a virtual disk ('{label}')", name)
    if _USB.fullmatch(host.driver) and (bridge := _refused_bridge(root, device)):
        reason = f"USB bridge {bridge}, for which smartctl has only a vendor command"
        return UnmonitoredDevice(name, ReadStatus.NO_PASS_THROUGH, reason, name)
    return AccessMethod(
        f"/dev/{name}",
        direct_kind(device, host.driver),
        name,
        host.name or f"/dev/{name}",
        host.driver,
        machine.slots.get(name, ""),
    )


def direct_kind(device: Device, driver: str) -> str:
    """Return smartctl's '-d', without which it may wake a disk to detect its type.

    The kernel's SCSI vendor of every disk behind a translation to ATA is 'ATA'. Source: SAT-3,
    8.1.3; kernel, libata-scsi.c. For USB bridges smartctl has a table, by their ids.
    """
    return "" if _USB.fullmatch(driver) else "sat" if device.vendor == "ATA" else "scsi"


def _refused_bridge(root: Machine, device: Device) -> str:
    text = text_of(root, f"{UDEV}/b{device.device_number}")
    found = [re.search(rf"\bE:{key}=([0-9a-f]{{4}})\b", text) for key in _USB_IDS]
    bridge = ":".join(match[1] for match in found if match)
    return bridge if _REFUSED_BRIDGES.fullmatch(bridge) else ""


def host_role(root: Machine, host: str, driver: str) -> HostRole:
    """Return the role of a host of aacraid, hpsa, smartpqi or mpi3mr, as the kernel shows it.

    Limits: mpi3mr and smartpqi hide a failed volume: next to drives its absence is not detected.
    """
    found = HostRole.NOTHING
    for address in listed(root, DEVICES, []):
        parts = address.split(":")
        if len(parts) != 4 or f"host{parts[0]}" != host or not parts[1].isdecimal():
            continue
        path = f"{DEVICES}/{address}/device"
        kind = text_of(root, f"{path}/type")
        if kind in _NO_DRIVES:
            continue
        found = HostRole.DRIVES
        if kind not in _DRIVES and not _is_drive(root, path, int(parts[1]), kind, driver):
            return HostRole.VOLUMES
    return found


def _is_drive(root: Machine, path: str, channel: int, kind: str, driver: str) -> bool:
    """Return whether a disk is certainly a drive, and no volume.

    Source: `raid_level` of smartpqi_init.c and hpsa.c ('N/A' for a drive); `sas_address` of
    mpi3mr_os.c is empty for volumes and NVMe drives, and missing in kernels before 5.18 or so,
    where a SAS drive is uncertain.
    """
    vendor, model = (text_of(root, f"{path}/{name}") for name in ("vendor", "model"))
    raid = RAID.get(driver)
    if (
        kind not in _BLOCKS
        or "block" not in listed(root, path, [])
        or (raid and channel in raid.channels)
        or _VOLUME.fullmatch(f"{vendor} {model}")
        or text_of(root, f"{path}/raid_level") not in {"", "N/A"}
    ):
        return False
    return bool(raid) or vendor in {"ATA", "NVMe"} or bool(text_of(root, f"{path}/sas_address"))


def listed(root: Machine, path: str, problems: list[str]) -> list[str]:
    """Return the names in a directory; none if it does not exist."""
    try:
        return root.names(path)
    except AbsentError:
        return []
    except ReadError as error:
        problems.append(str(error))
        return []


def text_of(root: Machine, path: str) -> str:
    """Return a text, '' if it is missing or unreadable: then other data decide."""
    try:
        return root.read(path).strip()
    except (AbsentError, ReadError):
        return ""
