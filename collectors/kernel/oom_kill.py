"""Programs that the kernel killed for lack of memory: of the host, or of a control group.

Source: kernel, mm/oom_kill.c and mm/memcontrol.c, Linux 2.6.11 to 6.x. One report has many lines;
these have what matters:
    Task in GROUP killed as a result of limit of GROUP         to 4.20
    Memory limit reached of cgroup GROUP                       where no task is the cause
    memory: usage 1kB, limit 1kB, failcnt 1                    of the group; likewise
        'memory+swap' and 'kmem' (version 1) and 'swap' (version 2)
    oom-kill:constraint=...,oom_memcg=GROUP,...,pid=1,uid=0    from 5.0 on
    MESSAGE: Kill process 1 (name) score 1 or sacrifice child  2.6.24 to 5.0: it, or a child of it
    Killed process 1 (name) total-vm:...                       of these: who it was
    MESSAGE: Killed process 1 (name) total-vm:...              to 2.6.23, and from 5.1 on
    Tasks in GROUP are going to be killed due to memory.oom.group set
MESSAGE is 'Out of memory', 'Memory cgroup out of memory', or 'No available memory' (NUMA).
*Limits:* of many kills the kernel prints the group of ten in 5 s; of others it is unknown.
Linux 4.5 to 4.20 prints the lines of version 1 for groups of version 2, too.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from iowarden.collectors.lazy_pattern import lazy_pattern

KINDS = (HOST_KILL, GROUP_KILL) = ("oom_kill", "oom_kill_group")
COUNTED = "vmstat"
"""Data source of kills that only the kernel's counter shows."""
LEADS = ("Out", "Memory", "No", "Killed", "Task", "Tasks", "memory", "swap", "kmem", "oom")
REPORT_SECONDS = 30.0
"""Between the lines of one report: all tasks are listed, which takes long over a serial line."""
MAX_PATH = 512
_UNLIMITED_KILOBYTES = 1 << 50
"""Without a limit the kernel prints 9007199254740988kB or more."""
_PLACE = "control group "
_AT_LIMIT = lazy_pattern(
    rf"{_PLACE}(?P<group>/.*?)(?: at (?P<file>memory\.\w[\w.]*) of (?P<kilobytes>\d{{1,18}}) kB)?"
)
_MEMORY = "memory.max"
_MEMORY_V1, _WITH_SWAP_V1 = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
_MESSAGE = lazy_pattern(
    r"(?P<message>Out of [Mm]emory|Memory cgroup out of memory|No available memory)"
    r"(?: \(\w+\)| in cpuset)?: (?P<verb>[Kk]ill(?:ed)?) process"
    r" (?P<program>\d{1,10} \(.{1,64}?\))(?: total-vm:| score |\.?$)",
    re.ASCII,
)
_VICTIM = lazy_pattern(
    # 'UID 679,' is in the kernel of RHEL 6.
    r"Killed process (?P<pid>\d{1,10})(?:, UID \d{1,10},)? (?P<name>\(.{1,64}?\))"
    r"(?: total-vm:|, UID |,? vsz:|\.?$)",
    re.ASCII,
)
_GROUP = lazy_pattern(
    r"(?:Task in .* killed as a result of limit of|Memory limit reached of cgroup) (?P<group>/.*)"
)
_USAGE = lazy_pattern(
    r"(?P<name>memory|memory\+swap|swap|kmem): usage (?P<usage>\d{1,18})kB,"
    r" limit (?P<limit>\d{1,18})kB, failcnt \d",
    re.ASCII,
)
_CHOSEN = lazy_pattern(
    r"oom-kill:constraint=\w+,.*?(?:,oom_memcg=(?P<group>/.*)|,global_oom),task_memcg=.*"
    r",pid=(?P<pid>\d{1,10}),uid=\d"
)
_WHOLE_GROUP = lazy_pattern(r"Tasks in .* are going to be killed due to memory\.oom\.group set")


class GroupAtLimit(NamedTuple):
    """A control group in which the kernel killed a program, and its limit.

    `group` is its path below the mount of its hierarchy; `file` is the name of its limit's file and
    `limit_bytes` the limit; '' and 0: the log does not show it.
    """

    group: str
    file: str = ""
    limit_bytes: int = 0

    def contains(self, group: str) -> bool:
        """Whether another control group is this one, or below it."""
        return f"{group}/".startswith(f"{self.group.rstrip('/')}/")


