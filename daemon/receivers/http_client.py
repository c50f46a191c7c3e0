"""HTTP client: one request within a time limit; no redirect is followed, no environment is read.

Source: RFC 9110 (semantics), RFC 9112 (HTTP/1.1), RFC 9110 section 9.3.6 (CONNECT).
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import os
import re
import ssl
import time
from contextlib import suppress
from dataclasses import field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.notify.address_lookup import connected
from iowarden.daemon.notify.attempt import DialogueError
from iowarden.daemon.notify.retry import MAX_PAUSE_SECONDS, Verdict, http_verdict

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from iowarden.daemon.config.receivers import Url
    from iowarden.daemon.notify.address_lookup import AddressLookup
    from iowarden.daemon.redactor import Redactor

CONNECT_SECONDS = 5.0
ATTEMPT_SECONDS = 30.0
MAX_RESPONSE_BYTES = 4096
"""Read of a response; what follows is of no interest."""
_MAX_SHOWN_CHARACTERS = 200
_DELAY = re.compile(r"[0-9]+(\.[0-9]+)?")
"""Of Retry-After; some services add a fraction, for which RFC 9110 has no place."""
_PLAIN_ENCODINGS = frozenset({"", "identity"})
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"})
_AUTHORITY = "; for an authority of your own: update-ca-certificates(8), then restart iowarden"
_CERTIFICATES = {
    **dict.fromkeys((18, 19, 20, 21), _AUTHORITY),
    **dict.fromkeys((9, 10), "; if that is wrong, check this host's clock"),
}
"""What to do, by the result of the verification. Source: openssl/x509_vfy.h, X509_V_ERR_*:
9 not yet valid, 10 expired, 18 self-signed, 19 self-signed in the chain, 20 and 21 no issuer."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request; the body and the values of headers may be secret."""

    method: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    path: str | None = field(default=None, repr=False)
    """In place of that of the URL."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """The reply of a server, or an error without one.

    `maybe_taken`: the connection failed after the request was sent.
    """

    status: int = 0
    body: bytes = field(default=b"", repr=False)
    """To parse, never to show: it may repeat a secret."""
    excerpt: str = ""
    """The beginning of the body without any secret, to show."""
    error: str = ""
    maybe_taken: bool = False
    retry_after_seconds: float = 0.0
    server_seconds: float | None = None
    """Unix time by the server's own clock, from its header Date."""

    @property
    def good(self) -> bool:
        """Whether the server accepted the request."""
        return not self.error and 200 <= self.status < 300

    @property
    def verdict(self) -> Verdict:
        """Return what it means, if it is no acceptance."""
        if self.error:
            return http_verdict(0, is_sent=self.maybe_taken)
        return http_verdict(self.status, self.excerpt)

    def text(self) -> str:
        """Return status and beginning of the body on one line."""
        if self.error:
            return self.error
        reason = http.client.responses.get(self.status, "")
        return " ".join(part for part in (str(self.status), reason, self.excerpt) if part)


def verified_tls(url: Url, authorities: str) -> ssl.SSLContext:
    """Return a TLS context that verifies certificates.

    The authorities are read from disk here, unless no connection is encrypted.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if url.scheme != "https":
        return context
    if os.path.exists(authorities):
        context.load_verify_locations(authorities)
    else:
        context.load_default_certs()
    context.set_alpn_protocols(["http/1.1"])
    return context


class HttpClient:
    """Sends requests to one URL, each over a connection of its own; for one thread.

    The server's name is resolved at start and after a failure; the last addresses stay in use.
    """

    def __init__(
        self,
        url: Url,
        names: AddressLookup,
        tls: ssl.SSLContext,
        redactor: Redactor,
        proxy: Url | None = None,
        attempt_seconds: float = ATTEMPT_SECONDS,
    ) -> None:
        """`names` resolves the proxy's name, if there is one; texts of servers pass `redactor`."""
        self.url = url
        self._names = names
        self._tls = tls
        self._redactor = redactor
        self._proxy = proxy
        self._attempt_seconds = attempt_seconds

    def send(self, request: HttpRequest) -> HttpReply:
        """Make one attempt."""
        attempt = _Attempt(time.monotonic() + self._attempt_seconds, self._redactor)
        try:
            return self._send(request, attempt)
        except (DialogueError, OSError, http.client.HTTPException, ValueError) as problem:
            self._names.refresh()
            error = f"{attempt.step}: expected {attempt.expected}, got {attempt.got(problem)}"
            return HttpReply(error=error, maybe_taken=attempt.sent)
        finally:
            attempt.close()

    def _send(self, request: HttpRequest, attempt: _Attempt) -> HttpReply:
        url, proxy = self.url, self._proxy
        attempt.connect(self._names)
        target = path = request.path or url.path
        if proxy is not None and url.scheme == "http":
            target = f"{url.origin}{path}"
        elif proxy is not None:
            attempt.tunnel(url)
        if url.scheme == "https":
            attempt.encrypt(self._tls, url.host)
        connection = http.client.HTTPConnection(url.host, url.port)
        connection.sock = attempt.stream()
        attempt.begin("request", "the server to read it")
        connection.putrequest(request.method, target, skip_host=True, skip_accept_encoding=True)
        headers = {
            "Host": url.authority,
            "User-Agent": "iowarden",
            "Connection": "close",
            **request.headers,
        }
        if request.method != "GET":
            headers["Content-Length"] = str(len(request.body))
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        if request.body:
            attempt.sent = True  # The server may act on it, whatever follows.
            # A server that refuses a large body may reply before it has read all of it.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.send(request.body)
        attempt.sent = True
        attempt.begin("response", "a reply")
        response = connection.getresponse()
        body = b""
        with suppress(OSError, DialogueError, http.client.HTTPException):  # the status is known
            body = response.read(MAX_RESPONSE_BYTES)
        received = response.headers.get("Date")
        # It was not accepted by the request; what is compressed hides a secret from the redactor.
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        return HttpReply(
            status=response.status,
            body=body,
            excerpt=self._redactor.excerpt(
                body, _MAX_SHOWN_CHARACTERS, is_cut=len(body) >= MAX_RESPONSE_BYTES
            )
            if encoding in _PLAIN_ENCODINGS
            else "(a compressed body)",
            retry_after_seconds=_seconds(response.headers.get("Retry-After"), received),
            server_seconds=_unix(received),
        )


