"""Mounted file systems, from '/proc/1/mountinfo' and '/etc/fstab'."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - to be evaluated
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import AbsentError, Family, ParseError, ReadError, Sample
from iowarden.collectors.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.model import Labels

PATH = "/proc/1/mountinfo"
"""The host's, not our own: in a service's namespace its mounts are read-only, '/home' a tmpfs."""
FSTAB = "/etc/fstab"

_NETWORK = frozenset(
    "9p afs beegfs ceph cifs coda glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 orangefs panfs smb3"
    " smbfs virtiofs fuse.ceph fuse.cephfs fuse.glusterfs fuse.juicefs fuse.mfs fuse.moosefs"
    " fuse.s3fs fuse.sshfs".split()
)
_ANONYMOUS = frozenset({"bcachefs", "btrfs", "fuse.zfs", "zfs"})
"""File systems with a device number of their own: on several devices, or with subvolumes."""
_NEVER_WRITTEN = frozenset({"cramfs", "erofs", "iso9660", "romfs", "squashfs"})


@dataclass(frozen=True, slots=True)
class Mount:
    """One mount. Source: kernel, filesystems/proc.rst, 3.5; proc_pid_mountinfo(5).

    Names are without the kernel's octal escapes.
    """

    device_number: str
    """'8:1'."""
    source: str
    """'/dev/sda1', 'tmpfs', 'server:/export'."""
    root: str
    mount_point: str
    kind: str
    """'ext4', 'xfs', 'nfs4' ..."""
    options: tuple[str, ...]
    """Options of this mount: 'rw', 'noatime' ..."""
    super_options: tuple[str, ...]
    """Options of the file system: 'rw', 'emergency_ro', 'shutdown' ..."""

    @property
    def labels(self) -> Labels:
        """Labels of every series about this mount."""
        return (
            ("device", self.source),
            ("fstype", self.kind),
            ("mountpoint", self.mount_point),
        )

    @property
    def read_only(self) -> bool:
        """Whether the mount or the file system is read-only."""
        return "ro" in self.options or "ro" in self.super_options

    @property
    def anonymous(self) -> bool:
        """Whether its device number belongs to no device: in memory, on several devices, remote."""
        return self.device_number.startswith("0:")

    @property
    def storage(self) -> bool:
        """Whether it stores data: a writable type, on block devices or remote."""
        if self.kind in _NEVER_WRITTEN:
            return False
        return not self.anonymous or self.kind in _NETWORK or self.kind in _ANONYMOUS


@dataclass(frozen=True, slots=True)
class Mounts:
    """All mounts of process 1, in the order of the file, and the options in '/etc/fstab'."""

    mounts: tuple[Mount, ...]
    wanted: Mapping[str, tuple[str, ...]] | None
    """Options by mount point; None: the file exists and cannot be read."""

    def is_mounted_at_boot(self, mount_point: str) -> bool:
        """Whether '/etc/fstab' has a file system mounted at boot, not as needed (noauto)."""
        return "noauto" not in (self.wanted or {}).get(mount_point, ("noauto",))


FAMILIES = (
    Family("iowarden_mount_read_only", "gauge", "1 when a mount or its file system is read-only."),
    Family(
        "iowarden_mount_fstab_read_only",
        "gauge",
        "1 when '/etc/fstab' has the mount as read-only, 0 when as writable.",
    ),
    Family(
        "iowarden_mount_emergency",
        "gauge",
        "1 when the file system has shut itself down after an error (emergency_ro, shutdown).",
    ),
    Family(
        "iowarden_mount_strictatime",
        "gauge",
        "1 when every read of a file writes its access time (neither noatime nor relatime).",
    ),
)
_EMERGENCY = frozenset({"emergency_ro", "shutdown"})
_ESCAPE = lazy_pattern(r"\\([0-7]{3})")


def unescaped(text: str) -> str:
    """Return a name without the kernel's octal escapes."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), text) if "\\" in text else text


def parse_mountinfo(text: str, path: str = PATH) -> tuple[Mount, ...]:
    """Return the mounts in the order of the text."""
    mounts = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line:
            continue
        # One blank separates two fields: a source may be an empty text.
        words = line.split(" ")
        try:
            dash = words.index("-", 6)
            kind, source, super_options = words[dash + 1 : dash + 4]
            if ":" not in words[2]:
                raise ValueError  # one message for every invalid line
        except ValueError:
            raise ParseError(
                f"'{path}' line {number}: expected '<id> <parent> <major>:<minor> <root>"
                f" <mount point> <options> ... - <kind> <source> <options>', got {line[:120]!r}"
            ) from None
        mounts.append(
            Mount(
                device_number=words[2],
                source=unescaped(source),
                root=unescaped(words[3]),
                mount_point=unescaped(words[4]),
                kind=unescaped(kind),
                options=tuple(words[5].split(",")),
                super_options=tuple(super_options.split(",")),
            )
        )
    return tuple(mounts)


