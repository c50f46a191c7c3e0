"""The file of a sector on btrfs: real file systems, searched for the bytes of their files."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from support.images import SECTOR, where_is, written
from support.loops import at, command, loops, mount

from iowarden.collectors.machine import Machine
from iowarden.daemon.locate.locate import locate
from iowarden.daemon.probe_client.client import Client
from iowarden.daemon.probe_client.connect import spawn
from iowarden.rules.topology.file_location import ContentKind, sentence, steps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from iowarden.rules.topology.file_location import SectorContent

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes loop devices and mounts")

MEBIBYTES = 160
NAMES = {"base/1/2619": 300_000, "base/1/2620": 40_001, "wal": 900_000}


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """The probe as a child, as a run in the foreground has it."""
    client = Client(spawn(str(tmp_path_factory.mktemp("probe") / "run")), time.monotonic)
    client.begin()
    yield client
    client.close(5.0)


@contextlib.contextmanager
def made(
    tmp_path: Path, data: str, metadata: str, count: int = 1, *options: str
) -> Iterator[tuple[Path, list[tuple[str, Path]]]]:
    """Create a btrfs on loop devices: its mount point, and each device with its image."""
    with loops(tmp_path, count, MEBIBYTES) as devices:
        names = [f"/dev/{device}" for device, _ in devices]
        command("mkfs.btrfs", "-q", "-f", "-d", data, "-m", metadata, *names)
        command("btrfs", "device", "scan", *names)
        with at(tmp_path / "srv", names[0], *options) as point:
            yield point, devices


def fill(point: Path, seed: int = 11) -> dict[Path, bytes]:
    """Write files whose sectors are all different, and sync them to the devices."""
    made = random.Random(seed)
    found = {}
    for name, size in NAMES.items():
        path = point / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made.randbytes(size))
        found[path] = path.read_bytes()
    os.sync()
    return found


def ask(client: Client, device: str, start: int, count: int = 1) -> tuple[SectorContent, ...]:
    """Locate sectors; the answers cover the whole range, in order and without gaps."""
    answers = locate(Machine(probe=client.request), device, start, count, time.monotonic).answers
    place = start
    for answer in answers:
        assert answer.start == place
        place = answer.end
    assert place == start + count
    return answers


def judged(client: Client, device: str, sectors: dict[int, tuple[Path, int]]) -> set[str]:
    """Locate sectors with known content; return the reported copies."""
    told = set()
    for first, (path, offset) in sectors.items():
        (answer,) = ask(client, device, first)
        assert (answer.kind, answer.path, answer.mounted) == (ContentKind.FILE, str(path), True)
        assert (answer.offset_bytes, answer.bytes) == (offset, SECTOR)
        told.add(answer.copies)
    return told


def held(image: Path, files: dict[Path, bytes]) -> dict[int, tuple[Path, int]]:
    """Return for some sectors of an image their file: the first, the last and one between."""
    found = {}
    for path, content in files.items():
        sectors = where_is(image, content)
        places = sorted(sectors)
        for first in {*places[:1], *places[-1:], *places[len(places) // 2 :][:1]}:
            found[first] = path, sectors[first]
    return found


def sector_of(image: Path, content: bytes, offset: int = 0) -> int:
    """Return the sector of an image with a part of a content."""
    return next(sector for sector, at in where_is(image, content).items() if at == offset)


def blocks(image: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the blocks of an image that are not holes, with their position."""
    for start, data in written(image):
        for offset in range(0, len(data), 4096):
            yield start + offset, data[offset : offset + 4096]


def readable(path: Path) -> bool:
    """Whether all of a file can be read."""
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


