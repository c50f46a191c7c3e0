"""Messages by HTTP: to a real server, and to those that hang, redirect, lie or break."""

from __future__ import annotations

import dataclasses
import gc
import gzip
import hashlib
import hmac
import http.client
import json
import os
import queue
import ssl
import subprocess
import sys
import time
import zlib
from typing import TYPE_CHECKING

import pytest
from support.http_receiver import DEADLINE_SECONDS, Answer, Request, Server, config, raw, server
from support.smtp import free_port, make_certificate

from iowarden.daemon.config.receivers import ReceiverType, parse_url
from iowarden.daemon.notify.address_lookup import AddressLookup
from iowarden.daemon.notify.attempt import OutboundMail, SendResult
from iowarden.daemon.receivers import message
from iowarden.daemon.receivers.assembly import try_receiver
from iowarden.daemon.receivers.dry_run import test_notice as make_notice
from iowarden.daemon.receivers.http_client import HttpClient, HttpRequest
from iowarden.daemon.receivers.http_sender import http_sender, try_message
from iowarden.daemon.redactor import Redactor

if TYPE_CHECKING:
    import socket
    import threading
    from collections.abc import Callable
    from pathlib import Path

    from iowarden.daemon.config.receivers import ReceiverConfig

WEBHOOK = ReceiverType.WEBHOOK
DATA = message.encoded(message.document(make_notice(1_795_266_034.25), "db1.example.com"))
MESSAGE = OutboundMail("ops:a.1", ("ops",), DATA, attempt=3)


def attempt(
    to: ReceiverConfig,
    sent: OutboundMail = MESSAGE,
    *,
    authorities: str = "",
    seconds: float = 10.0,
) -> SendResult:
    """Make one attempt by a sender's own thread."""
    results: queue.Queue[object] = queue.Queue()
    sender = http_sender(to, results.put, authorities or "/nonexistent", seconds)
    sender.submit(sent)
    result = results.get(timeout=DEADLINE_SECONDS)
    assert sender.close(DEADLINE_SECONDS)
    assert isinstance(result, SendResult)
    return result


def answering(answers: Server, status: int, body: bytes = b"", **headers: str) -> None:
    """Have the server reply this to everything."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answers.answer = lambda _: Answer(status, body, named)


def test_a_webhook_gets_the_message_with_its_id_and_a_signature_that_fits() -> None:
    """The receiver computes the signature from the header's time and the body's bytes."""
    before = time.time()
    with server() as answers:
        result = attempt(config(WEBHOOK, answers.port, "/hook", secret="s3cret", token="t0ken"))
        got = answers.next()
    assert result.delivered == ("ops",)
    assert result.receiver == "ops"
    assert (got.method, got.path, got.body) == ("POST", "/hook", DATA)
    assert got.headers["X-Iowarden-Id"] == json.loads(DATA)["id"]
    assert got.headers["X-Iowarden-Attempt"] == "3"
    assert got.headers["Authorization"] == "Bearer t0ken"
    at, signed = (part.partition("=")[2] for part in got.headers["X-Iowarden-Signature"].split(","))
    assert before - 1 <= int(at) <= time.time() + 1
    expected = hmac.new(b"s3cret", at.encode() + b"." + got.body, hashlib.sha256)
    assert hmac.compare_digest(signed, expected.hexdigest())


@pytest.mark.parametrize(
    ("requested", "seconds"),
    [
        *(("0", 0.0), ("007", 7.0), ("2.5", 2.5), ("3599", 3599.0), ("3601", 3600.0)),
        *(("999999999", 3600.0), ("1000000000", 3600.0), ("4102444800", 3600.0)),
        *(("9" * 400, 3600.0), ("Fri, 31 Dec 9999 23:59:59 GMT", 3600.0)),
        *(("Thu, 01 Jan 1970 00:00:00 GMT", 0.0), ("-5", 0.0), ("soon", 0.0), ("\u0662", 0.0)),
    ],
)
def test_a_requested_pause_is_an_hour_at_most_however_long_its_number(
    requested: str, seconds: float
) -> None:
    """Ten digits are a longer pause than nine, and not none; what is no number is none."""
    with server() as answers:
        date = "Thu, 01 Jan 2026 00:00:00 GMT"
        answering(answers, 429, Retry_After=requested.encode().decode("latin-1"), Date=date)
        result = attempt(config(WEBHOOK, answers.port))
    assert result.retry_after_seconds == seconds


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_server_that_is_busy_or_fails_is_tried_again(status: int) -> None:
    """That is an error of the server; nothing is refused."""
    with server() as answers:
        answering(answers, status, Retry_After="120")
        result = attempt(config(WEBHOOK, answers.port))
    assert str(status) in result.error
    assert result.retry_after_seconds == 120.0
    assert result.delivered == ()
    assert result.fault in {"failed", "paused"}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 413, 422])
def test_a_server_that_refuses_is_reported_with_its_words(status: int) -> None:
    """It is about the message, the log-in, or the address; none of it is final."""
    with server() as answers:
        answering(answers, status, b"no such\r\n\x1b[31mhook")
        result = attempt(config(WEBHOOK, answers.port))
    assert result.fault in {"content", "login", "refused", "gone"}
    assert f"expected 2xx, got '{status} " in result.error
    assert "no such \\x1b[31mhook" in result.error


@pytest.mark.parametrize(
    ("status", "changes", "step"),
    [
        (302, {}, "; redirects are not followed: correct the URL"),
        (401, {}, "; does it need 'token_file'?"),
        (403, {"token": "t0ken", "token_file": "/etc/t"}, "; check /etc/t"),
        (404, {}, "; check the URL"),
        (404, {"url_file": "/etc/u"}, "; check the URL in /etc/u"),
        (413, {}, f"'413 {http.HTTPStatus(413).phrase}'"),  # another one since Python 3.13
    ],
)
@pytest.mark.parametrize("kind", [WEBHOOK, ReceiverType.ALERTMANAGER])
def test_an_error_names_the_next_step(
    kind: ReceiverType, status: int, changes: dict[str, str], step: str
) -> None:
    """The same for a message and for the present state."""
    with server() as answers:
        answering(answers, status)
        to = config(kind, answers.port, **changes)
        (line,) = try_receiver(to, make_notice(0.0), "db1")
        assert line.text.endswith(step)


def test_a_ping_that_is_refused_has_no_token() -> None:
    """Its URL is all that it has."""
    with server() as answers:
        answering(answers, 403)
        (line,) = try_receiver(config(ReceiverType.PING, answers.port), make_notice(0.0), "db1")
        assert line.text.endswith("got '403 Forbidden'; check the URL")


def test_a_server_without_tls_is_called_so() -> None:
    """The library's words for it are about a version."""
    with server() as answers:
        result = attempt(config(WEBHOOK, answers.port, scheme="https"))
        assert result.error.endswith("got a reply without TLS; is it an 'http://' port?")


