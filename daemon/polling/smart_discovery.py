"""Drive discovery: when drives are searched for, and the last result."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.block import block_devices
from iowarden.collectors.block.block_devices import Topology
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.machine import PROBE, Machine
from iowarden.collectors.model import AbsentError, ReadError, trace
from iowarden.collectors.raid.areca.areca_access import is_supported
from iowarden.collectors.smart import smartctl_runner
from iowarden.collectors.smart.discovery import ConfiguredDrive, Discovered
from iowarden.collectors.smart.drive import ReadStatus

if TYPE_CHECKING:
    from iowarden.collectors.smart.drive import AccessMethod
    from iowarden.collectors.smart.smartctl_runner import SmartctlResult

Find = Callable[[Machine, Topology, Sequence[ConfiguredDrive], Discovered | None], Discovered]

FIND_SECONDS = 600.0
RETRY_INTERVAL_SECONDS = 60.0
"""Retry interval while smartctl or the probe is missing."""
RECORDED = PROBE.rstrip("/")
"""Path of the probe's recorded output."""
_WATCHED = ("/sys/class/nvme", "/sys/class/scsi_generic")
"""A change in these directories, or in '/sys/block', triggers a new discovery."""
_DISK = re.compile(r"sd[a-z]+|nvme\d+n\d+")
_HANGS_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    """The result of one discovery; `read_texts` is what it read, for a recorder."""

    discovered: Discovered | None = None
    topology: Topology | None = None
    problem: str = ""
    unusable: SmartctlResult | None = None
    """Why smartctl cannot be run on this machine."""
    read_texts: Mapping[str, bytes] = field(default_factory=dict)

    def can_poll(self, target: AccessMethod) -> bool:
        """Return whether a program is installed that may access a drive."""
        if self.unusable is None:
            return True
        return self.unusable.status is ReadStatus.NO_SMARTCTL and is_supported(target)


class Discovery:
    """Schedules drive discovery. Under the poller's lock; seconds are of the program's clock."""

    def __init__(self) -> None:
        """Start with a discovery due."""
        self.result = DiscoveryResult()
        self.seconds: float | None = None
        """When the drives of `result` were found; None: no discovery has completed."""
        self.since: float | None = None
        """When the running discovery started."""
        self.hangs = False
        self.listed: Mapping[str, tuple[str, ...]] = {}
        self._due = float("-inf")
        self._only_program = False
        """The next discovery only checks for smartctl, which was missing, and keeps the drives."""

    def notice(self, listed: Mapping[str, tuple[str, ...]], now: float) -> None:
        """Take a new `listing`; a change triggers a discovery."""
        if listed != self.listed:
            self.listed, self._due, self._only_program = listed, now, False

    def restart(self) -> None:
        """Discover drives at once, because the configuration changed."""
        self._due, self._only_program = float("-inf"), False

    def recheck(self, answer: SmartctlResult, now: float) -> None:
        """Take a result that may apply to all drives: check that once."""
        missing = answer.status in {ReadStatus.NO_PROBE, ReadStatus.NO_SMARTCTL}
        if missing and self.result.unusable is None:
            self._due = min(self._due, now)

    def begin(self, now: float) -> bool:
        """Return whether a discovery is due; if so, it is in progress from now on."""
        if self.since is not None or now < self._due:
            return False
        self.since = now
        # Cleared before the discovery ends: a change meanwhile triggers another one.
        self._due = now + FIND_SECONDS
        return True

    def former(self, now: float) -> DiscoveryResult | None:
        """Return the discovery whose drives stay valid, if only smartctl is checked for."""
        recent = now - (self.seconds or 0.0) < FIND_SECONDS
        return self.result if self._only_program and recent else None

    def end(self, result: DiscoveryResult, now: float) -> bool:
        """Take the result of a discovery; return whether its drives are to be used."""
        self.since, self.hangs = None, False
        before, self.result = self.result, result
        self._only_program = result.unusable is not None
        if result.unusable is not None:
            self._due = min(self._due, now + RETRY_INTERVAL_SECONDS)
        if result.discovered is None:
            self.result = replace(result, discovered=before.discovered, topology=before.topology)
        elif result.discovered is before.discovered:
            return False
        self.seconds = now
        return True

    def begins_to_hang(self, now: float) -> bool:
        """Return whether the discovery is now found to hang, for the first time."""
        hung = self.since is not None and now - self.since > _HANGS_SECONDS
        if not hung or self.hangs:
            return False
        self.hangs = True
        return True


def listing(root: Machine) -> dict[str, tuple[str, ...]]:
    """Return a listing that changes when a drive is added, removed or replaced.

    Errors: AbsentError, ReadError (of '/sys/block').
    """
    names = root.names(block_devices.DIRECTORY)
    listed = {block_devices.DIRECTORY: tuple(names)}
    for name in names:
        if _DISK.fullmatch(name):
            path = diskseq_path(name)
            try:
                listed[path] = (root.read(path).strip(),)
            except (AbsentError, ReadError):
                listed[path] = ()  # a kernel before 5.15, or it was removed just now
    # The probe's results are part of a discovery, and come later in a recording.
    for path in (*_WATCHED, *((RECORDED,) if root.path else ())):
        try:
            listed[path] = tuple(root.names(path))
        except (AbsentError, ReadError):
            listed[path] = ()
    return listed


def diskseq_path(device: str) -> str:
    """Return the path of the sequence number that distinguishes devices with the same name."""
    return f"{block_devices.DIRECTORY}/{device}/diskseq"


def discover(
    root: Machine,
    find: Find,
    drives: Sequence[ConfiguredDrive],
    seen: dict[str, bytes],
    before: Discovered | None,
    former: DiscoveryResult | None = None,
) -> DiscoveryResult:
    """Discover drives once; every outcome is returned as a DiscoveryResult.

    `before` has the disks that a controller keeps if it does not answer this time. `former` already
    has the drives: they are searched for only if smartctl was installed since.
    """
    unusable = topology = None
    try:
        unusable = smartctl_runner.usable(root)
        if unusable is not None:
            name, text = unusable.text
            seen[name] = text
            if former is not None and former.discovered is not None:
                return replace(former, unusable=unusable, read_texts={**former.read_texts, **seen})
        topology = block_devices.read_block(root)
        return DiscoveryResult(find(root, topology, drives, before), topology, "", unusable, seen)
    except (AbsentError, ReadError) as error:
        problem = f"drive discovery failed: {error}"
    except Exception as error:  # noqa: BLE001 - a bug of ours must not end the poller
        problem = f"drive discovery failed: bug: {trace(error)}"
    return DiscoveryResult(None, topology, problem, unusable, seen)
