"""Errors of PCI Express: which storage is at or behind the port that prints them.

Lines by the formats of drivers/pci/pcie: aer.c, err.c and dpc.c of Linux 4.9, 6.1, 6.12 and 6.16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.kmsg.kernel_classifier import Classifier
from iowarden.collectors.kmsg.kernel_events import classify
from iowarden.collectors.kmsg.kernel_line import KernelLine
from iowarden.collectors.kmsg.kernel_pci import storage_addresses
from iowarden.collectors.machine import Machine
from iowarden.daemon.config.rule_files import load_events

if TYPE_CHECKING:
    from pathlib import Path

    from iowarden.collectors.event import StorageEvent

ADDRESSES = {
    "0000:00:1d.0": "nvme0",
    "0000:01:00.0": "nvme0",
    "0000:00:1c.0": "",
    "0000:03:00.0": "host6",
}
"""A drive behind a port of its own; a port with two adapters behind it, and one of these."""
PORT = "pcieport 0000:00:1d.0: "
NVME = {"device": "nvme0"}
LAYERS = ("Physical Layer", "Data Link Layer", "Transaction Layer")
AGENTS = ("Receiver ID", "Requester ID", "Completer ID", "Transmitter ID")


def events(text: str, addresses: dict[str, str] | None = None) -> list[StorageEvent]:
    """Return the events of a line of level warning on a machine with these addresses."""
    state = Classifier(storage_addresses=ADDRESSES if addresses is None else addresses)
    return [*classify(state, KernelLine(text, priority=4))[1]]


def severities(text: str) -> list[str]:
    """Return the severities of the events of a line."""
    table = load_events()
    found = (table.find(event).severity_of(event) for event in events(text))
    return [severity.name for severity in found if severity is not None]


@pytest.mark.parametrize(
    ("text", "kind", "where"),
    [
        (PORT + "AER: Corrected error received: 0000:01:00.0", "pcie_corrected", NVME),
        (PORT + "AER: Multiple Corrected error received: id=0100", "pcie_corrected", NVME),
        (
            PORT + "AER: Correctable error message received from 0000:01:00.0",
            "pcie_corrected",
            NVME,
        ),
        (PORT + "AER: Uncorrected (Non-Fatal) error received: 0000:01:00.0", "pcie_error", NVME),
        (
            PORT + "AER: Multiple Uncorrectable (Fatal) error message received from 0000:01:00.0",
            "pcie_error",
            NVME,
        ),
        (PORT + "AER: Uncorrected (Fatal) error received: id=00e8", "pcie_error", NVME),
        (PORT + "DPC: containment event, status:0x1f01 source:0x0000", "pcie_error", NVME),
        (
            PORT + "DPC: containment event, status:0x1f01: unmasked uncorrectable error detected",
            "pcie_error",
            NVME,
        ),
        (
            "dpc 0000:00:1d.0:pcie010: DPC containment event, status:0x1f09 source:0x0a00",
            "pcie_error",
            NVME,
        ),
        (PORT + "DPC: unmasked uncorrectable error detected", "pcie_error", NVME),
        (PORT + "DPC: RP PIO error detected", "pcie_error", NVME),
        (PORT + "AER: device recovery failed", "pcie_not_recovered", NVME),
        (PORT + "AER: Device recovery successful", "pcie_recovered", NVME),
        (
            "pcieport 0000:00:1c.0: AER: Uncorrected (Fatal) error received: 0000:03:00.0",
            "pcie_error",
            {"controller": "host6"},
        ),
        (
            "pcieport 0000:00:1c.0: AER: Device recovery failed",
            "pcie_not_recovered",
            {"controller": "0000:00:1c.0"},
        ),
    ],
)
def test_an_error_names_the_storage_that_it_is_about(
    text: str, kind: str, where: dict[str, str]
) -> None:
    """The source that the port names; else what is behind the port."""
    (event,) = events(text)
    found = {"device": event.device, "controller": event.controller}
    assert (event.kind, {name: text for name, text in found.items() if text}) == (kind, where)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("printer", ["pcieport 0000:00:1d.0: ", "nvme 0000:01:00.0: "])
def test_severity_decides_whatever_layer_and_agent_it_is(
    printer: str, layer: str, agent: str
) -> None:
    """Corrected is a notice, the others are not; of a fatal one a drive's driver lost contact."""
    for prefix in ("", "AER: "):
        begin = f"{printer}{prefix}PCIe Bus Error: severity="
        for severity in ("Corrected", "Correctable"):
            assert severities(f"{begin}{severity}, type={layer}, ({agent})") == ["NOTICE"]
        for severity in ("Uncorrected", "Uncorrectable"):
            text = f"{begin}{severity} (Non-Fatal), type={layer}, ({agent})"
            assert severities(text) == ["WARNING"]
            assert [event.device for event in events(text)] == ["nvme0"]