def test_a_redirect_is_not_followed() -> None:
    """It would send the message, and what logs in, to another server."""
    with server() as other, server() as answers:
        answering(answers, 302, Location=f"http://localhost:{other.port}/")
        result = attempt(config(WEBHOOK, answers.port, token="t0ken"))
        assert result.fault == "refused"
        assert "redirects are not followed" in result.error
        assert other.requests.empty()


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a configured one is."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with server() as answers:
        assert attempt(config(WEBHOOK, answers.port)).delivered


def test_a_configured_proxy_gets_the_whole_url() -> None:
    """For http; the server's name is resolved by the proxy."""
    with server() as proxy:
        to = config(WEBHOOK, 80, "/hook")
        to = http_sender_config(to, url="http://hook.invalid/x", proxy=proxy.port)
        assert attempt(to).delivered
        got = proxy.next()
    assert got.path == "http://hook.invalid/x"
    assert got.headers["Host"] == "hook.invalid"


def http_sender_config(to: ReceiverConfig, url: str, proxy: int) -> ReceiverConfig:
    """Return a receiver behind a proxy."""
    return dataclasses.replace(
        to, urls=(parse_url(url),), proxy=parse_url(f"http://localhost:{proxy}")
    )


def test_a_proxy_that_refuses_the_tunnel_is_an_error_for_now() -> None:
    """CONNECT for https: nothing of the message is sent before TLS."""
    with server() as proxy:
        answering(proxy, 407)
        to = http_sender_config(config(WEBHOOK, 1), "https://hook.invalid/x", proxy.port)
        result = attempt(to)
        got = proxy.next()
    assert (got.method, got.body) == ("CONNECT", b"")
    assert "proxy: expected a connection to the server, got '407" in result.error


def silent(connection: socket.socket, over: threading.Event) -> None:
    """Read and never reply."""
    over.wait(DEADLINE_SECONDS)


def dribbling(connection: socket.socket, over: threading.Event) -> None:
    """Reply one byte after the other, and never come to an end."""
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while not over.wait(0.02):
        connection.sendall(b"x")


def headers_then_silence(connection: socket.socket, over: threading.Event) -> None:
    """Reply 200, and never send the body that was announced."""
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    over.wait(DEADLINE_SECONDS)


def take_request(connection: socket.socket) -> None:
    """Read all of it: a connection with unread bytes is reset when it is closed."""
    with connection.makefile("rb") as stream:
        stream.readline()
        headers = http.client.parse_headers(stream)
        stream.read(int(headers["Content-Length"]))


