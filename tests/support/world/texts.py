"""Tier B: what the kernel shows when a layer fails: its lines, counters and files, with delays.

Each behaviour is written from the source of Linux 6.12; the place of each line is in printk.tsv.
An act is something that happens to the host at a time; who plays a story makes files of it.
Units: seconds from the beginning of the story.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from support.world import printk
from support.world.machine import Builder, Layer, Machine, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    from support.world.printk import Printed

FOREVER = math.inf
TIMEOUT_SECONDS = 30.0
"""drivers/scsi/sd.h, SD_TIMEOUT; drivers/nvme/host/core.c, nvme_io_timeout."""
MOST_DISKS = 8
FIRST_MAP = 20
"""Number of the first multipath map, after those of LVs."""


@dataclass(frozen=True)
class Says:
    """The kernel prints lines."""

    lines: tuple[Printed, ...]


@dataclass(frozen=True)
class Stands:
    """Disks complete nothing, with requests in flight."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class GoesOn:
    """They complete again."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Leaves:
    """Disks are removed from /sys, and from the arrays, with the kernel's lines."""

    names: tuple[str, ...]
    lines: tuple[Printed, ...]


@dataclass(frozen=True)
class Offline:
    """A SCSI disk is set offline."""

    name: str


@dataclass(frozen=True)
class Faulty:
    """An array does without a member that is still there."""

    array: str
    disk: str


@dataclass(frozen=True)
class Breaks:
    """An array has too few members."""

    array: str


@dataclass(frozen=True)
class Counts:
    """The error counts of a device of a btrfs file system: its number from 1, and the counts."""

    mount: str
    number: int
    counts: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class ReadOnly:
    """A file system is mounted read-only."""

    mount: str


Act = Says | Stands | GoesOn | Leaves | Offline | Faulty | Breaks | Counts | ReadOnly


@dataclass
class Story:
    """What happens to a host, and what a mail about it may be titled with.

    Fields: `right` are the right objects from a time on; `well_at` is when all is as before;
    `may_be_silent`: it need not be mailed.
    """

    seed: int
    machine: Machine
    random: Random
    what: str = "healthy"
    layer: str = ""
    seconds: float = 300.0
    acts: list[tuple[float, Act]] = field(default_factory=list)
    right: list[tuple[float, frozenset[str]]] = field(default_factory=list)
    well_at: float = 0.0
    lost: dict[str, float] = field(default_factory=dict)
    """Disks that do not serve any more, since when."""
    may_be_silent: bool = False
    restart: tuple[float, float] | None = None
    """When iowarden is restarted, and for how long it does not run."""

    def at(self, when: float, *acts: Act) -> None:
        """Let acts happen."""
        self.acts += [(when, act) for act in acts]

    def says(self, when: float, *lines: Printed) -> None:
        """Let the kernel print lines."""
        self.at(when, Says(lines))

    def between(self, low: float, high: float) -> float:
        """Return a random time."""
        return self.random.uniform(low, high)

    def address(self, name: str) -> str:
        """Return the SCSI address of a disk or path."""
        host = self.machine.adapter_of(name)
        below = [n for n in self.machine.nodes if n in self._disks(host)]
        return f"{host.removeprefix('host')}:0:{below.index(name)}:0"

    def _disks(self, host: str) -> set[str]:
        layers = (Layer.DISK, Layer.PATH)
        return {n for n in self.machine.carried(host) if self.machine.nodes[n].layer in layers}


# Lines of one request


def block_error(story: Story, name: str, *, write: bool = True, status: str = "I/O") -> Printed:
    """block/blk-mq.c, blk_print_req_error."""
    sector = story.random.randrange(2048, 1 << 30)
    op = (1, "WRITE", 0x800) if write else (0, "READ", 0x80700)
    return printk.line("block_error", status, name, sector, *op, 1, 2)


