"""Error lines that no pattern takes: which of them storage printed, by the grammar of the line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.kmsg import kernel_log, storage_drivers
from iowarden.collectors.kmsg.kernel_classifier import Classifier
from iowarden.collectors.kmsg.kernel_events import classify, finish, unrecognized_driver
from iowarden.collectors.kmsg.kernel_kinds import UNRECOGNIZED
from iowarden.collectors.kmsg.kernel_line import KernelLine, parse_record
from iowarden.collectors.kmsg.kernel_log import MAX_SHAPES, Fold

if TYPE_CHECKING:
    from conftest import MachineMaker

    from iowarden.collectors.event import StorageEvent

MESSAGES = Path(__file__).parents[2] / "fixtures" / "kernel-messages.tsv"
NAMES = [name for names in storage_drivers._NAMES.values() for name in names.split()]
NAMELESS = frozenset(
    (
        "**** 00000000a1b2c3d4 [0000:3b:00.0]:[:12]:7: Error, Busy Can't Cannot Error FAILED"
        " FATAL: Fail Failed GetEntries HIO Huh? Internal Invalid Max RPC ULP_STOP Unable"
        " [x]:[x:12]:12: assertion bnx2i, bl_set_layoutdriver: cannot cid could dev_id error"
        " failed fip fm93c56a_select: gss_pipe_downcall: i_nlink=12 invalid kmpath_rdacd"
        " mptctlx::mptctl_ioctl() no panic queue_state_write: rz1000 sb_info sdb1 size swapon:"
        " x x:"
    ).split()
)
"""First words of messages that name no driver: they could be anybody's, and belong to nobody."""


def events(text: str, priority: int | None = 3, **fields: str) -> list[StorageEvent]:
    """Return the events of a record."""
    state, found = classify(Classifier(), KernelLine(text, priority, **fields))
    return [*found, *finish(state)]


@pytest.mark.parametrize(
    ("text", "driver", "place"),
    [
        # pr_fmt, dev_printk, and the forms that some drivers have of their own
        ("libceph: mon0 (1)10.0.0.5:6789 unusual", "libceph", "libceph"),
        ("rbd: rbd0: encountered a surprise", "rbd", "rbd0"),
        ("hpsa 0000:03:00.0: Acknowledging event: 0x40000032", "hpsa", "0000:03:00.0"),
        ("smartpqi 0000:5c:00.0: surprise 3", "smartpqi", "0000:5c:00.0"),
        ("mpi3mr0: surprise 0x1f", "mpi3mr", "mpi3mr0"),
        ("mpt3sas_cm0: surprise 0x1f", "mpt3sas", "mpt3sas_cm0"),
        ("lpfc 0000:05:00.0: 0:(0):0748 surprise Data: x1", "lpfc", "0000:05:00.0"),
        ("qla2xxx [0000:05:00.0]-d04c:7: surprise.", "qla2xxx", "0000:05:00.0"),
        ("[0000:3b:00.0]:[qedf_initiate_abts:12]:7: stale rport", "qedf", "0000:3b:00.0"),
        ("3w-sas: scsi6: surprise", "3w_sas", "3w-sas"),
        ("sd 7:0:1:0: [sdb] surprise", "sd", "sdb"),
        ("sd 7:0:1:0: emc: surprise", "sd", "7:0:1:0"),
        ("scsi host7: surprise", "scsi", "host7"),
        ("host12: libfc: surprise", "scsi", "host12"),
        ("ata4.00: surprise", "ata", "ata4.00"),
        ("st 2:0:0:0: [st0] surprise", "st", "st0"),
        ("bnx2i - cid 0x1f surprise", "bnx2i", "bnx2i"),
        ("nvme nvme1: surprise, qid 12", "nvme", "nvme1"),
        ("nvme1n1: surprise", "block", "nvme1n1"),
        ("md/raid1:md0: surprise", "md", "md0"),
        ("device-mapper: thin: 253:4: surprise", "dm", "dm"),
        ("bcache: bch_btree_verify() surprise", "bcache", "bcache"),
        ("mmc0: surprise", "mmc", "mmc0"),
        ("usb-storage 1-1:1.0: surprise", "usb_storage", "usb_storage"),
        ("uas 1-2:1.0: surprise", "uas", "uas"),
        ("connection1:0: surprise", "iscsi", "connection1:0"),
        ("block nbd3: surprise", "block", "nbd3"),
        ("virtio_blk virtio1: [vda] surprise", "virtio_blk", "vda"),
        ("blkfront: xvda: surprise", "xen_blkfront", "xvda"),
        ("nd_pmem namespace0.0: surprise", "nd", "nd"),
        ("dasd-eckd.adb621: 0.0.1234: surprise", "dasd", "dasd-eckd.adb621"),
        ("zfcp.e00a3d: 0.0.fc00: surprise", "zfcp", "zfcp"),
        # file systems
        ("XFS (dm-0): surprise", "xfs", "dm-0"),
        ("EXT4-fs (sda1): surprise", "ext4", "sda1"),
        ("FAT-fs (sdc1): surprise", "fat", "sdc1"),
        ("SQUASHFS: surprise", "squashfs", "squashfs"),
        ("bcachefs (sdc1): surprise", "bcachefs", "sdc1"),
        ("bcachefs (sdc1 sector 12): surprise", "bcachefs", "sdc1"),
        ("bcachefs (sdc1 inum 12 offset 8): surprise", "bcachefs", "sdc1"),
        ("NILFS (sdb1): surprise", "nilfs2", "sdb1"),
        ("OCFS2: (device sdb1): surprise", "ocfs2", "sdb1"),
        # its mlog: program, number, processor, function, line
        ("(mount.ocfs2,1234,0):ocfs2_journal_load:1147 ERROR: surprise", "ocfs2", "ocfs2"),
        ("(kworker/u8:1,77,3):o2net_idle_timer:1574 ERROR: surprise", "ocfs2", "ocfs2"),
        ("UBIFS warning (ubi0:0 pid 1): surprise", "ubifs", "ubifs"),
        ("ceph: [0f70219b]: surprise", "ceph", "ceph"),
        ("RPC: surprise", "sunrpc", "sunrpc"),
        # OpenZFS, without a driver's name
        ("SPLError: 1234:(zio.c:315:zio_done()) surprise", "zfs", "zfs"),
    ],
)
def test_an_error_that_no_pattern_takes_is_an_event_of_its_driver(
    text: str, driver: str, place: str
) -> None:
    """One line of each form: pr_fmt, dev_printk, brackets, the prefixes of file systems."""
    (event,) = events(text)
    where = event.device or event.controller
    assert (event.kind, event.code, where) == ("unrecognized_error", driver, place)


