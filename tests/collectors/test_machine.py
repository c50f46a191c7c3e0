"""Access to the kernel's files: of this machine, below a directory, and in memory."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.loops import loops
from support.memory import Content, Memory, write_tree
from support.tiers import examples

from iowarden.collectors.machine import MAX_BYTES, Machine
from iowarden.collectors.model import AbsentError, ReadError
from iowarden.collectors.procfs import loadavg, meminfo, stat
from iowarden.collectors.recording.player import RecordedMachine
from iowarden.collectors.recording.recording import Frame, RecordingStep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class Directory(Machine):
    """A machine below a directory, which a test changes as it changes one in memory."""

    def __init__(self, place: Path) -> None:
        super().__init__(str(place), page_size_bytes=4096)
        self.place = place

    def write(self, files: Mapping[str, Content]) -> None:
        """Make files and directories, or change them in place."""
        write_tree(self.place, files)

    def remove(self, path: str) -> None:
        """Remove a file."""
        os.unlink(self.path + path)

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link."""
        os.symlink(target, self.path + path)


class Recorded(RecordedMachine):
    """A recording in memory; it has no links."""

    def write(self, files: Mapping[str, Content]) -> None:
        """Apply files as the next step."""
        contents = {p: os.fsencode(c) if isinstance(c, str) else c for p, c in files.items()}
        self.apply(RecordingStep(Frame(0, 0.0, 0.0), contents))


Made = Directory | Memory
AnyRoot = Made | Recorded


def root_of(kind: str, tmp_path: Path) -> AnyRoot:
    """Return an empty machine of a kind."""
    if kind == "directory":
        (tmp_path / "machine").mkdir()
        return Directory(tmp_path / "machine")
    return Memory() if kind == "memory" else Recorded(4096)


