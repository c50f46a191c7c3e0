"""What is never seen behind a controller is read from the parsers, and from all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from iowarden.collectors import raid
from iowarden.collectors.raid.mpt.mpt_status import parse_status
from iowarden.daemon.reference import hardware

FOLDER = Path(raid.__file__).parent
OTHERS = {"mpt.mptsas"}
"""It joins what the parsers of two programs return."""


def test_each_parser_of_a_controller_is_in_the_lists() -> None:
    """A new one would be missing, and the page would say 'never' of what it reads."""
    parsers = {
        f"{path.parent.name}.{path.stem}"
        for path in FOLDER.glob("*/*.py")
        if {"PhysicalDisk", "ControllerArray", "Battery", "Sensor", "CachePolicy"}
        & {name for name, _ in hardware.fields_set(path.read_text())}
    }
    listed = {module for reader in hardware.READERS for module in reader.modules}
    assert parsers - listed - OTHERS == set()
    programs = [program for reader in hardware.READERS for program in reader.programs]
    backends = {program for each in hardware.vendors.BACKENDS for program in each.programs}
    assert sorted(programs) == sorted(backends)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("PhysicalDisk('1', state, serial=x)", {"slot", "state", "serial"}),
        (
            "disk = PhysicalDisk(slot=s)\nreplace(disk, temperature_celsius=30.0)",
            {"slot", "temperature_celsius"},
        ),
        ("model.PhysicalDisk(slot=s, errors_total={})", {"slot", "errors_total"}),
        ("replace(battery, charge_ratio=1.0)", set()),
    ],
)
def test_a_field_counts_if_it_is_set(source: str, expected: set[str]) -> None:
    """By position, by name, or later; of a class that the parser never makes it is no field."""
    assert {field for _, field in hardware.fields_set(source)} == expected


def test_what_mpt_status_does_not_print_is_never_seen() -> None:
    """Its disks have no serial number: a replaced one is not recognised."""
    text = (
        "ioc0 vol_id 0 type IM, 2 phy, 465 GB, state OPTIMAL, flags ENABLED\n"
        "ioc0 phy 0 scsi_id 1 ATA      ST3500418AS      CC38, 465 GB, state ONLINE, flags NONE\n"
        "ioc0 phy 1 scsi_id 2 ATA      ST3500418AS      CC38, 465 GB, state ONLINE, flags NONE\n"
    )
    reader = next(each for each in hardware.READERS if each.programs == ("mpt-status",))
    assert "serial numbers of disks" in list(hardware.never_seen(reader))
    assert [disk.serial for disk in parse_status(text).disks] == ["", ""]
