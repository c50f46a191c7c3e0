"""`iowarden replay` warns of files that decide a verdict and that a recording lacks."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from support.recordings import write_recording
from support.storage_incidents import FakeMachine

from iowarden.collectors import registry
from iowarden.daemon.cli.main import main
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_shipped
from iowarden.daemon.replay import missing_files
from iowarden.rules.rulefile.rulefile import RecordingRule

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    Captured = pytest.CaptureFixture[str]

WORLD = {
    "/proc/diskstats": "8 0 sda 9 0 72 5 0 0 0 0 0 5 5\n",
    "/sys/block/sda/size": "1953525168\n",
    "/sys/block/sda/dev": "8:0\n",
}


def lacking(capsys: Captured, path: str) -> dict[str, str]:
    """Return what a replay warns of: verdicts by path."""
    assert main(["replay", path, "--json"]) == 0
    outcome = json.loads(capsys.readouterr().out)
    return {each["path"]: each["verdicts"] for each in outcome["missing"]}


def test_each_file_that_decides_a_verdict_is_missed(tmp_path: Path, capsys: Captured) -> None:
    """A disk of three files: among others its state, and thereby whether it is offline."""
    path = write_recording(tmp_path / "r", [(600.0, WORLD)])
    missed = lacking(capsys, path)
    assert missed["/sys/block/*/device/state"] == "DiskOffline"
    assert missed["/sys/block/*/ro"] == "DiskReadOnly"
    assert missed["/.kmsg"] == "events of the kernel's log"
    assert missed["/proc/1/mountinfo"].startswith("FilesystemBecameReadOnly, FilesystemReadOnly")
    assert "/proc/diskstats" not in missed
    assert "/sys/block/*/size" not in missed
    assert "/proc/mdstat" not in missed  # no array
    main(["replay", path])
    warned = capsys.readouterr().err
    assert "block: '/sys/block/*/ro' of sda; without it no: DiskReadOnly\n" in warned


def test_objects_that_lack_a_file_are_named(tmp_path: Path, capsys: Captured) -> None:
    """One disk of two has it; an array has no state, a mount no fill level."""
    files = WORLD | {
        "/sys/block/sda/ro": "0\n",
        "/sys/block/sdb/size": "9\n",
        "/sys/block/md0/md/level": "raid1\n",
        "/proc/1/mountinfo": "30 1 8:1 / /srv rw - ext4 /dev/sda1 rw\n",
    }
    main(["replay", write_recording(tmp_path / "r", [(600.0, files)])])
    warned = capsys.readouterr().err
    assert "'/sys/block/*/ro' of sdb;" in warned
    assert "'/sys/block/*/md/array_state' of md0; without it no: MdBroken, MdInactive" in warned
    assert "'<mount point>/.statvfs' of /srv; without it no: FilesystemFillingUp" in warned
    assert "'/sys/fs/ext4' of /srv;" in warned


def test_a_whole_machine_is_not_warned_of(tmp_path: Path, capsys: Captured) -> None:
    """With all the files of the table there is nothing to say about disks and arrays."""
    machine = FakeMachine(tmp_path)
    machine.sata("sda", "sdb")
    machine.array("md0", "raid1", "sda1", "sdb1")
    machine.restarted()
    machine.wait(2, 1.0)
    missed = lacking(capsys, machine.packed())
    assert not [path for path in missed if path.startswith(("/sys/block", "/sys/class"))]


SOME_HOSTS = frozenset(
    "clock numa loadavg thp uname udev tasks io_sweep monitors queue bdi hwmon ext4 btrfs"
    " enclosure filesystem backups bad_blocks btrfs_scrub controllers zfs zfs_arc zfs_txgs"
    " zfs_vdevs dm_targets".split()
)
"""Collectors whose files not every host has, or that decide no verdict by themselves."""


def test_each_collector_has_its_files_in_the_table() -> None:
    """Or only some hosts have them."""
    listed = {files.collector for files in missing_files._FILES}
    assert {source.name for source in registry.SOURCES} == listed | SOME_HOSTS
    assert not listed & SOME_HOSTS


def test_alerts_that_the_table_names_exist() -> None:
    """A rule that is renamed is renamed here."""
    groups = load_shipped(parse_config("", "defaults", "host"))
    names = {
        rule.alert
        for group in groups
        for rule in group.rules
        if not isinstance(rule, RecordingRule)
    }
    for files in missing_files._FILES:
        for word in re.findall(r"\b(?:[A-Z][a-z]+){2,}\b", files.verdicts):
            assert word in names, files
