"""Which file was hit on btrfs: what is asked, in which order, and when nobody is named.

The machine and what its programs print are written by hand; real ones: test_locate_btrfs.
"""

from __future__ import annotations

import gc
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support import btrfs_text, images
from support.images import Imaged
from support.memory import write_tree

from iowarden.collectors.filesystem.btrfs_owner import BtrfsChunk, Stripe
from iowarden.daemon.locate.locate import locate
from iowarden.rules.topology.file_location import ContentKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from iowarden.rules.topology.file_location import SectorContent

ADDRESS, PLACE, LENGTH = 1 << 30, 1 << 24, 1 << 24
DATA = BtrfsChunk(ADDRESS, LENGTH, 65536, frozenset({"DATA"}), "single", 1, (Stripe(1, PLACE),))
TREE = "btrfs inspect-internal dump-tree --noscan -t chunk /dev/sdc /dev/sdb"
SUPER = "btrfs inspect-internal dump-super /dev/sdb"
SHOW = "btrfs filesystem show --raw /srv"
MOUNTS = (
    "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    "30 22 0:38 / /other rw - btrfs /dev/sdx rw,subvolid=5,subvol=/\n"
    "31 22 0:39 / /srv rw - btrfs /dev/sdc rw,subvolid=5,subvol=/\n"
)
SECTOR = PLACE // 512
NOBODY = "ERROR: logical ino ioctl: No such file or directory\n"


class Talking(Imaged):
    """A machine on which what a program prints may change from one call to the next."""

    def __init__(self, path: str, said: dict[str, str | list[str]]) -> None:
        """Repeat the last of several answers."""
        super().__init__(path, {})
        self.texts = said

    def run(self, arguments: Sequence[str], deadline_seconds: float) -> str:
        """Answer a command that is on the list of permitted ones."""
        text = self.texts.get(" ".join(arguments))
        if isinstance(text, list):
            text = text.pop(0) if len(text) > 1 else text[0]
        self.said = {} if text is None else {" ".join(arguments): text}
        return super().run(arguments, deadline_seconds)


def resolve(block: int, mount_point: str = "/srv", option: str = "") -> str:
    """Return the command line that queries the owner of a block of the chunk."""
    address = ADDRESS + 4096 * block
    return f"btrfs inspect-internal logical-resolve -P {option}{address} {mount_point}"


def inode(number: int, path: str) -> dict[str, str]:
    """Return the answer with the name of an inode of the top-level subvolume."""
    return {f"btrfs inspect-internal inode-resolve {number} /srv": f"/srv/{path}\n"}


def machine(tmp_path: Path, mounts: str = MOUNTS, **said: str | list[str]) -> Talking:
    """Return a machine with a btrfs on sdb and sdc that is mounted at '/srv'."""
    path = f"/sys/fs/btrfs/{btrfs_text.UUID}/devices"
    write_tree(
        tmp_path / "machine",
        {
            **images.disk("sdb", 1 << 20, "8:16"),
            **images.disk("sdc", 1 << 20, "8:32"),
            f"{path}/sdb": None,
            f"{path}/sdc": None,
            "/proc/1/mountinfo": mounts,
        },
    )
    usual: dict[str, str | list[str]] = {
        SUPER: btrfs_text.superblock(),
        TREE: btrfs_text.tree(DATA),
        SHOW: btrfs_text.shown("/dev/sdb", "/dev/sdc"),
        "btrfs inspect-internal subvolid-resolve 5 /srv": "\n",
    }
    return Talking(str(tmp_path / "machine"), usual | said)


def ask(root: Imaged, start: int, count: int = 1) -> tuple[SectorContent, ...]:
    """Locate sectors of sdb."""
    return locate(root, "sdb", start, count, lambda: 0.0).answers


