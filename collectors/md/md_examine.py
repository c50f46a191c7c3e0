"""Parser of 'mdadm --examine': the superblocks of members, also of arrays that do not run. Pure.

Source: mdadm 4.4, super1.c, examine_super1, and super0.c, examine_super0. A member with an older
event count than the others' was left out of the array when theirs was counted up; one less is
within what the kernel accepts (drivers/md/md.c, super_1_validate).
Limits: of several arrays whose UUIDs are cut out of the text only name, level and number of slots
are compared. Metadata of controllers' firmware (imsm, ddf) are not parsed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

IS_EXAMINE = lazy_pattern(
    r"^[ \t]*(?:(?:MBR )?Magic|Array State|Array Slot|Device Role|Avail Dev Size)"
    r"[ \t]+: "
    r"|^this[ \t]+\d",
    re.MULTILINE | re.ASCII,
)
"""Fields that 'mdadm --detail' has not."""
MAX_MEMBERS = 1000
_DEVICE = lazy_pattern(r"(?:mdadm: )?/dev/(?P<name>\S{1,200}):[ \t]*")
_FIELD = lazy_pattern(r"[ \t]*(?P<key>[A-Z][A-Za-z0-9' ]{1,30}?)[ \t]*:[ \t]+(?P<value>\S.*)")
_COUNT = lazy_pattern(r"\d{1,18}(?:\.\d{1,18})?", re.ASCII)
_STATE = lazy_pattern(r"[AUuR._]{1,2000}(?= |$)")
_MISSING = frozenset("._")
_TOLERATED = {"raid4": 1, "raid5": 1, "raid6": 2}
_ALLOWED_LAG = 1


@dataclass(frozen=True, slots=True)
class Superblock:
    """The superblock of one member.

    Fields: `device` as in '/dev/<device>'; `array` identifies its array; `events` counts changes of
    the array, None if not in the text; `slots` has a letter for each slot as this member saw them,
    '' if not in the text; `updated` is mdadm's text of the time.
    """

    device: str
    array: tuple[str, ...]
    name: str
    level: str
    events: int | None
    updated: str
    role: str
    slots: str
    raid_devices: int | None
    has_bad_checksum: bool
    has_bad_blocks: bool

    @property
    def missing(self) -> int:
        """Return the number of slots without a member, as this one saw them."""
        return sum(letter in _MISSING for letter in self.slots)


@dataclass(frozen=True, slots=True)
class ExaminedArray:
    """The members of one array in a text; `newest` has the state that counts."""

    members: tuple[Superblock, ...]
    newest: Superblock

    @property
    def name(self) -> str:
        """Return its name, or its members'."""
        return self.newest.name or f"array of {', '.join(each.device for each in self.members)}"

    def is_stale(self, member: Superblock) -> bool:
        """Whether the array went on without a member."""
        newest = self.newest.events or 0
        return member.events is not None and member.events + _ALLOWED_LAG < newest

    @property
    def tolerated(self) -> int | None:
        """Return how many members it may lose in any case; None: its level is not in the text."""
        count = len(self.newest.slots) or self.newest.raid_devices
        if self.newest.level == "raid1":
            return None if count is None else count - 1
        if self.newest.level == "raid10":
            return 1
        return _TOLERATED.get(self.newest.level, 0 if self.newest.level else None)


def parse_examine(text: str) -> tuple[ExaminedArray, ...]:
    """Parse the superblocks in a text, by array. Errors: ParseError, if there is none."""
    members: list[Superblock] = []
    device, fields = "", dict[str, str]()
    for line in [*text.split("\n"), "/dev/:"]:
        if (head := _DEVICE.fullmatch(line)) is not None or line == "/dev/:":
            if fields and len(members) < MAX_MEMBERS:
                members.append(_superblock(device, fields))
            device, fields = head["name"] if head else "", {}
        elif (field := _FIELD.fullmatch(line)) is not None:
            fields.setdefault(" ".join(field["key"].split()), field["value"].strip())
    members = [each for each in members if each.events is not None or each.slots]
    if not members:
        raise ParseError(
            "'mdadm --examine': expected 'Events' or 'Array State' of a member with metadata of"
            f" Linux md, got {text.strip()[:120]!r}"
        )
    arrays: dict[tuple[str, ...], list[Superblock]] = {}
    for member in members:
        arrays.setdefault(member.array, []).append(member)
    return tuple(ExaminedArray(tuple(each), _newest(each)) for each in arrays.values())


def _newest(members: Iterable[Superblock]) -> Superblock:
    return max(members, key=lambda each: -1 if each.events is None else each.events)


def _superblock(device: str, fields: Mapping[str, str]) -> Superblock:
    state = _STATE.match(fields.get("Array State", ""))
    slots = state[0] if state else ""
    devices = _number(fields.get("Raid Devices", ""))
    active = _number(fields.get("Active Devices", ""))
    if not slots and devices is not None and active is not None and active <= devices <= 1000:
        slots = "A" * active + "." * (devices - active)  # 0.90 has no letters
    name = fields.get("Name", "").partition("  (")[0]
    minor = fields.get("Preferred Minor", "")
    level = fields.get("Raid Level", "")
    uuid = fields.get("Array UUID") or fields.get("UUID") or ""
    checksum = fields.get("Checksum", "")
    return Superblock(
        device=device,
        array=(uuid,) if uuid else ("", name, level, str(len(slots) or devices or "")),
        name=name or (f"md{minor}" if minor.isdecimal() else ""),
        level=level,
        events=_number(fields.get("Events", "")),
        updated=fields.get("Update Time", ""),
        role=fields.get("Device Role", ""),
        slots=slots,
        raid_devices=devices,
        has_bad_checksum=bool(checksum) and "correct" not in checksum,
        has_bad_blocks="bad blocks present" in fields.get("Bad Block Log", ""),
    )


def _number(text: str) -> int | None:
    """Return a count; that of events is printed in halves by 0.90: '0.4711'."""
    if not _COUNT.fullmatch(text):
        return None
    high, point, low = text.partition(".")
    return (int(high) << 32) + int(low) if point else int(high)
