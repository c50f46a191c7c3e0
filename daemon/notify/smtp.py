"""SMTP client: one delivery attempt: connect, encrypt, log in, hand over.

Source: RFC 5321 (SMTP), RFC 3207 (STARTTLS), RFC 8314 (TLS at port 465), RFC 4954 (AUTH).
"""

from __future__ import annotations

import ipaddress
import os
import re
import smtplib
import ssl
import time
from contextlib import suppress
from dataclasses import field, replace
from email.utils import parseaddr
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.notify.address_lookup import connected
from iowarden.daemon.notify.attempt import DialogueError, DialogueLine, SendResult
from iowarden.daemon.notify.retry import Fault, Scope, is_spam_refusal, smtp_verdict
from iowarden.daemon.redactor import Redactor

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Generator

    from iowarden.daemon.notify.address_lookup import AddressLookup
    from iowarden.daemon.notify.attempt import Attempt, OutboundMail

AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
"""Debian's CA bundle, read at start; OpenSSL reads its CA directory at each handshake."""
_GOODBYE_SECONDS = 1.0
_MAX_REPLY_BYTES = 256 * 1024
"""Of all replies together; a usual dialogue has less than 2 KiB."""
_MAX_LINE_BYTES = 8192
_BLOCK_BYTES = 64 * 1024
_NO_SEPARATOR = re.compile(rb"\A([0-9]{3})(?=[^ \r\n-])")
"""Source: RFC 5321, 4.2: a code is followed by a blank, a hyphen or the end of the line."""


@dataclass(frozen=True, slots=True)
class StepLimits:
    """How long each step of an attempt may take. Source: RFC 5321, 4.5.3.2.

    `reply_seconds` is for each reply from the greeting to RCPT TO, `hurried_seconds` instead if
    another server could be tried; `end_seconds` for the reply to the complete mail: if it is cut
    short, the server may have accepted the mail, which is then sent twice.
    """

    connect_seconds: float = 5.0
    """For each address."""
    reply_seconds: float = 300.0
    hurried_seconds: float = 20.0
    data_seconds: float = 120.0
    block_seconds: float = 180.0
    """For each block of the mail."""
    end_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class MailSettings:
    """Settings of the mail server (relay).

    `tls`: 'auto' is none for a server on this machine, else verified TLS (from the first byte at
    port 465, else STARTTLS); 'opportunistic' uses STARTTLS unverified if offered, else none. A
    password is never sent unencrypted, except to this machine. `timeout_seconds`, if it is set, is
    the limit of each reply from the greeting to RCPT TO.
    """

    server: str
    port: int
    tls: str
    user: str | None
    password: str | None = field(repr=False)
    sender: str
    timeout_seconds: float | None
    hello: str
    authorities: str = AUTHORITIES
    limits: StepLimits = StepLimits()
    redactor: Redactor = field(default_factory=Redactor, repr=False, compare=False)
    """Every text of the server passes it."""

    @property
    def name(self) -> str:
        """Return the name of the server."""
        return f"{self.server}:{self.port}"


def tls_context(settings: MailSettings) -> ssl.SSLContext:
    """Return the TLS context of connections; certificates are read from the disk here.

    Not if no connection is encrypted: they take 30 ms of CPU time, and memory.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if settings.tls == "none" or (settings.tls == "auto" and _is_loopback(settings.server)):
        return context
    if settings.tls == "opportunistic":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif os.path.exists(settings.authorities):
        context.load_verify_locations(settings.authorities)
    else:
        context.load_default_certs()
    return context


def _is_loopback(host: str) -> bool:
    """Whether this is an address of this machine itself; a name is none."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


