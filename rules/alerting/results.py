"""Results of a rule's expression: vector, recorded series, limit. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.rules.promql.errors import EvaluationError
from iowarden.rules.promql.evaluator import Sample

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.rules.promql.store import Labels, VectorItem
    from iowarden.rules.rulefile.rulefile import RecordingRule


def vector(result: list[Sample] | float) -> list[Sample]:
    """Return a result as a vector. As in Prometheus, a scalar is a sample without labels."""
    return result if isinstance(result, list) else [Sample("", (), result)]


def recorded(rule: RecordingRule, samples: Iterable[Sample]) -> list[VectorItem]:
    """Return the series of a recording rule's result; empty labels are removed."""
    extra = dict(rule.labels)
    return [(rule.record, _full({**dict(one.labels), **extra}), one.value) for one in samples]


def _full(labels: dict[str, str]) -> Labels:
    return tuple(sorted((name, value) for name, value in labels.items() if value))


def within(limit: int, found: int, what: str) -> None:
    """Check the field 'limit' of a rule group, as Prometheus; 0: none. Errors: EvaluationError."""
    if limit and found > limit:
        raise EvaluationError(f"exceeded limit of {limit} with {found} {what}")
