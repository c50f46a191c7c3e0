"""Recordings in one file: archives of `tar`, and archives made by a stranger."""

from __future__ import annotations

import gzip
import io
import lzma
import subprocess
import tarfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recorder import FrameRecorder
from support.recordings import FIXTURES, open_fixture, write_recording
from support.sources import SOURCES

from iowarden.collectors.block.diskstats import read_diskstats
from iowarden.collectors.block.uevents import Uevent, UeventBatch, parse_batch, text
from iowarden.collectors.machine import Machine
from iowarden.collectors.model import AbsentError, ParseError
from iowarden.collectors.recording import archive, recording
from iowarden.collectors.recording.player import RecordedMachine, RecordingPlayer
from iowarden.collectors.recording.recorder import Changes
from iowarden.collectors.recording.recording import Frame, Recording, RecordingError
from iowarden.collectors.source import collect

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = b'{"format": "iowarden-recording", "version": 1, "page_size_bytes": 4096}'
CLOCK = b"monotonic_seconds 600\nrealtime_seconds 1795000000\n"


def steps(path: str) -> Iterator[recording.RecordingStep]:
    """Return all steps of a recording."""
    return iter(Recording(path).next, None)


def test_the_example_of_the_documentation_plays(tmp_path: Path) -> None:
    """The example in the documentation gives a hanging disk, as a directory and as an archive."""
    lines = (recording.__doc__ or "").splitlines()
    script = "\n".join(line for line in lines if line.startswith("    "))
    subprocess.run(["sh", "-e", "-c", script], cwd=tmp_path, check=True)
    for name in ("hang", "hang.tar.xz"):
        player = RecordingPlayer(str(tmp_path / name), str(tmp_path / f"{name}-played"))
        root = Machine(str(tmp_path / f"{name}-played"))
        in_flight = []
        while player.advance() is not None:
            in_flight.append(read_diskstats(root)["sda"].in_flight)
        assert in_flight == [0, 1]


@pytest.mark.parametrize("suffix", archive.SUFFIXES)
def test_an_archive_is_the_directory_to_tar(suffix: str, tmp_path: Path) -> None:
    """A recording into one file unpacks to the same as a recording into a directory."""
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    for path in (tmp_path / "plain", tmp_path / f"packed{suffix}"):
        recorder = FrameRecorder(str(path), 4096, "a note")
        for second, size in enumerate((b"8\n", None, b"9" * 700)):
            recorder.begin("block")
            recorder.root_seen("/sys/block/", b"sda")
            if size is not None:
                recorder.root_seen("/sys/block/sda/" + "long/" * 40 + "size", size)
            recorder.frame(10.0 + second, 1000.0 + second)
        recorder.close()
    subprocess.run(["tar", "xf", tmp_path / f"packed{suffix}", "-C", unpacked], check=True)
    plain = list(steps(str(tmp_path / "plain")))
    assert list(steps(str(unpacked))) == plain
    for step, same in zip(steps(str(tmp_path / f"packed{suffix}")), plain, strict=True):
        assert (step.frame, step.gone) == (same.frame, same.gone)
        # A directory above a file need not be listed.
        assert step.files.items() <= same.files.items()
        assert {p for p in same.files.items() if p[1] is not None} <= step.files.items()


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    """It may contain an incident."""
    path = tmp_path / "kept.tar.xz"
    path.write_bytes(b"precious")
    with pytest.raises(RecordingError, match="expected no recording there"):
        FrameRecorder(str(path), 4096)
    assert path.read_bytes() == b"precious"


def test_a_machine_in_memory_reports_what_one_below_a_directory_reports(tmp_path: Path) -> None:
    """Every collector, in every frame of a hung disk: the same outcome, the same value."""
    path = str(FIXTURES / "hung-disk.tar.xz")
    player = RecordingPlayer(
        open_fixture("hung-disk", tmp_path / "fixture"), str(tmp_path / "played")
    )
    played, memory = Machine(str(tmp_path / "played"), recorded=True), RecordedMachine(4096)
    frames = 0
    for step in steps(path):
        assert player.advance() == step.frame
        memory.apply(step)
        frames += 1
        for source in SOURCES:
            there, here = (collect(source, root, lambda: 0.0) for root in (played, memory))
            assert (here.outcome, here.value) == (there.outcome, there.value), source.name
    assert frames > 100


