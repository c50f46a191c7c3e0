"""Storage events in the kernel log."""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict, deque
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recordings import CORPUS, cases_of_corpus, needs_corpus

from iowarden.collectors.kmsg import sense
from iowarden.collectors.kmsg.kernel_classifier import Classifier
from iowarden.collectors.kmsg.kernel_events import classify, finish
from iowarden.collectors.kmsg.kernel_kinds import KINDS
from iowarden.collectors.kmsg.kernel_line import KernelLine, parse_record, parse_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from iowarden.collectors.event import StorageEvent


def read(lines: Iterable[KernelLine]) -> list[StorageEvent]:
    """Return all events of some lines."""
    state, events = Classifier(), []
    for line in lines:
        state, more = classify(state, line)
        events += more
    return [*events, *finish(state)]


def told(text: str) -> list[StorageEvent]:
    """Return all events of a text."""
    return read(parse_text(text))


# --- each class, by a line of each form ---

EXAMPLES = {
    "block_io_error": (
        "I/O error, dev sdb, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
        "blk_update_request: I/O error, dev sdb, sector 8",
        "print_req_error: I/O error, dev sdb, sector 8 flags 801",
        "end_request: I/O error, dev sdb, sector 8",
        "end_request: I/O error, dev cciss/c0d0, sector 8",
        "critical quantum error, dev sdb, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
    ),
    "block_medium_error": ("critical medium error, dev sdb, sector 8 op 0x1:(WRITE) flags 0x0",),
    "block_target_error": ("blk_update_request: critical target error, dev sdb, sector 8",),
    "block_timeout": ("timeout error, dev sdb, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1",),
    "block_transport_error": ("recoverable transport error, dev sdb, sector 8",),
    "block_protection_error": ("protection error, dev sdb, sector 8",),
    "block_space_error": ("critical space allocation error, dev dm-3, sector 8",),
    "block_reservation_error": (
        "critical nexus error, dev sdb, sector 8",
        "reservation conflict error, dev sdb, sector 8",
    ),
    "block_offline": ("device offline error, dev sdb, sector 8 op 0x1:(WRITE) flags 0x0",),
    "block_discard_error": (
        "critical target error, dev sda, sector 8 op 0x3:(DISCARD) flags 0x800 phys_seg 1",
        "I/O error, dev sda, sector 8 op 0x9:(WRITE_ZEROES) flags 0x800 phys_seg 0",
    ),
    "block_beyond_end": (
        "sdb1: rw=1, want=1234, limit=5",
        "dm-0: rw=0, sector=99, nr_sectors = 8 limit=5",
        "attempt to access beyond end of device\nmd0: rw=0, sector=9, nr_sectors = 8 limit=5",
    ),
    "buffer_io_error": (
        "Buffer I/O error on device sdb1, logical block 7",
        "Buffer I/O error on dev sdb1, logical block 7, async page read",
    ),
    "swap_read_error": (
        "Read-error on swap-device (8:17:123456)",
        "Read-error on swap-device",
    ),
    "swap_write_error": (
        "Write-error on swap-device (253:1:8)",
        "Write error -5 on dio swapfile (4096)",
        "Write error on dio swapfile (4096)",
    ),
    "lost_write": (
        "Buffer I/O error on dev sdb1, logical block 7, lost async page write",
        "lost page write due to I/O error on sdb1",
        "JBD2: Detected IO errors while flushing file data on dm-0-8",
        "nvme0n1p2: writeback error on inode 131, offset 4096, sector 2056",
        "VFS: Dirty inode writeback failed for block device sdb1 (err=-5).",
        (
            "EXT4-fs warning (device sdb1): ext4_end_bio:343: I/O error 10 writing to inode 12 "
            "starting block 8705)"
        ),
    ),
    "callbacks_suppressed": (
        "blk_print_req_error: 5 callbacks suppressed",
        "scsi_io_completion_action: 3 callbacks suppressed",
        "quiet_error: 114 callbacks suppressed",
    ),
    "scsi_result": (
        "sd 0:0:1:0: [sdb] tag#3 FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_SENSE",
        "sd 0:0:1:0: SCSI error: return code = 0x08000002",
        "sd 0:0:1:0: [sdb] Result: hostbyte=0x00 driverbyte=0x08",
    ),
    "scsi_no_connect": (
        "sd 0:0:1:0: [sdb] Result: hostbyte=DID_NO_CONNECT driverbyte=DRIVER_OK",
        "sd 0:0:1:0: [sdb] Result: hostbyte=0x01 driverbyte=0x00",
    ),
    "scsi_timeout": (
        "sd 0:0:1:0: timing out command, waited 360s",
        "sd 0:0:1:0: [sdb] tag#1 FAILED Result: hostbyte=DID_TIME_OUT driverbyte=DRIVER_OK",
    ),
    "scsi_host_error": (
        "sd 0:0:1:0: [sdb] tag#1 FAILED Result: hostbyte=DID_TRANSPORT_DISRUPTED driverbyte=0x00",
    ),
    "scsi_recovered_error": ("sd 0:0:1:0: [sdb] Sense Key : Recovered Error [current]",),
    "scsi_not_ready": (
        "sd 0:0:1:0: [sdb] Sense Key : Not Ready [current]",
        "sd 0:0:1:0: [sdb] Unit Not Ready\nsd 0:0:1:0: [sdb] Sense Key : Hardware Error [current]",
    ),
    "scsi_medium_error": (
        "sd 0:0:1:0: [sdb] tag#3 Sense Key : Medium Error [current] [descriptor]",
        "sdb: Current: sense key: Medium Error",
        "Current sdb: sense key Medium Error",
        "Info fld=0x2108ab, Current sdb: sense key Medium Error",
        "sd 0:0:1:0: [sdb] Sense Key : 0x3 [current]",
    ),
    "scsi_hardware_error": ("sd 0:0:1:0: [sdb] Sense Key : Hardware Error [deferred]",),
    "scsi_illegal_request": ("sd 0:0:1:0: [sdb] Sense Key : Illegal Request [current]",),
    "scsi_unit_attention": ("sd 0:0:1:0: [sdb] Sense Key : Unit Attention [current]",),
    "scsi_data_protect": ("sd 0:0:1:0: [sdb] Sense Key : Data Protect [current]",),
    "scsi_aborted_command": ("sd 0:0:1:0: [sdb] Sense Key : Aborted Command [current]",),
    "scsi_sense": (
        "sd 0:0:1:0: [sdb] Sense Key : Miscompare [current]",
        "sd 0:0:1:0: [sdb] Sense Key : Ill Humour [current]",
    ),
    "scsi_additional_sense": (
        "sd 0:0:1:0: [sdb] Add. Sense: Unrecovered read error",
        "sd 0:0:1:0: [sdb] ASC=0x11 ASCQ=0x4",
        "sd 0:0:1:0: [sdb] <<vendor>>ASC=0x80 ASCQ=0x0",
        "sd 0:0:1:0: [sdb] Add. Sense: What nobody has heard of",
    ),
    "scsi_failure_predicted": (
        "sd 0:0:1:0: [sdb] Add. Sense: Failure prediction threshold exceeded",
        "sd 0:0:1:0: [sdb] ASC=0x5d ASCQ=0x10",
    ),
    "scsi_warning": ("sd 0:0:1:0: [sdb] Add. Sense: Warning - specified temperature exceeded",),
    "scsi_link_error": ("sd 0:0:1:0: [sdb] Add. Sense: Ack/nak timeout",),
    "scsi_cdb": (
        "sd 0:0:1:0: [sdb] tag#3 CDB: Read(10) 28 00 00 00 10 00 00 00 08 00",
        "sd 0:0:1:0: [sdb] CDB: Write(16): 8a 00 00 00 00 00 07 c8 fa cb 00 00 00 65 00 00",
        "sd 0:0:1:0: [sdb] CDB: cdb[0]=0x28: 28 00 00 00 10 00 00 00 08 00",
    ),
    "scsi_abort": ("sd 0:0:1:0: attempting task abort! scmd(ffff88021ab0)",),
    "scsi_reset": ("sd 0:0:1:0: attempting device reset! scmd(ffff88021ab0)",),
    "scsi_reset_failed": ("sd 0:0:1:0: task abort: FAILED scmd(ffff88021ab0)",),
    "scsi_reset_notice": ("sd 0:0:1:0: Power-on or device reset occurred",),
    "scsi_offlined": (
        "sd 0:0:1:0: Device offlined - not ready after error recovery",
        "scsi 0:0:1:0: scsi: Device offlined - not ready after error recovery",
    ),
    "scsi_rejected": (
        "sd 0:0:1:0: rejecting I/O to offline device",
        "sd 0:0:1:0: [sdb] rejecting I/O to dead device",
    ),
    "ata_exception": ("ata3.00: exception Emask 0x10 SAct 0x0 SErr 0x4010000 action 0xe frozen",),
    "ata_failed_command": ("ata3.00: failed command: READ FPDMA QUEUED",),
    "ata_command": ("ata3.00: cmd 60/08:00:68:cb:66/00:00:1f:00:00/40 tag 0 ncq 4096 in",),
    "ata_result": ("res 51/04:08:00:08:00/00:00:00:00:00/e0 Emask 0x1 (device error)",),
    "ata_media_error": ("res 41/40:08:68:cb:66/00:00:1f:00:00/6f Emask 0x409 (media error) <F>",),
    "ata_timeout": (
        "res 40/00:00:00:4f:c2/00:00:00:00:00/00 Emask 0x4 (timeout)",
        "ata3.00: qc timeout (cmd 0xec)",
        "ata3: lost interrupt (Status 0x50)",
    ),
    "ata_bus_error": ("res 50/00:00:00:00:00/00:00:00:00:00/40 Emask 0x10 (ATA bus error)",),
    "ata_status": ("ata3.00: status: { DRDY ERR }",),
    "ata_medium_error": ("ata3.00: error: { UNC }", "ata3.00: error: { IDNF }"),
    "ata_interface_error": ("ata3.00: error: { ICRC ABRT }",),
    "ata_abort": ("ata3.00: error: { ABRT }",),
    "ata_serror": ("ata3: SError: { PHYRdyChg CommWake }",),
    "ata_reset": ("ata3: hard resetting link", "ata3: soft resetting port"),
    "ata_reset_failed": (
        "ata3: COMRESET failed (errno=-16)",
        "ata3: reset failed, giving up",
        "ata3.00: revalidation failed (errno=-5)",
    ),
    "ata_slow": ("ata3: link is slow to respond, please be patient (ready=0)",),
    "ata_link_down": ("ata3: hard resetting link\nata3: SATA link down (SStatus 0 SControl 300)",),
    "ata_link_up": (
        "ata3: hard resetting link\nata3: SATA link down (SStatus 0)\nata3: SATA link up 6.0 Gbps",
    ),
    "ata_speed_limited": (
        "ata3: limiting SATA link speed to 1.5 Gbps",
        "ata3.00: limiting speed to UDMA/33:PIO4",
    ),
    "ata_ncq_disabled": ("ata3.00: NCQ disabled due to excessive errors",),
    "ata_disabled": (
        "ata3.00: disabled",
        "ata3.00: disable device",
        "ata3.00: detaching (SCSI 2:0:0:0)",
    ),
    "ide_error": ("hda: dma_intr: error=0x40 { UncorrectableError }, LBAsect=12, sector=9",),
    "nvme_timeout": (
        "nvme nvme0: I/O 23 QID 4 timeout, completion polled",
        "nvme nvme0: I/O 23 (I/O Cmd) QID 4 timeout, aborting",
        (
            "nvme nvme0: I/O tag 23 (1017) opcode 0x2 (I/O Cmd) QID 4 timeout, aborting "
            "req_op:READ(0) size:8192"
        ),
    ),
    "nvme_abort": ("nvme nvme0: Abort status: 0x0",),
    "nvme_reset": (
        "nvme nvme0: I/O 23 QID 4 timeout, reset controller",
        "nvme nvme0: I/O tag 4 (0004) opcode 0x9 (Admin Cmd) QID 0 timeout, disable controller",
    ),
    "nvme_controller_down": (
        "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10",
    ),
    "nvme_namespace_removed": ("nvme nvme0: identifiers changed for nsid 1",),
    "block_size_zero": (
        "sdb: detected capacity change from 7814037168 to 0",
        "nvme0n1: detected capacity change from 4000787030016 to 0",
    ),
    "fs_not_unmounted": (
        "FAT-fs (sdd1): Volume was not properly unmounted. Some data may be corrupt.",
    ),
    "nvme_controller_dead": ("nvme nvme0: Device not ready; aborting reset, CSTS=0x1",),
    "nvme_medium_error": (
        "nvme0n1: Read(0x2) @ LBA 16, 8 blocks, Unrecovered Read Error (sct 0x2 / sc 0x81) DNR",
    ),
    "nvme_status": (
        "nvme0c1n1: Write(0x1) @ LBA 16, 8 blocks, Host Aborted Command (sct 0x3 / sc 0x71)",
    ),
    "nvme_admin_status": ("nvme0: Identify(0x6), Invalid Field in Command (sct 0x0 / sc 0x2) DNR",),
    "hung_task": (
        "INFO: task jbd2/sdb1-8:233 blocked for more than 122 seconds.",
        "INFO: task dd:12 blocked in I/O wait for more than 30 seconds.",
    ),
    "oom_kill": (
        "Out of memory: Killed process 2481 (python3) total-vm:8123400kB, oom_score_adj:0",
        (
            "Out of memory: Kill process 812 (my (odd) name) score 905 or sacrifice child\n"
            "Killed process 812 (my (odd) name) total-vm:91204kB, anon-rss:80120kB, file-rss:0kB"
        ),
    ),
    "oom_kill_group": (
        "Memory cgroup out of memory: Killed process 2481 (python3) total-vm:8123400kB",
        (
            "Memory cgroup out of memory: Kill process 812 (java) score 905 or sacrifice child\n"
            "Killed process 812 (java) total-vm:91204kB, anon-rss:80120kB, file-rss:0kB"
        ),
    ),
    "hba_aen": (
        "3w-9xxx: scsi6: AEN: ERROR (0x04:0x0009): Drive timeout detected:port=3.",
        "3w-xxxx: scsi1: AEN: WARNING: SMART threshold exceeded: Port #1.",
        "megaraid_sas 0000:03:00.0: 61 (5s/0x0002/FATAL) - Unrecoverable medium error on PD 04",
    ),
    "hba_log_info": (
        "mpt3sas_cm0: log_info(0x31080000): originator(PL), code(0x08), sub_code(0x0000)",
        "mptbase: ioc0: LogInfo(0x30030101): Originator={IOP}, Code={Page}, SubCode(0x0101)",
    ),
    "hba_link_error": (
        "mptbase: ioc0: LogInfo(0x31110d00): Originator={PL}, Code={Reset}, SubCode(0x0d00)",
        "mpt2sas0: log_info(0x31120303): originator(PL), code(0x12), sub_code(0x0303)",
        "mpt3sas_cm0: log_info(0x31180000): originator(PL), code(0x18), sub_code(0x0000)",
    ),
    "hba_error": ("3w-9xxx: scsi0: ERROR: (0x06:0x000C): PCI Parity Error: clearing.",),
    "hba_abort": ("arcmsr2: abort device command of scsi id = 0 lun = 1",),
    "hba_reset": (
        "hpsa 0000:05:00.0: resetting device 2:0:0:1",
        "3w-9xxx: scsi0: WARNING: (0x06:0x0037): Command (0x2a) timed out, resetting card.",
        "mpt3sas_cm0: sending diag reset !!",
    ),
    "hba_dead": (
        "mpt2sas0: fault_state(0x5854)!",
        "megaraid_sas 0000:03:00.0: FW in FAULT state!!",
        "hpsa 0000:05:00.0: Controller lockup detected: 0x00130000",
    ),
    "hba_ready": (
        "megaraid_sas 0000:3b:00.0: Reset successful for scsi0.",
        "megaraid_sas 0000:3b:00.0: reset successful",
        "mpt3sas_cm0: diag reset: SUCCESS",
        "mpt2sas0: host reset: SUCCESS scmd(00000000deadbeef)",
        "mptscsih: ioc0: host reset: SUCCESS (sc=0000000012345678)",
        "mpi3mr0: controller reset is successful",
        "hisi_sas_v3_hw 0000:74:02.0: controller reset complete",
        "aacraid 0000:3b:00.0: IOP reset succeeded",
        "aacraid 0000:3b:00.0: SOFT reset succeeded",
        "qla2xxx [0000:03:00.0]-8017:1: ADAPTER RESET SUCCEEDED nexus=1:0:0.",
        "smartpqi 0000:3b:00.0: reset of scsi 0:1:2:0: SUCCESS",
        "smartpqi 0000:3b:00.0: Online Firmware Activation: SUCCESS",
        "hpsa 0000:3b:00.0: scsi 0:1:0:0: reset logical  completed successfully Direct-Access",
    ),
    "pcie_corrected": ("pcieport 0000:00:1c.5: AER: Corrected error received: id=00e5",),
    "pcie_error": ("pcieport 0000:00:1d.0: DPC: ERR_FATAL detected",),
    "pcie_not_recovered": ("pcieport 0000:00:1d.0: AER: device recovery failed",),
    "pcie_recovered": ("pcieport 0000:00:1d.0: AER: device recovery successful",),
    "hba_device_removed": ("smartpqi 0000:23:00.0: removed 0:1:0:1 3000000000000001",),
    "hba_disk_lost": ("mpt3sas_cm0: removing handle(0x000a), sas_addr(0x4433221100000000)",),
    "fs_error": (
        "EXT4-fs error (device sdb1): ext4_find_entry:1455: inode #2: comm ls: reading directory",
        'XFS (sdb1): metadata I/O error: block 0x10 ("xfs_trans_read_buf_map") error 5 numblks 8',
        "BTRFS: error (device sdb1) in btrfs_commit_transaction:2345: errno=-5 IO failure",
        "BTRFS error (device sdb1 state EA): error writing primary super block to device 1",
    ),
    "fs_checksum_error": (
        "BTRFS warning (device sdb1): csum failed root 5 ino 257 off 0 csum 0x1 expected csum 0x2",
        "XFS (sdb1): Metadata CRC error detected at xfs_agi_read_verify+0x5e/0x110, block 0x2",
    ),
    "fs_corruption": (
        "XFS (sdb1): Metadata corruption detected at xfs_agf_read_verify+0x5e/0x110, block 0x1",
        "XFS (sdb1): First 128 bytes of corrupted metadata buffer:",
        'XFS (sdb1): metadata I/O error in "xfs_read_agf+0x8e" at daddr 0x1 len 1 error 117',
        "XFS (sdb1): SB validate failed with error -117.",
        "BTRFS critical (device sdb1): corrupt leaf: root=5 block=30408704 slot=0, bad key order",
        "BTRFS: error (device sdb1) in btrfs_finish_ordered_io:3061: errno=-117 corrupted",
        "EXT4-fs error (device sdb1) in ext4_free_inode:362: Corrupt filesystem",
    ),
    "fs_stopped_full": (
        "BTRFS: error (device sdb1: state A) in run_delayed:2151: errno=-28 No space left",
        "BTRFS: error (device sdb1) in cleanup_transaction:1992: errno=-122 Quota exceeded",
        "EXT4-fs error (device sdb1) in ext4_dirty_inode:5982: error 28",
    ),
    "fs_errors_remembered": (
        "EXT4-fs (sdb1): error count since last fsck: 4",
        "EXT4-fs (sdb1): warning: mounting fs with errors, running e2fsck is recommended",
    ),
    "fs_readonly": (
        "EXT4-fs (sdb1): Remounting filesystem read-only",
        "BTRFS info (device sdb1): forced readonly",
        "BTRFS warning (device sdb1: state EA): Skipping commit of aborted transaction.",
    ),
    "fs_no_space": (
        "EXT4-fs (sdb1): Delayed block allocation failed for inode 12 with error 28",
        "EXT4-fs (sdb1): failed to convert unwritten extents -- potential data loss!  (error -122)",
    ),
    "fs_shutdown": ("XFS (sdb1): Filesystem has been shut down due to log error (0x2).",),
    "fs_read_corrected": (
        "BTRFS info (device sdb1): read error corrected: ino 1 off 8192 (dev /dev/sdc1 sector 16)",
    ),
    "fs_device_errors": (
        "BTRFS error (device sdb1): bdev /dev/sdc1 errs: wr 0, rd 5, flush 0, corrupt 0, gen 0",
        "BTRFS warning (device sdb1): lost page write due to IO error on /dev/sdc1 (-5)",
        "BTRFS warning (device sdb1): lost super block write due to IO error on /dev/sdc1 (-5)",
    ),
    "md_disk_failure": ("md/raid1:md0: Disk failure on sdb1, disabling device.",),
    "md_members": ("md/raid1:md0: Operation continuing on 1 devices.", "--- level:5 rd:3 wd:2"),
    "md_read_corrected": ("md/raid1:md0: read error corrected (8 sectors at 9 on sdb1)",),
    "md_read_uncorrectable": (
        "md/raid:md0: read error not correctable (sector 9 on sdb1).",
        "md/raid:md0: Too many read errors, failing device sdb1.",
        "md/raid10:md0: sdb1: Raid device exceeded read_error threshold [cur 21:max 20]",
        "md/raid1:md0: dm-0: unrecoverable I/O read error for block 8",
    ),
    "md_reschedule": ("md/raid1:md0: sdb1: rescheduling sector 9",),
    "md_super_error": ("md: super_written gets error=-5",),
    "md_failed": ("md/raid:md0: not enough operational devices (2/4 failed)",),
    "md_degraded": ("md/raid1:md0: active with 1 out of 2 mirrors",),
    "md_kicked": ("md: kicking non-fresh sdb1 from array!",),
    "md_mismatch": ("md0: mismatch sector in range 8-16",),
    "md_sync_started": ("md: recovery of RAID array md0",),
    "md_sync_done": ("md: md0: data-check done.",),
    "md_sync_interrupted": ("md: md0: recovery interrupted.",),
    "dm_path_failed": ("device-mapper: multipath: 253:2: Failing path 8:16.",),
    "dm_path_reinstated": (
        "device-mapper: multipath: 253:2: Reinstating path 8:16.",
        "device-mapper: multipath: Reinstating path 8:16.",
    ),
    "dm_pool_low": ("device-mapper: thin: 253:4: reached low water mark for data device: x",),
    "dm_pool_full": (
        "device-mapper: thin: 253:4: switching pool to out-of-data-space (queue IO) mode",
        "device-mapper: thin: 253:4: switching pool to read-only mode",
    ),
    "dm_pool_writable": ("device-mapper: thin: 253:4: switching pool to write mode",),
    "dm_snapshot_invalid": ("device-mapper: snapshots: Invalidating snapshot: Unable to x.",),
    "dm_error": ("device-mapper: raid1: Read failure on mirror device 253:3.  Trying another.",),
    "dm_checksum_error": (
        "device-mapper: crypt: dm-0: INTEGRITY AEAD ERROR, sector 8",
        "device-mapper: integrity: dm-0: Checksum failed at sector 0x3e8",
        "device-mapper: verity: 253:2: data block 9 is corrupted",
    ),
    "dm_metadata_error": (
        (
            "device-mapper: thin: 253:4: metadata operation 'dm_pool_commit_metadata' "
            "failed: error = -5"
        ),
        "device-mapper: cache: 253:4: aborting current metadata transaction",
    ),
    "block_readonly": ("<4>Trying to write to read-only block-device sdb1",),
    "partition_table": (
        "sdb: p1 size 1953523120 extends beyond EOD, truncated",
        "Alternate GPT is invalid, using primary GPT.",
    ),
    "scsi_space_low": (
        (
            "sd 7:0:1:0: Warning! Received an indication that the LUN reached a thin provisioning "
            "soft threshold."
        ),
    ),
    "hba_link_down": (
        "lpfc 0000:3b:00.0: 0:1305 Link Down Event x2 received Data: x2 x20 x800110 x0",
        "qla2xxx [0000:3b:00.0]-500b:7: LOOP DOWN detected (2 7 0 0).",
    ),
    "hba_link_up": (
        "lpfc 0000:3b:00.0: 0:1303 Link Up Event x3 received Data: x3 x0 x40 x0 x0",
        "qla2xxx [0000:3b:00.0]-500a:7: LOOP UP detected (16 Gbps).",
    ),
    "fs_mounted": (
        (
            "EXT4-fs (sdb1): mounted filesystem 3a1b9c52-1f0e-4d54-9a0b-2f7c3c9d1e77 r/w with"
            " ordered data mode. Quota mode: none."
        ),
        "XFS (dm-3): Ending clean mount",
        "XFS (sdb1): Ending recovery (logdev: internal)",
    ),
    "fs_remounted_writable": (
        "EXT4-fs (sdb1): re-mounted 3a1b9c52-1f0e-4d54-9a0b-2f7c3c9d1e77 r/w. Quota mode: none.",
    ),
    "driver_message": (
        "<4>ufshcd-pci 0000:00:12.7: Unable to post the query request",
        "<4>snic: Error 5 devcmd 3",
    ),
    "unrecognized_error": ("<3>libceph: mon0 (1)10.0.0.5:6789 unrecognised reply",),
    "unrecognized_critical": ("<2>csiostor 0000:3b:00.0: Fatal 5 (0x1f)",),
    "connection_restored": (
        "nvme nvme0: Successfully reconnected (1 attempt)",
        "nvme nvme0: Successfully reconnected (2 attempts)",
        "nvme nvme0: Successfully reconnected (attempt 1/60)",
        "connection1:0: detected conn login (3)",
    ),
    "connection_error": (
        "connection1:0: ping timeout of 5 secs expired, recv timeout 5, last rx 1, last ping 2",
        "connection2:0: detected conn error (1020)",
        "nvme nvme0: starting error recovery",
        "nvme nvme0: NVME-FC{0}: controller connectivity lost. Awaiting Reconnect",
        "nvme nvme2: receive failed:  -104",
    ),
    "connection_lost": (
        "session1: session recovery timed out after 120 secs",
        "rport-7:0-1: blocked FC remote port time out: removing target and saving binding",
        "nvme nvme0: NVME-FC{0}: Max reconnect attempts (60) reached.",
        "nvme nvme0: no available path - failing I/O",
    ),
    "network_block_error": (
        "block nbd0: Receive control failed (result -104)",
        "block nbd3: Connection timed out, retrying (1/2 alive)",
        "rbd: rbd0: write at objno 12 0~4096 result -110",
    ),
    "network_block_failed": (
        "block nbd0: Dead connection, failed to find a fallback",
        "drbd r0/0 drbd0: IO ERROR: neither local nor remote data, sector 8+8",
        "drbd r0/0 drbd0: Split-Brain detected but unresolved, dropping connection!",
    ),
    "nfs_not_responding": ("nfs: server backup1 not responding, still trying",),
    "nfs_timed_out": ("nfs: server 192.0.2.7 not responding, timed out",),
    "smb_not_responding": (
        "CIFS: VFS: \\\\backup1 has not responded in 180 seconds. Reconnecting...",
        "CIFS VFS: Server 192.0.2.7 has not responded in 120 seconds. Reconnecting...",
    ),
    "nfs_responding": ("nfs: server backup1 OK",),
    "nfs_error": (
        "NFS: nfs4_reclaim_open_state: Lock reclaim failed!\nNFS: backup1: lost 3 locks",
        "NFS: state manager: reclaim failed on NFSv4 server backup1 with error 13",
    ),
    "mmc_error": (
        "mmc0: Timeout waiting for hardware interrupt.",
        "mmcblk0: error -110 sending status command, retrying",
        "mmc1: cache flush error -110",
    ),
    "target_error": (
        "iblock_bio_done: bio error: 00000000a1b2c3d4,  err: -5\nFILEIO: write failed with -28",
    ),
    "fs_warning": ("<4>XFS (sdb1): xlog_unmount_write: unmount record failed",),
    "fs_device_missing": (
        "<4>BTRFS warning (device sdb): devid 2 uuid 3b5d2e1c-1111-2222-3333-44445555 is missing",
    ),
    "pool_suspended": (
        (
            "SPLError: 3525:0:(spl-err.c:67:vcmn_err()) WARNING: Pool 'tank' has encountered an"
            " uncorrectable I/O failure and has been suspended."
        ),
        (
            "<4>WARNING: Pool 'tank' has encountered an uncorrectable I/O failure and has been"
            " suspended."
        ),
        (
            "<4>WARNING: MMP writes to pool 'a' have not succeeded in over 9 ms; suspending pool."
            " Hrtime 5"
        ),
    ),
    "zfs_panic": (
        "PANIC: zfs: rt=tank: removing segment (offset=1000 size=200)",
        "VERIFY(spa->spa_root) failed\nPANIC at spa.c:10:spa_load()",
    ),
    "bcache_error": ("bcache: bch_count_io_errors() sdb: IO error on reading from cache.",),
}


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in EXAMPLES.items() for text in texts]
)
def test_a_line_of_each_form_gets_its_class(kind: str, text: str) -> None:
    """The last event of the lines: earlier ones only prepare it."""
    assert told(text)[-1].kind == kind


