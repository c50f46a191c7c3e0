"""Messages of drivers and file systems, classified by the words that they have in common."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import kernel_verdicts
from support.kernel_messages import Tree, line

from iowarden.collectors.kmsg import kernel_drivers
from iowarden.collectors.kmsg.kernel_classifier import Classifier
from iowarden.collectors.kmsg.kernel_events import classify, finish
from iowarden.collectors.kmsg.kernel_kinds import HARMLESS, KINDS, UNRECOGNIZED
from iowarden.collectors.kmsg.kernel_line import KernelLine
from iowarden.rules.events.event_table import EventTable, parse_events_file
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from iowarden.collectors.event import StorageEvent

KEPT = Path(__file__).parents[2] / "fixtures" / "kernel-messages.tsv"
"""Lines of Linux 6.12 and 6.1. Made by 'packaging/list-kernel-messages --fixture SOURCE...'."""


def told(text: str, priority: int | None = 3) -> list[StorageEvent]:
    """Return the events that patterns make of one line."""
    state, events = classify(Classifier(), KernelLine(text, priority=priority))
    return [each for each in (*events, *finish(state)) if each.kind not in UNRECOGNIZED]


@pytest.fixture(scope="module")
def table() -> EventTable:
    """Return the shipped table of events."""
    return parse_events_file(kernel_verdicts.EVENTS.read_text(), "events.yaml")


def test_messages_of_two_kernels_alarm_or_stay_quiet(table: EventTable) -> None:
    """Lost writes, dead adapters and failed arrays alert; probing, mount options, ioctls do not."""
    wrong = []
    for each in KEPT.read_text().splitlines():
        level, kind, text = each.split("\t", 2)
        severities = {e.kind: table.find(e).severity_of(e) for e in told(text, int(level))}
        loud = [k for k, s in severities.items() if s is not None and s >= Severity.WARNING]
        if (loud or ["-"])[0] != kind:
            wrong.append((kind, loud, text))
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        # an adapter by its PCI address, by its number, by its SCSI host
        (
            "qla2xxx [0000:3b:00.0]-500b:7: LOOP DOWN detected (2 7 0 0).",
            {"kind": "hba_link_down", "controller": "0000:3b:00.0"},
        ),
        (
            "mpi3mr0: controller is unrecoverable",
            {"kind": "hba_dead", "controller": "mpi3mr0"},
        ),
        (
            "mpt3sas_cm0: _base_fault_reset_work: Running mpt3sas_dead_ioc thread success !!!!",
            {"kind": "hba_dead", "controller": "mpt3sas_cm0"},
        ),
        (
            "megaraid_sas 0000:03:00.0: Reset not supported, killing adapter scsi0.",
            {"kind": "hba_dead", "controller": "0000:03:00.0"},
        ),
        (
            "scsi host7: sNIC SubSystem in Unrecoverable State.",
            {"kind": "hba_dead", "controller": "host7"},
        ),
        (
            "mptscsih: ioc0: WARNING - Issuing Reset from mptscsih_IssueTaskMgmt!! doorbell=0x24",
            {"kind": "hba_reset", "controller": "ioc0"},
        ),
        (
            "sdhci-pci 0000:3b:00.0: DLL lock timeout!",
            {"kind": "mmc_error", "controller": "0000:3b:00.0"},
        ),
        (
            "connection2:0: detected conn error (1020)",
            {"kind": "connection_error", "controller": "connection2:0"},
        ),
        # megaraid_sas: its firmware's events, whose time may hold spaces, with disk and block
        (
            (
                "megaraid_sas 0000:03:00.0: 61 (boot + 5s/0x0002/FATAL) - "
                "Unrecoverable medium error during recovery on PD 0e(e0x20/s3) at 1f4a2c0"
            ),
            {
                "kind": "hba_aen",
                "controller": "0000:03:00.0",
                "word": "FATAL",
                "place": "enclosure 32 slot 3",
                "block": 0x1F4A2C0,
            },
        ),
        (
            "megaraid_sas 0000:03:00.0: 4434 (722111s/0x0001/CRIT) - VD 00/1 is now DEGRADED",
            {"kind": "hba_aen", "place": "virtual drive 1", "block": None},
        ),
        (
            "sd 0:2:1:0: [sdb] tag#7 task abort FAILED!!",
            {"kind": "scsi_reset_failed", "device": "sdb", "place": "0:2:1:0"},
        ),
        # it may begin with any name
        (
            "dm-3: writeback error on inode 131, offset 4096, sector 2056",
            {"kind": "lost_write", "device": "dm-3", "sector": 2056},
        ),
        (
            "nvme0n1: guard tag error at sector 4096 (rcvd 1f, want 2f)",
            {"kind": "block_protection_error", "device": "nvme0n1", "sector": 4096},
        ),
        (
            "device-mapper: integrity: dm-4: Checksum failed at sector 0x3e8",
            {"kind": "dm_checksum_error", "device": "dm-4", "sector": 0x3E8},
        ),
        (
            "F2FS-fs (mmcblk0p2): Stopped filesystem due to reason: 3",
            {"kind": "fs_shutdown", "device": "mmcblk0p2"},
        ),
        (
            "JBD2: Detected IO errors while flushing file data on sdb1-8",
            {"kind": "lost_write", "device": "sdb1"},
        ),
        (
            "nfs: server backup1 not responding, still trying",
            {"kind": "nfs_not_responding", "place": "backup1"},
        ),
        (
            "CIFS: VFS: \\\\backup1 has not responded in 180 seconds. Reconnecting...",
            {"kind": "smb_not_responding", "place": "backup1"},
        ),
        (
            "drbd r0/0 drbd0: IO ERROR: neither local nor remote data, sector 16+8",
            {"kind": "network_block_failed", "device": "drbd0"},
        ),
    ],
)
def test_where_it_happened_is_taken(text: str, fields: dict[str, object]) -> None:
    """Prefixes of every format: address, number, host, bracket, connection, bare name."""
    (event,) = told(text)
    assert {name: getattr(event, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("text", "priority", "kinds"),
    [
        ("ufshcd-pci 0000:00:12.7: Unable to post the query request", 4, ["driver_message"]),
        ("ufshcd-pci 0000:00:12.7: Unable to post the query request", 6, []),
        ("ufshcd-pci 0000:00:12.7: Unable to post the query request", None, []),
        ("XFS (sdb1): xlog_unmount_write: unmount record failed", 4, ["fs_warning"]),
        ("XFS (sdb1): xlog_unmount_write: unmount record failed", 5, []),
    ],
)
def test_what_only_sounds_like_a_fault_counts_by_its_level(
    text: str, priority: int | None, kinds: list[str]
) -> None:
    """A driver's informational messages are no events, nor are lines of a file without levels."""
    assert [each.kind for each in told(text, priority)] == kinds


