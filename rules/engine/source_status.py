"""Status of each data source: its last run, its last good value, since when it is stale. Pure.

The last data of a data source stay valid for three of its periods after it stopped delivering.
Units: seconds of the program's clock (Unix time that never jumps).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from iowarden.collectors.model import Family, Outcome, Reading, Sample

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

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
        "Seconds for which a collector has had no current data; 0 while its last data are valid.",
    ),
)


T = TypeVar("T")


@dataclass(slots=True)
class SourceStatus(Generic[T]):
    """Status of one data source: its last run, its last good value and the samples made from it."""

    source: Source[T]
    since_seconds: float | None = None
    """When it last delivered valid data, or the first tick."""
    reading: Reading[T] | None = None
    value: T | None = None
    good_seconds: float | None = None
    samples: list[Sample] = field(default_factory=list)
    shown: T | None = None
    """The value behind `samples`: the same value need not be converted again."""
    outcome_samples: list[Sample] = field(default_factory=list)

    def take(self, reading: Reading[T], now: float) -> None:
        """Take the result of a run."""
        self.reading = reading
        if reading.value is not None:
            self.value = reading.value
            self.good_seconds = self.since_seconds = now

    def outcome(self) -> Outcome | None:
        """Return the last run's outcome, or None before the first."""
        return None if self.reading is None else self.reading.outcome

    def silent(self) -> bool:
        """Whether it should deliver data and does not; one absent on this host need not."""
        outcome = self.outcome()
        return outcome is not Outcome.OK and not (
            outcome is Outcome.ABSENT and self.good_seconds is None
        )

    def is_valid(self, now: float) -> bool:
        """Whether its last data may still be used."""
        since = now if self.since_seconds is None else self.since_seconds
        return now - since <= VALID_PERIODS * self.source.period_seconds


def samples(
    sources: Mapping[str, SourceStatus[Any]], fresh: Container[str], now: float
) -> list[Sample]:
    """Return the samples of FAMILIES; `fresh` are the data sources that were read in this tick."""
    found: list[Sample] = []
    for name, status in sources.items():
        labels = (("collector", name),)
        if status.reading is not None:
            if name in fresh:
                status.outcome_samples = _outcome_samples(status.reading)
            found += status.outcome_samples
        if status.good_seconds is not None:
            age = now - status.good_seconds
            found.append(("iowarden_collector_age_seconds", labels, age))
        lost = status.silent() and not status.is_valid(now)
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
