"""Verbs of the probe other than running programs: reads as root, each in its own child.

Each verb runs in a forked child with a single thread: a hung disk hangs only the child. What a verb
returns becomes JSON, the value of the answer.
"""

from __future__ import annotations

import errno
import fnmatch
import heapq
import json
import os
import re
import stat
import time
import uuid
from typing import TYPE_CHECKING, Any

from iowarden.collectors.filesystem.mountinfo import FSTAB, parse_fstab, parse_mountinfo, visible
from iowarden.collectors.filesystem.mountinfo import PATH as HOST_MOUNTS
from iowarden.collectors.filesystem.newest import CLOCK_TOLERANCE_SECONDS, MAX_LATEST
from iowarden.collectors.machine import Machine
from iowarden.collectors.model import AbsentError, ReadError
from iowarden.collectors.procfs import process_io, task_poll
from iowarden.collectors.procfs import tasks as blocked_tasks
from iowarden.collectors.quantity import duration
from iowarden.daemon.probe import owners, scan
from iowarden.daemon.probe.allowed import ADMIN, READ_ALL
from iowarden.daemon.probe.capabilities import Capability
from iowarden.daemon.sanitize import ELLIPSIS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

DIRECTORIES = "/etc/iowarden/probe-directories"
"""The directories whose files may be requested: one path per line, '#' begins a comment."""
MAX_DIRECTORIES_BYTES = 64 * 1024
MAX_NAMES = 1_000_000
MAX_LISTING_SECONDS = 45.0
"""Of reading a directory: less than the deadline, so that the reason is reported."""

MAX_ENTRIES = 5_000
MAX_ENTRIES_BYTES = 2 * 1024 * 1024
"""As JSON; a storm of kernel messages is split over several answers."""
MAX_MESSAGE_BYTES = 4096
"""Kernel: a record of printk has at most 2 KiB, but a journal may contain anything."""
FIRST_SECONDS = 24 * 3600.0
"""How far back the journal is read without a cursor."""

_OWN_MOUNTS = "/proc/self/mountinfo"
_NAMES_BETWEEN_CLOCKS = 256
_MAX_PATH_BYTES = 4095
"""PATH_MAX of linux/limits.h, less the NUL at the end."""
_CURSOR = re.compile(
    r"s=(?P<sequence>[0-9a-f]{32});i=(?P<number>[0-9a-f]{1,16});b=[0-9a-f]{32};m=[0-9a-f]{1,16}"
    r";t=[0-9a-f]{1,16};x=[0-9a-f]{1,16}"
)


def refusal(verb: str, arguments: tuple[str, ...]) -> str:
    """Return '', or why a request is not even tried. Pure: nothing is accessed."""
    if verb not in VERBS:
        expected = ", ".join(sorted((*VERBS, *owners.VERBS)))
        return f"'{verb}': expected one of {expected}"
    wanted = _ARGUMENTS[verb]
    if len(arguments) != len(wanted):
        return f"'{verb}': expected {' '.join(wanted) or 'no argument'}, got {len(arguments)}"
    if verb == "scan":
        return scan.refusal(arguments)
    for kind, argument in zip(wanted, arguments, strict=True):
        if kind == "CURSOR" and argument and not _CURSOR.fullmatch(argument):
            return f"'{verb}': expected a cursor of the journal or '', got {argument!r:.80}"
        if kind == "GLOB" and not re.fullmatch(r"[^/\0]{1,255}", argument):
            return (
                f"'{verb}': expected a pattern of 1 to 255 characters without '/', got"
                f" {argument!r:.80}"
            )
        if kind in {"PATH", "DIR"} and not _normal(argument):
            return (
                f"'{verb}': expected an absolute path of up to {_MAX_PATH_BYTES} bytes, without"
                f" '.', '..', '//' or '/' at the end, got {argument!r:.80}"
            )
    return ""


def _normal(path: str) -> bool:
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        return False
    # POSIX leaves '//' at the beginning to the system, and normpath leaves it unchanged.
    return (
        0 < size <= _MAX_PATH_BYTES
        and path.startswith("/")
        and not path.startswith("//")
        and "\0" not in path
        and os.path.normpath(path) == path
    )


def tasks(_: tuple[str, ...]) -> dict[str, Any]:
    """Return the tasks in uninterruptible sleep, and where they wait in the kernel."""
    try:
        return blocked_tasks.to_json(task_poll.read_waiting_tasks(Machine()))
    except (AbsentError, ReadError) as error:
        raise ValueError(str(error)) from error


