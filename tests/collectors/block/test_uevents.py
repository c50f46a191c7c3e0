"""Uevents of block devices, received from the running kernel."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from iowarden.collectors.block.uevents import MAX_EVENTS, Uevents

DEADLINE_SECONDS = 20.0


Announce = Callable[[int], str]


@pytest.fixture
def announce() -> Announce:
    """Make the kernel send a uevent for some block device, like udevadm trigger."""
    files = [p for p in sorted(Path("/sys/block").glob("*/uevent")) if os.access(p, os.W_OK)]
    if not files:
        pytest.skip("no block device whose uevent file may be written; that takes root")

    def write(times: int) -> str:
        for _ in range(times):
            files[0].write_text("change")
        return files[0].parent.name

    return write


def test_an_announcement_names_action_device_and_its_number(announce: Announce) -> None:
    """udevadm trigger on a disk: one event, with the DISKSEQ that sysfs shows."""
    uevents = Uevents()
    name = announce(1)
    batch = uevents.wait(DEADLINE_SECONDS)
    assert [(event.action, event.device) for event in batch.events] == [("change", name)]
    number = Path(f"/sys/block/{name}/diskseq")
    assert batch.events[0].diskseq == (int(number.read_text()) if number.exists() else None)
    assert not batch.lost


def test_nothing_announced_is_an_empty_batch() -> None:
    """The wait ends at its timeout."""
    assert Uevents().wait(0.0).events == ()


def test_a_queue_that_overflowed_is_reported_and_the_next_announcement_comes(
    announce: Announce,
) -> None:
    """A storm without a reader: the loss is reported, and the monitor works afterwards."""
    uevents = Uevents()
    uevents._monitor.set_receive_buffer_size(4096)
    announce(2000)
    lost = ""
    for _ in range(2000 // MAX_EVENTS + 2):
        lost = lost or uevents.wait(0.0).lost
    assert lost
    name = announce(1)
    batch = uevents.wait(DEADLINE_SECONDS)
    assert [event.device for event in batch.events] == [name]
    assert not batch.lost


def test_a_storm_comes_in_batches(announce: Announce) -> None:
    """No batch exceeds its limit, and no event is lost."""
    uevents = Uevents()
    announce(MAX_EVENTS + 5)
    first = uevents.wait(DEADLINE_SECONDS)
    second = uevents.wait(DEADLINE_SECONDS)
    assert (len(first.events), len(second.events)) == (MAX_EVENTS, 5)
