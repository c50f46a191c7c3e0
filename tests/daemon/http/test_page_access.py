"""The status page over a real socket: host names, headers, methods; scrapes never wait for it."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.schema import ConfigError
from iowarden.daemon.http import http_server, page_access, web_config
from iowarden.daemon.http.page_access import PageAccess, host_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DEADLINE_SECONDS = 20.0
POLICY = "default-src 'none'"
PAGE = b"<!doctype html><p>state</p>"
OWN = page_access.names("db1.example.com", "db1") | page_access.exactly(["Storage.Example.COM."])


def page(path: str) -> tuple[int, bytes] | None:
    """Return a page as the pages' own module does."""
    if path == "/incident/unknown":
        return 404, b"<!doctype html><p>There is no such incident.</p>"
    return None if path.endswith("/") and path != "/" else (200, PAGE)


@pytest.fixture
def serve() -> Iterator[Callable[..., http_server.HttpServer]]:
    """Return a function that starts a server of a page."""
    with ExitStack() as stack:

        def started(
            get: Callable[[str], tuple[int, bytes] | None] | None = page, threads: int = 2
        ) -> http_server.HttpServer:
            pages = None if get is None else PageAccess(get, POLICY, OWN)
            app = http_server.App("1", lambda: b"x 1\n", str, str, lambda: "Fine.", pages=pages)
            settings = parse_config(f"http: {{threads: {threads}}}", "none").http
            server = http_server.HttpServer((("127.0.0.1", 0),), app, settings, print)
            stack.callback(server.close)
            assert server.start() == ""
            return server

        yield started


def ask(
    server: http_server.HttpServer, path: str = "/", method: str = "GET", host: str = "localhost"
) -> tuple[str, dict[str, str], bytes]:
    """Send one request and read the response: status, headers, body."""
    with socket.create_connection(server.bound[0], DEADLINE_SECONDS) as client:
        line = f"Host: {host}\r\n" if host else ""
        version = "1.1" if host else "1.0"
        client.sendall(f"{method} {path} HTTP/{version}\r\n{line}\r\n".encode())
        content = b""
        while part := client.recv(1 << 16):
            content += part
    head, _, body = content.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    return status.partition(" ")[2], dict(each.split(": ", 1) for each in lines), body


def test_the_page_has_the_headers_that_keep_other_sites_out(
    serve: Callable[..., http_server.HttpServer],
) -> None:
    """No script, no frame, no cache, no cookie, no reader of another origin."""
    status, headers, body = ask(serve())
    assert (status, body) == ("200 OK", PAGE)
    assert headers["Content-Security-Policy"] == POLICY
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert not {"Set-Cookie", "Access-Control-Allow-Origin", "Refresh"} & set(headers)


def test_head_has_the_headers_of_get_and_no_body(
    serve: Callable[..., http_server.HttpServer],
) -> None:
    """RFC 9110, 9.3.2."""
    server = serve()
    status, headers, body = ask(server, method="HEAD")
    got = ask(server)
    assert (status, body) == ("200 OK", b"")
    assert headers["Content-Length"] == str(len(PAGE)) == got[1]["Content-Length"]
    assert headers["Content-Security-Policy"] == POLICY


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
@pytest.mark.parametrize("path", ["/", "/incident/1", "/drive/S1"])
def test_other_methods_are_refused(
    serve: Callable[..., http_server.HttpServer], method: str, path: str
) -> None:
    """The page is read-only."""
    status, headers, _ = ask(serve(), path, method)
    assert (status, headers["Allow"]) == ("405 Method Not Allowed", "GET, HEAD")


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.0.0.1:9748", "[::1]", "[::1]:9748", "192.0.2.7", "localhost:9748"),
        *("db1", "DB1:9748", "db1.example.com", "db1.example.com.", "storage.example.com:443"),
    ],
)
def test_own_names_and_addresses_are_served(
    serve: Callable[..., http_server.HttpServer], host: str
) -> None:
    """An address cannot be pointed elsewhere by a name server."""
    assert ask(serve(), host=host)[0] == "200 OK"


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "db1.evil.example", "xdb1", "localhost.evil.example", "storage"),
        *("db1:x", "[::1", "[::1]x", "127.0.0.1.evil.example", "", "db1@evil.example", "db1,x"),
    ],
)
def test_a_foreign_host_name_is_misdirected(
    serve: Callable[..., http_server.HttpServer], host: str
) -> None:
    """DNS rebinding: a site's own name that resolves to this host. Nothing of it is repeated."""
    server = serve()
    for path in ("/", "/incident/1", "/drive/S1"):
        status, headers, body = ask(server, path, host=host)
        assert status == "421 Misdirected Request"
        assert headers["Content-Security-Policy"] == POLICY
        assert b"http.hosts" in body
        assert not host or host.encode() not in body
    assert ask(server, "/metrics", host=host)[0] == "200 OK", "Prometheus uses any alias"


