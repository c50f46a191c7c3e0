"""Which of the polled drives are the same disk, and the name of each disk. Pure.

One disk may be reached by several access methods (a RAID controller lists it twice, or over two
paths), and several disks may report one serial number. The name must be the same after a restart
and in whichever slot the disk is, because alerts and history are stored by it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.smart.drive import AccessMethod, Disk, PollResult, ReadStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NONSENSE = lazy_pattern(
    r"(.)\1*|0*123456789.*|to be filled.*"
    r"|(drive |disk |device |invalid |unknown |no |not )*"
    r"(serial|unknown|invalid|none|null|n/a|specified|available|applicable|s/?n)"
    r"([ _]?(number|num|no\.?))?",
    re.IGNORECASE,
)
"""Serial numbers that vendors gave to all drives, and placeholders."""
_MADE_UP = ("arcmsr", "3w-")
"""Drivers whose block devices report SMART data that the controller makes up."""
_MIN_CHARACTERS = 4
_HOURS_SLACK = 2


@dataclass(frozen=True, slots=True)
class IdentifiedPoll:
    """One access method of a disk, and the identity that was reported through it.

    Fields: None and '' are 'not reported'. Data from the kernel are used until smartctl has
    answered. `hours`: power-on time, at `hours_seconds` of the program's clock.
    """

    polled: PollResult
    serial: str = ""
    model: str = ""
    wwn: str = ""
    capacity_bytes: int | None = None
    hours: int | None = None
    hours_seconds: float = 0.0

    @property
    def target(self) -> AccessMethod:
        """Return the access method."""
        return self.polled.target


def serial_number(text: str) -> str:
    """Return a serial number without padding; '' if it does not identify a disk."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    short = len(plain) < _MIN_CHARACTERS
    return "" if short or _NONSENSE.fullmatch(plain) else plain


def world_wide_name(text: str) -> str:
    """Return a WWN as its digits: '5000c500a1b2c3d4' for '0x5000...', 'naa.5...', 'eui.0...'.

    '' if it has no other digit than 0 or f.
    """
    digits = re.sub(r"^(0x|naa\.|eui\.|uuid\.)|[\s-]", "", text.strip().lower())
    return "" if re.fullmatch("0*|f*", digits) else digits


def merge(polls: Iterable[IdentifiedPoll]) -> dict[str, Disk]:
    """Return the disks by name.

    Limits: if a second disk reports the serial number of a first, both get a longer name; the first
    has its short one until the second has answered for the first time.
    """
    by_serial: dict[str, list[list[IdentifiedPoll]]] = defaultdict(list)
    unnamed: list[IdentifiedPoll] = []
    for way in sorted(polls, key=_order):
        serial = serial_number(way.serial)
        if not serial:
            unnamed.append(way)
            continue
        groups = by_serial[serial]
        same = next((g for g in groups if all(_same(way, other) for other in g)), None)
        if same is None:
            groups.append([way])
        else:
            same.append(way)
    disks: dict[str, Disk] = {}
    for serial, groups in by_serial.items():
        names = [serial] if len(groups) == 1 else _disambiguated(serial, groups)
        others = f"{len(groups) - 1} more with serial number {serial!r}: {_list(groups)}"
        for name, group in zip(names, groups, strict=True):
            _add(disks, name, group, others if len(groups) > 1 else "")
    shared = _shared([way.wwn for way in unnamed])
    for way in unnamed:
        wwn = world_wide_name(way.wwn)
        said = f"no usable serial number (it reports {way.serial!r})" if way.serial else ""
        name = f"wwn {wwn}" if wwn and wwn not in shared else _place(way.target)
        _add(disks, name, [way], said)
    return disks


def _order(poll: IdentifiedPoll) -> tuple[bool, bool, bool, bool, list[tuple[int, str]], str]:
    """Sort the best access method first: answered at its last try, direct, the lowest number.

    Data that a controller makes up come after those of the disk itself.
    """
    heard = (
        poll.polled.status in {ReadStatus.READ, ReadStatus.ASLEEP} and poll.polled.drive is not None
    )
    target = poll.target
    return (
        not heard,
        not target.behind_raid() and target.driver.startswith(_MADE_UP),
        target.behind_raid(),
        not target.device,
        [(int(d or 0), w) for d, w in re.findall(r"(\d+)|(\D+)", f"{target.path} {target.kind}")],
        str(target),
    )


def _same(one: IdentifiedPoll, other: IdentifiedPoll) -> bool:
    """Whether two access methods with one serial number may lead to one disk."""
    if not _alike(one.model, other.model):
        return False
    if None not in (one.capacity_bytes, other.capacity_bytes) and (
        one.capacity_bytes != other.capacity_bytes
    ):
        return False
    if one.hours is not None and other.hours is not None:
        between = abs(one.hours_seconds - other.hours_seconds) / 3600
        if abs(one.hours - other.hours) > between + _HOURS_SLACK:
            return False
    names = world_wide_name(one.wwn), world_wide_name(other.wwn)
    if all(names):
        return names[0] == names[1]
    # A disk with two direct paths has a WWN: without one they are two disks, whatever they report.
    here, there = one.target, other.target
    direct = not here.behind_raid() and not there.behind_raid()
    return not (direct and here.device and there.device and here.device != there.device)


def _alike(one: str, other: str) -> bool:
    """Compare models: SCSI truncates them, puts the vendor first, or 'ATA' in its place."""
    short, long = sorted((_plain(one), _plain(other)), key=len)
    return short in long


def _plain(model: str) -> str:
    return re.sub(r"[^a-z0-9]", "", model.strip().lower().removeprefix("ata "))


def _disambiguated(serial: str, groups: Sequence[Sequence[IdentifiedPoll]]) -> list[str]:
    """Return names for disks with the same serial number: by WWN, model, or location."""
    candidates = (
        [next(filter(None, (world_wide_name(way.wwn) for way in g)), "") for g in groups],
        [next((way.model for way in g if way.model), "") for g in groups],
    )
    for said in candidates:
        if all(said) and len(set(said)) == len(said):
            return [f"{serial} {text}" for text in said]
    return [f"{serial} {_place(group[0].target)}" for group in groups]


def _place(target: AccessMethod) -> str:
    """Return the location of a disk. A slot persists when device names change."""
    return target.slot or str(target)


def _list(groups: Sequence[Sequence[IdentifiedPoll]]) -> str:
    return ", ".join(str(group[0].target) for group in groups)


def _shared(texts: Sequence[str]) -> set[str]:
    """Return the WWNs that several disks report: the volume's, or that of a batch."""
    names = [world_wide_name(text) for text in texts]
    return {name for name in names if names.count(name) > 1}


def _add(
    disks: dict[str, Disk], name: str, polls: Sequence[IdentifiedPoll], duplicate: str
) -> None:
    """Add a disk; one that has everything in common with another is distinguished by its path."""
    best = polls[0]
    if name in disks:
        duplicate = duplicate or f"another disk at {disks[name].polled.target} has the same name"
        name = f"{name} {best.target}"
    disks[name] = Disk(
        key=name,
        polled=best.polled,
        device=next((way.target.device for way in polls if way.target.device), ""),
        others=tuple(way.target for way in polls[1:]),
        duplicate=duplicate,
    )
