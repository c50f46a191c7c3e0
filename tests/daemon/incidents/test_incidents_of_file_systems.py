"""Incidents of file systems, pools, network mounts and drives, played through the whole service.

Each was written down, with what is wanted, before it was played.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.database import Database, drive, self_tests, subjects, threads, usage
from support.live import text, watched

from iowarden.collectors.machine import probe_path
from iowarden.collectors.smart.drive import ReadStatus

if TYPE_CHECKING:
    from pathlib import Path

UUID = "3a1b9c52-1f0e-4d54-9a0b-2f7c3c9d1e77"
QUICK = "smart: {interval: 5m}\n"
"""So that hours of drives are played in minutes."""


def stats(**counts: int) -> str:
    """Return what btrfs counts of a device."""
    names = ("write_errs", "read_errs", "flush_errs", "corruption_errs", "generation_errs")
    return "".join(f"{name} {counts.get(name, 0)}\n" for name in names)


def test_ext4_is_remounted_read_only_after_an_error_of_its_own(tmp_path: Path) -> None:
    """Wanted: one critical mail within 15 s, no further one in 10 minutes, /srv named.

    A bitmap is wrong; the disk is well. Advice: unmount and e2fsck -f, after a backup; never to
    mount it writable again as a command.
    """
    live = Database(tmp_path)
    live.mounts["sdb"] = "26 25 8:17 / /srv rw,relatime - ext4 /dev/sdb1 rw,errors=remount-ro"
    live._files |= {
        "/sys/fs/ext4/sdb1/errors_count": "0\n",
        "/sys/fs/ext4/sdb1/warning_count": "0\n",
    }
    with watched(tmp_path, live) as host:
        host.wait(20)
        live.mounts["sdb"] = live.mounts["sdb"].replace(" rw,errors", " ro,errors")
        live.kernel.says(
            "EXT4-fs error (device sdb1): ext4_validate_block_bitmap:390: comm postgres: bg 12: bad block bitmap checksum",  # noqa: E501 - as the kernel prints it
            "Aborting journal on device sdb1-8.",
            "EXT4-fs (sdb1): Remounting filesystem read-only",
        )
        live.change({"/sys/fs/ext4/sdb1/errors_count": "1\n"})
        mails = host.wait(12)
        later = host.wait(600, 20.0)
    assert len(mails) == 1
    assert subjects(later) == []
    assert "[CRITICAL]" in str(mails[0]["Subject"])
    assert "/srv" in str(mails[0]["Subject"]) + text(mails[0])
    assert "e2fsck -f" in text(mails[0])
    assert "remount,rw" not in text(mails[0])


def test_ext4_that_aborted_its_journal_is_not_read_only_by_a_command(tmp_path: Path) -> None:
    """Wanted: one critical mail within 15 s; no 'a command', no remount,rw, also 10 minutes later.

    Mount and file system both show 'ro', as after 'mount -o remount,ro'; '/etc/fstab' has 'rw'.
    """
    live = Database(tmp_path)
    live.mounts["sdb"] = "26 25 8:17 / /srv rw,relatime - ext4 /dev/sdb1 rw,errors=remount-ro"
    live._files["/etc/fstab"] = "/dev/sda1 / ext4 defaults 0 1\n/dev/sdb1 /srv ext4 defaults 0 2\n"
    with watched(tmp_path, live) as host:
        host.wait(20)
        live.mounts["sdb"] = "26 25 8:17 / /srv ro,relatime - ext4 /dev/sdb1 ro,errors=remount-ro"
        live.kernel.says(
            "Aborting journal on device sdb1-8.",
            "EXT4-fs error (device sdb1): ext4_journal_check_start:83: comm postgres: Detected aborted journal",  # noqa: E501 - as the kernel prints it
        )
        mails = host.wait(12)
        later = host.wait(600, 20.0)
    assert "[CRITICAL]" in str(mails[0]["Subject"])
    assert "/srv" in text(mails[0])
    for mail in (*mails, *later):
        assert "remount,rw" not in text(mail)
        assert "A command" not in text(mail)
    assert all("FilesystemUnexpectedReadOnly" not in text(mail) for mail in later)


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("ext4", ("Aborting journal on device sdb1-8.",)),
        ("xfs", ("XFS (sdb1): Filesystem has been shut down due to log error (0x2).",)),
    ],
)
def test_a_file_system_that_the_kernel_stopped_is_no_news_after_a_restart(
    tmp_path: Path, kind: str, lines: tuple[str, ...]
) -> None:
    """Wanted: one critical mail, and no more: of no restart, also after a day without iowarden.

    Somebody mounted it read-only after the error. It was mailed as REOPENED, a day later as OK, and
    then as mounted so by a command.
    """
    live = Database(tmp_path)
    live.mounts["sdb"] = f"26 25 8:17 / /srv rw,relatime - {kind} /dev/sdb1 rw"
    live._files["/etc/fstab"] = f"/dev/sdb1 /srv {kind} defaults 0 2\n"
    with watched(tmp_path, live) as host:
        host.wait(20)
        live.mounts["sdb"] = f"26 25 8:17 / /srv ro,relatime - {kind} /dev/sdb1 ro"
        live.kernel.says(*lines)
        (mail,) = host.wait(12)
        assert "[CRITICAL]" in mail["Subject"]
        for away_seconds in (2.0, 90_000.0):
            assert host.program.end() == 0
            live.leap(away_seconds, away_seconds)
            host.start_again()
            assert subjects(host.wait(700, 20.0)) == []
        status = host.program.command("status").stdout
    assert "/srv is read-only: the kernel made it so" in status


def test_xfs_finds_its_metadata_damaged_and_shuts_down(tmp_path: Path) -> None:
    """Wanted: one critical mail within 15 s; xfs_repair after unmounting, first with -n, never -L.

    No error of the disk: memory, cable or controller may have changed data.
    """
    live = Database(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(20)
        live.mounts["sdb"] = live.mounts["sdb"].replace("/dev/sdb1 rw", "/dev/sdb1 rw,shutdown")
        live.kernel.says(
            "XFS (sdb1): Metadata corruption detected at xfs_agf_read_verify+0x10b/0x150 [xfs], xfs_agf block 0x1",  # noqa: E501 - as the kernel prints it
            "XFS (sdb1): Unmount and run xfs_repair",
            "XFS (sdb1): First 128 bytes of corrupted metadata buffer:",
            'XFS (sdb1): metadata I/O error in "xfs_read_agf+0x88/0x110 [xfs]" at daddr 0x1 len 1 error 117',  # noqa: E501 - as the kernel prints it
            "XFS (sdb1): Corruption of in-memory data (0x8) detected at xfs_defer_finish_noroll+0x3f2/0x5c0 [xfs] (fs/xfs/libxfs/xfs_defer.c:573).  Shutting down filesystem.",  # noqa: E501 - as the kernel prints it
            "XFS (sdb1): Please unmount the filesystem and rectify the problem(s)",
            priority=1,
        )
        mails = host.wait(12)
        later = host.wait(600, 20.0)
    assert len(mails) == 1
    assert subjects(later) == []
    assert "[CRITICAL]" in str(mails[0]["Subject"])
    assert "xfs_repair -n" in text(mails[0])
    assert "xfs_repair -L" not in text(mails[0])


def test_btrfs_reads_a_wrong_block_from_its_second_copy(tmp_path: Path) -> None:
    """Wanted: one incident, named by pool and sdc, first mail within 90 s, no second for ten minutes.

    raid1 of sdc1 and sdd1; a checksum is wrong on sdc1, the copy on sdd1 repaired it. Advice: btrfs
    device stats and a scrub that only reads (-r) first, then SMART of sdc; never --repair, and no
    restore from a backup as if a file were lost.
    """  # noqa: E501 - the first line is one sentence
    live = Database(
        tmp_path, sdc="0:50 / /pool rw,relatime - btrfs /dev/sdc1 rw,subvolid=5", sdd=""
    )
    base = f"/sys/fs/btrfs/{UUID}"
    live._files |= {
        f"{base}/label": "pool\n",
        f"{base}/devices/sdc1": None,
        f"{base}/devices/sdd1": None,
        "/pool/.statvfs": usage("0:50"),
    }
    for number in (1, 2):
        live._files |= {
            f"{base}/devinfo/{number}/missing": "0\n",
            f"{base}/devinfo/{number}/error_stats": stats(),
        }
    with watched(tmp_path, live) as host:
        host.wait(20)
        live.kernel.says(
            "BTRFS warning (device sdc1): csum failed root 5 ino 257 off 4096 csum 0x8941f998 expected csum 0x2d8ee1f9 mirror 1",  # noqa: E501 - as the kernel prints it
            "BTRFS error (device sdc1): bdev /dev/sdc1 errs: wr 0, rd 0, flush 0, corrupt 1, gen 0",
            "BTRFS info (device sdc1): read error corrected: ino 257 off 4096 (dev /dev/sdc1 sector 27136)",  # noqa: E501 - as the kernel prints it
        )
        live.change({f"{base}/devinfo/1/error_stats": stats(corruption_errs=1)})
        mails = host.wait(90)
        later = host.wait(600, 20.0)
    assert len(threads(mails)) == 1
    assert len(mails) == 1
    assert subjects(later) == []
    said_there = text(mails[0])
    assert "sdc" in said_there
    assert "btrfs device stats" in said_there
    assert "btrfs scrub start -r" in said_there
    assert said_there.index("btrfs scrub start -r") > said_there.index("btrfs device stats")
    assert "--repair" not in said_there


def test_the_first_device_of_a_btrfs_is_not_blamed_for_the_other(tmp_path: Path) -> None:
    """Wanted: one critical mail within 60 s about /pool and sdd, none that tells to replace sdc.

    raid1 of sdc1 and sdd1, 'device sdc1' in each line; sdd1 is corrupt, and no line corrects it.
    sdc has the only good copy.
    """
    live = Database(
        tmp_path, sdc="0:50 / /pool rw,relatime - btrfs /dev/sdc1 rw,subvolid=5", sdd=""
    )
    base = f"/sys/fs/btrfs/{UUID}"
    live._files |= {
        f"{base}/label": "pool\n",
        f"{base}/devices/sdc1": None,
        f"{base}/devices/sdd1": None,
        "/pool/.statvfs": usage("0:50"),
    }
    for number in (1, 2):
        live._files |= {
            f"{base}/devinfo/{number}/missing": "0\n",
            f"{base}/devinfo/{number}/error_stats": stats(),
        }
    with watched(tmp_path, live) as host:
        host.wait(20)
        live.kernel.says(
            "BTRFS warning (device sdc1): csum failed root 5 ino 257 off 4096 csum 0x8941f998 expected csum 0x2d8ee1f9 mirror 1",  # noqa: E501 - as the kernel prints it
            "BTRFS error (device sdc1): bdev /dev/sdd1 errs: wr 0, rd 0, flush 0, corrupt 1, gen 0",
        )
        live.change({f"{base}/devinfo/2/error_stats": stats(corruption_errs=1)})
        mails = host.wait(60)
    assert len(threads(mails)) == 1
    assert "[CRITICAL]" in "".join(subjects(mails))
    assert all("sdc" not in subject for subject in subjects(mails))
    read = "".join(map(text, mails))
    assert "/pool" in read
    assert "sdd" in read
    assert "which of its disks is at fault" in read
    assert "Replace or remove no disk before these counts show which one has the errors" in read
    assert "smartctl -x /dev/sdc" not in read


def test_btrfs_has_no_second_copy_of_a_wrong_block(tmp_path: Path) -> None:
    """Wanted: one critical mail within 60 s: a file of /pool cannot be read, by inode.

    Advice: btrfs device stats, a scrub that only reads, then the file from a backup; no --repair.
    """
    live = Database(tmp_path, sdc="0:50 / /pool rw,relatime - btrfs /dev/sdc1 rw,subvolid=5")
    live._files |= {
        f"/sys/fs/btrfs/{UUID}/label": "\n",
        f"/sys/fs/btrfs/{UUID}/devices/sdc1": None,
        f"/sys/fs/btrfs/{UUID}/devinfo/1/missing": "0\n",
        f"/sys/fs/btrfs/{UUID}/devinfo/1/error_stats": stats(),
        "/pool/.statvfs": usage("0:50"),
    }
    with watched(tmp_path, live) as host:
        host.wait(20)
        for count in (1, 2, 3):
            live.kernel.says(
                "BTRFS warning (device sdc1): csum failed root 5 ino 257 off 4096 csum 0x8941f998 expected csum 0x2d8ee1f9 mirror 1",  # noqa: E501 - as the kernel prints it
                f"BTRFS error (device sdc1): bdev /dev/sdc1 errs: wr 0, rd 0, flush 0, corrupt {count}, gen 0",  # noqa: E501 - as the kernel prints it
            )
            live.change(
                {f"/sys/fs/btrfs/{UUID}/devinfo/1/error_stats": stats(corruption_errs=count)}
            )
        mails = host.wait(60)
        later = host.wait(600, 20.0)
    assert len(mails) == 1
    assert subjects(later) == []
    assert "[CRITICAL]" in str(mails[0]["Subject"])
    said_there = text(mails[0])
    assert "btrfs device stats" in said_there
    assert "btrfs scrub start -r" in said_there
    assert "backup" in said_there
    assert "--repair" not in said_there


def test_the_half_of_a_btrfs_mirror_that_was_pulled(tmp_path: Path) -> None:
    """Wanted: one thread, at most 2 mails, first 'sdd disappeared' within 10 s; no data are lost.

    raid1 of sdc1 and sdd1: the kernel cannot write sdd1's super block any more, which is no data.
    """
    live = Database(
        tmp_path, sdc="0:50 / /pool rw,relatime - btrfs /dev/sdc1 rw,subvolid=5", sdd=""
    )
    base = f"/sys/fs/btrfs/{UUID}"
    live._files |= {
        f"{base}/label": "pool\n",
        f"{base}/devices/sdc1": None,
        f"{base}/devices/sdd1": None,
        f"{base}/devinfo/2/missing": "0\n",
        f"{base}/devinfo/2/error_stats": stats(),
        "/pool/.statvfs": usage("0:50"),
    }
    with watched(tmp_path, live) as host:
        host.wait(20)
        live.pull("sdd", 3)
        mails = host.wait(8)
        assert "disappeared" in str(mails[0]["Subject"])
        live.kernel.says(
            "BTRFS error (device sdc1): bdev /dev/sdd1 errs: wr 1, rd 0, flush 0, corrupt 0, gen 0",
            "BTRFS warning (device sdc1): lost page write due to IO error on /dev/sdd1 (-5)",
        )
        live.change({f"{base}/devinfo/2/error_stats": stats(write_errs=2)})
        mails += host.wait(300, 20.0)
    assert len(threads(mails)) == 1
    assert len(mails) <= 2
    assert all("are lost" not in subject for subject in subjects(mails))


def test_f2fs_stops_after_an_error(tmp_path: Path) -> None:
    """Wanted: one critical mail within 15 s for sdc1, with fsck.f2fs, never e2fsck."""
    live = Database(tmp_path, sdc="8:33 / /data rw,relatime - f2fs /dev/sdc1 rw,errors=remount-ro")
    live._files["/data/.statvfs"] = usage("8:33")
    with watched(tmp_path, live) as host:
        host.wait(20)
        live.mounts["sdc"] = live.mounts["sdc"].replace("/dev/sdc1 rw,", "/dev/sdc1 ro,")
        live.kernel.says(
            "F2FS-fs (sdc1): inconsistent node block, nid:4711, node_footer[nid:0,ino:0,ofs:0,cpver:0,blkaddr:0]",  # noqa: E501 - as the kernel prints it
            "F2FS-fs (sdc1): Stopped filesystem due to reason: 3",
            "F2FS-fs (sdc1): Remounting filesystem read-only",
            priority=4,
        )
        mails = host.wait(12)
        later = host.wait(600, 20.0)
    assert len(mails) == 1
    assert subjects(later) == []
    assert "[CRITICAL]" in str(mails[0]["Subject"])
    assert "fsck.f2fs" in text(mails[0])
    assert "e2fsck" not in text(mails[0])


def test_a_file_system_without_inodes_that_has_space(tmp_path: Path) -> None:
    """Wanted: one thread, at most 2 mails, the last critical; inodes are named, and du --inodes.

    A mail queue makes files until none can be made; space is free all the time. All clear once.
    """
    live = Database(tmp_path)
    live.mounts["sdb"] = "26 25 8:17 / /srv rw,relatime - ext4 /dev/sdb1 rw"
    with watched(tmp_path, live) as host:
        host.wait(20)
        mails = []
        for left in (1_200_000, 900_000, 200_000, 0):
            live.change({"/srv/.statvfs": usage("8:17", files_free=left)})
            mails += host.wait(200, 4.0)
        live.change({"/srv/.statvfs": usage("8:17")})
        end = host.wait(3600, 20.0)
    assert len(threads(mails)) == 1
    assert 1 <= len(mails) <= 2
    assert "[CRITICAL]" in str(mails[-1]["Subject"])
    assert "% of its in" in str(mails[-1]["Subject"])
    assert "% of its inodes" in text(mails[-1])
    assert "du -x --inodes" in text(mails[-1])
    assert [subject[:4] for subject in subjects(end)] == ["[OK]"]


def thin(live: Database) -> None:
    """Put a thin pool on sdc1, and on it a volume with XFS."""
    for dm, name, uuid in (
        ("dm-0", "vg-pool_tmeta", "LVM-a-tmeta"),
        ("dm-1", "vg-pool_tdata", "LVM-a-tdata"),
        ("dm-2", "vg-pool-tpool", "LVM-a-tpool"),
        ("dm-3", "vg-db", "LVM-a-db"),
    ):
        base = f"/sys/block/{dm}"
        live._files |= {
            f"{base}/dm/name": f"{name}\n",
            f"{base}/dm/uuid": f"{uuid}\n",
            f"{base}/dm/suspended": "0\n",
            f"{base}/size": "1953000000\n",
            f"{base}/dev": f"253:{dm[3:]}\n",
            f"{base}/holders": None,
            f"{base}/ro": "0\n",
        }
    for below, above in (
        ("sdc/sdc1", "dm-0"),
        ("sdc/sdc1", "dm-1"),
        ("dm-0", "dm-2"),
        ("dm-1", "dm-2"),
        ("dm-2", "dm-3"),
    ):
        live._files[f"/sys/block/{below}/holders/{above}"] = None
        live._files[f"/sys/block/{above}/slaves/{below.rpartition('/')[2]}"] = None
    live.mount("40 25 253:3 / /db rw,relatime - xfs /dev/mapper/vg-db rw")
    live._files["/db/.statvfs"] = usage("253:3")


def test_a_thin_pool_without_space_for_data(tmp_path: Path) -> None:
    """Wanted: one thread; critical within 10 s of 'out-of-data-space', at most 3 mails; no disk.

    A minute later the pool errors what waits and XFS on it shuts down: at once, in the same thread.
    Advice: lvs with data_percent, lvextend; no smartctl, and no repair before the pool has space.
    """
    live = Database(tmp_path, sdc="")
    thin(live)
    with watched(tmp_path, live) as host:
        host.wait(20)
        live.kernel.says(
            "device-mapper: thin: 253:2: reached low water mark for data device: sending event.",
            priority=4,
        )
        live.wait(20)
        live.kernel.says(
            "device-mapper: thin: 253:2: switching pool to out-of-data-space (queue IO) mode",
            priority=4,
        )
        mails = host.wait(10)
        assert len(mails) == 1
        assert "[CRITICAL]" in str(mails[0]["Subject"])
        live.wait(50)
        live.mounts["/db"] = "40 25 253:3 / /db rw,relatime - xfs /dev/mapper/vg-db rw,shutdown"
        live.kernel.says(
            "device-mapper: thin: 253:2: switching pool to out-of-data-space (error IO) mode",
            "XFS (dm-3): log I/O error -28",
            "XFS (dm-3): Filesystem has been shut down due to log error (0x2).",
            "XFS (dm-3): Please unmount the filesystem and rectify the problem(s).",
            priority=1,
        )
        further = host.wait(10)
        later = host.wait(600, 20.0)
    assert len(threads([*mails, *further, *later])) == 1
    assert len(further) == 1
    assert len(later) <= 1
    assert "data_percent" in text(mails[0])
    assert "lvextend" in text(mails[0])
    assert "smartctl" not in text(mails[0])
    assert "vg-pool-tpool has no space left" in text(further[0])
    assert "xfs_repair" not in text(further[0])


def test_a_thin_pool_without_space_for_metadata(tmp_path: Path) -> None:
    """Wanted: one critical mail within 15 s about the pool, with metadata_percent; no disk accused."""  # noqa: E501 - one sentence
    live = Database(tmp_path, sdc="")
    thin(live)
    with watched(tmp_path, live) as host:
        host.wait(20)
        live.kernel.says(
            "device-mapper: space map metadata: unable to allocate new metadata block",
            "device-mapper: thin: 253:2: metadata operation 'dm_thin_insert_block' failed: error = -28",  # noqa: E501 - as the kernel prints it
            "device-mapper: thin: 253:2: aborting current metadata transaction",
            "device-mapper: thin: 253:2: switching pool to read-only mode",
        )
        mails = host.wait(12)
        later = host.wait(600, 20.0)
    assert len(mails) == 1
    assert subjects(later) == []
    assert "[CRITICAL]" in str(mails[0]["Subject"])
    assert "metadata_percent" in text(mails[0])
    assert "smartctl" not in text(mails[0])


def test_a_soft_mount_whose_server_times_out(tmp_path: Path) -> None:
    """Wanted: one warning within 90 s that names nas1 and no disk; programs got errors."""
    live = Database(tmp_path)
    live.mount("30 25 0:45 / /mnt/nas rw,relatime - nfs nas1:/export rw,vers=3,soft,timeo=50")
    with watched(tmp_path, live) as host:
        host.wait(20)
        for _ in range(3):
            live.kernel.says("nfs: server nas1 not responding, timed out", priority=5)
            live.wait(15)
        mails = host.wait(60)
        later = host.wait(300, 20.0)
    assert len(mails) == 1
    assert subjects(later) == []
    assert "[WARNING]" in str(mails[0]["Subject"])
    assert "nas1" in str(mails[0]["Subject"])
    assert "sdb" not in text(mails[0])


def test_a_windows_share_whose_server_is_away(tmp_path: Path) -> None:
    """Wanted: one warning within 90 s that names nas1, of the network; no disk is named."""
    live = Database(tmp_path)
    live.mount("30 25 0:46 / /mnt/share rw,relatime - cifs //nas1/share rw,vers=3.1.1,hard")
    with watched(tmp_path, live) as host:
        host.wait(20)
        live.blocked = 3
        live.waiting = tuple(("rsync", "wait_for_response", False) for _ in range(3))
        live.kernel.says(
            r"CIFS: VFS: \x5c\x5cnas1 has not responded in 180 seconds. Reconnecting..."
        )
        mails = host.wait(90)
        live.blocked, live.waiting = 0, ()
        later = host.wait(300, 20.0)
    assert len(mails) == 1
    assert subjects(later) == []
    assert "nas1" in str(mails[0]["Subject"])
    assert "/mnt/share (cifs) is on nas1" in text(mails[0])
    assert "sdb" not in text(mails[0])


def test_a_bridge_that_aborts_and_resets_again_and_again(tmp_path: Path) -> None:
    """Wanted: one thread for sdc, first a warning within 75 s, at most 3 mails in 10 minutes.

    A disk behind a USB bridge; uas aborts commands and resets the port each minute. Advice: cable,
    port, power; nothing of mdadm, of arrays, or of scterc, which no bridge passes on.
    """
    live = Database(tmp_path, sdc="8:33 / /backup rw,relatime - ext4 /dev/sdc1 rw")
    live._files |= {
        "/sys/class/scsi_host/host2/proc_name": "uas\n",
        "/backup/.statvfs": usage("8:33"),
    }
    with watched(tmp_path, live) as host:
        host.wait(20)
        mails = []
        for _ in range(8):
            live.kernel.says(
                "sd 2:0:0:0: [sdc] tag#7 uas_eh_abort_handler 0 uas-tag 8 inflight: CMD OUT",
                "sd 2:0:0:0: [sdc] tag#7 CDB: Write(10) 2a 00 00 12 d6 87 00 04 00 00",
                priority=6,
            )
            live.kernel.says("scsi host2: uas_eh_device_reset_handler start", priority=6)
            live.kernel.says(
                "usb 2-1: reset SuperSpeed USB device number 3 using xhci_hcd", priority=6
            )
            live.kernel.says("scsi host2: uas_eh_device_reset_handler success", priority=6)
            mails += host.wait(72, 4.0)
    assert mails
    assert len(threads(mails)) == 1
    assert len(mails) <= 3
    assert "sdc" in str(mails[0]["Subject"])
    assert "scterc" not in text(mails[0])
    assert "mdadm" not in text(mails[0])


def test_sectors_become_unreadable_and_are_rewritten(tmp_path: Path) -> None:
    """Wanted: a warning at 2 pending sectors, critical at 20, all clear once none is pending.

    sdb, read each 5 minutes. One thread, at most 3 mails before the end; the mail names sdb's
    serial number. Two readings in a row are needed for the first.
    """
    live = Database(tmp_path)
    live._files |= drive("sda") | drive("sdb")
    with watched(tmp_path, live, settings=QUICK) as host:
        mails = host.wait(900, 20.0)
        assert subjects(mails) == []
        for pending in (2, 8, 20):
            live.change(drive("sdb", raw={197: pending}))
            mails += host.wait(1200, 20.0)
        live.change(drive("sdb", raw={197: 0, 5: 0}))
        end = host.wait(1500, 20.0)
    assert "[WARNING]" in str(mails[0]["Subject"])
    assert "[CRITICAL]" in str(mails[-1]["Subject"])
    assert len(mails) <= 3
    assert len(threads(mails)) == 1
    assert "S-sdb" in text(mails[0])
    assert [subject[:4] for subject in subjects(end)] == ["[OK]"]


def test_an_extended_self_test_fails_at_a_sector(tmp_path: Path) -> None:
    """Wanted: one critical mail that names the sector; none again while the log stays as it is."""
    live = Database(tmp_path)
    live._files |= drive("sda") | drive("sdb", ata_smart_self_test_log=self_tests(True, True))
    with watched(tmp_path, live, settings=QUICK) as host:
        host.wait(900, 20.0)
        live.change(drive("sdb", ata_smart_self_test_log=self_tests(False, True, True)))
        mails = host.wait(1200, 20.0)
        later = host.wait(4000, 100.0)
    assert len(mails) == 1
    assert subjects(later) == []
    assert "[CRITICAL]" in str(mails[0]["Subject"])
    assert "sdb" in str(mails[0]["Subject"])
    assert "123456789" in text(mails[0])


def test_a_disk_gets_hot_for_a_moment_and_then_for_good(tmp_path: Path) -> None:
    """Wanted: no mail for one hot reading; then one warning within 25 minutes, critical at +5 C."""
    live = Database(tmp_path)
    live._files |= drive("sda") | drive("sdb")
    with watched(tmp_path, live, settings=QUICK) as host:
        host.wait(900, 20.0)
        live.change(drive("sdb", temperature={"current": 57}))
        mails = host.wait(300, 20.0)
        live.change(drive("sdb", temperature={"current": 41}))
        mails += host.wait(1800, 20.0)
        assert subjects(mails) == []
        live.change(drive("sdb", temperature={"current": 57}))
        mails = host.wait(1500, 20.0)
        live.change(drive("sdb", temperature={"current": 62}))
        mails += host.wait(1500, 20.0)
    assert len(mails) == 2
    assert len(threads(mails)) == 1
    assert "[WARNING]" in str(mails[0]["Subject"])
    assert "[CRITICAL]" in str(mails[1]["Subject"])


def test_a_drive_whose_smart_data_somebody_disabled(tmp_path: Path) -> None:
    """Wanted: one warning, within three more readings, that sdb's SMART is unreadable: disabled.

    Not an error of the disk; sda is still read and not named in the subject.
    """
    live = Database(tmp_path)
    live._files |= drive("sda") | drive("sdb")
    with watched(tmp_path, live, settings=QUICK) as host:
        mails = host.wait(900, 20.0)
        live.change(
            drive(
                "sdb",
                smart_support={"available": True, "enabled": False},
                smart_status=None,
                ata_smart_attributes=None,
                power_on_time=None,
                power_cycle_count=None,
                temperature=None,
                ata_smart_error_log=None,
                ata_smart_self_test_log=None,
                ata_device_statistics=None,
            )
        )
        mails += host.wait(3000, 20.0)
    assert len(mails) == 1
    assert "[WARNING]" in str(mails[0]["Subject"])
    assert "sdb" in str(mails[0]["Subject"])
    assert "disabled" in text(mails[0]).lower()


def test_forty_drives_whose_program_was_removed_are_one_mail(tmp_path: Path) -> None:
    """Wanted: one or two warnings in all, not 40, and what to do once: smartmontools is gone."""
    names = {f"sd{a}{b}": "" for a in "ab" for b in "abcdefghijklmnopqrst"}
    live = Database(tmp_path, **names)
    live._files |= {path: text for name in names for path, text in drive(name).items()}
    live._files |= drive("sda") | drive("sdb")
    gone = json.dumps(
        {"read_status": ReadStatus.NO_SMARTCTL, "reason": "'smartctl': not installed"}
    )
    with watched(tmp_path, live, settings=QUICK) as host:
        mails = host.wait(1200, 20.0)
        assert subjects(mails) == []
        lost = {path: gone for path in live._files if path.startswith("/.probe/run smartctl")}
        live.change({**lost, probe_path("run", ("smartctl", "--version")): gone})
        mails += host.wait(3000, 20.0)
    assert 1 <= len(mails) <= 2
    assert "[WARNING]" in str(mails[0]["Subject"])


def test_a_full_file_system_of_logs_is_no_matter_of_the_disk_below(tmp_path: Path) -> None:
    """Wanted: one critical mail about /var/log, with du; no smartctl, no second incident.

    journald cannot write either: its lines say "No space left on device" of no disk.
    """
    live = Database(tmp_path, sdc="8:33 / /var/log rw,relatime - ext4 /dev/sdc1 rw")
    live._files["/var/log/.statvfs"] = usage("8:33")
    with watched(tmp_path, live) as host:
        host.wait(20)
        live.change({"/var/log/.statvfs": usage("8:33", free=0)})
        live.kernel.says(
            "systemd-journald[412]: Failed to open system journal: No space left on device",
            "EXT4-fs (sdc1): Delayed block allocation failed for inode 12 at logical offset 0 with max blocks 1 with error 28",  # noqa: E501 - as the kernel prints it
            "EXT4-fs (sdc1): This should not happen!! Data will be lost",
        )
        mails = host.wait(400, 4.0)
    assert len(threads(mails)) == 1
    assert len(mails) <= 2
    assert "[CRITICAL]" in str(mails[0]["Subject"])
    assert any("du -x" in text(mail) for mail in mails)
    assert all("smartctl" not in text(mail) for mail in mails)
