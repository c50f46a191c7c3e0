"""Freezes as series on /metrics: how long, how bad and why, and how long waits lasted. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Sample
from iowarden.collectors.procfs.process_io import unit_of
from iowarden.rules.signals.signal import DIGITS
from iowarden.rules.signals.waits.freeze_cause import FreezeCause
from iowarden.rules.signals.waits.harm import followed

if TYPE_CHECKING:
    from iowarden.collectors.model import Labels
    from iowarden.rules.signals.waits.freezes import Series
    from iowarden.rules.signals.waits.group import HarmState

BUCKETS_SECONDS = (4.0, 10.0, 12.0, 20.0, 30.0, 60.0, 120.0, math.inf)

_SECONDS, _VICTIMS = "iowarden_freeze_seconds", "iowarden_freeze_victims"
_MAX_SECONDS, _SERIES_SECONDS = "iowarden_freeze_max_seconds", "iowarden_freeze_series_seconds"
_BLOCKED_SECONDS = "iowarden_freeze_blocked_seconds"
_QUIET_SECONDS = "iowarden_freeze_quiet_seconds"
_LEVEL, _TIMES = "iowarden_freeze_level", "iowarden_freeze_reported_times"
_CAUSE = "iowarden_freeze_cause"
_SPEED, _QUEUED = "iowarden_freeze_write_bytes_per_second", "iowarden_freeze_queued_bytes"
_HISTOGRAM = "iowarden_storage_wait_seconds"

FAMILIES = (
    Family(
        _SECONDS,
        "gauge",
        "How long at least a program that is not the cause has been waiting for this device in"
        " one system call; 0 between two freezes of a series.",
    ),
    Family(
        _MAX_SECONDS,
        "gauge",
        "How long at most: since the poll before the first one that saw it, or since something"
        " gave reason to poll.",
    ),
    Family(
        _SERIES_SECONDS,
        "gauge",
        "Seconds since the first of the freezes of this device that belong together began.",
    ),
    Family(
        _BLOCKED_SECONDS,
        "gauge",
        "Seconds in which programs were blocked since the series of freezes began.",
    ),
    Family(
        _QUIET_SECONDS,
        "gauge",
        "Seconds since the last freeze of the series ended, 0 while programs are blocked.",
    ),
    Family(_VICTIMS, "gauge", "Tasks that wait for this device and are not the cause."),
    Family(
        _LEVEL,
        "gauge",
        "How bad the freezes of this device have been since their series began: 1 counted"
        " only, 2 warning, 3 critical.",
    ),
    Family(
        _TIMES,
        "gauge",
        "Freezes of this device since their series began, in steps: 1, 3, 10, 30, 100 ...",
    ),
    Family(
        _CAUSE,
        "gauge",
        "1 with the cause of the freezes of this device as a label, and the disk below it that"
        " hangs, is slow or starves, or the unit whose limit is the cause.",
    ),
    Family(
        _QUEUED,
        "gauge",
        "Most unwritten data of the host in bytes since programs have been waiting for this"
        " device.",
    ),
    Family(
        _SPEED,
        "gauge",
        "Rate in bytes per second at which this device writes while programs wait for it,"
        " without redundancy.",
    ),
    Family(
        _HISTOGRAM,
        "histogram",
        "Waits for storage of programs that are not the cause, by length: 4 s and longer,"
        " after they ended.",
    ),
)


def samples(state: HarmState, now: float) -> list[Sample]:
    """Return the series of every device with an open series of freezes, and the histogram."""
    result: list[Sample] = []
    for name, freezes in sorted(state.devices.items()):
        if freezes.series is None:
            continue
        victims = state.harms[name].victims if name in state.harms else ()
        longest = max((victim.min_seconds for victim in victims), default=0.0)
        at_most = max((victim.max_seconds for victim in victims), default=0.0)
        labels = (("device", name),)
        result += [
            (_SECONDS, labels, round(longest, DIGITS)),
            (_MAX_SECONDS, labels, round(at_most, DIGITS)),
            (_SERIES_SECONDS, labels, round(now - freezes.series.since_seconds, DIGITS)),
            (_BLOCKED_SECONDS, labels, round(freezes.series.blocked_seconds, DIGITS)),
            (_QUIET_SECONDS, labels, round(_quiet_seconds(freezes.series, now), DIGITS)),
            (_VICTIMS, labels, float(len(followed(victims)))),
            (_LEVEL, labels, float(freezes.series.level)),
            (_TIMES, labels, float(freezes.series.reported_times)),
            (_CAUSE, _cause_labels(state, name), 1.0),
            *_present(_SPEED, labels, state.speeds.get(name)),
            *_present(_QUEUED, labels, _max_queued_bytes(state, name)),
        ]
    return result + histogram(state)


def _quiet_seconds(series: Series, now: float) -> float:
    return 0.0 if series.is_frozen else now - series.freezes[-1].last_seconds


def _max_queued_bytes(state: HarmState, name: str) -> float | None:
    """Return the most unwritten data since programs wait for a device, if they wait for that."""
    is_backlog = state.causes.get(name) is FreezeCause.BACKLOG
    return state.max_queued.get(name) if is_backlog else None


def _present(metric: str, labels: Labels, value: float | None) -> list[Sample]:
    return [(metric, labels, value)] if value else []


def _cause_labels(state: HarmState, name: str) -> Labels:
    cause, disks = state.causes.get(name, FreezeCause.UNKNOWN).value, state.disks.get(name, ())
    # One disk of several is to blame; where all are, or it is the device itself, nothing is added.
    of_disk = (("disk", disks[0]),) if len(disks) == 1 and disks[0] != name else ()
    units = {unit_of(f"0::{limit.group}") for limit in state.limits.get(name, ())} - {""}
    is_limited = cause == FreezeCause.OWN_LIMIT and len(units) == 1
    of_unit = (("unit", *units),) if is_limited else ()
    return (("cause", cause), ("device", name), *of_disk, *of_unit)


def histogram(state: HarmState) -> list[Sample]:
    """Return how many waits have ended since the start; a restart resets them, as a counter."""
    result: list[Sample] = [
        (f"{_HISTOGRAM}_bucket", (("le", _limit_text(limit)),), float(count))
        for limit, count in zip(BUCKETS_SECONDS, state.ended_waits, strict=True)
    ]
    result.append((f"{_HISTOGRAM}_count", (), float(state.ended_waits[-1])))
    result.append((f"{_HISTOGRAM}_sum", (), round(state.ended_seconds, DIGITS)))
    return result


def _limit_text(limit: float) -> str:
    return "+Inf" if limit == math.inf else f"{limit:g}"