def io_sweep(_: tuple[str, ...]) -> dict[str, Any]:
    """Return what each process has read and written, within the limits of its module."""
    try:
        return process_io.to_json(process_io.read_sweep(Machine()))
    except (AbsentError, ReadError) as error:
        raise ValueError(str(error)) from error


def statvfs(arguments: tuple[str, ...]) -> dict[str, Any]:
    """Return the usage of the file system that the host has mounted at a path, as Machine.statvfs.

    For mount points below directories that the daemon's user cannot access.
    Limits: a FUSE file system may refuse root, too (fuse(4), allow_root). Errors: ValueError.
    """
    (path,) = arguments
    root = Machine()
    try:
        host = _mounted(root.read(HOST_MOUNTS), path, HOST_MOUNTS)
        if host is None:
            raise ValueError(
                f"'{path}': expected a mount point of the host, got none in '{HOST_MOUNTS}'"
            )
        # Not by stat's number: a subvolume of btrfs has one that is in no mount table.
        own = _mounted(root.read(_OWN_MOUNTS), path, _OWN_MOUNTS)
        if own != host:
            raise ValueError(
                f"'{path}': expected device {host}, as in the host's mount table, got"
                f" {own or 'no mount'} in the probe's own mount namespace; restart the probe"
            )
        return {"text": root.statvfs(path)}
    except (AbsentError, ReadError) as error:
        raise ValueError(str(error)) from error


def _mounted(text: str, path: str, name: str) -> str | None:
    numbers = (
        mount.device_number
        for mount in visible(parse_mountinfo(text, name))
        if mount.mount_point == path
    )
    return next(numbers, None)


def newest(
    arguments: tuple[str, ...],
    allowed: str = DIRECTORIES,
    owner: int = 0,
    root: Machine | None = None,
    *,
    max_names: int = MAX_NAMES,
    max_seconds: float = MAX_LISTING_SECONDS,
) -> dict[str, Any]:
    """Return the most recently changed regular files in a directory whose names match a pattern.

    Only of directories that `allowed` lists, and no names: file names are private. Links are not
    followed anywhere in the path, since the owner of a directory in it could redirect them. A
    pattern matches a leading dot only explicitly, like in glob(7): rsync's unfinished files have
    one. Units: bytes, Unix time. Limits: number of names, and time; 'truncated' is the one that was
    reached. Errors: OSError, ValueError (not listed; its file system is not mounted).
    """
    path, glob = arguments
    if path not in _allowed(allowed, owner):
        raise ValueError(
            f"'{path}': expected a directory listed in '{allowed}'; add it there, one path per line"
        )
    mount_point = _mount_point(root or Machine(), path)
    matches = re.compile(fnmatch.translate(glob)).match
    now, began = time.time(), time.monotonic()
    latest: list[tuple[float, int, int, float]] = []
    oldest: float | None = None
    files, size_bytes, truncated = 0, 0, ""
    descriptor = _directory(path)
    try:
        with os.scandir(descriptor) as found:
            for names, entry in enumerate(found):
                if names == max_names:
                    truncated = f"more than {max_names} names"
                elif names % _NAMES_BETWEEN_CLOCKS == 0 and time.monotonic() - began > max_seconds:
                    truncated = f"not read completely within {duration(max_seconds)}"
                if truncated:
                    break
                if not matches(entry.name) or (entry.name[0] == "." and glob[0] != "."):
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # removed meanwhile
                    continue
                if not stat.S_ISREG(status.st_mode):
                    continue
                files += 1
                size_bytes += status.st_size
                if status.st_mtime <= now + CLOCK_TOLERANCE_SECONDS:
                    oldest = min(status.st_mtime, now if oldest is None else oldest)
                one = (status.st_ctime, status.st_ino, status.st_size, status.st_mtime)
                if len(latest) < MAX_LATEST:
                    heapq.heappush(latest, one)
                else:
                    heapq.heappushpop(latest, one)
    finally:
        os.close(descriptor)
    return {
        "realtime_seconds": now,
        "utc_offset_seconds": time.localtime(now).tm_gmtoff,
        "mount_point": mount_point,
        "files": files,
        "bytes": size_bytes,
        "oldest_seconds": oldest,
        "latest": [
            {
                "inode": inode,
                "bytes": size,
                "changed_seconds": changed,
                "modified_seconds": modified,
            }
            for changed, inode, size, modified in sorted(latest, reverse=True)
        ],
        "truncated": truncated,
    }