@pytest.fixture(params=["directory", "memory"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Made]:
    """A machine that a test writes: the real one and the one in memory behave alike."""
    root = root_of(request.param, tmp_path)
    assert not isinstance(root, Recorded)
    yield root
    root.close()


@pytest.fixture(params=["directory", "memory", "recording"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyRoot]:
    """AnyRoot of another machine than this one."""
    found = root_of(request.param, tmp_path)
    yield found
    found.close()


def test_a_text_and_its_bytes(root: AnyRoot) -> None:
    """A text is always a text: bytes that are no UTF-8 are escaped."""
    root.write({"/x": b"a\xff\n", "/sys/empty": "", "/long": "x" * 200_000})
    root.write({"/sys/long": "x" * 200_000})
    assert root.read("/x") == root.read_cached_open("/x") == "a\\xff\n"
    assert root.read_bytes("/x") == b"a\xff\n"
    assert root.read("/sys/empty") == root.read_cached_open("/sys/empty") == ""
    assert len(root.read("/long")) == len(root.read_cached_open("/long")) == 200_000
    assert len(root.read("/sys/long")) == len(root.read_cached_open("/sys/long")) == 200_000


def test_an_attribute_of_sysfs_is_read_with_one_call_of_the_kernel(tmp_path: Path) -> None:
    """A thousand disks have tens of thousands; one call returns all of it, as sysfs.rst says."""
    (tmp_path / "sys").mkdir()
    for path in ("x", "sys/x"):
        (tmp_path / path).write_text("running\n")
    root = Machine(str(tmp_path))
    with open("/proc/thread-self/io", "rb") as counters:

        def calls() -> int:
            return int(os.pread(counters.fileno(), 999, 0).split(b"syscr: ")[1].split()[0])

        seen = [calls(), root.read("/x") and calls(), root.read("/sys/x") and calls()]
        # One more each time: the counters are read as well.
        assert [then - before for before, then in itertools.pairwise(seen)] == [3, 2]


def test_a_record_of_proc_that_is_read_each_second_takes_one_call_of_the_kernel() -> None:
    """'/proc/meminfo' is one record: one read returns all of it. A table may need more."""
    root = Machine()
    with open("/proc/thread-self/io", "rb") as counters:

        def calls() -> int:
            return int(os.pread(counters.fileno(), 999, 0).split(b"syscr: ")[1].split()[0])

        def taken(read: Callable[[], object]) -> int:
            before = calls()
            read()
            return calls() - before - 1  # the counters are read as well

        root.read_cached_open("/proc/meminfo")
        assert taken(lambda: meminfo.read_meminfo(root)) == 1
        assert taken(lambda: stat.read_stat(root)) == 1
        assert taken(lambda: loadavg.read_loadavg(root)) == 1
        assert taken(lambda: root.read_cached_open("/proc/diskstats")) >= 2
    assert "SwapTotal" in root.read_cached_open("/proc/meminfo", is_record=True)


def test_a_record_longer_than_the_buffer_is_read_to_its_end(root: AnyRoot) -> None:
    """As '/proc/stat' of a host with thousands of interrupts."""
    root.write({"/proc/stat": "x" * 200_000})
    assert len(root.read_cached_open("/proc/stat", is_record=True)) == 200_000


def test_a_record_that_a_kernel_lacks_is_not_looked_for_each_second(tmp_path: Path) -> None:
    """'/proc/pressure/irq' is in few kernels; one that appears is read a minute later."""
    root = Machine(str(tmp_path))
    path = "/proc/pressure/irq"

    def is_found() -> bool:
        try:
            return root.read_optional_record(path) == "full\n"
        except AbsentError:
            return False

    assert failure(root.read_optional_record, path) == ("AbsentError", "No such file or directory")
    (tmp_path / "proc/pressure").mkdir(parents=True)
    (tmp_path / "proc/pressure/irq").write_text("full\n")
    found = [is_found() for _ in range(62)]
    assert found.index(True) == 60
    assert found[60:] == [True, True]


def test_names_are_sorted_and_may_be_any_bytes(root: AnyRoot) -> None:
    """Files, directories and empty ones; what is listed by a name is read by it."""
    odd = os.fsdecode(b"sd\xff")
    root.write({"/block/sdb/size": "1", f"/block/{odd}/size": "2", "/block/a": "", "/empty": None})
    assert root.names("/block") == root.names("/block/") == ["a", "sdb", odd]
    assert root.read(f"/block/{odd}/size") == "2"
    assert root.names("/empty") == []
    assert root.names("/") == ["block", "empty"]


def test_who_watches_is_told_what_was_asked_for(made: Made) -> None:
    """By the path that was requested, also if that is a link; failures are not reported."""
    made.write({"/sys/devices/sda/size": b"8\n", f"/sys/devices/{os.fsdecode(b'x%c' % 255)}": ""})
    made.link("/sys/block", "devices")
    seen: dict[str, bytes] = {}
    made.watch(seen.__setitem__)
    made.read("/sys/block/sda/size")
    assert made.last == ("/sys/block/sda/size", b"8\n")
    made.names("/sys/block")
    with pytest.raises(AbsentError):
        made.read("/sys/block/sdb/size")
    assert seen == {"/sys/block/sda/size": b"8\n", "/sys/block/": b"sda\nx\xff"}
    made.watch(None)
    made.read_cached_open("/sys/block/sda/size")
    made.report_read([("/told", b"")])
    assert "/told" not in seen


def failure(ask: Callable[[str], object], path: str) -> tuple[str, str]:
    """Return how a query fails: the type of the error and the kernel's message."""
    with pytest.raises((AbsentError, ReadError)) as caught:
        ask(path)
    name, _, text = str(caught.value).rpartition(": ")
    assert name == f"'{path}'"
    return type(caught.value).__name__, text


NOTHING = ("AbsentError", "No such file or directory")
NO_DIRECTORY = ("AbsentError", "Not a directory")
A_DIRECTORY = ("ReadError", "Is a directory")
LOOP = ("ReadError", "Too many levels of symbolic links")
TOO_LONG = ("ReadError", "File name too long")


def test_what_is_not_there_is_absent(root: AnyRoot) -> None:
    """A file, a directory, and one above it; each query fails alike."""
    root.write({"/proc": None})
    for path in ("/proc/none", "/none/stat", "/none"):
        for ask in (root.read, root.read_bytes, root.read_cached_open, root.names):
            assert failure(ask, path) == NOTHING


def test_a_file_is_no_directory(made: Made) -> None:
    """Nothing is below it, and it is no listing: absent, like a missing directory."""
    made.write({"/proc/stat": "1"})
    for path in ("/proc/stat/below", "/proc/stat/", "/proc/stat/../stat"):
        assert failure(made.read, path) == failure(made.read_cached_open, path) == NO_DIRECTORY
    assert failure(made.names, "/proc/stat") == NO_DIRECTORY


def test_a_directory_in_place_of_a_file_cannot_be_read(made: Made) -> None:
    """It exists and has no text: a failure, not an absence."""
    made.write({"/proc/meminfo": None})
    for ask in (made.read, made.read_bytes, made.read_cached_open):
        assert failure(ask, "/proc/meminfo") == A_DIRECTORY


@pytest.mark.parametrize("kind", ["directory", "recording"])
def test_what_a_recording_listed_and_never_read_is_absent(kind: str, tmp_path: Path) -> None:
    """An older recording plays with a newer collector: what it lacks is absent, not broken."""
    path = "/sys/block/sda/alignment_offset"
    listed = root_of(kind, tmp_path)
    listed.write({path: None})
    root = Machine(listed.path, recorded=True) if kind == "directory" else listed
    assert failure(root.read, path) == ("AbsentError", "not in the recording")
    assert failure(root.read_cached_open, path) == ("AbsentError", "not in the recording")


def test_links_are_followed_and_those_that_lead_nowhere_are_absent(made: Made) -> None:
    """/sys/block/sda is one, and so is its 'device'; '..' is above where a link leads."""
    made.write({"/sys/devices/ata1/block/sda/size": "8\n", "/sys/devices/ata1/model": "DISK\n"})
    made.write({"/sys/block": None})
    made.link("/sys/block/sda", "../devices/ata1/block/sda")
    made.link("/sys/devices/ata1/block/sda/device", "../..")
    made.link("/sys/block/gone", "../devices/ata2/block/gone")
    assert made.names("/sys/block") == ["gone", "sda"]
    assert made.names("/sys/block/sda") == ["device", "size"]
    assert made.read("/sys/block/sda/size") == made.read_cached_open("/sys/block/sda/size") == "8\n"
    assert made.read("/sys/block/sda/device/model") == "DISK\n"
    assert made.read("/sys/block/sda/../../model") == "DISK\n"
    for path in ("/sys/block/gone", "/sys/block/gone/size"):
        assert failure(made.read, path) == failure(made.names, path) == NOTHING


def test_links_in_a_circle_cannot_be_read(made: Made) -> None:
    """To itself, to each other, and one more than the kernel follows in one look-up."""
    made.write({"/d": None, "/link0": "the end"})
    made.link("/d/own", "own")
    made.link("/d/there", "back")
    made.link("/d/back", "there")
    for path in ("/d/own", "/d/there", "/d/back/below"):
        for ask in (made.read, made.read_cached_open, made.names):
            assert failure(ask, path) == LOOP
    for number in range(41):
        made.link(f"/link{number + 1}", f"link{number}")
    assert made.read("/link40") == "the end"
    assert failure(made.read, "/link41") == LOOP


def test_a_name_that_no_file_system_takes_cannot_be_read(made: Made) -> None:
    """255 bytes, not letters."""
    made.write({"/" + "x" * 255: "long\n"})
    assert made.read("/" + "x" * 255) == "long\n"
    for name in ("x" * 256, "\N{LATIN SMALL LETTER U WITH DIAERESIS}" * 128):
        assert failure(made.read, "/" + name) == failure(made.names, "/" + name) == TOO_LONG


def write_only() -> str:
    """Return a sysfs file that is unreadable, even for root (kernel, fs/kernfs/file.c)."""
    found = next(Path("/sys/bus").glob("*/drivers_probe"), None)
    if found is None:
        pytest.skip("'/sys/bus' has no write-only attribute here")
    return str(found)


@pytest.mark.parametrize(
    ("number", "find"),
    [(errno.EACCES, write_only), (errno.EIO, lambda: "/proc/self/mem")],
    ids=["EACCES", "EIO"],
)
def test_what_the_kernel_refuses_is_a_failure(number: int, find: Callable[[], str]) -> None:
    """It exists and cannot be read; page 0 of a process is never mapped, which is EIO."""
    path, said = find(), ("ReadError", os.strerror(number))
    memory = Memory({path: "secret\n"})
    memory.fail(path, number)
    for root in (Machine("/"), memory):
        assert failure(root.read, path) == failure(root.read_cached_open, path) == said
        assert os.path.basename(path) in root.names(os.path.dirname(path))
        root.close()
    memory.fail(path, None)
    assert memory.read(path) == memory.read_cached_open(path) == "secret\n"


def test_a_fault_of_a_directory_is_one_of_all_below_it() -> None:
    """An enclosure without answer; a machine that is unreadable."""
    memory = Memory({"/sys/block/sda/size": "8\n", "/sys/class": None})
    assert memory.read_cached_open("/sys/block/sda/size") == "8\n"
    memory.fail("/sys/block", errno.EIO)
    said = ("ReadError", os.strerror(errno.EIO))
    assert failure(memory.read_cached_open, "/sys/block/sda/size") == said
    assert failure(memory.names, "/sys/block/sda") == failure(memory.names, "/sys/block") == said
    assert memory.names("/sys/class") == []
    memory.fail("/", errno.EACCES)
    assert failure(memory.names, "/sys/class") == ("ReadError", os.strerror(errno.EACCES))


def test_a_kept_descriptor_sees_the_text_of_now(root: AnyRoot) -> None:
    """Each read starts at the beginning, so the kernel prints the file again, longer or shorter."""
    for text in ("old", "newer", "n", "n" * 100_000, "end"):
        root.write({"/proc/stat": text})
        assert root.read_cached_open("/proc/stat") == text


def test_a_kept_file_that_is_empty_is_opened_again(made: Made) -> None:
    """In a replayed machine it may be the rest of a removed file."""
    made.write({"/proc/stat": ""})
    assert made.read_cached_open("/proc/stat") == ""
    made.write({"/other": "2"})
    made.remove("/proc/stat")
    made.link("/proc/stat", "../other")
    assert made.read_cached_open("/proc/stat") == "2"


GONE = ("AbsentError", os.strerror(errno.ENODEV))


def test_a_kept_file_of_a_device_that_was_removed_is_absent(tmp_path: Path) -> None:
    """ENODEV for an open descriptor, then no such file: like the kernel."""
    root = Machine("/")
    with loops(tmp_path, 1, 1) as [(name, _)]:
        path = f"/sys/block/{name}/loop/backing_file"
        assert root.read_cached_open(path).endswith("image0\n")
    assert failure(root.read_cached_open, path) == GONE
    assert failure(root.read_cached_open, path) == NOTHING
    root.close()


def test_a_kept_file_that_was_removed_in_memory_is_absent() -> None:
    """As above for each open descriptor, and a new file in its place is another one."""
    path = "/sys/block/loop0/loop/backing_file"
    memory = Memory({path: "/image\n"})
    another = memory.another()
    assert memory.read_cached_open(path) == another.read_cached_open(path) == "/image\n"
    memory.remove("/sys/block/loop0/loop")
    assert failure(memory.read_cached_open, path) == GONE
    assert failure(memory.read_cached_open, path) == NOTHING
    memory.write({path: "/other\n"})
    assert failure(another.read_cached_open, path) == GONE
    assert memory.read_cached_open(path) == another.read_cached_open(path) == "/other\n"


def test_a_kept_file_of_a_process_that_ended_is_a_failure_and_then_absent() -> None:
    """ESRCH for an open descriptor: procfs differs from sysfs."""
    root = Machine("/")
    with subprocess.Popen(["sleep", "1000"]) as process:
        path = f"/proc/{process.pid}/stat"
        assert root.read_cached_open(path).startswith(f"{process.pid} ")
        process.kill()
    assert failure(root.read_cached_open, path) == ("ReadError", os.strerror(errno.ESRCH))
    assert failure(root.read_cached_open, path) == NOTHING
    root.close()


def test_a_file_that_comes_back_is_opened_again(tmp_path: Path) -> None:
    """A replay below a directory truncates a removed file: its descriptor is closed."""
    root = Directory(tmp_path)
    root.write({"/sys/block/sda/stat": "1"})
    assert root.read_cached_open("/sys/block/sda/stat") == "1"
    path = root.path + "/sys/block/sda/stat"
    os.truncate(path, 0)
    os.unlink(path)
    assert root.read_cached_open("/sys/block/sda/stat") == ""
    with pytest.raises(AbsentError):
        root.read_cached_open("/sys/block/sda/stat")
    root.write({"/sys/block/sda/stat": "2"})
    assert root.read_cached_open("/sys/block/sda/stat") == "2"
    root.close()


def test_a_text_over_the_limit_is_refused(root: AnyRoot) -> None:
    """One at the limit is read; the message for one above has the expected size."""
    root.write({"/proc/at": b"x" * MAX_BYTES, "/proc/above": b"x" * (MAX_BYTES + 1)})
    assert len(root.read("/proc/at")) == len(root.read_cached_open("/proc/at")) == MAX_BYTES
    for ask in (root.read, root.read_cached_open):
        with pytest.raises(ReadError, match=r"'/proc/above': expected at most \d+ bytes, got more"):
            ask("/proc/above")


def test_a_file_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    """A text over the limit is refused, and the message says what happens next."""
    with open(tmp_path / "meminfo", "wb") as file:
        file.truncate(MAX_BYTES * 100)
    with pytest.raises(ReadError, match=r"got more; it is not used; will retry in its"):
        Machine(str(tmp_path)).read_cached_open("/meminfo")


def test_a_pipe_or_a_socket_in_place_of_a_file_does_not_block(tmp_path: Path) -> None:
    """It has no writer: an open that waits would never end."""
    os.mkfifo(tmp_path / "pipe")
    assert failure(Machine(str(tmp_path)).read, "/pipe") == ("ReadError", os.strerror(errno.ESPIPE))
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "socket"))
        assert failure(Machine(str(tmp_path)).read, "/socket")[0] == "AbsentError"  # ENXIO


