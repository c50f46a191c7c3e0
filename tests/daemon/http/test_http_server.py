"""The HTTP server over real sockets: correct responses, and no client can delay a scrape."""

import contextlib
import gzip
import logging
import os
import re
import selectors
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.schema import Address, HttpConfig
from iowarden.daemon.http import http_server
from iowarden.daemon.http.exposition import Exposition

DEADLINE_SECONDS = 20.0
"""Far above all measured times: it only ends a test that would hang."""
SETTINGS = parse_config("", "none").http
LOCAL = ("127.0.0.1", 0)
METRICS = b"# TYPE x gauge\n" + b"".join(b'x{n="%d"} 1\n' % number for number in range(20000))

Start = Callable[..., http_server.HttpServer]


def app(
    *,
    render: Callable[[], bytes] = lambda: METRICS,
    healthy: Callable[[], str] = str,
    ready: Callable[[], str] = str,
    landing: Callable[[], str] = lambda: "No alert fires.",
    scrapable: Callable[[], str] = str,
) -> http_server.App:
    """Build an application that responds well unless a test says otherwise."""
    return http_server.App("1.2.3", render, healthy, ready, landing, scrapable)


@pytest.fixture
def errors() -> list[str]:
    """The errors that the servers of a test report."""
    return []


@pytest.fixture
def start(errors: list[str]) -> Iterator[Start]:
    """Return a function that starts servers; they are closed at the end."""
    with ExitStack() as stack:

        def started(
            application: http_server.App | None = None,
            settings: HttpConfig = SETTINGS,
            addresses: tuple[Address, ...] = (LOCAL,),
        ) -> http_server.HttpServer:
            server = http_server.HttpServer(
                addresses, application or app(), settings, errors.append
            )
            stack.callback(server.close)
            assert server.start() == ""
            return server

        yield started


def connect(server: http_server.HttpServer, position: int = 0) -> socket.socket:
    """Open a connection."""
    return socket.create_connection(server.bound[position], DEADLINE_SECONDS)


def receive(client: socket.socket) -> tuple[str, dict[str, str], bytes]:
    """Read to the end: status, headers with lower-case names, body."""
    content = b"".join(iter(lambda: client.recv(1 << 16), b""))
    head, _, body = content.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return status.partition(" ")[2], headers, body


def ask(
    server: http_server.HttpServer,
    path: str = "/metrics",
    method: str = "GET",
    more: str = "",
    body: bytes = b"",
) -> tuple[str, dict[str, str], bytes]:
    """Send one request and read the response."""
    with connect(server) as client:
        client.sendall(f"{method} {path} HTTP/1.1\r\nHost: a\r\n{more}\r\n".encode() + body)
        return receive(client)


def is_closed(client: socket.socket) -> bool:
    """Wait until the server has closed a connection; False if it does not."""
    client.settimeout(DEADLINE_SECONDS)
    try:
        while client.recv(1 << 16):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


# --- Answers.


def test_a_scrape_gets_the_text_format_and_its_length(start: Start) -> None:
    """As for Prometheus and curl."""
    status, headers, body = ask(start())
    assert status == "200 OK"
    assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert headers["content-length"] == str(len(METRICS))
    assert headers["server"] == "iowarden"
    assert body == METRICS


def test_who_asks_for_another_format_gets_text_all_the_same(start: Start) -> None:
    """Prometheus 3 prefers OpenMetrics and accepts text."""
    accept = "Accept: application/openmetrics-text;version=1.0.0,application/json;q=0.5\r\n"
    status, headers, body = ask(start(), more=accept)
    assert (status, body) == ("200 OK", METRICS)
    assert headers["content-type"].startswith("text/plain; version=0.0.4")


def test_a_real_exposition_comes_through(start: Start) -> None:
    """Application and exposition together, as in the daemon."""
    told: list[str] = []
    _, _, body = ask(start(app(render=Exposition(told.append).render)))
    families = list(text_string_to_metric_families(body.decode()))
    assert [family.name for family in families] == ["iowarden_render_failures"]
    assert told == []