def test_every_class_has_a_line() -> None:
    """Only lost lines are reported by the reader of the log itself."""
    assert EXAMPLES.keys() == KINDS.keys() - {"log_gap"}


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (
            "I/O error, dev sdb, sector 363296 op 0x0:(READ) flags 0x80700 phys_seg 28",
            {"device": "sdb", "sector": 363296, "sectors": 224, "read_ahead": True, "code": "I/O"},
        ),
        (
            "I/O error, dev sdb, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
            {"sectors": 8, "read_ahead": False},
        ),
        ("end_request: I/O error, dev 08:11 (sdb), sector 8", {"device": "sdb1", "sector": 8}),
        ("end_request: I/O error, dev 03:40 (hdb), sector 8", {"device": "hdb", "sector": 8}),
        (
            "Buffer I/O error on dev sdb1, logical block 7, async page read",
            {"device": "sdb1", "block": 7, "sector": None},
        ),
        (
            "ata3.00: cmd c8/00:08:00:08:00/00:00:00:00:00/e1 tag 29 dma 4096 in",
            {"device": "ata3.00", "block": 0x1000800, "blocks": 8},
        ),
        (
            "ata3.00: cmd 61/00:30:30:3d:21/01:00:56:00:00/40 tag 6 ncq 131072 out",
            {"block": 0x56213D30, "blocks": 256},
        ),
        (
            "ata3.00: cmd ea/00:00:00:00:00/00:00:00:00:00/a0 tag 6",
            {"block": None, "code": "0xea"},
        ),
        (
            "nvme0n1: Read(0x2) @ LBA 16, 8 blocks, Unrecovered Read Error (sct 0x2 / sc 0x81) DNR",
            {"device": "nvme0n1", "block": 16, "blocks": 8, "code": "sct 0x2 / sc 0x81"},
        ),
        ("nvme 0000:04:00.0: I/O 3 QID 1 timeout, aborting", {"device": "0000:04:00.0"}),
        ("INFO: task jbd2/dm-0-8:8 blocked for more than 120 seconds.", {"device": "dm-0"}),
        ("INFO: task jbd2/nvme0n1p2-:8 blocked for more than 9 seconds.", {"device": "nvme0n1p2"}),
        ("INFO: task md3_raid5:8 blocked for more than 120 seconds.", {"device": "md3"}),
        ("INFO: task flush-253:0:8 blocked for more than 120 seconds.", {"place": "block 253:0"}),
        (
            "3w-9xxx: scsi6: AEN: ERROR (0x04:0x0009): Drive timeout detected:port=3.",
            {"controller": "host6", "place": "port 3", "code": "0x0009", "word": "ERROR"},
        ),
        (
            "3w-sas: scsi6: AEN: WARNING (0x04:0x0023): Sector repair completed:port=1,LBA=0x1F.",
            {"place": "port 1", "block": 31},
        ),
        (
            "3w-9xxx: scsi6: AEN: ERROR (0x04:0x0002): Degraded unit:unit=2, port=3.",
            {"place": "unit 2 port 3"},
        ),
        (
            "3w-xxxx: scsi1: AEN: WARNING: SMART threshold exceeded: Port #1.",
            {"controller": "host1", "place": "port 1", "code": "SMART threshold exceeded"},
        ),
        ("aacraid: Host adapter abort request (7,0,1,0)", {"device": "7:0:1:0"}),
        (
            "arcmsr2: abort device command of scsi id = 0 lun = 1",
            {"controller": "host2", "place": "id 0 lun 1"},
        ),
        (
            "BTRFS error (device sdb1): bdev /dev/sdc1 errs: wr 0, rd 5, flush 0, corrupt 0, gen 0",
            {"device": "sdc1", "code": "wr 0, rd 5, flush 0, corrupt 0, gen 0"},
        ),
        (
            "md/raid:md0: read error not correctable (sector 9 on sdb1).",
            {"device": "sdb1", "place": "md0", "sector": 9},
        ),
        ("md/raid:md0: Too many read errors, failing device sdb1.", {"device": "sdb1"}),
        ("I/O error, dev sdb, sector 18446744073709551615 op", {"sector": None}),
        (
            "sd 0:0:1:0: [sdb] Add. Sense: What nobody has heard of",
            {"asc": None, "code": "What nobody has heard of", "place": "0:0:1:0"},
        ),
        ("sd 0:0:1:0: [sdb] <<vendor>>ASC=0x80 ASCQ=0x7", {"asc": 0x80, "ascq": 7}),
    ],
)
def test_the_parts_of_a_line(text: str, fields: dict[str, object]) -> None:
    """Each has the data of the line, and None for missing data."""
    (event,) = told(text)
    assert {name: getattr(event, name) for name in fields} == fields


