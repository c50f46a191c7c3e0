"""Attributes of sysfs: one value per file, in directories that are listed once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import AbsentError, ParseError, ReadError, parse_count

if TYPE_CHECKING:
    from iowarden.collectors.machine import Machine

_SIGNED = lazy_pattern(r"-?\d{1,19}", re.ASCII)


class Attributes:
    """The attributes of one directory; files that its listing does not have are never opened.

    Source: kernel, filesystems/sysfs.rst. `read_error`: the first attribute that exists and could
    not be read, and why; '' if all could.
    Errors: AbsentError, ReadError (of the directory itself).
    """

    def __init__(self, root: Machine, path: str) -> None:
        """List the directory."""
        self.path = path
        self.entries = tuple(root.names(path))
        self.read_error = ""
        self._known = frozenset(self.entries)
        self._machine = root
        self._absent = False

    def text(self, name: str) -> str | None:
        """Return an attribute on one line; None: it is missing, empty or unreadable."""
        if name not in self._known:
            return None
        try:
            text = self._machine.read(f"{self.path}/{name}")
        except AbsentError:
            self._absent = True
            return None
        except ReadError as error:
            self.read_error = self.read_error or str(error)
            return None
        return " ".join(text.replace("\0", " ").split()) or None

    def count(self, name: str, unit: int = 1) -> int | None:
        """Return an unsigned number times `unit`, or None. Errors: ParseError."""
        text = self.text(name)
        try:
            return None if text is None else parse_count(text) * unit
        except ValueError:
            raise self.wrong(name, "an unsigned number", text or "") from None

    def signed(self, name: str) -> int | None:
        """Return a number that may be negative, or None. Errors: ParseError."""
        text = self.text(name)
        if text is not None and _SIGNED.fullmatch(text) is None:
            raise self.wrong(name, "a number", text)
        return None if text is None else int(text)

    def flag(self, name: str) -> bool | None:
        """Return whether a number is not 0, or None. Errors: ParseError."""
        number = self.count(name)
        return None if number is None else number != 0

    def wrong(self, name: str, expected: str, text: str) -> ParseError:
        """Return the error of an attribute with an unexpected value."""
        return ParseError(f"'{self.path}/{name}': expected {expected}, got {text[:80]!r}")

    def below(self, name: str) -> Attributes | None:
        """Return the directory of this name, or None if there is none."""
        directory = name.partition("/")[0]
        return (
            attributes(self._machine, f"{self.path}/{name}") if directory in self._known else None
        )

    def vanished(self) -> bool:
        """Whether the directory vanished during the read: then the data are incomplete."""
        return self._absent and attributes(self._machine, self.path) is None


def attributes(root: Machine, path: str) -> Attributes | None:
    """Return a directory's attributes, None if it does not exist. Errors: ReadError."""
    try:
        return Attributes(root, path)
    except AbsentError:
        return None


def printable_name(name: str) -> str:
    """Return a name in printable form: bytes that are no UTF-8 are escaped."""
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")


def device_name(entry: str) -> str:
    """Return the name a block device has in '/proc/diskstats', given its name in sysfs.

    sysfs writes '!' for '/': 'cciss!c0d0'. Source: kernel, lib/kobject.c, kobject_set_name_vargs.
    """
    return printable_name(entry).replace("!", "/")


def entry_name(device: str) -> str:
    """Return the name in sysfs of a device in '/proc/diskstats'."""
    return device.replace("/", "!")
