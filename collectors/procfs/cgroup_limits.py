"""Limits of control groups that make their tasks wait for storage: io.max and its kin.

Source: kernel, admin-guide/cgroup-v2.rst (io.max, io.latency, memory.high) and
admin-guide/cgroup-v1/blkio-controller.rst (blkio.throttle.*), memory.rst (memory.oom_control: where
the kernel must not kill, programs wait at memory.limit_in_bytes). Any user may read them.
A limit of a slice holds for what is in it; but blkio.throttle only for tasks of that very group,
also of the root (block/blk-throttle.c, throtl_pd_init). A target of io.latency delays others. Read
only of a task that waits: a host may have thousands of groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.model import ParseError
from iowarden.collectors.procfs.cgroup_io import MAX_DEPTH, ROOTS
from iowarden.collectors.procfs.pressure import parse_pressure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iowarden.collectors.machine import Machine

_V1_ROOT = "/sys/fs/cgroup"
_OF_V1 = frozenset({"blkio", "memory"})
_V1_MEMORY = "memory.limit_in_bytes"
_V1_UNLIMITED = 1 << 60
"""No limit is PAGE_COUNTER_MAX pages. Source: kernel, linux/page_counter.h."""
LATENCY = "io.latency"
_BY_DEVICE = ("io.max", LATENCY)
_V1_FILES = tuple(
    f"blkio.throttle.{operation}_{unit}_device"
    for operation in ("read", "write")
    for unit in ("bps", "iops")
)
_NO_LIMIT = "max"
MEMORY = "memory.high"
MAX_LIMITS = 8
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

    @property
    def group(self) -> str:
        """The path of its control group, below the mount of its hierarchy."""
        path, _, name = self.file.removeprefix(ROOTS[0]).rpartition("/")
        is_below = name.startswith(("blkio.", _V1_MEMORY)) or self.file.startswith(f"{ROOTS[1]}/")
        return f"/{path.partition('/')[2].partition('/')[2]}" if is_below else path

    @property
    def limits_reads(self) -> bool:
        """Whether it holds for reads, by its file or the words of its value; True: for both."""
        return self._is_of("r", "read_")

    @property
    def limits_writes(self) -> bool:
        """Whether it holds for writes."""
        return self._is_of("w", "write_")

    def _is_of(self, letter: str, word: str) -> bool:
        of_file = self.file.rpartition("/")[2].removeprefix("blkio.throttle.")
        if of_file.startswith(("read_", "write_")):
            return of_file.startswith(word)
        words = [name for name in self.value.split() if name[:1] in "rw"]
        return not words or any(name.startswith(letter) for name in words)


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
    for line in groups:
        controllers, _, path = line.partition(":")[2].partition(":")
        parts = [part for part in path.split("/") if part]
        if ".." in parts:  # outside of this control group namespace: not below our mount
            continue
        top = f"{_V1_ROOT}/{controllers}" if controllers else _top(root)
        groups_above = [
            "/".join((top, *parts[:depth])) for depth in range(min(len(parts), MAX_DEPTH), 0, -1)
        ]
        if "memory" in controllers.split(","):
            limits += (found for group in groups_above for found in _without_kill(root, group))
        if "blkio" in controllers.split(","):
            limits += _of_group(root, "/".join((top, *parts)), is_v1=True)
        elif not controllers:
            limits += (
                found for each in groups_above for found in _of_group(root, each, is_v1=False)
            )
    return tuple(limits[:MAX_LIMITS])


def read_full_pressure(root: Machine, groups: Iterable[str]) -> float | None:
    """Return the share of the last 10 s in which all programs of a group waited for its memory.

    Of the group of a task, or above it, that is at its limit of memory; of several the most. None:
    none is at one, or the kernel does not measure it. Source: kernel, admin-guide/cgroup-v2.rst
    (memory.pressure; version 1 has none). What other programs of the host do does not count.
    """
    ratios = []
    for line in groups:
        controllers, _, path = line.partition(":")[2].partition(":")
        parts = [part for part in path.split("/") if part]
        if controllers or ".." in parts:
            continue
        top = _top(root)
        for depth in range(min(len(parts), MAX_DEPTH), 0, -1):
            group = "/".join((top, *parts[:depth]))
            if _is_at_memory_limit(root, group):
                ratios.append(_full_ratio(root, f"{group}/memory.pressure"))
    return max((ratio for ratio in ratios if ratio is not None), default=None)


def _is_at_memory_limit(root: Machine, group: str) -> bool:
    limits = []
    for name in ("memory.max", MEMORY):
        text = (root.try_read(f"{group}/{name}") or _NO_LIMIT).strip()
        limits += [int(text)] if text.isdecimal() else []
    used = (root.try_read(f"{group}/memory.current") or "").strip()
    return bool(limits) and used.isdecimal() and int(used) >= FULL_RATIO * min(limits)


def _full_ratio(root: Machine, path: str) -> float | None:
    try:
        return parse_pressure(root.try_read(path) or "", path).full_avg10_ratio
    except ParseError:
        return None


def _without_kill(root: Machine, group: str) -> Iterator[GroupLimit]:
    """Yield the limit of memory at which programs of version 1 wait, and none is killed."""
    if "oom_kill_disable 1\n" in (root.try_read(f"{group}/memory.oom_control") or ""):
        limit = (root.try_read(f"{group}/{_V1_MEMORY}") or "").strip()
        if limit.isdecimal() and int(limit) < _V1_UNLIMITED:
            yield GroupLimit(f"{group}/{_V1_MEMORY}", "", limit)


def _top(root: Machine) -> str:
    tops = (top for top in ROOTS if root.try_read(f"{top}/cgroup.controllers") is not None)
    return next(tops, ROOTS[0])


def _of_group(root: Machine, group: str, *, is_v1: bool) -> Iterator[GroupLimit]:
    for name in _V1_FILES if is_v1 else _BY_DEVICE:
        for line in (root.try_read(f"{group}/{name}") or "").splitlines():
            device, _, values = line.partition(" ")
            limited = [word for word in values.split() if word.partition("=")[2] != _NO_LIMIT]
            if limited:
                yield GroupLimit(f"{group}/{name}", device, " ".join(limited))
    if not is_v1:
        high = (root.try_read(f"{group}/{MEMORY}") or _NO_LIMIT).strip()
        if high != _NO_LIMIT:
            yield GroupLimit(f"{group}/{MEMORY}", "", high)