@pytest.mark.parametrize(
    "text",
    [
        "end_request: I/O error, dev fd0, sector 0",
        "I/O error, dev sr0, sector 8 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 2",
        "sr 2:0:0:0: [sr0] tag#1 FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_SENSE",
        "sr 2:0:0:0: [sr0] Sense Key : Medium Error [current]",
        (
            "sd 3:0:0:0: [sdc] Synchronize Cache(10) failed: Result: hostbyte=DID_NO_CONNECT "
            "driverbyte=DRIVER_OK"
        ),
        (
            "sd 3:0:0:0: [sdc] Start/Stop Unit failed: Result: hostbyte=DID_BAD_TARGET "
            "driverbyte=DRIVER_OK"
        ),
        (
            "sd 3:0:0:0: [sdc] Synchronizing SCSI cache\n"
            "sd 3:0:0:0: [sdc] tag#2 FAILED Result: hostbyte=DID_NO_CONNECT driverbyte=DRIVER_OK"
        ),
        (
            "sd 3:0:0:0: [sdc] Sense Key : Recovered Error [current] [descriptor]\n"
            "sd 3:0:0:0: [sdc] Add. Sense: ATA pass through information available"
        ),
        "sd 3:0:0:0: [sdc] tag#2 CDB: ATA command pass through(16) 85 06 20 00 00 00 00 00 00",
        (
            "sd 3:0:0:0: [sdc] Sense Key : Not Ready [current]\n"
            "sd 3:0:0:0: [sdc] Add. Sense: Medium not present"
        ),
        "ata2: SATA link down (SStatus 0 SControl 300)",
        "ata1.00: Entering standby power mode\nata1.00: disable device",
        "usb 1-10: USB disconnect, device number 5",
        "net_ratelimit: 12 callbacks suppressed",
        "INFO: rcu_sched detected stalls on CPUs/tasks: { 1}",
        "EXT4-fs (sda1): mounted filesystem with ordered data mode",
        "md/raid1:md0: active with 2 out of 2 mirrors",
        "--- level:5 rd:3 wd:3",
        "megaraid_sas 0000:00:07.0: Online Controller Reset(OCR)\t: Enabled",
        "device-mapper: ioctl: error adding target to table",
        "sd 3:0:0:0: [sdc] Assuming drive cache: write through",
        "nvme nvme0: 2/0/0 default/read/poll queues",
    ],
)
def test_noise_is_no_event(text: str) -> None:
    """Lines that do not concern a disk in use must not cause an alert."""
    assert told(text) == []