def failed_command(story: Story, name: str, host: str, *, write: bool = True) -> list[Printed]:
    """drivers/scsi/scsi_logging.c, scsi_print_result and scsi_print_command; the block layer."""
    before = printk.sd(story.address(name), name, story.random.randrange(1, 900))
    opcode, data = ("Write(16)", "8a 00") if write else ("Read(16)", "88 00")
    return [
        printk.line("result", "FAILED", host, story.random.randrange(1, 90), before=before),
        printk.line(
            "cdb", opcode, f"{data} 00 00 00 00 3a 38 2c 10 00 00 00 08 00 00", before=before
        ),
        block_error(story, name, write=write),
    ]


# Disks


def stops_answering(story: Story, name: str, at: float, length: float) -> None:
    """A disk stops answering, and goes on; from the first time-out on its SCSI host waits.

    drivers/scsi/mpt3sas/mpt3sas_scsih.c, scsih_abort; scsi_error.c, scsi_eh_scmd_add
    (SHOST_RECOVERY) and scsi_block_when_processing_errors. NVMe: nvme/host/pci.c, nvme_timeout;
    SATA: libata-eh.c, ata_eh_link_report and ata_eh_reset.
    """
    role = story.machine.nodes[name].role
    story.at(at, Stands((name,)))
    story.at(at + length, GoesOn((name,)))
    story.right = [(at, frozenset((name,)))]
    story.well_at = at + length
    timeout = at + TIMEOUT_SECONDS
    if length <= TIMEOUT_SECONDS:
        return
    if role == "sas":
        command = f"00000000{story.random.randrange(1 << 32):08x}"
        before = printk.sdev(story.address(name))
        story.says(timeout, printk.line("task_abort", command, 30_040, 30_000, before=before))
        end = printk.line("task_abort_end", "SUCCESS", command, before=before)
        story.says(at + length - 1.0, end)
        _host_waits(story, name, timeout + 1.0, at + length)
    elif role == "sata":
        ata_error(story, name, timeout)
        port = port_of(story, name)
        up = printk.line("link_up", "6.0 Gbps", 0x133, 0x300, before=printk.link(port))
        ready = printk.line("configured", "UDMA/133", "", before=printk.ata(port))
        done = printk.line("ata_complete", before=printk.link(port))
        story.says(at + length - 1.0, up, ready, done)
    elif role == "nvme":
        before = printk.nvme(name)
        tag = (12, 0x100C, 2, "Read", 3)
        story.says(timeout, printk.line("nvme_timeout", *tag, "READ", 0, 4096, before=before))
        story.says(timeout + 0.1, printk.line("nvme_abort", 0, before=before))
        if length > 2 * TIMEOUT_SECONDS:
            story.says(timeout + 30.0, printk.line("nvme_reset", *tag, before=before))
            story.says(at + length - 1.0, printk.line("nvme_queues", 8, 0, 0, before=before))


def _host_waits(story: Story, name: str, at: float, end: float) -> None:
    """The other disks of the SCSI host wait while it handles an error."""
    host = story.machine.adapter_of(name)
    others = tuple(other for other in story.machine.disks_of(host) if other != name)
    if others and end > at:
        story.at(at, Stands(others))
        story.at(end, GoesOn(others))


def never_times_out(story: Story, name: str, at: float, length: float) -> None:
    """A virtual disk has no time-out: its requests wait, and tasks are reported as hung.

    drivers/block/virtio_blk.c, virtio_mq_ops: no .timeout; kernel/hung_task.c, watchdog: a task is
    reported when it has waited for one to two of its time-outs of 120 s.
    """
    stops_answering(story, name, at, length)
    reported = at + story.between(121.0, 240.0)
    story.seconds = at + length + 60.0
    if reported < at + length:
        story.says(reported, printk.line("hung_task", "writer", 4711, 122))


