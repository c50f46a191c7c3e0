r"""Redactor: replaces every configured secret, in every spelling, in a text from outside.

A mail server or receiver may repeat what it was sent: in plain, in base64 (as in AUTH PLAIN, and in
Basic authentication, where a user's name precedes it), quoted for a URL, JSON or HTML, in
hexadecimal, wrapped, or in several lines. Each spelling has the same canonical form as the secret,
so that one comparison finds them all. What enters by the clients of SMTP and HTTP passes here
before it is cut, stored, logged or shown; the log passes here once more.

Source: RFC 4648 (base64, base64url, hex), RFC 3986, 2.1 (%XX), RFC 8259, 7 (JSON), RFC 4616
(PLAIN), RFC 7617 (Basic), RFC 5321, 4.2.1 (replies of several lines).
Limits: secrets are ASCII, as the loader requires. Encrypted, compressed and hashed ones are not
recognized, nor base64 of base64.
"""

from __future__ import annotations

import base64
import html
import re
import string
from typing import TYPE_CHECKING

from iowarden.daemon.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MARK = "<secret>"
MIN_CHARACTERS = 6
"""A shorter secret would be part of many words, which would be replaced with it."""
MIN_BEGINNING_CHARACTERS = 4
"""So much of a secret at the end of a text that was cut is replaced as well."""
MAX_SECRETS = 256
"""Of the present and earlier configurations; the newest ones."""
_BLANK = re.compile(r"\r?\n[0-9]{3}[ -]|\s+")
"""What a secret may be wrapped by: it counts as nothing. With digits it is the next line of a reply
by SMTP."""
_UNIT = re.compile(
    r"""%(?:25)*[0-9A-Fa-f]{2}                                 # URL, also quoted repeatedly
    |\\+(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[abfnrtv"'/])?      # JSON, Python, also repeatedly
    |&(?:\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6}|amp|lt|gt|quot|apos);
    |\r?\n[0-9]{3}[ -]|\s+                                     # as _BLANK""",
    re.VERBOSE,
)
"""What one character may be written as."""
_CUT_UNIT = re.compile(
    r"(?:%(?:25)*[0-9A-Fa-f]?|\\+(?:u[0-9A-Fa-f]{0,3}|x[0-9A-Fa-f]?)?|&\#?[0-9A-Za-z]{0,8}"
    r"|\r?\n[0-9]{0,3}|\r)\Z"
)
"""The beginning of a unit, at the end of a text that was cut."""
_JOINING = "\\%&"
"""At the end of a secret it may be read as one unit with what follows."""
_ESCAPED_BLANKS = frozenset("abfnrtv")
_BASE64_URL = str.maketrans("-_", "+/")
_HEX_SEPARATORS = ":-"
_HEX = str.maketrans("ABCDEF", "abcdef", _HEX_SEPARATORS)
_BASE64_CHARACTERS = string.ascii_letters + string.digits + "+/-_="
_MAX_NEXT_CHARACTERS = 200
"""Of base64 next to a secret: what is farther away is not of its user."""


def problem(secret: str) -> str:
    """Return what is wrong with a secret of the configuration, without any part of it, or ''."""
    if not secret.isascii() or not secret.isprintable():
        return "expected printable ASCII characters, got others"
    if min(map(len, _forms(secret))) < MIN_CHARACTERS:
        return (
            f"expected at least {MIN_CHARACTERS} characters, got fewer: a secret is replaced"
            " wherever it occurs in a log message; choose a longer one"
        )
    return ""


class Redactor:
    """Knows the secrets of this process. `learn` and `text` may be called in any thread."""

    def __init__(self, secrets: Iterable[str | None] = ()) -> None:
        """Start with these; None and what is too short are left out."""
        self.secrets: tuple[str, ...] = ()
        self._spellings: tuple[_Spellings, ...] = ()
        self.learn(secrets)

    def learn(self, secrets: Iterable[str | None]) -> None:
        """Replace these as well from now on."""
        added = [text for text in secrets if text and not problem(text)]
        both = dict.fromkeys((*self.secrets, *added))
        if len(both) == len(self.secrets):
            return
        self.secrets = tuple(both)[-MAX_SECRETS:]
        # A longer one first: it may contain a shorter one.
        longest_first = sorted(self.secrets, key=len, reverse=True)
        self._spellings = tuple(map(_Spellings, longest_first))

    def text(self, text: str, *, is_cut: bool = False) -> str:
        """Return text without any secret. `is_cut`: its end may be the beginning of one."""
        if not self._spellings:
            return text
        if is_cut and (partial := _CUT_UNIT.search(text)):
            text = text[: partial.start()]
        views = _Views(text)
        if not any(each.occurs(views, is_cut=is_cut) for each in self._spellings):
            return text
        places = [place for each in self._spellings for place in each.places(views, is_cut=is_cut)]
        made, at = [], 0
        for begin, end in sorted(places):
            if begin >= at:
                made += [text[at:begin], MARK]
            at = max(at, end)
        return "".join((*made, text[at:]))

    def excerpt(self, foreign: bytes | str, max_characters: int, *, is_cut: bool = False) -> str:
        """Return the beginning of a text from outside on one line, without any secret."""
        if isinstance(foreign, bytes):
            foreign = foreign.decode("utf-8", "backslashreplace")
        return one_line(self.text(foreign, is_cut=is_cut), max_characters)