class _Replies:
    """Reply lines of a server for smtplib, within the limits of time (of a step) and size."""

    def __init__(
        self, connection: socket.socket, deadline_seconds: float, redactor: Redactor
    ) -> None:
        self.deadline_seconds = deadline_seconds
        self._redactor = redactor
        self.pending = b""
        self.received = b""
        """All lines of the current step: a secret may be spread over them."""
        self.connection = connection
        self._bytes_total = 0

    def allow(self) -> None:
        """Set the remaining time for the next socket call. Errors: DialogueError."""
        left = self.deadline_seconds - time.monotonic()
        if left <= 0:
            raise DialogueError("no reply before the timeout")
        self.connection.settimeout(left)

    def readline(self, _limit: int = -1) -> bytes:
        """Return a line, or the rest before the server closed. Errors: DialogueError."""
        while b"\n" not in self.pending:
            if len(self.pending) > _MAX_LINE_BYTES:
                raise DialogueError(f"a too long line, beginning '{self.beginning()}'")
            if self._bytes_total > _MAX_REPLY_BYTES:
                raise DialogueError(f"a too long reply, beginning '{self.beginning()}'")
            self.allow()
            try:
                chunk = self.connection.recv(4096)
            except TimeoutError as error:
                raise DialogueError("no reply before the timeout") from error
            except OSError as error:
                raise DialogueError(f"'{error}'") from error
            if not chunk:
                break
            self.pending += chunk
            self._bytes_total += len(chunk)
        line, end, self.pending = self.pending.partition(b"\n")
        self.received += line + end
        self.allow()  # smtplib may send next
        # Three digits of a longer number, or of a secret in hexadecimal, are no code of a reply:
        # smtplib would take them, and what is left of the secret is not recognized.
        return _NO_SEPARATOR.sub(rb"no code: \1", line + end)

    def beginning(self, max_characters: int = 60) -> str:
        """Return the beginning of what was received in this step, which may end anywhere."""
        return self._redactor.excerpt(self.received + self.pending, max_characters, is_cut=True)

    def close(self) -> None:
        """Do nothing: the socket is closed by its owner."""


_NO_COMMAND = frozenset({500, 501, 502, 503, 504})
"""A server that has no EHLO; any other code is a refusal of this host. Source: RFC 5321, 4.2.2."""
_MECHANISMS = {"PLAIN": "auth_plain", "LOGIN": "auth_login", "CRAM-MD5": "auth_cram_md5"}
"""The method of smtplib that answers the server's challenges; the first is tried first. CRAM-MD5 is
last: some servers offer it although they have no password in clear for it."""
_NO_MECHANISM = frozenset({500, 501, 502, 504, 534})
"""AUTH with this mechanism is not possible; it is no refused password. Source: RFC 4954, 4, 6."""


