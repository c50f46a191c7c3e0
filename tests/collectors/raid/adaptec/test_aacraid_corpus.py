"""Published outputs of arcconf: each file parsed, with expected results.

The expectations were written after reading each file.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from support.recordings import CORPUS, corpus, needs_corpus

from iowarden.collectors.model import ParseError
from iowarden.collectors.raid.adaptec import arcconf, arcconf_status
from iowarden.collectors.raid.controller import ComponentHealth

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from iowarden.collectors.raid.controller import ComponentState, Controller

READERS: dict[str, Callable[[str], object]] = {
    "config": lambda text: arcconf.parse_config(text, "adaptec 1"),
    "tasks": arcconf_status.parse_tasks,
    "log": arcconf_status.parse_device_log,
    "count": arcconf.parse_count,
}
FINE = {ComponentHealth.OK, ComponentHealth.ABSENT, ComponentHealth.BUSY}
EINARC = "adaptec/elops+einarc_adaptec_tester/adaptect_test."
CHECK_RAID = "adaptec/glensc+nagios-plugin-check_raid/"
ULMITOV = "adaptec/ulmitov+pyarcconf/"
ZABBIX = "adaptec/YSmetana+raid_arcconf_zabbix_lld/"
NETDATA = "adaptec/netdata+netdata/adaptecraid/testdata/"
DONE = "\nCommand completed successfully.\n"
"""Lines that an excerpt lacks."""


def files() -> list[Path]:
    """Return all of the files."""
    return sorted(path for path in (CORPUS / "adaptec").rglob("*") if path.is_file())


def verdicts(text: str) -> frozenset[str]:
    """Return the parsers that accept a text."""
    found = set()
    for name, read in READERS.items():
        try:
            read(text)
        except ParseError as error:
            assert str(error).startswith("'arcconf ")  # noqa: PT017 - a refusal has a reason
        else:
            found.add(name)
    return frozenset(found)


def read(name: str, more: str = "") -> Controller:
    """Return the controller of a file."""
    text = corpus(name).read_text() + more
    return arcconf.parse_config(text, "adaptec 1").controller


def states(found: Controller) -> dict[str, ComponentState]:
    """Return every reported state, by component."""
    told = {
        **({"controller": found.state} if found.state else {}),
        **{each.name: each.state for each in (*found.arrays, *found.batteries)},
        **{each.slot: each.state for each in found.disks},
        **{each.name: each.state for each in found.sensors if each.state},
    }
    assert len({each.slot for each in found.disks}) == len(found.disks)
    return told


def ill(found: Controller) -> dict[str, tuple[ComponentHealth, str]]:
    """Return the components that are not OK."""
    return {
        name: (state.health, state.word)
        for name, state in states(found).items()
        if state.health not in FINE
    }


@needs_corpus
def test_every_file_is_read_as_one_thing_or_refused() -> None:
    """A complete output has the number of controllers, too; excerpts may be truncated: refused."""
    assert Counter(verdicts(path.read_text()) for path in files()) == {
        frozenset({"config", "count"}): 74,
        frozenset({"tasks", "count"}): 6,
        frozenset({"count"}): 11,
        frozenset(): 10,
    }
    refused = {path.name for path in files() if not verdicts(path.read_text())}
    assert refused == {
        *("getconfig-ad.txt", "getconfig-ld.txt", "getconfig-pd.txt"),
        "getversion-asr71605.txt",
        *("output.txt", "getconfig-ld-current.txt", "getlogs-device-tabular.txt"),
        *("_expanderlist_1", "_getconfig_1_LD", "getconfig"),
    }


MACHINES = {
    "10631": (2, 8),
    "12471": (1, 8),
    "15063": (1, 8),
    "16648": (2, 8),
    "16755": (2, 8),
    "17820": (2, 12),
    "18048": (2, 8),
    "18352": (2, 12),
    "19072": (2, 8),
    "20447": (2, 12),
    "22274": (1, 8),
    "22389": (1, 6),
    "22679": (2, 12),
    "22732": (2, 8),
    "22900": (1, 8),
    "23600": (1, 8),
    "23727": (2, 8),
    "25810": (2, 12),
    "27717": (2, 12),
    "27946": (2, 8),
    "28006": (2, 12),
    "28179": (1, 8),
    "28492": (2, 8),
    "28671": (2, 12),
    "28959": (1, 8),
    "31206": (2, 12),
    "31298": (1, 8),
    "31570": (1, 8),
    "B9588": (2, 12),
    "D4982": (2, 12),
    "H4801": (2, 8),
    "J8263": (2, 12),
    "K9135": (1, 6),
    "L8679": (2, 8),
    "W6352": (2, 8),
    "Z8025": (2, 8),
    "b4374": (4, 12),
    "b6234": (2, 8),
    "s6526": (2, 8),
    "y3391": (1, 8),
}
"""Number of logical devices and disks of each host, counted by their headings."""


@pytest.mark.parametrize("machine", MACHINES)
def test_forty_healthy_machines_are_silent(machine: str) -> None:
    """Each array has the slots of its disks, each disk except spares its array."""
    found = read(f"{EINARC}{machine}/controller_1/01_query/cli_output_1.txt")
    assert (len(found.arrays), len(found.disks)) == MACHINES[machine]
    assert ill(found) == {}
    told = states(found)
    assert told["controller"].word == "Optimal"
    assert {each.state.word for each in found.arrays} == {"Optimal"}
    slots = {each.slot for each in found.disks}
    assert all(each.slots and set(each.slots) <= slots for each in found.arrays)
    for each in found.disks:
        assert bool(each.array) == each.state.word.startswith("Online")
        assert all((each.model, each.serial, each.firmware, each.size_bytes))
        assert each.errors_total == {"s.m.a.r.t. warnings": 0}
    assert all((found.model, found.serial, found.firmware, found.memory_bytes))
    (battery,) = found.batteries
    assert battery.ready is True
    assert found.sensors[0].temperature_celsius is not None


@pytest.mark.parametrize(
    ("name", "arrays", "disks", "sensors"),
    [
        ("02_adapter_info", 0, 0, 1),
        ("10_physical_list", 0, 8, 0),
        ("20_logical_list", 2, 0, 0),
    ],
)
def test_the_parts_of_one_of_them_report_what_the_whole_does(
    name: str, arrays: int, disks: int, sensors: int
) -> None:
    """Queried alone."""
    part = read(f"{EINARC}10631/controller_1/{name}/cli_output_1.txt")
    whole = read(f"{EINARC}10631/controller_1/01_query/cli_output_1.txt")
    assert (len(part.arrays), len(part.disks), len(part.sensors)) == (arrays, disks, sensors)
    assert ill(part) == {}
    assert [each.slots for each in part.arrays] == [each.slots for each in whole.arrays][:arrays]
    assert [each.serial for each in part.disks] == [each.serial for each in whole.disks][:disks]


@pytest.mark.parametrize(
    ("name", "model", "arrays", "disks", "serials"),
    [
        ("2/getconfig", "IBM ServeRAID 8k", 1, 2, 0),
        ("3/getconfig", "Adaptec 6405", 1, 4, 4),
        ("4/arcconf_getconfig_1_al.out", "IBM ServeRAID 8k-l", 1, 2, 2),
        ("arcconf31000/getconfig", "Adaptec SmartRAID 3154-16i", 4, 14, 14),
        ("issue128/getconfig", "Adaptec ASR71605", 1, 16, 16),
        ("issue152/arc2_getconfig.txt", "Adaptec 5405", 1, 3, 3),
        ("issue47/getconfig", "Adaptec 6405", 1, 4, 4),
        ("issue55/arcconf-getconfig.out", "Adaptec 5405", 1, 4, 4),
        ("issue67/getconfig", "Adaptec 2020ZCR", 1, 2, 2),
        ("issue87/getconfig", "Adaptec 6805", 4, 31, 31),
        ("issue99/getconfig", "Adaptec ASR71605", 1, 16, 16),
        ("pr156/arcconf.txt", "Adaptec ASR8805", 1, 8, 8),
        ("pr66/arcconf-getconfig.out", "Adaptec ASR7805Q", 4, 14, 14),
    ],
)
def test_healthy_machines_of_all_ages(
    name: str, model: str, arrays: int, disks: int, serials: int
) -> None:
    """From parallel SCSI to the SmartRAID; members are found by serial number, channel or slot."""
    found = read(CHECK_RAID + name)
    assert (found.model, len(found.arrays), len(found.disks)) == (model, arrays, disks)
    assert sum(bool(each.serial) for each in found.disks) == serials
    assert ill(found) == {}
    slots = {each.slot for each in found.disks}
    assert all(each.slots and set(each.slots) <= slots for each in found.arrays)


def test_the_machine_that_is_rebuilt() -> None:
    """Its array is degraded, its fourth disk rebuilding: 'GETSTATUS' reports 1 %."""
    found = read(f"{CHECK_RAID}issue47/getconfig2")
    assert ill(found) == {
        "logical device 0": (ComponentHealth.DEGRADED, "Degraded"),
        "enclosure 0 slot 3": (ComponentHealth.REBUILDING, "Rebuilding"),
    }
    tasks = arcconf_status.parse_tasks(corpus(f"{CHECK_RAID}issue47/getstatus2").read_text())
    (array,) = arcconf_status.with_tasks(found, tasks).arrays
    assert (array.state.health, array.state.done_ratio) == (ComponentHealth.REBUILDING, 0.01)


def test_the_machine_that_verifies() -> None:
    """It is optimal meanwhile; the others have no task."""
    tasks = arcconf_status.parse_tasks(corpus(f"{CHECK_RAID}3/getstatus").read_text())
    found = arcconf_status.with_tasks(read(f"{CHECK_RAID}3/getconfig"), tasks)
    assert (found.arrays[0].state.health, found.arrays[0].state.done_ratio) == (
        ComponentHealth.BUSY,
        0.11,
    )
    assert ill(found) == {}
    for idle in (
        *("glensc+nagios-plugin-check_raid/issue105/getstatus",),
        *("glensc+nagios-plugin-check_raid/issue128/getstatus",),
        *("glensc+nagios-plugin-check_raid/pr66/arcconf-getstatus.out",),
        "ulmitov+pyarcconf/hba/_getstatus_1",
    ):
        assert arcconf_status.parse_tasks(corpus(f"adaptec/{idle}").read_text()) == {}


def test_the_battery_that_failed() -> None:
    """And disabled the write cache, which is configured to be on with a battery."""
    found = read(f"{CHECK_RAID}issue105/getconfig")
    assert ill(found) == {"battery": (ComponentHealth.FAILED, "Failed")}
    policy = found.arrays[0].policy
    assert policy is not None
    assert (policy.write_back, policy.default_write_back) == (False, True)


def test_the_enclosure_that_is_too_warm() -> None:
    """Its listing has no beginning and no end; the state of two of its fans is unknown."""
    found = read(f"{CHECK_RAID}issue75/getconfig", DONE)
    assert ill(found) == {"enclosure 0 temperature 1": (ComponentHealth.ATTENTION, "Abnormal")}
    assert (len(found.arrays), len(found.disks)) == (3, 18)
    spares = [each.slot for each in found.disks if not each.array]
    assert spares == ["enclosure 0 slot 16", "enclosure 0 slot 17"]
    fans = {each.name: each for each in found.sensors if " fan " in each.name}
    assert [fans[f"enclosure 0 fan {n}"].state is None for n in (3, 4, 5)] == [False, True, True]


def test_the_machine_that_lost_a_disk() -> None:
    """Reported by the controller alone, by the array alone, and by the disk alone."""
    about = read(f"{ZABBIX}getconfig-ad.txt", DONE)
    assert ill(about) == {
        "controller": (
            ComponentHealth.ATTENTION,
            "Optimal, 0 failed and 1 degraded logical devices, 1 defunct disks",
        )
    }
    logical = read(f"{ZABBIX}getconfig-ld.txt", DONE)
    assert ill(logical) == {"logical device 0": (ComponentHealth.DEGRADED, "Degraded")}
    physical = read(f"{ZABBIX}getconfig-pd.txt", DONE)
    assert ill(physical) == {"channel 0 device 13": (ComponentHealth.FAILED, "Failed")}
    assert len(physical.disks) == 3


def test_a_server_whose_disks_are_on_two_channels() -> None:
    """There are six, and both arrays are on all of them."""
    found = read("adaptec/kumy+Parse-Arcconf/output.txt", DONE)
    assert (found.model, len(found.disks), ill(found)) == ("IBM ServeRAID 8i", 6, {})
    assert [len(each.slots) for each in found.arrays] == [6, 6]


def test_excerpts_of_netdata() -> None:
    """Disks without a serial number; an array of SSDs; 12 disks, 2 of them spares."""
    old, current, enclosure = (
        read(f"{NETDATA}getconfig-pd-{name}.txt") for name in ("old", "current", "with-enclosure")
    )
    assert [len(each.disks) for each in (old, current, enclosure)] == [4, 6, 12]
    assert [ill(each) for each in (old, current, enclosure)] == [{}, {}, {}]
    assert {each.serial for each in current.disks} == {""}
    assert [each.slot for each in enclosure.disks if each.usage == "Global Hot-Spare"] == [
        "enclosure 0 slot 10",
        "enclosure 0 slot 11",
    ]
    for name, more in (("old", ""), ("current", DONE)):
        (array,) = read(f"{NETDATA}getconfig-ld-{name}.txt", more).arrays
        assert (array.level, array.state.health, array.size_bytes) == (
            "10",
            ComponentHealth.OK,
            915446 * 2**20,
        )
        assert array.slots == tuple(f"connector 0 device {n}" for n in range(4))


def test_a_smartraid_without_arrays_and_one_as_an_adapter() -> None:
    """They report their PCI address, their disks' temperatures and block devices."""
    for folder, disks, address in (
        ("raid_unconfigured", 8, "0000:60:00.0"),
        ("hba", 7, "0000:d9:00.0"),
    ):
        config = arcconf.parse_config(
            corpus(f"{ULMITOV}{folder}/_getconfig_1").read_text(), "adaptec 1"
        )
        found = config.controller
        assert (found.arrays, len(found.disks), config.pci_address) == ((), disks, address)
        assert ill(found) == {}
        about, physical = (read(f"{ULMITOV}{folder}/_getconfig_1_{name}") for name in ("AD", "PD"))
        assert (about.model, about.firmware) == (found.model, found.firmware)
        assert [each.slot for each in physical.disks] == [each.slot for each in found.disks]
        assert all("media failures" in each.errors_total for each in found.disks)
        temperatures = [each.temperature_celsius for each in found.disks]
        assert all(degrees is not None and 15 < degrees < 60 for degrees in temperatures)
    (alone,) = read(f"{ULMITOV}hba/_getconfig_1_PD_0_1").disks
    assert alone.slot == "enclosure direct attached slot 1"
    (alone,) = read(f"{ULMITOV}raid_unconfigured/_getconfig_1_PD_0_8").disks
    assert alone.slot == "enclosure 1 slot 0"
    assert read(f"{ULMITOV}raid_unconfigured/_getconfig_1_LD").arrays == ()


