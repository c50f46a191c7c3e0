"""Recorded machines for tests: fixtures, written by hand, or made of the stall of the corpus."""

from __future__ import annotations

import lzma
import re
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.memory import as_bytes

from iowarden.collectors.recording.recorder import Directory, Recorder, add_step
from iowarden.collectors.recording.recording import Frame, Recording, RecordingStep

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

TESTS = Path(__file__).resolve().parent.parent
FIXTURES = TESTS / "fixtures"
CORPUS = TESTS.parent.parent / "shared" / "corpus"
"""Captures of machines, kept beside the repository; without them tests that need them skip."""
NO_CORPUS = "the corpus is not beside the repository, in '../shared/corpus'"
"""The one reason, said once: see 'tests/conftest.py'."""
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
STALL = "vm/stall/stall.txt.xz"
BOOTED_SECONDS = 1_795_185_929.0
"""Realtime of the recorded stall at monotonic 0; hand-written recordings begin there as well."""


def corpus(name: str) -> Path:
    """Return a file of the corpus, or skip the test that asks for it."""
    if not CORPUS.is_dir():
        pytest.skip(NO_CORPUS)
    return CORPUS / name


def cases_of_corpus(found: Sequence[object]) -> Sequence[object]:
    """Return a test's cases that were found in the corpus, or one that is skipped."""
    return found or [pytest.param(None, marks=needs_corpus, id="corpus")]


def fixture(name: str) -> str:
    """Return the archive of a recorded machine."""
    return str(FIXTURES / f"{name}.tar.xz")


def recorded(path: str) -> Iterator[RecordingStep]:
    """Return the steps of a recording: a directory or an archive."""
    return iter(Recording(path).next, None)


def open_fixture(name: str, directory: Path) -> str:
    """Unpack 'tests/fixtures/<name>.tar.xz' below a directory and return the recording in it."""
    with tarfile.open(fixture(name)) as archive:
        # Pythons before 3.11.4 know no filter and warn of none.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        archive.extractall(directory)
    headers = sorted(directory.rglob("recording.json"))
    return str(headers[0].parent)


def steps(
    frames: Iterable[tuple[float, Mapping[str, str | bytes | None]]],
) -> Iterator[RecordingStep]:
    """Return a recording of (monotonic seconds, files that change)."""
    for number, (monotonic, files) in enumerate(frames):
        contents = {path: as_bytes(content) for path, content in files.items()}
        yield RecordingStep(Frame(number, monotonic, BOOTED_SECONDS + monotonic), contents)


def write_steps(directory: Path, steps: Iterable[RecordingStep], note: str) -> str:
    """Write a recording as a directory and return its path."""
    recorder = Recorder(str(directory), 4096, note)
    for step in steps:
        recorder.write(step)
    return str(directory)


def write_frame(directory: str, frame: Frame, files: Mapping[str, bytes | None]) -> None:
    """Append one frame to a recording: path and content, None for a directory."""
    add_step(Directory(directory), RecordingStep(frame, files), frame.number)


def write_recording(
    directory: Path,
    frames: Sequence[tuple[float, Mapping[str, str | bytes | None]]],
    note: str = "written by hand",
) -> str:
    """Write a recording of (monotonic seconds, files that change) and return its path."""
    return write_steps(directory, steps(frames), note)


def stall_from_corpus(corpus_file: Path, directory: Path) -> str:
    """Write the recording of the stall that is in the corpus."""
    note = "write stall: 1500 MB to a disk that takes 2 MB/s"
    return write_steps(directory, stall(corpus_file), note)


def stall(corpus_file: Path) -> Iterator[RecordingStep]:
    """Return the write stall that was recorded as 100 snapshots in one text.

    The snapshots have no '/sys/block' but for counters, and no kernel release: both are added as
    the machine had them (Linux 6.1; 'sda' and 'sdb' SCSI disks, 'vda' the root).
    """
    before: dict[str, bytes] = {}
    for number, (monotonic, realtime, texts) in enumerate(_snapshots(corpus_file)):
        kept = {
            path: text.encode()
            for path, text in texts.items()
            if path.startswith("/proc/") and not path.startswith(("/proc/self/", "/proc/loadavg"))
        }
        changed: dict[str, bytes | None] = {
            path: text for path, text in kept.items() if before.get(path) != text
        }
        if number == 0:
            changed |= _STALL_TOPOLOGY
        yield RecordingStep(Frame(number, monotonic, realtime), changed)
        before = kept


def _disk(name: str, number: str, gigabytes: int, timeout: bytes | None) -> dict[str, bytes | None]:
    path = f"/sys/block/{name}"
    files: dict[str, bytes | None] = {
        f"{path}/slaves": None,
        f"{path}/holders": None,
        f"{path}/dev": number.encode() + b"\n",
        f"{path}/size": b"%d\n" % (gigabytes * 2**30 // 512),
        f"{path}/queue/rotational": b"1\n",
    }
    return files if timeout is None else files | {f"{path}/device/timeout": timeout}


_STALL_TOPOLOGY: dict[str, bytes | None] = {
    "/proc/sys/kernel/osrelease": b"6.1.0-56-amd64\n",
    "/proc/sys/vm/laptop_mode": b"0\n",
    **_disk("sda", "8:0", 4, b"30\n"),
    **_disk("sdb", "8:16", 1, b"30\n"),
    **_disk("vda", "254:0", 2, None),
    **{key: value for n in range(8) for key, value in _disk(f"loop{n}", f"7:{n}", 0, None).items()},
}
_SNAPSHOT = re.compile(r"^======== SNAPSHOT \d+ realtime=(\S+) monotonic=(\S+)\n", re.MULTILINE)
_SECTION = re.compile(r"^-------- (\S+)\n", re.MULTILINE)


def _snapshots(corpus_file: Path) -> Iterator[tuple[float, float, dict[str, str]]]:
    with lzma.open(corpus_file, "rt") as file:
        parts = _SNAPSHOT.split(file.read())
    for realtime, monotonic, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        sections = _SECTION.split(text)
        texts = dict(zip(sections[1::2], sections[2::2], strict=True))
        yield float(monotonic), float(realtime), texts
