"""Incidents of memory, write-back, file systems and the network, and of our own life.

Each is a machine written by hand and played through the whole service, up to its mails.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from support.database import MB, Database, subjects, threads, usage
from support.live import RULE, text, watched

if TYPE_CHECKING:
    from pathlib import Path


def test_terabytes_written_at_the_disks_own_speed_are_no_stall(tmp_path: Path) -> None:
    """Wanted: no mail. dd holds the cache at 85 % for ten minutes; only it and flush wait."""
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.rates["sdb"], live.in_flight["sdb"] = 150 * MB, 32
        live.dirty_pages, live.blocked = 850_000, 2
        live.waiting = (
            ("dd", "balance_dirty_pages", False),
            ("kworker/u8:1+flush-8:16", "rq_qos_wait", True),
        )
        mails = host.wait(600)
        live.rates["sdb"] = live.in_flight["sdb"] = live.dirty_pages = live.blocked = 0
        live.waiting = ()
        mails += host.wait(900, 20.0)
    assert subjects(mails) == []


def test_a_copy_to_a_slow_usb_stick_is_no_stall(tmp_path: Path) -> None:
    """Wanted: no mail. 8 MB/s, 3.4 GB queued: seven minutes of drain, and cp alone waits."""
    live = Database(tmp_path, sdc="8:33 / /media/usb rw,nosuid - vfat /dev/sdc1 rw")
    live._files["/sys/block/sdc/removable"] = "1\n"
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.rates["sdc"], live.in_flight["sdc"] = 8 * MB, 1
        live.dirty_pages, live.blocked = 850_000, 3
        live.waiting = (
            ("cp", "balance_dirty_pages", False),
            ("kworker/u8:1+flush-8:32", "rq_qos_wait", True),
            ("usb-storage", "usb_sg_wait", True),
        )
        mails = host.wait(420)
        live.rates["sdc"] = live.in_flight["sdc"] = live.dirty_pages = live.blocked = 0
        live.waiting = ()
        mails += host.wait(900, 20.0)
    assert subjects(mails) == []


def test_a_nfs_server_that_does_not_respond_and_comes_back(tmp_path: Path) -> None:
    """Wanted: one mail that names the server and no disk."""
    live = Database(tmp_path)
    live.mounts["nas"] = "30 25 0:45 / /mnt/nas rw,relatime - nfs4 nas1:/export rw,vers=4.2"
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.kernel.says("nfs: server nas1 not responding, still trying")
        live.blocked = 2
        live.waiting = (("rsync", "rpc_wait_bit_killable", False),)
        soon = host.wait(90)
        live.kernel.says("nfs: server nas1 OK", priority=5)
        live.blocked, live.waiting = 0, ()
        host.wait(1500, 20.0)
    assert len(soon) == 1
    assert "nas1" in str(soon[0]["Subject"])
    assert "sdb" not in text(soon[0])


def test_the_program_that_waits_for_a_server_is_the_one_that_waits_now(tmp_path: Path) -> None:
    """The event stays the same, the program that waits does not: 'status' names it."""
    live = Database(tmp_path)
    live.mounts["nas"] = "30 25 0:45 / /mnt/nas rw,relatime - nfs4 nas1:/export rw,vers=4.2"
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.blocked = 1
        live.waiting = (("rsync", "rpc_wait_bit_killable", False),)
        live.kernel.says("nfs: server nas1 not responding, still trying")
        host.wait(30)
        first = host.program.command("status").stdout
        live.waiting = (("borg", "rpc_wait_bit_killable", False),)
        host.wait(30)
        then = host.program.command("status").stdout
    assert re.search(r"does not respond: rsync \(pid \d+\) waits for it", first)
    assert re.search(r"does not respond: borg \(pid \d+\) waits for it", then)
    assert "rsync" not in then


def test_a_journal_on_a_loop_device_that_is_aborted(tmp_path: Path) -> None:
    """Wanted: one critical mail: /guest is read-only or failed; nothing of smartctl on loop0."""
    live = Database(tmp_path, loop0="7:0 / /guest rw,relatime - ext4 /dev/loop0 rw")
    live._files |= {
        "/guest/.statvfs": usage("7:0"),
        "/sys/fs/ext4/loop0/errors_count": "0\n",
        "/sys/fs/ext4/loop0/warning_count": "0\n",
    }
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.kernel.says(
            "I/O error, dev loop0, sector 1052672 op 0x1:(WRITE) flags 0x800 phys_seg 4 prio class 2",  # noqa: E501 - as the kernel prints it
            "Aborting journal on device loop0-8.",
            "EXT4-fs error (device loop0): ext4_journal_check_start:83: comm postgres: Detected aborted journal",  # noqa: E501 - as the kernel prints it
            "EXT4-fs (loop0): Remounting filesystem read-only",
        )
        live.mounts["loop0"] = "27 25 7:0 / /guest ro,relatime - ext4 /dev/loop0 ro"
        live.change({"/sys/fs/ext4/loop0/errors_count": "1\n"})
        mails = host.wait(180)
    assert len(mails) == 1
    assert "[CRITICAL]" in str(mails[0]["Subject"])
    assert "/guest" in text(mails[0])
    assert "smartctl" not in text(mails[0])


def test_btrfs_checksum_errors(tmp_path: Path) -> None:
    """Wanted: one incident of sdc1, critical or warning; no repair."""
    live = Database(tmp_path, sdc="0:50 / /pool rw,relatime - btrfs /dev/sdc1 rw,subvolid=5")
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.kernel.says(
            "BTRFS warning (device sdc1): csum failed root 5 ino 257 off 4096 csum 0x8941f998 expected csum 0x2d8ee1f9 mirror 1",  # noqa: E501 - as the kernel prints it
            "BTRFS error (device sdc1): bdev /dev/sdc1 errs: wr 0, rd 0, flush 0, corrupt 1, gen 0",
        )
        mails = host.wait(400)
    assert len(mails) == 1
    assert "--repair" not in text(mails[0])


def test_xfs_is_shut_down_because_its_disk_went_offline(tmp_path: Path) -> None:
    """Wanted: one incident whose title is the disk; never xfs_repair -L as the first advice."""
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.in_flight["sdb"] = 5
        mails = host.wait(40)
        live.kernel.says("sd 1:0:0:0: Device offlined - not ready after error recovery")
        live.in_flight["sdb"] = 0
        live.change(
            {
                "/sys/class/scsi_device/1:0:0:0/device/state": "offline\n",
                "/sys/block/sdb/device/state": "offline\n",
            }
        )
        live.kernel.says(
            "I/O error, dev sdb, sector 976764928 op 0x1:(WRITE) flags 0x29800 phys_seg 2 prio class 2",  # noqa: E501 - as the kernel prints it
            "XFS (sdb1): log I/O error -5",
            "XFS (sdb1): Filesystem has been shut down due to log error (0x2).",
            "XFS (sdb1): Please unmount the filesystem and rectify the problem(s).",
        )
        mails += host.wait(300)
    assert len(threads(mails)) == 1
    assert "sdb" in str(mails[-1]["Subject"])
    assert "xfs_repair -L" not in text(mails[-1])


def test_a_file_system_that_a_backup_fills(tmp_path: Path) -> None:
    """Wanted: one critical mail, that /srv is full; resolved when the backup was removed."""
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.rates["sdb"], live.in_flight["sdb"] = 100 * MB, 4
        mails = []
        for free in (10_000_000, 4_000_000, 1_000_000, 0):
            live.change({"/srv/.statvfs": usage("8:17", free)})
            mails += host.wait(120)
        mails += host.wait(1200, 20.0)
        live.change({"/srv/.statvfs": usage("8:17")})
        live.rates["sdb"] = live.in_flight["sdb"] = 0
        end = host.wait(3000, 20.0)
    assert mails
    assert "[CRITICAL]" in str(mails[-1]["Subject"])
    assert len(mails) <= 3
    assert len(end) == 1


def test_a_hung_task_by_log_and_by_counter_is_one_mail(tmp_path: Path) -> None:
    """Wanted: one mail; nothing escalates."""
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.kernel.says(
            "INFO: task postgres:4711 blocked for more than 120 seconds.",
            "      Not tainted 6.1.0-28-amd64 #1 Debian 6.1.119-1",
            '"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.',
        )
        live.change(
            {
                "/proc/sys/kernel/hung_task_detect_count": "1\n",
                "/proc/sys/kernel/hung_task_warnings": "9\n",
            }
        )
        mails = host.wait(300)
        mails += host.wait(1500, 20.0)
    assert len(mails) == 1
    assert ": postgres (pid 4711) blocked for over" in mails[0]["Subject"]


def test_fstrim_at_night_is_no_hang(tmp_path: Path) -> None:
    """Wanted: no mail: discards complete for a minute, then one takes 80 s."""
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        live.rates["sdb"] = MB
        host.wait(60)
        live.rates["sdb"] = 0
        live.in_flight["sdb"], live.discards["sdb"] = 8, 3
        live.blocked, live.waiting = 1, (("fstrim", "submit_bio_wait", False),)
        mails = host.wait(60)
        live.discards["sdb"] = 0
        mails += host.wait(80)
        live.discards["sdb"] = 2
        mails += host.wait(10)
        live.discards["sdb"] = live.in_flight["sdb"] = live.blocked = 0
        live.waiting = ()
        mails += host.wait(600)
    assert mails == []


def test_a_restart_in_the_middle_of_a_hang_reports_nothing_anew(tmp_path: Path) -> None:
    """Wanted: a mail and its escalation before, none after the restart, the true length at last."""
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        live.rates["sdb"] = MB
        host.wait(60)
        live.rates["sdb"], live.in_flight["sdb"] = 0, 7
        before = host.wait(50)
        host.restart()
        after = host.wait(60)
        live.rates["sdb"], live.in_flight["sdb"] = MB, 0
        end = host.wait(300)
    assert len(before) == 2
    assert after == []
    assert len(end) == 1


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_a_clock_that_is_set_during_a_hang_changes_no_length(tmp_path: Path, step: float) -> None:
    """Wanted: as many mails as without, and the length of the hang, not an hour more or less."""
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        live.rates["sdb"] = MB
        host.wait(60)
        live.rates["sdb"], live.in_flight["sdb"] = 0, 7
        mails = host.wait(15)
        live.leap(1.0, step)
        mails += host.wait(45)
        live.rates["sdb"], live.in_flight["sdb"] = MB, 0
        end = host.wait(300)
    assert len(mails) == 2
    assert len(end) == 1
    assert "1 h" not in text(end[0])


def test_a_dirty_limit_that_is_lowered_during_a_copy_is_no_stall(tmp_path: Path) -> None:
    """Wanted: no mail.

    An administrator sets a tenth of the limit while 3.4 GB are queued: for 40 s more is unwritten
    than may be, and postgres waits as well; the limit fell, nothing else did.
    """
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.rates["sdb"], live.in_flight["sdb"] = 80 * MB, 32
        live.dirty_pages, live.blocked = 850_000, 3
        live.waiting = (
            ("cp", "balance_dirty_pages", False),
            ("postgres", "balance_dirty_pages", False),
            ("kworker/u8:1+flush-8:16", "rq_qos_wait", True),
        )
        mails = host.wait(30)
        live.limit_pages = 100_000
        while live.dirty_pages > 95_000:
            live.dirty_pages -= 19_000
            live.wait(1)
        mails += host.wait(120)
        live.rates["sdb"] = live.in_flight["sdb"] = live.dirty_pages = live.blocked = 0
        live.waiting = ()
        mails += host.wait(200, 4.0)
    assert subjects(mails) == []


def test_a_control_group_with_a_limit_of_its_own_is_no_stall_of_the_machine(tmp_path: Path) -> None:
    """Wanted: no mail. A container of 512 MB copies for 5 minutes: only it waits, at 4 % of T."""
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.rates["sdb"], live.in_flight["sdb"] = 100 * MB, 8
        live.dirty_pages, live.blocked = 40_000, 4
        live.waiting = tuple(("tar", "balance_dirty_pages", False) for _ in range(4))
        mails = host.wait(300)
    assert subjects(mails) == []


def test_a_laptop_that_keeps_its_disk_asleep_is_not_stalled(tmp_path: Path) -> None:
    """Wanted: no mail. laptop_mode gathers writes for 5 minutes; the disk takes 12 s to spin up.

    A program is held at the limit until the writes, which wait for the spindle, are done.
    """
    live = Database(tmp_path)
    live._files["/proc/sys/vm/laptop_mode"] = "5\n"
    with watched(tmp_path, live) as host:
        live.rates["sda"] = MB
        host.wait(60)
        live.rates["sda"], live.dirty_pages = 0, 700_000
        mails = host.wait(300)
        live.dirty_pages, live.blocked = 1_010_000, 1
        live.waiting = (("firefox", "balance_dirty_pages", False),)
        live.in_flight["sda"] = live.in_flight["sdb"] = 30
        mails += host.wait(12)
        live.rates["sda"] = live.rates["sdb"] = 90 * MB
        mails += host.wait(40)
        live.rates["sda"] = live.rates["sdb"] = live.dirty_pages = live.blocked = 0
        live.in_flight["sda"] = live.in_flight["sdb"] = 0
        live.waiting = ()
        mails += host.wait(120, 4.0)
    assert subjects(mails) == []


def test_a_slow_stick_that_a_database_waits_for_is_a_stall(tmp_path: Path) -> None:
    """Wanted: one incident of the host, warning, first mail within 40 s; it names sdc, 8 MB/s.

    cp fills the cache with what an USB stick takes in 7 minutes; postgres, whose files are on sdb,
    waits for the same limit. Advice: the stick's share (max_ratio of 8:32), no replacement of a
    disk. All clear once, within 3 minutes of the end.
    """
    live = Database(tmp_path, sdc="8:33 / /media/usb rw,nosuid - vfat /dev/sdc1 rw")
    live._files |= {
        "/sys/block/sdc/removable": "1\n",
        "/media/usb/.statvfs": usage("8:33"),
        "/sys/class/bdi/8:32/max_ratio": "100\n",
        "/sys/class/bdi/8:32/min_ratio": "0\n",
        "/sys/class/bdi/8:16/max_ratio": "100\n",
        "/sys/class/bdi/8:16/min_ratio": "0\n",
    }
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.rates["sdc"], live.in_flight["sdc"] = 8 * MB, 1
        live.dirty_pages, live.blocked = 850_000, 2
        live.waiting = (
            ("cp", "balance_dirty_pages", False),
            ("kworker/u8:1+flush-8:32", "rq_qos_wait", True),
        )
        assert subjects(host.wait(90)) == []
        live.blocked = 5
        live.waiting += tuple(("postgres", "balance_dirty_pages", False) for _ in range(3))
        mails = host.wait(40)
        assert len(mails) == 1
        mails += host.wait(200)
        live.rates["sdc"] = live.in_flight["sdc"] = live.dirty_pages = live.blocked = 0
        live.waiting = ()
        end = host.wait(180)
    assert len(threads(mails)) == 1
    assert len(mails) <= 2
    assert "[WARNING]" in str(mails[0]["Subject"])
    assert "sdc" in text(mails[0])
    assert "/sys/block/sdc/bdi/max_ratio" in text(mails[0])
    assert "smartctl" not in text(mails[0])
    assert len(end) == 1
    assert "[OK]" in str(end[0]["Subject"])


def test_swapping_without_an_end_is_one_mail(tmp_path: Path) -> None:
    """Wanted: one warning of the host 10 to 12 minutes after it began: who uses memory.

    postgres outgrows memory: 20 MB/s go to swap on sda and as much comes back; the page cache is
    gone, nothing stands still. No write stall, no hang, no advice about a disk.
    """
    live = Database(tmp_path)
    live.memory = {"SwapTotal": 8_000_000, "SwapFree": 8_000_000, "Cached": 8_000_000}
    live.counts = {"pswpin": 0, "pswpout": 0, "allocstall_normal": 0, "pgmajfault": 0}
    with watched(tmp_path, live) as host:
        host.wait(60, 2.0)
        live.rates["sda"] = live.reads["sda"] = 20 * MB
        live.in_flight["sda"], live.blocked = 12, 6
        live.memory |= {"Cached": 300_000, "MemAvailable": 400_000}
        mails = []
        for second in range(0, 840, 4):
            for name in ("pswpin", "pswpout", "pgmajfault"):
                live.counts[name] += 20_000
            live.counts["allocstall_normal"] += 800
            live.memory["SwapFree"] = 8_000_000 - min(6_000_000, 80_000 * (second // 4 + 1))
            live.wait(4, 4.0)
            if second in {580, 720}:
                mails.append(host.mails())
        mails.append(host.mails())
    assert [len(each) for each in mails] == [0, 1, 0]
    (mail,) = mails[1]
    assert "[WARNING]" in str(mail["Subject"])
    assert "swap" in str(mail["Subject"]).lower()
    assert "--sort=-rss" in text(mail)
    assert "smartctl" not in text(mail)


def test_compressed_swap_in_memory_is_no_swapping(tmp_path: Path) -> None:
    """Wanted: no mail. All swap is zram: what goes there goes to no disk, for a quarter of an hour."""  # noqa: E501 - one sentence
    live = Database(tmp_path)
    live._files["/proc/swaps"] = (
        "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
        "/dev/zram0                              partition\t8000000\t\t2000000\t\t100\n"
    )
    live._files |= {
        "/sys/block/zram0/slaves": None,
        "/sys/block/zram0/holders": None,
        "/sys/block/zram0/dev": "252:0\n",
        "/sys/block/zram0/size": "16000000\n",
    }
    live.memory = {"SwapTotal": 8_000_000, "SwapFree": 6_000_000}
    live.counts = {"pswpin": 0, "pswpout": 0}
    with watched(tmp_path, live) as host:
        for _ in range(225):
            live.counts["pswpout"] += 20_000
            live.wait(4, 4.0)
        mails = host.mails()
    assert subjects(mails) == []


def test_a_stall_of_reclaim_without_swap_is_one_mail_and_a_dropped_cache_none(
    tmp_path: Path,
) -> None:
    """Wanted: first no mail (somebody drops the cache), then one warning within 45 s, urgent.

    32 GB without swap: in 30 s 3 GB of page cache become free memory while I/O falls from 400 to
    5 MB/s, tasks reclaim for themselves and 40 wait. Advice: who uses memory; never a swap file
    that is not asked for as the first thing, nothing of zone_reclaim (it is 0).
    """
    live = Database(tmp_path)
    live.memory = {"Cached": 20_000_000, "MemFree": 1_000_000, "Shmem": 100_000, "SwapTotal": 0}
    live.memory |= {"SwapFree": 0, "AnonPages": 8_000_000}
    live.counts = {"allocstall_normal": 0, "pgscan_direct": 0, "drop_pagecache": 0}
    with watched(tmp_path, live) as host:
        live.reads["sdb"], live.in_flight["sdb"] = 400 * MB, 4
        host.wait(400, 2.0)
        live.memory |= {"Cached": 10_000_000, "MemFree": 11_000_000}
        live.counts["drop_pagecache"] += 1
        dropped = host.wait(20)
        for _ in range(100):
            live.memory["Cached"] += 100_000
            live.memory["MemFree"] -= 100_000
            live.wait(3, 3.0)
        dropped += host.mails()
        live.reads["sdb"], live.blocked = 5 * MB, 40
        mails = []
        for _ in range(45):
            live.memory["Cached"] -= 100_000
            live.memory["MemFree"] += 100_000
            live.counts["allocstall_normal"] += 70
            live.wait(1)
        mails = host.mails()
    assert subjects(dropped) == []
    assert len(mails) == 1
    assert "[WARNING]" in str(mails[0]["Subject"])
    assert "reclaim" in str(mails[0]["Subject"])
    assert "zone_reclaim_mode" not in text(mails[0])
    assert "fallocate" not in text(mails[0])


def test_reads_beside_writes_that_nobody_declared_are_no_mail(tmp_path: Path) -> None:
    """Wanted: no mail: 40 MB/s written, 45 read, 3000 faults a second, not learnt as write-mostly."""  # noqa: E501 - one sentence
    live = Database(tmp_path)
    live.memory = {"MemAvailable": 1_500_000}
    live.counts = {"pgmajfault": 0, "workingset_refault_file": 0}
    with watched(tmp_path, live) as host:
        host.wait(60, 2.0)
        live.rates["sdb"], live.reads["sdb"], live.in_flight["sdb"] = 40 * MB, 45 * MB, 3
        for _ in range(150):
            live.counts["pgmajfault"] += 12_000
            live.counts["workingset_refault_file"] += 20_000
            live.wait(4, 4.0)
        mails = host.mails()
    assert subjects(mails) == []


def test_a_program_killed_for_lack_of_memory_is_one_warning_that_accuses_no_disk(
    tmp_path: Path,
) -> None:
    """Wanted: one mail that names the program; the kernel's other lines on it say nothing."""
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.kernel.says(
            "postgres invoked oom-killer: gfp_mask=0x1100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0",  # noqa: E501 - as the kernel prints it
            "Mem-Info:",
            "active_anon:1 inactive_anon:7700000 isolated_anon:0",
            "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/system.slice/postgresql.service,task=postgres,pid=4711,uid=105",
            "Out of memory: Killed process 4711 (postgres) total-vm:31000000kB, anon-rss:29000000kB, file-rss:0kB, shmem-rss:0kB, UID:105 pgtables:60000kB oom_score_adj:0",  # noqa: E501 - as the kernel prints it
        )
        mails = host.wait(120)
    assert subjects(mails) == ["[WARNING] the kernel killed postgres for lack of memory"]
    assert "sda" not in text(mails[0])


