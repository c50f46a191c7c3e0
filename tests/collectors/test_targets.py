"""Finding drives: plain ones, those behind controllers, and those that people wrote down."""

from __future__ import annotations

import re

import pytest

from iowarden.collectors.targets import ConfiguredDrive, parse_configured
from iowarden.daemon.probe import allowed

WAYS = (
    ("/dev/sda", ""),
    ("/dev/nvme0", "nvme"),
    ("/dev/nvme0n1", "nvme,0x1"),
    ("/dev/sg3", "sat,12"),
    ("/dev/sdab", "sat,auto"),
    ("/dev/sdb", "usbjmicron,p,1"),
    ("/dev/sdb", "sntasmedia"),
    ("/dev/sg2", "areca,24"),
    ("/dev/sg2", "areca,3/1"),
    ("/dev/twa0", "3ware,0"),
    ("/dev/bus/7", "megaraid,256"),
    ("/dev/sda", "sat+megaraid,3"),
    ("/dev/sda", "aacraid,0,0,2"),
    ("/dev/sg1", "scsi+aacraid,0,0,2"),
    ("/dev/sg0", "cciss,0"),
    ("/dev/cciss/c0d0", "sat+cciss,11"),
    ("/dev/bsg/sssraid0", "sssraid,1,2"),
    ("/dev/sda", "hpt,1/3/1"),
)


def test_a_drive_is_written_as_for_smartctl() -> None:
    """Path, '-d', the serial number that is expected there, and the slot's name."""
    entry = {"path": "/dev/sg2", "type": "areca,3", "serial": "WD-1", "slot": "bay 3"}
    assert parse_configured(entry) == ConfiguredDrive("/dev/sg2", "areca,3", "WD-1", "bay 3")
    assert parse_configured({"path": "/dev/sda", "type": "auto"}) == ConfiguredDrive("/dev/sda")
    assert parse_configured({"serial": "WD-1", "ignore": True}).ignore


@pytest.mark.parametrize(("path", "kind"), WAYS)
def test_what_may_be_configured_root_may_run(path: str, kind: str) -> None:
    """No way to a drive is taken here that the probe would refuse later."""
    drive = parse_configured({"path": path, "type": kind or "auto"})
    given = ("-d", drive.kind) if drive.kind else ()
    assert allowed.match(("smartctl", "--json=co", "-x", *given, drive.path)).device == path


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({}, "expected 'path' or 'serial'"),
        ({"pth": "/dev/sda"}, "did you mean 'path'?"),
        ({"path": "/dev/sda1"}, "'path': expected a whole drive"),
        ({"path": "/dev/sda", "type": "areca,1"}, "'path': expected the controller's '/dev/sg2'"),
        ({"path": "/dev/sda", "type": "3ware,1"}, "'path': expected '/dev/twa0'"),
        ({"path": "0000:03:00.0"}, "'path': expected a whole drive"),
        ({"path": "/dev/sda", "type": "raid"}, "'type': expected what smartctl takes"),
        ({"path": "/dev/sda", "type": "sat,13"}, "'type': expected what smartctl takes"),
        ({"type": "sat", "serial": "X"}, "'type': expected 'path' beside it"),
        ({"path": "/dev/sda", "serial": 12345}, "'serial': expected text, got '12345'"),
        ({"path": "/dev/sda", "slot": "é"}, "'slot': expected 1 to 100 printable"),
        ({"path": "/dev/sda", "serial": " X"}, "without a blank at either end"),
        ({"path": "/dev/sda", "ignore": "maybe"}, "'ignore': expected true or false"),
        ({"path": "/dev/sda", "profile": "qnap"}, "'profile': expected one of slow, old"),
        ({"serial": "X", "profile": "slow"}, "'profile': expected 'path' beside it"),
    ],
)
def test_a_wrong_entry_says_what_to_write(entry: dict[str, object], complaint: str) -> None:
    """The key, what it takes, and what was there instead."""
    with pytest.raises(ValueError, match=re.escape(complaint)):
        parse_configured(entry, ("slow", "old"))


@pytest.mark.parametrize(
    "kind",
    ["jmb39x,0", "jmb39x-q,1,s33+sat", "jms56x,0", "intelliprop,1+sat", "usbcypress,0x24"],
)
def test_types_that_write_to_the_disk_are_never_taken(kind: str) -> None:
    """They write to sector 33, to a log or whatever one likes; the error says so."""
    with pytest.raises(ValueError, match="leaves the disk as it is"):
        parse_configured({"path": "/dev/sda", "type": kind})
