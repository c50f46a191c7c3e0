"""What becomes of a database file on a bad disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def garbage(path: Path) -> None:
    """Overwrite the file with something else."""
    path.write_bytes(b"this is no database" * 5000)


def torn(path: Path) -> None:
    """Lose the second half of the file."""
    os.truncate(path, path.stat().st_size // 2)


def flipped(path: Path) -> None:
    """Overwrite the tables' pages, as bad sectors would."""
    pages = min(path.stat().st_size // 4096 - 1, 12)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * 4096 * pages)


SPOILT = (garbage, torn, flipped)
"""Ways in which a file cannot be used."""
