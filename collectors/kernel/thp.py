"""Transparent huge pages, from '/sys/kernel/mm'."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import AbsentError, Family, ParseError, Sample
from iowarden.collectors.source import Source

if TYPE_CHECKING:
    from iowarden.collectors.machine import Machine

DIRECTORIES = (
    "/sys/kernel/mm/transparent_hugepage",
    "/sys/kernel/mm/redhat_transparent_hugepage",
)
_IN_FORCE = lazy_pattern(r"\[([a-z+]{1,30})\]", re.ASCII)


@dataclass(frozen=True, slots=True)
class TransparentHugepage:
    """The active settings. Source: kernel, admin-guide/mm/transhuge.rst.

    RHEL 6 has them in 'redhat_transparent_hugepage'.
    """

    enabled: str
    """'always', 'madvise' or 'never'."""
    defrag: str | None
    """'always', 'defer', 'defer+madvise', 'madvise' or 'never'; None: no such file."""


FAMILIES = (Family("iowarden_thp_setting", "gauge", "Active settings of transparent huge pages."),)


def parse_choice(text: str, path: str) -> str:
    """Return the value in brackets: 'madvise' for 'always [madvise] never'."""
    found = _IN_FORCE.findall(text)
    if len(found) != 1:
        raise ParseError(f"'{path}': expected the active setting in brackets, got {text[:80]!r}")
    word: str = found[0]
    return word


def emit(value: TransparentHugepage) -> list[Sample]:
    """Return the sample of FAMILIES."""
    labels = (("defrag", value.defrag or ""), ("enabled", value.enabled))
    return [("iowarden_thp_setting", labels, 1)]


def read_thp(root: Machine) -> TransparentHugepage:
    """Read the settings. Errors: AbsentError (built without), ReadError, ParseError."""
    absent = ""  # not the error: its traceback has this frame
    for directory in DIRECTORIES:
        try:
            enabled = _choice(root, directory + "/enabled")
        except AbsentError as error:
            absent = absent or str(error)
            continue
        try:
            return TransparentHugepage(enabled, _choice(root, directory + "/defrag"))
        except AbsentError:
            return TransparentHugepage(enabled, None)
    raise AbsentError(absent or DIRECTORIES[0])


def _choice(root: Machine, path: str) -> str:
    return parse_choice(root.read(path), path)


SOURCE: Source[TransparentHugepage] = Source(
    name="thp",
    period_seconds=60,
    period_help="How often the settings of transparent huge pages are read.",
    may_hang=False,
    read=read_thp,
    families=FAMILIES,
    emit=emit,
)
