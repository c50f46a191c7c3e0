"""Advice names the actual objects, and does no harm if it is followed literally."""

from __future__ import annotations

import functools
import importlib.resources
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.everything import ARRAYS, RAID6, array, devices, everything, wrong
from support.host import Host
from support.incidents import Load, Story
from support.machine import disk, topology

from iowarden.collectors.model import Chunk, Family
from iowarden.rules.advice.advice import combined, filled, steps_of, text_of_member, unknown_steps
from iowarden.rules.advice.advice_steps import STEPS
from iowarden.rules.advice.controller_programs import query_commands
from iowarden.rules.advice.dirty_limits import Backlog
from iowarden.rules.advice.facts import Facts, slow
from iowarden.rules.advice.step import AdviceSubject
from iowarden.rules.alerting import unit_tests
from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.events.event_table import parse_events_file
from iowarden.rules.incidents.model import IncidentMember
from iowarden.rules.promql.evaluator import Sample
from iowarden.rules.rulefile.rulefile import parse_rule_file
from iowarden.rules.severity import Severity
from iowarden.rules.topology.device_changes import Devices, VanishedDisk
from iowarden.rules.topology.device_identity import identity

if TYPE_CHECKING:
    from collections.abc import Mapping

RULES = importlib.resources.files("iowarden.rules")
UNITS = Path(__file__).parents[1] / "units"


def said(
    steps: str, facts: Facts, others: tuple[Mapping[str, str], ...] = (), **labels: str
) -> str:
    """Return the texts of some steps about an object."""
    subject = labels.pop("subject", "")
    return filled(steps, AdviceSubject(labels, subject, others), facts)


# --- arrays


def test_a_disk_that_hangs_is_taken_out_of_its_mirror_by_its_real_name() -> None:
    """One half of a raid1 hangs, the other is well."""
    text = said("{member}", everything(troubled=("sda",)), device="sda")
    assert "  mdadm /dev/md0 --fail /dev/sda1" in text.splitlines()
    assert "with no redundancy" in text


def test_a_disk_that_answers_again_is_not_taken_out() -> None:
    """Its alert stays for a minute; the advice is for the current state."""
    about = AdviceSubject({"device": "sda"}, over=True)
    assert filled("{member}", about, everything(troubled=("sda",))) == ""


def test_none_of_eight_disks_of_one_adapter_is_taken_out() -> None:
    """All members of one raid6 are at their adapter: failing them destroys the array."""
    names = [f"sd{letter}" for letter in RAID6]
    facts = everything(troubled=names, adapters=("host4",))
    labels = tuple({"device": name} for name in names)
    texts = [said("{member}", facts, device=name) for name in names]
    texts.append(said("{member}", facts, labels, device="sdc", subject="adapter host4"))
    for text in texts:
        assert "--fail" not in text
        assert "from md1: its adapter (host4) is faulty" in text


@pytest.mark.parametrize("level", ["raid0", "raid5", "raid1"])
def test_the_last_that_an_array_can_lose_is_kept(level: str) -> None:
    """A raid5 without one member, a raid1 with one left, a raid0: never `--fail`."""
    arrays = {"md0": array("md0", level, ("sda1", "sdb1"), 2 if level == "raid0" else 3)}
    if level == "raid1":
        arrays = {"md0": array("md0", level, ("sda1",), 2)}
    text = said("{member}\n{sooner}", everything(troubled=("sda",), arrays=arrays), device="sda")
    assert "--fail" not in text
    assert "scterc" not in text
    assert "Do not remove /dev/sda1 from md0" in text


@pytest.mark.parametrize(
    ("level", "is_member", "expected"),
    [("raid1", True, True), ("raid6", True, True), ("raid0", True, False), ("raid1", False, False)],
)
def test_only_a_slow_member_of_an_array_is_not_to_be_failed_before_it_is_replaced(
    level: str, is_member: bool, expected: bool
) -> None:
    """A disk of no array has no copy that mdadm could take away, and raid0 has none."""
    arrays = {"md0": array("md0", level, ("sda1", "sdb1"))}
    text = said("{keep}", everything(arrays=arrays), device="sda" if is_member else "sdm")
    assert ("mdadm --fail" in text) == expected


@pytest.mark.parametrize(
    ("cause", "disk", "is_advised"),
    [
        ("slow", "sda", True),
        ("stuck requests", "sda", True),
        ("slow", "sdm", False),
        ("backlog", "", False),
        ("hang", "sda", False),
    ],
)
def test_programs_that_wait_for_a_slow_half_of_a_mirror_are_told_how_it_is_replaced(
    cause: str, disk: str, is_advised: bool
) -> None:
    """The alert is about md0; without a copy on a spare its last redundancy would be given up."""
    known = everything().of
    waited_for = Backlog({"md0": cause}, disks={"md0": disk})
    text = said("{replace_slow}", Facts(replace(known, backlog=waited_for)), device="md0")
    assert ("  mdadm /dev/md0 --replace /dev/sda1" in text.splitlines()) is is_advised
    assert text.startswith("As long as sda answers, it holds a copy of your data") is is_advised


