"""A recorded machine plays unchanged, and a broken recording is reported with its fault."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path

import pytest
from support.idle import idle_frames
from support.memory import write_tree
from support.recorder import FrameRecorder, main, record
from support.recordings import (
    FIXTURES,
    STALL,
    corpus,
    recorded,
    stall_from_corpus,
    write_frame,
    write_recording,
)
from support.sources import SOURCES

from iowarden.collectors.block.block_devices import read_block
from iowarden.collectors.block.diskstats import read_diskstats
from iowarden.collectors.filesystem.mountinfo import read_mounts
from iowarden.collectors.machine import Machine
from iowarden.collectors.model import AbsentError, Outcome, ReadError
from iowarden.collectors.procfs.meminfo import read_meminfo
from iowarden.collectors.procfs.pressure import read_pressure
from iowarden.collectors.procfs.stat import read_stat
from iowarden.collectors.procfs.vmstat import read_vmstat
from iowarden.collectors.recording import archive
from iowarden.collectors.recording import recording as recording_module
from iowarden.collectors.recording.player import RecordingPlayer
from iowarden.collectors.recording.recording import Frame, Recording, RecordingError
from iowarden.collectors.source import collect

UPTIME = "/proc/uptime"


def contents(directory: str) -> dict[str, bytes | None]:
    """All files (and None for directories) below a directory, by path."""
    found: dict[str, bytes | None] = {}
    for path in sorted(Path(directory).rglob("*")):
        found[str(path.relative_to(directory))] = None if path.is_dir() else path.read_bytes()
    return found


def player_of(recording: str, tmp_path: Path) -> tuple[RecordingPlayer, Machine]:
    """Return a player and the root that it plays into."""
    player = RecordingPlayer(recording, str(tmp_path / "played"))
    return player, Machine(str(tmp_path / "played"), player.page_size_bytes)


def again(recording: str, directory: str, tmp_path: Path) -> int:
    """Play a recording and record it; return the number of frames."""
    player = RecordingPlayer(recording, str(tmp_path / "played-for-recording"))
    frames = [player.advance()]
    count = len(list(recorded(recording)))

    def clocks() -> tuple[float, float]:
        frame = frames[-1]
        assert frame is not None
        return frame.monotonic_seconds, frame.realtime_seconds

    record(
        str(tmp_path / "played-for-recording"),
        directory,
        count,
        note=player.note,
        page_size_bytes=player.page_size_bytes,
        clocks=clocks,
        sleep=lambda _: frames.append(player.advance()),
    )
    return count


def test_what_is_recorded_from_a_replay_is_the_recording(tmp_path: Path) -> None:
    """The recorded stall: played, recorded, played and recorded again gives the same frames."""
    stall = stall_from_corpus(corpus(STALL), tmp_path / "stall")
    assert again(stall, str(tmp_path / "first"), tmp_path / "a") == 100
    assert again(str(tmp_path / "first"), str(tmp_path / "second"), tmp_path / "b") == 100
    first = contents(str(tmp_path / "first"))
    assert first == contents(str(tmp_path / "second"))
    assert first["000099/root/proc/vmstat"] == contents(stall)["000099/root/proc/vmstat"]


def test_the_recorded_stall_shows_the_backlog_of_the_slow_disk(tmp_path: Path) -> None:
    """At its height 700 MB wait, 'sda' has requests in flight, and tasks are blocked."""
    player, root = player_of(stall_from_corpus(corpus(STALL), tmp_path / "stall"), tmp_path)
    backlog, blocked, in_flight = [], [], []
    while player.advance() is not None:
        vmstat = read_vmstat(root)
        backlog.append(vmstat.dirty_bytes + vmstat.writeback_bytes)
        blocked.append(read_stat(root).procs_blocked)
        in_flight.append(read_diskstats(root)["sda"].in_flight)
    topology = read_block(root)
    root.close()
    assert max(backlog) > 600 * 2**20
    assert max(blocked) >= 2
    assert max(in_flight) > 0
    assert topology.leaves == ("sda", "sdb", "vda")
    assert topology.devices["sda"].timeout_seconds == 30.0


def test_this_machine_records_itself(tmp_path: Path) -> None:
    """The command writes what a player can play; the kernel's own files are read."""
    assert main([str(tmp_path / "own"), "--frames", "2", "--period", "0", "--note", "idle"]) == 0
    player, root = player_of(str(tmp_path / "own"), tmp_path)
    frames = [player.advance(), player.advance(), player.advance()]
    assert [frame and frame.number for frame in frames] == [0, 1, None]
    assert read_meminfo(root).total_bytes == read_meminfo(Machine("/")).total_bytes
    assert set(read_block(root).devices) == set(read_block(Machine("/")).devices)
    assert (player.note, player.page_size_bytes) == ("idle", os.sysconf("SC_PAGE_SIZE"))
    root.close()


