"""Servers on loopback that repeat secrets, in every spelling, in all of their replies."""

from __future__ import annotations

import contextlib
import itertools
import re
from typing import TYPE_CHECKING

from support.http_receiver import Answer, Request, server
from support.smtp import scripted_server
from support.spellings import spellings

if TYPE_CHECKING:
    import socket
    import threading
    from collections.abc import Callable, Iterable, Iterator, Sequence

LINES = 40
"""Of a reply; the excerpt of it is cut after its secrets were replaced."""


class Echo:
    """What servers repeat: in turn every spelling of every secret."""

    def __init__(self, secrets: Iterable[str]) -> None:
        """Begin with the first spellings of each."""
        every = [list(spellings(secret)) for secret in secrets]
        # The rarest kinds of spelling soon as well: a step that has no divisor in common.
        orders = [[each[at * 37 % len(each)][1] for at in range(len(each))] for each in every]
        self._texts = itertools.cycle(itertools.chain(*zip(*orders, strict=False)))
        self.replies = 0

    def texts(self) -> list[str]:
        """Return what is repeated next."""
        self.replies += 1
        return list(itertools.islice(self._texts, LINES))

    def reply(self, code: int) -> bytes:
        """Return a reply of several lines by SMTP."""
        lines = [line for text in self.texts() for line in re.split(r"\r?\n(?:\d{3}[ -])?", text)]
        return "".join(f"{code}-{line}\r\n" for line in lines).encode() + b"%d end\r\n" % code


@contextlib.contextmanager
def mail_server(echo: Echo, codes: Sequence[dict[str, int]]) -> Iterator[int]:
    """Run a mail server; for each connection the next of `codes` has what it replies to a step.

    A step without a code succeeds; with 0 and 1 the answer is no SMTP.
    """
    turns = itertools.cycle(codes)

    def script(connection: socket.socket, _: threading.Event) -> None:
        steps, lines = next(turns), connection.makefile("rb")
        connection.sendall(b"220 mx\r\n")
        while line := lines.readline():
            verb = line[:4].decode().strip().upper()
            if verb == "DATA" and "DATA" not in steps:
                connection.sendall(b"354 go ahead\r\n")
                while lines.readline() not in (b".\r\n", b""):
                    pass
                verb = "."
            code = steps.get(verb)
            if code == 1:  # neither a separator nor a code in the next line
                connection.sendall(b"".join(b"535%b" % text.encode() for text in echo.texts()))
                connection.sendall(b"\r\n")
                return
            if code == 0:
                connection.sendall(" ".join(echo.texts()).encode() + b"\r\n")
                return
            if verb == "EHLO":
                connection.sendall(b"250-mx\r\n250 AUTH PLAIN\r\n")
            elif verb == "QUIT":
                connection.sendall(b"221 bye\r\n")
                return
            else:
                connection.sendall(echo.reply(code or (235 if verb == "AUTH" else 250)))

    with scripted_server(script) as port:
        yield port


@contextlib.contextmanager
def receiver(echo: Echo, statuses: Sequence[int]) -> Iterator[int]:
    """Run an HTTP server that replies these in turn."""
    turns = itertools.cycle(statuses)
    with server() as running:
        running.answer = _repeating(echo, lambda: next(turns))
        yield running.port


def _repeating(echo: Echo, status: Callable[[], int]) -> Callable[[Request], Answer]:
    def answer(request: Request) -> Answer:
        body = f"{request.path} {' '.join(request.headers.values())} {' | '.join(echo.texts())}"
        return Answer(status(), body.encode(), {"X-Echo": request.headers.get("Authorization", "")})

    return answer