@pytest.mark.parametrize(
    "text",
    [
        "block nbd0: shutting down sockets",
        "megaraid_sas 0000:03:00.0: Received invalid ioctl command 0x1f",
        "BTRFS warning (device sdb1): swapfile must not be checksummed",
        "md/raid0:md0: Raid0 cannot takeover Raid10 with odd disk number.",
        "sd 7:0:1:0: [sdb] Asking for cache data failed",
        "ata4.00: HPA support seems broken, skipping HPA handling",
        "nvme nvme1: Ignoring bogus Namespace Identifiers",
        "GPT:Primary header thinks Alt. header is not at the end of the disk.",
        "hpsa 0000:3b:00.0: failed to allocate memory for the chain blocks",
        # what Debian's kernels print at each boot
        "device-mapper: core: CONFIG_IMA_DISABLE_HTABLE is disabled. Duplicate IMA measurements.",
        "nvme nvme0: missing or invalid SUBNQN field.",
        "ata1.00: READ LOG DMA EXT failed, trying PIO",
        "mpt3sas_cm0: message unit reset: SUCCESS",
        "ahci 0000:00:17.0: port does not support device sleep",
        "hv_storvsc 1b2c: tag#12 cmd 0x85 status: scsi 0x2 srb 0x6 hv 0xc0000001",
        # other drivers whose names begin alike, and the kernel's own
        "virtio_net virtio0: Failed to negotiate",
        "bnx2x 0000:3b:00.0: NIC Link is Down",
        "hv_netvsc 1b2c: hv_netvsc channel open failed",
        "xen:balloon: Cannot add additional memory",
        "usb 1-1: device descriptor read/64, error -71",
        "Unable to handle kernel NULL pointer dereference",
        "device eth0 failed to enter promiscuous mode",
    ],
)
def test_what_nothing_is_wrong_with_is_no_event(text: str) -> None:
    """A device disconnected by a user, missing features of a device, rejected commands."""
    assert told(text) == []


