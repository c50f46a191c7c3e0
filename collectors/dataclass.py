"""Frozen dataclasses that cost half of the standard library's: there are five hundred of them.

`dataclasses.dataclass(frozen=True, slots=True)` compiles ten methods for each class, which was half
of the time and a seventh of the memory of a start. Here only `__init__` is compiled with the class,
`==` and `hash` when they are first used, and `repr` is the same function for all.

*Limit:* at run time a frozen one may be changed; mypy alone refuses it. In return `__init__` is
faster. All else is as in the standard library, whose functions read these classes as well.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - what mypy is to see
else:

    def dataclass(
        *, frozen: bool = False, eq: bool = True, order: bool = False, **options: bool
    ) -> Callable[[type], type]:
        """Return the decorator of a class; parameters as those of `dataclasses.dataclass`."""
        if order:
            return dataclasses.dataclass(frozen=frozen, eq=eq, order=order, **options)
        plain = dataclasses.dataclass(eq=False, repr=False, **options)

        def decorate(cls: type) -> type:
            made = plain(cls)
            own = made.__dict__
            if "__repr__" not in own:
                made.__repr__ = _repr
            if eq and "__eq__" not in own:
                made.__eq__ = _first_eq
                if own.get("__hash__") is None:
                    made.__hash__ = _first_hash if frozen else None
            return made

        return decorate


def _first_eq(self: Any, other: Any) -> Any:  # noqa: ANN401 - of any class
    _compile(self.__class__, "__eq__", _first_eq)
    return self.__eq__(other)


def _first_hash(self: Any) -> int:  # noqa: ANN401 - of any class
    _compile(self.__class__, "__hash__", _first_hash)
    return hash(self)


def _compile(cls: type, name: str, placeholder: object) -> None:
    """Replace a method by the one for the fields of the class that it is of."""
    owner = next((each for each in cls.__mro__ if each.__dict__.get(name) is placeholder), None)
    if owner is None:  # another thread has done it meanwhile
        return
    names = [each.name for each in dataclasses.fields(owner) if each.compare]
    own, others = ("".join(f"{whose}.{each}, " for each in names) for whose in ("self", "other"))
    source = {
        "__eq__": "lambda self, other:"
        f" ({own}) == ({others}) if other.__class__ is self.__class__ else NotImplemented",
        "__hash__": f"lambda self: hash(({own}))",
    }[name]
    setattr(owner, name, eval(source))  # noqa: S307 - names of fields, as the standard library does


def _repr(self: Any) -> str:  # noqa: ANN401 - of any class
    shown = ", ".join(
        f"{each.name}={getattr(self, each.name)!r}"
        for each in dataclasses.fields(self)
        if each.repr
    )
    return f"{self.__class__.__qualname__}({shown})"
