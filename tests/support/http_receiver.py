"""HTTP servers on loopback: a real one that answers what a test wants, and one that misbehaves."""

from __future__ import annotations

import contextlib
import dataclasses
import http.server
import queue
import socket
import ssl
import threading
from typing import TYPE_CHECKING

from iowarden.daemon.config.receivers import ReceiverConfig, ReceiverType, parse_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from support.smtp import Certificate

DEADLINE_SECONDS = 20.0
"""Far above anything measured: it ends a test that would hang, and judges nothing."""


@dataclasses.dataclass(frozen=True)
class Request:
    """What the server received."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclasses.dataclass(frozen=True)
class Answer:
    """What the server replies."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


class Server:
    """The requests that came, and what is replied to them; a test may change it meanwhile."""

    def __init__(self) -> None:
        """Accept everything."""
        self.requests: queue.Queue[Request] = queue.Queue()
        self.answer: Callable[[Request], Answer] = lambda _: Answer()
        self.date: str | None = None
        """Of the header Date, in place of the real one."""
        self.port = 0

    def next(self) -> Request:
        """Return the next request."""
        return self.requests.get(timeout=DEADLINE_SECONDS)


@contextlib.contextmanager
def server(certificate: Certificate | None = None) -> Iterator[Server]:
    """Run a server; with a certificate it speaks TLS."""
    answers = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def _reply(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = Request(self.command, self.path, dict(self.headers.items()), body)
            answer = answers.answer(request)
            answers.requests.put(request)
            self.send_response_only(answer.status)
            self.send_header("Date", answers.date or self.date_time_string())
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST = do_CONNECT = _reply  # noqa: N815 - as http.server calls them

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.path, certificate.key_path)
        running.socket = context.wrap_socket(
            running.socket, server_side=True, do_handshake_on_connect=False
        )
    answers.port = running.server_port
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield answers
    finally:
        running.shutdown()
        running.server_close()


@contextlib.contextmanager
def raw(talk: Callable[[socket.socket, threading.Event], None]) -> Iterator[int]:
    """Run a server that does what `talk` does with a connection; return its port.

    The event is set when the test is over.
    """
    over = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while not over.is_set():
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            talk(connection, over)

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield listening.getsockname()[1]
    finally:
        over.set()
        listening.shutdown(socket.SHUT_RDWR)  # closed alone, it would be accepting on
        accepting.join(DEADLINE_SECONDS)
        listening.close()


def config(
    kind: ReceiverType, port: int, path: str = "/", scheme: str = "http", **changes: object
) -> ReceiverConfig:
    """Return a receiver named 'ops' at a local server."""
    url = parse_url(f"{scheme}://localhost:{port}{path}")
    made = ReceiverConfig("ops", kind, urls=(url,))
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]