class _Conversation:
    """State of one attempt at one server: its connection and its current step."""

    def __init__(self, settings: MailSettings, *, is_other_left: bool) -> None:
        limits = settings.limits
        usual = limits.hurried_seconds if is_other_left else limits.reply_seconds
        self._reply_seconds = settings.timeout_seconds or usual
        self._limits = limits
        self.step = "connect"
        self.expected = "a connection"
        self.deadline_seconds = time.monotonic() + limits.connect_seconds
        self.encrypted = False
        self.local = False
        self.refused: dict[str, str] = {}
        self.faults: dict[str, Fault] = {}
        """By recipient: what the server replied, and what it means; however the attempt ends."""
        self.settings = settings
        settings.redactor.learn((settings.password,))
        self._socket: socket.socket | None = None
        # From `connect` on:
        self._smtp: smtplib.SMTP
        self._replies: _Replies

    def begin(self, step: str, expected: str, limit_seconds: float | None = None) -> None:
        """Set the current step, its expected result, for the error text, and its time limit."""
        self.step, self.expected = step, expected
        self.deadline_seconds = time.monotonic() + (limit_seconds or self._reply_seconds)
        if self._socket is not None:
            self._replies.deadline_seconds = self.deadline_seconds
            self._replies.received = b""
            self._replies.allow()

    def connect(self, names: AddressLookup) -> str:
        """Connect to the first address that responds and return it. Errors: DialogueError."""
        self.begin("name resolution", "an address")
        addresses = names.get(2 * self._limits.connect_seconds)
        limit_seconds = self._limits.connect_seconds
        self.begin("connect", "a connection", limit_seconds)
        connection, address = connected(addresses, lambda: limit_seconds)
        self.local = _is_loopback(address)
        self._use(connection)
        return address

    def _use(self, connection: socket.socket) -> None:
        """Use a new or newly encrypted connection: the SMTP session starts again."""
        self._socket = connection
        self._replies = _Replies(connection, self.deadline_seconds, self.settings.redactor)
        # No server name is passed: smtplib would resolve it.
        self._smtp = smtplib.SMTP(local_hostname=self.settings.hello)
        self._smtp.sock = connection
        self._smtp.file = self._replies

    def encrypt(self, context: ssl.SSLContext) -> str:
        """Encrypt the connection; return TLS version and names. Errors: DialogueError, OSError."""
        if self._replies.pending:  # injected into the connection before encryption
            raise DialogueError(f"data after the reply: '{self._replies.beginning()}'")
        self.begin("TLS", f"a certificate for '{self.settings.server}' from a known authority")
        self._replies.allow()
        encrypted = context.wrap_socket(
            self._replies.connection, server_hostname=self.settings.server
        )
        self._use(encrypted)
        self.encrypted = True
        certificate = encrypted.getpeercert() or {}
        names = [str(name[1]) for name in certificate.get("subjectAltName", ())]
        shown = f"certificate for {', '.join(names[:3])}" if names else "certificate not verified"
        return f"{encrypted.version()}, {self.line(shown)}"

    def greeting(self) -> str:
        """Read the first line."""
        return self.want("greeting", 220, self._smtp.getreply)

    def hello(self) -> None:
        """Send EHLO, or HELO if the server does not support EHLO."""
        self.begin("EHLO", "250")
        code, text = self.answer(self._smtp.ehlo())
        if code in _NO_COMMAND:
            self.want("HELO", 250, self._smtp.helo)
        elif code != 250:
            raise DialogueError(f"'{text}'", code)

    def offers(self, extension: str) -> bool:
        return bool(self._smtp.has_extn(extension))

    def starttls(self) -> None:
        self.want("STARTTLS", 220, lambda: self._smtp.docmd("STARTTLS"))

    def login(self, user: str, password: str) -> None:
        self.begin("AUTH", "an accepted log-in")
        if not (self.encrypted or self.local):
            raise DialogueError("no TLS; no password is sent unencrypted")
        offered = self._smtp.esmtp_features.get("auth", "").upper().split()
        self._smtp.user, self._smtp.password = user, password
        problem = DialogueError(
            f"no supported mechanism: it offers '{self.line(' '.join(offered))}'"
        )
        for mechanism in (name for name in _MECHANISMS if name in offered):
            try:
                self._smtp.auth(mechanism, getattr(self._smtp, _MECHANISMS[mechanism]))
            except smtplib.SMTPAuthenticationError as refused:
                code, text = self.answer((refused.smtp_code, refused.smtp_error))
                problem = DialogueError(f"'{text}'", code)
                # Each further mechanism would be one more refused log-in of the account.
                if code not in _NO_MECHANISM:
                    break
            else:
                return
        raise problem

    def mail(self, sender: str, size_bytes: int) -> tuple[int, str]:
        self.begin("MAIL FROM", "250")
        options = [f"size={size_bytes}"] if self.offers("size") else []
        return self.answer(self._smtp.mail(sender, options))

    def recipient(self, address: str) -> tuple[int, str]:
        self.begin("RCPT TO", "250")
        return self.answer(self._smtp.rcpt(address))

    def data(self, data: bytes) -> tuple[int, str]:
        self.begin("DATA", "354", self._limits.data_seconds)
        reply = self._smtp.docmd("DATA")
        if reply[0] != 354:
            code, text = self.answer(reply)
            if code < 400:  # an unexpected success code: nothing was handed over
                raise DialogueError(f"'{text}'")
            return code, text
        quoted = re.sub(rb"(?m)^\.", b"..", data).removesuffix(b"\r\n") + b"\r\n.\r\n"
        end = max(len(quoted) - 1, 0) // _BLOCK_BYTES * _BLOCK_BYTES
        for start in range(0, end, _BLOCK_BYTES):
            self.begin("message", "the server to read it", self._limits.block_seconds)
            self._smtp.send(quoted[start : start + _BLOCK_BYTES])
        self.begin("end of data", "250", self._limits.end_seconds)
        self._smtp.send(quoted[end:])
        return self.answer(self._smtp.getreply())

    def answer(self, reply: tuple[int, bytes | str]) -> tuple[int, str]:
        """Return code and text of a reply.

        Errors: DialogueError, as at 421: the server closes, and at 530: it demands encryption or a
        log-in, of any mail. Source of the latter: RFC 3207, 4; RFC 4954, 6.
        """
        code, text = reply[0], self.line(reply[1])
        if code == -1:
            raise DialogueError(f"no SMTP reply: '{self._replies.beginning(300)}'")
        if not 200 <= code < 600 or code in {421, 530}:
            raise DialogueError(f"'{code} {text}'", code)
        return code, f"{code} {text}"

    def want(self, step: str, wanted: int, command: Callable[[], tuple[int, bytes]]) -> str:
        """Make a step and return its reply. Errors: DialogueError if that has another code."""
        self.begin(step, str(wanted))
        code, text = self.answer(command())
        if code != wanted:
            raise DialogueError(f"'{text}'", code)
        return text

    def got(self, problem: Exception) -> str:
        """Return what was received instead of the expected."""
        if isinstance(problem, DialogueError):
            return str(problem)
        if isinstance(problem, ssl.SSLCertVerificationError):
            return f"'{problem.verify_message}'"
        if time.monotonic() >= self.deadline_seconds or isinstance(problem, TimeoutError):
            return "no reply before the timeout"
        return f"'{self.line(str(problem))}'"

    def error(self, got: str, about: str = "") -> str:
        """Return the text of an error at this step."""
        place = f"mail: '{self.settings.name}': {self.step}{about}"
        return f"{place}: expected {self.expected}, got {got}"

    def replied(self, about: str, text: str, *, good: bool) -> DialogueLine:
        """Return the line of a reply."""
        return DialogueLine(f"{about}: {text}", good, self.step, text)

    def refusal(self, mail: OutboundMail, code: int, text: str, error: str) -> SendResult:
        """Return the result of an attempt that ended here, by a reply or, code 0, without one."""
        verdict = smtp_verdict(self.step, code, text)
        return SendResult(
            mail.message_id,
            error=error,
            scope=verdict.scope,
            fault=verdict.fault,
            may_try_plain=is_spam_refusal(verdict, text),
        )

    def line(self, foreign: bytes | str) -> str:
        """Return a text of the server on one line, without any secret that it repeats."""
        return self.settings.redactor.excerpt(foreign, 300)

    def goodbye(self) -> None:
        """Send QUIT; the mail is accepted, whatever the server replies."""
        least = min(self.deadline_seconds, time.monotonic() + _GOODBYE_SECONDS)
        self._replies.deadline_seconds = least
        with suppress(DialogueError, OSError, smtplib.SMTPException):
            self._replies.allow()
            self._smtp.docmd("QUIT")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


