"""Texts that no parser understands: saved completely, with limits, and shown without names."""

from __future__ import annotations

import errno
import ipaddress
import json
import os
import queue
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sources import SOURCES

from iowarden.collectors.event import StorageEvent
from iowarden.collectors.kmsg.kernel_log import KernelLog
from iowarden.collectors.model import Outcome, Reading
from iowarden.collectors.source import collect
from iowarden.daemon.cli.main import main
from iowarden.daemon.storage.redaction import WARNING, redact
from iowarden.daemon.storage.unparsed import MAX_LINES, Unparsed, head, names, read

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import MachineMaker

DEADLINE_SECONDS = 20.0
"""Far above anything measured: it ends a test that would hang, and is no assertion."""
AT = 1_795_275_000.0


def reading(
    text: bytes = b"Dirty: many kB\n", error: str = "'/x': expected a number, got 'many'"
) -> Reading:
    """A reading of meminfo that could not be parsed."""
    return Reading(
        "meminfo", Outcome.UNPARSED, 1.0, 0.0, error=error, path="/proc/meminfo", text=text
    )


class SavedTexts:
    """The thread, and its messages."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.posts: queue.Queue[str] = queue.Queue()
        self.thread = Unparsed(str(directory), self.posts.put, "0.9", "6.1.0-28-amd64")

    def keep(self, found: Reading) -> str:
        """Save a text; return the thread's message about it."""
        self.thread.store(found, AT)
        return self.posts.get(timeout=DEADLINE_SECONDS)

    def names(self) -> list[str]:
        """Return all files, also unexpected ones."""
        return sorted(os.listdir(self.directory))


@pytest.fixture
def kept(tmp_path: Path) -> SavedTexts:
    """A directory that does not exist yet."""
    return SavedTexts(tmp_path / "state" / "unparsed")


def test_a_text_is_kept_with_what_a_bug_report_needs(kept: SavedTexts) -> None:
    """When, what, where, by which kernel and which iowarden; and the bytes as read."""
    assert kept.keep(reading(b"Dirty: \xff kB\n\nrest\n")) == ""
    place = kept.directory / "meminfo-1.txt"
    assert kept.names() == ["meminfo-1.txt"]
    assert place.stat().st_mode & 0o777 == 0o600
    top, _, body = place.read_bytes().partition(b"\n\n")
    assert body == b"Dirty: \xff kB\n\nrest\n"
    assert head(top.decode()) == {
        "iowarden": "0.9",
        "kernel": "6.1.0-28-amd64",
        "time": "2026-11-21T15:30:00Z",
        "source": "meminfo",
        "path": "/proc/meminfo",
        "error": "'/x': expected a number, got 'many'",
        "bytes": "18 of 18",
    }


def test_the_same_error_is_kept_once(kept: SavedTexts) -> None:
    """It occurs each second, with other numbers; another error is another file."""
    kept.keep(reading(error="line 7: got '12 kb'"))
    kept.thread.store(reading(error="line 9: got '13 kb'"), AT)
    kept.keep(reading(error="line 9: got 'none'"))
    assert kept.names() == ["meminfo-1.txt", "meminfo-2.txt"]


def test_a_source_that_errs_in_many_ways_fills_no_disk(kept: SavedTexts) -> None:
    """Five of a run, and five in all: the oldest are deleted when the next run finds more."""
    for letter in "abcde":
        kept.keep(reading(error=letter))
    kept.thread.store(reading(error="f"), AT)
    second = SavedTexts(kept.directory)
    second.keep(reading(error="g"))
    assert second.names() == [f"meminfo-{n}.txt" for n in range(2, 7)]
    assert head(read(str(kept.directory), "meminfo-6.txt"))["error"] == "g"


def kernel_lines(*texts: str) -> Reading:
    """A reading of the kernel's log with lines that no pattern took."""
    lines = tuple(
        StorageEvent("kernel", "unrecognized_error", text, code="mpi3mr", realtime_seconds=AT - 60)
        for text in texts
    )
    value = KernelLog(unrecognized_lines=lines)
    return Reading("kernel_log", Outcome.OK, 1.0, 0.0, value=value)