def test_a_path_is_reported_by_the_paths_that_are_left_and_nothing_of_md() -> None:
    """One of two paths hangs, and the map is a member of an array."""
    arrays = {"md3": array("md3", "raid1", ("dm-0", "sda1"))}
    text = said(
        "{state}\n{member}\n{sooner}\n{array}",
        everything(troubled=("sdk",), arrays=arrays),
        device="sdk",
    )
    assert (
        "1 of 2 paths of mpatha is lost or has faults, and whether the other one works is not known"
        " (sdl); their state in multipathd:"
    ) in text
    assert "  multipath -ll mpatha" in text.splitlines()
    assert "mdadm" not in text
    assert "scterc" not in text


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, "Whether any of 2 paths of mpatha (sdk, sdl) works is not known: the kernel does not"),
        (
            {"unknown": 2, "lost": 0},
            "Whether any of 2 paths of mpatha (sdk, sdl) works is not known",
        ),
        (
            {"unknown": 2, "lost": 1, "waiting": 1},
            "2 of 4 paths of mpatha are lost or have faults, and whether the other 2 work is",
        ),
        ({"lost": 2}, "2 of 2 paths of mpatha are lost or have faults;"),
        (
            {"working": 1, "lost": 1},
            "1 of 2 paths of mpatha works, and 1 of 2 paths of mpatha is lost or has faults;",
        ),
    ],
)
def test_paths_work_only_if_something_shows_it(counts: dict[str, int], expected: str) -> None:
    """The SCSI state 'running' of all paths is no evidence: device-mapper may have failed them."""
    facts = Facts(replace(everything().of, paths={"dm-0": counts}))
    text = said("{paths}", facts, device="dm-0")
    assert expected in text
    assert "  multipath -ll mpatha" in text.splitlines()
    assert (" work;" in text or " works;" in text) is False


def test_a_path_that_device_mapper_uses_works_though_the_lun_has_faults_at_both() -> None:
    """Both paths have the LUN's serial number, so that both are in trouble when one is lost."""
    paths = {"dm-0": {"working": 1, "failed": 1}}
    troubled = everything(troubled=("sdk", "sdl"))
    text = said("{paths}", Facts(replace(troubled.of, paths=paths)), device="dm-0")
    assert text.startswith(
        "1 of 2 paths of mpatha works, and 1 of 2 paths of mpatha is lost or has faults;"
    )


def test_a_volume_on_a_map_is_reported_by_the_paths_of_the_map() -> None:
    """A volume group of a LUN: its paths are what its volumes are reached by."""
    known = everything().of
    volume = replace(disk("dm-3", slaves=("dm-0",), leaf=False), dm_name="vgl-db", dm_uuid="LVM-l")
    where = replace(known.map, topology=topology(*devices(), volume))
    counts = {"dm-0": {"working": 1, "failed": 1}}
    facts = Facts(replace(known, map=where, paths=counts))
    text = said("{paths}", facts, device="dm-3")
    assert text.startswith("1 of 2 paths of mpatha works, and 1 of 2 paths of mpatha is lost")
    assert "  multipath -ll mpatha" in text.splitlines()
    assert said("{paths}", facts, device="dm-1") == ""


def test_a_degraded_array_names_each_member_by_its_disk() -> None:
    """Serial numbers are on labels; a faulty member is taken back by its own name."""
    well, faulty = ARRAYS["md0"].members
    members = (well, replace(faulty, slot=None, states=("faulty",)))
    arrays = {"md0": replace(ARRAYS["md0"], degraded=1, members=members)}
    text = said("{array}\n{take_back}", everything(arrays=arrays), device="md0")
    assert "sdb1 faulty, on sdb (ATA DISK-9, serial SATA-sdb)" in text
    assert "  mdadm /dev/md0 --re-add /dev/sdb1" in text.splitlines()


@pytest.mark.parametrize(
    ("change", "is_added"),
    [
        ({}, True),
        ({"degraded": 0}, False),
        ({"level": "raid0"}, False),
        ({"sync_action": "recover"}, False),
        ({"sync_action": "frozen"}, False),
        ({"state": "inactive"}, False),
    ],
)
def test_a_new_disk_is_added_where_a_dead_one_was(
    change: dict[str, Any], *, is_added: bool
) -> None:
    """Only where a rebuild begins by that, and what is overwritten is said."""
    well, faulty = ARRAYS["md0"].members
    members = (well, replace(faulty, slot=None, states=("faulty",)))
    array = replace(ARRAYS["md0"], degraded=1, members=members)
    text = said("{add_member}", everything(arrays={"md0": replace(array, **change)}), device="md0")
    assert ("  mdadm /dev/md0 --add PARTITION" in text.splitlines()) is is_added
    assert ("partition the new disk like its neighbours" in text) is is_added
    assert ("This overwrites PARTITION" in text) is is_added


