"""Names from outside, safe for one line of output: models, mounts, units, programs.

What is escaped: control characters of both sets, line ends, format characters (bidirectional
controls, zero-width ones), lone surrogates, private use; Unicode categories Cc, Cf, Cs, Co, Zl, Zp.
Any other text is unchanged: letters of all scripts, blanks, backslashes.
"""

from __future__ import annotations

import hashlib
import unicodedata

MAX_NAME_CHARACTERS = 256
ELLIPSIS = "..."
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_MARK_BYTES = 4
_UNDECODABLE = range(0xDC80, 0xDD00)
"""Surrogates in place of bytes that are no UTF-8. Source: PEP 383, 'surrogateescape'."""


def is_safe(text: str) -> bool:
    """Whether a text has nothing that must be escaped."""
    if text.isascii():
        return text.isprintable()
    return not any(unicodedata.category(character) in _UNSAFE for character in text)


def escaped(text: str, keep: str = "") -> str:
    r"""Return text with unsafe characters escaped: '\x1b', '\u202e'; those in `keep` stay.

    An undecodable byte becomes the byte ('\xff').
    """
    if is_safe(text):
        return text
    return "".join(
        character
        if character in keep or unicodedata.category(character) not in _UNSAFE
        else escape(character)
        for character in text
    )


def escape(character: str) -> str:
    r"""Return the escape of one character."""
    code = ord(character)
    if code in _UNDECODABLE:
        code -= 0xDC00
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def name(text: str) -> str:
    r"""Return a name of at most MAX_NAME_CHARACTERS, safe to show and to compare.

    A name that must be escaped or cut ends in '~' and 8 hexadecimal digits of its hash: two names
    that differ stay different, in every output the same. Any other is unchanged.
    """
    if len(text) <= MAX_NAME_CHARACTERS and is_safe(text):
        return text
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=_MARK_BYTES)
    mark = f"~{digest.hexdigest()}"
    shown = escaped(text[:MAX_NAME_CHARACTERS])
    if len(text) > MAX_NAME_CHARACTERS or len(shown) + len(mark) > MAX_NAME_CHARACTERS:
        mark = ELLIPSIS + mark
        shown = shown[: MAX_NAME_CHARACTERS - len(mark)]
    return shown + mark
