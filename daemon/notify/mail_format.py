"""Format of mails: headers that any server accepts, message IDs, wrapped lines, times.

Source: RFC 5322 (format, threads), RFC 2045 to 2047 (MIME, 7-bit headers and text).
"""

from __future__ import annotations

# The library imports this for the first mail: too late on a hung disk.
import email.generator  # noqa: F401 - loaded in advance
import re
import textwrap
from datetime import UTC, datetime
from email.header import Header
from email.headerregistry import BaseHeader, HeaderRegistry
from email.policy import SMTP, EmailPolicy
from typing import TYPE_CHECKING

from iowarden.daemon.sanitize import ELLIPSIS

if TYPE_CHECKING:
    from email.message import EmailMessage
    from email.policy import Policy

WIDTH = 78
"""Columns of text and subject. Source: RFC 5322, section 2.1.1."""
WIDE = 110
"""Of the subject of an initial report whose first fault does not fit."""
_MAX_IDENTIFIER_CHARACTERS = 100
_QUOTED = re.compile(r"(?<!\w)'[^']{1,60}'(?!\w)")
_NO_BREAK = "\x00"
"""In place of a space; a sanitised line has none."""


class _AsGiven(BaseHeader):
    """A header with an unchanged value: the library would decode '=?...?=' in it."""

    max_count = 1

    @classmethod
    def parse(cls, value: str, keywords: dict[str, object]) -> None:
        """Set the value, as the library expects of a header class."""
        keywords["decoded"] = value
        keywords["parse_tree"] = None


class _Identifiers(_AsGiven):
    """A header of message IDs, one per line: the library would encode a long one as text."""

    def fold(self, *, policy: Policy) -> str:
        """Return the lines of the header."""
        return f"{self.name}: {f'{policy.linesep} '.join(self.split())}{policy.linesep}"


class _FreeText(_AsGiven):
    """A header of free text, folded by the older of the library's two encoders.

    The newer encoder loses spaces between encoded words.
    """

    def fold(self, *, policy: Policy) -> str:
        """Return the lines of the header."""
        charset = "us-ascii" if self.isascii() and "=?" not in self else "utf-8"
        folded = Header(str(self), charset, WIDTH, self.name).encode(linesep=policy.linesep)
        return f"{self.name}: {folded}{policy.linesep}"


def _policy() -> EmailPolicy[EmailMessage]:
    headers = HeaderRegistry()
    for name in ("message-id", "in-reply-to", "references"):
        headers.map_to_type(name, _Identifiers)
    headers.map_to_type("subject", _FreeText)
    return SMTP.clone(header_factory=headers, cte_type="7bit")


POLICY = _policy()


def middle(text: str, max_characters: int) -> str:
    """Return text shortened in the middle: long names differ at their ends."""
    if len(text) <= max_characters:
        return text
    kept = max(max_characters - len(ELLIPSIS), 0)
    return (text[: kept - kept // 2] + ELLIPSIS + text[len(text) - kept // 2 :])[:max_characters]


def identifier(incident: str, number: int | str, host: str) -> str:
    """Return a Message-ID."""
    labels = (token(label) for label in host.split("."))
    domain = ".".join(label for label in labels if label)[:_MAX_IDENTIFIER_CHARACTERS].strip(".-")
    return f"<iowarden.{token(incident)}.{number}@{domain or 'localhost'}>"


def token(text: str) -> str:
    """Return text reduced to characters of an identifier. Source: RFC 5322, dot-atom."""
    return re.sub(r"[^A-Za-z0-9-]+", "-", text)[:_MAX_IDENTIFIER_CHARACTERS].strip("-")


def with_utc(moment: datetime) -> str:
    """Return a time as a text, in its time zone and in UTC."""
    utc = moment.astimezone(UTC)
    if moment.utcoffset() == utc.utcoffset():
        return f"{utc:%a %Y-%m-%d %H:%M:%S} UTC"
    day = "" if moment.date() == utc.date() else f"{utc:%Y-%m-%d} "
    return f"{moment:%a %Y-%m-%d %H:%M:%S %z} ({day}{utc:%H:%M:%S} UTC)"


def wrapped(text: str, first: str = "", others: str = "") -> str:
    """Return text wrapped at WIDTH; an address, a path or a quoted command is never broken."""
    whole = _QUOTED.sub(lambda found: found[0].replace(" ", _NO_BREAK), text)
    return textwrap.fill(
        whole,
        WIDTH,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    ).replace(_NO_BREAK, " ")
