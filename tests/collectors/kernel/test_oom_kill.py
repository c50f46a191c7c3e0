"""Reports of the kernel about a lack of memory, in the forms of its versions."""

from __future__ import annotations

from itertools import product

import pytest

from iowarden.collectors.kernel.oom_kill import OomKill, OomReport, group_at_limit, next_report

GROUP = "/system.slice/shop.service"
SIZES = "total-vm:8123400kB, anon-rss:798120kB, file-rss:0kB"
USAGE = "memory: usage 204796kB, limit 204800kB, failcnt 4563"


def kills(*lines: str, step_seconds: float = 0.001) -> list[OomKill]:
    """Return the kills in these lines, printed at such intervals."""
    report, found = OomReport(), []
    for number, line in enumerate(lines):
        taken = next_report(report, 100 + number * step_seconds, line)
        if taken is not None:
            report, kill = taken
            found += [] if kill is None else [kill]
    return found


CHOSEN = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0-1,"
    f"oom_memcg={GROUP},task_memcg={GROUP}/worker,task=a,b,pid=7,uid=33"
)
BEGINNINGS = {
    "3.10": (f"Task in {GROUP}/worker killed as a result of limit of {GROUP}", USAGE),
    "no task": (f"Memory limit reached of cgroup {GROUP}", USAGE),
    "5.0": (USAGE, f"Memory cgroup stats for {GROUP}:", CHOSEN),
}
ENDINGS = {
    "2.6.25": (
        "Memory cgroup out of memory: kill process 7 (a,b) score 905 or a child",
        "Killed process 7 (a,b)",
    ),
    "RHEL 6": (
        "Memory cgroup out of memory: Kill process 7 (a,b) score 905 or sacrifice child",
        f"Killed process 7, UID 33, (a,b) {SIZES}",
    ),
    "3.10": (
        "Memory cgroup out of memory: Kill process 7 (a,b) score 905 or sacrifice child",
        f"Killed process 7 (a,b) {SIZES}",
    ),
    "5.1": (f"Memory cgroup out of memory: Killed process 7 (a,b) {SIZES}, shmem-rss:0kB, UID:33",),
}


@pytest.mark.parametrize(("beginning", "ending"), list(product(BEGINNINGS, ENDINGS)))
def test_a_kill_at_a_limit_has_its_program_and_the_group_with_the_limit(
    beginning: str, ending: str
) -> None:
    """Each form of what comes before, with each form of the kill: it is one kill."""
    swap = "swap: usage 0kB, limit 0kB, failcnt 0"
    first, *more = BEGINNINGS[beginning]
    lines = [first, USAGE, swap] if first != USAGE else [USAGE, swap, *more]
    (kill,) = kills(*lines, *ENDINGS[ending])
    assert kill == (
        "oom_kill_group",
        "7 (a,b)",
        f"control group {GROUP} at memory.max of 204800 kB",
    )


HOST_FORMS = {
    "2.6.11": ("Out of Memory: Killed process 7 (a b).",),
    "2.6.18": (
        "Out of Memory: Kill process 6 (sh) score 91 and children.",
        "Out of memory: Killed process 7 (a b).",
    ),
    "2.6.18, policy": ("No available memory (MPOL_BIND): Killed process 7 (a b).",),
    "2.6.18, cpuset": ("No available memory in cpuset: Killed process 7 (a b).",),
    "2.6.24": (
        "Out of memory: kill process 6 (sh) score 91 or a child",
        "Killed process 7 (a b)",
    ),
    "3.10": (
        "Out of memory (oom_kill_allocating_task): Kill process 6 (sh) score 0 or sacrifice child",
        f"Killed process 7 (a b) {SIZES}",
    ),
    "6.12": (
        CHOSEN.replace("_MEMCG", "_NONE").replace(f"oom_memcg={GROUP}", "global_oom"),
        f"Out of memory: Killed process 7 (a b) {SIZES}",
    ),
}


