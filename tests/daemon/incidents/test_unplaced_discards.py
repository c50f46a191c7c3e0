"""Discards of which neither call nor thread shows the disk, each beside a disk that hangs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.blocked import SP_PC, Blocked, task

if TYPE_CHECKING:
    from iowarden.collectors.procfs.tasks import BlockedTask

NOT_PLACED: dict[str, object] = {"waits_at": "", "file": "", "mount": ""}
COMMIT = ("submit_bio_wait", "blkdev_issue_discard", "btrfs_issue_discard", "btrfs_discard_extent")
BTRFS = {
    **NOT_PLACED,
    "command": "btrfs-transaction",
    "kernel": True,
    "system_call": "",
    "stack": (*COMMIT, "btrfs_finish_extent_commit", "btrfs_commit_transaction", "kthread"),
}
SWAPON = {
    **NOT_PLACED,
    "command": "swapon",
    "system_call": f"167 0x55d1 0x10000 0x0 0x0 0x0 0x0 {SP_PC}",
    "stack": ("submit_bio_wait", "blkdev_issue_discard", "discard_swap", "__do_sys_swapon"),
}
OWN_COMMIT = {
    **NOT_PLACED,
    "command": "influxd",
    "file": "/var/lib/influxdb/wal/1",
    "stack": (*COMMIT, "btrfs_commit_transaction", "btrfs_sync_file", "do_fsync"),
}
FORMS = {
    "btrfs": BTRFS,
    "swapon": SWAPON,
    "no stack": {**SWAPON, "stack": (), "wait_channel": ""},
    "no stack, 5.16": {**SWAPON, "stack": (), "wait_channel": "io_schedule_timeout"},
    "channel only": {**SWAPON, "stack": (), "wait_channel": "blkdev_issue_discard"},
}


def played(discard: dict[str, object], seconds: int, *, victims: int = 0) -> Blocked:
    """Return a host of two disks, one of which completes nothing while a discard is waited for."""
    host = Blocked()
    host.add_disk("sdb")
    host.pass_seconds(60, [], sda=8_000_000, sdb=4_000_000)
    host.disks["sda"].in_flight = 2
    waiting = [task(9, **discard), *(task(number) for number in range(victims))]
    host.pass_seconds(seconds, waiting, sdb=4_000_000)
    return host


@pytest.mark.parametrize("form", FORMS)
def test_a_discard_whose_disk_is_not_known_is_on_the_one_that_completes_nothing(form: str) -> None:
    """Mounted with '-o discard', and 'swapon --discard': a minute, in which no program waits."""
    host = played(FORMS[form], 60)
    assert host.mails() == []
    assert "discarding" in host.guards("sda")
    assert "discarding" not in host.guards("sdb")


@pytest.mark.parametrize("form", FORMS)
def test_who_waits_behind_such_a_discard_is_mailed_with_it_as_the_cause(form: str) -> None:
    """Two backends commit on the same disk: they stand still, and it is not at fault."""
    host = played(FORMS[form], 60, victims=2)
    assert host.mails()[0][0] - 60 <= 20
    assert host.cause() == "discarding"
    assert "critical" not in {severity for _, severity in host.mails()[:1]}
    assert "DeviceHang" not in host.machine.host.names("critical")


def test_a_program_whose_own_commit_discards_is_harmed_and_the_disk_does_not_hang() -> None:
    """btrfs discards in the fsync of a database, whose file is on no device of its own."""
    host = played(OWN_COMMIT, 60)
    assert host.mails()[0][0] - 60 <= 40
    assert host.cause() == "discarding"
    assert "btrfs discards what it freed" in host.summary("Freeze")
    assert "cat /sys/block/sda/queue/discard_max_bytes" in host.machine.host.mails[0].advice
    assert "DeviceHang" not in host.machine.host.names("warning")


@pytest.mark.parametrize("shown", [1, 3])
def test_a_discard_beside_a_counter_that_leaked_before_the_start_is_silent(shown: int) -> None:
    """sdb shows requests since iowarden is there, and is idle: btrfs discards sda."""
    host = Blocked()
    host.add_disk("sdb")
    host.disks["sdb"].leaked = shown
    host.pass_seconds(60, [], sda=8_000_000)
    host.disks["sda"].in_flight = 3
    host.pass_seconds(60, [task(9, **BTRFS)])  # type: ignore[arg-type]
    assert host.mails() == []
    assert "discarding" in host.guards("sda")


def test_a_mirror_of_btrfs_discards_one_of_its_disks_after_the_other() -> None:
    """Source: kernel, fs/btrfs/extent-tree.c, btrfs_discard_extent: stripe by stripe."""
    host = Blocked()
    host.add_disk("sdb")
    host.pass_seconds(60, [], sda=8_000_000, sdb=8_000_000)
    for name in ("sda", "sdb"):
        host.disks[name].in_flight = 1
        host.pass_seconds(50, [task(9, **BTRFS)])  # type: ignore[arg-type]
        host.disks[name].in_flight, host.disks[name].discards = 0, 1
        host.disks[name].discard_milliseconds += 50_000
    host.pass_seconds(20, [], sda=8_000_000, sdb=8_000_000)
    assert host.mails() == []


@pytest.mark.parametrize("victims", [0, 2])
def test_a_swap_area_on_an_array_is_discarded_on_all_of_its_disks(victims: int) -> None:
    """md passes the discard on to both disks of the mirror; neither hangs."""
    host = Blocked()
    host.add_disk("sdb")
    host.machine.add_array("md0", "raid1", "sda", "sdb")
    host.machine.memory.write({"/sys/block/md0/dev": "9:0\n"})
    host.pass_seconds(60, [], sda=8_000_000, sdb=8_000_000)
    host.disks["sda"].in_flight = host.disks["sdb"].in_flight = 1
    waiting = [task(number, waits_at="9:0") for number in range(victims)]
    host.pass_seconds(50, [task(9, **SWAPON), *waiting])  # type: ignore[arg-type]
    assert bool(host.mails()) is bool(victims)
    assert {"discarding"} <= {*host.guards("sda")} & {*host.guards("sdb")}
    if victims:
        assert host.cause("md0") == "discarding"
        assert "swapon discards the swap area" in host.summary("Freeze")


@pytest.mark.parametrize("form", FORMS)
def test_of_two_disks_that_complete_nothing_neither_is_known_to_discard(form: str) -> None:
    """One of them hangs: both are mailed."""
    host = Blocked()
    host.add_disk("sdb")
    host.pass_seconds(60, [], sda=8_000_000, sdb=4_000_000)
    host.disks["sda"].in_flight = host.disks["sdb"].in_flight = 2
    host.pass_seconds(60, [task(9, **FORMS[form])])  # type: ignore[arg-type]
    assert "DeviceHang" in host.machine.host.names("critical")


@pytest.mark.parametrize("form", FORMS)
def test_a_disk_that_hangs_next_to_one_that_discards_all_the_time_is_mailed(form: str) -> None:
    """The discards complete on sdb, a few each second: they are not what sda waits for."""
    host = Blocked()
    host.add_disk("sdb")
    host.pass_seconds(60, [], sda=8_000_000)
    host.disks["sda"].in_flight = 2
    for _ in range(60):
        host.disks["sdb"].discards += 4
        host.disks["sdb"].discard_milliseconds += 900
        host.pass_second([task(9, **FORMS[form]), task(1), task(2)])  # type: ignore[arg-type]
    assert host.cause() == "hang"
    assert "DeviceHang" in host.machine.host.names("critical")


def test_a_map_of_paths_discards_for_as_long_as_its_disk_may() -> None:
    """fstrim on a LUN with two paths: 100 s, and neither path nor map hangs."""
    host = Blocked()
    host.add_disk("sdb")
    host.add_map("sda", "sdb")
    host.pass_seconds(60, [], sda=4_000_000, sdb=4_000_000)
    host.disks["sda"].in_flight = host.disks["dm-0"].in_flight = 1
    stack = ("submit_bio_wait", "blkdev_issue_discard", "ext4_trim_fs", "ext4_ioctl")
    call = f"16 0x3 0xc0185879 0x7ffd 0x0 0x0 0x0 {SP_PC}"
    host.pass_seconds(100, [task(9, "fstrim", stack=stack, system_call=call, waits_at="253:0")])
    assert host.mails() == []


def btrfs_of_two(named: str, *, is_listed: bool = True) -> Blocked:
    """Return a host with a btrfs on two disks, of which the mount table names one."""
    host = Blocked()
    host.add_disk("sdb")
    host.add_disk("sdc")
    mounted = f"30 1 0:45 / /srv rw - btrfs /dev/{named} rw\n"
    files: dict[str, str | bytes | None] = {"/proc/1/mountinfo": mounted}
    if is_listed:
        base = "/sys/fs/btrfs/3f4a6c1e-9a9b-4c1d-8e2f-5b6a7c8d9e0f/devices"
        files |= {f"{base}/sda": None, f"{base}/sdb": None}
    host.machine.memory.write(files)
    host.pass_seconds(60, [], sda=8_000_000, sdb=8_000_000, sdc=8_000_000)
    return host


def databases(target: str) -> list[BlockedTask]:
    """Return two databases that commit on it; by what the kernel calls its device."""
    stack = ("folio_wait_writeback", "btrfs_wait_ordered_range", "btrfs_sync_file", "do_fsync")
    changes: dict[str, object] = {"waits_at": target, "stack": stack, "wait_channel": stack[0]}
    return [task(number, "mariadbd", file="/srv/db/ib", **changes) for number in range(2)]


WORKER = {
    **BTRFS,
    "command": "kworker/u16:3",
    "stack": (*COMMIT, "do_trimming", "btrfs_trim_block_group", "btrfs_discard_workfn"),
}


@pytest.mark.parametrize("target", ["the source of the mount", "0:45", ""])
@pytest.mark.parametrize("is_listed", [True, False])
@pytest.mark.parametrize("rest", [0, 4_000_000])
def test_who_waits_for_a_btrfs_waits_for_the_discard_of_any_of_its_disks(
    target: str, rest: int, *, is_listed: bool
) -> None:
    """btrfs discards sdb; the mount table names sda, which has little or nothing to do."""
    host = btrfs_of_two("sda", is_listed=is_listed)
    began, host.disks["sdb"].in_flight = host.second, 3
    waits_at = "/dev/sda" if target.startswith("the") else target
    work = {"sda": rest, "sdc": rest} if rest else {}
    host.pass_seconds(50, [task(9, **WORKER), *databases(waits_at)], **work)  # type: ignore[arg-type]
    assert host.mails()[0][0] - began <= 20
    (name,) = host.machine.host.engine.signals.harm().causes  # type: ignore[union-attr]
    assert host.cause(name) == "discarding"
    assert host.machine.host.engine.signals.harm().disks[name] == ("sdb",)  # type: ignore[union-attr]
    assert "btrfs discards what it freed" in host.summary("Freeze")
    assert "/sys/block/sdb/queue/discard_max_bytes" in host.machine.host.mails[0].advice


@pytest.mark.parametrize("named", ["sda", "sdb"])
def test_who_waits_for_a_btrfs_waits_for_any_of_its_disks_that_hangs(named: str) -> None:
    """The mirror of a file system stands if one of its disks does, whichever is named."""
    host = btrfs_of_two(named)
    host.disks["sdb"].in_flight = 3
    host.pass_seconds(30, databases(f"/dev/{named}"), sda=4_000_000)
    assert host.cause(named) == "hang"
    assert host.machine.host.engine.signals.harm().disks[named] == ("sdb",)  # type: ignore[union-attr]


def test_who_waits_for_another_file_system_on_a_disk_of_a_btrfs_waits_for_that_disk_alone() -> None:
    """Two programs commit on ext4 on sda1, behind what is queued; sdb, of the btrfs, hangs."""
    host = btrfs_of_two("sda")
    host.machine.memory.write(
        {"/sys/block/sda/sda1/dev": "8:1\n", "/sys/block/sda/sda1/partition": "1\n"}
    )
    host.pass_seconds(20, [], sda=8_000_000)
    host.queued, host.disks["sdb"].in_flight, host.disks["sda"].in_flight = 800_000_000, 3, 8
    host.pass_seconds(30, [task(1, waits_at="8:1"), task(2, waits_at="8:1")], sda=8_000_000)
    assert host.cause("sda") == "backlog"
