"""SCSI host adapters and devices: queue depths, states and error counts, from '/sys/class'."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping  # noqa: TC003 - to be evaluated
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from iowarden.collectors.block.block_devices import ata_ports
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import AbsentError, Family, Metric, ParseError, describe
from iowarden.collectors.source import Source
from iowarden.collectors.sysfs import Attributes, attributes, device_name, printable_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.model import Labels, Sample

HOSTS = "/sys/class/scsi_host"
DEVICES = "/sys/class/scsi_device"
FABRICS = ("/sys/class/fc_host", "/sys/class/iscsi_host")
"""Has the hosts independent of the names of their drivers. Source: kernel, scsi_transport_fc.c,
scsi_transport_iscsi.c.
"""
MULTI_QUEUE = "/sys/module/scsi_mod/parameters/use_blk_mq"
PCI_DRIVERS = "/sys/bus/pci/drivers"
USB_DRIVERS = "/sys/bus/usb/drivers"
_USB_STORAGE = ("usb-storage", "ums", "uas")
"""Prefixes of the drivers of USB storage: 'ums-realtek', 'ums_eneub6250'."""
_ADDRESS = lazy_pattern(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_NUMBERED = {
    "mpt3sas": ("mpt3sas_cm{}", "mpt3sas{}"),
    "mpt2sas": ("mpt2sas_cm{}", "mpt2sas{}"),
    "mpi3mr": ("mpi3mr{}",),
    **dict.fromkeys(("mptsas", "mptspi", "mptfc"), ("ioc{}",)),
    "aacraid": ("AAC{}",),
}
"""Adapter names in the kernel log, by proc_name; the adapter's number is unique_id.