def _mount_point(root: Machine, path: str) -> str:
    """Return the mount point that holds a directory. Errors: ValueError.

    The empty directory below a backup disk that is not mounted has no backups, and shows nothing
    about them. Source: fstab(5). Limits: known from '/etc/fstab' only.
    """
    try:
        host = _by_mount_point(root.read(HOST_MOUNTS), HOST_MOUNTS)
        own = _by_mount_point(root.read(_OWN_MOUNTS), _OWN_MOUNTS)
    except (AbsentError, ReadError) as error:
        raise ValueError(str(error)) from error
    point = _deepest(path, host)
    wanted = _deepest(path, parse_fstab(root.try_read(FSTAB) or ""))
    if len(wanted) > len(point):
        raise ValueError(f"'{path}': '{wanted}' is in '{FSTAB}' and is not mounted; mount it")
    if (_deepest(path, own), own.get(point)) != (point, host.get(point)):
        raise ValueError(
            f"'{path}': expected mount '{point}', as in the host's mount table, got another one in"
            " the probe's own mount namespace; restart the probe"
        )
    return point


def _by_mount_point(text: str, name: str) -> dict[str, str]:
    return {m.mount_point: m.device_number for m in visible(parse_mountinfo(text, name))}


def _deepest(path: str, mount_points: Iterable[str]) -> str:
    """Return the longest of some mount points that is a path or above it; '': none is."""
    above = (each for each in mount_points if f"{path}/".startswith(each.rstrip("/") + "/"))
    return max(above, key=len, default="")