def test_a_file_is_named_by_its_block(tmp_path: Path) -> None:
    """In the middle of a file, the next block is the next of the file: one more query."""
    root = machine(tmp_path)
    root.texts |= {
        resolve(2): "inode 257 offset 8192 root 5\n",
        resolve(3): "inode 257 offset 12288 root 5\n",
        **inode(257, "pg/base/16384"),
    }
    (answer,) = ask(root, SECTOR + 17, 2)
    assert (answer.kind, answer.path, answer.inode) == (ContentKind.FILE, "/srv/pg/base/16384", 257)
    assert (answer.offset_bytes, answer.bytes, answer.text) == (8704, 1024, "")
    assert answer.chain == (f"sdb sector {SECTOR + 17}", f"btrfs address {ADDRESS + 8704}")
    assert root.asked == [
        SUPER,
        TREE,
        SHOW,
        resolve(2),
        resolve(2),
        "btrfs inspect-internal subvolid-resolve 5 /srv",
        "btrfs inspect-internal inode-resolve 257 /srv",
        resolve(3),
        SUPER,
    ]


def test_of_a_single_block_it_is_reported_that_it_may_be_compressed(tmp_path: Path) -> None:
    """The output does not show whether a single block is compressed; for a longer one it does."""
    root = machine(tmp_path)
    root.texts |= {
        resolve(2): "inode 257 offset 0 root 5\n",
        resolve(1): NOBODY,
        resolve(3): NOBODY,
        resolve(2, option="-o "): "inode 257 offset 0 root 5\n",
        **inode(257, "small"),
    }
    (answer,) = ask(root, SECTOR + 16)
    assert (answer.offset_bytes, answer.bytes) == (0, 512)
    assert answer.text == "or, if compressed, up to 131072 bytes from 0 on"
    # The last block of a longer extent: what the file has of it begins elsewhere.
    root.texts[resolve(2)] = "inode 257 offset 8192 root 5\n"
    (answer,) = ask(root, SECTOR + 16)
    assert (answer.offset_bytes, answer.text) == (8192, "")


def test_a_compressed_block_is_a_longer_part_of_its_file(tmp_path: Path) -> None:
    """The next or previous block has the same offset in the file."""
    same = "inode 257 offset 131072 root 5\n"
    text = "compressed: these bytes, up to the end of the file, are unpacked from there"
    for neighbour in (1, 3):
        root = machine(tmp_path)
        root.texts |= {resolve(block): NOBODY for block in (1, 3)}
        root.texts |= {resolve(2): same, resolve(2, option="-o "): same, resolve(neighbour): same}
        root.texts |= inode(257, "log")
        (answer,) = ask(root, SECTOR + 19)
        assert (answer.offset_bytes, answer.bytes, answer.text) == (131072, 131072, text)


def test_free_space_of_a_mirror_needs_no_scrub(tmp_path: Path) -> None:
    """A scrub reads used blocks; the file next to it is reported with its copy."""
    root = machine(tmp_path)
    stripes = (Stripe(1, PLACE), Stripe(2, PLACE))
    root.texts |= {
        TREE: btrfs_text.tree(replace(DATA, profile="RAID1", stripes=stripes)),
        resolve(0): "inode 257 offset 0 root 5\n",
        resolve(1): "inode 257 offset 4096 root 5\n",
        resolve(2): NOBODY,
        resolve(1, option="-o "): "inode 257 offset 0 root 5\n",
        **inode(257, "table"),
    }
    file, free = ask(root, SECTOR, 24)
    assert (file.kind, file.count, file.copies) == (ContentKind.FILE, 16, "RAID1")
    assert (free.kind, free.copies) == (ContentKind.FREE, "")
    root.texts[SHOW] = btrfs_text.shown("/dev/sdb", " MISSING")
    file, free = ask(root, SECTOR, 24)
    assert (file.copies, file.degraded) == ("", "btrfs (RAID1)")
    assert (free.copies, free.degraded) == ("", "")


def test_of_many_small_files_the_first_are_named(tmp_path: Path) -> None:
    """Each name takes a run of a program; the others are reported by number."""
    root = machine(tmp_path)
    for block in range(81):
        root.texts[resolve(block)] = f"inode {block + 300} offset 0 root 5\n"
        root.texts[resolve(block, option="-o ")] = f"inode {block + 300} offset 0 root 5\n"
        root.texts |= inode(block + 300, f"small/{block}")
    answers = ask(root, SECTOR, 8 * 80)
    assert [answer.path for answer in answers] == [
        *(f"/srv/small/{block}" for block in range(60)),
        *[""] * 20,
    ]
    assert [answer.inode for answer in answers] == list(range(300, 380))
    assert "beyond the limit of 60 names; locate fewer sectors" in answers[-1].text


