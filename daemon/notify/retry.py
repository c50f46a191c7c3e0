"""Retries: what a reply of a server is about, and when the next attempt is made. Pure.

Of SMTP and HTTP alike. Source: RFC 5321, 4.2.1 to 4.2.3 (codes), 4.5.4.1 (retries for 4 to 5 days);
RFC 3463 and the IANA registry (enhanced codes); RFC 7504 (521, 556); RFC 4954 (AUTH); RFC 9110, 15
(HTTP status), 10.2.3 (Retry-After); Slack, "Improving error conditions for Incoming Webhooks".
"""

from __future__ import annotations

import enum
import functools
import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

NEVER = float("inf")
ANYTIME = float("-inf")
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


class Scope(enum.StrEnum):
    """What a reply is about: what has to wait because of it."""

    MESSAGE = "message"
    RECIPIENT = "recipient"
    SERVER = "server"


class Fault(enum.StrEnum):
    """Why a message was not accepted; the next attempt depends on it."""

    UNREACHABLE = "unreachable"
    """No connection, no TLS, or no usable reply; the server cannot have the message."""
    BUSY = "busy"
    """421 or 4.7.x: the server wants fewer connections, or to see whether a client returns."""
    DEFERRED = "deferred"
    """Any other 4xx of a mail server; of HTTP a page that is not the service's."""
    REFUSED = "refused"
    """Any other 5xx of a mail server, also a full mailbox; of HTTP any other 3xx, 4xx, 5xx."""
    LOGIN = "login"
    """User name, password or token refused: further attempts may lock the account."""
    LOGIN_LATER = "login later"
    """The server cannot check the password now."""
    UNKNOWN_RECIPIENT = "unknown recipient"
    """No such user."""
    GONE = "gone"
    """HTTP 410, or Slack's words for a removed webhook or an archived channel."""
    CONTENT = "content"
    """Size or content of this message: the same bytes would be refused again."""
    UNANSWERED = "unanswered"
    """The complete mail was sent, and no usable reply came: the server may have accepted it."""
    FAILED = "failed"
    """HTTP: no reply to the complete request, or a server's error: it may have been accepted."""
    PAUSED = "paused"
    """HTTP 503, 429: the server may report when the next attempt is welcome."""


class Verdict(NamedTuple):
    """What a reply means."""

    scope: Scope
    fault: Fault


REFUSALS = frozenset(
    {Fault.REFUSED, Fault.LOGIN, Fault.UNKNOWN_RECIPIENT, Fault.GONE, Fault.CONTENT}
)
"""An administrator has to correct something, unless the server changes its mind."""
MAYBE_TAKEN = frozenset({Fault.UNANSWERED, Fault.FAILED})
"""The server may have the message: it is repeated under the same ID."""
NO_REPLY = MAYBE_TAKEN | {Fault.UNREACHABLE}
UNCOUNTED = NO_REPLY | {Fault.PAUSED}
"""No refused attempts: a server that does not reply logs none, and one that requests a pause gives
its length.
"""
_TRANSIENT = frozenset({Fault.UNREACHABLE, Fault.DEFERRED, Fault.REFUSED})
_FLAPPING = _TRANSIENT | {Fault.BUSY}
LOGINS = frozenset({Fault.LOGIN, Fault.LOGIN_LATER})
NOT_RELOADED = LOGINS | {Fault.PAUSED}
"""A reload ends none of these where the server, and what is sent to it, are the same as before."""

MAX_REFUSED_SECONDS = 5 * DAY
"""A message that was refused for so long probes no more; it is retained for 30 days."""
MAX_PAUSE_SECONDS = HOUR
"""A server that requests a longer pause is tried after this one."""
UNANSWERED_ATTEMPTS = 4
"""After so many attempts without a reply a mail is only sent in a digest."""
_INTERVALS_SECONDS = {
    Fault.UNREACHABLE: (10.0, 30.0, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE),
    Fault.BUSY: (5 * MINUTE, 15 * MINUTE, 30 * MINUTE),
    Fault.DEFERRED: (MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE),
    Fault.REFUSED: (MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 6 * HOUR),
    Fault.LOGIN: (15 * MINUTE, HOUR, 4 * HOUR),
    Fault.LOGIN_LATER: (HOUR,),
    Fault.UNKNOWN_RECIPIENT: (HOUR, 4 * HOUR, DAY),
    Fault.GONE: (DAY,),
    Fault.CONTENT: (MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 6 * HOUR),
    Fault.UNANSWERED: (10 * MINUTE, HOUR, 6 * HOUR, DAY),
    Fault.FAILED: (MINUTE, 10 * MINUTE, HOUR),
    Fault.PAUSED: (MINUTE,),
}
"""Between the attempts; the last one is repeated. Content: of the short form that is refused too.

Unanswered: the last one is when a digest is made of this mail alone.
"""
_DEFERRED_A_DAY_SECONDS = 30 * MINUTE

