"""Basic authentication of HTTP clients: bcrypt by libcrypt, at most one password at a time.

Source: RFC 7617; crypt(3) of libxcrypt, crypt(5) for bcrypt. A correct password is remembered as an
HMAC under a random key, so that a scrape costs no bcrypt.
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
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LIBRARY = "libcrypt.so.1"
FAILURE_SECONDS = 1.0
"""After a wrong password, no other one of that address is checked for so long."""
MAX_ADDRESSES = 1000
_UNKNOWN = "." * 53


class Verdict(enum.Enum):
    """Of a request's credentials."""

    CORRECT = "correct"
    WRONG = "wrong"
    LIMITED = "limited"
    """Not checked: a wrong password came from this address less than a second ago."""
    BUSY = "busy"
    """Not checked: another password is being checked."""


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
    """Checks credentials of requests, in the threads that answer them."""

    def __init__(self, users: Mapping[str, str]) -> None:
        """`users` has bcrypt hashes by name."""
        self._users = dict(users)
        self._key = secrets.token_bytes(32)
        self._correct: dict[str, bytes] = {}
        self._failed: dict[str, float] = {}
        self._bcrypt = threading.Lock()

    def check(self, header: str, address: str) -> Verdict:
        """Check an Authorization header; waits for no other check."""
        credentials = parse_basic(header)
        if credentials is None:  # no password, so nothing was guessed
            return Verdict.WRONG
        user, password = credentials
        digest = hmac.digest(self._key, f"{user}\0".encode() + password, hashlib.sha256)
        if hmac.compare_digest(self._correct.get(user, b""), digest):
            return Verdict.CORRECT
        if time.monotonic() - self._failed.get(address, float("-inf")) < FAILURE_SECONDS:
            return Verdict.LIMITED
        if not self._bcrypt.acquire(blocking=False):
            return Verdict.BUSY
        try:
            # An unknown user takes as long as a known one.
            hashed = self._users.get(user) or next(iter(self._users.values()))[:7] + _UNKNOWN
            if matches(password, hashed) and user in self._users:
                self._correct[user] = digest
                return Verdict.CORRECT
            self._fail(address)
        finally:
            self._bcrypt.release()
        return Verdict.WRONG

    def _fail(self, address: str) -> None:
        self._failed.pop(address, None)
        if len(self._failed) >= MAX_ADDRESSES:
            del self._failed[next(iter(self._failed))]  # the oldest failure
        self._failed[address] = time.monotonic()


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
