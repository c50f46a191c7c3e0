"""Files that survive a power loss: fsync of the content, then of the directory."""

from __future__ import annotations

import os


def write(path: str, data: bytes) -> None:
    """Write a file readable only by its owner; its name is durable after `sync_directory`.

    A symbolic link is not followed. Errors: OSError.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: str) -> None:
    """Make the names in a directory survive a power loss. Errors: OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
