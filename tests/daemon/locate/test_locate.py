"""The file of a sector: images of file systems, read by the real programs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from support import images
from support.images import SECTOR, Imaged
from support.memory import write_tree

from iowarden.daemon.locate.locate import LocateError, locate
from iowarden.rules.topology import file_location
from iowarden.rules.topology.file_location import ContentKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from iowarden.rules.topology.file_location import SectorContent

MOUNTS = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n31 22 {number} / /srv rw - {kind} /dev/x rw\n"


@pytest.fixture
def content() -> dict[str, bytes]:
    """Return files whose sectors are all different."""
    made = random.Random(7)
    return {
        "pg/base/16384": made.randbytes(700_001),
        "pg/base/16385": made.randbytes(40_000),
        "a name with ' and blank": made.randbytes(9_000),
    }


def written(directory: Path, content: Mapping[str, bytes]) -> Path:
    """Write files."""
    for name, text in content.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    return directory


def ext4(tmp_path: Path, content: Mapping[str, bytes], *options: str) -> Path:
    """Make an ext4 of files, and return the image."""
    image = tmp_path / "image"
    images.make_ext4(image, written(tmp_path / "files", content), *options)
    return image


def on_partition(
    tmp_path: Path, image: Path, start: int = 2048, kind: str = "ext4", mounts: str = MOUNTS
) -> Imaged:
    """Return a machine with the image as the first partition of sdb, mounted at '/srv'."""
    sectors = image.stat().st_size // SECTOR
    write_tree(
        tmp_path / "machine",
        {
            **images.disk("sdb", start + sectors + 4096, "8:16"),
            **images.partition("sdb", 17, start, sectors),
            "/proc/1/mountinfo": mounts.format(number="8:17", kind=kind),
        },
    )
    return Imaged(str(tmp_path / "machine"), {"/dev/sdb17": str(image)})


def ask(root: Imaged, device: str, start: int, count: int = 1) -> tuple[SectorContent, ...]:
    """Locate sectors; the answers cover the whole range, in order and without gaps."""
    answers = locate(root, device, start, count, lambda: 0.0).answers
    at = start
    for answer in answers:
        assert answer.start == at
        at = answer.end
    assert at == start + count
    return answers


def runs(sectors: Iterable[int]) -> list[tuple[int, int]]:
    """Return sectors as ranges."""
    found: list[tuple[int, int]] = []
    for sector in sorted(sectors):
        if found and found[-1][0] + found[-1][1] == sector:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((sector, 1))
    return found


@pytest.mark.parametrize(
    ("block_bytes", "start"), [(1024, 63), (2048, 2048), (4096, 63), (4096, 2048)]
)
def test_every_sector_of_a_file_is_found_in_the_file(
    tmp_path: Path, content: dict[str, bytes], block_bytes: int, start: int
) -> None:
    """Disk, partition, ext4 with blocks of 1 to 4 KiB: the bytes on the disk are the file's."""
    image = ext4(tmp_path, content, "-b", str(block_bytes))
    root = on_partition(tmp_path, image, start)
    raw = image.read_bytes()
    for name, text in content.items():
        truth = images.where_is(raw, text)
        assert len(truth) == -(-len(text) // SECTOR)
        for first, count in runs(truth)[:3]:
            size = min(count, 200)
            for answer in ask(root, "sdb", start + first, size):
                assert (answer.kind, answer.path) == (ContentKind.FILE, f"/srv/{name}")
                assert answer.offset_bytes is not None
                assert answer.bytes is not None
                at = (answer.start - start) * SECTOR
                held = text[answer.offset_bytes : answer.offset_bytes + answer.bytes]
                assert raw[at : at + answer.bytes] == held
                assert answer.bytes in {answer.count * SECTOR, len(text) - answer.offset_bytes}


def test_a_sector_is_reported_with_the_way_up_to_its_file(
    tmp_path: Path, content: dict[str, bytes]
) -> None:
    """Disk, partition, block of the file system."""
    image = ext4(tmp_path, content, "-b", "4096")
    root = on_partition(tmp_path, image)
    first = min(images.where_is(image, content["pg/base/16385"]))
    (answer,) = ask(root, "sdb", 2048 + first + 3, 2)
    assert answer.chain == (
        f"sdb sector {2048 + first + 3}",
        f"sdb17 sector {first + 3}",
        f"ext4 block {first // 8}",
    )
    assert file_location.sentence(answer) == "file /srv/pg/base/16385, bytes 1536 to 2559"
    assert (answer.array, answer.degraded, answer.mounted) == ("", "", True)


def test_what_is_no_files_is_reported_as_what_it_is(
    tmp_path: Path, content: dict[str, bytes]
) -> None:
    """Free space, superblock, journal, a directory, sectors outside of every partition."""
    image = ext4(tmp_path, content, "-b", "4096")
    root = on_partition(tmp_path, image)
    last = image.stat().st_size // SECTOR
    assert [each.kind for each in ask(root, "sdb", 2048 + last - 16, 16)] == [ContentKind.FREE]
    assert [each.kind for each in ask(root, "sdb", 2040, 16)] == [
        ContentKind.RESERVED,
        ContentKind.METADATA,
    ]
    # The group's descriptors behind the superblock: a range from block 0 on is told as a whole.
    assert {each.kind for each in ask(root, "sdb", 2048, 16)} == {ContentKind.METADATA}
    assert [each.kind for each in ask(root, "sdb", 2048 + last, 16)] == [ContentKind.RESERVED]
    raw = image.read_bytes()
    directory = next(
        at // SECTOR for at in range(0, last * SECTOR, 4096) if b"16384" in raw[at : at + 64]
    )
    (answer,) = ask(root, "sdb17", directory)
    assert (answer.kind, answer.path) == (ContentKind.METADATA, "/srv/pg/base")
    journal = raw.index(b"\xc0\x3b\x39\x98")  # JBD2_MAGIC_NUMBER, big endian
    (answer,) = ask(root, "sdb17", journal // SECTOR)
    assert (answer.kind, answer.text) == (ContentKind.JOURNAL, "of ext4 on sdb17")


def test_only_free_blocks_cost_no_walk_through_all_inodes(
    tmp_path: Path, content: dict[str, bytes]
) -> None:
    """The bitmaps show it; icheck would take minutes on a large disk."""
    image = ext4(tmp_path, content)
    root = on_partition(tmp_path, image)
    ask(root, "sdb", 2048 + image.stat().st_size // SECTOR - 64, 64)
    assert [line.split("-R ")[1].split()[0] for line in root.asked] == ["stats", "testb"]


def test_a_file_with_many_blocks_has_some_that_report_where_the_others_are(
    tmp_path: Path, content: dict[str, bytes]
) -> None:
    """ext2: if the indirect block is unreadable, so are a thousand others."""
    image = ext4(tmp_path, content, "-b", "1024", "-O", "^extent,^64bit")
    root = on_partition(tmp_path, image, kind="ext2")
    truth = images.where_is(image, content["pg/base/16384"])
    hole = next(end for start, count in runs(truth) if (end := start + count) not in truth)
    (answer,) = ask(root, "sdb17", hole, 2)
    assert answer.kind is ContentKind.METADATA
    assert answer.text.startswith("block list of /srv/pg/base/16384")


def test_a_deleted_file_has_no_name(tmp_path: Path, content: dict[str, bytes]) -> None:
    """Removed from its directory, its inode still in use: an open file, or an orphan."""
    image = ext4(tmp_path, content, "-b", "4096")
    images.debugfs(image, "unlink /pg/base/16385")
    root = on_partition(tmp_path, image)
    first = min(images.where_is(image, content["pg/base/16385"]))
    (answer,) = ask(root, "sdb17", first)
    assert (answer.kind, answer.path) == (ContentKind.FILE, "")
    assert "no name: the file is deleted" in answer.text


def test_a_file_system_that_is_not_mounted_has_names_of_its_own(
    tmp_path: Path, content: dict[str, bytes]
) -> None:
    """udev reports the type; the name is the path in the file system."""
    image = ext4(tmp_path, content)
    root = on_partition(tmp_path, image, mounts="22 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
    write_tree(tmp_path / "machine", {"/run/udev/data/b8:17": "E:ID_FS_TYPE=ext4\n"})
    first = min(images.where_is(image, content["pg/base/16385"]))
    (answer,) = ask(root, "sdb", 2048 + first)
    assert (answer.path, answer.mounted) == ("/pg/base/16385", False)
    # What cannot be found is not overwritten either.
    assert not any("dd " in step.command for step in file_location.steps(answer, "sdb", 512))


def test_a_damaged_superblock_is_a_reason(tmp_path: Path, content: dict[str, bytes]) -> None:
    """debugfs cannot open it: that is the reason, not a free block."""
    image = ext4(tmp_path, content)
    with image.open("r+b") as file:
        file.write(bytes(4096))
    root = on_partition(tmp_path, image)
    (answer,) = ask(root, "sdb", 4096, 8)
    assert answer.kind is ContentKind.UNKNOWN
    assert "Bad magic number" in answer.text


def test_without_debugfs_nobody_is_named(tmp_path: Path, content: dict[str, bytes]) -> None:
    """The program is not installed, or the probe is not running: that is the reason."""
    image = ext4(tmp_path, content)
    root = on_partition(tmp_path, image)
    root.images = {}
    (answer,) = ask(root, "sdb", 4096, 8)
    assert (answer.kind, answer.text) == (ContentKind.UNKNOWN, "'debugfs': not here")
    assert file_location.sentence(answer) == "cannot be determined: 'debugfs': not here"


def test_time_that_is_over_is_a_reason(tmp_path: Path, content: dict[str, bytes]) -> None:
    """The whole query has a timeout, whatever its steps take."""
    root = on_partition(tmp_path, ext4(tmp_path, content))
    ticks = iter(range(0, 10_000, 100))
    found = locate(root, "sdb", 4096, 8, lambda: float(next(ticks)), 50.0)
    (answer,) = found.answers
    assert answer.kind is ContentKind.UNKNOWN
    assert "the timeout of the whole query is reached" in answer.text


# --- arrays and volumes


def member_files(
    slot: int, device: str, offset: int, sectors: int, name: str = "md0"
) -> dict[str, str]:
    """Return the sysfs files of a member."""
    path = f"/sys/block/{name}/md/dev-{device}"
    return {
        f"{path}/slot": f"{slot}\n",
        f"{path}/offset": f"{offset}\n",
        f"{path}/new_offset": f"{offset}\n",
        f"{path}/size": f"{sectors // 2}\n",
        f"{path}/state": "in_sync\n",
    }


def array_files(level: str, disks: int, number: int, chunk: int, sectors: int) -> dict[str, str]:
    """Return the sysfs files of an array."""
    return {
        "/sys/block/md0/md/level": f"{level}\n",
        "/sys/block/md0/md/raid_disks": f"{disks}\n",
        "/sys/block/md0/md/layout": f"{number}\n",
        "/sys/block/md0/md/chunk_size": f"{chunk * SECTOR}\n",
        "/sys/block/md0/md/component_size": f"{sectors // 2}\n",
        "/sys/block/md0/md/array_state": "clean\n",
        "/sys/block/md0/md/degraded": "0\n",
        "/sys/block/md0/md/metadata_version": "1.2\n",
        "/sys/block/md0/md/reshape_position": "none\n",
    }


def raid5(tmp_path: Path, image: Path, chunk: int = 128) -> tuple[Imaged, list[bytearray]]:
    """Spread an image over a raid5 of three; return the machine, and the data on its members."""
    raw = image.read_bytes()
    whole = len(raw) // SECTOR
    component = whole // 2
    files: dict[str, str | bytes | None] = dict(images.disk("md0", whole, "9:0"))
    files |= array_files("raid5", 3, 2, chunk, component)
    for slot, name in enumerate(("sdb", "sdc", "sdd")):
        files |= images.disk(name, component + 4096, f"8:{16 * (slot + 1)}", "md0")
        files |= member_files(slot, name, 2048 + slot, component)
    files["/proc/1/mountinfo"] = MOUNTS.format(number="9:0", kind="ext4")
    write_tree(tmp_path / "machine", files)
    root = Imaged(str(tmp_path / "machine"), {"/dev/md0": str(image)})
    members = [bytearray((component + 4096) * SECTOR) for _ in range(3)]
    row_bytes = chunk * SECTOR
    for row in range(component // chunk):
        p = 2 - row % 3
        for data in range(2):
            at = (row * 2 + data) * row_bytes
            slot = (p + 1 + data) % 3
            own = (2048 + slot + row * chunk) * SECTOR
            members[slot][own : own + row_bytes] = raw[at : at + row_bytes]
    return root, members


def test_a_sector_of_a_raid5_is_in_the_file_whose_bytes_it_has(
    tmp_path: Path, content: dict[str, bytes]
) -> None:
    """Left-symmetric, as the kernel documents it; neither data nor parity is lost."""
    root, members = raid5(tmp_path, ext4(tmp_path, content, "-b", "4096"))
    text = content["pg/base/16384"]
    seen = 0
    for slot, name in enumerate(("sdb", "sdc", "sdd")):
        for first, count in runs(images.where_is(bytes(members[slot]), text)):
            seen += count
            for answer in ask(root, name, first, min(count, 120)):
                assert (answer.kind, answer.path) == (ContentKind.FILE, "/srv/pg/base/16384")
                at, offset = answer.start * SECTOR, answer.offset_bytes or 0
                assert answer.bytes
                assert members[slot][at : at + answer.bytes] == text[offset : offset + answer.bytes]
                assert answer.array == "md0"
                (step,) = file_location.steps(answer, name, 512)
                assert step.command == "echo check > /sys/block/md0/md/sync_action"
                assert not step.destroys
    assert seen == -(-len(text) // SECTOR)
    kinds = [each.kind for each in ask(root, "sdd", 2048, 2 + 128)]
    assert kinds[:2] == [ContentKind.RESERVED, ContentKind.PARITY]


def test_an_array_that_lost_a_member_cannot_report_what_was_there(
    tmp_path: Path, content: dict[str, bytes]
) -> None:
    """Then the file is really affected: it must be restored from a backup."""
    root, members = raid5(tmp_path, ext4(tmp_path, content, "-b", "4096"))
    write_tree(tmp_path / "machine", {"/sys/block/md0/md/degraded": "1\n"})
    first = min(images.where_is(bytes(members[0]), content["pg/base/16384"]))
    (answer,) = ask(root, "sdb", first)
    assert (answer.array, answer.degraded) == ("", "md0")
    steps = file_location.steps(answer, "sdb", 512)
    assert steps[0].text.startswith("md0 has lost a member: nothing else holds these data; with a")
    (parity,) = ask(root, "sdd", 2050)
    (step, *_) = file_location.steps(parity)
    assert step.text.endswith("its part of this stripe is lost")


def test_a_reshape_is_the_reason_why_no_file_is_named(
    tmp_path: Path, content: dict[str, bytes]
) -> None:
    """'mdadm --grow': the kernel prints two numbers, and a position."""
    root, members = raid5(tmp_path, ext4(tmp_path, content))
    first = min(images.where_is(bytes(members[0]), content["pg/base/16384"]))
    machine = tmp_path / "machine"
    for name, text in (("raid_disks", "4 (3)\n"), ("reshape_position", "1024\n")):
        write_tree(machine, {f"/sys/block/md0/md/{name}": text})
        (answer,) = ask(root, "sdb", first)
        assert answer.kind is ContentKind.UNKNOWN
        assert "is being reshaped" in answer.text


def test_a_volume_is_followed_and_the_rest_of_its_disk_is_not(
    tmp_path: Path, content: dict[str, bytes]
) -> None:
    """LVM on a partition: two segments of the volume, LVM metadata before them."""
    image = ext4(tmp_path, content, "-b", "4096")
    whole = image.stat().st_size // SECTOR
    half = whole // 2
    write_tree(
        tmp_path / "machine",
        {
            **images.disk("sdb", whole + 20_000, "8:16"),
            **images.partition("sdb", 17, 2048, whole + 10_000),
            "/sys/block/sdb/sdb17/holders/dm-0": None,
            **images.disk("dm-0", whole, "253:0"),
            "/sys/block/dm-0/dm/name": "vg-srv\n",
            "/proc/1/mountinfo": MOUNTS.format(number="253:0", kind="ext4"),
        },
    )
    table = f"0 {half} linear 8:17 {half + 4096}\n{half} {whole - half} linear 8:17 2048\n"
    root = Imaged(
        str(tmp_path / "machine"),
        {"/dev/dm-0": str(image)},
        {"dmsetup table -j 253 -m 0": table},
    )
    first = min(images.where_is(image, content["pg/base/16385"]))
    own = first + half + 4096 if first < half else first - half + 2048
    (answer,) = ask(root, "sdb", 2048 + own)
    assert (answer.kind, answer.path) == (ContentKind.FILE, "/srv/pg/base/16385")
    assert answer.chain[:3] == (
        f"sdb sector {2048 + own}",
        f"sdb17 sector {own}",
        f"dm-0 sector {first}",
    )
    (answer,) = ask(root, "sdb", 2048 + 100)
    assert answer.kind is ContentKind.UNKNOWN
    assert answer.text.startswith("no active volume uses these sectors of sdb17")
    before, begin = ask(root, "sdb17", half + 4096 - 4, 8)
    assert (before.kind, before.count) == (ContentKind.UNKNOWN, 4)
    assert begin.chain[1] == "dm-0 sector 0"
    root.said = {"dmsetup table -j 253 -m 0": "0 99 thin-pool 253:1 8:17 128 0\n"}
    (answer,) = ask(root, "sdb", 2048 + own)
    assert "dm-0 (vg-srv), a device-mapper device of type 'thin-pool'" in answer.text


@pytest.mark.parametrize(
    ("kind", "told", "says"),
    [
        ("swap", ContentKind.RESERVED, "swap space"),
        ("jbd", ContentKind.JOURNAL, "of an ext4 file system on another device"),
        ("xfs", ContentKind.UNKNOWN, "XFS must be mounted to find the owner"),
        ("btrfs", ContentKind.UNKNOWN, "'mount -o ro /dev/sdb <directory>', then retry"),
        ("zfs_member", ContentKind.UNKNOWN, "finding the owner of a sector of 'zfs_member'"),
        ("LVM2_member", ContentKind.UNKNOWN, "no volume on sdb is active"),
        ("linux_raid_member", ContentKind.UNKNOWN, "a member of an inactive array"),
        ("crypto_LUKS", ContentKind.UNKNOWN, "the encrypted (LUKS) device on sdb is not open"),
        ("", ContentKind.UNKNOWN, "no file system is mounted from sdb"),
    ],
)
def test_what_cannot_be_queried_reports_why(
    tmp_path: Path, kind: str, told: ContentKind, says: str
) -> None:
    """No program is run."""
    write_tree(
        tmp_path / "machine",
        {
            **images.disk("sdb", 10_000, "8:16"),
            "/run/udev/data/b8:16": f"E:ID_FS_TYPE={kind}\n" if kind else "E:X=y\n",
            "/proc/1/mountinfo": "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
        },
    )
    root = Imaged(str(tmp_path / "machine"), {})
    (answer,) = ask(root, "sdb", 100, 8)
    assert answer.kind is told
    assert says in answer.text
    assert root.asked == []


@pytest.mark.parametrize(
    ("device", "start", "count", "error"),
    [
        ("sdz", 0, 1, "'sdz': expected a block device of this machine"),
        ("sdz", 0, 1, "'lsblk -o NAME,KNAME,SERIAL,MODEL' lists them"),
        ("sdb", 10_000, 1, "check that the number is of this device"),
        ("sdb", 0, 70_000, "locate more in parts"),
        ("sdb", 10_000, 1, "expected sectors of 512 bytes below 10000, got 10000 to 10000"),
        ("sdb", 9_999, 2, "got 9999 to 10000"),
        ("sdb", -1, 2, "got -1 to 0"),
        ("sdb", 0, 0, "expected 1 to 65536 sectors, got 0"),
        ("sdb", 0, 70_000, "expected 1 to 65536 sectors, got 70000"),
    ],
)
def test_a_question_that_has_no_answer_is_refused(
    tmp_path: Path, device: str, start: int, count: int, error: str
) -> None:
    """No program is run."""
    write_tree(tmp_path / "machine", images.disk("sdb", 10_000, "8:16"))
    root = Imaged(str(tmp_path / "machine"), {})
    with pytest.raises(LocateError) as caught:
        locate(root, device, start, count, lambda: 0.0)
    assert error in str(caught.value)
    assert root.asked == []


def test_a_command_that_writes_reports_what_it_destroys(
    tmp_path: Path, content: dict[str, bytes]
) -> None:
    """The last block of a file is written completely, then the file is truncated to its size."""
    name = "a name with ' and blank"
    image = ext4(tmp_path, content, "-b", "4096")
    root = on_partition(tmp_path, image)
    truth = images.where_is(image, content[name])
    (answer,) = ask(root, "sdb", 2048 + max(truth))
    anew, overwrite, restore, avoid = file_location.steps(answer, "sdb", 512)
    assert anew.command == (
        "dd if=\"$BACKUP\" of='/srv/a name with '\"'\"' and blank' skip=2 bs=4096 seek=2 count=1"
        " conv=notrunc,fsync,sync oflag=direct"
        " && truncate -s 9000 '/srv/a name with '\"'\"' and blank'"
    )
    assert anew.destroys.startswith("bytes 8192 to 8999 of the file")
    assert restore.text.startswith(f"then restore /srv/{name} from a backup")
    assert restore.command == "cp -p -- \"$BACKUP\" '/srv/a name with '\"'\"' and blank'"
    assert restore.destroys
    assert overwrite.command == (
        "dd if=/dev/zero of='/srv/a name with '\"'\"' and blank' bs=4096 seek=2 count=1"
        " conv=notrunc,fsync oflag=direct && truncate -s 9000 '/srv/a name with '\"'\"' and blank'"
    )
    assert overwrite.destroys == "bytes 8192 to 8999 of the file, permanently: they become zeros"
    assert avoid.command == "umount /dev/sdb17 && e2fsck -f -c /dev/sdb17"
    (free,) = ask(root, "sdb", 2048 + image.stat().st_size // SECTOR - 8, 8)
    steps = file_location.steps(free, "sdb", 4096)
    write = next(step for step in steps if "write-sector" in step.command)
    number = free.start // 8
    assert f"hdparm --write-sector {number} --yes-i-know-what-i-am-doing" in write.command
    assert "the 4096 bytes of that sector" in write.destroys
