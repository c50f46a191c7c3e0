"""Errors of PCI Express: of a storage adapter or NVMe drive, or of a port that one is behind.

Also the end of a USB controller that storage is behind (drivers/usb/core/hcd.c, usb_hc_died).

A port prints them for whatever is below it, also for network and graphics cards; their lines are no
events where it is known which addresses storage has. Correctable errors were repaired by the
hardware. After others the kernel resets the device, or the port has disconnected it (DPC).
Source: Linux 2.6.30 to 6.16, drivers/pci/pcie/aer.c (aer_print_error, aer_print_port_info,
pci_print_aer), err.c (pcie_do_recovery), dpc.c (dpc_process_error) and edr.c.
Limits: lines about registers and headers are details of another line, and no events.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.kmsg.kernel_patterns import EXEMPT
from iowarden.collectors.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.kmsg.kernel_classifier import Classifier, Taken
    from iowarden.collectors.kmsg.kernel_line import KernelLine
    from iowarden.collectors.machine import Machine

CLASSES = ("/sys/class/nvme", "/sys/class/scsi_host")
_MAX_DEVICES = 4096
LOST = "hba_device_removed"
ERROR, CORRECTED, FAILED, RECOVERED = (
    *("pcie_error", "pcie_corrected", "pcie_not_recovered", "pcie_recovered"),
)
LEADS = (*("pcieport", "pcieportdrv", "pci", "dpc", "aer"), *("xhci", "ehci", "ohci", "uhci"))
_ADDRESS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_PLATFORM = r"(?:[xeou]hci-hcd\.\d{1,3}(?:\.auto)?|[0-9a-f]{6,16}\.(?:usb|dwc3))"
"""A USB controller that is not on PCI Express. Source: drivers/usb/dwc3/host.c, dwc3_host_init;
drivers/of/platform.c, of_device_make_bus_id."""
_PREFIX = lazy_pattern(
    rf"[\w-]{{1,40}} ({_ADDRESS}|{_PLATFORM})(?::pcie\d{{1,4}})?: (?:AER: |DPC: |EDR: )*"
)
"""Driver, address, and before Linux 5.0 the port's service."""
_ROWS = tuple(
    (lazy_pattern(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"(?:multiple )?correct(?:able|ed) error (?:message )?received", CORRECTED),
        (r"(?:multiple )?uncorrect\w+ \((?:non-)?fatal\) error (?:message )?received", ERROR),
        (r"PCIe Bus Error: severity=Correct", CORRECTED),
        (r"PCIe Bus Error: severity=Uncorrect", ERROR),
        (r"(?:DPC )?containment event, status", ERROR),
        (r"(?:unmasked uncorrectable error|ERR_\w+|RP PIO error|DPC [\w ]+ error) detected", ERROR),
        (r"HC died; cleaning up", "hba_dead"),
        # drivers/pci/hotplug/pciehp_ctrl.c, pciehp_handle_presence_or_link_change
        (r"pciehp: Slot\([\w-]{1,32}\): (?:Link Down|Card not present)$", LOST),
        (r"device recovery failed", FAILED),
        (r"device recovery successful", RECOVERED),
    )
)
_SOURCE = lazy_pattern(
    rf"received(?: from|:) (?:({_ADDRESS})|id=([0-9a-f]{{2}})([0-9a-f]{{2}})\b)", re.ASCII
)
"""The device that reported to the port; before Linux 5.0 bus, and device and function in one
byte, without the domain."""


_IN_PATH = rf"{_ADDRESS}|(?<=/){_PLATFORM}(?=/)"


def storage_addresses(root: Machine) -> Mapping[str, str]:
    """Return the drive or adapter at or behind each controller: 'nvme0', 'host6', '' for several.

    Source: the links in CLASSES, which name each port before the device: '../../devices/pci0000:00/
    0000:00:1d.0/0000:01:00.0/nvme/nvme0'. Errors: none; what cannot be read is left out.
    """
    found: dict[str, set[str]] = {}
    for directory in CLASSES:
        for name in sorted(root.try_names(directory) or ())[:_MAX_DEVICES]:
            for address in re.findall(_IN_PATH, root.try_link(f"{directory}/{name}") or ""):
                found.setdefault(address, set()).add(name)
    return {at: "".join(names) if len(names) == 1 else "" for at, names in found.items()}


def pci_line(state: Classifier, line: KernelLine, text: str) -> Taken:  # noqa: ARG001 - LineReader
    """Parse a line of a PCI Express port, or of a PCI device without a driver."""
    prefix = _PREFIX.match(text)
    if prefix is None:
        return state, None
    rest = text[prefix.end() :]
    kind = next((kind for pattern, kind in _ROWS if pattern.match(rest)), "")
    if not kind:
        return state, None
    if kind == LOST and not state.storage_addresses:
        # In a pasted text it is unknown what the slot held: a dock or a graphics card that sleeps.
        return state, EXEMPT
    address, source = prefix[1], _SOURCE.search(rest)
    if source is not None:
        address = source[1] or _address(prefix[1], source[2], source[3])
    return state, located_at(state, (kind, {"controller": address}))


def _address(port: str, bus: str, function: str) -> str:
    number = int(function, 16)
    domain, _, _ = port.partition(":")
    return f"{domain}:{bus}:{number >> 3:02x}.{number & 7}"


def located_at(
    state: Classifier, found: tuple[str, dict[str, object]]
) -> tuple[str, dict[str, object]]:
    """Return an event of this module with the device at its address; EXEMPT if that is no storage.

    Unchanged where no addresses are known, as in a pasted text.
    """
    kind, fields = found
    if not state.storage_addresses:
        return found
    address = str(fields["controller"])
    name = state.storage_addresses.get(address)
    if name is None:
        return EXEMPT
    if name.startswith("nvme"):
        return kind, {"device": name}
    return kind, {"controller": name or address}
