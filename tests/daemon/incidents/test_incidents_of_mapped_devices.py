"""Incidents of thin pools, RAID volumes and multipath maps, up to the mails."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.live import text, watched
from support.storage import Server
from support.storage_incidents import FakeMachine

from iowarden.collectors.machine import probe_path

if TYPE_CHECKING:
    from pathlib import Path

POOL, MAP, RAID = "vg-pool-tpool", "mpatha", "vg-r"
HEALTHY = "7 40/4096 500/1000 - rw discard_passdown queue_if_no_space - 1024"


def status(target: str, name: str, words: str) -> dict[str, str]:
    """Return the probe's answer to 'dmsetup status' of a device."""
    command = ("dmsetup", "status", "--noflush", "--target", target, name)
    answer = {"status": 0, "signal": None, "stdout": f"0 8 {target} {words}\n", "stderr": ""}
    return {probe_path("run", command): json.dumps(answer)}


def targets(name: str, target: str, queueing: dict[str, bool] | None = None) -> dict[str, str]:
    """Return the probe's answer about the target of a device, whose module is in use."""
    types = {"targets": {name: [target]}, "queueing": queueing or {}}
    return {
        "/.probe/dm_targets": json.dumps(types),
        "/sys/module/dm_thin_pool/refcnt": "2\n",
    }


def thin_pool(tmp_path: Path) -> Server:
    """Return a machine with a thin pool, and a file system on a volume of it."""
    machine = Server(tmp_path)
    machine.adapter(0, "mpt3sas")
    machine.disk("sda", "0:0:0:0", vendor="SEAGATE")
    machine.volume("dm-1", POOL, "LVM-abc-tpool", "sda1")
    machine.volume("dm-2", "vg-data", "LVM-def", "dm-1")
    machine.mount("/data", "dm-2")
    machine.change({**targets(POOL, "thin-pool"), **status("thin-pool", POOL, HEALTHY)})
    return machine


def test_a_thin_pool_that_fills_up_is_mailed_with_what_is_on_it_and_ends_when_extended(
    tmp_path: Path,
) -> None:
    """Warning above 80 %, critical without space: one incident; [OK] once it was extended."""
    machine = thin_pool(tmp_path)
    with watched(tmp_path, machine) as program:
        assert program.wait(130) == []
        machine.change(status("thin-pool", POOL, HEALTHY.replace("500/", "850/")))
        (mail,) = program.wait(130)
        assert mail["Subject"].startswith("[WARNING]")
        assert "data of thin pool vg-pool-tpool: 85 % full" in text(mail)
        assert "/data" in text(mail)
        full = HEALTHY.replace("500/", "1000/").replace("rw", "out_of_data_space")
        machine.says(
            "device-mapper: thin: 253:1: switching pool to out-of-data-space (queue IO) mode",
            priority=6,
        )
        (mail,) = program.wait(20)
        assert mail["Subject"].startswith("[CRITICAL]")
        assert POOL in text(mail)
        assert "has no space left" in text(mail)
        machine.change(status("thin-pool", POOL, full))
        assert program.wait(130) == []  # the same fault, seen twice
        machine.says("device-mapper: thin: 253:1: switching pool to write mode", priority=6)
        machine.change(status("thin-pool", POOL, HEALTHY.replace("500/1000", "1000/2000")))
        mails = program.wait(1800)
    assert [mail["Subject"].partition("]")[0] for mail in mails] == ["[OK"]


def test_a_pool_whose_status_hangs_or_has_an_unknown_mode_is_no_repair(tmp_path: Path) -> None:
    """Its state is unknown: the incident stays open, and no mail says that it is resolved."""
    machine = thin_pool(tmp_path)
    with watched(tmp_path, machine) as program:
        assert program.wait(70) == []
        machine.change(status("thin-pool", POOL, HEALTHY.replace("rw", "ro")))
        (mail,) = program.wait(130)
        assert mail["Subject"].startswith("[CRITICAL]")
        assert "it is read-only" in text(mail)
        machine.change(status("thin-pool", POOL, HEALTHY.replace("rw", "pondering")))
        assert not [each for each in program.wait(600) if each["Subject"].startswith("[OK")]


def mapped(tmp_path: Path, *, queues: bool) -> Server:
    """Return a machine with a LUN over two paths."""
    machine = Server(tmp_path)
    for host, name in ((7, "sdb"), (8, "sdc")):
        machine.adapter(host, "qla2xxx")
        machine.disk(name, f"{host}:0:0:0", serial="LUN7", vendor="NETAPP", parts=False)
    machine.volume("dm-0", MAP, "mpath-3600a0980", "sdb", "sdc")
    machine.mount("/db", "dm-0")
    machine.change({**targets(MAP, "multipath", {MAP: queues}), **paths(machine, "A", "A")})
    return machine


