"""Fill level of the mounted file systems: statvfs of each mount point."""

from __future__ import annotations

import contextlib
import errno
import json
from collections.abc import Mapping  # noqa: TC003 - to be evaluated
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.filesystem.mountinfo import (
    identity,
    parse_mountinfo,
    read_mountinfo,
    storage,
    visible,
)
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import (
    AbsentError,
    Family,
    Labels,
    ParseError,
    ReadError,
    Sample,
    parse_count,
)
from iowarden.collectors.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from iowarden.collectors.filesystem.mountinfo import Mount
    from iowarden.collectors.machine import Machine

OWN = "/proc/self/mountinfo"
PROBE_SECONDS = 5.0
"""Timeout: a healthy disk answers in milliseconds, and the others wait for one that does not."""
NEXT_PROBE_SECONDS = 1.0
"""Replaces PROBE_SECONDS once the probe has failed in this run."""

_HIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.ENOENT})
"""Errors of mounts below a directory of mode 0700, or missing in this service's namespace."""


@dataclass(frozen=True, slots=True)
class Usage:
    """One mounted file system. Source: statvfs(3); `read_only` is from the host's mount table.

    `available_bytes` is what an unprivileged program can still write. `files` is 0 if the file
    system has no fixed number of inodes.
    """

    mount_point: str
    device: str
    """Mount source: '/dev/sda1', 'server:/export'."""
    kind: str
    size_bytes: int
    free_bytes: int
    available_bytes: int
    files: int
    files_free: int
    read_only: bool
    device_number: str = "0:0"
    node_factor: float = 1.0
    """f_bsize / f_frsize: node_exporter multiplies by the former, POSIX and df by the latter."""


@dataclass(frozen=True, slots=True)
class UnreadableMount:
    """A mount whose statvfs failed, takes too long, or would report another mount."""

    mount_point: str
    device: str
    kind: str
    reason: str
    read_only: bool = False
    device_number: str = "0:0"


@dataclass(frozen=True, slots=True)
class Filesystems:
    """By mount point; the read ones, and the unreadable ones."""

    usage: Mapping[str, Usage]
    unreadable: Mapping[str, UnreadableMount]
    others: Mapping[str, Usage | UnreadableMount] = field(default_factory=dict)
    """Not monitored: in memory, or a file system's second mount; for node_exporter's series."""


FAMILIES = (
    Family("iowarden_filesystem_size_bytes", "gauge", "Size of a file system."),
    Family(
        "iowarden_filesystem_free_bytes",
        "gauge",
        "Free space, including the part that is reserved for root.",
    ),
    Family("iowarden_filesystem_available_bytes", "gauge", "Free space for users other than root."),
    Family("iowarden_filesystem_files", "gauge", "Inodes; none where their number is not fixed."),
    Family("iowarden_filesystem_files_free", "gauge", "Free inodes."),
    Family("iowarden_filesystem_readonly", "gauge", "1 when it is mounted read-only on the host."),
    Family(
        "iowarden_filesystem_device_error",
        "gauge",
        "1 when the fill level of a file system cannot be read: an error, no answer, not visible.",
    ),
)

_FIELDS = frozenset(
    "block_bytes fragment_bytes blocks blocks_free blocks_available files files_free".split()
)

# Source: node_exporter 1.12, the defaults of --collector.filesystem.mount-points-exclude and
# --collector.filesystem.fs-types-exclude.
_NODE_POINTS = lazy_pattern(
    r"/(dev|proc|run/credentials/.+|sys|var/lib/docker/.+|var/lib/containers/storage/.+)($|/)"
)
_NODE_KINDS = frozenset(
    "autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs erofs fusectl hugetlbfs"
    " iso9660 mqueue nsfs overlay proc procfs pstore rpc_pipefs securityfs selinuxfs squashfs sysfs"
    " tracefs".split()
)


