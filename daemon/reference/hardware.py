"""Known limits per hardware: what is never seen behind a RAID controller, from its readers' source.

A reader is the module that parses a program's output. What it never sets in the model of
collectors/raid/controller.py is unknown with that program, whatever the controller has.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections import defaultdict
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.raid import controller, vendors
from iowarden.collectors.smart.discovery import REFUSED_TYPES
from iowarden.collectors.smart.scsi_hosts import MPT, RAID
from iowarden.daemon.reference.markdown import literal, literals, page, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from iowarden.collectors.raid.backend import Backend

_INTRODUCTION = """\
What iowarden cannot see is not reported as OK: a volume whose disks are hidden has the status `not
monitored`, and an alert whose data is missing is unknown. But some data is in no output of a
program, so that no alert can depend on it. These lists are made from the readers themselves: what a
reader never sets is never seen with it, whatever the controller has. What it does set is absent all
the same where the firmware does not print it."""
_PROGRAMS = """\
By program; where several are installed, the first of [these](raid-controllers.md) is used. What a
program never shows of a disk, such as its temperature, SMART data may: see the next table."""
_DRIVERS = """\
By driver of the kernel. Disks of a driver without a program are seen by SMART at most; the state of
its arrays is never known: only that the kernel's volume fails."""
_BRIDGES = """\
USB and SATA bridges of these types of smartctl are never polled: their disks have no SMART data
here, until a type that is harmless is configured under `smart: drives:`."""


@dataclass(frozen=True, slots=True)
class Reader:
    """The modules that parse what some programs print, in collectors/raid."""

    title: str
    programs: tuple[str, ...]
    modules: tuple[str, ...]


READERS = (
    Reader("Areca", ("cli64", "areca-cli", "cli32"), ("areca.cli64", "areca.arcmsr")),
    Reader("3ware", ("tw_cli",), ("threeware.tw_cli", "threeware.threeware")),
    Reader(
        "MegaRAID, PERC, cards of mpi3mr",
        ("perccli64", "perccli", "storcli64", "storcli", "perccli2", "storcli2"),
        (
            *("megaraid.storcli", "megaraid.storcli_answer", "megaraid.storcli_disks"),
            *("megaraid.storcli_volumes", "megaraid.megaraid_sas"),
        ),
    ),
    Reader(
        "older MegaRAID",
        ("MegaCli64", "MegaCli", "megacli"),
        ("megaraid.megacli", "megaraid.megacli_reader"),
    ),
    Reader(
        "Adaptec",
        ("arcconf",),
        (
            *("adaptec.arcconf", "adaptec.arcconf_arrays", "adaptec.arcconf_disks"),
            *("adaptec.arcconf_status", "adaptec.aacraid"),
        ),
    ),
    Reader("HP", ("ssacli", "hpssacli", "hpacucli"), ("smartarray.ssacli", "smartarray.hpsa")),
    Reader("HP", ("cciss_vol_status",), ("smartarray.cciss_vol_status",)),
    Reader("LSI", ("sas3ircu", "sas2ircu"), ("mpt.sasircu",)),
    Reader("LSI", ("mpt-status",), ("mpt.mpt_status",)),
)
_FACTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "serial numbers of disks": (("PhysicalDisk", "serial"),),
    "the array of a disk": (("PhysicalDisk", "array"), ("ControllerArray", "slots")),
    "temperatures of disks": (("PhysicalDisk", "temperature_celsius"),),
    "error counters of disks": (("PhysicalDisk", "errors_total"),),
    "the progress of a rebuild": (("ComponentState", "done_ratio"),),
    "whether a battery protects the cache": (("Battery", "state"),),
    "the charge of the battery": (("Battery", "charge_ratio"),),
    "whether an array is cached for writing": (("CachePolicy", "write_back"),),
    "whether that is forced without a battery": (("CachePolicy", "forced"),),
    "the write caches of disks": (("ControllerArray", "disk_cache"),),
    "fans, power supplies and temperatures": (("Sensor", "name"),),
    "the state of the controller itself": (("Controller", "state"),),
}
"""What a reader may set, by what it means to a user: class and field of the model."""
_FUTURE = "from __future__ import annotations\n"
_LOG = "the controller's event log"


def text() -> str:
    """Return the page."""
    return page(
        "Known limits per hardware",
        _INTRODUCTION,
        "## Never seen with a program",
        _PROGRAMS,
        table(
            ("controller", "program", "never seen"),
            [
                (reader.title, literals(reader.programs), ", ".join(never_seen(reader)) or "-")
                for reader in READERS
            ],
        ),
        "## Never seen behind a driver",
        _DRIVERS,
        table(("driver", "arrays by", "SMART data of its disks by"), [*_drivers()]),
        "## Bridges",
        _BRIDGES,
        table(
            ("type", "because it"), [(literal(name), why) for name, why in REFUSED_TYPES.items()]
        ),
    )


def never_seen(reader: Reader) -> Iterator[str]:
    """Yield what no module of a reader sets."""
    paths = [f"iowarden.collectors.raid.{module}" for module in reader.modules]
    sources = [inspect.getsource(importlib.import_module(path)) for path in paths]
    fields = fields_set("\n".join(source.replace(_FUTURE, "") for source in sources))
    if not any(backend.log for backend in _backends(reader.programs)):
        yield _LOG
    for title, wanted in _FACTS.items():
        if not fields & {*wanted}:
            yield title


def fields_set(source: str) -> set[tuple[str, str]]:
    """Return which fields of the model a module sets: class and field.

    Limits: `replace` does not show of which class its object is: its fields count for each class
    that the module makes.
    """
    classes = model()
    found, replaced = set[tuple[str, str]](), set[str]()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        keywords = [keyword.arg for keyword in node.keywords if keyword.arg]
        if name in classes:
            found |= {(name, field) for field in (*classes[name][: len(node.args)], *keywords)}
        elif name == "replace":
            replaced |= {*keywords}
    made = {name for name, _ in found}
    return found | {(name, field) for name in made for field in replaced & {*classes[name]}}


def model() -> Mapping[str, Sequence[str]]:
    """Return the fields of each class of the model, in their order."""
    fields = defaultdict[str, list[str]](list)
    for node in ast.parse(inspect.getsource(controller)).body:
        if isinstance(node, ast.ClassDef):
            fields[node.name] += [
                part.target.id
                for part in node.body
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
            ]
    return fields


def _backends(programs: Sequence[str]) -> Iterator[Backend]:
    return (each for each in vendors.BACKENDS if {*programs} & {*each.programs})


def _drivers() -> Iterator[tuple[str, str, str]]:
    """Yield driver, programs that read its arrays, and smartctl's type for its disks."""
    programs = defaultdict[str, list[str]](list)
    for backend in vendors.BACKENDS:
        for driver in backend.drivers:
            programs[driver] += backend.programs
    for driver in sorted({*RAID, *MPT, *programs}):
        family = RAID[driver].family if driver in RAID else ""
        smart = literal(f"-d {family},...") if family else "never"
        if driver in MPT or driver not in RAID:
            smart = "the kernel, where it shows them"
        names = literals(dict.fromkeys(programs[driver])) if programs[driver] else "never"
        yield literal(driver), names, smart
