"""What file systems without rows of their own did because of a fault: never 'no event'.

The class is tested by its grammar: each head of a line with each consequence, at no level and at
every level. Formats: Linux 6.12, below fs/; OpenZFS 2.4, module/os/linux/spl/spl-err.c.
"""

from __future__ import annotations

import pytest

from iowarden.collectors.kmsg import kernel_classifier, kernel_events
from iowarden.collectors.kmsg.kernel_line import KernelLine, parse_text
from iowarden.collectors.tool_output.kernel_log import parse_kernel_log
from iowarden.daemon.config.rule_files import load_events
from iowarden.rules.severity import Severity

HEADS = (
    ("gfs2: fsid=c1:v.0: ", "c1:v.0"),
    ("OCFS2: (device dm-4): ", "dm-4"),
    ("OCFS2: ", ""),
    ("exFAT-fs (sdq1): ", "sdq1"),
    ("NILFS (sdq1): ", "sdq1"),
    ("ERROR: (device sdq1): ", "sdq1"),
    ("UDF-fs: warning (device sdq1): ", "sdq1"),
    ("ntfs3(sdq1): ", "sdq1"),
    ("ntfs3: sdq1: ", "sdq1"),
    ("erofs: (device sdq1): ", "sdq1"),
    ("UBIFS warning (ubi1:0 pid 7): ubifs_ro_mode: ", "ubi1:0"),
    ("ubi1 warning: ubi_ro_mode: ", "ubi1"),
    ("bcachefs (sdq1): ", "sdq1"),
    ("bcachefs (01234567-89ab-cdef-0123-456789abcdef): ", "01234567-89ab-cdef-0123-456789abcdef"),
    ("zonefs (sdq1) WARNING: ", "sdq1"),
    ("affs: ", ""),
    ("hpfs: filesystem error: ", ""),
    ("befs: (sdq1): ", "sdq1"),
    ("hfsplus: ", ""),
    ("kvdo3:journalQ: ", ""),
)
"""How a line begins, and what it is about."""
CONSEQUENCES = (
    "about to withdraw this file system",
    "File system withdrawn",
    "Filesystem has been set read-only",
    "remounting filesystem read-only",
    "Remounting filesystem as read-only",
    "File system is now read-only.",
    "switched to read-only mode, error -5",
    "fatal error - emergency read only",
    "too many IO errors, setting filesystem RO",
    "panic forced after error",
)
CRITICAL, WARNING, NOTICE = Severity.CRITICAL, Severity.WARNING, Severity.NOTICE
FINDINGS = (
    ("gfs2: fsid=c1:v.0: fatal: invalid metadata block - bh = 12 (magic number)", CRITICAL),
    ("gfs2: fsid=c1:v.0: Error 10 writing to journal, jid=2", CRITICAL),
    ("OCFS2: ERROR (device dm-4): ocfs2_read_blocks: bad bitmap", CRITICAL),
    ("OCFS2: abort (device dm-4): ocfs2_start_trans: Detected aborted journal", CRITICAL),
    ("On-disk corruption discovered. Please run fsck.ocfs2", CRITICAL),
    ("Quota error (device sdq1): v2_read_header: Failed header read: expected=8 got=0", CRITICAL),
    ("minix_free_block (sdq1:33): bit already cleared", CRITICAL),
    ("minix_free_inode: bit 12 already cleared", CRITICAL),
    ("sysv_free_block: trying to free block not in datazone", CRITICAL),
    ("EFS: bread() failed at block 12", CRITICAL),
    ("EFS: read_inode(): failed at block 9", CRITICAL),
    ("ERROR: (device sdq1): xtSearch: XT_GETPAGE: xtree page corrupt", CRITICAL),
    ("NILFS error (device sdq1): nilfs_lookup: deleted inode", CRITICAL),
    ("exFAT-fs (sdq1): error, bogus i_size", CRITICAL),
    ("SQUASHFS error: xz decompression failed, data probably corrupt", CRITICAL),
    ("erofs: (device sdq1): z_erofs_lz4: failed to decompress -5 in[1, 2]", CRITICAL),
    ("UBIFS error (ubi1:0 pid 7): ubifs_check_node: bad CRC: calculated 0x1", CRITICAL),
    ("bcachefs (sdq1 inum 9 offset 8): data checksum error, type crc32c", CRITICAL),
    ("bcachefs (sdq1): btree node read error for extents", CRITICAL),
    ("EXT4-fs (sdq1): ext4_check_descriptors: Checksum for group 3 failed (1!=2)", CRITICAL),
    ("EXT4-fs warning (device sdq1): ext4_dx_find: inode #2: comm ls: error -5 reading", CRITICAL),
    ("ext4_abort called.", CRITICAL),
    ("PANIC: blkptr at 000000001234abcd has invalid TYPE 224", CRITICAL),
    ("*** ocfs2 is very sorry to be fencing this system by restarting ***", CRITICAL),
    ("(o2hb,7,1):o2hb_write_timeout:306 ERROR: Heartbeat write timeout to device dm-4 after 9 ms",
     WARNING),
    ('(o2hb,7,1):o2hb_do_disk:1209 ERROR: Write error -5 on device "dm-4"', WARNING),
    ("md: md7: raid0 array has a missing/failed member", CRITICAL),
    ("arcmsr3: adapter is not ready", CRITICAL),
    ("sd 3:0:0:0: [sdq] Spinning up disk....not responding...", WARNING),
    ("hv_storvsc 5a1b: tag#7 cmd 0x28 status: scsi 0x0 srb 0x4 hv 0xc0000001", WARNING),
    ("megaraid_sas 0000:03:00.0: [ 5]waiting for 3 commands to complete for scsi0", WARNING),
    (r"CIFS: VFS: \\nas1\share Send error in SessSetup = -112", WARNING),
    ("ceph: [0f70 4242]: error decoding mdsmap -22. Shutting down mount.", CRITICAL),
    ("exFAT-fs (sdq1): Volume was not properly unmounted. Some data may be corrupt.", NOTICE),
)  # fmt: skip