def test_no_disk_is_added_while_the_last_copy_is_on_a_bad_one() -> None:
    """A rebuild would read all of it; nor while a spare waits to be used."""
    well, faulty = ARRAYS["md0"].members
    gone = replace(faulty, slot=None, states=("faulty",))
    degraded = replace(ARRAYS["md0"], degraded=1, members=(well, gone))
    bad = everything(arrays={"md0": degraded}, troubled=("sda",))
    assert said("{add_member}", bad, device="md0") == ""
    spare = replace(gone, device="sdc1", states=("spare",))
    served = everything(arrays={"md0": replace(degraded, members=(well, gone, spare))})
    assert said("{add_member}", served, device="md0") == ""


@pytest.mark.parametrize(("level", "forgotten"), [("raid1", True), ("raid0", False)])
def test_a_faulty_member_whose_disk_is_gone_has_no_node_to_name(
    level: str, *, forgotten: bool
) -> None:
    """mdadm(8): 'detached' stands for those; of a raid0 the kernel removes none."""
    well, faulty = ARRAYS["md0"].members
    members = (well, replace(faulty, slot=None, states=("faulty",)))
    arrays = {"md0": replace(ARRAYS["md0"], level=level, degraded=1, members=members)}
    facts = everything(arrays=arrays, without=("sdb",))
    text = said("{replace}", facts, device="md0", member="sdb1")
    assert ("  mdadm /dev/md0 --remove detached" in text.splitlines()) is forgotten
    assert "--remove /dev/sdb1" not in text


def test_after_a_reboot_the_disk_of_today_is_advised_on_and_not_who_has_its_name() -> None:
    """Yesterday's log names sda; that disk is sdb now, and sda is the other half of md0."""
    facts = everything()
    key = identity(facts.of.map.topology, "sdb").key
    steps = "{state}\n{smart}\n{member}\n{log}"
    today = said(steps, facts, subject=key, device="sdb")
    assert said(steps, facts, subject=key, device="sda") == today
    assert "/dev/sda" not in today
    lost = said(steps, facts, subject="disk ACME GONE 1", device="sda")
    assert "sda" not in lost


def test_a_disk_that_was_pulled_is_looked_for_at_its_own_adapter() -> None:
    """Not at all adapters: one that hangs would block the query."""
    here = everything(without=("sdb",))
    gone = Devices(gone={"disk X": VanishedDisk("sdb", "sdb (X)", 0.0, adapter="host2")})
    facts = Facts(replace(here.of, map=replace(here.of.map, devices=gone)))
    text = said("{rescan}", facts, device="sdb")
    assert "  echo '- - -' > /sys/class/scsi_host/host2/scan" in text.splitlines()
    assert said("{rescan}", facts, device="sda") == ""


def test_the_log_of_a_disk_that_is_gone_is_read_by_its_port() -> None:
    """Its alert has a serial number and no device name: 'Kernel messages about :' was written."""
    here = everything(without=("sdb",))
    at = VanishedDisk("sdb", "sdb (X)", 0.0, adapter="host2", address="2:0:0:0")
    devices = Devices(gone={"disk X": at})
    facts = Facts(replace(here.of, map=replace(here.of.map, devices=devices)))
    text = said("{log}", facts, subject="disk X", disk="X")
    assert text.splitlines()[0] == "Kernel messages about this disk:"
    assert "2:0:0:0" in text


def test_a_disk_that_stands_still_with_its_adapter_is_no_matter_of_its_own_cable() -> None:
    """Two disks of a shelf: what they have in common is checked, and both of them."""
    facts = everything(troubled=("sdc", "sdd"), adapters=("host4",))
    text = said("{log}\n{state}\n{cable}", facts, ({"device": "sdd"},), device="sdc")
    assert "the adapter and its firmware" in text
    assert "Then check its cable" not in text
    assert "/sys/block/sdc/device/state /sys/block/sdd/device/state" in text
    assert "Kernel messages about host4:" in text
    alone = said("{log}\n{state}\n{cable}", everything(troubled=("sdc",)), device="sdc")
    assert "Then check its cable" in alone


def test_the_log_of_an_array_is_that_of_its_disks() -> None:
    """The reason is in the log under the disk's names: sdb, ata2, its address."""
    assert "ata2" in said("{log}", everything(), device="md0")


