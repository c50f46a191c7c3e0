"""The programs that root may run on this machine: their paths, and the devices they would access.

`allowed` defines the command lines; here they are checked against the machine. A program is taken
only from fixed paths, and only if no other user than root can have put it there or can change it,
like sshd does with keys (StrictModes); the environment is ignored. The paths are checked again
before each run: a program that was updated is accepted, one that others may change is not.
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.packages import PACKAGES
from iowarden.daemon.probe import allowed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iowarden.daemon.probe.allowed import Matched
    from iowarden.daemon.probe.capabilities import Capability

DIRECTORIES = ("/usr/sbin", "/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin")
_MAX_LINKS = 40
"""Limit of links that the kernel follows. Source: path_resolution(7)."""

RAID_DRIVERS = frozenset(
    "arcmsr 3w-9xxx 3w-xxxx 3w-sas megaraid_sas megaraid_mbox megaraid aacraid hpsa smartpqi cciss"
    " sssraid hptiop".split()
)
"""Drivers whose disks share one controller that answers for them. The names were not checked on
hardware.
Without mpt3sas and mpi3mr: a disk there is like one at any host adapter.
"""
_THREEWARE = {"e": "3w-xxxx", "a": "3w-9xxx", "l": "3w-sas"}
"""Driver of devices such as '/dev/twa0'. Source: smartctl(8), '-d 3ware'."""
_SCANNED_DRIVERS = ("megaraid_sas", "megaraid_mbox", "megaraid")
"""Drivers whose controllers smartctl accesses when it scans for disks (its 'os_linux.cpp')."""

STOP_SMARTD = "systemctl disable --now smartmontools.service"


class RefusedError(Exception):
    """Root does not run that; the text names the argument and the reason."""


class NotInstalledError(RefusedError):
    """The command line is allowed, but its program is not installed."""


class _UnsafeError(Exception):
    """Others than root can change a program."""


@dataclass(frozen=True, slots=True)
class ProgramCommand:
    """A program to be started, in a clean environment.

    Fields: `arguments` begin with its name; `controllers` are those at which no second program may
    be started; `devices` are the disks and arrays that it accesses, by kernel name; `idle`: in the
    idle I/O class; `capabilities`: those of the probe that it keeps; `needs_root`: its user, too.
    """

    path: str
    arguments: tuple[str, ...]
    controllers: frozenset[str]
    devices: tuple[str, ...]
    idle: bool = False
    capabilities: frozenset[Capability] = frozenset()
    needs_root: bool = True


class Programs:
    """The programs of a machine. Reads '/proc', '/sys', '/dev' and the directories of programs.

    Limits: for one thread; a directory on a file system that hangs, hangs it.
    """

    def __init__(self, root: str = "/", owner_uid: int = 0) -> None:
        """Find all programs. `root` is the directory of the machine, '/' for this one.

        `owner_uid`: the user who may own a program, like root; not root only in tests.
        """
        self._machine = root.rstrip("/")
        self._owners = frozenset({0, owner_uid})
        self._installed: dict[str, str] = {}
        self._identities: dict[str, tuple[int, ...]] = {}
        self._problems: dict[str, str] = {}
        self._changes: list[str] = []
        for name in allowed.PROGRAMS:
            self._find(name)
        self._changes.clear()

    def installed(self) -> dict[str, str]:
        """Return the programs that may be run, by name, with their path."""
        return dict(self._installed)

    def problems(self) -> dict[str, str]:
        """Return why an installed program is not used, by its name."""
        return dict(self._problems)

    def changes(self) -> list[str]:
        """Return which programs were replaced, or became unsafe, since the last call."""
        changes, self._changes = self._changes, []
        return changes

    def resolve(self, arguments: Iterable[str], *, inner: bool = False) -> ProgramCommand:
        """Return how to run a command line that begins with a program's name.

        `inner`: a verb of the probe runs it, as in `allowed`. Errors: RefusedError;
        NotInstalledError, if only the program is missing.
        """
        given = tuple(arguments)
        try:
            matched = allowed.match(given, inner=inner)
        except ValueError as error:
            raise RefusedError(str(error)) from error
        self._find(given[0])
        path = self._installed.get(given[0])
        if path is None:
            if problem := self._problems.get(given[0]):
                raise RefusedError(f"{problem}; not run")
            places = ", ".join(self._places(given[0]))
            package = PACKAGES.get(given[0])
            step = f"install the package '{package}'" if package else "install it"
            raise NotInstalledError(f"'{given[0]}': not found at {places}; {step}")
        self._check_path(matched)
        controllers = self._controllers(matched)
        if rival := self._rival(matched, controllers):
            raise RefusedError(rival)
        return ProgramCommand(
            self._machine + path,
            given,
            controllers,
            self._devices(matched),
            matched.program.idle,
            matched.program.capabilities,
            matched.program.needs_root,
        )

    def _rival(self, matched: Matched, controllers: frozenset[str]) -> str:
        """Return '', or why a command line must not be run now.

        Source: arcmsr has one message buffer, and neither smartctl nor the vendor's program locks
        it: two of them take each other's answers, and one may wait for its own forever.
        """
        areca = (
            matched.program.vendor == "areca"
            or matched.raid_type.startswith("areca")
            or any(self._driver(host) == "arcmsr" for host in controllers)
        )
        process = next(self._processes("smartd"), "") if areca else ""
        return process and (
            f"'smartd' (process {process}) may poll the same Areca controller, which can answer one"
            f" at a time; not run; stop smartd with '{STOP_SMARTD}'"
        )

    def _processes(self, name: str) -> Iterator[str]:
        for process in self._names("/proc"):
            if process.isdecimal() and self._text(f"/proc/{process}/comm") == name:
                yield process

    # Programs

    def _places(self, name: str) -> list[str]:
        directories = (*allowed.PROGRAMS[name].directories, *DIRECTORIES)
        return [f"{directory}/{name}" for directory in directories]

    def _find(self, name: str) -> None:
        """Find a program, or why not: the first of its paths where it is safe."""
        path, problem = "", ""
        identity: tuple[int, ...] = ()
        for place in self._places(name):
            try:
                path, identity = self._safe(place)
                break
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (_UnsafeError, OSError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                problem = problem or f"'{place}' is not used: {why}"
        before = self._installed.pop(name, ""), self._identities.pop(name, ())
        if path:
            self._installed[name], self._identities[name] = path, identity
            if before[0] and before != (path, identity):
                self._changes.append(f"'{name}' was replaced: '{path}' is used from now on")
        if problem and self._problems.get(name) != problem:
            self._changes.append(problem)
        self._problems.pop(name, None)
        if problem:
            self._problems[name] = problem

    def _safe(self, place: str) -> tuple[str, tuple[int, ...]]:
        """Return a program's path without symbolic links, and the identity of its file.

        Errors: _UnsafeError, OSError.
        """
        rest = place.split("/")[::-1]
        path = ""
        links = 0
        status = self._own("/")
        while rest:
            name = rest.pop()
            if name in ("", "."):
                continue
            if name == "..":
                path = path.rpartition("/")[0]
                continue
            status = os.lstat(f"{self._machine}{path}/{name}")
            if not stat.S_ISLNK(status.st_mode):
                path = f"{path}/{name}"
                status = self._own(path)
                continue
            links += 1
            if links > _MAX_LINKS:
                raise _UnsafeError("too many symbolic links")
            target = os.readlink(f"{self._machine}{path}/{name}")
            path = "" if target.startswith("/") else path
            rest += target.split("/")[::-1]
        if not stat.S_ISREG(status.st_mode) or not status.st_mode & 0o100:
            raise _UnsafeError(f"'{path}': expected a program, got mode {status.st_mode:o}")
        return path, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)

    def _own(self, path: str) -> os.stat_result:
        """Return the status of a path that only root can change. Errors: _UnsafeError."""
        status = os.lstat(self._machine + path)
        mode = stat.S_IMODE(status.st_mode)
        if status.st_uid not in self._owners or mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise _UnsafeError(
                f"'{path}': must be owned by root and writable by root only, got owner"
                f" {status.st_uid} and mode {mode:04o}; see 'chown root' and 'chmod go-w'"
            )
        return status

    # Devices

    def _check_path(self, matched: Matched) -> None:
        """Check that the names in a command line are what they claim. Errors: RefusedError."""
        if matched.mount_point and not self._mounted(matched):
            what = "an XFS" if matched.file_system == "xfs" else f"a {matched.file_system}"
            raise RefusedError(
                f"'{matched.mount_point}': expected the mount point of {what} file system as"
                " '/proc/1/mountinfo' has it, got another directory; not run"
            )
        if not matched.device:
            return
        try:
            mode = os.lstat(self._machine + matched.device).st_mode
        except OSError as error:
            # smartctl makes the devices of 3ware, and '/dev/bus/0' is only a name for a host.
            if isinstance(error, FileNotFoundError) and re.match("/dev/(tw|bus/)", matched.device):
                return
            raise RefusedError(
                f"'{matched.device}': expected a device, got '{error.strerror}'; not run"
            ) from error
        kind = stat.S_ISBLK(mode) or stat.S_ISCHR(mode)
        if not kind or matched.device.startswith("/dev/bus/"):
            got = "a symbolic link" if stat.S_ISLNK(mode) else f"a file of mode {mode:o}"
            raise RefusedError(f"'{matched.device}': expected a device, got {got}; not run")

    def _mounted(self, matched: Matched) -> tuple[str, str] | None:
        r"""Return number ('8:1') and device of a mount of the expected kind, or None.

        Source: proc(5), mountinfo: number, root and mount point are the 3rd to 5th field; a special
        character is written as '\040'. The root of a file system is a directory: nothing else that
        opening might disturb is ever named. Of btrfs a subvolume is one, too; btrfs opens nothing
        but a directory, whatever else of it may be mounted somewhere.
        """
        for line in self._text("/proc/1/mountinfo").splitlines():
            mount, _, source = line.partition(" - ")
            fields = mount.split(" ")
            kind, _, source = source.partition(" ")
            whole = len(fields) > 5 and (fields[3] == "/" or kind == "btrfs")
            if whole and kind == matched.file_system:
                at = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[4])
                if at == matched.mount_point:
                    return fields[2], source.partition(" ")[0]
        return None

    def _controllers(self, matched: Matched) -> frozenset[str]:
        """Return what one program at a time may access: disks, or hosts that answer for many."""
        program, name = matched.program, self._name(matched)
        if matched.scan:
            return frozenset({"scan", *self._hosts(_SCANNED_DRIVERS)})
        if program.vendor and not name:
            return self._hosts(program.drivers) or frozenset({program.vendor})
        if not name:
            return frozenset()
        if number := re.fullmatch(r"(?:bus/|bsg/sssraid)(\d+)", name):
            return frozenset({f"host{number[1]}"})
        if kind := re.fullmatch(r"tw([ael])(\d+)", name):
            hosts = sorted(self._hosts((_THREEWARE[kind[1]],)), key=lambda host: int(host[4:]))
            return frozenset(hosts[int(kind[2]) :][:1] or hosts or ["3ware"])
        if name.startswith("cciss/"):
            hp = allowed.PROGRAMS["ssacli"]
            return self._hosts(hp.drivers) or frozenset({hp.vendor})
        if matched.raid_type:
            directory = "/sys/class/scsi_generic" if name.startswith("sg") else "/sys/block"
            hosts = [self._host(f"{directory}/{name}/device") or name]
            # smartctl accesses the host that the type names, whichever disk goes with it.
            if other := re.search(r"aacraid,(\d+)", matched.raid_type):
                hosts.append(f"host{int(other[1])}")
            return frozenset(hosts)
        if name.startswith("sg"):
            path = f"/sys/class/scsi_generic/{name}/device"
            disks = map(self._key, self._names(path + "/block"))
            return frozenset(disks) or frozenset({self._raid(self._host(path)) or name})
        whole = self._whole(name)
        keys = frozenset(map(self._key, self._leaves(whole)))
        return keys | {whole} if whole.startswith("md") else keys

    def _devices(self, matched: Matched) -> tuple[str, ...]:
        """Return the devices of a command line, without the volume that only leads to its disk."""
        name = self._name(matched)
        if not name or matched.raid_type or matched.program.vendor:
            return ()
        if re.fullmatch(r"sg\d+", name):
            return tuple(self._names(f"/sys/class/scsi_generic/{name}/device/block"))
        if re.fullmatch(r"nvme\d+", name):
            namespace = re.compile(rf"{name}n\d+")
            return tuple(block for block in self._names("/sys/block") if namespace.fullmatch(block))
        return (self._whole(name),)

    def _name(self, matched: Matched) -> str:
        """Return the kernel's name of the device in a command line, or ''."""
        if matched.mount_point:
            number, source = self._mounted(matched) or ("", "")
            if number.startswith("0:") and source.startswith("/dev/"):
                # btrfs, whose number is no device's: mountinfo has one of its devices, as it was
                # mounted.
                return os.path.basename(os.path.realpath(self._machine + source))
            try:
                return os.path.basename(os.readlink(f"{self._machine}/sys/dev/block/{number}"))
            except OSError:
                return number
        return matched.device.removeprefix("/dev/")

    def _hosts(self, drivers: tuple[str, ...]) -> frozenset[str]:
        hosts = self._names("/sys/class/scsi_host")
        return frozenset(host for host in hosts if self._driver(host) in drivers)

    def _driver(self, host: str) -> str:
        """Return the driver of a SCSI host, or ''.

        Limits: for years arcmsr gave the kernel no 'proc_name'; then the adapter's PCI driver is
        read.
        """
        path = f"/sys/class/scsi_host/{host}"
        name = self._text(path + "/proc_name")
        if name in ("", "(null)", "<NULL>"):
            try:
                name = os.path.basename(os.readlink(f"{self._machine}{path}/device/../driver"))
            except OSError:
                return ""
        return name

    def _host(self, path: str) -> str:
        """Return the host of a SCSI device, from its address H:C:T:L, or ''."""
        addresses = self._names(path + "/scsi_device")
        return f"host{addresses[0].split(':')[0]}" if addresses else ""

    def _raid(self, host: str) -> str:
        return host if self._driver(host) in RAID_DRIVERS else ""

    def _key(self, disk: str) -> str:
        """Return the exclusive unit of a disk: itself, or the RAID controller that it shares."""
        nvme = re.match(r"nvme\d+", disk)
        return nvme[0] if nvme else self._raid(self._host(f"/sys/block/{disk}/device")) or disk

    def _whole(self, name: str) -> str:
        """Return the device that contains a partition."""
        for whole in self._names("/sys/block"):
            if name.startswith(whole) and self._text(f"/sys/block/{whole}/{name}/partition"):
                return whole
        return name

    def _leaves(self, name: str) -> set[str]:
        """Return the disks at the bottom of a device."""
        seen: set[str] = set()
        leaves: set[str] = set()
        rest = [name]
        while rest:
            whole = rest.pop()
            if whole in seen:
                continue
            seen.add(whole)
            slaves = self._names(f"/sys/block/{whole}/slaves")
            rest += map(self._whole, slaves)
            if not slaves:
                leaves.add(whole)
        return leaves

    def _names(self, path: str) -> list[str]:
        """Return the names in a directory; none if it does not exist."""
        try:
            return sorted(os.listdir(self._machine + path))
        except OSError:
            return []

    def _text(self, path: str) -> str:
        """Return the text of an attribute; '' if there is none: a process may have ended."""
        try:
            with open(self._machine + path, encoding="utf-8", errors="replace") as file:
                return file.read().strip()
        except OSError:
            return ""