def superblocks(*generations: int) -> list[str]:
    """Return superblocks, each with a later chunk tree than the one before."""
    return [
        btrfs_text.superblock(generation=str(number), chunk_root_generation=str(number))
        for number in generations
    ]


def trees(*generations: int) -> list[str]:
    """Return chunk trees, each with the chunk one mebibyte further on."""
    text = btrfs_text.tree(DATA)
    return [
        text.replace("generation 38", f"generation {number}").replace(
            f"offset {PLACE}", f"offset {PLACE + (index << 20)}"
        )
        for index, number in enumerate(generations)
    ]


@pytest.mark.parametrize(
    ("first", "second"), [(38, 39), (39, 39)], ids=["after it was read", "before it was read"]
)
def test_a_map_that_changes_meanwhile_is_read_anew(tmp_path: Path, first: int, second: int) -> None:
    """A chunk was moved: the result of the old map is wrong."""
    root = machine(tmp_path)
    root.texts |= {
        SUPER: superblocks(38, 39, 39),
        TREE: [trees(first)[0], trees(38, second)[1]],
        **{resolve(block): f"inode 257 offset {4096 * block} root 5\n" for block in range(300)},
        **inode(257, "wal"),
    }
    (answer,) = ask(root, SECTOR + 2048 + 8)
    assert (answer.kind, answer.path, answer.offset_bytes) == (ContentKind.FILE, "/srv/wal", 4096)
    assert root.asked.count(TREE) == 2


def test_a_map_that_goes_on_changing_names_nobody(tmp_path: Path) -> None:
    """A balance: retries are limited; a mere commit does not count as a change."""
    root = machine(tmp_path)
    root.texts |= {
        SUPER: superblocks(*range(38, 60)),
        TREE: trees(*range(38, 60)),
        **{resolve(block): f"inode 257 offset {4096 * block} root 5\n" for block in range(999)},
        **inode(257, "wal"),
    }
    (answer,) = ask(root, SECTOR + 4096)
    assert answer.kind is ContentKind.UNKNOWN
    assert "btrfs moves data on sdb during the query" in answer.text
    assert root.asked.count(TREE) == 3
    root.texts[SUPER] = [btrfs_text.superblock(), btrfs_text.superblock(generation="42")]
    root.texts[TREE] = btrfs_text.tree(DATA)
    assert ask(root, SECTOR)[0].path == "/srv/wal"


def test_a_copy_of_a_file_system_is_not_taken_for_it(tmp_path: Path) -> None:
    """Mounted with a UUID of its own: superblock or mount belong to another file system."""
    other = "00000000-77aa-4b3c-9d2e-0123456789ab"
    root = machine(tmp_path)
    root.texts[SUPER] = btrfs_text.superblock(fsid=other)
    (answer,) = ask(root, SECTOR)
    assert (answer.kind, root.asked) == (ContentKind.UNKNOWN, [SUPER])
    assert f"got {other} in its superblock" in answer.text
    root = machine(tmp_path)
    root.texts[SHOW] = btrfs_text.shown("/dev/sdb").replace(btrfs_text.UUID, other)
    (answer,) = ask(root, SECTOR)
    assert answer.kind is ContentKind.UNKNOWN
    assert "btrfs on sdb cannot be queried for the owner" in answer.text
    assert resolve(0) not in root.asked


def test_the_mount_that_names_one_of_its_devices_is_queried_first(tmp_path: Path) -> None:
    """Other mounts are queried only if this one is wrong: each opens another file system."""
    root = machine(tmp_path, MOUNTS.replace("/dev/sdc", "/dev/disk/by-label/rack"))
    other = btrfs_text.shown("/dev/sdx").replace("5e1f0c9a", "00000000")
    root.texts |= {"btrfs filesystem show --raw /other": other, resolve(0): NOBODY}
    (answer,) = ask(root, SECTOR)
    assert (answer.kind, answer.text) == (
        ContentKind.FREE,
        "not part of a file: free space of btrfs",
    )
    shown = [line for line in root.asked if "show" in line]
    assert shown == ["btrfs filesystem show --raw /other", SHOW]