@pytest.mark.parametrize("name", NAMES)
def test_every_driver_of_the_table_is_recognized_in_each_spelling(name: str) -> None:
    """By pr_fmt, as a device's driver, with a number, with dashes, in capitals, as a family."""
    forms = (
        f"{name}: flux 7",
        f"{name} 0000:3b:00.0: flux 7",
        f"{name}{'' if name[-1].isdigit() else 0}: flux 7",
        f"{name.replace('_', '-')}: flux 7",
        f"{name.upper()}: flux 7",
        f"{name}_new 0000:3b:00.0: flux 7",
    )
    assert [text for text in forms if not storage_drivers.driver_of(KernelLine(text), text)] == []


@pytest.mark.parametrize(
    "text",
    [
        "mlx5_core 0000:3b:00.0: firmware failed",
        "bnx2x 0000:3b:00.0: surprise",
        "cxgb4 0000:3b:00.0: surprise",
        "virtio_net virtio0: surprise",
        "i915 0000:00:02.0: [drm] *ERROR* GPU HANG",
        "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        "nvmem: surprise",
        "usb 1-1: device descriptor read/64, error -71",
        "pcieport 0000:00:1c.0: can't find device of ID00e5",
        "EDAC MC0: 1 UE memory read error on CPU_SrcID#0",
        "systemd[1]: sda: surprise",
        "scsi",
        "blkid said nothing",
        "a program named sd 0:0:0:0: surprise",
        "IPv6: ADDRCONF(NETDEV_UP): eth0: link is not ready",
        "sr 1:0:0:0: surprise",
        "floppy0: surprise",
        "WARNING: CPU: 3 PID: 12 at fs/btrfs/inode.c:12 btrfs_x",
        "WARNING: the pool of threads is empty",
    ],
)
def test_lines_of_others_never_count(text: str) -> None:
    """Network and graphics drivers, buses, floppy and tape drives, the kernel itself."""
    assert events(text, 2) == []


def test_what_a_program_writes_to_the_log_is_nobodys_line() -> None:
    """Facility 1: the prefix is forged."""
    line = KernelLine("mpi3mr0: controller gone for good", 2, facility=1)
    assert classify(Classifier(), line)[1] == ()
    assert unrecognized_driver(Classifier(), line) == ""


