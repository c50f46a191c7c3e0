"""Whether a group is at its limit: a rate near it over some seconds, whatever one second shows."""

from __future__ import annotations

import pytest
from support.memory import Memory

from iowarden.collectors.procfs.cgroup_limits import GroupLimit
from iowarden.collectors.procfs.cgroup_use import (
    Use,
    Uses,
    next_uses,
    reached_memory,
    reached_rates,
    read_counters,
)

GROUP = "/sys/fs/cgroup/a.slice/x.service"
V1_GROUP = "/sys/fs/cgroup/blkio/x"
MIB = 1 << 20
IO_STAT = """\
253:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0
8:0 rbytes=1200 wbytes=5300 rios=12 wios=53 dbytes=77 dios=7 cost.usage=9
8:16
"""
SERVICED = "8:0 Read 12\n8:0 Write 53\n8:0 Sync 60\n8:0 Async 5\n8:0 Total 65\nTotal 65\n"


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (
            GroupLimit(f"{GROUP}/io.max", "8:0", "wbps=9"),
            {"rbps": 1200, "wbps": 5300, "riops": 12, "wiops": 53},
        ),
        (GroupLimit(f"{GROUP}/io.max", "8:16", "wbps=9"), {}),
        (GroupLimit(f"{GROUP}/io.max", "8:32", "wbps=9"), {}),
        (GroupLimit("/sys/fs/cgroup/gone/io.max", "8:0", "wbps=9"), None),
        (
            GroupLimit(f"{V1_GROUP}/blkio.throttle.write_iops_device", "8:0", "9"),
            {"rbps": 1200, "wbps": 5300, "riops": 12, "wiops": 53},
        ),
        (GroupLimit("/sys/fs/cgroup/blkio/y/blkio.throttle.write_iops_device", "8:0", "9"), None),
    ],
)
def test_what_a_group_has_done_on_the_device_of_its_limit(
    limit: GroupLimit, expected: dict[str, int] | None
) -> None:
    """A device without numbers is one that it has not used; a file that is absent tells nothing."""
    machine = Memory()
    machine.write(
        {
            f"{GROUP}/io.stat": IO_STAT,
            f"{V1_GROUP}/blkio.throttle.io_serviced": SERVICED,
            f"{V1_GROUP}/blkio.throttle.io_service_bytes": SERVICED.replace("12", "1200").replace(
                "53", "5300"
            ),
        }
    )
    assert read_counters(machine, limit) == expected


def uses(name: str, *done: int, seconds: float = 2.0) -> Uses:
    """Return what a group had done at each poll."""
    found: Uses = ()
    for number, count in enumerate(done):
        found = next_uses(found, Use(1000.0 + seconds * number, {name: count}))
    return found


WBPS = GroupLimit(f"{GROUP}/io.max", "8:0", "wbps=1048576")
SLOW = GroupLimit(f"{GROUP}/io.max", "8:0", "wbps=65536")
WIOPS = GroupLimit(f"{GROUP}/io.max", "8:0", "wbps=1048576 wiops=20")


@pytest.mark.parametrize(
    ("sentence", "limit", "of_group", "expected"),
    [
        ("it passes on what it may", WBPS, uses("wbps", 0, 2 * MIB, 4 * MIB), {"wbps"}),
        ("a tenth of it", WBPS, uses("wbps", *range(0, 3 * MIB, MIB // 5)), set()),
        ("two seconds show nothing yet", WBPS, uses("wbps", 0, 2 * MIB), None),
        ("one poll", WBPS, uses("wbps", 0), None),
        ("polls that mostly fail", WBPS, uses("wbps", 0, 25 * MIB, 50 * MIB, seconds=25), {"wbps"}),
        ("and a group below it", WBPS, uses("wbps", 0, 2 * MIB, 4 * MIB, seconds=25), set()),
        ("nothing", WBPS, uses("wbps", 7, 7, 7, 7, 7), set()),
        ("in turns: 4 MiB and nothing", WBPS, uses("wbps", 0, 4 * MIB, 4 * MIB, 8 * MIB), {"wbps"}),
        (
            "a request of 1 MiB each 16 s is all it may",
            SLOW,
            uses("wbps", *(second // 16 * MIB for second in range(0, 64, 2))),
            {"wbps"},
        ),
        (
            "and one each minute is not",
            SLOW,
            uses("wbps", *(second // 60 * MIB for second in range(0, 90, 2))),
            set(),
        ),
        ("of two rates one", WIOPS, uses("wiops", 0, 39, 80), {"wiops"}),
        (
            "it was at it a minute ago",
            WBPS,
            uses("wbps", *range(0, 60 * MIB, 2 * MIB), *[60 * MIB] * 8),
            set(),
        ),
        ("its counters begin again", WBPS, uses("wbps", 99 * MIB, 2 * MIB, 4 * MIB), set()),
    ],
)
def test_a_group_is_at_a_limit_if_it_does_what_it_may(
    sentence: str, limit: GroupLimit, of_group: Uses, expected: set[str] | None
) -> None:
    """Over ten seconds, or longer where a few of its requests take longer."""
    assert reached_rates(limit, of_group) == expected, sentence


def test_of_a_group_whose_figures_cannot_be_read_nothing_is_known() -> None:
    """That is not the same as a group that does nothing."""
    assert reached_rates(WBPS, (Use(1.0, None), Use(9.0, None))) is None


@pytest.mark.parametrize(
    ("file", "used", "expected"),
    [
        ("memory.high", "memory.current", {"memory.high"}),
        ("memory.swap.high", "memory.swap.current", {"memory.swap.high"}),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", {"memory.limit_in_bytes"}),
        ("memory.max", "memory.current", {"memory.max"}),
        ("memory.swap.max", "memory.swap.current", {"memory.swap.max"}),
        (
            "memory.memsw.limit_in_bytes",
            "memory.memsw.usage_in_bytes",
            {"memory.memsw.limit_in_bytes"},
        ),
        ("memory.high", "memory.max", None),
    ],
)
def test_a_group_is_at_its_limit_of_memory_if_it_uses_nearly_all_of_it(
    file: str, used: str, expected: set[str] | None
) -> None:
    """A tenth is free at most: what is above memory.high is reclaimed at once."""
    machine, limit = Memory(), GroupLimit(f"{GROUP}/{file}", "", "1000")
    for size, found in (("950", expected), ("300", None if expected is None else set())):
        machine.write({f"{GROUP}/{used}": f"{size}\n"})
        assert reached_memory(machine, limit) == found