def is_offlined(story: Story, name: str, at: float, _: float) -> None:
    """Error handling fails step by step, the whole host waits, the disk is set offline.

    drivers/scsi/scsi_error.c, scsi_eh_ready_devs: device, target, bus, host reset, then offline;
    mpt3sas_scsih.c, scsih_dev_reset, scsih_target_reset, scsih_host_reset.
    """
    host = int(story.machine.adapter_of(name).removeprefix("host"))
    address, before = story.address(name), printk.sdev(story.address(name))
    command = f"00000000{story.random.randrange(1 << 32):08x}"
    story.at(at, Stands((name,)))
    when = at + TIMEOUT_SECONDS
    story.says(when, printk.line("task_abort", command, 30_040, 30_000, before=before))
    _host_waits(story, name, when + 1.0, when + 45.0)
    for step, head in (
        ("task_abort", before), ("device_reset", before), ("target_reset", printk.starget(address)),
    ):  # fmt: skip
        if step != "task_abort":
            story.says(when, printk.line(step, command, before=head))
        when += 10.0
        story.says(when, printk.line(f"{step}_end", "FAILED", command, before=head))
    ioc = printk.ioc(host)
    story.says(when, printk.line("host_reset", command, before=ioc))
    story.says(when + 0.5, printk.line("diag_reset", before=ioc))
    story.says(when + 8.0, printk.line("diag_reset_success", before=ioc))
    story.says(when + 9.0, printk.line("host_reset_end", "SUCCESS", command, before=ioc))
    end = when + 15.0
    story.says(
        end, printk.line("offlined", before=before), *failed_command(story, name, "DID_TIME_OUT")
    )
    story.at(end, GoesOn((name,)), Offline(name))
    reject = printk.line("reject_offline", before=before)
    story.says(end + 0.1, reject, block_error(story, name))
    story.right = [(at, frozenset((name,)))]
    story.well_at = FOREVER
    lose(story, (name,), end, is_there=True)


def is_pulled(story: Story, name: str, at: float, _: float) -> None:
    """A disk is pulled. mpt3sas_scsih.c, _scsih_remove_device; sd.c, sd_shutdown."""
    story.right = [(at, frozenset((name,)))]
    story.well_at = FOREVER
    story.at(at, Leaves((name,), tuple(removal(story, name))))
    lose(story, (name,), at)


def members_are_pulled(story: Story, array: str, at: float, length: float) -> None:
    """Members of one array are pulled, one after the other; with the last it stops."""
    node = story.machine.nodes[array]
    names = list(node.carriers)
    story.random.shuffle(names)
    when = at
    for count, name in enumerate(names[: node.spare + 1], 1):
        story.at(when, Leaves((name,), tuple(removal(story, name))))
        lose(story, (name,), when)
        parents = set(story.machine.below(name)) if count > 1 else set()
        story.right.append((when, frozenset((*names[:count], *parents, array))))
        when += length / 4
    story.well_at, story.seconds = FOREVER, when + 120.0


def removal(story: Story, name: str) -> list[Printed]:
    """Return what is printed of a disk that is removed.

    Of an NVMe or virtio disk nothing: nvme/host/pci.c, nvme_remove; block/virtio_blk.c,
    virtblk_remove.
    """
    node = story.machine.nodes[name]
    if not story.machine.adapter_of(name):
        return []
    address = story.address(name)
    before = printk.sd(address, name)
    flush = [
        printk.line("sync_cache", before=before),
        printk.line("sync_failed", "DID_NO_CONNECT", "DRIVER_OK", before=before),
    ]
    if node.role == "sata":
        port = port_of(story, name)
        return [
            printk.line("link_down", 0, 0x300, before=printk.link(port)),
            printk.line("ata_disable", before=printk.ata(port)),
            printk.line("detaching", address, before=printk.ata(port)),
            *flush,
        ]
    host, handle = int(address.split(":")[0]), 9 + int(address.split(":")[2])
    sas = 0x5000C500A0B00001 + 4 * handle
    ioc = printk.ioc(host)
    return [
        *flush,
        printk.line("port_removed", "mpt3sas_transport_port_remove", sas, before=ioc),
        printk.line("removing", handle, sas, before=ioc),
    ]


