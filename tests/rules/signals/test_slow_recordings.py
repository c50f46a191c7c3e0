"""Slow and healthy disks of a real kernel, a few minutes each: tests/vm/record_slow.py."""

from __future__ import annotations

import lzma
from functools import cache

import pytest
from support.recordings import FIXTURES
from support.slow_disks import Array, Second, SlowMachine, drive, machine, seconds_of

FIVE = ("sda", "sdb", "sdc", "sdd", "sde")


@cache
def recording(name: str) -> tuple[Second, ...]:
    """Return the seconds of a recorded RAID 5."""
    with lzma.open(FIXTURES / "slow-disks" / f"{name}.xz", "rt") as lines:
        return tuple(seconds_of(lines))


def marked(name: str, word: str) -> tuple[int, list[str]]:
    """Return the first second with a mark that begins so, and the rest of the mark."""
    for at, each in enumerate(recording(name)):
        for mark in each.marks:
            if mark.startswith(word):
                return at, mark.split()[1:]
    raise LookupError(name)


def named(name: str, severity: str) -> list[tuple[int, set[str]]]:
    """Return the seconds in which disks are named, and these."""
    signal = SlowMachine(machine(map(drive, FIVE), Array("raid5", FIVE)))
    found = []
    for at, each in enumerate(recording(name)):
        signal.take(each.disks)
        if disks := signal.named(severity):
            found.append((at, disks))
    return found


@pytest.mark.parametrize(("name", "severity"), [("severe", "warning"), ("late", "notice")])
def test_a_member_that_takes_ten_times_as_long_is_named_within_60_s(
    name: str, severity: str
) -> None:
    """At a tenth of its speed its queue makes it worse: a warning; 72 ms late, each: a notice."""
    began, (sick, *_) = marked(name, "sick")
    alerts = named(name, severity)
    assert 0 < alerts[0][0] - began <= 60
    assert {disk for _, disks in alerts for disk in disks} == {sick}


@pytest.mark.parametrize("name", ["check", "backup"])
def test_a_check_and_a_backup_of_one_member_are_no_slow_disk(name: str) -> None:
    """md reads all members beside a database; dd reads one member, whose requests wait for it."""
    assert named(name, "notice") == []
