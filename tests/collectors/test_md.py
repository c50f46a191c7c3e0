"""Software RAID arrays that are whole, degraded, rebuilding, checked or not assembled."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recordings import CORPUS, corpus

from iowarden.collectors.md import (
    Member,
    emit,
    node_samples,
    parse_completed,
    parse_mdstat,
    read_md,
)
from iowarden.collectors.vocabulary import AbsentError, ParseError, ReadError

if TYPE_CHECKING:
    from conftest import MachineMaker

Files = dict[str, str | bytes | None]

HEAD = "Personalities : [raid1] [raid6] [raid5] [raid4] [raid0]\n"
TAIL = "unused devices: <none>\n"
MIRROR = """md0 : active raid1 sdb1[1] sda1[0]
      1047552 blocks super 1.2 [2/2] [UU]
      bitmap: 0/1 pages [0KB], 65536KB chunk

"""
REBUILDING = """md6 : active raid1 sdb2[2](F) sdc[1](S) sda2[0]
      195310144 blocks [2/1] [U_]
      [=>...................]  recovery =  8.5% (16775552/195310144) finish=17.0min speed=2598K/sec

"""
WAITING = """md7 : active raid6 sda3[0] sdb3[1] sdc3[2] sdd3[3]
      2097152 blocks super 1.2 level 6, 512k chunk, algorithm 2 [4/4] [UUUU]
        resync=DELAYED
      bitmap: 0/4 pages [0KB], 65536KB chunk

"""
INACTIVE = """md9 : inactive sdx1[1](S) sdw1[0](S)
      5288 blocks super external:imsm

"""
STRIPE = """md1 : active raid0 sdb2[1] sda2[0]
      8386560 blocks super 1.1 512k chunks

"""


def sysfs(name: str, size_sectors: int = 2_095_104, **attributes: str) -> Files:
    """Files of an array in sysfs; a double underscore stands for '/'."""
    path = f"/sys/block/{name}"
    files: Files = {f"{path}/size": f"{size_sectors}\n"}
    return files | {f"{path}/md/{k.replace('__', '/')}": text for k, text in attributes.items()}


def member(array: str, device: str, **attributes: str) -> Files:
    """Files of a member in sysfs, as of a healthy one where nothing else is said."""
    healthy = {
        "state": "in_sync\n",
        "slot": "0\n",
        "errors": "0\n",
        "bad_blocks": "",
        "unacknowledged_bad_blocks": "",
    }
    path = f"/sys/block/{array}/md/dev-{device}/"
    return {path + key: text for key, text in (healthy | attributes).items()}


def test_a_mirror_that_lost_a_disk_rebuilds_on_its_spare() -> None:
    """sdb2 has failed, sdc takes its place: 8.5 % are done."""
    stat = parse_mdstat(HEAD + MIRROR + REBUILDING + TAIL)["md6"]
    assert (stat.level, stat.activity, stat.size_blocks) == ("raid1", "active", 195_310_144)
    assert (stat.disks_wanted, stat.disks_working, stat.sync_action) == (2, 1, "recover")
    assert (stat.sync_done_blocks, stat.sync_total_blocks) == (16_775_552, 195_310_144)
    assert stat.sync_speed_bytes_per_second == 2598 * 1024
    assert [(m.device, m.states) for m in stat.members] == [
        ("sdb2", ("faulty",)),
        ("sdc", ("spare",)),
        ("sda2", ()),
    ]


@pytest.mark.parametrize(
    ("line", "action", "done"),
    [
        ("      [>.]  check = 98.3% (2879/2927) finish=81.7min speed=9854K/sec", "check", 2879),
        ("      [>.]  reshape = 48.4% (709/1465) finish=1271.8min speed=9898K/sec", "reshape", 709),
        ("      [>.]  resync =  9.9% (73/732) finish=211.5min speed=51946K/sec", "resync", 73),
        ("        resync=DELAYED", "resync", None),
        ("        resync=PENDING", "resync", None),
        ("        resync=REMOTE", "resync", None),
        ("      bitmap: 0/1 pages [0KB], 65536KB chunk", None, None),
    ],
)
def test_what_an_array_does_is_in_the_line_below_it(
    line: str, action: str | None, done: int | None
) -> None:
    """Ahead of the bitmap's line, or without one; waiting for another array is no progress."""
    text = HEAD + "md0 : active raid1 sdb1[1] sda1[0]\n      732 blocks [2/2] [UU]\n" + line
    stat = parse_mdstat(text + "\n      bitmap: 0/1 pages [0KB], 65536KB chunk\n\n" + TAIL)["md0"]
    assert (stat.sync_action, stat.sync_done_blocks) == (action, done)


