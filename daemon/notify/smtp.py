"""Mail out: the one thread that hands mails to a server, or puts them into a Maildir.

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

from iowarden.collectors.model import trace
from iowarden.daemon.notify.outbox import SendResult
from iowarden.daemon.sanitize import one_line
from iowarden.daemon.storage import durable_file

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
"""Debian's bundle, read at start; in the directory beside it OpenSSL looks at each handshake."""
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
class Line:
    """A line of `iowarden test-mail`."""

    text: str
    good: bool = True


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
                bug = f"mail: bug: {trace(error)}"
                result = SendResult(mail.message_id, error=bug, maybe_taken=True)
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
        reply = self._smtp.docmd("DATA")
        if reply[0] != 354:
            code, text = self.answer(reply)
            if code < 400:  # nothing was handed over, whatever it is content with
                raise _FaultError(f"'{text}'")
            return code, text
        self.begin("end of data", "250")
        quoted = re.sub(rb"(?m)^\.", b"..", data).removesuffix(b"\r\n")
        self._smtp.send(quoted + b"\r\n.\r\n")
        return self.answer(self._smtp.getreply())

    def answer(self, reply: tuple[int, bytes | str]) -> tuple[int, str]:
        """Return code and text of a reply. Errors: _FaultError, also at 421: the server goes."""
        code, text = reply[0], _line(reply[1])
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
            return f"'{problem.smtp_code} {_line(problem.smtp_error)}'"
        if time.monotonic() >= self.deadline_seconds or isinstance(problem, TimeoutError):
            return "nothing before the time was over"
        return f"'{_line(str(problem))}'"

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


def _line(words: bytes | str) -> str:
    """Return what a server said as a line."""
    text = words.decode("utf-8", "backslashreplace") if isinstance(words, bytes) else words
    return one_line(text, 300)


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
        return SendResult(mail.message_id, error=error, maybe_taken=talk.step == "end of data")
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
        said = f"{place}: {talk.step}: {text}"
        if code >= 500:
            return SendResult(mail.message_id, error=said, permanent=True)
        return SendResult(mail.message_id, deferred=dict.fromkeys(mail.recipients, said))
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
            said = f"{place}: {talk.step}: expected {talk.expected}, got '{text}'"
            if code >= 500:
                result = replace(result, error=said, permanent=True)
            else:
                deferred.update(dict.fromkeys(accepted, said))
    talk.goodbye()
    return result


def _hand_over(path: str) -> None:
    """Give what root made to the owner of the directory it is in: the service is not root."""
    if os.geteuid() == 0:
        owner = os.stat(os.path.dirname(path))
        os.chown(path, owner.st_uid, owner.st_gid)


def _to_maildir(directory: str, mail: OutboundMail) -> Generator[Line, None, SendResult]:
    """Put a mail into a Maildir: whole, durable and once, however often it is repeated."""
    name = re.sub(r"[^A-Za-z0-9.@_-]", "_", mail.message_id.strip("<>"))[:200].lstrip(".") or "mail"
    path, draft = (f"{directory}/{folder}/{name}" for folder in ("new", "tmp"))
    maybe_there = False
    try:
        os.makedirs(os.path.dirname(directory) or ".", 0o750, exist_ok=True)
        for folder in (directory, *(f"{directory}/{folder}" for folder in ("tmp", "new", "cur"))):
            with suppress(FileExistsError):
                os.mkdir(folder, 0o700)
                _hand_over(folder)
        # A Maildir holds the lines of this system.
        durable_file.write(draft, mail.data.replace(b"\r\n", b"\n"))
        _hand_over(draft)
        maybe_there = True
        os.rename(draft, path)
        durable_file.sync_directory(f"{directory}/new")
    except OSError as problem:
        error = f"mail: '{directory}': expected a Maildir to write to, got '{problem}'"
        yield Line(f"{error}; mend the directory or set 'mail.server'", good=False)
        return SendResult(mail.message_id, error=error, maybe_taken=maybe_there)
    yield Line(f"written to '{path}', where nobody sees it: no mail server configured")
    return SendResult(mail.message_id, delivered=mail.recipients, answer=f"written to '{path}'")