# fail2ban bans an address after 5 matches (maxretry) within 10 min (findtime); its filters count
# 554 5.7.1 and some 450 of Postfix, and 'recidive' looks at a day. So the budget is below that.
BUDGET = ((4, 10 * MINUTE), (12, HOUR))
"""Refused attempts at a server, whatever the reason, within a time."""
_SCHEDULED_BUDGET = ((4, 10 * MINUTE), (10, HOUR))
"""The rest of an hour is for new critical messages."""
FLAPPING_SECONDS = 6 * HOUR
"""So long after it accepted again, a server that refuses or fails once more is expected to heal."""
FLAPPING_INTERVAL_SECONDS = 6 * MINUTE
"""Longest interval between attempts at such a server: ten an hour, the scheduled budget.

With the usual intervals two servers that fail for 60 % of their lives, 12 min each time in the
mean, delay one mail in ten by more than 18 to 28 min; with this one by more than 14 or 15 min. For
8 min of these neither server works.
"""
FLAPPING_UNREACHABLE_SECONDS = 2 * MINUTE
"""The same for a server that does not reply: it counts no attempts, and may be up for minutes."""
_LOGIN_BUDGET = (6, DAY)
_SPACING_SECONDS = 150.0
"""So that one of four in ten minutes is free within that time."""
MAX_TRIES = 12


# --- a reply -> what it is about, and its class

_ENHANCED = re.compile(r"\s*(?:[0-9]{3}[ -])?\s*([245]\.[0-9]{1,3}\.[0-9]{1,3})\b")
_SIZE = re.compile(r"(?i)\bsize|too (?:large|big|much mail data|long)")
_QUOTA = re.compile(r"(?i)quota|full|storage")
_NO_SUCH_USER = re.compile(
    r"(?i)no such|unknown|(?:does not|doesn't|not) exist|invalid (?:recipient|mailbox|user)"
)
_OF_MESSAGE = frozenset({"DATA", "message", "end of data"})
_UNKNOWN_CODES = frozenset({"5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.4.1"})
_OF_SENDER = re.compile(r"[45]\.1\.[78]")
_CONTENT_CODES = frozenset({"5.2.3", "5.3.4"})
_UNTAKEN = frozenset({501, 503, 505, 506, 510, 511})
"""HTTP 5xx for a request that the server did not process. Source: the IANA registry."""
_SLACK_GONE = re.compile(r"\b(?:no_service|channel_is_archived)\b")


def enhanced_code(text: str) -> str:
    """Return the enhanced status code of a reply's text, '' if it has none: '5.1.1'."""
    match = _ENHANCED.match(text)
    return match[1] if match else ""


def smtp_verdict(step: str, code: int, text: str) -> Verdict:
    """Return what a reply of a mail server means that is no acceptance.

    `step` is one of smtp.py, for example 'RCPT TO'; `code` is 0 if no reply came. An enhanced code
    counts more than the code, whose use differs between servers.
    """
    enhanced = enhanced_code(text)
    fault = _smtp_fault(step, code, enhanced, text)
    # 530 demands encryption or a log-in, at any command, of any mail: RFC 3207, 4; RFC 4954, 6.
    if code in {421, 530} or fault in LOGINS:
        return Verdict(Scope.SERVER, fault)
    if step in _OF_MESSAGE or (step == "MAIL FROM" and fault is Fault.CONTENT):
        return Verdict(Scope.MESSAGE, fault)
    # Postfix refuses the sender, that of all mails, in the reply to RCPT TO (smtpd_delay_reject).
    if step == "RCPT TO" and fault is not Fault.UNREACHABLE and not _OF_SENDER.fullmatch(enhanced):
        return Verdict(Scope.RECIPIENT, fault)
    return Verdict(Scope.SERVER, fault)


