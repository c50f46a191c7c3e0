r"""Redactor: replaces every configured secret, in every spelling, in a text from outside.

A mail server or receiver may repeat what it was sent: in plain, in base64 (as in AUTH PLAIN, and in
Basic authentication, where a user's name precedes it), quoted for a URL, JSON, HTML or a mail, in
UTF-16, in upper case, as numbers, wrapped, in several lines, with marks before them, as a dump,
shortened, or several of these at once. A text is decoded until nothing is left to decode, and so is
the secret: one comparison finds them all. What base64 and hex in it decode to is a text again, also
when that has base64 itself, as an error document that a gateway encodes with the request's header
in it. What enters by the clients of SMTP and HTTP passes here before it is cut, stored, logged or
shown; the log passes here once more.

Source: RFC 4648 (base64, base64url, base32, hex), xxd(1), hexdump(1), od(1) (dumps), RFC 3986, 2.1
(%XX), RFC 8259, 7 (JSON), RFC 2045, 6.7 (quoted-printable), RFC 2047, 4.2 (Q), RFC 4616 (PLAIN),
RFC 7617 (Basic), RFC 5321, 4.2.1 (replies of several lines), RFC 2034, 4 (each of them with an
enhanced code).
Limits: secrets are ASCII, as the loader requires. Encrypted, compressed and hashed ones are not
recognized, nor what is encoded more than three times in base64 or hex, nor twice if its case was
changed, nor twice with base32 last, nor less than the half of one, nor one with other visible
characters between its own.
"""

from __future__ import annotations

import base64
import functools
import html
import itertools
import os
import re
import string
import sys
from typing import TYPE_CHECKING, NamedTuple

