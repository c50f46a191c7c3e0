"""Arrays that lose members and disks that change, on whole hosts: which alerts, and when."""

from __future__ import annotations

import pytest
from support.simulation import Looks

from iowarden.collectors.block import diskstats

DAY = 86_400.0
DISKS = ("sda", "sdb", "sdc", "sdd")
SECTORS = 1_953_525_168
MOUNTED_ELSEWHERE = {"/proc/1/mountinfo": "25 1 8:1 / / rw,noatime - ext4 /dev/sdz1 rw\n"}
MOUNTED = {"/proc/1/mountinfo": "30 1 9:0 / /srv rw,noatime - ext4 /dev/md0 rw\n"}


class FakeMachine(Looks):
    """A host with disks and an array 'md0' on their first partitions, as files."""

    def __init__(self, level: str = "raid5", members: int = 3) -> None:
        super().__init__()
        self.level = level
        self.raid_disks = members
        self.members = [f"{name}1" for name in DISKS[:members]]
        for name in DISKS:
            self.disk(name)
        names = [*DISKS, *(f"{name}1" for name in DISKS), "md0", "md1"]
        lines = [f"8 {n} {name} 0 0 0 0 0 0 0 0 0 0 0\n" for n, name in enumerate(names)]
        self.write({"/proc/diskstats": "".join(lines)})
        self.array()
        for member in self.members:
            self.member(member)

    def disk(
        self, name: str, *, sectors: int = SECTORS, read_only: int = 0, state: str = "running"
    ) -> None:
        """Set the kernel's data of a disk."""
        base, address = f"/sys/block/{name}", f"{DISKS.index(name)}:0:0:0"
        serial = f"S-{name}".encode()
        self.write(
            {
                f"{base}/slaves": None,
                f"{base}/holders": None,
                f"{base}/size": f"{sectors}\n",
                f"{base}/ro": f"{read_only}\n",
                f"{base}/removable": "0\n",
                f"{base}/{name}1/partition": "1\n",
                f"{base}/{name}1/start": "2048\n",
                f"{base}/{name}1/size": f"{max(sectors - 2048, 0)}\n",
                f"{base}/device/scsi_device/{address}": None,
                f"{base}/device/model": "SIMULATED HDD\n",
                f"{base}/device/vpd_pg80": b"\0\x80\0" + bytes([len(serial)]) + serial,
                f"/sys/class/scsi_device/{address}/device/state": f"{state}\n",
                f"/sys/class/scsi_device/{address}/device/type": "0\n",
                f"/sys/class/scsi_device/{address}/device/block/{name}": None,
                f"/sys/class/scsi_host/host{DISKS.index(name)}/proc_name": "ahci\n",
            }
        )

    def array(
        self,
        *,
        state: str = "clean",
        degraded: int = 0,
        action: str = "idle",
        done: str = "none",
        mismatches: int = 0,
        name: str = "md0",
        metadata: str = "1.2",
    ) -> None:
        """Set the kernel's data of an array."""
        path = f"/sys/block/{name}/md"
        self.write(
            {
                f"{path}/metadata_version": f"{metadata}\n",
                "/proc/mdstat": "Personalities : [raid1] [raid6] [raid5]\nunused devices: <none>\n",
                f"/sys/block/{name}/size": "3906525184\n",
                f"/sys/block/{name}/slaves": None,
                f"{path}/array_state": f"{state}\n",
                f"{path}/level": f"{self.level}\n",
                f"{path}/raid_disks": f"{self.raid_disks}\n",
                f"{path}/degraded": f"{degraded}\n",
                f"{path}/sync_action": f"{action}\n",
                f"{path}/sync_completed": f"{done}\n",
                f"{path}/mismatch_cnt": f"{mismatches}\n",
                f"{path}/chunk_size": "524288\n",
            }
        )

    def member(
        self,
        name: str,
        state: str = "in_sync",
        *,
        errors: int = 0,
        bad: str = "",
        fresh: str = "",
        filled: bool = False,
    ) -> None:
        """Set the kernel's data of a member of md0; `filled`: it is being recovered onto."""
        path = f"/sys/block/md0/md/dev-{name}"
        in_place = filled or state == "in_sync"
        slot = f"{self.members.index(name)}\n" if in_place else "none\n"
        self.write(
            {
                f"{path}/state": f"{state}\n",
                f"{path}/slot": slot,
                f"{path}/errors": f"{errors}\n",
                f"{path}/bad_blocks": bad,
                f"{path}/unacknowledged_bad_blocks": fresh,
                f"/sys/block/md0/slaves/{name}": None,
                f"/sys/block/{name.rstrip('1')}/{name}/holders/md0": None,
            }
        )

    @property
    def fired(self) -> list[tuple[str, str]]:
        """Name and severity of every alert of an array or a disk's state that mails, in order."""
        own = ("Md", "DiskOffline", "DiskReadOnly", "DiskSizeDecreased", "DiskSizeIncreased")
        return [
            (name, level)
            for _, name, level in self.host.fired
            if name.startswith(own) and level != "info"
        ]