def parse_statvfs(
    text: str, mount: Mount, foreign: frozenset[str] = frozenset()
) -> Usage | UnreadableMount:
    """Parse the text of Machine.statvfs for a mount; refuse one of another mount.

    `foreign`: device numbers of our own mounts. A subvolume of btrfs has a number of its own that
    no mount table has, so for btrfs any number is accepted that is no other file system's.
    Errors: ParseError.
    """
    values = dict(line.partition(" ")[::2] for line in text.splitlines())
    try:
        counts = {name: parse_count(values[name]) for name in _FIELDS}
        number, fragment_bytes = values["device_number"], counts["fragment_bytes"] or 1
    except (KeyError, ValueError) as error:
        raise ParseError(
            f"statvfs of '{mount.mount_point}': expected lines 'device_number <n>:<n>' and"
            f" '<name> <number>' for {', '.join(sorted(_FIELDS))}, got {text[:80]!r} ({error})"
        ) from error
    subvolume = mount.kind == "btrfs" and number not in foreign
    if number != mount.device_number and not subvolume:
        return unreadable(
            mount,
            f"this service has device {number} there, the host has {mount.device_number}",
        )
    return Usage(
        mount_point=mount.mount_point,
        device=mount.source,
        kind=mount.kind,
        size_bytes=counts["blocks"] * fragment_bytes,
        free_bytes=counts["blocks_free"] * fragment_bytes,
        available_bytes=counts["blocks_available"] * fragment_bytes,
        files=counts["files"],
        files_free=counts["files_free"],
        read_only=mount.read_only,
        device_number=mount.device_number,
        node_factor=counts["block_bytes"] / fragment_bytes,
    )


def unreadable(mount: Mount, reason: str) -> UnreadableMount:
    """Return the entry of a mount that could not be read."""
    return UnreadableMount(
        mount.mount_point,
        mount.source,
        mount.kind,
        reason,
        mount.read_only,
        mount.device_number,
    )


def read_filesystems(root: Machine, enter: Callable[[Hashable], str] = lambda _: "") -> Filesystems:
    """Read the fill level of each mount of the host.

    `enter` is called for each file system before it is read; it returns '', or why it is skipped.
    File systems that this user cannot access are queried through the probe.
    Limits: hangs with the first that does not answer, with one that the probe queries for up to
    `PROBE_SECONDS`. Errors: those of read_mountinfo.
    """
    mounts = read_mountinfo(root)
    watched = {mount.mount_point for mount in storage(mounts)}
    foreign: frozenset[str] = frozenset()
    found: dict[str, Usage | UnreadableMount] = {}
    hidden: list[tuple[Mount, str]] = []
    for mount in visible(mounts):
        if mount.mount_point not in watched and _ignored(mount.mount_point, mount.kind):
            continue
        if mount.kind == "btrfs" and not foreign:
            foreign = _own_numbers(root)
        if reason := enter(identity(mount)):
            found[mount.mount_point] = unreadable(mount, reason)
            continue
        one, closed = _inspected(root, mount, foreign)
        found[mount.mount_point] = one
        if closed and isinstance(one, UnreadableMount) and mount.mount_point in watched:
            hidden.append((mount, one.reason))
    found.update(_queried(root, hidden, foreign, enter))
    return Filesystems(
        usage={p: u for p, u in found.items() if p in watched and isinstance(u, Usage)},
        unreadable={
            p: u for p, u in found.items() if p in watched and isinstance(u, UnreadableMount)
        },
        others={p: u for p, u in found.items() if p not in watched},
    )


def _inspected(
    root: Machine, mount: Mount, foreign: frozenset[str]
) -> tuple[Usage | UnreadableMount, bool]:
    """Return what this user can read of a mount, and whether it is hidden from this user."""
    try:
        found = parse_statvfs(root.statvfs(mount.mount_point), mount, foreign)
    except (AbsentError, ReadError) as error:
        cause = error.__cause__
        return unreadable(mount, str(error)), isinstance(cause, OSError) and cause.errno in _HIDDEN
    return found, isinstance(found, UnreadableMount)


def _queried(
    root: Machine,
    hidden: list[tuple[Mount, str]],
    foreign: frozenset[str],
    enter: Callable[[Hashable], str],
) -> Iterator[tuple[str, Usage | UnreadableMount]]:
    """Yield the probe's results for hidden mounts; nothing without a probe.

    `hidden`: each with the error for this user. That error is the end of a reason: node_exporter's
    label has the same text.
    """
    seconds = PROBE_SECONDS
    for mount, because in hidden:
        if reason := enter(identity(mount)):
            yield mount.mount_point, unreadable(mount, reason)
            continue
        try:
            answer = root.query_probe("statvfs", mount.mount_point, deadline_seconds=seconds)
        except AbsentError:
            continue
        except ReadError as error:
            seconds = NEXT_PROBE_SECONDS  # a dead server usually has several mounts
            reason = f"{error}; the probe was queried because {because}"
            yield mount.mount_point, unreadable(mount, reason)
        else:
            yield mount.mount_point, parse_statvfs(_text(answer, mount), mount, foreign)


