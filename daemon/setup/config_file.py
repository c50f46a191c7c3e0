"""Replaces a configuration or password file as a whole, or not at all.

The new file is written next to the old one, with owner and mode before its content, and renamed
over it. Sources: rename(2), open(2): O_EXCL, O_NOFOLLOW.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import grp
import os
import stat
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import UserInputError

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP = "iowarden"
"""The service's group, which may read the configuration. Source: systemd/iowarden.sysusers."""
MODE = 0o640
_DIRECTORY_MODE = 0o750
_ADVICE = {
    errno.ENOENT: "create the directory: 'mkdir -p {}'",
    errno.ENOTDIR: "a part of '{}' is a file: name another path",
    errno.EROFS: "the file system is mounted read-only: see 'findmnt -T {}' and the kernel log",
    errno.ENOSPC: "the file system is full: see 'df {}'",
    errno.EDQUOT: "the quota is used up: see 'df {}'",
}
_MAX_BYTES = 64 * 1024
"""As daemon/config/load.py: the service does not read a larger one."""


class ConfigFileError(UserInputError):
    """A file cannot be read or replaced; it is unchanged."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file as it was read: `path` without symbolic links; `content` is None if there is none."""

    path: str
    content: bytes | None

    @property
    def text(self) -> str:
        """Return the content as text. Errors: ConfigFileError."""
        try:
            return (self.content or b"").decode("utf-8")
        except UnicodeDecodeError as error:
            line = (self.content or b"").count(b"\n", 0, error.start) + 1
            raise ConfigFileError(
                f"'{self.path}': expected UTF-8 text, got another byte in line {line}; save the"
                " file as UTF-8"
            ) from error


def read(path: str) -> ConfigFile:
    """Read a file, through symbolic links. Errors: ConfigFileError."""
    target = os.path.realpath(path)
    try:
        return ConfigFile(target, _content(target))
    except OSError as error:
        hint = "run this command as root" if isinstance(error, PermissionError) else "check it"
        raise ConfigFileError(
            f"'{target}': expected a readable file or none, got '{error.strerror}'; {hint}"
        ) from error


def replace(file: ConfigFile, content: bytes) -> bool:
    """Give a file another content; return False if it has it, with mode and group.

    As root the file belongs to root and the service's group, mode 0640. Another user's file belongs
    to that user. A file that was changed since it was read is left as it is.
    Errors: ConfigFileError; the file is unchanged then.
    """
    return _written(file, content, is_rehearsal=False)


def rehearse(file: ConfigFile, content: bytes) -> None:
    """Do what `replace` does, but leave the file as it is: what is written is removed again.

    Errors: ConfigFileError, as those of `replace`.
    """
    _written(file, content, is_rehearsal=True)


def _written(file: ConfigFile, content: bytes, *, is_rehearsal: bool) -> bool:
    group = _group(file.path)
    directory = os.path.dirname(file.path)
    is_new_directory = False
    try:
        if file.content == content and _is_as_wanted(file.path, group):
            return False
        is_new_directory = _make_directory(directory, group)
        with _locked(directory):
            if _content(file.path) != file.content:
                raise ConfigFileError(
                    f"'{file.path}': expected the content that was read before, got another one:"
                    " another program changed it meanwhile; nothing was written, run the command"
                    " again"
                )
            _write(file.path, content, group, is_rehearsal=is_rehearsal)
        if is_new_directory and is_rehearsal:
            os.rmdir(directory)
    except OSError as error:
        raise ConfigFileError(
            f"'{file.path}': expected to write it, got '{error.strerror}'; nothing was changed;"
            f" {_hint(error, directory)}"
        ) from error
    return True


def _content(path: str) -> bytes | None:
    # O_NONBLOCK: a named pipe without a writer would block.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigFileError(f"'{path}': expected a regular file, got another kind")
        content = stream.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ConfigFileError(f"'{path}': expected at most {_MAX_BYTES} bytes, got more")
    return content


def _group(path: str) -> int | None:
    """Return the group that the file gets; None: this user is not root and keeps its own."""
    if os.geteuid():
        return None
    try:
        return grp.getgrnam(GROUP).gr_gid
    except KeyError as error:
        raise ConfigFileError(
            f"'{path}': expected group '{GROUP}', which may read it, got no such group; nothing was"
            " changed; install iowarden first: 'make install', or its package"
        ) from error


def _is_as_wanted(path: str, group: int | None) -> bool:
    found = os.stat(path)
    if stat.S_IMODE(found.st_mode) != MODE:
        return False
    return group is None or (found.st_uid, found.st_gid) == (0, group)


def _make_directory(directory: str, group: int | None) -> bool:
    """Make the directory of the file; return False if it exists."""
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        return False
    if group is not None:
        os.chown(directory, 0, group)
    os.chmod(directory, _DIRECTORY_MODE)
    return True


@contextlib.contextmanager
def _locked(directory: str) -> Iterator[None]:
    """Hold off a second run of this command between comparison and rename."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(path: str, content: bytes, group: int | None, *, is_rehearsal: bool) -> None:
    directory, name = os.path.split(path)
    new = os.path.join(directory, f".{name}.{os.getpid()}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(new, flags, 0o600)
    try:
        with open(descriptor, "wb") as stream:
            # Before the content: at no time more users may read it than in the end.
            if group is not None:
                os.fchown(descriptor, 0, group)
            os.fchmod(descriptor, MODE)
            stream.write(content)
            stream.flush()
            os.fsync(descriptor)
        if is_rehearsal:
            os.unlink(new)
        else:
            os.rename(new, path)
    except BaseException:
        os.unlink(new)
        raise


def _hint(error: OSError, directory: str) -> str:
    if isinstance(error, PermissionError):
        return "run this command as root"
    if error.errno in _ADVICE:
        return _ADVICE[error.errno].format(directory)
    return f"see 'findmnt -T {directory}' and the kernel log"
