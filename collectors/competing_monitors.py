"""Competing monitors: other programs that poll disks and controllers on the host.

Identified by 'comm' in '/proc', and by the systemd unit in 'cgroup'. Neither hangs with a hung
disk; 'cmdline', which may, is never read. Left out, because they do not interfere: 'mdadm
--monitor' reads '/proc/mdstat', and udisksd queries only SATA disks, and after its start none in
standby.
"""

from __future__ import annotations

import re
from collections.abc import Mapping  # noqa: TC003 - to be evaluated
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import AbsentError, Family, ReadError
from iowarden.collectors.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.model import Sample

PROC = "/proc"
PCI_DRIVERS = "/sys/bus/pci/drivers"
"""Not 'proc_name' of the SCSI host: arcmsr gives one only since a change of March 2023."""

_UNIT = lazy_pattern(r"[A-Za-z0-9_][A-Za-z0-9:_.@-]*\.service", re.ASCII)
"""Source: systemd.unit(5), but without characters that a shell interprets: it becomes part of a
command that a user copies.
"""
_ADAPTER = lazy_pattern(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)

_THREEWARE = ("3w-9xxx", "3w-sas", "3w-xxxx")


@dataclass(frozen=True, slots=True)
class Monitor:
    """A program that polls disks or controllers.

    Fields: `commands` as in 'comm', 15 characters at most; `units` identify a 'java'; `drivers` are
    of controllers at which a second program loses answers.
    """

    name: str
    commands: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()


PROGRAMS = (
    Monitor("smartd", ("smartd",), drivers=("arcmsr",)),
    # 3ware's guide: an alarm goes to 3DM or to the CLI, whichever fetches it first. It states this
    # for
    # the 8000 and 9000 series; for 3w-sas (9750) that was not checked.
    Monitor("3dm2", ("3dm2",), drivers=_THREEWARE),
    Monitor("archttp", ("archttp64", "archttp32", "archttp", "areca_http"), drivers=("arcmsr",)),
    Monitor(
        "megaraid-storage-manager",
        ("mrmonitord",),
        ("vivaldiframeworkd.service", "mrmonitor.service", "lsi_msm.service"),
    ),
    Monitor("lsi-storage-authority", ("LSA",)),
    Monitor("lsi-snmp", ("lsi_mrdsnmpmain",)),
    Monitor("openmanage", ("dsm_sa_datamgrd",)),
    Monitor("hp-storage-agents", ("cmaidad", "cmasasd", "cmascsid")),
    # The agent's unit is the one that systemd creates from its init script: not seen on a host.
    Monitor("adaptec-storage-manager", (), ("stor_tomcat.service", "StorAgnt.service")),
)
"""The names are from packages' scripts and process lists of users; only smartd's was verified."""

_BY_COMMAND = {command: monitor for monitor in PROGRAMS for command in monitor.commands}
_BY_UNIT = {unit: monitor for monitor in PROGRAMS for unit in monitor.units}
_SHARED_COMMAND = "java"

FAMILIES = (
    Family(
        "iowarden_competing_monitor_running",
        "gauge",
        "1 while a competing monitor, a program that polls disks or controllers, runs on this"
        " host.",
    ),
    Family(
        "iowarden_competing_monitor_pid",
        "gauge",
        "Process number of a competing monitor; unit is its systemd service, empty without one.",
    ),
    Family(
        "iowarden_competing_monitor_conflict",
        "gauge",
        "1 while a competing monitor runs next to a controller that cannot serve two programs.",
    ),
)


@dataclass(frozen=True, slots=True)
class MonitorProcess:
    """Process of such a program; `unit` is '' if it is no system service."""

    pid: int
    unit: str


@dataclass(frozen=True, slots=True)
class Monitors:
    """Competing monitors found on the host.

    Fields: `running` has for each program its oldest process in each unit; `drivers` are those of
    KNOWN that have a controller.
    """

    running: Mapping[str, tuple[MonitorProcess, ...]]
    drivers: frozenset[str]