def link_is_lost(story: Story, name: str, at: float, _: float) -> None:
    """A SATA link is lost: resets, then the disk is disabled and detached.

    drivers/ata/libata-eh.c, ata_eh_reset_timeouts: 10, 10, 35, 5 s; ata_eh_detach_dev.
    """
    port = port_of(story, name)
    story.at(at, Stands((name,)))
    when = at + story.between(1.0, 8.0)
    ata_error(story, name, when)
    for wait in (10.0, 10.0, 35.0):
        story.says(when, printk.line("ata_reset", "hard", before=printk.link(port)))
        slow = printk.line("link_slow", -19, before=printk.link(port))
        story.says(when + 5.5, slow)
        when += wait
        down = printk.line("link_down", 0x1, 0x300, before=printk.link(port))
        story.says(when, down)
    story.says(when + 0.5, printk.line("ata_give_up", before=printk.link(port)))
    gone = when + 1.0
    story.at(gone, GoesOn((name,)), Leaves((name,), tuple(removal(story, name))))
    story.says(gone + 0.2, block_error(story, name))
    story.right = [(at, frozenset((name,)))]
    story.well_at = FOREVER
    lose(story, (name,), gone)


def port_of(story: Story, name: str) -> int:
    """Return the number of a SATA disk's port: that of its SCSI host, from 1."""
    return int(story.machine.adapter_of(name).removeprefix("host")) + 1


def ata_error(story: Story, name: str, at: float) -> None:
    """drivers/ata/libata-eh.c, ata_eh_link_report."""
    before = printk.ata(port_of(story, name))
    story.says(
        at,
        printk.line("ata_exception", 0, 0x8000, 0x4090000, 0xE, " frozen", "", before=before),
        printk.line("ata_command", "READ FPDMA QUEUED", before=before),
        printk.line("ata_status", "DRDY ", "", "", "", "", before=before),
    )


def nvme_is_removed(story: Story, name: str, at: float, _: float) -> None:
    """Time-outs, a reset that fails, removal.

    nvme/host/pci.c, nvme_timeout, nvme_reset_work; core.c, nvme_wait_ready. The order is the
    recorded one: the reset ends what was to be aborted, before it waits for the controller.
    """
    before, tag = printk.nvme(name), (12, 0x100C, 2, "Read", 3)
    story.at(at, Stands((name,)))
    when = at + TIMEOUT_SECONDS
    story.says(when, printk.line("nvme_timeout", *tag, "READ", 0, 4096, before=before))
    story.says(when + 30.0, printk.line("nvme_reset", *tag, before=before))
    dead = when + 30.0 + story.between(5.0, 40.0)
    story.says(
        dead,
        printk.line("nvme_abort", 0x371, before=before),
        printk.line("nvme_not_ready", "initialisation", 0, before=before),
        printk.line("nvme_disabled", -19, before=before),
        block_error(story, name),
    )
    story.at(dead + 0.5, GoesOn((name,)), Leaves((name,), ()))
    story.right = [(at, frozenset((name,)))]
    story.well_at = FOREVER
    lose(story, (name,), dead + 0.5)


