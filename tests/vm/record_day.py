"""A day on a busy machine: backup, check, trim, upgrade, database, restore, copies; nothing is ill.

Only the busy stretches are recorded. Each begins with an event 'HH:00 ...', the hour that it stands
for, and ends with a machine at rest: who plays the day holds that last frame until the next hour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness import MEBIBYTE, Disk

if TYPE_CHECKING:
    from record_fixtures import Session

GIBIBYTE = 1024 * MEBIBYTE
SPEED_BYTES_PER_SECOND = 40 * MEBIBYTE
VAULT_BYTES_PER_SECOND = 20 * MEBIBYTE
"""Slow enough that an emulated copy is faster and the kernel holds it back."""
REST_SECONDS = 40.0
"""After each stretch: beyond dirty_expire_centisecs, and the pressure averages fall."""

MIRROR = tuple(Disk(f"mirror-{number}", 2 * GIBIBYTE) for number in (1, 2))
PARITY = tuple(Disk(f"parity-{number}", 1 * GIBIBYTE) for number in (1, 2, 3))
DISKS = (Disk("home", 24 * GIBIBYTE), Disk("vault", 32 * GIBIBYTE), *MIRROR, *PARITY)

DATABASE = b"""
import os, random, sys, time
directory, end = sys.argv[1], time.monotonic() + float(sys.argv[2])
table = os.open(directory + "/table", os.O_RDWR | os.O_CREAT)
log = os.open(directory + "/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.ftruncate(table, 256 * 1024 * 1024)
commits = 0
while time.monotonic() < end:
    os.write(log, os.urandom(8192))
    os.fdatasync(log)
    commits += 1
    for _ in range(4):
        os.pwrite(table, os.urandom(8192), random.randrange(32768) * 8192)
        os.pread(table, 8192, random.randrange(32768) * 8192)
    if commits % 500 == 0:
        os.fsync(table)
        os.ftruncate(log, 0)
    time.sleep(0.005)
"""
"""Commits 8 KiB at a time, changes pages at random, has a checkpoint every 500 commits."""


def busy_day(session: Session) -> None:
    """A day of work on healthy disks of 20 and 40 MiB/s, with the distribution's own settings.

    'home' (ext4), 'vault' (the slow one; XFS, backups), a mirror of two disks (LVM, ext4, a
    database) and a RAID 5 of three (ext4, logs). Only the busy stretches are recorded; 'HH:00' is
    the hour that one stands for. Nothing is faulty: each mail about it is a false alarm.
    """
    _prepare(session)
    session.record(7200, "a busy day, its busy stretches only; nothing is ill")
    _rest(session)
    _stretch(
        session,
        "02:00 backup: a tree of 7,000 files from home to vault, then the old one is removed",
        "cp -a /srv/tree /vault/backup.new && sync -f /vault"
        " && rm -r /vault/backup && mv /vault/backup.new /vault/backup",
    )
    _stretch(
        session,
        "03:00 check of both arrays; the database works for its first seconds",
        "for array in md0 md1; do echo check > /sys/block/$array/md/sync_action; done;"
        " python3 /run/database /database 15;"
        " while ! grep -q idle /sys/block/md0/md/sync_action"
        " || ! grep -q idle /sys/block/md1/md/sync_action; do sleep 1; done",
    )
    _stretch(
        session,
        "04:00 fstrim of all file systems but that on RAID 5, which takes no discards",
        "for mount in / /srv /vault /database; do fstrim $mount || exit; done",
    )
    _stretch(
        session,
        "06:00 upgrade of packages, with every fsync of dpkg",
        "DEBIAN_FRONTEND=noninteractive"
        " dpkg --no-force-unsafe-io --install /var/cache/packages/*.deb",
    )
    _stretch(
        session,
        "09:00 database and logs, two minutes of their day",
        "(while ! [ -e /run/evening ]; do"
        " dd if=/dev/urandom bs=16k count=8 2>/dev/null | base64 >> /logs/service.log; sleep 0.2;"
        " done) & python3 /run/database /database 120; touch /run/evening; wait",
    )
    _stretch(
        session,
        "12:00 restore: a part of the tree is lost and comes back from vault",
        "rm -r /srv/tree/usr && tar -C /vault/backup -c usr | tar -C /srv/tree -x && sync -f /srv",
    )
    _stretch(
        session,
        "15:00 copy of a sparse image of twice the memory to vault, while the database works",
        "python3 /run/database /database 60 &"
        " cp --sparse=never /srv/image /vault/image && sync -f /vault && wait",
    )
    _stretch(
        session,
        "18:00 every file is read and compared with its backup; the logs are compressed",
        "diff -r /srv/tree /vault/backup && gzip -1 /logs/service.log && sync -f /logs",
    )
    _stretch(session, "21:00 the copy is removed", "rm /vault/image && sync -f /vault")
    session.mark("24:00 end of the day")
    session.stop()


def _stretch(session: Session, event: str, command: str) -> None:
    """Do one thing from a cold cache, as after hours of other work, and rest."""
    session.mark(event)
    session.end(session.vm.start(command), "ended")
    session.vm.run("sync", timeout_seconds=600)
    _rest(session)


def _rest(session: Session) -> None:
    session.vm.run(f"sleep {REST_SECONDS}")


def _prepare(session: Session) -> None:
    """Make arrays and file systems and fill them, at full speed; the disks are slow from then."""
    vm = session.vm
    device = {disk.name: f"/dev/{vm.device(disk.name)}" for disk in DISKS}
    # All disks are zeros, so mirror and parity are right from the start.
    create = "mdadm --create --quiet --run --assume-clean --bitmap=none --metadata=1.2"
    vm.run(f"{create} /dev/md0 --level=1 -n 2 {' '.join(device[d.name] for d in MIRROR)}")
    vm.run(f"{create} /dev/md1 --level=5 -n 3 {' '.join(device[d.name] for d in PARITY)}")
    vm.run("vgcreate -q data /dev/md0 && lvcreate -q -y -l 90%FREE -n database data")
    ext4 = "mkfs.ext4 -q -F -i 65536 -E lazy_itable_init=0,lazy_journal_init=0"
    vm.run(f"{ext4} {device['home']} && {ext4} /dev/data/database && {ext4} /dev/md1")
    vm.run(f"mkfs.xfs -q -f {device['vault']}; mkdir /vault /database /logs")
    vm.run(f"mount {device['home']} /srv; mount {device['vault']} /vault")
    vm.run("mount /dev/data/database /database; mount /dev/md1 /logs")
    vm.run("cat > /run/database", DATABASE)
    vm.run("mkdir /srv/tree && cp -a /usr /srv/tree/", timeout_seconds=600)
    vm.run(
        "mkdir /srv/tree/pictures && for number in $(seq 60); do"
        " dd if=/dev/urandom of=/srv/tree/pictures/$number bs=1M count=5 2>/dev/null; done",
        timeout_seconds=600,
    )
    vm.run("cp -a /srv/tree /vault/backup && sync", timeout_seconds=600)
    memory = int(vm.run("awk '/^MemTotal/ { print $2 }' /proc/meminfo")) * 1024
    vm.run(f"truncate --size={2 * memory} /srv/image")
    vm.run("python3 /run/database /database 5; sync; echo 3 > /proc/sys/vm/drop_caches")
    for disk in DISKS:
        speed = VAULT_BYTES_PER_SECOND if disk.name == "vault" else SPEED_BYTES_PER_SECOND
        vm.throttle(disk.name, total=speed, request_bytes=512 * 1024)
