"""For how long a condition has been true, by object: shared by signals that use windows of time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.signals.signal import DIGITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.model import Sample
    from iowarden.rules.signals.signal import Pairs


@dataclass(frozen=True, slots=True)
class Sustained:
    """Since when a condition has been true without a break, by device identity or name."""

    since: Mapping[str, float]
    at_seconds: float = 0.0
    """When it was last evaluated; infinite: before a restart."""

    def step(self, keys: Iterable[str], now: float, window_seconds: float) -> Sustained:
        """Return the state after a window in which the condition was true for `keys`."""
        return Sustained({key: self.since.get(key, now - window_seconds) for key in keys}, now)

    def lasting(self, seconds: float) -> Sustained:
        """Return the objects for which it had been true for `seconds` at the last evaluation.

        While it cannot be evaluated it is assumed to stay true: nothing resolves and nothing new
        begins.
        """
        if not self.since:
            return self
        at = self.at_seconds
        return Sustained(
            {key: since for key, since in self.since.items() if at - since >= seconds}, at
        )

    def samples(
        self, metric: str, now: float, names: Mapping[str, str], label: str = "device"
    ) -> list[Sample]:
        """Return the seconds for every object for which it is true; `names`: identity by name."""
        if not self.since:
            return []
        return [
            (metric, ((label, name),), max(round(now - self.since[key], DIGITS), 0.0))
            for name, key in names.items()
            if key in self.since
        ]

    def remember(self) -> dict[str, Pairs]:
        """Return the start times as pairs of a time and 0."""
        return {key: ((since, 0.0),) for key, since in self.since.items()}

    def recall(self, stored: Mapping[str, Pairs]) -> Sustained:
        """Return the stored start times combined with the current ones."""
        before = {key: pairs[0][0] for key, pairs in stored.items() if pairs and pairs[0][0] > 0}
        return Sustained({**before, **self.since}, self.at_seconds or math.inf)


NOTHING = Sustained({})