def test_a_thread_of_the_kernel_that_hangs_is_one_critical_mail(tmp_path: Path) -> None:
    """Wanted: one critical mail within 15 s that names the thread; no disk is accused."""
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.blocked = 1
        live.waiting = (("jbd2/sda1-8", "jbd2_journal_commit_transaction", True),)
        live.kernel.says(
            "INFO: task jbd2/sda1-8:331 blocked for more than 120 seconds.",
            "      Not tainted 6.1.0-28-amd64 #1 Debian 6.1.119-1",
            '"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.',
            "task:jbd2/sda1-8     state:D stack:0     pid:331   ppid:2      flags:0x00004000",
        )
        live.change({"/proc/sys/kernel/hung_task_warnings": "9\n"})
        mails = host.wait(15)
        later = host.wait(300)
    assert len(mails) == 1
    assert "[CRITICAL]" in str(mails[0]["Subject"])
    assert "jbd2/sda1-8" in text(mails[0])
    assert "mdadm" not in text(mails[0])
    assert len(later) == 0


def test_forty_processes_on_one_mount_whose_server_is_away(tmp_path: Path) -> None:
    """Wanted: one thread, at most 3 mails, each naming nas1; the server returns after 20 minutes.

    40 programs hang, the kernel names ten of them and then is silent. No disk is named as the
    cause, and nothing tells to unmount by force. After the return at most one mail, an all clear.
    """
    live = Database(tmp_path)
    live.mount("30 25 0:45 / /mnt/nas rw,relatime - nfs4 nas1:/export rw,vers=4.2,hard")
    with watched(tmp_path, live) as host:
        host.wait(60)
        live.blocked = 40
        live.waiting = tuple(("rsync", "rpc_wait_bit_killable", False) for _ in range(40))
        live.wait(60)
        live.kernel.says("nfs: server nas1 not responding, still trying")
        mails = host.wait(4)
        assert len(mails) == 1
        assert "and 39 more wait for it" in text(mails[0])
        mails += host.wait(66)
        for number in range(10):
            live.kernel.says(
                f"INFO: task rsync:{5000 + number} blocked for more than 120 seconds.",
                "      Not tainted 6.1.0-28-amd64 #1 Debian 6.1.119-1",
            )
            live.change({"/proc/sys/kernel/hung_task_warnings": f"{9 - number}\n"})
        mails += host.wait(1000, 20.0)
        live.kernel.says("nfs: server nas1 OK", priority=5)
        live.blocked, live.waiting = 0, ()
        end = host.wait(1500, 20.0)
    assert len(threads([*mails, *end])) == 1
    assert len(mails) <= 3
    assert all("nas1" in subject for subject in subjects(mails))
    assert all("sdb" not in text(mail) for mail in mails)
    assert "/mnt/nas (nfs4) is on nas1" in text(mails[0])
    assert all("umount -f" not in text(mail) for mail in mails)
    assert all("[OK]" in subject or "[RESOLVED]" in subject for subject in subjects(end))
    assert len(end) <= 1


