"""Published outputs of storcli and perccli: each file parsed, with expected results.

The expectations were written after reading each file.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from support.recordings import CORPUS, corpus, needs_corpus

from iowarden.collectors.model import ParseError
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.raid.megaraid import (
    storcli,
    storcli_disks,
    storcli_events,
    storcli_volumes,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from iowarden.collectors.raid.controller import Controller

READ: dict[str, Callable[[str], object]] = {
    "list": storcli.parse_list,
    "controllers": storcli.parse_controllers,
    "disks": storcli_disks.parse_disks,
    "volumes": storcli_volumes.parse_volumes,
    "foreign": storcli_volumes.parse_foreign,
    "progress": storcli.parse_progress,
    "patrol": storcli.parse_patrol_read,
    "events": lambda text: storcli_events.parse_events(text, "megaraid c0"),
}
LIST, WHOLE = "list", "controllers disks volumes"
NAUDIT = "Naudit+pystorcli2/"
SETS = f"{NAUDIT}namedSet/"
MTIK = "mtik00+storcli-check/"
JCPUNK = "jcpunk+puppet-storcli/"
PROMETHEUS = "prometheus-community+node-exporter-textfile-collector-scripts/"
STEVEH = "steveh+telegraf-exec-storcli/"
EXPECTED = {
    f"{NAUDIT}controllerSet/test02/_show_J.json": LIST,
    f"{NAUDIT}controllerSet/test03/__c0_show_J.json": WHOLE,
    f"{NAUDIT}controllerSet/test03/_show_J.json": LIST,
    f"{SETS}create_vd_raid1_00/__c0_v1_show_J.json": "volumes",
    f"{SETS}set_state_offline_00/__c0_e35_s12_set_offline_J.json": "",  # no question
    f"{SETS}set_state_offline_00/__c0_e35_s12_show_J.json": "disks",
    f"{SETS}set_state_offline_00/__c0_e35_sall_show_J.json": "disks",
    f"{SETS}set_state_offline_00/__c0_e35_show_J.json": "",  # an enclosure by itself
    f"{SETS}set_state_offline_00/__c0_eall_show_J.json": "",
    f"{SETS}show_foreign_config_00/__c0__fall_show_J.json": "foreign",
    f"{SETS}spindown_disk_00/__c0_e35_s12_spindown_J.json": "",  # no question
    "agent-doc/event-battery-relearn.txt": "events",
    "check_lsi_raid-41/perccli2-c0-show-tables.txt": "",  # its head is missing
    "ibm-cloud-docs+bare-metal/eall-sall-show-all-grep.txt": "",  # lines that a user selected
    f"{JCPUNK}perccli_call_show_fail.json": LIST,
    f"{JCPUNK}storcli_call_show.json": WHOLE,
    f"{JCPUNK}storcli_call_show_cc.json": "",  # a schedule
    f"{JCPUNK}storcli_call_show_patrolread.json": "patrol",
    f"{JCPUNK}storcli_call_show_vdisk0.json": "disks volumes",
    f"{JCPUNK}storcli_call_show_vdisk234.json": "disks volumes",
    f"{MTIK}bad-events.txt": "events",
    f"{MTIK}invalid-events.txt": "",  # 'errors'
    f"{MTIK}multi-controller-degraded.txt": WHOLE,
    f"{MTIK}multi-controller-fail-events/00-show-all.txt": "controllers",
    f"{MTIK}multi-controller-fail-events/01-show-all.txt": WHOLE,
    f"{MTIK}multi-controller-fail-events/02-events.txt": "events",
    f"{MTIK}multi-controller-fail-events/02-show-all.txt": WHOLE,
    f"{MTIK}multi-controller-offline.txt": WHOLE,
    f"{MTIK}multi-controller-offline/02-show-all.txt": WHOLE,
    f"{MTIK}mutli-controller.txt": WHOLE,
    f"{MTIK}readme-events-degraded-offline.txt": "events",
    f"{MTIK}single-controller-degraded.txt": WHOLE,
    f"{MTIK}single-controller-hba.txt": "controllers disks",
    f"{MTIK}single-controller-missing-drive-count.txt": WHOLE,
    f"{MTIK}single-controller-offline-pd-not-parsed.txt": "controllers disks",  # spoilt rows
    f"{MTIK}single-controller-offline-vd-not-parsed.txt": "controllers disks",
    f"{MTIK}single-controller-offline.txt": WHOLE,
    f"{MTIK}single-controller-ok/00-show-all.txt": WHOLE,
    f"{MTIK}single-controller-ssd.txt": WHOLE,
    "netdata+netdata/storcli/testdata/mpt3sas-controllers-info.json": "controllers disks",
    f"{PROMETHEUS}storcli_-cALL-eALL-sALL_show_all.json": "disks",
    f"{PROMETHEUS}storcli_-cALL_show_all.json": WHOLE,
    f"{STEVEH}list.json": LIST,
    f"{STEVEH}show.json": "controllers disks",
    f"{STEVEH}showall.json": "controllers disks",
    f"{STEVEH}showtemperature.json": "",  # no data that is used
    "wbollock+storcli_logger/readme-logfmt.txt": "",  # another program's form of it
}
"""The parsers that accept each file; none means refused, with a reason."""


def text_of(name: str) -> str:
    """Return the text of a file."""
    return corpus(f"storcli/{name}").read_text(errors="surrogateescape")


def files() -> list[Path]:
    """Return the files of the corpus."""
    found = [path for path in (CORPUS / "storcli").rglob("*") if path.is_file()]
    assert found
    return sorted(found)


@needs_corpus
def test_every_file_is_expected() -> None:
    """No file is skipped."""
    assert {str(path.relative_to(CORPUS / "storcli")) for path in files()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_is_read_as_what_it_is_or_refused(name: str) -> None:
    """And by no other parser."""
    text = text_of(name)
    found = set()
    for what, read in READ.items():
        try:
            read(text)
        except ParseError as error:
            assert len(str(error)) > 30  # noqa: PT017 - a refusal has a reason
        else:
            found.add(what)
    assert found == set(EXPECTED[name].split())


def cards(name: str) -> dict[int, Controller]:
    """Return the controllers of a file."""
    return {n: found.controller for n, found in storcli.parse_controllers(text_of(name)).items()}


def troubles(card: Controller) -> list[tuple[str, str, str]]:
    """Return all faults of a controller: component, class, state."""
    parts = [
        ("controller", card.state),
        *((each.name, each.state) for each in card.arrays),
        *((each.slot, each.state) for each in card.disks),
        *((each.name, each.state) for each in card.batteries),
        *((each.name, each.state) for each in card.sensors),
    ]
    well = {ComponentHealth.OK, ComponentHealth.ABSENT}
    found = [(what, s.health.value, s.word) for what, s in parts if s and s.health not in well]
    return found + [("unread", "", reason) for reason in card.read_errors]


HEALTHY = {
    f"{JCPUNK}storcli_call_show.json": {0: (2, 18), 1: (3, 18), 2: (0, 3)},
    f"{MTIK}mutli-controller.txt": {0: (0, 0), 1: (2, 8), 2: (2, 12)},
    f"{MTIK}multi-controller-fail-events/00-show-all.txt": {0: (0, 0)},
    f"{MTIK}multi-controller-fail-events/01-show-all.txt": {1: (2, 8)},
    f"{MTIK}multi-controller-fail-events/02-show-all.txt": {2: (2, 12)},
    f"{MTIK}single-controller-hba.txt": {0: (0, 16)},
    f"{MTIK}single-controller-missing-drive-count.txt": {0: (4, 16)},
    f"{MTIK}single-controller-ok/00-show-all.txt": {0: (4, 16)},
    f"{MTIK}single-controller-ssd.txt": {0: (2, 16)},
    "netdata+netdata/storcli/testdata/mpt3sas-controllers-info.json": {0: (0, 29)},
    f"{PROMETHEUS}storcli_-cALL_show_all.json": {0: (2, 4)},
    f"{STEVEH}show.json": {0: (0, 26)},
    f"{STEVEH}showall.json": {0: (0, 26)},
}
"""Arrays and disks of each controller; none of these has a fault."""


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_machines_raise_nothing(name: str) -> None:
    """Although some answers have 'Failure', for features that a card lacks."""
    found = cards(name)
    assert [trouble for card in found.values() for trouble in troubles(card)] == []
    told = {n: (len(card.arrays), len(card.disks)) for n, card in found.items()}
    assert told == HEALTHY[name]
    for card in found.values():
        assert len({disk.slot for disk in card.disks}) == len(card.disks)
        assert all(disk.model and disk.size_bytes for disk in card.disks)
        assert all(array.slots for array in card.arrays)
        assert card.model
        assert card.serial
        assert card.firmware


@pytest.mark.parametrize(
    ("name", "number", "expected"),
    [
        (
            f"{MTIK}multi-controller-degraded.txt",
            2,
            [
                ("controller", "attention", "Needs Attention"),
                ("drive group 0", "degraded", "Dgrd"),
                ("virtual drive 0", "degraded", "Dgrd"),
                ("enclosure 88 slot 9", "failed", "Offln"),
            ],
        ),
        (
            f"{MTIK}multi-controller-offline.txt",
            2,
            [
                ("controller", "attention", "Needs Attention"),
                ("drive group 0", "failed", "OfLn"),
                ("virtual drive 0", "failed", "OfLn"),
                ("enclosure 88 slot 2", "failed", "Offln"),
                ("enclosure 88 slot 9", "failed", "Offln"),
            ],
        ),
        (
            f"{MTIK}multi-controller-offline/02-show-all.txt",
            2,
            [
                ("virtual drive 0", "failed", "OfLn"),
                ("enclosure 88 slot 2", "failed", "Offln"),
                ("enclosure 88 slot 9", "failed", "Offln"),
            ],
        ),
        (
            f"{MTIK}single-controller-degraded.txt",
            0,
            [
                ("controller", "failed", "Failure"),
                ("virtual drive 1", "degraded", "Dgrd"),
                ("enclosure 24 slot 10", "failed", "Offln"),
            ],
        ),
        (
            f"{MTIK}single-controller-offline.txt",
            0,
            [
                ("virtual drive 1", "failed", "OfLn"),
                ("enclosure 24 slot 10", "failed", "Offln"),
                ("enclosure 24 slot 11", "failed", "Offln"),
            ],
        ),
        (
            f"{NAUDIT}controllerSet/test03/__c0_show_J.json",
            0,
            [("controller", "attention", "error 59: Incomplete foreign configuration")],
        ),
    ],
)
def test_what_is_wrong_is_seen_and_nothing_else(
    name: str, number: int, expected: list[tuple[str, str, str]]
) -> None:
    """Arrays without redundancy or data, the removed disks, an incomplete configuration."""
    found = cards(name)
    assert troubles(found.pop(number)) == expected
    assert [trouble for card in found.values() for trouble in troubles(card)] == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ibm-cloud-docs+bare-metal/eall-sall-show-all-grep.txt", "Status = "),
        ("check_lsi_raid-41/perccli2-c0-show-tables.txt", "Status = "),
    ],
)
def test_a_refusal_reports_what_does_not_fit(name: str, reason: str) -> None:
    """Beginning of an answer."""
    with pytest.raises(ParseError) as caught:
        storcli.parse_controllers(text_of(name))
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("what", "row", "health"),
    [("pd", "x24:10", ComponentHealth.FAILED), ("vd", "x1/1", ComponentHealth.OK)],
)
def test_a_row_that_was_spoilt_is_reported_and_hides_no_other(
    what: str, row: str, health: ComponentHealth
) -> None:
    """Unreadable disks in addition to an offline array; an offline array that is unreadable."""
    (told,) = storcli.parse_controllers(
        text_of(f"{MTIK}single-controller-offline-{what}-not-parsed.txt")
    ).values()
    assert any(row in reason for reason in told.controller.read_errors)
    assert told.controller.arrays[-1].state.health is health


def test_a_controller_as_a_whole() -> None:
    """Model, firmware, memory, address, clock, temperature and capacitor of one machine."""
    found = storcli.parse_controllers(text_of(f"{PROMETHEUS}storcli_-cALL_show_all.json"))[0]
    card = found.controller
    assert (card.model, card.serial, card.firmware) == (
        "PRAID EP420i",
        "0000000061913681",
        "24.21.0-0076",
    )
    assert (found.address, found.clock_seconds) == ("0000:02:00.0", 1_684_523_904.0)
    assert card.memory_bytes == 2 * 2**30
    assert [s.temperature_celsius for s in card.sensors if s.temperature_celsius] == [52.0]
    (battery,) = card.batteries
    assert (battery.name, battery.ready, battery.temperature_celsius) == ("CVPM02", True, 18.0)
    policies = [array.policy for array in card.arrays if array.policy]
    assert [(p.write_back, p.read_cache, p.word) for p in policies] == [(True, True, "RWBD")]
    slots = {f"enclosure 252 slot {n}" for n in (0, 1, 4, 5)}
    assert {disk.slot for disk in card.disks} == slots
    assert [set(array.slots) for array in card.arrays] == [slots, slots]


def test_the_same_disks_one_by_one() -> None:
    """Serial number, firmware, temperature and counts; the slot is the same as in the list."""
    disks, unread = storcli_disks.parse_disks(
        text_of(f"{PROMETHEUS}storcli_-cALL-eALL-sALL_show_all.json")
    )
    assert unread == ()
    assert [d.slot for d in disks] == [f"enclosure 252 slot {n}" for n in (0, 1, 4, 5)]
    assert len({d.serial for d in disks}) == 4
    assert {d.firmware for d in disks} == {"D1MU004"}
    assert all(d.temperature_celsius and 15 < d.temperature_celsius < 40 for d in disks)
    none = {"media error": 0, "other error": 0, "predictive failure": 0}
    assert [dict(d.errors_total) for d in disks] == [none] * 4
    card = cards(f"{PROMETHEUS}storcli_-cALL_show_all.json")[0]
    merged = storcli_disks.with_details(card, disks)
    assert [(d.slot, d.array, d.serial) for d in merged.disks] == [
        (d.slot, "drive group 0", d.serial) for d in disks
    ]


def test_three_controllers_have_three_places() -> None:
    """Each with its driver's address; the battery of one, none in the other."""
    found = storcli.parse_controllers(text_of(f"{MTIK}mutli-controller.txt"))
    assert [told.address for told in found.values()] == [
        "0000:04:00.0",
        "0000:06:00.0",
        "0000:84:00.0",
    ]
    batteries = {n: told.controller.batteries for n, told in found.items()}
    assert {n: [(b.name, b.state.health) for b in own] for n, own in batteries.items()} == {
        0: [("iBBU-09", ComponentHealth.OK)],
        1: [("battery", ComponentHealth.ABSENT)],
        2: [("CVPM02", ComponentHealth.OK)],
    }


