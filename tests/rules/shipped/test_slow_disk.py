"""A slow disk, from the kernel's counters to the mail."""

from __future__ import annotations

import pytest
from support.simulation import Simulation

DISKS = ("sda", "sdb", "sdc", "sdd", "sde")
WRITES = dict.fromkeys(DISKS, 5_000_000)
USUAL = dict.fromkeys(DISKS, 12)


@pytest.fixture
def machine() -> Simulation:
    """Return a raid5 of five disks with serial numbers, which writes 5 MB/s to each."""
    found = Simulation()
    for name in DISKS:
        found.add_disk(name, f"SN-{name}")
    found.add_array("md0", "raid5", *DISKS)
    found.run(60, writes=WRITES, write_ms=USUAL, step=5)
    return found


def test_a_slow_member_is_one_mail_about_that_disk_with_both_latencies(machine: Simulation) -> None:
    """12 ms at the others, 300 ms at sdc: severe, so within a minute and the grouping of one."""
    slow = {**USUAL, "sdc": 300}
    machine.run(120, writes=WRITES, write_ms=slow, step=5)
    assert machine.host.names("warning") == {"DiskSlow"}
    assert [mail.due.reason.value for mail in machine.host.mails] == ["opened"]
    mail = machine.host.mails[0]
    assert mail.due.incident.object.startswith("sdc (SIMULATED HDD, serial SN-sdc)")
    assert mail.uptime - 1060 <= 120
    (member,) = mail.due.incident.members
    assert "300 ms per write, 12 ms at the other disks of its array" in member.summary
    assert "mdadm --fail" in mail.advice
    assert "critical" not in {level for _, _, level in machine.host.fired}


def test_the_mail_shows_what_was_slow_also_when_it_is_sent_between_slow_windows(
    machine: Simulation,
) -> None:
    """Slow for 55 s, and well while the mail waits for others."""
    machine.run(55, writes=WRITES, write_ms={**USUAL, "sdc": 300}, step=5)
    machine.run(100, writes=WRITES, write_ms=USUAL, step=5)
    (mail,) = machine.host.mails
    (member,) = mail.due.incident.members
    assert "300 ms per write, 12 ms at the other disks of its array" in member.summary


def test_a_disk_that_is_well_again_is_resolved(machine: Simulation) -> None:
    """And a healthy array is silent."""
    machine.run(60, writes=WRITES, write_ms=USUAL, step=5)
    assert machine.host.names() == set()
    machine.run(60, writes=WRITES, write_ms={**USUAL, "sdc": 300}, step=5)
    machine.run(1300, writes=WRITES, write_ms=USUAL, step=5)
    assert [mail.due.reason.value for mail in machine.host.mails] == ["opened", "resolved"]
