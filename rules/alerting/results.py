"""The result of a rule's expression: its vector, what is recorded of it, its limit. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.rules.promql.errors import EvaluationError
from iowarden.rules.promql.evaluator import Sample

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.rules.promql.store import Labels, VectorItem
    from iowarden.rules.rulefile.rulefile import RecordingRule


def vector(result: list[Sample] | float) -> list[Sample]:
    """Return a result as samples. As Prometheus: a scalar is a sample without labels."""
    return result if isinstance(result, list) else [Sample("", (), result)]


def recorded(rule: RecordingRule, samples: Iterable[Sample]) -> list[VectorItem]:
    """Return the series of a recording rule's result; a label that is empty is none."""
    extra = dict(rule.labels)
    return [(rule.record, _full({**dict(one.labels), **extra}), one.value) for one in samples]


def _full(labels: dict[str, str]) -> Labels:
    return tuple(sorted((name, value) for name, value in labels.items() if value))


def within(limit: int, found: int, what: str) -> None:
    """Source: Prometheus, the field 'limit' of a group; 0 is none. Errors: EvaluationError."""
    if limit and found > limit:
        raise EvaluationError(f"exceeded limit of {limit} with {found} {what}")
