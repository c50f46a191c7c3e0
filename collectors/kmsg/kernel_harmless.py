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
            "the reset of a USB disk, below the line about the command that it aborted"
            " (drivers/usb/storage/uas.c, uas_eh_device_reset_handler)"
        ),
        (r"scsi host\d+: uas_eh_device_reset_handler start",),
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
        (
            "a file system was mounted, or is due for a check by count or age (fs/ext4/super.c,"
            " ext4_setup_super, ext4_fill_super; since Linux 2.6.34)"
        ),
        (
            (
                r"EXT\d-fs \(\S+\): mounted filesystem (?:[0-9a-f-]{36} )?"
                r"(?:(?:r[ow]|r/w) )?with(?:out)? (?:\w+ data mode|journal)"
                r"(?:\. Opts: \S+)?(?:\. Quota mode: [\w ]+)?\.?"
            ),
            r"EXT\d-fs \(\S+\): re-mounted\. Opts: \S+(?:\. Quota mode: [\w ]+)?\.?",
            (
                r"EXT\d-fs \(\S+\): warning: (?:maximal mount count|checktime) reached, running"
                r" e2fsck is recommended"
            ),
        ),
    ),
    (
        (
            "a setting for a known model, or a hint after the line of the fault (drivers/ata/"
            "libata-core.c:2218; nvme/host/pci.c, nvme_warn_reset; megaraid_sas_fusion.c,"
            " megasas_disable_intr_fusion)"
        ),
        (
            r"ata[\d.]+: disabling queued TRIM support",
            r"megaraid_sas \S+: Current firmware supports maximum commands: \d+\s+LDIO .*: \d+",
            r"nvme \S+: Does your device have a faulty power saving mode enabled\?",
            r'nvme \S+: Try "nvme_core\.default_ps_max_latency_us=0[\w .=]*" and report a bug',
            r"megaraid_sas \S+: megasas_disable_intr_fusion is called outbound_intr_mask:0x\w+",
        ),
    ),
    (
        (
            "a voltage that a card may keep (drivers/mmc/core/core.c, mmc_set_uhs_voltage), and a"
            " disk without partitions (block/partitions/core.c, check_partition)"
        ),
        (
            r"mmc\d+: cannot verify signal voltage switch",
            r" ?(?:sd[a-z]+|vd[a-z]+|nvme\d+n\d+|md\d+|dm-\d+): unknown partition table",
        ),
    ),
    (
        (
            "a card was taken out of its reader (drivers/scsi/sd.c:2172), or an enclosure has no"
            " such page (drivers/scsi/ses.c:112, 802, 814)"
        ),
        (
            rf"{_SD}Media removed, stopped polling",
            r"ses \S+ Wrong diagnostic page; asked for \d+ got \d+",
            r"ses \S+ Failed to get diagnostic page 0x\w+",
            r"ses \S+ Failed to bind enclosure -19",
        ),
    ),
    (
        (
            "a virtual disk of Hyper-V does not have a command that smartctl or the discovery sends"
            " (drivers/scsi/storvsc_drv.c, storvsc_on_io_completion): ATA pass-through, log and"
            " mode pages, VPD"
        ),
        (
            (
                r"hv_storvsc \S+: tag#\d+ cmd 0x(?:12|1a|4d|5a|85|a1|a3) status: scsi 0x2"
                r" srb 0x\w+ hv 0x\w+"
            ),
        ),
    ),
    (
        (
            "which file system a partition has is tried out with each one that the kernel has, by"
            " os-prober at each update of the boot loader (fs/minix/inode.c:377, hfs/super.c,"
            " hfsplus/super.c:438, qnx4/inode.c, ufs/super.c:801, squashfs/super.c:236)"
        ),
        (
            r"MINIX-fs: unable to read superblock",
            r"hfs: can't find a HFS filesystem on dev \S+",
            r"hfsplus: unable to find HFS\+ superblock",
            r"qnx4: (?:no qnx4 filesystem \(no root dir\)\.|unable to read the superblock)",
            r"ufs: ufs was compiled with read-only support, can't be mounted as read-write",
            r"SQUASHFS error: Can't find a SQUASHFS superblock on \S+",
            (
                r"UDF-fs: (?:warning|error) \(device \S+\): udf_\w+: No (?:partition|VRS|anchor)"
                r" found(?: \(\d\))?"
            ),
            (
                r"exFAT-fs \(\S+\): (?:invalid boot record signature|failed to read boot sector"
                r"|failed to recognize exfat type|invalid fs_name)"
            ),
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
