"""What looks like a fault and is none, each beside a twin in which programs are harmed.

Each story is played from files of the kernel to the mails that are due.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.blocked import IOCTL, SP_PC, Blocked, Counters, task

from iowarden.rules.notices.who_waits import sentences
from iowarden.rules.signals.guards import MEANINGS, Guard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.procfs.tasks import BlockedTask

USB = "8:16"
STICK = {"removable": "1", "device_model": "STICK"}
FSTRIM = {
    "command": "fstrim",
    "stack": ("submit_bio_wait", "blkdev_issue_discard", "ext4_trim_fs", "ext4_ioctl"),
    "system_call": IOCTL.replace("0x1277", "0xc0185879"),
    "file": "/srv",
}
BLKDISCARD = {
    "command": "blkdiscard",
    "stack": ("bio_await_chain", "blkdev_issue_discard", "blk_ioctl_discard", "blkdev_ioctl"),
    "system_call": IOCTL,
    "file": "/dev/sda3",
}
MKFS = {**BLKDISCARD, "command": "mkfs.ext4"}
FROZEN = {
    "command": "java",
    "unit": "docker-4f2a.scope",
    "wait_channel": "__refrigerator",
    "stack": ("__refrigerator", "get_signal", "arch_do_signal_or_restart"),
    "waits_at": "",
    "file": "",
}


def with_stick(
    name: str = "sdb",
    *,
    has_probe: bool = True,
    fstab: str | None = "",
    links: Mapping[str, str | None] = {},
    **files: str,
) -> Blocked:
    """Return a host with a stick that cp fills; nothing in /etc/fstab is about it."""
    host = Blocked()
    host.has_probe = has_probe
    host.add_disk(name, **files)
    mounted = "30 1 8:16 / /media/stick rw - vfat /dev/sdb rw\n"
    table = {} if fstab is None else {"/etc/fstab": fstab}
    host.machine.memory.write({"/proc/1/mountinfo": mounted, **table, **links})
    host.writers[400] = "cp", 0
    for _ in range(60):
        host.writers[400] = "cp", host.writers[400][1] + 8_000_000
        host.queued = 600_000_000
        host.disks[name].in_flight = 4
        host.pass_seconds(1, [], **{name: 8_000_000})
    return host


def copy() -> BlockedTask:
    """Return cp, which waits for its own data."""
    return task(0, "cp", pid=400, start_ticks=1_000, waits_at=USB, write_bytes=480_000_000)


@pytest.mark.parametrize("fstab", ["", None])
def test_a_usb_stick_that_pauses_for_16_s_harms_nobody_but_its_copy(fstab: str | None) -> None:
    """It erases flash blocks: no request completes, and cp waits in its fsync.

    A live system has no /etc/fstab at all.
    """
    host = with_stick(**STICK, fstab=fstab)
    host.pass_seconds(16, [copy()])
    host.pass_seconds(30, [], sdb=8_000_000)
    assert host.mails() == []
    assert "removable" in host.guards("sdb")
    assert MEANINGS[Guard.REMOVABLE].reason in host.reasons("sdb")
    assert "DirtyLimitTooLarge" not in host.machine.host.names(), "its speed is not the host's"


@pytest.mark.parametrize("seconds", [16, 28])
@pytest.mark.parametrize("options", ["noauto,user", "noauto,x-systemd.automount"])
def test_a_stick_that_its_user_mounts_by_a_line_of_fstab_harms_nobody_else(
    options: str, seconds: int
) -> None:
    """The line says how it is mounted when it is there; the host does not need it."""
    host = with_stick(**STICK, fstab=f"/dev/sdb /media/stick vfat {options} 0 0\n")
    host.pass_seconds(seconds, [copy()])
    host.pass_seconds(30, [], sdb=8_000_000)
    assert host.mails() == []
    assert "removable" in host.guards("sdb")


def test_programs_on_a_disk_at_usb_that_is_mounted_at_boot_are_mailed_as_on_any_other() -> None:
    """The same pause of a backup disk: with 'nofail' the host boots without it, and uses it."""
    host = with_stick(**STICK, fstab="LABEL=BACKUP /media/stick vfat defaults,nofail 0 0\n")
    began = host.second
    host.pass_seconds(20, [task(n, waits_at=USB) for n in range(2)])
    assert host.mails()[0][0] - began <= 20
    assert "removable" not in host.guards("sdb")


def with_card_reader(removable: str) -> Blocked:
    """Return a host with a card in the reader of its monitor, which has another, empty slot."""
    scsi, disk = "/sys/class/scsi_host/host6", "/sys/class/scsi_device/6:0:0:0/device"
    links = {
        "/sys/bus/usb/drivers/usb-storage/2-1:1.0/host6": None,
        f"{scsi}/proc_name": "usb-storage\n",
        f"{scsi}/can_queue": "1\n",
        f"{disk}/state": "running\n",
        f"{disk}/type": "0\n",
        f"{disk}/block/sdb": None,
        "/sys/block/sdb/device/scsi_device/6:0:0:0": None,
        "/sys/block/sdc/device/scsi_device/6:0:0:1": None,
        "/sys/block/sdc/removable": "1\n",
        "/sys/block/sdc/size": "0\n",
    }
    reader = {"device_vendor": "Generic-", "device_model": "SD/MMC", "removable": removable}
    return with_stick(links=links, **reader)


@pytest.mark.parametrize("removable", ["1", "0"])
def test_a_card_in_a_reader_that_pauses_for_28_s_harms_only_who_uses_it(removable: str) -> None:
    """Its controller erases: cp waits in its fsync, and a file manager that shows the card.

    Some readers say that they are not removable, as disks at USB do.
    """
    host = with_card_reader(removable)
    shows = {
        "system_call": f"262 0xffffff9c 0x7ffd 0x7ffe 0x0 0x0 0x0 {SP_PC}",
        "stack": ("folio_wait_bit_common", "exfat_find", "lookup_slow", "vfs_statx"),
        "wait_channel": "folio_wait_bit_common",
        "counters": (),
        "file": "",
    }
    host.pass_seconds(28, [copy(), task(1, "nautilus", waits_at=USB, **shows)])  # type: ignore[arg-type]
    host.pass_seconds(60, [], sdb=8_000_000)
    assert host.mails() == []
    assert "removable" in host.guards("sdb")


@pytest.mark.parametrize("removable", ["1", "0"])
def test_programs_on_a_card_in_a_reader_that_pauses_for_70_s_are_mailed(removable: str) -> None:
    """The same card: what it permits is half a minute, and its mails come after one."""
    host = with_card_reader(removable)
    began = host.second
    host.pass_seconds(70, [task(n, waits_at=USB) for n in range(2)])
    assert 30 <= host.mails()[0][0] - began <= 65
    assert "critical" not in {severity for _, severity in host.mails()[:1]}


def test_without_a_probe_a_stick_that_pauses_for_16_s_is_no_write_stall() -> None:
    """It is not known who waits; half of the dirty limit is queued, and nothing completes."""
    host = with_stick(**STICK, has_probe=False)
    host.pass_seconds(16, [copy()])
    host.pass_seconds(60, [], sdb=8_000_000)
    assert host.mails() == []


def test_without_a_probe_a_disk_that_pauses_for_16_s_is_a_write_stall() -> None:
    """The same, of a disk that is not removable."""
    host = with_stick(has_probe=False)
    began = host.second
    host.pass_seconds(16, [copy()])
    host.pass_seconds(60, [], sdb=8_000_000)
    assert host.mails()[0][0] - began <= 75
    assert {"WriteStall", "DeviceHang"} <= host.machine.host.names("warning")


def paused(call: int, *, writer: int = 400, command: str = "restic") -> BlockedTask:
    """Return a program that the kernel pauses for its writing, in one write(2) of a few MB."""
    return task(
        0,
        command,
        pid=writer,
        start_ticks=1_000,
        waits_at=USB,
        wait_channel="balance_dirty_pages",
        stack=("balance_dirty_pages", "generic_perform_write", "vfs_write", "ksys_write"),
        system_call=f"1 0xb 0x7f2a 0x400000 {call:#x} 0x0 0x0 0x7ffc1e30 0x7f0ac5b0",
        write_bytes=480_000_000 + call,
    )


def with_copy() -> Blocked:
    """Return a host with a disk that restic fills for a minute."""
    host = Blocked()
    host.add_disk("sdb", queue_rotational="1")
    host.queued = 1_400_000_000
    for second in range(60):
        host.writers[400] = "restic", second * 8_000_000
        host.disks["sdb"].in_flight = 4
        host.pass_seconds(1, [paused(second)], sdb=8_000_000)
    host.disks["sdb"].in_flight = 32
    return host


@pytest.mark.parametrize("seconds", [13, 24])
@pytest.mark.parametrize("syncs", [False, True])
def test_a_disk_that_pauses_while_only_its_writer_waits_is_silent(
    seconds: int, *, syncs: bool
) -> None:
    """A drive-managed SMR disk reorganizes: again and again nothing completes."""
    host = with_copy()
    for turn in range(4):
        waiting = paused(turn + 100) if not syncs else copy()
        host.pass_seconds(seconds, [waiting])
        assert "writer_only" in host.guards("sdb")
        for second in range(60):
            host.pass_seconds(1, [paused(second)], sdb=8_000_000)
    assert host.mails() == []


def test_a_disk_that_stays_away_from_its_writer_is_a_hang() -> None:
    """The kernel gives its requests up after 30 s."""
    host = with_copy()
    began = host.second
    host.pass_seconds(60, [paused(100)])
    assert 28 <= host.mails()[0][0] - began <= 45
    assert "DeviceHang" in host.machine.host.names("critical")


def test_a_reader_beside_the_writer_of_a_disk_that_pauses_is_harmed() -> None:
    """The same pause, and a database that waits for the disk since its first second."""
    host = with_copy()
    began = host.second
    host.pass_seconds(24, [paused(100), task(1, waits_at=USB)])
    assert host.mails()[0][0] - began <= 20
    assert "writer_only" not in host.guards("sdb")


def test_two_databases_on_a_usb_stick_that_pauses_for_70_s_are_mailed() -> None:
    """The same stick: what it permits is half a minute, and its mails come after one."""
    host = with_stick(**STICK)
    began = host.second
    host.pass_seconds(70, [task(n, waits_at=USB) for n in range(2)])
    assert 30 <= host.mails()[0][0] - began <= 65


def test_a_card_in_its_slot_that_pauses_for_25_s_harms_nobody() -> None:
    """mmcblk1 says that it is not removable, as every card does."""
    host = with_stick("mmcblk1", removable="0", device_type="SD")
    host.pass_seconds(25, [copy()])
    host.pass_seconds(30, [], mmcblk1=8_000_000)
    assert host.mails() == []
    assert "removable" in host.guards("mmcblk1")


def test_programs_on_built_in_flash_that_pauses_for_25_s_are_mailed() -> None:
    """The same name, with the boot partitions of eMMC: the root file system may be on it."""
    host = Blocked()
    host.add_disk("mmcblk1")
    host.add_disk("mmcblk1boot0")
    host.pass_seconds(30, [], mmcblk1=8_000_000)
    host.disks["mmcblk1"].in_flight = 4
    host.pass_seconds(25, [task(n, waits_at="8:16") for n in range(2)])
    assert host.mails() != []
    assert "removable" not in host.guards("mmcblk1")


DISCARDER = {
    "fstrim": "fstrim discards",
    "blkdiscard": "a program discards the device",
    "mkfs.ext4": "a program discards the device",
}


@pytest.mark.parametrize(
    ("discard", "seconds"),
    [(FSTRIM, 35), (BLKDISCARD, 100), (MKFS, 60)],
    ids=["fstrim", "blkdiscard", "mkfs"],
)
class TestDiscards:
    """One discard is in flight for longer than any other request may be."""

    @staticmethod
    def played(discard: dict[str, object], seconds: int, *victims: object) -> tuple[Blocked, float]:
        """Return the host after the discard, and when it began."""
        host = Blocked()
        host.pass_seconds(60, [], sda=8_000_000)
        began = host.second
        host.disks["sda"].in_flight = 1
        host.pass_seconds(seconds, [task(9, **discard), *victims])  # type: ignore[arg-type, list-item]
        return host, began

    def test_a_discard_that_takes_long_is_silent(
        self, discard: dict[str, object], seconds: int
    ) -> None:
        """Nothing completes, and only the program that discards waits."""
        host, _ = self.played(discard, seconds)
        assert host.mails() == []
        assert "discarding" in host.guards("sda")
        assert any(DISCARDER[str(discard["command"])] in each for each in host.reasons("sda"))

    def test_who_waits_behind_a_discard_is_mailed_with_it_as_the_cause(
        self, discard: dict[str, object], seconds: int
    ) -> None:
        """Two backends commit behind it: the disk is not at fault, and they stand still."""
        host, began = self.played(discard, seconds, task(1), task(2))
        assert host.mails()[0][0] - began <= 20
        assert host.mails()[0][1] == "warning"
        assert host.cause() == "discarding"
        harm = host.machine.host.engine.signals.harm()  # type: ignore[union-attr]
        said = sentences(harm.last_harms["sda"][1], 0.0)
        assert f"because of: {discard['command']} (pid 909), which discards" in said
        assert DISCARDER[str(discard["command"])] in host.summary("Freeze")


_CODES = "0x7ffd 0x0 0x0 0x0 0x7ffc1e30 0x7f0ac5b0"
UNSEEN = {**FSTRIM, "wait_channel": "", "stack": ()}
BY_KERNEL = {
    "inlined, 3.10": {**MKFS, "stack": ("blkdev_issue_discard", "blkdev_ioctl", "block_ioctl")},
    "inlined, 6.12": {
        **BLKDISCARD,
        "stack": ("bio_await_chain", "blkdev_issue_secure_erase", "blkdev_common_ioctl"),
    },
    "no stack": {**UNSEEN, "system_call": f"16 0x3 0xc0185879 {_CODES}"},
    "no stack, arm64": {**UNSEEN, "system_call": f"29 0x3 0x127f {_CODES}"},
    "no stack, powerpc": {**UNSEEN, "system_call": f"54 0x3 0x20001277 {_CODES}"},
}


@pytest.mark.parametrize("form", BY_KERNEL)
def test_a_discard_is_known_by_its_call_where_its_function_is_not_seen(form: str) -> None:
    """The compiler inlined it, or the stack is not readable; alone silent, else the cause."""
    trim = task(9, **BY_KERNEL[form])  # type: ignore[arg-type]
    for victims in ((), (task(1), task(2))):
        host = Blocked()
        host.pass_seconds(60, [], sda=8_000_000)
        host.disks["sda"].in_flight = 2
        host.pass_seconds(70, [trim, *victims])
        assert bool(host.mails()) is bool(victims)
    assert host.cause() == "discarding"


def test_another_request_to_a_disk_that_completes_nothing_is_no_discard() -> None:
    """FIFREEZE without a stack, and a commit whose unused argument has the number of a discard."""
    for call in (f"16 0x3 0xc0045877 {_CODES}", f"74 0x3 0x1277 {_CODES}"):
        host = Blocked()
        host.pass_seconds(60, [], sda=8_000_000)
        host.disks["sda"].in_flight = 2
        host.pass_seconds(40, [task(9, **{**UNSEEN, "system_call": call}), task(1), task(2)])  # type: ignore[arg-type]
        assert host.cause() == "hang"


def test_two_databases_on_a_card_that_pauses_for_70_s_are_mailed() -> None:
    """The same card as in its slot; what it permits is half a minute."""
    host = with_stick("mmcblk1", removable="0", device_type="SD")
    began = host.second
    host.pass_seconds(70, [task(n, waits_at=USB) for n in range(2)])
    assert 30 <= host.mails()[0][0] - began <= 65


def discarding(seconds: int, *victims: object, disk: str = "8:0") -> Blocked:
    """Return a host for which fstrim has waited so long, and how."""
    host = Blocked()
    host.pass_seconds(60, [], sda=8_000_000)
    host.disks["sda"].in_flight = 2
    host.pass_seconds(seconds, [task(9, **{**FSTRIM, "waits_at": disk}), *victims])  # type: ignore[arg-type, list-item]
    return host


def test_a_discard_that_takes_longer_than_the_kernel_permits_is_a_hang() -> None:
    """After three minutes the mail about two backends behind it no longer says to let it end."""
    host = discarding(170, task(1), task(2))
    assert host.cause() == "discarding"
    host.pass_seconds(40, [task(9, **FSTRIM), task(1), task(2)])  # type: ignore[arg-type]
    assert host.cause() == "hang"
    assert "DeviceHang" in host.machine.host.names("critical")


def test_a_hang_that_begins_when_a_discard_has_ended_is_mailed_with_its_victims() -> None:
    """The discard completed after 30 s, and what was queued behind it never does."""
    host = discarding(30)
    assert host.mails() == []
    host.disks["sda"].discards += 1
    host.disks["sda"].discard_milliseconds += 30_000
    began = host.second
    host.pass_seconds(30, [task(1), task(2)])
    assert host.mails()[0][0] - began <= 20


@pytest.mark.parametrize("goes_on", ["", "8:16", "0:45"])
@pytest.mark.parametrize("seconds", [0, 5, 15])
def test_a_disk_that_hangs_after_the_nightly_fstrim_hangs(seconds: int, goes_on: str) -> None:
    """It ended some seconds ago, or goes on with the next file system; nobody discards there now.

    Where it is not known on which disk it discards, it may still be this one.
    """
    host = Blocked()
    host.add_disk("sdb", queue_rotational="0")
    host.machine.memory.write({"/sys/block/sda/queue/rotational": "0\n"})
    host.pass_seconds(30, [], sda=8_000_000, sdb=8_000_000)
    host.disks["sda"].in_flight = 1
    for second in range(20):
        host.disks["sda"].discards += 10
        host.disks["sda"].discard_milliseconds += 900
        host.pass_second([task(9, **{**FSTRIM, "voluntary_switches": 10 * second})])  # type: ignore[arg-type]
    host.pass_seconds(seconds, [], sda=8_000_000)
    host.disks["sda"].in_flight, host.disks["sdb"].in_flight = 2, int(bool(goes_on))
    trims = [task(9, **{**FSTRIM, "waits_at": goes_on})] if goes_on else []  # type: ignore[arg-type]
    host.pass_seconds(40, [*trims, task(1), task(2)])
    assert host.cause("sda") == ("discarding" if goes_on == "0:45" else "hang")
    assert goes_on == "0:45" or "DeviceHang" in host.machine.host.names("critical")


def test_a_queue_of_discards_for_which_no_task_waits_is_known_by_its_counters() -> None:
    """XFS with '-o discard': its log submits them, and nobody waits; two backends do behind it."""
    host = Blocked()
    host.pass_seconds(30, [], sda=8_000_000)
    for _ in range(20):
        host.disks["sda"].discards += 4
        host.disks["sda"].discard_milliseconds += 3_000
        host.pass_seconds(1, [], sda=8_000_000)
    host.disks["sda"].in_flight = 8
    host.pass_seconds(40, [task(1), task(2)])
    assert host.cause("sda") == "discarding"
    assert "DeviceHang" not in host.machine.host.names("critical")


def test_a_disk_that_hangs_beside_one_that_discards_is_mailed_as_hanging() -> None:
    """fstrim keeps sdb busy; two backends wait for sda, which nothing explains."""
    host = Blocked()
    host.add_disk("sdb")
    host.pass_seconds(60, [], sda=8_000_000, sdb=8_000_000)
    host.disks["sdb"].in_flight = 1
    trim = task(9, **{**FSTRIM, "waits_at": "8:16"})  # type: ignore[arg-type]
    host.pass_seconds(30, [trim])
    began, host.disks["sda"].in_flight = host.second, 3
    host.pass_seconds(45, [trim, task(1), task(2)], sdb=0)
    assert host.mails() != []
    assert host.mails()[0][0] - began <= 32, "sda was idle, and may have to spin up"
    assert host.cause() == "hang"


def test_an_iowarden_that_starts_during_a_discard_is_silent_about_it() -> None:
    """It has not seen the disk complete anything; the stack of fstrim says why."""
    for victims, mails in (((), 0), ((task(1), task(2)), 1)):
        host = Blocked()
        host.disks["sda"].in_flight = 1
        host.disks["sda"].writes, host.disks["sda"].discards = 1000, 30
        host.pass_seconds(50, [task(9, **FSTRIM), *victims])  # type: ignore[arg-type]
        assert len(host.mails()) == mails
        assert all(second <= 20 for second, _ in host.mails())


def test_blocks_that_ext4_zeroes_for_a_writer_are_no_discard() -> None:
    """A commit converts a preallocated extent; the disk hangs, and that is said."""
    stack = ("submit_bio_wait", "blkdev_issue_zeroout", "ext4_issue_zeroout", "ext4_ext_zeroout")
    stack += ("ext4_map_blocks", "ext4_writepages", "file_write_and_wait_range", "do_fsync")
    host = Blocked()
    host.pass_seconds(60, [], sda=8_000_000)
    host.disks["sda"].in_flight = 1
    host.pass_seconds(40, [task(1, stack=stack), task(2)])
    assert host.cause() == "hang"
    assert "DeviceHang" in host.machine.host.names("critical")


def mirror(*, hanging: str) -> tuple[Blocked, float]:
    """Return a mirror of a disk and a virtual one; one of them hangs under two programs."""
    host = Blocked()
    host.add_disk("vdb")
    host.machine.add_array("md0", "raid1", "sda", "vdb")
    files = {"/sys/block/md0/dev": "9:0\n", "/etc/fstab": ""}
    host.machine.memory.write(
        files | {"/proc/1/mountinfo": "30 1 9:0 / /srv rw - ext4 /dev/md0 rw\n"}
    )
    host.pass_seconds(60, [], sda=8_000_000, vdb=8_000_000)
    host.disks[hanging].in_flight = 4
    began = host.second
    (other,) = {"sda", "vdb"} - {hanging}
    host.pass_seconds(45, [task(n, waits_at="9:0") for n in range(2)], **{other: 1_000_000})
    return host, began


def freeze_second(host: Blocked) -> float:
    """Return when the first alert about programs that wait was a warning."""
    fired = host.machine.host.fired
    return min(at for at, name, severity in fired if name == "Freeze" and severity == "warning")


def test_the_guard_of_one_disk_explains_no_hang_of_another_below_the_same_file_system() -> None:
    """A disk that hangs beside a virtual one in a mirror is one after 12 s, the other after 20."""
    for hanging, least, most in (("sda", 11, 16), ("vdb", 19, 25)):
        host, began = mirror(hanging=hanging)
        assert least <= freeze_second(host) - host.machine.uptime - began <= most


def test_a_volume_on_a_multipath_map_waits_as_long_as_its_map() -> None:
    """A path fails over within 45 s, also for what stands on a volume of the map."""
    host = Blocked()
    host.add_disk("sdb")
    base = "/sys/block"
    files: dict[str, str | bytes | None] = {}
    for name, below, number, uuid in (
        ("dm-0", ("sda", "sdb"), "253:0", "mpath-3600a"),
        ("dm-1", ("dm-0",), "253:1", "LVM-x"),
    ):
        files |= {f"{base}/{name}/dev": f"{number}\n", f"{base}/{name}/dm/uuid": f"{uuid}\n"}
        files |= {f"{base}/{name}/size": "1953525168\n", f"{base}/{name}/dm/suspended": "0\n"}
        files |= {f"{base}/{name}/dm/name": f"{name}\n"}
        for one in below:
            files |= {f"{base}/{name}/slaves/{one}": None, f"{base}/{one}/holders/{name}": None}
    host.machine.memory.write(files)
    host.disks["dm-0"] = Counters()
    host.pass_seconds(60, [], sda=8_000_000, sdb=8_000_000)
    for name in ("sda", "sdb", "dm-0"):
        host.disks[name].in_flight = 2
    host.pass_seconds(35, [task(n, waits_at="253:1") for n in range(2)])
    assert "Freeze" not in host.machine.host.names("warning")
    host.pass_seconds(20, [task(n, waits_at="253:1") for n in range(2)])
    assert "Freeze" in host.machine.host.names("warning")


@pytest.mark.parametrize("is_suspended", [True, False])
def test_who_opens_a_file_waits_for_the_one_device_that_is_suspended(*, is_suspended: bool) -> None:
    """Neither a descriptor nor a stack shows for which: the disks have nothing to do.

    Programs in page faults wait for their memory, whatever is suspended meanwhile.
    """
    host = Blocked()
    base, flag = "/sys/block/dm-0", f"{int(is_suspended)}\n"
    files = {f"{base}/dev": "253:0\n", f"{base}/dm/uuid": "LVM-x\n", f"{base}/dm/suspended": "0\n"}
    files |= {f"{base}/dm/name": "vg-srv\n", f"{base}/size": "1953525168\n"}
    links = {f"{base}/slaves/sda": None, "/sys/block/sda/holders/dm-0": None}
    host.machine.memory.write({**files, **links})
    host.disks["dm-0"] = Counters()
    host.pass_seconds(60, [], sda=8_000_000)
    host.machine.memory.write({f"{base}/dm/suspended": flag})
    calls = f"257 0xffffff9c 0x1b6 {_CODES}", f"-1 {_CODES}"
    opens, faults = (
        {"system_call": call, "file": "", "mount": "", "waits_at": "", "counters": ()}
        for call in calls
    )
    began = host.second
    waits = [task(n, **opens) for n in range(2)] + [task(n + 5, **faults) for n in range(2)]  # type: ignore[arg-type]
    host.pass_seconds(29, waits)
    causes = host.machine.host.engine.signals.harm().causes  # type: ignore[union-attr]
    assert set(causes) == ({"dm-0", ""} if is_suspended else {""})
    assert not is_suspended or host.cause("dm-0") == "suspended"
    assert all(second - began >= 12 for second, _ in host.mails())


STACKS: dict[str, dict[str, tuple[str, ...]]] = {
    "the origin of a snapshot": {"dm-0": ("sda",), "dm-1": ("dm-0",)},
    "volumes above a pvmove": {"dm-0": ("sda",), "dm-1": ("dm-0",), "dm-2": ("dm-0",)},
    "two volumes of a disk": {"dm-0": ("sda",), "dm-1": ("sda",)},
}


def with_suspended(stack: Mapping[str, tuple[str, ...]]) -> Blocked:
    """Return a host all of whose volumes LVM has just suspended."""
    host = Blocked()
    for number, (name, below) in enumerate(stack.items()):
        base = f"/sys/block/{name}"
        files = {f"{base}/dev": f"253:{number}\n", f"{base}/dm/uuid": f"LVM-{number}\n"}
        files |= {f"{base}/dm/suspended": "0\n", f"{base}/dm/name": f"vg-{number}\n"}
        links = {f"/sys/block/{each}/holders/{name}": None for each in below}
        links |= {f"{base}/slaves/{each}": None for each in below}
        host.machine.memory.write({**files, **links, f"{base}/size": "1953525168\n"})
        host.disks[name] = Counters()
    host.pass_seconds(30, [], sda=8_000_000)
    host.machine.memory.write({f"/sys/block/{name}/dm/suspended": "1\n" for name in stack})
    return host


OPENS: dict[str, object] = {
    "file": "",
    "mount": "",
    "waits_at": "",
    "counters": (),
    "stack": (),
    "system_call": f"257 0xffffff9c 0x1b6 {_CODES}",
}


@pytest.mark.parametrize("channel", ["", "io_schedule"])
@pytest.mark.parametrize("stack", STACKS)
def test_several_suspended_volumes_are_mailed_after_30_s_as_one_is(
    stack: str, channel: str
) -> None:
    """A tool was killed; two programs open files. Of no task the device or a stack is known."""
    host = with_suspended(STACKS[stack])
    began = host.second
    host.pass_seconds(50, [task(n, **OPENS, wait_channel=channel) for n in range(2)])
    assert 28 <= host.mails()[0][0] - began <= 35
    assert host.machine.host.names("warning") >= {"DeviceSuspended"}
    causes = host.machine.host.engine.signals.harm().causes  # type: ignore[union-attr]
    shown = {"the origin of a snapshot": "dm-1", "volumes above a pvmove": "dm-0"}.get(stack, "")
    assert causes == ({shown: "suspended"} if channel else {})


@pytest.mark.parametrize("in_flight", [0, 1])
def test_who_may_wait_for_a_disk_does_not_wait_for_a_suspended_volume(in_flight: int) -> None:
    """Two are locked for the night; an open waits for the disk, which has a request in flight."""
    host = with_suspended(STACKS["two volumes of a disk"])
    host.pass_seconds(60, [], sda=8_000_000)
    host.disks["sda"].in_flight = in_flight
    host.pass_seconds(18, [task(n, **OPENS, wait_channel="io_schedule") for n in range(2)])
    causes = host.machine.host.engine.signals.harm().causes  # type: ignore[union-attr]
    assert (causes[""] == "suspended") is (not in_flight)


@pytest.mark.parametrize(
    ("sentence", "busy", "works", "cause"),
    [
        ("no disk has a request", "", False, {"dm-0": "suspended"}),
        ("another disk does not answer", "sdb", False, {"": "unknown"}),
        ("another disk is busy", "sdb", True, {"": "unknown"}),
        ("another volume of the disk is busy", "sda", True, {"": "unknown"}),
    ],
)
def test_who_opens_a_file_waits_for_no_suspended_volume_while_a_disk_has_requests(
    sentence: str, busy: str, cause: dict[str, str], *, works: bool
) -> None:
    """One is locked since long ago; neither a descriptor nor a stack shows where the file is."""
    host = with_suspended({"dm-0": ("sda",)})
    host.add_disk("sdb")
    host.pass_seconds(200, [], sdb=8_000_000)
    if busy:
        host.disks[busy].in_flight = 6
    waiting = [task(n, **OPENS, wait_channel="io_schedule") for n in range(2)]
    host.pass_seconds(25, waiting, **({busy: 4_000_000} if works else {}))
    causes = host.machine.host.engine.signals.harm().causes  # type: ignore[union-attr]
    assert causes == cause, sentence
    summary = host.summary("DeviceSuspended")
    assert ("2 tasks wait for I/O" in summary) is (not busy)


def test_who_makes_a_file_system_on_another_volume_of_the_disk_is_named() -> None:
    """mkfs.ext4 discards dm-1 for half a minute; who works on dm-0 waits behind it."""
    host = Blocked()
    base = "/sys/block"
    for name, number in (("dm-0", "253:0"), ("dm-1", "253:1")):
        files: dict[str, str | bytes | None] = {
            f"{base}/{name}/dev": f"{number}\n",
            f"{base}/{name}/dm/uuid": f"LVM-{name}\n",
            f"{base}/{name}/dm/name": f"vg-{name}\n",
            f"{base}/{name}/dm/suspended": "0\n",
            f"{base}/{name}/size": "1953525168\n",
            f"{base}/{name}/slaves/sda": None,
            f"{base}/sda/holders/{name}": None,
        }
        host.machine.memory.write(files)
        host.disks[name] = Counters()
    host.pass_seconds(60, [], sda=8_000_000)
    host.disks["sda"].in_flight = 2
    mkfs = task(9, **{**MKFS, "waits_at": "253:1", "file": "/dev/dm-1"})  # type: ignore[arg-type]
    host.pass_seconds(24, [mkfs, *(task(n, waits_at="253:0") for n in range(2))])
    assert host.cause("dm-0") == "discarding"
    assert host.machine.host.engine is not None
    harm = host.machine.host.engine.signals.harm().last_harms["dm-0"][1]
    assert "because of: mkfs.ext4 (pid 909), which discards" in sentences(harm, 0.0)


def with_leak() -> Blocked:
    """Return a host whose disk works with half a request in flight, and one that leaked."""
    host = Blocked()
    disk = host.disks["sda"]
    disk.leaked = 1
    for second in range(90):
        disk.in_flight = second % 2
        disk.writes, disk.milliseconds = disk.writes + 60, disk.milliseconds + 500
        host.pass_second()
    disk.in_flight = 0
    return host


def test_an_idle_disk_whose_counter_leaked_by_one_is_silent() -> None:
    """It shows one request in flight for three minutes and completes none."""
    host = with_leak()
    host.pass_seconds(180)
    assert host.mails() == []
    assert "in_flight_leaked" in host.guards("sda")


def test_a_disk_with_a_leaked_counter_that_hangs_is_mailed() -> None:
    """Two more requests than the one that leaked, and two backends wait for them."""
    host = with_leak()
    began = host.second
    host.disks["sda"].in_flight = 2
    host.pass_seconds(40, [task(1), task(2)])
    assert host.mails()[0][0] - began <= 20


def test_an_iowarden_that_starts_beside_a_leaked_counter_is_silent() -> None:
    """A request each half minute is answered at once: the one that is shown was overtaken."""
    host = Blocked()
    disk = host.disks["sda"]
    disk.leaked, disk.writes, disk.milliseconds = 1, 1000, 5000
    for second in range(400):
        if second % 28 == 20:
            disk.writes, disk.milliseconds = disk.writes + 1, disk.milliseconds + 5
        host.pass_second()
    assert host.mails() == []
    assert "in_flight_leaked" in host.guards("sda")


@pytest.mark.parametrize("every", [2, 6, 9])
@pytest.mark.parametrize("hangs", [False, True])
def test_a_counter_that_leaks_on_a_disk_with_rare_requests_is_known_after_a_minute(
    every: int, *, hangs: bool
) -> None:
    """A request each few seconds is answered at once for 90 s; then it is idle, or hangs."""
    host = Blocked()
    disk = host.disks["sda"]
    host.pass_seconds(30, [], sda=8_000_000)
    disk.leaked = 1
    for second in range(90):
        if second % every == 0:
            disk.writes, disk.milliseconds = disk.writes + 1, disk.milliseconds + 5
        host.pass_second()
    began, disk.in_flight = host.second, int(hangs)
    host.pass_seconds(60, [task(1), task(2)] if hangs else [task(1, waits_at="")])
    assert "in_flight_leaked" in host.guards("sda")
    assert ("DeviceHang" in host.machine.host.names("warning")) is hangs
    assert not hangs or host.mails()[0][0] - began <= 20


@pytest.mark.parametrize("shown", [1, 3])
def test_a_leak_of_before_the_start_is_silent_while_others_wait_elsewhere(shown: int) -> None:
    """Two reads complete at once, then nothing for minutes; a backup is blocked by another disk."""
    host = Blocked()
    host.add_disk("sdb")
    host.disks["sdb"].leaked = shown
    for second in range(200):
        if second % 60 == 7:
            host.disks["sdb"].reads += 2
            host.disks["sdb"].milliseconds += 22
        host.pass_second([task(second, waits_at="8:0")] if second > 20 else [])
        host.disks["sda"].writes, host.disks["sda"].milliseconds = second * 60, second * 500
    assert host.mails() == []


def test_a_disk_that_stands_since_it_was_plugged_in_is_mailed_though_no_task_waits() -> None:
    """Its counter is as old as the disk: nothing leaked before iowarden was there."""
    host = Blocked()
    host.pass_seconds(20, [])
    host.add_disk("sdb")
    host.disks["sdb"].in_flight = 1
    host.pass_seconds(90, [])
    assert "DeviceHang" in host.machine.host.names("warning")


@pytest.mark.parametrize("is_placed", [True, False])
def test_a_disk_that_hangs_since_before_the_start_is_mailed_with_who_waits(
    *, is_placed: bool
) -> None:
    """It looks like a counter that leaked, but for the program in read(2)."""
    host = Blocked()
    host.disks["sda"].in_flight = 1
    host.pass_seconds(45, [task(1, waits_at="8:0" if is_placed else "")])
    assert host.mails()[0][0] <= 40  # a disk that may have been asleep has half a minute
    assert "DeviceHang" in host.machine.host.names("warning")


def test_a_busy_disk_that_hangs_is_not_taken_for_one_whose_counter_leaked() -> None:
    """It had two requests in flight all the time for 20 s, and then completes nothing."""
    host = Blocked()
    disk = host.disks["sda"]
    disk.in_flight = 2
    for _ in range(20):
        disk.writes, disk.milliseconds = disk.writes + 200, disk.milliseconds + 1950
        host.pass_second()
    began = host.second
    host.pass_seconds(120)
    assert [severity for _, severity in host.mails()] == ["warning", "critical"]
    assert host.mails()[0][0] - began <= 15
    assert "DeviceHang" in host.machine.host.names("critical")
    assert "in_flight_leaked" not in host.guards("sda")


def test_a_stick_that_hangs_beside_the_internal_disk_hides_nothing_of_it() -> None:
    """Nobody can see who waits: the internal disk is a hang, and writes have stalled."""
    host = with_stick(**STICK, has_probe=False)
    began = host.second
    host.disks["sda"].in_flight = 3
    host.pass_seconds(45, [copy()])
    assert host.mails()[0][0] - began <= 35
    assert "DeviceHang" in host.machine.host.names("critical")


def resumed() -> Blocked:
    """Return a laptop that slept for eight hours while its disk had requests in flight."""
    host = Blocked()
    host.machine.memory.write({"/sys/block/sda/queue/rotational": "0\n"})
    host.pass_seconds(60, [], sda=8_000_000)
    host.disks["sda"].in_flight = 3
    host.pass_seconds(4, [task(1), task(2)])
    host.asleep = 8 * 3600.0
    return host


def test_a_laptop_whose_disk_answers_24_s_after_it_was_opened_is_silent() -> None:
    """Its link is initialized again; the two programs waited before the lid was closed."""
    host = resumed()
    host.pass_seconds(20, [task(1), task(2)])
    host.disks["sda"].in_flight = 0
    host.pass_seconds(30, [], sda=8_000_000)
    assert host.mails() == []


def test_a_laptop_whose_disk_does_not_come_back_is_mailed() -> None:
    """The same, and it never answers."""
    host = resumed()
    began = host.second
    host.pass_seconds(60, [task(1), task(2)])
    assert 20 <= host.mails()[0][0] - began <= 40


@pytest.mark.parametrize(
    "stack", [FROZEN["stack"], ("refrigerator", "get_signal_to_deliver", "do_signal")]
)
@pytest.mark.parametrize("waits_at", ["", "8:0"], ids=["no file", "in a read of a file"])
def test_a_container_that_is_frozen_for_ten_minutes_is_silent(
    stack: tuple[str, ...], waits_at: str
) -> None:
    """'docker pause': its threads are in uninterruptible sleep, and wait for no disk.

    Linux 6.1 and 2.6.32.
    """
    more = {"stack": stack, "wait_channel": stack[0], "waits_at": waits_at}
    host = Blocked()
    host.pass_seconds(600, [task(n, **{**FROZEN, **more}) for n in range(4)])  # type: ignore[arg-type]
    assert host.mails() == []
    assert "not_storage" in host.guards("")


def test_programs_of_a_container_that_wait_for_the_disk_are_mailed() -> None:
    """The same program, not frozen: two threads wait for a disk that completes nothing."""
    host = Blocked()
    host.pass_seconds(60, [], sda=8_000_000)
    host.disks["sda"].in_flight = 2
    began = host.second
    host.pass_seconds(30, [task(n, "java", unit="docker-4f2a.scope") for n in range(2)])
    assert host.mails()[0][0] - began <= 20


@pytest.mark.parametrize("milliseconds", [8, 150, 400])
@pytest.mark.parametrize("has_probe", [True, False])
def test_a_disk_that_is_mounted_with_discard_and_hangs_is_mailed_like_any_other(
    milliseconds: int, *, has_probe: bool
) -> None:
    """Short discards until the second in which it hangs: they explain nothing of it."""
    host = Blocked()
    host.has_probe = has_probe
    for _ in range(60):
        host.disks["sda"].discards += 15
        host.disks["sda"].discard_milliseconds += milliseconds
        host.pass_seconds(1, [], sda=8_000_000)
    began, host.disks["sda"].in_flight = host.second, 2
    host.pass_seconds(40, [task(1), task(2)])
    assert host.mails()[0][0] - began <= 15
    assert "DeviceHang" in host.machine.host.names("critical")
    assert not has_probe or host.cause() == "hang"


def test_small_discards_all_the_time_are_not_why_programs_wait() -> None:
    """A file system mounted with 'discard' sends some with each commit; what is queued is why."""
    host = Blocked()
    host.pass_seconds(60, [], sda=8_000_000)
    host.queued = 800_000_000
    for _ in range(20):
        host.disks["sda"].discards += 3
        host.disks["sda"].in_flight = 8
        host.pass_seconds(1, [task(1), task(2)], sda=8_000_000)
    assert host.cause() == "backlog"


@pytest.mark.parametrize("driver", ["usb-storage", "ata_piix"])
def test_the_disk_of_a_dock_waits_for_its_turn_behind_the_copy_to_the_other_one(
    driver: str,
) -> None:
    """Both take turns at an adapter that has one request at a time; the starved disk is well."""
    host = Blocked()
    files: dict[str, str | None] = {}
    for number, name in enumerate(("sdb", "sdc")):
        host.add_disk(name)
        device = f"/sys/class/scsi_device/6:0:{number}:0/device"
        files |= {f"{device}/state": "running\n", f"{device}/type": "0\n"}
        files |= {f"{device}/queue_depth": "1\n", f"{device}/block/{name}": None}
    adapter = "/sys/class/scsi_host/host6"
    files |= {f"{adapter}/can_queue": "1\n", f"{adapter}/proc_name": f"{driver}\n"}
    host.machine.memory.write(files)
    host.pass_seconds(60)
    host.queued = 600_000_000
    starved, filled = host.disks["sdb"], host.disks["sdc"]
    starved.in_flight, filled.in_flight = 4, 60
    began = host.second
    for second in range(120):
        starved.writes, starved.milliseconds = starved.writes + 1, starved.milliseconds + 4500
        starved.busy_milliseconds += 1000
        filled.milliseconds += 17_000
        host.writers[400] = "rsync", second * 34_000_000
        rsync = paused(second, command="rsync")
        waiting = [task(n, waits_at=USB) for n in range(2)]
        host.pass_seconds(1, [*waiting, replace(rsync, waits_at="8:32")], sdc=34_000_000)
    assert host.mails()[0][0] - began <= 25
    assert host.cause("sdb") == "neighbour"
    assert host.machine.host.names("warning") == {"Freeze"}
    advice = host.machine.host.mails[0].advice
    assert "another port" in advice
    assert "queue_depth" not in advice
    assert host.machine.host.engine is not None
    harm = host.machine.host.engine.signals.harm().harms["sdb"]
    assert "because of: rsync" in " ".join(sentences(harm, 0.0))


def answers_others(host: Blocked, seconds: int, stuck: int, waiting: list[BlockedTask]) -> None:
    """Let sda answer 400 writes a second at once, and `stuck` requests not at all."""
    disk = host.disks["sda"]
    disk.in_flight = stuck
    for _ in range(seconds):
        disk.writes, disk.milliseconds = disk.writes + 400, disk.milliseconds + 40
        disk.busy_milliseconds += 1000 if stuck else 40
        host.pass_seconds(1, waiting)


COMMIT = {
    "stack": ("jbd2_log_wait_commit", "ext4_sync_file", "do_fsync"),
    "wait_channel": "jbd2_log_wait_commit",
}


@pytest.mark.parametrize("stuck", [1, 2, 7])
def test_a_disk_that_does_not_answer_some_requests_is_the_cause(stuck: int) -> None:
    """An interrupt is lost each minute: two programs commit behind it, all else goes on."""
    host = Blocked()
    answers_others(host, 60, 0, [])
    began = host.second
    for turn in range(3):
        waiting = [task(10 * turn + n, **COMMIT) for n in range(2)]  # type: ignore[arg-type]
        answers_others(host, 4, stuck, waiting)
        assert turn == 0 or host.cause() == "stuck requests", "that of the freeze before"
        answers_others(host, 20, stuck, waiting)
        assert host.cause() == "stuck requests"
        answers_others(host, 38, 0, [])
    assert host.mails()[0][0] - began <= 20
    assert "does not answer some requests" in host.summary("Freeze")
    assert "critical" not in {severity for _, severity in host.mails()}


@pytest.mark.parametrize(("leaked", "queued"), [(1, 0), (0, 1)])
def test_requests_in_flight_of_before_a_wait_are_not_why_it_lasts(leaked: int, queued: int) -> None:
    """A counter that leaked, or a queue that is never empty, beside a journal that is behind."""
    host = Blocked()
    host.disks["sda"].leaked = leaked
    answers_others(host, 60, queued, [])
    answers_others(host, 20, queued, [task(n, **COMMIT) for n in range(2)])  # type: ignore[arg-type]
    assert host.cause() == "journal"
