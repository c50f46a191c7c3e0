"""Fill level of file systems, and those without a readable one."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recorder import FrameRecorder

from iowarden.collectors.filesystem.mountinfo import Mount, parse_mountinfo
from iowarden.collectors.filesystem.statfs import (
    UnreadableMount,
    Usage,
    emit,
    node_samples,
    parse_statvfs,
    read_filesystems,
    unreadable_parts,
)
from iowarden.collectors.machine import Machine
from iowarden.collectors.model import AbsentError, ParseError
from iowarden.collectors.recording.player import RecordingPlayer

if TYPE_CHECKING:
    from collections.abc import Hashable
    from pathlib import Path

    from conftest import MachineMaker

PATH = "/proc/1/mountinfo"
MOUNTS = (
    "27 1 8:2 / / rw,relatime - ext4 /dev/sda2 rw,errors=remount-ro\n"
    "28 27 0:40 / /mnt/nas rw - nfs4 nas:/data rw\n"
    "29 27 0:23 / /run rw,nosuid - tmpfs tmpfs rw\n"
    "30 27 0:24 / /proc rw - proc proc rw\n"
    "31 27 8:2 /srv/export /export ro - ext4 /dev/sda2 rw\n"
    "32 27 0:25 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw\n"
)
EXT4 = parse_mountinfo(MOUNTS)[0]


def statvfs(number: str, blocks: int = 1000, files: int = 100, block_bytes: int = 4096) -> str:
    """Return the text of Machine.statvfs for a half full file system."""
    return (
        f"device_number {number}\nblock_bytes {block_bytes}\nfragment_bytes 4096\n"
        f"blocks {blocks}\nblocks_free {blocks // 2}\nblocks_available {blocks // 4}\n"
        f"files {files}\nfiles_free {files // 2}\n"
    )


FILES: dict[str, str | bytes | None] = {
    PATH: MOUNTS,
    "/.statvfs": statvfs("8:2"),
    "/export/.statvfs": statvfs("8:2"),
    "/run/.statvfs": statvfs("0:23", 10),
}


def test_each_file_system_that_keeps_data_is_reported_once(machine: MachineMaker) -> None:
    """The bind mount and the tmpfs are read only for node_exporter's names; NFS did not answer."""
    value = read_filesystems(machine(FILES))
    assert value.usage == {
        "/": Usage(
            mount_point="/",
            device="/dev/sda2",
            kind="ext4",
            size_bytes=4_096_000,
            free_bytes=2_048_000,
            available_bytes=1_024_000,
            files=100,
            files_free=50,
            read_only=False,
            device_number="8:2",
        )
    }
    assert set(value.others) == {"/run", "/export"}
    (nas,) = value.unreadable.values()
    assert (nas.mount_point, nas.device, nas.kind) == ("/mnt/nas", "nas:/data", "nfs4")
    assert list(unreadable_parts(value)) == [((("mountpoint", "/mnt/nas"),), nas.reason)]
    assert "No such file" in nas.reason


def test_samples_of_what_is_watched(machine: MachineMaker) -> None:
    """An unreadable one has no size, and is reported as unread."""
    labels = (("device", "/dev/sda2"), ("fstype", "ext4"), ("mountpoint", "/"))
    nas = (("device", "nas:/data"), ("fstype", "nfs4"), ("mountpoint", "/mnt/nas"))
    assert emit(read_filesystems(machine(FILES))) == [
        ("iowarden_filesystem_size_bytes", labels, 4_096_000),
        ("iowarden_filesystem_free_bytes", labels, 2_048_000),
        ("iowarden_filesystem_available_bytes", labels, 1_024_000),
        ("iowarden_filesystem_readonly", labels, 0.0),
        ("iowarden_filesystem_device_error", labels, 0.0),
        ("iowarden_filesystem_files", labels, 100),
        ("iowarden_filesystem_files_free", labels, 50),
        ("iowarden_filesystem_device_error", nas, 1.0),
    ]


def test_without_a_fixed_number_of_inodes_none_can_run_out(machine: MachineMaker) -> None:
    """btrfs reports 0 of 0 inodes: that is not 'full'."""
    names = {
        n
        for n, _, _ in emit(
            read_filesystems(machine({**FILES, "/.statvfs": statvfs("8:2", files=0)}))
        )
    }
    assert "iowarden_filesystem_size_bytes" in names
    assert "iowarden_filesystem_files" not in names


def test_another_mount_at_that_place_is_not_taken_for_it() -> None:
    """With ProtectHome there is a tmpfs at '/home': its size is not the disk's."""
    found = parse_statvfs(statvfs("0:77"), EXT4)
    assert isinstance(found, UnreadableMount)
    assert found.reason == "this service has device 0:77 there, the host has 8:2"