def paths(machine: Server, *letters: str) -> dict[str, str]:
    """Return the status of the map with these states of its paths, whose SCSI state is running."""
    numbers = [machine._numbers[name] for name in ("sdb", "sdc")]
    words = " ".join(
        f"{number} {letter} 3 1" for number, letter in zip(numbers, letters, strict=True)
    )
    return status("multipath", MAP, f"2 0 0 0 1 1 A 0 2 1 {words}")


def test_a_map_whose_paths_all_failed_in_device_mapper_has_no_path(tmp_path: Path) -> None:
    """The SCSI state of all of them is 'running': it is no sign that a path works."""
    machine = mapped(tmp_path, queues=True)
    with watched(tmp_path, machine) as program:
        assert program.wait(130) == []
        machine.change(paths(machine, "F", "F"))
        (mail,) = program.wait(90)
        said = " ".join(text(mail).split())
        assert mail["Subject"].startswith("[CRITICAL]")
        assert "mpatha has no working path left (of 2)" in said
        assert "are blocked until a path returns (queue_if_no_path)" in said
        machine.change(paths(machine, "A", "A"))
        mails = program.wait(900)
    assert any(mail["Subject"].startswith("[OK]") for mail in mails)


def test_one_failed_path_is_a_warning_that_says_that_the_other_works(tmp_path: Path) -> None:
    """By device-mapper alone: the kernel's log said nothing while iowarden did not run."""
    machine = mapped(tmp_path, queues=False)
    with watched(tmp_path, machine) as program:
        assert program.wait(130) == []
        machine.change(paths(machine, "F", "A"))
        (mail,) = program.wait(150)
    said = " ".join(text(mail).split())
    assert mail["Subject"].startswith("[WARNING]")
    assert "1 of 2 paths of mpatha does not work" in said
    assert "is not known" not in said


@pytest.mark.parametrize(("before", "after"), [(0, 50), (50, 0)])
def test_a_line_and_the_state_of_one_failed_path_are_one_incident(
    tmp_path: Path, before: int, after: int
) -> None:
    """The line names the LUN's disk, the state the map: whichever iowarden reads first.

    The state is read so many seconds after the line, or the line that long after the state.
    """
    machine = mapped(tmp_path, queues=False)
    line = f"device-mapper: multipath: 253:0: Failing path {machine._numbers['sdb']}."
    with watched(tmp_path, machine) as program:
        assert program.wait(130) == []
        if before:
            machine.change(paths(machine, "F", "A"))
            program.wait_only(before)
        machine.says(line, priority=4)
        program.wait_only(after)
        machine.change(paths(machine, "F", "A"))
        mails = program.wait(300)
        status = program.program.command("status").stdout
    assert len({mail["X-Iowarden-Incident"] for mail in mails}) == 1
    said = " ".join(text(mails[-1]).split())
    assert "mpatha" in mails[-1]["Subject"]
    assert "1 of 2 paths of mpatha does not work" in said
    assert "a path of a multipath device failed" in said
    assert "more open incident" not in status


def test_a_map_that_device_mapper_says_has_no_path_is_no_news_after_a_restart(
    tmp_path: Path,
) -> None:
    """Its status is read each minute: that it was not read yet is no sign that a path works."""
    machine = mapped(tmp_path, queues=True)
    with watched(tmp_path, machine) as program:
        assert program.wait(130) == []
        machine.change(paths(machine, "F", "F"))
        (mail,) = program.wait(90)
        assert mail["Subject"].startswith("[CRITICAL]")
        program.restart()
        assert program.wait(200) == []
        assert "mpatha has no working path" in program.program.command("status").stdout


def test_a_path_that_is_back_before_its_mail_is_due_is_not_mailed(tmp_path: Path) -> None:
    """A failover: its requests went over the other path, and nobody has to do anything."""
    machine = mapped(tmp_path, queues=True)
    with watched(tmp_path, machine) as program:
        assert program.wait(130) == []
        machine.change(paths(machine, "F", "A"))
        program.wait_only(100)
        assert "MultipathPathLost" in program.program.command("status").stdout
        machine.change(paths(machine, "A", "A"))
        assert program.wait(900) == []


WHOLE = "raid1 2 AA 100/100 idle 0 0 -"
LOST = WHOLE.replace("AA", "AD")
REBUILDS = WHOLE.replace("AA", "Aa").replace("idle", "recover").replace("100/", "10/")


def mirrored(tmp_path: Path) -> FakeMachine:
    """Return a machine with a RAID volume of LVM on two disks."""
    machine = FakeMachine(tmp_path)
    for host, name in ((0, "sda"), (1, "sdb")):
        machine.adapter(host, "ahci")
        machine.disk(name, f"{host}:0:0:0", parts=False)
    for number, name in enumerate(("sda", "sdb")):
        machine.volume(f"dm-{number}", f"{RAID}_rimage_{number}", f"LVM-{number}", name)
    machine.volume("dm-3", RAID, "LVM-r", "dm-0", "dm-1")
    machine.mount("/r", "dm-3")
    machine.change({**targets(RAID, "raid"), **status("raid", RAID, WHOLE)})
    return machine


