"""Software RAID arrays that are complete, degraded, rebuilding, checked or not assembled."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recordings import CORPUS, corpus

from iowarden.collectors.md.mdstat import (
    PATH,
    ArrayMember,
    emit,
    from_mdstat,
    node_samples,
    parse_completed,
    parse_mdstat,
    read_md,
)
from iowarden.collectors.model import AbsentError, ParseError, ReadError

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
    """Return the files of an array in sysfs; a double underscore means '/'."""
    path = f"/sys/block/{name}"
    files: Files = {f"{path}/size": f"{size_sectors}\n"}
    return files | {f"{path}/md/{k.replace('__', '/')}": text for k, text in attributes.items()}


def member(array: str, device: str, **attributes: str) -> Files:
    """Return the files of a member in sysfs, of a healthy one by default."""
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
    """sdb2 has failed, sdc replaces it: 8.5 % are done."""
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
        ("\trecover=REMOTE", "recover", None),
        ("      bitmap: 0/1 pages [0KB], 65536KB chunk", None, None),
    ],
)
def test_what_an_array_does_is_in_the_line_below_it(
    line: str, action: str | None, done: int | None
) -> None:
    """Before the bitmap's line, or without one; waiting for another array is no progress."""
    text = HEAD + "md0 : active raid1 sdb1[1] sda1[0]\n      732 blocks [2/2] [UU]\n" + line
    stat = parse_mdstat(text + "\n      bitmap: 0/1 pages [0KB], 65536KB chunk\n\n" + TAIL)["md0"]
    assert (stat.sync_action, stat.sync_done_blocks) == (action, done)


def test_flags_of_members_and_access_of_arrays() -> None:
    """A journal, a failed write-mostly disk, a replacement; assembled and not written yet."""
    stat = parse_mdstat(
        HEAD
        + "md2 : active (auto-read-only) raid5 cciss/c0d0p1[4](R) nvme0n1p3[3](J) sdb[1](W)(F)"
        + " sda[0] sdc[2]\n"
        + "      2048 blocks super 1.2 level 5, 64k chunk, algorithm 2 [3/2] [U_U]\n\n"
        + TAIL
    )["md2"]
    assert (stat.access, stat.level) == ("auto-read-only", "raid5")
    assert [(m.device, m.states) for m in stat.members] == [
        ("cciss/c0d0p1", ("replacement",)),
        ("nvme0n1p3", ("journal",)),
        ("sdb", ("write_mostly", "faulty")),
        ("sda", ()),
        ("sdc", ()),
    ]


def test_without_sysfs_the_text_reports_what_it_can(machine: MachineMaker) -> None:
    """A recorded '/proc/mdstat' alone: degraded, read-only and inactive arrays are parsed."""
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


def test_sysfs_reports_more_and_wins(machine: MachineMaker) -> None:
    """A check that found mismatches, a member with corrected errors and bad blocks."""
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
        ArrayMember("cciss/c0d0p1", None, ("faulty", "write_error"), 17, 2, 1),
        ArrayMember("sda1", 0, ("in_sync",), 0, 0, 0),
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
    assert array.members == (ArrayMember("sda1", 1, (), None, None, None),)


def test_no_driver_is_absent_and_no_array_is_nothing(machine: MachineMaker) -> None:
    """Before the first array is assembled there is no '/proc/mdstat'; later it may be empty."""
    with pytest.raises(AbsentError, match="/proc/mdstat"):
        read_md(machine({"/sys/block/sda/size": "8\n"}))
    assert read_md(machine({"/proc/mdstat": "Personalities : \n" + TAIL})) == {}


@pytest.mark.parametrize("text", ["", "garbage\n", HEAD + "md0 active raid1\n" + TAIL])
def test_a_text_that_is_none_of_the_kernels_is_refused(text: str) -> None:
    """The message has the location and the expected value; no array is lost silently."""
    with pytest.raises(ParseError, match="expected '"):
        parse_mdstat(text)


