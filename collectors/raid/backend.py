"""Backend of a RAID controller vendor: its drivers, its programs, and how to read them.

Also the common parts of backends: choice of the program, parts that cannot be read, controllers
that no program lists.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import (
    AbsentError,
    DeadlineError,
    ParseError,
    ReadError,
    StuckError,
    without_frames,
)

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeVar

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.raid.controller import Controller, ControllerLog

    Handle = tuple[str, ...]
    _T = TypeVar("_T")
    _D = TypeVar("_D")


@dataclass(frozen=True, slots=True)
class Backend:
    """How the controllers of one vendor are read.

    Fields: a SCSI host of one of `drivers` is such a controller; `programs` are those that may be
    run; `find`, given the hosts, returns the controllers by name, each with what its queries need,
    or with a text: why it cannot be read; `state` reads one controller, given its last state; `log`
    reads its event log, of `capacity` entries where that is known, None if it has no log.
    `adapters`: hosts of `drivers` may be plain adapters, which are not listed; `hiding` are those
    of the given hosts that may hide disks, None: all.
    `numbered`: log entries have numbers, which become the sequence of the events.
    Errors of the three: AbsentError, ReadError, ParseError.
    """

    vendor: str
    drivers: tuple[str, ...]
    programs: tuple[str, ...]
    find: Callable[[Machine, Sequence[str]], Mapping[str, Handle | str]]
    state: Callable[[Machine, str, Handle, Controller | None], Controller]
    log: Callable[[Machine, str, Handle], ControllerLog] | None = None
    capacity: int | None = None
    adapters: bool = False
    numbered: bool = False
    hiding: Callable[[Machine, Sequence[str]], Sequence[str]] | None = None


@dataclass(slots=True)
class PartReader:
    """Reads a controller's state part by part: an unreadable part does not affect the others.

    Fields: `run` runs a program with the given arguments and returns its output; `read_errors` are
    the reasons why parts could not be read; `raises_absent`: without a program or the probe no
    other part can be read either, so AbsentError is raised.
    """

    run: Callable[..., str]
    read_errors: list[str] = field(default_factory=list)
    raises_absent: bool = False

    def read(
        self,
        parse: Callable[[str], _T],
        default: _D,
        *command: str,
        harmless: re.Pattern[str] | None = None,
    ) -> _T | _D:
        """Return a part, the default if it cannot be read, with the reason in `read_errors`.

        An error in `harmless` is no reason. Errors: DeadlineError, StuckError: the next query would
        hang as well; AbsentError.
        """
        try:
            return parse(self.run(*command))
        except (DeadlineError, StuckError):
            raise
        except (AbsentError, ReadError, ParseError) as error:
            if isinstance(error, AbsentError) and self.raises_absent:
                raise
            if harmless is None or not harmless.search(str(error)):
                self.read_errors.append(str(error))
            return default


def first_installed(root: Machine, programs: Iterable[str], run: Callable[[str], _T]) -> _T:
    """Return the output of the first of several programs that is installed.

    Errors: AbsentError, if none is installed or no probe is running; those of `run`.
    """
    missing: list[AbsentError] = []
    for program in programs:
        try:
            return run(program)
        except AbsentError as error:
            if type(error) is AbsentError and not root.path:
                raise
            missing.append(without_frames(error))
    raise without_frames(missing[0])


def answers_of(
    root: Machine, programs: Iterable[str], read: Callable[[str], _T], errors: list[Exception]
) -> Iterator[tuple[str, _T]]:
    """Yield the programs that answer, each with its output; failures of others go to `errors`.

    Errors: DeadlineError, StuckError: the next one would hang as well; AbsentError: no probe is
    running.
    """
    for program in programs:
        try:
            found = read(program)
        except (DeadlineError, StuckError):
            raise
        except (AbsentError, ReadError, ParseError) as error:
            if type(error) is AbsentError and not root.path:
                raise
            errors.append(without_frames(error))
        else:
            yield program, found


def not_listed(command: str, hosts: Sequence[str], listed: int) -> str:
    """Return the reason for controllers of `hosts` that no program lists; which is unknown."""
    return f"'{command}': expected {len(hosts)} controllers ({', '.join(hosts)}), got {listed}"
