"""TLS and users of the HTTP server: real certificates, real clients, and those that misbehave."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
from base64 import b64encode
from contextlib import ExitStack
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.smtp import free_port

from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.schema import ConfigError
from iowarden.daemon.http import http_server, password, web_config
from iowarden.daemon.http.password import Authenticator, Verdict
from iowarden.daemon.http.web_config import WebConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEADLINE_SECONDS = 20.0
SETTINGS = parse_config("", "none").http
METRICS = b"# TYPE x gauge\n" + b"".join(b'x{n="%d"} 1\n' % number for number in range(20000))
HASH = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"
"""bcrypt of 'secret', cost 4."""
OTHER_HASH = "$2b$04$zyxwvutsrqponmlkjihgfuXJrDMy5HRXi6keb/lueyqImTcQZ.boC"
"""The same of another salt."""
USERS = f"basic_auth_users: {{scraper: '{HASH}'}}\n"
TLS = "tls_server_config: {cert_file: server.crt, key_file: server.key}\n"


def openssl(directory: Path, *arguments: str) -> None:
    """Run openssl in a directory."""
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an authority, and certificates that it issued for a server and a client."""
    directory = tmp_path_factory.mktemp("authority")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-x509")
    for name in ("ca", "stranger"):
        files = ("-keyout", f"{name}.key", "-out", f"{name}.crt")
        usage = ("-addext", "keyUsage=critical,keyCertSign")  # Python 3.13 wants it
        openssl(directory, "req", *key, *files, *usage, "-subj", f"/CN={name}", "-days", "30")
    for name, days in (("server", "20"), ("renewed", "40"), ("client", "20")):
        more = ("-CA", "ca.crt", "-CAkey", "ca.key", "-addext", "subjectAltName=IP:127.0.0.1")
        more += ("-addext", "basicConstraints=critical,CA:FALSE")
        files = ("-keyout", f"{name}.key", "-out", f"{name}.crt")
        openssl(directory, "req", *key, *more, *files, "-subj", f"/CN={name}", "-days", days)
    for file in directory.glob("*.key"):
        file.chmod(0o640)
    return directory


@pytest.fixture
def written(authority: Path, tmp_path: Path) -> Callable[[str], str]:
    """Return a function that writes a web configuration beside copies of the certificates."""
    for file in authority.iterdir():
        copy = tmp_path / file.name
        copy.write_bytes(file.read_bytes())
        copy.chmod(0o640)

    def write(text: str) -> str:
        path = tmp_path / "web.yml"
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture
def start(written: Callable[[str], str]) -> Iterator[Callable[..., http_server.HttpServer]]:
    """Return a function that starts a server with a web configuration."""
    with ExitStack() as stack:

        def started(text: str, **changed: object) -> http_server.HttpServer:
            errors: list[str] = []
            server = http_server.HttpServer(
                (("127.0.0.1", 0),),
                http_server.App("1", lambda: METRICS, str, str, str),
                replace(SETTINGS, **changed),  # type: ignore[arg-type]
                errors.append,
                web_config.load(written(text)),
            )
            stack.callback(lambda: errors and pytest.fail(str(errors)))
            stack.callback(server.close)
            assert server.start() == ""
            return server

        yield started


