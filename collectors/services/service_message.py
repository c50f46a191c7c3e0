"""A message about storage in the log of a service, and the rows of such a service's messages.

A row is a pattern of a whole message, with what it reports or ends. Its groups fill the text:
`object` is the device, map, array or pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable

ENDS = "ends"
"""In place of a severity: the message ends the faults of its name and object."""
ADDS = "adds"
"""In place of a severity: the text belongs to the last such fault, whose message has no object."""
OLDEST = "*"
"""In place of a part: the message ends the oldest one of such faults."""


@dataclass(frozen=True, slots=True)
class ServiceMessage:
    """What one message reports of an object.

    Fields: `severity` is 'critical', 'warning', 'notice', 'info', `ENDS` or `ADDS`; `fault` is the
    name of the alert, '' with `ENDS`: of all; `part` is the path or member in the object; '' with
    `ENDS`: each of them.
    """

    object: str
    fault: str
    severity: str
    text: str = ""
    advice: str = ""
    part: str = ""


class Row(NamedTuple):
    """A pattern of messages, and what they report; `fault` '': nothing that counts."""

    pattern: re.Pattern[str]
    fault: str = ""
    severity: str = "info"
    text: str = ""
    advice: str = ""


def row(
    pattern: str, fault: str = "", severity: str = "info", text: str = "", advice: str = ""
) -> Row:
    """Return a row whose pattern is compiled when it is first used."""
    return Row(lazy_pattern(pattern), fault, severity, text, advice)


def of_rows(rows: Iterable[Row], message: str) -> tuple[ServiceMessage, ...] | None:
    """Return what the first matching row reports; None: the message is in no row."""
    for each in rows:
        match = each.pattern.fullmatch(message)
        if match is None:
            continue
        if not each.fault:
            return ()
        groups = {name: value or "" for name, value in match.groupdict().items()}
        return (
            ServiceMessage(
                groups.get("object", "") or "host",
                each.fault,
                each.severity,
                each.text.format(**groups) if each.text else message,
                each.advice,
                groups.get("part", ""),
            ),
        )
    return None