def deliver(
    settings: MailSettings, names: AddressLookup, tls: ssl.SSLContext, mail: OutboundMail
) -> Attempt:
    """Make one attempt; yield its important lines."""
    talk = _Conversation(settings, is_other_left=mail.is_other_left)
    try:
        yield from _opening(talk, names, tls)
        result = yield from _handing_over(talk, mail)
        talk.goodbye()
    except (DialogueError, smtplib.SMTPException, OSError, ValueError) as problem:
        names.refresh()
        code = problem.code if isinstance(problem, DialogueError) else 0
        got = talk.got(problem)
        error = talk.error(got)
        yield DialogueLine(error, good=False, step=talk.step, got=got.strip("'"))
        result = talk.refusal(mail, code, str(problem).strip("'"), error)
    finally:
        talk.close()
    return replace(result, refused=talk.refused, faults=talk.faults)


def _opening(
    talk: _Conversation, names: AddressLookup, tls: ssl.SSLContext
) -> Generator[DialogueLine, None, None]:
    """Connect, encrypt as configured, log in."""
    settings, mode = talk.settings, talk.settings.tls
    address = talk.connect(names)
    if mode == "auto":
        mode = "none" if talk.local else "tls" if settings.port == 465 else "starttls"
    yield DialogueLine(f"connected to '{settings.server}' ({address}) port {settings.port}")
    if mode == "tls":
        yield DialogueLine(talk.encrypt(tls))
    yield DialogueLine(f"greeting: {talk.greeting()}")
    talk.hello()
    if mode == "starttls" or (mode == "opportunistic" and talk.offers("starttls")):
        if not talk.offers("starttls"):
            talk.begin("STARTTLS", "the server to support it")
            raise DialogueError("no support")
        talk.starttls()
        yield DialogueLine(talk.encrypt(tls))
        talk.hello()
    if not talk.encrypted:
        yield DialogueLine("not encrypted" + (", on this machine" if talk.local else ""))
    if settings.user is not None:
        talk.login(settings.user, settings.password or "")
        yield DialogueLine(f"logged in as '{settings.user}'")


def _handing_over(talk: _Conversation, mail: OutboundMail) -> Attempt:
    """Name sender and recipients, hand the message over."""
    sender = talk.settings.sender
    code, text = talk.mail(parseaddr(sender)[1], len(mail.data))
    yield talk.replied(f"sender {sender}", text, good=code == 250)
    if code != 250:
        return talk.refusal(mail, code, text, talk.error(f"'{text}'"))
    for recipient in mail.recipients:
        code, text = talk.recipient(recipient)
        yield talk.replied(f"recipient {recipient}", text, good=code in (250, 251))
        if code in (250, 251):
            continue
        error = talk.error(f"'{text}'", f" <{recipient}>")
        verdict = smtp_verdict(talk.step, code, text)
        if verdict.scope is Scope.SERVER:
            return talk.refusal(mail, code, text, error)
        talk.refused[recipient], talk.faults[recipient] = error, verdict.fault
    accepted = tuple(r for r in mail.recipients if r not in talk.faults)
    if not accepted:
        return SendResult(mail.message_id)
    code, text = talk.data(mail.data)
    yield talk.replied("message", text, good=code == 250)
    if 200 <= code < 300:
        return SendResult(mail.message_id, delivered=accepted, answer=text)
    return talk.refusal(mail, code, text, talk.error(f"'{text}'"))