def _allowed(path: str, owner: int) -> frozenset[str]:
    """Return the directories that root has listed. Errors: ValueError, OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return frozenset()
    try:
        status = os.fstat(descriptor)
        private = status.st_uid == owner and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not stat.S_ISREG(status.st_mode) or not private:
            raise ValueError(
                f"'{path}': expected a file that only its owner, user {owner}, can write, got mode"
                f" {stat.filemode(status.st_mode)} and owner {status.st_uid}; the file is ignored"
            )
        content = os.read(descriptor, MAX_DIRECTORIES_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > MAX_DIRECTORIES_BYTES:
        raise ValueError(f"'{path}': expected at most {MAX_DIRECTORIES_BYTES} bytes, got more")
    # Comments stay in the set: none is a path that could be requested.
    return frozenset(os.fsdecode(line).strip().rstrip("/") for line in content.split(b"\n"))


def _directory(path: str) -> int:
    """Open a directory without following any link. Errors: OSError."""
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    here = os.open("/", flags | os.O_RDONLY)
    parts = [part for part in path.split("/") if part]
    for depth, part in enumerate(parts, 1):
        above = here
        try:
            access = os.O_RDONLY if depth == len(parts) else os.O_PATH
            here = os.open(part, flags | access, dir_fd=above)
        except NotADirectoryError as error:
            raise NotADirectoryError(
                errno.ENOTDIR,
                "expected a directory without symbolic links in its path; list its real path",
                "/" + "/".join(parts[:depth]),
            ) from error
        finally:
            os.close(above)
    return here


def journal(arguments: tuple[str, ...], directory: str | None = None) -> dict[str, Any]:
    """Return the kernel messages in the journal after a cursor; without one, of the last day.

    Source: systemd.journal-fields(7), sd_journal_seek_cursor(3), sd_journal_get_cursor(3).
    Units: 'monotonic_seconds' is the kernel's own time stamp, like in '/dev/kmsg';
    'realtime_seconds' is when journald received the line.
    Limits: `MAX_ENTRIES`, `MAX_ENTRIES_BYTES`, then 'more'. 'gap': the cursor's own entry no
    longer exists, or an entry is damaged. The rest of a damaged file is skipped silently, like the
    library does. Errors: ValueError, OSError.
    """
    # 4 MB and a C library: for this child, not for the process that is always there.
    import systemd.journal as library  # noqa: PLC0415

    (cursor,) = arguments
    local = {"flags": library.LOCAL_ONLY | library.SYSTEM_ONLY}
    with library.Reader(**(local if directory is None else {"path": directory})) as reader:
        # Without a journal the library reports no error; a running one has at least one entry.
        reader.seek_head()
        if not reader._next():  # noqa: SLF001
            raise ValueError("no readable journal entries; see 'journalctl --header'")
        reader.add_match(_TRANSPORT="kernel")
        # The kernel sets facility 1 or above for what a program writes to '/dev/kmsg'.
        reader.add_match(SYSLOG_FACILITY="0")
        if cursor:
            reader.seek_cursor(cursor)
        else:
            reader.seek_realtime(time.time() - FIRST_SECONDS)
        return _entries(reader, cursor)


def _entries(reader: Any, cursor: str) -> dict[str, Any]:  # noqa: ANN401 - it brings no types
    # The underscored methods are those of the C class: the public one converts times to local
    # dates, and does not distinguish a step that fails from an entry that cannot be read.
    entries: list[dict[str, Any]] = []
    left_bytes = MAX_ENTRIES_BYTES
    last, more, gap = cursor, False, bool(cursor)
    while reader._next():  # noqa: SLF001
        here = reader._get_cursor()  # noqa: SLF001
        gap = gap and here != cursor
        if _before(here, cursor):
            continue
        try:
            entry = _entry(reader, here)
        except (OSError, UnicodeDecodeError):  # damaged (EBADMSG), or names are no text
            gap, last = True, here
            continue
        size_bytes = len(json.dumps(entry))
        if len(entries) == MAX_ENTRIES or size_bytes > left_bytes:
            more = True
            break
        left_bytes -= size_bytes
        entries.append(entry)
        last = here
    return {"entries": entries, "gap": gap, "more": more, "cursor": last}


def _before(here: str, cursor: str) -> bool:
    """Whether an entry is at or before the cursor: systemd 253 may step back (its #31516)."""
    known, found = _CURSOR.fullmatch(cursor), _CURSOR.fullmatch(here)
    if known is None or found is None or known["sequence"] != found["sequence"]:
        return False
    return int(found["number"], 16) <= int(known["number"], 16)


def _entry(reader: Any, cursor: str) -> dict[str, Any]:  # noqa: ANN401 - it brings no types
    fields = reader._get_all()  # noqa: SLF001
    journal_microseconds, boot = reader._get_monotonic()  # noqa: SLF001
    kernel_microseconds = _text(fields, "_SOURCE_MONOTONIC_TIMESTAMP") or ""
    microseconds = (
        int(kernel_microseconds) if _is_count(kernel_microseconds) else journal_microseconds
    )
    priority = _text(fields, "PRIORITY") or ""
    return {
        "cursor": cursor,
        "realtime_seconds": reader._get_realtime() / 1e6,  # noqa: SLF001
        "monotonic_seconds": microseconds / 1e6,
        "boot_id": str(uuid.UUID(bytes=boot)),
        "priority": int(priority) if _is_count(priority) else None,
        "message": _text(fields, "MESSAGE") or "",
        "device": _text(fields, "_KERNEL_DEVICE"),
        "subsystem": _text(fields, "_KERNEL_SUBSYSTEM"),
    }


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    """Return a field, the first of several, cut; bytes that are not UTF-8 are escaped."""
    value = fields.get(name)
    if value is None:
        return None
    content: bytes = value[0] if isinstance(value, list) else value
    text = content[:MAX_MESSAGE_BYTES].decode(errors="backslashreplace")
    return text + ELLIPSIS if len(content) > MAX_MESSAGE_BYTES else text


def _is_count(text: str) -> bool:
    return text.isdigit() and text.isascii() and len(text) < 20


VERBS: Mapping[str, Callable[[tuple[str, ...]], dict[str, Any]]] = {
    "tasks": tasks,
    process_io.VERB: io_sweep,
    "statvfs": statvfs,
    "newest": newest,
    "journal": journal,
    "scan": scan.scan,
}

CAPABILITIES: Mapping[str, frozenset[Capability]] = {
    # Kernel stacks, what others' tasks wait for, and files of '/proc' that belong to others.
    "tasks": ADMIN | {Capability.SYS_PTRACE},
    process_io.VERB: READ_ALL | {Capability.SYS_PTRACE},
    "statvfs": READ_ALL,
    "newest": READ_ALL,
    "journal": READ_ALL,
    "scan": READ_ALL,
}
"""What each verb keeps of root's capabilities. Source: kernel, fs/proc/base.c."""

_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "tasks": (),
    process_io.VERB: (),
    "statvfs": ("PATH",),
    "newest": ("DIR", "GLOB"),
    "journal": ("CURSOR",),
    "scan": scan.ARGUMENTS,
}
