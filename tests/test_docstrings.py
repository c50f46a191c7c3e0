"""Docstrings name what exists: a rename that leaves a docstring behind fails here.

Checked are names in backticks that look like identifiers, and wherever a docstring has them:
modules, classes of errors, and limits. A name in backticks is looked up from its docstring: in its
function, in its class and what that inherits, at the top of its module, then in all modules.
"""

from __future__ import annotations

import ast
import builtins
import functools
import gc
import keyword
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).resolve().parents[1]
PACKAGES = ("collectors", "rules", "daemon")

NAMES: dict[str, str] = {
    "_xn": "a value in a unit test of Prometheus's rules",
    "access_token": "a parameter of a URL",
    "ack": "a command",
    "as_bytes": "of the standard library's EmailMessage",
    "axn": "a value in a unit test of Prometheus's rules",
    "fault": "a key of JSON, of UnparsedLine",
    "hour": "a function of PromQL",
    "ignoring": "a keyword of PromQL",
    "iowarden": "the command",
    "least": "a key of an expectation file",
    "offset": "a keyword of PromQL",
    "pipeline": "of Go's templates",
    "query": "a command",
    "raid_level": "an attribute in sysfs",
    "regexp.MustCompile": "a function of Go",
    "sas_address": "an attribute in sysfs",
}
"""Names in backticks that no code has, and whose they are."""