def parse_fstab(text: str) -> dict[str, tuple[str, ...]]:
    """Parse the options in '/etc/fstab' of each mount point.

    Source: fstab(5). Like mount(8) it skips invalid lines; swap has no mount point.
    """
    wanted: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) < 3 or words[0].startswith("#") or not words[1].startswith("/"):
            continue
        mount_point = unescaped(words[1]).rstrip("/") or "/"
        options = words[3] if len(words) > 3 else "defaults"
        wanted[mount_point] = tuple(options.split(","))
    return wanted


def visible(mounts: Iterable[Mount]) -> list[Mount]:
    """Return the mounts without those hidden by a later one at the same mount point."""
    return list({mount.mount_point: mount for mount in mounts}.values())


def identity(mount: Mount) -> tuple[str, str]:
    """Return a key that is equal for all mounts of one file system.

    Exports of one server share a device number and are distinguished by their source.
    """
    return mount.device_number, mount.source if mount.kind in _NETWORK else ""


def storage(mounts: Iterable[Mount]) -> list[Mount]:
    """Return one mount of each file system that stores data, as df shows them.

    Of several mounts of one file system that of its root with the shortest path; btrfs mounts
    subvolumes, so any root is accepted there.
    """
    chosen: dict[tuple[str, str], Mount] = {}
    for mount in visible(mounts):
        key = identity(mount)
        if mount.storage and (key not in chosen or _rank(mount) < _rank(chosen[key])):
            chosen[key] = mount
    return list(chosen.values())


def _rank(mount: Mount) -> tuple[bool, int, str]:
    part = mount.root != "/" and mount.kind != "btrfs"
    return part, len(mount.mount_point), mount.mount_point


def read_mounts(root: Machine) -> Mounts:
    """Read the mounts and the options of '/etc/fstab'.

    Limits: may hang, because '/etc/fstab' is a file on a disk. Errors: AbsentError, ReadError,
    ParseError.
    """
    mounts = read_mountinfo(root)
    try:
        wanted = parse_fstab(root.read(FSTAB))
    except AbsentError:  # no such file, as on a live system: then no line mounts anything
        wanted = {}
    except ReadError:  # the mounts are needed even if it cannot be read
        wanted = None
    return Mounts(mounts, wanted)


def read_mountinfo(root: Machine) -> tuple[Mount, ...]:
    """Read the mounts of process 1. Errors: AbsentError, ReadError, ParseError."""
    # With hidepid 1 it is EPERM, with 2 ENOENT; without, every user may read it.
    hint = "; '/proc' mounted with hidepid hides it from all but root"
    try:
        text = root.read(PATH)
    except AbsentError as error:
        raise AbsentError(f"{error}{hint}") from error
    except ReadError as error:
        raise ReadError(f"{error}{hint}") from error
    if not text.strip():
        raise ParseError(f"'{PATH}': expected at least one mount, got none")
    return parse_mountinfo(text)


def emit(value: Mounts) -> list[Sample]:
    """Return the samples of FAMILIES for every file system that stores data."""
    samples: list[Sample] = []
    for mount in storage(value.mounts):
        labels = mount.labels
        wanted = None if value.wanted is None else value.wanted.get(mount.mount_point)
        strict = not mount.read_only and {"noatime", "relatime"}.isdisjoint(mount.options)
        emergency = not _EMERGENCY.isdisjoint(mount.super_options)
        samples.append(("iowarden_mount_read_only", labels, float(mount.read_only)))
        if wanted is not None:
            samples.append(("iowarden_mount_fstab_read_only", labels, float("ro" in wanted)))
        samples.append(("iowarden_mount_emergency", labels, float(emergency)))
        samples.append(("iowarden_mount_strictatime", labels, float(strict)))
    return samples


def mount_points(value: Mounts) -> frozenset[str]:
    """Return all mount points."""
    return frozenset(mount.mount_point for mount in value.mounts)


SOURCE: Source[Mounts] = Source(
    name="mounts",
    period_seconds=15,
    period_help="How often the mounts are read.",
    may_hang=True,
    read=read_mounts,
    families=FAMILIES,
    emit=emit,
    objects=("mountpoint",),
    lists=("mountpoint", mount_points),
)
