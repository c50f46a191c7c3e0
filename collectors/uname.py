"""Who this machine is, as uname tells it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Uname:
    """Source: uname(2); '/proc/sys/kernel' (ostype, hostname, osrelease, version, domainname)."""

    sysname: str
    nodename: str
    release: str
    version: str
    machine: str | None
    """None: this kernel has no '/proc/sys/kernel/arch' (6.1+) and it is no live machine."""
    domainname: str
