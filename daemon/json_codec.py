"""Converts frozen dataclasses to JSON and back, for messages between service and commands.

What must survive a restart is declared in daemon/service/stored_documents.py and read by that.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

Document = TypeVar("Document")
"""A type that `encode` accepts."""


class CodecError(ValueError):
    """A document does not match what this version writes."""


def encode(value: object) -> str:
    """Return the JSON text of dataclasses, tuples, mappings by text, enums and plain values."""
    return json.dumps(plain(value), separators=(",", ":"), ensure_ascii=False)


def decode(cls: type[Document], text: str) -> Document:
    """Return the value of type `cls` that a text holds.

    Errors: CodecError with the place; a missing field takes its default, an unknown one is ignored,
    so that a command and a service of different versions work together.
    """
    try:
        found: Document = _typed(cls, json.loads(text), "$")
    except (json.JSONDecodeError, TypeError, KeyError, ValueError) as error:
        raise CodecError(
            f"expected {getattr(cls, '__name__', cls)} as JSON, got {text[:80]!r}: {error}"
        ) from error
    return found


def text(found: Mapping[str, Any], name: str) -> str:
    """Return a text that must be present. Errors: CodecError."""
    value = found.get(name)
    if not isinstance(value, str):
        raise CodecError(f"'{name}': expected a text, got {value!r:.60}")
    return value


def plain(value: object) -> object:
    """Return a value as dicts, lists, texts and numbers. Fields and keys: as in JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list | frozenset):
        return [plain(item) for item in value]
    return value


def _typed(cls: Any, value: Any, place: str) -> Any:  # noqa: ANN401 - one return a kind of type
    origin, arguments = typing.get_origin(cls), typing.get_args(cls)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        return _typed(next(a for a in arguments if a is not type(None)), value, place)
    if dataclasses.is_dataclass(cls):
        _expect(value, dict, place)
        hints = typing.get_type_hints(cls)
        return cls(  # type: ignore[operator]  # a class, as the line above found
            **{
                f.name: _typed(hints[f.name], value[f.name], f"{place}.{f.name}")
                for f in dataclasses.fields(cls)
                if f.name in value
            }
        )
    if origin in (tuple, list, frozenset):
        _expect(value, list, place)
        if origin is tuple and arguments[-1] is not Ellipsis:
            if len(value) != len(arguments):
                raise ValueError(f"'{place}': expected {len(arguments)} items, got {len(value)}")
            return tuple(_typed(a, v, place) for a, v in zip(arguments, value, strict=True))
        return origin(_typed(arguments[0], v, f"{place}[{i}]") for i, v in enumerate(value))
    if origin in (dict, Mapping):
        _expect(value, dict, place)
        return {key: _typed(arguments[1], item, f"{place}.{key}") for key, item in value.items()}
    if isinstance(cls, type) and issubclass(cls, enum.Enum):
        return cls(value)
    if cls is float:
        _expect(value, int | float, place)
        return float(value)
    _expect(value, cls, place)
    return value


def _expect(value: object, cls: Any, place: str) -> None:  # noqa: ANN401 - as isinstance takes it
    if not isinstance(value, cls) or (isinstance(value, bool) and cls is not bool):
        raise TypeError(f"'{place}': expected {getattr(cls, '__name__', cls)}, got {value!r:.60}")
