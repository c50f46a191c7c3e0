"""What the words of RAID controllers for states mean, and what two states of one thing come to."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from iowarden.collectors.raid.controller import Health, State
from iowarden.collectors.raid.output import UNTOLD, printable, ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iowarden.collectors.raid.controller import Array, Battery, Controller, PhysicalDisk, Sensor

_Named = TypeVar("_Named", "Array", "Battery", "Sensor")
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?) ?%")


def _all(health: Health, *words: str) -> dict[str, Health]:
    return dict.fromkeys(words, health)


DEAD = _all(
    Health.FAILED,
    *("failed", "failure", "dead", "defunct", "offline", "missing"),
    *("incomplete", "foreign incomplete", "inoperable"),
)
"""Of an array or a disk, whoever made the controller: they are what they say.

Source: 'Defunct' (DDD) and 'Offline' are of IBM's ServeRAID guide (states of physical and logical
drives), 'Dead' of Adaptec's storage manager (2002), 'Offline' and 'Failed' of mfireg.h
(MFI_LD_STATE_OFFLINE, MFI_PD_STATE_OFFLINE and _FAILED), 'Incomplete' of Areca's 'rsf info' (disks
of a raid set are missing), 'INOPERABLE' of tw_cli(8). 'Foreign incomplete' is unchecked.
"""
WORKING = _all(
    Health.BUSY,
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
"""Of an array, or what runs at it, whoever made the controller: all of it is there meanwhile.

Source: Adaptec's storage manager (2002; 'Impacted': a verification is performed), IBM's notes of
'arcconf GETSTATUS' (synchronization, migration, compaction and expansion), IBM's ServeRAID guide
(a logical drive that migrates is okay), mfireg.h (MFI_LD_PROGRESS_CC, _BGI, _FGI, _RECON, where
reconstruction is a change of level), tw_cli(8). 'rebuild' is not among them.
"""
LEARNING = _all(
    Health.BUSY,
    *("learning", "relearning", "relearn", "learn cycle active", "learn cycle in progress"),
    *("calibrating", "calibration", "testing"),
)
"""Of a battery whose capacity is measured, each month or so: it is discharged and charged again."""
UNREPORTED = _all(
    Health.ABSENT,
    *("not installed", "not present", "not available", "not reported", "not reportable"),
    *("not supported", "unsupported", "not applicable", "no device", "none", "absent"),
    *("n/a", "n.a.", "na", "-"),
)
"""Of a fan, sensor or supply of which the enclosure tells nothing.

Source: SES-3, table of element status codes ('unsupported', 'not installed', 'not available');
check_raid, which takes tw_cli's 'NOT-REPORTABLE', 'NOT-INSTALLED' and 'NO-DEVICE' for that.
"""


SWITCH = {"enabled": True, "disabled": False}
"""What a setting's word switches."""
WELL = frozenset({Health.OK, Health.BUSY})
"""All of it is there, and nothing foretells that it will not be."""


def judged(word: str, meanings: Mapping[str, Health]) -> State:
    """Return what a word means, whatever its case and blanks; a percentage is taken out.

    An empty word, and one that is not in `meanings`, is `attention`, and keeps the word.
    """
    told = " ".join(word.split())
    percent = _PERCENT.search(told)
    bare = re.sub(r"\s*\(?\s*[0-9.]{1,8} ?%\s*\)?", "", told) if percent else told
    health = meanings.get(bare.casefold(), Health.ATTENTION)
    return State(health, bare or told, ratio(percent))


_UNCOUNTED = UNTOLD | {"not available", "none"}


def counts(told: Iterable[tuple[str, str]]) -> tuple[dict[str, int], list[str]]:
    """Return counts of faults by what they count, and which of them are no numbers, as they stand.

    Of a count that cannot be read nobody knows that it is 0: what it is of needs attention. Words
    for a count that is not kept, and '', are neither.
    """
    found: dict[str, int] = {}
    odd: list[str] = []
    for name, value in told:
        if re.fullmatch(r"[0-9]{1,15}", value):
            found[name] = int(value)
        elif value.casefold() not in _UNCOUNTED:
            odd.append(f"{name}: {printable(value[:80])}")
    return found, odd


def doubted(state: State, odd: Sequence[str], health: Health = Health.ATTENTION) -> State:
    """Return a state that is not well where something `odd` is told beside it: `health`."""
    if not odd or state.health not in WELL:
        return state
    return State(health, ", ".join(filter(None, (state.word, *odd))), state.done_ratio)


_RANK = (
    Health.FAILED,
    Health.FAILING,
    Health.ATTENTION,
    Health.DEGRADED,
    Health.REBUILDING,
    Health.BUSY,
    Health.OK,
    Health.ABSENT,
)


def worse(one: State, other: State) -> State:
    """Return the worse of two states of one thing; of equals the first."""
    return min(one, other, key=lambda state: _RANK.index(state.health))


def ready(health: Health, word: str) -> bool | None:
    """Return whether a cache's battery is relied on; None: none is there, or it is not told.

    While its capacity is measured it keeps the cache, or the card writes through.
    """
    unsure = health is Health.ABSENT or word.casefold() in LEARNING
    return None if unsure else health is Health.OK


def once(told: Iterable[_Named]) -> tuple[_Named, ...]:
    """Return arrays, batteries or sensors of one name as one, with the worst of their states."""
    found: dict[str, _Named] = {}
    for each in told:
        before = found.setdefault(each.name, each)
        one, other = _own(before), _own(each)
        if one and other:
            found[each.name] = replace(before, state=worse(one, other))
    return tuple(found.values())


def _own(part: Array | Battery | Sensor) -> State | None:
    return part.state


def agreed(
    one: Iterable[PhysicalDisk], other: Iterable[PhysicalDisk], told: Sequence[str]
) -> tuple[tuple[PhysicalDisk, ...], list[str]]:
    """Return the disks that two outputs list, and where they do not agree on one.

    It has the worse of both states then, and all else as the first tells it. `told`: the commands.
    """
    found = {each.slot: each for each in one}
    odd: list[str] = []
    for each in other:
        before = found.setdefault(each.slot, each)
        if before.state.health is not each.state.health:
            expected = f"expected '{before.state.word}', as '{told[0]}' tells"
            odd.append(f"'{told[1]}': {each.slot}: {expected}, got '{each.state.word}'")
            found[each.slot] = replace(before, state=worse(before.state, each.state))
    return tuple(found.values()), odd


def joined(one: Controller, other: Controller, told: Sequence[str]) -> Controller:
    """Return a controller as two outputs tell it: the first where both do. `told`: the commands."""
    disks, odd = agreed(one.disks, other.disks, told)
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
        unread=tuple(dict.fromkeys((*one.unread, *other.unread, *odd))),
    )


def unknown_caches(arrays: Iterable[Array]) -> tuple[str, ...]:
    """Return why it is not known of arrays whether they cache writes, though something is told."""
    told: dict[str, list[str]] = {}
    for each in arrays:
        policy = each.policy
        if policy and policy.write_back is None and policy.word.casefold() not in UNTOLD:
            told.setdefault(policy.word, []).append(each.name)
    return tuple(
        f"whether {names[0]}{' and others' if len(names) > 1 else ''} caches writes: expected a"
        f" word that is known, got '{word}'"
        for word, names in told.items()
    )