def test_an_unknown_line_of_the_kernel_is_kept_once_for_each_shape(
    kept: SavedTexts, capsys: pytest.CaptureFixture[str]
) -> None:
    """'unparsed list' shows its text; another number makes no other line, nor does a restart."""
    kept.keep(kernel_lines("mpi3mr0: surprise 0x1f at 7", "mpi3mr0: surprise 0xab at 8"))
    kept.thread.store(kernel_lines("mpi3mr0: surprise 0x2b at 9"), AT)
    kept.keep(kernel_lines("mpi3mr0: another"))
    assert kept.names() == ["kernel_line-1.txt", "kernel_line-2.txt"]
    again = SavedTexts(kept.directory)
    again.keep(kernel_lines("mpi3mr0: surprise 5 at 7"))
    assert again.names() == kept.names()
    text = read(str(kept.directory), "kernel_line-1.txt")
    assert text.partition("\n\n")[2] == "mpi3mr0: surprise 0x1f at 7\n"
    assert main(["unparsed", "list", "--state-directory", str(kept.directory.parent)]) == 0
    line = "2026-11-21T15:29:00Z not recognized, from mpi3mr, level error: mpi3mr0: surprise 0x1f"
    assert line in capsys.readouterr().out
    assert (
        main(["unparsed", "list", "--json", "--state-directory", str(kept.directory.parent)]) == 0
    )
    first, _ = json.loads(capsys.readouterr().out)["texts"]
    assert first == {
        "name": "kernel_line-1.txt",
        "at_seconds": 1_795_274_940.0,
        "source": "kernel_line",
        "path": "/dev/kmsg",
        "error": line.partition(" ")[2] + " at 7",
    }


def test_unknown_lines_without_end_fill_no_disk(kept: SavedTexts) -> None:
    """A driver that prints words at random: a hundred files, in this run and all later ones."""
    words = ["".join(chr(ord("z") - int(digit)) for digit in str(n)) for n in range(100, 350)]
    kept.keep(kernel_lines(*words))
    assert len(kept.names()) == MAX_LINES
    again = SavedTexts(kept.directory)
    again.keep(kernel_lines(*words[150:]))
    assert len(again.names()) == MAX_LINES


def test_a_long_text_is_cut(kept: SavedTexts) -> None:
    """The header has the original size."""
    kept.keep(reading(b"x" * 300_000))
    text = read(str(kept.directory), "meminfo-1.txt")
    assert text.partition("\n\n")[2] == "x" * 65_536
    assert head(text)["bytes"] == "65536 of 300000"


def test_all_texts_together_are_bounded(kept: SavedTexts) -> None:
    """Beyond 2 MiB the oldest of any collector is deleted; files of others stay."""
    kept.directory.mkdir(parents=True)
    for number in range(40):
        place = kept.directory / f"source{number:02}-1.txt"
        place.write_bytes(b"x" * 65_000)
        os.utime(place, (AT + number, AT + number))
    (kept.directory / "notes.txt").write_bytes(b"x" * 65_000)
    kept.keep(reading())
    found = names(str(kept.directory))
    total = sum((kept.directory / name).stat().st_size for name in found)
    assert 2 * 1024 * 1024 - 65_000 < total <= 2 * 1024 * 1024
    assert found[-1] == "source39-1.txt"
    assert "source00-1.txt" not in found
    assert "meminfo-1.txt" in found
    assert "notes.txt" in kept.names()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("step", ["makedirs", "open", "fsync", "rename"])