def test_disks_in_no_enclosure_have_slots_alone() -> None:
    """Sixteen drives behind a backplane without reports."""
    found = storcli.parse_controllers(text_of(f"{MTIK}single-controller-ssd.txt"))[0]
    assert found.bare
    assert [d.slot for d in found.controller.disks] == [f"slot {n}" for n in range(25, 41)]
    assert found.controller.arrays[1].slots == ("slot 25", "slot 26")
    assert Counter(d.usage for d in found.controller.disks) == {"member": 2, "unused": 14}


def test_disks_of_plain_adapters_have_serial_numbers() -> None:
    """In text and in JSON; one does not count errors, which is not 0."""
    disks, _ = storcli_disks.parse_disks(text_of(f"{MTIK}single-controller-hba.txt"))
    assert len({d.serial for d in disks if d.serial}) == 16
    disks, _ = storcli_disks.parse_disks(text_of(f"{STEVEH}showall.json"))
    assert len({d.serial for d in disks if d.serial}) == 26
    assert all(d.errors_total == {} for d in disks)


def test_a_virtual_drive_by_itself() -> None:
    """Its configured policy, and its identity for the host."""
    for number in (0, 234):
        found = storcli_volumes.parse_volumes(
            text_of(f"{JCPUNK}storcli_call_show_vdisk{number}.json")
        )
        (array,) = found.values()
        assert (array.name, array.level, array.label) == (
            f"virtual drive {number}",
            "RAID10",
            "HOME",
        )
        assert array.serial == "6a0042bb0fccfec02c14e04218ae3545"
        assert array.policy
        assert (array.policy.write_back, array.policy.default_write_back) == (True, True)


