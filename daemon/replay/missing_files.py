"""Files that iowarden reads on every machine like a recorded one, and that the recording lacks.

Who writes a recording by hand leaves out what seems not to matter, and a verdict then depends on
what is not there: without the state of a SCSI device no disk is offline. Only files that any kernel
since 4.18 has of such an object are listed. Source: kernel, ABI/stable/sysfs-block,
ABI/testing/sysfs-block, admin-guide/md.rst, filesystems/proc.rst. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.filesystem.mountinfo import PATH as MOUNTINFO
from iowarden.collectors.filesystem.mountinfo import parse_mountinfo
from iowarden.collectors.machine import STATVFS, probe_path
from iowarden.collectors.model import ParseError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iowarden.collectors.recording.player import RecordedMachine
    from iowarden.rules.engine.engine import Engine

MAX_NAMES = 4
"""More names of alerts or objects than this are counted."""
_DISK = r"sd[a-z]+|vd[a-z]+|xvd[a-z]+|nvme\d+n\d+"
_SCSI_DISK = r"sd[a-z]+"
_ARRAY = r"md\w+"


@dataclass(frozen=True, slots=True)
class _Files:
    """Files that a collector reads: one, or with '*' one of each such entry of the directory.

    `path` has alternatives between '|'. `verdicts`: '' are the alerts whose rules read the
    collector.
    """

    collector: str
    path: str
    entries: str = ""
    verdicts: str = ""


_FILES = (
    _Files("meminfo", "/proc/meminfo"),
    _Files("vmstat", "/proc/vmstat"),
    _Files("pressure", "/proc/pressure/io"),
    _Files("stat", "/proc/stat"),
    _Files("diskstats", "/proc/diskstats"),
    _Files("vm_sysctl", "/proc/sys/vm/dirty_ratio"),
    _Files("hung_task", "/proc/sys/kernel/hung_task_timeout_secs"),
    _Files("kernel_log", "/.kmsg", verdicts="events of the kernel's log"),
    _Files("mounts", MOUNTINFO),
    _Files("block", "/sys/block/*/size", _DISK, "DiskSizeDecreased, DiskSizeIncreased"),
    _Files("block", "/sys/block/*/dev", f"{_DISK}|{_ARRAY}|dm-.*", "file systems on it"),
    _Files("block", "/sys/block/*/ro", _DISK, "DiskReadOnly"),
    _Files(
        "block",
        "/sys/block/*/device/vpd_pg80|/sys/block/*/device/wwid|/sys/block/*/device/serial"
        "|/sys/block/*/serial",
        _DISK,
        "DiskMissing; name of a returned disk",
    ),
    _Files(
        "block",
        "/sys/block/*/queue/rotational",
        _DISK,
        "DeviceHang and DiskSlow by its kind of disk",
    ),
    _Files(
        "block", "/sys/block/*/device/timeout", _SCSI_DISK, "DeviceHang as critical at its timeout"
    ),
    _Files(
        "block",
        "/sys/block/*/device/scsi_device",
        _SCSI_DISK,
        "kernel lines that name its address; adapter as the cause",
    ),
    _Files("block", "/sys/block/*/device/state", _SCSI_DISK, "DiskOffline"),
    _Files("scsi", "/sys/class/scsi_host"),
    _Files("md", "/proc/mdstat"),
    _Files("md", "/sys/block/*/md/array_state", _ARRAY, "MdBroken, MdInactive, MdReadOnly"),
    _Files("md", "/sys/block/*/md/degraded", _ARRAY, "MdDegraded, MdDegradedFurther"),
    _Files("md", "/sys/block/*/md/level", _ARRAY, "redundancy left"),
    _Files("md", "/sys/block/*/md/raid_disks", _ARRAY, "redundancy left"),
    _Files("md", "/sys/block/*/md/sync_action", _ARRAY, "MdSyncRunning, MdCheckOverdue"),
    _Files("dm", "/sys/block/*/dm/suspended", "dm-.*", "DeviceSuspended"),
    _Files("dm", "/sys/block/*/dm/uuid", "dm-.*", "MultipathPathLost; kind of volume"),
    _Files("smart", "/.probe", verdicts="verdicts about SMART"),
)


@dataclass(frozen=True, slots=True)
class MissingFiles:
    """What a recording lacks: the collector, the paths, of which objects, and the verdicts."""

    collector: str
    path: str
    objects: tuple[str, ...]
    verdicts: str

    def line(self) -> str:
        """Return it as a line of text."""
        objects = f" of {_listed(self.objects)}" if self.objects else ""
        return f"{self.collector}: '{self.path}'{objects}; without it no: {self.verdicts}"

    def document(self) -> dict[str, object]:
        """Return it as JSON."""
        return {
            "collector": self.collector,
            "path": self.path,
            "objects": list(self.objects),
            "verdicts": self.verdicts,
        }


def lacking(root: RecordedMachine, engine: Engine) -> Iterator[MissingFiles]:
    """Yield what a recorded machine lacks at its end."""
    blocks = root.try_names("/sys/block") or []
    for files in _FILES:
        if not _is_needed(files.collector, blocks):
            continue
        first, _, rest = files.path.partition("|")
        paths = (first, *rest.split("|")) if rest else (first,)
        verdicts = files.verdicts or _listed(engine.rules.visibility.alerts_of(files.collector))
        names = [name for name in blocks if re.fullmatch(files.entries, name)]
        if not files.entries:
            if not root.exists(first):
                yield MissingFiles(files.collector, first, (), verdicts)
            continue
        without = [
            name
            for name in names
            if not any(root.exists(path.replace("*", name)) for path in paths)
        ]
        if without:
            yield MissingFiles(files.collector, first, tuple(without), verdicts)
    yield from _of_file_systems(root, engine)


def _is_needed(collector: str, blocks: Sequence[str]) -> bool:
    """Whether such a machine has the files of a collector that only some machines have."""
    pattern = {"md": _ARRAY, "scsi": _SCSI_DISK, "smart": rf"{_SCSI_DISK}|nvme.*"}.get(collector)
    return pattern is None or any(re.fullmatch(pattern, name) for name in blocks)


def _of_file_systems(root: RecordedMachine, engine: Engine) -> Iterator[MissingFiles]:
    """Yield what is lacking about the mounted file systems."""
    try:
        mounts = parse_mountinfo(root.try_read(MOUNTINFO) or "", MOUNTINFO)
    except ParseError:  # the collector reports it
        return
    local = [mount for mount in mounts if mount.source.startswith("/dev/")]
    measured = {
        mount.device_number
        for mount in local
        if root.exists(mount.mount_point.rstrip("/") + STATVFS)
        or root.exists(probe_path("statvfs", (mount.mount_point,)))
    }
    without = tuple(mount.mount_point for mount in local if mount.device_number not in measured)
    alerts_of = engine.rules.visibility.alerts_of
    if without:
        path = f"<mount point>{STATVFS}"
        yield MissingFiles("filesystem", path, without, _listed(alerts_of("filesystem")))
    for kind in ("ext4", "btrfs"):
        used = tuple(mount.mount_point for mount in local if mount.kind == kind)
        if used and not root.exists(f"/sys/fs/{kind}"):
            yield MissingFiles(kind, f"/sys/fs/{kind}", used, _listed(alerts_of(kind)))


def _listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