def test_another_root_is_the_same_machine(root: AnyRoot) -> None:
    """For another thread: it gets changes, reports its own reads, and is closed separately."""
    root.write({"/proc/stat": "1"})
    seen: dict[str, bytes] = {}
    another = root.another(seen.__setitem__)
    assert (another.page_size_bytes, another.path) == (root.page_size_bytes, root.path)
    assert root.read_cached_open("/proc/stat") == another.read_cached_open("/proc/stat") == "1"
    another.close()
    root.write({"/proc/stat": "2", "/proc/new": "3"})
    assert root.read_cached_open("/proc/stat") == another.read_cached_open("/proc/stat") == "2"
    assert (another.read("/proc/new"), another.names("/proc")) == ("3", ["new", "stat"])
    assert seen == {"/proc/stat": b"2", "/proc/new": b"3", "/proc/": b"new\nstat"}
    another.close()


def test_what_is_queried_of_a_machine_that_is_not_this_one_is_a_file(root: AnyRoot) -> None:
    """Fill level of a file system, and the probe's answers."""
    root.write({"/.statvfs": "of the root", "/srv/.statvfs": "of srv", "/.probe/run a !b": "{}"})
    assert (root.statvfs("/"), root.statvfs("/srv")) == ("of the root", "of srv")
    assert root.query_probe("run", "a", "/b") == "{}"
    with pytest.raises(AbsentError, match="No such file"):
        root.query_probe("run", "b")