def test_of_one_copy_the_named_file_is_the_damaged_one(tmp_path: Path, probe: Client) -> None:
    """Each file is found by its bytes on the disk; an overwritten block damages only its file."""
    with made(tmp_path, "single", "dup") as (point, [(device, image)]):
        files = fill(point)
        assert judged(probe, device, held(image, files)) == {""}
        sector = sector_of(image, files[point / "base/1/2619"], 8192)
        (answer,) = ask(probe, device, sector, 16)
        assert sentence(answer) == f"file {point}/base/1/2619, bytes 8192 to 16383"
        assert answer.chain[0] == f"{device} sector {sector}"
        assert answer.chain[1].startswith("btrfs address ")
        command("umount", str(point))
        with image.open("r+b") as disk:
            disk.seek(sector * SECTOR)
            disk.write(bytes(4096))
        mount(f"/dev/{device}", point)
        assert [path for path in files if not readable(path)] == [point / "base/1/2619"]
        (answer,) = ask(probe, device, sector, 8)
        assert answer.path == str(point / "base/1/2619")
        restore, delete = steps(answer, "sdb", 512)
        assert restore.text.startswith(f"restore {point}/base/1/2619 from a backup")
        assert delete.destroys
        assert restore.command == f'cp -p -- "$BACKUP" {point}/base/1/2619.restored'
        assert not restore.destroys + delete.command


def test_a_mirror_is_reported_and_a_scrub_repairs_what_it_named(
    tmp_path: Path, probe: Client
) -> None:
    """Both devices have the file; the advised command restores the bytes."""
    with made(tmp_path, "raid1", "raid1", 2) as (point, devices):
        files = fill(point)
        for device, image in devices:
            assert judged(probe, device, held(image, files)) == {"RAID1"}
        device, image = devices[1]
        content = files[point / "wal"]
        sector = sector_of(image, content, 409_600)
        with image.open("r+b") as disk:
            disk.seek(sector * SECTOR)
            disk.write(bytes(4096))
        (answer,) = ask(probe, device, sector, 8)
        assert (answer.path, answer.offset_bytes) == (str(point / "wal"), 409_600)
        (step,) = steps(answer, "sdb", 512)
        assert not step.destroys
        subprocess.run(step.command.split(), check=True, capture_output=True)
        assert sector_of(image, content, 409_600) == sector


def test_a_mirror_that_lost_a_device_has_nothing_elsewhere(tmp_path: Path, probe: Client) -> None:
    """Mounted 'degraded': the kernel reports the missing device."""
    with made(tmp_path, "raid1", "raid1", 2) as (point, [(device, image), (other, gone)]):
        files = fill(point)
        command("umount", str(point))
        command("btrfs", "device", "scan", "--forget", f"/dev/{device}", f"/dev/{other}")
        with gone.open("r+b") as disk:  # as if it were another disk
            disk.seek(64 << 10)
            disk.write(bytes(4096))
            disk.seek(64 << 20)
            disk.write(bytes(4096))
        mount(f"/dev/{device}", point, ["degraded"])
        sector = sector_of(image, files[point / "wal"])
        (answer,) = ask(probe, device, sector)
        assert (answer.path, answer.copies) == (str(point / "wal"), "")
        assert steps(answer)[0].text.startswith("btrfs (RAID1) has lost a member: nothing else")


