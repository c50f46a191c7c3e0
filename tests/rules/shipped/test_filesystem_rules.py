"""File systems that fill up, fail or become read-only, on whole hosts: which alerts, and when."""

from __future__ import annotations

import pytest
from support.simulation import Looks

HOUR = 3600.0
BLOCK = 4096
GIB = 2**30
ROOT = "25 1 8:1 / / {mount},relatime shared:1 - ext4 /dev/sda1 {super}\n"
DISKSTATS = "".join(
    f"8 {minor} {name} 0 0 0 0 0 0 0 0 0 0 0\n"
    for minor, name in enumerate(["sda", "sda1", "sda2"])
)
HEALTHY = "rw,errors=remount-ro"
UUID = "0b1c2d3e-0000-4000-8000-000000000001"


class FakeMachine(Looks):
    """A host with '/' on sda1 (ext4), as files; time passes in polls."""

    def __init__(self) -> None:
        super().__init__()
        self.write({"/proc/diskstats": DISKSTATS, "/etc/fstab": "UUID=1 / ext4 defaults 0 1\n"})
        self.mount()
        self.used(0.5)
        self.errors(0)

    def mount(self, mount: str = "rw", superblock: str = HEALTHY, more: str = "") -> None:
        """Mount '/' with these options of the mount and of the file system."""
        text = ROOT.replace("{mount}", mount).replace("{super}", superblock)
        self.write({"/proc/1/mountinfo": text + more})

    def used(
        self, ratio: float, *, size: int = 100 * GIB, where: str = "", inodes: float = 0.1
    ) -> None:
        """Fill a file system."""
        blocks = size // BLOCK
        free = blocks - int(blocks * ratio)
        number = "8:2" if where else "8:1"
        self.write(
            {
                f"{where}/.statvfs": (
                    f"device_number {number}\nblock_bytes {BLOCK}\nfragment_bytes {BLOCK}\n"
                    f"blocks {blocks}\nblocks_free {free}\nblocks_available {free}\n"
                    f"files 1000000\nfiles_free {int(1_000_000 * (1 - inodes))}\n"
                )
            }
        )

    def errors(self, count: int, device: str = "sda1") -> None:
        """Let ext4 have counted so many errors, the last now."""
        path = f"/sys/fs/ext4/{device}"
        files: dict[str, str | bytes | None] = {
            f"{path}/errors_count": f"{count}\n",
            f"{path}/warning_count": "0\n",
        }
        for which in ("first", "last") if count else ():
            files |= {
                f"{path}/{which}_error_time": f"{int(self.now)}\n",
                f"{path}/{which}_error_func": "ext4_lookup\n",
                f"{path}/{which}_error_line": "1858\n",
                f"{path}/{which}_error_ino": "131074\n",
                f"{path}/{which}_error_block": "0\n",
            }
        self.write(files)

    @property
    def fired(self) -> list[tuple[str, str]]:
        """Name and severity of every alert of a file system, in order."""
        return [
            (name, level)
            for _, name, level in self.host.fired
            if "Filesystem" in name or "Btrfs" in name
        ]


@pytest.fixture
def machine() -> FakeMachine:
    """A healthy host, observed for a minute."""
    machine = FakeMachine()
    machine.look(4)
    assert machine.fired == []
    return machine


def test_a_healthy_day_is_silent(machine: FakeMachine) -> None:
    """Half full, varying, no errors: no alert and no mail."""
    for number in range(24 * 4):
        machine.used(0.5 + 0.01 * (number % 3))
        machine.look(every=900.0)
    assert machine.fired == []
    assert machine.host.mails == []


def test_an_error_of_ext4_is_critical_until_e2fsck_has_cleared_it(machine: FakeMachine) -> None:
    """From a virtual machine: one error, the count survives unmounting, e2fsck sets it to 0."""
    machine.errors(1)
    machine.look(2)
    assert machine.fired == [("FilesystemErrors", "critical")]
    assert (
        machine.summary("FilesystemErrors")
        == "ext4 on sda1 reports 1 new error, last in ext4_lookup"
    )
    assert machine.host.reasons() == ["opened"]
    machine.memory.remove("/sys/fs/ext4/sda1")
    machine.memory.write({"/sys/fs/ext4": None})
    machine.look(8)
    assert machine.states("FilesystemErrors") == {"firing"}
    machine.errors(0)
    machine.look(2)
    assert machine.states("FilesystemErrors") == {"resolved"}
    machine.look(45)
    assert machine.host.reasons() == ["opened", "resolved"]


