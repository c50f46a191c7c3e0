"""Our dataclasses compare, hash and print as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable


def _disk(decorate: Callable[..., Callable[[type], type]], *, frozen: bool) -> type:
    @decorate(frozen=frozen, slots=True)
    class Disk:
        """A disk."""

        name: str
        sectors: int = 8
        read: list[int] = dataclasses.field(default_factory=list, compare=False, repr=False)

    return Disk


def _of(disk: type) -> list[object]:
    """Return all that can be said of a few disks."""
    first, same, other = disk("sda", read=[1]), disk("sda", read=[2]), disk("sda", 9)

    class Derived(disk):  # type: ignore[misc,valid-type]
        """Another class with the same fields."""

    hashes = disk.__hash__ is not None
    return [
        (first == same, first != same, first == other, first == ("sda", 8)),
        (first == Derived("sda"), Derived("sda") == Derived("sda")),
        (repr(other), repr(Derived("sda"))),
        hashes and (hash(first) == hash(same), len({first, same, other, Derived("sda")})),
        (copy.deepcopy(other) == other, dataclasses.replace(first, sectors=9) == other),
        (dataclasses.asdict(other), disk.__match_args__, disk.__slots__),
    ]


@pytest.mark.parametrize("frozen", [True, False])
def test_they_behave_as_those_of_the_standard_library(frozen: bool) -> None:
    """Frozen ones are keys of a dictionary, the others are not; a field may be left out."""
    theirs = _of(_disk(dataclasses.dataclass, frozen=frozen))
    assert _of(_disk(dataclass, frozen=frozen)) == theirs


def test_two_threads_may_be_the_first_to_compare() -> None:
    """The one that comes second has called the method that the first one replaces."""

    @dataclass(frozen=True, slots=True)
    class Disk:
        """A disk."""

        name: str

    equal, hashed = Disk.__eq__, Disk.__hash__
    first, same = Disk("sda"), Disk("sda")
    assert first == same
    assert len({first, same}) == 1
    assert equal(first, same)
    assert hashed(first) == hash(same)


def test_classes_without_fields_are_equal_to_their_own_kind_only() -> None:
    """As markers of a state are."""

    @dataclass(frozen=True, slots=True)
    class Healthy:
        """Nothing to say."""

    @dataclass(frozen=True, slots=True)
    class Absent:
        """Nothing to say either."""

    assert Healthy() == Healthy()
    assert Healthy() != Absent()
    assert len({Healthy(), Healthy()}) == 1


def test_what_a_class_defines_itself_stays() -> None:
    """Its own '==', hash and repr; without `eq` it is compared by identity."""

    @dataclass(frozen=True, slots=True)
    class Own:
        """A name without case."""

        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and self.name.lower() == other.name.lower()

        def __hash__(self) -> int:
            return hash(self.name.lower())

        def __repr__(self) -> str:
            return self.name

    @dataclass(frozen=True, slots=True, eq=False)
    class Single:
        """One of its kind."""

        name: str

    assert {Own("A")} == {Own("a")}
    assert repr(Own("A")) == "A"
    assert Single("a") != Single("a")
    assert len({Single("a"), Single("a")}) == 2