def test_a_disk_that_refuses_is_reported_and_leaves_nothing_torn(
    step: str, error: int, kept: SavedTexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever step fails: no partial file, no draft; the thread continues when the disk works."""

    def failing(*_: object, **__: object) -> Any:  # noqa: ANN401 - as the call it stands for
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as patch:
        patch.setattr(os, step, failing)
        said = kept.keep(reading())
    assert os.strerror(error) in said
    assert str(kept.directory) in said
    assert not kept.directory.exists() or kept.names() == []
    assert kept.keep(reading(error="another")) == ""
    assert kept.names() == ["meminfo-1.txt"]


def test_a_file_in_place_of_the_directory_is_reported(tmp_path: Path) -> None:
    """A file has this name; nothing is overwritten."""
    (tmp_path / "unparsed").write_text("mine")
    assert "the unparsed text could not be saved: " in SavedTexts(tmp_path / "unparsed").keep(
        reading()
    )
    assert (tmp_path / "unparsed").read_text() == "mine"


def test_a_disk_that_hangs_holds_nobody_up(
    kept: SavedTexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts wait meanwhile, up to a limit; beyond, it is logged and they are saved later."""
    hangs, goes_on, makedirs = threading.Event(), threading.Event(), os.makedirs

    def hanging(*arguments: Any, **options: Any) -> None:  # noqa: ANN401 - as os.makedirs
        hangs.set()
        assert goes_on.wait(DEADLINE_SECONDS)
        makedirs(*arguments, **options)

    def of(number: int) -> Reading:
        return Reading(f"source{number:02}", Outcome.UNPARSED, 1.0, 0.0, error="e", text=b"t")

    monkeypatch.setattr(os, "makedirs", hanging)
    kept.thread.store(of(0), AT)
    assert hangs.wait(DEADLINE_SECONDS)
    for number in range(1, 18):
        kept.thread.store(of(number), AT)
    assert "unparsed: a write to '" in kept.posts.get(timeout=DEADLINE_SECONDS)
    goes_on.set()
    for _ in range(17):
        assert kept.posts.get(timeout=DEADLINE_SECONDS) == ""
    assert kept.keep(of(17)) == ""
    assert len(kept.names()) == 18


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("meminfo", "/proc/meminfo"),
        ("vmstat", "/proc/vmstat"),
        ("diskstats", "/proc/diskstats"),
        ("stat", "/proc/stat"),
        ("pressure", "/proc/pressure/cpu"),
        ("mounts", "/proc/1/mountinfo"),
        ("md", "/proc/mdstat"),
        ("loadavg", "/proc/loadavg"),
        ("dm", "/sys/block/dm-0/dm/suspended"),
        ("ext4", "/sys/fs/ext4/sda1/errors_count"),
    ],
)
def test_a_reading_has_the_text_that_was_not_understood(
    name: str, path: str, machine: MachineMaker
) -> None:
    """Of the file that the error is about, not of one read before or after it."""
    source = next(source for source in SOURCES if source.name == name)
    root = machine({path: "garbage\n"})
    found = collect(source, root, lambda: 1.0)
    assert (found.outcome, found.path, found.text) == (Outcome.UNPARSED, path, b"garbage\n")
    healthy = collect(next(s for s in SOURCES if s.name == "thp"), root, lambda: 1.0)
    assert (healthy.path, healthy.text) == ("", b"")


@pytest.mark.parametrize("name", ["../state.db", "meminfo-1.txt/", "draft", "", "a-1.txt\n"])
def test_only_what_was_kept_is_shown(name: str, kept: SavedTexts) -> None:
    """A name is not a path."""
    with pytest.raises(ValueError, match="expected a name"):
        read(str(kept.directory), name)


def test_without_a_directory_nothing_was_kept(tmp_path: Path) -> None:
    """Nothing was ever unparsed."""
    assert names(str(tmp_path / "unparsed")) == []


MOUNTS = """iowarden: 0.9
kernel: 6.1.0-28-amd64
path: /proc/1/mountinfo
error: '/proc/1/mountinfo' line 2: expected '<id> ...', got 'nas01.example.org:/home/anna'

22 1 8:1 / / rw,noatime - ext4 /dev/sda1 rw,errors=remount-ro
40 22 0:45 / /home/anna rw - nfs nas01.example.org:/export/anna rw,addr=10.0.0.7,callback=10.0.0.8
41 22 0:46 / /mnt rw - cifs //filer/data rw,username=anna,addr=fe80::7
42 22 8:2 / /boot rw - ext4 UUID=0f5e1b2c-1111-2222-3333-444455556666 rw
43 22 0:47 / /srv rw - fuse.sshfs berta@db1:/srv rw
"""


def test_a_redacted_text_is_still_of_its_grammar() -> None:
    """Text that breaks a parser in the original breaks it in the redacted one."""
    assert redact(MOUNTS, ["db1"]) == WARNING + "\n" + MOUNTS.replace(
        "nas01.example.org", "host2"
    ).replace("anna", "user3").replace("10.0.0.7", "192.0.2.4").replace(
        "10.0.0.8", "192.0.2.5"
    ).replace("filer", "host6").replace("fe80::7", "2001:db8::7").replace(
        "0f5e1b2c-1111-2222-3333-444455556666", "00000000-0000-0000-0000-000000000008"
    ).replace("berta", "user9").replace("db1", "host1")


def test_counters_and_addresses_of_scsi_stay() -> None:
    """They are the subject of the report."""
    text = (
        "path: /proc/diskstats\n\n   8 0 sda 12345678901234567890 0 1\n 0:0:12:0 12:34:56 0x1a00\n"
        "0xffffffff80000000 nr_dirty 125000\nDirty: 500 kB\nmd0 : active raid1 sda1[0]\n"
    )
    assert redact(text) == f"{WARNING}\n{text}"


