"""Vendor states of RAID controllers: their classes, and how two states are merged."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.raid.controller import ComponentHealth, ComponentState
from iowarden.collectors.raid.output import EMPTY_VALUES, printable, ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from iowarden.collectors.raid.controller import (
        Battery,
        Controller,
        ControllerArray,
        PhysicalDisk,
        Sensor,
    )

_Named = TypeVar("_Named", "ControllerArray", "Battery", "Sensor")
_PERCENT = lazy_pattern(r"([0-9]{1,3}(?:\.[0-9]{1,3})?) ?%")


def _all(health: ComponentHealth, *states: str) -> dict[str, ComponentHealth]:
    return dict.fromkeys(states, health)


DEAD = _all(
    ComponentHealth.FAILED,
    *("failed", "failure", "dead", "defunct", "offline", "missing"),
    *("incomplete", "foreign incomplete", "inoperable"),
)
"""States of an array or a disk with the same meaning for all vendors.

Source: 'Defunct' (DDD) and 'Offline' are from IBM's ServeRAID guide (states of physical and logical
drives), 'Dead' from Adaptec's storage manager (2002), 'Offline' and 'Failed' from mfireg.h
(MFI_LD_STATE_OFFLINE, MFI_PD_STATE_OFFLINE and _FAILED), 'Incomplete' from Areca's 'rsf info'
(disks of a raid set are missing), 'INOPERABLE' from tw_cli(8). 'Foreign incomplete' is unchecked.
"""
WORKING = _all(
    ComponentHealth.BUSY,
    *("impacted", "verify", "verifying", "verification", "checking", "scrubbing", "media scan"),
    *("consistency check", "check consistency", "background consistency check", "patrol read"),
    *("background init", "background initialization", "background initializing", "bgi"),
    *("foreground init", "foreground initialization", "foreground initializing"),
    *("parity initialization", "background parity initialization", "initialize"),
    *("initializing", "initialization", "building", "synchronize", "synchronizing"),
    *("synchronization", "compact", "compacting", "compaction", "expand", "expanding"),
    *("expansion", "migrate", "migrating", "migration", "logical-drive migration"),
    *("reconstruct", "reconstruction", "reconfigure", "reconfiguring", "reconfiguration"),
)
"""Tasks of an array, for all vendors, during which it has full redundancy.

Source: Adaptec's storage manager (2002; 'Impacted': a verification is performed), IBM's notes of
'arcconf GETSTATUS' (synchronization, migration, compaction and expansion), IBM's ServeRAID guide (a
logical drive that migrates is okay), mfireg.h (MFI_LD_PROGRESS_CC, _BGI, _FGI, _RECON, where
reconstruction is a change of level), tw_cli(8). 'rebuild' is not among them.
"""
LEARNING = _all(
    ComponentHealth.BUSY,
    *("learning", "relearning", "relearn", "learn cycle active", "learn cycle in progress"),
    *("calibrating", "calibration", "testing"),
)
"""States of a battery during its monthly learn cycle: it is discharged and charged again."""
UNREPORTED = _all(
    ComponentHealth.ABSENT,
    *("not installed", "not present", "not available", "not reported", "not reportable"),
    *("not supported", "unsupported", "not applicable", "no device", "none", "absent"),
    *("n/a", "n.a.", "na", "-"),
)
"""States of a fan, sensor or supply that the enclosure does not report.

