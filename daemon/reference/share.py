"""What is generated and not committed: the man pages and the completion of shells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from iowarden.daemon.reference import completion, man

if TYPE_CHECKING:
    from collections.abc import Mapping


def texts(documents: str) -> Mapping[str, str]:
    """Return each file by its path below /usr/share. `documents` has the hand-written pages."""
    return {**man.texts(documents), **completion.texts()}


def write(documents: str, directory: str) -> None:
    """Write the files into a directory that is to become a part of /usr/share."""
    for name, text in texts(documents).items():
        path = Path(directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