@pytest.fixture
def machine() -> FakeMachine:
    """A healthy raid5 of three, observed for two minutes."""
    machine = FakeMachine()
    machine.look(8)
    assert machine.fired == []
    return machine


def test_an_array_that_loses_a_member_is_rebuilt_and_is_well_again(machine: FakeMachine) -> None:
    """One incident, of the disk: critical at once, the rebuild is mentioned, then resolved."""
    machine.member("sdb1", "faulty")
    machine.array(state="active", degraded=1)
    machine.look(2)
    assert ("MdDegraded", "critical") in machine.fired
    assert machine.summary("MdDegraded") == "1 member of md0 missing"
    assert machine.host.reasons() == ["opened"]
    machine.memory.remove("/sys/block/md0/md/dev-sdb1")
    machine.members[1] = "sdd1"
    machine.member("sdd1", "spare")
    machine.array(state="active", degraded=1, action="recover", done="195 / 1000")
    machine.look(2)
    assert machine.summary("MdDegraded") == ("1 member of md0 missing, being rebuilt: 19.5 %")
    machine.member("sdd1")
    machine.array()
    machine.look(50)
    assert machine.host.reasons() == ["opened", "resolved"]
    assert len({mail.due.incident.identifier for mail in machine.host.mails}) == 1


@pytest.mark.parametrize("level", ["raid4", "raid5"])
def test_a_new_array_that_is_built_is_no_failure(level: str) -> None:
    """mdadm makes it one member short and recovers onto its last: information.

    Also when a file system is made and mounted meanwhile, and over a restart. Later it is a loss.
    """
    machine = FakeMachine(level)
    machine.write(MOUNTED_ELSEWHERE)
    machine.member("sdc1", "spare", filled=True)
    machine.array(state="active", degraded=1, action="recover", done="10 / 1000")
    machine.look(4)
    machine.write(MOUNTED)
    machine.look(4)
    machine.restart()
    machine.look(4)
    assert machine.fired == []
    assert "MdSyncRunning" in machine.host.names("info")
    machine.member("sdc1")
    machine.array()
    machine.look(4)
    machine.member("sdc1", "spare", filled=True)
    machine.array(state="active", degraded=1, action="recover", done="10 / 1000")
    machine.look(2)
    assert machine.fired == [("MdDegraded", "critical")]