def test_tables_of_the_second_generation() -> None:
    """With the missing head: its disks are OK, and three of eight are not listed."""
    head = (
        "Controller = 0\nStatus = Success\nDescription = None\n\nProduct Name = PERC H965i Front\n"
        f"Driver Name = mpi3mr\n\nVD LIST :\n=======\n\n{'-' * 67}\n"
    )
    text = text_of("check_lsi_raid-41/perccli2-c0-show-tables.txt").rstrip("\n")
    card = storcli.parse_controllers(f"{head}{text}\n{'-' * 67}\n")[0].controller
    assert troubles(card) == [("unread", "", "expected 8 disks, got 5: the others are unknown")]
    assert [d.slot for d in card.disks] == [f"enclosure 268 slot {n}" for n in range(5)]
    (array,) = card.arrays
    assert (array.name, array.size_bytes) == ("virtual drive 1", round(2.618 * 2**40))
    assert array.policy
    assert (array.policy.write_back, array.policy.default_write_back) == (True, True)


def test_a_foreign_configuration_and_a_disk_that_somebody_took_out() -> None:
    """Both are seen."""
    (array,) = storcli_volumes.parse_foreign(
        text_of(f"{SETS}show_foreign_config_00/__c0__fall_show_J.json")
    )
    assert (array.level, array.state.health) == ("RAID60", ComponentHealth.ATTENTION)
    name = "set_state_offline_00/__c0_e35_s12_show_J.json"
    ((disk,), _) = storcli_disks.parse_disks(text_of(SETS + name))
    assert (disk.slot, disk.state.health) == ("enclosure 35 slot 12", ComponentHealth.FAILED)


