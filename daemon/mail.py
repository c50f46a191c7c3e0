"""Mail out: what is sent when (the outbox, pure), and the one thread that sends it.

Source: RFC 5321 (SMTP), RFC 3207 (STARTTLS), RFC 8314 (TLS at port 465), RFC 4954 (AUTH).
"""

from __future__ import annotations

import ipaddress
import os
import queue
import re
import smtplib
import socket
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from email.utils import parseaddr
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.vocabulary import trace
from iowarden.daemon.state import Batch, OutboxRow
from iowarden.daemon.words import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

    from iowarden.daemon.state import Committed

AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
"""Debian's bundle, read at start; in the directory beside it OpenSSL looks at each handshake."""
COMMIT_WAIT_SECONDS = 2.0
"""So long a mail waits for state.db before it goes out without."""
_BACKOFF_SECONDS = (5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0)
_PATIENCE = 3
"""So many failed attempts a mail holds back the others of its incident."""
_LOOK_UP_SECONDS = 5.0
_REFRESH_SECONDS = 1.0
"""How long a look-up is awaited without and with an earlier answer to fall back on."""
_GOODBYE_SECONDS = 1.0
_MOST_REPLY_BYTES = 256 * 1024
"""Of all answers together; a usual dialogue has under 2 KiB."""
_MOST_LINE_BYTES = 8192


@dataclass(frozen=True, slots=True)
class MailSettings:
    """The server that takes our mail.

    `tls`: 'auto' is none for a server on this machine, else a verified TLS (from the first byte at
    port 465, else STARTTLS); 'opportunistic' takes any STARTTLS that is offered, or none. A
    password never goes out in clear, except to this machine. `timeout_seconds` is for a whole
    attempt.
    """

    server: str
    port: int
    tls: str
    user: str | None
    password: str | None = field(repr=False)
    sender: str
    timeout_seconds: float
    hello: str
    authorities: str = AUTHORITIES


@dataclass(frozen=True, slots=True)
class MaildirSettings:
    """Where mails go when no server is set. Source: maildir(5)."""

    directory: str


