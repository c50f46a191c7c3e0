r"""Redactor: replaces every configured secret, in every spelling, in a text from outside.

A mail server or receiver may repeat what it was sent: in plain, in base64 (as in AUTH PLAIN, and in
Basic authentication, where a user's name precedes it), quoted for a URL, JSON, HTML or a mail, in
UTF-16, in upper case, as numbers, wrapped, in several lines, shortened, or several of these at
once. A text is decoded until nothing is left to decode, and so is the secret: one comparison finds
them all. What enters by the clients of SMTP and HTTP passes here before it is cut, stored, logged
or shown; the log passes here once more.

Source: RFC 4648 (base64, base64url, hex), RFC 3986, 2.1 (%XX), RFC 8259, 7 (JSON), RFC 2045, 6.7
(quoted-printable), RFC 2047, 4.2 (Q), RFC 4616 (PLAIN), RFC 7617 (Basic), RFC 5321, 4.2.1 (replies
of several lines), RFC 2034, 4 (each of them with an enhanced code).
Limits: secrets are ASCII, as the loader requires. Encrypted, compressed and hashed ones are not
recognized, nor base64 of base64, nor one with other visible characters between its own.
"""

from __future__ import annotations

import base64
import functools
import html
import os
import re
import string
import sys
from typing import TYPE_CHECKING

from iowarden.daemon.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MARK = "<secret>"
MIN_CHARACTERS = 6
"""A shorter secret would be part of many words, which would be replaced with it."""
MIN_BEGINNING_CHARACTERS = 4
"""So much of a secret where a text was cut is replaced as well."""
MAX_SECRETS = 256
"""Of the present and earlier configurations; the newest ones."""
_MAX_LEVELS = 6
"""So often a text is decoded: who quotes more often hides it from people as well."""
_INVISIBLE = r"\x00-\x1a\x1c-\x1f\x7f-\xa0\xad\u200b-\u200f\u2028-\u202f\u2060-\u2064\ufeff"
_NOTHING = rf"""\r?\n(?:[0-9]{{3}}[ -])?(?:[245]\.[0-9]{{1,3}}\.[0-9]{{1,3}}[ ])?
    |\x1b(?:\[[0-9;]*[A-Za-z])?|[\s{_INVISIBLE}]+"""
"""What a secret may be wrapped by: the next line of a reply by SMTP, a colour, NUL of UTF-16."""
_BLANK = re.compile(_NOTHING, re.VERBOSE)
_UNIT = re.compile(
    rf"""%(?:25)*(?:[0-9A-Fa-f]{{2}}|u[0-9A-Fa-f]{{4}})           # URL, also quoted repeatedly
    |\\+(?:u[0-9A-Fa-f]{{4}}|U[0-9A-Fa-f]{{8}}|x[0-9A-Fa-f]{{2}}  # JSON, Python, C, also repeatedly
        |[ux]\{{[0-9A-Fa-f]{{1,6}}\}}|[0-7]{{3}}|[abfnrtv]
        |%(?![0-9A-Fa-fu])|&(?![\#A-Za-z])|[!-$'-/:-@\[\]-`{{-~])?
    |&(?:amp;)*(?:\#(?:[0-9]{{1,20}}|[xX][0-9A-Fa-f]{{1,20}});?|[A-Za-z][A-Za-z0-9]{{1,30}};)
    |{_NOTHING}""",
    re.VERBOSE,
)
"""What one character may be written as."""
_QUOTED_PRINTABLE = re.compile(
    r"=(?:[0-9A-Fa-f]{2}|[ \t]*(?:\r?\n|(?:\\+r)?\\+n)(?:[0-9]{3}[ -])?)"
)
"""Apart from the others: '=ab' is also the beginning of a value."""
_CUT_UNIT = re.compile(
    r"(?:%(?:25)*(?:u?[0-9A-Fa-f]{0,3})?|\\+(?:[uUx]\{?[0-9A-Fa-f]{0,7}|[0-7]{1,2})?"
    r"|&(?:amp;)*\#?[0-9A-Za-z]{0,20}|=(?:[0-9A-Fa-f]?|[ \t]*[\\r]{0,9}\r?(?:\n[0-9]{0,3})?)"
    r"|\r?\n[0-9 .-]{0,16}|\r|\.+|\*+|\[[.\u2026]*)\Z"
)
"""The beginning of a unit, at the end of a text that was cut; in its last characters."""
_MAX_UNIT_CHARACTERS = 64
_SHORTENED = re.compile(r"\.\.|\u2026|\*\*|\[\.|\[\u2026")
"""What a server writes for the rest of a text that it cut."""
_JOINING = "\\%&="
"""At the end of a secret it may be read as one unit with what follows."""
_ESCAPED_BLANKS = frozenset("abfnrtv")
_OCTAL = frozenset(string.octdigits)
_FOLDED = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
"""A server may repeat a command in upper case, and a name of a host or path in lower case."""
_BASE64_URL = str.maketrans("-_", "+/")
_HEX_SEPARATOR = re.compile(r"0x(?=[0-9A-Fa-f]{2})|[:,.;_-]")
_DECIMAL_SEPARATOR = re.compile(r"[\s,]+")
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
        start = max(len(text) - _MAX_UNIT_CHARACTERS, 0)
        if is_cut and (partial := _CUT_UNIT.search(text, start)):
            text = text[: partial.start()]
        views = _Views(text)
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


