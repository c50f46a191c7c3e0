"""The files of a watched directory, in the probe's answer, and their series."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.filesystem import backups
from iowarden.collectors.filesystem.backups import DirectoryState, WatchedDirectory
from iowarden.collectors.filesystem.newest import File, Listing, from_json, problem, read_listing
from iowarden.collectors.model import AbsentError, ParseError

if TYPE_CHECKING:
    from conftest import MachineMaker

FILE: dict[str, Any] = {
    "inode": 12,
    "bytes": 7,
    "changed_seconds": 1795282117.5,
    "modified_seconds": 1795282117,
}
VALUE: dict[str, Any] = {
    "realtime_seconds": 1795282200.25,
    "utc_offset_seconds": 3600,
    "mount_point": "/srv",
    "files": 1,
    "bytes": 7,
    "oldest_seconds": 1795282117,
    "latest": [FILE],
    "truncated": "",
}
EMPTY = VALUE | {"files": 0, "bytes": 0, "oldest_seconds": None, "latest": []}
ANSWER = "/.probe/newest !srv!backup *.tar"


def test_the_probes_answer_is_read(machine: MachineMaker) -> None:
    """One backup is both the latest and the oldest."""
    root = machine({ANSWER: json.dumps(VALUE)})
    file = File(12, 7, 1795282117.5, 1795282117.0)
    assert read_listing(root, "/srv/backup", "*.tar") == Listing(
        1795282200.25, 3600.0, "/srv", 1, 7, 1795282117.0, (file,), ""
    )


def test_files_from_the_future_hide_new_ones_only_where_they_fill_the_answer() -> None:
    """The clock was two days ahead while an archive grew, and is right again."""

    def answer(files: int, *ahead: float) -> str:
        latest = [
            FILE | {"changed_seconds": VALUE["realtime_seconds"] + seconds} for seconds in ahead
        ]
        return problem(from_json(json.dumps(VALUE | {"files": files, "latest": latest})))

    assert answer(1000, *[172800.0] * 128).startswith("its latest 128 files have times in the fut")
    assert answer(1000, *[172800.0] * 127, -60.0) == ""
    assert answer(128, *[172800.0] * 128) == "", "all files are in the answer"
    assert answer(1000, *[59.0] * 128) == "", "clocks differ a little"


def test_no_file_is_an_answer_and_no_probe_is_none(machine: MachineMaker) -> None:
    """Missing backups are a fault, backups that were not read are unknown."""
    root = machine({ANSWER: json.dumps(EMPTY)})
    assert read_listing(root, "/srv/backup", "*.tar").latest == ()
    with pytest.raises(AbsentError):
        read_listing(root, "/srv/wal", "*.tar")


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        VALUE | {"files": True},
        VALUE | {"files": 0},
        VALUE | {"files": 2},
        VALUE | {"latest": None},
        VALUE | {"latest": [1]},
        VALUE | {"oldest_seconds": "x"},
        VALUE | {"truncated": None},
        VALUE | {"realtime_seconds": float("nan")},
        VALUE | {"latest": [FILE | {"bytes": 0.5}]},
        VALUE | {"latest": [FILE | {"inode": None}]},
        VALUE | {"latest": [FILE | {"changed_seconds": False}]},
        VALUE | {"latest": [FILE | {"modified_seconds": float("inf")}]},
        VALUE | {"latest": [FILE | {"modified_seconds": 10**400}]},
        VALUE | {"latest": [{}]},
    ],
)
def test_what_is_no_answer_is_refused(value: Any) -> None:  # noqa: ANN401 - any JSON
    """An age from a partial answer would cause a false alert or hide a fault."""
    with pytest.raises(ParseError, match="probe 'newest': expected files as JSON"):
        from_json(json.dumps(value))


@given(st.text(max_size=100) | st.just("[" * 100_000))
def test_any_text_is_an_answer_or_refused(text: str) -> None:
    """No text raises another error."""
    with contextlib.suppress(ParseError):
        from_json(text)


def test_a_directory_that_was_not_read_is_neither_readable_nor_unreadable() -> None:
    """At the start; one that could not be read has no number of files."""
    own = WatchedDirectory("/srv/backup", "*.tar")
    labels = (("directory", "/srv/backup"), ("glob", "*.tar"))
    listing = from_json(json.dumps(VALUE))
    states = (
        DirectoryState(own),
        DirectoryState(own, None, 5.0, "no answer"),
        DirectoryState(own, listing, 5.0),
    )
    assert backups.emit(states) == [
        ("iowarden_backup_readable", labels, 0.0),
        ("iowarden_backup_readable", labels, 1.0),
        ("iowarden_backup_files", labels, 1),
        ("iowarden_backup_bytes", labels, 7),
    ]
    assert list(backups.unreadable(states)) == [(labels, ""), (labels, "no answer")]