def test_a_smartraid_with_arrays() -> None:
    """Arrays contain logical devices, which have no disks of their own."""
    groups = read(f"{ULMITOV}raid/_getconfig_1_AR").arrays
    logical = read(f"{ULMITOV}raid/_getconfig_1_LD").arrays
    assert [(each.name, each.label, len(each.slots)) for each in groups] == [
        ("array 0", "A", 2),
        ("array 1", "B", 4),
    ]
    assert [(each.name, each.parent, set(each.slots)) for each in logical] == [
        (f"logical device {n}", f"array {n}", set(groups[n].slots)) for n in (0, 1)
    ]
    assert [each.serial for each in logical] == [
        "600508B1001CF1A2E058530BA221FBBB",
        "600508B1001CA68D3EC043F5687BF245",
    ]
    disks = read(f"{ULMITOV}raid/_getconfig_1_PD").disks
    assert len(disks) == 8
    assert {each.state.health for each in disks} == {ComponentHealth.OK}
    assert {each.slot for each in disks} >= {slot for each in groups for slot in each.slots}


def test_how_many_controllers_there_are() -> None:
    """In all complete outputs; a version of 2016 without its end is refused."""
    for name in ("raid_unconfigured/_getversion", "hba/_getversion", "hba/_list"):
        assert arcconf.parse_count(corpus(ULMITOV + name).read_text()) == 1
    with pytest.raises(ParseError, match="completed successfully"):
        arcconf.parse_count(corpus("adaptec/bug220504/getversion-asr71605.txt").read_text())


def test_the_log_of_errors() -> None:
    """An excerpt with a redacted serial number."""
    text = corpus("adaptec/ibm-cloud-docs+bare-metal/getlogs-device-tabular.txt").read_text()
    log = arcconf_status.parse_device_log(text + DONE)
    assert {serial: totals["mediumErrors"] for serial, totals in log.by_serial.items()} == {
        "WD-XXX": 20
    }
    assert (log.failing, log.full) == (frozenset(), False)
