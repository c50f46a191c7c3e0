"""A wrong checksum of btrfs: corrected from another copy, a warning; not corrected, critical."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.block.block_devices import Topology
from iowarden.collectors.filesystem.btrfs_owner import FileSystem
from iowarden.collectors.kmsg.kernel_classifier import Classifier
from iowarden.collectors.kmsg.kernel_events import classify
from iowarden.collectors.kmsg.kernel_line import KernelLine
from iowarden.rules.events import event_alerts
from iowarden.rules.events.btrfs_repairs import REPAIR_SECONDS, awaits_repair
from iowarden.rules.events.event_correlation import correlate, patience_seconds
from iowarden.rules.events.event_state import CorrelationState, EventBatch
from iowarden.rules.events.event_table import parse_events_file
from iowarden.rules.severity import Severity
from iowarden.rules.topology.slot_map import DeviceMap

if TYPE_CHECKING:
    from iowarden.collectors.event import StorageEvent

FILE = Path(event_alerts.__file__).with_name("events.yaml")
TABLE = parse_events_file(FILE.read_text(), FILE.name)
UUID = "77b7d1e0-1f0e-4d54-9a0b-2f7c3c9d1e77"
PAIR = FileSystem(UUID, ("sdb1", "sdc1"), 2)
KNOWN = DeviceMap(topology=Topology({}, btrfs=dict.fromkeys(PAIR.devices, PAIR)))
DATA = "BTRFS warning (device sdb1): csum failed root 5 ino 257 off 4096 csum 0x1 expected csum 0x2 mirror 2"  # noqa: E501 - as the kernel prints it
METADATA = "BTRFS warning (device sdb1): checksum verify failed on logical 30408704 mirror 1 wanted 0x1 found 0x2 level 0"  # noqa: E501 - as the kernel prints it
TRANSID = "BTRFS error (device sdb1): parent transid verify failed on logical 30408704 mirror 2 wanted 7 found 5"  # noqa: E501 - as the kernel prints it
START = "BTRFS error (device sdb1): bad tree block start, mirror 1 want 30408704 have 0"
SCRUBBED = "BTRFS warning (device sdb1): tree block 30408704 mirror 2 has bad csum, has 1 want 2"
OLD_SCRUB = "BTRFS warning (device sdb1): checksum error at logical 30408704 on dev /dev/sdc1, physical 9437184, root 5, inode 257, offset 4096, length 4096, links 1 (path: a)"  # noqa: E501 - as the kernel prints it
CORRECTED = "BTRFS info (device sdb1): read error corrected: ino {} off {} (dev /dev/sdc1 sector 9)"
FIXED = "BTRFS error (device sdb1): fixed up error at logical {} on dev /dev/sdc1 physical 9437184"
FIXED_MIRROR = "BTRFS error (device sdb1): fixed up error at logical {} on mirror 2"
FIXED_OLD = "BTRFS error (device sdb1): fixed up error at logical {} on dev /dev/sdc1"


def logged(*texts: str, every: float = 0.001) -> list[StorageEvent]:
    """Return the events of lines that the kernel logs one after the other."""
    state, events = Classifier(), []
    for number, text in enumerate(texts):
        state, more = classify(
            state, KernelLine(text, priority=4, monotonic_seconds=number * every)
        )
        events += more
    return events


def severities(*batches: list[StorageEvent]) -> dict[str, Severity]:
    """Return the severity of each alert, by its object, once these have been read."""
    state, now = CorrelationState(), 1000.0
    for events in batches:
        state, _ = correlate(state, EventBatch(now, now, tuple(events)), KNOWN, TABLE)
        now += 1.0
    return {f"{a.object}: {a.name}": a.severity for a in event_alerts.alerts(state, TABLE, now)}


@pytest.mark.parametrize(
    ("wrong", "repair"),
    [
        (DATA, CORRECTED.format(257, 4096)),
        (METADATA, CORRECTED.format(0, 30408704)),
        (METADATA, CORRECTED.format(1, 30408704)),
        (TRANSID, CORRECTED.format(0, 30408704)),
        (START, CORRECTED.format(0, 30408704)),
        (SCRUBBED, FIXED.format(30408704)),
        (SCRUBBED, FIXED.format(30408704 - 16384)),
        (SCRUBBED, FIXED_MIRROR.format(30408704)),
        (OLD_SCRUB, FIXED_OLD.format(30408704)),
    ],
)
def test_a_block_that_was_read_from_the_other_copy_is_a_warning(wrong: str, repair: str) -> None:
    """Data, metadata and scrub: no program got an error, and both copies are good again."""
    found = severities(logged(wrong, repair))
    assert found
    assert set(found.values()) == {Severity.WARNING}


@pytest.mark.parametrize(
    ("wrong", "other"),
    [
        (DATA, ()),
        (DATA, (CORRECTED.format(257, 8192),)),
        (DATA, (CORRECTED.format(258, 4096),)),
        (METADATA, (CORRECTED.format(257, 30408704),)),
        (SCRUBBED, (FIXED.format(30408704 - 65536),)),
        (OLD_SCRUB, (FIXED_OLD.format(30408704 - 16384),)),
    ],
)
def test_a_block_that_no_line_corrects_is_critical(wrong: str, other: tuple[str, ...]) -> None:
    """The repair of another block does not excuse it."""
    assert Severity.CRITICAL in severities(logged(wrong, *other)).values()


def test_a_repair_long_before_does_not_excuse_a_new_error() -> None:
    """The same block was repaired a minute ago, and is wrong again."""
    lines = logged(CORRECTED.format(257, 4096), DATA, every=60.0)
    assert Severity.CRITICAL in severities(lines).values()


def test_a_repair_that_was_read_a_second_earlier_than_its_error_counts() -> None:
    """The wrong checksum waited for it, and comes with a later batch."""
    wrong, repair = logged(DATA, CORRECTED.format(257, 4096))
    assert patience_seconds(wrong) == REPAIR_SECONDS
    assert not awaits_repair(repair)
    assert set(severities([repair], [wrong]).values()) == {Severity.WARNING}


def test_the_disk_of_a_wrong_checksum_is_never_the_first_device() -> None:
    """A mirror of sdb1 and sdc1, of which sdc1 is corrupt: sdb1 has the only good copy.

    'mirror 2' is the second copy of that block, which may be on either; only 'bdev' names the disk.
    """
    bdev = "BTRFS error (device sdb1): bdev /dev/sdc1 errs: wr 0, rd 0, flush 0, corrupt 1, gen 0"
    events = tuple(logged(DATA, bdev))
    state, _ = correlate(CorrelationState(), EventBatch(1.0, 1.0, events), KNOWN, TABLE)
    alerts = {alert.name: alert for alert in event_alerts.alerts(state, TABLE, 1.0)}
    assert alerts["fs_checksum_error"].subject == f"file system {UUID}"
    assert alerts["fs_checksum_error"].label("device") == ""
    assert "mirror 2 is the number of a copy" in alerts["fs_checksum_error"].annotation("unknown")
    assert alerts["fs_device_errors"].subject == "device sdc1"
