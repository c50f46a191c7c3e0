"""Patterns of one-line kernel messages: one format, one event kind.

Source: the drivers' own messages in kernels from 2.4 to 6.x; for each format that has changed, all
its versions. The first matching row decides.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from iowarden.collectors.kmsg import kernel_btrfs, kernel_drivers, kernel_ext4
from iowarden.collectors.kmsg.kernel_kinds import HARMLESS
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.raid.megaraid import storcli_places

Fields = dict[str, Any]
KindAndFields = tuple[str, Fields]
"""Kind and fields of an event."""
EXEMPT: KindAndFields = ("", {})
"""Of a line that a pattern took, and that is no event on purpose."""

LEAD = lazy_pattern(r"[A-Za-z]+|3w|---|\[(?=[0-9a-f]{4}:[0-9a-f]{2}:)", re.ASCII)
"""First words that select the patterns of a line."""
_NOTHING = ""
_LARGEST = 1 << 60
_DEVICE = r"(?P<device>[\w!/.-]+)"
_HOST = r"(?P<controller>[\w:.-]+)"
_MD = r"(?:md/)?(?:raid\w*|linear|multipath)(?::(?P<place>\w+))?: "
_PCI = r"(?P<controller>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])"
_RESET_FAILED = r" (?:FAILED|reset \w+ +failed)\b"
_UNIT_RESET_FAILED = lazy_pattern(rf"\w+ {_PCI}: .*scsi \d+:\d+:\d+:\d+:{_RESET_FAILED}")
_ROWS: dict[str, tuple[tuple[str, str], ...]] = {
    "Buffer": (
        (
            (
                rf"Buffer I/O error on dev(?:ice)? {_DEVICE}, logical block (?P<block>\d{{1,20}})"
                r".*lost (?:a?sync )?page write"
            ),
            "lost_write",
        ),
        (
            rf"Buffer I/O error on dev(?:ice)? {_DEVICE}, logical block (?P<block>\d{{1,20}})",
            "buffer_io_error",
        ),
    ),
    # The sector is not the device's: it was incremented while the request was processed.
    "Read": ((r"Read-error on swap-device(?: \((?P<place>\d+:\d+):\d+\))?", "swap_read_error"),),
    "Write": (
        (r"Write-error on swap-device \((?P<place>\d+:\d+):\d+\)", "swap_write_error"),
        (r"Write error (?:(?P<code>-\d+) )?on dio swapfile", "swap_write_error"),
    ),
    "lost": ((rf"lost page write due to .*error on (?:/dev/)?{_DEVICE}", "lost_write"),),
    "nvme": (
        (r"nvme (?P<device>\S+): identifiers changed for nsid \d+", "nvme_namespace_removed"),
        (
            r"nvme (?P<device>\S+): .*\btimeout, (?P<code>(?:reset|disable) controller)",
            "nvme_reset",
        ),
        (
            r"nvme (?P<device>\S+): .*\btimeout, (?P<code>[a-z]+(?: polled)?)",
            "nvme_timeout",
        ),
        (r"nvme (?P<device>\S+): Timeout I/O", "nvme_timeout"),
        (r"nvme (?P<device>\S+): Abort status: (?P<code>\S+)", "nvme_abort"),
        (
            r"nvme (?P<device>\S+): controller is down; will reset: (?P<code>.*)",
            "nvme_controller_down",
        ),
        (
            r"nvme (?P<device>\S+): (?:Refused|Unable|can't) (?:to )?change power state",
            "nvme_controller_down",
        ),
        (r"nvme (?P<device>\S+): .*\breset controller$", "nvme_controller_down"),
        (
            (
                r"nvme (?P<device>\S+): (?:Removing after probe failure|Device not ready; aborting"
                r"|Disabling device after reset failure|failed to mark controller live"
                r"|Device shutdown incomplete)"
            ),
            "nvme_controller_dead",
        ),
        (
            (
                rf"{_DEVICE}: .*@ LBA (?P<block>\d{{1,20}}), (?P<blocks>\d{{1,10}}) blocks, .*"
                r"\((?P<code>sct 0x2 / sc 0x[0-9a-f]+)\)"
            ),
            "nvme_medium_error",
        ),
        (
            (
                rf"{_DEVICE}: .*@ LBA (?P<block>\d{{1,20}}), (?P<blocks>\d{{1,10}}) blocks, .*"
                r"\((?P<code>sct 0x[0-9a-f]+ / sc 0x[0-9a-f]+)\)"
            ),
            "nvme_status",
        ),
        (
            rf"(?:nvme )?{_DEVICE}: .*\((?P<code>sct 0x[0-9a-f]+ / sc 0x[0-9a-f]+)\)",
            "nvme_admin_status",
        ),
    ),
    # OpenZFS, module/os/linux/zfs/vdev_disk.c, vdev_disk_error. 95 (EOPNOTSUPP): a discard or a
    # flush that the device does not support.
    "zio": (
        (r"zio pool=\S+ vdev=\S+ error=95 ", _NOTHING),
        (r"zio pool=\S+ vdev=(?P<device>\S+) error=(?P<code>\d+) ", "block_io_error"),
    ),
    "virtio": ((rf"virtio_blk virtio\d+: \[{_DEVICE}\] I/O error", "block_io_error"),),
    # fs/fat/misc.c, __fat_fs_error; fs/fat/inode.c, fat_set_state.
    "FAT": (
        (rf"FAT-fs \({_DEVICE}\): Filesystem has been set read-only", "fs_readonly"),
        (rf"FAT-fs \({_DEVICE}\): error, ", "fs_error"),
        (rf"FAT-fs \({_DEVICE}\): Volume was not properly unmounted", "fs_not_unmounted"),
    ),
    "INFO": (
        (
            (
                r"INFO: task (?:(?:jbd2|xfsaild|xfs-\w+)/(?P<device>dm-\d+|[a-z][a-z0-9!]*\d*)"
                r"(?:-\d*)?|(?P<array>md\w+)_(?:raid\d+|resync|recovery|reshape)"
                r"|(?:flush|\S*\+flush)-(?P<place>\d+:\d+)|.*?):\d+ blocked (?:in I/O wait )?for "
                r"more than (?P<code>\d+ seconds)"
            ),
            "hung_task",
        ),
    ),
    "3w": (
        (
            (
                r"3w-\w+: (?P<controller>scsi\d+): AEN: (?P<word>\w+)"
                r"(?: \(0x\w+:(?P<code>0x\w+)\))?: ?(?P<detail>.*)"
            ),
            "hba_aen",
        ),
        (r"3w-\w+: (?P<controller>scsi\d+): .*(?:resetting card|timed out)", "hba_reset"),
        (
            (
                r"3w-\w+: (?P<controller>scsi\d+): (?P<word>ERROR|WARNING): "
                r"\((?P<code>0x\w+:0x\w+)\)"
            ),
            "hba_error",
        ),
        (
            r"3w-\w+: (?P<controller>scsi\d+): (?:Command failed|.*(?:[Ff]ailed|error)\b)",
            "hba_error",
        ),
    ),
    "arcmsr": (
        (
            (
                r"(?P<controller>arcmsr\d*): (?:abort device command of )?scsi id ?= ?(?P<id>\d+) "
                r"lun ?= ?(?P<lun>\d+)"
            ),
            "hba_abort",
        ),
        (r"(?P<controller>arcmsr\d*): .*(?:\btimeout|is not ready)", "hba_dead"),
        (r"(?P<controller>arcmsr\d*): .*\bbus reset", "hba_reset"),
        (r"(?P<controller>arcmsr\d*): .*(?:[Ff]ail|error|abort)", "hba_error"),
    ),
    "aacraid aac": (
        (
            (
                r"(?P<controller>aacraid): Host adapter abort request"
                r"(?: \((?P<quad>\d+,\d+,\d+,\d+)\))?"
            ),
            "hba_abort",
        ),
        (
            r"(?P<controller>aacraid): Host (?:adapter|bus|device|target) reset request",
            "hba_reset",
        ),
        (rf"aacraid {_PCI}: Issuing IOP reset", "hba_reset"),
        (
            r"(?P<controller>aac)\w*: aac_fib_send failed with status: (?P<code>-?\d+)",
            "hba_dead",
        ),
        (
            rf"aacraid {_PCI}: .*(?:IOP reset failed|Adapter health|FIB timeout|offline)",
            "hba_dead",
        ),
    ),
    "cciss": (
        (r"cciss.* LUN failure detected", "hba_error"),
        (r"cciss.* CHECK CONDITION,? .*sense key = 0x[34]\b", "hba_error"),
    ),
    "scsi": (
        (  # to 2.6.11
            r"(?P<host>scsi\d+) \((?P<id>\d+):(?P<lun>\d+)\): rejecting I/O to",
            "scsi_rejected",
        ),
        (
            r"scsi: Device offlined .*: (?P<quad>host \d+ channel \d+ id \d+ lun \d+)",
            "scsi_offlined",
        ),
    ),
    # What hpsa and smartpqi no longer find: a disk, a volume or an enclosure. Address '-:-': a disk
    # that is only a member of volumes. Source: hpsa.c, hpsa_show_dev_msg, before Linux 3.19
    # hpsa_scsi_remove_entry; smartpqi_init.c, pqi_dev_info.
    "hpsa smartpqi": (
        (rf"\w+ {_PCI}: scsi (?P<device>\d+:\d+:\d+:\d+): removed ", "hba_device_removed"),
        (rf"\w+ {_PCI}: [\w -]+ device c\d+b\d+t\d+l\d+ removed", "hba_device_removed"),
        (
            (
                rf"\w+ {_PCI}: (?:removed|offline) (?:scsi )?"
                r"(?:(?P<device>\d+:\d+:\d+:\d+)|\d+:\d+:-:-):? "
            ),
            "hba_device_removed",
        ),
        (
            rf"\w+ {_PCI}: (?:reset of )?scsi (?P<device>\d+:\d+:\d+:\d+):{_RESET_FAILED}",
            "hba_error",
        ),
        (rf"\w+ {_PCI}: (?:scsi )?(?P<device>\d+:\d+:\d+:\d+)?:? ?.*lockup", "hba_dead"),
        (rf"\w+ {_PCI}: .*controller (?:is )?offline", "hba_dead"),
        (
            rf"\w+ {_PCI}: resetting (?:device|scsi) (?P<device>\d+:\d+:\d+:\d+)",
            "hba_reset",
        ),
        (rf"\w+ {_PCI}: scsi (?P<device>\d+:\d+:\d+:\d+): resetting", "hba_reset"),
        (rf"\w+ {_PCI}: scsi (?P<device>\d+:\d+:\d+:\d+): .*\babort", "hba_abort"),
        (rf"\w+ {_PCI}: .*(?:failed|timed out|error)\b", "hba_error"),
    ),
    "megaraid megasas": (
        (r"[^\t]*\t+: ", _NOTHING),  # settings, at its start
        (r"megasas: failed to do reset", "hba_error"),  # to 2.6.32
        (
            (
                rf"\w+ {_PCI}: (?P<code>\d+) \([\w +]+/0x[0-9a-f]+/(?P<word>\w+)\) - "
                r"(?P<event>.*)"
            ),
            "hba_aen",
        ),
        (
            (
                r"\w+:? (?P<controller>\S*\d): .*(?:FAULT state|[Ff]ault state|HW Critical"
                r"|not ready)"
            ),
            "hba_dead",
        ),
        (
            (
                r"\w+:? (?P<controller>\S*\d): .*(?:[Rr]eset(?:ting)? (?:adapter|successful|.*ctrl)"
                r"|waiting for \d+ commands|OCR|target reset)"
            ),
            "hba_reset",
        ),
        (r"\w+:? (?P<controller>\S*\d): .*(?:[Aa]bort|TASK ABORT)", "hba_abort"),
        (r"\w+:? (?P<controller>\S*\d): .*(?:timed out|[Ff]ailed)\b", "hba_error"),
    ),
    "mpt mptbase mptscsih mptsas": (
        # drivers/message/fusion/lsi/mpi_log_sas.h, PL_LOGINFO_CODE_: failed to open a connection,
        # a damaged frame, SATA link down, R_ERR; or a reset or abort because of one of these
        (
            (
                rf"(?:mptbase: )?{_HOST}: (?:log_info|LogInfo)\((?P<code>0x31(?:(?:0[134cd]|18)"
                r"[0-9a-f]{4}|1[12](?:0[134cd]|[2-5]0)[0-9a-f]{2}))\)"
            ),
            "hba_link_error",
        ),
        (
            rf"(?:mptbase: )?{_HOST}: (?:log_info|LogInfo)\((?P<code>0x[0-9a-f]+)\)",
            "hba_log_info",
        ),
        (
            rf"(?:mpt[a-z]+: )?{_HOST}: .*(?:fault_state|non-operational|FAULT state)",
            "hba_dead",
        ),
        (
            (
                rf"(?:mpt[a-z]+: )?{_HOST}: .*(?:diag reset|host reset|bus reset|target reset"
                r"|Initiating recovery)"
            ),
            "hba_reset",
        ),
        (rf"(?:mpt[a-z]+: )?{_HOST}: .*(?:task abort)", "hba_abort"),
        (rf"{_HOST}: removing handle\(0x[0-9a-f]+\)", "hba_disk_lost"),
        (rf"mptsas: {_HOST}: removing (?:ssp|stp|sata) device: ", "hba_disk_lost"),
        (rf"(?:mpt[a-z]+: )?{_HOST}: .*(?:failed|timed? ?out|timeout)\b", "hba_error"),
    ),
    # drivers/message/fusion/mptsas.c, mptsas_del_end_device, by dev_printk.
    "end": (
        (
            rf"end_device-\S+: mptsas: {_HOST}: removing (?:ssp|stp|sata) device: ",
            "hba_disk_lost",
        ),
    ),
    "EXT": kernel_ext4.ROWS,
    "Remounting": ((r"Remounting filesystem read-only", "fs_readonly"),),  # to 2.6.32
    "This": ((r"This should not happen\S* +Data will be lost", "lost_write"),),  # ext4 to 2.6.38
    "ext journal": (  # to 2.6.38
        (r"ext\d: .*I/O error .*superblock", "fs_error"),
        (
            r"ext[34]_abort called|journal commit I/O error|journal_bmap: journal block not found",
            "fs_error",
        ),
    ),
    "JBD Aborting": (
        (
            (
                r"JBD2?: Detected IO errors while flushing file data on "
                r"(?P<device>dm-\d+|[\w!]+?)(?:-\d+)?\.?$"
            ),
            "lost_write",
        ),
        (r"Aborting journal on device (?P<device>[\w!]+?|dm-\d+)(?:-\d+)?\.?$", "fs_error"),
        (
            (
                r"JBD2?: .*(?:[Ee]rror|failed).*\b(?:for|on|device) "
                r"(?P<device>dm-\d+|[\w!]+)(?:-\d+)?\.?$"
            ),
            "fs_error",
        ),
        (r"JBD2?: .*(?:I/O error|IO error|corrupt)", "fs_error"),
    ),
    "XFS Filesystem xfs": (
        (
            (
                rf"XFS \({_DEVICE}\): .*(?:[Ss]hutting down filesystem|has been shut down"
                r"|Filesystem has been shut)"
            ),
            "fs_shutdown",
        ),
        (r"xfs_force_shutdown\((?P<device>\w+),", "fs_shutdown"),
        # fs/xfs/xfs_log.c, xfs_log_mount_finish: after a shutdown the log is mostly replayed
        (rf"XFS \({_DEVICE}\): Ending (?:clean mount|recovery \(logdev: )", "fs_mounted"),
        (rf"XFS \({_DEVICE}\): .*CRC error", "fs_checksum_error"),
        # libxfs/xfs_da_btree.c and others: a verifier that is not of the checksum, EFSCORRUPTED
        (rf"XFS \({_DEVICE}\): .*[Cc]orrupt", "fs_corruption"),
        (
            (
                rf"XFS \({_DEVICE}\): .*(?:I/O [Ee]rror|IO [Ee]rror).* at daddr "
                r"0x(?P<sector_hex>[0-9a-f]{1,16}) len (?P<sectors>\d{1,10}) error 117\b"
            ),
            "fs_corruption",
        ),
        (
            (
                rf"XFS \({_DEVICE}\): .*(?:I/O [Ee]rror|IO [Ee]rror).* at daddr "
                r"0x(?P<sector_hex>[0-9a-f]{1,16}) len (?P<sectors>\d{1,10})"
            ),
            "fs_error",
        ),
        (
            (
                rf"XFS \({_DEVICE}\): writeback error on (?:sector|inode .*sector) "
                r"(?P<sector>\d{1,20})"
            ),
            "fs_error",
        ),
        # 74: a checksum, 117: a structure; 22: another file system. fs/xfs/xfs_mount.c, xfs_readsb.
        (rf"XFS \({_DEVICE}\): SB validate failed with error -117\b", "fs_corruption"),
        (rf"XFS \({_DEVICE}\): SB validate failed with error -(?:5|74)\b", "fs_error"),
        (
            (
                rf"XFS \({_DEVICE}\): .*(?:I/O error|IO error|returned error|[Ii]nternal error"
                r"|[Ff]ailing async write|writeback error|log mount.* failed)"
            ),
            "fs_error",
        ),
        # to 2.6.38
        (r"Filesystem \"(?P<device>[\w!-]+)\": .*Shutting down filesystem", "fs_shutdown"),
        (
            (
                r"Filesystem \"(?P<device>[\w!-]+)\": .*(?i:error|corrupt|\bbad\b|bogus"
                r"|not in the AIL)"
            ),
            "fs_error",
        ),
        (r"Filesystem \"(?P<device>[\w!-]+)\": .*failed", "fs_warning"),
        (r"xfs_\w+: .*(?:returned(?:\(\))? +an error|CORRUPT)", "fs_error"),
        (r"XFS: (?:log mount|failed to read|.*(?:I/O error|corrupt))", "fs_error"),
        (r"Filesystem has been shut ?down", "fs_shutdown"),
    ),
    "I": (  # XFS to 2.6.38
        (
            (
                rf"I/O error in filesystem \(\"[^\"]*\"\) meta-data dev {_DEVICE} block "
                r"0x(?P<sector_hex>[0-9a-f]{1,16})"
            ),
            "fs_error",
        ),
    ),
    "BTRFS btrfs parent": kernel_btrfs.ROWS,
    # OpenZFS, module/zfs/zio.c (zio_suspend), mmp.c (mmp_thread): from 2.2 on the second is alone.
    # 'SPLError' to 0.6.3: its module/spl/spl-err.c, vcmn_err.
    "WARNING SPLError": (
        (
            (
                r"(?:SPLError: \d+:\d+:\([\w.:-]+\(\)\) )?WARNING: Pool '(?P<place>[^']{1,255})'"
                r" .*has been suspended"
            ),
            "pool_suspended",
        ),
        (
            r"WARNING: MMP writes to pool '(?P<place>[^']{1,255})' .*suspending pool",
            "pool_suspended",
        ),
    ),
    "REISERFS ReiserFS vs": (
        (r"(?:REISERFS|ReiserFS)\b.*\(device (?P<device>\w+)\)", "fs_error"),
        (
            r"(?:REISERFS|ReiserFS): (?P<device>\w+): .*(?:error|warning: .*failure)",
            "fs_error",
        ),
        (r"vs-\d+: .*(?:i/o failure|I/O)", "fs_error"),
    ),
    "md raid multipath --- Operation": (
        (
            rf"{_MD}(?:Disk failure on {_DEVICE}|IO failure on (?P<other>[\w!/.-]+)), disabling",
            "md_disk_failure",
        ),
        (
            # to 2.6.32 without the array, and to 2.6.27 as a line of its own
            (
                r"(?:(?:md/)?(?:raid\w*|multipath)(?::(?P<device>\w+))?: )?"
                r"Operation continuing on (?P<code>\d+) (?:devices|IO paths)"
            ),
            "md_members",
        ),
        (
            (
                rf"{_MD}read error corrected \((?P<sectors>\d{{1,10}}) sectors at "
                rf"(?P<sector>\d{{1,20}}) on {_DEVICE}\)"
            ),
            "md_read_corrected",
        ),
        (
            (
                rf"{_MD}read error (?:not correctable|NOT corrected).*\(sector "
                rf"(?P<sector>\d{{1,20}}) on {_DEVICE}\)"
            ),
            "md_read_uncorrectable",
        ),
        (rf"{_MD}{_DEVICE}: unrecoverable I/?O read error", "md_read_uncorrectable"),
        (rf"{_MD}.*(?:unrecoverable|NOT corrected)", "md_read_uncorrectable"),
        (
            (
                rf"{_MD}(?:Too many read errors, failing device|{_DEVICE}: (?:Raid device exceeded"
                r" read_error threshold|Failing raid device))(?: (?P<other>[a-z]\w+))?"
            ),
            "md_read_uncorrectable",
        ),
        (rf"{_MD}{_DEVICE}: rescheduling sector (?P<sector>\d{{1,20}})", "md_reschedule"),
        (
            rf"{_MD}redirecting sector (?P<sector>\d{{1,20}}) to other mirror: {_DEVICE}",
            "md_reschedule",
        ),
        (rf"{_MD}{_DEVICE}: redirecting sector (?P<sector>\d{{1,20}}) to", "md_reschedule"),
        (r"md: super_written gets error=(?P<code>-?\d+)", "md_super_error"),
        (r"md: write_disk_sb failed for device (?P<device>\w+)", "md_super_error"),
        # md.c, md_is_broken... of raid0 and linear, Linux 5.4 on
        (r"md: (?P<device>\w+): \S+ array has a missing/failed member", "md_failed"),
        (
            rf"{_MD}.*(?:not enough operational|cannot start dirty degraded|failed to run)",
            "md_failed",
        ),
        (r"multipath\S*: (?:only one IO path left|no (?:more )?operational IO path)", "md_failed"),
        (r"md: kicking non-fresh (?P<device>\w+) from array", "md_kicked"),
        (
            (
                r"(?:(?:md/)?raid\w*:(?: raid (?:level \d+ )?set )?|multipath: array )"
                r"(?P<device>\w+)(?::.*)? active with (?P<code>\d+ out of \d+)"
            ),
            "md_degraded",
        ),
        (r"(?P<device>md\w+): mismatch sector", "md_mismatch"),
        (r"md: (?P<code>[\w-]+)(?: of)? RAID array (?P<device>\w+)", "md_sync_started"),
        (r"md: (?P<device>\w+): (?P<code>[\w-]+) done", "md_sync_done"),
        (r"md: (?P<device>\w+): (?P<code>[\w-]+) interrupted", "md_sync_interrupted"),
        (r"--- (?:level:\d+ )?rd:(?P<all>\d+) wd:(?P<code>\d+)", "md_members"),
    ),
    "device": (
        (r"device-mapper: (?:dm-)?multipath: .*Failing path (?P<place>[\d:]+)", "dm_path_failed"),
        (
            r"device-mapper: (?:dm-)?multipath: .*Reinstating path (?P<place>[\d:]+)",
            "dm_path_reinstated",
        ),
        (r"device-mapper: thin: (?P<place>\d+:\d+)?.*low water mark", "dm_pool_low"),
        (
            (
                r"device-mapper: (?:thin|space map \w+): (?P<place>\d+:\d+)?.*"
                r"(?:out-of-data-space|[Nn]o free|read-only mode|unable to allocate)"
            ),
            "dm_pool_full",
        ),
        # Also printed when a pool is made (dm-thin.c, notify_of_pool_mode_change).
        (r"device-mapper: thin: (?P<place>[\d:]+): switching pool to write", "dm_pool_writable"),
        (r"device-mapper: snapshots: Invalidating snapshot", "dm_snapshot_invalid"),
        (
            (
                rf"device-mapper: (?:crypt|integrity|verity): {_DEVICE}: (?:INTEGRITY AEAD ERROR, "
                r"sector (?P<sector>\d{1,20})|.*[Cc]hecksum failed at sector "
                r"0x(?P<sector_hex>[0-9a-f]{1,16})|(?:data|metadata) block (?P<block>\d{1,20}) is "
                r"corrupted)"
            ),
            "dm_checksum_error",
        ),
    ),
    "bcache": (
        (r"bcache: \w+\(\) (?P<device>[a-z]\w*): .*(?:error|fail)", "bcache_error"),
        (r"bcache: .*(?:IO error|disabling|too many)", "bcache_error"),
    ),
}
"""By the first word of the line."""
_PCI_DETAIL = lazy_pattern(
    r"[\w-]{1,40} [0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]: (?:AER: )?  "
    r" *(?:device \[|\[ ?[0-9]{1,2}\] )",
    re.ASCII,
)
"""Identity and bits of an error on PCI Express that the line before reports. Source:
drivers/pci/pcie/aer.c, aer_print_error, __aer_print_error."""
_RARE = (
    # Of a disk only: 'mdadm --stop', 'losetup -d' and others set the size of theirs to 0, too.
    # Source: block/genhd.c, set_capacity_and_notify; before Linux 5.11 fs/block_dev.c.
    (
        lazy_pattern(
            r"(?P<device>(?:sd|vd|xvd)[a-z]{1,3}|nvme[0-9]+n[0-9]+): detected capacity change"
            r" from [0-9]+ to 0$",
            re.ASCII,
        ),
        "block_size_zero",
    ),
    (
        lazy_pattern(
            r"(?P<device>[\w!-]+): rw=[0-9]+, (?:want|sector)=(?P<sector>[0-9]{1,20}),"
            r"(?: nr_sectors = (?P<sectors>[0-9]{1,10}))?",
            re.ASCII,
        ),
        "block_beyond_end",
    ),
    (
        lazy_pattern(
            r"(?P<code>(?:__ratelimit|quiet_error|(?:blk|print|buffer|end_request|scsi|sd|nvme|ata"
            r"|ext[234]|EXT[234]|XFS|xfs|BTRFS|btrfs|JBD|jbd|md|raid|dm|bio|submit|handle_bad|mpt"
            r"|arcmsr|aac|hpsa|mega|io_|ahci)[\w-]*)[^:]*): [0-9]+ callbacks suppressed",
            re.ASCII,
        ),
        "callbacks_suppressed",
    ),
)
"""For any first word."""
_GROUPS = {lead: leads for leads in _ROWS for lead in leads.split(" ")}
_READY = lazy_pattern(
    r"(?:\w+:? |qla2xxx \[)?(?P<controller>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]"
    r"|(?:mpt[23]sas_cm|mpt2sas|mpi3mr|ioc)[0-9]{1,4})(?:\]-[0-9a-f]{4}:[0-9]{1,4})?: "
    r"(?:Reset successful for scsi|reset successful$"  # megaraid_sas_fusion.c:5170, _base.c:2921
    r"|(?:diag|host|bus|target) reset: SUCCESS"  # mpt3sas_base.c:8086, _scsih.c:3543; mptscsih.c
    r"|controller reset (?:is successful|complete$)"  # mpi3mr_fw.c:5542; hisi_sas_main.c:1648
    r"|(?:IOP|SOFT) reset succeeded"  # aacraid/src.c:821, 843
    r"|(?:ADAPTER|BUS|TARGET|DEVICE) RESET SUCCEEDED"  # qla_os.c:1503 to 1734
    r"|Online Firmware Activation: SUCCESS"  # smartpqi_init.c:3659
    r"|(?:reset of )?scsi (?P<device>[0-9]+:[0-9]+:[0-9]+:[0-9]+): "
    r"(?:SUCCESS$|reset (?:logical|physical) +completed successfully))",  # :6449; hpsa.c:6117
    re.ASCII,
)
"""An adapter, or a device behind it, works again after a reset. Source: drivers/scsi, Linux 6.12.
arcmsr, 3w-*, lpfc, megaraid_mbox, ipr print none with the name of the adapter."""
_STRONGER = frozenset({"hba_dead", "hba_reset", "hba_abort", "hba_link_down"})
"""Kinds that take precedence over a row for words of a fault in general."""
LEADS = frozenset(_GROUPS) | kernel_drivers.LEADS
_DISK_NAMES = ("sd", "hd", "vd", "nvme", "dm-", "md", "mmc", "xvd")
_PORT = lazy_pattern(r"port=(\d{1,5})|[Pp]ort #?(\d{1,5})", re.ASCII)
_UNIT = lazy_pattern(r"(unit|subunit|slot|encl\w*)=(\d{1,5})", re.ASCII)
_LBA = lazy_pattern(r"LBA=0x([0-9a-f]{1,16})", re.ASCII | re.IGNORECASE)
_SOMEWHERE = lazy_pattern(
    r"(?:^|[\s(\"'/=:])(?!(?:[sv]dev|hdr)\b)"
    r"(?:(?P<device>(?:sd|vd|xvd)[a-z]{1,3}\d{0,3}|(?:hd[a-z]|nvme\d+(?:c\d+)?n\d+p?|mmcblk\d+p?)\d{0,3}|(?:md_?|dm-|nbd|rbd|rnbd|drbd|bcache|zram)\d{1,6}(?:p\d{1,3})?)"
    r"|(?P<controller>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]|(?:ioc|cciss|virtio)\d{1,4}))"
    r"(?!\w|-\w)",
    re.ASCII,
)
"""A device or an adapter, by names that are unambiguous, anywhere in the message."""
_DRIVER = lazy_pattern(
    r"(?P<driver>3w-(?:9xxx|sas|xxxx)|aacraid|AAC|aic94xx|arcmsr|be2iscsi|bfa|bnx2fc|bnx2i|cciss"
    r"|cpqarray|csiostor|cxgb[34]i|esas2r|fnic|hisi_sas|hpsa|hptiop|ibmvf?c?scsi|ipr|ips|isci"
    r"|lpfc|MaxRAID|megaraid_mbox|megaraid_sas|megaraid|megasas|mpi3mr|mpt[23]sas|mptbase|mptfc"
    r"|mptsas|mptscsih|mptspi|mvsas|mvumi|pmcraid|pm80xx|qed[fi]|qla[24]xxx|smartpqi|snic|stex"
    r"|ufshcd|virtio_scsi|vmw_pvscsi|ahci|ata_piix|[ps]ata_\w+)(?=[:_ (])",
    re.ASCII,
)
"""A message of a driver that does not identify its adapter."""
_DRIVER_NAMES = {"AAC": "aacraid", "MaxRAID": "pmcraid", "megasas": "megaraid_sas"}
_EXTRA = frozenset("id lun quad array all other detail sector_hex host named event btrfs".split())
_WHERE = frozenset({"device", "controller", "place"})
_INTEGERS = frozenset({"sector", "sectors", "block", "blocks"})


def shape(text: str) -> KindAndFields | None:
    """Return the kind and the fields of a one-line message, or EXEMPT; None: no pattern took it."""
    if _PCI_DETAIL.match(text) is not None:
        return EXEMPT
    lead = LEAD.match(text)
    if (ready := _READY.match(text)) is not None:
        return located(_with_fields("hba_ready", ready.groupdict()), text)
    for pattern, kind in _shapes(_GROUPS.get(lead[0], "") if lead else ""):
        if (found := pattern.match(text)) is not None:
            weighed = _weighed(text, lead) if kind == "hba_error" else kind
            return located(_with_fields(weighed, found.groupdict()), text)
    said = None if lead is None else kernel_drivers.read(lead[0], text)
    return None if said is None else located(_with_fields(*said), text)


# Compiled for the first line with such a word: a machine has few of them.
@functools.cache
def _shapes(leads: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    rows = _ROWS.get(leads, ())
    return (*((re.compile(pattern, re.ASCII), kind) for pattern, kind in rows), *_RARE)


def located(found: KindAndFields, text: str) -> KindAndFields:
    """Return an event with a location, from any name in its text if its row captured none."""
    if found[0] in {_NOTHING, HARMLESS, "hung_task"} or _WHERE & found[1].keys():
        return found
    kind, fields = found
    if (name := _SOMEWHERE.search(text)) is not None:
        return kind, fields | _adapter({k: v for k, v in name.groupdict().items() if v})
    if (driver := _DRIVER.match(text)) is not None:
        word = driver["driver"]
        return kind, fields | {"controller": _DRIVER_NAMES.get(word, word)}
    return found


def _weighed(text: str, lead: re.Match[str] | None) -> str:
    """Return the kind of a line that a row matched by words of a fault in general."""
    if lead is None or kernel_drivers.is_quiet(text):
        return HARMLESS
    said = kernel_drivers.read(lead[0], text)
    is_of_unit = _UNIT_RESET_FAILED.search(text)  # the adapter serves the others
    return said[0] if said and said[0] in _STRONGER and not is_of_unit else "hba_error"


def _with_fields(kind: str, groups: dict[str, str | None]) -> KindAndFields:
    """Return an event with the captured fields of its line, as fields of StorageEvent."""
    if kind == _NOTHING:
        return EXEMPT
    told = {name: value for name, value in groups.items() if value is not None}
    fields: Fields = {name: value for name, value in told.items() if name not in _EXTRA}
    for name in _INTEGERS & fields.keys():
        fields[name] = number(fields[name])
    if "sector_hex" in told:
        fields["sector"] = number(told["sector_hex"], 16)
    if "lun" in told:
        fields["place"] = f"id {told['id']} lun {told['lun']}"
    if "btrfs" in told:
        fields["place"] = kernel_btrfs.PLACE.format(told["btrfs"])
    if "quad" in told:
        fields["device"] = ":".join(re.findall(r"\d+", told["quad"]))
    if "array" in told or "other" in told:
        fields["device"] = told.get("array") or told["other"]
    if "all" in told and int(told["code"]) >= int(told["all"]):
        return EXEMPT
    if kind == "md_degraded":
        here, _, wanted = told["code"].partition(" out of ")
        if int(here) >= int(wanted):
            return EXEMPT
    fields |= _adapter(told)
    if "event" in told:
        fields["place"], fields["block"] = storcli_places.where(told["event"])
    if "detail" in told:
        fields |= _aen(told["detail"], told.get("code"))
    if kind == "hung_task" and "place" in fields:
        fields["place"] = f"block {fields['place']}"
    return kind, fields


def _adapter(groups: dict[str, str]) -> Fields:
    """Return the adapter or disk that a line names, by any of its names."""
    if "host" in groups:
        return {"controller": "host" + re.split(r"\D", groups["host"])[-1]}
    if "named" in groups:
        disk = groups["named"].startswith(_DISK_NAMES)
        return {"device" if disk else "controller": groups["named"]}
    if "controller" in groups:  # arcmsr, too, counts by SCSI host
        return {"controller": re.sub(r"^(?:arcmsr|scsi)(?=\d)", "host", groups["controller"])}
    return {"device": groups["device"]} if "device" in groups else {}


def _aen(detail: str, code: str | None) -> Fields:
    """Return the location of a 3ware event: 'Sector repair completed:port=1,LBA=0x4383A7F.'."""
    fields: Fields = {} if code else {"code": detail.partition(":")[0].strip(" .")}
    places = [f"{name} {number}" for name, number in _UNIT.findall(detail)]
    if (port := _PORT.search(detail)) is not None:
        places.append(f"port {port[1] or port[2]}")
    if places:
        fields["place"] = " ".join(places)
    if (block := _LBA.search(detail)) is not None:
        fields["block"] = number(block[1], 16)
    return fields


def number(digits: str | None, base: int = 10) -> int | None:
    """Return a number that can be a sector number."""
    if not digits:
        return None
    number = int(digits, base)
    return number if number < _LARGEST else None