def test_a_recording_holds_no_password_of_fstab(tmp_path: Path) -> None:
    """Wherever a password is - options, the server's name, a comment - it is not written."""
    fstab = (
        "# //old/share /old cifs password=S3CRET 0 0\n"
        "/dev/sda2  /  ext4  errors=remount-ro,noatime 0 1\n"
        "//nas/share /mnt/nas cifs username=anna,pass=S3CRET,more,ro,_netdev 0 0\n"
        "https://anna:S3/CRET@dav.test/ /mnt/dav davfs rw,noauto\n"
        "nas:/plain /mnt/plain nfs\n"
        "S3CRET\n"
    )
    mounted = "1 0 8:2 / / rw - ext4 /dev/sda2 rw\n"
    write_tree(tmp_path / "machine", {"/etc/fstab": fstab, "/proc/1/mountinfo": mounted})
    for target, source in (("first", "machine"), ("second", "first/000000/root")):
        record(str(tmp_path / source), str(tmp_path / target), 1)
        written = tmp_path / target / "000000/root/etc/fstab"
        assert written.read_text() == (
            "#\n"
            "/dev/sda2 / ext4 *,noatime 0 1\n"
            "//nas/share /mnt/nas cifs *,*,*,ro,_netdev 0 0\n"
            "*@dav.test/ /mnt/dav davfs rw,noauto\n"
            "nas:/plain /mnt/plain nfs\n"
            "#\n"
        )
    played = read_mounts(Machine(str(tmp_path / "first/000000/root"))).wanted
    assert played is not None
    assert {point for point, options in played.items() if "ro" in options} == {"/mnt/nas"}


def test_a_recording_is_never_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An incident was recorded there: the second recorder refuses with a reason."""
    assert main([str(tmp_path / "own"), "--frames", "1"]) == 0
    before = contents(str(tmp_path / "own"))
    assert main([str(tmp_path / "own"), "--frames", "1"]) == 1
    assert "expected no recording there, got one" in capsys.readouterr().err
    assert contents(str(tmp_path / "own")) == before


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    """A frame holds the texts that changed; a listing makes empty directories."""
    recorder = FrameRecorder(str(tmp_path / "r"), 4096, "")
    recorder.begin("meminfo")
    recorder.root_seen("/proc/meminfo", b"one\n")
    recorder.begin("block")
    recorder.root_seen("/sys/block/", b"sda\nsdb")
    recorder.root_seen("/sys/block/sda/size", b"8\n")
    recorder.frame(1.0, 1001.0)
    recorder.begin("meminfo")
    recorder.root_seen("/proc/meminfo", b"two\n")
    recorder.frame(2.0, 1002.0)
    assert contents(str(tmp_path / "r" / "000000" / "root" / "sys")) == {
        "block": None,
        "block/sda": None,
        "block/sda/size": b"8\n",
        "block/sdb": None,
    }
    assert contents(str(tmp_path / "r" / "000001")) == {
        "clock": b"monotonic_seconds 2.000000\nrealtime_seconds 1002.000000\n",
        "root": None,
        "root/.read": b"meminfo\n",
        "root/proc": None,
        "root/proc/meminfo": b"two\n",
    }


def test_what_a_source_no_longer_sees_is_gone(tmp_path: Path) -> None:
    """A removed disk vanishes from the replay; a collector that did not run loses nothing."""
    recorder = FrameRecorder(str(tmp_path / "r"), 4096, "")
    recorder.begin("meminfo")
    recorder.root_seen("/proc/meminfo", b"one\n")
    recorder.begin("block")
    recorder.root_seen("/sys/block/", b"sda\nsdb")
    recorder.root_seen("/sys/block/sdb/size", b"8\n")
    recorder.frame(1.0, 1001.0)
    recorder.begin("block")
    recorder.root_seen("/sys/block/", b"sda")
    recorder.frame(2.0, 1002.0)
    player, root = player_of(str(tmp_path / "r"), tmp_path)
    player.advance()
    assert root.names("/sys/block") == ["sda", "sdb"]
    player.advance()
    assert root.names("/sys/block") == ["sda"]
    assert root.read("/proc/meminfo") == "one\n"


def test_a_file_that_two_sources_read_is_written_as_it_was_read_last(tmp_path: Path) -> None:
    """One reads the counters of disks every second, another the disks' names once a minute."""
    recorder = FrameRecorder(str(tmp_path / "r"), 4096, "")
    for second, sources in enumerate((("diskstats", "udev"), ("diskstats",), ("udev",))):
        for source in sources:
            recorder.begin(source)
            recorder.root_seen("/proc/diskstats", b"%d\n" % second)
        recorder.frame(float(second), 1000.0 + second)
    player, root = player_of(str(tmp_path / "r"), tmp_path)
    for second in range(3):
        player.advance()
        assert root.read("/proc/diskstats") == f"{second}\n"


