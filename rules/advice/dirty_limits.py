"""The step of advice about the dirty limits of the host: a few seconds of writing. Pure.

Source: kernel, admin-guide/sysctl/vm.rst (dirty_bytes, dirty_background_bytes); before 2.6.29 there
are only ratios.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.quantity import duration, size

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from iowarden.collectors.model import Chunk
    from iowarden.rules.advice.step import StepContext

STEP_BYTES = 16 << 20
"""The limits are multiples of this."""
LIMIT_SECONDS, MIN_LIMIT_BYTES = 5.0, 32 << 20
BACKGROUND_SECONDS, MIN_BACKGROUND_BYTES = 2.0, 16 << 20
MIN_BYTES_PER_SECOND = 524_288.0
"""A limit of a few seconds would be too small for a slower disk: that disk is checked instead."""
_CAUSE = "iowarden_freeze_cause"
_DEVICE_SPEED = "iowarden_freeze_write_bytes_per_second"
_HOST_SPEED = "iowarden_writeback_bandwidth_bytes_per_second"
_THRESHOLD = "iowarden_writeback_threshold_bytes"
_RATIO, _BYTES = "iowarden_vm_dirty_ratio_percent", "iowarden_vm_dirty_bytes"

_FAMILIES = (_CAUSE, _DEVICE_SPEED, _HOST_SPEED, _THRESHOLD, _RATIO, _BYTES)


@dataclass(frozen=True, slots=True)
class Backlog:
    """Unwritten data that programs wait for, or another cause. Units: bytes per second.

    `causes`: why programs wait for a device, by its name; `disks`: the disk that is the cause,
    itself or below it, '' for none; `device_speeds`: what the device writes meanwhile;
    `host_speed`: what all disks write, None: not known; `has_bytes`: the limits can be set in
    bytes; `threshold_bytes`: the present limit, None: not known.
    """

    causes: Mapping[str, str] = field(default_factory=dict)
    device_speeds: Mapping[str, float] = field(default_factory=dict)
    host_speed: float | None = None
    has_bytes: bool = True
    disks: Mapping[str, str] = field(default_factory=dict)
    threshold_bytes: float | None = None

    def explains(self, device: str, causes: Collection[str]) -> bool:
        """Whether programs wait for a device because of one of these causes, or of no known one."""
        cause = self.causes.get(device)
        return cause is None or cause in causes


NO_BACKLOG = Backlog()


def backlog(chunks: Iterable[Chunk]) -> Backlog:
    """Return what the last samples show."""
    causes: dict[str, str] = {}
    disks: dict[str, str] = {}
    values: dict[str, dict[str, float]] = {}
    for chunk in chunks:
        for family, samples in chunk.of(_FAMILIES):
            for _, pairs, value in samples:
                labels = dict(pairs)
                if family.name == _CAUSE:
                    causes[labels["device"]] = labels["cause"]
                    disks[labels["device"]] = labels.get("disk", "")
                values.setdefault(family.name, {})[labels.get("device", "")] = value
    return Backlog(
        causes,
        values.get(_DEVICE_SPEED, {}),
        values.get(_HOST_SPEED, {}).get(""),
        _BYTES in values or _RATIO not in values,
        disks,
        values.get(_THRESHOLD, {}).get(""),
    )


def lower_dirty_limits(step: StepContext) -> list[str]:
    """How to let less unwritten data be queued; nothing where programs wait for something else."""
    found, device = step.facts.of.backlog, step.own.get("device", "")
    speed = found.device_speeds.get(device, found.host_speed)
    if speed is None or speed < MIN_BYTES_PER_SECOND or not found.explains(device, {"backlog"}):
        return []
    if found.threshold_bytes is not None and found.threshold_bytes <= _limit_bytes(speed):
        return [_low_already(found.threshold_bytes, speed)]
    return [
        (
            "Lower the dirty limits of the whole host. Note the present values first, to be able to"
            " restore them:"
        ),
        "  sysctl -a | grep ^vm.dirty_",
        "The new limits:",
        *(_in_bytes(speed) if found.has_bytes else _RATIOS),
        (
            "Trade-off: shorter stalls, but slower write bursts. Do not set any of them to 0. To"
            " make the limits permanent, put them into a file in /etc/sysctl.d/."
        ),
    ]


def _low_already(threshold_bytes: float, speed: float) -> str:
    return (
        f"The dirty limit is low already: {size(threshold_bytes)}, at the present speed at most"
        f" {duration(threshold_bytes / speed)} to write. If the program that writes may be slower,"
        " limit its unit (control groups version 2):"
        " 'systemctl set-property --runtime UNIT \"IOWriteBandwidthMax=/dev/DISK 5M\"'."
    )


_RATIOS = ("  sysctl -w vm.dirty_background_ratio=5 vm.dirty_ratio=10",)


def _in_bytes(speed: float) -> tuple[str, str]:
    limit = _limit_bytes(speed)
    background = _rounded(BACKGROUND_SECONDS * speed, MIN_BACKGROUND_BYTES)
    lasts = f"at the present speed at most {duration(limit / speed)} to write"
    return (
        f"  sysctl -w vm.dirty_background_bytes={background} vm.dirty_bytes={limit}",
        f"That is {size(background)} and {size(limit)}, {lasts}.",
    )


def _limit_bytes(speed: float) -> int:
    return _rounded(LIMIT_SECONDS * speed, MIN_LIMIT_BYTES)


def _rounded(size_bytes: float, least_bytes: int) -> int:
    return max(int(size_bytes / STEP_BYTES + 0.5) * STEP_BYTES, least_bytes)
