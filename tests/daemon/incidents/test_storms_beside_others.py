"""A swap storm of short page faults beside programs that wait for a disk from its start on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.blocked import FAULT, Blocked, task

if TYPE_CHECKING:
    from iowarden.collectors.procfs.tasks import BlockedTask

SWAPPED = ("io_schedule", "folio_wait_bit_common", "do_swap_page")
MAPPED = ("io_schedule", "folio_wait_bit_common", "filemap_fault")
READ = {
    "stack": ("io_schedule", "folio_wait_bit_common", "filemap_read", "vfs_read"),
    "wait_channel": "folio_wait_bit_common",
}
SYNC: dict[str, object] = {}
HEADING = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
AREAS = {
    "on the disk": "/dev/sda2                               partition\t4000000\t\t900000\t\t-2\n",
    "in a file on it": "/srv/swapfile                           file\t\t4000000\t\t900000\t\t-2\n",
    "elsewhere": "/dev/sdc                                partition\t4000000\t\t900000\t\t-2\n",
}


def faults(second: int, stack: tuple[str, ...], *, programs: int = 5) -> list[BlockedTask]:
    """Return programs in page faults, each in another one at each poll."""
    return [
        task(
            number,
            "java",
            system_call=FAULT,
            waits_at="",
            file="",
            mount="",
            counters=(),
            voluntary_switches=second * 40 + number,
            stack=stack,
            wait_channel=stack[0] if stack else "",
        )
        for number in range(programs)
    ]


def played(
    host: Blocked,
    seconds: int,
    waiting: list[BlockedTask],
    *,
    late: int = 0,
    pages: int = 3000,
    stack: tuple[str, ...] = SWAPPED,
) -> None:
    """Let pages be swapped on sda, which is always busy, while programs fault and others wait."""
    disk = host.disks["sda"]
    for second in range(seconds):
        host.swapped += pages and pages + 10 * (second % 17)
        disk.in_flight, disk.milliseconds = 60, disk.milliseconds + 60_000
        disk.reads += 3000 + 300 * (second % 7)
        own = waiting if second >= late else []
        host.pass_seconds(1, [*faults(host.second, stack), *own], sda=12_000_000)


def causes(host: Blocked) -> dict[str, str]:
    """Return why programs wait, by device."""
    assert host.machine.host.engine is not None
    found = host.machine.host.engine.signals.harm().causes
    return {name: cause.value for name, cause in found.items()}


def pressed(host: Blocked) -> None:
    """Let the kernel measure how much of the time all programs wait for memory."""
    line = "avg10=60.00 avg60=9.00 avg300=1.00 total=1\n"
    host.machine.memory.write({"/proc/pressure/memory": f"some {line}full {line}"})


@pytest.mark.parametrize(
    ("late", "databases", "number", "has_pressure"),
    [
        (0, SYNC, "8:0", True),
        (0, SYNC, "8:16", False),
        (0, READ, "8:0", False),
        (45, READ, "8:16", True),
    ],
    ids=["commits", "commits elsewhere", "reads", "later reads elsewhere"],
)
def test_a_storm_beside_databases_is_one_whenever_these_began_to_wait(
    late: int, databases: dict[str, object], number: str, *, has_pressure: bool
) -> None:
    """No fault lasts from one poll to the next; the databases do, and are all that is followed."""
    host = Blocked()
    host.add_disk("sdb")
    if has_pressure:
        pressed(host)
    host.pass_seconds(20, [], sda=4_000_000)
    waiting = [task(20 + each, **{**databases, "waits_at": number}) for each in range(2)]  # type: ignore[arg-type]
    played(host, 82, waiting, late=late)
    assert causes(host)[""] == "swap storm"
    assert min(second for second, _ in host.mails()) - 20 <= 80


@pytest.mark.parametrize("area", AREAS)
def test_who_waits_for_the_disk_of_the_swap_area_waits_because_of_the_storm(area: str) -> None:
    """It is busy with pages: commits on it have no cause of their own; on another disk they may."""
    host = Blocked()
    host.add_disk("sdc")
    host.machine.memory.write(
        {
            "/proc/swaps": HEADING + AREAS[area],
            "/sys/block/sda/sda2/dev": "8:2\n",
            "/sys/block/sda/sda2/partition": "2\n",
            "/proc/1/mountinfo": "30 1 8:0 / /srv rw - ext4 /dev/sda rw\n",
        }
    )
    host.pass_seconds(20, [], sda=4_000_000)
    played(host, 75 if area == "on the disk" else 45, [task(20), task(21)])
    assert causes(host) == {"sda": "unknown" if area == "elsewhere" else "swap storm"}
    assert len({mail.due.incident.identifier for mail in host.machine.host.mails}) == 1


def test_programs_whose_code_is_read_again_beside_databases_are_in_a_storm() -> None:
    """Their swap is full, and their files are read from the disk that the databases wait for."""
    host = Blocked()
    pressed(host)
    host.pass_seconds(20, [], sda=4_000_000)
    played(host, 45, [task(20), task(21)], pages=2, stack=MAPPED)
    assert "swap storm" in causes(host).values()


@pytest.mark.parametrize("stack", [SWAPPED, MAPPED, ()], ids=["swapped", "mapped", "no stack"])
def test_a_page_fault_waits_for_the_disk_that_hangs_while_nothing_is_swapped(
    stack: tuple[str, ...],
) -> None:
    """sda completes nothing, also no page: one freeze, one cause."""
    host = Blocked()
    host.pass_seconds(20, [], sda=4_000_000)
    host.disks["sda"].in_flight = 9
    in_faults = faults(0, stack, programs=2)
    host.pass_seconds(40, [*in_faults, task(20), task(21)])
    assert causes(host) == {"sda": "hang"}