DRIVER = r"""
/* dev_err(&x, "never printed"); */
#define pr_fmt(fmt) "acme: " fmt
#define hba_warn(h, fmt, args...) \
    dev_warn(&(h)->pdev->dev, "%s: " fmt, (h)->name, ##args)
#define NAME "md/raid9"

static int acme_queue(struct hba *h)
{
    pr_err("queue %d " /* why */ "is stuck\n", n);
    pr_info("all is well\n");
    hba_warn(h, "target %u lost\n", id);
    printk(KERN_CRIT NAME ":%s: Disk failure on %pg\n",
           mdname(mddev), rdev->bdev);
}
"""


def tree(path: Path, text: str) -> Path:
    """Create a kernel source tree with one driver."""
    folder = path / "drivers" / "scsi"
    folder.mkdir(parents=True)
    (folder / "acme.c").write_text(text)
    (folder / "Makefile").write_text("obj-$(CONFIG_SCSI_ACME) += acme.o\n")
    return path


def test_messages_are_read_from_a_drivers_source(tmp_path: Path) -> None:
    """Through macros, over comments and joined strings; informational messages are left out."""
    found = [
        (each.function, each.level, line(each)) for each in Tree(tree(tmp_path, DRIVER)).messages()
    ]
    assert found == [
        ("acme_queue", 3, "acme: queue 12 is stuck"),
        ("acme_queue", 4, "acme 0000:3b:00.0: x0: target 12 lost"),
        ("acme_queue", 2, "md/raid9:md0: Disk failure on sdb1"),
    ]


def test_a_message_that_nobody_judged_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A driver of a later kernel: the exit status is 1 and the line is named."""
    text = """
static int acme_ioctl(void)
{
    pr_warn("aacraid: invalid ioctl\\n");
    pr_err("aacraid: adapter is dead\\n");
}
static int acme_queue(void)
{
    pr_warn("BTRFS error (device %s): x is already mounted\\n", sb->s_id);
    pr_err("aacraid: surprise, not supported\\n");
}
"""
    path = tree(tmp_path, text)
    outcomes = {each.line: each.outcome for each in kernel_verdicts.verdicts(path)}
    assert outcomes == {
        "aacraid: invalid ioctl": "exempt",
        "aacraid: adapter is dead": "row",
        "BTRFS error (device sdb1): x is already mounted": "left",
        "aacraid: surprise, not supported": "counted",
    }
    assert kernel_verdicts.main([str(path)]) == 1
    assert "left\tdrivers/scsi/acme.c\tacme_queue" in capsys.readouterr().out


def test_a_tree_without_drivers_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong path must not look like a complete result."""
    assert kernel_verdicts.main([str(tmp_path)]) == 2
    assert "expected trees of Linux" in capsys.readouterr().err


def test_every_kind_that_words_give_is_a_kind() -> None:
    """A row with a misspelt kind would create events of an unknown kind."""
    rooms = [room.rows for room in kernel_drivers._PRINTERS]
    kinds = {kind for rows in rooms for _, kind in rows}
    assert kinds - {HARMLESS} <= KINDS.keys()