PATHS = st.sampled_from(["/a", "/a/b", "/a/b/c", "/a/d", "/e", "/e/f"])
SEEN = st.dictionaries(PATHS, st.binary(max_size=2), max_size=4)


def possible(seen: dict[str, bytes]) -> dict[str, bytes]:
    """Return what a file system can contain: no file below a file."""
    return {p: c for p, c in seen.items() if not any(p.startswith(o + "/") for o in seen)}


@given(st.lists(st.lists(st.tuples(st.sampled_from("xyz"), SEEN.map(possible)), max_size=3)))
def test_what_changed_adds_up_to_what_is_there(
    rounds: list[list[tuple[str, dict[str, bytes]]]],
) -> None:
    """For any reads in any order: the newest text of each path that a collector still reads."""
    changes, memory = Changes(), RecordedMachine(4096)
    last: dict[str, dict[str, bytes]] = {}
    for number, runs in enumerate(rounds):
        for source, seen in runs:
            # A path is a file to all or to none, as long as nothing was unplugged meanwhile.
            others = possible({p: c for s, o in last.items() if s != source for p, c in o.items()})
            fits = {p: c for p, c in seen.items() if p in possible({**others, **seen})}
            if any(o.startswith(p + "/") for o in others for p in fits):
                continue
            changes.take(source, fits)
            last.pop(source, None)
            last[source] = fits
        memory.apply(changes.step(Frame(number, 0.0, 0.0)))
        wanted = {p: c for seen in last.values() for p, c in seen.items()}
        for path in ("/a", "/a/b", "/a/b/c", "/a/d", "/e", "/e/f"):
            if path in wanted:
                assert memory.read_bytes(path) == wanted[path]
            else:
                with pytest.raises(AbsentError):
                    memory.read_bytes(path)


def test_announcements_come_back_as_they_were() -> None:
    """A disk without a number, one with, and a loss."""
    batch = UeventBatch(
        (Uevent("add", "sda", 12), Uevent("remove", "sdb", None)), "no buffer space"
    )
    assert parse_batch(text(batch)) == batch
    with pytest.raises(ParseError, match="got 'add sda'"):
        parse_batch("add sda\n")


# --- what a stranger may send


