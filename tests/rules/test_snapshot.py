"""The interface between collectors and signals: one typed field per data source."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from iowarden.collectors import registry
from iowarden.rules import snapshot
from iowarden.rules.signals.table import GROUPS
from iowarden.rules.snapshot import SOURCES

TOP = Path(__file__).parents[2]


def declared() -> dict[str, str]:
    """Return the type that each collector's module declares, by the name of the data source."""
    found = {}
    for path in (TOP / "collectors").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            match node:
                case ast.AnnAssign(
                    target=ast.Name(id="SOURCE"),
                    annotation=ast.Subscript(value=ast.Name(id="Source"), slice=kind),
                    value=ast.Call(keywords=words),
                ):
                    (name,) = (ast.literal_eval(w.value) for w in words if w.arg == "name")
                    found[name] = ast.unparse(kind)
    return found


def test_each_field_of_a_snapshot_is_a_source_and_of_its_type() -> None:
    """Of another name it would be None for ever; of another type mypy would believe it."""
    fields = {
        node.target.id: ast.unparse(node.annotation).removesuffix(" | None")
        for each in ast.parse(Path(snapshot.__file__).read_text()).body
        if isinstance(each, ast.ClassDef)
        for node in each.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    expected = declared()
    assert fields == {name: expected[name] for name in fields}
    assert {source.name for source in registry.SOURCES} >= SOURCES
    assert expected.keys() == {source.name for source in registry.SOURCES}


def test_every_group_names_sources_that_there_are() -> None:
    """A group that waits for a data source of another name would never be stepped."""
    assert {name for group in GROUPS for name in group.sources} <= SOURCES


@pytest.mark.system
def test_mypy_refuses_a_misspelt_source(tmp_path: Path) -> None:
    """The reader of this line would otherwise find out at three in the morning."""
    (tmp_path / "iowarden").mkdir()
    for layer in ("collectors", "rules"):
        (tmp_path / "iowarden" / layer).symlink_to(TOP / layer)
    lines = (
        "from iowarden.rules.signals.signal import View",
        "def right(view: View) -> object: return view.inputs.snapshot.vmstat",
        "def wrong(view: View) -> object: return view.inputs.snapshot.vmstats",
    )
    (tmp_path / "reader.py").write_text("\n".join(lines))
    command = (sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path, "reader.py")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert '"Snapshot" has no attribute "vmstats"' in done.stdout
    assert "Found 1 error in 1 file" in done.stdout


def test_every_group_of_signals_is_in_the_table() -> None:
    """One that the table forgets is never stepped, and nothing would say so."""
    found = 0
    for path in sorted((TOP / "rules/signals").rglob("*.py")):
        for name in re.findall(r"^([A-Z0-9_]+_)?GROUP\b.* = ", path.read_text(), re.MULTILINE):
            parts = path.with_suffix("").relative_to(TOP).parts
            module = importlib.import_module("iowarden." + ".".join(parts))
            assert getattr(module, f"{name}GROUP") in GROUPS, path
            found += 1
    assert found == len(GROUPS)
