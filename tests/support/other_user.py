"""The program as any user of this machine may start it, also from a checkout that is closed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path

from iowarden.daemon import journal

TOP = Path(__file__).parents[2]
LAYERS = ("collectors", "daemon", "rules")
_START = """
import runpy, sys
sys.path.insert(0, {directory!r})
sys.argv.pop(0)
if sys.argv[0] == "iowarden":
    from iowarden.daemon.cli.main import main
    sys.exit(main())
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def program(name: str, directory: str) -> tuple[str, ...]:
    """Return the command that any user may start: 'iowarden', or a module of it by its name.

    A checkout below /root, or made with umask 077, is copied into `directory` first, which is to
    be open to everybody. The copy is run by the interpreter that made the environment.
    """
    if _is_open(Path(journal.__file__)) and _is_open(Path(sys.executable)):
        if name == "iowarden":
            return (str(Path(sys.executable).with_name(name)),)
        return (sys.executable, "-I", "-m", name)
    copy = Path(directory, "copy")
    if not copy.exists():
        _copy(copy)
    interpreter = os.path.realpath(sys.executable)
    return (interpreter, "-I", "-B", "-c", _START.format(directory=str(copy)), name)


def _is_open(path: Path) -> bool:
    """Whether every user may read this file."""
    return bool(path.stat().st_mode & 0o004) and all(
        parent.stat().st_mode & 0o001 for parent in path.parents
    )


def _copy(copy: Path) -> None:
    """Copy the layers, and what they import, for every user to read."""
    for layer in LAYERS:
        shutil.copytree(TOP / layer, copy / "iowarden" / layer)
    text = (TOP / "packaging/requirements.txt").read_text()
    pinned = {*re.findall(r"^(\S+)==", text, re.MULTILINE)}
    for name, distributions in importlib.metadata.packages_distributions().items():
        # Names of distributions differ in case only: 'PyYAML'. With '/' it is a part of another.
        if pinned.isdisjoint(map(str.lower, distributions)) or "/" in name:
            continue
        spec = importlib.util.find_spec(name)
        assert spec is not None
        for source in spec.submodule_search_locations or ():
            shutil.copytree(source, copy / name)
    # `iowarden version` reads the metadata.
    metadata = Path(str(importlib.metadata.distribution("iowarden").locate_file("."))).glob(
        "iowarden-*.dist-info"
    )
    for source in map(Path, metadata):
        shutil.copytree(source, copy / source.name)
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
