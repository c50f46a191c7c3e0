"""Who waits, for what, how long, and because of whom: the sentences of a mail about a freeze. Pure.

Ages are lower bounds, so the text has 'at least'. Names of programs and files are the host's own
and are shown only where the configuration allows it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.procfs.cgroup_limits import LATENCY
from iowarden.collectors.procfs.process_io import unit_of
from iowarden.collectors.quantity import duration, lower_bound, percentage, size
from iowarden.rules.signals.storage_call import waits_for_lock
from iowarden.rules.signals.waits.freezes import (
    PROGRAM_WINDOW_SECONDS,
    REPEATED_SECONDS,
    program_ratio,
    rhythm,
)
from iowarden.rules.signals.waits.harm import followed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iowarden.collectors.procfs.cgroup_limits import GroupLimit
    from iowarden.collectors.procfs.process_io import ProcessIo
    from iowarden.collectors.procfs.tasks import BlockedTask
    from iowarden.rules.signals.waits.freezes import DeviceFreezes
    from iowarden.rules.signals.waits.harm import Cause, Harm, Victim
    from iowarden.rules.signals.waits.unrequested_reads import UnrequestedReads
    from iowarden.rules.signals.waits.waits import Wait

NOT_KNOWN = "Which programs wait: no poll of the blocked tasks has shown one with its call."
REASON = "Who waits is not known: "
"""What rules about devices and stalls write before the reason."""
MAX_PROGRAMS = 3
MIN_SHARE = 0.1
MIN_MEMORY_SHARE = 0.25
MIN_WRITTEN_BYTES = 1 << 20
"""Who wrote less since its start wrote nothing that others wait for."""
MAX_BOUNDS_SECONDS = 30.0
"""Of a longer wait the lower bound is enough."""
MIN_RHYTHM_TIMES = 3
_CALL = re.compile(r"(?:__(?:x64|ia32|arm64|riscv|s390x?|powerpc)_sys_|__do_sys_|ksys_)(\w+)")
"""Names of system calls in a stack. Source: kernel, arch/*/include/asm/syscall_wrapper.h."""
_CALL_OF_FUNCTION = {
    "do_fsync": "fsync",
    "vfs_fsync_range": "fsync",
    "vfs_write": "write",
    "vfs_read": "read",
    "new_sync_write": "write",
    "new_sync_read": "read",
    "do_sys_openat2": "open",
    "path_openat": "open",
    "do_unlinkat": "unlink",
    "do_renameat2": "rename",
    "filemap_fault": "a page fault",
    "handle_mm_fault": "a page fault",
}
"""Where the stack is cut off before its system call: the functions of which it is certain."""


@dataclass(frozen=True, slots=True)
class WaitingProgram:
    """Harmed tasks of one program in one unit.

    `call` is a system call ('fsync') or a kernel function ('in jbd2_log_wait_commit'), '' if not
    known; `file` and `device` are those of the longest wait; `seconds` it has lasted at least,
    `max_seconds` at most. `calls`: in how many different ones they are.
    """

    program: str
    unit: str
    pid: int
    tasks: int
    call: str
    file: str
    device: str
    seconds: float
    max_seconds: float
    calls: int = 1


def call_name(task: BlockedTask) -> str:
    """Return what a task waits in: 'fsync', 'a page fault', a kernel function, '' if not known."""
    if task.unanswered:
        return "execve"
    for function in task.stack:
        match = _CALL.match(function)
        if match is not None:
            return match[1]
    if task.system_call.startswith("-1 "):
        return "a page fault"
    for function in task.stack:
        if function in _CALL_OF_FUNCTION:
            return _CALL_OF_FUNCTION[function]
    return task.wait_channel or next(iter(task.stack), "")


def waiting_programs(victims: Iterable[Victim]) -> list[WaitingProgram]:
    """Return the harmed programs, the longest wait first."""
    return _programs((v.wait.task, v.min_seconds, v.max_seconds) for v in victims)


def waiting_tasks(waits: Iterable[Wait]) -> list[WaitingProgram]:
    """Return all programs that wait for storage, harmed or not, the longest wait first."""
    return _programs((wait.task, wait.min_seconds, wait.max_seconds) for wait in waits)


def _programs(waits: Iterable[tuple[BlockedTask, float, float]]) -> list[WaitingProgram]:
    by_program: dict[tuple[str, str], list[tuple[BlockedTask, float, float]]] = {}
    for wait in waits:
        by_program.setdefault((wait[0].command, wait[0].unit), []).append(wait)
    programs = []
    for (command, unit), of_program in by_program.items():
        task, seconds, max_seconds = max(of_program, key=lambda wait: wait[1])
        programs.append(
            WaitingProgram(
                program=command,
                unit=unit,
                pid=task.process or task.pid,
                tasks=len(of_program),
                call=call_name(task),
                file=task.file if task.file.startswith("/") else "",
                device=task.waits_at,
                seconds=seconds,
                max_seconds=max_seconds,
                calls=len({call_name(one) for one, _, _ in of_program}),
            )
        )
    return sorted(programs, key=lambda program: (-program.seconds, program.pid))


def sentences(harm: Harm, ago_seconds: float, max_ago_seconds: float = 5.0) -> list[str]:
    """Return who waits and because of whom; `ago_seconds`: how old the poll is."""
    victims = followed(harm.victims)
    programs = waiting_programs(victims)
    if not programs:
        return []
    named = [_waits(program) for program in programs[:MAX_PROGRAMS]]
    others = sum(program.tasks for program in programs[MAX_PROGRAMS:])
    if others:
        named.append("1 more task" if others == 1 else f"{others} more tasks")
    when = f" ({duration(ago_seconds)} before this mail)" if ago_seconds > max_ago_seconds else ""
    return [f"who waits: {'; '.join(named)}{when}", *_because(harm)]


def _waits(program: WaitingProgram) -> str:
    details = ", ".join(filter(None, (program.unit, f"pid {program.pid}")))
    tasks = f"{program.tasks} tasks of " if program.tasks > 1 else ""
    call = f" in {program.call}" if program.call else ""
    file = f" of {program.file}" if program.file else ""
    lasted = _lasted(program.seconds, program.max_seconds)
    if program.calls > 1:
        of_unit = f" ({program.unit})" if program.unit else ""
        one = f"pid {program.pid} among them{call}{file}{lasted}"
        return f"{tasks}{program.program}{of_unit} in {program.calls} different calls, {one}"
    return f"{tasks}{program.program} ({details}){call}{file}{lasted}"


def _lasted(seconds: float, max_seconds: float) -> str:
    """Return how long a wait has lasted, as far as it is known; '' if one poll alone saw it.

    Thresholds compare the upper bound: a short wait has both.
    """
    if not lower_bound(seconds):
        return ""
    if seconds < MAX_BOUNDS_SECONDS and max_seconds >= seconds + 1.0:
        return f", for {duration(seconds)} to {duration(max_seconds)}"
    return f", for at least {duration(seconds)}"


def _because(harm: Harm) -> list[str]:
    """Return the sentence about who moves the bytes, or holds the lock; none for a device."""
    if harm.blames_device:
        return []
    if harm.discarding:
        return [f"because of: {causes_text((), harm.discarding)}"]
    tasks = [victim.wait.task for victim in harm.victims]
    holders = _holders(harm)
    if all(waits_for_lock(victim.wait.task) for victim in followed(harm.victims)):
        if holders:
            return [_holders_text(holders)]
        if not harm.is_certain:  # bytes since a program's start do not show a lock
            return ["because of whom: not known, no poll saw who holds their lock"]
    victims = {task.process or task.pid for task in tasks}
    causes = [c for c in harm.causes if c.threads is not None or c.pid not in victims]
    causes = causes or list(harm.units)
    if causes:
        probably = "" if harm.is_certain else "probably "
        return [f"{probably}because of: {causes_text(causes)}"]
    if holders:
        return [_holders_text(holders)]
    return [f"because of whom: {_without_cause(harm)}"]


def _without_cause(harm: Harm) -> str:
    """Return why no program is named, with who wrote most where no share can be taken."""
    tasks = [victim.wait.task for victim in (*harm.victims, *harm.evidence)]
    if not harm.is_certain and all(task.write_bytes is None for task in tasks):
        return "not known, because /proc/PID/io of the programs cannot be read"
    if not harm.is_certain:
        before = "what programs read and wrote was not read before they were blocked"
        return f"not known, because {before}{_largest_writer(tasks)}"
    if not harm.is_share_known:
        return f"not known, because hardly a byte reaches a disk{_largest_writer(tasks)}"
    return "no single program wrote or read a quarter of what the disk did"


def _largest_writer(tasks: Iterable[BlockedTask]) -> str:
    """Return which of the waiting programs wrote most, '' if none wrote noticeably."""
    largest = max(tasks, key=lambda task: task.write_bytes or 0)
    if (largest.write_bytes or 0) < MIN_WRITTEN_BYTES:
        return ""
    details = ", ".join(filter(None, (largest.unit, f"pid {largest.process or largest.pid}")))
    wrote = size(largest.write_bytes or 0)
    return f"; of those that wait {largest.command} ({details}) wrote most, {wrote} since its start"


def _holders(harm: Harm) -> list[BlockedTask]:
    """Return the tasks that wait for the disk itself: one of them holds what others wait for."""
    tasks = [victim.wait.task for victim in (*harm.victims, *harm.evidence)]
    holders = [task for task in tasks if not waits_for_lock(task)]
    return holders if len(holders) < len(tasks) else []


def _holders_text(holders: Iterable[BlockedTask]) -> str:
    """Return who may hold the lock that others wait for: a reader moves few bytes with it."""
    names = {f"{task.command} (pid {task.process or task.pid})" for task in holders}
    named = "; ".join(sorted(names)[:MAX_PROGRAMS])
    return f"because of: {named}, which waits for the disk itself and may hold their lock"


def causes_text(causes: Iterable[Cause], discarding: Sequence[BlockedTask] = ()) -> str:
    """Return who discards, else who moves the bytes, at most three, '' if no single program does.

    One that moves a small part of what another moves explains nothing.
    """
    if discarding:
        who = [f"{task.command} (pid {task.process or task.pid})" for task in discarding]
        return f"{'; '.join(who[:MAX_PROGRAMS])}, which discards"
    named = list(causes)
    most = max((cause.moved_bytes for cause in named), default=0)
    large = [cause for cause in named if cause.moved_bytes >= MIN_SHARE * most]
    return "; ".join(_moved(cause) for cause in large[:MAX_PROGRAMS])


def because_text(harm: Harm) -> str:
    """Return who discards, who moves the bytes, else which units; '' for a faulty device."""
    causes = () if harm.blames_device else harm.causes or harm.units
    return causes_text(causes, harm.discarding)


def _moved(cause: Cause) -> str:
    did = "wrote" if cause.writes else "read"
    if not cause.command:
        return f"the load of {cause.unit}, which {did} {size(cause.moved_bytes)}"
    details = ", ".join(filter(None, (cause.unit, f"pid {cause.pid}")))
    return f"{cause.command} ({details}), which {did} {size(cause.moved_bytes)}"


def memory_sentence(processes: Iterable[ProcessIo]) -> str:
    """Return which programs have most memory, at most three, '' if it is not known.

    One that has a small part of what another has is not what memory is short for.
    """
    sizes = {process: process.resident_bytes or 0 for process in processes}
    largest = sorted(sizes, key=lambda process: (-sizes[process], process.pid))[:MAX_PROGRAMS]
    named = [
        f"{process.command} ({details}), {size(sizes[process])}"
        for process in largest
        if sizes[process] > MIN_MEMORY_SHARE * sizes[largest[0]]
        if (details := ", ".join(filter(None, (process.unit, f"pid {process.pid}"))))
    ]
    return f"most in memory: {'; '.join(named)}" if named else ""


def limit_sentences(limits: Iterable[GroupLimit]) -> list[str]:
    """Return which limits of control groups make programs wait: unit, value and file."""
    lines = []
    for limit in limits:
        unit = unit_of(f"0::{limit.group}") or "their control group"
        device = f" for device {limit.device}" if limit.device else ""
        kind = "target" if limit.file.endswith(LATENCY) else "limit"
        lines.append(f"{kind} of {unit}: '{limit.value}'{device} in {limit.file}")
    return lines


def rhythm_sentence(freezes: DeviceFreezes, now: float, date: Callable[[float], str]) -> str:
    """Return how freezes repeat, '' for fewer than three.

    Polls 2 s apart miss many of the short ones: no period and no share follows from the others.
    """
    series = freezes.series
    if series is None or series.times < MIN_RHYTHM_TIMES:
        return ""
    repeats = rhythm(series, now)
    times = f"{repeats.times} times since {date(repeats.since_seconds)}"
    length, share = duration(repeats.length_seconds), percentage(repeats.ratio)
    if repeats.length_seconds >= REPEATED_SECONDS:
        period = duration(repeats.period_seconds)
        return f"rhythm: {times}, each {period} for about {length}; {share} of the time"
    window = duration(PROGRAM_WINDOW_SECONDS)
    most = max((program_ratio(each, now) for each in freezes.programs.values()), default=0.0)
    blocked = f"; a program was blocked for {percentage(most)} of the last {window}" if most else ""
    return f"rhythm: at least {times}, for up to {length} each{blocked}"


def unrequested_sentence(reads: UnrequestedReads) -> str:
    """Return which programs make a device read though they hardly request a read."""
    parts = []
    for program in reads.programs:
        details = ", ".join(filter(None, (program.unit, f"pid {program.pid}")))
        parts.append(
            f"{program.program} ({details}) wrote {size(program.written_bytes)}, requested"
            f" {size(program.requested_bytes)} and caused reads of {size(program.read_bytes)}"
        )
    return f"who causes the reads: {'; '.join(parts)}" if parts else ""