def test_a_raid_volume_that_loses_a_leg_is_over_when_the_leg_is_in_sync_again(
    tmp_path: Path,
) -> None:
    """Nothing else tells: it is no md array. Until then the other leg has the only copy."""
    machine = mirrored(tmp_path)
    with watched(tmp_path, machine) as program:
        assert program.wait(130) == []
        machine.change(status("raid", RAID, LOST))
        (mail,) = program.wait(130)
        assert "vg-r: 1 of 2 devices failed (leg 1: D)" in text(mail)
        machine.change(status("raid", RAID, REBUILDS))
        assert program.wait(900) == []
        assert "vg-r: 1 of 2 devices not yet in sync" in program.program.command("status").stdout
        machine.change(status("raid", RAID, WHOLE))
        mails = program.wait(900)
    assert [mail["Subject"].partition("]")[0] for mail in mails] == ["[OK"]


def test_a_raid_volume_that_gets_a_further_leg_is_silent(tmp_path: Path) -> None:
    """'lvconvert -m+1' of a volume that was whole: it has not lost anything."""
    machine = mirrored(tmp_path)
    with watched(tmp_path, machine) as program:
        assert program.wait(130) == []
        machine.change(status("raid", RAID, REBUILDS))
        assert program.wait(900) == []


def test_a_raid_volume_is_rebuilt_on_a_spare_while_its_disk_is_still_missing(
    tmp_path: Path,
) -> None:
    """As of an md array a mail says so: the disk is as missing as before, and the data are not."""
    machine = mirrored(tmp_path)
    machine.adapter(2, "ahci")
    machine.disk("sdc", "2:0:0:0", parts=False)
    with watched(tmp_path, machine) as program:
        machine.host = program
        assert program.wait(130) == []
        machine.loses("sdb", lines=("sd 1:0:0:0: [sdb] Synchronizing SCSI cache",))
        machine.change(status("raid", RAID, LOST))
        mails = program.wait(200)
        assert any("1 of 2 devices failed" in text(mail) for mail in mails)
        machine._hold("sdc", "dm-1")
        machine.change(status("raid", RAID, REBUILDS))
        assert program.wait(600) == []
        machine.change(status("raid", RAID, WHOLE))
        mails = program.wait(900)
    (rebuilt,) = mails
    assert "REBUILT" in rebuilt["Subject"]
    assert f"all members of {RAID} are present again" in " ".join(text(rebuilt).split())


def test_a_snapshot_that_runs_full_is_one_incident_with_the_kernels_line(tmp_path: Path) -> None:
    """The line names no snapshot: there is only this one. Its state follows within a minute."""
    machine = Server(tmp_path)
    machine.adapter(0, "mpt3sas")
    machine.disk("sda", "0:0:0:0", vendor="SEAGATE")
    machine.volume("dm-1", "vg-snap-cow", "LVM-abc-cow", "sda1")
    machine.volume("dm-2", "vg-snap", "LVM-abc", "dm-1")
    healthy = status("snapshot", "vg-snap", "16/2048 16")
    machine.change({**targets("vg-snap", "snapshot"), **healthy})
    with watched(tmp_path, machine) as program:
        assert program.wait(130) == []
        machine.says(
            "device-mapper: snapshots: Invalidating snapshot: Unable to allocate exception."
        )
        machine.change(status("snapshot", "vg-snap", "Invalid"))
        (mail,) = program.wait(300)
    assert mail["Subject"].startswith("[WARNING]")
    assert "vg-snap" in text(mail)


def test_a_lost_snapshot_that_is_removed_is_over(tmp_path: Path) -> None:
    """Its removal is the repair; a pool that is gone may be repaired or only switched off."""
    machine = Server(tmp_path)
    machine.adapter(0, "mpt3sas")
    machine.disk("sda", "0:0:0:0", vendor="SEAGATE")
    for number, name, target, words in (
        (1, "vg-snap", "snapshot", "Invalid"),
        (2, POOL, "thin-pool", HEALTHY.replace("rw", "ro")),
    ):
        machine.volume(f"dm-{number}", name, f"LVM-{number}", "sda1")
        machine.change(status(target, name, words))
    types = {"targets": {"vg-snap": ["snapshot"], POOL: ["thin-pool"]}, "queueing": {}}
    machine.change({**targets(POOL, "thin-pool"), "/.probe/dm_targets": json.dumps(types)})
    with watched(tmp_path, machine) as program:
        assert {mail["Subject"].partition("]")[0] for mail in program.wait(130)} == {
            "[WARNING",
            "[CRITICAL",
        }
        machine.loses("dm-1", "dm-2")
        machine.change({"/.probe/dm_targets": json.dumps({"targets": {}, "queueing": {}})})
        mails = [*program.wait(600), *program.wait(1500)]
    states = {mail["Subject"].partition("]")[0]: text(mail) for mail in mails}
    assert "snapshot vg-snap is lost" in states["[OK"]
    assert "DATA UNAVAILABLE" in states["[CRITICAL"]
    assert len(mails) == 2