def test_flags_of_members_and_access_of_arrays() -> None:
    """A journal, a write-mostly disk that failed, a replacement; assembled and not written yet."""
    stat = parse_mdstat(
        HEAD
        + "md2 : active (auto-read-only) raid5 cciss/c0d0p1[4](R) nvme0n1p3[3](J) sdb[1](W)(F)\n"
        + "      2048 blocks super 1.2 level 5, 64k chunk, algorithm 2 [3/2] [U_U]\n\n"
        + TAIL
    )["md2"]
    assert (stat.access, stat.level) == ("auto-read-only", "raid5")
    assert [(m.device, m.states) for m in stat.members] == [
        ("cciss/c0d0p1", ("replacement",)),
        ("nvme0n1p3", ("journal",)),
        ("sdb", ("write_mostly", "faulty")),
    ]


def test_without_sysfs_the_text_tells_what_it_can(machine: MachineMaker) -> None:
    """A recorded '/proc/mdstat' alone: degraded, read-only and inactive arrays are known."""
    text = HEAD + REBUILDING + WAITING + INACTIVE + STRIPE
    text += "md3 : active (read-only) raid1 sdd[0]\n      64 blocks [1/1] [U]\n\n"
    arrays = read_md(machine({"/proc/mdstat": text + TAIL}))
    assert (arrays["md6"].degraded, arrays["md6"].raid_disks) == (1, 2)
    assert arrays["md6"].sync_done_ratio == 16_775_552 / 195_310_144
    assert (arrays["md7"].sync_action, arrays["md7"].sync_done_ratio) == ("resync", None)
    assert (arrays["md9"].state, arrays["md9"].level, arrays["md9"].degraded) == (
        "inactive",
        None,
        None,
    )
    assert (arrays["md1"].degraded, arrays["md1"].sync_action) == (None, None)
    assert (arrays["md3"].state, arrays["md3"].sync_action) == ("readonly", "idle")
    assert arrays["md1"].size_bytes == 8_386_560 * 1024


def test_sysfs_says_more_and_wins(machine: MachineMaker) -> None:
    """A check that found sectors that differ, a member with corrected errors and bad blocks."""
    files: Files = {"/proc/mdstat": HEAD + MIRROR + TAIL}
    files |= sysfs(
        "md0",
        level="raid1\n",
        array_state="clean\n",
        raid_disks="4 (3)\n",
        degraded="1\n",
        sync_action="check\n",
        sync_completed="524288 / 2095104\n",
        sync_speed="10240\n",
        mismatch_cnt="128\n",
        chunk_size="65536\n",
    )
    files |= member("md0", "sda1")
    files |= member(
        "md0",
        "cciss!c0d0p1",
        state="faulty,write_error\n",
        slot="none\n",
        errors="17\n",
        bad_blocks="1000 8\n2000 16\n",
        unacknowledged_bad_blocks="3000 8\n",
    )
    array = read_md(machine(files))["md0"]
    assert (array.state, array.raid_disks, array.degraded) == ("clean", 4, 1)
    assert (array.sync_action, array.sync_done_ratio) == ("check", 524_288 / 2_095_104)
    assert array.sync_speed_bytes_per_second == 10 * 2**20
    assert (array.mismatches_bytes, array.chunk_bytes) == (128 * 512, 65_536)
    assert array.size_bytes == 2_095_104 * 512
    assert array.members == (
        Member("cciss/c0d0p1", None, ("faulty", "write_error"), 17, 2, 1),
        Member("sda1", 0, ("in_sync",), 0, 0, 0),
    )


def test_an_array_that_only_sysfs_knows(machine: MachineMaker) -> None:
    """A named array whose driver prints no text (or a recording without it) is an array."""
    files = sysfs("md_home", array_state="active-idle\n", level="linear\n") | {
        "/sys/block/mdraid-lookalike/size": "8\n"
    }
    arrays = read_md(machine(files))
    assert set(arrays) == {"md_home"}
    assert (arrays["md_home"].state, arrays["md_home"].sync_action) == ("active-idle", None)


def test_an_attribute_that_cannot_be_read_is_not_known(machine: MachineMaker) -> None:
    """An old kernel without bad block lists; a directory where a file is expected."""
    files: Files = {"/proc/mdstat": HEAD + MIRROR + TAIL, "/sys/block/md0/md/degraded": None}
    files |= {"/sys/block/md0/md/dev-sda1/slot": "1\n"}
    array = read_md(machine(files))["md0"]
    assert (array.degraded, array.mismatches_bytes) == (0, None)
    assert array.members == (Member("sda1", 1, (), None, None, None),)


def test_no_driver_is_absent_and_no_array_is_nothing(machine: MachineMaker) -> None:
    """Before the first array is assembled there is no '/proc/mdstat'; later it may be empty."""
    with pytest.raises(AbsentError, match="/proc/mdstat"):
        read_md(machine({"/sys/block/sda/size": "8\n"}))
    assert read_md(machine({"/proc/mdstat": "Personalities : \n" + TAIL})) == {}