def closing(connection: socket.socket, over: threading.Event) -> None:
    """Take the request and close."""
    take_request(connection)


def nonsense(connection: socket.socket, over: threading.Event) -> None:
    """Speak another protocol."""
    take_request(connection)
    connection.sendall(b"220 mx1 ESMTP\r\n")


@pytest.mark.parametrize(
    ("talk", "expected"),
    [
        (silent, "response: expected a reply, got no reply before the timeout"),
        (dribbling, "response: expected a reply, got no reply before the timeout"),
        (closing, "response: expected a reply, got a closed connection"),
        (nonsense, "response: expected a reply, got no HTTP reply"),
    ],
)
def test_a_server_without_an_answer_may_have_the_message(
    talk: Callable[[socket.socket, threading.Event], None], expected: str
) -> None:
    """The attempt ends in time, and the message goes again under the same id."""
    with raw(talk) as port:
        result = attempt(config(WEBHOOK, port), seconds=0.3)
    assert expected in result.error
    assert result.maybe_taken


def test_a_server_that_never_answers_the_handshake_has_nothing() -> None:
    """The message is not sent before the connection is encrypted."""
    with raw(silent) as port:
        result = attempt(config(WEBHOOK, port, scheme="https"), seconds=0.3)
    assert "TLS: expected a certificate for 'localhost'" in result.error
    assert "got no reply before the timeout" in result.error
    assert not result.maybe_taken


def test_a_reply_whose_body_never_comes_is_a_reply() -> None:
    """The status says that the message was accepted."""
    with raw(headers_then_silence) as port:
        assert attempt(config(WEBHOOK, port), seconds=0.3).delivered == ("ops",)


def test_a_server_that_refuses_a_large_body_before_reading_it_is_heard() -> None:
    """413 arrives while the message is being sent."""

    def refuse(connection: socket.socket, over: threading.Event) -> None:
        connection.recv(1)
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        over.wait(DEADLINE_SECONDS)

    with raw(refuse) as port:
        sent = OutboundMail("ops:a.1", ("ops",), DATA)
        assert "413" in attempt(config(WEBHOOK, port), sent, seconds=2.0).error


def test_nobody_listening_is_reported_and_surely_not_taken() -> None:
    """The error names receiver, server and step."""
    port = free_port()
    result = attempt(config(WEBHOOK, port))
    assert result.error.startswith(f"receiver 'ops': http://localhost:{port}: connect: expected a")
    assert not result.maybe_taken


def test_tls_is_verified_against_the_authorities_read_at_start(tmp_path: Path) -> None:
    """A certificate of an unknown authority gets nothing."""
    certificate = make_certificate(tmp_path)
    with server(certificate) as answers:
        to = config(WEBHOOK, answers.port, scheme="https", token="t0ken")
        assert attempt(to, authorities=certificate.path).delivered == ("ops",)
        answers.next()
        result = attempt(to, authorities="/etc/ssl/certs/ca-certificates.crt")
        assert "TLS: expected a certificate for 'localhost'" in result.error
        assert "; for an authority of your own: update-ca-certificates(8)" in result.error
        assert not result.maybe_taken
        assert answers.requests.empty()


def test_an_expired_certificate_gets_nothing(tmp_path: Path) -> None:
    """It names what is wrong with it. One that ends as it begins is expired at once."""
    certificate = make_certificate(tmp_path)
    subprocess.run(
        [
            *("openssl", "x509", "-in", certificate.path, "-signkey", certificate.key_path),
            *("-days", "0", "-out", certificate.path + ".old", "-copy_extensions", "copyall"),
        ],
        check=True,
        capture_output=True,
    )
    os.rename(certificate.path + ".old", certificate.path)
    with server(certificate) as answers:
        to = config(WEBHOOK, answers.port, scheme="https")
        said = attempt(to, authorities=certificate.path).error
        assert "'certificate has expired'; if that is wrong, check this host's clock" in said
        assert answers.requests.empty()


def test_a_secret_that_the_server_repeats_is_in_no_text() -> None:
    """Neither those of files nor the path of a URL that is secret, nor a part of it."""
    with server() as answers:
        path = "/services/T0123456/B0123456/abcdefghijklmnop"
        to = config(
            WEBHOOK, answers.port, path, url_file="/x", secret="s3cret-s3cret", token="t0ken-t0ken"
        )

        def echo(request: Request) -> Answer:
            return Answer(
                404, f"{request.path} {request.headers} s3cret-s3cret abcdefghijklmnop".encode()
            )

        answers.answer = echo
        said = repr(attempt(to))
    assert "<secret>" in said
    for secret in ("s3cret-s3cret", "t0ken-t0ken", "abcdefghijklmnop", "B0123456"):
        assert secret not in said