class _Attempt:
    """The connection of one request, and its current step."""

    def __init__(self, deadline_seconds: float, redactor: Redactor) -> None:
        self._redactor = redactor
        self.step = "connect"
        self.expected = "a connection"
        self.sent = False
        self._deadline_seconds = deadline_seconds
        self._socket: socket.socket | None = None

    def begin(self, step: str, expected: str) -> None:
        self.step, self.expected = step, expected

    def left(self) -> float:
        """Return the remaining time. Errors: DialogueError."""
        left = self._deadline_seconds - time.monotonic()
        if left <= 0:
            raise DialogueError("no reply before the timeout")
        return left

    def connect(self, names: AddressLookup) -> None:
        """Connect to the first address that responds."""
        self.begin("name resolution", "an address")
        addresses = names.get(self.left())
        self.begin("connect", "a connection")
        self._socket, _ = connected(addresses, lambda: min(CONNECT_SECONDS, self.left()))

    def tunnel(self, url: Url) -> None:
        """Have the proxy connect to the server."""
        host = f"[{url.host}]" if ":" in url.host else url.host
        self.begin("proxy", "a connection to the server")
        stream = self.stream()
        stream.sendall(
            f"CONNECT {host}:{url.port} HTTP/1.1\r\nHost: {host}:{url.port}\r\n\r\n".encode()
        )
        response = http.client.HTTPResponse(stream, method="CONNECT")  # type: ignore[arg-type]
        response.begin()
        if response.status != http.client.OK:
            reason = self._redactor.excerpt(response.reason, 60)
            raise DialogueError(f"'{response.status} {reason}'")

    def encrypt(self, tls: ssl.SSLContext, host: str) -> None:
        """Encrypt the connection."""
        self.begin("TLS", f"a certificate for '{host}' from a known authority")
        if self._socket is not None:
            self._socket.settimeout(self.left())
            self._socket = tls.wrap_socket(self._socket, server_hostname=_name(host))

    def stream(self) -> _Stream:
        if self._socket is None:
            raise DialogueError("no connection")
        return _Stream(self._socket, self.left)

    def got(self, problem: Exception) -> str:
        """Return what was received instead of the expected."""
        if isinstance(problem, DialogueError):
            return str(problem)
        if isinstance(problem, ssl.SSLCertVerificationError):
            message = self._redactor.text(problem.verify_message)
            return f"'{message}'{_CERTIFICATES.get(problem.verify_code, '')}"
        if isinstance(problem, ssl.SSLError) and problem.reason in _NO_TLS:
            return "a reply without TLS; is it an 'http://' port?"
        if isinstance(problem, TimeoutError) or time.monotonic() >= self._deadline_seconds:
            return "no reply before the timeout"
        if isinstance(problem, http.client.RemoteDisconnected):
            return "a closed connection"
        if isinstance(problem, http.client.HTTPException):
            return f"no HTTP reply ({type(problem).__name__})"
        if isinstance(problem, OSError):
            return f"'{self._redactor.excerpt(problem.strerror or str(problem), 200)}'"
        return type(problem).__name__

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


class _Stream(io.RawIOBase):
    """A socket for http.client whose every read and write counts towards one time limit."""

    def __init__(self, connection: socket.socket, left: Callable[[], float]) -> None:
        self._connection = connection
        self._left = left

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: object) -> int:
        """Read what there is."""
        self._connection.settimeout(self._left())
        return self._connection.recv_into(buffer)  # type: ignore[arg-type]

    def sendall(self, data: bytes) -> None:
        """Send all."""
        self._connection.settimeout(self._left())
        self._connection.sendall(data)

    def makefile(self, _mode: str = "rb") -> io.BufferedReader:
        """Return a reader of the connection; as socket.makefile."""
        # Of its own: http.client closes the socket and reads on.
        return io.BufferedReader(_Stream(self._connection, self._left), MAX_RESPONSE_BYTES)


def _name(host: str) -> str:
    """Return a host for the verification of its certificate."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.rstrip(".")


def _unix(date: str | None) -> float | None:
    """Return the time of a header, or None if there is none or it is no date."""
    try:
        return None if date is None else parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _seconds(retry_after: str | None, date: str | None) -> float:
    """Return how long to wait by Retry-After: seconds, or a date by the server's own clock.

    Limits: MAX_PAUSE_SECONDS; 0 for what is neither.
    """
    if retry_after is None:
        return 0.0
    text = retry_after.strip()
    if _DELAY.fullmatch(text):
        return min(float(text), MAX_PAUSE_SECONDS)  # thousands of digits are infinite
    until, now = _unix(text), _unix(date)
    if until is None or now is None:
        return 0.0
    return min(max(until - now, 0.0), MAX_PAUSE_SECONDS)
