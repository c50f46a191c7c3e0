"""The file of a sector on mounted file systems, by the real probe. Needs root."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import re
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from support.images import PLACES, SECTOR, where_is
from support.loops import command

from iowarden.collectors.machine import Machine
from iowarden.collectors.model import ReadError
from iowarden.daemon.locate.locate import locate
from iowarden.daemon.probe_client.client import Client
from iowarden.daemon.probe_client.connect import spawn
from iowarden.rules.topology.file_location import ContentKind, sentence, steps, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from iowarden.rules.topology.file_location import SectorContent

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes loop devices and mounts")


@contextlib.contextmanager
def mounted(tmp_path: Path, mebibytes: int, *make: str) -> Iterator[tuple[str, Path, Path]]:
    """Create and mount a file system on a loop device: device, mount point, image."""
    image, point = tmp_path / "image", tmp_path / "srv"
    point.mkdir()
    with image.open("wb") as file:
        file.truncate(mebibytes << 20)
    device = command("losetup", "--find", "--show", str(image))
    try:
        command(*make, device)
        command("mount", device, str(point))
        try:
            yield device.removeprefix("/dev/"), point, image
        finally:
            command("umount", str(point))
    finally:
        command("losetup", "--detach", device)


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """The probe as a child, as a run in the foreground has it."""
    client = Client(spawn(str(tmp_path_factory.mktemp("probe") / "run")), time.monotonic)
    client.begin()
    yield client
    client.close(5.0)


def fill(point: Path) -> dict[Path, bytes]:
    """Write files and sync them to the device."""
    made = random.Random(11)
    found = {}
    for name, size in (("base/1/2619", 300_000), ("base/1/2620", 40_001), ("wal", 900_000)):
        path = point / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made.randbytes(size))
        found[path] = path.read_bytes()
    os.sync()
    return found


def judged(client: Client, device: str, image: Path, files: dict[Path, bytes]) -> int:
    """Locate sectors of files; return how many, each found in the file with its bytes."""
    root = Machine(probe=client.request)
    raw = image.read_bytes()
    checked = 0
    for path, content in files.items():
        sectors = where_is(image, content)
        assert sectors
        for first in (min(sectors), max(sectors), sorted(sectors)[len(sectors) // 2]):
            (answer,) = locate(root, device, first, 1, time.monotonic).answers
            assert (answer.kind, answer.path) == (ContentKind.FILE, str(path))
            assert answer.offset_bytes == sectors[first]
            assert answer.bytes
            held = content[answer.offset_bytes : answer.offset_bytes + answer.bytes]
            there = raw[first * SECTOR : first * SECTOR + answer.bytes]
            assert hashlib.sha256(there).digest() == hashlib.sha256(held).digest()
            checked += 1
    return checked


@pytest.mark.parametrize("block_bytes", ["1024", "4096"])
def test_the_file_of_a_mounted_ext4_is_named(
    tmp_path: Path, probe: Client, block_bytes: str
) -> None:
    """Written while mounted: the answer is the kernel's state, with the path on this host."""
    with mounted(tmp_path, 32, "mkfs.ext4", "-q", "-b", block_bytes) as (device, point, image):
        assert judged(probe, device, image, fill(point)) == 9


SECRETS = ("SECRET-VALUE", "SECRET-TARGET", "SECRET-NAME", "SECRET-SHORT")