def test_an_array_that_is_rebuilt_is_left_alone() -> None:
    """Whatever is taken out of it now may be what the rebuild reads."""
    busy = {"md0": replace(ARRAYS["md0"], sync_action="recover", degraded=1)}
    text = said("{take_back}\n{member}\n{scrub}", everything(arrays=busy), device="sda")
    assert "md0 is busy (recover)" in text
    assert "--remove" not in text
    assert "sync_action" not in text


def raid6_on_one_adapter() -> Story:
    """Return a machine whose eight disks hang on one adapter, and are one raid6."""
    story = Story()
    story.add_host(4, "mpt3sas", 9000)
    members = ""
    for slot, letter in enumerate(RAID6):
        name = f"sd{letter}"
        story.add_disk(name, address=f"4:0:{slot}:0", vendor="ACME")
        story.change(
            {f"/sys/block/{name}/holders/md1": None, f"/sys/block/md1/slaves/{name}": None}
        )
        base = f"/sys/block/md1/md/dev-{name}1"
        story.change({f"{base}/state": "in_sync\n", f"{base}/slot": f"{slot}\n"})
        members += f" {name}1[{slot}]"
    md = {"level": "raid6", "raid_disks": "8", "degraded": "0", "array_state": "active"}
    story.change({f"/sys/block/md1/md/{key}": f"{value}\n" for key, value in md.items()})
    story.change({"/sys/block/md1/size": "1953525168\n", "/sys/block/md1/md/sync_action": "idle\n"})
    story.change(
        {
            "/proc/mdstat": f"Personalities : [raid6]\nmd1 : active raid6{members}\n"
            "      976762496 blocks level 6, 512k chunk, algorithm 2 [8/8] [UUUUUUUU]\n\n"
            "unused devices: <none>\n"
        }
    )
    return story


@pytest.mark.parametrize(("hung", "failed"), [(RAID6, False), ("c", True)])
def test_a_raid6_keeps_its_members_while_their_adapter_hangs(hung: str, failed: bool) -> None:
    """Eight of eight disks hang, and are back 7 s later: failing them would lose the array.

    If one of the eight hangs alone, it may be removed.
    """
    story = raid6_on_one_adapter()
    writes = Load(0, 0, 20, 20 * 65536, 0.5, 1, 0.02)
    story.run(60, {f"sd{letter}": writes for letter in RAID6})
    stands = {f"sd{letter}": Load(in_flight=3) for letter in hung}
    story.run(80, {f"sd{letter}": writes for letter in RAID6} | stands)
    host = Host(groups=("device",))
    host.play(story.steps())
    told = "\n".join(mail.advice for mail in host.mails)
    assert "dmesg" in told
    assert ("mdadm /dev/md1 --fail /dev/sdc1" in told) is failed
    assert ("from md1: its adapter (host4)" in told) is not failed


def test_no_self_test_is_begun_on_a_disk_that_reports_it_is_failing() -> None:
    """Its defects increase, which alone calls for a long test; the mail warned against tests."""
    grow, fail = (
        Alert(name, (("alertname", name), ("disk", "S1")), AlertState.FIRING, 1.0, annotations, 0.0)
        for name, annotations in (
            (
                "DiskGrownDefectsIncreased",
                (("advice", "Read it once:\n  iowarden selftest start 'S1' long\nReplace it."),),
            ),
            ("DiskFailing", (("advice", "No test."),)),
        )
    )
    assert "selftest start" in _said_of_grow(grow)
    assert _said_of_grow(grow, fail) == "Replace it."
    other = replace(fail, labels=(("alertname", "DiskFailing"), ("disk", "S2")))
    assert "selftest start" in _said_of_grow(grow, other)
    later = "If the count increases again, replace the disk."
    grow = replace(grow, annotations=(("advice", f"Copy its data.\n{later}"),))
    assert later in _said_of_grow(grow, other)
    assert _said_of_grow(grow, fail) == "Copy its data."  # it is to be replaced now


def _said_of_grow(*alerts: Alert) -> str:
    grow = alerts[0]
    member = IncidentMember(
        grow.labels, grow.name, Severity.WARNING, AlertState.FIRING, 0.0, "", "", ""
    )
    return text_of_member(alerts, everything)(member).advice


# --- file systems


def test_no_file_system_is_repaired_over_an_array_that_does_not_run() -> None:
    """A raid5 lost its second member, and the mail advised e2fsck -f."""
    stopped = {"md0": replace(ARRAYS["md0"], state="inactive")}
    for facts in (
        everything(arrays=stopped),
        everything(troubled=("sdb",)),
        everything(without=("sdb",)),
    ):
        text = said("{fsck}", facts, device="dm-1")
        assert "Do not repair /dev/mapper/vg-data" in text
        assert "e2fsck" not in text


