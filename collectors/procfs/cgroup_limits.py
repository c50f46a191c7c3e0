"""Limits of control groups that make their tasks wait for storage: io.max and its kin.

Source: kernel, admin-guide/cgroup-v2.rst (io.max, io.latency, memory.high, memory.max and their
kin) and admin-guide/cgroup-v1/blkio-controller.rst (blkio.throttle.*), memory.rst
(memory.limit_in_bytes, memory.memsw.limit_in_bytes). Any user may read them. At a hard limit of
memory the group's own pages are swapped out and read again, whatever the host has left.
A limit of a slice holds for what is in it; but blkio.throttle only for tasks of that very group,
also of the root (block/blk-throttle.c, throtl_pd_init). Whether a group is at its limit:
cgroup_use.py. Read only of a task that waits: a host may have thousands of groups.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.model import ParseError
from iowarden.collectors.procfs.cgroup_io import ROOTS
from iowarden.collectors.procfs.pressure import parse_pressure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iowarden.collectors.machine import Machine

_V1_ROOT = "/sys/fs/cgroup"
_OF_V1 = frozenset({"blkio", "memory"})
V1_MEMORY, V1_WITH_SWAP = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
_V1_UNLIMITED = 1 << 60
"""No limit is PAGE_COUNTER_MAX pages. Source: kernel, linux/page_counter.h."""
LATENCY = "io.latency"
_RATES = "io.max"
_V1_RATES = {
    f"blkio.throttle.{operation}_{unit}_device": f"{operation[0]}{unit}"
    for operation in ("read", "write")
    for unit in ("bps", "iops")
}
"""By file of version 1, the name that version 2 has for its rate."""
_NO_LIMIT = "max"
MEMORY, MEMORY_MAX = "memory.high", "memory.max"
SWAP, SWAP_MAX = "memory.swap.high", "memory.swap.max"
MAX_DEPTH = 16
"""The innermost groups of a deeper one: programs of a container in a container are in ten."""
MAX_SIBLINGS = 256
"""So many sibling groups are read for their io.latency."""
FULL_RATIO = 0.9
"""A group that uses so much of its limit of memory is at it: less is reclaimed at once."""


class GroupLimit(NamedTuple):
    """A limit that holds for a task, with the value as its file has it.

    `value` is 'rbps=1048576', 'target=75000' (microseconds), a number of bytes or of requests.
    """

    file: str
    """'/sys/fs/cgroup/system.slice/web.service/io.max'."""
    device: str
    """'8:16'; '' for memory."""
    value: str
    reached: frozenset[str] | None = None
    """The names of those of its `rates` that its group is at, of memory its file's; None: what the
    group did is not known."""

    @property
    def group(self) -> str:
        """The path of its control group, below the mount of its hierarchy."""
        path, _, name = self.file.removeprefix(ROOTS[0]).rpartition("/")
        is_below = name.startswith(("blkio.", V1_MEMORY, V1_WITH_SWAP)) or self.file.startswith(
            f"{ROOTS[1]}/"
        )
        return f"/{path.partition('/')[2].partition('/')[2]}" if is_below else path

    @property
    def directory(self) -> str:
        """The directory of its control group."""
        return self.file.rpartition("/")[0]

    @property
    def rates(self) -> dict[str, int]:
        """What it permits a second: bytes by 'rbps' and 'wbps', requests by 'riops' and 'wiops'."""
        of_file = _V1_RATES.get(self.file.rpartition("/")[2])
        words = self.value.split() if of_file is None else (f"{of_file}={self.value}",)
        pairs = (word.partition("=") for word in words)
        return {name: int(number) for name, _, number in pairs if number.isdecimal()}


def relevant_groups(text: str) -> tuple[str, ...]:
    """Return the lines of '/proc/PID/cgroup' with hierarchies that have such limits."""
    lines = []
    for line in text.splitlines():
        controllers = line.partition(":")[2].partition(":")[0]
        if not controllers or not _OF_V1.isdisjoint(controllers.split(",")):
            lines.append(line.removesuffix(" (deleted)"))
    return tuple(lines)


def read_limits(root: Machine, groups: Iterable[str]) -> tuple[GroupLimit, ...]:
    """Return the limits that hold for a task, the innermost group first.

    `groups` are lines as those of `relevant_groups`. A file that is absent or malformed is no
    limit.
    """
    limits: list[GroupLimit] = []
    for controllers, parts in _hierarchies(groups):
        top = f"{_V1_ROOT}/{','.join(controllers)}" if controllers else _top(root)
        if "memory" in controllers:
            for group in _and_above(top, parts):
                limits += _of_memory_v1(root, group)
        if "blkio" in controllers:
            limits += _by_device(root, "/".join((top, *parts)), _V1_RATES)
        elif not controllers:
            for group in _and_above(top, parts):
                limits += _by_device(root, group, (_RATES,))
                limits += _of_memory(root, group)
    return tuple(limits)


def has_unreadable_write_limits(root: Machine, groups: Iterable[str]) -> bool:
    """Return whether a limit of writes may hold for a task, in a file that cannot be read.

    Its group is not known, is outside of this control group namespace or is gone, or its file may
    not be read. A group that has no such file has no such limit. `groups` as above.
    """
    lines = tuple(groups)
    if len(list(_hierarchies(lines))) < max(len(lines), 1):
        return True
    return any(
        _is_unreadable(root, group, names)
        for controllers, parts in _hierarchies(lines)
        for group, names in _with_write_limits(root, controllers, parts)
    )


def _with_write_limits(
    root: Machine, controllers: list[str], parts: list[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the directories of groups that may have limits of writes, and what these are called."""
    if not controllers:
        for group in _and_above(_top(root), parts):
            yield group, (_RATES,)
    elif "blkio" in controllers:
        rates = tuple(name for name, rate in _V1_RATES.items() if rate.startswith("w"))
        yield "/".join((f"{_V1_ROOT}/{','.join(controllers)}", *parts)), rates


