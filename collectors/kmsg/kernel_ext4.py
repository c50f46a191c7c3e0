"""Lines of ext2, ext3 and ext4. Source: Linux 6.12, fs/ext4/super.c, ext4.h, page-io.c."""

from __future__ import annotations

_DEVICE = r"(?P<device>[\w!/.-]+)"
_FAULT = "(?!rem|couldn't mount because of unsupported)"
"""Old ext2: neither what it did then, nor that it is not the driver of this file system."""
ROWS: tuple[tuple[str, str], ...] = (
    # fs/ext4/super.c, ext4_decode_error: the names of EFSBADCRC, EFSCORRUPTED and ENOSPC
    (
        rf"EXT\d-fs error \(device {_DEVICE}\) in \w+:\d+: Filesystem failed CRC",
        "fs_checksum_error",
    ),
    (rf"EXT\d-fs error \(device {_DEVICE}\) in \w+:\d+: Corrupt filesystem", "fs_corruption"),
    (rf"EXT\d-fs error \(device {_DEVICE}\) in \w+:\d+: error 28\b", "fs_stopped_full"),
    (
        rf"EXT\d-fs (?:(?:error|abort) \(device |\((?=\S+\): error: {_FAULT})){_DEVICE}\)",
        "fs_error",
    ),
    # a block of the file system itself: fs/ext4/ext4.h, ext4_warning_inode; super.c
    (rf"EXT\d-fs warning \(device {_DEVICE}\): .*error -(?:5|74|117)\b", "fs_error"),
    # fs/ext4/namei.c, __ext4_read_dirblock; to 3.18 without the number of the error
    (rf"EXT\d-fs warning \(device {_DEVICE}\): .*error reading directory block", "fs_error"),
    (rf"EXT\d-fs \({_DEVICE}\): .*[Cc]hecksum for group \d+ failed", "fs_checksum_error"),
    (
        (
            rf"EXT\d-fs warning \(device {_DEVICE}\): .*I/O error (?P<code>-?\d+)? ?writing to"
            r" inode \d+ .*starting block (?P<block>\d{1,20})"
        ),
        "lost_write",
    ),
    (
        (
            rf"EXT\d-fs \({_DEVICE}\): (?:Delayed block allocation failed"
            r"|failed to convert unwritten extents) .*\berror -?(?:28|122)\b"
        ),
        "fs_no_space",
    ),
    (
        (
            rf"EXT\d-fs (?:critical|warning)? ?\((?:device )?{_DEVICE}\): "
            r".*(?:[Dd]ata will be lost|potential data loss)"
        ),
        "lost_write",
    ),
    (
        (
            rf"EXT\d-fs \({_DEVICE}\): .*(?:error count since|initial error at|last error at"
            r"|mounting fs with errors)"
        ),
        "fs_errors_remembered",
    ),
    (
        rf"EXT\d-fs (?:warning ?)?(?:\((?:device )?{_DEVICE}\))?: .*mounting fs with errors",
        "fs_errors_remembered",
    ),
    (rf"EXT\d-fs \({_DEVICE}\): (?:error: )?[Rr]emounting filesystem read-only", "fs_readonly"),
    (rf"EXT\d-fs \({_DEVICE}\): re-mounted \S+ r/w", "fs_remounted_writable"),  # from 6.2 on
    # ext4_fill_super, also from 6.2 on; before, the line does not have whether it is writable
    (rf"EXT\d-fs \({_DEVICE}\): mounted filesystem \S+ r/w with", "fs_mounted"),
    (rf"EXT\d-fs \({_DEVICE}\): .*shut ?down", "fs_shutdown"),
    (
        (
            rf"EXT\d-fs \({_DEVICE}\): .*(?:I/O error|[Dd]elayed block allocation failed"
            r"|error loading journal)"
        ),
        "fs_error",
    ),
)
"""A pattern, and the class of the event."""
