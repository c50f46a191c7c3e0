"""Logins while others guess: a known password, over a reload, and a first login."""

from __future__ import annotations

import base64
import ctypes
import itertools
import socket
import statistics
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from table import free_port, row

from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.http.http_server import App, HttpServer
from iowarden.daemon.http.password import LIBRARY
from iowarden.daemon.http.web_config import WebConfig

GUESSERS, ADDRESSES, COST = 6, 200, 10


def bench_logins(requests: int) -> None:
    """Measure them with six guessing threads from 200 addresses."""
    users = {name: _hashed(name) for name in ("known", "first", "other")}
    port = free_port()
    app = App("bench", lambda: b"x 1\n", str, str, str)
    server = HttpServer(
        (("127.0.0.1", port),), app, parse_config("", "bench").http, print, WebConfig(users=users)
    )
    server.start()
    over = threading.Event()
    addresses = itertools.cycle(f"127.0.{1 + n // 100}.{1 + n % 100}" for n in range(ADDRESSES))
    guesses = itertools.count()

    def guess() -> None:
        while not over.is_set():
            _ask(port, f"known:guess{next(guesses)}", next(addresses))

    assert _ask(port, "known:known", "127.0.0.1")[0] == 200
    threads = [threading.Thread(target=guess) for _ in range(GUESSERS)]
    for thread in threads:
        thread.start()
    known: list[float] = []
    for number in range(requests):
        if number == requests // 2:
            server.use(WebConfig(users={**users, "new": users["other"]}))
        status, seconds = _ask(port, "known:known", "127.0.0.1")
        assert status == 200
        known.append(seconds)
    first = [_first(port, name, source) for name, source in (("first", 1), ("other", 2))]
    over.set()
    for thread in threads:
        thread.join()
    server.close()
    p99 = statistics.quantiles(known, n=100)[98]
    row("http: known password among 6 guessers, a reload, p99 ms", f"{p99 * 1000:.1f}", "1000")
    row("http: first login among 6 guessers, the longer of 2, s", f"{max(first):.2f}", "5")


def _first(port: int, name: str, source: int) -> float:
    """Return how long a first login takes, with retries as a browser's user makes them."""
    begin = time.monotonic()
    while _ask(port, f"{name}:{name}", f"127.0.9.{source}")[0] != 200:
        time.sleep(0.1)
    return time.monotonic() - begin


def _ask(port: int, credentials: str, source: str) -> tuple[int, float]:
    begin = time.monotonic()
    token = base64.b64encode(credentials.encode()).decode()
    request = f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {token}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), source_address=(source, 0)) as client:
        client.sendall(request.encode())
        answer = b""
        while piece := client.recv(65_536):
            answer += piece
    return int(answer.split()[1]), time.monotonic() - begin


def _hashed(password: str) -> str:
    crypt = ctypes.CDLL(LIBRARY).crypt
    crypt.restype = ctypes.c_char_p
    made = crypt(password.encode(), f"$2b${COST}$abcdefghijklmnopqrstuu".encode())
    assert isinstance(made, bytes)
    return made.decode()


if __name__ == "__main__":
    bench_logins(300)
