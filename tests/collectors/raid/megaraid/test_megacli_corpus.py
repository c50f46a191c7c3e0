"""Published outputs of MegaCli: each file parsed, with expected results.

The expectations were written after reading each file. A partial output lacks the line that marks it
as complete: it is refused, and parsed once the line is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.recordings import CORPUS, corpus, needs_corpus

from iowarden.collectors.model import ParseError
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.raid.megaraid import megacli

if TYPE_CHECKING:
    from collections.abc import Callable

WHOLE = "\n\nExit Code: 0x00\n"
READ: dict[str, Callable[[str], object]] = {
    "adapters": megacli.parse_adapters,
    "addresses": megacli.parse_addresses,
    "volumes": megacli.parse_volumes,
    "disks": megacli.parse_disks,
    "battery": megacli.parse_battery,
    "rebuilds": megacli.parse_rebuilds,
    "log": lambda text: megacli.parse_log(text, "megaraid c0"),
}
CHECK_RAID = "glensc+nagios-plugin-check_raid/"
EINARC = "inq-team+einarc/"
NETDATA = "netdata+netdata/megacli/testdata/"
WIKI = "wiki-2012-drive-loss/"
YAKUMO = "yakumo-saki+megacli_to_zabbix/"
ZABBIX = "ps78674+zabbix-raidstat/megacli/"
FILES: dict[str, set[str]] = {
    CHECK_RAID + "cmdtool2/CmdTool2.adapter-0": {"volumes", "disks"},
    CHECK_RAID + "cmdtool2/CmdTool2.adapters": {"adapters"},
    CHECK_RAID + "issue32/bbustatus.MegaCli-8.01.06-1": set(),  # it failed without a reason
    CHECK_RAID + "issue32/bbustatus.MegaCli-8.07.10-1": {"battery"},
    CHECK_RAID + "issue41/ldinfo": {"volumes"},
    CHECK_RAID + "issue41/pdlist": {"disks"},
    CHECK_RAID + "issue45/MegaCli64-adpbbucmd.out": {"battery"},
    CHECK_RAID + "issue45/MegaCli64-ldinfo.out": {"volumes"},
    CHECK_RAID + "issue45/MegaCli64-list.out": {"disks"},
    CHECK_RAID + "issue65/pdlist": {"disks"},
    CHECK_RAID + "issue85/ldinfo": {"volumes"},
    CHECK_RAID + "issue85/pdlist": {"disks"},
    CHECK_RAID + "issue91/9924031.txt": {"battery"},
    CHECK_RAID + "issue91/9924032.txt": {"volumes"},
    CHECK_RAID + "issue91/9924033.txt": {"disks"},
    CHECK_RAID + "issue91/version": set(),  # its version
    CHECK_RAID + "megacli.ldinfo.2": {"volumes"},
    CHECK_RAID + "megacli.ldinfo.jbod": {"volumes"},
    CHECK_RAID + "megacli.pdlist.2": {"disks"},
    CHECK_RAID + "megacli.pdlist.jbod": {"disks"},
    EINARC + "01_query/cli_output_1.txt": {"adapters"},
    EINARC + "10_physical_list/cli_output_1.txt": {"disks"},
    EINARC + "10_physical_list/cli_output_2.txt": {"volumes", "disks"},
    EINARC + "90_bbu_info/cli_output_1.txt": set(),  # what a battery was made for, no state
    NETDATA + "mega-bbu-info-old.txt": {"battery"},
    NETDATA + "mega-bbu-info-recent.txt": {"battery"},
    NETDATA + "mega-phys-drives-info-no-drives.txt": {"volumes", "disks"},
    NETDATA + "mega-phys-drives-info.txt": {"volumes", "disks"},
    WIKI + "ldinfo-old-layout.txt": {"volumes"},
    YAKUMO + "adapter.txt": {"adapters"},
    YAKUMO + "pdinfo.txt": {"disks"},
    YAKUMO + "vdinfo.txt": {"volumes"},
    ZABBIX + "controllerBBUStatus.txt": {"battery"},
    ZABBIX + "controllers.txt": {"addresses"},
    ZABBIX + "controllerStatus.txt": {"adapters"},
    ZABBIX + "logicaldrives.txt": {"volumes"},
    ZABBIX + "logicaldriveStatus.txt": {"volumes"},
    ZABBIX + "physicaldrives.txt": {"disks"},
    ZABBIX + "physicaldriveStatus.txt": {"disks"},
}
PARTS: dict[str, set[str]] = {
    CHECK_RAID + "issue65/ldinfo": {"volumes"},
    CHECK_RAID + "issue65/ldinfo2": {"volumes"},
    CHECK_RAID + "megacli": {"disks"},
    WIKI + "pdinfo-unconfigured-bad-foreign.txt": {"disks"},
    WIKI + "events-latest.txt": set(),  # without their numbers
    "blog-915993589/AdpEventLog-bbu.txt": {"log"},
    "elatov+elatov.github.io/AdpEventLog-GetEvents-tail.txt": {"log"},
    "elatov+elatov.github.io/vmkernel-megasas-aen.txt": set(),  # another system's kernel
}
"""Files without 'Exit Code', and their result with one."""


def text(name: str) -> str:
    """Return a file of the corpus; a partial output with its end."""
    told = corpus(f"megacli/{name}").read_text(errors="surrogateescape")
    return told + WHOLE if name in PARTS else told


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
def test_every_file_is_read_as_what_it_is_or_refused() -> None:
    """No file is skipped, and none is accepted as another output."""
    folder = CORPUS / "megacli"
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert there == FILES.keys() | PARTS.keys()
    told = FILES | PARTS
    assert {name: verdicts(text(name)) for name in told} == told
    assert not any(verdicts(text(name).removesuffix(WHOLE)) for name in PARTS)


@pytest.mark.parametrize(
    ("name", "model", "serial", "pci_device", "megabytes", "degrees"),
    [
        (
            CHECK_RAID + "cmdtool2/CmdTool2.adapters",
            "Intel(R) RAID Controller SRCSAS144E",
            "P088652806",
            "0411",
            128,
            [],
        ),
        (
            EINARC + "01_query/cli_output_1.txt",
            "MegaRAID SAS PCI Express(TM) ROMB",
            "",
            "0060",
            256,
            [],
        ),
        (YAKUMO + "adapter.txt", "PERC H740P Adapter", "866002G", "0016", 8192, [62.0, 62.0]),
        (
            ZABBIX + "controllerStatus.txt",
            "LSI MegaRAID SAS 9261-8i",
            "SV21414201",
            "0079",
            512,
            [],
        ),
    ],
)
def test_adapters_are_well(
    name: str, model: str, serial: str, pci_device: str, megabytes: int, degrees: list[float]
) -> None:
    """Each has a battery, and no memory error."""
    found = megacli.parse_adapters(text(name))
    assert [*found] == [0]
    told = found[0].controller
    assert (told.model, told.serial, found[0].pci_device) == (model, serial, pci_device)
    assert (told.memory_bytes, found[0].battery) == (megabytes << 20, True)
    assert told.state is not None
    assert told.state.health is ComponentHealth.OK
    assert [each.temperature_celsius for each in told.sensors] == degrees
    assert found[0].clock_seconds is not None


def test_where_an_adapter_is() -> None:
    """One machine has saved it."""
    assert megacli.parse_addresses(text(ZABBIX + "controllers.txt")) == {0: "0000:06:00.0"}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (CHECK_RAID + "cmdtool2/CmdTool2.adapter-0", [("virtual drive 0", "RAID1", False, False)]),
        (
            CHECK_RAID + "issue41/ldinfo",
            [(f"virtual drive {n}", "RAID1", True, True) for n in range(3)],
        ),
        (
            CHECK_RAID + "issue45/MegaCli64-ldinfo.out",
            [
                ("virtual drive 0", "RAID1", True, True),
                *((f"virtual drive {n}", "RAID0", True, True) for n in range(1, 7)),
            ],
        ),
        # Of these two the battery is not well: they write through what is set to write back.
        (CHECK_RAID + "issue65/ldinfo", [("virtual drive 0", "RAID5", False, True)]),
        (CHECK_RAID + "issue85/ldinfo", [("virtual drive 0", "RAID1", False, True)]),
        (CHECK_RAID + "issue65/ldinfo2", [("virtual drive 0", "RAID10", True, True)]),
        (
            CHECK_RAID + "issue91/9924032.txt",
            [
                ("virtual drive 0", "RAID6", True, True),
                ("virtual drive 1", "CacheCade", True, True),
            ],
        ),
        (CHECK_RAID + "megacli.ldinfo.2", [("virtual drive 0", "RAID10", True, True)]),
        (CHECK_RAID + "megacli.ldinfo.jbod", []),
        (EINARC + "10_physical_list/cli_output_2.txt", [("virtual drive 0", "RAID5", True, True)]),
        (NETDATA + "mega-phys-drives-info-no-drives.txt", []),
        (NETDATA + "mega-phys-drives-info.txt", [("virtual drive 0", "RAID1", True, True)]),
        (WIKI + "ldinfo-old-layout.txt", [("virtual drive 0", "RAID10", True, True)]),
        (
            YAKUMO + "vdinfo.txt",
            [("virtual drive 0", "RAID1", True, True), ("virtual drive 1", "RAID5", True, True)],
        ),
        (
            ZABBIX + "logicaldrives.txt",
            [(f"virtual drive {n}", "RAID1", True, True) for n in range(3)],
        ),
        (ZABBIX + "logicaldriveStatus.txt", [("virtual drive 2", "RAID1", True, True)]),
    ],
)
def test_virtual_drives_are_well(name: str, told: list[tuple[str, str, bool, bool]]) -> None:
    """All are optimal; whether they cache writes, and whether they are configured to."""
    found = megacli.parse_volumes(text(name))
    assert {each.state.health for each in found} <= {ComponentHealth.OK}
    assert [
        (a.name, a.level, a.policy.write_back, a.policy.default_write_back)
        for a in found
        if a.policy
    ] == told
    assert all(each.size_bytes for each in found)


def test_members_are_below_their_virtual_drive() -> None:
    """Not in the order of their slots."""
    (found,) = megacli.parse_volumes(text(NETDATA + "mega-phys-drives-info.txt"))
    assert found.label == "Virtual Disk 0"
    assert found.slots == tuple(f"enclosure 32 slot {n}" for n in (0, 2, 1, 3, 5, 4, 6, 7))


@pytest.mark.parametrize(
    ("name", "slots", "serials"),
    [
        (
            CHECK_RAID + "cmdtool2/CmdTool2.adapter-0",
            "252:4 252:5",
            ["DQA0P67008EM", "DQA0P67008D6"],
        ),
        (CHECK_RAID + "issue41/pdlist", "252:0 252:1 252:2 252:3 252:4 252:5", None),
        (CHECK_RAID + "issue45/MegaCli64-list.out", " ".join(f"252:{n}" for n in range(8)), None),
        (CHECK_RAID + "issue65/pdlist", " ".join(f"32:{n}" for n in range(6)), None),
        (CHECK_RAID + "issue85/pdlist", "32:0 32:1", ["WD-WMAW30959975", "WD-WMAW31292255"]),
        (CHECK_RAID + "issue91/9924033.txt", " ".join(f"32:{n}" for n in range(8)), None),
        (CHECK_RAID + "megacli", "8:0 8:1", ["J498LV8K", "3QN070RR"]),
        (
            CHECK_RAID + "megacli.pdlist.2",
            " ".join(f"9:{n}" for n in (*range(9), 10, 12)),
            None,
        ),
        (
            CHECK_RAID + "megacli.pdlist.jbod",
            "32:0 32:1 32:2 32:3",
            ["9XF1922X", "9XF18SP9", "9XG1F6LT", "9XG3WWBV"],
        ),
        (
            EINARC + "10_physical_list/cli_output_1.txt",
            "12:0 12:1 12:2",
            ["WD-WMAYP1234567", "5QMABCDE", "5QM12345"],
        ),
        (EINARC + "10_physical_list/cli_output_2.txt", "12:0 12:1 12:2", None),
        (NETDATA + "mega-phys-drives-info-no-drives.txt", "", []),
        (
            NETDATA + "mega-phys-drives-info.txt",
            " ".join(f"32:{n}" for n in (0, 2, 1, 3, 5, 4, 6, 7)),
            None,
        ),
        (
            YAKUMO + "pdinfo.txt",
            ":0 :1 :2 :3 :6 :7",
            [
                "WD-WMC4N0604326",
                "WD-WMC1T1313355",
                "WD-WCC4N1017539",
                "WD-WMC1T1065633",
                "21186U807794",
                "200211A00D12",
            ],
        ),
        (
            ZABBIX + "physicaldrives.txt",
            " ".join(f"252:{n}" for n in range(6)),
            [
                "6XP3CGA2",
                "6XP3CGMN",
                "S2HTNX0H509267",
                "S2HTNX0H509266",
                "S47NNE0KB01294",
                "S47NNE0KB01285",
            ],
        ),
        (ZABBIX + "physicaldriveStatus.txt", "252:3", ["S2HTNX0H509266"]),
    ],
)
def test_disks_are_well(name: str, slots: str, serials: list[str] | None) -> None:
    """Members, spares, unused ones and JBOD; error counts lower no state."""
    found = megacli.parse_disks(text(name))
    places = [each.partition(":") for each in slots.split()]
    assert [each.slot for each in found] == [
        f"enclosure {enclosure} slot {slot}" if enclosure else f"slot {slot}"
        for enclosure, _, slot in places
    ]
    assert {each.state.health for each in found} <= {ComponentHealth.OK}
    assert all(each.model and each.serial and each.size_bytes and each.kind for each in found)
    if serials is not None:
        assert [each.serial for each in found] == serials


def test_disks_that_are_no_members() -> None:
    """Four unused ones in standby, one spare; a card with pass-through disks."""
    used = [each.usage for each in megacli.parse_disks(text(CHECK_RAID + "megacli.pdlist.2"))]
    assert (used.count("member"), used.count("unused"), used.count("hot spare")) == (6, 4, 1)
    jbod = megacli.parse_disks(text(CHECK_RAID + "megacli.pdlist.jbod"))
    assert {each.usage for each in jbod} == {"JBOD"}


def test_counts_of_errors_are_reported() -> None:
    """Three media errors on one disk; 16548 other errors on each of two active ones."""
    medium = megacli.parse_disks(text(CHECK_RAID + "issue65/pdlist"))
    assert [each.errors_total["media error"] for each in medium] == [0, 3, 0, 0, 0, 0]
    others = megacli.parse_disks(text(CHECK_RAID + "issue85/pdlist"))
    assert [each.errors_total["other error"] for each in others] == [16548, 16548]


def test_a_disk_that_was_lost_is_bad_although_it_counted_no_error() -> None:
    """Its data are of another configuration by then."""
    (found,) = megacli.parse_disks(text(WIKI + "pdinfo-unconfigured-bad-foreign.txt"))
    assert (found.slot, found.state.health, found.usage) == (
        "enclosure 14 slot 5",
        ComponentHealth.FAILED,
        "foreign",
    )
    assert found.state.word == "Unconfigured(bad), Foreign State: Foreign"
    assert (found.model, found.serial, set(found.errors_total.values())) == (
        "ST31000528AS",
        "9VP3PAN5",
        {0},
    )


@pytest.mark.parametrize(
    ("name", "word", "charge", "degrees"),
    [
        (CHECK_RAID + "issue45/MegaCli64-adpbbucmd.out", "Optimal", 0.98, 34.0),
        (CHECK_RAID + "issue91/9924031.txt", "Operational", 0.98, 39.0),
        (NETDATA + "mega-bbu-info-old.txt", "Optimal", 1.0, 31.0),
        (NETDATA + "mega-bbu-info-recent.txt", "Optimal", 0.71, 33.0),
        (ZABBIX + "controllerBBUStatus.txt", "Optimal", 1.0, 43.0),
    ],
)
def test_batteries_are_well(name: str, word: str, charge: float, degrees: float) -> None:
    """The fuel gauge of one reports discharging, which is no alarm."""
    found = megacli.parse_battery(text(name))
    assert (found.state.health, found.state.word, found.ready) == (ComponentHealth.OK, word, True)
    assert (found.charge_ratio, found.temperature_celsius) == (charge, degrees)


def test_a_card_without_a_battery() -> None:
    """The newer version reports why it has no answer."""
    found = megacli.parse_battery(text(CHECK_RAID + "issue32/bbustatus.MegaCli-8.07.10-1"))
    assert (found.state.health, found.ready) == (ComponentHealth.ABSENT, None)


def test_logs() -> None:
    """A battery that is off for two hours; a disk that is inserted again."""
    battery = megacli.parse_log(text("blog-915993589/AdpEventLog-bbu.txt"), "megaraid c0")
    assert [(each.sequence, each.kind) for each in battery.events] == [
        (0xE06, "megaraid_check_progress"),
        (0x16BEF, "megaraid_write_back_off"),
        (0x16BF6, "megaraid_battery_charge"),
        (0x16BF7, "megaraid_write_back_on"),
    ]
    tail = megacli.parse_log(
        text("elatov+elatov.github.io/AdpEventLog-GetEvents-tail.txt"), "megaraid c0"
    )
    assert [(each.sequence, each.kind, each.place) for each in tail.events] == [
        (0x1283, "megaraid_vd_optimal", "virtual drive 0"),
        (0x1284, "megaraid_vd_optimal", "virtual drive 0"),
    ]
