"""Incidents of disks, adapters and paths, played through the whole service up to its mails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.live import text, watched
from support.storage import Server

from iowarden.rules.advice.map_steps import MAX_MAPS

if TYPE_CHECKING:
    from email.message import EmailMessage
    from pathlib import Path

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def test_a_failover_of_25_seconds_is_no_mail_although_nothing_is_read_meanwhile(
    tmp_path: Path,
) -> None:
    """Both iSCSI paths of a map stand still: that they are paths is known from before."""
    machine = Server(tmp_path)
    for number, name in ((1, "sda"), (2, "sdb")):
        machine.adapter(number, "iscsi_tcp")
        machine.disk(name, f"{number}:0:0:0", serial="LUN1", vendor="LIO-ORG", parts=False)
    machine.volume("dm-0", "mpatha", "mpath-3600a", "sda", "sdb")
    machine.mount("/db", "dm-0")
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.stands("sda", "sdb", "dm-0")
        assert program.wait(24) == []
        machine.goes_on("sda", "sdb", "dm-0")
        assert program.wait(80) == []


def shelf(tmp_path: Path, count: int, level: str, *, log: bool = True) -> Server:
    """Disks of one adapter, all of them in one array."""
    machine = Server(tmp_path, log=log)
    machine.adapter(0, "mpt3sas")
    names = [f"sd{letter}" for letter in LETTERS[:count]]
    for number, name in enumerate(names):
        machine.disk(name, f"0:0:{number}:0", vendor="SEAGATE")
    machine.array("md0", level, *map(machine.partition, names))
    machine.mount("/srv", "md0")
    return machine


def one_thread(mails: list[EmailMessage]) -> bool:
    """Whether all mails are of one incident."""
    return all(mail["In-Reply-To"] for mail in mails[1:])


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize(("count", "level"), [(8, "raid6"), (2, "raid1")])
def test_an_adapter_that_loses_all_disks_is_one_incident_without_any_announcement(
    tmp_path: Path, count: int, level: str, *, log: bool
) -> None:
    """Nobody hears of it but '/proc/diskstats': within seconds the adapter is named, by mail."""
    machine = shelf(tmp_path, count, level, log=log)
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.array_ends("md0")
        machine.loses(
            *(f"sd{letter}" for letter in LETTERS[:count]),
            lines=("mpt3sas_cm0: removing handle(0x0009), sas_addr(0x5000)",),
        )
        first = program.wait(12)
        assert " host0: " in first[-1]["Subject"]
        assert "CRITICAL" in first[-1]["Subject"]
        mails = first + program.wait(120)
        listed = program.program.command("incident", "list").stdout
    assert "array md0 does not run" in listed
    assert one_thread(mails)
    assert all(" host0: " in mail["Subject"] for mail in mails)
    assert len(mails) == 1 + log  # with the log: that the adapter lost a device
    last = text(mails[-1])
    assert " of md0 missing" in last
    assert not [each for each in ("runs with", "no redundancy left") if each in last]
    if log:
        assert "disks gone and array md0 does not" in " ".join(mails[-1]["Subject"].split())
        assert "array md0 does not run" in last
        assert "Do not follow the earlier advice" not in last  # it was to look at the adapter


def test_resets_of_a_link_without_any_loss_are_one_warning(tmp_path: Path) -> None:
    """A bad cable: every half minute the kernel resets the link, and every request succeeds."""
    machine = Server(tmp_path)
    machine.adapter(0, "ahci", **{"/sys/class/ata_port/ata1/device/host0/x": ""})
    machine.disk("sda", "0:0:0:0")
    machine.mount("/srv", "sda1")
    with watched(tmp_path, machine) as program:
        program.wait(20)
        mails = []
        for _ in range(7):
            machine.says(
                "ata1.00: exception Emask 0x10 SAct 0x0 SErr 0x4050000 action 0xe frozen",
                "ata1: SError: { PHYRdyChg CommWake DevExch }",
                "ata1.00: failed command: WRITE DMA EXT",
                "         res 40/00:00:00:00:00/00:00:00:00:00/40 Emask 0x10 (ATA bus error)",
                "ata1: hard resetting link",
            )
            mails += program.wait(28)
    assert [mail["Subject"].split()[0] for mail in mails] == ["[WARNING]"]
    assert "first the cable, then the bay" in text(mails[0])


@pytest.mark.parametrize(
    ("lines", "end", "tags"),
    [
        (
            ("mpt3sas_cm0: fault_state(0x5854)!", "mpt3sas_cm0: sending diag reset !!"),
            "mpt3sas_cm0: diag reset: SUCCESS",
            ["[CRITICAL]", "[OK]"],
        ),
        (("mpt3sas_cm0: sending diag reset !!",), "mpt3sas_cm0: diag reset: SUCCESS",
         ["[WARNING]", "[OK]"]),
        (
            ("mpt3sas_cm0: fault_state(0x5854)!", "mpt3sas_cm0: sending diag reset !!"),
            "mpt3sas_cm0: diag reset: FAILED",
            ["[CRITICAL]"],
        ),
    ],
)  # fmt: skip
def test_an_idle_adapter_that_is_reset_is_over_when_its_driver_prints_that(
    tmp_path: Path, lines: tuple[str, ...], end: str, tags: list[str]
) -> None:
    """No disk waited for it: nothing else shows that it works again. That it stopped is mailed."""
    machine = shelf(tmp_path, 4, "raid6")
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.says(*lines)
        mails = program.wait(14)
        machine.says(end)
        mails += program.wait(800, 10.0)
    assert [mail["Subject"].partition(" ")[0] for mail in mails] == tags
    assert one_thread(mails)


def test_the_disk_that_takes_over_a_name_has_not_stood_still(tmp_path: Path) -> None:
    """It has completed as many requests as the one that was pulled, and its first one waits."""
    machine = Server(tmp_path)
    machine.adapter(1, "ahci")
    machine.disk("sdb", "1:0:0:0")
    machine.mount("/srv", "sdb1")
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.stands("sdb")
        assert len(program.wait(16)) == 1
        machine.takes_over("sdb", "1:0:0:0", serial="OTHER")
        mails = program.wait(30)
        machine.goes_on("sdb")
        mails += program.wait(60)
    assert ["disappeared" in mail["Subject"] for mail in mails] == [False, True]
    assert text(mails[-1]).count("DeviceHang, since") == 1


def test_a_restart_between_a_disk_and_its_array_makes_no_second_incident(tmp_path: Path) -> None:
    """One of two disks without redundancy vanished; iowarden was started anew; the array is broken.

    Of the two links that said so, sysfs has none any more.
    """
    machine = Server(tmp_path)
    machine.adapter(0, "ahci")
    for number, name in enumerate(("sda", "sdb")):
        machine.disk(name, f"{number}:0:0:0")
    array = machine.array("md0", "raid0", "sda1", "sdb1")
    machine.mount("/scratch", "md0")
    with watched(tmp_path, machine) as program:
        program.wait(80)
        machine.loses("sdb", removed=False)
        first, *_ = program.wait(70)
        assert "sdb" in first["Subject"]
        program.restart()
        array.broken = True
        machine.array_is("md0")
        mails = program.wait(60)
        assert {mail["References"] for mail in mails} == {first["Message-ID"]}
        for mail in (first, *mails):
            assert "md0 (raid0) was built on sdb1" in text(mail)
            assert "/scratch (ext4) is on md0" in text(mail)


def test_a_file_system_that_fails_after_a_restart_is_the_vanished_disks_matter(
    tmp_path: Path,
) -> None:
    """Its volume is still mapped, and sysfs has no link any more that says to what."""
    machine = Server(tmp_path)
    machine.adapter(0, "ahci")
    for number, name in enumerate(("sda", "sdb")):
        machine.disk(name, f"{number}:0:0:0")
    machine.volume("dm-0", "vg-data", "LVM-abc", "sdb1")
    machine.mount("/srv", "dm-0")
    with watched(tmp_path, machine) as program:
        program.wait(80)
        machine.loses("sdb")
        (first,) = program.wait(70)
        program.restart()
        machine.says("EXT4-fs error (device dm-0): ext4_find_entry:1455: inode #2: comm ls: lost")
        (second,) = program.wait(60)
    assert second["References"] == first["Message-ID"]
    assert "vg-data was built on sdb1" in text(second)
    refusal = "Do not repair /dev/mapper/vg-data before this is in order: sdb is missing"
    assert refusal in text(second)
    assert "e2fsck" not in text(second)


@pytest.mark.parametrize("partition", ["sdb", "sdb1"])
@pytest.mark.parametrize("hangs", [False, True])
def test_a_file_system_that_fails_as_its_disk_leaves_is_the_disks_matter(
    tmp_path: Path, partition: str, *, hangs: bool
) -> None:
    """sysfs has no disk any more by which its partition could be found; one thread of mails."""
    machine = Server(tmp_path)
    machine.adapter(0, "ahci")
    for number, name in enumerate(("sda", "sdb")):
        machine.disk(name, f"{number}:0:0:0")
    machine.mount("/mnt/cold", partition)
    with watched(tmp_path, machine) as program:
        program.wait(80)
        mails = []
        if hangs:
            machine.stands("sdb")
            mails = program.wait(24, 1.0)
        machine.loses("sdb")
        machine.says(
            "I/O error, dev sdb, sector 266224 op 0x1:(WRITE) flags 0x800 phys_seg 2 prio class 2",
            f"Aborting journal on device {partition}-8.",
            f"EXT4-fs ({partition}): shut down requested (2)",
        )
        mails += program.wait(100)
    assert len({mail["X-Iowarden-Incident"] for mail in mails}) == 1
    assert "file system on" not in str(mails[-1]["Subject"])


def test_swap_that_cannot_be_read_is_reported_at_once_with_how_much_is_in_it(
    tmp_path: Path,
) -> None:
    """Sectors of a disk fail under a swap area: programs are killed that nothing else connects."""
    machine = Server(tmp_path)
    machine.adapter(0, "ahci")
    machine.disk("sda", "0:0:0:0")
    swaps = "Filename\tType\tSize\tUsed\tPriority\n/dev/sda1 partition 8388604 3145728 -2\n"
    machine.change({"/proc/swaps": swaps})
    with watched(tmp_path, machine) as program:
        program.wait(80)
        machine.says(
            "critical medium error, dev sda, sector 4096 op 0x0:(READ) flags 0x0 phys_seg 1",
            "Read-error on swap-device (8:1:4096)",
            priority=1,
        )
        (mail,) = program.wait(8)
        assert "sda" in mail["Subject"]
        assert "memory that was swapped out cannot be read back" in text(mail)
        assert "swap (3 GiB used) is on sda1" in text(mail)
        assert "swapon --show" in text(mail)


def two_paths(tmp_path: Path, driver: str, *, log: bool = True, luns: int = 1) -> Server:
    """LUNs that two adapters reach, each with its map and a file system."""
    machine = Server(tmp_path, log=log)
    names = iter(LETTERS)
    for host in (1, 2):
        sysfs = {f"/sys/bus/pci/drivers/{driver}/0000:05:00.{host}/host{host}/x": ""}
        if driver == "iscsi_tcp":
            sysfs = {f"/sys/class/iscsi_host/host{host}/device/session{host}/x": ""}
        machine.adapter(host, driver, **sysfs)
    for lun in range(luns):
        paths = [f"sd{next(names)}" for _ in (1, 2)]
        for host, name in enumerate(paths, 1):
            serial, address = f"LUN{lun}", f"{host}:0:0:{lun}"
            machine.disk(name, address, serial=serial, vendor="NETAPP", parts=False)
        machine.volume(f"dm-{lun}", f"mpath{LETTERS[lun]}", f"mpath-360{lun}", *paths)
        machine.mount(f"/db{lun}", f"dm-{lun}")
    return machine


@pytest.mark.parametrize("log", [True, False])
def test_one_of_two_paths_that_is_lost_is_a_warning_of_the_map_and_the_last_one_critical(
    tmp_path: Path, *, log: bool
) -> None:
    """Fibre Channel, dev_loss_tmo: the kernel removes the path's device; later the other's."""
    machine = two_paths(tmp_path, "qla2xxx", log=log)
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.loses(
            "sdb",
            lines=(
                "rport-2:0-1: blocked FC remote port time out: removing target and saving binding",
                "sd 2:0:0:0: rejecting I/O to offline device",
                "I/O error, dev sdb, sector 2056 op 0x0:(READ) flags 0x4200 phys_seg 1 prio 2",
                "device-mapper: multipath: 253:0: Failing path 8:16.",
            ),
        )
        (one,) = program.wait(400)
        assert "[WARNING] db1.example.com: mpatha: 1 of 2 paths does not work" in one["Subject"]
        assert "1 of 2 paths of mpatha is lost or has faults, and whether the other" in text(one)
        assert "multipath -ll mpatha" in text(one)
        machine.loses(
            "sda",
            lines=(
                "rport-1:0-1: blocked FC remote port time out: removing target and saving binding",
                "device-mapper: multipath: 253:0: Failing path 8:0.",
            ),
        )
        (last, *more) = program.wait(100)
    assert "[CRITICAL] db1.example.com: mpath" in last["Subject"]
    assert "mpatha has no working path left (of 2)" in text(last)
    assert "--fail" not in text(last)
    assert one_thread([one, last, *more])


def test_a_map_that_hangs_while_all_its_paths_are_running_is_not_said_to_have_working_paths(
    tmp_path: Path,
) -> None:
    """device-mapper has failed them; the SCSI state of each remains 'running'."""
    machine = two_paths(tmp_path, "qla2xxx", log=False)
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.stands("dm-0")
        mails = program.wait(90)
    assert "no request completed" in mails[0]["Subject"]
    for mail in mails:
        said = text(mail)
        assert "Whether any of 2 paths of mpatha (sda, sdb) works is not known" in said
        assert "2 of 2" not in said


def test_an_iscsi_session_that_is_lost_beside_another_is_the_maps_matter(tmp_path: Path) -> None:
    """The kernel gives it up after replacement_timeout: its devices stay, offline."""
    machine = two_paths(tmp_path, "iscsi_tcp")
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.says(" connection2:0: detected conn error (1020)")
        machine.state("sdb", "blocked")
        assert program.wait(20) == []
        machine.says(" session2: session recovery timed out after 5 secs")
        machine.state("sdb", "transport-offline")
        mails = program.wait(120)
        assert ["1 of 2 paths" in mail["Subject"] for mail in mails] == [True]
        machine.state("sdb", "running")
        (over,) = program.wait(700)
    assert "[OK]" in over["Subject"]


def test_a_session_without_another_path_is_critical_when_it_is_given_up(tmp_path: Path) -> None:
    """No multipath: the adapter of the session is the title from the first mail on.

    Its connection failed as the LUN began to hang, before a command of that can have timed out.
    """
    machine = Server(tmp_path)
    machine.adapter(3, "iscsi_tcp", **{"/sys/class/iscsi_host/host3/device/session7/x": ""})
    machine.disk("sda", "3:0:0:0", vendor="LIO-ORG", parts=False)
    machine.mount("/db", "sda")
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.says(" connection7:0: detected conn error (1020)")
        machine.stands("sda")
        (slow,) = program.wait(24)
        assert "[WARNING] db1.example.com: host3: no request completed" in slow["Subject"]
        assert "the adapter, the cables and switches, and the storage array" in text(slow)
        machine.says(" session7: session recovery timed out after 120 secs")
        machine.state("sda", "transport-offline")
        mails = program.wait(90)
    assert all("[CRITICAL] db1.example.com: host3: " in mail["Subject"] for mail in mails)
    assert "connection_lost" in text(mails[-1])
    assert one_thread([slow, *mails])


def test_a_disk_of_a_pool_takes_the_pool_with_it_and_one_that_was_locked_before_nothing(
    tmp_path: Path,
) -> None:
    """No link of sysfs says what ZFS uses. A closed backup disk may be unplugged by anybody."""
    machine = Server(tmp_path)
    machine.adapter(0, "mpt3sas")
    for number, name in enumerate(("sda", "sdb", "sdc")):
        machine.disk(name, f"0:0:{number}:0", vendor="SEAGATE")
    numbers = [machine._numbers[f"{name}1"] for name in ("sda", "sdb", "sdc")]
    member = "I:1200\nE:ID_FS_TYPE=zfs_member\nE:ID_FS_LABEL=tank\n"
    machine.change(
        {
            **{f"/run/udev/data/b{number}": member for number in numbers[:2]},
            f"/run/udev/data/b{numbers[2]}": "I:1200\nE:ID_FS_TYPE=crypto_LUKS\n",
            "/proc/spl/kstat/zfs/tank/state": "ONLINE\n",
            "/proc/1/mountinfo": "60 1 0:51 / /tank/db rw - zfs tank/db rw,xattr\n",
        }
    )
    with watched(tmp_path, machine) as program:
        program.wait(80)
        machine.loses("sdc")
        assert program.wait(70) == []
        machine.loses("sdb")
        (mail,) = program.wait(70)
        said = text(mail)
        assert "sdb" in mail["Subject"]
        assert "pool tank (ZFS) was built on sdb1" in said
        assert "/tank/db (zfs) is on pool tank" in said
        assert "zpool status -v tank" in said


def test_a_disk_that_a_pool_may_use_is_not_said_to_be_unused(tmp_path: Path) -> None:
    """udev knows no signature of it, as where it does not run; the pool is imported."""
    machine = Server(tmp_path)
    machine.adapter(0, "mpt3sas")
    machine.disk("sda", "0:0:0:0", vendor="SEAGATE", parts=False)
    machine.change({"/proc/spl/kstat/zfs/tank/state": "ONLINE\n"})
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.stands("sda")
        (mail, *_) = program.wait(60)
    said = text(mail)
    assert "It may be a member of a ZFS pool: the kernel does not list the members of tank" in said
    assert "is known to use it" not in said


@pytest.mark.parametrize(("log", "luns"), [(True, 6), (False, 6), (True, 9)])
def test_maps_that_lose_all_paths_together_are_one_incident_of_the_fabric(
    tmp_path: Path, *, log: bool, luns: int
) -> None:
    """The storage at the other side is switched off: LUNs with two paths each, one mail."""
    machine = two_paths(tmp_path, "qla2xxx", log=log, luns=luns)
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.loses(
            *(f"sd{letter}" for letter in LETTERS[: 2 * luns]),
            lines=tuple(
                f"rport-{host}:0-1: blocked FC remote port time out: removing target and saving"
                " binding"
                for host in (1, 2)
            ),
        )
        mails = program.wait(120)
    (mail,) = mails
    named = f"storage fabric: {luns} of {luns} multipath maps"
    assert f"[CRITICAL] db1: {named}: mpatha has no" in mail["Subject"]
    said = text(mail)
    assert all(f"/db{number} (ext4)" in said for number in range(luns))
    if luns > MAX_MAPS:
        assert "Paths of 8 other maps have faults as well; all maps: multipath -ll" in said
    else:
        assert all(said.count(f"multipath -ll mpath{each}") == 1 for each in LETTERS[:luns])


def test_an_adapter_that_loses_one_path_of_each_map_is_one_warning(tmp_path: Path) -> None:
    """The link of one of two adapters is down: six maps go on by the other one."""
    machine = two_paths(tmp_path, "qla2xxx", luns=6)
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.says("qla2xxx [0000:05:00.2]-500b:2: LOOP DOWN detected (2 3 0 0).", priority=4)
        assert program.wait(28) == []
        machine.loses(
            *(f"sd{letter}" for letter in LETTERS[1:12:2]),
            lines=(
                "rport-2:0-1: blocked FC remote port time out: removing target and saving binding",
            ),
        )
        (mail,) = program.wait(200)
    assert "[WARNING] db1: storage fabric: 6 multipath maps: 1 of 2 paths" in mail["Subject"]


@pytest.mark.parametrize("log", [True, False])
def test_a_controller_of_nvme_over_fabrics_that_is_lost_is_a_path_of_its_namespace(
    tmp_path: Path, *, log: bool
) -> None:
    """It is connecting for ctrl_loss_tmo, then it is removed; the other one goes on."""
    machine = Server(tmp_path, log=log)
    for number in (0, 1):
        name = f"nvme0c{number}n1"
        state = {f"/sys/block/{name}/device/state": "live\n"}
        machine.disk(name, serial="NQN1", rotational=False, parts=False, more=state)
    machine.disk("nvme0n1", serial="NQN1", rotational=False)
    machine.mount("/db", "nvme0n1p1")
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.says(
            "nvme nvme1: failed nvme_keep_alive_end_io error=10",
            "nvme nvme1: starting error recovery",
            "nvme nvme1: Reconnecting in 10 seconds...",
            priority=4,
        )
        machine.change({"/sys/block/nvme0c1n1/device/state": "connecting\n"})
        (mail,) = program.wait(300)
        assert "[WARNING] db1.example.com: nvme0n1: 1 of 2 paths does not work" in mail["Subject"]
        machine.says("nvme nvme1: Removing controller...", priority=6)
        machine.loses("nvme0c1n1")
        assert program.wait(200) == []


def test_an_expander_that_resets_is_its_adapters_matter(tmp_path: Path) -> None:
    """Half of the disks stand still for 15 s and go on: one warning, and it names the adapter."""
    machine = shelf(tmp_path, 12, "raid6")
    names = [f"sd{letter}" for letter in LETTERS[6:12]]
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.stands(*names)
        (mail,) = program.wait(15)
        machine.goes_on(*names)
        (over,) = program.wait(200)
    assert "[WARNING] db1.example.com: host0: 6 of 12 disks" in mail["Subject"]
    assert "--fail" not in text(mail)
    assert "[OK]" in over["Subject"]


def test_a_shelf_that_leaves_is_its_expander_and_not_the_adapter_that_has_another_one(
    tmp_path: Path,
) -> None:
    """Half of the disks disappear within half a minute; ten minutes later it is still that."""
    machine = shelf(tmp_path, 12, "raid6")
    names = [f"sd{letter}" for letter in LETTERS[6:12]]
    machine.change(
        {
            f"/sys/class/sas_end_device/end_device-0:{number // 6}:{number}/device/"
            f"target0:0:{number}": None
            for number in range(12)
        }
        | {"/sys/class/sas_device/expander-0:1/sas_address": "0x500304801f2e9abf\n"}
    )
    with watched(tmp_path, machine) as program:
        program.wait(80)
        machine.loses(*names[:3])
        first = program.wait(30)
        machine.loses(*names[3:])
        mails = [*first, *program.wait(900, 20.0)]
    assert one_thread(mails)
    assert all(" expander-0:1: " in mail["Subject"] for mail in mails)
    assert "3 of 6 disks: " in first[0]["Subject"]
    assert "SAS expander 0x500304801f2e9abf of host0" in text(first[0])
    assert "sdg, sdh, sdi, sdj, sdk, sdl" in text(mails[-1])


@pytest.mark.parametrize("log", [True, False])
def test_an_enclosure_without_power_is_one_incident_of_the_adapter(
    tmp_path: Path, *, log: bool
) -> None:
    """Half of the disks of one adapter vanish within a second, and the array stops."""
    machine = shelf(tmp_path, 12, "raid6", log=log)
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.array_ends("md0")
        machine.loses(
            *(f"sd{letter}" for letter in LETTERS[6:12]),
            lines=tuple(
                f"mpt3sas_cm0: removing handle(0x00{number:02x}), sas_addr(0x5000c500{number:08x})"
                for number in range(6)
            ),
        )
        mails = program.wait(120)
    assert all(" host0: " in mail["Subject"] for mail in mails)
    assert one_thread(mails)
    assert len(mails) == 1 + log
    assert "6 members of md0 missing" in text(mails[-1])
    assert not any("--fail" in text(mail) for mail in mails)


def test_a_removable_disk_that_nothing_needs_wakes_nobody(tmp_path: Path) -> None:
    """A stick that somebody mounted stands still: a warning that may wait for others."""
    machine = Server(tmp_path)
    machine.adapter(6, "usb-storage")
    machine.disk("sdc", "6:0:0:0", removable=True, rotational=False)
    machine.mount("/media/stick", "sdc1")
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.stands("sdc")
        assert program.wait(60) == []
        (mail,) = program.wait(60)
    assert "[WARNING] db1.example.com: sdc" in mail["Subject"]


@pytest.mark.parametrize(("seconds", "mails"), [(40, 0), (200, 1)])
def test_a_path_that_multipath_gave_up_is_a_warning_unless_it_is_back_within_a_minute(
    tmp_path: Path, seconds: int, mails: int
) -> None:
    """Its device is well for the kernel, its checker finds it failed: only the log tells of it."""
    machine = two_paths(tmp_path, "qla2xxx")
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.says("device-mapper: multipath: 253:0: Failing path 8:16.", priority=4)
        told = program.wait(seconds)
        machine.says("device-mapper: multipath: 253:0: Reinstating path 8:16.", priority=4)
        told += program.wait(120)
    assert ["[WARNING]" in mail["Subject"] for mail in told] == [True] * mails
    assert all("multipath -ll mpatha" in text(mail) for mail in told)


@pytest.mark.parametrize("offset", [0, 5, 10])
def test_a_disk_that_error_recovery_takes_offline_is_reported_so_within_15_s(
    tmp_path: Path, offset: int
) -> None:
    """No line says so: the log is lost, and the state is all that shows that it will not return."""
    machine = Server(tmp_path, log=False)
    machine.adapter(0, "mpt3sas")
    machine.disk("sda", "0:0:0:0", vendor="SEAGATE")
    machine.mount("/srv", "sda1")
    with watched(tmp_path, machine) as program:
        program.wait(20 + offset)
        machine.stands("sda")
        program.wait(2)
        machine.state("sda", "blocked")
        (hangs,) = program.wait(14)
        machine.state("sda", "offline")
        offline = program.wait(12, step=1.0)
    assert "no request completed" in hangs["Subject"]
    assert "Its SCSI state is 'blocked'." in text(hangs)
    assert ["accepts no commands (offline)" in text(mail) for mail in offline] == [True]


def test_errors_of_a_removed_disk_stay_in_the_mails_about_it(tmp_path: Path) -> None:
    """Its requests fail by its address, and its port is reset: no second incident of a stranger."""
    machine = Server(tmp_path)
    for number in range(2):
        port = f"/sys/class/ata_port/ata{number + 1}/device/host{number}"
        machine.adapter(number, "ahci", **{port: ""})
        machine.disk(f"sd{LETTERS[number]}", f"{number}:0:0:0")
    machine.mount("/data", "sdb1")
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.loses("sdb")
        (removed,) = program.wait(70)
        program.restart()
        program.wait(700)
        machine.says(
            "sd 1:0:0:0: rejecting I/O to offline device",
            "ata2: exception Emask 0x10 SAct 0x0 SErr 0x4040000 action 0xe frozen",
            "ata2: hard resetting link",
            "ata2: COMRESET failed (errno=-16)",
            "ata2.00: disabled",
        )
        assert program.wait(200) == []
        identifier = removed["X-Iowarden-Incident"]
        shown = program.program.command("incident", "show", identifier).stdout
    assert r"grep -wE 'sdb|ata2(\.[0-9]+)?|1:0:0:0'" in text(removed)
    assert "rejecting I/O to offline device" in shown


def test_a_port_whose_link_never_comes_up_is_reported_as_that_port(tmp_path: Path) -> None:
    """A disk that does not start, or an empty bay with a bad cable: no disk is blamed."""
    machine = Server(tmp_path)
    for number in range(2):
        port = f"/sys/class/ata_port/ata{number + 1}/device/host{number}"
        machine.adapter(number, "ahci", **{port: ""})
    machine.disk("sda", "0:0:0:0")
    machine.mount("/data", "sda1")
    with watched(tmp_path, machine) as program:
        program.wait(20)
        machine.says(
            "ata2: link is slow to respond, please be patient (ready=0)",
            *["ata2: COMRESET failed (errno=-16)"] * 3,
            "ata2: reset failed, giving up",
            "ata2: EH complete",
        )
        (mail,) = program.wait(100)
    assert " ata2: " in mail["Subject"]
    assert "ata2 (ATA port of host1 without a disk)" in text(mail)
    assert r"dmesg -T | grep -wE 'ata2(\.[0-9]+)?' | tail -30" in text(mail)
    assert "sda" not in text(mail)