@pytest.mark.parametrize(
    ("subsystem", "device", "drivers"),
    [
        ("scsi", "+scsi:7:0:1:0", ["scsi"]),
        ("nvme", "c238:0", ["nvme"]),
        ("block", "b8:0", ["block"]),
        ("pci", "+pci:0000:3b:00.0", []),  # a bus of all kinds: the driver's name is not storage's
        ("net", "n2", []),
        ("drm", "+drm:card0", []),
    ],
)
def test_the_records_subsystem_decides_where_the_name_does_not(
    subsystem: str, device: str, drivers: list[str]
) -> None:
    """A driver that is in no table, as a vendor's own."""
    record = f"3,7,1000000,-;rr3740a 0000:3b:00.0: surprise\n SUBSYSTEM={subsystem}\n"
    line = parse_record(f"{record} DEVICE={device}\n".encode())
    assert [event.code for event in classify(Classifier(), line)[1]] == drivers


def test_a_network_device_never_counts_whatever_its_lines_begin_with() -> None:
    """A name of the table, and SUBSYSTEM=net."""
    assert events("scsi 1: surprise", subsystem="net", device="n2") == []


def test_the_drivers_of_this_machines_scsi_hosts_count_also_out_of_tree(
    machine: MachineMaker,
) -> None:
    """Their names are in sysfs; '(null)' is the name of a driver that gives none."""
    host = "/sys/class/scsi_host/host"
    root = machine({f"{host}0/proc_name": "rr3740a\n", f"{host}1/proc_name": "(null)\n"})
    drivers = storage_drivers.host_drivers(root)
    assert drivers == {"rr3740a"}
    line = KernelLine("rr3740a 0000:3b:00.0: surprise", 3)
    assert classify(Classifier(), line)[1] == ()
    (event,) = classify(Classifier(host_drivers=drivers), line)[1]
    assert (event.code, event.controller) == ("rr3740a", "0000:3b:00.0")


@pytest.mark.parametrize(
    ("priority", "kinds"),
    [
        (0, ["unrecognized_critical"]),
        (2, ["unrecognized_critical"]),
        (3, ["unrecognized_error"]),
        (4, []),
        (6, []),
        (None, []),
    ],
)
def test_the_level_decides_how_bad_it_is(priority: int | None, kinds: list[str]) -> None:
    """A warning is none; nor is a line of a text file without levels."""
    assert [event.kind for event in events("mpi3mr0: surprise", priority)] == kinds


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("hpsa 0000:03:00.0: odd {}", "0000:03:00.0"),
        ("megaraid_sas 0000:01:00.0: odd {} 5", "0000:01:00.0"),
        ("nvme nvme1: odd {} 5", "nvme1"),
        ("block nvme1n1: odd {} - surprise", "nvme1n1"),
        ("sd 7:0:1:0: [sdb] odd {}", "sdb"),
        ("ata4.00: odd {}", "ata4.00"),
        ("md/raid1:md0: odd {}", "md0"),
        ("drbd r0/0 drbd7: odd {}", "drbd7"),
        ("connection1:0: odd {}", "connection1:0"),
        ("ahd0: odd {}", "ahd0"),
        ("MaxRAID: odd {}", "pmcraid"),
        ("IBLOCK: odd {}", "target"),
        ("EXT4-fs (sda1): odd {}", "sda1"),
        ("XFS (dm-0): odd {}", "dm-0"),
        ("F2FS-fs (sda1): odd {}", "sda1"),
        ("JBD2: odd {} on sda1-8", "sda1"),
    ],
)
@pytest.mark.parametrize("word", ["flux", "failure", "timeout", "is full", "busy", "unable"])
@pytest.mark.parametrize(
    ("priority", "kind"), [(1, "unrecognized_critical"), (3, "unrecognized_error")]
)
def test_a_line_with_a_word_of_a_fault_counts_for_no_less_than_one_without(
    text: str, place: str, word: str, priority: int, kind: str
) -> None:
    """Such a word makes no line known: its level decides, and its object stays."""
    (event,) = events(text.format(word), priority)
    where = event.device or event.controller
    if event.kind == kind:
        assert event.code
        assert where == place or word == "flux"
    else:  # a pattern of the driver knows it
        assert event.kind not in {"driver_message", "fs_warning", *UNRECOGNIZED}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Pool 'tank' was suspended and is being resumed.", "unrecognized_error"),
        ("Pool 'tank' surprise", "unrecognized_error"),
    ],
)
def test_zfs_prints_its_errors_as_warnings(text: str, kind: str) -> None:
    """cmn_err(CE_WARN): an error of a pool is KERN_WARNING."""
    assert [(e.kind, e.code) for e in events(f"WARNING: {text}", 4)] == [(kind, "zfs")]


