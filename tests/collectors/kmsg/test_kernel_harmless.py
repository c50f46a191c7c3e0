"""Words of harmlessness: they exempt no line of level error or worse; whole messages do."""

from __future__ import annotations

import pytest
from support import kernel_verdicts

from iowarden.collectors.kmsg import kernel_harmless
from iowarden.collectors.kmsg.kernel_classifier import Classifier
from iowarden.collectors.kmsg.kernel_events import classify, finish, unrecognized_driver
from iowarden.collectors.kmsg.kernel_line import KernelLine
from iowarden.rules.events.event_table import EventTable, parse_events_file
from iowarden.rules.severity import Severity

PRINTERS = (
    *("nvme nvme0: ", "megaraid_sas 0000:3b:00.0: ", "mpt3sas_cm0: ", "mpi3mr0: "),
    *("smartpqi 0000:5c:00.0: ", "hpsa 0000:03:00.0: ", "lpfc 0000:04:00.0: 0:0446 "),
    *("qla2xxx [0000:05:00.0]-00af:1: ", "[0000:05:00.0]:[qedf_x:12]:7: ", "aacraid: "),
    *("arcmsr0: ", "ahci 0000:00:17.0: ", "ata1.00: ", "sd 0:0:0:0: [sda] ", "scsi host0: "),
    *("st 0:0:3:0: [st0] ", "md: ", "md/raid:md0: ", "device-mapper: thin: ", "XFS (sda1): "),
    *("EXT4-fs (sda1): ", "BTRFS error (device sda1): ", "BTRFS critical (device sda1): "),
    *("JBD2: ", "F2FS-fs (sda1): ", "drbd r0: ", "block nbd0: ", "nfs: ", "CIFS: VFS: "),
    *("connection1:0: ", "mmc0: ", "bcache: ", "3w-9xxx: scsi0: ", "virtio_blk virtio0: "),
    *("virtio_pmem virtio2: ", "gfs2: ", "loop0: ", "isci 0000:07:00.0: ", "bnx2i - "),
    *("ufshcd-qcom 1d84000.ufs: ", "target_core: ", "(ls,1234,0):ocfs2_read_blocks:345 ERROR: "),
)
WORDS = (
    "an allocated block was lost",
    "data in nvram lost",
    "resume of the disk: media lost",
    "suspended after a fatal failure",
    "unsupported media fault: data lost",
    "writes must be considered lost",
    "irq storm: commands lost",
    "quota of spare blocks exhausted",
    "incompatible firmware: media failure",
    "mempool corrupt: writes lost",
    "registered volume is lost",
    "not enabled: cache lost power",
    "rebuild completed: all data lost",
    "zone is lost",
    "remount it: metadata are lost",
)
"""Each has a word by which a warning is exempt."""


def severities(text: str, priority: int | None) -> list[Severity | None]:
    """Return the severities of a line's events."""
    state, events = classify(Classifier(), KernelLine(text, priority))
    return [TABLE.find(event).severity_of(event) for event in (*events, *finish(state))]


def _table() -> EventTable:
    return parse_events_file(kernel_verdicts.EVENTS.read_text(), "events.yaml")


TABLE = _table()


@pytest.mark.parametrize("printer", PRINTERS)
@pytest.mark.parametrize(("priority", "least"), [(0, Severity.WARNING), (3, Severity.NOTICE)])
def test_no_word_of_harmlessness_takes_a_line_of_level_error_or_worse(
    printer: str, priority: int, least: Severity
) -> None:
    """Counted and shown; from level critical on a warning, whatever words it has."""
    gone = []
    for words in WORDS:
        told = severities(printer + words, priority)
        worst = max((each or Severity.INFO for each in told), default=None)
        if worst is None or worst < least:
            gone.append((words, worst))
    assert gone == []


@pytest.mark.parametrize(
    ("text", "priority", "severity"),
    [
        # fs/xfs/xfs_aops.c, xfs_discard_folio: delayed-allocation data are discarded
        (
            "XFS (sda1): page discard on page 00000000a1b2c3d4, inode 0x83, pos 4096.",
            1,
            Severity.CRITICAL,
        ),
        # fs/xfs/xfs_qm.c, xfs_qm_mount_quotas
        (
            "XFS (sda1): Quotacheck: Unsuccessful (Error -5): Disabling quotas.",
            1,
            Severity.WARNING,
        ),
        # fs/btrfs/transaction.c: a transaction is aborted
        (
            (
                "BTRFS: error (device sda1) in qgroup_account_snapshot:1462: errno=-5 IO failure"
                " (Error while writing out transaction for qgroup)"
            ),
            2,
            Severity.CRITICAL,
        ),
        (
            "BTRFS: error (device sda1: state A) in btrfs_balance:12: errno=-30 unknown",
            2,
            Severity.CRITICAL,
        ),
        # fs/btrfs/ordered-data.c
        (
            "BTRFS panic (device sda1): zoned: inconsistency in ordered tree at offset 12",
            0,
            Severity.CRITICAL,
        ),
        # fs/btrfs/volumes.c
        (
            (
                "BTRFS critical (device sda1): stripe index math went horribly wrong, got"
                " stripe_index=4, num_stripes=2"
            ),
            2,
            Severity.WARNING,
        ),
        # drivers/scsi/mpt3sas/mpt3sas_base.c
        (
            (
                "mpt3sas_cm0: Issue occurred with flashing controller firmware.Please reboot the"
                " system and ensure that the correct firmware version is running"
            ),
            0,
            Severity.WARNING,
        ),
        # drivers/scsi/qla2xxx/qla_nx2.c
        (
            (
                "qla2xxx [0000:3b:00.0]-00fb:7: qla8044_template_end: Reset sequence completed with"
                " some timeout errors."
            ),
            2,
            Severity.WARNING,
        ),
        # a first word of storage, and a form of its own (drivers/scsi/ncr53c8xx.c)
        ("ncr KVAR out of range", 0, Severity.WARNING),
        ("st 0:0:3:0: [st0] failure", 2, Severity.WARNING),
    ],
)
def test_lines_of_the_kernel_that_words_in_general_took(
    text: str, priority: int, severity: Severity
) -> None:
    """Linux 6.1, with their levels."""
    worst = max(each or Severity.INFO for each in severities(text, priority))
    assert worst >= severity


