r"""Lines of btrfs in the kernel's log: which kind of event, of the file system or of one disk.

'BTRFS error (device sda): ...' is about the *file system*: sda is the device by which the kernel
named it when it was mounted, one of several, and may have left it since. A disk is meant only where
the message names one: 'bdev /dev/sdb', 'dev /dev/sdb', 'on device /dev/sdb', 'on /dev/sdb'.
'mirror 2' is the second copy of that block, and each block group has its copies on other disks:
neither a device nor a devid. 'devid 2' is a device of the file system that only btrfs can name.

Source: Linux 6.1 and 6.12, fs/btrfs: messages.c and super.c (prefix, state letters; s_id is set
once, by btrfs_mount), volumes.c (btrfs_dev_stat_inc_and_print; map_blocks_raid1: mirror_num),
bio.c, inode.c, disk-io.c, scrub.c, zoned.c, extent_io.c.
"""

from __future__ import annotations

from iowarden.collectors.kmsg.kernel_kinds import HARMLESS

PLACE = "btrfs (device {})"
"""Place of an event of a file system, by the device that its lines name it by."""
DEVICE = r"\(device (?P<btrfs>[^\s)]+?)(?::? state \w+)?\)"
"""The device of the prefix, without the state of the file system: '(device sda: state EA)' since
Linux 5.18, '(device sda state EA)' since 6.10 (messages.c, STATE_STRING_PREFACE).
"""
_SYSTEM = rf"(?i:btrfs)(?: \w+)?:?(?: error)? {DEVICE}"
_ANY = rf"(?i:btrfs)(?: \w+)?:?(?: error)?(?: {DEVICE})?"
"""Also without a file system, as up to Linux 3."""
_DISK = r"(?:/dev/)?(?!mirror\b)(?P<device>[a-z][^\s,;()]*)"
ROWS = (
    # a transaction was aborted, whatever its function is called: 'qgroup_account_snapshot'
    (rf"BTRFS: error {DEVICE} in \w+:\d+: errno=-(?:28|122)\b", "fs_stopped_full"),
    (rf"BTRFS: error {DEVICE} in \w+:\d+: errno=-117\b", "fs_corruption"),
    (rf"BTRFS: error {DEVICE} in \w+:\d+: errno=", "fs_error"),
    (
        (
            r"(?i:btrfs).*(?:swapfile|[^ ]quota|qgroup|ref-verify|sysfs|to set label|balance: "
            r"|selftest|in the filesystem!|already mounted|compiled in)"
        ),
        HARMLESS,
    ),
    (rf"{_ANY}.*?\bbdev {_DISK} errs: (?P<code>.*)", "fs_device_errors"),
    (rf"{_SYSTEM}: bdev <missing disk> errs: (?P<code>.*)", "fs_device_errors"),
    (
        rf"{_SYSTEM}.*(?:missing \d+ devices, max tolerance|due to too many missing devices)",
        "fs_error",
    ),
    (rf"(?i:btrfs) warning:? {DEVICE}: devid \d+ .*\bmissing$", "fs_device_missing"),
    # one copy of the super block; data of programs are elsewhere
    (
        rf"{_ANY}.*lost (?:page|super block) write due to I/?O error on {_DISK}",
        "fs_device_errors",
    ),
    (rf"{_SYSTEM}.*lost (?:page|super block) write due to", "fs_device_errors"),
    (
        rf"{_ANY}.*read error corrected.*\(dev {_DISK} sector (?P<sector>\d{{1,20}})\)",
        "fs_read_corrected",
    ),
    (rf"{_ANY}.*fixed up error.* on dev {_DISK}", "fs_read_corrected"),
    (rf"{_SYSTEM}.*fixed up error", "fs_read_corrected"),
    (rf"{_SYSTEM}.*forced readonly", "fs_readonly"),
    (
        (
            rf"{_ANY}.*(?:(?:checksum|header|generation) error\b|unable to fixup\b).*"
            rf" on (?:dev|device) {_DISK}"
        ),
        "fs_checksum_error",
    ),
    (rf"{_SYSTEM}.*unable to fixup\b", "fs_checksum_error"),
    (
        (
            rf"{_ANY}.*(?:i/o error\b|IO error rebuilding|failed to rebuild"
            rf"|failed to read zone|conventional zone|readonly zone).* (?:on|for)(?: dev(?:ice)?)?"
            rf" {_DISK}"
        ),
        "fs_error",
    ),
    # fs/btrfs/tree-checker.c: the checksum was right, so memory or software damaged it before.
    (rf"(?i:btrfs) (?:error|critical) {DEVICE}: .*corrupt (?:leaf|node)\b", "fs_corruption"),
    # fs/btrfs/transaction.c, cleanup_transaction: it is read-only from the abort on
    (rf"{_SYSTEM}: Skipping commit of aborted transaction", "fs_readonly"),
    (
        (
            rf"(?i:btrfs) (?:warning|error|critical) {DEVICE}: "
            r".*(?:csum|checksum|parent transid|corrupt|bad tree block)"
        ),
        "fs_checksum_error",
    ),
    (
        (
            rf"(?i:btrfs)(?: (?:error|critical))?:?(?: error)? {DEVICE}"
            r"(?: in |: .*(?:errno|[Ee]rror|fail))"
        ),
        "fs_error",
    ),
    # to 4.x
    (r"(?i:btrfs): (?P<btrfs>[\w!-]+) checksum verify failed", "fs_checksum_error"),
    (r"(?i:btrfs): (?:failed to|open_ctree).* on (?P<btrfs>[a-z][\w!-]*)$", "fs_warning"),
    (
        r"parent transid verify failed|btrfs:? (?:csum (?:failed|mismatch)|transid mismatch)",
        "fs_checksum_error",
    ),
    (r"btrfs:? unable to fixup \(", "fs_checksum_error"),
    (r"btrfs:? (?:\d+ errors while writing supers|direct IO failed)", "fs_error"),
)
"""Pattern and kind, by the first words 'BTRFS', 'btrfs' and 'parent'."""


def file_system(place: str) -> str:
    """Return the device by which an event's place names a btrfs, '' if it is no such place."""
    before, after = PLACE.split("{}")
    return place[len(before) : -len(after)] if place.startswith(before) else ""
