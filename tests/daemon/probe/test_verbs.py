"""What the probe reads as root: only what may be requested, limited, and reported correctly."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.journald import private_journald
from support.memory import Memory

from iowarden.collectors.filesystem import newest
from iowarden.collectors.kmsg import kernel_journal
from iowarden.daemon.probe import allowed, owners, verbs
from iowarden.daemon.probe.capabilities import Capability
from iowarden.daemon.probe.protocol import MAX_REPLY_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.machine import Machine

REMOTE = "/lib/systemd/systemd-journal-remote"
BOOT = "0f70219b-9a6f-44d1-99ad-824270d0ef01"
CURSOR = "s=" + "a" * 32 + ";i=1f;b=" + "b" * 32 + ";m=1;t=2;x=3"
IMPORTS = "import json\nfrom iowarden.daemon.probe import verbs\n"
DEADLINE_SECONDS = 60.0
"""Far above anything measured: it ends a test that would hang, and is no assertion."""


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("tasks", ()),
        ("io_sweep", ()),
        ("journal", ("",)),
        ("journal", (CURSOR,)),
        ("statvfs", ("/",)),
        ("newest", ("/srv/a b/\udcff", "*.dump")),
        ("newest", ("/" + "x/" * 2000 + "x", "*")),
    ],
)
def test_what_may_be_queried(verb: str, arguments: tuple[str, ...]) -> None:
    """A path may hold any byte, and be as long as the kernel accepts."""
    assert verbs.refusal(verb, arguments) == ""


@pytest.mark.parametrize(
    ("verb", "arguments", "text"),
    [
        ("shell", (), "'shell': expected one of btrfs_names, dm_table, dm_targets, ext4_owners,"),
        ("tasks", ("1",), "'tasks': expected no argument, got 1"),
        ("io_sweep", ("1",), "'io_sweep': expected no argument, got 1"),
        ("statvfs", (), "'statvfs': expected PATH, got 0"),
        ("journal", ("", ""), "'journal': expected CURSOR, got 2"),
        ("journal", (CURSOR + "\n",), "cursor"),
        ("journal", ("s=1;i=1",), "cursor"),
        ("newest", ("/srv",), "'newest': expected DIR GLOB, got 1"),
        *(("newest", ("/srv", glob), "pattern") for glob in ("", "a/b", "a\0", "x" * 256)),
        *(
            (verb, (path, "*")[: 1 + (verb == "newest")], "absolute path")
            for verb in ("statvfs", "newest")
            for path in (
                *("", "srv", "./srv", "/srv/", "//srv", "/srv//a", "/srv/../etc", "/srv/.", "/.."),
                *("/srv\0/a", "/" + "x" * 4095, "/" + "ü" * 2048, "/\ud800"),
            )
        ),
    ],
)
def test_what_may_not(verb: str, arguments: tuple[str, ...], text: str) -> None:
    """A path has one spelling, so that a list of paths cannot be bypassed."""
    assert text in verbs.refusal(verb, arguments)


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("ext4_owners", ("/dev/sda1", "0", "65536")),
        ("xfs_owners", ("/", "123456789012345", "1")),
        ("btrfs_names", ("/srv", str(2**64 - 1), "5", "257")),
        ("dm_table", ("253", "0")),
    ],
)
def test_an_owner_is_asked_for_by_place_and_number(verb: str, arguments: tuple[str, ...]) -> None:
    """A number may be as long as the kernel's; anything else in its place is refused."""
    assert owners.refusal(verb, arguments) == ""
    assert f"'{verb}': expected " in owners.refusal(verb, arguments[1:])
    for at in range(1, len(arguments)):
        for bad in ("", "-1", "0x10", "1 2", "8;quit", "\n", "\u0661", "9" * 30, "/etc"):
            wrong = (*arguments[:at], bad, *arguments[at + 1 :])
            assert f"'{verb}': expected " in owners.refusal(verb, wrong)
    if verb.endswith("_owners"):
        for count in ("0", "65537", "99999"):
            assert owners.refusal(verb, (*arguments[:2], count))