ASKED = (  # smartctl's commands, and the kernel's names for them
    "ATA command pass through(16) 85 06 2c 00 00 00 00 00 00 00 00 00 00 00 e5 00",  # power mode
    "ATA command pass through(16) 85 06 2c 00 da 00 00 00 00 00 4f 00 c2 00 b0 00",  # SMART status
    "ATA command pass through(16) 85 08 0e 00 00 00 01 00 00 00 00 00 00 00 ec 00",  # IDENTIFY
    "ATA command pass through(16) 85 08 0e 00 d0 00 01 00 00 00 4f 00 c2 00 b0 00",  # SMART values
    "ATA command pass through(16) 85 09 0e 00 00 00 01 00 04 00 00 00 00 00 2f 00",  # READ LOG EXT
    "ATA command pass through(16) 85 06 2c",
    "ATA command pass through(12)/Blank a1 08 0e 00 01 00 00 00 00 ec 00 00",
    "Inquiry 12 01 80 00 60 00",
    "Log Sense 4d 00 4d 00 00 00 00 00 04 00",
    "Mode Sense(6) 1a 00 1c 00 40 00",
    "Mode Sense(10) 5a 00 1c 00 00 00 00 00 40 00",
    "Request Sense 03 00 00 00 12 00",
    "Read Defect Data(10) 37 00 0d 00 00 00 00 00 08 00",
    "Receive diagnostic 1c 01 00 02 00 00",
)
MEANT = (
    "Read(10) 28 00 00 00 08 00 00 00 08 00",
    "Write(16) 8a 00 00 00 00 00 00 00 08 00 00 00 00 08 00 00",
    "ATA command pass through(16) 85 08 0e 00 00 00 01 00 00 00 00 00 00 40 24 00",  # READ SECTOR
)
STORY = (
    "sd 3:0:0:0: [sdc] tag#{tag} FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_OK cmd_age=0s",
    "sd 3:0:0:0: [sdc] tag#{tag} Sense Key : {key} [current] ",
    "sd 3:0:0:0: [sdc] tag#{tag} Add. Sense: {words}",
    "sd 3:0:0:0: [sdc] tag#{tag} CDB: {command}",
)
WORDS = "Internal target failure"