def test_a_file_that_turns_into_a_listing_and_back_plays(tmp_path: Path) -> None:
    """A failed read leaves the listed name only: the replay fails to read it as well."""
    recorder = FrameRecorder(str(tmp_path / "r"), 4096, "")
    for second, content in enumerate((b"8\n", None, b"9\n")):
        recorder.begin("block")
        recorder.root_seen("/sys/block/sda/", b"size")
        if content is not None:
            recorder.root_seen("/sys/block/sda/size", content)
        recorder.frame(float(second), 1000.0 + second)
    player, root = player_of(str(tmp_path / "r"), tmp_path)
    player.advance()
    assert root.read_cached_open("/sys/block/sda/size") == "8\n"
    player.advance()
    assert root.read_cached_open("/sys/block/sda/size") == ""
    with pytest.raises(ReadError):
        root.read_cached_open("/sys/block/sda/size")
    player.advance()
    assert root.read_cached_open("/sys/block/sda/size") == "9\n"


def test_kept_descriptors_see_the_next_frame(tmp_path: Path) -> None:
    """Files are overwritten in place, also by a shorter text; a name may be any bytes."""
    odd = b"/sys/block/sd\xff/size".decode(errors="surrogateescape")
    recording = write_recording(
        tmp_path / "r",
        [(1.0, {"/proc/stat": "a long text\n", odd: "1\n"}), (2.0, {"/proc/stat": "b\n"})],
    )
    player, root = player_of(recording, tmp_path)
    player.advance()
    assert root.read_cached_open("/proc/stat") == "a long text\n"
    inode = os.stat(root.path + "/proc/stat").st_ino
    player.advance()
    assert root.read_cached_open("/proc/stat") == "b\n"
    assert os.stat(root.path + "/proc/stat").st_ino == inode
    assert root.read(odd) == "1\n"
    root.close()


def test_a_frame_without_clock_is_not_there_yet(tmp_path: Path) -> None:
    """The recorder may still be writing it: it plays as soon as it is complete."""
    recording = write_recording(tmp_path / "r", [(1.0, {"/proc/stat": "a\n"})])
    write_tree(tmp_path / "r" / "000001", {"/root/proc/stat": "half"})
    player, root = player_of(recording, tmp_path)
    assert player.advance() == Frame(0, 1.0, 1_795_185_930.0)
    assert player.advance() is None
    assert root.read("/proc/stat") == "a\n"
    write_frame(recording, Frame(1, 2.0, 1002.0), {"/proc/stat": b"b\n"})
    assert player.advance() == Frame(1, 2.0, 1002.0)
    assert root.read("/proc/stat") == "b\n"


