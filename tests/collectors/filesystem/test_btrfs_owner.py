"""Parsers of btrfs output: superblock, chunks, owners; and invalid texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import btrfs_text
from support.memory import write_tree

from iowarden.collectors.filesystem.btrfs_owner import (
    BtrfsChunk,
    BtrfsListing,
    BtrfsSuperblock,
    Reference,
    Stripe,
    parse_chunks,
    parse_listing,
    parse_names,
    parse_references,
    parse_subvolume,
    parse_superblock,
    read_file_systems,
)
from iowarden.collectors.machine import Machine
from iowarden.collectors.model import ParseError

if TYPE_CHECKING:
    from pathlib import Path

UUID = btrfs_text.UUID
SUPERBLOCK = BtrfsSuperblock(UUID, 40, 22020096, 38, 4096, 1, 1 << 33)


def test_a_superblock_is_read() -> None:
    """Numbers in decimal and hexadecimal; unused fields are ignored."""
    assert parse_superblock(btrfs_text.superblock()) == SUPERBLOCK


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"csum": "0x1b2c3d4e [DON'T MATCH]"}, "'csum ... [match]', got \"0x1b2c3d4e [DON'T"),
        ({"magic": "........ [DON'T MATCH]"}, "'magic ... [match]'"),
        ({"flags": "0x100000001"}, "no seed"),
        ({"incompat_flags": "0x5361"}, "got 'zoned, raid stripe tree'"),
        ({"incompat_flags": "0x20000361"}, "got 'number 29'"),
        ({"incompat_flags": "0x20361"}, "got 'remap tree'"),
        ({"dev_item.devid": "0"}, "about to replace another"),
        ({"chunk_root": "many"}, "'chunk_root <number>', got 'many'"),
        ({"chunk_root_generation": ""}, "'chunk_root_generation <number>'"),
        ({"sectorsize": "512"}, "sectors of 4 to 64 KiB, got '512'"),
        ({"fsid": "none"}, "'fsid <UUID>', got 'none'"),
    ],
)
def test_a_superblock_that_would_mislead_is_refused(changed: dict[str, str], says: str) -> None:
    """Damaged, a seed, or with features that need another mapping."""
    with pytest.raises(ParseError) as caught:
        parse_superblock(btrfs_text.superblock(**changed))
    assert says in str(caught.value)


def test_what_a_program_complains_of_is_the_reason() -> None:
    """An unreadable superblock: the message of btrfs."""
    text = "superblock: bytenr=65536, device=/dev/sdb1\nERROR: failed to read the superblock\n"
    with pytest.raises(ParseError, match="got 'ERROR: failed to read the superblock'"):
        parse_superblock(text)


def test_features_that_change_nothing_of_the_map_are_taken() -> None:
    """Compression, RAID1C3, and the simple quota of 6.7."""
    made = parse_superblock(btrfs_text.superblock(incompat_flags="0x10fff"))
    assert made == SUPERBLOCK


DATA = BtrfsChunk(1 << 30, 1 << 30, 65536, frozenset({"DATA"}), "single", 1, (Stripe(1, 4 << 30),))
MIRROR = BtrfsChunk(
    1 << 31,
    1 << 28,
    65536,
    frozenset({"METADATA"}),
    "RAID1",
    1,
    (Stripe(1, 1 << 30), Stripe(2, 9 << 30)),
)


def test_the_chunks_are_read_from_one_leaf() -> None:
    """Items of devices come first, and are not chunks."""
    assert parse_chunks(btrfs_text.tree(DATA, MIRROR), SUPERBLOCK) == (DATA, MIRROR)


def test_some_versions_report_nothing_of_single() -> None:
    """5.x prints 'DATA', others 'DATA|single'; mixed groups have two terms."""
    text = btrfs_text.tree(DATA)
    assert "type DATA|single\n" in text
    assert parse_chunks(text.replace("|single", ""), SUPERBLOCK) == (DATA,)
    (mixed,) = parse_chunks(text.replace("DATA|single", "DATA|METADATA|DUP"), SUPERBLOCK)
    assert (mixed.contents, mixed.profile) == (frozenset({"DATA", "METADATA"}), "DUP")


def test_the_chunks_are_read_from_a_tree_of_several_leaves() -> None:
    """The root block lists the others, each with its generation."""
    text = btrfs_text.deep(((DATA,), (MIRROR,)))
    assert parse_chunks(text, SUPERBLOCK) == (DATA, MIRROR)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("leaf 22020096 items", "leaf 22036480 items"),
        ("generation 38 owner", "generation 37 owner"),
        ("items 3 free", "items 4 free"),
        ("items 3 free", "items 2 free"),
        ("type DATA|single", "type DATA|RAID7"),
        ("type DATA|single", "type DATA|single|DUP"),
        ("type DATA|single", "type single"),
        ("type DATA|single", "type DATA|single remapped"),
        ("num_stripes 1", "num_stripes 2"),
        ("num_stripes 1", "invalid num_stripes: 0"),
        ("stripe 0 devid", "stripe 1 devid"),
        ("offset 4294967296", "offset -1"),
        ("length 1073741824", "length 0"),
        ("\t\tlength", "\t\tlong"),
        ("CHUNK_ITEM 1073741824", "CHUNK_ITEM -1"),
        ("CHUNK_ITEM 1073741824", "REMAP 1073741824"),
        ("CHUNK_TREE", "ROOT_TREE"),
    ],
)
def test_a_tree_that_is_not_what_it_should_be_is_refused(old: str, new: str) -> None:
    """Another block, an older one, a part of it, an unknown type of chunk."""
    text = btrfs_text.tree(DATA, MIRROR)
    assert old in text
    with pytest.raises(ParseError, match="'btrfs dump-tree': expected"):
        parse_chunks(text.replace(old, new, 1), SUPERBLOCK)


def test_a_block_that_is_older_than_the_one_above_it_is_refused() -> None:
    """What the device cache still has: the mapping would be outdated."""
    text = btrfs_text.deep(((DATA,), (MIRROR,)))
    leaf = next(line for line in text.splitlines() if line.startswith("leaf 20002"))
    stale = text.replace(leaf, leaf.replace("generation 30", "generation 29"))
    assert stale != text
    with pytest.raises(ParseError, match=r"each whole and of its generation.*query it again"):
        parse_chunks(stale, SUPERBLOCK)
    short = text.replace("leaf 20001 items 1", "leaf 20001 items 2")
    with pytest.raises(ParseError, match="each whole"):
        parse_chunks(short.replace("leaf 20002 items 1", "leaf 20002 items 0"), SUPERBLOCK)
    without = text.partition("leaf 20002")[0]
    with pytest.raises(ParseError, match="all of it"):
        parse_chunks(without, SUPERBLOCK)
    with pytest.raises(ParseError, match="query it again"):
        parse_chunks(text.replace(leaf, leaf.replace("20002", "20001")), SUPERBLOCK)


def test_what_is_printed_beside_the_tree_does_not_matter_when_it_is_whole() -> None:
    """Damage in another tree is reported, but does not affect the tree that is read."""
    text = btrfs_text.tree(DATA) + "parent transid verify failed on 9 wanted 8 found 7\n"
    assert parse_chunks(text, SUPERBLOCK) == (DATA,)
    with pytest.raises(ParseError, match="got 'ERROR: unable to open /dev/sdb1'"):
        parse_chunks("btrfs-progs v6.2\nERROR: unable to open /dev/sdb1\n", SUPERBLOCK)


def test_the_owners_of_an_address() -> None:
    """Files, no longer a file, a free address; and an invalid answer."""
    text = "inode 260 offset 5000 root 5\ninode 257 offset 0 root 256\n"
    assert parse_references(text) == (Reference(5, 260, 5000), Reference(256, 257, 0))
    assert parse_references("") == ()
    assert parse_references("ERROR: logical ino ioctl: No such file or directory\n") is None
    for refused in (
        "ERROR: logical ino ioctl: Input/output error\n",
        "ERROR: not a btrfs filesystem: /srv\n",
        text + "ERROR: logical ino ioctl: No such file or directory\n",
        "inode 1 offset 2 root \u0663\n",
    ):
        with pytest.raises(ParseError, match="'btrfs logical-resolve': expected"):
            parse_references(refused)


def test_the_names_of_an_inode() -> None:
    """Several links; a deleted one has none; another mount point is an error."""
    text = "/srv/a b\n/srv/d/c\n"
    assert parse_names(text, "/srv") == ("/a b", "/d/c")
    assert parse_names("//a\n", "/") == ("/a",)
    assert parse_names("/srv/a\nsecond line\n", "/srv") == ("/a",)
    assert parse_names("ERROR: ino paths ioctl: No such file or directory\n", "/srv") == ()
    for refused in ("", "/other/a\n", "ERROR: ino paths ioctl: Operation not permitted\n"):
        with pytest.raises(ParseError, match="'btrfs inode-resolve': expected '/srv/<path>'"):
            parse_names(refused, "/srv")


def test_the_path_of_a_subvolume() -> None:
    """The top-level one has an empty path; a removed one is an error."""
    assert parse_subvolume("@home/data\n") == "@home/data"
    assert parse_subvolume("\n") == ""
    text = "ERROR: resolving subvolid 999 error -2\nfailed to lookup subvol_id 999!\n"
    with pytest.raises(ParseError, match="ERROR: resolving"):
        parse_subvolume(text)


def test_which_file_system_is_mounted_and_which_devices_it_has() -> None:
    """A missing device has no path, or an outdated one."""
    text = btrfs_text.shown("/dev/sdb1", " MISSING", "/dev/sdd1 MISSING", "<missing disk> MISSING")
    assert parse_listing(text) == BtrfsListing(UUID, frozenset({1}))
    assert parse_listing(btrfs_text.shown("/dev/mapper/a b", "/dev/sdc")).present == {1, 2}
    for refused in ("", "ERROR: not a valid btrfs filesystem: /srv\n", text + text):
        with pytest.raises(ParseError, match="once"):
            parse_listing(refused)


def test_a_device_belongs_to_the_file_system_that_has_it(tmp_path: Path) -> None:
    """From sysfs, whose names have '!' for '/'; the directory of features is no file system."""
    path = f"/sys/fs/btrfs/{UUID}/devices"
    write_tree(
        tmp_path,
        {f"{path}/sdb1": None, f"{path}/cciss!c0d0": None, "/sys/fs/btrfs/features/x": "1\n"},
    )
    found = read_file_systems(Machine(str(tmp_path), 4096))
    assert sorted(found) == ["cciss/c0d0", "sdb1"]
    assert found["sdb1"] is found["cciss/c0d0"]
    assert (found["sdb1"].uuid, sorted(found["sdb1"].devices)) == (UUID, sorted(found))
    assert read_file_systems(Machine(f"{tmp_path}/nothing", 4096)) == {}