def test_what_cannot_be_read_has_failed(machine: MachineMaker) -> None:
    """An array in sysfs does not replace an unreadable '/proc/mdstat'."""
    with pytest.raises(ReadError):
        read_md(machine({"/proc/mdstat": None}))


def test_samples_name_array_member_and_state(machine: MachineMaker) -> None:
    """Values that rules compare; an unknown value gives no sample."""
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
    """It counts from the text, and degraded is from sysfs for every array there."""
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
    """There is no progress while it waits; nothing is divided by zero."""
    assert parse_completed(text) == ratio


_COUNTED = ("raid1", "raid4", "raid5", "raid6", "raid10", "multipath")
_STATUS = {
    "linear": " 64k rounding",
    "raid0": " 512k chunks",
    "faulty": " nfaults=0",
    "raid10": " 512K chunks 2 near-copies",
    **{f"raid{n}": f" level {n}, 512k chunk, algorithm 2" for n in (4, 5, 6)},
}
_PROGRESS = (
    "      [==>..................]  {} = 12.6% (126/1000) finish=127.5min speed=33440K/sec\n      "
)


@st.composite
def printed(draw: st.DrawFn) -> tuple[str, int | None, int, str | None]:
    """Return an array as md_seq_show prints it: text, missing and faulty members, action."""
    level = draw(st.sampled_from(("linear", "raid0", "faulty", *_COUNTED)))
    disks = draw(st.integers(2, 9))
    counted = level in _COUNTED
    places = draw(st.lists(st.sampled_from("UUU_fr"), min_size=disks, max_size=disks))
    places = ["U", *places[1:]] if counted else ["U"] * disks
    words, number = [], 0
    for place, kind in enumerate(places):
        # '_': nothing is there; f: what failed still is; r: it is being filled.
        if kind != "_":
            flags = {"f": "(F)", "r": ""}.get(kind, draw(st.sampled_from(["", "(W)"])))
            words.append(f"sd{chr(97 + place)}1[{place}]{flags}")
        number = place + 1
    for flags in draw(st.lists(st.sampled_from(["(S)", "(J)", "(F)", "(W)(S)"]), max_size=2)):
        words.append(f"nvme{number}n1p2[{number}]{flags}")
        number += 1
    mask = "".join("U" if kind == "U" else "_" for kind in places)
    counts = f" [{disks}/{mask.count('U')}] [{mask}]" if counted else ""
    actions = ["recovery", "resync", "check", "resync=DELAYED", "resync=PENDING"]
    action = draw(st.sampled_from([None, *actions])) if counted and words else None
    progress = "" if action is None else f"\t{action}\n      "
    if action is not None and "=" not in action:
        progress = _PROGRESS.format(action)
    super_ = draw(st.sampled_from(["", " super 1.2", " super external:/md127/0"]))
    access = draw(st.sampled_from(["", " (read-only)", " (auto-read-only)"]))
    state = draw(st.sampled_from(["active", "broken"]))
    blocks = "\n      1000 blocks" if words else ""
    text = (
        f"md5 : {state}{access} {' '.join((level, *words))}{blocks}{super_}{_STATUS.get(level, '')}"
        f"{counts}\n      {progress}bitmap: 0/1 pages [0KB], 65536KB chunk\n\n"
    )
    missing = disks - mask.count("U") if counted else None
    done = {None: None, "recovery": "recover", "check": "check"}.get(action, "resync")
    return text, missing, text.count("(F)"), done


@given(printed())
def test_whatever_the_kernel_prints_of_an_array_is_read(
    array: tuple[str, int | None, int, str | None],
) -> None:
    """Every level, mask, flag and action; also with the line ends of Windows.

    Source: kernel 6.1 and 6.12, drivers/md: md_seq_show, status_resync, each level's status.
    """
    text, missing, faulty, action = array
    found = parse_mdstat((HEAD + MIRROR + text + TAIL).replace("\n", "\r\n"))["md5"]
    read = None if found.disks_wanted is None else found.disks_wanted - (found.disks_working or 0)
    assert (read, found.sync_action) == (missing, action)
    assert sum("faulty" in each.states for each in found.members) == faulty