def test_a_laptop_that_sleeps_a_night_during_a_copy(tmp_path: Path) -> None:
    """Wanted: no mail: 8 hours of the wall clock, none of the other; requests were in flight."""
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        live.rates["sdb"], live.in_flight["sdb"] = 90 * MB, 20
        live.dirty_pages, live.blocked = 700_000, 1
        live.waiting = (("cp", "balance_dirty_pages", False),)
        mails = host.wait(60)
        live.rates["sdb"] = 0
        live.wait(2)
        live.leap(1.0, 8 * 3600.0)
        live.wait(3)
        live.rates["sdb"] = 90 * MB
        mails += host.wait(60)
        live.rates["sdb"] = live.in_flight["sdb"] = live.dirty_pages = live.blocked = 0
        live.waiting = ()
        mails += host.wait(200, 4.0)
    assert subjects(mails) == []


def test_a_clock_set_back_an_hour_while_all_is_well(tmp_path: Path) -> None:
    """Wanted: no mail in the two hours after it: nothing is silent, too old, or from the future."""
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        live.rates["sdb"] = MB
        mails = host.wait(60, 2.0)
        live.leap(1.0, -3600.0)
        mails += host.wait(1200, 4.0)
    assert subjects(mails) == []


def test_a_restart_in_the_middle_of_a_write_stall_reports_nothing_anew(tmp_path: Path) -> None:
    """Wanted: two mails before, none after the restart; one all clear, with the whole length.

    The second mail before it: programs have been blocked for a minute, which is critical.
    """
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        live.rates["sdb"], live.in_flight["sdb"] = 2 * MB, 8
        host.wait(60)
        live.dirty_pages, live.blocked = 850_000, 6
        live.waiting = (
            ("cp", "balance_dirty_pages", False),
            *(("postgres", "jbd2_log_wait_commit", False) for _ in range(5)),
        )
        before = host.wait(90)
        host.restart()
        after = host.wait(120)
        live.rates["sdb"] = live.in_flight["sdb"] = live.dirty_pages = live.blocked = 0
        live.waiting = ()
        end = host.wait(900)
    assert len(before) == 2
    assert subjects(after) == []
    assert len(end) == 1
    assert "[OK]" in str(end[0]["Subject"])
    assert threads([*before, *end]) == threads(before)