@pytest.mark.parametrize(
    ("profile", "count"), [("raid0", 3), ("raid10", 4), ("raid1c3", 3), ("raid5", 3), ("raid6", 4)]
)
def test_of_what_is_spread_over_devices_each_part_is_found(
    tmp_path: Path, probe: Client, profile: str, count: int
) -> None:
    """Every device is searched; blocks without data of a file are parity or free."""
    with made(tmp_path, profile, "raid1", count) as (point, devices):
        files = fill(point)
        path, content = point / "wal", files[point / "wal"]
        where = {device: where_is(image, content) for device, image in devices}
        # Parity of a row that is not full is what is in it: that may be either.
        times = Counter(offset for places in where.values() for offset in places.values())
        copies = {"raid10": 2, "raid1c3": 3}.get(profile, 1)
        sure = {offset for offset, number in times.items() if number == copies}
        assert len(sure) > 1000
        parity = 0
        for device, places in where.items():
            some = sorted(sector for sector, offset in places.items() if offset in sure)
            known = {sector: (path, places[sector]) for sector in some[::499]}
            assert judged(probe, device, known) == {"" if profile == "raid0" else profile.upper()}
            for sector in range(some[0] // 128 * 128 + 64, some[-1], 128):
                if sector not in places:
                    kinds = {answer.kind for answer in ask(probe, device, sector, 8)}
                    parity += kinds == {ContentKind.PARITY}
        assert (parity > 0) == (profile in {"raid5", "raid6"})


def test_clones_snapshots_and_links_are_all_named(tmp_path: Path, probe: Client) -> None:
    """For a subvolume that is not mounted, the answer has the command to find the file."""
    with made(tmp_path, "single", "dup") as (point, [(device, image)]):
        command("btrfs", "subvolume", "create", str(point / "data"))
        files = fill(point / "data")
        content = files[point / "data/wal"]
        sector = sector_of(image, content, 4096)
        # The uppermost subvolume is mounted, 'data' only as a directory of it.
        (answer,) = ask(probe, device, sector)
        assert (answer.kind, answer.path, answer.offset_bytes) == (ContentKind.FILE, "", 4096)
        see = f"'btrfs inspect-internal inode-resolve {answer.inode} {point}/data'"
        assert f"of subvolume 256 ('data'), which is not mounted by itself: see {see}" in (
            answer.text
        )
        named = command(*see.strip("'").split())
        assert named == f"{point}/data/wal"
        with at(tmp_path / "data", f"/dev/{device}", "subvol=data") as data:
            os.link(data / "wal", data / "base/link")
            command("cp", "--reflink=always", str(data / "wal"), str(data / "base/clone"))
            command("btrfs", "subvolume", "snapshot", "-r", str(data), str(point / "snapshot"))
            os.sync()
            (answer,) = ask(probe, device, sector)
            here = {answer.path, *answer.other_paths}
            # The shortest mount point that has it: all of it is below the uppermost one.
            assert {name.rpartition("/data/")[2] for name in here} == {
                "wal",
                "base/link",
                "base/clone",
            }
            assert all(os.path.exists(name) for name in here)
            assert "('snapshot'), which is not mounted by itself" in answer.text
            assert "each of them is affected" in answer.text
        with at(tmp_path / "data", f"/dev/{device}", "subvol=snapshot") as snapshot:
            command("umount", str(point))
            try:
                (answer,) = ask(probe, device, sector)
            finally:
                mount(f"/dev/{device}", point)
            names = ("wal", "base/link", "base/clone")
            assert {answer.path, *answer.other_paths} == {str(snapshot / name) for name in names}
            assert "('data'), which is not mounted by itself" in answer.text


def test_what_no_file_has_any_longer_is_free(tmp_path: Path, probe: Client) -> None:
    """A deleted file; a deleted file that is open; the overwritten part of an extent."""
    with made(tmp_path, "single", "dup") as (point, [(device, image)]):
        files = fill(point)
        first, second, third = (sector_of(image, content, 8192) for content in files.values())
        with (point / "base/1/2619").open("r+b") as file:
            file.seek(8192)
            file.write(bytes(4096))
        (point / "base/1/2620").unlink()
        with (point / "wal").open("rb"):
            (point / "wal").unlink()
            os.sync()
            command("btrfs", "filesystem", "sync", str(point))
            (answer,) = ask(probe, device, first, 8)
            assert (answer.kind, answer.text) == (
                ContentKind.FREE,
                "no longer part of a file: unused part of an extent that files still use",
            )
            (answer,) = ask(probe, device, first + 8)
            assert (answer.path, answer.offset_bytes) == (str(point / "base/1/2619"), 12_288)
            (answer,) = ask(probe, device, second)
            assert (answer.kind, answer.text) == (
                ContentKind.FREE,
                "not part of a file: free space of btrfs",
            )
            (answer,) = ask(probe, device, third)
            assert (answer.kind, answer.path) == (ContentKind.FILE, "")
            assert "has no name: deleted, and perhaps still open" in answer.text


def test_a_compressed_block_is_a_longer_part_of_its_file(tmp_path: Path, probe: Client) -> None:
    """The bytes in a block of it are unknown: the answer covers the whole extent."""
    options = ("compress-force=zstd",)
    with made(tmp_path, "single", "dup", 1, *options) as (point, [(device, image)]):
        made_by = random.Random(3)
        words = [bytes(made_by.choices(b"abcdefgh", k=4096)) for _ in range(100)]
        before = dict(blocks(image))
        (point / "text").write_bytes(b"".join(words))
        os.sync()
        # Data are the longest run of blocks that were nothing before and are something now.
        new = [at for at, block in blocks(image) if block != before.get(at) and any(block)]
        answers = [
            answer
            for at in new[::2]
            for answer in ask(probe, device, at // SECTOR)
            if answer.kind is ContentKind.FILE
        ]
        assert {answer.path for answer in answers} == {str(point / "text")}
        assert {answer.offset_bytes for answer in answers} == {0, 131072, 262144, 393216}
        assert {answer.bytes for answer in answers} == {131072}
        assert all(answer.text.startswith("compressed") for answer in answers)
        assert 15 < len(answers) < 30  # fewer than it has unpacked


def test_what_is_no_files_on_btrfs(tmp_path: Path, probe: Client) -> None:
    """The first MiB, superblocks, metadata with its copy, unallocated space, and the end."""
    with made(tmp_path, "single", "dup") as (point, [(device, image)]):
        fill(point)
        kinds = [answer.kind for answer in ask(probe, device, 0, 2048)]
        assert kinds == [ContentKind.RESERVED, ContentKind.METADATA, ContentKind.RESERVED]
        (_, superblock, _) = ask(probe, device, (64 << 11) - 8, 24)
        assert superblock.text == "the second superblock of btrfs"
        assert "btrfs rewrites it with the next change" in steps(superblock)[0].text
        directory = max(at + data.rindex(b"2619") for at, data in written(image) if b"2619" in data)
        (answer,) = ask(probe, device, directory // SECTOR)
        assert (answer.kind, answer.copies) == (ContentKind.METADATA, "DUP")
        assert answer.text == "of btrfs: metadata (DUP), or room for it"
        (step,) = steps(answer)
        assert step.command == f"btrfs scrub start -B /dev/{device}"
        (answer,) = ask(probe, device, (MEBIBYTES << 11) - 1)
        assert (answer.kind, answer.text) == (
            ContentKind.FREE,
            "not part of a file: btrfs has not allocated it",
        )


def test_a_balance_moves_files_and_the_answer_with_them(tmp_path: Path, probe: Client) -> None:
    """The device is read through a cache: the map must not be outdated."""
    with made(tmp_path, "single", "dup") as (point, [(device, image)]):
        files = fill(point)
        content = files[point / "wal"]
        before = sector_of(image, content)
        assert ask(probe, device, before)[0].path == str(point / "wal")
        for _ in range(3):
            with image.open("r+b") as disk:  # what is not used any longer may still be there
                disk.seek(before * SECTOR)
                old = disk.read(SECTOR)
            assert old == content[:SECTOR]
            command("btrfs", "balance", "start", "--full-balance", str(point))
            os.sync()
            for sector, offset in where_is(image, content).items():
                if offset == 0:
                    (answer,) = ask(probe, device, sector)
                    if answer.kind is ContentKind.FILE:
                        assert answer.path == str(point / "wal")
                        before = sector
                    else:
                        assert answer.kind in {ContentKind.FREE, ContentKind.METADATA}
            (answer,) = ask(probe, device, before)
            assert (answer.path, answer.offset_bytes) == (str(point / "wal"), 0)
