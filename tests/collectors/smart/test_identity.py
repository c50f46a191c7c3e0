"""Which drives are one disk, and the name of each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.smart.drive import AccessMethod, Drive, PollResult, Protocol, ReadStatus
from iowarden.collectors.smart.identity import IdentifiedPoll, merge, serial_number, world_wide_name

MODEL = "WDC WD4000FYYZ-01UL1B0"
SERIAL = "WD-WCC130123456"
WWN = "50014ee2b1234567"


def way(
    path: str,
    kind: str = "sat",
    serial: str = SERIAL,
    *,
    cover: ReadStatus = ReadStatus.READ,
    **changes: object,
) -> IdentifiedPoll:
    """Return a polled drive; '/dev/sda' is the block device of that name."""
    device = path.removeprefix("/dev/") if "," not in kind and "/bus/" not in path else ""
    drive = Drive(Protocol.ATA) if cover is ReadStatus.READ else None
    polled = PollResult(AccessMethod(path, kind, device), cover, drive=drive)
    return replace(IdentifiedPoll(polled, serial, MODEL), **changes)  # type: ignore[arg-type]


def test_a_disk_that_a_controller_lists_twice_is_one() -> None:
    """Some MegaRAID cards answer for a disk as 'megaraid,0' and as 'megaraid,256'."""
    ways = [way("/dev/bus/6", f"megaraid,{n}", f"QM{n % 256:05}") for n in (257, 256, 1, 0)]
    disks = merge(ways)
    assert {
        key: (disk.polled.target.kind, [other.kind for other in disk.others])
        for key, disk in disks.items()
    } == {
        "QM00000": ("megaraid,0", ["megaraid,256"]),
        "QM00001": ("megaraid,1", ["megaraid,257"]),
    }
    assert not any(disk.duplicate for disk in disks.values())


def test_two_paths_to_a_sas_disk_are_one_disk() -> None:
    """Multipath: the same serial number and WWN at two block devices."""
    ways = [way("/dev/sdb", "scsi", wwn=WWN), way("/dev/sda", "scsi", wwn="0x" + WWN)]
    disk = merge(ways)[SERIAL]
    assert (disk.device, [str(other) for other in disk.others]) == ("sda", ["/dev/sdb -d scsi"])


def test_the_direct_way_is_the_better_one_while_it_answers() -> None:
    """A disk that is both passed through and listed by the controller; then the device hangs."""
    ways = [way("/dev/sg2", "areca,1"), way("/dev/sda")]
    assert merge(ways)[SERIAL].polled.target.path == "/dev/sda"
    ways[1] = way("/dev/sda", cover=ReadStatus.HUNG)
    stuck = merge(ways)[SERIAL]
    assert stuck.polled.target.path == "/dev/sg2"
    assert (stuck.device, [other.path for other in stuck.others]) == ("sda", ["/dev/sda"])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"wwn": WWN}, {"wwn": "50014ee2b7654321"}),
        ({"capacity_bytes": 4_000_787_030_016}, {"capacity_bytes": 2_000_398_934_016}),
        ({"hours": 41_000}, {"hours": 12}),
        ({"model": "KINGSTON SA400S37240G"}, {"model": "ST4000NM0035"}),
        ({}, {}),
    ],
    ids=["WWN", "size", "age", "model", "two block devices without WWN"],
)
def test_different_disks_of_one_serial_number_are_distinguished(
    one: dict[str, object], other: dict[str, object]
) -> None:
    """A vendor assigned it twice: any difference keeps them two, and it is reported."""
    disks = merge([way("/dev/sda", **one), way("/dev/sdb", **other)])  # type: ignore[arg-type]
    assert len(disks) == 2
    assert all(key.startswith(SERIAL + " ") for key in disks)
    assert all("1 more with serial number" in disk.duplicate for disk in disks.values())


def test_the_age_of_a_disk_grows_between_two_looks() -> None:
    """The other access method was polled a day ago: 24 hours more are the same disk."""
    ways = [
        way("/dev/sda", hours=1024, hours_seconds=86_400.0),
        way("/dev/sg2", "areca,1", hours=1000),
    ]
    assert len(merge(ways)) == 1


@pytest.mark.parametrize(
    "serial",
    [
        "",
        "   ",
        "0000000000",
        "Unknown",
        "0123456789ABCDEF",
        "\0\0\0\0",
        "n/a",
        "-",
        "Serial Number",
        "Not Specified",
    ],
)
def test_a_serial_number_that_tells_nobody_apart_is_none(serial: str) -> None:
    """Two disks in a USB dock whose bridge reports the same: named by WWN, or by location."""
    assert serial_number(serial) == ""
    named = merge([way("/dev/sda", serial=serial, wwn=WWN), way("/dev/sdb", serial=serial)])
    assert set(named) == {f"wwn {WWN}", "/dev/sdb -d sat"}


@pytest.mark.parametrize("serial", ["SERIAL-0-1", "NONE4711", "WD-WX11D7000000", "0000C9213"])
def test_a_serial_number_with_a_word_in_it_is_one(serial: str) -> None:
    """Only if the text is the whole value, it is a placeholder."""
    assert serial_number(f" {serial}  ") == serial


def test_a_wwn_that_all_disks_of_a_controller_share_names_none_of_them() -> None:
    """Behind some HP controllers each disk has the WWN of the volume."""
    ways = [way("/dev/sg1", f"cciss,{n}", "", wwn=WWN) for n in range(3)]
    assert set(merge(ways)) == {f"/dev/sg1 -d cciss,{n}" for n in range(3)}
    with_serials = [way("/dev/sg1", f"cciss,{n}", f"9XG0{n}ABC", wwn=WWN) for n in range(3)]
    assert set(merge(with_serials)) == {"9XG00ABC", "9XG01ABC", "9XG02ABC"}


def test_a_name_outlives_another_letter_and_another_order() -> None:
    """After a boot the disks have other kernel names: their own names are the same."""
    before = merge([way("/dev/sda", serial="A-0001"), way("/dev/sdb", serial="B-0002")])
    after = merge([way("/dev/sda", serial="B-0002"), way("/dev/sdb", serial="A-0001")])
    assert set(before) == set(after)
    assert (before["A-0001"].device, after["A-0001"].device) == ("sda", "sdb")


def test_a_disk_in_a_slot_keeps_its_name_there() -> None:
    """Without serial number and WWN the slot identifies it, not the letter."""
    target = AccessMethod("/dev/sdq", "sat", "sdq", slot="enclosure 1 slot 3")
    polled = PollResult(target, ReadStatus.UNREADABLE)
    assert set(merge([IdentifiedPoll(polled)])) == {"enclosure 1 slot 3"}


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("0x50014EE2B1234567", WWN),
        ("naa.50014ee2b1234567", WWN),
        ("5 0014ee 2b1234567", WWN),
        ("0x0000000000000000", ""),
        ("ffffffffffffffff", ""),
        ("", ""),
    ],
)
def test_a_wwn_has_one_spelling(text: str, digits: str) -> None:
    """Kernel, smartctl and labels each spell it differently."""
    assert world_wide_name(text) == digits


SERIALS = st.sampled_from(["", "Unknown", "A-0001", "B-0002", "A-0001 "])
WAYS = st.lists(
    st.builds(
        way,
        st.sampled_from(["/dev/sda", "/dev/sdb", "/dev/sg1", "/dev/bus/0"]),
        st.sampled_from(["sat", "scsi", "areca,1", "megaraid,0", "megaraid,256"]),
        SERIALS,
        cover=st.sampled_from([ReadStatus.READ, ReadStatus.UNREADABLE, ReadStatus.ASLEEP]),
        wwn=st.sampled_from(["", WWN, "50014ee2b7654321"]),
        hours=st.sampled_from([None, 10, 40_000]),
    ),
    max_size=8,
    unique_by=lambda found: found.target,
)


@given(WAYS, st.randoms())
def test_every_way_leads_to_one_disk_in_whatever_order_they_come(
    ways: list[IdentifiedPoll], random: object
) -> None:
    """Each access method is in exactly one disk, and the names depend only on the reported data."""
    disks = merge(ways)
    listed = [target for disk in disks.values() for target in (disk.polled.target, *disk.others)]
    assert sorted(map(str, listed)) == sorted(str(found.target) for found in ways)
    assert all(key == disk.key for key, disk in disks.items())
    shuffled = list(ways)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert merge(shuffled) == disks
    assert list(disks) == list(merge(shuffled))
