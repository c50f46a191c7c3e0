"""How the RAID controllers of one vendor are asked: its drivers, its programs, what they read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iowarden.collectors.machine import Root
    from iowarden.collectors.raid.controller import Controller, Log

    Handle = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Backend:
    """How the controllers of one maker are asked.

    Fields: a host of one of `drivers` is such a controller; `programs` are those that may be run;
    `find`, given the hosts, names the controllers, each with what its questions need; `state` reads
    one, given what it said last; `log` reads its log, of `capacity` entries where that is known,
    None where it keeps none. `adapters`: hosts of `drivers` may be plain ones, and not listed;
    `hiding` are those of some hosts that may hide disks, without it all.
    `numbered`: the entries of its log have numbers, which are those of the events.
    Errors of the three: AbsentError, ReadError, ParseError.
    """

    vendor: str
    drivers: tuple[str, ...]
    programs: tuple[str, ...]
    find: Callable[[Root, Sequence[str]], Mapping[str, Handle]]
    state: Callable[[Root, str, Handle, Controller | None], Controller]
    log: Callable[[Root, str, Handle], Log] | None = None
    capacity: int | None = None
    adapters: bool = False
    numbered: bool = False
    hiding: Callable[[Root, Sequence[str]], Sequence[str]] | None = None