def test_an_unknown_incident_is_not_found(serve: Callable[..., http_server.HttpServer]) -> None:
    """As a page, with a way back."""
    assert ask(serve(), "/incident/unknown")[0] == "404 Not Found"


@pytest.mark.parametrize("path", ["/../../etc/passwd", "/incident/", "/%2e%2e/", "/<b>", "/x?y=z"])
def test_other_paths_are_not_found_and_not_repeated(
    serve: Callable[..., http_server.HttpServer], path: str
) -> None:
    """Whatever they are."""
    status, _, body = ask(serve(), path)
    assert status == "404 Not Found"
    assert body == b"Not found; the metrics are at /metrics.\n"


def test_a_query_changes_nothing(serve: Callable[..., http_server.HttpServer]) -> None:
    """The page has no parameters."""
    assert ask(serve(), "/?silence=1&x=<script>")[2] == PAGE


def test_without_the_page_there_are_links(serve: Callable[..., http_server.HttpServer]) -> None:
    """`http.page: off`."""
    server = serve(None)
    assert b'<a href="/metrics">' in ask(server, host="anything")[2]
    assert ask(server, "/incident/1")[0] == "404 Not Found"


@pytest.mark.parametrize("threads", [1, 2])
def test_scrapes_do_not_wait_for_a_page(
    serve: Callable[..., http_server.HttpServer], threads: int
) -> None:
    """While one page is rendered and fifty readers wait for it, each scrape is answered."""
    begun, go_on = threading.Event(), threading.Event()
    at_once: list[int] = []
    running = 0

    def get(_: str) -> tuple[int, bytes]:
        nonlocal running
        running += 1
        at_once.append(running)
        begun.set()
        assert go_on.wait(DEADLINE_SECONDS)
        running -= 1
        return 200, PAGE

    server = serve(get, threads)
    readers = [socket.create_connection(server.bound[0], DEADLINE_SECONDS) for _ in range(50)]
    for reader in readers:
        reader.sendall(b"GET / HTTP/1.1\r\nHost: db1\r\n\r\n")
    assert begun.wait(DEADLINE_SECONDS)
    for _ in range(20):
        assert ask(server, "/metrics")[2] == b"x 1\n"
        assert ask(server, "/-/healthy")[0] == "200 OK"
    go_on.set()
    for reader in readers:
        with reader:
            assert reader.recv(1 << 16).startswith(b"HTTP/1.1 200 OK")
    assert set(at_once) == {1}, "one at a time"


# --- Configuration.


def test_the_whole_page_needs_authentication(tmp_path: Path) -> None:
    """At load: a start, a check and a reload refuse it, with what to do."""
    for path in (None, str(tmp_path / "web.yml")):
        (tmp_path / "web.yml").write_text("{}\n")
        with pytest.raises(ConfigError) as caught:
            web_config.load(path, "full")
        (problem,) = caught.value.problems
        assert "http.page: expected authentication for 'full'" in problem
        assert "basic_auth_users" in problem
        assert "set http.page: summary" in problem
    (tmp_path / "web.yml").write_text(
        "basic_auth_users: {ann: $2b$04$abcdefghijklmnopqrstuuMcCyG0aCbzXZDlJqlDIxwe2oDdVq8Wu}\n"
    )
    assert web_config.load(str(tmp_path / "web.yml"), "full").is_authenticated


def test_the_default_page_is_the_summary() -> None:
    """Which shows what /metrics shows."""
    settings = parse_config("", "none").http
    assert (settings.page, settings.hosts) == ("summary", ())
    named = parse_config("http: {page: off, hosts: [a.example.com, b]}", "none").http
    assert (named.page, named.hosts) == ("off", ("a.example.com", "b"))
    with pytest.raises(ConfigError, match="one of off, summary, full"):
        parse_config("http: {page: public}", "none")


@pytest.mark.parametrize(
    ("header", "name"),
    [("A.b:1", "a.b"), ("[::1]:80", "::1"), ("a:", None), ("", None), ("[a]", None), ("a:b", None)],
)
def test_a_host_header_is_read_as_specified(header: str, name: str | None) -> None:
    """RFC 9110, 7.2."""
    assert host_name(header) == name
