"""The storage tree in 80 columns: what is folded, what is never cut."""

from __future__ import annotations

from iowarden.daemon.control.storage_document import BayLine, StorageNode, StorageTree
from iowarden.daemon.terminal.storage_layout import MAX_LINES, bay_lines, tree_lines


def member(name: str, state: str = "in sync", **more: object) -> StorageNode:
    """Return a member of an array, at depth 2."""
    return StorageNode(name=name, kind="disk", depth=2, state=state, is_member=True, **more)  # type: ignore[arg-type]


def mounts(count: int, **more: object) -> tuple[StorageNode, ...]:
    """Return file systems on thin volumes."""
    found: list[StorageNode] = []
    for number in range(count):
        found.append(StorageNode(name=f"/vm/{number}", kind="ext4", **more))  # type: ignore[arg-type]
        found.append(StorageNode(name=f"vg/vm-{number}", kind="LVM", depth=1))
    return tuple(found)


SICK = (
    StorageNode(name="/data", kind="xfs", below="critical"),
    StorageNode(name="md5", kind="raid5", depth=1, severity="critical", state="23 of 24 members"),
    *(member(f"sd{letter}1", temperature_celsius=31.0 + at % 8, note="do not remove")
      for at, letter in enumerate("bcdefghijklmnopqrstuvwx")),
    member("sdy1", "FAILED", severity="critical", serial="Z" * 100, note="replace"),
)  # fmt: skip


def test_equal_members_that_are_well_are_one_line_and_the_failed_one_has_its_own() -> None:
    """23 of 24: their range, number and temperatures; a long serial number is whole."""
    lines = tree_lines(StorageTree(nodes=SICK))
    assert len(lines) <= 6
    folded = next(line for line in lines if "sdb1..sdx1" in line)
    assert "23 in sync, 31-38 C" in folded
    failed = next(number for number, line in enumerate(lines) if "sdy1" in line)
    assert lines[failed].startswith("!!")
    assert any("Z" * 100 in line for line in lines[failed:])
    assert "<- replace" in "\n".join(lines[failed:])
    assert lines[0].startswith("!! /data"), "the first line of a tree shows the worst below it"


def test_members_of_what_is_well_are_named_in_its_line() -> None:
    """A node without a problem is one line; '--all' shows each disk."""
    nodes = (
        StorageNode(name="/", kind="ext4"),
        StorageNode(name="md0", kind="raid1", depth=1, state="2 of 2 members"),
        member("sda1"),
        member("sdb1"),
    )
    assert len(tree_lines(StorageTree(nodes=nodes))) == 2
    assert "(sda1 sdb1)" in tree_lines(StorageTree(nodes=nodes))[1]
    assert len(tree_lines(StorageTree(nodes=nodes), unfolded=True)) == 4


def test_with_200_thin_volumes_the_faults_are_on_the_first_screen() -> None:
    """Above 60 lines what is well is folded first; the number of what is not shown is."""
    tree = StorageTree(nodes=(*SICK, *mounts(200)))
    lines = tree_lines(tree)
    assert len(lines) <= MAX_LINES
    assert lines[0].startswith("!! /data")
    assert any("sdy1" in line for line in lines)
    assert "without a problem" in lines[-1]
    assert "iowarden storage --all" in lines[-1]
    assert len(tree_lines(tree, unfolded=True)) > 400


def test_of_100_sick_file_systems_each_has_at_least_a_line() -> None:
    """None is hidden because there are many: then their details are."""
    lines = tree_lines(StorageTree(nodes=mounts(100, severity="warning", state="92 % full")))
    assert sum(line.startswith(" ! /vm/") for line in lines) == 100
    assert "the details of" in lines[-1]


def test_what_is_not_known_has_a_question_mark_and_the_reason() -> None:
    """A stuck reader is said before everything else; an empty answer is no healthy machine."""
    node = StorageNode(name="sda", kind="disk", unknown="SMART: timed out")
    lines = tree_lines(StorageTree(nodes=(node,), problems=("md: last read 14 min ago",)))
    assert lines[0] == " ?  md: last read 14 min ago"
    assert lines[1].startswith(" ? sda")
    assert "SMART: timed out" in lines[1]
    assert tree_lines(StorageTree()) == ["no storage device is known yet"]


def test_a_shelf_is_drawn_bay_by_bay() -> None:
    """For the person at the rack: which bay, which serial number, what is in it."""
    states = ("ok", "failed", "rebuilding", "warning", "unknown", "empty")
    bays = tuple(
        BayLine("host5 mpt3sas", "5:0:24:0", f"Slot {n}", f"sd{n}", f"S{n}", state=state)
        for n, state in enumerate(states)
    )
    lines = bay_lines(StorageTree(bays=bays))
    assert lines[0] == "host5 mpt3sas"
    assert lines[2].strip() == ".FR!?-"
    assert [line[:2] for line in lines if "Slot" in line] == ["  ", "!!", " !", " !", " ?", "  "]
    assert bay_lines(StorageTree()) == ["no disk is known yet"]
