"""Machines that break at random, as texts of the kernel through the whole product: tier B.

A miss prints its seed; `tests/bench/world.py --text-seed 98` (CONTRIBUTING.md, which tests) shows
the story, its lines and its mails.
"""

from __future__ import annotations

import pytest
from support import world_texts
from support.world import printk, texts

SEEDS = range(20, 80)
MORE_SEEDS = range(80, 680)
CHUNK = 50
DISK_BY_DISK, TWO_MAPS, THREE_MEMBERS = 118, 17, 79
"""A shelf of five disks that leaves one by one; a session of two maps that is given up; three
members of a raid6 that are pulled."""


@pytest.mark.parametrize("seed", SEEDS)
def test_mails_of_a_random_machine_are_right(seed: int) -> None:
    """Titles, number of mails, advice, all-clears, and silence on a healthy host."""
    played = world_texts.play(seed)
    assert world_texts.judge(played) == [], f"seed {seed}: {played.group}"


@pytest.mark.system
@pytest.mark.parametrize("first", MORE_SEEDS[::CHUNK])
def test_mails_of_more_random_machines_are_right(first: int) -> None:
    """Ten times as many."""
    misses = {
        seed: found
        for seed in range(first, first + CHUNK)
        if (found := world_texts.judge(world_texts.play(seed)))
    }
    assert misses == {}


@pytest.mark.parametrize("seed", [21, 31])
def test_a_restart_after_a_fault_is_no_news(seed: int) -> None:
    """A shelf leaves, an adapter stops: the mails are those without the restart."""
    assert_same_mails(seed, 5.0)


@pytest.mark.system
@pytest.mark.parametrize("restart_after_seconds", [5.0, 70.0])
def test_a_restart_after_any_fault_is_no_news(restart_after_seconds: float) -> None:
    """In the midst of the mails about it, and when these are sent."""
    for seed in range(20, 80):
        if story_of(seed) != "healthy":
            assert_same_mails(seed, restart_after_seconds)


def assert_same_mails(seed: int, restart_after_seconds: float) -> None:
    """Compare the subjects of a story with and without a restart after its last act."""
    mails = [
        [mail.subject for mail in played.mails]
        for played in (
            world_texts.play_on(seed),
            world_texts.play_on(seed, restart_after_seconds=restart_after_seconds),
        )
    ]
    assert mails[0] == mails[1], f"seed {seed}"


def subjects(seed: int, what: str) -> list[str]:
    """Return the subjects of a story, which is of this kind."""
    played = world_texts.play(seed)
    assert played.story.what == what, "the seed tells another story now: choose one of this kind"
    return [mail.subject.partition(": ")[2] for mail in played.mails]


def test_a_shelf_that_leaves_disk_by_disk_is_the_title_from_the_third_on() -> None:
    """mpt3sas prints 'removing handle' for each: that line is of a disk, and no fault of its own.

    It was taken for a fault of the adapter that explains the expander, and that in turn the disk
    whose line it was; so the first disk stayed the title.
    """
    found = subjects(DISK_BY_DISK, "leaves")
    assert found[0].startswith("sda: disappeared")
    late = [subject for subject in found if subject.startswith("expander-0:0: ")]
    assert late
    assert found[-1] == late[-1]


def test_disks_of_a_shelf_are_counted_by_disk() -> None:
    """Lines that name a partition or the adapter are of the same disks: never 7 of 5 disks."""
    counts = [subject for subject in subjects(DISK_BY_DISK, "leaves") if " disks gone" in subject]
    assert counts != []
    assert all(" of 5 disks gone" in subject for subject in counts)


def test_a_session_that_leaves_each_map_a_path_is_the_title() -> None:
    """Not the whole storage network: the paths of one session failed, and those of the other work.

    That a session was given up is a notice then, because the maps go on.
    """
    found = subjects(TWO_MAPS, "session lost")
    assert found != []
    assert {subject.split(":")[0] for subject in found} <= {"host0", "host1"}


def test_members_of_an_array_are_the_title_together() -> None:
    """Of two both names, of more their number: the subject alone tells which disks."""
    played = world_texts.play(THREE_MEMBERS)
    assert played.story.what == "members pulled"
    names = list(dict.fromkeys(world_texts.title(mail).name for mail in played.mails))
    assert names == ["sde", "sde and sdf", "3 of 6 members of md0"]
    assert "sde and sdf: gone and 2 members of md0 missing" in played.mails[1].subject


def test_each_line_is_of_a_format_of_the_kernel() -> None:
    """A line that the extract does not have cannot be printed, nor a prefix as a line."""
    with pytest.raises(KeyError):
        printk.line("no such message")
    with pytest.raises(AssertionError, match="expected a message, got what stands before one"):
        printk.line("ioc", "mpt3sas_cm0")
    line = printk.line("removing", 9, 0x5000C500A0B00001, before=printk.ioc(0))
    text = "mpt3sas_cm0: removing handle(0x0009), sas_addr(0x5000c500a0b00001)"
    assert line == printk.Printed(6, text)


def test_each_behaviour_is_played_by_some_seed() -> None:
    """Of the sixty of each run of the quick tests."""
    played = {story_of(seed) for seed in SEEDS}
    every = {behaviour.what for behaviour in texts.BEHAVIOURS}
    assert every <= played


def test_members_on_any_bus_can_be_pulled() -> None:
    """Also NVMe and virtio disks, which have no SCSI address: of them the kernel prints nothing."""
    pulled = [
        act
        for seed in range(600, 660)
        for _, act in texts.random_story(world_texts.Random(seed), seed).acts
        if isinstance(act, texts.Leaves)
    ]
    for bus, has_lines in (("nvme", False), ("vd", False), ("sd", True)):
        of_bus = [act for act in pulled if act.names[0].startswith(bus)]
        assert of_bus, bus
        assert {bool(act.lines) for act in of_bus} == {has_lines}, bus


def story_of(seed: int) -> str:
    """Return what befalls the machine of a seed."""
    return texts.random_story(world_texts.Random(seed), seed).what
