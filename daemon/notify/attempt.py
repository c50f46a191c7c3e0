"""A delivery attempt of a mail: what is sent, the lines it yields, and its result."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.notify.refusal import Fault
from iowarden.daemon.storage.state_db import MAIL

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class OutboundMail:
    """One attempt: a message for the recipients who have not received it."""

    message_id: str
    recipients: tuple[str, ...]
    data: bytes = field(repr=False)
    attempt: int = 1
    """Counts the attempts from 1."""
    server: str = ""
    """The name of the server to use."""
    is_other_left: bool = False
    """Whether another server could be tried instead: then this one gets less time."""


@dataclass(frozen=True, slots=True)
class DialogueLine:
    """A line of `iowarden test-mail`."""

    text: str
    good: bool = True


@dataclass(frozen=True, slots=True)
class SendResult:
    """Result of an attempt.

    Fields: `refused` permanently (5xx) and `deferred` (4xx) by recipient, with the server's reply;
    `error` is a fault that affects all recipients that are in none of these: of the connection, or,
    if `permanent`, the server's refusal of the message; `is_local`: it was only written to the
    Maildir of this machine; `maybe_taken`: the connection failed after
    the message was sent, so that the server may have accepted it; `answer` is the server's reply
    when it accepted the message; `discarded`: how many older mails of a full Maildir were deleted;
    `retry_after_seconds`: the server requested no other attempt before; `receiver`: whose it is.
    `fault` classifies `error`, and `faults` by recipient what is in `refused`; without these a
    refusal is final.
    """

    message_id: str
    delivered: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    deferred: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    permanent: bool = False
    is_local: bool = False
    maybe_taken: bool = False
    answer: str = ""
    discarded: int = 0
    retry_after_seconds: float = 0.0
    receiver: str = MAIL
    fault: Fault = Fault.CONNECTION
    faults: Mapping[str, Fault] = field(default_factory=dict)


Attempt = Generator[DialogueLine, None, SendResult]
"""Makes an attempt: yields its important lines, returns its result."""


class DialogueError(Exception):
    """Something unexpected; the text is what was received instead, `code` that of a reply."""

    def __init__(self, text: str, code: int = 0) -> None:
        """Set both."""
        super().__init__(text)
        self.code = code
