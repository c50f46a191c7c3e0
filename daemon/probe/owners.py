"""Verbs of the probe that find the owners of blocks: programs run here, and are parsed here.

What debugfs, xfs_io, find and btrfs print would give a compromised service any name, and with
debugfs values of extended attributes and targets of links; a table of dmsetup may have keys. So
their command lines are not allowed by themselves: a verb runs them in its child, and returns the
owners of the requested blocks.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from iowarden.collectors.block import dm_table
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.device_mapper import mapped_targets
from iowarden.collectors.filesystem import btrfs_owner, ext4_owner, mountinfo, xfs_owner
from iowarden.collectors.machine import Machine
from iowarden.collectors.model import (
    AbsentError,
    DeadlineError,
    ParseError,
    ProgramNotFoundError,
    ReadError,
)
from iowarden.daemon.probe import children
from iowarden.daemon.probe.allowed import ADMIN, READ_ALL
from iowarden.daemon.probe.capabilities import keep
from iowarden.daemon.probe.programs import NotInstalledError, Programs, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from iowarden.daemon.probe.capabilities import Capability

MAX_SECTORS = 65_536
"""Of one request: as many as 'iowarden locate' takes."""
_RESERVE_SECONDS = 2.0
"""A program is killed so long before the deadline, or a tenth of it, to answer with the rest."""
_MAX_OUTPUT_BYTES = children.MAX_FILE_BYTES

Arguments = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OwnerVerb:
    """A verb.

    Fields: `arguments` as they are named in a refusal, with the pattern of each; `first` is the
    command line that is checked before the verb is queued; `answer` runs programs through the
    machine it is given, and returns the value of the answer; `capabilities`: for all of them.
    `needs_root`: they open what root alone may write to. The others run as another user: they parse
    what is on the disk, which may have been made to deceive them.
    """

    arguments: Mapping[str, str]
    first: Callable[[Arguments], Arguments]
    answer: Callable[[Machine, Arguments, Callable[[], float]], dict[str, Any]]
    capabilities: frozenset[Capability]
    needs_root: bool = False


def _ext4_owners(root: Machine, words: Arguments, time_left: Callable[[], float]) -> dict[str, Any]:
    device, sector, count = words[0].removeprefix("/dev/"), int(words[1]), int(words[2])
    owned = ext4_owner.query_owned_blocks(root, device, sector, count, time_left)
    return ext4_owner.to_json(owned)


def _xfs_owners(root: Machine, words: Arguments, time_left: Callable[[], float]) -> dict[str, Any]:
    point, sector, count = words[0], int(words[1]), int(words[2])
    owned = xfs_owner.query_owned_sectors(root, point, sector, count, time_left)
    return xfs_owner.to_json(owned)


def _btrfs_names(root: Machine, words: Arguments, time_left: Callable[[], float]) -> dict[str, Any]:
    mounts = tuple(mountinfo.visible(mountinfo.read_mountinfo(root)))
    question = (words[0], int(words[1]), int(words[2]), int(words[3]))
    return btrfs_owner.to_json(btrfs_owner.query_names(root, mounts, question, time_left))


def _dm_table(root: Machine, words: Arguments, time_left: Callable[[], float]) -> dict[str, Any]:
    return dm_table.to_json(dm_table.query_dm_table(root, words[0], words[1], time_left()))


def _dm_targets(root: Machine, _: Arguments, time_left: Callable[[], float]) -> dict[str, Any]:
    # Most machines have no such device.
    from iowarden.collectors.device_mapper import target_types  # noqa: PLC0415

    return target_types.to_json(target_types.query_target_types(root, time_left()))


_NUMBER = r"\d{1,15}"
_LONG_NUMBER = r"\d{1,20}"
_COUNT = r"[1-9]\d{0,4}"
_PLACE = r"/[!-~]{1,255}"
"""The command line that is checked first allows less."""

VERBS: Mapping[str, OwnerVerb] = {
    ext4_owner.VERB: OwnerVerb(
        {"DEVICE": _PLACE, "SECTOR": _NUMBER, "COUNT": _COUNT},
        lambda words: ("debugfs", "-c", "-R", "stats -h", words[0]),
        _ext4_owners,
        READ_ALL,
    ),
    xfs_owner.VERB: OwnerVerb(
        {"MOUNT_POINT": r"/[!-~]{0,255}", "SECTOR": _NUMBER, "COUNT": _COUNT},
        lambda words: ("xfs_io", "-r", "-c", f"fsmap -d -m {words[1]} {words[1]}", words[0]),
        _xfs_owners,
        ADMIN,
    ),
    btrfs_owner.VERB: OwnerVerb(
        {
            "MOUNT_POINT": r"/[!-~]{0,255}",
            "ADDRESS": _LONG_NUMBER,
            "TREE": _LONG_NUMBER,
            "INODE": _LONG_NUMBER,
        },
        lambda words: ("btrfs", "inspect-internal", "logical-resolve", "-P", words[1], words[0]),
        _btrfs_names,
        ADMIN,
    ),
    dm_table.VERB: OwnerVerb(
        {"MAJOR": r"\d{1,7}", "MINOR": r"\d{1,7}"},
        lambda words: ("dmsetup", "table", "-j", words[0], "-m", words[1]),
        _dm_table,
        ADMIN,
        needs_root=True,
    ),
    mapped_targets.VERB: OwnerVerb(
        {}, lambda _: ("dmsetup", "table"), _dm_targets, ADMIN, needs_root=True
    ),
}


def refusal(verb: str, arguments: Arguments) -> str:
    """Return '', or why the arguments of a verb are not valid. Pure."""
    wanted = VERBS[verb].arguments
    if len(arguments) != len(wanted):
        return f"'{verb}': expected {' '.join(wanted)}, got {len(arguments)}"
    for (name, pattern), argument in zip(wanted.items(), arguments, strict=True):
        if not re.fullmatch(pattern, argument, re.ASCII):
            return f"'{verb}': expected {name} like '{pattern}', got {argument!r:.80}"
    if "COUNT" in wanted and int(arguments[-1]) > MAX_SECTORS:
        return f"'{verb}': expected at most {MAX_SECTORS} sectors, got {arguments[-1]}"
    return ""


def answer(verb: str, programs: Programs, until: float, arguments: Arguments) -> dict[str, Any]:
    """Answer a verb, in its child. `until`: deadline by the monotonic clock. Errors: ValueError."""
    children.be_idle()
    until -= min(_RESERVE_SECONDS, (until - time.monotonic()) / 10)
    try:
        root = Machine(probe=partial(_run, programs))
        return VERBS[verb].answer(root, arguments, partial(_time_left, until))
    except (AbsentError, ReadError, ParseError) as error:
        raise ValueError(str(error)) from error


def _time_left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise DeadlineError("the deadline of the request is reached; request fewer sectors")
    return left


def _run(programs: Programs, _: str, words: tuple[str, ...], deadline_seconds: float) -> str:
    """Run a program; return its output like the verb 'run' does. Errors: ReadError, AbsentError.

    Both outputs are files in memory, limited like every file of a child. A program that hangs
    after its end hangs this child as well, which the probe kills and reports.
    """
    try:
        command = programs.resolve(words, inner=True)
    except NotInstalledError as error:
        raise ProgramNotFoundError(str(error)) from error
    except RefusedError as error:
        raise ReadError(str(error)) from error
    files = [os.memfd_create(name) for name in ("output", "error")]
    pid = os.fork()
    if pid == 0:
        try:
            children.end_with_parent()
            keep(command.capabilities)
            os.dup2(files[0], 1)
            os.dup2(files[1], 2)
            os.execve(command.path, command.arguments, children.environment(os.getcwd()))  # noqa: S606
        except OSError as error:
            os.write(2, str(error).encode("utf-8", "backslashreplace"))
        finally:
            os._exit(127)
    process = os.pidfd_open(pid)
    ended = bool(select.select([process], [], [], deadline_seconds)[0])
    if not ended:
        signal.pidfd_send_signal(process, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(process)
    if not ended:
        raise DeadlineError(f"'{words[0]}' was killed at the deadline")
    texts = [os.pread(file, _MAX_OUTPUT_BYTES, 0) for file in files]
    for file in files:
        os.close(file)
    return json.dumps(
        {
            "status": status if status >= 0 else None,
            "signal": -status if status < 0 else None,
            "stdout": texts[0].decode("utf-8", "surrogateescape"),
            "stderr": texts[1].decode("utf-8", "surrogateescape"),
        }
    )
