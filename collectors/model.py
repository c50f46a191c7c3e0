"""Common types of all layers: readings, outcomes, errors, samples."""

from __future__ import annotations

import dataclasses
import enum
from operator import attrgetter
from typing import (
    TYPE_CHECKING,
    Annotated,
    Generic,
    Literal,
    Protocol,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

KIB = 1024
SECTOR_BYTES = 512
"""A sector of the block layer is 512 bytes on any drive. Source: kernel, block/stat.rst."""

_DIGITS = 20
"""Of 2**64 - 1."""

Labels = tuple[tuple[str, str], ...]
"""Label pairs sorted by name; the metric's own name is never among them."""

Sample = tuple[str, Labels, float]
"""Metric name, labels, value."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)

Kind = Literal["counter", "gauge", "histogram", "untyped"]
"""'untyped' are some of node_exporter's. The samples of a histogram have its name and a suffix."""
HISTOGRAM_SUFFIXES = ("_bucket", "_sum", "_count")


class Outcome(enum.StrEnum):
    """Result of one attempt to read a data source; only `ok` has a value."""

    OK = "ok"
    ABSENT = "absent"
    """The kernel does not offer it here: no such file, or disabled at boot."""
    FAILED = "failed"
    """It exists and could not be read."""
    UNPARSED = "unparsed"
    """It was read, and has an unexpected format."""
    STUCK = "stuck"
    """A read exceeds its timeout and is still running."""
    BUG = "bug"
    """Our own exception; the log has its traceback."""


class UserInputError(Exception):
    """User input cannot be used: configuration, rules, a recording; the text is for the user."""


class AbsentError(Exception):
    """The kernel does not offer this data source here."""


class ProgramNotFoundError(AbsentError):
    """The program that reads it is not installed."""


class ReadError(Exception):
    """The data source exists and could not be read."""


class DeadlineError(ReadError):
    """The program that reads it was killed at its deadline."""


class StuckError(ReadError):
    """The program that reads it is stuck in the kernel."""


class UnansweredError(BaseException):
    """A path of a recording does not answer: who reads it waits. No collector may catch this."""

    def __init__(self, path: str) -> None:
        """Name the path."""
        super().__init__(f"'{path}': does not answer")
        self.path = path


class ParseError(ValueError):
    """The text of a data source violates its grammar."""


_Error = TypeVar("_Error", bound=Exception)


def without_frames(error: _Error) -> _Error:
    """Return an equal error without traceback, to be stored, or raised although it is stored.

    A traceback has the frames that the error passed, and they what was read: all of it would be
    alive as long as the error. A frame that has the error as well is garbage that only a walk of
    the collector frees.
    """
    return type(error)(*error.args)


def parse_count(text: str) -> int:
    """Parse an unsigned 64-bit number as the kernel prints it. Errors: ValueError.

    Not int(): that accepts '-1', '1_000', other scripts' digits, and numbers too large for a float.
    """
    if len(text) > _DIGITS or not (text.isdigit() and text.isascii()):
        raise ValueError(f"expected an unsigned 64-bit number, got {text[:40]!r}")
    return int(text)


@dataclass(frozen=True, slots=True)
class Reading(Generic[T_co]):
    """The result of one run of a collector.

    Units: `monotonic_seconds` is the program's clock when the run ended.
    """

    source: str
    outcome: Outcome
    monotonic_seconds: float
    duration_seconds: float
    value: T_co | None = None
    error: str = ""
    path: str = ""
    """Of the file that was read last, if it is `unparsed`; `text` is its content."""
    text: bytes = dataclasses.field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Metric:
    """How a field of a dataclass appears on '/metrics': kind and help text."""

    kind: Kind
    help: str


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family: Prometheus name, kind, help text."""

    name: str
    kind: Kind
    help: str


Group = tuple[Family, tuple[Sample, ...]]
"""A family and all its samples in one chunk."""


class Chunk:
    """Families that change together; a new `version` means that they may have changed.

    They are made when they are read for the first time, which may be in any thread.
    """

    __slots__ = ("_families", "_make", "_names", "name", "version")

    def __init__(
        self,
        name: str,
        version: int,
        families: tuple[Group, ...] = (),
        *,
        make: Callable[[], tuple[Group, ...]] | None = None,
        names: tuple[str, ...] = (),
    ) -> None:
        """Take the families, or what makes them: then `names` begin all their names."""
        self.name = name
        self.version = version
        self._families = families if make is None else None
        self._make = make or (lambda: families)
        self._names = names

    @property
    def families(self) -> tuple[Group, ...]:
        """Return each family with its samples. Errors: whatever its collector raises."""
        families = self._families
        if families is None:
            families = self._families = self._make()
        return families

    def of(self, names: Collection[str]) -> Iterator[Group]:
        """Yield the families with these names; others are not made for it."""
        if self._families is None and not any(map(self._may_have, names)):
            return
        for group in self.families:
            if group[0].name in names:
                yield group

    def _may_have(self, name: str) -> bool:
        return name.startswith(self._names)


def trace(error: BaseException) -> str:
    """Return an exception and every place it passed, outermost first.

    The standard library's function opens the modules for their lines: not with a hung disk.
    """
    places = []
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        places.append(f"{code.co_filename}:{step.tb_lineno} in {code.co_name}")
        step = step.tb_next
    return f"{type(error).__name__}: {error} ({'; '.join(places)})"


class Emitter(Protocol[T_contra]):
    """Returns the samples of a value, with these labels."""

    def __call__(self, value: T_contra, labels: Labels = (), /) -> list[Sample]:
        """Values that are None are left out."""


def describe(cls: type[T], prefix: str) -> tuple[tuple[Family, ...], Emitter[T]]:
    """Return the families of a dataclass's annotated fields and a function that emits samples.

    The metric's name is `prefix` plus the field's name; a field that is None gives no sample.
    """
    families: list[tuple[str, Family]] = []
    for name, hint in get_type_hints(cls, include_extras=True).items():
        if get_origin(hint) is Annotated:
            families.extend(
                (name, Family(prefix + name, extra.kind, extra.help))
                for extra in get_args(hint)[1:]
                if isinstance(extra, Metric)
            )
    fields = tuple((family.name, attrgetter(name)) for name, family in families)

    def emit(value: T, labels: Labels = ()) -> list[Sample]:
        samples: list[Sample] = []
        for metric, read in fields:
            number = read(value)
            if number is not None:
                samples.append((metric, labels, number))
        return samples

    return tuple(family for _, family in families), emit