def test_a_notice_of_zfs_is_no_error() -> None:
    """cmn_err(CE_NOTE)."""
    assert events("NOTICE: Pool 'tank' is fine", 5) == []


@pytest.mark.parametrize(
    "text",
    [
        "sd 7:0:1:0: [sdb] No Caching mode page found",
        "EXT4-fs (sdb1): couldn't mount as ext3 due to feature incompatibilities",
        "Buffer I/O error on dev fd0, logical block 0",
        "blk_update_request: I/O error, dev fd0, sector 0",
        "UDF-fs: error (device sr0): surprise",
    ],
)
def test_what_a_pattern_takes_as_harmless_is_recognized(text: str) -> None:
    """A reason is known why it is no event."""
    assert events(text) == []


def test_details_of_an_ata_exception_are_no_lines_of_their_own() -> None:
    """They follow it until the port's error handling ends."""
    state, kinds = Classifier(), []
    for text in (
        "ata4.00: exception Emask 0x10 SAct 0x0 SErr 0x400000 action 0x6 frozen",
        "ata4.00: irq_stat 0x08000000, interface fatal",
        "ata4: EH complete",
        "ata4.00: irq_stat 0x08000000",
    ):
        state, found = classify(state, KernelLine(text, 3))
        kinds += [event.kind for event in found]
    assert kinds == ["ata_exception", "unrecognized_error"]


def test_a_line_between_a_sense_and_its_command_does_not_part_them() -> None:
    """The sense waits for its command's block, whoever prints meanwhile."""
    state, kinds = Classifier(), []
    for text in (
        "sd 0:0:1:0: [sdb] tag#7 Sense Key : Medium Error [current]",
        "sd 0:0:1:0: [sdb] tag#7 Add. Sense: Unrecovered read error",
        "libceph: surprise",
        "sd 0:0:1:0: [sdb] tag#7 CDB: Read(10) 28 00 00 00 00 08 00 00 08 00",
    ):
        state, found = classify(state, KernelLine(text, 3, monotonic_seconds=1.0))
        kinds += [event.kind for event in found]
    assert kinds[0] == "unrecognized_error"
    assert kinds[1:] == ["scsi_medium_error", "scsi_additional_sense", "scsi_cdb"]


def test_every_error_of_the_kernels_sources_is_an_event_exempt_counted_or_nameless() -> None:
    """A driver or a form that the grammar does not know would show here."""
    lost = []
    for each in MESSAGES.read_text().splitlines():
        level, _, text = each.split("\t", 2)
        line = KernelLine(text, int(level))
        if line.priority is None or line.priority > storage_drivers.ERROR or not text.strip():
            continue
        if classify(Classifier(), line)[1] or text.split()[0] in NAMELESS:
            continue
        # A pattern took it as harmless, or it is lost: then it would count with a prefix.
        plain = KernelLine(f"libceph: {text}", line.priority)
        if unrecognized_driver(Classifier(), plain) and not storage_drivers.driver_of(line, text):
            lost.append(text)
    assert lost == []


@given(st.text(max_size=120), st.integers(0, 7))
def test_any_text_is_a_line(text: str, priority: int) -> None:
    """Nothing that the kernel can print raises, or is an event without a driver."""
    for event in events(text, priority):
        assert event.kind not in UNRECOGNIZED or event.code


def test_a_storm_of_unknown_lines_is_bounded_and_hides_no_other_line() -> None:
    """100,000 lines of one message, in their midst one of another driver."""
    fold = Fold()
    (line,) = events("mpi3mr0: surprise 7", 2)
    (other,) = events("mpi3mr0: something else", 2)
    for number in range(100_000):
        fold.add(other if number == 50_000 else line)
    assert fold.unrecognized == {("mpi3mr", "critical"): 100_000}
    found = fold.events(lambda event: event)
    assert len(found) == kernel_log.FIRST_EVENTS + kernel_log.LAST_EVENTS + 1
    assert other in found


def test_lines_of_endless_shapes_are_counted_and_few_are_passed_on() -> None:
    """A driver that prints words at random."""
    fold = Fold()
    for number in range(100, 1100):
        word = "".join(chr(ord("z") - int(digit)) for digit in str(number))
        fold.add(*events(f"mpi3mr0: {word}"))
    assert fold.unrecognized["mpi3mr", "error"] == 1000
    assert len(fold.line_by_shape) == MAX_SHAPES
    assert len(fold.events(lambda event: event)) <= MAX_SHAPES + kernel_log.LAST_EVENTS
