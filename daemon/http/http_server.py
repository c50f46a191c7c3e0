"""HTTP server: /metrics, health checks and the status page, by HTTP or HTTPS.

waitress reads requests in a thread of its own, so that clients that send nothing block no worker.
Source: RFC 9110 and 9112; Prometheus, "Exposition formats".
"""

from __future__ import annotations

import contextlib
import gzip
import html
import itertools
import logging
import select
import socket
import ssl
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask, ThreadedTaskDispatcher, WSGITask
from waitress.trigger import trigger

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.config.schema import ConfigError
from iowarden.daemon.http import web_config
from iowarden.daemon.http.listening import listen_problem, listening_socket
from iowarden.daemon.http.login_turns import network, surplus
from iowarden.daemon.http.logins import Login, Logins
from iowarden.daemon.http.page_access import is_page
from iowarden.daemon.http.password import Authenticator, Verdict
from iowarden.daemon.http.web_config import WebConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from iowarden.collectors.model import Sample
    from iowarden.daemon.config.schema import Address, HttpConfig
    from iowarden.daemon.http.page_access import PageAccess

TEXT = "text/plain; charset=utf-8"
METRICS = "text/plain; version=0.0.4; charset=utf-8"
PAGE = "text/html; charset=utf-8"

COMPRESS_FROM_BYTES = 1024
HEADER_LIMIT_BYTES = 16 * 1024
BODY_LIMIT_BYTES = 1024
"""No request needs a body; a small one is read and ignored."""
OUTPUT_LIMIT_BYTES = 256 * 1024 * 1024
"""Far above any response: waitress buffers larger ones in a file, and a file may hang."""

CERTIFICATE_SECONDS = 60.0
"""How often the files of the certificate are checked for a change."""
_POLL_SECONDS = 1.0
_CLOSE_SECONDS = 5.0


class App:
    """The WSGI application; each callable may be called by several threads at once.

    `healthy`, `ready` and `scrapable` (are the metrics complete) return an error as a sentence, or
    ''; `landing` returns a sentence for the landing page.
    """

    def __init__(
        self,
        version: str,
        render: Callable[[], bytes],
        healthy: Callable[[], str],
        ready: Callable[[], str],
        landing: Callable[[], str],
        scrapable: Callable[[], str] = str,
        pages: PageAccess | None = None,
    ) -> None:
        """Store the callables; none is called before the first request.

        `pages` None: a page with links at '/', and no other.
        """
        self._pages = pages
        self._version = version
        self._render = render
        self._healthy = healthy
        self._ready = ready
        self._landing = landing
        self._scrapable = scrapable
        self._compressed = (b"", b"")

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request. Source: PEP 3333."""
        method, encoding = environ["REQUEST_METHOD"], ""
        if method in {"GET", "HEAD"} and self._pages is not None:
            host = environ.get("HTTP_HOST", "")
            shown = self._pages.answer(environ.get("PATH_INFO", ""), host)
            if shown is not None:
                page_status, headers, body = shown
                start_response(page_status, [*headers, ("Content-Length", str(len(body)))])
                return [] if method == "HEAD" else [body]
        if method in {"GET", "HEAD"}:
            status, kind, body = self._answer(environ.get("PATH_INFO", ""))
            if kind == METRICS and len(body) > COMPRESS_FROM_BYTES:
                encoding = "gzip" if accepts_gzip(environ.get("HTTP_ACCEPT_ENCODING", "")) else ""
        else:
            status, kind = "405 Method Not Allowed", TEXT
            body = b"Only GET and HEAD are supported.\n"
        headers = [("Content-Type", kind), ("X-Content-Type-Options", "nosniff")]
        if status.startswith("405"):
            headers.append(("Allow", "GET, HEAD"))
        if kind == METRICS:
            headers.append(("Vary", "Accept-Encoding"))
        if encoding:
            headers.append(("Content-Encoding", encoding))
            body = self._compress(body)
        headers.append(("Content-Length", str(len(body))))
        start_response(status, headers)
        return [] if method == "HEAD" else [body]

    def _answer(self, path: str) -> tuple[str, str, bytes]:
        match path:
            case "/metrics":
                if missing := self._scrapable():
                    return _verdict(missing, "")
                return "200 OK", METRICS, self._render()
            case "/-/healthy":
                return _verdict(self._healthy(), "The main loop is running.")
            case "/-/ready":
                return _verdict(self._ready(), "All data sources have been read at least once.")
            case "/":
                return "200 OK", PAGE, self._page().encode()
        return "404 Not Found", TEXT, b"Not found; the metrics are at /metrics.\n"

    def _page(self) -> str:
        links = "".join(
            f'<li><a href="{path}">{path}</a></li>'
            for path in ("/metrics", "/-/healthy", "/-/ready")
        )
        return (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>iowarden</title>'
            f"<h1>iowarden {html.escape(self._version)}</h1>"
            f"<p>{html.escape(self._landing())}</p><ul>{links}</ul></html>\n"
        )

    def _compress(self, body: bytes) -> bytes:
        source, compressed = self._compressed
        if source is not body:  # the same object: nothing was published since the last scrape
            compressed = gzip.compress(body, 1, mtime=0)
            self._compressed = (body, compressed)
        return compressed


_VERDICT = "iowarden.verdict"
"""Key of a request's verdict in its environment."""
_REFUSALS = {
    Verdict.WRONG: (
        "401 Unauthorized",
        ("WWW-Authenticate", 'Basic realm="iowarden", charset="UTF-8"'),
        b"Expected user and password of 'basic_auth_users', got none or wrong ones.\n",
    ),
    Verdict.LIMITED: (
        "429 Too Many Requests",
        ("Retry-After", "1"),
        b"A wrong password came from this address; the next one is checked after a second.\n",
    ),
    Verdict.BUSY: (
        "503 Service Unavailable",
        ("Retry-After", "1"),
        b"Too many logins wait; retry.\n",
    ),
}


