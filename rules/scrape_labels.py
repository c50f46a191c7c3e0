"""Labels that Prometheus adds to scraped series: 'job' and 'instance'. Pure.

Rules for other exporters select by these labels, join on them and show them. iowarden's own series
have none, in rules as on '/metrics', because there they would become part of the labels of every
shipped alert. Source: Prometheus, 'Jobs and instances'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iowarden.collectors.model import Labels, Sample

UP = "up"
"""Always 1: the state of each data source is known here and has metrics of its own."""


def exporter(name: str) -> str:
    """Return the prefix of the metric names of an exporter."""
    return name.partition("_")[0]


def labelled(samples: Iterable[Sample], targets: Mapping[str, Labels]) -> list[Sample]:
    """Return other exporters' series with the labels that a scrape adds."""
    return [
        (name, tuple(sorted((*labels, *targets.get(exporter(name), ())))), value)
        for name, labels, value in samples
    ]


def up(targets: Mapping[str, Labels]) -> list[Sample]:
    """Return the series that show an exporter as up."""
    return [(UP, labels, 1.0) for labels in targets.values()]


def without(labels: Labels, targets: Mapping[str, Labels]) -> Labels:
    """Return labels as on '/metrics': Prometheus adds its own 'job' and 'instance'."""
    added = {pair for target in targets.values() for pair in target}
    return tuple(pair for pair in labels if pair not in added)