_HEALTHY = (
    "md0 : active raid5 sdc1[3] sdb1[1] sda1[0]\n      2095104 blocks super 1.2 level 5, 512k"
)
_HEALTHY += " chunk, algorithm 2 [3/3] [UUU]\n      \n"


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("[3/3] [UUU]", "[3/3] [UU_]"),
        ("[3/3] [UUU]", "[3/2] [UUU]"),
        ("[3/3] [UUU]", "[3/4] [UUU]"),
        ("[3/3] [UUU]", "[3/3] [UU]"),
        ("[3/3] [UUU]", "[2/2] [UU]"),
        ("[3/3] [UUU]", "[3/3] [UUE]"),
        ("[3/3] [UUU]", "[3/3] []"),
        ("[3/3] [UUU]", "[3/3]"),
        ("[3/3] [UUU]", "[3/3] [UUU] [3/2] [UU_]"),
        ("[3/3] [UUU]", "[3/3] [UUU]\n      rescue = 7% (1/9) finish=1min speed=1K/sec"),
        ("[3/3] [UUU]", "[4/4] [UUUU]"),
        ("md0 : active raid5 sdc1[3] sdb1[1] sda1[0]\n", ""),
        ("sdb1[1]", "sdb1[1](F)"),
        ("sdb1[1]", "sdb1[1](S)"),
        ("sdb1[1] ", ""),
        ("sdb1[1]", "sda1[1]"),
        ("sdb1[1]", "sdb1[0]"),
        ("sdb1[1]", "sdb1[1](Q)"),
        ("sdb1[1]", "sdb1[one]"),
        ("sdb1[1]", "sdb1"),
        ("raid5 ", ""),
        ("raid5 ", "raid6 "),
        ("active", "inactive"),
        ("active", "sleepy"),
        ("active", "active (frozen)"),
        ("2095104 blocks", "blocks"),
        ("[UUU]\n", "[UUU]\n      [>..]  recovery = 9.8%\n"),
        ("[UUU]\n", "[UUU]\n      [>..]  check = 9.8% (9/8) finish=1.0min speed=1K/sec\n"),
        ("[UUU]", "[UUU]\0"),
        ("\n      \n", "\n      \n" + _HEALTHY.split("\n", maxsplit=1)[0] + "\n"),
    ],
)
def test_a_text_that_contradicts_itself_is_refused(was: str, now: str) -> None:
    """Counts, mask, members, level and state contradict each other: the array is refused."""
    assert parse_mdstat(HEAD + _HEALTHY + TAIL)
    spoilt = _HEALTHY.replace(was, now)
    assert spoilt != _HEALTHY
    with pytest.raises(ParseError, match=r"'/proc/mdstat'.*: expected .*, got "):
        parse_mdstat(HEAD + spoilt + TAIL)


@pytest.mark.parametrize(
    ("members", "counts", "progress"),
    [
        # A replacement is done, and the member that it stands for is not taken out yet.
        ("sdc1[2](R) sdb1[1](F) sda1[0]", "[2/2] [U_]", ""),
        # From four disks to three: more take part than there will be.
        ("sdd1[3] sdc1[2] sdb1[1] sda1[0]", "[3/3] [UUU]", "reshape = 1.0% (1/100)"),
        ("sdd1[3] sdb1[1] sda1[0]", "[3/2] [UU_]", "reshape = 1.0% (1/100)"),
        ("sdd1[3] sdc1[2] sdb1[1] sda1[0]", "[3/3] [UUU]", "resync=DELAYED"),
        # A disk of the old layout alone is missing.
        ("sdc1[2] sdb1[1] sda1[0]", "[3/2] [UUU]", "reshape = 1.0% (1/100)"),
        # A spare has taken the place, what failed was not taken out.
        ("sdc1[2] sdb1[1](F) sda1[0]", "[2/2] [UU]", ""),
    ],
)
def test_what_looks_contradictory_and_is_not(members: str, counts: str, progress: str) -> None:
    """During a replacement or reshape, counts and mask are of two layouts."""
    text = f"md0 : active raid1 {members}\n      100 blocks super 1.2 {counts}\n      {progress}\n"
    assert len(parse_mdstat(HEAD + text + TAIL)["md0"].members) == members.count("[")