def authorized(app: WSGIApplication) -> WSGIApplication:
    """Return an application that answers only requests whose verdict is CORRECT."""

    def checked(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        verdict = environ.get(_VERDICT, Verdict.WRONG)
        if verdict is Verdict.CORRECT:
            return app(environ, start_response)
        status, more, body = _REFUSALS[verdict]
        start_response(status, [("Content-Type", TEXT), more, ("Content-Length", str(len(body)))])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    return checked


def accepts_gzip(header: str) -> bool:
    """Whether an Accept-Encoding header allows gzip. Source: RFC 9110, 12.5.3."""
    for item in header.split(","):
        coding, *parameters = (part.strip().lower() for part in item.split(";"))
        if coding in {"gzip", "x-gzip"}:
            return not any(_is_zero_weight(parameter) for parameter in parameters)
    return False


def _is_zero_weight(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    return name.strip() == "q" and value.strip() in {"0", "0.", "0.0", "0.00", "0.000"}


def _verdict(wrong: str, right: str) -> tuple[str, str, bytes]:
    status = "503 Service Unavailable" if wrong else "200 OK"
    return status, TEXT, f"{wrong or right}\n".encode(errors="replace")


# waitress brings no types, hence each "type: ignore" below.
class _Answer(WSGITask):  # type: ignore[misc]
    """One response per connection, so that no client queues requests and never reads."""

    def start(self) -> None:
        self.request.headers["CONNECTION"] = "close"
        super().start()

    def get_environment(self) -> WSGIEnvironment:
        """Return the environment of PEP 3333, with the verdict."""
        environment: WSGIEnvironment = super().get_environment()
        environment[_VERDICT] = self.channel.verdict
        return environment


class _Refusal(ErrorTask):  # type: ignore[misc]
    """The response to invalid HTTP; waitress would repeat the client's text in it."""

    def execute(self) -> None:
        self.request.error.body = "Send a plain 'GET /metrics' request."
        super().execute()


class _Channel(HTTPChannel):  # type: ignore[misc]
    task_class = _Answer
    error_task_class = _Refusal
    verdict = Verdict.WRONG
    """On its one request."""

    def writable(self) -> bool:
        """Whether the polling thread has to send.

        While a worker answers, it sends itself, and wakes this thread for the rest when it is done.
        waitress would poll in a loop meanwhile, and so take the interpreter from the worker.
        """
        return bool(super().writable()) and not (self.requests and self.connected)

    def may_change(self) -> bool:
        """Whether it may wait for something else without an event: a worker has it, or it ends."""
        ending = self.will_close or self.close_when_flushed
        return bool(self.requests or self.total_outbufs_len or ending)


_TLS_EXPECTED = (
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n"
    b"Expected HTTPS at this port, got HTTP without TLS; use https:// in the address.\n"
)


class _TlsChannel(_Channel):
    """A channel whose handshake, reads and writes never block, in the thread that polls.

    OpenSSL's object of a connection is not for two threads at once, and a worker sends its answer
    itself if the socket takes it.
    """

    def __init__(self, server: Any, sock: ssl.SSLSocket, *more: Any, **names: Any) -> None:  # noqa: ANN401 - waitress's
        self._tls = threading.Lock()
        self._is_shaken = False
        self._must_write = False
        super().__init__(server, sock, *more, **names)

    def readable(self) -> bool:
        if not self._is_shaken:
            return not (self._must_write or self.will_close)
        return bool(super().readable())

    def writable(self) -> bool:
        if not self._is_shaken:
            return self._must_write or bool(self.will_close)
        return bool(super().writable())

    def handle_read(self) -> None:
        if not self._is_shaken and not self._shake_hands():
            return
        while self.readable():
            try:
                with self._tls:
                    received = self.socket.recv(self.adj.recv_bytes)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError:  # the client is gone, or sends no TLS
                self.handle_close()
                return
            if not received:
                self.handle_close()
                return
            self.last_activity = time.time()
            self.received(received)
            with self._tls:  # what OpenSSL has decrypted does not make the socket readable
                if self.socket is None or not self.socket.pending():
                    return

    def handle_write(self) -> None:
        if self._is_shaken or self.will_close:
            super().handle_write()
        else:
            self._shake_hands()

    def _shake_hands(self) -> bool:
        """Continue the handshake; return whether it is complete."""
        try:
            with self._tls:
                self.socket.do_handshake()
        except ssl.SSLWantReadError:
            self._must_write = False
        except ssl.SSLWantWriteError:
            self._must_write = True
        except (OSError, ValueError) as error:
            # No TLS, no common version, no valid client certificate. The first is answered.
            if getattr(error, "reason", "") == "HTTP_REQUEST":
                with contextlib.suppress(OSError), self._tls:
                    plain = self.socket
                    socket.socket.send(plain, _TLS_EXPECTED)
                    socket.socket.recv(plain, HEADER_LIMIT_BYTES)  # unread, it resets the answer
            self.handle_close()
        else:
            self._is_shaken = True
        return self._is_shaken

    def send(self, data: bytes, do_close: bool = True) -> int:  # noqa: FBT001, FBT002 - waitress's
        try:
            with self._tls:
                return 0 if self.socket is None else int(self.socket.send(data))
        except ssl.SSLWantWriteError:
            return 0
        except OSError:
            if not do_close:
                raise
            self.handle_close()
            return 0

    def handle_close(self) -> None:
        if self._is_shaken and self.socket is not None:
            # Without the end of TLS a client would report a truncated answer.
            with contextlib.suppress(OSError, ValueError), self._tls:
                self.socket.unwrap()
        super().handle_close()


class _Wake(trigger):  # type: ignore[misc]
    """Trigger that wakes the polling thread; does nothing after it was closed.

    waitress's own trigger writes to its file descriptor by number, which may already belong to
    another file.
    """

    def __init__(self, sockets: dict[Any, Any]) -> None:
        self._guard = threading.Lock()
        super().__init__(sockets)

    def _physical_pull(self) -> None:
        with self._guard:
            if not self._closed:
                super()._physical_pull()

    def close(self) -> None:
        with self._guard:
            super().close()


class _Sockets(dict[int, Any]):
    """waitress's map of polled sockets by descriptor; for the polling thread.

    waitress's own loop queries each socket twice per turn. Here one that only waits for its client
    is queried again when something came from that: idle clients cost a scrape nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self._poll = select.epoll()
        self._polled: dict[int, int] = {}
        self._changing: set[int] = set()
        self.opened: dict[_Channel, float] = {}
        """When each connection was opened, the oldest first."""

    def __setitem__(self, descriptor: int, of: Any) -> None:  # noqa: ANN401 - waitress's
        super().__setitem__(descriptor, of)
        self._changing.add(descriptor)
        if isinstance(of, _Channel):
            self.opened[of] = time.monotonic()

    def __delitem__(self, descriptor: int) -> None:
        self.opened.pop(self[descriptor], None)
        super().__delitem__(descriptor)
        self._changing.discard(descriptor)
        if self._polled.pop(descriptor, 0):
            self._poll.unregister(descriptor)

    def turn(self, seconds: float) -> None:
        """Wait for events, at most that long, and handle them."""
        for descriptor in tuple(self._changing):
            self._query(descriptor)
        for descriptor, events in self._poll.poll(seconds):
            if descriptor in self:
                self._changing.add(descriptor)
                wasyncore.readwrite(self[descriptor], events)

    def close(self) -> None:
        """Close all sockets; the thread has ended."""
        wasyncore.close_all(self, ignore_all=True)
        self._poll.close()

    def _query(self, descriptor: int) -> None:
        of = self[descriptor]
        # Before the flags: a worker that ends in between is noticed in the next turn.
        if isinstance(of, _Channel) and not of.may_change():
            self._changing.discard(descriptor)
        reads = select.EPOLLIN | select.EPOLLPRI if of.readable() else 0
        writes = select.EPOLLOUT if of.writable() and not of.accepting else 0
        polled, self._polled[descriptor] = self._polled.get(descriptor, 0), reads | writes
        if not polled and reads | writes:
            self._poll.register(descriptor, reads | writes)
        elif polled and not reads | writes:  # without flags it would still return a client's end
            self._poll.unregister(descriptor)
        elif polled != reads | writes:
            self._poll.modify(descriptor, reads | writes)


class _Listener(TcpWSGIServer):  # type: ignore[misc]
    web: Callable[[], WebConfig] = WebConfig
    """How the next client is served; set by the server."""
    page_dispatcher: ThreadedTaskDispatcher
    """Serves pages, one at a time; set by the server."""
    authenticator: Authenticator
    logins: Logins
    """Verifies passwords, one at a time; both are set by the server."""

    def add_task(self, task: _Channel) -> None:
        """Queue a request: who is known never waits for the password of another to be verified."""
        request = task.requests[0]
        if request.error:
            self.task_dispatcher.add_task(task)
            return
        header, origin = request.headers.get("AUTHORIZATION", ""), network(str(task.addr[0]))
        verdict = self.authenticator.recall(header, origin)
        if verdict is None:
            connected, answer = lambda: bool(task.connected), partial(self._dispatch, task)
            self.logins.add(Login(header, origin, connected, answer))
        else:
            self._dispatch(task, verdict)

    def _dispatch(self, task: _Channel, verdict: Verdict) -> None:
        """Queue an answer: pages apart from scrapes, which so never wait for a page."""
        task.verdict = verdict
        page = verdict is Verdict.CORRECT and is_page(task.requests[0].path)
        (self.page_dispatcher if page else self.task_dispatcher).add_task(task)

    def channel_class(self, server: Any, sock: socket.socket, *more: Any, **names: Any) -> None:  # noqa: ANN401 - waitress's
        """Serve a new connection, by TLS if that is configured."""
        tls = self.web().tls
        if tls is None:
            _Channel(server, sock, *more, **names)
            return
        sock.setblocking(False)  # noqa: FBT003 - the method takes no name
        try:
            wrapped = tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        except (OSError, ValueError):  # the client is gone already; an error would end the listener
            sock.close()
            return
        _TlsChannel(server, wrapped, *more, **names)


class _LogHandler(logging.Handler):
    """Passes waitress's log to a callback; a repeated text is passed once."""

    def __init__(self, on_error: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._on_error = on_error
        self._last = ""

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        # a queue of requests is normal: the limits handle it
        if record.name != "waitress.queue" and text != self._last:
            self._last = text
            self._on_error(f"http: {text}")


@dataclass(frozen=True, slots=True)
class _Running:
    """State of the running thread; only the thread accesses the sockets."""

    sockets: _Sockets
    wake: _Wake
    dispatcher: ThreadedTaskDispatcher
    page_dispatcher: ThreadedTaskDispatcher
    logins: Logins
    stop: threading.Event


class HttpServer:
    """waitress on some addresses, in a daemon thread; for use by one thread.

    A connection carries one request and is closed after `HttpConfig.connection_timeout_seconds` at
    the latest, also for silent, slow, half-closed and never-reading clients. Above
    `HttpConfig.connection_limit`, the oldest connection of the network with the most is closed, so
    that a new one is always accepted.
    """

    def __init__(
        self,
        addresses: tuple[Address, ...],
        app: App,
        settings: HttpConfig,
        on_error: Callable[[str], None],
        web: WebConfig | None = None,
        on_certificate: Callable[[str], object] = str,
    ) -> None:
        """Do not listen yet. `on_error` is called with later errors, in any thread.

        `on_certificate` is called with what is wrong with a renewed certificate, '' if nothing.
        """
        self._on_certificate = on_certificate
        self._changing = threading.Lock()
        self._web = web or WebConfig()
        self._authenticator = Authenticator(self._web.users)
        self._answer = authorized(app)
        self._addresses = addresses
        self._settings = settings
        self._on_error = on_error
        self._handler = _LogHandler(on_error)
        self._bound: dict[Address, Address] = {}
        self._running: _Running | None = None
        self._thread: threading.Thread | None = None

    def use(self, web: WebConfig) -> None:
        """Serve the next connections by other certificates and users; from any thread."""
        with self._changing:
            self._authenticator.use(web.users)
            self._web = web
        self._on_certificate("")

    @property
    def scheme(self) -> str:
        """How the next connections are served: 'https' or 'http'."""
        return "http" if self._web.tls is None else "https"

    def samples(self) -> list[Sample]:
        """Return from when until when the certificate in use is valid; nothing without TLS."""
        return [] if self._web.certificate is None else self._web.certificate.samples()

    def renew(self) -> None:
        """Serve the next connections by a certificate whose files were replaced, if it is valid."""
        web = self._web
        try:
            fresh = web_config.renewed(web)
        except ConfigError as error:
            stays = "the certificate in use stays; iowarden reads these files again every minute"
            self._on_certificate(f"http: {'; '.join(error.problems)}; {stays}")
            return
        with self._changing:
            if fresh is not None and self._web is web:  # no reload was faster
                self._web = fresh
        self._on_certificate("")

    @property
    def bound(self) -> tuple[Address, ...]:
        """The listening addresses; port 0 is replaced by the actual port."""
        return tuple(self._bound.values())

    def start(self) -> str:
        """Listen on every address that is not open yet; return the errors, or ''.

        May be called again at any time: open addresses stay open, failed ones are retried.
        """
        if self._thread is not None and not self._thread.is_alive():  # it logged why it ended
            self.close()
        problems = []
        for address in self._addresses:
            if address in self._bound:
                continue
            try:
                listening = listening_socket(address)
            except OSError as error:
                problems.append(listen_problem(address, error))
                continue
            host, port = listening.getsockname()[:2]
            self._bound[address] = (host, port)
            running = self._running or self._run()
            running.wake.pull_trigger(partial(self._serve, running, listening))
        return "; ".join(problems)

    def close(self) -> None:
        """Stop listening, drop every connection and end the threads; `start` may follow."""
        if self._thread is not None and self._running is not None:
            self._running.stop.set()
            self._running.wake.pull_trigger()
            self._thread.join(_CLOSE_SECONDS)
        logger = logging.getLogger("waitress")
        logger.removeHandler(self._handler)
        # another server may still use the logger: a reload starts the new one first
        logger.propagate = not any(isinstance(item, _LogHandler) for item in logger.handlers)
        self._running = self._thread = None
        self._bound.clear()

    def _run(self) -> _Running:
        logger = logging.getLogger("waitress")
        logger.propagate = False  # otherwise a root handler would also write it to stderr
        logger.addHandler(self._handler)
        dispatcher = ThreadedTaskDispatcher()
        dispatcher.set_thread_count(self._settings.threads)
        pages = ThreadedTaskDispatcher()
        pages.set_thread_count(1)
        logins = Logins(self._authenticator)
        sockets = _Sockets()
        running = self._running = _Running(
            sockets, _Wake(sockets), dispatcher, pages, logins, threading.Event()
        )
        self._thread = threading.Thread(
            target=self._loop, args=(running,), name="http", daemon=True
        )
        self._thread.start()
        threading.Thread(
            target=self._watch, args=(running.stop,), name="certificate", daemon=True
        ).start()
        return running

    def _watch(self, stop: threading.Event) -> None:
        """Look for a renewed certificate; a disk that hangs blocks only this thread."""
        while not stop.wait(CERTIFICATE_SECONDS):
            if self._web.certificate is not None:
                self.renew()

    def _serve(self, running: _Running, listening: socket.socket) -> None:
        timeout_seconds = round(self._settings.connection_timeout_seconds)
        adjustments = Adjustments(
            sockets=[listening],
            ident="iowarden",
            threads=self._settings.threads,
            backlog=128,
            # our own limit applies first: at waitress's limit no new connection is accepted
            connection_limit=self._settings.connection_limit + 100,
            channel_timeout=timeout_seconds,
            cleanup_interval=timeout_seconds,
            channel_request_lookahead=0,
            recv_bytes=8192,
            max_request_header_size=HEADER_LIMIT_BYTES,
            max_request_body_size=BODY_LIMIT_BYTES,
            inbuf_overflow=OUTPUT_LIMIT_BYTES,
            outbuf_overflow=OUTPUT_LIMIT_BYTES,
            outbuf_high_watermark=OUTPUT_LIMIT_BYTES,  # a worker would wait for the client there
            log_socket_errors=False,  # a disconnecting client is not our error
            expose_tracebacks=False,
        )
        listener = _Listener(  # adds itself to the map
            self._answer,
            running.sockets,
            _sock=listening,
            dispatcher=running.dispatcher,
            adj=adjustments,
            sockinfo=(listening.family, listening.type, 0, listening.getsockname()),
            bind_socket=False,
        )
        listener.web = lambda: self._web
        listener.page_dispatcher = running.page_dispatcher
        listener.authenticator, listener.logins = self._authenticator, running.logins
        listener.trigger.close()
        listener.trigger = _Wake(running.sockets)

    def _loop(self, running: _Running) -> None:
        try:
            while not running.stop.is_set():
                running.sockets.turn(_POLL_SECONDS)
                self._drop(running.sockets.opened)
        except Exception as error:  # noqa: BLE001 - the end of the thread must be logged
            self._on_error(
                f"http: expected no error, got {type(error).__name__}: {error};"
                " will listen again at the next retry; please report this"
            )
        finally:
            running.dispatcher.shutdown(timeout=1)
            running.page_dispatcher.shutdown(timeout=1)
            running.logins.close(1.0)
            running.sockets.close()

    def _drop(self, opened: dict[_Channel, float]) -> None:
        """Close connections that are too old, and those that are too many.

        waitress's own timeout does not apply to a client that never reads, because it waits until
        it can write, and restarts with each byte of a slow client.
        """
        since = time.monotonic() - self._settings.connection_timeout_seconds
        late = list(itertools.takewhile(lambda channel: opened[channel] < since, opened))
        for channel in late:
            channel.handle_close()
        if len(opened) > self._settings.connection_limit:
            origins = {channel: network(str(channel.addr[0])) for channel in opened}
            for channel in surplus(origins, self._settings.connection_limit):
                channel.handle_close()