@given(st.sampled_from(sorted(owners.VERBS)), st.lists(st.text(max_size=20), max_size=5))
def test_any_text_is_refused_or_makes_a_command_line_that_is_checked(
    verb: str, words: list[str]
) -> None:
    """Whatever passes for arguments of a verb makes one of its own allowed command lines."""
    if owners.refusal(verb, tuple(words)) == "":
        with contextlib.suppress(ValueError):
            allowed.match(owners.VERBS[verb].first(tuple(words)), inner=True)


def test_the_unit_permits_the_capabilities_that_are_kept_and_no_others() -> None:
    """And the system call with which each child gives up the others."""
    text = (Path(__file__).parents[3] / "systemd/iowarden-probe.service").read_text()
    lines = [line.partition("=") for line in text.splitlines()]
    permitted = {
        word for key, _, words in lines if key == "CapabilityBoundingSet" for word in words.split()
    }
    kept = {*chain(*verbs.CAPABILITIES.values())}
    kept |= {*chain(*(each.capabilities for each in allowed.PROGRAMS.values()))}
    kept |= {*chain(*(each.capabilities for each in owners.VERBS.values()))}
    assert {*verbs.CAPABILITIES} == {*verbs.VERBS}
    # The probe itself opens '/dev/kmsg'; it starts and kills the programs of another user.
    starts = {Capability.SETUID, Capability.SETGID, Capability.KILL}
    assert not kept & starts, "no program becomes who it wants to be"
    assert permitted == {f"CAP_{each.name}" for each in {*kept, *starts, Capability.SYSLOG}}
    calls = [words.split() for key, _, words in lines if key == "SystemCallFilter"]
    assert "capset" in calls[-1]


@given(st.sampled_from(["statvfs", "newest", "journal"]), st.text(max_size=60))
def test_any_text_is_a_path_or_refused(verb: str, text: str) -> None:
    """No text causes an error; an accepted path is one that names what it seems to."""
    refused = verbs.refusal(verb, ("/" + text, "*")[: 1 + (verb == "newest")])
    if not refused:
        assert verb != "journal"
        assert os.path.normpath("/" + text) == "/" + text


# statvfs


