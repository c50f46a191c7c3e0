"""The probe's log, rate-limited, whoever asks for whatever."""

from __future__ import annotations

import time

from iowarden.daemon import journal
from iowarden.daemon.sanitize import one_line

MOST_REQUESTS_SAID = 16
_MOST_CONNECTIONS_SAID = 32
"""Whoever asks for something else each time, fills no journal, and hides no line that matters: so
many texts of a minute, of whatever kind, leave no room for another refusal of a request, or of a
connection.
"""
_MOST_SAID = 256
_SAY_AGAIN_SECONDS = 60.0


class LimitedLog:
    """Logs a text once a minute at most, and counts what was refused."""

    def __init__(self, log: journal.Log) -> None:
        """Nothing is logged yet."""
        self.refused_total = 0
        self._log = log
        self._said: dict[str, float] = {}

    def refuse(self, text: str, most: int = _MOST_CONNECTIONS_SAID) -> None:
        """Log and count a refusal."""
        self.refused_total += 1
        self.say("warning", f"probe: refused {one_line(text, 300)}", most)

    def say(self, level: str, text: str, most: int = _MOST_SAID) -> None:
        """Log a text once a minute at most: somebody may ask the same for ever.

        `most`: so many texts are said in a minute; the last of them says that it is.
        """
        now = time.monotonic()
        said = {each: at for each, at in self._said.items() if now - at < _SAY_AGAIN_SECONDS}
        if text not in said and len(said) < most:
            said[text] = now
            more = "; similar messages are not logged for one minute"
            self.send(level, text + more if len(said) == most else text)
        self._said = said

    def send(self, level: str, text: str) -> None:
        """Log a text, however often."""
        self._log.send(journal.TROUBLE, journal.LEVELS[level], text)
