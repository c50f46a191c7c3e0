"""Messages of multipathd, mdadm --monitor, ZED, dmeventd, iscsid, systemd and fsck.

Source: multipath-tools, multipathd/main.c, libmultipath/structs_vec.c, checkers.c and checkers/;
mdadm, mdmonitor.c (Monitor.c before 4.4): its events, and the first line of its mails; OpenZFS,
cmd/zed/zed.d/all-syslog.sh, include/sys/fm/fs/zfs.h; LVM2, daemons/dmeventd/plugins; open-iscsi,
usr/initiator.c; systemd, src/core: mount.c, swap.c, job.c; e2fsprogs, e2fsck/problem.c.
Limits: mdadm and ZED report no level, so that a degraded array may have no redundancy left.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.services.service_message import (
    ADDS,
    ENDS,
    OLDEST,
    ServiceMessage,
    of_rows,
    row,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_PATHS = "Check cables, switch ports and the storage system's controllers of the failed ones."
_NO_PATH = (
    "Check the storage system, its zoning and the links of this host; file systems on it may be"
    " read-only afterwards. Do not restart the host to clear it: unwritten data would be lost."
)
_ARRAY = (
    "See which disks it lacks: cat /proc/mdstat; mdadm --detail DEVICE. Do not remove a disk yet."
)
_POOL = "See its devices and errors: zpool status -v POOL"
_FSCK = "Save what can still be read, check the disk's SMART data, then run fsck by hand."

_CHECKER = r"[\w-]{1,20} checker"
_MULTIPATHD = (
    row(r"(?P<object>\S+): remaining active paths: 0", "MultipathNoPath", "critical",
        "no path works", _NO_PATH),
    row(r"(?P<object>\S+): Entering recovery mode.*", "MultipathNoPath", "critical",
        "no path works: I/O waits until one is back or its retries end", _NO_PATH),
    row(r"(?P<object>\S+): Recovered to normal mode", "MultipathNoPath", ENDS),
    row(r"(?P<object>\S+): Disable queueing", "MultipathNoPath", "critical",
        "no path works, and its I/O fails now", _NO_PATH),
    row(r"(?P<object>\S+): Fail all paths.*", "MultipathNoPath", "critical", "no path works",
        _NO_PATH),
    row(r"(?P<object>\S+): no usable paths found.*", "MultipathNoPath", "critical",
        "it has no usable path", _NO_PATH),
    row(rf"(?P<object>\S+): (?P<part>\S+) - (?:path offline|{_CHECKER} (?:reports path is down"
        r"|timed out|no access to this device|has no usable fd|failed to initialize"
        r"|is not available).*)", "MultipathPathsFailed", "warning", "path {part} failed", _PATHS),
    row(rf"(?P<object>\S+): (?P<part>\S+) - {_CHECKER} reports path is (?:up|ghost).*",
        "MultipathPathsFailed", ENDS),
    row(r"checker failed path (?P<part>[\d:]+) in map (?P<object>\S+)", "MultipathPathsFailed",
        "warning", "path {part} failed", _PATHS),
    row(r"(?P<part>\S+): (?:mark as failed|path is now marginal)", "MultipathPathsFailed",
        "warning", "path {part} failed", _PATHS),
    row(r"(?P<part>\S+): (?:reinstated|path is no longer marginal)", "MultipathPathsFailed", ENDS),
    row(r"(?P<part>\S+)(?: \[[\d:]+\])?: path added to devmap (?P<object>\S+)",
        "MultipathPathsFailed", ENDS),
    row(r"(?P<part>\S+)(?: \[[\d:]+\])?: path removed from map (?P<object>\S+)",
        "MultipathPathRemoved", "notice", "path {part} was removed from the map", _PATHS),
    row(r"(?P<object>\S+): (?:path )?(?:WWID|wwid) .*(?:change|match).*", "MultipathWrongDevice",
        "critical", "a path leads to another disk now", "Stop writing to the map until it is clear"
        " which disk each path leads to: multipath -ll; /lib/udev/scsi_id"),
    row(r"(?P<object>\S+): (?:failed (?:in domap|to (?:setup|create|reload|read|adopt|resize)"
        r"|reload)|can't flush|giving up reload|error fully initializing).*", "MultipathMapError",
        "warning", "multipathd could not change the map"),
    row(r"\S+: (?:add(?:ing)? (?:path|map)|remove (?:path|map)|load table|switch to path group"
        r"|devmap|spurious uevent|orphan path|path already removed|update path|resized map"
        r"|map (?:flushed|removed)|queue_if_no_path enabled|stop event checker|event checker"
        r"|map in use|map \S+ reloaded|reload).*"),
    row(r"(?:-+(?:start up|shut down)-+|path checkers start up|multipathd v.*|read \S+|exit.*"
        r"|.*\(operator\))"),
)  # fmt: skip


_EVENT = lazy_pattern(
    r"(?:mdadm: )?(?P<event>[A-Z]\w{2,30}) event detected on md device (?P<array>[^\s,:]+)"
    r"(?:, component device +(?P<part>\S*))?(?P<rest>.*)"
)
_MAILED = lazy_pattern(
    r"An? (?P<event>[A-Z]\w{2,30}) event ha[ds] been detected on md device (?P<array>\S+?)\.?"
)
_COMPONENT = lazy_pattern(r"It could be related to component device (?P<part>\S+?)\.?")
_MISMATCHES = lazy_pattern(r"mismatches found: (?P<n>\d+)(?: \(on raid level (?P<level>\d+))?")
_PARITY_LEVELS = frozenset({"4", "5", "6"})
_NO_LEVEL = "{}; it may have no redundancy left: its level is not in the text"
_EVENTS: dict[str, tuple[str, str, str]] = {
    "Fail": ("MdMemberFaulty", "critical",
             _NO_LEVEL.format("a member failed")),
    "FailSpare": ("MdSpareFailed", "warning", "a spare failed while it was rebuilt"),
    "DegradedArray": ("MdDegraded", "critical",
                      _NO_LEVEL.format("it is degraded")),
    "DeviceDisappeared": ("MdDisappeared", "critical", "it disappeared: stopped, or failed"),
    "SparesMissing": ("MdSparesMissing", "notice", "it has fewer spares than configured"),
    "RebuildStarted": ("MdSyncRunning", "info", "a rebuild or check began"),
    "MoveSpare": ("MdSpareMoved", "notice", "it got a spare of another array"),
    "TestMessage": ("MdTestMessage", "info", "a test message of mdadm"),
}  # fmt: skip
"""Severity by what is lost; a check begins with 'RebuildStarted', too."""
_WRONG_LEVEL = "Wrong-Level"
"""Of an array without redundancy, which mdadm does not monitor; nothing disappeared."""


def _mdadm(text: str) -> Sequence[ServiceMessage] | None:
    match = _EVENT.fullmatch(text) or _MAILED.fullmatch(text)
    if match is None:
        return () if _COMPONENT.fullmatch(text) else None
    groups = match.groupdict()
    name, array = groups["event"], groups["array"].removeprefix("/dev/").removeprefix("md/")
    array = f"md{array}" if array.isdecimal() else array  # '/dev/md/1' is a link to 'md1'
    part, rest = groups.get("part") or "", groups.get("rest") or ""
    if name == "NewArray":
        return (ServiceMessage(array, "MdDisappeared", ENDS),)
    if name == "SpareActive":
        # Which member it replaced is not in the text: of several that failed one is replaced.
        return (
            ServiceMessage(array, "MdMemberFaulty", ENDS, part=OLDEST),
            ServiceMessage(array, "MdDegraded", ENDS, part=OLDEST),
        )
    if name == "RebuildFinished":
        mismatches = _MISMATCHES.search(text)
        over = ServiceMessage(array, "MdSyncRunning", ENDS)
        if mismatches is None or int(mismatches["n"]) == 0:
            return (over,)
        counted = f"a check found {mismatches['n']} mismatches"
        # Copies may differ where they were rewritten during the check: swap on RAID 1.
        has_parity = mismatches["level"] in _PARITY_LEVELS
        severity = "critical" if has_parity else "notice"
        return over, ServiceMessage(array, "MdMismatches", severity, counted, _ARRAY)
    if name.startswith("Rebuild") and name[len("Rebuild") :].isdecimal():
        return ()
    if name not in _EVENTS:
        return None
    fault, severity, meaning = _EVENTS[name]
    if _WRONG_LEVEL in text:
        return ()
    member = part.rpartition("/")[2] if not rest.startswith(" mismatches") else ""
    meaning += f": {member}" if member else ""
    return (ServiceMessage(array, fault, severity, meaning, _ARRAY, member),)


_ZED = lazy_pattern(r"eid=(?P<eid>\d+) class=(?P<event>[\w.-]+)(?P<pairs>.*)")
_PAIR = lazy_pattern(r"(?P<name>\w+)=(?:'(?P<quoted>[^']*)'|(?P<plain>\S*))")
_GONE = frozenset({"FAULTED", "UNAVAIL", "REMOVED", "DEGRADED", "CANT_OPEN", "CLOSED"})
_ZED_CLASSES: dict[str, tuple[str, str, str]] = {
    "io": ("ZfsDeviceErrors", "warning", "I/O errors"),
    "checksum": ("ZfsDeviceErrors", "warning", "checksum errors"),
    "authentication": ("ZfsDeviceErrors", "warning", "authentication errors of encrypted data"),
    "data": ("ZfsDataErrors", "critical", "data that no copy could repair"),
    "io_failure": ("ZfsPoolSuspended", "critical", "the pool's I/O waits or fails"),
    "probe_failure": ("ZfsDeviceFailed", "warning", "the device does not answer a probe"),
    "deadman": ("ZfsIoHangs", "critical", "an I/O did not complete for minutes"),
    "delay": ("ZfsIoSlow", "notice", "an I/O took longer than 30 s"),
    "log_replay": ("ZfsDataErrors", "critical", "the intent log could not be replayed"),
    "zpool": ("ZfsPoolFailed", "critical", "the pool could not be opened"),
    "removed": ("ZfsDeviceFailed", "warning", "the device was removed"),
    "vdev.no_replicas": ("ZfsPoolFailed", "critical", "too few devices are left for its data"),
    "vdev.open_failed": ("ZfsDeviceFailed", "warning", "the device could not be opened"),
    "vdev.corrupt_data": ("ZfsDeviceFailed", "warning", "the device's label is damaged"),
    "vdev.bad_label": ("ZfsDeviceFailed", "warning", "the device's label is not valid"),
    "vdev.bad_guid_sum": ("ZfsPoolFailed", "critical", "devices of the pool are missing"),
    "vdev.too_small": ("ZfsDeviceFailed", "warning", "the device is too small"),
    "vdev.unknown": ("ZfsDeviceFailed", "warning", "the device could not be opened"),
}  # fmt: skip


def _zed(text: str) -> Sequence[ServiceMessage] | None:
    match = _ZED.match(text)
    if match is None:
        return None
    values = {
        each["name"]: each["quoted"] or each["plain"] or ""
        for each in _PAIR.finditer(match["pairs"])
    }
    pool = values.get("pool") or values.get("pool_guid") or "pool"
    device = values.get("vdev") or values.get("vdev_path") or values.get("vdev_guid") or ""
    device = device.rpartition("/")[2]
    event, state = match["event"], values.get("vdev_state", "")
    place = f"{device}: " if device else ""
    if values.get("pool_state") in {"SUSPENDED", "UNAVAIL"}:
        text = f"the pool is {values['pool_state']}"
        return (ServiceMessage(pool, "ZfsPoolSuspended", "critical", text, _POOL),)
    if event in {"statechange", "vdev_online"}:
        if state == "ONLINE" or (event == "vdev_online" and not state):
            return (ServiceMessage(pool, "ZfsDeviceFailed", ENDS, part=device),)
        if state == "OFFLINE":
            why = f"{place}it was taken offline"
            return (ServiceMessage(pool, "ZfsDeviceFailed", "notice", why, _POOL, device),)
        why = f"{place}it is {state or 'in another state, which is not in the text'}"
        severity = "warning" if state in _GONE else "notice"
        return (ServiceMessage(pool, "ZfsDeviceFailed", severity, why, _POOL, device),)
    if event not in _ZED_CLASSES:
        return None if event.startswith(("vdev.", "ereport")) else ()
    fault, severity, meaning = _ZED_CLASSES[event]
    return (ServiceMessage(pool, fault, severity, f"{place}{meaning}", _POOL, device),)


_DMEVENTD = (
    row(r"(?:WARNING: )?Device #(?P<part>\d+) of (?P<level>\S+) array, (?P<object>[^,]+), has"
        r" failed\.", "LvmRaidDeviceFailed", "warning", "device {part} of {level} failed",
        "lvs -a -o +devices,lv_health_status"),
    row(r"Primary sources for new RAID, (?P<object>[^,]+), have failed\.", "LvmRaidFailed",
        "critical", "the devices with its data failed"),
    row(r"(?:Repair of (?:RAID|mirrored) device (?P<object>\S+) failed|Device failure in (?P<part>"
        r"\S+)|Failed to remove faulty devices in .*)\.?", "LvmRaidDeviceFailed", "critical",
        "a device of {object}{part} failed, and the repair did not succeed"),
    row(r"(?P<object>Primary mirror|Secondary mirror|Log|Mirror|Device) device (?P<part>\d+:\d+)"
        r" (?P<why>flush failed|sync failed|read failed|has failed.*)", "LvmRaidDeviceFailed",
        "warning", "device {part} {why}"),
    row(r"(?:WARNING: )?Thin pool (?P<object>\S+) (?P<area>data|metadata) is now (?P<n>9\d|100)"
        r"(?:\.\d+)?% full\.", "ThinPoolFull", "critical", "its {area} is {n} % full",
        "Extend it before it is full: lvextend"),
    row(r"(?:WARNING: )?Thin pool (?P<object>\S+) (?P<area>data|metadata) is now (?P<n>\d+)"
        r"(?:\.\d+)?% full\.", "ThinPoolFull", "warning", "its {area} is {n} % full",
        "Extend it before it is full: lvextend"),
    row(r"(?:WARNING: )?Snapshot (?P<object>\S+) is now (?P<n>\d+)(?:\.\d+)?% full\.",
        "SnapshotFull", "warning", "it is {n} % full; it is lost when it is full"),
    row(r"(?:WARNING: )?Snapshot (?P<object>\S+) changed state to: (?P<why>\S+) .*",
        "SnapshotFull", "warning", "it is {why}: the snapshot is lost, its origin is not"),
    row(r"(?:Monitoring|No longer monitoring|Dropping monitoring of) .*"),
    row(r"\S+ array, (?P<object>[^,]+), is now in-sync\.", "LvmRaidDeviceFailed", ENDS),
    row(r"(?P<object>\S+) is now in-sync\.|\S+ array, .*, is not in-sync\."),
)  # fmt: skip
_ISCSID = (
    row(r"(?:Kernel reported iSCSI connection (?P<object>\d+:\d+) error.*|Nop-out timedout after"
        r" .*)", "IscsiConnectionError", "warning", "the connection failed",
        "Check the network and the target."),
    row(r"[Cc]onnection(?P<object>\d+:\d+) (?:is operational after recovery.*|to .* is operational"
        r" now)", "IscsiConnectionError", ENDS),
    row(r"[Cc]onnection\d+:\d+ to .* is shutdown.*"),
    row(r"(?:connect to|cannot make (?:a )?connection to) (?P<part>\S+) .*",
        "IscsiConnectionError", "warning", "no connection to {part}",
        "Check the network and the target."),
)  # fmt: skip
_NO_DISK = r"(?!tty|tpm|hvc|vport|rtc|kvm|net|snd|input|ttyS|console|virtio)"
_SYSTEMD = (
    row(rf"Timed out waiting for device (?P<object>(?:dev-|/dev/){_NO_DISK}\S+?)\.?(?: - .*)?",
        "DeviceMissing", "critical", "the device did not appear",
        "See whether the disk is there: lsblk; what the kernel reports of it: dmesg; that fstab"
        " names what exists: findmnt --verify"),
    row(r"Found device (?P<object>\S+).*", "DeviceMissing", ENDS),
    row(r"Failed to (?:re)?mount (?:\S+\.mount - )?(?P<object>.*?)\.?", "MountFailed", "critical",
        "it could not be mounted", "Its reason: journalctl -u UNIT; dmesg"),
    row(r"Timed out (?:re)?mounting (?P<object>.*?)\.?", "MountFailed", "critical",
        "it could not be mounted in time", "Its reason: dmesg"),
    row(r"Dependency failed for (?:\S+\.mount - )?(?P<object>/\S*?)\.?", "MountFailed", "critical",
        "it was not mounted, since a unit before it failed"),
    row(r"Mounted (?:\S+\.mount - )?(?P<object>.*?)\.?", "MountFailed", ENDS),
    row(r"Failed to activate swap (?P<object>.*?)\.?", "SwapFailed", "warning",
        "the swap was not activated"),
    row(r"Failed to start (?:systemd-fsck\S* - )?File System Check on (?P<object>\S+?)\.?",
        "FileSystemCheckFailed", "critical", "its check failed", _FSCK),
    row(r"(?P<object>(?:smartd|smartmontools|multipathd|mdmonitor|zfs-\S+|lvm2-\S+|iscsid?"
        r"|open-iscsi|systemd-fsck\S*|mdadm\S*|dm-event)\.service): Failed with result (?P<why>.*)",
        "StorageServiceFailed", "warning", "the service failed: {why}"),
)  # fmt: skip
_FSCK_ROWS = (
    row(r"(?P<object>[^\s:]+):? *UNEXPECTED INCONSISTENCY; RUN fsck MANUALLY.*",
        "FileSystemCheckFailed", "critical", "its check needs a decision", _FSCK),
    row(r"fsck failed with (?:exit status|error code) (?P<why>\d+).*", "FileSystemCheckFailed",
        "critical", "a check failed with {why}", _FSCK),
    row(r"(?P<object>\S+) contains a file system with errors, check forced.*",
        "FileSystemErrors", "warning", "it had recorded errors", _FSCK),
    row(r"(?:\S+: (?:clean|recovering journal|Clearing orphaned inode|\d+/\d+ files|.* non-contig"
        r")|fsck\.\w+: .*|\S+ has been mounted \d+ times.*|\S+ has gone \d+ days.*).*"),
)  # fmt: skip

_MAJORS = (8, *range(65, 72), *range(128, 136))
_MINORS_OF_A_DISK, _DISKS_OF_A_MAJOR = 16, 16
_NUMBER = lazy_pattern(r"(?P<major>\d{1,4}):(?P<minor>\d{1,7})")


def disk_name(number: str) -> str:
    """Return the name of a SCSI disk by 'major:minor', else the number itself.

    Source: kernel, admin-guide/devices.txt: 16 disks to a major number, 16 minors to a disk.
    """
    match = _NUMBER.fullmatch(number)
    if match is None or int(match["major"]) not in _MAJORS:
        return number
    index = _MAJORS.index(int(match["major"])) * _DISKS_OF_A_MAJOR
    index += int(match["minor"]) // _MINORS_OF_A_DISK
    letters = ""
    while index >= 0:
        letters = chr(ord("a") + index % 26) + letters
        index = index // 26 - 1
    return f"sd{letters}"


_LEFT = lazy_pattern(r"(?P<map>\S+): remaining active paths: (?P<paths>[1-9]\d{0,5})", re.ASCII)
"""Behind the line about a path that failed, which does not name the map, or one that is back."""


def _multipathd(text: str) -> Sequence[ServiceMessage] | None:
    if (left := _LEFT.fullmatch(text)) is not None:
        counted = "one path is left" if left["paths"] == "1" else f"{left['paths']} paths are left"
        return (
            ServiceMessage(left["map"], "MultipathNoPath", ENDS),
            ServiceMessage(left["map"], "MultipathPathsFailed", ADDS, counted),
        )
    reports = of_rows(_MULTIPATHD, text)
    if not reports:
        return reports
    (only,) = reports
    part = disk_name(only.part)
    shown = only.text.replace(only.part, part) if only.part else only.text
    # Some messages about a path do not name its map: they are about each that has the path.
    name = only.object if only.object != "host" or not part else ""
    return (ServiceMessage(name, only.fault, only.severity, shown, only.advice, part),)


def messages(program: str, text: str) -> Sequence[ServiceMessage] | None:
    """Return what a message of a service reports; None: it is not known."""
    if program in {"multipathd", "multipath"}:
        return _multipathd(text)
    if program == "mdadm":
        return _mdadm(text)
    if program == "zed":
        return _zed(text)
    rows = {"iscsid": _ISCSID, "systemd": _SYSTEMD, "systemd-fsck": _FSCK_ROWS, "fsck": _FSCK_ROWS}
    return of_rows(rows.get(program, _DMEVENTD), text)
