"""'iowarden explain' of 'mdadm --examine', and of members whose array does not run."""

from __future__ import annotations

import pytest
from support.explained import read

BLOCK = """\
/dev/{device}:
          Magic : a92b4efc
        Version : 1.2
     Array UUID : {uuid}
           Name : box:0  (local to host box)
     Raid Level : {level}
   Raid Devices : {count}

          State : clean
    Update Time : {time}
  Bad Block Log : 512 entries available at offset 16 sectors{bad}
       Checksum : 340a1610 - {checksum}
         Events : {events}

   Device Role : Active device {slot}
   Array State : {state} ('A' == active, '.' == missing, 'R' == replacing)
"""
OLD = """\
/dev/{device}:
          Magic : a92b4efc
        Version : 0.90.00
           UUID : 5603467b:9c5dcb9d
     Raid Level : raid5
   Raid Devices : 3
Preferred Minor : 4

    Update Time : Mon Jan 14 06:24:59 2008
          State : clean
 Active Devices : {active}
Working Devices : {active}
 Failed Devices : {failed}
       Checksum : b4257809 - correct
         Events : 0.{events}

      Number   Major   Minor   RaidDevice State
this     1       8       17        1      active sync   /dev/{device}
"""


def block(device: str, state: str, events: int = 500, **fields: str) -> str:
    """The superblock of a member, of an array that it saw in this state."""
    values = {
        "uuid": "83143055:2781ddf5",
        "level": "raid5",
        "count": str(len(state)),
        "time": "Sun Sep 27 01:00:08 2020",
        "bad": "",
        "checksum": "correct",
        "slot": "0",
        **fields,
    }
    return BLOCK.format(device=device, state=state, events=events, **values)


def test_members_of_a_whole_array() -> None:
    """Each has the same count of events; one less is from the moment of the command."""
    explained = read(block("sda1", "AAA") + block("sdb1", "AAA", 499) + block("sdc1", "AAA"))
    assert (explained.status, explained.alerts, explained.unparsed) == (0, (), ())
    assert [o.name for o in explained.objects] == ["box:0", "sda1", "sdb1", "sdc1"]


def test_a_member_that_fell_out_is_the_stale_one() -> None:
    """It still sees all members; the others count on without it. No device is called an array."""
    text = block("sda1", "A.A") + block("sdb1", "AAA", 70) + block("sdc1", "A.A")
    explained = read(f"# mdadm -E /dev/sd[abc]1\n{text}")
    assert {(a.severity, a.alert, a.object) for a in explained.alerts} == {
        ("critical", "MdDegraded", "box:0"),
        ("warning", "MdMemberStale", "sdb1"),
    }
    assert "70" in explained.alerts[1].text
    assert {o.name for o in explained.objects if o.type == "array"} == {"box:0"}


@pytest.mark.parametrize(
    ("level", "state", "severity", "words"),
    [
        ("raid1", "A.", "critical", "no redundancy left"),
        ("raid1", "AA.", "warning", ""),
        ("raid5", "AA.", "critical", "no redundancy left"),
        ("raid5", "A..", "critical", "too few to run"),
        ("raid6", "AAA.", "warning", ""),
        ("raid6", "AA..", "critical", "no redundancy left"),
        ("raid6", "A...", "critical", "too few to run"),
        ("raid10", "AAA.", "critical", "no redundancy left"),
    ],
)
def test_missing_slots_by_level(level: str, state: str, severity: str, words: str) -> None:
    """As many as the level can lose are warned of; one more and the array cannot run."""
    explained = read(block("sda1", state, level=level))
    (alert,) = explained.alerts
    assert (alert.severity, alert.alert) == (severity, "MdDegraded")
    assert words in alert.text


def test_two_arrays_in_one_text_have_counts_of_their_own() -> None:
    """Members of another array are not stale because that one changed less often."""
    text = block("sda1", "AA", 9000, level="raid1") + block(
        "sda2", "AA", 12, level="raid1", uuid="ffff:0000"
    )
    assert read(text).alerts == ()


def test_lines_chosen_by_grep_are_still_superblocks() -> None:
    """Without level and UUID the members are one array, and redundancy is not claimed."""
    rows = (
        f"/dev/{device}:\n    Update Time : Sun Oct  1 04:12:33 2023\n         Events : {events}\n"
        f"   Array State : {state} ('A' == active, '.' == missing, 'R' == replacing)\n"
        for device, events, state in (("sda1", 900, "A.A"), ("sdb1", 700, "AAA"))
    )
    explained = read("".join(rows))
    assert {(a.severity, a.alert) for a in explained.alerts} == {
        ("warning", "MdDegraded"),
        ("warning", "MdMemberStale"),
    }


def test_damage_of_a_superblock_and_bad_blocks() -> None:
    """A wrong checksum and listed bad blocks are faults of their member."""
    text = block("sda1", "AA", checksum="expected 340a1611") + block(
        "sdb1", "AA", bad=" - bad blocks present."
    )
    assert {(a.alert, a.object) for a in read(text).alerts} == {
        ("MdSuperblockDamaged", "sda1"),
        ("MdMemberBadBlocks", "sdb1"),
    }


def test_superblocks_of_version_0_90() -> None:
    """They have counts of devices in place of letters, and events in halves of 32 bits."""
    whole = OLD.format(device="sdb1", active=3, failed=0, events=41)
    assert read(whole).alerts == ()
    (alert,) = read(OLD.format(device="sdb1", active=2, failed=1, events=41)).alerts
    assert (alert.severity, alert.alert, alert.object) == ("critical", "MdDegraded", "md4")


