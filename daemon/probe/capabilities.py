"""What a child of the probe keeps of root: some capabilities, and the user where that is needed.

Source: capabilities(7), capset(2), PR_SET_NO_NEW_PRIVS(2const); numbers: linux/capability.h. With
'no new privileges' a program that is started gains no capability that its caller does not have,
also as root (kernel, security/commoncap.c, cap_bprm_creds_from_file). A program of another user
gets the ambient ones (capabilities(7)).
"""

from __future__ import annotations

import ctypes
import enum
import functools
import os
import pwd
import resource
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_VERSION_3 = 0x20080522
_PR_SET_PDEATHSIG, _PR_SET_KEEPCAPS, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 1, 8, 38, 47
_PR_CAP_AMBIENT_RAISE = 2
READER = "iowarden-probe"
"""User of children that only read what their capabilities open to them."""
MAX_PROCESSES = 96
"""Of that user, all children together: 32, each with the program that it runs; the unit has 256."""


class Capability(enum.IntEnum):
    """What the probe's unit permits; the value is the kernel's number."""

    DAC_READ_SEARCH = 2
    KILL = 5
    SETGID = 6
    SETUID = 7
    SYS_RAWIO = 17
    SYS_PTRACE = 19
    SYS_ADMIN = 21
    MKNOD = 27
    SYSLOG = 34


@functools.cache
def reader() -> tuple[int, int] | None:
    """Return user and group of `READER`; None if there is none here, or this is not root.

    The probe calls it at its start: the name service may hang, and no child must hang with it.
    """
    with suppress(KeyError):
        entry = pwd.getpwnam(READER)
        if os.geteuid() == 0 and entry.pw_uid != 0:
            return entry.pw_uid, entry.pw_gid
    return None


def become_reader(capabilities: Iterable[Capability]) -> None:
    """As `keep`, and become the user `READER`: root owns files and devices, and may write to them.

    Its processes are limited. Limits: not of one with SYS_ADMIN (kernel/fork.c, copy_process).

    It is killed with its parent: the kernel forgets that at a change of the user (kernel/cred.c,
    commit_creds). Errors: OSError.
    """
    account = reader()
    if account is None:
        keep(capabilities)
        return
    parent = os.getppid()
    _prctl(_PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(*[account[1]] * 3)
    os.setresuid(*[account[0]] * 3)
    resource.setrlimit(resource.RLIMIT_NPROC, (MAX_PROCESSES, MAX_PROCESSES))
    keep(capabilities)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died in between
        os._exit(127)


def keep(capabilities: Iterable[Capability]) -> None:
    """Give up all other capabilities of this process, for good. Errors: OSError.

    The programs of a user other than root inherit them as well.
    """
    wanted = sum(1 << capability for capability in capabilities)
    library = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    # Effective, permitted, inheritable; the lower 32 bits of each, then the upper ones.
    sets = (ctypes.c_uint32 * 6)()
    _check("capget", library.capget(header, sets))
    permitted = (sets[1] | sets[4] << 32) & wanted
    low, high = permitted & 0xFFFFFFFF, permitted >> 32
    is_root = os.geteuid() == 0
    low_inherited, high_inherited = (0, 0) if is_root else (low, high)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    kept = (ctypes.c_uint32 * 6)(low, low, low_inherited, high, high, high_inherited)
    _check("capset", library.capset(header, kept))
    for capability in Capability:
        if not is_root and permitted & 1 << capability:
            _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability)


def _prctl(option: int, *values: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    arguments = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    _check("prctl", library.prctl(option, *arguments))


def _check(name: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