@pytest.mark.parametrize("form", HOST_FORMS)
def test_a_kill_for_lack_of_memory_of_the_host_names_who_was_killed(form: str) -> None:
    """Before 5.1 a child may have been killed in place of the process that was chosen."""
    assert kills(*HOST_FORMS[form]) == [("oom_kill", "7 (a b)", "")]


@pytest.mark.parametrize(
    ("line", "file", "kilobytes"),
    [
        ("swap: usage 9kB, limit 9kB, failcnt 1", "memory.max", 204800),
        ("kmem: usage 0kB, limit 9007199254740988kB", "memory.limit_in_bytes", 204800),
        ("memory+swap: usage 209kB, limit 400000kB", "memory.limit_in_bytes", 204800),
        ("memory+swap: usage 0kB, limit 9007199254740988kB", "memory.limit_in_bytes", 204800),
        ("memory+swap: usage 300000kB, limit 300000kB", "memory.memsw.limit_in_bytes", 300000),
    ],
)
def test_the_limit_that_is_reached_is_named_by_its_file(
    line: str, file: str, kilobytes: int
) -> None:
    """Version 1 has a limit of memory with swap, which may be reached before that of memory."""
    (kill,) = kills(USAGE, f"{line}, failcnt 9", CHOSEN, *ENDINGS["5.1"])
    assert kill.place == f"control group {GROUP} at {file} of {kilobytes} kB"


def test_all_that_are_killed_with_their_group_have_it() -> None:
    """memory.oom.group: one line a process, and only the first has its number in the report."""
    whole = f"Tasks in {GROUP} are going to be killed due to memory.oom.group set"
    others = [f"Memory cgroup out of memory: Killed process {n} (php) {SIZES}" for n in (8, 9)]
    found = kills(USAGE, CHOSEN, *ENDINGS["5.1"], whole, *others)
    assert [kill.place for kill in found] == [f"control group {GROUP}"] * 3


def test_a_kill_whose_report_was_left_out_has_no_group_of_another() -> None:
    """Of many kills the kernel prints ten reports in 5 s; an old one, or another's, has no part."""
    other = f"Memory cgroup out of memory: Killed process 8 (php) {SIZES}"
    assert [kill.place for kill in kills(USAGE, CHOSEN, *ENDINGS["5.1"], other)][1] == ""
    assert [kill.place for kill in kills(USAGE, CHOSEN, other)] == [""]
    old = kills(*BEGINNINGS["3.10"], *ENDINGS["3.10"], *ENDINGS["3.10"])
    assert [kill.place != "" for kill in old] == [True, False]
    assert kills(USAGE, CHOSEN, *ENDINGS["5.1"], step_seconds=40)[0].place == ""


@pytest.mark.parametrize(
    "line",
    [
        "Memory cgroup out of memory: OOM victim 12 (sh) is already exiting. Skip killing the task",
        "Out of memory and no killable processes...",
        "Killed by signal 9",
        "Kill process 12 (sh) sharing same memory",
        "memory: usage high",
        "oom-kill:constraint=",
        "oom_reaper: reaped process 7 (a,b), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
        "Tasks state (memory values in pages):",
        "Memory: 8012345K/8388608K available (14336K kernel code, 2345K rwdata)",
    ],
)
def test_other_lines_about_memory_are_no_kill(line: str) -> None:
    """Also of a machine that boots."""
    assert kills(line) == []


def test_a_group_of_anybody_s_choice_is_a_printable_place() -> None:
    """A container names its control group, and the place is shown to an administrator."""
    group = "/docker/a\x1b[31m b at memory.max of x"
    (kill,) = kills(
        USAGE, CHOSEN.replace(f"oom_memcg={GROUP}", f"oom_memcg={group}"), *ENDINGS["5.1"]
    )
    assert kill.place.isprintable()
    found = group_at_limit(kill.place)
    assert found is not None
    assert (found.group, found.file) == (group.replace("\x1b", "\\x1b"), "")
    assert found.contains(f"{found.group}/worker")
    assert not found.contains(f"{found.group}er")
    assert group_at_limit("channel 2") is None