def test_a_device_without_metadata_of_md_is_not_parsed() -> None:
    """A partition table, or the metadata of a controller's firmware: that is said."""
    explained = read("$ mdadm -E /dev/sdb\n/dev/sdb:\n   MBR Magic : aa55\n")
    assert explained.status == 2
    assert explained.alerts == ()


def test_members_of_an_array_that_does_not_run_are_no_spares() -> None:
    """'(S)' of an inactive array: its members are not assembled, and nothing is known of them."""
    rows = "md9 : inactive sdb1[1](S) sda1[0](S)\n      8 blocks super 1.2\n"
    text = f"{rows}\nunused devices: <none>\n"
    explained = read(text)
    members = [o for o in explained.objects if o.type == "member"]
    assert {(m.state, m.vendor_state) for m in members} == {("unknown", "not assembled")}
    assert explained.status == 1


MAIL = """\
This is an automatically generated mail message from mdadm
running on box

A {event} event had been detected on md device /dev/md0.
{component}
Faithfully yours, etc.

P.S. The /proc/mdstat file currently contains the following:

Personalities : [raid6] [raid5] [raid4]
md0 : active raid6 sdd1[3] sdc1[2]{mark} sdb1[1] sda1[0]
      4095 blocks super 1.2 level 6, 512k chunk, algorithm 2 [4/{active}] [{letters}]

unused devices: <none>
"""


def test_a_mail_of_mdadm_is_judged_by_the_mdstat_in_it() -> None:
    """RAID 6 that lost one member has redundancy left: a warning, and each line is known."""
    lost = MAIL.format(
        event="Fail",
        component="\nIt could be related to component device /dev/sdc1.\n",
        mark="(F)",
        active=3,
        letters="UU_U",
    )
    explained = read(lost)
    assert {(a.severity, a.alert) for a in explained.alerts} == {
        ("warning", "MdDegraded"),
        ("warning", "MdMemberFaulty"),
    }
    assert explained.unparsed == ()
    test = MAIL.format(event="TestMessage", component="", mark="", active=4, letters="UUUU")
    assert (read(test).status, read(test).unparsed) == (0, ())


@pytest.mark.parametrize(
    ("level", "severity"),
    [("4", "critical"), ("5", "critical"), ("6", "critical"), ("1", "notice"), ("10", "notice")],
)
def test_mismatches_by_level(level: str, severity: str) -> None:
    """Parity that does not match is never harmless; copies may differ where swap is on them."""
    text = (
        "Nov  5 02:31:17 box mdadm[1044]: RebuildFinished event detected on md device /dev/md1,"
        f" component device  mismatches found: 1024 (on raid level {level})\n"
    )
    (alert,) = read(text).alerts
    assert (alert.severity, alert.alert) == (severity, "MdMismatches")


REPLACED = """\
md3 : active raid1 sdk1[2](R) sdh1[1] sdg1[0]
      976630464 blocks super 1.2 [2/2] [UU]
      [==>.....]  recovery = 12.5% (122078808/976630464) finish=71.2min speed=200000K/sec

unused devices: <none>
"""
DETAIL = """\
/dev/md3:
        Raid Level : raid1
      Raid Devices : 2
     Total Devices : 3
             State : clean, {state}
    Active Devices : 2
   Working Devices : 3
    Failed Devices : 0
     Spare Devices : 1
    {status} : 12% complete
"""
ROWS = """
    Number   Major   Minor   RaidDevice State
       0       8       97        0      active sync   /dev/sdg1
       2       8      161        0      spare rebuilding   /dev/sdk1
       1       8      113        1      active sync   /dev/sdh1
"""
REPLACING = DETAIL.format(state="recovering", status="Rebuild Status") + ROWS


@pytest.mark.parametrize("text", [REPLACED, REPLACING], ids=["mdstat", "--detail"])
def test_a_member_that_is_replaced_while_it_works_is_no_fault(text: str) -> None:
    """'mdadm --replace': each slot has a working member throughout."""
    told = read(text)
    assert (told.status, [each.severity for each in told.alerts]) == (0, ["info"])


def test_a_table_that_was_left_out_is_no_fault_of_the_array() -> None:
    """A resync is running; that there are no rows is only not parsed."""
    told = read(DETAIL.format(state="resyncing", status="Resync Status"))
    assert (told.status, len(told.unparsed), told.unparsed[0].fault) == (2, 1, False)


def test_a_table_that_is_cut_within_a_row() -> None:
    """What a web page kept of a paste: the array is judged, and the row is not parsed."""
    whole = DETAIL.format(state="resyncing", status="Resync Status") + ROWS
    for cut in ("       1       8", "       1       8      113", "       1"):
        told = read(whole[: whole.rindex("       1       8")] + cut)
        assert (told.status, [each.severity for each in told.alerts]) == (2, ["info"])
        assert all("truncated" in each.reason for each in told.unparsed)


def test_a_detail_of_metadata_0_90_is_no_superblock() -> None:
    """It has a preferred minor number, as 'mdadm --examine' has."""
    text = DETAIL.format(state="degraded", status="Rebuild Status").replace(
        "ices : 2", "ices : 3", 1
    )
    told = read(text.replace("             State", "   Preferred Minor : 3\n             State"))
    assert told.outputs == ("mdadm --detail",)
    assert [each.alert for each in told.alerts if each.severity == "critical"] == []
    assert "MdDegraded" in {each.alert for each in told.alerts}
