"""Limits of control groups: only those that are set, of the group and of those above it."""

from __future__ import annotations

import pytest
from support.memory import Memory

from iowarden.collectors.procfs.cgroup_limits import (
    GroupLimit,
    has_unreadable_write_limits,
    read_full_pressure,
    read_limits,
    relevant_groups,
)

CGROUP = "/sys/fs/cgroup"
V1 = (
    "12:memory:/system.slice/pg.service\n5:cpu,cpuacct:/system.slice\n4:blkio:/system.slice\n"
    "1:name=systemd:/system.slice/pg.service\n0::/system.slice/pg.service (deleted)\n"
)


def test_the_hierarchies_that_limit_storage_are_picked() -> None:
    """Of version 1 'memory' and 'blkio'; of 2 its only one; a group may be gone meanwhile."""
    assert relevant_groups(V1) == (
        "12:memory:/system.slice/pg.service",
        "4:blkio:/system.slice",
        "0::/system.slice/pg.service",
    )
    assert relevant_groups("") == ()


@pytest.mark.parametrize("top", [CGROUP, f"{CGROUP}/unified"])
def test_the_innermost_limit_comes_first_and_what_is_not_limited_is_left_out(top: str) -> None:
    """Version 2 alone, and beside version 1 (hybrid)."""
    machine = Memory()
    machine.write(
        {
            f"{top}/cgroup.controllers": "io memory\n",
            f"{top}/a.slice/io.max": "8:0 rbps=max wbps=max riops=max wiops=120\n",
            f"{top}/a.slice/x.service/io.max": "8:16 rbps=1048576 wbps=max riops=9 wiops=max\n",
            f"{top}/a.slice/x.service/io.latency": "8:0 target=75000\n",
            f"{top}/a.slice/x.service/memory.high": "max\n",
            f"{top}/a.slice/memory.high": "104857600\n",
        }
    )
    own, above = f"{top}/a.slice/x.service", f"{top}/a.slice"
    assert read_limits(machine, ("0::/a.slice/x.service",)) == (
        GroupLimit(f"{own}/io.max", "8:16", "rbps=1048576 riops=9"),
        GroupLimit(f"{above}/io.max", "8:0", "wiops=120"),
        GroupLimit(f"{above}/memory.high", "", "104857600"),
    )


def test_version_1_has_a_file_for_each_kind_of_limit() -> None:
    """A line for each device that has one."""
    machine = Memory()
    file = f"{CGROUP}/blkio/web/blkio.throttle.read_iops_device"
    machine.write({file: "8:0 100\n253:0 200\n"})
    assert read_limits(machine, ("4:blkio:/web",)) == (
        GroupLimit(file, "8:0", "100"),
        GroupLimit(file, "253:0", "200"),
    )


@pytest.mark.parametrize(
    ("groups", "files"),
    [
        (("4:blkio:/",), [f"{CGROUP}/blkio"]),
        (("4:blkio:/a.slice/x.service",), [f"{CGROUP}/blkio/a.slice/x.service"]),
        (("7:cpu,blkio:/a.slice",), [f"{CGROUP}/cpu,blkio/a.slice"]),
        (("4:blkio:/a.slice", "0::/a.slice/x.service"), [f"{CGROUP}/blkio/a.slice"]),
    ],
)
def test_a_limit_of_version_1_holds_for_its_very_group(
    groups: tuple[str, ...], files: list[str]
) -> None:
    """One of a slice does not hold for its services, and that of the root for what is in it."""
    machine = Memory()
    name = "blkio.throttle.write_bps_device"
    places = ("", "/a.slice", "/a.slice/x.service")
    tops = (f"{CGROUP}/blkio", f"{CGROUP}/cpu,blkio")
    machine.write({f"{top}{place}/{name}": "8:0 1\n" for top in tops for place in places})
    machine.write({f"{CGROUP}/unified/cgroup.controllers": "\n"})
    assert [limit.file for limit in read_limits(machine, groups)] == [
        f"{group}/{name}" for group in files
    ]


@pytest.mark.parametrize(
    ("file", "group"),
    [
        ("/a.slice/x.service/io.max", "/a.slice/x.service"),
        ("/unified/a.slice/io.max", "/a.slice"),
        ("/blkio/docker/4f2a/blkio.throttle.read_bps_device", "/docker/4f2a"),
        ("/cpu,blkio/blkio.throttle.read_bps_device", "/"),
    ],
)
def test_the_group_of_a_limit_is_below_the_mount_of_its_hierarchy(file: str, group: str) -> None:
    """A mail names the unit, or this."""
    assert GroupLimit(f"{CGROUP}{file}", "8:0", "1").group == group


