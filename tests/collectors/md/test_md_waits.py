"""Synchronizations of md arrays that wait, in '/proc/mdstat', in sysfs and in 'mdadm --detail'.

Source: kernel, drivers/md/md.c, status_resync, md_seq_show, sync_completed_show; mdadm, Detail.c.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from support.explained import read

from iowarden.collectors.machine import Machine
from iowarden.collectors.md import md_detail, md_events, mdstat

if TYPE_CHECKING:
    from pathlib import Path

WAITS = ("DELAYED", "PENDING", "REMOTE")
PRINTED = ("resync=DELAYED", "resync=PENDING", "resync=REMOTE", "recover=REMOTE", "reshape=REMOTE")
"""All that the kernel prints of a synchronization that waits."""
RUNNING = "[===>....]  {action} = 42.0% (420/1000) finish=1236.1min speed=15131K/sec"
ACTIONS = ("resync", "recovery", "reshape", "check")


def array(name: str, below: str, counts: str = "[2/2] [UU]", members: str = "") -> str:
    """An array of two disks in '/proc/mdstat'."""
    return (
        f"{name} : active raid1 sdb1[1] sda1[0]{members}\n"
        f"      1000 blocks super 1.2 {counts}\n      {below}\n\n"
    )


def text(*arrays: str) -> str:
    """'/proc/mdstat' with these arrays."""
    return f"Personalities : [raid1]\n{''.join(arrays)}unused devices: <none>\n"


@pytest.mark.parametrize("printed", PRINTED)
def test_an_array_that_waits_is_neither_busy_nor_0_percent_done(printed: str) -> None:
    """Beside one that runs; each form the kernel prints, with a tab as it does."""
    found = read(text(array("md0", f"\t{printed}"), array("md1", RUNNING.format(action="check"))))
    objects = {each.name: each for each in found.objects if each.type == "array"}
    assert (objects["md0"].state, objects["md1"].state) == ("ok", "busy")
    assert objects["md0"].details["waits"] == printed.partition("=")[2]
    assert not {"runs", "done_ratio"} & objects["md0"].details.keys()
    assert [each.text for each in found.alerts] == ["array md1: check, 42 % done"]
    assert found.status == 0


@pytest.mark.parametrize("action", ACTIONS)
def test_an_array_that_runs_does_not_wait(action: str) -> None:
    """All actions of the kernel, with a bitmap below."""
    below = f"{RUNNING.format(action=action)}\n      bitmap: 1/8 pages [4KB], 65536KB chunk"
    parsed = mdstat.from_mdstat(mdstat.parse_mdstat(text(array("md0", below)))["md0"])
    assert (parsed.sync_wait, parsed.sync_done_ratio) == ("", 0.42)


@pytest.mark.parametrize("wait", WAITS)
def test_a_degraded_array_whose_rebuild_waits_is_degraded_and_not_rebuilding(wait: str) -> None:
    """The spare is idle: the redundancy is not being restored."""
    found = read(text(array("md0", f"resync={wait}", "[2/1] [_U]", " sdc1[2](S)")))
    (md0,) = (each for each in found.objects if each.type == "array")
    assert md0.state == "degraded"
    assert "MdDegraded" in {each.alert for each in found.alerts}


DETAIL = """\
/dev/md5:
           Version : 1.2
        Raid Level : raid1
      Raid Devices : 2
     Total Devices : 2
             State : {state}
    Active Devices : {active}
   Working Devices : 2
    Failed Devices : 0
     Spare Devices : {spare}
Consistency Policy : {policy}

    Number   Major   Minor   RaidDevice State
       0       8        1        0      active sync   /dev/sda1
       1       8       17        1      {second}   /dev/sdb1
"""
WORDS = {"resyncing": "resync", "reshaping": "reshape", "checking": "check"}


@pytest.mark.parametrize("wait", WAITS)
def test_mdadm_names_the_action_that_waits(wait: str) -> None:
    """Every action of its table, with each policy of consistency."""
    for (word, action), policy in itertools.product(
        WORDS.items(), ("resync", "bitmap", "journal", "ppl", "unknown")
    ):
        detail = DETAIL.format(
            state=f"active, {word} ({wait})",
            active=2,
            spare=0,
            policy=policy,
            second="active sync",
        )
        found = md_detail.as_array(md_detail.parse_detail(detail).arrays[0])
        assert (found.state, found.sync_action, found.sync_wait) == ("active", action, wait)
        assert read(detail).status == 0
    waits = DETAIL.format(
        state=f"clean, degraded, recovering ({wait})",
        active=1,
        spare=1,
        policy="resync",
        second="spare rebuilding",
    )
    (md5,) = (each for each in read(waits).objects if each.type == "array")
    assert (md5.state, md5.details["waits"]) == ("degraded", wait)


def test_sysfs_calls_it_delayed(tmp_path: Path) -> None:
    """'sync_completed' has the word, 'sync_action' the action that waits."""
    directory = tmp_path / "sys/block/md0/md"
    directory.mkdir(parents=True)
    for name, value in {
        "array_state": "clean",
        "level": "raid1",
        "raid_disks": "2",
        "degraded": "0",
        "sync_action": "check",
        "sync_completed": "delayed",
    }.items():
        (directory / name).write_text(f"{value}\n")
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "mdstat").write_text(text(array("md0", "resync=DELAYED")))
    found = mdstat.read_md(Machine(str(tmp_path)))["md0"]
    assert (found.sync_action, found.sync_wait, found.sync_done_ratio) == (
        *("check", "DELAYED", None),
    )
    waiting = [sample for sample in mdstat.emit({"md0": found}) if "sync_waiting" in sample[0]]
    assert waiting == [("iowarden_md_sync_waiting", (("device", "md0"), ("reason", "DELAYED")), 1)]


def test_a_synchronization_begins_when_it_no_longer_waits() -> None:
    """One event, when its turn comes, and one at its end; nothing for one that never ran."""

    def state(below: str) -> dict[str, mdstat.MdArray]:
        stats = mdstat.parse_mdstat(text(array("md0", below)))
        return {name: mdstat.from_mdstat(stat) for name, stat in stats.items()}

    idle, waits = state(""), state("resync=DELAYED")
    runs = state(RUNNING.format(action="check"))
    turns = [
        [event.kind for event in md_events.md_events(former, latter, 0.0)]
        for former, latter in ((idle, waits), (waits, runs), (runs, idle), (waits, idle))
    ]
    assert turns == [[], ["md_rebuild_started"], ["md_rebuild_finished"], []]


def test_a_journal_is_no_member_and_a_failed_one_is_a_fault() -> None:
    """'(J)' fills no slot; without it a raid5 with a journal becomes read-only."""
    whole = (
        "md0 : active raid5 sdd1[3](J){flag} sdc1[2] sdb1[1] sda1[0]\n"
        "      2000 blocks super 1.2 level 5, 512k chunk, algorithm 2 [3/3] [UUU]\n\n"
    )
    assert read(text(whole.format(flag=""))).status == 0
    assert read(text(whole.format(flag="(F)"))).status == 1
