"""The modules of RAID vendors are imported only where a machine has their controllers."""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.machine import Machine
from iowarden.collectors.raid import vendors

if TYPE_CHECKING:
    from pathlib import Path

    from iowarden.collectors.raid.backend import Backend

OWN = (
    ("areca.arcmsr", "ARECA"),
    ("threeware.threeware", "THREEWARE"),
    ("megaraid.megaraid_sas", "MEGARAID"),
    ("megaraid.megaraid_sas", "MPI3MR"),
    ("adaptec.aacraid", "ADAPTEC"),
    ("smartarray.hpsa", "HP"),
    ("mpt.mptsas", "IRCU"),
    ("mpt.mptsas", "MPT_STATUS"),
)


@pytest.mark.parametrize(("row", "own"), [*zip(vendors.BACKENDS, OWN, strict=True)])
def test_each_row_is_as_the_backend_of_its_module(row: Backend, own: tuple[str, str]) -> None:
    """What is known without the module is the same: drivers, programs, whether it has a log."""
    module = importlib.import_module(f"iowarden.collectors.raid.{own[0]}")
    backend = getattr(module, own[1])
    for each in fields(backend):
        here, there = getattr(row, each.name), getattr(backend, each.name)
        assert callable(here) if callable(there) else here == there, each.name


def _imported(root: Path) -> set[str]:
    """What a process has imported of RAID once it knows its controllers."""
    program = (
        "import sys; from iowarden.collectors.machine import Machine;"
        "from iowarden.collectors.raid import vendors;"
        f"vendors.import_present(Machine({str(root)!r})); print(*sys.modules)"
    )
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    start = "iowarden.collectors.raid."
    return {name.removeprefix(start) for name in run.stdout.split() if name.startswith(start)}


def test_a_controller_is_known_by_its_pci_vendor_also_without_a_driver(tmp_path: Path) -> None:
    """A LSI card is; an Intel AHCI controller needs none of the vendors."""
    ahci = tmp_path / "sys/bus/pci/devices/0000:00:1f.2"
    ahci.mkdir(parents=True)
    (ahci / "class").write_text("0x010601\n")
    (ahci / "vendor").write_text("0x8086\n")
    assert not {"megaraid.megaraid_sas", "smartarray.hpsa"} & _imported(tmp_path)
    card = tmp_path / "sys/bus/pci/devices/0000:03:00.0"
    card.mkdir()
    (card / "class").write_text("0x010400\n")
    (card / "vendor").write_text("0x1000\n")
    found = _imported(tmp_path)
    assert {"megaraid.megaraid_sas", "mpt.mptsas"} <= found
    assert "smartarray.hpsa" not in found


def test_a_machine_without_pci_has_none(tmp_path: Path) -> None:
    """A container, for example."""
    vendors.import_present(Machine(str(tmp_path)))