@pytest.mark.parametrize(
    ("accepted", "is_compressed"),
    [
        ("gzip", True),
        ("deflate, gzip;q=0.5", True),
        ("GZIP ; Q=1", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000, br", False),
        ("identity", False),
        ("notgzip", False),
    ],
)
def test_metrics_are_compressed_for_who_accepts_it(
    start: Start, accepted: str, is_compressed: bool
) -> None:
    """RFC 9110, 12.5.3: a weight of 0 means 'not acceptable'."""
    _, headers, body = ask(start(), more=f"Accept-Encoding: {accepted}\r\n")
    assert (headers.get("content-encoding") == "gzip") is is_compressed
    assert headers["vary"] == "accept-encoding"
    assert (gzip.decompress(body) if is_compressed else body) == METRICS


def test_a_short_text_is_not_compressed_and_a_new_one_never_from_the_cache(start: Start) -> None:
    """Three scrapes: short, long, and another long one of the same length."""
    texts = iter([b"x 1\n", b"x 1\n" * 1000, b"x 2\n" * 1000])
    server = start(app(render=lambda: next(texts)))
    more = "Accept-Encoding: gzip\r\n"
    assert ask(server, more=more)[2] == b"x 1\n"
    assert gzip.decompress(ask(server, more=more)[2]) == b"x 1\n" * 1000
    assert gzip.decompress(ask(server, more=more)[2]) == b"x 2\n" * 1000


def test_head_gets_the_headers_of_get_without_the_body(start: Start) -> None:
    """RFC 9110, 9.3.2."""
    server = start()
    _, get, _ = ask(server)
    status, head, body = ask(server, method="HEAD")
    assert (status, body) == ("200 OK", b"")
    assert head["content-length"] == get["content-length"]


@pytest.mark.parametrize("path", ["/-/healthy", "/-/ready"])
def test_health_is_a_status_and_a_sentence(start: Start, path: str) -> None:
    """A load balancer reads the status, an administrator the sentence."""
    sentences = iter(["", "The loop last turned 31 s ago.", ""])
    server = start(app(healthy=lambda: next(sentences), ready=lambda: next(sentences)))
    assert ask(server, path)[0] == "200 OK"
    status, headers, body = ask(server, path)
    assert status == "503 Service Unavailable"
    assert headers["content-type"].startswith("text/plain")
    assert body == b"The loop last turned 31 s ago.\n"
    assert ask(server, path)[0] == "200 OK"


def test_metrics_that_are_incomplete_are_not_scraped(start: Start) -> None:
    """Prometheus then has up == 0, not a host without alerts."""
    sentences = iter(["The alerts are not loaded yet.", ""])
    server = start(app(scrapable=lambda: next(sentences)))
    status, headers, body = ask(server, "/metrics")
    assert status == "503 Service Unavailable"
    assert headers["content-type"].startswith("text/plain")
    assert body == b"The alerts are not loaded yet.\n"
    assert ask(server, "/metrics")[::2] == ("200 OK", METRICS)


def test_the_front_page_reports_version_alerts_and_where_to_go(start: Start) -> None:
    """HTML in a sentence, for example from a device name, is shown as text."""
    _, headers, body = ask(start(app(landing=lambda: "1 fires: <b>&sda")), "/")
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert b"iowarden 1.2.3" in body
    assert b"1 fires: &lt;b&gt;&amp;sda" in body
    assert re.findall(rb'href="([^"]+)"', body) == [b"/metrics", b"/-/healthy", b"/-/ready"]


@pytest.mark.parametrize(
    ("path", "method", "more", "body", "expected"),
    [
        ("/<script>alert(1)</script>", "GET", "", b"", "404 Not Found"),
        ("/metrics/", "GET", "", b"", "404 Not Found"),
        ("/%2e%2e/metrics", "GET", "", b"", "404 Not Found"),
        ("/metrics", "POST", "Content-Length: 8\r\n", b"<script>", "405 Method Not Allowed"),
        ("/metrics", "DELETE", "", b"", "405 Method Not Allowed"),
        ("/metrics", "<script>", "", b"", "400 Bad Request"),
        ("/metrics", "GET", "X: <script>\n\r\n", b"", "400 Bad Request"),
        ("/metrics", "GET", "X: a\r\n <script>\r\nY\r\n", b"", "400 Bad Request"),
        ("/metrics", "POST", "Content-Length: <script>\r\n", b"", "400 Bad Request"),
        ("/metrics", "POST", "Content-Length: 99999\r\n", b"", "413 Request Entity Too Large"),
    ],
)
def test_a_wrong_request_gets_a_sentence_and_never_its_own_words(
    start: Start, path: str, method: str, more: str, body: bytes, expected: str
) -> None:
    """No script in a link is shown to a browser; no error of ours is reported."""
    status, headers, answer = ask(start(), path, method, more, body)
    assert status == expected
    assert headers["content-type"] == "text/plain; charset=utf-8"
    assert b"script" not in answer
    assert answer.strip()
    assert ("allow" in headers) is status.startswith("405")


def test_headers_without_end_are_refused(start: Start, errors: list[str]) -> None:
    """Headers above the limit are not stored in memory."""
    with connect(start()) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"a" * http_server.HEADER_LIMIT_BYTES)
        assert client.recv(100).startswith(b"HTTP/1.0 431 ")
    assert errors == []


