"""Message format: the properties of messages that an outbox uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iowarden.daemon.storage.state_db import OutboxRow


class MessageFormat(Protocol):
    """The form of an outbox's messages, and how texts for people name them."""

    @property
    def where(self) -> str:
        """Return what a line about the receiver begins with: 'mail'."""

    @property
    def noun(self) -> str:
        """Return what one message is called: 'mail'."""

    @property
    def setting(self) -> str:
        """Return what to correct in the configuration if messages are refused."""

    @property
    def test(self) -> str:
        """Return the command that tests the receiver."""

    def addressees(self, data: bytes) -> tuple[str, ...]:
        """Return the recipients that a message names."""

    def cut(self, data: bytes) -> bytes:
        """Return a message without its text."""

    def is_cut(self, data: bytes) -> bool:
        """Whether the text of a message was discarded."""

    def digest_id(self, rows: Sequence[OutboxRow]) -> str:
        """Return the message id of a digest, derived from the messages that it contains."""

    def digest(self, rows: Sequence[OutboxRow], uncertain: Collection[str] = ()) -> bytes:
        """Return one message that contains others, the same bytes for the same arguments.

        `uncertain` are the IDs of those that may have arrived before.
        """

    def plain(self, row: OutboxRow) -> OutboxRow | None:
        """Return a short message of plain text under another ID, None if it is one already."""

    def is_plain(self, message_id: str) -> bool:
        """Whether an ID is that of a short message."""