Source: SES-3, table of element status codes ('unsupported', 'not installed', 'not available');
check_raid, which takes tw_cli's 'NOT-REPORTABLE', 'NOT-INSTALLED' and 'NO-DEVICE' for that.
"""


SWITCH = {"enabled": True, "disabled": False}
"""Values of a switch."""
WELL = frozenset({ComponentHealth.OK, ComponentHealth.BUSY})
"""Complete, and no failure is predicted."""


def classify(word: str, meanings: Mapping[str, ComponentHealth]) -> ComponentState:
    """Classify a vendor state, ignoring case and blanks; a percentage is removed.

    Joined states are classified by their parts, see `health_of`. An empty state, and one that is
    not in `meanings`, becomes `attention`, and keeps the vendor's term.
    """
    told = " ".join(word.split())
    percent = _PERCENT.search(told)
    bare = re.sub(r"\s*\(?\s*[0-9.]{1,8} ?%\s*\)?", "", told) if percent else told
    return ComponentState(health_of(bare, meanings), bare or told, ratio(percent))


_JOINT = lazy_pattern(r" ?[,/&+_;|] ?| (?:with|and) | ?\((?=[^()]{1,40}\)$)|\)$")


def health_of(word: str, meanings: Mapping[str, ComponentHealth]) -> ComponentHealth:
    """Return the class of a state without a percentage, ignoring case.

    Controllers join states and tasks: 'Build/Verify with fix', 'Degraded, Rebuilding'. A joint that
    has no row of its own is as bad as its worst part; a rebuild is why an array is degraded. With
    an unknown part it is `attention`.
    """
    whole = word.casefold()
    if whole in meanings:
        return meanings[whole]
    parts = [part for part in _JOINT.split(whole) if part]
    classes = {meanings.get(part, ComponentHealth.ATTENTION) for part in parts}
    if not classes or ComponentHealth.ATTENTION in classes:
        return ComponentHealth.ATTENTION
    if ComponentHealth.REBUILDING in classes:
        classes -= {ComponentHealth.DEGRADED}
    return min(classes, key=_RANK.index)


_UNCOUNTED = EMPTY_VALUES | {"not available", "none"}


def counts(printed: Iterable[tuple[str, str]]) -> tuple[dict[str, int], list[str]]:
    """Return fault counts by name, and those that are no numbers, as printed.

    A count that cannot be read may not be 0: its component needs attention. Placeholders for a
    count that is not available, and '', are neither.
    """
    found: dict[str, int] = {}
    odd: list[str] = []
    for name, value in printed:
        if re.fullmatch(r"[0-9]{1,15}", value):
            found[name] = int(value)
        elif value.casefold() not in _UNCOUNTED:
            odd.append(f"{name}: {printable(value[:80])}")
    return found, odd


def downgraded(
    state: ComponentState, odd: Sequence[str], health: ComponentHealth = ComponentHealth.ATTENTION
) -> ComponentState:
    """Return a good state lowered to `health` because `odd` is reported in addition."""
    if not odd or state.health not in WELL:
        return state
    return ComponentState(health, ", ".join(filter(None, (state.word, *odd))), state.done_ratio)


_RANK = (
    ComponentHealth.FAILED,
    ComponentHealth.FAILING,
    ComponentHealth.ATTENTION,
    ComponentHealth.DEGRADED,
    ComponentHealth.REBUILDING,
    ComponentHealth.BUSY,
    ComponentHealth.OK,
    ComponentHealth.ABSENT,
)


def worst(one: ComponentState, other: ComponentState) -> ComponentState:
    """Return the worse of two states of one component; the first of equals."""
    return min(one, other, key=lambda state: _RANK.index(state.health))


def ready(health: ComponentHealth, word: str) -> bool | None:
    """Return whether the battery of a cache is ready; None: there is none, or it is not reported.

    During a learn cycle it protects the cache, or the card is in write-through.
    """
    unsure = health is ComponentHealth.ABSENT or word.casefold() in LEARNING
    return None if unsure else health is ComponentHealth.OK


def once(components: Iterable[_Named]) -> tuple[_Named, ...]:
    """Merge arrays, batteries or sensors of the same name, with the worst of their states."""
    found: dict[str, _Named] = {}
    for each in components:
        before = found.setdefault(each.name, each)
        one, other = _own(before), _own(each)
        if one and other:
            found[each.name] = replace(before, state=worst(one, other))
    return tuple(found.values())


def _own(part: ControllerArray | Battery | Sensor) -> ComponentState | None:
    return part.state


def agreed(
    one: Iterable[PhysicalDisk], other: Iterable[PhysicalDisk], commands: Sequence[str]
) -> tuple[tuple[PhysicalDisk, ...], list[str]]:
    """Merge the disks that two outputs list; also return where they disagree on a state.

    Such a disk has the worse of both states, and all else from the first. `commands` are those of
    the outputs.
    """
    found = {each.slot: each for each in one}
    odd: list[str] = []
    for each in other:
        before = found.setdefault(each.slot, each)
        if before.state.health is not each.state.health:
            expected = f"expected '{before.state.word}', as '{commands[0]}' reports"
            odd.append(f"'{commands[1]}': {each.slot}: {expected}, got '{each.state.word}'")
            found[each.slot] = replace(before, state=worst(before.state, each.state))
    return tuple(found.values()), odd


def combined_reports(one: Controller, other: Controller, commands: Sequence[str]) -> Controller:
    """Merge a controller from two outputs of `commands`: the first takes precedence."""
    disks, odd = agreed(one.disks, other.disks, commands)
    return replace(
        one,
        model=one.model or other.model,
        serial=one.serial or other.serial,
        firmware=one.firmware or other.firmware,
        state=one.state or other.state,
        memory_bytes=one.memory_bytes or other.memory_bytes,
        arrays=once((*one.arrays, *other.arrays)),
        disks=disks,
        batteries=once((*one.batteries, *other.batteries)),
        sensors=once((*one.sensors, *other.sensors)),
        read_errors=tuple(dict.fromkeys((*one.read_errors, *other.read_errors, *odd))),
    )


def unknown_caches(arrays: Iterable[ControllerArray]) -> tuple[str, ...]:
    """Return why the write cache state of arrays is unknown although a policy is reported."""
    told: dict[str, list[str]] = {}
    for each in arrays:
        policy = each.policy
        if policy and policy.write_back is None and policy.word.casefold() not in EMPTY_VALUES:
            told.setdefault(policy.word, []).append(each.name)
    return tuple(
        f"write cache of {names[0]}{' and others' if len(names) > 1 else ''}: expected a known"
        f" policy, got '{word}'"
        for word, names in told.items()
    )


def unexplained(controller: Controller) -> Iterator[str]:
    """Yield the arrays in write-through although set to write-back, if no battery explains it."""
    for each in controller.arrays if not controller.batteries else ():
        policy = each.policy
        if policy and policy.default_write_back and policy.write_back is False:
            yield (
                f"{each.name} is configured as write-back but is in write-through: expected the"
                " battery state as the reason, got none"
            )