def _smtp_fault(step: str, code: int, enhanced: str, text: str) -> Fault:
    if step == "end of data" and not 400 <= code < 600:
        return Fault.UNANSWERED
    if not 400 <= code < 600:
        return Fault.UNREACHABLE
    if code == 421:
        return Fault.BUSY
    if step == "AUTH":
        return Fault.LOGIN if code >= 500 or code == 432 else Fault.LOGIN_LATER
    if code < 500:
        return Fault.BUSY if enhanced.startswith("4.7.") else Fault.DEFERRED
    if enhanced == "5.7.8" or code == 535:
        return Fault.LOGIN
    if (step in _OF_MESSAGE or step in {"MAIL FROM", "RCPT TO"}) and _is_content(
        step, code, enhanced, text
    ):
        return Fault.CONTENT
    if step == "RCPT TO" and _is_unknown_recipient(code, enhanced, text):
        return Fault.UNKNOWN_RECIPIENT
    return Fault.REFUSED


def _is_content(step: str, code: int, enhanced: str, text: str) -> bool:
    if enhanced:
        return enhanced in _CONTENT_CODES or enhanced.startswith("5.6.")
    # RFC 5321 has 552 for a full mailbox as well.
    is_full = _QUOTA.search(text) is not None and step != "MAIL FROM"
    return code == 552 and (_SIZE.search(text) is not None or not is_full)


def _is_unknown_recipient(code: int, enhanced: str, text: str) -> bool:
    if enhanced and enhanced != "5.0.0":
        return enhanced in _UNKNOWN_CODES
    # Of a server without enhanced codes 550 is also "not now": then its words decide.
    words = _NO_SUCH_USER.search(text) is not None
    return code in {551, 556} or (code in {550, 553} and words)


def is_spam_refusal(verdict: Verdict, text: str) -> bool:
    """Whether a mail was refused at its end by a policy: its plain text may pass the filter."""
    return verdict == (Scope.MESSAGE, Fault.REFUSED) and enhanced_code(text).startswith("5.7.")


def http_verdict(status: int, body: str = "", *, is_sent: bool = True) -> Verdict:
    """Return what a reply of an HTTP server means that is no acceptance.

    `status` is 0 if no reply came, `is_sent` whether the server may have the request.
    """
    if status == 0:
        if is_sent:
            return Verdict(Scope.MESSAGE, Fault.FAILED)
        return Verdict(Scope.SERVER, Fault.UNREACHABLE)
    # A gateway without an answer: the server behind it may have one. Others than 502 and 504 are
    # not registered, as 520 to 526 of Cloudflare.
    if 500 <= status < 600 and status not in _UNTAKEN:
        return Verdict(Scope.MESSAGE, Fault.FAILED)
    if status in {400, 413, 422}:
        return Verdict(Scope.MESSAGE, Fault.CONTENT)
    if status in {408, 425, 429, 503}:
        return Verdict(Scope.SERVER, Fault.PAUSED)
    if status == 410 or _SLACK_GONE.search(body):
        return Verdict(Scope.SERVER, Fault.GONE)
    if status in {401, 403}:
        return Verdict(Scope.SERVER, Fault.LOGIN)
    if status < 300:  # a captive portal, or an error with status 200
        return Verdict(Scope.SERVER, Fault.DEFERRED)
    return Verdict(Scope.SERVER, Fault.REFUSED)


# --- the history -> the next attempt


@dataclass(frozen=True, slots=True)
class Hold:
    """A message, a recipient or a server that has to wait.

    `first_seconds` and `tried_seconds` are of the first and the last attempt, `error` is what the
    server replied, `pause_seconds` the pause that it requested.
    """

    fault: Fault
    attempts: int
    first_seconds: float
    tried_seconds: float
    error: str = ""
    pause_seconds: float = 0.0

    @property
    def next_seconds(self) -> float:
        """Return when it is tried next, unless a new critical message is earlier."""
        waited = self.tried_seconds - self.first_seconds
        return self.tried_seconds + max(
            interval_seconds(self.fault, self.attempts, waited),
            min(self.pause_seconds, MAX_PAUSE_SECONDS),
        )

    @property
    def is_exhausted(self) -> bool:
        """Whether the message is only sent in a digest."""
        return self.fault is Fault.UNANSWERED and self.attempts >= UNANSWERED_ATTEMPTS