def test_errors_from_before_are_a_warning() -> None:
    """Errors at baseline are reported, but as older ones."""
    machine = FakeMachine()
    machine.errors(3)
    machine.look(3)
    assert machine.fired == [("FilesystemErrorsInBaseline", "warning")]
    machine.errors(4)
    machine.look(2)
    assert machine.fired[-1] == ("FilesystemErrors", "critical")


def test_an_error_in_a_crash_is_new_after_the_restart(machine: FakeMachine) -> None:
    """The count was 0 when the program was stopped; the host booted with 1."""
    machine.now += 2 * HOUR
    machine.errors(1)
    machine.now += 60.0
    machine.restart()
    machine.look(2)
    assert ("FilesystemErrors", "critical") in machine.fired


def test_another_disk_under_the_name_brings_old_errors(machine: FakeMachine) -> None:
    """Device names may change at boot: errors of last year are not new ones."""
    machine.now -= 3e7
    machine.errors(5)
    machine.now += 3e7 + 60.0
    machine.restart()
    machine.look(2)
    assert machine.fired == [("FilesystemErrorsInBaseline", "warning")]


@pytest.mark.parametrize(
    "superblock",
    ["rw,errors=remount-ro,emergency_ro", "ro,errors=remount-ro", "rw,shutdown"],
    ids=["6.15 and later", "up to 6.11", "shut down"],
)
def test_a_file_system_the_kernel_turned_read_only_is_critical(
    machine: FakeMachine, superblock: str
) -> None:
    """The mount still says rw; what the file system reports depends on the kernel."""
    machine.mount(superblock=superblock)
    machine.look(2)
    assert machine.fired == [("FilesystemReadOnly", "critical")]
    assert machine.summary("FilesystemReadOnly") == "/ is read-only: the kernel made it so"
    machine.mount()
    machine.look(45)
    assert machine.host.reasons() == ["opened", "resolved"]


def test_errors_and_read_only_are_one_incident(machine: FakeMachine) -> None:
    """One cause, one thread: the disk's."""
    machine.errors(1)
    machine.mount(superblock="rw,emergency_ro")
    machine.look(8)
    assert {name for name, _ in machine.fired} == {"FilesystemErrors", "FilesystemReadOnly"}
    assert len({mail.due.incident.identifier for mail in machine.host.mails}) == 1


def test_a_remount_by_the_administrator_is_a_warning_after_five_minutes(
    machine: FakeMachine,
) -> None:
    """A command turns the mount and the file system; '/etc/fstab' wants it writable."""
    machine.mount("ro", "ro")
    machine.look(19)
    assert machine.fired == []
    machine.look(3)
    assert machine.fired == [("FilesystemUnexpectedReadOnly", "warning")]
    machine.mount()
    machine.look(2)
    assert machine.states("FilesystemUnexpectedReadOnly") == {"resolved"}


def logged(machine: FakeMachine, errors: dict[str, bool]) -> None:
    """Let the kernel's log have been read, with these file systems that had errors, or stopped."""
    assert machine.host.engine is not None
    machine.host.engine.signals.file_system_errors = errors


def advice(machine: FakeMachine, name: str) -> str:
    """Return the advice of an alert that fires."""
    assert machine.host.engine is not None
    alerts = machine.host.engine.rules.alerts()
    (text,) = (
        a.annotation("description") + a.annotation("advice")
        for a in alerts
        if a.name == name and a.state.value == "firing"
    )
    return text


def test_a_file_system_without_errors_that_is_read_only_was_made_so_by_a_command(
    machine: FakeMachine,
) -> None:
    """The kernel's log was read and has no error of it, and ext4 has counted none."""
    logged(machine, {})
    machine.mount("ro", "ro")
    machine.look(24)
    text = advice(machine, "FilesystemUnexpectedReadOnly")
    assert "A command mounted the ext4" in text
    assert "mount -o remount,rw" in text


