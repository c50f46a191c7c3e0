"""Who waits and because of whom, as sentences of a mail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iowarden.collectors.procfs.process_io import ProcessIo
from iowarden.collectors.procfs.tasks import BlockedTask
from iowarden.rules.notices import who_waits
from iowarden.rules.signals.storage_call import Purpose
from iowarden.rules.signals.waits.freezes import (
    DeviceFreezes,
    Freeze,
    Level,
    ProgramTime,
    Series,
)
from iowarden.rules.signals.waits.harm import Cause, Harm, Victim
from iowarden.rules.signals.waits.waits import Wait

GIB = 1 << 30
READ = ("folio_wait_bit_common", "vfs_read", "__x64_sys_pread64")
LOCK = ("rwsem_down_write_slowpath", "path_openat", "__x64_sys_openat")


def victim(pid: int, command: str, *stack: str, seconds: float = 20.0) -> Victim:
    """Return a task that has been waiting for 20 s, or in its present call for so long."""
    task = BlockedTask(pid, 4000, command, stack[0], stack, 0, 0)
    began = 20.0 - seconds
    return Victim(Wait(task, Purpose.STORAGE, began, 20.0, began), seconds, seconds)


def wrote(one: Victim, size: int | None) -> Victim:
    """Return the same task of a process that has written so much; None: /proc has no such file."""
    task = replace(one.wait.task, write_bytes=size)
    return replace(one, wait=replace(one.wait, task=task))


def uncounted(harm: Harm) -> Harm:
    """Return the same waits where '/proc/PID/io' does not exist."""
    return replace(harm, victims=tuple(wrote(each, None) for each in harm.victims))


def moved(pid: int, command: str, size: int, *, unit: str = "load.service") -> Cause:
    """Return who wrote so many bytes."""
    return Cause(pid, command, unit, size, 0.5, writes=True)


WAITS = Harm((victim(812, "postgres", *READ),))


@pytest.mark.parametrize(
    ("sentence", "stacks", "expected"),
    [
        ("one", [READ], "smbd (pid 1) in pread64, for at least 20 s"),
        ("two in one call", [READ, READ], "2 tasks of smbd (pid 1) in pread64, for at least 20 s"),
        (
            "two in different ones: the number and the call are those of one of them",
            [READ, LOCK],
            "2 tasks of smbd in 2 different calls, pid 1 among them in pread64, for at least 20 s",
        ),
    ],
)
def test_how_tasks_of_one_program_wait(
    sentence: str, stacks: list[tuple[str, ...]], expected: str
) -> None:
    """A mail names one of them, and says so where the others wait elsewhere."""
    victims = tuple(victim(n, "smbd", *stack) for n, stack in enumerate(stacks, 1))
    assert who_waits.sentences(Harm(victims), 0.0)[0] == f"who waits: {expected}", sentence


def test_the_fourth_program_alone_is_one_more_task() -> None:
    """Three programs are named."""
    victims = tuple(victim(n, f"smbd{n}", *READ) for n in range(1, 5))
    assert who_waits.sentences(Harm(victims), 0.0)[0].endswith("; 1 more task")


@pytest.mark.parametrize(
    ("sentence", "harm", "expected"),
    [
        (
            "one program",
            replace(WAITS, causes=(moved(400, "tar", GIB),)),
            ["because of: tar (load.service, pid 400), which wrote 1 GiB"],
        ),
        (
            "beside it one that moved a hundredth",
            replace(WAITS, causes=(moved(400, "tar", GIB), moved(401, "cron", GIB // 100))),
            ["because of: tar (load.service, pid 400), which wrote 1 GiB"],
        ),
        (
            "no sweep of before the wait",
            replace(WAITS, causes=(moved(400, "tar", GIB),), is_certain=False),
            ["probably because of: tar (load.service, pid 400), which wrote 1 GiB"],
        ),
        (
            "a hundred processes of one unit",
            replace(WAITS, units=(moved(0, "", GIB, unit="php.service"),)),
            ["because of: the load of php.service, which wrote 1 GiB"],
        ),
        ("a slow disk", replace(WAITS, causes=(moved(400, "tar", 9),), blames_device=True), []),
        (
            "who holds the lock waits for the disk",
            Harm((victim(1, "smbd", *LOCK), victim(2, "rm", *READ))),
            ["because of: rm (pid 2), which waits for the disk itself and may hold their lock"],
        ),
        (
            "who holds it reads block after block, beside a logger that wrote since its start",
            replace(
                Harm((victim(1, "smbd", *LOCK), victim(2, "rm", *READ, seconds=0.0))),
                causes=(moved(701, "rsyslogd", GIB),),
                is_certain=False,
            ),
            ["because of: rm (pid 2), which waits for the disk itself and may hold their lock"],
        ),
        (
            "and no poll saw it",
            replace(
                Harm((victim(1, "smbd", *LOCK),)),
                causes=(moved(701, "rsyslogd", GIB),),
                is_certain=False,
            ),
            ["because of whom: not known, no poll saw who holds their lock"],
        ),
        (
            "nobody",
            WAITS,
            ["because of whom: no single program wrote or read a quarter of what the disk did"],
        ),
        (
            "Linux 2.6.18 counts no bytes of a program",
            replace(uncounted(WAITS), is_certain=False),
            ["because of whom: not known, because /proc/PID/io of the programs cannot be read"],
        ),
        (
            "no sweep of before the wait, and none that wrote lately",
            replace(WAITS, is_certain=False),
            [
                (
                    "because of whom: not known, because what programs read and wrote was not read"
                    " before they were blocked"
                ),
            ],
        ),
        (
            "a full thin pool: what one program wrote never reaches the disk",
            Harm(
                (victim(812, "postgres", *READ), wrote(victim(4800, "python3", *READ), 2 * GIB)),
                is_share_known=False,
            ),
            [
                (
                    "because of whom: not known, because hardly a byte reaches a disk; of those"
                    " that wait python3 (pid 4800) wrote most, 2 GiB since its start"
                ),
            ],
        ),
    ],
)
def test_because_of_whom(sentence: str, harm: Harm, expected: list[str]) -> None:
    """Each row: who is known to move the bytes."""
    waits, *because = who_waits.sentences(harm, 0.0)
    assert waits.startswith("who waits: ")
    assert because == expected, sentence


def rhythm(*spans: tuple[float, float], programs: dict[str, ProgramTime] | None = None) -> str:
    """Return what is said at 600 s of freezes with these beginnings and ends."""
    seen = tuple(Freeze(began, end, end - began, 1) for began, end in spans)
    series = Series(seen, len(seen), seen[0].began_seconds, is_frozen=False, level=Level.WARNING)
    freezes = DeviceFreezes(series, programs or {})
    return who_waits.rhythm_sentence(freezes, 600.0, lambda at: f"{at:.0f}")


def test_long_freezes_have_a_rhythm() -> None:
    """20 s of each minute."""
    expected = "rhythm: 9 times since 60, each 1 min for about 20 s; 33.3 % of the time"
    assert rhythm(*((60.0 * n, 60.0 * n + 20) for n in range(1, 10))) == expected


def test_short_waits_are_more_than_polls_have_seen() -> None:
    """An fdatasync of 4.5 s in each 5.3 s: polls 2 s apart show one in three for 4 s or longer."""
    spans = [(16.0 * n, 16.0 * n + 6) for n in range(1, 14)]
    programs = {"prosody prosody.service": ProgramTime(((300.0, 555.0),))}
    assert rhythm(*spans, programs=programs) == (
        "rhythm: at least 13 times since 16, for up to 6 s each; a program was blocked for 85 % of"
        " the last 5 min"
    )
    assert rhythm(*spans) == "rhythm: at least 13 times since 16, for up to 6 s each"


def swept(pid: int, command: str, resident_bytes: int | None, unit: str = "") -> ProcessIo:
    """Return a process of a sweep that has so much memory."""
    return ProcessIo(pid, 4000, 1, command, unit, 4096, 0, 0, resident_bytes=resident_bytes)


@pytest.mark.parametrize(
    ("sentence", "processes", "expected"),
    [
        (
            "one that grows, beside small ones",
            [
                swept(700, "nginx", 40 << 20),
                swept(1812, "java", 29 * GIB // 10, "app.service"),
                swept(720, "sshd", 2 << 20),
            ],
            "most in memory: java (app.service, pid 1812), 2.9 GiB",
        ),
        (
            "two that share it",
            [swept(5, "qemu-kvm", 6 * GIB), swept(4, "qemu-kvm", 8 * GIB)],
            "most in memory: qemu-kvm (pid 4), 8 GiB; qemu-kvm (pid 5), 6 GiB",
        ),
        ("an older recording", [swept(700, "nginx", None)], ""),
        ("no sweep", [], ""),
    ],
)
def test_who_has_most_memory(sentence: str, processes: list[ProcessIo], expected: str) -> None:
    """Each row: a sweep in a swap storm."""
    assert who_waits.memory_sentence(processes) == expected, sentence
