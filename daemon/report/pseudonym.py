"""Replaces words by pseudonyms: the same word by the same one, in the format of the word.

A pseudonym is an HMAC (RFC 2104, SHA-256) of the word under a key that is random for each report
and stored nowhere: a reader cannot compute which serial number it stands for, nor compare two
reports.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MIN_ANYWHERE = 6
"""A shorter word is replaced only where it stands alone: it may be a part of another one."""
MIN_DIGITS = 10
"""The same of a number."""
MIN_CHARACTERS = 3
_HEX = re.compile(r"(?:0[xX]|naa\.|eui\.|uuid\.)?[0-9A-Fa-f][0-9A-Fa-f:. -]{6,}[0-9A-Fa-f]")
_PREFIX = re.compile(r"^(?:0x|naa\.|eui\.|uuid\.)", re.IGNORECASE)
_ALONE, _END = r"(?<![0-9A-Za-z])", r"(?![0-9A-Za-z])"


class WordKind(enum.StrEnum):
    """What a word names; the value is how the list of contents calls it."""

    IDENTIFIER = "serial numbers, WWNs, UUIDs and MAC addresses"
    ADDRESS = "network addresses"
    HOST = "host names"
    USER = "user names"
    NAME = "names of mount points, directories, files, volumes and labels"


class Pseudonyms:
    """The pseudonyms of one report."""

    def __init__(self, key: bytes, words: Mapping[str, WordKind]) -> None:
        """`words` are what must not be in the report."""
        self._key = key
        self._kinds = {word.lower(): kind for word, kind in words.items()}
        ordered = sorted(self._kinds, key=lambda word: (-len(word), word))
        patterns = [
            re.escape(word) if _is_rare(word) else _ALONE + re.escape(word) + _END
            for word in ordered
        ]
        self._pattern = re.compile("|".join(patterns) or r"(?!)", re.IGNORECASE)

    def text(self, text: str) -> str:
        """Return a text with pseudonyms."""
        return self._pattern.sub(lambda found: self.word(found[0]), text)

    def content(self, content: bytes) -> bytes:
        """Return the content of a file with pseudonyms; other bytes are unchanged."""
        text = content.decode("utf-8", "surrogateescape")
        return self.text(text).encode("utf-8", "surrogateescape")

    def remains(self, content: bytes) -> bool:
        """Whether a word is still in the content of a file."""
        return self._pattern.search(content.decode("utf-8", "surrogateescape")) is not None

    def host(self, content: bytes) -> bytes:
        """Return the content of a file that is a host name, which may be short or common."""
        name = content.decode("utf-8", "surrogateescape").strip()
        if not name or name in {"localhost", "(none)"} or self._pattern.search(name):
            return self.content(content)
        return f"host-{self._stream(name)[:5].hex()}\n".encode()

    def word(self, word: str) -> str:
        """Return the pseudonym of a word."""
        kind = self._kinds.get(word.lower(), WordKind.IDENTIFIER)
        stream = self._stream(word)
        match kind:
            case WordKind.ADDRESS if ":" in word:
                return f"2001:db8::{stream[0] << 8 | stream[1]:x}:{stream[2] << 8 | stream[3]:x}"
            case WordKind.ADDRESS:
                return f"198.18.{stream[0]}.{stream[1]}"
            case WordKind.HOST | WordKind.USER | WordKind.NAME:
                return f"{kind.name.lower()}-{stream[:5].hex()}"
        return formed(word, stream)

    def binary(self, content: bytes) -> bytes:
        """Return an identifier that is stored in binary, as the pseudonym of its hex digits."""
        return bytes.fromhex(formed(content.hex(), self._stream(content.hex())))

    def _stream(self, word: str) -> bytes:
        plain = _PREFIX.sub("", word.lower(), count=1).replace(" ", "")
        data = plain.encode("utf-8", "surrogateescape")
        return hmac.new(self._key, data, hashlib.sha256).digest()


def _is_rare(word: str) -> bool:
    return len(word) >= (MIN_DIGITS if word.isdigit() else MIN_ANYWHERE)


def formed(word: str, stream: bytes) -> str:
    """Return other characters of the same classes: a digit for a digit, hex for hex.

    So that a parser reads it as before; a number does not begin with 0.
    """
    prefix = _PREFIX.match(word)
    start = prefix.end() if prefix else 0
    at = 0
    letters = "abcdef" if _HEX.fullmatch(word) else "abcdefghijklmnopqrstuvwxyz"
    made = [word[:start]]
    for each in word[start:]:
        value = stream[at % len(stream)] + at // len(stream) * 7
        at += each.isalnum()
        if each.isdigit():
            made.append(str(1 + value % 9 if at == 1 else value % 10))
        elif each.isascii() and each.isalpha():
            own = letters[value % len(letters)]
            made.append(own.upper() if each.isupper() else own)
        else:
            made.append(each)
    return "".join(made)