def test_a_text_that_is_cut_is_refused() -> None:
    """Truncated anywhere: the missing part may be the failed array."""
    text = HEAD + MIRROR + REBUILDING + TAIL
    for end in range(text.index("unused devices:") + len("unused devices:") - 1):
        with pytest.raises(ParseError):
            parse_mdstat(text[:end])
    for begin in range(1, len(HEAD)):
        with pytest.raises(ParseError):
            parse_mdstat(text[begin:])


def test_a_text_that_contradicts_itself_is_not_needed_where_sysfs_reports(
    machine: MachineMaker,
) -> None:
    """The kernel prints it without a lock on the counts; refused without sysfs of all arrays."""
    text = HEAD + _HEALTHY.replace("[UUU]", "[UU_]") + MIRROR.replace("md0", "md1") + TAIL
    files: Files = {"/proc/mdstat": text}
    files |= sysfs("md0", level="raid5\n", array_state="clean\n", degraded="1\n")
    assert read_md(machine(files))["md0"].degraded == 1
    files |= {"/sys/block/md1/size": "8\n"}
    with pytest.raises(ParseError, match="md0: expected counts and mask to agree"):
        read_md(machine(files))


@pytest.mark.parametrize(
    ("shown", "level", "container"),
    [
        ("external:imsm", "\n", True),
        ("external:ddf", "\n", True),
        ("external:imsm", "container\n", True),
        ("external:/md127/0", "raid1\n", False),
        ("external:-md127/0", "raid1\n", False),
        ("external:/md127/0", "\n", False),
        ("external:", "\n", False),
        ("1.2", "\n", False),
        ("none", "\n", False),
    ],
)
def test_a_container_is_known_by_its_metadata(
    machine: MachineMaker, *, shown: str, level: str, container: bool
) -> None:
    """In sysfs, and in the text alone; a subarray, or a stopped array, is none."""
    files: Files = {"/proc/mdstat": "Personalities : [raid1]\n" + TAIL}
    files |= sysfs("md9", array_state="inactive\n", level=level, metadata_version=shown + "\n")
    assert read_md(machine(files))["md9"].is_container is container
    text = HEAD + INACTIVE.replace("external:imsm", shown.replace("none", "non-persistent")) + TAIL
    if level == "\n":
        assert read_md(machine({"/proc/mdstat": text}))["md9"].is_container is container


def test_an_inactive_array_without_disks(machine: MachineMaker) -> None:
    """Its metadata is on its own line then, and is no level."""
    text = HEAD + "md9 : inactive super external:ddf\n       \n" + TAIL
    array = read_md(machine({"/proc/mdstat": text}))["md9"]
    assert (array.level, array.members, array.is_container) == (None, (), True)


def test_a_broken_array_is_broken_although_sysfs_reports_active(machine: MachineMaker) -> None:
    """array_state is 'broken' only for a clean array."""
    broken = _HEALTHY.replace("active", "broken").replace("[3/3] [UUU]", "[3/1] [U__]")
    files: Files = {"/proc/mdstat": HEAD + broken + TAIL}
    files |= sysfs("md0", array_state="active\n")
    assert read_md(machine(files))["md0"].state == "broken"


@pytest.mark.parametrize(
    ("state", "states"),
    [
        ("faulty,in_sync,blocked", ("in_sync", "blocked")),
        ("faulty,write_mostly,blocked,spare", ("write_mostly", "blocked", "spare")),
        ("faulty,blocked", ("faulty", "blocked")),
        ("faulty,write_error", ("faulty", "write_error")),
    ],
)
def test_a_member_that_only_waits_to_record_bad_blocks_works(
    machine: MachineMaker, state: str, states: tuple[str, ...]
) -> None:
    """The kernel reports 'faulty' for it, too, until they are in the superblock."""
    files: Files = {"/proc/mdstat": HEAD + MIRROR + TAIL} | sysfs("md0", level="raid1\n")
    files |= member("md0", "sda1", state=state + "\n")
    assert read_md(machine(files))["md0"].members[0].states == states


