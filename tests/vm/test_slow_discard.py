"""fstrim on a real kernel, on a disk whose discards take 36 s: alone, then before two programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from vm.harness import MEBIBYTE, wait_for
from vm.watched import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vm.watched import Watched

MAIL_SECONDS = 300.0
"""The machine that emulates the guest may have other work meanwhile."""
GROUP = 128 * MEBIBYTE
"""A block group of ext4, which is one discard where nothing is in it."""


@pytest.fixture
def trimmed(watched: Watched) -> Iterator[Watched]:
    """A disk that discards a block group in 36 s.

    It is the one of virtio, whose driver waits for as long as it takes; AHCI resets its link after
    30 s, as for a disk at fault. Source: kernel, drivers/scsi/virtio_scsi.c, virtscsi_eh_timed_out.
    """
    # What others left to write is none of the test.
    watched.vm.run("rm -f /mnt/fast/*; sync; sleep 12", timeout_seconds=300)
    watched.vm.slow_discards("fast", GROUP // 36)
    yield watched
    watched.vm.run("rm -f /run/writing")
    watched.vm.repair("fast")


def _mails(watched: Watched) -> list[str]:
    return [text_of(mail) for mail in watched.mail.naming("Freeze")]


def test_a_slow_discard_is_silent_until_programs_wait_behind_it(trimmed: Watched) -> None:
    """The mail says that the disk discards, who requested it, and who waits; it is no hang."""
    vm, device = trimmed.vm, trimmed.vm.device("fast")
    trim = "systemd-run --wait --quiet --unit=trim-{} fstrim -o {}M -l 256M /mnt/fast"
    alone = vm.start(trim.format("alone", 256))
    wait_for(
        lambda: trimmed.metric(
            "iowarden_guard_active", device=device, guard="discarding", reason="fstrim discards"
        ),
        "a discard that is seen",
        MAIL_SECONDS,
    )
    assert alone.wait(MAIL_SECONDS).status == 0
    assert [mail["Subject"] for mail in trimmed.mail.mails] == []

    before = vm.start(trim.format("before-others", 640))
    vm.run("touch /run/writing")
    dd = "dd if=/dev/zero of=/mnt/fast/journal-{} bs=4k count=1 conv=fsync status=none"
    writers = [
        vm.start(
            f"systemd-run --wait --quiet --unit=shop-{number} sh -c"
            f" 'while [ -e /run/writing ]; do {dd.format(number)}; sleep 0.5; done'"
        )
        for number in range(2)
    ]
    wait_for(lambda: _mails(trimmed), "a mail that names the discard", MAIL_SECONDS)
    text = " ".join(_mails(trimmed)[0].split())
    # Between two of its requests the poll may not see what discards.
    assert "fstrim discards" in text or "the disk discards" in text, text
    assert "fstrim" in text, text
    assert "which discards" in text, text
    assert "shop-" in text, text
    assert trimmed.mail.naming("DeviceHang") == []
    vm.run("rm /run/writing")
    for command in (before, *writers):
        command.wait(MAIL_SECONDS)
