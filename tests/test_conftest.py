"""What holds for every test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_program_that_a_test_starts_compiles_nothing_that_another_did() -> None:
    """Whatever the environment says of byte code: compiling iowarden takes longer than it runs."""
    code = "import iowarden.collectors.model as module; print(module.__cached__)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    cache = Path(__file__).parents[1] / "build" / "pycache"
    compiled = Path(said.stdout.strip())
    assert compiled.is_relative_to(cache)
    assert compiled.exists()