@pytest.mark.parametrize(
    ("level", "members", "spare"),
    [
        ("raid1", 2, "sdb1"),
        ("raid5", 3, "sda1"),
        ("raid5", 3, "sdb1"),
        ("raid6", 4, "sdd1"),
        ("raid10", 4, "sdd1"),
        ("multipath", 2, "sdb1"),
        ("raidx", 2, "sdb1"),
    ],
)
def test_a_rebuild_at_first_sight_is_reported(level: str, members: int, spare: str) -> None:
    """All disks are there and one is being filled: no array of these is made so.

    Whatever the level is: where the kernel counts what is missing, there is redundancy to miss. A
    raid6 survives one more disk.
    """
    machine = FakeMachine(level, members)
    machine.member(spare, "spare", filled=True)
    machine.array(state="active", degraded=1, action="recover", done="10 / 1000")
    machine.look(2)
    assert machine.fired == [("MdDegraded", "warning" if level == "raid6" else "critical")]


def test_a_rebuild_of_an_array_in_use_at_first_sight_is_reported() -> None:
    """A raid5 whose last disk was replaced looks like a new one, except that it is mounted."""
    machine = FakeMachine()
    machine.write(MOUNTED)
    machine.member("sdc1", "spare", filled=True)
    machine.array(state="active", degraded=1, action="recover", done="10 / 1000")
    machine.look(2)
    assert machine.fired == [("MdDegraded", "critical")]


def test_an_array_in_a_container_is_not_made_one_short() -> None:
    """IMSM's raid5 is made whole and resynchronized: one that is short lost a disk."""
    machine = FakeMachine()
    machine.member("sdc1", "spare", filled=True)
    rebuilt = {"state": "active", "action": "recover", "done": "10 / 1000"}
    machine.array(degraded=1, metadata="external:/md127/0", **rebuilt)
    machine.look(2)
    assert machine.fired == [("MdDegraded", "critical")]


def grow(machine: FakeMachine) -> None:
    """'mdadm --grow --raid-devices=3 --add': one short until it is filled, its size as before."""
    machine.look(8)
    machine.raid_disks = 3
    machine.members.append("sdc1")
    machine.member("sdc1", "spare", filled=True)
    machine.array(state="active", degraded=1, action="recover", done="10 / 1000")
    machine.look(8)
    assert machine.fired == []


def test_a_mirror_that_gets_a_third_disk_is_no_failure() -> None:
    """It grew by exactly what is missing; once that is filled, a loss is one."""
    machine = FakeMachine("raid1", 2)
    grow(machine)
    machine.member("sdc1")
    machine.array()
    machine.look(2)
    machine.member("sdc1", "faulty")
    machine.array(state="active", degraded=1)
    machine.look(2)
    assert ("MdDegraded", "warning") in machine.fired
    assert ("MdDegraded", "critical") not in machine.fired, "two copies are left"


def test_a_raid0_that_becomes_a_raid5_is_no_failure() -> None:
    """'mdadm --grow --level=5 --add': its parity is what is missing, and is being written."""
    machine = FakeMachine("raid0", 2)
    machine.array()
    for attribute in ("degraded", "sync_action", "sync_completed", "mismatch_cnt"):
        machine.memory.remove(f"/sys/block/md0/md/{attribute}")
    machine.look(8)
    machine.level, machine.raid_disks = "raid5", 3
    machine.members.append("sdc1")
    machine.member("sdc1", "spare", filled=True)
    machine.array(state="active", degraded=1, action="reshape", done="10 / 1000")
    machine.look(8)
    assert machine.fired == []
    machine.member("sda1", "faulty")
    machine.array(state="active", degraded=2, action="reshape", done="20 / 1000")
    machine.look(2)
    assert ("MdDegraded", "critical") in machine.fired


def test_a_mirror_that_loses_a_disk_while_it_grows_is_reported() -> None:
    """Also when the third has been filled and the first is replaced: one is missing again."""
    machine = FakeMachine("raid1", 2)
    grow(machine)
    machine.member("sdb1", "faulty")
    machine.array(state="active", degraded=2, action="recover", done="20 / 1000")
    machine.look(2)
    assert ("MdDegraded", "critical") in machine.fired
    machine.member("sdc1")
    machine.memory.remove("/sys/block/md0/md/dev-sdb1")
    machine.members[1] = "sdd1"
    machine.member("sdd1", "spare", filled=True)
    machine.array(state="active", degraded=1, action="recover", done="10 / 1000")
    machine.look(2)
    assert machine.fired[-1] == ("MdDegraded", "warning"), "two copies are left"
    assert "firing" in machine.states("MdDegraded")