def test_statvfs_of_this_machine_plays_again() -> None:
    """What a recorder gets is the answer in the recording."""
    seen: dict[str, bytes] = {}
    root = Machine("/", seen=seen.__setitem__)
    text = root.statvfs("/proc")
    assert seen == {"/proc/.statvfs": text.encode()}
    device = os.stat("/proc").st_dev
    assert text.startswith(f"device_number {os.major(device)}:{os.minor(device)}\nblock_bytes ")
    assert Memory(seen).statvfs("/proc") == text


def test_statvfs_of_what_is_not_there() -> None:
    """The error names the path."""
    with pytest.raises(AbsentError, match="'/proc/none': No such file"):
        Machine("/").statvfs("/proc/none")


def test_the_size_of_a_page_is_the_machines_own(tmp_path: Path) -> None:
    """Of this one unless a recording has another: vmstat counts pages."""
    assert Machine("/").page_size_bytes == os.sysconf("SC_PAGE_SIZE")
    assert Machine(str(tmp_path), 65_536).page_size_bytes == Memory({}, 65_536).page_size_bytes


DEEP = "/1/2/3/4"
"""As many directories as '..' can be used: above them is the machine that runs the tests."""
NAMES = st.sampled_from(["a", "b", "c"])
PLACES = st.lists(NAMES, min_size=1, max_size=3).map(lambda parts: "/".join((DEEP, *parts)))
TARGETS = st.lists(st.sampled_from(["a", "b", "c", "."]), min_size=1, max_size=3).map("/".join)
ASKED = st.lists(st.sampled_from(["a", "b", "c", "..", ".", ""]), max_size=4)