def run_apart(script: str, code: str, *, processes: bool) -> Any:  # noqa: ANN401 - what it prints
    """Run Python in its own mount namespace, and as its process 1 if `processes`."""
    command = ["unshare", "--mount"]
    command += [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command += ["--pid", "--fork", "--mount-proc"] if processes else []
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine gives nobody a name space of his own")
    ran = subprocess.run(
        [*command, "sh", "-ec", f'{script}\nexec "$@"', "sh", sys.executable, "-c", IMPORTS + code],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


ASK = """
try:
    print(json.dumps(verbs.statvfs(({path!r},))))
except ValueError as error:
    print(json.dumps({{"error": str(error)}}))
"""


def test_a_mount_below_a_closed_directory_is_reported(tmp_path: Path) -> None:
    """Mode 0700, a blank and a backslash in its name: the values are those of that very mount."""
    (tmp_path / "closed").mkdir(mode=0o700)
    place = tmp_path / "closed" / "a b\\c"
    place.mkdir()
    mount = f"mount -t tmpfs -o size=256k tmpfs '{place}'"
    text = run_apart(mount, ASK.format(path=str(place)), processes=True)["text"]
    values = dict(line.split(" ") for line in text.splitlines())
    assert int(values["blocks"]) * int(values["fragment_bytes"]) == 256 * 1024
    assert values["device_number"].startswith("0:")


def test_what_is_no_mount_of_the_host_is_not_looked_at(tmp_path: Path) -> None:
    """A directory, and a mount that only the probe has: neither is reported."""
    mount = f"mount -t tmpfs tmpfs {tmp_path}"
    found = run_apart(mount, ASK.format(path=str(tmp_path)), processes=False)
    assert "expected a mount point of the host" in found["error"]
    with pytest.raises(ValueError, match="expected a mount point of the host"):
        verbs.statvfs((str(tmp_path),))


def test_a_mount_that_the_probe_does_not_see_is_not_taken_for_another() -> None:
    """Another file system is mounted over it: the numbers would be those of that one."""
    found = run_apart("mount -t tmpfs tmpfs /dev/shm", ASK.format(path="/dev/shm"), processes=False)
    if "expected a mount point of the host" in found["error"]:
        pytest.skip("no '/dev/shm' here, or '/proc/1/mountinfo' is hidden")
    assert "as in the host's mount table" in found["error"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a disk")
def test_a_user_whom_a_directory_is_closed_to_learns_how_full_the_disk_in_it_is(
    tmp_path: Path,
) -> None:
    """An ext4 below mode 0700: an unprivileged user is refused, but not with the probe's help."""
    for program in ("mkfs.ext4", "losetup"):
        if shutil.which(program) is None:
            pytest.skip(f"no '{program}' here")
    if subprocess.run(["losetup", "--find"], capture_output=True, check=False).returncode:
        pytest.skip("no loop device here")
    (tmp_path / "closed").mkdir(mode=0o700)
    places = [str(tmp_path / "closed" / name) for name in ("backup", "wal")]
    script = ""
    for place in places:
        os.mkdir(place)
        with open(f"{place}.disk", "wb") as disk:
            disk.truncate(8 << 20)
        script += f"mkfs.ext4 -q {disk.name} >&2\nmount -o loop {disk.name} {place}\n"
    found = run_apart(script, CLOSED.format(places=places), processes=True)
    assert found["alone"] == [f"'{place}': Permission denied" for place in places]
    # The journal is not counted; with Ubuntu's larger blocks it takes half of the disk.
    assert all(3 << 20 < size_bytes < 8 << 20 for size_bytes in found["helped"]), found
    # A probe that fails at one is not waited for as long at the next.
    assert found["seconds"][:1] == [5.0]
    assert set(found["seconds"][1:]) == {1.0}


CLOSED = """
import os
from iowarden.collectors.machine import Machine
from iowarden.collectors.filesystem.statfs import read_filesystems
from iowarden.collectors.model import ReadError

def probe(verb, arguments, deadline_seconds):
    os.seteuid(0)
    try:
        return json.dumps(verbs.VERBS[verb](tuple(arguments)))
    finally:
        os.seteuid(65534)

def dead(verb, arguments, deadline_seconds):
    seconds.append(deadline_seconds)
    raise ReadError("dead")

os.seteuid(65534)
places, seconds = {places!r}, []
alone, helped, _ = (read_filesystems(Machine(probe=each)) for each in (None, probe, dead))
print(json.dumps({{
    "alone": [alone.unreadable[place].reason for place in places],
    "helped": [helped.usage[place].size_bytes for place in places],
    "seconds": seconds,
}}))
"""


# newest


def listing(tmp_path: Path, *directories: Path | str) -> str:
    """Write the list of directories that may be requested."""
    path = tmp_path / "list"
    path.write_text("# backups\n\n" + "".join(f"{each}\n" for each in directories))
    path.chmod(0o640)
    return str(path)


def query_newest(
    directory: Path,
    allowed: str,
    glob: str = "*",
    **options: Any,  # noqa: ANN401 - of the verb
) -> dict[str, Any]:
    """Call the verb as the probe does, with our own list."""
    return verbs.newest((str(directory), glob), allowed, os.geteuid(), **options)


def filled(tmp_path: Path, *names: str) -> Path:
    """Return a directory with these files, each of one byte more than the one before."""
    place = tmp_path / "wal"
    place.mkdir()
    for number, name in enumerate(names):
        (place / name).write_text("x" * number)
        os.utime(place / name, (1000 - number, 1000 - number))
    return place


def test_size_and_times_of_the_files_are_reported_and_no_name(tmp_path: Path) -> None:
    """Only regular files count, the last that was changed is the first; names are private."""
    place = filled(tmp_path, "b", "a\udcff", "c\nd")
    (place / "directory").mkdir()
    (place / "link").symlink_to("b")
    os.mkfifo(place / "pipe")
    before = time.time()
    found = query_newest(place, listing(tmp_path, f"  {place}/ "))
    assert newest.from_json(json.dumps(found)) == newest.Listing(
        realtime_seconds=found["realtime_seconds"],
        utc_offset_seconds=time.localtime(before).tm_gmtoff,
        mount_point=found["mount_point"],
        files=3,
        size_bytes=3,
        oldest_seconds=998.0,
        latest=tuple(
            newest.File(status.st_ino, status.st_size, status.st_ctime, status.st_mtime)
            for status in sorted(
                (os.stat(place / name) for name in ("b", "a\udcff", "c\nd")),
                key=lambda status: (status.st_ctime, status.st_ino),
                reverse=True,
            )
        ),
        truncated="",
    )
    assert before <= found["realtime_seconds"] <= time.time()
    assert os.path.ismount(found["mount_point"])


def test_an_empty_directory_is_a_valid_answer(tmp_path: Path) -> None:
    """It is no error, and has no oldest file."""
    place = filled(tmp_path)
    found = query_newest(place, listing(tmp_path, place))
    assert (found["files"], found["bytes"], found["oldest_seconds"]) == (0, 0, None)
    assert newest.from_json(json.dumps(found)).latest == ()


@pytest.mark.parametrize(
    ("glob", "files"),
    [("*", 4), ("*.dump", 2), ("db[12].dump", 2), ("?*\n*", 1), (".*", 1), ("DB1.dump", 0)],
)
def test_only_files_that_match_count(tmp_path: Path, glob: str, files: int) -> None:
    """Like in a shell; what rsync has not finished begins with a dot, and a name has any byte."""
    place = filled(tmp_path, "db1.dump", "db2.dump", "db.log", "a\nb", ".db1.dump.Zk3x")
    assert query_newest(place, listing(tmp_path, place), glob)["files"] == files


def test_the_oldest_time_is_not_one_in_the_future(tmp_path: Path) -> None:
    """A clock that was wrong once must not look like a short retention."""
    place = filled(tmp_path, "a", "b")
    os.utime(place / "a", (4e9, 4e9))
    assert query_newest(place, listing(tmp_path, place))["oldest_seconds"] == 999.0
    (place / "b").unlink()
    assert query_newest(place, listing(tmp_path, place))["oldest_seconds"] is None


def test_of_many_files_the_latest_are_reported(tmp_path: Path) -> None:
    """The answer is small however many there are; number and size count all of them."""
    place = filled(tmp_path, *(f"{number:03}" for number in range(newest.MAX_LATEST + 20)))
    found = newest.from_json(json.dumps(query_newest(place, listing(tmp_path, place))))
    assert (found.files, len(found.latest)) == (newest.MAX_LATEST + 20, newest.MAX_LATEST)
    times = sorted((os.stat(place / name).st_ctime for name in os.listdir(place)), reverse=True)
    assert [file.changed_seconds for file in found.latest] == times[: newest.MAX_LATEST]


def test_a_directory_with_more_names_than_are_read(tmp_path: Path) -> None:
    """It reports that it has not read all of them, by number or by time."""
    place = filled(tmp_path, "a", "b", "c")
    allowed = listing(tmp_path, place)
    assert query_newest(place, allowed, max_names=2)["truncated"] == "more than 2 names"
    late = query_newest(place, allowed, max_seconds=-1.0)
    assert "not read completely within" in late["truncated"]
    found = query_newest(place, allowed, max_names=3)
    assert (found["truncated"], found["files"]) == ("", 3)


@pytest.mark.system
def test_a_hundred_thousand_files_are_counted_and_the_latest_reported(tmp_path: Path) -> None:
    """An archive that nobody cleans up: the answer is that of a small directory, and complete."""
    place = filled(tmp_path)
    for number in range(100_000):
        os.mknod(f"{place}/{number:024X}")
    (place / "latest").touch()
    text = json.dumps(query_newest(place, listing(tmp_path, place)))
    found = newest.from_json(text)
    assert (found.files, len(found.latest), found.truncated) == (100_001, newest.MAX_LATEST, "")
    assert found.latest[0].changed_seconds == os.stat(place / "latest").st_ctime
    assert len(text) < MAX_REPLY_BYTES / 100


def test_a_file_that_vanishes_while_the_directory_is_read_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job removes old files between readdir and stat: the others are reported."""
    place = filled(tmp_path, "a", "b", "c")
    scandir = os.scandir

    @contextlib.contextmanager
    def racing(directory: int) -> Iterator[Iterator[os.DirEntry[str]]]:
        with scandir(directory) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        os.unlink(place / "b")
        yield iter(found)

    monkeypatch.setattr(os, "scandir", racing)
    found = newest.from_json(json.dumps(query_newest(place, listing(tmp_path, place))))
    assert (found.files, found.size_bytes, len(found.latest)) == (2, 2, 2)


def mounts(*lines: str) -> Machine:
    """Return a machine with these mounts, of the host and of the probe, and this fstab."""
    host, own, fstab = lines
    table = {"/": "8:1", "/srv": "8:2", "/srv/backup": "0:50"}
    return Memory(
        {
            f"/proc/{process}/mountinfo": "".join(
                f"{number} 1 {table[point]} / {point} rw - ext4 /dev/x rw\n"
                for number, point in enumerate(points.split())
            )
            for process, points in (("1", host), ("self", own))
        }
        | {"/etc/fstab": fstab}
    )


NAS = "nas:/backup /srv/backup nfs noauto 0 0\n"


@pytest.mark.parametrize(
    ("host", "own", "fstab", "text"),
    [
        ("/ /srv", "/ /srv", NAS, "'/srv/backup' is in '/etc/fstab' and is not mounted; mount it"),
        ("/ /srv /srv/backup", "/ /srv", NAS, "restart the probe"),
        ("/ /srv", "/ /srv /srv/backup", "", "restart the probe"),
    ],
)
def test_a_directory_whose_file_system_is_not_mounted_is_not_read(
    tmp_path: Path, host: str, own: str, fstab: str, text: str
) -> None:
    """The empty directory below shows nothing about the backups."""
    path = "/srv/backup/db1"
    with pytest.raises(ValueError, match=text):
        verbs.newest((path, "*"), listing(tmp_path, path), os.geteuid(), mounts(host, own, fstab))


def test_a_mount_below_or_next_to_the_directory_does_not_matter(tmp_path: Path) -> None:
    """Only the one that holds it: '/srv/backup2' is not below '/srv/backup'."""
    place = filled(tmp_path, "a")
    root = mounts("/ /srv", "/ /srv", f"{NAS}x {place}/later ext4\nx {place}2 ext4\n")
    found = query_newest(place, listing(tmp_path, place), root=root)
    assert (found["files"], found["mount_point"]) == (1, "/")


def test_only_listed_directories_are_reported(tmp_path: Path) -> None:
    """Neither directories above nor below a listed one; without a list there is nothing."""
    (tmp_path / "wal" / "below").mkdir(parents=True)
    allowed = listing(tmp_path, tmp_path / "wal")
    for place in (tmp_path, tmp_path / "wal" / "below"):
        with pytest.raises(ValueError, match=r"expected a directory listed in '.*/list'; add"):
            query_newest(place, allowed)
    with pytest.raises(ValueError, match="add it there"):
        query_newest(tmp_path, str(tmp_path / "none"))


def test_a_list_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    """A user who can write it would read file names through the probe."""
    allowed = listing(tmp_path, tmp_path)
    for mode in (0o660, 0o602):
        os.chmod(allowed, mode)
        with pytest.raises(ValueError, match="expected a file that only its owner"):
            query_newest(tmp_path, allowed)
    os.chmod(allowed, 0o600)
    with pytest.raises(ValueError, match=f"user {os.geteuid() + 1}, can write"):
        verbs.newest((str(tmp_path), "*"), allowed, os.geteuid() + 1)
    (tmp_path / "link").symlink_to(allowed)
    with pytest.raises(OSError, match="symbolic links"):
        query_newest(tmp_path, str(tmp_path / "link"))
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ValueError, match="expected a file"):
        query_newest(tmp_path, str(tmp_path / "pipe"))
    Path(allowed).write_bytes(b"/srv\n" * 20_000)
    with pytest.raises(ValueError, match="at most 65536 bytes"):
        query_newest(tmp_path, allowed)


def test_a_link_is_followed_nowhere_in_the_path(tmp_path: Path) -> None:
    """The owner of a directory in the path could redirect it to one without access."""
    (tmp_path / "real" / "wal").mkdir(parents=True)
    (tmp_path / "turned").symlink_to("real")
    (tmp_path / "real" / "last").symlink_to("wal")
    for place in (tmp_path / "turned" / "wal", tmp_path / "real" / "last"):
        with pytest.raises(NotADirectoryError, match="without symbolic links"):
            query_newest(place, listing(tmp_path, place))


def test_a_directory_that_is_gone_is_an_error(tmp_path: Path) -> None:
    """Not 'no file': the backup disk is not mounted."""
    with pytest.raises(FileNotFoundError):
        query_newest(tmp_path / "wal", listing(tmp_path, tmp_path / "wal"))


# journal


def exported(
    number: int, message: str | bytes, at_seconds: float, facility: int = 0, **fields: str
) -> bytes:
    """One kernel message in the export format, with the kernel clock's time in µs."""
    pairs: dict[str, str | bytes | int] = {
        "__REALTIME_TIMESTAMP": int(at_seconds * 1e6) + number,
        "__MONOTONIC_TIMESTAMP": 50_000_000 + number,
        "_BOOT_ID": BOOT.replace("-", ""),
        "_TRANSPORT": "kernel",
        "SYSLOG_FACILITY": facility,
        "PRIORITY": 3,
        "_SOURCE_MONOTONIC_TIMESTAMP": 40_000_000 + number,
        "MESSAGE": message,
        **fields,
    }
    lines = []
    for name, value in pairs.items():
        data = value if isinstance(value, bytes) else str(value).encode()
        if isinstance(value, bytes):
            lines.append(name.encode() + b"\n" + len(data).to_bytes(8, "little") + data + b"\n")
        else:
            lines.append(name.encode() + b"=" + data + b"\n")
    return b"".join(lines) + b"\n"


def write_journal(directory: Path, name: str, *entries: bytes) -> str:
    """Write a journal file with these entries, by systemd's own program."""
    if not os.path.exists(REMOTE):
        pytest.skip(f"no '{REMOTE}' here")
    directory.mkdir(exist_ok=True)
    subprocess.run(
        [REMOTE, "--output", str(directory / name), "-"],
        input=b"".join(entries),
        check=True,
        capture_output=True,
        timeout=DEADLINE_SECONDS,
    )
    return str(directory)


def messages(value: dict[str, Any]) -> list[str]:
    """The texts of an answer."""
    return [entry["message"] for entry in value["entries"]]


def test_a_kernel_message_is_reported_with_its_time_and_device(tmp_path: Path) -> None:
    """The kernel's own time stamp and boot ID, which identify the same line of '/dev/kmsg'."""
    now = time.time()
    line = exported(7, "I/O error", now, _KERNEL_DEVICE="b8:0", _KERNEL_SUBSYSTEM="block")
    found = verbs.journal(("",), write_journal(tmp_path / "j", "a.journal", line))
    (entry,) = found["entries"]
    assert entry == {
        "cursor": found["cursor"],
        "realtime_seconds": (int(now * 1e6) + 7) / 1e6,
        "monotonic_seconds": 40.000007,
        "boot_id": BOOT,
        "priority": 3,
        "message": "I/O error",
        "device": "b8:0",
        "subsystem": "block",
    }
    assert (found["gap"], found["more"]) == (False, False)
    (message,) = kernel_journal.from_json(json.dumps(found)).messages
    assert dataclasses.asdict(message) == entry
    assert verbs.refusal("journal", (found["cursor"],)) == ""


def test_without_a_cursor_the_last_day_is_reported(tmp_path: Path) -> None:
    """Months of a journal are not new."""
    now = time.time()
    directory = write_journal(
        tmp_path / "j",
        "a.journal",
        exported(1, "old", now - 25 * 3600),
        exported(2, "new", now - 23 * 3600),
    )
    assert messages(verbs.journal(("",), directory)) == ["new"]


def test_only_the_kernels_own_lines_are_reported(tmp_path: Path) -> None:
    """A program's message, also one written to '/dev/kmsg', cannot fake a failing disk."""
    now = time.time()
    directory = write_journal(
        tmp_path / "j",
        "a.journal",
        exported(1, "I/O error, dev sda", now, facility=1),
        exported(2, "I/O error, dev sda", now, _TRANSPORT="syslog"),
        exported(3, "I/O error, dev sdb", now),
    )
    assert messages(verbs.journal(("",), directory)) == ["I/O error, dev sdb"]


def test_the_cursors_own_entry_is_not_reported_again(tmp_path: Path) -> None:
    """Each message once, in order, over several files, and nothing if there is nothing new."""
    now = time.time()
    numbers = range(30)
    for first in (0, 10, 20):
        lines = (exported(n, f"line {n}", now) for n in numbers[first : first + 10])
        directory = write_journal(tmp_path / "j", f"{first:02}.journal", *lines)
    every = verbs.journal(("",), directory)
    assert messages(every) == [f"line {n}" for n in numbers]
    for n, entry in enumerate(every["entries"]):
        after = verbs.journal((entry["cursor"],), directory)
        assert messages(after) == [f"line {n}" for n in numbers[n + 1 :]]
        assert (after["gap"], after["cursor"]) == (False, every["cursor"])


def test_an_entry_before_the_cursor_is_known_as_reported() -> None:
    """Some library versions put the reader a little before it; another log counts separately."""
    earlier, later = (CURSOR.replace("i=1f", f"i={number}") for number in ("9", "20"))
    other = CURSOR.replace("s=a", "s=b")
    assert [verbs._before(each, CURSOR) for each in (earlier, CURSOR, later, other)] == [
        True,
        True,
        False,
        False,
    ]


def test_what_was_deleted_meanwhile_is_a_gap(tmp_path: Path) -> None:
    """The journal was vacuumed meanwhile: the rest is returned, with a note that some are lost."""
    now = time.time()
    for first in (0, 10):
        lines = (exported(n, f"line {n}", now) for n in range(first, first + 10))
        directory = write_journal(tmp_path / "j", f"{first:02}.journal", *lines)
    cursor = verbs.journal(("",), directory)["entries"][3]["cursor"]
    (tmp_path / "j" / "00.journal").unlink()
    found = verbs.journal((cursor,), directory)
    assert messages(found) == [f"line {n}" for n in range(10, 20)]
    assert found["gap"]


def test_a_storm_of_messages_is_reported_in_parts(tmp_path: Path) -> None:
    """A dying disk fills the journal: no answer is too long, and none omits a message."""
    now = time.time()
    count = 2 * verbs.MAX_ENTRIES + 3
    lines = [exported(n, f"sector {n}", now) for n in range(count)]
    directory = write_journal(tmp_path / "j", "a.journal", *lines)
    cursor, told, more = "", [], True
    while more:
        found = verbs.journal((cursor,), directory)
        assert 0 < len(found["entries"]) <= verbs.MAX_ENTRIES
        assert not found["gap"]
        told += messages(found)
        cursor, more = found["cursor"], found["more"]
    assert told == [f"sector {n}" for n in range(count)]


def test_long_messages_are_cut_and_fill_an_answer_no_further(tmp_path: Path) -> None:
    """Bytes that take six characters each in JSON: still one frame of the protocol."""
    now = time.time()
    lines = [exported(n, b"\xff" * 100_000, now) for n in range(700)]
    directory = write_journal(tmp_path / "j", "a.journal", *lines)
    found = verbs.journal(("",), directory)
    assert found["more"]
    assert set(messages(found)) == {"\\xff" * verbs.MAX_MESSAGE_BYTES + "..."}
    size_bytes = len(json.dumps(found))
    assert verbs.MAX_ENTRIES_BYTES / 2 < size_bytes < MAX_REPLY_BYTES / 2
    rest = verbs.journal((found["cursor"],), directory)
    assert not rest["gap"]


def test_bytes_that_are_no_text_are_spelled_out(tmp_path: Path) -> None:
    """A drive's serial number may be anything; a field that is not a number is none."""
    line = exported(1, b"serial \xff\x00\n", time.time(), PRIORITY="urgent")
    (entry,) = verbs.journal(("",), write_journal(tmp_path / "j", "a.journal", line))["entries"]
    assert entry["message"] == "serial \\xff\x00\n"
    assert entry["priority"] is None
    assert (entry["device"], entry["subsystem"]) == (None, None)


def test_a_damaged_entry_is_a_gap_and_stops_nothing(tmp_path: Path) -> None:
    """A bit of a field's name is changed: only that message is lost."""
    now = time.time()
    lines = [exported(n, f"line {n}", now) for n in range(10)]
    directory = write_journal(tmp_path / "j", "a.journal", *lines)
    path = tmp_path / "j" / "a.journal"
    path.write_bytes(path.read_bytes().replace(b"MESSAGE=line 9", b"\xcdESSAGE=line 9"))
    found = verbs.journal(("",), directory)
    assert messages(found) == [f"line {n}" for n in range(9)]
    assert found["gap"]
    after = verbs.journal((found["cursor"],), directory)
    assert (after["entries"], after["gap"]) == ([], False)


@pytest.mark.parametrize("damage", ["cut", "empty", "overwritten"])
def test_a_damaged_file_costs_what_was_in_it(tmp_path: Path, damage: str) -> None:
    """After a power loss: the other files are read completely."""
    now = time.time()
    lines = [exported(n, f"line {n}", now) for n in range(2000)]
    directory = write_journal(tmp_path / "j", "a.journal", *lines[:1000])
    write_journal(tmp_path / "j", "b.journal", *lines[1000:])
    path = tmp_path / "j" / "a.journal"
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[: len(content) // 20])
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        at = content.index(b"MESSAGE=line 500")
        path.write_bytes(content[:at] + b"\xa5" * 65_536 + content[at + 65_536 :])
    # In its own process, as in the probe: the library may not survive what it reads.
    ran = subprocess.run(
        [
            *(sys.executable, "-c"),
            f"{IMPORTS}print(json.dumps(verbs.journal(('',), {directory!r})))",
        ],
        capture_output=True,
        check=True,
        timeout=DEADLINE_SECONDS,
    )
    told = messages(json.loads(ran.stdout))
    assert told[-1000:] == [f"line {n}" for n in range(1000, 2000)]
    assert len(told) < 2000


def test_no_journal_is_an_error_and_not_silence(tmp_path: Path) -> None:
    """Nothing logs, or the journal is not readable: that must not look like a quiet night."""
    with pytest.raises(ValueError, match="no readable journal entries"):
        verbs.journal(("",), str(tmp_path))
    with pytest.raises(FileNotFoundError):
        verbs.journal(("",), str(tmp_path / "none"))


def test_the_machines_own_journal_is_found() -> None:
    """A real journald runs and the kernel has logged nothing since: no error, and no message."""
    code = IMPORTS + "print(json.dumps(verbs.journal(('',))))"
    with private_journald() as journald:
        ask = journald.command(sys.executable, "-c", code)
        ran = subprocess.run(ask, capture_output=True, check=True, timeout=DEADLINE_SECONDS)
    assert json.loads(ran.stdout) == {"entries": [], "gap": False, "more": False, "cursor": ""}


def test_what_the_kernel_reports_now_is_in_no_answer_of_a_program(tmp_path: Path) -> None:
    """journald detects a program that sends it a message with the kernel's fields."""
    if shutil.which("logger") is None:
        pytest.skip("no 'logger' here")
    with private_journald() as journald:
        line = "MESSAGE=I/O error, dev sda\n_TRANSPORT=kernel\nSYSLOG_FACILITY=0\n"
        (tmp_path / "line").write_text(line)
        send = journald.command("sh", "-c", f"logger --journald < {tmp_path}/line")
        subprocess.run(send, check=True, timeout=DEADLINE_SECONDS)
        assert journald.entries("MESSAGE=I/O error, dev sda")
        code = IMPORTS + "print(verbs.journal(('',))['entries'])"
        ask = journald.command(sys.executable, "-c", code)
        ran = subprocess.run(ask, capture_output=True, check=True, timeout=DEADLINE_SECONDS)
    assert ran.stdout == b"[]\n"