def test_what_changes_a_file_system_comes_after_what_only_looks() -> None:
    """By the mount point, and by the kind of the file system."""
    text = said("{fsck}", everything(), device="dm-1")
    assert text.index("e2fsck -fn /dev/mapper/vg-data") < text.index(
        "e2fsck -f /dev/mapper/vg-data"
    )
    assert "  umount /srv" in text.splitlines()
    assert "xfs_repair -n /dev/md1" in said("{fsck}", everything(), device="md1")
    text = said("{fsck}", everything(), device="dm-0")
    assert (
        text.index("btrfs device stats /lun")
        < text.index("btrfs scrub start -r -Bd /lun")
        < text.index("btrfs scrub start -Bd /lun")
    )


def test_a_file_system_of_f2fs_is_checked_by_its_own_program() -> None:
    """e2fsck does not support it; --dry-run changes nothing."""
    text = said("{fsck}", everything(), device="dm-1", fstype="f2fs")
    assert text.index("fsck.f2fs --dry-run /dev/mapper/vg-data") < text.index("fsck.f2fs -f")
    assert "e2fsck" not in text


def test_nothing_is_repaired_on_a_pool_without_space() -> None:
    """The file system failed for want of space below: a repair writes, and fails there too."""
    full = Facts(replace(everything().of, full=frozenset({"dm-1"})))
    text = said("{fsck}", full, device="dm-1")
    assert "vg-data has no space left" in text
    assert "e2fsck" not in text


def test_an_error_of_a_volume_whose_pool_has_no_space_is_advised_to_extend_the_pool() -> None:
    """Where the pool has space, nothing is said of it."""
    full = Facts(replace(everything().of, full=frozenset({"md0"})))
    text = said("{thin_pool}", full, device="dm-1")
    assert "md0 has no space left" in text
    assert "'lvextend'" in text
    assert said("{thin_pool}", everything(), device="dm-1") == ""


def test_a_lost_snapshot_is_no_pool_that_can_be_extended() -> None:
    """Its origin is as good as before; a file system on the snapshot is not repaired."""
    lost = Facts(replace(everything().of, snapshots=frozenset({"dm-1"})))
    text = said("{thin_pool}", lost, device="dm-1")
    assert text.startswith("The snapshot vg-data is full or lost; its origin is not affected:")
    assert "pool" not in text
    assert "e2fsck" not in said("{fsck}", lost, device="dm-1")


@pytest.mark.parametrize(
    ("used_by", "device", "paths", "refused"),
    [
        (("vg-data", "/srv"), "dm-1", {}, True),
        (("md0", "vg-data", "/srv"), "dm-1", {}, False),
        (("mpatha", "/lun"), "dm-0", {"working": 2, "lost": 1}, False),
        (("mpatha", "/lun"), "dm-0", {"unknown": 2, "lost": 1}, True),
        (("secret", "/home"), "dm-1", {}, False),
        (("/pool",), "md1", {}, True),
    ],
)
def test_no_file_system_is_repaired_over_a_disk_that_is_gone(
    used_by: tuple[str, ...], device: str, paths: dict[str, int], *, refused: bool
) -> None:
    """A volume lost one of its two disks, and sysfs no longer links them.

    An array that runs without the disk, or a map with another path that works, has lost nothing.
    """
    here = everything()
    gone = Devices(gone={"disk X": VanishedDisk("sdx", "sdx (X)", 0.0, used_by)})
    facts = Facts(replace(here.of, map=replace(here.of.map, devices=gone), paths={"dm-0": paths}))
    text = said("{fsck}", facts, device=device)
    assert ("before this is in order: sdx is missing" in text) is refused
    assert ("fsck" in text or "xfs_repair" in text or "scrub" in text) is not refused


@pytest.mark.parametrize("part", ["sda1", "sdq1"])
def test_an_event_of_a_partition_is_of_the_file_system_on_it(part: str) -> None:
    """An event goes by its disk; what is checked is the partition, if it is still of this disk."""
    facts = everything()
    about = AdviceSubject({"device": "sda", "fstype": "ext4"}, part=part)
    text = filled("{fsck}", about, facts)
    checked = "/dev/sda1" if part == "sda1" else "/dev/sda"
    assert f"  e2fsck -f {checked}" in text.splitlines()


def test_a_name_with_blanks_and_quotes_is_one_word_of_a_command() -> None:
    """A backup disk is mounted at "it's mine; reboot"."""
    point = "/media/it's mine; reboot"
    text = said("{fsck}", everything(), device="dm-1", mountpoint=point)
    (command,) = [line for line in text.splitlines() if "umount" in line]
    assert shlex.split(command) == ["umount", point]


