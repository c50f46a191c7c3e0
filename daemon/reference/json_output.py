"""Reference of `--json`: for each command its document, and the fields of each."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import re
import sys
import types
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from iowarden.daemon.check import explain, report
from iowarden.daemon.cli import top_command
from iowarden.daemon.control import documents, mail_document, storage_document
from iowarden.daemon.manual.alert_manual import AlertManual
from iowarden.daemon.reference.markdown import code, literal, page, table
from iowarden.daemon.trace.protocol import TraceResult
from iowarden.rules.matcher import Matcher
from iowarden.rules.topology.file_location import SectorContent

if TYPE_CHECKING:
    from collections.abc import Iterator

_INTRODUCTION = """\
A document is one JSON value in ASCII; `iowarden events --json` prints one document per line.
Later versions only add fields; a field that is not listed here is not part of the interface.

Times are Unix time in seconds (`..._seconds`), spans seconds, sizes bytes; null where there is no
value: absent is not 0. Names that others chose (disks, mounts, programs, kernel lines) have control
characters, bidirectional controls and undecodable bytes escaped (`\\x1b`, `\\u202e`). In a text of
several lines, such as a mail's, each line ends with one newline. A label's value or a name that was
escaped, or cut at 256 characters, ends in `~` and 8 hexadecimal digits: two such names stay
different, and `/metrics` has the same. An ordinary name is unchanged.

