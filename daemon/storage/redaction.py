"""Redacts texts for a bug report: removes what identifies a disk, a host or a person. Pure.

Limits: it goes by form and by label, see WARNING.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from iowarden.daemon.storage.unparsed import head

if TYPE_CHECKING:
    from collections.abc import Iterable

WARNING = (
    "# Redacted. Not recognized: serial numbers of digits only, or of letters only, or shorter than"
    " 8 characters; names of volumes, shares and directories. Check it before you send it."
)
SECRET_FILES = re.compile(
    r"/(serial\w*|wwid|wwn|uuid|unique_id|vpd_pg\w+|sas_address|eui|nguid|subsysnqn|address|"
    r"port_name|node_name)",
    re.ASCII,
)
_ALONE = r"(?<![0-9A-Za-z])"
_END = r"(?![0-9A-Za-z])"
_HEX = "[0-9A-Fa-f]"
_WORD = r"[^\s,'\"]+"
_FOUND = (
    ("uuid", rf"{_ALONE}{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}{_END}"),
    ("mac", rf"{_ALONE}{_HEX}{{2}}(?:[:-]{_HEX}{{2}}){{5,19}}{_END}"),
    # Counters are printed with as many digits, too; negative ones of SCSI as 0xffffffff…
    ("wwn", rf"{_ALONE}(?:naa\.|eui\.|uuid\.|0x(?!f{{8}}|0{{8}})){_HEX}{{16,64}}{_END}"),
    ("hex", rf"{_ALONE}(?=[0-9]*[A-Fa-f]){_HEX}{{16,64}}{_END}"),
    ("serial", rf"{_ALONE}(?:t10\.|nqn\.|iqn\.){_WORD}"),
    ("secret", rf"(?i:(?<=pass=)|(?<=password=)|(?<=passwd=)|(?<=secret=)){_WORD}"),
    ("user", rf"(?i:(?<=user=)|(?<=username=)){_WORD}"),
    ("login", r"[^\s/,='\"@]+(?=@[^\s/])"),
    ("at", r"(?<=[0-9A-Za-z]@)[0-9A-Za-z][0-9A-Za-z.-]*"),
    ("home", r"(?:(?<=/home/)|(?<=/media/)|(?<=/users/))[^/\s,'\"]+"),
    ("labelled", rf"(?i:serial|wwn|wwid|uuid)[A-Za-z_ -]{{0,20}}[:=]\s{{0,8}}{_WORD}"),
    # No group of an address has five digits: a serial number of hexadecimal ones has.
    (
        "address",
        rf"(?<![0-9A-Fa-f:.])(?![0-9A-Fa-f:.]*{_HEX}{{5}})[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*{_END}",
    ),
    ("number", rf"(?<![0-9A-Za-z.])\d{{1,3}}(?:\.\d{{1,3}}){{3}}{_END}"),
    ("cifs", r"(?<=//)[^/\s:@'\"]+"),
    ("nfs", r"(?<=[\s@'\"])[A-Za-z0-9][A-Za-z0-9._-]*(?=:/(?!/))"),
    (
        "host",
        rf"(?<![0-9A-Za-z.-])(?!fuse\.|x-systemd\.)(?:[0-9A-Za-z-]+\.)+[A-Za-z]{{2,24}}{_END}",
    ),
    ("formed", rf"{_ALONE}(?=[A-Z]*[0-9])(?=[0-9]*[A-Z])[A-Z0-9]{{8,40}}{_END}"),
)
"""The patterns, applied in this order at each place."""
PATTERN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _FOUND), re.ASCII)
_LABELLED = re.compile(r"([^:=]*[:=]\s*)(.*)", re.DOTALL)
_KINDS = {
    "at": "host",
    "cifs": "host",
    "formed": "serial",
    "home": "user",
    "login": "user",
    "nfs": "host",
}
_NUMBER = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}", re.ASCII)
_SHORT = 8
"""A shorter word that was found is replaced elsewhere only where it stands alone."""


def redact(text: str, hosts: Iterable[str] = ()) -> str:
    """Return a file's text with placeholders for what identifies a disk, a host or a person.

    The same word gets the same placeholder, in the same format. `hosts` are names of this machine.
    """
    redactor = _Redactor(text)
    for host in hosts:
        if host and host != "localhost":
            redactor.placeholder("host", host)
    top, separator, body = text.partition("\n\n")
    top = redactor.once(top)
    secret = SECRET_FILES.search(head(text).get("path", ""))
    body = redactor.words(body) if secret else redactor.once(body)
    return f"{WARNING}\n{redactor.everywhere(top + separator + body)}"


class _Redactor:
    """The placeholders of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._known: dict[str, str] = {}
        self._count = 0

    def once(self, text: str) -> str:
        """Return a text without words that their form or label identifies."""
        return PATTERN.sub(self._replaced, text)

    def everywhere(self, text: str) -> str:
        """Return a text without words that were found anywhere in it."""
        words = sorted(self._known, key=len, reverse=True)
        patterns = [
            re.escape(word) if len(word) >= _SHORT else _ALONE + re.escape(word) + _END
            for word in words
        ]
        return re.sub("|".join(patterns), lambda m: self._known[m[0]], text) if words else text

    def words(self, text: str) -> str:
        """Return a text without any of its words."""
        return re.sub(r"\S+", lambda word: self.placeholder("serial", word[0]), text)

    def placeholder(self, kind: str, word: str) -> str:
        """Return the placeholder of a word: one that does not occur in the text."""
        while word not in self._known:
            self._count += 1
            form = _form(kind, word, self._count)
            if form not in self._text:
                self._known[word] = form
        return self._known[word]

    def _replaced(self, match: re.Match[str]) -> str:
        word, kind = match[0], match.lastgroup or ""
        if kind == "address":
            return self._address(word)
        if kind == "number":
            return self.placeholder("v4", word) if _version(word) == 4 else word
        labelled = _LABELLED.fullmatch(word) if kind == "labelled" else None
        if labelled is None:
            return self.placeholder(_KINDS.get(kind, kind), word)
        value = self.once(labelled[2])
        known = value != labelled[2]
        return labelled[1] + (value if known else self.placeholder("serial", value))

    def _address(self, word: str) -> str:
        for start, end in ((0, 0), (0, 1), (1, 0), (1, 1)):
            inner = word[start : len(word) - end]
            if _version(inner) == 6 and inner != "::":
                return word[:start] + self.placeholder("v6", inner) + word[len(word) - end :]
        # An IPv4 address and a port, or times and device numbers.
        return _NUMBER.sub(
            lambda m: self.placeholder("v4", m[0]) if _version(m[0]) == 4 else m[0], word
        )


def _form(kind: str, word: str, number: int) -> str:
    """Return the placeholder with this number, in the format of the word."""
    match kind:
        case "uuid":
            return f"00000000-0000-0000-0000-{number:012x}"
        case "mac":
            return f"00:00:5e:00:{number >> 8 & 255:02x}:{number & 255:02x}"
        case "wwn":
            return (word[:2] if word[1] == "x" else word[: word.index(".") + 1]) + f"{number:016x}"
        case "hex":
            return f"{number:016x}"
        case "v4":
            return f"192.0.{2 + number // 256}.{number % 256}"
        case "v6":
            return f"2001:db8::{number:x}"
        case "serial":
            return f"SERIAL{number:04d}"
        case _:
            return f"{kind}{number}"


def _version(text: str) -> int:
    try:
        return ipaddress.ip_address(text).version
    except ValueError:
        return 0
