"""Files that outlast a loss of power: fsync of what is written, then of its directory."""

from __future__ import annotations

import os


def write(path: str, data: bytes) -> None:
    """Write a file that nobody else may read; its name is durable by `sync_directory`.

    A symbolic link is not followed. Errors: OSError.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: str) -> None:
    """Have the names in a directory outlast a loss of power. Errors: OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
