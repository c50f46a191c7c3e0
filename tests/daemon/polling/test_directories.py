"""Watched directories are polled at the same time: one that hangs delays no other."""

from __future__ import annotations

import itertools
import json
import threading
from typing import TYPE_CHECKING

import pytest
from support.memory import Memory

from iowarden.collectors.filesystem.backups import WatchedDirectory
from iowarden.collectors.machine import Machine, probe_path
from iowarden.collectors.model import AbsentError, ReadError, StuckError
from iowarden.daemon.polling.directories import MAX_THREADS, DirectoryPoller

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iowarden.collectors.filesystem.backups import DirectoryState

LONG_SECONDS = 60.0
"""Ends a test that would hang; no assertion."""


def answer(files: int = 0, **values: object) -> str:
    """Return the probe's answer about a directory with so many files."""
    file = {"inode": 1, "bytes": 1, "changed_seconds": 1.0, "modified_seconds": 1.0}
    return json.dumps(
        {
            "realtime_seconds": 9.0,
            "utc_offset_seconds": 0,
            "mount_point": "/srv",
            "files": files,
            "bytes": files,
            "oldest_seconds": 1.0 if files else None,
            "latest": [file] * files,
            "truncated": "",
        }
        | values
    )


def polled(
    probe: Callable[[str, Sequence[str], float], str],
    *paths: str,
    wait_seconds: float = LONG_SECONDS,
) -> tuple[DirectoryPoller, Machine]:
    """Return a poller of these directories, and a machine whose probe answers so."""
    poller = DirectoryPoller(itertools.count(100.0).__next__, wait_seconds)
    poller.configure([WatchedDirectory(path) for path in paths])
    return poller, Machine(probe=probe)


def reasons(states: Sequence[DirectoryState]) -> dict[str, str]:
    """Return why each directory could not be read; '' if it could, '?' if it was not yet."""
    return {s.watched.path: s.reason or ("?" if s.listing is None else "") for s in states}


def test_a_directory_that_hangs_delays_no_other() -> None:
    """An NFS server is down: its directory is not read yet, then it is unknown why."""
    answered, hung = threading.Event(), threading.Event()

    def probe(_: str, arguments: Sequence[str], __: float) -> str:
        if arguments[0] == "/srv/nfs":
            assert hung.wait(LONG_SECONDS)
            raise StuckError("'newest /srv/nfs *': hangs in the kernel")
        answered.set()
        return answer(1)

    poller, root = polled(probe, "/srv/nfs", "/srv/disk", wait_seconds=0.0)
    poller.read(root)
    assert answered.wait(LONG_SECONDS)
    while (found := reasons(poller.read(root)))["/srv/disk"]:
        pass
    assert found == {"/srv/nfs": "?", "/srv/disk": ""}
    hung.set()
    while (found := reasons(poller.read(root)))["/srv/nfs"] == "?":
        pass
    reason = "does not answer; check its server or disk: 'newest /srv/nfs *': hangs in the"
    assert reason in found["/srv/nfs"]
    assert found["/srv/disk"] == ""


def test_all_directories_are_read_with_few_threads() -> None:
    """Each once in a poll, and the threads end afterwards."""
    queried: list[str] = []
    others = set(threading.enumerate())  # of tests before
    most = 0

    def probe(_: str, arguments: Sequence[str], __: float) -> str:
        nonlocal most
        queried.append(arguments[0])
        own = set(threading.enumerate()) - others
        most = max(most, sum(thread.name == "read directory" for thread in own))
        return answer()

    paths = [f"/srv/{number}" for number in range(3 * MAX_THREADS)]
    poller, root = polled(probe, *paths)
    found = poller.read(root)
    assert reasons(found) == dict.fromkeys(paths, "")
    assert sorted(queried) == sorted(paths)
    assert 0 < most <= MAX_THREADS


def test_each_failure_is_reported_with_its_directory() -> None:
    """And never replaced by what was read before: an old listing looks like a stopped job."""
    answers: dict[str, Exception | str] = {}
    errors: dict[str, Exception | str] = {
        "/a": ReadError("not listed"),
        "/b": AbsentError("no probe"),
        "/c": "no JSON",
        "/d": RuntimeError("ours"),
        "/e": answer(truncated="more than 5 names"),
        "/f": answer(128, realtime_seconds=-999.0).replace('"files": 128', '"files": 129'),
    }

    def probe(_: str, arguments: Sequence[str], __: float) -> str:
        found = answers.get(arguments[0], answer())
        if isinstance(found, Exception):
            raise found
        return found

    poller, root = polled(probe, *errors)
    assert set(reasons(poller.read(root)).values()) == {""}
    answers |= errors
    states = poller.read(root)
    assert {state.listing for state in states} == {None}
    found = reasons(states)
    assert (found["/a"], found["/b"], found["/e"]) == (
        "not listed",
        "no probe",
        "more than 5 names",
    )
    assert "expected files as JSON" in found["/c"]
    assert "have times in the future" in found["/f"]
    assert found["/d"].startswith("bug: RuntimeError: ours")
    del answers["/a"]
    assert reasons(poller.read(root))["/a"] == ""


def test_a_mount_that_is_gone_is_reported_without_an_entry_in_fstab() -> None:
    """A disk that a script mounts: the empty directory below it is not the backup."""
    mounted = ["/srv"]
    poller, root = polled(lambda *_: answer(mount_point=mounted[0]), "/srv/backup")
    assert reasons(poller.read(root)) == {"/srv/backup": ""}
    mounted[0] = "/"
    assert "'/srv' was mounted, and is no longer" in reasons(poller.read(root))["/srv/backup"]
    mounted[0] = "/srv/backup"
    assert reasons(poller.read(root)) == {"/srv/backup": ""}


def test_what_is_configured_applies_from_the_next_poll() -> None:
    """A reload adds a directory and removes another; without any there is no data source."""
    poller, root = polled(lambda *_: answer(), "/a", "/b")
    poller.read(root)
    poller.configure([WatchedDirectory("/b"), WatchedDirectory("/c")])
    assert list(reasons(poller.read(root))) == ["/b", "/c"]
    poller.configure([])
    with pytest.raises(AbsentError, match="no 'watch_directories' in the configuration"):
        poller.read(root)


def test_a_recording_has_the_answers() -> None:
    """What was read is recorded, and is read again from the recording."""
    seen: dict[str, bytes] = {}
    poller, _ = polled(lambda *_: answer(1), "/srv/wal")
    live = poller.read(Machine(probe=lambda *_: answer(1), seen=seen.__setitem__))
    name = probe_path("newest", ("/srv/wal", "*"))
    assert json.loads(seen[name])["files"] == 1
    played = poller.read(Memory({name: seen[name]}))
    assert played[0].listing == live[0].listing
    seen.clear()
    poller.read(Machine(seen=seen.__setitem__))
    assert seen == {}, "the answer of before is not recorded as the one of now"