def test_the_root_file_system_is_not_unmounted_to_be_repaired() -> None:
    """It cannot be: a rescue system, or the next boot."""
    text = said("{fsck}", everything(), device="vda1", mountpoint="/", fstype="ext4")
    assert "umount" not in text
    assert "fsck.mode=force" in text


@pytest.mark.parametrize(
    ("name", "program", "command"),
    [
        ("areca 1", "", "cli64 rsf info"),
        ("areca 2", "", "cli64 ctrl=2 rsf info"),
        ("c0", "", "tw_cli /c0 show"),
        ("megaraid c1", "", "storcli64 /c1 show"),
        ("megaraid c1", "perccli64", "perccli64 /c1 show"),
        ("megaraid c1", "MegaCli64", "MegaCli64 -LdPdInfo -a1"),
        ("adaptec 1", "", "arcconf GETCONFIG 1 LD"),
        ("hp slot 3", "hpssacli", "hpssacli ctrl slot=3 show config detail"),
        ("hp slot 3", "cciss_vol_status", "ssacli ctrl slot=3 show config detail"),
        ("sas3ircu 0", "sas3ircu", "sas3ircu 0 DISPLAY"),
        ("ioc0", "", "mpt-status -p"),
    ],
)
def test_each_controller_is_queried_by_its_own_program(
    name: str, program: str, command: str
) -> None:
    """By its name here, and by the name that the vendor's program uses here."""
    assert query_commands(name, program)[0] == f"  {command}"
    assert query_commands("host4", program) == []


# --- one mail


def test_a_mail_reports_nothing_twice_and_names_the_packages() -> None:
    """Two alerts of one disk: its log is read once."""
    facts = everything()
    texts = [said(steps, facts, device="sda") for steps in ("{log}\n{smart}", "{log}\n{state}")]
    whole = combined(texts)
    assert "\n".join(whole).count("dmesg") == 1
    assert whole[-1].endswith("smartctl (smartmontools).")
    assert combined(["Look at its cable.", "Look at its cable."]) == ("Look at its cable.",)


def test_a_command_is_given_once_however_it_is_quoted() -> None:
    """A rule quotes each name, a step only where a shell needs it."""
    step = "The SMART data as last read:\n  iowarden disk show S-sdc"
    told = "Its attributes:\n  iowarden disk show 'S-sdc'"
    assert combined([told, step]) == ("Its attributes:\n  iowarden disk show S-sdc",)
    kept = "  journalctl -k -g 'ata1: ' --since '-1h' | awk \"/'x' /\"\n  iowarden disk show 'A B'"
    assert combined([f"Its log:\n{kept}"])[0] == f"Its log:\n{kept}"


def test_a_heading_of_what_was_reported_is_left_out() -> None:
    """Two findings of one disk in the initial report: the second one had a heading without text."""
    texts = ["first:\nSave what matters.", "second:\nSave what matters."]
    assert combined(texts) == ("first:\nSave what matters.",)


def test_a_sentence_stays_where_only_its_command_was_reported() -> None:
    """On which disk a volume stands, by its serial number, was left out with the 'lsblk' of it."""
    texts = ["Its state:\n  lsblk -s /dev/dm-0", "dm-0 is built on sdb.\n  lsblk -s /dev/dm-0"]
    assert combined(texts) == (texts[0], "dm-0 is built on sdb.")


def test_commands_that_belong_together_stay_together() -> None:
    """The commands of one text are not moved between those of another."""
    whole = combined(
        [
            "Out:\n  mdadm /dev/md0 --remove /dev/sdb1",
            "Back:\n  mdadm /dev/md0 --remove /dev/sdb1\n  mdadm /dev/md0 --re-add /dev/sdb1",
        ]
    )
    assert "--remove /dev/sdb1\n  mdadm /dev/md0 --re-add" in whole[1]


def test_the_slow_disk_is_held_back_where_the_file_system_counts_its_writes() -> None:
    """The limit of a disk below an array limits nothing."""
    text = said("{hold_back}", everything(slow=("sda",)))
    assert "  echo 5 > /sys/block/dm-1/bdi/max_ratio" in text.splitlines()


@pytest.mark.parametrize(
    ("cause", "is_advised"),
    [("backlog", True), ("journal", True), ("neighbour", False), ("own limit", False)],
)
def test_no_disk_is_held_back_where_programs_wait_for_another_reason(
    cause: str, is_advised: bool
) -> None:
    """A disk that starves is slow because of its neighbour, a limited one by intention."""
    known = everything(slow=("sda",)).of
    here = Facts(replace(known, backlog=Backlog({"sda": cause})))
    assert bool(filled("{hold_back}", AdviceSubject({"device": "sda"}), here)) is is_advised


