"""Which file an unreadable sector was of, beside the mails that tell of it."""

from __future__ import annotations

import random
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING

from support import images
from support.images import SECTOR, Imaged
from support.recordings import write_tree

from iowarden.collectors.event import Event
from iowarden.daemon import files_hit
from iowarden.daemon.files_hit import FilesHit, Hit, Wanted, wanted
from iowarden.daemon.locate import Located
from iowarden.rules.located import Answer, Kind

if TYPE_CHECKING:
    from pathlib import Path

START = 2048
MOUNTS = "31 22 8:17 / /srv rw - ext4 /dev/sdb1 rw\n"


def medium_error(sector: int | None, **fields: str) -> Event:
    """A line of the kernel about a sector of the whole disk."""
    told = {"device": "sdb", **fields}
    return Event("kernel", "block_medium_error", "a line", sector=sector, **told)  # type: ignore[arg-type]


def machine(tmp_path: Path, text: bytes) -> tuple[Imaged, int]:
    """A disk with one partition and on it a file; and the sector where the file begins."""
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "table").write_bytes(text)
    image = tmp_path / "image"
    images.make_ext4(image, tmp_path / "files", "-b", "4096")
    sectors = image.stat().st_size // SECTOR
    write_tree(
        tmp_path / "machine",
        {
            **images.disk("sdb", START + sectors + 4096, "8:16"),
            **images.partition("sdb", 17, START, sectors),
            "/proc/1/mountinfo": MOUNTS,
        },
    )
    root = Imaged(str(tmp_path / "machine"), {"/dev/sdb17": str(image)})
    return root, START + min(images.where_is(image.read_bytes(), text))


def test_the_file_of_a_sector_is_found_once_a_day(tmp_path: Path) -> None:
    """With what to do about it; asked again the next day."""
    root, sector = machine(tmp_path, random.Random(1).randbytes(50_000))
    hits: SimpleQueue[Hit] = SimpleQueue()
    now = 1000.0
    files = FilesHit(lambda: root, lambda: now, hits.put)
    question = wanted(medium_error(sector), "disk S-B")
    assert question == Wanted("disk S-B", "sdb", sector, 8)
    files.ask(question)
    hit = hits.get(timeout=60)
    files.take(hit)
    assert hit.certain
    asked = len(root.asked)
    files.ask(question)
    assert (len(root.asked), hits.empty()) == (asked, True)
    (line,) = files_hit.evidence(files.hits(["disk S-B"], 0.0), lambda at: at)
    assert "file /srv/table, bytes 0 to 4095" in line.text
    assert files_hit.affected([hit]) == ("file /srv/table",)
    (text,) = files_hit.advice([hit])
    assert "restore /srv/table from a backup" in text
    assert "destroys: bytes 0 to 4095" in text
    assert files.hits(["disk S-B"], now + 1) == []
    now += 90_000
    files.ask(question)
    assert hits.get(timeout=60).certain


def test_a_file_on_an_array_that_is_whole_is_not_said_to_be_lost() -> None:
    """Its sectors on one member are."""
    one, other = (
        Answer(8, 8, Kind.FILE, "", path=path, array=array)
        for path, array in (("/srv/a", "md0"), ("/srv/b", ""))
    )
    hit = Hit("disk S-B", 0.0, "sdb", 8, Located("sdb", 8, 8, (one, other)))
    assert files_hit.affected([hit]) == (
        "file /srv/a, which md0 still reads from its other members",
        "file /srv/b",
    )


def test_what_btrfs_has_a_second_time_is_not_said_to_be_lost_and_clones_are_all_named() -> None:
    """A mirror of btrfs itself; without one each clone of a block is hit with it."""
    mirrored = Answer(
        8, 8, Kind.FILE, "", path="/srv/a", file_system="btrfs", copies="RAID1", device="sdb1"
    )
    shared = replace(mirrored, path="/srv/b", other_paths=("/srv/clone",), copies="")
    hit = Hit("disk S-B", 0.0, "sdb", 8, Located("sdb", 8, 8, (mirrored, shared)))
    assert files_hit.affected([hit]) == (
        "file /srv/a, of which btrfs has more than this (RAID1)",
        "file /srv/b",
        "file /srv/clone",
    )
    first, second = files_hit.advice([hit])
    assert "    btrfs scrub start -B /dev/sdb1" in first.splitlines()
    assert "restore /srv/b from a backup" in second


def test_what_cannot_be_told_says_why(tmp_path: Path) -> None:
    """The disk is gone by then: that is the answer, and no mail of its own."""
    root, _ = machine(tmp_path, b"x" * 5000)
    hits: SimpleQueue[Hit] = SimpleQueue()
    files = FilesHit(lambda: root, lambda: 0.0, hits.put)
    files.ask(Wanted("disk S-C", "sdc", 8, 8))
    hit = hits.get(timeout=60)
    assert not hit.certain
    (line,) = files_hit.evidence([hit], lambda at: at)
    assert "sdc sector 8: cannot be told: 'sdc': expected a block device" in line.text
    assert (files_hit.affected([hit]), files_hit.advice([hit])) == ((), ())


def test_what_begins_within_a_page_does_not_reach_into_the_next() -> None:
    """That may be another file, which the advice would have overwritten."""
    for sectors, expected in ((None, 3), (8, 3), (16, 11), (3, 3), (1, 1)):
        told = replace(medium_error(13_413), sectors=sectors)
        question = wanted(told, "disk S-B")
        assert question == Wanted("disk S-B", "sdb", 13_413, expected)
    assert wanted(replace(medium_error(13_408), sectors=16), "x") == Wanted("x", "sdb", 13_408, 16)
    # The last sector of a disk: more than it has would be refused.
    assert wanted(medium_error(55_295), "x") == Wanted("x", "sdb", 55_295, 1)


def test_only_sectors_of_a_whole_device_are_asked_for() -> None:
    """Blocks of a file system, lines without a sector, a controller's own numbers are not."""
    assert wanted(medium_error(None), "disk S-B") is None
    assert wanted(medium_error(8, device=""), "disk S-B") is None
    assert wanted(Event("kernel", "fs_error", "x", device="sdb1", sector=8), "disk S-B") is None
    assert wanted(Event("3ware", "block_medium_error", "x", sector=8), "disk S-B") is None
    far = Event("kernel", "block_medium_error", "x", device="sdb", sector=8, sectors=256)
    assert wanted(far, "disk S-B") == Wanted("disk S-B", "sdb", 8, 256)