def test_adapters_are_no_raid_controllers_and_none_is_none() -> None:
    """The list has no RAID controller in it."""
    names = (f"{NAUDIT}controllerSet/test02/_show_J.json", f"{STEVEH}list.json")
    for name in (*names, f"{JCPUNK}perccli_call_show_fail.json"):
        assert storcli.parse_list(text_of(name)) == ()


@pytest.mark.parametrize(
    "name",
    [
        "bad-events.txt",
        "multi-controller-fail-events/02-events.txt",
        "readme-events-degraded-offline.txt",
    ],
)
def test_an_array_that_lost_two_disks(name: str) -> None:
    """Degraded, offline, and degraded again as one was inserted again."""
    log = storcli_events.parse_events(text_of(MTIK + name), "megaraid c2")
    assert [(e.sequence, e.kind, e.word, e.place, e.clock_seconds) for e in log.events] == [
        (0xCF1A, "megaraid_vd_degraded", "CRITICAL", "virtual drive 0", 1_433_268_128.0),
        (0xCF1D, "megaraid_vd_offline", "FATAL", "virtual drive 0", 1_433_268_191.0),
        (0xCF20, "megaraid_vd_degraded", "CRITICAL", "virtual drive 0", 1_433_268_215.0),
    ]


def test_a_battery_that_is_going_to_be_measured() -> None:
    """One entry by itself."""
    text = text_of("agent-doc/event-battery-relearn.txt")
    (event,) = storcli_events.parse_events(text, "c").events
    assert (event.sequence, event.kind, event.word) == (0x7093, "megaraid_battery_learn", "INFO")


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        (
            "blog-915993589/AdpEventLog-bbu.txt",
            ["check_progress", "write_back_off", "battery_charge", "write_back_on"],
        ),
        # The first entry lost its number: the listing was cut at its head.
        ("elatov+elatov.github.io/AdpEventLog-GetEvents-tail.txt", ["vd_optimal", "vd_optimal"]),
    ],
)
def test_the_older_program_lists_the_same_entries(name: str, kinds: list[str]) -> None:
    """MegaCli's records are those of storcli."""
    text = corpus(f"megacli/{name}").read_text()
    log = storcli_events.parse_events(text, "c")
    assert [e.kind for e in log.events] == [f"megaraid_{kind}" for kind in kinds]
