"""Published outputs of HP's and other programs: each file parsed, with expected results.

The expectations were written after reading each file.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from support.recordings import CORPUS, corpus, needs_corpus

from iowarden.collectors.model import ParseError
from iowarden.collectors.raid.adaptec import arcconf, arcconf_status
from iowarden.collectors.raid.areca import cli64, event_info
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.raid.smartarray import cciss_vol_status, ssacli
from iowarden.collectors.raid.threeware import tw_cli
from iowarden.collectors.smart import members

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from iowarden.collectors.raid.controller import Controller

READERS: dict[str, Callable[[str], object]] = {
    "ssacli": ssacli.parse_controllers,
    "cciss": cciss_vol_status.parse_volume_status,
}
OTHERS: dict[str, Callable[[str], object]] = {
    **READERS,
    "arcconf": lambda text: arcconf.parse_config(text, "adaptec 1"),
    "arcconf tasks": arcconf_status.parse_tasks,
    "arcconf log": arcconf_status.parse_device_log,
    "arcconf count": arcconf.parse_count,
    "areca sets": cli64.parse_raid_sets,
    "areca disks": cli64.parse_bays,
    "areca events": lambda text: event_info.parse_events(text, "areca 1"),
    "3ware": lambda text: tw_cli.parse_controller(text, "c0"),
    "3ware list": tw_cli.parse_controllers,
}
FINE = {ComponentHealth.OK, ComponentHealth.ABSENT, ComponentHealth.BUSY}
CHECK_RAID = "hp/glensc+nagios-plugin-check_raid/"


def files(folder: str) -> list[Path]:
    """Return the files below a folder of the corpus."""
    return sorted(path for path in (CORPUS / folder).rglob("*") if path.is_file())


def verdicts(path: Path, readers: dict[str, Callable[[str], object]]) -> frozenset[str]:
    """Return the parsers that accept a file."""
    text = path.read_text(errors="surrogateescape")
    found = set()
    for name, read in readers.items():
        try:
            read(text)
        except ParseError as error:
            assert str(error)  # noqa: PT017 - a refusal has a reason
        else:
            found.add(name)
    return frozenset(found)


def printed(name: str) -> list[Controller]:
    """Return the controllers of a file."""
    text = corpus(CHECK_RAID + name).read_text()
    return [each.controller for each in ssacli.parse_controllers(text)]


def vol_status(name: str) -> dict[str, Controller]:
    """Return the controllers of a file of 'cciss_vol_status'."""
    text = corpus(CHECK_RAID + name).read_text()
    return {each.name: each for each in cciss_vol_status.parse_volume_status(text)}


def ill(found: Controller) -> dict[str, tuple[ComponentHealth, str]]:
    """Return the components that are not OK."""
    told = {
        **({"controller": found.state} if found.state else {}),
        **{each.name: each.state for each in (*found.arrays, *found.batteries)},
        **{each.slot: each.state for each in found.disks},
        **{each.name: each.state for each in found.sensors if each.state},
    }
    return {
        name: (state.health, state.word) for name, state in told.items() if state.health not in FINE
    }


@needs_corpus
def test_every_file_is_read_as_one_thing_or_refused() -> None:
    """Refused: errors, versions, lists of the driver cciss and of lsscsi, smartctl."""
    assert Counter(verdicts(path, READERS) for path in files("hp")) == {
        frozenset({"ssacli"}): 24,
        frozenset({"cciss"}): 11,
        frozenset(): 15,
    }
    refused = {str(p.relative_to(p.parents[1])) for p in files("hp") if not verdicts(p, READERS)}
    folder = "glensc+nagios-plugin-check_raid/"
    assert refused == {
        *("145/logicaldrive.slot1", "151/logicaldrive.slot3", "154/logicaldrive.slot1"),
        *("heracles/logicaldrive.all.show", "issue157/controller.logicaldrive.all.show"),
        *(f"{folder}cciss-1.{version}" for version in ("09", "11", "12a")),
        *("cciss/cciss0", "issue84/cciss0", "issue149/lsscsi-g", "issue205/lsscsi-g"),
        *(f"{folder}smartctl.cciss.{number}" for number in (0, 7, 8)),
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("PR94/ctrl-status", [("hp slot 0", "OK", True)]),
        ("heracles/controller.all.show.status", [("hp slot unknown", "OK", None)]),
        (
            "hpacucli.controller.all.show.status",
            [
                ("hp MY STORAGE", "OK", True),
                ("hp MY STORAGE #2", "OK", True),
                ("hp slot 0", "OK", True),
            ],
        ),
        ("issue106/ctrl.status", [("hp slot 0", "", None)]),
        ("issue139/controller", [("hp slot 0b", "", None)]),
        ("issue157/controller.all.show.status", [("hp slot 0", "OK", None)]),
        ("145/controller", [("hp slot 1", "", None), ("hp slot 0", "", None)]),
        ("151/controller", [("hp slot 0", "OK", True), ("hp slot 3", "Not Configured", None)]),
        ("154/controller", [("hp slot 0", "OK", None), ("hp slot 1", "Not Configured", None)]),
        ("PR193/ctrl-status", [("hp slot 0", "Temporarily Disabled", False)]),
    ],
)
def test_controllers_their_caches_and_batteries(
    name: str, expected: list[tuple[str, str, bool | None]]
) -> None:
    """All are OK, or wait for a battery that is charging."""
    found = printed(name)
    assert [
        (
            each.name,
            "".join(s.state.word for s in each.sensors if s.state),
            each.batteries[0].ready if each.batteries else None,
        )
        for each in found
    ] == expected
    assert [ill(each) for each in found] == [{}] * len(expected)
    assert {each.state and each.state.word for each in found} == {"OK"}


@pytest.mark.parametrize(
    ("name", "controller", "level", "size_gigabytes"),
    [
        ("PR94/ld-show", "hp slot 0", "5", 894.2),
        ("PR193/ld-show", "hp slot 0", "1", 279.4),
        ("145/logicaldrive.slot0", "hp slot 0", "1", 838.3),
        ("151/logicaldrive.slot0", "hp slot 0", "5", 838.1),
        ("154/logicaldrive.slot0", "hp slot 0", "1+0", 17.0),
        ("hpacucli.slot.logicaldrive.all.show", "hp slot 0", "1", 68.3),
        ("issue106/logical.status", "hp slot 0", "1", 558.9),
        ("issue139/logicaldrive", "hp slot 0b", "5", 10.9 * 1024),
        ("issue157/controller.slot=0.logicaldrive.all.show", "hp slot 0", "1", 67.8),
    ],
)
def test_logical_drives_that_are_well(
    name: str, controller: str, level: str, size_gigabytes: float
) -> None:
    """One each, below a banner or a prompt, or behind a tab."""
    (found,) = printed(name)
    assert (found.name, ill(found)) == (controller, {})
    (drive,) = found.arrays
    assert (drive.name, drive.parent, drive.level) == ("logical drive 1", "array A", level)
    assert drive.size_bytes == pytest.approx(size_gigabytes * 2**30, abs=1)


def test_the_logical_drive_that_lost_a_disk() -> None:
    """It works without redundancy."""
    (found,) = printed("hpacucli.interim_recovery_mode.show")
    assert ill(found) == {"logical drive 1": (ComponentHealth.DEGRADED, "Interim Recovery Mode")}


def test_disks_of_an_adapter_without_arrays() -> None:
    """68 of them, and two of another controller's array."""
    (many,) = printed("145/physicaldrive.slot1")
    assert (many.name, len(many.disks), ill(many)) == ("hp slot 1", 68, {})
    assert {each.size_bytes for each in many.disks} == {6_001_100_000_000}
    assert len({each.slot for each in many.disks}) == 68
    (few,) = printed("145/physicaldrive.slot0")
    assert [(each.slot, each.array) for each in few.disks] == [
        ("port 1I box 1 bay 1", "array A"),
        ("port 1I box 1 bay 2", "array A"),
    ]
    assert ill(few) == {}