@pytest.mark.parametrize(("level", "lost"), [("raid4", 2), ("raid5", 2), ("raid6", 3)])
@pytest.mark.parametrize("state", ["active", "clean"])
def test_an_array_that_lost_more_than_it_bears_does_not_run(
    level: str, lost: int, state: str
) -> None:
    """Its state is as before: of kernels before 5.18, and of later ones while it is not clean."""
    machine = FakeMachine(level, 4)
    machine.look(8)
    machine.array(state=state, degraded=lost - 1)
    machine.look(2)
    assert ("MdBroken", "critical") not in machine.fired
    machine.array(state=state, degraded=lost)
    machine.look(1)
    assert ("MdBroken", "critical") in machine.fired


def test_a_second_member_that_is_lost_is_reported_although_the_first_is_known() -> None:
    """raid6, pulled and not failed: no member is listed as faulty, only the count shows it."""
    machine = FakeMachine("raid6", 4)
    machine.look(8)
    for number, name in enumerate(("sdb1", "sdc1"), 1):
        machine.memory.remove(f"/sys/block/md0/md/dev-{name}")
        machine.array(state="active", degraded=number)
        machine.look(60)
    assert machine.host.reasons() == ["opened", "escalated"]
    assert machine.summary("MdDegradedFurther") == "2 members of md0 missing"


def test_a_member_missing_at_first_sight_is_reported() -> None:
    """Nothing rebuilds it: that is no creation."""
    machine = FakeMachine()
    machine.memory.remove("/sys/block/md0/md/dev-sdc1")
    machine.array(degraded=1)
    machine.look(3)
    assert machine.fired == [("MdDegraded", "critical")]


def test_a_rebuild_at_first_sight_that_leaves_one_missing_is_reported() -> None:
    """raid6 of four: one is rebuilt, another one is not there. No array is made so."""
    machine = FakeMachine("raid6", 4)
    machine.memory.remove("/sys/block/md0/md/dev-sdc1")
    machine.member("sdd1", "spare")
    machine.array(state="active", degraded=2, action="recover", done="10 / 1000")
    machine.look(3)
    assert machine.fired[0] == ("MdDegraded", "critical")


@pytest.mark.parametrize("state", ["clean", "active", "active-idle", "write-pending", "read-auto"])
def test_the_states_of_a_healthy_array_are_silent(machine: FakeMachine, state: str) -> None:
    """An array is auto-read-only until the first write."""
    machine.array(state=state)
    machine.look(30)
    assert machine.fired == []


def test_an_array_that_could_not_be_started_is_critical_after_a_minute(
    machine: FakeMachine,
) -> None:
    """Assembly takes seconds; inactive for a minute is a failure."""
    machine.array(state="inactive")
    machine.look(3)
    assert machine.fired == []
    machine.look(4)
    assert machine.fired == [("MdInactive", "critical")]
    assert machine.summary("MdInactive") == "array md0 does not run (inactive)"


@pytest.mark.parametrize("kind", ["imsm", "ddf"])
def test_the_container_of_a_firmware_raid_is_always_inactive(kind: str) -> None:
    """Also one that holds nothing but spares; what is in it is no container, and is to run."""
    machine = FakeMachine()
    machine.array(state="inactive", name="md1", metadata=f"external:{kind}")
    machine.write({"/sys/block/md1/md/level": "\n", "/sys/block/md1/md/raid_disks": "0\n"})
    machine.write({"/sys/block/md1/md/dev-sdd1/state": "spare\n"})
    machine.look(30)
    assert machine.fired == []


