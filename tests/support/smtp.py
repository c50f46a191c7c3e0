"""Mail servers on loopback: a real one that takes, refuses or defers, and one that misbehaves."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import shutil
import socket
import ssl
import subprocess
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from aiosmtpd.smtp import SMTP, Envelope, Session

DEADLINE_SECONDS = 20.0
"""Far above anything measured: it ends a test that would hang, and judges nothing."""


@dataclass(frozen=True)
class Received:
    """A mail that the server took."""

    sender: str
    recipients: tuple[str, ...]
    data: bytes


@dataclass
class Answers:
    """What the server says; a test may change it while the server runs."""

    sender: str = ""
    """Instead of '250 OK' to MAIL FROM."""
    recipients: dict[str, str] = field(default_factory=dict)
    """Instead of '250 OK' to some RCPT TO."""
    message: str = "250 OK: queued as 4711"
    mails: queue.Queue[Received] = field(default_factory=queue.Queue)

    async def handle_MAIL(  # noqa: N802 - as aiosmtpd calls it
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Answer MAIL FROM."""
        if self.sender:
            return self.sender
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(  # noqa: N802 - as aiosmtpd calls it
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Answer RCPT TO."""
        answer = self.recipients.get(address, "250 OK")
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(  # noqa: N802 - as aiosmtpd calls it
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Answer the end of a message."""
        if self.message.startswith("250"):
            data = envelope.content
            assert isinstance(data, bytes)
            recipients = tuple(envelope.rcpt_tos)
            self.mails.put(Received(envelope.mail_from or "", recipients, data))
        return self.message

    def next(self) -> Received:
        """Return the next mail, waiting for it."""
        return self.mails.get(timeout=DEADLINE_SECONDS)


@dataclass(frozen=True)
class Certificate:
    """A certificate for 'localhost' and 127.0.0.1 that vouches for itself."""

    path: str
    key_path: str

    def server_context(self) -> ssl.SSLContext:
        """Return what a server with this certificate needs."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path, self.key_path)
        return context


def make_certificate(directory: Path, name: str = "localhost") -> Certificate:
    """Make a certificate with the 'openssl' command; skip the test where there is none."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("no 'openssl' command to make a certificate with")
    certificate = Certificate(str(directory / "certificate.pem"), str(directory / "key.pem"))
    subprocess.run(
        [
            *(program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", f"/CN={name}"),
            *("-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1"),
            *("-keyout", certificate.key_path, "-out", certificate.path),
        ],
        check=True,
        capture_output=True,
    )
    return certificate


class _Controller(Controller):
    """A mail server that closes its connections before it ends.

    aiosmtpd leaves open what was just accepted, or is encrypted. The garbage collector finds it in
    a later test, which then fails by a ResourceWarning.
    """

    def stop(self, no_assert: bool = False) -> None:
        """Close the connections, then end the loop and its thread."""
        closing = asyncio.run_coroutine_threadsafe(self._close_connections(), self.loop)
        closing.result(DEADLINE_SECONDS)
        super().stop(no_assert)

    async def _close_connections(self) -> None:
        assert isinstance(self.server, asyncio.Server)
        for listener in self.server.sockets:  # nothing is accepted any more
            self.loop.remove_reader(listener.fileno())
        # Python 3.13 has Server.abort_clients, 3.11 only the loop's own list. What was accepted is
        # in it a round later, and what was aborted is closed another one or two later.
        for _ in range(5):
            await asyncio.sleep(0)
            for transport in getattr(self.loop, "_transports").values():  # noqa: B009 - untyped
                transport.abort()


@contextlib.contextmanager
def smtp_server(
    answers: Answers | None = None,
    *,
    certificate: Certificate | None = None,
    implicit_tls: bool = False,
    password: str | None = None,
    port: int = 0,
) -> Iterator[tuple[int, Answers]]:
    """Run a real SMTP server; give its port and its answers.

    With a certificate it offers STARTTLS, or with `implicit_tls` speaks TLS from the first byte;
    with a password it offers a log-in to the user 'iowarden'.
    """
    answers = answers or Answers()
    context = certificate.server_context() if certificate else None

    def authenticate(
        server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: object
    ) -> AuthResult:
        expected = (b"iowarden", (password or "").encode())
        given = getattr(data, "login", None), getattr(data, "password", None)
        return AuthResult(success=given == expected, handled=False)

    # The controller connects once to see that it runs: it must know the port beforehand.
    chosen = port or free_port()
    controller = _Controller(
        answers,
        hostname="127.0.0.1",
        port=chosen,
        ssl_context=context if implicit_tls else None,
        tls_context=None if implicit_tls else context,
        authenticator=authenticate if password is not None else None,
        auth_require_tls=False,
    )
    controller.start()
    try:
        yield chosen, answers
    finally:
        controller.stop()


def free_port() -> int:
    """Return a port on which nobody listens just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port


def own_address() -> str:
    """Return an address of this machine that is not loopback; skip the test where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # RFC 5737: nobody; nothing is sent
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(probe.getsockname()[0])


@contextlib.contextmanager
def scripted_server(
    script: Callable[[socket.socket, threading.Event], None], host: str = "127.0.0.1"
) -> Iterator[int]:
    """Run a server that does with each connection what `script` says; give its port.

    The event is set when the test is over: a script that stalls waits for it.
    """
    over = threading.Event()
    with socket.create_server((host, 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):
                    script(connection, over)

        thread = threading.Thread(target=serve, name="scripted server")
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(DEADLINE_SECONDS)


def dialogue(*answers: str) -> Callable[[socket.socket, threading.Event], None]:
    """Return a script of one answer a command, the first at once, that stalls after the last."""

    def script(connection: socket.socket, over: threading.Event) -> None:
        with connection.makefile("rb") as lines:
            for number, answer in enumerate(answers):
                if number:
                    line = lines.readline()
                    while answers[number - 1].startswith("354") and line not in (b".\r\n", b""):
                        line = lines.readline()
                connection.sendall(answer.encode())
            connection.settimeout(0.05)
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    if not connection.recv(4096):
                        return

    return script
