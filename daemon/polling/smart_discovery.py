"""When drives are looked for, and what the last look found."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.block import block_devices
from iowarden.collectors.block.block_devices import Topology
from iowarden.collectors.machine import PROBE, Root
from iowarden.collectors.model import AbsentError, ReadError, trace
from iowarden.collectors.raid.areca import areca_smart
from iowarden.collectors.smart import smartctl_runner
from iowarden.collectors.smart.discovery import ConfiguredDrive, Found
from iowarden.collectors.smart.drive import Cover

if TYPE_CHECKING:
    from iowarden.collectors.smart.drive import Target
    from iowarden.collectors.smart.smartctl_runner import Answer

Find = Callable[[Root, Topology, Sequence[ConfiguredDrive]], Found]

FIND_SECONDS = 600.0
AGAIN_SECONDS = 60.0
"""So soon is looked again for a smartctl, or a probe, that was missing."""
RECORDED = PROBE.rstrip("/")
"""Where a recording has what the probe answered."""
_WATCHED = ("/sys/class/nvme", "/sys/class/scsi_generic")
"""What comes and goes there, and in '/sys/block', is reason to look for drives anew."""
_DISK = re.compile(r"sd[a-z]+|nvme\d+n\d+")
_HANGS_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Looked:
    """What one look for drives came to; `seen` is what it read, for who records."""

    found: Found | None = None
    topology: Topology | None = None
    problem: str = ""
    unusable: Answer | None = None
    """Why smartctl cannot be run on this machine."""
    seen: Mapping[str, bytes] = field(default_factory=dict)

    def may_ask(self, target: Target) -> bool:
        """Whether a program is there that may know a drive."""
        if self.unusable is None:
            return True
        return self.unusable.cover is Cover.NO_SMARTCTL and areca_smart.has_way(target)


class Discovery:
    """When drives are looked for. Under the poller's lock; seconds are of the program's clock."""

    def __init__(self) -> None:
        """Begin with a look that is due."""
        self.looked = Looked()
        self.seconds: float | None = None
        """When the drives of `looked` were found; None: there was no look yet."""
        self.since: float | None = None
        """When the look began that is under way."""
        self.hangs = False
        self.listed: Mapping[str, tuple[str, ...]] = {}
        self._due = float("-inf")
        self._only_program = False
        """The next look is for smartctl, which was missing, and not for drives."""

    def notice(self, listed: Mapping[str, tuple[str, ...]], now: float) -> None:
        """Take what `listing` returns: what is another than before is reason to look."""
        if listed != self.listed:
            self.listed, self._due, self._only_program = listed, now, False

    def look_anew(self) -> None:
        """Have drives looked for at once, by another configuration."""
        self._due, self._only_program = float("-inf"), False

    def doubt(self, answer: Answer, now: float) -> None:
        """Take an answer that may be true of all drives: find out once."""
        missing = answer.cover in {Cover.NO_PROBE, Cover.NO_SMARTCTL}
        if missing and self.looked.unusable is None:
            self._due = min(self._due, now)

    def begin(self, now: float) -> bool:
        """Return whether a look is due; it is under way from then on."""
        if self.since is not None or now < self._due:
            return False
        self.since = now
        # Ahead of the end of the look: a change meanwhile is reason for another.
        self._due = now + FIND_SECONDS
        return True

    def former(self, now: float) -> Looked | None:
        """Return the look whose drives hold on, where only smartctl is looked for."""
        recent = now - (self.seconds or 0.0) < FIND_SECONDS
        return self.looked if self._only_program and recent else None

    def end(self, looked: Looked, now: float) -> bool:
        """Take what a look came to; return whether its drives are to be taken over."""
        self.since, self.hangs = None, False
        before, self.looked = self.looked, looked
        self._only_program = looked.unusable is not None
        if looked.unusable is not None:
            self._due = min(self._due, now + AGAIN_SECONDS)
        if looked.found is None:
            self.looked = replace(looked, found=before.found, topology=before.topology)
        elif looked.found is before.found:
            return False
        self.seconds = now
        return True

    def begins_to_hang(self, now: float) -> bool:
        """Return whether it is found only now that the look hangs."""
        hung = self.since is not None and now - self.since > _HANGS_SECONDS
        if not hung or self.hangs:
            return False
        self.hangs = True
        return True


def listing(root: Root) -> dict[str, tuple[str, ...]]:
    """Return what changes when a drive comes, goes, or takes the place of another.

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
                listed[path] = ()  # a kernel before 5.15, or it has just gone
    # What is asked of the probe is part of what a look finds, and comes later in a recording.
    for path in (*_WATCHED, *((RECORDED,) if root.path else ())):
        try:
            listed[path] = tuple(root.names(path))
        except (AbsentError, ReadError):
            listed[path] = ()
    return listed


def diskseq_path(device: str) -> str:
    """Return where the kernel tells a block device from another by the same name."""
    return f"{block_devices.DIRECTORY}/{device}/diskseq"


def look(
    root: Root,
    find: Find,
    drives: Sequence[ConfiguredDrive],
    seen: dict[str, bytes],
    former: Looked | None = None,
) -> Looked:
    """Look for drives once; every way this can end is a Looked.

    `former` has the drives already: they are looked for only where smartctl has come since.
    """
    unusable = topology = None
    try:
        unusable = smartctl_runner.usable(root)
        if unusable is not None:
            name, text = unusable.text
            seen[name] = text
            if former is not None and former.found is not None:
                return replace(former, unusable=unusable, seen={**former.seen, **seen})
        topology = block_devices.read_block(root)
        return Looked(find(root, topology, drives), topology, "", unusable, seen)
    except (AbsentError, ReadError) as error:
        problem = f"drive discovery failed: {error}"
    except Exception as error:  # noqa: BLE001 - a mistake of ours must not end the poller
        problem = f"drive discovery failed: bug: {trace(error)}"
    return Looked(None, topology, problem, unusable, seen)
