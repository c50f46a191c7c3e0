"""Published outputs of sas2ircu and mpt-status: each file parsed, with expected results.

The expectations were written after reading each file. All of these machines are healthy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.recordings import CORPUS, corpus, needs_corpus

from iowarden.collectors.model import ParseError
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.raid.mpt import mpt_status, sasircu

if TYPE_CHECKING:
    from collections.abc import Callable

READ: dict[str, Callable[[str], object]] = {
    "list": sasircu.parse_list,
    "display": lambda text: sasircu.parse_display(text, "sas2ircu 0"),
    "status": sasircu.parse_status,
    "ids": mpt_status.parse_ids,
    "mirrors": mpt_status.parse_status,
}
CANONICAL = "canonical+prometheus-hardware-exporter/sas2ircu/"
CHECK_RAID = "glensc+nagios-plugin-check_raid/"
ZABBIX = "ps78674+zabbix-raidstat/sas2ircu/"
FILES = {
    CANONICAL + "list.txt": "list",
    CANONICAL + "display_has_volume.txt": "display",
    CANONICAL + "display_no_volume.txt": "display",
    CHECK_RAID + "test1/LIST.log": "list",
    CHECK_RAID + "test1/0-STATUS.log": "status",
    CHECK_RAID + "test1/sas2ircu-display.out": "display",
    CHECK_RAID + "mpt-status": "mirrors",
    CHECK_RAID + "mpt-status-ata": "mirrors",
    CHECK_RAID + "mpt-status-pr27": "mirrors",
    CHECK_RAID + "mpt-status-s": "mirrors",
    CHECK_RAID + "pr36/getctrlno1": "ids",
    CHECK_RAID + "pr36/status1": "mirrors",
    CHECK_RAID + "pr57/getctrlno13": "ids",
    CHECK_RAID + "pr57/status13": "mirrors",
    CHECK_RAID + "pr177/mpt-status-p": "ids",
    CHECK_RAID + "pr177/mpt-status-i-0": "mirrors",
    CHECK_RAID + "pr177/mpt-status-i-2": "mirrors",
    ZABBIX + "list.txt": "list",
    ZABBIX + "display.txt": "display",
    ZABBIX + "status.txt": "status",
}


def text(name: str) -> str:
    """Return a file of the corpus."""
    return corpus(f"mpt/{name}").read_text(errors="surrogateescape")


def verdicts(told: str) -> set[str]:
    """Return the parsers that accept a text."""
    found = set()
    for name, read in READ.items():
        try:
            read(told)
        except ParseError as error:
            assert str(error)  # noqa: PT017 - a refusal has a reason
        else:
            found.add(name)
    return found


@needs_corpus
def test_every_file_is_read_as_what_it_is() -> None:
    """No file is skipped, and none is accepted as another output."""
    folder = CORPUS / "mpt"
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert there == set(FILES)
    assert {name: verdicts(text(name)) for name in FILES} == {
        name: {kind} for name, kind in FILES.items()
    }


def test_adapters_are_where_the_kernel_has_them() -> None:
    """One machine has two, functions of one card."""
    assert [(a.index, a.address) for a in sasircu.parse_list(text(CANONICAL + "list.txt"))] == [
        (0, "0000:05:00.0"),
        (1, "0000:05:00.1"),
    ]
    (dell,) = sasircu.parse_list(text(CHECK_RAID + "test1/LIST.log"))
    assert (dell.model, dell.address) == ("SAS2008", "0000:03:00.0")
    (supermicro,) = sasircu.parse_list(text(ZABBIX + "list.txt"))
    assert (supermicro.model, supermicro.address) == ("SAS2004", "0000:81:00.0")


@pytest.mark.parametrize(
    ("name", "volumes", "disks"),
    [
        (CANONICAL + "display_no_volume.txt", {}, ["9XF3RK3W", "9XF3QNC7"]),
        (
            CANONICAL + "display_has_volume.txt",
            {"volume 286": ("enclosure 1 slot 0", "enclosure 1 slot 1")},
            ["9XF3RK3W", "9XF3QNC7"],
        ),
        (
            CHECK_RAID + "test1/sas2ircu-display.out",
            {"volume 79": ("enclosure 1 slot 0", "enclosure 1 slot 1")},
            ["41BHT0JHT", "41BHT0JIT"],
        ),
        (
            ZABBIX + "display.txt",
            {
                "volume 285": ("enclosure 1 slot 2", "enclosure 1 slot 3"),
                "volume 286": ("enclosure 1 slot 0", "enclosure 1 slot 1"),
            },
            ["Z1W3SJCE", "Z1W3SGZK", "S6EKNE0R801415", "S6EKNE0R801416"],
        ),
    ],
)
def test_volumes_and_disks_are_well(
    name: str, volumes: dict[str, tuple[str, ...]], disks: list[str]
) -> None:
    """The backplane is no disk; a plain adapter has disks and no volume."""
    found = sasircu.parse_display(text(name), "sas2ircu 0")
    assert {each.name: each.slots for each in found.arrays} == volumes
    assert [each.serial for each in found.disks] == disks
    assert {each.state.health for each in (*found.arrays, *found.disks)} == {ComponentHealth.OK}
    assert {each.level for each in found.arrays} <= {"RAID1"}
    members = {slot: each.name for each in found.arrays for slot in each.slots}
    assert {each.slot: each.array for each in found.disks if each.array} == members


@pytest.mark.parametrize(
    ("name", "display", "volumes"),
    [
        (
            CHECK_RAID + "test1/0-STATUS.log",
            CHECK_RAID + "test1/sas2ircu-display.out",
            {"volume 79"},
        ),
        (ZABBIX + "status.txt", ZABBIX + "display.txt", {"volume 285", "volume 286"}),
    ],
)
def test_nothing_runs_at_the_volumes(name: str, display: str, volumes: set[str]) -> None:
    """Both answers have the same name for a volume."""
    tasks = sasircu.parse_status(text(name))
    assert set(tasks) == volumes
    for each in sasircu.parse_display(text(display), "x").arrays:
        assert sasircu.with_task(each, tasks[each.name]) == each


def test_probed_numbers_are_those_of_the_volumes() -> None:
    """'-p' stops at the first: of a machine with volumes 0 and 2 it reports 0."""
    assert mpt_status.parse_ids(text(CHECK_RAID + "pr36/getctrlno1")) == (1,)
    assert mpt_status.parse_ids(text(CHECK_RAID + "pr57/getctrlno13")) == (13,)
    assert mpt_status.parse_ids(text(CHECK_RAID + "pr177/mpt-status-p")) == (0,)


@pytest.mark.parametrize(
    ("name", "volume", "disks"),
    [
        ("mpt-status", "volume 0", ["IBM-ESXS PYH146C3-ETS10FN"] * 2),
        ("mpt-status-ata", "volume 0", ["ST3808110AS"] * 2),
        ("mpt-status-pr27", "volume 0", ["ST3808110AS", "Hitachi HUA72101"]),
        ("mpt-status-s", "volume 0", ["", ""]),
        ("pr36/status1", "volume 1", ["IBM-ESXS MBD2147RC"] * 2),
        ("pr57/status13", "volume 13", ["IBM-ESXS MBE2147RC", "IBM-ESXS MBD2147RC"]),
        ("pr177/mpt-status-i-0", "volume 0", ["FUJITSU MAY2036RCSUN36G"] * 2),
        ("pr177/mpt-status-i-2", "volume 2", ["SSDSA2SH064G1GC"] * 2),
    ],
)
def test_mirrors_of_older_adapters_are_well(name: str, volume: str, disks: list[str]) -> None:
    """Models with blanks, invalid vendors, the short format without models."""
    found = mpt_status.parse_status(text(CHECK_RAID + name))
    (mirror,) = found.arrays
    assert (mirror.name, mirror.state.health) == (volume, ComponentHealth.OK)
    assert [each.model for each in found.disks] == disks
    assert {each.state.health for each in found.disks} == {ComponentHealth.OK}
    assert mirror.slots == tuple(each.slot for each in found.disks)
