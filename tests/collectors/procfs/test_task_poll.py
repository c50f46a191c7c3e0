"""A poll at blocked tasks: all facts of a wait, and tasks that do not answer."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.machine import Machine
from iowarden.collectors.procfs import task_poll
from iowarden.collectors.procfs.task_poll import read_waiting_tasks
from iowarden.collectors.procfs.tasks import MAX_TASKS, from_json, to_json
from iowarden.rules.signals.storage_call import Purpose, purpose

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FSYNC = "74 0x5 0x0 0x0 0x0 0x0 0x0 0x7ffc1e30 0x7f0ac5b0\n"
MOUNTS = (
    "25 1 8:2 / / rw - ext4 /dev/sda2 rw\n31 25 8:17 / /srv/db rw - ext4 /dev/sdb1 rw\n"
    "24 1 0:5 / /dev rw - devtmpfs udev rw\n40 25 0:52 / /net rw - nfs4 filer:/export rw\n"
)
IO = (
    "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\n"
    "cancelled_write_bytes: 7\n"
)


def stat(pid: int, name: str, state: str, *, start: int = 4000, threads: int = 1) -> str:
    """Return a line of '/proc/PID/stat'."""
    return (
        f"{pid} ({name}) {state} 1 {pid} {pid} 0 -1 0 5 0 0 0 3 4 0 0 20 0 {threads} 0"
        f" {start} 8192 100 18446744073709551615 0 0 0 0\n"
    )


def add(tmp_path: Path, pid: int, **texts: str) -> None:
    """Add a blocked process; names of files have '_' for '/'."""
    values = {
        "stat": stat(pid, "postgres", "D"),
        "status": (
            "Name:\tpostgres\nState:\tD (disk sleep)\nvoluntary_ctxt_switches:\t700\n"
            "nonvoluntary_ctxt_switches:\t9\n"
        ),
        "syscall": FSYNC,
        "io": IO.replace("5", "4096"),
        f"task_{pid}_io": IO,
        "cgroup": "0::/system.slice/postgresql@15-main.service\n",
        "mountinfo": MOUNTS,
        "fdinfo_5": "pos:\t0\nflags:\t02\nmnt_id:\t31\n",
        **texts,
    }
    for name, text in values.items():
        path = tmp_path / f"proc/{pid}" / name.replace("_", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    links = tmp_path / f"proc/{pid}/fd"
    links.mkdir()
    (links / "5").symlink_to("/srv/db/pg_wal/1")


def test_a_poll_has_all_facts_that_tell_one_call_from_the_next(tmp_path: Path) -> None:
    """A backend in fsync: its call, the counters of the task alone, switches, file and unit."""
    add(tmp_path, 812)
    (task,) = read_waiting_tasks(Machine(str(tmp_path))).tasks
    assert task.system_call == FSYNC.strip()
    assert task.counters == (1, 2, 3, 4, 5, 6)
    assert task.write_bytes == 6
    assert (task.voluntary_switches, task.cpu_ticks) == (700, 7)
    assert (task.file, task.waits_at, task.mount) == ("/srv/db/pg_wal/1", "8:17", "/srv/db")
    assert task.unit == "postgresql@15-main.service"


def test_a_core_dump_that_waits_deep_in_xfs_is_a_core_dump(tmp_path: Path) -> None:
    """The kernel frees memory within the write of the dump: 29 functions below the signal."""
    inner = (
        *("xfs_buf_iowait", "__xfs_buf_submit", "xfs_buf_read_map", "xfs_trans_read_buf_map"),
        *("xfs_imap_to_bp", "xfs_inode_to_log_dinode", "xlog_cil_commit", "__xfs_trans_commit"),
        *("xfs_iomap_write_allocate", "xfs_map_blocks", "iomap_writepages", "xfs_vm_writepages"),
        *("do_writepages", "pageout", "shrink_folio_list", "shrink_inactive_list"),
        *("shrink_lruvec", "shrink_node", "do_try_to_free_pages", "try_to_free_pages"),
        *("__alloc_pages_slowpath", "filemap_get_folio", "iomap_file_buffered_write"),
        *("xfs_file_buffered_write", "__kernel_write_iter", "dump_emit_page", "elf_core_dump"),
    )
    stack = (*inner, "do_coredump", "get_signal", "arch_do_signal_or_restart")
    text = "".join(f"[<0>] {name}+0x9b/0x120 [xfs]\n" for name in stack)
    add(tmp_path, 812, stack=f"{text}[<0>] 0xffffffffffffffff\n")
    (task,) = read_waiting_tasks(Machine(str(tmp_path))).tasks
    assert task.stack == stack
    assert purpose(task) is Purpose.ELSEWHERE


def test_a_reader_of_a_busy_disk_that_runs_meanwhile_is_left_out(tmp_path: Path) -> None:
    """It was blocked when its state was read, and is in its next call by now."""
    add(tmp_path, 812, syscall="running\n")
    add(tmp_path, 813)
    assert [task.pid for task in read_waiting_tasks(Machine(str(tmp_path))).tasks] == [813]


def test_the_facts_arrive_through_the_probe(tmp_path: Path) -> None:
    """What the probe prints is what the service reads."""
    add(tmp_path, 812)
    poll = read_waiting_tasks(Machine(str(tmp_path)))
    assert from_json(json.dumps(to_json(poll))) == poll


@pytest.mark.parametrize(
    ("mount", "link", "expected"),
    [
        ("24", "/dev/sdb", ("/dev/sdb", "/dev/sdb", "")),
        ("40", "/net/home", ("/net/home", "filer:/export", "/net")),
        ("99", "pipe:[7]", ("pipe:[7]", "", "")),
    ],
    ids=["block device", "server", "pipe"],
)
def test_the_file_says_on_what_a_task_waits(
    tmp_path: Path, mount: str, link: str, expected: tuple[str, str, str]
) -> None:
    """A block device lies in devtmpfs, which is on no disk; a server has no device number."""
    add(tmp_path, 812, fdinfo_5=f"pos:\t0\nmnt_id:\t{mount}\n")
    (tmp_path / "proc/812/fd/5").unlink()
    (tmp_path / "proc/812/fd/5").symlink_to(link)
    (task,) = read_waiting_tasks(Machine(str(tmp_path))).tasks
    assert (task.file, task.waits_at, task.mount) == expected


@pytest.mark.parametrize(
    ("link", "waits_at"),
    [
        ("/dev/sdb1", "/dev/sdb1"),
        ("/dev/cciss/c0d0", "/dev/cciss/c0d0"),
        ("/dev/mapper/vg-root", "/dev/mapper/vg-root"),
        ("/dev/nst0", ""),
        ("/dev/nvme0", ""),
        ("/dev/infiniband/uverbs0", ""),
        ("/dev/mapper/control", ""),
    ],
)
def test_a_character_device_is_no_storage(tmp_path: Path, link: str, waits_at: str) -> None:
    """All of them lie in devtmpfs; sysfs lists the block devices."""
    blocks = tmp_path / "sys/class/block"
    blocks.mkdir(parents=True)
    for name in ("sdb1", "cciss!c0d0", "dm-0"):
        (blocks / name).symlink_to(f"../../devices/virtual/block/{name}")
    add(tmp_path, 812, fdinfo_5="pos:\t0\nmnt_id:\t24\n")
    (tmp_path / "proc/812/fd/5").unlink()
    (tmp_path / "proc/812/fd/5").symlink_to(link)
    (task,) = read_waiting_tasks(Machine(str(tmp_path))).tasks
    assert (task.file, task.waits_at) == (link, waits_at)


OVERLAY = (
    "600 500 0:50 / / rw - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/A:/b"
    ",upperdir=/var/lib/docker/overlay2/c1/diff,workdir=/var/lib/docker/overlay2/c1/work\n"
    "601 600 0:51 / /image ro - overlay overlay ro,lowerdir=/var/lib/docker/overlay2/l/A:/b\n"
    "602 600 0:52 / /p rw - overlay overlay rw,lowerdir=l/A,upperdir=c1/diff,workdir=c1/work\n"
    "603 600 0:53 / /home/u rw - ecryptfs /home/.ecryptfs/u rw\n"
)


@pytest.mark.parametrize(
    ("mount", "device", "point"),
    [
        ("600", "8:33", "/"),
        ("601", "8:33", "/image"),
        ("602", "", ""),
        ("603", "8:2", "/home/u"),
    ],
    ids=["container", "image that is read-only", "relative to another directory", "ecryptfs"],
)
def test_a_file_of_a_container_is_on_the_disk_of_its_overlay(
    tmp_path: Path, mount: str, device: str, point: str
) -> None:
    """The overlay itself has no device: 'overlay' would be the same one for all containers."""
    add(tmp_path, 812, mountinfo=OVERLAY, fdinfo_5=f"pos:\t0\nmnt_id:\t{mount}\n")
    add(
        tmp_path,
        1,
        stat=stat(1, "systemd", "S"),
        mountinfo=f"{MOUNTS}50 25 8:33 / /var/lib/docker rw - xfs /dev/sdc1 rw\n",
    )
    (task,) = read_waiting_tasks(Machine(str(tmp_path))).tasks
    assert (task.waits_at, task.mount) == (device, point)


class Locked(Machine):
    """A machine with files whose reads wait until the test ends, as for exec_update_lock."""

    def __init__(self, path: str, waits: Callable[[str], bool], end: threading.Event) -> None:
        """`waits`: of which files."""
        super().__init__(path)
        self._waits, self._end = waits, end

    def read_bytes(self, path: str) -> bytes:
        """Wait for the lock, as the kernel does."""
        if self._waits(path):
            self._end.wait()
        return super().read_bytes(path)

    def try_read_record(self, path: str) -> str | None:
        """Wait for the lock likewise."""
        if self._waits(path):
            self._end.wait()
        return super().try_read_record(path)

    def another(self, seen: Callable[[str, bytes], None] | None = None) -> Machine:
        """Return the same machine for another thread."""
        del seen
        return Locked(self.path, self._waits, self._end)


@pytest.fixture
def end(monkeypatch: pytest.MonkeyPatch) -> object:
    """Let reads wait until the test has ended; a poll is impatient, so that no time passes."""
    monkeypatch.setattr(task_poll, "PATIENCE_SECONDS", 0.02)
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("file", ["syscall", "task/813/io", "stack", "stat"])
def test_a_task_that_executes_a_program_does_not_hide_the_others(
    tmp_path: Path, end: threading.Event, file: str
) -> None:
    """813 holds the lock that each of these files needs; its 'status' says that it is blocked."""
    for pid in (812, 813, 814):
        add(tmp_path, pid)
        task = tmp_path / f"proc/{pid}/task/{pid}/status"
        task.write_text((tmp_path / f"proc/{pid}/status").read_text())
    machine = Locked(str(tmp_path), lambda path: path == f"/proc/813/{file}", end)
    poll = read_waiting_tasks(machine)
    assert {task.pid: task.unanswered for task in poll.tasks} == {
        812: False,
        813: True,
        814: False,
    }
    assert poll.count == 3


def test_a_poll_ends_though_nobody_answers(tmp_path: Path, end: threading.Event) -> None:
    """Twenty tasks execute programs from a disk that hangs: the first few say enough."""
    for pid in range(800, 820):
        add(tmp_path, pid)
    poll = read_waiting_tasks(Locked(str(tmp_path), lambda path: path.endswith("/syscall"), end))
    assert all(task.unanswered for task in poll.tasks)
    assert 0 < len(poll.tasks) <= task_poll.MAX_UNANSWERED
    assert poll.count == 20


def test_of_hundreds_one_of_each_program_is_seen(tmp_path: Path) -> None:
    """A hundred older backends wait, and one mail server that began later."""
    for pid in range(100, 200):
        add(tmp_path, pid)
    add(tmp_path, 900, stat=stat(900, "smtpd", "D", start=90_000))
    poll = read_waiting_tasks(Machine(str(tmp_path)))
    assert len(poll.tasks) == MAX_TASKS
    assert 900 in {task.pid for task in poll.tasks}
    assert poll.count == 101