@pytest.mark.parametrize("text", ["", "garbage\n", HEAD + "md0 active raid1\n" + TAIL])
def test_a_text_that_is_none_of_the_kernels_is_refused(text: str) -> None:
    """It says where and what was expected; no array vanishes silently."""
    with pytest.raises(ParseError, match="expected '"):
        parse_mdstat(text)


def test_what_cannot_be_read_has_failed(machine: MachineMaker) -> None:
    """An array in sysfs does not make up for a '/proc/mdstat' that gives an error."""
    with pytest.raises(ReadError):
        read_md(machine({"/proc/mdstat": None}))


def test_samples_name_array_member_and_state(machine: MachineMaker) -> None:
    """What the rules compare; what is not known gives no sample."""
    samples = emit(read_md(machine({"/proc/mdstat": HEAD + REBUILDING + TAIL})))
    device = ("device", "md6")
    assert ("iowarden_md_degraded", (device,), 1) in samples
    assert ("iowarden_md_state", (device, ("state", "active")), 1) in samples
    assert ("iowarden_md_sync_action", (("action", "recover"), device), 1) in samples
    states = [labels[1:] for name, labels, _ in samples if name == "iowarden_md_member_state"]
    assert states == [
        (("member", "sdb2"), ("state", "faulty")),
        (("member", "sdc"), ("state", "spare")),
    ]
    assert not [name for name, _, _ in samples if name == "iowarden_md_mismatches_bytes"]
    assert all(labels == tuple(sorted(labels)) for _, labels, _ in samples)


def test_node_exporters_series(machine: MachineMaker) -> None:
    """It counts from the text, and says degraded of every array that sysfs has."""
    files: Files = {"/proc/mdstat": HEAD + REBUILDING + WAITING + INACTIVE + STRIPE + TAIL}
    files |= sysfs("md6", raid_disks="2\n", degraded="1\n")
    files |= sysfs("md1", raid_disks="2\n", array_state="clean\n")
    found = {
        (name, *(text for _, text in labels)): value
        for name, labels, value in node_samples(read_md(machine(files)))
    }
    assert found["node_md_state", "md6", "recovering"] == 1
    assert found["node_md_state", "md6", "active"] == 0
    assert found["node_md_state", "md7", "resync"] == 1
    assert found["node_md_state", "md9", "inactive"] == 1
    assert [found["node_md_disks", "md6", s] for s in ("active", "failed", "spare")] == [1, 1, 1]
    assert [found["node_md_disks", "md9", s] for s in ("active", "failed", "spare")] == [0, 0, 2]
    assert [found["node_md_disks_required", m] for m in ("md1", "md6", "md7", "md9")] == [
        2,
        2,
        4,
        0,
    ]
    assert (found["node_md_blocks", "md6"], found["node_md_blocks_synced", "md6"]) == (
        195_310_144,
        16_775_552,
    )
    assert (found["node_md_blocks_synced", "md7"], found["node_md_blocks_synced", "md1"]) == (
        0,
        8_386_560,
    )
    assert (found["node_md_degraded", "md1"], found["node_md_degraded", "md6"]) == (0, 1)
    assert ("node_md_raid_disks", "md7") not in found


@pytest.mark.parametrize(
    ("text", "ratio"),
    [("none", None), ("delayed", None), ("0 / 8", 0.0), ("4 / 8", 0.5), ("1 / 0", None)],
)
def test_how_far_a_synchronisation_is(text: str, ratio: float | None) -> None:
    """Nothing is done while it waits; nothing is divided by nothing."""
    assert parse_completed(text) == ratio


@given(st.text(alphabet="md0 :activeraid1[]()US_/%=\n \t0123456789recovery", max_size=200))
def test_any_text_is_arrays_or_a_refusal(text: str) -> None:
    """No text ends in another error."""
    with contextlib.suppress(ParseError):
        parse_mdstat(text)


# No text of a kernel's: indentation lost, a prompt in front, words mistyped on purpose.
EDITED = ("mdstat.15", "pr28_0", "mdstat-4.txt", "mdstat-5.txt", "mdStatFileInvalid.txt")


def test_captures_of_other_machines() -> None:
    """Every '/proc/mdstat' of the corpus has an array or says that there is none."""
    corpus("mdraid")
    texts = [
        path
        for path in sorted((CORPUS / "mdraid").rglob("*"))
        if path.is_file() and "mdadm-" not in path.name and "mdadm_" not in path.name
    ]
    read = 0
    for path in texts:
        text = path.read_text()
        if path.name in EDITED:
            with pytest.raises(ParseError):
                parse_mdstat(text)
        else:
            arrays = parse_mdstat(text)
            assert len(arrays) == sum(
                " : active" in x or " : inactive" in x for x in text.splitlines()
            )
            for array in arrays.values():
                assert array.members
                assert array.size_blocks or "blocks" not in text
            read += 1
    assert read > 20