@given(st.text(alphabet="md0 :activeraid1[]()US_/%=\n \t0123456789recovery", max_size=200))
def test_any_text_is_arrays_or_a_refusal(text: str) -> None:
    """No text raises another error."""
    with contextlib.suppress(ParseError):
        parse_mdstat(text)


# No text of a kernel's: indentation lost, a prompt in front, its end cut off, made up.
EDITED = (
    *("mdstat-0.txt", "mdstat-raid0", "mdstat.16"),
    *("mdstat.15", "pr28_0", "mdstat-1.txt", "mdstat-2.txt", "mdstat-3.txt", "mdstat-4.txt"),
    *("mdstat-5.txt", "mdstat_test_1.txt", "mdStatFileInvalid.txt"),
)


def test_captures_of_other_machines() -> None:
    """Every '/proc/mdstat' of the corpus has an array or states that there is none."""
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


NAS = """\
Personalities : [raid1] [raid6] [raid5] [raid4]
md2 : active raid1 sdb5[0]{mark}
      971940544 blocks super 1.2 [1/1] [{one}]

md0 : active raid1 sda1[0] sdb1[1] sdc1[2]
      2490176 blocks [{slots}/{working}] [{mask}]

unused devices: <none>
"""


@pytest.mark.parametrize(
    ("mask", "disks", "missing"),
    [
        ("UUU" + "_" * 13, 3, 0),  # of Synology
        ("UUU" + "_" * 21, 3, 0),  # of QNAP
        ("UU_U" + "_" * 12, 4, 1),
        ("_UUU" + "_" * 12, 4, 1),
        ("UUU_", 4, 1),  # a mirror that somebody made
    ],
)
def test_slots_of_a_nas_that_no_disk_ever_had_are_not_missing(
    machine: MachineMaker, mask: str, disks: int, missing: int
) -> None:
    """Its system is on a mirror with as many slots as its largest model has bays."""
    working = mask.count("U")
    text = NAS.format(mark="", one="U", slots=len(mask), working=working, mask=mask)
    array = from_mdstat(parse_mdstat(text)["md0"])
    assert (array.raid_disks, array.degraded) == (disks, missing)
    files = {
        PATH: text,
        "/sys/block/md0/md/array_state": "clean\n",
        "/sys/block/md0/md/raid_disks": f"{len(mask)}\n",
        "/sys/block/md0/md/degraded": f"{len(mask) - working}\n",
    }
    read = read_md(machine(files))["md0"]
    assert (read.raid_disks, read.degraded) == (disks, missing)
    series = {name: value for name, _, value in node_samples({"md0": read})}
    assert series["node_md_degraded"] == len(mask) - working
    assert series["node_md_raid_disks"] == len(mask)


def test_a_mirror_that_lost_all_disks_but_one_is_degraded() -> None:
    """However many slots it has: nothing shows that the others were ever used."""
    mask = "U" + "_" * 15
    text = NAS.format(mark="", one="U", slots=16, working=1, mask=mask).replace(
        " sdb1[1] sdc1[2]", ""
    )
    assert from_mdstat(parse_mdstat(text)["md0"]).degraded == 15


@pytest.mark.parametrize("one", ["E", "U"])
def test_a_member_that_a_nas_marks_as_having_errors_is_in_its_array(
    machine: MachineMaker, one: str
) -> None:
    """sysfs has no word for it: what '/proc/mdstat' shows is kept."""
    text = NAS.format(mark="(E)", one=one, slots=2, working=2, mask="UU").replace(" sdc1[2]", "")
    array = from_mdstat(parse_mdstat(text)["md2"])
    assert (array.degraded, [each.states for each in array.members]) == (0, [("disk_error",)])
    files = {
        PATH: text,
        "/sys/block/md2/md/array_state": "clean\n",
        "/sys/block/md2/md/dev-sdb5/state": "in_sync\n",
    }
    assert read_md(machine(files))["md2"].members[0].states == ("in_sync", "disk_error")
