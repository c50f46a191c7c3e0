"""Pools of a real OpenZFS fail, one way after the other; the mails, and zpool's own texts.

Run by `make test-zfs`, which builds OpenZFS for the guest's kernel once, into the cache of this
machine; without it they are skipped. The pools stay as they are repaired from test to test.
Limits: one pair, Debian's OpenZFS and kernel of SUITE; no ZED, so that nothing takes the place of
a device by itself; a disk that is pulled out is not tested, only one that is replaced.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from vm.harness import MEBIBYTE, Disk, wait_for
from vm.watched import text_of, watching

from iowarden.collectors.zfs.vdevs import parse_pool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from email.message import EmailMessage

    from vm.conftest import Boot
    from vm.harness import VM
    from vm.watched import Watched

    from iowarden.collectors.zfs.zpool_status import PoolStatus

    Property = Callable[[str, object], None]

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "iowarden" / "zfs"
SECONDS = 300.0
"""Far above anything measured, for a busy building machine."""
SETTINGS = """\
warning_group_wait: 5s
resolve_after: 10s
intervals: {block: 6s, zfs_vdevs: 6s, mounts: 6s, scsi: 6s}
overrides:
  ZfsPoolFull/warning: {keep_firing_for: 5s}
  ZfsPoolFull/critical: {keep_firing_for: 5s}
"""
MIRROR, RAIDZ = ("left", "right"), ("first", "second", "third")
DISKS = (
    *(Disk(name, 512 * MEBIBYTE) for name in (*MIRROR, "spare")),
    *(Disk(name, 256 * MEBIBYTE) for name in RAIDZ),
    *(Disk(name, 128 * MEBIBYTE) for name in ("log", "cache")),
)
POOLS = """set -e
modprobe zfs zfs_arc_max=67108864
udevadm settle
zpool create -f -O compression=off tank mirror $left $right log $log cache $cache
zpool create -f -O compression=off rz raidz $first $second $third
"""
LABELS_MEBIBYTES = 8
"""So much is at the beginning of a disk before its data: partition table, two labels, boot block.
Source: OpenZFS, include/sys/vdev_impl.h: VDEV_LABEL_START_SIZE; partitions begin at 1 MiB."""


@pytest.fixture(scope="module")
def vm(boot: Boot) -> Iterator[VM]:
    """Boot a guest with OpenZFS, a mirror with a log and a cache, and a raidz."""
    if not any(CACHE.glob("*/zfs.tar.gz")):
        pytest.skip(f"'{CACHE}': OpenZFS is not built; make test-zfs")
    with boot(DISKS) as vm:
        kernel = vm.run("uname -r").strip()
        built = [*CACHE.glob(f"{kernel}-*/zfs.tar.gz")]
        if not built:
            pytest.skip(f"'{CACHE}': OpenZFS is not built for the kernel {kernel}; make test-zfs")
        vm.run("tar -C / -xz --keep-directory-symlink", built[0].read_bytes(), SECONDS)
        vm.run("ldconfig; depmod; udevadm control --reload", timeout_seconds=SECONDS)
        vm.run("cat > /root/pools.sh", POOLS.encode())
        names = " ".join(f"{disk.name}=/dev/{vm.device(disk.name)}" for disk in DISKS)
        vm.run(f"{names} sh /root/pools.sh", timeout_seconds=SECONDS)
        yield vm


@pytest.fixture(scope="module")
def watched(vm: VM) -> Iterator[Watched]:
    """Start iowarden as a service; return when it knows the devices of both pools."""
    with watching(vm, SETTINGS) as watched:
        wait_for(lambda: _knows(watched), "the devices of the pools", SECONDS)
        yield watched


def _knows(watched: Watched) -> bool:
    metrics = watched.vm.run("curl --silent --fail http://127.0.0.1:9748/metrics")
    return {*re.findall(r'iowarden_zfs_vdev_state\{.*pool="([^"]+)"', metrics)} == {"tank", "rz"}


def _status(vm: VM, pool: str) -> PoolStatus:
    """Return what zpool shows, by the parser that the service has."""
    return parse_pool(pool, vm.run(f"zpool status -pLPs {pool}", timeout_seconds=SECONDS))


def _told(watched: Watched, severity: str, *words: str) -> EmailMessage:
    """Return the first mail with these words, once it is there."""

    def telling() -> list[EmailMessage]:
        return [m for m in watched.mail.naming(*words) if m["Subject"].startswith(f"[{severity}]")]

    wait_for(telling, f"a mail with {words}", SECONDS)
    return telling()[0]


def _over(watched: Watched, mail: EmailMessage) -> None:
    """Wait until the incident of a mail is over."""
    number = mail["X-Iowarden-Incident"]

    def last() -> str:
        of_it = [m for m in watched.mail.mails if m["X-Iowarden-Incident"] == number]
        return str(of_it[-1]["Subject"])

    wait_for(lambda: last().startswith("[OK]"), f"the end of incident {number}", SECONDS)


def _follow(watched: Watched, mail: EmailMessage) -> str:
    """Run the commands of a mail's advice as they are; return what they printed."""
    advice = text_of(mail).partition("WHAT TO DO\n")[2].partition("\nWHAT ")[0]
    commands = re.findall(r"^    (\S.*)$", advice, re.MULTILINE)
    assert commands
    return "".join(watched.vm.run(command, timeout_seconds=SECONDS) for command in commands)


def _device(vm: VM, name: str) -> str:
    return f"/dev/{vm.device(name)}"


