"""What the kernel said and no parser understood: kept for a bug report, and shown without names.

Each text is a file '<source>-<n>.txt' with a head of lines '<name>: <value>', an empty line, and
the bytes as read. Bounded: `TEXT_BYTES` of a text, `MOST_FILES` of a source, `ALL_BYTES` in all;
the oldest go. Of one source only the first `MOST_FILES` kinds of error of a run are kept.
"""

from __future__ import annotations

import ipaddress
import os
import re
import threading
from collections import Counter
from datetime import UTC, datetime
from queue import Full, Queue
from typing import TYPE_CHECKING

from iowarden.collectors.model import trace
from iowarden.daemon.storage import durable_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from iowarden.collectors.model import Reading

DIRECTORY = "unparsed"
"""In the state directory."""
TEXT_BYTES = 65_536
MOST_FILES = 5
ALL_BYTES = 2 * 1024 * 1024
MOST_WAITING = 16
_NAME = re.compile(r"([a-z0-9_]+)-([0-9]{1,9})\.txt", re.ASCII)
_DRAFT = "draft"


class Unparsed:
    """The thread that writes the files; nobody waits for it, because the directory may hang.

    `post` takes what is wrong with the directory, '' when it is well again.
    """

    def __init__(
        self,
        directory: str,
        post: Callable[[str], object],
        version: str,
        kernel: str | None = None,
    ) -> None:
        """Start the thread; it touches nothing before there is a text."""
        self._directory = directory
        self._post = post
        self._version = version
        self._kernel = os.uname().release if kernel is None else kernel
        self._kinds: dict[str, set[str]] = {}
        self._waiting: Queue[tuple[str, bytes]] = Queue(MOST_WAITING)
        threading.Thread(target=self._run, name="unparsed", daemon=True).start()

    def keep(self, reading: Reading[object], realtime_seconds: float) -> None:
        """Have the text of a reading that is unparsed kept, once for each kind of error."""
        kinds = self._kinds.setdefault(reading.source, set())
        # Numbers change each second and make no other kind.
        kind = re.sub(r"\d+", "0", reading.error)
        if kind in kinds or len(kinds) >= MOST_FILES:
            return
        try:
            content = self._head(reading, realtime_seconds) + reading.text[:TEXT_BYTES]
            self._waiting.put_nowait((reading.source, content))
        except Full:
            self._post(
                f"unparsed: writing to '{self._directory}' has not returned; what could not be"
                f" parsed of {reading.source} is kept when it comes again"
            )
        else:
            kinds.add(kind)

    def _head(self, reading: Reading[object], realtime_seconds: float) -> bytes:
        bytes_total = len(reading.text)
        lines = (
            ("iowarden", self._version),
            ("kernel", self._kernel),
            ("time", f"{datetime.fromtimestamp(realtime_seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"),
            ("source", reading.source),
            ("path", reading.path),
            ("error", reading.error),
            ("bytes", f"{min(bytes_total, TEXT_BYTES)} of {bytes_total}"),
        )
        text = "".join(f"{name}: {' '.join(value.split())}\n" for name, value in lines)
        return text.encode(errors="backslashreplace") + b"\n"

    def _run(self) -> None:
        while True:
            source, content = self._waiting.get()
            try:
                _write(self._directory, source, content)
            except OSError as error:
                self._post(
                    f"unparsed: '{self._directory}': expected to keep what could not be parsed"
                    f" there, got '{error}'; it is lost until the next start, mend the directory"
                )
            except Exception as error:  # noqa: BLE001 - a thread that ends would keep nothing more
                self._post(f"unparsed: bug: {trace(error)}")
            else:
                self._post("")


def _write(directory: str, source: str, content: bytes) -> None:
    """Write a file that is whole or not there, then remove what is over the bounds."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    numbers = [number for own, number in _files(directory) if own == source]
    name = f"{source}-{max(numbers, default=0) + 1}.txt"
    draft = os.path.join(directory, _DRAFT)
    try:
        durable_file.write(draft, content)
        os.rename(draft, os.path.join(directory, name))
    except OSError:
        if os.path.lexists(draft):
            os.unlink(draft)
        raise
    _remove_oldest(directory)
    durable_file.sync_directory(directory)


def _remove_oldest(directory: str) -> None:
    found = {
        (source, number): os.stat(os.path.join(directory, f"{source}-{number}.txt"))
        for source, number in _files(directory)
    }
    bytes_total = sum(status.st_size for status in found.values())
    left = Counter(source for source, _ in found)
    for key in sorted(found, key=lambda key: (found[key].st_mtime, key[1])):
        if left[key[0]] > MOST_FILES or bytes_total > ALL_BYTES:
            os.unlink(os.path.join(directory, f"{key[0]}-{key[1]}.txt"))
            left[key[0]] -= 1
            bytes_total -= found[key].st_size


def _files(directory: str) -> list[tuple[str, int]]:
    found = [_NAME.fullmatch(name) for name in os.listdir(directory)]
    return sorted((match[1], int(match[2])) for match in found if match is not None)


# --- for people


def names(directory: str) -> list[str]:
    """Return the names of what is kept; none when there is no directory. Errors: OSError."""
    try:
        return [f"{source}-{number}.txt" for source, number in _files(directory)]
    except FileNotFoundError:
        return []


def read(directory: str, name: str) -> str:
    """Return a file; bytes that are no UTF-8 are escaped. Errors: OSError, ValueError (no name)."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(
            f"'{name[:80]}': expected a name as 'iowarden unparsed list' shows it,"
            " '<source>-<n>.txt'"
        )
    with open(os.path.join(directory, name), "rb") as file:
        return file.read(TEXT_BYTES * 2).decode(errors="backslashreplace")