@pytest.mark.parametrize(
    "metadata", ["external:/md127/1", "external:-md127/1", "1.2", "0.90", "none"]
)
def test_a_stopped_array_is_no_container(metadata: str) -> None:
    """Two arrays on the same disks (IMSM, 'matrix'), and the second does not start."""
    machine = FakeMachine()
    machine.array(metadata="external:/md127/0")
    machine.array(state="inactive", name="md1", metadata=metadata)
    for member in machine.members:
        machine.write({f"/sys/block/md1/md/dev-{member}/state": "spare\n"})
    machine.look(8)
    assert machine.fired == [("MdInactive", "critical")]
    assert machine.summary("MdInactive") == "array md1 does not run (inactive)"


def test_a_broken_array_is_critical_at_once(machine: FakeMachine) -> None:
    """A raid5 that lost two: only '/proc/mdstat' shows it while the array is not clean."""
    machine.array(state="active", degraded=1)
    machine.look(2)
    machine.write(
        {
            "/proc/mdstat": "Personalities : [raid5]\nmd0 : broken raid5 sdc1[2] sdb1[1](F) sda1[0]"
            "(F)\n      1953262592 blocks super 1.2 level 5, 512k chunk, algorithm 2 [3/1] [__U]\n"
            "      \nunused devices: <none>\n"
        }
    )
    machine.look(1)
    assert ("MdBroken", "critical") in machine.fired
    assert machine.summary("MdBroken") == "array md0 does not run (broken)"


def test_a_member_that_waits_to_record_a_bad_block_has_not_failed(machine: FakeMachine) -> None:
    """The kernel then lists it as faulty next to 'in_sync', until the superblock is written."""
    machine.member("sdb1", "faulty,in_sync,blocked,write_error,want_replacement")
    machine.look(2)
    assert machine.fired == [("MdMemberWantReplacement", "warning")]


def test_an_array_that_turns_read_only_is_a_warning(machine: FakeMachine) -> None:
    """It was written a moment ago."""
    machine.array(state="readonly")
    machine.look(25)
    assert machine.fired == [("MdReadOnly", "warning")]


def test_corrected_read_errors_are_a_warning_for_a_day(machine: FakeMachine) -> None:
    """The count at baseline is not new; an increase is reported until a day passes without one."""
    machine.member("sdb1", errors=3)
    machine.look(2)
    assert machine.fired == [("MdMemberReadErrors", "warning")]
    assert machine.summary("MdMemberReadErrors") == ("3 corrected read errors of sdb1 in array md0")
    machine.look(25, every=3600.0)
    assert machine.states("MdMemberReadErrors") <= {"resolved"}


def test_errors_from_before_the_first_sight_are_silent() -> None:
    """The array has run for a year."""
    machine = FakeMachine()
    machine.member("sdb1", errors=20)
    machine.look(20)
    assert machine.fired == []


def test_a_counter_that_began_anew_with_its_array_counts_in_full() -> None:
    """20 errors before a reboot, 2 after it: the kernel counts from assembly on."""
    machine = FakeMachine()
    machine.member("sdb1", errors=20)
    machine.look(4)
    machine.member("sdb1", errors=2)
    machine.restart()
    machine.look(2)
    assert machine.fired == [("MdMemberReadErrors", "warning")]
    assert "2 corrected read errors" in machine.summary("MdMemberReadErrors")


def test_bad_blocks_are_a_warning_and_critical_when_they_cannot_be_recorded(
    machine: FakeMachine,
) -> None:
    """Unacknowledged for a minute: the superblock could not be written."""
    machine.member("sdb1", bad="1024 8\n4096 16\n")
    machine.look(2)
    assert machine.fired == [("MdMemberBadBlocks", "warning")]
    machine.member("sdb1", bad="1024 8\n4096 16\n", fresh="9000 8\n")
    machine.look(3)
    assert len(machine.fired) == 1
    machine.look(4)
    assert machine.fired[-1] == ("MdMemberBadBlocks", "critical")


