"""Control groups that wait for I/O: trees of version 2, 1 and hybrid."""

from __future__ import annotations

import pytest
from support.memory import Memory

from iowarden.collectors.model import AbsentError, ParseError
from iowarden.collectors.procfs.cgroup_io import (
    MAX_GROUPS,
    CgroupIo,
    read_cgroups,
    read_disk_bytes,
)

TOP = "/sys/fs/cgroup"


def pressure(some: float, full: float) -> str:
    """Return the text of io.pressure, in percent."""
    lines = (
        f"{k} avg10={v:.2f} avg60=0.00 avg300=0.00 total=1\n"
        for k, v in (("some", some), ("full", full))
    )
    return "".join(lines)


def tree(top: str, **groups: tuple[float, float]) -> Memory:
    """Return a machine with groups; '__' in their names stands for '/'."""
    files: dict[str, str | bytes | None] = {f"{top}/cgroup.controllers": "cpu io\n"}
    files[f"{top}/io.pressure"] = pressure(99, 99)
    for name, (some, full) in groups.items():
        files[f"{top}/{name.replace('__', '/')}/io.pressure"] = pressure(some, full)
    return Memory(files)


def test_units_nested_users_and_containers() -> None:
    """Each group without further groups in it; the slices above only add these up."""
    root = Memory({f"{TOP}/cgroup.controllers": "cpuset cpu io memory pids\n"})
    names = {
        "system.slice": (90, 80),
        "system.slice/nginx.service": (90, 84.1),
        "system.slice/cpu-burner.service": (0, 0),
        "system.slice/docker-1a2b.scope": (5, 4),
        "user.slice/user-1000.slice/user@1000.service": (50, 40),
        "user.slice/user-1000.slice/user@1000.service/app.slice/a.service": (50, 40),
        "kubepods/burstable/pod1/ff": (1, 0),
        "empty.slice": (0, 0),
    }
    for name, (some, full) in names.items():
        root.write({f"{TOP}/{name}/io.pressure": pressure(some, full)})
    root.write({f"{TOP}/system.slice/cpu.stat": "usage_usec 1\n"})
    assert {each.unit: each.full_ratio for each in read_cgroups(root)[0]} == {
        "nginx.service": pytest.approx(0.841),
        "cpu-burner.service": 0.0,
        "docker-1a2b.scope": 0.04,
        "a.service": 0.4,
        "kubepods/burstable/pod1/ff": 0.0,
        "empty.slice": 0.0,
    }


def test_the_bytes_of_a_volume_and_of_its_disk_are_counted_once() -> None:
    """The kernel counts them at each device; a group without I/O has an empty file."""
    root = tree(TOP, a__x_service=(0, 0))
    path = f"{TOP}/a/x.service"
    stat = "254:0 rbytes=4096 wbytes=9 rios=1 wios=1 dbytes=0 dios=0\n8:0 rbytes=4096 wbytes=7\n"
    root.write({f"{path}/io.pressure": pressure(1, 0), f"{path}/io.stat": stat})
    by_disk = {"254:0": (4096, 9), "8:0": (4096, 7)}
    found = read_cgroups(root)[0]
    assert CgroupIo("/a/x.service", "x.service", 0.01, 0.0, 4096, 9, by_disk) in found
    root.write({f"{path}/io.stat": ""})
    assert CgroupIo("/a/x.service", "x.service", 0.01, 0.0, 0, 0) in read_cgroups(root)[0]
    root.write({f"{path}/io.stat": "8:0 rbytes=-1\n"})
    with pytest.raises(ParseError, match=r"io.stat': expected 'rbytes=<n>"):
        read_cgroups(root)


@pytest.mark.parametrize("top", [TOP, f"{TOP}/unified"])
def test_the_root_group_has_what_all_did_on_each_disk(top: str) -> None:
    """From 5.9 on; a device without I/O may have its number alone."""
    root = tree(top, a=(1, 1))
    assert read_disk_bytes(root) == {}
    root.write({f"{top}/io.stat": "7:0 8:16 rbytes=4096 wbytes=512 rios=1 wios=1\n8:0 \n"})
    assert read_disk_bytes(root) == {"8:16": (4096, 512), "8:0": (0, 0)}


def test_hybrid_has_version_2_beside_version_1() -> None:
    """Systemd's hybrid hierarchy: no controller there, but pressure."""
    root = tree(f"{TOP}/unified", system=(3, 2))
    root.write({f"{TOP}/unified/cgroup.controllers": ""})
    assert [each.unit for each in read_cgroups(root)[0]] == ["system"]


def test_version_1_alone_has_no_pressure() -> None:
    """Said with the file that is missing."""
    root = Memory({f"{TOP}/blkio/system.slice/x.service/tasks": "1\n"})
    with pytest.raises(AbsentError, match=r"cgroup.controllers': cgroup version 2 is not mounted"):
        read_cgroups(root)


def test_pressure_that_is_off_is_absent() -> None:
    """psi=0: the groups have no such file."""
    root = Memory({f"{TOP}/cgroup.controllers": "io\n", f"{TOP}/a.service/io.stat": ""})
    with pytest.raises(AbsentError, match="psi=1"):
        read_cgroups(root)


def test_a_group_that_vanishes_is_left_out() -> None:
    """A unit that ends between the listing and the read is normal."""
    root = tree(TOP, a=(1, 1), b=(2, 2))
    root.watch(lambda path, _: root.remove(f"{TOP}/b") if path == f"{TOP}/a/" else None)
    assert [each.unit for each in read_cgroups(root)[0]] == ["a"]


@pytest.mark.parametrize(("more", "cut_off"), [(0, False), (1, True)])
def test_of_thousands_of_groups_the_first_are_read_and_that_there_are_more_is_known(
    more: int, cut_off: bool
) -> None:
    """A host with many sessions: the one that waits may be among those that were not read."""
    root = tree(TOP, **{f"s{n}": (0, 0) for n in range(MAX_GROUPS + more)})
    found, are_more = read_cgroups(root)
    assert (len(found), are_more) == (MAX_GROUPS, cut_off)
