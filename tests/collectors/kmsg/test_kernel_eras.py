"""Storage messages of kernels before 6.1, in their own formats.

Each line is written from its format in the source; next to it are file and version. The versions:
2.6.9 (RHEL 4), 2.6.18 (RHEL 5), 2.6.27, 2.6.32 (RHEL 6), 3.6, 3.10 (RHEL 7), 4.4, 4.15, 4.18 (RHEL
8), 4.19, 5.4, 5.10, 5.14, 5.15 and 6.8 (Debian, Ubuntu), and as the newest 7.2.
"""

from __future__ import annotations

import pytest
from support import kernel_verdicts

from iowarden.collectors.kmsg.kernel_classifier import Classifier
from iowarden.collectors.kmsg.kernel_events import classify, finish
from iowarden.collectors.kmsg.kernel_line import KernelLine
from iowarden.rules.events.event_table import parse_events_file
from iowarden.rules.severity import Severity

OLD = (
    # block layer and page cache
    (
        "end_request: I/O error, dev sda, sector 12345",  # block/ll_rw_blk.c 2.6.18
        {"kind": "block_io_error", "device": "sda", "sector": 12345},
    ),
    (
        "end_request: critical medium error, dev sdb, sector 64",  # block/blk-core.c 2.6.32 (RHEL)
        {"kind": "block_medium_error", "device": "sdb", "sector": 64},
    ),
    (
        "blk_update_request: recoverable transport error, dev sdc, sector 8",  # blk-core.c 3.10
        {"kind": "block_transport_error", "device": "sdc", "sector": 8},
    ),
    (
        "print_req_error: I/O error, dev sdd, sector 2048 flags 0",  # block/blk-core.c 4.15, 4.19
        {"kind": "block_io_error", "device": "sdd", "sector": 2048},
    ),
    (
        "bio too big device dm-3 (512 > 255)",  # generic_make_request, 2.6.9 to 3.10
        {"kind": "block_io_error", "device": "dm-3"},
    ),
    (
        "sdb1: rw=1, want=4000797, limit=4000796",  # handle_bad_sector, 2.6.9 to 4.19
        {"kind": "block_beyond_end", "device": "sdb1", "sector": 4000797},
    ),
    (
        "Buffer I/O error on device cciss/c0d0p1, logical block 77",  # fs/buffer.c 2.6.9 to 3.10
        {"kind": "buffer_io_error", "device": "cciss/c0d0p1", "block": 77},
    ),
    (
        "lost page write due to I/O error on dm-0",  # fs/buffer.c 2.6.9 to 2.6.32
        {"kind": "lost_write", "device": "dm-0"},
    ),
    (
        (
            "Page cache invalidation failure on direct I/O.  Possible data corruption due to "
            "collision with buffered I/O!"
        ),  # fs/iomap.c 4.15, fs/direct-io.c 5.4
        {"kind": "fs_warning"},
    ),
    # IDE disks, of drivers/ide 2.6.9 to 2.6.32
    *(
        (f"hda: {words}", {"kind": "ata_timeout", "device": "hda"})
        for words in (
            "dma_timer_expiry: dma status == 0x61",  # ide-dma.c
            "DMA timeout error",  # ide-io.c, ide_dma_timeout_retry
            "DMA timeout retry",
            "timeout waiting for DMA",  # ide-dma.c
            "lost interrupt",  # ide-io.c, ide_timer_expiry
            "no DRQ after issuing MULTWRITE_EXT",  # ide-taskfile.c
            "drive not ready for command",  # ide-io.c, start_request
        )
    ),
    (
        "hda: status timeout: status=0xd0 { Busy }",  # ide-iops.c, ide_wait_stat
        {"kind": "ide_error", "device": "hda"},
    ),
    # SATA, of libata-eh.c and libata-scsi.c 2.6.18
    *(
        (
            f"ata2.00: tag 0 cmd 0xca Emask 0x9 stat 0x51 err 0x40 ({mask})",
            {"kind": kind, "device": "ata2.00", "code": mask},
        )
        for mask, kind in (
            ("media error", "ata_media_error"),
            ("timeout", "ata_timeout"),
            ("ATA bus error", "ata_bus_error"),
            ("host bus error", "ata_bus_error"),
            ("HSM violation", "ata_result"),
            ("device error", "ata_result"),
            ("unknown error", "ata_result"),
        )
    ),
    (
        "ata5: translated ATA stat/err 0x51/40 to SCSI SK/ASC/ASCQ 0x3/11/04",
        {"kind": "ata_status", "device": "ata5"},
    ),
    ("ata5: no sense translation for status: 0x51", {"kind": "ata_status", "device": "ata5"}),
    ("ata5: port failed to respond (30 secs)", {"kind": "ata_reset_failed", "device": "ata5"}),
    ("ata5: classification failed", {"kind": "ata_reset_failed", "device": "ata5"}),
    # SCSI sense, of constants.c 2.6.18: scsi_print_sense_hdr, scsi_show_extd_sense
    *(
        (f"sdb: {error}{form}: {key}", {"kind": "scsi_medium_error", "device": "sdb"})
        for error in ("Current", "Deferred")
        for form in ("", " [descriptor]")
        for key in ("sense key: Medium Error",)
    ),
    ("sdb: Current: sense key=0x4", {"kind": "scsi_hardware_error", "device": "sdb"}),
    # arrays, of drivers/md
    (
        "Operation continuing on 3 devices",  # 2.6.9 to 2.6.27: the line below the next one
        {"kind": "md_members", "code": "3"},
    ),
    ("raid10: Operation continuing on 3 devices.", {"kind": "md_members", "code": "3"}),  # 2.6.32
    ("multipath: Operation continuing on 2 IO paths.", {"kind": "md_members", "code": "2"}),
    (
        "raid5: Disk failure on sdb1, disabling device. Operation continuing on 3 devices",  # 2.6.9
        {"kind": "md_disk_failure", "device": "sdb1"},
    ),
    (
        "raid1: Disk failure on sda3, disabling device. ",  # raid1.c 2.6.9 to 2.6.27
        {"kind": "md_disk_failure", "device": "sda3"},
    ),
    (
        "multipath: IO failure on sdc, disabling IO path.",  # multipath.c 2.6.9 to 4.19
        {"kind": "md_disk_failure", "device": "sdc"},
    ),
    (
        "multipath: only one IO path left and IO error.",  # multipath.c 2.6.9 to 4.19
        {"kind": "md_failed"},
    ),
    (
        "multipath_map: no more operational IO paths?",  # md-multipath.c 4.x; with () in 2.6.9
        {"kind": "md_failed"},
    ),
    (
        "multipath: sdc1: unrecoverable IO read error for block 16",  # multipath.c 2.6.9 to 4.19
        {"kind": "md_read_uncorrectable", "device": "sdc1"},
    ),
    (
        "raid1: sdb2: unrecoverable I/O read error for block 4096",  # raid1.c 2.6.9 to 2.6.27
        {"kind": "md_read_uncorrectable", "device": "sdb2"},
    ),
    (
        "raid5: read error not correctable (sector 99 on sdc1).",  # raid5.c 2.6.18
        {"kind": "md_read_uncorrectable", "device": "sdc1", "sector": 99},
    ),
    (
        "raid5:md2: read error corrected (8 sectors at 4711 on sdd1)",  # raid5.c 2.6.27
        {"kind": "md_read_corrected", "device": "sdd1", "place": "md2", "sector": 4711},
    ),
    (
        "raid1: sdb1: redirecting sector 4711 to another mirror",  # raid1.c 2.6.9 to 2.6.27
        {"kind": "md_reschedule", "device": "sdb1", "sector": 4711},
    ),
    (
        "raid5: raid level 5 set md0 active with 3 out of 4 devices, algorithm 2",  # 2.6.9 to 27
        {"kind": "md_degraded", "device": "md0", "code": "3 out of 4"},
    ),
    (
        "raid6: raid level 6 set md127 active with 5 out of 6 devices, algorithm 2",  # 2.6.9
        {"kind": "md_degraded", "device": "md127"},
    ),
    (
        "raid1: raid set md1 active with 1 out of 2 mirrors",  # raid1.c 2.6.9 to 2.6.27
        {"kind": "md_degraded", "device": "md1", "code": "1 out of 2"},
    ),
    (
        "raid10: raid set md3 active with 3 out of 4 devices",  # raid10.c 2.6.9 to 2.6.27
        {"kind": "md_degraded", "device": "md3"},
    ),
    (
        "multipath: array md4 active with 1 out of 2 IO paths",  # multipath.c 2.6.9 to 4.19
        {"kind": "md_degraded", "device": "md4"},
    ),
    (
        "md/raid1:md0: active with 1 out of 2 mirrors",  # raid1.c 2.6.32 (RHEL) and later
        {"kind": "md_degraded", "device": "md0"},
    ),
    (
        "md/raid:md0: raid level 5 active with 2 out of 3 devices, algorithm 2",  # raid5.c 3.6
        {"kind": "md_degraded", "device": "md0"},
    ),
    (
        "raid5: not enough operational devices for md0 (2/4 failed)",  # raid5.c 2.6.9 to 2.6.27
        {"kind": "md_failed", "device": "md0"},
    ),
    (
        "raid5: cannot start dirty degraded array for md5",  # raid5.c 2.6.9 to 2.6.27
        {"kind": "md_failed", "device": "md5"},
    ),
    (
        "raid5: starting dirty degraded array: md0- data corruption possible.",  # raid5.c 2.6.18
        {"kind": "md_failed", "device": "md0"},
    ),
    (
        "raid10: not enough operational mirrors for md3",  # raid10.c 2.6.18
        {"kind": "md_failed", "device": "md3"},
    ),
    (
        "md: could not bd_claim sdb1.",  # md.c 2.6.9 to 2.6.32
        {"kind": "md_kicked", "device": "sdb1"},
    ),
    (
        "md: sdb1 does not have a valid v1.2 superblock, not importing!",  # md.c 2.6.27 to 4.19
        {"kind": "md_kicked", "device": "sdb1"},
    ),
    (
        "md: syncing RAID array md0",  # md.c 2.6.9
        {"kind": "md_sync_started", "device": "md0"},
    ),
    (
        "md: md0: sync done.",  # md.c 2.6.9
        {"kind": "md_sync_done", "device": "md0"},
    ),
    # device-mapper
    (
        "device-mapper: dm-multipath: Failing path 8:16.",  # dm-mpath.c 2.6.9
        {"kind": "dm_path_failed", "place": "8:16"},
    ),
    (
        "device-mapper: multipath: Failing path 8:32.",  # dm-mpath.c 2.6.18 to 5.15
        {"kind": "dm_path_failed", "place": "8:32"},
    ),
    (
        "device-mapper: raid1: Mirror read failed from 254:3. Trying alternative device.",  # 2.6.27
        {"kind": "dm_error", "place": "254:3"},
    ),
    (
        "device-mapper: dirty region log: 253:4: Failed to read header on dirty region log device",
        {"kind": "dm_error", "place": "253:4"},  # dm-log.c 3.6
    ),
    (
        "device-mapper: zoned metadata: (sdb): Zone 12 is offline",  # dm-zoned-metadata.c 4.15
        {"kind": "unrecognized_error", "device": "sdb"},
    ),
    (
        "bcache: bch_count_io_errors() sdb1: IO error on reading, recovering",  # io.c 3.10
        {"kind": "bcache_error", "device": "sdb1"},
    ),
    # disks, of drivers/scsi
    (
        "SCSI error : <0 0 1 0> return code = 0x10000",  # scsi_lib.c 2.6.9
        {"kind": "scsi_no_connect", "device": "0:0:1:0"},
    ),
    (
        "sd 0:0:1:0: SCSI error: return code = 0x00030000",  # scsi_lib.c 2.6.18
        {"kind": "scsi_timeout", "device": "0:0:1:0"},
    ),
    (
        "scsi2 (4:0): rejecting I/O to offline device",  # scsi_lib.c 2.6.9
        {"kind": "scsi_rejected", "controller": "host2", "place": "id 4 lun 0"},
    ),
    (
        "scsi: Device offlined - not ready after error recovery: host 2 channel 0 id 4 lun 0",
        {"kind": "scsi_offlined", "device": "2:0:4:0"},  # scsi_error.c 2.6.9
    ),
    (
        "scsi target2:0:4: target device_add failed, error -17",  # scsi_sysfs.c 2.6.27 to 4.19
        {"kind": "unrecognized_error", "controller": "host2"},
    ),
    (
        "sd 0:2:0:0: megasas: RESET -7124 cmd=2a retries=0",  # megaraid_sas.c 2.6.18
        {"kind": "scsi_reset", "device": "0:2:0:0"},
    ),
    # libata
    (
        "ata1: command 0xca timeout, stat 0xd0 host_stat 0x1",  # libata-core.c 2.6.9 to 2.6.17
        {"kind": "ata_timeout", "device": "ata1"},
    ),
    (
        "ata1: status=0x51 { DriveReady SeekComplete Error }",  # libata-scsi.c 2.6.9
        {"kind": "ata_status", "device": "ata1"},
    ),
    (
        "ata2: error=0x40 { UncorrectableError }",  # libata-scsi.c 2.6.9
        {"kind": "ata_medium_error", "device": "ata2"},
    ),
    (
        "ata2: error=0x84 { DriveStatusError BadCRC }",  # libata-scsi.c 2.6.9
        {"kind": "ata_interface_error", "device": "ata2"},
    ),
    (
        "ata2: error=0x04 { DriveStatusError }",  # libata-scsi.c 2.6.9
        {"kind": "ata_abort", "device": "ata2"},
    ),
    (
        "sata_sil24 0000:02:00.0: IRQ status == 0xffffffff, PCI fault or device removal?",  # 2.6.27
        {"kind": "hba_dead", "controller": "0000:02:00.0"},
    ),
    # adapters
    (
        "cciss0: controller not responding.",  # drivers/block/cciss.c 2.6.18
        {"kind": "hba_dead", "controller": "cciss0"},
    ),
    (
        "cciss 0000:06:00.0: cciss0: LUN failure detected, action required",  # cciss.c 2.6.32
        {"kind": "hba_error", "controller": "0000:06:00.0"},
    ),
    (
        "cciss 0000:06:00.0: cmd ffff88011f2a has CHECK CONDITION sense key = 0x3",  # cciss.c 3.10
        {"kind": "hba_error", "controller": "0000:06:00.0"},
    ),
    (
        "cciss: cmd ffff88011f2a had connection lost ",  # cciss.c 2.6.32
        {"kind": "hba_link_down", "controller": "cciss"},
    ),
    (
        "scsi(1): Asynchronous LOOP DOWN (2 7 0).",  # qla2xxx/qla_isr.c 2.6.9
        {"kind": "hba_link_down", "controller": "host1"},
    ),
    (
        "qla2x00_loop_reset(3): bus_reset failed: lip_reset=1.",  # qla2xxx/qla_os.c 2.6.18
        {"kind": "hba_dead", "controller": "host3"},
    ),
    (
        "mptbase: WARNING - (-1) Cannot recover ioc0",  # message/fusion/mptbase.c 2.6.9
        {"kind": "hba_dead", "controller": "ioc0"},
    ),
    (
        "hpsa 0000:06:00.0: giving up on device.",  # hpsa.c 3.6 to 7.2
        {"kind": "unrecognized_error", "controller": "0000:06:00.0"},
    ),
    (
        "megasas: cannot recover from previous reset failures",  # megaraid_sas.c 2.6.9, 2.6.18
        {"kind": "hba_dead", "controller": "megaraid_sas"},
    ),
    (
        "megasas: failed to do reset",  # megaraid_sas.c 2.6.18
        {"kind": "hba_error", "controller": "megaraid_sas"},
    ),
    (
        "megaraid_sas: Reset failed, killing adapter.",  # megaraid_sas_fusion.c 2.6.18 (RHEL)
        {"kind": "hba_dead", "controller": "megaraid_sas"},
    ),
    (
        "aacraid: Host adapter BLINK LED 0x1f",  # aacraid/commsup.c 2.6.9 to 6.12
        {"kind": "hba_dead", "controller": "aacraid"},
    ),
    (
        "MaxRAID: IOA is offline no reset is possible",  # pmcraid.c 2.6.18 (RHEL) to 6.12
        {"kind": "hba_dead", "controller": "pmcraid"},
    ),
    (
        "be2iscsi 0000:05:00.0: mccq poll timed out",  # be2iscsi/be_cmds.c 2.6.27
        {"kind": "unrecognized_error", "controller": "0000:05:00.0"},
    ),
    # file systems
    (
        "EXT3-fs error (device sda1): ext3_journal_start_sb: Detected aborted journal",  # 2.6.18
        {"kind": "fs_error", "device": "sda1"},
    ),
    (
        "EXT3-fs (sda1): error: remounting filesystem read-only",  # ext3/super.c 2.6.32 to 3.10
        {"kind": "fs_readonly", "device": "sda1"},
    ),
    ("Remounting filesystem read-only", {"kind": "fs_readonly"}),  # ext3/super.c 2.6.9, 2.6.18
    (
        "EXT3-fs warning: mounting fs with errors, running e2fsck is recommended",  # 2.6.9, 2.6.18
        {"kind": "fs_errors_remembered"},
    ),
    ("journal commit I/O error", {"kind": "fs_error"}),  # jbd/journal.c 2.6.9 to 3.10
    (
        "journal_bmap: journal block not found at offset 12 on sda1",  # jbd/journal.c 2.6.9 to 3.10
        {"kind": "fs_error", "device": "sda1"},
    ),
    (
        "JBD: Detected IO errors while flushing file data on sda1",  # jbd/commit.c 2.6.32
        {"kind": "lost_write", "device": "sda1"},
    ),
    (
        "ext4: I/O error while writing superblock for sdb1.",  # ext4/super.c 2.6.27
        {"kind": "fs_error", "device": "sdb1"},
    ),
    (
        "This should not happen!!  Data will be lost",  # ext4/inode.c 2.6.32
        {"kind": "lost_write"},
    ),
    (
        (
            'I/O error in filesystem ("sda1") meta-data dev sda1 block 0x1f       ("xlog_iodone") '
            "error 5 buf count 1024"
        ),  # xfs/xfs_rw.c 2.6.9, 2.6.18
        {"kind": "fs_error", "device": "sda1", "sector": 31},
    ),
    (
        'Filesystem "dm-2": Log I/O Error Detected.  Shutting down filesystem: dm-2',  # xfs_rw.c
        {"kind": "fs_shutdown", "device": "dm-2"},  # 2.6.9 to 2.6.27
    ),
    (
        'Filesystem "sda1": xfs_iflush: Bad inode 12 magic number 0x1f, ptr 0xffff88011f2a',
        {"kind": "fs_error", "device": "sda1"},  # xfs_inode.c 2.6.18
    ),
    (
        "xfs_imap_to_bp: xfs_trans_read_buf()returned an error 5 on sda1.  Returning error.",
        {"kind": "fs_error", "device": "sda1"},  # xfs_inode.c 2.6.27
    ),
    (
        "XFS: log mount/recovery failed: error 5",  # xfs_log.c 2.6.9 to 2.6.27
        {"kind": "fs_error"},
    ),
    (
        "btrfs csum failed ino 257 off 0 csum 1 private 2",  # btrfs/inode.c 2.6.32, 3.6
        {"kind": "fs_checksum_error"},
    ),
    (
        "btrfs: sdb1 checksum verify failed on 12 wanted A1B2 found C3D4 level 0",  # disk-io.c 3.6
        {"kind": "fs_checksum_error", "device": "", "place": "btrfs (device sdb1)"},
    ),
    (
        "parent transid verify failed on 4194304 wanted 7 found 5",  # btrfs/disk-io.c 2.6.32, 3.6
        {"kind": "fs_checksum_error"},
    ),
    (
        "btrfs: unable to fixup (regular) error at logical 4096 on dev /dev/sdb1",  # scrub.c 3.6
        {"kind": "fs_checksum_error", "device": "sdb1"},
    ),
    ("btrfs: 2 errors while writing supers", {"kind": "fs_error"}),  # btrfs/disk-io.c 3.6
    (
        "BTRFS: failed to read chunk root on sdb1",  # btrfs/disk-io.c 4.4
        {"kind": "unrecognized_error", "device": "", "place": "btrfs (device sdb1)"},
    ),
    (
        "lost page write due to I/O error on /dev/sdb1",  # btrfs/disk-io.c 2.6.32
        {"kind": "lost_write", "device": "sdb1"},
    ),
    # the newest
    (
        "dm-pcache: writeback_ctx_end:512 dm-4 writeback error: -5",  # md/dm-pcache 7.2
        {"kind": "dm_error", "device": "dm-4"},
    ),
    (
        "block nbd0: Write on read-only",  # drivers/block/nbd.c 4.4 to 7.2
        {"kind": "block_readonly", "device": "nbd0"},
    ),
)


