"""An attempt to hand over a mail: what is sent, the lines it gives, and what became of it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class OutboundMail:
    """One attempt: a message for those who have not got it."""

    message_id: str
    recipients: tuple[str, ...]
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of `iowarden test-mail`."""

    text: str
    good: bool = True


@dataclass(frozen=True, slots=True)
class SendResult:
    """What became of an attempt.

    Fields: `refused` for good (5xx) and `deferred` (4xx) by recipient, with the server's words;
    `error` is a fault that hit all that are in neither nor in `delivered`: of the connection, or -
    `permanent` - the server's refusal of the message; after a fault of the connection the server
    has `maybe_taken` the mail all the same, if it came after the message; `answer` is what it said
    when it took the message.
    """

    message_id: str
    delivered: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    deferred: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    permanent: bool = False
    maybe_taken: bool = False
    answer: str = ""


Attempt = Generator[Line, None, SendResult]
"""Makes an attempt: its important lines, then what became of it."""


class FaultError(Exception):
    """Something other than what was expected; the text is what was got instead."""
