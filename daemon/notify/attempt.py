"""A delivery attempt of a mail: what is sent, the lines it yields, and its result."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.notify.retry import MAYBE_TAKEN, Fault, Scope
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
    is_repeated: bool = False
    """Whether the receiver may have it from an earlier attempt."""


@dataclass(frozen=True, slots=True)
class DialogueLine:
    """A line of `iowarden test-mail`; of a failure its SMTP step as well, and what came instead."""

    text: str
    good: bool = True
    step: str = ""
    got: str = ""


@dataclass(frozen=True, slots=True)
class SendResult:
    """Result of an attempt.

    Fields: `refused` and `faults` by recipient: the server's reply, and what it means; `error` is
    about the server or the message (`scope`), for all recipients that are in none of these, and
    `fault` what it means; `is_local`: it was only written to the Maildir of this machine; `answer`
    is the server's reply when it accepted the message; `discarded`: how many older mails of a full
    Maildir were deleted; `retry_after_seconds`: the server requested no other attempt before;
    `may_try_plain`: the text alone may be accepted; `receiver`: its name; `incidents`: those with
    an alert in a state that was accepted.
    """

    message_id: str
    delivered: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    is_local: bool = False
    answer: str = ""
    discarded: int = 0
    retry_after_seconds: float = 0.0
    receiver: str = MAIL
    scope: Scope = Scope.SERVER
    fault: Fault = Fault.UNREACHABLE
    faults: Mapping[str, Fault] = field(default_factory=dict)
    may_try_plain: bool = False
    incidents: frozenset[str] = frozenset()

    @property
    def is_accepted(self) -> bool:
        """Whether no recipient and no mail was refused."""
        return not (self.error or self.faults)

    @property
    def maybe_taken(self) -> bool:
        """Whether the server may have accepted it without having confirmed that."""
        return bool(self.error) and self.fault in MAYBE_TAKEN


Attempt = Generator[DialogueLine, None, SendResult]
"""Makes an attempt: yields its important lines, returns its result."""


class DialogueError(Exception):
    """Something unexpected; the text is what was received instead, `code` that of a reply."""

    def __init__(self, text: str, code: int = 0) -> None:
        """Set both."""
        super().__init__(text)
        self.code = code