def cannot_read(story: Story, name: str, at: float, length: float) -> None:
    """Medium errors: sense and block line of one fact; a member of md is rewritten.

    scsi_logging.c, scsi_io_completion_action; raid1.c, fix_read_error; raid5.c,
    raid5_end_read_request.
    """
    above = [story.machine.nodes[other] for other in story.machine.direct(name)]
    when = at
    while when <= at + min(length, 60.0):
        sector = story.random.randrange(4096, 1 << 30)
        lines = []
        if name.startswith("sd"):
            head = printk.sd(story.address(name), name, 17)
            lines = [
                printk.line("result", "FAILED", "DID_OK", 3, before=head),
                printk.line("sense_key", "Medium Error", before=head),
                printk.line("add_sense", "Unrecovered read error", before=head),
                printk.line("cdb", "Read(10)", "28 00 00 06 40 00 00 00 08 00", before=head),
            ]
        lines.append(
            printk.line("block_error", "critical medium", name, sector, 0, "READ", 0, 1, 2)
        )
        for node in above:
            if node.role.startswith("raid"):
                form = f"{'raid5' if node.role == 'raid6' else node.role}_corrected"
                lines.append(printk.line(form, node.name, 8, sector - 2048, part(name)))
        story.says(when, *lines)
        when += story.between(5.0, 30.0)
    story.right = [(at, frozenset((name,)))]
    story.well_at = FOREVER


# What many disks share


def adapter_faults(story: Story, host: str, at: float, length: float) -> None:
    """The firmware stops: all disks wait; a reset, then they go on or leave.

    mpt3sas_base.c, _base_fault_reset_work, once a second; _base_diag_reset.
    """
    disks = tuple(story.machine.disks_of(host))
    ioc = printk.ioc(int(host.removeprefix("host")))
    story.at(at, Stands(disks))
    noticed = at + story.between(0.5, 3.0)
    code = story.random.choice((0x5854, 0x0D04, 0x2100))
    story.says(noticed, printk.line("fault_state", code, before=ioc))
    story.says(noticed + 0.1, printk.line("diag_reset", before=ioc))
    story.right = [(at, frozenset((host, *disks))), (noticed + 2.0, frozenset((host,)))]
    end = noticed + min(length, 60.0)
    if story.random.random() < 0.5:
        story.says(end, printk.line("diag_reset_success", before=ioc))
        story.at(end + 1.0, GoesOn(disks))
        story.well_at = end + 1.0
        return
    story.says(end, printk.line("diag_reset_failed", before=ioc))
    story.well_at = FOREVER
    story.at(end + 1.0, GoesOn(disks))
    lines = [each for name in disks for each in removal(story, name)]
    story.at(end + 1.5, Leaves(disks, tuple(lines)))
    lose(story, disks, end + 1.5)


def shelf_leaves(story: Story, expander: str, at: float, _: float) -> None:
    """A shelf leaves: its disks within a second, or one after the other.

    mpt3sas_scsih.c, _scsih_expander_node_remove: the disks first, then 'expander_remove'.
    """
    host = story.machine.nodes[expander].carriers[0]
    disks = story.machine.disks_of(expander)
    step = 0.0 if story.random.random() < 0.5 else story.between(1.0, 15.0)
    number = int(host.removeprefix("host"))
    end = printk.line("expander_remove", 9, 0x500304801E9A7C3F, 0, before=printk.ioc(number))
    story.well_at = FOREVER
    if not step:
        lines = [each for name in disks for each in removal(story, name)]
        story.at(at, Leaves(tuple(disks), (*lines, end)))
        story.right = [(at, frozenset((expander, host)))]
        lose(story, disks, at)
        return
    when = at
    for count, name in enumerate(disks, 1):
        story.at(when, Leaves((name,), tuple(removal(story, name))))
        lose(story, (name,), when)
        single = frozenset(disks[:count]) if count < 3 else frozenset()
        story.right.append((when, single | {expander, host}))
        when += step
    story.says(when, end)


