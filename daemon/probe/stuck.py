"""Register of the programs that the probe started and of those that hang, for the next probe.

It is in the runtime directory, in memory, so that writing it never waits for a disk. A program is
distinguished from a later one with its number by its start time (proc(5), starttime).
"""

from __future__ import annotations

import dataclasses
import json
import os
import select
import time
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.probe import children, protocol
from iowarden.daemon.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.daemon.probe.protocol import Stuck

NAME = "stuck.json"
_BOOT_PATH = "/proc/sys/kernel/random/boot_id"
_MAX_BYTES = 16 * 1024 * 1024
"""Limit: a hundred programs, each with two copies of the longest path, take 5 MiB."""


@dataclass(frozen=True, slots=True)
class StartedProgram:
    """A program that was started; `reported`: it survived SIGKILL, and that was reported."""

    program: Stuck
    reported: bool = False


def write(directory: str, entries: Iterable[StartedProgram], boot: str) -> None:
    """Replace the register atomically. Errors: OSError."""
    kept = tuple(entries)
    document = {
        "boot": boot,
        "told": [each.program.pid for each in kept if each.reported],
        "stuck": [dataclasses.asdict(each.program) for each in kept],
    }
    path = os.path.join(directory, NAME)
    draft = f"{path}.new"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:
        json.dump(document, file)
    os.rename(draft, path)


def read(directory: str, boot: str) -> list[StartedProgram]:
    """Return the register of this boot; nothing if there is none, or it is of another boot.

    Errors: OSError; ValueError for one that is damaged.
    """
    path = os.path.join(directory, NAME)
    try:
        with open(path, "rb") as file:
            content = file.read(_MAX_BYTES)
    except FileNotFoundError:
        return []
    try:
        document = json.loads(content)
        if document["boot"] != boot:
            return []
        told = document["told"]
        message = protocol.decode(json.dumps({"stuck": document["stuck"]}).encode("ascii"))
        if not isinstance(message, protocol.StuckNow):
            raise TypeError("expected a list of programs")
        return [StartedProgram(each, each.pid in told) for each in message.stuck if each.pid > 1]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(
            f"'{path}': expected the register of programs, got {content[:80]!r}"
            f" ({type(error).__name__}: {error})"
        ) from error


def boot_identifier() -> str:
    """Return the boot ID. Source: random(4). Errors: OSError."""
    with open(_BOOT_PATH, encoding="ascii") as file:
        return file.read().strip()


def survivors(
    entries: Iterable[StartedProgram], directory: str
) -> list[tuple[StartedProgram, int]]:
    """Return which of these still run, and what they left running, each with its pidfd.

    What a program started is identified by its session, whose number no other process gets while a
    process is in it (setsid(2)), and by its current directory, a scratch directory of the probe.
    Errors: OSError.
    """
    kept = {each.program.pid: each for each in entries}
    found = [(each, alive(each.program)) for each in kept.values()]
    for number in os.listdir("/proc"):
        process = children.read_process(int(number)) if number.isdecimal() else None
        if process is None or process.pid in kept or process.session not in kept:
            continue
        try:
            at = os.readlink(f"/proc/{number}/cwd")
        except OSError:  # it ended, or is a zombie
            continue
        if at.startswith(os.path.join(os.path.realpath(directory), children.SCRATCH)):
            origin = kept[process.session].program
            left = dataclasses.replace(origin, pid=process.pid, start_ticks=process.start_ticks)
            found.append((StartedProgram(left), alive(left)))
    return [(each, pidfd) for each, pidfd in found if pidfd is not None]


def alive(program: Stuck) -> int | None:
    """Return a pidfd of a program that still runs, or None: it ended, or its number was reused.

    Not by the state in '/proc': a first thread that ended is a zombie there while others hang.
    Errors: OSError.
    """
    try:
        pidfd = os.pidfd_open(program.pid)
    except ProcessLookupError:
        return None
    process = children.read_process(program.pid)
    same = process is not None and process.start_ticks == program.start_ticks
    if same and not over(pidfd):
        return pidfd
    os.close(pidfd)
    return None


def over(pidfd: int) -> bool:
    """Return whether all threads of a process ended. Source: pidfd_open(2)."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def name(program: Stuck) -> str:
    """Return a program as text for users."""
    return f"'{one_line(' '.join(program.arguments), 200)}' (process {program.pid})"


def hangs(program: Stuck) -> str:
    """Return the text for users: since when a program hangs."""
    return f"{name(program)} was killed at {utc(program.since_seconds)} and hangs in the kernel"


def utc(seconds: float) -> str:
    """Return a Unix time as text for users."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
