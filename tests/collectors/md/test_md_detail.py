"""What mdadm says of arrays, on machines of others and in texts written by its grammar."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recordings import CORPUS, cases_of_corpus, needs_corpus

from iowarden.collectors.machine import probe_path
from iowarden.collectors.md.md_detail import Details, Slot, parse_detail, read_detail
from iowarden.collectors.md.mdstat import Array, from_mdstat, parse_mdstat
from iowarden.collectors.model import AbsentError, ParseError

if TYPE_CHECKING:
    from conftest import MachineMaker

LOST = """/dev/md5:
           Version : 1.2
     Creation Time : Sat Nov 21 09:00:00 2026
        Raid Level : raid5
      Raid Devices : 4
     Total Devices : 4
             State : clean, degraded, recovering
    Active Devices : 2
   Working Devices : 3
    Failed Devices : 1
     Spare Devices : 1

    Rebuild Status : 7% complete

              Name : shelf: 5  (local to host shelf)
              UUID : 00000000:11111111:22222222:33333333
            Events : 42

    Number   Major   Minor   RaidDevice State
       0       8        1        0      active sync   /dev/sda1
       4       8       17        1      spare rebuilding   /dev/sdb1
       -       0        0        2      removed
       3       8       49        3      active sync   /dev/disk/by-label/a b

       2       8       33        -      faulty   /dev/sdc1
"""


def test_the_place_without_a_member_is_named() -> None:
    """'removed' has no device, and the one that is rebuilt is not there yet."""
    (array,) = parse_detail(LOST).arrays
    assert (array.name, array.level, array.label) == ("md5", "raid5", "shelf: 5")
    assert array.states == ("clean", "degraded", "recovering")
    assert (array.raid_devices, array.active_devices, array.working_devices) == (4, 2, 3)
    assert (array.failed_devices, array.spare_devices) == (1, 1)
    assert (array.action, array.done_ratio) == ("Rebuild", 0.07)
    assert array.missing == (1, 2)
    assert array.slots[2] == Slot(2, ("removed",))
    assert array.slots[3].device == "disk/by-label/a b"
    assert array.slots[4] == Slot(None, ("faulty",), "sdc1")
    assert [slot.missing for slot in array.slots] == [False, True, True, False, False]


def test_the_old_form_of_a_removed_member() -> None:
    """mdadm before 3.3 numbered it."""
    (array,) = parse_detail(LOST.replace("       -       0 ", "       2       0 ")).arrays
    assert array.missing == (1, 2)


def test_a_member_that_is_replaced_is_not_missing() -> None:
    """Its replacement is filled in the same place, and has a row of its own."""
    text = LOST.replace("clean, degraded, recovering", "clean, recovering")
    text = text.replace("Working Devices : 3", "Working Devices : 5").replace(
        "4       8       17        1      spare rebuilding   /dev/sdb1",
        "1       8       18        1      active sync   /dev/sdf1\n"
        "       4       8       17        1      spare rebuilding   /dev/sdb1",
    )
    text = text.replace("-       0        0        2      removed", "2 8 1 2 active sync /dev/sdg1")
    assert parse_detail(text).arrays[0].missing == ()


@pytest.mark.parametrize(
    ("was", "now", "error"),
    [
        (
            "       3       8       49        3      active sync   /dev/disk/by-label/a b\n",
            "",
            "got 3",
        ),
        ("Raid Devices : 4", "Raid Devices : 5", "expected rows of 5 raid devices, got 4"),
        ("clean, degraded, recovering", "clean, recovering", "'clean, recovering' and the table"),
        ("removed", "active sync   /dev/sdg1", ""),
        ("clean, degraded", "clean, wobbly, degraded", "a known state, got 'wobbly'"),
        (
            "1      spare reb",
            "1      wobbly spare reb",
            "a known state of a member, got 'wobbly'",
        ),
        ("Failed Devices : 1", "Failed Devices : 2", "rows of 2 failed devices, got 1"),
        ("Failed Devices : 1", "Failed Devices : one", "a number, got 'Failed Devices : one'"),
        ("Working Devices : 3", "Working Devices : 2", "rows of 2 working devices, got 3"),
    ],
)
def test_a_table_that_contradicts_the_counts_is_refused(was: str, now: str, error: str) -> None:
    """Cut off, or made up: which place has no member cannot be told."""
    spoilt = LOST.replace(was, now)
    assert spoilt != LOST
    if error:
        with pytest.raises(ParseError, match=error):
            parse_detail(spoilt)
    spoilt = spoilt.replace("spare rebuilding", "active sync")
    with pytest.raises(ParseError, match="md5: expected"):
        parse_detail(spoilt)


def test_a_detail_that_is_cut_never_misses_less() -> None:
    """Wherever it ends: refused, not known, or all that is missing is named."""
    for end in range(LOST.index("/dev/sdc1")):
        with contextlib.suppress(ParseError):
            (array,) = parse_detail(LOST[:end]).arrays
            assert set(array.missing) >= {1, 2} or array.raid_devices is None


def test_lines_that_end_in_cr_and_complaints_behind() -> None:
    """What mdadm complains of comes after its output."""
    found = parse_detail(LOST.replace("\n", "\r\n") + "mdadm: failed to open /dev/sdx: busy\n")
    assert found.arrays == parse_detail(LOST).arrays
    assert found.complaints == ("mdadm: failed to open /dev/sdx: busy",)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "expected '/dev/<array>:', got ''"),
        ("mdadm: cannot open /dev/md9: No such file or directory\n", "got 'mdadm: cannot open"),
        ("/dev/sda1:\n          Magic : a92b4efc\n", "line 2: expected a field of --detail"),
        ("       Platform : Intel\n", "line 1: expected '/dev/<array>:'"),
        (LOST.replace("      removed", "  ") + "       6       8\n", "line 26: expected '<number>"),
        (LOST.replace(" -       0        0 ", " x       0        0 "), "line 22: expected"),
    ],
)
def test_what_is_no_detail_is_refused(text: str, error: str) -> None:
    """With the line and what was expected."""
    with pytest.raises(ParseError) as caught:
        parse_detail(text)
    assert error in str(caught.value)


def test_mdadm_is_asked_through_the_probe(machine: MachineMaker) -> None:
    """It ends with 1 for an array that lost a member: the text counts."""
    answer = json.dumps({"status": 1, "signal": None, "stdout": LOST, "stderr": ""})
    root = machine({probe_path("run", ("mdadm", "--detail", "/dev/md5")): answer})
    assert read_detail(root, "md5").missing == (1, 2)
    with pytest.raises(AbsentError):
        read_detail(root, "md6")


@given(st.text(max_size=300) | st.text(alphabet="/dev:md \n0123-:Magic", max_size=300))
def test_any_text_is_arrays_or_a_refusal(text: str) -> None:
    """Nothing else comes out of the parser."""
    with contextlib.suppress(ParseError):
        assert isinstance(parse_detail(text), Details)
        assert parse_detail(LOST + "\n" + text).arrays[0].name == "md5"


REFUSED = "refused"
UNHEALTHY = {
    # '/proc/mdstat': array, members missing, what runs
    "white-mdstat": [("md126", 1, "recover")],
    "mdstat-failed": [("md0", 1, "idle")],
    "pr28_1": [("md0", 1, "recover"), ("md1", 1, "idle")],
    "pr28_2": [("md0", 1, "recover"), ("md1", 1, "resync")],
    "mdStatFileFailedDisk.txt": [("md0", 1, "idle")],
    "mdstat.03": [("md0", 1, "idle")],
    "mdstat.05": [("md127", 1, "recover")],
    # 'mdadm --detail': array, places missing, what runs
    "white-mdadm-126": [("md126", 1, "Rebuild")],
    "mdadm_d_content_md1.txt": [("md1", None, "")],
    # A prompt, lost indentation, its end cut off, made up; other commands; no array.
    **dict.fromkeys(
        ["pr28_0", "mdstat.15", "mdstat-4.txt", "mdstat-5.txt", "mdStatFileInvalid.txt"], REFUSED
    ),
    **dict.fromkeys(
        ["mdstat-0.txt", "mdstat-1.txt", "mdstat-2.txt", "mdstat-raid0", "mdstat.16"], REFUSED
    ),
    **dict.fromkeys(["mdstat-3.txt", "mdstat_test_1.txt"], REFUSED),
    **dict.fromkeys(
        [
            "mdadm_content.txt",
            "mdadm_detail_platform_content.txt",
            "mdadm_d_content_no_md_devices.txt",
        ],
        REFUSED,
    ),
    # Nothing but a name, or a name and a level: whether it is well is not known.
    **dict.fromkeys(
        [
            "mdadm_d_content_empty_data_1.txt",
            "mdadm_d_content_empty_data_2.txt",
            "mdadm_d_content_empty_table.txt",
            "mdadm_d_content_no_table.txt",
        ],
        "unknown",
    ),
}
"""What was read in each file that is not of healthy arrays only."""


def mdstat_faults(arrays: dict[str, Array]) -> list[tuple[str, int | None, str | None]]:
    """Arrays that miss a member, and those that do not run and hold no other one's disks."""
    running = {m.device for a in arrays.values() if a.state != "inactive" for m in a.members}
    return [
        (name, each.degraded, each.sync_action)
        for name, each in sorted(arrays.items())
        if each.degraded
        or any("faulty" in m.states for m in each.members)
        or (each.state == "inactive" and running.isdisjoint(m.device for m in each.members))
    ]