def head(text: str) -> dict[str, str]:
    """Return the values at the head of a file, by name."""
    lines, _, _ = text.partition("\n\n")
    return {name: value for name, _, value in (line.partition(": ") for line in lines.split("\n"))}


WARNING = (
    "# Redacted. Not recognised: serial numbers of digits only, or of letters only, or shorter than"
    " 8 characters; names of volumes, shares and directories. Look it through before you send it."
)
_SECRET_FILES = re.compile(
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
    # Counters are printed with as many digits, too; those of SCSI that are negative as 0xffffffff…
    ("wwn", rf"{_ALONE}(?:naa\.|eui\.|uuid\.|0x(?!f{{8}}|0{{8}})){_HEX}{{16,64}}{_END}"),
    ("hex", rf"{_ALONE}(?=[0-9]*[A-Fa-f]){_HEX}{{16,64}}{_END}"),
    ("serial", rf"{_ALONE}(?:t10\.|nqn\.|iqn\.){_WORD}"),
    ("secret", rf"(?i:(?<=pass=)|(?<=password=)|(?<=passwd=)|(?<=secret=)){_WORD}"),
    ("user", rf"(?i:(?<=user=)|(?<=username=)){_WORD}"),
    ("login", r"[^\s/,='\"@]+(?=@[^\s/])"),
    ("at", r"(?<=[0-9A-Za-z]@)[0-9A-Za-z][0-9A-Za-z.-]*"),
    ("home", r"(?:(?<=/home/)|(?<=/media/)|(?<=/users/))[^/\s,'\"]+"),
    ("labelled", rf"(?i:serial|wwn|wwid|uuid)[A-Za-z_ -]{{0,20}}[:=]\s{{0,8}}{_WORD}"),
    ("address", rf"(?<![0-9A-Fa-f:.])[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*{_END}"),
    ("number", rf"(?<![0-9A-Za-z.])\d{{1,3}}(?:\.\d{{1,3}}){{3}}{_END}"),
    ("cifs", r"(?<=//)[^/\s:@'\"]+"),
    ("nfs", r"(?<=[\s@'\"])[A-Za-z0-9][A-Za-z0-9._-]*(?=:/(?!/))"),
    (
        "host",
        rf"(?<![0-9A-Za-z.-])(?!fuse\.|x-systemd\.)(?:[0-9A-Za-z-]+\.)+[A-Za-z]{{2,24}}{_END}",
    ),
    ("formed", rf"{_ALONE}(?=[A-Z]*[0-9])(?=[0-9]*[A-Z])[A-Z0-9]{{8,40}}{_END}"),
)
"""What is looked for, in this order, at each place."""
_PATTERN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _FOUND), re.ASCII)
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
    """Return the text of a file with placeholders for what names a disk, a host or a person.

    The same word gets the same placeholder, of the same grammar. `hosts` are names of this machine.
    Limits: it goes by form and by label, see WARNING.
    """
    redactor = _Redactor(text)
    for host in hosts:
        if host and host != "localhost":
            redactor.placeholder("host", host)
    top, separator, body = text.partition("\n\n")
    top = redactor.once(top)
    secret = _SECRET_FILES.search(head(text).get("path", ""))
    body = redactor.words(body) if secret else redactor.once(body)
    return f"{WARNING}\n{redactor.everywhere(top + separator + body)}"


class _Redactor:
    """The placeholders of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._known: dict[str, str] = {}
        self._count = 0

    def once(self, text: str) -> str:
        """Return a text without what its form or its label gives away."""
        return _PATTERN.sub(self._replaced, text)

    def everywhere(self, text: str) -> str:
        """Return a text without what was found anywhere."""
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
        """Return what stands for a word: nothing that the text has already."""
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
        # An IPv4 address and a port, or times and numbers of devices.
        return _NUMBER.sub(
            lambda m: self.placeholder("v4", m[0]) if _version(m[0]) == 4 else m[0], word
        )


def _form(kind: str, word: str, number: int) -> str:
    """Return the placeholder of this number, in the grammar of the word."""
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