@pytest.mark.parametrize(
    ("errors", "counted"),
    [(None, 0), ({}, 3), ({"sda1": False}, 0)],
    ids=["its log was not read", "errors in its superblock", "an error in the log"],
)
def test_remount_is_not_advised_for_a_file_system_that_is_not_known_to_be_well(
    machine: FakeMachine, errors: dict[str, bool] | None, counted: int
) -> None:
    """It may have made itself read-only, by whatever the mount table shows."""
    if errors is not None:
        logged(machine, errors)
    machine.errors(counted)
    machine.mount("ro", "ro")
    machine.look(24)
    text = advice(machine, "FilesystemUnexpectedReadOnly")
    assert "A command" not in text
    assert "remount,rw" not in text


def test_ext4_that_aborted_its_journal_and_is_mounted_read_only_is_not_a_command(
    machine: FakeMachine,
) -> None:
    """It stays so when the log has rolled over, until the mount is writable again."""
    logged(machine, {"sda1": True})
    machine.mount("ro", "ro,errors=remount-ro")
    machine.look(3)
    assert machine.fired == [("FilesystemReadOnly", "critical")]
    assert "remount,rw" not in advice(machine, "FilesystemReadOnly")
    logged(machine, {})
    machine.look(30)
    assert machine.fired == [("FilesystemReadOnly", "critical")]
    machine.mount()
    machine.look(3)
    assert machine.states("FilesystemReadOnly") == {"resolved"}


def test_a_file_system_that_the_kernel_stopped_is_that_after_a_restart(
    machine: FakeMachine,
) -> None:
    """The log is not read yet, or is from another day: the alert goes on, and advises no remount.

    After a reboot nothing shows why it is mounted read-only.
    """
    logged(machine, {"sda1": True})
    machine.mount("ro", "ro")
    machine.look(3)
    machine.restart()
    machine.look(3)
    assert machine.states("FilesystemReadOnly") == {"firing"}
    logged(machine, {})
    machine.look(30)
    assert machine.fired == [("FilesystemReadOnly", "critical")]
    assert "remount,rw" not in advice(machine, "FilesystemReadOnly")
    machine.booted = machine.now - 10.0
    machine.restart()
    machine.look(30)
    assert machine.states("FilesystemReadOnly") == {"resolved"}
    assert machine.fired[-1] == ("FilesystemUnexpectedReadOnly", "warning")


def test_what_fstab_has_as_read_only_is_left_alone() -> None:
    """An intended read-only root, a bind mount of a container and an image."""
    machine = FakeMachine()
    machine.write({"/etc/fstab": "UUID=1 / ext4 ro,noatime 0 1\n"})
    machine.mount(
        "ro",
        "ro",
        "30 25 8:1 /etc /srv/container/etc ro - ext4 /dev/sda1 ro\n"
        "31 25 7:0 / /snap/core/1 rw - squashfs /dev/loop0 ro\n",
    )
    machine.look(30)
    assert machine.fired == []


def test_a_root_that_was_writable_only_for_an_upgrade_is_left_alone() -> None:
    """'/etc/fstab' has it read-only; it was mounted writable by hand for an hour."""
    machine = FakeMachine()
    machine.write({"/etc/fstab": "UUID=1 / ext4 ro,noatime 0 1\n"})
    machine.look(2)
    machine.mount("ro", "ro")
    machine.look(30)
    assert machine.fired == []


def test_a_mount_without_fstab_is_judged_by_what_it_was() -> None:
    """Read-only from the start, as a snapshot: silent. Writable and then not: the kernel did it."""
    machine = FakeMachine()
    extra = "30 25 8:2 / /mnt rw,relatime - ext4 /dev/sda2 {}\n"
    machine.used(0.1, where="/mnt")
    machine.mount(more=extra.format("ro"))
    machine.look(30)
    assert machine.fired == []
    machine.mount(more=extra.format("rw"))
    machine.look(2)
    machine.mount(more=extra.format("ro"))
    machine.look(2)
    assert machine.fired == [("FilesystemReadOnly", "critical")]