class _Views:
    """A text in the forms in which spellings of a secret are equal."""

    def __init__(self, text: str) -> None:
        self.raw = text
        self.dense = _BLANK.sub("", text)
        self.plain = _UNIT.sub(_character, text)
        self.base64 = self.plain.translate(_BASE64_URL)
        self.hexadecimal = self.plain.translate(_HEX)
        self._units: dict[tuple[re.Pattern[str], str], list[tuple[int, int]]] = {}

    def place(
        self, part: tuple[int, int], pattern: re.Pattern[str], ignored: str = ""
    ) -> tuple[int, int]:
        """Return the place in the text of a part of a view, by the pattern of its units."""
        units = self._units.get((pattern, ignored))
        if units is None:
            units = self._units[pattern, ignored] = [
                (begin, end)
                for begin, end, unit in _units(self.raw, pattern)
                for character in unit
                if character not in ignored
            ]
        return units[part[0]][0], units[part[1] - 1][1]


class _Spellings:
    """One secret as it appears in each view."""

    def __init__(self, secret: str) -> None:
        # A secret may look quoted itself; and a form has '+' for a blank.
        both = (secret, secret.replace(" ", "+"))
        self._plain = {form for text in both for form in _forms(text)}
        self._dense = {"".join(text.split()) for text in both}
        data = secret.encode("ascii")
        cores = {_base64_core(data, shift) for shift in range(3)}
        # A form decodes '+' to a blank, which counts as nothing.
        self._base64 = cores | {core.replace("+", "") for core in cores}
        self._hexadecimal = {data.hex()}

    def occurs(self, views: _Views, *, is_cut: bool) -> bool:
        return next(self.places(views, is_cut=is_cut), None) is not None

    def places(self, views: _Views, *, is_cut: bool) -> Iterator[tuple[int, int]]:
        """Yield where it is in the text."""
        for part in _parts(views.dense, self._dense, is_cut=is_cut):
            yield views.place(part, _BLANK)
        for part in _parts(views.plain, self._plain, is_cut=is_cut):
            yield views.place(part, _UNIT)
        for part in _parts(views.hexadecimal, self._hexadecimal, is_cut=is_cut):
            yield views.place(part, _UNIT, _HEX_SEPARATORS)
        for part in _parts(views.base64, self._base64, is_cut=is_cut):
            first, last = views.place(part, _UNIT)
            # The characters next to it have some bits of the secret, and the rest is its user.
            before = views.raw[max(first - _MAX_NEXT_CHARACTERS, 0) : first]
            after = views.raw[last : last + _MAX_NEXT_CHARACTERS]
            first -= len(before) - len(before.rstrip(_BASE64_CHARACTERS))
            yield first, last + len(after) - len(after.lstrip(_BASE64_CHARACTERS))


def _parts(text: str, words: Iterable[str], *, is_cut: bool) -> Iterator[tuple[int, int]]:
    """Yield where words are in a text, and where its end is the beginning of one."""
    for word in words:
        at = text.find(word)
        while at >= 0:
            yield at, at + len(word)
            at = text.find(word, at + 1)
        if is_cut:
            for size in range(min(len(word) - 1, len(text)), MIN_BEGINNING_CHARACTERS - 1, -1):
                if text.endswith(word[:size]):
                    yield len(text) - size, len(text)
                    break


def _forms(secret: str) -> tuple[str, str]:
    """Return what a secret is in a text whose units are replaced, quoted there and plain."""
    plain, quoted = _UNIT.sub(_character, secret), "".join(secret.split())
    return plain.rstrip(_JOINING), quoted.rstrip(_JOINING)


def _units(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, int, str]]:
    """Yield begin, end and character of each unit of a text; '' for a blank."""
    at = 0
    for found in pattern.finditer(text):
        yield from ((place, place + 1, text[place]) for place in range(at, found.start()))
        yield found.start(), found.end(), _character(found)
        at = found.end()
    yield from ((place, place + 1, text[place]) for place in range(at, len(text)))


def _character(found: re.Match[str]) -> str:
    """Return the character that a unit stands for; '' for a blank."""
    unit = found[0]
    if unit[0] == "%":
        character = chr(int(unit[-2:], 16))
    elif unit[0] == "&":
        character = html.unescape(unit)
    elif unit[0] == "\\":
        rest = unit.lstrip("\\")
        if rest in _ESCAPED_BLANKS:
            return ""
        character = chr(int(rest[1:], 16)) if len(rest) > 1 else rest or "\\"
    else:
        return ""
    return "" if character.isspace() else character


def _base64_core(data: bytes, shift: int) -> str:
    """Return the characters of base64 that data alone determine, after so many other bytes."""
    encoded = base64.b64encode(b"\0" * shift + data).decode("ascii")
    return encoded[-(-8 * shift // 6) : 8 * (shift + len(data)) // 6]
