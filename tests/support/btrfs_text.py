"""What the program btrfs prints, written after its grammar, of a machine that never was."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iowarden.collectors.filesystem.btrfs_owner import BtrfsChunk

UUID = "5e1f0c9a-77aa-4b3c-9d2e-0123456789ab"
DEVICE_UUID = "11112222-3333-4444-8555-666677778888"
CHUNK_ROOT, GENERATION = 22020096, 38
_LEAVES = 20001


def superblock(**changed: str) -> str:
    """Return 'dump-super', with lines changed by their key; '' leaves one out."""
    fields = {
        "csum_type": "0 (crc32c)",
        "csum": "0x1b2c3d4e [match]",
        "bytenr": "65536",
        "flags": "0x1",
        "magic": "_BHRfS_M [match]",
        "fsid": UUID,
        "generation": "40",
        "root": "30408704",
        "chunk_root_generation": str(GENERATION),
        "chunk_root": str(CHUNK_ROOT),
        "log_root_transid (deprecated)": "0",
        "sectorsize": "4096",
        "num_devices": "2",
        "incompat_flags": "0x361",
        "dev_item.total_bytes": str(1 << 33),
        "dev_item.devid": "1",
        **changed,
    }
    lines = [f"{key}\t\t{value}" for key, value in fields.items() if value]
    return (
        "superblock: bytenr=65536, device=/dev/sdb1\n" + "-" * 57 + "\n" + "\n".join(lines) + "\n"
    )


def tree(*chunks: BtrfsChunk) -> str:
    """Return 'dump-tree -t chunk' of a tree of one leaf."""
    return "btrfs-progs v6.2\nchunk tree\n" + _leaf(CHUNK_ROOT, GENERATION, chunks, devices=1)


def deep(leaves: Sequence[Sequence[BtrfsChunk]]) -> str:
    """Return 'dump-tree -t chunk' of a tree of several leaves."""
    text = "btrfs-progs v6.2\nchunk tree\n"
    text += f"node {CHUNK_ROOT} level 1 items {len(leaves)} free space 119 generation {GENERATION}"
    text += " owner CHUNK_TREE\n" + _uuids("node", CHUNK_ROOT)
    for number, chunks in enumerate(leaves):
        key = f"FIRST_CHUNK_TREE CHUNK_ITEM {chunks[0].start}"
        text += f"\tkey ({key}) block {_LEAVES + number} gen {30}\n"
    for number, chunks in enumerate(leaves):
        text += _leaf(_LEAVES + number, 30, chunks, devices=0)
    return text


def shown(*paths: str) -> str:
    """Return 'filesystem show --raw' of a mounted file system with devices of these paths."""
    lines = [
        f"\tdevid {number:4} size {1 << 33} used {1 << 30} path {path}"
        for number, path in enumerate(paths, 1)
    ]
    head = f"Label: 'rack: 1'  uuid: {UUID}\n\tTotal devices {len(paths)} FS bytes used 9000\n"
    return head + "\n".join(lines) + "\n\n"


def _uuids(kind: str, address: int) -> str:
    flags = f"{kind} {address} flags 0x1(WRITTEN) backref revision 1\n"
    return flags + f"fs uuid {UUID}\nchunk uuid {DEVICE_UUID}\n"


def _leaf(address: int, generation: int, chunks: Sequence[BtrfsChunk], devices: int) -> str:
    items = len(chunks) + devices
    text = f"leaf {address} items {items} free space 900 generation {generation} owner CHUNK_TREE\n"
    text += _uuids("leaf", address)
    for number in range(devices):
        text += (
            f"\titem {number} key (DEV_ITEMS DEV_ITEM {number + 1}) itemoff 16185 itemsize 98\n"
            f"\t\tdevid {number + 1} total_bytes {1 << 33} bytes_used 9000\n"
            "\t\tio_align 4096 io_width 4096 sector_size 4096 type 0\n"
            f"\t\tuuid {DEVICE_UUID}\n"
        )
    for number, chunk in enumerate(chunks, devices):
        words = [word for word in ("DATA", "METADATA", "SYSTEM") if word in chunk.contents]
        kind = "|".join([*words, chunk.profile])
        text += (
            f"\titem {number} key (FIRST_CHUNK_TREE CHUNK_ITEM {chunk.start}) itemoff 16105"
            " itemsize 80\n"
            f"\t\tlength {chunk.length} owner 2 stripe_len {chunk.stripe_bytes} type {kind}\n"
            "\t\tio_align 65536 io_width 65536 sector_size 4096\n"
            f"\t\tnum_stripes {len(chunk.stripes)} sub_stripes {chunk.copies}\n"
        )
        for index, stripe in enumerate(chunk.stripes):
            text += f"\t\t\tstripe {index} devid {stripe.device} offset {stripe.offset}\n"
            text += f"\t\t\tdev_uuid {DEVICE_UUID}\n"
    return text
