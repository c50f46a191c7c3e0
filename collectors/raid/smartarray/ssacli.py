"""Parser of 'ssacli' (HP's Smart Array controllers and their disks). Pure.

Source: published outputs of hpacucli, hpssacli and ssacli, from the 5i to the P816i; the states of
the agents' MIB (CPQIDA-MIB), which the tools use as well; for 'cciss_vol_status' its own source,
version 1.12. None of them marks the end of a complete output.
Units: a GB is 10^9 bytes, rounded by the tools.
"""

from __future__ import annotations

import re
from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError
from iowarden.collectors.raid import output, states
from iowarden.collectors.raid.controller import (
    Battery,
    CachePolicy,
    ComponentHealth,
    ComponentState,
    Controller,
    ControllerArray,
    PhysicalDisk,
    Sensor,
    slots_by_array,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_GB = 1000
_VOLUME_GB = 1024
"""Disks have decimal sizes, volumes binary ones: one of 35,132 cylinders with 255 heads and 32
sectors, which are 146.8 * 10^9 bytes, is '136.70 GB', and a volume of a disk of '1 TB' '931.5 GB'.
"""
_CONTROLLER_STATES = {
    "ok": ComponentHealth.OK,
    "failed": ComponentHealth.FAILED,
    "degraded": ComponentHealth.DEGRADED,
}
_GROUP_STATES = {"ok": ComponentHealth.OK}
"""States of an array that contains logical drives. 'Failed' has any failed disk, also a spare: its
logical drives and disks are more precise.
"""
_VOLUME_STATES = {
    **states.DEAD,
    **states.WORKING,
    "ok": ComponentHealth.OK,
    "transforming": ComponentHealth.BUSY,
    "queued for expansion": ComponentHealth.BUSY,
    "queued for transformation": ComponentHealth.BUSY,
    "erasing": ComponentHealth.BUSY,
    "rapid parity initialization in progress": ComponentHealth.BUSY,
    "rapid parity initialization pending": ComponentHealth.BUSY,
    "unencrypted to encrypted transformation in progress": ComponentHealth.BUSY,
    "unencrypted to encrypted transformation not started": ComponentHealth.BUSY,
    "new logical drive key rekey in progress": ComponentHealth.BUSY,
    "new logical drive key rekey request received": ComponentHealth.BUSY,
    "predictive spare rebuild ready": ComponentHealth.BUSY,
    "recovering": ComponentHealth.REBUILDING,
    "rebuilding": ComponentHealth.REBUILDING,
    "interim recovery mode": ComponentHealth.DEGRADED,
    "ready for rebuild": ComponentHealth.DEGRADED,
    "ready rebuild": ComponentHealth.DEGRADED,
    "ready for recovery": ComponentHealth.DEGRADED,
    "multi-path access degraded": ComponentHealth.DEGRADED,
    "multipath access degraded": ComponentHealth.DEGRADED,
    "not available": ComponentHealth.BUSY,
    "not yet available": ComponentHealth.BUSY,
    "shutdown": ComponentHealth.FAILED,
    "physical disk(s) not properly connected": ComponentHealth.FAILED,
    "bad connect": ComponentHealth.FAILED,
    "no access - encrypted - missing key": ComponentHealth.FAILED,
    "no access - encrypted with controller encryption not enabled": ComponentHealth.FAILED,
    "wrong drive": ComponentHealth.FAILED,
    "wrong physical drive replaced": ComponentHealth.FAILED,
    "disabled from scsi id conflict": ComponentHealth.FAILED,
}
"""Of these 'OK', 'Interim Recovery Mode', 'Ready for Rebuild' and 'Recovering' were seen. A drive
that is 'Not Available' is new and waits for an expansion; one that is 'Shutdown' was switched off
because its enclosure is overheated; with 'Predictive Spare Rebuild Ready' a disk predicts its
failure. Source: support guide of the 6400 series (September 2007), page 63, the guide of the System
Management Homepage, page 48, and a public template for Zabbix, whose table has ssacli's terms by
CPQIDA-MIB's numbers. 'Other', 'Unconfigured', 'Overheating' need attention.
"""
_DISK_STATES = {
    **states.DEAD,
    "ok": ComponentHealth.OK,
    "erase in progress": ComponentHealth.BUSY,
    "erasing": ComponentHealth.BUSY,
    "erase pending": ComponentHealth.BUSY,
    "erase queued": ComponentHealth.BUSY,
    "rebuilding": ComponentHealth.REBUILDING,
    "predictive failure": ComponentHealth.FAILING,
    "ssd wear out": ComponentHealth.FAILING,
}
"""'Erase Done' and 'Not Authenticated' are not among them. Source: as for volumes."""
_CACHE_STATES = {
    "ok": ComponentHealth.OK,
    "not configured": ComponentHealth.ABSENT,
    "not present": ComponentHealth.ABSENT,
    "temporarily disabled": ComponentHealth.DEGRADED,
    "permanently disabled": ComponentHealth.FAILED,
}
_BATTERY_STATES = {
    **states.LEARNING,
    "ok": ComponentHealth.OK,
    "recharging": ComponentHealth.BUSY,
    "charging": ComponentHealth.BUSY,
    "failed": ComponentHealth.FAILED,
    "not present": ComponentHealth.ABSENT,
    "not installed": ComponentHealth.ABSENT,
}
_PART_STATES = {
    **states.UNREPORTED,
    "ok": ComponentHealth.OK,
    "redundant": ComponentHealth.OK,
    "degraded": ComponentHealth.DEGRADED,
    "failed": ComponentHealth.FAILED,
}
_NO_WARNING = frozenset({"none", "no", "false", "not supported", "not applicable", "n/a", ""})

_ERROR = lazy_pattern(r"^[ \t]*(Error:.*)$", re.MULTILINE | re.IGNORECASE)
_BUSY = lazy_pattern(r"Another instance of \S{1,40} is running", re.IGNORECASE)
_HEADING = lazy_pattern(
    r"([^\s:#][^:]{0,80}?) in Slot (\w{1,40})((?: +\([^()]{0,80}\))*)\s*", re.ASCII
)
_CHASSIS = lazy_pattern(
    r"(?P<model>(?:MSA|RA)[\w-]{1,12}(?: [\w-]{1,12}){0,3}) in (?P<place>\S.{0,60}?)\s*", re.ASCII
)
_SERIAL = lazy_pattern(r"\(sn: ([^\s()]{1,40})\s*\)", re.ASCII)
_GROUP = lazy_pattern(
    r"array(:?) ([A-Z]{1,2})(?: - One of the drives .{1,80}\.)?(?: \((.{0,120})\))?",
    re.ASCII | re.IGNORECASE,
)
"""Of a failed disk, also of a spare: 'Array A - One of the drives on this array have failed or has
been removed. (Failed)'."""
_VOLUME = lazy_pattern(r"logicaldrive (\d{1,4})(?: \((.{0,200})\))?(?:: (.{1,80}))?", re.ASCII)
_VOLUME_BLOCK = lazy_pattern(r"logical drive: (\d{1,4})", re.ASCII | re.IGNORECASE)
_DISK = lazy_pattern(
    r"physicaldrive (\w{1,6}:\d{1,4}(?::\d{1,4})?)(?: \((.{0,200})\))?(?:: (.{1,80}))?", re.ASCII
)
_CAGE = lazy_pattern(
    r"(?P<what>\S.{0,60}?) at Port (?P<port>\w{1,6}), Box (?P<box>\d{1,4})"
    r"(?: \(Index \d{1,4}\))?, (?P<state>\S.{0,60})",
    re.ASCII,
)
_HEADLESS = lazy_pattern(
    r"(?i)\s*(?:physicaldrive |logicaldrive |array:? [A-Z]|\S.{0,40} Status:|Status:)"
)
"""Keys of a controller."""
_PAIR = lazy_pattern(r"([A-Za-z0-9][^:]{0,80}?(?: \([^()]{1,40}\))?):(?:\s+(\S.{0,200}?))?\s*")
_PROGRESS = lazy_pattern(r"[, ]*\(?(\d{1,3}(?:\.\d{1,3})?) ?% complete\)?", re.ASCII)
_SIZED = lazy_pattern(r"(?:[0-9.]{1,12}|---|\?\?) ?[KMGTP]?B", re.ASCII)
_PCI = lazy_pattern(r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.ASCII | re.IGNORECASE)
_WARNING = lazy_pattern(r"([ \t]*)warning:(?=\s|$)(.*)", re.IGNORECASE | re.ASCII)
_MEDIA_ERRORS = "warning: unrecoverable media errors"
_MEDIA_ERROR_WORD = "unrecoverable media errors"
_UNDETERMINED = f"{_MEDIA_ERROR_WORD}, drive not determined"
_AFFECTED = lazy_pattern(r"logical drives? (?:is|are) affected: ([\d ,]{1,400})", re.ASCII)
_MAX_CONTROLLERS, _MAX_PARTS = 64, 2048
"""Maximum: an output that lists more is refused."""


class BusyError(ParseError):
    """Another program of this kind runs, and this one queried nothing: it may be retried."""


@dataclass(slots=True)
class _SsacliDraft:
    """A controller while it is parsed. `part` is what the following lines are about."""

    name: str
    model: str
    serial: str
    pairs: dict[str, str] = field(default_factory=dict)
    groups: dict[str, ControllerArray] = field(default_factory=dict)
    volumes: dict[str, ControllerArray] = field(default_factory=dict)
    disks: dict[str, PhysicalDisk] = field(default_factory=dict)
    sensors: dict[str, Sensor] = field(default_factory=dict)
    volume: str = ""
    group: str = ""
    part: tuple[str, str] = ("controller", "")
    read_errors: list[str] = field(default_factory=list)
    """Why lines could not be read."""
    keys: set[str] = field(default_factory=set)
    """Unique keys that `part` has had already."""
    internal: bool = False
    """Whether the cage is the server's own: those have no power supplies."""
    warning: list[str] = field(default_factory=list)
    """Lines of a warning whose drive is not determined yet."""
    warning_indent: int | None = None
    """Indent of the first line of `warning`, if the next line may continue it."""
    other_warnings: list[str] = field(default_factory=list)
    """Warnings that are about no media errors, with the place of each."""
    warned: list[tuple[str, str]] = field(default_factory=list)
    """Per warning the logical drive below it, or '', and the array that contains both, or ''."""
    affected: set[str] = field(default_factory=set)
    """Logical drives that warnings name."""
    media_errors: dict[str, str] = field(default_factory=dict)
    """'Unrecoverable Media Errors' of each logical drive that has the key."""


@dataclass(frozen=True, slots=True)
class FoundController:
    """A controller, and its PCI address as in sysfs, '' if not reported."""

    controller: Controller
    pci_address: str = ""


def parse_controllers(text: str) -> tuple[FoundController, ...]:
    """Parse the controllers of '[ctrl ...] show' with 'config', 'config detail', 'status'.

    Also of 'ld all show', 'pd all show' and 'pd all show detail', which have a part of it. Repeated
    data count once; the longer block of a disk is used.
    What the tool could not read, an invalid disk line, and an end within a line are `read_errors`.
    Errors: BusyError; ParseError, if no controller is named.
    """
    plain = output.plain(text)
    if busy := _BUSY.search(plain):
        raise BusyError(f"ssacli: expected no other instance to run, got {busy[0]!r}")
    errors = [output.reason("ssacli", "no error", each) for each in _ERROR.findall(plain)]
    cards: list[_SsacliDraft] = []
    for line in plain.splitlines():
        if card := _card(line, cards):
            cards.append(card)
        elif cards and _is_warning(cards[-1], line):
            cards[-1].warning.append(" ".join(line.split()))
        elif cards and line.strip():
            _line(cards[-1], line)
        elif _HEADLESS.match(line):
            errors.append(output.reason("ssacli", "'<controller> in Slot <n>' before it", line))
        if len(cards) > _MAX_CONTROLLERS or (cards and _parts(cards[-1]) > _MAX_PARTS):
            raise output.refused(
                "ssacli",
                f"at most {_MAX_CONTROLLERS} controllers, {_MAX_PARTS} disks of one",
                line,
            )
    if not cards and errors:
        raise ParseError(errors[0])
    if not cards:
        raise output.refused("ssacli", "'<controller> in Slot <n>'", text)
    for card in cards:
        card.read_errors += errors
    cards[-1].read_errors += output.truncated_error("ssacli", plain)
    return tuple(FoundController(_controller(card), _pci_address(card)) for card in cards)


def completed(found: Controller, listed: Controller) -> Controller:
    """Return a controller with what 'show config' lists and 'show config detail' does not.

    Neither marks the end of a complete output: a detailed one that ends early has fewer disks.
    """
    slots = {each.slot for each in found.disks}
    names = {each.name for each in found.arrays}
    disks = [each for each in listed.disks if each.slot not in slots]
    arrays = [each for each in listed.arrays if each.name not in names]
    missed = [
        f"'ssacli ctrl show config detail': expected {each}, as 'show config' lists, got none"
        for each in (*(disk.slot for disk in disks), *(array.name for array in arrays))
    ]
    return replace(
        found,
        disks=(*found.disks, *disks),
        arrays=(*found.arrays, *arrays),
        read_errors=(*found.read_errors, *output.summarize(missed)),
    )


def _parts(card: _SsacliDraft) -> int:
    return len(card.disks) + len(card.volumes) + len(card.groups) + len(card.sensors)


def _card(line: str, cards: list[_SsacliDraft]) -> _SsacliDraft | None:
    """Return the controller that a line begins; such lines are not indented."""
    found = _HEADING.fullmatch(line)
    chassis = None if found else _CHASSIS.fullmatch(line)
    if found:
        place = found[2] if found[2] != "ATTR_VALUE_SLOT_UNKNOWN" else "unknown"
        name, model, rest = f"hp slot {place}", found[1], found[3]
    elif chassis:
        name, model, rest = f"hp {chassis['place']}", chassis["model"], ""
    else:
        return None
    serial = _SERIAL.search(rest)
    # The two controllers of an MSA have the same name.
    twins = sum(card.name == name or card.name.startswith(f"{name} #") for card in cards)
    return _SsacliDraft(
        output.excerpt(f"{name} #{twins + 1}" if twins else name),
        output.excerpt(model),
        serial[1] if serial else "",
    )


def _is_warning(card: _SsacliDraft, line: str) -> bool:
    """Return whether a line is of a warning: a paragraph, wrapped with or without an indent."""
    indent = len(line) - len(line.lstrip())
    if (found := _WARNING.fullmatch(line)) and found[2].strip().casefold() not in _NO_WARNING:
        _place_warning(card, "", "")  # two in succession: neither drive of the first is next to it
        card.warning_indent = indent
    elif card.warning_indent is not None and (
        not line.strip() or 0 < indent <= card.warning_indent or _begins(" ".join(line.split()))
    ):
        card.warning_indent = None
    return card.warning_indent is not None


def _begins(line: str) -> bool:
    """Return whether a line begins what the warning above it is about, or is of that."""
    if any(form.fullmatch(line) for form in (_VOLUME, _VOLUME_BLOCK, _DISK, _GROUP, _CAGE)):
        return True
    return _PAIR.fullmatch(line) is not None and _AFFECTED.search(line) is None


def _place_warning(card: _SsacliDraft, volume: str, group: str) -> None:
    """Attribute the last warning to what it names, else to the logical drive that follows it.

    One that is about no media errors is of the controller, which needs attention.
    Below a controller's heading it names the logical drives; elsewhere it stands before the one
    that it is about, whose block has 'Unrecoverable Media Errors: Detected'. Source: ssacli 3.25
    and 4.x in issue 344 of libstoragemgmt, issues 211 and 212 of check_raid.
    """
    if not card.warning:
        return
    text = " ".join(card.warning)
    if not text.casefold().startswith(_MEDIA_ERRORS):
        place = f" (above {volume})" if volume else f" (in {group})" if group else ""
        card.other_warnings.append(f"{output.excerpt(text)}{place}")
        card.warning = []
        return
    named = _AFFECTED.search(text)
    numbers = re.findall(r"\d{1,4}", named[1]) if named else []
    if numbers:
        card.affected.update(f"logical drive {int(number)}" for number in numbers)
    else:
        card.warned.append((volume, group))
    card.warning = []


def _line(card: _SsacliDraft, line: str) -> None:
    told = " ".join(line.split())
    if found := _VOLUME_BLOCK.fullmatch(told) or _VOLUME.fullmatch(told):
        _place_warning(card, f"logical drive {int(found[1])}", card.group)
    elif _DISK.fullmatch(told):
        _place_warning(card, "", card.group)  # of a logical drive above, or of this disk
    else:
        _place_warning(card, "", "")
    if found := _GROUP.fullmatch(told):
        _begin_group(card, found[2], found[3] or "", block=bool(found[1]))
    elif found := _VOLUME_BLOCK.fullmatch(told) or _VOLUME.fullmatch(told):
        inner, state = found.groups()[1:] or (None, None)  # a block has neither
        _begin_volume(card, found[1], inner or "", state)
    elif found := _DISK.fullmatch(told):
        _begin_disk(card, found[1], found[2], found[3])
    elif told.casefold().startswith(("physicaldrive ", "logicaldrive ")):
        card.read_errors.append(
            output.reason("ssacli", "'physicaldrive <port>:<box>:<bay> (...)'", told)
        )
        card.part = ("", "")  # what follows is about that disk, and not about the one before
    elif found := _CAGE.fullmatch(told):
        place = f"port {found['port']} box {int(found['box'])}"
        card.sensors[place] = Sensor(
            place, states.classify(output.excerpt(found["state"]), _PART_STATES)
        )
        card.internal = found["what"].startswith("Internal Drive Cage")
        card.part, card.group = ("cage", place), ""
    elif told.casefold() in {"unassigned", "hba drives", "physical drives", "spare drives"}:
        card.part, card.group = ("", ""), ""
    elif re.match(r"(?:Expander|Enclosure SEP|SEP|Port Name:)(?: |$)", told):
        card.part = ("", "")
    elif re.match(r"array [A-Z]{1,2}\b", told, re.IGNORECASE):
        card.read_errors.append(output.reason("ssacli", "'array <letter> (...)'", told))
        card.part, card.group = ("", ""), ""
    elif pair := _PAIR.fullmatch(told):
        _pair(card, pair[1].casefold(), pair[2] or "")


def _begin_group(card: _SsacliDraft, letters: str, inner: str, *, block: bool) -> None:
    """Begin 'array A', 'array A (Failed)', 'array A (SAS, Unused Space: 0 MB)', or a block."""
    card.group = name = f"array {letters.upper()}"
    told = (part for part in inner.split(") (") if not re.search(r"Unused Space|,", part))
    word = next(told, "")
    if word or block:  # lists contain only a state that is not OK
        state = states.classify(output.excerpt(word), _GROUP_STATES)
        card.groups.setdefault(name, ControllerArray(name, state))
    card.part = ("group", name) if block else ("", "")


def _begin_volume(card: _SsacliDraft, number: str, inner: str, state: str | None) -> None:
    """Begin '1 (894.2 GB, RAID 5, Recovering, 26% complete)', '1 (136.7 GB, 1): OK', or a block."""
    card.volume = name = f"logical drive {int(number)}"
    size, _, rest = inner.partition(", ")
    level, _, word = rest.partition(", ")
    # A block has its state later; without one it needs attention.
    array = ControllerArray(
        name=name,
        state=_state(state or word, _VOLUME_STATES),
        level=output.excerpt(level.removeprefix("RAID ")),
        parent=card.group,
        size_bytes=_size(size, _VOLUME_GB),
    )
    if inner or name not in card.volumes:
        card.volumes[name] = array
    card.part, card.keys = ("", "") if inner else ("volume", name), set()


def _begin_disk(card: _SsacliDraft, place: str, inner: str | None, state: str | None) -> None:
    """Begin a disk's block, or parse its line in a list or below its logical drive."""
    slot = _slot(place)
    known = card.disks.get(slot, PhysicalDisk(slot, _state("", _DISK_STATES)))
    known = replace(known, array=known.array or card.group)
    if inner is None and state is None:
        card.disks[slot] = known
        card.part, card.keys = ("disk", slot), set()
        return
    words = (inner or "").split(", ")
    at = next((n for n, word in enumerate(words) if _SIZED.fullmatch(word)), len(words) - 1)
    told = _state(state or ", ".join(words[at + 1 : at + 2]), _DISK_STATES)
    if not known.state.word or (
        known.state.health is ComponentHealth.OK and told.health is not ComponentHealth.OK
    ):
        usage = known.usage or output.excerpt(", ".join(words[at + 2 :]))
        size = known.size_bytes or _size(words[at])
        known = replace(known, state=told, size_bytes=size, usage=usage)
    card.disks[slot] = known
    if card.part[0] == "member":
        volume = card.volumes[card.part[1]]
        slots = dict.fromkeys((*volume.slots, slot))
        card.volumes[volume.name] = replace(volume, slots=tuple(slots))
    else:
        card.part = ("", "")


def _pair(card: _SsacliDraft, key: str, value: str) -> None:
    kind, name = card.part
    if kind in {"volume", "member"}:
        # Below 'Mirror Group 1:' and 'Parity Group 1:' its disks are listed.
        listed = re.fullmatch(r"(mirror|parity) group \d{1,4}", key, re.ASCII)
        kind = "member" if listed else "volume"
        card.part = kind, name
    if kind in {"disk", "volume"} and key in {"status", "port"}:
        if key in card.keys or (kind, key) == ("volume", "port"):
            told = f"'{key}' of {name}"
            card.read_errors.append(
                f"'ssacli': expected 'physicaldrive ...' before {told}, got none"
            )
            card.part = ("", "")
            return
        card.keys.add(key)
    if kind in {"group", "controller"} and key in {"fault tolerance", "unrecoverable media errors"}:
        card.read_errors.append(f"'ssacli': expected 'Logical Drive: <n>' before '{key}', got none")
    if kind == "controller":
        card.pairs.setdefault(key, value)
    elif (kind, key) == ("volume", "unrecoverable media errors"):
        card.media_errors[name] = value
    elif kind == "group" and key == "status":
        state = states.classify(output.excerpt(value), _GROUP_STATES)
        card.groups[name] = replace(card.groups[name], state=state)
    elif kind == "volume" and key in _OF_VOLUME:
        card.volumes[name] = _OF_VOLUME[key](card.volumes[name], value)
    elif kind == "disk" and key in _OF_DISK:
        card.disks[name] = _OF_DISK[key](card.disks[name], value)
    elif kind == "cage" and key in {"fan status", "temperature status", "power supply status"}:
        part = f"{name} {key.removesuffix(' status')}"
        state = states.classify(output.excerpt(value), _PART_STATES)
        if card.internal and value.casefold() == "not redundant":
            state = replace(state, health=ComponentHealth.ABSENT)
        card.sensors[part] = Sensor(part, state)


def _policy(caching: str) -> CachePolicy:
    on = states.SWITCH.get(caching.casefold())
    return CachePolicy(on, None, f"caching {output.excerpt(caching)}", on)


def _worst(volume: ControllerArray, why: str) -> ControllerArray:
    """Return a logical drive with a further problem; a state that is already not OK remains."""
    state = volume.state
    if state.health in states.WELL:
        return replace(volume, state=states.downgraded(state, [why]))
    return replace(volume, state=replace(state, word=f"{state.word}, {why}"))


def _worn(disk: PhysicalDisk, value: str) -> PhysicalDisk:
    odd = (
        []
        if value.casefold() in _NO_WARNING
        else [f"SSD SMART trip wearout {output.excerpt(value)}"]
    )
    return replace(disk, state=states.downgraded(disk.state, odd, ComponentHealth.FAILING))


_OF_VOLUME: dict[str, Callable[[ControllerArray, str], ControllerArray]] = {
    "status": lambda volume, value: replace(volume, state=_state(value, _VOLUME_STATES)),
    "size": lambda volume, value: replace(volume, size_bytes=_size(value, _VOLUME_GB)),
    "fault tolerance": lambda volume, value: replace(volume, level=output.excerpt(value)),
    "unique identifier": lambda volume, value: replace(volume, serial=output.excerpt(value)),
    "logical drive label": lambda volume, value: replace(volume, label=output.excerpt(value)),
    "caching": lambda volume, value: replace(volume, policy=_policy(value)),
    "parity initialization status": lambda volume, value: (
        _worst(volume, f"parity initialization {output.excerpt(value)}")
        if "failed" in value.casefold()
        else volume
    ),
}
"""Handlers for the lines of a logical drive's block, by key."""
_OF_DISK: dict[str, Callable[[PhysicalDisk, str], PhysicalDisk]] = {
    "status": lambda disk, value: replace(disk, state=_state(value, _DISK_STATES)),
    "size": lambda disk, value: replace(disk, size_bytes=_size(value)),
    "drive type": lambda disk, value: replace(disk, usage=output.excerpt(value)),
    "serial number": lambda disk, value: replace(disk, serial=output.excerpt(value)),
    "firmware revision": lambda disk, value: replace(
        disk, firmware=output.excerpt(value.partition(" (")[0])
    ),
    "model": lambda disk, value: replace(
        disk, model=output.excerpt(value.removeprefix("ATA ").strip())
    ),
    "current temperature (c)": lambda disk, value: replace(
        disk, temperature_celsius=output.number(value)
    ),
    "ssd smart trip wearout": _worn,
}
"""Handlers for the lines of a disk's block, by key."""


def _mark_media_errors(card: _SsacliDraft) -> list[str]:
    """Mark logical drives and arrays that have media errors; return those of the controller.

    The key in the block of a logical drive outweighs the place of a warning. A warning that is
    about none for certain is one of the array that contains it, else of the controller.
    """
    _place_warning(card, "", "")  # nothing follows it
    bad = dict.fromkeys(card.affected & card.volumes.keys(), _MEDIA_ERROR_WORD)
    for name, value in card.media_errors.items():
        if value.casefold() not in _NO_WARNING:
            bad[name] = f"{_MEDIA_ERROR_WORD} {output.excerpt(value)}"
    odd = [f"{_MEDIA_ERROR_WORD} of {name}" for name in sorted(card.affected - card.volumes.keys())]
    odd += card.other_warnings
    reported = {card.volumes[name].parent for name in bad} | ({""} if bad else set())
    for name, group in card.warned:
        if name and name not in card.media_errors:
            bad.setdefault(name, f"{_MEDIA_ERROR_WORD} (warning above it)")
        elif group and group not in reported:
            ok = ControllerArray(group, ComponentState(ComponentHealth.OK))
            card.groups[group] = _worst(card.groups.get(group, ok), _UNDETERMINED)
        elif group not in reported:
            odd.append(_UNDETERMINED)
    for name, why in bad.items():
        card.volumes[name] = _worst(card.volumes[name], why)
    return list(dict.fromkeys(odd))


def _controller(card: _SsacliDraft) -> Controller:
    pairs = card.pairs
    odd = _mark_media_errors(card)
    word = pairs.get("controller status", "")
    state = states.classify(output.excerpt(word), _CONTROLLER_STATES) if word else None
    if odd:
        state = states.downgraded(state or ComponentState(ComponentHealth.OK), odd)
    cache, battery = (
        pairs.get("cache status", ""),
        pairs.get("battery/capacitor status", "") or pairs.get("battery status", ""),
    )
    batteries = (_battery(battery, pairs),) if battery else ()
    if not battery and "no-battery write cache" in pairs:
        # A complete block without a battery: its write cache is not protected.
        batteries = (Battery("battery", ComponentState(ComponentHealth.ABSENT, "none")),)
    sensors = [_cache(cache, batteries)] if cache else []
    for key, name in (
        ("controller temperature (c)", "controller temperature"),
        ("cache module temperature (c)", "cache module temperature"),
    ):
        if (degrees := output.number(pairs.get(key, ""))) is not None:
            sensors.append(Sensor(name, temperature_celsius=degrees))
    volumes = [_with_cache(volume, pairs) for volume in card.volumes.values()]
    members = slots_by_array(
        disk for disk in card.disks.values() if "spare" not in disk.usage.casefold()
    )
    return Controller(
        name=card.name,
        vendor="hp",
        model=card.model,
        serial=card.serial or output.excerpt(pairs.get("serial number", "")),
        firmware=output.excerpt(pairs.get("firmware version", "")),
        state=state,
        memory_bytes=_size(pairs.get("total cache size", "")),
        arrays=(
            *(replace(g, slots=members.get(g.name, ())) for g in card.groups.values()),
            *(replace(each, slots=each.slots or members.get(each.parent, ())) for each in volumes),
        ),
        disks=tuple(card.disks.values()),
        batteries=batteries,
        sensors=(*sensors, *card.sensors.values()),
        read_errors=tuple(output.summarize(card.read_errors)),
    )


def _battery(word: str, pairs: Mapping[str, str]) -> Battery:
    """Parse the state of a battery: 'OK', 'Recharging', 'Failed (Replace Batteries/Capacitors)'."""
    state = states.classify(word.partition(" (")[0], _BATTERY_STATES)
    return Battery(
        "battery",
        replace(state, word=output.excerpt(word)),
        states.ready(state.health, state.word),
        temperature_celsius=output.number(pairs.get("capacitor temperature (c)", "")),
    )


def _cache(word: str, batteries: tuple[Battery, ...]) -> Sensor:
    """Return the cache, which is disabled while its battery charges: that ends by itself."""
    state = states.classify(output.excerpt(word), _CACHE_STATES)
    charging = any(each.state.health is ComponentHealth.BUSY for each in batteries)
    if charging and state.word.casefold() == "temporarily disabled":
        state = replace(state, health=ComponentHealth.BUSY)
    return Sensor("cache", state)


def _with_cache(volume: ControllerArray, pairs: Mapping[str, str]) -> ControllerArray:
    """Return a logical drive that caches writes only if the controller has memory for them."""
    disks = pairs.get("drive write cache", "") or pairs.get("configured drives", "")
    # The disks' own may be 'Default' as well.
    volume = replace(volume, disk_cache=states.SWITCH.get(disks.casefold()))
    policy = volume.policy
    if policy is None or not policy.write_back:
        return volume
    if not pairs.keys() & {"cache ratio", "cache status", "cache board present"}:
        return replace(volume, policy=None)  # of a text without the controller's own rows
    forced = states.SWITCH.get(pairs.get("no-battery write cache", "").casefold())
    share = re.search(r"(\d{1,3})% Write", pairs.get("cache ratio", ""), re.ASCII)
    wanted = int(share[1]) > 0 if share else None
    works = pairs.get("cache status", "").casefold() == "ok"
    policy = replace(policy, write_back=wanted and works, default_write_back=wanted, forced=forced)
    return replace(volume, policy=policy)


def _pci_address(card: _SsacliDraft) -> str:
    told = next((value for key, value in card.pairs.items() if key.startswith("pci address")), "")
    found = _PCI.search(told)
    return found[1].lower() if found else ""


def _state(word: str, meanings: Mapping[str, ComponentHealth]) -> ComponentState:
    """Parse a state such as 'Recovering, 26% complete'."""
    progress = _PROGRESS.search(word)
    bare = output.excerpt(word.replace(progress[0], "") if progress else word)
    state = states.classify(bare, meanings)
    return replace(state, done_ratio=output.ratio(progress)) if progress else state


def _slot(place: str) -> str:
    """Return 'port 1I box 1 bay 4' for '1I:1:4', 'port 1 id 0' for '1:0' (parallel SCSI)."""
    parts = place.split(":")
    names = ("port", "box", "bay") if len(parts) == 3 else ("port", "id")
    return " ".join(f"{name} {part}" for name, part in zip(names, parts, strict=True))


def _size(text: str, unit: int = _GB) -> int | None:
    return output.size_bytes(text, unit) or None