def client_context(authority: Path, **certificate: str) -> ssl.SSLContext:
    """Return the context of a client that verifies the server."""
    context = ssl.create_default_context(cafile=str(authority / "ca.crt"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT  # the default since Python 3.13
    if name := certificate.get("name"):
        context.load_cert_chain(authority / f"{name}.crt", authority / f"{name}.key")
    return context


def scrape(
    server: http_server.HttpServer, context: ssl.SSLContext | None, user: str = ""
) -> tuple[int, bytes]:
    """Return status and body of '/metrics', as an ordinary client gets them."""
    host, port = server.bound[0]
    connection = (
        http.client.HTTPConnection(host, port, timeout=DEADLINE_SECONDS)
        if context is None
        else http.client.HTTPSConnection(host, port, timeout=DEADLINE_SECONDS, context=context)
    )
    headers = {"Authorization": "Basic " + b64encode(user.encode()).decode()} if user else {}
    with contextlib.closing(connection):
        connection.request("GET", "/metrics", headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


# --- TLS


def test_a_scrape_by_tls_gets_all_metrics(
    start: Callable[..., http_server.HttpServer], authority: Path
) -> None:
    """The certificate is verified, and the answer is larger than many records of TLS."""
    server = start(TLS)
    assert scrape(server, client_context(authority)) == (200, METRICS)


def test_a_request_in_one_record_of_tls_is_read_to_its_end(
    start: Callable[..., http_server.HttpServer], authority: Path
) -> None:
    """OpenSSL holds the rest of a large header, and the socket is not readable for it."""
    host, port = start(TLS, connection_timeout_seconds=DEADLINE_SECONDS).bound[0]
    with socket.create_connection((host, port), timeout=DEADLINE_SECONDS / 2) as plain:
        client = client_context(authority).wrap_socket(plain, server_hostname="127.0.0.1")
        client.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 12_000 + b"\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
        client.close()


@pytest.mark.parametrize(
    ("kind", "name", "accepted"),
    [
        ("RequireAndVerifyClientCert", "client", True),
        ("RequireAndVerifyClientCert", "", False),
        ("RequireAndVerifyClientCert", "stranger", False),
        ("VerifyClientCertIfGiven", "", True),
        ("VerifyClientCertIfGiven", "stranger", False),
    ],
)
def test_certificates_of_clients_are_verified(
    start: Callable[..., http_server.HttpServer],
    authority: Path,
    kind: str,
    name: str,
    accepted: bool,
) -> None:
    """Prometheus has a certificate of the same authority; others are turned away."""
    server = start(TLS.replace("}", f", client_auth_type: {kind}, client_ca_file: ca.crt}}"))
    context = client_context(authority, **({"name": name} if name else {}))
    if accepted:
        assert scrape(server, context)[0] == 200
    else:
        with pytest.raises(OSError, match=r"(?i)alert|reset|EOF|closed"):
            scrape(server, context)


def test_an_older_version_of_tls_is_refused(
    start: Callable[..., http_server.HttpServer], authority: Path
) -> None:
    """A client that has no TLS 1.3 yet, at a server that requires it."""
    server = start(TLS.replace("}", ", min_version: TLS13}"))
    old = client_context(authority)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(OSError, match=r"(?i)alert|reset|EOF|closed"):
        scrape(server, old)
    assert scrape(server, client_context(authority))[0] == 200


def test_silent_slow_plain_and_vanishing_clients_keep_no_scrape_waiting(
    start: Callable[..., http_server.HttpServer], authority: Path
) -> None:
    """200 that never begin, 20 in the middle of the handshake, 20 after it, 20 without TLS."""
    server = start(TLS)
    context = client_context(authority)
    with ExitStack() as stack:

        def connect() -> socket.socket:
            return stack.enter_context(
                socket.create_connection(server.bound[0], timeout=DEADLINE_SECONDS)
            )

        def hello() -> bytes:
            outgoing = ssl.MemoryBIO()
            begun = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
            with pytest.raises(ssl.SSLWantReadError):
                begun.do_handshake()
            return outgoing.read()

        for _ in range(200):
            connect()
        slow = [connect() for _ in range(20)]
        text = hello()
        for client in slow:
            client.sendall(text[: len(text) // 2])
        for _ in range(20):
            wrapped = context.wrap_socket(connect(), server_hostname="127.0.0.1")
            stack.enter_context(wrapped)
            wrapped.sendall(b"GET /metr")
        for _ in range(20):
            connect().sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        for _ in range(20):
            gone = connect()
            gone.sendall(text)
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            gone.close()
        assert scrape(server, context) == (200, METRICS)
        for client in slow:
            client.sendall(text[len(text) // 2 :])
            assert client.recv(1) == b"\x16"  # the server's part of the handshake
        assert scrape(server, context) == (200, METRICS)


def test_a_client_without_tls_is_told_to_use_it(
    start: Callable[..., http_server.HttpServer], authority: Path
) -> None:
    """A forgotten 'scheme: https' is the usual mistake; a reset connection would not name it."""
    server = start(TLS)
    assert server.scheme == "https"  # as 'iowarden run' shows it
    status, body = scrape(server, None)
    assert status == 400
    assert body.startswith(b"Expected HTTPS at this port, got HTTP without TLS")
    assert scrape(server, client_context(authority))[0] == 200


def test_a_client_that_renegotiates_is_refused_and_others_are_served(
    start: Callable[..., http_server.HttpServer], authority: Path
) -> None:
    """Each renegotiation would cost the server's thread a signature; openssl requests one."""
    server = start(TLS)
    host, port = server.bound[0]
    done = subprocess.run(
        ["openssl", "s_client", "-tls1_2", "-legacy_renegotiation", "-connect", f"{host}:{port}"],
        input=b"R\n",
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert b"RENEGOTIATING" in done.stdout + done.stderr
    assert b"no renegotiation" in done.stdout + done.stderr
    assert scrape(server, client_context(authority))[0] == 200


def test_a_handshake_that_does_not_end_is_closed_after_the_timeout(
    start: Callable[..., http_server.HttpServer],
) -> None:
    """The same limit as for a request: from the first byte to the last."""
    server = start(TLS, connection_timeout_seconds=1.0)
    with socket.create_connection(server.bound[0], timeout=DEADLINE_SECONDS) as client:
        client.sendall(b"\x16\x03\x01")
        assert client.recv(100) == b""


def test_a_new_certificate_is_in_use_after_a_reload_and_a_bad_one_never(
    start: Callable[..., http_server.HttpServer], written: Callable[[str], str], authority: Path
) -> None:
    """The expiry shows which one is in use."""
    server = start(TLS)
    first = expiry(server)
    bad = written(TLS.replace("server.crt", "client.crt"))
    with pytest.raises(ConfigError, match="KEY_VALUES_MISMATCH"):
        server.use(web_config.load(bad))
    assert expiry(server) == first
    assert scrape(server, client_context(authority))[0] == 200
    server.use(web_config.load(written(TLS.replace("server.", "renewed."))))
    renewed = expiry(server)
    assert renewed == pytest.approx(first + 20 * 86400, abs=600)
    with socket.create_connection(server.bound[0], timeout=DEADLINE_SECONDS) as plain:
        wrapped = client_context(authority).wrap_socket(plain, server_hostname="127.0.0.1")
        found = wrapped.getpeercert() or {}
        wrapped.close()
    assert ssl.cert_time_to_seconds(str(found["notAfter"])) == renewed


def expiry(server: http_server.HttpServer) -> float:
    """Return when the certificate in use expires."""
    values = {name: value for name, _, value in server.samples()}
    start = values["iowarden_http_certificate_start_timestamp_seconds"]
    assert start == pytest.approx(time.time(), abs=3600)
    return values["iowarden_http_certificate_expiry_timestamp_seconds"]


def served_expiry(server: http_server.HttpServer, authority: Path) -> float:
    """Return when the certificate expires that a new client gets."""
    with (
        socket.create_connection(server.bound[0], timeout=DEADLINE_SECONDS) as plain,
        client_context(authority).wrap_socket(plain, server_hostname="127.0.0.1") as wrapped,
    ):
        return ssl.cert_time_to_seconds(str((wrapped.getpeercert() or {})["notAfter"]))


def test_a_renewed_certificate_is_in_use_without_a_reload(
    written: Callable[[str], str], authority: Path, tmp_path: Path
) -> None:
    """By whatever renews it: files replaced one after the other, also through a link."""
    said: list[str] = []
    live = tmp_path / "live"
    live.symlink_to(tmp_path / "server.crt")
    path = written(TLS.replace("server.crt", "live"))
    server = http_server.HttpServer(
        (("127.0.0.1", 0),),
        http_server.App("1", lambda: METRICS, str, str, str),
        SETTINGS,
        said.append,
        web_config.load(path),
        said.append,
    )
    with contextlib.closing(server):
        assert server.start() == ""
        first = served_expiry(server, authority)
        server.renew()
        assert said == [""]
        live.unlink()
        live.symlink_to(tmp_path / "renewed.crt")
        server.renew()  # its key is not there yet
        assert "KEY_VALUES_MISMATCH" in said[-1]
        assert "the certificate in use stays" in said[-1]
        assert served_expiry(server, authority) == expiry(server) == first
        os.replace(tmp_path / "renewed.key", tmp_path / "server.key")
        server.renew()
        assert said[-1] == ""
        assert served_expiry(server, authority) == expiry(server)
        assert expiry(server) == pytest.approx(first + 20 * 86400, abs=600)
        os.unlink(live)
        server.renew()
        assert "No such file" in said[-1]
        assert scrape(server, client_context(authority))[0] == 200


# --- users


def test_only_users_with_their_password_get_metrics(
    start: Callable[..., http_server.HttpServer], authority: Path
) -> None:
    """By TLS, as Prometheus does with 'basic_auth'."""
    server, context = start(TLS + USERS), client_context(authority)
    assert scrape(server, context, "scraper:secret") == (200, METRICS)
    for wrong in ("", "scraper:", "nonsense"):
        status, body = scrape(server, context, wrong)
        assert (status, b"basic_auth_users" in body or status == 429) == (status, True)
        assert status in {401, 429}
    assert scrape(server, context, "scraper:secret") == (200, METRICS)  # remembered


def test_a_wrong_password_is_followed_by_a_second_without_a_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Guessing costs little; who is known by its password is not affected."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    users = Authenticator({"scraper": HASH})
    assert users.verify(basic("scraper:guess"), "a") is Verdict.WRONG
    assert users.recall(basic("scraper:secret"), "a") is Verdict.LIMITED
    assert users.recall(basic("scraper:secret"), "b") is None
    assert users.verify(basic("scraper:secret"), "b") is Verdict.CORRECT
    assert users.recall(basic("scraper:secret"), "a") is Verdict.CORRECT
    assert users.recall(basic("scraper:guess"), "b") is None
    now[0] += password.FAILURE_SECONDS
    assert users.verify(basic("other:guess"), "a") is Verdict.WRONG
    for number in range(2 * password.MAX_NETWORKS):
        users._fail(str(number))
    assert len(users._failed) == password.MAX_NETWORKS


def test_who_is_known_stays_known_over_a_reload_while_the_hash_is_the_same() -> None:
    """A reload for another user costs nobody a login; a changed password does at once."""
    users = Authenticator({"scraper": HASH})
    assert users.verify(basic("scraper:secret"), "a") is Verdict.CORRECT
    users.use({"scraper": HASH, "other": OTHER_HASH})
    assert users.recall(basic("scraper:secret"), "a") is Verdict.CORRECT
    assert users.recall(basic("other:secret"), "a") is None
    users.use({"scraper": OTHER_HASH})
    assert users.recall(basic("scraper:secret"), "a") is None
    users.use({"scraper": HASH})
    assert users.recall(basic("scraper:secret"), "a") is None
    assert users.verify(basic("scraper:secret"), "a") is Verdict.CORRECT
    users.use({})
    assert users.recall("", "a") is Verdict.CORRECT
    assert users._verified == {}


def test_a_password_verified_while_its_user_was_removed_is_not_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reload came while bcrypt ran."""
    users, real = Authenticator({"scraper": HASH}), password.matches

    def during(text: bytes, hashed: str) -> bool:
        users.use({"scraper": OTHER_HASH})
        return real(text, hashed)

    monkeypatch.setattr(password, "matches", during)
    users.verify(basic("scraper:secret"), "a")
    assert users._verified == {}


def test_no_password_is_in_memory_after_it_was_verified() -> None:
    """Only an HMAC of it, under a key of this process."""
    users = Authenticator({"scraper": HASH})
    users.verify(basic("scraper:secret"), "a")
    assert b"secret" not in repr(vars(users)).encode()
    other = Authenticator({"scraper": HASH})
    other.verify(basic("scraper:secret"), "a")
    assert set(users._verified.values()) != set(other._verified.values())


def test_who_is_known_is_answered_while_a_guess_is_verified(
    start: Callable[..., http_server.HttpServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Metrics and page, over a reload; a first login from elsewhere goes before more guesses."""
    order: list[bytes] = []
    entered, release = threading.Event(), threading.Event()
    real = password.matches

    def slow(text: bytes, hashed: str) -> bool:
        order.append(text)
        if text.startswith(b"guess"):
            entered.set()
            release.wait(DEADLINE_SECONDS)
        return real(text, hashed)

    server = start(USERS)
    assert request(server, "scraper:secret") == 200
    monkeypatch.setattr(password, "matches", slow)
    monkeypatch.setattr(password, "FAILURE_SECONDS", 1e9)
    answers: list[tuple[str, int]] = []

    def ask(credentials: str, source: str) -> threading.Thread:
        thread = threading.Thread(
            target=lambda: answers.append((source, request(server, credentials, source)))
        )
        thread.start()
        return thread

    threads = [ask("scraper:guess0", "127.0.1.1")]
    assert entered.wait(DEADLINE_SECONDS)
    running = server._running
    assert running is not None
    for number in range(1, 6):
        threads.append(ask(f"scraper:guess{number}", f"127.0.1.{number % 2 + 1}"))
        until(lambda number=number: len(running.logins.waiting) == number)
    server.use(WebConfig(users={"scraper": HASH, "new": HASH}))
    for path in ("/metrics", "/"):
        assert request(server, "scraper:secret", "127.0.1.1", path) == 200
    threads.append(ask("new:secret", "127.0.2.1"))
    until(lambda: len(running.logins.waiting) == 6)
    release.set()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    assert ("127.0.2.1", 200) in answers
    # Each network has its turn; after a wrong password the rest of it costs no bcrypt.
    assert order == [b"guess0", b"guess1", b"secret"]
    assert sorted(status for _, status in answers) == [200, 401, 401, 429, 429, 429, 429]


def request(
    server: http_server.HttpServer,
    credentials: str,
    source: str = "127.0.0.1",
    path: str = "/metrics",
) -> int:
    """Return the status of a request from an address of this machine."""
    with socket.create_connection(
        server.bound[0], timeout=DEADLINE_SECONDS, source_address=(source, 0)
    ) as client:
        client.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: {basic(credentials)}\r\n\r\n".encode()
        )
        answer = b""
        while piece := client.recv(65_536):
            answer += piece
    return int(answer.split()[1])


def until(true: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not true():
        assert time.monotonic() < end
        threading.Event().wait(0.005)


@pytest.mark.parametrize(
    "header", ["", "Basic", "Basic !", "Bearer c2NyYXBlcjpzZWNyZXQ=", "Basic c2NyYXBlcg=="]
)
def test_a_header_without_user_and_password_is_wrong(header: str) -> None:
    """RFC 7617; nothing was guessed, so the address is not limited."""
    users = Authenticator({"scraper": HASH})
    assert users.verify(header, "a") is Verdict.WRONG
    assert users.verify(basic("scraper:secret"), "a") is Verdict.CORRECT


def test_a_password_with_a_nul_byte_is_not_its_beginning() -> None:
    """crypt(3) would end at that byte."""
    assert password.matches(b"secret", HASH)
    assert not password.matches(b"secret\0more", HASH)


def basic(credentials: str) -> str:
    """Return an Authorization header."""
    return "Basic " + b64encode(credentials.encode()).decode()


# --- the file


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tls_server_config: {cert_file: server.crt}", "key_file: expected it as well as"),
        (
            TLS.replace("}", ", max_version: TLS13}"),
            "web.yml':1: tls_server_config.max_version: not supported; expected one of cert_file,",
        ),
        ("http_server_config: {http2: false}", "http_server_config: not supported"),
        ("rate_limit: {interval: 1s}", "rate_limit: not supported"),
        (TLS.replace("}", ", min_version: TLS10}"), "min_version: expected one of TLS12, TLS13"),
        (
            TLS.replace("}", ", client_auth_type: RequestClientCert}"),
            "client_auth_type: expected one of NoClientCert, VerifyClientCertIfGiven,",
        ),
        (TLS.replace("}", ", client_ca_file: ca.crt}"), "expected 'client_ca_file' together with"),
        (
            TLS.replace("}", ", client_auth_type: RequireAndVerifyClientCert}"),
            "expected 'client_ca_file' together with",
        ),
        (
            TLS.replace("server.crt", "none.crt"),
            "none.crt': expected a readable file, got 'No such",
        ),
        (
            TLS.replace("server.crt", "none.crt"),
            "create it, readable for the service: install -m 0640 -g iowarden /dev/null /",
        ),
        (TLS.replace("server.crt", "server.key"), "expected a PEM certificate in"),
        (TLS.replace("server.key", "client.key"), "KEY_VALUES_MISMATCH"),
        ("[]", "the file: expected 'key: value' lines"),
        ("tls_server_config: [", "expected YAML, got"),
        ("basic_auth_users: {a: secret}", "basic_auth_users.a: expected a name without ':' and a"),
        (USERS.replace("$04$", "$13$"), "expected a bcrypt cost of 4 to 12, got 13"),
    ],
)
def test_an_invalid_web_configuration_is_an_error_that_names_the_key(
    written: Callable[[str], str], text: str, expected: str
) -> None:
    """Before the server starts; at a reload the previous one stays in use. No hash is shown."""
    with pytest.raises(ConfigError) as caught:
        web_config.load(written(text))
    assert expected in str(caught.value)
    assert "secret" not in str(caught.value)
    assert HASH[10:] not in str(caught.value)


def test_a_key_that_others_can_read_is_refused(written: Callable[[str], str]) -> None:
    """As with the mail server's password."""
    path = written(TLS)
    key = Path(path).with_name("server.key")
    key.chmod(0o644)
    with pytest.raises(ConfigError, match=rf"got mode 0644; try: chmod o= {key}"):
        web_config.load(path)


def test_an_encrypted_key_is_refused_and_not_prompted_for(
    written: Callable[[str], str], tmp_path: Path
) -> None:
    """A service has no terminal for its password."""
    path = written(TLS)
    openssl(
        tmp_path, "ec", "-in", "server.key", "-out", "locked.key", "-aes128", "-passout", "pass:x"
    )
    os.replace(tmp_path / "locked.key", tmp_path / "server.key")
    with pytest.raises(ConfigError, match="its key without a password"):
        web_config.load(path)


def test_without_libcrypt_users_are_an_error_with_the_package(
    written: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small container without the library; TLS alone works."""
    monkeypatch.setattr(password, "LIBRARY", "libcrypt-none.so.1")
    password._crypt.cache_clear()
    try:
        with pytest.raises(ConfigError, match=r"libcrypt-none.so.1 .*apt-get install libcrypt1"):
            web_config.load(written(USERS))
        assert web_config.load(written(TLS)).tls is not None
    finally:
        password._crypt.cache_clear()


@pytest.mark.parametrize("text", ["", "# none\n", "tls_server_config:\n", "basic_auth_users: {}"])
def test_an_empty_web_configuration_is_plain_http(written: Callable[[str], str], text: str) -> None:
    """As in Prometheus's own programs."""
    found = web_config.load(written(text))
    assert (found.tls, found.users, found.certificate) == (None, {}, None)


# --- the examples of packaging/doc/https.md

PAGE = (Path(__file__).parents[3] / "packaging/doc/https.md").read_text()
PROMTOOL = Path(__file__).parents[3] / "build/tools/promtool"


def example(name: str, replaced: dict[str, str]) -> str:
    """Return an example of the page, with other paths and addresses."""
    _, _, rest = PAGE.partition(f"<!-- {name} -->\n\n")
    text = "".join(
        line[4:] + "\n"
        for line in takewhile(lambda line: not line or line.startswith("    "), rest.splitlines())
    )
    for old, new in replaced.items():
        assert old in text, name
        text = text.replace(old, new)
    return text


def test_the_web_configuration_of_the_page_is_valid(
    start: Callable[..., http_server.HttpServer], authority: Path
) -> None:
    """Its password is 'example'; at cost 10, as advised."""
    server = start(example("web.yml", {}))
    assert scrape(server, client_context(authority), "prometheus:example")[0] == 200


@pytest.mark.skipif(not PROMTOOL.exists(), reason="no promtool here: 'make test' fetches it")
def test_the_scrape_configuration_of_the_page_is_valid(tmp_path: Path, authority: Path) -> None:
    """As Prometheus reads it."""
    (tmp_path / "password").write_text("example\n")
    replaced = {
        "/etc/prometheus/ca.crt": str(authority / "ca.crt"),
        "/etc/prometheus/iowarden.password": str(tmp_path / "password"),
    }
    path = tmp_path / "prometheus.yml"
    path.write_text(example("prometheus.yml", replaced))
    subprocess.run([PROMTOOL, "check", "config", path], check=True, capture_output=True)


@pytest.mark.system
@pytest.mark.parametrize("proxy", ["nginx", "stunnel"])
def test_a_proxy_of_the_page_serves_the_metrics_by_tls(
    start: Callable[..., http_server.HttpServer], authority: Path, tmp_path: Path, proxy: str
) -> None:
    """The program of the distribution, with the page's configuration."""
    program = shutil.which(proxy, path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip(f"no {proxy} here")
    behind, port = start(""), free_port()
    at = f"127.0.0.1:{port}"
    text = example(
        f"{proxy}.conf",
        {
            "192.0.2.10:9749": at,
            "127.0.0.1:9748": f"127.0.0.1:{behind.bound[0][1]}",
            f"/etc/{proxy}/server.": f"{authority}/server.",
        },
    )
    path = tmp_path / "proxy.conf"
    if proxy == "nginx":
        files = f"pid {tmp_path}/pid; error_log stderr; events {{}}\n"
        # Those of the package are not there: it is unpacked, not installed.
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        own = " ".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in kinds)
        path.write_text(f"daemon off; {files} http {{ access_log off; {own}\n{text}}}\n")
        arguments = [program, "-p", str(tmp_path), "-c", str(path)]
    else:
        path.write_text(f"foreground = yes\npid =\n{text}")
        arguments = [program, str(path)]
    process = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
    try:
        context, end = client_context(authority), time.monotonic() + DEADLINE_SECONDS
        while True:
            connection = http.client.HTTPSConnection("127.0.0.1", port, context=context)
            try:
                connection.request("GET", "/metrics")
                answer = connection.getresponse()
                assert (answer.status, answer.read()) == (200, METRICS)
                break
            except ConnectionRefusedError:
                assert process.poll() is None
                assert time.monotonic() < end
                os.sched_yield()
            finally:
                connection.close()
    finally:
        process.terminate()
        process.wait(DEADLINE_SECONDS)