class _View:
    """A text that arose from another one, whose units of a pattern were replaced."""

    def __init__(
        self,
        text: str,
        source: _View | None = None,
        pattern: re.Pattern[str] = _UNIT,
        replaced: Callable[[re.Match[str]], str] = lambda _: "",
    ) -> None:
        """Without another one it is the text from outside."""
        self.text = text
        self.folded = text.translate(_FOLDED)
        self._source = source
        self._pattern = pattern
        self._replaced = replaced

    def with_replaced(
        self, pattern: re.Pattern[str], replaced: Callable[[re.Match[str]], str] = lambda _: ""
    ) -> _View:
        """Return a view in which the units of a pattern are replaced."""
        return _View(pattern.sub(replaced, self.text), self, pattern, replaced)

    @functools.cached_property
    def places(self) -> list[tuple[int, int]]:
        """Begin and end of each character in the text from outside."""
        if self._source is None:
            return [(at, at + 1) for at in range(len(self.text))]
        before, at = self._source.places, 0
        joined: list[tuple[int, int]] = []
        for unit in self._pattern.finditer(self._source.text):
            joined += before[at : unit.start()]
            place = (before[unit.start()][0], before[unit.end() - 1][1])
            joined += [place] * len(self._replaced(unit))
            at = unit.end()
        return joined + before[at:]


class _Views:
    """A text in the forms in which spellings of a secret are equal."""

    def __init__(self, text: str) -> None:
        self.raw = text
        whole = _View(text)
        # Not only decoded: of '100%ab' the first characters would be read as a unit.
        self.plain = [whole.with_replaced(_BLANK), _decoded(whole)]
        if _QUOTED_PRINTABLE.search(text):
            self.plain.append(_decoded(whole.with_replaced(_QUOTED_PRINTABLE, _octet)))
        self.hexadecimal = [view.with_replaced(_HEX_SEPARATOR) for view in self.plain]
        self.decimal = whole.with_replaced(_DECIMAL_SEPARATOR, lambda _: ",")


