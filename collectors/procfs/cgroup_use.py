"""Whether a control group is at a limit of its I/O or memory, by what it did lately.

A limit alone delays no program: its group has to be at it. Source: kernel,
admin-guide/cgroup-v2.rst (io.stat, memory.current), admin-guide/cgroup-v1/blkio-controller.rst
(blkio.throttle.io_service_bytes, io_serviced), memory.rst (memory.usage_in_bytes). A request counts
when it is passed on to the device, not while it is throttled (block/blk-throttle.c). Units: bytes,
requests; seconds since boot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.procfs.cgroup_limits import (
    FULL_RATIO,
    MEMORY,
    MEMORY_MAX,
    SWAP,
    SWAP_MAX,
    V1_MEMORY,
    V1_WITH_SWAP,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.procfs.cgroup_limits import GroupLimit

AT_LIMIT_RATIO = 0.9
"""A group that does so much of what it may is at its limit: the kernel lets it through in slices of
100 ms (block/blk-throttle.c, DFL_THROTL_SLICE), and over some seconds that is all it may."""
MIN_SECONDS, WINDOW_SECONDS, MAX_WINDOW_SECONDS = 4.0, 10.0, 60.0
"""Over so long at least; usually; and while a few of its requests take longer. Where polls fail it
is the time between two of them."""
LARGEST = {"rbps": 1 << 20, "wbps": 1 << 20, "riops": 1, "wiops": 1}
"""What one request may count at once: 256 pages (kernel, linux/bio.h, BIO_MAX_VECS)."""
WINDOW_REQUESTS = 4
_V2_COUNTERS = {"rbytes": "rbps", "wbytes": "wbps", "rios": "riops", "wios": "wiops"}
_V1_COUNTERS = {
    "blkio.throttle.io_service_bytes": {"Read": "rbps", "Write": "wbps"},
    "blkio.throttle.io_serviced": {"Read": "riops", "Write": "wiops"},
}
_MEMORY_USED = {
    **dict.fromkeys((MEMORY, MEMORY_MAX), "memory.current"),
    **dict.fromkeys((SWAP, SWAP_MAX), "memory.swap.current"),
    V1_MEMORY: "memory.usage_in_bytes",
    V1_WITH_SWAP: "memory.memsw.usage_in_bytes",
}


class Use(NamedTuple):
    """What a group had done on a device by a moment, by the name of its rate; None: not known."""

    at_seconds: float
    counters: Mapping[str, int] | None


Uses = tuple[Use, ...]
"""Of one limit, the oldest first."""


def next_uses(uses: Uses, newest: Use) -> Uses:
    """Return the uses with one more, as far back as is needed."""
    if uses and uses[-1].at_seconds >= newest.at_seconds:  # a recording returns one until the next
        return uses
    oldest = newest.at_seconds - MAX_WINDOW_SECONDS
    return (*(use for use in uses if use.at_seconds >= oldest), newest)


def read_counters(root: Machine, limit: GroupLimit) -> dict[str, int] | None:
    """Return what the group of a limit has done on its device, None if that cannot be read.

    A device without a line, or without a number, has done nothing for it.
    """
    counters: dict[str, int] = {}
    if "/blkio.throttle." in limit.file:
        for file, names in _V1_COUNTERS.items():
            text = root.try_read(f"{limit.directory}/{file}")
            if text is None:
                return None
            for words in (line.split() for line in text.splitlines()):
                if len(words) == 3 and words[0] == limit.device and words[1] in names:
                    counters[names[words[1]]] = _number(words[2])
        return counters
    text = root.try_read(f"{limit.directory}/io.stat")
    if text is None:
        return None
    for device, _, values in (line.partition(" ") for line in text.splitlines()):
        for name, _, number in (word.partition("=") for word in values.split()):
            if device == limit.device and name in _V2_COUNTERS:
                counters[_V2_COUNTERS[name]] = _number(number)
    return counters


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def reached_rates(limit: GroupLimit, uses: Uses) -> frozenset[str] | None:
    """Return the rates of a limit that its group is at; None: what it did is not known, or not yet.

    A group that has passed nothing on is at no limit.
    """
    last = uses[-1]
    if last.counters is None or last.at_seconds - uses[0].at_seconds < MIN_SECONDS:
        return None
    reached = set()
    for name, permitted in limit.rates.items():
        largest = LARGEST[name]
        wanted = WINDOW_REQUESTS * largest / permitted if permitted else MAX_WINDOW_SECONDS
        window = min(max(wanted, WINDOW_SECONDS), MAX_WINDOW_SECONDS)
        before = [use for use in uses if last.at_seconds - use.at_seconds >= window]
        first = before[-1] if before else uses[0]
        if first.counters is None:
            continue
        elapsed = last.at_seconds - first.at_seconds
        done = last.counters.get(name, 0) - first.counters.get(name, 0)
        if done > 0 and done + largest >= AT_LIMIT_RATIO * permitted * elapsed:
            reached.add(name)
    return frozenset(reached)


def reached_memory(root: Machine, limit: GroupLimit) -> frozenset[str] | None:
    """Return the name of the file of a limit of memory if its group is at it, None: not known."""
    name = limit.file.rpartition("/")[2]
    used = (root.try_read(f"{limit.directory}/{_MEMORY_USED[name]}") or "").strip()
    if not used.isdecimal() or not limit.value.isdecimal():
        return None
    return frozenset({name} if int(used) >= FULL_RATIO * int(limit.value) else ())