HEADER = {"format": "iowarden-recording", "version": 1, "page_size_bytes": 4096, "note": ""}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (None, "expected a recording's header, got: No such file"),
        ("{", "expected JSON, got"),
        ("\udcff", "expected JSON, got"),
        ("[]", "expected format 'iowarden-recording', version 1, got"),
        (json.dumps(HEADER | {"version": 2}), r"expected format .* got .*2"),
        (
            json.dumps(HEADER | {"page_size_bytes": "4k"}),
            "expected page_size_bytes, a power of two from 1024 to 1048576, got '4k'",
        ),
        (json.dumps(HEADER | {"page_size_bytes": True}), "a power of two .* got True"),
        (json.dumps(HEADER | {"page_size_bytes": 4096.0}), "a power of two .* got 4096.0"),
        (json.dumps(HEADER | {"page_size_bytes": 5000}), "a power of two .* got 5000"),
        (json.dumps(HEADER | {"page_size_bytes": 10**400}), "a power of two .* got 10{39}$"),
        (json.dumps(HEADER), r"'.*/000000': expected a complete frame, got none"),
    ],
)
def test_a_recording_of_another_kind_is_refused(
    header: str | None, message: str, tmp_path: Path
) -> None:
    """The message has the file, the expected and the found value."""
    write_tree(tmp_path / "r", {} if header is None else {"/recording.json": header})
    with pytest.raises(RecordingError, match=message):
        RecordingPlayer(str(tmp_path / "r"), str(tmp_path / "played"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("clock", "", "expected lines 'monotonic_seconds <n>'"),
        ("clock", "monotonic_seconds nan\nrealtime_seconds 1\n", "got 'monotonic_seconds nan"),
        ("clock", "monotonic_seconds 0.5\nrealtime_seconds 1\n", "of at least 1.0, got 0.5"),
        ("gone", "/proc/../../etc\n", "expected absolute paths without '..', got"),
        ("gone", "etc\n", "expected absolute paths without '..', got"),
        ("gone", "/\n", "expected absolute paths without '..', got"),
    ],
)
def test_a_broken_frame_is_refused(name: str, content: str, message: str, tmp_path: Path) -> None:
    """The message names the file; nothing outside the played machine is touched."""
    recording = write_recording(tmp_path / "r", [(1.0, {"/proc/stat": "a\n"}), (2.0, {})])
    write_tree(tmp_path / "r" / "000001", {"/" + name: content})
    write_tree(tmp_path / "etc", {"/passwd": "precious"})
    player, _ = player_of(recording, tmp_path)
    player.advance()
    with pytest.raises(RecordingError, match=message):
        player.advance()
    assert contents(str(tmp_path / "etc")) == {"passwd": b"precious"}


def test_a_link_in_a_recording_is_refused(tmp_path: Path) -> None:
    """A recording may come from a stranger: it cannot refer to files of this machine."""
    recording = write_recording(tmp_path / "r", [(1.0, {"/proc/stat": "a\n"})])
    os.symlink("/etc/passwd", f"{recording}/000000/root/proc/meminfo")
    player, _ = player_of(recording, tmp_path)
    with pytest.raises(RecordingError, match=r"meminfo'?: expected a file or a directory"):
        player.advance()


@pytest.mark.parametrize("name", ["root", "clock", "gone"])
def test_a_frame_that_leads_out_of_the_recording_is_refused(name: str, tmp_path: Path) -> None:
    """`tar xf` creates links, too: none of them exposes files of this machine."""
    recording = write_recording(tmp_path / "r", [(1.0, {})])
    frame = tmp_path / "r" / "000000"
    outside = tmp_path / name
    if name == "root":
        shutil.rmtree(frame / "root", ignore_errors=True)
        write_tree(outside, {"/proc/stat": "secret\n"})
    else:
        outside.write_text("monotonic_seconds 1\nrealtime_seconds 1\n" if name == "clock" else "/a")
        (frame / name).unlink(missing_ok=True)
    os.symlink(outside, frame / name)
    with pytest.raises(RecordingError, match=f"000000/{name}'?: expected"):
        Recording(recording).next()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a/" * 150 + "stat"], "expected paths of at most 100 parts"),
        (["a/" * 10_000 + "stat"], "expected at most 67108864 bytes a frame"),
    ],
    ids=["deep", "deeper"],
)
def test_a_small_archive_does_not_fill_memory(
    names: list[str], message: str, tmp_path: Path
) -> None:
    """Of paths, which need more memory than their texts: 440 bytes made a gigabyte."""
    refused(names, message, tmp_path)