@dataclass(frozen=True, slots=True)
class OutboundMail:
    """One attempt: a message for those who have not got it."""

    message_id: str
    recipients: tuple[str, ...]
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SendResult:
    """What became of an attempt.

    Fields: `refused` for good (5xx) and `deferred` (4xx) by recipient, with the server's words;
    `error` is a fault that hit all that are in neither nor in `delivered`: of the connection, or -
    `permanent` - the server's refusal of the message; `answer` is what it said when it took the
    message.
    """

    message_id: str
    delivered: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    deferred: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    permanent: bool = False
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of `iowarden test-mail`."""

    text: str
    good: bool = True


# --- the outbox


def backoff_seconds(attempt: int) -> float:
    """Return how long to wait after the n-th failed attempt, counted from 1."""
    return _BACKOFF_SECONDS[min(max(attempt, 1), len(_BACKOFF_SECONDS)) - 1]


@dataclass(slots=True)
class _Entry:
    row: OutboxRow
    due_seconds: float
    """Not before this."""
    sequence: int | None
    """The batch that makes it durable, while that is awaited."""
    told: bool = False
    """Whether the server has answered about this very mail; then it holds back no other."""


class Outbox:
    """The mails somebody has not got yet, and which goes next. Pure: `now` is given, in seconds.

    Critical ones first, then the oldest; those of one incident in order; one at a time. While the
    server fails, it is asked at growing intervals, for one mail. A mail goes out once state.db has
    it, or 2 s later; and after each one state.db gets the same time to learn what became of it, so
    that a kill repeats at most one.
    """

    def __init__(self) -> None:
        """Nothing waits."""
        self._entries: dict[str, _Entry] = {}
        self._flying: str | None = None
        self._failures = 0
        self._server_due_seconds = float("-inf")
        self._settling: tuple[int, float] | None = None

    def __len__(self) -> int:
        """Return how many mails somebody has not got, those only kept among them."""
        return len(self._entries)

    def kept(self) -> int:
        """Return how many are only kept, because everybody left refused them for good."""
        return sum(entry.row.kept for entry in self._entries.values())

    def row(self, message_id: str) -> OutboxRow | None:
        """Return a mail of the outbox."""
        entry = self._entries.get(message_id)
        return None if entry is None else entry.row

    def add(self, row: OutboxRow, now: float, sequence: int) -> None:
        """Take a mail that the batch `sequence` makes durable."""
        self._entries[row.message_id] = _Entry(row, now + COMMIT_WAIT_SECONDS, sequence)

    def restore(self, rows: Iterable[OutboxRow], now: float) -> None:
        """Take what state.db kept; what is known here is newer."""
        for row in rows:
            self._entries.setdefault(row.message_id, _Entry(row, now, None))

    def committed(self, committed: Committed) -> None:
        """Stop waiting for a batch: it is durable, or cannot be."""
        for entry in self._entries.values():
            if entry.sequence is not None and entry.sequence <= committed.sequence:
                entry.sequence, entry.due_seconds = None, float("-inf")
        if self._settling is not None and self._settling[0] <= committed.sequence:
            self._settling = None

    def next(self, now: float) -> OutboxRow | None:
        """Return the mail to send now, under way then until `sent`; None if none is due."""
        if self._flying is not None or now < self._not_before():
            return None
        ready = [e for e in self._heads() if e.due_seconds <= now]
        if not ready:
            return None
        first = min(ready, key=self._urgency)
        self._flying = first.row.message_id
        return first.row

    def next_due(self) -> float | None:
        """Return when `next` has something, or None while nothing waits or one is under way."""
        heads = self._heads()
        if self._flying is not None or not heads:
            return None
        return max(self._not_before(), min(e.due_seconds for e in heads))

    def sent(self, result: SendResult, now: float, sequence: int = 0) -> tuple[Batch, str]:
        """Return what to write down of an attempt, as batch `sequence`, and what went wrong, or ''.

        The text is the same as long as the fault is, so that it can be said once.
        """
        entry = self._entries.get(result.message_id)
        if self._flying == result.message_id:
            self._flying = None
        if entry is None:
            return Batch(sequence), ""
        if sequence:
            self._settling = sequence, now + COMMIT_WAIT_SECONDS
        attempts = entry.row.attempts + 1
        if result.error and not result.permanent:
            self._failures += 1
            self._server_due_seconds = now + backoff_seconds(self._failures)
            entry.row = replace(entry.row, attempts=attempts, last_error=result.error)
            entry.told = attempts >= _PATIENCE
            return Batch(sequence, add=(entry.row,)), f"{result.error}; {_TRIED_AGAIN}"
        self._failures, self._server_due_seconds = 0, float("-inf")
        refused = dict(result.refused)
        if result.permanent:
            left = entry.row.recipients_pending
            refused |= dict.fromkeys((r for r in left if r not in result.delivered), result.error)
        pending = tuple(
            r
            for r in entry.row.recipients_pending
            if r not in result.delivered and r not in refused
        )
        words = {**result.deferred, **refused}
        row = replace(
            entry.row,
            recipients_pending=pending,
            recipients_refused=(*entry.row.recipients_refused, *refused),
            attempts=attempts,
            last_error="; ".join(dict.fromkeys(words.values())),
        )
        if not pending and not row.recipients_refused:
            del self._entries[result.message_id]
            return Batch(sequence, remove=(result.message_id,)), ""
        entry.row, entry.told = row, True
        entry.due_seconds = now + backoff_seconds(attempts)
        return Batch(sequence, add=(row,)), _problem(refused, result.deferred)

    def oldest_unsent_seconds(self, now: float) -> float | None:
        """Return the age of the oldest mail that is still tried; `now` is Unix time."""
        waiting = [e.row.created_realtime_seconds for e in self._entries.values() if not e.row.kept]
        return now - min(waiting) if waiting else None

    def _not_before(self) -> float:
        settled = self._settling[1] if self._settling is not None else float("-inf")
        return max(settled, self._server_due_seconds)

    def _heads(self) -> list[_Entry]:
        """Return the first mail of each incident, and those that hold back no other."""
        heads: dict[str, _Entry] = {}
        found = []
        for entry in self._entries.values():
            if entry.row.kept:
                continue
            if entry.told:
                found.append(entry)
                continue
            head = heads.setdefault(entry.row.incident, entry)
            if entry.row.number < head.row.number:
                heads[entry.row.incident] = entry
        return [*heads.values(), *found]

    def _urgency(self, entry: _Entry) -> tuple[int, int, float, int]:
        """Return the order; the worst mail of the incident counts, for it waits behind this one.

        While the server fails, one that has been tried often lets others try: it may be what it
        fails at.
        """
        row = entry.row
        tried = row.attempts // _PATIENCE if self._failures else 0
        worst = max(
            e.row.severity
            for e in self._entries.values()
            if e is entry
            or (not entry.told and not e.row.kept and e.row.incident == entry.row.incident)
        )
        return tried, -worst, row.created_realtime_seconds, row.number


_TRIED_AGAIN = "the mails wait in the outbox and are tried again, at least every 15 min"


def _problem(refused: Mapping[str, str], deferred: Mapping[str, str]) -> str:
    parts = []
    if refused:
        said = "; ".join(dict.fromkeys(refused.values()))
        who = ", ".join(refused)
        parts.append(
            f"{said}; not delivered to {who}, kept in state.db and not tried again: mend 'mail.to'"
        )
    if deferred:
        said = "; ".join(dict.fromkeys(deferred.values()))
        parts.append(f"{said}; not yet delivered to {', '.join(deferred)}, tried again")
    return "; ".join(parts)


# --- the thread


class Sender:
    """One thread, one attempt a request; `working_since` is when the one under way began.

    Certificates are read and the server's name is looked up at start. A look-up that hangs holds
    nobody: it has a thread of its own, never a second one, and the last addresses are used
    meanwhile.
    """

    def __init__(
        self, settings: MailSettings | MaildirSettings, post: Callable[[object], object]
    ) -> None:
        """Start the thread. `post` takes a SendResult for each mail submitted."""
        self.working_since: float | None = None
        self._deliver = _delivery(settings)
        self._post = post
        self._mails: queue.SimpleQueue[OutboundMail | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="mail", daemon=True)
        self._thread.start()

    def submit(self, mail: OutboundMail) -> None:
        """Ask for one attempt."""
        self._mails.put(mail)

    def close(self, timeout_seconds: float) -> bool:
        """End after what was submitted; say whether that happened in time."""
        self._mails.put(None)
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (mail := self._mails.get()) is not None:
            self.working_since = time.monotonic()
            try:
                result = _result(self._deliver(mail))
            except Exception as error:  # noqa: BLE001 - without an answer no mail would ever go again
                result = SendResult(mail.message_id, error=f"mail: bug: {trace(error)}")
            self.working_since = None
            self._post(result)


def test_mail(
    settings: MailSettings | MaildirSettings, data: bytes, recipients: tuple[str, ...]
) -> Iterator[Line]:
    """Send a mail now and tell the dialogue's important lines; one not `good` is a failure."""
    found = re.search(rb"^Message-ID:\s*(<[^>]*>)", data, re.IGNORECASE | re.MULTILINE)
    name = found[1].decode("ascii", "replace") if found else "<test>"
    yield from _delivery(settings)(OutboundMail(name, recipients, data))