@given(
    tree=st.dictionaries(PLACES, st.none() | st.binary(max_size=2), min_size=1, max_size=5),
    links=st.dictionaries(PLACES, TARGETS, max_size=4),
    asked=st.lists(ASKED.map(lambda parts: "/".join((DEEP, *parts))), min_size=1, max_size=12),
)
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_memory_reports_of_any_tree_what_a_directory_reports(
    tree: dict[str, bytes | None], links: dict[str, str], asked: list[str], tmp_path: Path
) -> None:
    """The same texts, the same names, the same errors, for any query."""
    place = tmp_path / "machine"
    shutil.rmtree(place, ignore_errors=True)
    roots: tuple[Made, Made] = (Directory(place), Memory())
    files = {p: c for p, c in tree.items() if not any(p.startswith(f"{o}/") for o in tree)}
    taken = {path[:end] for path in files for end, at in enumerate(path + "/") if at == "/"}
    free = [
        path
        for path in links
        if path not in taken and os.path.dirname(path) in taken - files.keys()
    ]
    for root in roots:
        root.write(files)
        for path in free:
            root.link(path, links[path])
    for path in asked:
        for ask in ("read_bytes", "read_cached_open", "names"):
            there, here = (outcome(getattr(root, ask), path) for root in roots)
            assert here == there, (ask, path)
    for root in roots:
        root.close()


def outcome(ask: Callable[[str], object], path: str) -> object:
    """Return the result of a query."""
    try:
        return ask(path)
    except (AbsentError, ReadError) as error:
        return type(error).__name__, str(error)