class OomReport(NamedTuple):
    """What the lines of a report have shown so far; begin with OomReport()."""

    group: str = ""
    """Path of the control group whose limit is reached; '' if it is none, or not known."""
    file: str = ""
    """Name of the limit's file; '' where it is not known which version the group is of."""
    limit_kilobytes: int = 0
    free_kilobytes: int = 0
    """How much less than its limit of memory the group uses."""
    pid: str = ""
    """The process that was chosen; '' where the report does not have it."""
    is_of_group: bool = False
    """Whether a line reported that a control group has no memory left."""
    kills_all: bool = False
    """Whether all processes of a group are killed."""
    is_over: bool = False
    """Whether its kill was returned already."""
    last_seconds: float | None = None

    @property
    def place(self) -> str:
        """The control group and its limit, as the place of an event; '' if it is not known."""
        group = self.group[:MAX_PATH]
        if not (self.is_of_group and group):
            return ""
        if not group.isprintable():
            group = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in group)
        if not self.file or self.limit_kilobytes >= _UNLIMITED_KILOBYTES:
            return f"{_PLACE}{group}"
        return f"{_PLACE}{group} at {self.file} of {self.limit_kilobytes} kB"


class OomKill(NamedTuple):
    """A kill: `kind` of the event, `program` ('2481 (python3)') and `place` as in OomReport."""

    kind: str
    program: str
    place: str


def next_report(
    report: OomReport, at: float | None, text: str
) -> tuple[OomReport, OomKill | None] | None:
    """Return the report after a line, and the kill in it; None: the line is of no report.

    `at` is the time of the line in seconds since boot, None: not known.
    """
    then = report.last_seconds
    if then is not None and at is not None and not 0 <= at - then <= REPORT_SECONDS:
        report = OomReport()
    report = report._replace(last_seconds=at)
    if (named := _MESSAGE.match(text)) is not None:
        return _with_message(report, named)
    if (victim := _VICTIM.match(text)) is not None:
        return _killed(report, f"{victim['pid']} {victim['name']}")
    after = _with_facts(report, text)
    return None if after is None else (after, None)


def group_at_limit(place: str) -> GroupAtLimit | None:
    """Return the control group that an event's place is; None: it is another place."""
    limit = _AT_LIMIT.fullmatch(place)
    if limit is None:
        return None
    return GroupAtLimit(limit["group"], limit["file"] or "", int(limit["kilobytes"] or 0) << 10)


def _with_facts(report: OomReport, text: str) -> OomReport | None:
    """Return the report after a line that leads to a kill; None: the line is none."""
    if (group := _GROUP.fullmatch(text)) is not None:
        return OomReport(group["group"], last_seconds=report.last_seconds)
    if (usage := _USAGE.match(text)) is not None:
        return _with_usage(report, usage)
    if (chosen := _CHOSEN.match(text)) is not None:
        report = _without_facts(report) if chosen["group"] is None else report
        return report._replace(
            group=chosen["group"] or "", pid=chosen["pid"], is_over=False, kills_all=False
        )
    if _WHOLE_GROUP.match(text) is not None:
        return report._replace(is_over=False, kills_all=True)
    return None


def _without_facts(report: OomReport) -> OomReport:
    return OomReport(last_seconds=report.last_seconds)


def _with_usage(report: OomReport, found: re.Match[str]) -> OomReport:
    """Return the report with a line about what its group uses; the first begins a new one."""
    name, usage, limit = found["name"], int(found["usage"]), int(found["limit"])
    if name == "memory":
        if report.is_over or report.pid or report.limit_kilobytes:
            report = _without_facts(report)
        return report._replace(limit_kilobytes=limit, free_kilobytes=max(limit - usage, 0))
    if name == "memory+swap" and limit - usage < report.free_kilobytes:
        return report._replace(file=_WITH_SWAP_V1, limit_kilobytes=limit)
    return report._replace(file=report.file or (_MEMORY if name == "swap" else _MEMORY_V1))


def _with_message(report: OomReport, found: re.Match[str]) -> tuple[OomReport, OomKill | None]:
    is_other = report.pid and found["program"].partition(" ")[0] != report.pid
    if (report.is_over or is_other) and not report.kills_all:
        report = _without_facts(report)
    report = report._replace(is_of_group=found["message"].startswith("Memory"))
    # 'Kill process': the next line has who was killed, which may be a child of this one.
    return _killed(report, found["program"]) if found["verb"] == "Killed" else (report, None)


def _killed(report: OomReport, program: str) -> tuple[OomReport, OomKill]:
    kind = GROUP_KILL if report.is_of_group else HOST_KILL
    return report._replace(is_over=not report.kills_all), OomKill(kind, program, report.place)
