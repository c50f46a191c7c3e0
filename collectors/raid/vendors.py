"""All RAID backends, by vendor.

The modules of a vendor are imported when the first of its controllers is polled, which is in a
thread of its own, or by `import_present`: most machines have none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from iowarden.collectors.raid.backend import Backend

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.collectors.machine import Machine

PCI_DEVICES: Final = "/sys/bus/pci/devices"
_STORAGE = ("0x0104", "0x0107", "0x0100", "0x0180")
"""PCI classes of RAID, SAS, SCSI and other storage controllers. Source: pci.ids."""
_LSI, _HP = "0x1000", ("0x103c", "0x1590", "0x0e11", "0x9005")
"""PCI vendors: LSI and Broadcom; HP, HPE, Compaq, and Adaptec, whose driver is HP's as well."""


def _late(  # noqa: PLR0913 - the fields of a Backend
    module: str,
    name: str,
    vendor: str,
    drivers: tuple[str, ...],
    programs: tuple[str, ...],
    *,
    log: bool = False,
    capacity: int | None = None,
    adapters: bool = False,
    numbered: bool = False,
    hiding: bool = False,
) -> Backend:
    """Return a backend with these fields, whose functions are those of one that is not imported."""

    def function(field: str) -> Callable[..., Any]:
        def call(*given: object) -> Any:  # noqa: ANN401 - as the function of this field returns
            return getattr(getattr(_imported(module), name), field)(*given)

        return call

    return Backend(
        vendor,
        drivers,
        programs,
        function("find"),
        function("state"),
        function("log") if log else None,
        capacity,
        adapters=adapters,
        numbered=numbered,
        hiding=function("hiding") if hiding else None,
    )


def _imported(module: str) -> Any:  # noqa: ANN401 - a module
    return importlib.import_module(f"iowarden.collectors.raid.{module}")


BACKENDS = (
    _late("areca.arcmsr", "ARECA", "areca", ("arcmsr",), ("cli64", "areca-cli", "cli32"), log=True),
    _late(
        "threeware.threeware",
        "THREEWARE",
        "3ware",
        ("3w-9xxx", "3w-sas", "3w-xxxx"),
        ("tw_cli",),
        log=True,
        capacity=256,
    ),
    _late(
        "megaraid.megaraid_sas",
        "MEGARAID",
        "megaraid",
        ("megaraid_sas",),
        ("perccli64", "perccli", "storcli64", "storcli", "MegaCli64", "MegaCli", "megacli"),
        log=True,
        numbered=True,
    ),
    _late(
        "megaraid.megaraid_sas",
        "MPI3MR",
        "mpi3mr",
        ("mpi3mr",),
        ("perccli2", "storcli2"),
        log=True,
        adapters=True,
        numbered=True,
        hiding=True,
    ),
    _late(
        "adaptec.aacraid",
        "ADAPTEC",
        "adaptec",
        ("aacraid", "smartpqi"),
        ("arcconf",),
        adapters=True,
        hiding=True,
    ),
    _late(
        "smartarray.hpsa",
        "HP",
        "hp",
        ("hpsa", "smartpqi"),
        ("ssacli", "hpssacli", "hpacucli", "cciss_vol_status"),
        adapters=True,
        hiding=True,
    ),
    _late(
        "mpt.mptsas",
        "IRCU",
        "mpt",
        ("mpt3sas", "mpt2sas"),
        ("sas3ircu", "sas2ircu"),
        adapters=True,
    ),
    _late("mpt.mptsas", "MPT_STATUS", "mpt", ("mptsas", "mptspi"), ("mpt-status",), adapters=True),
)
_MODULES = {
    "0x17d3": ("areca.arcmsr", "areca.areca_smart"),
    "0x13c1": ("threeware.threeware",),
    _LSI: ("megaraid.megaraid_sas", "mpt.mptsas"),
    **dict.fromkeys(_HP, ("smartarray.hpsa", "adaptec.aacraid")),
    "0x1028": ("megaraid.megaraid_sas",),
}
"""By PCI vendor of a controller, whether a driver is bound to it or not."""


def import_present(root: Machine) -> None:
    """Import the modules of the controllers that this machine has: before memory is locked."""
    for address in root.try_names(PCI_DEVICES) or ():
        kind = root.try_read(f"{PCI_DEVICES}/{address}/class") or ""
        if kind.startswith(_STORAGE):
            vendor = (root.try_read(f"{PCI_DEVICES}/{address}/vendor") or "").strip()
            for module in _MODULES.get(vendor, ()):
                _imported(module)
