"""Lines of level error and worse of the file systems below fs/ of Linux: a grave one is an event.

Each row is a family of formats with its level: the words around what varies, by file. A line is
played with its level and, as a forum has it, without. What is grave is critical for 'explain';
what is only not recognized is listed as such: no line of either table is silently 'no event'.
Source: Linux 6.12 and, where named, older; checked at the printing functions of each file system.
"""

from __future__ import annotations

import re

import pytest
from support.explained import read

from iowarden.collectors.kmsg import kernel_classifier, kernel_events
from iowarden.collectors.kmsg.kernel_line import KernelLine
from iowarden.daemon.check.explain import WRONG
from iowarden.rules.severity import Severity

DEV = {"dev": "sdq1", "n": "12", "err": "-5", "func": "read_block", "id": "c1:v.0", "ubi": "ubi1:0"}
CRIT, ERR, WARN, NOTICE = 2, 3, 4, 5
GRAVE = (
    # fs/ext2/super.c, ext4/super.c, jbd2/journal.c
    (CRIT, "EXT2-fs ({dev}): error: {func}: unable to read inode block - inode={n}, block={n}"),
    (CRIT, "EXT2-fs ({dev}): error: remounting filesystem read-only"),
    (CRIT, "EXT4-fs error (device {dev}): {func}:{n}: comm sync: Detected aborted journal"),
    (CRIT, "EXT4-fs ({dev}): Remounting filesystem read-only"),
    (ERR, "EXT4-fs ({dev}): previous I/O error to superblock detected"),
    (ERR, "Aborting journal on device {dev}-8."),
    (ERR, "JBD2: Error {err} detected when updating journal superblock for {dev}-8."),
    # fs/xfs/xfs_fsops.c, xfs_buf.c, xfs_log.c
    (CRIT, "XFS ({dev}): Filesystem has been shut down due to log error (0x2)."),
    (CRIT, "XFS ({dev}): Corruption of on-disk metadata detected.  Shutting down filesystem"),
    (CRIT, "XFS ({dev}): log mount/recovery failed: error {err}"),
    (ERR, "XFS ({dev}): Metadata CRC error detected at {func}+0x1, xfs_agf block 0x1"),
    # fs/btrfs/disk-io.c, tree-checker.c, super.c
    (CRIT, "BTRFS critical (device {dev}): corrupt leaf: root=5 block={n} slot=1, bad key order"),
    (ERR, "BTRFS error (device {dev}): parent transid verify failed on logical {n} mirror 1"),
    # fs/f2fs/super.c, node.c
    (CRIT, "F2FS-fs ({dev}): Stopped filesystem due to reason: 1"),
    (ERR, "F2FS-fs ({dev}): inconsistent node block, node_type:0, nid:5"),
    # fs/fat/misc.c, exfat/misc.c
    (ERR, "FAT-fs ({dev}): error, fat_get_cluster: invalid cluster chain (i_pos 0)"),
    (ERR, "FAT-fs ({dev}): Filesystem has been set read-only"),
    (ERR, "exFAT-fs ({dev}): error, failed to bmap (inode : 1 iblock : 2, err : {err})"),
    (ERR, "exFAT-fs ({dev}): Filesystem has been set read-only"),
    # fs/jfs/super.c, jfs_metapage.c
    (ERR, "ERROR: (device {dev}): dbAllocNext: Corrupt dmap page"),
    (ERR, "ERROR: (device {dev}): remounting filesystem as read-only"),
    (ERR, "metapage_write_end_io: I/O error"),
    # fs/nilfs2/super.c, udf/super.c, affs/amigaffs.c, hpfs/super.c, adfs/super.c
    (CRIT, "NILFS error (device {dev}): nilfs_bmap_lookup_contig: bad btree node"),
    (CRIT, "NILFS ({dev}): Remounting filesystem read-only"),
    (CRIT, "UDF-fs: error (device {dev}): udf_read_inode: (ino {n}) failed !bh"),
    (CRIT, "affs: error (device {dev}): {func}(): bad"),
    (WARN, "affs: Remounting filesystem read-only"),
    (ERR, "hpfs: filesystem error: bad signature"),
    (ERR, "HPFS: filesystem error: improperly stopped; remounting read-only"),
    (CRIT, "ADFS-fs error (device {dev}): {func}: bad"),
    # fs/ufs/super.c to 3.14, ntfs/debug.c to 6.8, ntfs3/super.c
    (CRIT, "UFS-fs error (device {dev}): ufs_free_fragments: bit already cleared for fragment 1"),
    (CRIT, "UFS-fs panic (device {dev}): ufs_free_inode: internal error"),
    (ERR, "NTFS-fs error (device {dev}): {func}(): Failed to read from inode 0x5"),
    (NOTICE, "ntfs3({dev}): Mark volume as dirty due to NTFS errors"),
    (NOTICE, "ntfs3: {dev}: Mark volume as dirty due to NTFS errors"),
    # fs/ocfs2/super.c, cluster/quorum.c, gfs2/util.c
    (CRIT, "OCFS2: ERROR (device {dev}): ocfs2_validate_inode_block: Invalid dinode #{n}"),
    (CRIT, "OCFS2: File system is now read-only."),
    (CRIT, "*** ocfs2 is very sorry to be fencing this system by restarting ***"),
    (CRIT, "*** ocfs2 is very sorry to be fencing this system by panicing ***"),
    (ERR, "gfs2: fsid={id}: fatal: I/O error - block = {n}, function = gfs2_meta_wait"),
    (ERR, "gfs2: fsid={id}: about to withdraw this file system"),
    (ERR, "gfs2: fsid={id}: File system withdrawn"),
    # fs/ubifs/misc.c, io.c, drivers/mtd/ubi
    (ERR, "UBIFS error ({ubi} pid {n}): ubifs_read_node: bad node type (255 but expected 1)"),
    (WARN, "UBIFS warning ({ubi} pid {n}): ubifs_ro_mode: switched to read-only mode, error {err}"),
    (WARN, "ubi1 warning: ubi_ro_mode: switch to read-only mode"),
    # fs/squashfs, erofs, bcachefs, zonefs, reiserfs (to 6.12)
    (ERR, "SQUASHFS error: Unable to read inode 0x1"),
    (ERR, "bcachefs ({dev}): fatal error - emergency read only"),
    (ERR, "zonefs ({dev}) ERROR: inode {n}: write pointer 1 != 2"),
    (CRIT, "REISERFS error (device {dev}): vs-5150 search_by_key: invalid format in block 1"),
    (CRIT, "REISERFS abort (device {dev}): Journal write error in flush_commit_list"),
    # kernel/panic.c
    (0, "Kernel panic - not syncing: EXT4-fs (device {dev}): panic forced after error"),
    (0, "Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(8,1)"),
)  # fmt: skip
SAID = (
    (ERR, "Quota error (device {dev}): {func}: dquota write failed"),
    (ERR, "hfs: unable to read catalog record"),
    (ERR, "VFS: Busy inodes after unmount of {dev} (ext4)"),
    (ERR, "CIFS: VFS: \\\\srv Send error in read = -512"),
    (ERR, "overlayfs: failed to resolve '/srv': {err}"),
    (ERR, "dlm: x: recover_members error {err}"),
)
HARMLESS = (
    (6, "EXT4-fs ({dev}): mounted filesystem 0a1b r/w with ordered data mode. Quota mode: none."),
    (5, "XFS ({dev}): Ending clean mount"),
    (6, "BTRFS info (device {dev}): using crc32c (crc32c-intel) checksum algorithm"),
    (5, "F2FS-fs ({dev}): Mounted with checkpoint version = 5a2f"),
    (6, "UDF-fs: INFO Mounting volume 'BACKUP', timestamp 2024/01/01 10:00 (1000)"),
    (6, "gfs2: fsid={id}: Joined cluster. Now mounting FS (format 1802)..."),
    (6, "ocfs2: Mounting device (8,1) on (node 0, slot 0) with ordered data mode."),
    (5, "UBIFS (ubi0:0): Mounting in unauthenticated mode"),
    (6, "erofs (device {dev}): mounted with root inode @ nid 36."),
)


