"""Spellings of a secret that servers repeat, and a search for them that decodes what it reads."""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import html
import html.entities
import itertools
import json
import quopri
import re
import sys
import textwrap
import urllib.parse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_USERS = ("", "u:", "us:", "usr:", "\0u\0", "\0us\0", "\0usr\0", "a\0relay@example.com\0")
"""What precedes a password: each alignment to base64's groups of three bytes."""
_ENDS = ("", "x", "xy", "\n")
"""What follows it: each padding."""
_WRAPS = (
    *("\r\n", "\n", "\r\n ", "\n\t", "\r\n250-", "\n535 ", " ", r"\r\n", r"\n"),
    *("\r\n535-5.7.8 ", "\n5.7.8 "),  # RFC 2034; and as smtplib joins them
)
_NAMED = {ord(text): f"&{name}" for name, text in html.entities.html5.items() if len(text) == 1}
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
    yield from _encoded_again(secret)
    yield from _quoted(secret)
    yield from _of_a_mail(secret)
    yield from _of_programs(secret)
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


def in_lines(secret: str) -> Iterator[tuple[str, str]]:
    """Yield what is quoted or commented line by line, and what programs show as a dump."""
    whole = f"some bytes {secret} and more".encode()
    encoded = base64.b64encode(whole).decode()
    for mark in _LINE_MARKS:
        yield f"base64 wrapped by {mark!r}", _wrapped(encoded, 20, mark)
        yield f"hex wrapped by {mark!r}", _wrapped(whole.hex(), 16, mark)
        if " " not in secret and "\\" not in secret:
            yield f"plain wrapped by {mark!r}", _wrapped(secret, 7, mark)
    for shift in range(5):
        data = b"users"[:shift] + secret.encode() + b"x"
        yield f"base32 after {shift}", base64.b32encode(data).decode()
        yield f"base32hex after {shift}", base64.b32hexencode(data).decode().lower()
        for name, line in _DUMP_LINES.items():
            lines = [line(at, data[at : at + 16]) for at in range(0, len(data), 16)]
            yield f"{name} after {shift}", "\n".join(lines)


_LINE_MARKS = (
    "\n> ",
    "\r\n| ",
    "\r\n550-",
    "\r\n550 ",
    "\n>> > ",
    "\n# ",
    "\n * ",
    "\n// ",
    r"\n> ",
)
"""What precedes a line in a mail's quotation, a reply, a comment."""


def _shown(data: bytes) -> str:
    return "".join(chr(code) if 32 <= code < 127 else "." for code in data)


def _pairs(data: bytes, *, is_swapped: bool) -> str:
    pairs = [data[at : at + 2] for at in range(0, len(data), 2)]
    return " ".join((pair[::-1] if is_swapped else pair).hex() for pair in pairs)


_DUMP_LINES: dict[str, Callable[[int, bytes], str]] = {
    "xxd": lambda at, data: f"{at:08x}: {_pairs(data, is_swapped=False):<39}  {_shown(data)}",
    "hexdump -C": lambda at, data: f"{at:08x}  {data.hex(' '):<48}  |{_shown(data)}|",
    "hexdump": lambda at, data: f"{at:07x} {_pairs(data, is_swapped=True)}",
    "od -tx1z": lambda at, data: f"{at:07o} {data.hex(' '):<47}  >{_shown(data)}<",
    "od -c": lambda at, data: f"{at:07o} " + "".join(f"{chr(code):>4}" for code in data),
    "od -tu1": lambda at, data: f"{at:07o} " + " ".join(f"{code:3d}" for code in data),
}
"""Source: xxd(1), hexdump(1), od(1); a line of each as Debian 13's programs print it."""


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