def session_is_lost(story: Story, host: str, at: float, length: float) -> None:
    """An iSCSI session is lost; its paths are given up after the recovery time of 120 s, or back.

    libiscsi.c, iscsi_check_transport_timeouts; scsi_transport_iscsi.c, session_recovery_timedout;
    dm-mpath.c, fail_path.
    """
    number = int(host.removeprefix("host"))
    paths = tuple(story.machine.direct(host))
    story.at(at, Stands(paths))
    conn = printk.session(number, "connection")
    story.says(
        at + 10.0,
        printk.line("ping_timeout", 5, 5, 1, 2, 3, before=conn),
        printk.line("conn_error", 1022, before=conn),
    )
    maps = {other for path in paths for other in story.machine.direct(path)}
    right = frozenset((host, *paths, *(maps if len(paths) > 1 else ())))
    story.right = [(at, right | maps)]
    numbers = device_numbers(story.machine)
    if length > 120.0:
        given_up = at + 130.0
        before = printk.session(number)
        story.says(given_up, printk.line("recovery_timeout", 120, before=before))
        for path in paths:
            story.says(
                given_up, printk.line("reject_offline", before=printk.sdev(story.address(path)))
            )
            for name in story.machine.direct(path):
                fails = printk.line("path_fails", numbers[name], numbers[path])
                story.says(given_up + 0.1, block_error(story, path), fails)
            story.at(given_up, GoesOn((path,)), Offline(path))
        story.well_at = FOREVER
        story.seconds = max(story.seconds, given_up + 120.0)
        return
    story.at(at + length, GoesOn(paths))
    story.well_at, story.may_be_silent = at + length, True


def device_numbers(machine: Machine) -> dict[str, str]:
    """Return the device number of each block device, as who plays the story gives them."""
    disks = [n for n in machine.nodes.values() if n.layer in (Layer.DISK, Layer.PATH)]
    found = {node.name: f"8:{16 * count}" for count, node in enumerate(disks)}
    found |= {name: f"253:{name.removeprefix('dm-')}" for name in machine.of_role("lv")}
    maps = machine.of_role("map")
    return found | {name: f"253:{FIRST_MAP + count}" for count, name in enumerate(maps)}


def wrong_copy(story: Story, mount: str, at: float, length: float) -> None:
    """btrfs raid1, one copy wrong: each read is repaired from the other one.

    btrfs/inode.c, btrfs_print_data_csum_error; volumes.c, btrfs_dev_stat_inc_and_print; bio.c,
    btrfs_repair_io_failure. The prefix names the first device, whichever is wrong.
    """
    disks = story.machine.nodes[mount].carriers
    bad = story.random.randrange(2)
    first, count, when = part(disks[0]), 0, at
    warning, error = printk.btrfs("warning", first), printk.btrfs("error", first)
    info = printk.btrfs("info", first)
    while when <= at + min(length, 90.0):
        count += 1
        path, inode = f"/dev/{part(disks[bad])}", 257 + count
        story.says(
            when,
            printk.line(
                "csum_failed", 5, inode, 0, "0x8941f998", "0x7b2b9822", bad + 1, before=warning
            ),
            printk.line("dev_stats", path, 0, 0, 0, count, 0, before=error),
            printk.line("corrected", inode, 0, path, 9000 + 8 * count, before=info),
        )
        story.at(when, Counts(mount, bad + 1, (("corruption_errs", count),)))
        when += story.between(2.0, 40.0)
    story.right = [(at, frozenset((mount, disks[bad])))]
    story.well_at = FOREVER


# What stands on what was lost


def part(name: str) -> str:
    """Return a disk's partition."""
    return f"{name}p1" if name[-1].isdigit() else f"{name}1"


def lose(story: Story, names: Iterable[str], at: float, *, is_there: bool = False) -> None:
    """Let disks be lost for what stands on them, layer by layer."""
    names = tuple(names)
    for name in names:
        story.lost[name] = at
    above = {other for name in names for other in story.machine.direct(name)}
    for name in sorted(above):
        node = story.machine.nodes[name]
        if node.layer is Layer.ARRAY:
            _members_lost(story, node, [n for n in names if n in node.carriers], at, is_there)
        elif node.layer is Layer.MAPPED:
            for mount in story.machine.direct(name):
                file_system_fails(story, mount, name, at)
        elif node.spare:
            _copy_lost(story, node, at)
        else:
            file_system_fails(story, name, part(node.carriers[0]), at)