def verdict(name: str, text: str) -> object:
    """What a file of the corpus says: 'refused', 'unknown', or its arrays with faults."""
    try:
        if "mdstat" not in name.casefold() and "mdadm" in name:
            found = parse_detail(text).arrays
            if not any(each.slots for each in found):
                return "unknown"
            return [
                (each.name, len(each.missing) or None, each.action)
                for each in found
                if each.missing or each.failed_devices or "inactive" in each.states
            ]
        return mdstat_faults({n: from_mdstat(s) for n, s in parse_mdstat(text).items()})
    except ParseError:
        return REFUSED


SAMPLES = sorted(p for p in (CORPUS / "mdraid").rglob("*") if p.is_file())


@pytest.mark.parametrize("path", cases_of_corpus(SAMPLES), ids=lambda path: path.name)
def test_a_capture_says_what_was_read_in_it(path: object) -> None:
    """A healthy one has no fault, a faulty one has just those that are there."""
    name, text = path.name, path.read_text()  # type: ignore[attr-defined]
    assert verdict(name, text) == UNHEALTHY.get(name, [])


@needs_corpus
def test_every_capture_has_a_verdict() -> None:
    """None is skipped."""
    found = [verdict(path.name, path.read_text()) for path in SAMPLES]
    kinds = Counter(
        one if isinstance(one, str) else ("faulty" if one else "healthy") for one in found
    )
    assert kinds == {"healthy": 29, "faulty": 9, "refused": 15, "unknown": 4}