def test_a_file_that_is_a_serial_number_is_one_whatever_it_looks_like() -> None:
    """Serial numbers of virtio may be anything, some consist of digits only."""
    text = redact("path: /sys/block/vda/serial\nerror: got 'my disk'\n\n12345\nmy disk\n")
    assert text.endswith("\n\nSERIAL0001\nSERIAL0002 SERIAL0003\n")


@pytest.mark.parametrize("around", ["{}: read error", "disk:{} failed", "a {}:{} b", "{}:"])
def test_a_serial_number_of_hexadecimal_digits_is_no_address(around: str) -> None:
    """Beside a colon it was taken for a part of an IPv6 address, and stayed."""
    assert "AB000731" not in redact(around.format("AB000731", "AB000731"))


def test_the_address_before_a_port_of_five_digits_does_not_survive() -> None:
    """192.0.2.7:50123 is what logs have of an NFS client."""
    assert "198.51.100.7" not in redact("from 198.51.100.7:50123")


SERIALS = st.from_regex(r"[A-Z]{2}[A-Z0-9]{6,18}", fullmatch=True).filter(
    lambda s: any(c.isdigit() for c in s)
)
HEX = st.sampled_from("0123456789abcdef")
WWNS = st.builds(
    lambda prefix, digits: prefix + "5" + "".join(digits),
    st.sampled_from(["0x", "naa.", "eui."]),
    st.lists(HEX, min_size=15, max_size=15),
)
MACS = st.lists(st.text(HEX, min_size=2, max_size=2), min_size=6, max_size=6).map(":".join)
ADDRESSES = (
    st.ip_addresses(v=4) | st.ip_addresses(v=6).filter(lambda a: a != ipaddress.IPv6Address("::"))
).map(str)
AROUND = st.sampled_from(
    [
        "{}",
        "{}\n",
        "addr={},rw",
        " {}:\n",
        "got '{}'",
        '"{}"',
        "[{}]:2049",
        "ID_{};",
        "disk ({})",
        "x-{}_y",
        "E:ID_SERIAL={}\n",
        "Serial Number: {}\n",
    ]
)
FILLER = st.sampled_from(["Dirty: 500 kB\n", "8 0 sda 1 2 3\n", "/dev/sda1", " ", "\n\n", "é"])


@given(
    st.lists(
        st.tuples(SERIALS | WWNS | MACS | ADDRESSES | st.uuids().map(str), AROUND, FILLER),
        min_size=1,
        max_size=6,
    )
)
def test_no_number_of_a_disk_or_an_address_survives(parts: list[tuple[str, str, str]]) -> None:
    """Whatever is around it, in the header or in the text, once or repeatedly."""
    text = "".join(around.format(value) + " " + filler for value, around, filler in parts)
    shown = redact(text).removeprefix(WARNING)
    for value, _, _ in parts:
        if set(value) <= {"A", "0"}:
            continue  # its placeholder looks the same
        assert re.search(rf"(?<![0-9A-Za-z:.]){re.escape(value)}(?![0-9A-Za-z])", shown) is None


@given(SERIALS | MACS | ADDRESSES | st.uuids().map(str))
def test_the_same_word_is_the_same_placeholder(value: str) -> None:
    """Two lines about one disk are about one disk afterwards."""
    _, first, second = redact(f"{value}\n{value}").split("\n")
    assert first == second != value


@given(st.text())
def test_any_text_can_be_redacted(text: str) -> None:
    """No text causes an error."""
    assert redact(text, ["db1"]).startswith(WARNING)


def test_the_command_lists_and_shows(kept: SavedTexts, capsys: pytest.CaptureFixture[str]) -> None:
    """The text for a bug report, with and without names; another name is refused."""
    kept.keep(reading(b"serial WS20ABCD\n"))
    state = ["--state-directory", str(kept.directory.parent)]
    assert main(["unparsed", "list", *state]) == 0
    error = "'/x': expected a number, got 'many'"
    assert capsys.readouterr().out == f"meminfo-1.txt 2026-11-21T15:30:00Z {error}\n"
    assert main(["unparsed", "show", "meminfo-1.txt", *state]) == 0
    assert capsys.readouterr().out.endswith("\n\nserial WS20ABCD\n\n")
    assert main(["unparsed", "show", "meminfo-1.txt", "--redact", *state]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(WARNING + "\n")
    assert "WS20ABCD" not in shown
    assert main(["unparsed", "show", "meminfo-2.txt", *state]) == 1
    assert "meminfo-2.txt" in capsys.readouterr().err