def test_a_file_of_rules_that_is_broken_during_a_hang(tmp_path: Path) -> None:
    """Wanted: the hang's own two mails, a warning that this file is not loaded, and no rule lost.

    The file is a second incident, that of iowarden; the hang's all clear comes all the
    same.
    """
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        live.rates["sdb"] = MB
        host.wait(60)
        live.rates["sdb"], live.in_flight["sdb"] = 0, 7
        mails = host.wait(15)
        rules = tmp_path / "rules.d"
        rules.mkdir(exist_ok=True)
        (rules / "mine.yaml").write_text("groups: [{name: mine, rules: [{alert: A, expr: '1 +'}]}]")
        host.program.hang_up()
        mails += host.wait(100)
        live.rates["sdb"], live.in_flight["sdb"] = MB, 0
        end = host.wait(200)
    assert len(mails) == 3
    assert len(threads(mails)) == 2
    (refused,) = (mail for mail in mails if "in rule file" in str(mail["Subject"]))
    assert "'mine.yaml':1:52: group 'mine', rule 1, 'A': expr: could not parse" in text(refused)
    assert [subject for subject in subjects(end) if "sdb" in subject and "[OK]" in subject]


def test_a_mail_server_that_defers_all_during_a_hang(tmp_path: Path) -> None:
    """Wanted: when it takes mails again, after the hang, the reader has at most two, in one thread.

    The last is the end; nothing says that sdb hangs as if it still did.
    """
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        live.rates["sdb"] = MB
        host.wait(60)
        host.answers.sender = "451 4.3.0 try again later"
        live.rates["sdb"], live.in_flight["sdb"] = 0, 7
        host.wait_only(120)
        live.rates["sdb"], live.in_flight["sdb"] = MB, 0
        host.wait_only(300)
        host.answers.sender = ""
        live.wait(1800, 20.0)
        mails = host.mails()
    assert 1 <= len(mails) <= 2
    assert len(threads(mails)) == 1
    assert "[OK]" in str(mails[-1]["Subject"])


