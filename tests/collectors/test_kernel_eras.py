"""What kernels before 6.1 printed of storage, in the words of their day.

Each line is written from its format in the source; beside it stand file and version. The versions:
2.6.9 (RHEL 4), 2.6.18 (RHEL 5), 2.6.27, 2.6.32 (RHEL 6), 3.6, 3.10 (RHEL 7), 4.4, 4.15, 4.18
(RHEL 8), 4.19, 5.4, 5.10, 5.14, 5.15 and 6.8 (Debian, Ubuntu), and as the newest 7.2.
"""

from __future__ import annotations

import pytest

from iowarden.collectors.kernel_events import Classifier, classify, finish
from iowarden.collectors.kernel_line import Line

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
    # arrays, of drivers/md
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
        {"kind": "driver_message", "device": "sdb"},
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
        {"kind": "driver_message", "controller": "host2"},
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
        {"kind": "driver_message", "controller": "0000:05:00.0"},
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
        {"kind": "fs_checksum_error", "device": "sdb1"},
    ),
    (
        "parent transid verify failed on 4194304 wanted 7 found 5",  # btrfs/disk-io.c 2.6.32, 3.6
        {"kind": "fs_checksum_error"},
    ),
    (
        "btrfs: unable to fixup (regular) error at logical 4096 on dev /dev/sdb1",  # scrub.c 3.6
        {"kind": "fs_error", "device": "sdb1"},
    ),
    ("btrfs: 2 errors while writing supers", {"kind": "fs_error"}),  # btrfs/disk-io.c 3.6
    (
        "BTRFS: failed to read chunk root on sdb1",  # btrfs/disk-io.c 4.4
        {"kind": "fs_warning", "device": "sdb1"},
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
    """A lost write, a dead adapter, a failed array: on machines that run for ten years."""
    state, events = classify(Classifier(), Line(text, priority=3))
    (event,) = (*events, *finish(state))
    assert {name: getattr(event, name) for name in fields} == fields
