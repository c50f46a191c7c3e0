"""What signals and threads post to the loop, where it is not an answer of what the loop asked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stop:
    """A signal asks the program to end."""

    signal: str


@dataclass(frozen=True, slots=True)
class Reload:
    """A signal asks for configuration and rules to be read anew."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A thread reports something; `text` '' says that it is over."""

    key: str
    text: str