def test_healthy_pools_are_in_the_tree_and_in_no_mail(watched: Watched) -> None:
    """A scrub of a healthy pool, snapshots made and removed."""
    vm = watched.vm
    vm.run("zpool scrub -w tank; zfs snapshot tank@now; zfs destroy tank@now", b"", SECONDS)
    tree = vm.run("iowarden storage", timeout_seconds=SECONDS)
    assert re.search(r"mirror-0 .*2 of 2", tree), tree
    assert re.search(r"raidz1-0 .*3 of 3", tree), tree
    assert watched.metric(
        "iowarden_redundancy_survives_disks", object="tank mirror-0", technology="zfs_vdev"
    ) == pytest.approx(1.0)
    assert not watched.mail.mails


@pytest.mark.parametrize(("name", "role"), [("log", "log"), ("cache", "cache")])
def test_a_log_or_cache_that_failed_is_a_warning_whatever_the_pool_is(
    watched: Watched, name: str, role: str
) -> None:
    """The kernel has a pool ONLINE without its cache; the pool works without either."""
    vm = watched.vm
    disk = vm.device(name)
    # No device fault can be injected into a cache: it goes, as if it had been pulled.
    vm.run(f"zpool offline -f tank /dev/{disk}1" if name == "log" else f"zpool offline tank {disk}")
    mail = _told(watched, "WARNING", disk, "tank")
    assert f"It is a {role} device" in " ".join(text_of(mail).split())
    leaves = {leaf.name: leaf.state for leaf in _status(vm, "tank").leaves()}
    assert leaves[f"/dev/{disk}1"] in {"FAULTED", "OFFLINE"}
    assert "tank" in _follow(watched, mail)
    vm.run(f"zpool online tank {disk}; zpool clear tank {disk}", timeout_seconds=SECONDS)
    _over(watched, mail)


def test_a_scrub_repairs_what_was_written_over_a_member_and_it_is_named(watched: Watched) -> None:
    """The disk reports no error: only checksums show it."""
    vm = watched.vm
    disk = _device(vm, "right")
    vm.run("dd if=/dev/urandom of=/tank/file bs=1M count=64; zpool sync tank", b"", SECONDS)
    vm.run(
        f"dd if=/dev/zero of={disk} bs=1M seek={LABELS_MEBIBYTES} count=100 conv=notrunc"
        " oflag=direct",
        timeout_seconds=SECONDS,
    )
    vm.run("zpool scrub -w tank", timeout_seconds=SECONDS)
    mail = _told(watched, "WARNING", disk.removeprefix("/dev/"), "checksum errors", "tank")
    status = _status(vm, "tank")
    errors = {leaf.name: leaf.checksum_errors for leaf in status.leaves()}
    assert errors[f"{disk}1"]
    assert status.data_errors == 0
    assert "tank" in _follow(watched, mail)
    vm.run("zpool clear tank; zpool scrub -w tank; zpool clear tank", timeout_seconds=SECONDS)
    _over(watched, mail)


def test_a_mirror_without_a_member_is_critical_until_its_replacement_is_resilvered(
    watched: Watched,
) -> None:
    """The member fails; the spare takes its place by hand."""
    vm = watched.vm
    vm.run(f"zpool offline -f tank {vm.device('right')}", timeout_seconds=SECONDS)
    mail = _told(watched, "CRITICAL", "tank", "no redundancy left")
    assert _status(vm, "tank").state == "DEGRADED"
    assert "DEGRADED" in _follow(watched, mail)
    vm.run(
        f"zpool replace -w tank {vm.device('right')} {_device(vm, 'spare')}",
        timeout_seconds=SECONDS,
    )
    assert _status(vm, "tank").state == "ONLINE"
    scan = _status(vm, "tank").scan
    assert scan is not None
    assert (scan.kind, scan.state, scan.errors) == ("resilver", "finished", 0)
    _over(watched, mail)


def test_a_full_pool_is_mailed_and_is_over_when_space_is_freed(watched: Watched) -> None:
    """Its file system says 0 bytes are left before the pool is full: ZFS reserves some."""
    vm = watched.vm
    vm.start("dd if=/dev/urandom of=/rz/file bs=1M").wait(SECONDS)
    mail = _told(watched, "CRITICAL", "rz", "full")
    assert "rz" in _follow(watched, mail)
    vm.run("rm /rz/file; zpool sync rz", timeout_seconds=SECONDS)
    _over(watched, mail)


def test_all_disks_of_a_pool_hang_and_a_mail_leaves_while_zpool_hangs(
    watched: Watched, record_property: Property
) -> None:
    """Programs wait for its commits; who asks zpool waits as well, the kernel's state answers."""
    vm = watched.vm
    commits = "while [ ! -e /run/enough ]; do dd if=/dev/zero bs=4k count=1 conv=fsync,notrunc"
    writers = [
        vm.start(f"{commits} of=/tank/log-{n} 2>/dev/null; sleep 0.1; done") for n in range(3)
    ]
    wait_for(lambda: vm.run("ls /tank").count("log-") == len(writers), "the writers", SECONDS)
    before = len(watched.mail.mails)
    for name in ("left", "spare", "log"):
        vm.throttle(name, total=1)
    hung = time.monotonic()
    status = vm.start("sleep 3; zpool sync tank; zpool status tank")
    wait_for(lambda: watched.mail.mails[before:], "a mail", SECONDS)
    seconds = time.monotonic() - hung
    with pytest.raises(TimeoutError):
        status.wait(0.1)
    record_property("measured", f"first mail {seconds:.0f} s after the disks hang")
    record_property("measured", f"{[mail['Subject'] for mail in watched.mail.mails[before:]]}")
    for name in ("left", "spare", "log"):
        vm.throttle(name)
    vm.run("touch /run/enough")
    assert status.wait(SECONDS).status == 0
    for writer in writers:
        writer.wait(SECONDS)
    _over(watched, watched.mail.mails[before])