def test_a_subvolume_has_a_number_of_its_own(machine: MachineMaker) -> None:
    """btrfs numbers each subvolume; a number of our own mounts is another file system's."""
    mounts = "30 1 0:25 /@home /home rw - btrfs /dev/sda2 rw\n"
    own = "30 1 0:25 /@home /home rw - btrfs /dev/sda2 rw\n31 30 0:77 / /home rw - tmpfs tmpfs rw\n"
    files: dict[str, str | bytes | None] = {PATH: mounts, "/proc/self/mountinfo": own}
    value = read_filesystems(machine({**files, "/home/.statvfs": statvfs("0:26")}))
    assert set(value.usage) == {"/home"}
    value = read_filesystems(machine({**files, "/home/.statvfs": statvfs("0:77")}))
    assert set(value.unreadable) == {"/home"}


def test_read_only_is_what_the_host_reports() -> None:
    """In a sandbox statvfs reports it for every mount, and has no flag 'emergency_ro'."""
    assert parse_statvfs(statvfs("8:2"), EXT4) != parse_statvfs(
        statvfs("8:2"), replace(EXT4, options=("ro",))
    )


def test_what_is_not_to_be_queried_is_not(machine: MachineMaker) -> None:
    """The reader gets each file system before it is read, the same for two mounts of one.

    It gets the hidden one again, before the probe is queried for it.
    """
    asked: list[Hashable] = []

    def enter(part: Hashable) -> str:
        asked.append(part)
        return "silent for 12 s" if part == ("8:2", "") else ""

    value = read_filesystems(machine(FILES), enter)
    nas = ("0:40", "nas:/data")
    assert asked == [("8:2", ""), nas, ("0:23", ""), ("8:2", ""), nas]
    assert value.unreadable["/"].reason == "silent for 12 s"
    other = value.others["/export"]
    assert isinstance(other, UnreadableMount)


def test_node_exporters_series(machine: MachineMaker) -> None:
    """Every mount except those it excludes; an error is a label, and leaves no size."""
    value = read_filesystems(
        machine({**FILES, "/.statvfs": statvfs("8:2", block_bytes=65_536)}),
        lambda part: "silent for 12 s" if part == ("0:40", "nas:/data") else "",
    )
    found = {
        (name.removeprefix("node_filesystem_"), *(text for _, text in labels)): number
        for name, labels, number in node_samples(value)
    }
    root = ("/dev/sda2", "", "ext4", "/")
    assert found["size_bytes", *root] == 1000 * 65_536
    assert found["avail_bytes", *root] == 250 * 65_536
    assert (found["files", *root], found["files_free", *root]) == (100, 50)
    assert (found["device_error", *root], found["purgeable_bytes", *root]) == (0, 0)
    assert found["mount_info", "/dev/sda2", "8", "2", "/"] == 1
    assert found["readonly", "/dev/sda2", "", "ext4", "/export"] == 1
    assert found["size_bytes", "tmpfs", "", "tmpfs", "/run"] == 10 * 4096
    dead = ("nas:/data", "mountpoint timeout", "nfs4", "/mnt/nas")
    assert (found["device_error", *dead], found["readonly", *dead]) == (1, 0)
    assert ("size_bytes", *dead) not in found
    assert not [key for key in found if "/proc" in key or "overlay" in key]


def test_an_error_is_spelled_as_node_exporter_does(machine: MachineMaker) -> None:
    """The label that public rules use: Go writes the kernel's error in lower case."""
    errors = {
        dict(labels)["device_error"]
        for name, labels, _ in node_samples(read_filesystems(machine({PATH: MOUNTS})))
        if name == "node_filesystem_device_error"
    }
    assert errors == {"no such file or directory"}


def test_this_machine() -> None:
    """The values are equal to os.statvfs, except for changes in between."""
    root = Machine("/")
    try:
        value = read_filesystems(root)
    except AbsentError:
        pytest.skip("'/proc/1/mountinfo' is hidden here")
    for usage in value.usage.values():
        found = os.statvfs(usage.mount_point)
        assert usage.size_bytes == found.f_blocks * found.f_frsize
    assert not [u.reason for u in value.unreadable.values() if "the host" in u.reason]


def test_a_recording_of_this_machine_plays_again(tmp_path: Path) -> None:
    """The kernel's answer is a text in the recording, read like any other."""
    recorder = FrameRecorder(str(tmp_path / "recording"), 4096)
    root = Machine("/", seen=recorder.root_seen)
    try:
        value = read_filesystems(root)
    except AbsentError:
        pytest.skip("'/proc/1/mountinfo' is hidden here")
    recorder.frame(1.0, 2.0)
    player = RecordingPlayer(str(tmp_path / "recording"), str(tmp_path / "played"))
    player.advance()
    again = read_filesystems(Machine(str(tmp_path / "played")))
    assert again.usage == value.usage
    assert again.unreadable.keys() == value.unreadable.keys()


CLOSED = "33 27 8:3 / /srv/closed rw - ext4 /dev/sda3 rw\n"
ANSWER = "/.probe/statvfs !srv!closed"


def test_what_is_closed_to_us_the_probe_looks_at(machine: MachineMaker) -> None:
    """The fill level of a mount below a directory of mode 0700 is root's."""
    files = {**FILES, PATH: MOUNTS + CLOSED, ANSWER: json.dumps({"text": statvfs("8:3", 500)})}
    value = read_filesystems(machine(files))
    assert value.usage["/srv/closed"].size_bytes == 500 * 4096
    assert set(value.unreadable) == {"/mnt/nas"}


