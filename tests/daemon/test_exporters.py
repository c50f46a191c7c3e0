"""Detection of other exporters on the host."""

from __future__ import annotations

import http.server
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from support.smtp import free_port

from iowarden.daemon import exporters
from iowarden.daemon.exporters import Exporter, find_exporters

if TYPE_CHECKING:
    from collections.abc import Iterator

NODE = b'# TYPE node_uname_info gauge\nnode_uname_info{nodename="db1"} 1\n'
SMARTCTL = b'# TYPE smartctl_device gauge\nsmartctl_device{device="sda"} 1\n'


@contextmanager
def serving(status: int, body: bytes, length: int | None = None) -> Iterator[int]:
    """A real HTTP server with one text on '/metrics'; yields its port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/metrics" else 404)
            self.send_header("Content-Length", str(len(body) if length is None else length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("body", "program"),
    [(NODE, "node_exporter"), (SMARTCTL, "smartctl_exporter"), (b"iowarden_rules 3\n", None)],
)
def test_an_exporter_is_known_by_what_it_shows(body: bytes, program: str | None) -> None:
    """Not by its port: another program may listen there."""
    with serving(200, body) as port:
        assert find_exporters([port]) == (Exporter(port, program, "200 OK"),)


def test_an_exporter_that_wants_a_password_is_found() -> None:
    """Which program it is remains unknown, but something answers."""
    with serving(401, b"no\n") as port:
        assert find_exporters([port]) == (Exporter(port, None, "401 Unauthorized"),)


def test_one_that_ends_early_is_reported_with_what_it_reported() -> None:
    """It announced more than it sent."""
    with serving(200, NODE, length=len(NODE) + 100) as port:
        (exporter,) = find_exporters([port])
    assert exporter.program == "node_exporter"


def test_a_port_without_an_exporter_is_none() -> None:
    """No server, next to a port with one."""
    with serving(200, NODE) as port:
        assert [exporter.port for exporter in find_exporters([free_port(), port])] == [port]


def test_a_program_that_reports_nothing_does_not_hold_us_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It accepts the connection and never answers: not HTTP, within the timeout."""
    monkeypatch.setattr(exporters, "TIMEOUT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert find_exporters([silent.getsockname()[1]]) == ()


def test_a_program_of_another_protocol_is_none() -> None:
    """An SMTP greeting is not an HTTP answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            client, _ = server.accept()
            with client:
                client.sendall(b"220 mail.example.com ESMTP\r\n")
                client.recv(4096)

        thread = threading.Thread(target=greet)
        thread.start()
        assert find_exporters([server.getsockname()[1]]) == ()
        thread.join()


def test_a_proxy_in_the_environment_is_not_queried(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would answer for every address, or for none."""
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    with serving(200, NODE) as port:
        assert find_exporters([port]) == (Exporter(port, "node_exporter", "200 OK"),)


def test_more_than_any_exporter_reports_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endless answer is cut at the limit."""
    monkeypatch.setattr(exporters, "MAX_BYTES", 1000)
    with serving(200, NODE + b"x 1\n" * 100_000) as port:
        assert find_exporters([port]) == (Exporter(port, "node_exporter", "200 OK, truncated"),)