def test_a_bug_in_an_answer_is_reported_with_its_traceback_and_the_next_scrape_works(
    start: Start, errors: list[str]
) -> None:
    """waitress's log is passed to our callback, and so to the journal."""
    answers: Iterator[bytes] = iter([b"", b"x 1\n"])

    def render() -> bytes:
        if text := next(answers):
            return text
        raise RuntimeError("no text")

    server = start(app(render=render))
    assert ask(server)[0] == "500 Internal Server Error"
    assert ask(server)[2] == b"x 1\n"
    assert len(errors) == 1
    assert errors[0].startswith("http: Exception while serving /metrics")
    assert "RuntimeError: no text" in errors[0]


# --- Clients that misbehave.


def test_no_idle_slow_or_never_reading_client_keeps_a_scrape_waiting(
    start: Start, errors: list[str]
) -> None:
    """200 silent, 20 slow, 20 half-closed and 20 never-reading clients, two workers."""
    server = start()
    with ExitStack() as stack:

        def clients(count: int) -> list[socket.socket]:
            return [stack.enter_context(connect(server)) for _ in range(count)]

        clients(200)
        slow = clients(20)
        for client in clients(20):
            client.sendall(b"GET /metr")
            client.shutdown(socket.SHUT_WR)
        for client in clients(20):
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n" * 50)
        for byte in b"GET /metrics HTTP/1.1\r\n\r":
            for client in slow:
                client.sendall(bytes([byte]))
            assert ask(server)[2] == METRICS
        for client in slow:  # slow, but still correct
            client.sendall(b"\n")
            assert receive(client)[2] == METRICS
    assert errors == []


