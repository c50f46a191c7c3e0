"""Whether requests can be traced on this machine: tracefs, and kernel lockdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iowarden.collectors.machine import Machine

DIRECTORY = "/sys/kernel/tracing"
LOCKDOWN = "/sys/kernel/security/lockdown"
MOUNTS = "/proc/1/mountinfo"


def tracing_problem(root: Machine) -> str:
    """Return why requests cannot be traced here, and what to do; '' if nothing is against it.

    *Source:* kernel, trace/ftrace.rst (tracefs); security/lockdown/lockdown.c: 'none integrity
    [confidentiality]', the mode in force in brackets; LOCKDOWN_TRACEFS belongs to confidentiality
    (security.h). Whether the events of the block layer exist is known to root alone.
    """
    if "[confidentiality]" in (root.try_read(LOCKDOWN) or ""):
        return (
            "kernel lockdown is in mode 'confidentiality', which forbids tracefs; only a boot with"
            " 'lockdown=integrity' or none allows it"
        )
    mounts = root.try_read(MOUNTS)
    if mounts is not None and not any(
        line.split()[4:5] == [DIRECTORY] and " - tracefs " in line for line in mounts.splitlines()
    ):
        if root.try_names(DIRECTORY) is None:
            return f"this kernel has no tracefs ({DIRECTORY} does not exist)"
        return f"tracefs is not mounted: mount -t tracefs tracefs {DIRECTORY}"
    return ""