@pytest.mark.parametrize(("text", "fields"), OLD, ids=[each[0][:60] for each in OLD])
def test_what_matters_is_an_event_in_the_words_of_its_day(
    text: str, fields: dict[str, object]
) -> None:
    """A lost write, a dead adapter, a failed array: on hosts that run for ten years."""
    state, events = classify(Classifier(), KernelLine(text, priority=3))
    (event,) = (*events, *finish(state))
    assert {name: getattr(event, name) for name in fields} == fields


HARMLESS = (
    "ata1.01: NODEV after polling detection",
    "ata1.01: link offline, clearing class 3 to NONE",
    "ata2.00: SATA link down (SStatus 4 SControl 300)",
    "ata1: SATA link down (SStatus 0 SControl 310)",
    "ata1: DUMMY",
    "ata1.00: configured for UDMA/133",
    "ata1.00: ACPI cmd ef/10:06:00:00:00:00 (SET FEATURES) succeeded",
    "ata1.00: ACPI cmd f5/00:00:00:00:00:00 (SECURITY FREEZE LOCK) filtered out",
    "ata1.00: ACPI: invalid command",
    "ata4.00: limited to UDMA/33 due to 40-wire cable",
    "ata1.00: HPA detected: current 625140335, native 625142448",
    "ata5: failed to resume link (SControl 0)",
    "ata1: link is slow to respond, please be patient (ready=0)",
    "ATA: abnormal status 0x7F on port 0xCF87",
    "ata_piix 0000:00:1f.2: MAP [ P0 P2 P1 P3 ]",
    "ahci 0000:00:1f.2: controller can't do PMP, turning off CAP_PMP",
    "ahci 0000:00:1f.2: controller can't do 64bit DMA, forcing 32bit",
    "ahci 0000:00:1f.2: AHCI 0001.0300 32 slots 6 ports 6 Gbps 0x3f impl SATA mode",
    "ahci 0000:00:1f.2: SSS flag set, parallel bus scan disabled",
    "ahci 0000:00:1f.2: flags: 64bit ncq sntf ilck pm led clo pio slum part ems apst",
    "JBD: barrier-based sync failed on cciss!c0d0p1-8 - disabling barriers",
    "JBD: barrier-based sync failed on md0 - disabling barriers",
    "JBD2: barrier-based sync failed on dm-0-8 - disabling barriers",
    'Filesystem "sdb1": Disabling barriers, not supported by the underlying device',
    'Filesystem "sdb1": Disabling barriers, trial barrier write failed',
    'Filesystem "dm-0": Disabling barriers, not supported with external log device',
    "XFS (sdb1): Disabling barriers, trial barrier write failed",
    "Ending clean XFS mount for filesystem: sdb1",
    "Starting XFS recovery on filesystem: sdb1 (logdev: internal)",
    "Ending XFS recovery on filesystem: sdb1 (logdev: internal)",
    "XFS (dm-1): Mounting V4 Filesystem",
    "XFS (dm-1): Starting recovery (logdev: internal)",
    "XFS (dm-1): Ending recovery (logdev: internal)",
    "EXT3-fs: mounted filesystem with ordered data mode.",
    "EXT3-fs: sda1: orphan cleanup on readonly fs",
    "EXT3-fs: sda1: 7 orphan inodes deleted",
    "EXT3-fs: recovery complete.",
    "EXT3-fs: INFO: recovery required on readonly filesystem.",
    "EXT3-fs: write access will be enabled during recovery.",
    "ext3_orphan_cleanup: deleting unreferenced inode 12599317",
    "EXT3-fs warning: maximal mount count reached, running e2fsck is recommended",
    "EXT3-fs warning: checktime reached, running e2fsck is recommended",
    "EXT4-fs (sda1): warning: maximal mount count reached, running e2fsck is recommended",
    "EXT4-fs (sda1): INFO: recovery required on readonly filesystem",
    "EXT4-fs (sda1): ext4_orphan_cleanup: deleting unreferenced inode 60558515",
    "EXT4-fs (sda1): mounting ext3 file system using the ext4 subsystem",
    "EXT4-fs (sda1): re-mounted. Opts: errors=remount-ro",
    "EXT4-fs (sda1): couldn't mount as ext3 due to feature incompatibilities",
    "VFS: Can't find ext3 filesystem on dev sdb1.",
    "EXT2-fs (sda1): error: couldn't mount because of unsupported optional features (240)",
    "Btrfs loaded",
    "btrfs: device label root devid 1 transid 4711 /dev/sdb1",
    "btrfs: disk space caching is enabled",
    "btrfs: use lzo compression",
    "btrfs: enabling auto defrag",
    "BTRFS info (device sdb1): disk space caching is enabled",
    "BTRFS: device label data devid 1 transid 83 /dev/sdb1",
    "btrfs: relocating block group 29360128 flags 36",
    "btrfs: disabling disk space caching",
    "md: Autodetecting RAID arrays.",
    "md: md0 stopped.",
    "md: raid1 personality registered for level 1",
    "md: Waiting for all devices to be available before autodetect",
    "md: If you don't use raid, use raid=noautodetect",
    "md: md0: raid array is not clean -- starting background reconstruction",
    "md: data-check of RAID array md0",
    "md: using maximum available idle IO bandwidth.",
    "md: invalid raid superblock magic on sdb1",
    "md: sdb1 does not have a valid v0.90 superblock, not importing!",
    "raid1: raid set md0 active with 2 out of 2 mirrors",
    "raid5: raid level 5 set md0 active with 4 out of 4 devices, algorithm 2",
    "raid5: device sdb1 operational as raid disk 1",
    "raid5: allocated 4282kB for md0",
    "raid6test: complete (257 tests, 0 failures)",
    "md/raid:md0: device sdb1 operational as raid disk 1",
    "md/raid:md0: allocated 0kB",
    "md/raid1:md0: active with 2 out of 2 mirrors",
    "md/raid10:md0: active with 4 out of 4 devices",
    "multipath: array md4 active with 2 out of 2 IO paths",
    "RAID5 conf printout:",
    "--- rd:4 wd:4",
    "disk 0, o:1, dev:sda1",
    "created bitmap (8 pages) for device md0",
    "md0: bitmap initialized from disk: read 1 pages, set 0 of 14903 bits",
    "md0: detected capacity change from 0 to 1000204795904",
    "md0: unknown partition table",
    "device-mapper: ioctl: 4.17.0-ioctl (2010-03-05) initialized: dm-devel@redhat.com",
    "device-mapper: multipath: version 1.1.1 loaded",
    "device-mapper: multipath round-robin: version 1.0.0 loaded",
    "device-mapper: multipath: Using dm hw handler module alua for failover/failback and device",
    "device-mapper: table: 253:3: multipath: error getting device",
    "device-mapper: ioctl: error adding target to table",
    "device-mapper: table: device 8:16 too small for target",
    "device-mapper: uevent: version 1.0.3",
    "device-mapper: dm-raid45: initialized v0.2594b",
    "cciss 0000:04:00.0: PCI INT A -> GSI 28 (level, low) -> IRQ 28",
    "cciss 0000:04:00.0: irq 77 for MSI/MSI-X",
    "cciss0: <0x323a> at PCI 0000:04:00.0 IRQ 79 using DAC",
    "cciss: using DAC cycles",
    "cciss: Device 0xb178 has been found at bus 0 dev 14 func 0",
    "cciss/c0d0: p1 p2 < p5 >",
    "cciss 0000:04:00.0: cmd ffff88011f2a has CHECK CONDITION sense key = 0x5",
    "cciss 0000:04:00.0: controller message 01:00 succeeded",
    "megasas: FW now in Ready state",
    "megasas: fwstate:c0000000, dis_OCR=0",
    "megaraid_sas 0000:02:00.0: setting latency timer to 64",
    "megaraid_sas 0000:02:00.0: [scsi0]: FW supports<96> MSIX vector,Online CPUs: <24>,Current",
    "megaraid_sas 0000:02:00.0: Controller type: MR,Memory size is: 1024MB",
    "megaraid_sas 0000:02:00.0: FW supports: UnevenSpanSupport=1",
    "mpt2sas0: 64 BIT PCI BUS DMA ADDRESSING SUPPORTED, total mem (4055204 kB)",
    "mpt2sas0: sending port enable !!",
    "mpt2sas0: port enable: SUCCESS",
    "mpt2sas0: Current Controller Queue Depth(3305), Max Controller Queue Depth(3432)",
    "mptbase: ioc0: Initiating bringup",
    "mptbase: Initiating ioc0 bringup",
    "ioc0: LSI53C1030: Capabilities={Initiator}",
    "scsi0 : ioc0: LSI53C1030, FwRev=01030a00h, Ports=1, MaxQ=222, IRQ=10",
    "mptsas: ioc0: attaching ssp device: fw_channel 0, fw_id 0, phy 0, sas_addr 0x5000c5000",
    "hpsa 0000:03:00.0: can't disable ASPM; OS doesn't have ASPM control",
    "hpsa 0000:03:00.0: Logical aborts not supported",
    "hpsa can't handle SMP requests",
    "hpsa 0000:03:00.0: scsi 4:0:0:0: added RAID HP P410i controller SSDSmartPathCap- En- Exp=1",
    "AAC0: 64bit support enabled.",
    "3w-9xxx: scsi6: Found a 3ware 9000 Storage Controller at 0xfebdf000, IRQ: 16.",
    "3w-9xxx: scsi6: Firmware FE9X 4.10.00.007, BIOS BE9X 4.08.00.002, Ports: 8.",
    "3w-9xxx: scsi6: AEN: INFO (0x04:0x0029): Verify started:unit=0.",
    "3w-9xxx: scsi6: AEN: INFO (0x04:0x002B): Verify completed:unit=0.",
    "3w-9xxx: scsi6: AEN: INFO (0x04:0x0055): Battery charging started:.",
    "qla2xxx 0000:05:00.0: LIP reset occured (f700).",
    "qla2xxx 0000:05:00.0: LOOP UP detected (4 Gbps).",
    "qla2xxx 0000:05:00.0: Configuring PCI space...",
    "qla2xxx 0000:05:00.0: Topology - (F_Port), Host Loop address 0xffff",
    "qla2xxx 0000:05:00.0: Waiting for LIP to complete...",
    "lpfc 0000:05:00.0: 0:1303 Link Up Event x1 received Data: x1 x1 x8 x2 x0 x0 0",
    "sd 0:2:0:0: [sda] 409600000 512-byte hardware sectors (209715 MB)",
    "sd 0:2:1:0: [sdb] Very big device. Trying to use READ CAPACITY(16).",
    "sd 0:2:0:0: [sda] Write cache: enabled, read cache: disabled, doesn't support DPO or FUA",
    "sd 0:2:0:0: [sda] Mode Sense: 1f 00 00 08",
    "sd 0:2:0:0: [sda] Test WP failed, assume Write Enabled",
    "sd 0:0:0:0: [sdb] Asking for cache data failed",
    "sd 0:0:0:0: [sdb] Assuming drive cache: write through",
    "sda: asking for cache data failed",
    "sda: assuming drive cache: write through",
    "sd 6:0:0:0: [sdc] No Caching mode page present",
    "sd 6:0:0:0: [sdc] Attached SCSI removable disk",
    "sd 0:0:0:0: Attached scsi generic sg0 type 0",
    "Driver 'sd' needs updating - please use bus_type methods",
    "SCSI device sda: 71687372 512-byte hdwr sectors (36704 MB)",
    "SCSI device sda: drive cache: write back",
    "scsi 0:0:46:0: Enclosure         CC12Gb   BPN-SAS3-424EL1  0a06 PQ: 0 ANSI: 5",
    "usb-storage: device found at 4",
    "usb 1-1: reset high speed USB device using ehci_hcd and address 2",
    "nvme nvme0: pci function 0000:01:00.0",
    "nvme nvme0: Shutdown timeout set to 8 seconds",
    "nvme nvme0: allocated 64 MiB host memory buffer.",
    "loop0: detected capacity change from 0 to 1024",
    "end_request: I/O error, dev fd0, sector 0",
    "end_request: I/O error, dev sr0, sector 0",
    "Buffer I/O error on device sr0, logical block 0",
    "Buffer I/O error on device fd0, logical block 0",
    "nfs warning: mount version older than kernel",
    "NFSD: Using /var/lib/nfs/v4recovery as the NFSv4 state recovery directory",
    "NFSD: starting 90-second grace period",
    "lockd: server nas1 OK",
    "bnx2 0000:03:00.0: eth0: NIC Copper Link is Down",
    "be2net 0000:05:00.0: eth0: Link down",
    "be2net 0000:05:00.0: Failed to allocate resource",
    "cxgb3: eth2: link down",
    "hdc: packet command error: status=0x51 { DriveReady SeekComplete Error }",
    "Page allocation failure",
    "I/O APIC: no ACPI",
    "I2C bus timed out",
    "This should be fixed in the BIOS",
    "journal: Runtime journal is using 8.0M",
    "Remounting root file system",
    "parent device eth0 failed",
    "Write combining failed",
    "Read-ahead is broken",
    "PM: Resume from disk failed.",
)
"""Messages of healthy hosts that boot, assemble, mount, or have an empty port or drive."""


