"""The redactor: each secret, in each spelling that a server may repeat it in."""

from __future__ import annotations

import base64
import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.spellings import in_lines, reveals, reveals_in_lines, spellings

from iowarden.daemon import redactor
from iowarden.daemon.redactor import MARK, Redactor

SECRETS = (
    "tr0ub4dor-and-3-more",
    "with blanks in it 42",
    "q\"u\\o/t+e&d <%41>'~_n",
    "ends-with-a-backslash\\",
    "????>>>>~~~~????",  # base64: '+' and '/' throughout
    "0123456789abcdef0123456789abcdef",
    "%2B%2f==//++--__ab",
    "C:\\new\\table\\/x41",
    "Z9-z9-",
)
AROUND = (
    "{}",
    "'{}'",
    "535 5.7.8 refused: {}",
    '{{"error": "{}", "code": 3}}',
    "a={}&b=2",
    "x {} y",
)


@pytest.mark.parametrize("secret", SECRETS)
def test_no_spelling_of_a_secret_remains(secret: str) -> None:
    """In a reply that repeats it; of the reply itself all that can be read remains."""
    cleaner = Redactor([secret, "another-secret-of-it"])
    for (name, spelling), around in zip(spellings(secret), itertools.cycle(AROUND), strict=False):
        text = around.format(spelling)
        assert reveals(text, secret), f"the search does not find {name}"
        clean = cleaner.text(text)
        assert not reveals(clean, secret), (name, text, clean)
        assert MARK in clean
        if "535" in around:
            assert clean.startswith("535 5.7.8 refused: ")


@pytest.mark.parametrize("secret", SECRETS)
def test_no_line_of_a_quotation_or_of_a_dump_reveals_a_secret(secret: str) -> None:
    """A mark before each line, the offset of a dump, its characters beside the bytes; base32."""
    cleaner = Redactor([secret, "another-secret-of-it"])
    for name, text in in_lines(secret):
        assert reveals_in_lines(text, secret), f"the search does not find {name}"
        clean = cleaner.text(text)
        assert not reveals_in_lines(clean, secret), (name, text, clean)
        assert MARK in clean, name


@given(
    st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=8, max_size=40),
    st.integers(0, 10_000),
)
def test_no_spelling_of_any_secret_remains(secret: str, number: int) -> None:
    """Whatever characters it has."""
    if redactor.problem(secret):
        return
    all_of_it = list(spellings(secret))
    name, spelling = all_of_it[number % len(all_of_it)]
    clean = Redactor([secret]).text(f"535 5.7.8 [{spelling}]")
    assert spelling not in clean, name
    assert MARK in clean, name


@pytest.mark.parametrize("size", [4, 5, 6, 7, 8, 9, 11, 13, 18, 23, 31, 40, 53, 59, 77])
def test_a_reply_that_is_cut_within_a_secret_shows_no_beginning_of_it(size: int) -> None:
    """A body is read up to a limit; less than four characters are no secret."""
    secret = "tr0ub4dor-and-3-more"
    cleaner = Redactor([secret])
    for _, spelling in spellings(secret):
        clean = cleaner.excerpt(f"got [{spelling[:size]}", 200, is_cut=True)
        assert not reveals(clean, secret)
        assert secret[:4] not in clean


@pytest.mark.parametrize(
    "around", ["535 refused: {}", "bad '{}'", "{} (cut)", "404 /a/{} [truncated]"]
)
@pytest.mark.parametrize("kept", [11, 13, 19])
def test_most_of_a_secret_without_a_mark_of_its_cut_is_replaced(kept: int, around: str) -> None:
    """A server repeats what it was sent less some characters, at either end, in any spelling."""
    secret = "tr0ub4dor-and-3-more"
    cleaner = Redactor([secret])
    base64_pair = base64.b64encode(f"\0relay\0{secret}".encode()).decode()
    for part in (secret[:kept], secret[-kept:]):
        quoted = "".join(f"%{ord(c):02x}" for c in part)
        escaped = "".join(f"\\u{ord(c):04x}" for c in part)
        for spelling in (part, part.upper(), quoted, escaped, part.encode().hex()):
            clean = cleaner.text(around.format(spelling))
            assert clean == around.format(MARK), spelling
    # The last characters of base64 have less than a half of it.
    clean = cleaner.text(around.format(base64_pair[: kept - len(secret) or None]))
    assert MARK in clean
    assert base64_pair[12:24] not in clean