The control socket sends the same documents: `daemon/control/documents.py`."""

DOCUMENTS: Mapping[str, type] = {
    "status": documents.Status,
    "advise": documents.TuningAdvice,
    "silence list": documents.SilenceList,
    "query": documents.Result,
    "metrics": documents.MetricList,
    "events": documents.EventLine,
    "incident list": documents.IncidentList,
    "incident show": documents.IncidentDetail,
    "monitoring": documents.DiskList,
    "storage": storage_document.StorageTree,
    "disk list": documents.DiskLine,
    "disk show": documents.DiskDetail,
    "disk history": documents.DiskHistory,
    "selftest status": documents.SelfTestList,
    "scan status": documents.ScanList,
    "mail list": mail_document.StoredMailList,
    "mail show": mail_document.StoredMailText,
    "rules show": AlertManual,
    "trace": TraceResult,
}
"""Commands whose document is a class."""
LISTS = frozenset({"disk list"})
"""Commands that print a list of them."""
OTHERS: Mapping[str, Mapping[str, str | type]] = {
    "check": {
        "status": "exit status",
        "summary": "one line",
        "findings": report.Finding,
        "items": report.Item,
    },
    "config check": {
        "file": "path of the configuration",
        "problems": "list of what is wrong, by file and line; empty: it is valid",
        "rules": "number of loaded rules; 0 with a problem",
        "groups": "number of their groups",
        "user": "as which user the files were read; '': as who ran it",
        "notes": "list of what may be unintended",
        "exists": "false: there is no file, so all settings have their default values",
    },
    "locate": {
        "device": "as given",
        "sector": "first sector, of 512 bytes",
        "sectors": "number of sectors",
        "answers": SectorContent,
    },
    "replay": {
        "frames": "number of frames",
        "seconds": "length of the recording",
        "problem": "why it ended early; ''",
        "timeline": "list of what was logged: `at_seconds` from the beginning, `severity`,"
        " `section`, and the fields of that section",
        "mails": "list of mails: `at_seconds`, `date`, `subject`, `text`",
        "missing": (
            "list of what the recordings lack: `collector`, `path`, `objects` without it,"
            " `verdicts` that are not possible"
        ),
        "differences": "list of lines that differ from `--expect`",
    },
    "unparsed list": {
        "texts": "list of what is stored: `name` for `unparsed show`, `at_seconds`, `source`,"
        " `path` and `error`",
    },
    "rules list": {
        "rule": "alert, recorded metric, or class of events",
        "type": "`alert`, `record` or `event`",
        "severity": "value of the label; of an event, that of one alone",
        "condition": "value of the label",
        "state": "the worst state of its alerts; unknown without the service",
        "source": "where it comes from",
        "expression": "PromQL; '' of an event",
        "meaning": "of an event; '' of others",
        "group": "name of the rule group; '' of an event",
        "file": "path of the rule file, or of the table of events",
        "line": "line in that file",
        "overridden": "list of what the configuration changes",
    },
}
"""Commands with a document of their own; 'rules list' prints a list of them."""
EXAMPLES: Mapping[str, types.ModuleType] = {"explain": explain, "top": top_command}
"""Commands whose module describes the format."""
ADDED = {
    "explain": "Of an alert, with the fields of `iowarden rules show --json`.",
    "trace": "Each disk has its name in `device`, each of `slowest` its file in `file` (null: not"
    " known).",
    "locate": "Each answer also has `sentence`, and `steps` with `text`, `command` and what it"
    " `destroys`.",
}
_FORMAT = re.compile(
    r"Format of `--json`[^\n]*\n\n((?: {4}[^\n]*\n)+)\n(.*?)(?:\n\n|\Z)", re.DOTALL
)
_KINDS = {str: "text", int: "number", float: "number", bool: "true or false"}


def text() -> str:
    """Return the page."""
    return page("JSON output", _INTRODUCTION, *_commands(), *_classes())


def _commands() -> Iterator[str]:
    for command in sorted((*DOCUMENTS, *OTHERS, *EXAMPLES)):
        yield f"## `iowarden {command} --json`"
        if command in EXAMPLES:
            doc = inspect.getdoc(EXAMPLES[command]) or ""
            found = re.search(
                r"Format of `--json`.*?\n\n((?: {4}.*\n)+)\n(.*?)(?:\n\n|\Z)", doc, re.DOTALL
            )
            yield code(inspect.cleandoc(found[1])) if found else ""
            yield found[2] if found else ""
        elif command in DOCUMENTS:
            many = "A list of " if command in LISTS else ""
            yield f"{many}{_link(DOCUMENTS[command])}."
        else:
            rows = (
                (literal(name), f"list of {_link(of)}" if isinstance(of, type) else of)
                for name, of in OTHERS[command].items()
            )
            yield ("A list of:\n\n" if command == "rules list" else "") + table(
                ("field", "meaning"), rows
            )
        yield ADDED.get(command, "")


def classes() -> list[type]:
    """Return all classes that a document is made of, by name."""
    found: dict[str, type] = {}
    todo = [
        *DOCUMENTS.values(),
        *(of for fields in OTHERS.values() for of in fields.values() if isinstance(of, type)),
    ]
    while todo:
        cls = todo.pop()
        if cls.__name__ not in found:
            found[cls.__name__] = cls
            hints = _hints(cls)
            todo += [each for hint in hints.values() for each in _below(hint)]
    return [found[name] for name in sorted(found)]


def _classes() -> Iterator[str]:
    for cls in classes():
        yield f"### {cls.__name__}"
        yield inspect.getdoc(cls) or ""
        notes, hints = _notes(cls), _hints(cls)
        yield table(
            ("field", "type", "meaning"),
            (
                (literal(each.name), _type(hints[each.name]), notes.get(each.name, ""))
                for each in dataclasses.fields(cls)
            ),
        )


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    module = dict(vars(sys.modules[cls.__module__]))
    return typing.get_type_hints(cls, {"Mapping": Mapping, "Matcher": Matcher, **module})


def _below(hint: Any) -> Iterator[type]:  # noqa: ANN401 - any annotation
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        yield hint
    for each in typing.get_args(hint):
        yield from _below(each)


def _type(hint: Any) -> str:  # noqa: ANN401 - any annotation
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {types.UnionType, typing.Union}:
        return " or ".join("null" if a is type(None) else _type(a) for a in arguments)
    if origin in {tuple, list, frozenset}:
        own = [a for a in arguments if a is not Ellipsis]
        return "list of " + ", ".join(dict.fromkeys(map(_type, own)))
    if origin in {dict, Mapping}:
        return f"object: name and {_type(arguments[1])}"
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _link(hint)
    return _KINDS.get(hint, "text")


def _link(cls: type) -> str:
    return f"[{cls.__name__}](#{cls.__name__.lower()})"


def _notes(cls: type) -> dict[str, str]:
    """Return the text below each field of a class."""
    (body,) = [
        node.body
        for node in ast.parse(inspect.getsource(sys.modules[cls.__module__])).body
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__
    ]
    found = {}
    for field, after in itertools.pairwise(body):
        match field, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(words))),
            ):
                found[name] = inspect.cleandoc(words)
            case _:
                pass
    return found
