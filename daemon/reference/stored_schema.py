"""Reference of what is stored: documents and records of state.db, tables of both databases."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from typing import TYPE_CHECKING, Any

from iowarden.daemon.reference.markdown import code, literal, page, table
from iowarden.daemon.service.stored_documents import DOCUMENTS, RECORDS, NumberKind
from iowarden.daemon.storage import history_db, state_db

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.daemon.storage.sqlite import DatabaseKind as File

_INTRODUCTION = """\
For people who change the code, or who read the state with `sqlite3`. The declaration is in
`daemon/service/stored_documents.py`; a test compares it with a digest per version, so that no field
changes unnoticed. How to change a stored field: CONTRIBUTING.md of the repository.

Both files are SQLite databases in the state directory (`/var/lib/iowarden`): `state.db` has what
must survive a kill, `history.db` samples, drive attributes and storage events. `user_version` is
the version of the tables. Only the service writes them; it opens `state.db` exclusively."""
_DOCUMENTS_TEXT = """\
Table `document` has one row per document: its JSON text, under the document's name (version 1) or
`NAME.vN` (later versions). A program reads the versions that it supports and does not change
newer ones."""
_RECORDS_TEXT = """\
A record is a JSON object with exactly these fields. "program time" is seconds of the program's
clock, moved at each start by what the wall clock advanced; "wall time" is Unix time; "monotonic
time" is seconds since a boot; "source's time" is the clock of the data source, for example of a
RAID controller; "duration" is seconds."""
_MEANING = {
    "install": "random identifier of the installation; part of each Message-ID",
    "alerts": "pending, firing and unknown alerts",
    "incidents": "open incidents, and closed ones that can be reopened",
    "sequences": "number of the last mail of each incident's thread",
    "signals": "what signals have observed over days, for example usual bandwidths and baselines",
    "devices": "disks that were removed, replaced or returned",
    "dependents": "what was stacked on each disk: partitions, arrays, volumes, mounts",
    "digest": "entries that wait for the weekly digest, and whether the initial report was sent",
    "silences": "silences and acknowledgements",
    "self_tests": "scheduled and running self-tests, by disk",
    "scans": "surface scans, by disk: how far each is, what cannot be read, throughput by zone",
    "stuck": "programs of the probe that were killed and still hang in the kernel",
    "correlation": "groups of events that are or may become incidents; controllers' clocks",
    "cursors": "up to which entry the kernel's log and each controller's log were read",
    "lookups": "which file a bad sector belongs to, as far as it was determined",
    "recurring": "alerts that recur at the same hour",
    "mail_routes": "which mail servers refused whom, and mails that may have been accepted",
    "wall_ahead_seconds": "by how much the wall clock was ahead of the program's clock",
}


def text() -> str:
    """Return the page."""
    return page(
        "Stored schema",
        _INTRODUCTION,
        "## Documents of `state.db`",
        _DOCUMENTS_TEXT,
        table(
            ("document", "version", "type", "meaning"),
            (
                (literal(name), str(each.version), _type(each.type), _MEANING[name])
                for name, each in DOCUMENTS.items()
            ),
        ),
        "## Records",
        _RECORDS_TEXT,
        *_records(),
        "## Tables",
        *_tables(state_db.KIND),
        *_tables(history_db.KIND),
    )


def _records() -> Iterator[str]:
    for cls, fields in sorted(RECORDS.items(), key=lambda each: each[0].__name__):
        hints = typing.get_type_hints(cls)
        yield f"### `{_name(cls)}`"
        yield table(
            ("field", "type"),
            ((literal(each.name), _type(hints[each.name], each.kind)) for each in fields),
        )


def _name(cls: type) -> str:
    """Return the name of a record; of two with one name, with that of the module."""
    alike = sum(other.__name__ == cls.__name__ for other in RECORDS)
    module = cls.__module__.rpartition(".")[2]
    return f"{module}.{cls.__name__}" if alike > 1 else cls.__name__


def _value(member: enum.Enum) -> str:
    own = literal(str(member.value))
    return f"{own} ({member.name.lower()})" if isinstance(member.value, int) else own


def _tables(file: File) -> Iterator[str]:
    yield f"### `{file.name}.db`, tables of version {file.version}"
    yield code(file.tables.replace(";CREATE", ";\n\nCREATE").replace(";\nCREATE", ";\n\nCREATE"))


def _type(hint: Any, kind: NumberKind = NumberKind.PLAIN) -> str:  # noqa: ANN401 - any type
    """Return a type in words; a record as a link."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return f"[{_name(hint)}](#{_name(hint).lower().replace('.', '')})"
    if kind is NumberKind.PERSISTENT:
        return "object of observations by signal, then by object: a list of pairs of numbers"
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        some = next(each for each in arguments if each is not types.NoneType)
        return f"{_type(some, kind)} or null"
    if origin is tuple and arguments[-1] is Ellipsis:
        return f"list of {_type(arguments[0], kind)}"
    if origin is tuple:
        return f"[{', '.join(_type(each, kind) for each in arguments)}]"
    if origin is dict:
        return f"object of {_type(arguments[1], kind)}"
    if issubclass(hint, enum.Enum):
        return f"one of {', '.join(map(_value, hint))}"
    names = {str: "text", bool: "true or false", int: "integer", float: "number"}
    return (
        f"{names[hint]} ({kind})"
        if kind is not NumberKind.PLAIN and hint in (int, float)
        else names[hint]
    )
