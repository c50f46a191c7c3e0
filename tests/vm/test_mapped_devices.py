"""Pools, snapshots, RAID volumes and paths of a real device-mapper fail, one after the other.

Each is on disks of its own and is one incident, whose advice is run as it is in the mails. The
tests are one story: what is repaired in the first is told as over in the last. Limits: the ends of
the incidents of the full pool, the RAID volume and the map are not tested, and neither are full
metadata: whether the kernel also sets 'needs_check' then, which 'lvextend' does not end, varies.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from vm.harness import MEBIBYTE, Disk, wait_for
from vm.watched import text_of, watching

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import EmailMessage

    from vm.conftest import Boot
    from vm.harness import VM
    from vm.watched import Watched

SECONDS = 300.0
"""Far above anything measured, for a busy building machine."""
SETTINGS = """\
warning_group_wait: 5s
resolve_after: 10s
intervals: {block: 6s, dm_targets: 6s, mounts: 6s, ext4: 6s, scsi: 6s}
overrides:
  ThinPoolFull/warning: {keep_firing_for: 5s}
  ThinPoolFull/critical: {keep_firing_for: 5s}
"""
DISKS = (
    Disk("pool", 256 * MEBIBYTE),
    *(Disk(name, 128 * MEBIBYTE) for name in ("origin", "left", "right", "spare")),
)
POOL, SNAPSHOT, RAID = "vgp-pool-tpool", "vgo-backup", "vgr-data"
NO_SPACE_SECONDS = 10
VOLUMES = """set -e
for name in p o; do vgcreate -qq --physicalextentsize 1m vg$name $1; shift; done
vgcreate -qq --physicalextentsize 1m vgr $1 $2
lvcreate -qq -y --type thin-pool -L 32M --poolmetadatasize 2M -n pool vgp
lvcreate -qq -y -V 256M -n data --thinpool pool vgp
lvcreate -qq -y -L 32M -n data vgo
lvcreate -qq -y -s -L 4M -n backup vgo/data
lvcreate -qq -y --type raid1 -m 1 --nosync -L 32M -n data vgr
mkfs.ext4 -q /dev/vgp/data
mkdir -p /mnt/thin
mount /dev/vgp/data /mnt/thin
"""
TARGET = "/sys/kernel/config/target"
LUN = f"""set -e
modprobe --all configfs target_core_mod tcm_loop
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
store={TARGET}/core/rd_mcp_0/lun
mkdir -p $store
echo rd_pages=8192 > $store/control
echo 1 > $store/enable
echo 5f2c1a70 > $store/wwn/vpd_unit_serial
for port in 1 2; do
  portal={TARGET}/loopback/naa.500140500000000$port/tpgt_1
  mkdir -p $portal/lun/lun_0
  echo naa.600140500000000$port > $portal/nexus
  ln -s $store $portal/lun/lun_0/port