def parse_unit(text: str) -> str:
    """Parse the system service of a process from the text of '/proc/PID/cgroup', or ''.

    Source: cgroups(7), 'hierarchy:controllers:path'; systemd's is '0::', or 'name=systemd' in the
    old layout. A service of a user or within a container cannot be stopped with 'systemctl': ''.
    """
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        name = path.rpartition("/")[2]
        if (
            controllers in {"", "name=systemd"}
            and path.startswith("/system.slice/")
            and _UNIT.fullmatch(name)
        ):
            return name
    return ""


def emit(value: Monitors) -> list[Sample]:
    """Return the samples of FAMILIES: every known program, from the first read on."""
    samples: list[Sample] = []
    for monitor in PROGRAMS:
        program = ("program", monitor.name)
        processes = value.running.get(monitor.name, ())
        runs = float(bool(processes))
        samples.append(("iowarden_competing_monitor_running", (program,), runs))
        samples += [
            (
                "iowarden_competing_monitor_pid",
                (program, ("unit", process.unit)),
                float(process.pid),
            )
            for process in processes
        ]
        samples += [
            ("iowarden_competing_monitor_conflict", (("driver", driver), program), runs)
            for driver in monitor.drivers
            if driver in value.drivers
        ]
    return samples


def read_monitors(root: Machine) -> Monitors:
    """Read every process once; one that ends meanwhile is left out.

    Limits: one more system call for each process of the host, so not every second.
    Errors: AbsentError (also if other users' processes are hidden), ReadError.
    """
    processes = [int(name) for name in root.names(PROC) if name.isascii() and name.isdigit()]
    _require_all_visible(root)
    running: dict[str, dict[str, MonitorProcess]] = {}
    for pid in sorted(processes):
        command = _text(root, f"{PROC}/{pid}/comm")
        if command is None or (command != _SHARED_COMMAND and command not in _BY_COMMAND):
            continue
        groups = _text(root, f"{PROC}/{pid}/cgroup")
        if groups is None:
            continue
        unit = parse_unit(groups)
        monitor = _BY_COMMAND.get(command) or _BY_UNIT.get(unit)
        if monitor is not None:
            running.setdefault(monitor.name, {}).setdefault(unit, MonitorProcess(pid, unit))
    return Monitors(
        {name: tuple(by_unit.values()) for name, by_unit in running.items()},
        frozenset(_drivers(root)),
    )


def _require_all_visible(root: Machine) -> None:
    """Raise AbsentError if only one's own processes are visible: other monitors may be running.

    Source: kernel, filesystems/proc.rst, hidepid: 1 makes it EPERM, 2 and 4 ENOENT.
    """
    path = f"{PROC}/1/comm"
    try:
        root.read(path)
    except (AbsentError, ReadError) as error:
        if isinstance(error, AbsentError) or isinstance(error.__cause__, PermissionError):
            raise AbsentError(
                f"{error}; expected all processes, got none but iowarden's own: is '{PROC}'"
                " mounted with hidepid? See 'findmnt /proc'"
            ) from error
        raise


def _text(root: Machine, path: str) -> str | None:
    """Return a file of a process, None if it has ended. Errors: ReadError."""
    try:
        return root.read(path).rstrip("\n")
    except AbsentError:
        return None
    except ReadError as error:
        # It ended between open and read. Any other error does not prove that it is not running.
        if isinstance(error.__cause__, ProcessLookupError):
            return None
        raise


def _drivers(root: Machine) -> Iterator[str]:
    """Yield the drivers to which a controller is bound."""
    for driver in sorted({driver for monitor in PROGRAMS for driver in monitor.drivers}):
        try:
            names = root.names(f"{PCI_DRIVERS}/{driver}")
        except AbsentError:
            continue
        if any(map(_ADAPTER.fullmatch, names)):
            yield driver


SOURCE: Source[Monitors] = Source(
    name="monitors",
    period_seconds=60,
    may_hang=True,
    read=read_monitors,
    families=FAMILIES,
    emit=emit,
)