def _encoded_again(secret: str) -> Iterator[tuple[str, str]]:
    """Yield what is base64 or hex of another spelling, as a document that a gateway encodes."""
    pair = base64.b64encode(f"relay:{secret}".encode()).decode()
    inner = {
        "base64": pair,
        "base64url": pair.replace("+", "-").replace("/", "_").rstrip("="),
        "a header": json.dumps({"headers": {"Authorization": f"Basic {pair}"}}),
        "a wrapped header": f"Authorization: Basic\r\n {_wrapped(pair, 20, chr(13) + chr(10))}",
        "a URL": f"https://hooks.example.com/x?key={urllib.parse.quote(secret, safe='')}&a=b",
        "JSON": json.dumps({"key": secret, "code": 3}),
        "hex": f"key={secret.encode().hex()};",
        "UTF-16": f"key={secret};".encode("utf-16-le").decode("latin-1"),
    }
    for (name, text), user in zip(inner.items(), itertools.cycle(("", "u", "us")), strict=False):
        data = f"{user}{text}".encode("latin-1")
        again = base64.b64encode(data).decode()
        yield f"{name} in base64", again
        yield f"{name} in base64url", base64.urlsafe_b64encode(data).decode()
        yield f"{name} in wrapped base64", _wrapped(again, 76, "\r\n")
        yield f"{name} in base64 in base64", base64.b64encode(b"a " + again.encode()).decode()
        yield f"{name} in hex", data.hex()


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
    yield "HTML, every character in zeros", "".join(f"&#{code:09d};" for code in each)
    yield "HTML without semicolons", "".join(f"&#{code}" for code in each)
    yield "HTML by names", "".join(_NAMED.get(code, chr(code)) for code in each)
    yield "HTML in HTML", html.escape(html.escape(secret))
    yield "HTML, every character, in HTML", "".join(f"&amp;#{code};" for code in each)
    yield "HTML in a URL", urllib.parse.quote("".join(f"&#{code};" for code in each), safe="")
    yield "URL in HTML", html.escape(urllib.parse.quote(secret, safe=""))
    yield "JSON in a URL", urllib.parse.quote(json.dumps(secret)[1:-1], safe="")
    yield "JSON in HTML", html.escape(json.dumps(secret)[1:-1])
    yield "URL, three times", functools.reduce(_url, range(3), secret)
    yield (
        "every second character quoted",
        "".join(
            f"%{ord(character):02x}" if number % 2 else character
            for number, character in enumerate(secret)
        ),
    )


def _of_a_mail(secret: str) -> Iterator[tuple[str, str]]:
    each = secret.encode()
    yield "quoted-printable", quopri.encodestring(each).decode()
    for form in ("02X", "02x"):
        yield f"quoted-printable, {form}", "".join(f"={code:{form}}" for code in each)
    for end in ("=\r\n", "=\n", "=\r\n250-", r"=\r\n"):
        if "\\" not in secret and "=" not in secret:
            yield f"quoted-printable, wrapped by {end!r}", _wrapped(secret, 7, end)
    yield (
        "encoded word",
        "".join(chr(code) if chr(code).isalnum() else f"={code:02X}" for code in each).replace(
            "=20", "_"
        ),
    )


def _of_programs(secret: str) -> Iterator[tuple[str, str]]:
    each = secret.encode()
    yield r"\u{}", "".join(rf"\u{{{code:x}}}" for code in each)
    yield r"\x{}", "".join(rf"\x{{{code:x}}}" for code in each)
    yield r"\U", "".join(rf"\U{code:08x}" for code in each)
    yield "octal", "".join(f"\\{code:03o}" for code in each)
    yield "%u", "".join(f"%u{code:04x}" for code in each)
    for name in ("utf-16-le", "utf-16-be", "utf-32-le"):
        yield name, secret.encode(name).decode()
    yield "base64 of UTF-16", base64.b64encode(secret.encode("utf-16-le")).decode()
    yield "hex of UTF-16", secret.encode("utf-16-le").hex()
    for name, text in (("NUL", "\0"), ("zero width", "\u200b"), ("colour", "\x1b[0;31m")):
        yield f"{name} between its characters", text.join(secret)
    yield "hex by 0x", ", ".join(f"0x{code:02x}" for code in each)
    yield "numbers by commas", ", ".join(map(str, each))
    yield "numbers by blanks", " ".join(map(str, each))
    yield "upper case", secret.upper()
    if len(secret) >= PART_CHARACTERS + 4:
        for end in ("...", "\u2026", "**", "[...]"):
            yield f"shortened by {end}", secret[:-3] + end


def _url(text: str, _: int = 0) -> str:
    return urllib.parse.quote(text, safe="")


def _wrapped(text: str, width: int, end: str) -> str:
    return end.join(text[at : at + width] for at in range(0, len(text), width))


def reveals_in_lines(text: str, secret: str) -> bool:
    """Whether a text of `in_lines` has such a part, in plain or as its program would be read."""
    decoded = (_dense(form) for form in (*_of_dumps(text), *_of_base32(text)))
    return any(reveals(form, secret) for form in (text, *decoded))


def reveals(text: str, secret: str) -> bool:
    """Whether a text has the beginning or the end of a secret, in plain or after decoding."""
    parts = {_dense(secret[:PART_CHARACTERS]), _dense(secret[-PART_CHARACTERS:]), _dense(secret)}
    for blank in "+_":
        parts |= {part.replace(" ", blank) for part in (secret[:PART_CHARACTERS], secret)}
    return any(part.upper() in form for form in _forms(text) for part in parts)