def interval_seconds(fault: Fault, attempts: int, waited_seconds: float = 0.0) -> float:
    """Return the time until the next attempt, after so many with this fault, counted from 1."""
    if fault is Fault.DEFERRED and waited_seconds >= DAY:
        return _DEFERRED_A_DAY_SECONDS
    steps = _INTERVALS_SECONDS[fault]
    return steps[min(max(attempts, 1), len(steps)) - 1]


def scheduled_seconds(
    holds: Sequence[Hold], tries: tuple[float, ...], healed_seconds: float = ANYTIME
) -> float:
    """Return when a message is tried that is no new critical one; ANYTIME if nothing prevents it.

    `tries`: see `free_seconds`; none while nothing was refused. `healed_seconds`: when a server
    that is closed now accepted messages again, ANYTIME if it never did.
    """
    return max(
        free_seconds(tries, _SCHEDULED_BUDGET),
        _login_seconds(holds, tries),
        *(flapping_seconds(hold, healed_seconds) for hold in holds),
    )


def flapping_seconds(hold: Hold, healed_seconds: float) -> float:
    """Return when a hold ends by schedule, sooner if the server healed a short time ago."""
    is_flapping = hold.tried_seconds - healed_seconds <= FLAPPING_SECONDS
    if is_flapping and hold.fault in _FLAPPING:
        is_uncounted = hold.fault is Fault.UNREACHABLE
        interval = FLAPPING_UNREACHABLE_SECONDS if is_uncounted else FLAPPING_INTERVAL_SECONDS
        return min(hold.next_seconds, hold.tried_seconds + interval)
    return hold.next_seconds


def critical_seconds(holds: Sequence[Hold], tries: tuple[float, ...]) -> float:
    """Return when a new critical message may try a server with a hold; ANYTIME: at once."""
    logins = (hold.tried_seconds + HOUR for hold in holds if hold.fault in LOGINS)
    return max(free_seconds(tries), _login_seconds(holds, tries), *logins)


def new_seconds(holds: Sequence[Hold], tries: tuple[float, ...]) -> float:
    """Return when a new message that is not critical may try a server with a hold, or NEVER.

    Two servers that flap would otherwise keep it for half an hour while both work.
    """
    if any(hold.fault not in _TRANSIENT for hold in holds):
        return NEVER
    tried = (hold.tried_seconds + MINUTE for hold in holds)
    return max((free_seconds(tries, _SCHEDULED_BUDGET), *tried))


@functools.lru_cache(maxsize=8)  # for each waiting message of a server the same
def free_seconds(tries: tuple[float, ...], budget: tuple[tuple[int, float], ...] = BUDGET) -> float:
    """Return when a server may be tried again that refused at these times, the last one newest."""
    if not tries:
        return ANYTIME
    number, seconds = BUDGET[0]
    recent = [at for at in tries if at > tries[-1] - seconds]
    gaps = [after - before for before, after in itertools.pairwise(recent)]
    # What the second one was early is divided among those that follow.
    spacing = max(_SPACING_SECONDS, (seconds - min(gaps)) / (number - 1)) if gaps else MINUTE
    return max(tries[-1] + spacing, *(_nth_last(tries, *limit) for limit in budget))


def has_budget(tries: tuple[float, ...], now: float) -> bool:
    """Whether a server may be tried again, however short ago it was tried last."""
    return all(_nth_last(tries, *limit) <= now for limit in BUDGET)


def _login_seconds(holds: Sequence[Hold], tries: tuple[float, ...]) -> float:
    # A server that cannot check a password now locks no account.
    is_refused = any(hold.fault is Fault.LOGIN for hold in holds)
    return _nth_last(tries, *_LOGIN_BUDGET) if is_refused else ANYTIME


def _nth_last(times: Sequence[float], number: int, seconds: float) -> float:
    return times[-number] + seconds if len(times) >= number else ANYTIME