def test_what_healthy_machines_print_wakes_nobody() -> None:
    """At boot and at an empty port, since 2.4; even if all of it had the level of a warning."""
    table = parse_events_file(kernel_verdicts.EVENTS.read_text(), "events.yaml")
    loud = []
    for text in HARMLESS:
        state, events = classify(Classifier(), KernelLine(text, priority=4))
        severities = [table.find(each).severity_of(each) for each in (*events, *finish(state))]
        loud += [text for each in severities if each is not None and each >= Severity.WARNING]
    assert loud == []


def test_a_port_under_error_handling_that_comes_back_empty_is_reported() -> None:
    """The lines of an empty port at boot are those of a lost drive after an exception."""
    state, told = Classifier(), []
    for text in (
        "ata1.01: exception Emask 0x0 SAct 0x0 SErr 0x0 action 0x6 frozen",
        "ata1: soft resetting link",
        "ata1.01: NODEV after polling detection",
    ):
        state, events = classify(state, KernelLine(text, priority=4))
        told += [each.kind for each in events]
    assert told == ["ata_exception", "ata_reset", "ata_disabled"]


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ("Additional sense: Unrecovered read error - auto reallocate failed", "0x11/0x04"),
        ("ASC=0x11 ASCQ=0x0", "0x11/0x00"),
        ("<<vendor>> ASC=0x81 ASCQ=0x1", "0x81/0x01"),
        ("ASC=0x11 <<vendor>> ASCQ=0x81", "0x11/0x81"),
    ],
)
def test_the_codes_below_a_sense_of_2_6_18_are_of_its_disk(codes: str, code: str) -> None:
    """Its line is indented, and has no name. Source: constants.c, scsi_show_extd_sense."""
    state, told = Classifier(), []
    for text in ("sdb: Current [descriptor]: sense key: Medium Error", f"    {codes}"):
        state, events = classify(state, KernelLine(text, priority=6, monotonic_seconds=9.0))
        told += events
    sense, additional = (*told, *finish(state))
    assert (sense.kind, sense.device) == ("scsi_medium_error", "sdb")
    assert (additional.device, additional.sense_key, additional.code) == ("sdb", 3, code)


def test_a_command_below_the_address_of_its_disk_has_its_sectors() -> None:
    """To 2.6.24 in two lines. Source: constants.c, scsi_print_command."""
    state, told = Classifier(), []
    for text in ("sd 1:0:0:0: ", "        command: Read(10): 28 00 0b 39 ad ef 00 00 08 00"):
        state, events = classify(state, KernelLine(text, priority=4, monotonic_seconds=9.0))
        told += events
    (command,) = told
    assert (command.kind, command.device) == ("scsi_cdb", "1:0:0:0")
    assert (command.block, command.blocks) == (0x0B39ADEF, 8)
