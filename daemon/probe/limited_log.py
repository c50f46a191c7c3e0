"""The probe's log, rate-limited against any client."""

from __future__ import annotations

import time

from iowarden.daemon import journal
from iowarden.daemon.sanitize import one_line

MAX_REQUESTS_LOGGED = 16
_MAX_CONNECTIONS_LOGGED = 32
"""Limits of texts logged per minute, of any kind, beyond which no further refusal of a request, or
of a connection, is logged: a client that sends ever new requests can neither fill the journal nor
hide important messages."""
_MAX_LOGGED = 256
_REPEAT_INTERVAL_SECONDS = 60.0


class LimitedLog:
    """Logs a text at most once a minute, and counts refusals."""

    def __init__(self, log: journal.Log) -> None:
        """Start empty."""
        self.refused_total = 0
        self._log = log
        self._logged: dict[str, float] = {}

    def refuse(self, text: str, maximum: int = _MAX_CONNECTIONS_LOGGED) -> None:
        """Log and count a refusal."""
        self.refused_total += 1
        self.write("warning", f"probe: refused {one_line(text, 300)}", maximum)

    def write(self, level: str, text: str, maximum: int = _MAX_LOGGED) -> None:
        """Log a text at most once a minute: a client may repeat a request forever.

        `maximum`: limit of texts per minute; the last one states that further ones are not logged.
        """
        now = time.monotonic()
        said = {
            each: at for each, at in self._logged.items() if now - at < _REPEAT_INTERVAL_SECONDS
        }
        if text not in said and len(said) < maximum:
            said[text] = now
            more = "; similar messages are not logged for one minute"
            self.send(level, text + more if len(said) == maximum else text)
        self._logged = said

    def send(self, level: str, text: str) -> None:
        """Log a text without a limit."""
        self._log.send(journal.TROUBLE, journal.LEVELS[level], text)