def test_a_volume_is_followed_to_the_btrfs_on_it(tmp_path: Path) -> None:
    """Mounted by its device-mapper name; its other device is a whole disk."""
    root = machine(tmp_path, MOUNTS.replace("/dev/sdc", "/dev/mapper/rack-srv"))
    uuid = f"/sys/fs/btrfs/{btrfs_text.UUID}/devices"
    write_tree(
        tmp_path / "machine",
        {
            **images.disk("sdd", 1 << 20, "8:48", "dm-0"),
            **images.disk("dm-0", 1 << 20, "253:0"),
            "/sys/block/dm-0/dm/name": "rack-srv\n",
            f"{uuid}/dm-0": None,
        },
    )
    root.texts |= {
        "dmsetup table -j 253 -m 0": f"0 {1 << 20} linear 8:48 2048\n",
        SUPER.replace("sdb", "dm-0"): btrfs_text.superblock(),
        TREE.replace(" /dev/sdc /dev/sdb", " /dev/sdb /dev/sdc /dev/dm-0"): btrfs_text.tree(DATA),
        resolve(0): "inode 257 offset 0 root 5\n",
        resolve(1): "inode 257 offset 4096 root 5\n",
        **inode(257, "wal"),
    }
    (answer,) = locate(root, "sdd", SECTOR + 2048, 1, lambda: 0.0).answers
    assert (answer.path, answer.device) == ("/srv/wal", "dm-0")
    assert answer.chain == (
        f"sdd sector {SECTOR + 2048}",
        f"dm-0 sector {SECTOR}",
        f"btrfs address {ADDRESS}",
    )
    assert [line for line in root.asked if "show" in line] == [SHOW]


def test_a_name_that_the_probe_does_not_take_is_a_reason(tmp_path: Path) -> None:
    """Mounted at a directory with a blank in its name."""
    root = machine(
        tmp_path, MOUNTS.replace("/srv", "/my\\040data").replace("/other", "/other\\040")
    )
    (answer,) = ask(root, SECTOR)
    assert answer.kind is ContentKind.UNKNOWN
    assert "mounted at '/my data', a path with unsupported characters" in answer.text


@pytest.mark.parametrize(
    ("line", "text", "says"),
    [
        (
            SUPER,
            "ERROR: failed to read the superblock on /dev/sdb at 65536\n",
            "failed to read the",
        ),
        (TREE, "ERROR: unable to open /dev/sdb\n", "unable to open /dev/sdb"),
        (TREE, btrfs_text.tree(DATA).replace("generation 38", "generation 36"), "query it again"),
        (resolve(0), "ERROR: logical ino ioctl: Operation not permitted\n", "not permitted"),
        (SHOW, "ERROR: no such device\n", "no such device"),
        (SUPER, btrfs_text.superblock(incompat_flags="0x4361"), "raid stripe tree"),
    ],
)
def test_what_a_program_refuses_is_the_reason(
    tmp_path: Path, line: str, text: str, says: str
) -> None:
    """The error of the program is the reason; no owner is named, nothing is called free."""
    root = machine(tmp_path)
    root.texts[line] = text
    (answer,) = ask(root, SECTOR)
    assert answer.kind is ContentKind.UNKNOWN
    assert says in answer.text


def test_without_the_program_only_the_fixed_places_are_known(tmp_path: Path) -> None:
    """btrfs-progs is not installed."""
    root = machine(tmp_path)
    root.texts.clear()
    (answer,) = ask(root, SECTOR)
    assert (answer.kind, answer.text) == (ContentKind.UNKNOWN, "'btrfs': not here")
    root.asked.clear()
    first, superblock, last = ask(root, 0, 2048)
    assert (first.kind, last.kind) == (ContentKind.RESERVED, ContentKind.RESERVED)
    assert (superblock.start, superblock.count, superblock.kind) == (128, 8, ContentKind.METADATA)
    assert superblock.text == "the first superblock of btrfs"
    assert root.asked == []  # that it cannot be read may be why somebody asks