def story(command: str, *, key: str = "Hardware Error", words: str = WORDS, tag: int = 2) -> str:
    """Return the kernel's lines for a failed command (drivers/scsi/scsi_lib.c)."""
    lines = "\n".join(STORY)
    return lines.format(tag=tag, key=key.title(), words=words, command=command)


@pytest.mark.parametrize("key", sense.KEYS)
@pytest.mark.parametrize("command", ASKED)
def test_a_question_that_fails_is_no_error_of_the_disk(command: str, key: str) -> None:
    """For any sense key: a SAT layer without a command, a disk in standby, a bridge."""
    assert told(story(command, key=key)) == []
    # Another command to the disk at the same time is independent, on either side of it.
    for parts in ((MEANT[0], command), (command, MEANT[0])):
        text = "\n".join(story(each, key=key, tag=tag) for tag, each in enumerate(parts))
        kinds = [event.kind for event in told(text)]
        assert len(kinds) == len(STORY)
        assert kinds[-1] == "scsi_cdb"


@pytest.mark.parametrize("key", sense.KEYS)
@pytest.mark.parametrize("command", MEANT)
def test_a_command_for_data_that_fails_is_reported(command: str, key: str) -> None:
    """Also a passed-through one; the sense is reported once its command is known."""
    kinds = [event.kind for event in told(story(command, key=key))]
    assert kinds[0] == "scsi_result"
    assert kinds[-1] == "scsi_cdb"
    assert len(kinds) == len(STORY)


