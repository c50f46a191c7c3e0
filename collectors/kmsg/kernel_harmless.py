r"""Whole messages of level error or worse that healthy machines print.

A line of that level which no pattern takes is counted and shown, and a warning at level critical
(kernel_events.py). Words in general exempt none of them: 'not supported' stands in 'unsupported
media fault: data lost', too. So each message here is given from its first word to its last, with
the reason why it is no event.

Source: Linux 2.6.32 to 6.12, at the file that each group names; levels as in Linux 6.1.
"""

from __future__ import annotations

import functools
import re

_SD = r"(?:sd \S+ \[\w+\] |\w+: )"
"""sd_printk, sd_first_printk; a bare name up to Linux 2.6.18."""
MESSAGES = (
    (
        (
            "a cache or settings page that USB and virtual disks do not have (drivers/scsi/sd.c,"
            " sd_read_cache_type, sd_read_write_protect_flag)"
        ),
        (
            rf"{_SD}[Aa]sking for cache data failed",
            rf"{_SD}[Aa]ssuming drive cache: write (?:through|back)",
            rf"{_SD}No Caching mode page (?:found|present)",
            rf"{_SD}Incomplete mode parameter data",
            rf"{_SD}ATO Got wrong page",
            rf"{_SD}Cache data unavailable",
            rf"{_SD}Uses READ/WRITE\(6\), disabling FUA",
            rf"{_SD}Test WP failed, assume Write Enabled",
        ),
    ),
    (
        (
            "a log page or setting that an older drive does not have (drivers/ata/libata-core.c,"
            " ata_read_log_page, ata_hpa_resize)"
        ),
        (
            r"ata[\d.]+: READ LOG DMA EXT failed, trying PIO",
            r"ata[\d.]+: HPA support seems broken, skipping HPA handling",
        ),
    ),
    (
        (
            "which file system a partition has is tried out, at boot without 'rootfstype' and by"
            " os-prober (fs/ext4/super.c, ext4_load_super; fs/ext2, fs/ext3)"
        ),
        (
            r"EXT\d-fs \(\S+\): couldn't mount as ext[23] due to feature incompatibilities",
            (
                r"EXT\d-fs \(\S+\): (?:error: )?couldn't mount because of unsupported optional"
                r" features \([0-9a-f]+\)"
            ),
            r"EXT\d-fs \(\S+\): VFS: Can't find (?:an )?ext\d filesystem",
            r"EXT\d-fs \(\S+\): unable to read superblock",
            r"VFS: Can't find (?:an )?ext\d filesystem on dev \S+\.",
        ),
    ),
    (
        (
            "a known limit of raid5 and raid6, printed at each mount (fs/btrfs/disk-io.c,"
            " open_ctree)"
        ),
        (
            (
                r"BTRFS (?:alert|warning) \(device \S+\): btrfs RAID5/6 is EXPERIMENTAL and has"
                r" known data-loss bugs"
            ),
        ),
    ),
    (
        (
            "an option or a request of an administrator that was not carried out, which the command"
            " reports (fs/xfs/xfs_super.c, xfs_setup_dax_always; drivers/md/dm-stats.c,"
            " dm_stats_message; drivers/md/dm-table.c, dm-ioctl.c)"
        ),
        (
            r"XFS \(\S+\): DAX unsupported by block device\. Turning off DAX\.",
            r"XFS \(\S+\): DAX not supported for blocksize\. Turning off DAX\.",
            r"XFS \(\S+\): DAX and reflink cannot work with multi-partitions!",
            r"device-mapper: stats: Invalid parameters for message \S+",
            r"device-mapper: table: [\d:]+: multipath: error getting device(?: \(-\w+\))?",
            r"device-mapper: ioctl: error adding target to table",
        ),
    ),
    (
        "an idle connection; the next request opens it again (net/ceph/messenger.c, con_fault)",
        (r"libceph: \S+ \(\d+\)\S+ socket closed \(con state OPEN\)",),
    ),
    (
        "the result of a resume from suspend (drivers/scsi/esas2r/esas2r_init.c, esas2r_resume)",
        (r"esas2r: esas2r_resume\(\): 0",),
    ),
)
"""Reason, and whole messages."""


@functools.cache
def _messages() -> re.Pattern[str]:
    whole = (message for _, messages in MESSAGES for message in messages)
    return re.compile("|".join(f"(?:{message})" for message in whole), re.ASCII)


def is_harmless(text: str) -> bool:
    """Return whether a line is a whole message that healthy machines print, whatever its level."""
    return _messages().fullmatch(text) is not None


def reason(text: str) -> str:
    """Return why a message is harmless; '': it is none of them. For list-kernel-messages."""
    for why, messages in MESSAGES:
        if any(re.fullmatch(message, text, re.ASCII) for message in messages):
            return why
    return ""