@pytest.mark.parametrize("line", ["0::/../other", "0::/", "0::/gone", "", "nonsense"])
def test_a_group_outside_of_the_name_space_or_without_files_has_no_limit(line: str) -> None:
    """A container sees '..' for what is above its own root: that is no path of this host."""
    machine = Memory()
    machine.write({f"{CGROUP}/cgroup.controllers": "io\n", f"{CGROUP}/io.max": "8:0 rbps=1\n"})
    assert read_limits(machine, (line,)) == ()


PRESSURE = "some avg10=90.00 avg60=1.00 avg300=1.00 total=1\nfull avg10={} avg60=1.00 avg300=1.00 total=1\n"  # noqa: E501 - as the kernel prints it


@pytest.mark.parametrize(
    ("sentence", "files", "expected"),
    [
        ("of the slice that is at its limit", {"/a.slice/memory.max": "1000"}, 0.62),
        ("memory.high is one as well", {"/a.slice/memory.high": "1000"}, 0.62),
        (
            "the service has room, whatever its slice has not",
            {"/a.slice/x/memory.max": "9000"},
            None,
        ),
        ("both are", {"/a.slice/memory.max": "1000", "/a.slice/x/memory.max": "960"}, 0.95),
        ("no limit", {"/a.slice/memory.max": "max", "/a.slice/memory.high": "max"}, None),
        ("psi=0", {"/a.slice/memory.max": "1000", "/a.slice/memory.pressure": ""}, None),
    ],
)
def test_the_pressure_of_a_group_at_its_limit_of_memory(
    sentence: str, files: dict[str, str], expected: float | None
) -> None:
    """A service in a slice, both with 950 bytes in use, and one more above them."""
    machine = Memory()
    machine.write({f"{CGROUP}/cgroup.controllers": "memory\n"})
    for group, full in (("/a.slice", "62.00"), ("/a.slice/x", "95.00")):
        machine.write({f"{CGROUP}{group}/memory.current": "950\n"})
        machine.write({f"{CGROUP}{group}/memory.pressure": PRESSURE.format(full)})
    machine.write({f"{CGROUP}{path}": f"{text}\n" for path, text in files.items()})
    assert read_full_pressure(machine, ("0::/a.slice/x",)) == expected, sentence
    assert read_full_pressure(machine, ("4:blkio:/a.slice/x", "0::/../a.slice", "0::/")) is None


V2_FILES: dict[str, str | bytes | None] = {
    f"{CGROUP}/cgroup.controllers": "io\n",
    f"{CGROUP}/a.slice/x/io.max": "",
    f"{CGROUP}/b.slice/x/io.max": "",
    f"{CGROUP}/a.slice/io.max": "8:0 rbps=1\n",
    f"{CGROUP}/memory.slice/y/memory.max": "max\n",
    f"{CGROUP}/blkio/z/blkio.throttle.write_bps_device": "",
    f"{CGROUP}/blkio/z/blkio.throttle.write_iops_device": "",
}


def with_files(files: dict[str, str | bytes | None]) -> Memory:
    """Return a host with these files."""
    machine = Memory()
    machine.write(files)
    return machine


@pytest.mark.parametrize(
    ("sentence", "groups", "expected"),
    [
        ("all files of the chain were read", ("0::/a.slice/x",), False),
        ("the controller is not enabled there", ("0::/memory.slice/y",), False),
        ("the root has no limits", ("0::/",), False),
        ("a group of version 1", ("4:blkio:/z", "5:memory:/z", "0::/"), False),
        ("its files are not mounted here", ("4:blkio:/gone",), True),
        ("the group is gone", ("0::/a.slice/gone",), True),
        ("in another namespace of groups", ("0::/../a.slice/x",), True),
        ("the groups are not known", (), True),
    ],
)
def test_a_limit_that_cannot_be_read_may_hold(
    sentence: str, groups: tuple[str, ...], *, expected: bool
) -> None:
    """Where the directory can be listed and has no such file, there is no limit."""
    machine = with_files(V2_FILES)
    assert has_unreadable_write_limits(machine, groups) is expected, sentence


def test_a_file_of_limits_that_may_not_be_read_may_hold_one() -> None:
    """The directory lists it, and reading it fails."""
    machine = with_files({**V2_FILES, f"{CGROUP}/b.slice/io.max/x": ""})
    assert has_unreadable_write_limits(machine, ("0::/b.slice/x",))
