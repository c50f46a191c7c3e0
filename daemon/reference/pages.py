"""All generated pages of the documentation, by file name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from iowarden.daemon.reference import (
    alerts,
    commands,
    conditions,
    configuration,
    hardware,
    json_output,
    metrics,
    stored_schema,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PAGES: Mapping[str, Callable[[], str]] = {
    "alerts.md": alerts.text,
    "commands.md": commands.text,
    "conditions.md": conditions.text,
    "configuration.md": configuration.text,
    "hardware-limits.md": hardware.text,
    "json.md": json_output.text,
    "metrics.md": metrics.text,
    "stored-schema.md": stored_schema.text,
}


def write(directory: str) -> None:
    """Write every page into a directory."""
    for name, text in PAGES.items():
        Path(directory, name).write_text(text(), encoding="utf-8")
