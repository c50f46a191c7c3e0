"""Mapping of a device-mapper device to other devices, by 'dmsetup table'.

Source: dmsetup(8); kernel, admin-guide/device-mapper/{linear,striped,dm-crypt}.rst. Units: sectors
of 512 bytes. A device is queried by its number, because its name may be anything. '--showkeys' is
never used: without it dmsetup prints zeros for a key.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError
from iowarden.collectors.program import run_program

if TYPE_CHECKING:
    from iowarden.collectors.machine import Machine

MAX_TARGETS = 10_000
_LINE = lazy_pattern(r"(\d{1,18}) (\d{1,18}) (\S{1,64})(?: (.*))?", re.ASCII)
_NUMBER = lazy_pattern(r"(\d{1,10}:\d{1,10})", re.ASCII)


@dataclass(frozen=True, slots=True)
class DmTarget:
    """A line of the table: a range of sectors from `start_sectors` on, and its mapping.

    Fields: `kind` is 'linear', 'striped', 'crypt', 'thin' ...; `arguments` are what follows in it.
    """

    start_sectors: int
    sectors: int
    kind: str
    arguments: tuple[str, ...]

    @property
    def devices(self) -> frozenset[str]:
        """The numbers ('8:17') of the devices in it."""
        return frozenset(word for word in self.arguments if _NUMBER.fullmatch(word))


def parse_dm_table(text: str) -> tuple[DmTarget, ...]:
    """Parse the targets of one device. Errors: ParseError, also for none."""
    targets = []
    for number, line in enumerate(text.splitlines(), 1):
        row = _LINE.fullmatch(line.strip())
        if row is None:
            raise ParseError(
                f"'dmsetup table': line {number}: expected '<start> <length> <target> ...', got"
                f" {line[:120]!r}"
            )
        targets.append(DmTarget(int(row[1]), int(row[2]), row[3], tuple((row[4] or "").split())))
        if len(targets) > MAX_TARGETS:
            raise ParseError(f"'dmsetup table': expected at most {MAX_TARGETS} lines, got more")
    if not targets:
        raise ParseError("'dmsetup table': expected a target, got none")
    return tuple(targets)


def read_dm_table(root: Machine, number: str, deadline_seconds: float) -> tuple[DmTarget, ...]:
    """Query the table of a device by its number ('253:0').

    Errors: AbsentError, ProgramNotFoundError, StuckError, DeadlineError, ReadError, ParseError.
    """
    major, _, minor = number.partition(":")
    return parse_dm_table(
        run_program(root, deadline_seconds, "dmsetup", "table", "-j", major, "-m", minor)
    )