@pytest.mark.parametrize(
    "text",
    [
        "pcieport 0000:00:1b.0: AER: Uncorrected (Fatal) error received: 0000:05:00.0",
        "pcieport 0000:00:1b.0: DPC: containment event, status:0x1f01 source:0x0000",
        "pcieport 0000:00:1d.0: AER: Uncorrected (Fatal) error received: 0000:05:00.0",
        PORT + "  device [8086:9d1c] error status/mask=00000001/00002000",
        PORT + "   [ 0] RxErr                  (First)",
        PORT + "AER:   TLP Header: 40000001 0000000f fee00000 00000000",
        PORT + "AER: enabled with IRQ 122",
        PORT + "DPC: error containment capabilities: Int Msg #0, RPExt+ PoisonedTLP+",
    ],
)
def test_another_card_and_a_detail_are_no_events(text: str) -> None:
    """A network or graphics card; registers; what a port prints when it starts."""
    assert events(text) == []


def test_in_a_pasted_text_the_address_is_the_object() -> None:
    """Which storage the machine has is not known there."""
    (event,) = events(PORT + "AER: Uncorrected (Fatal) error received: 0000:05:00.0", {})
    assert (event.kind, event.controller) == ("pcie_error", "0000:05:00.0")


def test_ports_on_the_way_to_storage_are_in_its_links(tmp_path: Path) -> None:
    """Of an adapter with two hosts, and of a port with several adapters, no single one is meant."""
    links = {
        "nvme/nvme0": "pci0000:00/0000:00:1d.0/0000:01:00.0/nvme/nvme0",
        "scsi_host/host0": "pci0000:00/0000:00:17.0/ata1/host0/scsi_host/host0",
        "scsi_host/host1": "pci0000:00/0000:00:17.0/ata2/host1/scsi_host/host1",
        "scsi_host/host6": "pci0000:00/0000:00:1c.0/0000:03:00.0/host6/scsi_host/host6",
        "scsi_host/host8": "platform/axi/1f00300000.usb/xhci-hcd.1/usb4/4-1/host8/scsi_host/host8",
    }
    for name, target in links.items():
        link = tmp_path / "sys/class" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"../../devices/{target}")
    root = Machine(str(tmp_path))
    assert storage_addresses(root) == {
        "0000:00:1d.0": "nvme0",
        "0000:01:00.0": "nvme0",
        "0000:00:17.0": "",
        "0000:00:1c.0": "host6",
        "0000:03:00.0": "host6",
        "1f00300000.usb": "host8",
        "xhci-hcd.1": "host8",
    }
    root.close()


@pytest.mark.parametrize("driver", ["xhci_hcd", "ehci-pci", "ohci-pci", "uhci_hcd"])
def test_a_usb_controller_that_died_is_told_where_disks_are_on_it(driver: str) -> None:
    """All its disks are gone; where only a keyboard is on it, it is not storage."""
    text = f"{driver} 0000:00:14.0: HC died; cleaning up"
    (event,) = events(text, {"0000:00:14.0": "host6"})
    assert (event.kind, event.controller) == ("hba_dead", "host6")
    assert events(text, {"0000:00:1d.0": "nvme0"}) == []
    (event,) = events(text, {})
    assert event.controller == "0000:00:14.0"


@pytest.mark.parametrize("words", ["Link Down", "Card not present"])
def test_a_slot_that_lost_its_drive_is_told_of_storage_only(words: str) -> None:
    """A dock or a graphics card that sleeps prints the same: elsewhere it is no event."""
    (event,) = events(f"{PORT}pciehp: Slot(12): {words}")
    assert (event.kind, event.device) == ("hba_device_removed", "nvme0")
    assert events(f"pcieport 0000:00:03.1: pciehp: Slot(0-1): {words}") == []
    assert events(f"{PORT}pciehp: Slot(12): {words}", addresses={}) == []
    assert events(f"{PORT}pciehp: Slot(12): Link Down/Up ignored (recovered by DPC)") == []


@pytest.mark.parametrize("name", ["xhci-hcd.1", "xhci-hcd.2.auto", "fe900000.usb"])
def test_a_usb_controller_of_a_board_dies_with_its_disks(name: str) -> None:
    """A single-board computer has it on no PCI Express; one without storage is no event."""
    line = f"xhci-hcd {name}: HC died; cleaning up"
    (found,) = events(line, {})
    assert (found.kind, found.controller) == ("hba_dead", name)
    (found,) = events(line, {name: "host0"})
    assert (found.kind, found.controller) == ("hba_dead", "host0")
    assert events(line) == []