def filled(text: str) -> str:
    """A line as the kernel prints it."""
    return text.format(**DEV)


@pytest.mark.parametrize(("level", "text"), GRAVE)
def test_a_grave_line_of_a_file_system_is_an_event(level: int, text: str) -> None:
    """With its level, without one, and with another text around it."""
    line = filled(text)
    state, told = kernel_events.classify(
        kernel_classifier.Classifier(), KernelLine(line, level, monotonic_seconds=1.0)
    )
    assert told or kernel_events.finish(state)
    explained = read(f"[  100.000001] {line}\n", "kernel")
    assert explained.status == WRONG
    assert explained.worst is not None
    assert explained.worst >= Severity.WARNING
    assert explained.unparsed == ()


def test_a_device_that_a_line_names_is_the_object_of_its_event() -> None:
    """Whatever the file system calls it: by 'device', in brackets, behind a colon."""
    for _, text in GRAVE:
        if "{dev}" in text:
            (event,) = read(f"[  100.000001] {filled(text)}\n", "kernel").events[:1]
            assert "sdq1" in event.object, text


@pytest.mark.parametrize(("level", "text"), SAID)
def test_a_line_of_error_that_no_row_takes_is_listed(level: int, text: str) -> None:
    """Not recognized is an answer; 'nothing wrong' is none."""
    for prefix in (f"<{level}>[  100.000001] ", "[  100.000001] "):
        assert read(f"{prefix}{filled(text)}\n", "kernel").status != 0


@pytest.mark.parametrize(("level", "text"), HARMLESS)
def test_a_line_of_each_mount_is_no_event(level: int, text: str) -> None:
    """A third of all lines of file systems: a mount of each."""
    for prefix in (f"<{level}>[  100.000001] ", "[  100.000001] "):
        explained = read(f"{prefix}{filled(text)}\n", "kernel")
        assert explained.status == 0
        assert explained.unparsed == ()


def test_each_family_is_another_one() -> None:
    """The table holds no line twice."""
    texts = [re.sub(r"\{\w+\}", "", text) for _, text in (*GRAVE, *SAID, *HARMLESS)]
    assert len(texts) == len(set(texts))
