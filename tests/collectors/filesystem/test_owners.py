"""What debugfs, xfs_io, find and dmsetup print, written by their grammar, and what is refused."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.block import dm_table
from iowarden.collectors.block.block_stack import Node, read_block_stack
from iowarden.collectors.filesystem import ext4_owner, xfs_owner
from iowarden.collectors.filesystem.ext4_owner import Extent
from iowarden.collectors.machine import probe_path
from iowarden.collectors.md.md_layout import Place, read_md_layout
from iowarden.collectors.model import AbsentError, ParseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import MachineMaker

BANNER = "debugfs 1.47.0 (5-Feb-2023)\n"
SUPERBLOCK = """Filesystem magic number:  0xEF53
First block:              1
Block size:               1024
Block count:              65536
Inode size:	          256
First inode:              11
Journal inode:            8
"""
INODE = """Inode: 15   Type: regular    Mode:  0644   Flags: 0x80000
User:     0   Group:     0   Project:     0   Size: 100000
File ACL: 77
Links: 2   Blockcount: 196
 ctime: 0x6b025e6c:00000000 -- Sun Nov 22 03:15:56 2026
EXTENTS:
"""


def test_a_superblock_says_how_blocks_are_counted() -> None:
    """'stats -h', with what debugfs says of itself behind it."""
    found = ext4_owner.parse_superblock(SUPERBLOCK + BANNER)
    assert found == ext4_owner.Superblock(1024, 65536, 1, 8, 11)
    without = SUPERBLOCK.replace("Journal inode:            8\n", "")
    assert ext4_owner.parse_superblock(without).journal_inode == 0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (BANNER + "/dev/sda1: Bad magic number in super-block\n", "got '/dev/sda1: Bad magic"),
        (SUPERBLOCK.replace("1024", "1000"), "expected a block size from 1 to 64 KiB, got '1000'"),
        (SUPERBLOCK.replace("65536", "many"), "expected 'Block count: <number>', got 'many'"),
        ("", "got 'nothing'"),
    ],
)
def test_what_is_no_superblock_is_refused(text: str, error: str) -> None:
    """With what debugfs complained of."""
    with pytest.raises(ParseError) as caught:
        ext4_owner.parse_superblock(text)
    assert error in str(caught.value)


def test_blocks_are_in_use_or_not() -> None:
    """'testb'; where the bitmaps could not be read, nothing is said of any block."""
    text = "Block 7 marked in use\nBlock 8 not in use\n"
    assert ext4_owner.parse_tested(text + BANNER) == {7: True, 8: False}
    with pytest.raises(ParseError, match="got 'testb: Filesystem bitmaps not loaded'"):
        ext4_owner.parse_tested(BANNER + "testb: Filesystem bitmaps not loaded\n")


def test_a_block_that_no_inode_holds_is_nobodys() -> None:
    """'icheck'; what it does not mention at all is not said to be free."""
    text = "Block\tInode number\n4488\t15\n9000\t<block not found>\n"
    assert ext4_owner.parse_owned(text) == {4488: 15, 9000: None}
    with pytest.raises(ParseError, match="got 'icheck: Filesystem not open'"):
        ext4_owner.parse_owned("icheck: Filesystem not open\n")


def test_an_inode_has_one_name_or_several_or_none() -> None:
    """'ncheck'; debugfs begins a name at the top with two slashes."""
    text = "Inode\tPathname\n15\t/pg/base/f2\n15\t/other\n16\t//top\n"
    assert ext4_owner.parse_names(text) == {15: ("/pg/base/f2", "/other"), 16: ("/top",)}
    assert ext4_owner.parse_names("Inode\tPathname\n") == {}
    with pytest.raises(ParseError, match="expected 'Inode Pathname'"):
        ext4_owner.parse_names("ncheck: Filesystem not open\n")


def test_the_blocks_of_a_file_are_content_or_tell_where_it_is() -> None:
    """Extents with the blocks of their tree; some only reserved, in the words of old and new."""
    listing = "(ETB0):500, (0-3):1000-1003, (5):1010, (6-9[u]):1011-1014, (10[uninit]):1015\n"
    found = ext4_owner.parse_inode(INODE + listing + BANNER)
    assert (found.number, found.kind, found.size_bytes, found.links) == (15, "regular", 100000, 2)
    assert found.attributes_block == 77
    assert found.inner == {500}
    assert found.extent_of(1002) == Extent(0, 3, 1000)
    assert found.extent_of(1014) == Extent(6, 9, 1011, unwritten=True)
    assert found.extent_of(1015) == Extent(10, 10, 1015, unwritten=True)
    assert found.extent_of(1004) is None
    blocks = INODE.replace("EXTENTS", "BLOCKS") + "(0-11):1-12, (IND):13, (DIND):14\nTOTAL: 14\n"
    assert ext4_owner.parse_inode(blocks).inner == {13, 14}
    assert ext4_owner.parse_inode(INODE.removesuffix("EXTENTS:\n")).extents == ()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("stat: Filesystem not open\n", "expected 'Inode: <n> Type: <type>'"),
        (INODE + "(0-3):1000-1007\n", "expected as many blocks as the extent has"),
    ],
)
def test_what_is_no_inode_is_refused(text: str, error: str) -> None:
    """No offset is calculated from it."""
    with pytest.raises(ParseError) as caught:
        ext4_owner.parse_inode(text)
    assert error in str(caught.value)


def test_the_owner_of_sectors_is_an_inode_or_a_word() -> None:
    """'fsmap -d -m'; an owner that is not known is 'unknown', never dropped."""
    text = (
        f"{xfs_owner.HEADING}\n"
        "0,8,17,192,783,inode_131_data,16,607,592\n"
        "1,8,17,784,791,inode_131_attr_bmbt,,,8\n"
        "2,8,17,792,900,special_0:1,,,109\n"
        "3,8,17,901,910,special_88:99,,,10\n"
    )
    data, attributes, free, other = xfs_owner.parse_fsmap(text)
    assert data == xfs_owner.Extent(192, 783, "file", 131, "data", 16)
    assert (attributes.inode, attributes.part) == (131, "attr_bmbt")
    assert (free.owner, other.owner) == ("free", "unknown")
    for wrong in ("", "xfs_io: xfsctl(XFS_IOC_GETFSMAP): Invalid argument\n", text + "what\n"):
        with pytest.raises(ParseError, match="'xfs_io fsmap': expected"):
            xfs_owner.parse_fsmap(wrong)


def test_find_ends_a_name_with_what_no_name_has() -> None:
    """A name may hold a line feed and a colon; what find complains of comes behind it."""
    text = "f:300000:/srv/a:b\nc\0find: '/srv/x': Permission denied\n"
    assert xfs_owner.parse_found(text) == xfs_owner.Found("f", 300000, "/srv/a:b\nc")
    assert xfs_owner.parse_found("find: '/srv/x': Permission denied\n") is None
    with pytest.raises(ParseError, match="expected '<type>:<size>:<path>'"):
        xfs_owner.parse_found("/srv/a\0")


def test_a_table_names_its_devices_and_no_key() -> None:
    """A line each; the words of an encryption are not those of a device."""
    text = "0 1000 linear 8:17 2048\n1000 8 crypt aes-xts-plain64 :32:logon:x 0 8:33 4096\n"
    first, second = dm_table.parse_dm_table(text)
    assert first == dm_table.Target(0, 1000, "linear", ("8:17", "2048"))
    assert (first.devices, second.devices) == ({"8:17"}, {"8:33"})
    for wrong in ("", "Device does not exist.\nCommand failed.\n", "0 linear 8:17 0\n"):
        with pytest.raises(ParseError, match="'dmsetup table': "):
            dm_table.parse_dm_table(wrong)


def test_a_table_is_asked_for_by_the_number_of_its_device(machine: MachineMaker) -> None:
    """Its name may be anything."""
    answer = {"status": 0, "signal": None, "stdout": "0 8 linear 8:17 0\n", "stderr": ""}
    name = probe_path("run", "dmsetup table -j 253 -m 4".split())
    root = machine({name: json.dumps(answer)})
    assert dm_table.read_dm_table(root, "253:4", 5.0)[0].kind == "linear"
    with pytest.raises(AbsentError):
        dm_table.read_dm_table(root, "253:5", 5.0)


@pytest.mark.parametrize(
    "parse",
    [
        ext4_owner.parse_superblock,
        ext4_owner.parse_tested,
        ext4_owner.parse_owned,
        ext4_owner.parse_names,
        ext4_owner.parse_inode,
        xfs_owner.parse_fsmap,
        xfs_owner.parse_found,
        dm_table.parse_dm_table,
    ],
)
@given(
    st.text(max_size=200)
    | st.text(alphabet="0123456789:()-[u],\t\n ETBINDlinear", max_size=200)
    | st.sampled_from([SUPERBLOCK, INODE, xfs_owner.HEADING + "\n"]).flatmap(
        lambda head: st.text(alphabet="0123456789,:()-[u]\n _inodeata", max_size=120).map(
            lambda rest: head + rest
        )
    )
)
def test_any_text_is_understood_or_refused(parse: Callable[[str], object], text: str) -> None:
    """Nothing else comes out of a parser."""
    with contextlib.suppress(ParseError):
        parse(text)


# --- what sysfs tells


def test_devices_stand_on_each_other_as_sysfs_says(machine: MachineMaker) -> None:
    """A disk with a partition in an array, a volume on it, swap, and a member of btrfs."""
    root = machine(
        {
            "/sys/block/sdb/size": "4000\n",
            "/sys/block/sdb/dev": "8:16\n",
            "/sys/block/sdb/queue/logical_block_size": "4096\n",
            "/sys/block/sdb/sdb1/partition": "1\n",
            "/sys/block/sdb/sdb1/start": "63\n",
            "/sys/block/sdb/sdb1/size": "3000\n",
            "/sys/block/sdb/sdb1/dev": "8:17\n",
            "/sys/block/sdb/sdb1/holders/md0": None,
            "/sys/block/md0/md/level": "raid1\n",
            "/sys/block/md0/dev": "9:0\n",
            "/sys/block/dm-1/dm/name": "vg-swap\n",
            "/sys/block/dm-1/dev": "253:1\n",
            "/sys/block/cciss!c0d0/dev": "104:0\n",
            "/proc/swaps": "Filename\tType\tSize\tUsed\tPriority\n/dev/dm-1 partition\t9\t0\t-2\n",
            "/sys/fs/btrfs/3f1c8d1e-0b1d-4a57-9d6f-8f2f6a0b7c11/devices/cciss!c0d0": None,
            "/sys/fs/btrfs/features/raid56": "0\n",
        }
    )
    stack = read_block_stack(root)
    assert set(stack.nodes) == {"sdb", "sdb1", "md0", "dm-1", "cciss/c0d0"}
    assert stack.nodes["sdb"] == Node("sdb", "8:16", "", 0, 4000, (), ("sdb1",), 4096)
    assert stack.nodes["sdb1"] == Node("sdb1", "8:17", "sdb", 63, 3000, ("md0",))
    assert stack.nodes["md0"].kind == "md"
    assert (stack.nodes["dm-1"].kind, stack.nodes["dm-1"].label) == ("dm", "vg-swap")
    assert (stack.swaps, set(stack.btrfs)) == ({"dm-1"}, {"cciss/c0d0"})


ARRAY = {
    "/sys/block/md0/size": "2000\n",
    "/sys/block/md0/md/level": "raid5\n",
    "/sys/block/md0/md/raid_disks": "3\n",
    "/sys/block/md0/md/layout": "2\n",
    "/sys/block/md0/md/chunk_size": "65536\n",
    "/sys/block/md0/md/component_size": "500\n",
    "/sys/block/md0/md/array_state": "clean\n",
    "/sys/block/md0/md/degraded": "1\n",
    "/sys/block/md0/md/metadata_version": "1.2\n",
    "/sys/block/md0/md/reshape_position": "none\n",
    "/sys/block/md0/md/dev-sdb1/slot": "0\n",
    "/sys/block/md0/md/dev-sdb1/offset": "2048\n",
    "/sys/block/md0/md/dev-sdb1/new_offset": "2048\n",
    "/sys/block/md0/md/dev-sdb1/size": "500\n",
    "/sys/block/md0/md/dev-sdb1/state": "in_sync,write_mostly\n",
    "/sys/block/md0/md/dev-sdc1/slot": "journal\n",
}


def test_an_array_says_where_its_data_begin_on_each_member(machine: MachineMaker) -> None:
    """Sizes are KiB there, offsets sectors, a chunk bytes; a journal has no slot."""
    found = read_md_layout(machine(ARRAY), "md0")
    assert found is not None
    assert (found.component_sectors, found.chunk_sectors, found.sectors) == (1000, 128, 2000)
    assert (found.level, found.layout, found.degraded, found.reshaping) == ("raid5", 2, 1, False)
    states = ("in_sync", "write_mostly")
    assert found.members == (
        Place("sdb1", 0, "0", 2048, 2048, 1000, states),
        Place("sdc1", None, "journal", None, None, None),
    )
    assert read_md_layout(machine(ARRAY), "md9") is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("raid_disks", "4 (3)\n"),
        ("layout", "2 (5)\n"),
        ("chunk_size", "131072 (65536)\n"),
        ("reshape_position", "4096\n"),
    ],
)
def test_two_numbers_or_a_position_are_a_reshape(
    machine: MachineMaker, name: str, text: str
) -> None:
    """The kernel prints what is and what was."""
    found = read_md_layout(machine({**ARRAY, f"/sys/block/md0/md/{name}": text}), "md0")
    assert found is not None
    assert found.reshaping


def test_an_offset_that_is_no_number_is_refused(machine: MachineMaker) -> None:
    """No file is named by it."""
    path = "/sys/block/md0/md/dev-sdb1/offset"
    with pytest.raises(ParseError, match="offset': expected an unsigned number, got 'two'"):
        read_md_layout(machine({**ARRAY, path: "two\n"}), "md0")