def test_the_probes_answer_is_about_that_mount_or_none(machine: MachineMaker) -> None:
    """In the probe's own mount namespace another file system may be there."""
    files = {**FILES, PATH: MOUNTS + CLOSED, ANSWER: json.dumps({"text": statvfs("0:77")})}
    unread = read_filesystems(machine(files)).unreadable["/srv/closed"]
    assert unread.reason == "this service has device 0:77 there, the host has 8:3"


def test_another_mount_at_that_place_here_is_none_for_the_probe(machine: MachineMaker) -> None:
    """A tmpfs covers it in the daemon's mount namespace, not in the probe's."""
    files = {
        **FILES,
        PATH: MOUNTS + CLOSED,
        "/srv/closed/.statvfs": statvfs("0:77"),
        ANSWER: json.dumps({"text": statvfs("8:3", 500)}),
    }
    assert read_filesystems(machine(files)).usage["/srv/closed"].size_bytes == 500 * 4096


def test_only_what_keeps_data_is_worth_the_probes_time(machine: MachineMaker) -> None:
    """A tmpfs or a second mount without access remains unread, as in node_exporter."""
    files = {**FILES, ANSWER.replace("closed", "x"): json.dumps({"text": statvfs("0:90")})}
    mount = "33 27 0:90 / /srv/x rw - tmpfs tmpfs rw\n"
    other = read_filesystems(machine({**files, PATH: MOUNTS + mount})).others["/srv/x"]
    assert isinstance(other, UnreadableMount)


def test_what_root_would_not_see_either_is_not_queried(machine: MachineMaker) -> None:
    """An I/O error is reported unchanged: the probe would get it, too."""
    files = {**FILES, PATH: MOUNTS + CLOSED, ANSWER: json.dumps({"text": statvfs("8:3")})}
    value = read_filesystems(machine({**files, "/srv/closed/.statvfs": None}))
    assert value.unreadable["/srv/closed"].reason == "'/srv/closed/.statvfs': Is a directory"


def test_a_probe_that_fails_leaves_both_reasons(machine: MachineMaker) -> None:
    """The probe's error, why it was queried, and node_exporter's text for that at the end."""
    value = read_filesystems(machine({**FILES, PATH: MOUNTS + CLOSED, ANSWER: None}))
    reason = value.unreadable["/srv/closed"].reason
    assert reason == (
        f"'{ANSWER}': Is a directory; the probe was queried because '/srv/closed/.statvfs': No such"
        " file or directory"
    )
    (error,) = (
        dict(labels)["device_error"]
        for name, labels, _ in node_samples(value)
        if name == "node_filesystem_device_error" and labels[0] == ("device", "/dev/sda3")
    )
    assert error == "no such file or directory"


def test_a_hidden_mount_where_somebody_hangs_is_not_requested(machine: MachineMaker) -> None:
    """Another thread waits for the probe's answer about the same file system."""
    files = {**FILES, PATH: MOUNTS + CLOSED, ANSWER: json.dumps({"text": statvfs("8:3")})}
    told: list[Hashable] = []

    def enter(part: Hashable) -> str:
        told.append(part)
        return "silent for 12 s" if told.count(("8:3", "")) == 2 else ""

    assert (
        read_filesystems(machine(files), enter).unreadable["/srv/closed"].reason
        == "silent for 12 s"
    )


@pytest.mark.parametrize("answer", ["", "[]", "{}", '{"text": 1}', '{"text": ""}', "[" * 100_000])
def test_an_answer_of_the_probe_that_is_none_is_refused(machine: MachineMaker, answer: str) -> None:
    """It is not reported as a file system of size 0."""
    with pytest.raises(ParseError, match="statvfs of '/srv/closed'"):
        read_filesystems(machine({**FILES, PATH: MOUNTS + CLOSED, ANSWER: answer}))


def test_no_mount_table_no_answer(machine: MachineMaker) -> None:
    """The mounts are unknown."""
    with pytest.raises(AbsentError, match=PATH):
        read_filesystems(machine({"/.statvfs": statvfs("8:2")}))


@pytest.mark.parametrize("text", ["", "blocks 1\n", statvfs("8:2").replace("1000", "-1")])
def test_a_text_that_is_no_answer_is_refused(text: str) -> None:
    """A truncated recording, or one with errors written by hand."""
    with pytest.raises(ParseError, match="statvfs of '/': expected lines"):
        parse_statvfs(text, EXT4)


@given(st.text(max_size=200), st.sampled_from(["ext4", "btrfs"]))
def test_any_text_is_an_answer_or_refused(text: str, kind: str) -> None:
    """No text raises another error."""
    mount = Mount("8:2", "/dev/sda2", "/", "/", kind, ("rw",), ("rw",))
    with contextlib.suppress(ParseError):
        parse_statvfs(text, mount)
