"""Kill -9 between reading an event and sending its mail, at every step: it is reported, and once.

A kill within a write is tested in test_sweep.py: all of it is written, or nothing.
"""

from __future__ import annotations

import email
import email.policy
import shutil
from collections import Counter
from email.message import EmailMessage
from typing import TYPE_CHECKING

import pytest
from support.areca import BOOT, LOG_IN, POWERED_ON, Card, reading
from support.kmsg import Kernel, medium_error, unreadable
from support.live import Live, text
from support.lives import Life
from support.stories import Story, kernel_story, told

from iowarden.daemon.config.parser import parse_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MINUTE = 60.0
MAX_STEPS = 500
"""Far above anything counted: it ends a sweep that would not end."""


def controller_story(tmp_path: Path, *, kernel_too: bool) -> Story:
    """A controller logs events, with or without a kernel message."""
    live, card = Live(tmp_path), Card()
    card.tells(live.wall - 9000.0, POWERED_ON)
    live.change({**BOOT, **card.shows("sda", "sdb"), **card.files()})
    live.change(card.attributes(1) | card.attributes(2))
    kernel = Kernel(live)

    def happen() -> None:
        for sector in (8, 16, 24):
            card.tells(live.wall + 0.5, reading(2))
            live.change({})
            if kernel_too:
                kernel.says(*unreadable("0:0:1:0", "sdb", sector))
            live.wait(4)
        card.tells(live.wall, LOG_IN)
        live.change(card.log())

    return told(live, happen, "IDE Channel #02 Reading Error")


STORIES: dict[str, Callable[[Path], Story]] = {
    "one error, in the ring": lambda path: kernel_story(path, (123456,), ring=True),
    "one error, in the journal": lambda path: kernel_story(path, (123456,), ring=False),
    "a storm, in the ring": lambda path: kernel_story(path, (8, 16, 24, 32, 40), ring=True),
    "a storm, in the journal": lambda path: kernel_story(path, (8, 16, 24, 32, 40), ring=False),
    "a controller's log": lambda path: controller_story(path, kernel_too=False),
    "a controller's log and the kernel's": lambda path: controller_story(path, kernel_too=True),
}


@pytest.mark.parametrize(
    "every", [pytest.param(1, marks=pytest.mark.system, id="each"), pytest.param(5, id="each 5th")]
)
@pytest.mark.parametrize("name", STORIES)
def test_a_kill_at_any_step_loses_nothing_and_repeats_only_the_same_mail(
    tmp_path: Path, name: str, every: int
) -> None:
    """Before and after each write and each mail; then the next start reports the rest."""
    story = STORIES[name](tmp_path)
    directory, base = tmp_path / "state", tmp_path / "base"
    settings = (
        f"host: db1.example.com\nstate_directory: {directory}\nmail: {{to: ops@example.com}}\n"
    )
    config = parse_config(settings, "iowarden.yaml")
    directory.mkdir()
    taken: list[bytes] = []
    assert not Life(config, taken).play(story.before)
    assert len(taken) == 1, "the initial report: what is found from now on is news"
    directory.rename(base)
    for at in range(1, MAX_STEPS, every):
        shutil.copytree(base, directory)
        taken.clear()
        killed = Life(config, taken, kill_at=at).play(story.during)
        assert not Life(config, taken).play(story.after)
        judge(taken, story.words, at, repeats=int(killed))
        shutil.rmtree(directory)
        if not killed:
            assert at > 5, "there is nothing to be killed in"
            return
    pytest.fail("the sweep does not end")


def first_start(tmp_path: Path) -> Story:
    """A disk has errors before the first start, and one more before the initial report."""
    live = Live(tmp_path)
    live.change(dict(BOOT))
    kernel = Kernel(live)
    kernel.says(*(medium_error(8 * number) for number in range(8)))
    live.wait(MINUTE)
    live.restarted()
    live.wait(12)
    during = live.steps
    kernel.says(medium_error(4096))
    live.wait(64)
    live.restarted()
    live.wait(80)
    return Story([], during, live.steps, "could not read or write sectors (9 times)")


@pytest.mark.parametrize(
    "every", [pytest.param(1, marks=pytest.mark.system, id="each"), pytest.param(3, id="each 3rd")]
)
def test_a_kill_at_any_step_of_the_first_start_loses_no_finding_and_makes_one_report(
    tmp_path: Path, every: int
) -> None:
    """Between the opening of the incident and its report, and while that is stored and sent."""
    story = first_start(tmp_path)
    for at in range(1, MAX_STEPS, every):
        directory = tmp_path / f"state{at}"
        directory.mkdir()
        settings = (
            f"host: db1.example.com\nstate_directory: {directory}\nmail: {{to: ops@example.com}}\n"
        )
        config, taken = parse_config(settings, "iowarden.yaml"), []
        killed = Life(config, taken, kill_at=at).play(story.during)
        assert not Life(config, taken).play(story.after)
        judge(taken, story.words, at, repeats=int(killed))
        assert len(set(taken)) == 1, f"killed at step {at}: more than the initial report"
        assert b"INITIAL REPORT" in taken[0]
        shutil.rmtree(directory)
        if not killed:
            assert at > 5, "there is nothing to be killed in"
            return
    pytest.fail("the sweep does not end")


def judge(taken: list[bytes], words: str, at: int, *, repeats: int) -> None:
    """Check that all was reported in one thread, and only identical mails were repeated."""
    mails = [
        email.message_from_bytes(data, EmailMessage, policy=email.policy.default) for data in taken
    ]
    first = {str(mail["References"] or mail["Message-ID"]).split()[0] for mail in mails}
    assert len(first) == 1, f"killed at step {at}: {[mail['Subject'] for mail in mails]}"
    assert any(words in text(mail) for mail in mails), f"killed at step {at}: it is not told"
    counts = Counter(str(mail["Message-ID"]) for mail in mails)
    assert sum(counts.values()) - len(counts) <= repeats, f"killed at step {at}: it came again"
