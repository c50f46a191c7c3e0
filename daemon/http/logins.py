"""Logins: the thread in which passwords of unknown clients are verified, by turns."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.http.login_turns import LoginTurns
from iowarden.daemon.http.password import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.daemon.http.password import Authenticator


@dataclass(frozen=True, slots=True)
class Login:
    """A request whose password is to be verified.

    `header` is its Authorization, `origin` the network that it came from; `is_connected` whether
    its client still waits; `answer` has the request answered, and does not block.
    """

    header: str
    origin: str
    is_connected: Callable[[], bool]
    answer: Callable[[Verdict], None]


class Logins:
    """Verifies one password at a time; the thread begins with the first one."""

    def __init__(self, authenticator: Authenticator) -> None:
        """Begin without a thread: without users nothing is verified."""
        self._authenticator = authenticator
        self.waiting = LoginTurns[Login]()
        self._changed = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None

    def add(self, login: Login) -> None:
        """Queue a login; the one that is too many is refused."""
        is_suspect = self._authenticator.is_suspect(login.origin)
        with self._changed:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="logins", daemon=True)
                self._thread.start()
            refused = self.waiting.put(login, login.origin, is_suspect=is_suspect)
            self._changed.notify()
        if refused is not None:
            refused.answer(Verdict.BUSY)

    def close(self, timeout_seconds: float) -> None:
        """End after the login in progress; what waits is not answered."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self.waiting or self._closing)
                if self._closing:
                    return
                login = self.waiting.popleft()
            verdict = Verdict.WRONG
            if login.is_connected():
                verdict = self._authenticator.verify(login.header, login.origin)
            login.answer(verdict)
