"""How the RAID controllers of one vendor are asked: its drivers, its programs, what they read.

And what backends do alike: which program is asked, parts that cannot be read, controllers that no
program lists.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iowarden.collectors.model import AbsentError, LateError, ParseError, ReadError, StuckError

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeVar

    from iowarden.collectors.machine import Root
    from iowarden.collectors.raid.controller import Controller, Log

    Handle = tuple[str, ...]
    _T = TypeVar("_T")
    _D = TypeVar("_D")


@dataclass(frozen=True, slots=True)
class Backend:
    """How the controllers of one vendor are asked.

    Fields: a host of one of `drivers` is such a controller; `programs` are those that may be run;
    `find`, given the hosts, names the controllers, each with what its questions need, or, a text,
    why it cannot be asked; `state` reads one, given what it said last; `log` reads its log, of
    `capacity` entries where that is known, None where it keeps none. `adapters`: hosts of `drivers`
    may be plain ones, and not listed; `hiding` are those of some hosts that may hide disks, without
    it all.
    `numbered`: the entries of its log have numbers, which are those of the events.
    Errors of the three: AbsentError, ReadError, ParseError.
    """

    vendor: str
    drivers: tuple[str, ...]
    programs: tuple[str, ...]
    find: Callable[[Root, Sequence[str]], Mapping[str, Handle | str]]
    state: Callable[[Root, str, Handle, Controller | None], Controller]
    log: Callable[[Root, str, Handle], Log] | None = None
    capacity: int | None = None
    adapters: bool = False
    numbered: bool = False
    hiding: Callable[[Root, Sequence[str]], Sequence[str]] | None = None


@dataclass(slots=True)
class Parts:
    """The state of a controller, read part by part: one that cannot be read takes no other away.

    Fields: `run` returns what a program prints, given the rest of its command line; `unread` are
    the reasons why parts are not read; `raises_absent`: without a program, or the probe, there is
    no other part either.
    """

    run: Callable[..., str]
    unread: list[str] = field(default_factory=list)
    raises_absent: bool = False

    def read(
        self,
        parse: Callable[[str], _T],
        default: _D,
        *command: str,
        harmless: re.Pattern[str] | None = None,
    ) -> _T | _D:
        """Return a part, the default where it cannot be read: that is `unread`, or `harmless`.

        Errors: LateError, StuckError: the next one would hang as well; AbsentError.
        """
        try:
            return parse(self.run(*command))
        except (LateError, StuckError):
            raise
        except (AbsentError, ReadError, ParseError) as error:
            if isinstance(error, AbsentError) and self.raises_absent:
                raise
            if harmless is None or not harmless.search(str(error)):
                self.unread.append(str(error))
            return default


def first_installed(root: Root, programs: Iterable[str], run: Callable[[str], _T]) -> _T:
    """Return what the first of several programs tells that is installed.

    Errors: AbsentError, where none is, or nothing runs programs; those of `run`.
    """
    missing: list[AbsentError] = []
    for program in programs:
        try:
            return run(program)
        except AbsentError as error:
            if type(error) is AbsentError and not root.path:
                raise
            missing.append(error)
    raise missing[0]


def answers_of(
    root: Root, programs: Iterable[str], read: Callable[[str], _T], errors: list[Exception]
) -> Iterator[tuple[str, _T]]:
    """Yield the programs that answer, each with what it tells; why others do not goes to `errors`.

    Errors: LateError, StuckError: the next one would hang as well; AbsentError: nothing runs them.
    """
    for program in programs:
        try:
            found = read(program)
        except (LateError, StuckError):
            raise
        except (AbsentError, ReadError, ParseError) as error:
            if type(error) is AbsentError and not root.path:
                raise
            errors.append(error)
        else:
            yield program, found


def not_listed(command: str, hosts: Sequence[str], listed: int) -> str:
    """Return why a controller of `hosts` that no program lists, nobody knows which, is not read."""
    return f"'{command}': expected {len(hosts)} controllers ({', '.join(hosts)}), got {listed}"
