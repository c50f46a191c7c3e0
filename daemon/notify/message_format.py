"""Message format: what an outbox needs of its messages, and how texts name them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.quantity import duration
from iowarden.daemon.notify.retry import MAYBE_TAKEN, REFUSALS, UNANSWERED_ATTEMPTS, Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from iowarden.daemon.notify.attempt import SendResult
    from iowarden.daemon.storage.state_db import OutboxRow


class Refusal(NamedTuple):
    """A recipient whom all servers refuse."""

    recipient: str
    reply: str
    others: tuple[str, ...]
    """The recipients of the same message whom a server accepts."""
    realtime_seconds: float


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """The form of an outbox's messages: mails, or those of another receiver."""

    where: str
    """What a line about the receiver begins with: 'mail'."""
    noun: str
    """What one message is called: 'mail'."""
    test: str
    """The command that tests the receiver."""
    addressees: Callable[[bytes], tuple[str, ...]]
    """Return the recipients that a message names."""
    cut: Callable[[bytes], bytes]
    """Return a message without its text."""
    is_cut: Callable[[bytes], bool]
    digest_id: Callable[[Sequence[OutboxRow]], str]
    """Return the message ID of a digest, derived from the messages that it contains."""
    digest: Callable[[Sequence[OutboxRow], Collection[str]], bytes]
    """Return one message that contains others, the same bytes for the same arguments.

    The second argument has the IDs of those that may have arrived before.
    """
    plain: Callable[[OutboxRow], OutboxRow | None]
    """Return a short message of plain text under another ID, None if it is one already."""
    is_plain: Callable[[str], bool]
    """Whether an ID is that of a short message."""
    refusal: Callable[[OutboxRow, Refusal], OutboxRow] | None = None
    """Return a message to the others about a recipient; None: a message has one recipient."""

    def undelivered(
        self, text: str, result: SendResult, wait_seconds: float, repeats: int = 0
    ) -> str:
        """Return why a message was not delivered and what follows, '' if it was.

        `wait_seconds` is the time until the next attempt by schedule, `repeats` how often it was
        sent without a reply. The same fault gives the same text, so that it can be logged once.
        """
        if not text:
            return ""
        to = f"not delivered to {', '.join(result.faults)}, " if result.faults else ""
        return f"{text}; {to}{self._next_step(result, wait_seconds, repeats)}"

    def _next_step(self, result: SendResult, wait_seconds: float, repeats: int) -> str:
        faults = {*result.faults.values(), *((result.fault,) if result.error else ())}
        after = duration(max(wait_seconds, 0.0))
        if not faults:
            return f"its text is sent at once in a short {self.noun}"
        if repeats >= UNANSWERED_ATTEMPTS and Fault.UNANSWERED in faults:
            return f"the {self.noun} may have arrived and is only sent again in a digest"
        if faults & MAYBE_TAKEN:
            return f"the {self.noun} may have arrived and is repeated in {after}"
        if faults & REFUSALS:
            reload = "'systemctl reload iowarden' with a corrected address or login"
            return f"retried after {reload}, a successful '{self.test}', or in {after}"
        if faults == {Fault.UNREACHABLE}:
            return f"the {self.noun}s wait in the outbox and are retried at least every 15 min"
        return f"retried in {after}"
