"""The report of `iowarden check`: findings, worst first, and the objects checked. Pure.

Exit status as in the Monitoring Plugins guidelines.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import textwrap
from collections import Counter
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon import sanitize
from iowarden.daemon.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator


WIDTH = 100
"""Line width if the output is not a terminal."""
MIN_WIDTH = 40


class Level(enum.StrEnum):
    """Level of a finding, in the order of the report; `status` is the exit status."""

    CRITICAL = "CRITICAL"
    WARNING = "WARNING"
    UNKNOWN = "UNKNOWN"
    INFO = "INFO"
    OK = "OK"

    @property
    def status(self) -> int:
        """Return the exit status. Source: Monitoring Plugins guidelines, return codes."""
        return {"CRITICAL": 2, "WARNING": 1, "UNKNOWN": 3}.get(self.value, 0)


_LEVELS = tuple(Level)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `topic` is an alert's name, or a part of iowarden.

    `description` explains what it means, `advice` what to do about it.
    """

    level: Level
    topic: str
    object: str
    text: str
    advice: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """An object that was checked: a disk, an array, a file system."""

    kind: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of a check."""

    findings: tuple[Finding, ...]
    items: tuple[Item, ...] = ()

    @property
    def status(self) -> int:
        """Return the exit status: the worst of critical, warning, unknown, ok."""
        worst = min((f.level for f in self.findings), key=_LEVELS.index, default=Level.OK)
        return worst.status

    def summary(self) -> str:
        """Return the last line."""
        counts = Counter(f.level for f in self.findings)
        sources = sum(f.level is Level.UNKNOWN and f.topic == "collector" for f in self.findings)
        words = [
            count(counts[Level.CRITICAL], "critical", ""),
            count(counts[Level.WARNING], "warning"),
            count(sources, "collector", "s", " failed"),
            count(counts[Level.UNKNOWN] - sources, "unknown", ""),
            count(counts[Level.INFO], "info"),
        ]
        return f"check: {', '.join(word for word in words if word) or 'no problems found'}"

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        """Return the report as text, worst first, in lines of about `width` characters."""
        told: set[str] = set()
        for finding in sorted(self.findings, key=lambda f: _LEVELS.index(f.level)):
            place = f" {finding.object}" if finding.object else ""
            yield from _wrapped(finding.level, f"{finding.topic}{place}: {finding.text}", width)
            if finding.level is not Level.INFO and finding.topic not in told:
                told.add(finding.topic)
                for line in (finding.description, *finding.advice.strip("\n").splitlines()):
                    yield from _advice(line, width) if line else ()
        for item in self.items:
            yield from _wrapped(Level.INFO, f"{item.kind} {item.name}: {item.text}", width)
        yield self.summary()

    def json(self) -> str:
        """Return the report as JSON."""
        found = sorted(self.findings, key=lambda f: _LEVELS.index(f.level))
        return sanitize.json_text(
            {
                "status": self.status,
                "summary": self.summary(),
                "findings": [dataclasses.asdict(f) for f in found],
                "items": [dataclasses.asdict(i) for i in self.items],
            },
            indent=1,
        )


def count(number: int, word: str, plural: str = "s", more: str = "") -> str:
    """Return '1 disk', '2 disks'; '' of none."""
    return f"{number} {word}{plural if number != 1 else ''}{more}" if number else ""


_QUOTED = re.compile(r"(?<!\w)'[^']{1,80}'(?!\w)")


def _wrapped(level: Level, text: str, width: int) -> list[str]:
    """Return the lines of a text; quoted parts are not split: they may be commands to copy."""
    lines = textwrap.wrap(
        _QUOTED.sub(lambda found: found[0].replace(" ", "\0"), one_line(text)),
        max(width, MIN_WIDTH),
        initial_indent=f"{level.value:<9}",
        subsequent_indent=" " * 9,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in lines]


def _advice(line: str, width: int) -> list[str]:
    shown = one_line(line)
    if line.startswith(" "):  # a command: must be copied unchanged
        return [" " * 13 + shown]
    indent = " " * 11
    return textwrap.wrap(
        shown,
        max(width, MIN_WIDTH),
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
