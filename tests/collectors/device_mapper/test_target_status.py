"""Lines of 'dmsetup status', by the grammar of each target in the kernel; damaged ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.device_mapper.target_status import (
    FAILURES,
    MERGE_FAILED,
    TARGETS,
    AreaUsage,
    Leg,
    PathGroup,
    PathState,
    TargetStatus,
    parse_line,
)


def status(target: str, text: str, name: str = "vg-x") -> TargetStatus:
    """Return the status of a target of 8 sectors that printed a text."""
    found = parse_line(f"{name}: 0 8 {target} {text}")
    assert found is not None
    assert (found.name, found.target) == (name, target)
    return found


POOL = "7 40/4096 850/1000 - {mode} {discard} {full} {check} 1024 "


@pytest.mark.parametrize("mode", ["rw", "ro", "out_of_data_space"])
@pytest.mark.parametrize("discard", ["ignore_discard", "discard_passdown", "no_discard_passdown"])
@pytest.mark.parametrize("full", ["error_if_no_space", "queue_if_no_space"])
@pytest.mark.parametrize("check", ["-", "needs_check"])
def test_a_thin_pool_in_each_mode(mode: str, discard: str, full: str, check: str) -> None:
    """pool_status of dm-thin.c: the low water mark at the end came with 5.0, and is optional."""
    text = POOL.format(mode=mode, discard=discard, full=full, check=check)
    for line in (text, text.removesuffix("1024 "), text + "a new field"):
        found = status("thin-pool", line)
        assert found.unparsed == ""
        assert found.usages == (AreaUsage("metadata", 40, 4096), AreaUsage("data", 850, 1000))
        assert found.states == (mode,) if check == "-" else (mode, "needs_check")
        assert found.is_queued_when_full is (full == "queue_if_no_space")


HEALTHY = {
    "thin-pool": POOL.format(
        mode="rw", discard="ignore_discard", full="error_if_no_space", check="-"
    ),
    "thin": "512 99",
    "snapshot": "16/2048 16",
    "snapshot-merge": "16/2048 16",
    "raid": "raid1 2 AA 100/100 idle 0 0 -",
    "mirror": "2 253:2 253:3 400/400 1 AA 3 disk 253:1 A",
    "striped": "2 8:16 8:32 1 AA",
    "multipath": "2 0 0 0 2 1 A 0 1 2 8:16 A 0 0 1 E 0 1 2 8:32 A 3 0 1",
    "cache": "8 27/4096 128 1/160 5 6 7 8 0 0 0 2 metadata2 writeback 2 migration_threshold 2048"
    " smq 0 rw - ",
    "clone": "8 27/4096 8 5/160 1 1 no_hydration 4 hydration_threshold 1 hydration_batch_size 1 rw",
    "writecache": "0 100 90 0",
    "integrity": "0 1000 -",
    "verity": "V",
    "vdo": "/dev/dm-3 normal - online online 100 1000",
}
"""What a healthy target of each type prints."""
SAYING = {
    **HEALTHY,
    "thin-pool": HEALTHY["thin-pool"].removesuffix("1024 "),
    "raid": "raid1 2 AA 100/100 idle 0",
    "integrity": "0 1000",
}
"""Up to the last field that says something, in any kernel since 5.4."""


@pytest.mark.parametrize("target", HEALTHY)
def test_each_healthy_target_is_understood_with_whatever_a_newer_kernel_adds(target: str) -> None:
    """No failed leg, no bad word."""
    for line in (HEALTHY[target], f"{HEALTHY[target].strip()} 5 brand-new"):
        found = status(target, line)
        assert not found.unparsed
        assert not found.failed_legs
        assert not found.is_failed
        assert set(found.states) <= {"rw", "V", "normal"}
        assert all(path.working for path in found.paths)


@pytest.mark.parametrize("target", HEALTHY)
def test_a_line_that_is_cut_is_never_a_healthy_device(target: str) -> None:
    """At each word; what follows the last field that says something may be missing."""
    words = SAYING[target].split()
    for count in range(len(words)):
        assert status(target, " ".join(words[:count])).unparsed, words[:count]


@pytest.mark.parametrize("target", HEALTHY)
def test_a_word_that_the_kernel_does_not_print_is_unparsed(target: str) -> None:
    """A new mode or letter is unknown, not healthy: each word that has a meaning is replaced."""
    words = HEALTHY[target].split()
    judged = {"rw", "-", "V", "normal", "idle", "AA", "A", "E", "raid1", "discard_passdown"}
    for at, word in enumerate(words):
        if word in judged and (target, at) not in {("thin-pool", 3), ("raid", 7), ("integrity", 2)}:
            changed = " ".join([*words[:at], "pondering", *words[at + 1 :]])
            found = status(target, changed)
            log = target == "mirror" and at == len(words) - 1
            assert found.unparsed or log, changed
            assert log or "pondering" in found.unparsed


def test_words_in_place_of_the_status_are_failures_of_their_targets_alone() -> None:
    """'Fail' of a pool, 'Invalid' of a snapshot; of another target they are no status at all."""
    pools = {"thin-pool", "thin", "cache", "clone", "era"}
    snapshots = {"snapshot", "snapshot-merge"}
    for word in FAILURES:
        own = pools if word in {"Fail", "Error"} else snapshots
        for target in TARGETS:
            if target in own:
                assert status(target, word).states == (word,)
                assert not status(target, word).unparsed
            elif target in HEALTHY:
                assert status(target, word).unparsed
    assert status("snapshot", "Merge failed").states == (MERGE_FAILED,)


def test_what_is_ill_of_the_others() -> None:
    """A word each; the numbers stay."""
    assert status("writecache", "-5 100 90 0 1 2 3").states == ("error",)
    assert status("verity", "C 7").states == ("C",)
    assert status("integrity", "3 1000 -").mismatches == 3
    assert status("vdo", "sdb read-only - online online 9 10").states == ("read-only",)
    recovering = status("vdo", "sdb normal recovering online online 9 10")
    assert recovering.states == ("normal", "recovering")
    assert recovering.usages[0].ratio == 0.9
    cache = HEALTHY["cache"].replace("rw -", "ro needs_check")
    assert status("cache", cache).states == ("ro", "needs_check")
    assert status("clone", HEALTHY["clone"].replace("rw", "ro")).states == ("ro",)
    assert status("thin", "-").unparsed == ""
    assert status("thin", "512 -").mapped_sectors == 512


@pytest.mark.parametrize(
    ("raid_type", "letters", "expected"),
    [
        *(
            ("raid1", letters, failed)
            for letters, failed in (
                ("AA", False),
                ("AD", False),
                ("D-", True),
                ("aa", False),
                ("DDA", False),
            )
        ),
        *(
            ("raid5_ls", letters, failed)
            for letters, failed in (("AAA", False), ("AAD", False), ("ADD", True), ("A-D", True))
        ),
        *(("raid6_zr", letters, failed) for letters, failed in (("AADDA", False), ("ADDDA", True))),
        ("raid4", "ADD", True),
        ("raid0", "AD", True),
        # Two failed legs of different pairs lose nothing, both of one pair all.
        *(
            ("raid10", letters, failed)
            for letters, failed in (
                ("ADDA", False),
                ("DDAA", True),
                ("DAAD", False),
                ("ADA", False),
                ("DAD", True),
            )
        ),
        ("raid10_far", "DAAD", True),
        ("raid10_far", "DADA", False),
        ("raid99", "DDD", None),
    ],
)
def test_a_raid_set_has_failed_when_too_few_legs_are_left(
    raid_type: str, letters: str, *, expected: bool | None
) -> None:
    """By its type; of a type that is not known it is not known."""
    found = status("raid", f"{raid_type} {len(letters)} {letters} 9/9 idle 0 0 -")
    assert found.is_failed is expected
    assert len(found.failed_legs) == sum(letter in "D-" for letter in letters)


def test_a_raid_set_that_is_rebuilt_and_its_journal() -> None:
    """Action and share that is done; a dead journal is no leg."""
    found = status("raid", "raid5_ls 3 AAa 25/100 recover 24 2048 D")
    assert (found.action, found.done_ratio, found.mismatches) == ("recover", 0.25, 24)
    assert found.legs[-1] == Leg("journal", "D")
    assert found.failed_legs == ()
    for wrong in (
        "raid1 2 A 9/9 idle 0",
        "raid1 2 AX 9/9 idle 0",
        "raid1 0  9/9 idle 0",
        "raid1 99999 A 9/9 idle 0",
        "ufo 2 AA 9/9 idle 0",
        "raid1 2 AA 9/0 idle 0",
    ):
        assert status("raid", wrong).unparsed


def test_a_mirror_names_its_legs_and_its_log() -> None:
    """D write, F flush, S synchronization, R read error, U unknown."""
    for letter in "DSRFU":
        found = status("mirror", f"2 253:2 253:3 400/400 1 A{letter} 1 core")
        assert found.failed_legs == (Leg("1", letter, "253:3"),)
        assert found.is_failed is False
    assert status("mirror", "2 253:2 253:3 4/400 1 DD 1 core").is_failed
    found = status("mirror", "2 253:2 253:3 4/400 1 AA 3 disk 253:1 D")
    assert found.legs[-1] == Leg("log", "D", "253:1")
    assert found.is_failed is False


def test_selector_arguments_of_multipath_are_counted() -> None:
    """A group's and a path's arguments look like anything; 'D' is bypassed by the administrator."""
    text = "2 1 0 1 alua 2 1 A 2 A F 2 1 8:16 F 14 8:99 8:32 A 0 F D 0 1 0 65:160 A 7"
    found = status("multipath", text)
    assert found.groups == (
        PathGroup(
            "A",
            (
                PathState("8:16", working=False, failures=14),
                PathState("8:32", working=True, failures=0),
            ),
        ),
        PathGroup("D", (PathState("65:160", working=True, failures=7),)),
    )
    assert [path.device for path in found.paths] == ["8:16", "8:32", "65:160"]
    empty = status("multipath", "2 0 0 0 0 0 ")
    assert (empty.groups, empty.unparsed) == ((), "")
    for wrong in (
        "2 0 0 0 1 1 A 0 1 0 sdb A 0",
        "2 0 0 0 1 1 A 0 1 0 8:16 X 0",
        "2 0 0 0 9999999 1",
        "2 0 0 0 1 1 A 0 9999999 9999999",
        "99999999 0",
    ):
        assert status("multipath", wrong).unparsed


@pytest.mark.parametrize(
    "name", ["vg-a", "my vol", "a: b", "a: 0 8 linear", "ü", "x:", "no. 7: 0 8 raid raid1 2 AA"]
)
def test_a_name_may_be_anything(name: str) -> None:
    """The kernel refuses only '/': colons, blanks, a whole line."""
    assert status("raid", HEALTHY["raid"], name).states == ()


@pytest.mark.parametrize(
    "line",
    ["", "No devices found", "vg-x", "vg-x:", "vg-x: 0 8 ", "vg-x: 0 8 pondering 1", ": 0 8 zero"],
)
def test_what_is_no_line_of_a_target_is_none(line: str) -> None:
    """A device without a table, a target that this program does not know."""
    assert parse_line(line) is None


@given(
    st.sampled_from(TARGETS),
    st.text(max_size=80)
    | st.lists(
        st.sampled_from("0 1 2 9/9 0/0 8:16 A D F AA - rw Fail idle raid1 disk ٣ -5 99999".split()),
        max_size=20,
    ).map(" ".join),
)
def test_no_text_is_a_bug_of_ours(target: str, text: str) -> None:
    """Any words in any order: a status, or a reason."""
    found = parse_line(f"x: 0 8 {target} {text}")
    assert found is None or isinstance(found, TargetStatus)
