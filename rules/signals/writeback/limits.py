"""Kernel limits on unwritten data: dirty and background threshold, freerun, by kernel version.

Source: kernel mm/page-writeback.c (global_dirty_limits, domain_dirty_limits, balance_dirty_pages)
and admin-guide/sysctl/vm.rst. Units: bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from iowarden.collectors.procfs.meminfo import Meminfo
    from iowarden.collectors.procfs.sysctl_vm import VmSysctl
    from iowarden.collectors.procfs.vmstat import Vmstat

FREERUN_KERNEL = (3, 2, 0)
"""From 3.2 on the kernel pauses writers from (threshold + background) / 2, not only at the
threshold."""
_DIRTYABLE_KERNEL = (2, 6, 22)
"""From 2.6.22 on the ratio refers to dirtyable memory; before, to all memory."""
_BLOCKED_RATIO_BEFORE_3_2 = 0.95
"""Before 3.2 the level stays just under the threshold: at 0.9901 of it in an observed freeze."""
_FLOOR_PERCENT = 5


@dataclass(frozen=True, slots=True)
class DirtyLimits:
    """The kernel's limits on unwritten data.

    `onset_bytes` is where the kernel begins to pause writers: freerun from kernel 3.2 on, 0.95 of
    the threshold before.
    """

    threshold_bytes: float
    background_bytes: float
    onset_bytes: float


def level_bytes(vmstat: Vmstat | None, meminfo: Meminfo | None) -> float | None:
    """Return the data that counts against the limits: dirty + writeback + NFS-unstable pages.

    FUSE's WritebackTmp, swap and O_DIRECT writes count neither in the kernel nor here.
    """
    source = meminfo if vmstat is None else vmstat
    if source is None:
        return None
    return source.dirty_bytes + source.writeback_bytes + (source.unstable_bytes or 0)


def dirty_limits(
    vmstat: Vmstat | None, meminfo: Meminfo | None, sysctl: VmSysctl | None
) -> DirtyLimits | None:
    """Return the limits that this kernel applies, or None when its files do not contain them.

    Limits that the kernel exports (nr_dirty_threshold, 2.6.37 and later) are used unchanged:
    meminfo lacks what is needed to compute them (reserves, anonymous memory before 3.14).
    """
    exported = None if vmstat is None else vmstat.dirty_threshold_bytes
    if vmstat is not None and exported is not None:
        background = vmstat.dirty_background_threshold_bytes
        if background is None:
            return None
        return _limits(exported, background, sysctl)
    if meminfo is None or sysctl is None:
        return None
    legacy = sysctl.kernel < _DIRTYABLE_KERNEL
    base = meminfo.total_bytes if legacy else _dirtyable_bytes(meminfo)
    if base is None:
        return None
    percent = _legacy_percent(meminfo, sysctl)
    if sysctl.dirty_bytes:
        threshold: float = sysctl.dirty_bytes
    elif percent is None:
        return None
    else:
        threshold = base * percent // 100
    if sysctl.dirty_background_bytes:
        background_bytes: float = sysctl.dirty_background_bytes
    elif sysctl.dirty_background_ratio_percent is None:
        return None
    else:
        background_bytes = base * sysctl.dirty_background_ratio_percent // 100
    return _limits(threshold, background_bytes, sysctl)


def drain_seconds(backlog_bytes: float, bandwidth_bytes_per_second: float) -> float | None:
    """Return the seconds to drain a backlog at a bandwidth; None if the bandwidth is 0."""
    if bandwidth_bytes_per_second <= 0:
        return None
    return backlog_bytes / bandwidth_bytes_per_second


def _limits(threshold: float, background: float, sysctl: VmSysctl | None) -> DirtyLimits:
    if background >= threshold:
        background = threshold / 2
    old = sysctl is not None and sysctl.kernel < FREERUN_KERNEL
    onset = threshold * _BLOCKED_RATIO_BEFORE_3_2 if old else (threshold + background) / 2
    return DirtyLimits(threshold, background, onset)


def _dirtyable_bytes(meminfo: Meminfo) -> float | None:
    """Return dirtyable memory of 2.6.22 to 2.6.36: free memory and both lists of pages."""
    if meminfo.active_bytes is None or meminfo.inactive_bytes is None:
        return None
    return meminfo.free_bytes + meminfo.active_bytes + meminfo.inactive_bytes


def _legacy_percent(meminfo: Meminfo, sysctl: VmSysctl) -> int | None:
    """Return dirty_ratio as used before 2.6.37: at most half the unmapped share, at least 5."""
    if (
        sysctl.dirty_ratio_percent is None
        or meminfo.mapped_bytes is None
        or meminfo.anon_bytes is None
    ):
        return None
    mapped = 100 * (meminfo.mapped_bytes + meminfo.anon_bytes) // meminfo.total_bytes
    return int(max(_FLOOR_PERCENT, min(sysctl.dirty_ratio_percent, (100 - mapped) // 2)))