def test_two_controllers_in_detail() -> None:
    """One with six disks of an enclosure unassigned, both without memory for writes."""
    text = corpus("hp/netdata+netdata/hpssa/testdata/ssacli-P212_P410i.txt").read_text()
    found = ssacli.parse_controllers(text)
    assert [(f.controller.name, f.pci_address) for f in found] == [
        ("hp slot 5", "0000:14:00.0"),
        ("hp slot 0", "0000:04:00.0"),
    ]
    first, second = (each.controller for each in found)
    assert (ill(first), ill(second)) == ({}, {})
    assert Counter(each.array for each in first.disks) == {"array A": 6, "": 6}
    assert Counter(each.array for each in second.disks) == {"array A": 2, "array B": 4}
    assert [(a.name, a.level, len(a.slots)) for a in (*first.arrays, *second.arrays)] == [
        ("array A", "", 6),
        ("logical drive 1", "5", 6),
        ("array A", "", 2),
        ("array B", "", 4),
        ("logical drive 1", "1", 2),
        ("logical drive 2", "1+0", 4),
    ]
    policies = [each.policy for each in (*first.arrays, *second.arrays) if each.policy]
    assert [(each.write_back, each.default_write_back) for each in policies] == [(False, False)] * 3
    degrees = [each.temperature_celsius for each in (*first.disks, *second.disks)]
    assert all(each is not None and 29 < each < 45 for each in degrees)