def test_a_member_that_wants_to_be_replaced_is_a_warning(machine: FakeMachine) -> None:
    """The array is whole and goes on with it."""
    machine.member("sdb1", "in_sync,write_error,want_replacement")
    machine.look(2)
    assert machine.fired == [("MdMemberWantReplacement", "warning")]


def check(machine: FakeMachine, mismatches: int, action: str = "check") -> None:
    """Let a check run and find so many sectors."""
    machine.array(state="active", action=action, done="10 / 1000", mismatches=0)
    machine.look(2)
    machine.array(state="active", action=action, done="950 / 1000", mismatches=mismatches)
    machine.look(2)
    machine.array(mismatches=mismatches)
    machine.look(2)


def test_parity_that_does_not_fit_is_critical_once_the_check_is_done(machine: FakeMachine) -> None:
    """raid5: 128 sectors. Repaired: resolved. The count after a repair is what it corrected."""
    machine.array(state="active", action="check", done="500 / 1000", mismatches=128)
    machine.look(4)
    assert machine.fired == []
    check(machine, 128)
    assert machine.fired == [("MdMismatches", "critical")]
    assert machine.summary("MdMismatches") == ("data and redundancy of array md0 differ in 64 KiB")
    check(machine, 128, "repair")
    assert machine.states("MdMismatches") == {"resolved"}


@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize("told", [True, False])
def test_what_the_first_resync_of_an_array_counts_is_no_difference(
    *, seen: bool, told: bool
) -> None:
    """A raid6 just created: all of its parity was wrong and was corrected."""
    machine = FakeMachine("raid6", 4)
    if told:
        machine.write({"/sys/block/md0/md/last_sync_action": "resync\n"})
    if seen:
        machine.array(state="active", action="resync", done="10 / 1000", mismatches=80_000)
        machine.look(4)
    machine.array(mismatches=8_000_000)
    machine.look(4)
    expected = [] if seen or told else [("MdMismatches", "critical")]
    assert machine.fired == expected


def test_copies_that_differ_are_a_warning_after_the_second_check() -> None:
    """raid1 with swap: a few sectors are harmless, many in two checks are not."""
    machine = FakeMachine("raid1", 2)
    machine.look(2)
    check(machine, 1024)
    check(machine, 1024)
    check(machine, 4096)
    assert machine.fired == []
    check(machine, 2048)
    assert machine.fired == [("MdMismatches", "warning")]
    check(machine, 0)
    assert machine.states("MdMismatches") == {"resolved"}


def test_an_interrupted_check_clears_nothing(machine: FakeMachine) -> None:
    """It stopped at a tenth, before the place that differs."""
    check(machine, 128)
    machine.array(state="active", action="check", done="100 / 1000", mismatches=0)
    machine.look(2)
    machine.array(mismatches=0)
    machine.look(4)
    assert machine.states("MdMismatches") == {"firing"}


def test_five_weeks_without_a_check_are_information(machine: FakeMachine) -> None:
    """The clock starts when it is first seen, continues over a restart, and a check resets it."""
    machine.look(34, every=DAY)
    machine.restart()
    assert "MdCheckOverdue" not in machine.host.names()
    machine.look(3, every=DAY)
    assert "MdCheckOverdue" in machine.host.names("info")
    check(machine, 0)
    assert machine.states("MdCheckOverdue") == {"resolved"}
    assert machine.fired == []


def test_a_degraded_array_that_is_stopped_is_unknown_and_not_well(machine: FakeMachine) -> None:
    """mdadm --stop: the kernel no longer lists it."""
    machine.array(degraded=1)
    machine.look(2)
    machine.memory.remove("/sys/block/md0")
    lines = machine.memory.read(diskstats.PATH).splitlines(keepends=True)
    machine.memory.write({diskstats.PATH: "".join(x for x in lines if "md0" not in x)})
    machine.look(60)
    assert machine.states("MdDegraded") == {"unknown"}
    assert machine.host.reasons() == ["opened", "data unavailable"]


