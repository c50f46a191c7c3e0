"""Programs that wait for storage on a real kernel: a frozen file system, threads of a process."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from vm.harness import MEBIBYTE, wait_for
from vm.watched import program_that_commits, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vm.watched import Watched

MAIL_SECONDS = 300.0
"""The machine that emulates the guest may have other work meanwhile."""
SNAPSHOT_SECONDS, FORGOTTEN_SECONDS = 12, 75


def _mails(watched: Watched, word: str) -> list[str]:
    return [text_of(mail) for mail in watched.mail.naming("Freeze") if word in text_of(mail)]


def test_a_snapshot_is_silent_and_a_forgotten_freeze_is_mailed_with_its_victim(
    watched: Watched,
) -> None:
    """fsfreeze of 12 s, then of 75 s, under two units that append to a file each second."""
    vm = watched.vm
    vm.run("touch /run/writing")
    append = "while [ -e /run/writing ]; do echo x >>/mnt/fast/journal-$1; sleep 1; done"
    writers = [
        vm.start(f"systemd-run --wait --quiet --unit=shop-{number} sh -c '{append}' sh {number}")
        for number in range(2)
    ]
    vm.run(f"fsfreeze -f /mnt/fast; sleep {SNAPSHOT_SECONDS}; fsfreeze -u /mnt/fast")
    vm.run("sleep 20", timeout_seconds=60)
    assert "".join(_mails(watched, "shop-")) == ""
    vm.run(
        f"fsfreeze -f /mnt/fast; sleep {FORGOTTEN_SECONDS}; fsfreeze -u /mnt/fast",
        timeout_seconds=FORGOTTEN_SECONDS + 60,
    )
    wait_for(lambda: _mails(watched, "shop-"), "a mail that names the victims", MAIL_SECONDS)
    text = " ".join(_mails(watched, "shop-")[0].split())
    assert "file system frozen" in text, text
    assert re.search(r"shop-\d\.service", text), text
    vm.run("rm /run/writing")
    for writer in writers:
        writer.wait(60)


@pytest.fixture
def threaded(watched: Watched) -> Iterator[Watched]:
    """A program whose one thread writes in bulk while two commit, on a disk of 512 KiB/s."""
    vm = watched.vm
    vm.run("sysctl -w vm.dirty_ratio=40 vm.dirty_background_ratio=10; touch /run/writing")
    vm.throttle("slow", write=MEBIBYTE // 2, request_bytes=128 * 1024)
    vm.run("cat >/run/ledger.py", program_that_commits("/mnt/slow"))
    writer = vm.start("systemd-run --wait --quiet --unit=ledger python3 /run/ledger.py")
    yield watched
    vm.throttle("slow")
    vm.run("rm -f /run/writing")
    writer.wait(300)


def test_threads_that_commit_are_harmed_by_the_one_of_their_process_that_writes(
    threaded: Watched,
) -> None:
    """Who waits is the process, and because of whom is the same process, by its threads."""
    wait_for(lambda: _mails(threaded, "ledger"), "a mail of the freeze", MAIL_SECONDS)
    text = " ".join(_mails(threaded, "ledger")[0].split())
    assert re.search(r"[Ww]ho waits: [^.]*ledger\.service", text), text
    # The mail names the file of one of them, which may be the one that the third thread writes.
    assert re.search(r"/mnt/slow/(?:log-\d|bulk)", text), text