def _members_lost(story: Story, node: Node, names: list[str], at: float, is_there: bool) -> None:
    """drivers/md: md_error, raid1_error, raid10_error, raid5_error; md.c, super_written."""
    out = [n for n in node.carriers if n in story.lost]
    before = len(out) - len(names)
    form = "raid5" if node.role in {"raid5", "raid6"} else node.role
    when = at + story.between(0.2, 3.0)
    total = len(node.carriers)
    for count, name in enumerate(names, before + 1):
        lines = [printk.line("super_written", "super_written", -5)]
        last = form in {"raid1", "raid10"} and _is_broken(node, out[:count])
        if not last:  # raid1.c and raid10.c keep the last copy, and print nothing
            lines.append(printk.line(f"{form}_failed", node.name, part(name)))
            if form == "raid5" and count > node.spare:
                lines.append(printk.line("raid5_cannot", node.name, count, total))
            else:
                lines.append(printk.line(f"{form}_continues", node.name, total - count))
        story.says(when, *lines)
        if is_there and not last:
            story.at(when, Faulty(node.name, name))
    if _is_broken(node, out) and not _is_broken(node, out[:before]):
        story.at(when, Breaks(node.name))
        for other in story.machine.direct(node.name):
            mounts = story.machine.direct(other)
            is_mapped = story.machine.nodes[other].layer is Layer.MAPPED
            for mount in mounts if is_mapped else (other,):
                file_system_fails(story, mount, other if is_mapped else node.name, when)


def _is_broken(node: Node, out: list[str]) -> bool:
    if node.paired:
        pairs = zip(node.carriers[::2], node.carriers[1::2], strict=True)
        return any({one, other} <= set(out) for one, other in pairs)
    return len(out) > node.spare


def _copy_lost(story: Story, node: Node, at: float) -> None:
    """btrfs goes on with the other copy: volumes.c, btrfs_end_bio; disk-io.c, write_dev_supers."""
    first = part(node.carriers[0])
    for number, name in enumerate(node.carriers, 1):
        if name in story.lost:
            path = f"/dev/{part(name)}"
            error, warning = printk.btrfs("error", first), printk.btrfs("warning", first)
            when = at + story.between(0.5, 20.0)
            story.says(
                when,
                printk.line("dev_stats", path, 1, 0, 0, 0, 0, before=error),
                printk.line("lost_super", path, -5, before=warning),
            )
            story.at(when, Counts(node.name, number, (("write_errs", 212),)))


def file_system_fails(story: Story, mount: str, device: str, at: float) -> None:
    """Its device refuses requests: jbd2/journal.c, fs/buffer.c, ext4/super.c; xfs/xfs_log.c.

    The order is the recorded one: the journal's superblock is written after it is aborted, that of
    the file system when the next system call finds that.
    """
    role = story.machine.nodes[mount].role
    when = at + story.between(0.2, 6.0)
    if role == "xfs":
        before = printk.xfs(device)
        story.says(
            when,
            printk.line("xfs_log", -5, before=before),
            printk.line("xfs_shutdown", 2, before=before),
        )
        return
    journal, lost = f"{device}-8", ", lost sync page write"
    found = "ext4_journal_check_start", 84, "writer", "Detected aborted journal"
    story.says(
        when,
        printk.line("jbd2_abort", journal),
        printk.line("buffer_error", device, story.random.randrange(1 << 24), lost),
        printk.line("jbd2_super", journal),
        printk.line("ext4_error", device, *found),
        printk.line("buffer_error", device, 1, lost),
        printk.line("ext4_super", before=printk.ext4(device)),
        printk.line("ext4_read_only", before=printk.ext4(device)),
    )


# Machines and stories