def packed(path: Path, *members: tuple[str, bytes] | tarfile.TarInfo) -> str:
    """Write an archive of these members."""
    with tarfile.open(path, "w:xz", preset=0) as file:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                file.addfile(member, io.BytesIO(bytes(member.size)))
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            file.addfile(info, io.BytesIO(member[1]))
    return str(path)


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """Return a link or a device."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


FIRST = (("recording.json", HEADER), ("000000/clock", CLOCK))


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("000000/root/../../x", b"")], r"000000': expected paths without '..', got"),
        ([("/000000/root/proc/stat", b"")], "expected a path below the recording"),
        ([special("000000/root/a", tarfile.SYMTYPE, "/etc")], "000000': .*another kind"),
        ([special("000000/root/a", tarfile.LNKTYPE, "/etc")], "000000': .*another kind"),
        ([special("000000/root/a", tarfile.CHRTYPE)], "000000': .*another kind"),
        ([special("000000/root/a", tarfile.FIFOTYPE)], "000000': .*another kind"),
        ([("000000/root/proc/stat", bytes(5 * 2**20))], "000000': .*at most 4194304 bytes, got"),
        ([("000000/gone", b"/../x\n")], "000000/gone': expected absolute paths without"),
        ([("000001/root/a", b"")], r"000001/clock': expected a frame's clock, got none"),
        ([("000001/clock", b"soon\n")], "000001/clock': expected lines 'monotonic_seconds"),
        ([("000002/clock", CLOCK)], "000002': expected frame 000001, got this one"),
        ([("000001/clock", CLOCK.replace(b"600", b"60"))], "of at least 600.0, got 60.0"),
        (
            [(f"000001/root/{n}", bytes(4 * 2**20)) for n in range(17)],
            "000001': expected at most 67108864 bytes a frame",
        ),
    ],
)
def test_a_bad_archive_is_refused_by_its_frame(
    members: list[tuple[str, bytes] | tarfile.TarInfo], message: str, tmp_path: Path
) -> None:
    """Nothing of it is ever outside the played machine, nor larger than allowed."""
    path = packed(tmp_path / "bad.tar.xz", *FIRST, *members)
    with pytest.raises(RecordingError, match=message):
        list(steps(path))


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    """No header, or no frame, or no archive at all."""
    (tmp_path / "text").write_text("a text " * 100)
    for path, message in (
        (packed(tmp_path / "a.tar.xz", ("000000/clock", CLOCK)), "expected a recording with"),
        (packed(tmp_path / "b.tar.xz", FIRST[0]), "000000': expected a complete frame"),
        (str(tmp_path / "text"), "expected a tar archive.*begins with b'a text a text"),
        (str(tmp_path / "none.tar.xz"), "No such file"),
    ):
        with pytest.raises(RecordingError, match=message):
            list(steps(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "got nothing: it is empty"),
        (gzip.compress(b""), "got nothing: it is empty"),
        (b"dmesg", "got something else, which begins with b'dmesg'"),
        (b"BZh91AY&SY" + bytes(range(1, 255)) * 9, "compressed by xz or gzip, got something else"),
        (lzma.compress(b"<6>[    0.000000] Linux version 6.12.41\n" * 99), "begins with b'<6>"),
        (gzip.compress(bytes(range(256)) * 9)[:-99], "its end: it is truncated"),
        (bytes(1024), "expected a recording with 'recording.json' in it, got none"),
    ],
    ids=["empty", "nothing", "short", "bzip2", "log", "cut", "no file"],
)
def test_what_is_no_recording_at_all_is_refused_with_what_to_name(
    tmp_path: Path, content: bytes, message: str
) -> None:
    """The wrong file was told of 'an octal number in a tar header', and of no other to name."""
    (tmp_path / "saved").write_bytes(content)
    with pytest.raises(RecordingError, match=message) as refused:
        Recording(str(tmp_path / "saved"))
    assert str(refused.value).startswith(f"'{tmp_path}/saved': expected ")
    assert str(refused.value).endswith("; name a directory or archive of 'iowarden record'")


def test_a_machine_that_only_grows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each frame is small, and nothing is ever removed."""
    monkeypatch.setattr(recording, "MAX_MACHINE_BYTES", 10_000)
    frames = [(float(n), {f"/sys/{n % 12}": bytes(1000)}) for n in range(12)]
    path = write_recording(tmp_path / "r", frames)
    with pytest.raises(RecordingError, match="000006': expected at most 10000 bytes of all texts"):
        list(steps(path))


def test_an_archive_that_requests_gigabytes_to_unpack_is_refused(tmp_path: Path) -> None:
    """The header of an xz file states the dictionary's size: byte 16; 20 to 23 are a CRC."""
    path = Path(packed(tmp_path / "large.tar.xz", *FIRST))
    data = bytearray(path.read_bytes())
    data[16] = 40  # 4 GiB; xz file format, 5.3.1
    data[20:24] = zlib.crc32(data[12:20]).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(RecordingError, match="Memory usage limit exceeded"):
        Recording(str(path))


def test_an_extended_header_that_never_ends_costs_no_memory(tmp_path: Path) -> None:
    """tarfile would read all of it: a few kilobytes that unpack to gigabytes."""
    info = special("x", tarfile.XHDTYPE)
    info.size = 8 * 2**30 - 1
    with lzma.open(tmp_path / "bomb.tar.xz", "wb", preset=0) as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT))
        file.write(bytes(2**20))
    with pytest.raises(RecordingError, match="expected at most 65536 bytes, got 8589934591"):
        Recording(str(tmp_path / "bomb.tar.xz"))


