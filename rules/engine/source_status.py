"""Status of each data source: its last run, its last good value, since when it is stale. Pure.

The last data of a data source stay valid for three of its periods after it stopped delivering.
Units: seconds of the program's clock (Unix time that never jumps).
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family, Outcome, Reading, Sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.source import Source

VALID_PERIODS = 3

FAMILIES = (
    Family(
        "iowarden_collector_duration_seconds",
        "gauge",
        "Seconds that the collector's last run took.",
    ),
    Family(
        "iowarden_collector_outcome",
        "gauge",
        "1 for the outcome of the collector's last run, else 0.",
    ),
    Family(
        "iowarden_collector_age_seconds",
        "gauge",
        "Seconds since the collector last read valid data.",
    ),
    Family(
        "iowarden_collector_stale_seconds",
        "gauge",
        "Seconds for which a collector has had no current data; 0 while its last data are valid,"
        " and while it is not polled on purpose.",
    ),
)


T = TypeVar("T")


@dataclass(slots=True)
class SourceStatus(Generic[T]):
    """Status of one data source: its last run, its last good value, and what is shown of it."""

    source: Source[T]
    since_seconds: float | None = None
    """When it last delivered valid data, or the first tick."""
    reading: Reading[T] | None = None
    value: T | None = None
    good_seconds: float | None = None
    shown: T | None = None
    """The value that is exported; None: nothing is."""
    whole_devices: frozenset[str] | None = None
    """Those that the exported samples are restricted to; None: not known."""
    _made: tuple[T | None, frozenset[str] | None, list[Sample]] | None = None
    """The exported samples, after what they were made of; None: not made yet."""
    paused_because: str = ""
    """Why it is not polled on purpose: then it is not stale."""
    is_silent: bool = True
    """Whether it should deliver data and does not; one absent on this host need not."""
    outcome_samples: list[Sample] = field(default_factory=list)
    outcome_of: Reading[T] | None = None
    """The run behind `outcome_samples`."""

    def take(self, reading: Reading[T], now: float) -> None:
        """Take the result of a run."""
        if reading.value is not None:
            if self.value != reading.value:
                self.value = reading.value
            else:  # What was made of it is valid, and is kept; equal data are in memory once.
                reading = replace(reading, value=self.value)
            self.good_seconds = self.since_seconds = now
        self.reading = reading
        absent = reading.outcome is Outcome.ABSENT and self.good_seconds is None
        self.is_silent = reading.outcome is not Outcome.OK and not absent

    def show(self, value: T | None, whole_devices: frozenset[str] | None) -> bool:
        """Export a value, None for nothing; return whether its samples may be others now."""
        if self.shown is value and self.whole_devices == whole_devices:
            return False
        self.shown, self.whole_devices, self._made = value, whole_devices, None
        return True

    def samples(self) -> list[Sample]:
        """Return the exported samples, made when they are first needed; in any thread."""
        value, whole, made = self.shown, self.whole_devices, self._made
        if made is None or made[0] is not value or made[1] is not whole:
            found = [] if value is None else self.source.samples(value, whole)
            # With what it was made of: meanwhile, the loop may have shown something else.
            self._made = made = value, whole, found
        return made[2]

    def hold(self, reason: str, now: float) -> None:
        """Note why it is not polled on purpose; '': it is polled, and has its time from now on."""
        if self.paused_because and not reason:
            self.since_seconds = now
        self.paused_because = reason

    def is_stale(self, now: float) -> bool:
        """Whether it should deliver data, and has not for too long."""
        return self.is_silent and not self.paused_because and not self.is_valid(now)

    def outcome(self) -> Outcome | None:
        """Return the last run's outcome, or None before the first."""
        return None if self.reading is None else self.reading.outcome

    def is_valid(self, now: float) -> bool:
        """Whether its last data may still be used."""
        since = now if self.since_seconds is None else self.since_seconds
        return now - since <= VALID_PERIODS * self.source.period_seconds


def needs_update(
    sources: Mapping[str, SourceStatus[Any]], fresh: Iterable[str], now: float
) -> bool:
    """Whether FAMILIES show another outcome, or a data source that is stale.

    `fresh` are the data sources that were read in this tick.
    """
    return any(
        (of := sources[name].outcome_of) is None or of.outcome is not sources[name].outcome()
        for name in fresh
    ) or any(status.is_stale(now) for status in sources.values())


def samples(sources: Mapping[str, SourceStatus[Any]], now: float) -> list[Sample]:
    """Return the samples of FAMILIES."""
    found: list[Sample] = []
    for name, status in sources.items():
        labels = (("collector", name),)
        if status.reading is not None:
            if status.outcome_of is not status.reading:
                status.outcome_of = status.reading
                status.outcome_samples = _outcome_samples(status.reading)
            found += status.outcome_samples
        if status.good_seconds is not None:
            age = now - status.good_seconds
            found.append(("iowarden_collector_age_seconds", labels, age))
        lost = status.is_stale(now)
        silent = now - status.since_seconds if lost and status.since_seconds else 0.0
        found.append(("iowarden_collector_stale_seconds", labels, silent))
    return found


def _outcome_samples(reading: Reading[object]) -> list[Sample]:
    own = ("collector", reading.source)
    return [
        ("iowarden_collector_duration_seconds", (own,), reading.duration_seconds),
        *(
            (
                "iowarden_collector_outcome",
                (own, ("outcome", outcome.value)),
                float(reading.outcome is outcome),
            )
            for outcome in Outcome
        ),
    ]