def test_an_inode_without_a_name_on_this_host_is_reported_by_number(tmp_path: Path) -> None:
    """A subvolume that is not in any mount; one whose name cannot be read."""
    root = machine(tmp_path, MOUNTS.replace(" / /srv", " /@ /srv"))
    root.texts |= {
        resolve(0): "inode 300 offset 0 root 256\ninode 300 offset 0 root 257\n",
        resolve(1): "inode 300 offset 4096 root 256\ninode 300 offset 4096 root 257\n",
        "btrfs inspect-internal subvolid-resolve 256 /srv": "@snapshots/1\n",
        "btrfs inspect-internal subvolid-resolve 257 /srv": "ERROR: resolving subvolid 257\n",
    }
    (answer,) = ask(root, SECTOR)
    assert (answer.kind, answer.path, answer.inode) == (ContentKind.FILE, "", 300)
    assert "inode 300 of subvolume 256 ('@snapshots/1'), which is not mounted by itself;" in (
        answer.text
    )
    assert "inode 300 of subvolume 257, without a name: 'btrfs subvolid-resolve'" in answer.text


def test_what_belongs_to_the_file_system_itself_is_metadata(tmp_path: Path) -> None:
    """The free space cache, and data that a balance is moving, are in data chunks."""
    root = machine(tmp_path)
    root.texts |= {
        resolve(0): "inode 256 offset 0 root 1\n",
        resolve(1): f"inode 257 offset 0 root {2**64 - 9}\n",
    }
    cache, moved = ask(root, SECTOR, 16)
    assert (cache.kind, cache.text) == (ContentKind.METADATA, "of btrfs: free space cache")
    assert (moved.kind, moved.text) == (
        ContentKind.METADATA,
        "of btrfs: a copy made by a running balance",
    )


def test_a_long_range_is_reported_as_far_as_it_is_requested(tmp_path: Path) -> None:
    """Each block takes a run of a program: the answer names the sector to continue at."""
    root = machine(tmp_path)
    root.texts |= {resolve(block): NOBODY for block in range(300)}
    free, rest = ask(root, SECTOR, 8 * 300)
    assert (free.kind, free.count) == (ContentKind.FREE, 8 * 240)
    assert (rest.kind, rest.start) == (ContentKind.UNKNOWN, SECTOR + 8 * 240)
    assert rest.text == f"limit of 240 blocks; locate the rest from {SECTOR + 8 * 240} on"


def test_many_snapshots_are_counted_and_not_all_requested(tmp_path: Path) -> None:
    """The mounted file is named, whatever the ids of its snapshots are."""
    root = machine(tmp_path, MOUNTS.replace(" / /srv", " /@ /srv").replace("id=5,", "id=900,"))
    some = [*range(300, 500), 900]
    for block in (0, 1):
        lines = [f"inode 257 offset {4096 * block} root {number}\n" for number in some]
        root.texts[resolve(block)] = "".join(lines)
    names = {f"btrfs inspect-internal subvolid-resolve {n} /srv": f"snap/{n}\n" for n in some}
    names["btrfs inspect-internal subvolid-resolve 900 /srv"] = "@\n"
    root.texts |= {**names, **inode(257, "wal")}
    (answer,) = ask(root, SECTOR)
    assert (answer.path, answer.mounted) == ("/srv/wal", True)
    assert "and 198 more without a known name" in answer.text
    assert len([line for line in root.asked if "subvolid" in line]) == 32
    assert len(json.dumps(answer.text)) < 500


def test_a_chunk_of_another_device_is_not_this_ones(tmp_path: Path) -> None:
    """The chunk is at the same position of sdc; on sdb nothing is allocated."""
    root = machine(tmp_path)
    root.texts[SUPER] = btrfs_text.superblock(**{"dev_item.devid": "2"})
    (answer,) = ask(root, SECTOR)
    assert (answer.kind, answer.text) == (
        ContentKind.FREE,
        "not part of a file: btrfs has not allocated it",
    )


def test_a_map_that_cannot_be_read_leaves_nothing_for_a_walk_of_the_collector(
    tmp_path: Path,
) -> None:
    """The error is kept until the superblock was read once more, and with it the whole map."""
    root = machine(tmp_path)
    root.texts[TREE] = btrfs_text.tree(DATA).replace("generation 38", "generation 36")
    ask(root, SECTOR)
    gc.collect()
    gc.disable()
    try:
        ask(root, SECTOR)
        assert gc.collect() == 0
    finally:
        gc.enable()