def told(text: str, priority: int | None) -> list[tuple[Severity | None, str]]:
    """Severity and object of the events of a line."""
    line = KernelLine(text, priority)
    state, found = kernel_events.classify(kernel_classifier.Classifier(), line)
    table = load_events()
    return [
        (table.find(each).severity_of(each), each.device or each.place)
        for each in (*found, *kernel_events.finish(state))
    ]


@pytest.mark.parametrize(("head", "place"), HEADS)
def test_what_a_file_system_did_because_of_a_fault_is_critical_at_any_level(
    head: str, place: str
) -> None:
    """The lines before it may be gone, and the text may have no levels."""
    for words in CONSEQUENCES:
        for priority in (None, 2, 4, 6):
            assert told(head + words, priority) == [(CRITICAL, place)], words


@pytest.mark.parametrize(("text", "severity"), FINDINGS)
def test_a_fault_is_told_with_and_without_a_level(text: str, severity: Severity) -> None:
    """A pasted log has no levels: the words alone decide."""
    for priority in (None, 3):
        assert [each for each, _ in told(text, priority)] == [severity]


GRAVE = (
    "file system withdrawn",
    "forced into read-only mode",
    "entering read-only mode",
    "fatal condition",
    "fenced by node 2",
    "emergency stop",
    "shutting down filesystem",
)
LEADERS = (
    *("ntfs: volume 7: ", "orangefs: ", "overlayfs: ", "dlm: v1: ", "fuse: ", "afs: ", "ubi3: "),
    *("aacraid: ", "mvsas 0000:02:00.0: ", "drbd r0: ", "9pnet: ", "ecryptfs: ", "jfs: "),
)


@pytest.mark.parametrize("head", LEADERS)
def test_a_grave_word_of_anything_of_storage_is_never_silently_no_event(head: str) -> None:
    """It is an event, or a line that was not recognized; 'nothing is wrong' is never said."""
    for words in GRAVE:
        found = parse_kernel_log(f"[ 12.500000] {head}{words}\n")
        assert found.events or found.unparsed, words


@pytest.mark.parametrize(
    "text",
    [
        "VFS: Mounted root (ext4 filesystem) readonly on device 8:1.",
        "EXT4-fs (sda2): INFO: recovery required on readonly filesystem",
        "squashfs: version 4.0 (2009/01/31) Phillip Lougher",
        "bcachefs (sdq1): shutdown complete, journal seq 12",
        "NILFS (sdq1): segctord starting",
        "gfs2: fsid=c1:v.0: Joined cluster. Now mounting FS",
        "exFAT-fs (sdq1): invalid boot record signature",
        "PANIC: double fault, error_code: 0x0",
        "hv_storvsc 5a1b: tag#7 cmd 0x12 status: scsi 0x2 srb 0x6 hv 0xc0000001",
    ],
)
def test_an_ordinary_line_of_these_is_nothing(text: str) -> None:
    """Mounts, versions, tries with another type."""
    (line,) = parse_text(f"[ 12.500000] {text}\n")
    assert kernel_events.classify(kernel_classifier.Classifier(), line)[1] == ()
    assert not any(each.line for each in parse_kernel_log(f"[ 12.500000] {text}\n").unparsed)


@pytest.mark.parametrize("code", [12, 28, 30, 122])
def test_a_quota_without_space_is_no_damage(code: int) -> None:
    """No memory, no space, read-only, over quota: the quota file itself is not wrong."""
    text = f"Quota error (device sdq1): qtree_write_dquot: Error -{code} occurred while creating"
    assert parse_kernel_log(f"[  100.000001] {text} quota\n").events == ()


IN_USE = (
    "overlayfs: upperdir is in-use as upperdir/workdir of another mount, accessing files from"
    " both mounts will result in undefined behavior."
)


@pytest.mark.parametrize(
    "text",
    [
        IN_USE,
        "overlayfs: metacopy with no lower data found - abort lookup",
    ],
)
def test_a_line_of_overlayfs_with_a_wrong_mount_is_noted(text: str) -> None:
    """It has no class of its own, and is not 'no event' either."""
    assert parse_kernel_log(f"[  100.000001] {text}\n").unparsed != ()
