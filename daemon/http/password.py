"""Basic authentication of HTTP clients: bcrypt by libcrypt, at most one password at a time.

Source: RFC 7617; crypt(3) of libxcrypt, crypt(5) for bcrypt. A correct password is remembered as an
HMAC under a random key, so that a scrape costs no bcrypt and waits for no other client's.
"""

from __future__ import annotations

import base64
import binascii
import ctypes
import enum
import functools
import hashlib
import hmac
import secrets
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LIBRARY = "libcrypt.so.1"
FAILURE_SECONDS = 1.0
"""After a wrong password, no other one of that network is checked for so long."""
MAX_NETWORKS = 1000
_PREFIX = "$2b$10$"
_UNKNOWN = "." * 53


class Verdict(enum.Enum):
    """Of a request's credentials."""

    CORRECT = "correct"
    WRONG = "wrong"
    LIMITED = "limited"
    """Not checked: a wrong password came from this network less than a second ago."""
    BUSY = "busy"
    """Not checked: too many logins wait."""


@functools.cache
def _crypt() -> Callable[[bytes, bytes], bytes | None]:
    """Return crypt(3), which is not reentrant. Errors: OSError."""
    function = ctypes.CDLL(LIBRARY).crypt
    function.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
    function.restype = ctypes.c_char_p
    return function


def missing() -> str:
    """Return why passwords cannot be checked on this machine, and what to do; '' if they can."""
    try:
        _crypt()
    except OSError as error:
        return f"expected {LIBRARY} to check passwords, got: {error}; apt-get install libcrypt1"
    return ""


def matches(password: bytes, hashed: str) -> bool:
    """Whether a password has a bcrypt hash. Takes 60 ms at cost 10; call it in one thread at once.

    Limits: as in all of bcrypt, only the first 72 bytes count.
    """
    if b"\0" in password:
        return False
    made = _crypt()(password, hashed.encode())
    return made is not None and hmac.compare_digest(made, hashed.encode())


class Authenticator:
    """Which users are known by their password; `recall` is for any thread, `verify` for one.

    A correct password is remembered until its hash changes, not the password itself but an HMAC
    of it, under a random key of this process.
    """

    def __init__(self, users: Mapping[str, str] | None = None) -> None:
        """`users` has bcrypt hashes by name; without any, every request is answered."""
        self._users: dict[str, str] = {}
        self._key = secrets.token_bytes(32)
        self._verified: dict[tuple[str, str], bytes] = {}
        """By user and hash."""
        self._failed: dict[str, float] = {}
        """When a wrong password came last, by network; the oldest first."""
        self.use(users or {})

    def use(self, users: Mapping[str, str]) -> None:
        """Use other users; who is known stays so while the hash is the same."""
        self._users = dict(users)
        current = set(self._users.items())
        self._verified = {key: each for key, each in self._verified.items() if key in current}

    def recall(self, header: str, origin: str) -> Verdict | None:
        """Return the verdict on an Authorization header; None: its password is to be verified."""
        if not self._users:
            return Verdict.CORRECT
        credentials = parse_basic(header)
        if credentials is None:  # no password, so nothing was guessed
            return Verdict.WRONG
        user, password = credentials
        hashed = self._users.get(user, "")
        remembered = self._verified.get((user, hashed), b"")
        if hmac.compare_digest(remembered, self._digest(user, hashed, password)):
            return Verdict.CORRECT
        since = time.monotonic() - self._failed.get(origin, float("-inf"))
        return Verdict.LIMITED if since < FAILURE_SECONDS else None

    def is_suspect(self, origin: str) -> bool:
        """Whether a wrong password came from a network lately."""
        return origin in self._failed

    def verify(self, header: str, origin: str) -> Verdict:
        """Return the verdict on an Authorization header, by bcrypt if it is not known."""
        verdict = self.recall(header, origin)
        credentials = parse_basic(header)
        if verdict is not None or credentials is None:
            return verdict or Verdict.WRONG
        user, password = credentials
        users = self._users
        # An unknown user takes as long as a known one.
        hashed = users.get(user) or next(iter(users.values()), _PREFIX)[:7] + _UNKNOWN
        if matches(password, hashed) and user in users:
            if self._users.get(user) == hashed:  # also after a reload meanwhile
                self._verified[user, hashed] = self._digest(user, hashed, password)
            self._failed.pop(origin, None)
            return Verdict.CORRECT
        self._fail(origin)
        return Verdict.WRONG

    def _digest(self, user: str, hashed: str, password: bytes) -> bytes:
        content = b"\0".join((user.encode(), hashed.encode(), password))
        return hmac.digest(self._key, content, hashlib.sha256)

    def _fail(self, origin: str) -> None:
        self._failed.pop(origin, None)
        if len(self._failed) >= MAX_NETWORKS:
            del self._failed[next(iter(self._failed))]  # the oldest failure
        self._failed[origin] = time.monotonic()


def parse_basic(header: str) -> tuple[str, bytes] | None:
    """Return user and password of an Authorization header; None if it has none."""
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, separator, password = base64.b64decode(token.strip(), validate=True).partition(b":")
        return (user.decode(), password) if separator else None
    except (binascii.Error, UnicodeDecodeError):
        return None
