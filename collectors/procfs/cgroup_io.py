"""I/O of control groups (version 2): how long their tasks wait, and how much they read and write.

Source: kernel, admin-guide/cgroup-v2.rst (io.pressure, io.stat), accounting/psi.rst. Any user may
read them. io.pressure needs no controller; io.stat exists where the controller 'io' is enabled
(systemd: IOAccounting=). Read only on request: a host may have thousands of groups.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import AbsentError, ParseError, parse_count
from iowarden.collectors.procfs.pressure import parse_pressure
from iowarden.collectors.procfs.process_io import unit_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.machine import Machine

ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
"""Where systemd mounts version 2; the second one next to version 1 (hybrid)."""
MAX_GROUPS = 1_000
MAX_DEPTH = 8
CONTROL_FILE = lazy_pattern(
    r"(cgroup|cpu|cpuset|debug|dmem|hugetlb|io|irq|memory|misc|pids|rdma)\.", re.ASCII
)
"""Systemd gives a unit of such a name a '_' in front (cg_escape)."""


@dataclass(frozen=True, slots=True)
class CgroupIo:
    """A control group without further ones in it.

    Units: shares of the last 10 s, 0 to 1, in which some or all of its tasks with work waited for
    I/O; bytes since it was made. None: not accounted. The bytes are those of the device with most
    of them: a volume and the disk below it count the same ones.
    """

    path: str
    unit: str
    some_ratio: float | None
    full_ratio: float | None
    read_bytes: int | None
    write_bytes: int | None


def read_cgroups(root: Machine) -> tuple[list[CgroupIo], bool]:
    """Return the control groups of all units, and whether there are more than `MAX_GROUPS`.

    These are not read; one that vanishes is left out.

    Errors: AbsentError (version 2 is not mounted, or no group has 'io.pressure'), ParseError.
    """
    tops = (each for each in ROOTS if root.try_read(f"{each}/cgroup.controllers") is not None)
    top = next(tops, "")
    if not top:
        raise AbsentError(f"'{ROOTS[0]}/cgroup.controllers': cgroup version 2 is not mounted")
    found: list[CgroupIo] = []
    for path in _leaves(root, top, MAX_DEPTH):
        unit = unit_of(f"0::{path.removeprefix(top)}")
        pressure = root.try_read(f"{path}/io.pressure")
        if pressure is None or not unit:
            continue
        if len(found) == MAX_GROUPS:
            return found, True
        waits = parse_pressure(pressure, f"{path}/io.pressure")
        read_bytes, write_bytes = _bytes(root.try_read(f"{path}/io.stat"), path)
        found.append(
            CgroupIo(
                path.removeprefix(top),
                unit,
                waits.some_avg10_ratio,
                waits.full_avg10_ratio,
                read_bytes,
                write_bytes,
            )
        )
    if not found:
        raise AbsentError(f"'{top}': no control group has 'io.pressure'; 'psi=1' may enable it")
    return found, False


def _leaves(root: Machine, path: str, depth: int) -> Iterator[str]:
    """Yield the control groups below a path that contain no others."""
    names = root.try_names(path)
    if names is None:  # a file, or a group that vanished
        return
    inner = False
    for name in names if depth else ():
        if not CONTROL_FILE.match(name):
            for found in _leaves(root, f"{path}/{name}", depth - 1):
                inner = True
                yield found
    if not inner:
        yield path


def _bytes(text: str | None, path: str) -> tuple[int | None, int | None]:
    """Return the bytes read and written of the device with most of each in 'io.stat'."""
    if text is None:
        return None, None
    most = {"rbytes": 0, "wbytes": 0}
    for line in text.splitlines():
        for word in line.split()[1:]:
            key, _, number = word.partition("=")
            if key in most:
                try:
                    most[key] = max(most[key], parse_count(number))
                except ValueError:
                    raise ParseError(
                        f"'{path}/io.stat': expected 'rbytes=<n> wbytes=<n>', got {line[:80]!r}"
                    ) from None
    return most["rbytes"], most["wbytes"]