class _Spellings:
    """One secret as it appears in each view; in lower case."""

    def __init__(self, secret: str) -> None:
        # A secret may look quoted itself; a form has '+' for a blank, a header of a mail '_'.
        forms = (secret, secret.replace(" ", "+"), secret.replace(" ", "_"))
        self._plain = {form.translate(_FOLDED) for text in forms for form in _forms(text)}
        plain = secret.encode("ascii")
        # UTF-16 by hand: Python would read the module of a codec from the disk here.
        little = b"".join(bytes((code, 0)) for code in plain)
        encoded = (plain, little, b"\0" + little[:-1])
        cores = {_base64_core(data, shift) for data in encoded for shift in range(3)}
        # A form decodes '+' to a blank, which counts as nothing.
        cores |= {core.replace("+", "") for core in cores}
        self._base64 = {core.translate(_FOLDED) for core in cores}
        self._hexadecimal = {data.hex() for data in encoded}
        self._decimal = {",".join(map(str, data)) for data in encoded}

    def places(self, views: _Views, *, is_cut: bool) -> Iterator[tuple[int, int]]:
        """Yield where it is in the text."""
        for view, words in (
            *((view, self._plain) for view in views.plain),
            *((view, self._hexadecimal) for view in views.hexadecimal),
            (views.decimal, self._decimal),
        ):
            for begin, end in _parts(view.folded, words, is_cut=is_cut):
                yield view.places[begin][0], view.places[end - 1][1]
        for view in views.plain:
            standard = view.folded.translate(_BASE64_URL)
            for begin, end in _parts(standard, self._base64, is_cut=is_cut):
                first, last = view.places[begin][0], view.places[end - 1][1]
                # The characters next to it have some bits of the secret, and the rest is its user.
                before = views.raw[max(first - _MAX_NEXT_CHARACTERS, 0) : first]
                after = views.raw[last : last + _MAX_NEXT_CHARACTERS]
                first -= len(before) - len(before.rstrip(_BASE64_CHARACTERS))
                yield first, last + len(after) - len(after.lstrip(_BASE64_CHARACTERS))


def _parts(text: str, words: Iterable[str], *, is_cut: bool) -> Iterator[tuple[int, int]]:
    """Yield where words are in a text, and where it was cut within one."""
    for word in words:
        beginning = word[:MIN_BEGINNING_CHARACTERS]
        at = text.find(beginning)
        while at >= 0:
            pair = (word, text[at : at + len(word)])
            end = at + len(os.path.commonprefix(pair))  # noqa: RUF071 - by characters
            is_whole = end - at == len(word)
            if is_whole or (is_cut and end == len(text)) or _SHORTENED.match(text, end):
                yield at, end
            at = text.find(beginning, at + 1)


def _forms(secret: str) -> Iterator[str]:
    """Yield what a secret is in a text that is decoded as far as it can be, or less far."""
    yield _BLANK.sub("", secret)
    for text in (secret, _QUOTED_PRINTABLE.sub(_octet, secret)):
        form = _decoded(_View(text)).text.rstrip(_JOINING)
        yield _CUT_UNIT.sub("", form).rstrip(_JOINING)


def _decoded(view: _View) -> _View:
    """Return a view without units."""
    for _ in range(_MAX_LEVELS):
        after = view.with_replaced(_UNIT, _character)
        if after.text == view.text:
            break
        view = after
    return view


def _octet(unit: re.Match[str]) -> str:
    """Return the character that a unit of quoted-printable stands for; '' for a line end."""
    digits = unit[0][1:]
    return chr(int(digits, 16)) if re.fullmatch("[0-9A-Fa-f]{2}", digits) else ""


def _character(unit: re.Match[str]) -> str:
    """Return the character that a unit stands for; '' for a blank."""
    text = unit[0]
    if text[0] == "%":
        character = _of_code(text.rpartition("u")[2] if "u" in text else text[-2:], 16)
    elif text[0] == "&":
        character = html.unescape("&" + text[1:].replace("amp;", "") if len(text) > 5 else text)
    elif text[0] == "\\":
        rest = text.lstrip("\\")
        if rest in _ESCAPED_BLANKS:
            return ""
        if rest[:1] in _OCTAL:
            character = _of_code(rest, 8)
        else:
            character = _of_code(rest[1:].strip("{}"), 16) if len(rest) > 1 else rest or "\\"
    else:
        return ""
    return _BLANK.sub("", character)


def _of_code(digits: str, base: int) -> str:
    code = int(digits, base)
    return chr(code) if code <= sys.maxunicode else ""


def _base64_core(data: bytes, shift: int) -> str:
    """Return the characters of base64 that data alone determine, after so many other bytes."""
    encoded = base64.b64encode(b"\0" * shift + data).decode("ascii")
    return encoded[-(-8 * shift // 6) : 8 * (shift + len(data)) // 6]