@pytest.mark.parametrize("command", ASKED)
@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("Failure prediction threshold exceeded", "scsi_failure_predicted"),
        ("Warning - specified temperature exceeded", "scsi_warning"),
    ],
)
def test_what_a_disk_says_of_itself_is_told_whatever_it_was_asked(
    command: str, words: str, kind: str
) -> None:
    """It was reported in response to the next command."""
    assert [event.kind for event in told(story(command, words=words))] == [kind]


def test_a_sense_without_its_command_is_reported() -> None:
    """Truncated, or from a kernel without them; another disk's line in between has no effect."""
    lines = story(ASKED[0]).split("\n")
    for end in range(1, len(lines)):
        kinds = [event.kind for event in told("\n".join(lines[:end]))]
        assert len(kinds) == end
    other = "sd 4:0:0:0: [sdd] tag#2 CDB: " + ASKED[0]
    assert len(told("\n".join([*lines[:-1], other]))) == len(lines) - 1
    old = "sdc: Current: sense key: Medium Error\n    Additional sense: Unrecovered read error\n"
    assert [e.kind for e in told(old + "end_request: I/O error, dev sdc, sector 8")] == [
        "scsi_medium_error",
        "scsi_additional_sense",
        "block_io_error",
    ]


def test_what_is_left_over_in_registers_is_no_address() -> None:
    """A drive without answer leaves old numbers; one that reports no block has block 0."""
    late = told("res 40/00:00:9e:9c:bd/00:00:01:00:00/40 Emask 0x4 (timeout)")
    none = told(
        "sd 0:0:1:0: [sdb] Sense Key : Medium Error [current]\nInfo fld=0x0\n"
        "sd 0:0:1:0: [sdb] Add. Sense: Unrecovered read error"
    )
    assert [event.block for event in (*late, *none)] == [None, None, None]


def test_a_device_that_came_back_is_reported_again() -> None:
    """Removed, inserted, and then lost while in use."""
    text = (
        "sd 3:0:0:0: [sdc] Synchronizing SCSI cache\n"
        "sd 3:0:0:0: [sdc] Attached SCSI disk\n"
        "sd 3:0:0:0: [sdc] tag#2 FAILED Result: hostbyte=DID_NO_CONNECT driverbyte=DRIVER_OK"
    )
    assert [event.kind for event in told(text)] == ["scsi_no_connect"]


def test_a_program_cannot_forge_an_event() -> None:
    """A line written to '/dev/kmsg' never has the kernel's facility."""
    record = b"%d,1,5,-;critical medium error, dev sda, sector 8"
    assert [event.kind for event in read([parse_record(record % 3)])] == ["block_medium_error"]
    assert read([parse_record(record % 11)]) == []


def test_the_command_carries_the_sense_and_the_block_line_both() -> None:
    """A drive with 4096-byte blocks: the command counts these, the block layer counts sectors."""
    events = told(
        "sd 0:0:1:0: [sdb] tag#7 FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_OK cmd_age=2s\n"
        "sd 0:0:1:0: [sdb] tag#7 Sense Key : Medium Error [current]\n"
        "sd 0:0:1:0: [sdb] tag#7 Add. Sense: Unrecovered read error\n"
        "sd 0:0:1:0: [sdb] tag#7 CDB: Read(10) 28 00 00 00 10 00 00 00 04 00\n"
        "critical medium error, dev sdb, sector 32776 op 0x0:(READ) flags 0x0 phys_seg 1\n"
        "critical medium error, dev sdb, sector 32776 op 0x0:(READ) flags 0x0 phys_seg 1\n"
    )
    command, line, another = events[-3:]
    sense = (3, 0x11, 0x00)
    assert (command.sense_key, command.asc, command.ascq) == sense
    assert (command.block, command.blocks) == (4096, 4)
    assert (line.sense_key, line.asc, line.ascq) == sense
    assert (line.sector, line.sectors) == (32776, 24)
    assert (another.sense_key, another.sectors) == (None, 8)


def test_a_command_does_not_take_the_sense_of_another() -> None:
    """The kernel printed the sense of tag 1, and rate-limited the lines of tag 2."""
    events = told(
        "sd 0:0:1:0: [sdb] tag#1 Sense Key : Medium Error [current]\n"
        "sd 0:0:1:0: [sdb] tag#2 CDB: Read(10) 28 00 00 00 10 00 00 00 04 00\n"
    )
    assert (events[1].kind, events[1].sense_key) == ("scsi_cdb", None)