def test_an_offline_disk_is_critical_at_once(machine: FakeMachine) -> None:
    """Error recovery failed and the kernel gave it up."""
    machine.disk("sdb", state="offline")
    machine.look(2)
    assert machine.fired == [("DiskOffline", "critical")]
    assert machine.summary("DiskOffline") == "sdb accepts no commands (offline)"
    machine.disk("sdb")
    machine.look(2)
    assert machine.states("DiskOffline") == {"resolved"}


def test_a_disk_in_error_recovery_has_a_minute(machine: FakeMachine) -> None:
    """Blocked for 30 s is what a reset takes."""
    machine.disk("sdb", state="blocked")
    machine.look(3)
    machine.disk("sdb")
    machine.look(2)
    assert machine.fired == []
    machine.disk("sdb", state="blocked")
    machine.look(6)
    assert machine.fired == [("DiskOffline", "critical")]


def test_a_disk_that_turns_read_only_is_critical(machine: FakeMachine) -> None:
    """An SSD at its end of life; one that was read-only at baseline is so on purpose."""
    machine.disk("sdb", read_only=1)
    machine.look(6)
    assert machine.fired == [("DiskReadOnly", "critical")]
    machine.restart()
    machine.look(6)
    assert machine.states("DiskReadOnly") == {"firing"}


def test_a_write_protected_disk_at_first_sight_is_silent() -> None:
    """It was read-only at baseline."""
    machine = FakeMachine()
    machine.disk("sdb", read_only=1)
    machine.look(20)
    assert machine.fired == []


def test_a_disk_that_shrinks_is_critical_and_one_that_grows_a_notice(machine: FakeMachine) -> None:
    """A failing disk shows 4 MB; a volume enlarged on purpose is as usual after a day."""
    machine.disk("sdb", sectors=8192)
    machine.look(6)
    assert machine.fired == [("DiskSizeDecreased", "critical")]
    machine.disk("sdb")
    machine.disk("sdc", sectors=2 * SECTORS)
    machine.look(6)
    assert machine.fired[-1] == ("DiskSizeIncreased", "notice")
    assert machine.states("DiskSizeDecreased") == {"resolved"}
    machine.look(27, every=3600.0)
    assert machine.states("DiskSizeIncreased") <= {"resolved"}


def test_another_disk_of_the_name_has_its_own_size(machine: FakeMachine) -> None:
    """Replaced by a smaller one: its serial number shows that it is another disk."""
    machine.disk("sdb", sectors=8192)
    machine.write({"/sys/block/sdb/device/vpd_pg80": b"\0\x80\0\x03NEW"})
    machine.look(20)
    assert machine.fired == []


def test_a_disk_without_a_name_of_its_own_is_another_one_once_it_was_away(
    machine: FakeMachine,
) -> None:
    """A volume of a virtual machine is detached, a smaller one attached: no disk has shrunk."""
    machine.memory.remove("/sys/block/sdb/device/vpd_pg80")
    machine.look(8)
    machine.memory.move("/sys/block/sdb", "/away")
    machine.look(8)
    machine.memory.move("/away", "/sys/block/sdb")
    machine.memory.write({"/sys/block/sdb/size": "8192\n"})
    machine.look(8)
    assert machine.fired == []
    machine.memory.write({"/sys/block/sdb/size": "0\n"})
    machine.restart()
    machine.look(8)
    assert machine.fired == []
    machine.memory.write({"/sys/block/sdc/size": "0\n"})
    machine.look(8)
    assert machine.fired == [("DiskSizeDecreased", "critical")]


def test_a_network_block_device_that_is_disconnected_has_not_shrunk(machine: FakeMachine) -> None:
    """qemu-nbd --disconnect leaves nbd0 without a size."""
    machine.memory.copy("/sys/block/sdd", "/sys/block/nbd0")
    machine.look(8)
    machine.memory.write({"/sys/block/nbd0/size": "0\n"})
    machine.look(8)
    assert machine.fired == []
