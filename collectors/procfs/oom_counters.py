"""Programs that the kernel killed for lack of memory, by the counters of their control groups.

Source: kernel, mm/oom_kill.c (__oom_kill_process counts a kill before it prints a line about it)
and admin-guide/cgroup-v2.rst (memory.events). There 'oom_kill' is of the group of the program, and
'oom' of the group at its limit; both also count in all groups above, where they remain when the
group is gone. Any user may read them.
*Limits:* version 1, and version 2 mounted with 'memory_localevents', do not count in the groups
above: of these no group is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.procfs.cgroup_io import CONTROL_FILE, MAX_DEPTH, MAX_GROUPS, ROOTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.collectors.machine import Machine

BOOT_ID = "/proc/sys/kernel/random/boot_id"


class GroupKills(NamedTuple):
    """Kills in a control group since it was made.

    `killed` programs were of it, or of a group below; `at_limit`: how often one of these was at its
    limit. `limit_bytes` is its memory.max, None without one.
    """

    killed: int
    at_limit: int
    limit_bytes: int | None


class OomKills(NamedTuple):
    """Where the kernel killed programs since the boot `boot_id`.

    `groups` are by their path below the mount: those with a kill, at most `MAX_GROUPS`.
    """

    boot_id: str
    groups: Mapping[str, GroupKills]


def read_oom_kills(root: Machine) -> OomKills:
    """Return the kills of this boot. A file that is absent or malformed counts none."""
    boot_id = (root.try_read(BOOT_ID) or "").strip()
    tops = (each for each in ROOTS if root.try_read(f"{each}/cgroup.controllers") is not None)
    top = next(tops, "")
    groups: dict[str, GroupKills] = {}
    for path, kills in _below(root, top, MAX_DEPTH) if top else ():
        groups[path.removeprefix(top)] = kills
        if len(groups) == MAX_GROUPS:
            break
    return OomKills(boot_id, groups)


def _below(root: Machine, path: str, depth: int) -> Iterator[tuple[str, GroupKills]]:
    """Yield the control groups below a path in which a program was killed."""
    for name in (root.try_names(path) or ()) if depth else ():
        group = f"{path}/{name}"
        text = None if CONTROL_FILE.match(name) else root.try_read(f"{group}/memory.events")
        counts = dict(line.split(" ", 1) for line in (text or "").splitlines() if " " in line)
        if killed := _count(counts.get("oom_kill")):
            limit = _count(root.try_read(f"{group}/memory.max"))
            yield group, GroupKills(killed, _count(counts.get("oom")) or 0, limit)
            yield from _below(root, group, depth - 1)


def _count(text: str | None) -> int | None:
    number = (text or "").strip()
    return int(number) if number.isdecimal() and len(number) <= 20 else None