def test_lines_without_a_device_belong_to_the_one_printed_just_before() -> None:
    """Linux 3.13 to 3.18; the last line is a minute later, and its disk is unknown."""
    split = ["sd 0:0:2:0: [sdc]", "Sense Key : Medium Error [current]", "Info fld=0x1056",
             "Add. Sense: Unrecovered read error",
             "CDB: Read(10): 28 00 00 00 10 00 00 01 00 00"]  # fmt: skip
    lines = [KernelLine(text, monotonic_seconds=9.0) for text in split]
    late = KernelLine("Sense Key : Medium Error [current]", monotonic_seconds=69.0)
    events = read([*lines, late])
    assert [(event.kind, event.device, event.block) for event in events] == [
        ("scsi_medium_error", "sdc", None),
        ("scsi_additional_sense", "sdc", 0x1056),
        ("scsi_cdb", "sdc", 0x1000),
    ]


def test_a_sense_that_waits_is_reported_before_what_follows() -> None:
    """Its next line is for another disk, or is missing."""
    recovered = "sd 0:0:1:0: [sdb] Sense Key : Recovered Error [current]\n"
    other = "sd 0:0:2:0: [sdc] Sense Key : Medium Error [current]\n"
    kinds = ["scsi_recovered_error", "scsi_medium_error"]
    assert [event.kind for event in told(recovered + other)] == kinds
    assert [event.kind for event in told(recovered)] == kinds[:1]
    assert [event.kind for event in told(recovered + recovered)] == kinds[:1] * 2


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        ("EXT4-fs (sdb1): Delayed block allocation failed for inode 12 with error 28", True),
        ("EXT4-fs (sdb1): Delayed block allocation failed for inode 12 with error 122", True),
        ("EXT4-fs (sdb1): Delayed block allocation failed for inode 12 with error 5", False),
        ("EXT4-fs (sdc1): Delayed block allocation failed for inode 12 with error 28", False),
    ],
)
def test_what_is_lost_for_want_of_space_is_no_error_of_the_disk(first: str, kind: bool) -> None:
    """The second line has no code: that of the first line of its file system counts."""
    *_, last = told(f"{first}\nEXT4-fs (sdb1): This should not happen!! Data will be lost")
    assert last.kind == ("fs_no_space" if kind else "lost_write")
    assert last.device == "sdb1"


def test_equal_lines_of_one_moment_are_two_events() -> None:
    """Two requests failed within a microsecond; read again, they are the same two."""
    lines = [KernelLine("lost page write due to I/O error on sdb1", monotonic_seconds=9.0)] * 2
    keys = [event.key for event in read(lines)]
    assert len(set(keys)) == len(keys)
    assert keys == [event.key for event in read([replace(line, sequence=5) for line in lines])]


def test_control_characters_are_escaped() -> None:
    """Control characters in a drive's name must not affect a terminal."""
    (event,) = read([KernelLine("ata3.00: failed command: \x1b[31mREAD\x07")])
    assert event.text == "ata3.00: failed command: \\x1b[31mREAD\\x07"


def test_a_record_of_several_lines_is_read_line_by_line() -> None:
    """Format of Linux 3: with the level before the second one."""
    record = (
        rb"1,9,77,-;md/raid1:md0: Disk failure on sdb1, disabling device."
        rb"\x0a<1>md/raid1:md0: Operation continuing on 1 devices."
    )
    events = read([parse_record(record)])
    assert [(event.kind, event.device) for event in events] == [
        ("md_disk_failure", "sdb1"),
        ("md_members", "md0"),
    ]


# --- anything at all ---

WORDS = st.sampled_from(
    sorted({word for texts in EXAMPLES.values() for text in texts for word in text.split(" ")})
)
NEARLY = st.lists(WORDS | st.text(max_size=5), max_size=12).map(" ".join)
TIMES = st.none() | st.floats(0, 100)


@given(st.lists(st.builds(KernelLine, NEARLY | st.text(), monotonic_seconds=TIMES), max_size=8))
def test_no_text_is_too_bad(lines: list[KernelLine]) -> None:
    """Nothing raises, every event has an existing kind, and one line of text."""
    for event in read(lines):
        assert event.kind in KINDS
        assert "\n" not in event.text
        assert event.key


@given(st.data())
def test_half_a_line_is_no_harm(data: st.DataObject) -> None:
    """Truncated anywhere, it is reported or not, and the next whole line is reported."""
    text = data.draw(st.sampled_from([each[0] for each in EXAMPLES.values()]))
    cut = data.draw(st.integers(0, len(text)))
    events = told(text[:cut] + "\ncritical medium error, dev sdq, sector 77")
    assert (events[-1].kind, events[-1].device, events[-1].sector) == (
        "block_medium_error",
        "sdq",
        77,
    )


def test_a_long_line_and_a_long_dump_end() -> None:
    """A line of a million letters, and an endless sense."""
    assert told("sd 0:0:1:0: [sdb] Sense Key : " + "Medium " * 1_000_000)
    dump = ["Descriptor sense data with sense descriptors (in hex):", *["00 " * 15 + "00"] * 10_000]
    assert told("\n".join(["sd 0:0:1:0: [sdb] Sense Key : Medium Error [current]", *dump]))


# --- machines of others ---

LABELS = {
    "scsi_sense": {kind for kind in KINDS if kind.startswith("scsi_")},
    "scsi_asc": {"scsi_additional_sense", "scsi_warning", "scsi_link_error"},
    "scsi_result": {"scsi_result", "scsi_no_connect", "scsi_timeout", "scsi_host_error"},
    "blk_io_error": {kind for kind in KINDS if kind.startswith("block_")},
    "buffer_io_error": {"buffer_io_error", "lost_write"},
    "ata_res": {"ata_result", "ata_media_error", "ata_timeout"},
    "ata_cmd": {"ata_command"},
    "ata_failed_cmd": {"ata_failed_command"},
    "ata_error": {"ata_medium_error"},
    "md_conf": {"md_members"},
    "ata_gone": {"ata_disabled"},
    "nvme_down": {"nvme_controller_down"},
    "nvme_dead": {"nvme_controller_dead"},
    "fs_writable": {"fs_remounted_writable"},
    "md_array_whole": {"md_array_recovered"},
    "md_array_gone": {"md_array_disappeared"},
    "nvme_status": {"nvme_status", "nvme_medium_error"},
    "hba_log": {"hba_log_info", "hba_link_error"},
    "hba_event": {"hba_aen"},
    "dev_offlined": {"scsi_offlined"},
    "ratelimit": {"callbacks_suppressed"},
    "info": {"hba_aen", "hba_ready", "md_sync_done", "ata_link_up"},
}
"""The fields of a label, if they differ from the kind's own name."""
QUIET = frozenset({"ctx", "noise", "info"})
MEDIUM = {"medium": "block_medium_error", "target": "block_target_error"}


def labels() -> dict[str, dict[int, dict[str, str]]]:
    """Return each file's labelled lines by number."""
    found: dict[str, dict[int, dict[str, str]]] = defaultdict(dict)
    with (CORPUS / "kernel" / "labels.tsv").open(newline="") as table:
        for row in csv.DictReader(table, delimiter="\t"):
            path, _, number = row["line_id"].rpartition(":")
            found[path][int(number)] = row
    return found


def names(event: StorageEvent) -> set[str]:
    """Return all locations of an event, by the names that labels use."""
    whole = f"{event.device} {event.controller} {event.place.replace('id ', '')}"
    found = {*whole.replace(" lun ", ":").split()}
    found |= {name.removeprefix("0000:") for name in found}
    return found | {name.replace("host", "scsi") for name in found}


