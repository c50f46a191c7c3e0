"""What a Prometheus adds to the series of an exporter that it scrapes: 'job' and 'instance'. Pure.

Rules for other exporters select by them, join on them and show them. Our own series have none, in
rules as on '/metrics': they would be part of what tells every shipped alert from others.
Source: Prometheus, 'Jobs and instances'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.model import Labels, Sample

UP = "up"
"""1 for each exporter, because what it would tell is known here; a source that is not is told."""


def exporter(name: str) -> str:
    """Return how the names of a metric's exporter begin."""
    return name.partition("_")[0]


def labelled(samples: Iterable[Sample], targets: Mapping[str, Labels]) -> list[Sample]:
    """Return other exporters' series as who scrapes them has them."""
    return [
        (name, tuple(sorted((*labels, *targets.get(exporter(name), ())))), value)
        for name, labels, value in samples
    ]


def up(targets: Mapping[str, Labels]) -> list[Sample]:
    """Return the series that say an exporter answers."""
    return [(UP, labels, 1.0) for labels in targets.values()]


def without(labels: Labels, targets: Mapping[str, Labels]) -> Labels:
    """Return labels as '/metrics' shows them: who scrapes us adds his own 'job' and 'instance'."""
    added = {pair for target in targets.values() for pair in target}
    return tuple(pair for pair in labels if pair not in added)
