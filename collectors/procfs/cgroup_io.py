"""I/O of control groups (version 2): how long their tasks wait, and how much they read and write.

Source: kernel, admin-guide/cgroup-v2.rst (io.pressure, io.stat), accounting/psi.rst. Any user may
read them. io.pressure needs no controller; io.stat exists where the controller 'io' is enabled
(systemd: IOAccounting=). Read only on request: a host may have thousands of groups.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import AbsentError, ParseError, parse_count
from iowarden.collectors.procfs.pressure import parse_pressure
from iowarden.collectors.procfs.process_io import unit_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.collectors.machine import Machine

ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
"""Where systemd mounts version 2; the second one next to version 1 (hybrid)."""
MAX_GROUPS = 1_000
MAX_DEPTH = 8
CONTROL_FILE = lazy_pattern(
    r"(cgroup|cpu|cpuset|debug|dmem|hugetlb|io|irq|memory|misc|pids|rdma)\.", re.ASCII
)
"""Systemd gives a unit of such a name a '_' in front (cg_escape)."""
_NUMBER = lazy_pattern(r"\d+:\d+", re.ASCII)


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
    by_disk: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Bytes read and written by device number ('8:16')."""


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
        by_disk = _bytes_by_disk(root.try_read(f"{path}/io.stat"), path)
        found.append(
            CgroupIo(
                path.removeprefix(top),
                unit,
                waits.some_avg10_ratio,
                waits.full_avg10_ratio,
                _largest(by_disk, 0),
                _largest(by_disk, 1),
                by_disk or {},
            )
        )
    if not found:
        raise AbsentError(f"'{top}': no control group has 'io.pressure'; 'psi=1' may enable it")
    return found, False


def read_disk_bytes(root: Machine) -> dict[str, tuple[int, int]]:
    """Return the bytes that all groups together read and wrote, by device number.

    Those of the root group, from 5.9 on; {} where it has none. Errors: ParseError.
    """
    texts = {top: root.try_read(f"{top}/io.stat") for top in ROOTS}
    top = next((top for top, text in texts.items() if text is not None), ROOTS[0])
    return _bytes_by_disk(texts[top], top) or {}


def _largest(by_disk: Mapping[str, tuple[int, int]] | None, index: int) -> int | None:
    if by_disk is None:
        return None
    return max((did[index] for did in by_disk.values()), default=0)


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


def _bytes_by_disk(text: str | None, path: str) -> dict[str, tuple[int, int]] | None:
    """Return the bytes read and written by device number, None: they are not accounted.

    A device without I/O of the group may have its number alone.
    """
    if text is None:
        return None
    found: dict[str, tuple[int, int]] = {}
    for line in text.splitlines():
        number = ""
        did = {"rbytes": 0, "wbytes": 0}
        for word in line.split():
            key, _, value = word.partition("=")
            if _NUMBER.fullmatch(word):
                number = word
            elif key in did:
                try:
                    did[key] = parse_count(value)
                except ValueError:
                    raise ParseError(
                        f"'{path}/io.stat': expected 'rbytes=<n> wbytes=<n>', got {line[:80]!r}"
                    ) from None
        found[number] = did["rbytes"], did["wbytes"]
    return found