def test_an_archive_whose_header_comes_last_plays_up_to_a_cut(tmp_path: Path) -> None:
    """`tar --sort=name` puts 'recording.json' after all frames: truncation removes it first."""
    source = write_recording(tmp_path / "r", [(float(n), {"/proc/stat": "a\n"}) for n in range(9)])
    plain = tmp_path / "r.tar"
    subprocess.run(["tar", "--sort=name", "-cf", plain, "-C", source, "."], check=True)
    data = plain.read_bytes()
    plain.write_bytes(data[: data.index(b"./000005/root/proc/stat")])
    played = Recording(str(plain))
    assert played.page_size_bytes == 4096
    assert [step.frame.number for _ in range(5) if (step := played.next())] == [0, 1, 2, 3, 4]
    with pytest.raises(
        RecordingError, match=r"/000005': .*truncated; 'recording.json' was not read yet"
    ):
        played.next()


def test_a_fault_right_after_the_header_is_the_first_frames(tmp_path: Path) -> None:
    """Not the header's, which is valid."""
    path = packed(tmp_path / "cut.tar.xz", FIRST[0], special("000000/root", tarfile.SYMTYPE, "/"))
    with pytest.raises(
        RecordingError, match=r"cut\.tar\.xz/000000': '000000/root': expected a file"
    ):
        list(steps(path))


def test_an_archive_that_was_packed_in_parts_plays(tmp_path: Path) -> None:
    """Several consecutive streams of xz, with zeros between them: xz reads them as one."""
    path = packed(tmp_path / "whole.tar.xz", *FIRST, ("000001/clock", CLOCK))
    data = lzma.decompress(Path(path).read_bytes())
    streams = [lzma.compress(part) for part in (data[:700], data[700:1500], b"", data[1500:])]
    several = tmp_path / "several.tar.xz"
    several.write_bytes(bytes(4).join(streams) + bytes(8))
    assert list(steps(str(several))) == list(steps(path))
    assert len(list(steps(path))) == 2
    several.write_bytes(bytes(4).join(streams)[:-30])
    with pytest.raises(RecordingError, match="truncated"):
        list(steps(str(several)))
    several.write_bytes(b"".join(streams) + b"and something that is no stream")
    with pytest.raises(RecordingError, match="expected an archive that can be read"):
        list(steps(str(several)))


@pytest.mark.parametrize(("suffix", "place"), [(".tar.xz", -28), (".tar.gz", -8)])
def test_a_checksum_that_is_wrong_is_reported(suffix: str, place: int, tmp_path: Path) -> None:
    """It comes after all texts; stopping before it gives numbers that no collector read."""
    path = tmp_path / f"damaged{suffix}"
    recorder = FrameRecorder(str(path), 4096)
    for second in range(3):
        recorder.begin("block")
        recorder.root_seen("/sys/block/sda/size", bytes([second]) * 300_000)
        recorder.frame(float(second), 1000.0 + second)
    recorder.close()
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(RecordingError, match="000002': expected an archive that can be read"):
        list(steps(str(path)))


@pytest.mark.parametrize("suffix", archive.SUFFIXES)
def test_of_an_archive_that_is_cut_off_the_frames_before_play(suffix: str, tmp_path: Path) -> None:
    """The disk was full, or the power failed: written frames remain, and the end is reported."""
    path = tmp_path / f"whole{suffix}"
    recorder = FrameRecorder(str(path), 4096)
    for second in range(200):
        recorder.begin("stat")
        # Each text is as good as random, so that the packed ones lie one after another.
        recorder.root_seen("/proc/stat", gzip.compress(bytes([second]) * 50_000) * 20)
        recorder.frame(float(second), 1000.0 + second)
    recorder.close()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    played = Recording(str(path))
    frames = 0

    def play() -> None:
        nonlocal frames
        while played.next() is not None:
            frames += 1

    with pytest.raises(RecordingError, match=r"/000\d\d\d': .*truncated"):
        play()
    assert frames > 10


def test_a_damaged_archive_names_the_frame(tmp_path: Path) -> None:
    """A flipped bit in the middle: the checksum of the header does not match."""
    source = write_recording(tmp_path / "r", [(float(n), {"/proc/stat": "a\n"}) for n in range(9)])
    plain = tmp_path / "r.tar"
    subprocess.run(["tar", "--sort=name", "-cf", plain, "-C", source, "."], check=True)
    data = bytearray(plain.read_bytes())
    data[data.index(b"./000005/root/proc/stat") + 3] ^= 1
    plain.write_bytes(data)
    with pytest.raises(RecordingError, match="/000005': expected a tar header"):
        list(steps(str(plain)))