def test_a_user_s_rule_with_the_label_condition_is_heard_during_a_write_stall(
    tmp_path: Path,
) -> None:
    """Wanted: a critical mail of its own at once: condition: Database-down is a label like others.

    It names no device, so it stands in the host's incident, as the stall does.
    """
    live = Database(tmp_path)
    rules = tmp_path / "rules.d"
    rules.mkdir(exist_ok=True)
    (rules / "mine.yaml").write_text(
        RULE.replace("SEVERITY", "critical").replace("X1", "Database-down")
    )
    with watched(tmp_path, live) as host:
        live.rates["sdb"], live.in_flight["sdb"] = 2 * MB, 8
        host.wait(60)
        live.dirty_pages, live.blocked = 850_000, 6
        live.waiting = (
            ("cp", "balance_dirty_pages", False),
            *(("postgres", "jbd2_log_wait_commit", False) for _ in range(5)),
        )
        stall = host.wait(90)
        live.change({"/proc/sys/vm/laptop_mode": "5\n"})
        own = host.wait(90)
    assert len(stall) == 2
    assert len(own) == 1
    assert "the disk is kept asleep" in str(own[0]["Subject"]) + text(own[0])
    assert "[CRITICAL]" in str(own[0]["Subject"])


def test_a_storm_in_the_kernels_log_is_one_incident(tmp_path: Path) -> None:
    """Wanted: one thread, at most 3 mails in 10 minutes, critical: 4000 lines in 20 s name sdb.

    All are counted.
    """
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(60)
        mails = []
        for second in range(20):
            live.kernel.says(
                *(
                    f"I/O error, dev sdb, sector {200 * second + number} op 0x0:(READ)"
                    " flags 0x80700 phys_seg 1 prio class 2"
                    for number in range(200)
                )
            )
        mails = host.wait(600, 20.0)
        counted = host.program.metrics()[
            'iowarden_kernel_events_total{device="sdb",kind="block_io_error"}'
        ]
    assert len(threads(mails)) == 1
    assert len(mails) <= 3
    assert "sdb" in str(mails[0]["Subject"])
    assert "[CRITICAL]" in str(mails[-1]["Subject"])
    assert counted == 4000


def test_a_host_of_three_hundred_containers_has_one_full_file_system(tmp_path: Path) -> None:
    """Wanted: one mail that names /srv: 300 overlay mounts lie on it and are as full as it is."""
    live = Database(tmp_path)
    for number in range(300):
        at = f"/srv/docker/overlay2/{number:064x}/merged"
        live.mount(
            f"{100 + number} 26 0:{60 + number} / {at} rw,relatime - overlay overlay"
            f" rw,lowerdir=/srv/docker/l/A{number},upperdir=/srv/docker/d/{number}"
        )
        live._files[f"{at}/.statvfs"] = usage(f"0:{60 + number}", free=2_000_000)
    with watched(tmp_path, live) as host:
        host.wait(12, 4.0)
        live.change({"/srv/.statvfs": usage("8:17", free=1_000_000)})
        mails = host.wait(300, 4.0)
    assert len(mails) == 1
    assert "/srv" in str(mails[0]["Subject"]) + text(mails[0])
    assert "overlay2" not in text(mails[0])