@pytest.mark.parametrize(
    ("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("br", bytes)]
)
def test_a_compressed_body_is_not_shown(encoding: str, compress: Callable[[bytes], bytes]) -> None:
    """Nobody can read it, and whoever decompresses it reads what the server repeats."""
    with server() as answers:
        answering(answers, 404, compress(b"t0ken-t0ken"), Content_Encoding=encoding)
        said = attempt(config(WEBHOOK, answers.port, token="t0ken-t0ken")).error
    assert "expected 2xx, got '404 Not Found (a compressed body)'" in said


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (ReceiverType.SLACK, b"invalid_payload"),
        (ReceiverType.SLACK, b'{"ok": false, "error": "channel_not_found"}'),
        (ReceiverType.SLACK, b"<html>Please log in</html>"),
        (ReceiverType.NTFY, b"<html>Please log in</html>"),
        (ReceiverType.NTFY, b""),
    ],
)
def test_an_error_with_status_200_is_an_error(kind: ReceiverType, body: bytes) -> None:
    """A captive portal, or a service that means it that way: retried, not lost."""
    with server() as answers:
        answering(answers, 200, body)
        result = attempt(config(kind, answers.port, "/topic"))
    assert result.error
    assert not result.delivered


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (ReceiverType.SLACK, b"ok"),
        (ReceiverType.SLACK, b'{"success":true}'),
        (ReceiverType.NTFY, b'{"id":"x1","time":1}'),
        (WEBHOOK, b"<html>thanks</html>"),
    ],
)
def test_what_each_service_answers_is_delivered(kind: ReceiverType, body: bytes) -> None:
    """Slack's own words, those of its like, and anything of a webhook."""
    with server() as answers:
        answering(answers, 200, body)
        assert attempt(config(kind, answers.port, "/topic")).delivered == ("ops",)


def test_a_bug_costs_an_attempt_and_not_the_sender() -> None:
    """A message that cannot be read: without a result none would be sent again."""
    with server() as answers:
        result = attempt(config(WEBHOOK, answers.port), OutboundMail("ops:x", ("ops",), b"{"))
    assert "bug" in result.error


def test_the_test_message_reports_the_answer() -> None:
    """As 'iowarden test-notify' prints it."""
    with server() as answers:
        (line,) = try_message(config(WEBHOOK, answers.port), DATA)
        assert line.good
        answering(answers, 404)
        (line,) = try_message(config(WEBHOOK, answers.port), DATA)
        assert not line.good


def test_after_the_start_nothing_is_read_from_a_disk(tmp_path: Path) -> None:
    """Not even for the first message and its TLS: the root disk may hang by then."""
    program = """
import queue, sys, threading
sys.path[:0] = sys.argv[3:]
from iowarden.daemon.receivers.dry_run import dry_run, test_notice
from iowarden.daemon.config.receivers import ReceiverConfig, ReceiverType, parse_url
from iowarden.daemon.notify.attempt import OutboundMail
from iowarden.daemon.receivers import message
from iowarden.daemon.receivers.http_sender import http_sender, try_message
from iowarden.daemon.redactor import Redactor
port, authorities = sys.argv[1:3]
results = queue.SimpleQueue()
url = parse_url(f"https://localhost:{port}/x")
config = ReceiverConfig("ops", ReceiverType.WEBHOOK, urls=(url,), secret="s", token="t")
data = message.encoded(message.document(test_notice(1e9), "db1"))
dry_run("db1", "a@x", ("b@x",), 1e9)
sender = http_sender(config, results.put, authorities)
for thread in threading.enumerate():
    if thread.name == "name look-up":
        thread.join()
def hook(event, arguments):
    if event in ("open", "import", "os.listdir", "os.scandir"):
        print(event, arguments, file=sys.stderr)
sys.addaudithook(hook)
sender.submit(OutboundMail("ops:a.1", ("ops",), data))
print(results.get().delivered)
"""
    certificate = make_certificate(tmp_path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with server(certificate) as answers:
        run = subprocess.run(
            [sys.executable, "-c", program, str(answers.port), certificate.path],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_SECONDS,
        )
    assert (run.stdout, run.stderr) == ("('ops',)\n", "")


def test_an_attempt_whose_time_is_over_before_it_connects_leaves_no_socket_open() -> None:
    """Each would be a file descriptor less: at 1,024 the service could open nothing."""
    names = AddressLookup("127.0.0.1", free_port())
    url, tls = parse_url("http://127.0.0.1/x"), ssl.create_default_context()
    request = HttpRequest("POST")
    for microseconds in range(1, 300):
        client = HttpClient(url, names, tls, Redactor(), attempt_seconds=microseconds / 1e6)
        assert client.send(request).error
    gc.collect()  # a socket that is still open then is a warning, and that is an error here