_TICKED = re.compile(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(\))?`")
_MODULE = re.compile(r"\b(?:collectors|rules|daemon)(?:(?:/\w+)+\.py|(?:\.[a-z]\w+)+)\b")
_PUBLIC = re.compile(
    r"\b(?:[A-Z]\w*[a-z]Error|(?:MAX|MAXIMUM|MIN|MINIMUM|MOST|LEAST|FEWEST)_[A-Z_]+"
    r"|[A-Z][A-Z_]*_SECONDS)\b"
)
_STRING = re.compile(r'"(\w+_\w+)"|\.(\w+Error)\b|^    [A-Z][A-Z_]* = "(\w+)"', re.MULTILINE)
"""Labels, metrics, columns; errors of the standard library; values of enumerations."""

_Owner = ast.Module | ast.ClassDef | ast.FunctionDef


@dataclass(frozen=True, slots=True)
class Docstring:
    """A docstring, with what it stands in, from outside: module, class, function."""

    line: int
    text: str
    owners: tuple[_Owner, ...]


@dataclass(slots=True)
class Package:
    """All modules by path. `public` names may stand in any docstring."""

    trees: dict[str, ast.Module] = field(default_factory=dict)
    classes: dict[str, list[ast.ClassDef]] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)
    public: set[str] = field(default_factory=lambda: {*dir(builtins), *keyword.kwlist})
    _names: dict[ast.AST, set[str]] = field(default_factory=dict)

    def add(self, path: str, text: str) -> None:
        """Add a module."""
        self.trees[path] = tree = ast.parse(text)
        name = path.removesuffix(".py")
        self.modules |= {name, str(Path(name).parent)}
        self.public.update(name.split("/"))
        self.public |= declared(tree)
        self.public.update(name for names in _STRING.findall(text) for name in names)
        for node in tree.body:
            for each in node.body if isinstance(node, ast.If) else (node,):
                if isinstance(each, ast.ClassDef):
                    self.classes.setdefault(each.name, []).append(each)

    def unknown(self) -> Iterator[tuple[str, str]]:
        """Yield place and name of what docstrings name and no code has."""
        for path, tree in self.trees.items():
            for docstring in docstrings(tree):
                for offset, name in self._unknown(docstring):
                    line = docstring.line + docstring.text.count("\n", 0, offset)
                    yield f"{path}:{line}", name

    def _unknown(self, docstring: Docstring) -> Iterator[tuple[int, str]]:
        for found in _TICKED.finditer(docstring.text):
            if not self.has(found[1], docstring.owners):
                yield found.start(), found[1]
        for found in _MODULE.finditer(docstring.text):
            if not self.has_module(found[0]):
                yield found.start(), found[0]
        for found in _PUBLIC.finditer(docstring.text):
            if found[0] not in self.public:
                yield found.start(), found[0]

    def has_module(self, name: str) -> bool:
        """Return whether a module exists; 'rules.faults.Fault' may end with what is in it."""
        path = name.removesuffix(".py") if name.endswith(".py") else name.replace(".", "/")
        return path in self.modules or path.rpartition("/")[0] in self.modules - {*PACKAGES}

    def has(self, name: str, owners: tuple[_Owner, ...]) -> bool:
        """Return whether a docstring may name this; of 'a.b', a class a has b."""
        first, _, rest = name.partition(".")
        if rest and first in self.classes:
            return any(rest in self.members(each) for each in self.classes[first])
        inner = owners[1:] or owners
        return first in self.public or any(first in self.names(owner) for owner in inner)

    def names(self, owner: _Owner) -> set[str]:
        """Return all that a docstring of it may name."""
        if owner not in self._names:
            match owner:
                case ast.FunctionDef():
                    found = used(owner)
                case ast.ClassDef():
                    found = self.members(owner)
                case ast.Module(body=body):
                    found = set().union(*(self._outside(node) for node in body))
            self._names[owner] = found
        return self._names[owner]

    def _outside(self, node: ast.stmt) -> set[str]:
        match node:
            case ast.ClassDef():
                return self.members(node)
            case ast.FunctionDef(args=arguments):
                return used(arguments)
        return used(node)

    def members(self, node: ast.ClassDef) -> set[str]:
        """Return fields, methods and their parameters, also those of the classes it inherits."""
        found = declared(node)
        for method in node.body:
            if isinstance(method, ast.FunctionDef):
                found |= used(method.args)
                found.update(
                    each.attr
                    for each in ast.walk(method)
                    if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
                )
        for base in node.bases:
            for parent in self.classes.get(ast.unparse(base).rpartition(".")[2], ()):
                found |= self.members(parent) if parent is not node else set()
        return found


def declared(node: ast.Module | ast.ClassDef | ast.If | ast.Try) -> set[str]:
    """Return the names of a body: classes, functions, fields or constants, imports."""
    found: set[str] = set()
    for each in node.body:
        match each:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                found.add(name)
            case ast.Assign(targets=targets):
                found.update(name for target in targets for name in used(target))
            case ast.AnnAssign(target=target):
                found |= used(target)
            case ast.Import() | ast.ImportFrom():
                found |= used(each)
            case ast.If() | ast.Try():
                found |= declared(each)
    return found


def used(node: ast.AST) -> set[str]:
    """Return all names in a part of a tree, and its strings."""
    found: set[str] = set()
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                found.add(name)
            case ast.Constant(value=str() as name) | ast.keyword(arg=str() as name):
                found.add(name)
            case ast.FunctionDef(name=name):
                found.add(name)
            case ast.alias(name=name, asname=asname):
                found.update((asname or name).split("."))
    return found


def docstrings(node: _Owner, owners: tuple[_Owner, ...] = ()) -> Iterator[Docstring]:
    """Yield the docstrings of a module, its classes, functions, fields and constants."""
    owners = (*owners, node)
    todo = list(node.body)
    while todo:
        match todo.pop():
            case ast.Expr(value=ast.Constant(value=str() as text), lineno=line):
                yield Docstring(line, text, owners)
            case ast.ClassDef() | ast.FunctionDef() as child:
                yield from docstrings(child, owners)
            case ast.If(body=body) | ast.Try(body=body):
                todo += body


@functools.cache
def product() -> list[tuple[str, str]]:
    """Return place and name of what is unknown. The trees are many: not collected meanwhile."""
    package = Package()
    gc.disable()
    try:
        for folder in PACKAGES:
            for path in sorted((TOP / folder).rglob("*.py")):
                package.add(str(path.relative_to(TOP)), path.read_text(encoding="utf-8"))
        return sorted(package.unknown())
    finally:
        gc.enable()


def test_names_in_docstrings_exist() -> None:
    """Else a reader looks for what was renamed or removed."""
    assert [f"{place}: {name}" for place, name in product() if name not in NAMES] == []


def test_each_exception_is_needed() -> None:
    """One whose docstring was changed would hide the next mistake."""
    assert NAMES.keys() - {name for _, name in product()} == set()


MODULE = '''"""{}"""
import re

MAX_DISKS = 8

class Disk:
    """A disk. Fields: `serial`."""

    serial: str
    ok = "monitored"

class Member(Disk):
    def failed(self, now: float) -> bool:
        """At `now`."""
        self.since = now

def poll(disk: Disk, late: float) -> None:
    """Poll a `disk`."""
    tries = 3
'''


@pytest.mark.parametrize(
    "text",
    [
        *("`Disk`", "`Disk.serial`", "`Member.serial`", "`Member.since`", "`poll()`", "`late`"),
        *("`MAX_DISKS`", "at most MAX_DISKS", "`re.compile`", "`is`", "`rules.disks`"),
        *("rules/disks.py", "rules.disks.Disk", "ValueError", "`a + b`", "`--force`"),
    ],
)
def test_a_name_that_exists_is_right(text: str) -> None:
    """In the docstring of a module, which may name all that others see of it."""
    assert unknown(MODULE.format(text)) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("A `drive` of `Disk`", "drive"),
        ("`Disk.model`", "Disk.model"),
        ("as `Root.ask`", "Root.ask"),
        ("`tries`, a local variable", "tries"),
        ("at most MOST_DISKS", "MOST_DISKS"),
        ("Errors: LateError", "LateError"),
        ("see rules/drives.py", "rules/drives.py"),
        ("see rules.drives", "rules.drives"),
    ],
)
def test_a_name_that_does_not_exist_is_found(text: str, name: str) -> None:
    """At its line."""
    assert unknown(MODULE.format(f"Disks.\n\n{text}.")) == [("rules/disks.py:3", name)]


def test_a_docstring_may_not_name_the_parameters_of_another_function() -> None:
    """`late` of one function would else justify any."""
    text = MODULE.format("") + '\n\ndef stop(disk: Disk) -> None:\n    """Stop. `late`: when."""\n'
    assert [name for _, name in unknown(text)] == ["late"]


def unknown(text: str) -> list[tuple[str, str]]:
    """Return what is unknown in a package of this module alone."""
    package = Package()
    package.add("rules/disks.py", text)
    return [*package.unknown()]