@functools.lru_cache(64)
def _forms(text: str) -> tuple[str, ...]:
    unwrapped = re.sub(r"\r?\n(?:[0-9]{3}[ -])?(?:[245]\.[0-9]\.[0-9] )?", "", text)
    plain = [text, unwrapped, re.sub(r"(?:\\r)?\\n", "", unwrapped)]
    plain.append(re.sub("\x1b\\[[0-9;]*m", "", text))
    plain += [re.sub(r"(?:\r?\n|\\n) ?(?:>> > |[>|#*]+ |// |550[ -])", "", text)]
    plain += [re.sub(r"=[ \t]*(?:\r?\n(?:[0-9]{3}[ -])?|\\r\\n)", "", text)]
    decoded = {decode(each) for each in plain for decode in _DECODERS}
    decoded |= {_of_numbers(text)}
    dense = tuple({_dense(each) for each in decoded})
    runs = {part for each in dense for part in _decoded_runs(each)}
    again = {part for each in runs for part in _encoded_in(each)}
    thrice = {part for each in again for part in _encoded_in(each)}
    return tuple(form.upper() for form in (*dense, *runs, *again, *thrice))


def _encoded_in(text: str) -> Iterator[str]:
    """Yield what is quoted or encoded in a text that was decoded, if it is one."""
    if re.search("[ -~]{12}", text):
        quoted = (urllib.parse.unquote(text), _unescaped(text))
        yield from (_dense(each) for each in quoted)
        yield from _decoded_runs(text)


def _of_numbers(text: str) -> str:
    """Return the characters that lists of decimals or of 0x.. stand for."""
    numbers = re.findall(r"\b(?:0x[0-9a-f]{2}|[0-9]{2,3})\b", text)
    return "".join(chr(int(number, 0)) for number in numbers if number[0] != "0" or "x" in number)


def _of_dumps(text: str) -> Iterator[str]:
    """Yield what the lines of a dump have: bytes, words with the first byte last, characters."""
    lines = re.findall(r"(?m)(?:^|\[)[0-9a-f]{7,8}:? +(.*)", text)
    parts = [re.match("(?:[0-9a-f]{2,4} {1,2})*[0-9a-f]{0,4}", line)[0] for line in lines]  # type: ignore[index]
    data = ["".join(part.split()) for part in parts]
    whole = bytes.fromhex("".join(part[: len(part) // 2 * 2] for part in data))
    yield whole.decode("latin-1")
    yield "".join(chr(b) + chr(a) for a, b in zip(whole[::2], whole[1::2], strict=False))
    yield "".join(line.rpartition("  ")[2].strip("|><") for line in lines)
    yield "".join("".join(line.split()) for line in lines)
    numbers = " ".join(lines).split()
    yield "".join(chr(int(number)) for number in numbers if re.fullmatch("[0-9]{2,3}", number))


def _of_base32(text: str) -> Iterator[str]:
    for run in re.findall(r"[A-Za-z0-9]{8,}", text):
        for begin, decode in itertools.product(range(8), (base64.b32decode, base64.b32hexdecode)):
            whole = run[begin : begin + (len(run) - begin) // 8 * 8]
            rest = run[begin + len(whole) :]
            for part in (whole + rest.ljust(8, "=") if rest else whole, whole):
                with contextlib.suppress(binascii.Error):
                    yield decode(part, casefold=True).decode("latin-1")


def _unescaped(text: str) -> str:
    return re.sub(
        r"\\+(?:[uUx]\{?([0-9a-fA-F]{8}|[0-9a-fA-F]{4}|[0-9a-fA-F]{2})\}?|([0-7]{3})|([\"'/\\]))",
        lambda unit: unit[3] or (chr(int(unit[2], 8)) if unit[2] else _of_code(unit[1])),
        text,
    )


def _of_code(digits: str) -> str:
    code = int(digits, 16)
    return chr(code) if code <= sys.maxunicode else ""


def _repeatedly(decode: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: functools.reduce(lambda each, _: decode(each), range(3), text)


_DECODERS: tuple[Callable[[str], str], ...] = (
    str,
    urllib.parse.unquote,
    _repeatedly(urllib.parse.unquote),
    urllib.parse.unquote_plus,
    _repeatedly(html.unescape),
    lambda text: html.unescape(urllib.parse.unquote(text)),
    lambda text: urllib.parse.unquote(html.unescape(text)),
    lambda text: _unescaped(urllib.parse.unquote(text)),
    lambda text: _unescaped(html.unescape(text)),
    lambda text: re.sub("%u([0-9a-fA-F]{4})", lambda unit: chr(int(unit[1], 16)), text),
    lambda text: re.sub("=([0-9a-fA-F]{2})", lambda unit: chr(int(unit[1], 16)), text),
    _unescaped,
    lambda text: _unescaped(text.replace(r"\\", "\\")),
    lambda text: text.replace(r"\\", "\\"),
    lambda text: text.replace(r"\\\\", "\\"),
    lambda text: text.replace(" ", "+"),
)


def _dense(text: str) -> str:
    return "".join(re.sub("[\0\u200b]", "", text).split())


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
