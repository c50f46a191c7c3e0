"""Compressed tar archives: written member by member, read in one pass, also from strangers.

tarfile stores every member that it read, and reads an extended header of any length into memory.
Source: POSIX pax, 'ustar Interchange Format'; GNU tar manual, 'Basic Tar Format'.
Limits: members over `MAX_BYTES`, links and devices are refused.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import lzma
import os
import tarfile
import zlib
from typing import TYPE_CHECKING, BinaryIO

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.machine import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SUFFIXES = (".tar.xz", ".tar.gz")
MAX_NAME_BYTES = 64 * 1024
"""Maximum of an extended header; a path of Linux has 4,096 bytes at most."""
_BLOCK_BYTES = 512
_MEMORY_BYTES = 128 * 1024 * 1024
"""The dictionary of `xz -9` is 64 MiB; a file may demand 4 GiB."""
_CHUNK_BYTES = 128 * 1024
_XZ, _GZIP = b"\xfd7zXZ\0", b"\x1f\x8b"
_PAX_PATH = lazy_pattern(rb"(?:^|\n)\d+ path=([^\n]*)\n")


class ArchiveError(Exception):
    """The expected and the found content of an archive."""


class Writer:
    """A new archive that only its owner can read. Errors: OSError, also if it exists."""

    def __init__(self, path: str) -> None:
        """Begin; '.tar.xz' is small, '.tar.gz' needs little memory."""

        def opener(name: str, flags: int) -> int:
            return os.open(name, flags | os.O_EXCL | os.O_CLOEXEC, 0o600)

        self._raw = open(path, "wb", opener=opener)  # noqa: SIM115 - `close` does
        # Preset 1 needs 9 MiB, the default 94.
        self._file: lzma.LZMAFile | gzip.GzipFile = (
            lzma.LZMAFile(self._raw, "wb", preset=1)  # noqa: SIM115 - as above
            if path.endswith(".xz")
            else gzip.GzipFile("", "wb", 6, self._raw, mtime=0)
        )

    def add(self, name: str, content: bytes | None) -> None:
        """Add a file, or with None a directory."""
        info = tarfile.TarInfo(name)
        info.mode = 0o644
        if content is None:
            info.type, info.mode = tarfile.DIRTYPE, 0o755
        info.size = len(content or b"")
        self._file.write(info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape"))
        if content:
            self._file.write(content)
            self._file.write(bytes(-len(content) % _BLOCK_BYTES))

    def close(self) -> None:
        """Write the end. Errors: OSError."""
        self._file.write(bytes(2 * _BLOCK_BYTES))
        self._file.close()
        self._raw.close()

    def abandon(self) -> None:
        """Leave the partial archive in place, after an error."""
        with contextlib.suppress(OSError):  # the same error again
            self._raw.close()


def members(path: str) -> Iterator[tuple[str, bytes | None]]:
    """Yield names and contents in their order, None for a directory.

    Errors: ArchiveError, after the members before the fault were returned.
    """
    try:
        with open(path, "rb") as file:
            yield from _members(_unpacked(file))
    except EOFError as error:
        raise ArchiveError("expected more of the archive, got its end: it is truncated") from error
    except (OSError, lzma.LZMAError, zlib.error) as error:
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ArchiveError(f"expected an archive that can be read, got: {text}") from error


def _members(read: Callable[[int], bytes]) -> Iterator[tuple[str, bytes | None]]:
    header = read(_BLOCK_BYTES)
    _require_tar(header)
    long_name = b""
    while True:
        if not any(header):
            read(_CHUNK_BYTES)  # to the end, where the checksum is
            return
        if not _is_checked(header):
            raise ArchiveError("expected a tar header with its checksum, got another")
        kind, size = header[156:157], _number(header[124:136])
        name = long_name or _name(header)
        limit = MAX_NAME_BYTES if kind in b"LKxg" else MAX_BYTES
        if size > limit:
            shown = os.fsdecode(name[:200])
            raise ArchiveError(f"'{shown}': expected at most {limit} bytes, got {size}")
        content = _whole(read, size + -size % _BLOCK_BYTES)[:size] if size else b""
        if kind == b"L":
            long_name = content.rstrip(b"\0")
        elif kind == b"x":
            found = _PAX_PATH.search(content)
            long_name = found[1] if found else b""
        elif kind in b"0\0":
            long_name = b""
            yield os.fsdecode(name), content
        elif kind == b"5":
            long_name = b""
            yield os.fsdecode(name), None
        elif kind != b"g":
            shown = os.fsdecode(name[:200])
            raise ArchiveError(
                f"'{shown}': expected a file or a directory, got another kind ({kind!r})"
            )
        header = _whole(read, _BLOCK_BYTES)


def _require_tar(begin: bytes) -> None:
    """Refuse what no archive begins with: its fields would be reported as those of a tar."""
    if not begin:
        raise ArchiveError("expected a tar archive, got nothing: it is empty")
    if len(begin) < _BLOCK_BYTES or (any(begin) and not _is_checked(begin)):
        raise ArchiveError(
            "expected a tar archive, as it is or compressed by xz or gzip, got something else,"
            f" which begins with {begin[:16]!r}"
        )


def _is_checked(header: bytes) -> bool:
    """Whether the checksum of a header, with blanks in its place, is what its field has."""
    field = header[148:156].strip(b" \0")
    total = sum(header) - sum(header[148:156]) + 8 * 32
    return field.isdigit() and f"{total:o}".encode() == field.lstrip(b"0")


def _whole(read: Callable[[int], bytes], count: int) -> bytes:
    data = read(count)
    if len(data) < count:
        raise EOFError
    return data


def _name(header: bytes) -> bytes:
    name = header[:100].rstrip(b"\0")
    # GNU tar has other fields where POSIX has the first part of a long path.
    prefix = header[345:500].rstrip(b"\0") if header[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _number(field: bytes) -> int:
    digits = field.strip(b" \0")
    if not digits.isdigit():
        raise ArchiveError(f"expected an octal number in a tar header, got {field!r}")
    try:
        return int(digits, 8)
    except ValueError as error:
        raise ArchiveError(f"expected an octal number in a tar header, got {field!r}") from error


def _unpacked(file: BinaryIO) -> Callable[[int], bytes]:
    start = file.read(len(_XZ))
    file.seek(0)
    if start == _XZ:
        return io.BufferedReader(_Unpacked(file), _CHUNK_BYTES).read
    if start.startswith(_GZIP):
        return gzip.GzipFile(fileobj=file).read
    return file.read


class _Unpacked(io.RawIOBase):
    """Decompressed content of an xz file; unlike lzma.LZMAFile it limits the memory for it.

    Source: 'The .xz File Format', 2: consecutive streams, zeros between them.
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, _MEMORY_BYTES)

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # BufferedReader gives one
        """Fill some of the buffer; 0 is the end."""
        data = b""
        while not data:
            packed = b""
            if self._decoder.eof:
                if not (packed := self._next_stream()):
                    return 0
                self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, _MEMORY_BYTES)
            elif self._decoder.needs_input and not (packed := self._file.read(_CHUNK_BYTES)):
                raise EOFError
            data = self._decoder.decompress(packed, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _next_stream(self) -> bytes:
        """Return the begin of the next stream; b'' at the end."""
        packed = self._decoder.unused_data.lstrip(b"\0")
        while not packed and (more := self._file.read(_CHUNK_BYTES)):
            packed = more.lstrip(b"\0")
        return packed
