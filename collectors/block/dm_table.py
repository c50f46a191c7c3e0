"""Mapping of a device-mapper device to other devices, by 'dmsetup table'.

Source: dmsetup(8); kernel, admin-guide/device-mapper/{linear,striped,dm-crypt}.rst. Units: sectors
of 512 bytes. A device is queried by its number, because its name may be anything. '--showkeys' is
never used: without it dmsetup prints zeros for the key of 'crypt', and in newer versions for those
of 'integrity'. So it runs inside the probe (`query_dm_table`), which returns what a sector can be
traced with; the service reads that (`read_dm_table`).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError
from iowarden.collectors.probe_reply import field
from iowarden.collectors.program import run_program

if TYPE_CHECKING:
    from iowarden.collectors.machine import Machine

VERB = "dm_table"
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


def query_dm_table(
    root: Machine, major: str, minor: str, deadline_seconds: float
) -> tuple[DmTarget, ...]:
    """Run dmsetup for a device, by its number. Called by the probe.

    Errors: AbsentError, ProgramNotFoundError, StuckError, DeadlineError, ReadError, ParseError.
    """
    words = ("dmsetup", "table", "-j", major, "-m", minor)
    return tuple(map(_traceable, parse_dm_table(run_program(root, deadline_seconds, *words))))


def _traceable(target: DmTarget) -> DmTarget:
    """Return a target with the arguments that locate a sector: no key, and no reference to one."""
    words = target.arguments
    if target.kind == "crypt":
        words = ("-",) * len(words[:3]) + words[3:5]
    elif target.kind not in {"linear", "striped"}:
        words = tuple(word for word in words if _NUMBER.fullmatch(word))
    return DmTarget(target.start_sectors, target.sectors, target.kind, words)


def to_json(targets: tuple[DmTarget, ...]) -> dict[str, Any]:
    """Return the answer to the verb, to be printed as JSON."""
    rows = [[row.start_sectors, row.sectors, row.kind, row.arguments] for row in targets]
    return {"targets": rows}


def from_json(text: str) -> tuple[DmTarget, ...]:
    """Parse the JSON of `to_json`. Errors: ParseError."""
    try:
        names = ("start", "sectors", "kind", "arguments")
        found = field(list, json.loads(text), "targets")
        rows = [dict(zip(names, row, strict=True)) for row in found]
        return tuple(
            DmTarget(
                field(int, row, "start"),
                field(int, row, "sectors"),
                field(str, row, "kind"),
                tuple(map(str, field(list, row, "arguments"))),
            )
            for row in rows
        )
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ParseError(
            f"probe '{VERB}': expected a table as JSON, got {text[:80]!r}:"
            f" {type(error).__name__}: {error}"
        ) from None


def read_dm_table(root: Machine, number: str, deadline_seconds: float) -> tuple[DmTarget, ...]:
    """Query the table of a device by its number ('253:0'). Errors: as `query_dm_table`."""
    major, _, minor = number.partition(":")
    return from_json(root.query_probe(VERB, major, minor, deadline_seconds=deadline_seconds))
