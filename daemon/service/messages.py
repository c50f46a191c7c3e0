"""Messages from signal handlers and threads to the loop, other than replies to its requests."""

from __future__ import annotations

from iowarden.collectors.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Stop:
    """A signal requests the program to stop."""

    signal: str


@dataclass(frozen=True, slots=True)
class Reload:
    """A signal requests a reload of configuration and rules."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A thread reports a problem; an empty `text` means that it is resolved."""

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class JournalNote:
    """A thread reports what is worth a line in the journal and is no problem of the service."""

    text: str
