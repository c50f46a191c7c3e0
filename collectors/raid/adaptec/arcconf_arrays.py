"""Arrays and logical devices of Adaptec's controllers, parsed from 'arcconf GETCONFIG'. Pure.

Source: as of `arcconf`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.raid import output, states
from iowarden.collectors.raid.adaptec.arcconf_disks import CHANNEL, location
from iowarden.collectors.raid.adaptec.arcconf_output import (
    Block,
    megabytes,
    serial_of,
    switch,
    titled,
)
from iowarden.collectors.raid.controller import (
    CachePolicy,
    ComponentHealth,
    ComponentState,
    ControllerArray,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_ARRAY_STATES = {
    **states.DEAD,
    **states.WORKING,
    "optimal": ComponentHealth.OK,
    "okay": ComponentHealth.OK,
    "ok": ComponentHealth.OK,
    "pending": ComponentHealth.BUSY,
    "rapid parity initialization in progress": ComponentHealth.BUSY,
    "rapid parity initialization pending": ComponentHealth.BUSY,
    "queued for expansion": ComponentHealth.BUSY,
    "sed qual in progress": ComponentHealth.BUSY,
    "transforming": ComponentHealth.BUSY,
    "has initializing logical device": ComponentHealth.BUSY,
    "has erasing drive": ComponentHealth.BUSY,
    "logical devices not contiguous": ComponentHealth.OK,
    "rebuilding": ComponentHealth.REBUILDING,
    "recovering": ComponentHealth.REBUILDING,
    "degraded, rebuilding": ComponentHealth.REBUILDING,
    "suboptimal, rebuilding": ComponentHealth.REBUILDING,
    "degraded": ComponentHealth.DEGRADED,
    "sub-optimal": ComponentHealth.DEGRADED,
    "suboptimal": ComponentHealth.DEGRADED,
    "suboptimal, fault tolerant": ComponentHealth.DEGRADED,
    "critical": ComponentHealth.DEGRADED,
    "interim recovery": ComponentHealth.DEGRADED,
    "interim recovery mode": ComponentHealth.DEGRADED,
    "ready for recovery": ComponentHealth.DEGRADED,
    "ready for rebuild": ComponentHealth.DEGRADED,
    "has failed physical device": ComponentHealth.DEGRADED,
    "has failed logical device": ComponentHealth.FAILED,
}
"""States of logical devices and arrays. 'Impacted' is a logical device that is being verified or
built in the background: with an unknown task it needs attention. 'Pending': the build is queued.
'SED Qual' is from Microchip's guide (SED support, 5.6). Only 'Optimal', 'Okay', 'Ok' and 'Degraded'
were seen in captures.
"""
_ARRAY_GROUP_STATES = _ARRAY_STATES | {"failed": ComponentHealth.ATTENTION}
"""States of an array that contains logical devices: by the guide 'Failed' means that it lost a disk
or a logical device, whose own states are more precise.
"""
TASK_STATES = {
    **states.WORKING,
    "rebuild": ComponentHealth.REBUILDING,
    "rebuilding": ComponentHealth.REBUILDING,
    **dict.fromkeys(
        (
            *("build", "clear", "zero", "fix", "copyback", "copy back", "background verify"),
            *("modification", "modify", "morph", "morphing", "format", "formatting"),
            *("secure erase", "erase", "erasing", "uninitialize"),
        ),
        ComponentHealth.BUSY,
    ),
}
"""Tasks, by their single words: 'Build/Verify with fix' is three of them. 'Build', 'Clear',
'Verify with fix' and 'Build/Verify with fix' were seen in captures; the others are from guides.
"""
ENTITY = lazy_pattern(
    r"(logical device|logical drive|maxcache device|array) number (\d{1,6})", re.ASCII
)
_SEGMENT = lazy_pattern(r"(?:group \d{1,4}, )?segment \d{1,4}|device \d{1,4}", re.ASCII)
_TASK = lazy_pattern(r"\(\s*([A-Za-z][A-Za-z /_,&-]{0,60}?)\s*:\s*(\d{1,3})\s*%\s*\)", re.ASCII)


def arrays_of(
    blocks: list[Block],
    slots: Mapping[tuple[int, int], str],
    serials: Mapping[str, str],
) -> tuple[list[ControllerArray], dict[str, str]]:
    """Return the arrays, and for each slot the name of the first array that its disk belongs to."""
    cache = titled(blocks, "cache properties")
    found: dict[str, ControllerArray] = {}
    members: dict[str, str] = {}
    entity: tuple[str, Block] | None = None
    parts: list[Block] = []

    def close() -> None:
        if entity is not None:
            name, main = entity
            array = _array(name, main, parts, cache, slots, serials)
            found[name] = array
            if not name.startswith("array "):
                for slot in array.slots:
                    members.setdefault(slot, name)

    for block in blocks:
        opened = ENTITY.fullmatch(block.title)
        inside = block.section in {"array", "logical", "maxcache"}
        if opened or not inside:
            close()
            kind = opened[1].replace("drive", "device") if opened else ""
            entity = (f"{kind} {int(opened[2])}", block) if opened else None
            parts = []
        elif entity is not None:
            parts.append(block)
    close()
    return list(found.values()), members


def _array(
    name: str,
    main: Block,
    parts: list[Block],
    cache: Block,
    slots: Mapping[tuple[int, int], str],
    serials: Mapping[str, str],
) -> ControllerArray:
    group = name.startswith("array ")
    word = main.get(
        "status of logical device", "status of logical drive", "status of maxcache", "status"
    )
    state = _array_state(word, _ARRAY_GROUP_STATES if group else _ARRAY_STATES)
    places = []
    for key, value in (pair for part in parts for pair in part.pairs):
        if _SEGMENT.fullmatch(key) is None:
            continue
        word, _, rest = value.partition("(")
        place, _, serial = rest.partition(")")
        state = _with_member(state, key, word.strip())
        if slot := _slot(place, serial.strip(), slots, serials):
            places.append(slot)
    told = main.get("drive(s) (channel,device)").split()
    places += [slot for each in told if (slot := _slot(each, "", slots, serials))]
    lost = [
        key
        for key in ("failed stripes", "defunct stripes", "defunct segments")
        if main.get(key).casefold() not in {"no", "", "not applicable"}
    ]
    # Their data are lost, although the state is 'Optimal'.
    is_well = state.health in states.WELL
    state = states.downgraded(state, lost[:1])
    if lost and not is_well:
        state = replace(state, word=f"{state.word}, {lost[0]}")
    parent = main.get("array")
    unique = main.get("volume unique identifier", "unique identifier")
    aacraid = not group and not main.get("volume unique identifier", "disk name")
    return ControllerArray(
        name=name,
        state=state,
        level=output.excerpt(main.get("raid level")),
        label=output.excerpt(
            main.get("name", "logical device name", "logical drive name", "maxcache device name")
        ),
        parent=f"array {int(parent)}" if re.fullmatch(r"\d{1,6}", parent, re.ASCII) else "",
        size_bytes=megabytes(main.get("size", "total size")),
        slots=tuple(dict.fromkeys(places)),
        # Containers are on channel 0 (aacraid.h); that the target is the container's number is
        # unchecked.
        address=f"0:{int(name.rpartition(' ')[2])}:0"
        if aacraid and name.startswith("logical")
        else "",
        # The driver's answer for page 0x80 of the vital product data (get_container_serial of
        # aachba.c), or the NAA name without '0x'.
        serial=serial_of(unique),
        policy=_policy(main, cache),
    )


def _array_state(word: str, meanings: Mapping[str, ComponentHealth]) -> ComponentState:
    """Parse a state such as 'Degraded, Rebuilding ( Rebuild : 38 % )'."""
    task = _TASK.search(word)
    if task is None:
        return states.classify(output.excerpt(word), meanings)
    bare = output.excerpt(" ".join(word.replace(task[0], " ").split()))
    done = min(int(task[2]), 100) / 100
    if bare.casefold() == "impacted":
        health = states.health_of(task[1], TASK_STATES)
    else:
        health = states.health_of(bare, meanings)
        runs = states.health_of(task[1], TASK_STATES)
        rebuilt = health is ComponentHealth.DEGRADED and runs is ComponentHealth.REBUILDING
        is_task = runs is not ComponentHealth.ATTENTION
        health = runs if is_task and (health is ComponentHealth.OK or rebuilt) else health
    return ComponentState(health, f"{bare}, {task[1]}", done)


def _with_member(state: ComponentState, segment: str, word: str) -> ComponentState:
    """Return the state of an array with a missing member, where its own state does not show it."""
    odd = [] if word.casefold() == "present" else [f"{segment} {output.excerpt(word)}"]
    health = (
        ComponentHealth.REBUILDING if word.casefold() == "rebuilding" else ComponentHealth.DEGRADED
    )
    return states.downgraded(state, odd, health)


def _slot(
    printed: str,
    serial: str,
    slots: Mapping[tuple[int, int], str],
    serials: Mapping[str, str],
) -> str:
    """Return the slot of a segment: by its serial number, by its channel, or as printed."""
    channel = CHANNEL.fullmatch(printed)
    known = serials.get(serial) if serial else None
    if known is None and channel:
        known = slots.get((int(channel[1]), int(channel[2])))
    return known or location(printed)


def _policy(main: Block, cache: Block) -> CachePolicy | None:
    """Return the cache policy of an array; new cards report the write share for all arrays."""
    caching = main.get("caching")
    if caching:
        on = switch(caching)
        share = re.match(r"(\d{1,3}) percent", cache.get("write cache percentage"), re.ASCII)
        wanted = (bool(int(share[1])) if share else None) if on else on
        works = cache.get("cache status").casefold() == "ok"
        return CachePolicy(
            wanted and works,
            on if on is False else None,
            f"caching {output.excerpt(caching)}",
            wanted,
            switch(cache.get("no-battery write cache")),
        )
    status, mode = main.get("write-cache status"), main.get("write-cache mode")
    reads, setting = (
        main.get("read-cache status", "read-cache mode"),
        main.get("write-cache setting"),
    )
    if not (status or mode or reads or setting):
        return None
    word = output.excerpt(setting or status or mode)
    forced = "when protected" not in setting.casefold() if switch(setting) else None
    return CachePolicy(switch(status or mode), switch(reads), word, switch(setting), forced)


def disk_cache_of(
    array: ControllerArray, caches: Mapping[str, bool | None], blocks: list[Block]
) -> bool | None:
    """Return whether the write cache of any disk of an array is enabled.

    Each disk reports its own; new cards have one setting for all disks that are in arrays.
    """
    told = {caches.get(slot) for slot in array.slots}
    if True in told:
        return True
    if told == {False}:
        return False
    policy = titled(blocks, "physical drive write cache policy information")
    return switch(policy.get("configured drives"))