def _text(answer: str, mount: Mount) -> str:
    text = None
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        text = json.loads(answer)["text"]
    if not isinstance(text, str):
        raise ParseError(
            f"statvfs of '{mount.mount_point}' by the probe: expected an object with a text,"
            f" got {answer[:80]!r}"
        )
    return text


def _own_numbers(root: Machine) -> frozenset[str]:
    try:
        return frozenset(m.device_number for m in parse_mountinfo(root.read(OWN), OWN))
    except AbsentError:  # a recording of another program
        return frozenset()


def _ignored(mount_point: str, kind: str) -> bool:
    return kind in _NODE_KINDS or _NODE_POINTS.match(mount_point) is not None


def emit(value: Filesystems) -> list[Sample]:
    """Return the samples of FAMILIES for file systems that store data."""
    samples: list[Sample] = []
    for usage in value.usage.values():
        labels = _labels(usage)
        samples += [
            ("iowarden_filesystem_size_bytes", labels, usage.size_bytes),
            ("iowarden_filesystem_free_bytes", labels, usage.free_bytes),
            ("iowarden_filesystem_available_bytes", labels, usage.available_bytes),
            ("iowarden_filesystem_readonly", labels, float(usage.read_only)),
            ("iowarden_filesystem_device_error", labels, 0.0),
        ]
        if usage.files:
            samples.append(("iowarden_filesystem_files", labels, usage.files))
            samples.append(("iowarden_filesystem_files_free", labels, usage.files_free))
    samples += [
        ("iowarden_filesystem_device_error", _labels(mount), 1.0)
        for mount in value.unreadable.values()
    ]
    return samples


def unreadable_parts(value: Filesystems) -> Iterator[tuple[Labels, str]]:
    """Yield the mount points without a readable fill level, and why."""
    for mount in value.unreadable.values():
        yield (("mountpoint", mount.mount_point),), mount.reason


def node_samples(value: Filesystems) -> Iterator[Sample]:
    """Yield node_exporter's node_filesystem_* of 1.12, with what it excludes by default left out.

    Limits: of several mounts on one mount point, only the last.
    """
    for mount in (*value.usage.values(), *value.unreadable.values(), *value.others.values()):
        if _ignored(mount.mount_point, mount.kind):
            continue
        major, _, minor = mount.device_number.partition(":")
        yield (
            "node_filesystem_mount_info",
            (
                ("device", mount.device),
                ("major", major),
                ("minor", minor),
                ("mountpoint", mount.mount_point),
            ),
            1,
        )
        error = _node_error(mount.reason) if isinstance(mount, UnreadableMount) else ""
        device, *rest = _labels(mount)
        labels = (device, ("device_error", error), *rest)
        yield "node_filesystem_device_error", labels, float(bool(error))
        yield "node_filesystem_readonly", labels, float(mount.read_only)
        if isinstance(mount, Usage):
            factor = mount.node_factor
            yield "node_filesystem_size_bytes", labels, mount.size_bytes * factor
            yield "node_filesystem_free_bytes", labels, mount.free_bytes * factor
            yield "node_filesystem_avail_bytes", labels, mount.available_bytes * factor
            yield "node_filesystem_files", labels, mount.files
            yield "node_filesystem_files_free", labels, mount.files_free
            yield "node_filesystem_purgeable_bytes", labels, 0


def _node_error(reason: str) -> str:
    if reason.startswith("silent "):
        return "mountpoint timeout"
    # "'/srv': Permission denied": Go writes the same error in lower case.
    return reason.rpartition("': ")[2].lower()


def _labels(mount: Usage | UnreadableMount) -> Labels:
    return (("device", mount.device), ("fstype", mount.kind), ("mountpoint", mount.mount_point))


SOURCE: Source[Filesystems] = Source(
    name="filesystem",
    period_seconds=15,
    period_help="How often the fill level of mounted file systems is read.",
    may_hang=True,
    read=read_filesystems,
    families=FAMILIES,
    emit=emit,
    node=node_samples,
    node_prefixes=("node_filesystem_",),
    objects=("mountpoint",),
    unreadable=unreadable_parts,
    parts=read_filesystems,
)
