"""The last scrub of a btrfs, as btrfs-progs prints it."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.filesystem import btrfs_scrub
from iowarden.collectors.filesystem.btrfs_scrub import BtrfsScrub, parse_scrub, read_scrubs
from iowarden.collectors.machine import probe_path
from iowarden.collectors.model import AbsentError, ParseError

if TYPE_CHECKING:
    from conftest import MachineMaker

UUID = "0b9d5c1e-7a2f-4c35-8e61-d4f7a80b3c92"
HEAD = f"UUID:             {UUID}\n"
NEVER = "\tno stats available\n"
MOUNTS = (
    "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    "36 25 0:40 /@srv /srv rw - btrfs /dev/sdb1 rw\n"
    "37 25 0:40 /@home /home rw - btrfs /dev/sdb1 rw\n"
    "38 25 0:41 / /mnt/archive rw - btrfs /dev/sdc rw\n"
)


def device(number: int, text: str, what: str = "history") -> str:
    """Return the part of a device."""
    return f"\nScrub device /dev/sdb{number} (id {number}) {what}\n{text}"


def scrubbed(began: str, duration: str, status: str = "finished", what: str = "started") -> str:
    """Return a record."""
    lines = f"Scrub {what}:    {began}\nStatus:           {status}\n"
    return lines + f"Duration:         {duration}\nTotal to scrub:   1.09TiB\n"


def local(day: int, *time: int) -> datetime:
    """Return a local time of November 2026."""
    return datetime(2026, 11, day, *time)  # noqa: DTZ001


DAY = scrubbed("Sun Nov  1 03:00:07 2026", "25:10:13")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (device(1, DAY), BtrfsScrub(UUID, local(2, 4, 10, 20))),
        (
            device(1, DAY) + device(2, scrubbed("Sun Nov  1 03:00:07 2026", "0:10:00")),
            BtrfsScrub(UUID, local(1, 3, 10, 7)),
        ),
        (
            device(1, scrubbed("Mon Nov  9 01:00:00 2026", "30:00:00", what="resumed")),
            BtrfsScrub(UUID, local(9, 1, 0, 0)),
        ),
        (
            device(1, DAY).replace("Scrub device", "scrub device"),
            BtrfsScrub(UUID, local(2, 4, 10, 20)),
        ),
        (device(1, NEVER, "") + device(2, NEVER, ""), BtrfsScrub(UUID, never=True)),
        (device(1, DAY) + device(2, NEVER, ""), BtrfsScrub(UUID)),
        (
            device(1, scrubbed("Sun Nov  1 03:00:07 2026", "0:01:00", "running"), "status"),
            BtrfsScrub(UUID),
        ),
        (device(1, scrubbed("Sun Nov  1 03:00:07 2026", "0:01:00", "aborted")), BtrfsScrub(UUID)),
    ],
)
def test_a_scrub_is_complete_when_all_devices_are_finished(text: str, expected: BtrfsScrub) -> None:
    """The first device that was finished dates it; one that runs or was interrupted has no end.

    The duration of a resumed one includes the parts before: only that it was later is known.
    """
    assert parse_scrub(HEAD + text) == expected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("ERROR: not a btrfs filesystem: /srv\n", "got 'ERROR: not a btrfs filesystem: /srv'"),
        (HEAD, "expected 'UUID:' and a part for each device"),
        (HEAD + device(1, scrubbed("2026-11-01 03:00", "0:01:00")), "got '2026-11-01 03:00'"),
        (HEAD + device(1, scrubbed("Sun Nov  1 03:00:07 2026", "a day")), "and 'a day'"),
        (HEAD + device(1, scrubbed("Sun Nov  1 03:00:07 2026", f"{10**12}:0:0")), "a duration"),
    ],
)
def test_what_is_no_record_is_an_error_with_what_was_expected(text: str, error: str) -> None:
    """Another language, another version, another program."""
    with pytest.raises(ParseError, match="'btrfs scrub status': expected") as raised:
        parse_scrub(text)
    assert error in str(raised.value)


def test_each_mounted_file_system_is_read_once(machine: MachineMaker) -> None:
    """Two mounts of one are one; one that cannot be read, or hangs, is unknown."""

    def path(mount_point: str) -> str:
        return probe_path("run", ("btrfs", "scrub", "status", "-d", mount_point))

    def answer(status: int, output: str, errors: str = "") -> str:
        return json.dumps({"status": status, "signal": None, "stdout": output, "stderr": errors})

    root = machine(
        {
            "/proc/1/mountinfo": MOUNTS,
            path("/srv"): answer(0, HEAD + device(1, DAY)),
            path("/mnt/archive"): answer(1, "", "ERROR: scrub status failed\n"),
        }
    )
    found = read_scrubs(root)
    assert found.keys() == {"/srv", "/mnt/archive"}
    assert found["/srv"].ended == local(2, 4, 10, 20)
    (sample,) = btrfs_scrub.emit(found)
    assert sample == ("iowarden_btrfs_scrub_complete", (("mountpoint", "/srv"),), 1.0)
    ((labels, reason),) = btrfs_scrub.unreadable(found)
    assert labels == (("mountpoint", "/mnt/archive"),)
    assert "scrub status failed" in reason
    hung = read_scrubs(root, lambda part: "no answer for 20 s" if part == "/srv" else "")
    assert hung["/srv"].reason == "no answer for 20 s"


def test_without_btrfs_there_is_no_such_data(machine: MachineMaker) -> None:
    """Absent, and not an empty list."""
    with pytest.raises(AbsentError):
        read_scrubs(machine({"/proc/1/mountinfo": MOUNTS.splitlines(keepends=True)[0]}))