def same_device(event: StorageEvent, label: str) -> bool:
    """Whether an event is about a label's device.

    A partition belongs to the disk in the label; drivers' names are in the line, not in the event.
    """
    label = label.replace("(prev line)", "").replace(",", ":").replace("arcmsr0", "scsi0")
    driver = {"3w", "3w-sas", "hpsa", "aacraid", "arcmsr", "aac"}
    words = set(label.split()) - driver
    found = names(event)
    return words <= found or event.device.startswith(f"{label}1") or event.device == label


@needs_corpus
def test_every_labelled_line_gets_its_class_device_and_sector() -> None:
    """270 lines, each classified; context and noise are no events."""
    verdicts: Counter[str] = Counter()
    for path, rows in labels().items():
        lines = parse_text((CORPUS / path).read_text())
        of_text: dict[str, deque[StorageEvent]] = defaultdict(deque)
        for event in read(lines):
            of_text[event.text].append(event)
        by_number = {line.sequence: line for line in lines}
        carried = ""
        for number, row in sorted(rows.items()):
            found = of_text[by_number[number].text]
            if row["class"] in QUIET and not found:
                carried = row["sector"] or carried
                verdicts["quiet"] += 1
                continue
            event = found.popleft()
            where = (path, number, row["class"], event)
            assert event.kind in LABELS.get(row["class"], {row["class"]}), where
            assert row["class"] != "info" or event.kind != "hba_aen" or event.word == "INFO", where
            assert same_device(event, row["device"]), where
            sector = event.block if event.sector is None else event.sector
            assert not row["sector"] or sector == int(row["sector"]), where
            assert row["class"] != "scsi_asc" or not carried or sector == int(carried), where
            assert MEDIUM.get(row["sense_or_detail"], event.kind) == event.kind, where
            if row["class"] == "scsi_sense":
                assert event.code == row["sense_or_detail"].lower(), where
            carried = "" if row["class"] == "scsi_asc" else carried
            verdicts["event"] += 1
        assert not any(of_text.values()), (path, of_text)
    assert verdicts == {"event": 226, "quiet": 44}


SILENT = (
    "kernel/Linuxfabrik+monitoring-plugins/dmesg/unit-test/stdout/benign-ignored-messages-v1",
    "kernel/Linuxfabrik+monitoring-plugins/dmesg/unit-test/stdout/benign-ignored-messages-v2",
    "kernel/Linuxfabrik+monitoring-plugins/dmesg/unit-test/stdout/benign-ignored-messages-v3",
    "kernel/Linuxfabrik+monitoring-plugins/dmesg/unit-test/stdout/benign-ignored-messages-v4",
    "kernel/Linuxfabrik+monitoring-plugins/dmesg/unit-test/stdout/error-rcu-stall",
    "kernel/Linuxfabrik+monitoring-plugins/dmesg/unit-test/stdout/error-tmpfs-mount-option",
    "kernel/Linuxfabrik+monitoring-plugins/dmesg/unit-test/stdout/no-messages",
    "vm/errors/blkdebug-scsi1-healed.dmesg.txt",
    "vm/hotplug/mega-add.dmesg.txt",
    "vm/hotplug/nvme-add.dmesg.txt",
    "vm/hotplug/nvme-del.dmesg.txt",
    "vm/hotplug/sata-sw-del.dmesg.txt",
    "vm/hotplug/scsi-del.dmesg.txt",
)
SPOKEN = {
    "kernel/Linuxfabrik+monitoring-plugins/dmesg/unit-test/stdout/errors-blk-update-request-two": {
        "block_discard_error sda": 2
    },
    "kernel/canonical+hotsos/kernlog_calltrace_hungtasks.log": {"hung_task ": 1},
    "reference/kernel-2.6-e2fsck-read-errors.log": {"block_io_error sdb": 8},
    "reference/kernel-2.6-medium-error.log": {
        "scsi_result sdb": 2,
        "scsi_medium_error sdb": 2,
        "scsi_additional_sense sdb": 2,
        "block_io_error sdb": 2,
    },
    "vm/hotplug/scsi-add.dmesg.txt": {
        "scsi_reset_notice 6:0:1:0": 1,
        "scsi_unit_attention 6:0:1:0": 1,
    },
    "vm/hotplug/sata-sw-rescan.dmesg.txt": {
        "scsi_not_ready sdd": 2,
        "scsi_additional_sense sdd": 2,
        "scsi_reset_notice 7:2:1:0": 1,
    },
    "vm/hotplug/nvme0-del-mounted.dmesg.txt": {
        "block_beyond_end nvme0n1": 8,
        "fs_error nvme0n1": 5,
        "lost_write nvme0n1": 4,
        "buffer_io_error nvme0n1": 1,
    },
    "vm/errors/scsidebug-timeout.dmesg.txt": {
        "scsi_reset_notice 8:0:0:0": 4,
        "scsi_offlined 8:0:0:0": 1,
        "scsi_timeout sde": 1,
        "scsi_cdb sde": 1,
        "block_io_error sde": 1,
    },
    "vm/errors/scsidebug-recovered.dmesg.txt": {
        "scsi_recovered_error sde": 1,
        "scsi_failure_predicted sde": 1,
    },
    "vm/errors/blkdebug-nvme0-read-direct.dmesg.txt": {
        "nvme_medium_error nvme0n1": 1,
        "callbacks_suppressed ": 1,
        "block_medium_error nvme0n1": 1,
    },
}


@needs_corpus
@pytest.mark.parametrize("path", SILENT)
def test_a_log_without_errors_raises_nothing(path: str) -> None:
    """Boots, hot-plugging and lines that other programs treat as harmless."""
    assert told((CORPUS / path).read_text()) == []


@needs_corpus
@pytest.mark.parametrize("path", SPOKEN)
def test_a_log_reports_that_many_of_each(path: str) -> None:
    """Counted by hand in the file."""
    events = told((CORPUS / path).read_text())
    assert Counter(f"{event.kind} {event.device}" for event in events) == SPOKEN[path]


JOURNALS = sorted((CORPUS / "vm" / "errors").glob("*.journal.json"))


def shown(event: StorageEvent) -> tuple[object, ...]:
    """Return what both sources must have in common."""
    range_ = event.sector, event.sectors, event.block, event.blocks
    return event.kind, event.device, event.text, event.sense_key, event.monotonic_seconds, range_


@pytest.mark.parametrize("path", cases_of_corpus(JOURNALS), ids=lambda path: path.name)
def test_the_journal_reports_what_the_console_reported(path: Path) -> None:
    """The same events at the same time, each with its device; a console lacks second lines."""
    entries = [json.loads(each) for each in path.read_text().splitlines()]
    lines = [
        KernelLine(
            entry["MESSAGE"],
            int(entry["PRIORITY"]),
            int(entry["SYSLOG_FACILITY"]),
            int(entry["_SOURCE_MONOTONIC_TIMESTAMP"]) / 1e6,
            device=entry.get("_KERNEL_DEVICE", ""),
        )
        for entry in entries
        if entry["_TRANSPORT"] == "kernel"
    ]
    console = path.with_name(path.name.replace("journal.json", "dmesg.txt")).read_text()
    expected = [shown(event) for event in told(console)]
    found = [shown(event) for event in read(lines)]
    assert [each for each in found if each in expected] == expected
    for event in told(console):
        assert event.device or event.kind in {"callbacks_suppressed", "ata_result"}
