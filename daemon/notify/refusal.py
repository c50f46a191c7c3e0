"""Classification of a mail server's refusals, and when the next attempt is made. Pure.

Source: RFC 5321, 4.2.1 (a client should not repeat exactly a request that got 5yz), 4.2.3 (codes),
4.5.4.1 (retries for 4 to 5 days); RFC 3463 (enhanced codes); RFC 1870 (552: size); RFC 7504 (521,
556); RFC 4954 (AUTH).
"""

from __future__ import annotations

import enum
import re

_ENHANCED = re.compile(r"\s*(?:[0-9]{3}[ -])?\s*([245]\.[0-9]{1,3}\.[0-9]{1,3})\b")
_SIZE = re.compile(r"(?i)\bsize|too (?:large|big|much mail data|long)")


class Fault(enum.StrEnum):
    """Why a mail was not accepted; what is tried next depends on it."""

    CONNECTION = "connection"
    """No usable reply, or the server is temporarily unavailable: any mail can be tried soon."""
    DEFERRED = "deferred"
    """4xx to this mail or recipient."""
    UNANSWERED = "unanswered"
    """The complete mail was sent, and no reply came: the server may have accepted it."""
    LOGIN = "login"
    """User name or password refused: further attempts may lock the account."""
    POLICY = "policy"
    """Any other 5xx to this client or recipient, also a full mailbox: it may become valid again."""
    RECIPIENT = "recipient"
    """No such recipient."""
    CONTENT = "content"
    """Size or content of this mail: the same bytes would be refused again."""


REFUSALS = frozenset({Fault.LOGIN, Fault.POLICY, Fault.RECIPIENT})
"""Refusals that one mail probes again, while the others wait."""
MAX_ATTEMPTS = 20
MAX_ATTEMPTS_SECONDS = 5 * 86400.0
"""At most so many attempts for a refused recipient within this time; no older mail is tried."""
_DAY = 86400.0
_INTERVALS_SECONDS = {
    Fault.UNANSWERED: (600.0, 3600.0, 21600.0, _DAY),
    Fault.LOGIN: (900.0, 3600.0, 14400.0),
    Fault.POLICY: (1800.0, 3600.0, 7200.0, 14400.0, 21600.0),
    Fault.RECIPIENT: (3600.0, 14400.0, _DAY),
}
UNANSWERED_ATTEMPTS = 4
"""After so many attempts without a reply a mail is not sent alone again."""


def enhanced_code(text: str) -> str:
    """Return the enhanced status code of a reply's text, '' if it has none: '5.1.1'."""
    found = _ENHANCED.match(text)
    return found[1] if found else ""


def classify(step: str, code: int, enhanced: str, text: str) -> Fault:
    """Return why a reply of a server is no acceptance.

    `step` is one of smtp.py, for example 'RCPT TO'; `code` is 0 if no reply came. An enhanced code
    counts more than the code, whose use differs between servers.
    """
    if step == "end of data" and code == 0:
        return Fault.UNANSWERED
    if not 400 <= code < 600 or code == 421:
        return Fault.CONNECTION
    if code < 500:
        is_login = step == "AUTH" and code == 432
        if step in _TRANSACTION:
            return Fault.DEFERRED
        return Fault.LOGIN if is_login else Fault.CONNECTION
    if step == "AUTH" or enhanced == "5.7.8" or code == 535:
        return Fault.LOGIN
    if step in _TRANSACTION:
        if _is_content(step, code, enhanced, text):
            return Fault.CONTENT
        if _is_recipient(step, code, enhanced):
            return Fault.RECIPIENT
    return Fault.POLICY


_TRANSACTION = frozenset({"MAIL FROM", "RCPT TO", "DATA", "message", "end of data"})


def _is_content(step: str, code: int, enhanced: str, text: str) -> bool:
    """Whether size or content is the reason: 5.2.3 and 5.3.4 are limits of the size."""
    if enhanced:
        return enhanced in {"5.2.3", "5.3.4"} or enhanced.startswith("5.6.")
    # To MAIL FROM with a size, 552 refuses the size; otherwise it mostly is a full mailbox.
    return code == 552 and (step == "MAIL FROM" or _SIZE.search(text) is not None)


def _is_recipient(step: str, code: int, enhanced: str) -> bool:
    """Whether the recipient does not exist. 5.4.1 to RCPT TO is used for an unknown one."""
    if step == "MAIL FROM":  # of the sender
        return False
    if enhanced.startswith("5.1."):
        return True
    if step != "RCPT TO":
        return False
    if enhanced in {"", "5.0.0"}:
        return code in {550, 551, 553, 556}
    return enhanced in {"5.2.0", "5.2.1", "5.2.4"} or enhanced.startswith("5.4.")


def interval_seconds(fault: Fault, attempts: int) -> float:
    """Return the time until the next attempt, after so many with this fault, counted from 1.

    Only for UNANSWERED and those in REFUSALS.
    """
    steps = _INTERVALS_SECONDS[fault]
    return steps[min(max(attempts, 1), len(steps)) - 1]


def next_seconds(fault: Fault, attempts: int, first_seconds: float, tried_seconds: float) -> float:
    """Return when the next attempt is due: `first_seconds` is when it was refused first.

    After MAX_ATTEMPTS none is made within MAX_ATTEMPTS_SECONDS, and then one a day.
    """
    due = tried_seconds + interval_seconds(fault, attempts)
    if attempts < MAX_ATTEMPTS:
        return due
    return max(first_seconds + MAX_ATTEMPTS_SECONDS, tried_seconds + _DAY)
