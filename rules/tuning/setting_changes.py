"""Changes of settings, and whether the signals that depend on them moved. Pure.

A signal is averaged in pieces of an hour at most; a change of a setting begins a new piece. The
mean of up to a day before a change is compared with that of the time since. Limits: in memory, so
since the service started; the load before and after may differ, which only the reader can know.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.quantity import duration
from iowarden.rules.tuning.tunings import SETTINGS, SIGNALS, Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.model import Labels, Sample

STEP_SECONDS = 15.0
PIECE_SECONDS = 3600.0
WINDOW_SECONDS = 86400.0
"""How much time before a change is compared, and since it at most."""
MIN_SECONDS = 3600.0
"""Less observed time on one side is not compared. Source: engineering choice."""
MIN_RATIO = 0.2
"""A smaller change of the mean is none. Source: engineering choice."""
MAX_SERIES = 100
"""Observed series of signals; those that are never above 0 are not counted."""
MAX_CHANGES = 50
HOSTS = "iowarden_device_scsi_info"
"""Metric with the host adapter of each device, in its labels."""
READ = frozenset((*SETTINGS, *SIGNALS, HOSTS))
"""The metrics that are read."""

Series = tuple[str, "Labels"]


@dataclass(frozen=True, slots=True)
class Mean:
    """A signal over a time: observed seconds, mean, maximum, share of the time above 0."""

    seconds: float = 0.0
    mean: float = 0.0
    maximum: float = 0.0
    above_zero_ratio: float = 0.0


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A change of a setting. Times are those of the program's clock."""

    at_seconds: float
    setting: Setting
    labels: Labels
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Effect:
    """A signal before and since a change; `verdict` is what may be concluded."""

    metric: str
    labels: Labels
    before: Mean
    after: Mean
    verdict: str


@dataclass(slots=True)
class _Piece:
    began: float
    ended: float
    count: int = 0
    total: float = 0.0
    above_zero: int = 0
    maximum: float = 0.0

    def add(self, now: float, value: float) -> None:
        self.ended = now
        self.count += 1
        self.total += value
        self.above_zero += value > 0
        self.maximum = max(self.maximum, value)


@dataclass(slots=True)
class SettingChanges:
    """Observes settings and signals; `step` takes each tick's samples."""

    changes: deque[SettingChange] = field(default_factory=lambda: deque(maxlen=MAX_CHANGES))
    _settings: dict[Series, str] = field(default_factory=dict)
    _pieces: dict[Series, deque[_Piece]] = field(default_factory=dict)
    _hosts: dict[str, str] = field(default_factory=dict)
    _next_seconds: float = -math.inf

    def due(self, now: float) -> bool:
        """Whether samples are to be taken."""
        return now >= self._next_seconds

    def step(self, now: float, families: Iterable[tuple[str, Iterable[Sample]]]) -> None:
        """Take the current samples of all metrics; their values are one period old at most."""
        self._next_seconds = now + STEP_SECONDS
        settings: dict[Series, str] = {}
        signals: dict[Series, float] = {}
        for name, samples in families:
            if name in SETTINGS:
                settings.update(_setting(SETTINGS[name], each) for each in samples)
            elif name in SIGNALS:
                signals.update(((name, labels), value) for _, labels, value in samples)
            elif name == HOSTS:
                found = [dict(labels) for _, labels, _ in samples]
                self._hosts = {each["device"]: each["host"] for each in found}
        changed = self._changed(now, settings)
        for series, value in signals.items():
            if math.isfinite(value):
                self._add(now, series, value, changed=changed)

    def effects(self, change: SettingChange, now: float) -> list[Effect]:
        """Return the signals that depend on a setting before and since its change."""
        until = min(
            (
                c.at_seconds
                for c in self.changes
                if c.at_seconds > change.at_seconds and _same(c, change)
            ),
            default=now,
        )
        since = max(
            (
                c.at_seconds
                for c in self.changes
                if c.at_seconds < change.at_seconds and _same(c, change)
            ),
            default=-math.inf,
        )
        since = max(since, change.at_seconds - WINDOW_SECONDS)
        found = []
        for (metric, labels), pieces in self._pieces.items():
            if change.setting in SIGNALS[metric] and self._about(change, dict(labels)):
                before = _mean(
                    p for p in pieces if p.began >= since and p.ended < change.at_seconds
                )
                after = _mean(p for p in pieces if change.at_seconds <= p.began < until)
                verdict = _verdict(before, after)
                found.append(Effect(metric, labels, before, after, verdict))
        return found

    def _changed(self, now: float, settings: Mapping[Series, str]) -> bool:
        """Take the settings; return whether one has another value than before."""
        found = False
        for series, value in settings.items():
            old = self._settings.get(series, value)
            if old != value:
                name, labels = series
                self.changes.append(SettingChange(now, SETTINGS[name], labels, old, value))
                found = True
        # A device that is gone takes its value along: another one may get its name.
        read = {name for name, _ in settings}
        held = {s: v for s, v in self._settings.items() if s[0] not in read}
        self._settings = {**held, **settings}
        return found

    def _add(self, now: float, series: Series, value: float, *, changed: bool) -> None:
        pieces = self._pieces.get(series)
        if pieces is None:
            if value <= 0 or len(self._pieces) >= MAX_SERIES:
                return
            pieces = self._pieces[series] = deque(
                maxlen=int(2 * WINDOW_SECONDS / PIECE_SECONDS) + MAX_CHANGES
            )
        if changed or not pieces or now - pieces[-1].began >= PIECE_SECONDS:
            pieces.append(_Piece(now, now))
        pieces[-1].add(now, value)

    def _about(self, change: SettingChange, labels: Mapping[str, str]) -> bool:
        """Whether a signal is about the device whose setting changed, or about the whole host."""
        own = dict(change.labels)
        device = own.get("device")
        if device is None or not labels.keys() & {"device", "host"}:
            return True
        return labels.get("device") == device or (
            "device" not in labels and labels.get("host") == self._hosts.get(device)
        )


def _setting(setting: Setting, sample: Sample) -> tuple[Series, str]:
    """Return series and value of a setting; the value of an info metric is in a label."""
    name, labels, value = sample
    if not setting.label:
        return (name, labels), f"{value:.15g}"
    return (
        (name, tuple(pair for pair in labels if pair[0] == "device")),
        dict(labels).get(setting.label, ""),
    )


def _same(one: SettingChange, other: SettingChange) -> bool:
    return (one.setting, one.labels) == (other.setting, other.labels)


def _mean(pieces: Iterable[_Piece]) -> Mean:
    found = [*pieces]
    count = sum(piece.count for piece in found)
    if not count:
        return Mean()
    return Mean(
        count * STEP_SECONDS,
        sum(piece.total for piece in found) / count,
        max(piece.maximum for piece in found),
        sum(piece.above_zero for piece in found) / count,
    )


def _verdict(before: Mean, after: Mean) -> str:
    """Return what the two means show, or which time is missing."""
    short = [
        f"{duration(mean.seconds)} {word}"
        for mean, word in ((before, "before"), (after, "since"))
        if mean.seconds < MIN_SECONDS
    ]
    if short:
        return f"not enough data: {' and '.join(short)}, expected at least {MIN_SECONDS / 60:.0f}"
    if after.mean > before.mean * (1 + MIN_RATIO):
        return "higher"
    if after.mean < before.mean * (1 - MIN_RATIO):
        return "lower"
    return "unchanged"