def test_the_service_gets_no_attribute_no_target_and_no_other_name(
    tmp_path: Path, probe: Client
) -> None:
    """Every block of a file system is asked for: the probe names the owners, and no more.

    A compromised service asks what it may ask; only the file with a secret name is its own answer.
    """
    with mounted(tmp_path, 16, "mkfs.ext4", "-q", "-b", "1024") as (device, point, image):
        files = fill(point)
        os.symlink("/SECRET-TARGET" * 20, point / "long link")
        os.symlink("/SECRET-SHORT", point / "short link")
        os.setxattr(next(iter(files)), "user.x", b"SECRET-VALUE" * 40)
        (point / "base/SECRET-NAME").write_bytes(random.Random(5).randbytes(5000))
        os.sync()
        sectors = image.stat().st_size // SECTOR
        told = {
            start: probe.request("ext4_owners", (f"/dev/{device}", str(start), "256"), 60.0)
            for start in range(0, sectors, 256)
        }
        everything = "".join(told.values())
        assert [secret for secret in SECRETS if secret in everything] == ["SECRET-NAME"]
        assert all(name.name in everything for name in (*files, point / "long link"))
        content = (point / "base/SECRET-NAME").read_bytes()
        own = {first // 256 * 256 for first in where_is(image, content)}
        assert {start for start, text in told.items() if "SECRET-NAME" in text} == own
        for request in ("stat <12>", "ncheck 12", "icheck 600", "stats -h"):
            words = ("debugfs", "-c", "-R", request, f"/dev/{device}")
            with pytest.raises(ReadError, match="expected a program that root may run"):
                probe.request("run", words, 60.0)


def test_the_file_of_a_mounted_xfs_is_named_where_it_has_a_reverse_map(
    tmp_path: Path, probe: Client
) -> None:
    """Owner by fsmap, name by find; free space, journal and metadata are recognized."""
    make = ("mkfs.xfs", "-q", "-m", "rmapbt=1")
    with mounted(tmp_path, 320, *make) as (device, point, image):
        command("xfs_io", "-V")
        assert judged(probe, device, image, fill(point)) == 9
        answers = locate(Machine(probe=probe.request), device, 0, 8, time.monotonic).answers
        assert [each.kind for each in answers] == [ContentKind.METADATA]


def test_an_xfs_without_a_reverse_map_names_nobody(tmp_path: Path, probe: Client) -> None:
    """The kernel reports 'unknown' for all used space: the answer names another command."""
    make = ("mkfs.xfs", "-q", "-m", "rmapbt=0")
    with mounted(tmp_path, 320, *make) as (device, point, image):
        command("xfs_io", "-V")
        files = fill(point)
        sector = min(where_is(image, next(iter(files.values()))))
        answer: SectorContent
        (answer,) = locate(Machine(probe=probe.request), device, sector, 1, time.monotonic).answers
        assert answer.kind is ContentKind.UNKNOWN
        assert "has no reverse map" in answer.text
        assert re.search(rf'xfs_db -r .* "daddr {sector}"', answer.text)


def test_what_is_advised_heals_the_file(tmp_path: Path, probe: Client) -> None:
    """The kernel cannot read the last block of a file; that of the backup replaces it.

    The image of the loop device is cut there, and grows again when the block is written.
    """
    image, point, backup = tmp_path / "image", tmp_path / "srv", tmp_path / "backup"
    content = random.Random(6).randbytes(100_001)
    backup.write_bytes(content)
    point.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)
    command("mkfs.ext4", "-q", "-b", "4096", "-O", "^has_journal", str(image))
    device = command("losetup", "--find", "--show", "--direct-io=on", str(image))
    with contextlib.ExitStack() as stack:
        stack.callback(command, "losetup", "--detach", device)
        command("mount", device, str(point))
        stack.callback(command, "umount", str(point))
        (point / "table").write_bytes(content)
        command("umount", str(point))
        last = max(where_is(image, content)) // 8 * 8
        os.truncate(image, last * SECTOR)
        command("mount", device, str(point))
        with pytest.raises(OSError, match="Input/output error"):
            (point / "table").read_bytes()
        name = device.removeprefix("/dev/")
        found = locate(Machine(probe=probe.request), name, last, 8, time.monotonic)
        (answer,) = found.answers
        said = f"file {point}/table, bytes 98304 to 100000"
        assert sentence(answer) == said
        many = unreadable(name, last - 16, last + 8)
        assert run(many.command).split() == [str(last + at) for at in range(8)]
        anew, _, restore, *_ = steps(answer)
        run(anew.command, BACKUP=str(backup))
        assert (point / "table").read_bytes() == content
        run(restore.command, BACKUP=str(backup))
        assert (point / "table").read_bytes() == content
        for step in (anew, restore):  # where nobody said which backup, nothing is overwritten
            run(step.command, fails=True)
        assert (point / "table").read_bytes() == content


def run(line: str, *, fails: bool = False, **environment: str) -> str:
    """Run a command as copied from the output."""
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        env={"PATH": PLACES, **environment},
        capture_output=True,
        text=True,
        check=not fails,
    )
    assert fails is (done.returncode != 0)
    return done.stdout
