"""What of iowarden is installed, and whether the clock is right: for `iowarden check`.

No program is run: timedatectl waits for a service, dpkg reads many files.
Sources: adjtimex(2); dpkg(1): /var/lib/dpkg/info.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from typing import TYPE_CHECKING

from iowarden.daemon.check.report import Finding, Level, count
from iowarden.daemon.installation import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.rules.engine.engine import Engine

_PACKAGE_FILES = "/var/lib/dpkg/info/iowarden.list"
_INSTALLED = "/usr/lib/iowarden/"
"""Where 'make install' and the Debian package install to."""
_DIRECTORIES = "/usr/sbin:/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"
"""Where the probe searches programs. Source: daemon/probe/programs.py."""
_STA_UNSYNC = 0x0040
_STA_NANO = 0x2000
"""Bits of the kernel clock's status. Source: linux/timex.h."""


class _Timex(ctypes.Structure):
    """The beginning of struct timex, and room for the rest. Source: linux/timex.h."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def findings(config_path: str, *, exists: bool) -> Iterator[Finding]:
    """Return version and origin of this program, and the configuration file it reads."""
    yield Finding(Level.OK, "version", "", version())
    text = f"'{config_path}'"
    if not exists:
        text = (
            f"no file '{config_path}': defaults apply; 'iowarden setup' creates it, and configures"
            " mail and self-tests"
        )
    yield Finding(Level.OK if exists else Level.INFO, "configuration", "", text)


def version() -> str:
    """Return the version, and whether it is a Debian package, wheels or a checkout."""
    return f"{VERSION}, {_origin()}"


def _origin() -> str:
    """Return where this program comes from."""
    path = os.path.realpath(__file__)
    if path.startswith(_INSTALLED):
        kind = "Debian package" if os.path.exists(_PACKAGE_FILES) else "wheels of 'make install'"
        return f"{kind} in '{_INSTALLED.rstrip('/')}'"
    top = path.partition("/daemon/check/")[0]
    checkout = os.path.exists(f"{top}/setup.cfg")
    return f"{'checkout' if checkout else 'wheel'} in '{top}'"


def clock() -> Iterator[Finding]:
    """Return whether the kernel's clock is synchronized, with its error. Source: adjtimex(2)."""
    state = _Timex()
    if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(state)) < 0:
        error = os.strerror(ctypes.get_errno())
        yield Finding(Level.INFO, "clock", "", f"its state could not be read: {error.lower()}")
        return
    yield clock_finding(state.status, state.offset, state.maxerror)


def clock_finding(status: int, offset: int, max_error_microseconds: int) -> Finding:
    """Return the finding for a clock's state.

    `status` are the bits of adjtimex(2); `offset` is in nanoseconds with STA_NANO, otherwise in
    microseconds. Limits: the kernel's own view; chrony sets it only with its option 'rtcsync'.
    """
    if status & _STA_UNSYNC:
        text = (
            "not synchronized, as far as the kernel is informed; times in mails may be wrong, and"
            " log entries of RAID controllers may be assigned wrongly. See 'timedatectl'; to"
            " synchronize it: 'timedatectl set-ntp true'"
        )
        return Finding(Level.INFO, "clock", "", text)
    seconds = offset / (1e9 if status & _STA_NANO else 1e6)
    text = (
        f"synchronized, offset {seconds * 1000:+.3f} ms,"
        f" maximum error {max_error_microseconds / 1000:.0f} ms"
    )
    return Finding(Level.OK, "clock", "", text)


def programs(engine: Engine, directories: str = _DIRECTORIES) -> Iterator[Finding]:
    """Return the programs that the probe needs on this machine and that are not installed."""
    disks = 0 if engine.last.block is None else len(engine.last.block.leaves)
    for program, package, objects, missing in (
        ("smartctl", "smartmontools", count(disks, "disk"), "SMART data are not read"),
        ("mdadm", "mdadm", count(len(engine.last.md or {}), "md array"), "details are not read"),
    ):
        if objects and shutil.which(program, path=directories) is None:
            text = f"not installed, {missing} ({objects}): 'apt-get install {package}'"
            yield Finding(Level.INFO, "program", program, text)