from iowarden.daemon.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MARK = "<secret>"
MIN_CHARACTERS = 6
"""A shorter secret would be part of many words, which would be replaced with it."""
MIN_BEGINNING_CHARACTERS = 4
"""So much of a secret where a text was cut is replaced as well, and more than its half anywhere: a
server may cut what it repeats, at either end, without a mark."""
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
    |&(?:amp;)*(?:\#(?:[0-9]{{1,20}};|[xX][0-9A-Fa-f]{{1,20}};
        |0{{0,18}}(?:1[01][0-9]|12[0-6]|3[2-9]|[4-9][0-9])|[xX]0{{0,18}}[2-7][0-9A-Fa-f]
        |[0-9]{{1,20}}|[xX][0-9A-Fa-f]{{1,20}})|[A-Za-z][A-Za-z0-9]{{1,30}};)
    |{_NOTHING}""",
    re.VERBOSE,
)
"""What one character may be written as; of HTML without a semicolon a digit may follow."""
_LINE = r"""(?:\r?\n|(?:\\{1,8}r)?\\{1,8}n)[ \t]*
    (?:(?:[>|\#*:;!]|//|--|[0-9]{3}[ -]|[245]\.[0-9]{1,3}\.[0-9]{1,3}[ ])[ \t]*)"""
"""A line and what may precede its text: a quotation's mark, a comment's, a reply's code."""
_LINE_PREFIX = re.compile(f"{_LINE}+", re.VERBOSE)
_DUMP_OFFSET = rf"{_LINE}*(?:0x)?[0-9A-Fa-f]{{4,16}}(?::[ \t]*|[ \t]+)"
_DUMPS = tuple(
    re.compile(between, re.VERBOSE)
    for between in (
        _DUMP_OFFSET,
        # Of xxd two blanks precede the characters of a line, of hexdump -C and od -tx1z marks too.
        r"(?<![ ])[ ]{2,4}(?:\|[^\n]{1,16}\||>[^\n]{1,16}<|[^\n]{1,16})" + _DUMP_OFFSET,
        *(
            rf"{mark}{_DUMP_OFFSET}(?:[0-9A-Fa-f]{{2,8}}[ \t]{{1,2}}){{1,16}}[ ]{{0,60}}[|>]?"
            for mark in ("", "[|<]")
        ),
    )
)
"""Between the bytes of two lines of a dump, and between the characters next to them."""
_SOFT_BREAK = re.compile(r"=[ \t]*(?:\r?\n|(?:\\+r)?\\+n)(?:[0-9]{3}[ -])?")
_QUOTED_PRINTABLE = re.compile(rf"=[0-9A-Fa-f]{{2}}|{_SOFT_BREAK.pattern}")
"""Apart from the others: '=ab' is also the beginning of a value, even of one that is wrapped."""
_CUT_UNIT = re.compile(
    r"(?:%(?:25)*(?:u?[0-9A-Fa-f]{0,3})?|\\+(?:[uUx]\{?[0-9A-Fa-f]{0,7}|[0-7]{1,2})?"
    r"|&(?:amp;)*\#?[0-9A-Za-z]{0,20}|=(?:[0-9A-Fa-f]?|[ \t]*[\\r]{0,9}\r?(?:\n[0-9]{0,3})?)"
    r"|\r?\n[0-9 .-]{0,16}|\r|\.+|\*+|\[[.\u2026]*)\Z"
)
"""The beginning of a unit, at the end of a text that was cut; in its last characters."""
_MAX_UNIT_CHARACTERS = 64
_SHORTENED = re.compile(r"\.\.|\u2026|\*\*|\[\.|\[\u2026")
"""What a server writes for the rest of a text that it cut."""
_SHORTENED_BEFORE = re.compile(r"(?:\.\.|\u2026|\*\*)\]?\Z")
"""And in place of its beginning."""
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
_MAX_ENCODINGS = 2
"""So often base64 and hex of a text are decoded; a secret is compared with base64 and hex again."""
_MAX_DECODED = 16
"""Times the size of a text that is decoded: a server could send what has many readings."""
_READABLE = re.compile(r"(?:[ -~]\0?){8}|(?:[ -~]\0?){4}\Z")
"""What has no such part is no text: not base64, or not from this character on."""


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
        places = [
            place
            for views in _with_decoded(_Views(text, _View(text), is_cut=is_cut))
            for spelling in self._spellings
            for place in spelling.places(views)
        ]
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
    """A text that arose from the text from outside."""

    def __init__(
        self, text: str, find_places: Callable[[], list[tuple[int, int]]] | None = None
    ) -> None:
        """Without a function that returns its places it is the text from outside."""
        self.text = text
        self.folded = text.translate(_FOLDED)
        self._find_places = find_places

    def with_replaced(
        self, pattern: re.Pattern[str], replaced: Callable[[re.Match[str]], str] = lambda _: ""
    ) -> _View:
        """Return a view in which the units of a pattern are replaced."""

        def places() -> list[tuple[int, int]]:
            before, at = self.places, 0
            joined: list[tuple[int, int]] = []
            for unit in pattern.finditer(self.text):
                joined += before[at : unit.start()]
                place = (before[unit.start()][0], before[unit.end() - 1][1])
                joined += [place] * len(replaced(unit))
                at = unit.end()
            return joined + before[at:]

        return _View(pattern.sub(replaced, self.text), places)

    def decoded(self, encoding: _Encoding, begin: int, end: int) -> _View:
        """Return what a part of it is the encoding of."""
        text = encoding.decode(self.text[begin:end])

        def places() -> list[tuple[int, int]]:
            bits = [begin * encoding.bits + 8 * at for at in range(len(text))]
            outer = self.places
            return [
                (outer[bit // encoding.bits][0], outer[(bit + 7) // encoding.bits][1])
                for bit in bits
            ]

        return _View(text, places)

    @functools.cached_property
    def places(self) -> list[tuple[int, int]]:
        """Begin and end of each character in the text from outside."""
        if self._find_places is None:
            return [(at, at + 1) for at in range(len(self.text))]
        return self._find_places()


class _Views:
    """A text in the forms in which spellings of a secret are equal."""

    def __init__(self, raw: str, whole: _View, *, is_cut: bool) -> None:
        """`raw` is the text from outside, `whole` that or a decoded part of it."""
        self.raw = raw
        self.is_cut = is_cut
        # Not only decoded: of '100%ab' the first characters would be read as a unit.
        self.plain = [whole.with_replaced(_BLANK), _decoded(whole)]
        for pattern in (_QUOTED_PRINTABLE, _SOFT_BREAK):
            if pattern.search(whole.text):
                self.plain.append(_decoded(whole.with_replaced(pattern, _octet)))
        # A secret may itself begin with such a mark after a line's end.
        between = [pattern for pattern in (_LINE_PREFIX, *_DUMPS) if pattern.search(whole.text)]
        for view in map(whole.with_replaced, between):
            self.plain += [view.with_replaced(_BLANK), _decoded(view)]
        self.hexadecimal = [view.with_replaced(_HEX_SEPARATOR) for view in self.plain]
        lists = (whole, *(whole.with_replaced(pattern, lambda _: " ") for pattern in between))
        self.decimal = [view.with_replaced(_DECIMAL_SEPARATOR, lambda _: ",") for view in lists]

    def decoded(self) -> Iterator[_Views]:
        """Yield what its base64 and hex may be the encoding of, from each character on."""
        for encoding, views in ((_BASE64, self.plain), (_HEXADECIMAL, self.hexadecimal)):
            # Mostly nothing is quoted, and the views are equal.
            for view in {view.text: view for view in views}.values():
                for run in encoding.run.finditer(view.text):
                    is_at_end = self.is_cut and run.end() == len(view.text)
                    is_cut = is_at_end or bool(_SHORTENED.match(view.text, run.end()))
                    for begin in range(run.start(), run.start() + encoding.alignments):
                        inner = view.decoded(encoding, begin, run.end())
                        if _READABLE.search(inner.text):
                            yield _Views(self.raw, inner, is_cut=is_cut)


def _with_decoded(whole: _Views) -> Iterator[_Views]:
    """Yield the views of a text, and of what is encoded in it, within the limits."""
    present, rest = [whole], _MAX_DECODED * len(whole.raw)
    yield whole
    for _ in range(_MAX_ENCODINGS):
        outer, present = present, []
        for views in itertools.chain.from_iterable(each.decoded() for each in outer):
            rest -= len(views.plain[0].text)
            if rest < 0:
                return
            present.append(views)
            yield views


class _Encoding(NamedTuple):
    """How bytes are written in a text."""

    run: re.Pattern[str]
    """Long enough for the shortest secret, encoded twice."""
    alignments: int
    """Characters of which one begins a group of bytes."""
    bits: int
    """Of one character."""
    decode: Callable[[str], str]
    """Return the text of a run, of one character a byte."""


def _of_base64(run: str) -> str:
    size = len(run) - (len(run) % 4 == 1)
    padded = run[:size].translate(_BASE64_URL) + "=" * (-size % 4)
    return base64.b64decode(padded).decode("latin-1")


def _of_hexadecimal(run: str) -> str:
    return bytes.fromhex(run[: len(run) // 2 * 2]).decode("latin-1")


_BASE64 = _Encoding(re.compile(r"[A-Za-z0-9+/_-]{11,}"), 4, 6, _of_base64)
_HEXADECIMAL = _Encoding(re.compile(r"[0-9A-Fa-f]{12,}"), 2, 4, _of_hexadecimal)


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
        cores = {
            _core(base64.b64encode(b"\0" * shift + data), 6, shift, len(data))
            for data in encoded
            for shift in range(3)
        }
        # A form decodes '+' to a blank, which counts as nothing.
        cores |= {core.replace("+", "") for core in cores}
        self._base64 = {core.translate(_FOLDED) for core in cores}
        self._base32 = {
            _core(encode(b"\0" * shift + plain), 5, shift, len(plain)).translate(_FOLDED)
            for encode in (base64.b32encode, base64.b32hexencode)
            for shift in range(5)
        }
        # hexdump and od show words of two bytes, the first byte last.
        words = {_swapped(plain[shift:]) for shift in range(2)}
        self._hexadecimal = {data.hex() for data in {*encoded, *words}}
        self._decimal = {",".join(map(str, data)) for data in encoded}

    def places(self, views: _Views) -> Iterator[tuple[int, int]]:
        """Yield where it is in the text."""
        is_cut = views.is_cut
        for view, words in (
            *((view, self._plain) for view in views.plain),
            *((view, self._hexadecimal) for view in views.hexadecimal),
            *((view, self._decimal) for view in views.decimal),
        ):
            for begin, end in _parts(view.folded, words, is_cut=is_cut):
                yield view.places[begin][0], view.places[end - 1][1]
        for view, words in itertools.product(views.plain, (self._base64, self._base32)):
            standard = view.folded.translate(_BASE64_URL)
            for begin, end in _parts(standard, words, is_cut=is_cut):
                first, last = view.places[begin][0], view.places[end - 1][1]
                # The characters next to it have some bits of the secret, and the rest is its user.
                before = views.raw[max(first - _MAX_NEXT_CHARACTERS, 0) : first]
                after = views.raw[last : last + _MAX_NEXT_CHARACTERS]
                first -= len(before) - len(before.rstrip(_BASE64_CHARACTERS))
                yield first, last + len(after) - len(after.lstrip(_BASE64_CHARACTERS))


def _parts(text: str, words: Iterable[str], *, is_cut: bool) -> Iterator[tuple[int, int]]:
    """Yield where words are in a text, most of one, and where it was cut within one."""
    for word in words:
        most = max(MIN_CHARACTERS, len(word) // 2 + 1)
        for begin in _occurrences(text, word[:MIN_BEGINNING_CHARACTERS]):
            end = begin + _common(word, text[begin : begin + len(word)])
            is_at_cut = (is_cut and end == len(text)) or _SHORTENED.match(text, end)
            if end - begin >= most or is_at_cut:
                yield begin, end
        for at in _occurrences(text, word[-MIN_BEGINNING_CHARACTERS:]):
            end = at + MIN_BEGINNING_CHARACTERS
            begin = end - _common(word[::-1], text[max(end - len(word), 0) : end][::-1])
            if end - begin >= most or _SHORTENED_BEFORE.search(text[max(begin - 3, 0) : begin]):
                yield begin, end


def _occurrences(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _common(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    return len(os.path.commonprefix((one, other)))  # noqa: RUF071 - by characters


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


def _core(encoded: bytes, bits: int, shift: int, size: int) -> str:
    """Return the characters that data of a size alone determine, after so many other bytes."""
    return encoded.decode("ascii")[-(-8 * shift // bits) : 8 * (shift + size) // bits]


def _swapped(data: bytes) -> bytes:
    """Return data with the bytes of each whole word exchanged."""
    whole = data[: len(data) // 2 * 2]
    return bytes(code for pair in zip(whole[1::2], whole[::2], strict=True) for code in pair)
