"""Faults as real incidents had them: one after the other, during a rebuild, around a start.

All that iowarden gets wrong of them: `tests/bench/world.py --sequels`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import world_play
from support.tiers import examples
from support.world import oracle
from support.world.mails import GOOD
from support.world.sequels import STORIES, sequel_run

AFTER_ANOTHER, REBUILD, RENAMED, SPARE = (
    "one after another / disk",
    "during a rebuild / array",
    "returns under another name / disk",
    "after a spare took over / array",
)


def mails(story: str, seed: int, *injected: str) -> list[oracle.Mail]:
    """Return the mails of a story, of which these faults are."""
    run = sequel_run(story, seed)
    assert tuple(each.what for each in run.injections) == injected, "choose another seed"
    return world_play.Play(run).play()


@pytest.mark.parametrize("story", STORIES)
def test_titles_mails_and_ends_of_stories_are_right(story: str) -> None:
    """Two faults of one disk, a second member, the first minutes, restarts, another name."""
    for seed in range(examples(12)):
        run = sequel_run(story, seed)
        play = world_play.Play(run)
        found = oracle.judge(run, play.play(), world_play.visible(run), play.acks)
        assert found == [], f"seed {seed}"


def test_a_seed_of_a_story_is_the_same_run_each_time() -> None:
    """So that a miss can be looked at again."""
    assert all(sequel_run(story, 7) == sequel_run(story, 7) for story in STORIES)


def test_sectors_that_cannot_be_read_are_not_ok_when_the_disk_answers_again() -> None:
    """It hung, then had medium errors: '[OK] sdh' came a minute after the hang's end."""
    sent = mails(AFTER_ANOTHER, 3, "hang", "errors")
    assert "over, not repaired" in [mail.reason for mail in sent]
    assert not any(mail.reason == "resolved" for mail in sent)


def test_a_member_that_fails_while_another_syncs_is_the_title() -> None:
    """The one that came back is in its place: its thread goes on under the disk that left now."""
    sent = mails(REBUILD, 25, "gone", "gone")
    assert [(mail.name, mail.kind) for mail in sent if mail.reason in {"opened", "escalated"}] == [
        ("sdi", "gone"),
        ("sdg", "gone"),
        ("sdg", "gone"),
        ("sdg", "gone"),
    ]
    assert len({mail.incident for mail in sent if mail.reason != "initial report"}) == 1


def test_a_member_that_hung_before_it_failed_is_one_incident_with_its_array() -> None:
    """No second mail a second later that blames the disk that is whole, nor an early '[OK]'."""
    sent = mails(REBUILD, 35, "gone", "offlined")
    bad = [mail for mail in sent if mail.reason in {"opened", "escalated"}]
    assert [mail.name for mail in bad] == ["sdae", "sdae", "sdy", "sdy", "sdy"]
    ends = [mail for mail in sent if mail.reason == "resolved"]
    assert [mail.name for mail in ends] == ["sdy"]


def test_a_failed_file_system_is_remembered_among_many_disks_that_hung() -> None:
    """Twenty-seven neighbours waited twice: their ends pushed it out, and the end said '[OK]'."""
    sent = mails(RENAMED, 13, "gone", "offlined")
    ends = [mail.reason for mail in sent if mail.reason in GOOD]
    assert ends == ["over, not repaired"] * 2


def test_a_disk_at_another_port_has_its_name_of_today() -> None:
    """sdaa left and is sdzz now: nothing is called sdaa, so that its name finds no disk."""
    sent = mails(RENAMED, 5, "gone", "link lost")
    names = [mail.name for mail in sent if mail.reason != "initial report"]
    assert names == ["sdaa", "sdaa", "sdzz", "sdzz", "sdzz"]


def test_the_spare_that_is_lost_is_the_title_alone() -> None:
    """The member whose place it took is still listed as faulty, and its disk is offline."""
    sent = mails(SPARE, 0, "offlined", "gone")
    bad = [mail for mail in sent if mail.reason in {"opened", "escalated"}]
    assert [mail.name for mail in bad] == ["sdt"] * 4 + ["sdad"] * 2
    assert [mail.name for mail in sent if mail.reason == "rebuilt"] == ["sdt"]


def test_a_member_that_was_marked_faulty_has_no_errors_that_anybody_saw() -> None:
    """It refused a write, or somebody ran 'mdadm --fail': the title says what is known."""
    sent = mails(SPARE, 2, "refuses a write", "refuses a write")
    assert {mail.kind for mail in sent if mail.reason == "opened"} == {"marked faulty"}
    assert not any(mail.kind == "errors" for mail in sent)


def test_the_judge_finds_the_title_of_a_disk_that_a_spare_had_replaced() -> None:
    """Both are broken, and the array is short of one of them."""
    run = sequel_run(SPARE, 0)
    sent = world_play.Play(run).play()
    late = [mail for mail in sent if "no redundancy left: md1" in mail.content][-1]
    assert oracle.judge(run, sent, world_play.visible(run)) == []
    blamed = [replace(mail, object="sdt") if mail is late else mail for mail in sent]
    wrong = oracle.judge(run, blamed, world_play.visible(run))
    assert [miss.what for miss in wrong] == ["object: another one (later mail)"]


def test_the_judge_finds_that_no_mail_says_that_an_array_is_whole_again() -> None:
    """The spare is in sync: a receiver waits for that."""
    run = sequel_run(SPARE, 0)
    sent = world_play.Play(run).play()
    silent = [mail for mail in sent if mail.reason != "rebuilt"]
    assert "whole again: in no mail" in {
        miss.what for miss in oracle.judge(run, silent, world_play.visible(run))
    }


def test_the_judge_finds_a_title_that_names_one_of_two_members_that_are_away() -> None:
    """Who replaces that one alone believes that the array has its redundancy again."""
    run = sequel_run(SPARE, 150003)
    sent = world_play.Play(run).play()
    assert oracle.judge(run, sent, world_play.visible(run)) == []
    first = next(mail for mail in sent if len(mail.names) == 2)
    cut = [replace(mail, object=min(mail.names)) if mail is first else mail for mail in sent]
    found = oracle.judge(run, cut, world_play.visible(run))
    assert [miss.what for miss in found] == ["object: not all members that are away (later mail)"]
