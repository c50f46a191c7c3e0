"""Spellings of a secret that servers repeat, and a search for them that decodes what it reads."""

from __future__ import annotations

import base64
import binascii
import functools
import html
import itertools
import json
import re
import textwrap
import urllib.parse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_USERS = ("", "u:", "us:", "usr:", "\0u\0", "\0us\0", "\0usr\0", "a\0relay@example.com\0")
"""What precedes a password: each alignment to base64's groups of three bytes."""
_ENDS = ("", "x", "xy", "\n")
"""What follows it: each padding."""
_WRAPS = ("\r\n", "\n", "\r\n ", "\n\t", "\r\n250-", "\n535 ", " ", r"\r\n", r"\n")
PART_CHARACTERS = 8
"""So much of a secret must not be readable either."""


def spellings(secret: str) -> Iterator[tuple[str, str]]:
    """Yield names and texts."""
    yield "plain", secret
    for user, end in itertools.product(_USERS, _ENDS):
        data = f"{user}{secret}{end}".encode()
        name = f"{user!r} and {end!r}"
        for kind, text in _in_base64(data):
            yield f"{kind} with {name}", text
    yield from _quoted(secret)
    for name, text in (("hex", secret.encode().hex()), ("HEX", secret.encode().hex().upper())):
        yield name, text
        yield f"{name} by colons", ":".join(textwrap.wrap(text, 2))
        yield f"{name} by blanks", " ".join(textwrap.wrap(text, 2))
        yield from ((f"{name} wrapped by {end!r}", _wrapped(text, 8, end)) for end in _WRAPS)
    if " " not in secret:
        for end in _WRAPS:
            # Where a line end is escaped, a backslash is escaped as well.
            text = secret.replace("\\", r"\\") if end[0] == "\\" else secret
            yield f"plain wrapped by {end!r}", _wrapped(text, 7, end)


def _in_base64(data: bytes) -> Iterator[tuple[str, str]]:
    standard, url_safe = base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()
    yield "base64", standard
    yield "base64 without padding", standard.rstrip("=")
    yield "base64url", url_safe
    yield "base64url without padding", url_safe.rstrip("=")
    yield "base64 in a URL", urllib.parse.quote(standard, safe="")
    yield "base64 in JSON", standard.replace("/", r"\/")
    yield "base64 decoded as a form", standard.replace("+", " ")
    long = base64.b64encode(b"a stream of bytes, " * 3 + data + b" and more of it" * 3).decode()
    for width, end in itertools.product((76, 10), _WRAPS):
        yield f"base64 wrapped at {width} by {end!r}", _wrapped(long, width, end)


def _quoted(secret: str) -> Iterator[tuple[str, str]]:
    each = [ord(character) for character in secret]
    yield "URL", urllib.parse.quote(secret, safe="")
    yield "url", re.sub("%..", lambda found: found[0].lower(), urllib.parse.quote(secret, safe=""))
    yield "URL, of a form", urllib.parse.quote_plus(secret)
    yield "URL, every character", "".join(f"%{code:02X}" for code in each)
    yield "URL, twice", urllib.parse.quote(urllib.parse.quote(secret, safe=""), safe="")
    yield "JSON", json.dumps(secret)[1:-1]
    yield "JSON, '/' escaped", json.dumps(secret)[1:-1].replace("/", r"\/")
    yield "JSON, every character", "".join(rf"\u{code:04x}" for code in each)
    yield "JSON, every CHARACTER", "".join(rf"\u{code:04X}" for code in each)
    yield "JSON in JSON", json.dumps(json.dumps(secret)[1:-1])[1:-1]
    yield "JSON in JSON, every character", "".join(rf"\\u{code:04x}" for code in each)
    yield "Python", repr(secret)[1:-1]
    yield "Python, every byte", "".join(rf"\x{code:02x}" for code in each)
    yield "HTML", html.escape(secret)
    yield "HTML, every character", "".join(f"&#{code};" for code in each)
    yield "HTML, every character in hex", "".join(f"&#x{code:X};" for code in each)
    yield (
        "every second character quoted",
        "".join(
            f"%{ord(character):02x}" if number % 2 else character
            for number, character in enumerate(secret)
        ),
    )


def _wrapped(text: str, width: int, end: str) -> str:
    return end.join(text[at : at + width] for at in range(0, len(text), width))


def reveals(text: str, secret: str) -> bool:
    """Whether a text has the beginning or the end of a secret, in plain or after decoding."""
    parts = {_dense(secret[:PART_CHARACTERS]), _dense(secret[-PART_CHARACTERS:]), _dense(secret)}
    parts |= {part.replace(" ", "+") for part in (secret[:PART_CHARACTERS], secret)}
    return any(part in form for form in _forms(text) for part in parts)


@functools.lru_cache(64)
def _forms(text: str) -> tuple[str, ...]:
    unwrapped = re.sub(r"\r?\n[0-9]{3}[ -]", "", text)
    plain = [text, unwrapped, re.sub(r"(?:\\r)?\\n", "", unwrapped)]
    decoded = [decode(each) for each in plain for decode in _DECODERS]
    dense = tuple({_dense(each) for each in decoded})
    return (*dense, *(part for each in dense for part in _decoded_runs(each)))


def _unescaped(text: str) -> str:
    return re.sub(
        r"\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([\"'/\\]))",
        lambda found: found[3] or chr(int(found[1] or found[2], 16)),
        text,
    )


_DECODERS: tuple[Callable[[str], str], ...] = (
    str,
    urllib.parse.unquote,
    lambda text: urllib.parse.unquote(urllib.parse.unquote(text)),
    urllib.parse.unquote_plus,
    html.unescape,
    _unescaped,
    lambda text: _unescaped(text.replace(r"\\", "\\")),
    lambda text: text.replace(r"\\", "\\"),
    lambda text: text.replace(r"\\\\", "\\"),
    lambda text: text.replace(" ", "+"),
)


def _dense(text: str) -> str:
    return "".join(text.split())


def _decoded_runs(text: str) -> Iterator[str]:
    """Yield what base64 and hex in a text are decoded to, from each place where it may begin."""
    for run in re.findall(r"[A-Za-z0-9+/_-]{8,}", text):
        standard = run.replace("-", "+").replace("_", "/")
        for begin in range(4):
            size = (len(standard) - begin) // 4 * 4
            whole = standard[begin : begin + size]
            rest = standard[begin + size :]
            padded = whole + (rest + "=" * (4 - len(rest)) if len(rest) > 1 else "")
            yield _dense(base64.b64decode(padded).decode("latin-1"))
    for run in re.findall(r"[0-9A-Fa-f:]{12,}", text):
        digits = run.replace(":", "")
        for begin in range(2):
            with_whole_bytes = digits[begin : begin + (len(digits) - begin) // 2 * 2]
            yield _dense(binascii.unhexlify(with_whole_bytes).decode("latin-1"))