done
rm /etc/udev/rules.d/60-multipath.rules
systemctl start multipathd
"""
"""One LUN in memory with two ports, each of which is a SCSI host here. The image keeps the rules of
multipath away from the disks of other tests."""
MULTIPATH = """\
defaults {
  polling_interval 1
  max_polling_interval 2
  user_friendly_names yes
  find_multipaths yes
}
overrides {
  no_path_retry queue
}
"""


@pytest.fixture(scope="module")
def vm(boot: Boot) -> Iterator[VM]:
    """Boot a guest with volumes of each kind, and a LUN over two paths."""
    with boot(DISKS) as vm:
        vm.run("cat > /root/volumes.sh", VOLUMES.encode())
        vm.run("cat > /root/lun.sh", LUN.encode())
        vm.run("cat > /etc/multipath.conf", MULTIPATH.encode())
        devices = (f"/dev/{vm.device(disk.name)}" for disk in DISKS[:-1])
        vm.run(f"sh /root/volumes.sh {' '.join(devices)}", timeout_seconds=SECONDS)
        vm.run("sh /root/lun.sh", timeout_seconds=SECONDS)
        wait_for(lambda: _paths(vm) == "AA", "both paths of the LUN", SECONDS)
        vm.run(f"echo {NO_SPACE_SECONDS} > /sys/module/dm_thin_pool/parameters/no_space_timeout")
        yield vm


@pytest.fixture(scope="module")
def watched(vm: VM) -> Iterator[Watched]:
    """Start iowarden as a service; return when it knows all volumes."""
    with watching(vm, SETTINGS) as watched:
        wait_for(lambda: _knows(watched), "all volumes", SECONDS)
        yield watched


def _knows(watched: Watched) -> bool:
    metrics = watched.vm.run("curl --silent --fail http://127.0.0.1:9748/metrics")
    states = "iowarden_dm_(?:state|used_ratio|leg_state|queue_if_no_path)"
    names = {POOL, SNAPSHOT, RAID, "mpatha"}
    return names <= {*re.findall(rf'{states}{{.*name="([^"]+)"', metrics)}


def _status(vm: VM, target: str, name: str) -> str:
    return vm.run(f"dmsetup status --noflush --target {target} {name}")


def _paths(vm: VM) -> str:
    """Return the letters of the map's paths; '' before there is a map."""
    status = vm.run("dmsetup status --noflush --target multipath")
    return "".join(re.findall(r" \d+:\d+ ([AF]) ", status))


def _port(vm: VM, number: int, state: str) -> None:
    """Let all requests over a path fail, 'offline', or not, 'online'."""
    portal = f"{TARGET}/loopback/naa.500140500000000{number}/tpgt_1"
    vm.run(f"echo {state} > {portal}/transport_status")


def _incident(watched: Watched, name: str) -> list[EmailMessage]:
    """Return the mails about a device; there is one incident."""
    head = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    mails = watched.mail.mails
    about = {
        mail["X-Iowarden-Incident"]
        for mail in mails
        if head.search(" ".join(text_of(mail).partition("\n\n")[0].split()))
    }
    assert len(about) <= 1, [mail["Subject"] for mail in mails]
    return [mail for mail in mails if mail["X-Iowarden-Incident"] in about]


def _told(watched: Watched, name: str, severity: str, *words: str) -> EmailMessage:
    """Return the first mail about a device that has these words, once it is there."""

    def telling() -> list[EmailMessage]:
        flat = ((mail, " ".join(text_of(mail).split())) for mail in _incident(watched, name))
        return [
            mail
            for mail, text in flat
            if mail["Subject"].startswith(f"[{severity}]") and all(word in text for word in words)
        ]

    wait_for(telling, f"a mail of {name} with {words}", SECONDS)
    return telling()[0]


def _follow(watched: Watched, mail: EmailMessage) -> str:
    """Run the commands of a mail's advice as they are; return what they printed."""
    advice = text_of(mail).partition("WHAT TO DO\n")[2].partition("\nWHAT ")[0]
    commands = re.findall(r"^    (\S.*)$", advice, re.MULTILINE)
    assert commands
    return "".join(watched.vm.run(command, timeout_seconds=SECONDS) for command in commands)


def test_a_snapshot_that_overflows_is_a_warning(watched: Watched) -> None:
    """Its origin is written beyond its space: it is lost, and is removed as advised."""
    vm = watched.vm
    vm.run("dd if=/dev/zero of=/dev/vgo/data bs=1M count=8 oflag=direct")
    assert "Invalid" in _status(vm, "snapshot", SNAPSHOT)
    mail = _told(watched, SNAPSHOT, "WARNING", f"snapshot {SNAPSHOT} is lost (Invalid)")
    assert "Its origin is not affected" in " ".join(text_of(mail).split())
    assert "backup" in _follow(watched, mail)
    vm.run("lvremove -qq -y vgo/backup", timeout_seconds=SECONDS)