Source: Linux 6.1 and 6.12, mpt3sas_scsih.c (ioc->name, shost->unique_id; without '_cm' before 4.4,
not checked), mpi3mr_os.c (mrioc->name), fusion/mptbase.c (ioc->name) with mptsas.c, mptspi.c and
mptfc.c (sh->unique_id), aacraid/linit.c (aac->id).
"""
_PCI_NAMES = (
    *("3w-9xxx", "3w-sas", "3w-xxxx", "aic94xx", "bfa", "csiostor", "efct", "fnic", "mpt3sas"),
    *("mvsas", "qedf", "qla2xxx", "snic"),
)
"""PCI drivers of hosts without a proc_name, or with another one (mpt2sas). Source: Linux 6.1."""
_OLD_BLOCK = "block:"
_SESSION = lazy_pattern(r"session\d{1,9}", re.ASCII)
_COUNTER = lazy_pattern(r"0x[0-9a-f]{1,16}", re.ASCII)
_SIGN_BITS = 0xFFFFFFFF_80000000


@dataclass(frozen=True, slots=True)
class ScsiHost:
    """A host adapter ('host2'). None: the kernel does not report it.

    Source: kernel, drivers/scsi/scsi_sysfs.c (can_queue, cmd_per_lun, host_busy, proc_name).
    """

    name: str
    driver: str | None
    """proc_name: 'ahci', 'megaraid_sas', '3w-9xxx', 'arcmsr' ..."""
    can_queue: Annotated[
        int | None,
        Metric("gauge", "Maximum commands in flight at the host adapter, over all its devices."),
    ]
    cmd_per_lun: Annotated[
        int | None, Metric("gauge", "Initial queue depth of a device (cmd_per_lun).")
    ]
    busy: Annotated[int | None, Metric("gauge", "Commands in flight at the host adapter.")]
    """Commands in flight; kernels from 4.4 on count them only on request."""
    read_error: str = ""
    """The first attribute that exists and could not be read, and why."""
    names: tuple[str, ...] = ()
    """Its other names in the kernel log: 'mpt3sas_cm0', '0000:03:00.0', 'session1' of iSCSI,
    'ata3' of an ATA port; see `host_names`.
    """
    fabric: bool = False
    """Whether its devices are reached through Fibre Channel or iSCSI."""
    usb: bool = False
    """Whether it is a USB device; uas sets no name, other drivers of usb-storage their own."""


@dataclass(frozen=True, slots=True)
class ScsiDevice:
    """A device 'host:channel:target:lun'. None: the kernel does not report it.

    Source: kernel, drivers/scsi/scsi_sysfs.c; the counters are printed in hexadecimal.
    Limits: the counters are 32-bit and wrap.
    """

    address: str
    host: str
    device: str | None
    """Its block device ('sda'), if it has one."""
    kind: int | None
    """Peripheral device type: 0 is a disk, 13 an enclosure. Source: SPC-4, 6.4.2."""
    state: str | None
    """'running', 'offline', 'blocked' ..."""
    queue_depth: int | None
    timeout_seconds: float | None
    requests_total: Annotated[int | None, Metric("counter", "SCSI commands sent to a device.")]
    completions_total: Annotated[int | None, Metric("counter", "SCSI commands completed.")]
    errors_total: Annotated[
        int | None,
        Metric("counter", "SCSI commands that failed, including harmless unsupported ones."),
    ]
    """Includes harmless unsupported commands."""
    timeouts_total: Annotated[int | None, Metric("counter", "SCSI commands that timed out (6.1+).")]
    """iotmo_cnt."""
    read_error: str = ""
    """The first attribute that exists and could not be read, and why."""
    access_state: str | None = None
    """Of a path to a storage array (ALUA): 'active/optimized', 'active/non-optimized', 'standby',
    'unavailable', 'offline', 'transitioning', 'lba-dependent'; None: it has no device handler."""


@dataclass(frozen=True, slots=True)
class ScsiTopology:
    """All SCSI hosts by name, and devices by address."""

    hosts: Mapping[str, ScsiHost]
    devices: Mapping[str, ScsiDevice]
    multi_queue: bool | None
    """Whether SCSI uses the multi-queue block layer; None: not reported (always from 5.0 on)."""


_HOST_FAMILIES, _emit_host = describe(ScsiHost, "iowarden_scsi_host_")
_COUNTERS, _emit_counters = describe(ScsiDevice, "iowarden_device_scsi_")
FAMILIES = (
    Family("iowarden_scsi_host_info", "gauge", "1; driver of a host adapter."),
    *_HOST_FAMILIES,
    Family("iowarden_scsi_blk_mq", "gauge", "1 when SCSI uses the multi-queue block layer."),
    Family("iowarden_device_scsi_info", "gauge", "1; SCSI address and host adapter of a device."),
    Family("iowarden_device_scsi_state", "gauge", "1; SCSI state of a device in the kernel."),
    Family("iowarden_device_scsi_running", "gauge", "1 when a device's SCSI state is 'running'."),
    Family(
        "iowarden_device_queue_depth",
        "gauge",
        "Maximum commands that the kernel has in flight at a device.",
    ),
    *_COUNTERS,
)


def parse_counter(text: str) -> int:
    """Parse a counter as the kernel prints it: '0x1a'. Errors: ValueError.

    The kernel extends the sign of its 32-bit counters: from 2^31 on they are printed as
    '0xffffffff80000000' (drivers/scsi/scsi_sysfs.c, show_sdev_iostat).
    """
    if _COUNTER.fullmatch(text) is None:
        raise ValueError(f"expected '0x<hexadecimal digits>', got {text[:40]!r}")
    number = int(text, 16)
    return number & 0xFFFFFFFF if number & _SIGN_BITS == _SIGN_BITS else number


def emit(value: ScsiTopology) -> list[Sample]:
    """Return the samples of FAMILIES; of devices only those with a block device."""
    samples: list[Sample] = []
    if value.multi_queue is not None:
        samples.append(("iowarden_scsi_blk_mq", (), float(value.multi_queue)))
    for name, host in value.hosts.items():
        labels: Labels = (("driver", host.driver or ""), ("host", name))
        samples.append(("iowarden_scsi_host_info", labels, 1.0))
        samples += _emit_host(host, (("host", name),))
    for address, device in value.devices.items():
        if device.device is None:
            continue
        own = ("device", device.device)
        labels = (("address", address), own, ("host", device.host))
        samples.append(("iowarden_device_scsi_info", labels, 1.0))
        if device.state is not None:
            running = float(device.state == "running")
            labels = (own, ("state", device.state))
            samples.append(("iowarden_device_scsi_state", labels, 1.0))
            samples.append(("iowarden_device_scsi_running", (own,), running))
        if device.queue_depth is not None:
            samples.append(("iowarden_device_queue_depth", (own,), device.queue_depth))
        samples += _emit_counters(device, (own,))
    return samples


def unreadable(value: ScsiTopology) -> Iterator[tuple[Labels, str]]:
    """Yield the hosts and block devices with an unreadable attribute, and why."""
    for name, host in value.hosts.items():
        if host.read_error:
            yield (("host", name),), host.read_error
    for device in value.devices.values():
        if device.read_error and device.device is not None:
            yield (("device", device.device),), device.read_error


def host_names(hosts: Mapping[str, ScsiHost]) -> dict[str, str]:
    """Return the host adapters ('host6') by their other names in the kernel log.

    These are the driver's own number, the PCI address, which most drivers print (dev_printk), and
    the driver's name alone: 'megaraid_sas'. '' marks a name of several hosts: none is meant.
    """
    found: dict[str, set[str]] = {}
    for name, host in hosts.items():
        for other in (*host.names, *([host.driver] if host.driver else ())):
            found.setdefault(other, set()).add(name)
    return {other: "".join(names) if len(names) == 1 else "" for other, names in found.items()}


def fabrics(value: ScsiTopology) -> frozenset[str]:
    """Return the hosts whose devices are LUNs of a storage array or another host."""
    return frozenset(name for name, host in value.hosts.items() if host.fabric)


def read_scsi(root: Machine) -> ScsiTopology:
    """Read all host adapters and devices; what vanishes meanwhile is left out.

    Limits: may hang on a faulty host adapter.
    Errors: AbsentError, ReadError (of the two directories of a class), ParseError.
    """
    hosts, multi_queue = {}, []
    fabrics = {name for directory in FABRICS for name in root.try_names(directory) or ()}
    on_usb = _on_usb(root)
    for name in root.names(HOSTS):
        found = attributes(root, f"{HOSTS}/{name}")
        if found is not None:
            host, says = _host(name, found, fabric=name in fabrics), found.flag("use_blk_mq")
            host = replace(host, usb=name in on_usb)
            if not found.vanished():
                hosts[host.name] = host
                multi_queue.append(says)
    for name, address in _addresses(root, hosts).items():
        hosts[name] = replace(hosts[name], names=(*hosts[name].names, address))
    for name, port in ata_ports(root).items():
        if name in hosts:
            hosts[name] = replace(hosts[name], names=(*hosts[name].names, port))
    for name in root.try_names(FABRICS[1]) or ():
        own = root.try_names(f"{FABRICS[1]}/{name}/device") or ()
        sessions = tuple(each for each in own if _SESSION.fullmatch(each))
        if sessions and name in hosts:
            hosts[name] = replace(hosts[name], names=(*hosts[name].names, *sessions))
    devices = {}
    for address in root.names(DEVICES):
        found = attributes(root, f"{DEVICES}/{address}/device")
        if found is not None:
            device = _device(address, found)
            if not found.vanished():
                devices[device.address] = device
    return ScsiTopology(hosts, devices, _multi_queue(root, multi_queue))


def _on_usb(root: Machine) -> frozenset[str]:
    """Return the hosts that are USB devices: each is below the interface that its driver has.

    Found from the driver down: a recording has no path with '..', which leads to the interface from
    the host. Source: kernel, drivers/base/bus.c (driver_sysfs_add), drivers/usb/storage.
    """
    drivers = root.try_names(USB_DRIVERS) or ()
    return frozenset(
        name
        for driver in drivers
        if driver.startswith(_USB_STORAGE)
        for interface in root.try_names(f"{USB_DRIVERS}/{driver}") or ()
        if ":" in interface  # '2-1:1.0'; a device itself has none, nor has 'bind' or 'new_id'
        for name in root.try_names(f"{USB_DRIVERS}/{driver}/{interface}") or ()
    )


def _host(name: str, found: Attributes, *, fabric: bool) -> ScsiHost:
    # The kernel prints this if a driver sets no name.
    driver = None if (text := found.text("proc_name")) in {"(null)", "<NULL>"} else text
    own = found.signed("unique_id")
    return ScsiHost(
        name=printable_name(name),
        driver=driver,
        can_queue=_not_negative(found.signed("can_queue")),
        cmd_per_lun=_not_negative(found.signed("cmd_per_lun")),
        busy=_not_negative(found.signed("host_busy")),
        read_error=found.read_error,
        names=tuple(
            form.format(own) for form in _NUMBERED.get(driver or "", ()) if own is not None
        ),
        fabric=fabric,
    )


def _addresses(root: Machine, hosts: Mapping[str, ScsiHost]) -> dict[str, str]:
    """Return the PCI address of each host that is a PCI function of its own."""
    names = [*_PCI_NAMES, *(host.driver for host in hosts.values() if host.driver)]
    found: dict[str, str] = {}
    for driver in dict.fromkeys(names):
        for address in root.try_names(f"{PCI_DRIVERS}/{driver}") or ():
            if _ADDRESS.fullmatch(address):
                own = root.try_names(f"{PCI_DRIVERS}/{driver}/{address}") or ()
                found |= {name: address for name in own if name in hosts}
    return found


def _block_entry(found: Attributes) -> str | None:
    """Return the name in sysfs of a device's disk, None if it has none.

    'block/sda', or 'block:sda' (kernel 2.6.18, fs/partitions/check.c, make_block_name; up to 2.6.39
    with CONFIG_SYSFS_DEPRECATED, drivers/base/core.c).
    """
    block = found.below("block")
    if block is not None:
        return next(iter(block.entries), None)
    old = (entry.removeprefix(_OLD_BLOCK) for entry in found.entries if entry[:6] == _OLD_BLOCK)
    return next(old, None)


def _device(address: str, found: Attributes) -> ScsiDevice:
    disk = _block_entry(found)
    seconds = found.count("timeout")
    # Without a handler the kernel refuses to read its state (scsi_sysfs.c, sdev_show_access_state).
    has_handler = found.text("dh_state") not in {None, "detached"}
    return ScsiDevice(
        address=printable_name(address),
        host="host" + printable_name(address.partition(":")[0]),
        device=None if disk is None else device_name(disk),
        kind=found.signed("type"),
        state=found.text("state"),
        queue_depth=_not_negative(found.signed("queue_depth")),
        timeout_seconds=None if seconds is None else float(seconds),
        requests_total=_counter(found, "iorequest_cnt"),
        completions_total=_counter(found, "iodone_cnt"),
        errors_total=_counter(found, "ioerr_cnt"),
        timeouts_total=_counter(found, "iotmo_cnt"),
        access_state=found.text("access_state") if has_handler else None,
        read_error=found.read_error,
    )


def _counter(found: Attributes, name: str) -> int | None:
    text = found.text(name)
    try:
        return None if text is None else parse_counter(text)
    except ValueError:
        raise found.wrong(name, "'0x<hexadecimal digits>'", text or "") from None


def _not_negative(number: int | None) -> int | None:
    # Printed as signed 16 and 32 bits: a driver's 'no limit' appears as less than 0.
    return None if number is not None and number < 0 else number


def _multi_queue(root: Machine, hosts: Iterable[bool | None]) -> bool | None:
    """Return the module's setting, else that of its hosts, else None."""
    try:
        text = root.read(MULTI_QUEUE).strip()
    except AbsentError:
        said = [says for says in hosts if says is not None]
        return all(said) if said else None
    if text not in {"Y", "N"}:
        raise ParseError(f"'{MULTI_QUEUE}': expected 'Y' or 'N', got {text[:80]!r}")
    return text == "Y"


SOURCE: Source[ScsiTopology] = Source(
    name="scsi",
    period_seconds=15,
    period_help="How often SCSI host adapters and devices are read.",
    may_hang=True,
    read=read_scsi,
    families=FAMILIES,
    emit=emit,
    objects=("device",),
    unreadable=unreadable,
)