@pytest.mark.parametrize("mark", ["...", "..", "\u2026", "**", "[...]"])
def test_the_end_of_a_secret_behind_the_mark_of_a_cut_is_replaced(mark: str) -> None:
    """Four characters are enough there, as at the other end."""
    assert Redactor(["tr0ub4dor-and-3-more"]).text(f"bad {mark}more") == f"bad {mark}{MARK}"


def test_a_number_may_follow_html_without_a_semicolon_and_wrapped_digits_an_equals_sign() -> None:
    """The next reply's code, of which the last character of the secret would be read as a part."""
    secret = "tr0ub4dor-and-3-more"
    texts = ("".join(f"&#{ord(c)}" for c in secret), "".join(f"&#x{ord(c):x}" for c in secret))
    for text in texts:
        assert Redactor([secret]).text(f"{text}535 refused") == f"{MARK}535 refused"
    assert Redactor(["0123456789abcdef"]).text("key=0123456=\n789abcdef") == f"key={MARK}"


def test_what_is_encoded_in_base64_shows_nothing_of_base64_in_it() -> None:
    """A gateway answers an error document in base64, with the header of the request in it."""
    secret = "tr0ub4dor-and-3-more"
    header = "Basic " + base64.b64encode(f"relay:{secret}".encode()).decode()
    body = base64.b64encode(f'{{"why": "busy", "headers": {{"auth": "{header}"}}}}'.encode())
    cleaner = Redactor([secret])
    for end in range(90, len(body) + 1):
        clean = cleaner.excerpt(body[:end], 400, is_cut=True)
        assert not reveals(clean, secret[:12])
    assert cleaner.text(f"502 {body.decode()} busy") == f"502 {MARK} busy"


def test_an_excerpt_is_cut_after_its_secrets_are_replaced() -> None:
    """Otherwise half of a secret at the limit would no longer be recognized."""
    cleaner = Redactor(["tr0ub4dor-and-3-more"])
    for before in range(30):
        shown = cleaner.excerpt(b"x" * before + b" tr0ub4dor-and-3-more", 30)
        assert "tr0ub" not in shown


def test_a_secret_in_another_and_two_that_overlap_are_replaced_whole() -> None:
    """The password of one server may be the end of that of another."""
    cleaner = Redactor(["abcdef", "xxabcdefyy", "defghi-jkl"])
    assert cleaner.text("1 xxabcdefyy 2 abcdef 3 abcdefghi-jkl 4") == (
        f"1 {MARK} 2 {MARK} 3 {MARK} 4"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "250 2.0.0 Ok: queued as 4WxYzAbCdE",
        "md0: recovery 12.5 % (123/456), /dev/sdb1 [2/1] [U_]",
        "\u00fc\u00df\U0001f511 \udcff \x00\x1b[31m %zz \\ &amp; %",
        "tr0ub4dor-",
        "c2VydmVyIGlzIGJ1c3k=",
        "retry in 10 s... troubled servers: 3 of 7; tr0 and tr0ub4dor",
        "=?utf-8?Q?=41=42?= 116, 114, 48 0x74 0x72 https://a.example/?x=ab%20c&y=%u0041",
    ],
)
def test_a_text_without_a_secret_is_not_changed(text: str) -> None:
    """Not one character of it."""
    assert Redactor(["tr0ub4dor-and-3-more"]).text(text) == text


def test_what_is_too_short_or_none_is_not_learnt_and_an_earlier_secret_stays() -> None:
    """Replies to a request with an earlier one may arrive after a reload."""
    cleaner = Redactor([None, "", "short", "first-secret"])
    cleaner.learn(["second-secret"])
    assert cleaner.text("short first-secret second-secret") == f"short {MARK} {MARK}"
    cleaner.learn(f"number-{number}-of-many" for number in range(2 * redactor.MAX_SECRETS))
    assert len(cleaner.secrets) == redactor.MAX_SECRETS
    assert cleaner.text(f"number-{2 * redactor.MAX_SECRETS - 1}-of-many") == MARK


def test_a_long_reply_is_read_in_one_pass() -> None:
    """A server chooses it: no part of it is tried again and again."""
    cleaner = Redactor(["tr0ub4dor-and-3-more"])
    for unit in ("%25", "\\", "&amp;", "A", "\r\n", "=\\r", "tr0ub4dor-.", "  "):
        text = unit * (64 * 1024 // len(unit)) + "x"
        assert cleaner.text(text) == text
        assert text.startswith(cleaner.text(text, is_cut=True))
    long = "tr0ub4dor-and-3-more " * 10_000
    assert re.fullmatch(f"({MARK} ){{10000}}", cleaner.text(long))