def test_a_full_pool_is_critical_before_the_writes_to_it_fail(watched: Watched) -> None:
    """They wait first; then the file system on it loses them, and stops: it is one incident."""
    vm = watched.vm
    writer = vm.start("dd if=/dev/zero of=/mnt/thin/file bs=1M count=50 conv=fsync")
    mail = _told(watched, POOL, "CRITICAL", f"thin pool {POOL} has no space left")
    assert "/mnt/thin" in text_of(mail)
    assert "100.00" in _follow(watched, mail)
    assert writer.wait(SECONDS).status != 0
    assert "out_of_data_space" in _status(vm, "thin-pool", POOL)
    later = _told(watched, POOL, "CRITICAL", "data that a program had written are lost")
    assert later["X-Iowarden-Incident"] == mail["X-Iowarden-Incident"]
    vm.run("lvextend -qq -L +64M vgp/pool", timeout_seconds=SECONDS)
    vm.run("umount /mnt/thin; e2fsck -fy /dev/vgp/data; test $? -lt 4", timeout_seconds=SECONDS)
    # What a kernel prints of a new mount says nothing of the one before: only a remount does.
    vm.run("mount /dev/vgp/data /mnt/thin && mount -o remount,rw /mnt/thin")


def test_a_raid_volume_without_a_member_is_critical_and_is_repaired_with_a_spare(
    watched: Watched,
) -> None:
    """The disk and its volume are one incident; it survives no other failure."""
    vm = watched.vm
    vm.unplug("right")
    vm.run("dd if=/dev/zero of=/dev/vgr/data bs=64k count=4 oflag=direct")
    assert " raid1 2 AD " in _status(vm, "raid", RAID)
    mail = _told(watched, RAID, "CRITICAL", "1 of 2 devices failed", "no redundancy left")
    assert "serial left" in text_of(mail)
    assert "partial" in _follow(watched, mail)
    spare = f"/dev/{vm.device('spare')}"
    for command in (f"vgextend -qq vgr {spare}", "lvconvert -qq -y --repair vgr/data"):
        vm.run(command, timeout_seconds=SECONDS)
    vm.run("vgreduce -qq --removemissing vgr", timeout_seconds=SECONDS)
    wait_for(lambda: " AA " in _status(vm, "raid", RAID), "the new member", SECONDS)


def test_a_map_that_loses_a_path_and_then_the_other_blocks_programs_until_one_is_back(
    watched: Watched,
) -> None:
    """The SCSI state of both remains 'running'; whoever waits goes on by himself."""
    vm = watched.vm
    _port(vm, 1, "offline")
    vm.run("dd if=/dev/mapper/mpatha of=/dev/null bs=64k count=16 iflag=direct")
    wait_for(lambda: sorted(_paths(vm)) == ["A", "F"], "the end of a path", SECONDS)
    one = _told(watched, "mpatha", "WARNING", "1 of 2 paths of mpatha does not work")
    assert "1 of 2 paths of mpatha works" in " ".join(text_of(one).split())
    assert "failed faulty running" in " ".join(_follow(watched, one).split())
    _port(vm, 2, "offline")
    reader = vm.start("dd if=/dev/mapper/mpatha of=/dev/null bs=64k count=16 iflag=direct")
    both = _told(watched, "mpatha", "CRITICAL", "mpatha has no working path left (of 2)")
    assert "are blocked until a path returns (queue_if_no_path)" in " ".join(text_of(both).split())
    assert "active ready" not in _follow(watched, both)
    _port(vm, 1, "online")
    _port(vm, 2, "online")
    assert reader.wait(SECONDS).status == 0
    wait_for(lambda: _paths(vm) == "AA", "both paths", SECONDS)


def test_a_snapshot_that_was_removed_is_over(watched: Watched) -> None:
    """That ends its incident; no data are said to be unavailable."""
    wait_for(
        lambda: _incident(watched, SNAPSHOT)[-1]["Subject"].startswith("[OK]"),
        "the end of the snapshot",
        SECONDS,
    )
    subjects = [mail["Subject"] for mail in _incident(watched, SNAPSHOT)]
    assert not [subject for subject in subjects if "DATA UNAVAILABLE" in subject]