def test_a_mount_without_fstab_that_turns_read_only_by_command_is_a_notice() -> None:
    """It is not known how it should be: no mail."""
    machine = FakeMachine()
    extra = "30 25 8:2 / /mnt {},relatime - ext4 /dev/sda2 {}\n"
    machine.used(0.1, where="/mnt")
    machine.mount(more=extra.format("rw", "rw"))
    machine.look(2)
    machine.mount(more=extra.format("ro", "ro"))
    machine.look(25)
    assert machine.fired == [("FilesystemBecameReadOnly", "notice")]
    assert machine.host.mails == []


def test_an_unmounted_file_system_is_unknown_and_not_well(machine: FakeMachine) -> None:
    """It was forced read-only and then unmounted: only a writable mount resolves the alert."""
    extra = "30 25 8:2 / /mnt rw,relatime - ext4 /dev/sda2 {}\n"
    machine.used(0.1, where="/mnt")
    machine.mount(more=extra.format("rw"))
    machine.look(2)
    machine.mount(more=extra.format("rw,emergency_ro"))
    machine.look(2)
    machine.mount()
    machine.look(50)
    assert machine.states("FilesystemReadOnly") == {"unknown"}
    assert machine.host.reasons() == ["opened", "data unavailable"]
    machine.mount(more=extra.format("rw"))
    machine.look(45)
    assert machine.host.reasons()[-1] == "resolved"


def test_a_full_file_system_that_is_unmounted_or_turned_read_only_is_not_well(
    machine: FakeMachine,
) -> None:
    """Neither frees space: unmounted it is unknown, read-only it is as full as before."""
    extra = "30 25 8:2 / /mnt rw,relatime - ext4 /dev/sda2 {}\n"
    machine.used(0.85, where="/mnt")
    machine.mount(more=extra.format("rw"))
    machine.look(6)
    machine.mount(more=extra.format("ro"))
    machine.look(60)
    assert machine.states("FilesystemFull") == {"firing"}
    machine.mount()
    machine.look(60)
    assert machine.states("FilesystemFull") == {"unknown"}


def test_a_file_system_that_fills_in_ten_hours(machine: FakeMachine) -> None:
    """10 GiB an hour: the forecast comes first, then 80 and 90 %; one incident of its own."""
    for number in range(10 * 12 + 1):
        machine.used(min(number / 120, 1.0))
        machine.look(every=300.0)
    assert machine.fired == [
        ("FilesystemFillingUp", "warning"),
        ("FilesystemFillingUp", "critical"),
        ("FilesystemFull", "warning"),
        ("FilesystemFull", "critical"),
    ]
    incidents = {mail.due.incident.object for mail in machine.host.mails}
    assert incidents == {"/"}
    hours = [
        (uptime - 1000.0) / HOUR
        for uptime, name, level in machine.host.fired
        if level == "critical"
    ]
    assert 6 <= hours[0] <= 6.5


def test_eighty_per_cent_does_not_flap(machine: FakeMachine) -> None:
    """79.9, 80.1, 79.9 ...: one mail; below 78 % it is resolved."""
    for number in range(40):
        machine.used(0.801 if number % 2 else 0.799)
        machine.look(every=60.0)
    assert machine.fired == [("FilesystemFull", "warning")]
    machine.used(0.77)
    machine.look(60, every=60.0)
    assert machine.host.reasons() == ["opened", "resolved"]
    assert machine.fired == [("FilesystemFull", "warning")]


@pytest.mark.parametrize(("tebibytes", "fires"), [(1, False), (0.4, True)])
def test_a_large_file_system_has_a_floor(
    machine: FakeMachine, tebibytes: float, fires: bool
) -> None:
    """85 % of 1 TiB leaves 165 GB, which is enough: no alert. 64 GB left: alert."""
    machine.used(0.85, size=int(tebibytes * 2**40))
    machine.look(30)
    assert bool(machine.fired) is fires


