"""The metrics that match a pattern: what each is, and its values here or why there is none."""

from __future__ import annotations

import difflib
import fnmatch
from typing import TYPE_CHECKING

from iowarden.collectors.model import Outcome
from iowarden.daemon import metrics, process_metrics
from iowarden.daemon.control import documents
from iowarden.daemon.metric_labels import LABELS
from iowarden.daemon.metrics import unit
from iowarden.daemon.views.answers import result
from iowarden.rules.engine import engine as rule_engine
from iowarden.rules.promql.evaluator import Sample
from iowarden.rules.signals.table import GROUPS
from iowarden.rules.topology import device_changes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from iowarden.collectors import model
    from iowarden.rules.engine.engine import Engine
    from iowarden.rules.engine.source_status import SourceStatus

MAX_DETAILED = 10
"""If more metrics match, their samples are only counted."""
MAX_SHOWN = 50
_OWN = (
    *rule_engine.FAMILIES,
    *metrics.FAMILIES,
    *process_metrics.FAMILIES,
)


def names(engine: Engine) -> set[str]:
    """Return the names of all metrics that exist or could."""
    return {*_owners(engine), *_samples(engine)}


def found(engine: Engine, pattern: str) -> documents.MetricList:
    """Return the metrics whose name has a part, or matches a pattern of the shell ('*', '?').

    Errors: ValueError, with names like it.
    """
    owners, samples = _owners(engine), _samples(engine)
    known = sorted({*owners, *samples})
    is_glob = any(each in pattern for each in "*?[")
    lowered = pattern.lower()
    wanted = [
        name
        for name in known
        if (fnmatch.fnmatchcase(name.lower(), lowered) if is_glob else lowered in name.lower())
    ]
    if not wanted:
        like = difflib.get_close_matches(pattern, known, 3, 0.6)
        hint = f"; near: {', '.join(like)}" if like else ""
        raise ValueError(
            "metrics: expected a part of a name or a pattern such as 'iowarden_smart_*', got"
            f" '{pattern:.100}', which matches none of {len(known)} names{hint}"
        )
    detailed = len(wanted) <= MAX_DETAILED
    return documents.MetricList(
        tuple(
            _line(engine, name, owners.get(name), samples.get(name, ()), detailed=detailed)
            for name in wanted
        )
    )


def _owners(engine: Engine) -> dict[str, tuple[model.Family, tuple[str, ...]]]:
    """Return each family, and the collectors that it is from."""
    found: dict[str, tuple[model.Family, tuple[str, ...]]] = {}
    for family in (*_OWN, *device_changes.FAMILIES):
        found[family.name] = (family, ())
    for group in GROUPS:
        for family in group.families:
            found[family.name] = (family, tuple(group.sources))
    for name, status in engine.sources.items():
        for family in status.source.families:
            found[family.name] = (family, (name,))
    return found


def _samples(engine: Engine) -> Mapping[str, Sequence[model.Sample]]:
    """Return the newest samples by name, those of other exporters included."""
    found: dict[str, list[model.Sample]] = {}
    for chunk in engine.hub.chunks():
        for family, own in chunk.families if not chunk.name.startswith("node_") else ():
            found.setdefault(family.name, []).extend(own)
    for status in engine.sources.values():
        if status.source.node is not None and status.shown is not None:
            for sample in status.source.node(status.value):
                found.setdefault(sample[0], []).append(sample)
    return found


def _line(
    engine: Engine,
    name: str,
    owner: tuple[model.Family, tuple[str, ...]] | None,
    samples: Sequence[model.Sample],
    *,
    detailed: bool,
) -> documents.MetricLine:
    family, collectors = owner or (None, _exported_by(engine, name))
    seen = sorted({label for _, labels, _ in samples[:MAX_SHOWN] for label, _ in labels})
    shown = [Sample(*each) for each in samples[: MAX_SHOWN if detailed else 0]]
    return documents.MetricLine(
        name=name,
        type="unknown" if family is None else family.kind,
        unit=unit(name),
        labels=tuple(LABELS.get(name, seen)),
        help="" if family is None else family.help,
        collectors=collectors,
        series=len(samples),
        samples=result(shown, 0.0).samples,
        reason="" if samples else _reason(engine, collectors),
    )


def _exported_by(engine: Engine, name: str) -> tuple[str, ...]:
    """Return the collectors that have another exporter's metrics with such a name."""
    return tuple(
        key
        for key, status in engine.sources.items()
        if status.source.node_prefixes and name.startswith(status.source.node_prefixes)
    )[:1]


def _reason(engine: Engine, collectors: Iterable[str]) -> str:
    """Return why a metric has no series here."""
    wrong = [
        _problem(name, engine.sources.get(name))
        for name in collectors
        if engine.sources.get(name) is None or engine.sources[name].outcome() is not Outcome.OK
    ]
    if wrong:
        return "; ".join(wrong)
    if collectors:
        return "this host has no such object, or none in this state, or there are too few data yet"
    return "nothing to report now"


def _problem(name: str, status: SourceStatus[Any] | None) -> str:
    if status is None:
        return f"collector '{name}' is not in use"
    outcome = status.outcome()
    if outcome is None or status.reading is None:
        return f"collector '{name}' has not been polled yet"
    error = f": {status.reading.error}" if status.reading.error else ""
    return f"collector '{name}' is {outcome.value}{error}"
