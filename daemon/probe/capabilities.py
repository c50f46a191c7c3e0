"""Capabilities of root that a child of the probe keeps; the others it and its programs never have.

Source: capabilities(7), capset(2), PR_SET_NO_NEW_PRIVS(2const); numbers: linux/capability.h. With
'no new privileges' a program that is started gains no capability that its caller does not have,
also as root (kernel, security/commoncap.c, cap_bprm_creds_from_file).
"""

from __future__ import annotations

import ctypes
import enum
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_VERSION_3 = 0x20080522
_PR_SET_NO_NEW_PRIVS = 38


class Capability(enum.IntEnum):
    """What the probe's unit permits; the value is the kernel's number."""

    DAC_READ_SEARCH = 2
    SYS_RAWIO = 17
    SYS_PTRACE = 19
    SYS_ADMIN = 21
    MKNOD = 27
    SYSLOG = 34


def keep(capabilities: Iterable[Capability]) -> None:
    """Give up all other capabilities of this process, for good. Errors: OSError."""
    wanted = sum(1 << capability for capability in capabilities)
    library = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    # Effective, permitted, inheritable; the lower 32 bits of each, then the upper ones.
    sets = (ctypes.c_uint32 * 6)()
    _check("capget", library.capget(header, sets))
    permitted = (sets[1] | sets[4] << 32) & wanted
    low, high = permitted & 0xFFFFFFFF, permitted >> 32
    _check("prctl", library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _check("capset", library.capset(header, (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)))


def _check(name: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