def test_the_floor_does_not_hold_where_it_fills(machine: FakeMachine) -> None:
    """165 GB are left at 85 %, and 10 GB go every day: that is no month."""
    size = 2**40
    for number in range(5 * 24):
        machine.used(0.80 + 0.01 * number / 24, size=size)
        machine.look(every=HOUR)
    assert ("FilesystemFull", "warning") in machine.fired
    assert ("FilesystemFull", "critical") not in machine.fired


def test_inodes_run_out_as_space_does(machine: FakeMachine) -> None:
    """A mail queue of a million files on a disk that is half empty."""
    machine.used(0.5, inodes=0.85)
    machine.look(2)
    assert machine.fired == [("FilesystemInodesFull", "warning")]
    machine.used(0.5, inodes=0.95)
    machine.look(2)
    assert machine.fired[-1] == ("FilesystemInodesFull", "critical")


def test_btrfs_errors_stay_until_they_are_reset(machine: FakeMachine) -> None:
    """Read errors warn for a day, bad blocks and lost writes until the count is 0 again."""
    path = f"/sys/fs/btrfs/{UUID}"

    def stats(read: int, corruption: int, missing: int = 0, write: int = 0) -> None:
        machine.write(
            {
                f"{path}/label": "pool\n",
                f"{path}/devinfo/1/missing": f"{missing}\n",
                f"{path}/devinfo/1/error_stats": (
                    f"write_errs {write}\nread_errs {read}\nflush_errs 0\n"
                    f"corruption_errs {corruption}\ngeneration_errs 0\n"
                ),
            }
        )

    stats(2, 1)
    machine.look(4)
    assert machine.fired == [("BtrfsErrorsInBaseline", "notice")]
    stats(3, 1)
    machine.look(2)
    assert machine.fired[-1] == ("BtrfsReadErrors", "warning")
    stats(3, 4)
    machine.look(2)
    assert machine.fired[-1] == ("BtrfsErrors", "warning")
    assert machine.summary("BtrfsErrors") == (
        "btrfs 'pool': device 1 has 3 new errors (write, flush, corruption or generation)"
    )
    stats(3, 4, write=1)
    machine.look(2)
    assert machine.fired[-1] == ("BtrfsErrors", "critical")
    machine.look(8 * 4, every=HOUR)
    assert machine.states("BtrfsReadErrors") <= {"resolved"}
    assert machine.states("BtrfsErrors") == {"firing"}
    stats(0, 0)
    machine.look(2)
    assert machine.states("BtrfsErrors") == {"resolved"}
    stats(0, 0, missing=1)
    machine.look(2)
    assert machine.fired[-1] == ("BtrfsDeviceMissing", "critical")


def test_access_times_are_information(machine: FakeMachine) -> None:
    """Mounted with strictatime: in the weekly digest, not in a mail of its own."""
    machine.write(
        {"/proc/1/mountinfo": "25 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n"}
    )
    machine.look(6)
    assert "MountStrictAtime" in machine.host.names("info")
    assert machine.host.mails == []


def test_a_backup_disk_that_is_read_only_by_day_is_no_warning(machine: FakeMachine) -> None:
    """Mounted by hand (noauto), writable for the backup only; an error is still reported."""
    machine.write({"/etc/fstab": "UUID=1 / ext4 defaults 0 1\n/dev/sda2 /b ext4 noauto 0 0\n"})
    backup = "26 1 8:2 / /b {mount} shared:1 - ext4 /dev/sda2 {super}\n"
    machine.used(0.5, where="/b")
    for option in ("rw", "ro", "rw"):
        machine.mount(more=backup.format(mount=option, super=option))
        machine.look(30)
    assert machine.host.mails == []
    machine.mount(more=backup.format(mount="rw", super="ro"))
    machine.look(2)
    assert machine.fired[-1] == ("FilesystemReadOnly", "critical")


def test_errors_end_with_their_file_system(machine: FakeMachine) -> None:
    """Saved, created again as XFS and restored: e2fsck will never clear that count."""
    machine.errors(2)
    machine.look(4)
    machine.memory.remove("/sys/fs/ext4/sda1")
    machine.write({"/proc/1/mountinfo": ROOT.format(mount="rw", super="rw").replace("ext4", "xfs")})
    machine.look(50)
    assert machine.host.reasons() == ["opened", "resolved"]
