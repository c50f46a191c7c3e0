"""A collector: reads one type of value at an interval, and exports its series.

Each collector's module ends in the constant SOURCE; collectors/registry.py lists them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import (
    AbsentError,
    Family,
    Labels,
    Outcome,
    ParseError,
    ReadError,
    Reading,
    Sample,
    StuckError,
    trace,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Iterable, Mapping

    from iowarden.collectors.machine import Machine

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Source(Generic[T]):
    """One collector: its interval, how it reads, what it exports.

    `period_help`: the configuration's description of its key 'intervals.<name>'; '': it has none.
    `paced`: signals compare the value with the one a moment before, so it is read every 1 to 5 s.
    `may_hang`: to be read in a thread of its own. `emit`: the samples of `families` from a value.
    `restrict`: the part of a value about these whole devices, which alone is exported once they are
    known. `node`: the same value as node_exporter's series, whose names begin with one of
    `node_prefixes`; `node_names` are all of those names, empty if they depend on the host.
    `objects`: labels by which its series name objects that some collector lists.
    `lists`: such a label and the names of all existing objects ('device': sda, sda1 ...): an alert
    on a removed object is unknown, not resolved.
    `unreadable`: parts of the value that could not be read, as labels and a reason ((('mountpoint',
    '/srv'),), 'silent for 30 s'): alerts with these labels are unknown while that lasts; the reason
    '': not read yet, which keeps them unknown for the first minutes.
    `parts`: as `read`, for a collector with parts any of which may hang while the others answer; it
    calls its second argument before each part and skips the part if that returns a reason.
    """

    name: str
    period_seconds: float
    may_hang: bool
    read: Callable[[Machine], T]
    families: tuple[Family, ...]
    emit: Callable[[T], list[Sample]]
    restrict: Callable[[T, Container[str]], T] | None = None
    node: Callable[[T], Iterable[Sample]] | None = None
    node_prefixes: tuple[str, ...] = ()
    node_names: frozenset[str] = frozenset()
    objects: tuple[str, ...] = ()
    lists: tuple[str, Callable[[T], Container[str]]] | None = None
    unreadable: Callable[[T], Iterable[tuple[Labels, str]]] | None = None
    parts: Callable[[Machine, Callable[[Hashable], str]], T] | None = None
    period_help: str = ""
    paced: bool = False

    def samples(self, value: T, whole_devices: Container[str] | None) -> list[Sample]:
        """Return the exported samples of a value; `whole_devices`: their names, None: not known."""
        if self.restrict is not None and whole_devices is not None:
            value = self.restrict(value, whole_devices)
        return self.emit(value)


def of_whole_devices(value: Mapping[str, T], whole_devices: Container[str]) -> dict[str, T]:
    """Return the entries of these devices: without partitions and devices that hold nothing yet."""
    return {name: entry for name, entry in value.items() if name in whole_devices}


def read_by_poller(_: Machine) -> NoReturn:
    """Replaces `read` if a poller of daemon/polling keeps state between runs."""
    raise NotImplementedError("expected it to be replaced by a poller (daemon/polling/pollers.py)")


def collect(source: Source[T], root: Machine, clock: Callable[[], float]) -> Reading[T]:
    """Run one collector once; every result is an outcome, never an exception.

    `clock` is monotonic, in seconds.
    """
    began = clock()
    value: T | None = None
    error, last = "", ("", b"")
    root.last = last
    try:
        value = source.read(root)
        outcome = Outcome.OK
    except AbsentError as problem:
        outcome, error = Outcome.ABSENT, str(problem)
    except StuckError as problem:
        outcome, error = Outcome.STUCK, str(problem)
    except ReadError as problem:
        outcome, error = Outcome.FAILED, str(problem)
    except ParseError as problem:
        outcome, error, last = Outcome.UNPARSED, str(problem), root.last
    except Exception as problem:  # noqa: BLE001 - the one place that catches everything
        outcome, error = Outcome.BUG, trace(problem)
    ended = clock()
    return Reading(source.name, outcome, ended, ended - began, value, error, *last)