def small_machine(random: Random) -> Machine:
    """Return a host with at most eight disks."""
    builder = Builder(random)
    kind = random.choice(("sas", "sas", "shelf", "sata", "sata", "nvme", "maps", "virtual"))
    devices: list[str] = []
    if kind == "sas":
        host = builder.host("hba")
        devices = [builder.disk("sas", host) for _ in range(random.randint(3, MOST_DISKS))]
    elif kind == "shelf":
        host = builder.host("hba")
        expander = f"{host} expander 0"
        builder.machine.add(Node(expander, Layer.ADAPTER, "expander", (host,)))
        devices = [builder.disk("sas", expander) for _ in range(random.randint(4, 6))]
        devices += [builder.disk("sas", host) for _ in range(2)]
    elif kind == "sata":
        count = random.randint(2, 6)
        devices = [builder.disk("sata", builder.host("ahci port")) for _ in range(count)]
    elif kind == "virtual":
        names = (f"vd{letter}" for letter in "abcd"[: random.randint(2, 4)])
        devices = [builder.disk("virtual", name=name) for name in names]
    elif kind == "nvme":
        devices = [builder.disk("nvme", name=f"nvme{n}n1") for n in range(random.randint(2, 4))]
    else:
        devices = _maps(builder)
    builder.stack(devices)
    return builder.machine


def _maps(builder: Builder) -> list[str]:
    """Add multipath maps, each over two iSCSI sessions."""
    hosts = [builder.host("iscsi") for _ in range(2)]
    maps = []
    for number in range(builder.random.randint(1, 2)):
        paths = [
            builder.machine.add(Node(next(builder.names), Layer.PATH, "path", (host,)))
            for host in hosts
        ]
        node = Node(f"mpath{number}", Layer.VOLUME, "map", tuple(paths), 1)
        maps.append(builder.machine.add(node))
    return maps


@dataclass(frozen=True)
class Behaviour:
    """What may befall the objects with these roles; how long it lasts."""

    what: str
    layer: str
    roles: tuple[str, ...]
    act: Callable[[Story, str, float, float], None]
    lengths: tuple[float, float] = (60.0, 120.0)


BEHAVIOURS = (
    Behaviour("hang", "disk", ("sas", "sata", "nvme"), stops_answering, (15.0, 90.0)),
    Behaviour("hang, no time-out", "disk", ("virtual",), never_times_out, (130.0, 260.0)),
    Behaviour("offlined", "disk", ("sas",), is_offlined),
    Behaviour("pulled", "disk", ("sas", "sata"), is_pulled),
    Behaviour("members pulled", "array", ("raid5", "raid6"), members_are_pulled, (8.0, 120.0)),
    Behaviour("link lost", "disk", ("sata",), link_is_lost),
    Behaviour("removed", "disk", ("nvme",), nvme_is_removed),
    Behaviour("medium errors", "disk", ("sas", "sata", "nvme"), cannot_read),
    Behaviour("firmware", "adapter", ("hba",), adapter_faults, (5.0, 60.0)),
    Behaviour("leaves", "expander", ("expander",), shelf_leaves),
    Behaviour("session lost", "path", ("iscsi",), session_is_lost, (20.0, 200.0)),
    Behaviour("wrong copy", "file system", ("btrfs",), wrong_copy),
)


def random_story(random: Random, seed: int) -> Story:
    """Return the story of a seed: a machine, and one fault or none."""
    machine = small_machine(random)
    story = Story(seed, machine, random)
    able = [b for b in BEHAVIOURS if machine.of_role(*b.roles)]
    at = random.uniform(70.0, 120.0)
    story.seconds = at + random.uniform(120.0, 240.0)
    if random.random() < 0.1:
        return story
    chosen = random.choice(able)
    story.what, story.layer = chosen.what, chosen.layer
    name = random.choice(machine.of_role(*chosen.roles))
    chosen.act(story, name, at, random.uniform(*chosen.lengths))
    story.acts.sort(key=lambda each: each[0])
    if random.random() < 0.2:
        story.restart = at + random.uniform(-40.0, 150.0), random.choice((1.0, 4.0, 20.0))
    return story