def test_one_controller_in_detail() -> None:
    """Eight disks in two arrays, a battery, caches for writes."""
    text = corpus("hp/netdata+netdata/hpssa/testdata/ssacli-P400ar.txt").read_text()
    (one,) = ssacli.parse_controllers(text)
    found = one.controller
    assert (found.model, found.firmware, one.pci_address, ill(found)) == (
        "Smart Array P440ar",
        "3.56-0",
        "0000:03:00.0",
        {},
    )
    assert [len(each.slots) for each in found.arrays] == [6, 2, 6, 2]
    assert [each.policy.write_back for each in found.arrays if each.policy] == [True, True]
    assert found.batteries[0].ready is True
    assert [s.temperature_celsius for s in found.sensors if s.temperature_celsius] == [47.0, 41.0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("argos", {"cciss c0": ("6", 0, {})}),
        ("zen", {"cciss sda": ("1", 0, {})}),
        ("cache-status", {"cciss c0": ("1", 2, {})}),
        ("cache-status.bruno", {"cciss sda": ("1", 2, {})}),
        ("cetus", {"cciss c1": ("1", 50, {}), "cciss c0": ("1", 2, {})}),
        (
            "c1",
            {
                "cciss c0": ("1", 0, {}),
                "cciss c1": (
                    "1",
                    0,
                    {
                        "enclosure bus 3 port 1E MSA70": (
                            ComponentHealth.ATTENTION,
                            "Temperature problem",
                        )
                    },
                ),
            },
        ),
        (
            "argos2",
            {
                "cciss c0": (
                    "6",
                    4,
                    {"cache": (ComponentHealth.DEGRADED, "Write cache temporarily disabled")},
                )
            },
        ),
        (
            "lupus",
            {
                "cciss c0": (
                    "1",
                    10,
                    {"cache": (ComponentHealth.DEGRADED, "Write cache temporarily disabled")},
                )
            },
        ),
    ],
)
def test_volumes_disks_and_caches(name: str, expected: dict[str, tuple[object, ...]]) -> None:
    """By controller: the level of its first volume, its disks, what is not well."""
    found = vol_status(f"cciss_vol_status.{name}")
    assert {
        each.name: (each.arrays[0].level, len(each.disks), ill(each)) for each in found.values()
    } == expected
    for each in found.values():
        assert len({disk.serial for disk in each.disks}) == len(each.disks)
        assert all(disk.model and disk.firmware for disk in each.disks)


def test_a_controller_with_two_volumes_and_an_enclosure() -> None:
    """Its write cache is unprotected, because its batteries are low."""
    found = vol_status("cciss_vol_status.lupus")["cciss c0"]
    assert [(a.name, a.level) for a in found.arrays] == [("volume 0", "1"), ("volume 1", "6")]
    policy = found.arrays[0].policy
    assert policy is not None
    assert (policy.write_back, policy.default_write_back) == (False, True)


def test_other_ways_to_ask() -> None:
    """By '/dev/sgN', one of which is no controller; parallel SCSI; a wider column."""
    many = vol_status("issue149/cciss_vol_status-V")
    assert [(name, len(each.disks), ill(each)) for name, each in many.items()] == [
        ("cciss sda", 4, {})
    ]
    assert "No such file or directory" in many["cciss sda"].read_errors[0]
    old = vol_status("issue84/vol_status")["cciss c0"]
    assert [(d.slot, d.model, d.serial, d.firmware) for d in old.disks] == [
        ("port J1 box 0 bay 0", "COMPAQ BD07289BB8", "DAL1P64091FN0615", "HPB1"),
        ("port J1 box 0 bay 1", "COMPAQ BD0728A4B4", "J2094RPK", "HPB8"),
    ]
    assert ill(old) == {}
    wide = vol_status("issue205/cciss_vol_status-V_dev_sg0")["cciss sda"]
    assert (len(wide.disks), ill(wide)) == (8, {})
    assert (wide.disks[5].model, wide.disks[5].serial) == (
        "HP EG0900FBVFQ",
        "KVK7YKBJ",
    )


def test_smartctl_behind_a_controller() -> None:
    """After the last disk the driver reports the end: that ends the list, and is no fault."""
    text = corpus(f"{CHECK_RAID}smartctl.cciss.8").read_text()
    assert members.parse_cciss(text) == "end"
    for number in (0, 7):
        with pytest.raises(ParseError, match="JSON"):
            members.parse_cciss(corpus(f"{CHECK_RAID}smartctl.cciss.{number}").read_text())


@needs_corpus
def test_what_other_programs_print_is_refused() -> None:
    """Of drivers that the kernel no longer has, or software RAID that is read otherwise.

    gdth, megarc, afacli: removed with Linux 5.10, or older than any system with a Python 3.11.
    dmsetup, dmraid, lsraid: no controllers. mvcli: Marvell's, which root may not run here.
    """
    found = files("other")
    assert len(found) == 31
    assert {str(path): verdicts(path, OTHERS) for path in found if verdicts(path, OTHERS)} == {}