def test_no_disk_is_held_back_where_all_file_systems_are_on_it() -> None:
    """A share of the host's limit is no help where nothing else is spared by it."""
    topology = everything().of.map.topology
    assert topology is not None
    assert said("{hold_back}", everything(slow=topology.leaves)) == ""


@pytest.mark.parametrize(
    ("speeds", "expected"),
    [({"sda": 78e6, "sdb": 78e6, "sdx": 5e6}, ["sdx"]), ({"sda": 78e6}, ["sda"])],
)
def test_of_several_disks_that_write_only_the_slower_ones_are_slow(
    speeds: dict[str, float], expected: list[str]
) -> None:
    """The two of a mirror at one speed and a stick, and a disk alone."""
    name = "iowarden_device_write_bandwidth_bytes_per_second"
    samples = [(name, (("device", disk),), speed) for disk, speed in speeds.items()]
    assert slow([Chunk("bandwidth", 1, ((Family(name, "gauge", ""), samples),))]) == expected


def test_what_is_kept_of_an_event_that_is_over_is_written_out_as_well() -> None:
    """`iowarden incident show` an hour later: its alert is no more, the incident is open."""
    labels = (("alertname", "block_medium_error"), ("device", "sda"))
    member = IncidentMember(
        labels,
        "block_medium_error",
        Severity.WARNING,
        AlertState.RESOLVED,
        0.0,
        "",
        "{log}",
        "",
        count=1,
    )
    advice = text_of_member([], everything)(member).advice
    assert advice == said("{log}", everything(), device="sda")
    assert "dmesg" in advice


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("  mdadm /dev/mdN --fail /dev/sda1", "placeholder 'mdN'"),
        ("  mdadm /dev/md0 --add /dev/PARTITION", "placeholder '/dev/PARTITION'"),
        ("  smartctl -x /dev/sdX", "placeholder 'sdX'"),
        ("  tw_cli /c0/pN remove", "placeholder '/pN'"),
        ("  echo 10 > /sys/block/nvme0n1/device/timeout", "no SCSI device"),
        ("  cat /sys/block/ata4.00/device/state", "/sys/block/ata4.00 is not there"),
        ("  cat /sys/block/sda/md/degraded", "of what is no array"),
        ("  smartctl -x /dev/dm-1", "smartctl on dm-1, a logical volume"),
        ("  smartctl -l scterc,70,70 /dev/nvme0n1", "scterc of what is no SATA disk"),
        ("  smartctl -x /dev/sdz", "/dev/sdz is not there"),
        ("  hdparm -I /dev/sda", "unknown program 'hdparm'"),
        ("  mdadm --detail /dev/md0", "mdadm without its package"),
        ("Look at {device}.", "placeholder '{device}'"),
    ],
)
def test_the_gate_sees_what_it_is_for(text: str, fault: str) -> None:
    """A gate that lets all of it pass would be no gate."""
    assert any(fault in each for each in wrong(text, everything()))


# --- the check: no advice names what does not exist

THINGS = [
    {"device": name}
    for name in (
        *("sda", "sda1", "sdc", "sdk", "sdm", "vda", "nvme0n1", "nvme0n1p1", "md0", "md1", "dm-0"),
        *("dm-1", "dm-2", "loop0", "sdz", "sdz1", "ata4.00", "ata4", "4:0:9:0", "nvme7"),
    )
]
THINGS += [{}, {"controller": "areca 1", "slot": "channel 2"}, {"controller": "host4"}]
THINGS += [{"controller": "areca 1", "disk": "HIDDEN-1"}, {"host": "host4"}, {"disk": "SATA-sda"}]
THINGS += [{"controller": name} for name in ("c0", "megaraid c0", "adaptec 1", "hp slot 0", "ioc0")]
STATES = {
    "well": {},
    "one in trouble": {"troubled": ("sda", "sdc", "sdk", "nvme0n1")},
    "an adapter in trouble": {
        "troubled": [f"sd{letter}" for letter in RAID6],
        "adapters": ("host4",),
    },
    "without md": {"arrays": {}, "without": ("md0", "md1")},
    "a disk gone": {"without": ("sdb", "sdd")},
}
facts_in = functools.cache(lambda name: everything(**STATES[name]))


def as_mailed(text: str, facts: Facts, labels: Mapping[str, str], subject: str = "") -> str:
    """Return advice as a mail has it."""
    return "\n".join(combined([filled(text, AdviceSubject(labels, subject), facts)]))