def test_a_large_answer_needs_no_file(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may hang with the monitored disk; waitress would use one above 1 MB."""
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    text = METRICS * 100
    assert ask(start(app(render=lambda: text)))[2] == text


def test_the_polling_thread_sleeps_while_a_worker_sends(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would poll in a loop, and take the interpreter from the worker a hundred times."""
    polled: list[bool] = []
    send = http_server._Channel.send

    def observed(channel: http_server._Channel, data: bytes, do_close: bool = True) -> int:
        if threading.current_thread().name != "http":
            polled.append(bool(channel.writable()))
        return int(send(channel, data, do_close))

    monkeypatch.setattr(http_server._Channel, "send", observed)
    text = METRICS * 10  # more than the socket takes at once
    assert ask(start(app(render=lambda: text)))[2] == text
    assert set(polled) == {False}


def test_clients_that_only_wait_cost_a_scrape_nothing(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """waitress would query each of them twice whenever anything happens to another one."""
    queried: list[http_server._Channel] = []
    readable = http_server._Channel.readable

    def observed(channel: http_server._Channel) -> bool:
        queried.append(channel)
        return bool(readable(channel))

    monkeypatch.setattr(http_server._Channel, "readable", observed)
    server = start()
    with contextlib.ExitStack() as clients:
        waiting = [clients.enter_context(connect(server)) for _ in range(20)]
        assert ask(server)[2] == METRICS
        queried.clear()
        assert ask(server)[2] == METRICS
        assert len(set(queried)) == 1
        # One that has waited is served as well.
        waiting[7].sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert receive(waiting[7])[2] == METRICS


def test_a_client_that_shuts_down_its_sending_side_gets_its_answer(start: Start) -> None:
    """As 'nc -N' does."""
    with connect(start()) as client:
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        assert receive(client)[2] == METRICS


def test_many_requests_at_once_get_one_answer_and_the_end(start: Start) -> None:
    """Otherwise a client could queue responses that it never reads, and fill the memory."""
    with connect(start()) as client:
        client.sendall(b"GET /-/ready HTTP/1.1\r\n\r\n" * 20)
        assert client.recv(1 << 16).count(b"HTTP/1.1 200 OK") == 1
        assert is_closed(client)


def test_every_kind_of_idler_is_closed_after_the_time_out(start: Start, errors: list[str]) -> None:
    """Silent, slow with single bytes, and one that never reads its response."""
    server = start(
        app(render=lambda: METRICS * 20), replace(SETTINGS, connection_timeout_seconds=1.0)
    )
    with connect(server) as silent, connect(server) as slow, connect(server) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        with selectors.DefaultSelector() as selector:
            selector.register(slow, selectors.EVENT_READ)
            for _ in range(int(DEADLINE_SECONDS / 0.2)):
                slow.sendall(b"a")
                if selector.select(0.2):  # readable: closed
                    break
        assert is_closed(slow)
        assert is_closed(silent)
        wait_for_connections(server, 0)  # the client that never reads does not notice
    assert errors == []


def wait_for_connections(server: http_server.HttpServer, count: int) -> None:
    """Wait until the server has this many open connections, by the kernel's count."""
    port = f":{server.bound[0][1]:04X}"
    with selectors.DefaultSelector() as selector:
        for _ in range(int(DEADLINE_SECONDS / 0.05)):
            with open("/proc/net/tcp", encoding="ascii") as table:
                lines = [line.split() for line in table]
            # column 1 is the local address, 3 the state (01 established, 08 close wait)
            ours = [line for line in lines if line[1].endswith(port) and line[3] in {"01", "08"}]
            if len(ours) == count:
                return
            selector.select(0.05)
    pytest.fail(f"expected {count} connections, got {len(ours)}")


def test_at_the_limit_the_oldest_leaves_and_a_new_scrape_gets_in(
    start: Start, errors: list[str]
) -> None:
    """A client that opens connections endlessly loses its own, not the scrape."""
    server = start(settings=replace(SETTINGS, connection_limit=10))
    with ExitStack() as stack:
        idlers = [stack.enter_context(connect(server)) for _ in range(25)]
        assert ask(server)[2] == METRICS
        assert all(is_closed(client) for client in idlers[:15])
        for client in idlers[16:]:  # with the scrape, as many as are allowed
            client.sendall(b"GET /-/ready HTTP/1.1\r\n\r\n")
            assert receive(client)[0] == "200 OK"
    assert errors == []


def test_who_opens_connections_endlessly_takes_the_place_of_no_other_host(
    start: Start, errors: list[str]
) -> None:
    """A first login waits seconds for its turn, while a thousand idle connections come."""
    server = start(settings=replace(SETTINGS, connection_limit=10))
    with ExitStack() as stack:
        address = server.bound[0]
        other = socket.create_connection(address, DEADLINE_SECONDS, ("127.0.0.2", 0))
        stack.enter_context(other)
        other.sendall(b"GET /-/ready HTTP/1.1\r\n")
        for _ in range(40):
            stack.enter_context(connect(server))
        assert ask(server)[2] == METRICS
        other.sendall(b"\r\n")
        assert receive(other)[0] == "200 OK"
    assert errors == []


def test_descriptors_above_1023_are_served(start: Start) -> None:
    """24 disks with 40 open files each are more than select() supports."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1200:
        pytest.skip(f"only {hard} descriptors are allowed here")
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1024):
            stack.enter_context(open("/dev/null", "rb"))
        assert ask(start())[2] == METRICS


# --- Start and end.


def test_an_address_in_use_is_reported_and_taken_as_soon_as_it_is_free(errors: list[str]) -> None:
    """Another exporter has the port: the other address works, and start can be called again."""
    with socket.create_server(LOCAL) as other:
        taken = other.getsockname()
        server = http_server.HttpServer((LOCAL, taken), app(), SETTINGS, errors.append)
        try:
            for _ in range(2):
                error = server.start()
                assert error == (
                    f"http: '127.0.0.1:{taken[1]}': expected a free address, got 'Address already"
                    f" in use'; find the program that uses it: ss -ltnp 'sport = :{taken[1]}'"
                )
                assert len(server.bound) == 1
                assert ask(server)[2] == METRICS
            other.close()
            assert server.start() == ""
            assert server.bound[1] == taken
            with connect(server, 1) as client:
                client.sendall(b"GET /-/ready HTTP/1.1\r\n\r\n")
                assert receive(client)[0] == "200 OK"
        finally:
            server.close()


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1"])
def test_an_address_of_another_machine_is_reported(errors: list[str], host: str) -> None:
    """A configuration copied from another host; the addresses are reserved for documentation."""
    server = http_server.HttpServer(((host, 9748),), app(), SETTINGS, errors.append)
    error = server.start()
    assert "expected an address of this machine" in error
    assert (f"'[{host}]:9748'" if ":" in host else f"'{host}:9748'") in error
    server.close()


def test_all_addresses_of_both_families_can_have_the_same_port(errors: list[str]) -> None:
    """'[::]' must not also occupy '0.0.0.0'."""
    with socket.create_server(LOCAL) as probe:
        port = probe.getsockname()[1]
    server = http_server.HttpServer(
        (("0.0.0.0", port), ("::", port)), app(), SETTINGS, errors.append
    )
    try:
        if "expected an address of this machine" in (error := server.start()):
            pytest.skip("this machine has no IPv6")
        assert error == ""
        for host in ("127.0.0.1", "::1"):
            with socket.create_connection((host, port), DEADLINE_SECONDS) as client:
                client.sendall(b"GET /-/ready HTTP/1.1\r\n\r\n")
                assert receive(client)[0] == "200 OK"
    finally:
        server.close()


def test_close_ends_threads_connections_and_log_and_start_works_again(start: Start) -> None:
    """A reload changes the address: nothing of the old server may remain."""
    before, handlers = set(threading.enumerate()), list(logging.getLogger("waitress").handlers)
    server = start()
    old = server.bound[0]
    with connect(server) as idle:
        ask(server)
        pages = certificate = 1
        expected = SETTINGS.threads + 1 + pages + certificate
        assert len(set(threading.enumerate()) - before) == expected
        assert all(thread.daemon for thread in set(threading.enumerate()) - before)
        server.close()
        assert is_closed(idle)
    for thread in set(threading.enumerate()) - before:
        thread.join(DEADLINE_SECONDS)
    assert set(threading.enumerate()) <= before  # one of an earlier test may end meanwhile
    assert logging.getLogger("waitress").handlers == handlers
    assert logging.getLogger("waitress").propagate
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(old, DEADLINE_SECONDS)
    server.close()
    assert server.start() == ""
    assert ask(server)[2] == METRICS


def test_a_late_wake_up_does_not_write_into_another_file() -> None:
    """State files soon get the descriptor numbers of a closed server."""
    wake = http_server._Wake({})
    wake.close()
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(20)]
        wake.pull_trigger()
        assert [os.fstat(file.fileno()).st_size for file in files] == [0] * 20


def test_a_worker_that_is_still_busy_at_the_end_does_no_harm(
    start: Start, errors: list[str]
) -> None:
    """The daemon ends while a response is still being rendered."""
    entered, release = threading.Event(), threading.Event()

    def render() -> bytes:
        entered.set()
        assert release.wait(DEADLINE_SECONDS)
        return METRICS

    before = set(threading.enumerate())
    server = start(app(render=render))
    with connect(server) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert entered.wait(DEADLINE_SECONDS)
        server.close()
        assert is_closed(client)
    release.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(DEADLINE_SECONDS)
    assert set(threading.enumerate()) <= before
    assert errors == ["http: 1 thread(s) still running"]


def test_nothing_is_written_to_standard_error(
    start: Start,
    capfd: pytest.CaptureFixture[str],
    errors: list[str],
    request: pytest.FixtureRequest,
) -> None:
    """Disconnecting clients are normal, and waitress's log goes to our callback only."""
    root = logging.StreamHandler()  # to standard error, as a daemon may have one
    logging.getLogger().addHandler(root)
    request.addfinalizer(lambda: logging.getLogger().removeHandler(root))
    server = start()
    for _ in range(20):
        with connect(server) as client:
            # a reset instead of an end
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    ask(server)
    logging.getLogger("waitress").warning("a warning")
    logging.getLogger("waitress").warning("a warning")
    logging.getLogger("waitress.queue").warning("Task queue depth is 3")
    assert errors == ["http: a warning"]
    assert capfd.readouterr().err == ""