def _is_unreadable(root: Machine, group: str, names: tuple[str, ...]) -> bool:
    present = root.try_names(group)
    if present is None:
        return True
    return any(name in present and root.try_read(f"{group}/{name}") is None for name in names)


def read_latency_targets(root: Machine, groups: Iterable[str]) -> tuple[GroupLimit, ...]:
    """Return the targets for whose sake the kernel may delay a task: those of sibling groups.

    A group above its target makes siblings wait that have a longer one or none; so do groups higher
    up. Source: kernel, block/blk-iolatency.c (check_scale_change). `groups` as above.
    """
    targets: list[GroupLimit] = []
    for controllers, parts in _hierarchies(groups):
        for group in () if controllers else _and_above(_top(root), parts):
            parent, _, own_name = group.rpartition("/")
            own = {each.device: _target(each) for each in _by_device(root, group, (LATENCY,))}
            names = [name for name in root.try_names(parent) or () if name != own_name]
            for name in names[:MAX_SIBLINGS]:
                beside = _by_device(root, f"{parent}/{name}", (LATENCY,))
                targets += (
                    each for each in beside if _target(each) < own.get(each.device, math.inf)
                )
    return tuple(targets)


def _target(limit: GroupLimit) -> float:
    """Return a target of io.latency in microseconds."""
    number = limit.value.rpartition("=")[2]
    return int(number) if number.isdecimal() else math.inf


def _hierarchies(groups: Iterable[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the controllers of each line, none for version 2, and the parts of its path.

    A group outside of this control group namespace is not below our mount: it is left out.
    """
    for line in groups:
        controllers, _, path = line.partition(":")[2].partition(":")
        parts = [part for part in path.split("/") if part]
        if ".." not in parts:
            yield controllers.split(",") if controllers else [], parts


def _and_above(top: str, parts: list[str]) -> Iterator[str]:
    """Yield the directory of a group and those of the groups above it, without the root."""
    for depth in range(len(parts), max(len(parts) - MAX_DEPTH, 0), -1):
        yield "/".join((top, *parts[:depth]))


def read_full_pressure(root: Machine, groups: Iterable[str]) -> float | None:
    """Return the share of the last 10 s in which all programs of a group waited for its memory.

    Of the group of a task, or above it, that is at its limit of memory; of several the most. None:
    none is at one, or the kernel does not measure it. Source: kernel, admin-guide/cgroup-v2.rst
    (memory.pressure; version 1 has none). What other programs of the host do does not count.
    """
    ratios = [
        _full_ratio(root, f"{group}/memory.pressure")
        for controllers, parts in _hierarchies(groups)
        if not controllers
        for group in _and_above(_top(root), parts)
        if _is_at_memory_limit(root, group)
    ]
    return max((ratio for ratio in ratios if ratio is not None), default=None)


def _is_at_memory_limit(root: Machine, group: str) -> bool:
    limits = []
    for name in (MEMORY_MAX, MEMORY):
        text = (root.try_read(f"{group}/{name}") or _NO_LIMIT).strip()
        limits += [int(text)] if text.isdecimal() else []
    used = (root.try_read(f"{group}/memory.current") or "").strip()
    return bool(limits) and used.isdecimal() and int(used) >= FULL_RATIO * min(limits)


def _full_ratio(root: Machine, path: str) -> float | None:
    try:
        return parse_pressure(root.try_read(path) or "", path).full_avg10_ratio
    except ParseError:
        return None


def _of_memory_v1(root: Machine, group: str) -> Iterator[GroupLimit]:
    """Yield the limits at which a group of version 1 swaps its own pages."""
    for name in (V1_MEMORY, V1_WITH_SWAP):
        limit = (root.try_read(f"{group}/{name}") or "").strip()
        if limit.isdecimal() and int(limit) < _V1_UNLIMITED:
            yield GroupLimit(f"{group}/{name}", "", limit)


def _top(root: Machine) -> str:
    tops = (top for top in ROOTS if root.try_read(f"{top}/cgroup.controllers") is not None)
    return next(tops, ROOTS[0])


def _by_device(root: Machine, group: str, names: Iterable[str]) -> Iterator[GroupLimit]:
    """Yield the limits for a device, a line each, in these files of a group."""
    for name in names:
        for line in (root.try_read(f"{group}/{name}") or "").splitlines():
            device, _, values = line.partition(" ")
            limited = [word for word in values.split() if word.partition("=")[2] != _NO_LIMIT]
            if limited:
                yield GroupLimit(f"{group}/{name}", device, " ".join(limited))


def _of_memory(root: Machine, group: str) -> Iterator[GroupLimit]:
    """Yield the limits above which the kernel delays the programs of a group, or swaps for them."""
    for name in (MEMORY, MEMORY_MAX, SWAP, SWAP_MAX):
        high = (root.try_read(f"{group}/{name}") or _NO_LIMIT).strip()
        if high != _NO_LIMIT:
            yield GroupLimit(f"{group}/{name}", "", high)
