"""Typed fields of the probe's answers: a value of another type raises TypeError. Pure."""

from __future__ import annotations

import math
from typing import Any, TypeVar

_T = TypeVar("_T")


def field(cls: type[_T], found: Any, name: str) -> _T:  # noqa: ANN401 - whatever the probe sent
    """Return a required field of an object. Errors: KeyError, TypeError."""
    value = found[name]
    if not isinstance(value, cls) or (isinstance(value, bool) and cls is int):
        raise TypeError(f"'{name}': expected {cls.__name__}, got {value!r:.60}")
    return value


def optional(cls: type[_T], found: Any, name: str) -> _T | None:  # noqa: ANN401 - as above
    """Return a field that may be null. Errors: KeyError, TypeError."""
    return None if found[name] is None else field(cls, found, name)


def number(found: Any, name: str) -> float:  # noqa: ANN401 - whatever the probe sent
    """Return a field that is a number, with or without a fraction.

    Errors: KeyError, TypeError, ValueError (not finite), OverflowError.
    """
    value = found[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"'{name}': expected a number, got {value!r:.60}")
    if not math.isfinite(value):
        raise ValueError(f"'{name}': expected a finite number, got {value!r:.60}")
    return float(value)