def test_a_port_under_error_handling_hides_no_critical_line() -> None:
    """Details of an exception are printed as errors."""
    state, _ = classify(Classifier(), KernelLine("ata4.00: exception Emask 0x10 frozen", 3))
    assert classify(state, KernelLine("ata4.00: irq_stat 0x08000000", 3))[1] == ()
    (event,) = classify(state, KernelLine("ata4.00: surprise", 2))[1]
    assert event.kind == "unrecognized_critical"


EXAMPLES = (
    "sd 6:0:0:0: [sdc] No Caching mode page found",
    "sd 6:0:0:0: [sdc] Asking for cache data failed",
    "sd 6:0:0:0: [sdc] Assuming drive cache: write through",
    "sda: assuming drive cache: write through",
    "sd 6:0:0:0: [sdc] Test WP failed, assume Write Enabled",
    "ata1.00: READ LOG DMA EXT failed, trying PIO",
    "EXT4-fs (sda1): couldn't mount as ext3 due to feature incompatibilities",
    "EXT2-fs (sda1): error: couldn't mount because of unsupported optional features (240)",
    "EXT4-fs (sda1): VFS: Can't find ext4 filesystem",
    "scsi host4: uas_eh_device_reset_handler start",
    "BTRFS alert (device sda1): btrfs RAID5/6 is EXPERIMENTAL and has known data-loss bugs",
    "XFS (pmem0): DAX unsupported by block device. Turning off DAX.",
    "device-mapper: table: 253:3: multipath: error getting device",
    "device-mapper: ioctl: error adding target to table",
    "device-mapper: stats: Invalid parameters for message @stats_x",
    "esas2r: esas2r_resume(): 0",
    "EXT4-fs (sda2): mounted filesystem with ordered data mode. Opts: (null)",
    "EXT4-fs (sda2): mounted filesystem without journal. Quota mode: none.",
    "EXT3-fs (sda2): mounted filesystem with writeback data mode",
    "EXT4-fs (dm-1): re-mounted. Opts: (null). Quota mode: none.",
    "EXT4-fs (sda1): warning: checktime reached, running e2fsck is recommended",
    "ata3.00: disabling queued TRIM support",
    "nvme nvme1: Does your device have a faulty power saving mode enabled?",
    'nvme nvme1: Try "nvme_core.default_ps_max_latency_us=0 pcie_aspm=off" and report a bug',
    "sd 4:0:0:2: [sdf] Media removed, stopped polling",
    "ses 2:0:9:0: Wrong diagnostic page; asked for 10 got 0",
    "ses 2:0:9:0: Failed to bind enclosure -19",
    "hv_storvsc 5a1b: tag#7 cmd 0x85 status: scsi 0x2 srb 0x6 hv 0xc0000001",
    "MINIX-fs: unable to read superblock",
    "hfsplus: unable to find HFS+ superblock",
    "qnx4: no qnx4 filesystem (no root dir).",
    "megaraid_sas 0000:3b:00.0: Current firmware supports maximum commands: 92\t LDIO threshold: 0",
    "UDF-fs: warning (device loop3): udf_fill_super: No partition found (2)",
    "mmc1: cannot verify signal voltage switch",
    "sdq: unknown partition table",
    "libceph: osd3 (1)10.0.0.7:6801 socket closed (con state OPEN)",
)


@pytest.mark.parametrize("text", EXAMPLES)
def test_a_whole_message_of_healthy_machines_is_no_event_at_any_level(text: str) -> None:
    """Printed at each boot, mount or plug; with one word more it is another message."""
    assert {len(severities(text, priority)) for priority in range(8)} == {0}
    assert unrecognized_driver(Classifier(), KernelLine(text, 3)) == ""
    assert severities(f"{text} and all data are lost", 2) != []


def test_each_harmless_message_has_a_reason_and_an_example() -> None:
    """A reason that nothing has would be a dead row."""
    reasons = {kernel_harmless.reason(text) for text in EXAMPLES}
    assert reasons == {why for why, _ in kernel_harmless.MESSAGES}