def _delivery(
    settings: MailSettings | MaildirSettings,
) -> Callable[[OutboundMail], Generator[Line, None, SendResult]]:
    """Return what makes one attempt, with everything read that it needs from a disk."""
    if isinstance(settings, MaildirSettings):
        return lambda mail: _to_maildir(settings.directory, mail)
    names, tls = _Names(settings.server, settings.port), _tls_context(settings)
    return lambda mail: _to_server(settings, names, tls, mail)


def _result(attempt: Generator[Line, None, SendResult]) -> SendResult:
    while True:
        try:
            next(attempt)
        except StopIteration as end:
            result: SendResult = end.value
            return result


def _tls_context(settings: MailSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if settings.tls == "opportunistic":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif os.path.exists(settings.authorities):
        context.load_verify_locations(settings.authorities)
    else:
        context.load_default_certs()
    return context


class _Names:
    """The addresses of a server: looked up at start, and again after an attempt that failed."""

    def __init__(self, server: str, port: int) -> None:
        self._server = server
        self._port = port
        self._addresses: tuple[_Address, ...] = ()
        self._error = ""
        self._answered = threading.Event()
        self._asked_seconds: float | None = None
        self._ask()

    def get(self, timeout_seconds: float) -> tuple[_Address, ...]:
        """Return the addresses; wait while there are none or they failed. Errors: _FaultError."""
        longest = _REFRESH_SECONDS if self._addresses else _LOOK_UP_SECONDS
        self._answered.wait(min(timeout_seconds / 2, longest))
        if self._addresses:
            return self._addresses
        if self._asked_seconds is not None:
            stuck = time.monotonic() - self._asked_seconds
            raise _FaultError(f"no answer from the name look-up for {stuck:.0f} s")
        raise _FaultError(self._error)

    def mistrust(self) -> None:
        """Look the name up again, unless a look-up has not come back."""
        if self._asked_seconds is None:
            self._ask()

    def _ask(self) -> None:
        self._answered.clear()
        self._asked_seconds = time.monotonic()
        threading.Thread(target=self._look_up, name="mail name look-up", daemon=True).start()

    def _look_up(self) -> None:
        try:
            found = socket.getaddrinfo(self._server, self._port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            self._error = str(error)
        else:
            self._addresses = tuple(_Address(family, address) for family, _, _, _, address in found)
        self._asked_seconds = None
        self._answered.set()


class _Address(NamedTuple):
    family: int
    address: tuple[str | int, ...] | tuple[int, bytes]


class _FaultError(Exception):
    """Something other than what was expected; the text is what was got instead."""


class _Replies:
    """Lines from a server, as smtplib reads them, within the limits of a whole attempt."""

    def __init__(self, connection: socket.socket, deadline_seconds: float) -> None:
        self.deadline_seconds = deadline_seconds
        self.pending = b""
        self.last = b""
        self._connection = connection
        self._bytes_total = 0

    def allow(self) -> None:
        """Give the next call on the socket what is left of the time. Errors: _FaultError."""
        left = self.deadline_seconds - time.monotonic()
        if left <= 0:
            raise _FaultError("nothing before the time was over")
        self._connection.settimeout(left)

    def readline(self, _limit: int = -1) -> bytes:
        """Return a line, or what came before the server closed. Errors: _FaultError."""
        while b"\n" not in self.pending:
            if len(self.pending) > _MOST_LINE_BYTES:
                raise _FaultError(f"a line without end, beginning {self.pending[:60]!r}")
            if self._bytes_total > _MOST_REPLY_BYTES:
                raise _FaultError(f"an answer without end, lately {self.last[:60]!r}")
            self.allow()
            try:
                chunk = self._connection.recv(4096)
            except TimeoutError as error:
                raise _FaultError("nothing before the time was over") from error
            except OSError as error:
                raise _FaultError(f"'{error}'") from error
            if not chunk:
                break
            self.pending += chunk
            self._bytes_total += len(chunk)
        line, end, self.pending = self.pending.partition(b"\n")
        self.last = line.rstrip()
        self.allow()  # smtplib may send next, without asking us
        return line + end

    def close(self) -> None:
        """Nothing: the socket is closed by who opened it."""


class _Conversation:
    """One attempt at one server: what is open, and the step it is in."""

    def __init__(self, settings: MailSettings) -> None:
        self.step = "connect"
        self.expected = "a connection"
        self.deadline_seconds = time.monotonic() + settings.timeout_seconds
        self.encrypted = False
        self.local = False
        self._settings = settings
        self._socket: socket.socket | None = None
        self._smtp = smtplib.SMTP(
            local_hostname=settings.hello
        )  # no name given: it would look it up
        self._replies: _Replies | None = None

    def begin(self, step: str, expected: str) -> None:
        """Say which step is under way, for the error text."""
        self.step, self.expected = step, expected

    def connect(self, names: _Names) -> str:
        """Connect to the first address that answers and return that. Errors: _FaultError."""
        self.begin("look up", "an address")
        addresses = names.get(self.deadline_seconds - time.monotonic())
        self.begin("connect", "a connection")
        problems = []
        for number, (family, address) in enumerate(addresses):
            left = self.deadline_seconds - time.monotonic()
            connection = socket.socket(family, socket.SOCK_STREAM)
            connection.settimeout(max(left / (len(addresses) - number), 0.001))
            try:
                connection.connect(address)
            except OSError as error:
                connection.close()
                problems.append(f"'{error.strerror or error}' from {address[0]!s}")
                continue
            self.local = ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback
            self._use(connection)
            return str(address[0])
        raise _FaultError(", ".join(dict.fromkeys(problems)))

    def _use(self, connection: socket.socket) -> None:
        """Talk over a connection that is new, or newly encrypted: the dialogue starts afresh."""
        self._socket = connection
        self._replies = _Replies(connection, self.deadline_seconds)
        self._smtp = smtplib.SMTP(local_hostname=self._settings.hello)
        self._smtp.sock = connection
        self._smtp.file = self._replies

    def encrypt(self, context: ssl.SSLContext) -> str:
        """Encrypt the connection and return what was agreed. Errors: _FaultError, OSError."""
        if self._socket is None or self._replies is None:
            raise _FaultError("no connection")
        if self._replies.pending:  # somebody on the way put words in before the encryption
            raise _FaultError(f"more than the answer: {self._replies.pending[:60]!r}")
        self.begin("TLS", f"a certificate for '{self._settings.server}' from a known authority")
        self._replies.allow()
        encrypted = context.wrap_socket(self._socket, server_hostname=self._settings.server)
        self._use(encrypted)
        self.encrypted = True
        certificate = encrypted.getpeercert() or {}
        names = [str(name[1]) for name in certificate.get("subjectAltName", ())]
        shown = f"certificate for {', '.join(names[:3])}" if names else "certificate not verified"
        return f"{encrypted.version()}, {shown}"

    def greeting(self) -> str:
        """Read the first line."""
        self.begin("greeting", "220")
        return self.want(self._smtp.getreply(), 220)

    def hello(self) -> None:
        """Introduce us, the older way if the newer is not known."""
        self.begin("EHLO", "250")
        code, _ = self._smtp.ehlo()
        if code != 250:
            self.begin("HELO", "250")
            self.want(self._smtp.helo(), 250)

    def offers(self, extension: str) -> bool:
        return bool(self._smtp.has_extn(extension))

    def starttls(self) -> None:
        self.begin("STARTTLS", "220")
        self.want(self._smtp.docmd("STARTTLS"), 220)

    def login(self, user: str, password: str) -> None:
        self.begin("AUTH", "the log-in to be accepted")
        if not (self.encrypted or self.local):
            raise _FaultError("no TLS; the password is not sent in clear: set 'mail.tls: starttls'")
        self._smtp.login(user, password)

    def mail(self, sender: str, size_bytes: int) -> tuple[int, str]:
        self.begin("MAIL FROM", "250")
        options = [f"size={size_bytes}"] if self.offers("size") else []
        return self.answer(self._smtp.mail(sender, options))

    def recipient(self, address: str) -> tuple[int, str]:
        self.begin("RCPT TO", "250")
        return self.answer(self._smtp.rcpt(address))

    def data(self, data: bytes) -> tuple[int, str]:
        self.begin("DATA", "354")
        try:
            return self.answer(self._smtp.data(data))
        except smtplib.SMTPDataError as error:
            return self.answer((error.smtp_code, error.smtp_error))

    def answer(self, reply: tuple[int, bytes | str]) -> tuple[int, str]:
        """Return code and text of a reply. Errors: _FaultError, also at 421: the server goes."""
        code, words = reply
        text = words.decode("utf-8", "backslashreplace") if isinstance(words, bytes) else words
        text = one_line(text, 300)
        if code == -1:
            last = self._replies.last if self._replies is not None else b""
            raise _FaultError(f"no answer of SMTP: {last[:300]!r}")
        if not 200 <= code < 600 or code == 421:
            raise _FaultError(f"'{code} {text}'")
        return code, f"{code} {text}"

    def want(self, reply: tuple[int, bytes | str], wanted: int) -> str:
        code, text = self.answer(reply)
        if code != wanted:
            raise _FaultError(f"'{text}'")
        return text

    def got(self, problem: Exception) -> str:
        """Return what was got instead of the expected."""
        if isinstance(problem, _FaultError):
            return str(problem)
        if isinstance(problem, ssl.SSLCertVerificationError):
            return f"'{problem.verify_message}'"
        if isinstance(problem, smtplib.SMTPResponseException):
            words = problem.smtp_error
            text = words.decode("utf-8", "backslashreplace") if isinstance(words, bytes) else words
            return f"'{problem.smtp_code} {one_line(text, 300)}'"
        if time.monotonic() >= self.deadline_seconds or isinstance(problem, TimeoutError):
            return "nothing before the time was over"
        return f"'{one_line(str(problem), 300)}'"

    def goodbye(self) -> None:
        """Say QUIT; the mail is taken, whatever the server answers."""
        if self._replies is not None:
            least = min(self.deadline_seconds, time.monotonic() + _GOODBYE_SECONDS)
            self._replies.deadline_seconds = least
            with suppress(_FaultError, OSError, smtplib.SMTPException):
                self._replies.allow()
                self._smtp.docmd("QUIT")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


def _to_server(
    settings: MailSettings, names: _Names, tls: ssl.SSLContext, mail: OutboundMail
) -> Generator[Line, None, SendResult]:
    """Make one attempt; yield the important lines of it."""
    place = f"mail: '{settings.server}:{settings.port}'"
    talk = _Conversation(settings)
    try:
        yield from _opening(settings, names, tls, talk)
        return (yield from _handing_over(settings, talk, mail, place))
    except (_FaultError, smtplib.SMTPException, OSError, ValueError) as problem:
        names.mistrust()
        error = f"{place}: {talk.step}: expected {talk.expected}, got {talk.got(problem)}"
        yield Line(error, good=False)
        return SendResult(mail.message_id, error=error)
    finally:
        talk.close()


def _opening(
    settings: MailSettings, names: _Names, tls: ssl.SSLContext, talk: _Conversation
) -> Generator[Line, None, None]:
    """Connect, encrypt as far as asked, log in."""
    address = talk.connect(names)
    mode = settings.tls
    if mode == "auto":
        mode = "none" if talk.local else "tls" if settings.port == 465 else "starttls"
    yield Line(f"connected to '{settings.server}' ({address}) port {settings.port}")
    if mode == "tls":
        yield Line(talk.encrypt(tls))
    yield Line(f"greeted: {talk.greeting()}")
    talk.hello()
    if mode == "starttls" or (mode == "opportunistic" and talk.offers("starttls")):
        if not talk.offers("starttls"):
            talk.begin("STARTTLS", "the server to offer it")
            raise _FaultError(
                "no such offer; if the way to it is trusted, set 'mail.tls: opportunistic'"
            )
        talk.starttls()
        yield Line(talk.encrypt(tls))
        talk.hello()
    if not talk.encrypted:
        yield Line("not encrypted" + (", on this machine" if talk.local else ""))
    if settings.user is not None:
        talk.login(settings.user, settings.password or "")
        yield Line(f"logged in as '{settings.user}'")


def _handing_over(
    settings: MailSettings, talk: _Conversation, mail: OutboundMail, place: str
) -> Generator[Line, None, SendResult]:
    """Name sender and recipients, hand the message over."""
    code, text = talk.mail(parseaddr(settings.sender)[1], len(mail.data))
    yield Line(f"sender {settings.sender}: {text}", good=code == 250)
    if code != 250:
        return _turned_down(mail.message_id, mail.recipients, f"{place}: {talk.step}: {text}", code)
    accepted: list[str] = []
    refused: dict[str, str] = {}
    deferred: dict[str, str] = {}
    for recipient in mail.recipients:
        code, text = talk.recipient(recipient)
        yield Line(f"recipient {recipient}: {text}", good=code in (250, 251))
        if code in (250, 251):
            accepted.append(recipient)
        else:
            kind = refused if code >= 500 else deferred
            kind[recipient] = f"{place}: {talk.step} <{recipient}>: expected 250, got '{text}'"
    result = SendResult(mail.message_id, refused=refused, deferred=deferred)
    if accepted:
        code, text = talk.data(mail.data)
        yield Line(f"message: {text}", good=code == 250)
        if code == 250:
            result = replace(result, delivered=tuple(accepted), answer=text)
        else:
            # The fault is of the message: all who would have got it share it.
            said = f"{place}: end of data: expected 250, got '{text}'"
            kind = refused if code >= 500 else deferred
            kind.update(dict.fromkeys(accepted, said))
    talk.goodbye()
    return result


def _turned_down(message_id: str, recipients: tuple[str, ...], text: str, code: int) -> SendResult:
    if code >= 500:
        return SendResult(message_id, error=text, permanent=True)
    return SendResult(message_id, deferred=dict.fromkeys(recipients, text))


def _hand_over(path: str) -> None:
    """Give what root made to the owner of the directory it is in: the service is not root."""
    if os.geteuid() == 0:
        owner = os.stat(os.path.dirname(path))
        os.chown(path, owner.st_uid, owner.st_gid)


def _to_maildir(directory: str, mail: OutboundMail) -> Generator[Line, None, SendResult]:
    """Put a mail into a Maildir: whole, durable and once, however often it is repeated."""
    name = re.sub(r"[^A-Za-z0-9.@_-]", "_", mail.message_id.strip("<>"))[:200].lstrip(".") or "mail"
    path, draft = (f"{directory}/{folder}/{name}" for folder in ("new", "tmp"))
    try:
        os.makedirs(os.path.dirname(directory) or ".", 0o750, exist_ok=True)
        for folder in (directory, *(f"{directory}/{folder}" for folder in ("tmp", "new", "cur"))):
            with suppress(FileExistsError):
                os.mkdir(folder, 0o700)
                _hand_over(folder)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            # A Maildir holds the lines of this system.
            file.write(mail.data.replace(b"\r\n", b"\n"))
            file.flush()
            os.fsync(descriptor)
        _hand_over(draft)
        os.rename(draft, path)
        folder_descriptor = os.open(f"{directory}/new", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder_descriptor)
        finally:
            os.close(folder_descriptor)
    except OSError as problem:
        error = f"mail: '{directory}': expected a Maildir to write to, got '{problem}'"
        yield Line(f"{error}; mend the directory or set 'mail.server'", good=False)
        return SendResult(mail.message_id, error=error)
    yield Line(f"written to '{path}'; nobody is mailed: set 'mail.server'")
    return SendResult(mail.message_id, delivered=mail.recipients, answer=f"written to '{path}'")
