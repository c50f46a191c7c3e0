"""Programs that stand still behind a ZFS pool, second by second."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from support import kstat
from support.blocked import Blocked, task

if TYPE_CHECKING:
    from iowarden.collectors.procfs.tasks import BlockedTask

POOL = "pool tank"
SYNC = ("cv_wait_common", "txg_wait_synced_impl", "zil_commit", "zfs_fsync", "do_fsync")
MEMBER = "I:1200\nE:ID_FS_TYPE=zfs_member\nE:ID_FS_LABEL=tank\n"
STATISTICS = "/proc/spl/kstat/zfs"
MOUNTS = (
    "60 1 0:51 / /tank rw - zfs tank rw,xattr\n"
    "61 60 0:52 / /tank/db rw - zfs tank/db rw,xattr\n"
    "62 60 0:53 / /tank/home rw - zfs tank/home rw,xattr\n"
)


class PoolHost(Blocked):
    """A pool of three disks with two datasets, next to the system's own disk."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("sdb", "sdc", "sdd"):
            self.add_disk(name)
        members = {f"/run/udev/data/b8:{number}": MEMBER for number in (16, 32, 48)}
        self.machine.memory.write(
            {**members, "/proc/1/mountinfo": MOUNTS, f"{STATISTICS}/tank/state": "ONLINE\n"}
        )
        self.sync_began: int | None = None
        """The second in which its present transaction group began to be written."""

    def pass_second(self, tasks: tuple[BlockedTask, ...] = ()) -> None:  # type: ignore[override]
        """Let a second pass."""
        began = self.sync_began
        syncing = None if began is None else float(self.second - began)
        self.machine.memory.write(
            {
                f"{STATISTICS}/dmu_tx": kstat.named({"dmu_tx_dirty_over_max": self.second}),
                f"{STATISTICS}/tank/txgs": kstat.txgs(syncing),
            }
        )
        super().pass_second(tasks)


def commit(number: int, dataset: str, device: str, **changes: object) -> BlockedTask:
    """Return a program that waits for the pool in a commit on one of its datasets."""
    place = {"waits_at": device, "mount": dataset, "file": f"{dataset}/wal"}
    return task(number, wait_channel=SYNC[0], stack=SYNC, **{**place, **changes})


@pytest.fixture
def host() -> PoolHost:
    """An ordinary minute."""
    made = PoolHost()
    made.pass_seconds(60, sdb=2_000_000, sdc=2_000_000, sdd=2_000_000)
    return made


def test_all_datasets_wait_for_one_pool_and_its_slowest_disk_is_named(host: PoolHost) -> None:
    """sdc is in use all the time, the others wait for it; a write to an ext4 is queued as well."""
    host.sync_began, host.queued = host.second, 600_000_000
    tasks = (commit(1, "/tank/db", "0:52"), commit(2, "/tank/home", "0:53", command="imap"))
    host.pass_seconds(40, tasks, sdc=40_000_000)
    assert host.cause(POOL) == "pool sync"
    summary = host.summary("Freeze")
    # The kernel's list is read each 2 s.
    assert re.search(r"ZFS txg sync takes 3[7-9] ?s, sdc is the slowest", summary)
    ((at, severity), *_) = host.mails()
    assert (at <= 60 + 25, severity) == (True, "warning")
    (mail, *_) = host.machine.host.mails
    assert mail.due.incident.key == POOL


def test_a_disk_of_the_pool_that_hangs_is_the_cause(host: PoolHost) -> None:
    """Its requests are in flight and none completes: the mail is about that disk."""
    host.sync_began = host.second
    host.disks["sdc"].in_flight = 4
    host.pass_seconds(40, (commit(1, "/tank/db", "0:52"), commit(2, "/tank/db", "0:52")))
    assert host.cause(POOL) == "hang"
    assert "sdc hangs" in host.summary("Freeze")
    (key,) = {mail.due.incident.key for mail in host.machine.host.mails}
    assert key.endswith("S-sdc")


@pytest.mark.parametrize(
    "changes",
    [
        {"waits_at": "230:0", "file": "/dev/zd0", "mount": "/dev"},
        {"waits_at": "0:51", "file": "/tank/x", "mount": "/tank"},
        {"waits_at": "", "file": "", "mount": ""},
    ],
    ids=["volume", "dataset-at-the-top", "no-descriptor"],
)
def test_whatever_of_the_pool_a_program_uses_it_waits_for_the_pool(
    host: PoolHost, changes: dict[str, object]
) -> None:
    """A volume of a virtual machine; the dataset without '/' in its name; a rename."""
    host.machine.memory.write(
        {
            "/sys/block/zd0/dev": "230:0\n",
            "/sys/block/zd0/size": "1953525168\n",
            "/run/udev/data/b230:0": "S:zvol/tank/vm-101-disk-0\n",
        }
    )
    host.machine.host.announced()
    host.pass_seconds(3)
    host.sync_began = host.second
    host.pass_seconds(20, (commit(1, "/tank/db", "0:52", **changes),))
    assert host.machine.host.engine is not None
    assert set(host.machine.host.engine.signals.harm().devices) == {POOL}


def test_a_pool_that_is_suspended_is_one_incident_with_who_waits(host: PoolHost) -> None:
    """Critical by its state; the programs that wait for it are part of that, and not news."""
    host.machine.memory.write({f"{STATISTICS}/tank/state": "SUSPENDED\n"})
    host.sync_began = host.second
    host.pass_seconds(60, (commit(1, "/tank/db", "0:52"), commit(2, "/tank/db", "0:52")))
    assert host.cause(POOL) == "suspended"
    assert "programs blocked: suspended" in host.summary("Freeze")
    assert {mail.due.incident.key for mail in host.machine.host.mails} == {POOL}
    assert host.mails()[0][1] == "critical"


def test_a_pool_that_writes_much_and_holds_up_nobody_is_silent(host: PoolHost) -> None:
    """A backup: groups of 20 s, one after the other, and only the writer is paused by ZFS."""
    for _ in range(10):
        host.sync_began = host.second
        host.pass_seconds(20, sdb=80_000_000, sdc=80_000_000, sdd=80_000_000)
    assert host.mails() == []


@pytest.mark.parametrize(("seconds", "mailed"), [(110, 0), (200, 1)])
def test_where_nobody_is_seen_to_wait_a_group_of_two_minutes_is_mailed(
    host: PoolHost, seconds: int, mailed: int
) -> None:
    """Virtual machines that write by io_uring are never seen in a call."""
    host.sync_began = host.second
    host.pass_seconds(seconds, sdb=1_000_000)
    assert len(host.mails()) == mailed
