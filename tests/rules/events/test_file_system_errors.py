"""Which file systems the kernel's log knows to have errors, and which of them it stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from iowarden.collectors.block.block_devices import Topology
from iowarden.collectors.filesystem.btrfs_owner import FileSystem
from iowarden.collectors.kmsg.kernel_classifier import Classifier
from iowarden.collectors.kmsg.kernel_events import classify
from iowarden.collectors.kmsg.kernel_line import KernelLine
from iowarden.rules.events import event_alerts
from iowarden.rules.events.event_correlation import correlate
from iowarden.rules.events.event_state import CorrelationState, EventBatch
from iowarden.rules.events.event_table import parse_events_file
from iowarden.rules.events.file_system_errors import file_system_errors
from iowarden.rules.topology.slot_map import DeviceMap

FILE = Path(event_alerts.__file__).with_name("events.yaml")
TABLE = parse_events_file(FILE.read_text(), FILE.name)
PAIR = FileSystem("77b7d1e0-1f0e-4d54-9a0b-2f7c3c9d1e77", ("sdb1", "sdc1"), 2)
KNOWN = DeviceMap(topology=Topology({}, btrfs=dict.fromkeys(PAIR.devices, PAIR)))


def errors(*texts: str, boot_id: str = "now") -> dict[str, bool]:
    """Return what is known after lines of the kernel, of this boot or another."""
    state, events = Classifier(), []
    for number, text in enumerate(texts):
        line = KernelLine(text, priority=2, boot_id=boot_id, monotonic_seconds=float(number))
        state, more = classify(state, line)
        events += more
    after, _ = correlate(CorrelationState(), EventBatch(9.0, 9.0, tuple(events)), KNOWN, TABLE)
    return file_system_errors(after.groups, "now", KNOWN.topology)


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("Aborting journal on device sda1-8.", "sda1"),
        ("Aborting journal on device dm-2-8.", "dm-2"),
        ("Aborting journal on device sdd1.", "sdd1"),  # a journal on a device of its own
        ("EXT4-fs error (device sda1): ext4_x:83: comm x: Detected aborted journal", "sda1"),
        ("EXT4-fs (sda1): Remounting filesystem read-only", "sda1"),
        ("XFS (sda1): Filesystem has been shut down due to log error (0x2).", "sda1"),
        ("F2FS-fs (sda1): Remounting filesystem read-only", "sda1"),
    ],
)  # fmt: skip
def test_a_file_system_that_the_kernel_stopped(text: str, device: str) -> None:
    """By the device that the line names: of an external journal that device."""
    assert errors(text) == {device: True}
    assert errors(text, boot_id="before") == {}


def test_btrfs_that_became_read_only_is_so_by_each_of_its_devices() -> None:
    """The mount table may name another of its devices than the kernel's log."""
    line = "BTRFS info (device sdb1 state EA): forced readonly"
    assert errors(line) == {"sdb1": True, "sdc1": True}


def test_an_error_after_which_a_file_system_goes_on_does_not_stop_it() -> None:
    """'errors=continue': it had an error, and is not known to be well."""
    line = "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm ls: reading directory"
    assert errors(line) == {"sda1": False}