def test_many_names_in_a_small_archive_do_not_fill_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each needs memory in addition to its text, even a short one; with a limit of a megabyte."""
    monkeypatch.setattr(recording_module, "MAX_FRAME_BYTES", 2**20)
    names = [f"{number:x}" for number in range(140_000 // 64)]
    refused(names, "expected at most 1048576 bytes a frame", tmp_path)


def refused(names: list[str], message: str, tmp_path: Path) -> None:
    """Have an archive refused that has files of these names."""
    writer = archive.Writer(str(tmp_path / "bomb.tar.gz"))
    writer.add("recording.json", json.dumps(HEADER | {"page_size_bytes": 4096}).encode())
    for name in names:
        writer.add(f"000000/root/{name}", b"")
    writer.add("000000/clock", b"monotonic_seconds 1\nrealtime_seconds 1\n")
    writer.close()
    with pytest.raises(RecordingError, match=message):
        Recording(str(tmp_path / "bomb.tar.gz")).next()


def test_a_hole_in_a_recording_is_refused(tmp_path: Path) -> None:
    """A missing frame is not the end: later frames would never be played."""
    recording = write_recording(tmp_path / "r", [(1.0, {}), (2.0, {}), (3.0, {})])
    os.unlink(f"{recording}/000001/clock")
    player, _ = player_of(recording, tmp_path)
    player.advance()
    with pytest.raises(RecordingError, match=r"000001/clock': expected every frame"):
        player.advance()


HEIGHT = 60
"""A frame of the recorded stall with requests in flight and tasks blocked."""


def test_idle_frames_follow_a_stall(tmp_path: Path) -> None:
    """From its height on: all is written, nothing waits, counters are constant, clocks continue."""
    stall = stall_from_corpus(corpus(STALL), tmp_path / "stall")
    for number in range(HEIGHT + 1, 100):
        shutil.rmtree(f"{stall}/{number:06d}")
    idle_frames(stall, 3, 15.0)
    player, root = player_of(stall, tmp_path)
    frames, written = [], set()
    for frame in iter(player.advance, None):
        if frame.number >= HEIGHT:
            frames.append(frame)
            written.add(read_diskstats(root)["sda"].written_bytes_total)
    before = frames[0]
    assert [round(frame.monotonic_seconds - before.monotonic_seconds, 3) for frame in frames] == [
        0.0,
        15.0,
        30.0,
        45.0,
    ]
    vmstat, meminfo, pressure = read_vmstat(root), read_meminfo(root), read_pressure(root)
    assert (vmstat.dirty_bytes, vmstat.writeback_bytes) == (0, 0)
    assert (meminfo.dirty_bytes, meminfo.writeback_bytes) == (0, 0)
    assert read_stat(root).procs_blocked == 0
    assert pressure.io is not None
    assert (pressure.io.some_avg10_ratio, pressure.io.full_avg300_ratio) == (0.0, 0.0)
    blocks = read_diskstats(root)
    assert {block.in_flight for block in blocks.values()} == {0}
    assert len(written) == 1
    assert float(root.read(UPTIME).split()[0]) == pytest.approx(
        before.monotonic_seconds + 45, abs=1
    )


def test_idle_frames_need_a_frame_before(tmp_path: Path) -> None:
    """Nothing to continue: reported, not invented."""
    recording = write_recording(tmp_path / "r", [])
    with pytest.raises(RecordingError, match="expected at least frame '000000', got none"):
        idle_frames(recording, 1)


def test_a_machine_written_by_hand_plays(tmp_path: Path) -> None:
    """A user writes two frames with an editor; files that are not in them are absent."""
    recording = write_recording(
        tmp_path / "r", [(1, {"/proc/diskstats": "8 0 sda 1 0 8 0 0 0 0 0 0 0 0\n"}), (2.5, {})]
    )
    player, root = player_of(recording, tmp_path)
    player.advance()
    assert list(read_diskstats(root)) == ["sda"]
    with pytest.raises(AbsentError):
        read_stat(root)


@pytest.mark.parametrize(
    "always",
    [False, pytest.param(True, marks=pytest.mark.system)],
    ids=["as it is due", "in each frame"],
)
@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.glob("*.tar.xz")))
def test_every_recorded_fixture_plays_to_its_end(name: str, always: bool, tmp_path: Path) -> None:
    """Each collector of each frame has data, or the recorded kernel does not offer them."""
    player, root = player_of(str(FIXTURES / name), tmp_path)
    due = {source.name: -math.inf for source in SOURCES}
    said: dict[str, Outcome] = {}
    frames = 0
    while (frame := player.advance()) is not None:
        frames += 1
        now = frame.monotonic_seconds
        for source in SOURCES:
            if always or now >= due[source.name]:
                due[source.name] = now + source.period_seconds
                said[source.name] = collect(source, root, lambda: 0.0).outcome
        assert set(said.values()) <= {Outcome.OK, Outcome.ABSENT}
        assert list(said.values()).count(Outcome.OK) >= 5
    root.close()
    assert frames > 1