@pytest.mark.parametrize("state", STATES)
def test_no_step_names_what_this_machine_does_not_have(state: str) -> None:
    """Each step for each kind of thing: no placeholder, no file, device or program of another."""
    facts = facts_in(state)
    faults = {
        f"{step} of {labels or subject}: {fault}"
        for step in STEPS
        for labels, subject in [*((each, "") for each in THINGS), ({}, "adapter host4")]
        for fault in wrong(as_mailed(f"{{{step}}}", facts, labels, subject), facts)
    }
    assert faults == set()


@pytest.mark.parametrize("state", STATES)
def test_no_event_s_mail_names_what_this_machine_does_not_have(state: str) -> None:
    """Each row of the table, for each kind of thing that it may be about."""
    table = parse_events_file((RULES / "events" / "events.yaml").read_text(), "events.yaml")
    facts = facts_in(state)
    assert len(table.rows) > 250
    faults = {
        f"{advice[:40]!r} of {labels}: {fault}"
        for advice in dict.fromkeys(row.advice for row in table.rows.values())
        for labels in THINGS
        for fault in wrong(as_mailed(advice, facts, labels), facts)
    }
    faults |= {
        f"{row.kind}: {fault}" for row in table.rows.values() for fault in wrong(row.meaning, facts)
    }
    assert faults == set()


@functools.cache
def told_by_unit_tests() -> tuple[Alert, ...]:
    """Return every alert that fires in the rules' unit tests, each text once."""
    found: dict[tuple[object, ...], Alert] = {}
    for path in sorted(UNITS.glob("*_test.yaml")):
        for case in unit_tests.parse_unit_tests(path.read_text(), str(path)).tests:
            for test in case.alerts:
                for labels, texts in test.expected:
                    alert = Alert(test.name, labels, AlertState.FIRING, 1.0, texts, 0.0)
                    found.setdefault((test.name, texts), alert)
    return tuple(found.values())


def test_no_rule_s_mail_has_a_placeholder() -> None:
    """Every alert of every unit test, on a machine of which nothing is known."""
    unknown = everything(arrays={}, without=list(everything().of.map.topology.devices))
    faults = set()
    for alert in told_by_unit_tests():
        text = as_mailed(steps_of(alert), unknown, dict(alert.labels))
        texts = [text, *(alert.annotation(n) for n in ("summary", "description", "unknown"))]
        faults |= {
            f"{alert.name}: {fault}"
            for each in texts
            for fault in wrong(each, unknown)
            if "is not there" not in fault
            and not (alert.name.startswith("Md") and "without md" in fault)
        }
    assert faults == set()


def test_each_shipped_rule_fires_in_the_unit_tests_that_the_gate_reads() -> None:
    """A rule without a unit test would not be checked."""
    names = {alert.name for alert in told_by_unit_tests()}
    shipped = {
        rule.alert
        for path in RULES.iterdir()
        if path.name.endswith(".yaml")
        for group in parse_rule_file(path.read_text(), path.name)
        for rule in group.rules
        if hasattr(rule, "alert")
    }
    assert shipped <= names


EACH = ("sda", "sdc", "sdk", "sdm", "vda", "nvme0n1", "md0", "dm-0", "dm-1", "dm-2", "loop0")


@pytest.mark.parametrize("state", STATES)
def test_a_rule_about_a_disk_reports_nothing_that_its_kind_does_not_have(state: str) -> None:
    """Hangs, timeouts and disks that are refused, of every kind of device."""
    facts = facts_in(state)
    faults = set()
    for alert in told_by_unit_tests():
        if alert.name not in {"DeviceHang", "ScsiTimeouts", "DiskReadOnly", "DeviceRemoved"}:
            continue
        scsi = alert.name == "ScsiTimeouts"
        for name in ("sda", "sdc") if scsi else EACH:
            if facts.device(name) is None:
                continue
            own = alert.label("device")
            text = re.sub(rf"\b{own}\b", name, steps_of(alert))
            labels = {**dict(alert.labels), "device": name}
            faults |= {
                f"{alert.name} of {name}: {f}" for f in wrong(as_mailed(text, facts, labels), facts)
            }
    assert faults == set()


def test_a_step_that_is_none_is_found_at_load() -> None:
    """A mistake in a rule would be printed literally."""
    assert unknown_steps("{log}\nLook.\n{logg}\n  smartctl -x /dev/{device}") == ["logg", "device"]
    for path in RULES.iterdir():
        if path.name.endswith(".yaml"):
            for group in parse_rule_file(path.read_text(), path.name):
                for rule in group.rules:
                    steps = dict(getattr(rule, "annotations", ())).get("advice_steps")
                    # With and without what the template queries for.
                    for samples in ([], [Sample("", (), 1.0)]):
                        named = (
                            steps.render({}, 0.0, lambda _, s=samples: s).split() if steps else []
                        )
                        assert set(named) <= {*STEPS, "text"}, rule
